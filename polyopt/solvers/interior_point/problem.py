"""What is to be solved: the samples, the families of rows and the regulariser, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.arguments import as_weights, within
from formulations.families import Families
from polyopt.solvers.interior_point.rows import Rows
from polyopt.solvers.interior_point.system import Regulariser

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix

    Vector = NDArray[np.float64]

__all__ = ["Problem", "read"]

_CONSTANT = 1e-12  # a spread under this share of the mean is rounding


@dataclass(frozen=True)
class Problem:
    """One program of the family.

    Attributes
    ----------
    samples : Rows
        The samples, centred.
    rows : Families
        The families of rows, those with slack first.
    soft : int
        How many have slack.
    regulariser : Regulariser
        ½ w'Rw.
    is_centred : bool
        Whether b is the intercept for centred inputs.
    """

    samples: Rows
    rows: Families
    soft: int
    regulariser: Regulariser
    is_centred: bool


def read(X: Matrix, rows: Families, D: float | None, weights: ArrayLike | None) -> Problem:
    """The program that the arguments of ``solve_interior_point`` state, or an error naming the wrong one."""
    X = _matrix(X)
    if rows.n != X.shape[0]:
        raise ValueError(f"the rows must be of the {X.shape[0]} samples of X, not of {rows.n}")
    soft = [family for family in rows if family.is_soft]
    hard = [family for family in rows if not family.is_soft]
    if not soft or any(family.has_slack or family.kink > 0.0 for family in hard):
        raise ValueError("this solver needs finite costs of slack; an explicit program takes hard margins")
    if any(family.kink == 0.0 for family in hard):
        raise ValueError("B must be positive; at B = 0 every output is 0")
    if not rows.pulls_both_ways:
        raise ValueError("C must be positive for samples of both classes; y and C leave only one")
    D = None if D is None else within("D", D, 0.0, 1.0)
    counts = np.ones(rows.n) if weights is None else as_weights(weights, rows.n)
    if D is not None and not (counts > 0).all():
        raise ValueError("weights must be positive; drop the samples whose weight is zero")
    samples = Rows(X)
    regulariser = _centre(samples, D, counts / counts.sum())
    if not all(family.is_soft for family in list(rows)[: len(soft)]):
        rows = Families(*soft, *hard)
    return Problem(samples, rows, len(soft), regulariser, D is not None)


def _matrix(X: Matrix) -> Any:
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
