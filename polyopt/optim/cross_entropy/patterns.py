"""Scores of 0-1 patterns: each pattern scored once, the hopeless ones not at all, failures counted.

What :func:`~polyopt.optim.cross_entropy.cross_entropy_minimize` knows of its patterns. A pattern is kept
as the bytes of its packed bits.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.language.clock import Clock, OutOfTimeError
from polyopt.optim.cross_entropy.evaluation import Evaluator, Outcome
from polyopt.optim.starts import TIE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.bool_]

__all__ = ["PatternScores", "Scored", "kth_least", "with_ties"]


class Scored(NamedTuple):
    """The answer of :meth:`PatternScores.of` about s patterns of n bits.

    values (s,): scores; infinite where the scoring failed, or proved that the pattern is not among the elite.
    patterns (s, n): the patterns with those scores: the ones asked for, or what was made of them.
    asked_before: whether every one of them had been asked for in an earlier call.
    """

    values: NDArray[np.float64]
    patterns: Bits
    asked_before: bool


class _Known(NamedTuple):
    """Of one pattern: its score, the packed pattern that has it, and what the score is known to exceed."""

    value: float
    packed: bytes
    floor: float = np.inf  # of an infinite value: the threshold it is above; infinite after a failure
    asked: bool = True  # not so, where it was only met as the improvement of another


class PatternScores:
    """Scores of patterns, from a cache or from the scoring function.

    n: coordinates of a pattern.

    evaluations: patterns scored, failures among them.
    cache_hits: patterns asked for and not passed to the scoring function, repetitions within a call among
        them.
    screened: patterns that the scoring function proved not to be elite, once for each call of :meth:`of`.
    failures: number of failures, by cause.
    best_value: least score so far.
    best (n,): the first pattern with it.
    """

    def __init__(self, evaluator: Evaluator, n: int, *, cache_size: int, clock: Clock):
        self._evaluator, self._n, self._cache_size, self._clock = evaluator, n, cache_size, clock
        self._cache: dict[bytes, _Known] = {}  # the longest unused first
        self._improved: dict[bytes, _Known] = {}  # what was made of patterns of the elite; likewise
        self.evaluations = self.cache_hits = self.screened = 0
        self.failures: Counter[str] = Counter()
        self.best_value = np.inf
        self.best: Bits | None = None

    def of(self, patterns: Bits, elite: int = 1, guess: float = np.inf) -> Scored:
        """Scores of some patterns: all that are among the `elite` least, and those that are known.

        patterns (s, n): the patterns; repetitions count as often as they occur.
        elite: how many of the least scores are wanted for certain, ties with the last of them included.
        guess: threshold to screen by, ties with it apart (a batch scorer). Where fewer than `elite` scores
            turn out to be so low, the screened patterns are scored again under one that is certain: the
            result does not depend on the guess.
        OutOfTimeError: if the limit passes between two evaluations; what has been scored is kept.
        """
        keys = [row.tobytes() for row in np.packbits(patterns, axis=1)]
        known = {key: self._cache[key] for key in keys if key in self._cache}
        asked_before = all(key in known and known[key].asked for key in keys)
        passed: set[bytes] = set()
        values = _values(known, keys)
        # Where `elite` scores are known already, the threshold is at most the last of them.
        threshold = with_ties(min(guess, kth_least(values, elite))) if self._evaluator.batch else np.inf
        while True:
            rows = {key: row for row, key in enumerate(keys) if not _is_settled(known.get(key), threshold)}
            passed |= rows.keys()
            self._learn(rows, patterns, threshold, elite, known)
            values = _values(known, keys)
            certain = with_ties(kth_least(values, elite))
            if certain <= threshold:
                break
            threshold = certain
        self.cache_hits += len(keys) - len(passed)
        self.screened += sum(known[key].value == np.inf and known[key].floor < np.inf for key in passed)
        for key in dict.fromkeys(keys):
            self._keep(key, known[key]._replace(asked=True))
        return Scored(values, self._unpacked([known[key] for key in keys]), asked_before)

    def improved(self, elite: Scored) -> Scored:
        """The elite as `improve` leaves them, where it is for the elite alone; else as they are.

        elite: patterns that have been scored, with finite values.
        """
        made = [
            self._made_of(pattern, value)
            for pattern, value in zip(elite.patterns, elite.values.tolist(), strict=True)
        ]
        values = np.array([entry.value for entry in made])
        return Scored(values, self._unpacked(made), elite.asked_before)

    def _made_of(self, pattern: Bits, value: float) -> _Known:
        key = np.packbits(pattern).tobytes()
        entry = self._improved.get(key)
        if entry is None:
            outcome = self._evaluator.improved(pattern, value)
            self.failures.update([outcome.cause] if outcome.cause else [])
            entry = _Known(outcome.value, np.packbits(outcome.pattern).tobytes(), asked=False)
            if entry.packed not in self._cache:
                self._keep(entry.packed, entry)
            self._note(outcome)
        _store(self._improved, key, entry, self._cache_size)
        return entry

    def _unpacked(self, entries: list[_Known]) -> Bits:
        packed = np.frombuffer(b"".join(entry.packed for entry in entries), np.uint8)
        rows = packed.reshape(len(entries), -(-self._n // 8))
        return np.unpackbits(rows, axis=1, count=self._n).astype(bool)

    def _note(self, outcome: Outcome) -> None:
        if outcome.value < self.best_value:
            self.best_value, self.best = outcome.value, outcome.pattern.copy()

    def _learn(
        self,
        rows: dict[bytes, int],
        patterns: Bits,
        threshold: float,
        elite: int,
        known: dict[bytes, _Known],
    ) -> None:
        """Score the patterns of these rows, and enter them among the `known`."""
        if not rows:
            return
        ruled_out: list[bytes] = []
        wanted = patterns[list(rows.values())]
        wanted.setflags(write=False)
        with closing(self._evaluator.outcomes(wanted, threshold, elite)) as outcomes:
            for key, outcome in zip(rows, outcomes, strict=True):
                self.failures.update([outcome.cause] if outcome.cause else [])
                packed = np.packbits(outcome.pattern).tobytes()
                known[key] = _Known(outcome.value, packed)
                if outcome.value == np.inf and not outcome.cause:
                    ruled_out.append(key)
                self.evaluations += outcome.value < np.inf or outcome.cause is not None
                if packed not in known and packed not in self._cache:
                    self._keep(packed, _Known(outcome.value, packed, asked=False))
                self._note(outcome)
                # A batch has been paid for when its first outcome comes: it is taken whole.
                if self._clock.is_over and not self._evaluator.batch:
                    raise OutOfTimeError
        if ruled_out:
            of_these = np.array([known[key].value for key in rows])
            floor = min(threshold, with_ties(kth_least(of_these, min(elite, len(of_these)))))
            known.update({key: known[key]._replace(floor=floor) for key in ruled_out})

    def _keep(self, key: bytes, entry: _Known) -> None:
        _store(self._cache, key, entry, self._cache_size)


def _store(cache: dict[bytes, _Known], key: bytes, entry: _Known, size: int) -> None:
    """Enter it as the last used; the longest unused makes room."""
    cache.pop(key, None)
    cache[key] = entry
    if len(cache) > size:
        del cache[next(iter(cache))]


def kth_least(values: NDArray[np.float64], k: int) -> float:
    """The k-th least of the values (the k/s-quantile of s of them, "inverted_cdf"), counted from 1."""
    return float(np.partition(values, k - 1)[k - 1])


def with_ties(value: float) -> float:
    """The largest score that ties with this one: solvers' scores differ in their last digits."""
    return value + TIE * abs(value)


def _values(known: dict[bytes, _Known], keys: list[bytes]) -> NDArray[np.float64]:
    return np.array([known[key].value if key in known else np.inf for key in keys])


def _is_settled(entry: _Known | None, threshold: float) -> bool:
    return entry is not None and (entry.value < np.inf or entry.floor >= threshold)
