"""Table 2: two methods next to each other on the same splits, and which class is inside."""

from itertools import product

import numpy as np
import pandas as pd

from benchmarks import polyhedral_table as table

PLUME = np.array([[0.9, 0.8], [0.7, 1.0], [0.6, 0.6]])  # accuracies, by repetition and fold
SPLA1 = np.array([[0.8, 0.8], [0.9, 0.8], [0.5, 0.6]])


def folds(data, method, accuracy):
    return [
        {"data": data, "method": method, "repetition": seed, "fold": fold, "accuracy": accuracy[seed, fold],
         "seconds": 1.0, "faces": 2.0, "end": "converged" if seed else "time limit"}
        for seed, fold in product(*map(range, accuracy.shape))
    ]  # fmt: skip


def test_pair_counts_shared_repetitions():
    """Two methods are compared on the repetitions that both have."""
    rows = [*folds("wbc", "PLUME", PLUME), *folds("wbc", "SPLA1", SPLA1[:2])]
    cells = {cell["method"]: cell for cell in table.pair_cells(pd.DataFrame(rows))}
    assert [cells[name]["repetitions"] for name in ("PLUME", "SPLA1")] == [2, 2]
    assert [round(cells[name]["accuracy"], 3) for name in ("PLUME", "SPLA1")] == [85.0, 82.5]


def test_methods_are_compared_by_repetition():
    """The difference is over repetitions' means, which are 85, 85, 60 and 80, 85, 55."""
    rows = [*folds("wbc", "SPLA1", SPLA1), *folds("wbc", "PLUME", PLUME)]
    shown = table.as_shown(pd.DataFrame(table.pair_cells(pd.DataFrame(rows))))
    assert list(shown["PLUME above SPLA1"]) == ["", "+3.33 ± 2.36, in 2 of 3"]
    np.testing.assert_allclose(shown["deviation of the means"], [13.12, 11.79], atol=0.01)


def test_other_class_inside_is_worse():
    """Eight faces enclose the disc, and not the ring around it."""
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 2 * np.pi, 200), np.repeat([0.5, 2.0], 100)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    y = np.repeat([1, 0], 100)
    right, wrong = (
        np.mean([fold["accuracy"] for fold in table.repetition_of("wbc", X, y, 8, name, 2, 0)])
        for name in ("PC-SLP, one start", "PC-SLP, one start" + table.OTHER_INSIDE)
    )
    assert right > 0.97
    assert wrong < 0.8
