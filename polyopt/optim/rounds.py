"""The outer loop of all polyhedral methods: rounds (iterations) of a method, from one start or many.

A polyhedral machine has K affine scores, its *faces*, the rows of W (K, m+1), bias last. An *assignment*
gives each sample one of the faces. A :class:`Problem` defines a start and a round from one *state*, an
assignment or faces, to the next; each round returns a *point*: faces with their objective, as a
:class:`~formulations.language.solution.Solution`. :func:`run_rounds` makes rounds and keeps the best point,
the history and the time limit. If a method changes its objective on the way (PLUME sharpens a softmax), the
run is a sequence of stages (:func:`run_stages`), each of which begins at the best point of the stage before.
:func:`run_from_many_starts` makes a run from each start. There are two kinds of problems:

- :class:`AlternatingProblem`: alternating minimisation over faces and assignment. If reassignment never
  increases the objective, and a sample moves only for a strict decrease, the objective is non-increasing and
  the loop ends, because there are finitely many assignments.
- :class:`DescentProblem`: steps from faces to faces: successive linear programs (PC-SLP), one convex program
  for each face's samples (SPLA1, the exact Polyceptron), expectation-maximisation (PLUME).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from threading import get_ident
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from formulations.language.arguments import tolerance, whole
from formulations.language.clock import Clock, interrupted, is_out_of_time
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from polyopt.base.progress import show, tell
from polyopt.linalg.used_features import present_features
from polyopt.optim.starts import TIE, best_of, generators_of

State = TypeVar("State")
Assignment = NDArray[np.int64]
Faces = NDArray[np.float64]

MIN_REL_DECREASE = 1e-6
"""Relative decrease of the objective from which a round may end before its duality gap is closed."""
_STOPPED = (Status.TIME_LIMIT, Status.INTERRUPTED)  # statuses of a round that end the whole run


@dataclass(frozen=True)
class Round(Generic[State]):
    """The result of a round."""

    point: Solution  # the point reached; if its status is a limit, the run ends
    following: State  # state from which the next round begins
    record: dict[str, float]  # entries of the history besides the round's number, seconds and objective
    is_fixed: bool = False  # True if another round would change nothing


class Problem(ABC, Generic[State]):
    """A method's start and its round, on states that are assignments or faces.

    unit: key of the round's number in the history.
    """

    unit = "round"
    _not_pickled: ClassVar[tuple[str, ...]] = ("_program",)  # attributes that each process computes anew

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the attributes in ``_not_pickled``."""
        return {name: value for name, value in vars(self).items() if name not in self._not_pickled}

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Return a random generator for each of `count` starts."""
        return generators_of(seed, count)

    @abstractmethod
    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> State:
        """Draw an initial state; improve it if the problem can do that."""

    def judge(self, state: State) -> Round[State] | None:
        """Return the state with its objective; None if that is known only after a round."""
        return None

    @abstractmethod
    def round(self, state: State, time_limit: float | None) -> Round[State]:
        """Make a round from the state in `time_limit` seconds; return its point and the next state."""


class AlternatingProblem(Problem[Assignment]):
    """Alternation between an assignment and its faces.

    The state is an assignment (n,), with -1 for samples that have constraints at all faces. A round solves
    the program for the assignment, then reassigns the samples. The point has the assignment for which it is
    optimal, not the next one, as ``assignment``.
    """

    @abstractmethod
    def solve(self, assignment: Assignment, time_limit: float | None) -> Solution:
        """Return the optimum for an assignment; its objective is the value at the faces returned."""

    @abstractmethod
    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Return an assignment that is better for the faces of the point, or the same one."""

    def round(self, state: Assignment, time_limit: float | None) -> Round[Assignment]:
        """Return the optimum for the assignment, and the next assignment.

        The record has the number of samples that move, and the number of faces with samples.
        """
        point = self.solve(state, time_limit)
        following = self.reassign(point, state)
        moved = int((following != state).sum())
        record = {"reassigned": float(moved), "occupied": float(len(np.unique(state[state >= 0])))}
        point = replace(point, primal={**point.primal, "assignment": state})
        return Round(point, following, record, is_fixed=moved == 0)


class FixedAssignmentProblem(Problem[Assignment]):
    """The program of a fixed assignment, solved in one round."""

    def __init__(self, problem: Problem[Assignment]):
        self._problem = problem

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Draw an initial assignment."""
        return self._problem.start(rng, time_limit)

    def round(self, state: Assignment, time_limit: float | None) -> Round[Assignment]:
        """Return the optimum for the assignment."""
        return replace(self._problem.round(state, time_limit), following=state, is_fixed=True)


class DescentProblem(Problem[Faces]):
    """Steps from faces to faces; the state is W (K, m+1). The objective is at least 0."""

    unit = "step"

    @abstractmethod
    def value(self, W: Faces) -> float:
        """Return the objective at W, to be minimised."""

    @abstractmethod
    def step(self, W: Faces, time_limit: float | None) -> Solution:
        """Return the next point: primal ``W``, its objective by :meth:`value`, multipliers if there are any.

        If its status is a limit, the run ends.
        """

    @abstractmethod
    def record(self, W: Faces) -> dict[str, float]:
        """Return entries of the history besides the objective, such as the number of faces in use."""

    def judge(self, state: Faces) -> Round[Faces] | None:
        """Return the faces with their objective."""
        point = Solution(Status.CONVERGED, {"W": state}, {}, self.value(state), None, "start")
        return Round(point, state, self.record(state))

    def round(self, state: Faces, time_limit: float | None) -> Round[Faces]:
        """Make a step; at the objective 0, the least possible, the run ends."""
        point = self.step(state, time_limit)
        W = point["W"]
        return Round(point, W, self.record(W), is_fixed=point.objective == 0.0)


def random_faces(X: Matrix, y: Vector, c: Vector, n_faces: int, rng: np.random.Generator) -> Vector:
    """Draw faces W (K, m+1) in random directions, one standard deviation from the mean of the positives.

    The regions in which a face has the least score are cones around that mean, so each face is assigned the
    negatives on its side. The data are standardised with the weights c (n,), so the faces do not depend on
    units of X, and a sample of weight 2 counts as two samples. The faces have 0 at features without entries.
    """
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler(with_mean=False).fit(X, sample_weight=c).scale_
    directions = rng.normal(size=(X.shape[1], n_faces))
    directions /= np.linalg.norm(directions, axis=0) * scale[:, None]
    directions[~present_features(X)] = 0.0
    inside = np.where(y > 0, c, 0.0)
    mean = np.asarray(X.T @ inside).ravel() / inside.sum()
    return np.column_stack([directions.T, 1.0 - mean @ directions])


@dataclass(frozen=True)
class Stage(Generic[State]):
    """A problem, and the limits of its rounds."""

    problem: Problem[State]
    max_iter: int = 100  # maximal number of rounds
    tol: float = TIE  # relative decrease of the least objective below which a round counts as idle
    patience: int = 1  # number of idle rounds in a row that end the stage

    def __post_init__(self) -> None:
        whole("max_iter", self.max_iter)
        tolerance(self.tol)
        whole("patience", self.patience)


def run_rounds(
    problem: Problem[State], state: State, *, max_iter: int = 100, time_limit: float | None = None
) -> Solution:
    """Make rounds from one state until they change nothing, as one :class:`Stage`; return the best point.

    The first round is always made. ``history`` has a record for each round, numbered from 1; if
    :meth:`Problem.judge` evaluates the start, it counts as a point and has the record 0. A limit, or Ctrl-C
    once there is a point, ends the run with the best point.
    """
    return run_stages([Stage(problem, max_iter)], state, time_limit=time_limit)


def run_stages(
    stages: Sequence[Stage[State]], state: State, *, max_iter: int | None = None,
    time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Run the stages in order, as :func:`run_rounds`, each from the best point of the stage before.

    max_iter: largest number of rounds of all stages together. After this limit, the time limit or Ctrl-C, the
        later stages only evaluate the best point. If no round remains for the last stage, the status is
        ITERATION_LIMIT.
    Returns: the best point. Its objective is that of the last stage that made a round or evaluated it
        (:meth:`Problem.judge`).
    """
    run = _Run(Clock(time_limit), state, max_iter)
    for stage in stages:
        run.run_stage(stage)
    return run.solution()


def run_from_many_starts(
    stages: Sequence[Stage[State]], *, n_init: int = 10, time_limit: float | None = None, seed: int = 0,
    n_jobs: int | None = None, first: Callable[[float | None], State] | None = None,
    last: Callable[[float | None], State] | None = None,
    max_iter: int | None = None, finish: Callable[[Solution, float | None], Solution] | None = None,
) -> Solution:  # fmt: skip
    """Run the stages from `n_init` random starts of the first stage's problem, and return the best run.

    time_limit: seconds for all starts together.
    n_jobs: number of parallel runs, as joblib counts.
    first, last: functions that return an additional start, before and after the random starts; their argument
        is the number of seconds left (None for no limit).
    max_iter: largest number of rounds of all stages together, per start.
    finish: a function of a run's solution and the seconds left that returns an improved solution; it is not
        called after a time limit or Ctrl-C.
    Returns: the best run, as :func:`polyopt.optim.starts.best_of`; ``runs`` has all runs.
    """
    whole("n_init", n_init)
    generators = stages[0].problem.generators(seed, n_init)
    home = get_ident()

    def run(number: int, time_left: float | None) -> Solution:
        clock, own = Clock(time_left), stages
        if get_ident() != home:  # problems have a state: joblib's threads need their own
            own = [replace(stage, problem=copy(stage.problem)) for stage in stages]
        random_number = number if first is None else number - 1
        if first is not None and number == 0:
            state = first(clock.left)
        elif last is not None and random_number == n_init:
            state = last(clock.left)
        else:
            state = own[0].problem.start(generators[random_number], clock.left)
        solution = run_stages(own, state, max_iter=max_iter, time_limit=clock.left)
        if finish is None or solution.status in _STOPPED:
            return solution
        try:
            return finish(solution, clock.left)
        except KeyboardInterrupt:
            return replace(solution, status=interrupted())

    count = (first is not None) + n_init + (last is not None)
    return best_of(run, count, time_limit=time_limit, n_jobs=n_jobs)


class _Run(Generic[State]):
    """One run: its best point, its history, and its status.

    best: the best point; None before the first.
    state: the state after the best point, from which the next stage begins.
    status: how the last stage ended.
    """

    def __init__(self, clock: Clock, state: State, max_iter: int | None):
        self.clock, self.max_iter = clock, np.inf if max_iter is None else whole("max_iter", max_iter)
        self.best: Solution | None = None
        self.state = state
        self.status = Status.ITERATION_LIMIT
        self.rounds_made = 0
        self.history: list[dict[str, float]] = []

    def run_stage(self, stage: Stage[State]) -> None:
        """Run one stage, from the best point so far."""
        problem, state = stage.problem, self.state
        start = problem.judge(state)
        if start is not None:  # also revalues the previous stage's best point, by this stage's objective
            self.best = start.point
        try:
            if start is not None and not self.history:
                self._record(problem.unit, start)
            if self.status in _STOPPED:
                return
            self.status, idle = Status.ITERATION_LIMIT, 0
            for _ in range(stage.max_iter):
                if self.rounds_made >= self.max_iter:
                    return
                if self.best is not None and is_out_of_time():
                    self.status = Status.TIME_LIMIT
                    return
                outcome = problem.round(state, self.clock.left)
                state = outcome.following
                self.rounds_made += 1
                value = outcome.point.objective
                least = np.inf if self.best is None else self.best.objective
                idle = 0 if self.best is None or value < least - stage.tol * abs(least) else idle + 1
                # Of equal points the later one is kept, because it has multipliers for its assignment.
                if self.best is None or value <= least + TIE * abs(least):
                    self.best, self.state = outcome.point, outcome.following
                self._record(problem.unit, outcome)
                status = self._final_status(outcome, idle >= stage.patience)
                if status is not None:
                    self.status = status
                    return
        except KeyboardInterrupt:
            if self.best is None:
                raise
            self.status = interrupted()

    def solution(self) -> Solution:
        """Return the best point, with the status and the history of the run."""
        assert self.best is not None
        return replace(
            self.best, status=self.status, iterations=self.rounds_made, solve_time=self.clock.seconds,
            history=tuple(self.history),
        )  # fmt: skip

    def _record(self, unit: str, outcome: Round[State]) -> None:
        """Add a record to the history, and send it with the point to the receivers of progress."""
        record = {
            unit: float(self.rounds_made),
            "seconds": self.clock.seconds,
            "objective": outcome.point.objective,
        }
        self.history.append(record | outcome.record)
        tell(self.history[-1])
        show(self.history[-1], lambda: outcome.point.primal)

    def _final_status(self, outcome: Round[State], is_idle: bool) -> Status | None:
        """Return the status if the stage ends after this round, else None.

        The run has converged, although each round solves its program to optimality (SOLVED): the last point
        is a local optimum.
        """
        status = outcome.point.status
        status_at_end = Status.CONVERGED if status is Status.SOLVED else status
        if status in (*_STOPPED, Status.ITERATION_LIMIT):
            return status
        if outcome.is_fixed:
            return status_at_end
        if self.clock.is_over:
            return Status.TIME_LIMIT
        return status_at_end if is_idle else None
