"""A checksum of a block's samples, labels and weights, by which it is known when it is read again.

What a block is made from must give the same each time: blocks are read more than once, and made anew where a
worker was lost. A random source without a seed gives others, and an answer would be of no samples at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from formulations.language.types import as_csr
from polyopt.large.sources import unframed

if TYPE_CHECKING:
    from polyopt.large.sources import Samples

__all__ = ["Mark", "check_mark", "mark_of"]

_OTHERS = (
    "partition {number} was read again, and has other samples, labels or weights than at first: what it is "
    "made from must give the same each time (a random source needs a seed, which may follow from the "
    "partition's number)"
)


class Mark(NamedTuple):
    """Checksums of a block: of all of it, and of some rows."""

    all: int
    some: int


def mark_of(samples: Samples) -> Mark:
    """The mark of a block."""
    return Mark(_checksum(samples, 1), _checksum(samples, _stride(samples)))


def check_mark(samples: Samples, number: int, mark: Mark | None, *, whole: bool) -> Samples:
    """A block as it was read now, compared with its mark; as it is if there is no mark.

    whole: whether to look at all of it; else at some rows, which costs next to nothing.
    ValueError: it is another block than at first.
    """
    if mark is not None:
        samples = unframed(samples)
        found = _checksum(samples, 1 if whole else _stride(samples))
        if found != (mark.all if whole else mark.some):
            raise ValueError(_OTHERS.format(number=number))
    return samples


def _stride(samples: Samples) -> int:
    return max(len(samples.y) // 64, 1)  # some 64 rows are looked at whenever a block is read


def _checksum(samples: Samples, stride: int) -> int:
    """Of every so many rows; of CSR of every so many entries."""
    X, y, weights = samples
    rows, found = as_csr(X) if sp.issparse(X) else None, 0
    for part in (*((X,) if rows is None else (rows.data, rows.indices, rows.indptr)), y, weights):
        if part is not None:
            found = _further(found, np.asarray(part), stride)
    return found


def _further(found: int, values: Any, stride: int) -> int:
    """A checksum gone on with an array, by pieces."""
    if values.dtype == object:
        values = _plain(values[::stride])
        stride = 1
    found = crc32(repr((values.shape, str(values.dtype))).encode(), found)
    values = values[::stride]
    rows = max((1 << 20) // max(values[:1].nbytes, 1), 1)  # a megabyte is copied at once, if at all
    for first in range(0, len(values), rows):
        piece = np.ascontiguousarray(values[first : first + rows])
        found = crc32(piece.reshape(-1).view(np.uint8).data, found)
    return found


def _plain(values: Any) -> Any:
    """Objects as numbers: samples as they are read, labels by pandas, which knows what is missing."""
    if values.ndim > 1:
        return values.astype(np.float64)
    from pandas.util import hash_array

    return hash_array(values)
