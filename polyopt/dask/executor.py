"""Executor on Dask's workers, whose results do not depend on the number of workers or on lost workers.

Every block of a solver (:class:`DaskBlocks`) has a home: the worker that keeps the solver's state of it in
memory. All changes of that state are in a log. A task sends the home those changes that the block has not
applied yet, and asks for a result. If a worker is lost, its blocks get other homes, which apply the whole log
and so reach the same state. Results are put in the order of the blocks.

A fold (:meth:`DaskExecutor.fold`) is a chain of tasks, each of which runs where the samples of its block are.
A task has no side effects. So Dask may repeat it if a worker is lost, and a chain may be sent again as a
whole, with the same result.
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

_TASK_POLL_SECONDS = 0.5  # between two checks of the pending tasks
_WORKER_POLL_SECONDS = 2.0  # between two checks of the workers
_MAX_FAILURES = 100  # tasks of a fit or a fold whose worker was lost
_SCHEDULER_SECONDS = 5.0  # without a reply, after which the scheduler is lost
_MAX_SECONDS_WITHOUT_WORKERS = 60.0
_LOSSES = ("KilledWorker", "CommClosedError", "FutureCancelledError", "LostWorkerError")  # names of errors


class DaskExecutor(Executor):
    """Executor on the workers of a client.

    parts: for each block its source, or a future of its arrays.
    names: names of the features, for futures.
    """

    def __init__(self, client: Client, parts: Sequence[Any], names: Sequence[str] | None = None):
        super().__init__(len(parts))
        self._client, self.parts, self._names = client, list(parts), names
        self._crews: list[DaskBlocks] = []
        self._has_folded = False

    def _inspect(self) -> list[Report]:
        arguments = []
        for number, part in enumerate(self.parts):
            place, names = described(part, number)
            arguments.append((place, names or self._names))
        reports: list[Report] = self.each(looked, arguments)
        return reports

    def crew(self, recipe: BlockRecipe) -> Crew:
        """Return the solver's blocks of this recipe that are not empty."""
        crew = DaskBlocks(self._client, self.parts, recipe, self._checksums)
        self._crews[:] = [*(other for other in self._crews if not other.is_closed), crew]
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
        """Run folds as of :meth:`Executor.fold`, each as a chain of tasks.

        RuntimeError: no worker or no scheduler for some time.
        """
        self._has_folded = True
        ends = {k: (fold.state, []) if fold.leaves else fold.state
                for k, fold in enumerate(folds) if not fold.stops}  # fmt: skip
        under_way: dict[int, list[Future]] = {}
        failures, last_check = 0, time.monotonic()
        try:
            while len(ends) < len(folds):
                for number, fold in enumerate(folds):
                    if number not in ends and number not in under_way:
                        under_way[number] = self._send(step, fold)
                if is_over is not None and is_over():
                    return None
                ended = _ended(under_way)
                for number, futures in ended.items():
                    error = next((future.exception() for future in futures if future.status == "error"), None)
                    if error is not None:
                        failures += 1
                        parts = [self.parts[k] for k, _ in folds[number].stops]
                        _tolerate(self._client, error, parts, failures)
                ends |= self._gather(ended, is_over)
                for number in ended:  # a fold whose end is missing is sent again
                    del under_way[number]
                if not ended and time.monotonic() > last_check + _WORKER_POLL_SECONDS:
                    workers_of(self._client)
                    last_check = time.monotonic()
        finally:
            if under_way:
                with suppress(Exception):
                    futures = [future for futures in under_way.values() for future in futures]
                    self._client.cancel(futures, force=True)
        return [ends[number] for number in range(len(folds))]

    def _send(self, step: Callable[..., Any], fold: Fold) -> list[Future]:
        """Send a chain of tasks; return the future of its final state, then those of its results if any."""
        client, state, results = self._client, fold.state, []
        for position, (number, arguments) in enumerate(fold.stops):
            state = client.submit(
                _stop, step, state, fold.leaves and position > 0, self.parts[number], self._checksums[number],
                number, arguments, key=f"polyopt-{uuid4().hex}", pure=False,
            )  # fmt: skip
            if fold.leaves:
                results.append(client.submit(getitem, state, 1, key=f"polyopt-{uuid4().hex}", pure=False))
        if fold.leaves:
            state = client.submit(getitem, state, 0, key=f"polyopt-{uuid4().hex}", pure=False)
        return [state, *results]

    def _gather(self, ended: dict[int, list[Future]], is_over: Callable[[], bool] | None) -> dict[int, Any]:
        """Return the final state, with the results if any, of each fold that can be fetched completely."""
        by_key = {
            f"{number} {position}": future
            for number, futures in ended.items()
            if futures[0].status == "finished"
            for position, future in enumerate(futures)
        }
        if not by_key:
            if any(futures[0].status in ("cancelled", "lost") for futures in ended.values()):
                workers_of(self._client)
            return {}

        def gives_up() -> bool:  # Dask repeats the tasks of a lost worker
            workers_of(self._client)
            return is_over is not None and is_over()

        fetched = _fetch(self._client, by_key, gives_up)
        ends = {}
        for number, futures in ended.items():
            keys = [f"{number} {position}" for position in range(len(futures))]
            if all(key in fetched for key in keys):
                state, *results = (fetched[key] for key in keys)
                ends[number] = (state, results) if results else state
        return ends


def _stop(
    step: Callable[..., Any], state: Any, leaves: bool, part: Part, checksum: Checksum | None, number: int,
    arguments: tuple[Any, ...],
) -> Any:  # fmt: skip
    """Take a step of a fold on a worker; `leaves`: `state` is a pair of state and result."""
    hold()
    with single_threaded_blas():
        samples = check_block(samples_at(part, number), number, checksum, whole=False)
        return step(state[0] if leaves else state, samples, number, *arguments)


def _ended(under_way: dict[int, list[Future]]) -> dict[int, list[Future]]:
    """Wait until a fold has ended, or some time; return the folds that have ended."""
    from distributed import wait

    with suppress(Exception):  # none in that time, or some were cancelled
        firsts = [futures[0] for futures in under_way.values()]
        wait(firsts, timeout=_TASK_POLL_SECONDS, return_when="FIRST_COMPLETED")
    return {number: futures for number, futures in under_way.items() if futures[0].status != "pending"}


class DaskBlocks(Crew):
    """A solver's blocks of a recipe on workers.

    parts, checksums: source or arrays of each block, as of :class:`DaskExecutor`, and its checksum.
    """

    def __init__(
        self, client: Client, parts: Sequence[Any], recipe: BlockRecipe, checksums: Sequence[Checksum | None]
    ):
        super().__init__()
        self._client, self._recipe, self._fit = client, recipe, uuid4().hex
        self._parts = dict(enumerate(parts))
        self._checksums = checksums
        self._homes: dict[int, str] = {}
        self._threads: dict[str, int] = {}
        self._last_check, self._failures, self.is_closed = -_WORKER_POLL_SECONDS, 0, False
        self._n_applied = dict.fromkeys(self._parts, 0)  # changes of the log that each block has applied
        # A block without a sample of the two classes has the result None, and is left out.
        self._numbers = list(self._parts)
        try:
            results = self._all(Change("facts"))
        except BaseException:
            self.close()
            raise
        self._numbers = [number for number in self._parts if results[number] is not None]

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self._numbers)

    def _results(self, ask: Change | None) -> list[Any]:
        found = self._all(ask)
        return [found[number] for number in self._numbers]

    def close(self) -> None:
        """Have the workers release the blocks."""
        if not self.is_closed:
            self.is_closed = True
            _release(self._client, self._fit)

    def _all(self, ask: Change | None) -> dict[int, Any]:
        """Return the results of every block."""
        left = every = self._numbers
        results: dict[int, Any] = {}
        if time.monotonic() > self._last_check + _WORKER_POLL_SECONDS:
            self._find_homes()
        under_way: dict[Future, list[int]] = {}
        try:
            while left or under_way:
                for numbers in self._group_by_task(left):
                    under_way[self._send(numbers, ask)] = numbers
                ended = self._ended(list(under_way))
                self._collect({future: under_way.pop(future) for future in ended}, results)
                if under_way:
                    for future in self._lost(under_way):
                        del under_way[future]
                asked = set(results).union(*under_way.values())
                left = [number for number in every if number not in asked]
        except BaseException:
            with suppress(Exception):
                self._client.cancel(list(under_way), force=True)
            raise
        for number in results:
            self._n_applied[number] = len(self.log)
        return results

    def _group_by_task(self, numbers: list[int]) -> list[list[int]]:
        """Return the blocks of each task: of one home, at one position of the log, a task for each thread."""
        by_home: dict[tuple[str, int], list[int]] = {}
        for number in numbers:
            by_home.setdefault((self._homes[number], self._n_applied[number]), []).append(number)
        tasks = []
        for (home, _), blocks in by_home.items():
            size = -(-len(blocks) // self._threads.get(home, 1))
            tasks += [blocks[k : k + size] for k in range(0, len(blocks), size)]
        return tasks

    def _send(self, numbers: list[int], ask: Change | None) -> Future:
        begins, home = self._n_applied[numbers[0]], self._homes[numbers[0]]
        return self._client.submit(
            answers, self._fit, numbers, self._recipe, [self._parts[n] for n in numbers],
            [self._checksums[n] for n in numbers], self.log[begins:], begins, ask,
            key=f"polyopt-{uuid4().hex}", pure=False, workers=[home], retries=0,
        )  # fmt: skip

    def _ended(self, futures: list[Future]) -> list[Future]:
        """Wait until all tasks have ended, or some time; return the tasks that have ended."""
        from distributed import wait

        with suppress(Exception):  # not all in that time, or some were cancelled
            wait(futures, timeout=_TASK_POLL_SECONDS)
        return [future for future in futures if future.status != "pending"]

    def _collect(self, ended: dict[Future, list[int]], results: dict[int, Any]) -> None:
        """Add results of tasks to `results`, but for blocks whose worker is lost or does not have them."""
        for future, numbers in ended.items():
            if future.status == "error":
                self._failures += 1
                _tolerate(self._client, future.exception(), [self._parts[n] for n in numbers], self._failures)
        by_key = {future.key: future for future in ended if future.status == "finished"}
        homes = set(self._homes.values())  # results on a lost worker cannot be fetched
        fetched = _fetch(self._client, by_key, lambda: bool(homes - set(workers_of(self._client))))
        for future, numbers in ended.items():
            of_task = fetched.get(future.key, [Missing()] * len(numbers))
            for number, result in zip(numbers, of_task, strict=True):
                if isinstance(result, Missing):
                    self._n_applied[number] = 0
                else:
                    results[number] = result
        if any(number not in results for numbers in ended.values() for number in numbers):
            self._find_homes()

    def _lost(self, under_way: dict[Future, list[int]]) -> list[Future]:
        """Cancel and return the tasks whose workers are lost; their blocks get new homes."""
        before = dict(self._homes)
        self._find_homes(rebalance=False)
        lost = [
            future
            for future, numbers in under_way.items()
            if any(self._homes[number] != before[number] for number in numbers)
        ]
        with suppress(Exception):
            self._client.cancel(lost, force=True)
        return lost

    def _find_homes(self, *, rebalance: bool = True) -> None:
        """Give every block a living home: its old one, a worker with its samples, or one with few blocks.

        rebalance: True to move blocks from workers with more than their equal number to others.
        """
        self._threads = workers_of(self._client)
        workers = sorted(self._threads)
        max_blocks = -(-len(self._parts) // len(workers))
        homes: dict[int, str] = {}
        load = Counter(dict.fromkeys(workers, 0))
        for number, home in self._homes.items():
            if home in self._threads and not (rebalance and load[home] >= max_blocks):
                homes[number] = home
                load[home] += 1
        holders = self._holders() if not self._homes else {}
        for number in self._parts:
            if number not in homes:
                candidates = [
                    worker for worker in holders.get(number, ()) if load.get(worker, max_blocks) < max_blocks
                ]
                homes[number] = min(candidates or workers, key=lambda worker: (load[worker], worker))
                load[homes[number]] += 1
        for number in self._parts:
            if homes[number] != self._homes.get(number):
                self._homes[number], self._n_applied[number] = homes[number], 0
        self._last_check = time.monotonic()

    def _holders(self) -> dict[int, Sequence[str]]:
        """Return the workers that hold the samples of each block."""
        futures = {number: part for number, part in self._parts.items() if hasattr(part, "key")}
        if not futures:
            return {}
        workers_by_key = self._client.who_has(list(futures.values()))
        return {number: workers_by_key.get(part.key, ()) for number, part in futures.items()}


def workers_of(client: Client) -> dict[str, int]:
    """Return the living workers with their threads; RuntimeError if there are none for some time."""
    start = last_reply = time.monotonic()
    while True:
        now = time.monotonic()
        with suppress(Exception):
            threads = client.sync(client.scheduler.ncores, callback_timeout=_SCHEDULER_SECONDS)
            last_reply = now
            if threads:
                return {worker: max(int(count), 1) for worker, count in threads.items()}
        if now - last_reply > _SCHEDULER_SECONDS or client.status == "closed":
            raise RuntimeError(
                "Dask's scheduler is lost, and the fit with it; a checkpoint that was written is whole, and "
                "can be resumed"
            )
        if now - start > _MAX_SECONDS_WITHOUT_WORKERS:
            raise RuntimeError(f"Dask has had no worker for {_MAX_SECONDS_WITHOUT_WORKERS:.0f} seconds")
        time.sleep(_TASK_POLL_SECONDS)


def _release(client: Client, fit: str) -> None:
    """Have the workers release a fit's blocks, and idle memory."""
    with suppress(Exception):  # `run` would wait for a lost scheduler
        workers = client.sync(client.scheduler.ncores, callback_timeout=_SCHEDULER_SECONDS)
        client.run(forget, fit, workers=list(workers), on_error="ignore")


def _tolerate(client: Client, error: BaseException, parts: Iterable[Any], failures: int) -> None:
    """Raise an error, unless it is the loss of a worker and `failures` are not too many.

    Futures among the `parts` that have failed are computed again.
    """
    if type(error).__name__ not in _LOSSES or failures > _MAX_FAILURES:
        raise error
    failed = [part for part in parts if getattr(part, "status", "") == "error"]
    if failed:
        client.retry(failed)


def _fetch(client: Client, by_key: dict[str, Future], gives_up: Callable[[], bool]) -> dict[str, Any]:
    """Return the available results of finished tasks; none if `gives_up` is true before they arrive."""
    if not by_key:
        return {}
    pending = run_coroutine_threadsafe(
        client.gather(by_key, errors="skip", asynchronous=True), client.loop.asyncio_loop
    )
    while True:
        try:
            return dict(pending.result(timeout=_TASK_POLL_SECONDS))
        except TimeoutError:
            if gives_up():
                pending.cancel()
                return {}
        except (OSError, ValueError, CancelledError):
            return {}
