"""Missing labels, and two columns of one name, are refused in a sentence by every kind of machine."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt import (
    SVM,
    Columns,
    ConvexPolytopeMachine,
    FaceSearch,
    Hinges,
    LogisticPolytopes,
    LogisticSearch,
    PolytopeSearch,
    large,
)

pd = pytest.importorskip("pandas")

MACHINES = [
    SVM(), ConvexPolytopeMachine(), LogisticPolytopes(), large.SVM(), PolytopeSearch(cv=2),
    LogisticSearch(cv=2), FaceSearch(ConvexPolytopeMachine(), cv=2),
]  # fmt: skip
MISSING = {"None": None, "NaN": float("nan"), "NA": pd.NA, "NaT": pd.NaT}
CONTAINERS = {
    "array": lambda labels: labels,
    "list": lambda labels: labels.tolist(),
    "series": pd.Series,
    "texts": lambda labels: pd.Series(labels).astype("string"),
    "category": lambda labels: pd.Series(labels).astype("category"),
}


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_missing_labels_are_refused(machine):
    """A missing label of any kind in any container is a ValueError that names its row."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    for missing in MISSING.values():
        labels = np.where(X[:, 0] > 0.0, "yes", "no").astype(object)
        labels[7] = missing
        for made in CONTAINERS.values():
            with pytest.raises(ValueError, match=r"the first one in row 7|no label in partition 0, row 7"):
                machine.fit(X, made(labels))


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_missing_dates_are_missing_labels(machine):
    """NaT among dates or times that are labels is no class of its own, in any type that holds it."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    dates = np.where(X[:, 0] > 0.0, "2020-01-01", "2021-01-01").astype("datetime64[ns]")
    dates[7] = "NaT"
    for labels in (dates, dates - dates[0], pd.Series(dates), np.array(list(dates), dtype=object)):
        with pytest.raises(ValueError, match=r"the first one in row 7|no label in partition 0, row 7"):
            machine.fit(X, labels)


@pytest.mark.parametrize("machine", [*MACHINES, Columns(), Hinges()], ids=str)
def test_two_columns_of_one_name_are_refused(machine):
    """Two columns of one name are a ValueError that names them."""
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = np.where(X[:, 0] > 0.0, "yes", "no")
    with pytest.raises(ValueError, match="X has two columns named 'a'"):
        machine.fit(pd.DataFrame(X, columns=["a", "b", "a"]), y)


def test_blocks_with_two_columns_of_one_name_are_refused():
    """A frame that is cut into blocks has its columns by name too."""
    with pytest.raises(ValueError, match="X has two columns named 'a'"):
        large.Arrays(pd.DataFrame(np.ones((4, 3)), columns=["a", "b", "a"]), [0, 1, 0, 1])
