"""How a solver approaches the optimum: objective and proven bound by iteration."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["trace"]

_ENOUGH = 4  # records that make a curve
_RUNS = 14


def trace(estimator: Any, X: Any, y: NDArray[Any]) -> pd.DataFrame:
    """Objective and bound of a fitted estimator's solver, by iteration.

    The solver's own records where there are enough of them. A run too short for its records is
    repeated with limits of 1, 2, 4, ... iterations, and each point it stopped at is certified: a
    solver that is deterministic passes through these points.

    Parameters
    ----------
    estimator : estimator
        A fitted one, of a binary problem.
    X : array_like or CSR of shape (n, m)
        Its training samples.
    y : array_like of shape (n,)
        Their labels.

    Returns
    -------
    DataFrame
        With columns ``iteration``, ``objective`` and, where it is known, ``bound``.
    """
    import pandas as pd

    history = estimator.history_
    if len(history) >= _ENOUGH:
        if "start" in history:  # the one that was kept
            history = history[history["start"] == history.loc[history["objective"].idxmin(), "start"]]
        unit = "iteration" if "iteration" in history else "epoch"
        kept = [name for name in (unit, "objective", "bound") if name in history]
        return history[kept].rename(columns={unit: "iteration"})
    limits = np.unique(np.geomspace(1, estimator.n_iter_, _RUNS).round().astype(int))
    records = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each run is stopped before its end, on purpose
        for limit in limits:
            certificate = clone(estimator).set_params(max_iter=int(limit)).fit(X, y).certificate()
            records.append((limit, certificate.primal_value, certificate.dual_value))
    return pd.DataFrame(records, columns=["iteration", "objective", "bound"])
