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

    ``ends[i]`` are its kinks in ascending order, and ``table[kind[i]]`` its slopes, one more than kinks: from
    below the first to above the last. Slopes are infinite where phi has ended.
    """

    ends: Vector
    kind: NDArray[np.intp]
    table: Vector

    def of(self, samples: NDArray[np.intp]) -> Pieces:
        """Those of some samples."""
        return Pieces(self.ends[samples], self.kind[samples], self.table)


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
    count, every = len(families), range(len(families))
    positions, anchors = np.zeros((count + 1, n)), np.empty((count, n))
    kind, slopes = np.empty(n, dtype=np.intp), []
    for number, (samples, up) in enumerate(_kinds(families, n)):
        earned = [
            (1.0 if rising else -1.0) * family.kink for family, rising in zip(families, up, strict=True)
        ]
        # The one that earns most is first; of two that earn the same, the one that is empty from there on.
        order = sorted(every, key=[(-earned[q], up[q]) for q in every].__getitem__)
        caps = [family.cap[samples] for family in families]
        for place in range(count + 1):
            full = sum(caps[q] for q in order[:place] if up[q])
            positions[place, samples] = full - sum(caps[q] for q in order[place:] if not up[q])
        for place, q in enumerate(order):
            anchors[q, samples] = positions[place if up[q] else place + 1, samples]
        kind[samples] = number
        slopes.append([np.inf, *(earned[q] for q in order), -np.inf])
    # Where no sample's phi ends there is no kink.
    first = 1 if np.isneginf(positions[0]).all() else 0
    last = count if np.isposinf(positions[-1]).all() else count + 1
    table = np.ascontiguousarray(np.array(slopes)[:, first : last + 1])
    return Layout(Pieces(np.ascontiguousarray(positions[first:last].T), kind, table), anchors)


def _kinds(families: Sequence[Family], n: int) -> list[tuple[NDArray[np.intp], list[bool]]]:
    """Samples on whose outputs every family holds on one side, with whether it holds them up."""
    codes = np.zeros(n, dtype=np.intp)
    for q, family in enumerate(families):
        codes |= (family.side > 0).astype(np.intp) << q
    return [
        (np.flatnonzero(codes == code), [bool(code >> q & 1) for q in range(len(families))])
        for code in np.flatnonzero(np.bincount(codes))
    ]
