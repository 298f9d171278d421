"""``polyopt catalogue``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from polyopt.cli.completion import complete_family

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from formulations.catalogue import Entry


_MIN_WIDTH, _FULL_WIDTH = 64, 110  # columns: for the longest name, and for the source beside it


def catalogue(
    family: Annotated[
        str | None,
        typer.Argument(
            help="A family (rmm); all by default.", show_default=False, autocompletion=complete_family
        ),
    ] = None,
) -> None:
    """List every program: paper, equation, class, size, and the dual beside it.

    Classes: LP, QP, QCQP (second-order cones among them), SDP, EXP (logarithms), MILP, MIQP. Sizes
    are those on the small data on which each family states its programs. polyopt show NAME prints one.
    """
    from polyopt.cli.console import output
    from polyopt.methods.programs import entries as list_programs

    entries = list_programs(None if family is None else (family.strip().replace("-", "_"),))
    console = output(_MIN_WIDTH)
    console.print(_table(entries, compact=console.width < _FULL_WIDTH))


def _table(entries: Sequence[Entry], compact: bool) -> Table:
    """The list; where there is little room the source stands under the name."""
    from rich.console import Group, RenderableType
    from rich.padding import Padding
    from rich.table import Table

    names: list[RenderableType]
    with_dual = sum(bool(entry.partner) for entry in entries)
    table = Table(
        title="Programs", title_justify="left", caption_justify="left", box=None, pad_edge=False,
        header_style="bold",
        caption=f"{len(entries)} programs, {with_dual} of them in primal-dual pairs; sizes on small data",
    )  # fmt: skip
    table.add_column("name", no_wrap=not compact, ratio=1 if compact else None)
    if not compact:
        table.add_column("paper", ratio=1)
        table.add_column("equation", ratio=1)
    for header in ("class", "vars", "rows") if compact else ("class", "variables", "constraints"):
        table.add_column(header, justify="left" if header == "class" else "right", no_wrap=True)
    table.add_column("dual", no_wrap=True)
    family = paper = ""
    for entry in entries:
        if family and entry.family != family:
            table.add_row()
            paper = ""
        shown = "" if entry.paper == paper else entry.paper
        family, paper = entry.family, entry.paper
        source = (shown, entry.equation)
        if compact:
            place = Padding(", ".join(filter(None, source)), (0, 0, 0, 2))
            names = [Group(entry.name, place) if any(source) else entry.name]
        else:
            names = [entry.name, *source]
        table.add_row(
            *names, entry.program.kind, str(entry.n_variables),
            str(entry.n_constraints), "yes" if entry.partner else "–",
        )  # fmt: skip
    return table
