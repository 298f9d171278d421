"""A block by slices of its rows, for what would otherwise need new memory of the size of the block."""

from __future__ import annotations

from collections.abc import Iterator

import scipy.sparse as sp

from polyopt.large.parts import matrix_of
from polyopt.large.sources import Samples

__all__ = ["slices_of"]

_ROWS = 1 << 16


def slices_of(samples: Samples) -> Iterator[tuple[slice, Samples]]:
    """Places of rows, and these samples, as they are scored.

    samples: A block.
    """
    X, y, weights = samples
    X = sp.csr_array(X) if sp.issparse(X) else X
    for first in range(0, len(y), _ROWS):
        part = slice(first, first + _ROWS)
        yield part, Samples(matrix_of(X[part]), y[part], None if weights is None else weights[part])
