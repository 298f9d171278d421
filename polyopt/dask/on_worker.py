"""What a worker does, and what it keeps of blocks between two tasks."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from polyopt.dask.allocation import give_back, hold
from polyopt.large.marks import check_mark
from polyopt.large.parts import Maker, look, rows_of
from polyopt.large.sources import Samples, Source
from polyopt.solvers.interior_point.block import Work
from polyopt.solvers.interior_point.crew import Change, bring
from polyopt.threads import blas_held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polyopt.large.marks import Mark
    from polyopt.large.parts import Looked, Made

__all__ = ["Missing", "Part", "answers", "forget", "looked", "samples_at"]

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


class _Room:
    """Room to work in, as long as there are blocks."""

    work = Work()


_room = _Room()


def samples_at(part: Part, number: int) -> Samples:
    """On a worker: the samples of a block.

    part: the samples.
    number: the block's number.
    """
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
    numbers: those of the blocks.
    recipe: what they are made by.
    parts: their samples.
    marks: what they are known by.
    log: the log from place `begins` on.
    begins: that place.
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
