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
from types import SimpleNamespace
from typing import Any

from polyopt.base.threads import single_threaded_blas
from polyopt.large.blocks import (
    BlockRecipe,
    Checksum,
    check_block,
    solver_rows,
)
from polyopt.large.sources import Samples, Source
from polyopt.margin.interior_point.block import Block, Work
from polyopt.margin.interior_point.crew import Change, catch_up

_TRIM, _MAP = -1, -3  # the numbers of M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_VARIABLES = {_TRIM: "MALLOC_TRIM_THRESHOLD_", _MAP: "MALLOC_MMAP_THRESHOLD_"}
_ADAPTED = {_TRIM: 1 << 26, _MAP: 1 << 25}  # bytes, glibc's own upper limits
_GLIBC_DEFAULT = 1 << 17  # bytes, of both


Part = Source | tuple[Any, ...]
"""A block's source, or its arrays."""


class Missing:
    """Result of a worker that lacks the block, or a part of its log."""


class _LockedBlock:
    """A block on a worker, or None before it is made, and its lock."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.block: Block | None = None


_blocks: dict[tuple[str, int], _LockedBlock] = {}  # by fit and number
_workspace = SimpleNamespace(work=Work())  # kept as long as there are blocks


def samples_at(part: Part, number: int) -> Samples:
    """Return the samples of a block."""
    return part.read(number) if isinstance(part, Source) else Samples(*part)


def answers(
    fit: str, numbers: Sequence[int], recipe: BlockRecipe, parts: Sequence[Part],
    checksums: Sequence[Checksum | None], log: Sequence[Change], begins: int, ask: Change | None,
) -> list[Any]:  # fmt: skip
    """Apply changes to some blocks of a fit, and return their results to `ask`, or :class:`Missing`.

    log: the log from change `begins` on.
    """
    hold()
    with single_threaded_blas():
        return [
            _answer(_blocks.setdefault((fit, n), _LockedBlock()), recipe, n, samples_at(part, n), checksum,
                    log, begins, ask)
            for n, part, checksum in zip(numbers, parts, checksums, strict=True)
        ]  # fmt: skip


def _answer(
    here: _LockedBlock, recipe: BlockRecipe, number: int, samples: Samples, checksum: Checksum | None,
    log: Sequence[Change], begins: int, ask: Change | None,
) -> Any:  # fmt: skip
    with here.lock:
        # A block that was here before another worker had it has missed a part of the log, too.
        if begins > (0 if here.block is None else here.block.n_applied):
            return Missing()
        samples = check_block(samples, number, checksum, whole=here.block is None)
        if here.block is None:
            here.block = recipe.block(samples, number, _workspace.work)
        if here.block is None:
            return None
        here.block.samples.X = solver_rows(samples, here.block.chosen)
        try:
            return catch_up(here.block, log, begins, ask)
        finally:
            here.block.samples.X = None


def forget(fit: str) -> None:
    """Release the blocks of a fit."""
    for key in [key for key in _blocks if key[0] == fit]:
        _blocks.pop(key, None)
    if not _blocks:
        _workspace.work = Work()
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
