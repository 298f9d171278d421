"""What the scheduler knows: the workers that are there, and what an error says of those that are not."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["LOOK", "is_loss", "retry", "workers_of"]

LOOK = 0.5
"""Seconds between two looks at the workers while nothing comes."""

_ALONE = 60.0  # seconds without any worker after which a fit fails
_SILENT = 5.0  # seconds without a scheduler after which it does


def workers_of(client: Client) -> dict[str, int]:
    """The workers that are there, with their threads.

    client: the client.
    RuntimeError: no worker, or no scheduler, for some time.
    """
    begun = heard = time.monotonic()
    while True:
        now = time.monotonic()
        with suppress(Exception):
            there = client.sync(client.scheduler.ncores, callback_timeout=_SILENT)
            heard = now
            if there:
                return {worker: max(int(threads), 1) for worker, threads in there.items()}
        if now - heard > _SILENT or client.status == "closed":
            raise RuntimeError(
                "Dask's scheduler is lost, and the fit with it; a checkpoint that was written is whole, and "
                "can be resumed"
            )
        if now - begun > _ALONE:
            raise RuntimeError(f"Dask has had no worker for {_ALONE:.0f} seconds")
        time.sleep(LOOK)


def is_loss(error: BaseException) -> bool:
    """Whether an error says no more than that a worker was lost."""
    return type(error).__name__ in (
        "KilledWorker",
        "CommClosedError",
        "FutureCancelledError",
        "LostWorkerError",
    )


def retry(client: Client, parts: Iterable[Any]) -> None:
    """Have those parts computed again that Dask has given up, as their worker was lost some times.

    client: the client.
    parts: what blocks are read from: futures or other things.
    """
    again = [part for part in parts if getattr(part, "status", "") == "error"]
    if again:
        client.retry(again)
