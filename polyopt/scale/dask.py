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
from functools import partial
from importlib.util import find_spec
from operator import getitem
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import numpy as np

from formulations.language.arguments import refuse_masked
from polyopt.base.threads import single_threaded_blas
from polyopt.estimators.collections import CollectionLike, heading_of, matrix_of_partition
from polyopt.estimators.frames import column_names, refuse_dates
from polyopt.scale.blocks import Checksum, check_block, row_matrix
from polyopt.scale.crew import Change, Crew, Recipe
from polyopt.scale.executor import Executor, Fold
from polyopt.scale.on_worker import Missing, Part, answers, forget, hold, samples_at
from polyopt.scale.sources import Arrays, Source

if TYPE_CHECKING:
    from distributed import Client, Future

_TASK_POLL_SECONDS = 0.5  # between two checks of the pending tasks
_WORKER_POLL_SECONDS = 2.0  # between two checks of the workers
_MAX_FAILURES = 100  # tasks of a fit or a fold whose worker was lost
_SCHEDULER_SECONDS = 5.0  # without a reply, after which the scheduler is lost
_MAX_SECONDS_WITHOUT_WORKERS = 60.0
_LOSSES = ("KilledWorker", "CommClosedError", "FutureCancelledError", "LostWorkerError")  # names of errors


class _Tasks:
    """Tasks on the workers of a client, which are sent again if their worker is lost.

    parts: for each block its source, or a future of its arrays.
    """

    parts: list[Any]
    _is_grouped: ClassVar[bool] = False  # True if a task has a list of results

    def __init__(self, client: Client, parts: Sequence[Any]):
        self._client, self.parts, self._last_check = client, list(parts), -_WORKER_POLL_SECONDS

    def _run(
        self, keys: Iterable[int], send: Callable[[list[int]], dict[Future, list[int]]],
        is_over: Callable[[], bool] = lambda: False,
    ) -> dict[int, Any] | None:  # fmt: skip
        """Return the results by key; None if time is over.

        send: sends tasks for some keys, and returns the keys of each.
        RuntimeError: no worker or no scheduler for some time.
        """
        left, failures = list(keys), 0
        results: dict[int, Any] = {}
        under_way: dict[Future, list[int]] = {}
        try:
            while left or under_way:
                under_way |= send(left)
                if is_over():
                    return None
                ended = {future: under_way.pop(future) for future in self._ended(under_way)}
                for error in [future.exception() for future in ended if future.status == "error"]:
                    failures += 1
                    self._tolerate(error, failures)
                fetched = self._fetch([future for future in ended if future.status == "finished"], is_over)
                for future, numbers in ended.items():
                    if future.key in fetched:
                        values = fetched[future.key] if self._is_grouped else [fetched[future.key]]
                        pairs = zip(numbers, values, strict=True)
                        results |= {number: each for number, each in pairs if not isinstance(each, Missing)}
                left = [number for numbers in ended.values() for number in numbers if number not in results]
                if left or (under_way and time.monotonic() > self._last_check + _WORKER_POLL_SECONDS):
                    for future in self._lost(under_way, left):
                        left += under_way.pop(future)
        finally:
            self._cancel(list(under_way))
        return results

    def _ended(self, under_way: Iterable[Future]) -> list[Future]:
        """Wait until all tasks have ended, or some time; return the tasks that have ended."""
        from distributed import wait

        with suppress(Exception):  # not all in that time, or some were cancelled
            wait(list(under_way), timeout=_TASK_POLL_SECONDS)
        return [future for future in under_way if future.status != "pending"]

    def _lost(self, under_way: dict[Future, list[int]], missing: list[int]) -> list[Future]:
        """Look at the workers; return the tasks that will not end, as their worker is lost.

        missing: keys whose tasks have ended without a result.
        """
        workers_of(self._client)  # Dask repeats tasks that are of no worker
        self._last_check = time.monotonic()
        return []

    def _is_home_lost(self) -> bool:
        """Return True if results of finished tasks may be on a lost worker that Dask does not replace."""
        workers_of(self._client)
        return False

    def _cancel(self, futures: list[Future]) -> None:
        if futures:
            with suppress(Exception):
                self._client.cancel(futures, force=True)

    def _tolerate(self, error: BaseException, failures: int) -> None:
        """Raise an error, unless it is the loss of a worker and `failures` are not too many.

        Parts that have failed are computed again.
        """
        if type(error).__name__ not in _LOSSES or failures > _MAX_FAILURES:
            raise error
        if failed := [part for part in self.parts if getattr(part, "status", "") == "error"]:
            self._client.retry(failed)

    def _fetch(self, finished: list[Future], is_over: Callable[[], bool]) -> dict[str, Any]:
        """Return the available results of finished tasks by their keys."""
        if not finished:
            return {}
        by_key = {future.key: future for future in finished}
        pending = run_coroutine_threadsafe(
            self._client.gather(by_key, errors="skip", asynchronous=True), self._client.loop.asyncio_loop
        )
        while True:
            try:
                return dict(pending.result(timeout=_TASK_POLL_SECONDS))
            except TimeoutError:
                if self._is_home_lost() or is_over():
                    pending.cancel()
                    return {}
            except (OSError, ValueError, CancelledError):
                return {}


class DaskExecutor(_Tasks, Executor):
    """Executor on the workers of a client."""

    def __init__(self, client: Client, parts: Sequence[Any], names: Sequence[str] | None = None):
        _Tasks.__init__(self, client, parts)
        Executor.__init__(self, parts, names)
        self._has_folded = False
        self._crews: list[DaskBlocks] = []

    def crew(self, recipe: Recipe) -> Crew:
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
        """Run folds as of :meth:`Executor.fold`, each as a chain of tasks."""
        self._has_folded = True
        ends = self._run(
            [number for number, fold in enumerate(folds) if fold.stops],
            lambda numbers: {self._send(step, folds[number]): [number] for number in numbers},
            is_over or (lambda: False),
        )
        if ends is None:
            return None
        empty = [(fold.state, []) if fold.leaves else fold.state for fold in folds]
        return [ends.get(number, end) for number, end in enumerate(empty)]

    def _send(self, step: Callable[..., Any], fold: Fold) -> Future:
        """Send a chain of tasks; return the future of its final state, with its results if it leaves any."""
        submit = partial(self._client.submit, pure=False)
        state, results = fold.state, []
        for position, (number, arguments) in enumerate(fold.stops):
            state = submit(
                _stop, step, state, fold.leaves and position > 0, self.parts[number], self._checksums[number],
                number, arguments, key=_key(),
            )  # fmt: skip
            if fold.leaves:
                results.append(submit(getitem, state, 1, key=_key()))
        return submit(_end, state, results, key=_key()) if fold.leaves else state


def _end(state: Any, results: list[Any]) -> tuple[Any, list[Any]]:
    """Return the final state of a fold, which comes with the last result, and all results."""
    return state[0], results


def _key() -> str:
    return f"polyopt-{uuid4().hex}"


def _stop(
    step: Callable[..., Any], state: Any, leaves: bool, part: Part, checksum: Checksum | None, number: int,
    arguments: tuple[Any, ...],
) -> Any:  # fmt: skip
    """Take a step of a fold on a worker; `leaves`: `state` is a pair of state and result."""
    hold()
    with single_threaded_blas():
        samples = check_block(samples_at(part, number), number, checksum, whole=False)
        return step(state[0] if leaves else state, samples, number, *arguments)


class DaskBlocks(_Tasks, Crew):
    """A solver's blocks of a recipe on workers.

    parts, checksums: source or arrays of each block, as of :class:`DaskExecutor`, and its checksum.
    """

    _is_grouped: ClassVar[bool] = True

    def __init__(
        self, client: Client, parts: Sequence[Any], recipe: Recipe, checksums: Sequence[Checksum | None]
    ):
        _Tasks.__init__(self, client, parts)
        Crew.__init__(self)
        self._recipe, self._fit, self._checksums = recipe, uuid4().hex, checksums
        self._homes: dict[int, str] = {}
        self._threads: dict[str, int] = {}
        self.is_closed = False
        self._numbers = list(range(len(parts)))
        self._n_applied = dict.fromkeys(self._numbers, 0)  # changes of the log that each block has applied
        # A block without a sample of the two classes has the result None, and is left out.
        try:
            results = self._all(Change("facts"))
        except BaseException:
            self.close()
            raise
        self._numbers = [number for number in self._numbers if results[number] is not None]

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
        if time.monotonic() > self._last_check + _WORKER_POLL_SECONDS:
            self._find_homes()

        def send(left: list[int]) -> dict[Future, list[int]]:
            return {self._send(numbers, ask): numbers for numbers in self._group_by_task(left)}

        results = self._run(self._numbers, send)
        assert results is not None
        self._n_applied |= dict.fromkeys(results, len(self.log))
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
            answers, self._fit, numbers, self._recipe, [self.parts[n] for n in numbers],
            [self._checksums[n] for n in numbers], self.log[begins:], begins, ask,
            key=_key(), pure=False, workers=[home], retries=0,
        )  # fmt: skip

    def _lost(self, under_way: dict[Future, list[int]], missing: list[int]) -> list[Future]:
        """Find new homes; cancel and return the tasks whose blocks have got one."""
        before = dict(self._homes)
        self._find_homes(rebalance=False)
        self._n_applied |= dict.fromkeys(missing, 0)
        lost = [
            future
            for future, numbers in under_way.items()
            if any(self._homes[number] != before[number] for number in numbers)
        ]
        self._cancel(lost)
        return lost

    def _is_home_lost(self) -> bool:
        return bool(set(self._homes.values()) - set(workers_of(self._client)))

    def _find_homes(self, *, rebalance: bool = True) -> None:
        """Give every block a living home: its old one, a worker with its samples, or one with few blocks.

        rebalance: True to move blocks from workers with more than their equal number to others.
        """
        self._threads = workers_of(self._client)
        workers = sorted(self._threads)
        max_blocks = -(-len(self.parts) // len(workers))
        homes: dict[int, str] = {}
        load = Counter(dict.fromkeys(workers, 0))
        for number, home in self._homes.items():
            if home in self._threads and not (rebalance and load[home] >= max_blocks):
                homes[number] = home
                load[home] += 1
        holders = self._holders() if not self._homes else {}
        for number in range(len(self.parts)):
            if number not in homes:
                candidates = [
                    worker for worker in holders.get(number, ()) if load.get(worker, max_blocks) < max_blocks
                ]
                homes[number] = min(candidates or workers, key=lambda worker: (load[worker], worker))
                load[homes[number]] += 1
        for number in range(len(self.parts)):
            if homes[number] != self._homes.get(number):
                self._homes[number], self._n_applied[number] = homes[number], 0
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
