"""LogisticPolytopes and its search as a user has them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.conventions import broken_conventions
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from formulations.language.solution import Status
from polyopt import Claim, FacePenalty, LogisticPolytopes, LogisticSearch, datasets


@pytest.fixture(scope="module")
def ring():
    """Points of the plane, those in the middle of the class "in"."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 2))
    return X, np.where((X**2).sum(axis=1) < 1.2, "in", "out")


@pytest.fixture(scope="module")
def machine(ring):
    return LogisticPolytopes((0, 4), ridge=0.1, n_init=3, random_state=0, tol=1e-7).fit(*ring)


def test_check_estimator_has_no_failure():
    assert broken_conventions(LogisticPolytopes(2, n_init=1, max_iter=5, tol=1e-2)) == {}


def test_check_estimator_of_the_search_has_no_failure():
    machine = LogisticPolytopes(n_init=1, max_iter=5, tol=1e-2, random_state=0)
    assert broken_conventions(LogisticSearch(machine, max_faces=1, cv=2)) == {}


@pytest.mark.parametrize("n_faces", [(0, 1), (1, 0), 1])
def test_one_face_is_logistic_regression(n_faces):
    data = datasets.load("wdbc")
    X = StandardScaler().fit_transform(data.X)
    found = LogisticPolytopes(n_faces, ridge=1.0, tol=1e-9).fit(X, data.y)
    assert found.certificate(1e-8).claim is Claim.OPTIMAL
    # Two faces share what one does: each has half of the weights, at half of the price.
    C = 1.0 if n_faces != 1 else 2.0
    other = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, data.y)
    # The biases have a ridge here, a hundredth of that of the weights.
    assert found.decision_function(X) == pytest.approx(other.decision_function(X), abs=0.05)


def test_a_polytope_is_found_and_its_answers_are_one(ring, machine):
    X, y = ring
    assert machine.score(X, y) > 0.95
    assert machine.certificate(1e-5).claim is Claim.STATIONARY
    assert machine.inside_label_ == "in"
    inside = machine.polytope_.contains(X)
    assert (np.where(inside, "in", "out") == machine.predict(X)).all()
    p = machine.predict_proba(X)
    assert (machine.classes_[p.argmax(axis=1)] == machine.predict(X)).all()
    assert np.log(p[:, 1] / p[:, 0]) == pytest.approx(machine.decision_function(X), abs=1e-6)
    assert set(machine.duals_["sample"]) == set(range(len(X)))
    assert machine.n_numbers_ == 12


def test_the_regions_of_two_sides_are_unions_of_polytopes(ring):
    X, y = ring
    two = LogisticPolytopes(2, ridge=0.1, n_init=2, random_state=0).fit(X, y)
    grid = np.random.default_rng(1).uniform(-3, 3, (400, 2))
    inside = np.any([each.contains(grid) for each in two.polytopes_], axis=0)
    assert (inside == (two.predict(grid) == two.inside_label_)).all()
    assert two.inside_label_ == "in"
    sample = grid[np.argmax(~inside)]
    nearest = two.explain(sample).to_dict()
    assert nearest["label"] == "out"
    with pytest.raises(AttributeError, match="of one polytope"):
        _ = two.polytope_
    assert [str(label) for label in two.face_classes_] == ["in", "in", "out", "out"]


def test_weights_are_copies_and_the_order_does_not_matter(ring):
    X, y = ring
    weights = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    settings = {"ridge": 0.5, "penalty": FacePenalty(l1=0.5), "n_init": 1, "random_state": 0, "tol": 1e-8}
    one = LogisticPolytopes((0, 2), **settings).fit(X, y, sample_weight=weights)
    copies = np.repeat(np.arange(len(y)), weights.astype(int))
    other = LogisticPolytopes((0, 2), **settings).fit(X[copies], y[copies])
    assert one.solution_.objective == pytest.approx(other.solution_.objective, rel=1e-6)
    assert (one.W_ == 0.0).tolist() == (other.W_ == 0.0).tolist()


def test_the_price_leaves_fewer_and_fewer_numbers():
    data = datasets.load("wdbc")
    X = StandardScaler().fit_transform(data.X)
    numbers = [
        LogisticPolytopes((2, 2), ridge=1.0, penalty=FacePenalty(l1=l1), n_init=1, random_state=0)
        .fit(X, data.y)
        .n_numbers_
        for l1 in (0.0, 2.0, 20.0, 1e4)
    ]
    assert numbers[0] == 4 * 31
    assert numbers[0] > numbers[1] > numbers[2] > numbers[3]
    assert numbers[3] <= 4


def test_a_machine_keeps_to_its_numbers(ring):
    found = LogisticPolytopes((0, 4), max_numbers=9, random_state=0, n_init=1).fit(*ring)
    assert found.n_numbers_ == 9
    assert found.certificate().claim is Claim.STATIONARY
    X, y = load_iris(return_X_y=True)
    assert LogisticPolytopes((0, 1), max_numbers=9, random_state=0).fit(X, y).n_numbers_ <= 9
    for few in (3, 0, -1, 2.5, True):
        with pytest.raises(ValueError, match="max_numbers"):
            LogisticPolytopes((0, 4), max_numbers=few).fit(*ring)


def test_sparse_samples_may_lack_a_feature_beside_a_limit_of_numbers(ring):
    X, y = ring
    wide = sp.csr_array(np.insert(X, 1, 0.0, axis=1))
    found = LogisticPolytopes((0, 4), max_numbers=9, n_init=1, random_state=0).fit(wide, y)
    assert found.n_numbers_ == 9
    assert not found.solution_["W"][:, 1].any()
    assert found.certificate().claim is Claim.STATIONARY


@pytest.mark.parametrize("n_knots", [0, 3])
def test_the_search_keeps_signs_by_name_and_the_probability_is_monotone(n_knots):
    data = datasets.load("pima")
    X = pd.DataFrame(StandardScaler().fit_transform(data.X)[:200], columns=list("abcdefgh"))
    y, signs = data.y[:200], {"b": +1, "f": -1}
    machine = LogisticPolytopes(penalty=FacePenalty(signs=signs), n_init=1, tol=1e-3, random_state=0)
    found = LogisticSearch(machine, numbers=40, max_faces=1, n_knots=n_knots, cv=2).fit(X, y)
    p = found.predict_proba(X)[:, 1]
    for name, sign in signs.items():
        moved = X.assign(**{name: X[name] + 0.7 * sign})
        assert (found.predict_proba(moved)[:, 1] >= p - 1e-12).all()
    assert found.n_numbers_ <= 40


def test_signs_of_features_that_are_not_there_are_refused(ring):
    for signs, says in (({"age": 1}, "no names"), ({2: 1}, "from 0 to 1"), ([1], "one entry for each")):
        for machine in (
            LogisticPolytopes(penalty=FacePenalty(signs=signs)),
            LogisticSearch(LogisticPolytopes(penalty=FacePenalty(signs=signs))),
        ):
            with pytest.raises(ValueError, match=says):
                machine.fit(*ring)


def test_three_classes_keep_signs_pair_by_pair():
    X, y = load_iris(return_X_y=True)
    found = LogisticPolytopes((1, 2), penalty=FacePenalty(signs={2: 1}), n_init=1, random_state=0).fit(X, y)
    first, moved = found.estimators_[0], X + np.array([0.0, 0.0, 0.5, 0.0])
    assert (first.decision_function(moved) >= first.decision_function(X)).all()
    assert set(found.features_) <= {0, 1, 2, 3}


@pytest.mark.parametrize("n_knots", [0, 2])
def test_the_search_prices_groups_of_columns_by_name(n_knots):
    data = datasets.load("pima")
    X = pd.DataFrame(StandardScaler().fit_transform(data.X)[:150], columns=list("abcdefgh"))
    machine = LogisticPolytopes(
        penalty=FacePenalty(group=8.0, feature_groups=[["a", "c"]]), n_init=1, tol=1e-3, random_state=0
    )
    found = LogisticSearch(machine, max_faces=1, n_knots=n_knots, cv=2).fit(X, data.y[:150])
    name = "machine__max_numbers" if n_knots else "max_numbers"  # single weights were removed, perhaps
    best = clone(found.best_estimator_).set_params(**{name: None}).fit(X, data.y[:150])
    best = best[-1] if n_knots else best
    W = best.W_ != 0.0
    groups = np.array([0, 1, 0, 2, 3, 4, 5, 6])
    if n_knots:
        groups = np.asarray(best.penalty.feature_groups)
        assert len(groups) == W.shape[1] > 8
        assert len(np.unique(groups)) == 7  # a feature and its bends come and go together
    used = W.any(axis=0)
    assert 0 < len(best.features_) < W.shape[1]
    assert all(used[groups == group].all() or not used[groups == group].any() for group in set(groups))


def test_a_price_that_leaves_no_weight_is_told(ring):
    with pytest.warns(UserWarning, match="every weight is zero"):
        found = LogisticPolytopes(2, penalty=FacePenalty(l1=1e6), n_init=1, random_state=0).fit(*ring)
    assert found.n_nonzero_ == 0
    with pytest.warns(UserWarning, match="every weight is zero"):
        found = LogisticPolytopes((0, 2), penalty=FacePenalty(group=1e6), n_init=1, random_state=0).fit(*ring)
    assert found.n_nonzero_ == 0
    assert found.certificate().claim.name == "STATIONARY"


def test_three_classes_and_copies_without_data():
    X, y = load_iris(return_X_y=True)
    found = LogisticPolytopes(2, random_state=0, n_init=1).fit(X, y)
    assert found.score(X, y) > 0.95
    light = found.without_data()
    assert (light.predict_proba(X) == found.predict_proba(X)).all()
    assert found.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(len(X)))
    with pytest.raises(AttributeError, match="two classes"):
        _ = found.inside_label_
    with pytest.raises(ValueError, match="training data"):
        light.certificate()


@pytest.mark.parametrize("n_faces", [0, (0, 0), -1, 2.5, True, "4", (1, 2, 3), (1, 0.5), None])
def test_numbers_of_faces_that_are_none_are_refused(ring, n_faces):
    with pytest.raises(ValueError, match=r"n_faces|minus|plus"):
        LogisticPolytopes(n_faces).fit(*ring)


def test_limits_keep_a_point_and_say_so(ring):
    with pytest.warns(ConvergenceWarning, match="time"):
        found = LogisticPolytopes(3, time_limit=0.0, random_state=0).fit(*ring)
    assert found.solution_.status is Status.TIME_LIMIT
    assert found.certificate().claim is Claim.SUBOPTIMAL_BY
    assert np.isfinite(found.predict_proba(ring[0])).all()


# -- the search ------------------------------------------------------------------------------


def test_the_search_finds_the_side_and_the_faces(ring):
    X, y = ring
    search = LogisticSearch(LogisticPolytopes(random_state=0, n_init=1), cv=3).fit(X, y)
    assert search.score(X, y) > 0.95
    assert max(search.best_params_["n_faces"]) >= 2
    table = pd.DataFrame(search.cv_results_)
    line = table[table.param_n_faces.map(sum) == 1]
    assert line.mean_test_score.max() < table.mean_test_score.max() - 0.1
    chosen = table.loc[search.best_index_]
    assert chosen.params == search.best_params_
    assert chosen.mean_test_score == search.best_score_
    assert search.n_splits_ == chosen.n_splits == 3
    assert (search.predict_proba(X).argmax(axis=1) == (search.predict(X) == "out")).all()
    again = clone(search).fit(X, y)
    assert (again.decision_function(X) == search.decision_function(X)).all()


def test_the_search_keeps_to_its_numbers():
    data = datasets.load("wdbc")
    X, y = StandardScaler().fit_transform(data.X)[::3], data.y[::3]
    machine = LogisticPolytopes(n_init=1, random_state=0, tol=1e-3)
    search = LogisticSearch(machine, 8, max_faces=2, cv=3).fit(X, y)
    assert 0 < search.n_numbers_ <= 8
    assert search.score(X, y) > 0.9


def test_a_search_without_a_last_fit_has_the_settings_alone(ring):
    search = LogisticSearch(LogisticPolytopes(random_state=0, n_init=1), max_faces=1, refit=False).fit(*ring)
    assert search.best_params_["n_faces"] == (0, 1)
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(AttributeError, match="refit=False"):
        search.predict(ring[0])


def test_the_search_keeps_to_its_time(ring):
    X, y = ring
    with pytest.warns(ConvergenceWarning, match="LogisticSearch.*No candidate was tried"):
        over = LogisticSearch(LogisticPolytopes(random_state=0), time_limit=0.0).fit(X, y)
    assert over.status_ is Status.TIME_LIMIT
    assert np.isfinite(over.predict_proba(X)).all()


def test_the_search_weighs_samples_as_copies(ring):
    X, y = ring
    weights = np.where(y == "in", 3.0, 1.0)
    plain, heavy = (
        LogisticSearch(LogisticPolytopes(random_state=0, n_init=1), max_faces=1, cv=2).fit(
            X, y, sample_weight=w
        )
        for w in (None, weights)
    )
    assert heavy.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.02


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"max_faces": 0}, "max_faces"),
        ({"numbers": 0}, "numbers"),
    ],
)
def test_settings_of_the_search_that_are_none_are_refused(ring, setting, says):
    with pytest.raises(ValueError, match=says):
        LogisticSearch(**setting).fit(*ring)


def test_a_part_of_a_split_is_not_counted_with_the_whole_of_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4100, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=4100) > 0).astype(int)
    search = LogisticSearch(LogisticPolytopes(n_init=1, random_state=0), max_faces=1).fit(X, y)
    assert set(search.cv_results_["n_splits"]) == {1}
