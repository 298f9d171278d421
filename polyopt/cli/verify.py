"""``polyopt verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyopt.cli import settings as options

_WIDTH = 100  # columns, below which the tables would lose some of theirs


def verify(
    everything: Annotated[bool, typer.Option("--all", help="Also evaluate every cross-check.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Also write everything, with the mathematics, as one page.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Check every program, by every solver that can solve it.

    Primal, dual and the recovery of one from the other, on random data. With --all (or --html) also every
    cross-check: the identities that tie the programs, the solvers and the certificates to each other, each
    with what was computed and what is expected. Exit status 1 if anything falls short.
    """
    from polyopt.base.files import check_target
    from polyopt.cli.console import output, progress, say
    from polyopt.cli.stopping import raise_if_stopped, tell
    from polyopt.methods.registry import families
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
