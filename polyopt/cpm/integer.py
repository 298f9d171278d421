"""Faces of small integers: real faces are rounded, with a bound on the loss.

:func:`round_faces` rounds each face. Then assignments of the positives and searches for better integers
alternate, and never raise the objective. (Assigning anew and refitting the real faces after each rounded one
changed no result on ionosphere, sonar and wdbc.)

:class:`IntegerFace` rounds one face. A rounded face is w = δ (p, −θ) with integers p, a scale δ and a
threshold θ. For given p only δ and b = −δθ are left to optimise, the face of a single feature p·x:

    min  ‖p‖² δ² + b² + Σ_i c_i [1 − y_i (δ p·x_i + b)]_+.

The search for p

1. rounds the real face at several scales, and takes the best p;
2. changes a single integer, in the order of the derivative 2δ²p_j − δ v_j of the objective by p_j, where
   v = Σ α_i y_i x_i, or two integers if no single change lowers the cost, until no change does;
3. rounds θ to as few digits as increase the objective only slightly, and δ to so few binary digits that its
   products with the integers are exact. So the printed face is the face itself.

The bound is that of the real program for the final assignment, so the loss by rounding is at most the
objective less the bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations import cpm
from formulations.language.arguments import as_costs, whole
from formulations.language.clock import Clock
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import natural_assignment
from polyopt.cpm.alternating import reassigned
from polyopt.cpm.dual import solve_cpm_dual
from polyopt.cpm.few_feature_face import SubsetFace
from polyopt.cpm.few_features import SubsetProblem
from polyopt.cpm.smooth_hinge import OPTIONS as SMOOTHING
from polyopt.cpm.smooth_hinge import begin, multipliers_of, newton

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Parameters of the rounding."""

    max_refit_features: int = 500  # number of features above which real faces are not refitted
    refit_rel_gap: float = 1e-4  # relative gap of a refitted face, and of the bound without refits
    n_scales: int = 24  # number of scales at which a real face is rounded
    max_single_changes: int = 24  # number of integers with the largest derivatives that are changed singly
    n_paired: int = 6  # number of integers with the largest derivatives that are changed in pairs
    max_threshold_cost_rel: float = 1e-3  # largest relative increase of the cost by rounding θ
    scale_bits: int = 20  # number of binary digits of a scale δ
    min_rel_decrease: float = 1e-9  # relative decrease of the cost for a change, and gap of fits of δ, b


OPTIONS = Options()

# -- all faces --------------------------------------------------------------------------------


def round_faces(
    X: Matrix, y: Vector, C: Vector, real: Solution, M: int, *, max_features: int | None = None,
    max_nodes: int = 1000, tol: float = 1e-6, time_limit: float | None = None,
    signs: Integers | None = None,
) -> Solution:  # fmt: skip
    """Round the faces of a solution to integers from −M to M, times a scale for each face.

    real: solution with real faces ``W`` (K, m+1), which satisfy the signs.
    max_features: largest number of nonzero integers of a face; the bound is then that of
        :func:`polyopt.cpm.few_features.search_subset` with `max_nodes` and `tol`.
    time_limit: seconds. Every face is rounded once even if they are over.
    signs (m,): as in :class:`IntegerFace`.
    Returns: primal ``integers`` (K, m), ``scales`` (K,), ``thresholds`` (K,), the faces ``W`` (K, m+1) of
        these, and ``assignment`` (n,); duals ``margin`` (n, K) and ``bound`` of the real program for that
        assignment, with search trees if `max_features` is given.
    """
    clock = Clock(time_limit)
    costs, W = as_costs(C, len(y)), np.array(real["W"])
    rounding = _Rounding(X, y, costs, whole("M", M), max_features, W, signs, clock)
    status = real.status
    try:
        rounding.round_all()
        rounding.search_again()
    except KeyboardInterrupt:
        rounding.round_all()
        status = Status.INTERRUPTED
    if clock.is_over and status is Status.CONVERGED:
        status = Status.TIME_LIMIT
    W, z, faces = rounding.W, rounding.z, [face for face in rounding.rounded if face is not None]
    alpha, bound, trees = rounding.bound(max_nodes, tol)
    hinge = slacks(np.asarray(cpm.lift(X) @ W.T), y[:, None])
    losses = (hinge * cpm.assignment_matrix(y, len(W), z)).sum(axis=1)
    primal = {
        "W": W, "assignment": z, "integers": np.array([face.integers for face in faces]),
        "scales": np.array([face.scale for face in faces]),
        "thresholds": np.array([face.threshold for face in faces]),
    }  # fmt: skip
    return replace(
        real, status=status, primal=primal, duals={"margin": alpha, **trees},
        objective=float((W**2).sum() + rounding.C @ losses), bound=bound,
        solver=f"{real.solver}; rounded to whole numbers", solve_time=real.solve_time + clock.seconds,
    )  # fmt: skip


class _Rounding:
    """The state of :func:`round_faces`: faces W, their rounded forms, and assignment z; s is max_features."""

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, M: int, s: int | None, W: Vector, signs: Integers | None,
        clock: Clock,
    ):  # fmt: skip
        self.signs = signs
        self.X, self.y, self.C, self.M, self.s, self.W, self.clock = X, y, C, M, s, W, clock
        self.lifted = cpm.lift(self.X)
        self.rounded: list[RoundedFace | None] = [None for _ in self.W]  # None: the face is still real
        self.z = natural_assignment(self.X, self.y, self.W)

    def round_all(self) -> None:
        """Round the faces that are still real."""
        for k, face in enumerate(self.rounded):
            if face is None:
                self._set_face(k, self._round(k, self.W[k]))

    def search_again(self) -> None:
        """Alternate the search for the integers of every face and the assignment, until it is unchanged."""
        has_changed = True
        while has_changed:
            for k, face in enumerate(self.rounded):
                assert face is not None
                if self.clock.is_over:
                    return
                candidate = self._round(k, self._fit(k), face.integers)
                if self._cost(candidate.w, k) < self._cost(face.w, k):
                    self._set_face(k, candidate)
            has_changed = self._assign()

    def bound(self, max_nodes: int, tol: float) -> tuple[Vector, float, dict[str, Vector]]:
        """Return multipliers (n, K) of the real program, its bound, and, with max_features, search trees."""
        K, seconds = len(self.W), self.clock.left
        if self.s is not None:
            problem = SubsetProblem(
                self.X, self.y, self.C, K, self.s, tol=tol, max_nodes=max_nodes, signs=self.signs
            )
            problem.begin_from(self.W)
            real = problem.solve(self.z, seconds)
        elif self.X.shape[1] > OPTIONS.max_refit_features:  # all faces by one ascent
            gap = OPTIONS.refit_rel_gap
            real = solve_cpm_dual(self.X, self.y, self.C, K, self.z, tol=gap, time_limit=seconds)
        else:  # a fit to all features, to a small gap
            alpha, total = np.zeros((len(self.y), K)), 0.0
            for k in range(K):
                face = self._real_face(k)
                fitted = face.fit(np.arange(face.m))
                alpha[face.rows, k], total = fitted.alpha, total + max(fitted.bound, 0.0)
            return alpha, total, {}
        trees = dict(real.duals)
        return trees.pop("margin"), float(real.bound or 0.0), trees

    def _costs(self, k: int) -> Vector:
        """Return the costs (n,) of the samples at face k, 0 for positives of other faces."""
        return np.where((self.y < 0) | (self.z == k), self.C, 0.0)

    def _real_face(self, k: int) -> SubsetFace:
        s = self.X.shape[1] if self.s is None else self.s
        return SubsetFace(self.X, self.y, self._costs(k), s, self.signs)

    def _fit(self, k: int) -> Vector:
        """Return the real face k refitted to its samples, with its features if their number is limited."""
        if self.X.shape[1] > OPTIONS.max_refit_features:
            return self.W[k]
        face = self._real_face(k)
        used = np.arange(face.m) if self.s is None else np.flatnonzero(self.W[k, :-1])
        return face.fit(used, tol=OPTIONS.refit_rel_gap, w=self.W[k]).w

    def _round(self, k: int, w: Vector, *starts: Integers) -> "RoundedFace":
        """Round face k from a real face w and from the integers `starts`."""
        return IntegerFace(self.X, self.y, self._costs(k), self.M, self.s, self.signs).round(w, *starts)

    def _cost(self, w: Vector, k: int) -> float:
        """Return the cost of a face w for the samples of face k."""
        hinge = np.maximum(0.0, 1.0 - self.y * np.asarray(self.lifted @ w))
        return float(w @ w + self._costs(k) @ hinge)

    def _set_face(self, k: int, face: "RoundedFace") -> None:
        self.rounded[k], self.W[k] = face, face.w

    def _assign(self) -> bool:
        """Move each positive to its best face if that lowers its hinge; return True if any moves."""
        previous = self.z
        self.z = reassigned(np.asarray(self.lifted @ self.W.T), self.y, previous)
        return bool((self.z != previous).any())


# -- one face ---------------------------------------------------------------------------------


class RoundedFace(NamedTuple):
    """A face of integers, with its cost as the objective."""

    integers: Integers  # p (m,)
    scale: float  # δ
    threshold: float  # θ = −b/δ, or −b if p is 0
    objective: float

    @property
    def w(self) -> Vector:
        """The face (m+1,), bias last."""
        if not self.integers.any():
            return np.append(np.zeros(len(self.integers)), -self.threshold)
        return self.scale * np.append(self.integers, -self.threshold)


@dataclass(frozen=True)
class _Candidate:
    """Integers p with their optimal scale δ and bias b, multipliers α, and cost."""

    integers: Integers
    scale: float
    bias: float
    signed_alpha: Vector  # (n,) α_i y_i
    objective: float


class IntegerFace:
    """The search for the integers of one face.

    X (n, m), y (n,): samples and labels.
    c (n,): costs of slack, 0 for positives on other faces.
    M: largest absolute value of an integer, at least 1.
    s: largest number of nonzero integers; m by default.
    signs (m,): +1 for integers that may not be negative, -1 for those that may not be positive, else 0.
    """

    def __init__(
        self, X: Matrix, y: Vector, c: Vector, M: int, s: int | None = None, signs: Integers | None = None
    ):
        self._signs = np.zeros(X.shape[1], dtype=np.int64) if signs is None else signs
        rows = np.flatnonzero(np.asarray(c) > 0)
        self.X, self.y, self.c = X[rows], np.asarray(y, dtype=float)[rows], np.asarray(c, dtype=float)[rows]
        self.M, self.m = M, X.shape[1]
        self.s = self.m if s is None else min(s, self.m)
        self._fits: dict[bytes, _Candidate] = {}  # by the bytes of the integers

    def round(self, w: Vector, *starts: Integers) -> RoundedFace:
        """Return a local optimum of the integers, from the best of `starts` and of a rounded real face w."""
        zero = np.zeros(self.m, dtype=np.int64)
        fits = [self._fit_scale(p) for p in (*starts, *self._rounded(w[:-1]), zero)]
        best = min(fits, key=lambda fit: fit.objective)
        while (better := self._improve(best)) is not None:
            best = better
        return self._shorten(best)

    def _rounded(self, w: Vector) -> Iterator[Integers]:
        """Yield the s largest weights (m,) of a real face, rounded at several scales."""
        size = np.abs(w)
        if not size.any():
            return
        largest = np.zeros(self.m)
        order = np.argsort(-size, kind="stable")[: self.s]
        largest[order] = w[order]
        max_entries = np.unique(np.round(np.geomspace(1, self.M, OPTIONS.n_scales)).astype(int))
        # A scale maps the largest weight to an integer, or to one plus 0.4, which rounds the others anew.
        for max_entry in np.concatenate([max_entries, max_entries[:-1] + 0.4]):
            yield np.clip(np.round(largest * max_entry / size.max()), -self.M, self.M).astype(np.int64)

    def _improve(self, current: _Candidate) -> _Candidate | None:
        """Return a candidate of lower cost with one or two integers changed; None if there is none."""
        p, scale, max_changes = current.integers, current.scale, OPTIONS.max_single_changes
        gradient = 2.0 * scale**2 * p - scale * np.asarray(self.X.T @ current.signed_alpha)
        candidates: list[tuple[float, Integers]] = []  # each with its rank: the lowest is tried first
        is_full = int((p != 0).sum()) >= self.s  # then an integer that becomes nonzero replaces another one
        for j in np.argsort(-np.abs(gradient), kind="stable")[:max_changes]:
            step = -1 if gradient[j] > 0 else 1
            if abs(p[j] + step) <= self.M and not (is_full and p[j] == 0):
                candidates.append((-abs(gradient[j]), _replace(p, (j, p[j] + step))))
            elif p[j] == 0 and is_full:
                for k in np.flatnonzero(np.abs(p) == np.abs(p[p != 0]).min())[:2]:  # two of the smallest
                    candidates.append((-abs(gradient[j]), _replace(p, (k, 0), (j, step))))
        for j in np.flatnonzero(p):  # towards 0 by one, and to 0, even if the derivative is against it
            candidates.append((abs(gradient[j]), _replace(p, (int(j), int(p[j] - np.sign(p[j]))))))
            candidates.append((abs(gradient[j]) * abs(p[j]), _replace(p, (int(j), 0))))
        if np.abs(p).max(initial=0) <= self.M // 2:
            candidates.append((0.0, 2 * p))  # the same face, which allows finer changes
        candidates.sort(key=lambda candidate: candidate[0])
        singles = [integers for _, integers in candidates[: 2 * max_changes]]
        for integers in chain(singles, self._two_changes(p, gradient)):
            if (self._signs * integers < 0).any():
                continue
            candidate = self._fit_scale(integers)
            if candidate.objective < current.objective * (1.0 - OPTIONS.min_rel_decrease):
                return candidate
        return None

    def _two_changes(self, p: Integers, gradient: Vector) -> Iterator[Integers]:
        """Yield p with two integers changed by one, for all pairs of a few with the largest derivatives."""
        order = np.argsort(-np.abs(gradient), kind="stable")[: OPTIONS.n_paired]
        for j, k in combinations(map(int, order), 2):
            for a, b in product((-1, 1), (-1, 1)):
                integers = _replace(p, (j, int(p[j]) + a), (k, int(p[k]) + b))
                if np.abs(integers).max() <= self.M and (integers != 0).sum() <= self.s:
                    yield integers

    def _fit_scale(self, integers: Integers) -> _Candidate:
        """Return integers with their optimal scale and bias; their signs change if the scale is negative."""
        key = integers.tobytes()
        if key not in self._fits:
            outputs = np.asarray(self.X @ integers.astype(float)).ravel()
            A = np.asfortranarray(np.column_stack([self.y * outputs, self.y]))
            v, alpha, cost = self._solve(A, np.array([max(float(integers @ integers), 1e-300), 1.0]))
            scale, bias = float(v[0]), float(v[1])  # δ and b
            sign = -1 if scale < 0.0 else 1
            if (self._signs * sign * integers < 0).any():
                cost = np.inf
            self._fits[key] = _Candidate(sign * integers, sign * scale, bias, alpha * self.y, cost)
        return self._fits[key]

    def _shorten(self, fit: _Candidate) -> RoundedFace:
        """Return the face with coprime integers, a threshold of few digits, and the scale refitted to it."""
        p, scale = fit.integers, fit.scale
        if not p.any() or not scale > 0.0:
            return RoundedFace(np.zeros_like(p), 1.0, -fit.bias, fit.objective)
        divisor = gcd(*map(int, p))
        p, scale = p // divisor, scale * divisor
        threshold, max_cost = -fit.bias / scale, fit.objective * (1.0 + OPTIONS.max_threshold_cost_rel)
        outputs = np.asarray(self.X @ p.astype(float)).ravel()
        best = RoundedFace(p, scale, threshold, np.inf)
        for n_digits in range(1, 13):
            rounded = float(f"{threshold:.{n_digits}g}")
            norm_sq, scores = float(p @ p) + rounded**2, outputs - rounded  # only δ is left to optimise
            v, _, _ = self._solve(np.asfortranarray((self.y * scores)[:, None]), np.array([norm_sq]))
            mantissa, exponent = np.frexp(float(v[0]))
            n_bits = OPTIONS.scale_bits
            scale = float(np.ldexp(np.round(mantissa * 2.0**n_bits), int(exponent) - n_bits))
            cost = float(scale**2 * norm_sq + self.c @ np.maximum(1.0 - self.y * (scale * scores), 0.0))
            if cost < best.objective and scale > 0.0:
                best = RoundedFace(p, scale, rounded, cost)
            if cost <= max_cost:
                break
        return best

    def _solve(self, A: Vector, d: Vector) -> tuple[Vector, Vector, float]:
        """Minimise Σ_j d_j v_j² + Σ c [1 − A v]_+ over one or two v_j; return v, multipliers and cost."""
        point, best_v, best_cost = begin(len(self.c), len(d)), np.zeros(len(d)), float(self.c.sum())
        best_bound, best_alpha = 0.0, np.zeros(len(self.c))
        max_cost = float(self.c.max(initial=0.0))
        for stage in range(SMOOTHING.max_stages):  # hinges smoothed over a width ε, which falls
            eps = point.eps * (SMOOTHING.eps_ratio if stage else 1.0)
            tol = SMOOTHING.min_rel_decrease * eps * max_cost
            point = newton(A, self.c, d, point, eps, tol=tol, keep_zone=stage > 0)
            cost = float(d @ point.w**2 + self.c @ np.maximum(point.u, 0.0))
            if cost < best_cost:
                best_v, best_cost = point.w, cost
            alpha = multipliers_of(point, self.c)
            bound = float(alpha.sum() - 0.25 * ((alpha @ A) ** 2 / d).sum())
            if bound > best_bound:
                best_alpha, best_bound = alpha, bound
            if best_cost - best_bound <= OPTIONS.min_rel_decrease * best_cost:
                break
        return best_v, best_alpha, best_cost


def _replace(p: Integers, *changes: tuple[int, int]) -> Integers:
    """Return the integers with the entries p_j of pairs (j, value) replaced."""
    changed = p.copy()
    for j, value in changes:
        changed[j] = value
    return changed
