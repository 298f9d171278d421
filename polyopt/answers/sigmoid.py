"""The logistic function of many scores at once, as loops that the processor's vector units can take.

``e^-z = 2^k e^r`` with k the whole number next to ``-z / log 2``, so that ``|r| ≤ log(2) / 2``, and Taylor's
series for ``e^r`` up to ``r^13``: relative errors of 4e-16 at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from polyopt.answers import ABOVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["sigmoid", "two_classes"]

_TILE = 256
_FAR = 700.0  # beyond, it is 0 or 1 to the last digit that a double near 1 has
_PER_LOG2 = 1.0 / math.log(2.0)
_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # log 2 in two parts, of which k times the first is exact
_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_ROUND = 1.5 * 2.0**52  # a sum with it is rounded to a whole number, which its last bits are
_BITS = int(np.float64(_ROUND).view(np.int64))
_C = tuple(1.0 / math.factorial(k) for k in range(14))


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


# Divided as numpy does: a look for a division by 0, which there is not, keeps a loop from the vector units.


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _logistic(scores, slope, n, p):  # type: ignore[no-untyped-def]
    """``p[i] = 1 / (1 + e^-(slope scores[i]))``."""
    for i in range(n):
        z = min(max(slope * scores[i], -_FAR), _FAR)
        power = _ROUND - _PER_LOG2 * z
        k = power - _ROUND
        r = (-z - k * _HIGH) - k * _LOW
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
        found = 1.0 / (1.0 + e * _double_of((_bits_of(power) - _BITS + 1023) << 52))
        p[i] = found if scores[i] == scores[i] else scores[i]


@njit(cache=True, nogil=True)
def _sigmoid(scores, out):  # type: ignore[no-untyped-def]
    for begin in range(0, len(scores), _TILE):
        _logistic(scores[begin:], 1.0, min(_TILE, len(scores) - begin), out[begin:])


@njit(cache=True, nogil=True)
def _agree(p, scores, with_zero, n):  # type: ignore[no-untyped-def]
    """Put probabilities on the side of one half where the label is."""
    for i in range(n):
        high, low = max(p[i], ABOVE), min(p[i], 0.5)
        p[i] = high if scores[i] > 0.0 or (with_zero and scores[i] == 0.0) else low


@njit(cache=True, nogil=True)
def _side_by_side(p, n, out):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[2 * i] = 1.0 - p[i]
        out[2 * i + 1] = p[i]


@njit(cache=True, nogil=True)
def _two_classes(scores, slope, with_zero, out):  # type: ignore[no-untyped-def]
    p = np.empty(_TILE)
    for begin in range(0, len(scores), _TILE):
        own, n = scores[begin:], min(_TILE, len(scores) - begin)
        _logistic(own, slope, n, p)
        _agree(p, own, with_zero, n)
        _side_by_side(p, n, out[2 * begin :])


def sigmoid(z: Array) -> Array:
    """``1 / (1 + e^-z)``; of NaN it is NaN.

    Parameters
    ----------
    z : ndarray of shape (n,)
        Numbers.
    """
    found = np.empty(len(z))
    _sigmoid(z, found)
    return found


def two_classes(scores: Array, slope: float, with_zero: bool) -> Array:
    """Probabilities (n, 2) of the first class and of the second, which is ``1 / (1 + e^-(slope score))``.

    The larger one is that of the label, also where they round: that of the second class is more than one half
    where the score is positive, or 0 `with_zero`, and else at most one half.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores.
    slope : float
        Log-odds for a unit of the score, positive.
    with_zero : bool
        Whether a score of 0 is the second class's.
    """
    found = np.empty((len(scores), 2))
    _two_classes(np.ascontiguousarray(scores), slope, with_zero, found.reshape(-1))
    return found
