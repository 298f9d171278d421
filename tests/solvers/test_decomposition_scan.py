"""The two passes of a pair step against the same in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.families import hinge_families
from polyopt.solvers.decomposition.dual import Dual, gains
from polyopt.solvers.decomposition.subproblem import LANES, move, partner


def room():
    return np.empty(2 * LANES), np.empty(LANES, dtype=np.int64)


@given(
    q=st.integers(1, 9).map(lambda k: k * LANES),
    seed=st.integers(0, 10**6),
    walls=st.floats(0.0, 1.0),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_a_move_takes_g_along_and_finds_both_ends(q, seed, walls, dtype):
    rng = np.random.default_rng(seed)
    g, up, down = rng.integers(-3, 4, size=(3, q)).astype(float)  # with ties
    up[rng.random(q) < walls], down[rng.random(q) < walls] = -np.inf, np.inf
    first, second = rng.normal(size=(2, q)).astype(dtype)
    length = float(rng.choice([0.0, 0.5, 3.0]))
    expected = g + length * (first.astype(float) - second.astype(float))
    most, place, least = move(g, up, down, first, second, length, *room())
    assert np.allclose(g, expected, rtol=1e-14, atol=1e-14)
    assert most == (up - g).max()
    assert least == (down - g).min()
    if np.isfinite(most):
        assert (up - g)[place] == most


@given(
    q=st.integers(1, 9).map(lambda k: k * LANES),
    seed=st.integers(0, 10**6),
    most=st.sampled_from([-9.0, 0.0, 1.0, 9.0]),
)
def test_the_partner_gains_most(q, seed, most):
    rng = np.random.default_rng(seed)
    g, down = rng.integers(-3, 4, size=(2, q)).astype(float)
    down[rng.random(q) < 0.3] = np.inf
    ease = rng.uniform(0.0, 2.0, size=q).astype(np.float32)
    drop = most - down + g
    gains = np.where(drop > 0.0, drop**2 * ease.astype(float), -1.0)
    found = partner(g, down, ease, most, *room())
    if gains.max() < 0.0:
        assert found == -1
    else:
        assert gains[found] == pytest.approx(gains.max(), rel=1e-14)


def test_what_is_no_number_is_never_the_best():
    q = 2 * LANES
    g, up, down, zero = np.zeros(q), np.full(q, np.nan), np.full(q, np.nan), np.zeros(q)
    up[11], down[5] = 1.0, -1.0
    assert move(g, up, down, zero, zero, 1.0, *room()) == (1.0, 11, -1.0)
    assert partner(g, down, np.ones(q), 2.0, *room()) == 5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_point_with_a_spoilt_output_is_within_a_tolerance(value):
    g, beta, y = np.zeros(5), np.array([0.5, 0.0, 1.0, -1.0, -0.5]), np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    dual = Dual(hinge_families(y, np.ones(5)))
    m, M = dual.violation(beta, g)
    rise, fall, *ends = gains(g, beta, dual.phi)
    assert (m, M) == tuple(ends) == (rise.max(), fall.min())
    g[2] = value
    m, M = dual.violation(beta, g)
    assert not m - M <= 1e300
    *_, m, M = gains(g, beta, dual.phi)
    assert not m - M <= 1e300
