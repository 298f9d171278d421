"""Faces of at most s features with a smooth convex loss: what given features are worth, and bounds.

The loss L(W) of faces W (K, m+1) is convex and smooth, and ρ/2 ‖W‖² is paid besides, as by SPLA1 for its
cells and by PLUME's M-step. L is at least its tangent plane at any W. So with the pulls P, the negative of
its slope there, faces that have the features of a node of a search cost at least

    L(W) + P·W − 1/(2ρ) Σ_k (P_kb² + Σ_{j in} P_kj² + the s − |in| largest P_kj² of the free).

The points come from the perspective relaxation. For weights z of the features its minimum is a smooth program
with the ridge ρ/z_kj, solved by Newton's method; for given W the best z of the free are min(1, |W_kj|/τ),
with a τ for each face such that they add up to s − |in|. The two alternate, with a power of |P_kj| that comes
sooner to where all |P_kj| with a z_kj below 1 are equal, as in :mod:`polyopt.solvers.cpm.subset`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from polyopt.solvers.choices import Choices, Fitted, Proof, Relaxed, most_of
from polyopt.solvers.logistic import positive_factor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.priced_newton import SmoothFaces

    Bits = NDArray[np.bool_]
    Integers = NDArray[np.int64]

__all__ = ["SmoothSubset"]

_CLOSE = 1e-12  # relative gap of faces that are refitted
_LONG = 25  # points of a relaxation at most
_STEPS = 100  # of Newton's method at most, for faces of given features
_SOME = 3  # points of a relaxation before one that gains too little ends it
_GAIN = 0.1  # of the distance to the cutoff: what a point must gain for another one
_POWER = 1.5  # of |P| in the step of the weights
_LEAST = 1e-3  # z of a feature that is free, which could never come back from 0
_FEW_STEPS, _ROUGH = 3, 1e-5  # steps for given weights z at most, and their relative gap
_SUFFICIENT, _LEAST_STEP = 1e-4, 1e-10  # of a line search
_ROUNDING = 1e-11  # of the terms of a bound, which their rounding does not come near to


class _Point(NamedTuple):
    """Faces, what they pay, and the slope of that, without what weights z add."""

    W: Vector
    value: float
    slope: Vector


class SmoothSubset(Choices):
    """Faces that are chosen together, by their smooth loss.

    Parameters
    ----------
    loss : callable
        Takes an array of columns of the samples to the loss of faces of these features, as a
        :class:`polyopt.solvers.priced_newton.SmoothFaces` with its ridge.
    n_features, n_faces, s : int
        m, K and s.
    ridge : float
        ρ, positive.
    constant : float
        What is taken off the loss: it is then never below 0.
    """

    def __init__(
        self, loss: Callable[[Integers], SmoothFaces], n_features: int, n_faces: int, s: int, *, ridge: float,
        constant: float = 0.0,
    ):  # fmt: skip
        super().__init__(n_features * n_faces, s, n_faces)
        self._loss, self.ridge, self.constant = loss, ridge, constant
        self._whole: SmoothFaces | None = None

    # -- vectors and faces -----------------------------------------------------------------------

    def faces(self, w: Vector) -> Vector:
        """The faces (K, m+1) of a vector (K m + K,)."""
        return np.column_stack([self.of_faces(w), w[self.m :]])

    def vector(self, W: Vector) -> Vector:
        """The vector of faces (K, m+1)."""
        return np.concatenate([W[:, :-1].ravel(), W[:, -1]])

    def pull(self, alpha: Vector) -> Vector:
        """What the samples pull at faces, given as a vector, in the same order."""
        if self._whole is None:
            self._whole = self._loss(np.arange(self.width))
        W = self.faces(alpha)
        return self.vector(self.ridge * W - self._whole(W)[1])

    def cost(self, w: Vector) -> float:
        """What faces cost, given as a vector."""
        W = self.faces(w)
        columns = np.flatnonzero((W[:, :-1] != 0.0).any(axis=0))
        return float(self._loss(columns)(W[:, np.append(columns, -1)])[0]) - self.constant

    # -- given features --------------------------------------------------------------------------

    def fit(
        self, features: ArrayLike, cutoff: float = np.inf, tol: float = 1e-9, w: Vector | None = None
    ) -> Fitted:
        """The best faces of these features; arguments as of :meth:`polyopt.solvers.choices.Choices.fit`."""
        chosen = np.unique(np.asarray(features, dtype=np.int64))
        bits = np.zeros(self.m, dtype=bool)
        bits[chosen] = True
        columns, active = self._columns(bits)
        smooth, none = self._loss(columns), np.zeros(active.shape)
        W = np.zeros(active.shape) if w is None else self.faces(w)[:, np.append(columns, -1)] * active
        point = self._at(smooth, W)
        bound = -np.inf
        for _ in range(_STEPS):
            off = np.where(active, point.slope, 0.0)
            bound = max(bound, self._less(point.value, float((off * off).sum()) / (2.0 * self.ridge)))
            if bound >= cutoff or point.value - bound <= tol * point.value:
                break
            following = self._newton(smooth, none, active, point)
            if following is None:
                break
            point = following
        whole = self._spread(point.W, columns)
        return Fitted(chosen, whole, whole, point.value, bound, Proof(whole, 1.0, bound))

    def refitted(self, W: Vector, free: Bits) -> Vector:
        """Faces (K, m+1) that are the best where they are free, and the same elsewhere.

        Parameters
        ----------
        W : ndarray of shape (K, m+1)
            Faces.
        free : ndarray of bool, shape (K, m+1)
            Their entries that may move.
        """
        smooth, none = self._loss(np.arange(self.width)), np.zeros(free.shape)
        point = self._at(smooth, W)
        for _ in range(_STEPS if free.any() else 0):
            off = np.where(free, point.slope, 0.0)
            following = self._newton(smooth, none, free, point)
            if following is None or float((off * off).sum()) <= _CLOSE * self.ridge * point.value:
                break
            point = following
        return point.W

    # -- a node ----------------------------------------------------------------------------------

    def relax(
        self, inside: Bits, out: Bits, w: Vector, cutoff: float, share: float = 0.2, *, cold: bool = False
    ) -> Relaxed:
        """Bound a node; arguments as of :meth:`polyopt.solvers.choices.Choices.relax`."""
        columns, active = self._columns(~out)
        smooth, at = self._loss(columns), np.append(columns, -1)
        held = self.of_faces(inside)[:, columns]
        free = active[:, :-1] & ~held
        left = self.s - self.of_faces(inside).sum(axis=1)
        point = self._at(smooth, self.faces(w)[:, at] * active)
        z = self._weights(np.abs(point.W[:, :-1]), free, left)
        best, value = Proof(w, 1.0, -np.inf), np.inf
        for stage in range(_LONG):
            more = np.column_stack([self.ridge * (1.0 / z - 1.0), np.zeros(self.n_faces)])
            point, before = self._settled(smooth, more, active, point), best.bound
            value = point.value + 0.5 * float((more * point.W**2).sum())
            P = self.ridge * point.W - point.slope  # only those of held and free entries are looked at
            bound = self._bound(point, P, held, free, left)
            if bound > best.bound:
                best = Proof(self._spread(point.W, columns), 1.0, bound)
            room = value if cutoff == np.inf else cutoff - best.bound
            if best.bound >= cutoff or (value <= cutoff and value - best.bound <= share * room):
                break
            if stage >= _SOME and cutoff < np.inf and best.bound - before < _GAIN * (cutoff - before):
                break
            z = self._weights(z * np.abs(P[:, :-1]) ** _POWER, free, left)
        return Relaxed(self._spread(point.W, columns), value, best)

    def _bound(self, point: _Point, P: Vector, held: Bits, free: Bits, left: Integers) -> float:
        squares = P[:, :-1] ** 2
        taken = float((P[:, -1] ** 2).sum() + squares[held].sum())
        order = -np.sort(-np.where(free, squares, 0.0), axis=1)
        taken += sum(float(order[k, : max(int(most), 0)].sum()) for k, most in enumerate(left))
        tangent = float((P * point.W).sum()) - 0.5 * self.ridge * float((point.W**2).sum())
        return self._less(point.value + tangent, taken / (2.0 * self.ridge))

    def _less(self, value: float, taken: float) -> float:
        """A value less what is taken off, and less their rounding."""
        found = value - taken - _ROUNDING * (abs(value) + abs(taken) + abs(self.constant))
        return found if np.isfinite(found) else -np.inf

    def _weights(self, sizes: Vector, free: Bits, left: Integers) -> Vector:
        """The weights z (K, columns): 1 where a feature is in."""
        z = np.ones(sizes.shape)
        for k, most in enumerate(left):
            own = sizes[k, free[k]]
            if len(own) > most and own.any():
                z[k, free[k]] = np.maximum(most_of(own, max(int(most), 0)), _LEAST)
            elif len(own) > most:
                z[k, free[k]] = max(most / len(own), _LEAST)
        return z

    # -- Newton's method -------------------------------------------------------------------------

    def _settled(self, smooth: SmoothFaces, more: Vector, active: Bits, point: _Point) -> _Point:
        """Some steps for given weights z."""
        for _ in range(_FEW_STEPS):
            off = np.where(active, point.slope + more * point.W, 0.0)
            gap = 0.5 * float((off**2 / (self.ridge + more)).sum())
            following = None if gap <= _ROUGH * point.value else self._newton(smooth, more, active, point)
            if following is None:
                break
            point = following
        return point

    def _newton(self, smooth: SmoothFaces, more: Vector, active: Bits, point: _Point) -> _Point | None:
        """A step of the loss with more ridge, in the active entries; None where nothing lower is there."""
        free = np.flatnonzero(active)
        off = (point.slope + more * point.W).ravel()[free]
        H = smooth.hessian(point.W)[np.ix_(free, free)]
        H.flat[:: len(free) + 1] += more.ravel()[free]
        scale = 1.0 / np.sqrt(np.maximum(np.abs(H.diagonal()), self.ridge))
        factor = positive_factor(H * scale[:, None] * scale)
        step = np.zeros(active.shape)
        step.flat[free] = -scale * cho_solve(factor, scale * off)
        slope, size = float(off @ step.ravel()[free]), 1.0
        now = point.value + 0.5 * float((more * point.W**2).sum())
        while size >= _LEAST_STEP:
            trial = self._at(smooth, point.W + size * step)
            value = trial.value + 0.5 * float((more * trial.W**2).sum())
            if value < now and value <= now + _SUFFICIENT * size * slope:
                return trial
            if -slope * size <= 1e-15 * abs(now):
                break
            size *= 0.5
        return None

    # -- parts -----------------------------------------------------------------------------------

    def _at(self, smooth: SmoothFaces, W: Vector) -> _Point:
        with np.errstate(over="ignore", invalid="ignore"):
            value, slope = smooth(W)
        return _Point(W, value - self.constant, slope)

    def _columns(self, bits: Bits) -> tuple[Integers, Bits]:
        """The columns that some face may use, and which entries (K, columns + 1) are then to be found."""
        mine = self.of_faces(bits)
        columns = np.flatnonzero(mine.any(axis=0))
        return columns, np.column_stack([mine[:, columns], np.ones(self.n_faces, dtype=bool)])

    def _spread(self, W: Vector, columns: Integers) -> Vector:
        """The vector of faces that have these columns alone."""
        whole = np.zeros((self.n_faces, self.width + 1))
        whole[:, columns], whole[:, -1] = W[:, :-1], W[:, -1]
        return self.vector(whole)
