"""The README's pictures: an RMM, a polytope machine, the polyhedral family, few support vectors, as files.

The claim is what the certificates of the machines in a picture prove of them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons
from sklearn.preprocessing import StandardScaler

from benchmarks.helpers.words import word_of
from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySVM,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    datasets,
)
from polyopt.files import replacing
from polyopt.plots import decision_boundaries, decision_boundary

FOLDER = Path(__file__).parent / "results"


def run(smoke: bool = False) -> pd.DataFrame:
    wdbc = datasets.load("wdbc")
    columns = ["mean radius", "mean concave points"]
    chosen = [list(wdbc.feature_names).index(name) for name in columns]
    X = StandardScaler().fit_transform(wdbc.X[:, chosen])
    polytope, labels, _, _ = datasets.make_polytope(300, 2, 4, margin=0.1, noise=0.02, random_state=3)
    jobs = {
        "rmm": (RelativeMarginMachine(C=1.0, B=4.5, kernel="linear"), X, wdbc.y, columns, wdbc.target_names),
        "cpm": (
            ConvexPolytopeMachine(n_faces=4, C=10.0, inside_label=1, solver="exact", random_state=0),
            polytope, labels, ["first feature", "second feature"], ("outside", "inside"),
        ),
    }  # fmt: skip
    FOLDER.mkdir(exist_ok=True)
    rows = []
    for name, (machine, data, y, axis_names, class_names) in jobs.items():
        started = time.perf_counter()
        machine.fit(data, y)
        figure = decision_boundary(
            machine, data, np.asarray(y), axis_names=axis_names, class_names=class_names,
            title=type(machine).__name__,
        )  # fmt: skip
        path = FOLDER / f"{name}.png"
        if not smoke:
            with replacing(path) as stream:
                figure.savefig(stream, dpi=110)
        rows.append({"picture": path.name, "claim": _claim(machine),
                     "seconds": time.perf_counter() - started})  # fmt: skip
    rows += [_family(polytope, labels, smoke), _few_support_vectors(smoke)]
    return pd.DataFrame(rows)


def _family(X: np.ndarray, y: np.ndarray, smoke: bool) -> dict[str, object]:
    """Six machines with four faces on the same samples."""
    started = time.perf_counter()
    inside = {"inside_label": 1, "random_state": 0}
    machines = {
        "Polyceptron, batch": Polyceptron(4, **inside),
        "Polyceptron, exact": Polyceptron(4, solver="exact", **inside),
        "SPLA1": SPLA1(4, **inside),
        "PC-SLP": PCSLP(4, **inside),
        "PLUME": PLUME(4, **inside),
        "Convex Polytope Machine": ConvexPolytopeMachine(4, C=10.0, **inside),
    }
    for machine in machines.values():
        machine.fit(X, y)
    figure = decision_boundaries(
        machines, X, y,
        axis_names=["first feature", "second feature"], class_names=("outside", "inside"),
    )  # fmt: skip
    return _saved("polyhedral.png", figure, machines, started, smoke)


def _few_support_vectors(smoke: bool) -> dict[str, object]:
    """The SVM, the one-norm machine and the L0 machine, with the same kernel and cost."""
    started = time.perf_counter()
    X, y = make_moons(100, noise=0.2, random_state=0)
    shared = {"C": 1.0, "gamma": 1.0}
    kinds = {
        "SVM": SVM(**shared),
        "One-norm SVM": OneNormSVM(**shared),
        "L0 machine": CrossEntropySVM(solver="ce" if smoke else "global", random_state=0, **shared),
    }
    machines = {}
    for name, machine in kinds.items():
        machine.fit(X, y)
        machines[f"{name}: {len(machine.support_)} support vectors"] = machine
    figure = decision_boundaries(machines, X, y, axis_names=["first feature", "second feature"])
    return _saved("l0.png", figure, machines, started, smoke)


def _saved(
    name: str, figure: Any, machines: dict[str, Any], started: float, smoke: bool
) -> dict[str, object]:
    if not smoke:
        with replacing(FOLDER / name) as stream:
            figure.savefig(stream, dpi=110)
    claims = dict.fromkeys(map(_claim, machines.values()))
    return {"picture": name, "claim": ", ".join(claims), "seconds": time.perf_counter() - started}


def _claim(machine: Any) -> str:
    return word_of(machine.certificate().claim)
