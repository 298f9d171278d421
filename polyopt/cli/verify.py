"""``polyopt verify``."""

from __future__ import annotations

from typing import Annotated

import typer


def verify(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random data.")] = 0,
) -> None:
    """Check every program, by every solver that can solve it.

    Primal, dual and the recovery of one from the other, on random data; exit status 1 if any falls short.
    """
    from formulations import FAMILIES
    from polyopt.cli.console import output, progress
    from polyopt.verify import Check, falls_short, verification_table
    from polyopt.verify import verify as run

    checks: list[Check] = []
    with progress(len(FAMILIES)) as step:
        for name in FAMILIES:
            step(name, 0)
            checks += run(seed, (name,))
            step(name, 1)
    output().print(verification_table(checks))
    if falls_short(checks):
        raise typer.Exit(1)
