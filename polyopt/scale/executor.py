"""Executors: functions are run on the blocks of a source, one block or a chain of blocks after another.

Every block is inspected once, and each later reading is compared with the checksum of that first reading.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from polyopt.base.threads import run_blocks
from polyopt.scale.blocks import Checksum, Report, check_block, inspect_block
from polyopt.scale.crew import Crew, Local, Readable, Recipe
from polyopt.scale.sources import Samples, Source, described


class Fold(NamedTuple):
    """A chain of steps: each takes the state that the step before has returned.

    state: the initial state.
    stops: for each step the number of its block, and its further arguments.
    leaves: True if a step returns the next state and a result; False if it returns the next state alone.
    """

    state: Any
    stops: Sequence[tuple[int, tuple[Any, ...]]]
    leaves: bool = False


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
            places = [described(part, number) for number, part in enumerate(self.parts)]
            arguments = [(place, names or self._names) for place, names in places]
            self._reports = self.each(inspect_block, arguments)
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
    def fold(
        self, step: Callable[..., Any], folds: Sequence[Fold], is_over: Callable[[], bool] | None = None
    ) -> list[Any] | None:
        """Run independent folds.

        step: a function of a module, called with the state, a block's samples, its number, and the further
            arguments. It has no side effects, because it is run again if its result is lost.
        Returns: for each fold its final state, or the pair of final state and list of results if it
            `leaves` any. None if time is over.
        """

    def each(
        self, step: Callable[..., Any], arguments: Sequence[tuple[Any, ...] | None],
        is_over: Callable[[], bool] | None = None,
    ) -> Any:  # fmt: skip
        """Return the results of a step on single blocks; None if time is over.

        arguments: for each block the further arguments; None to leave it out.
        """
        folds = [Fold(None, [(number, more)]) for number, more in enumerate(arguments) if more is not None]
        return self.fold(step, folds, is_over)

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

        return Local(nonempty, threads=True, loaded=run_loaded)

    def fold(
        self, step: Callable[..., Any], folds: Sequence[Fold], is_over: Callable[[], bool] | None = None
    ) -> list[Any] | None:
        """Run folds as of :meth:`Executor.fold`, each on one thread."""

        def run_fold(fold: Fold) -> Any:
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
            return run_blocks(run_fold, folds)
        except _OverError:
            return None


class _OverError(Exception):
    """Signal of a fold that time is over."""
