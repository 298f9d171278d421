"""Seconds against samples, as in the RMM paper's Figure 2: digits 3 against 8, polynomial, C = 1000.

CPU seconds of the SVM and of the Relative Margin Machine at the bounds B1, B2, B3, which are a half, a fourth
and a tenth of the way from 1 to the SVM's largest output; each from nothing, to a violation of 1e-3. The
slope is the p of seconds ~ n^p.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.helpers.large_data import tasks, three_against_eight
from benchmarks.helpers.timing import race
from formulations.families import hinge_families
from polyopt.files import replacing
from polyopt.kernels import SampleGram
from polyopt.solvers.decomposition import solve_decomposition

FOLDER = Path(__file__).parent / "results"
MACHINES = {"SVM": None, "RMM, B1": 1 / 2, "RMM, B2": 1 / 4, "RMM, B3": 1 / 10}


def run(smoke: bool = False) -> pd.DataFrame:
    sizes = (100, 200) if smoke else range(1000, 10_001, 1500)
    rows = []
    for n in sizes:
        _, X, y = three_against_eight(n, smoke)
        if len(y) < n:
            break
        task = tasks(X.shape[1])["poly"]
        C = np.full(n, task.C)

        def solve(B, X=X, y=y, C=C, kernel=task.kernel):
            return solve_decomposition(SampleGram(X, kernel), hinge_families(y, C, B), tol=1e-3)

        theta = float(np.abs(solve(np.inf)["f"]).max())
        bounds = {name: np.inf if s is None else 1 + (theta - 1) * s for name, s in MACHINES.items()}
        calls = {name: partial(solve, B) for name, B in bounds.items()}
        rows.append({"n": n, **race(calls, rounds=1 if smoke else 3, clock=time.process_time)})
    table = pd.DataFrame(rows)
    slopes = {name: _slope(table["n"], table[name]) for name in MACHINES}
    if not smoke:
        _draw(table, slopes)
    return pd.concat([table, pd.DataFrame([{"n": "fitted slope", **slopes}])], ignore_index=True)


def _slope(n: pd.Series, seconds: pd.Series) -> float:
    """The exponent p of seconds ~ n^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(n.astype(float)), np.log(seconds), 1)[0]) if len(n) > 1 else np.nan


def _draw(table: pd.DataFrame, slopes: dict[str, float]) -> None:
    from polyopt.plots.style import BLUE, GREEN, ORANGE, PURPLE, new_figure, styled

    with styled():
        figure = new_figure(6.4, 4.2)
        axes = figure.subplots()
        for name, colour, marker in zip(MACHINES, (BLUE, GREEN, ORANGE, PURPLE), "o^sD", strict=True):
            share = f" (1/{1 / MACHINES[name]:g} of the way)" if MACHINES[name] else ""
            label = f"{name}{share}: fitted $n^{{{slopes[name]:.2f}}}$"
            axes.loglog(table["n"], table[name], color=colour, marker=marker, markersize=4, label=label)
        ticks = [1000, 2000, 4000, 7000, 10_000]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_yticks([0.1, 1.0], ["0.1", "1"])
        axes.minorticks_off()
        axes.set(xlabel="samples n", ylabel="CPU seconds", title="MNIST, 3 vs 8, degree 2, C = 1000")
        axes.legend(frameon=False)
        FOLDER.mkdir(exist_ok=True)
        with replacing(FOLDER / "growth.png") as stream:
            figure.savefig(stream, dpi=110)
