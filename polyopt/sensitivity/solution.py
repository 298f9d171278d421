"""The parts of every slope: a machine's value and multipliers, and a test of their uniqueness."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polyopt.certificates.certificate import Claim

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Array
    from polyopt.certificates.certificate import Certificate

__all__ = [
    "ROW_TOL",
    "Certified",
    "Solved",
    "are_independent",
    "need_multipliers",
    "paid",
    "value_of",
    "warn_of",
]

ROW_TOL = 1e-6  # within which, in units of the outputs, a row holds


class Certified(Protocol):
    """A fitted machine that can say how far from optimal it is."""

    def certificate(self, tol: float = ...) -> Certificate:
        """Its certificate, as :meth:`polyopt.estimators.base.PairwiseClassifier.certificate`."""


class Solved(Protocol):
    """A fitted machine with multipliers."""

    solver: str

    @property
    def duals_(self) -> pd.DataFrame:
        """One row per constraint."""


def value_of(machine: Certified, tol: float, scale: float = 0.0) -> float:
    """The value at the machine's solution, with a warning where it is not shown to be an optimum.

    tol: relative tolerance of its certificate.
    scale: what a value that is 0 but for rounding was added up from.
    """
    certificate = machine.certificate(tol)
    proven = certificate.claim in (Claim.OPTIMAL, Claim.STATIONARY)
    # For its assignment, cells or responsibilities a machine may be optimal though another would do better.
    if not (proven or certificate.relative_gap <= tol or certificate.gap <= 1e-12 * scale):
        warn_of(machine, certificate.sentence)
    return certificate.primal_value


def warn_of(machine: object, sentence: str) -> None:
    """Tell that slopes are not those of an optimum.

    sentence: how far it is from its optimum.
    """
    warnings.warn(
        f"{type(machine).__name__}: these are slopes of the Lagrangian at the point reached, not of the "
        f"optimum. {sentence}",
        ConvergenceWarning,
        stacklevel=6,
    )


def need_multipliers(machine: Solved, multipliers: ArrayLike | None) -> None:
    """Refuse a machine whose solver left no multipliers.

    multipliers: its multipliers; missing ones are nan.
    ValueError: there are none.
    """
    if multipliers is None or np.isnan(np.asarray(multipliers)).any():
        raise ValueError(
            f"solver={getattr(machine, 'solver_', machine.solver)!r} of {type(machine).__name__} has no "
            "multipliers; fit it with solver='exact'"
        )


def are_independent(rows: Array) -> bool:
    """Return True if the rows of a matrix are linearly independent."""
    n, m = rows.shape
    return n == 0 or (n <= m and int(np.linalg.matrix_rank(rows)) == n)


def paid(duals: pd.DataFrame, rows: NDArray[np.intp], weights: Array) -> tuple[Array, Array]:
    """Every slack that is paid for, and the weight of its sample.

    rows (n,): numbers of its samples in the data given to ``fit``.
    weights (n,): their weights.
    """
    import pandas as pd

    slack = duals.query("row == 'slack'")
    by_sample = pd.Series(weights, index=rows)
    xi, mine = slack["slack"], by_sample[slack["sample"]]
    return np.asarray(xi, dtype=np.float64), np.asarray(mine, dtype=np.float64)
