"""The exact Polyceptron as a problem of descent: a linear program for each face, again and again.

The programs are those of :mod:`formulations.polyceptron`. Their duals are solved, which have no more rows
than a sample has features, and in which a new assignment changes only the upper bounds of columns: each
face's program stays in HiGHS and goes on from its last basis.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.polyhedral import belonging, margin_error
from formulations.polytope import lift
from polyopt.optim.warm_lp import PersistentLP
from polyopt.polyhedral.faces_by_programs import Assignment, FacesByPrograms, Vector, box_columns, worse


class ExactPolyceptron(FacesByPrograms):
    """The Polyceptron by linear programs: the least margin error for each cell, face by face.

    The objective is :func:`formulations.polyhedral.margin_error`; the multipliers of a step are ``margin``,
    of shape (n, K), 0 where a sample is not in the face's program.
    """

    def value(self, W: Vector) -> float:
        """Return the margin error."""
        return margin_error(self.X, self.y, W, self.c)

    def _solve(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        members = belonging(self.y, assignment, self.n_faces, "all")
        faces, u, status, iterations = W.copy(), np.zeros_like(members), Status.SOLVED, 0
        solve = self._solve_dual if self.engine == "highs" else self._solve_program
        for k in range(self.n_faces):
            ended, w, multipliers, count = solve(k, self.c * members[:, k], clock)
            iterations += count
            status = worse(status, ended)
            if np.isfinite(w).all():
                faces[k], u[:, k] = w, multipliers
        return status, faces, {"margin": u}, iterations

    def _build(self) -> list[PersistentLP]:
        """Build the dual of each face's program: u, then s⁺ and s⁻; the rows are the balance.

        Each face has its own model, since bases differ more from face to face than from step to step.
        """
        pull = sp.csc_array((lift(self.X) * self.y[:, None]).T) * self._units[:, None]
        price, box = box_columns(self._units, self.radius)
        A = sp.csc_array(sp.hstack([pull, box]))
        cost = np.concatenate([-np.ones(len(self.y)), price])
        return [PersistentLP(cost, A, 0.0, 0.0, 0.0, np.inf) for _ in range(self.n_faces)]

    def _solve_dual(self, k: int, costs: Vector, clock: Clock) -> tuple[Status, Vector, Vector, int]:
        if not self._models:
            self._models = self._build()
        model, n, unit = self._models[k], len(self.y), self.c.max()
        upper = np.full(model.shape[1], np.inf)
        upper[:n] = costs / unit
        found = model.solve(upper=upper, time_limit=clock.left)
        u, w = np.clip(found.x[:n], 0.0, upper[:n]) * unit, found.duals * self._units
        return found.status, w, u, found.iterations

    def _solve_program(self, k: int, costs: Vector, clock: Clock) -> tuple[Status, Vector, Vector, int]:
        """Solve the program of one face, which the parameter C makes that of face k."""
        if self._program is None:
            from formulations.polyceptron import cell

            self._program = cell(self.X, self.y, self.c, radius=self.radius)
        found = self._program.set(C=costs).solve(time_limit=clock.left)
        nothing = np.full(self.X.shape[1] + 1, np.nan)
        w, u = (found["w"], found.duals["margin"]) if found.primal else (nothing, nothing)
        return found.status, w, u, found.iterations
