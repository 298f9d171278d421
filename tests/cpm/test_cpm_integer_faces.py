"""A face of whole numbers: its search against every choice of numbers, and what is printed of it."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from formulations import cpm
from formulations.face_penalty import FacePenalty
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.cpm.certificate_restricted import certify_cpm_integer
from polyopt.cpm.few_feature_face import SubsetFace
from polyopt.cpm.integer import IntegerFace
from polyopt.cpm.solve import Settings, solve_cpm


def cost(X, y, c, w):
    return w @ w + c @ np.maximum(0, 1 - y * (cpm.lift(X) @ w))


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=30, m=3, seed=0)
    c = np.full(30, 0.5)
    return X, y, c, SubsetFace(X, y, c, 3).fit([0, 1, 2]).w


@pytest.mark.parametrize(("M", "s"), [(1, None), (2, None), (2, 1)])
def test_the_search_finds_the_best_numbers(data, M, s):
    X, y, c, w = data
    found = IntegerFace(X, y, c, M, s).round(w)
    assert np.abs(found.integers).max() <= M
    least = np.inf
    for p in product(range(-M, M + 1), repeat=3):
        if any(p) and (s is None or np.count_nonzero(p) <= s):
            # One feature p·x, its square at the price ‖p‖²: by the explicit program of a face.
            size = np.linalg.norm(p)
            least = min(least, SubsetFace((X @ np.array(p) / size)[:, None], y, c, 1).fit([0]).objective)
    assert least * (1 - 1e-9) <= found.objective <= least * 1.0011  # a thousandth is the threshold's
    assert cost(X, y, c, found.w) == pytest.approx(found.objective, rel=1e-9)


def test_the_face_is_what_is_printed(data):
    X, y, c, w = data
    found = IntegerFace(X, y, c, 6).round(w)
    assert len(f"{abs(found.threshold):g}".replace(".", "").strip("0")) <= 4
    assert np.gcd.reduce(found.integers) == 1
    assert ((found.w[:-1] / found.scale) == found.integers).all()  # no digit is lost in the products
    assert (found.scale * found.integers * 2.0**10 == found.integers * (found.scale * 2.0**10)).all()


@pytest.mark.parametrize("s", [None, 2, 1])
@pytest.mark.parametrize("seed", range(3))
def test_no_step_of_one_or_two_numbers_is_better_at_the_end(seed, s):
    X, y = two_blobs(n=40, m=5, seed=seed)
    c, most = np.full(40, 0.5), 5 if s is None else s
    face = IntegerFace(X, y, c, 4, s)
    p = face.round(SubsetFace(X, y, c, 5).fit(np.arange(5)).w).integers
    assert p.any()
    assert np.abs(p).max() <= 4
    assert np.count_nonzero(p) <= most
    least, steps = face._fit_scale(p).objective, (-1, 0, 1)
    for j, k in combinations(range(5), 2):
        for a, b in product(steps, steps):
            near = p.copy()
            near[j], near[k] = p[j] + a, p[k] + b
            if np.abs(near).max() <= 4 and np.count_nonzero(near) <= most:
                assert face._fit_scale(near).objective >= least * (1.0 - 2e-9)
    for j in np.flatnonzero(p):
        near = np.where(np.arange(5) == j, 0, p)
        assert face._fit_scale(near).objective >= least * (1.0 - 2e-9)


def test_numbers_opposite_to_the_classes_are_turned_round(data):
    X, y, c, w = data
    face = IntegerFace(X, y, c, 3)
    wrong = -np.sign(w[:-1]).astype(np.int64)
    line = face._fit_scale(wrong)
    assert line.integers.tolist() == (-wrong).tolist()
    assert line.scale > 0.0


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_costs_at_most_a_thousandth(seed):
    X, y = two_blobs(n=40, m=3, seed=seed)
    c = np.full(40, 0.5)
    face = IntegerFace(X, y, c, 4)
    found = face.round(SubsetFace(X, y, c, 3).fit([0, 1, 2]).w)
    exact = face._fit_scale(found.integers)
    assert exact.objective * (1 - 1e-9) <= found.objective <= exact.objective * 1.001
    digits = len(f"{abs(found.threshold):.12g}".replace(".", "").strip("0"))
    short = float(f"{-exact.bias / exact.scale:.{digits}g}")
    assert found.threshold == pytest.approx(short, rel=1e-12)


def test_numbers_to_begin_with_are_never_made_worse(data):
    X, y, c, _ = data
    face = IntegerFace(X, y, c, 3)
    start = np.array([3, -2, 1])
    alone = face._fit_scale(start).objective
    assert face.round(np.zeros(4), start).objective <= alone * 1.001


def test_nothing_to_tell_apart_leaves_a_bias():
    X, y = np.zeros((6, 2)), np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
    found = IntegerFace(X, y, np.ones(6), 3).round(np.zeros(3))
    assert not found.integers.any()
    assert found.w == pytest.approx([0.0, 0.0, 1.0], abs=1e-3)


def test_a_certificate_counts_what_the_rounding_of_each_weight_can_change(monkeypatch):
    """With a unit of a millionth it can be seen: squares and losses of faces that are off by two of them."""
    rng = np.random.default_rng(0)
    X, y, C = rng.normal(size=(9, 2)), np.resize([1.0, -1.0, -1.0], 9), rng.uniform(0.5, 2.0, 9)
    p, scale, theta = np.array([[3, -2], [0, 5]]), np.array([0.2, 0.1]), np.array([0.5, -1.0])
    given = {"integers": p, "scales": scale, "thresholds": theta, "largest": 5, "alpha": np.zeros((9, 2))}
    exact = certify_cpm_integer(X, y, C, **given)
    monkeypatch.setattr("polyopt.cpm.certificate_restricted.UNIT", 1e-6)
    found = certify_cpm_integer(X, y, C, **given)
    W = scale[:, None] * np.column_stack([p, -theta])
    s = np.column_stack([X, np.ones(9)]) @ W.T
    best = s.argmax(axis=1)
    paid = C @ np.where(y > 0, np.maximum(0, 1 - s.max(axis=1)), np.maximum(0, 1 + s).sum(axis=1))
    assert exact.primal_value == pytest.approx((W**2).sum() + paid, rel=1e-12)
    sizes = np.abs(np.column_stack([X, np.ones(9)])) @ np.abs(W).T
    reach = C @ np.where(y > 0, sizes[np.arange(9), best], sizes.sum(axis=1))
    moved = 2e-6 * (2.0 * np.abs(W).sum() * np.abs(W).max() + reach)
    assert found.primal_value - exact.primal_value == pytest.approx(moved, rel=1e-6)
    # What is no whole number, or beyond the largest, or has no positive scale, is told.
    for wrong, off in (({"integers": p + 0.25}, 0.25), ({"integers": 2 * p}, 5.0), ({"scales": -scale}, 0.2)):
        told = {r.row: r for r in certify_cpm_integer(X, y, C, **given | wrong).residuals}["integers"]
        assert told.value == pytest.approx(off)
        assert certify_cpm_integer(X, y, C, **given | wrong).claim is Claim.NONE


@pytest.mark.parametrize("max_features", [None, 2])
def test_integers_with_signs(max_features):
    """The search finds the best of all allowed integers of one face, and the certificate bounds them."""
    rng = np.random.default_rng(1)
    X, signs = rng.normal(size=(50, 4)), np.array([1, -1, 0, 1])
    y = np.where(X @ [1.0, 0.8, -0.5, -1.0] + 0.5 * rng.normal(size=50) > 0, 1.0, -1.0)
    penalty = FacePenalty.of(4, signs=signs)
    chosen = Settings(1, "exact", integers=2, max_features=max_features, penalty=penalty)
    found = solve_cpm(X, y, np.ones(50), chosen, 0)
    assert (signs * found["integers"] >= 0).all()
    face = IntegerFace(X, y, np.ones(50), 2, max_features, signs)
    allowed = [
        p
        for p in map(np.array, product(range(-2, 3), repeat=4))
        if (signs * p >= 0).all() and (max_features is None or (p != 0).sum() <= max_features)
    ]
    least = min(face._fit_scale(p).objective for p in allowed)
    assert least <= found.objective <= 1.002 * least
    given = {
        "integers": found["integers"], "scales": found["scales"], "thresholds": found["thresholds"],
        "largest": 2, "alpha": found.duals["margin"], "max_features": max_features, "penalty": penalty,
        "trees": [found.duals["tree_0"]] if max_features else None,
    }  # fmt: skip
    proof = certify_cpm_integer(X, y, 1.0, **given)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.primal_value == pytest.approx(found.objective, rel=1e-9)
    assert proof.dual_value == pytest.approx(found.bound, rel=1e-5)
    free = certify_cpm_integer(X, y, 1.0, **given | {"penalty": None, "trees": None})
    assert free.dual_value <= proof.dual_value * (1 + 1e-9)
    wrong = certify_cpm_integer(X, y, 1.0, **given | {"integers": -found["integers"]})
    assert wrong.claim is Claim.NONE
    with pytest.raises(ValueError, match="no l1 or group penalty"):
        certify_cpm_integer(X, y, 1.0, **given | {"penalty": FacePenalty.of(4, l1=1.0)})
