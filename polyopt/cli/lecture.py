"""``polyopt lecture``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyopt.base.text import visible
from polyopt.cli.console import progress


def lecture(
    name: Annotated[
        str | None, typer.Argument(help="Which lecture; without one, they are listed.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; by default lecture-NAME.", show_default=False)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace its files in a folder that is not empty.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Write a lecture: slides, exercises, their solutions, pictures, programs.

    The slides are one page that needs no network: arrows, space and Home turn it,
    n shows what the speaker says, f fills the screen; it prints a slide a page.
    Exercises and solutions are notebooks, pictures are SVG, programs are LaTeX.
    """
    from polyopt.lecture import LECTURES, check_folder, find_lecture, lecture_files, write_folder

    if name is None:
        if out is not None or force:
            raise ValueError("--out and --force are of one lecture: name it")
        width = max(map(len, LECTURES))
        for known in LECTURES.values():
            typer.echo(f"{known.name:<{width}}  {known.title}")
        return
    found = find_lecture(name)
    folder = Path(f"lecture-{found.name}") if out is None else out
    check_folder(folder, force)
    with progress("part", quiet, total=4) as part:

        def begin(words: str) -> None:
            part.done(part.text != "")
            part.name(words)

        files = lecture_files(found, on_step=begin)
    write_folder(folder, files, force=force)
    typer.echo(f"{found.title}: {visible(str(folder))}")
    for file, text in files.items():
        typer.echo(f"  {file:<28}{len(text.encode()) / 1000:>7.0f} kB")
