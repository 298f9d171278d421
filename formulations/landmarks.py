r"""How far landmarks hold a class of machines back: the traces behind U_G and U_H, for any kernel.

A landmark is a further sample u_j, of which no label is used, at which a class keeps its outputs small. The
classes G and H of :mod:`formulations.rmm_bounds` are held back by them, and both complexities are of the form
(2√(2E)/n) √τ(p), where p ≥ 0, Σ_j p_j = 1 are weights of the landmarks and

    τ(p) = Σ_i φ(x_i)' M(p)⁻¹ φ(x_i),      M(p) = I + D Σ_j p_j φ(u_j) φ(u_j)'.

Equal weights give U_G, and D = 0 gives U_F. U_H is the least of all:

    min  τ(p)   s.t.  p ≥ 0, Σ_j p_j = 1.

It is the program of U_H without its energy: λ = t p turns that into τ(p)/(n t) + 2E t/n, least at
t = √(τ(p)/2E). Statisticians know it as an A-optimal design.

Every p is a bound. Σ_j p_j (‖w‖² + D (w·φ(u_j))²) = w'M(p)w is at most 2E for every w in H, whatever p is,
and in G for equal weights. So Σ_i σ_i w·φ(x_i) ≤ √(2E) ‖M(p)^(-1/2) Σ_i σ_i φ(x_i)‖ by Cauchy-Schwarz, and by
Jensen its expectation over independent signs is at most √(2E τ(p)).

None is far below. With LL' = Σ_i φ(x_i)φ(x_i)' and any V put d_j = ‖V‖² + D ‖V'φ(u_j)‖². For every p', again
by Cauchy-Schwarz, tr(L'V)² ≤ τ(p') Σ_j p'_j d_j ≤ τ(p') max_j d_j. At V = M(p)⁻¹L, where
tr(L'V) = Σ_j p_j d_j = τ, that is

    min τ  ≥  τ² / (τ + Δ),      Δ = max_j q_j − Σ_j p_j q_j,      q_j = D ‖V'φ(u_j)‖² = −∂τ/∂p_j.

The samples enter only through their projection on the landmarks' span, and what is left of them through its
trace: all that is asked for is k(u, u), Σ_i k(u, x_i) k(x_i, u) and Σ_i k(x_i, x_i).

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), appendix. Pukelsheim, Optimal Design of Experiments
(1993).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from formulations.language.arguments import at_least
from formulations.language.recovery import gram_factor, square_sum
from formulations.language.types import dense

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.types import Array, Matrix

__all__ = ["Landmarks", "LeastTrace"]

_TO_BOUNDARY = 0.995  # share of the way to where a weight would vanish, that a step takes
_BLOCK_ROWS = 4096  # samples whose products with the landmarks are formed at once


@dataclass(frozen=True)
class LeastTrace:
    """Weights of the landmarks and the τ that they give.

    Attributes
    ----------
    trace : float
        τ(p), which bounds whether or not it is the least.
    weights : ndarray of shape (n_u,)
        p.
    gap : float
        1 − min τ/τ(p) is proven to be no more than this.
    iterations : int
        Steps that were made.
    """

    trace: float
    weights: Array
    gap: float
    iterations: int


class Landmarks:
    """Landmarks, and the samples as they are seen from them.

    Parameters
    ----------
    kernel : array_like of shape (n_u, n_u)
        k(u, u).
    products : array_like of shape (n_u, n_u)
        Σ_i k(u, x_i) k(x_i, u).
    sums : array_like of shape (n_u,)
        Σ_i k(u, x_i).
    n : int
        Samples.
    trace : float
        Σ_i k(x_i, x_i).

    Attributes
    ----------
    basis : ndarray of shape (n_u, r)
        Coordinates of the landmarks in their span, along its principal axes.
    moments : ndarray of shape (r, r)
        Σ_i of the samples' outer products there.
    outside : float
        Σ_i of the squared lengths of what the span leaves of them.
    missing : ndarray of shape (n_u,)
        Lengths of what the basis leaves of the landmarks: its numerical rank may be below r.
    """

    def __init__(self, kernel: ArrayLike, products: ArrayLike, sums: ArrayLike, n: int, trace: float):
        self.kernel, self.products = np.asarray(kernel, dtype=float), np.asarray(products, dtype=float)
        self.sums, self.n, self.trace = np.asarray(sums, dtype=float), int(n), float(trace)
        self.basis: Array = gram_factor(self.kernel) if self.kernel.any() else np.zeros((len(self.kernel), 0))
        left = np.diag(self.kernel) - (self.basis**2).sum(axis=1)
        self.missing: Array = np.sqrt(np.maximum(left, 0.0))
        inverse = self.basis / (self.basis**2).sum(axis=0)
        self.moments: Array = inverse.T @ self.products @ inverse
        self.outside = max(self.trace - float(np.trace(self.moments)), 0.0)

    @classmethod
    def of(cls, kernel: ArrayLike, blocks: Iterable[ArrayLike], trace: float) -> Landmarks:
        """From the kernel between samples and landmarks, which is read once, some samples at a time.

        Parameters
        ----------
        kernel : array_like of shape (n_u, n_u)
            k(u, u).
        blocks : iterable of array_like of shape (t, n_u)
            k(x, u), for all samples in turn.
        trace : float
            Σ_i k(x_i, x_i).
        """
        n, products, sums = 0, np.zeros(np.shape(kernel)), np.zeros(len(np.asarray(kernel)))
        for block in blocks:
            K = np.asarray(block, dtype=float)
            n, products, sums = n + len(K), products + K.T @ K, sums + K.sum(axis=0)
        return cls(kernel, products, sums, n, trace)

    @classmethod
    def linear(cls, X: Matrix, U: Matrix) -> Landmarks:
        """For the features themselves.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, m)
            Samples.
        U : ndarray or CSR matrix of shape (n_u, m)
            Landmarks.
        """
        blocks = (dense(X[start : start + _BLOCK_ROWS] @ U.T) for start in range(0, X.shape[0], _BLOCK_ROWS))
        return cls.of(dense(U @ U.T), blocks, square_sum(X))

    def with_constant(self, constant: float) -> Landmarks:
        """The same with one feature more, a constant: k + constant², which makes a weight of an intercept.

        Parameters
        ----------
        constant : float
            Value of the feature.
        """
        c = constant**2
        products = self.products + c * (self.sums[:, None] + self.sums[None, :]) + c * c * self.n
        return Landmarks(self.kernel + c, products, self.sums + c * self.n, self.n, self.trace + c * self.n)

    def equal_weights(self, D: ArrayLike) -> Any:
        """τ at equal weights, the trace of U_G, for every D of an array at once.

        Parameters
        ----------
        D : float or array_like
            Weight of the outputs, at least 0.
        """
        lengths = (self.basis**2).sum(axis=0) / len(self.basis)
        shrunk = np.diag(self.moments) / (1.0 + np.multiply.outer(np.asarray(D, dtype=float), lengths))
        return self.outside + shrunk.sum(axis=-1)

    def least(self, D: float, tol: float = 1e-8, max_iter: int = 100) -> LeastTrace:
        """The least τ, the trace of U_H, by a primal-dual interior point that begins at equal weights.

        Parameters
        ----------
        D : float
            Weight of the outputs, at least 0.
        tol : float
            The gap to prove.
        max_iter : int
            Steps at most; the best weights met are given in any case, with the gap that they have.
        """
        D = at_least("D", D, 0.0)
        n_u, R = len(self.basis), np.sqrt(D) * self.basis
        p = np.full(n_u, 1.0 / n_u)
        size = float(np.trace(self.moments)) or 1.0
        S = self.moments / size
        best = LeastTrace(np.inf, p, np.inf, 0)
        z = np.zeros(0)
        for iteration in range(max_iter + 1):
            inside, Y, q = _look(R, S, p)
            tau, excess = self.outside + size * inside, size * float(q.max() - p @ q)
            gap = excess / (tau + excess) if excess > 0 else 0.0
            if tau <= best.trace:
                best = LeastTrace(tau, p, gap, iteration)
            if gap <= tol or iteration == max_iter:
                break
            if not len(z):
                z = 1.1 * q.max() - q
            mu = 0.1 * float(p @ z) / n_u  # of the barrier, which each step lowers
            dp, dz = _direction(2.0 * (R @ Y) * (Y.T @ S @ Y), p, z, q, mu)
            step = _descent(R, S, p, dp, inside, q, mu)
            if step == 0.0:
                break
            p, z = p + step * dp, z + min(1.0, _TO_BOUNDARY * _room(z, dz)) * dz
            p = p / p.sum()
        return best


def _look(R: Array, S: Array, p: Array) -> tuple[float, Array, Array]:
    """tr(S M⁻¹), Y = M⁻¹R' and q_j = Y_j'S Y_j at p."""
    factor = cho_factor(np.eye(len(S)) + (R * p[:, None]).T @ R)
    Y = cho_solve(factor, R.T)
    return float(np.trace(cho_solve(factor, S))), Y, np.sum(Y * (S @ Y), axis=0)


def _direction(H: Array, p: Array, z: Array, q: Array, mu: float) -> tuple[Array, Array]:
    """Newton's step to −q(p) + ν − z = 0, Σp = 1, p_j z_j = mu, where q falls by H dp."""
    H[np.diag_indices_from(H)] += z / p
    solved = cho_solve(cho_factor(H), np.column_stack([q + mu / p, np.ones(len(p))]))
    nu = solved[:, 0].sum() / solved[:, 1].sum()
    dp = solved[:, 0] - nu * solved[:, 1]
    return dp, mu / p - z - z / p * dp


def _room(x: Array, dx: Array) -> float:
    """How far x may go along dx before an entry vanishes."""
    shrinks = dx < 0
    return float(np.min(-x[shrinks] / dx[shrinks], initial=np.inf))


def _descent(R: Array, S: Array, p: Array, dp: Array, inside: float, q: Array, mu: float) -> float:
    """The first of halved steps along which tr(S M⁻¹) − mu Σ ln p falls as it should; 0 if none does."""
    slope = -float((q + mu / p) @ dp)
    here = inside - mu * float(np.log(p).sum())
    step = min(1.0, _TO_BOUNDARY * _room(p, dp))
    for _ in range(30):
        there = p + step * dp
        M = np.eye(len(S)) + (R * there[:, None]).T @ R
        value = float(np.trace(cho_solve(cho_factor(M), S))) - mu * float(np.log(there).sum())
        if value <= here + 1e-4 * step * slope + 1e-14 * abs(here):
            return step
        step *= 0.5
    return 0.0
