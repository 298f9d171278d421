"""A face of at most s features: its fit to given features, and bounds over all choices of features.

A face is a weight vector w (m+1,), the bias last, for samples x̃_i = (x_i, 1) with labels y_i and costs c_i of
slack; its cost is ‖w‖² + Σ c_i [1 − y_i w·x̃_i]_+. A node of a branch and bound includes a set I of features,
excludes another set, and leaves the others free. For any multipliers 0 ≤ α ≤ c, with v = Σ α_i y_i x̃_i,

    Σ α − ¼ (v_b² + Σ_{j in I} v_j² + the s − |I| largest v_j² of the free features)

is a lower bound on the cost of every face of the node (:meth:`SubsetFace.bound`).

:meth:`SubsetFace.relax` finds good multipliers from the perspective relaxation,

    min  Σ_j w_j²/z_j + w_b² + Σ_i c_i [1 − y_i w·x̃_i]_+    over w and 0 ≤ z ≤ 1,
    s.t. Σ_j z_j ≤ s,   z_j = 1 if j is included,   z_j = 0 if j is excluded,

by alternating minimisation. For fixed z this is a hinge program with the penalties d_j = 1/z_j, solved by
Newton's method on a hinge that is smoothed over a width ε (:mod:`polyopt.cpm.smooth_hinge`); the solution is
w_j = ½ z_j v_j. For fixed w the optimal z of the free features is min(1, |w_j|/τ), with τ such that their sum
is s − |I|. A *stage* is one such pair of steps, with a smaller ε than the last. It replaces z_j by
min(1, z_j|v_j|/(2τ)). A power of |v_j| above 1 has the same fixed points, at which all |v_j| with
0 < z_j < 1 are equal, and needs fewer stages. If there are many features, only some have a column in the
relaxation; a feature whose |v_j| is later among the largest is added (column generation).

:meth:`SubsetFace.fit` solves the hinge program of given features alone, d = 1, in the same way.

With sign constraints σ_j w_j ≥ 0, v_j is replaced by 0 if σ_j v_j < 0. A fit then fixes the weights of the
active sign constraints at 0, and a relaxation gives a feature with v_j = 0 the smallest z.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.types import Matrix, Vector, is_sparse
from formulations.polytope import lift
from polyopt.cpm.smooth_hinge import OPTIONS as SMOOTHING
from polyopt.cpm.smooth_hinge import Smooth, begin, fit_margin_multipliers, multipliers_of, newton
from polyopt.linalg.rounding import UNIT, gamma

Bits = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Parameters of fits and relaxations, besides those of :mod:`polyopt.cpm.smooth_hinge`."""

    warm_eps: float = 0.2  # first ε from a warm start
    eps_ratio: float = 0.3  # ratio of ε between stages of a relaxation; not small, because z changes, too
    max_stages: int = 18  # largest number of stages of a relaxation
    min_rel_decrease: float = 1e-3  # tolerance of Newton's method, relative to ε times the largest cost
    min_gain: float = 0.1  # smallest increase of the bound by a useful stage, relative to cutoff − bound
    min_stages: int = 6  # number of stages after which a relaxation may end for lack of gain
    z_power: float = 1.5  # power of |v_j| in the step of z: 1 is optimal for fixed w, more converges faster
    min_z: float = 1e-3  # lower limit of a free feature's z: stages multiply z, so 0 would be final
    max_columns: int = 150  # largest number of features with a column at the start of a relaxation


OPTIONS = Options()


class BoundPoint(NamedTuple):
    """A point from which multipliers with a known bound can be recomputed.

    w (m+1,), eps: the point and its ε; its multipliers are α_i = c_i min(max((1 − y_i w·x̃_i)/ε, 0), 1).
    bound: the lower bound of these multipliers on the cost of the node's faces.
    """

    w: Vector
    eps: float
    bound: float


class FaceFit(NamedTuple):
    """A face fitted to given features.

    features: indices of the features.
    w (m+1,), objective: the face and its cost.
    alpha, bound: the best multipliers of the samples, and their bound for these features.
    bound_point: the best point for a recomputed bound, which may be a little lower than `bound`.
    """

    features: Integers
    w: Vector
    alpha: Vector
    objective: float
    bound: float
    bound_point: BoundPoint


class SubsetFace:
    """The program of one face.

    X (n, m), y (n,): samples and labels.
    c (n,): costs of slack, 0 for positives on other faces.
    s: largest number of features, at least 1.
    signs (m,): σ: +1 for weights that may not be negative, -1 for those that may not be positive, else 0.

    rows: indices of the samples with a positive cost; multipliers are of these samples only.
    """

    def __init__(self, X: Matrix, y: Vector, c: Vector, s: int, signs: Integers | None = None):
        self._signs = None if signs is None or not signs.any() else np.append(signs, 0)
        self.rows = np.flatnonzero(np.asarray(c) > 0)
        self.m = X.shape[1]
        self.s = min(s, self.m)
        self.c = np.asarray(c, dtype=float)[self.rows]
        lifted, labels = lift(X[self.rows]), np.asarray(y, dtype=float)[self.rows]
        if is_sparse(lifted):  # A has the rows y_i x̃_i
            self._A = sp.csc_array(sp.diags_array(labels) @ lifted)
        else:
            self._A = np.asfortranarray(lifted * labels[:, None])
        # Bound (m+1,) on the rounding error of v for any 0 ≤ α ≤ c; gamma(k) is that of k operations.
        self._v_error = 1.01 * gamma(len(self.rows) + 4) * np.asarray(abs(self._A).T @ self.c)

    # -- choices -------------------------------------------------------------------------------

    def top_s(self, sizes: Vector) -> Integers:
        """Return the indices, ascending, of the s largest sizes (m,) that are not 0."""
        features = np.sort(np.argsort(-sizes, kind="stable")[: self.s])
        return np.asarray(features[sizes[features] > 0.0])

    def exclude_rest(self, included: Bits, excluded: Bits) -> Bits:
        """Return the mask of the excluded features: all that are not included if s features are included."""
        return ~included if included.sum() >= self.s else excluded

    def sole_support(self, included: Bits, excluded: Bits) -> Integers | None:
        """Return all features that are not excluded if they are at most s, else None."""
        possible = ~self.exclude_rest(included, excluded)
        return np.flatnonzero(possible) if possible.sum() <= self.s else None

    # -- bounds --------------------------------------------------------------------------------

    def signed_sum(self, alpha: Vector) -> Vector:
        """Return v (m+1,) for multipliers, with 0 for forbidden signs."""
        return self._without_wrong_signs(np.asarray(self._A.T @ alpha), slice(None))

    def _without_wrong_signs(self, w: Vector, columns: Integers | slice) -> Vector:
        """Return weights w, or v, of some columns with 0 for forbidden signs."""
        return w if self._signs is None else np.where(self._signs[columns] * w < 0.0, 0.0, w)

    def bound(self, alpha: Vector, v: Vector, included: Bits, excluded: Bits) -> float:
        """Return the bound of multipliers, with v = `signed_sum(alpha)`, on a node's faces, rounded down."""
        sizes = np.abs(v) + self._v_error
        free = sizes[:-1][~(included | excluded)]
        dropped = max(len(free) - max(self.s - int(included.sum()), 0), 0)
        largest = free if dropped == 0 else np.partition(free, dropped - 1)[dropped:]
        return _rounded_bound(alpha, np.concatenate([sizes[-1:], sizes[:-1][included], largest]))

    # -- given features ------------------------------------------------------------------------

    def fit(
        self, features: ArrayLike, cutoff: float = np.inf, tol: float = 1e-9, w: Vector | None = None
    ) -> FaceFit:
        """Fit a face of these features to a relative gap, or until its bound reaches the cutoff.

        w (m+1,): a warm start.
        """
        features = np.unique(np.asarray(features, dtype=np.int64))
        columns = np.append(features, self.m)  # with the bias
        A, d, max_cost = self._columns(columns), np.ones(len(columns)), float(self.c.max(initial=0.0))
        point = begin(len(self.c), len(columns))
        if w is not None:
            point = Smooth(w[columns], 1.0 - A @ w[columns], OPTIONS.warm_eps)
        w, best_value = np.zeros(len(columns)), np.inf
        alpha, best_bound = np.zeros(len(self.c)), -np.inf
        bound_point = BoundPoint(self._embed(w, columns), point.eps, -np.inf)
        signs_hold = False  # True if the w of the last stage satisfies the signs; ε falls only then
        A_free = A  # A with zero columns for the features whose sign constraint is active, w_j = 0
        max_stages = SMOOTHING.max_stages if self._signs is None else 4 * SMOOTHING.max_stages
        for stage in range(max_stages):
            if self._signs is not None:  # free: w_j ≠ 0 has the right sign, or v_j would give it that
                is_free = (self._without_wrong_signs(point.w, columns) == point.w) & (point.w != 0.0)
                is_free |= self._without_wrong_signs(multipliers_of(point, self.c) @ A, columns) != 0.0
                is_free[-1] = True
                A_free, w_free = A * is_free, np.where(is_free, point.w, 0.0)
                point = Smooth(w_free, 1.0 - A @ w_free, point.eps)
            eps = point.eps * (SMOOTHING.eps_ratio if signs_hold else 1.0)
            newton_tol = SMOOTHING.min_rel_decrease * eps * max_cost
            point = newton(A_free, self.c, d, point, eps, tol=newton_tol, keep_zone=signs_hold)
            signs_hold = bool((self._without_wrong_signs(point.w, columns) == point.w).all())
            smooth = multipliers_of(point, self.c)
            candidates = [smooth]
            if stage > 1:  # useful once only samples on the margin have 0 < 1 − y_i w·x̃_i < ε
                candidates.append(fit_margin_multipliers(A_free, self.c, d, point))
            for multipliers in candidates:  # update the best bound and the best face
                v = self._without_wrong_signs(multipliers @ A, columns)
                bound = _rounded_bound(multipliers, np.abs(v) + self._v_error[columns])
                if multipliers is smooth and bound > bound_point.bound:  # recomputable from (w, ε)
                    bound_point = BoundPoint(self._embed(point.w, columns), point.eps, bound)
                if bound > best_bound:
                    best_bound, alpha = bound, multipliers
                for face in (self._without_wrong_signs(point.w, columns), 0.5 * v):
                    value = self._cost(A, d, face)
                    if value < best_value:
                        best_value, w = value, face
            # If the best bound is above the cutoff, continue until the recomputable bound is, too.
            gap_is_closed = best_value - best_bound <= tol * best_value
            if bound_point.bound >= cutoff or (gap_is_closed and best_bound <= cutoff):
                break
        return FaceFit(features, self._embed(w, columns), alpha, best_value, best_bound, bound_point)

    # -- a node --------------------------------------------------------------------------------

    def relax(
        self, included: Bits, excluded: Bits, w: Vector, cutoff: float, rel_gap: float = 0.2, *,
        cold: bool = False,
    ) -> tuple[Vector, BoundPoint]:  # fmt: skip
        """Solve a node's perspective relaxation; return its face w (m+1,) and the point for the node's bound.

        included, excluded (m,): masks of features.
        w (m+1,): a warm start, such as the solution of the parent node.
        cutoff: bound that closes the node; inf for none.
        rel_gap: gap value − bound at which to stop if the value is below the cutoff, so that the node cannot
            be closed by it; relative to cutoff − bound or, without a cutoff, to the value.
        cold: True if w is not a warm start: the first ε is that of w = 0.
        """
        columns = self._columns_at_start(included, excluded, w)
        A, bound_point = self._columns(columns), BoundPoint(w, OPTIONS.warm_eps, -np.inf)
        first_eps = SMOOTHING.first_eps if cold else OPTIONS.warm_eps
        point = Smooth(w[columns], 1.0 - A @ w[columns], first_eps)
        z, max_cost = self._z_of_columns(np.abs(point.w), columns, included), float(self.c.max(initial=0.0))
        for stage in range(OPTIONS.max_stages):
            previous_bound = bound_point.bound
            eps = point.eps * (OPTIONS.eps_ratio if stage else 1.0)
            newton_tol = OPTIONS.min_rel_decrease * eps * max_cost
            # The step of w, and the bound of the multipliers at w.
            point = newton(A, self.c, 1.0 / z, point, eps, tol=newton_tol, keep_zone=stage > 0)
            alpha, w = multipliers_of(point, self.c), self._embed(point.w, columns)
            v = self.signed_sum(alpha)
            bound, value = self.bound(alpha, v, included, excluded), self._cost(A, 1.0 / z, point.w)
            if bound > bound_point.bound:
                bound_point = BoundPoint(w, point.eps, bound)
            new_columns = self._new_columns(v, columns, included, excluded)  # column generation
            if len(new_columns):
                all_z = self._embed(z, columns)
                columns = np.union1d(columns, new_columns)
                A, z = self._columns(columns), np.maximum(all_z[columns], OPTIONS.min_z)
                point = Smooth(w[columns], point.u, point.eps)  # the same u: the new weights are 0
            gap_scale = value if cutoff == np.inf else cutoff - bound_point.bound
            gap_is_closed = value <= cutoff and value - bound_point.bound <= rel_gap * gap_scale
            if bound_point.bound >= cutoff or (gap_is_closed and not len(new_columns)):
                break
            is_slow = bound_point.bound - previous_bound < OPTIONS.min_gain * (cutoff - previous_bound)
            if stage >= OPTIONS.min_stages and cutoff < np.inf and is_slow:
                break
            # The step of z, by a power of |v|.
            z = self._z_of_columns(z * np.abs(v[columns]) ** OPTIONS.z_power, columns, included)
            if self._signs is not None:
                z = np.where((v[columns] == 0.0) & (self._signs[columns] != 0), OPTIONS.min_z, z)
        return w, bound_point

    # -- parts ---------------------------------------------------------------------------------

    def _cost(self, A: Vector, d: Vector, w: Vector) -> float:
        """Return Σ d_j w_j² + Σ c_i [1 − A_i w]_+."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float((d * w) @ w + self.c @ np.maximum(1.0 - A @ w, 0.0))

    def _embed(self, w: Vector, columns: Integers) -> Vector:
        """Return w, or z, of some columns as a vector (m+1,), with 0 for the others."""
        embedded = np.zeros(self.m + 1)
        embedded[columns] = w
        return embedded

    def _columns(self, columns: Integers) -> Vector:
        """Return columns of the matrix of rows y_i x̃_i, dense."""
        A = self._A[:, columns]
        return np.asfortranarray(A.toarray() if is_sparse(A) else A)

    def _columns_at_start(self, included: Bits, excluded: Bits, w: Vector) -> Integers:
        """Return the first columns of a relaxation: at most `max_columns` features, and the bias."""
        free = np.flatnonzero(~excluded)
        if len(free) > OPTIONS.max_columns:
            size = np.abs(w[:-1])
            if not size.any():
                size = np.abs(self.signed_sum(self.c)[:-1])  # |v| at w = 0, where α = c
            order = free[np.argsort(-np.where(included, np.inf, size)[free], kind="stable")]
            free = np.sort(order[: OPTIONS.max_columns])
        return np.append(free, self.m)

    def _new_columns(self, v: Vector, columns: Integers, included: Bits, excluded: Bits) -> Integers:
        """Return the free features without a column whose v_j² is among the largest."""
        if len(columns) == self.m + 1 - int(excluded.sum()):
            return columns[:0]
        size = np.where(included | excluded, -1.0, np.abs(v[:-1]))
        n_free = self.s - int(included.sum())  # number of free features that a face may have
        largest = np.argsort(-size, kind="stable")[: max(n_free, 0)]
        return np.setdiff1d(largest[size[largest] > 0.0], columns)

    def _z_of_columns(self, sizes: Vector, columns: Integers, included: Bits) -> Vector:
        """Return the z of the columns that is optimal for |w| = `sizes`; 1 for the bias."""
        z = np.ones(len(columns))
        free = np.flatnonzero(~included[columns[:-1]])
        n_free, size = self.s - int(included.sum()), sizes[free]
        if len(free) > n_free and size.any():
            z[free] = np.maximum(optimal_z(size, n_free), OPTIONS.min_z)
        return z


def optimal_z(sizes: Vector, total: int) -> Vector:
    """Return the z in [0, 1]^k with the sum `total` < k that minimise Σ sizes²/z: min(1, sizes/τ)."""
    order = np.sort(sizes)[::-1]
    tail_sums = np.cumsum(order[::-1])[::-1]
    for n_ones in range(total):  # the largest sizes have z = 1, and the others sizes/τ
        tau = tail_sums[n_ones] / (total - n_ones)
        if order[n_ones] <= tau:
            return np.asarray(np.minimum(1.0, sizes / tau)) if tau > 0 else np.zeros_like(sizes)
    return np.asarray(sizes >= order[total - 1], dtype=float) if total else np.zeros_like(sizes)


def _rounded_bound(alpha: Vector, sizes: Vector) -> float:
    """Return Σ α − ¼ Σ sizes², rounded down; -inf if that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(alpha.sum()) * (1.0 - 2.0 * gamma(len(alpha) + 2))
        square = 0.25 * float(sizes @ sizes) * (1.0 + 2.0 * gamma(len(sizes) + 4))
        bound = total - square - 4.0 * UNIT * (total + square)
    return float(np.nextafter(bound, -np.inf)) if np.isfinite(bound) else -np.inf
