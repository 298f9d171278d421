"""Steps per second of the polytope machine's stochastic solver, dense and sparse."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import scipy.sparse as sp

from polyopt import datasets
from polyopt.solvers.cpm_sgd import solve_cpm_sgd


def run(smoke: bool = False) -> pd.DataFrame:
    data = datasets.load("digits")
    X, y = data.X / 16.0, np.where(data.y == 2, 1.0, -1.0)
    rows = []
    for K in (10,) if smoke else (10, 50):
        for form, samples in (("dense", X), ("CSR", sp.csr_array(X))):
            epochs = 3 if smoke else 100
            solve_cpm_sgd(samples, y, np.ones(len(y)), K, max_iter=1, seed=0)
            started = time.perf_counter()
            solution = solve_cpm_sgd(samples, y, np.ones(len(y)), K, max_iter=epochs, tol=0.0, seed=0)
            seconds = time.perf_counter() - started
            rows.append(
                {
                    "data": f"digits 2 vs rest {X.shape}",
                    "form": form,
                    "faces": K,
                    "steps per second": solution.iterations * len(y) / seconds,
                }
            )
    return pd.DataFrame(rows)
