"""Alternating minimisation with a penalty on the weights.

Each round solves the program of :mod:`formulations.cpm_sparse` (ℓ1 and group penalty, signs; loss="sum",
margin="total") for a fixed assignment of the positives to faces by :mod:`polyopt.cpm.fixed_assignment`, then
reassigns them. The faces have exact zeros.

A start is the result of a run without penalty. With random starts all faces would be equal from the first
round on under a large penalty, and no positive would change its face.
"""

import numpy as np
from numpy.typing import NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.types import Matrix, Vector
from polyopt.cpm.alternating import PolytopeProblem, reassigned
from polyopt.cpm.dual import DualProblem
from polyopt.cpm.fixed_assignment import FixedAssignmentSolver
from polyopt.optim.rounds import MIN_REL_DECREASE, run_rounds

_START_TOL = 1e-2  # relative gap of the runs without penalty, and at which a round may end


class PenalisedProblem(PolytopeProblem):
    """Alternating minimisation with a penalty, loss="sum" and margin="total"."""

    def __init__(self, X: Matrix, y: Vector, C: Vector, n_faces: int, penalty: FacePenalty):
        super().__init__(X, y, C, n_faces, penalty=penalty)
        self._unpenalised = DualProblem(X, y, C, n_faces, tol=_START_TOL)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> NDArray[np.int64]:
        """Return the final assignment of a run without penalty."""
        self.forget()
        if self.n_faces == 1:
            return np.where(self.y > 0, 0, -1)
        clock, problem = Clock(time_limit), self._unpenalised
        solution = run_rounds(problem, problem.start(rng, clock.left), time_limit=clock.left)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return np.asarray(solution["assignment"])

    def _can_move_early(
        self, solver: FixedAssignmentSolver, assignment: NDArray[np.int64], clock: Clock
    ) -> bool:
        """True if the round has lowered the objective, and some positive can lower its hinge."""
        before = solver.primal
        solver.solve(_START_TOL, clock)
        has_fallen = solver.primal < (1.0 - MIN_REL_DECREASE) * before
        moved = reassigned(solver.scores, self.y, assignment, self.options.min_hinge_decrease)
        return has_fallen and bool((moved != assignment).any())
