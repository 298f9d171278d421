"""The folds of samples that are read by blocks, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.large.sieve import Sieve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from polyopt.large.held import Hands
    from polyopt.large.parts import Looked

__all__ = ["Fold", "folds_of", "weights_of"]

_ONE_SIDED = (
    "fold {fold} of {folds} has all samples of class {label!r}, so that none is left to fit a machine to "
    "without that fold: row i of block k is in fold (i + k) mod {folds} + 1; {label!r} needs more "
    "samples, or the rows another order"
)


class Fold(NamedTuple):
    """A fold: its number, hands on all others and on its own samples, and whether it has any."""

    number: int
    others: Hands
    own: Hands
    has_samples: bool


def weights_of(looks: Iterable[Looked], classes: NDArray[Any]) -> NDArray[np.float64]:
    """The weight of each class.

    Parameters
    ----------
    looks : iterable of Looked
        Looks at all blocks.
    classes : ndarray of shape (n_classes,)
        The classes.
    """
    weights = np.zeros(len(classes))
    for each in looks:
        weights[classes.searchsorted(each.labels)] += each.weights
    return weights


def folds_of(hands: Hands, count: int, classes: NDArray[Any]) -> list[Fold]:
    """All folds, each of whose others have samples of every class.

    Parameters
    ----------
    hands : Hands
        Who reads the blocks.
    count : int
        How many folds there are.
    classes : ndarray of shape (n_classes,)
        The classes.

    Raises
    ------
    ValueError
        A class all of whose samples are in one fold.
    """
    found = []
    whole = weights_of(hands.look(), classes)
    for number in range(count):
        others = hands.sieved(Sieve(number, count))
        left = weights_of(others.look(), classes)
        for label in classes[left == 0.0].tolist():
            raise ValueError(_ONE_SIDED.format(fold=number + 1, folds=count, label=label))
        own = hands.sieved(Sieve(number, count, is_held=True))
        found.append(Fold(number, others, own, bool((left != whole).any())))
    return found
