"""The output container that scikit-learn is set to changes neither a fit nor an answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from polyopt import (
    ConvexPolytopeMachine,
    Hinges,
    LogisticSearch,
    Model,
    load_model,
    save_model,
)
from polyopt.compare.data import scaler_for
from polyopt.datasets import fit_preparation, read_csv

pd = pytest.importorskip("pandas")
pytest.importorskip("polars")


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=80), "b": rng.choice(["x", "y"], 80), "c": rng.normal(size=80)})


@pytest.fixture(scope="module")
def y(table):
    return np.where(table.a + (table.b == "x") > 0.0, "yes", "no")


def machine():
    return ConvexPolytopeMachine(n_faces=2, random_state=0)


def command_steps(table, y, folder):
    """The steps of ``polyopt fit``: impute, encode, scale."""
    gaps = table.assign(label=y)
    gaps.loc[3, "a"] = gaps.loc[5, "b"] = None
    gaps.to_csv(folder / "table.csv", index=False)
    found = read_csv(folder / "table.csv", categorical="all", impute="median")
    prepared, preparation = fit_preparation(found)
    scaler = scaler_for(prepared.X, prepared.feature_names)
    fitted = machine().fit(scaler.transform(prepared.X), prepared.y)
    steps = [("prepare", preparation), ("scaler", scaler)]
    model = Model.of(fitted, steps, feature_names=found.feature_names, target="label", method="cpm")
    save_model(model, folder / "model")
    return load_model(folder / "model").predict(table)


def hinges(table, y, folder):
    return make_pipeline(Hinges(2), machine()).fit(table[["a", "c"]], y).predict(table[["a", "c"]])


def search(table, y, folder):
    found = LogisticSearch(cv=2, n_knots=2, max_faces=1)
    return found.fit(table[["a", "c"]], y).predict(table[["a", "c"]])


@pytest.mark.parametrize("output", ["pandas", "polars"])
@pytest.mark.parametrize("run", [command_steps, hinges, search])
def test_the_kind_of_output_changes_nothing(table, y, tmp_path, run, output):
    """Labels are those of the default configuration, and nothing warns of names."""
    wanted = run(table, y, tmp_path)
    with sklearn.config_context(transform_output=output):
        assert (run(table, y, tmp_path) == wanted).all()
