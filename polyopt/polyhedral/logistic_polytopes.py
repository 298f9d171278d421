"""Logistic polytopes from many starts: descent from each, and the best end polished.

The explicit program takes the place of the polish with method="exact": solve for the assignment, assign, and
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
from polyopt.base.progress import tell
from polyopt.linalg.used_features import present_features
from polyopt.optim.alternating import AlternatingProblem
from polyopt.optim.rounds import Stage, run_stages
from polyopt.optim.starts import best_of, continued, generators_of, number_of_best
from polyopt.polyhedral.logistic_descent import descend, eliminate, numbers_of
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.polyhedral.logistic_newton import polish

Array = NDArray[np.float64]
Assignment = NDArray[np.int64]


def random_start(problem: FaceLoss, rng: np.random.Generator) -> Array:
    """Faces (K, m+1) in random directions through the mean of the samples, 0 at rest.

    They are drawn for scaled data with weights, so that neither the units of X, nor the order of the samples,
    nor their repetition in place of weight makes a difference.
    """
    scale = problem.units.scale[:-1]
    K, m = problem.shape[0], problem.shape[1] - 1
    directions = rng.normal(size=(K, m)) * (1.0 / np.sqrt(m)) / scale
    middle = np.asarray(problem.X.T @ problem.c).ravel() / problem.c.sum()
    ways = problem.ways[:, :-1]
    directions[:, ~present_features(problem.X)] = 0.0
    directions = np.where(ways * directions < 0, -directions, directions)
    W = np.column_stack([directions, -directions @ middle + 0.5 * rng.normal(size=K)])
    W[~problem.free] = 0.0
    return W


def solve_logistic_polytopes(
    problem: FaceLoss, *, method: str = "newton", n_init: int = 4, max_iter: int = 2000, tol: float = 1e-4,
    time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None, begin: Array | None = None,
    max_numbers: int | None = None, knots: Array | None = None,
) -> Solution:  # fmt: skip
    """Descend from every start, and make the best end stationary.

    problem: the problem.
    method: how the best end is made stationary: by Newton's method, or by the explicit program.
    n_init, seed, n_jobs: random starts, their seed, and how many are run at once.
    max_iter: iterations at most, per start: of the descent, and for the best start those of Newton's method,
        or rounds of the explicit program, that follow. Descents by which `max_numbers` is met are not
        counted.
    tol: relative gap of the assignment's program to which the end is polished.
    time_limit: seconds, for everything together.
    begin (K, m+1): faces of a start more, the first.
    max_numbers: weights and biases other than 0 at most: the best end loses weights until no more are left
        (:func:`polyopt.polyhedral.logistic_descent.eliminate`).
    knots (m,): numbers that a feature itself takes, once for all faces.
    Returns: ``primal`` has ``W`` and ``assignment`` and, where weights were held at 0 for their number alone,
        ``support``, which may differ from it; ``duals`` has ``margin``. CONVERGED where the end is
        stationary; a limit, or Ctrl-C, keeps the best point. ``history`` has a record per iteration: for a
        descent the softness and the ``smoothed`` objective, and the ``objective`` at its end; for the rest
        the ``objective``.
    """
    clock = Clock(time_limit)
    generators = generators_of(seed, n_init)
    known = [] if begin is None else [begin]

    def run(number: int, time_left: float | None) -> Solution:
        watch, records = Clock(time_left), list[dict[str, float]]()
        W = known[number] if number < len(known) else random_start(problem, generators[number - len(known)])

        def note(softness: float, smoothed: float) -> None:
            record = {"step": len(records) + 1.0, "seconds": watch.seconds, "objective": np.nan}
            records.append({**record, "softness": softness, "smoothed": smoothed})

        W, made = descend(problem, W, watch, max_iter=100, most=max_iter, progress=note)
        value = problem.value(W)
        for record in records[-1:]:
            record["objective"] = value
            tell(record)
        status = Status.CONVERGED if made < max_iter else Status.ITERATION_LIMIT
        if watch.is_over:
            status = Status.INTERRUPTED if watch.is_stopped else Status.TIME_LIMIT
        return Solution(
            status, {"W": W}, {}, value, None, "l-bfgs", made,
            solve_time=watch.seconds, history=tuple(records),
        )  # fmt: skip

    single = max(problem.owners.minus, problem.owners.plus) <= 1  # a convex problem has one optimum
    count = 1 if single else n_init + len(known)
    best = best_of(run, count, time_limit=time_limit, n_jobs=n_jobs)
    number = number_of_best(best.runs)
    begun = best.runs[number].iterations
    if max_numbers is not None and numbers_of(best["W"], knots) > max_numbers:
        problem, best = _fewer(problem, best, max_numbers, clock, knots)
    if best.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
        return _known(problem, best)
    if begun >= max_iter:
        return replace(_known(problem, best), status=Status.ITERATION_LIMIT)
    before = clock.seconds
    last = (_exact if method == "exact" else _polished)(problem, best["W"], max_iter - begun, tol, clock.left)
    status = Status.CONVERGED if last.status is Status.SOLVED else last.status
    records = continued(last.history, "step", number, begun, before)
    for record in records[-1:]:
        tell(record)
    return replace(
        best, status=status, primal={**last.primal, **_supported(problem)}, duals=last.duals,
        objective=last.objective, bound=last.bound, solver=f"l-bfgs, then {last.solver}",
        iterations=best.iterations + last.iterations, solve_time=clock.seconds,
        history=(*best.history, *records),
    )  # fmt: skip


def _fewer(
    problem: FaceLoss, best: Solution, most: int, clock: Clock, knots: Array | None
) -> tuple[FaceLoss, Solution]:
    """The problem of the weights that are left, and a good point of it."""
    W, support = eliminate(problem, best["W"], most, clock, knots)
    few = replace(problem, support=support)
    return few, replace(best, primal={"W": W}, objective=few.value(W))


def _known(problem: FaceLoss, best: Solution) -> Solution:
    """A point that was not polished, with its assignment and the multipliers that it suggests."""
    _, _, R, _ = problem.smooth(best["W"], 0.0, 1e-3)
    primal = {"W": best["W"], "assignment": problem.natural(best["W"]), **_supported(problem)}
    return replace(best, primal=primal, duals={"margin": np.where(problem.others, R, 0.0)})


def _supported(problem: FaceLoss) -> dict[str, NDArray[np.bool_]]:
    """Which weights may differ from 0, where some may not."""
    return {} if problem.support is None else {"support": problem.support}


def _polished(problem: FaceLoss, W: Array, max_iter: int, tol: float, time_left: float | None) -> Solution:
    try:
        return polish(problem, W, Clock(time_left), tol=tol, max_iter=max_iter)
    except KeyboardInterrupt:
        point = Solution(interrupted(), {"W": W}, {}, problem.value(W), None, "newton", 0)
        return _known(problem, point)


def _exact(problem: FaceLoss, W: Array, max_iter: int, tol: float, time_left: float | None) -> Solution:
    stage: Stage[Any] = Stage(_Explicit(problem), max_iter)
    found = run_stages([stage], problem.natural(W), time_limit=time_left)
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
        return self.problem.natural(random_start(self.problem, rng))

    def solve(self, assignment: Assignment, time_limit: float | None) -> Solution:
        from formulations.logistic_polytopes import fixed_assignment

        on = self.problem
        program = fixed_assignment(
            on.X, on.y, on.owners, assignment, on.c, ridge=on.ridge, bias_ridge=on.bias_ridge, l1=on.l1,
            support=on.support, signs=on.signs, group=on.group, groups=on.groups,
        )  # fmt: skip
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
        value = faces.value(
            on.X, on.y, W[:, :-1], W[:, -1], on.owners, on.c,
            ridge=on.ridge, bias_ridge=on.bias_ridge, l1=on.l1, group=on.group, groups=on.groups,
            assignment=assignment,
        )  # fmt: skip
        return Solution(found.status, {"W": W}, {"margin": alpha}, value, None, found.solver)

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """The best face of each, where it is better by more than rounding."""
        s = self.problem.scores(point["W"])
        best = self.problem.natural(point["W"])
        rows = np.arange(len(s))
        gains = s[rows, best] - s[rows, assignment] > 1e-7 * (1.0 + np.abs(s).max())
        return np.where(gains, best, assignment)
