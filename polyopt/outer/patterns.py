"""Scores of 0-1 patterns: each pattern scored once, failures counted, several at once.

What :func:`polyopt.outer.cross_entropy.cross_entropy_minimize` knows of its patterns. A pattern is kept
as the bytes of its packed bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from joblib import Parallel, delayed

from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.bool_]

__all__ = ["OutOfTime", "PatternScores", "Scored", "kth_least"]

Improve = Callable[["Bits", float], "tuple[Any, float] | None"]


class OutOfTime(Exception):  # noqa: N818 - no error, but a way out of the middle of an iteration
    """The time limit has passed between two patterns."""


class Scored(NamedTuple):
    """What :meth:`PatternScores.of` tells of s patterns of n bits.

    Attributes
    ----------
    values : ndarray of shape (s,)
        Scores; infinite where the scoring failed, or proved that the pattern is not among the elite.
    patterns : ndarray of shape (s, n)
        The patterns with those scores: the ones asked for, or what was made of them.
    asked_before : bool
        Whether every one of them had been asked for in an earlier call.
    """

    values: NDArray[np.float64]
    patterns: Bits
    asked_before: bool


class _Known(NamedTuple):
    """Of one pattern: its score, the packed pattern that has it, and what the score is known to exceed."""

    value: float
    packed: bytes
    floor: float = -np.inf  # of an infinite value: the threshold it is above; infinite after a failure
    asked: bool = True  # not so, where it was only met as the improvement of another


class _Outcome(NamedTuple):
    """Of one evaluation: the score, the pattern that has it, and what went wrong."""

    value: float
    pattern: Bits
    cause: str | None = None


class PatternScores:
    """Scores of patterns, from a cache or from the scoring function.

    Parameters as in :func:`polyopt.outer.cross_entropy.cross_entropy_minimize`, and the clock that runs.

    Attributes
    ----------
    evaluations : int
        Patterns scored, failures among them.
    cache_hits : int
        Patterns asked for and not passed to the scoring function, repetitions within a call among them.
    screened : int
        Patterns that the scoring function proved not to be elite, once for each call of :meth:`of`.
    failures : Counter
        Number of failures, by cause.
    best_value : float
        Least score so far.
    best : ndarray of shape (n,) or None
        The first pattern with it.
    """

    def __init__(
        self,
        score: Callable[..., Any],
        n: int,
        *,
        batch: bool,
        improve: Improve | None,
        errors: tuple[type[Exception], ...],
        n_jobs: int | None,
        cache_size: int,
        clock: Clock,
    ):
        self._score, self._n, self._batch, self._improve = score, n, batch, improve
        self._errors, self._n_jobs, self._cache_size, self._clock = errors, n_jobs, cache_size, clock
        self._cache: dict[bytes, _Known] = {}  # the longest unused first
        self.evaluations = self.cache_hits = self.screened = 0
        self.failures: Counter[str] = Counter()
        self.best_value = np.inf
        self.best: Bits | None = None

    def of(self, patterns: Bits, elite: int = 1, guess: float = np.inf) -> Scored:
        """Scores of some patterns: all that are among the `elite` least, and those that are known.

        Parameters
        ----------
        patterns : ndarray of shape (s, n)
            The patterns; repetitions count as often as they occur.
        elite : int
            How many of the least scores are wanted for certain, ties with the last of them included.
        guess : float
            Threshold to screen by (a batch scorer). Where fewer than `elite` scores turn out to be at
            or below it, the screened patterns are scored again under one that is certain: the result
            does not depend on the guess.

        Returns
        -------
        Scored
            Scores, and the patterns that have them.

        Raises
        ------
        OutOfTime
            If the limit passes between two evaluations; what has been scored is kept.
        """
        keys = [row.tobytes() for row in np.packbits(patterns, axis=1)]
        known = {key: self._cache[key] for key in keys if key in self._cache}
        asked_before = all(key in known and known[key].asked for key in keys)
        passed: set[bytes] = set()
        values = _values(known, keys)
        # At most as many as `elite` of the scores known already: no guess need be higher.
        threshold = min(guess, kth_least(values, elite)) if self._batch else np.inf
        while True:
            rows = {key: row for row, key in enumerate(keys) if not _is_settled(known.get(key), threshold)}
            passed |= rows.keys()
            self._learn(rows, patterns, threshold, known)
            values = _values(known, keys)
            if np.count_nonzero(values <= threshold) >= elite:
                break
            threshold = kth_least(values, elite)
        self.cache_hits += len(keys) - len(passed)
        self.screened += sum(known[key].value == np.inf and known[key].floor < np.inf for key in passed)
        for key in dict.fromkeys(keys):
            self._keep(key, known[key]._replace(asked=True))
        packed = np.frombuffer(b"".join(known[key].packed for key in keys), np.uint8)
        standing = np.unpackbits(packed.reshape(len(keys), -1), axis=1, count=self._n).astype(bool)
        return Scored(values, standing, asked_before)

    def _learn(
        self, rows: dict[bytes, int], patterns: Bits, threshold: float, known: dict[bytes, _Known]
    ) -> None:
        """Score the patterns of these rows, and enter them among the `known`."""
        if not rows:
            return
        wanted = patterns[list(rows.values())]
        wanted.setflags(write=False)
        with closing(self._outcomes(wanted, threshold)) as outcomes:
            for key, outcome in zip(rows, outcomes, strict=True):
                self.failures.update([outcome.cause] if outcome.cause else [])
                packed = np.packbits(outcome.pattern).tobytes()
                floor = threshold if outcome.value == np.inf and not outcome.cause else np.inf
                known[key] = _Known(outcome.value, packed, floor)
                self.evaluations += outcome.value < np.inf or outcome.cause is not None
                if packed not in known and packed not in self._cache:
                    self._keep(packed, _Known(outcome.value, packed, asked=False))
                if outcome.value < self.best_value:
                    self.best_value, self.best = outcome.value, outcome.pattern.copy()
                if self._clock.is_over and not self._batch:  # a batch has been paid for: take it whole
                    raise OutOfTime

    def _outcomes(self, patterns: Bits, threshold: float) -> Generator[_Outcome]:
        if self._batch:
            yield from self._outcomes_of_batch(patterns, threshold)
            return
        run = delayed(_evaluate)
        tasks = (run(self._score, self._improve, self._errors, pattern) for pattern in patterns)
        outcomes = Parallel(n_jobs=self._n_jobs, return_as="generator")(tasks)
        try:
            for outcome in outcomes:  # noqa: UP028 - `yield from` would close them before the filter is set
                yield outcome
        finally:
            with catch_warnings():  # that patterns are left when time is up is as it should be
                simplefilter("ignore", UserWarning)
                outcomes.close()

    def _outcomes_of_batch(self, patterns: Bits, threshold: float) -> Generator[_Outcome]:
        try:
            values = np.asarray(self._score(patterns, threshold), dtype=np.float64)
        except self._errors as error:
            for pattern in patterns:
                yield _Outcome(np.inf, pattern, type(error).__name__)
            return
        if values.shape != (len(patterns),):
            raise ValueError(
                f"score must return {len(patterns)} scores for as many patterns; "
                f"what it returned has shape {values.shape}"
            )
        for pattern, value in zip(patterns, values.tolist(), strict=True):
            if value == np.inf and threshold < np.inf:
                yield _Outcome(np.inf, pattern)
            else:
                yield _finished(self._improve, self._errors, pattern, value)

    def _keep(self, key: bytes, entry: _Known) -> None:
        self._cache.pop(key, None)
        self._cache[key] = entry
        if len(self._cache) > self._cache_size:
            del self._cache[next(iter(self._cache))]


def kth_least(values: NDArray[np.float64], k: int) -> float:
    """The k-th least of the values (the k/s-quantile of s of them, "inverted_cdf"), counted from 1."""
    return float(np.partition(values, k - 1)[k - 1])


def _values(known: dict[bytes, _Known], keys: list[bytes]) -> NDArray[np.float64]:
    return np.array([known[key].value if key in known else np.inf for key in keys])


def _is_settled(entry: _Known | None, threshold: float) -> bool:
    return entry is not None and (entry.value < np.inf or entry.floor >= threshold)


def _evaluate(
    score: Callable[[Bits], Any], improve: Improve | None, errors: tuple[type[Exception], ...], pattern: Bits
) -> _Outcome:
    try:
        found = score(pattern)
    except errors as error:
        return _Outcome(np.inf, pattern, type(error).__name__)
    try:
        value = float(found)
    except (TypeError, ValueError):
        raise TypeError(f"score must return a number, not {found!r}") from None
    return _finished(improve, errors, pattern, value)


def _finished(
    improve: Improve | None, errors: tuple[type[Exception], ...], pattern: Bits, value: float
) -> _Outcome:
    """The score, if it is one, and what `improve` makes of the pattern."""
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
