"""Whole cross-entropy runs of the L0 machine, with screening by cuts and without: programs and seconds.

The search is the same, which is asserted: the same history, the same pattern. Of the programs begun with
screening, those cut off end at a proof that their pattern is not elite. C = 1 and 10, one run, one thread,
seconds of the processor; the last column is a fit of the estimator on all processors, by the clock.
"""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.l0_optimum import problem
from polyopt import CrossEntropySettings, CrossEntropySVM
from polyopt.outer.l0.search import solve_l0

CASES = (("ionosphere", "rbf"), ("wdbc", "rbf"), ("sonar", "rbf"), ("bupa", "linear"))
_SAME = ("best", "elite_threshold", "mean_p", "entropy")


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per problem."""
    cases = CASES[2:3] if smoke else CASES
    return pd.DataFrame(
        [_row(name, kernel, C, 4 if smoke else 1) for C, (name, kernel) in product((1.0, 10.0), cases)]
    )


def _row(name: str, kernel: str, C: float, every: int) -> dict[str, Any]:
    data = problem(name, kernel, C, every)
    found, seconds = {}, {}
    for screening in (False, True):
        started = time.process_time()
        found[screening] = solve_l0(data, CrossEntropySettings(screening=screening), seed=0)
        seconds[screening] = time.process_time() - started
    (plain, all_work), (solution, search) = found[False], found[True]
    same = [[record[key] for key in _SAME] for record in plain.history]
    if same != [[record[key] for key in _SAME] for record in solution.history]:
        raise AssertionError(f"screening changed the search on {name}, {kernel}, C = {C}")
    if not np.array_equal(plain["sigma"], solution["sigma"]):
        raise AssertionError(f"screening changed the answer on {name}, {kernel}, C = {C}")
    machine = CrossEntropySVM(C, kernel="precomputed", n_jobs=-1, random_state=0)
    started = time.perf_counter()
    machine.fit(data.K, data.y)
    whole = time.perf_counter() - started
    before, work = all_work.work, search.work
    ended = work.programs - work.cut_off
    return {
        "data": name,
        "kernel": kernel,
        "C": C,
        "n": len(data.y),
        "iterations": solution.iterations,
        "programs without screening": before.programs,
        "begun with it": work.programs,
        "ended with it": ended,
        "share begun": work.programs / before.programs,
        "share ended": ended / (before.programs - before.cut_off),
        "seconds without": seconds[False],
        "seconds with it": seconds[True],
        "times faster": seconds[False] / seconds[True],
        "seconds of a fit on all processors": whole,
    }
