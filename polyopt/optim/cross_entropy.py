"""The cross-entropy method for 0-1 problems: draw patterns, and shift their distribution to the best of them.

A pattern is a 0-1 vector; its coordinates are drawn as independent Bernoulli variables with probabilities p
(R. Y. Rubinstein and D. P. Kroese, The Cross-Entropy Method, 2004). An iteration draws N patterns. Its
*elite* are the patterns with a score of at most the threshold γ, the ρ-quantile of the N scores. With p̂_j
the fraction of the elite in which coordinate j is 1, the iteration sets

    p ← β p + (1 − β) p̂.

Only the ranks of the scores matter. The iteration is :meth:`_Run.step`; each pattern is scored once
(:class:`_PatternScores`).

A score of a whole batch of patterns may *screen* a pattern: it returns infinity instead of the pattern's
score, if it can prove that the pattern is not elite.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import seconds, whole
from formulations.language.clock import Clock, OutOfTimeError, interrupted
from formulations.language.solution import Status
from formulations.language.types import Vector
from polyopt.base.progress import show
from polyopt.optim.starts import TIE

Bits = NDArray[np.bool_]


def require(holds: bool, name: str, value: object, allowed: str) -> None:
    """Raise ValueError with the allowed values, unless the condition holds."""
    if not holds:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")


@dataclass(frozen=True)
class Rules:
    """Sizes and stopping rules of a run, under their names in :func:`cross_entropy_minimize`."""

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
    def n_elite(self) -> int:
        """Number of elite patterns of an iteration, without ties."""
        return max(ceil(self.rho * self.n_samples - 1e-9), 1)  # in doubles 0.07 · 100 is a little over 7


@dataclass(frozen=True)
class CrossEntropyResult:
    """The result of a search, without multipliers or a bound.

    pattern (n,): the best pattern scored; None without a finite score.
    value: score of that pattern; nan without one.
    p (n,): probabilities at the end.
    status, reason: how the search ended, and why, as text; ``FAILED`` if no pattern has a finite score.
    history: one record per iteration: ``iteration``; ``best`` score so far and ``elite_threshold``;
        ``mean_p`` and ``entropy`` of p after the iteration (mean over the coordinates, in nats, at most
        log 2); ``evaluations``, ``cache_hits``, ``screened`` and ``failures`` of this iteration; ``seconds``
        since the start.
    iterations: number of iterations.
    evaluations: number of patterns scored, including incumbents and failures.
    cache_hits: number of patterns drawn whose score was known.
    screened: number of patterns that a batch scorer proved not to be elite.
    failures: number of patterns whose score is infinite or nan.
    seconds: time taken.
    """

    pattern: Bits | None
    value: float
    p: Vector
    status: Status
    reason: str
    history: tuple[dict[str, float], ...]
    iterations: int
    evaluations: int
    cache_hits: int
    screened: int
    failures: int
    seconds: float

    def __getstate__(self) -> dict[str, Any]:
        """Replace the status by its name, so that formats without enumerations can save the result."""
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
    incumbents: ArrayLike | None = None,
    batch: bool = False,
    improve: Callable[[Bits, float], tuple[Any, float] | None] | None = None,
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> CrossEntropyResult:
    """Minimise a score of 0-1 patterns by the cross-entropy method.

    The method is a heuristic: only a `lower_bound` limits the distance of the result from the optimum.

    Parameters
    ----------
    score : callable
        Takes a pattern, a read-only bool array of shape (n,), and returns a number, to be minimised. It
        must depend on the pattern alone: each pattern is scored once. A score that is infinite or nan counts
        as a failure, and the search goes on.
    n : int
        Coordinates of a pattern.
    p0 : float or array_like of shape (n,), default=0.5
        Initial probabilities of a one. A coordinate at 0 or 1 stays there, unless an incumbent or `improve`
        brings another value into the elite. With low values the search may end at once on the zero pattern,
        if good patterns have more ones than those drawn.
    n_samples : int, default=100
        Number N of patterns drawn in an iteration.
    rho : float, default=0.1
        Fraction ρ of the patterns of an iteration that is elite, above 0 and at most 1. Patterns that tie
        with the last elite one, up to 1e-9 relative, are elite too.
    beta : float, default=0.5
        Smoothing: weight β of the old p, from 0 (p becomes p̂) to under 1.
    patience : int, default=5
        The search ends after so many iterations in a row that lower neither the best score nor the elite
        threshold.
    max_iter : int, default=100
        Maximal number of iterations.
    tol : float, default=1e-3
        The search ends when every probability is within `tol` of 0 or 1. (It also ends when an iteration
        draws no new pattern.)
    lower_bound : float, default=-inf
        Lower bound on all scores: the search ends when the best score attains it, up to 1e-9 relative.
    incumbents : array_like of shape (r, n), optional
        Patterns scored first. They belong to the elite of every iteration whose threshold they meet.
    batch : bool, default=False
        True if ``score(patterns, threshold, wanted)`` takes patterns of shape (s, n) and returns s scores. It
        may *screen* a pattern, that is, return infinity, if it can prove that the score is (a) above
        `threshold`, if that is finite, or (b) above the wanted-th least of the scores returned. `threshold`
        is at most γ of the last iteration, up to ties; if it is too low for this iteration, screened patterns
        are passed again with a higher one, so the result is as without screening. nan, or infinity if neither
        (a) nor (b) is possible, counts as a failure.
    improve : callable, optional
        Takes a pattern (of the elite, or an incumbent) and its score. Returns None, or another pattern and
        its score; these are ignored if the score is higher. Each pattern is improved once, and the results
        are not improved again. Improved patterns replace the elite ones in p̂.
    time_limit : float, optional
        Seconds for the whole search; checked after each pattern, or after each batch. A batch scorer that
        stops earlier returns nan for the remaining patterns.
    random_state : int, Generator or None, default=0
        Seed of the patterns drawn.
    progress : callable, optional
        A function that is called with each record of the history.

    Returns
    -------
    CrossEntropyResult
        The best pattern, also after a limit or Ctrl-C, and the record of the search.

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
    >>> result = cross_entropy_minimize(lambda chosen: abs(numbers[chosen].sum() - 100), len(numbers))
    >>> result.value, int(numbers[result.pattern].sum())
    (0.0, 100)
    """
    whole("n", n, 1)
    seconds(time_limit)
    rules = Rules(n_samples, rho, beta, patience, max_iter, tol)
    p, patterns = _probabilities(p0, n), _patterns(incumbents, n)
    require(callable(score), "score", score, "callable")
    require(improve is None or callable(improve), "improve", improve, "callable, or None")
    require(lower_bound < np.inf, "lower_bound", lower_bound, "a number below infinity")
    clock = Clock(time_limit)
    scores = _PatternScores(score, batch, improve, clock)
    run = _Run(rules, p, lower_bound, scores, clock)
    try:
        run.iterate(patterns, np.random.default_rng(random_state), progress)
    except OutOfTimeError:
        if clock.is_stopped:
            return run.result(Status.INTERRUPTED, "the search was interrupted")
        return run.result(Status.TIME_LIMIT, f"the limit of {time_limit} seconds has passed")
    except KeyboardInterrupt:
        if scores.best is None:
            raise
        return run.result(interrupted(), "the search was interrupted")
    return run.result(run.status or Status.CONVERGED, run.reason)


def _probabilities(p0: ArrayLike, n: int) -> Vector:
    p = np.asarray(p0, dtype=np.float64)
    if p.shape not in ((), (n,)):
        raise ValueError(f"p0 must be a number or of shape ({n},); its shape is {p.shape}")
    require(bool(((p >= 0) & (p <= 1)).all()), "p0", p0, "between 0 and 1")
    return np.broadcast_to(p, n).copy()


def _patterns(incumbents: ArrayLike | None, n: int) -> Bits:
    patterns = np.empty((0, n)) if incumbents is None else np.asarray(incumbents)
    if patterns.ndim != 2 or patterns.shape[1] != n:
        raise ValueError(
            f"incumbents must have shape (r, {n}), one pattern a row; their shape is {patterns.shape}"
        )
    if not np.isin(patterns, (0, 1)).all():
        raise ValueError("incumbents must hold zeros and ones only")
    return patterns.astype(bool)


class _Run:
    """The iterations of a search.

    p (n,): the probabilities.
    status, reason: how the search ended; None and "" until then.
    """

    def __init__(self, rules: Rules, p: Vector, lower_bound: float, scores: "_PatternScores", clock: Clock):
        self.rules, self.p, self.lower_bound, self.scores, self.clock = rules, p, lower_bound, scores, clock
        self.status: Status | None = None
        self.reason = ""
        self.history: list[dict[str, float]] = []
        self.threshold = np.inf  # γ of the last iteration
        self.least = {"best": np.inf, "threshold": np.inf}  # least score drawn and least threshold, so far
        self.idle = 0  # number of iterations in a row that lowered neither of these

    def iterate(
        self, incumbents: Bits, rng: np.random.Generator, progress: Callable[[dict[str, float]], None] | None
    ) -> None:
        """Score the incumbents, then iterate until a rule ends the search; OutOfTimeError at the limit."""
        scores, scored_incumbents = self.scores, _Scored(incumbents, np.empty(0))  # if there are none
        if len(incumbents):
            scored = scores.evaluate(incumbents, n_elite=len(incumbents)).up_to(np.inf)  # without failures
            scored_incumbents = scores.improved(scored)
        while self.status is None:
            if scores.evaluations:
                self.clock.check()
            record = {**self.step(scored_incumbents, rng), "seconds": self.clock.seconds}
            self.history.append(record)
            show(record, lambda: {"p": self.p})
            if progress is not None:
                progress(record)

    def step(self, incumbents: "_Scored", rng: np.random.Generator) -> dict[str, float]:
        """Draw and score patterns, select the elite, and update p; return the iteration's record.

        incumbents: the patterns given by the caller, improved if there is an `improve`.
        """
        rules, scores, old_counts = self.rules, self.scores, self.scores.counts
        patterns = rng.random((rules.n_samples, len(self.p))) < self.p
        was_drawn = scores.were_drawn(patterns)
        drawn = scores.evaluate(patterns, rules.n_elite, self.threshold)
        self.threshold = kth_least(drawn.values, rules.n_elite)
        if self.threshold == np.inf:  # fewer finite scores than elite patterns: all are elite
            self.threshold = max(drawn.values[drawn.values < np.inf], default=np.inf)
        improved = scores.improved(drawn.up_to(self.threshold))  # the elite
        elite = np.concatenate([improved.patterns, incumbents.up_to(self.threshold).patterns])
        if len(elite):
            self.p = rules.beta * self.p + (1 - rules.beta) * elite.mean(axis=0)
        self._stop(float(drawn.values.min()), was_drawn)
        q = np.stack([self.p, 1 - self.p])
        return {
            "iteration": float(len(self.history) + 1),
            "best": scores.best_value,
            "elite_threshold": self.threshold,
            "mean_p": float(self.p.mean()),
            "entropy": float(-np.sum(q * np.log(np.where(q > 0, q, 1.0))) / len(self.p)),
            **{name: float(count - old_counts[name]) for name, count in scores.counts.items()},
        }

    def _stop(self, best_drawn: float, was_drawn: bool) -> None:
        """Set the status if a stopping rule is satisfied."""
        rules = self.rules
        self.idle += 1
        for name, value in (("best", best_drawn), ("threshold", self.threshold)):
            least = self.least[name]
            min_decrease = TIE * abs(least) if least < np.inf else 0.0
            if value < least - min_decrease:
                self.least[name], self.idle = value, 0
        if meets(self.scores.best_value, self.lower_bound):
            self.status, self.reason = Status.CONVERGED, "the best score meets the lower bound"
        elif np.minimum(self.p, 1 - self.p).max() <= rules.tol:
            self.status, self.reason = Status.CONVERGED, f"every probability is within {rules.tol} of 0 or 1"
        elif was_drawn:
            self.status, self.reason = Status.CONVERGED, "an iteration drew no new pattern"
        elif self.idle >= rules.patience:
            lowered = "lowered neither the best score nor the elite threshold"
            self.status, self.reason = Status.CONVERGED, f"{rules.patience} iterations in a row {lowered}"
        elif len(self.history) + 1 >= rules.max_iter:
            self.status, self.reason = Status.ITERATION_LIMIT, f"{rules.max_iter} iterations were made"

    def result(self, status: Status, reason: str) -> CrossEntropyResult:
        """Return the result of a search that ended with this status, for this reason."""
        scores = self.scores
        if scores.best is None:
            status, reason = Status.FAILED, "no pattern has a finite score"
        return CrossEntropyResult(
            pattern=scores.best, value=np.nan if scores.best is None else scores.best_value,
            p=self.p, status=status, reason=reason, history=tuple(self.history),
            iterations=len(self.history), **scores.counts, seconds=self.clock.seconds,
        )  # fmt: skip


def meets(best: float, lower_bound: float) -> bool:
    """Return True if a score attains the lower bound, up to ties."""
    return best < np.inf and best - lower_bound <= TIE * abs(best)


def kth_least(values: Vector, k: int) -> float:
    """Return the k-th least of the values, counted from 1."""
    return float(np.partition(values, k - 1)[k - 1])


def with_ties(value: float) -> float:
    """Return the largest score that ties with `value`: scores are exact only up to a solver's rounding."""
    return value + TIE * abs(value)


class _Scored(NamedTuple):
    """Patterns and their scores."""

    patterns: Bits  # (s, n)
    values: Vector  # (s,) scores, infinite for failures and screened patterns

    def up_to(self, threshold: float) -> "_Scored":
        """Return the patterns with a score up to the threshold, ties included."""
        is_low = (self.values <= with_ties(threshold)) & (self.values < np.inf)
        return _Scored(self.patterns[is_low], self.values[is_low])


class _PatternScores:
    """Scores of patterns, each evaluated once; the best pattern, and the counts of a result.

    The keys of the dictionaries are the patterns, as packed bits.
    """

    def __init__(
        self, score: Callable[..., Any], is_batch: bool,
        improve: Callable[[Bits, float], tuple[Any, float] | None] | None, clock: Clock,
    ):  # fmt: skip
        self._score, self._is_batch, self._improve, self._clock = score, is_batch, improve, clock
        self._values: dict[bytes, float] = {}  # scores, infinite for failures and screened patterns
        self._floors: dict[bytes, float] = {}  # lower bounds on the scores of screened patterns
        self._improved: dict[bytes, tuple[Bits, float]] = {}  # results of `improve`
        self._drawn: set[bytes] = set()  # patterns passed to `evaluate`
        self.evaluations = self.cache_hits = self.screened = self.failures = 0
        self.best_value = np.inf
        self.best: Bits | None = None

    @property
    def counts(self) -> dict[str, int]:
        names = ("evaluations", "cache_hits", "screened", "failures")
        return {name: getattr(self, name) for name in names}

    def were_drawn(self, patterns: Bits) -> bool:
        """Return True if all patterns were drawn before."""
        return self._drawn.issuperset(_keys(patterns))

    def evaluate(self, patterns: Bits, n_elite: int, guess: float = np.inf) -> _Scored:
        """Return patterns (s, n) with their scores, exact for the `n_elite` least scores and their ties.

        guess: estimate of the n_elite-th least score. A batch scorer may screen patterns above it. If fewer
            than `n_elite` scores are below it, the screened patterns are scored again with a sufficient
            threshold, so the result does not depend on the guess.
        OutOfTimeError at the limit; the best pattern so far is kept.
        """
        keys = _keys(patterns)
        evaluated: set[bytes] = set()
        threshold = np.inf
        if self._is_batch:  # if `n_elite` scores are known already, the last of them is sufficient
            threshold = with_ties(min(guess, kth_least(self._known(keys), n_elite)))
        while True:
            rows = {key: row for row, key in enumerate(keys) if not self._is_sufficient(key, threshold)}
            evaluated |= rows.keys()
            if rows:
                self._evaluate(list(rows), patterns[list(rows.values())], threshold, n_elite)
            values = self._known(keys)
            sufficient = with_ties(kth_least(values, n_elite))
            if sufficient <= threshold:
                break
            threshold = sufficient
        self.cache_hits += len(keys) - len(evaluated)
        self.screened += len(evaluated & self._floors.keys())
        self._drawn.update(keys)
        return _Scored(patterns, values)

    def improved(self, elite: _Scored) -> _Scored:
        """Return the elite with each pattern replaced by its improvement."""
        if self._improve is None or not len(elite.patterns):
            return elite
        pairs = [
            self._improvement(key, pattern, value)
            for key, pattern, value in zip(
                _keys(elite.patterns), elite.patterns, elite.values.tolist(), strict=True
            )
        ]
        return _Scored(np.array([pattern for pattern, _ in pairs]), np.array([value for _, value in pairs]))

    def _improvement(self, key: bytes, pattern: Bits, value: float) -> tuple[Bits, float]:
        """Return a pattern's improvement and its score; `improve` is called once for each pattern."""
        if key not in self._improved:
            assert self._improve is not None
            better = self._improve(pattern, value)
            if better is not None:
                new_pattern, new_value = np.asarray(better[0]).astype(bool), float(better[1])
                if new_pattern.shape != pattern.shape:
                    raise ValueError(
                        f"improve must return a pattern of shape {pattern.shape}, not {new_pattern.shape}"
                    )
                if -np.inf < new_value <= value:  # not nan
                    pattern, value = new_pattern, new_value
                    new_key = _keys(pattern)[0]
                    self._values.setdefault(new_key, value)
                    self._improved.setdefault(new_key, (pattern, value))  # it is not improved again
                    self._offer(pattern, value)
            self._improved[key] = pattern, value
        return self._improved[key]

    def _known(self, keys: list[bytes]) -> Vector:
        """Return the known scores, infinite for the others."""
        return np.array([self._values.get(key, np.inf) for key in keys])

    def _is_sufficient(self, key: bytes, threshold: float) -> bool:
        """Return True if the score is known, or proven to be at least the threshold."""
        value = self._values.get(key)  # infinite without a lower bound: a failure, not to be scored again
        return value is not None and (value < np.inf or self._floors.get(key, np.inf) >= threshold)

    def _evaluate(self, keys: list[bytes], patterns: Bits, threshold: float, n_elite: int) -> None:
        """Score patterns and store their values; raise OutOfTimeError if time is up."""
        patterns.setflags(write=False)
        if not self._is_batch:
            for key, pattern in zip(keys, patterns, strict=True):
                self._store(key, pattern, _number(self._score(pattern)))
                if self._clock.is_over:
                    raise OutOfTimeError
            return
        values = np.asarray(self._score(patterns, threshold, n_elite), dtype=np.float64)
        if values.shape != (len(patterns),):
            raise ValueError(
                f"score must return {len(patterns)} scores for as many patterns; "
                f"what it returned has shape {values.shape}"
            )
        # An infinite score is a screened pattern if a proof was possible: the threshold is finite, or at
        # least n_elite scores are. Otherwise it is a failure.
        is_proof = threshold < np.inf or np.isfinite(values).sum() >= n_elite
        finite = np.where(np.isfinite(values), values, np.inf)
        # Lower bound on the score of a screened pattern.
        floor = min(threshold, with_ties(kth_least(finite, min(n_elite, len(values)))))
        for key, pattern, value in zip(keys, patterns, values.tolist(), strict=True):
            if value == np.inf and is_proof:
                self._values[key], self._floors[key] = np.inf, floor
            else:
                self._floors.pop(key, None)
                self._store(key, pattern, value)

    def _store(self, key: bytes, pattern: Bits, value: float) -> None:
        """Store a score that was evaluated."""
        self.evaluations += 1
        self.failures += not np.isfinite(value)
        self._values[key] = value if np.isfinite(value) else np.inf
        self._offer(pattern, self._values[key])

    def _offer(self, pattern: Bits, value: float) -> None:
        """Keep the pattern as the best one if its score is the lowest so far."""
        if value < self.best_value:
            self.best_value, self.best = value, pattern.copy()


def _keys(patterns: Bits) -> list[bytes]:
    """Return the packed bits of each pattern (s, n), or of one pattern (n,)."""
    return [row.tobytes() for row in np.packbits(np.atleast_2d(patterns), axis=1)]


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        raise TypeError(f"score must return a number, not {score!r}") from None
