"""Seconds against samples, as in the RMM paper's Figure 2: digits 3 against 8, polynomial, C = 1000.

CPU seconds of the SVM and of the Relative Margin Machine at the bounds B1, B2, B3, which are a half, a fourth
and a tenth of the way from 1 to the SVM's largest output, to a violation of 1e-3; 1,000 to 10,000 samples, in
steps of 1,000. Each machine from nothing; and "warm", B1 from the SVM's solution, B2 from that at B1, and B3
from that at B2, with the kernel rows that are at hand by then. The slope is the p of seconds ~ n^p. The
column "status" counts the solves that did not end within the tolerance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.helpers.timing import race
from formulations.families import hinge_families
from formulations.language.solution import Solution, Status
from polyopt import Kernel, datasets
from polyopt.base.files import replacing
from polyopt.linalg.kernels import SampleGram
from polyopt.margin.decomposition import Decomposition

FOLDER = Path(__file__).parent / "results"
SHARES = {"RMM, B1": 1 / 2, "RMM, B2": 1 / 4, "RMM, B3": 1 / 10}

Vector = NDArray[np.float64]


def run(smoke: bool = False) -> pd.DataFrame:
    """CPU seconds of each machine at each size, and the fitted slopes."""
    sizes = (100, 200) if smoke else range(1000, 10_001, 1000)
    rows = []
    for n in sizes:
        X, y = _threes_and_eights(n, smoke)
        if len(y) < n:
            break
        kernel = Kernel("poly", 1.0 / X.shape[1], 2, 1.0)
        machines = _Machines(SampleGram(X, kernel), y, np.full(n, 1000.0))
        seconds = race(machines.calls(), rounds=1 if smoke else 3, clock=time.process_time)
        short = sum(status is not Status.SOLVED for status in machines.ends)
        status = f"{short} of {len(machines.ends)} short" if short else "all converged"
        rows.append({"n": n, "SVM": seconds["SVM"], **seconds, "status": status})
    table = pd.DataFrame(rows)
    slopes = {name: _slope(table["n"], table[name]) for name in table if name not in ("n", "status")}
    if not smoke:
        _draw(table, slopes)
    slope = {"n": "fitted slope", **slopes, "status": ""}
    return pd.concat([table, pd.DataFrame([slope])], ignore_index=True)


def _threes_and_eights(n: int, smoke: bool) -> tuple[Vector, Vector]:
    """The first n of MNIST's 3s and 8s, pixels in [0, 1]; scikit-learn's digits if MNIST is not at hand."""
    try:
        data, top = datasets.load("digits" if smoke else "mnist"), 16.0 if smoke else 255.0
    except datasets.DatasetUnavailable:
        data, top = datasets.load("digits"), 16.0
    chosen = np.isin(data.y, (3, 8))
    X = (data.X[chosen] / top).astype(np.float32)
    return X[:n], np.where(data.y[chosen] == 3, 1.0, -1.0)[:n]


class _Machines:
    """The machines of one size: each from nothing, or one after the other."""

    def __init__(self, gram: SampleGram, y: Vector, costs: Vector):
        self._gram, self._y, self._costs = gram, y, costs
        self.ends: list[Status] = []
        theta = float(np.abs(self.cold(np.inf)["f"]).max())
        self._bounds = {name: 1 + (theta - 1) * share for name, share in SHARES.items()}

    def calls(self) -> dict[str, Callable[[], object]]:
        """What is timed, by name; the warm ones continue from the call before."""
        cold = {name: partial(self.cold, B) for name, B in self._bounds.items()}
        warm = {f"{name}, warm": partial(self.warm, B) for name, B in self._bounds.items()}
        return {**cold, "SVM": partial(self.cold, np.inf), **warm}

    def cold(self, B: float) -> Solution:
        """A machine from nothing."""
        self._machine = Decomposition(self._gram)
        return self.warm(B)

    def warm(self, B: float) -> Solution:
        """The machine that was solved last, with another bound."""
        solution = self._machine.solve(hinge_families(self._y, self._costs, B), tol=1e-3)
        self.ends.append(solution.status)
        return solution


def _slope(n: pd.Series, seconds: pd.Series) -> float:
    """The exponent p of seconds ~ n^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(n.astype(float)), np.log(seconds), 1)[0]) if len(n) > 1 else np.nan


def _draw(table: pd.DataFrame, slopes: dict[str, float]) -> None:
    from polyopt.plots.figure import BLUE, GREEN, ORANGE, PURPLE, new_figure, styled

    with styled():
        figure = new_figure(6.4, 4.2)
        axes = figure.subplots()
        looks = zip(("SVM", *SHARES), (BLUE, GREEN, ORANGE, PURPLE), "o^sD", strict=True)
        for name, colour, marker in looks:
            for part, line in ((name, "-"), (f"{name}, warm", "--")):
                if part in table:
                    share = f" (1/{1 / SHARES[name]:g} of the way)" if part in SHARES else ""
                    label = f"{part}{share}: $n^{{{slopes[part]:.2f}}}$"
                    look = {"color": colour, "marker": marker, "markersize": 4, "linestyle": line}
                    axes.loglog(table["n"], table[part], label=label, **look)
        ticks = [1000, 2000, 4000, 7000, 10_000]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_yticks([0.01, 0.1, 1.0], ["0.01", "0.1", "1"])
        axes.minorticks_off()
        axes.set(xlabel="samples n", ylabel="CPU seconds", title="MNIST, 3 vs 8, degree 2, C = 1000")
        axes.legend(frameon=False, fontsize=7)
        FOLDER.mkdir(exist_ok=True)
        with replacing(FOLDER / "growth.png") as stream:
            figure.savefig(stream, dpi=110)
