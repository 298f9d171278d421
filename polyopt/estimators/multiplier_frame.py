"""Data frames ``duals_``: a row for each constraint, with its multiplier and slack.

The slack is the distance of the constraint from its bound, not the slack variable ξ of a margin.
:func:`multiplier_frame` is for classifiers with families of constraints, one constraint per sample;
:func:`hinge_columns` for faces fitted by linear programs, with a margin constraint per sample and face.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Array, Matrix
from formulations.polyhedral import belonging, scores

if TYPE_CHECKING:
    import pandas as pd

_MARGIN_TOL = 1e-6  # distance of an output from the margin 1 up to which it is on the margin

RowsShown: TypeAlias = tuple[str, str, NDArray[Any], NDArray[Any], NDArray[Any]]
"""A family of constraints: name, letter of the multipliers; multipliers, slacks and states (n,)."""


def margin_state(excess: NDArray[Any]) -> NDArray[np.str_]:
    """Return the state of each sample by its excess y f - 1, which is negative inside the margin."""
    inside = np.where(excess < -_MARGIN_TOL, "inside the margin", "on the margin")
    return np.where(excess > _MARGIN_TOL, "beyond the margin", inside)


def multiplier_frame(
    families: Sequence[RowsShown], rows: NDArray[Any], label: NDArray[Any], outputs: NDArray[Any]
) -> "pd.DataFrame":
    """Return one frame with the rows of all families, each in input order.

    rows, label, outputs (n,): row numbers of the samples in the data passed to ``fit``, labels and outputs.
    """
    import pandas as pd

    frames = [
        pd.DataFrame({
            "row": name, "letter": letter, "sample": rows, "label": label, "multiplier": multiplier,
            "slack": slack, "output": outputs, "state": state,
        })
        for name, letter, multiplier, slack, state in families
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def hinge_columns(
    X: Matrix, y: Array, costs: Array, W: Array, assignment: NDArray[np.int64], multipliers: Array | None
) -> dict[str, Any]:
    """Return the columns of ``duals_`` for the margin constraints of the Polyceptron and of PC-SLP.

    A sample inside (y = +1) has a constraint at every face, a sample outside one at the face of its
    `assignment`. The column "place" is the index of the sample in X, and "share" the multiplier relative to
    the cost of slack.

    costs (n,): costs of slack, the upper bounds of the multipliers.
    multipliers (n, K): None if the solver has none.
    """
    sample, face = np.nonzero(belonging(y, assignment, len(W), "all"))
    excess = y[sample] * scores(X, W)[sample, face] - 1.0
    u = np.full(len(sample), np.nan) if multipliers is None else multipliers[sample, face]
    return {
        "row": np.full(len(sample), "margin"),
        "letter": np.full(len(sample), "u"),
        "place": sample,
        "face": face,
        "multiplier": u,
        "share": u / costs[sample],
        "slack": np.maximum(excess, 0.0),
        "state": margin_state(excess),
    }
