"""Kernels, and Gram matrices served by blocks: nobody here needs the whole matrix.

Every named kernel is a function of one matrix product. With one or two columns appended to the
samples the product gives the function's argument outright,

    linear    z'x                          (x)                     (z)
    poly      γ z'x + c                    (√γ x, √|c|)            (√γ z, ±√|c|)
    sigmoid   γ z'x + c                    as poly
    rbf       −γ‖z − x‖²                   (√(2γ) x, 1, −γ‖x‖²)    (√(2γ) z, −γ‖z‖², 1)

and what is left is an elementwise power, tanh or exp in place. Columns of zeros are left out, and
the RBF kernel, blind to translations, sees dense samples centred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

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
    "as_gram",
    "chunks",
    "require_psd",
    "spread_samples",
    "stream",
]

_DENSE_ROWS = 64  # rows of a sparse block that are multiplied at once: their dense copy stays in cache
_CHUNK = 2048  # rows of a product that is streamed
# Single precision keeps an RBF exponent to 1e-5 while the exponent's terms are no larger than this.
_SINGLE_EXPONENT = 150.0
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
        from sklearn.metrics.pairwise import pairwise_kernels

        settings = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        K = pairwise_kernels(A, Z, metric=self.name, filter_params=True, **settings)
        return K.toarray() if sp.issparse(K) else np.asarray(K)

    def finish(self, argument: NDArray[Any]) -> NDArray[Any]:
        """The kernel from its argument (the table above), in place."""
        if self.name == "rbf":
            np.exp(argument, out=argument)
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


def stream(gram: Gram, coefficients: Vector, dtype: DTypeLike = np.float64) -> Vector:
    """``K coefficients`` from blocks, only the columns that count being computed.

    Parameters
    ----------
    gram : Gram
        The matrix.
    coefficients : ndarray of shape (n,)
        The vector.
    dtype : dtype
        Precision of the kernel values.
    """
    support = np.flatnonzero(coefficients)
    product = np.zeros(gram.n)
    if len(support):
        panel, weights = gram.panel(support, dtype), coefficients[support].astype(dtype)
        for rows in chunks(np.arange(gram.n)):
            product[rows] = panel.rows(rows) @ weights
    return product


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


def spread_samples(n: int) -> Samples:
    """All of n samples, or 2,000 of them evenly spaced."""
    return np.linspace(0, n - 1, min(n, _SOME)).astype(np.intp)


def as_gram(K: Gram | Any) -> Gram:
    """A Gram matrix served by blocks, as it is; a square array as a :class:`MatrixGram`."""
    return K if hasattr(K, "panel") else MatrixGram(K)


def require_psd(gram: Gram | Any) -> None:
    """Refuse a Gram matrix that is clearly not symmetric positive semidefinite.

    Up to 2,000 samples the matrix is tested whole. Beyond, the principal submatrix of 2,000 evenly
    spaced samples is: a semidefinite matrix passes, but another one may pass as well. Of kernels that
    are semidefinite by nature nothing is computed.

    Parameters
    ----------
    gram : Gram or array_like of shape (n, n)
        The matrix.

    Raises
    ------
    ValueError
        It is not finite or not symmetric, or has an eigenvalue below -1e-8 n max|K|.
    """
    gram = as_gram(gram)
    if isinstance(gram, SampleGram) and gram.kernel.is_mercer:
        return
    samples = spread_samples(gram.n)
    K = gram.panel(samples, np.float64).rows(samples)
    _require_symmetric(gram.K if isinstance(gram, MatrixGram) else K)
    size = float(np.abs(K).max())
    floor = 1e-8 * len(K) * size
    try:
        np.linalg.cholesky(K + floor * np.eye(len(K)))
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(K)[0])
        if least < -floor:
            part = "" if len(K) == gram.n else f" of {len(K)} of its samples"
            raise ValueError(
                "the Gram matrix must be positive semidefinite; "
                f"its smallest eigenvalue{part} is {least:.3g}. "
                "The dual is not concave for this kernel; choose a Mercer kernel"
            ) from None


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
    """

    def __init__(self, X: Any, kernel: Kernel):
        self.X, self.kernel = X, kernel
        self.n = X.shape[0]
        self.width = X.nnz // max(self.n, 1) + 1 if sp.issparse(X) else X.shape[1]
        self._sparse = sp.issparse(X)
        self._used, self._centre = np.zeros(0, dtype=np.intp), np.zeros(0)
        if not self._sparse and not callable(kernel.name):
            low, high = X.min(axis=0), X.max(axis=0)
            # A column that is the same everywhere tells the RBF kernel nothing; one of zeros, none of them.
            self._used = np.flatnonzero(low < high if kernel.name == "rbf" else (low != 0) | (high != 0))
            self._centre = np.zeros(len(self._used))
            if kernel.name == "rbf":
                self._centre = X.mean(axis=0, dtype=float)[self._used]
        self._squares = self._square_norms() if kernel.name == "rbf" else np.zeros(0)

    def _square_norms(self) -> Vector:
        if self._sparse:
            return np.asarray(self.X.astype(float).power(2).sum(axis=1)).ravel()
        from polyopt.operands import square_norms

        return square_norms(self.X, self._used, self._centre)

    def diagonal(self) -> Vector:
        if callable(self.kernel.name):
            parts = chunks(np.arange(self.n), _DENSE_ROWS)
            return np.concatenate([self.kernel(self.X[part].astype(float)).diagonal() for part in parts])
        if self.kernel.name == "rbf":
            return np.ones(self.n)
        argument = self._square_norms()
        if self.kernel.name != "linear":
            argument = self.kernel.gamma * argument + self.kernel.coef0
        return self.kernel.finish(argument)

    def is_single(self) -> bool:
        if self.kernel.name == "rbf":
            return self.kernel.gamma * float(self._squares.max()) < _SINGLE_EXPONENT
        return float(np.abs(self.diagonal()).max()) < 1e30

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        every = np.arange(self.n) if columns is None else columns
        if callable(self.kernel.name):
            return _CallPanel(self, every, np.dtype(dtype))
        return _SamplePanel(self, every, np.dtype(dtype))

    def operand(self, rows: Samples, dtype: np.dtype[Any], *, left: bool) -> Any:
        """Samples with the columns appended that make the product the kernel's argument."""
        name, gamma, coef0 = self.kernel.name, self.kernel.gamma, self.kernel.coef0
        scale = 1.0 if name == "linear" else float(np.sqrt(2.0 * gamma if name == "rbf" else gamma))
        extra: list[Any] = []
        if name == "rbf":
            extra = [np.ones(len(rows)), -gamma * self._squares[rows]]
        elif name != "linear" and coef0 != 0.0:
            constant = np.sqrt(abs(coef0)) * np.ones(len(rows))
            extra = [-constant if left and coef0 < 0 else constant]
        if left:
            extra.reverse()
        if self._sparse:
            parts = [self.X[rows].astype(float) * scale, *(sp.csr_array(column[:, None]) for column in extra)]
            return sp.hstack(parts, format="csr", dtype=dtype)
        from polyopt.operands import fill

        m = len(self._used)
        operand = np.empty((len(rows), m + len(extra)), dtype=dtype)
        fill(self.X, rows, self._used, self._centre, scale, operand)
        for place, column in enumerate(extra):
            operand[:, m + place] = column
        return operand


class _CallPanel:
    def __init__(self, gram: SampleGram, columns: Samples, dtype: np.dtype[Any]):
        self._gram, self._columns, self._dtype = gram, gram.X[columns].astype(float), dtype

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        block = self._gram.kernel(self._gram.X[samples].astype(float), self._columns)
        if out is None:
            return block.astype(self._dtype, copy=False)
        out[...] = block
        return out


class _SamplePanel:
    def __init__(self, gram: SampleGram, columns: Samples, dtype: np.dtype[Any]):
        self._gram, self._dtype = gram, dtype
        self._columns = columns
        self._right = gram.operand(columns, dtype, left=False)

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        if out is None:
            out = np.empty((len(samples), self._right.shape[0]), dtype=self._dtype)
        left = self._left(samples)
        if sp.issparse(left):
            for start in range(0, len(samples), _DENSE_ROWS):
                part = slice(start, start + _DENSE_ROWS)
                out[part] = (self._right @ left[part].toarray().T).T
        else:
            np.matmul(left, self._right.T, out=out)
        return self._gram.kernel.finish(out)

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
