"""Helpers of loops that numba compiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["exponentials", "put"]


@njit(cache=True, nogil=True)
def put(values: NDArray[Any], out: NDArray[Any]) -> None:
    """``out[:len(values)] = values``, of which numba takes seconds to compile how a mismatch is worded."""
    for k in range(len(values)):
        out[k] = values[k]


_TWINS = {
    types.float32: types.int32,
    types.int32: types.float32,
    types.float64: types.int64,
    types.int64: types.float64,
}


@intrinsic
def _recast(context: Any, number: Any) -> Any:
    """The number of the other kind, real or integer, that has the same bits."""
    twin = _TWINS[number]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(twin))

    return twin(number), generate


# Adding 1.5 * 2^23 rounds a number to an integer, which then stands in the sum's last bits.
_ROUNDER = np.float32(12582912.0)
_PER_LOG_2 = np.float32(1.44269504088896)
# log(2) in two parts, the first of few bits, so that a small integer times it is exact.
_LOG_2, _LOG_2_REST = np.float32(0.693359375), np.float32(-2.12194440e-4)
_MIN_EXPONENT = np.float32(-87.0)  # exp of it is 2e-38; below, numbers lose their digits
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
# exp(r) = 1 + r + r² p(r) for |r| <= log(2) / 2 (Cephes), highest power first.
_P5, _P4, _P3 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_P2, _P1, _P0 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)


# The same in double precision: 1.5 * 2^52, log(2) in two parts, and Taylor's series, its rest below 1e-17.
_ROUNDER_2, _PER_LOG_2_2, _MIN_EXPONENT_2 = 6755399441055744.0, 1.4426950408889634, -700.0
_LOG_2_HEAD, _LOG_2_TAIL = 0.6931471803691238, 1.9082149292705877e-10
_T = tuple(1.0 / math.factorial(k) for k in range(14))


def _exp(t: Any) -> Any:
    """``exp(min(t, 0))`` of a float32 or a float64; for compiled code."""
    raise NotImplementedError


@overload(_exp, inline="always")
def _exp_of(t: Any) -> Any:
    def double(t: Any) -> Any:
        t = 0.0 if t > 0.0 else t  # what is no number stays none
        t = _MIN_EXPONENT_2 if t < _MIN_EXPONENT_2 else t
        shifted = t * _PER_LOG_2_2 + _ROUNDER_2
        power = shifted - _ROUNDER_2
        r = (t - power * _LOG_2_HEAD) - power * _LOG_2_TAIL
        s = r * r
        p = ((_T[13] * r + _T[12]) * r + _T[11]) * r + _T[10]
        p = (((p * r + _T[9]) * r + _T[8]) * r + _T[7]) * r + _T[6]
        p = (((p * r + _T[5]) * r + _T[4]) * r + _T[3]) * r + _T[2]
        scale = _recast((_recast(shifted) << np.int64(52)) + np.int64(0x3FF0000000000000))
        return (p * s + r + 1.0) * scale

    def single(t: Any) -> Any:
        t = _ZERO if t > _ZERO else t
        t = _MIN_EXPONENT if t < _MIN_EXPONENT else t
        shifted = t * _PER_LOG_2 + _ROUNDER
        power = shifted - _ROUNDER
        r = (t - power * _LOG_2) - power * _LOG_2_REST
        p = ((((_P5 * r + _P4) * r + _P3) * r + _P2) * r + _P1) * r + _P0
        scale = _recast(np.int32((_recast(shifted) << np.int32(23)) + np.int32(0x3F800000)))
        return (p * (r * r) + r + _ONE) * scale

    return single if t == types.float32 else double


@njit(cache=True, nogil=True, fastmath={"contract"})
def exponentials(T: NDArray[Any], first: int, last: int) -> None:
    """``exp(min(t, 0))`` of these columns, in place, to 2 units in the last place.

    In single precision what is smaller than exp(-87), 2e-38, becomes that; in double precision what is
    smaller than exp(-700), 1e-304. It is written so that a compiler turns it into vectors.
    """
    for i in range(T.shape[0]):
        row = T[i, first:last]
        for j in range(len(row)):
            row[j] = _exp(row[j])
