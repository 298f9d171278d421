"""Dual coordinate ascent for the Convex Polytope Machine with loss="sum".

For a fixed assignment the K faces are independent (formulations.cpm), and share their samples:

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ C_ik     for every face k.

:func:`solve_cpm_dual` begins with exact coordinate steps (Hsieh et al., 2008) on all faces in passes over the
samples. Then two steps alternate: a scan of all samples, which measures the gap, and coordinate steps of each
face over the few samples whose multipliers are not at rest at 0
(:class:`polyopt.optim.coordinate_ascent.FaceAscent`).

:class:`DualProblem` alternates between these multipliers and the assignment. One state of multipliers serves
all rounds: a positive that changes its face takes its multiplier to 0 there, and the ascent continues. A
round ends as soon as its objective has fallen and a positive is to move, however large the gap still is; only
if none is to move is the gap closed to the tolerance. Each round returns, per face, the better of the
previous solution and the new iterate, both evaluated at the current assignment; the objective is therefore
non-increasing even if subproblems are solved inexactly.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), unconstrained form of eq. (6).
Hsieh et al., A Dual Coordinate Descent Method for Large-scale Linear SVM (2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import positive, tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.recovery import as_costs
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import check_assignment
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.linalg.rows import Rows, as_rows
from polyopt.optim.coordinate_ascent import FaceAscent
from polyopt.optim.rounds import MIN_REL_DECREASE

Assignment = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Numbers of the ascent and of the rounds around it."""

    # Scans are in single precision, good to about six digits, if the data are large and entries moderate.
    single_min_entries: int = 1 << 21
    single_max_entry: float = 1e4
    single_min_tol: float = 1e-5
    min_bound_rise_rel: float = 1e-13  # rise of the bound that counts as progress
    max_idle_rounds: int = 30  # rounds without progress after which a run has stalled
    start_sweeps: int = 2  # passes over all samples from α = 0
    max_climbs: int = 1000  # ascents, each with a scan, for one assignment
    max_loose_rounds: int = 10  # of loosening a start
    loose_min_moved: float = 0.002  # share of the positives that must move for another such round
    own_pull_share: float = 0.1  # of a positive's own part of its score, subtracted while loosening
    rows_at_once: int = 1 << 12  # samples scored at once at random directions


OPTIONS = Options()

# -- one assignment ---------------------------------------------------------------------------


def solve_cpm_dual(
    X: Matrix, y: Vector, C: ArrayLike, n_faces: int, assignment: ArrayLike, *, scale: float = 1.0,
    tol: float = 1e-3, max_iter: int = 1000, time_limit: float | None = None,
    seed: int = 0, options: Options = OPTIONS,
) -> Solution:  # fmt: skip
    """Solve the fixed-assignment program to a relative gap `tol`, over all samples and in double precision.

    max_iter: rounds of a scan and an ascent at most.
    Returns: primal ``W`` (K, m+1), bias last; duals ``margin`` (n, K); ``objective`` at W and the proven
        ``bound``, both in double precision from the multipliers. ``iterations`` counts passes over the data.
        A limit, or Ctrl-C, keeps the last point and its valid bound.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    whole("n_faces", n_faces)
    whole("max_iter", max_iter)
    ascent = dual_machine(X, y, C, n_faces, assignment, scale=scale, tol=tol, seed=seed, options=options)
    built = clock.seconds
    history: list[dict[str, float]] = []
    status, progress = Status.ITERATION_LIMIT, _Progress(options)
    try:
        ascent.sweep(times=options.start_sweeps)
        for _ in range(max_iter):
            ascent.scan()
            history.append(
                {
                    "objective": float(ascent.primal.sum()),
                    "bound": float(ascent.dual.sum()),
                    "active": float(ascent.active),
                    "passes": ascent.passes,
                    "seconds": clock.seconds,
                }
            )
            if not ascent.gap > tol or not np.isfinite(ascent.gap):
                if ascent.check() <= tol:
                    status = Status.SOLVED
                    break
                ascent.single = False
            ended = progress.end(ascent, clock)
            if ended is not None:
                status = ended
                break
            ascent.climb(tol)
    except KeyboardInterrupt:
        status = interrupted()
    if status is not Status.SOLVED:
        ascent.check()
    return Solution(
        status=status,
        primal={"W": ascent.W},
        duals={"margin": ascent.alpha},
        objective=float(ascent.primal.sum()),
        bound=float(ascent.dual.sum()),
        solver="dual coordinate ascent",
        iterations=int(np.ceil(ascent.passes)),
        build_time=built,
        solve_time=clock.seconds - built,
        history=tuple(history),
    )


def dual_machine(
    X: Matrix | Rows, y: Vector, C: ArrayLike, n_faces: int, assignment: ArrayLike, *, scale: float = 1.0,
    tol: float = 1e-3, seed: int = 0, options: Options = OPTIONS,
) -> FaceAscent:  # fmt: skip
    """Return the state of the ascent before its first step, in single precision if that suffices."""
    y = np.asarray(y, dtype=float)
    C = as_costs(C, len(y))
    chosen = check_assignment(y, n_faces, assignment)
    rows = X if isinstance(X, Rows) else as_rows(X)
    largest = abs(scale) * max(map(abs, map(float, (rows.values.min(initial=0), rows.values.max(initial=0)))))
    is_large = len(rows.values) * n_faces > options.single_min_entries
    single = is_large and largest < options.single_max_entry and tol >= options.single_min_tol
    caps = np.repeat(C[:, None], n_faces, axis=1)
    return FaceAscent(rows, y, caps, chosen, scale=scale, single=single, seed=seed)


class _Progress:
    """Stall detection: the bound rises, or the gap falls, as far as doubles can tell."""

    def __init__(self, options: Options) -> None:
        self._bound, self._gap, self._idle, self._options = -np.inf, np.inf, 0, options

    def end(self, ascent: FaceAscent, clock: Clock) -> Status | None:
        """Return STALLED or TIME_LIMIT if the run is to end after this round, else None."""
        bound, gap = float(ascent.dual.sum()), ascent.gap
        if bound > self._bound + self._options.min_bound_rise_rel * abs(bound) or gap < 0.99 * self._gap:
            self._bound, self._gap, self._idle = max(bound, self._bound), min(gap, self._gap), 0
        else:
            self._idle += 1
        if self._idle >= self._options.max_idle_rounds:
            return Status.STALLED
        return Status.TIME_LIMIT if clock.is_over else None


# -- alternating minimisation -----------------------------------------------------------------


@dataclass
class _Incumbent:
    """The faces of the last solution, and the parts of their values that hold for any assignment."""

    W: Vector
    others: Vector  # ‖W_k‖² + what face k pays for the negatives
    scores: Vector  # of the positives on the faces


class DualProblem(PolytopeProblem):
    """Alternating minimisation by dual coordinate ascent.

    X, y, C, n_faces: as of :class:`~polyopt.cpm.alternating.PolytopeProblem`; X may be float32 or uint8.
    tol: relative gap of the fixed-assignment program at the end; also by how much a positive's score or hinge
        must be better on another face for it to move there.
    scale: factor of every entry of X.
    """

    # The state of a run.
    _not_pickled: ClassVar[tuple[str, ...]] = ("_ascent", "_best", "_value", "_expected")
    _ascent: FaceAscent | None = None
    _best: _Incumbent | None = None
    _value = float("inf")
    _expected: Assignment | None = None  # the assignment that the state is warm for

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, *, tol: float = 1e-3, scale: float = 1.0
    ):
        super().__init__(X, y, C, n_faces)
        self._rows, self._tol, self._scale = as_rows(X), tolerance(tol), positive("scale", scale)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Return a random assignment, loosened."""
        return self.loosen(self.draw(rng), time_limit)

    def _assign_at_start(self, directions: Vector, mean: Vector) -> Assignment:
        """Return the direction (m, K) along which each positive is farthest from the positives' mean."""
        at = np.flatnonzero(self.y > 0)
        best, mean = np.full(len(self.y), -1), np.asarray(self.X[at].mean(axis=0)).ravel()
        for first in range(0, len(at), OPTIONS.rows_at_once):
            rows = at[first : first + OPTIONS.rows_at_once]
            best[rows] = np.asarray(self.X[rows] @ directions - mean @ directions).argmax(axis=1)
        return best

    def loosen(self, assignment: Assignment, time_limit: float | None = None) -> Assignment:
        """Return a better assignment to start from; the objective may rise on the way.

        A positive with the multiplier α adds ½ α ‖x̃‖² to its own score on its face. A share of that is
        subtracted before it compares faces, so that it may leave a face that fits it only because the
        positive pulled it there. Alternating minimisation never moves a positive that is satisfied.
        """
        clock = Clock(time_limit)
        ascent = self._begin(assignment)
        for _ in range(OPTIONS.max_loose_rounds):
            ascent.climb(0.05, accuracy=0.1, passes=3)
            ascent.scan()
            pull = OPTIONS.own_pull_share * ascent.score_of_own_multiplier()
            following = self._better(ascent.scores, assignment, ascent.alpha, pull)
            moved = int((following != assignment).sum())
            assignment = following
            ascent.reassign(assignment)
            if moved <= OPTIONS.loose_min_moved * (self.y > 0).sum() or clock.is_over:
                break
        self._expected = assignment
        return assignment

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return the fixed-assignment optimum; or, if a positive is to move anyway, a better point.

        On data out of scale with the costs the ascent may take very long: it ends after `max_climbs`.
        """
        clock, before = Clock(time_limit), self._value
        if self._expected is None or not np.array_equal(assignment, self._expected):
            self._begin(assignment)
            before = self._value
        ascent = self._ascent
        assert ascent is not None
        ascent.reassign(assignment)
        status, tol, progress = Status.ITERATION_LIMIT, self._tol, _Progress(OPTIONS)
        for _ in range(OPTIONS.max_climbs):
            ascent.climb(tol)
            ascent.scan()
            value = self._take_better(ascent)
            if ascent.gap <= tol:
                if ascent.check() > self._tol:
                    ascent.single = False
                elif ascent.primal.sum() <= before or tol < 1e-3 * self._tol:
                    status = Status.SOLVED
                    value = self._take_better(ascent, take_all=ascent.primal.sum() <= before)
                    break
                else:
                    tol *= 0.3  # the last solution is still better
            elif value < (1.0 - MIN_REL_DECREASE) * before and self._is_to_move(ascent):
                status = Status.INACCURATE
                break
            ended = progress.end(ascent, clock)
            if ended is not None:
                status = ended
                break
        assert self._best is not None
        self._value, self._expected = value, assignment
        return Solution(
            status=status,
            primal={"W": self._best.W.copy()},
            duals={"margin": ascent.alpha.copy()},
            objective=value,
            bound=float(ascent.dual.sum()),
            solver="alternating, dual coordinate ascent",
            iterations=int(np.ceil(ascent.passes)),
        )

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face if its hinge is lower there, or it supports its face only."""
        best = self._best
        if best is None or not np.array_equal(point["W"], best.W):
            raise ValueError("point must be the last answer of this engine")
        following = self._better(best.scores, assignment, point.duals["margin"])
        if self._expected is not None and np.array_equal(assignment, self._expected):
            self._expected = following
        return following

    def _begin(self, assignment: Assignment) -> FaceAscent:
        self._ascent = dual_machine(
            self._rows, self.y, self.C, self.n_faces, assignment, scale=self._scale, tol=self._tol
        )
        self._ascent.sweep(times=OPTIONS.start_sweeps)
        self._best, self._value = None, np.inf
        return self._ascent

    def _take_better(self, ascent: FaceAscent, take_all: bool = False) -> float:
        """Keep the faces that the ascent has improved; return the objective."""
        others = np.einsum("kj,kj->k", ascent.W, ascent.W) + ascent.loss_on_negatives
        if self._best is None or take_all:
            self._best = _Incumbent(ascent.W.copy(), others, ascent.scores.copy())
            return float(ascent.primal.sum())
        best = self._best
        values = ascent.values_at(best.others, best.scores)
        better = ascent.primal < values
        best.W[better], best.others[better] = ascent.W[better], others[better]
        best.scores[:, better] = ascent.scores[:, better]
        return float(np.minimum(values, ascent.primal).sum())

    def _is_to_move(self, ascent: FaceAscent) -> bool:
        assert self._best is not None
        following = self._better(self._best.scores, ascent.assignment, ascent.alpha)
        return bool((following != ascent.assignment)[self.y > 0].any())

    def _better(
        self, scores: Vector, assignment: Assignment, alpha: Vector, pull: Vector | float = 0.0
    ) -> Assignment:
        """Return the assignment with each positive at its best face if that is better for it.

        `pull` (positives,) is subtracted from the scores on their own faces.
        """
        at, samples = np.flatnonzero(self.y > 0), np.arange(len(scores))
        faces = assignment[at]
        own_scores = scores[samples, faces]
        rivals = scores.copy()
        rivals[samples, faces] = -np.inf
        best = rivals.argmax(axis=1)
        supports = (own_scores < 1.0) | (alpha[at, faces] > 0.0)
        moves = supports & (rivals[samples, best] > own_scores - pull + self._tol)
        following = assignment.copy()
        following[at[moves]] = best[moves]
        return following
