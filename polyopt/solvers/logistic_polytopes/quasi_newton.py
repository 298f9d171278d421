"""L-BFGS on the objective with soft maxima, for dense samples and no price: one compiled loop.

A search makes hundreds of short descents on a few hundred samples, which cost a general solver more outside
of the objective than in it. This is the method of Liu & Nocedal (1989), "On the limited memory BFGS method
for large scale optimization": the last ten pairs of steps and slopes, and steps that lower enough and leave
less of a slope (Wolfe's conditions; what is between is halved or met by a parabola). Scores are kept face by
face, so that exponentials of many samples are taken at once.

Exponential and logarithm are evaluated with vector instructions, inlined at every use.
``e^x = 2^k e^r`` with k the whole number next to ``x / log 2``, so that ``|r| ≤ log(2) / 2``, and Taylor's
series for ``e^r`` up to ``r^13``. ``log x = k log 2 + 2 artanh((m - 1) / (m + 1))`` with ``x = 2^k m`` and
m between ``sqrt(1/2)`` and ``sqrt(2)``, and the series for it up to the power 21. Tests hold ``e^x``
to 1e-15 and ``log x`` to 2e-15 of numpy's value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from polyopt.compiled import njit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.clock import Clock
    from polyopt.solvers.logistic_polytopes.smooth import FaceLoss

    Array = NDArray[np.float64]

__all__ = ["MAX_EXPONENT", "exp", "log", "quasi_newton"]

MAX_EXPONENT = 700.0  # how far from 0 the argument of :func:`exp` may be
_PER_LOG2 = 1.0 / math.log(2.0)
_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # log 2 in two parts, of which k times the first is exact
_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_ROUND = 1.5 * 2.0**52  # a sum with it is rounded to a whole number, which its last bits are
_BITS = int(np.float64(_ROUND).view(np.int64))
_ROOT = int(np.float64(math.sqrt(0.5)).view(np.int64))
_C = tuple(1.0 / math.factorial(k) for k in range(14))
_L = tuple(2.0 / (2 * k + 1) for k in range(11))
_MEMORY = 10  # pairs of steps and slopes that are kept
_TRIALS = 20  # of a line search
# Wolfe's conditions: share of the decrease promised, share of the slope left.
_WOLFE_DECREASE, _WOLFE_SLOPE = 1e-3, 0.9
_TILE = 256  # samples at once
_PRODUCTS_PER_LOOK = 1e8  # products after which the clock is asked


@intrinsic
def _bits_of(_typing: Any, number: Any) -> Any:
    """The bits of a double."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), build


@intrinsic
def _double_of(_typing: Any, bits: Any) -> Any:
    """The double of some bits."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), build


@njit(inline="always")
def exp(x):  # type: ignore[no-untyped-def]
    """``e^x``, for x from -MAX_EXPONENT to MAX_EXPONENT."""
    power = _ROUND + _PER_LOG2 * x
    k = power - _ROUND
    r = (x - k * _HIGH) - k * _LOW
    e = _C[13] * r + _C[12]
    e = e * r + _C[11]
    e = e * r + _C[10]
    e = e * r + _C[9]
    e = e * r + _C[8]
    e = e * r + _C[7]
    e = e * r + _C[6]
    e = e * r + _C[5]
    e = e * r + _C[4]
    e = e * r + _C[3]
    e = e * r + _C[2]
    e = e * r + _C[1]
    e = e * r + _C[0]
    return e * _double_of((_bits_of(power) - _BITS + 1023) << 52)


@njit(inline="always")
def log(x):  # type: ignore[no-untyped-def]
    """``log x``, for a finite x of at least 1."""
    bits = _bits_of(x)
    shift = (bits - _ROOT) >> 52
    k = _double_of(shift + _BITS) - _ROUND
    m = _double_of(bits - (shift << 52))
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    e = _L[10] * q + _L[9]
    e = e * q + _L[8]
    e = e * q + _L[7]
    e = e * q + _L[6]
    e = e * q + _L[5]
    e = e * q + _L[4]
    e = e * q + _L[3]
    e = e * q + _L[2]
    e = e * q + _L[1]
    e = e * q + _L[0]
    return k * _HIGH + (s * e + k * _LOW)


def quasi_newton(
    problem: FaceLoss, W: Array, clock: Clock, softness: float, max_iter: int, tol: float,
    progress: Callable[[float], None] | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Lower the smoothed objective of dense samples, without a price and without signs.

    problem: the samples and prices.
    W (K, m+1): faces to begin from, 0 where they may not differ from it.
    clock: when to stop; the best point so far is kept then.
    softness: t of the maxima, positive.
    max_iter: iterations at most.
    tol: relative decrease of a step at which to stop.
    progress: called with the smoothed objective after each step.
    Returns W: faces.
    Returns iterations: steps made.
    """
    units = problem.units
    samples = (
        *(np.ascontiguousarray(each, dtype=float) for each in (problem.X, problem.y, problem.c)),
        problem.owners.first, float(softness),
        np.ascontiguousarray(problem.entries, dtype=float), problem.ridges, *units,
        np.empty((problem.shape[0], len(problem.y))), np.empty((5, _TILE)),
    )  # fmt: skip
    size = W.size
    state = (
        units.inward(W).ravel(), np.zeros(size), np.full(1, np.nan), np.zeros(2, dtype=np.int64),
        np.empty((_MEMORY, size)), np.empty((_MEMORY, size)), np.empty(_MEMORY),
    )  # fmt: skip
    most = max(1, int(_PRODUCTS_PER_LOOK / (len(problem.y) * size + 1)))
    made, values = 0, np.empty(min(most, max_iter))
    try:
        while made < max_iter:
            steps, is_over = _advance(*state, min(most, max_iter - made), tol, values, *samples)
            made += steps
            if progress is not None:
                for value in values[:steps].tolist():
                    progress(value)
            if is_over or clock.is_over:
                break
    except KeyboardInterrupt:
        clock.stop()
    return units.outward(state[0].reshape(W.shape)), made


# Divided as numpy does: a look for a division by 0, which there is not, keeps a loop from the vector units.
# Loops are written out, and few functions call others: what is called is compiled again with every caller.


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _raise(scores, b, top, fresh):  # type: ignore[no-untyped-def]
    """The best so far."""
    if fresh:
        for i in range(len(scores)):
            top[i] = scores[i] + b
    else:
        for i in range(len(scores)):
            top[i] = max(top[i], scores[i] + b)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _exponentials(scores, b, top, t, total, fresh):  # type: ignore[no-untyped-def]
    """Of scores less the best, and their sum."""
    for i in range(len(scores)):
        e = exp(max((scores[i] + b - top[i]) / t, -MAX_EXPONENT))
        scores[i] = e
        total[i] = e if fresh else total[i] + e


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _logarithms(top, t, total):  # type: ignore[no-untyped-def]
    for i in range(len(total)):
        top[i] += t * log(total[i])
        total[i] = 1.0 / total[i]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _paid(y, c, minus, plus, losses):  # type: ignore[no-untyped-def]
    """What each sample pays, and, in place of the best scores of class -1, what it pulls at them."""
    for i in range(len(y)):
        xi = y[i] * (minus[i] - plus[i])
        small = exp(max(-abs(xi), -MAX_EXPONENT))
        share = 1.0 / (1.0 + small)
        losses[i] = c[i] * (max(xi, 0.0) + log(1.0 + small))
        minus[i] = y[i] * c[i] * (share if xi >= 0.0 else small * share)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _pulled(scores, pulls, shares, sign, single):  # type: ignore[no-untyped-def]
    """A face's part of what samples pull."""
    if single:
        for i in range(len(scores)):
            scores[i] = sign * pulls[i]
    else:
        for i in range(len(scores)):
            scores[i] *= sign * pulls[i] * shares[i]


@njit(cache=True, nogil=True)
def _lost(S, b, y, c, first, t, room):  # type: ignore[no-untyped-def]
    """The loss of scores without their biases, and in their place its slope."""
    K, whole = S.shape
    loss = 0.0
    for at in range(0, whole, _TILE):
        end = min(at + _TILE, whole)
        n = end - at
        for side in range(2):
            lo, hi = (0, first) if side == 0 else (first, K)
            for k in range(lo, hi):
                _raise(S[k, at:end], b[k], room[side, :n], k == lo)
            if hi - lo > 1:
                for k in range(lo, hi):
                    _exponentials(S[k, at:end], b[k], room[side, :n], t, room[2 + side, :n], k == lo)
                _logarithms(room[side, :n], t, room[2 + side, :n])
        _paid(y[at:end], c[at:end], room[0, :n], room[1, :n], room[4, :n])
        for i in range(n):
            loss += room[4, i]
        for k in range(K):
            side = 0 if k < first else 1
            single = first == 1 if k < first else K - first == 1
            _pulled(S[k, at:end], room[0, :n], room[2 + side, :n], 1.0 - 2.0 * side, single)
    return loss


@njit(cache=True, nogil=True)
def _valued(v, g, X, y, c, first, t, entries, ridges, scale, middle, S, room):  # type: ignore[no-untyped-def]
    """The objective at faces of scaled features, and its slope in g, both row by row."""
    K, m = len(S), len(middle)
    A, b, pulls, lifts = np.empty((K, m)), np.empty(K), np.empty((K, m)), np.empty(K)
    cost = 0.0
    for k in range(K):
        b[k] = v[k * (m + 1) + m]
        for j in range(m):
            A[k, j] = v[k * (m + 1) + j] / scale[j]
            b[k] -= A[k, j] * middle[j]
            cost += ridges[j] * A[k, j] * A[k, j]
        cost += ridges[m] * b[k] * b[k]
    np.dot(A, X.T, S)
    loss = _lost(S, b, y, c, first, t, room)
    np.dot(S, X, pulls)
    np.dot(S, np.ones(len(y)), lifts)
    for k in range(K):
        lift = entries[k, m] * (lifts[k] + ridges[m] * b[k])
        g[k * (m + 1) + m] = lift
        for j in range(m):
            own = pulls[k, j] + ridges[j] * A[k, j] - lift * middle[j]
            g[k * (m + 1) + j] = entries[k, j] * own / scale[j]
    return loss + 0.5 * cost


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add(y, a, x):  # type: ignore[no-untyped-def]
    for i in range(len(y)):
        y[i] += a * x[i]


@njit(cache=True, nogil=True)
def _direction(g, counts, steps, bends, sizes, d):  # type: ignore[no-untyped-def]
    """Less the slope times what the pairs say of the inverse of the curvature."""
    for i in range(len(g)):
        d[i] = -g[i]
    kept, head = counts[0], counts[1]
    share = np.empty(_MEMORY)
    for back in range(1, kept + 1):
        p = (head - back) % _MEMORY
        share[p] = np.dot(steps[p], d) / sizes[p]
        _add(d, -share[p], bends[p])
    if kept:
        p = (head - 1) % _MEMORY
        unit = sizes[p] / np.dot(bends[p], bends[p])
        for i in range(len(d)):
            d[i] *= unit
    for ahead in range(kept):
        p = (head - kept + ahead) % _MEMORY
        _add(d, share[p] - np.dot(bends[p], d) / sizes[p], steps[p])


@njit(cache=True, nogil=True)
def _next(size, lo, lo_value, lo_fall, hi, hi_value):  # type: ignore[no-untyped-def]
    """The next step to try: on, where none was too long; else from what the values at both ends say."""
    if np.isinf(hi):
        return 2.0 * size
    wide = hi - lo
    share = -0.5 * lo_fall * wide / (hi_value - lo_value - lo_fall * wide)
    if not (np.isfinite(share) and np.isfinite(hi_value)):
        share = 0.1
    return lo + min(max(share, 0.1), 0.5) * wide


@njit(cache=True, nogil=True)
def _advance(  # type: ignore[no-untyped-def]
    v, g, value, counts, steps, bends, sizes, most, tol, values,
    X, y, c, first, t, entries, ridges, scale, middle, S, room,
):  # fmt: skip
    """At most `most` more iterations, their objectives in `values`; their number, and whether they ended."""
    d, there, slope = np.empty(len(v)), np.empty(len(v)), np.empty(len(v))
    if np.isnan(value[0]):
        value[0] = _valued(v, g, X, y, c, first, t, entries, ridges, scale, middle, S, room)
    f, made = value[0], 0
    while made < most:
        _direction(g, counts, steps, bends, sizes, d)
        fall = np.dot(g, d)
        size = 1.0 if counts[0] else 1.0 / max(np.sqrt(np.dot(g, g)), 1.0)
        lo, lo_value, lo_fall, hi, hi_value, trials = 0.0, f, fall, np.inf, np.inf, 0
        found, is_good = f, fall >= 0.0
        while not is_good and trials <= _TRIALS:
            # After the last trial the longest step goes that lowered enough.
            size = lo if trials == _TRIALS else size
            for i in range(len(v)):
                there[i] = v[i] + size * d[i]
            found = _valued(there, slope, X, y, c, first, t, entries, ridges, scale, middle, S, room)
            trials += 1
            if not found <= f + _WOLFE_DECREASE * size * fall:
                hi, hi_value = size, found
            else:
                lo, lo_value, lo_fall = size, found, np.dot(slope, d)
                is_good = lo_fall >= _WOLFE_SLOPE * fall or trials > _TRIALS
            size = _next(size, lo, lo_value, lo_fall, hi, hi_value)
        if lo == 0.0:
            if not counts[0]:
                return made, True
            counts[0] = 0
            continue
        made += 1
        p = counts[1]
        for i in range(len(v)):
            steps[p, i] = there[i] - v[i]
            bends[p, i] = slope[i] - g[i]
            v[i], g[i] = there[i], slope[i]
        sizes[p] = np.dot(steps[p], bends[p])
        if sizes[p] > 1e-16 * np.dot(bends[p], bends[p]):
            counts[1] = (p + 1) % _MEMORY
            counts[0] = min(counts[0] + 1, _MEMORY)
        before, f = f, found
        value[0] = values[made - 1] = f
        if before - f <= tol * max(abs(before), abs(f), 1.0):
            return made, True
    return made, False
