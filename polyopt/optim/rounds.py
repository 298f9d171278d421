"""Rounds of a method, one after the other and from many starts: the one loop around faces.

A problem supplies its start and its rounds; the loop keeps the best point, the history and the clock. A
method that changes its problem on the way, as PLUME sharpens its gate, is a sequence of stages, each of which
begins where the last one was best. There are two kinds of problems:

- :class:`AlternatingProblem`: solve for an assignment, reassign, and again. If reassigning never raises the
  objective, and a sample moves only for a strict gain, the objective never rises and the loop ends, because
  there are finitely many assignments.
- :class:`DescentProblem`: steps from faces to faces: successive linear programs (PC-SLP), one convex program
  for each cell (SPLA1, the exact Polyceptron), expectation and maximisation (PLUME).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from formulations.language.arguments import tolerance, whole
from formulations.language.clock import Clock, interrupted, is_out_of_time
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from polyopt.base.parallel import PicklesWithout
from polyopt.base.progress import show, tell
from polyopt.linalg.used_features import present_features
from polyopt.optim.starts import TIE, best_of, generators_of

State = TypeVar("State")
Assignment = NDArray[np.int64]
Faces = NDArray[np.float64]

MIN_REL_DECREASE = 1e-6
"""Relative decrease of the objective that lets a round end with an open gap."""
_STOPPED = (Status.TIME_LIMIT, Status.INTERRUPTED)  # no further round is made after these


@dataclass(frozen=True)
class Round(Generic[State]):
    """The result of a round.

    point: its point; a limit in its status ends the run.
    following: the state from which the next round begins.
    record: entries of the history besides the round's number, the seconds and the objective.
    is_fixed: True if another round would change nothing.
    """

    point: Solution
    following: State
    record: dict[str, float]
    is_fixed: bool = False


class Problem(PicklesWithout, ABC, Generic[State]):
    """The methods that the loop calls; a state is an assignment or faces.

    unit: name of a round in the history.
    """

    unit = "round"

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Return random generators for `count` starts."""
        return generators_of(seed, count)

    @abstractmethod
    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> State:
        """Draw an initial state; improve it if the problem can do that."""

    def judge(self, state: State) -> Round[State] | None:
        """Return the state as a first point; None if a round must come first."""
        return None

    @abstractmethod
    def round(self, state: State, time_limit: float | None) -> Round[State]:
        """Return the next point."""


class AlternatingProblem(Problem[Assignment]):
    """Alternation between an assignment and its faces.

    The state is an assignment (n,), -1 for samples that need none; the solution has it as ``assignment``. It
    is no point before its program is solved.
    """

    @abstractmethod
    def solve(self, assignment: Assignment, time_limit: float | None) -> Solution:
        """Return the optimum for an assignment, its objective evaluated from its point."""

    @abstractmethod
    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Return a better assignment for the point, or the same one."""

    def round(self, state: Assignment, time_limit: float | None) -> Round[Assignment]:
        """Return the optimum for an assignment, and the next assignment."""
        point = self.solve(state, time_limit)
        following = self.reassign(point, state)
        moved = int((following != state).sum())
        record = {"reassigned": float(moved), "occupied": float(len(np.unique(state[state >= 0])))}
        point = replace(point, primal={**point.primal, "assignment": state})
        return Round(point, following, record, is_fixed=moved == 0)


class HeldProblem(Problem[Assignment]):
    """The program of a fixed assignment: one round, which is the last."""

    def __init__(self, problem: Problem[Assignment]):
        self._problem = problem

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Draw an initial assignment."""
        return self._problem.start(rng, time_limit)

    def round(self, state: Assignment, time_limit: float | None) -> Round[Assignment]:
        """Return the optimum for the assignment."""
        return replace(self._problem.round(state, time_limit), following=state, is_fixed=True)


class DescentProblem(Problem[Faces]):
    """Steps from faces to faces; the state is W (K, m+1), bias last.

    The objective is never negative.
    """

    unit = "step"

    @abstractmethod
    def value(self, W: Faces) -> float:
        """Return the objective at W, to be minimised."""

    @abstractmethod
    def step(self, W: Faces, time_limit: float | None) -> Solution:
        """Return the next point: primal ``W``, multipliers if there are any, its objective by :meth:`value`.

        A limit in the status of the step ends the run.
        """

    @abstractmethod
    def record(self, W: Faces) -> dict[str, float]:
        """Return entries of the history besides the objective, such as the number of faces in use."""

    def judge(self, state: Faces) -> Round[Faces] | None:
        """Return the faces as a point; None if only the faces of a step are a point."""
        point = Solution(Status.CONVERGED, {"W": state}, {}, self.value(state), None, "start")
        return Round(point, state, self.record(state))

    def round(self, state: Faces, time_limit: float | None) -> Round[Faces]:
        """Make a step; an objective of 0 is minimal."""
        point = self.step(state, time_limit)
        W = point["W"]
        return Round(point, W, self.record(W), is_fixed=point.objective == 0.0)


def random_faces(X: Matrix, y: Vector, c: Vector, n_faces: int, rng: np.random.Generator) -> Vector:
    """Draw faces W (K, m+1) in random directions, one standard deviation from the mean of the positives.

    Their cells are cones around that mean, so that each face is offered the negatives on its side. They are
    drawn for data scaled with the weights c (n,), so that the units of X, the order of the samples and
    repetition in place of weight make no difference. A feature that is 0 in all samples has no weight.
    """
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler(with_mean=False).fit(X, sample_weight=c).scale_
    directions = rng.normal(size=(X.shape[1], n_faces))
    directions /= np.linalg.norm(directions, axis=0) * scale[:, None]
    directions[~present_features(X)] = 0.0
    inside = np.where(y > 0, c, 0.0)
    middle = np.asarray(X.T @ inside).ravel() / inside.sum()
    return np.column_stack([directions.T, 1.0 - middle @ directions])


@dataclass(frozen=True)
class Stage(Generic[State]):
    """A problem, and the limits of its rounds.

    max_iter: maximal number of rounds.
    tol: relative decrease of the least objective below which a round counts as idle.
    patience: number of idle rounds in a row that end the stage.
    """

    problem: Problem[State]
    max_iter: int = 100
    tol: float = TIE
    patience: int = 1

    def __post_init__(self) -> None:
        whole("max_iter", self.max_iter)
        tolerance(self.tol)
        whole("patience", self.patience)


def run_rounds(
    problem: Problem[State], state: State, *, max_iter: int = 100, tol: float = TIE, patience: int = 1,
    time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Make rounds from one state, an assignment or faces, until they change nothing.

    The first round is always made. The solution is the best point, the start included if it is one.
    ``history`` has a record for each round, numbered from 1, and one numbered 0 for a start that is a point.
    A limit, or Ctrl-C once there is a point, keeps the best.
    """
    return run_stages([Stage(problem, max_iter, tol, patience)], state, time_limit=time_limit)


def run_stages(
    stages: Sequence[Stage[State]], state: State, *, max_iter: int | None = None,
    time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Run one stage after the other, each from the best point of the last, as :func:`run_rounds`.

    max_iter: rounds of all stages together. Once these, or the seconds of `time_limit`, are used up, or after
        Ctrl-C, later stages only evaluate the best point. The status is ITERATION_LIMIT if no round is left
        for the last stage.
    Returns: the best point, its objective evaluated by the last stage that can evaluate a state.
    """
    run = _Run(Clock(time_limit), state, max_iter)
    for stage in stages:
        run.work(stage)
    return run.solution()


def run_from_many_starts(
    stages: Sequence[Stage[State]], *, n_init: int = 10, time_limit: float | None = None, seed: int = 0,
    n_jobs: int | None = None, first: Callable[[float | None], State] | None = None,
    last: Callable[[float | None], State] | None = None,
    max_iter: int | None = None, finish: Callable[[Solution, float | None], Solution] | None = None,
) -> Solution:  # fmt: skip
    """Run the stages from `n_init` random starts of the first stage's problem, and keep the best end.

    time_limit: seconds, for all starts together.
    n_jobs: starts run at once, as joblib counts.
    first, last: return one additional start each, the first and the last, from the seconds left (None for no
        limit).
    max_iter: rounds of all stages together, per start.
    finish: improves the end of each run that was not stopped by time or Ctrl-C, from the run's solution and
        the seconds left.
    Returns: the best run, as :func:`polyopt.optim.starts.best_of`; ``runs`` has all.
    """
    whole("n_init", n_init)
    problem = stages[0].problem
    generators = problem.generators(seed, n_init)

    def run(number: int, time_left: float | None) -> Solution:
        clock, drawn = Clock(time_left), number - (first is not None)
        if first is not None and number == 0:
            state = first(clock.left)
        elif last is not None and drawn == n_init:
            state = last(clock.left)
        else:
            state = problem.start(generators[drawn], clock.left)
        solution = run_stages(stages, state, max_iter=max_iter, time_limit=clock.left)
        if finish is None or solution.status in _STOPPED:
            return solution
        try:
            return finish(solution, clock.left)
        except KeyboardInterrupt:
            return replace(solution, status=interrupted())

    count = (first is not None) + n_init + (last is not None)
    return best_of(run, count, time_limit=time_limit, n_jobs=n_jobs)


class _Run(Generic[State]):
    """One run: its best point, its history, and its status."""

    def __init__(self, clock: Clock, state: State, max_iter: int | None):
        self.clock, self.max_iter = clock, np.inf if max_iter is None else whole("max_iter", max_iter)
        self.best: Solution | None = None
        self.state = state  # the state after the best point
        self.status = Status.ITERATION_LIMIT
        self.rounds_made = 0
        self.history: list[dict[str, float]] = []

    def work(self, stage: Stage[State]) -> None:
        """Run one stage, from the best point so far."""
        problem, state = stage.problem, self.state
        first_point = problem.judge(state)
        if first_point is not None:
            self.best = first_point.point
            if not self.history:
                self._record(problem.unit, first_point)
        if self.status in _STOPPED:
            return
        self.status, idle = Status.ITERATION_LIMIT, 0
        try:
            for _ in range(stage.max_iter):
                if self.rounds_made >= self.max_iter:
                    return
                if self.best is not None and is_out_of_time():
                    self.status = Status.TIME_LIMIT
                    return
                outcome = problem.round(state, self.clock.left)
                state = outcome.following
                self.rounds_made += 1
                self._record(problem.unit, outcome)
                least, value = np.inf if self.best is None else self.best.objective, outcome.point.objective
                idle = 0 if self.best is None or value < least - stage.tol * abs(least) else idle + 1
                # The later of equal points is kept: it has multipliers, and they belong to its assignment.
                if self.best is None or value <= least + TIE * abs(least):
                    self.best, self.state = outcome.point, outcome.following
                ended = self._end(outcome, idle >= stage.patience)
                if ended is not None:
                    self.status = ended
                    return
        except KeyboardInterrupt:
            if self.best is None:
                raise
            self.status = interrupted()

    def solution(self) -> Solution:
        assert self.best is not None
        return replace(
            self.best, status=self.status, iterations=self.rounds_made, solve_time=self.clock.seconds,
            history=tuple(self.history),
        )  # fmt: skip

    def _record(self, unit: str, outcome: Round[State]) -> None:
        record = {
            unit: float(self.rounds_made),
            "seconds": self.clock.seconds,
            "objective": outcome.point.objective,
        }
        self.history.append(record | outcome.record)
        tell(self.history[-1])
        show(self.history[-1], lambda: outcome.point.primal)

    def _end(self, outcome: Round[State], is_idle: bool) -> Status | None:
        """Return the status with which the stage ends here; None if it goes on."""
        status = outcome.point.status
        status_if_settled = Status.CONVERGED if status is Status.SOLVED else status
        if status in (*_STOPPED, Status.ITERATION_LIMIT):
            return status
        if outcome.is_fixed:
            return status_if_settled
        if self.clock.is_over:
            return Status.TIME_LIMIT
        return status_if_settled if is_idle else None
