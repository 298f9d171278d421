"""The multipliers of a Convex Polytope Machine as a table, the attribute ``duals_``.

:func:`duals_frame` has a row for each margin constraint y_i W_k·x̃_i ≥ 1 − ξ_ik [alpha] and each slack
ξ_ik ≥ 0 [beta]; :func:`penalty_rows` has the rows of the penalty on the weights and of their signs.
"""

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

_ZERO_TOL = 1e-6  # below which a slack, or a multiplier relative to the largest cost, counts as 0


def duals_frame(
    X: Matrix, y: NDArray[Any], C: NDArray[Any], solution: Solution, Z: NDArray[Any], loss: Loss,
    rows: NDArray[Any], labels: NDArray[Any],
) -> "pd.DataFrame":  # fmt: skip
    """Return the rows of the margin constraints and slacks, in the order of the samples.

    The state of a margin constraint follows from its multiplier or, without multipliers, from its output.

    X (n, m): samples, scaled as for the solver.
    y, C (n,): labels, +1 outside and -1 inside, and costs of slack.
    Z (n, K): 1 if a sample has a margin constraint at a face.
    rows (n,): numbers of the samples in the data given to ``fit``.
    labels: class outside, class inside.
    """
    import pandas as pd

    outputs = np.asarray(lift(X) @ solution["W"].T)
    alpha = solution.duals.get("margin", np.full(outputs.shape, np.nan))
    hinge = slacks(outputs, y[:, None])
    has_one_slack = (y < 0) & (loss == "max")  # for all faces together
    xi = np.where(has_one_slack[:, None], hinge.max(axis=1, keepdims=True), hinge)
    sample, face = np.nonzero(Z)
    tol = _ZERO_TOL * float(C.max())
    multiplier, f, cost, slack_used = alpha[sample, face], outputs[sample, face], C[sample], xi[sample, face]
    if "margin" in solution.duals:
        state = np.where(multiplier >= cost - tol, "inside the margin", "on the margin")
        state = np.where(multiplier <= tol, "beyond the margin", state)
    else:  # SGD has no multipliers
        state = margin_state(y[sample] * f - 1.0)
    label = labels[(y[sample] < 0).astype(int)]
    margin = pd.DataFrame({
        "row": "margin", "letter": "alpha", "sample": rows[sample], "face": face, "label": label,
        "multiplier": multiplier, "slack": y[sample] * f - 1.0 + slack_used, "output": f, "state": state,
    })  # fmt: skip
    # One slack of several faces: β_i = C_i − Σ_k α_ik, otherwise β_ik = C_i − α_ik.
    slack_multiplier = cost - np.where(has_one_slack[sample], alpha.sum(axis=1)[sample], multiplier)
    slack = pd.DataFrame({
        "row": "slack", "letter": "beta", "sample": rows[sample],
        "face": np.where(has_one_slack[sample], -1, face), "label": label, "multiplier": slack_multiplier,
        "slack": slack_used, "output": f,
        "state": np.where(slack_used > _ZERO_TOL, "slack in use", "no slack"),
    })  # fmt: skip
    return pd.concat([margin, slack[~has_one_slack[sample] | (face == 0)]], ignore_index=True)


def penalty_rows(
    penalty: FacePenalty, V: NDArray[Any], W: NDArray[Any], names: ArrayLike | None = None,
    q: NDArray[Any] | None = None,
) -> "pd.DataFrame":  # fmt: skip
    """Return the multipliers of the ℓ1 and group penalties and of the signs: a row per face and feature.

    The columns are those of :func:`duals_frame`, with -1 as sample and the weight as output, and ``feature``.

    V (K, m+1): the sums v_k = Σ_i α_ik y_i x̃_i.
    W (K, m+1): the faces.
    names (m,): names of the features; by default their numbers.
    q (K, m): multipliers of the groups; by default the optimal ones for margin="total".
    """
    import pandas as pd

    r, optimal_q, delta = penalty.dual_variables(
        V if q is None else V - np.column_stack([q, np.zeros(len(q))])
    )
    q = optimal_q if q is None else q
    face, feature = (index.ravel() for index in np.indices(r.shape))
    features = np.array(range(penalty.n_features) if names is None else names, dtype=object)
    weight, all_pairs = W[:, :-1].ravel(), np.ones(len(face), dtype=bool)
    families: list[tuple[str, str, Any, Any]] = []  # name, letter, multipliers (K, m), mask of the pairs
    if penalty.l1 > 0.0:
        families.append(("upper", "r_plus", np.maximum(r, 0.0), all_pairs))
        families.append(("lower", "r_minus", np.maximum(-r, 0.0), all_pairs))
    if penalty.group > 0.0:
        families.append(("group", "q", q, all_pairs))
    if penalty.signs.any():
        families.append(("sign", "delta", delta, penalty.signs[feature] != 0))
    frames = [
        pd.DataFrame({
            "row": row, "letter": letter, "sample": -1,
            "label": np.full(int(mask.sum()), None, dtype=object), "face": face[mask],
            "feature": features[feature[mask]], "multiplier": values.ravel()[mask], "output": weight[mask],
            "state": np.where(weight[mask] != 0.0, "in use", "held at zero"),
        })
        for row, letter, values, mask in families
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)
