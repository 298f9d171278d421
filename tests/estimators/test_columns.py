"""A table's columns as features: what they are, what they are called, and that files and graphs have them."""

from __future__ import annotations

import csv
import datetime
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.cases import few, in_turn
from helpers.commands import worked
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import estimator_checks

from polyopt import SPLA1, Columns, ConvexPolytopeMachine, Model, load_model, save_model
from polyopt.models.explained import explain_row, explain_table
from polyopt.models.rules import Rules

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

TABLE = {
    "age": [20.0, None, 40.0, 60.0],
    "job": ["clerk", "smith", None, "clerk"],
    "paid": [True, False, True, True],
    "zip": [8001, 8002, 8001, 8003],
}
NAMES = [
    "age", "age=(missing)", "job=clerk", "job=smith", "job=(missing)", "paid=False", "paid=True", "zip=8001",
    "zip=8002", "zip=8003",
]  # fmt: skip
PLAIN = [
    [20, 0, 1, 0, 0, 0, 1, 1, 0, 0],
    [40, 1, 0, 1, 0, 1, 0, 0, 1, 0],
    [40, 0, 0, 0, 1, 0, 1, 1, 0, 0],
    [60, 0, 1, 0, 0, 0, 1, 0, 0, 1],
]


def frames():
    """One table in several forms."""
    frame = pd.DataFrame(TABLE)
    yield frame
    yield frame.astype({"job": "category", "age": "Float64", "zip": "Int16", "paid": "boolean"})
    yield frame.astype(object)
    yield np.array(list(zip(*TABLE.values(), strict=True)), dtype=object)
    yield [list(row) for row in zip(*TABLE.values(), strict=True)]


@in_turn("table", frames())
def test_the_features_are_those_that_are_named(table):
    columns = Columns(text=[3], rare=0, standardise=False).fit(table)
    assert columns.transform(table).tolist() == PLAIN
    names = columns.get_feature_names_out().tolist()
    expected = NAMES if hasattr(table, "columns") else [renamed(name) for name in NAMES]
    assert names == expected
    assert columns.groups_.tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    assert columns.is_text_ == (False, True, True, True)


def renamed(name):
    """What it is called where the table has no names."""
    column, *text = name.split("=")
    return "=".join([f"x{list(TABLE).index(column)}", *text])


def test_a_frame_of_polars_is_read_as_one_of_pandas():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(TABLE).with_columns(pl.col("job").cast(pl.Categorical))
    columns = Columns(text=["zip"], rare=0, standardise=False).fit(frame)
    assert columns.transform(frame).tolist() == PLAIN
    assert columns.set_output(transform="polars").transform(frame).columns == NAMES
    with pytest.raises(ValueError, match="column 'when' holds Date"):
        Columns().fit(pl.DataFrame({"when": [None]}, schema={"when": pl.Date}))


def test_rare_and_new_texts_share_a_feature_and_gaps_that_the_fit_had_not_are_filled():
    frame = pd.DataFrame({"job": ["a"] * 10 + ["b"] * 9 + ["c"], "age": np.arange(20.0)})
    columns = Columns(rare=0.1, standardise=False).fit(frame)
    assert columns.get_feature_names_out().tolist() == ["age", "job=a", "job=b", "job=(rare)"]
    new = pd.DataFrame({"job": ["c", "d", None, "", "b"], "age": [np.nan, 1, 2, 3, 4]})
    expected = [[9.5, 0, 0, 1], [1, 0, 0, 1], [2, 0, 0, 1], [3, 0, 0, 1], [4, 0, 1, 0]]
    assert columns.transform(new).tolist() == expected
    whole = Columns(rare=0).fit(frame)
    assert whole.transform(new)[:4, 1:].tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


@st.composite
def tables(draw):
    n = draw(st.integers(1, 8))
    numbers = st.lists(st.sampled_from([None, 0.0, 1.0, -2.5, 1e6]), min_size=n, max_size=n)
    texts = st.lists(st.sampled_from([None, "a", "b", "c d", "(rare)"]), min_size=n, max_size=n)
    return pd.DataFrame(
        {
            "u": pd.Series(draw(numbers), dtype=float),
            "t": pd.Series(draw(texts), dtype=object),
            "v": pd.Series(draw(numbers), dtype=float),
            "s": pd.Series(draw(texts), dtype=object).where(lambda s: s.notna(), "a"),
        }
    )


@settings(max_examples=few(5, 15), deadline=None)
@given(tables(), tables())
def test_they_are_scikit_learn_s_own_and_put_together_by_its_column_transformer(table, new):
    fill = SimpleImputer(strategy="median", keep_empty_features=True)
    numbers, texts = ["u", "v"], ["t", "s"]
    parts = [
        ("numbers", make_pipeline(fill, StandardScaler()), numbers),
        ("gaps", MissingIndicator(error_on_new=False), numbers),
        ("texts", OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
    ]
    if table["t"].isna().all():  # a column of gaps alone is taken for numbers
        table["t"] = "a"
    expected = ColumnTransformer(parts).fit(table.where(table.notna(), None).astype({"u": float, "v": float}))
    columns = Columns(rare=0).fit(table)
    for part in (table, new):
        given = part.where(part.notna(), None).astype({"u": float, "v": float})
        assert np.array_equal(columns.transform(part), expected.transform(given).astype(float))
    assert len(set(columns.get_feature_names_out())) == columns.transform(table).shape[1]


def test_copies_frames_and_conventions():
    frame = pd.DataFrame(TABLE)
    columns = Columns(text=["zip"]).fit(frame)
    shown = clone(columns).set_output(transform="pandas").fit_transform(frame)
    assert list(shown.columns) == NAMES
    assert shown["age"].mean() == pytest.approx(0.0)
    assert np.array_equal(pickle.loads(pickle.dumps(columns)).transform(frame), shown.to_numpy())
    for estimator, check in estimator_checks.estimator_checks_generator(Columns()):
        name = getattr(check, "func", check).__name__
        if name != "check_array_api_input":
            check(estimator)


@in_turn(
    ("table", "more", "sentence"),
    [
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), {}, "column 'a' holds datetime64"),
        (
            pd.DataFrame({"a": [1.0]}),
            {"text": ["b"]},
            "text must name columns of X, by name or place, not 'b'",
        ),
        (pd.DataFrame({"a": [1.0]}), {"text": [1]}, "not 1"),
        (pd.DataFrame({"a": [1.0]}), {"rare": 2}, r"rare must lie in \[0, 1\]"),
        (pd.DataFrame({"a": [np.inf]}), {}, "column 'a' contains infinity"),
        (pd.DataFrame({"a": []}), {}, r"0 sample\(s\)"),
        (pd.DataFrame(index=[0]), {}, r"0 feature\(s\)"),
        (sp.csr_array(np.eye(2)), {}, "a sparse matrix has no columns of texts"),
        (np.zeros(3), {}, "Expected 2D array"),
        (np.zeros((2, 2), dtype=complex), {}, "Complex data not supported"),
    ],
)
def test_what_is_no_table_is_refused(table, more, sentence):
    with pytest.raises(ValueError, match=sentence):
        Columns(**more).fit(table)


def test_other_columns_than_those_of_the_fit_are_refused():
    columns = Columns().fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    with pytest.raises(ValueError, match="feature names should match"):
        columns.transform(pd.DataFrame({"b": ["x"], "a": [1.0]}))
    with pytest.raises(ValueError, match="X has 1 features, but Columns is expecting 2"):
        columns.transform(np.array([[1.0]]))
    with pytest.raises(ValueError, match="column 'a' holds 'many', which is not a number"):
        columns.transform(pd.DataFrame({"a": ["many"], "b": ["x"]}))


# -- rules, files, graphs ------------------------------------------------------------------------------


def people(n, *, gaps):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(1),
            "job": rng.choice(["clerk", "smith", "baker", "king"], n, p=[0.5, 0.3, 0.18, 0.02]),
            "paid": rng.random(n) < 0.3,
        }
    ).astype({"job": object, "paid": object})
    y = np.where((frame["age"] > 40) | (frame["job"] == "smith"), "yes", "no")
    if gaps:
        frame.loc[rng.random(n) < 0.1, "age"] = np.nan
        frame.loc[rng.random(n) < 0.1, "job"] = None
    return frame, y


@pytest.fixture(scope="module")
def models():
    """Of one polytope and of two, with and without gaps in the training data."""
    found = []
    for gaps, rare in ((False, 0.0), (True, 0.05)):
        frame, y = people(150, gaps=gaps)
        columns = Columns(rare=rare).fit(frame)
        for machine, method in (
            (SPLA1(1, random_state=0), "spla1"),
            (ConvexPolytopeMachine(1, solver="sgd", max_iter=9, double_sided=True, random_state=0), "cpm"),
        ):
            machine.fit(columns.transform(frame), y)
            found.append(
                Model.of(
                    machine, [("columns", columns)], feature_names=frame.columns, target="y", method=method
                )
            )
    return found


def test_rules_are_in_the_columns_units_and_names(models):
    frame, _ = people(200, gaps=True)
    frame.loc[3, "job"] = "emperor"
    for model in models:
        rules = Rules.of(model)
        assert rules.agreement(frame).share == 1.0
        text = rules.polytopes[0].rules()
        assert all(name in text for name in ("age", "job=smith", "paid=True"))
        machine, columns = model.estimator, model.pipeline[0]
        if model.method == "spla1":
            polytope = columns.in_units(machine.polytope_)
            inside = polytope.contains(columns.readable(frame))
            assert np.array_equal(inside, model.predict(frame) == machine.inside_label_)


def test_rows_are_explained_in_the_columns_of_the_table(models):
    """The nearest point is a row that a table may have, and has the other label."""
    frame, y = people(200, gaps=True)
    row = int(np.flatnonzero(frame["age"].isna())[0])
    for model in models:
        found = explain_row(model, frame, row, held=["job"])
        assert found.label == model.predict(frame)[row]
        assert {change.column for change in found.way.changes} <= {"age", "paid", "zip"}
        alone, texts = frame[frame["age"].notna()].iloc[:1], ["job", "paid"]
        assert explain_row(model, alone, 0, held=texts).way.found.point is not None
        assert explain_row(model, alone, 0, held=texts, within_data=True).way.found.point is None
        told = str(explain_table(model, frame, y))
        assert "age" in told
        assert "(missing)" not in told
        with pytest.raises(ValueError, match="row must be one of the 200 rows"):
            explain_row(model, frame, 200)
        with pytest.raises(ValueError, match="height"):
            explain_row(model, frame, 0, held=["height"])


def test_files_graphs_and_code_give_the_model_s_labels(models, tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    frame, _ = people(60, gaps=True)
    frame.loc[3, "job"] = "emperor"
    texts = {
        name: [[str(cell) if cell == cell and cell is not None else ""] for cell in frame[name]]
        for name in ("job", "paid")
    }
    for model in models:
        labels = model.predict(frame)
        save_model(model.without_data(), tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        assert np.array_equal(loaded.predict(frame), labels)
        session = onnxruntime.InferenceSession(loaded.to_onnx().SerializeToString())
        given = {"age": frame[["age"]].to_numpy()} | {k: np.array(v, dtype=object) for k, v in texts.items()}
        assert session.run(["label"], given)[0].tolist() == labels.tolist()
        rules, names = Rules.of(loaded), {}
        if len(model.pipeline[0].get_feature_names_out()) > 7:
            with pytest.raises(
                ValueError, match="some features of Columns tell of missing values or of rare"
            ):
                rules.to_sql()
            continue
        exec(rules.to_python(), names)
        rows = frame.assign(paid=frame["paid"].astype(str)).to_dict("records")
        assert [names["classify"](row) for row in rows] == labels.tolist()


def test_the_commands_read_tables_for_such_a_model(models, tmp_path):
    frame, y = people(40, gaps=True)
    table = tmp_path / "table.csv"
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["paid", "job", "age", "y"])  # in another order
        for row, label in zip(frame.where(frame.notna(), "").to_dict("records"), y, strict=True):
            writer.writerow([row["paid"], row["job"], row["age"], label])
    for model in models:
        save_model(model.without_data(), tmp_path / "model.skops")
        worked("predict", tmp_path / "model.skops", table, "--out", tmp_path / "labels.txt")
        labels = (tmp_path / "labels.txt").read_text(encoding="utf-8").split()
        assert labels == model.predict(frame).tolist()
    spla1 = tmp_path / "spla1.skops"
    save_model(models[0].without_data(), spla1)
    told = " ".join(worked("explain", spla1, table, "--row", 1).split())
    assert "job" in told
    assert "age" in told
    told = worked("rules", tmp_path / "model.skops", "--data", table)
    assert "100.00 % of the 40 samples" in " ".join(told.split())


@pytest.mark.parametrize(
    "value",
    [
        datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2), datetime.timedelta(3),
        np.datetime64("2026-01-02"), [1], {"a": 1}, (1, 2), b"text", np.ones(2), 1j,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.parametrize("container", ["array", "series"])
def test_values_that_are_no_categories_are_refused(value, container):
    """A column of dates, lists, bytes and the like is refused by name; none becomes a text per value."""
    cells = np.empty((4, 1), dtype=object)
    for row in range(4):
        cells[row, 0] = value if row else None
    if container == "series":
        cells = pytest.importorskip("pandas").DataFrame(cells, columns=["x0"])
    told = "column 'x0' holds .*, neither numbers nor texts: make numbers of it"
    with pytest.raises(ValueError, match=told):
        Columns().fit(cells)
    numbers = Columns().fit(np.arange(4.0)[:, None])
    with pytest.raises(ValueError, match=told):
        numbers.transform(np.asarray(cells))
