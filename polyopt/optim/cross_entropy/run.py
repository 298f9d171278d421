"""One run of the cross-entropy method, iteration by iteration."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from formulations.language.arguments import whole
from formulations.language.solution import Status
from polyopt.optim.cross_entropy.evaluation import require
from polyopt.optim.cross_entropy.patterns import PatternScores, Scored, kth_least, with_ties
from polyopt.optim.starts import TIE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Rules", "Run", "meets"]


@dataclass(frozen=True)
class Rules:
    """The rules of a run: draws, elite and stopping.

    Attributes as the parameters of :func:`~polyopt.optim.cross_entropy.cross_entropy_minimize`.
    """

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


class Run:
    """The iterations from one start.

    p (n,): probabilities to start from.
    lower_bound: A number that no score is below.

    p (n,): probabilities now.
    status: how the run ended; None while it has not.
    """

    def __init__(self, rules: Rules, p: NDArray[np.float64], lower_bound: float = -np.inf):
        self.rules, self.p, self._bound = rules, p, lower_bound
        self.status: Status | None = None
        self.reason = ""
        self._threshold = np.inf  # of the last iteration
        self._least = {"best": np.inf, "threshold": np.inf}  # that patience has been given for
        self._waited = self._iterations = 0

    def step(self, scores: PatternScores, standing: Scored, rng: np.random.Generator) -> dict[str, float]:
        """Draw, score, choose the elite, and move p towards them.

        standing: patterns that belong to the elite whenever their values meet the threshold.
        """
        rules, before = self.rules, _counts(scores)
        drawn = rng.random((rules.n_samples, len(self.p))) < self.p
        found = scores.of(drawn, rules.elite, self._threshold)
        self._threshold = kth_least(found.values, rules.elite)
        if self._threshold == np.inf:  # fewer scores than elite places: all of them are elite
            self._threshold = max(found.values[found.values < np.inf], default=np.inf)
        elite = np.concatenate(
            [
                scores.improved(_elite_of(found, self._threshold)).patterns,
                _elite_of(standing, self._threshold).patterns,
            ]
        )
        if len(elite):
            self.p = rules.beta * self.p + (1 - rules.beta) * elite.mean(axis=0)
        self._iterations += 1
        self._wait(found.values.min())
        self._judge(found.asked_before, scores.best_value)
        return {
            "iteration": float(self._iterations),
            "best": scores.best_value,
            "elite_threshold": self._threshold,
            "mean_p": float(self.p.mean()),
            "entropy": _entropy(self.p),
            **{name: float(count - before[name]) for name, count in _counts(scores).items()},
        }

    def shown(self) -> dict[str, NDArray[np.float64]]:
        """The probabilities by name, for whoever sees the run."""
        return {"p": self.p}

    def _wait(self, best: float) -> None:
        self._waited += 1
        for name, value in (("best", best), ("threshold", self._threshold)):
            least = self._least[name]
            if value < least - (TIE * abs(least) if least < np.inf else 0.0):
                self._least[name], self._waited = value, 0

    def _judge(self, nothing_new: bool, best: float) -> None:
        rules = self.rules
        if meets(best, self._bound):
            self.status, self.reason = Status.CONVERGED, "the best score meets the lower bound"
        elif np.minimum(self.p, 1 - self.p).max() <= rules.tol:
            self.status, self.reason = Status.CONVERGED, f"every probability is within {rules.tol} of 0 or 1"
        elif nothing_new:
            self.status, self.reason = Status.CONVERGED, "an iteration drew no new pattern"
        elif self._waited >= rules.patience:
            lowered = "lowered neither the best score nor the elite threshold"
            self.status, self.reason = Status.CONVERGED, f"{rules.patience} iterations in a row {lowered}"
        elif self._iterations >= rules.max_iter:
            self.status, self.reason = Status.ITERATION_LIMIT, f"{rules.max_iter} iterations were made"


def meets(best: float, lower_bound: float) -> bool:
    """True if a score meets the lower bound, up to ties."""
    return best < np.inf and best - lower_bound <= TIE * abs(best)


def _elite_of(group: Scored, threshold: float) -> Scored:
    """The patterns that have a score up to the threshold, ties included."""
    elite = (group.values <= with_ties(threshold)) & (group.values < np.inf)
    return Scored(group.values[elite], group.patterns[elite], group.asked_before)


def _counts(scores: PatternScores) -> dict[str, int]:
    return {
        "evaluations": scores.evaluations,
        "cache_hits": scores.cache_hits,
        "screened": scores.screened,
        "failures": scores.failures.total(),
    }


def _entropy(p: NDArray[np.float64]) -> float:
    """Mean entropy of the coordinates, in nats."""
    q = np.stack([p, 1 - p])
    return float(-np.sum(q * np.log(np.where(q > 0, q, 1.0))) / len(p))
