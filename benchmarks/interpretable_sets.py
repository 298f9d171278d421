"""The same comparison set by set: the AUROC of every model, and where polytopes lose.

From the cells that ``interpretable`` keeps: means over the splits that every model has on a set. A polytope
loses to a model where the 95 % interval of the difference of their AUROCs over the splits, corrected for
the samples they share, is below zero; of so many intervals some miss by chance.
"""

from __future__ import annotations

import pandas as pd

from benchmarks.helpers.interpretable_page import by_set
from benchmarks.interpretable import KEPT
from polyopt.datasets import DatasetUnavailable


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per set."""
    if not KEPT.is_file():
        raise DatasetUnavailable("the cells of 'interpretable' are not kept here; run it first")
    return by_set(pd.read_csv(KEPT))
