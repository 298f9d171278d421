"""The named kernels as functions of one matrix product, and what the product may lose.

With one or two columns appended to the samples the product gives the function's argument outright,

    linear    z'x                          (x)                     (z)
    poly      γ z'x + c                    (√γ x, √|c|)            (√γ z, ±√|c|)
    sigmoid   γ z'x + c                    as poly
    rbf       −γ‖z − x‖²                   (√(2γ) x, 1, −γ‖x‖²)    (√(2γ) z, −γ‖z‖², 1)

and what is left is an elementwise power, tanh or exp in place.

The RBF kernel, blind to translations, sees dense samples centred. Its exponent is a difference of terms as
large as γ‖x‖²; where that would cost it its digits, distances are added up from the differences of the
samples instead. It is never above 0. Columns of zeros are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from formulations.language.types import aligned, canonical, is_sparse
from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels.protocol import BLOCK, DENSE_ROWS, TILE
from polyopt.native.library import kernel as in_c

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from formulations.language.types import Matrix
    from polyopt.linalg.kernels.protocol import Samples, Vector

__all__ = ["KernelFunction", "KernelOperands", "longest_row", "middle_of"]

_MAX_EXPONENT_ERROR = 1e-9  # of an RBF kernel's exponent by products; where more may be lost, by differences
_MAX_CAREFUL_WORK = 3e8  # multiplications up to which distances are taken by differences in any case
_NAMES = ("linear", "poly", "rbf", "sigmoid")
_SIDE_BY_SIDE = 32  # samples that the kernel `distances` takes at once
_WORK = 2e8  # multiplications in one call of compiled code: less than 0.2 s, after which Ctrl-C is heard

# exp(min(t, 0)) of the columns from first to last, in place, to 2 units in the last place. Values
# below exp(-87) in single precision, exp(-700) in double precision, become that.
exponentials = in_c("exponentials", "t!: T (n, w); first: i8; last: i8", T="f8 f4")

# scale * (X[rows, columns] - centre) into the first columns of out.
fill = in_c(
    "fill",
    "X: T (n, m); rows: i8 (r); columns: i8 (c); centre: f8 (c); scale: f8; out!: U (r, w)",
    T="f8 f4",
    U="f8 f4",
)

# squares[i] = sum_k (X[i, k] - centre[k])^2.
square_norms = in_c("square_norms", "X: T (n, m); centre: f8 (m); squares!: f8 (n)", T="f8 f4")

# out[i, j] = factor * ‖z_i - x_j‖² from the differences: z_i = Z[points[i]], and `blocks` has the x_j as
# :func:`side_by_side` lays them out.
distances = in_c(
    "distances",
    "Z: T (n, m); points: i8 (p); blocks: f8 (b, m, w); factor: f8; out!: f8 (p, c)",
    T="f8 f4",
)


@dataclass(frozen=True)
class KernelFunction:
    """A kernel's name and numbers, as :class:`polyopt.linalg.kernels.Kernel` documents them."""

    name: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self) -> None:
        if not callable(self.name) and self.name not in _NAMES:
            raise ValueError(f"the kernel must be one of {', '.join(_NAMES)} or callable, not {self.name!r}")
        if not 0.0 < self.gamma < np.inf:
            raise ValueError(f"gamma must be positive and finite, not {self.gamma!r}")
        if not isinstance(self.degree, Integral) or self.degree < 1:
            raise ValueError(f"degree must be an integer of at least 1, not {self.degree!r}")
        if not np.isfinite(self.coef0):
            raise ValueError(f"coef0 must be finite, not {self.coef0!r}")

    @property
    def is_mercer(self) -> bool:
        """True if its Gram matrices are positive semidefinite for all samples."""
        return self.name in ("linear", "rbf") or (self.name == "poly" and self.coef0 >= 0.0)

    def finish(self, argument: NDArray[Any], columns: slice = slice(None)) -> NDArray[Any]:
        """The kernel from its argument (the table above), in place; of these columns."""
        whole, argument = argument, argument[..., columns]
        if self.name == "rbf":
            exponentials(whole, *columns.indices(whole.shape[1])[:2])
        elif self.name == "sigmoid":
            np.tanh(argument, out=argument)
        elif self.name == "poly" and self.degree > 1:
            base = argument.copy() if self.degree > 2 else argument
            for _ in range(self.degree - 1):
                np.multiply(argument, base, out=argument)
        return argument


class KernelOperands:
    """Samples under a kernel, as products take them; see :class:`polyopt.linalg.kernels.SampleGram`."""

    def __init__(self, X: Matrix, kernel: KernelFunction, centre: Vector | None = None):
        self.X, self.kernel = X if callable(kernel.name) else _walkable(X), kernel
        X = self.X
        self.n: int = X.shape[0]
        self.width: int = X.nnz // max(self.n, 1) + 1 if is_sparse(X) else X.shape[1]
        self.is_sparse = is_sparse(X)
        self._used, self._middle = np.zeros(0, dtype=np.intp), np.zeros(0)
        if not self.is_sparse and not callable(kernel.name):
            self._middle = np.zeros(X.shape[1]) if centre is None else np.ascontiguousarray(centre, float)
            if kernel.name == "rbf":
                self._middle = middle_of(X)
            # A column that is at the middle for all samples adds nothing to their products.
            self._used = np.flatnonzero(_differing(X, self._middle))
        self._squares = self.square_norms(X) if kernel.name == "rbf" else np.zeros(0)
        # Single precision keeps an exponent to 1e-5 while its terms are no larger than this.
        self.far_out = np.flatnonzero(kernel.gamma * self._squares >= 150.0)
        self._careful = False

    def careful(self, *, always: bool = False) -> Self:
        """The same, with the RBF kernel's distances by differences where that costs little, or always."""
        twin = copy.copy(self)
        columns = min(self.X.shape[1], 2 * DENSE_ROWS * self.width) if self.is_sparse else self.X.shape[1]
        twin._careful = always or float(self.n) ** 2 * columns <= _MAX_CAREFUL_WORK
        return twin

    def terms(self, Z: Matrix | None = None) -> int:
        """Return the number of terms in a sum over features: stored entries of a row, if rows are sparse."""
        if not self.is_sparse:
            return int(self.X.shape[1])
        return max(longest_row(self.X), 0 if Z is None else longest_row(Z))

    def square_norms(self, X: Matrix) -> Vector:
        """Squared norms of samples, taken from the middle where the kernel's are."""
        if is_sparse(X):
            from sklearn.utils.extmath import row_norms

            return np.asarray(row_norms(X.astype(float), squared=True))
        squares = np.empty(len(X))
        for part in _parts(X, _WORK):
            square_norms(X[part], self._middle, squares[part])
        return squares

    def product_error(self, roundings: int, unit: float) -> float:
        """As :meth:`entry_error`, for kernels other than RBF and products with `roundings` roundings each."""
        terms = (roundings + 8) * unit
        if self.kernel.name == "linear":
            return 2 * terms
        return 2 * terms + 8 * unit if self.kernel.name == "sigmoid" else (self.kernel.degree + 1) * terms

    def sizes(self, squares: Vector) -> Vector:
        """Sizes of points with these squared norms, in the sense of :meth:`entry_error`."""
        name = self.kernel.name
        if name == "rbf":
            return np.ones(len(squares))
        if name == "linear":
            return np.sqrt(squares)
        size = self.kernel.gamma * squares + abs(self.kernel.coef0)
        return np.maximum(np.sqrt(size), 1.0) if name == "sigmoid" else size ** (self.kernel.degree / 2)

    def _exponent_error(self, squares: Vector) -> float:
        """Error of the RBF kernel's exponent by products, for points of these squared norms."""
        return self._exponent_share() * max(float(squares.max(initial=0.0)), self.largest_square())

    def _exponent_share(self, Z: Matrix | None = None) -> float:
        return 4 * float(self.terms(Z) + 8) * float(np.finfo(float).eps) * self.kernel.gamma

    def loses_digits(self) -> bool:
        """Return True if products lose too many digits of the RBF exponents between these samples."""
        return not self._exponent_error(self._squares) <= _MAX_EXPONENT_ERROR

    def largest_square(self) -> float:
        """The largest squared norm of these samples (RBF kernel)."""
        return float(self._squares.max(initial=0.0))

    def needs_differences(self, squares: Vector, Z: Matrix) -> NDArray[np.bool_]:
        """Mark the points Z, of these squared norms, that need distances by differences (RBF kernel)."""
        count = Z.shape[0]
        if self.kernel.name != "rbf":
            return np.zeros(count, dtype=bool)
        if self._careful:
            return np.ones(count, dtype=bool)
        return ~(self._exponent_share(Z) * np.maximum(squares, self.largest_square()) <= _MAX_EXPONENT_ERROR)

    def alike(self, Z: Matrix) -> Matrix:
        """Points sparse where these samples are, and dense where they are."""
        if is_sparse(Z):
            return canonical(Z) if self.is_sparse else _walkable(Z.toarray())
        return sp.csr_array(Z) if self.is_sparse else _walkable(Z)

    def differences(self, Z: Matrix, points: Samples, columns: Samples) -> Vector:
        """The RBF kernel's exponents from the differences of the samples, shape (points, columns)."""
        return self.differences_from(columns)(Z, points)

    def differences_from(self, columns: Samples) -> Callable[[Matrix, Samples], Vector]:
        """As :meth:`differences`, for calls with other points; these samples are laid out once."""
        factor = -self.kernel.gamma
        if not self.is_sparse:
            blocks = side_by_side(self.X[columns])
            return lambda Z, points: _exponents(Z, points, blocks, len(columns), factor)

        def by_blocks(Z: Matrix, points: Samples) -> Vector:
            exponents = np.empty((len(points), len(columns)))
            for start in range(0, len(columns), DENSE_ROWS):
                some = self.X[columns[start : start + DENSE_ROWS]]
                for first in range(0, len(points), DENSE_ROWS):
                    left, right = _dense_blocks(Z[points[first : first + DENSE_ROWS]], some)
                    exponents[first : first + DENSE_ROWS, start : start + DENSE_ROWS] = _exponents(
                        left, np.arange(len(left)), side_by_side(right), len(right), factor
                    )
            return exponents

        return by_blocks

    def operand(
        self,
        rows: Samples,
        dtype: np.dtype[Any],
        *,
        left: bool,
        of: tuple[Matrix, Vector] | None = None,
        bare: bool = False,
    ) -> Matrix:
        """Samples with the columns appended that make the product the kernel's argument.

        `of` gives other points, and for the RBF kernel their squared norms, in place of the samples. A bare
        operand has no norms: the product is 2γ x'z for the RBF kernel.
        """
        X, squares = (self.X, self._squares) if of is None else of
        name, gamma, coef0 = self.kernel.name, self.kernel.gamma, self.kernel.coef0
        scale = 1.0 if name == "linear" else float(np.sqrt(2.0 * gamma if name == "rbf" else gamma))
        extra: list[Any] = []
        if name == "rbf":
            extra = [] if bare else [np.ones(len(rows)), -gamma * squares[rows]]
        elif name != "linear" and coef0 != 0.0:
            constant = np.sqrt(abs(coef0)) * np.ones(len(rows))
            extra = [-constant if left and coef0 < 0 else constant]
        if left:
            extra.reverse()
        if self.is_sparse:
            parts = [X[rows].astype(float) * scale, *(sp.csr_array(column[:, None]) for column in extra)]
            return sp.hstack(parts, format="csr", dtype=dtype)
        m, rows = len(self._used), np.ascontiguousarray(rows, dtype=np.int64)
        operand = np.empty((len(rows), m + len(extra)), dtype=dtype)
        middle, size = self._middle[self._used], max(TILE, BLOCK // (m + 2))

        def some_rows(start: int) -> None:
            part = slice(start, start + size)
            fill(X, rows[part], self._used, middle, scale, operand[part])
            for place, column in enumerate(extra):
                operand[part, m + place] = column[part]

        if len(rows) <= size:
            some_rows(0)
        else:
            run_blocks(some_rows, range(0, len(rows), size), 8.0 * operand.size)  # reading memory, mostly
        return operand


def longest_row(X: csr_array) -> int:
    """Return the largest number of stored entries in a row."""
    return int(np.diff(X.indptr).max(initial=0))


def _dense_blocks(A: csr_array, B: csr_array) -> list[Vector]:
    """Return both matrices dense, float64, on the columns in which one of them has an entry."""
    used = np.unique(np.concatenate([A.indices, B.indices]))
    blocks = []
    for part in (A, B):
        dense = np.zeros((part.shape[0], len(used)))
        rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        np.add.at(dense, (rows, np.searchsorted(used, part.indices)), part.data)
        blocks.append(dense)
    return blocks


def middle_of(X: Vector) -> Vector:
    """The mean of dense samples, exact where a column is the same everywhere."""
    first = X[0].astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        middle: Vector = first + sum((X[part] - first).sum(axis=0) for part in _parts(X)) / len(X)
    return np.where(np.isfinite(middle), middle, first)


def _differing(X: NDArray[Any], point: Vector) -> NDArray[np.bool_]:
    """The columns in which some row differs from this point."""
    found = np.zeros(len(point), dtype=bool)
    for part in _parts(X):
        found |= (X[part] != point).any(axis=0)
        if found.all():
            break
    return found


def _parts(X: NDArray[Any], entries: float = 1e5) -> Iterator[slice]:
    """Dense samples by rows that have about so many entries together."""
    size = max(1, int(entries // max(X.shape[1], 1)))
    return (slice(start, start + size) for start in range(0, len(X), size))


def _walkable(X: Matrix) -> Any:
    """Samples as compiled code takes them: canonical CSR, or a C-contiguous array of float64 or float32."""
    if is_sparse(X):
        return canonical(X)
    return aligned(X, np.float32 if X.dtype == np.float32 else np.float64)


def side_by_side(X: NDArray[Any]) -> Vector:
    """Samples by blocks of 32, feature by feature, padded with zeros: float64 of shape (blocks, m, 32)."""
    whole, rest = divmod(len(X), _SIDE_BY_SIDE)
    blocks = np.zeros((whole + (rest > 0), X.shape[1], _SIDE_BY_SIDE))
    full = X[: whole * _SIDE_BY_SIDE].reshape(whole, _SIDE_BY_SIDE, X.shape[1])
    blocks[:whole] = full.transpose(0, 2, 1)
    blocks[whole:, :, :rest] = X[whole * _SIDE_BY_SIDE :].T
    return blocks


def _exponents(Z: NDArray[Any], points: Samples, blocks: Vector, count: int, factor: float) -> Vector:
    """``factor * ‖z_i - x_j‖²`` for some of Z and `count` samples, shape (points, count)."""
    found = np.empty((len(points), count))
    points = np.ascontiguousarray(points, dtype=np.int64)
    size = max(1, int(_WORK // max(blocks.size, 1)))
    for start in range(0, len(points), size):
        part = slice(start, start + size)
        distances(Z, points[part], blocks, factor, found[part])
    return found
