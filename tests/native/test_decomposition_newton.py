"""The steps of Newton's method on a working set, each against what it stands for."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls

from formulations.families import hinge_families
from formulations.language.clock import Clock
from polyopt.margin.decomposition.newton import ActiveSet
from polyopt.margin.decomposition.state import Dual
from polyopt.native.library import kernel

# Parts of newton_pivots, which Python calls here only.
solve_transposed = kernel("factor_solve_transposed", "U: f8 (p, p); n: i8; x: f8 (p)")
direction = kernel(
    "newton_direction",
    "U: f8 (p, p); n: i8; unit: f8; r: f8 (p); ones: f8 (p); u: f8 (p); d: f8 (p)",
    returns="f8",
)
join = kernel(
    "factor_join",
    "K: f8 (q, q); U: f8 (p, p); F: i8 (p); n: i8; i: i8; unit: f8; ridge: f8; ones: f8 (p); room: f8 (p)",
)
drop = kernel("factor_drop", "U: f8 (p, p); F: i8 (p); r: f8 (p); ones: f8 (p); n: i8; place: i8")
step = kernel(
    "newton_step",
    "F: i8 (p); n: i8; r: f8 (p); d: f8 (p); b: f8; ridge: f8; beta: f8 (q); low: f8 (q); high: f8 (q); "
    "total: f8 (q); rise: f8 (e)",
    returns="i8",
)
LONGEST = 1e3  # times Newton's own step
N, UNIT = 7, 2.0


def take_step(*arguments):
    """The place in F that ends the step, and by how much the dual rises."""
    rise = np.empty(1)
    return step(*arguments, rise), rise[0]


def system(rng, ridge, n=4):
    """Free variables F, the factor of their part of K, a residual, and Newton's step for it."""
    A = rng.normal(size=(N, N))
    K, F, U = anywhere(rng, A @ A.T, rng.permutation(N), np.zeros((N, N)))
    ones, room = anywhere(rng, *np.zeros((2, N)))
    for k in range(n):
        join(K, U, F, k, int(F[k]), UNIT, ridge, ones, room)
    r, u, d = anywhere(rng, *rng.normal(size=(3, N)))
    b = direction(U, n, UNIT, r, ones, u, d)
    return SimpleNamespace(K=K, F=F, U=U, ones=ones, r=r, d=d, b=b, n=n, own=K[np.ix_(F[:n], F[:n])])


@drawn_calls(
    "factor_solve_transposed", "newton_direction", "factor_join", n=range(1, N + 1), ridge=[1e-11, 1e-3, 0.1]
)
def test_factor_grows_by_what_joins(rng, n, ridge):
    """U'U = K/unit + 1 + ridge I; the step solves the linear system, with the proximal term, and balances."""
    a = system(rng, ridge, n)
    U = np.triu(a.U[: a.n, : a.n])
    assert U.T @ U == pytest.approx(a.own / UNIT + 1.0 + ridge * np.eye(a.n))
    assert U.T @ a.ones[: a.n] == pytest.approx(np.ones(a.n))
    x = np.concatenate([U.T @ np.arange(1.0, a.n + 1), np.full(N - a.n, 9.0)])
    solve_transposed(a.U, a.n, x)
    assert x.tolist()[a.n :] == [9.0] * (N - a.n)
    assert x[: a.n] == pytest.approx(np.arange(1.0, a.n + 1))
    d = a.d[: a.n]
    assert d.sum() == pytest.approx(0.0, abs=1e-12)
    assert a.own @ d + ridge * UNIT * d + a.b == pytest.approx(a.r[: a.n])


def test_like_variable_joins_with_ridge():
    """Rounding alone must not make the root of a number below zero of it."""
    K, U, F, ones = np.full((N, N), 3.0), np.zeros((N, N)), np.arange(N), np.empty(N)
    K[1, 1] -= 1e-9
    for k in range(2):
        join(K, U, F, k, k, UNIT, 1e-11, ones, np.empty(N))
    assert U[1, 1] == pytest.approx(np.sqrt(1e-11))


def walls(a, width, rng):
    """β and the ends of the pieces that its variables are on, so far away."""
    beta = rng.normal(size=N)
    return beta, beta - width * rng.uniform(0.5, 1.0, N), beta + width * rng.uniform(0.5, 1.0, N)


@drawn_calls("newton_step", width=[1e-3, 0.3, 1e6], ridge=[1e-11, 1e-3, 0.1], n=range(2, N + 1))
def test_step_ends_at_best_or_kink(rng, width, ridge, n):
    """The end is the minimum along the step, or the first kink."""
    a = system(rng, ridge, n)
    beta, low, high = walls(a, width, rng)
    before, r, total, free = beta.copy(), a.r.copy(), np.zeros(N), a.F[: a.n]
    place, rise = take_step(a.F, a.n, r, a.d, a.b, ridge * UNIT, beta, low, high, total)
    move, d = (beta - before)[free], a.d[: a.n]
    assert total == pytest.approx(beta - before)
    assert not np.delete(total, free).any()
    assert (low <= beta).all()
    assert (beta <= high).all()
    # It keeps to the line, and no length is better among those that no kink ends.
    length = np.median(move / d)
    assert move == pytest.approx(length * d)
    room = np.where(d > 0, high[free] - before[free], before[free] - low[free]) / np.abs(d)

    def gain(t):  # of the dual, where the slopes of φ are those of the pieces
        return a.r[: a.n] @ d * t - d @ a.own @ d * t**2 / 2

    best = a.r[: a.n] @ d / (d @ a.own @ d)
    assert length == pytest.approx(min(best, room.min()))
    assert rise == pytest.approx(gain(length))
    assert rise > 0
    if place >= 0:
        assert room.argmin() == place
        i = free[place]
        assert beta[i] == (high[i] if d[place] > 0 else low[i])  # on it, and not beside it by a rounding
    else:
        assert best <= room.min()
    # The residual is taken along, but for what the intercept is to balance.
    offset = r[: a.n] - (a.r[: a.n] - a.own @ move)
    assert offset == pytest.approx(np.full(a.n, offset[0]))


def test_step_without_curvature_ends():
    """At the first kink."""
    F, r, d = np.arange(N), np.zeros(N), np.zeros(N)
    r[:2], d[:2] = [1.0, -1.0], [0.5, -0.5]
    beta, total, ridge = np.zeros(N), np.zeros(N), 2.0  # which makes all of the curvature up
    low, high = np.full(N, -np.inf), np.full(N, np.inf)
    place, rise = take_step(F, 2, r, d, 0.0, ridge, beta, low, high, total)
    assert place == -1
    assert beta[:2].tolist() == [0.5 * LONGEST, -0.5 * LONGEST]
    assert rise == LONGEST
    assert r[:2].tolist() == [1.0, -1.0]
    # And a direction that gains nothing is not taken.
    assert take_step(F, 2, r, -d, 0.0, ridge, beta, low, high, total) == (-1, 0.0)
    assert beta[:2].tolist() == [0.5 * LONGEST, -0.5 * LONGEST]


def test_variable_at_its_kink_ends_step(rng):
    """A step of length 0 gains nothing, and takes that variable out."""
    a = system(rng, 1e-11)
    beta, low, high = walls(a, 1.0, rng)
    i = a.F[2]
    low[i] = high[i] = beta[i]
    before, total = beta.copy(), np.zeros(N)
    assert take_step(a.F, a.n, a.r.copy(), a.d, a.b, 0.0, beta, low, high, total) == (2, 0.0)
    assert np.array_equal(beta, before)


@drawn_calls("factor_drop", n=[1, 2, 3, 6, 17])
def test_variable_leaves_the_factor(rng, n):
    """The factor is that of the others; also one with more room than it needs."""
    A, place = rng.normal(size=(n, n)), int(rng.integers(0, n))
    A = A @ A.T + np.eye(n)
    size = n + int(rng.integers(0, 3))
    U, ones = anywhere(rng, np.zeros((size, size)), np.zeros(size))
    F, r = anywhere(rng, np.arange(size), np.arange(float(size)))
    U[:n, :n] = np.linalg.cholesky(A).T
    ones[:n] = np.linalg.solve(U[:n, :n].T, np.ones(n))
    drop(U, F, r, ones, n, place)
    kept = np.delete(np.arange(n), place)
    assert np.array_equal(F[: n - 1], kept)
    assert np.array_equal(r[: n - 1], kept)
    factor = np.triu(U[: n - 1, : n - 1])
    assert factor.T @ factor == pytest.approx(A[np.ix_(kept, kept)])
    assert factor.T @ ones[: n - 1] == pytest.approx(np.ones(n - 1))


@drawn_calls("newton_pivots", q=[1, 2, 3, 5, 8, 40])
def test_pivots_end_at_the_optimum(rng, q):
    """From any feasible point, with like samples among them: no violation is left, and g is Kβ."""
    X = rng.normal(size=(q, 2))[rng.integers(0, q, q)]
    K, y = np.exp(-((X[:, None] - X) ** 2).sum(axis=2)), np.where(np.arange(q) % 2, 1.0, -1.0)
    dual = Dual(hinge_families(y, rng.uniform(0.5, 2.0, q), rng.choice([1.2, np.inf])))
    beta = dual.join({"margin": rng.uniform(0, 1, q) * rng.integers(0, 2, q)})
    K, g, beta = anywhere(rng, K, K @ beta, beta)
    assert ActiveSet(K, g, beta, dual.phi).run(1e-9, 1000, Clock())
    assert g == pytest.approx(K @ beta, abs=1e-12)
    assert beta.sum() == pytest.approx(0.0, abs=1e-12)
    m, M = dual.extremes(beta, K @ beta)
    assert m - M <= 2e-9
