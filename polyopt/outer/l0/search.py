"""The L0 support vector machine by the cross-entropy method, from its relaxation to a local optimum.

A fit has three parts. The relaxation, one linear program, bounds every score from below; its α/C, which is
the best σ in [0, 1], is where the probabilities start. The cross-entropy method draws patterns and learns
which centres the elite uses. Flips and swaps of single centres finish (:mod:`polyopt.outer.l0.flips`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.clock import interrupted
from formulations.shown import Shown, Summary, Table
from formulations.solution import Solution, Status
from polyopt.certificates.l0 import score_bound
from polyopt.outer.cross_entropy.method import cross_entropy_minimize
from polyopt.outer.cross_entropy.patterns import with_ties
from polyopt.outer.cross_entropy.run import meets
from polyopt.outer.l0.flips import descend_by_flips
from polyopt.outer.l0.scores import PatternScorer, Work
from polyopt.outer.l0.settings import CrossEntropySettings
from polyopt.outer.starts import TIE
from polyopt.solvers.clock import Clock
from polyopt.solvers.l0.lp import PatternLP
from polyopt.solvers.l0.point import finished
from polyopt.solvers.one_norm import solve_relaxation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.l0_data import L0Data
    from formulations.matrices import Vector
    from polyopt.outer.cross_entropy.method import CrossEntropyResult

    Bits = NDArray[np.bool_]

__all__ = ["L0Search", "round_relaxation", "solve_l0"]

# Bounds of the probabilities that the relaxation gives: no centre is left out, and none is always drawn.
_LEAST, _MOST = 0.05, 0.95
_LOCAL, _NOT_LOCAL = "no other one lowers the score", "that none lowers the score is not proven"
_SHARE = 0.5  # of the time left, that a run may draw patterns for: its flips are worth the other half


@dataclass(frozen=True, repr=False)
class L0Search(Shown):
    """How a pattern was found.

    relaxed: the bound that the relaxation proves of every score.
    rounded: the score of the relaxation's own support: the one-norm machine with the price 1/C, pruned; nan
        without runs.
    runs: each run of the cross-entropy method; none where branch and bound proved its point before.
    scores: the score that each run came to in the end, after its flips.
    moves: flips and swaps made, in all runs.
    is_local_optimum: whether it is proven that no flip and no swap of centres lowers the score of the answer.
    work: programs solved, cut off, spared, and gone wrong.
    """

    relaxed: float
    rounded: float
    runs: tuple[CrossEntropyResult, ...]
    scores: tuple[float, ...]
    moves: int
    is_local_optimum: bool
    work: Work

    @classmethod
    def none(cls, data: L0Data, u: Vector) -> L0Search:
        """No search: the branch and bound proved its point before one was asked for.

        data: the problem.
        u (n,): the relaxation's multipliers.
        """
        relaxed = max(score_bound(data, u / data.C), 0.0)
        return cls(relaxed, np.nan, (), (), 0, is_local_optimum=True, work=Work())

    def _summary(self) -> Summary:
        best = f"{min(self.scores, default=np.nan):.10g}, of {len(self.scores)} runs"
        facts = (
            ("best score", best if self.runs else "none: branch and bound had proved its point before"),
            ("bound", f"{self.relaxed:.10g}, of the relaxation"),
            ("relaxation rounded", f"{self.rounded:.10g}"),
            ("flips and swaps", f"{self.moves}; {_LOCAL if self.is_local_optimum else _NOT_LOCAL}"),
            ("programs", str(self.work)),
        )
        columns = ("run", "drawn", "after flips", "iterations", "patterns", "seconds", "ended")
        pairs = zip(self.runs, self.scores, strict=False)
        rows = tuple(
            (str(number), f"{run.value:.8g}", f"{score:.8g}", str(run.iterations), str(run.evaluations),
             f"{run.seconds:.2f}", run.reason)
            for number, (run, score) in enumerate(pairs, 1)
        )  # fmt: skip
        return Summary("Search for few support vectors", facts, (Table("the runs", columns, rows),))


def solve_l0(
    data: L0Data,
    settings: CrossEntropySettings | None = None,
    *,
    time_limit: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> tuple[Solution, L0Search]:
    """Search for the pattern of least score by the cross-entropy method.

    data: the problem.
    settings: how to search; ``svm_screen`` is the caller's, who leaves columns out of `data`.
    time_limit: seconds, for everything together.
    seed: of the patterns drawn.
    n_jobs: programs solved at once, in threads; the answer does not depend on it.
    progress: called with each record of the history.
    Returns solution: ``alpha`` (p,), ``b``, ``xi`` (n,), ``sigma`` (p,); the multipliers ``margin`` of the
        pattern's program and ``relaxation`` of the relaxation's margins, both (n,); the relaxation's
        ``bound``.
    Returns search: how it was found.
    """
    how = settings or CrossEntropySettings()
    clock = Clock(time_limit)
    relaxation = solve_relaxation(data, time_limit=time_limit)
    screening = how.screening and how.rank == "drawn"
    scorer = PatternScorer(data, screening=screening, n_jobs=n_jobs, clock=clock)
    search = _Search(scorer, relaxation, clock, progress)
    p0 = np.clip(relaxation["sigma"], _LEAST, _MOST) if how.prior == "relaxation" else how.prior
    status = Status.CONVERGED
    try:
        for run in range(how.n_init):
            rng = np.random.default_rng([seed, run])
            ended = search.run(how.flips, p0=p0, random_state=rng, **how.of_a_run)
            status = ended if ended is not Status.CONVERGED else status
            if ended is Status.INTERRUPTED or clock.is_over or search.is_optimal:
                break
    except KeyboardInterrupt:
        status = interrupted()
    solution = _solution(data, search.pattern, relaxation, status, f"cross-entropy ({search})", clock)
    iterations = sum(found.iterations for found in search.found)
    return replace(solution, iterations=iterations, history=tuple(search.history)), search.told()


def round_relaxation(data: L0Data, *, time_limit: float | None = None) -> Solution:
    """The support of the relaxation's coefficients, with the coefficients that are best for it.

    It is the one-norm machine with the price 1/C as a heuristic for the L0 machine: two linear programs.

    Arguments as in :func:`polyopt.solvers.one_norm.solve_relaxation`; the solution as of :func:`solve_l0`.
    """
    clock = Clock(time_limit)
    relaxation = solve_relaxation(data, time_limit=time_limit)
    status = Status.CONVERGED if relaxation.status is Status.SOLVED else relaxation.status
    support = data.support(relaxation["alpha"])
    return _solution(
        data, support, relaxation, status, f"the relaxation, rounded ({relaxation.solver})", clock
    )


class _Search:
    """The runs so far, and the best pattern of all."""

    def __init__(
        self,
        scorer: PatternScorer,
        relaxation: Solution,
        clock: Clock,
        progress: Callable[[dict[str, float]], None] | None,
    ):
        self._scorer, self._relaxation, self._clock, self._progress = scorer, relaxation, clock, progress
        self._bound = float(relaxation.bound or 0.0)
        self.found: list[CrossEntropyResult] = []
        self.history: list[dict[str, float]] = []
        self._scores: list[float] = []
        self._moves, self._is_local_optimum = 0, False
        # The relaxation's point itself is there from the start, so that there always is an answer.
        self._rounded = scorer.data.support(relaxation["alpha"])
        self.pattern, self._score = self._rounded, np.inf

    def run(self, flips: bool, **settings: Any) -> Status:
        """One run of the cross-entropy method, and its flips; how it ended."""
        scorer, clock = self._scorer, self._clock
        limit = clock.left if clock.left is None or not flips else _SHARE * clock.left
        scorer.begin(Clock(limit))
        incumbents = np.stack([self._rounded, np.zeros_like(self._rounded)])
        found = cross_entropy_minimize(
            scorer, len(self._rounded), batch=True, improve=scorer.improve, incumbents=incumbents,
            time_limit=limit, progress=self._tell,
            lower_bound=self._bound, **settings,
        )  # fmt: skip
        self.found.append(found)
        pattern, score = self._rounded, np.inf
        if found.pattern is not None:
            pattern, score = found.pattern, found.value
            self._keep(pattern, score, meets(score, self._bound))
        stopped = found.status is Status.INTERRUPTED or clock.is_over
        if flips and not (stopped or meets(self._score, self._bound)):
            end = descend_by_flips(
                PatternLP(scorer.data), scorer.pool, pattern, clock=clock, work=scorer.work
            )
            self._moves += end.moves
            self._keep(end.pattern, end.score, end.is_local_optimum)
            score = min(score, end.score)
            if end.interrupted:
                found = replace(found, status=Status.INTERRUPTED)
        if np.isfinite(score):
            self._scores.append(score)
        if found.status is Status.INTERRUPTED:
            return found.status
        return Status.TIME_LIMIT if clock.is_over else found.status

    @property
    def is_optimal(self) -> bool:
        """Whether the best score meets the relaxation's bound."""
        return meets(self._score, self._bound)

    def told(self) -> L0Search:
        """The record of the search."""
        rounded = self._scorer.improve(self._rounded, np.inf)
        return L0Search(
            relaxed=float(self._relaxation.bound or 0.0),
            rounded=np.nan if rounded is None else rounded[1],
            runs=tuple(self.found),
            scores=tuple(self._scores),
            moves=self._moves,
            is_local_optimum=self._is_local_optimum,
            work=self._scorer.work,
        )

    def __str__(self) -> str:
        return f"{self._scorer.work}; {self._moves} flips"

    def _keep(self, pattern: Bits, score: float, is_local_optimum: bool = False) -> None:
        if score <= with_ties(self._score):  # a support's own program may differ in the last digit
            self._is_local_optimum = is_local_optimum
            self.pattern, self._score = pattern, score

    def _tell(self, record: dict[str, float]) -> None:
        self.history.append(
            {
                **record,
                "restart": float(len(self.found)),
                "iteration": float(len(self.history) + 1),
                "objective": record["best"],
                "bound": float(self._relaxation.bound or 0.0),
                "seconds": self._clock.seconds,
            }
        )
        if self._progress is not None:
            self._progress(self.history[-1])


def _solution(
    data: L0Data, pattern: Bits, relaxation: Solution, status: Status, solver: str, clock: Clock
) -> Solution:
    """The point of a pattern's program, pruned, with all multipliers."""
    at_the_cap = np.where(pattern, data.C, 0.0)  # any point will do that has this support
    found = finished(
        data, (at_the_cap, 0.0), float(relaxation.bound or 0.0), status, tol=TIE, left=clock.left,
        solver=solver, iterations=relaxation.iterations, build_time=relaxation.build_time,
        solve_time=clock.seconds - relaxation.build_time,
    )  # fmt: skip
    return replace(
        found,
        status=Status.SOLVED if meets(found.objective, float(relaxation.bound or 0.0)) else status,
        duals={**found.duals, "relaxation": relaxation["margin"]},
    )
