"""A face of at most s features: the fit of given features, and bounds on all that may still be chosen.

The programs are those of :mod:`formulations.cpm_faces`. At a node of a search some features are in, some are
out and the others free. For any multipliers α within their caps, with v = Σ α_i y_i x̃_i,

    Σ α − ¼ (v_b² + Σ_{j in} v_j² + the s − |in| largest v_j² of the free)

bounds every face that has the node's features, and :meth:`SubsetFace.bound` returns it less its rounding. The
multipliers come from the perspective relaxation. For weights z of the features its minimum over w is a hinge
program with the penalties 1/z_j (:mod:`polyopt.cpm.smooth_hinge`); for given w the best z of the free is
min(1, |w_j|/τ), with τ such that they sum to s − |in|, and |w_j| is ½ z_j |v_j|. The two alternate while ε
falls, with a power of |v_j| that sooner makes all |v_j| with z_j < 1 equal.

With sign constraints σ_j w_j ≥ 0, v_j is replaced by 0 if σ_j v_j < 0. A fit then has an active set of
features, and a relaxation gives a feature whose v_j is 0 the least weight.

If there are many features, only some have a column in the program: v tells which others are among the
largest, and these join.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.types import Matrix, Vector, is_sparse
from formulations.polytope import lift
from polyopt.cpm.smooth_hinge import OPTIONS as PATH
from polyopt.cpm.smooth_hinge import Smooth, begin, multipliers_of, newton, settled
from polyopt.linalg.rounding import UNIT, gamma

Bits = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Numbers of fits and relaxations, besides those of :mod:`polyopt.cpm.smooth_hinge`."""

    warm_eps: float = 0.2  # first ε from a warm start
    eps_ratio: float = 0.3  # in a relaxation, whose weights change from stage to stage
    max_stages: int = 18
    min_rel_decrease: float = 1e-3
    min_gain: float = 0.1  # gain of a stage, relative to the distance to the cutoff, for another stage
    min_stages: int = 6  # stages before that is tested
    weight_power: float = 1.5  # of |v_j| in a step of the weights: 1 is optimal for the face, more is faster
    min_weight: float = 1e-3  # z of a free feature, which could never return from 0
    max_columns: int = 150  # features with a column in a relaxation


OPTIONS = Options()


class Proof(NamedTuple):
    """A point on a path, w (m+1,) and ε, and the bound of its multipliers."""

    w: Vector
    eps: float
    bound: float


class Fitted(NamedTuple):
    """A face of given features.

    w (m+1,) has the bias last, alpha are the samples' multipliers, `bound` is a lower bound on the cost of
    these features, and `proof` is a point whose multipliers have about that bound if it passes the cutoff.
    """

    features: Integers
    w: Vector
    alpha: Vector
    objective: float
    bound: float
    proof: Proof


class Relaxed(NamedTuple):
    """A relaxed node: w (m+1,), the value of the relaxation, and the bound on the node's faces.

    If the value is below the cost of the best face, no multipliers can close the node.
    """

    w: Vector
    value: float
    proof: Proof


class SubsetFace:
    """The samples of one face and their costs.

    X (n, m), y (n,): samples and labels.
    c (n,): costs, 0 if another face answers.
    s: features at most, at least 1.
    signs (m,): +1 or -1 for features whose weight may not be negative or positive, else 0.

    rows: the samples that have a cost; the multipliers of all methods are theirs.
    """

    def __init__(self, X: Matrix, y: Vector, c: Vector, s: int, signs: Integers | None = None):
        self._signs = None if signs is None or not signs.any() else np.append(signs, 0)
        self.rows = np.flatnonzero(np.asarray(c) > 0)
        self.m = X.shape[1]
        self.s = min(s, self.m)
        self.c = np.asarray(c, dtype=float)[self.rows]
        lifted, signs = lift(X[self.rows]), np.asarray(y, dtype=float)[self.rows]
        if is_sparse(lifted):
            self._A = sp.csc_array(sp.diags_array(signs) @ lifted)
        else:
            self._A = np.asfortranarray(lifted * signs[:, None])
        # Rounding error of v for any α within the caps.
        self._blur = 1.01 * gamma(len(self.rows) + 4) * np.asarray(abs(self._A).T @ self.c)

    # -- choices -------------------------------------------------------------------------------

    def largest(self, sizes: Vector) -> Integers:
        """Return the features of the s largest sizes, those that are positive."""
        chosen = np.sort(np.argsort(-sizes, kind="stable")[: self.s])
        return np.asarray(chosen[sizes[chosen] > 0.0])

    def closed(self, inside: Bits, out: Bits) -> Bits:
        """Return the features that are out: all others if s are in."""
        return ~inside if inside.sum() >= self.s else out

    def only(self, inside: Bits, out: Bits) -> Integers | None:
        """Return the features of the node's largest face if there is only one, else None."""
        left = ~self.closed(inside, out)
        return np.flatnonzero(left) if left.sum() <= self.s else None

    # -- bounds --------------------------------------------------------------------------------

    def pull(self, alpha: Vector) -> Vector:
        """Return v (m+1,) at multipliers, as the signs leave it."""
        return self._allowed(np.asarray(self._A.T @ alpha), slice(None))

    def _allowed(self, w: Vector, at: Integers | slice) -> Vector:
        """Return weights or pulls of some features with 0 for the wrong signs."""
        return w if self._signs is None else np.where(self._signs[at] * w < 0.0, 0.0, w)

    def bound(self, alpha: Vector, v: Vector, inside: Bits, out: Bits) -> float:
        """Return the bound on every face of a node at multipliers with :meth:`pull` v, less its rounding."""
        sizes = np.abs(v) + self._blur
        free = sizes[:-1][~(inside | out)]
        beyond = max(len(free) - max(self.s - int(inside.sum()), 0), 0)
        largest = free if beyond == 0 else np.partition(free, beyond - 1)[beyond:]
        return _safe(alpha, np.concatenate([sizes[-1:], sizes[:-1][inside], largest]))

    # -- given features ------------------------------------------------------------------------

    def fit(
        self, features: ArrayLike, cutoff: float = np.inf, tol: float = 1e-9, w: Vector | None = None
    ) -> Fitted:
        """Fit the best face of these features to a relative gap, or until its bound reaches the cutoff.

        w (m+1,): a face to begin with; its other features are ignored.
        """
        chosen = np.unique(np.asarray(features, dtype=np.int64))
        at = np.append(chosen, self.m)
        A, d, least, most = self._columns(at), np.ones(len(at)), np.inf, -np.inf
        point = begin(len(self.c), len(at)) if w is None else Smooth(w[at], 1.0 - A @ w[at], OPTIONS.warm_eps)
        w, alpha = np.zeros(len(at)), np.zeros(len(self.c))
        proof = Proof(self._whole(w, at), point.eps, -np.inf)
        largest, advances = float(self.c.max(initial=0.0)), False
        free = A  # without the columns of features that their sign holds at 0
        for stage in range(PATH.max_stages if self._signs is None else 4 * PATH.max_stages):
            if self._signs is not None:
                active = (self._allowed(point.w, at) == point.w) & (point.w != 0.0)
                active |= self._allowed(multipliers_of(point, self.c) @ A, at) != 0.0
                active[-1] = True
                free, inactive = A * active, np.where(active, point.w, 0.0)
                point = Smooth(inactive, 1.0 - A @ inactive, point.eps)
            eps = point.eps * (PATH.eps_ratio if advances else 1.0)
            point = newton(
                free, self.c, d, point, eps, tol=PATH.min_rel_decrease * eps * largest, keep=advances
            )
            advances = bool((self._allowed(point.w, at) == point.w).all())
            tried = multipliers_of(point, self.c), settled(free, self.c, d, point)
            for number, multipliers in enumerate(tried if stage > 1 else tried[:1]):
                v = self._allowed(multipliers @ A, at)
                bound = _safe(multipliers, np.abs(v) + self._blur[at])
                if number == 0 and bound > proof.bound:
                    proof = Proof(self._whole(point.w, at), point.eps, bound)
                if bound > most:
                    most, alpha = bound, multipliers
                for candidate in (self._allowed(point.w, at), 0.5 * v):
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
        """Bound all faces of a node by the perspective relaxation.

        inside, out (m,): the features that are in, and those that are out.
        w (m+1,): the warm start, such as the face of the node above.
        cutoff: bound that closes the node.
        share: gap at which to end if the node cannot be closed, relative to the distance to the cutoff or, if
            there is no cutoff, to the value.
        cold: True if w is no warm start.
        """
        used = self._used(inside, out, w)
        A, at, value, proof = self._columns(used), used, np.inf, Proof(w, OPTIONS.warm_eps, -np.inf)
        point = Smooth(w[at], 1.0 - A @ w[at], begin(0, 0).eps if cold else OPTIONS.warm_eps)
        z, largest = self._weights(np.abs(point.w), at, inside), float(self.c.max(initial=0.0))
        for stage in range(OPTIONS.max_stages):
            before = proof.bound
            eps = point.eps * (OPTIONS.eps_ratio if stage else 1.0)
            near = OPTIONS.min_rel_decrease * eps * largest
            point = newton(A, self.c, 1.0 / z, point, eps, tol=near, keep=stage > 0)
            alpha, w = multipliers_of(point, self.c), self._whole(point.w, at)
            v = self.pull(alpha)
            bound, value = self.bound(alpha, v, inside, out), self._cost(A, 1.0 / z, point.w)
            if bound > proof.bound:
                proof = Proof(w, point.eps, bound)
            joining = self._joining(v, at, inside, out)
            if len(joining):
                whole = self._whole(z, at)
                at = np.union1d(at, joining)
                A, z = self._columns(at), np.maximum(whole[at], OPTIONS.min_weight)
                point = Smooth(w[at], point.u, point.eps)
            room = value if cutoff == np.inf else cutoff - proof.bound
            is_near = value <= cutoff and value - proof.bound <= share * room
            if proof.bound >= cutoff or (is_near and not len(joining)):
                break
            gains = proof.bound - before >= OPTIONS.min_gain * (cutoff - before)
            if stage >= OPTIONS.min_stages and cutoff < np.inf and not gains:
                break
            z = self._weights(z * np.abs(v[at]) ** OPTIONS.weight_power, at, inside)
            if self._signs is not None:
                z = np.where((v[at] == 0.0) & (self._signs[at] != 0), OPTIONS.min_weight, z)
        return Relaxed(w, value, proof)

    # -- parts ---------------------------------------------------------------------------------

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
        """Return the features that have columns, and the bias."""
        free = np.flatnonzero(~out)
        if len(free) > OPTIONS.max_columns:
            size = np.abs(w[:-1])
            if not size.any():
                size = np.abs(self.pull(self.c)[:-1])
            order = free[np.argsort(-np.where(inside, np.inf, size)[free], kind="stable")]
            free = np.sort(order[: OPTIONS.max_columns])
        return np.append(free, self.m)

    def _joining(self, v: Vector, at: Integers, inside: Bits, out: Bits) -> Integers:
        """Return the free features without a column whose v_j² is among the largest."""
        if len(at) == self.m + 1 - int(out.sum()):
            return at[:0]
        size = np.where(inside | out, -1.0, np.abs(v[:-1]))
        left = self.s - int(inside.sum())
        largest = np.argsort(-size, kind="stable")[: max(left, 0)]
        return np.setdiff1d(largest[size[largest] > 0.0], at)

    def _weights(self, sizes: Vector, at: Integers, inside: Bits) -> Vector:
        """Return the weights z of the features that have columns, and 1 for the bias."""
        z = np.ones(len(at))
        free = np.flatnonzero(~inside[at[:-1]])
        left = self.s - int(inside.sum())
        size = sizes[free]
        if len(free) > left and size.any():
            z[free] = np.maximum(most_of(size, left), OPTIONS.min_weight)
        return z


def most_of(sizes: Vector, total: int) -> Vector:
    """Return the z in [0, 1]^k with the sum `total` < k that minimise Σ sizes²/z: min(1, sizes/τ)."""
    order = np.sort(sizes)[::-1]
    rest = np.cumsum(order[::-1])[::-1]  # of those from each place on
    for whole in range(total):
        tau = rest[whole] / (total - whole)
        if order[whole] <= tau:
            return np.asarray(np.minimum(1.0, sizes / tau)) if tau > 0 else np.zeros_like(sizes)
    return np.asarray(sizes >= order[total - 1], dtype=float) if total else np.zeros_like(sizes)


def _safe(alpha: Vector, sizes: Vector) -> float:
    """Return Σ α − ¼ Σ sizes², less the rounding of both; -inf if that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(alpha.sum()) * (1.0 - 2.0 * gamma(len(alpha) + 2))
        square = 0.25 * float(sizes @ sizes) * (1.0 + 2.0 * gamma(len(sizes) + 4))
        found = total - square - 4.0 * UNIT * (total + square)
    return float(np.nextafter(found, -np.inf)) if np.isfinite(found) else -np.inf
