"""Columns by name: in settings of ``polyopt fit``, and in data that ``polyopt predict`` reads."""

import numpy as np
import pytest
from helpers.commands import refused, run, worked, write

from polyopt import SVM, FacePenalty, Model, save_model
from polyopt.cli.data import by_features
from polyopt.datasets import load


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Age, city and whether someone bought; ages are missing in places."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(60):
        age, city = rng.integers(18, 80), rng.choice(["Rome", "Paris", "Oslo"])
        bought = (age > 40) or (city == "Rome")
        rows.append([age if rng.random() > 0.05 else "", city, "yes" if bought else "no"])
    return write(tmp_path_factory.mktemp("columns") / "people.csv", ["age", "city", "bought"], *rows)


FIT = ("--method", "cpm", "--faces", "1", "--set", "n_init=1", "--categorical", "all", "--impute", "median")


def fitted(people, *settings):
    """What is printed of a fit with settings."""
    return worked("fit", people, *FIT, "--quiet", *(f"--set={each}" for each in settings))


def test_sign_by_name_is_by_number(people):
    """A sign of a column's name is that of its number."""
    assert fitted(people, 'penalty.signs={"age": -1}') == fitted(people, "penalty.signs={0: -1}")


def test_column_of_text_costs_as_one(people):
    """The features of a column of texts are one group by default, as if it were named."""
    groups = ("", '[["age"], ["city"]]', "[0, 1, 2, 3]")
    values = []
    for group in groups:
        more = (f"penalty.feature_groups={group}",) if group else ()
        text = fitted(people, "penalty.group=1.0", *more)
        values += [line for line in text.splitlines() if "primal" in line]
    assert len(values) == 3
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            'penalty.signs={"city": 1}',
            "signs names the feature 'city', but the features are age, city_Oslo, city_Paris, city_Rome",
        ),
        ('penalty.signs={"aeg": 1}', "signs names the feature 'aeg', but the features are age, city_Oslo"),
        (
            'penalty.feature_groups=[["town"]]',
            "feature_groups names the feature 'town', but the features are age, city_Oslo",
        ),
    ],
)
def test_unknown_name_is_told(people, given, told):
    """A name that no feature has is told with those that there are."""
    assert told in refused("fit", people, *FIT, "--set", "penalty.group=1.0", "--set", given)


def test_numbers_pass_without_names():
    """Numbers stay as they are; a name without names of features is refused."""
    for asked in (
        FacePenalty(signs=[0, 1], group=1.0),
        FacePenalty(signs={0: 1}, feature_groups=[[0, 1], 2]),
    ):
        for names in (None, ["a", "b", "c"]):
            found = by_features({"penalty": asked}, names, names, None)["penalty"]
            assert found.get_params() == asked.get_params()
    with pytest.raises(ValueError, match="so name features by their numbers"):
        by_features({"penalty": FacePenalty(signs={"age": 1})}, None, None, None)


def test_named_data_have_fitted_order(tmp_path):
    """A model fitted to columns in another order labels a named data set as its own table."""
    bupa = load("bupa")
    order = [4, 2, 0, 5, 1, 3]
    X, names = bupa.X[:, order], [bupa.feature_names[j] for j in order]
    machine = SVM(kernel="linear").fit(X, bupa.y)
    save_model(Model.of(machine, feature_names=names, method="svm"), tmp_path / "model")
    assert run("predict", tmp_path / "model", "bupa").stdout.split() == [
        str(label) for label in machine.predict(X)
    ]
