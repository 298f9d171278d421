"""The dual of a polytope whose weights have a price, by projected Newton steps.

For a fixed assignment and caps c_ik the dual of :mod:`formulations.cpm_sparse` with margin="total" is

    max  D(α) = Σ α − ¼ ‖shrunk V‖²,   V_k = Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ c_ik,

with the map of :mod:`formulations.face_penalty`. D is concave and once differentiable: its slope is
1 − y_i W_k·x̃_i at the faces W = ½ shrunk V. The map is piecewise smooth, so second derivatives exist almost
everywhere, and only the features in use have any. A step is

1. the pairs of sample and face that may move: all but those at a bound against which their slope points;
2. a Newton direction for them, with a multiple of the unit matrix added (Levenberg), for which a system as
   large as the weights in use is solved: the fewer they are, the cheaper is a step;
3. the best of a few lengths along it, clipped to the box (Bertsekas, Projected Newton Methods, 1982).

Every α on the way is feasible and gives a bound. The faces have exact zeros.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg as sl

from formulations.matrices import is_sparse
from polyopt.certificates.certificate import relative_gap
from polyopt.certificates.shrunk_centre import LARGEST, CentralPath

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from formulations.face_penalty import FacePenalty
    from formulations.matrices import Matrix, Vector

__all__ = ["ShrunkAscent"]

_FIRST, _LEAST, _MOST = 1e-2, 1e-13, 1e8  # of the unit matrix, over the mean curvature of a pair
_LENGTHS = 0.25 ** np.arange(6)  # of a step, tried in turn
_ENOUGH = 1e-4  # share of the slope's promise that a step must keep
_DIRECT = 1200  # weights in use up to which a system is factored; above, conjugate gradients
_PRODUCTS = 60  # of conjugate gradients, at most
_FEW, _SOME, _MANY = 12, 20, 300  # steps from multipliers that are near, of an interior point, and in the end
_LONG = 60  # steps of an interior point from nothing; near faces of another program _SOME
_CLOSE = 1e-8  # relative gap at which steps of this module are better than those of an interior point
_NEXT = 1e-3  # share of a cap within which a multiplier is next to its bound, at most
_BLUR = 1e-13  # relative rounding of a pull
_CHEAP = 60  # features up to which an interior point from faces that are near is tried before those,
_LOOSE = 1e-6  # for a gap no smaller than this
_CLOSEST = 1e-12  # and where those end short of their tolerance
_FINEST = 1e-12  # relative gap to which answers are polished
_NEAR = 1e-8  # weight of the unit matrix after those


class ShrunkAscent:
    """Multipliers of K faces, how far from optimal they are, and the faces that they imply.

    X (n, m): samples, float64.
    y (n,): labels -1 and +1.
    caps (n, K): c_ik, the largest value of each multiplier.
    penalty: the price.

    alpha, V, W, scores (n, K): multipliers, pulls, faces and the samples' scores at them.
    steps: Newton steps made.
    """

    def __init__(self, X: Matrix, y: Vector, caps: Vector, penalty: FacePenalty):
        self._X, self._y, self._penalty = X, y, penalty
        self.caps = np.ascontiguousarray(caps)
        squares = X.multiply(X).sum() if is_sparse(X) else float(np.einsum("ij,ij->", X, X))
        self._curvature = 0.5 * (1.0 + squares / max(len(y), 1))
        self._weight, self.steps = _FIRST, 0
        self._path: CentralPath | None = None  # an interior point for these caps
        self._near: Vector | None = None  # faces near which the next one may begin
        self.begin_from(np.zeros(caps.shape))

    # -- values ----------------------------------------------------------------------------------

    @property
    def primal(self) -> float:
        """The objective at the faces."""
        hinges = np.maximum(0.0, 1.0 - self._y[:, None] * self.scores)
        return float((self.W**2).sum() + self._penalty.value(self.W) + (self.caps * hinges).sum())

    @property
    def dual(self) -> float:
        """The dual value at the multipliers."""
        return float(self.alpha.sum() - (self.W**2).sum())

    @property
    def gap(self) -> float:
        """The relative gap."""
        return relative_gap(self.primal, self.dual)

    @property
    def faces(self) -> Vector:
        """The faces W, with zeros for weights that are the rounding of a pull of zero."""
        sizes = _pull(abs(self._X), self.alpha)
        return np.where(np.abs(self.V) > _BLUR * sizes, self.W, 0.0)

    # -- steps -----------------------------------------------------------------------------------

    def begin_from(self, alpha: ArrayLike, caps: Vector | None = None, near: Vector | None = None) -> None:
        """Take these multipliers (n, K), clipped to the caps, which may be others than before.

        Faces `near` (K, m+1) that were optimal with them are where an interior point begins.
        """
        if caps is not None:
            self.caps, self._path = np.ascontiguousarray(caps), None
        if near is not None:
            self._near, self._path = near, None
        self._take(np.clip(np.asarray(alpha, dtype=float), 0.0, self.caps))

    def begin_at(self, W: Vector) -> None:
        """Take the multipliers that some faces (K, m+1) ask for: all of it inside the margin, none beyond."""
        self.begin_from(self.caps * (self._y[:, None] * self._scores_at(W) < 1.0))

    def step(self) -> bool:
        """One Newton step; False where none is found that gains, at any length."""
        slope = 1.0 - self._y[:, None] * self.scores
        free = (slope > 0.0) & (self.alpha < self.caps) | (slope < 0.0) & (self.alpha > 0.0)
        # What is all but at a bound goes there, and takes no part in the system.
        left = np.where(slope < 0.0, -self.alpha, self.caps - self.alpha)
        size = self.alpha.sum() / max(np.count_nonzero(self.alpha), 1)
        near = free & (np.abs(left) <= min(_NEXT, self.gap) * np.minimum(self.caps, size))
        return self._step(slope, free, left, near) or (near.any() and self._step(slope, free, left, ~free))

    def _step(self, slope: Vector, free: NDArray[np.bool_], left: Vector, near: NDArray[np.bool_]) -> bool:
        rows = np.flatnonzero(free.any(axis=1))
        if not len(rows):
            return False
        block, y = self._X if len(rows) == len(self._y) else self._X[rows], self._y[rows]
        old, caps, slope = self.alpha[rows], self.caps[rows], np.where(free, slope, 0.0)[rows]
        going = np.where(near & free, left, 0.0)[rows]
        system = _System(self._penalty, self.V, block, y, (free & ~near)[rows])
        while self._weight <= _MOST:
            ridge = np.full(slope.shape, 2.0 * self._weight * self._curvature)
            way = going + 2.0 * system.solve(slope, ridge)
            for length in _LENGTHS:
                new = np.clip(old + length * way, 0.0, caps)
                change = new - old
                if not change.any():
                    break
                V = self.V + _pull(block, y[:, None] * change)
                W = 0.5 * self._penalty.shrunk(V)
                gained = float(change.sum() - ((W - self.W) * (W + self.W)).sum())
                if gained >= _ENOUGH * float((slope * change).sum()) > 0.0:
                    self._weight = max(self._weight * (0.2 if length == 1.0 else 1.5), _LEAST)
                    self.alpha[rows] = new
                    self._move(V, W)
                    self.steps += 1
                    return True
            self._weight *= 10.0
        self._weight = _FIRST
        return False

    def refresh(self) -> None:
        """Compute everything anew from the multipliers."""
        self._take(self.alpha)

    def reach(self, tol: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Make steps until the relative gap is `tol`, or nothing is gained, or `is_over`; whether it is.

        From multipliers that are near, a few steps do. Otherwise an interior-point method goes on where it
        was, begins near the faces of other caps or another price, or anew.
        """
        first = self.W.shape[1] <= _CHEAP and tol >= _LOOSE and self._near is not None
        if self.alpha.any() and self._steps(tol, 0 if first else _FEW, is_over):
            return True
        if not self._has_small_systems:
            return self._steps(tol, _MANY, is_over)
        # Good multipliers may have bad faces, where the data are out of scale: then better ones.
        for enough, most in ((max(0.1 * tol, _CLOSE), _SOME), (_CLOSEST, _MANY)):
            if not is_over():
                self._begin_centrally(enough, is_over)
            if self._steps(tol, most, is_over):
                return True
        return False

    def polish(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Some more steps, to as small a gap as they come to: single conditions hold less well than it."""
        if not self._steps(_FINEST, _FEW, is_over) and self._has_small_systems and not is_over():
            self._begin_centrally(_CLOSEST, is_over)
            self._steps(_FINEST, _FEW, is_over)

    @property
    def _has_small_systems(self) -> bool:
        """Whether the interior point's systems are worth their factorisations."""
        rows = self.W.shape[1] if self._penalty.group == 0.0 else self.W.size
        return rows <= LARGEST

    def _begin_centrally(self, enough: float, is_over: Callable[[], bool]) -> None:
        """Take the multipliers of an interior point, if they are better."""
        before, kept = self.dual, self.alpha
        path = self._path or CentralPath(self._X, self._y, self.caps, self._penalty, self._near)
        fine = path.follow(enough, _LONG if self._near is None else _SOME, is_over)
        if not fine and self._near is not None and not is_over():
            path = CentralPath(self._X, self._y, self.caps, self._penalty)
            fine = path.follow(enough, _LONG, is_over)
        self._path, self._near = (path, path.near) if fine else (None, None)
        self._take(path.best)
        if self.dual < before:
            self._take(kept)
        self._weight = _NEAR

    def _steps(self, tol: float, most: int, is_over: Callable[[], bool]) -> bool:
        for _ in range(most):
            if self.gap <= tol:
                self.refresh()
                if self.gap <= tol:
                    return True
            if is_over() or not self.step():
                break
        return self.gap <= tol

    # -- parts -----------------------------------------------------------------------------------

    def _take(self, alpha: Vector) -> None:
        self.alpha = alpha.copy()
        V = _pull(self._X, self._y[:, None] * self.alpha)
        self._move(V, 0.5 * self._penalty.shrunk(V))

    def _move(self, V: Vector, W: Vector) -> None:
        self.V, self.W = V, W
        self.scores = self._scores_at(W)

    def _scores_at(self, W: Vector) -> Vector:
        used = self._penalty.features(W)
        if 4 * len(used) > W.shape[1] or is_sparse(self._X):
            return np.asarray(self._X @ W[:, :-1].T) + W[:, -1]
        return np.asarray(self._X[:, used] @ W[:, used].T) + W[:, -1]


class _System:
    """A J A' + ridge for the pairs that may move, by way of the weights in use.

    J acts on each group as s + (1 − s) û û', with s what the price leaves of it and û its direction.
    """

    def __init__(self, penalty: FacePenalty, V: Vector, block: Matrix, y: Vector, free: NDArray[np.bool_]):
        cut = penalty.cut(V)
        shares = penalty.shares(cut)
        self._used = [np.flatnonzero((row[:-1] != 0) & (shares > 0)) for row in cut]
        self._cut, self._shares, self._penalty = cut, shares, penalty
        self._A = [_signed_rows(block, y, free[:, k], used) for k, used in enumerate(self._used)]
        self._free = free
        self.size = sum(len(used) + 1 for used in self._used)
        ends = np.cumsum([0, *(len(used) + 1 for used in self._used)])
        self._places = [slice(*pair) for pair in pairwise(ends.tolist())]

    def solve(self, slope: Vector, ridge: Vector) -> Vector:
        """(A J A' + D)⁻¹ slope, by Woodbury: D⁻¹ (slope − A (J⁻¹ + A'D⁻¹A)⁻¹ A'D⁻¹ slope), D the ridge."""
        if self.size > _DIRECT:
            return self._iterate(slope, ridge)
        scaled = np.where(self._free, slope / ridge, 0.0)
        if self._penalty.group == 0.0:
            way = np.zeros_like(slope)
            for k, A in enumerate(self._A):
                rows = self._free[:, k]
                weights = ridge[rows, k]
                inner = A.T @ (A / weights[:, None])
                inner[np.diag_indices_from(inner)] += 1.0
                way[rows, k] = A @ sl.cho_solve(sl.cho_factor(inner), A.T @ scaled[rows, k]) / weights
            return scaled - way
        inner = self._inverse()
        for k, (at, A) in enumerate(zip(self._places, self._A, strict=True)):
            inner[at, at] += A.T @ (A / ridge[self._free[:, k], k][:, None])
        return scaled - self._up(sl.cho_solve(sl.cho_factor(inner), self._down(scaled))) / ridge

    def _iterate(self, slope: Vector, ridge: Vector) -> Vector:
        """The same by conjugate gradients, scaled by the ridge."""
        way, left = np.zeros_like(slope), np.where(self._free, slope, 0.0)
        scaled = left / ridge
        toward, product = scaled.copy(), float((left * scaled).sum())
        first = product
        for _ in range(_PRODUCTS):
            image = self._up(self._bend(self._down(toward))) + np.where(self._free, ridge * toward, 0.0)
            length = product / float((toward * image).sum())
            way += length * toward
            left = left - length * image
            scaled = left / ridge
            product, before = float((left * scaled).sum()), product
            if product <= 1e-8 * first:
                break
            toward = scaled + (product / before) * toward
        return way

    def _down(self, pairs: Vector) -> Vector:
        parts = [A.T @ pairs[self._free[:, k], k] for k, A in enumerate(self._A)]
        return np.concatenate(parts)

    def _up(self, weights: Vector) -> Vector:
        pairs = np.zeros(self._free.shape)
        for k, (A, at) in enumerate(zip(self._A, self._places, strict=True)):
            pairs[self._free[:, k], k] = A @ weights[at]
        return pairs

    def _by_weight(self) -> tuple[Vector, Vector, NDArray[np.int64]]:
        """For each weight in use: its share, its part of the group's direction, the group; -1 at biases."""
        lengths = self._penalty.lengths(self._cut[:, :-1])
        shares, parts, groups = np.ones(self.size), np.zeros(self.size), np.full(self.size, -1)
        for k, (at, used) in enumerate(zip(self._places, self._used, strict=True)):
            inner = slice(at.start, at.stop - 1)
            groups[inner] = self._penalty.groups[used]
            shares[inner] = self._shares[used]
            parts[inner] = self._cut[k, used] / lengths[groups[inner]]
        return shares, parts, groups

    def _bend(self, weights: Vector) -> Vector:
        """J times something."""
        shares, parts, groups = self._by_weight()
        along = np.bincount(groups + 1, parts * weights, minlength=self._penalty.n_groups + 1)
        return np.asarray(shares * weights + (1.0 - shares) * parts * along[groups + 1])

    def _inverse(self) -> Vector:
        """J⁻¹, which acts on a group as (1 − (1 − s) û û') / s."""
        shares, parts, groups = self._by_weight()
        together = (groups[:, None] == groups) & (groups >= 0)
        found: Vector = -np.outer((1.0 - shares) / shares * parts, parts) * together
        found[np.diag_indices_from(found)] += 1.0 / shares
        return found


def _pull(X: Matrix, amounts: Vector) -> Vector:
    """Σ_i amounts_ik x̃_i, shape (K, m+1)."""
    return np.column_stack([np.asarray(X.T @ amounts).T, amounts.sum(axis=0)])


def _signed_rows(block: Matrix, y: Vector, rows: NDArray[np.bool_], used: NDArray[np.int64]) -> Vector:
    """Some rows y x̃, at the features in use and the bias, dense."""
    part: Any = block[np.flatnonzero(rows)][:, used]
    part = part.toarray() if is_sparse(part) else part
    return np.column_stack([part, np.ones(len(part))]) * y[rows][:, None]
