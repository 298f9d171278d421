"""Hinges: their values and knots, and searches that use them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.pipeline import make_pipeline

from polyopt import Hinges, LogisticPolytopes, LogisticSearch


def test_hinges_are_what_their_names_say():
    """Every column is its name, read as Python, of the frame's columns."""
    frame = pd.DataFrame({"age": np.arange(9.0), "low": -(np.arange(9.0) ** 2), "is": np.arange(9) % 2})
    made = Hinges(2)
    values, names = made.fit_transform(frame), made.get_feature_names_out()
    assert list(names[:3]) == ["age", "low", "is"]
    assert len(names) == 3 + 4  # two values have no knot
    for name, column in zip(names, values.T, strict=True):
        told = eval(name, {"max": np.maximum, **frame}) if "max" in name else frame[name]
        assert column == pytest.approx(np.asarray(told), abs=1e-9)
    assert list(made.n_knots_) == [0] * 3 + [1] * 4
    assert made.set_output(transform="pandas").transform(frame).columns.tolist() == list(names)


def test_pile_does_not_take_all_knots():
    """If most samples have one value, knots lie among the others all the same."""
    column = np.r_[np.zeros(900), np.linspace(1.0, 100.0, 100)]
    knots = Hinges(3).fit(column[:, None]).knots_[0]
    assert len(knots) == 3
    assert (knots > 0.0).sum() >= 2


@settings(max_examples=10, deadline=None)
@given(
    hnp.arrays(float, st.tuples(st.integers(1, 30), st.just(2)), elements=st.floats(-1e9, 1e9)),
    st.integers(0, 6),
)
def test_knots_lie_within_the_data(X, count):
    """Knots are values of the samples between the least and the largest; the features come first."""
    made = Hinges(count).fit(X)
    for column, knots in zip(X.T, made.knots_, strict=True):
        assert len(knots) <= count
        assert (np.diff(knots) > 0).all()
        assert np.isin(knots, column).all()
        assert ((knots > column.min()) & (knots < column.max())).all()
    assert made.transform(X).shape == (len(X), 2 + sum(map(len, made.knots_)))
    assert np.array_equal(made.transform(X)[:, :2], X)


@pytest.mark.parametrize("count", [-1, 2.5, True, "3", None])
def test_impossible_number_of_knots_is_refused(count):
    """A number of knots is an integer of at least 0."""
    with pytest.raises(ValueError, match="n_knots"):
        Hinges(count).fit(np.eye(3))


# -- in the search ---------------------------------------------------------------------------

# In the middle of the first feature is one class: one face cannot tell, unless it bends.
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = np.where(np.abs(X[:, 0]) + 0.2 * RNG.normal(size=400) < 0.7, "in", "out")
MACHINE = LogisticPolytopes(n_init=1, random_state=0, tol=1e-4)


def test_search_takes_knots_that_pay():
    """A search finds the number of knots, counts those in use, and is the pipeline that it returns."""
    search = LogisticSearch(MACHINE, numbers=8, max_faces=1, n_knots=(0, 3), cv=3).fit(X, Y)
    hinges, found = search.best_estimator_
    assert search.best_params_["n_knots"] == 3
    assert search.score(X, Y) > 0.9
    used = (found.W_ != 0.0).any(axis=0)
    assert search.n_numbers_ == np.count_nonzero(np.c_[found.W_, found.b_]) + used[3:].sum() <= 8
    assert (search.predict_proba(X) == make_pipeline(hinges, found).predict_proba(X)).all()
    table = pd.DataFrame(search.cv_results_)
    assert set(table.param_n_knots) == {0, 3}
    assert table[table.param_n_knots == 0].mean_test_score.max() < table.mean_test_score.max() - 0.1


def test_search_with_knots_takes_weights():
    """Weights and a generator of splits reach every fit of the search."""
    splits = ((np.arange(0, 300), np.arange(300, 400)) for _ in range(1))
    search = LogisticSearch(MACHINE, max_faces=1, n_knots=[0, 2], cv=splits)
    heavy = search.fit(X, Y, sample_weight=np.where(Y == "in", 3.0, 1.0)).predict_proba(X)[:, 0].mean()
    assert heavy > (Y == "in").mean() + 0.05


@pytest.mark.parametrize("n_knots", [-1, (), "3", 2.5, (0, -1), None, True])
def test_impossible_knots_of_search_are_refused(n_knots):
    """A search tries integers of at least 0."""
    with pytest.raises(ValueError, match="n_knots"):
        LogisticSearch(n_knots=n_knots).fit(X, Y)
