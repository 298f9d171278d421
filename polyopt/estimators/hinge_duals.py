"""Columns of ``duals_`` for the polyhedral classifiers that pay hinges: the Polyceptron and PC-SLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.polyhedral import belonging, scores
from polyopt.estimators.multiplier_frame import margin_state

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Array, Matrix

__all__ = ["hinge_columns"]


def hinge_columns(
    X: Matrix, y: Array, costs: Array, W: Array, assignment: NDArray[np.int64], multipliers: Array | None
) -> dict[str, Any]:
    """One row for each sample and face at which it must keep its margin.

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
