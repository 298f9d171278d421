"""The number of faces: by cross-validation and by leaving out those that do nothing."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.conventions import broken_conventions
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from polyopt import PLUME, SPLA1, ConvexPolytopeMachine, FaceSearch, Polyceptron
from polyopt.datasets import make_polytope
from polyopt.estimators.face_search import needed_faces

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def triangle():
    X, y, _, _ = make_polytope(150, 2, 3, margin=0.3, random_state=4)
    return X, y


def test_cross_validation_takes_the_least_number_that_is_as_good_as_any(triangle):
    X, y = triangle
    machine = SPLA1(ridge=0.01, n_init=3, random_state=0)
    search = FaceSearch(machine, (1, 2, 3, 6), cv=4).fit(X, y)
    table = search.results_
    expected = [
        cross_val_score(clone(machine).set_params(n_faces=k), X, y, cv=4).mean() for k in (1, 2, 3, 6)
    ]
    assert table["score"].to_numpy() == pytest.approx(expected)
    best = table.loc[table["score"].idxmax()]
    good = table[table["score"] >= best["score"] - best["error"]]
    assert search.n_faces_ == good["n_faces"].min() == 3
    assert search.score(X, y) > 0.97
    assert (search.predict(X) == search.best_estimator_.predict(X)).all()


class Known(ClassifierMixin, BaseEstimator):
    """Right on as many of ten samples held out as the number of faces says."""

    def __init__(self, right=(), n_faces=1):
        self.right, self.n_faces = right, n_faces

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict(self, X):
        labels = np.where(X[:, 0] > 0, self.classes_[1], self.classes_[0])
        turned = np.arange(len(X)) >= dict(self.right)[self.n_faces]
        return np.where(turned, self.classes_[0] + self.classes_[1] - labels, labels)


@pytest.mark.parametrize(
    ("right", "tried", "chosen"),
    [
        ({1: 5, 2: 5, 3: 8, 4: 9, 6: 9, 8: 9}, [1, 2, 3, 4, 6, 8], 4),  # one that is no better is waited for
        ({1: 7, 2: 7, 3: 6}, [1, 2, 3], 1),  # two in a row end it, however good what would come
        ({k: k // 8 for k in (1, 2, 3, 4)}, [1, 2, 3], 1),
    ],
)
def test_faces_grow_until_two_numbers_in_a_row_do_not_pay(right, tried, chosen):
    y = np.tile([-1, 1], 20)
    search = FaceSearch(Known(tuple(right.items())), "auto", cv=4).fit(y[:, None] * 1.0, y)
    assert search.results_["n_faces"].tolist() == tried
    assert search.results_["score"].tolist() == pytest.approx([right[k] / 10 for k in tried])
    assert search.n_faces_ == chosen == search.best_estimator_.n_faces


@pytest.mark.parametrize(
    "machine",
    [
        SPLA1(ridge=0.01, n_init=5, random_state=0),
        Polyceptron(solver="highs", n_init=5, random_state=0),
        PLUME(ridge=0.01, n_init=5, random_state=0),
        ConvexPolytopeMachine(C=100.0, n_init=5, inside_label=1, random_state=0),
    ],
    ids=lambda machine: type(machine).__name__,
)
def test_pruning_ends_where_every_face_is_needed(machine, triangle):
    X, y = triangle
    search = FaceSearch(machine, (6,), how="prune").fit(X, y)
    table = search.results_
    assert table["n_faces"].iloc[0] == 6
    assert (np.diff(table["n_faces"]) < 0).all()
    assert table["needed"].iloc[-1] == table["n_faces"].iloc[-1] == search.n_faces_ >= 3
    assert len(needed_faces(search.best_estimator_)) == search.n_faces_
    assert search.score(X, y) > 0.97


def test_a_face_counts_if_it_bounds_and_cuts(triangle):
    X, y = triangle
    machine = SPLA1(2, inside_label=1, n_init=1, random_state=0).fit(X, y)
    before = needed_faces(machine)
    machine.W_ = np.vstack([machine.W_, machine.W_[0]])  # moved out of reach: it neither bounds nor cuts
    machine.b_ = np.append(machine.b_, machine.b_[0] + 100.0)
    assert (needed_faces(machine) == before).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_faces": ()}, "n_faces must name"),
        ({"n_faces": (0, 1)}, "n_faces must name"),
        ({"n_faces": "many"}, "n_faces must be 'auto' or name"),
        ({"n_faces": "auto", "how": "prune"}, "give numbers, not 'auto'"),
        ({"how": "guess"}, "how must be"),
        ({"estimator": SVC()}, "must have a parameter n_faces"),
    ],
)
def test_nonsense_is_refused(arguments, message, triangle):
    with pytest.raises(ValueError, match=message):
        FaceSearch(**{"estimator": SPLA1(), **arguments}).fit(*triangle)


def test_check_estimator_has_no_failure():
    search = FaceSearch(Polyceptron(n_init=1, max_iter=5, random_state=0), (1, 2), cv=2)
    assert broken_conventions(search, first=True) == {}
