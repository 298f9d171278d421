"""The terms that all bounds on the error of fitted machines f share, and the grids of radii and margins.

For one class of machines and one margin γ, fixed before the n samples are seen, with probability 1 − δ'

    P(y f(x) ≤ 0)  ≤  mean of min(1, [1 − y_i f(x_i)/γ]_+)  +  capacity of the class  +  3 √( ln(2/δ') / 2n ).

Here y = ±1 is the label of x. A class has all machines whose norms are at most its radii, which are of the
form ρ^j with integers j. The δ' of all classes sum to at most δ, so the class may be chosen after the fit
(union bound). The proof is in :mod:`formulations.error_bounds.rademacher`, steps 4 to 6.
"""

from dataclasses import dataclass
from math import inf, log
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import tolerance
from formulations.language.types import Array

_RATIO = 1.1  # ρ, the ratio of consecutive radii
_MIN_J = -60  # exponent of the smallest radius: a machine of smaller norm lies in its class as well
_MARGIN_GRID = np.geomspace(1e-3, 1e3, 61)  # candidates for γ relative to the largest |f|, besides γ = 1


@dataclass(frozen=True)
class ErrorBound:
    """A bound on the error of a machine, term by term."""

    empirical: float  # mean over the samples of the ramp loss min(1, [1 − y f/γ]_+)
    hinge: float  # mean of the hinge loss [1 − y f/γ]_+, at least ``empirical``; the papers use it instead
    capacity: float  # twice the bound on the Rademacher complexity of the machines of the class
    confidence: float  # 3 √(ln(2/δ)/2n), the last term for a single class
    price: float  # increase of the last term by the choice among the classes, with δ' in place of δ
    gamma: float  # the margin γ
    delta: float  # the probability that the bound fails
    form: str  # name of the class or formula of the capacity, such as "H" or "faces"

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
        """The form; a subclass may describe it."""
        return self.form

    def __str__(self) -> str:
        verdict = "says nothing" if self.vacuous else f"holds with probability {1 - self.delta:.6g}"
        return (
            f"error ≤ {self.total:.4g} = {self.empirical:.4g} (ramp loss at margin {self.gamma:.4g}) + "
            f"{self.capacity:.4g} (capacity, {self.words}) + {self.confidence:.4g} (confidence) + "
            f"{self.price:.4g} (choice of class); {verdict}"
        )


def rounded_up(radii: ArrayLike) -> tuple[Any, Any]:
    """Round numbers up to radii ρ^j of the grid; return (j, ρ^j), each of the shape of `radii`."""
    j = np.ceil(np.log(np.maximum(radii, _RATIO**_MIN_J)) / log(_RATIO))
    return j, _RATIO**j


def log_inverse_weight(j: ArrayLike) -> Any:
    """Return ln(1/π_j), where π_j = 2 / (3 (|j|+1)(|j|+2)) is the radius ρ^j's share of δ; Σ_j π_j = 1."""
    return np.log(1.5 * (np.abs(j) + 1) * (np.abs(j) + 2))


def confidence(n: int, delta: float, log_inverse_share: ArrayLike = 0.0) -> Any:
    """Return the last term, 3 √(ln(2/δ')/2n), for `log_inverse_share` = ln(δ/δ')."""
    return 3.0 * np.sqrt((log(2.0 / tolerance(delta, "delta")) + np.asarray(log_inverse_share)) / (2 * n))


def ramp(margins: Array, gamma: float) -> tuple[float, float]:
    """Return (mean ramp loss, mean hinge loss) at the margin γ; `margins` are the y_i f(x_i)."""
    hinge = np.maximum(0.0, 1.0 - margins / gamma)
    return float(np.minimum(hinge, 1.0).mean()), float(hinge.mean())


def margins_to_try(margins: Array, gamma: float | Literal["best"]) -> Array:
    """Return the candidates for γ: the given one, or a grid for "best"; `margins` are the y_i f(x_i)."""
    if isinstance(gamma, str):
        if gamma != "best":
            raise ValueError(f"gamma must be positive or 'best', not {gamma!r}")
        return np.append(1.0, _MARGIN_GRID * (float(np.abs(margins).max()) or 1.0))
    if not 0.0 < gamma < inf:
        raise ValueError(f"gamma must be positive and finite, or 'best', not {gamma!r}")
    return np.array([float(gamma)])
