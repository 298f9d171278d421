"""Executors: functions are run on the blocks of a source, one block or a chain of blocks after another.

Every block is inspected once, and each later reading is compared with the checksum of that first reading.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from formulations.language.clock import Clock
from polyopt.base.threads import run_blocks, single_threaded_blas
from polyopt.scale.blocks import Checksum, Report, check_block, inspect_block
from polyopt.scale.crew import Crew, Local, Readable, Recipe
from polyopt.scale.sources import Samples, Source

# A function of a module, called with a block's samples, its number, and the further arguments. It has no side
# effects, because it is run again if its result is lost.
Step: TypeAlias = Callable[..., Any]
Arguments: TypeAlias = tuple[Any, ...]
Stop: TypeAlias = tuple[int, Arguments]  # the number of a block, and the further arguments of the step on it


class Executor(ABC):
    """Base of the executors.

    parts: for each block its source, or a future of its arrays.
    names: names of the features, if the parts are futures.
    count: number of blocks.
    """

    def __init__(self, parts: Sequence[Any], names: Sequence[str] | None = None):
        self.parts, self._names, self.count = list(parts), names, len(parts)
        self._checksums: list[Checksum | None] = [None] * self.count
        self._reports: list[Report] = []

    def inspect(self) -> list[Report]:
        """Return the reports on all blocks in their order, which are inspected at the first call."""
        if not self._reports:
            names = [getattr(part, "names", None) or self._names for part in self.parts]
            self._reports = self.each(inspect_block, [(each,) for each in names])
            self._checksums = [report.checksum for report in self._reports]
        return self._reports

    @property
    def is_sparse(self) -> bool:
        """True if the samples are CSR."""
        return self.inspect()[0].is_sparse

    @abstractmethod
    def crew(self, recipe: Recipe) -> Crew:
        """Return the solver's blocks of this recipe that are not empty."""

    @abstractmethod
    def each(self, step: Step, arguments: Sequence[Arguments | None], clock: Clock | None = None) -> Any:
        """Return the list of the results of a step on single blocks.

        arguments: for each block the further arguments; None to leave it out.
        clock: if it is over before a block is read, the call raises :class:`OutOfTimeError`.
        """

    @abstractmethod
    def chain(
        self, step: Step, state: Any, stops: Sequence[Stop], clock: Clock | None = None
    ) -> tuple[Any, list[Any]]:
        """Take a state through blocks, one after the other.

        step: is called with the state before the samples, and returns the next state and a result.
        clock: as of :meth:`each`.
        Returns: the last state and the results.
        """

    def close(self) -> None:
        """Release all blocks."""
        return


class ThreadExecutor(Executor):
    """Executor in this process, on all its threads."""

    def __init__(self, source: Source):
        super().__init__([source] * source.count)

    def _read(self, number: int, *, whole: bool = False) -> Samples:
        return check_block(self.parts[number].read(number), number, self._checksums[number], whole=whole)

    def crew(self, recipe: Recipe) -> Crew:
        """Return the solver's blocks of this recipe that are not empty."""
        workspace = recipe.workspace()

        def make(number: int) -> Readable | None:
            return recipe.block(self._read(number, whole=True), workspace)

        blocks = run_blocks(make, range(self.count))
        numbers = [number for number, block in enumerate(blocks) if block is not None]
        nonempty = [block for block in blocks if block is not None]

        def run_loaded(index: int, compute: Callable[[], Any]) -> Any:
            nonempty[index].attach(self._read(numbers[index]))
            try:
                return compute()
            finally:
                nonempty[index].detach()

        return Local(nonempty, run_loaded)

    def each(self, step: Step, arguments: Sequence[Arguments | None], clock: Clock | None = None) -> Any:
        """Return the results of a step as of :meth:`Executor.each`, each on one thread."""

        def take(stop: Stop) -> Any:
            if clock is not None:
                clock.check()
            number, more = stop
            return step(self._read(number), number, *more)

        return run_blocks(take, [(number, more) for number, more in enumerate(arguments) if more is not None])

    def chain(
        self, step: Step, state: Any, stops: Sequence[Stop], clock: Clock | None = None
    ) -> tuple[Any, list[Any]]:
        """Take a state through blocks as of :meth:`Executor.chain`, on one thread."""
        results = []
        for number, more in stops:
            if clock is not None:
                clock.check()
            with single_threaded_blas():
                state, result = step(state, self._read(number), number, *more)
            results.append(result)
        return state, results
