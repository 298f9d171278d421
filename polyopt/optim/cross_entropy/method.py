"""The cross-entropy method for 0-1 problems: draw patterns, keep the elite, move towards them, repeat.

Rubinstein's method (R. Y. Rubinstein and D. P. Kroese, The Cross-Entropy Method, 2004) with one Bernoulli
variable for each coordinate. Of N patterns drawn with probabilities p, the elite are those whose score is
at most γ, the ρ-quantile of the N scores; with p̂_j the share of them that have coordinate j,

    p ← β p + (1 − β) p̂.

Only the ranks of the scores matter, not their sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.arguments import seconds, whole
from formulations.language.clock import Clock, OutOfTimeError, interrupted
from formulations.language.solution import Status
from polyopt.base.progress import show
from polyopt.optim.cross_entropy.evaluation import Evaluator, require
from polyopt.optim.cross_entropy.patterns import PatternScores, Scored
from polyopt.optim.cross_entropy.run import Rules, Run, meets

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from polyopt.optim.cross_entropy.evaluation import Bits, Improve, Rank

__all__ = ["CrossEntropyResult", "cross_entropy_minimize"]


@dataclass(frozen=True)
class CrossEntropyResult:
    """What a search found.

    It is no ``Solution``, for it has neither multipliers nor a bound.

    pattern (n,): the best pattern scored; None if none has a finite score.
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
        What makes a pattern elite: the score of what `improve` makes of it, or its own, as it was drawn. With
        "drawn" the elite and the incumbents alone are improved: p moves towards what they have become.
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
    evaluator = Evaluator(score, batch=batch, improve=improve, rank=rank, errors=errors, n_jobs=n_jobs)
    clock = Clock(time_limit)
    scores = PatternScores(evaluator, n, cache_size=cache_size, clock=clock)
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


class _Search:
    """The runs from one start, which share what they know of the patterns."""

    def __init__(
        self,
        scores: PatternScores,
        rules: Rules,
        start: NDArray[np.float64],
        clock: Clock,
        progress: Callable[[dict[str, float]], None] | None,
        lower_bound: float,
    ):
        self.lower_bound = lower_bound
        self.scores, self.rules, self.start, self.clock, self.progress = scores, rules, start, clock, progress
        self.runs: list[tuple[Run, float]] = []  # each with the best value before it
        self.history: list[dict[str, float]] = []

    def run(self, given: Bits, count: int, rng: np.random.Generator) -> None:
        """Score the patterns given, then make the runs.

        OutOfTimeError: when the limit has passed; what has been found is kept.
        """
        standing = self._scored(given)
        for number in range(count):
            if number > 0 and meets(self.scores.best_value, self.lower_bound):
                return
            run = Run(self.rules, self.start, self.lower_bound)
            self.runs.append((run, self.scores.best_value))
            while run.status is None:
                if self.scores.evaluations:
                    self.clock.check()
                record = {"restart": float(number), **run.step(self.scores, standing, rng)}
                self.history.append({**record, "seconds": self.clock.seconds})
                show(self.history[-1], run.shown)
                if self.progress is not None:
                    self.progress(self.history[-1])

    def _scored(self, given: Bits) -> Scored:
        """The incumbents that have a score, improved."""
        if not len(given):
            return Scored(np.empty(0), given, True)
        scored = self.scores.of(given, elite=len(given))
        has_score = scored.values < np.inf
        return self.scores.improved(Scored(scored.values[has_score], scored.patterns[has_score], True))

    def result(self, status: Status | None = None, reason: str = "") -> CrossEntropyResult:
        """The result; `status` and `reason` tell what ended the search, if the runs did not."""
        scores, runs = self.scores, self.runs
        # The last run that began without the best value found it; no run, if an incumbent has it.
        finder = next((run for run, before in reversed(runs) if scores.best_value < before), None)
        kept = finder or (runs[0][0] if runs else Run(self.rules, self.start))
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
