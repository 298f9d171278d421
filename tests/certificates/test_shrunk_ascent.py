"""Newton steps on the dual of a polytope with a price: the system by differences, values and ways by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.toy_data import two_blobs
from polyopt.cpm.penalised_face_dual import Options, PenalisedAscent, _System

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
    ascent = PenalisedAscent(form(X), y, caps, penalty, options)
    ascent.begin_from(rng.uniform(0.0, 1.0, caps.shape) * caps)
    return rng, X, y, caps, penalty, ascent


def stacked(X, y):
    """A row y_i x̃_i at the place of face k for each pair (i, k)."""
    rows = y[:, None] * np.column_stack([X, np.ones(N)])
    return np.concatenate([np.kron(np.eye(K)[k], rows[i]) for i in range(N) for k in range(K)]).reshape(
        N * K, -1
    )


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize("prices", PRICES)
def test_the_system_is_that_of_the_slope_of_what_is_left_of_pulls(prices, form):
    rng, X, y, _, penalty, ascent = drawn(prices, form)
    free, V = rng.random((N, K)) < 0.7, ascent.V
    columns = []
    for place in range(V.size):
        h = np.zeros(V.size)
        h[place] = 1e-6
        h = h.reshape(V.shape)
        columns.append((penalty.shrunk(V + h) - penalty.shrunk(V - h)).ravel() / 2e-6)
    A, J = stacked(X, y)[free.ravel()], np.array(columns).T
    ridge, slope = rng.uniform(0.5, 2.0, (N, K)), rng.normal(size=(N, K))
    wanted = np.zeros((N, K))
    wanted[free] = np.linalg.solve(A @ J @ A.T + np.diag(ridge[free]), slope[free])
    system = _System(penalty, V, form(X), y, free, 1500)
    assert system.solve(slope, ridge) == pytest.approx(wanted, abs=1e-7)
    found = system._solve_by_cg(slope, ridge)
    left = slope[free] - (A @ J @ A.T + np.diag(ridge[free])) @ found[free]
    first = (slope[free] ** 2 / ridge[free]).sum()
    assert (left**2 / ridge[free]).sum() <= 1.01e-8 * first
    assert not found[~free].any()


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize("prices", PRICES)
def test_values_and_slopes_of_the_two_programs(prices, form):
    """Values are those of the two programs and slopes those of the dual."""
    _, X, y, caps, penalty, ascent = drawn(prices, form)
    lifted = np.column_stack([X, np.ones(N)])
    V = (y[:, None] * ascent.alpha).T @ lifted
    W = 0.5 * penalty.shrunk(V)
    assert ascent.V == pytest.approx(V)
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
            ascent._set_alpha(moved)
            values.append(ascent.dual)
        assert (values[1] - values[0]) / 2e-6 == pytest.approx(slope[i, k], abs=1e-6)


@pytest.mark.parametrize("prices", PRICES)
def test_steps_gain_and_end_at_the_optimum(prices):
    """Every step gains stays within the caps and ends at the optimum."""
    *_, caps, penalty, ascent = drawn(prices)
    last = ascent.dual
    for turn in range(200):
        if not ascent.step():
            break
        assert ascent.steps == turn + 1
        assert ascent.dual > last - 1e-13 * abs(last)
        assert ((ascent.alpha >= 0.0) & (ascent.alpha <= caps)).all()
        last = ascent.dual
    ascent._set_alpha(ascent.alpha)
    assert ascent.gap <= 1e-9
    again = PenalisedAscent(ascent._X, ascent._y, caps, penalty)
    assert again.solve(1e-11)
    again.polish(Clock(None))
    assert again.dual == pytest.approx(ascent.dual, rel=1e-9)
    assert (penalty.signs * ascent.faces[:, :-1] >= 0.0).all()


def test_conjugate_gradients_come_to_the_same():
    """Systems that are too large for a factorisation are solved by conjugate gradients."""
    *_, ascent = drawn("all")
    assert ascent.solve(1e-10)
    *_, other = drawn("all", options=Options(max_factored=3, max_explicit_weights=0))
    assert other.solve(1e-10)
    assert other.dual == pytest.approx(ascent.dual, rel=1e-9)


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
    ascent = PenalisedAscent(X, np.ones(3), np.ones((3, 1)), FacePenalty.of(2, signs={0: 1}))
    ascent.begin_from(np.ones((3, 1)))  # 0.1 + 0.2 − 0.3 is not 0 in doubles
    assert ascent.W[0, 1] != 0.0
    assert ascent.faces.tolist() == [[1.5, 0.0, 1.5]]


@pytest.mark.parametrize("prices", PRICES)
def test_badly_scaled_data_are_solved_from_the_multipliers_of_clarabel(prices):
    """Newton steps alone would end far from the optimum."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, M)) * 10.0 ** np.array([-3.0, 0.0, 1.0, 3.0])
    y = np.where(X[:, 1] + rng.normal(size=60) > 0.0, 1.0, -1.0)
    penalty, caps = FacePenalty.of(M, **PRICES[prices]), np.full((60, K), 100.0)
    alone = PenalisedAscent(X, y, caps, penalty, Options(max_explicit_weights=0))
    assert not alone.solve(1e-8)
    ascent = PenalisedAscent(X, y, caps, penalty)
    assert ascent.solve(1e-8)
    assert ascent.gap <= 1e-8
    assert ((ascent.alpha >= 0.0) & (ascent.alpha <= caps)).all()
    assert ascent.primal < alone.primal
