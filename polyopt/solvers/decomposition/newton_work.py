"""What Newton's method may cost, and what its parts cost, in operations as BLAS does them.

Counted, and not timed, so that an answer does not depend on the clock or on the load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from polyopt.kernels import Gram
    from polyopt.solvers.clock import Clock

__all__ = [
    "Allowance",
    "SpentError",
    "block_work",
    "curve_work",
    "factor_work",
    "newton_work",
    "row_work",
    "solve_work",
]

_PER_READ = 16.0  # operations that BLAS does in the time in which it reads a number from memory
_PIVOTING = 8.0  # times that an indefinite factor takes what Cholesky's does
_PER_STEP = 5e6  # what a step costs besides, in Python
_STEPS = 3  # at least so many, for a first estimate


class SpentError(Exception):
    """The allowance is spent, or the time is over."""


class Allowance:
    """An amount of work, spent part by part before the work is done.

    Parameters
    ----------
    amount : float
        Operations.
    clock : Clock
        Looked at with every part.

    Attributes
    ----------
    spent : float
        Operations so far.
    """

    def __init__(self, amount: float, clock: Clock):
        self._amount, self._clock, self.spent = amount, clock, 0.0

    def spend(self, work: float) -> None:
        """Take this off the allowance.

        Raises
        ------
        SpentError
            It is more than there is left, or the time is over.
        """
        if self.spent + work > self._amount or self._clock.is_over:
            raise SpentError
        self.spent += work


def block_work(rows: float, columns: float, width: int) -> float:
    """A block of the kernel matrix whose entries cost `width` multiplications each."""
    return 2.0 * rows * columns * (width + _PER_READ)


def row_work(gram: Gram, dtype: DTypeLike) -> float:
    """A whole kernel row in this precision."""
    return block_work(1, gram.n, gram.width) * np.dtype(dtype).itemsize / 8.0


def factor_work(free: int) -> float:
    """Cholesky's factor of a matrix of this size, and the copy that it overwrites."""
    return free**3 / 3.0 + _PER_READ * free**2


def solve_work(free: int, border: int, new: int) -> float:
    """Two triangular solves, the border's own system, and `new` columns of the border."""
    triangular = _PER_READ * free * (2.0 * free + border) + new * free**2
    return _PER_STEP + triangular + 2.0 * free * border**2 + _PIVOTING * border**3 / 3.0


def curve_work(free: int, samples: int) -> float:
    """A product with the rows of the free samples, which are copied."""
    return _PER_STEP + 3.0 * _PER_READ * free * samples


def newton_work(samples: int, free: int, width: int) -> float:
    """The least that Newton's method costs: rows of the free samples, a factor, and a few steps."""
    steps = _STEPS * (solve_work(free, 1, 1) + curve_work(free, samples))
    return block_work(free, samples - free / 2.0, width) + factor_work(free) + steps  # each entry once
