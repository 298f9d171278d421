"""The CPM paper's Figure 2 on MNIST 2 against the rest: test error against steps, for several K, drawn.

Both sides are learnt. One run per seed gives all points of a line: Algorithm 1's step depends on λ and the
number of the step alone, so its iterate after T steps is that of a run which ends there. λ is the same for
all, that of a cost of 1 per sample, and there is no floor of the entropy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks.helpers.two_against_rest import Images, two_against_rest
from polyopt import ConvexPolytopeMachine
from polyopt.files import replacing

FOLDER = Path(__file__).parent / "results"
FACES = (1, 2, 5, 10, 50, 100)
DOUBLINGS, SEEDS, C = 7, 3, 1.0  # from one epoch to 128 of them, 7.7 M steps
PAPER = 0.38


def run(smoke: bool = False) -> pd.DataFrame:
    data = two_against_rest(smoke)
    found = pd.DataFrame(
        {"faces": K, "steps": T, "error": error, "seconds": seconds}
        for K in (FACES[:2] if smoke else FACES)
        for seed in range(2 if smoke else SEEDS)
        for T, error, seconds in _path(data, K, seed, 2 if smoke else DOUBLINGS)
    )
    groups = found.groupby(["faces", "steps"])
    names = {"low": groups["error"].min(), "median": groups["error"].median(), "high": groups["error"].max()}
    seconds = groups["seconds"].median()
    table = pd.DataFrame(names).assign(**{"CPU seconds of learning": seconds}).reset_index()
    if not smoke:
        _draw(table)
    return table.rename(columns={name: f"{name} error, %" for name in names})


def _path(data: Images, K: int, seed: int, doublings: int) -> Iterator[tuple[int, float, float]]:
    """Steps, test error in per cent and CPU seconds of learning, at each power of two of the epochs."""
    n, seconds = len(data.y), 0.0
    X = sp.csr_matrix(data.X)  # else each epoch would drop the zeros anew
    machine = ConvexPolytopeMachine(
        K, C, double_sided=True, solver="sgd", feature_scale=data.scale, random_state=seed
    )
    for epoch in range(1, 2**doublings + 1):
        started = time.process_time()
        machine.partial_fit(X, data.y)
        seconds += time.process_time() - started
        if epoch & (epoch - 1) == 0:
            yield epoch * n, 100 * (1 - machine.score(data.X_test, data.y_test)), seconds


def _draw(table: pd.DataFrame) -> None:
    from matplotlib import colormaps
    from matplotlib.ticker import FixedLocator, NullLocator

    from polyopt.plots.style import GRID, INK, MUTED, new_figure, styled

    with styled():
        figure = new_figure(6.8, 4.4)
        axes = figure.subplots()
        shades = colormaps["viridis_r"](np.linspace(0.12, 0.95, len(FACES)))
        heights = _heights(table[table["steps"] == table["steps"].max()].set_index("faces")["median"])
        for K, shade, marker in zip(FACES, shades, "ov^sDo", strict=True):
            line = table[table["faces"] == K]
            steps = line["steps"].to_numpy()
            axes.fill_between(steps, line["low"], line["high"], color=shade, alpha=0.14, linewidth=0)
            axes.plot(steps, line["median"], color=shade, marker=marker, markersize=4, linewidth=1.6)
            axes.annotate(
                f"K = {K}" if K > 1 else "K = 1, linear", (steps[-1], heights[K]), xytext=(8, 0),
                textcoords="offset points", va="center", color=shade, fontsize=8, fontweight="bold",
            )  # fmt: skip
        axes.axhline(PAPER, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(
            "the paper's best, 0.38 %", (steps[0], PAPER), xytext=(0, -4), textcoords="offset points",
            va="top", color=INK, fontsize=8,
        )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(steps[0] / 1.15, steps[-1] * 2.3)
        ticks = [100_000, 300_000, 1_000_000, 3_000_000, 8_000_000]
        axes.xaxis.set(major_locator=FixedLocator(ticks), minor_locator=NullLocator())
        axes.set_xticklabels(["100,000", "300,000", "1 M", "3 M", "8 M"])
        errors = [0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0]
        axes.yaxis.set(major_locator=FixedLocator(errors), minor_locator=NullLocator())
        axes.set_yticklabels([f"{error:g}" for error in errors])
        axes.grid(axis="y", color=GRID)
        axes.set(xlabel="steps T of each side", ylabel="test error, %")
        axes.set_title("MNIST 2 against the rest: test error against steps, for K faces")
        axes.annotate(
            f"two sides, no floor of the entropy\nmedian and range of {SEEDS} seeds", (0.985, 0.905),
            xycoords="axes fraction", ha="right", va="top", color=MUTED, fontsize=8,
        )  # fmt: skip
        FOLDER.mkdir(exist_ok=True)
        with replacing(FOLDER / "cpm_figure2.png") as stream:
            figure.savefig(stream, dpi=150)


def _heights(ends: pd.Series) -> dict[Any, float]:
    """Heights of the lines' names: where the lines end, pushed apart where they would overlap."""
    heights: dict[Any, float] = {}
    least = 0.0
    for K, end in ends.sort_values().items():
        heights[K] = max(end, least)
        least = 1.075 * heights[K]
    return heights
