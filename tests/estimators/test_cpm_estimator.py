"""ConvexPolytopeMachine: scikit-learn's conventions, its two solvers, known polytopes, bad input."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from helpers.conventions import EQUIVALENCE, broken_conventions
from helpers.cpm import LOSSES, clusters
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from formulations import cpm
from polyopt import Claim, ConvexPolytopeMachine, SGDSettings
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.datasets import load, make_polytope

CPM = ConvexPolytopeMachine


def test_check_estimator_has_no_failure():
    assert broken_conventions(CPM(2, n_init=1, max_iter=5)) == {}


def test_check_estimator_has_no_failure_for_sgd():
    # Its samples come in random order: a weight is a repetition only up to the tolerance.
    assert set(broken_conventions(CPM(solver="sgd", n_init=1, max_iter=60))) <= EQUIVALENCE


# -- the two solvers -----------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 3])
def test_both_solvers_minimise_the_same_objective(K):
    X, y, _ = clusters(80, 3, 0, widen=1.5)
    exact = CPM(K, solver="exact", random_state=0).fit(X, y)
    fast = CPM(K, solver="sgd", max_iter=2000, tol=1e-5, n_init=2, random_state=0).fit(X, y)
    assert exact.certificate().claim is (Claim.OPTIMAL if K == 1 else Claim.STATIONARY)
    certificate = fast.certificate()
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.relative_gap < 2e-3
    assert certificate.primal_value == pytest.approx(exact.certificate().primal_value, rel=2e-3)
    assert fast.decision_function(X) == pytest.approx(exact.decision_function(X), abs=0.1)
    assert certificate.primal_value == pytest.approx(fast.solution_.objective)


def test_the_solver_that_auto_picked_is_named():
    X, y, _ = clusters(100, 3, 0)
    assert CPM(random_state=0).fit(X, y).solver_ == "exact"
    assert CPM(random_state=0, sgd=SGDSettings(perplexity=1.5)).fit(X, y).solver_ == "sgd"
    assert CPM(random_state=0, loss="max", n_init=1).fit(X, y).solver_ == "exact"
    X, y, _ = clusters(10_000, 3, 0)
    assert CPM(random_state=0).fit(X, y).solver_ == "sgd"


@pytest.mark.parametrize(
    "settings", [{"solver": "exact"}, {"solver": "exact", "loss": "max"}, {"solver": "sgd"}]
)
def test_a_known_polytope_is_learnt(settings):
    X, y, _, _ = make_polytope(150, 2, 4, margin=0.3, random_state=1)
    machine = CPM(4, C=1000.0, inside_label=1, max_iter=500, random_state=0, n_init=15, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, y)
    assert machine.score(X, y) == 1.0
    test_X, test_y, _, _ = make_polytope(2000, 2, 4, margin=0.3, random_state=1)
    assert machine.score(test_X, test_y) > 0.97
    assert CPM(1, C=1000.0, inside_label=1, solver="exact").fit(X, y).score(X, y) < 0.9


# -- weights, labels, data -----------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_is_a_repetition_and_zero_an_absence(loss, rng):
    X, y, _ = clusters(40, 3, 0, widen=1.5)
    weights = rng.integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    machine = CPM(loss=loss, random_state=0, n_init=4)
    weighted = clone(machine).fit(X, y, sample_weight=weights)
    repeated = clone(machine).fit(X[rows], y[rows])
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=1e-7)
    assert weighted.perplexity_ == pytest.approx(repeated.perplexity_)
    assert set(weighted.duals_["sample"]) == set(np.flatnonzero(weights))
    assert len(weighted.assignment_) == np.count_nonzero(weights)


def test_the_inside_label_turns_the_polytope_and_not_the_sign():
    X, y, _ = clusters(80, 3, 0)
    names = np.where(y > 0, "out", "in")
    machine = CPM(inside_label="in", random_state=0).fit(X, names)
    assert machine.classes_.tolist() == ["in", "out"]
    assert machine.outer_label_ == "out"
    assert machine.score(X, names) > 0.9
    assert ((machine.decision_function(X) > 0) == (machine.predict(X) == "out")).all()
    # The same polytope, where the class outside comes first in the alphabet.
    renamed = np.where(y > 0, "a", "b")
    turned = CPM(inside_label="b", random_state=0).fit(X, renamed)
    assert turned.W_ == pytest.approx(machine.W_)
    assert turned.decision_function(X) == pytest.approx(-machine.decision_function(X))
    assert turned.score(X, renamed) == machine.score(X, names)
    # By default the first class is inside.
    assert CPM(random_state=0).fit(X, renamed).outer_label_ == "b"


def test_the_scores_are_the_largest_of_the_faces():
    X, y, _ = clusters(60, 3, 0)
    machine = CPM(random_state=0).fit(X, y)
    assert machine.W_.shape == (3, 2)
    assert machine.b_.shape == (3,)
    assert machine.decision_function(X) == pytest.approx((X @ machine.W_.T + machine.b_).max(axis=1))
    shares = np.bincount(machine.assignment_[y > 0]) / 30
    assert machine.perplexity_ == pytest.approx(np.exp(-shares @ np.log(shares)))
    assert (machine.assignment_[y < 0] == -1).all()


def test_three_classes_vote_in_pairs():
    X, y = load_iris(return_X_y=True)
    machine = CPM(2, random_state=0, n_init=2).fit(X, y)
    assert machine.score(X, y) > 0.95
    assert len(machine.estimators_) == 3
    assert machine.certificate().claim is Claim.STATIONARY
    assert set(machine.duals_["pair"]) == {"0 vs 1", "0 vs 2", "1 vs 2"}
    assert set(machine.history_["pair"]) == {"0 vs 1", "0 vs 2", "1 vs 2"}
    with pytest.raises(ValueError, match="inside_label=1 needs two classes, but there are 3"):
        CPM(inside_label=1).fit(X, y)


# -- what is read off a fitted machine -----------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_the_table_of_multipliers(loss):
    X, y, _ = clusters(40, 3, 0, widen=1.5)
    machine = CPM(C=0.7, loss=loss, random_state=0).fit(X, np.where(y > 0, "out", "in"))
    duals = machine.duals_
    margin, slack = duals[duals["row"] == "margin"], duals[duals["row"] == "slack"]
    assert len(margin) == 20 + 3 * 20  # a positive has one face, a negative all
    assert margin["sample"].is_monotonic_increasing
    assert len(slack) == (20 + 3 * 20 if loss == "sum" else 40)
    # The multipliers are the model: W = ½ Σ alpha y x.
    i, k = margin["sample"].to_numpy(), margin["face"].to_numpy()
    pulls = (margin["multiplier"].to_numpy() * y[i])[:, None] * cpm.lift(X)[i]
    W = np.array([0.5 * pulls[k == face].sum(axis=0) for face in range(3)])
    assert pytest.approx(np.c_[machine.W_, machine.b_], abs=1e-6) == W
    assert (margin["multiplier"] >= -1e-9).all()
    assert (slack["multiplier"] >= -1e-9).all()
    assert (margin["multiplier"] * margin["slack"]).abs().max() < 1e-6
    assert (slack["multiplier"] * slack["slack"]).abs().max() < 1e-6
    paid = 0.7 * slack["slack"].sum() + (machine.W_**2).sum() + (machine.b_**2).sum()
    assert paid == pytest.approx(machine.solution_.objective)
    assert margin["label"].tolist() == np.where(y[i] > 0, "out", "in").tolist()
    inside = margin["state"] == "inside the margin"
    assert (margin["multiplier"][inside] > 0.7 - 1e-5).all()
    assert margin["output"].to_numpy() == pytest.approx(
        (cpm.lift(X)[i] * np.c_[machine.W_, machine.b_][k]).sum(axis=1)
    )


def test_sgd_has_no_multipliers_and_says_so():
    X, y, _ = clusters(40, 3, 0)
    duals = CPM(solver="sgd", random_state=0).fit(X, y).duals_
    assert duals["multiplier"].isna().all()
    assert duals["slack"].notna().all()


@pytest.mark.parametrize("widen", [1.0, 1.5], ids=["separable", "overlapping"])
def test_states_without_multipliers_follow_outputs(widen):
    """A sample is inside, on or beyond the margin by y f - 1, to 1e-6, where SGD leaves no multipliers."""
    X, y, _ = clusters(60, 3, 0, widen=widen)
    duals = CPM(solver="sgd", max_iter=5000, random_state=0).fit(X, y).duals_
    margin = duals[duals["row"] == "margin"]
    excess = y[margin["sample"]] * margin["output"].to_numpy() - 1.0
    sides = np.where(np.abs(excess) <= 1e-6, 0, np.sign(excess))
    words = {-1: "inside the margin", 0: "on the margin", 1: "beyond the margin"}
    assert margin["state"].tolist() == [words[side] for side in sides]


def test_the_history_has_every_start():
    X, y, _ = clusters(40, 3, 0, widen=1.5)
    exact = CPM(random_state=0, n_init=5).fit(X, y)
    # The last is from where dual ascent ends.
    assert sorted(exact.history_["start"].unique()) == [0, 1, 2, 3, 4, 5]
    assert exact.solution_.objective == pytest.approx(
        exact.history_.groupby("start")["objective"].last().min()
    )
    fast = CPM(random_state=0, solver="sgd", n_init=3).fit(X, y)
    assert sorted(fast.history_["start"].unique()) == [0, 1, 2]
    assert fast.solution_.objective == fast.history_["objective"].min()


def test_a_limit_is_told(ticking):
    pima = load("pima")
    scaled = StandardScaler().fit_transform(pima.X)
    with pytest.warns(ConvergenceWarning, match="The iteration limit was reached"):
        CPM(5, solver="exact", max_iter=1, n_init=1, random_state=0).fit(scaled, pima.y)
    X, y, _ = clusters(200, 3, 0, widen=1.5)
    with pytest.warns(ConvergenceWarning, match="The time limit was reached"):
        machine = CPM(solver="sgd", max_iter=10**7, tol=1e-12, time_limit=1.0, random_state=0).fit(X, y)
    assert machine.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_faces": 0}, "n_faces must be an integer of at least 1, not 0"),
        ({"n_faces": 2.5}, "n_faces must be an integer of at least 1, not 2.5"),
        ({"C": 0.0}, "C must be positive and finite, not 0.0"),
        ({"sgd__perplexity": 0.9}, "perplexity must be at least 1 and finite, not 0.9"),
        ({"sgd__perplexity": 3.5}, "perplexity must be from 1 to n_faces=3, not 3.5"),
        ({"sgd__perplexity": 2.0, "solver": "exact"}, "perplexity=2.0 needs solver='sgd'"),
        ({"sgd__perplexity": 2.0, "loss": "max"}, "perplexity=2.0 needs solver='sgd'"),
        ({"penalty__margin": "worst", "solver": "sgd"}, "margin='worst' needs solver='exact'"),
        ({"sgd__feature_scale": 0.0}, "feature_scale must be positive and finite, not 0.0"),
        ({"loss": "max", "solver": "sgd"}, "loss='max' needs solver='exact'"),
        ({"inside_label": 7}, "inside_label must be one of [-1.0, 1.0], not 7"),
        ({"n_init": 0}, "n_init must be an integer of at least 1, not 0"),
        ({"loss": "hinge"}, "'loss' parameter .* Got 'hinge'"),
    ],
)
def test_a_bad_setting_is_named(settings, sentence):
    X, y, _ = clusters(20, 3, 0)
    pattern = ".*".join(re.escape(part) for part in sentence.split(" .* "))
    with pytest.raises(ValueError, match=pattern):
        CPM().set_params(**settings).fit(X, y)


def test_the_highest_perplexity_is_allowed():
    X, y, _ = clusters(40, 3, 0)
    machine = CPM(3, sgd=SGDSettings(perplexity=3.0), random_state=0, max_iter=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert machine.fit(X, y).solver_ == "sgd"


# -- degenerate data -----------------------------------------------------------------------


@st.composite
def degenerate(draw):
    """Few samples: duplicates, features of zeros, one positive or one negative, scales far apart."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, m = draw(st.integers(2, 25)), draw(st.integers(1, 4))
    X = rng.normal(size=(n, m)).round(1)
    X[:, rng.random(m) < draw(st.sampled_from([0.0, 0.5, 1.0]))] = 0.0
    if draw(st.booleans()):
        X = X[rng.integers(0, n, n)]
    positives = draw(st.sampled_from([1, n // 2, n - 1])) or 1
    return X * draw(st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6])), np.where(
        np.arange(n) < positives, 1.0, -1.0
    )


@tried(max_examples=5)
@given(degenerate(), st.sampled_from([1e-3, 1.0, 1e3]), st.sampled_from(LOSSES), st.integers(1, 4))
def test_degenerate_data_are_solved_or_said_not_to_be(data, C, loss, K):
    X, y = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = CPM(K, C=C, loss=loss, solver="exact", n_init=2, random_state=0).fit(X, y)
    certificate = machine.certificate()
    assert np.isfinite(machine.decision_function(X)).all()
    assert certificate.dual_value <= certificate.primal_value * (1 + 1e-9)
    assert (certificate.relative_gap > 1e-6) == any("Short of exact" in str(w.message) for w in caught)
    if np.abs(X).max() < 100:
        assert certificate.relative_gap < 1e-6
    assert certificate.primal_value <= machine.C * K * len(y) * (1 + 1e-6)  # as good as W = 0


@tried(max_examples=5)
@given(degenerate(), st.sampled_from([1e-3, 1.0, 1e3]), st.integers(1, 4))
def test_sgd_survives_degenerate_data(data, C, K):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = CPM(K, C=C, solver="sgd", max_iter=50, random_state=0).fit(X, y)
    assert np.isfinite(machine.decision_function(X)).all()
    assert machine.solution_.objective == pytest.approx(
        cpm.objective(X, y, np.c_[machine.W_, machine.b_], C), rel=1e-9
    )
    certificate = machine.certificate()
    assert certificate.dual_value <= certificate.primal_value * (1 + 1e-9)


def test_a_solver_that_leaves_nothing_is_an_error_that_says_what_to_do(monkeypatch):
    from formulations.language.program import Program
    from formulations.language.solution import Solution, Status

    def nothing(self, *arguments, **settings):
        return Solution(Status.FAILED, {}, {}, float("nan"), None, "none")

    monkeypatch.setattr(Program, "solve", nothing)
    X, y, _ = clusters(20, 3, 0)
    with pytest.raises(RuntimeError, match="solver='sgd'"):
        PolytopeProblem(X, y, np.ones(20), 3, "max").solve(np.where(y > 0, 0, -1))
