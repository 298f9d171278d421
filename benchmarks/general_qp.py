"""The same dual by decomposition and by general QP solvers: Clarabel and OSQP, through cvxpy.

A general solver takes minutes, so each runs once, and stops itself after a minute by the clock. Where one
was not at an end by then, the seconds are those that it had spent, and the gap is that of its point.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.helpers.large_data import tasks, three_against_eight
from benchmarks.helpers.words import word_of
from formulations import rmm, svm
from formulations.families import hinge_families
from formulations.solution import Status
from polyopt import certify_rmm, certify_svm
from polyopt.kernels import SampleGram
from polyopt.solvers.decomposition import solve_decomposition

LIMIT = 60.0  # seconds; of the program that cvxpy hands over, its building counts


def run(smoke: bool = False) -> pd.DataFrame:
    data, X, y = three_against_eight(100 if smoke else 2000, smoke)
    X = X.astype(float)
    rows = []
    for key in ("rbf",) if smoke else ("rbf", "poly"):
        task = tasks(X.shape[1])[key]
        K, C = task.kernel(X), np.full(len(y), task.C)
        theta = float(np.abs(solve_decomposition(K, hinge_families(y, C), tol=1e-8)["f"]).max())
        for title, B in (("SVM", np.inf), ("RMM at B1", 1.0 + (theta - 1.0) / 2)):
            program = svm.kernel_dual if np.isinf(B) else partial(rmm.kernel_dual, B=B)
            gram = SampleGram(X, task.kernel)
            entrants = {
                "decomposition to 1e-8": partial(
                    solve_decomposition, gram, hinge_families(y, C, B), tol=1e-8
                ),
                "Clarabel": lambda program=program, K=K, C=C: program(K, y, C).solve(
                    "CLARABEL", time_limit=LIMIT
                ),
                "OSQP": lambda program=program, K=K, C=C: program(K, y, C).solve("OSQP", time_limit=LIMIT),
            }
            # Ours is called above, to be compiled.
            seconds, answers = {}, {}
            for name, call in entrants.items():
                started = time.process_time()
                answers[name] = call()
                seconds[name] = time.process_time() - started
            for name, answer in answers.items():
                ours = name.startswith("decomposition")
                alpha, above, below = (
                    [answer.duals.get(row) for row in ("margin", "bound_above", "bound_below")]
                    if ours
                    else [answer.primal.get(letter) for letter in ("alpha", "lam", "lam_star")]
                )
                ended = word_of(answer.status)
                if answer.status is Status.TIME_LIMIT:
                    ended = f"not within {LIMIT:.0f} s"
                if alpha is None:  # no point to judge
                    certificate = None
                elif np.isinf(B):
                    certificate = certify_svm(K, y, C, alpha=alpha, precomputed=True)
                else:
                    certificate = certify_rmm(
                        K, y, C, B, alpha=alpha, lam=above, lam_star=below, precomputed=True
                    )
                rows.append(
                    {
                        "data": data,
                        "task": task.name,
                        "machine": title,
                        "solver": name,
                        "CPU seconds": seconds[name],
                        "over decomposition": seconds[name] / seconds["decomposition to 1e-8"],
                        "relative gap": np.nan if certificate is None else certificate.relative_gap,
                        "ended": ended,
                    }
                )
    return pd.DataFrame(rows)
