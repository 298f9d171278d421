"""Parallel work on independent blocks: :func:`run_blocks` distributes them over threads.

The caller cuts the work into blocks of a fixed size; each thread takes the next block from a queue, while
BLAS is limited to one thread. The results are thus the same, bit for bit, with one thread and with many.
Threads help if the function releases the interpreter's lock: numpy's products and elementwise functions, and
kernels in C. A call of :func:`run_blocks` within a block starts no threads.
"""

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

# Least number of multiplications for which threads are started; below it, that is a few milliseconds of work,
# starting a thread takes longer than it saves.
_MIN_THREAD_WORK = 2e7


def thread_count() -> int:
    """Return the number of threads that parallel work may use.

    It is at most that of BLAS, so that ``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS`` and threadpoolctl's
    limits apply, and at most the number of cores that this process is bound to.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    core_count = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, min([core_count, *_blas_thread_counts()]))


def run_blocks(
    function: Callable[[_Block], _Result], blocks: Iterable[_Block], cost: float = float("inf")
) -> list[_Result]:
    """Return the results of a function for every block, in order, computed on :func:`thread_count` threads.

    The blocks must not depend on the number of threads. The function may write to its block's part of an
    array. `cost` is roughly the number of multiplications of all blocks; small work starts no threads. After
    an exception, also ``KeyboardInterrupt``, no further block is started.
    """
    queue = deque(enumerate(blocks))
    results: list[Any] = [None] * len(queue)

    def work() -> None:
        try:
            while queue:
                try:
                    index, block = queue.popleft()
                except IndexError:  # another thread took the last block
                    return
                results[index] = function(block)
        except BaseException:
            queue.clear()
            raise

    with single_threaded_blas() as count:
        n_helpers = 0 if cost < _MIN_THREAD_WORK else min(count, len(queue)) - 1
        if n_helpers < 1:
            with _without_threads():
                work()
            return results
        with ThreadPoolExecutor(n_helpers, initializer=_limit_this_thread) as pool:
            try:
                # In the caller's context, which includes numpy's error state.
                futures = [pool.submit(copy_context().run, work) for _ in range(n_helpers)]
                with _without_threads():
                    work()
            except BaseException:
                queue.clear()
                raise
        for future in futures:
            future.result()
    return results


@cache
def _pools() -> list[Any]:
    """Return the thread pools of BLAS, or of OpenMP if threadpoolctl finds no BLAS (1 ms, cached).

    A BLAS that was built without threads, as some packages include, is left out: it implies no limit.
    """
    import scipy.linalg.blas  # noqa: F401  (so that its BLAS is found too, which may be another than numpy's)
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    pools = controller.select(user_api="blas").lib_controllers or controller.lib_controllers
    return [pool for pool in pools if getattr(pool, "threading_layer", "") != "disabled"]


class _BlasLimit:
    """The process-wide limit of BLAS to one thread."""

    lock = Lock()
    holders = 0  # number of uses of `single_threaded_blas` that have begun and not ended, in all threads
    counts_before: ClassVar[list[int]] = []  # number of threads of each pool before the first of these


class _ThreadState(local):
    """State of one Python thread."""

    count = 0  # number of threads that its next parallel work may use; 0 if it does not limit BLAS


_thread_state = _ThreadState()


@contextmanager
def _without_threads() -> Iterator[None]:
    """Run parallel work within, such as a call within a block, in this thread only."""
    count_before, _thread_state.count = _thread_state.count, 1
    try:
        yield
    finally:
        _thread_state.count = count_before


@contextmanager
def single_threaded_blas() -> Iterator[int]:
    """Limit BLAS to one thread, and yield the number of threads that :func:`run_blocks` may use instead.

    Used around many calls of :func:`run_blocks`, it sets the limit once for all of them.
    """
    if _thread_state.count:
        yield _thread_state.count
        return
    with _BlasLimit.lock:
        count, counts_on_entry = thread_count(), _blas_thread_counts()
        if _BlasLimit.holders == 0:
            _BlasLimit.counts_before = counts_on_entry
        _limit_this_thread()
        _BlasLimit.holders += 1
    _thread_state.count = count
    try:
        yield count
    finally:
        _thread_state.count = 0
        with _BlasLimit.lock:
            _BlasLimit.holders -= 1
            # OpenMP's limit per thread is restored now, a limit of the process when no holder is left.
            shared_counts = _BlasLimit.counts_before
            if _BlasLimit.holders > 0:
                shared_counts = [1] * len(counts_on_entry)
            _set_blas_thread_counts(
                [
                    own if "openmp" in (getattr(pool, "threading_layer", ""), pool.user_api) else shared
                    for pool, own, shared in zip(_pools(), counts_on_entry, shared_counts, strict=True)
                ]
            )


def _limit_this_thread() -> None:
    _set_blas_thread_counts([1] * len(_pools()))


def _blas_thread_counts() -> list[int]:
    return [pool.num_threads for pool in _pools()]


def _set_blas_thread_counts(counts: list[int]) -> None:
    for pool, count in zip(_pools(), counts, strict=True):
        if pool.num_threads == count:
            continue
        # threadpoolctl silently ignores every thread but the one that last set a limit.
        release = getattr(pool, "clear_controlling_thread", lambda force: None)
        release(force=True)
        pool.set_num_threads(count)
        release(force=True)


def _after_fork() -> None:
    """Remove the limit in a forked child process, which does not have the threads that set it."""
    _BlasLimit.lock = Lock()
    _thread_state.count = 0
    if _BlasLimit.holders:
        _BlasLimit.holders = 0
        _set_blas_thread_counts(_BlasLimit.counts_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
