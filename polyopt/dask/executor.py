"""Blocks on Dask's workers: asked all at once, made anew if a worker is lost.

Every block of a solver has a home, a worker that keeps the solver's state of it in its own memory. A task
brings it the part of the log that it has not been through. If a worker is gone, its blocks get other homes
and the whole log, and are as they were. Answers are put in the order of the blocks: nothing depends on the
workers.

A fold is a chain of tasks, each of which goes to its block's samples. A task has no effects, so Dask may
repeat it if a worker is lost, and a chain may be sent again as a whole, with the same result.
"""

from __future__ import annotations

import time
from asyncio import run_coroutine_threadsafe
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from operator import getitem
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from polyopt.base.threads import single_threaded_blas
from polyopt.dask.on_worker import Missing, Part, answers, forget, hold, looked, samples_at
from polyopt.large.blocks import BlockRecipe, Checksum, Report, check_block
from polyopt.large.executor import Executor, Fold
from polyopt.large.sources import described
from polyopt.margin.interior_point.crew import Change, Crew

if TYPE_CHECKING:
    from distributed import Client, Future

_TASK_POLL_SECONDS = 0.5  # between two looks at the tasks under way
_WORKER_POLL_SECONDS = 2.0  # between two looks at the workers
_MAX_FAILURES = 100  # tasks of a fit or a fold whose worker was lost
_SCHEDULER_SECONDS = 5.0  # without an answer, after which the scheduler is lost
_MAX_SECONDS_WITHOUT_WORKERS = 60.0
_LOSSES = ("KilledWorker", "CommClosedError", "FutureCancelledError", "LostWorkerError")  # names of errors


class DaskExecutor(Executor):
    """The workers of a client.

    parts: the sources of the blocks, or futures of their arrays.
    names: names of the features of futures.
    """

    def __init__(self, client: Client, parts: Sequence[Any], names: Sequence[str] | None = None):
        super().__init__(len(parts))
        self._client, self.parts, self._names = client, list(parts), names
        self._crews: list[DaskBlocks] = []
        self._has_folded = False

    def _inspect(self) -> list[Report]:
        given = []
        for number, part in enumerate(self.parts):
            place, names = described(part, number)
            given.append((place, names or self._names))
        found: list[Report] = self.each(looked, given)
        return found

    def crew(self, recipe: BlockRecipe) -> Crew:
        """The solver's blocks of this recipe that are not empty."""
        crew = DaskBlocks(self._client, self.parts, recipe, self._checksums)
        self._crews[:] = [*(each for each in self._crews if not each.is_closed), crew]
        return crew

    def close(self) -> None:
        """Have the workers release all blocks."""
        for crew in self._crews:
            crew.close()
        if self._has_folded:
            _release(self._client, "")

    def fold(
        self, step: Callable[..., Any], folds: Sequence[Fold], is_over: Callable[[], bool] | None = None
    ) -> list[Any] | None:
        """Every fold as a chain of tasks; RuntimeError without a worker, or a scheduler, for some time."""
        self._has_folded = True
        found = {k: (fold.state, []) if fold.leaves else fold.state
                 for k, fold in enumerate(folds) if not fold.stops}  # fmt: skip
        under_way: dict[int, list[Future]] = {}
        failures, looked_at = 0, time.monotonic()
        try:
            while len(found) < len(folds):
                for number, fold in enumerate(folds):
                    if number not in found and number not in under_way:
                        under_way[number] = self._send(step, fold)
                if is_over is not None and is_over():
                    return None
                ended = _ended(under_way)
                for number, futures in ended.items():
                    error = next((each.exception() for each in futures if each.status == "error"), None)
                    if error is not None:
                        failures += 1
                        parts = [self.parts[k] for k, _ in folds[number].stops]
                        _tolerate(self._client, error, parts, failures)
                found |= self._gathered(ended, is_over)
                for number in ended:  # what has not come is sent again
                    del under_way[number]
                if not ended and time.monotonic() > looked_at + _WORKER_POLL_SECONDS:
                    workers_of(self._client)
                    looked_at = time.monotonic()
        finally:
            if under_way:
                with suppress(Exception):
                    futures = [each for futures in under_way.values() for each in futures]
                    self._client.cancel(futures, force=True)
        return [found[number] for number in range(len(folds))]

    def _send(self, step: Callable[..., Any], fold: Fold) -> list[Future]:
        """The last of a chain of tasks, and the result of each if the fold leaves any."""
        client, state, results = self._client, fold.state, []
        for place, (number, arguments) in enumerate(fold.stops):
            state = client.submit(
                _stop, step, state, fold.leaves and place > 0, self.parts[number], self._checksums[number],
                number, arguments, key=f"polyopt-{uuid4().hex}", pure=False,
            )  # fmt: skip
            if fold.leaves:
                results.append(client.submit(getitem, state, 1, key=f"polyopt-{uuid4().hex}", pure=False))
        if fold.leaves:
            state = client.submit(getitem, state, 0, key=f"polyopt-{uuid4().hex}", pure=False)
        return [state, *results]

    def _gathered(self, ended: dict[int, list[Future]], is_over: Callable[[], bool] | None) -> dict[int, Any]:
        """The final state, with the results if there are any, of each fold that has come whole."""
        by_key = {
            f"{number} {place}": future
            for number, futures in ended.items()
            if futures[0].status == "finished"
            for place, future in enumerate(futures)
        }
        if not by_key:
            if any(futures[0].status in ("cancelled", "lost") for futures in ended.values()):
                workers_of(self._client)
            return {}

        def gives_up() -> bool:  # Dask repeats what was lost with a worker
            workers_of(self._client)
            return is_over is not None and is_over()

        come = _fetched(self._client, by_key, gives_up)
        found = {}
        for number, futures in ended.items():
            keys = [f"{number} {place}" for place in range(len(futures))]
            if all(key in come for key in keys):
                state, *results = (come[key] for key in keys)
                found[number] = (state, results) if results else state
        return found


def _stop(
    step: Callable[..., Any], state: Any, leaves: bool, part: Part, checksum: Checksum | None, number: int,
    arguments: tuple[Any, ...],
) -> Any:  # fmt: skip
    """One step of a fold on a worker; if the step before has left a result, `state` is a pair."""
    hold()
    with single_threaded_blas():
        samples = check_block(samples_at(part, number), number, checksum, whole=False)
        return step(state[0] if leaves else state, samples, number, *arguments)


def _ended(under_way: dict[int, list[Future]]) -> dict[int, list[Future]]:
    """The folds that have ended, after one has or some time has passed."""
    from distributed import wait

    with suppress(Exception):  # none in that time, or some were cancelled
        firsts = [futures[0] for futures in under_way.values()]
        wait(firsts, timeout=_TASK_POLL_SECONDS, return_when="FIRST_COMPLETED")
    return {number: futures for number, futures in under_way.items() if futures[0].status != "pending"}


class DaskBlocks(Crew):
    """A solver's blocks of a recipe on workers; `parts` and `checksums` as of :class:`DaskExecutor`."""

    def __init__(
        self, client: Client, parts: Sequence[Any], recipe: BlockRecipe, checksums: Sequence[Checksum | None]
    ):
        super().__init__()
        self._client, self._recipe, self._fit = client, recipe, uuid4().hex
        self._parts = dict(enumerate(parts))
        self._checksums = checksums
        self._homes: dict[int, str] = {}
        self._threads: dict[str, int] = {}
        self._looked, self._failures, self.is_closed = -_WORKER_POLL_SECONDS, 0, False
        self._through = dict.fromkeys(self._parts, 0)  # log entries that a block at home has been through
        # A block without a sample of the two classes answers None, and is left out.
        self._numbers = list(self._parts)
        try:
            found = self._all(Change("facts"))
        except BaseException:
            self.close()
            raise
        self._numbers = [number for number in self._parts if found[number] is not None]

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self._numbers)

    def _answers(self, ask: Change | None) -> list[Any]:
        found = self._all(ask)
        return [found[number] for number in self._numbers]

    def close(self) -> None:
        """Have the workers release the blocks."""
        if not self.is_closed:
            self.is_closed = True
            _release(self._client, self._fit)

    def _all(self, ask: Change | None) -> dict[int, Any]:
        """The answers of every block."""
        left = every = self._numbers
        found: dict[int, Any] = {}
        if time.monotonic() > self._looked + _WORKER_POLL_SECONDS:
            self._find_homes()
        under_way: dict[Future, list[int]] = {}
        try:
            while left or under_way:
                for numbers in self._shares(left):
                    under_way[self._send(numbers, ask)] = numbers
                ended = self._ended(list(under_way))
                self._collect({future: under_way.pop(future) for future in ended}, found)
                if under_way:
                    for future in self._lost(under_way):
                        del under_way[future]
                settled = set(found).union(*under_way.values())
                left = [number for number in every if number not in settled]
        except BaseException:
            with suppress(Exception):
                self._client.cancel(list(under_way), force=True)
            raise
        for number in found:
            self._through[number] = len(self.log)
        return found

    def _shares(self, numbers: list[int]) -> list[list[int]]:
        """The blocks of each task: of one home and an equal part of the log, for each of its threads."""
        by_home: dict[tuple[str, int], list[int]] = {}
        for number in numbers:
            by_home.setdefault((self._homes[number], self._through[number]), []).append(number)
        shares = []
        for (home, _), some in by_home.items():
            size = -(-len(some) // self._threads.get(home, 1))
            shares += [some[k : k + size] for k in range(0, len(some), size)]
        return shares

    def _send(self, numbers: list[int], ask: Change | None) -> Future:
        begins, home = self._through[numbers[0]], self._homes[numbers[0]]
        return self._client.submit(
            answers, self._fit, numbers, self._recipe, [self._parts[n] for n in numbers],
            [self._checksums[n] for n in numbers], self.log[begins:], begins, ask,
            key=f"polyopt-{uuid4().hex}", pure=False, workers=[home], retries=0,
        )  # fmt: skip

    def _ended(self, futures: list[Future]) -> list[Future]:
        """The tasks that have ended, after all have or some time has passed."""
        from distributed import wait

        with suppress(Exception):  # not all in that time, or some were cancelled
            wait(futures, timeout=_TASK_POLL_SECONDS)
        return [future for future in futures if future.status != "pending"]

    def _collect(self, ended: dict[Future, list[int]], found: dict[int, Any]) -> None:
        """Take the answers; a block whose worker is gone or does not know it is to be asked again."""
        for future, numbers in ended.items():
            if future.status == "error":
                self._failures += 1
                _tolerate(self._client, future.exception(), [self._parts[n] for n in numbers], self._failures)
        by_key = {future.key: future for future in ended if future.status == "finished"}
        homes = set(self._homes.values())  # those of a worker that is gone do not come
        come = _fetched(self._client, by_key, lambda: bool(homes - set(workers_of(self._client))))
        for future, numbers in ended.items():
            for number, answer in zip(numbers, come.get(future.key, [Missing()] * len(numbers)), strict=True):
                if isinstance(answer, Missing):
                    self._through[number] = 0
                else:
                    found[number] = answer
        if any(number not in found for numbers in ended.values() for number in numbers):
            self._find_homes()

    def _lost(self, under_way: dict[Future, list[int]]) -> list[Future]:
        """Cancel and return the tasks whose homes are gone; their blocks get new homes."""
        before = dict(self._homes)
        self._find_homes(and_even=False)
        gone = [
            future
            for future, numbers in under_way.items()
            if any(self._homes[number] != before[number] for number in numbers)
        ]
        with suppress(Exception):
            self._client.cancel(gone, force=True)
        return gone

    def _find_homes(self, *, and_even: bool = True) -> None:
        """Give every block a living home: its own, a worker with its samples, or one with the fewest blocks.

        With `and_even` a worker keeps no more than its share, and so a new worker gets some.
        """
        self._threads = workers_of(self._client)
        workers = sorted(self._threads)
        share = -(-len(self._parts) // len(workers))
        homes: dict[int, str] = {}
        load = Counter(dict.fromkeys(workers, 0))
        for number, home in self._homes.items():
            if home in self._threads and not (and_even and load[home] >= share):
                homes[number] = home
                load[home] += 1
        holders = self._holders() if not self._homes else {}
        for number in self._parts:
            if number not in homes:
                near = [worker for worker in holders.get(number, ()) if load.get(worker, share) < share]
                homes[number] = min(near or workers, key=lambda worker: (load[worker], worker))
                load[homes[number]] += 1
        for number in self._parts:
            if homes[number] != self._homes.get(number):
                self._homes[number], self._through[number] = homes[number], 0
        self._looked = time.monotonic()

    def _holders(self) -> dict[int, Sequence[str]]:
        """The workers that hold the samples of each block."""
        futures = {number: part for number, part in self._parts.items() if hasattr(part, "key")}
        if not futures:
            return {}
        there = self._client.who_has(list(futures.values()))
        return {number: there.get(part.key, ()) for number, part in futures.items()}


def workers_of(client: Client) -> dict[str, int]:
    """The living workers with their threads; RuntimeError without worker or scheduler for some time."""
    begun = heard = time.monotonic()
    while True:
        now = time.monotonic()
        with suppress(Exception):
            there = client.sync(client.scheduler.ncores, callback_timeout=_SCHEDULER_SECONDS)
            heard = now
            if there:
                return {worker: max(int(threads), 1) for worker, threads in there.items()}
        if now - heard > _SCHEDULER_SECONDS or client.status == "closed":
            raise RuntimeError(
                "Dask's scheduler is lost, and the fit with it; a checkpoint that was written is whole, and "
                "can be resumed"
            )
        if now - begun > _MAX_SECONDS_WITHOUT_WORKERS:
            raise RuntimeError(f"Dask has had no worker for {_MAX_SECONDS_WITHOUT_WORKERS:.0f} seconds")
        time.sleep(_TASK_POLL_SECONDS)


def _release(client: Client, fit: str) -> None:
    """Have the workers release a fit's blocks, and idle memory."""
    with suppress(Exception):  # `run` would wait for a lost scheduler
        there = client.sync(client.scheduler.ncores, callback_timeout=_SCHEDULER_SECONDS)
        client.run(forget, fit, workers=list(there), on_error="ignore")


def _tolerate(client: Client, error: BaseException, parts: Iterable[Any], failures: int) -> None:
    """Raise an error, unless it says that a worker was lost and is not one too many of `failures`.

    Futures among the `parts` that Dask has given up are computed again.
    """
    if type(error).__name__ not in _LOSSES or failures > _MAX_FAILURES:
        raise error
    again = [part for part in parts if getattr(part, "status", "") == "error"]
    if again:
        client.retry(again)


def _fetched(client: Client, by_key: dict[str, Future], gives_up: Callable[[], bool]) -> dict[str, Any]:
    """The available results of finished tasks; none if `gives_up` is true before they come."""
    if not by_key:
        return {}
    coming = run_coroutine_threadsafe(
        client.gather(by_key, errors="skip", asynchronous=True), client.loop.asyncio_loop
    )
    while True:
        try:
            return dict(coming.result(timeout=_TASK_POLL_SECONDS))
        except TimeoutError:
            if gives_up():
                coming.cancel()
                return {}
        except (OSError, ValueError, CancelledError):
            return {}
