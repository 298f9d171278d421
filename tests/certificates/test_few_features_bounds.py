"""What multipliers prove of a face of few features, by the formula and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.certificates import Claim, polyceptron_subset
from polyopt.certificates.rounding import Ball
from polyopt.certificates.subset_tree import bound_of_subsets

R = 1e4
NONE = np.zeros(3, dtype=bool)


def pulls(X, y, u):
    return np.abs(np.column_stack([X, np.ones(len(y))]).T @ (y * u))


@pytest.mark.parametrize(("inside", "s"), [([], 2), ([0], 2), ([0, 1], 2), ([], 1), ([2], 3), ([], 9)])
def test_the_bound_pays_for_the_bias_what_is_in_and_the_largest_of_the_others(rng, inside, s):
    X, y, u = rng.normal(size=(6, 3)), np.where(np.arange(6) < 3, 1.0, -1.0), rng.uniform(0.1, 0.9, 6)
    sizes, held = pulls(X, y, u), np.isin(np.arange(3), inside)
    others = sorted(sizes[:3][~held], reverse=True)[: s - len(inside)]
    wanted = u.sum() - 0.5 * (sizes[3] + sizes[:3][held].sum() + sum(others))
    found = polyceptron_subset._value(X, y, u, s, 0.5, held)
    assert found == pytest.approx(wanted)
    assert found <= wanted


def test_what_is_left_of_a_pull_by_a_tolerance_is_balanced_and_the_box_holds_the_rest():
    """The bias is off by a billionth, which would cost R times that; the first feature by much more."""
    X = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    y, caps = np.array([1.0, -1.0, 1.0, -1.0]), np.ones(4)
    u = np.array([0.5, 0.6, 0.2, 0.1]) + 2.5e-10 * y
    sizes = pulls(X, y, u)
    assert sizes[3] == pytest.approx(1e-9, rel=1e-3)
    plain = polyceptron_subset._value(X, y, u, 1, R, NONE)
    assert plain == pytest.approx(u.sum() - R * (sizes[0] + sizes[3]))
    found = polyceptron_subset._bound(X, y, caps, u, 1, R, NONE, NONE)
    held = u.sum() - R * sizes[0]
    assert plain < held - 0.5e-5
    assert found == pytest.approx(held, abs=1e-3)
    assert found > plain
    at_ends = polyceptron_subset._bound(X, y, u, u, 1, R, NONE, NONE)  # none is free to move
    assert at_ends == plain


def test_of_a_node_with_too_many_features_or_multipliers_that_are_0():
    X, y, caps = np.ones((2, 3)), np.array([1.0, -1.0]), np.ones(2)
    assert polyceptron_subset._bound(X, y, caps, caps, 2, R, np.ones(3, dtype=bool), NONE) == np.inf
    assert polyceptron_subset._bound(X, y, caps, -caps, 2, R, NONE, NONE) == 0.0
    # Multipliers beyond their caps count as these; a feature that is out pays nothing.
    X = np.array([[1.0, 5.0, 0.0], [1.0, 2.0, 0.0]])
    found = polyceptron_subset._bound(X, y, caps, 7.0 * caps, 3, R, NONE, np.array([False, True, False]))
    assert found == pytest.approx(2.0)


def test_faces_that_only_a_sample_without_cost_violates_are_optimal():
    X, y = np.array([[2.0], [3.0], [-2.0], [-3.0], [0.5]]), np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    W = np.array([[1.0, 0.0], [1.0, 0.0]])
    for cost, claim in ((0.0, Claim.OPTIMAL), (1.0, None)):
        C = np.array([1.0, 1.0, 1.0, 1.0, cost])
        found = polyceptron_subset.certify_polyceptron_subset(X, y, W, max_features=1, C=C)
        assert (found.claim is Claim.OPTIMAL) == (claim is Claim.OPTIMAL)
        assert found.primal_value == pytest.approx(1.5 * cost)


@pytest.mark.parametrize(("inside", "out", "s"), [
    ([], [], 2), ([0], [], 2), ([], [0], 1), ([0, 1], [], 2), ([], [0, 1], 3), ([1], [], 9),
])  # fmt: skip
def test_a_node_of_a_squared_face_pays_for_the_bias_what_is_in_and_the_largest(rng, inside, out, s):
    alpha, v = rng.uniform(0.5, 1.0, 4), rng.normal(size=4)
    held, gone = np.isin(np.arange(3), inside), np.isin(np.arange(3), out)
    squares = v**2
    others = sorted(squares[:3][~held & ~gone], reverse=True)[: s - len(inside)]
    wanted = alpha.sum() - 0.25 * (squares[3] + squares[:3][held].sum() + sum(others))
    found = bound_of_subsets(alpha, Ball(v), s, held, gone)
    assert found == pytest.approx(wanted)
    assert found <= wanted


@pytest.mark.parametrize("s", [0, 1])
def test_no_face_has_more_features_than_it_may(s):
    held = np.array([True, True, False])
    assert bound_of_subsets(np.ones(2), Ball(np.ones(4)), s, held, ~held) == np.inf
