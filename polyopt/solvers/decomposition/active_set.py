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

from formulations.families import Pieces
from polyopt.compiled import njit
from polyopt.solvers.decomposition.dual import gains, next_above, next_below, slopes_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.clock import Clock
    from formulations.matrices import Vector

    Samples = NDArray[np.intp]

__all__ = ["ActiveSet", "direction", "drop", "join", "solve_pivots", "solve_transposed"]

_SPARE_COLUMNS = 256  # variables that may join before the factor needs more room
_JOIN, _SHARE = 8, 32  # violators that join after a whole step: so many, or this part of the free variables
_JOIN_REL_TOL = 0.25  # share of the tolerance by which a variable at a kink must violate to join
_WORK_PER_LOOK = 1e8  # operations between two looks at the clock
_PER_PIVOT = 4.0  # operations of a pivot per entry of the factor
_MAX_STEP = 1e3  # times Newton's own step
# Whole steps in which the violation must fall to this share, or the dual rise by that share of all that it
# has risen; else it is rounding that keeps them where they are.
_MAX_IDLE_STEPS, _CLOSER_RATIO, _MIN_REL_RISE = 20, 0.9, 1e-9
_DONE, _STUCK, _GOING, _FULL = 0, 1, 2, 3  # why pivots end
_FIRST_RIDGE = 1e-11  # multiple of the identity that is added at first, in units of the mean diagonal
_RIDGE_INCREASE = 100.0  # factor of the ridge if K_FF is singular
_MAX_RIDGE = 1e-2  # ridge at which the factorisation is given up
_BLOCK_COLUMNS = 512  # of a factor, between two looks at the clock


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
        self._K, self._g, self._beta, self._phi = K, g, beta, phi
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
            state = np.full(room, -1, dtype=np.intp)
            state[:n] = self._free
            while True:
                some = min(pivots - self.pivots, 1 + int(_WORK_PER_LOOK / (_PER_PIVOT * n * n + q * n + q)))
                n, taken, end = _pivot(
                    self._K, U, state, n, self._unit, self._ridge, self._g, self._beta, self._phi,
                    self._pieces, tol, some,
                )  # fmt: skip
                self._free = state[:n].copy()
                self.pivots += taken
                if end == _DONE:
                    return True
                if end == _STUCK:  # shorter steps in the directions that rounding makes up
                    self._ridge *= _RIDGE_INCREASE
                if end != _GOING or clock.is_over or self.pivots >= pivots:
                    break
        return False


@njit(cache=True, nogil=True, error_model="numpy")
def _pivot(
    K: Vector, U: Vector, F: Samples, n: int, unit: float, ridge: float, g: Vector, beta: Vector,
    phi: Pieces, pieces: Vector, tol: float, pivots: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Take up to so many pivots; return the free variables' number, the pivots taken, and why it ended."""
    q, taken, end = len(g), 0, _GOING
    t, low, high = pieces[0], pieces[1], pieces[2]
    total, r, u, d, ones = np.zeros(q), np.empty(len(F)), np.empty(len(F)), np.empty(len(F)), np.ones(len(F))
    for k in range(n):
        r[k] = t[F[k]] - g[F[k]]
    solve_transposed(U, n, ones)
    least, idle, risen, before = np.inf, 0, 0.0, 0.0
    while taken < pivots:
        taken += 1
        place = -1
        if n > 1:
            b = direction(U, n, unit, r, ones, u, d)
            place, rise = _step(F, n, r, d, b, ridge * unit, beta, low, high, total)
            risen += rise
        if place >= 0:
            n = drop(U, F, r, ones, n, place)
            continue
        _take_along(K, total, g)
        rise, fall, m, M = gains(g, beta, phi)
        if m - M <= tol:
            end = _DONE
            break
        moves = m - M < _CLOSER_RATIO * least or risen - before > _MIN_REL_RISE * risen
        idle = 0 if moves else idle + 1
        least, before = min(least, m - M), risen
        if idle > _MAX_IDLE_STEPS:
            end = _STUCK
            break
        middle = 0.0
        for k in range(n):
            r[k] = t[F[k]] - g[F[k]]
            middle += r[k] / n
        middle = middle if n else (m + M) / 2
        for _ in range(max(_JOIN, n // _SHARE)):
            i, rising = _worst(F, n, rise, fall, middle, _JOIN_REL_TOL * tol)
            if i < 0:
                break
            if n == len(F):
                end = _FULL
                break
            t[i], low[i], high[i] = _piece(beta[i], i, phi, rising)
            join(K, U, F, n, i, unit, ridge, ones)
            r[n] = t[i] - g[i]
            n += 1
        if end == _FULL:
            break
    _take_along(K, total, g)
    return n, taken, end


@njit(cache=True, nogil=True, error_model="numpy")
def _step(
    F: Samples, n: int, r: Vector, d: Vector, b: float, ridge: float, beta: Vector, low: Vector, high: Vector,
    total: Vector,
) -> tuple[int, float]:  # fmt: skip
    """Go along d to the best point or the first kink; the place in F of what meets it (or -1), the gain."""
    gain = size = 0.0
    for k in range(n):
        gain += (r[k] - b) * d[k]
        size += d[k] * d[k]
    if not gain > 0.0:
        return -1, 0.0
    bend = gain - ridge * size  # d'Kd, as Σ d = 0
    length, place = (gain / bend if bend * _MAX_STEP > gain else _MAX_STEP), -1
    for k in range(n):
        i = F[k]
        if d[k] > 0.0 and high[i] - beta[i] < length * d[k]:
            length, place = (high[i] - beta[i]) / d[k], k
        elif d[k] < 0.0 and low[i] - beta[i] > length * d[k]:
            length, place = (low[i] - beta[i]) / d[k], k
    for k in range(n):
        i, move = F[k], length * d[k]
        # What rounding would carry past a kink stays a free variable, short of it or on it.
        after = min(max(beta[i] + move, low[i]), high[i])
        total[i] += after - beta[i]
        beta[i] = after
        r[k] -= length * (r[k] - b - ridge * d[k])
    if place >= 0:
        i = F[place]
        kink = high[i] if d[place] > 0.0 else low[i]
        total[i] += kink - beta[i]
        beta[i] = kink
    return place, length * (gain - length * bend / 2)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _take_along(K: Vector, total: Vector, g: Vector) -> None:
    """Take g along by the changes of β so far."""
    for i in range(len(g)):
        if total[i] != 0.0:
            a, row = total[i], K[i]
            for j in range(len(g)):
                g[j] += a * row[j]
            total[i] = 0.0


@njit(cache=True, nogil=True)
def _worst(F: Samples, n: int, rise: Vector, fall: Vector, b: float, least: float) -> tuple[int, bool]:
    """The variable at a kink that violates most with the intercept b, and whether it is to rise; or -1."""
    is_free = np.zeros(len(rise), dtype=np.bool_)
    for k in range(n):
        is_free[F[k]] = True
    worst, rising = -1, True
    for i in range(len(rise)):
        if not is_free[i]:
            if rise[i] - b > least:
                least, worst, rising = rise[i] - b, i, True
            if b - fall[i] > least:
                least, worst, rising = b - fall[i], i, False
    return worst, rising


@njit(cache=True, nogil=True)
def _piece(beta: float, i: int, phi: Pieces, rising: bool) -> tuple[float, float, float]:
    """Slope of φ on the piece of a variable, and its two ends; at a kink, of the piece on the side named."""
    ends, bends = phi
    up, down = slopes_at(beta, i, ends, bends)
    low, high = next_below(beta, i, ends), next_above(beta, i, ends)
    for k in range(len(ends)):
        if ends[k, i] == beta:
            return (up, beta, high) if rising else (down, low, beta)
    return up, low, high


@njit(cache=True, nogil=True)
def _pieces(F: Samples, beta: Vector, phi: Pieces) -> Vector:
    """Slope and ends of the pieces of these variables, shape (3, q)."""
    found = np.zeros((3, len(beta)))
    for i in F:
        found[0, i], found[1, i], found[2, i] = _piece(beta[i], i, phi, True)
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def solve_transposed(U: Vector, n: int, x: Vector) -> None:
    """Solve ``U' x = x`` in place."""
    for k in range(n):
        x[k] /= U[k, k]
        a, row = x[k], U[k]
        for j in range(k + 1, n):
            x[j] -= a * row[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def direction(
    U: Vector, n: int, unit: float, r: Vector, ones: Vector, u: Vector, d: Vector
) -> float:  # fmt: skip
    """Newton's step d for the residual r, and the intercept that makes it balance."""
    for k in range(n):
        u[k] = r[k]
    solve_transposed(U, n, u)
    a = c = 0.0
    for k in range(n):
        a += ones[k] * u[k]
        c += ones[k] * ones[k]
    b = a / c
    for k in range(n):
        d[k] = u[k] - b * ones[k]
    for k in range(n - 1, -1, -1):
        rest, row = 0.0, U[k]
        for j in range(k + 1, n):
            rest += row[j] * d[j]
        d[k] = (d[k] - rest) / row[k]
    rest = 0.0  # Σ d, which rounding leaves where K_FF is all but singular
    for k in range(n):
        rest += d[k]
    for k in range(n):
        d[k] = (d[k] - rest / n) / unit
    return b


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def join(K: Vector, U: Vector, F: Samples, n: int, i: int, unit: float, ridge: float, ones: Vector) -> None:
    """Let variable i join: one more column of the factor."""
    column = np.empty(n)
    for k in range(n):
        column[k] = K[i, F[k]] / unit + 1.0
    solve_transposed(U, n, column)
    rest, one = K[i, i] / unit + 1.0 + ridge, 1.0
    for k in range(n):
        rest -= column[k] * column[k]
        one -= column[k] * ones[k]
        U[k, n] = column[k]
    U[n, n] = np.sqrt(max(rest, ridge))
    ones[n] = one / U[n, n]
    F[n] = i


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def drop(U: Vector, F: Samples, r: Vector, ones: Vector, n: int, place: int) -> int:
    """Take a variable out: its column of the factor goes, and rotations make the rest triangular again."""
    for k in range(n):
        row = U[k]
        for j in range(max(k - 1, place), n - 1):
            row[j] = row[j + 1]
    for k in range(place, n - 1):
        F[k], r[k] = F[k + 1], r[k + 1]
        above, below = U[k], U[k + 1]
        h = np.hypot(above[k], below[k])
        c, s = above[k] / h, below[k] / h
        above[k], below[k] = h, 0.0
        for j in range(k + 1, n - 1):
            x, z = above[j], below[j]
            above[j] = c * x + s * z
            below[j] = c * z - s * x
        x, z = ones[k], ones[k + 1]
        ones[k] = c * x + s * z
        ones[k + 1] = c * z - s * x
    return n - 1
