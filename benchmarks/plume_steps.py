"""PLUME's Algorithm 1 to its own end, by gradient, Newton and BFGS: L against steps and seconds, drawn.

L is the negative log-likelihood with our ridge, to be minimised. Data: the synthetic sets 1 and 2 of the
Polyceptron's paper (K = 3 and 4) and ionosphere and Wisconsin breast cancer (K = 2), scaled; γ = 1, ρ = 0.1,
the same three random starts for all. "Algorithm 1" has neither soft gates at first nor our polish, and ends
where a step lowers L by no more than 1e-6, relative, or after 2,000 steps; such starts are not among
those that settled. An M-step is one step of its method, or five of BFGS (with limited memory, which a new
M-step forgets), or Newton to the M-step's own optimum. "Polished" ends by our direct minimisation of L from
where the steps become slow; "as by default" has the soft gates too. Stationary is what the certificate says,
at 1e-6.

The paper offers the three for the M-step, each with backtracking, and says that its smooth model satisfies
the conditions under which EM converges. The text at hand ends with its Section 5: what it says of their
speeds and of the L they reach, if anything, is not known here.

Seconds of the processor, of a start; those in the picture are the history's, scaled to them. A polish counts
as one step, whatever iterations it takes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from benchmarks.polyhedral_table import table_data
from formulations.language.solution import Solution, Status
from polyopt.base.files import replacing
from polyopt.certificates import Claim
from polyopt.methods.tuning import narrower_class
from polyopt.polyhedral.logistic_certificate import certify_plume
from polyopt.polyhedral.plume import PlumeProblem, solve_plume

FOLDER = Path(__file__).parent / "results"
GAMMA, RIDGE, STARTS, STEPS, TOL = 1.0, 0.1, 3, 2000, 1e-6
# Name, method of the M-step, and its iterations.
M_STEPS: tuple[tuple[str, Any, int], ...] = (
    ("gradient", "gradient", 1),
    ("Newton", "newton", 1),
    ("BFGS", "bfgs", 5),
    ("Newton to the end", "newton", 100),
)
ENDS: dict[str, dict[str, Any]] = {
    "Algorithm 1": {"anneal": False, "polish": False, "max_iter": STEPS, "tol": TOL},
    "polished": {"anneal": False},
    "as by default": {},
}


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per data set, M-step and end."""
    rows, lines = [], {}
    few: dict[str, Any] = {"max_iter": 20} if smoke else {}
    starts = 2 if few else STARTS
    for data, (X, y, K) in table_data().items():
        if smoke and data != "wbc":
            continue
        X = StandardScaler().fit_transform(X)
        side = np.where(y == (1 if data.startswith("data set") else narrower_class(X, y, {})), 1.0, -1.0)
        for name, method, inner in M_STEPS:
            problem = PlumeProblem(
                X, side, np.ones(len(side)), K, gamma=GAMMA, ridge=RIDGE, method=method, inner=inner
            )
            for end, settings in ENDS.items():
                runs = [_start(problem, seed, settings | few) for seed in range(starts)]
                rows.append({"data": data, "M-step": name, "end": end} | _row(problem, runs))
                lines[data, name, end] = runs
                print(f"  {data}, {name}, {end}: {rows[-1]['median L']:.2f}", flush=True)
    if not few:
        _draw(lines)
    return pd.DataFrame(rows)


def _start(problem: PlumeProblem, seed: int, settings: dict[str, Any]) -> tuple[Solution, float]:
    """One start to its end, and its CPU seconds."""
    started = time.process_time()
    found = solve_plume(problem, n_init=1, seed=seed, **settings)
    return found, time.process_time() - started


def _row(problem: PlumeProblem, runs: list[tuple[Solution, float]]) -> dict[str, Any]:
    ends = [found.objective for found, _ in runs]
    claims = [
        certify_plume(problem.X, problem.y, found["W"], gamma=GAMMA, ridge=RIDGE).claim for found, _ in runs
    ]
    return {
        "median L": np.median(ends),
        "least L": min(ends),
        "greatest L": max(ends),
        "steps": np.median([found.iterations for found, _ in runs]),
        "steps to within 1 % of its end": np.median([_near(found) for found, _ in runs]),
        "CPU seconds of a start": np.median([seconds for _, seconds in runs]),
        "starts": len(runs),
        "settled": sum(found.status is Status.CONVERGED for found, _ in runs),
        "stationary": sum(claim is Claim.STATIONARY for claim in claims),
    }


def _near(found: Solution) -> int:
    """The first step after which L, at the gate that was asked, is within 1 % of where it ends."""
    values = [record["objective"] for record in found.history if record["gamma"] == GAMMA]
    first = next(i for i, value in enumerate(values) if value <= 1.01 * values[-1])
    return len(found.history) - len(values) + first


def _draw(lines: dict[tuple[str, str, str], list[tuple[Solution, float]]]) -> None:
    from matplotlib.lines import Line2D

    from polyopt.plots.figure import GRID, INK, MUTED, new_figure, styled

    colors = {"gradient": "#b8860b", "Newton": "#c0392b", "BFGS": "#2471a3"}
    names = [*dict.fromkeys(data for data, _, _ in lines)]
    with styled():
        figure = new_figure(10.5, 5.4)
        axes = figure.subplots(2, len(names), sharey="col")
        for column, data in enumerate(names):
            for name, color in colors.items():
                for found, seconds in lines[data, name, "Algorithm 1"]:
                    _line(axes[:, column], found, seconds, color=color, linewidth=1.0, alpha=0.7)
                for found, seconds in lines[data, name, "polished"]:
                    _line(axes[:, column], found, seconds, last=True, color=color, marker="o", markersize=4)
            for row, label in enumerate(("steps + 1", "seconds")):
                axes[row, column].set(xscale="log", yscale="log", xlabel=label)
                axes[row, column].grid(axis="y", color=GRID)
            axes[0, column].set_title(data)
        axes[0, 0].set_ylabel("L", color=INK)
        axes[1, 0].set_ylabel("L", color=INK)
        keys = [Line2D([], [], color=color, label=name) for name, color in colors.items()]
        keys.append(Line2D([], [], color=MUTED, marker="o", linestyle="", label="its end, polished"))
        figure.legend(handles=keys, loc="outside lower center", ncols=4, frameon=False)
        FOLDER.mkdir(exist_ok=True)
        with replacing(FOLDER / "plume_steps.png") as stream:
            figure.savefig(stream, dpi=130)


def _line(pair: Any, found: Solution, seconds: float, last: bool = False, **style: Any) -> None:
    """One start against steps and against seconds; its last point alone where that is asked."""
    table = pd.DataFrame(found.history)
    scale = seconds / max(table["seconds"].iloc[-1], 1e-9)
    if last:
        table = table.iloc[-1:]
    pair[0].plot(table["step"] + 1.0, table["objective"], **style)
    pair[1].plot(table["seconds"] * scale, table["objective"], **style)
