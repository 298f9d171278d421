"""What the programs of the L0 support vector machine share, with a price of squares and without.

:mod:`formulations.l0` and :mod:`formulations.l0_ridge` state them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from formulations.expansion import SAVED, Expansion, Unknowns
from formulations.l0_data import L0Data, as_patterns
from formulations.program import Row
from formulations.samples import two_blobs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.matrices import Vector

__all__ = [
    "CAP_OF_PATTERN", "LETTERS", "SOURCE", "chosen_of", "inverse_of", "numbers_of", "price_of", "primal_rows",
    "rows_of", "sample",
]  # fmt: skip

SOURCE = "Mannor, Peleg & Rubinstein, slides"
LETTERS = {
    "Kᵢⱼ": "the kernel of sample $i$ and centre $j$",
    "tⱼ": "the label of centre $j$, +1 or −1",
    "σⱼ": "whether centre $j$ may be used, 1 or 0",
    "wᵢ": "the weight of sample $i$, 1 by default",
    "C": "the price of loss, and the cap on a coefficient",
    "yᵢ": "the label of sample $i$, +1 or −1",
}
_CAP, CAP_OF_PATTERN = "αⱼ ≤ C", "αⱼ ≤ C σⱼ"  # the row cap, as printed


def price_of(data: L0Data) -> cp.Parameter:
    """C as a parameter."""
    return cp.Parameter(nonneg=True, name="C", value=data.C)


def inverse_of(price: cp.Parameter) -> cp.Parameter:
    """One over a parameter, as a parameter."""
    return cp.CallbackParam(lambda: 1.0 / price.value, shape=(), nonneg=True)


def chosen_of(data: L0Data, sigma: ArrayLike) -> cp.Parameter:
    """A pattern as a parameter of shape (p,)."""
    p = len(data.centres)
    return cp.Parameter(p, nonneg=True, name="sigma", value=as_patterns(sigma, p))


def numbers_of(data: L0Data) -> dict[str, Vector]:
    """The letters that are data."""
    return {"K": data.K, "y": data.y, "t": data.centres, "w": data.weights}


def rows_of(data: L0Data) -> Expansion:
    """The kernel matrix with its labels."""
    return Expansion(data.K, data.y, data.centres)


def primal_rows(data: L0Data, at: Unknowns, cap: cp.Constraint, text: str = _CAP) -> tuple[Row, ...]:
    """The rows of a primal.

    Parameters
    ----------
    data : L0Data
        The problem.
    at : Unknowns
        The variables.
    cap : cvxpy.Constraint
        The row ``cap``.
    text : str
        That row as printed.
    """
    return (*rows_of(data).primal_rows(at, "its price of slack"), Row("cap", cap, text, "s", SAVED))


def sample(seed: int, n: int = 40) -> tuple[Vector, Vector, Vector]:
    """An asymmetric indefinite kernel matrix (n, n), labels and weights (n,).

    Parameters
    ----------
    seed : int
        Of the generator.
    n : int
        Samples.
    """
    X, y = two_blobs(n=n, seed=seed)
    noise = np.random.default_rng(seed).normal(size=(len(y), len(y)))
    return np.tanh(0.5 * X @ X.T - 0.3) + 0.1 * noise, y, np.where(y > 0, 1.0, 0.7)
