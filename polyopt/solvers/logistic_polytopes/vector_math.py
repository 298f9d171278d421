"""Exponential and logarithm that a compiled loop evaluates with vector instructions; inlined at every use.

``e^x = 2^k e^r`` with k the whole number next to ``x / log 2``, so that ``|r| ≤ log(2) / 2``, and Taylor's
series for ``e^r`` up to ``r^13``. ``log x = k log 2 + 2 artanh((m - 1) / (m + 1))`` with ``x = 2^k m`` and
m between ``sqrt(1/2)`` and ``sqrt(2)``, and the series for it up to the power 21. Tests hold ``e^x``
to 1e-15 and ``log x`` to 2e-15 of numpy's value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from polyopt.compiled import njit

__all__ = ["FAR", "exp", "log"]

FAR = 700.0
"""How far from 0 the argument of :func:`exp` may be."""

_PER_LOG2 = 1.0 / math.log(2.0)
_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # log 2 in two parts, of which k times the first is exact
_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_ROUND = 1.5 * 2.0**52  # a sum with it is rounded to a whole number, which its last bits are
_BITS = int(np.float64(_ROUND).view(np.int64))
_ROOT = int(np.float64(math.sqrt(0.5)).view(np.int64))
_C = tuple(1.0 / math.factorial(k) for k in range(14))
_L = tuple(2.0 / (2 * k + 1) for k in range(11))


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
    """``e^x``, for x from -FAR to FAR."""
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
