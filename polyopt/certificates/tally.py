"""Sums and worst violations over slices of samples, merged in the order of the slices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.certificates.certificate import Residual

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SLICE_ROWS", "Tally", "together"]

SLICE_ROWS = 1 << 14
"""Samples of a slice."""


@dataclass
class Tally:
    """Sums over n samples, the worst of each violation, and least numbers.

    `worst` has, by condition and row, the largest violation and the number of its sample.
    """

    n: int = 0
    sums: dict[str, Any] = field(default_factory=dict)
    worst: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)

    def note(self, condition: str, row: str, violation: NDArray[Any]) -> None:
        """Note the largest of violations, one for each sample; the first NaN, where there is one."""
        at = int(np.argmax(violation))
        self.worst[condition, row] = float(violation[at]), at

    def follow(self, other: Tally) -> None:
        """Add what is found of samples that come after."""
        for name, term in other.sums.items():
            self.sums[name] = self.sums[name] + term if name in self.sums else term
        for key, (value, at) in other.worst.items():
            before = self.worst.get(key, (-np.inf, 0))[0]
            if value > before or (np.isnan(value) and not np.isnan(before)):
                self.worst[key] = value, self.n + at
        for name, number in other.least.items():
            self.least[name] = min(number, self.least.get(name, np.inf))
        self.n += other.n

    def residual(self, condition: str, row: str, scale: float) -> Residual:
        """The worst violation, as :func:`polyopt.certificates.certificate.residual` has it."""
        value, at = self.worst[condition, row]
        value = value if np.isnan(value) else max(value, 0.0) + 0.0  # never -0.0
        worst = at if not value <= 0 and self.n > 1 else None
        return Residual(condition, row, value, value / scale if scale > 0 else value, worst)


def together(tallies: Iterable[Tally]) -> Tally:
    """Merge tallies of some samples, of those after them, and so on."""
    found = Tally()
    for each in tallies:
        found.follow(each)
    return found
