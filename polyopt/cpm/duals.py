"""The multipliers of a Convex Polytope Machine as a table, with those of prices and signs of its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.recovery import slacks
from formulations.language.solution import Solution
from formulations.language.types import Matrix
from formulations.polytope import Loss, lift
from polyopt.estimators.multiplier_frame import margin_state

if TYPE_CHECKING:
    import pandas as pd

_ZERO_TOL = 1e-6  # of a slack, and of a multiplier relative to the largest cost: it counts as 0


def duals_frame(
    X: Matrix, y: NDArray[Any], C: NDArray[Any], solution: Solution, Z: NDArray[Any], loss: Loss,
    rows: NDArray[Any], labels: NDArray[Any],
) -> pd.DataFrame:  # fmt: skip
    """Return a row per constraint margin and slack, samples X as the solver saw them in input order.

    Z (n, K) is 1 if a face answers for a sample, else 0; `rows` (n,) are the numbers of the samples in the
    data given to ``fit``, and `labels` the class outside, and the one inside. The state of a sample follows
    from its multiplier or, without multipliers, from its output.
    """
    import pandas as pd

    outputs = np.asarray(lift(X) @ solution["W"].T)
    alpha = solution.duals.get("margin", np.full(outputs.shape, np.nan))
    hinge = slacks(outputs, y[:, None])
    shared = (y < 0) & (loss == "max")
    xi = np.where(shared[:, None], hinge.max(axis=1, keepdims=True), hinge)
    sample, face = np.nonzero(Z)
    tol = _ZERO_TOL * float(C.max())
    multiplier, f, cost, slack_used = alpha[sample, face], outputs[sample, face], C[sample], xi[sample, face]
    state = margin_state(y[sample] * f - 1.0)  # of SGD, which has no multipliers
    if "margin" in solution.duals:
        inside = np.where(multiplier >= cost - tol, "inside the margin", "on the margin")
        state = np.where(multiplier <= tol, "beyond the margin", inside)
    label = labels[(y[sample] < 0).astype(int)]
    margin = pd.DataFrame({
        "row": "margin", "letter": "alpha", "sample": rows[sample], "face": face, "label": label,
        "multiplier": multiplier, "slack": y[sample] * f - 1.0 + slack_used, "output": f, "state": state,
    })  # fmt: skip
    # A shared slack is one constraint, whose price its faces divide between them.
    slack_multiplier = np.where(shared[sample], C[sample] - alpha.sum(axis=1)[sample], cost - multiplier)
    slack = pd.DataFrame({
        "row": "slack", "letter": "beta", "sample": rows[sample],
        "face": np.where(shared[sample], -1, face), "label": label, "multiplier": slack_multiplier,
        "slack": slack_used, "output": f,
        "state": np.where(slack_used > _ZERO_TOL, "slack in use", "no slack"),
    })  # fmt: skip
    return pd.concat([margin, slack[~shared[sample] | (face == 0)]], ignore_index=True)


def penalty_rows(
    penalty: FacePenalty, V: NDArray[Any], W: NDArray[Any], names: ArrayLike | None = None,
    q: NDArray[Any] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return the multipliers of prices and signs, a row for each face and feature.

    The columns are those of ``duals_``, with -1 for the sample and the weight for the output, and
    ``feature``, by its name if there are names. V, W (K, m+1) are the pulls at the faces, and the faces;
    q (K, m) are the multipliers of the groups, by default the best for the sum of all squares.
    """
    import pandas as pd

    r, best, delta = penalty.held(V if q is None else V - np.column_stack([q, np.zeros(len(q))]))
    q = best if q is None else q
    face, feature = (each.ravel() for each in np.indices(r.shape))
    features = np.array(range(penalty.n_features) if names is None else names, dtype=object)
    weight, all_pairs = W[:, :-1].ravel(), np.ones(len(face), dtype=bool)
    parts: list[tuple[str, str, Any, Any]] = []
    if penalty.l1 > 0.0:
        parts.append(("upper", "r_plus", np.maximum(r, 0.0), all_pairs))
        parts.append(("lower", "r_minus", np.maximum(-r, 0.0), all_pairs))
    if penalty.group > 0.0:
        parts.append(("group", "q", q, all_pairs))
    if penalty.signs.any():
        parts.append(("sign", "delta", delta, penalty.signs[feature] != 0))
    frames = [
        pd.DataFrame({
            "row": row, "letter": letter, "sample": -1,
            "label": np.full(int(mask.sum()), None, dtype=object), "face": face[mask],
            "feature": features[feature[mask]], "multiplier": values.ravel()[mask], "output": weight[mask],
            "state": np.where(weight[mask] != 0.0, "in use", "held at zero"),
        })
        for row, letter, values, mask in parts
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)
