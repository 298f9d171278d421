"""Frames of multipliers, ``duals_``: with one multiplier per sample and row, or one per sample and face."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from formulations.polyhedral import belonging, scores

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.language.types import Array, Matrix

__all__ = ["RowsShown", "hinge_columns", "margin_state", "multiplier_frame"]

_MARGIN_TOL = 1e-6  # of an output, whose margin is 1

RowsShown: TypeAlias = "tuple[str, str, NDArray[Any], NDArray[Any], NDArray[Any]]"
"""A family of rows: its name, the letter of its multipliers, these, the slack of its rows, their states."""


def margin_state(excess: NDArray[Any]) -> NDArray[np.str_]:
    """State of each sample by its output alone: `excess` is y f - 1, negative inside the margin."""
    inside = np.where(excess < -_MARGIN_TOL, "inside the margin", "on the margin")
    return np.where(excess > _MARGIN_TOL, "beyond the margin", inside)


def multiplier_frame(
    families: Sequence[RowsShown], rows: NDArray[Any], label: NDArray[Any], outputs: NDArray[Any]
) -> pd.DataFrame:
    """The families below one another, each in input order.

    families: the families of rows.
    rows (n,): numbers of the samples in the data given to ``fit``.
    label, outputs (n,): their labels, and the machine's outputs.
    """
    import pandas as pd

    frames = [
        pd.DataFrame(
            {
                "row": row,
                "letter": letter,
                "sample": rows,
                "label": label,
                "multiplier": multiplier,
                "slack": slack,
                "output": outputs,
                "state": state,
            }
        )
        for row, letter, multiplier, slack, state in families
    ]
    return pd.concat(frames, ignore_index=True)


def hinge_columns(
    X: Matrix, y: Array, costs: Array, W: Array, assignment: NDArray[np.int64], multipliers: Array | None
) -> dict[str, Any]:
    """One row for each sample and face at which it must keep its margin: Polyceptron and PC-SLP.

    X (n, m): samples.
    y (n,): labels: +1 inside, which is to be right at every face; -1 outside, right at the face of its cell.
    costs (n,): what a unit of slack costs: the largest multiplier.
    W (K, m+1): faces, the bias last.
    assignment (n,): the cell of each sample.
    multipliers (n, K): of the margins; None where the solver has none.
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
