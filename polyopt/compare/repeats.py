"""Means over splits and seeds with their intervals, and differences of test error between methods.

The splits of one data set share most of their training samples, so the plain variance of a mean over them is
too small. Of values on J splits, whose standard deviation is s, the interval is

    mean ± t(J − 1) s √(1/J + n_test/n_train),

t being the 97.5 % point of Student's distribution: the corrected resampled t of Nadeau & Bengio (2003),
Inference for the generalization error, Machine Learning 52, 239-281. Of several seeds on a split the mean
counts as the split's value. A spread of zero is no sign of certainty on so few samples: there is no interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.certificates.certificate import Claim
from polyopt.compare.row import as_plain
from polyopt.methods import METHODS

if TYPE_CHECKING:
    from polyopt.compare.row import Row

__all__ = ["LEVEL", "Difference", "Summary", "differences_of", "interval", "summaries_of"]

LEVEL = 0.95
"""Of every interval."""

_CLAIMS = [claim.name.lower() for claim in Claim]  # the strongest first
_ROUNDING = 1e-12  # of shares: what rounding leaves of equal ones


@dataclass(frozen=True)
class Summary:
    """All fits of a method by a solver on a data set.

    data, method, solver: of what.
    fits, splits, failed: fits, splits they are on, and those among them that have no estimator.
    objective, bound: means.
    relative_gap, residual: the largest.
    claim: the weakest of the certificates' claims.
    complexity: mean number of support vectors or faces; nan where it is not known.
    counts: which of the two.
    test_error: mean share of the test samples that are misclassified.
    test_error_low, test_error_high: its interval: over the splits, or over the seeds where there is one
        split. nan where there is none.
    seconds: mean time of a fit.
    """

    data: str
    method: str
    solver: str
    fits: int
    splits: int
    failed: int
    objective: float
    bound: float
    relative_gap: float
    residual: float
    claim: str
    complexity: float
    counts: str
    test_error: float
    test_error_low: float
    test_error_high: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Every value; numbers that are not finite as None, for JSON."""
        return as_plain(asdict(self))


@dataclass(frozen=True)
class Difference:
    """The test error of one method less that of another, split by split.

    data: on which data.
    method, solver, other, other_solver: the two, and by which solver.
    splits: splits on which both were fitted.
    difference: mean of test error of `method` − test error of `other`.
    low, high: its interval; nan where the splits tell none.
    verdict: ``"lower"`` or ``"higher"`` where the interval is on one side of zero, else ``"not told apart"``;
        ``"equal"`` on every split.
    """

    data: str
    method: str
    solver: str
    other: str
    other_solver: str
    splits: int
    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Verdict of the interval on `method`, compared with `other`."""
        if self.high < 0.0:
            return "lower"
        if self.low > 0.0:
            return "higher"
        equal = np.isnan(self.low) and abs(self.difference) <= _ROUNDING and self.splits > 1
        return "equal" if equal else "not told apart"

    def to_dict(self) -> dict[str, Any]:
        """Every value; numbers that are not finite as None, for JSON."""
        return as_plain({**asdict(self), "verdict": self.verdict})


def interval(values: Iterable[float], ratio: float = 0.0) -> tuple[float, float, float]:
    """The mean of some values, and its interval.

    values: one for each split, or for each seed.
    ratio: test samples for each training sample of a split; 0 for values that share nothing.
    Returns mean, low, high: the ends are nan for fewer than two values, or values without spread.
    """
    from scipy.stats import t

    found = np.asarray(list(values), dtype=float)
    J = len(found)
    mean = float(found.mean()) if J else np.nan
    if J < 2 or not (s := float(found.std(ddof=1))) > _ROUNDING:
        return mean, np.nan, np.nan
    half = float(t.ppf(0.5 + LEVEL / 2, J - 1)) * s * float(np.sqrt(1.0 / J + ratio))
    return mean, mean - half, mean + half


def summaries_of(rows: Sequence[Row], ratios: Mapping[str, float]) -> list[Summary]:
    """One summary for each data set, method and solver, in the order of the rows.

    ratios: test samples for each training sample, by the name of the data set.
    """
    return [_summary(own, ratios[data]) for (data, _, _), own in _grouped(rows).items()]


def differences_of(rows: Sequence[Row], ratios: Mapping[str, float]) -> list[Difference]:
    """Every two methods on each data set, by their fast solvers, on the splits that both have done."""
    found = []
    groups = _grouped(rows)
    for data in dict.fromkeys(row.data for row in rows):
        fast = [key for key in groups if key[0] == data and key[2] == METHODS[key[1]].fast]
        for one, other in combinations(fast, 2):
            first, second = _by_split(groups[one]), _by_split(groups[other])
            common = [split for split in first if split in second]
            if len(common) > 1:
                values = [first[split] - second[split] for split in common]
                found.append(Difference(*one, *other[1:], len(common), *interval(values, ratios[data])))
    return found


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, str, str], list[Row]]:
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.data, row.method, row.solver), []).append(row)
    return groups


def _by_split(rows: Sequence[Row]) -> dict[int, float]:
    """The mean test error of each split, of those whose fits all ended with an estimator."""
    errors: dict[int, list[float]] = {}
    for row in rows:
        errors.setdefault(row.split, []).append(row.test_error)
    return {split: float(np.mean(each)) for split, each in errors.items() if not np.isnan(each).any()}


def _summary(rows: list[Row], ratio: float) -> Summary:
    first, kept = rows[0], [row for row in rows if not np.isnan(row.test_error)]
    by_split = _by_split(rows)
    failed = len(rows) - len(kept)
    several = len({row.split for row in rows}) > 1
    errors = list(by_split.values()) if several else [row.test_error for row in kept]
    error = interval(errors, ratio if several else 0.0)
    if failed:  # a mean over those that ended is not one over the splits
        error = (error[0], np.nan, np.nan)
    error = (error[0], *np.clip(error[1:], 0.0, 1.0).tolist())

    def mean(values: Iterable[float]) -> float:
        found = list(values)
        return float(np.mean(found)) if found else np.nan

    def largest(values: Iterable[float]) -> float:
        return max((value for value in values if not np.isnan(value)), default=np.nan)

    sizes = [np.nan if row.complexity is None else float(row.complexity) for row in kept]
    return Summary(
        first.data, first.method, first.solver, len(rows), len({row.split for row in rows}), failed,
        mean(row.objective for row in kept), mean(row.bound for row in kept),
        largest(row.relative_gap for row in kept), largest(row.residual for row in kept),
        max((row.claim for row in rows), key=_CLAIMS.index), mean(sizes), first.counts,
        *error, mean(row.seconds for row in kept),
    )  # fmt: skip
