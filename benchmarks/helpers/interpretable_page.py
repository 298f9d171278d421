"""Tables of the comparison with interpretable models, from its cells alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.interpretable_cells import TEST_SHARE
from benchmarks.helpers.interpretable_ours import OURS
from benchmarks.helpers.intervals import interval

__all__ = ["by_model", "by_set", "common", "compared"]

_RATIO = TEST_SHARE / (1.0 - TEST_SHARE)  # test samples for each training sample
_CELL = ["set", "split"]
_BEST, _SMALL = "EBM", OURS[0]


def common(rows: pd.DataFrame) -> pd.DataFrame:
    """The cells of those sets and splits on which every model was run."""
    models = rows["model"].nunique()
    return rows[rows.groupby(_CELL)["model"].transform("nunique") == models]


def compared(rows: pd.DataFrame, one: str, other: str) -> tuple[float, float, float]:
    """The mean difference of two models' AUROC, with its interval (:mod:`polyopt.compare.results`).

    On each split it is the mean over the sets, of both models. Where some sets have fewer splits, it is the
    mean over the sets of the mean over their splits, without an interval.
    """
    wide = rows.pivot_table(index=_CELL, columns="model", values="auroc")
    if one not in wide or other not in wide:
        return np.nan, np.nan, np.nan
    apart = (wide[one] - wide[other]).unstack("split").dropna(axis=0, how="all").dropna(axis=1, how="all")
    if not len(apart):
        return np.nan, np.nan, np.nan
    if apart.isna().any(axis=None):
        return float(apart.mean(axis=1).mean()), np.nan, np.nan
    return interval(apart.mean(axis=0), _RATIO)


def by_model(rows: pd.DataFrame, notes: dict[str, str] | None = None) -> pd.DataFrame:
    """One row per model: means over the sets and splits on which every model was run.

    `notes` has the models that were left out, and why.
    """
    rows = common(rows)
    table = [_model(rows, name) for name in rows["model"].unique()]
    left = [{"model": name, "note": why} for name, why in (notes or {}).items()]
    order = {name: place for place, name in enumerate(OURS)}
    table.sort(key=lambda row: (order.get(row["model"], len(order)), -row["AUROC"]))
    return pd.DataFrame([*table, *left])


def _model(rows: pd.DataFrame, name: str) -> dict[str, Any]:
    own = rows[rows["model"] == name]
    whole = own[own["auroc"].notna()]
    mean, low, high = compared(rows, name, _BEST)
    lower, higher = _told_apart(rows, _SMALL, name)
    numbers = whole.groupby("set")["numbers"].mean()
    return {
        "model": name,
        "AUROC": whole.groupby("set")["auroc"].mean().mean(),
        f"AUROC less {_BEST}'s": "" if name == _BEST else _span(mean, low, high),
        "error, %": 100 * whole.groupby("set")["error"].mean().mean(),
        "log loss": whole.groupby("set")["logloss"].mean().mean(),
        "numbers": _geometric(numbers),
        "most numbers": whole["numbers"].max(),
        "seconds": _geometric(_by_set(whole["train_s"], whole)),
        "times faster to fit than EBM": _times(rows, name),
        f"{_SMALL}: higher on": "" if name == _SMALL else len(higher),
        f"{_SMALL}: lower on": "" if name == _SMALL else len(lower),
        "note": _note(own, whole),
    }


def _note(own: pd.DataFrame, whole: pd.DataFrame) -> str:
    fits = f"{len(whole)} fits on {whole['set'].nunique()} sets"
    broken = own[own["auroc"].isna()]
    if broken.empty:
        return fits
    return f"{fits}; failed on {', '.join(broken['set'].unique())}: {broken['failed'].iloc[0]}"


def _told_apart(rows: pd.DataFrame, one: str, other: str) -> tuple[list[str], list[str]]:
    """The sets on which `one` has a lower AUROC than `other`, and a higher one, by the intervals."""
    lower, higher = [], []
    for name in rows["set"].unique():
        _, low, high = compared(rows[rows["set"] == name], one, other)
        if high < 0.0:
            lower.append(name)
        if low > 0.0:
            higher.append(name)
    return lower, higher


def by_set(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per set: the AUROC of every model, and which have more than ours of each size."""
    table = []
    models = [*(name for name in OURS if name in set(rows["model"])), *_others(rows)]
    for name in rows["set"].unique():
        own = common(rows[rows["set"] == name])
        first = rows[rows["set"] == name].iloc[0]
        row = {"set": name, "n": first["n"], "m": first["m"], "kind": first["kind"]}
        row |= {"splits": own["split"].nunique()}
        row |= {model: own[own["model"] == model]["auroc"].mean() for model in models}
        for size in OURS:
            if size in models:
                above = [other for other in _others(rows) if compared(own, size, other)[2] < 0.0]
                row[f"{size}, loses to"] = (", ".join(above) or "none") if row["splits"] > 1 else ""
        table.append(row)
    return pd.DataFrame(table)


def _others(rows: pd.DataFrame) -> list[str]:
    means = rows.groupby("model")["auroc"].mean().sort_values(ascending=False)
    return [str(name) for name in means.index if name not in OURS]


def _times(rows: pd.DataFrame, name: str) -> float:
    """EBM's seconds of a fit by the model's: the geometric mean over the splits of a set, then over sets."""
    wide = rows.pivot_table(index=_CELL, columns="model", values="train_s")
    if _BEST not in wide or name not in wide:
        return np.nan
    ratios = (wide[_BEST] / wide[name]).dropna().reset_index(name="times")
    return _geometric(_by_set(ratios["times"], ratios))


def _by_set(values: pd.Series, rows: pd.DataFrame) -> pd.Series:
    """The geometric mean over the splits of each set."""
    return values.groupby(rows["set"]).apply(_geometric)


def _geometric(values: pd.Series) -> float:
    return float(np.exp(np.log(values.astype(float)).mean())) if len(values) else np.nan


def _span(mean: float, low: float, high: float) -> str:
    if np.isnan(mean):
        return ""
    inside = "" if np.isnan(low) else f" ({low:+.4f} to {high:+.4f})"
    return f"{mean:+.4f}{inside}".replace("-", "−")
