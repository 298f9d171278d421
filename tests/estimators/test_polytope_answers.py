"""The polytope family answers what it says: empty faces, floors, probabilities, sizes, single precision."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from formulations import cpm, mixture
from formulations.error_bounds.rademacher import plume_bound, polytope_bound
from formulations.polyhedral import hard_loss
from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    Claim,
    ConvexPolytopeMachine,
    Polyceptron,
    SGDSettings,
    certify_spla1,
)
from polyopt.cpm.sgd import AVERAGE, CpmSgd, solve_cpm_sgd
from polyopt.estimators.faces import scores_at
from polyopt.linalg.rows import as_rows

# Samples beyond two planes, and between them; some on the wrong side.
RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3))
Y = np.where(np.abs(X[:, 0]) + 0.2 * RNG.standard_normal(120) > 0.7, 1, -1)


# -- faces without samples -------------------------------------------------------------------


def test_empty_faces_are_left_out():
    """Faces without samples are in neither the model nor its loss, nor is fewer faces an optimum."""
    samples, y = np.zeros((10, 2)), np.arange(10) % 2
    machine = SPLA1(3, ridge=1e6, random_state=0).fit(samples, y)
    certificate = machine.certificate()
    assert machine.W_.shape == (1, 2)
    assert certificate.primal_value == pytest.approx(machine.solution_.objective, rel=1e-12)
    assert certificate.primal_value == pytest.approx(10 * np.log(2))
    assert certificate.claim is Claim.STATIONARY
    assert SPLA1(1, ridge=1e6).fit(samples, y).certificate().claim is Claim.OPTIMAL


@pytest.mark.parametrize("seed", range(4))
def test_spla1_is_certified_on_its_cells(seed):
    """The objective is the hard loss; the certificate's value is that of the cells of the last fit."""
    rng = np.random.default_rng(seed)
    samples, y = rng.standard_normal((12, 2)), np.arange(12) % 2
    machine = SPLA1(5, ridge=3.0, random_state=seed, n_init=2).fit(samples, y)
    certificate, found = machine.certificate(), machine.solution_
    W, cell = found["W"], found["assignment"]
    own = (np.column_stack([samples, np.ones(12)]) @ W.T)[np.arange(12), cell]
    value = np.logaddexp(0.0, -(2.0 * y - 1) * own).sum() + 1.5 * (W**2).sum()
    assert certificate.primal_value == pytest.approx(value, rel=1e-12)
    assert found.objective == pytest.approx(hard_loss(samples, 2.0 * y - 1, W, 1.0, 3.0), rel=1e-12)
    if not (machine.assignment_ == cell).all():
        assert f"the loss is {found.objective:.6g}" in certificate.note
    assert set(cell) == set(range(len(W)))


def test_empty_face_that_is_given_pays_its_ridge():
    """A certificate of faces of which one has no samples says so, and is not stationary."""
    samples, y = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    W = SPLA1(1, ridge=1.0).fit(samples, y).solution_["W"]
    both = np.vstack([W, [0.0, 50.0]])  # has nowhere the least score
    certificate = certify_spla1(samples, y, both, ridge=1.0)
    assert certificate.primal_value == pytest.approx(hard_loss(samples, y, both, 1.0, 1.0))
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert "no samples in its cell" in certificate.sentence


# -- the lower bound on the perplexity -------------------------------------------------------


def perplexity(W):
    """The perplexity of the faces' shares of the samples outside."""
    outside = X[Y > 0]
    shares = np.bincount((outside @ W[:, :-1].T + W[:, -1]).argmax(axis=1)) / len(outside)
    return np.exp(-sum(share * np.log(share) for share in shares if share))


HALVES = np.array([[2.0, 0, 0, -1], [-2.0, 0, 0, -1]])  # each face has about half of the samples outside
ONE_FOR_ALL = np.array([[0.0, 0, 0, 1], [0, 0, 0, -1.0]])
UNEQUAL = np.array([[2.0, 0, 0, -3], [-2.0, 0, 0, 0]])  # of the perplexity 1.985


@pytest.mark.parametrize(
    ("floor", "better", "worse"),
    [
        (1.9, HALVES, ONE_FOR_ALL),
        (1.1, HALVES, 5 * HALVES),
        (1.1, UNEQUAL, 5 * HALVES),
        (1.9, HALVES, UNEQUAL),
    ],
    ids=["the floor", "lower objective", "lower objective, perplexity", "higher perplexity"],
)
def test_better_of_two_iterates_is_taken(floor, better, worse):
    """Of two iterates the one that keeps the floor is returned, or of two that do the lower."""
    machine = CpmSgd(3, 2, perplexity=floor, average=True, dtype=np.float64)
    machine.steps[0], machine.tally[AVERAGE] = 10**6, 1.0
    for U, A in ((better, worse), (worse, better)):
        machine.U[:, :2], machine.A[:, :2] = U.T * (10**6 + 1.0), A.T
        assert np.allclose(machine.best_iterate(as_rows(X), Y > 0, np.ones(120))[0], better)


def test_last_iterate_is_returned_without_average():
    """Without averages, the faces are those of the history's last entry."""
    y = np.where(Y > 0, 1.0, -1.0)
    found = solve_cpm_sgd(X, y, np.ones(120), 4, average=False, max_iter=9, tol=1e-12)
    assert found.objective == pytest.approx(cpm.objective(X, y, found["W"]), rel=1e-6)
    assert found.objective == found.history[-1]["objective"]
    averaged = solve_cpm_sgd(X, y, np.ones(120), 4, average=True, max_iter=9, tol=1e-12)
    assert averaged.objective <= found.objective


def test_missed_floor_is_told():
    """A machine whose faces have a lower perplexity than the bound warns of it."""
    machine = ConvexPolytopeMachine(4, sgd=SGDSettings(perplexity=4.0), random_state=0, max_iter=10, C=10.0)
    with pytest.warns(ConvergenceWarning, match="below the lower bound"):
        machine.fit(X, Y)
    assert machine.perplexity_ == pytest.approx(perplexity(np.c_[machine.W_, machine.b_]))
    assert machine.perplexity_ < 4.0 * (1 - 1e-9)


# -- probabilities and decisions -------------------------------------------------------------


def test_probabilities_do_not_depend_on_decision():
    """PLUME's probabilities are the mixture's posteriors, whether it decides by them or by its polytope."""
    machines = [
        PLUME(2, decision=decision, inside_label=-1, random_state=0, n_init=1).fit(X, Y)
        for decision in ("posterior", "polytope")
    ]
    W = machines[0].solution_["W"]
    inside = mixture.posterior(X, W, 1.0)
    for machine in machines:
        assert np.allclose(machine.predict_proba(X), np.column_stack([inside, 1 - inside]))
        assert "then L itself" in machine.solution_.solver
    assert not np.allclose(expit(machines[1].decision_function(X)), machines[0].predict_proba(X)[:, 1])
    assert np.array_equal(machines[1].predict(X) == -1, machines[1].face_scores(X).min(axis=1) >= 0)
    side = np.where(Y < 0, 1.0, -1.0)
    assert machines[0].generalization_bound() == plume_bound(X, side, W, 1.0)
    assert machines[1].generalization_bound() == polytope_bound(X, -side, -W)


def test_coupled_probabilities_do_not_depend_on_decision():
    """Coupled probabilities of pairs are the same, and the label is the most probable."""
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    first, second = (
        PLUME(2, decision=decision, random_state=0, n_init=1).fit(X, y)
        for decision in ("posterior", "polytope")
    )
    assert np.allclose(first.predict_proba(X), second.predict_proba(X))
    assert np.array_equal(first.predict(X), first.predict_proba(X).argmax(axis=1))


# -- sizes -----------------------------------------------------------------------------------

MACHINES = [PCSLP(2), Polyceptron(), SPLA1(2), PLUME(2), ConvexPolytopeMachine(2)]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: type(machine).__name__)
def test_sizes_beyond_double_precision_are_refused(machine):
    """Weights and features whose sums or squares overflow are refused before anything overflows."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"sample_weight, times .* must add up to at most"):
            machine.fit(X, Y, sample_weight=np.full(120, 1e300))
        with pytest.raises(ValueError, match="X must have entries of at most"):
            machine.fit(1e200 * X, Y)


SIZES = [(1.0, 1.0), (1e7, 1e-7), (1e7, 1.0), (1e-30, 1e30), (3e38, 3e-39), (1.0, 1e60)]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("size", "weight"), SIZES)
def test_single_precision_has_scores_of_double(form, size, weight, rng):
    """Scores of float32 samples are the faces', whatever the sizes of either."""
    samples, W = rng.uniform(-1, 1, (600, 4)) * size, rng.uniform(-1, 1, (2, 4)) * weight
    samples[::2] *= 1e-3  # of which some may be scored in single precision
    samples, b = samples.astype(np.float32), -W @ samples[1]
    expected = samples.astype(float) @ W.T + b
    assert scores_at(form(samples), W, b) == pytest.approx(expected, rel=1e-6, abs=1e-4)


def test_steep_faces_of_bytes_are_scored_in_double():
    """Differences of large products of bytes are exact."""
    samples = np.array([[255, 254], [1, 0]], dtype=np.uint8)
    W, b = np.array([[1e7, -1e7 / 3]]), np.array([1.0 / 3])
    assert scores_at(samples, W, b) == pytest.approx(samples.astype(float) @ W.T + b, rel=1e-15)


FAR = {
    "cpm, exact": ConvexPolytopeMachine(1, C=1e4, solver="exact"),
    "cpm, dual": ConvexPolytopeMachine(2, C=1e3, solver="dual", random_state=0, n_init=1),
    "plume": PLUME(2, ridge=1e-6, decision="polytope", random_state=0, n_init=2, max_iter=30),
    "spla1": SPLA1(2, ridge=1e-6, random_state=0, n_init=2, max_iter=30),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("machine", FAR.values(), ids=FAR)
def test_single_precision_far_from_origin(machine):
    """A model of float32 samples a million units away has the scores of the same samples in float64."""
    far = (X + 1e6).astype(np.float32)
    machine.fit(far, Y)
    expected = machine.decision_function(far.astype(float))
    assert machine.decision_function(far) == pytest.approx(expected, abs=1e-3)
