"""Clusters, samples in blocks, and rivals, for the benchmark ``dask_linear``."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from formulations.families import hinge_families
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


def rivals(X: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    """Each on one worker, on the rows of one copy in five partitions."""
    import dask.array as da

    import polyopt.dask

    size = -(-len(y) // 5)
    dX, dy = da.from_array(X, chunks=(size, X.shape[1])), da.from_array((y > 0).astype(int), chunks=size)
    found = []
    with cluster(1) as client:
        dX, dy = client.persist([dX, dy])
        client.run(lambda: None)
        ours = polyopt.dask.SVM()
        ours.fit(dX[:5000].rechunk((2500, -1)), dy[:5000].rechunk(2500))
        begun = time.perf_counter()
        ours.fit(dX, dy)
        seconds, bound = time.perf_counter() - begun, ours.certificate().dual_value
        found.append(_scored("polyopt.dask.SVM", ours.coef_[0], X, y, bound, seconds))
        for name, rounds in _RIVALS.items():
            begun, w = time.perf_counter(), np.zeros(X.shape[1])
            try:
                for w in rounds(dX, dy, len(y)):  # noqa: B007
                    if time.perf_counter() - begun > seconds:
                        break
            except NotImplementedError as error:  # as of xgboost 3.2's linear booster
                found.append({"what": "at equal time", "machine": name, "ended": str(error)})
                continue
            found.append(_scored(name, w, X, y, bound, time.perf_counter() - begun))
    return found


def _scored(
    name: str, w: np.ndarray, X: np.ndarray, y: np.ndarray, bound: float, seconds: float
) -> dict[str, Any]:
    rows, g = hinge_families(y.astype(float), np.ones(len(y))), X @ w
    f = g + rows.best_intercept(g)
    return {
        "what": "at equal time", "machine": name, "rows": len(y), "seconds by the clock": seconds,
        "excess over the optimum": (0.5 * w @ w + rows.cost(f)) / bound - 1.0,
        "training error, %": 100.0 * float(np.mean((f > 0) != (y > 0))),
    }  # fmt: skip


def _incremental(dX: Any, dy: Any, n: int) -> Iterator[np.ndarray]:
    from dask_ml.wrappers import Incremental
    from sklearn.linear_model import SGDClassifier

    machine = Incremental(SGDClassifier(loss="hinge", alpha=1.0 / n, random_state=0))
    while True:
        machine.partial_fit(dX, dy, classes=[0, 1])
        yield machine.estimator_.coef_[0]


def _logistic(dX: Any, dy: Any, n: int) -> Iterator[np.ndarray]:
    from dask_ml.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield LogisticRegression(C=1.0, solver="lbfgs", max_iter=100).fit(dX, dy).coef_.ravel()[: dX.shape[1]]


def _booster(dX: Any, dy: Any, n: int) -> Iterator[np.ndarray]:
    import json

    from distributed import default_client
    from xgboost import dask

    client = default_client()
    data, model = dask.DaskDMatrix(client, dX, dy), None
    settings = {"booster": "gblinear", "objective": "binary:logistic", "reg_lambda": 1.0 / n, "nthread": 1}
    while True:
        model = dask.train(client, settings, data, num_boost_round=20, xgb_model=model)["booster"]
        yield np.array(json.loads(model.get_dump(dump_format="json")[0])["weight"], dtype=float)


_RIVALS: dict[str, Callable[[Any, Any, int], Iterator[np.ndarray]]] = {
    "dask-ml, Incremental(SGDClassifier)": _incremental,
    "dask-ml, LogisticRegression": _logistic,
    "xgboost.dask, gblinear": _booster,
}
