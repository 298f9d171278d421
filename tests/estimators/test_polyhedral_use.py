"""The polyhedral classifiers as a user has them: sides, probabilities, proofs, streams, hard cases."""

from __future__ import annotations

import re
import tracemalloc
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.methods import DATA, METHODS, NAMES, Case
from helpers.methods import fitted as fitted_case
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from formulations import mixture, polyhedral
from polyopt import PCSLP, PLUME, SPLA1, Claim, EMSettings, PerceptronSettings, Polyceptron, datasets
from polyopt.datasets import make_polytope
from polyopt.estimators.faces import scaling_advice

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SETTINGS = {"n_faces": 4, "n_init": 2, "inside_label": "in", "random_state": 0}
MACHINES = {
    "batch": Polyceptron(**SETTINGS),
    "online": Polyceptron(solver="online", max_iter=100, **SETTINGS),
    "highs": Polyceptron(solver="highs", **SETTINGS),
    "spla1": SPLA1(**SETTINGS),
    "spla1-all": SPLA1(positives="all", **SETTINGS),
    "pc-slp": PCSLP(**SETTINGS),
    "plume": PLUME(**SETTINGS),
    "plume-bfgs": PLUME(solver="bfgs", em=EMSettings(anneal=True), gamma=4.0, **SETTINGS),
}
FACES = [name for name in NAMES if METHODS[name].has_faces]
every_machine = pytest.mark.parametrize("name", MACHINES)


def square():
    """Samples in a square of the plane, and around it; three in a hundred have the wrong label."""
    X, y, _, _ = make_polytope(200, 2, 4, margin=0.05, noise=0.03, random_state=1)
    return X, np.where(y > 0, "in", "out")


X, Y = square()
LIFTED = np.column_stack([X, np.ones(len(X))])


@cache
def fitted(name):
    """A machine, fitted to the square."""
    return clone(MACHINES[name]).fit(X, Y)


# -- answers -----------------------------------------------------------------------------------


@every_machine
def test_square_is_learnt(name):
    """Scores of faces, sides and labels are those of the polytope, whichever class is inside."""
    machine = clone(MACHINES[name]).set_params(n_init=5).fit(X, Y)
    assert machine.score(X, Y) > (0.87 if name in ("batch", "online") else 0.93)
    assert (machine.inside_label_, machine.outer_label_) == ("in", "out")
    scores = machine.face_scores(X)
    inside = scores.min(axis=1) >= 0
    assert (machine.active_face(X) == scores.argmin(axis=1)).all()
    assert (machine.assignment_ == scores.argmin(axis=1)).all()
    assert (machine.polytope_.contains(X) == inside).all()
    if not name.startswith("plume"):
        assert machine.decision_function(X) == pytest.approx(-scores.min(axis=1))  # "out" is the second
        assert ((machine.predict(X) == "in") == inside).all()
    other = clone(machine).set_params(inside_label=None).fit(X, np.where(Y == "in", "z", "a"))
    assert other.inside_label_ == "z"
    assert other.decision_function(X) == pytest.approx(-machine.decision_function(X))


@pytest.mark.parametrize("name", FACES)
def test_three_classes_have_no_single_polytope(name):
    """Three classes have a polytope for each pair, and no side of their own."""
    machine, samples = fitted_case(Case(name, "auto"), "three classes"), DATA["three classes"]
    with pytest.raises(AttributeError, match="of one polytope"):
        _ = machine.polytope_
    if "inside_label" in machine.get_params():
        with pytest.raises(ValueError, match="inside_label=1 needs two classes"):
            clone(machine).set_params(inside_label=1).fit(samples.X, samples.y)


@every_machine
def test_starts_on_two_workers(name):
    """The starts of a seed, their values and the machine do not depend on the number of workers."""
    one = fitted(name)
    with parallel_config(backend="threading"):
        two = clone(MACHINES[name]).set_params(n_jobs=2).fit(X, Y)
    values = [[run.objective for run in each.solution_.runs] for each in (one, two)]
    assert len(values[0]) >= 2
    assert values[1] == pytest.approx(values[0], rel=1e-6)
    assert two.decision_function(X) == pytest.approx(one.decision_function(X), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", ["spla1", "plume"])
def test_probabilities_are_of_the_model(name):
    """Two classes have the model's probabilities; three have some that add up and go with the labels."""
    machine = fitted(name)
    W = np.column_stack([machine.W_, machine.b_])
    if name == "plume":
        inside = mixture.posterior(X, W, machine.gamma)
    else:
        inside = 1.0 / (1.0 + np.exp(-polyhedral.scores(X, W).min(axis=1)))
    assert machine.predict_proba(X) == pytest.approx(np.column_stack([inside, 1.0 - inside]))
    assert (machine.predict(X) == np.where(inside > 0.5, "in", "out")).all()
    many, samples = fitted_case(Case(name, "auto"), "three classes"), DATA["three classes"].X
    probabilities = many.predict_proba(samples)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(24))
    assert (probabilities.argmax(axis=1) == many.predict(samples)).all()


def test_plume_decides_by_polytope():
    """decision="polytope" takes the polytope in place of the posterior, for the same faces."""
    machine = clone(MACHINES["plume"]).set_params(decision="polytope").fit(X, Y)
    assert ((machine.predict(X) == "in") == machine.polytope_.contains(X)).all()
    assert (machine.W_ == fitted("plume").W_).all()


def test_plume_bound_falls_with_data():
    """The bound on the error is above the training error, and halves with thirty times the samples."""
    totals = []
    for n in (300, 10_000):
        samples, y = make_polytope(n, 2, 2, margin=0.5, random_state=0)[:2]
        machine = PLUME(2, gamma=0.5, ridge=1.0, n_init=1, random_state=0).fit(samples, y)
        bound = machine.generalization_bound()
        assert bound.total > np.mean(machine.predict(samples) != y)
        totals.append(bound.total)
    assert totals[1] < 0.5 * totals[0]
    with pytest.raises(ValueError, match="needs the training data"):
        machine.without_data().generalization_bound()


@pytest.mark.parametrize(
    "machine", [SPLA1(1, ridge=0.1), PLUME(1, ridge=0.1, gamma=3.0)], ids=["spla1", "plume"]
)
def test_one_face_is_logistic_regression(machine):
    """One face of either model is scikit-learn's logistic regression with a penalised bias."""
    theirs = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-10).fit(LIFTED, Y)
    machine.fit(X, Y)
    assert machine.decision_function(X) == pytest.approx(theirs.decision_function(LIFTED), abs=1e-4)
    assert machine.certificate().claim is Claim.OPTIMAL


# -- what is proven --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["highs", "spla1-all", "pc-slp", "plume", "plume-bfgs"])
def test_descent_ends_at_proven_fixed_point(name):
    """A descent of three faces ends at a stationary point; moved faces are none."""
    machine = clone(MACHINES[name]).set_params(n_faces=3).fit(X, Y)
    certificate = machine.certificate()
    assert certificate.claim in (Claim.STATIONARY, Claim.OPTIMAL)
    assert certificate.relative_gap <= 1e-6
    assert certificate.primal_value == pytest.approx(machine.solution_.objective, rel=1e-9)
    machine.solution_.primal["W"] = machine.solution_["W"] + 0.05
    assert machine.certificate().claim in (Claim.SUBOPTIMAL_BY, Claim.NONE)


@pytest.mark.parametrize(
    ("name", "ridge"), [("spla1-all", 0.3), ("plume", 0.3), ("highs", 0.0), ("pc-slp", 0.0)]
)
def test_multipliers_hold_faces(name, ridge):
    """The pulls of the samples, by their multipliers, balance the ridge of every face."""
    settings = {"n_faces": 3} | ({"ridge": ridge} if ridge else {})
    machine = clone(MACHINES[name]).set_params(**settings).fit(X, Y)
    frame, signs = machine.duals_, np.where(Y == "in", 1.0, -1.0)
    pulls = np.zeros((3, 3))
    for row in frame.itertuples():
        pulls[row.face] += (
            row.multiplier * (1.0 if row.letter == "alpha" else signs[row.sample]) * LIFTED[row.sample]
        )
    assert pulls == pytest.approx(ridge * np.column_stack([machine.W_, machine.b_]), abs=1e-5)
    if not ridge:
        assert (frame["multiplier"] * frame["slack"]).abs().max() < 1e-6
        assert frame["multiplier"].max() > 0


# -- streams ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [1, -1])
def test_stream_learns(inside):
    """Chunks lead to faces that are right on new samples, with fewer mistakes, whichever class is inside."""
    samples, y = datasets.make_polyceptron1(n_samples=3000, random_state=0)
    y = inside * np.where(y == y.max(), 1, -1)
    passes = PerceptronSettings(step=1.0)
    machine = Polyceptron(passes=passes, inside_label=inside, random_state=0)
    for _ in range(30):
        for first in range(0, 2000, 500):
            machine.partial_fit(samples[first : first + 500], y[first : first + 500])
    assert machine.score(samples[2000:], y[2000:]) > 0.95
    assert len(machine.history_) == 120
    assert machine.history_["made"].iloc[-4:].sum() < 0.25 * machine.history_["made"].iloc[:4].sum()
    with pytest.raises(ValueError, match="needs the training data"):
        machine.certificate()
    machine.partial_fit(samples[:1], y[:1])  # one sample, of one class
    with pytest.raises(ValueError, match="must be of the classes"):
        machine.partial_fit(samples[:2], [3, 4])


# -- hard cases ------------------------------------------------------------------------------

RANDOM = np.random.default_rng(5).normal(size=(40, 3))
HARD = {
    "one point": (RANDOM, (np.arange(40) == 11).astype(int), 3),
    "many faces": (RANDOM[:6], np.array([0, 1, 1, 1, 1, 0]), 12),
    "constant": (np.ones((40, 3)), np.arange(40) % 2, 3),
}


@every_machine
@pytest.mark.parametrize(("samples", "y", "faces"), HARD.values(), ids=HARD)
def test_degenerate_data_have_true_certificates(name, samples, y, faces):
    """One sample inside, more faces than samples, or samples that are all equal: the faces stay finite."""
    machine = clone(MACHINES[name]).set_params(n_faces=faces, inside_label=None).fit(samples, y)
    assert np.isfinite(machine.W_).all()
    assert np.isfinite(machine.b_).all()
    assert set(machine.predict(samples)) <= {0, 1}
    certificate = machine.certificate()
    assert certificate.dual_value <= certificate.primal_value * (1 + 1e-9) + 1e-9
    assert machine.history_["occupied"].iloc[-1] <= min(faces, len(samples))


# -- advice to scale the features --------------------------------------------------------------


def advice(machine, samples, y):
    """The warnings of a fit but for those of its convergence, without the machine's name."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        clone(machine).fit(samples, y)
    assert not any(each.category not in (UserWarning, ConvergenceWarning) for each in told)
    return [str(each.message).partition(": ")[2] for each in told if each.category is UserWarning]


FRAME = pd.DataFrame({"year": X[:, 0], "b": X[:, 1], "c": 1e8 / 3.0})
SCALES = {
    "far": (FRAME.assign(year=X[:, 0] + 1e8), ["feature 'year' lies around 1e+08 with a spread of"]),
    "near": (FRAME.assign(year=X[:, 0] + 900.0), []),
    "large": (FRAME.assign(year=1e12 * X[:, 0]), ["the features' spreads are from"]),
    "small": (FRAME.assign(year=1e-8 * X[:, 0]), ["the features' spreads are from"]),
}


@pytest.mark.parametrize("name", FACES)
@pytest.mark.parametrize(("frame", "sentences"), SCALES.values(), ids=SCALES)
def test_odd_scales_are_answered_with_advice(name, frame, sentences):
    """A feature far away or of odd scale is named; a constant one is not."""
    machine = Case(name, "auto").make(n_faces=1)
    told = advice(machine, frame, np.where(Y == "in", 1, -1))
    assert len(told) == len(sentences), told
    assert all(text.startswith(sentence) for text, sentence in zip(told, sentences, strict=True)), told


SPREADS = {
    (1.0, 0.9e4): False, (1.0, 1.1e4): True, (0.0, 0.0): False,
    (0.0, 1.0, 1.1e4): True,  # a feature without spread is passed over
    (1e-2, 1.0): False, (1e-2, 90.0): False, (1e-2, 110.0): True,  # the ratio, where the least is under 1
    (1e2, 0.9e4): False, (1e2, 1.1e4): True,  # the distance from 1, where it is not
    (1.1e-4, 1.0): False, (0.9e-4, 0.9e-4): True,
}  # fmt: skip


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_advice_begins_at_ten_thousand(form):
    """Scaling is advised if spreads are ten thousand apart, or from 1."""
    advised = {}
    for spreads in SPREADS:
        told = scaling_advice(form(np.array([[-1.0], [1.0]] * 4) * spreads))
        advised[spreads] = [text.partition(" from ")[0] for text in told]
    text = "the features' spreads are"
    assert advised == {spreads: [text] * wide for spreads, wide in SPREADS.items()}


def test_advice_is_measured_in_double_precision():
    """Spreads of single precision and of bytes are not rounded, and rows in turns are all seen."""
    rng = np.random.default_rng(0)
    single = (0.9 * rng.normal(size=(400_000, 2)) - 1000.0).astype(np.float32)  # by rows: numpy adds in turn
    [text] = scaling_advice(single)
    assert re.match(r"feature \d lies around -1e\+03 with a spread of 0\.(89|9)", text)
    # In bytes the square of 16 is 0.
    [text] = scaling_advice(sp.csr_array(np.full((3, 1), 16, dtype=np.uint8)), max_ratio=0.1)
    assert "spreads are from 16 to 16" in text
    turns = np.ones((5300, 100), dtype=np.float32)  # every other row alone would have no spread
    turns[::2] = 1e-3
    turns[:, 0] *= 1e6
    [text] = scaling_advice(turns)
    assert "spreads are from" in text


def test_advice_takes_little_memory():
    """Bytes are not converted as a whole."""
    many = np.zeros((20_000, 200), dtype=np.uint8)
    many[::2] = 1
    tracemalloc.start()
    try:
        scaling_advice(many)
        assert tracemalloc.get_traced_memory()[1] < 2**23  # as doubles the samples take 32 MB
    finally:
        tracemalloc.stop()
