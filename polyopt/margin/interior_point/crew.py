"""All blocks of samples, asked in turn: the one place where the method meets whatever carries it out.

What changes a block is a change, and goes into a log. A block knows how much of the log it has been
through, and catches up before it answers. So a block that was lost can be made anew from its samples and
the log, which is a few vectors of the size of w for each iteration; and so can all of them, from a file.

What blocks answer comes in their order, and sums are taken in that order (:func:`total`): the result is the
same to the bit, whoever carries the blocks and however many of them there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from polyopt.base.threads import run_blocks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["Change", "Crew", "Local", "Logged", "bring", "total"]

_GROUP = 8  # terms that are added up before the sums are


class Change(NamedTuple):
    """A change of every block: the name of a method, and its arguments."""

    name: str
    arguments: tuple[Any, ...] = ()


class Logged(Protocol):
    """An object that goes through a log, as a :class:`~polyopt.margin.interior_point.block.Block` does.

    done: how many changes it has been through.
    answer: what the last of them gave.
    """

    done: int
    answer: object


def bring(block: Logged, log: Sequence[Change], begins: int, ask: Change | None) -> Any:
    """Let a block catch up with the log, and answer.

    log: the log from change `begins` on, which the block has been through already.
    ask: the measurement; None for the answer to the last change.
    """
    for change in log[block.done - begins :]:
        block.answer = getattr(block, change.name)(*change.arguments)
        block.done += 1
    return block.answer if ask is None else getattr(block, ask.name)(*ask.arguments)


def total(terms: Sequence[ArrayLike]) -> Vector:
    """The sum of arrays of one shape, by groups of eight, groups of groups, and so on.

    terms: one at least.
    """
    sums: list[Any] = [np.asarray(term) for term in terms]
    while len(sums) > 1:
        sums = [_sum(sums[k : k + _GROUP]) for k in range(0, len(sums), _GROUP)]
    return np.asarray(sums[0])


def _sum(terms: list[Vector]) -> Vector:
    found = terms[0]
    for term in terms[1:]:
        found = found + term
    return found


class Crew(ABC):
    """The executor of the changes.

    log: all changes so far.
    """

    def __init__(self) -> None:
        self.log: list[Change] = []

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of blocks."""

    @abstractmethod
    def _answers(self, ask: Change | None) -> list[Any]:
        """Answers of all blocks once they have been through the log."""

    def close(self) -> None:
        """Let go of the blocks, if this crew holds them."""
        return

    def tell(self, name: str, *arguments: Any) -> None:
        """Have every block changed, by the time that it is next asked.

        name: A method of :class:`~polyopt.margin.interior_point.block.Block`.
        *arguments: what it takes.
        """
        self.log.append(Change(name, arguments))

    def change(self, name: str, *arguments: Any) -> list[Any]:
        """Change every block, and have their answers."""
        self.tell(name, *arguments)
        return self._answers(None)

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """Have every block measure something, which changes nothing."""
        return self._answers(Change(name, arguments))


class Local(Crew):
    """Blocks in this process.

    blocks: the blocks, as of :func:`bring`.
    threads: whether several threads may share them.
    loaded: takes a block's number and what is to be done once its samples are in memory.
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
        """Let go of the blocks."""
        self.blocks, self._loaded = [], None

    def _answers(self, ask: Change | None) -> list[Any]:
        def answer(number: int) -> Any:
            def work() -> Any:
                return bring(self.blocks[number], self.log, 0, ask)

            return work() if self._loaded is None else self._loaded(number, work)

        if self._threads:
            return run_blocks(answer, range(self.count))
        return [answer(number) for number in range(self.count)]
