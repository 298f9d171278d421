"""Independent blocks of one piece of work, on the cores that the process may use.

The caller cuts the work into blocks of a fixed size; threads take one after another while BLAS keeps to one
thread. The results are thus the same, bit for bit, on one thread and on many. It is for functions that
let go of the interpreter's lock: numpy's products and elementwise functions, and kernels in C. Work that runs
inside another such piece, or beside one, keeps to its own thread.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from threading import Lock, local
from typing import Any, ClassVar, TypeVar

_Block = TypeVar("_Block")
_Result = TypeVar("_Result")

# Multiplications, a few milliseconds, below which starting a thread costs more than it saves.
_MIN_THREAD_WORK = 2e7


def thread_count() -> int:
    """Return how many threads a piece of work may use.

    No more than BLAS may, so that ``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS`` and threadpoolctl's limits
    hold, and no more than the cores this process is bound to.
    """
    return max(1, min([_core_count(), *_counts()]))


def run_blocks(
    function: Callable[[_Block], _Result], blocks: Iterable[_Block], cost: float = float("inf")
) -> list[_Result]:
    """Return the results of a function for every block, in order, on as many threads as there may be.

    The blocks must not depend on the number of threads, and the function may write to its block's part of an
    array. `cost` is roughly the multiplications of all blocks; small work starts no threads. After an
    exception, ``KeyboardInterrupt`` too, no further block begins.
    """
    todo = deque(enumerate(blocks))
    results: list[Any] = [None] * len(todo)

    def work() -> None:
        try:
            while todo:
                try:
                    place, block = todo.popleft()
                except IndexError:  # another thread took the last one
                    return
                results[place] = function(block)
        except BaseException:
            todo.clear()
            raise

    with blas_held() as count:
        helpers = 0 if cost < _MIN_THREAD_WORK else min(count, len(todo)) - 1
        if helpers < 1:
            with _inside():
                work()
            return results
        with ThreadPoolExecutor(helpers, initializer=_limit_own_thread) as pool:
            try:
                # In the caller's context, which numpy's error state is a part of.
                futures = [pool.submit(copy_context().run, work) for _ in range(helpers)]
                with _inside():
                    work()
            except BaseException:
                todo.clear()
                raise
        for future in futures:
            future.result()
    return results


@cache
def _pools() -> list[Any]:
    """Return the thread pools of BLAS, or of OpenMP if threadpoolctl knows none (1 ms, cached).

    Some packages bring a BLAS that was built without threads, whose one thread is no limit to others.
    """
    import scipy.linalg.blas  # noqa: F401  (so that its BLAS is found too, which may be another than numpy's)
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    found = controller.select(user_api="blas").lib_controllers or controller.lib_controllers
    return [pool for pool in found if getattr(pool, "threading_layer", "") != "disabled"]


def _core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Held:
    """The limit of BLAS to one thread: by how many pieces of work at a time, and what it was before."""

    lock = Lock()
    pieces = 0
    before: ClassVar[list[int]] = []


class _Own(local):
    """Threads for this thread's next piece of work while it holds BLAS to one; 0 if it does not."""

    count = 0


_own = _Own()


@contextmanager
def _inside() -> Iterator[None]:
    """Keep blocks within a block to this thread."""
    before, _own.count = _own.count, 1
    try:
        yield
    finally:
        _own.count = before


@contextmanager
def blas_held() -> Iterator[int]:
    """Limit BLAS to one thread, and give the number of threads there may be instead.

    Around many small pieces of work it is taken once for all of them. They use as many threads as without it.
    """
    if _own.count:
        yield _own.count
        return
    with _Held.lock:
        count, own = thread_count(), _counts()
        if _Held.pieces == 0:
            _Held.before = own
        _limit_own_thread()
        _Held.pieces += 1
    _own.count = count
    try:
        yield count
    finally:
        _own.count = 0
        with _Held.lock:
            _Held.pieces -= 1
            now = _Held.before if _Held.pieces == 0 else [1] * len(own)
            counts = zip(_pools(), own, now, strict=True)
            _set_counts([mine if _is_of_thread(p) else all_ for p, mine, all_ in counts])


def _is_of_thread(pool: Any) -> bool:
    """Return True if every thread has a limit of its own, and not the process one for all."""
    return getattr(pool, "threading_layer", "") == "openmp" or pool.user_api == "openmp"


def _limit_own_thread() -> None:
    _set_counts([1] * len(_pools()))


def _counts() -> list[int]:
    return [pool.num_threads for pool in _pools()]


def _set_counts(counts: list[int]) -> None:
    for pool, count in zip(_pools(), counts, strict=True):
        if pool.num_threads == count:
            continue
        # threadpoolctl ignores, in silence, all threads but the one that last set a limit.
        release = getattr(pool, "clear_controlling_thread", lambda force: None)
        release(force=True)
        pool.set_num_threads(count)
        release(force=True)


def _after_fork() -> None:
    """In a child process nothing is held: the threads that held it are not there."""
    _Held.lock = Lock()
    _own.count = 0
    if _Held.pieces:
        _Held.pieces = 0
        _set_counts(_Held.before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
