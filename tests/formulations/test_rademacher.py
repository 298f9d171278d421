"""The generalisation bound of the polytope machine: its complexities, its terms, and that it holds."""

from __future__ import annotations

from itertools import product
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.error_bounds.rademacher import (
    contraction_complexity,
    faces_complexity,
    log_odds_lipschitz,
    plume_bound,
    polytope_bound,
)
from formulations.mixture import log_odds
from formulations.polytope import lift


def sample(n, m=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, m))


def supremum_from_below(lifted, signs, radii, frobenius, rng, starts=4, steps=60):
    """A value of (1/n) Σ σ_i max_k W_k·x̃_i within the class, by projected ascent from several starts."""
    n, K = len(lifted), len(radii)

    def projected(W):
        norms = np.linalg.norm(W, axis=1, keepdims=True)
        if frobenius:
            return W * radii[0] / np.linalg.norm(norms)
        return W * radii[:, None] / np.maximum(norms, 1e-300)

    best = 0.0
    direction = signs @ lifted  # all faces alike: the linear supremum
    for start in range(starts):
        W = projected(np.tile(direction, (K, 1)) + (start > 0) * 3.0 * rng.normal(size=(K, lifted.shape[1])))
        for step in range(steps):
            answers = np.argmax(lifted @ W.T, axis=1)
            best = max(best, float(signs @ (lifted @ W.T).max(axis=1)) / n)
            gradient = (np.eye(K)[answers] * signs[:, None]).T @ lifted
            W = projected(
                W + gradient * (radii.max() / (np.linalg.norm(gradient) + 1e-300)) / (1 + 0.3 * step)
            )
    return best


@pytest.mark.parametrize("frobenius", [False, True])
@pytest.mark.parametrize("K", [1, 2, 5])
def test_complexity_is_above_what_ascent_finds(K, frobenius):
    """Projected ascent over the class finds a share of the bound, and no more than it."""
    rng = np.random.default_rng(K)
    X = sample(40, seed=K)
    radii = np.full(K, 2.0) if frobenius else np.linspace(0.5, 2.0, K)
    bound = contraction_complexity(X, 2.0, K) if frobenius else faces_complexity(X, radii)
    found = [
        supremum_from_below(lift(X), rng.choice([-1.0, 1.0], 40), radii, frobenius, rng) for _ in range(20)
    ]
    mean, error = np.mean(found), np.std(found) / sqrt(len(found))
    assert mean - 3 * error <= bound
    # Nor is the search idle: it finds a share of the bound, nearly all of it for the one face of step 1.
    assert mean > bound / {(1, False): 1.2, (1, True): 1.7, (2, False): 2.5, (2, True): 3.5}.get(
        (K, frobenius), 6.0
    )


def test_three_points_by_hand():
    """The samples x̃ have squared lengths 1, 4, 1: complexity and every term of the bound."""
    X = np.array([[0.0], [sqrt(3.0)], [0.0]])  # x̃ of squared length 1, 4, 1
    # All eight signs of one face of length 1: E‖Σσx̃‖/3 is below √6/3.
    exact = np.mean([np.linalg.norm(np.array(s) @ lift(X)) for s in product([-1, 1], repeat=3)]) / 3
    assert exact <= faces_complexity(X, [1.0]) == pytest.approx(sqrt(6) / 3)
    bound = polytope_bound(X, [-1, 1, -1], [[1.0, 0.0]], delta=0.1)
    # f = 0, √3, 0: margins 0, √3, 0 at γ = 1, so two of three pay 1; ρ^0 = 1 fits, and π_0 = 1/3
    assert bound.empirical == bound.hinge == pytest.approx(2 / 3)
    assert bound.capacity == pytest.approx(2 * sqrt(6) / 3)
    assert bound.confidence == pytest.approx(3 * sqrt(log(20) / 6))
    assert bound.confidence + bound.price == pytest.approx(3 * sqrt(log(2 / (0.1 / 2 / 3)) / 6))
    assert bound.total == pytest.approx(2 / 3 + 2 * sqrt(6) / 3 + 3 * sqrt(log(120) / 6))
    assert bound.vacuous
    assert bound.form == "faces"
    assert "says nothing" in str(bound)


@given(seed=st.integers(0, 10**6), K=st.integers(1, 6), factor=st.sampled_from([1e-3, 0.5, 20.0]))
def test_only_faces_over_margin_count(seed, K, factor):
    """Faces and margin times a factor have the same bound; the best margin has the lowest."""
    rng = np.random.default_rng(seed)
    X, W = rng.normal(size=(30, 2)), rng.normal(size=(K, 3))
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    one, other = polytope_bound(X, y, W), polytope_bound(X, y, factor * W, gamma=factor)
    # Equal but for a norm that rounding takes to the next radius of the grid
    assert other.empirical == pytest.approx(one.empirical)
    assert other.capacity == pytest.approx(one.capacity, rel=0.11)
    assert one.hinge >= one.empirical
    best = polytope_bound(X, y, W, gamma="best")
    assert best.total <= one.total + 1e-12
    assert best.total == pytest.approx(polytope_bound(X, y, W, gamma=best.gamma).total)


def test_prior_over_radii_adds_up_to_one():
    """Shares of the confidence over the grid of radii are a distribution."""
    X, y = np.zeros((50, 1)), np.ones(50)
    prior = []
    for j in range(-59, 600):  # W's norm in the middle of a cell; one face prefers no contraction
        bound = polytope_bound(X, y, [[0.0, 1.1 ** (j - 0.5)]], delta=0.5)
        assert bound.form == "faces"
        root = (bound.confidence + bound.price) / 3
        prior.append(2.0 / (np.exp(root**2 * 100) * 0.25))
    total = np.sum(prior)
    left_out = 2 / 3 * (1 / 61 + 1 / 601)  # Σ_{j ≥ J} 1/((j+1)(j+2)) = 1/(J+1)
    assert total + left_out == pytest.approx(1.0, rel=1e-6)


def test_bound_holds_on_fresh_samples():
    """Faces chosen on the sample at hand err below the bound, which is below 1."""
    rng = np.random.default_rng(7)
    square = np.array([[1.0, 0, -1], [-1, 0, -1], [0, 1, -1], [0, -1, -1]])

    def draw(n):
        X = rng.uniform(-2.0, 2.0, size=(n, 2))
        f = (lift(X) @ square.T).max(axis=1)
        flipped = rng.random(n) < 0.05
        return X, np.where((f > 0) ^ flipped, 1.0, -1.0), f

    # Truth known: a face pushed to where it does best on the sample at hand, of many random ones.
    X_new, y_new, _ = draw(40_000)
    lifted = lift(X_new)
    for _ in range(6):
        X, y, _ = draw(8_000)
        candidates = 3.0 * square + 0.3 * rng.normal(size=(20, 4, 3))
        errors = [(y * (lift(X) @ W.T).max(axis=1) <= 0).mean() for W in candidates]
        W = candidates[int(np.argmin(errors))]
        bound = polytope_bound(X, y, W, delta=0.05, gamma="best")
        error = (y_new * (lifted @ W.T).max(axis=1) <= 0).mean()
        assert error <= bound.total
        assert not bound.vacuous


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W": np.ones((2, 2))}, r"W must be of shape \(K, 3\)"),
        ({"W": np.full((1, 3), np.inf)}, "W must be finite"),
        ({"delta": 0.0}, "delta must be between 0 and 1"),
        ({"gamma": -1.0}, "gamma must be positive"),
        ({"gamma": "worst"}, "gamma must be positive or 'best', not 'worst'"),
        ({"y": np.zeros(5)}, "y must hold only"),
    ],
)
def test_wrong_input_is_named(change, message):
    """Shapes, confidence, margin and labels are refused by name."""
    arguments = {"X": sample(5), "y": np.ones(5), "W": np.ones((1, 3)), **change}
    with pytest.raises(ValueError, match=message):
        polytope_bound(**arguments)


# -- PLUME ---------------------------------------------------------------------------------


def odds(s, gamma):
    """Log-odds at scores, by faces that are the coordinates."""
    K = s.shape[1]
    return log_odds(s, np.column_stack([np.eye(K), np.zeros(K)]), gamma)


@given(
    seed=st.integers(0, 10**6),
    K=st.integers(1, 12),
    gamma=st.sampled_from([0.0, 0.3, 0.9999, 1.0, 1.0001, 2.0, 10.0, 1e3]),
)
def test_log_odds_are_lipschitz(seed, K, gamma):
    """No change of scores moves the log-odds by more than the constant times its length."""
    rng = np.random.default_rng(seed)
    spread = 10.0 ** rng.uniform(-2, 1, (500, 1)) / max(gamma, 1.0)
    one = rng.uniform(-6, 6, (500, 1)) + spread * np.abs(rng.normal(size=(500, K)))
    other = one + 10.0 ** rng.uniform(-4, 1, (500, 1)) * spread * rng.normal(size=(500, K))
    change, distance = np.abs(odds(one, gamma) - odds(other, gamma)), np.linalg.norm(one - other, axis=1)
    assert (change <= log_odds_lipschitz(gamma, K) * distance * (1 + 1e-6) + 1e-9).all()


def test_plume_bound_by_hand():
    """One face has the polytope's terms times √2; more faces have the Lipschitz constant."""
    X = np.array([[0.0], [sqrt(3.0)], [0.0]])
    bound = plume_bound(X, [1, -1, 1], [[1.0, 0.0]], gamma=5.0, delta=0.1)
    # One face: the log-odds are the score, L = 1, and the factor √2 is Maurer's.
    assert bound.empirical == pytest.approx((1 + 1 + 1) / 3)
    assert bound.hinge == pytest.approx((1 + 1 + sqrt(3) + 1) / 3)
    assert bound.capacity == pytest.approx(2 * sqrt(2) * sqrt(6) / 3)
    assert bound.confidence + bound.price == pytest.approx(3 * sqrt(log(2 / (0.1 / 2 / 3)) / 6))
    assert bound.gamma == 1.0
    # More faces: L times the polytope's, for the same norms.
    X, W = sample(50, seed=3), np.random.default_rng(0).normal(size=(4, 3))
    y = np.where(np.arange(50) % 2, 1.0, -1.0)
    polytope, mixture = polytope_bound(X, y, W), plume_bound(X, y, W, gamma=2.0)
    assert (polytope.form, mixture.form) == ("faces", "faces")
    assert mixture.capacity == pytest.approx(sqrt(2) * log_odds_lipschitz(2.0, 4) * polytope.capacity)
    assert mixture.price == pytest.approx(polytope.price)
    margins = y * log_odds(X, W, 2.0)
    assert mixture.empirical == pytest.approx(np.clip(1 - margins, 0, 1).mean())
    with pytest.raises(ValueError, match="gamma must be at least 0"):
        plume_bound(X, y, W, gamma=-1.0)
    for wrong in (W[:, :2], W[:0], W[0], np.hstack([W, W])):
        with pytest.raises(ValueError, match=r"W must be of shape \(K, 3\)"):
            plume_bound(X, y, wrong, gamma=1.0)


@pytest.mark.parametrize("gamma", [0.5, 5.0])
def test_plume_bound_holds_in_worst_case(gamma):
    # Labels of noise, and faces that fit them: the ramp's risk is known.
    """On labels of noise the ramp deviates by less than capacity and confidence."""
    rng = np.random.default_rng(5)
    X_new = rng.normal(size=(5_000, 2))
    largest = 0.0
    for _ in range(10):
        X, y = rng.normal(size=(60, 2)), rng.choice([-1.0, 1.0], 60)
        candidates = 2.0 * rng.normal(size=(300, 3, 3))
        ramps = [np.clip(1 - y * log_odds(X, W, gamma), 0, 1).mean() for W in candidates]
        W = candidates[int(np.argmin(ramps))]
        bound, f = plume_bound(X, y, W, gamma), log_odds(X_new, W, gamma)
        deviation = 0.5 * (np.clip(1 - f, 0, 1) + np.clip(1 + f, 0, 1)).mean() - bound.empirical
        largest = max(largest, deviation)
        assert deviation <= bound.capacity + bound.confidence + bound.price
    assert largest > 0.1
    X = rng.uniform(-2, 2, size=(100_000, 2))
    square = 4.0 * np.array([[1.0, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1]])
    y = np.where(log_odds(X, square, gamma) > 0, 1.0, -1.0)
    assert not plume_bound(X, y, square, gamma).vacuous


def test_lipschitz_constant_by_hand():
    """Sharpness 2: a = (K − 1)((1 − a)/2)² is quadratic; a = 3 − 2√2 for two faces, 2 − √3 for three."""
    for n_faces, a in ((2, 3.0 - 2.0 * np.sqrt(2.0)), (3, 2.0 - np.sqrt(3.0))):
        assert log_odds_lipschitz(2.0, n_faces) == pytest.approx(1.0 + 2.0 * np.sqrt(2.0) * a, rel=1e-12)
    assert log_odds_lipschitz(2.0, 1) == log_odds_lipschitz(0.5, 1) == log_odds_lipschitz(1.0, 1) == 1.0
    assert log_odds_lipschitz(0.5, 3) == pytest.approx(1.0 + 0.5 * np.sqrt(2.0))
    assert log_odds_lipschitz(1.0, 4) == pytest.approx(1.0 + 0.75 * np.sqrt(2.0))
