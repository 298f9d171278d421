"""The weights of all faces side by side, as compiled loops take them (``native/rows.inc``).

Faces (K, m+1), bias last, become lanes (m+1, L): one row per feature and a last one for the bias, padded
with columns of zeros to L, a multiple of eight. A product of a sample with all faces then walks the sample
once, and multiplies whole vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray

    from formulations.language.types import Vector
    from polyopt.linalg.rows import Rows

__all__ = ["LANES", "ROWS", "ROW_TYPES", "WEIGHT_TYPES", "in_lanes", "padded", "stretches"]

LANES = 8  # the number of lanes is a multiple of it
ROWS = (
    "values: V (e); columns: N (c); starts: i8 (s); shared: i8; "  # a kernel's first arguments, of its Rows
)
ROW_TYPES = {"V": "f8 f4 u1", "N": "u2 i4"}  # of their values and columns
WEIGHT_TYPES = {"W": "f4 f8"}  # of lanes
_PRODUCTS_PER_CALL = 1 << 28  # of an entry and a lane, in one call: some 0.1 s


def padded(n_faces: int) -> int:
    """Lanes for `n_faces` faces: the next multiple of :data:`LANES`."""
    return -(-n_faces // LANES) * LANES


def in_lanes(W: Vector, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Faces (K, m+1) as lanes (m+1, L)."""
    lanes = np.zeros((W.shape[1], padded(len(W))), dtype=dtype)
    lanes[:, : len(W)] = W.T
    return lanes


def stretches(count: int, rows: Rows, n_lanes: int, most: int | None = None) -> Iterator[tuple[int, int]]:
    """First and last + 1 of stretches of `count` samples, each little enough work for one call.

    rows: the samples, of which the mean number of entries counts.
    n_lanes: products with each entry.
    most: samples in a stretch at most.
    """
    entries = len(rows.values) / max(len(rows.starts) - 1, 1) + 1.0
    step = max(1, int(_PRODUCTS_PER_CALL / (entries * n_lanes)))
    step = step if most is None else min(step, most)
    return ((first, min(first + step, count)) for first in range(0, count, step))
