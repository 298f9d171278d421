"""Ball arithmetic: computed numbers with rigorous bounds on their rounding errors (running error analysis).

A certificate makes statements about real numbers, but is computed in double precision. A :class:`Ball` is an
array of computed numbers (midpoints), each with a radius. The true number, which exact arithmetic on the same
data would give, lies within the radius. Every operation adds its own rounding to the radii by the standard
bounds (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). With u = 2^-53 and
γ_k = k u / (1 - k u), the error is at most

    u |result|                  for a sum or product of two numbers,
    γ_k Σ |terms|               for an inner product of k terms, in any order of summation.

The radii are computed in floating point too; each operation enlarges its radius a little to cover that.

If multipliers leave a residual r in the stationarity equations, the Lagrangian has the term r·W. For weights
with |W| ≤ R, a dual bound subtracts R Σ|r|, and so R times the rounding of r. So r is computed in twice the
precision, by :func:`careful_transposed_product`: each product is split exactly into its rounded value and its
error (Dekker), and the products are summed in pairs with the errors of the additions (Ogita, Rump and Oishi,
Accurate sum and dot product, 2005). The error is at most u |result| + γ_n² Σ |terms|, for n terms, instead of
γ_n Σ |terms|.

In this order: :class:`Ball`; products of a matrix with balls; the lower bound of a strongly convex function;
helpers; products in twice the precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from formulations.language.types import Matrix, Vector, dense, is_sparse

UNIT = 2.0**-53
"""Largest relative error of one rounded operation in double precision."""
ABOVE = 1 + 1e-9
"""Factor that makes a computed sum of positive terms an upper bound, for up to a million terms."""
_MIN_NORMAL = 2.0**-1022  # error of a result that underflows; no radius of a rounded result is smaller
_ELEMENTARY_ERROR = 8 * UNIT  # bound on the relative error of exp, log1p and similar functions
_BLOCK_ROWS = 512  # rows of a partial sum in a long sum
_MAX_CAREFUL_ENTRIES = 4_000_000  # entries of X up to which sums are in twice the precision
_MAX_CAREFUL_SIZE = 2.0**480  # largest entry whose products and splits cannot overflow
_SPLIT = 2.0**27 + 1.0  # Veltkamp's factor: it halves the 53 bits of a double


def gamma(k: int) -> float:
    """Return γ_k = k u / (1 − k u), the relative error of k < 2^50 rounded operations in a row."""
    return k * UNIT / (1.0 - k * UNIT)


class Ball:
    """Computed numbers with bounds on their errors.

    Parameters
    ----------
    mid : array_like
        Computed numbers.
    rad : array_like, optional
        Radii: bounds on the distance to the true numbers, broadcast to the shape of `mid`. By default 0: the
        numbers are exact.
    """

    __array_ufunc__ = None  # so that ``array * ball`` calls the methods of this class

    def __init__(self, mid: ArrayLike, rad: ArrayLike = 0.0):
        self.mid: Vector = np.asarray(mid, dtype=float)
        radii = np.asarray(rad, dtype=float)
        # Broadcasting takes longer than a sum of some hundred numbers, and is rarely needed.
        has_shape = radii.shape == self.mid.shape
        self.rad: Vector = radii if has_shape else np.broadcast_to(radii, self.mid.shape)

    @staticmethod
    def of(value: Ball | ArrayLike) -> Ball:
        """Return a ball unchanged, and exact numbers as a ball of radius 0."""
        return value if isinstance(value, Ball) else Ball(value)

    # -- bounds ------------------------------------------------------------------------------

    @property
    def upper(self) -> Vector:
        """Upper bounds on the true numbers."""
        return np.nextafter(self.mid + self.rad, np.inf)

    @property
    def lower(self) -> Vector:
        """Lower bounds on the true numbers."""
        return np.nextafter(self.mid - self.rad, -np.inf)

    @property
    def size(self) -> Vector:
        """Upper bounds on the absolute values of the true numbers."""
        return np.nextafter(np.abs(self.mid) + self.rad, np.inf)

    def __getitem__(self, key: Any) -> Ball:
        return Ball(self.mid[key], self.rad[key])

    def transposed(self) -> Ball:
        """Return the transposed matrix."""
        return Ball(self.mid.T, self.rad.T)

    # -- arithmetic --------------------------------------------------------------------------

    def __add__(self, other: Ball | ArrayLike) -> Ball:
        other = Ball.of(other)
        return _rounded(self.mid + other.mid, self.rad + other.rad)

    __radd__ = __add__

    def __neg__(self) -> Ball:
        return Ball(-self.mid, self.rad)

    def __sub__(self, other: Ball | ArrayLike) -> Ball:
        other = Ball.of(other)
        return _rounded(self.mid - other.mid, self.rad + other.rad)

    def __rsub__(self, other: ArrayLike) -> Ball:
        return Ball.of(other) - self

    def __mul__(self, other: Ball | ArrayLike) -> Ball:
        other = Ball.of(other)
        propagated = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
        return _rounded(self.mid * other.mid, propagated)

    __rmul__ = __mul__

    def positive(self) -> Ball:
        """Return ``max(x, 0)``, which is exactly 0 if x is certainly negative."""
        mid = np.maximum(self.mid, 0.0)
        return Ball(mid, np.where(self.mid < 0.0, np.maximum(self.upper, 0.0), self.rad))

    def signed(self, signs: ArrayLike) -> Ball:
        """Return the numbers times signs in {-1, 0, 1}, without rounding."""
        factors = np.asarray(signs, dtype=float)
        return Ball(self.mid * factors, self.rad * np.abs(factors))

    def absolute(self) -> Ball:
        """Return the absolute values."""
        return Ball(np.abs(self.mid), self.rad)

    def max(self, axis: int | None = None) -> Ball:
        """Return the maximum along an axis, or of all numbers."""
        return Ball(self.mid.max(axis=axis), self.rad.max(axis=axis))

    def sum(self, axis: int | None = None) -> Ball:
        """Return the sum along an axis, or of all numbers."""
        k = self.mid.size if axis is None else self.mid.shape[axis]
        rounding = gamma(k) * np.abs(self.mid).sum(axis=axis)
        return Ball(self.mid.sum(axis=axis), _enlarged(rounding + self.rad.sum(axis=axis), k))

    def dot(self, other: Ball | ArrayLike) -> Ball:
        """Return the inner product of two vectors."""
        other = Ball.of(other)
        k = len(self.mid)
        rounding = gamma(k) * (np.abs(self.mid) @ np.abs(other.mid))
        propagated = np.abs(self.mid) @ other.rad + self.rad @ (np.abs(other.mid) + other.rad)
        return Ball(self.mid @ other.mid, _enlarged(rounding + propagated, k))

    def square_sum(self, axis: int | None = None) -> Ball:
        """Return the sum of squares along an axis, or of all numbers."""
        return (self * self).sum(axis)

    def norm(self, axis: int | None = None) -> Ball:
        """Return the Euclidean norm along an axis, or of all numbers."""
        mid = np.asarray(np.sqrt((self.mid**2).sum(axis=axis)))
        k = self.mid.size if axis is None else self.mid.shape[axis]
        return Ball(mid, _enlarged(gamma(k + 2) * mid + np.sqrt((self.rad**2).sum(axis=axis)), k))

    def softplus(self) -> Ball:
        """Return ``ln(1 + e^x)``, whose derivative is at most 1."""
        mid = np.logaddexp(0.0, self.mid)
        return Ball(mid, _enlarged(self.rad + _ELEMENTARY_ERROR * mid, 2))

    def logistic(self) -> Ball:
        """Return ``1/(1 + e^-x)``, whose derivative is at most 1/4."""
        mid = expit(self.mid)
        return Ball(mid, _enlarged(0.25 * self.rad + _ELEMENTARY_ERROR * mid, 2))

    def log_sum_exp(self) -> Ball:
        """Return ``ln Σ e^x`` of each row; it changes by no more than the largest change of an entry."""
        k, top = self.mid.shape[1], self.mid.max(axis=1)
        log_sums = np.log(np.exp(self.mid - top[:, None]).sum(axis=1))
        mid = top + log_sums
        # The sum lies between 1 and k, so its relative error is the absolute error of its logarithm. An error
        # of x - top is relative to t = top - x, and t e^-t is at most 1/e.
        rounding = gamma(2 * k) + 2 * _ELEMENTARY_ERROR * (1.0 + log_sums) + UNIT * np.abs(mid)
        return Ball(mid, _enlarged(self.rad.max(axis=1) + rounding, k))

    def softmax(self) -> Ball:
        """Return ``e^x / Σ e^x`` of each row; its logarithm changes by at most twice the change of x."""
        k, below = self.mid.shape[1], self.mid - self.mid.max(axis=1, keepdims=True)
        powers = np.exp(below)
        mid = powers / powers.sum(axis=1, keepdims=True)
        # UNIT * -below: x - max(x) has this rounding error, which is a relative error of its exponential.
        log_error = np.broadcast_to(2.0 * self.rad.max(axis=1, keepdims=True), mid.shape)
        relative = 2.0 * np.minimum(log_error, 1.0) + gamma(2 * k) + 4 * _ELEMENTARY_ERROR - UNIT * below
        return Ball(mid, np.where(log_error <= 1.0, _enlarged(mid * relative, k), 1.0))  # all are in [0, 1]


def product(X: Matrix, v: Ball | ArrayLike, shift: Vector | None = None) -> Ball:
    """Return ``(X - shift) v`` for an exact matrix.

    X (n, m): the matrix; its entries count as exact.
    v (m,) or (m, k): a vector, or several as columns.
    shift (m,): subtracted from every row of a dense matrix; it counts as exact.
    """
    v = Ball.of(v)
    mid, rad = np.empty((X.shape[0], *v.mid.shape[1:])), np.empty((X.shape[0], *v.mid.shape[1:]))
    errors = gamma(_terms(X)) * np.abs(v.mid) + (v.rad if v.rad.any() else 0.0)
    for part, rows in row_blocks(X, shift):
        mid[part] = rows @ v.mid
        rad[part] = abs(rows) @ errors
    return Ball(mid, _enlarged(rad, X.shape[1]))


def transposed_product(X: Matrix, v: Ball | ArrayLike, shift: Vector | None = None) -> Ball:
    """Return ``(X - shift)' v`` for an exact matrix, as a sum of partial sums over blocks of rows.

    v (n,) or (n, k): a vector, or several as columns.
    """
    v = Ball.of(v)
    shape = (X.shape[1], *v.mid.shape[1:])
    mid, rad, size, n_blocks = np.zeros(shape), np.zeros(shape), np.zeros(shape), 0
    for part, block in row_blocks(X, shift):
        rows = block.T
        mid += rows @ v.mid[part]
        sizes = abs(rows)
        size += sizes @ np.abs(v.mid[part])
        if v.rad.any():
            rad += sizes @ v.rad[part]
        n_blocks += 1
    roundings = min(_BLOCK_ROWS, X.shape[0]) + n_blocks + 1  # of a term
    return Ball(mid, _enlarged(gamma(roundings) * size + rad, X.shape[0]))


def strongly_convex_bound(value: Ball, gradient: Ball, modulus: float) -> Ball:
    """Return a lower bound on a nonnegative strongly convex function f: f(x) − ‖∇f(x)‖²/(2ρ), or 0.

    value: f at some point x.
    gradient: the gradient of f at x.
    modulus: the modulus of strong convexity ρ > 0: f(x) − ½ρ‖x‖² is convex.
    """
    square = Ball(gradient.size).square_sum()
    decrease = float(square.upper / modulus)
    bound = value - Ball(0.5 * decrease, 2.0 * UNIT * decrease)
    return Ball(0.0) if bound.lower <= 0.0 else bound


def row_blocks(X: Matrix, shift: Vector | None) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of rows of X - shift (X if None); callers count the rounding of the difference."""
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        rows = X if X.shape[0] <= _BLOCK_ROWS else X[part]
        yield part, rows if shift is None else rows - shift


def _terms(X: Matrix) -> int:
    """Return the number of roundings of a term in the inner product of a row, that of the shift included."""
    if is_sparse(X):
        return int(np.diff(X.indptr).max(initial=0)) + 2
    return int(X.shape[1] + 2)


def _rounded(mid: Vector, propagated: Vector) -> Ball:
    """Return the result of one rounded operation; `propagated` is the error due to its operands."""
    return Ball(mid, (UNIT * np.abs(mid) + propagated) * (1.0 + 8 * UNIT) + _MIN_NORMAL)


def _enlarged(rad: Vector, k: int) -> Vector:
    """Return the radius enlarged by its own rounding over k terms, and by the errors of k underflows."""
    return rad * (1.0 + 4.0 * gamma(k + 8)) + (k + 2) * _MIN_NORMAL


def careful_transposed_product(X: Matrix, M: Vector) -> Ball:
    """Return ``X' M`` (m, K) for exact matrices, in twice the working precision if X is not large."""
    if X.shape[0] * X.shape[1] > _MAX_CAREFUL_ENTRIES:
        return transposed_product(X, M)
    X = dense(X)
    if max(np.abs(X).max(initial=0.0), np.abs(M).max(initial=0.0)) > _MAX_CAREFUL_SIZE:
        return transposed_product(X, M)
    columns = [_careful_column(X, v) for v in M.T]
    return Ball(np.stack([c.mid for c in columns], axis=1), np.stack([c.rad for c in columns], axis=1))


def _careful_column(X: Vector, v: Vector) -> Ball:
    """Return ``X' v`` (m,), from products P with errors E, by pairwise sums whose errors are added to E."""
    is_used = v != 0.0
    X, v = X[is_used], v[is_used]
    n = len(v) + 1
    P, E = _two_product(X, v[:, None])
    size, errors = np.abs(P).sum(axis=0), E.sum(axis=0)
    while len(P) > 1:
        half = len(P) // 2
        total, error = _two_sum(P[:half], P[half : 2 * half])
        errors += error.sum(axis=0)
        P = np.concatenate([total, P[2 * half :]])
    mid = (P[0] if len(P) else np.zeros(X.shape[1])) + errors
    # The error of a subnormal product may not be representable; it is less than 2^-1074.
    return Ball(mid, 1.01 * (UNIT * np.abs(mid) + 4.0 * gamma(n + 2) ** 2 * size) + n * 2.0**-1000)


def _two_product(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Return the rounded products and their rounding errors, which are exact (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: Vector) -> tuple[Vector, Vector]:
    """Split numbers into sums of two numbers with half of the bits each (Veltkamp)."""
    scaled = _SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high


def _two_sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Return the rounded sums and their rounding errors, which are exact (Knuth)."""
    total = a + b
    b_rounded = total - a
    return total, (a - (total - b_rounded)) + (b - b_rounded)
