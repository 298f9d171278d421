"""Clusters, and samples in blocks, for the benchmark ``dask_linear``."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from polyopt import datasets, large

# A worker that was killed is started anew, which takes a while on a busy machine.
_SETTINGS = {"distributed.worker.daemon": True, "distributed.deploy.lost-worker-timeout": "120s"}


def covtype(limit: int | None = None, or_wdbc: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The rows of covtype, standardised, or wdbc where it is not to be had and may stand in; labels ±1."""
    try:
        data = datasets.load("covtype")
        X, y = data.X, np.where(data.y == 2, 1, -1)
    except datasets.DatasetUnavailable:
        if not or_wdbc:
            raise
        data = datasets.load("wdbc")
        X, y = data.X, np.where(data.y == data.y[0], 1, -1)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    return np.ascontiguousarray(X[:limit], dtype=np.float32), y[:limit].astype(np.int8)


class Repeated:
    """The same block again and again, by way of a file that every process maps into its memory."""

    def __init__(self, X: np.ndarray, y: np.ndarray, count: int):
        self._own = TemporaryDirectory()  # gone with this; workers know its name alone
        self._folder, self.count = self._own.name, count
        np.save(f"{self._folder}/X.npy", X)
        np.save(f"{self._folder}/y.npy", y)

    def __getstate__(self) -> dict[str, Any]:
        return {"_folder": self._folder, "count": self.count}

    def read(self, number: int) -> large.Samples:
        """The block."""
        X, y = (np.load(f"{self._folder}/{name}.npy", mmap_mode="r") for name in "Xy")
        return large.Samples(X, y)


def memory() -> float:
    """GB that this process had at most, where the system tells it."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii", errors="ignore")
    except OSError:
        return float("nan")
    return float(re.search(r"VmHWM:\s*(\d+)", text)[1]) / 2**20


@contextmanager
def cluster(workers: int, threads: int = 1, processes: bool = True) -> Iterator[Any]:
    """A client of a cluster on this machine."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(_SETTINGS),
        LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=processes, dashboard_address=None,
            silence_logs=50,
        ) as made,
        Client(made) as client,
    ):  # fmt: skip
        yield client


def used(client: Any) -> float:
    """CPU seconds of the client and all workers."""
    return time.process_time() + sum(client.run(time.process_time).values())
