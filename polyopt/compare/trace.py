"""How a solver approaches the optimum: objective and proven bound by iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["trace"]


def trace(estimator: Any) -> pd.DataFrame:
    """Objective and bound of a fitted binary estimator's solver, by iteration.

    Parameters
    ----------
    estimator : estimator
        A fitted one, of a binary problem.

    Returns
    -------
    DataFrame
        With columns ``iteration``, ``objective`` and, where it is known, ``bound``: the solver's
        records; of several starts, those of the one that was kept.
    """
    history = estimator.history_
    if "start" in history:
        history = history[history["start"] == history.loc[history["objective"].idxmin(), "start"]]
    unit = "iteration" if "iteration" in history else "epoch"
    kept = [name for name in (unit, "objective", "bound") if name in history]
    # Decomposition knows no objective while samples are set aside.
    return history[kept].dropna(subset="objective").rename(columns={unit: "iteration"})
