"""The evaluation of 0-1 patterns: one by one, several at once, or in batches; and what goes wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from joblib import delayed

from formulations.language.clock import current_clock
from polyopt.base.parallel import answers, call_timed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.bool_]

__all__ = ["Evaluator", "Improve", "Outcome", "Rank", "require"]

Improve = Callable[["Bits", float], "tuple[Any, float] | None"]
Rank = Literal["improved", "drawn"]


def require(holds: bool, name: str, value: object, allowed: str) -> None:
    """Raise the error that says what is allowed, unless that `holds`."""
    if not holds:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")


class Outcome(NamedTuple):
    """Of one evaluation: the score, the pattern that has it, and what went wrong."""

    value: float
    pattern: Bits
    cause: str | None = None


class Evaluator:
    """Calls the scoring function, and what improves a pattern after it.

    Parameters as in :func:`~polyopt.optim.cross_entropy.cross_entropy_minimize`.
    """

    def __init__(
        self,
        score: Callable[..., Any],
        *,
        batch: bool,
        improve: Improve | None,
        rank: Rank,
        errors: tuple[type[Exception], ...],
        n_jobs: int | None,
    ):
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
        self._at_once = improve if rank == "improved" else None
        self._of_elite = improve if rank == "drawn" else None

    def improved(self, pattern: Bits, value: float) -> Outcome:
        """Of one of the elite: what `improve` makes of it, if the elite alone are improved."""
        return _finished(self._of_elite, self._errors, pattern, value)

    def outcomes(self, patterns: Bits, threshold: float, elite: int) -> Generator[Outcome]:
        """Outcomes of some patterns, in their order, as they come.

        patterns (s, n): the patterns.
        threshold: scores above it need not be known (a batch scorer).
        elite: nor those above the `elite`-th least of these patterns. An outcome with an infinite value and
            no cause is one that is above the lower of the two.
        """
        if self.batch:
            yield from self._of_batch(patterns, threshold, elite)
            return
        run = delayed(call_timed)
        tasks = (
            run(current_clock(), _evaluate, self._score, self._at_once, self._errors, pattern)
            for pattern in patterns
        )
        outcomes = answers(tasks, self._n_jobs)
        try:
            for outcome in outcomes:  # noqa: UP028 - `yield from` would close them before the filter is set
                yield outcome
        finally:
            with catch_warnings():  # that patterns are left when time is up is as it should be
                simplefilter("ignore", UserWarning)
                outcomes.close()

    def _of_batch(self, patterns: Bits, threshold: float, elite: int) -> Generator[Outcome]:
        try:
            values = np.asarray(self._score(patterns, threshold, elite), dtype=np.float64)
        except self._errors as error:
            for pattern in patterns:
                yield Outcome(np.inf, pattern, type(error).__name__)
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
                yield Outcome(np.inf, pattern)
            else:
                yield _finished(self._at_once, self._errors, pattern, value)


def _evaluate(
    score: Callable[[Bits], Any], improve: Improve | None, errors: tuple[type[Exception], ...], pattern: Bits
) -> Outcome:
    try:
        found = score(pattern)
    except errors as error:
        return Outcome(np.inf, pattern, type(error).__name__)
    try:
        value = float(found)
    except (TypeError, ValueError):
        raise TypeError(f"score must return a number, not {found!r}") from None
    return _finished(improve, errors, pattern, value)


def _finished(
    improve: Improve | None, errors: tuple[type[Exception], ...], pattern: Bits, value: float
) -> Outcome:
    """The score, if it is one, and what `improve` makes of the pattern."""
    if not np.isfinite(value):
        return Outcome(np.inf, pattern, f"a score of {value}")
    if improve is None:
        return Outcome(value, pattern)
    try:
        better = improve(pattern, value)
    except errors as error:
        return Outcome(value, pattern, f"improve: {type(error).__name__}")
    if better is None:
        return Outcome(value, pattern)
    other, least = np.asarray(better[0]).astype(bool), float(better[1])
    if other.shape != pattern.shape:
        raise ValueError(f"improve must return a pattern of shape {pattern.shape}, not {other.shape}")
    return Outcome(least, other) if -np.inf < least <= value else Outcome(value, pattern)
