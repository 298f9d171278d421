"""The interior-point method: its loop, the best points so far, and the step from one iterate to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from formulations.families import Families, Reaches, allowed, shrink_of, within
from formulations.language.arguments import tolerance, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from polyopt.base.progress import show
from polyopt.certificates.certificate import relative_gap
from polyopt.margin.interior_point.crew import total
from polyopt.margin.interior_point.intercept import cheapest_of_blocks
from polyopt.margin.interior_point.problem import Problem, System, in_order, read

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Options:
    """The numbers of the interior-point method."""

    max_iter: int = 200  # twenty to forty are usual
    max_idle: int = 12  # iterations in which gap, violation and mu stay above 0.9 of the least so far
    max_idle_closed: int = 6  # the same once the gap is closed
    max_inaccurate_gap: float = 1e-3  # relative; above it a run that rounding ended is stalled
    first_step_share: float = 0.9  # of the way to its own boundary that a sample goes in the first step
    step_share: float = 0.99  # of the way to the nearest boundary that all samples go in later steps
    min_mu_ratio: float = 0.05  # lower limit of mu, in units of the gap asked for
    min_start_gap: float = 0.1  # relative gap of the products at a start that is given
    proximal: float = 1e-9  # dual proximal term over the mean cost: no weight in D is above its inverse
    proximal_factor: float = 3.0  # by which the term grows once only rounding, times such weights, is left


DEFAULTS = Options()


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

    Memory: at most some 58 numbers per sample (33 without a bound), a block of rows, and matrices of size m,
    which should not be much above a thousand.

    X: samples, an array or CSR; float32 and CSR are not copied.
    rows: the families of rows, such as ``hinge_families(y, C, B)`` with B > 0 and costs in both classes.
    D: share of the output variance in the regulariser of the Sigma-SVM, within [0, 1].
    weights (n,): weights of the samples in the Sigma-SVM's mean and covariance, positive.
    tol: relative tolerance of the duality gap, and of the residuals of the optimality conditions.

    In the solution, ``primal`` has ``w`` (m,) and ``b`` (for centred samples, if D is given), within the
    bounds, and ``duals`` has feasible multipliers. At D = 1 with a singular covariance w has the least norm.
    ``history`` has both objectives of the points kept and the largest relative residual (violation). If
    rounding ends the run, the status is INACCURATE, or STALLED for a relative gap above 1e-3.
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
    options: Options = DEFAULTS,
) -> Solution:
    """Solve a program whose samples are in blocks; the multipliers stay with the blocks.

    save: called after every iteration with the state of the loop, which is all that is needed to resume,
        together with the crew's log.
    known: the state given to `save`, to resume from; the crew has the log.
    start (m+1,): a point to begin near, as in :class:`Iterate`.
    """
    best = _Best(problem, tol, clock, progress, options)
    iterate = Iterate(problem, tol, begins=known is None, start=start, options=options)
    least, stale, iteration = np.full(3, np.inf), 0, 0
    if known is not None:
        least, stale, iteration = known["least"], known["stale"], known["iteration"]
        iterate.recall(known)
        best.recall(known)
    limit = options.max_iter if max_iter is None else max_iter

    def run() -> Status:
        nonlocal least, stale, iteration
        while True:
            survey = iterate.survey()
            best.update(iterate, survey)
            # Certificates measure residuals a little differently: half the tolerance is left for that.
            if survey.gap <= tol and survey.violation <= 0.5 * tol:
                return Status.SOLVED
            now = np.array([survey.gap, survey.violation, survey.mu])
            stale = 0 if (now < 0.9 * least).any() else stale + 1
            least = np.minimum(least, now)
            max_idle = options.max_idle_closed if best.is_closed else options.max_idle
            if stale > max_idle or np.isnan(now).any():
                return Status.SOLVED if best.misfit <= tol else Status.INACCURATE
            if iteration >= limit:
                return Status.ITERATION_LIMIT
            if clock.is_over:
                return Status.TIME_LIMIT
            try:
                iterate.advance(survey)
            except np.linalg.LinAlgError:
                return Status.INACCURATE
            iteration += 1
            if save is not None:
                loop = {"least": least, "stale": stale, "iteration": iteration}
                save(loop | iterate.known() | best.known())

    try:
        status = run()
    except KeyboardInterrupt:
        status = interrupted()
    return best.solution(status)


class _Best:
    """The history of a run, and the points that it would return.

    Until the gap of an iterate to its own multipliers is closed, the best point and the best multipliers are
    kept; from then on, the iterate whose point and multipliers satisfy the conditions best.

    misfit: violation of the kept iterate once the gap is closed; infinite before.
    """

    def __init__(
        self, problem: Problem, tol: float, clock: Clock,
        progress: Callable[[dict[str, float]], None] | None, options: Options,
    ):  # fmt: skip
        self._clock, self.misfit, self._options = clock, np.inf, options
        self._problem, self._tol, self._progress = problem, tol, progress
        self._v = np.zeros(problem.facts.m + 1)  # zeros are feasible for both programs
        self._objective = float(total(problem.crew.ask("costs_at", self._v, 1.0)))
        self._bound, self._history = 0.0, list[dict[str, float]]()

    def known(self) -> dict[str, Any]:
        """State for :meth:`recall`."""
        return {
            "objective": self._objective, "kept": self._v, "bound": self._bound, "misfit": self.misfit,
            "history": self._history,
        }  # fmt: skip

    def recall(self, known: Mapping[str, Any]) -> None:
        """Resume from this state."""
        self._objective, self._v = known["objective"], known["kept"]
        self._bound, self.misfit, self._history = known["bound"], known["misfit"], list(known["history"])

    @property
    def is_closed(self) -> bool:
        """True if an iterate has closed the gap to its own multipliers."""
        return self.misfit < np.inf

    def update(self, iterate: Iterate, survey: Survey) -> None:
        """Keep what is better than the points so far, and add a record."""
        fits = survey.gap <= self._tol and survey.violation < self.misfit
        if fits or (survey.objective < self._objective and not self.is_closed):
            self._objective, self._v = survey.objective, iterate.v.copy()
        if fits or (survey.bound > self._bound and not self.is_closed):
            self._bound = survey.bound
            self._problem.crew.tell("keep", survey.share)
        if fits:
            self.misfit = survey.violation
        record = {
            "iteration": float(len(self._history)),
            "seconds": self._clock.seconds,
            "violation": survey.violation,
            "objective": self._objective,
            "bound": self._bound,
        }
        self._history.append(record)
        if self._progress is not None:
            self._progress(record)
        show(record, self._shown)

    def _shown(self) -> dict[str, Vector]:
        """The kept point as weights and intercept for the samples as given: ``w`` (m+1,)."""
        w = self._v[:-1]
        return {"w": np.append(w, self._v[-1] - float(self._problem.shift @ w))}

    def solution(self, status: Status) -> Solution:
        """Return the kept points, made exactly feasible, with the best intercept if it is free."""
        problem, crew = self._problem, self._problem.crew
        objective, w, b = self._primal()
        if problem.regulariser.is_free:
            room, imbalance = (float(each) for each in total(crew.ask("sums")))
            crew.tell("even", imbalance / room if room > 0 else 0.0)
        found = crew.ask("dual")
        gain, pulled = float(total([each[0] for each in found])), total([each[1] for each in found])
        bound = gain - problem.regulariser.conjugate(problem.regulariser.weights(pulled))
        gap = relative_gap(objective, bound)  # feasibility may have cost some
        if status is Status.SOLVED and not gap <= max(10.0 * self._tol, 1e-7):
            status = Status.INACCURATE
        if status is Status.INACCURATE and gap > self._options.max_inaccurate_gap:
            status = Status.STALLED
        return Solution(
            status=status,
            primal={"w": w, "b": np.array(b if problem.is_centred else b - float(problem.shift @ w))},
            duals={},
            objective=objective,
            bound=bound,
            solver="interior-point",
            iterations=max(len(self._history) - 1, 0),
            solve_time=self._clock.seconds,
            history=tuple(self._history),
        )

    def _primal(self) -> tuple[float, Vector, float]:
        """Objective, w and b (for centred rows) of the kept point, scaled back within the bounds."""
        crew, regulariser = self._problem.crew, self._problem.regulariser
        if not regulariser.is_free:  # and no bounds
            cost = float(total(crew.ask("costs_at", self._v, 1.0)))
            return regulariser.energy(self._v) + cost, self._v[:-1], float(self._v[-1])
        w = regulariser.least(self._v[:-1])
        g = largest_reaches(crew.ask("reach", np.append(w, 0.0)))
        best = within(cheapest_of_blocks(crew.ask, total, w), allowed(g))
        options = []
        # If no intercept brings all outputs within the bounds, the best one may be the worse of both.
        for b in (best, float(self._v[-1])):
            moved = {(low, end): reach - b if low else reach + b for (low, end), reach in g.items()}
            shrink = shrink_of(moved)
            cost = float(total(crew.ask("costs_at", np.append(w, b), shrink)))
            options.append((shrink**2 * regulariser.energy(w) + cost, shrink, b))
        value, shrink, b = min(options)
        return value, shrink * w, shrink * b


class Iterate:
    """A primal-dual point with all products positive.

    tol: the relative gap asked for.
    begins: False if the blocks resume from a log.
    start (m+1,): (w, b) to begin at, if all rows have slack and b is a weight.
    v (m+1,): (w, b).
    """

    def __init__(
        self, problem: Problem, tol: float, *, begins: bool = True, start: Vector | None = None,
        options: Options = DEFAULTS,
    ):  # fmt: skip
        self._problem, self._tol, self._crew, self._options = problem, tol, problem.crew, options
        facts = problem.facts
        mean = facts.costs / (problem.soft * facts.n)
        self._measure = 2.0 * facts.costs + facts.bounds * mean
        self._ease, self._residual, self._is_first, self._size = options.proximal / mean, np.inf, True, 0.0
        self.v = np.zeros(facts.m + 1)
        if begins and start is not None:
            self.v, self._is_first = start.copy(), False
            self._crew.tell("begin_at", mean, self._ease, start, self._start_product(start))
        elif begins:
            self._crew.tell("begin", mean, self._ease)

    def _start_product(self, start: Vector) -> float:
        """Products to begin with at a point, from the gap to the best multiple of its central multipliers.

        The gap is at least `min_start_gap`, that of a central point.
        """
        regulariser, least = self._problem.regulariser, self._options.min_start_gap
        cost = float(total(self._crew.ask("costs_at", start, 1.0)))
        value = regulariser.energy(regulariser.weights(start)) + cost
        unit = value / self._measure
        found = self._crew.ask("pull_at", start, least * unit)
        gain, pulled = float(total([each[0] for each in found])), total([each[1] for each in found])
        conjugate = regulariser.conjugate(regulariser.weights(pulled))
        multiple = min(1.0, 0.5 * gain / max(conjugate, _TINY))
        return max(least, 1.0 - multiple * (gain - multiple * conjugate) / value) * unit

    def known(self) -> dict[str, Any]:
        """State for :meth:`recall`, besides the crew's log."""
        return {
            "v": self.v, "ease": self._ease, "residual": self._residual, "is_first": self._is_first,
            "size": self._size,
        }  # fmt: skip

    def recall(self, known: Mapping[str, Any]) -> None:
        """Resume from this state."""
        self.v, self._ease, self._residual = known["v"], known["ease"], known["residual"]
        self._is_first, self._size = known["is_first"], known["size"]

    def survey(self) -> Survey:
        """Evaluate both objectives, the residuals, and the normal matrix for the next step."""
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
            share = imbalance / max(room, abs(imbalance), _TINY)
            can_repair = abs(imbalance) <= room
        c = regulariser.weights(pulled[:, 0] - share * pulled[:, 1])
        bound = gain - share * fall - regulariser.conjugate(c) if can_repair else -np.inf
        residual = float(np.abs(c - gradient).max(initial=0.0))
        residual /= self._scale(M, gradient, c, objective, size)
        survey = Survey(
            objective=objective,
            bound=bound,
            violation=max(violation, residual, largest / max(multiplier, _TINY)),
            mu=products / self._measure,
            share=share,
            M=M,
            left=pulled[:, 0] - regulariser.widened(gradient),
            push=pulled[:, 2],
        )
        if survey.gap <= self._tol < residual and residual > 0.5 * self._residual:
            self._ease *= self._options.proximal_factor
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
            _TINY,  # for samples that are all alike
        )

    def advance(self, survey: Survey) -> None:
        """Take a step of Mehrotra's predictor and corrector.

        In the first one each sample goes as far as its own boundary lets it: rows stay unmet, but w and the
        multipliers come near to their final values, where a common step would be the shortest of all.

        LinAlgError: the reduced system cannot be factorised.
        """
        system, options = System(self._problem.regulariser, survey.M), self._options
        if self._is_first:
            dv, _, _, _ = self._aim(system, survey, survey.mu, 0.0)
            self._crew.tell("move_apart", options.first_step_share)
            self.v, self._is_first = self.v + dv, False
        else:
            _, length, linear, square = self._turn(system, survey.left + survey.push)
            length = min(length, 1.0)
            left = survey.mu + (length * linear + length**2 * square) / self._measure
            least = options.min_mu_ratio * self._tol * survey.objective / self._measure
            mu = max(left**3 / max(survey.mu**2, _TINY), least)
            dv, length, _, _ = self._aim(system, survey, mu, 1.0)
            length = min(options.step_share * length, 1.0)
            self._crew.tell("move", length)
            self.v = self.v + length * dv
        self._crew.tell("soften", self._ease)

    def _aim(
        self, system: System, survey: Survey, mu: float, second: float
    ) -> tuple[Vector, float, float, float]:
        """Direction towards products of mu, less `second` times the last direction's second-order term."""
        self._crew.tell("aim", mu, second)
        return self._turn(system, survey.left + total(self._crew.ask("balance")))

    def _turn(self, system: System, right: Vector) -> tuple[Vector, float, float, float]:
        """Solve for the change of (w, b); return it, the longest step, and the change of the products."""
        dv = system.solve(right)
        found = self._crew.change("turn", dv)
        linear, square = total([each[1:] for each in found])
        return dv, min(each[0] for each in found), float(linear), float(square)


@dataclass(frozen=True)
class Survey:
    """Objectives, residuals and the normal matrix of an iterate."""

    objective: float  # primal objective, scaled back within the bounds
    bound: float  # dual objective of the repaired multipliers; -inf if they cannot be repaired
    violation: float  # largest residual of the optimality conditions, relative as in a certificate
    mu: float  # mean product of multiplier and slack, per unit of cost
    share: float  # fraction of each multiplier's room that the repair of Σ β_i = 0 takes
    M: Vector  # (m+1, m+1), the normal matrix
    left: Vector  # (m+1,), X'β − Rw, and Σ β_i
    push: Vector  # (m+1,), X'h of the affine-scaling direction, which aims at products of zero

    @property
    def gap(self) -> float:
        """Relative duality gap; infinite if there is no bound."""
        return relative_gap(self.objective, self.bound) if np.isfinite(self.bound) else np.inf


def largest_reaches(found: Iterable[Reaches]) -> Reaches:
    """Largest outputs of all blocks towards each bound."""
    most: Reaches = {}
    for reaches in found:
        for key, reach in reaches.items():
            most[key] = max(reach, most.get(key, -np.inf))
    return most
