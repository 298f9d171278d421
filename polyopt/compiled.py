"""How loops are compiled: as numba does it, but for a wrapper that nobody calls.

To each function numba compiles two more, one that Python calls and one that C would call. Nothing here is
called by C; its wrapper takes about a twelfth of the time in which functions are compiled, which is what
whoever fits for the first time waits for.
"""

from __future__ import annotations

from functools import partial

import numba

__all__ = ["njit"]

njit = partial(numba.njit, no_cfunc_wrapper=True)
"""numba's ``njit``, to be called with its options: ``@njit(cache=True)``."""
