"""Who reads blocks and holds what the solver keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from polyopt.large.parts import Looked, Recipe, block_of, look, samples_of
from polyopt.solvers.interior_point.block import Block
from polyopt.solvers.interior_point.crew import Crew, Local
from polyopt.solvers.interior_point.measured import Work
from polyopt.threads import run_blocks

if TYPE_CHECKING:
    from polyopt.large.sources import Source

__all__ = ["Hands", "Here"]


class Hands(Protocol):
    """Who reads the blocks."""

    def look(self) -> list[Looked]:
        """A first look at every block, in their order."""

    def crew(self, recipe: Recipe) -> Crew:
        """The blocks of this recipe that are not empty."""

    def close(self) -> None:
        """Let go of all of it."""


class Here:
    """One process, with as many threads as it may use.

    Parameters
    ----------
    source : Source
        The blocks.
    """

    def __init__(self, source: Source):
        self._source = source

    def look(self) -> list[Looked]:
        """A first look at every block, in their order."""
        return run_blocks(lambda number: look(self._source.read(number), number), range(self._source.count))

    def crew(self, recipe: Recipe) -> Crew:
        """The blocks of this recipe that are not empty."""
        work = Work()

        def made(number: int) -> Block | None:
            block = block_of(self._source.read(number), recipe, work)
            if block is not None:
                block.samples.X = None
            return block

        blocks = run_blocks(made, range(self._source.count))
        numbers = [number for number, block in enumerate(blocks) if block is not None]

        def loaded(place: int, answer: Callable[[], Any]) -> Any:
            block = held[place]
            block.samples.X = samples_of(self._source.read(numbers[place]), recipe)
            try:
                return answer()
            finally:
                block.samples.X = None

        held = [block for block in blocks if block is not None]
        return Local(held, threads=True, loaded=loaded)

    def close(self) -> None:
        """Let go of all of it."""
