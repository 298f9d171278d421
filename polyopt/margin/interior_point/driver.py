"""The interior-point method: its loop, the points that are kept, and the step from one point to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.families import allowed, shrink_of, within
from formulations.language.arguments import tolerance, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.progress import show
from polyopt.certificates.certificate import relative_gap
from polyopt.margin.interior_point.crew import total
from polyopt.margin.interior_point.intercept import cheapest_of_blocks
from polyopt.margin.interior_point.problem import Problem, System, in_order, read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from formulations.families import Families, Reaches
    from formulations.language.types import Matrix

    Vector = NDArray[np.float64]

__all__ = ["Point", "largest_reaches", "solve_interior_point", "solve_problem"]

_MAX_ITERATIONS = 200  # by default; twenty to forty are usual
_MAX_IDLE = 12  # iterations without progress of any kind after which a run gives up
_MAX_IDLE_CLOSED = 6  # the same once the gap is closed
_REL_GAP_INACCURATE = 1e-3  # largest relative gap of a run that rounding ended; above it the run has stalled
_FIRST_STEP_TO_BOUNDARY = 0.9  # share of the way to its own boundary that a sample goes in the first step
_STEP_TO_BOUNDARY = 0.99  # share of the way to the nearest boundary that all samples go in later steps
_MIN_MU_REL_TARGET_GAP = 0.05  # lower limit of mu, in units of the gap asked for
_MIN_START_REL_GAP = 0.1  # least relative gap of the products at a start that is given
_PROXIMAL = 1e-9  # dual proximal term, over the mean cost: no weight in D is above its inverse
_PROXIMAL_INCREASE = 3.0  # factor of the proximal term once only rounding, times such weights, is left


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
    Memory: at most some 58 numbers per sample (33 without a bound), a block of rows, and matrices of size m.

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

    save: called after every iteration with the state of the loop, which together with the crew's log is all
        that is needed to go on from there.
    known: the state that `save` was given, to go on from there; the crew has the log.
    start (m+1,): A point to begin near, as of :class:`~polyopt.margin.interior_point.point.Point`.
    """
    kept = _Kept(problem, tol, clock, progress)
    run = _Run(Point(problem, tol, begins=known is None, start=start), kept, tol, save)
    if known is not None:
        run.recall(known)
    try:
        status = run.to_end(_MAX_ITERATIONS if max_iter is None else max_iter)
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
            # Certificates measure residuals a little differently: half the tolerance is left for that.
            if survey.gap <= tol and survey.violation <= 0.5 * tol:
                return Status.SOLVED
            now = np.array([survey.gap, survey.violation, survey.mu])
            self._stale = 0 if (now < 0.9 * self._least).any() else self._stale + 1
            self._least = np.minimum(self._least, now)
            if self._stale > (_MAX_IDLE_CLOSED if kept.is_closed else _MAX_IDLE) or np.isnan(now).any():
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
        """State from which :meth:`recall` goes on."""
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
        """True if some point has closed the gap to its own multipliers."""
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
        gap = relative_gap(objective, bound)  # making the points exactly feasible may leave more of it
        if status is Status.SOLVED and not gap <= max(10.0 * self._tol, 1e-7):
            status = Status.INACCURATE
        if status is Status.INACCURATE and gap > _REL_GAP_INACCURATE:
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


class Point:
    """A primal-dual point with all products positive.

    tol: the relative gap that is asked for.
    begins: True if the blocks are to begin; else they go on from a log.
    start (m+1,): (w, b) to begin at, where no row is without slack and b is no free intercept.

    v (m+1,): (w, b).
    """

    def __init__(self, problem: Problem, tol: float, *, begins: bool = True, start: Vector | None = None):
        self._problem, self._tol, self._crew = problem, tol, problem.crew
        facts = problem.facts
        mean = facts.costs / (problem.soft * facts.n)
        self._measure = 2.0 * facts.costs + facts.bounds * mean
        self._ease, self._residual, self._is_first, self._size = _PROXIMAL / mean, np.inf, True, 0.0
        self.v = np.zeros(facts.m + 1)
        if begins and start is not None:
            self.v, self._is_first = start.copy(), False
            self._crew.tell("begin_at", mean, self._ease, start, self._closeness(start))
        elif begins:
            self._crew.tell("begin", mean, self._ease)

    def _closeness(self, start: Vector) -> float:
        """The products to begin with at a point, by the gap to the best multiple of its central multipliers.

        These are of a gap of `_MIN_START_REL_GAP`, were the point central itself; the more is missing, the
        larger the products are to be.
        """
        regulariser = self._problem.regulariser
        cost = float(total(self._crew.ask("costs_at", start, 1.0)))
        value = regulariser.energy(regulariser.weights(start)) + cost
        unit = value / self._measure
        found = self._crew.ask("pull_at", start, _MIN_START_REL_GAP * unit)
        gain, pulled = float(total([each[0] for each in found])), total([each[1] for each in found])
        paid = regulariser.conjugate(regulariser.weights(pulled))
        share = min(1.0, 0.5 * gain / max(paid, np.finfo(float).tiny))  # of the multipliers that is best
        return max(_MIN_START_REL_GAP, 1.0 - share * (gain - share * paid) / value) * unit

    def known(self) -> dict[str, Any]:
        """State from which :meth:`recall` goes on, beside the crew's log."""
        return {
            "v": self.v, "ease": self._ease, "residual": self._residual, "is_first": self._is_first,
            "size": self._size,
        }  # fmt: skip

    def recall(self, known: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.v, self._ease, self._residual = known["v"], known["ease"], known["residual"]
        self._is_first, self._size = known["is_first"], known["size"]

    def keep(self, survey: Survey) -> None:
        """Have the multipliers kept, repaired to Σ β_i = 0."""
        self._crew.tell("keep", survey.share)

    # -- where it stands -----------------------------------------------------------------------

    def survey(self) -> Survey:
        """Both objectives, the residuals, and the normal matrix for the next step."""
        regulariser = self._problem.regulariser
        self._crew.tell("aim", 0.0, 0.0)
        found = self._crew.ask("survey")
        sums = total([[f.gain, f.fall, f.products, f.size, f.cost] for f in found])
        gain, fall, products, size, cost = (float(each) for each in sums)
        most = np.max([[f.largest, f.multiplier, f.violation] for f in found], axis=0)
        largest, multiplier, violation = (float(each) for each in most)
        M, pulled = total([f.M for f in found]), total([f.pulled for f in found])
        w = regulariser.weights(self.v)
        gradient = regulariser.gradient(w)
        shrink = shrink_of(largest_reaches(f.reaches for f in found))
        if shrink < 1.0:
            cost = float(total(self._crew.ask("costs", shrink)))
        objective = shrink**2 * regulariser.energy(w) + cost
        share, can_repair = 0.0, True
        if regulariser.is_free:
            imbalance, room = float(pulled[-1, 0]), float(pulled[-1, 1])
            share = imbalance / max(room, abs(imbalance), np.finfo(float).tiny)
            can_repair = abs(imbalance) <= room
        c = regulariser.weights(pulled[:, 0] - share * pulled[:, 1])
        bound = gain - share * fall - regulariser.conjugate(c) if can_repair else -np.inf
        residual = float(np.abs(c - gradient).max(initial=0.0))
        residual /= self._scale(M, gradient, c, objective, size)
        survey = Survey(
            objective=objective,
            bound=bound,
            violation=max(violation, residual, largest / max(multiplier, np.finfo(float).tiny)),
            mu=products / self._measure,
            share=share,
            M=M,
            left=pulled[:, 0] - regulariser.widened(gradient),
            push=pulled[:, 2],
        )
        if survey.gap <= self._tol < residual and residual > 0.5 * self._residual:
            self._ease *= _PROXIMAL_INCREASE
        self._residual = residual
        return survey

    def _scale(self, M: Vector, gradient: Vector, c: Vector, objective: float, size: float) -> float:
        """Scale of the residual of stationarity: that of a certificate, or a little less."""
        if not self._size:  # D is in proportion to the costs, or to what is near the margin
            spread = np.sqrt(M.diagonal()[:-1] / M[-1, -1])
            self._size = float((spread + np.abs(self._problem.shift)).max(initial=0.0))
        return max(
            float(np.abs(gradient).max(initial=0.0)),
            float(np.abs(c).max(initial=0.0)),
            3e-9 * self._size * size,
            1e-4 * self._problem.regulariser.unit * float(np.sqrt(2.0 * objective)),
            float(np.finfo(float).tiny),  # samples that are all alike pull nowhere
        )

    # -- how it moves --------------------------------------------------------------------------

    def advance(self, survey: Survey) -> None:
        """A step: Mehrotra's predictor and corrector.

        LinAlgError: the reduced system cannot be factorised.
        """
        system = System(self._problem.regulariser, survey.M)
        if self._is_first:
            self._take_first(system, survey)
            return
        _, length, linear, square = self._turn(system, survey, survey.push)
        length = min(length, 1.0)
        left = survey.mu + (length * linear + length**2 * square) / self._measure
        least = _MIN_MU_REL_TARGET_GAP * self._tol * survey.objective / self._measure
        mu = max(left**3 / max(survey.mu**2, np.finfo(float).tiny), least)
        dv, length = self._aimed(system, survey, mu, 1.0)
        length = min(_STEP_TO_BOUNDARY * length, 1.0)
        self._crew.tell("move", length)
        self._go(length * dv)

    def _take_first(self, system: System, survey: Survey) -> None:
        """The whole step in w, with each sample going as far as its own ends let it.

        It leaves rows unmet, but it brings w and the multipliers near to where they will be; a common
        step would be the shortest of all.
        """
        dv, _ = self._aimed(system, survey, survey.mu, 0.0)
        self._crew.tell("move_apart", _FIRST_STEP_TO_BOUNDARY)
        self._go(dv)
        self._is_first = False

    def _go(self, dv: Vector) -> None:
        self.v = self.v + dv
        self._crew.tell("soften", self._ease)

    def _aimed(self, system: System, survey: Survey, mu: float, second: float) -> tuple[Vector, float]:
        self._crew.tell("aim", mu, second)
        dv, length, _, _ = self._turn(system, survey, self._push())
        return dv, length

    def _push(self) -> Vector:
        return total(self._crew.ask("balance"))

    def _turn(self, system: System, survey: Survey, push: Vector) -> tuple[Vector, float, float, float]:
        """The change of (w, b) for what is aimed at, with what ``passes.direct`` tells of the rest."""
        dv = system.solve(survey.left + push)
        found = self._crew.change("turn", dv)
        linear, square = total([each[1:] for each in found])
        return dv, min(each[0] for each in found), float(linear), float(square)


@dataclass(frozen=True)
class Survey:
    """Objectives, residuals and the normal matrix of a point, before the next step.

    objective: primal objective, scaled back within the bounds.
    bound: dual objective of the multipliers once repaired; -inf where that is not possible.
    violation: the largest residual of the optimality conditions, relative as in a certificate.
    mu: mean product of multiplier and slack, per unit of cost.
    share: part of each multiplier's room that the repair of Σ β_i = 0 takes.
    M (m+1, m+1): the normal matrix.
    left (m+1,): X'β − Rw, and Σ β_i.
    push (m+1,): X'h of the affine-scaling direction, which aims at products of zero.
    """

    objective: float
    bound: float
    violation: float
    mu: float
    share: float
    M: Vector
    left: Vector
    push: Vector

    @property
    def gap(self) -> float:
        """Relative duality gap; infinite where there is no bound."""
        return relative_gap(self.objective, self.bound) if np.isfinite(self.bound) else np.inf


def largest_reaches(found: Iterable[Reaches]) -> Reaches:
    """The largest outputs of all blocks towards each bound."""
    most: Reaches = {}
    for reaches in found:
        for key, reach in reaches.items():
            most[key] = max(reach, most.get(key, -np.inf))
    return most
