"""Columns of a Gram matrix, served by rows, and products of the matrix with a vector.

A product comes from blocks that are computed, used and forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels.protocol import CHUNK, DENSE_ROWS, TILE, chunks, strips
from polyopt.linalg.sparse_products import multiply_turned

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from formulations.language.types import Matrix
    from polyopt.linalg.kernels.operands import KernelOperands
    from polyopt.linalg.kernels.protocol import Gram, Panel, Samples, Vector

__all__ = ["FunctionPanel", "SamplePanel", "outputs_at", "square", "stream", "weighted"]

# Numbers that a processor's cache holds; columns of a block at least; blocks, where there are enough columns.
_CACHE_NUMBERS, _MIN_STRIP, _MIN_STRIPS = 200_000, 256, 8


class FunctionPanel:
    """A :class:`Panel` of what a function of the samples gives.

    values: gives the rows of some samples.
    dtype: precision of the values.
    """

    def __init__(self, values: Callable[[Samples], NDArray[Any]], dtype: np.dtype[Any]):
        self._values, self._dtype = values, dtype

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        block = self._values(samples)
        if out is None:
            return block.astype(self._dtype, copy=False)
        out[...] = block
        return out


class SamplePanel:
    """A :class:`Panel` of samples under a named kernel: products by BLAS, made kernel values in place.

    Parameters
    ----------
    gram : KernelOperands
        The samples, and the kernel.
    columns : ndarray of int
        The samples whose columns are served, ascending.
    dtype : dtype
        Precision of the values.
    """

    def __init__(self, gram: KernelOperands, columns: Samples, dtype: np.dtype[Any]):
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
        """``(left, right, degree)``: ``left @ right.T`` is the argument of the kernel between the samples.

        The kernel is the argument to that power, or its exponential where the power is 0. None where it is
        neither, for sparse samples, and in single precision.
        """
        kernel = self._gram.kernel
        if not self.is_dense or self._dtype != np.float64 or kernel.name == "sigmoid":
            return None
        degree = kernel.degree if kernel.name == "poly" else int(kernel.name == "linear")
        return self._left(self._columns), self._right, degree

    def weighted(self, samples: Samples, weights: Vector, tick: Callable[[], None] | None) -> Vector:
        """``K[samples, columns] weights``, by tiles that do not leave the processor's cache."""
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
        """Exponents of the RBF kernel by differences from the columns' samples."""
        return self._gram.differences_from(self._columns)

    def _far_among(self, samples: Samples) -> Samples:
        """Places of the samples so far out that single precision would lose their exponents."""
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
    if isinstance(panel, SamplePanel) and panel.is_dense:
        return panel.weighted(samples, weights, tick)
    found = np.empty(len(samples))
    for at in strips(np.arange(len(samples)), len(weights)):
        if tick is not None:
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

    parts = run_blocks(of_some, chunks(support, 2 * TILE), float(len(samples)) * len(support) * gram.width)
    return np.sum(parts, axis=0) if parts else np.zeros(len(samples))


def square(gram: Gram, samples: Samples) -> Vector:
    """``K[samples, samples]``, each entry computed once and mirrored; arguments as in :func:`outputs_at`."""
    K = np.empty((len(samples), len(samples)))
    for start in range(0, len(samples), CHUNK // 2):
        end = start + CHUNK // 2
        block = gram.panel(samples[start:], np.float64).rows(samples[start:end])
        K[start:end, start:] = block
        K[start:, start:end] = block.T
    return K
