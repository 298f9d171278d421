"""The sets of the comparison with interpretable models: frames of numbers, categories and texts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks.helpers import interpretable_data
from polyopt import datasets


def arrays(monkeypatch: pytest.MonkeyPatch, X: np.ndarray, y: np.ndarray, names: tuple[str, ...]) -> None:
    """Any named set is this one."""
    found = SimpleNamespace(X=X, y=y, X_test=None, y_test=None, feature_names=names)
    monkeypatch.setattr(datasets, "load", lambda name: found)


def test_a_set_in_the_package_comes_as_published():
    X, y = interpretable_data.load_set("wbc")
    data = datasets.load("wbc")
    assert (X.to_numpy() == data.X).all()
    assert y.tolist() == data.y.tolist()
    assert set(X.dtypes.map(str)) == {"float64"}


def test_ranks_become_words_and_gaps_stay(monkeypatch):
    ranks = np.array([[30.0, 1.0], [40.0, np.nan], [50.0, 0.0]])
    arrays(monkeypatch, ranks, np.array([0, 1, 1]), ("age", "sex"))
    adult = interpretable_data.SETS["adult"]
    monkeypatch.setitem(
        interpretable_data.SETS, "adult", adult._replace(words={"sex": adult.words["sex"], "age": ""})
    )
    X, y = interpretable_data.load_set("adult")
    assert X["sex"].tolist()[::2] == ["Male", "Female"]
    assert X["sex"].isna().tolist() == [False, True, False]
    assert X["age"].tolist() == ["30", "40", "50"]
    assert y.tolist() == [0, 1, 1]


def test_indicators_are_folded_to_the_category_they_are_of(monkeypatch):
    from polyopt.datasets.named_sets import ENTRIES

    rows = np.zeros((2, len(ENTRIES["covtype"].feature_names)))
    rows[0, [0, 10, 14]], rows[1, [0, 13, 53]] = (7, 1, 1), (8, 1, 1)
    arrays(monkeypatch, rows, np.array([2, 5]), ENTRIES["covtype"].feature_names)
    X, y = interpretable_data.load_set("covtype")
    assert X.shape == (2, 12)
    assert X["Wilderness_Area"].tolist() == ["0", "3"]
    assert X["Soil_Type"].tolist() == ["0", "39"]
    assert X["Elevation"].tolist() == [7.0, 8.0]
    assert y.tolist() == [1, 0]


def test_a_large_set_is_drawn_once_and_keeps_its_classes(monkeypatch):
    n = 2 * interpretable_data.ROWS
    labels = np.where(np.arange(n) % 10 == 0, 1, -1)
    arrays(monkeypatch, np.arange(n, dtype=float)[:, None], labels, ("row",))
    (X, y), (again, _) = interpretable_data.load_set("cod_rna"), interpretable_data.load_set("cod_rna")
    pd.testing.assert_frame_equal(X, again)
    assert len(X) == interpretable_data.ROWS == len(set(X["row"]))
    assert y.sum() == interpretable_data.ROWS // 10
    assert (y == (X["row"] % 10 == 0)).all()
