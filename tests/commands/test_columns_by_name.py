"""Columns by name: in settings of ``polyopt fit``, and in data that ``polyopt predict`` reads."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.commands import run

from polyopt import SVM, FacePenalty, Model, save_model
from polyopt.cli.data import by_features
from polyopt.datasets import load


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Age, city and whether someone bought; ages are missing in places."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("columns") / "people.csv"
    lines = ["age,city,bought"]
    for _ in range(60):
        age, city = rng.integers(18, 80), rng.choice(["Rome", "Paris", "Oslo"])
        bought = (age > 40) or (city == "Rome")
        lines.append(f"{age if rng.random() > 0.05 else ''},{city},{'yes' if bought else 'no'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def fitted(people, *words):
    asked = ("--method", "cpm", "--faces", "1", "--categorical", "all", "--impute", "median", "--quiet")
    return run("fit", str(people), *asked, *words)


def test_a_sign_by_name_is_the_sign_by_number(people):
    named, numbered = (
        fitted(people, "--set", f"penalty.signs={given}") for given in ('{"age": -1}', "{0: -1}")
    )
    assert named.exit_code == numbered.exit_code == 0
    assert named.stdout == numbered.stdout


def test_a_column_of_text_costs_as_one(people):
    by_default = fitted(people, "--set", "penalty.group=1.0")
    by_name = fitted(
        people, "--set", "penalty.group=1.0", "--set", 'penalty.feature_groups=[["age"], ["city"]]'
    )
    apart = fitted(people, "--set", "penalty.group=1.0", "--set", "penalty.feature_groups=[0, 1, 2, 3]")
    values = [
        line for out in (by_default, by_name, apart) for line in out.stdout.splitlines() if "primal" in line
    ]
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
def test_names_that_are_none_are_told(people, given, told):
    found = fitted(people, "--set", "penalty.group=1.0", "--set", given)
    assert found.exit_code == 2
    assert told in found.stderr


def test_where_nothing_has_a_name_numbers_are_asked_for():
    with pytest.raises(ValueError, match="so name features by their numbers"):
        by_features({"penalty": FacePenalty(signs={"age": 1})}, None, None, None)
    same = FacePenalty(signs=[0, 1], group=1.0)
    assert by_features({"penalty": same}, None, None, None)["penalty"].get_params() == same.get_params()


def test_numbers_pass_as_they_are():
    asked = FacePenalty(signs={0: 1, 2: -1}, feature_groups=[[0, 1], 2])
    found = by_features({"penalty": asked}, ["a", "b", "c"], ["a", "b", "c"], None)["penalty"]
    assert found.get_params() == asked.get_params()


def test_a_data_set_by_name_has_its_columns_in_the_order_of_the_fit(tmp_path):
    """A model fitted to columns in another order labels a named data set as its own table."""
    bupa = load("bupa")
    order = [4, 2, 0, 5, 1, 3]
    X, names = bupa.X[:, order], [bupa.feature_names[j] for j in order]
    machine = SVM(kernel="linear").fit(X, bupa.y)
    save_model(Model.of(machine, feature_names=names, method="svm"), tmp_path / "model")
    found = run("predict", str(tmp_path / "model"), "bupa")
    assert found.exit_code == 0
    assert found.stdout.split() == [str(label) for label in machine.predict(X)]
