"""Unions of polytopes on classes in several pieces, beside one polytope, logistic polytopes and the RBF SVM.

Each draw is a training part and a test part: random halves of banana; boards of 4 x 4 fields, two spirals,
and Breiman's ringnorm (one Gaussian within another, in 20 dimensions), with 10,000 fresh test samples.
Features are scaled by the training part. Of the union, C is the one with the least error on the samples that
the machine itself holds out for its choice of pieces and side; the logistic polytopes are those of their
search, with none or three knots of each feature, where faces may bend; the settings of the others are chosen
by one split within the training part. On ringnorm the one polytope is trained by SGD, for it has up to 160
faces there. Numbers are weights and biases that are not 0, and knots in use.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.helpers.interpretable_data import load_set
from benchmarks.helpers.interpretable_size import final_model, numbers_of
from polyopt import ConvexPolytopeMachine, LogisticPolytopes, LogisticSearch, PolytopeUnion
from polyopt.datasets import make_checkerboard, make_ringnorm, make_two_spirals

_TEST, _DRAWS = 10_000, 5
_COSTS = (1.0, 10.0, 100.0)


def _halves(seed: int) -> tuple[Any, Any, Any, Any]:
    X, y = load_set("banana")
    order = np.random.default_rng(seed).permutation(len(y))
    first, second = np.array_split(order, 2)
    X = X.to_numpy()
    return X[first], y[first], X[second], y[second]


def _made(make: Callable[..., Any], n: int) -> Callable[[int], tuple[Any, Any, Any, Any]]:
    def draw(seed: int) -> tuple[Any, Any, Any, Any]:
        return *make(n, random_state=seed), *make(_TEST, random_state=1000 + seed)

    return draw


_SETS: dict[str, Callable[[int], tuple[Any, Any, Any, Any]]] = {
    "banana, halves": _halves,
    "4 x 4 board, n = 1000": _made(make_checkerboard, 1000),
    "4 x 4 board, n = 2000": _made(make_checkerboard, 2000),
    "two spirals, n = 1000": _made(make_two_spirals, 1000),
    "ringnorm, n = 3700": _made(make_ringnorm, 3700),
}
_UNION, _ONE, _MANY, _RBF = "union", "one polytope", "one polytope, many faces", "RBF SVM"
_GRIDS: dict[str, tuple[Any, dict[str, Any]]] = {
    _ONE: (
        ConvexPolytopeMachine(solver="dual", n_init=5, random_state=0),
        {"C": _COSTS, "n_faces": (4, 8), "double_sided": (False, True)},
    ),
    _MANY: (
        ConvexPolytopeMachine(solver="sgd", random_state=0),
        {"C": _COSTS, "n_faces": (10, 40, 160), "inside_label": (-1, 1)},
    ),
    _RBF: (SVC(cache_size=500), {"C": (1.0, 10.0, 100.0, 1000.0), "gamma": (0.3, 1.0, 3.0, 10.0)}),
}
_SEARCHES = {"logistic polytopes, 60 numbers": (4, 60), "logistic polytopes, any size": (16, None)}
"""The most faces of a class, and the most numbers."""


def run(smoke: bool = False) -> pd.DataFrame:
    rows = []
    for data, draw in list(_SETS.items())[: 1 if smoke else None]:
        one = _MANY if data.startswith("ringnorm") else _ONE
        for name in (_UNION, one, *_SEARCHES, _RBF):
            each = pd.DataFrame([_outcome(name, draw(seed), smoke) for seed in range(1 if smoke else _DRAWS)])
            rows.append(
                {
                    "data": data,
                    "machine": name,
                    "draws": len(each),
                    "accuracy, %": each["accuracy"].mean(),
                    "worst, %": each["accuracy"].min(),
                    "pieces": each["pieces"].median(),
                    "faces": each["faces"].median(),
                    "numbers": each["numbers"].median(),
                    "CPU seconds, with the choice": each["seconds"].median(),
                }
            )
    return pd.DataFrame(rows)


def _outcome(name: str, parts: tuple[Any, Any, Any, Any], smoke: bool) -> dict[str, Any]:
    X, y, X_test, y_test = parts
    if smoke:
        X, y = X[:300], y[:300]
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = _chosen(name, X, y, smoke)
    seconds = time.process_time() - started
    best = final_model(found)
    pieces, faces = getattr(best, "pieces_", None), getattr(best, "W_", None)
    return {
        "seconds": seconds,
        "accuracy": 100.0 * float(found.score(X_test, y_test)),
        "pieces": np.nan if pieces is None else len(np.unique(pieces)),
        "faces": np.nan if faces is None else len(faces),
        "numbers": np.nan if faces is None else numbers_of(found),
    }


def _chosen(name: str, X: Any, y: Any, smoke: bool) -> Any:
    if name == _UNION:
        return _union(X, y, smoke)
    if name in _GRIDS:
        return _searched(*_GRIDS[name], X, y, smoke)
    faces, numbers = _SEARCHES[name]
    machine = LogisticPolytopes(n_init=2, random_state=0, tol=1e-3)
    return LogisticSearch(machine, max_faces=faces, max_numbers=numbers, n_knots=(0, 3)).fit(X, y)


def _union(X: Any, y: Any, smoke: bool) -> PolytopeUnion:
    """The union whose C has the least error on what is held out; of equal ones the smallest C."""
    found = []
    for C in _COSTS[:1] if smoke else _COSTS:
        machine = PolytopeUnion(n_faces=4, C=C, inside_label="auto", solver="dual", random_state=0)
        errors = machine.fit(X, y).history_.get("error", pd.Series(dtype=float))
        found.append((float(errors.min()), machine))
    return min(found, key=lambda one: one[0])[1]


def _searched(machine: Any, grid: dict[str, Any], X: Any, y: Any, smoke: bool) -> Any:
    few = {name: list(values)[:1] if smoke else list(values) for name, values in grid.items()}
    split = StratifiedShuffleSplit(1, test_size=0.3, random_state=0)
    return GridSearchCV(machine, few, cv=split).fit(X, y).best_estimator_
