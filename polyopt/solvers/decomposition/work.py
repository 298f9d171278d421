"""What the parts of a solve cost, in operations as BLAS does them.

Counted, and not timed, so that an answer does not depend on the clock or on the load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from polyopt.kernels import Gram

__all__ = ["block_work", "factor_work", "pair_work", "pivot_work", "row_work", "set_work"]

_PER_READ = 16.0  # operations that BLAS does in the time in which it reads a number from memory
_CACHED = 400  # rows of a square matrix that stays in the processor's cache; beyond, a read costs more
_PER_PAIR = 30.0  # a pair step, per sample of the working set
_PER_SET, _PER_SAMPLE = 5e7, 1e4  # what a working set costs besides: at all, and per sample


def block_work(rows: float, columns: float, width: int) -> float:
    """A block of the kernel matrix whose entries cost `width` multiplications each."""
    return 2.0 * rows * columns * (width + _PER_READ)


def row_work(gram: Gram, dtype: DTypeLike) -> float:
    """A whole kernel row in this precision."""
    return block_work(1, gram.n, gram.width) * np.dtype(dtype).itemsize / 8.0


def set_work(samples: int) -> float:
    """Choosing a working set from so many samples, and taking their outputs along."""
    return _PER_SET + _PER_SAMPLE * samples


def pair_work(steps: float, size: int) -> float:
    """So many pair steps in a working set of this size."""
    return _PER_PAIR * steps * size


def factor_work(free: int) -> float:
    """Cholesky's factor of a matrix of this size, and the copies that it needs."""
    return free**3 / 3.0 + 3.0 * _PER_READ * free**2


def pivot_work(free: int, size: int) -> float:
    """A change of the active set: two triangular solves, and its share of the outputs' update."""
    read = _PER_READ if free <= _CACHED else 3.0 * _PER_READ
    return read * (1.5 * free**2 + free * size / 4.0 + 10.0 * size)
