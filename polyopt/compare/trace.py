"""Convergence of a solver: objective and proven bound by iteration."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd

from formulations.language.solution import Solution

_UNITS = ("iteration", "epoch", "step", "round")


class Traced(Protocol):
    """A fitted estimator that keeps its solver's records."""

    history_: pd.DataFrame


def records_of(run: Traced | Solution | pd.DataFrame) -> pd.DataFrame:
    """Return the records of a run, one row each, as its solver left them."""
    from formulations.language.solution import Solution

    if isinstance(run, Solution):
        return pd.DataFrame(list(run.history))
    return run if isinstance(run, pd.DataFrame) else run.history_


def unit_of(records: pd.DataFrame) -> str:
    """Return the name of what a solver counts, a column of its records: iteration, epoch, step or round."""
    return next((name for name in _UNITS if name in records), _UNITS[0])


def trace(run: Traced | Solution | pd.DataFrame) -> pd.DataFrame:
    """Objective and bound of a run, by iteration.

    run: A fitted estimator of a binary problem, a solution, or the records of either.
    Returns: with columns ``iteration``, ``objective`` and, where it is known, ``bound``: the solver's
        records; of several starts, those of the one that was kept. Empty where it records no objective.
    """
    history = records_of(run)
    if "objective" not in history:
        return pd.DataFrame(columns=["iteration", "objective"], dtype=float)
    if "start" in history:
        kept = history["start"].iloc[np.nanargmin(history["objective"])]
        history = history[history["start"] == kept]
    unit = unit_of(history)
    columns = [name for name in (unit, "objective", "bound") if name in history]
    # Decomposition knows no objective while samples are set aside.
    return history[columns].dropna(subset="objective").rename(columns={unit: "iteration"})
