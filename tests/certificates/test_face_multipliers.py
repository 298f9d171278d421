"""What multipliers prove of faces in a box at a price, against the same formulas without arrays."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.face_penalty import FacePenalty
from polyopt.certificates import face_multipliers
from polyopt.certificates.face_box import FaceBox
from polyopt.certificates.face_multipliers import balanced, bound_of, conditions, repaired
from polyopt.certificates.rounding import Ball

N, M, K, R = 12, 3, 2, 2.0
NO_CLIP, WITHIN = (lambda m: m), (lambda m: np.clip(m, 0.0, 1.0))


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, M)), np.where(np.arange(N) % 2, 1.0, -1.0)
    return rng, X, y, rng.uniform(0.2, 0.8, (N, K)), np.ones((N, K), dtype=bool)


def pulls(X, y, mult):
    """r (K, m+1), the bias last."""
    return (np.column_stack([X, np.ones(N)]).T @ (y[:, None] * mult)).T


def lost(penalty, r):
    """What the box pays for imbalances, per unit of its radius."""
    total = 0.0
    for k in range(len(r)):
        for j in range(M):
            over = max(abs(r[k, j]) - penalty.l1, 0.0)
            total += 0.0 if penalty.signs[j] * r[k, j] < 0 else over
        total += abs(r[k, M])
    return total


@pytest.mark.parametrize("signs", [None, {0: 1, 2: -1}])
@pytest.mark.parametrize("l1", [0.0, 0.05, 0.6])
def test_the_bound_pays_the_box_for_what_is_beyond_the_price(signs, l1):
    _, X, y, mult, free = drawn()
    penalty = FacePenalty.of(M, l1=l1, signs=signs)
    box = FaceBox.around(np.zeros((K, M + 1)), R, 1e-9)
    plain = mult.sum() - R * lost(penalty, pulls(X, y, mult))
    held = bound_of(X, y, mult, ~free, NO_CLIP, box, penalty)  # none may move: as they are
    assert held.mid == pytest.approx(max(plain, 0.0))
    found = bound_of(X, y, mult, free, NO_CLIP, box, penalty)
    fixed = repaired(X, y, mult, free, NO_CLIP, box, penalty)
    assert lost(penalty, pulls(X, y, fixed)) <= 1e-12
    assert found.mid >= fixed.sum() - 1e-9 >= plain - 1e-9
    # Nearest: the balance of an imbalance that is not beyond the price is left alone.
    inside = np.abs(pulls(X, y, mult)[:, :M]) <= l1
    if inside.all() and l1:
        assert fixed != pytest.approx(mult)  # for the bias


@pytest.mark.parametrize(("over", "shrinks"), [(1e-7, True), (0.9e-6, True), (1.1e-6, False), (1e-3, False)])
@pytest.mark.parametrize("signs", [None, {0: 1, 1: -1}, {0: -1, 1: 1}])
def test_an_imbalance_a_little_beyond_the_price_shrinks_its_face_s_multipliers(over, shrinks, signs):
    _, X, y, mult, _ = drawn(1)
    r = pulls(X, y, mult)[:, :M]
    allowed = np.ones((K, M), dtype=bool) if signs is None else np.array(
        [[signs.get(j, 0) * r[k, j] >= 0 for j in range(M)] for k in range(K)])  # fmt: skip
    k, j = np.unravel_index(np.argmax(np.where(allowed, np.abs(r), 0.0)), r.shape)
    penalty = FacePenalty.of(M, l1=abs(r[k, j]) / (1.0 + over), signs=signs)
    found = face_multipliers._shrunk(X, y, mult, penalty)
    assert found[:, 1 - k] == pytest.approx(mult[:, 1 - k], rel=0, abs=0)  # that face is within the price
    share = (1.0 - 1e-12) / (1.0 + over) if shrinks else 1.0
    assert found[:, k] == pytest.approx(share * mult[:, k], rel=1e-14)
    assert np.abs(pulls(X, y, found)[k, j]) <= penalty.l1 or not shrinks
    same = FacePenalty.of(M, l1=2.0 * np.abs(r).max(), signs=signs)
    assert face_multipliers._shrunk(X, y, mult, same) == pytest.approx(mult, rel=0, abs=0)


@pytest.mark.parametrize(("over", "shrinks"), [(1e-5, True), (0.9e-3, True), (1.1e-3, False)])
def test_a_group_a_little_longer_than_its_price_shrinks_all_multipliers(over, shrinks):
    _, X, y, mult, _ = drawn(2)
    r, groups = pulls(X, y, mult)[:, :M], [[0, 2], [1]]
    lengths = [np.sqrt((r[:, own] ** 2).sum()) for own in groups]
    longest = max(lengths)
    penalty = FacePenalty.of(M, group=longest / (1.0 + over), groups=groups)
    share = (1.0 - 1e-12) / (1.0 + over) if shrinks else 1.0
    found = face_multipliers._shorter(X, y, mult, penalty)
    assert found == pytest.approx(share * mult, rel=1e-13)


def test_with_a_price_the_weights_in_use_are_balanced_at_it_and_the_others_within():
    _, X, y, mult, free = drawn(3)
    W = np.array([[0.5, 0.0, -0.5, 0.3], [0.0, R, 0.2, 0.0]])
    r = pulls(X, y, mult)
    for l1 in (0.01, 0.4):
        penalty = FacePenalty.of(M, l1=l1)
        found = balanced(X, y, mult, free, FaceBox.around(W, R, 1e-9), penalty)
        q = pulls(X, y, found)
        used = (W[:, :M] != 0) & (np.abs(W[:, :M]) < R)
        assert q[:, :M][used] == pytest.approx(l1 * np.sign(W[:, :M][used]), abs=1e-12)
        beyond = (W[:, :M] == 0) & (np.abs(r[:, :M]) > l1)
        assert np.abs(q[:, :M][beyond]) == pytest.approx(l1, abs=1e-12)
        assert q[:, M] == pytest.approx(0.0, abs=1e-12)
    grouped = FacePenalty.of(M, group=0.1)  # biases alone
    found = balanced(X, y, mult, free, FaceBox.around(W, R, 1e-9), grouped)
    assert pulls(X, y, found)[:, M] == pytest.approx(0.0, abs=1e-12)
    change = found - mult  # the nearest: the same step along y for each free one
    assert change == pytest.approx(y[:, None] * (change * y[:, None]).mean(axis=0), abs=1e-12)


def test_repairs_stop_at_caps_and_keep_what_the_box_holds():
    _, X, y, mult, free = drawn(4)
    penalty = FacePenalty.of(M, l1=0.2, signs={1: 1})
    W = np.zeros((K, M + 1))
    W[0, 0] = R  # held by the box: its imbalance is not repaired
    box = FaceBox.around(W, R, 1e-9)
    found = repaired(X, y, mult, free, WITHIN, box, penalty)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    r = pulls(X, y, found)
    for k in range(K):
        for j in range(M):
            if (k, j) == (0, 0):
                continue
            assert r[k, j] <= 0.2 + 1e-12
            assert j == 1 or r[k, j] >= -0.2 - 1e-12
    assert r[:, M] == pytest.approx(0.0, abs=1e-12)
    still = repaired(X, y, found, free, WITHIN, box, penalty)
    assert still == pytest.approx(found, abs=0)  # nothing is wrong any more


@pytest.mark.parametrize("penalty", [
    None, FacePenalty.of(M, l1=0.1), FacePenalty.of(M, l1=0.1, signs={0: -1, 2: 1}),
    FacePenalty.of(M, l1=0.05, group=0.3, groups=[[0, 2]]),
])  # fmt: skip
def test_conditions_by_hand(penalty):
    rng, X, y, mult, _ = drawn(5)
    mult[2, 0], mult[5, 1] = -0.25, -0.125
    W = rng.uniform(-1.5, 1.5, (K, M + 1))
    W[0, 1], W[1, 0], W[1, 3] = 3.0, -R, R
    if penalty is not None:
        W = penalty.allowed(W)
    box, unused, xi = FaceBox.around(W, R, 1e-9), rng.normal(size=(N, K)), rng.random((N, K))
    found = {(r.condition, r.row): r for r in conditions(X, y, mult, unused, xi, box, 4.0, penalty)}
    W, r = box.W, pulls(X, y, mult)
    outputs = X @ W[:, :M].T + W[:, M]
    largest = np.abs(mult).max()
    assert found["sign", "margin"].relative == pytest.approx(0.25 / largest)
    assert found["sign", "margin"].worst == 2
    assert found["sign", "slack"].relative == pytest.approx(-unused.min() / largest)
    margins = np.abs(mult * (y[:, None] * outputs - 1.0 + xi))
    assert found["complementarity", "margin"].relative == pytest.approx(margins.max() / 4.0)
    assert found["complementarity", "slack"].relative == pytest.approx(np.abs(unused * xi).max() / 4.0)
    left = r.copy()
    if penalty is not None:
        left = penalty.cut(r)
        held = np.clip(r[:, :M], -penalty.l1, penalty.l1)
        short = penalty.l1 * np.abs(W[:, :M]) - held * W[:, :M]
        assert found["complementarity", "price"].relative == pytest.approx(short.max() / 4.0)
        assert (("complementarity", "sign") in found) == penalty.signs.any()
        if penalty.signs.any():
            free = np.abs(r[:, :M] - held - left[:, :M]) * np.abs(W[:, :M])
            assert found["complementarity", "sign"].relative == pytest.approx(free.max() / 4.0)
        if penalty.group:
            q = face_multipliers.held_of_sums(penalty, left[:, :M])
            wanted = penalty.group * penalty.lengths(W[:, :M]).sum() - (q * W[:, :M]).sum()
            assert wanted > 0.0
            assert found["complementarity", "group"].relative == pytest.approx(wanted / 4.0)
            left[:, :M] -= q
    side = np.where(np.abs(W) >= R * (1.0 - 1e-9), np.sign(W), 0.0)
    assert (side != 0).sum() == 3
    unexplained = np.where(side == 0, np.abs(left), np.maximum(-side * left, 0.0))
    terms = np.abs(np.column_stack([X, np.ones(N)])).T @ np.abs(mult)
    balance = found["stationarity", "balance"]
    assert balance.relative == pytest.approx(unexplained.max() / terms.max())
    assert balance.worst == unexplained.max(axis=1).argmax()
    assert found["complementarity", "box"].relative == pytest.approx(0.0, abs=1e-9)
    nearly = FaceBox.around(np.where(side != 0, W * (1.0 - 5e-10), W), R, 1e-9)
    again = {(r.condition, r.row): r for r in conditions(X, y, mult, unused, xi, nearly, 4.0, penalty)}
    gap = np.where(side == 0, 0.0, np.abs(left) * (R - np.abs(nearly.W)))
    if penalty is None or not penalty.group:
        assert again["complementarity", "box"].relative == pytest.approx(gap.max() / 4.0, rel=1e-5)
    wide = conditions(X, y, mult, unused, xi, FaceBox.around(W, np.inf, 1e-9), 4.0, penalty)
    assert not any(r.row == "box" for r in wide)


def test_without_multipliers_signs_are_relative_to_what_caps_leave():
    _, X, y, mult, _ = drawn()
    box = FaceBox.around(np.zeros((K, M + 1)), R, 1e-9)
    unused = np.full((N, 1), 4.0)
    unused[3] = -1.0
    found = {
        (r.condition, r.row): r for r in conditions(X, y, 0.0 * mult, unused, np.zeros((N, 1)), box, 1.0)
    }
    assert found["sign", "slack"].relative == 0.25
    assert found["stationarity", "balance"].relative == 0.0


def test_what_the_box_pays_has_no_price_without_one():
    off = Ball(np.array([[1.0, -2.0], [0.5, 0.0]]))
    assert face_multipliers._lost(off, None).mid == 3.5
    assert face_multipliers._lost(off, FacePenalty.of(1, l1=0.75)).mid == pytest.approx(0.25 + 1.25 + 0.5)
