"""Who reads blocks and holds what the solver keeps of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from polyopt.base.threads import run_blocks
from polyopt.large.blocks import rows_of
from polyopt.large.parts import Looked, Made, Maker, check_mark, look
from polyopt.large.sources import described
from polyopt.margin.interior_point.block import Work
from polyopt.margin.interior_point.crew import Crew, Local

if TYPE_CHECKING:
    from polyopt.large.parts import Mark
    from polyopt.large.sources import Samples, Source

    Step = Callable[..., Any]

__all__ = ["Hands", "Here", "Walk"]


class Walk(NamedTuple):
    """A way through blocks: what is carried, and each stop: a block's number and what else a step takes.

    Where a walk `leaves`, its steps give what is carried on, and what they leave behind of their block.
    """

    carried: Any
    stops: Sequence[tuple[int, tuple[Any, ...]]]
    leaves: bool = False


class Hands(ABC):
    """Who reads the blocks, and knows by their marks what was read first.

    count: how many blocks there are.
    """

    def __init__(self, count: int):
        self._marks: list[Mark | None] = [None] * count

    def look(self) -> list[Looked]:
        """A first look at every block, in their order."""
        looks = self._look()
        self._marks = [each.mark for each in looks]
        return looks

    @abstractmethod
    def _look(self) -> list[Looked]: ...

    @abstractmethod
    def crew(self, recipe: Maker) -> Crew:
        """The blocks of this recipe that are not empty."""

    @abstractmethod
    def walk(
        self, step: Step, walks: Sequence[Walk], is_over: Callable[[], bool] | None = None
    ) -> list[Any] | None:
        """What each walk has carried to its end, in their order; None if `is_over` said so before.

        Of a walk that leaves it is that, and a list of what was left at each stop.

        step: A function of a module, which takes what is carried, a block's samples, its number and what else
            the walk says, and gives what is carried on. It changes nothing: it may be called again.
        walks: the walks, which do not depend on each other.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of all blocks."""


class Here(Hands):
    """One process, with as many threads as it may use.

    source: the blocks.
    """

    def __init__(self, source: Source):
        super().__init__(source.count)
        self._source = source

    def _look(self) -> list[Looked]:
        source = self._source
        return run_blocks(
            lambda number: look(source.read(number), number, *described(source, number)), range(source.count)
        )

    def _read(self, number: int, *, whole: bool = False) -> Samples:
        return check_mark(self._source.read(number), number, self._marks[number], whole=whole)

    def crew(self, recipe: Maker) -> Crew:
        """The blocks of this recipe that are not empty."""
        work = Work()

        def made(number: int) -> Made | None:
            block = recipe.block(self._read(number, whole=True), number, work)
            if block is not None:
                block.samples.X = None
            return block

        blocks = run_blocks(made, range(self._source.count))
        numbers = [number for number, block in enumerate(blocks) if block is not None]

        def loaded(place: int, answer: Callable[[], Any]) -> Any:
            block = held[place]
            block.samples.X = rows_of(self._read(numbers[place]), block.chosen)
            try:
                return answer()
            finally:
                block.samples.X = None

        held = [block for block in blocks if block is not None]
        return Local(held, threads=True, loaded=loaded)

    def walk(
        self, step: Step, walks: Sequence[Walk], is_over: Callable[[], bool] | None = None
    ) -> list[Any] | None:
        """Every walk on a thread of its own."""

        def walked(walk: Walk) -> Any:
            carried, left = walk.carried, []
            for number, arguments in walk.stops:
                if is_over is not None and is_over():
                    raise _OverError
                carried = step(carried, self._read(number), number, *arguments)
                if walk.leaves:
                    carried, behind = carried
                    left.append(behind)
            return (carried, left) if walk.leaves else carried

        try:
            return run_blocks(walked, walks)
        except _OverError:
            return None

    def close(self) -> None:
        """Nothing is kept between two readings."""


class _OverError(Exception):
    """Time is over in the midst of a walk."""
