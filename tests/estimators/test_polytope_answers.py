"""The polytope family answers what it says: last iterates, floors, probabilities, ties, and sizes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from formulations import mixture
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
from polyopt.cpm.sgd import AVERAGE, CpmSgd, _SgdEpochs, solve_cpm_sgd
from polyopt.estimators.faces import scores_at
from polyopt.linalg.rows import as_rows


@pytest.fixture(scope="module")
def stripes():
    """Samples beyond two planes, and between them; some on the wrong side."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    return X, np.where(np.abs(X[:, 0]) + 0.2 * rng.standard_normal(120) > 0.7, 1, -1)


# -- faces without samples -------------------------------------------------------------------


def test_faces_without_samples_are_in_neither_the_model_nor_its_loss():
    X, y = np.zeros((10, 2)), np.arange(10) % 2
    machine = SPLA1(3, ridge=1e6, random_state=0).fit(X, y)
    certificate = machine.certificate()
    assert machine.W_.shape == (1, 2)
    assert certificate.primal_value == pytest.approx(machine.solution_.objective, rel=1e-12)
    assert certificate.primal_value == pytest.approx(10 * np.log(2))
    assert certificate.claim is Claim.STATIONARY  # one face of the three there might be is no optimum
    assert SPLA1(1, ridge=1e6).fit(X, y).certificate().claim is Claim.OPTIMAL


@pytest.mark.parametrize("seed", range(8))
def test_spla1_s_objective_is_its_loss_and_its_certificate_s_value_that_of_its_cells(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((12, 2)), np.arange(12) % 2
    machine = SPLA1(5, ridge=3.0, random_state=seed, n_init=2).fit(X, y)
    certificate, found = machine.certificate(), machine.solution_
    W, cell = found["W"], found["assignment"]
    own = (np.column_stack([X, np.ones(12)]) @ W.T)[np.arange(12), cell]
    value = np.logaddexp(0.0, -(2.0 * y - 1) * own).sum() + 1.5 * (W**2).sum()
    assert certificate.primal_value == pytest.approx(value, rel=1e-12)
    assert found.objective == pytest.approx(hard_loss(X, 2.0 * y - 1, W, 1.0, 3.0), rel=1e-12)
    if (machine.assignment_ == cell).all():
        assert certificate.primal_value == pytest.approx(found.objective, rel=1e-12)
    else:
        assert f"the loss is {found.objective:.6g}" in certificate.note
    assert set(cell) == set(range(len(W)))


def test_an_empty_face_that_is_given_pays_its_ridge_and_is_not_stationary():
    X, y = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    W = SPLA1(1, ridge=1.0).fit(X, y).solution_["W"]
    both = np.vstack([W, [0.0, 50.0]])  # has nowhere the least score
    certificate = certify_spla1(X, y, both, ridge=1.0)
    assert certificate.primal_value == pytest.approx(hard_loss(X, y, both, 1.0, 1.0))
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert "no samples in its cell" in certificate.sentence


# -- Algorithm 1's answer --------------------------------------------------------------------


def test_without_averages_the_answer_is_the_last_iterate(stripes):
    X, y = stripes
    labels, C = np.where(y > 0, 1.0, -1.0), np.ones(len(y))
    for floor in (1.0, 3.0):
        found = solve_cpm_sgd(X, labels, C, 4, perplexity=floor, average=False, max_iter=9, tol=1e-12)
        machine = CpmSgd(3, 4, perplexity=floor, average=False)
        run = _SgdEpochs(machine, as_rows(X), labels, C)
        for _ in range(9):
            order = machine.rng.permutation(len(y))
            machine.take_steps(run.step_arguments, run.rows, order)
        assert np.array_equal(found["W"], machine.iterates[0])
        assert found.objective == found.history[-1]["objective"]


def test_of_two_answers_that_which_keeps_the_floor_is_taken(stripes):
    X, y = stripes
    rows, outside, C = as_rows(X), y > 0, np.ones(len(y))
    machine = CpmSgd(3, 2, perplexity=1.9, average=True, dtype=np.float64)
    good = np.array([[2.0, 0, 0, -1], [-2.0, 0, 0, -1]])  # each face has about half
    alone = np.array([[0.0, 0, 0, 1], [0, 0, 0, -1.0]])  # the first answers for all
    machine.steps[0], machine.tally[AVERAGE] = 10**6, 1.0
    for U, A in ((alone, good), (good, alone)):
        machine.U[:, :2], machine.A[:, :2] = U.T * (10**6 + 1.0), A.T
        assert np.allclose(machine.best_iterate(rows, outside, C)[0], good)


def test_a_floor_that_the_answer_does_not_have_is_told(stripes):
    X, y = stripes
    machine = ConvexPolytopeMachine(4, sgd=SGDSettings(perplexity=4.0), random_state=0, max_iter=10, C=10.0)
    with pytest.warns(ConvergenceWarning) as told:
        machine.fit(X, y)
    short = [str(w.message) for w in told if "below the lower bound" in str(w.message)]
    assert bool(short) == (machine.perplexity_ < 4.0 * (1 - 1e-9))
    assert short


# -- probabilities and decisions -------------------------------------------------------------


def test_probabilities_are_the_model_s_whatever_decides(stripes):
    X, y = stripes
    machines = [
        PLUME(2, decision=decision, inside_label=-1, random_state=0, n_init=1).fit(X, y)
        for decision in ("posterior", "polytope")
    ]
    W = machines[0].solution_["W"]
    inside = mixture.posterior(X, W, 1.0)
    for machine in machines:
        assert np.allclose(machine.predict_proba(X), np.column_stack([inside, 1 - inside]))
        assert "then L itself" in machine.solution_.solver
    assert not np.allclose(expit(machines[1].decision_function(X)), machines[0].predict_proba(X)[:, 1])
    assert np.array_equal(machines[1].predict(X) == -1, machines[1].face_scores(X).min(axis=1) >= 0)
    side = np.where(y < 0, 1.0, -1.0)
    assert machines[0].generalization_bound() == plume_bound(X, side, W, 1.0)
    assert machines[1].generalization_bound() == polytope_bound(X, -side, -W)


def test_probabilities_of_three_classes_do_not_depend_on_what_decides(stripes):
    X, _ = stripes
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    first, second = (
        PLUME(2, decision=decision, random_state=0, n_init=1).fit(X, y)
        for decision in ("posterior", "polytope")
    )
    assert np.allclose(first.predict_proba(X), second.predict_proba(X))
    assert np.array_equal(first.predict(X), first.predict_proba(X).argmax(axis=1))


# -- sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "machine",
    [PCSLP(2), Polyceptron(), SPLA1(2), PLUME(2), ConvexPolytopeMachine(2)],
)
def test_sizes_beyond_double_precision_are_refused_in_words(machine, stripes):
    X, y = stripes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"sample_weight, times .* must add up to at most"):
            machine.fit(X, y, sample_weight=np.full(len(y), 1e300))
        with pytest.raises(ValueError, match="X must have entries of at most"):
            machine.fit(1e200 * X, y)


# -- scores in single precision --------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(
    ("size", "weight"), [(1.0, 1.0), (1e7, 1e-7), (1e7, 1.0), (1e-30, 1e30), (3e38, 3e-39), (1.0, 1e60)]
)
def test_scores_of_single_precision_data_are_the_faces_whatever_their_sizes(form, size, weight):
    rng = np.random.default_rng(0)
    X, W = rng.uniform(-1, 1, (600, 4)) * size, rng.uniform(-1, 1, (2, 4)) * weight
    X[::2] *= 1e-3  # of which some may be scored in single precision
    X, b = X.astype(np.float32), -W @ X[1]
    true = X.astype(float) @ W.T + b
    assert scores_at(form(X), W, b) == pytest.approx(true, rel=1e-6, abs=1e-4)


def test_bytes_at_steep_faces_are_scored_in_double():
    X = np.array([[255, 254], [1, 0]], dtype=np.uint8)
    W, b = np.array([[1e7, -1e7 / 3]]), np.array([1.0 / 3])
    assert scores_at(X, W, b) == pytest.approx(X.astype(float) @ W.T + b, rel=1e-15)


@pytest.mark.parametrize(
    "machine",
    [
        ConvexPolytopeMachine(1, C=1e4, solver="exact"),
        ConvexPolytopeMachine(2, C=1e3, solver="dual", random_state=0, n_init=1),
        PLUME(2, ridge=1e-6, decision="polytope", random_state=0, n_init=2, max_iter=30),
        SPLA1(2, ridge=1e-6, random_state=0, n_init=2, max_iter=30),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_single_precision_data_far_from_the_origin_answers_by_its_faces(machine, stripes):
    X, y = (stripes[0] + 1e6).astype(np.float32), stripes[1]
    machine.fit(X, y)
    assert machine.decision_function(X) == pytest.approx(machine.decision_function(X.astype(float)), abs=1e-3)
