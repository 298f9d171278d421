"""PLUME's mixture of experts, in numpy alone: its probabilities, its two objectives, and their derivatives.

A sample x̃ = (x, 1) has the score s_k = W_k·x̃ on face k, row k of W (K, m+1). Its label is y = +1 inside, −1
outside. With the logistic function σ and a sharpness γ ≥ 0,

    P(y|x) = Σ_k g_k σ(y s_k)                     (3)   each face is an expert in its half-space
    g_k    = exp(−γ s_k) / Σ_j exp(−γ s_j)        (4)   the gate, largest for the face of least score
    r_k    = g_k σ(y s_k) / P(y|x)                (6)   the responsibilities of a sample

with the equation numbers of the paper. P(y|x) is σ(y min_k s_k) for γ → ∞, and the mean of the experts for
γ = 0. The two objectives, to be minimised, have sample weights c_i and a ridge ρ on weights and biases alike:

    loss      L(W)    = −Σ_i c_i ln P(y_i|x_i) + ρ/2 ‖W‖²
    expected  F(W; R) = −Σ_ik c_i R_ik (ln g_ik + ln σ(y_i s_ik)) + ρ/2 ‖W‖²

F is convex in W for fixed R (n, K), whose rows are nonnegative and add up to 1; L is not. EM alternates
R = r at the current W (E-step) and a decrease of F (M-step). For every R, L(W) ≤ F(W; R) − Σ_i c_i Ent(R_i)
with the entropy Ent(R_i) = −Σ_k R_ik ln R_ik. At R = r both sides and their gradients are equal: a step that
decreases F from there decreases L. The functions below take R = None for L.

With u_k = σ(−y s_k), t_k = y u_k − γ and δ_kl = 1 if k = l, else 0, the derivatives of a sample's term by its
scores, for c_i = 1, are

    ∂F/∂s_k       = γ (R_k − g_k) − R_k y u_k                                             (8)
    ∂²F/∂s_k∂s_l  = γ² (δ_kl g_k − g_k g_l) + δ_kl R_k u_k (1 − u_k)
    ∂²L/∂s_k∂s_l  = the same at R = r, less δ_kl r_k t_k² − r_k t_k r_l t_l

All is computed from logarithms, so that scores may have any finite size. Samples X that are not float64 are
converted in blocks of rows.

Reference
---------
Shah, Sastry & Manwani, PLUME: Polyhedral Learning Using Mixture of Experts (2019).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from formulations.language.arguments import at_least
from formulations.language.types import Array, Matrix
from formulations.polyhedral import pull, scores
from formulations.polytope import lift


def check_model(gamma: float, ridge: float) -> None:
    """Raise ValueError for a sharpness γ or a ridge ρ that is negative or not finite."""
    at_least("gamma", gamma, 0.0)
    at_least("ridge", ridge, 0.0)


def check_responsibilities(R: ArrayLike, shape: tuple[int, int | None]) -> Array:
    """Return R as an array of `shape` (n, K), with K = None for any number of faces.

    Raise ValueError if a row is not a distribution.
    """
    R = np.asarray(R, dtype=float)
    n, K = shape
    if R.ndim != 2 or len(R) != n or R.shape[1] != (K or max(R.shape[1], 1)):
        raise ValueError(f"responsibilities must be of shape ({n}, {K or 'K'}), not {R.shape}")
    if not (R >= 0).all() or np.abs(R.sum(axis=1) - 1.0).max() > 1e-8:
        raise ValueError("responsibilities must not be negative, and each row must add up to 1")
    return R


def scores_in_blocks(X: Matrix, W: Array) -> Array:
    """Return the scores s_ik = W_k·x̃_i, an array of shape (n, K), without a copy of X in float64."""
    return np.concatenate([scores(block, W) for _, block in _blocks(X)])


def gate(X: Matrix, W: Array, gamma: float) -> Array:
    """Return the gate g_k(x) of eq. (4), an array of shape (n, K) whose rows add up to 1."""
    return np.asarray(softmax(_log_gate(scores_in_blocks(X, W), gamma), axis=1))


def posterior(X: Matrix, W: Array, gamma: float) -> Array:
    """Return P(+1|x) of eq. (3), an array of shape (n,). Arguments as in :func:`gate`."""
    return np.asarray(expit(log_odds(X, W, gamma)))


def log_odds(X: Matrix, W: Array, gamma: float) -> Array:
    """Return the logarithm of P(+1|x) / P(−1|x), an array of shape (n,). Arguments as in :func:`gate`."""
    s = scores_in_blocks(X, W)
    log_gate = _log_gate(s, gamma)
    return _log_sum(log_gate - np.logaddexp(0.0, -s)) - _log_sum(log_gate - np.logaddexp(0.0, s))


def responsibilities(X: Matrix, y: Array, W: Array, gamma: float) -> Array:
    """Return the responsibilities of eq. (6), an array of shape (n, K) whose rows add up to 1."""
    s = scores_in_blocks(X, W)
    return np.asarray(softmax(_log_gate(s, gamma) - np.logaddexp(0.0, -y[:, None] * s), axis=1))


def loss(X: Matrix, y: Array, W: Array, gamma: float, c: Array | float = 1.0, ridge: float = 0.0) -> float:
    """Return the penalised negative log-likelihood L(W)."""
    return _evaluate(X, y, W, None, gamma, c, ridge, with_gradient=False)[0]


def expected(
    X: Matrix, y: Array, W: Array, R: Array, gamma: float, c: Array | float = 1.0, ridge: float = 0.0
) -> float:
    """Return the objective F(W; R) of the M-step."""
    return _evaluate(X, y, W, R, gamma, c, ridge, with_gradient=False)[0]


def value_and_gradient(
    X: Matrix, y: Array, W: Array, R: Array | None, gamma: float, c: Array | float = 1.0, ridge: float = 0.0
) -> tuple[float, Array]:
    """Return F(W; R) and its gradient (K, m+1); L(W) and its gradient if R is None."""
    return _evaluate(X, y, W, R, gamma, c, ridge, with_gradient=True)


def hessian(
    X: Matrix, y: Array, W: Array, R: Array | None, gamma: float, c: Array | float = 1.0, ridge: float = 0.0
) -> Array:
    """Return the Hessian (K(m+1), K(m+1)) of F(W; R), or of L(W) if R is None, by the rows of W.

    The block of a pair of faces is Σ_i d_i x̃_i x̃_i', where d_i is the second derivative by their scores.
    """
    K, width = W.shape
    c = np.broadcast_to(np.asarray(c, dtype=float), y.shape)
    H = np.zeros((K, width, K, width))
    pairs = [*zip(*np.triu_indices(K), strict=True)]
    for rows, block in _blocks(X, always=True):
        curvature = _curvature(scores(block, W), y[rows], None if R is None else R[rows], gamma)
        lifted = lift(block)
        for k, j in pairs:
            H[k, :, j] += _gram(lifted, c[rows] * curvature[k, j])
    for k, j in pairs:
        H[j, :, k] = H[k, :, j].T
    matrix = H.reshape(K * width, K * width)
    matrix.flat[:: K * width + 1] += ridge  # the diagonal
    return matrix


def multipliers(
    X: Matrix, y: Array, W: Array, R: Array | None, gamma: float, c: Array | float = 1.0
) -> Array:
    """Return α_ik = c_i [γ (g_ik − R_ik) + R_ik y_i u_ik], shape (n, K): minus the derivative of F by s_ik.

    At a stationary point ρ W_k = Σ_i α_ik x̃_i. For R = None, R is r and the derivative is that of L.
    """
    _, derivatives = _terms(scores_in_blocks(X, W), y, R, gamma)
    return -np.asarray(c)[..., None] * derivatives


def gradient_scale(
    X: Matrix, y: Array, W: Array, R: Array | None, gamma: float, c: Array | float = 1.0, ridge: float = 0.0
) -> float:
    """Return the largest of Σ_i |α_ik| |x̃_ij| and ρ |W_kj|, the scale of the gradient before cancellation.

    α are the :func:`multipliers`.
    """
    c = np.broadcast_to(np.asarray(c, dtype=float), y.shape)
    total = np.zeros_like(W)
    for rows, block in _blocks(X, always=True):
        R_block = None if R is None else R[rows]
        _, derivatives = _terms(scores(block, W), y[rows], R_block, gamma)
        total += pull(abs(block), np.abs(c[rows, None] * derivatives))
    return float(max(total.max(), ridge * np.abs(W).max()))


def _blocks(X: Matrix, always: bool = False, block_rows: int = 512) -> Iterator[tuple[slice, Any]]:
    """Yield (rows, X[rows] as float64): all rows at once if X is float64 already, unless `always` in blocks.

    A block of 512 rows stays in the processor's cache.
    """
    if X.dtype == np.float64 and not always:
        yield slice(None), X
        return
    for first in range(0, X.shape[0], block_rows):
        rows = slice(first, first + block_rows)
        yield rows, X[rows].astype(np.float64)


def _evaluate(
    X: Matrix, y: Array, W: Array, R: Array | None, gamma: float, c: Array | float, ridge: float,
    with_gradient: bool,
) -> tuple[float, Array]:  # fmt: skip
    """Return (F or L, its gradient); without `with_gradient` the second value is meaningless."""
    c = np.broadcast_to(np.asarray(c, dtype=float), y.shape)
    value = 0.5 * ridge * float(np.sum(W**2))
    gradient = ridge * W
    for rows, block in _blocks(X):
        R_block = None if R is None else R[rows]
        terms, derivatives = _terms(scores(block, W), y[rows], R_block, gamma, with_gradient)
        value += float(c[rows] @ terms)
        if with_gradient:
            gradient += pull(block, c[rows, None] * derivatives)
    return value, gradient


def _terms(
    s: Array, y: Array, R: Array | None, gamma: float, with_gradient: bool = True
) -> tuple[Array, Array]:
    """Return each sample's term of F or L (n,), and, if asked, the derivatives (n, K) by its scores."""
    S = np.ascontiguousarray(s.T)  # (K, n): for few faces, sums of long rows are faster than of short ones
    log_gate = _log_gate(S, gamma, axis=0)
    negated = -y * S
    decay = np.exp(-np.abs(negated))  # at most 1, so that it cannot overflow
    losses = np.maximum(negated, 0.0) + np.log1p(decay)  # −ln σ(y s)
    gate = np.exp(log_gate)  # g_k up to a factor of the sample, 1/total
    total = gate.sum(axis=0)
    terms = np.log(total)
    if R is None:  # the term of L is −ln P = ln total − ln Σ_k gate_k σ(y s_k)
        joint = log_gate - losses  # ln(gate_k σ(y s_k))
        largest = joint.max(axis=0)
        weights = np.exp(joint - largest)
        sums = weights.sum(axis=0)
        terms -= largest + np.log(sums)
    else:
        weights, sums = R.T, 1.0
        terms += np.sum(weights * (losses - log_gate), axis=0)
    if not with_gradient:
        return terms, np.empty((0, len(S)))
    r = weights / sums  # responsibilities, or R
    u = np.where(negated >= 0, 1.0, decay) / (1.0 + decay)  # σ(−y s)
    return terms, (gamma * (r - gate / total) - r * (y * u)).T


def _curvature(s: Array, y: Array, R: Array | None, gamma: float) -> Array:
    """Return the second derivatives by the scores of each sample: an array of shape (K, K, n)."""
    S = np.ascontiguousarray(s.T)
    log_gate, signed = _log_gate(S, gamma, axis=0), y * S
    g, u = softmax(log_gate, axis=0), expit(-signed)
    r = softmax(log_gate - np.logaddexp(0.0, -signed), axis=0) if R is None else R.T
    result = (-gamma * g)[:, None] * (gamma * g)
    diagonal = gamma**2 * g + r * u * (1.0 - u)
    if R is None:
        t = y * u - gamma
        result += (r * t)[:, None] * (r * t)
        diagonal -= r * t**2
    faces = np.arange(len(S))
    result[faces, faces] += diagonal
    return np.asarray(result)


def _log_gate(s: Array, gamma: float, axis: int = 1) -> Array:
    """Return ln g_k up to a constant of the sample, so that the largest entry is 0 (against overflow)."""
    return np.asarray(-gamma * (s - s.min(axis=axis, keepdims=True)))


def _log_sum(a: Array) -> Array:
    """Return the logarithm of the sum of exp(a) over each row."""
    largest = a.max(axis=1)
    return np.asarray(largest + np.log(np.exp(a - largest[:, None]).sum(axis=1)))


def _gram(lifted: Any, d: Array) -> Array:
    """Return Σ_i d_i x̃_i x̃_i', dense."""
    if isinstance(lifted, np.ndarray):
        return lifted.T @ (d[:, None] * lifted)
    return np.asarray((lifted.T @ lifted.multiply(d[:, None]).tocsr()).toarray())
