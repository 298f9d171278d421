"""The lab: from a point that was dragged to its new picture, at 200 points, measured at the engine.

Two overlapping classes of 100 points each, one of which moves a little, 60 times. What is timed is all that
the engine does with a message: it reads the state, solves, certifies, works out every point's numbers and a
grid of 60 by 60 values, and writes JSON; the browser then draws, which is not timed here. Machines take
turns, so that noise falls on all alike. Milliseconds are the processor's, all threads together; those by the
clock on the wall are as long as the machine's other work makes them. The parts are medians by that clock. A
Convex Polytope Machine of one face is one of fixed assignments, and convex; of several it alternates from 10
starts, and is here to compare. The bar is 80 milliseconds for the convex machines.
"""

from __future__ import annotations

import json
import time
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from polyopt.lab.engine import Engine

_POINTS, _DRAGS = 200, 60
_GRID = [60, 60]
MACHINES: dict[str, tuple[str, dict[str, Any]]] = {
    "SVM, linear": ("svm", {"kernel": "linear"}),
    "SVM, RBF": ("svm", {"kernel": "rbf"}),
    "Sigma-SVM, linear": ("sigma-svm", {"kernel": "linear"}),
    "Sigma-SVM, RBF": ("sigma-svm", {"kernel": "rbf"}),
    "RMM, linear, B = 2": ("rmm", {"kernel": "linear", "B": 2.0}),
    "RMM, RBF, B = 2": ("rmm", {"kernel": "rbf", "B": 2.0}),
    "RMM, RBF, B by the data": ("rmm", {"kernel": "rbf"}),
    "RMM with slack on its bounds, RBF, B = 2": ("rmm", {"kernel": "rbf", "B": 2.0, "bound_cost": 1.0}),
    "one-norm SVM, linear": ("one-norm-svm", {"kernel": "linear"}),
    "one-norm SVM, RBF": ("one-norm-svm", {"kernel": "rbf"}),
    "CPM, one face": ("cpm", {"n_faces": 1}),
    "CPM, three faces": ("cpm", {"n_faces": 3}),
}


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per machine."""
    count, drags = (20, 2) if smoke else (_POINTS, _DRAGS)
    points, generator = points_of(count), np.random.default_rng(1)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in MACHINES}
    pictures: dict[str, list[dict[str, Any]]] = {name: [] for name in MACHINES}
    for drag in range(-2, drags):
        step = generator.normal(scale=0.1, size=2)
        points[0] = [points[0][0] + step[0], points[0][1] + step[1], points[0][2]]
        for name, (machine, settings) in MACHINES.items():
            took, picture = _drag({"points": points, "machine": machine, "settings": settings})
            if drag >= 0:  # what came before has compiled
                seconds[name].append(took)
                pictures[name].append(picture)
    return pd.DataFrame([_row(name, seconds[name], pictures[name]) for name in MACHINES])


def points_of(count: int) -> list[list[float]]:
    """Two overlapping classes in the plane: x, y and label of each point."""
    generator = np.random.default_rng(0)
    y = np.where(np.arange(count) % 2 == 0, 1, -1)
    X = generator.normal(size=(count, 2)) + 0.8 * y[:, None]
    return [[float(u), float(v), int(label)] for (u, v), label in zip(X, y, strict=True)]


def _drag(state: dict[str, Any]) -> tuple[tuple[float, float], dict[str, Any]]:
    """Wall and processor seconds from a message to its answer, and the answer."""
    sent: list[str] = []
    engine = Engine(lambda message: sent.append(json.dumps(message, allow_nan=False)))
    asked = json.dumps({"id": 1, "op": "solve", "state": state, "grid": _GRID, "words": False})
    wall, cpu = time.perf_counter(), time.process_time()
    engine.receive(asked)
    engine.wait()
    took = time.perf_counter() - wall, time.process_time() - cpu
    engine.close()
    return took, json.loads(sent[-1])


def _row(name: str, seconds: list[tuple[float, float]], pictures: list[dict[str, Any]]) -> dict[str, Any]:
    def part(key: str) -> float:
        return 1e3 * median(picture["timings"][key] for picture in pictures)

    wall, cpu = (np.array(one) * 1e3 for one in zip(*seconds, strict=True))
    claims = [picture["certificate"]["claim"] for picture in pictures]
    return {
        "machine": name,
        "ms, median": float(np.median(cpu)),
        "ms, 95 %": float(np.quantile(cpu, 0.95)),
        "ms, worst": float(cpu.max()),
        "by the clock, median": float(np.median(wall)),
        "by the clock, 95 %": float(np.quantile(wall, 0.95)),
        "solve": part("solve"),
        "certificate": part("certificate"),
        "points": part("samples"),
        "grid": part("grid"),
        "proven": f"{sum(claim == 'optimal' for claim in claims)} of {len(claims)}",
    }
