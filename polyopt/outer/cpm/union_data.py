"""Equal samples of a union of polytopes made one, and what was found brought back to the samples as given.

With the samples sorted, and each once with the sum of its costs, neither the order of the samples nor their
repetition in place of weight makes a difference to what is random.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.matrices import dense, is_sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix, Vector
    from polyopt.outer.cpm.union import UnionPoint

__all__ = ["Merged"]

_MOST_DENSE = 5_000_000  # entries of sparse samples up to which they are made dense to be compared


@dataclass(frozen=True)
class Merged:
    """The samples, each once.

    Attributes
    ----------
    X, y, C : array
        The samples, their labels and the sums of their costs.
    place : ndarray of int, shape (n,)
        Where each given sample is among them.
    share : ndarray of shape (n,)
        Its part of the cost there.
    """

    X: Matrix
    y: Vector
    C: Vector
    place: NDArray[np.int64]
    share: Vector

    @classmethod
    def of(cls, X: Matrix, y: Vector, C: Vector) -> Merged:
        """Merge samples (n, m) with labels and costs (n,); large sparse ones stay as they are."""
        if is_sparse(X) and X.shape[0] * X.shape[1] > _MOST_DENSE:
            return cls(X, y, C, np.arange(len(y)), np.ones(len(y)))
        rows = np.column_stack([y, dense(X)])
        unique, place = np.unique(rows, axis=0, return_inverse=True)
        at: NDArray[np.int64] = place.ravel().astype(np.int64)
        costs = np.zeros(len(unique))
        np.add.at(costs, at, C)
        return cls(np.ascontiguousarray(unique[:, 1:]), unique[:, 0].copy(), costs, at, C / costs[at])

    def given_back(self, point: UnionPoint) -> UnionPoint:
        """A point of the merged samples for those that were given."""
        at = self.place
        return replace(
            point, inside=point.inside[at], outside=point.outside[at], outputs=point.outputs[at],
            alpha=point.alpha[at] * self.share[:, None],
        )  # fmt: skip
