"""The Convex Polytope Machine from a given assignment: alternation from it, and the program with it held."""

from copy import copy

import numpy as np
import pytest

from formulations import cpm
from formulations.language.toy_data import two_blobs
from polyopt import Claim, ConvexPolytopeMachine, certify_cpm
from polyopt.cpm.certificate import certify_cpm_fixed

X, Y = two_blobs(n=40, separation=1.0)
GIVEN = np.random.default_rng(0).integers(3, size=40)


def machine(**settings):
    return ConvexPolytopeMachine(3, inside_label=-1, C=2.0, n_init=2, random_state=0, **settings)


@pytest.fixture(scope="module")
def held():
    return machine().fit_from(X, Y, GIVEN, hold=True)


def test_held_assignment_is_one_program(held):
    """The program with the assignment held is solved, proven for it alone, and says so."""
    proof = held.certificate()
    assert proof.claim is Claim.OPTIMAL
    assert proof.primal_value == pytest.approx(
        cpm.fixed_assignment(X, Y, 3, GIVEN, 2.0).solve().objective, rel=1e-8
    )
    assert "held" in proof.program
    assert "has a smaller hinge on another face" in proof.sentence
    assert (held.assignment_[Y > 0] == GIVEN[Y > 0]).all()
    assert held.n_iter_ == 1
    W, alpha = held.solution_["W"], held.solution_.duals["margin"]
    of_machine = certify_cpm(X, Y, 2.0, W=W, alpha=alpha, assignment=GIVEN)
    assert of_machine.claim is Claim.SUBOPTIMAL_BY  # no fixed point of the alternation


@pytest.mark.parametrize(("w", "a", "shift"), [(1.01, 1.0, 0), (1.0, 0.99, 0), (1.0, 1.0, 1)])
def test_other_faces_are_not_optimal(held, w, a, shift):
    """Other faces, multipliers or assignments than the solution's are suboptimal."""
    W, alpha = w * held.solution_["W"], a * held.solution_.duals["margin"]
    found = certify_cpm_fixed(X, Y, 2.0, W=W, alpha=alpha, assignment=np.roll(GIVEN, shift))
    assert found.claim is Claim.SUBOPTIMAL_BY


def test_alternation_only_falls(held):
    """From the assignment the objective falls to a fixed point; a later fit holds nothing."""
    found = machine().fit_from(X, Y, GIVEN)
    values = found.history_["objective"].to_numpy()
    assert len(values) > 1
    assert (np.diff(values) <= 1e-9 * values[:-1]).all()
    assert values[0] == pytest.approx(held.certificate().primal_value, rel=1e-9)
    assert found.certificate().claim is Claim.STATIONARY
    assert copy(held).fit(X, Y).certificate().claim is Claim.STATIONARY


def test_samples_without_weight_need_no_face():
    """Samples of weight 0 have no face, and a face may have no samples."""
    weights = np.where(np.arange(40) < 4, 0.0, 1.0)
    given = np.where(np.arange(40) < 4, -1, 0)
    found = machine().fit_from(X, Y, given, hold=True, sample_weight=weights).certificate()
    assert found.claim is Claim.OPTIMAL
    exact = cpm.fixed_assignment(X[4:], Y[4:], 3, given[4:], 2.0).solve()
    assert found.primal_value == pytest.approx(exact.objective, rel=1e-8)


THREE = np.arange(40) % 3
REFUSED = [
    ({}, Y, np.full(40, 3), True, "assignment must have a face from 0 to 2"),
    ({}, Y, np.full(40, -1), True, "assignment must have a face"),
    ({}, Y, np.zeros(39, int), True, "assignment must be of shape"),
    ({}, Y, np.zeros(40), True, "assignment must be of whole numbers"),
    ({"solver": "sgd"}, Y, GIVEN, True, "solver='auto' or 'exact'"),
    ({"penalty__l1": 1.0}, Y, GIVEN, True, "leave out penalty"),
    ({"sgd__perplexity": 2.0}, Y, GIVEN, True, "perplexity"),
    ({"inside_label": "both"}, Y, GIVEN, True, "leave out inside_label='both'"),
    ({}, Y, GIVEN, "yes", "hold must be"),
    ({"inside_label": None}, THREE, GIVEN, False, "two classes"),
]


@pytest.mark.parametrize(("settings", "y", "given", "hold", "sentence"), REFUSED)
def test_impossible_assignment_is_refused(settings, y, given, hold, sentence):
    """Assignments of other shapes and faces, and settings that have none, are named."""
    with pytest.raises(ValueError, match=sentence):
        machine().set_params(**settings).fit_from(X, y, given, hold=hold)
