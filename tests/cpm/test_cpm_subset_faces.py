"""A face of few features: Newton's path to given ones, and bounds on all that may still be chosen."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import cpm, cpm_faces
from formulations.language.toy_data import two_blobs
from polyopt.cpm import few_feature_face as subset
from polyopt.cpm.few_feature_face import SubsetFace, optimal_z
from polyopt.cpm.smooth_hinge import begin, fit_margin_multipliers, multipliers_of, newton


def signed(X, y):
    return np.asfortranarray(y[:, None] * cpm.lift(X))


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=60, m=6, seed=1)
    return X, y, np.where(y > 0, 0.6, 0.4)


def test_gap_on_the_smoothing_path(data):
    """For hinges smoothed over ε the gap is ε Σ c a (1 − a), and fitted multipliers lie on the margin."""
    X, y, c = data
    A, d = signed(X, y), np.linspace(0.5, 2.0, 7)
    point = begin(len(y), 7)
    for eps in (2.0, 0.2, 0.02):
        point = newton(A, c, d, point, eps, tol=1e-14, keep_zone=eps < 2.0)
        alpha = multipliers_of(point, c)
        share = alpha / c
        v = A.T @ alpha
        P = d @ point.w**2 + c @ np.maximum(point.u, 0)
        D = alpha.sum() - (v**2 / d).sum() / 4
        assert point.w == pytest.approx(0.5 * v / d, abs=1e-8)
        assert P - D == pytest.approx(eps * c @ (share * (1 - share)), abs=1e-8)
    alpha = fit_margin_multipliers(A, c, d, point)
    assert ((alpha >= 0) & (alpha <= c)).all()
    free = (alpha > 0) & (alpha < c)
    assert free.any()
    assert (A @ (0.5 * (A.T @ alpha) / d))[free] == pytest.approx(1.0, abs=1e-9)  # on the margin, not near it


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_given_features_have_explicit_optimum(data, C):
    """A face of given features is that of the explicit program, with a bound to eight digits."""
    X, y, c = data
    chosen = np.array([0, 2, 5])
    found = SubsetFace(X, y, C * c, 3).fit(chosen)
    program = cpm.face(X[:, chosen], y, C * c).solve()
    assert found.objective == pytest.approx(program.objective, rel=1e-7)
    assert found.w[[0, 2, 5, 6]] == pytest.approx(program["w"], abs=1e-5 * np.abs(program["w"]).max())
    assert not found.w[[1, 3, 4]].any()
    assert found.bound <= found.objective <= found.bound * (1 + 1e-8)


def test_samples_without_cost_are_omitted(data):
    """Samples of cost 0 are omitted, and a start changes no optimum."""
    X, y, c = data
    here = np.where(np.arange(len(y)) % 3 == 0, 0.0, c)
    face = SubsetFace(X, y, here, 2)
    assert list(face.rows) == list(np.flatnonzero(here))
    cold, warm = face.fit([1, 4]), face.fit([1, 4], w=np.ones(7))
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)
    assert cold.objective == pytest.approx(cpm.face(X[:, [1, 4]], y, here).solve().objective, rel=1e-7)


@pytest.mark.parametrize("node", [((), ()), ((1,), (0,)), ((2, 3), ()), ((), (0, 1, 2, 3))])
def test_node_bound_is_near_its_relaxation(data, node):
    """The bound of a node is below all of its faces, and near the optimum of its relaxation."""
    X, y, c = data
    s, face = 2, SubsetFace(X, y, c, 2)
    inside, out = (np.isin(np.arange(6), which) for which in node)
    _, point = face.relax(inside, out, np.zeros(7), np.inf, 1e-5, cold=True)
    choices = [
        set(node[0]) | set(more) for more in combinations(np.flatnonzero(~(inside | out)), s - len(node[0]))
    ]
    least = min(face.fit(sorted(chosen)).objective for chosen in choices)
    assert point.bound <= least
    program = cpm_faces.subset_relaxation(X[:, ~out], y, s, c, inside[~out].astype(float)).solve()
    assert point.bound == pytest.approx(program.objective, rel=2e-3)
    assert point.bound <= program.objective * (1 + 1e-9)
    # The point that is kept as a proof has the bound; its α are known to the rounding of 1 − A w over ε.
    outputs = (y * (cpm.lift(X) @ point.w))[face.rows]
    alpha = face.c * np.clip((1.0 - outputs) / point.eps, 0.0, 1.0)
    near = max(1e-9, 1e-15 / point.eps)
    assert face.bound(alpha, face.signed_sum(alpha), inside, out) == pytest.approx(point.bound, rel=near)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_any_multipliers_bound_every_face(seed, s):
    """Any multipliers within their caps bound the cost of any face of a node."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(8, 4)).astype(float)  # equal samples, equal features
    y, c = np.where(np.arange(8) < 4, 1.0, -1.0), rng.uniform(0, 2, 8).round(1)
    c[0] = c[7] = 1.0
    face, kind = SubsetFace(X, y, c, s), rng.integers(0, 3, 4)
    inside, out = kind == 1, kind == 2
    if inside.sum() > s:
        inside[:] = False
    alpha = face.c * rng.choice([0.0, 0.3, 1.0], len(face.c))
    bound = face.bound(alpha, face.signed_sum(alpha), inside, out)
    w = np.where(inside | (~out & (rng.random(4) < 0.5)), rng.normal(size=4), 0.0)
    free = np.flatnonzero((w != 0) & ~inside)
    w[free[max(s - int(inside.sum()), 0) :]] = 0.0
    w = np.append(w, rng.normal())
    cost = w @ w + c @ np.maximum(0, 1 - y * (cpm.lift(X) @ w))
    assert bound <= cost


def test_useful_features_join():
    """Of 400 features the two useful ones join, dense or sparse, and a looser bound is nearly as tight."""
    rng = np.random.default_rng(0)
    n, m, s = 80, 400, 3
    X = rng.normal(size=(n, m))
    y = np.sign(X[:, 390] + 0.5 * X[:, 7] + 0.3 * rng.normal(size=n))
    c, none = np.full(n, 0.1), np.zeros(m, dtype=bool)
    face, thin = SubsetFace(X, y, c, s), SubsetFace(sp.csr_array(X), y, c, s)
    w, point = face.relax(none, none, np.zeros(m + 1), np.inf, 1e-3, cold=True)
    assert {7, 390} <= set(np.argsort(-np.abs(w[:-1]))[:s])
    tight = face.relax(none, none, w, np.inf, 1e-6)[1].bound
    assert 0.999 * tight <= point.bound <= face.fit([7, 390]).objective
    sparse = thin.relax(none, none, np.zeros(m + 1), np.inf, 1e-3, cold=True)[1].bound
    assert sparse == pytest.approx(point.bound, rel=1e-6)
    assert thin.fit([7, 390]).objective == pytest.approx(face.fit([7, 390]).objective, rel=1e-9)


def test_overflow_bounds_nothing_wrong():
    """If squares overflow, the bound is not above the objective."""
    X, y, c = np.array([[1e200], [-1e200]]), np.array([1.0, -1.0]), np.ones(2)
    found = SubsetFace(X, y, c, 1).fit([0])
    assert not found.bound > found.objective


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("share", [0.0, 1e-3])
def test_node_bound_subtracts_its_rounding(monkeypatch, form, share):
    """With a rounding of a thousandth per operation, the bound is the formula's less its rounding."""
    monkeypatch.setattr(subset, "gamma", lambda k: share * k)
    X, y = two_blobs(n=12, m=5, seed=3)
    c, s = np.where(np.arange(12) < 9, 0.7, 0.0), 3
    face, rng = SubsetFace(form(X), y, c, s), np.random.default_rng(0)
    assert face.rows.tolist() == list(range(9))
    alpha, every = rng.uniform(0.0, 0.1, 9), np.arange(5)
    v = face.signed_sum(alpha)
    assert v == pytest.approx(cpm.lift(X[:9]).T @ (y[:9] * alpha))
    blur = 1.01 * share * (9 + 4) * (np.abs(cpm.lift(X[:9])).T @ c[:9])
    for inside, out in (
        ([], []),
        ([1], [3]),
        ([0, 4], [1]),
        ([0, 1, 2], []),
        ([0, 1, 2, 3], []),
        ([], [0, 1, 2]),
    ):
        sizes = np.abs(v) + blur
        free = [j for j in every if j not in inside and j not in out]
        chosen = sorted((sizes[j] for j in free), reverse=True)[: max(s - len(inside), 0)]
        squares = sum(size**2 for size in [*chosen, *sizes[inside], sizes[5]]) / 4
        count = len(chosen) + len(inside) + 1
        total = alpha.sum() * (1.0 - 2.0 * share * (9 + 2))
        wanted = total - squares * (1.0 + 2.0 * share * (count + 4))
        found = face.bound(alpha, v, np.isin(every, inside), np.isin(every, out))
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert face.bound(np.full(9, np.inf), v, every < 0, every < 0) == -np.inf


@pytest.mark.parametrize("seed", range(3))
def test_shares_minimise_their_sum(seed):
    """Shares in [0, 1] of a given total minimise Σ size²/z, which no other shares undercut."""
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(0.0, 1.0, 6) ** 3
    sizes[0] = 5.0
    for total in (1, 2, 4, 5):
        z = optimal_z(sizes, total)
        assert z.sum() == pytest.approx(total)
        least = (sizes**2 / z).sum()
        for _ in range(30):
            other = np.clip(z + 0.1 * rng.normal(size=6), 1e-6, 1.0)
            other *= total / other.sum()
            if other.max() <= 1.0:
                assert (sizes**2 / other).sum() >= least - 1e-12
    assert optimal_z(sizes, 0).tolist() == [0.0] * 6
    assert optimal_z(np.zeros(3), 2).tolist() == [0.0] * 3
    assert optimal_z(np.array([2.0, 2.0, 0.0]), 2).tolist() == [1.0, 1.0, 0.0]
