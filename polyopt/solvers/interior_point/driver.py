"""The loop of the interior-point solver, and the points that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.arguments import tolerance, whole_or_none
from formulations.clock import interrupted
from formulations.families.intercept import allowed, shrink_of, within
from formulations.solution import Solution, Status
from polyopt.certificates.certificate import relative_gap
from polyopt.solvers.clock import Clock
from polyopt.solvers.interior_point.crew import total
from polyopt.solvers.interior_point.intercept import cheapest_of_blocks
from polyopt.solvers.interior_point.point import Point, Survey, largest_reaches
from polyopt.solvers.interior_point.problem import Problem, in_order, read
from polyopt.watch import show

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.families import Families
    from formulations.matrices import Matrix

    Vector = NDArray[np.float64]

__all__ = ["solve_interior_point", "solve_problem"]

_ITERATIONS = 200  # at most, by default; twenty to forty are usual
_STRICT = 0.5  # share of the tolerance for residuals, which certificates measure a little differently
_STALL = 12  # iterations without progress of any kind after which a run gives up, ...
_STALL_AT_END = 6  # ... and once the gap is closed
_NEARLY = 1e-3  # relative gap up to which a run that rounding ended is called nearly optimal
_REPAIRED = 1e-7  # relative gap that making the points exactly feasible may leave


def solve_interior_point(
    X: Matrix,
    rows: Families,
    *,
    D: float | None = None,
    weights: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    time_limit: float | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Solve a linear hinge-type machine by a primal-dual interior-point method: SVM, Sigma-SVM, RMM.

    The work of an iteration is that of one matrix X'DX, so m should not be much above a thousand.
    Memory: at most some 63 numbers per sample (36 without a bound), a block of rows, and matrices of size m.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples. float32 and CSR are used as they are; no more than a block of rows is ever copied.
    rows : Families
        The families of rows of the machine, such as ``hinge_families(y, C, B)`` with B > 0. Both labels must
        occur among the samples that have a cost.
    D : float, optional
        Share of the output variance in the regulariser of the Sigma-SVM, within [0, 1].
    weights : array_like of shape (n,), optional
        Weights of the samples in the Sigma-SVM's mean and covariance, positive.
    tol : float
        Relative tolerance of the duality gap, and of the residuals of the optimality conditions.
    max_iter : int, optional
        Iterations at most; 200 by default.
    time_limit : float, optional
        Seconds.
    progress : callable, optional
        Called with every record of the history as it is made.

    Returns
    -------
    Solution
        ``primal`` has ``w`` (m,) and ``b`` (for centred inputs, if D is given): a point that respects
        the bounds. At D = 1 with a singular covariance w has the least norm. ``duals`` has the multipliers
        of each family, feasible as they are.
        ``objective`` and ``bound`` are the primal and the dual objective at these. ``history`` has one
        record per iteration, with both values for the points kept so far and the largest of the relative
        residuals (violation). A limit, or Ctrl-C, keeps these points; a run that rounding ends short
        of `tol` is ``INACCURATE``, or ``STALLED`` where that is far short.

    Raises
    ------
    ValueError
        An argument of the wrong shape or value.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    max_iter = whole_or_none("max_iter", max_iter)
    problem = read(X, rows, D, weights)
    solution = solve_problem(problem, tol, max_iter, clock, progress)
    (Z,) = problem.crew.ask("multipliers")
    return replace(solution, duals=in_order(rows)[0].named(Z))


def solve_problem(
    problem: Problem,
    tol: float,
    max_iter: int | None,
    clock: Clock,
    progress: Callable[[dict[str, float]], None] | None,
    save: Callable[[dict[str, Any]], None] | None = None,
    known: Mapping[str, Any] | None = None,
    start: Vector | None = None,
) -> Solution:
    """Solve a program whose samples are in blocks.

    problem: the program.
    clock: the limit.
    save: called after every iteration with what the loop knows, which together with the crew's log is all
        that is needed to go on from there.
    known: what `save` was given, to go on from there; the crew has the log.
    start (m+1,): A point to begin near, as of :class:`~polyopt.solvers.interior_point.point.Point`.
    """
    kept = _Kept(problem, tol, clock, progress)
    run = _Run(Point(problem, tol, begins=known is None, start=start), kept, tol, save)
    if known is not None:
        run.recall(known)
    try:
        status = run.to_end(_ITERATIONS if max_iter is None else max_iter)
    except KeyboardInterrupt:
        status = interrupted()
    return kept.solution(status)


class _Run:
    """The loop."""

    def __init__(
        self, point: Point, kept: _Kept, tol: float, save: Callable[[dict[str, Any]], None] | None = None
    ):
        self._point, self._kept, self._tol, self._save = point, kept, tol, save
        self._least, self._stale, self._iteration = np.full(3, np.inf), 0, 0

    def recall(self, known: Mapping[str, Any]) -> None:
        """Go on from what was known after an iteration."""
        self._least, self._stale, self._iteration = known["least"], known["stale"], known["iteration"]
        self._point.recall(known)
        self._kept.recall(known)

    def to_end(self, max_iter: int) -> Status:
        """Take steps until the gap is closed, or a limit ends them."""
        point, kept, tol = self._point, self._kept, self._tol
        while True:
            survey = point.survey()
            kept.look(point, survey)
            if survey.gap <= tol and survey.violation <= _STRICT * tol:
                return Status.SOLVED
            now = np.array([survey.gap, survey.violation, survey.mu])
            self._stale = 0 if (now < 0.9 * self._least).any() else self._stale + 1
            self._least = np.minimum(self._least, now)
            if self._stale > (_STALL_AT_END if kept.is_closed else _STALL) or np.isnan(now).any():
                return Status.SOLVED if kept.misfit <= tol else Status.INACCURATE
            if self._iteration >= max_iter:
                return Status.ITERATION_LIMIT
            if kept.clock.is_over:
                return Status.TIME_LIMIT
            try:
                point.advance(survey)
            except np.linalg.LinAlgError:
                return Status.INACCURATE
            self._iteration += 1
            if self._save is not None:
                loop = {"least": self._least, "stale": self._stale, "iteration": self._iteration}
                self._save(loop | point.known() | kept.known())


class _Kept:
    """The history of a run and the points that it would end with.

    Until the gap of a point to its own multipliers is closed, the best of either are kept; from then
    on, those that fit together best.
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        clock: Clock,
        progress: Callable[[dict[str, float]], None] | None,
    ):
        self.clock, self.misfit = clock, np.inf
        self._problem, self._tol, self._progress = problem, tol, progress
        # Zeros are feasible, for both programs.
        zeros = np.zeros(problem.facts.m + 1)
        self._objective, self._v = float(total(problem.crew.ask("costs_at", zeros, 1.0))), zeros
        self._bound = 0.0
        self._history: list[dict[str, float]] = []

    def known(self) -> dict[str, Any]:
        """What it would go on from."""
        return {
            "objective": self._objective, "kept": self._v, "bound": self._bound, "misfit": self.misfit,
            "history": self._history,
        }  # fmt: skip

    def recall(self, known: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._objective, self._v = known["objective"], known["kept"]
        self._bound, self.misfit, self._history = known["bound"], known["misfit"], list(known["history"])

    @property
    def is_closed(self) -> bool:
        """Whether some point has closed the gap to its own multipliers."""
        return self.misfit < np.inf

    def look(self, point: Point, survey: Survey) -> None:
        """Keep what is better than what there is, and write the record."""
        fits = survey.gap <= self._tol and survey.violation < self.misfit
        if fits or (survey.objective < self._objective and not self.is_closed):
            self._objective, self._v = survey.objective, point.v.copy()
        if fits or (survey.bound > self._bound and not self.is_closed):
            self._bound = survey.bound
            point.keep(survey)
        if fits:
            self.misfit = survey.violation
        record = {
            "iteration": float(len(self._history)),
            "seconds": self.clock.seconds,
            "violation": survey.violation,
            "objective": self._objective,
            "bound": self._bound,
        }
        self._history.append(record)
        if self._progress is not None:
            self._progress(record)
        show(record, self._shown)

    def _shown(self) -> dict[str, Vector]:
        """The point kept, as weights and intercept for the samples as they came: ``w`` (m+1,)."""
        w = self._v[:-1]
        return {"w": np.append(w, self._v[-1] - float(self._problem.shift @ w))}

    def solution(self, status: Status) -> Solution:
        """The points that were kept, made exactly feasible, and the best intercept where it is free.

        Multipliers are with the blocks.
        """
        problem, crew = self._problem, self._problem.crew
        objective, w, b = self._primal()
        if problem.regulariser.is_free:
            room, imbalance = (float(each) for each in total(crew.ask("sums")))
            crew.tell("even", imbalance / room if room > 0 else 0.0)
        found = crew.ask("dual")
        gain, pulled = float(total([each[0] for each in found])), total([each[1] for each in found])
        bound = gain - problem.regulariser.conjugate(problem.regulariser.weights(pulled))
        if status is Status.SOLVED and not relative_gap(objective, bound) <= max(10.0 * self._tol, _REPAIRED):
            status = Status.INACCURATE
        if status is Status.INACCURATE and relative_gap(objective, bound) > _NEARLY:
            status = Status.STALLED
        return Solution(
            status=status,
            primal={"w": w, "b": np.array(b if problem.is_centred else b - float(problem.shift @ w))},
            duals={},
            objective=objective,
            bound=bound,
            solver="interior-point",
            iterations=max(len(self._history) - 1, 0),
            solve_time=self.clock.seconds,
            history=tuple(self._history),
        )

    def _primal(self) -> tuple[float, Vector, float]:
        """Objective, w and b (for centred rows) of the point kept, scaled back within the bounds."""
        crew, regulariser = self._problem.crew, self._problem.regulariser
        if not regulariser.is_free:  # and no bounds
            cost = float(total(crew.ask("costs_at", self._v, 1.0)))
            return regulariser.energy(self._v) + cost, self._v[:-1], float(self._v[-1])
        w = regulariser.least(self._v[:-1])
        g = largest_reaches(crew.ask("reach", np.append(w, 0.0)))
        best = within(cheapest_of_blocks(crew.ask, total, w), allowed(g))
        options = []
        # Where no intercept brings all outputs within the bounds, the best one need not be the better.
        for b in (best, float(self._v[-1])):
            moved = {(low, end): reach - b if low else reach + b for (low, end), reach in g.items()}
            shrink = shrink_of(moved)
            cost = float(total(crew.ask("costs_at", np.append(w, b), shrink)))
            options.append((shrink**2 * regulariser.energy(w) + cost, shrink, b))
        value, shrink, b = min(options)
        return value, shrink * w, shrink * b
