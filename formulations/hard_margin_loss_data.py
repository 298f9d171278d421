"""The data of the SVM with the hard-margin loss, and what they say of a point.

:mod:`formulations.hard_margin_loss` states the programs; the solvers and the certificates need only what is
here, and no modelling language.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist

from formulations.matrices import dense
from formulations.recovery import as_costs, as_data

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike, Vector

    Bits = NDArray[np.bool_]

__all__ = ["HardMarginLossData", "as_hard_margin_loss_data"]

_MET = 1e-7  # a margin that falls short of 1 by no more is met: a solver's rounding


@dataclass(frozen=True)
class HardMarginLossData:
    """One problem, its numbers checked; made by :func:`as_hard_margin_loss_data`.

    Attributes
    ----------
    X, y : ndarray of shape (n, m), (n,)
        Samples and labels -1 and +1, of both classes.
    costs : ndarray of shape (n,)
        C_i, what it costs to give sample i up; positive.
    """

    X: Vector
    y: Vector
    costs: Vector

    @cached_property
    def centre(self) -> Vector:
        """The mean of the samples, shape (m,): no difference of samples depends on it, but rounding does."""
        return np.asarray(self.X.mean(axis=0))

    def margins(self, w: Vector, b: float) -> Vector:
        """The margins y_i (w·x_i + b), shape (n,)."""
        return np.asarray(self.y * (self.X @ w + b))

    def met(self, w: Vector, b: float) -> Bits:
        """Which samples have a margin of 1, up to 1e-7."""
        return self.margins(w, b) >= 1.0 - _MET

    def value(self, w: Vector, b: float) -> float:
        """½‖w‖² and the costs of the samples given up."""
        return 0.5 * float(w @ w) + float(self.costs[~self.met(w, b)].sum())

    def idle(self) -> tuple[Vector, float]:
        """The best point with w = 0: it gives up the cheaper class."""
        sign = 1.0 if self.costs[self.y > 0].sum() >= self.costs[self.y < 0].sum() else -1.0
        return np.zeros(self.X.shape[1]), sign

    def at_most(self) -> float:
        """U, the value of :meth:`idle`: no optimum is above it."""
        return float(min(self.costs[self.y > 0].sum(), self.costs[self.y < 0].sum()))

    def big_m(self, upper: float | None = None) -> Vector:
        """M_i, so large that the row of a sample given up is slack at an optimum; shape (n,).

        Parameters
        ----------
        upper : float, optional
            U, the value of any point; by default :meth:`at_most`.

        Notes
        -----
        At an optimum ½‖w‖² ≤ U. Let sample k of i's class be kept: then
        y_i (w·x_i + b) ≥ 1 − ‖w‖ ‖x_i − x_k‖, so that M_i = √(2U) max_k ‖x_i − x_k‖ is enough. If none of
        i's class is kept, w = 0 and b = −y_i are optimal, and 2 is enough.
        """
        length = np.sqrt(2.0 * (self.at_most() if upper is None else upper))
        found = np.full(len(self.y), 2.0)
        for sign in (-1.0, 1.0):
            own = self.y == sign
            apart = cdist(self.X[own], self.X[own]).max(axis=1)
            found[own] = np.maximum(2.0, (1.0 + 1e-9) * length * apart)
        return found


def as_hard_margin_loss_data(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0) -> HardMarginLossData:
    """Check the numbers of a problem.

    Parameters
    ----------
    X : array_like or CSR matrix of shape (n, m)
        Samples.
    y : array_like of shape (n,)
        Labels -1 and +1, both of them.
    C : float or array_like of shape (n,)
        What it costs to give a sample up; positive.

    Raises
    ------
    ValueError
        Shapes that do not fit, numbers that are not finite, labels other than -1 and +1, one class alone, or
        a cost that is not positive.
    """
    given, labels = as_data(X, y)
    costs = as_costs(C, len(labels))
    if not (costs > 0).all():
        raise ValueError(f"C must be positive for every sample; its least is {costs.min():g}")
    if np.unique(labels).size < 2:
        raise ValueError("y must hold both classes: with one there is nothing to separate")
    return HardMarginLossData(dense(given), labels, costs)
