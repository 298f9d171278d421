"""Reduction over slices of the samples, in their order: sums, worst violations, minima and maxima."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyopt.certificates.certificate import Residual

SLICE_ROWS = 1 << 14
"""Samples of a slice."""


@dataclass
class Tally:
    """Partial results over n consecutive samples, each by its name.

    sums: numbers, arrays or intervals (:class:`polyopt.linalg.rounding.Ball`).
    worst: by condition and row, the largest violation and the index of its sample.
    least, largest: minima and maxima.
    """

    n: int = 0
    sums: dict[str, Any] = field(default_factory=dict)
    worst: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)

    def note(self, condition: str, row: str, violation: NDArray[Any]) -> None:
        """Record the largest entry of a condition's violations (n,), or the first NaN if there is one."""
        sample = int(np.argmax(violation))
        self.worst[condition, row] = float(violation[sample]), sample

    def append(self, later: "Tally") -> None:
        """Add the results of the samples that follow directly."""
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
        """Return the worst violation as a :class:`Residual`, relative to `scale`."""
        value, sample = self.worst[condition, row]
        value = value if np.isnan(value) else max(value, 0.0) + 0.0  # never -0.0
        worst = sample if not value <= 0 and self.n > 1 else None
        return Residual(condition, row, value, value / scale if scale > 0 else value, worst)


def merge(tallies: Iterable[Tally]) -> Tally:
    """Merge the tallies of consecutive slices, in their order."""
    merged = Tally()
    for tally in tallies:
        merged.append(tally)
    return merged
