"""From a good point to a stationary one: Newton's method for the assignment, at sharper and sharper maxima.

For an assignment and a soft maximum of softness t the objective is convex, and smooth but for its prices: the
kinks of λ are met by steps within an orthant, those of groups by the least of the quadratic model with the
price as it is (:mod:`polyopt.polyhedral.logistic_solver.priced_model`). Its optimum is above that of the
assignment's program by no more than t Σ α ln L over the samples that two faces of the other class hold, and
those are few: as t falls, so does the gap to the bound that the multipliers give. Between two steps every
sample takes its best face, which lowers the objective, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import is_sparse
from polyopt.optim.logistic_newton import ARMIJO
from polyopt.polyhedral.logistic_solver.priced_model import Places, least_of_model, step_within
from polyopt.polyhedral.logistic_solver.smooth import FaceLoss, bound, shares_of

Array = NDArray[np.float64]


_MAX_ENTRIES = 2500  # entries of W that differ from 0 up to which the curvature is a dense matrix
_FIRST_SOFTNESS, _MIN_RATIO, _LAST_SOFTNESS = 0.1, 0.2, 1e-10
_STEPS, _MAX_STEPS = 20, 200  # of Newton's at one softness
_SETTLED_STEPS = 3  # steps at one softness after which the next may be much sharper
_MAX_RATIO = 0.6  # ratio of two softnesses beyond which it is not brought nearer to 1
_MODEL_REL_GAP = 0.01  # share of the gap at hand to which a model with groups is solved
# Shares of the tolerance to which each softness is solved, and the last one.
_STAGE_REL_TOL, _LAST_REL_TOL = 0.1, 1e-5


def polish(problem: FaceLoss, W: Array, clock: Clock, *, tol: float = 1e-6, max_iter: int = 1000) -> Solution:
    """Solve for the assignment, and assign, until neither brings anything.

    Parameters
    ----------
    problem : FaceLoss
        The samples and prices.
    W : ndarray of shape (K, m+1)
        Where to begin; it keeps the signs that are asked.
    clock : Clock
        When to stop; the best point is kept.
    tol : float
        Relative gap to the bound of the assignment at which to stop.
    max_iter : int
        Newton's steps at most.

    Returns
    -------
    Solution
        ``primal`` has ``W`` and ``assignment``, ``duals`` has ``margin``, alpha (n, K); SOLVED within the
        assignment, which is the best for W. ``history`` has a record after each step.
    """
    kept, status, t, ratio = _Kept(problem, W, tol, clock), Status.STALLED, _FIRST_SOFTNESS, _MIN_RATIO
    steps, last = _MAX_STEPS, W  # at the first softness there is no way back
    while t >= _LAST_SOFTNESS:
        begun = kept.made
        ended = _newton(kept, t, tol, min(max_iter, kept.made + steps), clock)
        if max(kept.gap, kept.slack / _STAGE_REL_TOL) <= tol * kept.value:
            status = Status.SOLVED
            break
        if ended is Status.ITERATION_LIMIT and kept.made < max_iter and ratio < _MAX_RATIO:
            # Too sharp at once: Newton's steps are short where they do not see the next kink.
            t, ratio = t / ratio, ratio**0.5
            kept.at(last, t)
        elif ended in (None, Status.ITERATION_LIMIT) and kept.made < max_iter:
            last = kept.W
            ratio = ratio if kept.made - begun > _SETTLED_STEPS else max(ratio**2, _MIN_RATIO)
        else:
            status = ended or Status.STALLED
            break
        t *= ratio
        steps = _STEPS if ratio < _MAX_RATIO else _MAX_STEPS
    return kept.solution(status)


class _Kept:
    """The last point, and the best bound for its assignment."""

    def __init__(self, problem: FaceLoss, W: Array, tol: float, clock: Clock):
        self.problem, self.tol, self.clock = problem, tol, clock
        self.history: list[dict[str, float]] = []
        self.value, self.bound, self.z = np.inf, -np.inf, problem.natural(W)
        self.at(W, _FIRST_SOFTNESS)

    @property
    def made(self) -> int:
        """The steps made, each with a record in the history."""
        return len(self.history)

    def note(self) -> None:
        """Record the point after a step."""
        bound = min(self.bound, self.value)
        self.history.append({"seconds": self.clock.seconds, "objective": self.value, "bound": bound})

    @property
    def gap(self) -> float:
        return self.value - self.bound

    def at(self, W: Array, t: float) -> None:
        """Take a point, smoothed by t."""
        problem, s = self.problem, self.problem.scores(W)
        loss, self.slope, self.R, self.a = problem.smooth(W, 0.0, t, s)
        self.W, self.smoothed = W, loss + problem.price(W)
        self.judge(t, s)

    def judge(self, t: float, s: Array) -> None:
        """The objective, and the bounds of the program and of the smoothed one, at the scores s."""
        problem, z = self.problem, self.problem.natural(self.W, s)
        if not np.array_equal(z, self.z):
            self.z, self.bound = z, -np.inf
        found = bound(problem, self.W, self.slope, self.a)
        shares = shares_of(np.where(problem.others, self.R, 0.0), self.a)
        self.slack = self.smoothed - (found + t * float(self.a @ entr(shares).sum(axis=1)))
        self.value = problem.value(self.W, s)
        # Of bounds that are good enough the last: its multipliers belong to the last point.
        if found > self.bound or self.value - found <= self.tol * self.value:
            self.bound, self.alpha = found, np.where(problem.others, self.R, 0.0)

    def solution(self, status: Status) -> Solution:
        """What is known at the end."""
        return Solution(
            status, {"W": self.W, "assignment": self.z}, {"margin": self.alpha}, self.value,
            min(self.bound, self.value), "newton", self.made, solve_time=self.clock.seconds,
            history=tuple(self.history),
        )  # fmt: skip


def _newton(kept: _Kept, t: float, tol: float, max_iter: int, clock: Clock) -> Status | None:
    """Newton's steps at one softness, until `max_iter` have been made in all; None where they settled."""
    problem = kept.problem
    kept.at(kept.W, t)
    while True:
        near = _LAST_REL_TOL if kept.gap <= tol * kept.value else _STAGE_REL_TOL
        if kept.slack <= near * tol * kept.value:
            return None
        if kept.made >= max_iter:
            return Status.ITERATION_LIMIT
        if clock.is_over:
            return Status.TIME_LIMIT
        found = (_within_orthant if problem.group == 0.0 else _with_groups)(kept, t, tol)
        if found is None:
            return Status.STALLED
        is_lower = _search(kept, *found, t)
        kept.note()
        if not is_lower:
            return None


def _within_orthant(kept: _Kept, t: float, _tol: float) -> tuple[Array, float] | None:
    """Where a step of Newton's ends, and the decrease that the slope promises; None for too many entries."""
    problem = kept.problem
    signs, down = _orthant(problem, kept.W, kept.slope)
    active = (kept.W != 0.0) | (down != 0.0)
    if active.sum() > _MAX_ENTRIES:
        return None
    direction = np.zeros_like(kept.W)
    H = _curvature(problem, kept.R, kept.a, active, t)
    held = ((problem.prices > 0.0) | (problem.ways != 0.0))[active]
    direction[active] = step_within(H, down[active], kept.W[active], np.where(held, signs[active], 0.0))
    return kept.W + direction, float((down * direction).sum())


def _with_groups(kept: _Kept, t: float, tol: float) -> tuple[Array, float] | None:
    """The same with a price of groups: the end is near the least of the model, and has its zeros."""
    problem = kept.problem
    price, W, slope = problem.face_price, problem.turned(kept.W), problem.turned(kept.slope)
    pulls = np.where(problem.entries, problem.ridges * W - slope, 0.0)
    active = ((W != 0.0) | (price.shrunk(pulls) != 0.0)) & problem.entries
    active[:, -1] = problem.free
    used = np.append(active[:, :-1].any(axis=0), True)
    used[0] |= not used[:-1].any()  # the model is of one feature at least
    at = np.flatnonzero(active[:, used])
    if active[:, used].size > _MAX_ENTRIES:
        return None
    H = np.eye(active[:, used].size)
    signs = np.repeat(problem.owners.classes, active.sum(axis=1))
    H[np.ix_(at, at)] = _curvature(problem, kept.R, kept.a, active, t) * np.outer(signs, signs)
    part = price.of_features(np.flatnonzero(used[:-1]))
    gap = max(kept.slack, 0.0)
    enough = _MODEL_REL_GAP * min(gap, max(kept.value * tol, gap * gap / kept.value))
    ended = W.copy()
    ended[:, used] = least_of_model(
        part, Places.of(part, len(W)), W[:, used], slope[:, used], H, problem.ridges[used], active[:, used],
        enough,
    )  # fmt: skip
    promised = float((slope * (W - ended)).sum()) + price.value(W) - price.value(ended)
    return problem.turned(ended), promised


def _orthant(problem: FaceLoss, W: Array, slope: Array) -> tuple[Array, Array]:
    """The signs that a step keeps, and the way of steepest descent, 0 where a weight is held at 0."""
    up, down = problem.thresholds
    at_zero = (slope < -up).astype(float) - (slope > down)
    signs = np.where(W != 0.0, np.sign(W), at_zero)
    steepest = np.where(signs != 0.0, -(slope + problem.prices * signs), 0.0)
    steepest[~problem.entries] = 0.0
    return signs, steepest


def _search(kept: _Kept, ended: Array, promised: float, t: float) -> bool:
    """Go the first of shorter and shorter steps that lowers enough, if there is one."""
    W, value, size = kept.W, kept.smoothed, 1.0
    while size >= 1e-6:
        kept.at(ended if size == 1.0 else W + size * (ended - W), t)
        if kept.smoothed <= value - size * ARMIJO * promised and kept.smoothed < value:
            return True
        size *= 0.5
    kept.at(W, t)
    return False


def _curvature(problem: FaceLoss, R: Array, a: Array, active: NDArray[np.bool_], t: float) -> Array:
    """The second derivatives of the smooth part in the active entries of W."""
    p, shares = problem.probabilities(a), shares_of(R, a)
    bend, tied = a * (1.0 - p), a / t
    columns = [_columns(problem, active[k]) for k in range(len(active))]
    ends = np.r_[0, np.cumsum(active.sum(axis=1))]
    H = np.zeros((ends[-1], ends[-1]))
    for k, left in enumerate(columns):
        for j in range(k + 1):
            weights = bend * shares[:, k] * shares[:, j]
            both = problem.others[:, k] & problem.others[:, j]
            weights -= np.where(both, tied * shares[:, k] * shares[:, j], 0.0)
            if j == k:
                weights += np.where(both, tied * shares[:, k], 0.0)
            used = np.flatnonzero(weights)
            block = left[used].T @ (columns[j][used] * weights[used, None])
            H[ends[k] : ends[k + 1], ends[j] : ends[j + 1]] = block
            H[ends[j] : ends[j + 1], ends[k] : ends[k + 1]] = block.T
    H.flat[:: len(H) + 1] += np.broadcast_to(problem.ridges, active.shape)[active]
    return H


def _columns(problem: FaceLoss, active: NDArray[np.bool_]) -> Array:
    """The features of the active entries, dense, and ones for the bias."""
    features = np.flatnonzero(active[:-1])
    chosen = problem.X[:, features]
    dense = chosen.toarray() if is_sparse(chosen) else chosen
    return np.column_stack([dense, np.ones(len(dense))]) if active[-1] else np.asarray(dense)
