"""Linear machines of more rows than fit into memory, on one machine and on Dask's workers; kills; and rivals.

covtype, standardised, as float32, its 581,012 rows a block, repeated; C is one over the number of copies,
so that the optimum is that of one copy. "one process" is ``polyopt.large`` on one thread; "Dask" is
``polyopt.dask`` on processes of one thread each. CPU seconds are those of all processes, per iteration,
which other work on the machine hardly disturbs; memory is the largest of one process. "in memory" is the
solver of ``polyopt.SVM`` on the same rows. The kills: workers killed at random moments, in fits of eight
blocks of 20,000 rows, until there were fifty; the answer is compared with that of one process bit by bit,
and the seconds are those of the slowest fit. The rivals have the seconds by the clock that our fit took,
and what they need to finish a round that they had begun; the excess is that of the SVM's objective at their
weights, with the best intercept, over our certified optimum.
"""

from __future__ import annotations

import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from formulations.families import hinge_families
from polyopt import datasets, large
from polyopt.solvers.interior_point import solve_interior_point

COPIES = (1, 5, 52)
# A worker that was killed is started anew, which takes a while on a busy machine.
_SETTINGS = {"distributed.worker.daemon": True, "distributed.deploy.lost-worker-timeout": "120s"}


def run(smoke: bool = False, quick: bool = False) -> pd.DataFrame:
    """A row for each fit; `quick`: one copy, five kills, no rivals. Without Dask, one process only."""
    X, y = _covtype(2000 if smoke else None)
    rows = _one_process(X, y, (1, 2) if smoke else COPIES[:1] if quick else COPIES)
    try:
        import distributed  # noqa: F401
    except ImportError:
        return pd.DataFrame(rows)
    rows += _on_dask(X, y, (1,) if smoke else (1, 2), 2 if smoke or quick else 5)
    rows.append(_kills(X, y, 1 if smoke else 5 if quick else 50))
    if not (smoke or quick):
        rows += _rivals(X, y)
    return pd.DataFrame(rows)


def _covtype(limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    try:
        data = datasets.load("covtype")
        X, y = data.X, np.where(data.y == 2, 1, -1)
    except datasets.DatasetUnavailable:
        data = datasets.load("wdbc")
        X, y = data.X, np.where(data.y == data.y[0], 1, -1)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    return np.ascontiguousarray(X[:limit], dtype=np.float32), y[:limit].astype(np.int8)


class Repeated:
    """The same block again and again, without a copy of it."""

    def __init__(self, X: np.ndarray, y: np.ndarray, count: int):
        self._X, self._y, self.count = X, y, count

    def read(self, number: int) -> large.Samples:
        """The block."""
        return large.Samples(self._X, self._y)


def _machines(module: Any, copies: int) -> dict[str, Any]:
    return {
        "SVM": module.SVM(C=1.0 / copies),
        "RMM, B = 2": module.RelativeMarginMachine(C=1.0 / copies, B=2.0),
    }


def _row(what: str, machine: str, rows: int, model: Any, cpu: float, clock: float) -> dict[str, Any]:
    solution, proof = model.solutions_[0], model.certificate()
    return {
        "what": what, "machine": machine, "rows": rows, "iterations": solution.iterations,
        "CPU seconds an iteration": cpu / solution.iterations, "seconds by the clock": clock,
        "certified gap": proof.relative_gap, "ended": proof.claim.name.lower(),
    }  # fmt: skip


def _memory() -> float:
    """GB that this process had at most, where the system tells it."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii", errors="ignore")
    except OSError:
        return float("nan")
    return float(re.search(r"VmHWM:\s*(\d+)", text)[1]) / 2**20


def _one_process(X: np.ndarray, y: np.ndarray, copies: tuple[int, ...]) -> list[dict[str, Any]]:
    found = []
    for count in copies:
        for name, machine in _machines(large, count).items():
            clone(machine).fit(Repeated(X[:500], y[:500], 2))  # everything is compiled
            cpu, clock = time.process_time(), time.perf_counter()
            machine.fit(Repeated(X, y, count))
            spent = time.process_time() - cpu, time.perf_counter() - clock
            found.append(
                _row("one process", name, count * len(y), machine, *spent) | {"GB a process": _memory()}
            )
    cpu, clock = time.process_time(), time.perf_counter()
    signs = y.astype(float)
    whole = solve_interior_point(X, hinge_families(signs, np.ones(len(y))))
    found.append({
        "what": "in memory", "machine": "SVM", "rows": len(y), "iterations": whole.iterations,
        "CPU seconds an iteration": (time.process_time() - cpu) / whole.iterations,
        "seconds by the clock": time.perf_counter() - clock,
    })  # fmt: skip
    return found


@contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(_SETTINGS),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _used(client: Any) -> float:
    """CPU seconds of the client and all workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


def _on_dask(X: np.ndarray, y: np.ndarray, workers: tuple[int, ...], copies: int) -> list[dict[str, Any]]:
    import polyopt.dask

    found = []
    for count in workers:
        with _cluster(count) as client:
            source = _Shared(X, y, copies)
            for name, machine in _machines(polyopt.dask, copies).items():
                clone(machine).fit(_Shared(X[:500], y[:500], 2 * count))  # everything is loaded
                cpu, clock = _used(client), time.perf_counter()
                machine.fit(source)
                spent = _used(client) - cpu, time.perf_counter() - clock
                what = f"Dask, workers: {count}"
                memory = max(client.run(_memory).values())
                found.append(_row(what, name, copies * len(y), machine, *spent) | {"GB a process": memory})
    return found


class _Shared(Repeated):
    """The same, by way of a file that every worker maps into its memory."""

    def __init__(self, X: np.ndarray, y: np.ndarray, count: int):
        from tempfile import mkdtemp

        self._folder, self.count = mkdtemp(), count
        np.save(f"{self._folder}/X.npy", X)
        np.save(f"{self._folder}/y.npy", y)

    def read(self, number: int) -> large.Samples:
        """The block."""
        X, y = (np.load(f"{self._folder}/{name}.npy", mmap_mode="r") for name in "Xy")
        return large.Samples(X, y)


def _kills(X: np.ndarray, y: np.ndarray, wanted: int) -> dict[str, Any]:
    import polyopt.dask

    order = np.random.default_rng(0).permutation(len(y))[:160_000]
    source = large.Arrays(X[order], y[order], rows=-(-len(order) // 8))
    bits = large.SVM().fit(source).coef_.tobytes()
    rng, killed, fits, same, slowest = np.random.default_rng(0), 0, 0, 0, 0.0
    with _cluster(3) as client:
        while killed < wanted:
            ends = Event()

            def kill(ends: Event = ends) -> None:
                nonlocal killed
                while not ends.wait(rng.uniform(0.5, 6.0)) and killed < wanted:
                    pids = list(client.run(os.getpid, on_error="ignore").values())
                    if len(pids) > 1:  # else the others are being started anew
                        os.kill(pids[rng.integers(len(pids))], signal.SIGKILL)
                        killed += 1

            killer, begun = Thread(target=kill), time.perf_counter()
            killer.start()
            machine = polyopt.dask.SVM()
            machine.client = client
            machine.fit(source)
            ends.set()
            killer.join()
            slowest, fits = max(slowest, time.perf_counter() - begun), fits + 1
            same += machine.coef_.tobytes() == bits
    return {
        "what": f"{killed} kills in {fits} fits: the same bits in {same}", "machine": "SVM",
        "rows": len(order), "seconds by the clock": slowest,
    }  # fmt: skip


def _rivals(X: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    """Each on one worker, on the rows of one copy in five partitions."""
    import dask.array as da

    import polyopt.dask

    size = -(-len(y) // 5)
    dX, dy = da.from_array(X, chunks=(size, X.shape[1])), da.from_array((y > 0).astype(int), chunks=size)
    found = []
    with _cluster(1) as client:
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
            for w in rounds(dX, dy, len(y)):  # noqa: B007
                if time.perf_counter() - begun > seconds:
                    break
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
        "training error": float(np.mean((f > 0) != (y > 0))),
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
    import xgboost

    client = __import__("distributed").default_client()
    data, model = xgboost.dask.DaskDMatrix(client, dX, dy), None
    settings = {"booster": "gblinear", "objective": "binary:logistic", "reg_lambda": 1.0 / n, "nthread": 1}
    while True:
        model = xgboost.dask.train(client, settings, data, num_boost_round=20, xgb_model=model)["booster"]
        dump = model.get_dump(dump_format="json")[0]
        yield np.array(__import__("json").loads(dump)["weight"], dtype=float)


_RIVALS: dict[str, Callable[[Any, Any, int], Iterator[np.ndarray]]] = {
    "dask-ml, Incremental(SGDClassifier)": _incremental,
    "dask-ml, LogisticRegression": _logistic,
    "xgboost.dask, gblinear": _booster,
}
