"""A face of whole numbers: its search against every choice of numbers, and what is printed of it."""

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


def along(X, y, c, p):
    """Scale, bias and cost of the best face along integers p, which is the face of the feature p·x."""
    size = max(float(np.linalg.norm(p)), 1.0)
    found = SubsetFace((X @ p / size)[:, None], y, c, 1).fit([0] if np.any(p) else [])
    return found.w[0] / size, found.w[1], found.objective


@pytest.mark.parametrize(("M", "s"), [(1, None), (2, None), (2, 1)])
def test_search_finds_the_best_integers(data, M, s):
    """The rounded face costs as little as the best of all integers, up to the rounding of its threshold."""
    X, y, c, w = data
    found = IntegerFace(X, y, c, M, s).round(w)
    assert np.abs(found.integers).max() <= M
    allowed = (
        p for p in product(range(-M, M + 1), repeat=3) if any(p) and (s is None or np.count_nonzero(p) <= s)
    )
    least = min(along(X, y, c, np.array(p))[2] for p in allowed)
    assert least * (1 - 1e-9) <= found.objective <= least * 1.0011
    assert cost(X, y, c, found.w) == pytest.approx(found.objective, rel=1e-9)


def test_weights_are_integers_times_scale(data):
    """The integers are coprime, and no digit is lost in their products with the scale."""
    X, y, c, w = data
    found = IntegerFace(X, y, c, 6).round(w)
    assert len(f"{abs(found.threshold):g}".replace(".", "").strip("0")) <= 4
    assert np.gcd.reduce(found.integers) == 1
    assert ((found.w[:-1] / found.scale) == found.integers).all()
    assert (found.scale * found.integers * 2.0**10 == found.integers * (found.scale * 2.0**10)).all()


@pytest.mark.parametrize("s", [None, 2, 1])
@pytest.mark.parametrize("seed", range(2))
def test_one_or_two_steps_gain_nothing(seed, s):
    """At the end, no step of one or two integers, and no integer set to 0, lowers the cost."""
    X, y = two_blobs(n=40, m=5, seed=seed)
    c, most = np.full(40, 0.5), 5 if s is None else s
    p = IntegerFace(X, y, c, 4, s).round(SubsetFace(X, y, c, 5).fit(np.arange(5)).w).integers
    assert p.any()
    assert np.abs(p).max() <= 4
    assert np.count_nonzero(p) <= most
    near = [np.where(np.arange(5) == j, 0, p) for j in np.flatnonzero(p)]
    for (j, k), (a, b) in product(combinations(range(5), 2), product((-1, 0, 1), repeat=2)):
        other = p.copy()
        other[[j, k]] += [a, b]
        if np.abs(other).max() <= 4 and np.count_nonzero(other) <= most:
            near.append(other)
    least = along(X, y, c, p)[2]
    assert min(along(X, y, c, np.array(q))[2] for q in {tuple(each) for each in near}) >= least * (1 - 1e-8)


def test_opposite_integers_are_turned(data):
    """Integers opposite to the classes get their signs changed, and a positive scale."""
    X, y, c, w = data
    wrong = -np.sign(w[:1]).astype(np.int64)
    found = IntegerFace(X[:, :1], y, c, 1).round(np.zeros(2), wrong)
    assert found.integers.tolist() == (-wrong).tolist()
    assert found.scale > 0.0


@pytest.mark.parametrize("seed", range(4))
def test_threshold_costs_a_thousandth_at_most(seed):
    """The threshold is the exact one to so many digits that a thousandth of the cost is lost."""
    X, y = two_blobs(n=40, m=3, seed=seed)
    c = np.full(40, 0.5)
    found = IntegerFace(X, y, c, 4).round(SubsetFace(X, y, c, 3).fit([0, 1, 2]).w)
    scale, bias, least = along(X, y, c, found.integers)
    assert least * (1 - 1e-9) <= found.objective <= least * 1.001
    digits = len(f"{abs(found.threshold):.12g}".replace(".", "").strip("0"))
    assert found.threshold == pytest.approx(float(f"{-bias / scale:.{digits}g}"), rel=1e-12)


def test_start_is_never_made_worse(data):
    """The search from given integers ends at no higher cost than theirs."""
    X, y, c, _ = data
    start = np.array([3, -2, 1])
    assert IntegerFace(X, y, c, 3).round(np.zeros(4), start).objective <= along(X, y, c, start)[2] * 1.001


def test_equal_samples_leave_a_bias():
    """Samples that no feature tells apart have a face with a bias alone."""
    X, y = np.zeros((6, 2)), np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
    found = IntegerFace(X, y, np.ones(6), 3).round(np.zeros(3))
    assert not found.integers.any()
    assert found.w == pytest.approx([0.0, 0.0, 1.0], abs=1e-3)


def test_certificate_counts_rounded_weights(monkeypatch):
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
    lines = [
        along(X, y, np.ones(50), p)
        for p in map(np.array, product(range(-2, 3), repeat=4))
        if (signs * p >= 0).all() and (p != 0).sum() <= (max_features or 4)
    ]
    least = min(cost for scale, _, cost in lines if scale >= 0.0)
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
