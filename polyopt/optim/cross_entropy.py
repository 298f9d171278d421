"""The cross-entropy method for 0-1 problems: draw patterns, and shift their distribution to the best of them.

A pattern is a 0-1 vector; its coordinates are drawn as independent Bernoulli variables with probabilities p
(R. Y. Rubinstein and D. P. Kroese, The Cross-Entropy Method, 2004). An iteration (:meth:`_Search.step`)

1. draws N patterns,
2. scores them, each pattern once,
3. finds the threshold γ, the ρ-quantile of the N scores; the *elite* are the patterns with a score up to γ,
4. sets p ← β p + (1 − β) p̂, with p̂_j the fraction of the elite in which coordinate j is 1.

Only the ranks of the scores matter, so a scorer need not score patterns that it can prove not to be elite.
The iterations end by the rules of :meth:`_Search.reason_to_stop`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import seconds, whole
from formulations.language.clock import Clock, OutOfTimeError, interrupted
from formulations.language.solution import Status
from formulations.language.types import Vector
from polyopt.base.progress import show, tell
from polyopt.optim.starts import TIE

Bits = NDArray[np.bool_]

# A function of different patterns (s, n), a threshold and the size of the elite. For each pattern it yields
# the row number, the score, and the pattern that replaces it in the elite, with a score that is not higher.
# It may leave out patterns that it proves to have a score above the threshold, or above as many other scores
# as there are elite patterns. A score of infinity or nan means that its computation has failed.
Scorer = Callable[[Bits, float, int], Iterable[tuple[int, float, Bits, float]]]


def require(holds: bool, name: str, value: object, allowed: str) -> None:
    """Raise ValueError with the `allowed` values, unless the condition holds."""
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
        log 2); ``evaluations`` so far; ``seconds`` since the start.
    iterations: number of iterations.
    evaluations: number of different patterns drawn, including incumbents.
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
    seconds: float

    def __getstate__(self) -> dict[str, Any]:
        """Replace the status by its name, so that formats without enumerations can save the result."""
        return {**self.__dict__, "status": self.status.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "status": Status[state["status"]]})


def cross_entropy_minimize(
    score: Callable[[Bits], float],
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
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = 0,
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
        Initial probabilities of a one. A coordinate at 0 or 1 stays there, unless an incumbent brings another
        value into the elite. With low values the search may end at once on the zero pattern, if good patterns
        have more ones than those drawn.
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
    time_limit : float, optional
        Seconds for the whole search; checked after each pattern.
    random_state : int, Generator or None, default=0
        Seed of the patterns drawn.

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
    require(lower_bound < np.inf, "lower_bound", lower_bound, "a number below infinity")

    def score_each(
        patterns: Bits, threshold: float, n_elite: int
    ) -> Iterable[tuple[int, float, Bits, float]]:
        for row, pattern in enumerate(patterns):
            result: Any = score(pattern)
            try:
                value = float(result)
            except (TypeError, ValueError):
                raise TypeError(f"score must return a number, not {result!r}") from None
            yield row, value, pattern, value

    return search(
        score_each, p, rules,
        incumbents=patterns, lower_bound=lower_bound, clock=Clock(time_limit),
        rng=np.random.default_rng(random_state),
    )  # fmt: skip


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


def search(
    scorer: Scorer, p: Vector, rules: Rules, *, incumbents: Bits, lower_bound: float, clock: Clock,
    rng: np.random.Generator, progress: Callable[[dict[str, float]], None] = tell,
) -> CrossEntropyResult:  # fmt: skip
    """Iterate from the probabilities p (n,); arguments as in :func:`cross_entropy_minimize`.

    progress: receives the record of each iteration.
    """
    run = _Search(scorer, p, rules, lower_bound, clock)
    try:
        run.add_incumbents(incumbents)
        ended = None
        while ended is None:
            if run.seen:
                clock.check()
            run.step(rng)
            ended = run.reason_to_stop()
            show(run.history[-1], lambda: {"p": run.p})
            progress(run.history[-1])
        status, reason = ended
    except OutOfTimeError:
        status, reason = Status.TIME_LIMIT, "the time limit has passed"
        if clock.is_stopped:
            status, reason = Status.INTERRUPTED, "the search was interrupted"
    except KeyboardInterrupt:
        if run.best is None:
            raise
        status, reason = interrupted(), "the search was interrupted"
    if run.best is None:
        status, reason = Status.FAILED, "no pattern has a finite score"
    return CrossEntropyResult(
        run.best, np.nan if run.best is None else run.best_value, run.p, status, reason,
        tuple(run.history), len(run.history), len(run.seen), clock.seconds,
    )  # fmt: skip


class _Search:
    """The state of a search.

    p (n,): the probabilities.
    threshold: γ of the last iteration.
    seen: keys of the different patterns drawn.
    best, best_value: the best pattern and its score.
    """

    def __init__(self, scorer: Scorer, p: Vector, rules: Rules, lower_bound: float, clock: Clock):
        self.scorer, self.p, self.rules = scorer, p, rules
        self.lower_bound, self.clock = lower_bound, clock
        self.threshold = self.best_value = np.inf
        self.best: Bits | None = None
        self.seen: set[bytes] = set()
        self.history: list[dict[str, float]] = []
        self._values: dict[bytes, float] = {}  # known scores, infinite if they could not be computed
        # Patterns, with their scores, that replace those with known scores in the elite
        self._replacements: dict[bytes, tuple[Bits, float]] = {}
        self._incumbents: list[tuple[Bits, float]] = []
        # Least score drawn and least threshold so far, and the number of iterations that lowered neither.
        self._least, self._idle = [np.inf, np.inf], 0
        self._drew_nothing_new = False

    def add_incumbents(self, patterns: Bits) -> None:
        """Score patterns that belong to the elite of every iteration whose threshold they meet."""
        if len(patterns):
            self._incumbents = self._elite(patterns, self._score(patterns, len(patterns)), np.inf)

    def step(self, rng: np.random.Generator) -> None:
        """Make an iteration."""
        rules, n_seen = self.rules, len(self.seen)
        patterns = rng.random((rules.n_samples, len(self.p))) < self.p
        values = self._score(patterns, rules.n_elite)
        self._drew_nothing_new = len(self.seen) == n_seen
        self.threshold = kth_least(values, rules.n_elite)
        if self.threshold == np.inf:  # fewer finite scores than elite patterns: all are elite
            self.threshold = max(values[values < np.inf], default=np.inf)
        elite = [pattern for pattern, _ in self._elite(patterns, values, self.threshold)]
        elite += [pattern for pattern, value in self._incumbents if value <= with_ties(self.threshold)]
        if elite:
            self.p = rules.beta * self.p + (1 - rules.beta) * np.mean(elite, axis=0)
        self._idle += 1
        for k, value in enumerate((float(values.min()), self.threshold)):
            least = self._least[k]
            if value < least - (TIE * abs(least) if least < np.inf else 0.0):
                self._least[k], self._idle = value, 0
        q = np.stack([self.p, 1 - self.p])
        self.history.append({
            "iteration": float(len(self.history) + 1),
            "best": self.best_value,
            "elite_threshold": self.threshold,
            "mean_p": float(self.p.mean()),
            "entropy": float(-np.sum(q * np.log(np.where(q > 0, q, 1.0))) / len(self.p)),
            "evaluations": float(len(self.seen)),
            "seconds": self.clock.seconds,
        })  # fmt: skip

    def reason_to_stop(self) -> tuple[Status, str] | None:
        """Return status and reason if a stopping rule is satisfied, else None."""
        rules = self.rules
        if meets(self.best_value, self.lower_bound):
            return Status.CONVERGED, "the best score meets the lower bound"
        if np.minimum(self.p, 1 - self.p).max() <= rules.tol:
            return Status.CONVERGED, f"every probability is within {rules.tol} of 0 or 1"
        if self._drew_nothing_new:
            return Status.CONVERGED, "an iteration drew no new pattern"
        if self._idle >= rules.patience:
            lowered = "lowered neither the best score nor the elite threshold"
            return Status.CONVERGED, f"{rules.patience} iterations in a row {lowered}"
        if len(self.history) >= rules.max_iter:
            return Status.ITERATION_LIMIT, f"{rules.max_iter} iterations were made"
        return None

    def _score(self, patterns: Bits, n_elite: int) -> Vector:
        """Return the scores of patterns (s, n), infinite for those that are not finite or not elite.

        First the patterns are scored up to the threshold of the last iteration. If fewer than `n_elite` have
        a score up to that, the threshold has risen, and the other patterns are scored as well.

        OutOfTimeError at the limit; the best pattern so far is kept.
        """
        keys = [_key(pattern) for pattern in patterns]
        values = self._known(keys)
        for limit in (with_ties(self.threshold), np.inf):
            rows = {key: row for row, key in enumerate(keys) if key not in self._values}
            if rows:
                new_keys, new = list(rows), patterns[list(rows.values())]
                new.setflags(write=False)
                ceiling = min(limit, with_ties(kth_least(values, n_elite)))
                for row, value, replacement, its_value in self.scorer(new, ceiling, n_elite):
                    key = new_keys[row]
                    self.seen.add(key)
                    self._values[key] = value if np.isfinite(value) else np.inf
                    self._replacements[key] = replacement, its_value
                    self._offer(new[row], self._values[key])
                    self.clock.check()
            values = self._known(keys)
            if with_ties(kth_least(values, n_elite)) <= limit:
                break
        self.seen.update(keys)
        return values

    def _known(self, keys: list[bytes]) -> Vector:
        """Return the known scores, infinite for the others."""
        return np.array([self._values.get(key, np.inf) for key in keys])

    def _elite(self, patterns: Bits, values: Vector, threshold: float) -> list[tuple[Bits, float]]:
        """Return the replacements of patterns with a finite score up to the threshold, and their scores."""
        elite = []
        for pattern in patterns[(values <= with_ties(threshold)) & (values < np.inf)]:
            replacement, value = self._replacements[_key(pattern)]
            key = _key(replacement)
            if key not in self._values:
                self._values[key], self._replacements[key] = value, (replacement, value)
            self._offer(replacement, value)
            elite.append((replacement, value))
        return elite

    def _offer(self, pattern: Bits, value: float) -> None:
        """Keep the pattern as the best one if its score is the lowest so far."""
        if value < self.best_value:
            self.best_value, self.best = value, pattern.copy()


def meets(best: float, lower_bound: float) -> bool:
    """Return True if a score attains the lower bound, up to ties."""
    return best < np.inf and best - lower_bound <= TIE * abs(best)


def kth_least(values: Vector, k: int) -> float:
    """Return the k-th least of the values, counted from 1."""
    return float(np.partition(values, k - 1)[k - 1])


def with_ties(value: float) -> float:
    """Return the largest score that ties with `value`: scores are exact only up to a solver's rounding."""
    return value + TIE * abs(value)


def _key(pattern: Bits) -> bytes:
    return np.packbits(pattern).tobytes()
