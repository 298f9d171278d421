"""The exact Polyceptron: a linear program for each face, and an integer program over all assignments.

The programs are those of :mod:`formulations.polyceptron`. The duals of the linear programs are solved, which
have no more rows than a sample has features, and in which a new assignment changes only the upper bounds of
columns: each face's program stays in HiGHS and goes on from its last basis.

The integer program minimises over the faces in the box |W| ≤ R and over the face of each negative. HiGHS
starts from the best end of the descent, and the descent is continued from the faces of HiGHS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from formulations.language.arguments import positive, tolerance
from formulations.language.clock import Clock, interrupted
from formulations.language.recovery import as_costs, as_data
from formulations.language.solution import Solution, Status
from formulations.language.types import MatrixLike, Vector
from formulations.polyhedral import belonging, margin_error
from formulations.polytope import lift
from polyopt.base.progress import tell
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.optim.warm_lp import PersistentLP
from polyopt.polyhedral.faces_by_programs import Assignment, FacesByPrograms, box_columns, worst_status

MAX_SAMPLES = 1_000
"""Maximal number of samples: HiGHS proves the optimum of some hundred in few dimensions."""

_LIMITS = (Status.TIME_LIMIT, Status.INTERRUPTED)


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
            status = worst_status(status, ended)
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


def solve_polyceptron_global(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, n_faces: int, *, radius: float = 1e4, tol: float = 1e-6,
    n_init: int = 10, time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
    first: Callable[[float | None], Vector] | None = None,
) -> Solution:  # fmt: skip
    """Minimise the exact Polyceptron over all faces in the box |W| ≤ `radius` and all assignments.

    There are at most 1,000 samples, of both classes, +1 inside. `n_init` starts of the descent take a tenth
    of the time limit; `first` returns the faces (K, m+1) of an additional first start, from the seconds left.
    Without a limit HiGHS runs until the gap is closed.

    In the solution, ``bound`` is HiGHS's, between 0 and the objective; SOLVED if the two are within `tol`.
    ``duals`` has ``margin`` (n, K), for the assignment of W. ``iterations`` counts HiGHS's.
    """
    X, y = as_data(X, y)
    tol, radius = tolerance(tol), positive("radius", radius)
    if not ((y > 0).any() and (y < 0).any()):
        raise ValueError("y must hold both classes, -1 and +1: with one of them there is nothing to assign")
    if len(y) > MAX_SAMPLES:
        raise ValueError(
            f"the integer program over all assignments takes at most {MAX_SAMPLES:,} samples, and there are "
            f"{len(y):,}: fit a sample of the data, or choose solver='highs', which ends at an assignment"
        )
    clock, problem = Clock(time_limit), ExactPolyceptron(X, y, as_costs(C, len(y)), n_faces, radius)
    point = run_from_many_starts(
        [Stage(problem)], n_init=n_init if n_faces > 1 else 1, seed=seed, n_jobs=n_jobs,
        time_limit=None if time_limit is None else 0.1 * time_limit, first=first,
    )  # fmt: skip
    status, bound, iterations = point.status, 0.0, 0
    if status is not Status.INTERRUPTED and point.objective > 0.0:
        try:
            found = _solve(problem, point["W"], tol, clock)
            status, bound, iterations = found.status, found.bound or 0.0, found.iterations
            if found.primal:
                point = _better(problem, point, found["W"], clock)
        except KeyboardInterrupt:
            status = interrupted()
    point = problem.without_idle_faces(point)
    bound = float(np.clip(bound, 0.0, point.objective))
    record = {"bound": bound, "objective": point.objective, "seconds": clock.seconds}
    tell(record)
    closed = point.objective - bound <= tol * point.objective
    return replace(
        point,
        status=Status.SOLVED if closed else status if status in _LIMITS else Status.INACCURATE,
        bound=bound,
        solver="HiGHS, integer program",
        iterations=max(iterations, 1),
        solve_time=clock.seconds,
        history=(*point.history, record),
    )


def _solve(problem: ExactPolyceptron, W: Vector, tol: float, clock: Clock) -> Solution:
    """Solve the integer program by HiGHS, from given faces."""
    from formulations.polyceptron import mixed_integer, point_of, shares_between

    shares = shares_between(problem.X, problem.y, clock.part(0.3).left)
    program = mixed_integer(problem.X, problem.y, problem.n_faces, problem.c, problem.radius, shares)
    return program.solve(
        "HIGHS", time_limit=clock.left, start=point_of(problem.X, problem.y, W),
        mip_rel_gap=tol, mip_feasibility_tolerance=1e-9,
    )  # fmt: skip


def _better(problem: ExactPolyceptron, point: Solution, W: Vector, clock: Clock) -> Solution:
    """Return the point, or the end of a descent from the optimal faces of W's assignment if it is lower.

    HiGHS's own faces have weights as large as the box if these cost nothing.
    """
    W = np.clip(W, -problem.radius, problem.radius)
    if problem.value(W) >= point.objective:
        return point
    faces = problem.best_faces(W, clock)
    start = faces if problem.value(faces) < point.objective else W
    found = run_rounds(problem, start, time_limit=clock.left)
    return replace(found, history=point.history) if found.objective < point.objective else point
