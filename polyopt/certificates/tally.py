"""Sums, worst violations, minima and maxima over all samples, merged from consecutive slices of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyopt.certificates.certificate import Residual

SAMPLES_PER_SLICE = 1 << 14
"""Number of samples in a slice."""


@dataclass
class Tally:
    """Results over n consecutive samples.

    sums: by name, numbers, arrays or intervals (:class:`polyopt.linalg.rounding.Ball`).
    worst: by condition and row (as in :class:`Residual`), the largest violation and the index of its sample.
    least, largest: by name, minima and maxima.
    """

    n: int = 0  # set by the code that fills the tally
    sums: dict[str, Any] = field(default_factory=dict)
    worst: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)

    def note(self, condition: str, row: str, violation: NDArray[Any]) -> None:
        """Record the largest entry of a condition's violations (n,), or the first NaN if there is one."""
        sample = int(np.argmax(violation))
        self.worst[condition, row] = float(violation[sample]), sample

    def append(self, later: "Tally") -> None:
        """Add the results of the samples right after these."""
        for name, term in later.sums.items():
            self.sums[name] = self.sums[name] + term if name in self.sums else term
        for key, (value, sample) in later.worst.items():
            current = self.worst.get(key, (-np.inf, 0))[0]
            if value > current or (np.isnan(value) and not np.isnan(current)):
                self.worst[key] = value, self.n + sample
        for name, extremum in later.least.items():
            self.least[name] = min(extremum, self.least.get(name, np.inf))
        for name, extremum in later.largest.items():
            self.largest[name] = max(extremum, self.largest.get(name, -np.inf))
        self.n += later.n

    def residual(self, condition: str, row: str, scale: float) -> Residual:
        """Return the largest violation as a residual; a `scale` of 0 leaves the value undivided."""
        value, sample = self.worst[condition, row]
        value = value if np.isnan(value) else max(value, 0.0) + 0.0  # never -0.0
        is_violated = not value <= 0.0  # true also for NaN
        worst_sample = sample if is_violated and self.n > 1 else None  # a single sample needs no index
        return Residual(condition, row, value, value / scale if scale > 0 else value, worst_sample)


def merge(tallies: Iterable[Tally]) -> Tally:
    """Merge the tallies of consecutive slices, in their order."""
    merged = Tally()
    for tally in tallies:
        merged.append(tally)
    return merged
