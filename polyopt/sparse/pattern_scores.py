"""Scores of patterns of the L0 machine for the cross-entropy method: in batches, screened, in parallel.

A pattern σ selects the centres that may be used; L(σ) is its least hinge loss, a linear program, and
S(σ) = 1'σ + C L(σ) its score. Every solution gives a cut, a lower bound on L at all patterns
(:class:`polyopt.sparse.pattern_lp.CutPool`). If the cuts prove that S(σ) is above the threshold, the program
is not solved (the pattern is *screened*); other programs are solved only until their dual value proves it.
"""

from dataclasses import asdict, dataclass

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from formulations.l0_data import L0Data
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.types import Vector
from polyopt.optim.cross_entropy import kth_least, with_ties
from polyopt.sparse.pattern_lp import OPTIONS, CutPool, PatternLP, PatternSolution

Bits = NDArray[np.bool_]
Rows = NDArray[np.intp]


@dataclass
class Work:
    """Numbers of programs."""

    programs: int = 0  # linear programs started, including those of the batches' means
    cut_off: int = 0  # programs that ended with a proof that the pattern is not elite
    screened: int = 0  # patterns without a program, because known cuts prove that they are not elite
    timed_out: int = 0  # programs that the time limit stopped; their scores are infinite
    failed: int = 0  # programs that HiGHS could not solve, likewise

    def count(self, solution: PatternSolution) -> None:
        """Add one program."""
        self.programs += 1
        self.cut_off += solution.status is Status.CUT_OFF
        self.timed_out += solution.status is Status.TIME_LIMIT
        self.failed += solution.status is Status.FAILED

    def __str__(self) -> str:
        return ", ".join(
            f"{number} {name.replace('_', ' ')}" for name, number in asdict(self).items() if number
        )


class PatternScorer:
    """Scores batches of patterns, for ``cross_entropy_minimize(batch=True)``.

    n_jobs: threads, each with its own model, as joblib counts. The scores do not depend on it.
    clock: when time is up, the remaining patterns have no score.
    """

    def __init__(self, data: L0Data, *, n_jobs: int | None, clock: Clock):
        self.data, self.work, self.pool = data, Work(), CutPool(data)
        self._clock = clock
        threads = min(effective_n_jobs(n_jobs), OPTIONS.patterns_per_look)
        self._models = [PatternLP(data) for _ in range(threads)]
        self._supports: dict[bytes, tuple[bytes, float]] = {}  # support and score of each solved pattern
        # A pattern is always solved from the mean of the batch in which it was first drawn, so that screening
        # does not change which of several optima is found.
        self._batch_of: dict[bytes, int] = {}  # of the screened patterns
        self._batches: list[Bits] = []

    def begin(self, clock: Clock) -> None:
        """Start a run, in which all patterns are new."""
        self._clock = clock
        self._batch_of.clear()
        self._batches.clear()

    def __call__(self, patterns: Bits, threshold: float, wanted: int) -> Vector:
        """Score each pattern (s, p): infinite if proven to be too high, nan if its program was not solved.

        Scores above the threshold, or above the `wanted`-th least, may be reported as infinite.
        """
        values = np.full(len(patterns), np.inf)
        keys = [_key(pattern) for pattern in patterns]
        new = [row for row, key in enumerate(keys) if key not in self._batch_of]
        if new:
            self._batches.append(patterns[new])
        batches = np.array([self._batch_of.get(key, len(self._batches) - 1) for key in keys])
        for batch in np.unique(batches):
            rows = np.flatnonzero(batches == batch)
            self._score(self._batches[batch], patterns, rows, values, threshold, wanted)
        for key, batch, value in zip(keys, batches.tolist(), values, strict=True):
            self._batch_of[key] = batch
            if value < np.inf:
                del self._batch_of[key]
        return values

    def improve(self, pattern: Bits, value: float) -> tuple[Bits, float] | None:
        """Return the support of the pattern's coefficients, and its score, which is not higher."""
        known = self._supports.get(_key(pattern))
        if known is None:
            return None
        support = np.unpackbits(np.frombuffer(known[0], np.uint8), count=len(pattern))
        return support.astype(bool), known[1]

    def _score(
        self, batch: Bits, patterns: Bits, rows: Rows, values: Vector, threshold: float, wanted: int
    ) -> None:
        """Score some rows of the patterns, which were first drawn in `batch`, and store the values."""

        def ceiling() -> float:
            """Return the threshold, or the `wanted`-th least known score if it is lower."""
            known = values[np.isfinite(values)]
            return min(threshold, with_ties(kth_least(known, wanted)) if len(known) >= wanted else np.inf)

        rows = self._promising(patterns, rows, ceiling())
        if len(rows) and not self._clock.is_over:
            self._prepare(batch)
            rows = self._promising(patterns, rows, ceiling())
        size = OPTIONS.patterns_per_look
        while len(rows):
            if self._clock.is_over:
                values[rows] = np.nan
                return
            chunk, rows = rows[:size], rows[size:]
            for row, solution in zip(chunk, self._solve(patterns[chunk], ceiling()), strict=True):
                values[row] = self._store(patterns[row], solution)
            rows = self._promising(patterns, rows, ceiling())

    def _promising(self, patterns: Bits, rows: Rows, ceiling: float) -> Rows:
        """Return the rows that the cuts do not exclude, in order of their lower bounds."""
        if ceiling == np.inf or not len(rows):
            return rows
        chosen = patterns[rows]
        bounds = chosen.sum(axis=1) + self.data.C * self.pool.bounds(chosen)
        order = np.argsort(bounds, kind="stable")
        remaining = rows[order[bounds[order] <= ceiling]]
        self.work.screened += len(rows) - len(remaining)
        return remaining

    def _prepare(self, batch: Bits) -> None:
        """Solve the program of the batch's mean in all models, and keep its cut."""
        time_left = self._clock.left
        solved = Parallel(n_jobs=len(self._models), require="sharedmem")(
            delayed(model.prepare)(batch, time_limit=time_left) for model in self._models
        )
        self.work.programs += 1
        self.pool.add(*solved[0].cut)

    def _solve(self, patterns: Bits, ceiling: float) -> list[PatternSolution]:
        """Solve the patterns' programs in parallel; return the solutions in the patterns' order."""
        threads = len(self._models)

        def solve(model: PatternLP, pattern: Bits) -> PatternSolution:
            cutoff = None if ceiling == np.inf else (ceiling - pattern.sum()) / self.data.C
            return model.solve(pattern, time_limit=self._clock.left, cutoff=cutoff)

        def solve_every_th(thread: int) -> list[PatternSolution]:
            return [solve(self._models[thread], pattern) for pattern in patterns[thread::threads]]

        solved = Parallel(n_jobs=threads, require="sharedmem")(
            delayed(solve_every_th)(k) for k in range(threads)
        )
        return [solved[row % threads][row // threads] for row in range(len(patterns))]

    def _store(self, pattern: Bits, solution: PatternSolution) -> float:
        """Store the cut and the support of a solution, and return the pattern's score."""
        self.work.count(solution)
        self.pool.add(*solution.cut)
        if solution.status is Status.CUT_OFF:
            return np.inf
        if solution.status in (Status.FAILED, Status.TIME_LIMIT):
            return np.nan
        support = np.packbits(self.data.support(solution.alpha)).tobytes()
        self._supports[_key(pattern)] = support, self.data.score(solution.alpha, solution.b)
        return self.data.pattern_score(pattern, solution.value)


def _key(pattern: Bits) -> bytes:
    return np.packbits(pattern).tobytes()
