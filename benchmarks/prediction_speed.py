"""Microseconds a row that predictions take: folded polytopes against EBM, on raw rows.

Both are fitted to the same rows, at most 2,000, and give ``predict_proba`` for tables as they come: arrays of
numbers, frames with categories. The polytopes are logistic ones: of a search for at most 60 numbers, with
eight faces for each class and every weight in use, and the two of ``interpretable``, whose faces may bend and
whose columns do. They are behind ``Columns`` and folded (``polyopt.fold``).
EBM is interpret's, with its own pairs of columns; it has one bag and few rounds of boosting, which make its
fit short and change nothing of its prediction, a sum over the same tables. Seconds are those of the processor
on one thread, medians of interleaved rounds. Rows are drawn again from the set up to a million, or as many as
200 MB hold.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from benchmarks.helpers.interpretable_data import SETS, load_set
from benchmarks.helpers.interpretable_ours import OURS, ours
from benchmarks.helpers.timing import race
from polyopt import Columns, LogisticPolytopes, LogisticSearch, fold

DATA = (
    "banana", "svmguide1", "bupa", "pima", "wbc", "magic", "heart", "australian", "adult", "covtype",
    "german", "wdbc", "ionosphere", "sonar", "optdigits", "usps",
)  # fmt: skip
ROWS = (1, 100, 10_000, 1_000_000)
_TRAINED, _BYTES = 2_000, 200_000_000
_SMALL, _WIDE = "at most 60 numbers", "16 dense faces"
_COMPARED = {f"of interpretable: {name}": name for name in OURS}


def run(smoke: bool = False) -> pd.DataFrame:
    cells = []
    for name in ("heart",) if smoke else DATA:
        X, y = load_set(name)
        samples = X.to_numpy() if SETS[name].kind == "numbers" else X
        chosen = np.random.default_rng(0).permutation(len(y))[: 200 if smoke else _TRAINED]
        machines = _fitted(_of(samples, chosen), y[chosen])
        most = _BYTES // (8 * X.shape[1])
        for count in ROWS[:2] if smoke else ROWS:
            table = _of(samples, np.resize(np.arange(len(y)), min(count, most)))
            seconds = _race(machines, table)
            for machine in (_SMALL, _WIDE, *_COMPARED):
                cells.append(
                    {
                        "data": name, "columns": X.shape[1], "rows": count, "polytopes": machine,
                        "their µs a row": 1e6 * seconds[machine] / len(table),
                        "EBM's µs a row": 1e6 * seconds["EBM"] / len(table),
                        "times faster": seconds["EBM"] / seconds[machine],
                    }
                )  # fmt: skip
    table = pd.DataFrame(cells)
    return pd.concat([table, _summary(table)], ignore_index=True)


def _of(samples: Any, rows: np.ndarray) -> Any:
    return samples[rows] if isinstance(samples, np.ndarray) else samples.iloc[rows].reset_index(drop=True)


def _fitted(X: Any, y: np.ndarray) -> dict[str, Any]:
    from interpret.glassbox import ExplainableBoostingClassifier

    machine = LogisticPolytopes(8, n_init=1, max_iter=240, tol=1e-1, random_state=0)
    search = LogisticSearch(LogisticPolytopes(n_init=1, tol=1e-3, random_state=0), max_numbers=60, budget=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ends that come early
        return {
            _SMALL: fold(make_pipeline(Columns(), search).fit(X, y)),
            _WIDE: fold(make_pipeline(Columns(), machine).fit(X, y)),
            **{shown: ours(name).fit(X, y) for shown, name in _COMPARED.items()},
            "EBM": ExplainableBoostingClassifier(outer_bags=1, max_rounds=50, n_jobs=1, random_state=0).fit(
                X, y
            ),
        }


def _race(machines: dict[str, Any], table: Any) -> dict[str, float]:
    """Median seconds of a call; where calls are short, of many of them at once."""
    times = max(1, 300 // len(table))

    def call(machine: Any) -> Any:
        def repeated() -> None:
            for _ in range(times):
                machine.predict_proba(table)

        return repeated

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = {name: call(machine) for name, machine in machines.items()}
        found = race(calls, rounds=3 if len(table) > 20_000 else 7, clock=time.process_time)
    return {name: seconds / times for name, seconds in found.items()}


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """The geometric mean and the worst of all sets."""
    rows = []
    for (count, machine), part in table.groupby(["rows", "polytopes"], sort=False):
        ratio = part["times faster"]
        for what, value in (("geometric mean", np.exp(np.log(ratio).mean())), ("worst", ratio.min())):
            rows.append({"data": what, "rows": count, "polytopes": machine, "times faster": value})
    return pd.DataFrame(rows)
