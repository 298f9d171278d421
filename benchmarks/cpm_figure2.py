"""The CPM paper's Figure 2: test error against steps, for several K, by its protocol and by ours; drawn.

"1/(CT)" is the paper's: λ = 1/(CT) for each T with C = 0.01, no floor of the entropy, a run for each T, the
mean of five. The digits are MNIST's, deformed at random and each seen once, as in MNIST8m; the test part is
MNIST's, 2 against the rest; both sides are learnt. "error" is that of the last iterate, as Algorithm 1 has
it, and "averaged" that of an average of the iterates of the same runs. "fixed" has one λ for all T, that of a
cost of 1 per sample, on the 60,000 digits as they are: a run gives all points of a line, as its iterate after
T steps is that of a run which ends there; three runs, and the answer is the machine's own. "change" is that
of the mean from half the steps, over the standard error of this change.

The paper sees the error fall with T for every K > 1, and with K for large T. Ours, by its protocol: the mean
of the last iterates falls at every doubling of T for K of 5 and more. For K = 2 it does not: last iterates
jump about, with deviations of 0.2 to 0.5; their averages fall at every doubling for every K > 1. With K the
error falls up to 50; 50 and 100 faces are alike by 2 million steps, which is where ours ends (the paper's T
goes up to 32 million).

Runs are kept in results/cpm_figure2.csv as they end, and not made again (those of one λ in the order of their
errors). ``--quick`` has the paper's protocol up to 500,000 steps, two runs, for K up to 10; not kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks.helpers.deformed_digits import DeformedDigits
from benchmarks.helpers.digit_streams import TwoPolytopes, show_stream
from benchmarks.helpers.two_against_rest import Images, two_against_rest
from polyopt import ConvexPolytopeMachine
from polyopt.files import replacing, write_text

FOLDER = Path(__file__).parent / "results"
KEPT = FOLDER / "cpm_figure2.csv"
FACES = (1, 2, 5, 10, 50, 100)
STEPS, RUNS = tuple(125_000 * 2**k for k in range(5)), 5
DOUBLINGS, SEEDS, C = 7, 3, 1.0  # of the fixed λ: from one epoch to 128 of them, 7.7 M steps
RATE = 100.0  # λT = 1/C of the paper
PAPER, FIXED = "1/(CT)", "fixed"

Record = dict[str, Any]


def run(smoke: bool = False, quick: bool = False) -> pd.DataFrame:
    """A line for each way to choose λ, K and T; runs that are missing are made."""
    data = two_against_rest(smoke)
    if smoke or quick:
        faces, steps = (FACES[:2], STEPS[:1]) if smoke else (FACES[:4], STEPS[:3])
        records = [one for T in steps for seed in (1, 2) for one in _streamed(data, faces, T, seed)]
        if smoke:
            records += [one for k in (1, 2) for one in _path(data, FACES[1], k, 2)]
        return _shown(records)
    records = pd.read_csv(KEPT).to_dict("records") if KEPT.is_file() else []
    done = {(one["λ"], one["run"], one["steps"]) for one in records}
    for T in STEPS:
        for seed in range(1, RUNS + 1):
            if (PAPER, seed, T) not in done:
                records = _keep(records + list(_streamed(data, FACES, T, seed)))
    done = {(one["λ"], one["run"], one["faces"]) for one in records}
    for K in FACES:
        for number in range(1, SEEDS + 1):
            if (FIXED, number, K) not in done:
                records = _keep(records + list(_path(data, K, number, DOUBLINGS)))
    table = _shown(records)
    _draw(table)
    return table


def _keep(records: list[Any]) -> list[Any]:
    write_text(KEPT, pd.DataFrame(records).to_csv(index=False, float_format="%.6g"))
    print("  λ {λ}, {faces} faces, {steps} steps, run {run}: {error:.3g} %".format(**records[-1]), flush=True)
    return records


def _streamed(data: Images, faces: tuple[int, ...], T: int, seed: int) -> list[Record]:
    """By the paper's protocol: for each K the errors after T steps, all on the same digits."""
    width = data.X.shape[1]
    machines = [TwoPolytopes(K, T, RATE, 1.0, width, data.scale, seed) for K in faces]
    show_stream(machines, DeformedDigits(data.X, data.y, seed))
    records = []
    for K, machine in zip(faces, machines, strict=True):
        errors = machine.errors(data.X_test, data.y_test)
        record = {"λ": PAPER, "faces": K, "steps": T, "run": seed, "error": errors["last"]}
        records.append(record | {"averaged": errors["average"], "seconds": machine.seconds})
    return records


def _path(data: Images, K: int, number: int, doublings: int) -> Iterator[Record]:
    """With one λ: the errors at each power of two of the epochs."""
    n, seconds = len(data.y), 0.0
    X = sp.csr_matrix(data.X)  # else each epoch would drop the zeros anew
    machine = ConvexPolytopeMachine(
        K, C, double_sided=True, solver="sgd", feature_scale=data.scale, random_state=number - 1
    )
    for epoch in range(1, 2**doublings + 1):
        started = time.process_time()
        machine.partial_fit(X, data.y)
        seconds += time.process_time() - started
        if epoch & (epoch - 1) == 0:
            error = 100 * (1 - machine.score(data.X_test, data.y_test))
            record = {"λ": FIXED, "faces": K, "steps": epoch * n, "run": number, "error": error}
            yield record | {"averaged": np.nan, "seconds": seconds}


def _shown(records: list[Record]) -> pd.DataFrame:
    """Means and deviations over the runs."""
    found = pd.DataFrame(records)
    groups = found.groupby(["λ", "faces", "steps"])
    error = groups["error"]
    table = pd.DataFrame(
        {"runs": error.count(), "mean error, %": error.mean(), "deviation": error.std(ddof=1)}
    )
    table = table.reset_index().sort_values(["λ", "faces", "steps"], ignore_index=True)
    mean, square = table["mean error, %"], table["deviation"] ** 2 / table["runs"]
    spread = np.sqrt(square + square.shift())
    same = (table["faces"] == table["faces"].shift()) & (table["λ"] == table["λ"].shift())
    table["change, in standard errors"] = (mean.diff() / spread).where(same)
    table["averaged, %"] = groups["averaged"].mean().to_numpy()
    table["CPU seconds of learning"] = groups["seconds"].median().to_numpy()
    return table


def _draw(table: pd.DataFrame) -> None:
    from polyopt.plots.style import MUTED, new_figure, styled

    with styled():
        figure = new_figure(9.6, 4.4)
        axes = figure.subplots(1, 2, sharey=True)
        titles = {
            PAPER: ("λ = 1/(CT), C = 0.01, deformed digits", "mean and deviation of five runs"),
            FIXED: ("one λ for all T, MNIST", "mean and deviation of three runs"),
        }
        for one, (way, (title, note)) in zip(axes, titles.items(), strict=True):
            _draw_lines(one, table[table["λ"] == way])
            one.set_title(title)
            one.annotate(note, (0.985, 0.96), xycoords="axes fraction", ha="right", va="top", color=MUTED,
                         fontsize=8)  # fmt: skip
        axes[0].set_ylabel("test error, %")
        figure.suptitle("MNIST 2 against the rest: test error against steps, for K faces, no floor")
        FOLDER.mkdir(exist_ok=True)
        with replacing(FOLDER / "cpm_figure2.png") as stream:
            figure.savefig(stream, dpi=150)


def _draw_lines(axes: Any, table: pd.DataFrame) -> None:
    from matplotlib import colormaps
    from matplotlib.ticker import FixedLocator, NullLocator

    from polyopt.plots.style import GRID

    shades = colormaps["viridis_r"](np.linspace(0.12, 0.95, len(FACES)))
    last = table[table["steps"] == table["steps"].max()]
    heights = _heights(last.set_index("faces")["mean error, %"])
    for K, shade, marker in zip(FACES, shades, "ov^sDo", strict=True):
        line = table[table["faces"] == K]
        steps, mean, width = (line[name].to_numpy() for name in ("steps", "mean error, %", "deviation"))
        axes.fill_between(steps, mean - width, mean + width, color=shade, alpha=0.14, linewidth=0)
        axes.plot(steps, mean, color=shade, marker=marker, markersize=4, linewidth=1.6)
        axes.annotate(
            f"K = {K}", (steps[-1], heights[K]), xytext=(8, 0), textcoords="offset points", va="center",
            color=shade, fontsize=8, fontweight="bold",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="steps T of each side")
    axes.set_xlim(table["steps"].min() / 1.15, table["steps"].max() * 2.3)
    ticks = {100_000: "100,000", 300_000: "300,000", 1_000_000: "1 M", 3_000_000: "3 M", 8_000_000: "8 M"}
    ticks = {tick: text for tick, text in ticks.items() if tick <= table["steps"].max()}
    axes.xaxis.set(major_locator=FixedLocator(list(ticks)), minor_locator=NullLocator())
    axes.set_xticklabels(list(ticks.values()))
    errors = [0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0]
    axes.yaxis.set(major_locator=FixedLocator(errors), minor_locator=NullLocator())
    axes.set_yticklabels([f"{error:g}" for error in errors])
    axes.grid(axis="y", color=GRID)


def _heights(ends: pd.Series) -> dict[Any, float]:
    """Heights of the lines' names: where the lines end, pushed apart where they would overlap."""
    heights: dict[Any, float] = {}
    least = 0.0
    for K, end in ends.sort_values().items():
        heights[K] = max(end, least)
        least = 1.075 * heights[K]
    return heights
