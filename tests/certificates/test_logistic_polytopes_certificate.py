"""The certificate of logistic polytopes, term by term: value, bound, pulls and roundings written out."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.polyhedral.logistic_certificate import certify_logistic_polytopes

N, M, K = 12, 3, 3
RHO, ETA, L1, GROUP = 0.7, 0.2, 0.3, 0.25
CLASSES = np.array([-1.0, 1.0, 1.0])


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    return rng, 0.7 * rng.normal(size=(N, M)), y, rng.uniform(0.1, 0.5, N), 0.3 * rng.normal(size=(K, M + 1))


def certified(data, **settings):
    _, X, y, C, W = data
    prices = {"ridge": RHO, "bias_ridge": ETA, "l1": L1, "group": GROUP, "C": C}
    return certify_logistic_polytopes(X, y, W, n_faces=(1, 2), **prices | settings)


def test_the_value_and_the_bound_of_multipliers_are_the_programs(data):
    rng, X, y, C, W = data
    s = np.column_stack([X, np.ones(N)]) @ W.T
    others = CLASSES != y[:, None]
    own = np.where(others, -np.inf, s).argmax(axis=1)
    xi = np.where(others, s, -np.inf).max(axis=1) - s[np.arange(N), own]
    weights = W[:, :-1]
    value = C @ np.logaddexp(0.0, xi) + RHO / 2 * (weights**2).sum() + ETA / 2 * (W[:, -1] ** 2).sum()
    value += L1 * np.abs(weights).sum() + GROUP * np.sqrt((weights**2).sum(axis=0)).sum()
    # Multipliers that are within their caps: shares of c at the faces of the other class.
    alpha = rng.random((N, K)) * others
    alpha *= (C * rng.uniform(0.1, 0.9, N) / alpha.sum(axis=1))[:, None]
    found = certified(data, alpha=alpha)
    assert found.primal_value == pytest.approx(value, rel=1e-12)
    total = alpha.sum(axis=1)
    p = total / C
    net = np.eye(K)[own] * total[:, None] - alpha
    pulls = net.T @ np.column_stack([X, np.ones(N)])
    cut = np.maximum(np.abs(pulls[:, :-1]) - L1, 0.0)
    lengths = np.sqrt((cut**2).sum(axis=0))
    left = cut * np.maximum(1.0 - GROUP / np.maximum(lengths, 1e-9), 0.0)
    bound = -C @ (p * np.log(p) + (1 - p) * np.log1p(-p)) - (left**2).sum() / (2 * RHO)
    bound -= (pulls[:, -1] ** 2).sum() / (2 * ETA)
    assert found.dual_value == pytest.approx(max(bound, 0.0), rel=1e-9)
    assert bound > 0.0
    # How far the faces are from those that the multipliers imply, over the largest sum of what pulls.
    implied = np.column_stack([np.sign(pulls[:, :-1]) * left / RHO, pulls[:, -1] / ETA])
    off = np.abs((W - implied) * np.r_[[RHO] * M, ETA]).max(axis=1)
    sizes = np.abs(np.column_stack([X, np.ones(N)])).T @ np.abs(net)
    by_row = {r.row: r for r in found.residuals}
    assert (by_row["W"].value, by_row["W"].worst) == (pytest.approx(off.max()), off.argmax())
    assert by_row["W"].relative == pytest.approx(off.max() / sizes.max())
    # Held weights pull nothing, and no implied face has them.
    support = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], bool)
    V = W.copy()
    V[1, 1] = 0.0
    held = certified((rng, X, y, C, V), alpha=alpha, support=support, assignment=own)
    cut[1, 1] = 0.0
    lengths = np.sqrt((cut**2).sum(axis=0))
    less = (left**2).sum() - ((cut * np.maximum(1.0 - GROUP / np.maximum(lengths, 1e-9), 0.0)) ** 2).sum()
    assert held.dual_value == pytest.approx(bound + less / (2 * RHO), rel=1e-9)


def test_another_assignment_is_told_how_much_it_misses(data):
    _, X, y, _, W = data
    s = np.column_stack([X, np.ones(N)]) @ W.T
    worst = np.where(y < 0, 0, 1 + s[:, 1:].argmin(axis=1))
    found = {r.row: r for r in certified(data, assignment=worst).residuals}["assignment"]
    miss = np.where(y < 0, 0.0, np.abs(s[:, 1] - s[:, 2]))
    assert (found.value, found.worst) == (pytest.approx(miss.max()), miss.argmax())
    assert found.relative == pytest.approx(miss.max() / np.abs(s).max())


def test_a_weight_of_the_wrong_sign_is_refused_however_small_it_is(data):
    _, X, y, C, W = data
    W = np.abs(W) * CLASSES[:, None]  # no score of class +1 falls with a feature, and of class -1 all do
    assert certified((None, X, y, C, W), signs=[1, 1, 1]).claim is not None
    for k, j in ((0, 2), (1, 0), (2, 1)):
        wrong = W.copy()
        wrong[k, j] *= -1e-9
        with pytest.raises(ValueError, match="keep the signs"):
            certified((None, X, y, C, wrong), signs=[1, 1, 1])
