"""The multipliers of a Convex Polytope Machine as a table, the attribute ``duals_``.

:func:`duals_frame` has a row for each margin constraint y_i W_k·x̃_i ≥ 1 − ξ_ik [alpha] and each slack
ξ_ik ≥ 0 [beta] of sample i and face W_k; x̃_i is x_i with a 1 appended. With loss="max" a negative has one
slack ξ_i for all faces together. :func:`penalty_rows` has the rows of the penalty on the weights and of the
sign constraints.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.recovery import slacks
from formulations.language.solution import Solution
from formulations.language.types import Matrix
from formulations.polytope import Loss, lift
from polyopt.estimators.frames import margin_state

if TYPE_CHECKING:
    import pandas as pd

_ZERO_TOL = 1e-6  # largest slack, and largest multiplier relative to the largest cost, that count as 0


def duals_frame(
    X: Matrix, y: NDArray[Any], C: NDArray[Any], solution: Solution, Z: NDArray[Any], loss: Loss,
    rows: NDArray[Any], labels: NDArray[Any],
) -> "pd.DataFrame":  # fmt: skip
    """Return the rows of the margin constraints and slacks, in the order of the samples.

    Column ``slack`` is ξ for a slack, and y f − 1 + ξ for a margin constraint; f is the face's score. Column
    ``state`` of a margin constraint follows from α: "inside the margin" if α = C_i, "beyond the margin" if
    α = 0, else "on the margin" (or inside, if faces tie for a common ξ_i); without α it follows from y f.

    X (n, m): samples, scaled as for the solver.
    y, C (n,): labels, +1 outside and -1 inside, and costs of slack.
    Z (n, K): 1 if a sample has a margin constraint at face k.
    rows (n,): numbers of the samples in the data given to ``fit``.
    labels: the class outside and the class inside.
    """
    import pandas as pd

    outputs = np.asarray(lift(X) @ solution["W"].T)
    alpha = solution.duals.get("margin", np.full(outputs.shape, np.nan))
    hinge = slacks(outputs, y[:, None])
    has_one_slack = (y < 0) & (loss == "max")  # for all faces together
    sample, face = np.nonzero(Z)  # of each margin constraint
    tol = _ZERO_TOL * float(C.max())
    multiplier, output, cost = alpha[sample, face], outputs[sample, face], C[sample]
    xi = np.where(has_one_slack[:, None], hinge.max(axis=1, keepdims=True), hinge)[sample, face]
    if "margin" in solution.duals:
        state = np.where(multiplier >= cost - tol, "inside the margin", "on the margin")
        state = np.where(multiplier <= tol, "beyond the margin", state)
    else:  # SGD has no multipliers
        state = margin_state(y[sample] * output - 1.0)
    label = labels[(y[sample] < 0).astype(int)]
    margin_rows = pd.DataFrame({
        "row": "margin", "letter": "alpha", "sample": rows[sample], "face": face, "label": label,
        "multiplier": multiplier, "slack": y[sample] * output - 1.0 + xi, "output": output, "state": state,
    })  # fmt: skip
    # A slack common to all faces has β_i = C_i − Σ_k α_ik, the slack of one face β_ik = C_i − α_ik.
    slack_multiplier = cost - np.where(has_one_slack[sample], alpha.sum(axis=1)[sample], multiplier)
    slack_rows = pd.DataFrame({
        "row": "slack", "letter": "beta", "sample": rows[sample],
        "face": np.where(has_one_slack[sample], -1, face), "label": label, "multiplier": slack_multiplier,
        "slack": xi, "output": output, "state": np.where(xi > _ZERO_TOL, "slack in use", "no slack"),
    })  # fmt: skip
    is_first = ~has_one_slack[sample] | (face == 0)  # a common slack has one row, with the output of face 0
    return pd.concat([margin_rows, slack_rows[is_first]], ignore_index=True)


def penalty_rows(
    penalty: FacePenalty, V: NDArray[Any], W: NDArray[Any], names: ArrayLike | None = None
) -> "pd.DataFrame":
    """Return the multipliers of the ℓ1 and group penalties and of the signs: a row per face and feature.

    The weights satisfy 2 W = V − r − q + σδ with multipliers r of the ℓ1 penalty, q of the groups, and δ of
    the signs σ. Columns as in :func:`duals_frame`, but ``sample`` is -1, ``label`` is None, ``output`` is the
    weight, ``state`` tells if the weight is zero, and ``feature`` is there instead of ``slack``.

    V, W (K, m+1): the sums v_k = Σ_i α_ik y_i x̃_i, and the faces.
    names (m,): names of the features; by default their numbers.
    """
    import pandas as pd

    r, q, delta = penalty.dual_variables(V)
    face_index, feature_index = (index.ravel() for index in np.indices(r.shape))
    feature_names = np.array(range(penalty.n_features) if names is None else names, dtype=object)
    weight, all_pairs = W[:, :-1].ravel(), np.ones(r.size, dtype=bool)  # pairs of a face and a feature
    kinds: list[tuple[str, str, Any, Any]] = []  # row name, letter, multipliers (K, m), mask of rows to list
    if penalty.l1 > 0.0:
        kinds.append(("upper", "r_plus", np.maximum(r, 0.0), all_pairs))
        kinds.append(("lower", "r_minus", np.maximum(-r, 0.0), all_pairs))
    if penalty.group > 0.0:
        kinds.append(("group", "q", q, all_pairs))
    if penalty.signs.any():
        kinds.append(("sign", "delta", delta, penalty.signs[feature_index] != 0))
    frames = [
        pd.DataFrame({
            "row": row, "letter": letter, "sample": -1,
            "label": np.full(int(mask.sum()), None, dtype=object), "face": face_index[mask],
            "feature": feature_names[feature_index[mask]], "multiplier": values.ravel()[mask],
            "output": weight[mask], "state": np.where(weight[mask] != 0.0, "in use", "held at zero"),
        })
        for row, letter, values, mask in kinds
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)
