"""The quadratic model with a price: its places, sweeps, steps and optimum, on models drawn at random."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.face_penalty import FacePenalty
from polyopt.polyhedral import logistic_newton as model

K, M = 2, 4
PRICES = {
    "none": {}, "l1": {"l1": 0.5}, "signs": {"signs": [1, 0, -1, 0]},
    "group": {"group": 0.6, "groups": [0, 1, 1, 0]},
    "all": {"l1": 0.3, "group": 0.4, "groups": [0, 1, 1, 2], "signs": [0, 1, 0, -1]},
}  # fmt: skip


def drawn(prices, seed=0):
    """A price, its places, and a model: where it begins, the slope there and the curvature."""
    rng = np.random.default_rng(seed)
    penalty = FacePenalty.of(M, **PRICES[prices])
    root = rng.normal(size=(K * (M + 1), 3 * K * (M + 1)))
    H = root @ root.T / 20 + 0.3 * np.eye(K * (M + 1))
    W = penalty.enforce_signs(0.5 * rng.normal(size=(K, M + 1)))
    return rng, penalty, model.WeightGroups.of(penalty, K), W, 1.5 * rng.normal(size=W.shape), H


def value(penalty, W, slope, H, V):
    move = (V - W).ravel()
    return slope.ravel() @ move + 0.5 * move @ H @ move + penalty.value(V)


def test_places_are_those_of_groups_over_all_faces_and_biases_alone():
    penalty = FacePenalty.of(3, l1=0.5, group=2.0, groups=[0, 1, 0], signs=[0, 1, -1])
    places = model.WeightGroups.of(penalty, 2)
    groups = [
        set(places.members[a:b].tolist()) for a, b in zip(places.starts, places.starts[1:], strict=False)
    ]
    assert groups == [{0, 2, 4, 6}, {1, 5}, {3}, {7}]
    assert places.norm_penalties.tolist() == [2.0, 2.0, 0.0, 0.0]
    assert places.up.tolist() == [0.5, 0.5, np.inf, 0.0] * 2
    assert places.down.tolist() == [0.5, np.inf, 0.5, 0.0] * 2
    assert np.flatnonzero(places.smooth).tolist() == [3, 7]
    signed = model.WeightGroups.of(FacePenalty.of(3, signs=[0, 1, 0]), 1)
    assert signed.smooth.tolist() == [True, False, True, True]
    H = np.diag([4.0, 1.0, 2.0, 9.0, 3.0, 5.0, 1.0, 9.0])
    assert places.block_curvatures(H) == pytest.approx([4.0, 5.0, 0.0, 0.0])


@pytest.mark.parametrize("prices", PRICES)
def test_the_end_is_the_optimum_and_the_gap_holds_for_it(prices):
    for seed in range(3):
        rng, penalty, places, W, slope, H = drawn(prices, seed)
        every = np.ones(W.shape, bool)
        found = model.minimise_model(penalty, places, W, slope, H, 0.3, every, 1e-12)
        least = value(penalty, W, slope, H, found)
        assert least <= value(penalty, W, slope, H, W)
        assert (penalty.signs * found[:, :-1] >= 0).all()
        there = (slope.ravel() + H @ (found - W).ravel()).reshape(W.shape)
        assert model.model_gap(penalty, found, there, 0.3) <= 1e-10
        for _ in range(20):
            V = penalty.enforce_signs(found + rng.choice([1e-3, 0.1, 1.0]) * rng.normal(size=W.shape))
            here = value(penalty, W, slope, H, V)
            assert here >= least - 1e-10
            # What any other point is above it is no more than its gap.
            push = (slope.ravel() + H @ (V - W).ravel()).reshape(W.shape)
            assert here - least <= model.model_gap(penalty, V, push, 0.3) + 1e-10
        # With some entries held at 0, it is the best of the others.
        some = rng.random(W.shape) < 0.6
        held = model.minimise_model(penalty, places, W * some, slope, H, 0.3, some, 1e-12)
        assert not held[~some].any()
        ends = value(penalty, W * some, slope, H, held)
        for _ in range(10):
            V = penalty.enforce_signs(held + 0.01 * rng.normal(size=W.shape) * some)
            assert value(penalty, W * some, slope, H, V) >= ends - 1e-10
        # A wide gap is enough at once.
        assert model.model_gap(penalty, W, slope, 0.3) >= 0.0


@pytest.mark.parametrize("prices", PRICES)
def test_a_sweep_puts_each_group_where_the_model_is_least_or_a_step_towards_it(prices):
    _, penalty, places, W, slope, H = drawn(prices, 5)
    v, r = W.ravel().copy(), slope.ravel().copy()
    steep, before = places.block_curvatures(H), value(penalty, W, slope, H, W)
    for g in range(len(places.starts) - 1):
        begin, end = places.starts[g : g + 1], places.starts[g + 1 : g + 2]
        mine = places.members[begin[0] : end[0]]
        model._sweep(
            H, r, v, begin, end, places.members, places.up, places.down, places.norm_penalties[g : g + 1],
            steep[g : g + 1], np.empty_like(v), 1,
        )  # fmt: skip
        after = value(penalty, W, slope, H, v.reshape(W.shape))
        assert after <= before + 1e-12
        assert r == pytest.approx(slope.ravel() + H @ (v - W.ravel()))
        if places.norm_penalties[g] == 0.0 or len(mine) == 1:
            moved = mine[-1]  # the last to move is at its best
            for step in (-1e-3, 1e-3):
                V = v.copy()
                V[moved] += step
                if (penalty.enforce_signs(V.reshape(W.shape)) == V.reshape(W.shape)).all():
                    assert value(penalty, W, slope, H, V.reshape(W.shape)) >= after
        before = after


def test_curvature_and_slope_of_lengths_are_those_of_differences():
    rng, penalty, places, W, _, H = drawn("group")
    W[:, 1:3] = 0.0  # a group that is out of use
    v = W.ravel()
    used = np.flatnonzero((v != 0.0) | places.smooth)

    def lengths(u):
        full = v.copy()
        full[used] = u
        return penalty.value(full.reshape(W.shape))

    step, push = 1e-4, rng.normal(size=len(v))
    M, found = model.add_group_norms(penalty, v, used, H[np.ix_(used, used)], push)
    for a, e in enumerate(step * np.eye(len(used))):
        slope = (lengths(v[used] + e) - lengths(v[used] - e)) / (2 * step)
        assert found[used[a]] - push[used[a]] == pytest.approx(slope, abs=1e-6)
        for b, h in enumerate(step * np.eye(len(used))):
            corner = [lengths(v[used] + s * e + t * h) for s in (1, -1) for t in (1, -1)]
            bend = (corner[0] - corner[1] - corner[2] + corner[3]) / (4 * step**2)
            assert M[a, b] - H[used[a], used[b]] == pytest.approx(bend, abs=1e-5)
