"""The executor of work on blocks, which reads them and checks that they are those of the first look."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from polyopt.base.threads import run_blocks
from polyopt.large.blocks import (
    BlockRecipe,
    Checksum,
    Report,
    SolverBlock,
    check_block,
    inspect_block,
    solver_rows,
)
from polyopt.large.sources import Samples, Source, described
from polyopt.margin.interior_point.block import Work
from polyopt.margin.interior_point.crew import Crew, Local


class Fold(NamedTuple):
    """A fold over some blocks: an initial state, and for each block its number and a step's arguments.

    If the fold `leaves`, a step gives the next state and a result of its block.
    """

    state: Any
    stops: Sequence[tuple[int, tuple[Any, ...]]]
    leaves: bool = False


class Executor(ABC):
    """The executor of work on `count` blocks."""

    def __init__(self, count: int):
        self.count = count
        self._checksums: list[Checksum | None] = [None] * count

    def inspect(self) -> list[Report]:
        """Take the first look at every block, in their order."""
        reports = self._inspect()
        self._checksums = [each.checksum for each in reports]
        return reports

    @abstractmethod
    def _inspect(self) -> list[Report]: ...

    @abstractmethod
    def crew(self, recipe: BlockRecipe) -> Crew:
        """Return the solver's blocks of this recipe that are not empty."""

    @abstractmethod
    def fold(
        self, step: Callable[..., Any], folds: Sequence[Fold], is_over: Callable[[], bool] | None = None
    ) -> list[Any] | None:
        """Run folds; return their final states, with their lists of results if any, or None if time is over.

        A step is a function of a module, called with the state, a block's samples and number, and the
        arguments of the stop; it has no effects, so that it may be repeated. Folds are independent.
        """

    def each(
        self, step: Callable[..., Any], arguments: Sequence[tuple[Any, ...] | None],
        is_over: Callable[[], bool] | None = None,
    ) -> Any:  # fmt: skip
        """Return a step's results for the blocks with arguments that are not None; None if time is over."""
        folds = [Fold(None, [(number, given)]) for number, given in enumerate(arguments) if given is not None]
        return self.fold(step, folds, is_over)

    @abstractmethod
    def close(self) -> None:
        """Release all blocks."""


class LocalExecutor(Executor):
    """One process, with as many threads as it may use, that reads the blocks of a source."""

    def __init__(self, source: Source):
        super().__init__(source.count)
        self._source = source

    def _inspect(self) -> list[Report]:
        source = self._source
        return run_blocks(
            lambda number: inspect_block(source.read(number), number, *described(source, number)),
            range(source.count),
        )

    def _read(self, number: int, *, whole: bool = False) -> Samples:
        return check_block(self._source.read(number), number, self._checksums[number], whole=whole)

    def crew(self, recipe: BlockRecipe) -> Crew:
        """Return the solver's blocks of this recipe that are not empty."""
        work = Work()

        def made(number: int) -> SolverBlock | None:
            block = recipe.block(self._read(number, whole=True), number, work)
            if block is not None:
                block.samples.X = None
            return block

        blocks = run_blocks(made, range(self._source.count))
        numbers = [number for number, block in enumerate(blocks) if block is not None]
        held = [block for block in blocks if block is not None]

        def loaded(place: int, answer: Callable[[], Any]) -> Any:
            block = held[place]
            block.samples.X = solver_rows(self._read(numbers[place]), block.chosen)
            try:
                return answer()
            finally:
                block.samples.X = None

        return Local(held, threads=True, loaded=loaded)

    def fold(
        self, step: Callable[..., Any], folds: Sequence[Fold], is_over: Callable[[], bool] | None = None
    ) -> list[Any] | None:
        """Run every fold on a thread of its own."""

        def folded(fold: Fold) -> Any:
            state, results = fold.state, []
            for number, arguments in fold.stops:
                if is_over is not None and is_over():
                    raise _OverError
                state = step(state, self._read(number), number, *arguments)
                if fold.leaves:
                    state, result = state
                    results.append(result)
            return (state, results) if fold.leaves else state

        try:
            return run_blocks(folded, folds)
        except _OverError:
            return None

    def close(self) -> None:
        """Nothing is kept between two readings."""


class _OverError(Exception):
    """Time is over within a fold."""
