"""The cross-entropy slides' three tables: error and share of support vectors of SVM, CE and one-norm SVM.

Data: ionosphere, pima, wdbc, bupa, sonar; five random splits, 80 % to train and 20 % to validate, stratified;
features scaled on the training part. Kernels: linear; polynomial of degree 2 or 3, (x'z/m + 1)^d; RBF. The
parameters are tuned within each training part by threefold cross-validation on the grids in this file, by the
least error and, among settings of the same, by the fewest support vectors. The L0 machine is tuned as
``solver="one-norm"``, two linear programs, and then fitted by the cross-entropy method, one run. Shares are
of the training samples. Seconds are of the last fit, of the processor, on one thread, medians.

How the slides tuned is not known, and their figures are not at hand: PAPER is where they belong.

Every cell is kept in results/l0_tables.csv as it ends, and not computed again: delete the file, or some lines
of it, to do so. The splits of a cell run side by side, as many as there are processors.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from polyopt import SVM, CrossEntropySVM, OneNormSVM, datasets
from polyopt.files import write_text

KEPT = Path(__file__).parent / "results" / "l0_tables.csv"
DATA = ("ionosphere", "pima", "wdbc", "bupa", "sonar")
_SPLITS, _INNER = 5, 3
_COSTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

# A kernel's settings, gamma in units of 1/m.
KERNELS: dict[str, list[dict[str, Any]]] = {
    "linear": [{"kernel": "linear"}],
    "polynomial": [{"kernel": "poly", "coef0": 1.0, "gamma": 1.0, "degree": d} for d in (2, 3)],
    "RBF": [{"kernel": "rbf", "gamma": g} for g in (0.1, 0.3, 1.0, 3.0)],
}

# Each machine, as it is tuned and as it is fitted then.
METHODS: dict[str, tuple[Any, Any]] = {
    "SVM": (SVM(), SVM()),
    "CE": (CrossEntropySVM(solver="one-norm"), CrossEntropySVM(random_state=0)),
    "one-norm SVM": (OneNormSVM(), OneNormSVM()),
}

# The slides' figures: (data, kernel, method) to (error, share of support vectors), both in per cent.
PAPER: dict[tuple[str, str, str], tuple[float, float]] = {}


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per kernel, data set and method; the kept table, where it is complete, is only shown."""
    if smoke:
        X, y = datasets.load("sonar").X[::3, :10], datasets.load("sonar").y[::3]
        return _shown(pd.DataFrame([_cell("sonar", X, y, "linear", method, splits=2) for method in METHODS]))
    rows: list[Any] = pd.read_csv(KEPT).to_dict("records") if KEPT.is_file() else []
    done = {(row["kernel"], row["data"], row["method"]) for row in rows}
    for kernel, name, method in product(KERNELS, DATA, METHODS):
        if (kernel, name, method) not in done:
            data = datasets.load(name)
            rows.append(_cell(name, data.X, data.y, kernel, method))
            write_text(KEPT, pd.DataFrame(rows).to_csv(index=False, float_format="%.5g"))
            cell = rows[-1]
            print(
                f"  {kernel}, {name}, {method}: {cell['error']:.1f} %, {cell['share']:.1f} % SV", flush=True
            )
    return _shown(pd.DataFrame(rows))


def _cell(name: str, X: Any, y: Any, kernel: str, method: str, splits: int = _SPLITS) -> dict[str, Any]:
    shuffle = StratifiedShuffleSplit(splits, test_size=0.2, random_state=0)
    one = partial(_split, np.asarray(X, dtype=float), y, kernel, method)
    found = np.array(
        Parallel(n_jobs=-1)(delayed(one)(train, validate) for train, validate in shuffle.split(X, y))
    )
    error, share, seconds, cost = found.T
    paper_error, paper_share = PAPER.get((name, kernel, method), (np.nan, np.nan))
    return {
        "kernel": kernel,
        "data": name,
        "method": method,
        "error": error.mean(),
        "error deviation": error.std(ddof=1),
        "share": share.mean(),
        "share deviation": share.std(ddof=1),
        "paper's error": paper_error,
        "paper's share": paper_share,
        "median C": float(np.median(cost)),
        "seconds": float(np.median(seconds)),
    }


def _split(
    X: Any, y: Any, kernel: str, method: str, train: Any, validate: Any
) -> tuple[float, float, float, float]:
    """Validation error and share of support vectors in per cent, seconds of the fit, and C."""
    warnings.simplefilter("ignore")
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[validate])
    tuned, fitted = METHODS[method]
    grid = [_in_features({"C": C, **settings}, X.shape[1]) for C in _COSTS for settings in KERNELS[kernel]]
    best = _tune(tuned, grid, A, y[train])
    machine = clone(fitted).set_params(**best)
    started = time.process_time()
    machine.fit(A, y[train])
    seconds = time.process_time() - started
    share = 100.0 * len(machine.support_) / len(train)
    return 100.0 * (1.0 - machine.score(B, y[validate])), share, seconds, best["C"]


def _in_features(settings: dict[str, Any], m: int) -> dict[str, Any]:
    return {**settings, "gamma": settings["gamma"] / m} if "gamma" in settings else settings


def _tune(machine: Any, grid: list[dict[str, Any]], X: Any, y: Any) -> dict[str, Any]:
    folds = list(StratifiedKFold(_INNER, shuffle=True, random_state=0).split(X, y))
    errors, sizes = np.empty((len(grid), _INNER)), np.empty((len(grid), _INNER))
    for (row, settings), (column, (train, rest)) in product(enumerate(grid), enumerate(folds)):
        fitted = clone(machine).set_params(**settings).fit(X[train], y[train])
        errors[row, column] = 1.0 - fitted.score(X[rest], y[rest])
        sizes[row, column] = len(fitted.support_)
    return grid[int(np.lexsort((sizes.mean(axis=1), errors.mean(axis=1).round(9)))[0])]


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    order = [[*KERNELS].index(k) * 100 + [*DATA].index(d) * 10 + [*METHODS].index(m)
             for k, d, m in zip(table["kernel"], table["data"], table["method"], strict=True)]  # fmt: skip
    table = table.iloc[np.argsort(order)]
    text = {
        f"{name}, %": [f"{a:.1f} ± {d:.1f}" for a, d in zip(table[of], table[f"{of} deviation"], strict=True)]
        for name, of in (("error", "error"), ("support vectors", "share"))
    }
    rest = table[["paper's error", "paper's share", "median C", "seconds"]].dropna(axis=1, how="all")
    rest = rest.rename(columns={"seconds": "CPU seconds of a fit"})
    return pd.concat(
        [table[["kernel", "data", "method"]], pd.DataFrame(text, index=table.index), rest], axis=1
    )
