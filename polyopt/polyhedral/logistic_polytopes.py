"""Logistic polytopes from many starts: descent from each, and the best end polished.

With method="exact" the explicit program takes the place of the polish: solve for the assignment, assign, and
again.
"""

from __future__ import annotations

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
from polyopt.optim.rounds import AlternatingProblem, Stage, run_stages
from polyopt.optim.starts import best_of, continued, generators_of, number_of_best
from polyopt.polyhedral.logistic_descent import descend, eliminate, numbers_of
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.polyhedral.logistic_newton import polish

Assignment = NDArray[np.int64]


def random_start(problem: FaceLoss, rng: np.random.Generator) -> Array:
    """Draw faces (K, m+1) in random directions through the mean of the samples, 0 at rest.

    They are drawn for scaled data with weights, so that neither the units of X, nor the order of the samples,
    nor their repetition in place of weight makes a difference.
    """
    K, m, signs = problem.shape[0], problem.shape[1] - 1, problem.entry_signs[:, :-1]
    directions = rng.normal(size=(K, m)) * (1.0 / np.sqrt(m)) / problem.units.scale[:-1]
    middle = np.asarray(problem.X.T @ problem.c).ravel() / problem.c.sum()
    directions[:, ~present_features(problem.X)] = 0.0
    directions = np.where(signs * directions < 0, -directions, directions)
    W = np.column_stack([directions, -directions @ middle + 0.5 * rng.normal(size=K)])
    W[~problem.free] = 0.0
    return W


def solve_logistic_polytopes(
    problem: FaceLoss, *, method: str = "newton", n_init: int = 4, max_iter: int = 2000, tol: float = 1e-4,
    time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None, begin: Array | None = None,
    max_numbers: int | None = None, knots: Array | None = None,
) -> Solution:  # fmt: skip
    """Descend from every start, and make the best end stationary.

    max_iter: iterations at most, per start: of the descent, and for the best start those of Newton's method,
        or rounds of the explicit program, that follow. Descents of the elimination are not counted.
    tol: relative gap of the assignment's program to which the end is polished.
    begin (K, m+1): faces of a further start, the first.
    max_numbers, knots: arguments of :func:`polyopt.polyhedral.logistic_descent.eliminate`, for the best end.
    In the solution, ``primal`` has ``W``, ``assignment`` and, if weights were held at 0 for their number
    alone, ``support``; ``duals`` has ``margin``. CONVERGED if the end is stationary.
    """
    clock = Clock(time_limit)
    generators, given = generators_of(seed, n_init), int(begin is not None)

    def run(number: int, left: float | None) -> Solution:
        if begin is not None and number == 0:
            return _descended(problem, begin, max_iter, left)
        return _descended(problem, random_start(problem, generators[number - given]), max_iter, left)

    single = max(problem.owners.minus, problem.owners.plus) <= 1  # a convex problem has one optimum
    best = best_of(run, 1 if single else given + n_init, time_limit=time_limit, n_jobs=n_jobs)
    number = number_of_best(best.runs)
    begun = best.runs[number].iterations
    if max_numbers is not None and numbers_of(best["W"], knots) > max_numbers:
        W, support = eliminate(problem, best["W"], max_numbers, clock, knots)
        problem = replace(problem, support=support)
        best = replace(best, primal={"W": W}, objective=problem.value(W))
    support_of = {} if problem.support is None else {"support": problem.support}
    is_stopped = best.status in (Status.INTERRUPTED, Status.TIME_LIMIT)
    if is_stopped or begun >= max_iter:
        known = _assigned(problem, best)
        status = best.status if is_stopped else Status.ITERATION_LIMIT
        return replace(known, status=status, primal={**known.primal, **support_of})
    before = clock.seconds
    last = (_exact if method == "exact" else _polished)(problem, best["W"], max_iter - begun, tol, clock.left)
    records = continued(last.history, "step", number, begun, before)
    for record in records[-1:]:
        tell(record)
    return replace(
        best, status=Status.CONVERGED if last.status is Status.SOLVED else last.status,
        primal={**last.primal, **support_of}, duals=last.duals, objective=last.objective, bound=last.bound,
        solver=f"l-bfgs, then {last.solver}", iterations=best.iterations + last.iterations,
        solve_time=clock.seconds, history=(*best.history, *records),
    )  # fmt: skip


def _descended(problem: FaceLoss, W: Array, max_iter: int, time_limit: float | None) -> Solution:
    """Descend from one start."""
    clock, records = Clock(time_limit), list[dict[str, float]]()

    def note(softness: float, smoothed: float) -> None:
        record = {"step": len(records) + 1.0, "seconds": clock.seconds, "objective": np.nan}
        records.append({**record, "softness": softness, "smoothed": smoothed})

    W, made = descend(problem, W, clock, most=max_iter, progress=note)
    value = problem.value(W)
    for record in records[-1:]:
        record["objective"] = value
        tell(record)
    status = Status.CONVERGED if made < max_iter else Status.ITERATION_LIMIT
    if clock.is_over:
        status = Status.INTERRUPTED if clock.is_stopped else Status.TIME_LIMIT
    return Solution(
        status, {"W": W}, {}, value, None, "l-bfgs", made, solve_time=clock.seconds, history=tuple(records)
    )


def _assigned(problem: FaceLoss, point: Solution) -> Solution:
    """Add the best assignment to a point that was not polished, and the multipliers that it suggests."""
    _, _, R, _ = problem.smooth(point["W"], 0.0, 1e-3)
    primal = {"W": point["W"], "assignment": problem.best_assignment(point["W"])}
    return replace(point, primal=primal, duals={"margin": np.where(problem.others, R, 0.0)})


def _polished(problem: FaceLoss, W: Array, max_iter: int, tol: float, time_left: float | None) -> Solution:
    try:
        return polish(problem, W, Clock(time_left), tol=tol, max_iter=max_iter)
    except KeyboardInterrupt:
        return _assigned(problem, Solution(interrupted(), {"W": W}, {}, problem.value(W), None, "newton", 0))


def _exact(problem: FaceLoss, W: Array, max_iter: int, tol: float, time_left: float | None) -> Solution:
    stage: Stage[Any] = Stage(_Explicit(problem), max_iter)
    found = run_stages([stage], problem.best_assignment(W), time_limit=time_left)
    status = Status.SOLVED if found.status is Status.CONVERGED else found.status
    history = tuple(
        {name: value for name, value in each.items() if name != "round"} for each in found.history
    )
    return replace(found, status=status, history=history)


class _Explicit(AlternatingProblem):
    """Rounds of the explicit program."""

    def __init__(self, problem: FaceLoss):
        self.problem = problem

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        return self.problem.best_assignment(random_start(self.problem, rng))

    def solve(self, assignment: Assignment, time_limit: float | None) -> Solution:
        from formulations.logistic_polytopes import fixed_assignment

        on = self.problem
        costs: dict[str, Any] = {
            "ridge": on.ridge, "bias_ridge": on.bias_ridge, "l1": on.l1, "group": on.group, "groups":
            on.groups,
        }  # fmt: skip
        program = fixed_assignment(
            on.X, on.y, on.owners, assignment, on.c, support=on.support, signs=on.signs, **costs
        )
        found = program.solve(time_limit=time_limit)
        if not found.primal:
            raise RuntimeError(
                "no solver left a point for the program of an assignment: scale the features to unit "
                "variance, raise ridge, or choose solver='newton'"
            )
        W = np.column_stack([found["w"], found["b"]])
        W = on.allowed(np.where(on.entries, W, 0.0))
        alpha = np.zeros(on.others.shape)
        alpha[on.others] = found.duals["margin"]
        w, b = W[:, :-1], W[:, -1]
        value = faces.value(on.X, on.y, w, b, on.owners, on.c, assignment=assignment, **costs)
        return Solution(found.status, {"W": W}, {"margin": alpha}, value, None, found.solver)

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each sample to its best face, if that is better by more than rounding."""
        s = self.problem.scores(point["W"])
        best, rows = self.problem.best_assignment(point["W"], s), np.arange(len(s))
        gains = s[rows, best] - s[rows, assignment] > 1e-7 * (1.0 + np.abs(s).max())
        return np.where(gains, best, assignment)
