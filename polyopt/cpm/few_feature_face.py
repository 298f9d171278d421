"""A face of at most s features: what given features are worth, and bounds on all that may still be chosen.

The programs are those of :mod:`formulations.cpm_faces`. At a node of a search some features are in, some are
out and the others free. For any multipliers α within their caps, with v = Σ α_i y_i x̃_i,

    Σ α − ¼ (v_b² + Σ_{j in} v_j² + the s − |in| largest v_j² of the free)

bounds every face that has the node's features, and :meth:`SubsetFace.bound` gives it less its rounding. The
multipliers come from the perspective relaxation. For weights z of the features its minimum over w is a hinge
program with the prices 1/z_j (:mod:`polyopt.cpm.smooth_hinge`); for given w the best z of the free is
min(1, |w_j|/τ), τ such that they add up to s − |in|, and |w_j| is ½ z_j |v_j|. The two alternate while ε
falls, with a power of |v_j| that comes sooner to where all |v_j| with a z_j below 1 are equal.

Where there are many features, only some have a column in the program: v tells which others belong to the
largest, and these join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from formulations.language.types import is_sparse
from formulations.polytope import lift
from polyopt.cpm.smooth_hinge import (
    EPS_RATIO,
    MAX_STAGES,
    REL_FALL,
    Smooth,
    begin,
    multipliers_of,
    newton,
    settled,
)
from polyopt.linalg.rounding import UNIT, gamma

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix, Vector

    Bits = NDArray[np.bool_]
    Integers = NDArray[np.int64]

__all__ = ["Fitted", "Proof", "Relaxed", "SubsetFace", "most_of"]

# Of a relaxation, whose weights follow on the way: EPS_RATIO, MAX_STAGES and REL_FALL.
_RELAXED_EPS_RATIO, _RELAXED_MAX_STAGES, _RELAXED_REL_FALL = 0.3, 18, 1e-3
_MIN_GAIN = 0.1  # what a point must gain, over the distance to the cutoff, for another one ...
_MIN_STAGES = 6  # ... once there are so many
# Power of |v_j| in the step of the weights: 1 gives the best weights for the present face, more is sooner.
_POWER = 1.5
_MIN_WEIGHT = 1e-3  # z of a feature that is free, which could never come back from 0
_COLUMNS = 150  # features beyond which only some have columns, and as many join at once at most
_START_EPS = 0.2  # first ε of a node that begins with its parent's face, at most


class Proof(NamedTuple):
    """A point on a path, w (m+1,) and ε, and the bound that its multipliers have."""

    w: Vector
    eps: float
    bound: float


class Fitted(NamedTuple):
    """A face of given features: w (m+1,), bias last, the samples' multipliers, its cost and the cost's bound.

    `proof` is a point whose multipliers have about that bound, where the face costs more than was asked.
    """

    features: Integers
    w: Vector
    alpha: Vector
    objective: float
    bound: float
    proof: Proof


class Relaxed(NamedTuple):
    """Of a node: w (m+1,) of the relaxation and what it costs there, and the bound on the node's faces.

    Where the value is less than what known faces cost, no multipliers can close the node.
    """

    w: Vector
    value: float
    proof: Proof


class SubsetFace:
    """One face's samples, and their costs.

    X (n, m): samples.
    y (n,): labels: -1 inside, +1 outside.
    c (n,): costs, 0 where another face answers.
    s: features at most, at least 1.

    rows: the samples that have a cost; vectors "of the samples" here are theirs.
    """

    def __init__(self, X: Matrix, y: Vector, c: Vector, s: int):
        self.rows = np.flatnonzero(np.asarray(c) > 0)
        self.m = X.shape[1]
        self.s = min(s, self.m)
        self.c = np.asarray(c, dtype=float)[self.rows]
        lifted, signs = lift(X[self.rows]), np.asarray(y, dtype=float)[self.rows]
        if is_sparse(lifted):
            self._A = sp.csc_array(sp.diags_array(signs) @ lifted)
        else:
            self._A = np.asfortranarray(lifted * signs[:, None])
        # By how much v, a sum over the samples, may be off for any α within the caps.
        self._blur = 1.01 * gamma(len(self.rows) + 4) * np.asarray(abs(self._A).T @ self.c)

    # -- choices -------------------------------------------------------------------------------

    def largest(self, sizes: Vector) -> Integers:
        """The features of the largest sizes, s at most; none whose size is not positive."""
        chosen = np.sort(np.argsort(-sizes, kind="stable")[: self.s])
        return np.asarray(chosen[sizes[chosen] > 0.0])

    def closed(self, inside: Bits, out: Bits) -> Bits:
        """The features that are out, and with them all others if s are in."""
        return ~inside if inside.sum() >= self.s else out

    def only(self, inside: Bits, out: Bits) -> Integers | None:
        """The features of a node's one largest choice; None if there are several."""
        left = ~self.closed(inside, out)
        return np.flatnonzero(left) if left.sum() <= self.s else None

    # -- bounds --------------------------------------------------------------------------------

    def alpha_at(self, w: Vector, eps: float) -> Vector:
        """The multipliers of the samples that belong to a face w (m+1,) and an ε."""
        return np.asarray(self.c * np.clip((1.0 - self._A @ w) / eps, 0.0, 1.0))

    def pull(self, alpha: Vector) -> Vector:
        """What multipliers of the samples add up to, v (m+1,)."""
        return np.asarray(self._A.T @ alpha)

    def bound(self, alpha: Vector, v: Vector, inside: Bits, out: Bits) -> float:
        """The bound at α on every face of a node, less its rounding.

        alpha: multipliers of the samples, within their caps.
        v (m+1,): what :meth:`pull` makes of them.
        inside, out (m,): the features that are in, and those that are out.
        """
        sizes = np.abs(v) + self._blur
        free = sizes[:-1][~(inside | out)]
        beyond = max(len(free) - max(self.s - int(inside.sum()), 0), 0)
        largest = free if beyond == 0 else np.partition(free, beyond - 1)[beyond:]
        return _safe(alpha, np.concatenate([sizes[-1:], sizes[:-1][inside], largest]))

    # -- given features ------------------------------------------------------------------------

    def fit(
        self, features: ArrayLike, cutoff: float = np.inf, tol: float = 1e-9, w: Vector | None = None
    ) -> Fitted:
        """The best face of these features, to a relative gap; or one whose bound is the cutoff already.

        features: numbers of features.
        cutoff: A bound at which it is not worth going on.
        tol: the gap.
        w (m+1,): A face to begin with; its other features do not count.
        """
        chosen = np.unique(np.asarray(features, dtype=np.int64))
        at = np.append(chosen, self.m)
        A, d, least, most = self._columns(at), np.ones(len(at)), np.inf, -np.inf
        point = begin(len(self.c), len(at)) if w is None else Smooth(w[at], 1.0 - A @ w[at], _START_EPS)
        w, alpha = np.zeros(len(at)), np.zeros(len(self.c))
        proof = Proof(self._whole(w, at), point.eps, -np.inf)
        for stage in range(MAX_STAGES):
            point = self._step(A, d, point, stage)
            tried = multipliers_of(point, self.c), settled(A, self.c, d, point)
            for number, multipliers in enumerate(tried if stage > 1 else tried[:1]):
                v = multipliers @ A
                bound = _safe(multipliers, np.abs(v) + self._blur[at])
                if number == 0 and bound > proof.bound:
                    proof = Proof(self._whole(point.w, at), point.eps, bound)
                if bound > most:
                    most, alpha = bound, multipliers
                for candidate in (point.w, 0.5 * v):
                    value = self._cost(A, d, candidate)
                    if value < least:
                        least, w = value, candidate
            if proof.bound >= cutoff or (least - most <= tol * least and not most > cutoff):
                break
        return Fitted(chosen, self._whole(w, at), alpha, least, most, proof)

    # -- a node --------------------------------------------------------------------------------

    def relax(
        self, inside: Bits, out: Bits, w: Vector, cutoff: float, share: float = 0.2, *, cold: bool = False
    ) -> Relaxed:
        """Bound all faces of a node.

        inside, out (m,): the features that are in, and those that are out.
        w (m+1,): where to begin, such as the face of the node above.
        cutoff: what a bound must reach to close the node.
        share: where the node cannot be closed: the gap at which to end, over the distance to the cutoff or,
            where there is no cutoff, over the value.
        cold: whether w is nothing to begin with.
        """
        used = self._used(inside, out, w)
        A, at, value, proof = self._columns(used), used, np.inf, Proof(w, _START_EPS, -np.inf)
        point = Smooth(w[at], 1.0 - A @ w[at], begin(0, 0).eps if cold else _START_EPS)
        z = self._weights(np.abs(point.w), at, inside)
        for stage in range(_RELAXED_MAX_STAGES):
            before = proof.bound
            point = self._step(A, 1.0 / z, point, stage, _RELAXED_REL_FALL, _RELAXED_EPS_RATIO)
            alpha, w = multipliers_of(point, self.c), self._whole(point.w, at)
            v = self.pull(alpha)
            bound, value = self.bound(alpha, v, inside, out), self._cost(A, 1.0 / z, point.w)
            if bound > proof.bound:
                proof = Proof(w, point.eps, bound)
            joining = self._joining(v, at, inside, out)
            if len(joining):
                whole = self._whole(z, at)
                at = np.union1d(at, joining)
                A, z = self._columns(at), np.maximum(whole[at], _MIN_WEIGHT)
                point = Smooth(w[at], point.u, point.eps)
            room = value if cutoff == np.inf else cutoff - proof.bound
            near = value <= cutoff and value - proof.bound <= share * room
            if proof.bound >= cutoff or (near and not len(joining)):
                break
            gains = proof.bound - before >= _MIN_GAIN * (cutoff - before)
            if stage >= _MIN_STAGES and cutoff < np.inf and not gains:
                break
            z = self._weights(z * np.abs(v[at]) ** _POWER, at, inside)
        return Relaxed(w, value, proof)

    # -- parts ---------------------------------------------------------------------------------

    def _step(
        self, A: Vector, d: Vector, point: Smooth, stage: int, fall: float = REL_FALL,
        ratio: float = EPS_RATIO,
    ) -> Smooth:  # fmt: skip
        """The next point of the path."""
        eps = point.eps * (ratio if stage else 1.0)
        near = fall * eps * float(self.c.max(initial=0.0))
        return newton(A, self.c, d, point, eps, tol=near, keep=stage > 0)

    def _cost(self, A: Vector, d: Vector, w: Vector) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float((d * w) @ w + self.c @ np.maximum(1.0 - A @ w, 0.0))

    def _whole(self, w: Vector, at: Integers) -> Vector:
        found = np.zeros(self.m + 1)
        found[at] = w
        return found

    def _columns(self, at: Integers) -> Vector:
        A = self._A[:, at]
        return np.asfortranarray(A.toarray() if is_sparse(A) else A)

    def _used(self, inside: Bits, out: Bits, w: Vector) -> Integers:
        """The features that have columns, and the bias behind them."""
        free = np.flatnonzero(~out)
        if len(free) > _COLUMNS:
            size = np.abs(w[:-1])
            if not size.any():
                size = np.abs(self.pull(self.c)[:-1])
            order = free[np.argsort(-np.where(inside, np.inf, size)[free], kind="stable")]
            free = np.sort(order[:_COLUMNS])
        return np.append(free, self.m)

    def _joining(self, v: Vector, at: Integers, inside: Bits, out: Bits) -> Integers:
        """Free features without a column whose v_j² is among the largest of all."""
        if len(at) == self.m + 1 - int(out.sum()):
            return at[:0]
        size = np.where(inside | out, -1.0, np.abs(v[:-1]))
        left = self.s - int(inside.sum())
        largest = np.argsort(-size, kind="stable")[: max(left, 0)]
        return np.setdiff1d(largest[size[largest] > 0.0], at)

    def _weights(self, sizes: Vector, at: Integers, inside: Bits) -> Vector:
        """The weights z of the features that have columns, and a 1 for the bias."""
        z = np.ones(len(at))
        free = np.flatnonzero(~inside[at[:-1]])
        left = self.s - int(inside.sum())
        size = sizes[free]
        if len(free) > left and size.any():
            z[free] = np.maximum(most_of(size, left), _MIN_WEIGHT)
        return z


def most_of(sizes: Vector, total: int) -> Vector:
    """The z in [0, 1] with the sum `total` that minimise Σ sizes²/z: min(1, sizes/τ).

    sizes (k,): non-negative numbers.
    total: the sum, less than k.
    """
    order = np.sort(sizes)[::-1]
    rest = np.cumsum(order[::-1])[::-1]  # of those from each place on
    for whole in range(total):
        tau = rest[whole] / (total - whole)
        if order[whole] <= tau:
            return np.asarray(np.minimum(1.0, sizes / tau)) if tau > 0 else np.zeros_like(sizes)
    return np.asarray(sizes >= order[total - 1], dtype=float) if total else np.zeros_like(sizes)


def _safe(alpha: Vector, sizes: Vector) -> float:
    """Σ α − ¼ Σ sizes², less the rounding of both; -inf where that is no number."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(alpha.sum()) * (1.0 - 2.0 * gamma(len(alpha) + 2))
        square = 0.25 * float(sizes @ sizes) * (1.0 + 2.0 * gamma(len(sizes) + 4))
        found = total - square - 4.0 * UNIT * (total + square)
    return float(np.nextafter(found, -np.inf)) if np.isfinite(found) else -np.inf
