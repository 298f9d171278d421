"""One step of the decomposition, and the choice of what takes part in it, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.families import Families, Family, hinge_families, margin_family
from polyopt.margin.decomposition.driver import CachedRows, select_working_set, solve_pairs
from polyopt.margin.decomposition.state import Dual, derivatives, recapped


def test_multipliers_at_their_caps_go_with_them_and_others_stay_within():
    y = np.array([1.0, -1.0, 1.0, 1.0])
    old, new = hinge_families(y, 2.0, 1.5), hinge_families(y, np.array([4.0, 4.0, 1.0, 0.5]), 1.5)
    found = recapped({"margin": np.array([2.0, 1.5, 0.25, 1.5]), "bound_above": np.full(4, 7.0)}, old, new)
    assert {name: mu.tolist() for name, mu in found.items()} == {
        "margin": [4.0, 1.5, 0.25, 0.5],
        "bound_above": [7.0] * 4,
    }


@pytest.mark.parametrize("kink", [0.5, 2.0])
def test_rows_that_must_hold_and_that_zeros_do_not_meet_are_refused(kink):
    y = np.array([1.0, -1.0])
    must = Family("must", "nu", y, kink, np.full(2, np.inf))
    with pytest.raises(ValueError, match="needs finite costs; an explicit program"):
        Dual(Families(margin_family(y, np.ones(2)), must))


@pytest.mark.parametrize("B", [np.inf, 1.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_pair_step_takes_the_best_pair_to_the_best_point_of_its_line(seed, B):
    """Of the second order: i violates most, j promises the most with i; up to the first kink of either."""
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
        held = CachedRows(K, np.arange(n), np.arange(n))
        assert solve_pairs(held, K.diagonal().copy(), g, beta, dual.phi, 1e-9, n, 1) == (1, 2)
        assert beta == pytest.approx(wanted, abs=1e-12)
        assert g == pytest.approx(K @ beta)
        rise = dual.gain(beta) - beta @ g / 2 - before
        assert rise == pytest.approx(length * drop[j] - length**2 * bend[j] / 2)
        if length == room_i:
            assert beta[i] in ends[:, i]
        if length == room_j:
            assert beta[j] in ends[:, j]


def test_no_more_rows_are_wanted_than_there_may_be(rng):
    """Room for 64 rows grows with what is wanted, up to the limit; a step that wants another is not taken."""
    n = 150
    A = rng.normal(size=(n, n))
    K, y = A @ A.T / n, np.where(np.arange(n) % 2, 1.0, -1.0)
    dual, held = Dual(hinge_families(y, 1.0)), CachedRows(K, np.arange(n), np.arange(n))
    counts, ends = [], []
    for rows in (2, 10, 64, 90, n):
        g, beta = np.zeros(n), np.zeros(n)
        taken, count = solve_pairs(held, K.diagonal().copy(), g, beta, dual.phi, 1e-6, rows, 10**6)
        counts.append(count)
        ends.append(dual.gain(beta) - beta @ K @ beta / 2)
        assert taken >= count // 2
        assert g == pytest.approx(K @ beta, abs=1e-10)
    assert all(rows - 1 <= count <= rows for count, rows in zip(counts, (2, 10, 64, 90), strict=False))
    assert counts[-1] > 90
    assert (np.diff(ends) > 0).all()
    m, M = dual.extremes(beta, g)
    assert m - M <= 1e-6


def half(values, allowed, count, floor):
    """The places of the largest values allowed that are above a floor, by sorting."""
    places = [p for p in np.argsort(-values) if allowed[p] and values[p] > floor]
    return places[:count]


@pytest.mark.parametrize("seed", range(4))
def test_a_working_set_is_the_latest_half_and_the_worst_violators(seed):
    rng = np.random.default_rng(seed)
    n, size = 60, int(rng.integers(4, 30))
    rise = rng.normal(size=n)
    fall = rise + rng.exponential(0.8, n)
    last = rng.permutation(n)[: rng.integers(0, 40)]
    found = select_working_set(rise, fall, last, size).tolist()
    keep = last[-(size // 2) :].tolist()
    allowed = np.ones(n, dtype=bool)
    allowed[keep] = False

    upward = half(rise, allowed, (size - len(keep)) // 2, fall.min())
    rest = allowed & ~np.isin(np.arange(n), upward)
    downward = half(-fall, rest, (size - len(keep)) // 2, -rise.max())
    assert found[: len(keep)] == keep
    assert set(found[len(keep) : len(keep) + len(upward)]) == set(upward)
    assert set(found[len(keep) + len(upward) :]) == set(downward)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_point_with_a_spoilt_output_is_within_a_tolerance(value):
    g, beta, y = np.zeros(5), np.array([0.5, 0.0, 1.0, -1.0, -0.5]), np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    dual = Dual(hinge_families(y, np.ones(5)))
    m, M = dual.extremes(beta, g)
    rise, fall, *ends = derivatives(g, beta, dual.phi)
    assert (m, M) == tuple(ends) == (rise.max(), fall.min())
    g[2] = value
    m, M = dual.extremes(beta, g)
    assert not m - M <= 1e300
    *_, m, M = derivatives(g, beta, dual.phi)
    assert not m - M <= 1e300
