"""Interior-point ascent on the dual of a polytope with a price: values, slopes and optimum, by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.toy_data import two_blobs
from polyopt.cpm.fixed_assignment import FixedAssignmentSolver, Options

N, K, M = 11, 2, 4
PRICES = {
    "none but signs": {"signs": {0: 1}},
    "l1": {"l1": 0.6},
    "group": {"group": 0.8, "groups": [[0, 1], [2]]},
    "all": {"l1": 0.3, "group": 0.5, "groups": [[1, 3]], "signs": {2: -1}},
}


def drawn(prices, form=np.array, seed=0, options=None):
    rng = np.random.default_rng(seed)
    X, y = two_blobs(n=N, m=M, seed=seed)
    caps = np.where(rng.random((N, K)) < 0.2, 0.0, rng.uniform(0.3, 1.5, (N, K)))
    penalty = FacePenalty.of(M, **PRICES[prices])
    ascent = FixedAssignmentSolver(form(X), y, caps, penalty, options)
    ascent.begin_from(rng.uniform(0.0, 1.0, caps.shape) * caps)
    return rng, X, y, caps, penalty, ascent


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize("prices", PRICES)
def test_values_and_slopes_of_the_two_programs(prices, form):
    """Values are those of the two programs and slopes those of the dual."""
    _, X, y, caps, penalty, ascent = drawn(prices, form)
    lifted = np.column_stack([X, np.ones(N)])
    V = (y[:, None] * ascent.alpha).T @ lifted
    W = 0.5 * penalty.shrunk(V)
    assert ascent.W == pytest.approx(W)
    assert ascent.scores == pytest.approx(lifted @ W.T)
    hinges = np.maximum(0.0, 1.0 - y[:, None] * (lifted @ W.T))
    assert ascent.primal == pytest.approx((W**2).sum() + penalty.value(W) + (caps * hinges).sum())
    assert ascent.dual == pytest.approx(ascent.alpha.sum() - (W**2).sum())
    assert ascent.dual <= ascent.primal
    slope, alpha = 1.0 - y[:, None] * ascent.scores, ascent.alpha.copy()
    for i, k in zip(*np.nonzero(caps), strict=True):
        values = []
        for h in (-1e-6, 1e-6):
            moved = alpha.copy()
            moved[i, k] += h
            ascent.begin_from(moved)
            values.append(ascent.dual)
        assert (values[1] - values[0]) / 2e-6 == pytest.approx(slope[i, k], abs=1e-6)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize("prices", PRICES)
def test_every_start_ends_at_the_optimum_of_the_program(prices, form):
    """Multipliers and faces stay feasible, and begin from multipliers, from faces, or from zeros."""
    rng, X, y, caps, penalty, ascent = drawn(prices, form)
    start = ascent.dual
    values = []
    for turn in range(3):
        if turn:
            ascent = FixedAssignmentSolver(form(X), y, caps, penalty)
        if turn == 2:
            ascent.begin_at(penalty.enforce_signs(rng.normal(size=(K, M + 1))))
        assert ascent.solve(1e-3)
        assert ascent.solve(1e-11)
        ascent.polish(Clock(None))
        assert ascent.gap <= 1e-11
        assert ((ascent.alpha >= 0.0) & (ascent.alpha <= caps)).all()
        assert (penalty.signs * ascent.faces[:, :-1] >= 0.0).all()
        values += [ascent.dual, ascent.primal]
    assert values == pytest.approx([values[0]] * 6, rel=1e-9)
    assert values[0] > start


@pytest.mark.parametrize("prices", PRICES)
def test_conjugate_gradients_come_to_the_same(prices):
    """Systems that are too large for a factorisation are solved by conjugate gradients."""
    *_, ascent = drawn(prices)
    assert ascent.solve(1e-10)
    *_, other = drawn(prices, options=Options(max_factored=3))
    assert other.solve(1e-10)
    assert other.dual == pytest.approx(ascent.dual, rel=1e-9)


@pytest.mark.parametrize("prices", PRICES)
def test_features_outside_the_path_are_added_to_it(prices):
    """A path of one feature, with others added as their weights are needed, ends at the same optimum."""
    *_, ascent = drawn(prices)
    assert ascent.solve(1e-10)
    *_, other = drawn(prices, options=Options(max_first_features=1))
    assert other.solve(1e-10)
    assert other.dual == pytest.approx(ascent.dual, rel=1e-9)
    assert other.W == pytest.approx(ascent.W, abs=1e-5)


def test_faces_ask_for_all_of_the_multipliers_inside_the_margin():
    rng, X, y, caps, _, ascent = drawn("l1")
    W = rng.normal(size=(K, M + 1))
    ascent.begin_at(W)
    inside = y[:, None] * (X @ W[:, :-1].T + W[:, -1]) < 1.0
    assert ascent.alpha.tolist() == np.where(inside, caps, 0.0).tolist()
    ascent.begin_from(np.full((N, K), 9.0), 0.5 * caps)
    assert ascent.alpha.tolist() == (0.5 * caps).tolist()
    ascent.begin_from(np.full((N, K), -9.0))
    assert not ascent.alpha.any()
    assert ascent.dual == 0.0


def test_weights_of_rounding_are_zeros_in_the_faces():
    X = np.array([[1.0, 0.1], [1.0, 0.2], [1.0, -0.3]])
    ascent = FixedAssignmentSolver(X, np.ones(3), np.ones((3, 1)), FacePenalty.of(2, signs={0: 1}))
    ascent.begin_from(np.ones((3, 1)))  # 0.1 + 0.2 − 0.3 is not 0 in doubles
    assert ascent.W[0, 1] != 0.0
    assert ascent.faces.tolist() == [[1.5, 0.0, 1.5]]


@pytest.mark.parametrize("prices", PRICES)
def test_badly_scaled_data_are_solved(prices):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, M)) * 10.0 ** np.array([-3.0, 0.0, 1.0, 3.0])
    y = np.where(X[:, 1] + rng.normal(size=60) > 0.0, 1.0, -1.0)
    penalty, caps = FacePenalty.of(M, **PRICES[prices]), np.full((60, K), 100.0)
    ascent = FixedAssignmentSolver(X, y, caps, penalty)
    assert ascent.solve(1e-8)
    assert ascent.gap <= 1e-8
    assert ((ascent.alpha >= 0.0) & (ascent.alpha <= caps)).all()
