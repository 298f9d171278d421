"""ConvexPolytopeMachine: solvers, known polytopes, sides, multipliers, degenerate data, refusals."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cpm import LOSSES, clusters
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from formulations import cpm
from polyopt import Claim, FacePenalty, SGDSettings
from polyopt import ConvexPolytopeMachine as CPM  # noqa: N817
from polyopt.datasets import make_polytope

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y, _ = clusters(40, 3, 0, widen=1.5)
NAMED = np.where(Y > 0, "out", "in")


AUTO = {
    "small": (CPM(1), 1, "exact"),
    "loss of the worst face": (CPM(loss="max", n_init=1), 1, "exact"),
    "perplexity": (CPM(3, sgd=SGDSettings(perplexity=3.0), max_iter=20), 1, "sgd"),
    "10000 samples": (CPM(1, max_iter=2), 250, "sgd"),
    "price": (CPM(1, penalty=FacePenalty(l1=1.0)), 1, "dual"),
    "few features": (CPM(1, penalty=FacePenalty(max_features=1)), 1, "exact"),
}


@pytest.mark.parametrize(("machine", "times", "solver"), AUTO.values(), ids=AUTO)
def test_auto_picks_solver_by_task(machine, times, solver):
    """The solver follows the size, the loss, the penalty and the lower bound on the perplexity."""
    machine.set_params(random_state=0).fit(X.repeat(times, axis=0), Y.repeat(times))
    assert machine.solver_ == solver


@pytest.mark.parametrize("settings", [{"loss": "sum"}, {"loss": "max"}, {"solver": "sgd"}], ids=str)
def test_known_polytope_is_learnt(settings):
    """Four faces separate a polygon of four edges and generalise; one face does not."""
    samples, labels, _, _ = make_polytope(100, 2, 4, margin=0.3, random_state=1)
    unseen, truth, _, _ = make_polytope(2000, 2, 4, margin=0.3, random_state=1)
    machine = CPM(4, C=1000.0, inside_label=1, max_iter=500, random_state=0, n_init=10, **settings)
    assert machine.fit(samples, labels).score(samples, labels) == 1.0
    assert machine.score(unseen, truth) > 0.95
    assert CPM(1, C=1000.0, inside_label=1, solver="exact").fit(samples, labels).score(unseen, truth) < 0.9


def test_objective_is_that_of_global_up_to_starts():
    """No solver is below the proven optimum of three faces, and none is far above it."""
    solvers = ("global", "exact", "dual", "sgd")
    found = {solver: CPM(3, solver=solver, random_state=0, tol=1e-4).fit(X, Y) for solver in solvers}
    J = {solver: cpm.objective(X, Y, np.c_[m.W_, m.b_]) for solver, m in found.items()}
    proof = found["global"].certificate()
    assert proof.claim is Claim.OPTIMAL
    assert proof.primal_value == pytest.approx(J["global"], rel=1e-9)
    for solver in ("exact", "dual", "sgd"):
        assert proof.dual_value * (1 - 1e-9) <= J[solver] <= 1.05 * J["global"]
    assert found["dual"].certificate().relative_gap <= 1e-5
    assert found["dual"].certificate(tol=1e-3).claim is Claim.STATIONARY


def test_inside_label_turns_polytope_and_keeps_sign():
    """A class inside has the same polytope whatever its name; scores are positive for the later class."""
    samples, y, _ = clusters(60, 3, 0)
    names, renamed = np.where(y > 0, "out", "in"), np.where(y > 0, "a", "b")  # "a" outside comes first
    machine = CPM(n_init=2, inside_label="in", random_state=0).fit(samples, names)
    assert machine.classes_.tolist() == ["in", "out"]
    assert machine.outer_label_ == "out"
    assert machine.score(samples, names) > 0.9
    assert ((machine.decision_function(samples) > 0) == (machine.predict(samples) == "out")).all()
    turned = CPM(n_init=2, inside_label="b", random_state=0).fit(samples, renamed)
    assert turned.W_ == pytest.approx(machine.W_)
    assert turned.decision_function(samples) == pytest.approx(-machine.decision_function(samples))
    assert turned.score(samples, renamed) == machine.score(samples, names)
    assert CPM(n_init=1, random_state=0).fit(samples, renamed).outer_label_ == "b"  # the first is inside


@pytest.mark.parametrize("form", [np.float64, np.float32, sp.csr_array])
def test_scores_are_largest_of_faces(form):
    """A sample's score is that of its active face; the polytope is where no face has a positive one."""
    machine, Z = CPM(3, n_init=2, random_state=0).fit(X, Y), form(X)
    scores = machine.face_scores(Z)
    assert scores == pytest.approx(X @ machine.W_.T + machine.b_, abs=1e-5)
    assert machine.decision_function(Z) == pytest.approx(scores.max(axis=1))
    assert (machine.active_face(Z) == scores.argmax(axis=1)).all()
    assert (machine.active_face(X)[Y > 0] == machine.assignment_[Y > 0]).all()
    assert (machine.assignment_[Y < 0] == -1).all()
    assert (machine.polytope_.contains(X) == (scores.max(axis=1) <= 0)).all()
    shares = np.bincount(machine.assignment_[Y > 0]) / (Y > 0).sum()
    assert machine.perplexity_ == pytest.approx(np.exp(-shares @ np.log(shares)))


# -- multipliers and history -------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_multipliers_make_the_faces(loss):
    """Multipliers are at least 0, complementary to slacks, and W = ½ Σ α y x."""
    machine = CPM(3, C=0.7, loss=loss, n_init=2, random_state=0).fit(X, NAMED)
    duals, faces = machine.duals_, np.c_[machine.W_, machine.b_]
    margin, slack = duals[duals["row"] == "margin"], duals[duals["row"] == "slack"]
    assert len(margin) == 20 + 3 * 20  # a positive has one face, a negative all
    assert len(slack) == (20 + 3 * 20 if loss == "sum" else 40)
    assert margin["sample"].is_monotonic_increasing
    for rows in (margin, slack):
        assert (rows["multiplier"] >= -1e-9).all()
        assert (rows["multiplier"] * rows["slack"]).abs().max() < 1e-6
    i, k = margin["sample"].to_numpy(), margin["face"].to_numpy()
    pulls = (margin["multiplier"].to_numpy() * Y[i])[:, None] * cpm.lift(X)[i]
    assert faces == pytest.approx(
        np.array([0.5 * pulls[k == face].sum(axis=0) for face in range(3)]), abs=1e-6
    )
    assert 0.7 * slack["slack"].sum() + (faces**2).sum() == pytest.approx(machine.solution_.objective)
    assert margin["label"].tolist() == NAMED[i].tolist()
    assert (margin["multiplier"][margin["state"] == "inside the margin"] > 0.7 - 1e-5).all()
    assert margin["output"].to_numpy() == pytest.approx((cpm.lift(X)[i] * faces[k]).sum(axis=1))


@pytest.mark.parametrize("widen", [1.0, 1.5], ids=["separable", "overlapping"])
def test_states_follow_outputs_without_multipliers(widen):
    """SGD leaves no multipliers: a sample is inside, on or beyond the margin by y f - 1, to 1e-6."""
    samples, y, _ = clusters(60, 3, 0, widen=widen)
    duals = CPM(solver="sgd", max_iter=5000, random_state=0).fit(samples, y).duals_
    assert duals["multiplier"].isna().all()
    assert duals["slack"].notna().all()
    margin = duals[duals["row"] == "margin"]
    excess = y[margin["sample"]] * margin["output"].to_numpy() - 1.0
    sides = np.where(np.abs(excess) <= 1e-6, 0, np.sign(excess))
    words = {-1: "inside the margin", 0: "on the margin", 1: "beyond the margin"}
    assert margin["state"].tolist() == [words[side] for side in sides]


@pytest.mark.parametrize(("solver", "further"), [("exact", 1), ("sgd", 0)])
def test_history_has_every_start(solver, further):
    """The best of the starts is the solution; the exact solver's last start is where dual ascent ends."""
    machine = CPM(2, solver=solver, random_state=0, n_init=3, max_iter=200).fit(X, Y)
    history = machine.history_
    assert sorted(history["start"].unique()) == list(range(3 + further))
    last = history.groupby("start")["objective"].last() if solver == "exact" else history["objective"]
    assert machine.solution_.objective == pytest.approx(last.min())


# -- degenerate data ---------------------------------------------------------------------------


@st.composite
def degenerate(draw):
    """Few samples: duplicates, features of zeros, one positive or one negative, scales far apart."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, m = draw(st.integers(2, 25)), draw(st.integers(1, 4))
    samples = rng.normal(size=(n, m)).round(1)
    samples[:, rng.random(m) < draw(st.sampled_from([0.0, 0.5, 1.0]))] = 0.0
    if draw(st.booleans()):
        samples = samples[rng.integers(0, n, n)]
    positives = draw(st.sampled_from([1, n // 2, n - 1])) or 1
    scale = draw(st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6]))
    return scale * samples, np.where(np.arange(n) < positives, 1.0, -1.0)


@tried(max_examples=5)
@given(degenerate(), st.sampled_from([1e-3, 1.0, 1e3]), st.sampled_from(LOSSES), st.integers(1, 4))
def test_degenerate_data_are_solved_or_told(data, C, loss, K):
    """The certificate decides: stationary, or a warning; never worse than W = 0."""
    samples, y = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = CPM(K, C=C, loss=loss, solver="exact", n_init=2, random_state=0).fit(samples, y)
    certificate = machine.certificate()
    assert np.isfinite(machine.decision_function(samples)).all()
    assert certificate.dual_value <= certificate.primal_value * (1 + 1e-9)
    assert (certificate.relative_gap > 1e-6) == any("Short of exact" in str(w.message) for w in caught)
    if np.abs(samples).max() < 100:
        assert certificate.relative_gap < 1e-6
    assert certificate.primal_value <= machine.C * K * len(y) * (1 + 1e-6)


@tried(max_examples=5)
@given(degenerate(), st.sampled_from([1e-3, 1.0, 1e3]), st.integers(1, 4))
def test_sgd_survives_degenerate_data(data, C, K):
    """Scores are finite, the objective is that of the faces, and the bound is below it."""
    samples, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = CPM(K, C=C, solver="sgd", max_iter=50, random_state=0).fit(samples, y)
    assert np.isfinite(machine.decision_function(samples)).all()
    objective = cpm.objective(samples, y, np.c_[machine.W_, machine.b_], C)
    assert machine.solution_.objective == pytest.approx(objective, rel=1e-9)
    certificate = machine.certificate()
    assert certificate.dual_value <= certificate.primal_value * (1 + 1e-9)


# -- what is refused ---------------------------------------------------------------------------

FEW, INTEGERS, PRICE = {"penalty__max_features": 2}, {"penalty__integers": 2}, {"penalty__l1": 1.0}
SETTINGS = [
    ({"n_faces": 0}, "n_faces must be an integer of at least 1, not 0"),
    ({"n_faces": 2.5}, "n_faces must be an integer of at least 1, not 2.5"),
    ({"C": 0.0}, "C must be positive and finite, not 0.0"),
    ({"n_init": 0}, "n_init must be an integer of at least 1, not 0"),
    ({"loss": "hinge"}, "'loss' parameter .* Got 'hinge'"),
    ({"loss": "max", "solver": "sgd"}, "loss='max' needs solver='exact'"),
    ({"inside_label": 7}, "inside_label must be one of [-1.0, 1.0], not 7"),
    ({"sgd__perplexity": 0.9}, "perplexity must be at least 1 and finite, not 0.9"),
    ({"sgd__perplexity": 3.5}, "perplexity must be from 1 to n_faces=3, not 3.5"),
    ({"sgd__perplexity": 2.0, "solver": "exact"}, "perplexity=2.0 needs solver='sgd'"),
    ({"sgd__perplexity": 2.0, "loss": "max"}, "perplexity=2.0 needs solver='sgd'"),
    ({"sgd__feature_scale": 0.0}, "feature_scale must be positive and finite, not 0.0"),
    ({"penalty__margin": "worst", "solver": "sgd"}, "margin='worst' needs solver='exact'"),
    (FEW | {"solver": "sgd"}, "max_features=2 needs solver='exact' or 'dual', not 'sgd'"),
    (FEW | {"solver": "global"}, "not 'global'"),
    (FEW | {"loss": "max"}, "needs loss='sum' and margin='total'"),
    (FEW | {"penalty__margin": "worst"}, "margin='worst'"),
    (FEW | {"sgd__perplexity": 1.5}, "needs perplexity=1"),
    ({"penalty__max_features": 0}, "max_features must be an integer of at least 1, or None"),
    ({"penalty__max_features": 1.5}, "max_features must be"),
    (INTEGERS | {"solver": "sgd"}, "integers=2 needs solver='exact' or 'dual', not 'sgd'"),
    (INTEGERS | {"penalty__l1": 0.1}, "integers=2 excludes a penalty"),
    (INTEGERS | {"loss": "max"}, "needs loss='sum' and margin='total'"),
    (INTEGERS | {"sgd__perplexity": 1.5}, "needs perplexity=1"),
    (INTEGERS | {"sgd__feature_scale": 0.5}, "counts in the units of X"),
    ({"penalty__integers": 0}, "integers must be an integer of at least 1, or None"),
    ({"penalty__l1": -1.0}, "l1 must be"),
    (PRICE | {"solver": "global"}, "need solver='exact' or 'dual', not 'global'"),
    (PRICE | {"solver": "sgd"}, "need solver='exact' or 'dual', not 'sgd'"),
    (PRICE | {"loss": "max"}, "need loss='sum' and margin='total', not loss='max'"),
    (PRICE | {"penalty__margin": "worst"}, "need loss='sum' and margin='total'"),
    (PRICE | {"penalty__max_features": 2}, "excludes a penalty"),
    (PRICE | {"sgd__perplexity": 1.5}, "perplexity=1.5 needs"),
]


@pytest.mark.parametrize(("settings", "sentence"), SETTINGS, ids=str)
def test_impossible_setting_is_named(settings, sentence):
    """A setting out of its range, or that excludes another, is refused with the remedy."""
    pattern = ".*".join(re.escape(part) for part in sentence.split(" .* "))
    with pytest.raises(ValueError, match=pattern):
        CPM().set_params(**settings).fit(X, Y)


def test_inside_label_is_of_two_classes():
    """The class inside is chosen among two classes, and not among three."""
    with pytest.raises(ValueError, match="inside_label=1 needs two classes, but there are 3"):
        CPM(inside_label=1).fit(X, np.arange(40) % 3)


def test_cost_out_of_scale_is_an_error():
    """If a cost is so large that no solver returns a point, the error says what to do."""
    with pytest.raises(RuntimeError, match=r"no solver returned a point.*solver='sgd'"):
        CPM(C=1e60, loss="max").fit(X, Y)
