"""The fits of kernel_portfolio, in a process of its own: its number of threads is set before numpy is there.

A fit that does not end is ended with its process, and the next one gets a new process.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.helpers.portfolio_data import samples
from formulations.families import hinge_families
from polyopt import SVM, Kernel, RelativeMarginMachine
from polyopt.linalg.kernels import SampleGram, gram_matvec
from polyopt.margin.decomposition.state import Dual

__all__ = ["LIBSVM", "OURS", "OVER", "PEER", "TIGHT", "Cell", "Worker", "processors", "threads_set"]

OURS, TIGHT, PEER, LIBSVM = "polyopt", "polyopt to 1e-8", "intelex", "LIBSVM"
OVER = "limit"  # the status of a fit that took longer than the limit
_CACHE = 2000.0  # megabytes
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_MAX_PREDICTIONS = 10_000  # rows
_PATIENCE = 600.0  # seconds by the clock for what is not timed
_STRETCH = 3.0


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads_set(count: int) -> Iterator[None]:
    """Within this block, a new process gets `count` threads."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


class Cell(NamedTuple):
    """A problem: gamma in units of 1/(m var X); the share of the RMM's bound, 0 for the SVM."""

    data: str
    degree: int  # of the polynomial kernel; 0 for the RBF kernel
    C: float
    gamma: float
    share: float


class Worker:
    """A process that fits, and is replaced when a fit takes too long.

    `limit` is of the processor's seconds on one thread, of the clock's on several; `limit_rows` cuts each
    data set, for a smoke run.
    """

    def __init__(self, threads: int, limit: float, limit_rows: int | None = None):
        self.threads, self.limit, self.limit_rows = threads, limit, limit_rows
        # Other work on the machine stretches the clock, by which our own time limit goes.
        self.clock_limit = _STRETCH * limit if threads == 1 else limit
        self._process: Any = None

    def fit(self, who: str, cell: Cell, B: float = np.inf) -> dict[str, Any]:
        """One fit: CPU and clock seconds, status, violation, and seconds of predictions."""
        if self._process is None:
            self._start()
        stops_itself = who in (OURS, TIGHT)
        by_clock = 4.0 * self.clock_limit + 20.0 if stops_itself else self.clock_limit
        try:
            self._pipe.send((who, cell, B))
            self._heard(_PATIENCE)
            clock, processor = time.perf_counter(), self._processor_seconds()
            found = self._heard(by_clock, np.inf if stops_itself or self.threads > 1 else self.limit)
            if found is None:
                taken = {"CPU": self._processor_seconds() - processor, "clock": time.perf_counter() - clock}
                self.close()
                return taken | {"status": OVER}
            found |= self._heard(_PATIENCE) or {}
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.close()
            return {"CPU": np.nan, "clock": np.nan, "status": "its process died"}
        late = found["CPU" if self.threads == 1 else "clock"] > self.limit
        if late or found["status"] == "TIME_LIMIT":
            found["status"] = OVER
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        given = (theirs, self.threads, self.clock_limit, self.limit_rows)
        self._process = context.Process(target=_serve, args=given, daemon=True)
        with threads_set(self.threads):
            self._process.start()
        theirs.close()

    def _heard(self, by_clock: float, of_processor: float = np.inf) -> dict[str, Any] | None:
        """What the process answers within these seconds, or None."""
        clock, processor = time.perf_counter(), self._processor_seconds()
        while not self._pipe.poll(0.1):
            if time.perf_counter() - clock > by_clock or self._processor_seconds() - processor > of_processor:
                return None
        return self._pipe.recv()

    def _processor_seconds(self) -> float:
        """Seconds of the processor that the process has taken; 0 where the system does not say."""
        try:
            facts = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


def _serve(pipe: Any, threads: int, limit: float, limit_rows: int | None) -> None:
    """Fit what is asked for: told when it begins, when it ends, and what is found of it."""
    warnings.simplefilter("ignore")
    warm: set[Any] = set()
    while True:
        try:
            who, cell, B = pipe.recv()
        except EOFError:
            return
        X, y, var = _data(cell.data, limit_rows)
        kernel = _kernel(cell, X.shape[1], var)
        machine = _machine(who, kernel, cell.C, B, limit, threads)
        kind = (who, kernel.name, sp.issparse(X), np.isfinite(B))
        if kind not in warm:  # libraries are loaded
            some = np.random.default_rng(0).permutation(len(y))[:2500]  # in single precision, too
            some = np.union1d(some, [np.argmax(y), np.argmin(y)])
            for each in (who, TIGHT) if who == OURS else (who,):
                first = _machine(each, kernel, cell.C, B, 5.0, threads).fit(X[some], y[some])
                first.predict(X[some])
            warm.add(kind)
        pipe.send({})
        clock, processor, system = time.perf_counter(), time.process_time(), os.times().system
        status = "ended"
        try:
            machine.fit(X, y)
        except Exception as error:  # whatever it is, the cell says so
            status = f"{type(error).__name__}: {error}"[:80]
        seconds = {"CPU": time.process_time() - processor, "clock": time.perf_counter() - clock}
        seconds["system"] = os.times().system - system  # the part of it that the system took
        if status == "ended" and who in (OURS, TIGHT):
            status = machine.solution_.status.name
        pipe.send(seconds | {"status": status})
        pipe.send({} if ":" in status else _looked_at(machine, X, y, kernel, cell.C, B))


def _looked_at(machine: Any, X: Any, y: Any, kernel: Kernel, C: float, B: float) -> dict[str, float]:
    clock, processor = time.perf_counter(), time.process_time()
    machine.predict(X[:_MAX_PREDICTIONS])
    found = {"predict CPU": time.process_time() - processor, "predict clock": time.perf_counter() - clock}
    if isinstance(machine, SVM | RelativeMarginMachine):
        duals = machine.solution_.duals
        coef = y * duals["margin"]
        if "bound_above" in duals:
            coef = coef - duals["bound_above"] + duals["bound_below"]
        found["largest output"] = float(np.abs(machine.solution_["f"]).max())
    else:
        coef, held = np.zeros(len(y)), machine.dual_coef_
        coef[machine.support_] = (held.toarray() if sp.issparse(held) else held)[0]
    return found | {"violation": _violation(X, y, kernel, C, coef, B)}


def _violation(X: Any, y: Any, kernel: Kernel, C: float, coef: Any, B: float) -> float:
    """Largest violation m - M of the optimality conditions, from the coefficients in double precision.

    A coefficient that single precision left a hair from its cap counts as at it.
    """
    cap = np.abs(coef) > C * (1.0 - 1e-6)
    coef = np.where(cap & np.isinf(B), np.sign(coef) * C, coef)
    G = gram_matvec(SampleGram(X, kernel), coef)
    m, M = Dual(hinge_families(y, np.full(len(y), C), B)).extremes(coef, G)
    return m - M


@lru_cache(maxsize=1)
def _data(name: str, limit_rows: int | None) -> tuple[Any, Any, float]:
    X, y = samples(name)
    X, y = X[:limit_rows], y[:limit_rows]
    if sp.issparse(X):
        size = X.shape[0] * X.shape[1]
        mean = float(X.sum(dtype=float)) / size
        return X, y, float((X.data.astype(float) ** 2).sum()) / size - mean**2
    return X, y, float(X.astype(float).var())


def _kernel(cell: Cell, m: int, var: float) -> Kernel:
    gamma = cell.gamma / (m * var)
    return Kernel("poly", gamma, cell.degree, 1.0) if cell.degree else Kernel("rbf", gamma)


def _machine(who: str, kernel: Kernel, C: float, B: float, limit: float, threads: int) -> Any:
    shared = {
        "C": C, "kernel": kernel.name, "gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0,
        "tol": 1e-8 if who == TIGHT else 1e-3, "cache_size": _CACHE,
    }  # fmt: skip
    if who in (OURS, TIGHT):
        shared |= {"solver": "decomposition", "time_limit": limit}
        return RelativeMarginMachine(B=B, **shared) if np.isfinite(B) else SVM(**shared)
    if who == PEER:
        import daal4py
        from sklearnex.svm import SVC

        daal4py.daalinit(threads)
        return SVC(**shared)
    from sklearn.svm import SVC

    return SVC(**shared)
