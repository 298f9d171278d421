"""Executor on Dask's workers, whose results do not depend on the number of workers or on lost workers.

Every block of a solver (:class:`DaskBlocks`) has a home, the worker that keeps the block's state in memory.
All changes of the state are in a log. A task sends to the home the log entries that the block has not applied
yet, and asks for a result. If a worker is lost, its blocks get other homes, which apply the whole log and so
reach the same state. Results are put in the order of the blocks.

Work that keeps no state (:class:`DaskExecutor`) is sent as single tasks or as chains of tasks. They have no
side effects, so Dask may repeat a task if a worker is lost, and a chain may be sent again as a whole, with
the same result.
"""

from __future__ import annotations

import time
from asyncio import run_coroutine_threadsafe
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from importlib.util import find_spec
from operator import getitem
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from formulations.language.arguments import refuse_masked
from formulations.language.clock import Clock
from polyopt.base.threads import single_threaded_blas
from polyopt.estimators.collections import CollectionLike, heading_of, matrix_of_partition
from polyopt.estimators.frames import column_names, refuse_dates
from polyopt.scale.blocks import Checksum, check_block, row_matrix
from polyopt.scale.crew import Change, Crew, Recipe
from polyopt.scale.executor import Arguments, Executor, Step, Stop
from polyopt.scale.on_worker import Missing, Part, answers, forget, let_malloc_reuse_memory, samples_at
from polyopt.scale.sources import Arrays, Source

if TYPE_CHECKING:
    from distributed import Client, Future

_MAX_FAILURES = 100  # largest number of tasks whose worker is lost, in one call of `_run`
_SECONDS = {  # times, which Dask's configuration may change under the same names
    "polyopt.task-poll": 0.5,  # between two checks of the pending tasks
    "polyopt.worker-poll": 2.0,  # between two checks of the workers
    "polyopt.scheduler-timeout": 5.0,  # without a reply, after which the scheduler counts as lost
    "polyopt.workers-timeout": 60.0,  # without a worker, after which a fit ends
}
_LOSSES = ("KilledWorker", "CommClosedError", "FutureCancelledError", "LostWorkerError")  # names of errors


def _seconds(name: str) -> float:
    """Return a time by its name after ``polyopt.``, such as ``dask.config.set`` may have changed it."""
    from dask import config

    return float(config.get(f"polyopt.{name}", _SECONDS[f"polyopt.{name}"]))


class _Tasks:
    """Tasks on the workers of a client, which are sent again if their worker is lost.

    parts: for each block its source, or a future of its arrays.
    """

    parts: list[Any]

    def __init__(self, client: Client, parts: Sequence[Any]):
        self._client = client
        self.parts = list(parts)
        self._last_check = -np.inf  # time of the last check of the workers
        self._homes: dict[int, str] = {}  # by block, the worker that keeps its state; empty without states

    def _run(
        self, numbers: Iterable[int], send: Callable[[list[int]], dict[Future, list[int]]],
        clock: Clock | None = None,
    ) -> dict[int, Any]:  # fmt: skip
        """Send tasks until there is a result for each number; return the results by number.

        numbers: numbers of blocks, or other numbers that `send` has a task for.
        send: sends tasks for some numbers, and returns the numbers of each task. The result of a task is the
            list of the results of its numbers.
        RuntimeError: no worker or no scheduler for some time. OutOfTimeError: time is over.
        """
        unsent, n_failures = list(numbers), 0
        results: dict[int, Any] = {}
        pending: dict[Future, list[int]] = {}
        try:
            while unsent or pending:
                if unsent:
                    pending |= send(unsent)
                if clock is not None:
                    clock.check()
                ended = {future: pending.pop(future) for future in self._ended(pending)}
                for error in [future.exception() for future in ended if future.status == "error"]:
                    n_failures += 1
                    self._tolerate(error, n_failures)
                fetched = self._fetch([future for future in ended if future.status == "finished"], clock)
                for future, group in ended.items():
                    by_number = zip(group, fetched.get(future.key, ()), strict=False)  # () if not fetched
                    results |= {n: result for n, result in by_number if not isinstance(result, Missing)}
                unsent = [number for group in ended.values() for number in group if number not in results]
                if unsent or (pending and time.monotonic() > self._last_check + _seconds("worker-poll")):
                    lost = self._check_workers(pending, unsent)
                    self._cancel(lost)
                    unsent += [number for future in lost for number in pending.pop(future)]
        finally:
            self._cancel(list(pending))
        return results

    def _submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future:
        """Send a task of its own key, so that Dask does not return the result of an equal one."""
        key = f"polyopt-{uuid4().hex}"
        return self._client.submit(function, *arguments, key=key, pure=False, **options)

    def _ended(self, pending: Iterable[Future]) -> list[Future]:
        """Wait until all tasks have ended, at most ``polyopt.task-poll``; return those that have ended."""
        from distributed import wait

        with suppress(Exception):  # a timeout, or cancelled tasks
            wait(list(pending), timeout=_seconds("task-poll"))
        return [future for future in pending if future.status != "pending"]

    def _check_workers(self, pending: dict[Future, list[int]], missing: list[int]) -> list[Future]:
        """Return the pending tasks that must be sent again; RuntimeError if there are no workers.

        Here the list is empty, because Dask itself repeats the tasks of a lost worker. :class:`DaskBlocks`
        overrides this: its tasks may run on one worker only, and Dask cannot move them.

        missing: numbers whose tasks have ended without a result.
        """
        workers_of(self._client)
        self._last_check = time.monotonic()
        return []

    def _cancel(self, futures: list[Future]) -> None:
        if futures:
            with suppress(Exception):
                self._client.cancel(futures, force=True)

    def _tolerate(self, error: BaseException, failures: int) -> None:
        """Raise the error of a task, unless it is the loss of a worker and there were not too many failures.

        Parts that have failed are computed again.
        """
        if type(error).__name__ not in _LOSSES or failures > _MAX_FAILURES:
            raise error
        if failed := [part for part in self.parts if getattr(part, "status", "") == "error"]:
            self._client.retry(failed)

    def _fetch(self, finished: list[Future], clock: Clock | None) -> dict[str, Any]:
        """Return the available results of finished tasks by their keys.

        If a home is lost or the time ends while waiting, return {}: the tasks then count as ended without a
        result.
        """
        if not finished:
            return {}
        by_key = {future.key: future for future in finished}
        pending = run_coroutine_threadsafe(
            self._client.gather(by_key, errors="skip", asynchronous=True), self._client.loop.asyncio_loop
        )
        while True:
            try:
                return dict(pending.result(timeout=_seconds("task-poll")))
            except TimeoutError:
                if set(self._homes.values()) - set(workers_of(self._client)) or (clock and clock.is_over):
                    pending.cancel()
                    return {}
            except (OSError, ValueError, CancelledError):
                return {}


class DaskExecutor(_Tasks, Executor):
    """Executor on the workers of a client."""

    def __init__(self, client: Client, parts: Sequence[Any], names: Sequence[str] | None = None):
        _Tasks.__init__(self, client, parts)
        Executor.__init__(self, parts, names)
        self._fit = uuid4().hex  # workers store blocks under names that begin with this

    def crew(self, recipe: Recipe) -> Crew:
        """Return the solver's blocks made from a recipe, without those that have no sample in the program."""
        return DaskBlocks(self._client, self.parts, recipe, self._checksums, self._fit + uuid4().hex)

    def close(self) -> None:
        """Have the workers release all blocks."""
        _release(self._client, self._fit)

    def each(self, step: Step, arguments: Sequence[Arguments | None], clock: Clock | None = None) -> Any:
        """Return the results of a step as of :meth:`Executor.each`, by a task for each block."""
        found = self._run(
            [number for number, more in enumerate(arguments) if more is not None],
            lambda numbers: {self._send(step, n, arguments[n] or ()): [n] for n in numbers},
            clock,
        )
        return [found[number] for number in sorted(found)]

    def chain(
        self, step: Step, state: Any, stops: Sequence[Stop], clock: Clock | None = None
    ) -> tuple[Any, list[Any]]:
        """Take a state through blocks as of :meth:`Executor.chain`, by a chain of tasks."""

        def send(numbers: list[int]) -> dict[Future, list[int]]:
            last: Any = (state, None)  # state and result, at first not a future
            results = []
            for number, more in stops:
                last = self._send(step, number, more, last)
                results.append(self._submit(getitem, last, 1))
            return {self._submit(_chain_result, last, results): numbers}

        if not stops:
            return state, []
        return self._run([0], send, clock)[0]  # the whole chain is one task, number 0

    def _send(self, step: Step, number: int, arguments: Arguments, last: Any = None) -> Future:
        """Send a task that takes a step on a block.

        last: in a chain, the state and the result of the step before.
        """
        return self._submit(_take, step, self.parts[number], self._checksums[number], number, arguments, last)


def _chain_result(last: tuple[Any, Any], results: list[Any]) -> list[tuple[Any, list[Any]]]:
    """Return the final state and all results of a chain, as the list of one result that a task returns."""
    return [(last[0], results)]


def _take(
    step: Step, part: Part, checksum: Checksum | None, number: int, arguments: Arguments,
    last: tuple[Any, Any] | None,
) -> Any:  # fmt: skip
    """Take a step on a worker; return its results as a list, or in a chain the next state and the result."""
    let_malloc_reuse_memory()
    with single_threaded_blas():
        samples = check_block(samples_at(part, number), number, checksum, whole=False)
        if last is None:
            return [step(samples, number, *arguments)]
        return step(last[0], samples, number, *arguments)


class DaskBlocks(_Tasks, Crew):
    """A solver's blocks of a recipe on workers.

    parts, checksums: source or arrays of each block, as of :class:`DaskExecutor`, and its checksum.
    name: name under which the workers store the blocks.
    """

    def __init__(
        self, client: Client, parts: Sequence[Any], recipe: Recipe, checksums: Sequence[Checksum | None],
        name: str,
    ):  # fmt: skip
        _Tasks.__init__(self, client, parts)
        Crew.__init__(self)
        self._recipe = recipe
        self._name = name
        self._checksums = checksums
        self._threads: dict[str, int] = {}  # number of threads of each worker
        self._n_applied = dict.fromkeys(range(len(parts)), 0)  # number of log entries that each block applied
        self._numbers = list(range(len(parts)))  # the blocks in use, at first all
        # A block without samples of the two classes returns None: it is not used from now on.
        self._numbers = [number for number, facts in enumerate(self.ask("facts")) if facts is not None]

    def close(self) -> None:
        """Have the workers release the blocks."""
        _release(self._client, self._name)

    def _results(self, ask: Change | None) -> list[Any]:
        if time.monotonic() > self._last_check + _seconds("worker-poll"):
            self._find_homes()
        found = self._run(self._numbers, lambda numbers: self._send_groups(numbers, ask))
        self._n_applied |= dict.fromkeys(found, len(self.log))
        return [found[number] for number in self._numbers]

    def _send_groups(self, numbers: list[int], ask: Change | None) -> dict[Future, list[int]]:
        """Send the tasks of some blocks; return the blocks of each task.

        The blocks of a task have the same home and number of applied log entries. Such blocks are divided
        between as many tasks as the home has threads, or one task each if they are fewer.
        """
        alike: dict[tuple[str, int], list[int]] = {}
        for number in numbers:
            alike.setdefault((self._homes[number], self._n_applied[number]), []).append(number)
        sent = {}
        for (home, _), blocks in alike.items():
            size = -(-len(blocks) // self._threads.get(home, 1))
            for group in (blocks[k : k + size] for k in range(0, len(blocks), size)):
                sent[self._send(group, ask)] = group
        return sent

    def _send(self, numbers: list[int], ask: Change | None) -> Future:
        """Send a task of blocks with the same home, with the log entries that they have not applied."""
        begins, home = self._n_applied[numbers[0]], self._homes[numbers[0]]
        return self._submit(
            answers, self._name, numbers, self._recipe, [self.parts[n] for n in numbers],
            [self._checksums[n] for n in numbers], self.log[begins:], begins, ask,
            workers=[home], retries=0,
        )  # fmt: skip

    def _check_workers(self, pending: dict[Future, list[int]], missing: list[int]) -> list[Future]:
        """Find homes for blocks of lost workers; return the pending tasks of the blocks that have moved."""
        self._n_applied |= dict.fromkeys(missing, 0)  # their homes may lack the blocks: send the whole log
        before = dict(self._homes)
        self._find_homes(rebalance=False)
        moved = {number for number, home in self._homes.items() if home != before.get(number)}
        return [future for future, numbers in pending.items() if moved.intersection(numbers)]

    def _find_homes(self, *, rebalance: bool = True) -> None:
        """Give every block a living home: its old one, a worker with its samples, or one with few blocks.

        rebalance: True to move blocks from workers with more than their equal share to others.
        """
        self._threads = workers_of(self._client)
        workers = sorted(self._threads)
        max_blocks = -(-len(self.parts) // len(workers))  # equal share of a worker
        load = Counter(dict.fromkeys(workers, 0))  # blocks of each worker
        settled = set()
        for number, home in self._homes.items():
            if home in workers and not (rebalance and load[home] >= max_blocks):
                settled.add(number)
                load[home] += 1
        # Only the first homes are chosen by where the samples are; later ones by the load alone.
        holders = self._holders() if not self._homes else {}
        for number in (n for n in range(len(self.parts)) if n not in settled):
            candidates = [
                worker for worker in holders.get(number, ()) if load.get(worker, max_blocks) < max_blocks
            ]
            home = min(candidates or workers, key=lambda worker: (load[worker], worker))
            load[home] += 1
            self._homes[number], self._n_applied[number] = home, 0
        self._last_check = time.monotonic()

    def _holders(self) -> dict[int, Sequence[str]]:
        """Return the workers that hold the samples of each block."""
        futures = {number: part for number, part in enumerate(self.parts) if hasattr(part, "key")}
        if not futures:
            return {}
        workers_by_key = self._client.who_has(list(futures.values()))
        return {number: workers_by_key.get(part.key, ()) for number, part in futures.items()}


def workers_of(client: Client) -> dict[str, int]:
    """Return the living workers with their threads; RuntimeError if there are none for some time."""
    start = last_reply = time.monotonic()
    patience, limit = _seconds("scheduler-timeout"), _seconds("workers-timeout")
    while True:
        now = time.monotonic()
        with suppress(Exception):
            threads = client.sync(client.scheduler.ncores, callback_timeout=patience)
            last_reply = now
            if threads:
                return {worker: max(int(count), 1) for worker, count in threads.items()}
        if now - last_reply > patience or client.status == "closed":
            raise RuntimeError(
                "Dask's scheduler is lost, and the fit with it; a checkpoint that was written is whole, and "
                "can be resumed"
            )
        if now - start > limit:
            raise RuntimeError(f"Dask has had no worker for {limit:.0f} seconds")
        time.sleep(_seconds("task-poll"))


def _release(client: Client, name: str) -> None:
    """Have the workers release the blocks whose names begin with `name`, and freed memory."""
    with suppress(Exception):  # `run` would wait for a lost scheduler
        workers = client.sync(client.scheduler.ncores, callback_timeout=_seconds("scheduler-timeout"))
        client.run(forget, name, workers=list(workers), on_error="ignore")


# -- samples on workers ------------------------------------------------------------------------------


def client_of(executor: Any) -> Client:
    """Return the client that an argument `executor` names: itself; for "dask" and None the current one."""
    if executor not in (None, "dask"):
        if not hasattr(executor, "submit") or not hasattr(executor, "scheduler"):
            raise ValueError(f"executor must be 'threads', 'dask' or a client of Dask, not {executor!r}")
        return executor
    if find_spec("distributed") is None:
        raise ImportError("executor='dask' needs Dask: pip install 'polyopt[dask]'")
    from distributed import default_client

    return default_client()


def executor_of_collection(
    executor: Any, X: CollectionLike, y: CollectionLike, weights: CollectionLike | None = None
) -> DaskExecutor:
    """Compute the partitions, which stay with the workers; return the executor on them."""
    from dask import delayed

    client, names = client_of(executor), list(getattr(X, "columns", ()))
    columns = [_partitions(X, "X"), _partitions(y, "y")]
    columns += [] if weights is None else [_partitions(weights, "sample_weight")]
    for name, other in zip(("y", "sample_weight"), columns[1:], strict=False):
        if len(other) != len(columns[0]):
            raise ValueError(
                f"{name} has {len(other)} partitions of rows and X has {len(columns[0])}: cut them alike, "
                f"as with {name}.rechunk or repartition"
            )
    arrays = delayed(_partition_arrays, pure=False)
    parts = [
        arrays(names, f"partition {k}", *partition) for k, partition in enumerate(zip(*columns, strict=True))
    ]
    return DaskExecutor(client, list(client.compute(parts)), column_names(heading_of(X)))


def executor_of_source(executor: Any, source: Source) -> DaskExecutor:
    """Return the executor on the workers, which read the source; arrays of this process are sent to them."""
    client = client_of(executor)
    if not isinstance(source, Arrays):
        return DaskExecutor(client, [source] * source.count)
    blocks = (source.read(number) for number in range(source.count))  # the scheduler keeps a copy
    parts = [client.submit(_partition_arrays, (), "", *block, pure=False) for block in blocks]
    return DaskExecutor(client, parts, source.names)


def _partitions(X: Any, name: str) -> list[Any]:
    """Return the partitions of rows, as delayed objects."""
    if not hasattr(X, "to_delayed"):
        raise ValueError(f"{name} must be a Dask array or frame too, not {type(X).__name__}")
    if not hasattr(X, "chunks"):
        return list(X.to_delayed())
    return list((X.rechunk({1: -1}) if X.ndim == 2 else X).to_delayed().ravel())


def _partition_arrays(
    names: Sequence[Any], where: str, X: Any, y: Any, weights: Any = None
) -> tuple[Any, Any, Any]:
    """Return the arrays of a partition on a worker; ValueError for masked entries and dates."""
    for name, values in (("X", X), ("y", y), ("sample_weight", weights)):
        refuse_masked(name, values)
    refuse_dates(X)
    y = np.asarray(_as_array(y))
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    weights = None if weights is None else np.asarray(_as_array(weights)).reshape(len(weights))
    return row_matrix(matrix_of_partition(X, names, where)), y, weights


def _as_array(values: Any) -> Any:
    return values.to_numpy() if hasattr(values, "to_numpy") else values
