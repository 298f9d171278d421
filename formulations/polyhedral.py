"""Scores of faces, cells, and the criteria of the polyhedral machines, in numpy alone.

The machines are the Polyceptron, SPLA1, PC-SLP and PLUME. Each has the positives inside a polyhedral set of K
faces, the rows of W (K, m+1): with x̃ = (x, 1) and scores s_k = W_k·x̃, a sample is inside if h(x) = min_k s_k
≥ 0. The cell of face k is the set where face k has the least score; ties go to the first face. The Convex
Polytope Machine has the positives outside, f = max_k s_k (:mod:`formulations.polytope`): h of the faces W is
−f of the faces −W.

Criteria at W, for costs c_i and a ridge ρ ≥ 0; Σ_pos and Σ_neg are sums over the samples i of one class:

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

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from formulations.language.arguments import one_of
from formulations.language.types import Array, Matrix

Positives = Literal["cell", "all"]

# Explanations of symbols in printed formulas.
SAMPLE_LETTERS = {
    "x̃ᵢ": "= (xᵢ, 1): with it the bias is the last weight",
    "xᵢ": "sample $i$",
    "yᵢ": "+1 inside the polytope, −1 outside",
}
RIDGE_LETTERS = {"ρ": "> 0: the ridge on the weights, the bias among them"}


def scores(X: Matrix, W: Array) -> Array:
    """Return the scores s_ik = W_k·x̃_i (n, K), without a lifted copy of X."""
    return np.asarray(X @ W[:, :-1].T) + W[:, -1]


def pull(X: Matrix, R: Array) -> Array:
    """Return Σ_i R_ik x̃_i (K, m+1), the adjoint of :func:`scores`."""
    return np.column_stack([np.asarray(X.T @ R).T, R.sum(axis=0)])


def cells(X: Matrix, W: Array) -> NDArray[np.int64]:
    """Return the face with the least score for each sample, an array of int of shape (n,)."""
    return np.asarray(np.argmin(scores(X, W), axis=1))


def criterion(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> float:
    """Return E_P(W), which is 0 if no sample is misclassified, and also at W = 0."""
    return float(np.sum(c * np.maximum(0.0, -y * scores(X, W).min(axis=1))))


def criterion_gradient(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> Array:
    """Return the gradient (K, m+1) of E_P: −Σ c_i y_i x̃_i over the misclassified samples of each cell.

    Samples with h = 0 count as misclassified, so that the gradient is not zero at W = 0.
    """
    s = scores(X, W)
    cell = np.argmin(s, axis=1)
    is_wrong = y * s[np.arange(len(y)), cell] <= 0
    return -pull(X, np.where(is_wrong, c * y, 0.0)[:, None] * (cell[:, None] == np.arange(len(W))))


def margin_error(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> float:
    """Return the exact Polyceptron's objective: all hinges of positives, the least hinge of each negative."""
    hinge = np.maximum(0.0, 1.0 - y[:, None] * scores(X, W))
    return float(np.sum(c * np.where(y > 0, hinge.sum(axis=1), hinge.min(axis=1))))


def best_scale(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> float:
    """Return the t > 0 that minimises the margin error of t W, a convex, piecewise linear function of t.

    Predictions do not depend on the scale of the faces, but hinge losses do: at their best scales, faces
    learnt without a margin are comparable. If the minimum is at t = 0, return the t with a mean |score| of 1.
    """
    s = scores(X, W)
    # Pairs (i, k) in the margin error: all faces for a positive, the face of least score for a negative.
    in_sum = (y > 0)[:, None] | (np.argmin(s, axis=1)[:, None] == np.arange(len(W)))
    z = (y[:, None] * s)[in_sum]
    weights = np.broadcast_to(c * np.ones(len(y)), s.T.shape).T[in_sum]
    # The hinge [1 - t z]_+ has the slope -z: for z > 0 up to t = 1/z, for z < 0 for all t.
    slope_at_0 = -float(weights @ z)
    has_kink = z > 0  # in t, at 1/z
    order = np.argsort(-z[has_kink], kind="stable")
    # Slope of the error after each kink, in ascending order of t.
    slopes = slope_at_0 + np.cumsum((weights * z)[has_kink][order])
    if slope_at_0 >= 0 or not len(slopes):
        mean_score = float(np.abs(s).mean())
        return 1.0 / mean_score if mean_score > 0 else 1.0
    # Slightly above the minimiser, so that the margin attained there can be certified despite rounding.
    return float((1.0 + 1e-9) / z[has_kink][order][np.argmax(slopes >= -1e-12 * abs(slope_at_0))])


def separation_error(X: Matrix, y: Array, W: Array, c: Array | float = 1.0) -> float:
    """Return PC-SLP's objective: the mean largest hinge of positives, plus the mean least hinge of negatives.

    It is 2 at W = 0, and 0 if and only if the K faces separate the classes with a margin of 1.
    """
    hinge = np.maximum(0.0, 1.0 - y[:, None] * scores(X, W))
    weights = class_shares(y, c)
    return float(weights @ np.where(y > 0, hinge.max(axis=1), hinge.min(axis=1)))


def class_shares(y: Array, c: Array | float = 1.0) -> Array:
    """Return the cost (n,) of each sample divided by the sum of the costs of its class."""
    costs = np.broadcast_to(np.asarray(c, dtype=float), y.shape)
    is_positive = y > 0
    return np.asarray(costs / np.where(is_positive, costs[is_positive].sum(), costs[~is_positive].sum()))


def hard_loss(
    X: Matrix, y: Array, W: Array, c: Array | float = 1.0, ridge: float = 0.0, positives: Positives = "cell"
) -> float:
    """Return SPLA1's negative log-likelihood with a ridge, for P(y|x) = σ(y h(x)), σ(t) = 1/(1 + e^(−t)).

    "Hard" is the minimum over faces in h. With positives="all" every face has a loss at a positive, with
    "cell" only the face of its cell.
    """
    s = scores(X, W)
    losses = belonging(y, np.argmin(s, axis=1), len(W), positives) * np.logaddexp(0.0, -y[:, None] * s)
    return float(np.sum(c * losses.sum(axis=1)) + 0.5 * ridge * np.sum(W**2))


def belonging(y: Array, assignment: NDArray[np.int64], n_faces: int, positives: Positives = "cell") -> Array:
    """Return the matrix (n, K): 1 if face k has a loss at sample i, else 0; `assignment` (n,) are cells."""
    check_positives(positives)
    in_cell = assignment[:, None] == np.arange(n_faces)
    return np.where((y > 0)[:, None] & (positives == "all"), True, in_cell).astype(float)


def check_positives(positives: str) -> None:
    """Raise ValueError for anything but "cell" and "all"."""
    one_of("positives", positives, ("cell", "all"))
