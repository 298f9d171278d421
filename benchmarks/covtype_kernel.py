"""Kernel machines on 100,000 and 522,911 samples: covtype, class 2 against the rest, RBF.

The protocol of cuML's authors: gamma = 1 on features in [0, 1], C = 1 and 10, nine samples of ten for
training, a tenth for the error. Also the Relative Margin Machine, with its bound half way from 1 to the SVM's
largest output. To a violation of 1e-3, which is recomputed in double precision, as is the certificate: the
relative gap that is proven, by blocks of the kernel matrix. Every machine has a process of its own, with as
many threads as there are cores, and a cache of 1,000 MB; its peak memory is that of the process until it is
fitted.

Seconds are by the clock. Every machine is kept in results/covtype_kernel.csv as it ends, and not fitted
again; all of them take about half an hour on two cores. Those of 522,911 samples that are kept ran beside
other work. Without covtype (in the folder that POLYOPT_DATA names), and for a smoke run, samples like it are
made by a seed.
"""

from __future__ import annotations

import multiprocessing as mp
import resource
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.helpers.kept import machine_facts
from benchmarks.helpers.portfolio_data import path_of
from benchmarks.helpers.portfolio_worker import processors, threads_set
from formulations.families import hinge_families
from polyopt import SVM, RelativeMarginMachine
from polyopt.base.files import write_text
from polyopt.datasets.loading import read_npz
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.decomposition.state import Dual
from polyopt.margin.geometry import KernelGeometry

KEPT = Path(__file__).parent / "results" / "covtype_kernel.csv"
_GAMMA, _CACHE, _TOL = 1.0, 1000.0, 1e-3
_SIZES = (100_000, 522_911)


class _Case(NamedTuple):
    """A machine: its samples, its cost, and the share of the bound's way, 0 for the SVM."""

    samples: int
    C: float
    share: float


def run(smoke: bool = False, sizes: tuple[int, ...] = _SIZES, limit: float = 3600.0) -> pd.DataFrame:
    """The table; what is kept already is not fitted again."""
    if smoke:
        cases = ((_Case(1500, 1.0, 0.0), np.inf), (_Case(1500, 1.0, 0.5), 1.5))
        return pd.DataFrame([_machine(case, B, is_smoke=True) for case, B in cases])
    rows = pd.read_csv(KEPT).to_dict("records") if KEPT.is_file() else []
    done = {(row["samples"], row["C"], row["share"]): row for row in rows}
    for samples in sizes:
        for case in (_Case(samples, 1.0, 0.0), _Case(samples, 10.0, 0.0), _Case(samples, 1.0, 0.5)):
            if case in done:
                continue
            B = np.inf
            if case.share:
                largest = float(done[_Case(samples, case.C, 0.0)]["largest output"])
                B = 1.0 + (largest - 1.0) * case.share
            row = _in_a_process(case, B, limit) | {"machine": machine_facts()}
            done[case] = row
            rows.append(row)
            write_text(KEPT, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g"))
    return pd.DataFrame(rows)


def _in_a_process(case: _Case, B: float, limit: float) -> dict[str, Any]:
    with threads_set(processors()), mp.get_context("spawn").Pool(1) as pool:
        return pool.apply(_machine, (case, B, limit))


def _machine(case: _Case, B: float, limit: float | None = None, is_smoke: bool = False) -> dict[str, Any]:
    data, X, y, X_test, y_test = _data(case.samples, is_smoke)
    shared = {"C": case.C, "gamma": _GAMMA, "solver": "decomposition", "tol": _TOL}
    shared |= {"cache_size": _CACHE, "time_limit": limit}
    made = RelativeMarginMachine(B=B, **shared) if np.isfinite(B) else SVM(**shared)
    made.fit(X[:2500], y[:2500])  # loads what is imported
    started, processor = time.perf_counter(), time.process_time()
    made.fit(X, y)
    seconds, processor = time.perf_counter() - started, time.process_time() - processor
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    started = time.perf_counter()
    error = 100.0 * float((made.predict(X_test) != y_test).mean())
    predicting, started = time.perf_counter() - started, time.perf_counter()
    violation, gap = _looked_at(made, X, y, case.C, B)
    return {
        "data": data, **case._asdict(), "B": B, "status": made.solution_.status.name, "seconds": seconds,
        "CPU seconds": processor, "peak GB": memory, "violation": violation, "proven relative gap": gap,
        "seconds of the certificate": time.perf_counter() - started,
        "support vectors": len(made.support_), "test error, %": error,
        "test samples": len(y_test), "seconds of predicting": predicting,
        "largest output": float(np.abs(made.solution_["f"]).max()),
    }  # fmt: skip


def _looked_at(made: Any, X: Any, y: Any, C: float, B: float) -> tuple[float, float]:
    """Violation and proven relative gap, from coefficients and multipliers alone, in double precision."""
    duals, rows = made.solution_.duals, hinge_families(y, C, B)
    geometry = KernelGeometry(SampleGram(X, Kernel("rbf", _GAMMA)))
    coef = np.zeros(len(y))
    coef[made.support_] = made.dual_coef_[0]
    certificate = certify_hinge(
        HingeProgram("the machine", geometry, rows),
        v=coef,
        b=float(made.intercept_[0]),
        multipliers=duals,
    )
    beta = rows.beta(rows.stacked(duals))
    m, M = Dual(rows).extremes(beta, geometry.scores(beta))
    return m - M, certificate.relative_gap


def _data(samples: int, is_smoke: bool) -> tuple[str, Any, Any, Any, Any]:
    """Name, training and test samples in [0, 1], float32, drawn by a seed."""
    rng, file = np.random.default_rng(0), path_of("covtype")
    if file.is_file() and not is_smoke:
        name, parts = "covtype", read_npz(file)
        X, y = np.asarray(parts.X, dtype=np.float32), np.where(parts.y == 2, 1.0, -1.0)
    else:
        name, n = "seeded", samples + samples // 9 + 1
        X = rng.random((n, 12), dtype=np.float32)
        y = np.where(np.sin(9.0 * X).sum(axis=1) + rng.normal(size=n) > 0.0, 1.0, -1.0)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    drawn = rng.permutation(len(y))
    train, test = drawn[:samples], drawn[-(len(y) // 10) :]
    return name, np.ascontiguousarray(X[train]), y[train], np.ascontiguousarray(X[test]), y[test]
