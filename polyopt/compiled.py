"""How loops are compiled: as numba does it, but for a wrapper that nobody calls.

To each function numba compiles two more, one that Python calls and one that C would call. Nothing here is
called by C; its wrapper takes about a twelfth of the time in which functions are compiled, which is what
whoever fits for the first time waits for.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import numba
from numba.core import cgutils
from numba.core.types import Array, BaseTuple  # type: ignore[attr-defined]
from numba.extending import intrinsic, overload

__all__ = ["borrowed", "njit"]

_Arrays = TypeVar("_Arrays")

njit = partial(numba.njit, no_cfunc_wrapper=True)
"""numba's ``njit``, to be called with its options: ``@njit(cache=True)``."""


def borrowed(given: _Arrays) -> _Arrays:
    """The same array, or tuple of arrays, of which compiled code does not count the references.

    For arrays that the caller keeps. Every look at a field of a tuple and every slice counts up and down,
    atomically, which takes longer than a short loop.

    Parameters
    ----------
    given : ndarray, or (named) tuple of ndarrays and numbers
        Not an array made in the same function, unless that is used after the last look at what this returns.
    """
    return given


@overload(borrowed, strict=False)
def _borrowed(given: Any) -> Any:
    return lambda given: _bare(given)


@intrinsic
def _bare(_typing: Any, given: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return given(given), generate


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, BaseTuple):
        for place, of_field in enumerate(kind):
            field = _without_owner(context, builder, of_field, builder.extract_value(value, place))
            value = builder.insert_value(value, field, place)
    elif isinstance(kind, Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        value = array._getvalue()
    return value
