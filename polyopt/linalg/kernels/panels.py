"""A Gram matrix accessed by blocks: protocol, column panels, served by rows, and matrix-vector products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from formulations.language.types import Matrix
from polyopt.base.threads import run_blocks
from polyopt.linalg.sparse_products import multiply_turned

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
