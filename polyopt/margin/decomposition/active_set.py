"""The dual over one working set by an active set: Newton's method, one change of the active set at a time.

Between its kinks φ is linear, so with the variables at kinks held there the dual is a quadratic under
one equality, and its optimum over the free variables F is one linear system:

    [K_FF  1] [d]   [t − g_F]
    [1'    0] [b] = [   0   ]        t the slopes of φ there.

The step d ends where the first variable meets a kink: it is held there, and leaves the factor of K_FF.
After a whole step the worst violators at kinks join the factor. So the dual never falls, and where pair
steps crawl, because K_FF is all but singular, a few systems are enough.

As Σ d = 0, the same constant may be added to all of K_FF: a kernel of low rank is spared a singular
factor by it. What is singular still has a small multiple of the identity added, a proximal term: the step's
length is the best for K itself, and the gradient is taken along by K itself.

The Cholesky factor is made once, and kept while variables join the free ones and leave them: the upper
triangular U with U'U = K_FF / unit + 1 + ridge I, its columns in the order of F.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from polyopt.native.library import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.families import Pieces
    from formulations.language.clock import Clock
    from formulations.language.types import Vector

    Samples = NDArray[np.intp]

__all__ = ["ActiveSet", "solve_pivots"]

_SPARE_COLUMNS = 256  # variables that may join before the factor needs more room
_WORK_PER_LOOK = 1e8  # operations between two looks at the clock
_PER_PIVOT = 4.0  # operations of a pivot per entry of the factor
_DONE, _STUCK, _GOING = 0, 1, 2  # why pivots end, as in C; or else for want of room
_FIRST_RIDGE = 1e-11  # multiple of the identity that is added at first, in units of the mean diagonal
_RIDGE_INCREASE = 100.0  # factor of the ridge if K_FF is singular
_MAX_RIDGE = 1e-2  # ridge at which the factorisation is given up
_BLOCK_COLUMNS = 512  # of a factor, between two looks at the clock

# Up to so many pivots from the factor U of the free variables F; `numbers` has how many they are before and
# after, and the pivots taken. `room` (8, q) and `places` (2, q) are room to work in. Returns why it ended.
_pivot = kernel(
    "newton_pivots",
    "K: f8 (q, q); U!: f8 (p, p); F!: i8 (p); unit: f8; ridge: f8; g!: f8 (q); beta!: f8 (q); "
    "ends: f8 (k, q); slopes: f8 (l, q); pieces!: f8 (h, q); tol: f8; pivots: i8; numbers!: i8 (e); "
    "room!: f8 (v, q); places!: i8 (c, q)",
    returns="i8",
)


def solve_pivots(
    K: Vector, g: Vector, beta: Vector, phi: Pieces, tol: float, pivots: int, clock: Clock
) -> int:
    """Solve for q samples by an active set, changing g and beta; the pivots taken.

    What would leave the range of numbers is put back.
    """
    machine = ActiveSet(K, g, beta, phi)
    before = g.copy(), beta.copy()
    machine.run(tol, pivots, clock)
    if not (np.isfinite(g).all() and np.isfinite(beta).all()):
        g[:], beta[:] = before
    return machine.pivots


class ActiveSet:
    """The dual over q samples, all others fixed, and where its solver stands.

    K (q, q): their part of the matrix.
    g, beta (q,): their part of Kβ over all samples, and of β; changed in place.
    phi: their kinks and slopes.

    pivots: steps taken so far.
    """

    def __init__(self, K: Vector, g: Vector, beta: Vector, phi: Pieces):
        self._K, self._g, self._beta, self._phi = np.ascontiguousarray(K), g, beta, phi
        self.pivots = 0
        self._unit = max(float(K.diagonal().mean()), np.finfo(float).tiny)
        self._ridge = _FIRST_RIDGE  # like the constant added, in this unit
        self._free = np.flatnonzero((beta != phi.ends).all(axis=0))
        # Slope of φ on the piece of each free variable, and where that piece ends.
        self._pieces = _pieces(self._free, beta, phi)

    def run(self, tol: float, pivots: int, clock: Clock) -> bool:
        """Pivot until the violation over the q samples is within `tol`; whether it is.

        It may end before: after so many pivots, by the clock, or where rounding lets nothing improve.
        """
        while not clock.is_over and self.pivots < pivots:
            n, q = len(self._free), len(self._g)
            room = min(q, n + _SPARE_COLUMNS)
            U = np.zeros((room, room))
            found, self._ridge = _factorise(self._K, self._free, self._unit, self._ridge, U, clock)
            if not found:
                return False
            F, numbers = np.full(room, -1, dtype=np.int64), np.array([n, 0])
            F[:n] = self._free
            work = np.empty((8, q)), np.empty((2, q), dtype=np.int64)
            while True:
                some = min(pivots - self.pivots, 1 + int(_WORK_PER_LOOK / (_PER_PIVOT * n * n + q * n + q)))
                end = _pivot(
                    self._K, U, F, self._unit, self._ridge, self._g, self._beta, *self._phi, self._pieces,
                    tol, some, numbers, *work,
                )  # fmt: skip
                n, taken = numbers.tolist()
                self._free = F[:n].copy()
                self.pivots += taken
                if end == _DONE:
                    return True
                if end == _STUCK:  # shorter steps in the directions that rounding makes up
                    self._ridge *= _RIDGE_INCREASE
                if end != _GOING or clock.is_over or self.pivots >= pivots:
                    break
        return False


def _pieces(F: Samples, beta: Vector, phi: Pieces) -> Vector:
    """Slope and ends of the pieces of these variables, which are at no kink, shape (3, q)."""
    ends, slopes = phi
    piece, last = (ends[:, F] < beta[F]).sum(axis=0), len(ends) - 1
    found = np.zeros((3, len(beta)))
    found[0, F] = slopes[piece, F]
    found[1, F] = np.where(piece > 0, ends[piece - 1, F], -np.inf)
    found[2, F] = np.where(piece <= last, ends[np.minimum(piece, last), F], np.inf)
    return found


def _factorise(
    K: Vector, F: Samples, unit: float, ridge: float, U: Vector, clock: Clock
) -> tuple[bool, float]:
    """Put the factor of K_FF into U; whether there is one in time, and the ridge that it took.

    A block of columns at a time, so that no call takes long.
    """
    n = len(F)
    while ridge < _MAX_RIDGE:
        L = K.take(F, 0).take(F, 1).T  # symmetric, and so in LAPACK's order
        L /= unit
        L += 1.0
        L[np.diag_indices(n)] += ridge
        for start in range(0, n, _BLOCK_COLUMNS):
            if clock.is_over:
                return False, ridge
            end = min(start + _BLOCK_COLUMNS, n)
            if start:
                L[start:, start:end] -= L[start:, :start] @ L[start:end, :start].T
            corner, failed = dpotrf(L[start:end, start:end], lower=1, clean=1)
            if failed:
                break
            L[start:end, start:end] = corner
            L[end:, start:end] = dtrsm(1.0, corner, L[end:, start:end], side=1, lower=1, trans_a=1)
        else:
            U[:n, :n] = L.T  # below its diagonal nothing is read
            return True, ridge
        ridge *= _RIDGE_INCREASE
    return False, ridge
