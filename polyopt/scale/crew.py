"""The crew: an executor that calls methods of all blocks of samples, in this process or elsewhere.

Every call that changes the blocks is appended to a log. A block counts the log entries that it has applied,
and applies the missing entries before a method reads it. A lost block can therefore be rebuilt from its
samples and the log, which has a few vectors of the size of w for each iteration; from a checkpoint, which has
the log, all blocks can be rebuilt.

Results are in the order of the blocks, and :func:`total` sums them in a fixed order, so every sum is the same
to the bit wherever the blocks are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.types import Vector
from polyopt.base.threads import run_blocks

if TYPE_CHECKING:
    from polyopt.scale.sources import Samples


class Change(NamedTuple):
    """A method call, also one that only reads: the name of a method of the blocks, and its arguments."""

    name: str
    arguments: tuple[Any, ...] = ()


class Logged(Protocol):
    """A solver's block of samples, which applies a log."""

    n_applied: int  # number of log entries applied
    last_result: object  # result of the last log entry that was applied


class Readable(Logged, Protocol):
    """A block whose samples are read for every call, and not kept."""

    def attach(self, samples: Samples) -> None:
        """Take the block's samples from those that were read."""

    def detach(self) -> None:
        """Let the samples go."""


class Recipe(Protocol):
    """The choices that a solver's blocks are made from."""

    def workspace(self) -> Any:
        """Return work space that all blocks of a process may share."""

    def block(self, samples: Samples, workspace: Any) -> Readable | None:
        """Return the block of the samples; None if none of them is in the program."""


def catch_up(block: Logged, log: Sequence[Change], first: int, ask: Change | None) -> Any:
    """Apply the missing log entries to a block, then call `ask` and return its result.

    log: the log from entry number `first` on; the block has applied all entries before number `first`.
    ask: a call that only reads; if None, the result of the last log entry is returned.
    """
    for change in log[block.n_applied - first :]:
        block.last_result = getattr(block, change.name)(*change.arguments)
        block.n_applied += 1
    return block.last_result if ask is None else getattr(block, ask.name)(*ask.arguments)


def total(terms: Sequence[ArrayLike]) -> Vector:
    """Sum arrays of one shape: eight consecutive terms at a time, then eight such sums, and so on."""
    partial: list[Any] = [np.asarray(term) for term in terms]
    while len(partial) > 1:
        partial = [sum(partial[k + 1 : k + 8], start=partial[k]) for k in range(0, len(partial), 8)]
    return np.asarray(partial[0])


class Crew(ABC):
    """The executor of all blocks; `log` has all changes so far."""

    def __init__(self) -> None:
        self.log: list[Change] = []

    @abstractmethod
    def _results(self, ask: Change | None) -> list[Any]:
        """Return the results of all blocks, as in :func:`catch_up`."""

    def close(self) -> None:
        """Release the blocks, if they are in other processes."""
        return

    def tell(self, name: str, *arguments: Any) -> None:
        """Append a change to the log; the blocks apply it before their next result is returned."""
        self.log.append(Change(name, arguments))

    def change(self, name: str, *arguments: Any) -> list[Any]:
        """Change every block now, and return the results of the method."""
        self.tell(name, *arguments)
        return self._results(None)

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """Return the results of a method that only reads the blocks."""
        return self._results(Change(name, arguments))


class Local(Crew):
    """The executor of blocks in this process.

    loaded: ``loaded(number, call_block)`` loads the samples of a block, then returns ``call_block()``; such
        blocks are distributed over threads. None if the blocks keep their samples.
    """

    def __init__(
        self, blocks: Sequence[Logged], loaded: Callable[[int, Callable[[], Any]], Any] | None = None
    ):
        super().__init__()
        self.blocks, self._loaded = blocks, loaded

    def _results(self, ask: Change | None) -> list[Any]:
        if self._loaded is None:
            return [catch_up(block, self.log, 0, ask) for block in self.blocks]
        loaded = self._loaded

        def compute(number: int) -> Any:
            return loaded(number, partial(catch_up, self.blocks[number], self.log, 0, ask))

        return run_blocks(compute, range(len(self.blocks)))
