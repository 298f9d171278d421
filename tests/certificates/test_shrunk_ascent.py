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
def test_values_and_slopes_of_programs(prices, form):
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


@pytest.mark.parametrize("start", ["multipliers", "zeros", "faces"])
@pytest.mark.parametrize("options", [
    None, Options(max_factored=3), Options(max_first_features=1)
], ids=["factorised", "conjugate gradients", "features added"])  # fmt: skip
@pytest.mark.parametrize("prices", PRICES)
def test_every_start_ends_at_optimum(prices, options, start):
    """From any start, by each way to solve the systems, the feasible point and multipliers are optimal."""
    rng, X, y, caps, penalty, ascent = drawn(prices, sp.csr_array, options=options)
    first = ascent.dual
    if start != "multipliers":
        ascent = FixedAssignmentSolver(X, y, caps, penalty, options)
    if start == "faces":
        W = penalty.enforce_signs(rng.normal(size=(K, M + 1)))
        ascent.begin_at(W)
        inside = y[:, None] * (X @ W[:, :-1].T + W[:, -1]) < 1.0
        assert ascent.alpha.tolist() == np.where(inside, caps, 0.0).tolist()
    assert ascent.solve(1e-3)
    assert ascent.solve(1e-10)
    ascent.polish(Clock(None))
    assert ascent.gap <= 1e-10
    assert ((ascent.alpha >= 0.0) & (ascent.alpha <= caps)).all()
    assert (penalty.signs * ascent.faces[:, :-1] >= 0.0).all()
    assert ascent.dual == pytest.approx(ascent.primal, rel=1e-9)
    assert ascent.dual > first


def test_start_is_within_its_caps():
    """Multipliers to begin from are clipped to the caps, or to narrower ones."""
    *_, caps, _, ascent = drawn("l1")
    ascent.begin_from(np.full((N, K), 9.0), 0.5 * caps)
    assert ascent.alpha.tolist() == (0.5 * caps).tolist()
    ascent.begin_from(np.full((N, K), -9.0))
    assert not ascent.alpha.any()
    assert ascent.dual == 0.0


def test_weights_of_rounding_are_zeros():
    """A weight whose pull cancels up to rounding is 0 in the faces."""
    X = np.array([[1.0, 0.1], [1.0, 0.2], [1.0, -0.3]])
    ascent = FixedAssignmentSolver(X, np.ones(3), np.ones((3, 1)), FacePenalty.of(2, signs={0: 1}))
    ascent.begin_from(np.ones((3, 1)))  # 0.1 + 0.2 − 0.3 is not 0 in doubles
    assert ascent.W[0, 1] != 0.0
    assert ascent.faces.tolist() == [[1.5, 0.0, 1.5]]


@pytest.mark.parametrize("prices", PRICES)
def test_badly_scaled_samples_are_solved(prices):
    """Features of sizes from 1e-3 to 1e3 and large caps are solved to 1e-8."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, M)) * 10.0 ** np.array([-3.0, 0.0, 1.0, 3.0])
    y = np.where(X[:, 1] + rng.normal(size=60) > 0.0, 1.0, -1.0)
    caps = np.full((60, K), 100.0)
    ascent = FixedAssignmentSolver(X, y, caps, FacePenalty.of(M, **PRICES[prices]))
    assert ascent.solve(1e-8)
    assert ascent.gap <= 1e-8
    assert ((ascent.alpha >= 0.0) & (ascent.alpha <= caps)).all()
