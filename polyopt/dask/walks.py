"""Walks through blocks on Dask's workers: chains of tasks, each of which goes to its block's samples.

A task is a function of what is carried and of a block, and changes nothing. So Dask may do it again where a
worker was lost, and a chain may be sent again as a whole: what comes is the same.
"""

from __future__ import annotations

import time
from asyncio import run_coroutine_threadsafe
from concurrent.futures import CancelledError
from contextlib import suppress
from operator import getitem
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from polyopt.dask.allocation import hold
from polyopt.dask.on_worker import Part, samples_at
from polyopt.dask.scheduler import LOOK, is_loss, retry, workers_of
from polyopt.large.marks import check_mark
from polyopt.threads import blas_held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distributed import Client, Future

    from polyopt.large.held import Walk
    from polyopt.large.marks import Mark

__all__ = ["walked"]

_FAILURES = 100  # of tasks, by workers that were lost, that a walk bears
_NEWS = 2.0  # seconds between two looks at the workers


def walked(
    client: Client, parts: Sequence[Any], step: Callable[..., Any], walks: Sequence[Walk],
    is_over: Callable[[], bool] | None = None, marks: Sequence[Mark | None] | None = None,
) -> list[Any] | None:  # fmt: skip
    """What each walk has carried to its end, in their order; None where it was over before.

    client: the client.
    parts: what each block is read from.
    marks: what each block is known by.
    RuntimeError: no worker, or no scheduler, for some time.
    """
    found = {
        number: (walk.carried, []) if walk.leaves else walk.carried
        for number, walk in enumerate(walks)
        if not walk.stops
    }
    under_way: dict[int, list[Future]] = {}
    failures, looked = 0, time.monotonic()
    try:
        while len(found) < len(walks):
            for number, walk in enumerate(walks):
                if number not in found and number not in under_way:
                    under_way[number] = _send(client, parts, step, walk, marks)
            if is_over is not None and is_over():
                return None
            ended = _ended(under_way)
            for number, futures in ended.items():
                error = next((each.exception() for each in futures if each.status == "error"), None)
                if error is not None:
                    failures += 1
                    _bear(client, error, [parts[k] for k, _ in walks[number].stops], failures)
            found |= _gathered(client, ended, is_over)
            for number in ended:  # what has not come is sent again
                del under_way[number]
            if not ended and time.monotonic() > looked + _NEWS:
                workers_of(client)
                looked = time.monotonic()
    finally:
        if under_way:
            with suppress(Exception):
                client.cancel([each for futures in under_way.values() for each in futures], force=True)
    return [found[number] for number in range(len(walks))]


def _send(
    client: Client, parts: Sequence[Any], step: Callable[..., Any], walk: Walk,
    marks: Sequence[Mark | None] | None,
) -> list[Future]:  # fmt: skip
    """The last of a chain of tasks, and what each has left."""
    carried, left = walk.carried, []
    for place, (number, arguments) in enumerate(walk.stops):
        mark = None if marks is None else marks[number]
        carried = client.submit(
            _stop, step, carried, walk.leaves and place > 0, parts[number], mark, number, arguments,
            key=f"polyopt-{uuid4().hex}", pure=False,
        )  # fmt: skip
        if walk.leaves:
            left.append(client.submit(getitem, carried, 1, key=f"polyopt-{uuid4().hex}", pure=False))
    if walk.leaves:
        carried = client.submit(getitem, carried, 0, key=f"polyopt-{uuid4().hex}", pure=False)
    return [carried, *left]


def _stop(
    step: Callable[..., Any], carried: Any, leaves: bool, part: Part, mark: Mark | None, number: int,
    arguments: tuple[Any, ...],
) -> Any:  # fmt: skip
    """On a worker: one step of a walk; where the one before has left something, that is no concern of it."""
    hold()
    with blas_held():
        samples = check_mark(samples_at(part, number), number, mark, whole=False)
        return step(carried[0] if leaves else carried, samples, number, *arguments)


def _ended(under_way: dict[int, list[Future]]) -> dict[int, list[Future]]:
    """Those that have ended, after one has or some time has passed."""
    from distributed import wait

    with suppress(Exception):  # none in that time, or some were cancelled
        wait([futures[0] for futures in under_way.values()], timeout=LOOK, return_when="FIRST_COMPLETED")
    return {number: futures for number, futures in under_way.items() if futures[0].status != "pending"}


def _bear(client: Client, error: BaseException, parts: list[Any], failures: int) -> None:
    """Go on after an error that says that workers were lost; raise any other, and one too many."""
    if not is_loss(error) or failures > _FAILURES:
        raise error
    retry(client, parts)


def _gathered(
    client: Client, ended: dict[int, list[Future]], is_over: Callable[[], bool] | None
) -> dict[int, Any]:
    """What has come of those that are finished."""
    by_key = {
        f"{number} {place}": future
        for number, futures in ended.items()
        if futures[0].status == "finished"
        for place, future in enumerate(futures)
    }
    if not by_key:
        if any(futures[0].status in ("cancelled", "lost") for futures in ended.values()):
            workers_of(client)
        return {}
    coming = run_coroutine_threadsafe(
        client.gather(by_key, errors="skip", asynchronous=True), client.loop.asyncio_loop
    )
    while True:
        try:
            come = coming.result(timeout=LOOK)
        except TimeoutError:  # Dask has it done again where a worker was lost with it
            workers_of(client)
            if is_over is not None and is_over():
                coming.cancel()
                return {}
        except (OSError, ValueError, CancelledError):
            return {}
        else:
            return _put_together(come, ended)


def _put_together(come: dict[str, Any], ended: dict[int, list[Future]]) -> dict[int, Any]:
    """For each walk that has come whole what it carried, with what it left where it left anything."""
    found = {}
    for number, futures in ended.items():
        keys = [f"{number} {place}" for place in range(len(futures))]
        if all(key in come for key in keys):
            carried, *left = (come[key] for key in keys)
            found[number] = (carried, left) if left else carried
    return found
