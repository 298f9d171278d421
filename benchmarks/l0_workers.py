"""A whole fit of the L0 machine with one worker and with two: seconds by the clock and of the processor.

The slides say that the search "can be parallelized". The programs of a batch are dealt out to `n_jobs`
threads, each with a HiGHS model of its own; the relaxation and the flips at the end of a run are on one
thread. The answer is the same, which is asserted. Interleaved medians; RBF kernel with γ = 1/m, C = 1. By the
clock the figures are of an idle machine only where the load, of the minute before, is small beside its
processors.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.kept import word_of
from benchmarks.l0_optimum import problem
from polyopt import CrossEntropySVM
from polyopt.sparse.pattern_lp import PatternLP

SETS = ("ionosphere", "sonar", "wdbc")


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per data set."""
    sets, rounds, every = (SETS[1:2], 1, 4) if smoke else (SETS, 3, 1)
    return pd.DataFrame([_row(name, rounds, every) for name in sets])


def _row(name: str, rounds: int, every: int) -> dict[str, Any]:
    data = problem(name, "rbf", every=every)
    PatternLP(data).prepare(np.ones((1, len(data.y)), dtype=bool))  # HiGHS is loaded once
    load, seconds = os.getloadavg()[0], {(jobs, what): [] for jobs in (1, 2) for what in ("clock", "CPU")}
    answers: dict[int, Any] = {}
    for _ in range(rounds):
        for jobs in (1, 2):
            machine = CrossEntropySVM(kernel="precomputed", random_state=0, n_jobs=jobs)
            clock, processor = time.perf_counter(), time.process_time()
            answers[jobs] = machine.fit(data.K, data.y)
            seconds[jobs, "clock"].append(time.perf_counter() - clock)
            seconds[jobs, "CPU"].append(time.process_time() - processor)
    if not np.array_equal(answers[1].solution_["sigma"], answers[2].solution_["sigma"]):
        raise AssertionError(f"two workers find another answer on {name}")
    found = {key: median(values) for key, values in seconds.items()}
    return {
        "data": name,
        "n": len(data.y),
        "programs": answers[1].search_.work.programs,
        **{f"{what} seconds, {jobs}": found[jobs, what] for what in ("clock", "CPU") for jobs in (1, 2)},
        "times faster by the clock": found[1, "clock"] / found[2, "clock"],
        "support vectors": len(answers[1].support_),
        "status": word_of(answers[1].solution_.status),
        "load": load,
    }
