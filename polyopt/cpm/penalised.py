"""Alternating minimisation with a penalty on the weights, by an interior-point method.

Each round of :class:`PenalisedDualProblem` solves the program of :mod:`formulations.cpm_sparse` (ℓ1 and group
penalty, signs; loss="sum", margin="total") for a fixed assignment of the positives to faces by
:mod:`polyopt.cpm.penalised_face_dual`, then reassigns them. The faces have exact zeros.

A start is the result of a run without penalty. With random starts all faces would be equal from the first
round on under a large penalty, and no positive would change its face.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import assignment_matrix
from polyopt.cpm.alternating import PolytopeProblem, reassigned
from polyopt.cpm.dual import DualProblem
from polyopt.cpm.penalised_face_dual import PenalisedAscent
from polyopt.optim.rounds import MIN_REL_DECREASE, run_rounds

Assignment = NDArray[np.int64]

_FIRST_TOL = 1e-2  # relative gap at which a round first tests whether a positive can improve by moving


class PenalisedDualProblem(PolytopeProblem):
    """Alternating minimisation with a penalty, loss="sum" and margin="total"."""

    _not_pickled: ClassVar[tuple[str, ...]] = ("_ascent", "_last_value")
    _ascent: PenalisedAscent | None = None
    _last_value = float("inf")  # objective of the last round

    def __init__(self, X: Matrix, y: Vector, C: Vector, n_faces: int, penalty: FacePenalty):
        super().__init__(X, y, C, n_faces)
        self._penalty = penalty
        self._unpenalised = DualProblem(X, y, C, n_faces, tol=_FIRST_TOL)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Return the final assignment of a run without penalty."""
        self._ascent, self._last_value = None, np.inf
        if self.n_faces == 1:
            return np.where(self.y > 0, 0, -1)
        clock, problem = Clock(time_limit), self._unpenalised
        solution = run_rounds(problem, problem.start(rng, clock.left), time_limit=clock.left)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return np.asarray(solution["assignment"])

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return the optimum for an assignment, or a better point than the last if a positive can improve."""
        clock, caps = Clock(time_limit), self.C[:, None] * assignment_matrix(self.y, self.n_faces, assignment)
        if self._ascent is None:
            self._ascent = PenalisedAscent(self.X, self.y, caps, self._penalty)
        else:
            self._ascent.begin_at(self._ascent.W, caps)
        ascent, first_step = self._ascent, self._ascent.steps
        is_solved, status = ascent.solve(_FIRST_TOL, clock), Status.INACCURATE
        has_fallen = ascent.primal < (1.0 - MIN_REL_DECREASE) * self._last_value
        decrease = self.options.min_hinge_decrease
        if not (has_fallen and (reassigned(ascent.scores, self.y, assignment, decrease) != assignment).any()):
            is_solved, status = is_solved and ascent.solve(self.options.exact_gap, clock), Status.SOLVED
            if is_solved:
                ascent.polish(clock)
        if not is_solved:
            status = Status.TIME_LIMIT if clock.is_over else Status.STALLED
        self._last_value = ascent.primal
        return Solution(
            status, {"W": ascent.faces}, {"margin": ascent.alpha.copy()}, ascent.primal, ascent.dual,
            solver="alternating, interior point", iterations=ascent.steps - first_step,
        )  # fmt: skip
