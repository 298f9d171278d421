"""Linear machines of more rows than fit into memory, on one machine and on Dask's workers; kills; rivals.

covtype, standardised, as float32, its 581,012 rows a block, repeated; C is one over the number of copies, so
that the optimum is that of one copy. "one process" is one thread; "Dask" is processes of one thread each.
CPU seconds are those of all processes, scheduler and all, for an iteration, with the certificate's share in
them; other work on the machine disturbs them less than the clock. Memory is the largest of one process. "in
memory" is the solver of ``polyopt.SVM`` on the same rows. The overhead: eight iterations on two blocks of a
million rows by either, twice in turn, the least of each. The bits: eight blocks of 20,000 rows. The kills:
workers killed at random moments in such fits, ten in a row of the table; the answer is compared with that of
one process bit by bit, and the seconds are those of the slowest fit.

The rivals: 100,000 rows are held out, and each rival has the CPU seconds that our fit took; a round begun
within them is finished. The excess is that of the SVM's objective at the rival's weights, and at the best
multiple of these weights with the best intercept, over our certified optimum: some rivals minimise other
losses. xgboost has no linear booster on Dask and runs its own on one machine; its trees, which have no
weights, have little more than half of our error. These rows are of one run on another machine than the
rest, a busy Intel Xeon.

Each part is kept in results/dask_linear.csv as it ends, and not run again; all that is kept is of covtype.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from benchmarks.helpers.dask_parts import Repeated, cluster, covtype, memory, rivals, used
from formulations.families import hinge_families
from polyopt import SVM, RelativeMarginMachine
from polyopt.base.files import write_text
from polyopt.margin.interior_point import solve_interior_point
from polyopt.scale import Arrays

KEPT = Path(__file__).parent / "results" / "dask_linear.csv"
_SVM, _RMM = "SVM", "RMM, B = 2"
Rows = list[dict[str, Any]]


def run(smoke: bool = False, kept: bool = False) -> pd.DataFrame:
    """The table; without Dask, what one process does of it."""
    if smoke:
        X, y = covtype(2000, or_wdbc=True)
        return pd.DataFrame([row for _, part in _few(X, y) for row in part()])
    rows = pd.read_csv(KEPT).to_dict("records") if KEPT.is_file() else []
    if not kept:
        X, y = covtype()
        for name, part in _parts(X, y):
            if not any(row["part"] == name for row in rows):
                rows += [{"part": name} | row for row in part()]
                write_text(KEPT, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g"))
    order = {name: place for place, (name, _) in enumerate(_parts(np.zeros((1, 1)), np.ones(1)))}
    rows.sort(key=lambda row: order[row["part"]])
    return pd.DataFrame(rows).drop(columns="part", errors="ignore")


def _few(X: np.ndarray, y: np.ndarray) -> list[tuple[str, Callable[[], Rows]]]:
    parts = [("", partial(_one_process, X, y, 1, machine)) for machine in (_SVM, _RMM)]
    try:
        import distributed  # noqa: F401
    except ImportError:
        return parts
    return [*parts, ("", partial(_on_dask, X, y, 1, 2, _SVM)), ("", partial(_kills, X, y, 1, 0))]


def _parts(X: np.ndarray, y: np.ndarray) -> Iterable[tuple[str, Callable[[], Rows]]]:
    yield "in memory", partial(_in_memory, X, y)
    for copies in (1, 5):
        for machine in (_SVM, _RMM):
            yield f"plain {copies} {machine}", partial(_one_process, X, y, copies, machine)
    for workers, copies in ((1, 5), (2, 5), (8, 5), (8, 52)):
        for machine in (_SVM, _RMM):
            yield f"dask {workers} {copies} {machine}", partial(_on_dask, X, y, workers, copies, machine)
    for machine in (_SVM, _RMM):
        yield f"overhead {machine}", partial(_overhead, X, y, machine)
    for kind in ((1, 1, True), (2, 1, True), (4, 1, True), (8, 1, True), (2, 2, True), (1, 4, False)):
        yield f"bits {kind}", partial(_bits, X, y, *kind)
    for number in range(5):
        yield f"kills {number}", partial(_kills, X, y, 10, number)
    yield "rivals", partial(rivals, X, y)


def _machine(name: str, copies: int) -> Any:
    if name == _SVM:
        return SVM(C=1.0 / copies, kernel="linear")
    return RelativeMarginMachine(C=1.0 / copies, kernel="linear", B=2.0)


def _row(what: str, machine: str, rows: int, model: Any, cpu: float, clock: float) -> dict[str, Any]:
    solution, proof = model.solution_, model.certificate()
    return {
        "what": what, "machine": machine, "rows": rows, "iterations": solution.iterations,
        "CPU seconds an iteration": cpu / solution.iterations, "seconds by the clock": clock,
        "certified gap": proof.relative_gap, "ended": proof.claim.name.lower(),
    }  # fmt: skip


def _timed(model: Any, source: Any, cpu: Callable[[], float], executor: Any) -> tuple[float, float]:
    begun, clock = cpu(), time.perf_counter()
    model.fit(source, executor=executor)
    return cpu() - begun, time.perf_counter() - clock


def _one_process(X: np.ndarray, y: np.ndarray, copies: int, name: str) -> Rows:
    machine = _machine(name, copies)
    clone(machine).fit(Repeated(X[:500], y[:500], 2))  # loads what is imported
    spent = _timed(machine, Repeated(X, y, copies), time.process_time, "threads")
    return [_row("one process", name, copies * len(y), machine, *spent)]


def _in_memory(X: np.ndarray, y: np.ndarray) -> Rows:
    signs = y.astype(float)
    solve_interior_point(X[:500], hinge_families(signs[:500], np.ones(500)))
    cpu, clock = time.process_time(), time.perf_counter()
    whole = solve_interior_point(X, hinge_families(signs, np.ones(len(y))))
    return [{
        "what": "in memory", "machine": _SVM, "rows": len(y), "iterations": whole.iterations,
        "CPU seconds an iteration": (time.process_time() - cpu) / whole.iterations,
        "seconds by the clock": time.perf_counter() - clock,
    }]  # fmt: skip


def _on_dask(X: np.ndarray, y: np.ndarray, workers: int, copies: int, name: str) -> Rows:
    with cluster(workers) as client:
        machine = _machine(name, copies)
        clone(machine).fit(Repeated(X[:500], y[:500], 2 * workers), executor=client)  # everything is loaded
        spent = _timed(machine, Repeated(X, y, copies), partial(used, client), client)
        found = _row(f"Dask, workers: {workers}", name, copies * len(y), machine, *spent)
        return [found | {"GB a process": max(client.run(memory).values())}]


def _overhead(X: np.ndarray, y: np.ndarray, name: str) -> Rows:
    """One worker against one process, on blocks of a million rows."""
    size, plain, over = 1_000_000, [], []
    rows = np.arange(size) % len(y)
    source = Repeated(X[rows], y[rows], 2)
    with cluster(1) as client:
        for executor in ("threads", client):
            _machine(name, 2).fit(Repeated(X[:500], y[:500], 2), executor=executor)
        for _ in range(2):
            here, there = (_machine(name, 4).set_params(max_iter=8) for _ in range(2))
            plain.append(_row("blocks of a million, one process", name, 2 * size, here,
                              *_timed(here, source, time.process_time, "threads")))  # fmt: skip
            over.append(_row("blocks of a million, Dask, workers: 1", name, 2 * size, there,
                             *_timed(there, source, partial(used, client), client)))  # fmt: skip
            assert there.coef_.tobytes() == here.coef_.tobytes()
    least = [min(each, key=lambda row: row["CPU seconds an iteration"]) for each in (plain, over)]
    before, after = (row["CPU seconds an iteration"] for row in least)
    return [least[0], least[1] | {"overhead, %": 100.0 * (after / before - 1.0)}]


def _small(X: np.ndarray, y: np.ndarray) -> Arrays:
    order = np.random.default_rng(0).permutation(len(y))[:160_000]
    return Arrays(X[order], y[order], rows=-(-len(order) // 8))


def _size(source: Arrays) -> int:
    return sum(len(source.read(k).y) for k in range(source.count))


def _answer(model: Any) -> tuple[Any, ...]:
    proof = model.certificate()
    return model.coef_.tobytes(), model.intercept_.tobytes(), proof.primal_value, proof.dual_value


def _bits(X: np.ndarray, y: np.ndarray, workers: int, threads: int, processes: bool) -> Rows:
    source, same = _small(X, y), []
    begun = time.perf_counter()
    with cluster(workers, threads, processes) as client:
        for name in (_SVM, _RMM):
            there = _machine(name, 1).fit(source, executor=client)
            same.append(_answer(there) == _answer(_machine(name, 1).fit(source)))
    kind = "processes" if processes else "workers in one process"
    return [{
        "what": f"bits, {workers} {kind} of {threads} threads: {'the same' if all(same) else 'OTHERS'}",
        "machine": "both", "rows": _size(source), "seconds by the clock": time.perf_counter() - begun,
    }]  # fmt: skip


def _kills(X: np.ndarray, y: np.ndarray, wanted: int, seed: int) -> Rows:
    source = _small(X, y)
    wanted_bits = _answer(_machine(_SVM, 1).fit(source))
    rng, killed, fits, same, slowest = np.random.default_rng(seed), 0, 0, 0, 0.0
    with cluster(3) as client:
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
            machine = _machine(_SVM, 1).fit(source, executor=client)
            ends.set()
            killer.join()
            slowest, fits = max(slowest, time.perf_counter() - begun), fits + 1
            same += _answer(machine) == wanted_bits
    return [{
        "what": f"{killed} kills in {fits} fits: the same bits in {same}", "machine": _SVM,
        "rows": _size(source), "seconds by the clock": slowest,
    }]  # fmt: skip
