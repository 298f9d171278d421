"""How a solver approaches the optimum: objective and proven bound by iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Traced", "trace"]


class Traced(Protocol):
    """A fitted estimator that keeps its solver's records."""

    history_: pd.DataFrame


def trace(estimator: Traced) -> pd.DataFrame:
    """Objective and bound of a fitted binary estimator's solver, by iteration.

    Parameters
    ----------
    estimator : estimator
        A fitted one, of a binary problem.

    Returns
    -------
    DataFrame
        With columns ``iteration``, ``objective`` and, where it is known, ``bound``: the solver's
        records; of several starts, those of the one that was kept. Empty where it records no objective.
    """
    import pandas as pd

    history = estimator.history_
    if "objective" not in history:
        return pd.DataFrame(columns=["iteration", "objective"], dtype=float)
    if "start" in history:
        kept = history["start"].iloc[np.nanargmin(history["objective"])]
        history = history[history["start"] == kept]
    unit = next(name for name in ("iteration", "epoch", "step", "round") if name in history)
    columns = [name for name in (unit, "objective", "bound") if name in history]
    # Decomposition knows no objective while samples are set aside.
    return history[columns].dropna(subset="objective").rename(columns={unit: "iteration"})
