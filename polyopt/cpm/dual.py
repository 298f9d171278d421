"""Dual coordinate ascent for the Convex Polytope Machine with loss="sum".

For a fixed assignment of the positives to the faces W (K, m+1), the faces are independent programs. With
x̃_i = (x_i, 1) the dual of face k is

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ C_ik,

where C_ik is the cost of slack C_i, or 0 if positive i is assigned to another face.

1. :func:`solve_cpm_dual` solves these duals. First, *sweeps* make exact coordinate steps (Hsieh et al., 2008)
   on all faces and samples. Then a *scan* of all samples, which measures the duality gap, alternates with a
   *climb*: coordinate steps of each face on its active samples, those with a positive multiplier or near or
   inside the margin (:class:`polyopt.optim.coordinate_ascent.FaceAscent`).
2. :class:`DualProblem` alternates this ascent and the choice of the assignment. The multipliers are a warm
   start for the next round: those of positives that change their face become 0. A round ends early, with an
   open gap, if its objective has fallen and a positive can improve by moving. It returns, for each face, the
   better of the previous solution and the new iterate, both evaluated at the current assignment; so the
   objective never rises, even if the duals are solved inexactly.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), unconstrained form of eq. (6).
Hsieh et al., A Dual Coordinate Descent Method for Large-scale Linear SVM (2008).
"""

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
from polyopt.optim.coordinate_ascent import FaceAscent, StallDetector
from polyopt.optim.rounds import MIN_REL_DECREASE

Assignment = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Limits and tolerances of the ascent, of alternating minimisation, and of :meth:`DualProblem.loosen`."""

    single_min_entries: int = 1 << 21  # entries of X, times K, above which scans may be in single precision
    single_max_entry: float = 1e4  # largest absolute entry of X for scans in single precision
    single_min_tol: float = 1e-5  # smallest tolerance for scans in single precision (about six digits)
    start_sweeps: int = 2  # sweeps over all samples from α = 0
    max_climbs: int = 1000  # largest number of climbs, each with a scan, for one assignment
    tol_factor: float = 0.3  # factor of the tolerance if a solved round has raised the objective
    min_tol_factor: float = 1e-3  # fraction of `tol` below which the tolerance is not decreased further
    max_loosen_rounds: int = 10  # largest number of rounds of loosen
    loosen_min_moved: float = 0.002  # fraction of the positives that must move for another round of loosen
    loosen_correction: float = 0.1  # fraction of a positive's own contribution that loosen subtracts
    block_rows: int = 1 << 12  # samples whose random directions are compared at once; bounds the memory


OPTIONS = Options()

# -- one assignment ---------------------------------------------------------------------------


def solve_cpm_dual(
    X: Matrix, y: Vector, C: ArrayLike, n_faces: int, assignment: ArrayLike, *, scale: float = 1.0,
    tol: float = 1e-3, max_iter: int = 1000, time_limit: float | None = None,
    seed: int = 0, options: Options = OPTIONS,
) -> Solution:  # fmt: skip
    """Solve the fixed-assignment program to a relative gap `tol`.

    max_iter: largest number of rounds, each a scan and a climb.
    Returns: primal ``W`` (K, m+1), bias last; duals ``margin`` (n, K), the α; ``objective`` at W and the
        dual ``bound``, both recomputed in double precision. ``iterations`` counts passes over the data. After
        a limit or Ctrl-C the last iterate is returned, with its valid bound.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    whole("n_faces", n_faces)
    whole("max_iter", max_iter)
    ascent = create_ascent(X, y, C, n_faces, assignment, scale=scale, tol=tol, seed=seed, options=options)
    build_time = clock.seconds
    history: list[dict[str, float]] = []
    status, stall_detector = Status.ITERATION_LIMIT, StallDetector()
    try:
        ascent.sweep(times=options.start_sweeps)
        for _ in range(max_iter):
            ascent.scan()
            history.append({
                "objective": float(ascent.primal.sum()), "bound": float(ascent.dual.sum()),
                "active": float(ascent.active), "passes": ascent.passes, "seconds": clock.seconds,
            })  # fmt: skip
            if ascent.gap <= tol or not np.isfinite(ascent.gap):
                if ascent.check() <= tol:  # the gap in double precision
                    status = Status.SOLVED
                    break
                ascent.single = False
            stop = stall_detector.stop_status(float(ascent.dual.sum()), ascent.gap, clock)
            if stop is not None:
                status = stop
                break
            ascent.climb(tol)
    except KeyboardInterrupt:
        status = interrupted()
    if status is not Status.SOLVED:
        ascent.check()
    return Solution(
        status, {"W": ascent.W}, {"margin": ascent.alpha},
        objective=float(ascent.primal.sum()), bound=float(ascent.dual.sum()),
        solver="dual coordinate ascent", iterations=int(np.ceil(ascent.passes)),
        build_time=build_time, solve_time=clock.seconds - build_time, history=tuple(history),
    )  # fmt: skip


def create_ascent(
    X: Matrix | Rows, y: Vector, C: ArrayLike, n_faces: int, assignment: ArrayLike, *, scale: float = 1.0,
    tol: float = 1e-3, seed: int = 0, options: Options = OPTIONS,
) -> FaceAscent:  # fmt: skip
    """Return the ascent at α = 0, with scans in single precision if `options` allow it."""
    y = np.asarray(y, dtype=float)
    C = as_costs(C, len(y))
    checked_assignment = check_assignment(y, n_faces, assignment)
    rows = X if isinstance(X, Rows) else as_rows(X)
    largest = abs(scale) * max(float(rows.values.max(initial=0)), -float(rows.values.min(initial=0)))
    is_large = len(rows.values) * n_faces > options.single_min_entries
    single = is_large and largest < options.single_max_entry and tol >= options.single_min_tol
    caps = np.repeat(C[:, None], n_faces, axis=1)
    return FaceAscent(rows, y, caps, checked_assignment, scale=scale, single=single, seed=seed)


# -- alternating minimisation -----------------------------------------------------------------


@dataclass
class _Incumbent:
    """The faces of the last solution, and the terms of their objectives."""

    W: Vector  # (K, m+1)
    other_terms: Vector  # (K,) ‖W_k‖² + loss of face k on the negatives: the same for every assignment
    scores: Vector  # (positives, K) scores of the positives


class DualProblem(PolytopeProblem):
    """Alternating minimisation by dual coordinate ascent.

    X, y, C, n_faces: as in :class:`~polyopt.cpm.alternating.PolytopeProblem`; X may be float32 or uint8.
    tol: relative gap of the fixed-assignment program in the last round; also the least increase of its score
        for which a positive moves to another face.
    scale: factor of every entry of X.
    """

    _not_pickled: ClassVar[tuple[str, ...]] = ("_ascent", "_best", "_value", "_warm_assignment")
    _ascent: FaceAscent | None = None
    _best: _Incumbent | None = None
    _value = float("inf")  # objective of the last round
    _warm_assignment: Assignment | None = None  # the only assignment for which the state is a warm start

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, *, tol: float = 1e-3, scale: float = 1.0
    ):
        super().__init__(X, y, C, n_faces)
        self._rows, self._tol, self._scale = as_rows(X), tolerance(tol), positive("scale", scale)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Return a random assignment, improved by :meth:`loosen`."""
        return self.loosen(super().start(rng), time_limit)

    def _assign_at_start(self, directions: Vector, mean: Vector) -> Assignment:
        """Assign each positive to the direction (m, K) in which it is farthest from the positives' mean."""
        positives = np.flatnonzero(self.y > 0)
        best, mean = np.full(len(self.y), -1), np.asarray(self.X[positives].mean(axis=0)).ravel()
        for first in range(0, len(positives), OPTIONS.block_rows):
            rows = positives[first : first + OPTIONS.block_rows]
            best[rows] = np.asarray(self.X[rows] @ directions - mean @ directions).argmax(axis=1)
        return best

    def loosen(self, assignment: Assignment, time_limit: float | None = None) -> Assignment:
        """Improve an assignment as a start, by rounds that may raise the objective.

        A positive with the multiplier α contributes ½ α ‖x̃‖² to its score on its own face. A fraction of this
        contribution is subtracted before its faces are compared, so that the positive can leave a face on
        which it has a high score only because of its own multiplier. Alternating minimisation cannot move
        such a positive once its hinge is 0.
        """
        clock = Clock(time_limit)
        ascent = self._begin(assignment)
        for _ in range(OPTIONS.max_loosen_rounds):
            ascent.climb(0.05, accuracy=0.1, passes=3)  # rough: a gap of 5 %, or 3 passes
            ascent.scan()
            correction = OPTIONS.loosen_correction * ascent.score_of_own_multiplier()
            new_assignment = self._improve(ascent.scores, assignment, ascent.alpha, correction)
            n_moved = int((new_assignment != assignment).sum())
            assignment = new_assignment
            ascent.reassign(assignment)
            if n_moved <= OPTIONS.loosen_min_moved * (self.y > 0).sum() or clock.is_over:
                break
        self._warm_assignment = assignment  # :meth:`solve` continues from these multipliers
        return assignment

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return the optimum for an assignment, or a better point than the last if a positive can improve.

        The number of climbs is limited, because they converge slowly on badly scaled data.
        """
        clock = Clock(time_limit)
        if self._warm_assignment is None or not np.array_equal(assignment, self._warm_assignment):
            self._begin(assignment)
        ascent, last_value = self._ascent, self._value
        assert ascent is not None
        ascent.reassign(assignment)
        status, tol, stall_detector = Status.ITERATION_LIMIT, self._tol, StallDetector()
        for _ in range(OPTIONS.max_climbs):
            ascent.climb(tol)
            ascent.scan()
            value = self._update_incumbent(ascent)
            if ascent.gap <= tol:
                if ascent.check() > self._tol:  # the gap in double precision
                    ascent.single = False
                elif ascent.primal.sum() <= last_value or tol < OPTIONS.min_tol_factor * self._tol:
                    status = Status.SOLVED
                    value = self._update_incumbent(ascent, replace_all=ascent.primal.sum() <= last_value)
                    break
                else:  # the objective has risen by less than the gap: ask for a smaller gap
                    tol *= OPTIONS.tol_factor
            elif value < (1.0 - MIN_REL_DECREASE) * last_value and self._can_improve(ascent):
                status = Status.INACCURATE
                break
            stop = stall_detector.stop_status(float(ascent.dual.sum()), ascent.gap, clock)
            if stop is not None:
                status = stop
                break
        assert self._best is not None
        self._value, self._warm_assignment = value, assignment
        return Solution(
            status, {"W": self._best.W.copy()}, {"margin": ascent.alpha.copy()},
            objective=value, bound=float(ascent.dual.sum()),
            solver="alternating, dual coordinate ascent", iterations=int(np.ceil(ascent.passes)),
        )  # fmt: skip

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Return the assignment improved at the last solution, `point`."""
        best = self._best
        if best is None or not np.array_equal(point["W"], best.W):
            raise ValueError("point must be the last solution of this problem")
        new_assignment = self._improve(best.scores, assignment, point.duals["margin"])
        if self._warm_assignment is not None and np.array_equal(assignment, self._warm_assignment):
            self._warm_assignment = new_assignment
        return new_assignment

    def _begin(self, assignment: Assignment) -> FaceAscent:
        """Begin a run: reset the incumbent, and create the ascent."""
        self._ascent = create_ascent(
            self._rows, self.y, self.C, self.n_faces, assignment, scale=self._scale, tol=self._tol
        )
        self._ascent.sweep(times=OPTIONS.start_sweeps)
        self._best, self._value = None, np.inf
        return self._ascent

    def _update_incumbent(self, ascent: FaceAscent, replace_all: bool = False) -> float:
        """Replace the faces that the ascent has improved, or all of them; return the objective."""
        other_terms = np.einsum("kj,kj->k", ascent.W, ascent.W) + ascent.loss_on_negatives
        if self._best is None or replace_all:
            self._best = _Incumbent(ascent.W.copy(), other_terms, ascent.scores.copy())
            return float(ascent.primal.sum())
        best = self._best
        values = ascent.values_at(best.other_terms, best.scores)  # of the incumbent's faces, (K,)
        improved = ascent.primal < values
        best.W[improved], best.other_terms[improved] = ascent.W[improved], other_terms[improved]
        best.scores[:, improved] = ascent.scores[:, improved]
        return float(np.minimum(values, ascent.primal).sum())

    def _can_improve(self, ascent: FaceAscent) -> bool:
        """Return True if some positive would move at the incumbent."""
        assert self._best is not None
        new_assignment = self._improve(self._best.scores, ascent.assignment, ascent.alpha)
        return bool((new_assignment != ascent.assignment)[self.y > 0].any())

    def _improve(
        self, scores: Vector, assignment: Assignment, alpha: Vector, correction: Vector | float = 0.0
    ) -> Assignment:
        """Move each positive that supports its face, if another face has a score higher by `tol`.

        A positive supports its face if its score is below 1 or its multiplier is positive. `correction`
        (positives,) is subtracted from the scores on the positives' own faces.
        """
        positives, index = np.flatnonzero(self.y > 0), np.arange(len(scores))
        faces = assignment[positives]
        own_scores = scores[index, faces]
        other_scores = scores.copy()
        other_scores[index, faces] = -np.inf
        best = other_scores.argmax(axis=1)
        supports = (own_scores < 1.0) | (alpha[positives, faces] > 0.0)
        moves = supports & (other_scores[index, best] > own_scores - correction + self._tol)
        new_assignment = assignment.copy()
        new_assignment[positives[moves]] = best[moves]
        return new_assignment
