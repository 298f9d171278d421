"""Pair steps, working sets and the active-set method of the decomposition, each against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations import rmm
from formulations.families import hinge_families
from formulations.language.clock import Clock
from formulations.language.toy_data import two_blobs
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.margin.decomposition import Options, solve_decomposition
from polyopt.margin.decomposition.driver import CachedRows, select_working_set, solve_pairs
from polyopt.margin.decomposition.newton import ActiveSet
from polyopt.margin.decomposition.state import Dual, derivatives, recapped

RBF = Kernel("rbf", gamma=0.4)


def whole(K):
    """The rows of a matrix, all of whose samples are in the working set."""
    return CachedRows(K, np.arange(len(K)), np.arange(len(K)))


class Ticking(Clock):
    """A clock whose limit is reached after so many checks."""

    def __init__(self, checks):
        super().__init__(None)
        self.checks = checks

    @property
    def is_over(self):
        self.checks -= 1
        return self.checks < 0


# -- the dual ----------------------------------------------------------------------------------


@given(st.floats(-9, 9), st.sampled_from([-1.0, 1.0]), st.floats(0.1, 5), st.floats(1, 4))
def test_split_of_beta_is_the_best(beta, y, C, B):
    """Of all alpha, lam and lam* with this beta, those of the split have the largest dual value."""
    dual = Dual(hinge_families(np.array([y]), np.array([C]), B))
    alpha, lam, lam_star = (part[0] for part in dual.families.split(np.array([beta])))
    vertices = [a for a in (0.0, C, y * beta) if 0.0 <= a <= C]
    best = max(a - B * abs(beta - y * a) for a in vertices)
    assert alpha * y - lam + lam_star == pytest.approx(beta, abs=1e-12)
    assert min(alpha, lam, lam_star) >= 0.0
    assert alpha <= C
    assert alpha - B * (lam + lam_star) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("B", [np.inf, 1.3])
def test_joined_multipliers_are_feasible(B, rng):
    """Multipliers that are out of balance and beyond their caps are joined to a feasible beta."""
    y, C = np.where(rng.random(30) < 0.5, 1.0, -1.0), rng.uniform(0.5, 2.0, 30)
    dual = Dual(hinge_families(y, C, B))
    names = ("margin", "bound_above", "bound_below")
    beta = dual.join(dict(zip(names, 3.0 * rng.random((3, 30)), strict=True)))
    assert abs(beta.sum()) < 1e-12
    if np.isinf(B):
        assert (beta >= dual.phi.ends[0]).all()
        assert (beta <= dual.phi.ends[1]).all()


def test_multipliers_at_caps_follow_them():
    """With new caps, multipliers at their caps move with them, and others are clipped."""
    y = np.array([1.0, -1.0, 1.0, 1.0])
    old, new = hinge_families(y, 2.0, 1.5), hinge_families(y, np.array([4.0, 4.0, 1.0, 0.5]), 1.5)
    found = recapped({"margin": np.array([2.0, 1.5, 0.25, 1.5]), "bound_above": np.full(4, 7.0)}, old, new)
    assert found["margin"].tolist() == [4.0, 1.5, 0.25, 0.5]
    assert found["bound_above"].tolist() == [7.0] * 4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_spoilt_output_is_never_optimal(value):
    """A point with an output that is not finite is within no tolerance."""
    g, beta, y = np.zeros(5), np.array([0.5, 0.0, 1.0, -1.0, -0.5]), np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    dual = Dual(hinge_families(y, np.ones(5)))
    rise, fall, *ends = derivatives(g, beta, dual.phi)
    assert dual.extremes(beta, g) == tuple(ends) == (rise.max(), fall.min())
    g[2] = value
    *_, m, M = derivatives(g, beta, dual.phi)
    for high, low in ((m, M), dual.extremes(beta, g)):
        assert not high - low <= 1e300


# -- pair steps and working sets ---------------------------------------------------------------


@pytest.mark.parametrize("B", [np.inf, 1.3])
@pytest.mark.parametrize("seed", range(3))
def test_pair_step_is_second_order_optimal(seed, B):
    """i violates most, j gains most with i, and the step ends at the optimum or the first kink."""
    rng = np.random.default_rng(seed)
    n = 11
    A = rng.normal(size=(n, n))
    K, y = A @ A.T / n, np.where(np.arange(n) % 2, 1.0, -1.0)
    dual = Dual(hinge_families(y, rng.uniform(0.2, 1.0, n), B))
    beta = dual.join({"margin": rng.uniform(0, 1, n) * rng.integers(0, 2, n)})
    for _ in range(6):
        g = K @ beta
        up, down, _, _ = derivatives(g, beta, dual.phi)
        i = int(up.argmax())
        bend = K[i, i] + K.diagonal() - 2.0 * K[i]
        bend[i] = np.inf
        drop = np.maximum(up[i] - down, 0.0)
        j = int((drop**2 / bend).argmax())
        ends = dual.phi.ends
        room_i = np.where(ends[:, i] > beta[i], ends[:, i] - beta[i], np.inf).min()
        room_j = np.where(ends[:, j] < beta[j], beta[j] - ends[:, j], np.inf).min()
        length = min(drop[j] / bend[j], room_i, room_j)
        wanted = beta.copy()
        wanted[[i, j]] += [length, -length]
        before = dual.gain(beta) - beta @ g / 2
        assert solve_pairs(whole(K), K.diagonal().copy(), g, beta, dual.phi, 1e-9, n, 1) == (1, 2)
        assert beta == pytest.approx(wanted, abs=1e-12)
        assert g == pytest.approx(K @ beta)
        rise = dual.gain(beta) - beta @ g / 2 - before
        assert rise == pytest.approx(length * drop[j] - length**2 * bend[j] / 2)
        if length == room_i:
            assert beta[i] in ends[:, i]
        if length == room_j:
            assert beta[j] in ends[:, j]


@pytest.mark.parametrize("B", [np.inf, 1.0, 1.3])
def test_pair_steps_solve_a_working_set(B, blobs):
    """Pair steps over all samples reach the optimum of the explicit dual."""
    X, y = blobs
    K, n = RBF(X), len(y)
    dual, beta, g = Dual(hinge_families(y, np.ones(n), B)), np.zeros(n), np.zeros(n)
    solve_pairs(whole(K), K.diagonal().copy(), g, beta, dual.phi, 1e-9, n, 10**7)
    assert g == pytest.approx(K @ beta, abs=1e-10)
    m, M = dual.extremes(beta, K @ beta)
    assert m - M <= 2e-9
    program = rmm.kernel_dual(K, y, 1.0, B if np.isfinite(B) else 1e3)
    assert dual.values(beta, g)["bound"] == pytest.approx(program.solve().objective, rel=1e-7)


def test_violation_by_rounding_moves_no_pair():
    """1 - g[0] exceeds -1 - g[1] by one digit that the sum of all four loses: no pair gains."""
    y, g, beta = np.array([1.0, -1.0]), np.array([0.75 - 2.0**-53, -1.25]), np.zeros(2)
    dual = Dual(hinge_families(y, np.ones(2)))
    m, M = dual.extremes(beta, g)
    assert m > M
    assert (m + 1.0) + g[1] == 0.0
    assert solve_pairs(whole(np.eye(2)), np.ones(2), g, beta, dual.phi, 0.0, 2, 100)[0] == 0
    assert not beta.any()
    assert np.isfinite(g).all()


def test_pair_steps_read_limited_rows(rng):
    """No more kernel rows are read than allowed, and more rows lead to a larger dual value."""
    n = 150
    A = rng.normal(size=(n, n))
    K, y = A @ A.T / n, np.where(np.arange(n) % 2, 1.0, -1.0)
    dual, limits = Dual(hinge_families(y, 1.0)), (2, 10, 64, 90, n)
    counts, values = [], []
    for rows in limits:
        g, beta = np.zeros(n), np.zeros(n)
        taken, count = solve_pairs(whole(K), K.diagonal().copy(), g, beta, dual.phi, 1e-6, rows, 10**6)
        counts.append(count)
        values.append(dual.gain(beta) - beta @ K @ beta / 2)
        assert taken >= count // 2
        assert g == pytest.approx(K @ beta, abs=1e-10)
    assert all(rows - 1 <= count <= rows for count, rows in zip(counts[:4], limits, strict=False))
    assert 90 < counts[-1] <= n
    assert (np.diff(values) > 0).all()
    m, M = dual.extremes(beta, g)
    assert m - M <= 1e-6


def largest(values, allowed, count, floor):
    """The places of the largest values allowed that are above a floor, by sorting."""
    return [p for p in np.argsort(-values) if allowed[p] and values[p] > floor][:count]


@pytest.mark.parametrize("seed", range(4))
def test_working_set_has_worst_violators(seed):
    """A working set is half of the last set, then the largest violations of both kinds."""
    rng = np.random.default_rng(seed)
    n, size = 60, int(rng.integers(4, 30))
    rise = rng.normal(size=n)
    fall = rise + rng.exponential(0.8, n)
    last = rng.permutation(n)[: rng.integers(0, 40)]
    found = select_working_set(rise, fall, last, size).tolist()
    keep = last[-(size // 2) :].tolist()
    allowed = ~np.isin(np.arange(n), keep)
    upward = largest(rise, allowed, (size - len(keep)) // 2, fall.min())
    rest = allowed & ~np.isin(np.arange(n), upward)
    downward = largest(-fall, rest, (size - len(keep)) // 2, -rise.max())
    assert found[: len(keep)] == keep
    assert set(found[len(keep) : len(keep) + len(upward)]) == set(upward)
    assert set(found[len(keep) + len(upward) :]) == set(downward)


# -- the active set ----------------------------------------------------------------------------


@given(
    st.integers(0, 10**6), st.sampled_from([np.inf, 1.0, 1.0001, 1.4]), st.sampled_from([1, 2, 6]),
    st.booleans(), st.sampled_from([1, 3, 10**4]),
)  # fmt: skip
def test_active_set_ends_at_the_optimum(seed, B, rank, is_like, pivots):
    """From any feasible point, also for a singular matrix, in pieces of pivots that never lower the dual."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 40))
    X = rng.normal(size=(n, rank))
    if is_like:
        X = X[rng.integers(0, n, n)]
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    K, C = Kernel("linear" if rank < 6 else "rbf", 0.3)(X), 10.0 ** rng.uniform(-1, 1, n)
    dual = Dual(hinge_families(y, C, B))
    beta = dual.join({"margin": rng.random(n) * C * rng.integers(0, 2, n)})
    g = K @ beta
    machine, last = ActiveSet(K, g, beta, dual.phi), dual.values(beta, g)["bound"]
    for total in range(pivots, 10**4 + pivots, pivots):
        is_done = machine.run(1e-9, total, Clock())
        value = dual.values(beta, K @ beta)["bound"]
        assert value >= last - 1e-9 * (1 + abs(last))
        last = value
        if is_done:
            break
    assert g == pytest.approx(K @ beta, abs=1e-8 * (1 + np.abs(K).max() * np.abs(beta).sum()))
    assert abs(beta.sum()) <= 1e-9 * (1 + np.abs(beta).sum())
    if np.isinf(B):
        assert (beta >= dual.phi.ends[0] - 1e-12).all()
        assert (beta <= dual.phi.ends[1] + 1e-12).all()
    m, M = dual.extremes(beta, K @ beta)
    assert m - M <= 2e-9
    program = rmm.kernel_dual(K, y, C, B if np.isfinite(B) else 1e3)
    assert last == pytest.approx(program.solve().objective, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("ridge", [1e-11, 1e-3])
def test_active_set_is_scale_invariant(ridge, rng):
    """The matrix times 2^40 and costs over it give the same steps to the last digit, at any ridge."""
    X, y = rng.normal(size=(30, 3)), np.where(np.arange(30) % 2, 1.0, -1.0)
    ends = []
    for scale in (1.0, 2.0**40):
        dual, K = Dual(hinge_families(y, 1.0 / scale, 1.5)), scale * (X @ X.T)
        beta, g = np.zeros(30), np.zeros(30)
        machine = ActiveSet(K, g, beta, dual.phi, Options(first_ridge=ridge))
        machine.run(1e-9, 200, Clock())
        ends.append((machine.pivots, (scale * beta).tolist()))
    assert ends[0] == ends[1]


def test_active_set_grows_its_factor():
    """A factor with room for one further column, and one with room for all, lead to the same bound."""
    X, y = two_blobs(n=200, separation=0.3)
    K, dual = RBF(X), Dual(hinge_families(y, np.full(200, 5.0)))
    found = []
    for columns in (1, 200):
        beta, g = np.zeros(200), np.zeros(200)
        assert ActiveSet(K, g, beta, dual.phi, Options(block_columns=columns)).run(1e-9, 10**6, Clock())
        assert g == pytest.approx(K @ beta, abs=1e-9)
        found.append(dual.values(beta, g)["bound"])
    assert found[1] == pytest.approx(found[0], rel=1e-9)


@pytest.mark.parametrize("checks", [0, 1, 5, 40])
def test_stopped_active_set_is_feasible(checks):
    """Wherever the clock stops the active set, scores and balance agree and the dual has not fallen."""
    X, y = two_blobs(n=80, separation=0.4)
    K, dual = RBF(X), Dual(hinge_families(y, np.full(80, 3.0), 1.3))
    beta = dual.join({"margin": np.full(80, 1.0)})
    g = K @ beta
    before = dual.values(beta, g)["bound"]
    every_pivot = Options(work_per_check=0.0)
    ActiveSet(K, g, beta, dual.phi, every_pivot).run(1e-10, 200, Ticking(checks))
    assert g == pytest.approx(K @ beta, abs=1e-9)
    assert abs(beta.sum()) <= 1e-9
    assert dual.values(beta, g)["bound"] >= before


def test_slow_working_sets_end_by_pivots():
    """With one pair step per sample the active set solves the working sets, and the optimum is the same."""
    X, y = two_blobs(n=200, separation=0.3)
    rows = hinge_families(y, np.full(200, 5.0), 1.2)
    plain, pivots = (
        solve_decomposition(SampleGram(X, RBF), rows, tol=1e-6, options=options)
        for options in (Options(), Options(max_pair_steps_per_sample=1, max_working_set=40))
    )
    assert pivots.bound == pytest.approx(plain.bound, rel=1e-8)
