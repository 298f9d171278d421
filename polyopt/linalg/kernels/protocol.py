"""The protocol of a Gram matrix, and samples by pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = [
    "BLOCK",
    "CHUNK",
    "DENSE_ROWS",
    "MAX_WHOLE",
    "TILE",
    "Gram",
    "Panel",
    "Samples",
    "Vector",
    "chunks",
    "spread_samples",
    "strips",
]

Vector: TypeAlias = "NDArray[np.float64]"
Samples: TypeAlias = "NDArray[np.intp]"

DENSE_ROWS = 64  # rows of a sparse block that are multiplied at once: their dense copy stays in cache
TILE = 256  # rows of a tile, and columns in double precision: half a megabyte
CHUNK = 2048  # rows of a product that is streamed
MAX_WHOLE = 20_000  # rows of a square matrix that is held whole: 3.2 GB
MAX_SPREAD_SAMPLES = 2000  # that stand for all, for what would cost too much of the whole matrix
# Numbers of a block whose memory is taken again, and its rows at least.
BLOCK, _MIN_ROWS = 1_000_000, 128


class Panel(Protocol):
    """The columns of a Gram matrix that belong to chosen samples, served by rows."""

    def rows(self, samples: Samples, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """``K[samples, columns]``, into `out` where it is given."""


class Gram(Protocol):
    """A symmetric matrix of inner products, by blocks."""

    n: int
    width: int  # multiplications that an entry costs

    def diagonal(self) -> Vector:
        """``K_ii`` for every sample, shape (n,)."""

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        """A server of ``K[:, columns]`` (of all columns for None) in that precision."""

    def is_single(self) -> bool:
        """Return True if single precision is worth trying on these data."""

    def entry_error(self) -> tuple[float, Vector]:
        """Error e, sizes s (n,): ``|K_ij - its true value| <= e s_i s_j``, ``|K_ij| <= s_i s_j``; float64."""


def chunks(samples: Samples, size: int = CHUNK) -> Iterator[Samples]:
    """The samples, in chunks of one size.

    Parameters
    ----------
    samples : ndarray of int
        Samples.
    size : int
        How many at a time.
    """
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def strips(samples: Samples, columns: int) -> Iterator[Samples]:
    """The samples, in chunks so short that a block with `columns` columns stays small.

    Parameters
    ----------
    samples : ndarray of int
        Samples.
    columns : int
        Columns of the blocks.
    """
    return chunks(samples, min(CHUNK, max(_MIN_ROWS, BLOCK // max(columns, 1))))


def spread_samples(n: int) -> Samples:
    """All of n samples, or 2,000 of them evenly spaced."""
    return np.linspace(0, n - 1, min(n, MAX_SPREAD_SAMPLES)).astype(np.intp)
