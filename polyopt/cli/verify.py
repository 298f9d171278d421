"""``polyopt verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_WIDTH = 100  # columns, below which the tables would lose some of theirs


def verify(
    everything: Annotated[bool, typer.Option("--all", help="Also evaluate every cross-check.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Also write everything, with the mathematics, as one page.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random data.")] = 0,
) -> None:
    """Check every program, by every solver that can solve it.

    Primal, dual and the recovery of one from the other, on random data. With --all (or --html) also every
    cross-check: the identities that tie the programs, the solvers and the certificates to each other, each
    with what was computed and what is expected. Exit status 1 if anything falls short.
    """
    from formulations import FAMILIES
    from polyopt.cli.console import output, progress, say
    from polyopt.verify import Check, falls_short, verification_table
    from polyopt.verify import verify as run

    if html is not None and html.is_dir():
        raise ValueError(f"--html: {html} is a folder; give the name of a file")
    if html is not None and not html.absolute().parent.is_dir():
        raise ValueError(f"--html: the folder {html.absolute().parent} does not exist")
    checks: list[Check] = []
    with progress(len(FAMILIES)) as step:
        for name in FAMILIES:
            step(name, 0)
            checks += run(seed, (name,))
            step(name, 1)
    output(_WIDTH).print(verification_table(checks))
    failed = bool(falls_short(checks))
    if everything or html is not None:
        from polyopt.crosschecks import CROSSCHECKS, Outcome, crosscheck_table
        from polyopt.crosschecks import run as evaluate

        outcomes: list[Outcome] = []
        with progress(len(CROSSCHECKS)) as step:
            for check in CROSSCHECKS:
                step(check.name, 0)
                outcomes.append(evaluate(check, seed))
                step(check.name, 1)
        output().print()
        output(_WIDTH).print(crosscheck_table(outcomes))
        failed = failed or any(outcome.verdict == "FAILS" for outcome in outcomes)
        if html is not None:
            from formulations.catalogue import catalogue
            from polyopt.report import write_verification

            write_verification(catalogue(seed=seed), checks, outcomes, html)
            say(f"page: {html}")
    if failed:
        raise typer.Exit(1)
