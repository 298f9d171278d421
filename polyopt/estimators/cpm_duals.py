"""The multipliers of a Convex Polytope Machine as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.polytope import lift
from formulations.recovery import slacks
from polyopt.estimators.multiplier_frame import margin_state

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.matrices import Matrix
    from formulations.polytope import Loss
    from formulations.solution import Solution

__all__ = ["duals_frame"]


def duals_frame(
    X: Matrix,
    y: NDArray[Any],
    C: NDArray[Any],
    solution: Solution,
    Z: NDArray[Any],
    loss: Loss,
    rows: NDArray[Any],
    labels: NDArray[Any],
) -> pd.DataFrame:
    """One row per constraint margin and slack, samples in input order.

    The state of a sample follows from its multiplier; without multipliers from its output.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples as the solver saw them.
    y : ndarray of shape (n,)
        Labels: -1 inside, +1 outside.
    C : ndarray of shape (n,)
        Cost of slack per sample.
    solution : Solution
        With ``W``, and the multipliers ``margin`` if there are any.
    Z : ndarray of shape (n, K)
        Which faces answer for which sample, 1 or 0.
    loss : {"sum", "max"}
        Whether a negative has a slack for every face, or one for all.
    rows : ndarray of int, shape (n,)
        Numbers of the samples in the data given to ``fit``.
    labels : ndarray of shape (2,)
        The class outside, and the one inside.
    """
    import pandas as pd

    outputs = np.asarray(lift(X) @ solution["W"].T)
    alpha = solution.duals.get("margin", np.full(outputs.shape, np.nan))
    hinge = slacks(outputs, y[:, None])
    shared = (y < 0) & (loss == "max")
    xi = np.where(shared[:, None], hinge.max(axis=1, keepdims=True), hinge)
    sample, face = np.nonzero(Z)
    label = labels[(y < 0).astype(int)]
    small = 1e-6 * float(C.max())
    own, f, cost = alpha[sample, face], outputs[sample, face], C[sample]
    state = margin_state(y[sample] * f - 1.0)  # of SGD, which has no multipliers
    if "margin" in solution.duals:
        inside = np.where(own >= cost - small, "inside the margin", "on the margin")
        state = np.where(own <= small, "beyond the margin", inside)
    margin = {
        "row": "margin",
        "letter": "alpha",
        "sample": rows[sample],
        "face": face,
        "label": label[sample],
        "multiplier": own,
        "slack": y[sample] * f - 1.0 + xi[sample, face],
        "output": f,
        "state": state,
    }
    # A shared slack is one constraint, whose price its faces divide between them.
    first = ~shared[sample] | (face == 0)
    left = np.where(shared[sample], C[sample] - alpha.sum(axis=1)[sample], cost - own)
    used = xi[sample, face]
    slack = {
        "row": "slack",
        "letter": "beta",
        "sample": rows[sample],
        "face": np.where(shared[sample], -1, face),
        "label": label[sample],
        "multiplier": left,
        "slack": used,
        "output": f,
        "state": np.where(used > 1e-6, "slack in use", "no slack"),
    }
    return pd.concat([pd.DataFrame(margin), pd.DataFrame(slack)[first]], ignore_index=True)
