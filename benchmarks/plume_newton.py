"""PLUME's M-step: Newton with the full Hessian against the same program by cvxpy, built once and set anew.

One M-step from the same responsibilities, a tenth of the labels flipped; CPU seconds, medians of seven
interleaved rounds. All are asked for a relative gap of 1e-8, which is computed from the gradient at the end.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.helpers.timing import race
from formulations import mixture, plume
from polyopt.polyhedral.plume import minimise

SIZES = ((1000, 20, 4),)  # samples, features, faces
GAMMA, RIDGE = 2.0, 1e-3
TOL = 1e-8  # relative gap to the proven bound, which both are held to


def run(smoke: bool = False) -> pd.DataFrame:
    rows = []
    for n, m, K in ((100, 5, 2),) if smoke else SIZES:
        X, y, W = _data(n, m, K)
        c, R = np.ones(n), mixture.responsibilities(X, y, W, GAMMA)
        model = {"gamma": GAMMA, "ridge": RIDGE}
        program = plume.m_step(X, y, R, GAMMA, c, RIDGE)
        answers: dict[str, np.ndarray] = {}

        def explicit(program=program, R=R, answers=answers):
            found = program.set(R=R).solve(
                "CLARABEL", tol_gap_abs=TOL, tol_gap_rel=TOL, tol_feas=TOL, accept_unknown=True
            )
            answers["cvxpy, Clarabel"] = found["W"]

        def climb(method, X=X, y=y, c=c, R=R, W=W, model=model, answers=answers):
            answers[method] = minimise(X, y, c, R, W, method=method, tol=TOL, max_iter=5000, **model)["W"]

        calls = {"cvxpy, Clarabel": explicit}
        calls |= {method: partial(climb, method) for method in ("newton", "bfgs")}
        seconds = race(calls, rounds=3 if smoke else 7, clock=time.process_time)
        for name, found in answers.items():
            value, gradient = mixture.value_and_gradient(X, y, found, R, GAMMA, c, RIDGE)
            rows.append(
                {
                    "samples": n,
                    "features": m,
                    "faces": K,
                    "M-step by": name,
                    "CPU seconds": seconds[name],
                    "times faster than cvxpy": seconds["cvxpy, Clarabel"] / seconds[name],
                    "objective": value,
                    "relative gap": float(np.sum(gradient**2)) / (2 * RIDGE) / value,
                }
            )
    return pd.DataFrame(rows)


def _data(n: int, m: int, K: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples of a polytope of K faces, a tenth of the labels flipped, and random faces to begin from."""
    rng = np.random.default_rng(0)
    X, faces = rng.normal(size=(n, m)), rng.normal(size=(K, m)) / np.sqrt(m)
    y = np.where(((X @ faces.T).min(axis=1) > -0.7) ^ (rng.random(n) < 0.1), 1.0, -1.0)
    return X, y, rng.normal(size=(K, m + 1)) / np.sqrt(m)
