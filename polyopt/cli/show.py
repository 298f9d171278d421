"""``polyopt show``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from polyopt.cli import options
from polyopt.cli.options import complete_program

if TYPE_CHECKING:
    from formulations.language.program import Program


class Format(StrEnum):
    """Format of a printed program."""

    TEXT = "text"
    LATEX = "latex"
    MARKDOWN = "markdown"
    HTML = "html"


def show(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A family (rmm), a method (rmm-rbf) or a program (rmm.qp).",
            show_default=False,
            autocompletion=complete_program,
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.TEXT,
    solve: Annotated[
        str | None, typer.Option(help="A small table of two classes: print its optimum in fractions.")
    ] = None,
    others: options.Set = None,
) -> None:
    """Print a program's mathematics.

    Without a name, it lists what there is to show. With --format html it is a page that needs no network.
    """
    from itertools import groupby

    from polyopt.methods import METHODS
    from polyopt.methods.programs import entries, find_programs, text_of_family
    from polyopt.methods.registry import family_module, is_family

    if solve is None and others:
        raise ValueError("--set is of an optimum: name a table with --solve")
    if solve is not None:
        from polyopt.cli.worked import worked_example

        if name is None:
            raise ValueError("--solve needs the name of a method")
        typer.echo(worked_example(name, solve, options.read_settings(others)))
        return
    if name is None:
        for one, own in groupby(entries(), key=lambda entry: entry.family):
            typer.echo(f"{one.replace('_', '-')}: {', '.join(entry.name for entry in own)}")
        return
    wanted = name.strip().replace("-", "_")
    if is_family(wanted) and format is Format.TEXT:
        typer.echo(text_of_family(family_module(wanted), entries((wanted,))))
        return
    method = METHODS.get(name)
    if method is None or is_family(wanted):
        programs = find_programs(name)
    else:
        programs = [program for part in method.programs for program in find_programs(part)]
    if format is Format.HTML:
        from polyopt.report.programs import programs_page

        typer.echo(programs_page(programs))
        return
    typer.echo("\n\n".join(_printed(program, format) for program in programs))


def _printed(program: Program, format: Format) -> str:
    if format is Format.LATEX:
        return program._repr_latex_()
    return program._repr_markdown_() if format is Format.MARKDOWN else str(program)
