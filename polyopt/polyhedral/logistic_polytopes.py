"""Solver of logistic polytopes: descent from many starts, then a polish of the best point.

The polish makes the point stationary. It is Newton's method (:mod:`polyopt.polyhedral.logistic_newton`) or,
with method="exact", alternating minimisation: solve the explicit convex program for the assignment of the
samples to faces, assign every sample to the best face of its class, and repeat.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formulations import class_faces as faces
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Array
from polyopt.base.progress import tell
from polyopt.linalg.used_features import present_features
from polyopt.optim.rounds import AlternatingProblem, run_rounds
from polyopt.optim.starts import best_of, continued, generators_of, number_of_best
from polyopt.polyhedral.logistic_descent import count_numbers, descend, eliminate
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.polyhedral.logistic_newton import polish

Assignment = NDArray[np.int64]


def random_start(problem: FaceLoss, rng: np.random.Generator) -> Array:
    """Draw faces (K, m+1) with random normals near the mean of the samples; zero faces stay 0.

    They are drawn in scaled features around the weighted mean, so that they depend neither on the units of X
    nor on the order of the samples, and a weight of 2 is the same as repeating the sample.
    """
    K, m = problem.shape[0], problem.shape[1] - 1
    signs = problem.owners.required_signs(problem.penalty.signs)
    directions = rng.normal(size=(K, m)) * (1.0 / np.sqrt(m)) / problem.units.scale[:-1]
    middle = np.asarray(problem.X.T @ problem.c).ravel() / problem.c.sum()
    directions[:, ~present_features(problem.X)] = 0.0
    directions = np.where(signs * directions < 0, -directions, directions)
    W = np.column_stack([directions, -directions @ middle + 0.5 * rng.normal(size=K)])
    W[~problem.owners.free] = 0.0
    return W


def solve_logistic_polytopes(
    problem: FaceLoss, *, method: str = "newton", n_init: int = 4, max_iter: int = 2000, tol: float = 1e-4,
    time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None, max_numbers: int | None = None,
    knots: Array | None = None,
) -> Solution:  # fmt: skip
    """Descend from every start, and polish the best point.

    max_iter: largest number of iterations per start: of the descent and, for the best start, of the polish
        after it together. Descents of the elimination are not counted.
    tol: relative gap of the program for the final assignment at which the polish stops.
    max_numbers, knots: as in :func:`polyopt.polyhedral.logistic_descent.eliminate`, applied to the best
        point before the polish.
    In the solution, ``primal`` has ``W``, ``assignment`` and, if weights were eliminated, ``support``, True
    for those that may differ from 0; ``duals`` has ``margin``. CONVERGED if the point is stationary.
    """
    clock = Clock(time_limit)
    generators = generators_of(seed, n_init)

    def run(number: int, time_left: float | None) -> Solution:
        return _run_descent(problem, random_start(problem, generators[number]), max_iter, time_left)

    n_starts = 1 if problem.is_convex else n_init
    best = best_of(run, n_starts, time_limit=time_limit, n_jobs=n_jobs)
    number = number_of_best(best.runs)
    descent_iterations = best.runs[number].iterations
    if max_numbers is not None and count_numbers(best["W"], knots) > max_numbers:
        W, support = eliminate(problem, best["W"], max_numbers, clock, knots)
        problem = replace(problem, support=support)
        best = replace(best, primal={"W": W}, objective=problem.value(W))
    support_entry = {} if problem.support is None else {"support": problem.support}
    is_stopped = best.status in (Status.INTERRUPTED, Status.TIME_LIMIT)
    if is_stopped or descent_iterations >= max_iter:
        point = _with_assignment(problem, best)
        status = best.status if is_stopped else Status.ITERATION_LIMIT
        return replace(point, status=status, primal={**point.primal, **support_entry})
    seconds_before = clock.seconds
    iterations_left = max_iter - descent_iterations
    try:
        if method == "exact":
            last = _run_programs(problem, best["W"], iterations_left, clock.left)
        else:
            last = polish(problem, best["W"], Clock(clock.left), tol=tol, max_iter=iterations_left)
    except KeyboardInterrupt:
        last = _with_assignment(problem, best)
        last = replace(last, status=interrupted(), solver=method, iterations=0, history=())
    records = continued(last.history, "step", descent_iterations, seconds_before, start=float(number))
    return replace(
        best, status=Status.CONVERGED if last.status is Status.SOLVED else last.status,
        primal={**last.primal, **support_entry}, duals=last.duals, objective=last.objective, bound=last.bound,
        solver=f"l-bfgs, then {last.solver}", iterations=best.iterations + last.iterations,
        solve_time=clock.seconds, history=(*best.history, *records),
    )  # fmt: skip


def _run_descent(problem: FaceLoss, W: Array, max_iter: int, time_limit: float | None) -> Solution:
    """Descend from one start; only the last record has the objective without smoothing."""
    clock, records = Clock(time_limit), list[dict[str, float]]()

    def note(softness: float, smoothed: float) -> None:
        record = {"step": len(records) + 1.0, "seconds": clock.seconds, "objective": np.nan}
        records.append({**record, "softness": softness, "smoothed": smoothed})
        tell(records[-1])

    W, iterations = descend(problem, W, clock, max_total=max_iter, progress=note)
    value = problem.value(W)
    for record in records[-1:]:
        record["objective"] = value
    status = Status.CONVERGED if iterations < max_iter else Status.ITERATION_LIMIT
    if clock.is_over:
        status = Status.INTERRUPTED if clock.is_stopped else Status.TIME_LIMIT
    return Solution(
        status, {"W": W}, {}, value, None, "l-bfgs", iterations, solve_time=clock.seconds,
        history=tuple(records),
    )  # fmt: skip


def _with_assignment(problem: FaceLoss, point: Solution) -> Solution:
    """Add the best assignment to a point that was not polished, and the multipliers of a soft maximum."""
    _, _, R, _ = problem.smooth(point["W"], 0.0, 1e-3)
    primal = {"W": point["W"], "assignment": problem.best_assignment(point["W"])}
    return replace(point, primal=primal, duals={"margin": np.where(problem.other_class, R, 0.0)})


def _run_programs(problem: FaceLoss, W: Array, max_iter: int, time_left: float | None) -> Solution:
    """Alternate between the explicit program and the assignment."""
    rounds, assignment = _ExplicitRounds(problem), problem.best_assignment(W)
    result = run_rounds(rounds, assignment, max_iter=max_iter, time_limit=time_left)
    for record in result.history:
        del record["round"]
    return replace(result, status=Status.SOLVED if result.status is Status.CONVERGED else result.status)


class _ExplicitRounds(AlternatingProblem):
    """Alternating minimisation with the explicit program of :mod:`formulations.logistic_polytopes`."""

    def __init__(self, problem: FaceLoss):
        self.problem = problem

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        return self.problem.best_assignment(random_start(self.problem, rng))

    def solve(self, assignment: Assignment, time_limit: float | None) -> Solution:
        from formulations.logistic_polytopes import fixed_assignment

        problem = self.problem
        costs: dict[str, Any] = {
            "ridge": problem.ridge, "bias_ridge": problem.bias_ridge, "penalty": problem.penalty
        }  # fmt: skip
        program = fixed_assignment(
            problem.X, problem.y, problem.owners, assignment, problem.c, support=problem.support, **costs
        )
        solution = program.solve(time_limit=time_limit)
        if not solution.primal:
            raise RuntimeError(
                "no solver left a point for the program of an assignment: scale the features to unit "
                "variance, raise ridge, or choose solver='newton'"
            )
        W = problem.allowed(np.column_stack([solution["w"], solution["b"]]))
        alpha = np.zeros(problem.other_class.shape)
        alpha[problem.other_class] = solution.duals["margin"]
        value = faces.value(
            problem.X, problem.y, W[:, :-1], W[:, -1], problem.owners, problem.c, assignment=assignment,
            **costs,
        )  # fmt: skip
        return Solution(solution.status, {"W": W}, {"margin": alpha}, value, None, solution.solver)

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each sample to its best face, if that is better by more than rounding."""
        s = self.problem.scores(point["W"])
        best, rows = self.problem.best_assignment(point["W"], s), np.arange(len(s))
        is_better = s[rows, best] - s[rows, assignment] > 1e-7 * (1.0 + np.abs(s).max())
        return np.where(is_better, best, assignment)
