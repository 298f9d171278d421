"""What the training data say of the error on new ones: the RMM paper's three classes, on MNIST's 3s and 5s.

8,000 samples of unit length are fitted, 400 others without labels are the landmarks of the classes G and H,
and the measured error is that on the test set. The bounds hold with probability 0.95, each by itself. B is
at a half, and at a tenth, of the way from 1 to the SVM's largest output. Every row of a bound is at the
margin, the constant and the D that make it least, so capacities are not of one class across a row.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import normalize

from polyopt import SVM, RelativeMarginMachine, SigmaSVM, datasets

_C, _D = 0.03, 0.5
_SHARES = (1 / 2, 1 / 10)


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per kernel and machine."""
    data = datasets.load("digits" if smoke else "mnist")
    X, y = _threes_and_fives(data.X, data.y)
    order = np.random.default_rng(0).permutation(len(y))
    train, rest = (order[:150], order[150:200]) if smoke else (order[:8_000], order[8_000:8_400])
    T, t = (X[order[200:]], y[order[200:]]) if smoke else _threes_and_fives(data.X_test, data.y_test)
    rows: list[dict[str, Any]] = []
    for kernel in ({"kernel": "linear"}, {"kernel": "rbf", "gamma": 1.0}):
        svm = SVM(C=_C, **kernel).fit(X[train], y[train])
        largest = float(np.abs(svm.decision_function(X[train])).max())
        bounds = [1.0 + max(largest - 1.0, 0.0) * share for share in _SHARES]
        machines = {"SVM": svm} | {
            f"RMM, B = {B:.2f}": RelativeMarginMachine(_C, B, **kernel) for B in bounds
        }
        if kernel["kernel"] == "linear":  # with a kernel the Sigma-SVM needs the whole matrix
            machines[f"Sigma-SVM, D = {_D:g}"] = SigmaSVM(_C, _D, **kernel)
        for name, machine in machines.items():
            machine.fit(X[train], y[train])
            started = time.process_time()
            found = {form: machine.generalization_bound(0.05, X[rest], form) for form in "FGH"}
            seconds = time.process_time() - started
            rows.append(
                {
                    "kernel": kernel["kernel"],
                    "machine": name,
                    "test error": float((machine.predict(T) != t).mean()),
                }
                | {f"bound, {form}": bound.total for form, bound in found.items()}
                | {f"capacity, {form}": bound.capacity for form, bound in found.items()}
                | {"CPU seconds of the bounds": seconds}
            )
    return pd.DataFrame(rows)


def _threes_and_fives(X: Any, y: Any) -> tuple[Any, Any]:
    kept = np.isin(y, (3, 5))
    return normalize(np.asarray(X)[kept].reshape(int(kept.sum()), -1).astype(float)), np.asarray(y)[kept]
