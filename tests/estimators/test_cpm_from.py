"""The Convex Polytope Machine from a given assignment: alternation from it, and the program with it held."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest

from formulations import cpm
from formulations.language.toy_data import two_blobs
from polyopt import ConvexPolytopeMachine, certify_cpm
from polyopt.cpm.certificate import certify_cpm_fixed

X, y = two_blobs(n=40, separation=1.0)
GIVEN = np.random.default_rng(0).integers(3, size=40)


def machine(**settings):
    return ConvexPolytopeMachine(3, inside_label=-1, C=2.0, **settings)


@pytest.fixture(scope="module")
def held():
    return machine().fit_from(X, y, GIVEN, hold=True)


def test_a_held_assignment_is_one_convex_program_and_proven_for_it_alone(held):
    exact = cpm.fixed_assignment(X, y, 3, GIVEN, 2.0).solve()
    proof = held.certificate()
    assert proof.claim.name == "OPTIMAL"
    assert proof.primal_value == pytest.approx(exact.objective, rel=1e-8)
    assert "held" in proof.program
    assert "has a smaller hinge on another face" in proof.sentence
    assert (held.assignment_[y > 0] == GIVEN[y > 0]).all()
    assert held.n_iter_ == 1
    whole = certify_cpm(
        X, y, 2.0, W=held.solution_["W"], alpha=held.solution_.duals["margin"], assignment=GIVEN
    )
    assert whole.claim.name == "SUBOPTIMAL_BY", "of the machine itself it is no fixed point"


def test_other_faces_are_not_optimal_for_the_assignment(held):
    W, alpha = held.solution_["W"], held.solution_.duals["margin"]
    for wrong in ({"W": 1.01 * W, "alpha": alpha}, {"W": W, "alpha": 0.99 * alpha}):
        assert certify_cpm_fixed(X, y, 2.0, assignment=GIVEN, **wrong).claim.name == "SUBOPTIMAL_BY"
    other = np.roll(GIVEN, 1)
    assert certify_cpm_fixed(X, y, 2.0, W=W, alpha=alpha, assignment=other).claim.name == "SUBOPTIMAL_BY"


def test_alternation_from_it_only_falls_and_ends_at_a_fixed_point(held):
    found = machine().fit_from(X, y, GIVEN)
    values = found.history_["objective"].to_numpy()
    assert len(values) > 1
    assert (np.diff(values) <= 1e-9 * values[:-1]).all()
    assert values[0] == pytest.approx(held.certificate().primal_value, rel=1e-9)
    assert found.certificate().claim.name == "STATIONARY"
    again = copy(held).fit(X, y)
    assert again.certificate().claim.name == "STATIONARY", "a fit of the usual kind holds nothing"


def test_samples_without_weight_need_no_face_and_a_face_may_answer_for_none():
    weights = np.where(np.arange(40) < 4, 0.0, 1.0)
    given = np.where(np.arange(40) < 4, -1, 0)
    found = machine().fit_from(X, y, given, hold=True, sample_weight=weights)
    assert found.certificate().claim.name == "OPTIMAL"
    exact = cpm.fixed_assignment(X[4:], y[4:], 3, given[4:], 2.0).solve()
    assert found.certificate().primal_value == pytest.approx(exact.objective, rel=1e-8)


@pytest.mark.parametrize(
    ("settings", "given", "words"),
    [
        ({}, np.full(40, 3), "assignment must have a face from 0 to 2"),
        ({}, np.full(40, -1), "assignment must have a face"),
        ({}, np.zeros(39, int), "assignment must be of shape"),
        ({}, np.zeros(40), "assignment must be of whole numbers"),
        ({"solver": "sgd"}, GIVEN, "solver='auto' or 'exact'"),
        ({"penalty__l1": 1.0}, GIVEN, "leave out penalty"),
        ({"sgd__perplexity": 2.0}, GIVEN, "perplexity"),
        ({"inside_label": "both"}, GIVEN, "leave out inside_label='both'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(settings, given, words):
    wrong = machine().set_params(**settings)
    with pytest.raises(ValueError, match=words):
        wrong.fit_from(X, y, given, hold=True)
    with pytest.raises(ValueError, match="hold must be"):
        machine().fit_from(X, y, GIVEN, hold="yes")
    with pytest.raises(ValueError, match="two classes"):
        machine().set_params(inside_label=None).fit_from(X, np.arange(40) % 3, GIVEN)
