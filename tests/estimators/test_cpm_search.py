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
    assert search.best_params_ == {
        "C": best,
        "sgd__perplexity": floor.loc[floor["error"].idxmin(), "perplexity"],
    }
    # The errors are those of the machine itself, on the split that is said to be held out.
    train, held = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=0).split(X, y))
    for row in (cost.iloc[0], floor.iloc[4]):
        machine = (
            clone(MACHINE).set_params(C=row["C"], sgd__perplexity=row["perplexity"]).fit(X[train], y[train])
        )
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


# -- which class is outside ----------------------------------------------------------------


def ring(rng, names=("in", "out")):
    """Samples of one class in a disc, those of the other around it."""
    angles, lengths = rng.uniform(0, 2 * np.pi, 240), np.r_[rng.uniform(0, 1, 120), rng.uniform(1.3, 2, 120)]
    X = lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    return X, np.repeat(names, 120)


@pytest.mark.parametrize("names", [("in", "out"), ("out", "in")])
def test_the_class_in_the_middle_is_found_to_be_inside(names, rng):
    X, y = ring(rng, names)
    machine = ConvexPolytopeMachine(6, solver="sgd", max_iter=20, inside_label=names[1], random_state=0)
    search = PolytopeSearch(machine, outside="search", costs=[0.1, 1.0], perplexities=[3.0]).fit(X, y)
    costs = search.results_[search.results_["stage"] == "cost"]
    tried = list(zip(costs["inside_label"], costs["C"], strict=True))
    assert tried == [(side, C) for side in ("in", "out", "both") for C in (0.1, 1.0)]
    wrong = costs[costs["inside_label"] == names[1]]["error"].min()
    assert costs["error"].min() < wrong - 0.05
    # The best of all, and the floors at it; the answer is that machine, fitted to everything.
    best = costs.loc[costs["error"].idxmin()]
    side = {"inside_label": best["inside_label"], "C": best["C"]}
    assert side["inside_label"] != names[1]
    assert search.best_params_ == {**side, "sgd__perplexity": search.best_params_["sgd__perplexity"]}
    floors = search.results_[search.results_["stage"] == "floor"]
    assert (floors[["inside_label", "C"]] == [side["inside_label"], side["C"]]).all().all()
    whole = clone(machine).set_params(**search.best_params_).fit(X, y)
    assert (search.decision_function(X) == whole.decision_function(X)).all()
    given = PolytopeSearch(machine, costs=[0.1, 1.0], perplexities=[3.0]).fit(X, y)
    assert "inside_label" not in given.results_
    assert given.best_estimator_.inside_label == names[1]


def test_ten_classes_are_tried_with_one_side_and_with_both():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    machine = ConvexPolytopeMachine(2, solver="sgd", max_iter=5, random_state=0)
    search = PolytopeSearch(machine, outside="search", costs=[1.0], perplexities=[]).fit(X, y)
    costs = search.results_[search.results_["stage"] == "cost"]
    assert costs["inside_label"].fillna("–").tolist() == ["–", "both"]
    is_better = costs["error"].iloc[1] < costs["error"].iloc[0]
    assert search.best_params_["inside_label"] == ("both" if is_better else None)
    assert len(search.classes_) == 10
    assert search.predict(X).shape == (300,)


def test_a_search_over_sides_that_is_broken_off_names_the_side(rng):
    X, y = ring(rng)
    search = PolytopeSearch(MACHINE, outside="search", time_limit=0.0)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert any("inside_label='in'" in str(one.message) for one in heard)
    assert search.best_params_["inside_label"] == "in"


def test_outside_is_given_or_searched():
    X, y = digits()
    with pytest.raises(ValueError, match="outside must be 'given' or 'search', not 'both'"):
        PolytopeSearch(MACHINE, outside="both").fit(X[:50], y[:50])
