"""The exact Polyceptron as a problem of descent: a linear program for each face, again and again.

The programs are those of :mod:`formulations.polyceptron`. What is solved is their duals, which have no more
rows than a sample has features, and in which a new assignment changes nothing but the upper bounds of
columns: each face's program stays in HiGHS and goes on from its last basis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from formulations.language.solution import Status
from formulations.polyhedral import belonging, margin_error
from formulations.polytope import lift
from polyopt.optim.warm_lp import PersistentLP
from polyopt.polyhedral.faces_by_programs import FacesByPrograms, box_columns, worse

if TYPE_CHECKING:
    from formulations.language.clock import Clock
    from polyopt.polyhedral.faces_by_programs import Assignment, Vector

__all__ = ["ExactPolyceptron"]


class ExactPolyceptron(FacesByPrograms):
    """The Polyceptron by linear programs: the least margin error for each cell, face by face.

    The objective is :func:`formulations.polyhedral.margin_error`; the multipliers of a step are ``margin``,
    of shape (n, K), 0 where a sample is not in the face's program.
    """

    def value(self, W: Vector) -> float:
        """The margin error."""
        return margin_error(self.X, self.y, W, self.c)

    def _solve(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        members = belonging(self.y, assignment, self.n_faces, "all")
        faces, u, status, iterations = W.copy(), np.zeros_like(members), Status.SOLVED, 0
        if self.engine == "highs" and not self._models:
            self._models = self._build()
        solve = self._solve_kept if self.engine == "highs" else self._solve_program
        for k in range(self.n_faces):
            ended, w, multipliers, count = solve(k, self.c * members[:, k], clock)
            iterations += count
            status = worse(status, ended)
            if np.isfinite(w).all():
                faces[k], u[:, k] = w, multipliers
        return status, faces, {"margin": u}, iterations

    def _build(self) -> list[PersistentLP]:
        """The dual of each face's program: u, then s⁺ and s⁻; the rows are the balance.

        One for each face, since the faces' bases differ more than a face's from step to step.
        """
        pull = sp.csc_array((lift(self.X) * self.y[:, None]).T) * self._units[:, None]
        price, box = box_columns(self._units, self.radius)
        A = sp.csc_array(sp.hstack([pull, box]))
        cost = np.concatenate([-np.ones(len(self.y)), price])
        lower, upper = np.zeros(A.shape[1]), np.full(A.shape[1], np.inf)
        self._behind = np.full(box.shape[1], np.inf)
        return [PersistentLP(cost, A, 0.0, 0.0, lower, upper) for _ in range(self.n_faces)]

    def _solve_kept(self, k: int, costs: Vector, clock: Clock) -> tuple[Status, Vector, Vector, int]:
        model, n, unit = self._models[k], len(self.y), self.c.max()
        upper = np.concatenate([costs / unit, self._behind])
        found = model.solve(upper=upper, time_limit=clock.left)
        u, w = np.clip(found.x[:n], 0.0, upper[:n]) * unit, found.duals * self._units
        return found.status, w, u, found.iterations

    def _solve_program(self, k: int, costs: Vector, clock: Clock) -> tuple[Status, Vector, Vector, int]:
        """By the program of one face, which C makes that of another."""
        if self._program is None:
            from formulations.polyceptron import cell

            self._program = cell(self.X, self.y, self.c, radius=self.radius)
        found = self._program.set(C=costs).solve(time_limit=clock.left)
        nothing = np.full(self.X.shape[1] + 1, np.nan)
        if not found.primal:
            return found.status, nothing, nothing, found.iterations
        return found.status, found["w"], found.duals["margin"], found.iterations
