"""Kernels, and Gram matrices computed by blocks: the whole matrix is never needed.

Training, prediction and certificates use the same kernel values, and :meth:`SampleGram.entry_error` bounds
their rounding. In this order: :class:`Kernel`, a kernel function; :class:`SampleGram` and
:class:`MatrixGram`, Gram matrices of samples under a kernel, or given as an array; panels, which are blocks
of columns whose rows are computed on demand; matrix-vector products by panels; and
:func:`require_psd`, the test for positive semidefiniteness.

Entries are computed by matrix products. With one or two columns appended to the samples, an inner product of
a left operand (of z) and a right operand (of x) is the argument to which an elementwise power, tanh or exp is
then applied in place (nothing for the linear kernel).

              argument       right operand              left operand
    linear    z'x            (x)                        (z)
    poly      γ z'x + c      (√γ x, √|c|)               (√γ z, ±√|c|)
    sigmoid   γ z'x + c      as poly                    as poly
    rbf       −γ‖z − x‖²     (√(2γ) x, 1, −γ‖x‖²)       (√(2γ) z, −γ‖z‖², 1)

The RBF kernel is invariant to translations, and dense samples are centred for it. Its argument (exponent) is
a difference of terms of size γ‖x‖². If cancellation would lose too many digits, squared distances are instead
summed from the differences z_k − x_k (called "by differences" below). Columns that are zero after centring
are left out.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, Self, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.linalg.lapack import dpstrf
from scipy.sparse import csr_array

from formulations.language.arguments import refuse_masked
from formulations.language.types import Matrix, MatrixLike, aligned, canonical, dense, is_sparse
from polyopt.base.threads import run_blocks
from polyopt.linalg.sparse_products import SparseRight, multiply_transposed
from polyopt.native.library import kernel as in_c

Vector: TypeAlias = NDArray[np.float64]
Samples: TypeAlias = NDArray[np.intp]

DENSE_ROWS = 64  # rows of a sparse block multiplied at once: their dense copy stays in cache
TILE_ROWS = 256  # rows of a tile of kernel values, and its columns in double precision: half a megabyte
CHUNK_ROWS = 2048  # samples of a chunk, whose rows of a product are computed at once
MAX_SQUARE_ROWS = 20_000  # rows of the largest square matrix in memory: 3.2 GB
BLOCK_ENTRIES = 1_000_000  # entries of a block of rows, which bounds its memory
_MIN_BLOCK_ROWS = 128  # smallest number of rows of a block of rows, however many columns it has
_CACHE_ENTRIES = 200_000  # entries of a strip (a block of columns) that stays in the processor's cache
_MIN_STRIP_COLUMNS = 256  # smallest number of columns of a strip
_MIN_STRIPS = 8  # smallest number of strips, for the threads, if the columns suffice
_MAX_EXPONENT_ERROR = 1e-9  # largest error of an RBF exponent by a product; above it, by differences
_MAX_SINGLE_EXPONENT = 150.0  # largest γ‖x‖² for which single precision has exponents within 1e-5
_MAX_INACCURATE_SHARE = 0.02  # share of samples with larger γ‖x‖² up to which single precision is tried
_MAX_SINGLE_ENTRY = 1e30  # largest diagonal entry that does not risk overflow in single precision
_MAX_CAREFUL_WORK = 3e8  # multiplications up to which distances are always computed by differences
_NAMES = ("linear", "poly", "rbf", "sigmoid")
_BLOCK_SAMPLES = 32  # samples in a block of `distances`
_MAX_CALL_WORK = 2e8  # multiplications of one call in C: less than 0.2 s between two checks for Ctrl-C

# exp(min(t, 0)) of the columns first to last - 1, in place, to 2 units in the last place. Values below
# exp(-87) in single precision, exp(-700) in double precision, are set to these.
exponentials = in_c("exponentials", "t!: T (n, w); first: i8; last: i8", T="f8 f4")

# squares[i] = sum_k (X[i, k] - centre[k])^2.
square_norms = in_c("square_norms", "X: T (n, m); centre: f8 (m); squares!: f8 (n)", T="f8 f4")

# out[i, j] = factor * ‖z_i - x_j‖² from the differences: z_i = Z[points[i]], x_j in the blocks of
# :func:`feature_major_blocks`.
distances = in_c(
    "distances", "Z: T (n, m); points: i8 (p); blocks: f8 (b, m, w); factor: f8; out!: f8 (p, c)", T="f8 f4",
)  # fmt: skip


def chunks(samples: Samples, size: int = CHUNK_ROWS) -> Iterator[Samples]:
    """Yield the samples in chunks of one size."""
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def short_chunks(samples: Samples, columns: int) -> Iterator[Samples]:
    """Yield the samples in chunks so short that a block of this many columns stays small."""
    return chunks(samples, min(CHUNK_ROWS, max(_MIN_BLOCK_ROWS, BLOCK_ENTRIES // max(columns, 1))))


def spread_samples(n: int, count: int = 2000) -> Samples:
    """Return the numbers of all n samples, or of `count` evenly spaced ones if there are more."""
    return np.linspace(0, n - 1, min(n, count)).astype(np.intp)


@dataclass(frozen=True)
class Kernel:
    """A kernel function.

    Attributes
    ----------
    name : {"linear", "poly", "rbf", "sigmoid"} or callable
        Its name, or a function of two sample matrices (a, m) and (z, m) that returns the matrix (a, z).
    gamma, degree, coef0
        As in scikit-learn, gamma > 0; each is ignored by the kernels without it.

    Raises
    ------
    ValueError
        Unknown name, or invalid gamma, degree or coef0.
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
        """Apply the elementwise function to the argument in place, in these columns, and return them."""
        all_columns, argument = argument, argument[..., columns]
        if self.name == "rbf":
            exponentials(all_columns, *columns.indices(all_columns.shape[1])[:2])
        elif self.name == "sigmoid":
            np.tanh(argument, out=argument)
        elif self.name == "poly" and self.degree > 1:
            base = argument.copy() if self.degree > 2 else argument
            for _ in range(self.degree - 1):
                np.multiply(argument, base, out=argument)
        return argument

    def __call__(self, A: MatrixLike, Z: MatrixLike | None = None) -> Vector:
        """Return the kernel between the rows of A and of Z (of A by default), dense float64."""
        if callable(self.name):
            return self._call_function(A, A if Z is None else Z)
        return SampleGram(A if Z is None else Z, self).cross(A)

    def _call_function(self, A: Any, Z: Any) -> Vector:
        """Return the values of a callable kernel, dense and checked."""
        assert callable(self.name)
        result = self.name(A, Z)
        refuse_masked("the kernel's matrix", result)
        values = dense(result)
        shape, is_numeric = (A.shape[0], Z.shape[0]), values.dtype.kind in "biuf"
        if values.shape != shape or not is_numeric or not np.isfinite(values).all():
            name = getattr(self.name, "__name__", type(self.name).__name__)
            fault = f"shape {values.shape}" if values.shape != shape else "NaN or infinite values"
            if not is_numeric:
                fault = f"{type(result).__name__} of {values.dtype}"
            raise ValueError(
                f"the kernel {name} must return finite real numbers of shape {shape} (rows of its first "
                f"argument by rows of its second), not {fault}"
            )
        return values.astype(float, copy=False)


class SampleGram:
    """The Gram matrix of samples X (n, m), dense or CSR, under a kernel.

    centre (m,): a point subtracted from dense samples; for the RBF kernel it is always their mean.
    inaccurate_in_single: indices of samples whose RBF exponents have errors above 1e-5 in single precision.
    """

    def __init__(self, X: Matrix, kernel: Kernel, centre: Vector | None = None):
        self.X, self.kernel = X if callable(kernel.name) else _in_c_format(X), kernel
        X = self.X
        self.n: int = X.shape[0]
        self.entry_cost: int = X.nnz // max(self.n, 1) + 1 if is_sparse(X) else X.shape[1]
        self.is_sparse = is_sparse(X)
        self._used_columns, self._centre = np.zeros(0, dtype=np.intp), np.zeros(0)
        if not self.is_sparse and not callable(kernel.name):
            self._centre = np.zeros(X.shape[1]) if centre is None else np.ascontiguousarray(centre, float)
            if kernel.name == "rbf":
                self._centre = middle_of(X)
            self._used_columns = np.flatnonzero(_differing_columns(X, self._centre))
        self._squares = self.square_norms(X) if kernel.name == "rbf" else np.zeros(0)
        self._largest_square = float(self._squares.max(initial=0.0))  # of the squared norms, for RBF only
        self.inaccurate_in_single = np.flatnonzero(kernel.gamma * self._squares >= _MAX_SINGLE_EXPONENT)
        self._is_careful = False  # True to compute all RBF distances by differences

    def careful(self, *, always: bool = False) -> Self:
        """Return a copy that computes RBF distances by differences, if `always` or if that costs little."""
        gram = copy.copy(self)
        columns = self.X.shape[1]
        if self.is_sparse:  # two dense blocks have at most this number of columns in use, on average
            columns = min(columns, 2 * DENSE_ROWS * self.entry_cost)
        gram._is_careful = always or float(self.n) ** 2 * columns <= _MAX_CAREFUL_WORK
        return gram

    def part(self, samples: Samples) -> "SampleGram":
        """Return the Gram matrix of these samples; the RBF kernel is centred anew at their mean."""
        centre = None if self.is_sparse or self.kernel.name == "rbf" else self._centre
        gram = SampleGram(self.X[samples], self.kernel, centre)
        gram._is_careful = self._is_careful
        return gram

    # -- the matrix ------------------------------------------------------------------------------

    def diagonal(self) -> Vector:
        """Return ``K_ii`` for every sample, shape (n,)."""
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
        """Return True if single precision is worth trying on these data."""
        if self.kernel.name == "rbf":
            # The rows of inaccurate samples are computed by differences.
            return len(self.inaccurate_in_single) <= _MAX_INACCURATE_SHARE * self.n
        return float(np.abs(self.diagonal()).max()) < _MAX_SINGLE_ENTRY

    def entry_error(self) -> tuple[float, Vector]:
        """Return e and s (n,): in float64, K_ij has an error of at most e s_i s_j, and |K_ij| <= s_i s_j.

        The values of a callable count as exact, with infinite s.
        """
        name, unit = self.kernel.name, np.finfo(float).eps
        # The difference of two sparse rows has at most twice as many entries as the fullest row.
        terms = ((2 if self.is_sparse else 1) * self.terms() + 8) * unit
        if callable(name):
            return 0.0, np.full(self.n, np.inf)
        if name == "rbf":
            # By differences the exponent -t has the relative error `terms`, and t exp(-t) is at most 1/e.
            error = terms if self._uses_differences else self._exponent_error()
            return error + 8 * unit, self.sizes(self._squares)
        return self.product_error(self.terms(), unit), self.sizes(self.square_norms(self.X))

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> "Panel":
        """Return the panel ``K[:, columns]`` (all columns if None) in this precision."""
        columns = np.arange(self.n) if columns is None else columns
        if callable(self.kernel.name):
            right = self.X[columns].astype(float)
            return FunctionPanel(lambda rows: self.kernel(self.X[rows].astype(float), right), np.dtype(dtype))
        if self.kernel.name == "rbf":
            is_single = np.dtype(dtype) == np.float32 and self.is_single()
            if not is_single and self._uses_differences:
                exponents = self.differences_from(columns)
                return FunctionPanel(
                    lambda rows: self.kernel.finish(exponents(self.X, rows)), np.dtype(dtype)
                )
        return SamplePanel(self, columns, np.dtype(dtype))

    def cross(self, Z: Matrix) -> Vector:
        """Return ``k(z, x)`` for points Z (t, m) and these samples x: float64 of shape (t, n)."""
        if callable(self.kernel.name):
            return self.kernel(Z.astype(float), self.X)
        Z = self.in_same_format(Z)
        points, squares, K = np.arange(Z.shape[0]), np.zeros(0), np.empty((Z.shape[0], self.n))
        if self.kernel.name == "rbf":
            squares = self.square_norms(Z)
            errors = self._error_per_square(Z) * np.maximum(squares, self._largest_square)
            far = points if self._is_careful else np.flatnonzero(~(errors <= _MAX_EXPONENT_ERROR))
            if len(far):
                K[far] = self.differences_from(np.arange(self.n))(Z, far)
                points = np.delete(points, far)
        are_all = len(points) == len(K)
        for part in chunks(points, 2 * TILE_ROWS):  # Ctrl-C is noticed between two of them
            left = self.operand(part, np.dtype(float), left=True, points=(Z, squares))
            products = K[part[0] : part[-1] + 1] if are_all else np.empty((len(part), self.n))
            if self.is_sparse:
                self._right_operand.multiply(left, 0, self.n, products, self._right_operand.work_arrays())
            else:
                np.matmul(left, self._right_operand.T, out=products)
            if not are_all:
                K[part] = products
        return self.kernel.finish(K)

    @cached_property
    def _right_operand(self) -> Any:
        """The right operand of all samples in double precision."""
        right = self.operand(np.arange(self.n), np.dtype(float), left=False)
        return SparseRight(right) if self.is_sparse else right

    # -- operands of products, and their errors ---------------------------------------------------

    def terms(self, Z: Matrix | None = None) -> int:
        """Return the largest number of terms of a sum over features: if sparse, the most entries of a row."""
        if not self.is_sparse:
            return int(self.X.shape[1])
        sparse: list[Any] = [self.X] if Z is None else [self.X, Z]
        return max(int(np.diff(X.indptr).max(initial=0)) for X in sparse)

    def square_norms(self, X: Matrix) -> Vector:
        """Return the squared norms of the rows of X, centred as these samples are."""
        if is_sparse(X):
            from sklearn.utils.extmath import row_norms

            return np.asarray(row_norms(X.astype(float), squared=True))
        squares = np.empty(len(X))
        for part in _row_slices(X, _MAX_CALL_WORK):
            square_norms(X[part], self._centre, squares[part])
        return squares

    def product_error(self, roundings: int, unit: float) -> float:
        """Return e of :meth:`entry_error` for `roundings` of size `unit` in each term (not for RBF)."""
        terms = (roundings + 8) * unit
        if self.kernel.name == "linear":
            return 2 * terms
        return 2 * terms + 8 * unit if self.kernel.name == "sigmoid" else (self.kernel.degree + 1) * terms

    def sizes(self, squares: Vector) -> Vector:
        """Return the sizes s of :meth:`entry_error` of points with these squared norms."""
        name = self.kernel.name
        if name == "rbf":
            return np.ones(len(squares))
        if name == "linear":
            return np.sqrt(squares)
        size = self.kernel.gamma * squares + abs(self.kernel.coef0)
        return np.maximum(np.sqrt(size), 1.0) if name == "sigmoid" else size ** (self.kernel.degree / 2)

    def _exponent_error(self) -> float:
        """Return the error of an RBF exponent between two samples, computed by a product."""
        return self._error_per_square() * self._largest_square

    def _error_per_square(self, Z: Matrix | None = None) -> float:
        """Return the error of an RBF exponent by a product, per unit of the largest squared norm."""
        return 4 * float(self.terms(Z) + 8) * float(np.finfo(float).eps) * self.kernel.gamma

    @property
    def _uses_differences(self) -> bool:
        """True if the distances between samples are computed by differences (RBF kernel)."""
        return self._is_careful or not self._exponent_error() <= _MAX_EXPONENT_ERROR

    def in_same_format(self, Z: Matrix) -> Matrix:
        """Return points in the format of these samples: CSR or dense."""
        if is_sparse(Z):
            return canonical(Z) if self.is_sparse else _in_c_format(Z.toarray())
        return sp.csr_array(Z) if self.is_sparse else _in_c_format(Z)

    def differences_from(self, columns: Samples) -> Callable[[Matrix, Samples], Vector]:
        """Return a function that computes RBF exponents by differences.

        Its arguments are a matrix Z and the positions of points in it; its result is (points, columns).
        """
        factor = -self.kernel.gamma
        if not self.is_sparse:
            blocks = feature_major_blocks(self.X[columns])
            return lambda Z, points: _scaled_distances(Z, points, blocks, len(columns), factor)

        def by_blocks(Z: Matrix, points: Samples) -> Vector:
            exponents = np.empty((len(points), len(columns)))
            for start in range(0, len(columns), DENSE_ROWS):
                samples = self.X[columns[start : start + DENSE_ROWS]]
                for first in range(0, len(points), DENSE_ROWS):
                    left, right = _dense_blocks(Z[points[first : first + DENSE_ROWS]], samples)
                    exponents[first : first + DENSE_ROWS, start : start + DENSE_ROWS] = _scaled_distances(
                        left, np.arange(len(left)), feature_major_blocks(right), len(right), factor
                    )
            return exponents

        return by_blocks

    def operand(
        self, rows: Samples, dtype: np.dtype[Any], *, left: bool, points: tuple[Matrix, Vector] | None = None,
        without_norms: bool = False,
    ) -> Matrix:  # fmt: skip
        """Return the left or right operand of the kernel's argument, as in the module's table.

        points: a matrix whose rows replace the samples, and the squared norms of these (used for RBF only).
        without_norms: append no columns for the RBF kernel: the product is 2γ x'z.
        """
        X, squares = (self.X, self._squares) if points is None else points
        name, gamma, coef0 = self.kernel.name, self.kernel.gamma, self.kernel.coef0
        scale = 1.0 if name == "linear" else float(np.sqrt(2.0 * gamma if name == "rbf" else gamma))
        extra: list[Any] = []
        if name == "rbf":
            extra = [] if without_norms else [np.ones(len(rows)), -gamma * squares[rows]]
        elif name != "linear" and coef0 != 0.0:
            constant = np.sqrt(abs(coef0)) * np.ones(len(rows))
            extra = [-constant if left and coef0 < 0 else constant]
        if left:
            extra.reverse()
        if self.is_sparse:
            blocks = [X[rows].astype(float) * scale, *(sp.csr_array(column[:, None]) for column in extra)]
            return sp.hstack(blocks, format="csr", dtype=dtype)
        m = len(self._used_columns)
        operand = np.empty((len(rows), m + len(extra)), dtype=dtype)
        centre, size = self._centre[self._used_columns], max(1, _CACHE_ENTRIES // 4 // (m + 2))

        def fill_rows(start: int) -> None:
            part = slice(start, start + size)
            block = X.take(rows[part], axis=0)
            if m < X.shape[1]:
                block = block.take(self._used_columns, axis=1)
            np.multiply(block - centre, scale, out=operand[part, :m], casting="same_kind")
            for k, column in enumerate(extra):
                operand[part, m + k] = column[part]

        if len(rows) <= size:
            fill_rows(0)
        else:
            run_blocks(fill_rows, range(0, len(rows), size), 8.0 * operand.size)  # mostly memory traffic
        return operand


class MatrixGram:
    """A symmetric positive semidefinite Gram matrix, given as an array K (n, n)."""

    def __init__(self, K: MatrixLike):
        self.K = np.asarray(dense(K), dtype=float)
        if self.K.ndim != 2 or self.K.shape[0] != self.K.shape[1]:
            raise ValueError(f"the Gram matrix must be square, not of shape {self.K.shape}")
        self.n, self.entry_cost = len(self.K), 1

    def diagonal(self) -> Vector:
        return self.K.diagonal()

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> "Panel":
        def block(samples: Samples) -> Vector:
            return self.K[samples] if columns is None else self.K[np.ix_(samples, columns)]

        return FunctionPanel(block, np.dtype(dtype))

    def is_single(self) -> bool:
        return float(np.abs(self.K.diagonal()).max()) < _MAX_SINGLE_ENTRY

    def entry_error(self) -> tuple[float, Vector]:
        """Return e = 0, and for s the root of the largest entry."""
        return 0.0, np.full(self.n, float(np.sqrt(np.abs(self.K).max(initial=0.0))))


Gram = SampleGram | MatrixGram


def as_gram(K: Gram | MatrixLike) -> Gram:
    """Return a Gram matrix unchanged, and a square array as a :class:`MatrixGram`."""
    return cast("Gram", K) if hasattr(K, "panel") else MatrixGram(K)


# -- panels and products ------------------------------------------------------------


class FunctionPanel:
    """Columns of a Gram matrix whose rows are computed by a function of the samples."""

    def __init__(self, values: Callable[[Samples], NDArray[Any]], dtype: np.dtype[Any]):
        self._values, self._dtype = values, dtype

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return ``K[samples, columns]``, written into `out` if given."""
        block = self._values(samples)
        if out is None:
            return block.astype(self._dtype, copy=False)
        out[...] = block
        return out


class SamplePanel:
    """Columns, ascending, of a SampleGram with a named kernel: products by BLAS, then the kernel in place."""

    def __init__(self, gram: SampleGram, columns: Samples, dtype: np.dtype[Any]):
        self._gram, self._columns, self._dtype = gram, columns, dtype
        self._right_operand: Any = gram.operand(columns, dtype, left=False)

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        count, width = len(samples), self._right_operand.shape[0]
        if out is None:
            out = np.empty((count, width), dtype=self._dtype)
        left, right, apply_kernel = self._left_operand(samples), self._right_operand, self._gram.kernel.finish
        cost = float(count) * width * (self._gram.entry_cost + 8)
        if sp.issparse(left):

            def compute_rows(start: int) -> None:
                rows = out[start : start + DENSE_ROWS]
                multiply_transposed(right, left[start : start + DENSE_ROWS], rows)
                apply_kernel(rows)

            run_blocks(compute_rows, range(0, count, DENSE_ROWS), cost)
        else:
            strip = max(_MIN_STRIP_COLUMNS, min(_CACHE_ENTRIES // max(count, 1), -(-width // _MIN_STRIPS)))

            def compute_columns(start: int) -> None:
                columns = slice(start, start + strip)
                np.matmul(left, right[columns].T, out=out[:, columns])
                apply_kernel(out, columns)  # while these columns are in the cache

            run_blocks(compute_columns, range(0, width, strip), cost)
        inaccurate = self._inaccurate_positions(samples)
        if len(inaccurate):
            out[inaccurate] = apply_kernel(self._exponents(self._gram.X, samples[inaccurate]))
        return out

    @property
    def is_dense(self) -> bool:
        """True if the samples are dense."""
        return not sp.issparse(self._right_operand)

    def matvec(self, samples: Samples, weights: Vector, tick: Callable[[], None] | None) -> Vector:
        """Return ``K[samples, columns] weights``, by tiles that stay in the processor's cache."""
        right, apply_kernel = self._right_operand, self._gram.kernel.finish
        tile_columns = TILE_ROWS * 8 // self._dtype.itemsize
        result, rounded_weights = np.empty(len(samples)), weights.astype(self._dtype)

        def compute_tiles(start: int) -> None:
            if tick is not None:
                tick()
            left = self._left_operand(samples[start : start + TILE_ROWS])
            buffer = np.empty(len(left) * tile_columns, dtype=self._dtype)
            total = np.zeros(len(left))
            for first in range(0, len(right), tile_columns):
                tile = right[first : first + tile_columns]
                values = buffer[: len(left) * len(tile)].reshape(len(left), len(tile))
                np.matmul(left, tile.T, out=values)
                total += apply_kernel(values) @ rounded_weights[first : first + len(tile)]
            result[start : start + len(left)] = total

        cost = float(len(samples)) * len(right) * (self._gram.entry_cost + 8)
        run_blocks(compute_tiles, range(0, len(samples), TILE_ROWS), cost)
        inaccurate = self._inaccurate_positions(samples)
        for part in short_chunks(inaccurate, len(right)):
            exponents = self._exponents(self._gram.X, samples[part])
            result[part] = apply_kernel(exponents) @ weights
        return result

    @cached_property
    def _exponents(self) -> Callable[[Matrix, Samples], Vector]:
        """A function for the RBF exponents of points, by differences from the columns' samples."""
        exponents: Callable[[Matrix, Samples], Vector] = self._gram.differences_from(self._columns)
        return exponents

    def _inaccurate_positions(self, samples: Samples) -> Samples:
        """Return positions of the samples whose exponents must be recomputed by differences.

        With single precision, these are the samples whose γ‖x‖² is too large for exponents by products.
        """
        inaccurate: Samples = self._gram.inaccurate_in_single
        if self._dtype != np.float32 or not len(inaccurate):
            return inaccurate[:0]
        return np.flatnonzero(np.isin(samples, inaccurate))

    def _left_operand(self, samples: Samples) -> Any:
        """Return the left operand of the samples, copied from the right operand if all are columns.

        The RBF operands differ only in the order of their last two columns, (1, −γ‖x‖²) at the right. For
        coef0 < 0 the last columns differ in sign, so the left operand is built anew.
        """
        position = np.searchsorted(self._columns, samples).clip(max=len(self._columns) - 1)
        kernel = self._gram.kernel
        are_columns = self.is_dense and (self._columns[position] == samples).all()
        if not are_columns or (kernel.name != "rbf" and kernel.coef0 < 0.0):
            return self._gram.operand(samples, self._dtype, left=True)
        left = self._right_operand.take(position, axis=0)
        if kernel.name == "rbf":
            left[:, -2] = left[:, -1]
            left[:, -1] = 1.0
        return left


Panel = FunctionPanel | SamplePanel


def gram_matvec(
    gram: Gram, coefficients: Vector, samples: Samples | None = None, *, dtype: DTypeLike = np.float64,
    tick: Callable[[], None] | None = None,
) -> Vector:  # fmt: skip
    """Return ``K[samples] coefficients``, of all samples if None.

    tick: called before each block, and may raise.
    """
    samples, support = np.arange(gram.n) if samples is None else samples, np.flatnonzero(coefficients)
    if not len(support):
        return np.zeros(len(samples))
    panel, weights = gram.panel(support, dtype), coefficients[support]
    if isinstance(panel, SamplePanel) and panel.is_dense:
        return panel.matvec(samples, weights, tick)
    result = np.empty(len(samples))
    for positions in short_chunks(np.arange(len(samples)), len(weights)):
        if tick is not None:
            tick()
        result[positions] = panel.rows(samples[positions]) @ weights
    return result


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
    """Return both matrices dense, restricted to the columns in which one of them has an entry."""
    used = np.unique(np.concatenate([A.indices, B.indices]))
    blocks = []
    for part in (A, B):
        block = np.zeros((part.shape[0], len(used)))
        rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        np.add.at(block, (rows, np.searchsorted(used, part.indices)), part.data)
        blocks.append(block)
    return blocks


def middle_of(X: Vector) -> Vector:
    """Return the mean (m,) of dense samples, exact for a constant column."""
    first = X[0].astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        middle: Vector = first + sum((X[part] - first).sum(axis=0) for part in _row_slices(X)) / len(X)
    return np.where(np.isfinite(middle), middle, first)


def _differing_columns(X: NDArray[Any], point: Vector) -> NDArray[np.bool_]:
    """Return the mask of the columns in which some row differs from this point."""
    differs = np.zeros(len(point), dtype=bool)
    for part in _row_slices(X):
        differs |= (X[part] != point).any(axis=0)
        if differs.all():
            break
    return differs


def _row_slices(X: NDArray[Any], entries: float = 1e5) -> Iterator[slice]:
    """Yield slices of rows with at most about this number of entries each."""
    size = max(1, int(entries // max(X.shape[1], 1)))
    return (slice(start, start + size) for start in range(0, len(X), size))


def _in_c_format(X: Matrix) -> Any:
    """Return samples for the C kernels: canonical CSR, or a C-contiguous array of float64 or float32."""
    if is_sparse(X):
        return canonical(X)
    return aligned(X, np.float32 if X.dtype == np.float32 else np.float64)


def feature_major_blocks(X: NDArray[Any]) -> Vector:
    """Return samples in blocks of 32, feature by feature, padded with zeros: float64 (blocks, m, 32)."""
    n_full, remainder = divmod(len(X), _BLOCK_SAMPLES)
    blocks = np.zeros((n_full + (remainder > 0), X.shape[1], _BLOCK_SAMPLES))
    full = X[: n_full * _BLOCK_SAMPLES].reshape(n_full, _BLOCK_SAMPLES, X.shape[1])
    blocks[:n_full] = full.transpose(0, 2, 1)
    blocks[n_full:, :, :remainder] = X[n_full * _BLOCK_SAMPLES :].T
    return blocks


def _scaled_distances(Z: NDArray[Any], points: Samples, blocks: Vector, count: int, factor: float) -> Vector:
    """Return ``factor * ‖z_i - x_j‖²`` for these rows of Z and the `count` samples in the blocks."""
    result = np.empty((len(points), count))
    points = np.ascontiguousarray(points, dtype=np.int64)
    size = max(1, int(_MAX_CALL_WORK // max(blocks.size, 1)))
    for start in range(0, len(points), size):
        part = slice(start, start + size)
        distances(Z, points[part], blocks, factor, result[part])
    return result


def require_psd(gram: Gram | MatrixLike, max_samples: int = 2000) -> float:
    """Refuse a Gram matrix that is clearly not symmetric positive semidefinite.

    Return a bound on the magnitude of a negative eigenvalue of the tested matrix: K if n is at most
    `max_samples`, else the principal submatrix of `max_samples` evenly spaced samples, which may be
    semidefinite although K is not. Nothing is computed for a Mercer kernel.

    ValueError: the matrix is not finite or not symmetric, or has an eigenvalue below -1e-8 n max|K|.
    """
    gram = as_gram(gram)
    if isinstance(gram, SampleGram) and gram.kernel.is_mercer:
        return 0.0
    samples = spread_samples(gram.n, max_samples)
    K = gram.panel(samples, np.float64).rows(samples)
    _require_symmetric(gram.K if isinstance(gram, MatrixGram) else K)
    n, size = len(K), float(np.abs(K).max())
    # A Cholesky factorisation that succeeds proves all eigenvalues above -rounding (Rump 2006).
    unit = (n + 4) * np.finfo(float).eps / 2
    max_shift, rounding = 1e-8 * n * size, unit * float(np.trace(K)) * (1 + 1e-6)
    for shift in (-2 * rounding, 4 * unit * size, max_shift):
        try:
            np.linalg.cholesky(K + shift * np.eye(n))
        except np.linalg.LinAlgError:
            continue
        if shift <= 0.0:
            return 0.0
        if shift < max_shift:
            return min(shift + rounding + unit * n * shift, bound_by_low_rank(K))
    least = float(np.linalg.eigvalsh(K)[0])
    if least < -max_shift:
        part = "" if n == gram.n else f" of {n} of its samples"
        raise ValueError(
            "the Gram matrix must be positive semidefinite; "
            f"its smallest eigenvalue{part} is {least:.3g}. "
            "The dual is not concave for this kernel; choose a Mercer kernel"
        )
    return max(-least, 0.0) + unit * n * size  # with the rounding of the eigenvalue


def bound_by_low_rank(K: Vector) -> float:
    """Return a bound on the magnitude of negative eigenvalues from K = LL' + E, where L has low rank.

    No eigenvalue is below -‖E‖: the bound is the computed norm of E plus the rounding of LL'.
    """
    n, eps = len(K), np.finfo(float).eps
    factor, order, rank, _ = dpstrf(K, tol=n * eps * float(K.diagonal().max()), lower=1)
    L = np.tril(factor)[:, :rank]
    pivots = order - 1
    E = K[np.ix_(pivots, pivots)] - L @ L.T
    return float(np.linalg.norm(E) + (rank + 4) * eps / 2 * ((L**2).sum() + np.trace(K))) * (1 + 1e-6)


def _require_symmetric(K: Vector) -> None:
    """Raise ValueError if K is not finite, or not symmetric up to 1e-8 max|K|."""
    size = max(float(K.max()), -float(K.min()))
    if not np.isfinite(size):
        raise ValueError("the Gram matrix must be finite; it has NaN or infinite values")
    for rows in chunks(np.arange(len(K)), DENSE_ROWS):
        part = slice(rows[0], rows[-1] + 1)
        if np.abs(K[part] - K[:, part].T).max() > 1e-8 * size:
            raise ValueError("the Gram matrix must be symmetric")
