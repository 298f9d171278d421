"""The Relative Margin Machine on MNIST 3 against 8: B1, B2, B3 cold, as a warm path, and polished.

B1, B2 and B3 are a half, a fourth and a tenth of the way from 1 to the SVM's largest output. All go to a
violation of 1e-3, those "to 1e-8" further, by Newton's method; the path solves the SVM and the three bounds
one after another, each from the last. CPU seconds, medians of three interleaved rounds; the gap is certified.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.helpers.large_data import tasks, three_against_eight
from benchmarks.helpers.timing import race
from formulations.families import hinge_families
from polyopt.certificates.geometry import KernelGeometry
from polyopt.certificates.hinge import certify_hinge
from polyopt.certificates.hinge_program import HingeProgram
from polyopt.kernels import SampleGram
from polyopt.solvers.decomposition import Decomposition, solve_decomposition


def run(smoke: bool = False) -> pd.DataFrame:
    data, X, y = three_against_eight(smoke=smoke)
    rows = []
    for key in ("rbf", "poly"):
        task = tasks(X.shape[1])[key]
        C = np.full(len(y), task.C)

        def cold(B, tol, task=task, C=C):
            return solve_decomposition(SampleGram(X, task.kernel), hinge_families(y, C, B), tol=tol)

        def path(bounds, task=task, C=C):
            machine = Decomposition(SampleGram(X, task.kernel))
            return [machine.solve(hinge_families(y, C, B), tol=1e-3) for B in bounds][-1]

        theta = np.abs(cold(np.inf, 1e-3)["f"]).max()
        B1, B2, B3 = (1.0 + (theta - 1.0) * share for share in (1 / 2, 1 / 4, 1 / 10))
        jobs = {
            "SVM": (np.inf, partial(cold, np.inf, 1e-3)),
            "SVM to 1e-8": (np.inf, partial(cold, np.inf, 1e-8)),
            f"RMM at B1 = {B1:.3f}": (B1, partial(cold, B1, 1e-3)),
            f"RMM at B2 = {B2:.3f}": (B2, partial(cold, B2, 1e-3)),
            f"RMM at B2 = {B2:.3f} to 1e-8": (B2, partial(cold, B2, 1e-8)),
            f"RMM at B3 = {B3:.3f}": (B3, partial(cold, B3, 1e-3)),
            "path SVM, B1, B2, B3": (B3, partial(path, (np.inf, B1, B2, B3))),
        }
        calls = {name: call for name, (_, call) in jobs.items()}
        seconds = race(calls, rounds=1 if smoke else 3, clock=time.process_time)
        geometry = KernelGeometry(SampleGram(X, task.kernel))
        for name, (B, call) in jobs.items():
            solution = call()
            program = HingeProgram(name, geometry, hinge_families(y, C, B))
            certificate = certify_hinge(
                program, v=solution["coef"], b=float(solution["b"]), multipliers=solution.duals
            )
            rows.append(
                {
                    "data": data,
                    "task": task.name,
                    "machine": name,
                    "CPU seconds": seconds[name],
                    "times the SVM": seconds[name] / seconds["SVM"],
                    "kernel rows": solution.history[-1]["rows"],
                    "violation": solution.history[-1]["violation"],
                    "relative gap": certificate.relative_gap,
                }
            )
    return pd.DataFrame(rows)
