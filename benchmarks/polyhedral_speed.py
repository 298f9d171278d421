"""The polyhedral family's seconds from one start: the batch Polyceptron against SPLA1, and the others beside.

Every method begins at the same random faces, on scaled data, K as in polyhedral_table, and stops by its own
rule. Times are CPU seconds, medians of interleaved rounds; they are compared with SPLA1's by BFGS, as in its
paper. The Polyceptron's paper has the batch faster than SPLA1 on every set.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import pandas as pd
from sklearn.preprocessing import StandardScaler

from benchmarks.helpers.timing import race
from benchmarks.polyhedral_table import table_data
from polyopt import PCSLP, PLUME, SPLA1, Polyceptron
from polyopt.methods.tuning import narrower_class

METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SPLA1, BFGS": (SPLA1, {"solver": "bfgs"}),
    "SPLA1, Newton": (SPLA1, {"solver": "newton"}),
    "Polyceptron, batch": (Polyceptron, {}),
    "Polyceptron, batch, γ = 50": (Polyceptron, {"threshold": 50.0, "pocket": False}),
    "Polyceptron, online": (Polyceptron, {"solver": "online"}),
    "Polyceptron, HiGHS": (Polyceptron, {"solver": "highs"}),
    "PC-SLP": (PCSLP, {}),
    "PLUME": (PLUME, {}),
}


def run(smoke: bool = False) -> pd.DataFrame:
    rows = []
    for name, (X, y, K) in table_data().items():
        if smoke and name != "wbc":
            continue
        X = StandardScaler().fit_transform(X)
        inside = 1 if name.startswith("data set") else narrower_class(X, y, {})
        machines = {
            method: machine(K, inside_label=inside, n_init=1, random_state=0, **settings)
            for method, (machine, settings) in METHODS.items()
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds = race(
                {method: _fit(machine, X, y) for method, machine in machines.items()},
                rounds=1 if smoke else 7, clock=time.process_time,
            )  # fmt: skip
        rows += [
            {
                "data": name,
                "method": method,
                "CPU seconds": seconds[method],
                "times faster than SPLA1, BFGS": seconds["SPLA1, BFGS"] / seconds[method],
                "iterations": machine.n_iter_,
                "training accuracy, %": 100 * machine.score(X, y),
            }
            for method, machine in machines.items()
        ]
    return pd.DataFrame(rows)


def _fit(machine: Any, X: Any, y: Any) -> Any:
    return lambda: machine.fit(X, y)
