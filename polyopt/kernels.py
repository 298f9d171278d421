"""Kernels, and Gram matrices served by blocks: nobody here needs the whole matrix.

Every named kernel is a function of one matrix product. With one or two columns appended to the
samples the product gives the function's argument outright,

    linear    z'x                          (x)                     (z)
    poly      γ z'x + c                    (√γ x, √|c|)            (√γ z, ±√|c|)
    sigmoid   γ z'x + c                    as poly
    rbf       −γ‖z − x‖²                   (√(2γ) x, 1, −γ‖x‖²)    (√(2γ) z, −γ‖z‖², 1)

and what is left is an elementwise power, tanh or exp in place. Columns of zeros are left out, and
the RBF kernel, blind to translations, sees dense samples centred. Its exponent is a difference of terms as
large as γ‖x‖²; where that would cost it its digits, distances are added up from the differences of the
samples instead. It is never above 0.

Training, prediction and certificates all take their kernel from here, and :meth:`SampleGram.entry_error`
bounds how far its values are from those of real arithmetic.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from polyopt.threads import run_blocks

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = [
    "Gram",
    "Kernel",
    "MatrixGram",
    "Panel",
    "SampleGram",
    "SamplePanel",
    "as_gram",
    "chunks",
    "middle_of",
    "outputs_at",
    "require_psd",
    "spread_samples",
    "stream",
    "strips",
    "weighted",
]

_DENSE_ROWS = 64  # rows of a sparse block that are multiplied at once: their dense copy stays in cache
_TILE = 256  # rows of a tile, and columns in double precision: half a megabyte
_CHUNK = 2048  # rows of a product that is streamed
_BLOCK, _LEAST_ROWS = (
    1_000_000,
    128,
)  # numbers of such a block, whose memory is taken again, and its rows at least
# Numbers that a processor's cache holds; columns of a block at least; blocks, where there are enough columns.
_CACHED, _LEAST_STRIP, _STRIPS = 200_000, 256, 8
_DEAR = 256  # multiplications of an entry from which it is taken from its mirror image where that is at hand
# Single precision keeps an RBF exponent to 1e-5 while the exponent's terms are no larger than this.
_SINGLE_EXPONENT = 150.0
_FEW_FAR = 0.02  # share of the samples that may lie further out: their rows are computed by differences
_EXPONENT_ERROR = 1e-9  # of an RBF kernel's exponent by products; where more may be lost, by differences
_CAREFUL = 3e8  # multiplications up to which :meth:`SampleGram.careful` takes differences in any case
_NAMES = ("linear", "poly", "rbf", "sigmoid")
_SOME = 2000  # samples that stand for all where the whole matrix would cost too much


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
        """Whether its Gram matrices are positive semidefinite whatever the samples."""
        return self.name in ("linear", "rbf") or (self.name == "poly" and self.coef0 >= 0.0)

    def __call__(self, A: Any, Z: Any = None) -> Vector:
        """Kernel between the rows of A and of Z (of A and A by default), dense float64."""
        if callable(self.name):
            return np.asarray(self.name(A, A if Z is None else Z), dtype=float)
        return SampleGram(A if Z is None else Z, self).cross(A)

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


class Panel(Protocol):
    """The columns of a Gram matrix that belong to chosen samples, served by rows."""

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """``K[samples, columns]``, into `out` where it is given."""


class Gram(Protocol):
    """A symmetric matrix of inner products, by blocks."""

    n: int
    width: int  # multiplications that an entry costs

    def diagonal(self) -> Vector:
        """``K_ii`` for every sample, shape (n,)."""

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        """A server of ``K[:, columns]`` (of all columns for None) in that precision."""

    def is_single(self) -> bool:
        """Whether single precision is worth trying on these data."""

    def entry_error(self) -> tuple[float, Vector]:
        """Error e, sizes s (n,): ``|K_ij - its true value| <= e s_i s_j``, ``|K_ij| <= s_i s_j``; float64."""


def stream(
    gram: Gram,
    coefficients: Vector,
    dtype: DTypeLike = np.float64,
    tick: Callable[[], None] | None = None,
) -> Vector:
    """``K coefficients`` from blocks, only the columns that count being computed.

    Parameters
    ----------
    gram : Gram
        The matrix.
    coefficients : ndarray of shape (n,)
        The vector.
    dtype : dtype
        Precision of the kernel values.
    tick : callable, optional
        As in :func:`weighted`.
    """
    support = np.flatnonzero(coefficients)
    if not len(support):
        return np.zeros(gram.n)
    return weighted(gram.panel(support, dtype), np.arange(gram.n), coefficients[support], tick)


def weighted(
    panel: Panel, samples: Samples, weights: Vector, tick: Callable[[], None] | None = None
) -> Vector:
    """``K[samples, columns] weights`` by blocks, shape (samples,).

    Parameters
    ----------
    panel : Panel
        A server of these columns.
    samples : ndarray of int
        The rows.
    weights : ndarray of shape (columns,)
        The weights.
    tick : callable, optional
        Called before every block; what it raises ends the work.
    """
    tick = tick or _go_on
    if isinstance(panel, SamplePanel) and panel.is_dense:
        return panel.weighted(samples, weights, tick)
    found = np.empty(len(samples))
    for at in strips(np.arange(len(samples)), len(weights)):
        tick()
        found[at] = panel.rows(samples[at]) @ weights
    return found


def outputs_at(gram: Gram, samples: Samples, coefficients: Vector) -> Vector:
    """``K[samples] coefficients`` for a few samples, in double precision, shape (samples,).

    Parameters
    ----------
    gram : Gram
        The matrix.
    samples : ndarray of int
        The samples.
    coefficients : ndarray of shape (n,)
        The vector.
    """
    support = np.flatnonzero(coefficients)

    def of_some(part: Samples) -> Vector:
        return gram.panel(part, np.float64).rows(samples) @ coefficients[part]

    parts = run_blocks(of_some, chunks(support, 2 * _TILE), float(len(samples)) * len(support) * gram.width)
    return np.sum(parts, axis=0) if parts else np.zeros(len(samples))


def _go_on() -> None:
    """Nothing ends the work."""


def square(gram: Gram, samples: Samples) -> Vector:
    """``K[samples, samples]`` in double precision, each entry computed once and mirrored."""
    K = np.empty((len(samples), len(samples)))
    for start in range(0, len(samples), _CHUNK // 2):
        end = start + _CHUNK // 2
        block = gram.panel(samples[start:], np.float64).rows(samples[start:end])
        K[start:end, start:] = block
        K[start:, start:end] = block.T
    return K


def chunks(samples: Samples, size: int = _CHUNK) -> Iterator[Samples]:
    """The samples, so many at a time.

    Parameters
    ----------
    samples : ndarray of int
        Samples.
    size : int
        How many at a time.
    """
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def strips(samples: Samples, columns: int) -> Iterator[Samples]:
    """The samples, as many at a time as keep a block with so many columns small.

    Parameters
    ----------
    samples : ndarray of int
        Samples.
    columns : int
        Columns of the blocks.
    """
    return chunks(samples, min(_CHUNK, max(_LEAST_ROWS, _BLOCK // max(columns, 1))))


def spread_samples(n: int) -> Samples:
    """All of n samples, or 2,000 of them evenly spaced."""
    return np.linspace(0, n - 1, min(n, _SOME)).astype(np.intp)


def as_gram(K: Gram | Any) -> Gram:
    """A Gram matrix served by blocks, as it is; a square array as a :class:`MatrixGram`."""
    return K if hasattr(K, "panel") else MatrixGram(K)


def require_psd(gram: Gram | Any) -> float:
    """Refuse a Gram matrix that is clearly not symmetric positive semidefinite.

    Up to 2,000 samples the matrix is tested whole. Beyond, the principal submatrix of 2,000 evenly
    spaced samples is: a semidefinite matrix passes, but another one may pass as well. Of kernels that
    are semidefinite by nature nothing is computed.

    Parameters
    ----------
    gram : Gram or array_like of shape (n, n)
        The matrix.

    Returns
    -------
    float
        How far below zero an eigenvalue of the matrix tested may lie; 0 for kernels that are
        semidefinite by nature.

    Raises
    ------
    ValueError
        It is not finite or not symmetric, or has an eigenvalue below -1e-8 n max|K|.
    """
    gram = as_gram(gram)
    if isinstance(gram, SampleGram) and gram.kernel.is_mercer:
        return 0.0
    samples = spread_samples(gram.n)
    K = gram.panel(samples, np.float64).rows(samples)
    _require_symmetric(gram.K if isinstance(gram, MatrixGram) else K)
    n, size = len(K), float(np.abs(K).max())
    # A Cholesky factorisation that ends proves all eigenvalues above minus this (Rump 2006).
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
    """How far below zero an eigenvalue of K may lie, from what a factor of low rank leaves of it.

    K = LL' + E, and no eigenvalue is below -‖E‖: what is computed of E, and the rounding of LL' in it.
    """
    from scipy.linalg.lapack import dpstrf

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
    for rows in chunks(np.arange(len(K)), _DENSE_ROWS):
        part = slice(rows[0], rows[-1] + 1)
        if np.abs(K[part] - K[:, part].T).max() > 1e-8 * size:
            raise ValueError("the Gram matrix must be symmetric")


class MatrixGram:
    """A Gram matrix that is there as a whole.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semidefinite matrix.

    Raises
    ------
    ValueError
        K is not square.
    """

    def __init__(self, K: Any):
        self.K = np.asarray(K.toarray() if sp.issparse(K) else K, dtype=float)
        if self.K.ndim != 2 or self.K.shape[0] != self.K.shape[1]:
            raise ValueError(f"the Gram matrix must be square, not of shape {self.K.shape}")
        self.n, self.width = len(self.K), 1

    def diagonal(self) -> Vector:
        return self.K.diagonal()

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        return _MatrixPanel(self.K, columns, np.dtype(dtype))

    def is_single(self) -> bool:
        return float(np.abs(self.K.diagonal()).max()) < 1e30

    def entry_error(self) -> tuple[float, Vector]:
        """The matrix is what it is: no error; sizes by its largest entry."""
        return 0.0, np.full(self.n, float(np.sqrt(np.abs(self.K).max(initial=0.0))))


class _MatrixPanel:
    def __init__(self, K: Vector, columns: Samples | None, dtype: np.dtype[Any]):
        self._K, self._columns, self._dtype = K, columns, dtype

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        block = self._K[samples] if self._columns is None else self._K[np.ix_(samples, self._columns)]
        if out is None:
            return block.astype(self._dtype, copy=False)
        out[...] = block
        return out


class SampleGram:
    """The Gram matrix of samples under a named kernel.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    kernel : Kernel
        The kernel.
    centre : ndarray of shape (m,), optional
        What to take from dense samples first. The RBF kernel takes their mean by itself.
    """

    def __init__(self, X: Any, kernel: Kernel, centre: Vector | None = None):
        self.X, self.kernel = X, kernel
        self.n = X.shape[0]
        self.width = X.nnz // max(self.n, 1) + 1 if sp.issparse(X) else X.shape[1]
        self.is_sparse = sp.issparse(X)
        self._used, self._middle = np.zeros(0, dtype=np.intp), np.zeros(0)
        if not self.is_sparse and not callable(kernel.name):
            self._middle = np.zeros(X.shape[1]) if centre is None else centre
            if kernel.name == "rbf":
                self._middle = middle_of(X)
            from polyopt.operands import differing

            # A column that is at the middle for all samples adds nothing to their products.
            self._used = np.flatnonzero(differing(X, self._middle))
        self._squares = self.square_norms(X) if kernel.name == "rbf" else np.zeros(0)
        self.far_out = np.flatnonzero(kernel.gamma * self._squares >= _SINGLE_EXPONENT)
        self._careful = False

    def part(self, samples: Samples) -> SampleGram:
        """The same for some of the samples, as others see it: far from the middle by the same kernel."""
        centre = None if self.is_sparse or self.kernel.name == "rbf" else self._middle
        found = SampleGram(self.X[samples], self.kernel, centre)
        found._careful = self._careful
        return found

    def careful(self, *, always: bool = False) -> SampleGram:
        """The same, with the RBF kernel's distances by differences where that costs little, or always."""
        twin = copy.copy(self)
        twin._careful = always or float(self.n) ** 2 * self.X.shape[1] <= _CAREFUL
        return twin

    def square_norms(self, X: Any) -> Vector:
        """Squared norms of samples, taken from the middle where the kernel's are."""
        if self.is_sparse:
            return np.asarray(X.astype(float).power(2).sum(axis=1)).ravel()
        from polyopt.operands import square_norms

        return square_norms(X, self._middle)

    def diagonal(self) -> Vector:
        if callable(self.kernel.name):
            parts = chunks(np.arange(self.n), _DENSE_ROWS)
            return np.concatenate([self.kernel(self.X[part].astype(float)).diagonal() for part in parts])
        if self.kernel.name == "rbf":
            return np.ones(self.n)
        argument = self.square_norms(self.X)
        if self.kernel.name != "linear":
            argument = self.kernel.gamma * argument + self.kernel.coef0
        return self.kernel.finish(argument)

    def is_single(self) -> bool:
        if self.kernel.name == "rbf":
            return len(self.far_out) <= _FEW_FAR * self.n
        return float(np.abs(self.diagonal()).max()) < 1e30

    def entry_error(self) -> tuple[float, Vector]:
        """As the protocol says. What a callable gives counts as exact, with sizes by its largest value."""
        name, unit = self.kernel.name, np.finfo(float).eps
        terms = (self.X.shape[1] + 8) * unit
        if callable(name):
            return 0.0, np.full(self.n, np.inf)
        if name == "rbf":
            careful = self._careful or self._loses(self._squares)
            # The exponent -t is off by its own share, and t exp(-t) is at most 1/e.
            error = terms if careful else self._exponent_error(self._squares)
            return error + 8 * unit, self.sizes(self._squares)
        return self.product_error(self.X.shape[1], unit), self.sizes(self.square_norms(self.X))

    def product_error(self, roundings: int, unit: float) -> float:
        """As :meth:`entry_error`, of kernels other than RBF, for products of so many roundings each."""
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
        """What the RBF kernel's exponent may lose by products, for points of these squared norms."""
        return self._exponent_share() * max(float(squares.max(initial=0.0)), self.largest_square())

    def _exponent_share(self) -> float:
        return 4 * (self.X.shape[1] + 8) * np.finfo(float).eps * self.kernel.gamma

    def _loses(self, squares: Vector) -> bool:
        return not self._exponent_error(squares) <= _EXPONENT_ERROR

    def largest_square(self) -> float:
        """The largest squared norm of these samples (RBF kernel)."""
        return float(self._squares.max(initial=0.0))

    def needs_differences(self, squares: Vector, count: int) -> NDArray[np.bool_]:
        """Of `count` points with these squared norms, which need distances by differences (RBF kernel)."""
        if self.kernel.name != "rbf":
            return np.zeros(count, dtype=bool)
        if self._careful:
            return np.ones(count, dtype=bool)
        return ~(self._exponent_share() * np.maximum(squares, self.largest_square()) <= _EXPONENT_ERROR)

    def alike(self, Z: Any) -> Any:
        """Points sparse where these samples are, and dense where they are."""
        if sp.issparse(Z) == self.is_sparse:
            return Z
        return sp.csr_array(Z) if self.is_sparse else Z.toarray()

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        every = np.arange(self.n) if columns is None else columns
        if callable(self.kernel.name):
            return _CallPanel(self, every, np.dtype(dtype))
        if self.kernel.name == "rbf":
            single = np.dtype(dtype) == np.float32 and self.is_single()
            if not single and (self._careful or self._loses(self._squares)):
                return _DifferencePanel(self, every, np.dtype(dtype))
        return SamplePanel(self, every, np.dtype(dtype))

    def cross(self, Z: Any) -> Vector:
        """``k(z, x)`` for other points z and these samples x, float64.

        Parameters
        ----------
        Z : ndarray or CSR of shape (t, m)
            The points.

        Returns
        -------
        ndarray of shape (t, n)
        """
        if callable(self.kernel.name):
            return self.kernel(Z, self.X)
        Z = self.alike(Z)
        every, points = np.arange(self.n), np.arange(Z.shape[0])
        squares = self.square_norms(Z) if self.kernel.name == "rbf" else np.zeros(0)
        if self.kernel.name == "rbf" and (self._careful or self._loses(squares)):
            return self.kernel.finish(self.differences(Z, points, every))
        from polyopt.sparse_products import multiply_turned

        right = self.operand(every, np.dtype(float), left=False)
        K = np.empty((len(points), self.n))
        for part in chunks(points):
            left = self.operand(part, np.dtype(float), left=True, of=(Z, squares))
            if self.is_sparse:
                multiply_turned(right, left, K[part[0] : part[-1] + 1])
            else:
                K[part] = left @ right.T
        return self.kernel.finish(K)

    def differences(self, Z: Any, points: Samples, columns: Samples) -> Vector:
        """The RBF kernel's exponents from the differences of the samples, shape (points, columns)."""
        from polyopt.operands import distances

        if not self.is_sparse:
            return distances(Z, points, self.X, columns, -self.kernel.gamma)
        exponents = np.empty((len(points), len(columns)))
        for start in range(0, len(columns), _DENSE_ROWS):
            some = self.X[columns[start : start + _DENSE_ROWS]].toarray().astype(float)
            for first in range(0, len(points), _DENSE_ROWS):
                rows = Z[points[first : first + _DENSE_ROWS]].toarray().astype(float)
                exponents[first : first + _DENSE_ROWS, start : start + _DENSE_ROWS] = distances(
                    rows, np.arange(len(rows)), some, np.arange(len(some)), -self.kernel.gamma
                )
        return exponents

    def operand(
        self,
        rows: Samples,
        dtype: np.dtype[Any],
        *,
        left: bool,
        of: tuple[Any, Vector] | None = None,
        bare: bool = False,
    ) -> Any:
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
        middle, size = self._middle[self._used], max(_TILE, _BLOCK // (m + 2))

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


def middle_of(X: Any) -> Vector:
    """The mean of dense samples, exact where a column is the same everywhere."""
    from polyopt.operands import sums_from

    first = X[0].astype(float)
    middle = first + sums_from(X, first) / len(X)
    return np.where(np.isfinite(middle), middle, first)


class _DifferencePanel:
    def __init__(self, gram: SampleGram, columns: Samples, dtype: np.dtype[Any]):
        self._gram, self._columns, self._dtype = gram, columns, dtype

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        block = self._gram.kernel.finish(self._gram.differences(self._gram.X, samples, self._columns))
        if out is None:
            return block.astype(self._dtype, copy=False)
        out[...] = block
        return out


class _CallPanel:
    def __init__(self, gram: SampleGram, columns: Samples, dtype: np.dtype[Any]):
        self._gram, self._columns, self._dtype = gram, gram.X[columns].astype(float), dtype

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        block = self._gram.kernel(self._gram.X[samples].astype(float), self._columns)
        if out is None:
            return block.astype(self._dtype, copy=False)
        out[...] = block
        return out


class SamplePanel:
    """A :class:`Panel` of samples under a named kernel: products by BLAS, made kernel values in place.

    Parameters
    ----------
    gram : SampleGram
        The samples, and the kernel.
    columns : ndarray of int
        The samples whose columns are served, ascending.
    dtype : dtype
        Precision of the values.
    """

    def __init__(self, gram: SampleGram, columns: Samples, dtype: np.dtype[Any]):
        self._gram, self._dtype = gram, dtype
        self._columns = columns
        self._right = gram.operand(columns, dtype, left=False)

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        count, width = len(samples), self._right.shape[0]
        if out is None:
            out = np.empty((count, width), dtype=self._dtype)
        left, right, finish = self._left(samples), self._right, self._gram.kernel.finish
        cost = float(count) * width * (self._gram.width + 8)
        if sp.issparse(left):
            from polyopt.sparse_products import multiply_turned

            def some_rows(start: int) -> None:
                rows = out[start : start + _DENSE_ROWS]
                multiply_turned(right, left[start : start + _DENSE_ROWS], rows)
                finish(rows)

            run_blocks(some_rows, range(0, count, _DENSE_ROWS), cost)
        else:
            strip = max(_LEAST_STRIP, min(_CACHED // max(count, 1), -(-width // _STRIPS)))

            def some_columns(start: int) -> None:
                columns = slice(start, start + strip)
                np.matmul(left, right[columns].T, out=out[:, columns])
                finish(out, columns)  # while they are in the processor's cache

            run_blocks(some_columns, range(0, width, strip), cost)
        far = self._far_among(samples)
        if len(far):
            exponents = self._gram.differences(self._gram.X, samples[far], self._columns)
            out[far] = self._gram.kernel.finish(exponents)
        return out

    @property
    def is_dense(self) -> bool:
        """Whether the samples are."""
        return not sp.issparse(self._right)

    @property
    def is_dear(self) -> bool:
        """Whether an entry costs more than to take its mirror image, which is as exact, from another row."""
        gram = self._gram
        return self.is_dense and gram.width >= _DEAR and not (self._dtype == np.float32 and len(gram.far_out))

    def block(self, samples: Samples, places: Samples) -> NDArray[Any]:
        """``K[samples, columns[places]]``, shape (samples, places)."""
        found, left = np.empty((len(samples), len(places)), dtype=self._dtype), self._left(samples)

        def some_columns(start: int) -> None:
            columns = slice(start, start + _LEAST_STRIP)
            np.matmul(left, self._right[places[columns]].T, out=found[:, columns])
            self._gram.kernel.finish(found, columns)

        cost = float(len(samples)) * len(places) * self._gram.width
        run_blocks(some_columns, range(0, len(places), _LEAST_STRIP), cost)
        return found

    def factors(self) -> tuple[Vector, Vector, int] | None:
        """``(left, right, degree)``: ``left @ right.T`` is the argument of the kernel between the samples.

        The kernel is the argument to that power, or its exponential where the power is 0. None where it is
        neither, for sparse samples, and in single precision.
        """
        kernel = self._gram.kernel
        if not self.is_dense or self._dtype != np.float64 or kernel.name == "sigmoid":
            return None
        degree = kernel.degree if kernel.name == "poly" else int(kernel.name == "linear")
        return self._left(self._columns), self._right, degree

    def weighted(self, samples: Samples, weights: Vector, tick: Callable[[], None]) -> Vector:
        """``K[samples, columns] weights``, by tiles that do not leave the processor's cache."""
        right, finish, size = self._right, self._gram.kernel.finish, self._dtype.itemsize
        found, factors = np.empty(len(samples)), weights.astype(self._dtype)

        def some_rows(start: int) -> None:
            tick()
            left = self._left(samples[start : start + _TILE])
            space = np.empty(len(left) * _TILE * 8 // size, dtype=self._dtype)
            total = np.zeros(len(left))
            for first in range(0, len(right), _TILE * 8 // size):
                some = right[first : first + _TILE * 8 // size]
                values = space[: len(left) * len(some)].reshape(len(left), len(some))
                np.matmul(left, some.T, out=values)
                total += finish(values) @ factors[first : first + len(some)]
            found[start : start + len(left)] = total

        cost = float(len(samples)) * len(right) * (self._gram.width + 8)
        run_blocks(some_rows, range(0, len(samples), _TILE), cost)
        far = self._far_among(samples)
        for part in strips(far, len(right)):
            exponents = self._gram.differences(self._gram.X, samples[part], self._columns)
            found[part] = self._gram.kernel.finish(exponents) @ weights
        return found

    def _far_among(self, samples: Samples) -> Samples:
        """Which of these are so far out that single precision would lose their exponents."""
        far = self._gram.far_out
        if self._dtype != np.float32 or not len(far):
            return far[:0]
        return np.flatnonzero(np.isin(samples, far))

    def _left(self, samples: Samples) -> Any:
        """The left operand; from the right one, where the samples are among its own."""
        place = np.searchsorted(self._columns, samples).clip(max=len(self._columns) - 1)
        kernel = self._gram.kernel
        known = not sp.issparse(self._right) and (self._columns[place] == samples).all()
        if not known or (kernel.name != "rbf" and kernel.coef0 < 0.0):
            return self._gram.operand(samples, self._dtype, left=True)
        left = self._right[place]
        if kernel.name == "rbf":
            left[:, [-2, -1]] = left[:, [-1, -2]]
        return left
