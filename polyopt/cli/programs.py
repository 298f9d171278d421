"""``polyopt catalogue`` and ``verify``: every program of the package, listed and checked."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from polyopt.base.files import check_target
from polyopt.base.table import Column, terminal_table
from polyopt.cli import options
from polyopt.cli.console import output, progress, raise_if_stopped, say, tell
from polyopt.methods.registry import families

if TYPE_CHECKING:
    from rich.table import Table

    from polyopt.methods.programs import Entry


_CATALOGUE_WIDTH, _VERIFY_WIDTH = 110, 100  # columns of a terminal for all columns of the tables


def catalogue(
    family: Annotated[
        str | None, Argument(help="A family (rmm); all by default.", show_default=False)
    ] = None,
) -> None:
    """List every program: paper, equation, class, size, and the dual beside it.

    Classes: LP, QP, QCQP (second-order cones among them), SDP, EXP (logarithms), MILP, MIQP. Sizes
    are those on the small data on which each family states its programs. polyopt show NAME prints one.
    """
    from polyopt.methods.programs import entries as list_programs

    entries = list_programs(None if family is None else (family.strip().replace("-", "_"),))
    console = output(_CATALOGUE_WIDTH)
    console.print(_table(entries, console.width))


def _table(entries: "Sequence[Entry]", width: int) -> "Table":
    sources: dict[str, str] = {}  # by program, the paper only if the program above has another
    previous = ("", "")
    for entry in entries:
        paper, place = entry.source
        origin = (paper, place) if (entry.family, paper) != previous else (place,)
        previous = entry.family, paper
        sources[entry.name] = ", ".join(filter(None, origin))
    columns: list[Column[Entry]] = [
        Column("name", lambda entry: entry.name, is_text=True),
        Column("source", lambda entry: sources[entry.name], is_text=True, overflow="wrap"),
        Column("class", lambda entry: entry.program.kind, is_text=True),
        Column("variables", lambda entry: str(entry.n_variables)),
        Column("constraints", lambda entry: str(entry.n_constraints)),
        Column("dual", lambda entry: "yes" if entry.partner else "–", is_text=True),
    ]
    with_dual = sum(bool(entry.partner) for entry in entries)
    return terminal_table(
        columns, entries, width, title="Programs", group=lambda entry: entry.family,
        caption=f"{len(entries)} programs, {with_dual} of them in primal-dual pairs; sizes on small data",
    )  # fmt: skip


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
        console = output(_VERIFY_WIDTH)
        console.print(verification_table(checks, console.width))
    failed = bool(falls_short(checks))
    if everything or html is not None:
        from polyopt.crosschecks import Outcome, all_checks, crosscheck_table
        from polyopt.crosschecks import run as evaluate

        outcomes: list[Outcome] = []
        identities = all_checks()
        try:
            with progress("cross-check", quiet, len(identities)) as step:
                for check in identities:
                    step.name(check.name)
                    outcome = evaluate(check)
                    raise_if_stopped()  # after Ctrl-C a solver's point is not optimal
                    outcomes.append(outcome)
                    step.done()
        finally:
            console.print()
            console.print(crosscheck_table(outcomes, console.width))
        failed = failed or any(outcome.verdict == "FAILS" for outcome in outcomes)
        if html is not None:
            from polyopt.methods.programs import entries
            from polyopt.report import write_verification

            write_verification(entries(), checks, outcomes, html)
            say(f"page: {html}")
    if failed:
        raise typer.Exit(1)
