"""Rounds of a method, one after the other and from many starts: the one loop around faces.

A problem supplies its start and its rounds; the loop keeps the best point, the history and the clock. The
problems are of two kinds: alternation between an assignment and faces (:mod:`polyopt.optim.alternating`), and
steps from faces to faces (:mod:`polyopt.optim.descent`). A method that changes its problem on the way, as
PLUME sharpens its gate, is a sequence of stages, each of which begins where the last one was best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from formulations.language.arguments import tolerance, whole
from formulations.language.clock import Clock, interrupted, is_out_of_time
from formulations.language.solution import Solution, Status
from polyopt.base.progress import show, tell
from polyopt.optim.starts import TIE, best_of

__all__ = ["Problem", "Round", "Stage", "run_from_many_starts", "run_rounds", "run_stages"]

State = TypeVar("State")

_LIMITS = (Status.TIME_LIMIT, Status.ITERATION_LIMIT, Status.INTERRUPTED)
_STOPPED = (Status.TIME_LIMIT, Status.INTERRUPTED)  # after which no further round is made


@dataclass(frozen=True)
class Round(Generic[State]):
    """What a round leaves.

    point: its point. A limit in its status ends the run.
    following: where the next round begins.
    record: what the history records of it, besides its number, the seconds and the objective.
    is_fixed: whether another round would bring nothing.
    """

    point: Solution
    following: State
    record: dict[str, float]
    is_fixed: bool = False


class Problem(Protocol[State]):
    """What the loop asks of a problem, whose state is an assignment or faces."""

    @property
    def unit(self) -> str:
        """What a round is called in the history."""

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness for `count` starts."""

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> State:
        """A random state to begin from, improved where the problem can do that."""

    def judge(self, state: State) -> Round[State] | None:
        """The state as a point to be improved; None where a round must come first."""

    def round(self, state: State, time_limit: float | None) -> Round[State]:
        """The next point."""


@dataclass(frozen=True)
class Stage(Generic[State]):
    """A problem, and how many rounds it gets.

    problem: the problem.
    max_iter: rounds at most.
    tol: A round that lowers the least objective by no more than this, relative, brings nothing.
    patience: rounds in a row that may bring nothing before the stage has settled.
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
    problem: Problem[State],
    state: State,
    *,
    max_iter: int = 100,
    tol: float = TIE,
    patience: int = 1,
    time_limit: float | None = None,
) -> Solution:
    """Make rounds from one state until they bring nothing.

    problem: the problem.
    state: where to begin: an assignment or faces.
    time_limit: seconds. The first round is always made.
    Returns: the best point, the start among them where it is one. ``history`` has a record for each round,
        numbered from 1, and one numbered 0 for a start that is a point. A limit, or Ctrl-C once there is a
        point, keeps the best.
    """
    return run_stages([Stage(problem, max_iter, tol, patience)], state, time_limit=time_limit)


def run_stages(
    stages: Sequence[Stage[State]],
    state: State,
    *,
    max_iter: int | None = None,
    time_limit: float | None = None,
) -> Solution:
    """Work at one stage after the other, each from where the last one was best.

    stages: at least one. The answer's objective is of the last one that judges a state; after the time is
        over or Ctrl-C, later stages judge the best point and make no rounds.
    state: where the first stage begins.
    max_iter: rounds of all stages together; later stages then judge the best point and make no rounds.
    time_limit: seconds for all of them.
    Returns: as of :func:`run_rounds`; ``history`` goes on from stage to stage. The status is ITERATION_LIMIT
        if `max_iter` left the last stage no round.
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
    """Run the stages from several random starts, and keep the best end.

    stages: at least one; the first one's problem makes the starts.
    n_init: number of starts.
    time_limit: seconds, for all starts together. The first round of the first start is always made.
    seed: of the starts.
    n_jobs: starts run at once, as joblib counts.
    first, last: give one start more each, the first and the last, from the seconds left (None for no limit).
    max_iter: rounds of all stages together, per start.
    finish: improves the end of each run that neither the time limit nor Ctrl-C stopped, from the run's
        solution and the seconds left.
    Returns: the best of the runs, as :func:`polyopt.optim.starts.best_of` keeps it; ``runs`` has them all.
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
        found = run_stages(stages, state, max_iter=max_iter, time_limit=clock.left)
        if finish is None or found.status in _STOPPED:
            return found
        try:
            return finish(found, clock.left)
        except KeyboardInterrupt:
            return replace(found, status=interrupted())

    count = (first is not None) + n_init + (last is not None)
    return best_of(run, count, time_limit=time_limit, n_jobs=n_jobs)


class _Run(Generic[State]):
    """One run: its best point, how it came there, and why it ended."""

    def __init__(self, clock: Clock, state: State, max_iter: int | None):
        self.clock, self.max_iter = clock, np.inf if max_iter is None else whole("max_iter", max_iter)
        self.best: Solution | None = None
        self.state = state  # where a round from the best point begins
        self.status = Status.ITERATION_LIMIT
        self.made = 0
        self.history: list[dict[str, float]] = []

    def work(self, stage: Stage[State]) -> None:
        """One stage, from the best point so far."""
        problem, state = stage.problem, self.state
        judged = problem.judge(state)
        if judged is not None:
            self.best = judged.point
            if not self.history:
                self._note(problem.unit, judged)
        if self.status in _STOPPED:
            return
        self.status, waited = Status.ITERATION_LIMIT, 0
        try:
            for _ in range(stage.max_iter):
                if self.made >= self.max_iter:
                    return
                if self.best is not None and is_out_of_time():
                    self.status = Status.TIME_LIMIT
                    return
                found = problem.round(state, self.clock.left)
                state = found.following
                self.made += 1
                self._note(problem.unit, found)
                waited = 0 if self._falls(found.point, stage.tol) else waited + 1
                self._keep(found)
                ended = self._end(found, waited >= stage.patience)
                if ended is not None:
                    self.status = ended
                    return
        except KeyboardInterrupt:
            if self.best is None:
                raise
            self.status = interrupted()

    def solution(self) -> Solution:
        """The best point, with what the run took."""
        assert self.best is not None
        return replace(
            self.best,
            status=self.status,
            iterations=self.made,
            solve_time=self.clock.seconds,
            history=tuple(self.history),
        )

    def _note(self, unit: str, found: Round[State]) -> None:
        """Record a round under its number, and a start that is a point under the number 0."""
        self.history.append(
            {
                unit: float(self.made),
                "seconds": self.clock.seconds,
                "objective": found.point.objective,
                **found.record,
            }
        )
        tell(self.history[-1])
        show(self.history[-1], lambda: found.point.primal)

    def _falls(self, point: Solution, tol: float) -> bool:
        least = None if self.best is None else self.best.objective
        return least is None or point.objective < least - tol * abs(least)

    def _keep(self, found: Round[State]) -> None:
        """Of equal points the later: it has its multipliers, and belongs to its own assignment."""
        least = np.inf if self.best is None else self.best.objective
        if self.best is None or found.point.objective <= least + TIE * abs(least):
            self.best, self.state = found.point, found.following

    def _end(self, found: Round[State], has_settled: bool) -> Status | None:
        """Why the stage ends here; None where it goes on."""
        status = found.point.status
        settled = Status.CONVERGED if status is Status.SOLVED else status
        if status in _LIMITS:
            return status
        if found.is_fixed:
            return settled
        if self.clock.is_over:
            return Status.TIME_LIMIT
        return settled if has_settled else None
