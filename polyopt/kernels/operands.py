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

from formulations.matrices import canonical, is_sparse
from polyopt.kernels.protocol import BLOCK, DENSE_ROWS, TILE
from polyopt.threads import run_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from formulations.matrices import Matrix
    from polyopt.kernels.protocol import Samples, Vector

__all__ = ["KernelFunction", "KernelOperands", "longest_row", "middle_of"]

_MAX_EXPONENT_ERROR = 1e-9  # of an RBF kernel's exponent by products; where more may be lost, by differences
_MAX_CAREFUL_WORK = 3e8  # multiplications up to which distances are taken by differences in any case
_NAMES = ("linear", "poly", "rbf", "sigmoid")


@dataclass(frozen=True)
class KernelFunction:
    """A kernel's name and numbers, as :class:`polyopt.kernels.Kernel` documents them."""

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
            from polyopt.operands import exponentials

            exponentials(whole, *columns.indices(whole.shape[1])[:2])
        elif self.name == "sigmoid":
            np.tanh(argument, out=argument)
        elif self.name == "poly" and self.degree > 1:
            base = argument.copy() if self.degree > 2 else argument
            for _ in range(self.degree - 1):
                np.multiply(argument, base, out=argument)
        return argument


class KernelOperands:
    """Samples under a kernel, as its products take them; :class:`polyopt.kernels.SampleGram` documents it."""

    def __init__(self, X: Matrix, kernel: KernelFunction, centre: Vector | None = None):
        self.X, self.kernel = X if callable(kernel.name) else canonical(X), kernel
        X = self.X
        self.n: int = X.shape[0]
        self.width: int = X.nnz // max(self.n, 1) + 1 if is_sparse(X) else X.shape[1]
        self.is_sparse = is_sparse(X)
        self._used, self._middle = np.zeros(0, dtype=np.intp), np.zeros(0)
        if not self.is_sparse and not callable(kernel.name):
            self._middle = np.zeros(X.shape[1]) if centre is None else centre
            if kernel.name == "rbf":
                self._middle = middle_of(X)
            from polyopt.operands import differing

            # A column that is at the middle for all samples adds nothing to their products.
            self._used = np.flatnonzero(differing(X, self._middle))
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
        from polyopt.operands import square_norms

        return np.asarray(square_norms(X, self._middle))

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
            return canonical(Z) if self.is_sparse else Z.toarray()
        return sp.csr_array(Z) if self.is_sparse else Z

    def differences(self, Z: Matrix, points: Samples, columns: Samples) -> Vector:
        """The RBF kernel's exponents from the differences of the samples, shape (points, columns)."""
        from polyopt.operands import distances

        if not (is_sparse(self.X) and is_sparse(Z)):
            return np.asarray(distances(Z, points, self.X, columns, -self.kernel.gamma))
        exponents = np.empty((len(points), len(columns)))
        for start in range(0, len(columns), DENSE_ROWS):
            some = self.X[columns[start : start + DENSE_ROWS]]
            for first in range(0, len(points), DENSE_ROWS):
                left, right = _dense_blocks(Z[points[first : first + DENSE_ROWS]], some)
                exponents[first : first + DENSE_ROWS, start : start + DENSE_ROWS] = distances(
                    left, np.arange(len(left)), right, np.arange(len(right)), -self.kernel.gamma
                )
        return exponents

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
        from polyopt.operands import fill

        m = len(self._used)
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
    from polyopt.operands import sums_from

    first = X[0].astype(float)
    middle: Vector = first + sums_from(X, first) / len(X)
    return np.where(np.isfinite(middle), middle, first)
