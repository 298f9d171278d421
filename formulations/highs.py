"""HiGHS, whose first solver in a process would print its name (from 1.16 on) where answers are printed."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["quiet_highs"]


@cache
def quiet_highs() -> Any:
    """The package ``highspy``, which has said its name by then, to nobody."""
    import highspy

    # `Highs` itself speaks before it can be told not to.
    first = highspy._Highs()  # type: ignore[attr-defined]
    first.setOptionValue("log_to_console", False)
    first.run()
    return highspy
