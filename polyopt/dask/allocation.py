"""Memory that a worker frees, kept for the next pass over its samples instead of given back at once.

Dask's nanny sets ``MALLOC_TRIM_THRESHOLD_``, which also ends what glibc's malloc does by itself: to map no
array afresh whose like was freed before. Each array of more than 128 kB is then new pages in every pass, and
the system's time for them was half of all. While a fit is under way the worker is set as glibc would be.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

__all__ = ["give_back", "hold"]

_TRIM, _MAP = -1, -3  # the numbers of M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_NAMES = {_TRIM: "MALLOC_TRIM_THRESHOLD_", _MAP: "MALLOC_MMAP_THRESHOLD_"}
_HELD = {_TRIM: 1 << 26, _MAP: 1 << 25}  # up to which glibc goes by itself
_USUAL = 1 << 17


def hold() -> None:
    """Keep what is freed; nothing where the process has another malloc, or was not told to give it back."""
    if _NAMES[_TRIM] in os.environ:
        for option, size in _HELD.items():
            _set(option, max(size, _told(option)))


def give_back() -> None:
    """Give back what was kept, and keep no more than the process was told to."""
    if _NAMES[_TRIM] in os.environ:
        for option in _HELD:
            _set(option, _told(option))
        with suppress(AttributeError, TypeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


def _told(option: int) -> int:
    try:
        return int(os.environ.get(_NAMES[option], _USUAL))
    except ValueError:
        return _USUAL


def _set(option: int, size: int) -> None:
    with suppress(AttributeError, TypeError, OSError):  # another system, or another malloc
        ctypes.CDLL(None).mallopt(option, min(size, 2**31 - 1))
