"""``polyopt handbook``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def handbook(
    page: Annotated[
        str | None,
        typer.Argument(
            help="A page to begin with, such as optimisation, certificates or tour.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the site into this folder, and do not open it.")
    ] = None,
) -> None:
    """Open the handbook: chapters, programs, reference, commands, results.

    It is built once for each version and kept; it needs no network, has a search, and works from files.
    """
    import webbrowser

    from polyopt.cli.console import progress, say
    from polyopt.cli.stopping import tell
    from polyopt.handbook.site import MARK, build_site, check_installed, kept_site, page_of, site_folder

    check_installed()
    page_of(Path(), page)
    tell("the handbook was not written")
    if out is not None:
        with progress("handbook", total=1) as step:
            build_site(out, tell=step.name)
        typer.echo(page_of(out, page))
        return
    if not (site_folder() / MARK).is_file():
        say("building the handbook; it is kept for the next time")
    with progress("handbook", total=1) as step:
        file = page_of(kept_site(step.name), page)
    typer.echo(file)
    if not webbrowser.open(file.as_uri()):
        say("no browser was found: open this file in one")
