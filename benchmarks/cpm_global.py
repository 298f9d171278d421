"""The global optimum of the polytope machine in two dimensions: branch and bound, and SCIP.

Positives in three clusters around the negatives, which are kept apart or overlap; K = 3, C = 1, a limit of
20 s each. "Branch and bound" is ``solver="global"``: trial moves while that is quick, prices, the spread of
the faces. SCIP gets the mixed-integer program and the objective of a good point.
The gap is relative to the objective found; it is closed where a search ended. Last, one stochastic run, the
best of the alternation's twenty starts and the search on the 426 training samples of wdbc, as ``polyopt
compare --method cpm --global`` has them: what the first two prove is for the assignment they end with;
seconds by the clock.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.words import word_of
from formulations.cpm_global import mixed_integer
from formulations.solution import Solution
from polyopt.compare import PROVABLE_DATA, compare
from polyopt.outer.cpm.optimum import solve_cpm_global


def clusters(n: int, seed: int, widen: float) -> tuple[np.ndarray, np.ndarray]:
    """Positives in three clusters around negatives, which overlap with them for `widen` above 1."""
    rng = np.random.default_rng(seed)
    half, angles = n // 2, 2 * np.pi * np.arange(3) / 3 + 0.3
    which = rng.integers(0, 3, half)
    outside = 2.0 * np.c_[np.cos(angles[which]), np.sin(angles[which])] + 0.55 * rng.normal(size=(half, 2))
    inside = widen * 0.6 * rng.normal(size=(n - half, 2))
    return np.r_[outside, inside], np.r_[np.ones(half), -np.ones(n - half)]


def run(smoke: bool = False) -> pd.DataFrame:
    sizes, limit = ((12,), 1.0) if smoke else ((20, 40, 60), 20.0)
    scip = importlib.util.find_spec("pyscipopt") is not None
    wide = np.random.default_rng(0).normal(size=(510, 5))  # so many have the spread alone: compiles it
    solve_cpm_global(wide, np.where(np.arange(510) % 2, 1.0, -1.0), 1.0, 2, max_nodes=1)
    rows = []
    for widen in (1.0, 1.8):
        for n in sizes:
            for K in (2,) if smoke else (3,):
                X, y = clusters(n, 10, widen)
                best = solve_cpm_global(X, y, 1.0, K, max_nodes=1)  # compiles, and gives SCIP its M
                entrants: dict[str, Callable[[], Any]] = {
                    "branch and bound": partial(solve_cpm_global, X, y, 1.0, K, time_limit=limit)
                }
                if scip:
                    entrants["SCIP, big M"] = partial(_by_scip, X, y, K, best.objective, limit)
                for name, call in entrants.items():
                    started = time.process_time()
                    solution = call()
                    bound = np.nan if solution.bound is None else solution.bound
                    rows.append(
                        {
                            "data": "overlapping" if widen > 1 else "separated",
                            "n": n,
                            "K": K,
                            "solver": name,
                            "CPU seconds": time.process_time() - started,
                            "nodes": solution.iterations,
                            "objective": solution.objective,
                            "proven gap": (solution.objective - bound) / solution.objective,
                            "ended": word_of(solution.status),
                        }
                    )
    return pd.DataFrame([*rows, *_real(smoke)])


def _by_scip(X: np.ndarray, y: np.ndarray, K: int, known: float, limit: float) -> Solution:
    """SCIP's answer, from the data, as for the others."""
    return mixed_integer(X, y, K, 1.0, upper=known * (1 + 1e-6)).solve(time_limit=limit)


def _real(smoke: bool) -> list[dict[str, Any]]:
    """All solvers on real data."""
    found = compare(PROVABLE_DATA, ["cpm"], prove=True, time_limit=1.0 if smoke else None)
    return [
        {
            "data": row.data,
            "n": len(found.datasets[0].X_train),
            "K": row.estimator.n_faces,
            "solver": row.solver,
            "seconds by the clock": row.seconds,
            "objective": row.objective,
            "proven gap": row.relative_gap,
            "ended": row.claim.replace("_", " "),
        }
        for row in found.rows
    ]
