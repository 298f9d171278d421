"""A path of bounds by OSQP: each from the solution before it, or each from nothing."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from sklearn.metrics.pairwise import rbf_kernel

from formulations.samples import two_blobs
from formulations.solution import Status
from polyopt.solvers.osqp_dual import osqp_path, solve_osqp_dual

BOUNDS = (np.inf, 3.0, 2.0, 1.5, 1.2, 1.1, 1.0001)


def run(smoke: bool = False) -> pd.DataFrame:
    rows = []
    for kernel in ("linear", "rbf"):
        for start in ("the solution before", "nothing"):
            iterations, open_ends, began = 0, 0, time.process_time()
            for seed in range(1 if smoke else 10):
                X, y = two_blobs(n=50, seed=seed)
                K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.3)
                if start == "nothing":
                    found = [solve_osqp_dual(K, y, 1.0, B) for B in BOUNDS]
                else:
                    found = osqp_path(K, y, 1.0, BOUNDS)
                iterations += sum(solution.iterations for solution in found)
                open_ends += sum(solution.status is not Status.OPTIMAL for solution in found)
            rows.append(
                {
                    "kernel": kernel,
                    "start": start,
                    "iterations": iterations,
                    "CPU seconds": time.process_time() - began,
                    "not optimal": open_ends,
                }
            )
    return pd.DataFrame(rows)
