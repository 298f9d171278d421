"""A search that Ctrl-C or a limit ends has the best of what was tried, says so, and tells how far it is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from formulations.language.clock import Clock, current_clock, running
from formulations.language.solution import Status
from polyopt import SVM, LogisticPolytopes, LogisticSearch
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.status import solutions_of

CV = StratifiedKFold(2)


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    return rng.normal(size=(80, 3)) + 1.2 * y[:, None], y


@pytest.fixture
def ends_in_fit(monkeypatch):
    """The fit ends when so many fits were begun: in the next, before its first step, or by an exception."""

    def end(count, how="stopped"):
        begun = []
        original = PairwiseClassifier.fit

        def fit(self, *arguments, **more):
            begun.append(self)
            if len(begun) == count + 1 and how == "raised":
                raise KeyboardInterrupt
            if len(begun) == count + 1:
                clock = current_clock()
                clock.stop() if how == "stopped" else setattr(clock, "_deadline", 0.0)
            return original(self, *arguments, **more)

        monkeypatch.setattr(PairwiseClassifier, "fit", fit)
        return begun

    return end


STATUS = {"stopped": Status.INTERRUPTED, "late": Status.TIME_LIMIT}
SEARCH = LogisticSearch(LogisticPolytopes(n_init=1, random_state=0), max_faces=1, cv=CV)


@pytest.mark.parametrize("how", STATUS)
def test_a_search_that_ends_in_its_last_fit_keeps_what_it_chose(blobs, ends_in_fit, how):
    X, y = blobs
    chosen = clone(SEARCH).fit(X, y)
    assert chosen.status_ in (Status.CONVERGED, Status.SOLVED)
    begun = ends_in_fit(0, how)
    search = clone(SEARCH)
    with pytest.warns(
        ConvergenceWarning, match=f"LogisticSearch: .*{len(chosen.cv_results_['params'])} candidates were tr"
    ):
        search.fit(X, y)
    assert len(begun) == 1
    assert search.status_ is STATUS[how]
    assert {one.status for one in solutions_of(search.best_estimator_)} == {STATUS[how]}
    assert search.cv_results_ == chosen.cv_results_
    assert search.best_params_ == chosen.best_params_
    assert search.best_estimator_.holds_data, "it was fitted to all samples"


def test_before_any_candidate_there_is_an_interruption_or_a_point(blobs, ends_in_fit):
    X, y = blobs
    with pytest.warns(ConvergenceWarning, match="time limit"):
        late = clone(SEARCH).set_params(time_limit=0.0).fit(X, y, sample_weight=np.ones(len(y)))
    assert late.status_ is Status.TIME_LIMIT
    assert set(late.predict(X)) <= {0, 1}
    assert late.cv_results_["params"] == []
    with running(Clock()) as clock:
        clock.stop()
        with pytest.raises(KeyboardInterrupt):
            clone(SEARCH).fit(X, y)
    ends_in_fit(0, "raised")
    with pytest.raises(KeyboardInterrupt):
        clone(SEARCH).fit(X, y)
    with pytest.raises(ValueError, match="time_limit must be seconds, at least 0, or None"):
        clone(SEARCH).set_params(time_limit=-1).fit(X, y)


SEARCHES = {
    "logistic": lambda: LogisticSearch(max_faces=1, cv=2),
    "logistic with hinges": lambda: LogisticSearch(max_faces=1, n_knots=2, cv=2),
    "grid": lambda: GridSearchCV(SVM(kernel="linear"), {"C": [0.1, 1.0]}, cv=2),
    "grid of searches": lambda: GridSearchCV(LogisticSearch(cv=2), {"max_faces": [1]}, cv=2),
}


@pytest.mark.parametrize("make", SEARCHES.values(), ids=SEARCHES)
def test_a_search_is_saved_by_skops(blobs, make):
    """A fitted search comes back with its labels, its status and its table of candidates."""
    import skops.io

    X, y = blobs
    search = make().fit(X, y)
    content = skops.io.dumps(search)
    again = skops.io.loads(content, trusted=skops.io.get_untrusted_types(data=content))
    assert (again.predict(X) == search.predict(X)).all()
    if hasattr(search, "status_"):
        assert again.cv_results_["params"] == search.cv_results_["params"]
        assert again.status_ is search.status_


OURS = [name for name in SEARCHES if "grid" not in name]


@pytest.mark.parametrize("make", [SEARCHES[name] for name in OURS], ids=OURS)
def test_a_search_knows_the_names_of_its_features(blobs, make):
    """A search has the names and the number of the columns that it was fitted to, and of no earlier fit."""
    pd = pytest.importorskip("pandas")
    X, y = blobs
    names = [f"column {j}" for j in range(X.shape[1])]
    search = make().fit(pd.DataFrame(X, columns=names), y)
    assert search.feature_names_in_.tolist() == names
    assert search.n_features_in_ == len(names)
    assert not hasattr(search.fit(X, y), "feature_names_in_")
