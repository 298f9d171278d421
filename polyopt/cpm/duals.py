"""The multipliers of a Convex Polytope Machine as a table, those of prices and signs on its weights too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.recovery import slacks
from formulations.polytope import lift
from polyopt.estimators.multiplier_frame import margin_state

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from formulations.face_penalty import FacePenalty
    from formulations.language.solution import Solution
    from formulations.language.types import Matrix
    from formulations.polytope import Loss


__all__ = ["duals_frame", "penalty_rows"]


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

    X (n, m): samples as the solver saw them.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample.
    solution: with ``W``, and the multipliers ``margin`` if there are any.
    Z (n, K): which faces answer for which sample, 1 or 0.
    loss: whether a negative has a slack for every face, or one for all.
    rows (n,): numbers of the samples in the data given to ``fit``.
    labels (2,): the class outside, and the one inside.
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


def penalty_rows(
    penalty: FacePenalty, V: NDArray[Any], W: NDArray[Any], names: ArrayLike | None = None,
    q: NDArray[Any] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """The multipliers of prices and signs as a table, a row for each face and feature.

    The columns are those of ``duals_``, with -1 for the sample and the weight for the output, and
    ``feature``, by its name where there are names. V, W (K, m+1) are what pulls at the faces, and the faces;
    q (K, m) is what the price of groups holds, by default the best for the sum of all squares.
    """
    import pandas as pd

    r, best, delta = penalty.held(V if q is None else V - np.column_stack([q, np.zeros(len(q))]))
    q = best if q is None else q
    face, feature = (each.ravel() for each in np.indices(r.shape))
    known = np.array(range(penalty.n_features) if names is None else names, dtype=object)
    weight = W[:, :-1].ravel()
    signed = penalty.signs[feature] != 0
    parts: list[tuple[str, str, Any, Any]] = []
    if penalty.l1 > 0.0:
        here = np.ones(len(face), dtype=bool)
        parts += [
            ("upper", "r_plus", np.maximum(r, 0.0), here),
            ("lower", "r_minus", np.maximum(-r, 0.0), here),
        ]
    if penalty.group > 0.0:
        parts.append(("group", "q", q, np.ones(len(face), dtype=bool)))
    if signed.any():
        parts.append(("sign", "delta", delta, signed))
    frames = [
        pd.DataFrame(
            {
                "row": row,
                "letter": letter,
                "sample": -1,
                "label": np.full(int(here.sum()), None, dtype=object),
                "face": face[here],
                "feature": known[feature[here]],
                "multiplier": values.ravel()[here],
                "output": weight[here],
                "state": np.where(weight[here] != 0.0, "in use", "held at zero"),
            }
        )
        for row, letter, values, here in parts
    ]
    return pd.concat(frames, ignore_index=True)
