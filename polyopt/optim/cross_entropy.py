"""The cross-entropy method for 0-1 problems: draw patterns, keep the elite, move towards them, repeat.

Rubinstein's method (R. Y. Rubinstein and D. P. Kroese, The Cross-Entropy Method, 2004) with one Bernoulli
variable for each coordinate. Of N patterns drawn with probabilities p, the elite are those whose score is
at most γ, the ρ-quantile of the N scores; with p̂_j the share of them that have coordinate j,

    p ← β p + (1 − β) p̂.

Only the ranks of the scores matter, not their sizes. The iteration is :meth:`_Run.step`. Each pattern is
scored once (:class:`_PatternScores`), in parallel or in batches (:class:`_Evaluator`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from numbers import Real
from typing import Any, Literal, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from joblib import delayed
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import seconds, whole
from formulations.language.clock import Clock, OutOfTimeError, current_clock, interrupted
from formulations.language.solution import Status
from polyopt.base.parallel import call_timed, iter_joblib
from polyopt.base.progress import show
from polyopt.optim.starts import TIE

Bits = NDArray[np.bool_]
Improve = Callable[[Bits, float], "tuple[Any, float] | None"]
Rank = Literal["improved", "drawn"]


def require(holds: bool, name: str, value: object, allowed: str) -> None:
    """Raise ValueError with the allowed values, unless the condition holds."""
    if not holds:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")


@dataclass(frozen=True)
class Rules:
    """Sizes and stopping rules of a run, as the parameters of :func:`cross_entropy_minimize`."""

    n_samples: int = 100
    rho: float = 0.1
    beta: float = 0.5
    patience: int = 5
    max_iter: int = 100
    tol: float = 1e-3

    def __post_init__(self) -> None:
        whole("n_samples", self.n_samples)
        whole("patience", self.patience)
        whole("max_iter", self.max_iter)
        for name, value in (("rho", self.rho), ("beta", self.beta), ("tol", self.tol)):
            require(isinstance(value, Real), name, value, "a number")
        require(0 < self.rho <= 1, "rho", self.rho, "over 0 and at most 1")
        require(0 <= self.beta < 1, "beta", self.beta, "at least 0 and under 1")
        require(0 <= self.tol < 0.5, "tol", self.tol, "at least 0 and under 0.5")

    @property
    def elite(self) -> int:
        """Number of elite patterns, ties apart."""
        return max(ceil(self.rho * self.n_samples - 1e-9), 1)  # 0.07 · 100 is a little over 7


@dataclass(frozen=True)
class CrossEntropyResult:
    """The result of a search, without multipliers or a bound.

    pattern (n,): the best pattern scored; None without a finite score.
    value: its score; nan if there is none.
    p (n,): probabilities at the end of the run that found it (of the first run, if an incumbent is the best).
    status: how that run ended, or what ended the search; ``FAILED`` if no pattern has a finite score.
    reason: why, in words.
    history: one record per iteration: ``restart`` (the first run is 0) and ``iteration``; ``best`` score so
        far and ``elite_threshold``; ``mean_p`` and ``entropy`` of p after the iteration (mean over the
        coordinates, in nats, at most log 2); ``evaluations``, ``cache_hits``, ``screened`` and ``failures``
        of this iteration; ``seconds`` since the start.
    iterations, restarts: iterations of all runs, and runs begun after the first.
    evaluations: patterns scored, incumbents and failures among them.
    cache_hits: patterns drawn that did not need the scoring function.
    screened: patterns that a batch scorer proved not to be elite.
    failures: number of failures, by cause.
    seconds: time taken.
    """

    pattern: Bits | None
    value: float
    p: NDArray[np.float64]
    status: Status
    reason: str
    history: tuple[dict[str, float], ...]
    iterations: int
    restarts: int
    evaluations: int
    cache_hits: int
    screened: int
    failures: dict[str, int]
    seconds: float

    def __getstate__(self) -> dict[str, Any]:
        """Plain values only, so that formats without enumerations can save it."""
        return {**self.__dict__, "status": self.status.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "status": Status.of_name(state["status"])})


def cross_entropy_minimize(
    score: Callable[..., Any],
    n: int,
    *,
    p0: ArrayLike = 0.5,
    n_samples: int = 100,
    rho: float = 0.1,
    beta: float = 0.5,
    patience: int = 5,
    max_iter: int = 100,
    tol: float = 1e-3,
    lower_bound: float = -np.inf,
    restarts: int = 0,
    incumbents: ArrayLike | None = None,
    batch: bool = False,
    improve: Improve | None = None,
    rank: Rank = "improved",
    errors: tuple[type[Exception], ...] = (),
    cache_size: int = 100_000,
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> CrossEntropyResult:
    """Minimise a score of 0-1 patterns by the cross-entropy method.

    A search, not a proof: nothing but a `lower_bound` tells how far the result is from the optimum.

    Parameters
    ----------
    score : callable
        Takes a pattern, a read-only bool array of shape (n,), and returns a number, to be minimised. It
        must depend on the pattern alone: each pattern is scored once. Infinity, nan, and the exceptions
        in `errors` count as failures, and end nothing.
    n : int
        Coordinates of a pattern.
    p0 : float or array_like of shape (n,), default=0.5
        Probabilities of a one to start from. A coordinate at 0 or 1 stays there, unless an incumbent or
        `improve` brings another value into the elite. Low values may end a search at once: where most
        good patterns need more ones than are drawn, the empty pattern wins.
    n_samples : int
        Patterns drawn in an iteration, N.
    rho : float
        Share of them that is elite, the lowest scores, over 0 and up to 1; ties with the last, up to 1e-9
        relative, are elite too. (A slide that takes the "1 − ρ percentile" of a minimisation keeps nearly
        all: rho=0.9 is that rule, and does not concentrate.)
    beta : float
        Smoothing, from 0 (p is the elite's share) to under 1.
    patience : int
        Iterations in a row that may lower neither the best score of the run nor the elite threshold.
    max_iter : int
        Iterations of a run, at most.
    tol : float
        A run ends when every probability is this close to 0 or 1. It ends as well when an iteration draws
        no pattern that had not been drawn before.
    lower_bound : float, default=-inf
        A number that no score is below: the search ends with the iteration whose best score meets it, up to
        1e-9 relative, and makes no further runs.
    restarts : int
        Further runs from `p0`, with the same cache; the best pattern of all is kept.
    incumbents : array_like of shape (r, n), optional
        Patterns scored before all others. They stand beside the patterns drawn, and belong to the elite
        of every iteration whose threshold they meet.
    batch : bool, default=False
        Whether `score` takes many patterns at once, shape (s, n), a threshold, and how many of their scores
        are wanted, and returns s scores. It may then return infinity for a pattern if it can prove that its
        score is above a finite threshold, or above the wanted-th least of the scores that it returns; and so
        is, unless the rank is "drawn", the score of what `improve` would make of it. The threshold is the
        last iteration's; patterns are passed again, with a higher one, where that turns out too low, so that
        the search is the same as without such proofs. A failure is nan; infinity, where there is nothing to
        prove, is one as well.
    improve : callable, optional
        Takes a pattern and its score, once for each pattern (but see `rank`), and returns None, or a pattern
        that is no worse and its score. That takes the place of the first in the cache, in the elite and
        among the incumbents. A worse one is left alone.
    rank : {"improved", "drawn"}, default="improved"
        Score by which a pattern is elite: that of its improvement, or its own, as it was drawn. With "drawn"
        only the elite and the incumbents are improved: p moves towards their improvements.
    errors : tuple of exception classes
        Exceptions of `score` and `improve` that count as failures; all others pass.
    cache_size : int
        Patterns whose scores are remembered, at most; those longest unused are forgotten.
    time_limit : float, optional
        Seconds for the whole search; checked after each pattern. A batch is taken whole: a batch scorer that
        is to stop earlier returns nan for what it leaves out.
    random_state : int, Generator or None, default=0
        Of the patterns drawn. The result depends on it alone, not on `n_jobs`.
    n_jobs : int, optional
        Patterns scored at once, as joblib counts. A batch scorer does its own work in parallel.
    progress : callable, optional
        Called with each record of the history.

    Returns
    -------
    CrossEntropyResult
        The best pattern, and how it was found. A limit, or Ctrl-C, keeps it.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    The subset of some numbers whose sum is nearest to 100:

    >>> import numpy as np
    >>> from polyopt import cross_entropy_minimize
    >>> numbers = np.array([3, 9, 14, 27, 31, 38, 45, 52, 61, 70])
    >>> found = cross_entropy_minimize(lambda chosen: abs(numbers[chosen].sum() - 100), len(numbers))
    >>> found.value, int(numbers[found.pattern].sum())
    (0.0, 100)
    """
    whole("n", n, 1)
    whole("restarts", restarts, 0)
    whole("cache_size", cache_size, 0)
    seconds(time_limit)
    rules = Rules(n_samples, rho, beta, patience, max_iter, tol)
    start, given = _probabilities(p0, n), _patterns(incumbents, n)
    evaluator = _Evaluator(score, batch, improve, rank, errors, n_jobs)
    clock = Clock(time_limit)
    scores = _PatternScores(evaluator, n, cache_size, clock)
    require(lower_bound < np.inf, "lower_bound", lower_bound, "a number below infinity")
    search = _Search(scores, rules, start, clock, progress, lower_bound)
    try:
        search.run(given, restarts + 1, np.random.default_rng(random_state))
    except OutOfTimeError:
        if clock.is_stopped:
            return search.result(Status.INTERRUPTED, "the search was interrupted")
        return search.result(Status.TIME_LIMIT, f"the limit of {time_limit} seconds has passed")
    except KeyboardInterrupt:
        if scores.best is None:
            raise
        return search.result(interrupted(), "the search was interrupted")
    return search.result()


def _probabilities(p0: ArrayLike, n: int) -> NDArray[np.float64]:
    p = np.asarray(p0, dtype=np.float64)
    if p.shape not in ((), (n,)):
        raise ValueError(f"p0 must be a number or of shape ({n},); its shape is {p.shape}")
    require(bool(((p >= 0) & (p <= 1)).all()), "p0", p0, "between 0 and 1")
    return np.broadcast_to(p, n).copy()


def _patterns(incumbents: ArrayLike | None, n: int) -> Bits:
    given = np.empty((0, n)) if incumbents is None else np.asarray(incumbents)
    if given.ndim != 2 or given.shape[1] != n:
        raise ValueError(
            f"incumbents must have shape (r, {n}), one pattern a row; their shape is {given.shape}"
        )
    if not np.isin(given, (0, 1)).all():
        raise ValueError("incumbents must hold zeros and ones only")
    return given.astype(bool)


class _Search:
    """The runs from one start, which share the scores."""

    def __init__(
        self, scores: _PatternScores, rules: Rules, start: NDArray[np.float64], clock: Clock,
        progress: Callable[[dict[str, float]], None] | None, lower_bound: float,
    ):  # fmt: skip
        self.lower_bound = lower_bound
        self.scores, self.rules, self.start, self.clock, self.progress = scores, rules, start, clock, progress
        self.runs: list[tuple[_Run, float]] = []  # each with the best value before it
        self.history: list[dict[str, float]] = []

    def run(self, given: Bits, count: int, rng: np.random.Generator) -> None:
        """Score the incumbents, then make the runs; OutOfTimeError at the limit."""
        scores, standing = self.scores, _Scored(np.empty(0), given, True)
        if len(given):
            standing = scores.improved(_elite_of(scores.of(given, elite=len(given)), np.inf))
        for number in range(count):
            if number > 0 and meets(scores.best_value, self.lower_bound):
                return
            run = _Run(self.rules, self.start, self.lower_bound)
            self.runs.append((run, scores.best_value))
            while run.status is None:
                if scores.evaluations:
                    self.clock.check()
                record = {"restart": float(number), **run.step(scores, standing, rng)}
                self.history.append({**record, "seconds": self.clock.seconds})
                show(self.history[-1], lambda: {"p": run.p})  # noqa: B023 - called at once
                if self.progress is not None:
                    self.progress(self.history[-1])

    def result(self, status: Status | None = None, reason: str = "") -> CrossEntropyResult:
        """The result; `status` and `reason` are those of the search, by default those of the best run."""
        scores, runs = self.scores, self.runs
        # The last run that began without the best value found it; no run, if an incumbent has it.
        finder = next((run for run, before in reversed(runs) if scores.best_value < before), None)
        kept = finder or (runs[0][0] if runs else _Run(self.rules, self.start))
        if status is None:
            status, reason = kept.status or Status.CONVERGED, kept.reason
        if scores.best is None:
            status, reason = Status.FAILED, f"no pattern has a finite score: {dict(scores.failures)}"
        return CrossEntropyResult(
            pattern=scores.best,
            value=np.nan if scores.best is None else scores.best_value,
            p=kept.p,
            status=status,
            reason=reason,
            history=tuple(self.history),
            iterations=len(self.history),
            restarts=max(len(runs) - 1, 0),
            evaluations=scores.evaluations,
            cache_hits=scores.cache_hits,
            screened=scores.screened,
            failures=dict(scores.failures),
            seconds=self.clock.seconds,
        )


class _Run:
    """The iterations from one start: probabilities p (n,), and the status, None until the run ends."""

    def __init__(self, rules: Rules, p: NDArray[np.float64], lower_bound: float = -np.inf):
        self.rules, self.p, self.lower_bound = rules, p, lower_bound
        self.status: Status | None = None
        self.reason = ""
        self.threshold = np.inf  # γ of the last iteration
        self.least = {"best": np.inf, "threshold": np.inf}  # for patience
        self.idle = self.iterations = 0

    def step(self, scores: _PatternScores, standing: _Scored, rng: np.random.Generator) -> dict[str, float]:
        """Draw, score, choose the elite, and move p towards them.

        The patterns of `standing` belong to the elite whenever their values meet the threshold.
        """
        rules, before = self.rules, scores.counts
        drawn = rng.random((rules.n_samples, len(self.p))) < self.p
        found = scores.of(drawn, rules.elite, self.threshold)
        self.threshold = kth_least(found.values, rules.elite)
        if self.threshold == np.inf:  # fewer scores than elite places: all of them are elite
            self.threshold = max(found.values[found.values < np.inf], default=np.inf)
        own = scores.improved(_elite_of(found, self.threshold))
        elite = np.concatenate([own.patterns, _elite_of(standing, self.threshold).patterns])
        if len(elite):
            self.p = rules.beta * self.p + (1 - rules.beta) * elite.mean(axis=0)
        self.iterations += 1
        self._stop(found, scores.best_value)
        q = np.stack([self.p, 1 - self.p])
        return {
            "iteration": float(self.iterations),
            "best": scores.best_value,
            "elite_threshold": self.threshold,
            "mean_p": float(self.p.mean()),
            "entropy": float(-np.sum(q * np.log(np.where(q > 0, q, 1.0))) / len(self.p)),
            **{name: float(count - before[name]) for name, count in scores.counts.items()},
        }

    def _stop(self, found: _Scored, best: float) -> None:
        """Set the status if a stopping rule holds."""
        rules = self.rules
        self.idle += 1
        for name, value in (("best", found.values.min()), ("threshold", self.threshold)):
            least = self.least[name]
            if value < least - (TIE * abs(least) if least < np.inf else 0.0):
                self.least[name], self.idle = value, 0
        if meets(best, self.lower_bound):
            self.status, self.reason = Status.CONVERGED, "the best score meets the lower bound"
        elif np.minimum(self.p, 1 - self.p).max() <= rules.tol:
            self.status, self.reason = Status.CONVERGED, f"every probability is within {rules.tol} of 0 or 1"
        elif found.asked_before:
            self.status, self.reason = Status.CONVERGED, "an iteration drew no new pattern"
        elif self.idle >= rules.patience:
            lowered = "lowered neither the best score nor the elite threshold"
            self.status, self.reason = Status.CONVERGED, f"{rules.patience} iterations in a row {lowered}"
        elif self.iterations >= rules.max_iter:
            self.status, self.reason = Status.ITERATION_LIMIT, f"{rules.max_iter} iterations were made"


def meets(best: float, lower_bound: float) -> bool:
    """True if a score meets the lower bound, up to ties."""
    return best < np.inf and best - lower_bound <= TIE * abs(best)


def kth_least(values: NDArray[np.float64], k: int) -> float:
    """The k-th least of the values, counted from 1."""
    return float(np.partition(values, k - 1)[k - 1])


def with_ties(value: float) -> float:
    """The largest score that ties with this one: solvers' scores differ in their last digits."""
    return value + TIE * abs(value)


class _Scored(NamedTuple):
    """Scores of s patterns of n bits.

    values (s,): infinite if the scoring failed, or proved that the pattern is not elite.
    patterns (s, n): the patterns with those scores: the given ones, or their improvements.
    asked_before: True if all of them occurred in an earlier call.
    """

    values: NDArray[np.float64]
    patterns: Bits
    asked_before: bool


def _elite_of(group: _Scored, threshold: float) -> _Scored:
    """The patterns that have a score up to the threshold, ties included."""
    elite = (group.values <= with_ties(threshold)) & (group.values < np.inf)
    return _Scored(group.values[elite], group.patterns[elite], group.asked_before)


class _Known(NamedTuple):
    """A cached score, and the packed bits of the pattern that has it.

    floor: threshold that an infinite value exceeds; infinite after a failure.
    asked: False if the pattern has only occurred as the improvement of another one.
    """

    value: float
    packed: bytes
    floor: float = np.inf
    asked: bool = True


class _PatternScores:
    """Scores of patterns, from a cache or from the evaluator; the best pattern, and counts."""

    def __init__(self, evaluator: _Evaluator, n: int, cache_size: int, clock: Clock):
        self._evaluator, self._n, self._cache_size, self._clock = evaluator, n, cache_size, clock
        self._cache: dict[bytes, _Known] = {}  # least recently used first
        self._improved: dict[bytes, _Known] = {}  # improvements of elite patterns; likewise
        self.evaluations = self.cache_hits = self.screened = 0
        self.failures: Counter[str] = Counter()
        self.best_value = np.inf
        self.best: Bits | None = None

    @property
    def counts(self) -> dict[str, int]:
        return {
            "evaluations": self.evaluations, "cache_hits": self.cache_hits, "screened": self.screened,
            "failures": self.failures.total(),
        }  # fmt: skip

    def of(self, patterns: Bits, elite: int = 1, guess: float = np.inf) -> _Scored:
        """Scores of patterns (s, n): exact for all known ones and for the `elite` least, ties included.

        A batch scorer may screen by the threshold `guess`. If fewer than `elite` scores turn out to be so
        low, the screened patterns are scored again with a certain threshold: the result does not depend on
        the guess. OutOfTimeError at the limit; the scores so far are kept.
        """
        keys = [row.tobytes() for row in np.packbits(patterns, axis=1)]
        known = {key: self._cache[key] for key in keys if key in self._cache}
        asked_before = all(key in known and known[key].asked for key in keys)
        passed: set[bytes] = set()
        values = _values(known, keys)
        # If `elite` scores are known already, the threshold is at most the last of them.
        threshold = with_ties(min(guess, kth_least(values, elite))) if self._evaluator.batch else np.inf
        while True:
            rows = {key: row for row, key in enumerate(keys) if not _is_settled(known.get(key), threshold)}
            passed |= rows.keys()
            self._score(rows, patterns, threshold, elite, known)
            values = _values(known, keys)
            certain = with_ties(kth_least(values, elite))
            if certain <= threshold:
                break
            threshold = certain
        self.cache_hits += len(keys) - len(passed)
        self.screened += sum(known[key].value == np.inf and known[key].floor < np.inf for key in passed)
        for key in dict.fromkeys(keys):
            self._store(self._cache, key, known[key]._replace(asked=True))
        return _Scored(values, self._unpacked([known[key] for key in keys]), asked_before)

    def improved(self, elite: _Scored) -> _Scored:
        """The elite after `improve` with rank="drawn"; otherwise unchanged."""
        made = [
            self._improvement(pattern, value)
            for pattern, value in zip(elite.patterns, elite.values.tolist(), strict=True)
        ]
        values = np.array([entry.value for entry in made])
        return _Scored(values, self._unpacked(made), elite.asked_before)

    def _improvement(self, pattern: Bits, value: float) -> _Known:
        key = np.packbits(pattern).tobytes()
        entry = self._improved.get(key)
        if entry is None:
            outcome = self._evaluator.improved(pattern, value)
            entry = _Known(outcome.value, np.packbits(outcome.pattern).tobytes(), asked=False)
            self._note(outcome)
            if entry.packed not in self._cache:
                self._store(self._cache, entry.packed, entry)
        self._store(self._improved, key, entry)
        return entry

    def _unpacked(self, entries: list[_Known]) -> Bits:
        packed = np.frombuffer(b"".join(entry.packed for entry in entries), np.uint8)
        rows = packed.reshape(len(entries), -(-self._n // 8))
        return np.unpackbits(rows, axis=1, count=self._n).astype(bool)

    def _note(self, outcome: _Outcome) -> None:
        self.failures.update([outcome.cause] if outcome.cause else [])
        if outcome.value < self.best_value:
            self.best_value, self.best = outcome.value, outcome.pattern.copy()

    def _score(
        self, rows: dict[bytes, int], patterns: Bits, threshold: float, elite: int, known: dict[bytes, _Known]
    ) -> None:
        """Score the patterns of these rows, and enter them in `known`."""
        if not rows:
            return
        screened: list[bytes] = []
        wanted = patterns[list(rows.values())]
        wanted.setflags(write=False)
        with closing(self._evaluator.outcomes(wanted, threshold, elite)) as outcomes:
            for key, outcome in zip(rows, outcomes, strict=True):
                packed = np.packbits(outcome.pattern).tobytes()
                known[key] = _Known(outcome.value, packed)
                if outcome.value == np.inf and not outcome.cause:
                    screened.append(key)
                else:
                    self.evaluations += 1
                if packed not in known and packed not in self._cache:
                    self._store(self._cache, packed, _Known(outcome.value, packed, asked=False))
                self._note(outcome)
                # A batch has been computed when its first outcome comes: it is taken whole.
                if self._clock.is_over and not self._evaluator.batch:
                    raise OutOfTimeError
        if screened:
            values = np.array([known[key].value for key in rows])
            floor = min(threshold, with_ties(kth_least(values, min(elite, len(values)))))
            known.update({key: known[key]._replace(floor=floor) for key in screened})

    def _store(self, cache: dict[bytes, _Known], key: bytes, entry: _Known) -> None:
        """Enter it as the most recently used; drop the least recently used if the cache is full."""
        cache.pop(key, None)
        cache[key] = entry
        if len(cache) > self._cache_size:
            del cache[next(iter(cache))]


def _values(known: dict[bytes, _Known], keys: list[bytes]) -> NDArray[np.float64]:
    return np.array([known[key].value if key in known else np.inf for key in keys])


def _is_settled(entry: _Known | None, threshold: float) -> bool:
    return entry is not None and (entry.value < np.inf or entry.floor >= threshold)


class _Outcome(NamedTuple):
    """A score, the pattern that has it, and the cause of a failure."""

    value: float
    pattern: Bits
    cause: str | None = None


class _Evaluator:
    """Calls the scoring function and `improve`, with the parameters of :func:`cross_entropy_minimize`."""

    def __init__(
        self, score: Callable[..., Any], batch: bool, improve: Improve | None, rank: Rank,
        errors: tuple[type[Exception], ...], n_jobs: int | None,
    ):  # fmt: skip
        require(callable(score), "score", score, "callable")
        require(improve is None or callable(improve), "improve", improve, "callable, or None")
        require(not batch or n_jobs in (None, 1), "n_jobs", n_jobs, "None with batch=True")
        known = isinstance(errors, tuple) and all(
            isinstance(e, type) and issubclass(e, Exception) for e in errors
        )
        require(known, "errors", errors, "a tuple of exception classes")
        require(rank in ("improved", "drawn"), "rank", rank, '"improved" or "drawn"')
        self.batch = batch
        self._score, self._errors, self._n_jobs = score, errors, n_jobs
        self._of_all = improve if rank == "improved" else None
        self._of_elite = improve if rank == "drawn" else None

    def improved(self, pattern: Bits, value: float) -> _Outcome:
        """Improve an elite pattern, if only the elite are improved."""
        return _improve(self._of_elite, self._errors, pattern, value)

    def outcomes(self, patterns: Bits, threshold: float, elite: int) -> Generator[_Outcome]:
        """Yield the outcomes of patterns (s, n), in their order.

        A batch scorer may leave out scores above the threshold, or above the `elite`-th least: such an
        outcome has an infinite value and no cause.
        """
        if self.batch:
            yield from self._of_batch(patterns, threshold, elite)
            return
        run = delayed(call_timed)
        tasks = (
            run(current_clock(), _evaluate, self._score, self._of_all, self._errors, pattern)
            for pattern in patterns
        )
        outcomes = iter_joblib(tasks, self._n_jobs)
        try:
            for outcome in outcomes:  # noqa: UP028 - `yield from` would close them before the filter is set
                yield outcome
        finally:
            with catch_warnings():  # joblib warns of calls that a time limit leaves out
                simplefilter("ignore", UserWarning)
                outcomes.close()

    def _of_batch(self, patterns: Bits, threshold: float, elite: int) -> Generator[_Outcome]:
        try:
            values = np.asarray(self._score(patterns, threshold, elite), dtype=np.float64)
        except self._errors as error:
            for pattern in patterns:
                yield _Outcome(np.inf, pattern, type(error).__name__)
            return
        if values.shape != (len(patterns),):
            raise ValueError(
                f"score must return {len(patterns)} scores for as many patterns; "
                f"what it returned has shape {values.shape}"
            )
        # An infinite score is above the threshold, or above the elite, if `elite` scores are finite.
        proven = threshold < np.inf or np.isfinite(values).sum() >= elite
        for pattern, value in zip(patterns, values.tolist(), strict=True):
            if value == np.inf and proven:
                yield _Outcome(np.inf, pattern)
            else:
                yield _improve(self._of_all, self._errors, pattern, value)


def _evaluate(
    score: Callable[[Bits], Any], improve: Improve | None, errors: tuple[type[Exception], ...], pattern: Bits
) -> _Outcome:
    """Score a pattern, and improve it; a function that can be sent to a worker."""
    try:
        found = score(pattern)
    except errors as error:
        return _Outcome(np.inf, pattern, type(error).__name__)
    try:
        value = float(found)
    except (TypeError, ValueError):
        raise TypeError(f"score must return a number, not {found!r}") from None
    return _improve(improve, errors, pattern, value)


def _improve(
    improve: Improve | None, errors: tuple[type[Exception], ...], pattern: Bits, value: float
) -> _Outcome:
    """Improve a pattern that has a finite score."""
    if not np.isfinite(value):
        return _Outcome(np.inf, pattern, f"a score of {value}")
    if improve is None:
        return _Outcome(value, pattern)
    try:
        better = improve(pattern, value)
    except errors as error:
        return _Outcome(value, pattern, f"improve: {type(error).__name__}")
    if better is None:
        return _Outcome(value, pattern)
    other, least = np.asarray(better[0]).astype(bool), float(better[1])
    if other.shape != pattern.shape:
        raise ValueError(f"improve must return a pattern of shape {pattern.shape}, not {other.shape}")
    return _Outcome(least, other) if -np.inf < least <= value else _Outcome(value, pattern)
