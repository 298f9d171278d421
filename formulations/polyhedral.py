"""Scores of faces, cells, and the criteria of the polyhedral family, in numpy alone.

The family is the Polyceptron, SPLA1, PC-SLP and PLUME. Each keeps the positives inside a polyhedral set
of K faces: with x̃ = (x, 1) and scores s_k = W_k·x̃, a sample is inside where h(x) = min_k s_k ≥ 0. The
cell of face k is where it has the least score; of equal scores the first face counts.

The Convex Polytope Machine keeps them outside, f = max_k: h of the faces W is −f of the faces −W
(:mod:`formulations.polytope`).

Criteria at W, for costs c_i:

=====================  ==============================================================================
criterion              E_P = Σ_i c_i [−y_i h_i]_+                        the Polyceptron's eq. (3)
margin_error           Σ_pos c_i Σ_k [1 − s_ik]_+ + Σ_neg c_i min_k [1 + s_ik]_+
separation_error       Σ_pos c_i max_k [1 − s_ik]_+ / Σ_pos c_i + Σ_neg c_i min_k [1 + s_ik]_+ / Σ_neg c_i
hard_loss              Σ_i c_i ln(1 + exp(−y_i h_i)) + ρ/2 ‖W‖²            SPLA1
...positives="all"     Σ_pos c_i Σ_k ln(1 + exp(−s_ik)) + Σ_neg c_i ln(1 + exp(h_i)) + ρ/2 ‖W‖²
=====================  ==============================================================================

References
----------
Manwani & Sastry, Polyceptron: A Polyhedral Learning Algorithm (2011). Manwani & Sastry, Learning
Polyhedral Classifiers Using Logistic Function (2010). Astorino & Gaudioso, Polyhedral Separability
Through Successive LP (2002).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from formulations.language.arguments import one_of
from formulations.language.types import Array, Matrix

Positives = Literal["cell", "all"]


SAMPLE_LETTERS = {
    "x̃ᵢ": "= (xᵢ, 1): with it the bias is the last weight",
    "xᵢ": "sample $i$",
    "yᵢ": "+1 inside the polytope, −1 outside",
}
RIDGE_LETTERS = {"ρ": "> 0: the ridge on the weights, the bias among them"}


def scores(X: Matrix, W: Array) -> Array:
    """Scores s_ik = W_k·x̃_i, an array of shape (n, K), without a lifted copy of X."""
    return np.asarray(X @ W[:, :-1].T) + W[:, -1]


def pull(X: Matrix, R: Array) -> Array:
    """Σ_i R_ik x̃_i for every face, an array of shape (K, m+1): the way back from :func:`scores`."""
    return np.column_stack([np.asarray(X.T @ R).T, R.sum(axis=0)])


def cells(X: Matrix, W: Array) -> NDArray[np.int64]:
    """Return the face with the least score for each sample, an array of int of shape (n,)."""
    return np.asarray(np.argmin(scores(X, W), axis=1))


def criterion(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> float:
    """E_P(W) of eq. (3): 0 where no sample is misclassified, and at W = 0, which says nothing."""
    return float(np.sum(c * np.maximum(0.0, -y * scores(X, W).min(axis=1))))


def criterion_gradient(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> Array:
    """Gradient (K, m+1) of E_P: −Σ c_i y_i x̃_i over the misclassified samples of each cell.

    The paper's update sums over all samples of the cell. A sample with h = 0 counts as misclassified, so
    that W = 0 is not a place to stay at. Arguments as in :func:`criterion`.
    """
    s = scores(X, W)
    k = np.argmin(s, axis=1)
    wrong = y * s[np.arange(len(y)), k] <= 0
    return -pull(X, np.where(wrong, c * y, 0.0)[:, None] * (k[:, None] == np.arange(len(W))))


def margin_error(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> float:
    """Σ of hinges: a positive pays at every face, a negative at the one where it pays least.

    What the exact Polyceptron minimises; arguments as in :func:`criterion`.
    """
    hinge = np.maximum(0.0, 1.0 - y[:, None] * scores(X, W))
    return float(np.sum(c * np.where(y > 0, hinge.sum(axis=1), hinge.min(axis=1))))


def best_scale(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> float:
    """Return the t > 0 at which the margin error of t W is least: a convex, piecewise linear function of t.

    Predictions do not depend on the scale of the faces, hinges do, so this is what makes faces that were
    learnt without a margin comparable. Where the least is at t = 0, the scale says nothing, and the scores
    are brought to a mean size of 1. Arguments as in :func:`criterion`.
    """
    s = scores(X, W)
    # Every sample at every face where it pays: a positive at all, a negative at that of its least score.
    counted = (y > 0)[:, None] | (np.argmin(s, axis=1)[:, None] == np.arange(len(W)))
    z, weights = (y[:, None] * s)[counted], np.broadcast_to(c * np.ones(len(y)), s.T.shape).T[counted]
    # The hinge [1 - t z]_+ has the slope -z: for z > 0 until t = 1/z, for z < 0 for ever.
    slope = -float(weights @ z)
    rising = z > 0
    order = np.argsort(-z[rising], kind="stable")
    ends = slope + np.cumsum((weights * z)[rising][order])
    if slope >= 0 or not len(ends):
        size = float(np.abs(s).mean())
        return 1.0 / size if size > 0 else 1.0
    # A little more, so that the margin that ends there can be certified in spite of rounding.
    return float((1.0 + 1e-9) / z[rising][order][np.argmax(ends >= -1e-12 * abs(slope))])


def separation_error(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> float:
    """z(W) of PC-SLP: the mean over positives of the worst hinge, plus that over negatives of the least.

    It is 2 at W = 0, and 0 exactly where the K faces separate the classes with a margin of 1.
    Arguments as in :func:`criterion`.
    """
    hinge = np.maximum(0.0, 1.0 - y[:, None] * scores(X, W))
    shares = class_shares(y, c)
    return float(shares @ np.where(y > 0, hinge.max(axis=1), hinge.min(axis=1)))


def class_shares(y: Array, c: Array | float = 1.0) -> Array:
    """Return the costs (n,) of the samples over those of their class: each class adds up to 1."""
    costs = np.broadcast_to(np.asarray(c, dtype=float), y.shape)
    inside = y > 0
    return np.asarray(costs / np.where(inside, costs[inside].sum(), costs[~inside].sum()))


def hard_loss(
    X: Matrix, y: Array, W: Array, c: Array | float = 1.0, ridge: float = 0.0, positives: Positives = "cell"
) -> float:
    """SPLA1's penalised negative log-likelihood, of P(y|x) = σ(y h(x))."""
    s = scores(X, W)
    paid = belonging(y, np.argmin(s, axis=1), len(W), positives) * np.logaddexp(0.0, -y[:, None] * s)
    return float(np.sum(c * paid.sum(axis=1)) + 0.5 * ridge * np.sum(W**2))


def belonging(y: Array, assignment: NDArray[np.int64], n_faces: int, positives: Positives = "cell") -> Array:
    """Return the 0/1 matrix (n, K) of which sample is in the program of which face."""
    check_positives(positives)
    own = assignment[:, None] == np.arange(n_faces)
    return np.where((y > 0)[:, None] & (positives == "all"), True, own).astype(float)


def check_positives(positives: str) -> None:
    """Refuse anything but "cell" and "all"."""
    one_of("positives", positives, ("cell", "all"))
