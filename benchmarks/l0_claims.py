"""The slides' claims of sparsity: CE against the one-norm machine, and our shares against theirs.

The slides conclude that CE has 29 % (linear), 70 % (polynomial) and 40 % (RBF) fewer support vectors than
the one-norm machine: means over the data sets of the ratios of their cells. "Fewer" is the same mean of our
cells, both machines with settings chosen by the same rule; "than theirs" is that mean with the slides'
one-norm machine in the place of ours. "Met" counts the data sets where CE's share is at or below the slides'
and its error not above theirs by more than their deviation. Shares and errors are means over the sets, the
slides' in brackets. All from the cells that ``l0_tables`` keeps.

The linear claim is seen; the other two are not, and it is our one-norm machine that is sparser than theirs,
at less error: next to theirs, our CE exceeds each of the three claims. With the polynomial kernel our
one-norm machine has less than half the slides' share of support vectors and leaves less to save; at equal C
and no more loss, the bounds of ``l0_reason`` leave machines of this form 50 % at most, on every set that it
has, and not 70. With the RBF kernel CE has no fewer than the one-norm machine on this mean. The one-norm
machine is sparse with wide kernels and a large C, a few support vectors with large coefficients. There the L0
machine has more of them by its own optimum, which ``l0_reason`` proves of single cases: to it they are cheap
beside the loss. Where C is small they are dear, but then C caps the coefficients as well, and most are at the
cap. At equal loss CE does have fewer, in every case of ``l0_reason``, and there the bounds leave no room for
40 % in most of them.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.slides import CLAIMED, DATA, PRINTED, mean_ratio
from benchmarks.l0_tables import KEPT, RULES, SPLITS, meets

_PAIR = ("CE", "one-norm SVM")


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per rule and kernel, and one per rule for all three kernels."""
    return as_printed(pd.read_csv(KEPT))


def as_printed(rows: pd.DataFrame) -> pd.DataFrame:
    """The claims, from the splits of all cells."""
    table = []
    for rule in RULES:
        by_rule = rows[rows["rule"] == rule]
        found = {kernel: _row(by_rule[by_rule["kernel"] == kernel], kernel) for kernel in CLAIMED}
        met, of = (sum(row[key] for row in found.values()) for key in ("met", "of"))
        for kernel, row in found.items():
            told = {**row, "met": f"{row['met']} of {row['of']}"}
            del told["of"]
            table.append({"rule": rule, "kernel": kernel, **told})
        table.append({"rule": rule, "kernel": "all", "met": f"{met} of {of}"})
    return pd.DataFrame(table)


def _row(rows: pd.DataFrame, kernel: str) -> dict[str, Any]:
    cells = {(name, method): rows[(rows["data"] == name) & (rows["method"] == method)]
             for name, method in product(DATA, _PAIR)}  # fmt: skip
    there = tuple(name for name in DATA if all(len(cells[name, method]) for method in _PAIR))
    shares = {key: float(cell["share"].mean()) for key, cell in cells.items() if len(cell)}
    fewer = mean_ratio(shares, there) if there else np.nan
    theirs = {(name, _PAIR[1]): PRINTED[kernel, name, _PAIR[1]].share for name in there}
    means = {
        f"{method}: {what}": _both(
            [cells[name, method][column].mean() for name in there],
            [getattr(PRINTED[kernel, name, method], column) for name in there],
        )
        for what, column in (("vectors, %", "share"), ("error, %", "error"))
        for method in _PAIR
    }
    splits = min((len(cells[name, "CE"]) for name in there), default=0)
    return {
        "slides: fewer, %": CLAIMED[kernel],
        "fewer, %": fewer,
        "seen": "yes" if fewer >= CLAIMED[kernel] else "no",
        "than theirs, %": mean_ratio({**shares, **theirs}, there) if there else np.nan,
        "sets with fewer": sum(shares[name, "CE"] < shares[name, "one-norm SVM"] for name in there),
        **{f"{key} (slides)": value for key, value in means.items()},
        "met": sum(meets(cells[name, "CE"]) for name in there),
        "of": len(there),
        "splits": f"{splits} of {SPLITS}",
    }


def _both(ours: list[float], theirs: list[float]) -> str:
    return f"{np.mean(ours):.1f} ({np.mean(theirs):.1f})" if ours else ""
