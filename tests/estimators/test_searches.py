"""The search over logistic polytopes: what it takes, keeps and refuses, and how Ctrl-C or a limit ends it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import skops.io
from helpers.blocks import at_records, raise_error
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from formulations.language.clock import Clock, current_clock, running
from formulations.language.solution import Status
from polyopt import SVM, FacePenalty, LogisticPolytopes, LogisticSearch, datasets
from polyopt.estimators.status import solutions_of
from polyopt.polyhedral.logistic_search import Candidate, Fit, Search

RNG = np.random.default_rng(0)
Y = np.arange(80) % 2
X = RNG.normal(size=(80, 3)) + 1.2 * Y[:, None]
QUICK = LogisticPolytopes(n_init=1, random_state=0)
SEARCH = LogisticSearch(QUICK, max_faces=1, cv=StratifiedKFold(2))


def ring():
    """Points of the plane, those in the middle of the class "in"."""
    points = np.random.default_rng(0).normal(size=(240, 2))
    return points, np.where((points**2).sum(axis=1) < 1.2, "in", "out")


def pima(n):
    """The first samples of pima as a frame, standardised, and their labels."""
    data = datasets.load("pima")
    return pd.DataFrame(StandardScaler().fit_transform(data.X)[:n], columns=list("abcdefgh")), data.y[:n]


# -- what is chosen ----------------------------------------------------------------------------


def test_search_finds_side_and_faces():
    """A ring needs several faces on one side; the table has the candidate that was chosen."""
    points, y = ring()
    search = LogisticSearch(QUICK, cv=3).fit(points, y)
    assert search.score(points, y) > 0.95
    assert max(search.best_params_["n_faces"]) >= 2
    table = pd.DataFrame(search.cv_results_)
    line = table[table.param_n_faces.map(sum) == 1]
    assert line.mean_test_score.max() < table.mean_test_score.max() - 0.1
    chosen = table.loc[search.best_index_]
    assert chosen.params == search.best_params_
    assert chosen.mean_test_score == search.best_score_
    assert search.n_splits_ == chosen.n_splits == 3
    assert (search.predict_proba(points).argmax(axis=1) == (search.predict(points) == "out")).all()


NOISE = np.random.default_rng(0).normal(size=400)
NOISE -= NOISE.mean()
DENSE = Candidate((0, 1), 1.0)
FEW, FEWER, ELSEWHERE = DENSE._replace(numbers=6), DENSE._replace(numbers=3), Candidate((0, 2), 1.0, 0)
# Mean loss, spread and numbers. The difference of spreads 1 and 0 has a standard error of about 1/20.
KNOWN = {DENSE: (0.60, 1.0, 9), FEW: (0.51, 1.0, 6), FEWER: (0.50, 0.0, 3), ELSEWHERE: (0.51, 1.0, 40)}


@pytest.mark.parametrize(("max_numbers", "expected"), [(None, FEW), (5, FEWER), (2, None)])
def test_fullest_not_clearly_worse_is_taken(max_numbers, expected):
    """Of a path the fullest candidate within the error of the best is taken, if it has few enough numbers."""
    fits = {
        (candidate, 0): Fit([], mean + spread * NOISE, np.ones(len(NOISE)), numbers)
        for candidate, (mean, spread, numbers) in KNOWN.items()
    }
    assert Search({}, {}, [0], 0, 1.0, 2, max_numbers, 0, fits).best() == expected


def test_search_keeps_to_its_numbers():
    """The chosen machine has at most the numbers that are allowed."""
    data = datasets.load("wdbc")
    samples, y = StandardScaler().fit_transform(data.X)[::3], data.y[::3]
    search = LogisticSearch(clone(QUICK).set_params(tol=1e-3), 8, max_faces=2, cv=3).fit(samples, y)
    assert 0 < search.n_numbers_ <= 8
    assert search.score(samples, y) > 0.9


def test_weights_move_probabilities():
    """A class that weighs more is more probable."""
    weights = np.where(Y == 1, 3.0, 1.0)
    plain, heavy = (clone(SEARCH).fit(X, Y, sample_weight=given) for given in (None, weights))
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.02


def test_search_without_refit_has_settings_alone():
    """With refit=False there are the settings, and no machine that predicts."""
    search = clone(SEARCH).set_params(refit=False).fit(X, Y)
    assert search.best_params_["n_faces"] == (0, 1)
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(AttributeError, match="refit=False"):
        search.predict(X)


def test_split_is_counted_once():
    """A part of a split, which only ranks structures, is not counted with the whole of it."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(4100, 2))
    y = (samples[:, 0] + 0.3 * rng.normal(size=4100) > 0).astype(int)
    search = LogisticSearch(QUICK, max_faces=1).fit(samples, y)
    assert set(search.cv_results_["n_splits"]) == {1}


# -- penalties of the machine ------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_search_has_price_of_its_machine(classes):
    """A price that leaves no weight in a fit to all samples leaves none on any split."""
    samples, y = load_wine(return_X_y=True)
    some = np.isin(y, np.unique(y)[:classes])
    samples, y = StandardScaler().fit_transform(samples[some]), y[some]
    # At w = 0 the slope in a weight is at most the sum of |x|: above it the price holds every weight at 0.
    price = float(np.abs(samples).sum(axis=0).max())
    machine = LogisticPolytopes(penalty=FacePenalty(l1=price), n_init=1, random_state=0)
    search = LogisticSearch(machine, max_faces=1, cv=2).fit(samples, y)
    pairs = classes * (classes - 1) // 2
    assert max(search.cv_results_["n_numbers"]) <= pairs  # biases alone
    assert search.n_numbers_ <= pairs
    free = LogisticSearch(QUICK, max_faces=1, cv=2).fit(samples, y)
    assert max(free.cv_results_["n_numbers"]) > pairs


@pytest.mark.parametrize("n_knots", [0, 3])
def test_probability_is_monotone_in_signed_features(n_knots):
    """Signs go by the names of features, with knots and without."""
    frame, y = pima(200)
    signs = {"b": +1, "f": -1}
    machine = LogisticPolytopes(penalty=FacePenalty(signs=signs), n_init=1, tol=1e-3, random_state=0)
    found = LogisticSearch(machine, numbers=40, max_faces=1, n_knots=n_knots, cv=2).fit(frame, y)
    p = found.predict_proba(frame)[:, 1]
    for name, sign in signs.items():
        moved = frame.assign(**{name: frame[name] + 0.7 * sign})
        assert (found.predict_proba(moved)[:, 1] >= p - 1e-12).all()
    assert found.n_numbers_ <= 40


@pytest.mark.parametrize("n_knots", [0, 2])
def test_groups_of_columns_are_priced_by_name(n_knots):
    """The columns of a group, and a feature with its knots, come and go together."""
    frame, y = pima(150)
    penalty = FacePenalty(group=8.0, feature_groups=[["a", "c"]])
    machine = LogisticPolytopes(penalty=penalty, n_init=1, tol=1e-3, random_state=0)
    found = LogisticSearch(machine, max_faces=1, n_knots=n_knots, cv=2).fit(frame, y)
    name = "machine__max_numbers" if n_knots else "max_numbers"  # single weights were removed, perhaps
    best = clone(found.best_estimator_).set_params(**{name: None}).fit(frame, y)
    best = best[-1] if n_knots else best
    W = best.W_ != 0.0
    groups = np.array([0, 1, 0, 2, 3, 4, 5, 6])
    if n_knots:
        groups = np.asarray(best.penalty.feature_groups)
        assert len(groups) == W.shape[1] > 8
        assert len(np.unique(groups)) == 7
    used = W.any(axis=0)
    assert 0 < len(best.features_) < W.shape[1]
    assert all(used[groups == group].all() or not used[groups == group].any() for group in set(groups))


# -- the end of a search -----------------------------------------------------------------------


class Stopped(LogisticPolytopes):
    """A machine whose fit begins with Ctrl-C; of a search only the last fit is one of its machine."""

    def fit(self, X, y, sample_weight=None):
        current_clock().stop()
        return super().fit(X, y, sample_weight=sample_weight)


def test_ctrl_c_in_last_fit_keeps_choice():
    """The settings are those of a whole search; the machine has its point after no iteration."""
    chosen = clone(SEARCH).fit(X, Y)
    assert chosen.status_ in (Status.CONVERGED, Status.SOLVED)
    n_candidates = len(chosen.cv_results_["params"])
    stopped = clone(SEARCH).set_params(estimator=Stopped(n_init=1, random_state=0))
    with pytest.warns(ConvergenceWarning, match=f"LogisticSearch: .*{n_candidates} candidates were tried"):
        stopped.fit(X, Y)
    assert stopped.status_ is Status.INTERRUPTED
    assert {one.status for one in solutions_of(stopped.best_estimator_)} == {Status.INTERRUPTED}
    assert stopped.cv_results_ == chosen.cv_results_
    assert stopped.best_params_ == chosen.best_params_
    assert stopped.best_estimator_.holds_data, "it was fitted to all samples"


def test_search_without_time_has_point():
    """Without time for a candidate the fewest faces are fitted as far as they come, with a warning."""
    with pytest.warns(ConvergenceWarning, match=r"LogisticSearch: .*time limit.*No candidate was tried"):
        late = clone(SEARCH).set_params(time_limit=0.0).fit(X, Y, sample_weight=np.ones(len(Y)))
    assert late.status_ is Status.TIME_LIMIT
    assert np.isfinite(late.predict_proba(X)).all()
    assert late.cv_results_["params"] == []


def test_ctrl_c_before_choice_is_raised():
    """Ctrl-C before or among the candidates is the caller's."""
    with running(Clock()) as clock:
        clock.stop()
        with pytest.raises(KeyboardInterrupt):
            clone(SEARCH).fit(X, Y)
    with at_records({1: partial(raise_error, KeyboardInterrupt)}), pytest.raises(KeyboardInterrupt):
        clone(SEARCH).fit(X, Y)


# -- refused -----------------------------------------------------------------------------------

REFUSED = {
    "max_faces": (LogisticSearch(max_faces=0), X, Y, "max_faces"),
    "numbers": (LogisticSearch(numbers=0), X, Y, "numbers"),
    "time limit": (LogisticSearch(time_limit=-1), X, Y, "time_limit must be seconds, at least 0, or None"),
    "one sample of a class": (LogisticSearch(), X, np.arange(80) == 0, "needs at least two of every class"),
}


@pytest.mark.parametrize(("search", "samples", "y", "sentence"), REFUSED.values(), ids=REFUSED)
def test_unusable_setting_is_named(search, samples, y, sentence):
    """A setting out of its range, or a class that cannot be split, is refused."""
    with pytest.raises(ValueError, match=sentence):
        search.fit(samples, y)


# -- copies ------------------------------------------------------------------------------------

SEARCHES = {
    "logistic": LogisticSearch(QUICK, max_faces=1, cv=2),
    "logistic with hinges": LogisticSearch(QUICK, max_faces=1, n_knots=2, cv=2),
    "grid": GridSearchCV(SVM(kernel="linear"), {"C": [0.1, 1.0]}, cv=2),
    "grid of searches": GridSearchCV(LogisticSearch(cv=2), {"max_faces": [1]}, cv=2),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_search_is_saved_by_skops(search):
    """A fitted search comes back with its labels, its status and its table of candidates."""
    search = clone(search).fit(X, Y)
    content = skops.io.dumps(search)
    again = skops.io.loads(content, trusted=skops.io.get_untrusted_types(data=content))
    assert (again.predict(X) == search.predict(X)).all()
    if hasattr(search, "status_"):
        assert again.cv_results_["params"] == search.cv_results_["params"]
        assert again.status_ is search.status_


@pytest.mark.parametrize("name", ["logistic", "logistic with hinges"])
def test_search_knows_its_features(name):
    """A search has the names and the number of its columns, and none of an earlier fit."""
    names = [f"column {j}" for j in range(X.shape[1])]
    search = clone(SEARCHES[name]).fit(pd.DataFrame(X, columns=names), Y)
    assert search.feature_names_in_.tolist() == names
    assert search.n_features_in_ == len(names)
    assert not hasattr(search.fit(X, Y), "feature_names_in_")
    assert (clone(search).fit(X, Y).decision_function(X) == search.decision_function(X)).all()
