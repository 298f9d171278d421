"""Convergence of a solver: objective and proven bound by iteration."""

from typing import Any

import numpy as np
import pandas as pd

from formulations.language.solution import Solution

UNITS = ("iteration", "epoch", "step", "round", "pass")
"""Columns of records that count, as a solver names its steps."""


def records_of(run: Any) -> pd.DataFrame:
    """Return the records of a fitted estimator, a solution, or records themselves, one row each."""
    if isinstance(run, Solution):
        return pd.DataFrame(list(run.history))
    return run if isinstance(run, pd.DataFrame) else run.history_


def unit_of(records: pd.DataFrame) -> str:
    """Return the column of records that counts: iteration, epoch, step or round."""
    return next((name for name in UNITS if name in records), UNITS[0])


def trace(run: Any) -> pd.DataFrame:
    """Return ``iteration``, ``objective`` and, if known, ``bound`` of a run's records.

    Of several starts, the best; empty for a solver that records no objective.
    """
    history = records_of(run)
    if "objective" not in history:
        return pd.DataFrame(columns=["iteration", "objective"], dtype=float)
    if "start" in history:
        best = history["start"].iloc[np.nanargmin(history["objective"])]
        history = history[history["start"] == best]
    unit = unit_of(history)
    columns = [name for name in (unit, "objective", "bound") if name in history]
    # Decomposition has no objective while samples are shrunk.
    return history[columns].dropna(subset="objective").rename(columns={unit: "iteration"})
