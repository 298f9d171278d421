"""Pairs of samples and faces, of groups of faces and of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.cpm.block_ascent import Pairs
from polyopt.solvers.interior_point.crew import total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Groups = Sequence[NDArray[np.int64]]

__all__ = ["by_groups", "gains", "of_all_faces"]


def of_all_faces(groups: Groups, parts: Sequence[Pairs]) -> Pairs:
    """The pairs of a block with the numbers of all faces.

    groups: the faces of each group, one after another.
    parts: the pairs of each, whose faces count from its first.
    """
    named = [
        pairs._replace(faces=pairs.faces + np.int32(group[0]))
        for group, pairs in zip(groups, parts, strict=True)
    ]
    return Pairs(*(np.concatenate(each) for each in zip(*named, strict=True)))


def by_groups(groups: Groups, pairs: Pairs) -> list[Pairs]:
    """The pairs of each group, of a block's with the numbers of all faces.

    groups, pairs: as :func:`of_all_faces` has them.
    """
    found = []
    for group in groups:
        mine = (pairs.faces >= group[0]) & (pairs.faces <= group[-1])
        some = Pairs(*(each[mine] for each in pairs))
        found.append(some._replace(faces=some.faces - np.int32(group[0])))
    return found


def gains(groups: Groups, blocks: Sequence[Sequence[Pairs]]) -> NDArray[np.float64]:
    """The multipliers of every face (K,), added up.

    groups: the faces of each group.
    blocks: for each block the pairs of each group.
    """
    sums = [
        np.concatenate([
            np.bincount(pairs.faces, pairs.alpha, len(group))
            for group, pairs in zip(groups, parts, strict=True)
        ])
        for parts in blocks
    ]  # fmt: skip
    return np.asarray(total(sums))
