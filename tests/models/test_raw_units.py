"""Rules, code and explanations of a pipeline are in the units of its table, and agree with it."""

from __future__ import annotations

import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
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


def people(n, *, gaps, seed=0):
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
    if gaps:
        frame.loc[rng.random(n) < 0.1, "age"] = np.nan
        frame.loc[rng.random(n) < 0.1, "job"] = np.nan
    return frame, y


def plain():
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    )
    return [ColumnTransformer([("numbers", numbers, NUMBERS), ("texts", texts, TEXTS)])]


def scaled_twice():
    numbers = make_pipeline(RobustScaler(), SimpleImputer(), MinMaxScaler((-1.0, 3.0)))
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="first"))
    steps = [(numbers, ["income", "age"]), (texts, TEXTS)]
    return [make_column_transformer(*steps, sparse_threshold=0), StandardScaler(), MaxAbsScaler()]


def marked():
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return [
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), TEXTS), (numbers, NUMBERS)
        )
    ]


def bent():
    numbers = make_pipeline(SimpleImputer(), StandardScaler(), Hinges(2), MinMaxScaler())
    return [make_column_transformer((numbers, NUMBERS), (OneHotEncoder(sparse_output=False), TEXTS))]


STEPS = {"plain": plain, "scaled twice": scaled_twice, "marked": marked, "bent": bent}
MACHINES = [
    SPLA1(1, random_state=0),
    ConvexPolytopeMachine(2, solver="sgd", max_iter=9, inside_label="both", random_state=0),
    LogisticPolytopes((0, 2), n_init=1, random_state=0),
]


@pytest.fixture(scope="module", params=STEPS)
def models(request):
    frame, y = people(150, gaps=True)
    return request.param, [
        Model.of(make_pipeline(*STEPS[request.param](), m).fit(frame, y)) for m in MACHINES
    ]


def test_values_are_read_off_the_table_and_scale_to_the_machine_s_features(models):
    _, all_models = models
    frame, _ = people(60, gaps=True, seed=1)
    for model in all_models:
        raw = model.raw_units
        values = raw.values(frame)
        assert raw.scaled(values) == pytest.approx(np.asarray(model.transform(frame), float), abs=1e-9)
        age = [j for j, f in enumerate(raw.features) if f.is_number and raw.columns[f.column] == "age"]
        given = frame["age"].notna()
        assert values[given, age[0]] == pytest.approx(frame["age"][given])
        assert len(set(raw.names)) == values.shape[1]


def test_rules_are_in_the_table_s_units(models):
    name, all_models = models
    frame, _ = people(200, gaps=True, seed=2)
    for model in all_models:
        rules = Rules.of(model)
        assert rules.agreement(frame).mean() == 1.0
        assert "age" in Rules.of(model).texts()[0]
        if name == "plain":
            assert "job_smith" in Rules.of(model).texts()[0]
            spread = rules.polytopes[0].spread[model.raw_units.names.index("age")]
            assert spread == pytest.approx(10.0, rel=0.3)


def test_files_and_code_give_the_model_s_labels(models, tmp_path):
    name, all_models = models
    frame, _ = people(60, gaps=True, seed=3)
    for model in all_models:
        labels = model.predict(frame)
        save_model(model.without_data(), tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        assert np.array_equal(loaded.predict(frame[frame.columns[::-1]]), labels)
        rules = Rules.of(loaded)
        if name in ("marked", "bent"):
            with pytest.raises(ValueError, match="are hinges or tell of missing values"):
                rules.to_sql()
            continue
        if rules.decision.kind == "difference":
            with pytest.raises(ValueError, match="by the difference of two polytopes"):
                rules.to_sql()
            continue
        with sqlite3.connect(":memory:") as database:
            frame.to_sql("samples", database, index=False)
            found = [label for (label,) in database.execute(f"SELECT {rules.to_sql()} FROM samples")]
        assert found == labels.tolist()


def test_rows_are_explained_in_the_columns_of_the_table(models):
    name, all_models = models
    frame, y = people(100, gaps=True, seed=4)
    row = int(np.flatnonzero(frame["age"].isna())[0])
    for model in all_models:
        found = explain_row(model, frame, row, held=["paid"])
        assert found.label == model.predict(frame)[row]
        if name != "bent":
            assert {change.column for change in found.counterfactual.changes} <= {"age", "job", "income"}
        assert "age" in str(explain_table(model, frame, y))
        with pytest.raises(ValueError, match="height"):
            explain_row(model, frame, 0, held=["height"])


def test_arrays_as_a_file_has_them_are_read_as_the_frame(models):
    """``polyopt predict`` gives cells: numbers, texts, and None for a gap."""
    _, all_models = models
    frame, _ = people(60, gaps=True, seed=5)
    cells = frame.astype(object).where(frame.notna(), None)
    cells[NUMBERS] = frame[NUMBERS]
    for model in all_models:
        assert np.array_equal(model.predict(cells.to_numpy(dtype=object)), model.predict(frame))


@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(), StandardScaler(with_mean=False), StandardScaler(with_std=False),
        MinMaxScaler((-1.0, 2.0)), MaxAbsScaler(), RobustScaler(),
    ],
    ids=str,
)  # fmt: skip
def test_every_scaler_is_seen_through(scaler):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1e-3, 1.0, 1e4] + [5.0, -2.0, 1e5]
    own = Polytope(rng.normal(size=(4, 3)), rng.normal(size=4))
    scaled = scaler.fit_transform(X)
    raw = RawUnits.of([("scaler", scaler)], ["a", "b", "c"])
    body = raw.polytope(own, tuple(raw.names))
    np.testing.assert_allclose(body.scores(X), own.scores(scaled), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(raw.scaled(raw.values(X)), scaled, rtol=1e-9, atol=1e-9)
    assert body.names == ("a", "b", "c")


def test_a_column_that_is_dropped_is_not_read():
    frame, y = people(60, gaps=True)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    model = Model.of(make_pipeline(make_column_transformer((numbers, ["age"])), SPLA1(1)).fit(frame, y))
    assert Rules.of(model).agreement(frame).mean() == 1.0
    assert model.raw_units.names == ["age"]


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (PCA(2), "the step PCA is before the machine"),
        (MinMaxScaler(clip=True), "clips, so that faces are not flat"),
        (make_pipeline(Hinges(2), Hinges(2)), "knots of hinges or indicators"),
        (OneHotEncoder(min_frequency=30, sparse_output=False), "joins rare texts"),
        (make_pipeline(StandardScaler(), OneHotEncoder(sparse_output=False)), "no column of the table"),
        (SimpleImputer(missing_values=0.0), "no missing value of a table"),
    ],
    ids=str,
)
def test_other_steps_are_refused_by_name_and_predict_all_the_same(step, sentence):
    X = np.random.default_rng(0).integers(1, 5, size=(60, 3)).astype(float)
    y = X[:, 0] > X[:, 1]
    pipeline = make_pipeline(step, LogisticPolytopes((0, 1), random_state=0)).fit(X, y)
    model = Model.of(pipeline)
    assert np.array_equal(model.predict(X), pipeline.predict(X))
    with pytest.raises(ValueError, match=sentence):
        Rules.of(model).texts()[0]
