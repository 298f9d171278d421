"""A search that Ctrl-C or a limit ends has the best of what was tried, says so, and tells how far it is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from formulations.language.clock import Clock, current_clock, running
from formulations.language.solution import Status
from polyopt import SPLA1, SVM, ConvexPolytopeMachine, FaceSearch, LogisticSearch, PolytopeSearch
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.status import solutions_of

MACHINE = ConvexPolytopeMachine(2, n_init=1, max_iter=30, random_state=0)
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
                clock.stop() if how == "stopped" else setattr(clock, "_until", 0.0)
            return original(self, *arguments, **more)

        monkeypatch.setattr(PairwiseClassifier, "fit", fit)
        return begun

    return end


STATUS = {"stopped": Status.INTERRUPTED, "raised": Status.INTERRUPTED, "late": Status.TIME_LIMIT}


def says_so(search, how):
    assert search.status_ is STATUS[how]
    for machine in (search.best_estimator_, *getattr(search.best_estimator_, "estimators_", ())):
        assert {one.status for one in solutions_of(machine)} == {STATUS[how]}
    return True


@pytest.fixture(scope="module")
def whole(blobs):
    """The search that nothing ends."""
    found = PolytopeSearch(MACHINE, costs=[0.001, 0.1, 10.0], perplexities=[1.5], cv=CV).fit(*blobs)
    assert len(found.results_) == 5
    assert found.status_ in (Status.CONVERGED, Status.SOLVED)
    return found


@pytest.mark.parametrize(
    ("how", "fits", "rows"),
    [
        *(("stopped", *at) for at in [(2, 1), (5, 2), (6, 3), (9, 4), (10, 5)]),
        *((how, *at) for how in ("raised", "late") for at in [(5, 2), (10, 5)]),  # in either stage
    ],
)
def test_the_best_of_the_costs_and_floors_that_were_tried_is_kept(blobs, whole, ends_in_fit, how, fits, rows):
    X, y = blobs
    begun = ends_in_fit(fits, how)
    search = PolytopeSearch(MACHINE, costs=[0.001, 0.1, 10.0], perplexities=[1.5], cv=CV)
    with pytest.warns(ConvergenceWarning, match=f"PolytopeSearch: .*{rows} of 5 candidates were tried"):
        search.fit(X, y)
    assert len(begun) == fits + 1, "no fit was begun after the end"
    assert says_so(search, how)
    columns = ["stage", "C", "perplexity", "error"]
    assert search.results_[columns].equals(whole.results_[columns].iloc[:rows])
    best = search.results_.loc[search.results_["error"].idxmin()]
    assert search.best_params_ == {"C": best["C"], "sgd__perplexity": best["perplexity"]}
    train, _ = next(CV.split(X, y))
    expected = clone(MACHINE).set_params(**search.best_params_).fit(X[train], y[train])
    assert (search.decision_function(X) == expected.decision_function(X)).all()
    assert not search.best_estimator_.holds_data


@pytest.mark.parametrize("how", ["stopped", "raised", "late"])
def test_the_best_number_of_faces_that_was_tried_is_kept(blobs, ends_in_fit, how):
    X, y = blobs
    ends_in_fit(5, how)
    search = FaceSearch(SPLA1(ridge=0.1, n_init=1, random_state=0), (1, 2, 3, 4), cv=CV)
    with pytest.warns(ConvergenceWarning, match="FaceSearch: .*2 of 4 candidates were tried.*n_faces="):
        search.fit(X, y)
    assert says_so(search, how)
    assert search.results_["n_faces"].tolist() == [1, 2]
    assert search.n_faces_ in (1, 2)
    assert len(search.best_estimator_.W_) == search.n_faces_


@pytest.mark.parametrize("how", ["stopped", "raised", "late"])
def test_pruning_keeps_the_last_whole_fit(blobs, ends_in_fit, how):
    X, y = blobs
    machine = SPLA1(ridge=0.1, n_init=2, random_state=0)
    ends_in_fit(1, how)
    search = FaceSearch(machine, (8,), how="prune")
    with pytest.warns(ConvergenceWarning, match="8 faces: the last of 1 whole fits"):
        search.fit(X, y)
    assert says_so(search, how)
    assert search.results_["n_faces"].tolist() == [8]
    assert search.n_faces_ == 8
    assert search.best_estimator_.holds_data, "it was fitted to all samples"


@pytest.mark.parametrize(
    "search",
    [PolytopeSearch(MACHINE, cv=CV), FaceSearch(MACHINE, cv=CV), FaceSearch(MACHINE, how="prune")],
    ids=["costs", "faces", "prune"],
)
def test_before_any_candidate_there_is_an_interruption_or_a_point(blobs, ends_in_fit, search):
    X, y = blobs
    with pytest.warns(ConvergenceWarning, match="time limit"):
        late = clone(search).set_params(time_limit=0.0).fit(X, y)
    assert says_so(late, "late")
    assert set(late.predict(X)) <= {0, 1}
    assert len(late.results_) == 0
    with running(Clock()) as clock:
        clock.stop()
        with pytest.raises(KeyboardInterrupt):
            clone(search).fit(X, y)
    ends_in_fit(0, "raised")
    with pytest.raises(KeyboardInterrupt):
        clone(search).fit(X, y)
    with pytest.raises(ValueError, match="time_limit must be seconds, at least 0, or None"):
        clone(search).set_params(time_limit=-1).fit(X, y)


def test_threads_know_that_it_is_over(blobs, ends_in_fit):
    X, y = blobs
    ends_in_fit(7)
    search = PolytopeSearch(MACHINE, costs=[0.001, 0.1, 1.0, 10.0, 100.0], cv=CV, n_jobs=2)
    with parallel_config("threading"), pytest.warns(ConvergenceWarning, match="candidates were tried"):
        search.fit(X, y)
    assert says_so(search, "stopped")
    assert 1 <= len(search.results_) <= 4
    best = search.results_.loc[search.results_["error"].idxmin()]
    assert search.best_params_["C"] == best["C"]


def test_more_classes_and_two_sides_say_it_of_every_part(blobs, ends_in_fit):
    X, _ = blobs
    y = np.arange(80) % 4 // (1 + np.arange(80) % 2)
    machine = clone(MACHINE).set_params(inside_label="both")
    ends_in_fit(2)
    search = FaceSearch(machine, (1, 2), cv=CV)
    with pytest.warns(ConvergenceWarning, match="1 of 2 candidates"):
        search.fit(X, y)
    assert says_so(search, "stopped")
    assert len(search.best_estimator_.estimators_) == 3
    sides = [side for pair in search.best_estimator_.estimators_ for side in pair.sides_]
    assert {side.solution_.status for side in sides} == {Status.INTERRUPTED}


class Tree(DecisionTreeClassifier):
    """A classifier that knows of no clocks."""

    def __init__(self, n_faces=2, random_state=0):
        super().__init__(max_leaf_nodes=n_faces + 1, random_state=random_state)
        self.n_faces = n_faces


def test_a_classifier_of_others_is_compared_and_kept_too(blobs):
    X, y = blobs
    search = FaceSearch(Tree(), (1, 2, 3), cv=CV).fit(X, y)
    assert (search.status_, len(search.results_)) == (Status.CONVERGED, 3)
    with pytest.warns(ConvergenceWarning, match="No candidate was tried to its end"):
        late = FaceSearch(Tree(), (1, 2, 3), cv=CV, time_limit=0.0).fit(X, y)
    assert late.status_ is Status.TIME_LIMIT
    assert late.n_faces_ == 1


@pytest.mark.parametrize("verbose", [0, 1])
def test_verbose_tells_fits_times_and_what_is_left(blobs, monkeypatch, capsys, verbose):
    from polyopt.base import progress as progress

    monkeypatch.setattr(progress.printer, "__defaults__", (0.0,))
    X, y = blobs
    search = PolytopeSearch(MACHINE, costs=[0.1, 1.0], perplexities=[1.5], cv=CV, verbose=verbose).fit(X, y)
    found = capsys.readouterr()
    assert found.out == ""
    lines = found.err.splitlines()
    assert bool(lines) == bool(verbose)
    whole = [line for line in lines if line.startswith("PolytopeSearch: ")]
    pattern = r"PolytopeSearch: \d+\.\d s, fit (\d) of 9, about \d+\.\d s left"
    counts = [re.fullmatch(pattern, line).group(1) for line in whole]
    assert counts == ([str(k) for k in range(1, 9)] if verbose else [])
    each = [line for line in lines if line not in whole]
    assert all(re.match(r"PolytopeSearch, fit \d of 9: \d", line) for line in each)
    assert bool(each) == bool(verbose)
    assert len(search.results_) == 4


SEARCHES = {
    "polytope": lambda: PolytopeSearch(ConvexPolytopeMachine(n_faces=2), costs=(1.0, 10.0), cv=2),
    "faces": lambda: FaceSearch(ConvexPolytopeMachine(n_faces=2), n_faces=(1, 2), cv=2),
    "pruned": lambda: FaceSearch(ConvexPolytopeMachine(n_faces=2), n_faces=(2,), how="prune"),
    "logistic": lambda: LogisticSearch(max_faces=1, cv=2),
    "grid": lambda: GridSearchCV(SVM(kernel="linear"), {"C": [0.1, 1.0]}, cv=2),
    "grid of searches": lambda: GridSearchCV(
        FaceSearch(ConvexPolytopeMachine(), n_faces=(1, 2), cv=2), {"n_faces": [(1,), (1, 2)]}, cv=2
    ),
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
    if hasattr(search, "results_"):
        assert again.results_.equals(search.results_)
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
