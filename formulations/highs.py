"""HiGHS: its options, and its first solver, which would print its name where answers are printed (1.16)."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["SIMPLEX", "quiet_highs"]

SIMPLEX = {
    "output_flag": False,
    "solver": "simplex",
    "simplex_strategy": 1,  # dual simplex, serial
    "parallel": "off",
    "threads": 1,
    "presolve": "off",  # it would begin without the basis
}
"""Options of a linear program that is solved again and again, from the basis that it had."""


@cache
def quiet_highs() -> Any:
    """The package ``highspy``, which has said its name by then, to nobody."""
    import highspy

    # `Highs` itself speaks before it can be told not to.
    first = highspy._Highs()  # type: ignore[attr-defined]
    first.setOptionValue("log_to_console", False)
    first.run()
    return highspy
