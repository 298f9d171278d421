"""One cell of the comparison with interpretable models: a model on a split of a set, and what is kept."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.helpers.interpretable_data import SETS, load_set
from benchmarks.helpers.interpretable_size import numbers_of
from polyopt.base.files import write_text
from polyopt.datasets import DatasetUnavailable

__all__ = ["TEST_SHARE", "computed", "kept_cells", "measured"]

TEST_SHARE = 0.3

Make = Callable[[str, int], Any]


def kept_cells(file: Path) -> list[dict[str, Any]]:
    """The cells that a file has; none where there is no file."""
    return pd.read_csv(file).to_dict("records") if file.is_file() else []


def computed(
    file: Path | None, models: dict[str, Make], names: list[str], splits: range
) -> Iterator[dict[str, Any]]:
    """All cells, those first that a file has; the others are kept there as they end.

    All sets are done on one split before the next; without a file nothing is kept.
    """
    rows = kept_cells(file) if file is not None else []
    yield from rows
    done = {(row["set"], row["split"], row["model"]) for row in rows}
    wanted = [name for name in names if set(product([name], splits, models)) - done]
    for split, name in product(splits, _at_hand(wanted)):
        left = [model for model in models if (name, split, model) not in done]
        if left:
            X, y = load_set(name)
            for model in left:
                row = measured(name, X, y, split, model, models[model])
                rows.append(row)
                if file is not None:
                    write_text(file, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g"))
                yield row


def _at_hand(names: list[str]) -> list[str]:
    """The sets that can be had here; of the others it is told."""
    found = []
    for name in names:
        try:
            load_set(name)
        except DatasetUnavailable as missing:
            print(f"  {name}: left out. {missing}")
        else:
            found.append(name)
    return found


def measured(
    name: str, X: pd.DataFrame, y: NDArray[np.int64], split: int, model: str, make: Make
) -> dict[str, Any]:
    """A cell: the model is tuned and fitted on seven tenths of the set, and tested on the rest."""
    kind = SETS[name].kind
    samples = X.to_numpy() if kind == "numbers" else X
    train, test = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, stratify=y, random_state=split)
    cell = {"set": name, "n": len(y), "m": X.shape[1], "kind": kind, "split": split, "model": model}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of limits of rivals' own iterations, of unseen categories
        estimator = make(kind, split)
        try:
            started = time.process_time()
            estimator.fit(_rows(samples, train), y[train])
            seconds = time.process_time() - started
            figures = _figures(estimator, _rows(samples, test), y[test])
        except Exception as error:  # a rival's: the others go on, and the table tells
            return cell | {"failed": f"{type(error).__name__}: {error}".partition("\n")[0][:200]}
    return cell | figures | {"train_s": seconds, "failed": ""}


def _rows(samples: Any, which: NDArray[np.intp]) -> Any:
    return samples[which] if isinstance(samples, np.ndarray) else samples.iloc[which]


def _figures(estimator: Any, X: Any, y: NDArray[np.int64]) -> dict[str, float]:
    """What a fitted model has on samples that it has not seen."""
    has_odds = hasattr(estimator, "predict_proba")
    scores = estimator.predict_proba(X) if has_odds else estimator.decision_function(X)
    return {
        "auroc": roc_auc_score(y, scores[:, 1] if has_odds else scores),
        "error": 1.0 - accuracy_score(y, estimator.predict(X)),
        "logloss": log_loss(y, scores[:, 1]) if has_odds else np.nan,
        "numbers": numbers_of(estimator),
    }
