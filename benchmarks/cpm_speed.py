"""Stochastic solver of the polytope machine: steps per second and objective; the authors' program beside it.

Set CPM_PROGRAM to the authors' compiled command to race it (it is not part of this package). Both make the
same number of steps at the same λ; its C times its number of steps over n is ours. Seconds are of the
processor and of training alone, as its own report counts them. "Averaged" is the default: the better of the
average of all iterates and the last.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import dump_svmlight_file

from benchmarks.helpers.two_against_rest import texts, two_against_rest
from formulations.polytope import objective
from polyopt.cpm.sgd import solve_cpm_sgd
from polyopt.cpm.solve import as_floats


def run(smoke: bool = False) -> pd.DataFrame:
    images = two_against_rest(smoke)
    words, topics = texts(500, 2_000, 20) if smoke else texts()
    rounds = 1 if smoke else 3
    tasks = [
        (images.name, images.X, images.y, images.scale, 0.1, 2 if smoke else 17),
        (f"texts {words.shape}", words, topics, 1.0, 1.0, 2 if smoke else 50),
    ]
    lines = []
    for name, X, y, scale, C, epochs in tasks:
        for K in (10,) if smoke else (10, 50):
            entrants: dict[str, Any] = {
                "ours, averaged": lambda X=X, y=y, s=scale, C=C, K=K, e=epochs: _ours(X, y, s, C, K, e, True),
                "ours, last iterate": lambda X=X, y=y, s=scale, C=C, K=K, e=epochs: _ours(
                    X, y, s, C, K, e, False
                ),
            }
            if program := os.environ.get("CPM_PROGRAM"):
                entrants["authors' program"] = _Peer(program, as_floats(X, scale), y, C, K, epochs)
            found: dict[str, list[tuple[float, Any]]] = {who: [] for who in entrants}
            for counted in range(-1, rounds):
                for who, call in entrants.items():
                    result = call()
                    if counted >= 0:
                        found[who].append(result)
            steps = epochs * len(y)
            floats = as_floats(X, scale)
            best = median(seconds for seconds, _ in found["ours, averaged"])
            for who, results in found.items():
                seconds = median(s for s, _ in results)
                line = {"data": name, "faces": K, "steps": steps, "solver": who}
                line["steps per second"] = steps / seconds
                line["times ours, averaged"] = seconds / best
                line["objective"] = median(objective(floats, y, W, C) for _, W in results)
                lines.append(line)
    return pd.DataFrame(lines)


def _ours(
    X: Any, y: np.ndarray, scale: float, C: float, K: int, epochs: int, average: bool
) -> tuple[float, Any]:
    started = time.process_time()
    solution = solve_cpm_sgd(
        X, y, np.full(len(y), C), K, scale=scale, average=average, max_iter=epochs, tol=1e-12, seed=0
    )
    return time.process_time() - started, solution["W"]


class _Peer:
    """The authors' command on a file; its weights are read from its model."""

    def __init__(self, program: str, X: Any, y: np.ndarray, C: float, K: int, epochs: int):
        self.folder = tempfile.TemporaryDirectory()
        self.y, self.m, self.K, steps = y, X.shape[1], K, epochs * len(y)
        data, model = Path(self.folder.name, "data"), Path(self.folder.name, "model")
        dump_svmlight_file(X, y, str(data), zero_based=False)
        self.model = model
        self.command = [
            program, "-q", "-t", str(data), "-k", str(K), "-i", str(steps), "-C", repr(C * len(y) / steps),
            "--entropy", "0", "--reshuffle", "--outer_label", "1", "-o", str(model),
        ]  # fmt: skip

    def __call__(self) -> tuple[float, Any]:
        text = subprocess.run(self.command, capture_output=True, text=True, check=True).stdout
        report = re.search(r"Finished \d+ iterations in ([\d.]+)s", text)
        assert report is not None, text
        numbers = np.array(self.model.read_text().strip().splitlines()[-1].split(), dtype=float)
        weights, bias = numbers[: -self.K].reshape(-1, self.K).T, numbers[-self.K :]
        W = np.zeros((self.K, self.m + 1))
        W[:, : weights.shape[1] - 1] = weights[:, 1:]  # its column 0 is never used
        W[:, -1] = bias
        return float(report[1]), W
