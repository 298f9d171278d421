"""The cross-entropy slides' three tables beside ours: error and share of support vectors, 45 cells.

Data: ionosphere, pima, wdbc, bupa, sonar; five random splits, 80 % to train and 20 % to validate, stratified;
features scaled on the training part. Kernels: linear; polynomial of degree 2 or 3, (x'z/m + 1)^d; RBF. The
slides name the data, and nothing else of what is in this line: helpers/slides.py says what they leave open.

Settings are chosen within each training part by threefold cross-validation on the grids in this file, by
two rules: "error", the least error and, among settings of the same, the fewest support vectors; "sparsity",
the fewest support vectors among the settings whose error is within a standard error, over the folds, of the
least. The L0 machine is chosen as ``solver="one-norm"``, two linear programs, and then fitted by the
cross-entropy method, one run. Shares are of the training samples; ± is the deviation over the splits, ours
and theirs. The status is of the fits that a row counts and of those that chose their settings: CE's
"converged" says that its search settled, and nothing of the optimum, which lies at most the "gap" below
its score (the relaxation's bound; the median of the splits). Seconds are of that fit, of the processor.

The slides' share is "met" where ours is at or below it and our error is not above theirs by more than their
deviation. The claims drawn from these cells are ``l0_claims``.

Every split is kept in results/l0_tables.csv as it ends, and not computed again: delete the file, or some
lines of it, to do so. Splits run side by side, as many as there are processors.
"""

from __future__ import annotations

import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from benchmarks.helpers.slides import DATA, METHODS, PRINTED
from polyopt import SVM, CrossEntropySVM, OneNormSVM, datasets
from polyopt.base.files import write_text
from polyopt.estimators.status import FINE

KEPT = Path(__file__).parent / "results" / "l0_tables.csv"
RULES = ("error", "sparsity")
SPLITS, _INNER = 5, 3
_COSTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

# A kernel's settings, gamma in units of 1/m.
KERNELS: dict[str, list[dict[str, Any]]] = {
    "linear": [{"kernel": "linear"}],
    "polynomial": [{"kernel": "poly", "coef0": 1.0, "gamma": 1.0, "degree": d} for d in (2, 3)],
    "RBF": [{"kernel": "rbf", "gamma": g} for g in (0.1, 0.3, 1.0, 3.0)],
}

# Each machine, as its settings are chosen and as it is fitted then.
_MACHINES: dict[str, tuple[Any, Any]] = {
    "SVM": (SVM(), SVM()),
    "CE": (CrossEntropySVM(solver="one-norm"), CrossEntropySVM(random_state=0)),
    "one-norm SVM": (OneNormSVM(), OneNormSVM()),
}


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per kernel, data set, method and rule; splits that are not kept are computed."""
    if smoke:
        data = datasets.load("sonar")
        few = _split("sonar", data.X[::3, :10], data.y[::3], "linear", 0)
        return as_printed(pd.DataFrame(few), whole=False)
    rows: list[Any] = pd.read_csv(KEPT).to_dict("records") if KEPT.is_file() else []
    done = {(row["split"], row["kernel"], row["data"]) for row in rows}
    at_hand = {name: data for name in DATA if (data := _loaded(name)) is not None}
    # The first split of every cell, then the second: a table that is broken off has something of each.
    left = [job for job in product(range(SPLITS), KERNELS, at_hand) if job not in done]
    found = Parallel(n_jobs=-1, return_as="generator")(
        delayed(_split)(name, at_hand[name].X, at_hand[name].y, kernel, split) for split, kernel, name in left
    )
    for (split, kernel, name), new in zip(left, found, strict=True):
        rows += new
        write_text(KEPT, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g"))
        shares = ", ".join(f"{row['method']} by {row['rule']} {row['share']:.1f} %" for row in new)
        print(f"  split {split}, {kernel}, {name}: {shares}", flush=True)
    return as_printed(pd.DataFrame(rows))


def _loaded(name: str) -> Any:
    try:
        return datasets.load(name)
    except datasets.DatasetUnavailable:
        return None


def _split(name: str, X: Any, y: Any, kernel: str, split: int) -> list[dict[str, Any]]:
    """The rows of all methods and both rules on one split."""
    warnings.simplefilter("ignore")
    shuffle = StratifiedShuffleSplit(SPLITS, test_size=0.2, random_state=0)
    train, validate = list(shuffle.split(X, y))[split]
    X = np.asarray(X, dtype=float)
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[validate])
    grid = [_in_features({"C": C, **how}, X.shape[1]) for C in _COSTS for how in KERNELS[kernel]]
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        chosen, limits = _choose(_MACHINES[method][0], grid, A, y[train])
        fits: dict[int, dict[str, Any]] = {}
        for rule, place in chosen.items():
            if place not in fits:
                machine = clone(_MACHINES[method][1]).set_params(**grid[place])
                fits[place] = _fit(machine, (A, y[train]), (B, y[validate]))
            told = {"C": np.nan, "gamma": np.nan, "degree": np.nan, **grid[place]}
            rows.append(
                {"kernel": kernel, "data": name, "split": split, "method": method, "rule": rule}
                | fits[place]
                | {"choosing fits at a limit": limits}
                | {key: told[key] for key in ("C", "gamma", "degree")}
            )
    return rows


def _fit(machine: Any, train: tuple[Any, Any], validate: tuple[Any, Any]) -> dict[str, Any]:
    started = time.process_time()
    machine.fit(*train)
    seconds = time.process_time() - started
    found, vectors = machine.solution_, len(machine.support_)
    is_l0 = isinstance(machine, CrossEntropySVM)
    return {
        "error": 100.0 * (1.0 - machine.score(*validate)),
        "share": 100.0 * vectors / len(train[1]),
        "support vectors": vectors,
        "status": found.status.name,
        "score": found.objective if is_l0 else np.nan,
        "bound": found.bound if is_l0 else np.nan,
        "seconds": seconds,
    }


def _in_features(settings: dict[str, Any], m: int) -> dict[str, Any]:
    return {**settings, "gamma": settings["gamma"] / m} if "gamma" in settings else settings


def _choose(machine: Any, grid: list[dict[str, Any]], X: Any, y: Any) -> tuple[dict[str, int], int]:
    """The place in the grid that each rule chooses, and how many fits ended at a limit."""
    folds = list(StratifiedKFold(_INNER, shuffle=True, random_state=0).split(X, y))
    errors, sizes = np.empty((len(grid), _INNER)), np.empty((len(grid), _INNER))
    limits = 0
    for (row, settings), (column, (train, rest)) in product(enumerate(grid), enumerate(folds)):
        fitted = clone(machine).set_params(**settings).fit(X[train], y[train])
        errors[row, column] = 1.0 - fitted.score(X[rest], y[rest])
        sizes[row, column] = len(fitted.support_)
        limits += fitted.solution_.status not in FINE
    return {rule: chosen_place(errors, sizes, rule) for rule in RULES}, limits


def chosen_place(errors: np.ndarray, sizes: np.ndarray, rule: str) -> int:
    """The settings that a rule chooses.

    `errors` and `sizes` have shape (settings, folds). The rule "error" takes the least error, then the
    fewest support vectors; "sparsity" the fewest support vectors within one standard error of the least
    error, the standard error being that of the settings with the least, and then the least error.
    """
    error, size = errors.mean(axis=1).round(9), sizes.mean(axis=1)
    best = int(np.lexsort((size, error))[0])
    if rule == "error":
        return best
    allowed = error[best] + errors[best].std(ddof=1) / np.sqrt(errors.shape[1])
    return int(np.lexsort((error, size, error > allowed + 1e-9))[0])


def as_printed(rows: pd.DataFrame, whole: bool = True) -> pd.DataFrame:
    """Ours and the slides' cells, one row per kernel, data, method and rule.

    `whole`: cells of the slides that are not computed are shown as well.
    """
    cells = []
    by = dict(iter(rows.groupby(["kernel", "data", "method", "rule"])))
    for kernel, name, method, rule in product(KERNELS, DATA, METHODS, RULES):
        printed = PRINTED[kernel, name, method]
        cell = {"kernel": kernel, "data": name, "method": method, "rule": rule}
        slides = {
            "slides: error, %": f"{printed.error:.1f} ± {printed.error_deviation:.1f}",
            "slides: vectors, %": f"{printed.share:.1f} ± {printed.share_deviation:.1f}",
        }
        group = by.get((kernel, name, method, rule))
        cells.append(cell | slides | ({"status": "not computed"} if group is None else _summary(group)))
    table = pd.DataFrame(cells)
    return table if whole else table[table["status"] != "not computed"]


def meets(group: pd.DataFrame) -> bool:
    """Whether a cell's share is at or below the slides', at an error within a deviation of theirs."""
    first = group.iloc[0]
    printed = PRINTED[first["kernel"], first["data"], first["method"]]
    no_worse = group["error"].mean() <= printed.error + printed.error_deviation
    return bool(no_worse and group["share"].mean() <= printed.share)


def _summary(group: pd.DataFrame) -> dict[str, Any]:
    at_limit = int((~group["status"].isin([status.name for status in FINE])).sum())
    choosing = int(group["choosing fits at a limit"].sum())
    status = "converged" if not at_limit + choosing else f"limit: {at_limit} fits, {choosing} choosing"
    if len(group) < SPLITS:
        status += f"; {len(group)} of {SPLITS} splits"
    gap = 100.0 * (group["score"] / group["bound"] - 1.0)
    return {
        "error, %": _with_deviation(group["error"]),
        "vectors, %": _with_deviation(group["share"]),
        "met": "yes" if meets(group) else "no",
        "status": status,
        "gap, at most, %": "" if gap.isna().all() else f"{gap.median():.1f}",
        "median C": f"{group['C'].median():g}",
        "CPU seconds": float(group["seconds"].median()),
    }


def _with_deviation(values: pd.Series) -> str:
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")
