"""Scores of many points under kernel expansions: f_p(z) = Σ_j c_jp k(x_j, z).

Points and samples are taken by tiles that stay in cache: a matrix product gives the kernel's arguments, the
kernel is finished in place, and its values are weighed with the coefficients before they leave. Blocks of
points run on as many threads as BLAS may use, with the same sums on one and on many.

:meth:`Scorer.scores` is in double precision. :meth:`Scorer.bounded_scores` is several times faster, and
bounds each score's error, so that a caller who needs no more than a sign knows which signs are certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.base.threads import run_blocks
from polyopt.linalg.expansion_tiles import SAMPLES, Part, join, point_blocks, room_for, tiles_of
from polyopt.linalg.sparse_products import SparseRight

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from formulations.language.types import Array, Matrix
    from polyopt.linalg.bounded_scores import Bounded
    from polyopt.linalg.kernels import SampleGram

__all__ = ["Part", "Scorer"]

_MIN_BOUND_WORK = 1e7  # multiplications below which bounds save no time


class Scorer:
    """Kernel expansions, prepared for scoring.

    gram: the samples x_j of all expansions, with their kernel.
    parts: their coefficients; those that no part gives are 0.
    count: number of expansions.
    """

    def __init__(self, gram: SampleGram, parts: list[Part], count: int = 1):
        self._gram, self._parts, self._count = gram, parts, count
        self._tiles = tiles_of(parts)
        self._by_differences = bool(gram.needs_differences(np.zeros(1), gram.X[:1])[0])
        self._right: Any = None
        self._bounded: dict[Any, Bounded] = {}

    def scores(self, Z: Matrix) -> Array:
        """The scores of points (t, m), in double precision, shape (t, expansions)."""
        is_safe = not callable(self._gram.kernel.name)  # on threads
        if is_safe and not self._by_differences:
            self._operand()  # before the threads ask for it
        cost = self._cost(Z) if is_safe else 0.0
        found = run_blocks(lambda points: self._exact(Z[points]), point_blocks(Z.shape[0]), cost)
        return join(found, self._count)

    def precisions(self, Z: Matrix) -> list[Any]:
        """Precisions in which bounded scores may tell signs of these points sooner, the fastest first."""
        gram = self._gram
        if callable(gram.kernel.name) or self._cost(Z) <= _MIN_BOUND_WORK:
            return []
        if gram.kernel.name == "rbf":
            return [np.float32, np.float64]
        return [np.float32] if gram.is_single() else []

    def bounded_scores(self, Z: Matrix, dtype: DTypeLike = np.float32) -> tuple[Array, Array]:
        """The scores of points by products of one precision, and bounds on their errors.

        Both of shape (t, expansions); a bound is inf where there is none. See :meth:`precisions`.
        """
        from polyopt.linalg.bounded_scores import Bounded

        if dtype not in self._bounded:
            self._bounded[dtype] = Bounded(self._gram, self._parts, self._count, dtype)
        return self._bounded[dtype].scores(Z, self._cost(Z))

    def _exact(self, Z: Matrix) -> Array:
        """The scores of a block of points, shape (expansions, points)."""
        gram = self._gram
        if callable(gram.kernel.name):
            return self._weighed(gram.cross(Z.astype(float)))
        Z = gram.alike(Z)
        squares = gram.square_norms(Z) if gram.kernel.name == "rbf" else np.zeros(0)
        far = gram.needs_differences(squares, Z)
        if far.all():
            return self._weighed(gram.cross(Z))
        near = np.flatnonzero(~far)
        found = self._by_tiles(gram.operand(near, np.dtype(float), left=True, of=(Z, squares)))
        if not far.any():
            return found
        scores = np.empty((self._count, Z.shape[0]))
        scores[:, near], scores[:, far] = found, self._weighed(gram.cross(Z[far]))
        return scores

    def _by_tiles(self, left: Matrix) -> Array:
        """The scores of points from their side of the product."""
        right, points = self._operand(), left.shape[0]
        found, space = np.zeros((self._count, points)), np.empty(points * SAMPLES)
        room = right.room() if self._gram.is_sparse else None
        for tile in self._tiles:
            values = room_for(space, points, tile)
            if room is None:
                np.matmul(left, right[tile.start : tile.stop].T, out=values)
            else:
                right.multiply(left, tile.start, tile.stop, values, room)
            found[tile.columns] += tile.coef.T @ self._gram.kernel.finish(values).T
        return found

    def _weighed(self, K: Array) -> Array:
        """The scores (expansions, points) from the kernel between the points and all samples."""
        scores = np.zeros((self._count, len(K)))
        for tile in self._tiles:
            scores[tile.columns] += tile.coef.T @ K[:, tile.start : tile.stop].T
        return scores

    def _operand(self) -> Any:
        """The samples' side of the product, kept: it is the same for all points."""
        if self._right is None:
            right = self._gram.operand(np.arange(self._gram.n), np.dtype(float), left=False)
            if self._gram.is_sparse:
                right = SparseRight(right)
            self._right = right
        return self._right

    def _cost(self, Z: Matrix) -> float:
        return float(Z.shape[0]) * self._gram.n * (self._gram.width + self._count)
