"""Clusters, samples in blocks, and rivals, for the benchmark ``dask_linear``."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from formulations.families import hinge_families
from polyopt import SVM, datasets
from polyopt.scale import Samples

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

    def read(self, number: int) -> Samples:
        """The block."""
        X, y = (np.load(f"{self._folder}/{name}.npy", mmap_mode="r") for name in "Xy")
        return Samples(X, y)


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
    """Each on one worker, on the rows of one copy but 100,000, in five partitions."""
    import dask.array as da

    order = np.random.default_rng(0).permutation(len(y))
    held, order = order[: min(100_000, len(y) // 5)], order[min(100_000, len(y) // 5) :]
    data = _Rows(X[order], y[order], X[held], y[held])
    X, y = data.X, data.y
    size = -(-len(y) // 5)
    dX, dy = da.from_array(X, chunks=(size, X.shape[1])), da.from_array((y > 0).astype(int), chunks=size)
    found = []
    with cluster(1) as client:
        dX, dy = client.persist([dX, dy])
        client.run(lambda: None)
        ours = SVM(kernel="linear")
        ours.fit(dX[:5000].rechunk((2500, -1)), dy[:5000].rechunk(2500))
        spent = _spent(client, lambda: ours.fit(dX, dy))
        seconds, bound = spent["CPU seconds"], ours.certificate().dual_value
        row = {"what": "at equal time", "rows": len(y)}
        found.append(row | data.scored("polyopt.SVM", ours.coef_[0], bound) | spent)
        for name, rounds in _RIVALS.items():
            try:
                answer, spent = _until(client, rounds(dX, dy, data), seconds)
            except NotImplementedError as error:  # as of xgboost 3.2's linear booster
                found.append({"what": "at equal time", "machine": name, "ended": str(error)})
                continue
            found.append(row | data.scored(name, answer, bound) | spent)
    return found


def _spent(client: Any, work: Callable[[], Any]) -> dict[str, float]:
    begun, clock = used(client), time.perf_counter()
    work()
    return {"CPU seconds": used(client) - begun, "seconds by the clock": time.perf_counter() - clock}


def _until(client: Any, rounds: Iterator[Any], seconds: float) -> tuple[Any, dict[str, float]]:
    """The last of the rounds that begin within so many seconds of the processor."""
    spent = dict.fromkeys(("CPU seconds", "seconds by the clock"), 0.0)
    answer = None
    while spent["CPU seconds"] < seconds:
        found: list[Any] = []
        more = _spent(client, lambda found=found: found.extend(islice(rounds, 1)))
        spent = {name: spent[name] + more[name] for name in spent}
        if not found:
            break
        (answer,) = found
    return answer, spent


class _Rows(NamedTuple):
    """The rows, and those that are held out."""

    X: np.ndarray
    y: np.ndarray
    held_X: np.ndarray
    held_y: np.ndarray

    def scored(self, name: str, answer: Any, bound: float) -> dict[str, Any]:
        """What is said of weights, or of a model that has none."""
        if callable(answer):
            errors = [np.mean((answer(X) > 0.5) != (y > 0)) for X, y in (self[:2], self[2:])]
            return {"machine": name} | _errors(errors)
        rows, g = hinge_families(self.y.astype(float), np.ones(len(self.y))), self.X @ answer
        norm = 0.5 * float(answer @ answer)

        def value(size: float) -> float:
            f = np.exp(size) * g
            return np.exp(2 * size) * norm + rows.cost(f + rows.best_intercept(f))

        size = minimize_scalar(value, bracket=(-0.5, 0.5), tol=1e-4).x if answer.any() else 0.0
        b = rows.best_intercept(np.exp(size) * g) / np.exp(size)
        errors = [np.mean((X @ answer + b > 0) != (y > 0)) for X, y in (self[:2], self[2:])]
        return {
            "machine": name, "excess over the optimum": value(0.0) / bound - 1.0,
            "excess at the best length": value(size) / bound - 1.0,
        } | _errors(errors)  # fmt: skip


def _errors(found: list[Any]) -> dict[str, float]:
    training, held = (100.0 * float(each) for each in found)
    return {"training error, %": training, "error on rows held out, %": held}


def _incremental(dX: Any, dy: Any, data: _Rows) -> Iterator[np.ndarray]:
    from dask_ml.wrappers import Incremental
    from sklearn.linear_model import SGDClassifier

    machine = Incremental(SGDClassifier(loss="hinge", alpha=1.0 / len(data.y), random_state=0))
    while True:
        machine.partial_fit(dX, dy, classes=[0, 1])
        yield machine.estimator_.coef_[0]


def _logistic(dX: Any, dy: Any, data: _Rows) -> Iterator[np.ndarray]:
    from dask_ml.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield LogisticRegression(C=1.0, solver="lbfgs", max_iter=100).fit(dX, dy).coef_.ravel()[: dX.shape[1]]


_LINEAR = {"booster": "gblinear", "objective": "binary:logistic", "nthread": 1}
_TREES = {"objective": "binary:logistic", "nthread": 1}


def _booster(dX: Any, dy: Any, data: _Rows) -> Iterator[np.ndarray]:
    from distributed import default_client
    from xgboost import dask

    dask.train(default_client(), _LINEAR, dask.DaskDMatrix(default_client(), dX, dy), num_boost_round=1)
    raise AssertionError("xgboost has a linear booster on Dask now: have it raced")
    yield np.zeros(0)


def _linear_here(dX: Any, dy: Any, data: _Rows) -> Iterator[np.ndarray]:
    import json

    import xgboost

    matrix, model = xgboost.DMatrix(data.X, (data.y > 0).astype(int)), None
    settings = _LINEAR | {"reg_lambda": 1.0 / len(data.y), "updater": "coord_descent"}
    while True:
        model = xgboost.train(settings, matrix, num_boost_round=5, xgb_model=model)
        yield np.array(json.loads(model.get_dump(dump_format="json")[0])["weight"], dtype=float)


def _trees(dX: Any, dy: Any, data: _Rows) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    from distributed import default_client
    from xgboost import dask

    client, model = default_client(), None
    matrix = dask.DaskDMatrix(client, dX, dy)
    while True:
        model = dask.train(client, _TREES, matrix, num_boost_round=10, xgb_model=model)["booster"]
        yield model.inplace_predict


_RIVALS: dict[str, Callable[[Any, Any, _Rows], Iterator[Any]]] = {
    "dask-ml, Incremental(SGDClassifier)": _incremental,
    "dask-ml, LogisticRegression": _logistic,
    "xgboost.dask, gblinear": _booster,
    "xgboost on one machine, gblinear": _linear_here,
    "xgboost.dask, trees": _trees,
}
