"""What a worker does, and what it keeps between two tasks: its blocks, and the memory of the pass before.

Dask's nanny sets ``MALLOC_TRIM_THRESHOLD_``, which also ends what glibc's malloc does by itself: to map no
array afresh whose like was freed before. Each array of more than 128 kB is then new pages in every pass, and
the system's time for them was half of all. While a fit is under way the worker is set as glibc would be.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from polyopt.base.threads import blas_held
from polyopt.large.parts import Maker, check_mark, look, rows_of
from polyopt.large.sources import Samples, Source
from polyopt.margin.interior_point.block import Work
from polyopt.margin.interior_point.crew import Change, bring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polyopt.large.parts import Looked, Made, Mark


__all__ = ["Missing", "Part", "answers", "forget", "hold", "looked", "samples_at"]

_TRIM, _MAP = -1, -3  # the numbers of M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_NAMES = {_TRIM: "MALLOC_TRIM_THRESHOLD_", _MAP: "MALLOC_MMAP_THRESHOLD_"}
_HELD = {_TRIM: 1 << 26, _MAP: 1 << 25}  # up to which glibc goes by itself
_GLIBC_DEFAULT = 1 << 17  # bytes, of both


Part = Source | tuple[Any, ...]
"""The samples of a block: what it is read from, or its arrays."""


class Missing:
    """A worker's answer where it has not the block that it is asked for."""


class _Here:
    """A block on a worker, and whose turn it is."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.block: Made | None = None


_held: dict[tuple[str, int], _Here] = {}


_room = SimpleNamespace(work=Work())  # memory to work in, kept as long as there are blocks


def samples_at(part: Part, number: int) -> Samples:
    """On a worker: the samples of a block."""
    return part.read(number) if isinstance(part, Source) else Samples(*part)


def looked(
    _: None, samples: Samples, number: int, place: str = "", names: Sequence[str] | None = None
) -> Looked:
    """On a worker: a first look at a block, as a step of a walk."""
    return look(samples, number, place, names)


def answers(
    fit: str, numbers: Sequence[int], recipe: Maker, parts: Sequence[Part], marks: Sequence[Mark | None],
    log: Sequence[Change], begins: int, ask: Change | None,
) -> list[Any]:  # fmt: skip
    """On a worker: what some blocks answer, or that they are not here.

    fit: the name of the fit.
    numbers, parts, marks: of each block its number, its samples, and what it is known by.
    log: the log from place `begins` on.
    ask: what is asked.
    """
    hold()
    with blas_held():
        return [
            _answer(
                _held.setdefault((fit, n), _Here()), recipe, n, samples_at(part, n), mark, log, begins, ask
            )
            for n, part, mark in zip(numbers, parts, marks, strict=True)
        ]


def _answer(
    here: _Here, recipe: Maker, number: int, samples: Samples, mark: Mark | None, log: Sequence[Change],
    begins: int, ask: Change | None,
) -> Any:  # fmt: skip
    with here.lock:
        # It may also be one that was here before another worker had it, and has missed a part of the log.
        if begins > (0 if here.block is None else here.block.done):
            return Missing()
        samples = check_mark(samples, number, mark, whole=here.block is None)
        if here.block is None:
            here.block = recipe.block(samples, number, _room.work)
        if here.block is None:
            return None
        here.block.samples.X = rows_of(samples, here.block.chosen)
        try:
            return bring(here.block, log, begins, ask)
        finally:
            here.block.samples.X = None


def forget(fit: str) -> None:
    """On a worker: let go of a fit's blocks."""
    for key in [key for key in _held if key[0] == fit]:
        _held.pop(key, None)
    if not _held:
        _room.work = Work()
        give_back()


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
        return int(os.environ.get(_NAMES[option], _GLIBC_DEFAULT))
    except ValueError:
        return _GLIBC_DEFAULT


def _set(option: int, size: int) -> None:
    with suppress(AttributeError, TypeError, OSError):  # another system, or another malloc
        ctypes.CDLL(None).mallopt(option, min(size, 2**31 - 1))
