"""What is to be solved: the samples, the costs, the bound and the regulariser, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.recovery import as_costs, as_data
from polyopt.solvers.decomposition.dual import Dual
from polyopt.solvers.interior_point.rows import Rows
from polyopt.solvers.interior_point.system import Regulariser

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["Problem", "read"]

_CONSTANT = 1e-12  # a spread under this share of the mean is rounding


@dataclass(frozen=True)
class Problem:
    """One program of the family.

    Attributes
    ----------
    rows : Rows
        The samples, centred.
    dual : Dual
        Labels, costs and bound.
    regulariser : Regulariser
        ½ w'Rw.
    is_centred : bool
        Whether b is the intercept for centred inputs.
    """

    rows: Rows
    dual: Dual
    regulariser: Regulariser
    is_centred: bool


def read(X: Any, y: ArrayLike, C: ArrayLike, B: float, D: float | None, weights: ArrayLike | None) -> Problem:
    """The program that the arguments of ``solve_interior_point`` state, or an error naming the wrong one."""
    X = _matrix(X)
    _, y = as_data(np.empty((X.shape[0], 0)), y)  # the labels alone: X is not to be copied
    costs = as_costs(C, len(y))
    if not (costs[y > 0].any() and costs[y < 0].any()):
        raise ValueError("C must be positive for samples of both classes; y and C leave only one")
    if not B > 0:
        raise ValueError(f"B must be positive, not {B!r}")
    if D is not None and not 0.0 <= D <= 1.0:
        raise ValueError(f"D must lie in [0, 1], not {D!r}")
    counts = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    if counts.shape != y.shape or not (np.isfinite(counts) & (counts > 0)).all():
        raise ValueError(f"weights must be positive and of shape ({len(y)},), not {weights!r}")
    rows = Rows(X)
    regulariser = _centre(rows, D, counts / counts.sum())
    return Problem(rows, Dual(y, costs, float(B)), regulariser, D is not None)


def _matrix(X: Any) -> Any:
    """X as it is where it is float32 or float64, with its CSR in order; else a copy that is."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    else:
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {X.shape}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _centre(rows: Rows, D: float | None, shares: Vector) -> Regulariser:
    """Centre the rows, which changes no SVM but its b, and find R."""
    mean = rows.pull(shares[:, None])[:-1, 0]
    if not np.isfinite(mean).all():
        raise ValueError("X must be finite; it has NaN or infinite values")
    if D is None:
        if not rows.scatters:  # there, centring would only be undone and done by subtraction
            rows.shift = mean
        return Regulariser(rows.m)
    rows.shift = mean
    Sigma = rows.normal(shares, np.zeros((rows.n, 0)))[0][:-1, :-1]
    # What rounding leaves of a constant feature must not pass for a small variance.
    share = _CONSTANT if rows.scatters else _CONSTANT**2
    constant = Sigma.diagonal() <= share * mean**2
    Sigma[constant] = Sigma[:, constant] = 0.0
    return Regulariser(rows.m, (1.0 - D) * np.eye(rows.m) + D * Sigma)
