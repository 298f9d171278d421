"""Kernels, and Gram matrices computed by blocks: the whole matrix is never needed.

Training, prediction and certificates use the same kernel values, and :meth:`SampleGram.entry_error` bounds
their rounding. A Gram matrix, of samples under a kernel or given as a whole, gives column panels, which are
computed by rows, and matrix-vector products.

With one or two columns appended to the samples, one matrix product is the argument of the kernel function:

    linear    z'x                          (x)                     (z)
    poly      γ z'x + c                    (√γ x, √|c|)            (√γ z, ±√|c|)
    sigmoid   γ z'x + c                    as poly
    rbf       −γ‖z − x‖²                   (√(2γ) x, 1, −γ‖x‖²)    (√(2γ) z, −γ‖z‖², 1)

and an elementwise power, tanh or exp in place remains.

The RBF kernel is invariant to translations, and dense samples are centred for it. Its exponent is a
difference of terms of size γ‖x‖²; if cancellation would lose too many digits, distances are summed from the
differences of the samples instead. Columns that are zero after centring are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol, Self, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.linalg.lapack import dpstrf
from scipy.sparse import csr_array

from formulations.language.arguments import refuse_masked
from formulations.language.types import Matrix, MatrixLike, aligned, canonical, dense, is_sparse
from polyopt.base.threads import run_blocks
from polyopt.linalg.sparse_products import multiply_turned
from polyopt.native.library import kernel as in_c

Vector: TypeAlias = "NDArray[np.float64]"
Samples: TypeAlias = "NDArray[np.intp]"

DENSE_ROWS = 64  # rows of a sparse block multiplied at once: their dense copy stays in cache
TILE_ROWS = 256  # rows of a tile, and its columns in double precision: half a megabyte
CHUNK_ROWS = 2048  # rows of a block of a product
MAX_SQUARE_ROWS = 20_000  # rows of the largest square matrix held in memory: 3.2 GB
BLOCK_ENTRIES = 1_000_000  # entries of a block of rows, which bounds its memory
_MIN_BLOCK_ROWS = 128  # rows of such a block at least, however many columns it has
_CACHE_ENTRIES = 200_000  # entries of a block of columns that stays in the processor's cache
_MIN_STRIP_COLUMNS = 256  # columns of such a block at least
_MIN_STRIPS = 8  # blocks of columns at least, for the threads, if there are enough columns
_MAX_EXPONENT_ERROR = 1e-9  # of an RBF exponent computed by a product; beyond, differences are used
_MAX_CAREFUL_WORK = 3e8  # multiplications up to which distances are always computed by differences
_NAMES = ("linear", "poly", "rbf", "sigmoid")
_SIDE_BY_SIDE = 32  # samples in a block of `distances`
_MAX_CALL_WORK = 2e8  # multiplications of one call in C: less than 0.2 s between two checks for Ctrl-C

# exp(min(t, 0)) of the columns first to last - 1, in place, to 2 units in the last place. Values below
# exp(-87) in single precision, exp(-700) in double precision, are set to these.
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

# out[i, j] = factor * ‖z_i - x_j‖² from the differences: z_i = Z[points[i]], x_j as in :func:`side_by_side`.
distances = in_c(
    "distances",
    "Z: T (n, m); points: i8 (p); blocks: f8 (b, m, w); factor: f8; out!: f8 (p, c)",
    T="f8 f4",
)


class Panel(Protocol):
    """Selected columns of a Gram matrix, of which any rows can be computed."""

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return ``K[samples, columns]``, written into `out` if given."""


class Gram(Protocol):
    """A symmetric matrix of inner products, by blocks."""

    n: int
    entry_cost: int  # multiplications per entry

    def diagonal(self) -> Vector:
        """Return ``K_ii`` for every sample, shape (n,)."""

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        """Return the panel ``K[:, columns]`` (all columns if None) in this precision."""

    def is_single(self) -> bool:
        """Return True if single precision is worth trying on these data."""

    def entry_error(self) -> tuple[float, Vector]:
        """Return e and s (n,): ``|K_ij - its exact value| <= e s_i s_j``, ``|K_ij| <= s_i s_j``; float64."""


def chunks(samples: Samples, size: int = CHUNK_ROWS) -> Iterator[Samples]:
    """Yield the samples in chunks of one size."""
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def strips(samples: Samples, columns: int) -> Iterator[Samples]:
    """Yield the samples in chunks so short that a block of this many columns stays small."""
    return chunks(samples, min(CHUNK_ROWS, max(_MIN_BLOCK_ROWS, BLOCK_ENTRIES // max(columns, 1))))


def spread_samples(n: int, count: int = 2000) -> Samples:
    """Return all of n samples, or `count` evenly spaced ones, which represent the matrix."""
    return np.linspace(0, n - 1, min(n, count)).astype(np.intp)


@dataclass(frozen=True)
class Kernel:
    """A kernel function.

    Attributes
    ----------
    name : {"linear", "poly", "rbf", "sigmoid"} or callable
        Its name, or a function of two sample matrices (a, m) and (z, m) that gives (a, z).
    gamma, degree, coef0
        As in scikit-learn, gamma > 0; a kernel that has no use for one ignores it.

    Raises
    ------
    ValueError
        A name or a number that is none of these.
    """

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
        """True if the Gram matrix of any samples is positive semidefinite."""
        return self.name in ("linear", "rbf") or (self.name == "poly" and self.coef0 >= 0.0)

    def finish(self, argument: NDArray[Any], columns: slice = slice(None)) -> NDArray[Any]:
        """Apply the kernel to its argument (the table above) in place, in these columns; return these."""
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

    def __call__(self, A: MatrixLike, Z: MatrixLike | None = None) -> Vector:
        """Kernel between the rows of A and of Z (of A and A by default), dense float64."""
        if callable(self.name):
            return self._of_function(A, A if Z is None else Z)
        return SampleGram(A if Z is None else Z, self).cross(A)

    def _of_function(self, A: Any, Z: Any) -> Vector:
        """Return the values of a callable kernel, dense and checked."""
        assert callable(self.name)
        given = self.name(A, Z)
        refuse_masked("the kernel's matrix", given)
        values = dense(given)
        shape, is_numeric = (A.shape[0], Z.shape[0]), values.dtype.kind in "biuf"
        if values.shape != shape or not is_numeric or not np.isfinite(values).all():
            name = getattr(self.name, "__name__", type(self.name).__name__)
            found = f"shape {values.shape}" if is_numeric else f"{type(given).__name__} of {values.dtype}"
            found = found if values.shape != shape or not is_numeric else "NaN or infinite values"
            raise ValueError(
                f"the kernel {name} must return finite real numbers of shape {shape} (rows of its first "
                f"argument by rows of its second), not {found}"
            )
        return values.astype(float, copy=False)


class SampleGram:
    """The Gram matrix of samples X (n, m), dense or CSR, under a kernel.

    centre (m,): a point subtracted from dense samples. The RBF kernel always subtracts their mean.
    """

    def __init__(self, X: Matrix, kernel: Kernel, centre: Vector | None = None):
        self.X, self.kernel = X if callable(kernel.name) else _for_c(X), kernel
        X = self.X
        self.n: int = X.shape[0]
        self.entry_cost: int = X.nnz // max(self.n, 1) + 1 if is_sparse(X) else X.shape[1]
        self.is_sparse = is_sparse(X)
        self._used, self._middle = np.zeros(0, dtype=np.intp), np.zeros(0)
        if not self.is_sparse and not callable(kernel.name):
            self._middle = np.zeros(X.shape[1]) if centre is None else np.ascontiguousarray(centre, float)
            if kernel.name == "rbf":
                self._middle = middle_of(X)
            self._used = np.flatnonzero(_differing(X, self._middle))
        self._squares = self.square_norms(X) if kernel.name == "rbf" else np.zeros(0)
        self._largest_square = float(self._squares.max(initial=0.0))
        # Samples whose exponents single precision does not keep to 1e-5.
        self.far_out = np.flatnonzero(kernel.gamma * self._squares >= 150.0)
        self._careful = False

    def careful(self, *, always: bool = False) -> Self:
        """Return a copy that takes RBF distances by differences if that costs little, or always."""
        twin = copy.copy(self)
        columns = (
            min(self.X.shape[1], 2 * DENSE_ROWS * self.entry_cost) if self.is_sparse else self.X.shape[1]
        )
        twin._careful = always or float(self.n) ** 2 * columns <= _MAX_CAREFUL_WORK
        return twin

    def part(self, samples: Samples) -> SampleGram:
        """Return the Gram matrix of some of the samples, with the same centre and precision."""
        centre = None if self.is_sparse or self.kernel.name == "rbf" else self._middle
        found = SampleGram(self.X[samples], self.kernel, centre)
        found._careful = self._careful
        return found

    # -- the matrix ------------------------------------------------------------------------------

    def diagonal(self) -> Vector:
        if callable(self.kernel.name):
            parts = chunks(np.arange(self.n), DENSE_ROWS)
            return np.concatenate([self.kernel(self.X[part].astype(float)).diagonal() for part in parts])
        if self.kernel.name == "rbf":
            return np.ones(self.n)
        argument = self.square_norms(self.X)
        if self.kernel.name != "linear":
            argument = self.kernel.gamma * argument + self.kernel.coef0
        return self.kernel.finish(argument)

    def is_single(self) -> bool:
        if self.kernel.name == "rbf":
            return len(self.far_out) <= 0.02 * self.n  # their rows are computed by differences
        return float(np.abs(self.diagonal()).max()) < 1e30

    def entry_error(self) -> tuple[float, Vector]:
        """See :class:`Gram`. The values of a callable count as exact, and have no sizes."""
        name, unit = self.kernel.name, np.finfo(float).eps
        # Two sparse rows differ in at most as many features as both have entries.
        terms = ((2 if self.is_sparse else 1) * self.terms() + 8) * unit
        if callable(name):
            return 0.0, np.full(self.n, np.inf)
        if name == "rbf":
            # The exponent -t has a relative error, and t exp(-t) is at most 1/e.
            error = terms if self._uses_differences else self._exponent_error()
            return error + 8 * unit, self.sizes(self._squares)
        return self.product_error(self.terms(), unit), self.sizes(self.square_norms(self.X))

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        every = np.arange(self.n) if columns is None else columns
        if callable(self.kernel.name):
            right = self.X[every].astype(float)
            return FunctionPanel(lambda rows: self.kernel(self.X[rows].astype(float), right), np.dtype(dtype))
        if self.kernel.name == "rbf":
            single = np.dtype(dtype) == np.float32 and self.is_single()
            if not single and self._uses_differences:
                exponents = self.differences_from(every)
                return FunctionPanel(
                    lambda rows: self.kernel.finish(exponents(self.X, rows)), np.dtype(dtype)
                )
        return SamplePanel(self, every, np.dtype(dtype))

    def cross(self, Z: Matrix) -> Vector:
        """``k(z, x)`` for points Z (t, m) and these samples x: float64 of shape (t, n)."""
        if callable(self.kernel.name):
            return self.kernel(Z, self.X)
        Z = self.alike(Z)
        every, points = np.arange(self.n), np.arange(Z.shape[0])
        squares = self.square_norms(Z) if self.kernel.name == "rbf" else np.zeros(0)
        if self.needs_differences(squares, Z).any():
            return self.kernel.finish(self.differences_from(every)(Z, points))
        right = self.operand(every, np.dtype(float), left=False)
        K = np.empty((len(points), self.n))
        for part in chunks(points):
            left = self.operand(part, np.dtype(float), left=True, of=(Z, squares))
            if self.is_sparse:
                multiply_turned(right, left, K[part[0] : part[-1] + 1])
            else:
                K[part] = left @ right.T
        return self.kernel.finish(K)

    # -- operands of products, and their errors ---------------------------------------------------

    def terms(self, Z: Matrix | None = None) -> int:
        """Number of terms in a sum over features: the most stored entries of a row, if rows are sparse."""
        if not self.is_sparse:
            return int(self.X.shape[1])
        sparse: list[Any] = [self.X] if Z is None else [self.X, Z]
        return max(int(np.diff(X.indptr).max(initial=0)) for X in sparse)

    def square_norms(self, X: Matrix) -> Vector:
        """Squared norms of samples, centred as the kernel's own samples are."""
        if is_sparse(X):
            from sklearn.utils.extmath import row_norms

            return np.asarray(row_norms(X.astype(float), squared=True))
        squares = np.empty(len(X))
        for part in _parts(X, _MAX_CALL_WORK):
            square_norms(X[part], self._middle, squares[part])
        return squares

    def product_error(self, roundings: int, unit: float) -> float:
        """Error of an entry as in :meth:`entry_error`, if products have so many roundings; not for RBF."""
        terms = (roundings + 8) * unit
        if self.kernel.name == "linear":
            return 2 * terms
        return 2 * terms + 8 * unit if self.kernel.name == "sigmoid" else (self.kernel.degree + 1) * terms

    def sizes(self, squares: Vector) -> Vector:
        """Sizes, as in :meth:`entry_error`, of points with these squared norms."""
        name = self.kernel.name
        if name == "rbf":
            return np.ones(len(squares))
        if name == "linear":
            return np.sqrt(squares)
        size = self.kernel.gamma * squares + abs(self.kernel.coef0)
        return np.maximum(np.sqrt(size), 1.0) if name == "sigmoid" else size ** (self.kernel.degree / 2)

    def _exponent_error(self) -> float:
        """Error of an RBF exponent between two samples, computed by a product."""
        return self._error_per_square() * self._largest_square

    def _error_per_square(self, Z: Matrix | None = None) -> float:
        return 4 * float(self.terms(Z) + 8) * float(np.finfo(float).eps) * self.kernel.gamma

    @property
    def _uses_differences(self) -> bool:
        """True if the distances between samples are computed by differences (RBF kernel)."""
        return self._careful or not self._exponent_error() <= _MAX_EXPONENT_ERROR

    def needs_differences(self, squares: Vector, Z: Matrix) -> NDArray[np.bool_]:
        """Mark the points Z, with these squared norms, whose distances need differences (RBF kernel)."""
        count = Z.shape[0]
        if self.kernel.name != "rbf":
            return np.zeros(count, dtype=bool)
        if self._careful:
            return np.ones(count, dtype=bool)
        return ~(self._error_per_square(Z) * np.maximum(squares, self._largest_square) <= _MAX_EXPONENT_ERROR)

    def alike(self, Z: Matrix) -> Matrix:
        """Points in the format of these samples: CSR or dense."""
        if is_sparse(Z):
            return canonical(Z) if self.is_sparse else _for_c(Z.toarray())
        return sp.csr_array(Z) if self.is_sparse else _for_c(Z)

    def differences_from(self, columns: Samples) -> Callable[[Matrix, Samples], Vector]:
        """Return a function of points that computes RBF exponents by differences: (points, columns)."""
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

        of: other points in place of the samples, and for the RBF kernel their squared norms.
        bare: leave the norms out: for the RBF kernel the product is 2γ x'z.
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
        middle, size = self._middle[self._used], max(TILE_ROWS, BLOCK_ENTRIES // (m + 2))

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


class MatrixGram:
    """A symmetric positive semidefinite Gram matrix K (n, n), given as a whole."""

    def __init__(self, K: MatrixLike):
        self.K = np.asarray(dense(K), dtype=float)
        if self.K.ndim != 2 or self.K.shape[0] != self.K.shape[1]:
            raise ValueError(f"the Gram matrix must be square, not of shape {self.K.shape}")
        self.n, self.entry_cost = len(self.K), 1

    def diagonal(self) -> Vector:
        return self.K.diagonal()

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        def block(samples: Samples) -> Vector:
            return self.K[samples] if columns is None else self.K[np.ix_(samples, columns)]

        return FunctionPanel(block, np.dtype(dtype))

    def is_single(self) -> bool:
        return float(np.abs(self.K.diagonal()).max()) < 1e30

    def entry_error(self) -> tuple[float, Vector]:
        """No error; sizes by the largest entry."""
        return 0.0, np.full(self.n, float(np.sqrt(np.abs(self.K).max(initial=0.0))))


def as_gram(K: Gram | MatrixLike) -> Gram:
    """Return a Gram matrix by blocks unchanged, and a square array as a :class:`MatrixGram`."""
    return cast("Gram", K) if hasattr(K, "panel") else MatrixGram(K)


# -- panels and products ------------------------------------------------------------


class FunctionPanel:
    """A :class:`Panel` whose rows a function of the samples computes."""

    def __init__(self, values: Callable[[Samples], NDArray[Any]], dtype: np.dtype[Any]):
        self._values, self._dtype = values, dtype

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        block = self._values(samples)
        if out is None:
            return block.astype(self._dtype, copy=False)
        out[...] = block
        return out


class SamplePanel:
    """A :class:`Panel` of samples under a named kernel: products by BLAS, and the kernel in place.

    gram: a SampleGram.
    columns: ascending samples.
    """

    def __init__(self, gram: Any, columns: Samples, dtype: np.dtype[Any]):
        self._gram, self._columns, self._dtype = gram, columns, dtype
        self._right = gram.operand(columns, dtype, left=False)

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        count, width = len(samples), self._right.shape[0]
        if out is None:
            out = np.empty((count, width), dtype=self._dtype)
        left, right, apply_kernel = self._left(samples), self._right, self._gram.kernel.finish
        cost = float(count) * width * (self._gram.entry_cost + 8)
        if sp.issparse(left):

            def some_rows(start: int) -> None:
                rows = out[start : start + DENSE_ROWS]
                multiply_turned(right, left[start : start + DENSE_ROWS], rows)
                apply_kernel(rows)

            run_blocks(some_rows, range(0, count, DENSE_ROWS), cost)
        else:
            strip = max(_MIN_STRIP_COLUMNS, min(_CACHE_ENTRIES // max(count, 1), -(-width // _MIN_STRIPS)))

            def some_columns(start: int) -> None:
                columns = slice(start, start + strip)
                np.matmul(left, right[columns].T, out=out[:, columns])
                apply_kernel(out, columns)  # while they are in the processor's cache

            run_blocks(some_columns, range(0, width, strip), cost)
        inaccurate = self._inaccurate_among(samples)
        if len(inaccurate):
            out[inaccurate] = apply_kernel(self._exponents(self._gram.X, samples[inaccurate]))
        return out

    @property
    def is_dense(self) -> bool:
        """True if the samples are dense."""
        return not sp.issparse(self._right)

    def factors(self) -> tuple[Vector, Vector, int] | None:
        """Return factors of the panel's square matrix, or None.

        Return (left, right, degree) with K = (left @ right.T)**degree, or K = exp(left @ right.T) if degree
        is 0. Return None for other kernels, sparse samples, or single precision.
        """
        kernel = self._gram.kernel
        if not self.is_dense or self._dtype != np.float64 or kernel.name == "sigmoid":
            return None
        degree = kernel.degree if kernel.name == "poly" else int(kernel.name == "linear")
        return self._left(self._columns), self._right, degree

    def matvec(self, samples: Samples, weights: Vector, tick: Callable[[], None] | None) -> Vector:
        """Return ``K[samples, columns] weights``, by tiles that stay in the processor's cache."""
        right, apply_kernel = self._right, self._gram.kernel.finish
        tile_columns = TILE_ROWS * 8 // self._dtype.itemsize
        found, factors = np.empty(len(samples)), weights.astype(self._dtype)

        def some_rows(start: int) -> None:
            if tick is not None:
                tick()
            left = self._left(samples[start : start + TILE_ROWS])
            buffer = np.empty(len(left) * tile_columns, dtype=self._dtype)
            total = np.zeros(len(left))
            for first in range(0, len(right), tile_columns):
                some = right[first : first + tile_columns]
                values = buffer[: len(left) * len(some)].reshape(len(left), len(some))
                np.matmul(left, some.T, out=values)
                total += apply_kernel(values) @ factors[first : first + len(some)]
            found[start : start + len(left)] = total

        cost = float(len(samples)) * len(right) * (self._gram.entry_cost + 8)
        run_blocks(some_rows, range(0, len(samples), TILE_ROWS), cost)
        inaccurate = self._inaccurate_among(samples)
        for part in strips(inaccurate, len(right)):
            exponents = self._exponents(self._gram.X, samples[part])
            found[part] = apply_kernel(exponents) @ weights
        return found

    @cached_property
    def _exponents(self) -> Callable[[Matrix, Samples], Vector]:
        """A function for the RBF exponents of points, by differences from the columns' samples."""
        found: Callable[[Matrix, Samples], Vector] = self._gram.differences_from(self._columns)
        return found

    def _inaccurate_among(self, samples: Samples) -> Samples:
        """Return positions of the samples with γ‖x‖² too large for exponents from single-precision products.

        Their exponents are recomputed from differences.
        """
        far: Samples = self._gram.far_out
        if self._dtype != np.float32 or not len(far):
            return far[:0]
        return np.flatnonzero(np.isin(samples, far))

    def _left(self, samples: Samples) -> Any:
        """Return the left operand of the samples, copied from the right operand if all are columns.

        The RBF operands differ only in the order of their last two columns, (1, −γ‖x‖²) at the right. For
        coef0 < 0 the last columns differ in sign, so the left operand is built anew.
        """
        position = np.searchsorted(self._columns, samples).clip(max=len(self._columns) - 1)
        kernel = self._gram.kernel
        are_columns = not sp.issparse(self._right) and (self._columns[position] == samples).all()
        if not are_columns or (kernel.name != "rbf" and kernel.coef0 < 0.0):
            return self._gram.operand(samples, self._dtype, left=True)
        left = self._right[position]
        if kernel.name == "rbf":
            left[:, [-2, -1]] = left[:, [-1, -2]]
        return left


def gram_matvec(
    gram: Gram,
    coefficients: Vector,
    dtype: DTypeLike = np.float64,
    tick: Callable[[], None] | None = None,
) -> Vector:
    """Return ``K coefficients``, from the columns of the support; `tick` as in :func:`panel_matvec`."""
    support = np.flatnonzero(coefficients)
    if not len(support):
        return np.zeros(gram.n)
    return panel_matvec(gram.panel(support, dtype), np.arange(gram.n), coefficients[support], tick)


def panel_matvec(
    panel: Panel, samples: Samples, weights: Vector, tick: Callable[[], None] | None = None
) -> Vector:
    """Return ``K[samples, columns] weights``; `tick` is called before each block, and may raise."""
    if isinstance(panel, SamplePanel) and panel.is_dense:
        return panel.matvec(samples, weights, tick)
    found = np.empty(len(samples))
    for at in strips(np.arange(len(samples)), len(weights)):
        if tick is not None:
            tick()
        found[at] = panel.rows(samples[at]) @ weights
    return found


def outputs_at(gram: Gram, samples: Samples, coefficients: Vector) -> Vector:
    """Return ``K[samples] coefficients`` for a few samples, in double precision."""
    support = np.flatnonzero(coefficients)

    def of_some(part: Samples) -> Vector:
        return gram.panel(part, np.float64).rows(samples) @ coefficients[part]

    parts = run_blocks(
        of_some, chunks(support, 2 * TILE_ROWS), float(len(samples)) * len(support) * gram.entry_cost
    )
    return np.sum(parts, axis=0) if parts else np.zeros(len(samples))


def submatrix(gram: Gram, samples: Samples) -> Vector:
    """Return ``K[samples, samples]``, each entry computed once and mirrored."""
    K = np.empty((len(samples), len(samples)))
    for start in range(0, len(samples), CHUNK_ROWS // 2):
        end = start + CHUNK_ROWS // 2
        block = gram.panel(samples[start:], np.float64).rows(samples[start:end])
        K[start:end, start:] = block
        K[start:, start:end] = block.T
    return K


# -- centres, distances, definiteness ------------------------------------------------------------


def _dense_blocks(A: csr_array, B: csr_array) -> list[Vector]:
    """Return both matrices dense, on the columns in which one of them has an entry."""
    used = np.unique(np.concatenate([A.indices, B.indices]))
    blocks = []
    for part in (A, B):
        block = np.zeros((part.shape[0], len(used)))
        rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        np.add.at(block, (rows, np.searchsorted(used, part.indices)), part.data)
        blocks.append(block)
    return blocks


def middle_of(X: Vector) -> Vector:
    """Mean of dense samples, exact for a constant column."""
    first = X[0].astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        middle: Vector = first + sum((X[part] - first).sum(axis=0) for part in _parts(X)) / len(X)
    return np.where(np.isfinite(middle), middle, first)


def _differing(X: NDArray[Any], point: Vector) -> NDArray[np.bool_]:
    """Mask of the columns in which some row differs from this point."""
    found = np.zeros(len(point), dtype=bool)
    for part in _parts(X):
        found |= (X[part] != point).any(axis=0)
        if found.all():
            break
    return found


def _parts(X: NDArray[Any], entries: float = 1e5) -> Iterator[slice]:
    """Slices of rows that have about so many entries together."""
    size = max(1, int(entries // max(X.shape[1], 1)))
    return (slice(start, start + size) for start in range(0, len(X), size))


def _for_c(X: Matrix) -> Any:
    """Samples as the C kernels take them: canonical CSR, or a C-contiguous array of float64 or float32."""
    if is_sparse(X):
        return canonical(X)
    return aligned(X, np.float32 if X.dtype == np.float32 else np.float64)


def side_by_side(X: NDArray[Any]) -> Vector:
    """Samples in blocks of 32, feature by feature, padded with zeros: float64 of shape (blocks, m, 32)."""
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
    size = max(1, int(_MAX_CALL_WORK // max(blocks.size, 1)))
    for start in range(0, len(points), size):
        part = slice(start, start + size)
        distances(Z, points[part], blocks, factor, found[part])
    return found


def require_psd(gram: Gram | MatrixLike, max_samples: int = 2000) -> float:
    """Refuse a Gram matrix that is clearly not symmetric positive semidefinite.

    Return the largest magnitude that a negative eigenvalue of the tested matrix may have. The whole matrix is
    tested up to `max_samples`, else the principal submatrix of as many evenly spaced samples (which an
    indefinite matrix may pass); nothing is computed for a Mercer kernel.

    ValueError: the matrix is not finite or not symmetric, or has an eigenvalue below -1e-8 n max|K|.
    """
    gram = as_gram(gram)
    if isinstance(gram, SampleGram) and gram.kernel.is_mercer:
        return 0.0
    samples = spread_samples(gram.n, max_samples)
    K = gram.panel(samples, np.float64).rows(samples)
    _require_symmetric(gram.K if isinstance(gram, MatrixGram) else K)
    n, size = len(K), float(np.abs(K).max())
    # A Cholesky factorisation that succeeds proves all eigenvalues above -lost (Rump 2006).
    unit = (n + 4) * np.finfo(float).eps / 2
    floor, lost = 1e-8 * n * size, unit * float(np.trace(K)) * (1 + 1e-6)
    for shift in (-2 * lost, 4 * unit * size, floor):
        try:
            np.linalg.cholesky(K + shift * np.eye(n))
        except np.linalg.LinAlgError:
            continue
        if shift <= 0.0:
            return 0.0
        if shift < floor:
            return min(shift + lost + unit * n * shift, _from_factor(K))
    least = float(np.linalg.eigvalsh(K)[0])
    if least < -floor:
        part = "" if n == gram.n else f" of {n} of its samples"
        raise ValueError(
            "the Gram matrix must be positive semidefinite; "
            f"its smallest eigenvalue{part} is {least:.3g}. "
            "The dual is not concave for this kernel; choose a Mercer kernel"
        )
    return max(-least, 0.0) + unit * n * size  # no better than its own rounding


def _from_factor(K: Vector) -> float:
    """Bound on the negative part of the eigenvalues of K = LL' + E, for L of low rank.

    No eigenvalue is below -‖E‖: the norm of E as computed, plus the rounding of LL'.
    """
    n, eps = len(K), np.finfo(float).eps
    factor, order, rank, _ = dpstrf(K, tol=n * eps * float(K.diagonal().max()), lower=1)
    L = np.tril(factor)[:, :rank]
    at = order - 1
    E = K[np.ix_(at, at)] - L @ L.T
    return float(np.linalg.norm(E) + (rank + 4) * eps / 2 * ((L**2).sum() + np.trace(K))) * (1 + 1e-6)


def _require_symmetric(K: Vector) -> None:
    size = max(float(K.max()), -float(K.min()))
    if not np.isfinite(size):
        raise ValueError("the Gram matrix must be finite; it has NaN or infinite values")
    for rows in chunks(np.arange(len(K)), DENSE_ROWS):
        part = slice(rows[0], rows[-1] + 1)
        if np.abs(K[part] - K[:, part].T).max() > 1e-8 * size:
            raise ValueError("the Gram matrix must be symmetric")
