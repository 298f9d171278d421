"""``polyopt catalogue`` and ``verify``: every program of the package, listed and checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from polyopt.base.files import check_target
from polyopt.cli import options
from polyopt.cli.console import output, progress, raise_if_stopped, say, tell
from polyopt.cli.options import complete_family
from polyopt.methods.registry import families

if TYPE_CHECKING:
    from rich.table import Table

    from polyopt.methods.programs import Entry


_MIN_WIDTH, _FULL_WIDTH = 64, 110  # columns: for the longest name, and for the source beside it


def catalogue(
    family: Annotated[
        str | None,
        Argument(help="A family (rmm); all by default.", show_default=False, autocompletion=complete_family),
    ] = None,
) -> None:
    """List every program: paper, equation, class, size, and the dual beside it.

    Classes: LP, QP, QCQP (second-order cones among them), SDP, EXP (logarithms), MILP, MIQP. Sizes
    are those on the small data on which each family states its programs. polyopt show NAME prints one.
    """
    from polyopt.methods.programs import entries as list_programs

    entries = list_programs(None if family is None else (family.strip().replace("-", "_"),))
    console = output(_MIN_WIDTH)
    console.print(_table(entries, compact=console.width < _FULL_WIDTH))


def _table(entries: Sequence[Entry], compact: bool) -> Table:
    """Return the list; where there is little room the source stands under the name."""
    from rich.console import Group, RenderableType
    from rich.padding import Padding

    from polyopt.crosschecks.registry import captioned_table

    names: list[RenderableType]
    with_dual = sum(bool(entry.partner) for entry in entries)
    caption = f"{len(entries)} programs, {with_dual} of them in primal-dual pairs; sizes on small data"
    table = captioned_table("Programs", caption)
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


_WIDTH = 100  # columns, below which the tables would lose some of theirs


def verify(
    everything: Annotated[bool, Option("--all", help="Also evaluate every cross-check.")] = False,
    html: Annotated[
        Path | None, Option(help="Also write everything, with the mathematics, as one page.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Check every program, by every solver that can solve it.

    Primal, dual and the recovery of one from the other, on random data. With --all (or --html) also every
    cross-check: the identities that tie the programs, the solvers and the certificates to each other, each
    with what was computed and what is expected. Exit status 1 if anything falls short.
    """
    from polyopt.verify import Check, falls_short, verification_table
    from polyopt.verify import verify as run

    check_target(html, "--html", is_alone=False)
    checks: list[Check] = []
    tell("no page was written, and what was checked by then is printed")
    try:
        with progress("family", quiet, len(families())) as step:
            for name in families():
                step.name(name)
                checks += run(names=(name,))
                raise_if_stopped()
                step.done()
    finally:
        output(_WIDTH).print(verification_table(checks))
    failed = bool(falls_short(checks))
    if everything or html is not None:
        from polyopt.crosschecks import Outcome, all_checks, crosscheck_table
        from polyopt.crosschecks import run as evaluate

        outcomes: list[Outcome] = []
        held = all_checks()
        try:
            with progress("cross-check", quiet, len(held)) as step:
                for check in held:
                    step.name(check.name)
                    outcome = evaluate(check)
                    raise_if_stopped()  # after Ctrl-C a solver's point is no answer
                    outcomes.append(outcome)
                    step.done()
        finally:
            output().print()
            output(_WIDTH).print(crosscheck_table(outcomes))
        failed = failed or any(outcome.verdict == "FAILS" for outcome in outcomes)
        if html is not None:
            from polyopt.methods.programs import entries
            from polyopt.report import write_verification

            write_verification(entries(), checks, outcomes, html)
            say(f"page: {html}")
    if failed:
        raise typer.Exit(1)
