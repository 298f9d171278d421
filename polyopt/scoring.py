"""Scores of many points under kernel expansions: f_p(z) = Σ_j c_jp k(x_j, z).

Points and samples are taken by tiles that stay in cache: a matrix product gives the kernel's arguments, the
kernel is finished in place, and its values are weighed with the coefficients before they leave. Blocks of
points run on as many threads as BLAS may use, with the same sums on one and on many.

:meth:`Scorer.scores` is in double precision. :meth:`Scorer.bounded_scores` takes single precision, which is
several times faster, and bounds each score's error, so that a caller who needs no more than a sign knows
which signs are certain.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyopt.operands import weigh
from polyopt.threads import run_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.kernels import SampleGram

    Array = NDArray[np.float64]
    Points = NDArray[np.intp]

__all__ = ["Part", "Scorer"]

_POINTS = 512  # of a block, and samples of a tile: 1 MB of single precision
_SAMPLES = 512
_DENSE_POINTS = 64  # sparse points that are multiplied at once
_UNIT = 2.0**-24  # rounding of single precision
_ROUNDINGS = 16  # more than a value's own: the exponential, its last digit, a coefficient's
_TINY = 1e-30  # more than what is lost below the range of single precision
_MOST = 0.01  # error of an exponent beyond which nothing is said
_TERMS = 128  # of a product that are summed at once in single precision, so that fewer roundings add up
_WORTH = 1e7  # multiplications below which single precision saves no time


class Part(NamedTuple):
    """Samples that lie side by side, and their coefficients in some of the expansions.

    Attributes
    ----------
    start, stop : int
        The samples.
    columns : ndarray of int, shape (q,)
        The expansions.
    coef : ndarray of shape (stop - start, q)
        The coefficients.
    """

    start: int
    stop: int
    columns: Points
    coef: Array

    @classmethod
    def whole(cls, coef: Array) -> Part:
        """All samples, in a single expansion with these coefficients."""
        return cls(0, len(coef), np.zeros(1, dtype=np.intp), coef[:, None])


class Scorer:
    """Kernel expansions, prepared for scoring.

    Parameters
    ----------
    gram : SampleGram
        The samples x_j of all expansions, with their kernel.
    parts : list of Part
        Their coefficients; those that no part gives are 0.
    count : int
        Number of expansions.
    """

    def __init__(self, gram: SampleGram, parts: list[Part], count: int = 1):
        self._gram, self._count = gram, count
        self._tiles = [
            Part(start, stop, part.columns, part.coef[start - part.start : stop - part.start])
            for part in parts
            for start in range(part.start, part.stop, _SAMPLES)
            for stop in [min(start + _SAMPLES, part.stop)]
        ]
        self._summed = max(len(tile.coef) if len(tile.columns) > 1 else 0 for tile in self._tiles)
        self._by_differences = bool(gram.needs_differences(np.zeros(1), 1)[0])
        self._operands: dict[Any, Any] = {}

    def scores(self, Z: Any) -> Array:
        """The scores of points (t, m), in double precision, shape (t, expansions)."""
        is_safe = not callable(self._gram.kernel.name)  # on threads
        if is_safe and not self._by_differences:
            self._operand(np.float64)  # before the threads ask for it
        cost = self._cost(Z) if is_safe else 0.0
        found = run_blocks(lambda points: self._exact(Z[points]), _blocks(Z.shape[0]), cost)
        return self._joined(found)

    def bounded_scores(self, Z: Any) -> tuple[Array, Array]:
        """The scores of points in single precision, and bounds on their errors, inf where there is none.

        Both of shape (t, expansions). See :meth:`is_worth_bounding`.
        """
        self._operand(np.float32)  # before the threads ask for it
        found = run_blocks(lambda points: self._bounded(Z[points]), _blocks(Z.shape[0]), self._cost(Z))
        return self._joined([scores for scores, _ in found]), self._joined([errors for _, errors in found])

    def _joined(self, blocks: list[Array]) -> Array:
        """Scores of all points (t, expansions) from those of the blocks (expansions, points)."""
        return np.concatenate([np.zeros((self._count, 0)), *blocks], axis=1).T

    def _exact(self, Z: Any) -> Array:
        """The scores of a block of points, shape (expansions, points)."""
        gram = self._gram
        if callable(gram.kernel.name):
            return self._weighed(gram.cross(Z.astype(float)))
        Z = gram.alike(Z) if gram.is_sparse else np.ascontiguousarray(gram.alike(Z))
        squares = gram.square_norms(Z) if gram.kernel.name == "rbf" else np.zeros(0)
        far = gram.needs_differences(squares, Z.shape[0])
        if far.all():
            return self._weighed(gram.cross(Z))
        near = np.flatnonzero(~far)
        left = gram.operand(near, np.dtype(float), left=True, of=(Z, squares))
        found = self._by_sparse(left) if gram.is_sparse else self._by_tiles(left)
        if not far.any():
            return found
        scores = np.empty((self._count, Z.shape[0]))
        scores[:, near], scores[:, far] = found, self._weighed(gram.cross(Z[far]))
        return scores

    def _by_tiles(self, left: Array) -> Array:
        """The scores of dense points from their side of the product."""
        right, found = self._operand(np.float64), np.zeros((self._count, len(left)))
        space = np.empty(len(left) * _SAMPLES)
        for tile in self._tiles:
            values = _shaped(space, len(left), tile)
            np.matmul(left, right[tile.start : tile.stop].T, out=values)
            found[tile.columns] += tile.coef.T @ self._gram.kernel.finish(values).T
        return found

    def _by_sparse(self, left: Any) -> Array:
        """The scores of sparse points from their side of the product, few of which are made dense at once."""
        right, found = self._operand(np.float64), np.zeros((self._count, left.shape[0]))
        for start in range(0, left.shape[0], _DENSE_POINTS):
            part = slice(start, start + _DENSE_POINTS)
            found[:, part] = self._weighed(self._gram.kernel.finish((right @ left[part].toarray().T).T))
        return found

    def _weighed(self, K: Array) -> Array:
        """The scores (expansions, points) from the kernel between the points and all samples."""
        scores = np.zeros((self._count, len(K)))
        for tile in self._tiles:
            scores[tile.columns] += tile.coef.T @ K[:, tile.start : tile.stop].T
        return scores

    def _bounded(self, Z: Any) -> tuple[Array, Array]:
        """The scores of a block of points in single precision and their errors, (expansions, points) each."""
        gram, Z = self._gram, np.ascontiguousarray(Z)
        right, squares = self._operand(np.float32), gram.square_norms(Z)
        every, single = np.arange(len(Z)), np.dtype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            left = gram.operand(every, single, left=True, of=(Z, squares))
            space, spare = np.empty((2, len(Z) * _SAMPLES), dtype=single)
            scores, sizes = np.zeros((2, self._count, len(Z)))
            for tile, coef in zip(self._tiles, self._single_coefs, strict=True):
                values, other = _shaped(space, len(Z), tile), _shaped(spare, len(Z), tile)
                _multiply(left, right[tile.start : tile.stop], values, other)
                gram.kernel.finish(values)
                if len(tile.columns) == 1:
                    at = tile.columns[0]
                    weigh(values, tile.coef[:, 0], scores[at], sizes[at])
                else:
                    found = coef @ values.T
                    scores[tile.columns] += found[: len(tile.columns)]
                    sizes[tile.columns] += found[len(tile.columns) :]
            return scores, self._errors(squares, sizes)

    def is_worth_bounding(self, Z: Any) -> bool:
        """Whether single precision is likely to tell most signs of these points, and sooner."""
        gram = self._gram
        return (
            not callable(gram.kernel.name)
            and not sp.issparse(Z)
            and not gram.is_sparse
            and self._cost(Z) > _WORTH
            and gram.is_single()
            and not self._by_differences
        )

    def _errors(self, squares: Array, sizes: Array) -> Array:
        """Bounds on the errors of scores whose terms' absolute values sum to `sizes`, in single precision.

        An RBF exponent is a product of rows, summed by d terms at once: it is off by no more than
        ``d u γ (‖x‖ + ‖z‖)²``, and its exponential by that share of it. Other kernels are as far off as
        :meth:`SampleGram.entry_error` says. Sums over samples are in double precision for a single
        expansion, and of so many terms as a tile has samples for several.
        """
        gram, summed = self._gram, (_ROUNDINGS + self._summed) * _UNIT
        if gram.kernel.name == "rbf":
            reach = gram.kernel.gamma * (np.sqrt(gram.largest_square()) + np.sqrt(squares)) ** 2
            width = self._operand(np.float32).shape[1]
            roundings = min(width, _TERMS + width // _TERMS + 1) + _ROUNDINGS
            exponent = roundings * _UNIT * reach + _TINY
            share = np.where(exponent < _MOST, exponent + summed, np.inf)
            return 1.02 * share * (sizes + _TINY * self._reach[1][:, None])
        entry = self._reach[0] / np.finfo(float).eps * 2 * _UNIT
        return 1.02 * (entry + summed) * (self._reach[1][:, None] + _TINY) * gram.sizes(squares)

    @cached_property
    def _reach(self) -> tuple[float, Array]:
        """The error of a kernel value in units of the sizes, and ``Σ_j |c_jp| s_j`` of every expansion."""
        (error, own), totals = self._gram.entry_error(), np.zeros(self._count)
        for tile in self._tiles:
            totals[tile.columns] += own[tile.start : tile.stop] @ np.abs(tile.coef)
        return error, totals

    def _operand(self, dtype: Any) -> Any:
        """The samples' side of the product, kept: it is the same for all points."""
        if dtype not in self._operands:
            every = np.arange(self._gram.n)
            self._operands[dtype] = self._gram.operand(every, np.dtype(dtype), left=False)
        return self._operands[dtype]

    @cached_property
    def _single_coefs(self) -> list[Any]:
        """Of every tile, coefficients and their absolute values side by side."""
        return [np.vstack([tile.coef.T, np.abs(tile.coef.T)]).astype(np.float32) for tile in self._tiles]

    def _cost(self, Z: Any) -> float:
        return float(Z.shape[0]) * self._gram.n * (self._gram.width + self._count)


def _shaped(space: Any, count: int, tile: Part) -> Any:
    """Room for the kernel between so many points and a tile's samples, without gaps, for compiled loops."""
    width = tile.stop - tile.start
    return space[: count * width].reshape(count, width)


def _multiply(left: Any, right: Any, out: Any, spare: Any) -> None:
    """``left right'``, from parts of so few terms each."""
    count = -(-left.shape[1] // _TERMS)
    width = -(-left.shape[1] // count)
    np.matmul(left[:, :width], right[:, :width].T, out=out)
    for start in range(width, left.shape[1], width):
        part = slice(start, start + width)
        np.matmul(left[:, part], right[:, part].T, out=spare)
        np.add(out, spare, out=out)


def _blocks(count: int) -> list[slice]:
    return [slice(start, min(start + _POINTS, count)) for start in range(0, count, _POINTS)]
