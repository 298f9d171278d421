"""A grid of settings on samples read by blocks: the scores of folds that are cut in memory, and no copies."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.blocks import ROWS, fold_of, weighted_blobs
from helpers.cases import in_turn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from formulations.solution import Status
from polyopt import SVM, large
from polyopt.large.held import Here

GRID = {"C": [1e-3, 1.0]}


@pytest.fixture(scope="module")
def data():
    return weighted_blobs(separation=0.8, seed=3)


@pytest.fixture(scope="module")
def search(data):
    return large.GridSearchCV(large.SVM(), GRID, cv=3).fit(large.Arrays(*data, rows=ROWS))


def folds():
    return fold_of(120, 3)


def test_the_table_is_that_of_folds_cut_in_memory(search, data):
    X, y, weights = data
    splits = [(np.flatnonzero(folds() != k), np.flatnonzero(folds() == k)) for k in range(3)]
    table, mean = search.cv_results_, []
    for row, C in enumerate(GRID["C"]):
        scores = [
            SVM(kernel="linear", C=C)
            .fit(X[train], y[train], weights[train])
            .score(X[held], y[held], weights[held])
            for train, held in splits
        ]
        assert [table[f"split{k}_test_score"][row] for k in range(3)] == pytest.approx(scores)
        mean.append(np.mean(scores))
        assert table["std_test_score"][row] == pytest.approx(np.std(scores))
    assert table["mean_test_score"] == pytest.approx(mean)
    # The names are scikit-learn's.
    theirs = GridSearchCV(SVM(kernel="linear"), GRID, cv=splits).fit(X, y)
    beside = {"mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time"}
    assert set(theirs.cv_results_) - beside == set(table) - {"status", "certified_gap"}
    assert table["params"] == theirs.cv_results_["params"]
    assert (table["param_C"] == theirs.cv_results_["param_C"]).all()
    assert search.best_index_ == int(np.argmax(mean))
    assert search.best_params_ == table["params"][search.best_index_]
    assert search.best_score_ == max(table["mean_test_score"])
    assert table["rank_test_score"][search.best_index_] == 1
    assert (table["status"] == "SOLVED").all()
    assert (table["certified_gap"] < 1e-7).all()


def test_the_answer_is_the_best_machine_of_all_samples(search, data):
    X, y, weights = data
    whole = large.SVM(**search.best_params_).fit(large.Arrays(*data, rows=ROWS))
    assert search.best_estimator_.coef_.tobytes() == whole.coef_.tobytes()
    assert search.certificate() == whole.certificate()
    assert (search.predict(X) == whole.predict(X)).all()
    assert (search.decision_function(X) == whole.decision_function(X)).all()
    assert search.score(X, y, weights) == whole.score(X, y, weights)
    assert search.classes_.tolist() == ["no", "yes"]
    assert search.status_ is Status.SOLVED
    assert not hasattr(search, "predict_proba")
    assert clone(search).get_params()["cv"] == 3


@pytest.mark.filterwarnings("ignore:GridSearchCV. of the machine")
def test_each_block_is_read_in_place(data):
    """No array of samples is other memory than the one that was given, and it is looked at whole once."""
    X, y, _ = data
    read = []

    def make(number):
        part = slice(ROWS * number, ROWS * number + ROWS)
        read.append(X[part])
        return X[part], y[part]

    found = large.GridSearchCV(large.SVM(max_iter=2), {"C": [1.0]}, cv=2)
    with pytest.warns(ConvergenceWarning, match="fits of 1 of 1 settings ended short") as told:
        found.fit(large.Generated(make, 3))
    assert all(np.shares_memory(each, X) for each in read)
    assert [str(each.message) for each in told][1:] == [
        "GridSearchCV: of the machine of all samples: The iteration limit was reached; the best point so far "
        "is kept."
    ]
    assert found.cv_results_["status"].tolist() == ["ITERATION_LIMIT"]
    assert found.cv_results_["certified_gap"][0] > 1e-6


def test_probabilities_come_with_the_machine(data):
    X, y, _ = data
    found = large.GridSearchCV(large.SVM(calibration="sigmoid"), {"C": [0.1]}, cv=2).fit(X, y)
    assert found.predict_proba(X).shape == (120, 2)
    assert (found.classes_[found.predict_proba(X).argmax(axis=1)] == found.predict(X)).all()
    # A fold has its own folds: five within the other half.
    hands = Here(large.Arrays(X, y))
    part = large.SVM(C=0.1, calibration="sigmoid")
    from formulations.clock import Run
    from polyopt.large.sieve import Sieve

    part._fit(hands.sieved(Sieve(0, 2)), Run(), None, None)
    half = np.arange(120) % 2 == 0
    assert part.calibrations_[0].n_folds == 5
    right = part.predict(X[half]) == y[half]
    assert found.cv_results_["split0_test_score"][0] == pytest.approx(right.mean())


def test_a_search_that_is_cut_keeps_what_is_done(data, monkeypatch):
    from polyopt.large import search as module

    take, taken = module._Tried.take, []

    def pressed(self, machine, fold, run):
        if len(taken) == 5:  # in the midst of the second setting
            raise KeyboardInterrupt
        taken.append(machine)
        return take(self, machine, fold, run)

    monkeypatch.setattr(module._Tried, "take", pressed)
    found = large.GridSearchCV(large.SVM(), GRID, cv=3)
    with pytest.warns(
        ConvergenceWarning, match="1 of 2 candidates were tried; the machine is the best one's"
    ):
        found.fit(large.Arrays(*data, rows=ROWS))
    table = found.cv_results_
    assert table["status"].tolist() == ["SOLVED", "INTERRUPTED"]
    assert np.isnan(table["mean_test_score"]).tolist() == [False, True]
    assert np.isnan(table["split1_test_score"]).tolist() == [False, False]
    assert found.best_params_ == {"C": 1e-3}
    assert found.status_ is Status.INTERRUPTED
    assert found.best_estimator_ is taken[0]
    assert found.predict(data[0]).shape == (120,)
    taken[:] = range(5)
    with pytest.raises(KeyboardInterrupt):
        found.fit(*data[:2])
    monkeypatch.undo()
    with pytest.warns(ConvergenceWarning, match="No candidate was tried to its end"):
        found.set_params(time_limit=0).fit(*data[:2])
    assert found.status_ is Status.TIME_LIMIT
    assert found.predict(data[0]).shape == (120,)


@in_turn(
    ("settings", "changes", "message"),
    [
        ({"C": [1.0, -1.0]}, {}, r"param_grid has \{'C': -1.0\}: C must be positive"),
        ({"C": [1.0, "a"]}, {}, r"param_grid has \{'C': 'a'\}: C must be"),
        ({"D": [1.0]}, {}, "Invalid parameter 'D' for estimator SVM"),
        (GRID, {"cv": 1}, "cv must be"),
        (GRID, {"cv": 121}, "fold 43 of 121 has no samples"),
        (GRID, {"estimator": SVM()}, "a classifier of polyopt.large or polyopt.dask, and not SVM"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_fit(settings, changes, message, data, monkeypatch):
    monkeypatch.setattr(large.SVM, "_fit", None)
    with pytest.raises(ValueError, match=message):
        large.GridSearchCV(large.SVM(), settings).set_params(**changes).fit(
            large.Arrays(*data[:2], rows=ROWS)
        )


def test_a_class_in_one_fold_is_named(data):
    labels = np.where(np.arange(120) == 7, "rare", data[1])
    with pytest.raises(ValueError, match="fold 3 of 5 has all samples of class 'rare'"):
        large.GridSearchCV(large.SVM(), GRID).fit(data[0], labels)
