"""The dual as a function of beta alone: which family is which piece of phi, and where the pieces end.

The sides on which a sample's families hold its output, with their kinks, say in which order they are the
pieces of its phi; the caps say how long the pieces are. Some ends are infinite: beta at an end is what the
pieces before it add up to, less what those after it still have to give up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.families.family import Family

    Vector = NDArray[np.float64]

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
    if len(families) == 1:  # as the general case below, at a fraction of its cost
        (family,) = families
        end, wall = family.side * family.cap, np.full(n, np.inf)
        pieces = Pieces(
            np.stack([np.minimum(0.0, end), np.maximum(0.0, end)]),
            np.stack([wall, family.side * family.kink, -wall]),
        )
        return Layout(pieces, np.zeros((1, n)))
    count, every = len(families), range(len(families))
    positions, anchors = np.zeros((count + 1, n)), np.empty((count, n))
    slopes = np.full((count + 2, n), np.inf)
    slopes[-1] = -np.inf
    for samples, up in _kinds(families, n):
        earned = [
            (1.0 if rising else -1.0) * family.kink for family, rising in zip(families, up, strict=True)
        ]
        # The one that earns most is first; of two that earn the same, the one that is empty from there on.
        order = sorted(every, key=[(-earned[q], up[q]) for q in every].__getitem__)
        caps = [family.cap[samples] if family.has_slack else np.inf for family in families]
        for place in range(count + 1):
            full = sum(caps[q] for q in order[:place] if up[q])
            positions[place, samples] = full - sum(caps[q] for q in order[place:] if not up[q])
        for place, q in enumerate(order):
            anchors[q, samples] = positions[place if up[q] else place + 1, samples]
            slopes[place + 1, samples] = earned[q]
    # Where no sample's phi ends there is no kink.
    first = 1 if np.isneginf(positions[0]).all() else 0
    last = count if np.isposinf(positions[-1]).all() else count + 1
    return Layout(Pieces(positions[first:last], slopes[first : last + 1]), anchors)


def _kinds(families: Sequence[Family], n: int) -> list[tuple[NDArray[np.intp], list[bool]]]:
    """Samples on whose outputs every family holds on one side, with whether it holds them up."""
    codes = np.zeros(n, dtype=np.intp)
    for q, family in enumerate(families):
        codes |= (family.side > 0).astype(np.intp) << q
    return [
        (np.flatnonzero(codes == code), [bool(code >> q & 1) for q in range(len(families))])
        for code in np.flatnonzero(np.bincount(codes))
    ]
