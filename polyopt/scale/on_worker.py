"""Functions that run on a Dask worker, and its memory between two tasks: blocks and work space.

Dask's nanny sets ``MALLOC_TRIM_THRESHOLD_``, which also switches off glibc's reuse of the memory of freed
arrays. Each array of more than 128 kB then needs new pages in every pass, and the system's time for them was
half of the time of a fit. During a fit the worker's thresholds are therefore those that glibc would choose.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from polyopt.base.threads import single_threaded_blas
from polyopt.scale.blocks import Checksum, check_block
from polyopt.scale.crew import Change, Readable, Recipe, catch_up
from polyopt.scale.sources import Samples, Source

_TRIM, _MAP = -1, -3  # the numbers of M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_VARIABLES = {_TRIM: "MALLOC_TRIM_THRESHOLD_", _MAP: "MALLOC_MMAP_THRESHOLD_"}
_ADAPTED = {_TRIM: 1 << 26, _MAP: 1 << 25}  # bytes, glibc's own upper limits
_GLIBC_DEFAULT = 1 << 17  # bytes, of both


Part = Source | tuple[Any, ...]
"""A block's source, or its arrays."""


class Missing:
    """Result of a worker that lacks the block, or a part of its log."""


class _Place:
    """The place of a block on a worker: its lock, and the block, None before it is made."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.block: Readable | None = None


_places: dict[str, dict[int, _Place]] = {}  # by fit and number
_workspaces: dict[str, Any] = {}  # by fit


def samples_at(part: Part, number: int) -> Samples:
    """Return the samples of a block."""
    return Samples(*part) if isinstance(part, tuple) else part.read(number)


def answers(
    fit: str, numbers: Sequence[int], recipe: Recipe, parts: Sequence[Part],
    checksums: Sequence[Checksum | None], log: Sequence[Change], begins: int, ask: Change | None,
) -> list[Any]:  # fmt: skip
    """Apply changes to some blocks of a fit, and return their results to `ask`, or :class:`Missing`.

    log: the log from change `begins` on.
    """
    hold()
    workspace = _workspaces.setdefault(fit, recipe.workspace())

    def answer(number: int, part: Part, checksum: Checksum | None) -> Any:
        place = _places.setdefault(fit, {}).setdefault(number, _Place())
        with place.lock:
            # A block that was here before another worker had it has missed a part of the log, too.
            if begins > (0 if place.block is None else place.block.n_applied):
                return Missing()
            samples = check_block(samples_at(part, number), number, checksum, whole=place.block is None)
            if place.block is None:
                place.block = recipe.block(samples, workspace)
            if place.block is None:
                return None
            place.block.attach(samples)
            try:
                return catch_up(place.block, log, begins, ask)
            finally:
                place.block.detach()

    with single_threaded_blas():
        return [answer(*each) for each in zip(numbers, parts, checksums, strict=True)]


def forget(fit: str) -> None:
    """Release the blocks of a fit."""
    _places.pop(fit, None)
    _workspaces.pop(fit, None)
    if not _places:
        give_back()


def hold() -> None:
    """Let malloc reuse freed memory; no effect with another malloc, or if the nanny set no threshold."""
    _set_thresholds(_ADAPTED)


def give_back() -> None:
    """Restore the thresholds of the environment, and return freed memory to the system."""
    _set_thresholds(dict.fromkeys(_ADAPTED, 0))
    with suppress(AttributeError, TypeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _set_thresholds(least: Mapping[int, int]) -> None:
    """Set malloc's thresholds to those of the environment, but at least to these."""
    if _VARIABLES[_TRIM] not in os.environ:
        return
    with suppress(AttributeError, TypeError, OSError, ValueError):  # another system, or another malloc
        for option, size in least.items():
            threshold = int(os.environ.get(_VARIABLES[option], _GLIBC_DEFAULT))
            ctypes.CDLL(None).mallopt(option, min(max(size, threshold), 2**31 - 1))
