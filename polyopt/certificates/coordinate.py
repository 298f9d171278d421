"""A dual bound for large data: coordinate ascent on the dual of a hinge program without intercept.

Where products with all the data are dear, moving one multiplier at a time climbs much faster than
gradient steps do (Hsieh et al., 2008). Between two sweeps over all samples come some over those
alone that hold the hyperplane, or would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from polyopt.certificates.certificate import relative_gap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = ["climb"]

_SHORT_SWEEPS = 10  # over the active samples, between two sweeps over all


def climb(X: Any, y: Vector, C: Vector, primal_value: float, tol: float, max_sweeps: int = 15) -> Vector:
    """Multipliers that maximise ``Σ α_i − ½‖Σ α_i y_i x_i‖²`` over ``0 <= α <= C``, as far as it gets.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    C : ndarray of shape (n,)
        Costs, finite.
    primal_value : float
        An upper bound on the maximum; the climb ends within `tol` of it.
    tol : float
        Relative gap asked.
    max_sweeps : int
        Sweeps over all samples at most.

    Returns
    -------
    ndarray of shape (n,)
        Feasible multipliers.
    """
    alpha, v = np.zeros(len(y)), np.zeros(X.shape[1])
    data = (X.data, X.indices, X.indptr) if sp.issparse(X) else (np.ascontiguousarray(X),)
    sweep = _sweep_csr if sp.issparse(X) else _sweep_dense
    squares = np.asarray((X.multiply(X) if sp.issparse(X) else X * X).sum(axis=1)).ravel()
    everyone = np.flatnonzero((C > 0) & (squares > 0))
    rng = np.random.default_rng(0)
    for _ in range(max_sweeps):
        active = sweep(*data, y, C, squares, rng.permutation(everyone), alpha, v)
        for _ in range(_SHORT_SWEEPS):
            sweep(*data, y, C, squares, rng.permutation(active), alpha, v)
        if relative_gap(primal_value, float(alpha.sum() - 0.5 * v @ v)) <= tol:
            break
    return alpha


@njit(cache=True)
def _moved(alpha: float, slope: float, square: float, cap: float) -> float:
    return min(max(alpha + slope / square, 0.0), cap)


@njit(cache=True)
def _sweep_dense(
    X: Vector, y: Vector, C: Vector, squares: Vector, order: Integers, alpha: Vector, v: Vector
) -> Integers:
    """Maximise over each multiplier in `order` in turn, in place; return those not at rest at 0."""
    m, used, active = X.shape[1], 0, np.empty_like(order)
    for i in order:
        score = 0.0
        for j in range(m):
            x = X[i, j]
            if x != 0.0:
                score += x * v[j]
        slope = 1.0 - y[i] * score
        if slope > 0.0 or alpha[i] > 0.0:
            active[used] = i
            used += 1
        moved = _moved(alpha[i], slope, squares[i], C[i])
        step = (moved - alpha[i]) * y[i]
        if step != 0.0:
            alpha[i] = moved
            for j in range(m):
                v[j] += step * X[i, j]
    return active[:used]


@njit(cache=True)
def _sweep_csr(
    data: Vector,
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Vector,
    C: Vector,
    squares: Vector,
    order: Integers,
    alpha: Vector,
    v: Vector,
) -> Integers:
    """Twin of :func:`_sweep_dense` for the three arrays of a CSR matrix."""
    used, active = 0, np.empty_like(order)
    for i in order:
        score = 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            score += data[entry] * v[indices[entry]]
        slope = 1.0 - y[i] * score
        if slope > 0.0 or alpha[i] > 0.0:
            active[used] = i
            used += 1
        moved = _moved(alpha[i], slope, squares[i], C[i])
        step = (moved - alpha[i]) * y[i]
        if step != 0.0:
            alpha[i] = moved
            for entry in range(indptr[i], indptr[i + 1]):
                v[indices[entry]] += step * data[entry]
    return active[:used]
