"""The dual as a function of beta alone: which family is which piece of phi, and where the pieces end.

The sides on which a sample's families hold its output, with their kinks, say in which order they are the
pieces of its phi; the caps say how long the pieces are. Some ends are infinite: beta at an end is what the
pieces before it add up to, less what those after it still have to give up.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.families.family import Family
    from formulations.language.types import Vector

    Mask = NDArray[np.bool_]

__all__ = ["Layout", "Pieces", "lay_out"]


class Pieces(NamedTuple):
    """The piecewise linear phi of each sample, for compiled code.

    Column i of ``ends`` (k, n) has the kinks of sample i in ascending order, that of ``slopes`` (k + 1, n)
    its slopes, from below the first kink to above the last. Slopes are infinite where phi has ended.
    """

    ends: Vector
    slopes: Vector

    def of(self, samples: NDArray[np.intp]) -> Pieces:
        """Those of some samples."""
        return Pieces(self.ends.take(samples, 1), self.slopes.take(samples, 1))


class Layout(NamedTuple):
    """The pieces, and the anchor of each family, shape (q, n).

    A family's multiplier is ``side * (beta - anchor)``, clipped to [0, cap]: the anchor is where its piece
    begins (side +1) or ends (side -1), infinite where it is always full.
    """

    pieces: Pieces
    anchors: Vector


def lay_out(families: Sequence[Family], n: int) -> Layout:
    """Find the pieces.

    Parameters
    ----------
    families : sequence of Family
        The families.
    n : int
        Samples.
    """
    count = len(families)
    table = np.empty((3 * count + 3, n))
    for samples, ups in _kinds(families):
        np.copyto(table, _of_kind(families, ups), where=samples)
    positions, anchors, slopes = table[: count + 1], table[count + 1 : 2 * count + 1], table[2 * count + 1 :]
    # Where no sample's phi ends there is no kink.
    first = 1 if np.isneginf(positions[0]).all() else 0
    last = count if np.isposinf(positions[-1]).all() else count + 1
    return Layout(Pieces(positions[first:last], slopes[first : last + 1]), anchors)


def _kinds(families: Sequence[Family]) -> list[tuple[Mask, tuple[bool, ...]]]:
    """Samples on whose outputs every family holds on one side, with whether it holds them up."""
    kinds: list[tuple[Mask, tuple[bool, ...]]] = [(np.array(True), ())]
    for up in (family.up for family in families):
        if up.size == 1:
            kinds = [(samples, (*ups, bool(up))) for samples, ups in kinds]
        else:
            split = [(samples & (up == way), (*ups, way)) for samples, ups in kinds for way in (True, False)]
            kinds = [(samples, ups) for samples, ups in split if samples.any()]
    return kinds


def _of_kind(families: Sequence[Family], ups: Sequence[bool]) -> Vector:
    """Positions of the kinks, anchors and slopes of samples of this kind, in rows.

    One column where all agree.
    """
    every = range(len(families))
    caps = [family.common_cap for family in families]
    earned = [family.kink if up else -family.kink for family, up in zip(families, ups, strict=True)]
    # The one that earns most is first; of two that earn the same, the one that is empty from there on.
    order = sorted(every, key=[(-earned[q], ups[q]) for q in every].__getitem__)
    full = list(accumulate([caps[q] if ups[q] else 0.0 for q in order], initial=0.0))
    empty = list(accumulate([0.0 if ups[q] else caps[q] for q in reversed(order)], initial=0.0))[::-1]
    positions = [filled - owed for filled, owed in zip(full, empty, strict=True)]
    anchors = [positions[order.index(q) + (not ups[q])] for q in every]
    rows = [*positions, *anchors, np.inf, *[earned[q] for q in order], -np.inf]
    if all(isinstance(cap, float) for cap in caps):
        return np.array(rows)[:, None]
    return np.stack(np.broadcast_arrays(*rows))
