"""A node of branch and bound solved by an interior point: against each face's program, and what is left."""

import numpy as np
import pytest

from formulations import cpm
from formulations.language.clock import Clock
from formulations.polytope import objective
from polyopt.cpm.global_search.assignment_tree import node_for, refine
from polyopt.cpm.global_search.face import Best, Samples


def begun(assigned, seed=0, away=500.0):
    """Four positives behind four negatives, far from 0, and a node at which positives have these faces."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(8, 2)) + away, np.repeat([-1.0, 1.0], 4)
    A = cpm.lift(X) * y[:, None]
    data = Samples(A, (A * A).sum(axis=1), np.full(8, 10.0), 4)
    node = node_for(data, 2, np.arange(4))
    node.face[:] = assigned
    for k in range(2):
        node.caps[k] = np.r_[np.full(4, 10.0), np.where(node.face == k, 10.0, 0.0)]
    return X, y, data, node, Best(np.zeros((2, 3)), np.array([np.inf, np.inf, 0.0]))


@pytest.mark.parametrize("seed", range(3))
def test_leaf_has_the_faces_optimum(seed):
    """With all positives assigned, the bound is the optimum of the faces, and the incumbent has its cost."""
    X, y, data, node, best = begun([0, 0, 1, 1], seed)
    bound, base, branch = refine(data, best, node, 0.0, 2, Clock(None))
    optimum = sum(cpm.face(X, y, costs).solve().objective for costs in node.caps)
    assert bound == base == pytest.approx(optimum, rel=1e-6)
    assert branch == -1  # no positive is left
    assert ((node.alpha >= 0.0) & (node.alpha <= node.caps)).all()
    cost, _, error = best.limits
    assert cost == pytest.approx(objective(X, y, best.W, data.C), rel=1e-9)
    assert cost <= optimum * (1.0 + 1e-6)  # less, where a positive pays less on the other face
    assert base - error <= optimum * (1.0 + 1e-8)
    assert 0.0 < error < 1e-3 * optimum


def test_known_bound_and_incumbent_stay():
    """A larger bound and a cheaper incumbent, once known, are kept."""
    _, _, data, node, best = begun([0, 0, 1, 1])
    best.limits[:] = 1e-3, np.inf, 7.0  # no point can be so cheap
    bound, base, _ = refine(data, best, node, 1e6, 2, Clock(None))
    assert bound == 1e6 > base
    assert best.limits.tolist() == [1e-3, np.inf, 7.0]
    assert not best.W.any()


def test_unused_faces_copy_the_last():
    """A face that is not in use is a copy of the last one in use."""
    _, _, data, node, best = begun([0, 0, 0, 0])
    node.caps[1] = node.caps[0]
    bound, _, _ = refine(data, best, node, 0.0, 1, Clock(None))
    assert np.array_equal(node.W[0], node.W[1])
    one = cpm.face(
        data.A[:, :2] * np.repeat([-1.0, 1.0], 4)[:, None], np.repeat([-1.0, 1.0], 4), node.caps[0]
    )
    assert bound == pytest.approx(2.0 * one.solve().objective, rel=1e-6)


def test_dearest_positive_is_branched_on():
    """The unassigned positive with the largest cost is branched on."""
    _, _, data, node, best = begun([-1, -1, -1, -1], away=0.0)
    data.C[4:] = 10.0, 40.0, 20.0, 30.0
    bound, _, branch = refine(data, best, node, 0.0, 2, Clock(None))
    hinges = data.C[4:, None] * np.maximum(1.0 - data.A[4:] @ node.W.T, 0.0)
    assert branch == int(hinges.min(axis=1).argmax())
    assert bound < best.limits[0]


def test_last_positive_is_branched_on():
    """A single unassigned positive is branched on."""
    _, _, data, node, best = begun([0, 0, 1, -1], away=0.0)
    _, base, branch = refine(data, best, node, 0.0, 2, Clock(None))
    assert base > 0.5 * best.limits[0]
    assert branch == 3
