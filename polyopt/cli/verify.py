"""``polyopt verify``: every program of the package, checked."""

from typing import Annotated

import typer
from typer import Option

from polyopt.cli import options
from polyopt.cli.console import output, progress, raise_if_stopped, tell
from polyopt.methods.registry import families

_WIDTH = 100  # columns of a terminal for all columns of the tables


def verify(
    everything: Annotated[bool, Option("--all", help="Also evaluate every cross-check.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Check every program, by every solver that can solve it.

    Primal, dual and the recovery of one from the other, on random data. With --all also every cross-check:
    the identities that tie the programs, the solvers and the certificates to each other, each with what was
    computed and what is expected. Exit status 1 if anything falls short.
    """
    from polyopt.verify import Check, falls_short, verification_table
    from polyopt.verify import verify as run

    checks: list[Check] = []
    tell("what was checked by then is printed")
    try:
        with progress("family", quiet, len(families())) as step:
            for name in families():
                step.name(name)
                checks += run(names=(name,))
                raise_if_stopped()
                step.done()
    finally:
        console = output(_WIDTH)
        console.print(verification_table(checks, console.width))
    failed = bool(falls_short(checks))
    if everything:
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
    if failed:
        raise typer.Exit(1)
