"""The Polyceptron's Figure 3, mistakes against passes (online), and E_P against iterations (batch).

Data: the paper's synthetic sets 1 (K = 3) and 2 (K = 4), 1000 samples each, as they are, all of them trained
on. Online (Algorithm 2, step 1): passes until one makes no mistake, 5,000 at most. The paper's figure shows
that it gets there, and asks whether it always does. Batch (Algorithm 1, step 0.1, as the paper sets it):
until no sample is misclassified, 5,000 iterations at most, without a threshold. The paper observes that the
criterion E_P falls with every iteration: here the share of iterations in which it rises is counted, and how
far it is at the end under what it was at first. Each from STARTS random starts; a run that is ended by the
limit is counted as such. Drawn in results/polyceptron_steps.png. A minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from polyopt import datasets
from polyopt.base.files import replacing
from polyopt.optim.rounds import random_faces
from polyopt.polyhedral.polyceptron import solve_batch, solve_online

PICTURE = Path(__file__).parent / "results" / "polyceptron_steps.png"
STARTS, _LIMIT = 20, 5_000
_SOLVERS = {"online": "pass", "batch": "iteration"}

History = list[dict[str, float]]


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per data set and solver."""
    starts, limit = (2, 20) if smoke else (STARTS, _LIMIT)
    found: dict[tuple[str, str], list[History]] = {}
    for name, (X, y, K) in _sets().items():
        for solver in _SOLVERS:
            jobs = (delayed(_run)(X, y, K, solver, seed, limit) for seed in range(starts))
            found[name, solver] = Parallel(n_jobs=1 if smoke else -1)(jobs)
    if not smoke:
        _draw(found)
    return pd.DataFrame([_row(*key, histories) for key, histories in found.items()])


def _sets() -> dict[str, tuple[Any, Any, int]]:
    """Samples, labels ±1 and K."""
    made = {"data set 1": (datasets.make_polyceptron1, 3), "data set 2": (datasets.make_polyceptron2, 4)}
    found = {}
    for name, (make, K) in made.items():
        X, y = make(random_state=0)
        found[name] = X, np.where(y == 1, 1.0, -1.0), K
    return found


def _run(X: Any, y: Any, K: int, solver: str, seed: int, limit: int) -> History:
    """The records of one start."""
    c = np.ones(len(y))
    W = random_faces(X, y, c, K, np.random.default_rng(seed))
    if solver == "online":
        return list(solve_online(X, y, c, W, max_iter=limit, seed=seed).history)
    return list(solve_batch(X, y, c, W, max_iter=limit).history)


def _row(data: str, solver: str, histories: list[History]) -> dict[str, Any]:
    """What the runs of a solver have in common."""
    mistakes = [np.array([record["mistakes"] for record in history]) for history in histories]
    criteria = [np.array([record["criterion"] for record in history]) for history in histories]
    there = [len(m) for m in mistakes if m[-1] == 0]
    rises = np.concatenate([np.diff(criterion) > 0 for criterion in criteria])
    falls = [criterion[0] / criterion.min() if criterion.min() > 0 else np.inf for criterion in criteria]
    return {
        "data": data,
        "solver": solver,
        "unit": _SOLVERS[solver],
        "starts": len(histories),
        "without a mistake at the end": len(there),
        "units to there, median": float(np.median(there)) if there else np.nan,
        "most": max(there, default=np.nan),
        "fewest mistakes of the worst run": int(max(m.min() for m in mistakes)),
        "mistakes at 300, median": float(np.median([m[min(299, len(m) - 1)] for m in mistakes])),
        "E_P rises, % of steps": 100 * float(rises.mean()),
        "E_P falls at most by a factor of": float(np.median(falls)),
    }


def _draw(found: dict[tuple[str, str], list[History]]) -> None:
    """Mistakes against passes, and E_P against iterations; a line for each start."""
    from polyopt.plots.figure import BLUE, GRID, ORANGE, new_figure, styled

    names = list(dict.fromkeys(name for name, _ in found))
    with styled():
        figure = new_figure(4.2 * len(names), 6.4)
        panels = figure.subplots(2, len(names), squeeze=False)
        looks = {"online": ("mistakes", BLUE, "passes"), "batch": ("criterion", ORANGE, "iterations")}
        for (upper, lower), name in zip(panels.T, names, strict=True):
            for axes, solver in ((upper, "online"), (lower, "batch")):
                what, colour, unit = looks[solver]
                for history in found[name, solver]:
                    values = [record[what] for record in history]
                    axes.plot(np.arange(1, len(values) + 1), values, color=colour, alpha=0.35, linewidth=0.8)
                axes.set_xscale("log")
                if solver == "online":
                    axes.set_yscale("symlog", linthresh=1.0)  # down to no mistake
                    axes.set_ylim(bottom=0)
                else:
                    axes.set_yscale("log")
                axes.grid(axis="y", color=GRID)
                axes.set(xlabel=unit, ylabel="samples misclassified" if solver == "online" else "E_P")
            upper.set_title(f"{name}, online: mistakes")
            lower.set_title(f"{name}, batch: the criterion")
        with replacing(PICTURE) as stream:
            figure.savefig(stream, dpi=110)
