"""The polyhedral classifiers as a user has them: conventions, agreement, certificates, hard cases."""

from __future__ import annotations

import re
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.conventions import EQUIVALENCE, broken_conventions
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from formulations import mixture, polyhedral
from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    Claim,
    ConvexPolytopeMachine,
    EMSettings,
    LogisticPolytopes,
    PerceptronSettings,
    Polyceptron,
    datasets,
)
from polyopt.datasets import make_polytope
from polyopt.estimators.faces import scaling_advice
from polyopt.estimators.votes import couple_pairs

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FEW = 2  # starts
MACHINES = {
    "batch": Polyceptron(n_init=FEW, random_state=0),
    "online": Polyceptron(solver="online", n_init=FEW, max_iter=100, random_state=0),
    "highs": Polyceptron(solver="highs", n_init=FEW, random_state=0),
    "spla1": SPLA1(n_init=FEW, random_state=0),
    "spla1-all": SPLA1(positives="all", n_init=FEW, random_state=0),
    "pc-slp": PCSLP(n_init=FEW, random_state=0),
    "plume": PLUME(n_init=FEW, random_state=0),
    "plume-bfgs": PLUME(solver="bfgs", em=EMSettings(anneal=True), gamma=4.0, n_init=FEW, random_state=0),
}
every_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


@pytest.fixture(scope="module")
def square():
    """Samples in a square of the plane, and around it; three in a hundred have the wrong label."""
    X, y, _, _ = make_polytope(200, 2, 4, margin=0.05, noise=0.03, random_state=1)
    return X, np.where(y > 0, "in", "out")


# -- conventions -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["batch", "highs", "spla1", "pc-slp", "plume"])
def test_check_estimator_has_no_failure(name):
    rounds = {"plume": {"max_iter": 2}, "spla1": {"max_iter": 5}}.get(name, {})
    machine = clone(MACHINES[name]).set_params(n_init=1, **rounds)
    of_all = {"first": name == "batch"}
    assert broken_conventions(machine, **of_all) == {}


def test_check_estimator_of_the_online_variant_but_for_weights():
    # A weight multiplies a step and is no second visit.
    assert set(broken_conventions(clone(MACHINES["online"]).set_params(n_init=1))) <= EQUIVALENCE


@every_machine
def test_learns_the_square_and_says_which_side_is_inside(machine, square):
    X, names = square
    fitted = clone(machine).set_params(n_faces=4, n_init=5, inside_label="in").fit(X, names)
    perceptron = getattr(machine, "solver", "") in ("auto", "online") and isinstance(machine, Polyceptron)
    assert fitted.score(X, names) > (0.87 if perceptron else 0.93)  # at most 0.97 of the labels are right
    assert (fitted.inside_label_, fitted.outer_label_) == ("in", "out")
    scores = fitted.face_scores(X)
    assert (fitted.active_face(X) == scores.argmin(axis=1)).all()
    assert (fitted.assignment_ == scores.argmin(axis=1)).all()
    assert (fitted.polytope_.contains(X) == (scores.min(axis=1) >= 0)).all()
    if not isinstance(machine, PLUME):
        assert fitted.decision_function(X) == pytest.approx(-scores.min(axis=1))  # "out" is the second
        assert ((fitted.predict(X) == "in") == (scores.min(axis=1) >= 0)).all()
    other = clone(fitted).set_params(inside_label=None).fit(X, np.where(names == "in", "z", "a"))
    assert other.inside_label_ == "z"
    assert other.decision_function(X) == pytest.approx(-fitted.decision_function(X))


@every_machine
def test_three_classes_vote_in_pairs(machine):
    X, y = load_iris(return_X_y=True)
    fitted = clone(machine).fit(X, y)
    assert fitted.score(X, y) > 0.9
    assert fitted.pairs_ == [(0, 1), (0, 2), (1, 2)]
    certificate = fitted.certificate()
    assert certificate.primal_value == pytest.approx(
        sum(part.certificate().primal_value for part in fitted.estimators_)
    )
    assert set(fitted.duals_["sample"]) == set(range(150))
    with pytest.raises(AttributeError, match="of one polytope"):
        _ = fitted.polytope_
    with pytest.raises(ValueError, match="inside_label=1 needs two classes"):
        clone(machine).set_params(inside_label=1).fit(X, y)


def test_pairs_in_processes_are_the_pairs_in_turn():
    X, y = load_iris(return_X_y=True)
    machine = clone(MACHINES["batch"])
    weights = np.linspace(0.5, 2.0, 150)
    one, two = (
        clone(machine).set_params(n_jobs=jobs).fit(X, y, sample_weight=weights).decision_function(X)
        for jobs in (None, 2)
    )
    assert two == pytest.approx(one, rel=1e-6, abs=1e-8)


@every_machine
def test_the_same_seed_is_the_same_machine_on_one_worker_and_on_two(machine, square):
    X, names = square
    one = clone(machine).fit(X, names)
    two = clone(machine).set_params(n_jobs=2).fit(X, names)
    assert two.decision_function(X) == pytest.approx(one.decision_function(X), rel=1e-6, abs=1e-8)


# -- probabilities ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spla1", "plume"])
def test_probabilities_are_the_model_s(name, square):
    X, names = square
    fitted = clone(MACHINES[name]).set_params(inside_label="in").fit(X, names)
    W = np.column_stack([fitted.W_, fitted.b_])
    if name == "plume":
        inside = mixture.posterior(X, W, fitted.gamma)
    else:
        inside = 1.0 / (1.0 + np.exp(-polyhedral.scores(X, W).min(axis=1)))
    assert fitted.predict_proba(X) == pytest.approx(np.column_stack([inside, 1.0 - inside]))
    assert (fitted.predict(X) == np.where(inside > 0.5, "in", "out")).all()
    iris, y = load_iris(return_X_y=True)
    many = clone(MACHINES[name]).fit(iris, y)
    probabilities = many.predict_proba(iris)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(150))
    assert (probabilities.argmax(axis=1) == many.predict(iris)).all()


def test_pairs_that_agree_are_coupled_to_what_they_agree_on(rng):
    p = rng.dirichlet(np.ones(4), size=20)
    pairs = np.column_stack([p[:, j] / (p[:, i] + p[:, j]) for i in range(4) for j in range(i + 1, 4)])
    assert couple_pairs(pairs, 4) == pytest.approx(p, abs=1e-9)


def test_plume_decides_by_its_polytope_where_asked(square):
    X, names = square
    fitted = PLUME(4, decision="polytope", inside_label="in", random_state=0).fit(X, names)
    assert ((fitted.predict(X) == "in") == fitted.polytope_.contains(X)).all()
    posterior = clone(fitted).set_params(decision="posterior").fit(X, names)
    assert (posterior.W_ == fitted.W_).all()


def test_plume_s_bound_is_above_its_error_and_falls_with_the_data():
    totals = []
    for n in (300, 10_000):
        X, y = make_polytope(n, 2, 2, margin=0.5, random_state=0)[:2]
        machine = PLUME(2, gamma=0.5, ridge=1.0, n_init=1, random_state=0).fit(X, y)
        bound = machine.generalization_bound()
        assert bound.total > np.mean(machine.predict(X) != y)
        totals.append(bound.total)
    assert totals[1] < 0.5 * totals[0]
    with pytest.raises(ValueError, match="needs the training data"):
        machine.without_data().generalization_bound()


def test_one_face_of_either_model_is_logistic_regression(square):
    X, names = square
    lifted = np.column_stack([X, np.ones(len(X))])
    theirs = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-10).fit(lifted, names)
    for machine in (SPLA1(1, ridge=0.1), PLUME(1, ridge=0.1, gamma=3.0)):
        fitted = machine.fit(X, names)
        assert fitted.decision_function(X) == pytest.approx(theirs.decision_function(lifted), abs=1e-4)
        assert fitted.certificate().claim is Claim.OPTIMAL


# -- what is proven --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fast", "exact"),
    [
        (SPLA1(ridge=0.2, solver="newton"), "exact"),
        (SPLA1(ridge=0.2, positives="all", solver="bfgs"), "exact"),
        (PLUME(ridge=0.2, solver="newton", tol=1e-9), "exact"),
        (PLUME(ridge=0.2, solver="bfgs", tol=1e-9), "exact"),
        (PCSLP(1), "exact"),
        (Polyceptron(1, solver="highs"), "exact"),
    ],
)
def test_the_fast_solver_reaches_the_explicit_program_s_answer(fast, exact, square):
    X, names = square
    fast = clone(fast).set_params(n_init=1, random_state=1).fit(X[:120], names[:120])
    slow = clone(fast).set_params(solver=exact).fit(X[:120], names[:120])
    assert fast.certificate().primal_value == pytest.approx(slow.certificate().primal_value, rel=1e-6)


@pytest.mark.parametrize("name", ["highs", "spla1-all", "pc-slp", "plume", "plume-bfgs"])
def test_a_descent_ends_at_a_fixed_point_that_is_proven(name, square):
    X, names = square
    fitted = clone(MACHINES[name]).fit(X, names)
    certificate = fitted.certificate()
    assert certificate.claim in (Claim.STATIONARY, Claim.OPTIMAL)
    assert certificate.relative_gap <= 1e-6
    assert certificate.primal_value == pytest.approx(fitted.solution_.objective, rel=1e-9)
    fitted.solution_.primal["W"] = fitted.solution_["W"] + 0.05
    assert fitted.certificate().claim in (Claim.SUBOPTIMAL_BY, Claim.NONE)


def test_what_the_perceptron_learnt_is_held_to_the_exact_program(square):
    X, names = square
    batch, exact = (clone(MACHINES[name]).set_params(n_init=5).fit(X, names) for name in ("batch", "highs"))
    certificate = batch.certificate()
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.primal_value == pytest.approx(batch.solution_.objective)
    assert certificate.dual_value < certificate.primal_value
    assert exact.certificate().primal_value < certificate.primal_value
    assert (batch.history_["criterion"] >= 0).all()
    assert batch.duals_["multiplier"].isna().all()


def test_multipliers_hold_the_faces(square):
    X, names = square
    lifted = np.column_stack([X, np.ones(len(X))])
    y = np.where(names == "in", 1.0, -1.0)

    def balance(fitted):
        pulls = np.zeros((3, 3))
        for row in fitted.duals_.itertuples():
            sign = 1.0 if row.letter == "alpha" else y[row.sample]
            pulls[row.face] += row.multiplier * sign * lifted[row.sample]
        return pulls

    def faces(fitted):
        return np.column_stack([fitted.W_, fitted.b_])

    spla1 = SPLA1(positives="all", ridge=0.3, inside_label="in", random_state=0).fit(X, names)
    assert balance(spla1) == pytest.approx(0.3 * faces(spla1), abs=1e-5)
    plume = PLUME(ridge=0.3, inside_label="in", random_state=0).fit(X, names)
    assert balance(plume) == pytest.approx(0.3 * faces(plume), abs=1e-5)
    exact = Polyceptron(solver="highs", inside_label="in", random_state=0).fit(X, names)
    pcslp = PCSLP(inside_label="in", random_state=0).fit(X, names)
    for fitted in (exact, pcslp):
        assert balance(fitted) == pytest.approx(np.zeros((3, 3)), abs=1e-7)
        frame = fitted.duals_
        assert (frame["multiplier"] * frame["slack"]).abs().max() < 1e-6
        assert frame["multiplier"].max() > 0


# -- streams ---------------------------------------------------------------------------------


def test_a_stream_learns_what_online_learns():
    X, y = datasets.make_polyceptron1(n_samples=3000, random_state=0)
    machine = Polyceptron(passes=PerceptronSettings(step=1.0), random_state=0)
    for _ in range(30):
        for first in range(0, 2000, 500):
            machine.partial_fit(X[first : first + 500], y[first : first + 500])
    assert machine.score(X[2000:], y[2000:]) > 0.95
    assert len(machine.history_) == 120
    assert machine.history_["made"].iloc[-4:].sum() < 0.25 * machine.history_["made"].iloc[:4].sum()
    with pytest.raises(ValueError, match="needs the training data"):
        machine.certificate()
    machine.partial_fit(X[:1], y[:1])  # one sample, of one class
    with pytest.raises(ValueError, match="must be of the classes"):
        machine.partial_fit(X[:2], [3, 4])


def test_a_stream_of_three_classes():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    machine = Polyceptron(2, passes=PerceptronSettings(step=0.5), random_state=0)
    for _ in range(60):
        machine.partial_fit(X, y)
    assert machine.score(X, y) > 0.9


# -- hard cases ------------------------------------------------------------------------------


@every_machine
@pytest.mark.parametrize("kind", ["one point", "copies", "contradictions", "many faces", "dead", "no help"])
def test_degenerate_data_give_finite_faces_and_true_certificates(machine, kind):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 3)), rng.choice([0, 1], 40)
    faces = 3
    if kind == "one point":
        y = (np.arange(40) == 11).astype(int)
    elif kind == "copies":
        X, y = np.repeat(X[:10], 4, axis=0), np.repeat(np.arange(10) % 2, 4)
    elif kind == "contradictions":
        X, y = np.repeat(X[:20], 2, axis=0), np.tile([0, 1], 20)
    elif kind == "many faces":
        X, y, faces = X[:6], np.array([0, 1, 1, 1, 1, 0]), 12
    elif kind == "dead":
        X[:, 1] = 7.0
        X[:, 2] = 0.0
    else:
        X[:] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(machine).set_params(n_faces=faces).fit(X, y)
    assert np.isfinite(fitted.W_).all()
    assert np.isfinite(fitted.b_).all()
    assert set(fitted.predict(X)) <= {0, 1}
    certificate = fitted.certificate()
    assert certificate.dual_value <= certificate.primal_value * (1 + 1e-9) + 1e-9
    assert fitted.history_["occupied"].iloc[-1] <= min(faces, len(X))


@every_machine
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_features_of_odd_scale_are_answered_with_advice(machine, scale, square):
    X, names = square
    with pytest.warns(UserWarning, match="scale them to unit variance"):
        fitted = clone(machine).fit(X * np.array([scale, 1.0]), names)
    assert np.isfinite(fitted.decision_function(X * np.array([scale, 1.0]))).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        clone(machine).fit(X, names)


SPREADS = {
    (1.0, 0.9e4): False, (1.0, 1.1e4): True, (0.0, 0.0): False,
    (0.0, 1.0, 1.1e4): True,  # a feature without spread is passed over
    (1e-2, 1.0): False, (1e-2, 90.0): False, (1e-2, 110.0): True,  # the ratio, where the least is under 1
    (1e2, 0.9e4): False, (1e2, 1.1e4): True,  # the distance from 1, where it is not
    (1.1e-4, 1.0): False, (0.9e-4, 0.9e-4): True,
}  # fmt: skip


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_scaling_is_advised_where_spreads_are_ten_thousand_apart_or_from_one(form):
    advised = {}
    for spreads in SPREADS:
        told = scaling_advice(form(np.array([[-1.0], [1.0]] * 4) * spreads))
        advised[spreads] = [text.partition(" from ")[0] for text in told]
    text = "the features' spreads are"
    assert advised == {spreads: [text] * wide for spreads, wide in SPREADS.items()}


@pytest.mark.parametrize("machine", [
    ConvexPolytopeMachine(n_faces=1, solver="dual"), LogisticPolytopes((0, 1)),
    SPLA1(n_faces=1), PLUME(n_faces=1), Polyceptron(n_faces=1, solver="highs"), PCSLP(n_faces=1),
], ids=lambda machine: type(machine).__name__)  # fmt: skip
def test_a_feature_that_lies_far_away_is_named_and_a_constant_one_is_not(machine):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    X[:, 0] += y
    frame = pd.DataFrame(
        np.column_stack([X + np.array([1e8, 0.0]), np.full(30, 1e8 / 3.0)]), columns=["year", "b", "c"]
    )
    for samples, texts in (
        (frame, ["feature 'year' lies around 1e+08 with a spread of"]),
        (frame.assign(year=X[:, 0] + 900.0), []),
        (frame.assign(year=1e12 * X[:, 0]), ["the features' spreads are from"]),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            clone(machine).fit(samples, y)
        own = [str(each.message).partition(": ")[2] for each in told if each.category is UserWarning]
        assert len(own) == len(texts), own
        assert all(said.startswith(text) for said, text in zip(own, texts, strict=True)), own


def test_what_is_advised_is_measured_in_double_precision_with_signs_and_in_little_memory():
    rng = np.random.default_rng(0)
    single = (0.9 * rng.normal(size=(400_000, 2)) - 1000.0).astype(np.float32)  # by rows: numpy adds in turn
    [text] = scaling_advice(single)
    assert re.match(r"feature \d lies around -1e\+03 with a spread of 0\.(89|9)", text)
    # In bytes the square of 16 is 0.
    [text] = scaling_advice(sp.csr_array(np.full((3, 1), 16, dtype=np.uint8)), max_ratio=0.1)
    assert "spreads are from 16 to 16" in text
    many = np.zeros((20_000, 200), dtype=np.uint8)
    many[::2] = 1
    tracemalloc.start()
    try:
        scaling_advice(many)
        assert tracemalloc.get_traced_memory()[1] < 2**23  # as doubles the samples take 32 MB
    finally:
        tracemalloc.stop()


def test_what_is_advised_of_many_rows_does_not_depend_on_rows_that_take_turns():
    """Every other row would have no spread."""
    X = np.ones((5300, 100), dtype=np.float32)
    X[::2] = 1e-3
    X[:, 0] *= 1e6
    [text] = scaling_advice(X)
    assert "spreads are from" in text
