"""The classes of large-margin machines among which a bound may choose, and which of them is best.

For the theorem of :mod:`formulations.margin_bounds`: c = 2^a is the constant feature, D = 4^k in units of the
landmarks' mean squared length is the weight of the outputs. Of class F all a are tried, of G all k for a near
F's, and of H the neighbours of G's best as long as they are better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from formulations.error_bounds import confidence, log_odds_against, margins_to_try, ramp, rounded_up

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.landmarks import Landmarks
    from formulations.matrices import Array

__all__ = ["FORMS", "Form", "HeldClasses", "MachineClass", "Sample", "class_f"]

Form = Literal["F", "G", "H"]
FORMS = {"F": "small weights", "G": "small outputs on the average", "H": "every output small"}

_CONSTANTS = np.arange(-30, 31)  # a
_NEARBY = 2  # so far from class F's a is class G's sought
_WEIGHTS = np.arange(-12, 13)  # k
_GAP = 1e-4  # within which the least τ is sought: its root counts


@dataclass(frozen=True)
class MachineClass:
    """A class but for its radius: what holds a machine in it, and what the choice costs."""

    form: Form
    constant: float
    D: float
    norm: float
    trace: float
    against: float
    gap: float = 0.0


class Sample:
    """Margins of the samples, and the totals of classes at all margins γ that are tried."""

    def __init__(self, margins: Array, delta: float, gamma: float | Literal["best"]):
        self.n, self.delta, self.gammas = len(margins), delta, margins_to_try(margins, gamma)
        self.losses = np.array([ramp(margins, value) for value in self.gammas])

    def totals(self, norm: ArrayLike, trace: ArrayLike, against: ArrayLike) -> Array:
        """Bounds, of the shape of the arguments and one axis more for γ."""
        j, radii = rounded_up(np.divide.outer(np.asarray(norm, dtype=float), self.gammas))
        capacity = 2.0 / self.n * radii * np.sqrt(trace)[..., None]
        price = np.asarray(against)[..., None] + log_odds_against(j)
        return np.asarray(self.losses[:, 0] + capacity + confidence(self.n, self.delta, price))

    def total(self, of: MachineClass) -> float:
        """The bound of a class at its best γ."""
        return float(self.totals(of.norm, of.trace, of.against).min())


def class_f(sample: Sample, norm: float, b: float, trace: float, share: float) -> MachineClass:
    """Class F with the constant that is best for it."""
    constants = 2.0**_CONSTANTS
    norms, traces = np.hypot(norm, b / constants), trace + sample.n * constants**2
    against = share + log_odds_against(_CONSTANTS)
    best = int(sample.totals(norms, traces, against).min(axis=1).argmin())
    return MachineClass(
        "F", float(constants[best]), 0.0, float(norms[best]), float(traces[best]), against[best]
    )


class HeldClasses:
    """The classes G and H of a machine: a is the number of the constant, k that of D."""

    def __init__(self, landmarks: Landmarks, norm: float, b: float, outputs: Array, share: float):
        self.landmarks, self.norm, self.b, self.share = landmarks, norm, b, share
        self.outputs = np.abs(outputs)
        self._lifted: dict[int, Landmarks] = {}
        self._every: dict[tuple[int, int], MachineClass] = {}

    def _at(self, a: int) -> tuple[Landmarks, float, Array, float]:
        """Landmarks with the constant 2^a, ‖w̃‖, outputs at the landmarks, and the unit of D."""
        if a not in self._lifted:
            self._lifted[a] = self.landmarks.with_constant(2.0**a)
        seen, norm = self._lifted[a], float(np.hypot(self.norm, self.b / 2.0**a))
        # The basis leaves out what rounding would drown; the outputs allow for it.
        return seen, norm, self.outputs + norm * seen.missing, 1.0 / float(np.mean(np.diag(seen.kernel)))

    def _against(self, a: int, k: Any) -> Any:
        return self.share + log_odds_against(a) + log_odds_against(k)

    def average(self, a: int, k: int) -> MachineClass:
        """Class G."""
        seen, norm, outputs, unit = self._at(a)
        D = 4.0**k * unit
        size = sqrt(norm**2 + D * float(np.mean(outputs**2)))
        return MachineClass("G", 2.0**a, D, size, float(seen.equal_weights(D)), self._against(a, k))

    def every(self, a: int, k: int) -> MachineClass:
        """Class H."""
        if (a, k) not in self._every:
            seen, norm, outputs, unit = self._at(a)
            D = 4.0**k * unit
            least = seen.least(D, _GAP)
            size = sqrt(norm**2 + D * float(outputs.max() ** 2))
            # The capacity has the root of τ.
            gap = 1.0 - sqrt(1.0 - least.gap)
            self._every[a, k] = MachineClass("H", 2.0**a, D, size, least.trace, self._against(a, k), gap)
        return self._every[a, k]

    def best_average(self, sample: Sample, near: int) -> tuple[int, int]:
        """(a, k) of the best class G, for a near a given one."""
        found = []
        for a in range(near - _NEARBY, near + _NEARBY + 1):
            seen, norm, outputs, unit = self._at(a)
            D = 4.0**_WEIGHTS * unit
            norms = np.sqrt(norm**2 + D * float(np.mean(outputs**2)))
            totals = sample.totals(norms, seen.equal_weights(D), self._against(a, _WEIGHTS)).min(axis=1)
            found.append((float(totals.min()), a, int(_WEIGHTS[totals.argmin()])))
        return min(found)[1:]

    def best_every(self, sample: Sample, start: tuple[int, int]) -> MachineClass:
        """The best class H that steps from (a, k) to better neighbours come to."""
        here = self.every(*start)
        a, k = start
        while True:
            around = [(near, self.every(*near)) for near in _neighbours(a, k)]
            (there, best) = min(around, key=lambda item: sample.total(item[1]))
            if sample.total(best) >= sample.total(here):
                return here
            (a, k), here = there, best


def _neighbours(a: int, k: int) -> Iterator[tuple[int, int]]:
    yield from ((a - 1, k), (a + 1, k))
    yield from ((a, near) for near in (k - 1, k + 1) if _WEIGHTS[0] <= near <= _WEIGHTS[-1])
