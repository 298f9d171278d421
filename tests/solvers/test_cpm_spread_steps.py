"""Single steps of the ascent of the spread: each to the best of its line; what follows from it is kept."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.interpreted import interpreted

from polyopt.solvers.cpm.spread import Ground, Spread

D, P, PART = 3, 4, 0.7


def drawn(seed, B, N=5):
    """Samples, multipliers with room on both sides, and what is at hand of them; H is any form.

    It is M less a part of a square; of every other seed the products of M with the rows are kept.
    """
    rng = np.random.default_rng(seed)
    module = interpreted("polyopt.solvers.cpm.spread")[0]
    A, X = rng.normal(size=(N, D)), rng.normal(size=(P, D))
    C, share = rng.uniform(1.0, 2.0, N), rng.uniform(0.2, 0.8, P)
    ground = Ground(A, (A * A).sum(axis=1), C, X, np.full(P, B), share)
    delta = 0.1 * rng.uniform(-1.0, 1.0, (P, N)) * rng.integers(0, 2, (P, N))
    a, own = 0.5 * C, rng.uniform(0.0, B, P)
    e = delta @ A + own[:, None] * X
    spread = Spread(a, delta, own, e, np.ones(P))
    root = rng.normal(size=(D, D))
    H, v = root @ root.T, a @ A + share @ e
    up, down = C - a - np.maximum(delta, 0.0).sum(axis=0), a - np.maximum(-delta, 0.0).sum(axis=0)
    Me, kept = rng.normal(size=D), N * (seed % 2)
    M = H + PART * np.outer(Me, Me)
    work = module._Work(
        up, down, v, M, (A @ M)[:kept], H @ e[1], np.zeros(D), Me, (A @ Me)[:kept], np.zeros(kept)
    )
    return module, ground, spread, work


def form(work):
    return work.M - PART * np.outer(work.Me, work.Me)


def worth(ground, spread, work, i, pull):
    """What a change of the moves of i, or of its own multiplier, is counted by, without the barrier."""
    share, e = ground.share[i], spread.delta[i] @ ground.A + spread.own[i] * ground.P[i]
    v = work.v + share * (e - spread.e[i])
    return share * (spread.delta[i].sum() + spread.own[i]) - 0.25 * v @ v - pull * e @ form(work) @ e


def agrees(ground, spread, work):
    assert spread.e[1] == pytest.approx(spread.delta[1] @ ground.A + spread.own[1] * ground.P[1])
    assert work.He == pytest.approx(form(work) @ spread.e[1])
    assert work.v == pytest.approx(spread.a @ ground.A + ground.share @ spread.e)


@pytest.mark.parametrize("B", [0.05, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_own_multiplier_goes_to_the_best_within_its_box(seed, B):
    module, ground, spread, work = drawn(seed, B)
    module._raise_own(ground, spread, work, 1, 0.3, PART)
    agrees(ground, spread, work)
    best, found = worth(ground, spread, work, 1, 0.3), spread.own[1]
    assert 0.0 <= found <= B
    for other in np.linspace(0.0, B, 41):
        spread.own[1] = other
        assert worth(ground, spread, work, 1, 0.3) <= best + 1e-12


@pytest.mark.parametrize("pull", [0.0, 0.3])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_move_goes_to_the_best_with_the_barrier_of_its_side(seed, whole, pull):
    """Of one row, to which all others leave room; a move of 0 is looked at in whole sweeps alone."""
    module, ground, spread, work = drawn(seed, 5.0, N=1)
    mu, before = 0.05, spread.delta[1, 0]
    others = np.delete(spread.delta[:, 0], 1)
    above = ground.C[0] - spread.a[0] - np.maximum(others, 0.0).sum()
    below = spread.a[0] - np.maximum(-others, 0.0).sum()
    module._raise_moves(ground, spread, work, 1, pull, PART, mu, whole)
    agrees(ground, spread, work)
    found = spread.delta[1, 0]
    assert work.up[0] == pytest.approx(above - max(found, 0.0))
    assert work.down[0] == pytest.approx(below - max(-found, 0.0))
    if before == 0.0 and not whole:
        assert found == 0.0
        return

    def counted(t):
        spread.delta[1, 0] = t
        rooms = np.log(above - max(t, 0.0)) + np.log(below - max(-t, 0.0))
        return worth(ground, spread, work, 1, pull) + mu * rooms

    best = counted(found)
    for other in np.linspace(-0.999 * below, 0.999 * above, 61):
        assert counted(other) <= best + 1e-9


@pytest.mark.parametrize("kept", [False, True])
def test_the_inverse_and_its_products_follow_what_a_sample_becomes(kept):
    module, ground, spread, work = drawn(3, 5.0)
    n = len(ground.A) * kept
    length = 2.0 * np.linalg.eigvalsh(spread.e.T @ spread.e)[-1] * np.ones(P)
    spread = spread._replace(length=length)

    def inverse():
        return np.linalg.inv(np.eye(D) - (spread.e / spread.length[:, None]).T @ spread.e)

    work = work._replace(
        M=inverse(), rows=(ground.A @ inverse())[:n], of_M=np.zeros(n), of_H=np.zeros(n), He=np.zeros(D)
    )
    across, before = np.ascontiguousarray(ground.A[:n].T), spread.e[1].copy()
    module._raise_one(ground, spread, work, across, 1, 0.05, True)
    assert not np.allclose(before, spread.e[1])
    assert spread.length[1] != length[0]
    assert work.M == pytest.approx(inverse())
    assert work.rows == pytest.approx((ground.A @ inverse())[:n])
    assert work.v == pytest.approx(spread.a @ ground.A + ground.share @ spread.e)
