"""The bound by the spread of the faces: the theorem by every assignment, its convex program, its search."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.language.clock import Clock
from polyopt.cpm.global_search.face import Best
from polyopt.cpm.global_search.search import Options, merge, solve_cpm_global
from polyopt.cpm.global_search.spread import (
    FaceSamples,
    Multipliers,
    SpreadSearch,
    face_bound,
    feasible,
    interior,
    raise_copy,
    raise_multipliers,
)


def a_face(seed, n=6, p=5):
    """Samples of a face, and multipliers of which nothing is right: too large, and lengths too small."""
    rng = np.random.default_rng(seed)
    d = (1, 2, 3, 4, 9, 14)[seed % 6]  # fewer than either, and more than both together
    A, P = rng.normal(size=(n, d)), rng.normal(size=(p, d))
    costs = rng.choice([0.5, 1.0, 30.0], n + p)
    ground = FaceSamples(A, (A * A).sum(axis=1), costs[:n], P, costs[n:], rng.uniform(0.05, 0.95, p))
    size = rng.choice([0.1, 1.0, 10.0])
    delta = size * rng.normal(size=(p, n)) * rng.integers(0, 2, (p, n))
    own = size * rng.uniform(0, 1, p) * costs[n:]
    lengths = rng.choice([1e-3, 1.0, 1e3], p)
    return ground, Multipliers(rng.uniform(-0.1, 1.1, n) * costs[:n], delta, own, np.zeros((p, d)), lengths)


def proven_of(ground, spread):
    """What multipliers prove of a face, and the multipliers held to their boxes."""
    kept = feasible(ground, spread)
    return face_bound(ground, kept), kept


@given(st.integers(0, 10**6))
def test_multipliers_bound_every_subset(seed):
    """For any positives on a face its multipliers are feasible, and worth the proven bound."""
    ground, given_ = a_face(seed)
    proven, kept = proven_of(ground, given_)
    assert ((kept.beta >= 0) & (kept.beta <= ground.B)).all()
    for on in product([False, True], repeat=len(kept.beta)):
        some = np.array(on)
        a = kept.a + kept.delta[some].sum(axis=0)
        assert (a >= -1e-12 * ground.C).all()
        assert (a <= ground.C * (1 + 1e-12)).all()
        twice_w = a @ ground.A + kept.beta[some] @ ground.P[some]
        value = a.sum() + kept.beta[some].sum() - 0.25 * twice_w @ twice_w
        bound = proven.constant + proven.of_shares.sum() + proven.if_assigned[some].sum()
        assert bound - proven.error <= value + 1e-12 * abs(a).sum()
    # The lengths do: no less than a hair shorter ones would.
    matrix = (kept.e / kept.length[:, None]).T @ kept.e
    assert 1 - 1e-8 <= np.linalg.eigvalsh(matrix)[-1] <= 1 or not kept.e.any()


def test_wide_samples_take_equal_steps():
    """With more features than samples, a step in a copy is that in all coordinates."""
    ground, given_ = a_face(5)
    assert ground.A.shape == (6, 14)
    inside = interior(ground, given_, 1e-3 * ground.C)
    direct = Multipliers(*(part.copy() for part in inside))
    raise_multipliers(ground, direct, 0.1, 4)
    for part, same in zip(raise_copy(ground, inside, 0.1, 4), direct, strict=True):
        assert part == pytest.approx(same, rel=1e-6, abs=1e-9)


def overlapping(seed, n=14, d=3):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), np.where(np.arange(n) < n // 2, 1.0, -1.0)
    return X, y, merge(X, y, np.ones(n), rng)[0]


def search_from(data, K, cost, W=None):
    faces = np.zeros((K, data.A.shape[1])) if W is None else W.copy()
    return SpreadSearch(data, Best(faces, np.array([cost, np.inf, 0.0])), 1e-6, Clock())


@pytest.mark.parametrize("K", [2, 3])
def test_root_reaches_its_convex_program(K):
    """The bound of the root comes within 3 % of its semidefinite program, and not above it."""
    X, y, data = overlapping(K)
    P, N = np.c_[X[y > 0], np.ones(7)], np.c_[X[y < 0], np.ones(7)]
    own, F, G = (
        cp.Variable(7, nonneg=True),
        cp.Variable((7, 7), nonneg=True),
        cp.Variable((7, 7), nonneg=True),
    )
    lengths = cp.Variable(7)
    E = cp.multiply(own[:, None] @ np.ones((1, 4)), P) - (F - G) @ N
    mean = -N.T @ cp.sum(G, axis=0) + cp.sum(E, axis=0) / K
    worth = cp.sum(own) + cp.sum(F) + (K - 1) * cp.sum(G) - K / 4 * cp.sum_squares(mean)
    program = cp.Problem(
        cp.Maximize(worth - (1 - 1 / K) / 4 * cp.sum(lengths)),
        [
            own <= 1,
            cp.sum(cp.maximum(F, G), axis=0) <= 1,
            cp.bmat([[cp.diag(lengths), E], [E.T, np.eye(4)]]) >> 0,
        ],
    )
    known = program.solve(solver="CLARABEL")
    found = solve_cpm_global(X, y, 1.0, K)
    search = search_from(data, K, found.objective, found["W"])
    search.step()
    assert 0.97 * known <= search.bound <= known * (1 + 1e-6)
    assert known <= found.objective * (1 + 1e-6)


@settings(max_examples=6)
@given(st.integers(0, 10**6))
def test_spread_is_below_the_optimum(seed):
    """Step by step the bound rises and stays below the optimum, which the search by itself finds too."""
    rng = np.random.default_rng(seed)
    n, d, K = 6 + seed % 4, 1 + seed % 4, 2 + seed % 3
    X = (
        rng.integers(-1, 2, (n, d)).astype(float)
        if seed % 3
        else 10.0 ** rng.integers(-2, 3) * rng.normal(size=(n, d))
    )
    y, C = rng.choice([-1.0, 1.0], n), rng.choice([0.0, 0.5, 1.0, 30.0], n)
    y[:2], C[:2] = (1.0, -1.0), 1.0
    data, _ = merge(X, y, C, rng)
    known = solve_cpm_global(X, y, C, K, tol=1e-8)
    search = search_from(data, K, K * C.sum())
    while not search.is_done and search.nodes < 40:
        before, explored = search.bound, search.nodes
        search.step()
        assert search.nodes <= explored + 1
        assert before <= search.bound <= known.objective * (1 + 1e-9)
        assert search.best.limits[0] >= known.bound * (1 - 1e-12)
    assert not search.is_done or search.best.limits[0] <= known.objective * (1 + 2e-6)


def test_coordinate_steps_raise_the_barrier():
    """No step lowers the dual with its barrier, and no change of one multiplier raises it at the end."""
    ground, _ = a_face(7)
    start = Multipliers(
        0.5 * ground.C, np.zeros((5, 6)), 0.1 * ground.B, 0.1 * ground.B[:, None] * ground.P, np.full(5, 1e4)
    )
    mu = 1e-3

    def value(at):
        up = ground.C - at.a - np.maximum(at.delta, 0).sum(axis=0)
        down = at.a - np.maximum(-at.delta, 0).sum(axis=0)
        matrix = np.eye(ground.A.shape[1]) - (at.e / at.length[:, None]).T @ at.e
        v, share = at.a @ ground.A + ground.shares @ at.e, ground.shares
        worth = at.a.sum() + share @ (at.beta + at.delta.sum(axis=1)) - 0.25 * v @ v
        barrier = np.log(up).sum() + np.log(down).sum() + np.log(np.linalg.eigvalsh(matrix)).sum()
        return worth - 0.25 * (share * (1 - share)) @ at.length + mu * barrier

    values = [value(start)]
    for _ in range(12):
        raise_multipliers(ground, start, mu, 1)
        values.append(value(start))
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0]
    raise_multipliers(ground, start, mu, 1000)
    best = value(start)
    for name in ("a", "beta", "delta", "length"):
        array = getattr(start, name)
        for at in np.ndindex(array.shape):
            for share in (-1e-3, 1e-3):
                kept = array[at]
                array[at] = kept + share * max(abs(kept), 1e-2)
                if name == "beta" and not 0.0 <= array[at] <= ground.B[at]:
                    array[at] = kept
                    continue
                moved = start._replace(e=start.beta[:, None] * ground.P + start.delta @ ground.A)
                with np.errstate(invalid="ignore"):  # out of a box, or of the matrix's room
                    near = value(moved)
                assert not near > best + 1e-6 * abs(best), (name, at)
                array[at] = kept
    np.testing.assert_allclose(start.e, start.beta[:, None] * ground.P + start.delta @ ground.A, atol=1e-9)


def test_spread_proves_beside_the_tree():
    """With a turn for each node of the tree, the spread ends the search at the same optimum."""
    X, y, _ = overlapping(3, n=30, d=6)
    known = solve_cpm_global(X, y, 1.0, 2)
    found = solve_cpm_global(X, y, 1.0, 2, options=Options(turn=0))  # a turn for each node of the tree
    assert found.history[-1]["open"] > 0  # of the tree
    np.testing.assert_allclose([found.objective, found.bound], known.objective, rtol=2e-6)


def test_many_samples_are_bounded_by_spread():
    """Beyond the tree's sizes, the root of the spread bounds the optimum, and further nodes no less."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(520, 5))
    y = np.where(np.arange(520) < 40, 1.0, -1.0)
    X[:40, :2] += 2.5 * rng.choice([-1.0, 1.0], (40, 2))
    found = solve_cpm_global(X, y, 0.1, 2)  # the root alone, as nothing limits the search
    assert found.iterations == 1
    assert found.solver == "branch and bound, spread"
    assert 0.5 * found.objective < found.bound <= found.objective
    more = solve_cpm_global(X, y, 0.1, 2, max_nodes=4)
    assert more.bound >= found.bound


@pytest.mark.parametrize("share", [0.0, 1e-3])
def test_face_bound_is_the_theorem(monkeypatch, share):
    """With a rounding of a thousandth per operation, the bound is the theorem's less its rounding."""
    monkeypatch.setattr("polyopt.cpm.global_search.spread.gamma", lambda k: share * k)
    ground, given_ = a_face(11)
    (n, d), p = ground.A.shape, len(ground.shares)
    small = Multipliers(0.5 * ground.C, 0.01 * given_.delta, 0.5 * ground.B, given_.e, given_.length)
    limits = (ground.C - small.a, small.a)
    delta = small.delta * min(
        1.0, *(0.9 * (limit / np.abs(small.delta).sum(axis=0)).min() for limit in limits)
    )
    proven, kept = proven_of(ground, small._replace(delta=delta))
    a, own, t = small.a, small.beta, ground.shares
    assert (kept.a.tolist(), kept.beta.tolist()) == (a.tolist(), own.tolist())  # within their boxes, as given
    assert kept.delta.tolist() == delta.tolist()
    e = own[:, None] * ground.P + delta @ ground.A
    assert kept.e == pytest.approx(e)
    most = np.linalg.eigvalsh((e / small.length[:, None]).T @ e)[-1]
    added = share * (max(p, d) + 8) * (np.square(e).sum(axis=1) / small.length).sum()
    assert kept.length == pytest.approx(small.length * (most + added), rel=2e-9)
    v = a @ ground.A + t @ e
    assert proven.constant == pytest.approx(a.sum() - v @ v / 4)
    gained = own + delta.sum(axis=1) - e @ v / 2 - (1 - 2 * t) * kept.length / 4
    assert proven.if_assigned == pytest.approx(gained)
    assert proven.of_shares == pytest.approx(t * (e @ v) / 2 - t**2 * kept.length / 4)
    lengths, columns = np.linalg.norm(e, axis=1), np.linalg.norm(ground.A, axis=1)
    reach = own * np.linalg.norm(ground.P, axis=1) + np.abs(delta) @ columns
    parts = a @ columns + reach.sum() + np.linalg.norm(a @ ground.A) + lengths.sum()
    long, off = np.linalg.norm(v) + lengths.sum() + a @ columns, share * (n + p + 8) * parts
    size = a.sum() + own.sum() + np.abs(delta).sum() + long**2 + kept.length.sum()
    wanted = off * (2 * long + off) / 4 + 2 * share * (n + p + d + 20) * size
    assert proven.error == pytest.approx(wanted, rel=1e-8)


def test_multipliers_are_shrunk_into_boxes():
    """Multipliers beyond their caps are shrunk into them, and by hardly more."""
    ground, given_ = a_face(5)
    large = given_._replace(a=0.25 * ground.C, delta=10.0 * (1.0 + np.abs(given_.delta)) * ground.C)
    _, kept = proven_of(ground, large._replace(beta=3.0 * ground.B))
    assert kept.beta.tolist() == ground.B.tolist()
    assert kept.delta.sum(axis=0) == pytest.approx(0.75 * ground.C, rel=2e-8)
    assert (kept.delta.sum(axis=0) < 0.75 * ground.C).all()
    _, down = proven_of(ground, large._replace(delta=-large.delta, beta=-ground.B))
    assert not down.beta.any()
    assert down.delta.sum(axis=0) == pytest.approx(-0.25 * ground.C, rel=2e-8)
