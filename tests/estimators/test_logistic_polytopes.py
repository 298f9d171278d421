"""LogisticPolytopes as a user has them: faces, regions, prices, signs and limits of numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

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


@pytest.mark.parametrize("n_faces", [(0, 1), (1, 0), 1])
def test_one_face_is_logistic_regression(n_faces):
    """One face, of either side or of both, is scikit-learn's logistic regression."""
    data = datasets.load("wdbc")
    X = StandardScaler().fit_transform(data.X)
    found = LogisticPolytopes(n_faces, ridge=1.0, tol=1e-9).fit(X, data.y)
    assert found.certificate(1e-8).claim is Claim.OPTIMAL
    # Two faces share what one does: each has half of the weights, at half of the price.
    C = 1.0 if n_faces != 1 else 2.0
    other = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, data.y)
    # The biases have a ridge here, a hundredth of that of the weights.
    assert found.decision_function(X) == pytest.approx(other.decision_function(X), abs=0.05)


def test_ring_is_learnt(ring, machine):
    """Labels, probabilities and scores are those of one polytope, which is stationary."""
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


def test_regions_of_two_sides_are_unions(ring):
    """With faces on both sides the region of a class is a union of polytopes, and none is the machine's."""
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


def test_price_leaves_fewer_numbers():
    """A higher price leaves fewer weights."""
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


def test_machine_keeps_to_its_numbers(ring):
    """max_numbers is kept, for two classes and three, and must be a number that leaves a face."""
    found = LogisticPolytopes((0, 4), max_numbers=9, random_state=0, n_init=1).fit(*ring)
    assert found.n_numbers_ == 9
    assert found.certificate().claim is Claim.STATIONARY
    X, y = load_iris(return_X_y=True)
    assert LogisticPolytopes((0, 1), max_numbers=9, random_state=0).fit(X, y).n_numbers_ <= 9
    for few in (3, 0, -1, 2.5, True):
        with pytest.raises(ValueError, match="max_numbers"):
            LogisticPolytopes((0, 4), max_numbers=few).fit(*ring)


def test_limit_of_numbers_beside_empty_column(ring):
    """An empty column of sparse samples has no weight beside a limit of numbers."""
    X, y = ring
    wide = sp.csr_array(np.insert(X, 1, 0.0, axis=1))
    found = LogisticPolytopes((0, 4), max_numbers=9, n_init=1, random_state=0).fit(wide, y)
    assert found.n_numbers_ == 9
    assert not found.solution_["W"][:, 1].any()
    assert found.certificate().claim is Claim.STATIONARY


def test_signs_of_missing_features_are_refused(ring):
    """Signs are of names or numbers of features that there are."""
    for signs, says in (({"age": 1}, "no names"), ({2: 1}, "from 0 to 1"), ([1], "one entry for each")):
        for machine in (
            LogisticPolytopes(penalty=FacePenalty(signs=signs)),
            LogisticSearch(LogisticPolytopes(penalty=FacePenalty(signs=signs))),
        ):
            with pytest.raises(ValueError, match=says):
                machine.fit(*ring)


def test_pairs_keep_signs():
    """Three classes keep signs pair by pair."""
    X, y = load_iris(return_X_y=True)
    found = LogisticPolytopes((1, 2), penalty=FacePenalty(signs={2: 1}), n_init=1, random_state=0).fit(X, y)
    first, moved = found.estimators_[0], X + np.array([0.0, 0.0, 0.5, 0.0])
    assert (first.decision_function(moved) >= first.decision_function(X)).all()
    assert set(found.features_) <= {0, 1, 2, 3}


def test_price_that_leaves_no_weight_is_told(ring):
    """A warning tells that the price holds every weight at zero."""
    with pytest.warns(UserWarning, match="every weight is zero"):
        found = LogisticPolytopes(2, penalty=FacePenalty(l1=1e6), n_init=1, random_state=0).fit(*ring)
    assert found.n_nonzero_ == 0
    with pytest.warns(UserWarning, match="every weight is zero"):
        found = LogisticPolytopes((0, 2), penalty=FacePenalty(group=1e6), n_init=1, random_state=0).fit(*ring)
    assert found.n_nonzero_ == 0
    assert found.certificate().claim.name == "STATIONARY"


def test_three_classes_without_data():
    """Probabilities of three classes add up, and a copy without data has the same."""
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
def test_unusable_numbers_of_faces_are_refused(ring, n_faces):
    """Faces are a number of both sides or a pair of numbers, not all 0."""
    with pytest.raises(ValueError, match=r"n_faces|minus|plus"):
        LogisticPolytopes(n_faces).fit(*ring)
