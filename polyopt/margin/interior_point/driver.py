"""The driver of the interior-point method: its loop, the best points so far, and the step between iterates.

Read :func:`solve_problem`, the loop; :class:`Iterate`, which measures an iterate (:class:`Survey`) and takes
a step of Mehrotra's predictor-corrector method; and :class:`_Best`, the best points and the final solution.

The program is min ½ w'Rw + costs of slack of the outputs f_i = w'x_i + b. Each multiplier z is complementary
to a slack t, and at most its cap, the cost of a unit of slack. β_i is the sum of the multipliers of sample i,
each with the sign of its constraint. Linearising z t = mu cap, with the barrier parameter mu, and eliminating
the slacks gives dβ_i = h_i − d_i df_i, where d_i ≥ 0 and h_i depend on the iterate, and h_i on mu as well.
So v = (w, b), with R extended to v and a 1 appended to each x_i, changes by dv:

    (M + R) dv = X'β − Rv + X'h,    M = X' diag(d) X.

Samples are in blocks (``block``), and a crew (:mod:`polyopt.scale.crew`) calls a method of every block:
``ask`` a method that only reads, and returns the list of results; ``tell`` a method that changes the blocks;
``change`` such a method with results. :func:`total` sums a list of results. The blocks' ``set_rhs`` sets the
right-hand sides of the linearised z t = mu cap, ``set_direction`` the changes of multipliers and slacks for a
dv.

Feasibility. A point whose outputs exceed the bounds ±B (of the Relative Margin Machine) is scaled by `shrink`
for its primal objective. If b is free, the dual constraint Σ β_i = 0 is restored for the dual objective (the
repair): every β_i falls by the same fraction, of either sign, of its room, a change for which its multipliers
stay within [0, cap]. The gap between the two objectives ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from formulations.families import Families, Reaches, clipped_midpoint, feasible_intercepts, shrink_of
from formulations.language.arguments import tolerance, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from polyopt.base.progress import show, tell
from polyopt.certificates.certificate import relative_gap
from polyopt.margin import certificate
from polyopt.margin.interior_point.intercept import best_intercept_interval
from polyopt.margin.interior_point.problem import Problem, System, order_families, read_problem
from polyopt.scale.crew import total

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Options:
    """Limits and tolerances of the interior-point method."""

    max_iter: int = 200  # largest number of iterations; twenty to forty are usual
    max_idle: int = 12  # iterations in a row with gap, violation and mu above 0.9 of the least so far
    max_idle_closed: int = 6  # such iterations once the gap is closed, that is within `tol`
    max_inaccurate_gap: float = 1e-3  # relative gap above which a run that rounding ended is STALLED
    first_step_fraction: float = 0.9  # first step of a sample, relative to the largest one feasible for it
    step_fraction: float = 0.99  # later steps, relative to the largest one that is feasible for all samples
    min_mu_ratio: float = 0.05  # lower limit of mu, relative to its value at a gap of `tol`
    min_start_gap: float = 0.1  # least relative gap of a warm start, from which its mu is computed
    dual_reg: float = 1e-9  # dual regularisation times the mean cap
    dual_reg_factor: float = 3.0  # growth of dual_reg if the gap is closed and the residual is rounding
    terms_floor: float = 3e-9  # least scale of a residual of Rw = X'β, relative to the terms of X'β
    max_violation_ratio: float = 0.5  # largest final violation relative to `tol`; a certificate may add to it


DEFAULTS = Options()


def solve_interior_point(
    X: Matrix, rows: Families, *, D: float | None = None, weights: ArrayLike | None = None,
    tol: float = 1e-8, max_iter: int | None = None, time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Solve a linear hinge-type machine by a primal-dual interior-point method: SVM, Sigma-SVM, RMM.

    Memory: about 58 numbers per sample with the RMM's bounds, 33 without; a block of rows; and matrices of
    size m, which should not be much above a thousand.

    X: samples, an array or CSR; float32 and CSR are not copied.
    rows: the families of constraints, such as ``hinge_families(y, C, B)`` with B > 0 and both classes.
    D: weight of the output variance in the regulariser of the Sigma-SVM, within [0, 1].
    weights (n,): weights of the samples in the Sigma-SVM's mean and covariance, positive.
    tol: relative tolerance of the duality gap, and of the residuals of the optimality conditions.

    In the solution, ``primal`` has ``w`` (m,) and ``b`` (for centred samples, if D is given), which satisfy
    the bounds, and ``duals`` has feasible multipliers. At D = 1 with a singular covariance w has the least
    norm. ``history`` has both objectives of the best points and the largest relative residual (violation). If
    rounding ends the run, the status is INACCURATE, or STALLED for a relative gap above 1e-3.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    max_iter = whole_or_none("max_iter", max_iter)
    problem = read_problem(X, rows, D, weights)
    solution = solve_problem(problem, tol, max_iter, clock)
    (Z,) = problem.crew.ask("multipliers")  # a single block has all samples
    return replace(solution, duals=order_families(rows)[0].named(Z))


def solve_problem(
    problem: Problem, tol: float, max_iter: int | None, clock: Clock,
    save: Callable[[dict[str, Any]], None] | None = None, state: Mapping[str, Any] | None = None,
    start: Vector | None = None, options: Options = DEFAULTS,
) -> Solution:  # fmt: skip
    """Solve a program whose samples are in blocks; the multipliers stay with the blocks.

    tol, max_iter: as in :func:`solve_interior_point`.
    save: called after every iteration with the state of the loop, which resumes a run with the crew's log.
    state: a state that was passed to `save`, to resume from; the crew then has the log.
    start (m+1,): a warm start (w, b), as in :class:`Iterate`.
    """
    best = _Best(problem, tol, clock, options)
    iterate = Iterate(problem, tol, is_new=state is None, start=start, options=options)
    least = np.full(3, np.inf)  # least gap, violation and mu so far
    idle = iteration = 0  # iterations in a row without a decrease of these, and all iterations
    if state is not None:
        least, idle, iteration = state["loop"]
        vars(iterate).update(state["iterate"])
        vars(best).update(state["best"])
    limit = options.max_iter if max_iter is None else max_iter

    def run() -> Status:
        nonlocal least, idle, iteration
        while True:
            survey = iterate.survey()
            best.update(iterate, survey)
            if survey.gap <= tol and survey.violation <= options.max_violation_ratio * tol:
                return Status.SOLVED
            measures = np.array([survey.gap, survey.violation, survey.mu])
            idle = 0 if (measures < 0.9 * least).any() else idle + 1
            least = np.minimum(least, measures)
            max_idle = options.max_idle_closed if best.is_closed else options.max_idle
            if idle > max_idle or np.isnan(measures).any():  # rounding prevents progress
                return Status.SOLVED if best.violation <= tol else Status.INACCURATE
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
                save({
                    "loop": (least, idle, iteration), "iterate": _state_of(iterate), "best": _state_of(best),
                })  # fmt: skip

    try:
        status = run()
    except KeyboardInterrupt:
        status = interrupted()
    return best.solution(status)


def _state_of(part: _Best | Iterate) -> dict[str, Any]:
    """Return a copy of the attributes that change from one iteration to the next."""
    return {name: copy(getattr(part, name)) for name in part.changing}


class _Best:
    """The history of a run, and the best primal point and multipliers so far.

    Until some iterate has a gap within `tol` (a closed gap), the point of least objective and the multipliers
    of largest bound are stored, perhaps of two iterates. From then on, both are those of the iterate with the
    least violation among the iterates with a closed gap.

    violation: this least violation; infinite until the gap is closed.
    """

    changing = ("_objective", "_v", "_bound", "violation", "_history")

    def __init__(self, problem: Problem, tol: float, clock: Clock, options: Options):
        self._clock, self.violation, self._options = clock, np.inf, options
        self._problem, self._tol = problem, tol
        self._v = np.zeros(problem.facts.m + 1)  # zeros are feasible for both programs
        self._objective = float(total(problem.crew.ask("costs_at", self._v, 1.0)))
        self._bound, self._history = 0.0, list[dict[str, float]]()

    @property
    def is_closed(self) -> bool:
        """True if some iterate had a closed gap."""
        return self.violation < np.inf

    def update(self, iterate: Iterate, survey: Survey) -> None:
        """Store the iterate's point and multipliers if they are better, and add a record to the history."""
        is_best = survey.gap <= self._tol and survey.violation < self.violation
        if is_best or (survey.objective < self._objective and not self.is_closed):
            self._objective, self._v = survey.objective, iterate.v.copy()
        if is_best or (survey.bound > self._bound and not self.is_closed):
            self._bound = survey.bound
            self._problem.crew.tell("store_best", survey.repair_fraction)
        if is_best:
            self.violation = survey.violation
        record = {
            "iteration": float(len(self._history)), "seconds": self._clock.seconds,
            "violation": survey.violation, "objective": self._objective, "bound": self._bound,
        }  # fmt: skip
        self._history.append(record)
        tell(record)
        show(record, self._best_weights)

    def _best_weights(self) -> dict[str, Vector]:
        """Return the best weights and intercept, for samples that are not centred: ``w`` (m+1,)."""
        w = self._v[:-1]
        return {"w": np.append(w, self._v[-1] - float(self._problem.shift @ w))}

    def solution(self, status: Status) -> Solution:
        """Return the best points, made exactly feasible, with the best intercept if it is free."""
        problem, crew = self._problem, self._problem.crew
        objective, w, b = self._feasible_primal()
        if problem.regulariser.is_free:
            # The best multipliers are repaired once more: Σ β_i may differ from 0 by rounding.
            room_sum, imbalance = (float(value) for value in total(crew.ask("balance_sums")))
            crew.tell("balance_best", imbalance / room_sum if room_sum > 0 else 0.0)
        terms = crew.ask("dual_terms")
        gain, sums = float(total([term[0] for term in terms])), total([term[1] for term in terms])
        bound = gain - problem.regulariser.conjugate(problem.regulariser.weights(sums))
        gap = relative_gap(objective, bound)  # perhaps larger than before the points were made feasible
        if status is Status.SOLVED and not gap <= max(10.0 * self._tol, 1e-7):
            status = Status.INACCURATE
        if status is Status.INACCURATE and gap > self._options.max_inaccurate_gap:
            status = Status.STALLED
        return Solution(
            status=status,
            primal={"w": w, "b": np.array(b if problem.is_centred else b - float(problem.shift @ w))},
            duals={}, objective=objective, bound=bound, solver="interior-point",
            iterations=max(len(self._history) - 1, 0), solve_time=self._clock.seconds,
            history=tuple(self._history),
        )  # fmt: skip

    def _feasible_primal(self) -> tuple[float, Vector, float]:
        """Return objective, w and b (for centred samples) of the best point, scaled to satisfy the bounds."""
        crew, regulariser = self._problem.crew, self._problem.regulariser
        if not regulariser.is_free:  # b is a weight, and there are no bounds
            cost = float(total(crew.ask("costs_at", self._v, 1.0)))
            return regulariser.energy(self._v) + cost, self._v[:-1], float(self._v[-1])
        w = regulariser.min_norm(self._v[:-1])
        reaches = largest_reaches(crew.ask("reaches", np.append(w, 0.0)))
        best_b = clipped_midpoint(best_intercept_interval(crew.ask, total, w), feasible_intercepts(reaches))
        candidates = []  # objective, scale and intercept before scaling
        # If no intercept brings all outputs within the bounds, the iterate's own may be better after scaling.
        for b in (best_b, float(self._v[-1])):
            # An intercept b adds −b to the largest −f, for a lower bound on f, and b to the largest f.
            shifted = {
                (is_lower, limit): reach - b if is_lower else reach + b
                for (is_lower, limit), reach in reaches.items()
            }
            shrink = shrink_of(shifted)
            cost = float(total(crew.ask("costs_at", np.append(w, b), shrink)))
            candidates.append((shrink**2 * regulariser.energy(w) + cost, shrink, b))
        objective, shrink, b = min(candidates)
        return objective, shrink * w, shrink * b


class Iterate:
    """The primal-dual iterate, with all complementarity products positive.

    tol: the requested relative gap.
    is_new: False if the blocks resume from a log.
    start (m+1,): a warm start (w, b), if all constraints have slack and b is a weight.
    v (m+1,): (w, b).
    """

    changing = ("v", "_dual_reg", "_residual", "_is_first", "_feature_size")

    def __init__(
        self, problem: Problem, tol: float, *, is_new: bool = True, start: Vector | None = None,
        options: Options = DEFAULTS,
    ):  # fmt: skip
        self._problem, self._tol, self._crew, self._options = problem, tol, problem.crew, options
        facts = problem.facts
        # facts.costs: sum of the caps; facts.bounds: number of constraints without slack.
        # problem.soft: number of families of constraints with slack.
        mean_cap = facts.costs / (problem.soft * facts.n)
        # Sum of the caps of all complementarity products: two for a constraint with slack, else one.
        self._cap_sum = 2.0 * facts.costs + facts.bounds * mean_cap
        self._dual_reg = options.dual_reg / mean_cap
        self._residual = np.inf  # relative residual of stationarity, Rw = X'β, at the last iterate
        self._is_first = True  # the next step is the first
        self._feature_size = 0.0  # size of the largest feature, once it is estimated
        self.v = np.zeros(facts.m + 1)
        if is_new and start is not None:
            self.v, self._is_first = start.copy(), False
            self._crew.tell("begin_at", mean_cap, self._dual_reg, start, self._start_barrier(start))
        elif is_new:
            self._crew.tell("begin", mean_cap, self._dual_reg)

    def _start_barrier(self, start: Vector) -> float:
        """Return the barrier parameter of a warm start: (objective − dual value) / `_cap_sum`.

        The dual value is that of c times the central multipliers for `start`: c gain − c² conjugate, largest
        at c = gain / (2 conjugate), with c at most 1. The relative gap is taken as `min_start_gap` at least.
        """
        regulariser, min_gap = self._problem.regulariser, self._options.min_start_gap
        cost = float(total(self._crew.ask("costs_at", start, 1.0)))
        objective = regulariser.energy(regulariser.weights(start)) + cost
        mean_product = objective / self._cap_sum
        terms = self._crew.ask("central_dual", start, min_gap * mean_product)
        gain, sums = float(total([term[0] for term in terms])), total([term[1] for term in terms])
        conjugate = regulariser.conjugate(regulariser.weights(sums))
        c = min(1.0, 0.5 * gain / max(conjugate, _TINY))
        return max(min_gap, 1.0 - c * (gain - c * conjugate) / objective) * mean_product

    def survey(self) -> Survey:
        """Measure the iterate, and set the blocks' right-hand sides for the affine-scaling step (mu = 0)."""
        regulariser = self._problem.regulariser
        self._crew.tell("set_rhs", 0.0, 0.0)
        parts = self._crew.ask("survey")
        scalars = total(
            [[part.gain, part.gain_decrease, part.products, part.size, part.cost] for part in parts]
        )
        gain, gain_decrease, products, beta_sum, cost = (float(value) for value in scalars)
        maxima = np.max([[part.largest, part.multiplier, part.violation] for part in parts], axis=0)
        largest_product, largest_multiplier, violation = (float(value) for value in maxima)
        M, sums = total([part.M for part in parts]), total([part.sums for part in parts])
        # The columns of `sums` are X' times β, the rooms of all β_i, and h.
        w = regulariser.weights(self.v)
        gradient = regulariser.gradient(w)
        shrink = shrink_of(largest_reaches(part.reaches for part in parts))
        if shrink < 1.0:
            cost = float(total(self._crew.ask("costs", shrink)))
        objective = shrink**2 * regulariser.energy(w) + cost
        # Repair: Σ (β_i − fraction room_i) = 0, possible if |fraction| ≤ 1.
        fraction, can_repair = 0.0, True
        if regulariser.is_free:
            imbalance, room_sum = float(sums[-1, 0]), float(sums[-1, 1])
            fraction = imbalance / max(room_sum, abs(imbalance), _TINY)
            can_repair = abs(imbalance) <= room_sum
        c = regulariser.weights(sums[:, 0] - fraction * sums[:, 1])
        bound = -np.inf
        if can_repair:
            bound = gain - fraction * gain_decrease - regulariser.conjugate(c)
        stationarity = float(np.abs(c - gradient).max(initial=0.0))
        stationarity /= self._scale(M, gradient, c, objective, beta_sum)
        return Survey(
            objective=objective, bound=bound, stationarity=stationarity,
            violation=max(violation, stationarity, largest_product / max(largest_multiplier, _TINY)),
            mu=products / self._cap_sum, repair_fraction=fraction, M=M,
            residual=sums[:, 0] - regulariser.widened(gradient), affine_rhs=sums[:, 2],
        )  # fmt: skip

    def _scale(self, M: Vector, gradient: Vector, c: Vector, objective: float, beta_sum: float) -> float:
        """Return the scale of the residual of Rw = X'β, which is that of a certificate or a little less.

        It is less if the size of the largest feature is underestimated, from the first M: the root mean
        square of a feature with weights d.
        """
        if not self._feature_size:
            deviation = np.sqrt(M.diagonal()[:-1] / M[-1, -1])
            self._feature_size = float((deviation + np.abs(self._problem.shift)).max(initial=0.0))
        unit = self._problem.regulariser.unit
        return max(
            float(np.abs(gradient).max(initial=0.0)),
            float(np.abs(c).max(initial=0.0)),
            self._options.terms_floor * self._feature_size * beta_sum,
            certificate.OPTIONS.gradient_floor * unit * float(np.sqrt(2.0 * objective)),
            _TINY,  # not 0 even if all samples are equal
        )

    def advance(self, survey: Survey) -> None:
        """Take a step of Mehrotra's predictor-corrector method.

        In the first step, each sample has a step length of its own, because a common step would be the
        shortest of all. Constraints remain violated, but w and the multipliers come near their final values.

        LinAlgError: the reduced system cannot be factorised.
        """
        # Once the gap is closed, a residual that no longer halves is rounding.
        if survey.gap <= self._tol < survey.stationarity and survey.stationarity > 0.5 * self._residual:
            self._dual_reg *= self._options.dual_reg_factor
        self._residual = survey.stationarity
        system, options = System(self._problem.regulariser, survey.M), self._options
        if self._is_first:
            dv = self._set_newton_step(system, survey, survey.mu, is_corrector=False).dv
            self._crew.tell("move_apart", options.first_step_fraction)
            self.v, self._is_first = self.v + dv, False
        else:
            # Predictor: the mean product after the affine-scaling step determines the next mu.
            step = self._set_step(system, survey.residual + survey.affine_rhs)
            length = min(step.max_length, 1.0)
            affine_mu = survey.mu + (length * step.linear + length**2 * step.square) / self._cap_sum
            min_mu = options.min_mu_ratio * self._tol * survey.objective / self._cap_sum
            mu = max(affine_mu**3 / max(survey.mu**2, _TINY), min_mu)
            # Corrector.
            step = self._set_newton_step(system, survey, mu, is_corrector=True)
            length = min(options.step_fraction * step.max_length, 1.0)
            self._crew.tell("move", length)
            self.v = self.v + length * step.dv
        self._crew.tell("set_dual_reg", self._dual_reg)

    def _set_newton_step(self, system: System, survey: Survey, mu: float, *, is_corrector: bool) -> _Step:
        """Set the step for the barrier parameter mu; the corrector has the last step's dz dt as well."""
        self._crew.tell("set_rhs", mu, float(is_corrector))
        return self._set_step(system, survey.residual + total(self._crew.ask("newton_rhs")))

    def _set_step(self, system: System, rhs: Vector) -> _Step:
        """Solve the reduced system, and set the changes of multipliers and slacks in all blocks."""
        dv = system.solve(rhs)
        parts = self._crew.change("set_direction", dv)  # by block: the other fields of a _Step
        linear, square = total([part[1:] for part in parts])
        return _Step(dv, min(part[0] for part in parts), float(linear), float(square))


class _Step(NamedTuple):
    """A full step. After a part a of it, Σ z t has changed by a linear + a² square."""

    dv: Vector  # change of (w, b)
    max_length: float  # fraction a of the step at which the first multiplier or slack is 0
    linear: float  # Σ (z dt + t dz)
    square: float  # Σ dz dt


@dataclass(frozen=True)
class Survey:
    """Objectives and residuals of an iterate, and the terms of its reduced Newton system."""

    objective: float  # primal objective, scaled back within the bounds
    bound: float  # dual objective of the repaired multipliers; -inf if they cannot be repaired
    violation: float  # largest residual of the optimality conditions, relative as in a certificate
    stationarity: float  # relative residual of Rw = X'β
    mu: float  # mean product z t per unit of cap: the barrier parameter of the iterate
    repair_fraction: float  # decrease of each β_i in the repair, relative to its room
    M: Vector  # (m+1, m+1), X' diag(d) X
    residual: Vector  # (m+1,), X'β − Rw, followed by Σ β_i if b is free
    affine_rhs: Vector  # (m+1,), X'h of the affine-scaling direction, with barrier parameter 0

    @property
    def gap(self) -> float:
        """Relative duality gap; infinite if there is no bound."""
        return relative_gap(self.objective, self.bound) if np.isfinite(self.bound) else np.inf


def largest_reaches(blocks: Iterable[Reaches]) -> Reaches:
    """Return the largest reach of each bound ±B: the largest f for an upper bound, −f for a lower one."""
    largest: Reaches = {}
    for reaches in blocks:
        for key, output in reaches.items():
            largest[key] = max(output, largest.get(key, -np.inf))
    return largest
