"""What multipliers prove of faces in a box, against the same formulas without arrays."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.certificates.polyhedral_lp import FaceBox, balanced, bound_of, conditions

N, M, K, R = 12, 3, 2, 2.0


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, M)), np.where(np.arange(N) % 2, 1.0, -1.0)
    return rng, X, y, rng.uniform(0.2, 0.8, (N, K)), np.ones((N, K), dtype=bool)


def pulls(X, y, mult):
    """r (K, m+1), the bias last."""
    return (np.column_stack([X, np.ones(N)]).T @ (y[:, None] * mult)).T


def test_the_bound_pays_the_box_for_what_balance_lacks():
    _, X, y, mult, free = drawn()
    box = FaceBox.around(np.zeros((K, M + 1)), R, 1e-9)
    plain = mult.sum() - R * np.abs(pulls(X, y, mult)).sum()
    held = bound_of(X, y, mult, ~free, lambda m: m, box)  # none may move: as they are
    assert held.mid == pytest.approx(max(plain, 0.0))
    even = balanced(X, y, mult, free, box)
    assert np.abs(pulls(X, y, even)).max() <= 1e-12
    found = bound_of(X, y, mult, free, lambda m: m, box)
    assert found.mid >= even.sum() - 1e-9 >= plain - 1e-9


def test_what_the_box_holds_is_not_balanced():
    _, X, y, mult, free = drawn(3)
    W = np.array([[0.5, 0.0, -0.5, 0.3], [0.0, R, 0.2, 0.0]])
    box = FaceBox.around(W, R, 1e-9)
    r = pulls(X, y, balanced(X, y, mult, free, box))
    assert r[box.side == 0] == pytest.approx(0.0, abs=1e-12)
    assert abs(r[1, 1]) > 1e-3


def test_conditions_by_hand():
    rng, X, y, mult, _ = drawn(5)
    mult[2, 0], mult[5, 1] = -0.25, -0.125
    W = rng.uniform(-1.5, 1.5, (K, M + 1))
    W[0, 1], W[1, 0], W[1, 3] = 3.0, -R, R
    box, unused, xi = FaceBox.around(W, R, 1e-9), rng.normal(size=(N, K)), rng.random((N, K))
    found = {(r.condition, r.row): r for r in conditions(X, y, mult, unused, xi, box, 4.0)}
    W, r = box.W, pulls(X, y, mult)
    outputs = X @ W[:, :M].T + W[:, M]
    largest = np.abs(mult).max()
    assert found["sign", "margin"].relative == pytest.approx(0.25 / largest)
    assert found["sign", "margin"].worst == 2
    assert found["sign", "slack"].relative == pytest.approx(-unused.min() / largest)
    margins = np.abs(mult * (y[:, None] * outputs - 1.0 + xi))
    assert found["complementarity", "margin"].relative == pytest.approx(margins.max() / 4.0)
    assert found["complementarity", "slack"].relative == pytest.approx(np.abs(unused * xi).max() / 4.0)
    side = np.where(np.abs(W) >= R * (1.0 - 1e-9), np.sign(W), 0.0)
    assert (side != 0).sum() == 3
    unexplained = np.where(side == 0, np.abs(r), np.maximum(-side * r, 0.0))
    terms = np.abs(np.column_stack([X, np.ones(N)])).T @ np.abs(mult)
    balance = found["stationarity", "balance"]
    assert balance.relative == pytest.approx(unexplained.max() / terms.max())
    assert balance.worst == unexplained.max(axis=1).argmax()
    assert found["complementarity", "box"].relative == pytest.approx(0.0, abs=1e-9)
    nearly = FaceBox.around(np.where(side != 0, W * (1.0 - 5e-10), W), R, 1e-9)
    again = {(r.condition, r.row): r for r in conditions(X, y, mult, unused, xi, nearly, 4.0)}
    gap = np.where(side == 0, 0.0, np.abs(r) * (R - np.abs(nearly.W)))
    assert again["complementarity", "box"].relative == pytest.approx(gap.max() / 4.0, rel=1e-5)
    wide = conditions(X, y, mult, unused, xi, FaceBox.around(W, np.inf, 1e-9), 4.0)
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
