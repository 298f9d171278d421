"""Which rows of blocks are in a fold: those that are left out have weight 0, and none is copied.

Row i of block k is of the fold (i + k) mod folds. So every fold has its share of every block, neither a seed
nor the number of workers has to do with it, and what a block's rows are of is known without another block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.large.sources import Samples

__all__ = ["Sieve", "fold_of_rows"]


def fold_of_rows(count: int, number: int, folds: int) -> NDArray[np.intp]:
    """The folds (count,) of a block's rows.

    Parameters
    ----------
    count : int
        How many rows it has.
    number : int
        The block's number.
    folds : int
        How many folds there are.
    """
    return (np.arange(count) + number) % folds


class Sieve(NamedTuple):
    """What lets some rows of every block through: those of a fold where `is_held`, else all others."""

    fold: int
    folds: int
    is_held: bool = False

    def let_through(self, samples: Samples, number: int) -> Samples:
        """The same samples, in which those that are left out have weight 0.

        Parameters
        ----------
        samples : Samples
            A block.
        number : int
            Its number.
        """
        is_in = (fold_of_rows(len(samples.y), number, self.folds) == self.fold) == self.is_held
        weights = 1.0 if samples.weights is None else np.asarray(samples.weights, dtype=float)
        return samples._replace(weights=np.where(is_in, weights, 0.0))
