"""Functions that run on a Dask worker, and its memory between two tasks: blocks and work space.

Dask's nanny sets ``MALLOC_TRIM_THRESHOLD_``, which also switches off glibc's reuse of the memory of freed
arrays. Each array of more than 128 kB then needs new pages in every pass, and the system's time for them was
half of the time of a fit. From the first task on the worker's thresholds are therefore those that glibc would
choose, and after a fit its freed memory is returned to the system.
"""

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any

from polyopt.base.threads import single_threaded_blas
from polyopt.scale.blocks import Checksum, check_block
from polyopt.scale.crew import Change, Readable, Recipe, catch_up
from polyopt.scale.sources import Samples, Source

_THRESHOLDS = {-1: 1 << 26, -3: 1 << 25}  # bytes, of M_TRIM_THRESHOLD and M_MMAP_THRESHOLD: glibc's limits

Part = Source | tuple[Any, ...]
"""A block's source, or its arrays."""


class Missing:
    """Result of a worker that lacks the block, or a part of its log."""


class _Place:
    """A block on a worker, None until its first task makes it, and the lock of the tasks that use it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.block: Readable | None = None


_places: dict[tuple[str, int], _Place] = {}  # by name of the solver's blocks, and number of the block
_workspaces: dict[str, Any] = {}  # by name of the solver's blocks, which share it


def samples_at(part: Part, number: int) -> Samples:
    """Return the samples of a block, from its arrays or read from its source."""
    return Samples(*part) if isinstance(part, tuple) else part.read(number)


def answer(
    name: str, number: int, recipe: Recipe, part: Part, checksum: Checksum | None, log: Sequence[Change],
    begins: int, ask: Change | None,
) -> Any:  # fmt: skip
    """Apply changes to a block, and return the result of `ask`.

    The result is :class:`Missing` if the block has not applied all changes before number `begins`, and None
    if the block has no sample of the program.

    name: name of the blocks of this solver.
    log: the log from change number `begins` on.
    ask: a call that only reads; if None, the result of the last change is returned.
    """
    let_malloc_reuse_memory()
    place = _places.setdefault((name, number), _Place())
    with single_threaded_blas(), place.lock:
        # Either the worker does not have the block, or has an old one that was on another worker meanwhile.
        if begins > (0 if place.block is None else place.block.n_applied):
            return Missing()
        samples = check_block(samples_at(part, number), number, checksum, whole=place.block is None)
        if place.block is None:
            place.block = recipe.block(samples, _workspaces.setdefault(name, recipe.workspace()))
        if place.block is None:
            return None
        place.block.attach(samples)
        try:
            return catch_up(place.block, log, begins, ask)
        finally:
            place.block.detach()


def answers(
    name: str, numbers: Sequence[int], recipe: Recipe, parts: Sequence[Part],
    checksums: Sequence[Checksum | None], *change: Any,
) -> list[Any]:  # fmt: skip
    """Return the results of :func:`answer` for some blocks."""
    each = zip(numbers, parts, checksums, strict=True)
    return [answer(name, number, recipe, part, checksum, *change) for number, part, checksum in each]


def forget(name: str) -> None:
    """Release the blocks whose names begin with `name`, and return freed memory to the system."""
    for key in [key for key in _places if key[0].startswith(name)]:
        _places.pop(key, None)
        _workspaces.pop(key[0], None)
    with suppress(AttributeError, TypeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


@cache
def let_malloc_reuse_memory() -> None:
    """Set glibc's thresholds, once; no effect with another malloc, or if the nanny set no threshold."""
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        with suppress(AttributeError, TypeError, OSError):  # another system, or another malloc
            for option, size in _THRESHOLDS.items():
                ctypes.CDLL(None).mallopt(option, size)
