"""Compiled loops: ``njit``, its cache on disk, and the time that compilation takes.

numba makes two more functions of each that it compiles, one for Python and one for C to call. Nothing here is
called by C, and that wrapper takes about a twelfth of the compilation.

Machine code is kept where numba keeps it: in NUMBA_CACHE_DIR, beside the sources, or in the user's cache
folder. Where none of them can be written, as in a read-only installation without a home, it is kept in a
temporary folder of the user's own; and where there is none either, every process compiles for itself.

Compilation happens once, and so is left out of every time limit.
"""

from __future__ import annotations

import os
import time
import warnings
from functools import cache as once
from typing import Any, TypeVar

import numba
from numba.core import cgutils, event
from numba.core.types import Array, BaseTuple  # type: ignore[attr-defined]
from numba.extending import intrinsic, overload

from formulations.clock import leave_out
from polyopt.files import temporary_folder

__all__ = ["borrowed", "njit"]

_Arrays = TypeVar("_Arrays")


def njit(function: Any = None, *, cache: bool = False, **options: Any) -> Any:
    """Compile as numba's ``njit`` does, without the wrapper for C.

    function: the function; without it, a decorator is returned.
    cache: whether the machine code is kept on disk, in the first folder that can be written.
    **options: those of ``numba.njit``.
    """
    if function is None:
        return lambda function: njit(function, cache=cache, **options)
    dispatcher = numba.njit(no_cfunc_wrapper=True, **options)(function)
    if cache:
        _enable_cache(dispatcher)
    return dispatcher


def _enable_cache(dispatcher: Any) -> None:
    """Keep a function's machine code in numba's folders or, where none can be written, in a temporary one."""
    if numba.config.CACHE_DIR or _has_home():
        try:
            dispatcher.enable_caching()
            return
        except RuntimeError:  # numba found no folder to write to
            pass
    folder = temporary_folder()
    if folder is None:
        _warn_once()
        return
    given = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = str(folder)
        dispatcher.enable_caching()
    except RuntimeError:  # the folder has become unwritable
        pass
    finally:
        numba.config.CACHE_DIR = given


@once
def _has_home() -> bool:
    """True if the user has a home; without one numba would make a folder named ``~`` where it is called."""
    return os.path.isabs(os.path.expanduser("~"))


@once
def _warn_once() -> None:
    warnings.warn(
        "compiled loops cannot be kept, and every process compiles them anew, as no cache folder can be "
        "written; the environment variable NUMBA_CACHE_DIR can name one",
        stacklevel=2,
    )


class _CompilationTimer(event.Listener):
    """Tells clocks how long numba compiled; what one function needs of others is compiled within it.

    numba compiles under a lock of its own, so that the events of one thread do not mix with another's.
    """

    depth = 0
    began = 0.0

    def on_start(self, _event: object) -> None:
        if self.depth == 0:
            self.began = time.perf_counter()
        self.depth += 1

    def on_end(self, _event: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            leave_out(time.perf_counter() - self.began)


event.register("numba:compile", _CompilationTimer())


def borrowed(given: _Arrays) -> _Arrays:
    """The same array, or tuple of arrays, of which compiled code does not count the references.

    For arrays that the caller keeps. Every look at a field of a tuple and every slice counts up and down,
    atomically, which takes longer than a short loop.

    given (named): not an array made in the same function, unless that is used after the last look at what
        this returns.
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
