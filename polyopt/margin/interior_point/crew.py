"""The executor of all blocks of samples, in this process or elsewhere.

Every change of a block goes into a log. A block counts the changes that it has applied, and catches up before
it answers. So a lost block can be rebuilt from its samples and the log, which is a few vectors of the size of
w for each iteration; and so can all blocks, from a file.

Answers come in the order of the blocks, and sums are taken in that order (:func:`total`): the result is the
same to the bit, wherever the blocks are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyopt.base.threads import run_blocks

Vector = NDArray[np.float64]


class Change(NamedTuple):
    """A change of every block: the name of one of its methods, and the arguments."""

    name: str
    arguments: tuple[Any, ...] = ()


class Logged(Protocol):
    """An object that applies a log, such as a :class:`~polyopt.margin.interior_point.block.Block`.

    done: number of changes applied.
    answer: result of the last one.
    """

    done: int
    answer: object


def bring(block: Logged, log: Sequence[Change], begins: int, ask: Change | None) -> Any:
    """Apply the rest of the log to a block, then return its answer to `ask`, or to the last change if None.

    log: the log from change `begins` on; the block has applied all before it.
    """
    for change in log[block.done - begins :]:
        block.answer = getattr(block, change.name)(*change.arguments)
        block.done += 1
    return block.answer if ask is None else getattr(block, ask.name)(*ask.arguments)


def total(terms: Sequence[ArrayLike]) -> Vector:
    """Sum arrays of one shape, at least one, by groups of eight, groups of groups, and so on."""
    sums: list[Any] = [np.asarray(term) for term in terms]
    while len(sums) > 1:
        sums = [sum(sums[k + 1 : k + 8], start=sums[k]) for k in range(0, len(sums), 8)]
    return np.asarray(sums[0])


class Crew(ABC):
    """The executor of changes and measurements; `log` has all changes so far."""

    def __init__(self) -> None:
        self.log: list[Change] = []

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of blocks."""

    @abstractmethod
    def _answers(self, ask: Change | None) -> list[Any]:
        """Return the answers of all blocks once they have applied the log."""

    def close(self) -> None:
        """Release the blocks, if this executor has them."""
        return

    def tell(self, name: str, *arguments: Any) -> None:
        """Change every block by this method, at the latest when it is next asked."""
        self.log.append(Change(name, arguments))

    def change(self, name: str, *arguments: Any) -> list[Any]:
        """Change every block, and return their answers."""
        self.tell(name, *arguments)
        return self._answers(None)

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """Return the measurements of all blocks by this method, which changes nothing."""
        return self._answers(Change(name, arguments))


class Local(Crew):
    """Blocks in this process.

    threads: True if several threads may share them.
    loaded: calls a function once the samples of the block with this number are in memory.
    """

    def __init__(
        self,
        blocks: Sequence[Logged],
        *,
        threads: bool = False,
        loaded: Callable[[int, Callable[[], Any]], Any] | None = None,
    ):
        super().__init__()
        self.blocks, self._threads, self._loaded = blocks, threads, loaded

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    def close(self) -> None:
        """Release the blocks."""
        self.blocks, self._loaded = [], None

    def _answers(self, ask: Change | None) -> list[Any]:
        def answer(number: int) -> Any:
            def work() -> Any:
                return bring(self.blocks[number], self.log, 0, ask)

            return work() if self._loaded is None else self._loaded(number, work)

        if self._threads:
            return run_blocks(answer, range(self.count))
        return [answer(number) for number in range(self.count)]
