"""The exact Polyceptron as a problem of descent: a linear program for each face, again and again.

The programs are those of :mod:`formulations.polyceptron`. What is solved is their duals, which have no more
rows than a sample has features, and in which a new assignment changes nothing but the upper bounds of
columns: each face's program stays in HiGHS and goes on from its last basis.

With a price on the weights and signs to keep (:mod:`formulations.polyceptron_sparse`) the dual has a column
more for each feature, what price and sign hold against its pull, and its bounds are the price; a face whose
program asks for no weight is flat, w = 0, and takes no part. A price of groups makes all faces one program of
second-order cones, which engine="program" solves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from formulations.polyhedral import belonging, margin_error
from formulations.polytope import lift
from formulations.solution import Status
from polyopt.outer.faces_by_programs import FacesByPrograms, box_columns, worse
from polyopt.solvers.persistent_lp import PersistentLP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.face_penalty import FacePenalty
    from formulations.matrices import Matrix
    from formulations.program import Program
    from polyopt.outer.faces_by_programs import Assignment, Engine, Vector
    from polyopt.solvers.clock import Clock

__all__ = ["ExactPolyceptron"]

_UNSEEN = 1e-8  # the same of an interior point's, which leaves no zeros
_AT_END = 1e-7  # of a cap: a multiplier that is so near to 0, or to it, is there
_NOTHING = 1e-10  # of a score: what a weight of less can move, a tenth of HiGHS's tolerance


class ExactPolyceptron(FacesByPrograms):
    """The Polyceptron by linear programs: the least margin error for each cell, face by face.

    The objective is :func:`formulations.polyhedral.margin_error`; the multipliers of a step are ``margin``,
    of shape (n, K), 0 where a sample is not in the face's program.

    Parameters
    ----------
    X, y, c, n_faces, radius, engine
        As in :class:`polyopt.outer.faces_by_programs.FacesByPrograms`.
    penalty : FacePenalty, optional
        The price of the weights, which the objective has besides, and their signs; one of groups with
        engine="program" alone.
    """

    def __init__(
        self, X: Matrix, y: Vector, c: Vector, n_faces: int, radius: float = 1e4, engine: Engine = "highs",
        penalty: FacePenalty | None = None,
    ):  # fmt: skip
        super().__init__(X, y, c, n_faces, radius, engine)
        self.penalty = None if penalty is None else penalty.checked(X.shape[1])
        self._grouped = penalty is not None and penalty.group > 0.0
        if self._grouped and engine == "highs":
            raise ValueError("a price of groups leaves no linear program: choose engine='program'")

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Vector:
        """Random faces around the mean of the positives, inside the box; weights of a wrong sign are 0."""
        W = super().start(rng, time_limit)
        return W if self.penalty is None else self.penalty.allowed(W)

    def value(self, W: Vector) -> float:
        """The margin error, and the price."""
        price = 0.0 if self.penalty is None else self.penalty.value(W)
        return margin_error(self.X, self.y, W, self.c) + price

    def assignment(self, W: Vector) -> Assignment:
        """The face of each negative at W, (n,); -1 at positives."""
        return self._assign(W)

    def fitted(self, W: Vector, clock: Clock) -> tuple[Vector, Vector]:
        """The best faces for the assignment of W, and their multipliers (n, K).

        Parameters
        ----------
        W : ndarray of shape (K, m+1)
            Faces.
        clock : Clock
            When to stop.
        """
        _, faces, duals, _ = self._solve(W, self._assign(W), clock)
        return np.clip(self.within_span(faces), -self.radius, self.radius), duals["margin"]

    # Penalties and signs are of single weights, and another face of the same scores may violate them.

    def _least_norm(self, faces: Vector, assignment: Assignment) -> Vector:
        return super()._least_norm(faces, assignment) if self.penalty is None else faces

    def within_span(self, W: Vector) -> Vector:
        """As of the base, but faces with a penalty, whose optimum is unique, stay as they are."""
        return super().within_span(W) if self.penalty is None else W

    def _solve(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        members = belonging(self.y, assignment, self.n_faces, "all")
        faces, u, status, iterations = W.copy(), np.zeros_like(members), Status.SOLVED, 0
        if self._grouped:
            return self._solve_together(W, assignment, clock)
        if self.engine == "highs" and not self._models:
            self._models = self._build()
        solve = self._solve_kept if self.engine == "highs" else self._solve_program
        for k in range(self.n_faces):
            ended, w, multipliers, count = solve(k, self.c * members[:, k], clock)
            iterations += count
            status = worse(status, ended)
            if np.isfinite(w).all():
                faces[k], u[:, k] = w, multipliers
        return status, self._cleared(faces), {"margin": u}, iterations

    def _solve_together(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        """All faces by the program of the assignment; groups that are 0 but for its tolerance are 0."""
        from formulations import polyceptron

        if self._program is None:
            self._program = self._explicit()
        members = polyceptron.answers(self.y, self.n_faces, assignment)
        found = self._program.set(C=self.c, Z=members).solve(time_limit=clock.left)
        if not found.primal:
            return found.status, W, {"margin": np.zeros_like(members)}, found.iterations
        caps = self.c[:, None] * members
        u = np.clip(found.duals["margin"], 0.0, caps)
        u = np.where(u <= _AT_END * caps, 0.0, np.where(u >= (1.0 - _AT_END) * caps, caps, u))
        faces = self._cleared(found["W"])
        return found.status, faces, {"margin": u}, found.iterations

    def _cleared(self, faces: Vector) -> Vector:
        """What a solver's tolerance leaves of weights that price or sign hold at zero, taken away."""
        if self.penalty is None:
            return faces
        none = np.abs(faces) / self._units <= (_UNSEEN if self._grouped else _NOTHING)
        none[:, -1] = False
        return self.penalty.allowed(np.where(none, 0.0, faces))

    def _finish(self, W: Vector, faces: Vector, assignment: Assignment) -> Vector:
        if self.penalty is None or (self.penalty.l1 == 0.0 and not self._grouped):
            return super()._finish(W, faces, assignment)
        # Neither the direction of an unused face nor a longer one is free here.
        faces = np.clip(faces, -self.radius, self.radius)  # by rounding alone
        if self.radius >= 1.0:
            faces[np.setdiff1d(np.arange(self.n_faces), assignment)] = np.eye(faces.shape[1])[-1]
        return faces

    def _build(self) -> list[PersistentLP]:
        """The dual of each face's program: u, then s⁺ and s⁻, then r of a price; the rows are the balance.

        One for each face, since the faces' bases differ more than a face's from step to step.
        """
        pull = sp.csc_array((lift(self.X) * self.y[:, None]).T) * self._units[:, None]
        price, box = box_columns(self._units, self.radius)
        A = sp.csc_array(sp.hstack([pull, box]))
        cost = np.concatenate([-np.ones(len(self.y)), price])
        lower, upper = np.zeros(A.shape[1]), np.full(A.shape[1], np.inf)
        if self.penalty is not None:
            # r, which a sign lets go as far as it must.
            held = sp.csc_array(-sp.eye_array(A.shape[0], A.shape[0] - 1, format="csc"))  # no bias is held
            A = sp.csc_array(sp.hstack([A, held]))
            up, down = (side * self._units[:-1] / self.c.max() for side in self.penalty.thresholds)
            self._held = down, up
            cost = np.append(cost, np.zeros(held.shape[1]))
            lower, upper = np.append(lower, -down), np.append(upper, up)
        self._behind = upper[len(self.y) :]
        return [PersistentLP(cost, A, 0.0, 0.0, lower, upper) for _ in range(self.n_faces)]

    def _solve_kept(self, k: int, costs: Vector, clock: Clock) -> tuple[Status, Vector, Vector, int]:
        model, n, unit = self._models[k], len(self.y), self.c.max()
        upper = np.concatenate([costs / unit, self._behind])
        found = model.solve(upper=upper, time_limit=clock.left)
        u, w = np.clip(found.x[:n], 0.0, upper[:n]) * unit, found.duals * self._units
        if self.penalty is not None:
            w[:-1][self._within(found.x)] = 0.0
        return found.status, w, u, found.iterations

    def _within(self, x: Vector) -> NDArray[np.bool_]:
        """The features (m,) whose pull is not all of their price, so that they have no weight."""
        down, up = self._held
        r, near = x[len(x) - len(up) :], np.maximum(_AT_END * np.minimum(down, up), _UNSEEN)
        return (r + down > near) & (up - r > near)

    def _solve_program(self, k: int, costs: Vector, clock: Clock) -> tuple[Status, Vector, Vector, int]:
        if self._program is None:
            self._program = self._explicit()
        found = self._program.set(C=costs).solve(time_limit=clock.left)
        nothing = np.full(self.X.shape[1] + 1, np.nan)
        if not found.primal:
            return found.status, nothing, nothing, found.iterations
        w, u = found["w" if self.penalty is None else "W"], found.duals["margin"]
        return found.status, w.reshape(-1), u.reshape(-1), found.iterations

    def _explicit(self) -> Program:
        """The program of one face, which C makes that of another; of all where groups have a price."""
        from formulations import polyceptron, polyceptron_sparse

        if self.penalty is None:
            return polyceptron.cell(self.X, self.y, self.c, radius=self.radius)
        one = np.zeros(len(self.y), dtype=int)  # face
        K = self.n_faces if self._grouped else 1
        return polyceptron_sparse.fixed_assignment(
            self.X, self.y, K, one, self.c, self.radius, penalty=self.penalty
        )
