"""Alternating minimisation with a penalty on the weights, by Newton steps on the dual.

Each round of :class:`PenalisedDualProblem` solves the program of :mod:`formulations.cpm_sparse` (ℓ1 and group
penalty, signs; loss="sum", margin="total") for a fixed assignment of the positives to faces, then reassigns
them. The solver :mod:`polyopt.cpm.penalised_face_dual` replaces the conic programs of
:class:`~polyopt.cpm.alternating.PolytopeProblem`; its faces have exact zeros.

A start is the result of a run without penalty. With random starts all faces would be equal from the first
round on under a large penalty, and no positive would change its face.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import assignment_matrix
from polyopt.cpm.alternating import PolytopeProblem, continue_best, reassigned
from polyopt.cpm.dual import DualProblem
from polyopt.cpm.penalised_face_dual import PenalisedAscent
from polyopt.optim.rounds import MIN_REL_DECREASE, run_rounds

Assignment = NDArray[np.int64]


class PenalisedDualProblem(PolytopeProblem):
    """Alternating minimisation with a penalty, loss="sum" and margin="total".

    tol: relative gap of the fixed-assignment program in the last round.
    warm_start: a solution for another penalty or tolerance.
    first_tol: relative gap at which a round first tests whether a positive can improve by moving.
    tol_factor: ratio of successive gaps of a round.
    final_tol: relative gap of the result, which a certificate needs.
    """

    _not_pickled: ClassVar[tuple[str, ...]] = ("_ascent", "_last_value")
    penalty: FacePenalty
    _ascent: PenalisedAscent | None = None
    _last_value = float("inf")  # objective of the last round

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, penalty: FacePenalty, *, tol: float = 1e-3,
        warm_start: Solution | None = None, first_tol: float = 1e-2, tol_factor: float = 0.01,
        final_tol: float = 1e-8,
    ):  # fmt: skip
        super().__init__(X, y, C, n_faces, penalty=penalty)
        self._tol, self._warm_start = tol, warm_start
        self._first_tol, self._tol_factor, self._final_tol = first_tol, tol_factor, final_tol
        self._unpenalised = DualProblem(X, y, C, n_faces, tol=first_tol)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Return the final assignment of a run without penalty."""
        if self.n_faces == 1:
            return np.where(self.y > 0, 0, -1)
        clock, problem = Clock(time_limit), self._unpenalised
        solution = run_rounds(problem, problem.start(rng, clock.left), time_limit=clock.left)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return np.asarray(solution["assignment"])

    def scores(self, W: Vector) -> Vector:
        """Return the scores (n, K) of the samples at faces (K, m+1)."""
        return np.asarray(self.X @ W[:, :-1].T) + W[:, -1]

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face if its hinge falls by more than the tolerance."""
        return self._improve(self.scores(point["W"]), assignment)

    def _improve(self, scores: Vector, assignment: Assignment) -> Assignment:
        return reassigned(scores, self.y, assignment, max(self.options.min_hinge_decrease, self._tol))

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return the optimum for an assignment, or a better point than the last if a positive can improve."""
        clock, caps = Clock(time_limit), self.C[:, None] * assignment_matrix(self.y, self.n_faces, assignment)
        if self._ascent is None:
            self._ascent, self._last_value = PenalisedAscent(self.X, self.y, caps, self.penalty), np.inf
            if self._warm_start is not None:
                self._ascent.begin_from(self._warm_start.duals["margin"])
        else:
            self._ascent.begin_from(self._ascent.alpha, caps)
        ascent, first_step = self._ascent, self._ascent.steps
        tol = max(self._tol, self._first_tol)
        while True:  # solve to smaller and smaller gaps, unless another assignment is better already
            is_solved = ascent.solve(tol, clock)
            value = ascent.primal
            if not is_solved or tol <= self._tol:
                break
            has_fallen = value < (1.0 - MIN_REL_DECREASE) * self._last_value
            if has_fallen and (self._improve(ascent.scores, assignment) != assignment).any():
                break
            tol = max(self._tol, self._tol_factor * tol)
        if is_solved and tol <= self._final_tol:
            ascent.polish(clock)
            value = ascent.primal
        self._last_value = value
        if is_solved:
            status = Status.SOLVED if tol <= self._tol else Status.INACCURATE
        else:
            status = Status.TIME_LIMIT if clock.is_over else Status.STALLED
        return Solution(
            status, {"W": ascent.faces}, {"margin": ascent.alpha.copy()}, objective=value, bound=ascent.dual,
            solver="alternating, Newton steps on the dual", iterations=ascent.steps - first_step,
        )  # fmt: skip

    def finish(self, solution: Solution, max_iter: int, time_limit: float | None) -> Solution:
        """Continue the best of many starts, to the relative gap that a certificate needs."""
        if solution.status is not Status.CONVERGED:
            return solution
        self._tol, self._ascent, self._last_value = min(self._tol, self._final_tol), None, np.inf
        self._warm_start = solution
        joint = continue_best(solution, self, max_iter, time_limit)
        if joint.objective > solution.objective or joint.status is Status.INTERRUPTED:
            joint = replace(  # keep the point of the starts
                solution, status=joint.status, iterations=joint.iterations, solve_time=joint.solve_time,
                history=joint.history,
            )  # fmt: skip
        if joint.status in (Status.INTERRUPTED, Status.ITERATION_LIMIT):
            return joint
        return replace(joint, status=Status.CONVERGED)
