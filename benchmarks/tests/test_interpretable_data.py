"""The sets of the comparison with interpretable models: frames of numbers, categories and texts."""

import numpy as np

from benchmarks.helpers.interpretable_data import ROWS, SETS, drawn_rows, framed, load_set
from polyopt import datasets
from polyopt.datasets.named_sets import ENTRIES


def test_packaged_set_is_as_published():
    """A set of numbers has the samples and the labels of the package, in their order."""
    X, y = load_set("wbc")
    data = datasets.load("wbc")
    assert (X.to_numpy() == data.X).all()
    assert y.tolist() == data.y.tolist()
    assert set(X.dtypes.map(str)) == {"float64"}


def test_ranks_become_words():
    """A rank becomes its word, or its number if the category has no words; a gap stays."""
    ranks = np.array([[30.0, 1.0], [40.0, np.nan], [50.0, 0.0]])
    adult = SETS["adult"]._replace(words={"sex": SETS["adult"].words["sex"], "age": ""})
    X, y = framed(adult, ranks, np.array([0, 1, 1]), ("age", "sex"))
    assert X["sex"].tolist()[::2] == ["Male", "Female"]
    assert X["sex"].isna().tolist() == [False, True, False]
    assert X["age"].tolist() == ["30", "40", "50"]
    assert y.tolist() == [0, 1, 1]


def test_indicators_are_folded_to_categories():
    """The columns of 0 and 1 of one category become one column of words."""
    names = ENTRIES["covtype"].feature_names
    rows = np.zeros((2, len(names)))
    rows[0, [0, 10, 14]], rows[1, [0, 13, 53]] = (7, 1, 1), (8, 1, 1)
    X, y = framed(SETS["covtype"], rows, np.array([2, 5]), names)
    assert X.shape == (2, 12)
    assert X["Wilderness_Area"].tolist() == ["0", "3"]
    assert X["Soil_Type"].tolist() == ["0", "39"]
    assert X["Elevation"].tolist() == [7.0, 8.0]
    assert y.tolist() == [1, 0]


def test_large_sets_are_drawn_by_class():
    """The same ROWS rows are drawn each time, in their order, with the shares of the classes."""
    y = (np.arange(2 * ROWS) % 10 == 0).astype(int)
    drawn = drawn_rows(y)
    assert len(drawn) == ROWS
    assert (np.diff(drawn) > 0).all()
    assert y[drawn].sum() == ROWS // 10
    np.testing.assert_array_equal(drawn, drawn_rows(y))
