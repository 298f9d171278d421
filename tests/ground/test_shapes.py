"""Generated sets of two classes: what they promise, that seeds hold, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.datasets import make_bananas, make_checkerboard, make_ringnorm, make_two_spirals

MADE = [make_bananas, make_checkerboard, make_ringnorm, make_two_spirals]


@pytest.mark.parametrize("make", MADE)
def test_a_seed_holds_and_both_classes_are_there(make):
    (X, y), (again, same), (other, _) = (
        make(60, random_state=1),
        make(60, random_state=1),
        make(60, random_state=2),
    )
    assert np.array_equal(X, again)
    assert np.array_equal(y, same)
    assert not np.array_equal(X, other)
    assert X.shape[0] == len(y) == 60
    assert set(y) == {-1, 1}
    with pytest.raises(ValueError, match="n_samples must be"):
        make(0)


def test_fields_have_their_colour():
    X, y = make_checkerboard(500, 3, random_state=0)
    assert ((X >= 0) & (X < 3)).all()
    rows, columns = X.astype(int).T
    assert np.array_equal(y > 0, (rows + columns) % 2 == 0)
    _, noisy = make_checkerboard(500, 3, noise=0.1, random_state=0)
    assert (noisy != y).sum() == 50
    with pytest.raises(ValueError, match="noise must lie in"):
        make_checkerboard(noise=0.6)


def test_spirals_without_noise_are_told_by_their_angle():
    X, y = make_two_spirals(400, turns=2.0, noise=0.0, random_state=0)
    distance = np.linalg.norm(X, axis=1)
    assert distance.max() <= 1.0 + 1e-12
    turned = np.arctan2(X[:, 1], X[:, 0]) - 4.0 * np.pi * distance
    assert np.cos(turned) == pytest.approx(y, abs=1e-9)
    for bad in ({"turns": 0.0}, {"noise": -1.0}):
        with pytest.raises(ValueError, match=r"turns must be|noise must be"):
            make_two_spirals(**bad)


def test_bananas_without_noise_are_arcs():
    X, y = make_bananas(200, noise=0.0, random_state=0)
    centres = np.where(y[:, None] > 0, 0.0, [0.75, -0.75])
    assert np.linalg.norm(X - centres, axis=1) == pytest.approx(1.0)
    assert (y * (X - centres)[:, 1]).min() >= -np.sqrt(0.5) - 1e-12


def test_ringnorm_has_its_moments_and_its_error():
    X, y = make_ringnorm(40_000, random_state=0)
    wide, narrow = X[y > 0], X[y < 0]
    assert wide.mean() == pytest.approx(0.0, abs=0.02)
    assert wide.var() == pytest.approx(4.0, abs=0.05)
    assert narrow.mean() == pytest.approx(2.0 / np.sqrt(20.0), abs=0.01)
    assert narrow.var() == pytest.approx(1.0, abs=0.01)
    # The best rule of all, by the two densities.
    far = (X**2).sum(axis=1) / 8.0 + 20.0 * np.log(2.0)
    near = ((X - 2.0 / np.sqrt(20.0)) ** 2).sum(axis=1) / 2.0
    assert np.mean((far < near) != (y > 0)) == pytest.approx(0.0127, abs=0.003)
