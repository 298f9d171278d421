"""Rules, code and explanations of a pipeline are in the units of its table, and agree with it."""

import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from polyopt import SPLA1, ConvexPolytopeMachine, Hinges, LogisticPolytopes, Model, load_model, save_model
from polyopt.models.explained import explain_row, explain_table
from polyopt.models.raw_units import RawUnits
from polyopt.models.rules import Rules
from polyopt.polytope import Polytope

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NUMBERS, TEXTS = ["age", "income"], ["job", "paid"]


def people(n, seed):
    """A table of numbers and texts with gaps, and labels of its rows."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "job": rng.choice(["clerk", "smith", "baker"], n),
            "age": rng.normal(40, 10, n).round(1),
            "paid": rng.choice(["no", "yes"], n),
            "income": rng.lognormal(8, 1, n).round(),
        }
    ).astype({"job": object, "paid": object})
    y = np.where((frame["age"] > 40) | (frame["job"] == "smith"), "in", "out")
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "job"] = np.nan
    return frame, y


FRAME, Y = people(100, seed=1)
ENCODER = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
FILLED = make_pipeline(SimpleImputer(strategy="most_frequent"), ENCODER)
DROPPED = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="first"))


def columns(numbers, texts):
    return make_column_transformer((numbers, NUMBERS), (texts, TEXTS), sparse_threshold=0)


STEPS = {
    "plain": [columns(make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), FILLED)],
    "scaled twice": [
        columns(make_pipeline(RobustScaler(), SimpleImputer(), MinMaxScaler((-1.0, 3.0))), DROPPED),
        StandardScaler(),
        MaxAbsScaler(),
    ],
    "marked": [columns(make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ENCODER)],
    "bent": [columns(make_pipeline(SimpleImputer(), StandardScaler(), Hinges(2), MinMaxScaler()), ENCODER)],
}
MACHINES = {
    "cells": SPLA1(1, random_state=0),
    "two sides": ConvexPolytopeMachine(2, solver="sgd", max_iter=9, inside_label="both", random_state=0),
    "logistic": LogisticPolytopes((0, 2), n_init=1, random_state=0),
}


@pytest.fixture(scope="module", params=[(steps, machine) for steps in STEPS for machine in MACHINES], ids=str)
def named_model(request):
    """The name of the steps, and a model of them with a machine."""
    steps, machine = request.param
    return steps, Model.of(make_pipeline(*STEPS[steps], MACHINES[machine]).fit(*people(150, seed=0)))


def test_values_scale_to_features(named_model):
    """The values read off the table are the machine's features after scaling, and have names."""
    _, model = named_model
    raw = model.raw_units
    values = raw.values(FRAME)
    assert raw.scaled(values) == pytest.approx(np.asarray(model.transform(FRAME), float), abs=1e-9)
    age = [j for j, f in enumerate(raw.features) if f.is_number and raw.columns[f.column] == "age"]
    is_given = FRAME["age"].notna()
    assert values[is_given, age[0]] == pytest.approx(FRAME["age"][is_given])
    assert len(set(raw.names)) == values.shape[1]


def test_rules_are_in_units_of_the_table(named_model):
    """Rules agree with the model on new rows, and name columns, texts and spreads of the table."""
    name, model = named_model
    rules = Rules.of(model)
    assert rules.agreement(FRAME).mean() == 1.0
    assert "age" in rules.texts()[0]
    if name == "plain":
        assert "job_smith" in rules.texts()[0]
        spread = rules.polytopes[0].spread[model.raw_units.names.index("age")]
        assert spread == pytest.approx(10.0, rel=0.3)


def test_file_and_code_have_the_labels(named_model, tmp_path):
    """A loaded model finds columns by name; SQL has its labels, or says what no code has."""
    name, model = named_model
    labels = model.predict(FRAME)
    save_model(model.without_data(), tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert np.array_equal(loaded.predict(FRAME[FRAME.columns[::-1]]), labels)
    rules, refusal = Rules.of(loaded), None
    if name in ("marked", "bent"):
        refusal = "are hinges or tell of missing values"
    elif rules.decision.kind == "difference":
        refusal = "by the difference of two polytopes"
    if refusal:
        with pytest.raises(ValueError, match=refusal):
            rules.to_sql()
        return
    with sqlite3.connect(":memory:") as database:
        FRAME.to_sql("samples", database, index=False)
        found = [label for (label,) in database.execute(f"SELECT {rules.to_sql()} FROM samples")]
    assert found == labels.tolist()


def test_row_is_explained_in_columns(named_model):
    """A row with a gap is explained by the table's columns, some of them held."""
    name, model = named_model
    row = int(np.flatnonzero(FRAME["age"].isna())[0])
    found = explain_row(model, FRAME, row, held=["paid"])
    assert found.label == model.predict(FRAME)[row]
    if name != "bent":
        assert {change.column for change in found.counterfactual.changes} <= {"age", "job", "income"}
    assert "age" in str(explain_table(model, FRAME, Y))
    with pytest.raises(ValueError, match="height"):
        explain_row(model, FRAME, 0, held=["height"])


def test_cells_are_read_as_the_frame(named_model):
    """Cells as ``polyopt predict`` reads them have the frame's labels: numbers, texts, None for a gap."""
    _, model = named_model
    cells = FRAME.astype(object).where(FRAME.notna(), None)
    cells[NUMBERS] = FRAME[NUMBERS]
    assert np.array_equal(model.predict(cells.to_numpy(dtype=object)), model.predict(FRAME))


SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler((-1.0, 2.0)),
    MaxAbsScaler(),
    RobustScaler(),
]


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
def test_scaler_is_seen_through(scaler, rng):
    """A polytope of scaled samples has the same scores in the table's units."""
    X = rng.normal(size=(60, 3)) * [1e-3, 1.0, 1e4] + [5.0, -2.0, 1e5]
    own = Polytope(rng.normal(size=(4, 3)), rng.normal(size=4))
    scaled = scaler.fit_transform(X)
    raw = RawUnits.of([("scaler", scaler)], ["a", "b", "c"])
    body = raw.polytope(own, tuple(raw.names))
    np.testing.assert_allclose(body.scores(X), own.scores(scaled), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(raw.scaled(raw.values(X)), scaled, rtol=1e-9, atol=1e-9)
    assert body.names == ("a", "b", "c")


def test_dropped_column_is_not_read():
    """Rules of a pipeline that drops columns have those alone that are left."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    model = Model.of(make_pipeline(make_column_transformer((numbers, ["age"])), SPLA1(1)).fit(FRAME, Y))
    assert Rules.of(model).agreement(FRAME).mean() == 1.0
    assert model.raw_units.names == ["age"]


REFUSED = [
    (PCA(2), "the step PCA is before the machine"),
    (MinMaxScaler(clip=True), "clips, so that faces are not flat"),
    (make_pipeline(Hinges(2), Hinges(2)), "knots of hinges or indicators"),
    (OneHotEncoder(min_frequency=30, sparse_output=False), "joins rare texts"),
    (make_pipeline(StandardScaler(), OneHotEncoder(sparse_output=False)), "no column of the table"),
    (SimpleImputer(missing_values=0.0), "no missing value of a table"),
]


@pytest.mark.parametrize(("step", "sentence"), REFUSED, ids=str)
def test_other_steps_are_refused_by_name(step, sentence):
    """A step that is not seen through has predictions, but no rules."""
    X = np.random.default_rng(0).integers(1, 5, size=(60, 3)).astype(float)
    pipeline = make_pipeline(step, LogisticPolytopes((0, 1), random_state=0)).fit(X, X[:, 0] > X[:, 1])
    model = Model.of(pipeline)
    assert np.array_equal(model.predict(X), pipeline.predict(X))
    with pytest.raises(ValueError, match=sentence):
        Rules.of(model).texts()[0]
