"""Numbers that know how far they may be from the true ones: running error analysis.

A certificate's values are theorems about real numbers, and they are computed in double precision. A
:class:`Ball` is an array of computed numbers with a radius for each: the true number, the one that exact
arithmetic on the same data would give, lies within it. Every operation adds its own rounding to the radii
by the standard bounds (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1): with
u = 2^-53 and γ_k = k u / (1 - k u), a sum or a product is off by u of its result, an inner product of k
terms by γ_k of the sum of their sizes, in whatever order a BLAS adds them up.

The radii are computed in floating point too; each operation makes its radius a little larger than the
formula says, which covers that.

A bound in a box pays for an imbalance of the multipliers, and so for its rounding, at the box's price. For
it :func:`careful_transposed_product` works in twice the precision: products are split into their rounded
values and their errors, which is exact (Dekker), and added up in pairs with the errors of the additions kept
(Ogita, Rump and Oishi, Accurate sum and dot product, 2005). The result is off by a rounding of itself and
γ_n² of the terms' sizes, where a plain sum is off by γ_n of them.
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
"""Times a computed number of positive terms: above the true one, after up to a million roundings in a row."""
_MIN_NORMAL = 2.0**-1022  # a result under this may lose all its digits; a radius never has fewer
_ELEMENTARY_ERROR = 8 * UNIT  # relative error of exp, log1p and their like, generously
_BLOCK_ROWS = 512  # rows of a long sum that are added up before the sums are
_MAX_TWICE_PRECISE = 4_000_000  # entries of X up to which sums are made in twice the precision
_MAX_SIZE = 2.0**480  # sizes whose products and splits stay clear of overflow, and of underflow the other way
_SPLIT = 2.0**27 + 1.0  # Veltkamp's: the halves of a double's 53 bits, whose products are exact


def gamma(k: int) -> float:
    """γ_k = k u / (1 − k u), the relative error of k rounded operations in a row.

    k: number of operations, below 2^50.
    """
    return k * UNIT / (1.0 - k * UNIT)


class Ball:
    """Computed numbers and how far the true ones may be from them.

    Parameters
    ----------
    mid : array_like
        Computed numbers.
    rad : array_like, optional
        Radii, broadcast to the shape of `mid`; 0 by default: the numbers are exact.
    """

    __array_ufunc__ = None  # numpy leaves ``array * ball`` to the methods here

    def __init__(self, mid: ArrayLike, rad: ArrayLike = 0.0):
        self.mid: Vector = np.asarray(mid, dtype=float)
        radii = np.asarray(rad, dtype=float)
        # Most are of the shape already, and to broadcast takes longer than a sum of some hundred numbers.
        is_spread = radii.shape == self.mid.shape
        self.rad: Vector = radii if is_spread else np.broadcast_to(radii, self.mid.shape)

    @staticmethod
    def of(value: Ball | ArrayLike) -> Ball:
        """The ball itself, or exact numbers as a ball."""
        return value if isinstance(value, Ball) else Ball(value)

    # -- what is certain ---------------------------------------------------------------------

    @property
    def upper(self) -> Vector:
        """Numbers that the true ones do not exceed."""
        return np.nextafter(self.mid + self.rad, np.inf)

    @property
    def lower(self) -> Vector:
        """Numbers that the true ones are at least."""
        return np.nextafter(self.mid - self.rad, -np.inf)

    @property
    def size(self) -> Vector:
        """Numbers that the sizes of the true ones do not exceed."""
        return np.nextafter(np.abs(self.mid) + self.rad, np.inf)

    def __getitem__(self, key: Any) -> Ball:
        return Ball(self.mid[key], self.rad[key])

    def transposed(self) -> Ball:
        """The matrix with rows and columns exchanged."""
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
        carried = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
        return _rounded(self.mid * other.mid, carried)

    __rmul__ = __mul__

    def positive(self) -> Ball:
        """``max(x, 0)``, with the error of x: exactly 0 where x is certainly negative."""
        mid = np.maximum(self.mid, 0.0)
        return Ball(mid, np.where(self.mid < 0.0, np.maximum(self.upper, 0.0), self.rad))

    def signed(self, signs: ArrayLike) -> Ball:
        """The numbers times some of -1, 0 and 1, which rounds nothing."""
        factors = np.asarray(signs, dtype=float)
        return Ball(self.mid * factors, self.rad * np.abs(factors))

    def absolute(self) -> Ball:
        """The sizes of the numbers."""
        return Ball(np.abs(self.mid), self.rad)

    def max(self, axis: int | None = None) -> Ball:
        """The largest, along an axis or of all."""
        return Ball(self.mid.max(axis=axis), self.rad.max(axis=axis))

    def sum(self, axis: int | None = None) -> Ball:
        """The sum, along an axis or of all."""
        k = self.mid.size if axis is None else self.mid.shape[axis]
        own = gamma(k) * np.abs(self.mid).sum(axis=axis)
        return Ball(self.mid.sum(axis=axis), _more(own + self.rad.sum(axis=axis), k))

    def dot(self, other: Ball | ArrayLike) -> Ball:
        """The inner product of two vectors."""
        other = Ball.of(other)
        k = len(self.mid)
        own = gamma(k) * (np.abs(self.mid) @ np.abs(other.mid))
        carried = np.abs(self.mid) @ other.rad + self.rad @ (np.abs(other.mid) + other.rad)
        return Ball(self.mid @ other.mid, _more(own + carried, k))

    def square_sum(self, axis: int | None = None) -> Ball:
        """The sum of squares, along an axis or of all."""
        return (self * self).sum(axis)

    def norm(self, axis: int | None = None) -> Ball:
        """The Euclidean norm, along an axis or of all."""
        mid = np.asarray(np.sqrt((self.mid**2).sum(axis=axis)))
        k = self.mid.size if axis is None else self.mid.shape[axis]
        return Ball(mid, _more(gamma(k + 2) * mid + np.sqrt((self.rad**2).sum(axis=axis)), k))

    def softplus(self) -> Ball:
        """``ln(1 + e^x)``; its slope is at most 1."""
        mid = np.logaddexp(0.0, self.mid)
        return Ball(mid, _more(self.rad + _ELEMENTARY_ERROR * mid, 2))

    def logistic(self) -> Ball:
        """``1/(1 + e^-x)``; its slope is at most 1/4."""
        mid = expit(self.mid)
        return Ball(mid, _more(0.25 * self.rad + _ELEMENTARY_ERROR * mid, 2))

    def log_sum_exp(self) -> Ball:
        """``ln Σ e^x`` of each row; it moves by no more than the entry of the row that moves most."""
        k, top = self.mid.shape[1], self.mid.max(axis=1)
        sums = np.log(np.exp(self.mid - top[:, None]).sum(axis=1))
        mid = top + sums
        # The sum is from 1 to K, so its relative error is the logarithm's absolute one. The rounding of
        # x - top is relative to it, and e^-t t is at most 1/e.
        own = gamma(2 * k) + 2 * _ELEMENTARY_ERROR * (1.0 + sums) + UNIT * np.abs(mid)
        return Ball(mid, _more(self.rad.max(axis=1) + own, k))

    def softmax(self) -> Ball:
        """``e^x / Σ e^x`` of each row: its logarithms move by twice what the entries do, at most."""
        k, below = self.mid.shape[1], self.mid - self.mid.max(axis=1, keepdims=True)
        powers = np.exp(below)
        mid = powers / powers.sum(axis=1, keepdims=True)
        moved = np.broadcast_to(2.0 * self.rad.max(axis=1, keepdims=True), mid.shape)
        relative = 2.0 * np.minimum(moved, 1.0) + gamma(2 * k) + 4 * _ELEMENTARY_ERROR - UNIT * below
        return Ball(mid, np.where(moved <= 1.0, _more(mid * relative, k), 1.0))  # shares are from 0 to 1


def product(X: Matrix, v: Ball | ArrayLike, shift: Vector | None = None) -> Ball:
    """``(X - shift) v`` for an exact matrix.

    X (n, m): the matrix; its entries count as exact.
    v (m,) or (m, k): A vector, or several as columns.
    shift (m,): what to take from every row of a dense matrix first; it counts as exact too.
    """
    v = Ball.of(v)
    mid, rad = np.empty((X.shape[0], *v.mid.shape[1:])), np.empty((X.shape[0], *v.mid.shape[1:]))
    grown = gamma(_terms(X)) * np.abs(v.mid) + (v.rad if v.rad.any() else 0.0)
    for part, rows in _parts(X, shift):
        mid[part] = rows @ v.mid
        rad[part] = abs(rows) @ grown
    return Ball(mid, _more(rad, X.shape[1]))


def transposed_product(X: Matrix, v: Ball | ArrayLike, shift: Vector | None = None) -> Ball:
    """``(X - shift)' v`` for an exact matrix; the sum over samples is added up in two stages.

    v (n,) or (n, k): A vector, or several as columns.
    """
    v = Ball.of(v)
    shape = (X.shape[1], *v.mid.shape[1:])
    mid, rad, size, parts = np.zeros(shape), np.zeros(shape), np.zeros(shape), 0
    for part, block in _parts(X, shift):
        rows = block.T
        mid += rows @ v.mid[part]
        sizes = abs(rows)
        size += sizes @ np.abs(v.mid[part])
        if v.rad.any():
            rad += sizes @ v.rad[part]
        parts += 1
    return Ball(mid, _more(gamma(min(_BLOCK_ROWS, X.shape[0]) + parts + 1) * size + rad, X.shape[0]))


def strongly_convex_bound(value: Ball, gradient: Ball, modulus: float) -> Ball:
    """A bound on the least value of a strongly convex function, f − ‖∇f‖²/(2ρ), or 0 if that is less.

    value: f at some point; the function is never below 0.
    gradient: its gradient there.
    modulus: ρ, positive: f less ρ/2 times the squared norm is convex.
    """
    square = Ball(gradient.size).square_sum()
    lost = float(square.upper / modulus)
    found = value - Ball(0.5 * lost, 2.0 * UNIT * lost)
    return Ball(0.0) if found.lower <= 0.0 else found


def _parts(X: Matrix, shift: Vector | None) -> Iterator[tuple[slice, Matrix]]:
    """The matrix by blocks of rows, less the shift: one rounding an entry, which callers count."""
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        rows = X if X.shape[0] <= _BLOCK_ROWS else X[part]
        yield part, rows if shift is None else rows - shift


def _terms(X: Matrix) -> int:
    """The number of terms in a row's inner product."""
    if is_sparse(X):
        return int(np.diff(X.indptr).max(initial=0)) + 2
    return int(X.shape[1] + 2)


def _rounded(mid: Vector, carried: Vector) -> Ball:
    """The result of one rounded operation, with what its operands carried."""
    return Ball(mid, (UNIT * np.abs(mid) + carried) * (1.0 + 8 * UNIT) + _MIN_NORMAL)


def _more(rad: Vector, k: int) -> Vector:
    """A radius that covers its own rounding over k terms, and what k underflows may lose."""
    return rad * (1.0 + 4.0 * gamma(k + 8)) + (k + 2) * _MIN_NORMAL


def careful_transposed_product(X: Matrix, M: Vector) -> Ball:
    """``X' M`` (m, K) for exact matrices, in twice the working precision if X is not large."""
    if X.shape[0] * X.shape[1] > _MAX_TWICE_PRECISE:
        return transposed_product(X, M)
    whole = dense(X)
    if max(np.abs(whole).max(initial=0.0), np.abs(M).max(initial=0.0)) > _MAX_SIZE:
        return transposed_product(X, M)
    columns = [_column(whole, m) for m in M.T]
    return Ball(np.stack([c.mid for c in columns], axis=1), np.stack([c.rad for c in columns], axis=1))


def _column(X: Vector, m: Vector) -> Ball:
    used = m != 0.0
    X, m = X[used], m[used]
    n = len(m) + 1
    P, E = _two_product(X, m[:, None])
    size, errors = np.abs(P).sum(axis=0), E.sum(axis=0)
    while len(P) > 1:
        half = len(P) // 2
        total, error = _two_sum(P[:half], P[half : 2 * half])
        errors += error.sum(axis=0)
        P = np.concatenate([total, P[2 * half :]])
    mid = (P[0] if len(P) else np.zeros(X.shape[1])) + errors
    # A product that is subnormal has an error that is no number, of which each is less than 2^-1074.
    return Ball(mid, 1.01 * (UNIT * np.abs(mid) + 4.0 * gamma(n + 2) ** 2 * size) + n * 2.0**-1000)


def _two_product(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Products, and what rounding took from them."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: Vector) -> tuple[Vector, Vector]:
    scaled = _SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high


def _two_sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Sums, and what rounding took from them."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
