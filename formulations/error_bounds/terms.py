"""Terms of the bounds on the error of fitted machines, and grids of classes.

Every bound is that of one class of machines, fixed beforehand, with the confidence δ'. The δ' of a countable
family of classes sum to at most δ, so that the class may be chosen afterwards (union bound): steps 4 to 6 of
the proof in :mod:`formulations.error_bounds.rademacher`.
"""

from dataclasses import dataclass
from math import inf, log
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import tolerance
from formulations.language.types import Array

_RATIO = 1.1  # ρ
_MIN_J = -60  # of the smallest radius ρ^j: a machine of smaller norm lies in its class as well
_MARGINS = np.geomspace(1e-3, 1e3, 61)  # candidates besides 1, in units of the largest |f|


@dataclass(frozen=True)
class ErrorBound:
    """A bound on the error of a machine, term by term."""

    empirical: float  # mean over the samples of the ramp min(1, [1 − y f/γ]_+)
    hinge: float  # mean of [1 − y f/γ]_+, the papers' loss, by which ``empirical`` may be replaced
    capacity: float  # twice the bound on the Rademacher complexity of the machines of the class
    confidence: float  # 3 √(ln(2/δ)/2n), the term of confidence of a single class fixed beforehand
    price: float  # increase of the term of confidence by the choice among the classes
    gamma: float  # the margin γ
    delta: float  # the probability that the bound fails
    form: str  # the form of the capacity

    @property
    def total(self) -> float:
        """The bound on P(y f(x) ≤ 0)."""
        return self.empirical + self.capacity + self.confidence + self.price

    @property
    def vacuous(self) -> bool:
        """True if the bound is 1 or more, and says nothing."""
        return self.total >= 1.0

    @property
    def words(self) -> str:
        """The form, in words."""
        return self.form

    def __str__(self) -> str:
        verdict = "says nothing" if self.vacuous else f"holds with probability {1 - self.delta:.6g}"
        return (
            f"error ≤ {self.total:.4g} = {self.empirical:.4g} (ramp loss at margin {self.gamma:.4g}) + "
            f"{self.capacity:.4g} (capacity, {self.words}) + {self.confidence:.4g} (confidence) + "
            f"{self.price:.4g} (choice of class); {verdict}"
        )


def rounded_up(radii: ArrayLike) -> tuple[Any, Any]:
    """Round radii up to the grid ρ^j, ρ = 1.1; return j and ρ^j."""
    j = np.ceil(np.log(np.maximum(radii, _RATIO**_MIN_J)) / log(_RATIO))
    return j, _RATIO**j


def log_inverse_weight(j: ArrayLike) -> Any:
    """Return ln(1/π_j) for π_j = 2 / (3 (|j|+1)(|j|+2)), which adds up to 1 over all integers j."""
    return np.log(1.5 * (np.abs(j) + 1) * (np.abs(j) + 2))


def confidence(n: int, delta: float, log_inverse_share: ArrayLike = 0.0) -> Any:
    """Return 3 √(ln(2/δ')/2n), for `log_inverse_share` = ln(δ/δ')."""
    return 3.0 * np.sqrt((log(2.0 / tolerance(delta, "delta")) + np.asarray(log_inverse_share)) / (2 * n))


def ramp(margins: Array, gamma: float) -> tuple[float, float]:
    """Return the means of the ramp and of the hinge at the margin γ."""
    hinge = np.maximum(0.0, 1.0 - margins / gamma)
    return float(np.minimum(hinge, 1.0).mean()), float(hinge.mean())


def margins_to_try(margins: Array, gamma: float | Literal["best"]) -> Array:
    """Return the given margin, or a grid for gamma="best"."""
    if isinstance(gamma, str):
        if gamma != "best":
            raise ValueError(f"gamma must be positive or 'best', not {gamma!r}")
        return np.append(1.0, _MARGINS * (float(np.abs(margins).max()) or 1.0))
    if not 0.0 < gamma < inf:
        raise ValueError(f"gamma must be positive and finite, or 'best', not {gamma!r}")
    return np.array([float(gamma)])
