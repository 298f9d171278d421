"""A folded pipeline answers as the pipeline does."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from polyopt import (
    PLUME,
    SVM,
    Columns,
    ConvexPolytopeMachine,
    Hinges,
    LogisticPolytopes,
    LogisticSearch,
    Polyceptron,
    fold,
)

rng = np.random.default_rng(0)
N = 150
PEOPLE = pd.DataFrame(
    {
        "age": rng.normal(45, 12, N),
        "job": rng.choice(["clerk", "smith", "baker"], N, p=[0.6, 0.395, 0.005]),
        "town": pd.Categorical(rng.choice(["a", "b", "c"], N)),
        "income": rng.integers(0, 1000, N),
        "owns": rng.random(N) < 0.5,
        "far": 1e8 + rng.normal(size=N),
    }
)
PEOPLE.loc[::10, "age"] = np.nan
PEOPLE.loc[::7, "job"] = None
WANTED = np.where((PEOPLE["age"] > 50) | (PEOPLE["job"] == "smith") | (PEOPLE["income"] > 800), "yes", "no")


@pytest.fixture(scope="module", autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def agree(pipeline, folded, X):
    assert np.allclose(folded.decision_function(X), pipeline.decision_function(X), rtol=1e-9, atol=1e-9)
    assert np.array_equal(folded.predict(X), pipeline.predict(X))
    if hasattr(pipeline, "predict_proba"):
        assert np.allclose(folded.predict_proba(X), pipeline.predict_proba(X), rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def people():
    machine = LogisticPolytopes(2, random_state=0, n_init=1, tol=1e-3)
    return make_pipeline(Columns(), machine).fit(PEOPLE, WANTED)


@pytest.mark.parametrize(
    "machine",
    [
        ConvexPolytopeMachine(2, solver="sgd", calibration="sigmoid", random_state=0, max_iter=20),
        ConvexPolytopeMachine(2, solver="sgd", double_sided=True, random_state=0, max_iter=20),
        Polyceptron(2, random_state=0, n_init=1, calibration="isotonic"),
        PLUME(2, random_state=0, n_init=1, max_iter=20),
        PLUME(2, random_state=0, n_init=1, max_iter=20, decision="polytope"),
        LogisticPolytopes((0, 2), random_state=0, n_init=1, tol=1e-3),
    ],
    ids=lambda machine: type(machine).__name__,
)
def test_every_machine_with_faces(machine):
    pipeline = make_pipeline(Columns(), machine).fit(PEOPLE, WANTED)
    agree(pipeline, fold(pipeline), PEOPLE)
    many = pd.concat([PEOPLE] * 120, ignore_index=True)
    assert np.allclose(fold(pipeline).decision_function(many), pipeline.decision_function(many), atol=1e-9)


def test_whole_numbers():
    X = PEOPLE[["income", "far"]].to_numpy(dtype=float)[:30]
    machine = ConvexPolytopeMachine(1, solver="dual", integers=2, random_state=0, max_iter=2)
    pipeline = make_pipeline(StandardScaler(), machine).fit(X, WANTED[:30])
    agree(pipeline, fold(pipeline), X)
    assert np.allclose(
        fold(pipeline).decision_function(np.tile(X, (99, 1)))[:30], pipeline.decision_function(X)
    )


def test_three_classes_and_rows_one_by_one():
    y = np.digitize(PEOPLE["income"], [300, 700])
    machine = ConvexPolytopeMachine(2, solver="sgd", calibration="sigmoid", random_state=0, max_iter=20)
    pipeline = make_pipeline(Columns(), machine).fit(PEOPLE, y)
    folded = fold(pipeline)
    agree(pipeline, folded, PEOPLE)
    one_by_one = [folded.predict(PEOPLE.iloc[[i]])[0] for i in range(20)]
    assert np.array_equal(one_by_one, pipeline.predict(PEOPLE.head(20)))


def test_tables_of_every_kind(people):
    folded = fold(people)
    many = pd.concat([PEOPLE] * 3, ignore_index=True)
    news = many.assign(job=many["job"].where(many.index % 5 > 0, "sailor"), town="z")
    text = many.assign(town=many["town"].astype(str), owns=many["owns"].astype(object))
    kinds = many.astype({"age": "float32", "income": "Int16", "job": "category"})
    mixed = many.assign(job=[1 if i % 2 else True for i in many.index])
    for X in (
        many,
        news,
        text,
        kinds,
        mixed,
        many.assign(job=""),
        many.to_numpy(dtype=object),
        many.iloc[::-2],
    ):
        agree(people, folded, X)
    polars = pytest.importorskip("polars")
    agree(people, folded, polars.from_pandas(many))


def test_categories_in_another_order_and_unused_ones(people):
    folded = fold(people)
    for categories in (["c", "b", "a"], ["z", "a", "c", "b", "y"], ["b"]):
        X = PEOPLE.assign(town=pd.Categorical(PEOPLE["town"].astype(object), categories=categories))
        agree(people, folded, X)
    agree(people, folded, PEOPLE)


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [MinMaxScaler((-1, 2)), MaxAbsScaler()],
        ["passthrough", RobustScaler()],
        [SimpleImputer(add_indicator=True), StandardScaler()],
        [
            StandardScaler(),
            SimpleImputer(strategy="constant", fill_value=1.0),
            RobustScaler(with_centering=False),
        ],
        [SimpleImputer(), SelectKBest(k=2), StandardScaler()],
        [SimpleImputer(), StandardScaler(), PCA(3, whiten=True)],
    ],
    ids=lambda steps: "-".join(type(step).__name__ for step in steps),
)
def test_steps_of_scikit_learn(steps):
    X = PEOPLE[["age", "income", "owns", "far"]].to_numpy(dtype=float)
    if not any(isinstance(step, SimpleImputer) for step in steps):
        X = X[:, 1:]
    names = [step if isinstance(step, str) else type(step).__name__ for step in steps]
    machine = LogisticPolytopes(2, random_state=0, n_init=1, tol=1e-3)
    pipeline = make_pipeline(*steps, machine).fit(X, WANTED)
    folded = fold(pipeline)
    assert np.allclose(folded.predict_proba(X), pipeline.predict_proba(X), atol=1e-7), names
    assert np.allclose(folded.predict_proba(np.asfortranarray(X)), folded.predict_proba(X), atol=1e-12)
    single = X.astype(np.float32)
    assert np.allclose(folded.predict_proba(single), folded.predict_proba(single.astype(float)), atol=1e-12)


def test_a_machine_alone_and_a_large_matrix():
    X = np.random.default_rng(1).normal(size=(6000, 4))
    y = (np.abs(X[:, :2]).max(axis=1) > 1).astype(int)
    for machine in (
        ConvexPolytopeMachine(4, solver="sgd", random_state=0, max_iter=3),
        LogisticPolytopes(4, random_state=0, n_init=1, max_iter=5, tol=1e-1),
    ):
        machine.fit(X, y)
        few = np.concatenate([machine.decision_function(part) for part in np.array_split(X, 100)])
        assert np.allclose(machine.decision_function(np.tile(X, (6, 1))), np.tile(few, 6), atol=1e-12)
        assert np.array_equal(machine.predict(np.asfortranarray(X)), np.where(few > 0, 1, 0))
        assert np.allclose(fold(machine).decision_function(X), few, atol=1e-12)
        for wrong in (np.nan, np.inf):
            X[4321, 3] = wrong
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                machine.predict(np.tile(X, (6, 1)))
        X[4321, 3] = 0.0


def test_polytopes_and_rules_are_of_the_table(people):
    folded = fold(people)
    polytopes = folded.polytopes_
    inside = np.any([own.contains(Columns.readable(people[0], PEOPLE)) for own in polytopes], axis=0)
    labels = np.where(inside, people[-1].inside_label_, people[-1].outer_label_)
    assert np.array_equal(labels, people.predict(PEOPLE))
    assert "age" in folded.rules()
    assert "job=smith" in folded.rules()
    numbers = PEOPLE[["income", "far"]]
    machine = ConvexPolytopeMachine(2, solver="sgd", random_state=0, max_iter=20)
    pipeline = make_pipeline(StandardScaler(), machine).fit(numbers, WANTED)
    scores = pipeline[-1]._side * fold(pipeline).polytopes_[0].scores(numbers.to_numpy()).max(axis=1)
    assert np.allclose(scores, pipeline.decision_function(numbers), atol=1e-6)
    assert "income" in fold(pipeline).rules()


def test_columns_without_a_weight_are_not_looked_at():
    X = PEOPLE[["income", "far", "age"]].fillna(40.0)
    machine = LogisticPolytopes((0, 1), random_state=0, n_init=1)
    pipeline = make_pipeline(StandardScaler(), machine).fit(X, PEOPLE["income"] > 500)
    pipeline[-1].W_[:, 1:] = 0.0
    worse = X.assign(far=np.nan, age="old")
    assert np.array_equal(fold(pipeline).predict(worse), pipeline.predict(X))


def test_what_is_wrong_is_named(people):
    folded = fold(people)
    with pytest.raises(ValueError, match="'age' contains infinity"):
        folded.predict(PEOPLE.assign(age=np.inf))
    with pytest.raises(ValueError, match="'income' holds 'many', which is not a number"):
        folded.predict(PEOPLE.assign(income="many"))
    with pytest.raises(ValueError, match="feature names"):
        folded.predict(PEOPLE.drop(columns="job"))
    with pytest.raises(ValueError, match="feature names"):
        folded.predict(PEOPLE[PEOPLE.columns[::-1]])
    with pytest.raises(ValueError, match="0 sample"):
        folded.predict(PEOPLE.head(0))
    with pytest.raises(ValueError, match="fitted"):
        folded.fit(PEOPLE, WANTED)
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    machine = ConvexPolytopeMachine(2, solver="sgd", random_state=0, max_iter=5)
    plain = fold(make_pipeline(StandardScaler(), machine).fit(X, y))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="'x1' contains NaN"):
        plain.predict(X)
    with pytest.raises(ValueError, match="features"):
        plain.predict(X[:, :2])
    X[3, 1] = 0.0
    with pytest.raises(ValueError, match="PolynomialFeatures"):
        fold(make_pipeline(PolynomialFeatures(2), machine).fit(X, y))
    with pytest.raises(ValueError, match="clip"):
        fold(make_pipeline(MinMaxScaler(clip=True), machine).fit(X, y))
    with pytest.raises(ValueError, match="SVM"):
        fold(SVM().fit(X, y))


def test_searches_within_and_over_pipelines():
    X, y = PEOPLE[["income", "far"]].to_numpy(dtype=float), PEOPLE["income"] > 500
    machine = ConvexPolytopeMachine(1, solver="sgd", random_state=0, max_iter=5)
    costs = {"convexpolytopemachine__C": [0.1, 1.0]}
    over = GridSearchCV(make_pipeline(StandardScaler(), machine), costs, cv=2)
    within = make_pipeline(StandardScaler(), GridSearchCV(machine, {"C": [0.1, 1.0]}, cv=2))
    for search in (over, within):
        agree(search.fit(X, y), fold(search), X)
    bent = GridSearchCV(make_pipeline(Hinges(1), machine), costs, cv=2).fit(X, y)
    agree(bent, fold(bent), X)


@pytest.mark.parametrize(
    "steps",
    [
        [Columns(), Hinges(3)],
        [Columns(), StandardScaler(), Hinges(2), MinMaxScaler()],
        [Columns(), Hinges(2), Hinges(2), StandardScaler(with_mean=False)],
        [Columns(), StandardScaler(), Hinges(4), SelectKBest(k=9), Hinges(1)],
        [Columns(), SelectKBest(k=8), Hinges(1), SimpleImputer(add_indicator=True)],
    ],
    ids=lambda steps: "-".join(type(step).__name__ for step in steps),
)
def test_hinges_are_bends_of_the_columns(steps):
    y = (PEOPLE["income"] > 300) & (PEOPLE["income"] < 700) | (PEOPLE["job"] == "smith")
    pipeline = make_pipeline(*steps, LogisticPolytopes((0, 2), random_state=0, n_init=1, tol=1e-3))
    folded = fold(pipeline.fit(PEOPLE, y))
    agree(pipeline, folded, PEOPLE)
    # The numbers far outside, at both ends, and the gaps.
    wide = PEOPLE.assign(age=np.linspace(-1e4, 1e4, N), income=np.arange(N) * 1000 - 70_000)
    assert np.allclose(folded.decision_function(wide), pipeline.decision_function(wide), rtol=1e-9, atol=1e-7)
    with pytest.raises(ValueError, match="bend"):
        folded.rules()


def test_hinges_of_gaps_and_far_columns_keep_all_digits():
    rng = np.random.default_rng(1)
    X = np.column_stack([1e8 + rng.normal(size=200), rng.normal(size=200), rng.integers(0, 2, 200)])
    y = np.abs(X[:, 0] - 1e8) > 0.7
    machine = LogisticPolytopes((0, 1), random_state=0, n_init=1, tol=1e-3)
    pipeline = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), Hinges(3), machine)
    X[::9, 1] = np.nan
    folded = fold(pipeline.fit(X, y))
    assert folded.score(X, y) > 0.9
    centred = X - np.array([1e8, 0.0, 0.0])  # exact: the offset is a whole number of the column's units
    again = fold(make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), Hinges(3), machine)
                 .fit(centred, y))  # fmt: skip
    assert np.allclose(folded.decision_function(X), pipeline.decision_function(X), atol=1e-7)
    assert np.allclose(again.decision_function(centred), folded.decision_function(X), atol=1e-4)


def test_a_search_that_takes_knots_is_folded():
    X = np.random.default_rng(2).normal(size=(300, 2))
    y = np.abs(X[:, 0]) > 0.7
    machine = LogisticPolytopes(random_state=0, n_init=1, tol=1e-3)
    search = LogisticSearch(machine, max_faces=1, n_knots=3, cv=2).fit(X, y)
    agree(search, fold(search), X)
    bent = make_pipeline(PCA(2), Hinges(2), machine).fit(X, y)
    with pytest.raises(ValueError, match="PCA"):
        fold(bent)


def test_it_is_pickled_and_holds_no_data(people):
    folded = fold(people)
    assert not folded.machine.holds_data
    again = pickle.loads(pickle.dumps(folded))
    assert np.array_equal(again.predict_proba(PEOPLE), folded.predict_proba(PEOPLE))
    assert folded.score(PEOPLE, WANTED) == people.score(PEOPLE, WANTED)
