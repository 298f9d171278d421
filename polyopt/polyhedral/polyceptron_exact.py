"""The exact Polyceptron: a linear program for each face, and an integer program over all assignments.

The objective is the margin error: every positive (inside) should have a margin of 1 at each face, and each
negative at the face that it is assigned to, the one with the least score; the hinge losses are summed with
their costs. :mod:`formulations.polyceptron` has the programs.

:class:`ExactPolyceptron` alternates between assignments and linear programs (majorise–minimise). It solves
the dual programs, which have only m + 1 rows, one for each feature and the bias. A new assignment changes
only upper bounds of their columns, so each face's program stays in HiGHS and continues from its last basis.

:func:`solve_polyceptron_global` minimises over the faces W in the box |W| ≤ R and all assignments, by an
integer program. HiGHS starts from the best result of the alternation, and the alternation is continued from
the faces of HiGHS.
"""

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
"""Largest number of samples of the integer program; HiGHS closes the gap for up to about a hundred."""


class ExactPolyceptron(FacesByPrograms):
    """Steps of the exact Polyceptron, with a linear program for each face.

    The objective is :func:`formulations.polyhedral.margin_error`. The multipliers of a step are ``margin``
    (n, K), 0 if a sample is not in the face's program.
    """

    def value(self, W: Vector) -> float:
        """Return the margin error."""
        return margin_error(self.X, self.y, W, self.c)

    def _solve(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        members = belonging(self.y, assignment, self.n_faces, "all")
        faces, u, iterations = W.copy(), np.zeros_like(members), 0
        statuses: list[Status] = []
        solve = self._solve_dual if self.engine == "highs" else self._solve_program
        for k in range(self.n_faces):
            status, w, multipliers, count = solve(k, self.c * members[:, k], clock)
            iterations += count
            statuses.append(status)
            if np.isfinite(w).all():
                faces[k], u[:, k] = w, multipliers
        return worst_status(*statuses), faces, {"margin": u}, iterations

    def _build(self) -> list[PersistentLP]:
        """Build the dual program of each face: columns u, s⁺ and s⁻; rows Σ_i u_i y_i x̃_i = s⁺ − s⁻.

        The multipliers of the rows are the face. Row j is multiplied by the unit of feature j, and u is
        divided by the largest cost. Each face has its own model, since bases differ more between faces than
        between steps.
        """
        gradients = sp.csc_array((lift(self.X) * self.y[:, None]).T) * self._units[:, None]
        box_costs, box = box_columns(self._units, self.radius)
        A = sp.csc_array(sp.hstack([gradients, box]))
        cost = np.concatenate([-np.ones(len(self.y)), box_costs])
        return [PersistentLP(cost, A, 0.0, 0.0, 0.0, np.inf) for _ in range(self.n_faces)]

    def _solve_dual(self, k: int, costs: Vector, clock: Clock) -> tuple[Status, Vector, Vector, int]:
        """Return status, weights, multipliers and iterations of face k; `costs` are 0 for other samples."""
        if not self._models:
            self._models = self._build()
        model, n, unit = self._models[k], len(self.y), self.c.max()
        upper = np.full(model.shape[1], np.inf)
        upper[:n] = costs / unit
        result = model.solve(upper=upper, time_limit=clock.left)
        u, w = np.clip(result.x[:n], 0.0, upper[:n]) * unit, result.duals * self._units
        return result.status, w, u, result.iterations

    def _solve_program(self, k: int, costs: Vector, clock: Clock) -> tuple[Status, Vector, Vector, int]:
        """Return the same results of the explicit program; nan without a point."""
        if self._program is None:
            from formulations.polyceptron import cell

            self._program = cell(self.X, self.y, self.c, radius=self.radius)
        solution = self._program.set(C=costs).solve(time_limit=clock.left)
        if not solution.primal:
            missing = np.full(self.X.shape[1] + 1, np.nan)
            return solution.status, missing, missing, solution.iterations
        return solution.status, solution["w"], solution.duals["margin"], solution.iterations


def solve_polyceptron_global(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, n_faces: int, *, radius: float = 1e4, tol: float = 1e-6,
    n_init: int = 10, time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
    first: Callable[[float | None], Vector] | None = None,
) -> Solution:  # fmt: skip
    """Minimise the exact Polyceptron over all faces in the box |W| ≤ `radius` and all assignments.

    X, y, C: at most 1,000 samples, their labels, of both classes, +1 inside, and their costs.
    n_init: number of random starts of the alternation, which has a tenth of the time limit.
    time_limit: in seconds; without it HiGHS runs until the gap is closed.
    first: a function that returns the faces (K, m+1) of an additional first start; its argument is the number
        of seconds left.

    In the solution, ``bound`` is that of HiGHS, between 0 and the objective, and the status is SOLVED if the
    relative gap is at most `tol`. ``duals`` has ``margin`` (n, K), for the assignment of W. ``iterations``
    are those of HiGHS.
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
            result = _solve_integer_program(problem, point["W"], tol, clock)
            status, bound, iterations = result.status, result.bound or 0.0, result.iterations
            if result.primal:
                point = _improved(problem, point, result["W"], clock)
        except KeyboardInterrupt:
            status = interrupted()
    point = problem.without_idle_faces(point)
    bound = float(np.clip(bound, 0.0, point.objective))
    record = {"bound": bound, "objective": point.objective, "seconds": clock.seconds}
    try:
        tell(record)
    except KeyboardInterrupt:
        status = interrupted()
    if point.objective - bound <= tol * point.objective:
        status = Status.SOLVED
    elif status not in (Status.TIME_LIMIT, Status.INTERRUPTED):
        status = Status.INACCURATE
    return replace(
        point, status=status, bound=bound, solver="HiGHS, integer program", iterations=max(iterations, 1),
        solve_time=clock.seconds, history=(*point.history, record),
    )  # fmt: skip


def _solve_integer_program(problem: ExactPolyceptron, W: Vector, tol: float, clock: Clock) -> Solution:
    """Solve the integer program by HiGHS, starting from the faces W."""
    from formulations.polyceptron import mixed_integer, point_of, shares_between

    # Convex combinations of positives near each negative, whose valid inequalities tighten the program.
    shares = shares_between(problem.X, problem.y, clock.part(0.3).left)  # in 0.3 of the remaining time
    program = mixed_integer(problem.X, problem.y, problem.n_faces, problem.c, problem.radius, shares)
    return program.solve(
        "HIGHS", time_limit=clock.left, start=point_of(problem.X, problem.y, W),
        mip_rel_gap=tol, mip_feasibility_tolerance=1e-9,
    )  # fmt: skip


def _improved(problem: ExactPolyceptron, point: Solution, W: Vector, clock: Clock) -> Solution:
    """Continue the alternation from the faces W of HiGHS; return its result or the point, the lower of both.

    If they are better than the point, it starts from the shortest optimal faces for the assignment of W, as W
    itself may be as large as the box.
    """
    W = np.clip(W, -problem.radius, problem.radius)
    if problem.value(W) >= point.objective:
        return point
    faces = problem.best_faces(W, clock)
    start = faces if problem.value(faces) < point.objective else W
    result = run_rounds(problem, start, time_limit=clock.left)
    return replace(result, history=point.history) if result.objective < point.objective else point
