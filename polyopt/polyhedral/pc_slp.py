"""PC-SLP as a problem of descent: one linear program for all faces, again and again.

The program is :func:`formulations.pc_slp.step`, solved as its dual, which stays in HiGHS: a new choice of
faces opens and closes columns of it, and the dual simplex method goes on from the last basis.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.types import Matrix
from formulations.polyhedral import class_shares, separation_error
from formulations.polytope import lift
from polyopt.optim.warm_lp import PersistentLP
from polyopt.polyhedral.faces_by_programs import (
    Assignment,
    Engine,
    FacesByPrograms,
    Vector,
    box_columns,
    worse,
)


class SuccessiveLP(FacesByPrograms):
    """PC-SLP: the least mean miss of both classes, by a linear program for each choice of faces.

    The objective is :func:`formulations.polyhedral.separation_error`; the multipliers of a step are
    ``inside``, of shape (n, K), 0 at negatives, and ``outside``, of shape (n,), 0 at positives.
    """

    def __init__(
        self, X: Matrix, y: Vector, c: Vector, n_faces: int, radius: float = 1e4, engine: Engine = "highs"
    ):
        if not ((y > 0).any() and (y < 0).any()):
            raise ValueError("y must hold both classes, -1 and +1: the error is a mean over each")
        super().__init__(X, y, c, n_faces, radius, engine)
        self._shares = class_shares(y, c)
        self._unit = self._shares.max()  # HiGHS's tolerances are absolute

    def value(self, W: Vector) -> float:
        """Return the separation error."""
        return separation_error(self.X, self.y, W, self.c)

    def _solve(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        solve = self._solve_dual if self.engine == "highs" else self._solve_program
        status, faces, u, q, iterations = solve(assignment, clock)
        duals = {"inside": np.zeros((len(self.y), self.n_faces)), "outside": np.zeros(len(self.y))}
        if not np.isfinite(faces).all():
            return worse(status), W, duals, iterations
        duals["inside"][self.y > 0], duals["outside"][self.y < 0] = u, q
        return worse(status), faces, duals, iterations

    def _build(self) -> PersistentLP:
        """Build columns u, q (face by face), s⁺ and s⁻; rows of balance (face by face) and Σ_k u_ik ≤ a_i."""
        lifted, each, inside = lift(self.X) * self._units, sp.eye_array(self.n_faces), self.y > 0
        shares = self._shares[inside] / self._unit
        pushes, pulls = sp.csc_array(lifted[inside].T), sp.csc_array(-lifted[~inside].T)
        price, box = box_columns(np.tile(self._units, self.n_faces), self.radius)
        balance = sp.hstack([sp.kron(each, pushes), sp.kron(each, pulls), box])
        totals = sp.hstack([sp.eye_array(len(shares))] * self.n_faces)
        rest = sp.csc_array((len(shares), balance.shape[1] - totals.shape[1]))
        zeros = np.zeros(balance.shape[0])
        return PersistentLP(
            np.concatenate([np.full(self.n_faces * len(self.y), -1.0), price]),
            sp.vstack([balance, sp.hstack([totals, rest])]),
            np.concatenate([zeros, np.full(len(shares), -np.inf)]),
            np.concatenate([zeros, shares]),
            0.0,
            np.inf,
        )

    def _solve_dual(self, assignment: Assignment, clock: Clock) -> tuple[Status, Vector, Vector, Vector, int]:
        if not self._models:
            self._models = [self._build()]
        (model,), K, inside = self._models, self.n_faces, self.y > 0
        shares = self._shares / self._unit
        own = assignment[~inside] == np.arange(K)[:, None]
        upper = np.full(model.shape[1], np.inf)
        m, n = int(inside.sum()), len(self.y)
        upper[: K * m] = np.tile(shares[inside], K)
        upper[K * m : K * n] = (own * shares[~inside]).ravel()
        found = model.solve(upper=upper, time_limit=clock.left)
        faces = found.duals[: model.shape[0] - m].reshape(K, -1) * self._units
        x = np.clip(found.x[: K * n], 0.0, upper[: K * n]) * self._unit
        u, q = x[: K * m].reshape(K, m).T, x[K * m :].reshape(K, n - m).sum(axis=0)
        return found.status, faces, u, q, found.iterations

    def _solve_program(
        self, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, Vector, Vector, int]:
        from formulations.pc_slp import choice, step

        if self._program is None:
            self._program = step(self.X, self.y, self.n_faces, assignment, self.c, self.radius)
        found = self._program.set(P=choice(self.y, self.n_faces, assignment)).solve(time_limit=clock.left)
        nothing = np.full(1, np.nan)
        W, duals = found.primal.get("W", nothing), found.duals
        return found.status, W, duals.get("inside", nothing), duals.get("outside", nothing), found.iterations
