"""A Gram matrix by blocks: its protocol, columns served by rows, and products with a vector."""

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
TILE = 256  # rows of a tile, and its columns in double precision: half a megabyte
CHUNK = 2048  # rows of a block of a product
MAX_WHOLE = 20_000  # rows of the largest square matrix held in memory: 3.2 GB
BLOCK, _MIN_ROWS = 1_000_000, 128  # numbers in a block, and its rows at least


class Panel(Protocol):
    """Some columns of a Gram matrix, served by rows."""

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """``K[samples, columns]``, into `out` if given."""


class Gram(Protocol):
    """A symmetric matrix of inner products, by blocks."""

    n: int
    width: int  # multiplications that an entry costs

    def diagonal(self) -> Vector:
        """``K_ii`` for every sample, shape (n,)."""

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        """Return ``K[:, columns]`` (all columns if None) in this precision, served by rows."""

    def is_single(self) -> bool:
        """Return True if single precision is worth trying on these data."""

    def entry_error(self) -> tuple[float, Vector]:
        """Error e, sizes s (n,): ``|K_ij - its true value| <= e s_i s_j``, ``|K_ij| <= s_i s_j``; float64."""


def chunks(samples: Samples, size: int = CHUNK) -> Iterator[Samples]:
    """Yield the samples in chunks of one size."""
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def strips(samples: Samples, columns: int) -> Iterator[Samples]:
    """Yield the samples in chunks so short that a block of so many columns stays small."""
    return chunks(samples, min(CHUNK, max(_MIN_ROWS, BLOCK // max(columns, 1))))


def spread_samples(n: int, count: int = 2000) -> Samples:
    """Return all of n samples, or `count` evenly spaced ones, which represent the matrix."""
    return np.linspace(0, n - 1, min(n, count)).astype(np.intp)


# Numbers that the processor's cache holds; fewest columns of a block; fewest blocks, if columns allow.
_CACHE_NUMBERS, _MIN_STRIP, _MIN_STRIPS = 200_000, 256, 8


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
        left, right, finish = self._left(samples), self._right, self._gram.kernel.finish
        cost = float(count) * width * (self._gram.width + 8)
        if sp.issparse(left):

            def some_rows(start: int) -> None:
                rows = out[start : start + DENSE_ROWS]
                multiply_turned(right, left[start : start + DENSE_ROWS], rows)
                finish(rows)

            run_blocks(some_rows, range(0, count, DENSE_ROWS), cost)
        else:
            strip = max(_MIN_STRIP, min(_CACHE_NUMBERS // max(count, 1), -(-width // _MIN_STRIPS)))

            def some_columns(start: int) -> None:
                columns = slice(start, start + strip)
                np.matmul(left, right[columns].T, out=out[:, columns])
                finish(out, columns)  # while they are in the processor's cache

            run_blocks(some_columns, range(0, width, strip), cost)
        far = self._far_among(samples)
        if len(far):
            out[far] = self._gram.kernel.finish(self._exponents(self._gram.X, samples[far]))
        return out

    @property
    def is_dense(self) -> bool:
        """True if the samples are dense."""
        return not sp.issparse(self._right)

    def factors(self) -> tuple[Vector, Vector, int] | None:
        """``(left, right, degree)``: the kernel's argument is ``left @ right.T``.

        The kernel is its power of this degree, or for degree 0 its exponential. None for another kernel,
        sparse samples, or single precision.
        """
        kernel = self._gram.kernel
        if not self.is_dense or self._dtype != np.float64 or kernel.name == "sigmoid":
            return None
        degree = kernel.degree if kernel.name == "poly" else int(kernel.name == "linear")
        return self._left(self._columns), self._right, degree

    def weighted(self, samples: Samples, weights: Vector, tick: Callable[[], None] | None) -> Vector:
        """``K[samples, columns] weights``, by tiles that stay in the processor's cache."""
        right, finish, size = self._right, self._gram.kernel.finish, self._dtype.itemsize
        found, factors = np.empty(len(samples)), weights.astype(self._dtype)

        def some_rows(start: int) -> None:
            if tick is not None:
                tick()
            left = self._left(samples[start : start + TILE])
            space = np.empty(len(left) * TILE * 8 // size, dtype=self._dtype)
            total = np.zeros(len(left))
            for first in range(0, len(right), TILE * 8 // size):
                some = right[first : first + TILE * 8 // size]
                values = space[: len(left) * len(some)].reshape(len(left), len(some))
                np.matmul(left, some.T, out=values)
                total += finish(values) @ factors[first : first + len(some)]
            found[start : start + len(left)] = total

        cost = float(len(samples)) * len(right) * (self._gram.width + 8)
        run_blocks(some_rows, range(0, len(samples), TILE), cost)
        far = self._far_among(samples)
        for part in strips(far, len(right)):
            exponents = self._exponents(self._gram.X, samples[part])
            found[part] = self._gram.kernel.finish(exponents) @ weights
        return found

    @cached_property
    def _exponents(self) -> Callable[[Matrix, Samples], Vector]:
        """RBF exponents of points by differences from the columns' samples."""
        found: Callable[[Matrix, Samples], Vector] = self._gram.differences_from(self._columns)
        return found

    def _far_among(self, samples: Samples) -> Samples:
        """Places of the samples whose exponents single precision would lose."""
        far: Samples = self._gram.far_out
        if self._dtype != np.float32 or not len(far):
            return far[:0]
        return np.flatnonzero(np.isin(samples, far))

    def _left(self, samples: Samples) -> Any:
        """Left operand of the samples, copied from the right one if all of them are columns."""
        place = np.searchsorted(self._columns, samples).clip(max=len(self._columns) - 1)
        kernel = self._gram.kernel
        known = not sp.issparse(self._right) and (self._columns[place] == samples).all()
        if not known or (kernel.name != "rbf" and kernel.coef0 < 0.0):
            return self._gram.operand(samples, self._dtype, left=True)
        left = self._right[place]
        if kernel.name == "rbf":
            left[:, [-2, -1]] = left[:, [-1, -2]]
        return left


def stream(
    gram: Gram,
    coefficients: Vector,
    dtype: DTypeLike = np.float64,
    tick: Callable[[], None] | None = None,
) -> Vector:
    """``K coefficients`` by blocks, from the columns of the support; `tick` as in :func:`weighted`."""
    support = np.flatnonzero(coefficients)
    if not len(support):
        return np.zeros(gram.n)
    return weighted(gram.panel(support, dtype), np.arange(gram.n), coefficients[support], tick)


def weighted(
    panel: Panel, samples: Samples, weights: Vector, tick: Callable[[], None] | None = None
) -> Vector:
    """``K[samples, columns] weights`` by blocks; `tick` is called before each block, and may raise."""
    if isinstance(panel, SamplePanel) and panel.is_dense:
        return panel.weighted(samples, weights, tick)
    found = np.empty(len(samples))
    for at in strips(np.arange(len(samples)), len(weights)):
        if tick is not None:
            tick()
        found[at] = panel.rows(samples[at]) @ weights
    return found


def outputs_at(gram: Gram, samples: Samples, coefficients: Vector) -> Vector:
    """``K[samples] coefficients`` for a few samples, in double precision."""
    support = np.flatnonzero(coefficients)

    def of_some(part: Samples) -> Vector:
        return gram.panel(part, np.float64).rows(samples) @ coefficients[part]

    parts = run_blocks(of_some, chunks(support, 2 * TILE), float(len(samples)) * len(support) * gram.width)
    return np.sum(parts, axis=0) if parts else np.zeros(len(samples))


def square(gram: Gram, samples: Samples) -> Vector:
    """``K[samples, samples]``, each entry computed once and mirrored."""
    K = np.empty((len(samples), len(samples)))
    for start in range(0, len(samples), CHUNK // 2):
        end = start + CHUNK // 2
        block = gram.panel(samples[start:], np.float64).rows(samples[start:end])
        K[start:end, start:] = block
        K[start:, start:end] = block.T
    return K
