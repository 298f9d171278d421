"""The Cholesky factor of K_FF: made once, and kept while variables join the free ones and leave them.

Its columns are those of the upper triangular U with U'U = K_FF / unit + 1 + ridge I, in the order of F.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.clock import Clock

    Samples = NDArray[np.intp]

__all__ = ["RAISE", "RIDGE", "direction", "drop", "factorise", "join", "solve_transposed"]

RIDGE = 1e-11  # the multiple of the identity that is added at first, in units of the mean diagonal; ...
RAISE = 100.0  # ... raised so many times where K_FF is singular ...
_WORST = 1e-2  # ... until it is so large
_COLUMNS = 512  # of a factor, between two looks at the clock


def factorise(
    K: Vector, F: Samples, unit: float, ridge: float, U: Vector, clock: Clock
) -> tuple[bool, float]:
    """Put the factor of K_FF into U; whether there is one in time, and the ridge that it took.

    A block of columns at a time, so that no call takes long.
    """
    n = len(F)
    while ridge < _WORST:
        L = K.take(F, 0).take(F, 1).T  # symmetric, and so in LAPACK's order
        L /= unit
        L += 1.0
        L[np.diag_indices(n)] += ridge
        for start in range(0, n, _COLUMNS):
            if clock.is_over:
                return False, ridge
            end = min(start + _COLUMNS, n)
            if start:
                L[start:, start:end] -= L[start:, :start] @ L[start:end, :start].T
            corner, failed = dpotrf(L[start:end, start:end], lower=1, clean=1)
            if failed:
                break
            L[start:end, start:end] = corner
            L[end:, start:end] = dtrsm(1.0, corner, L[end:, start:end], side=1, lower=1, trans_a=1)
        else:
            U[:n, :n] = L.T  # below its diagonal nothing is read
            return True, ridge
        ridge *= RAISE
    return False, ridge


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def solve_transposed(U: Vector, n: int, x: Vector) -> None:
    """Solve ``U' x = x`` in place."""
    for k in range(n):
        x[k] /= U[k, k]
        a, row = x[k], U[k]
        for j in range(k + 1, n):
            x[j] -= a * row[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def direction(
    U: Vector, n: int, unit: float, r: Vector, ones: Vector, u: Vector, d: Vector
) -> float:  # fmt: skip
    """Newton's step d for the residual r, and the intercept that makes it balance."""
    for k in range(n):
        u[k] = r[k]
    solve_transposed(U, n, u)
    a = c = 0.0
    for k in range(n):
        a += ones[k] * u[k]
        c += ones[k] * ones[k]
    b = a / c
    for k in range(n):
        d[k] = u[k] - b * ones[k]
    for k in range(n - 1, -1, -1):
        rest, row = 0.0, U[k]
        for j in range(k + 1, n):
            rest += row[j] * d[j]
        d[k] = (d[k] - rest) / row[k]
    rest = 0.0  # Σ d, which rounding leaves where K_FF is all but singular
    for k in range(n):
        rest += d[k]
    for k in range(n):
        d[k] = (d[k] - rest / n) / unit
    return b


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def join(K: Vector, U: Vector, F: Samples, n: int, i: int, unit: float, ridge: float, ones: Vector) -> None:
    """Let variable i join: one more column of the factor."""
    column = np.empty(n)
    for k in range(n):
        column[k] = K[i, F[k]] / unit + 1.0
    solve_transposed(U, n, column)
    rest, one = K[i, i] / unit + 1.0 + ridge, 1.0
    for k in range(n):
        rest -= column[k] * column[k]
        one -= column[k] * ones[k]
        U[k, n] = column[k]
    U[n, n] = np.sqrt(max(rest, ridge))
    ones[n] = one / U[n, n]
    F[n] = i


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def drop(U: Vector, F: Samples, r: Vector, ones: Vector, n: int, place: int) -> int:
    """Take a variable out: its column of the factor goes, and rotations make the rest triangular again."""
    for k in range(n):
        row = U[k]
        for j in range(max(k - 1, place), n - 1):
            row[j] = row[j + 1]
    for k in range(place, n - 1):
        F[k], r[k] = F[k + 1], r[k + 1]
        above, below = U[k], U[k + 1]
        h = np.hypot(above[k], below[k])
        c, s = above[k] / h, below[k] / h
        above[k], below[k] = h, 0.0
        for j in range(k + 1, n - 1):
            x, z = above[j], below[j]
            above[j] = c * x + s * z
            below[j] = c * z - s * x
        x, z = ones[k], ones[k + 1]
        ones[k] = c * x + s * z
        ones[k + 1] = c * z - s * x
    return n - 1
