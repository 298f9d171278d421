"""Frames ``duals_``: a multiplier for each sample and family of constraints, or each sample and face."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Array, Matrix
from formulations.polyhedral import belonging, scores

if TYPE_CHECKING:
    import pandas as pd

_MARGIN_TOL = 1e-6  # absolute tolerance of an output's distance from the margin 1

RowsShown: TypeAlias = "tuple[str, str, NDArray[Any], NDArray[Any], NDArray[Any]]"
"""A family of constraints: name, letter of the multipliers, multipliers, slacks, states."""


def margin_state(excess: NDArray[Any]) -> NDArray[np.str_]:
    """Return the state of each sample by its output: `excess` is y f - 1, negative inside the margin."""
    inside = np.where(excess < -_MARGIN_TOL, "inside the margin", "on the margin")
    return np.where(excess > _MARGIN_TOL, "beyond the margin", inside)


def multiplier_frame(
    families: Sequence[RowsShown], rows: NDArray[Any], label: NDArray[Any], outputs: NDArray[Any]
) -> pd.DataFrame:
    """Stack the families of constraints, each in input order.

    `rows` (n,) are the numbers of the samples in the data given to ``fit``.
    """
    import pandas as pd

    frames = [
        pd.DataFrame({
            "row": row, "letter": letter, "sample": rows, "label": label, "multiplier": multiplier,
            "slack": slack, "output": outputs, "state": state,
        })
        for row, letter, multiplier, slack, state in families
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def hinge_columns(
    X: Matrix, y: Array, costs: Array, W: Array, assignment: NDArray[np.int64], multipliers: Array | None
) -> dict[str, Any]:
    """Return a row for each margin constraint of the Polyceptron and of PC-SLP.

    A sample inside (y = +1) has a constraint at every face, a sample outside at the face of its `assignment`.
    The costs (n,) of slack bound the multipliers (n, K), which are None if the solver has none.
    """
    place, face = np.nonzero(belonging(y, assignment, len(W), "all"))
    margin = y[place] * scores(X, W)[place, face] - 1.0
    u = np.full(len(place), np.nan) if multipliers is None else multipliers[place, face]
    return {
        "row": np.full(len(place), "margin"),
        "letter": np.full(len(place), "u"),
        "place": place,
        "face": face,
        "multiplier": u,
        "share": u / costs[place],
        "slack": np.maximum(margin, 0.0),
        "state": margin_state(margin),
    }
