"""The output container that scikit-learn is set to changes neither a fit nor an answer."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline

from polyopt import ConvexPolytopeMachine, Hinges, LogisticSearch, Model, load_model, save_model
from polyopt.compare.data import scaler_for
from polyopt.datasets import fit_preparation, read_csv

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RNG.normal(size=80), "b": RNG.choice(["x", "y"], 80), "c": RNG.normal(size=80)})
NUMBERS = TABLE[["a", "c"]]
Y = np.where(TABLE.a + (TABLE.b == "x") > 0.0, "yes", "no")
MACHINE = ConvexPolytopeMachine(n_faces=2, solver="sgd", max_iter=9, random_state=0)


def command_steps(folder):
    """The steps of ``polyopt fit``: impute, encode, scale."""
    gaps = TABLE.assign(label=Y)
    gaps.loc[3, "a"] = gaps.loc[5, "b"] = None
    gaps.to_csv(folder / "table.csv", index=False)
    found = read_csv(folder / "table.csv", categorical="all", impute="median")
    prepared, preparation = fit_preparation(found)
    scaler = scaler_for(prepared.X, prepared.feature_names)
    machine = MACHINE.fit(scaler.transform(prepared.X), prepared.y)
    steps = [("prepare", preparation), ("scaler", scaler)]
    model = Model.of(machine, steps, feature_names=found.feature_names, target="label", method="cpm")
    save_model(model, folder / "model")
    return load_model(folder / "model").predict(TABLE)


def hinges(folder):
    return make_pipeline(Hinges(2), MACHINE).fit(NUMBERS, Y).predict(NUMBERS)


def search(folder):
    return LogisticSearch(cv=2, n_knots=2, max_faces=1).fit(NUMBERS, Y).predict(NUMBERS)


@pytest.mark.parametrize("output", ["pandas", "polars"])
@pytest.mark.parametrize("run", [command_steps, hinges, search])
def test_container_of_outputs_changes_nothing(tmp_path, run, output):
    """Labels are those of the default configuration, and nothing warns of names."""
    pytest.importorskip(output)
    expected = run(tmp_path)
    with sklearn.config_context(transform_output=output):
        assert (run(tmp_path) == expected).all()
