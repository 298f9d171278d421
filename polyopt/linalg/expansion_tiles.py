"""Kernel expansions f_p(z) = Σ_j c_jp k(x_j, z) by parts, and what they are summed by: tiles and blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Array

    Points = NDArray[np.intp]

__all__ = ["SAMPLES", "Part", "join", "point_blocks", "room_for", "tiles_of", "totals"]

_POINTS = SAMPLES = 512  # points of a block, and samples of a tile: 1 MB of single precision


class Part(NamedTuple):
    """Samples that lie side by side, and their coefficients in some of the expansions.

    start, stop: the samples.
    columns (q,): the expansions.
    coef (stop - start, q): the coefficients.
    """

    start: int
    stop: int
    columns: Points
    coef: Array

    @classmethod
    def whole(cls, coef: Array) -> Part:
        """All samples, in a single expansion with these coefficients."""
        return cls(0, len(coef), np.zeros(1, dtype=np.intp), coef[:, None])


def tiles_of(parts: list[Part]) -> list[Part]:
    """The parts, cut into as many samples as stay in cache."""
    return [
        Part(start, stop, part.columns, part.coef[start - part.start : stop - part.start])
        for part in parts
        for start in range(part.start, part.stop, SAMPLES)
        for stop in [min(start + SAMPLES, part.stop)]
    ]


def totals(tiles: list[Part], sizes: Array, count: int) -> Array:
    """``Σ_j |c_jp| s_j`` of every expansion."""
    found = np.zeros(count)
    for tile in tiles:
        found[tile.columns] += sizes[tile.start : tile.stop] @ np.abs(tile.coef)
    return found


def join(blocks: list[Array], count: int) -> Array:
    """Scores of all points (t, expansions) from those of the blocks (expansions, points)."""
    return np.concatenate([np.zeros((count, 0)), *blocks], axis=1).T


def room_for(space: NDArray[Any], count: int, tile: Part) -> NDArray[Any]:
    """Room for the kernel between `count` points and a tile's samples, without gaps, for kernels."""
    width = tile.stop - tile.start
    return space[: count * width].reshape(count, width)


def point_blocks(count: int) -> list[slice]:
    """The points, by blocks."""
    return [slice(start, min(start + _POINTS, count)) for start in range(0, count, _POINTS)]
