"""PolytopeSearch: the paper's two grids, one after the other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit

from polyopt import ConvexPolytopeMachine, PolytopeSearch


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, (y == 8).astype(int)


MACHINE = ConvexPolytopeMachine(10, solver="sgd", max_iter=10, random_state=0)


def test_the_cost_comes_first_and_the_floor_at_that_cost():
    X, y = digits()
    search = PolytopeSearch(MACHINE, costs=[1.0, 0.001, 0.1]).fit(X, y)
    table = search.results_
    cost, floor = (table[table["stage"] == stage] for stage in ("cost", "floor"))
    assert cost["C"].tolist() == [0.001, 0.1, 1.0]
    assert (cost["perplexity"] == 1.0).all()
    assert floor["perplexity"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    best = cost.loc[cost["error"].idxmin(), "C"]
    assert (floor["C"] == best).all()
    assert search.best_params_ == {"C": best, "perplexity": floor.loc[floor["error"].idxmin(), "perplexity"]}
    # The errors are those of the machine itself, on the split that is said to be held out.
    train, held = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=0).split(X, y))
    for row in (cost.iloc[0], floor.iloc[4]):
        machine = clone(MACHINE).set_params(C=row["C"], perplexity=row["perplexity"]).fit(X[train], y[train])
        assert 1.0 - machine.score(X[held], y[held]) == pytest.approx(row["error"])
    # And the answer is that machine, fitted to everything.
    whole = clone(MACHINE).set_params(**search.best_params_).fit(X, y)
    assert (search.decision_function(X) == whole.decision_function(X)).all()
    assert (search.predict(X) == whole.predict(X)).all()
    assert MACHINE.C == 1.0


def test_jobs_make_no_difference_and_candidates_may_be_given():
    X, y = digits()
    X, y = X[:400], y[:400]
    searches = [
        PolytopeSearch(MACHINE, costs=[0.1, 1.0], perplexities=[4.0], cv=3, n_jobs=jobs).fit(X, y)
        for jobs in (None, 2)
    ]
    one, two = (search.results_.drop(columns="seconds") for search in searches)
    assert one.equals(two)
    assert one["perplexity"].tolist() == [1.0, 1.0, 1.0, 4.0]
    assert (one["deviation"] > 0).any()


def test_weights_are_those_of_training():
    X, y = digits()
    X, y = X[:300], y[:300]
    weights = np.where(y == 1, 3.0, 1.0)
    search = PolytopeSearch(MACHINE, costs=[0.1], perplexities=[]).fit(X, y, sample_weight=weights)
    expected = clone(MACHINE).set_params(C=0.1).fit(X, y, sample_weight=weights)
    assert (search.decision_function(X) == expected.decision_function(X)).all()


def test_no_candidate_is_an_error():
    X, y = digits()
    with pytest.raises(ValueError, match="costs must name at least one"):
        PolytopeSearch(MACHINE, costs=[]).fit(X, y)
