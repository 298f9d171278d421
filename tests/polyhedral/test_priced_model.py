"""The quadratic model with a penalty: its steps and its optimum, on models drawn at random."""

import numpy as np
import pytest

from formulations.class_faces import Owners
from formulations.face_penalty import FacePenalty
from polyopt.polyhedral import logistic_newton as model
from polyopt.polyhedral.logistic_loss import FaceLoss

K, M = 2, 4
PRICES = {
    "none": {}, "l1": {"l1": 0.5}, "signs": {"signs": [1, 0, -1, 0]},
    "group": {"group": 0.6, "groups": [0, 1, 1, 0]},
    "all": {"l1": 0.3, "group": 0.4, "groups": [0, 1, 1, 2], "signs": [0, 1, 0, -1]},
}  # fmt: skip


def drawn(prices, seed=0):
    """A penalty of all entries of faces, and a model: where it begins, the slope there and the curvature."""
    rng = np.random.default_rng(seed)
    X, y, owners = np.ones((2, M)), np.array([1.0, -1.0]), Owners(1, 1)
    penalty = FacePenalty.of(M, **PRICES[prices])
    problem = FaceLoss(X, y, np.ones(2), owners, 1.0, 1.0, penalty)
    root = rng.normal(size=(K * (M + 1), 3 * K * (M + 1)))
    H = root @ root.T / 20 + 0.3 * np.eye(K * (M + 1))
    W = problem.allowed(0.5 * rng.normal(size=(K, M + 1))).ravel()
    return rng, problem, problem.entry_penalty.at(problem.entries), W, 1.5 * rng.normal(size=W.shape), H


def value(penalty, W, slope, H, V):
    return slope @ (V - W) + 0.5 * (V - W) @ H @ (V - W) + penalty.value(V)


@pytest.mark.parametrize("prices", PRICES)
def test_entry_penalty_is_that_of_faces(prices):
    """Value and proximal step of the penalty of entries are those of the penalty of faces."""
    rng, problem, penalty, W, slope, _ = drawn(prices)
    classes, faces = problem.owners.classes[:, None], W.reshape(K, M + 1)
    assert penalty.value(W) == pytest.approx(problem.penalty.value(faces))
    shrunk = classes * problem.penalty.shrunk(classes * slope.reshape(K, M + 1))
    assert penalty.shrunk(slope) == pytest.approx(shrunk.ravel())
    with_signs = problem.allowed(rng.normal(size=(K, M + 1)))
    assert (classes * problem.penalty.signs * with_signs[:, :-1] >= 0).all()


@pytest.mark.parametrize("prices", PRICES)
def test_model_minimum_is_proven(prices):
    """No other point is below the model's minimum, and the gap bounds what any point is above it."""
    for seed in range(3):
        rng, problem, penalty, W, slope, H = drawn(prices, seed)
        found = model.minimise_model(penalty, W, slope, H, 0.3, 1e-12)
        least = value(penalty, W, slope, H, found)
        assert least <= value(penalty, W, slope, H, W)
        assert model.model_gap(penalty, found, slope + H @ (found - W), 0.3) <= 1e-10
        for _ in range(20):
            V = found + rng.choice([1e-3, 0.1, 1.0]) * rng.normal(size=W.shape)
            V = problem.allowed(V.reshape(K, M + 1)).ravel()
            here = value(penalty, W, slope, H, V)
            assert here >= least - 1e-10
            # What any other point is above it is no more than its gap.
            assert here - least <= model.model_gap(penalty, V, slope + H @ (V - W), 0.3) + 1e-10
        # With some entries held at 0, it is the best of the others.
        some = rng.random(W.shape) < 0.6
        part, kept = penalty.at(some), (W[some], slope[some], H[np.ix_(some, some)])
        held = model.minimise_model(part, *kept, 0.3, 1e-12)
        for _ in range(10):
            V = np.zeros(W.shape)
            V[some] = held + 0.01 * rng.normal(size=held.shape)
            V = problem.allowed(V.reshape(K, M + 1)).ravel()[some]
            assert value(part, *kept, V) >= value(part, *kept, held) - 1e-10


def test_group_norms_have_their_derivatives():
    """Slope and curvature of the group norms are those of differences."""
    rng, _, penalty, v, _, H = drawn("group")
    v[np.isin(penalty.groups, 1)] = 0.0  # a group that is out of use
    used = np.flatnonzero(v)

    def lengths(u):
        full = v.copy()
        full[used] = u
        return penalty.value(full)

    step, push = 1e-4, rng.normal(size=len(used))
    M, found = model.add_group_norms(penalty, v, used, H[np.ix_(used, used)], push)
    for a, e in enumerate(step * np.eye(len(used))):
        slope = (lengths(v[used] + e) - lengths(v[used] - e)) / (2 * step)
        assert found[a] - push[a] == pytest.approx(slope, abs=1e-6)
        for b, h in enumerate(step * np.eye(len(used))):
            corner = [lengths(v[used] + s * e + t * h) for s in (1, -1) for t in (1, -1)]
            bend = (corner[0] - corner[1] - corner[2] + corner[3]) / (4 * step**2)
            assert M[a, b] - H[used[a], used[b]] == pytest.approx(bend, abs=1e-5)
