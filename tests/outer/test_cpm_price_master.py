"""Newton's equations of the master program of prices, and the steps that its point takes."""

import numpy as np
import pytest

from polyopt.outer.cpm.columns import PriceMaster, _length, _Newton, _Point

FACES, NPOS, K = 6, 5, 3


def drawn(seed):
    rng = np.random.default_rng(seed)
    return _Point(rng.uniform(1.0, 4.0, FACES), rng.uniform(0.0, 2.0, (FACES, NPOS)), K)


@pytest.mark.parametrize("seed", range(4))
def test_the_first_point_is_feasible_for_both_programs(seed):
    rng = np.random.default_rng(seed)
    own, hinges = rng.uniform(1.0, 4.0, FACES), rng.uniform(0.0, 2.0, (FACES, NPOS))
    point = _Point(own, hinges, K)
    x, left = point.pairs
    assert (point.pairs > 0.0).all()
    assert (point.duals > 0.0).all()
    assert x.sum(axis=0) == pytest.approx(1.0)
    assert x + left == pytest.approx(np.repeat(point.shares[:, None], NPOS, axis=1))
    assert point.shares.sum() == pytest.approx(K)
    p, s = point.duals
    assert p == pytest.approx(hinges - point.prices + s)
    assert s.sum(axis=1) == pytest.approx(own - point.mu)
    value = point.shares @ own + (x * hinges).sum()
    assert point.gap == pytest.approx(value - point.value)


@pytest.mark.parametrize("seed", range(4))
def test_a_newton_step_keeps_the_rows_and_changes_the_products_as_asked(seed):
    point, rng = drawn(seed), np.random.default_rng(seed + 50)
    for _ in range(2):
        wanted = rng.normal(size=(2, FACES, NPOS))
        move = _Newton(point.pairs, point.duals).solve(wanted)
        assert move.pairs[0].sum(axis=0) == pytest.approx(0.0, abs=1e-9)
        assert move.pairs.sum(axis=0) == pytest.approx(np.repeat(move.z[:, None], NPOS, axis=1))
        assert move.z.sum() == pytest.approx(0.0, abs=1e-9)
        assert move.duals[0] == pytest.approx(move.duals[1] - move.prices)
        assert move.duals[1].sum(axis=1) == pytest.approx(-move.mu, abs=1e-9)
        assert point.duals * move.pairs + point.pairs * move.duals == pytest.approx(wanted, abs=1e-9)
        point.step()


@pytest.mark.parametrize("seed", range(4))
def test_steps_stay_feasible_and_close_the_gap_fast(seed):
    point, gaps = drawn(seed), []
    for _ in range(14):
        gaps.append(point.gap)
        if not point.step() or point.gap < 1e-11:
            break
        x, left = point.pairs
        assert point.pairs.min() > 0.0
        assert point.duals.min() > 0.0
        assert x.sum(axis=0) == pytest.approx(1.0)
        assert x + left == pytest.approx(np.repeat(point.shares[:, None], NPOS, axis=1))
        assert point.shares.sum() == pytest.approx(K)
        assert point.gap < 0.9 * gaps[-1]
    assert point.gap <= 1e-8 * gaps[0]


def test_a_way_is_taken_to_just_before_the_first_zero_and_no_further_than_its_end():
    at = np.array([1.0, 2.0, 4.0])
    assert _length(at, np.array([-2.0, 1.0, -1.0])) == pytest.approx(0.995 / 2.0)
    assert _length(at, np.array([0.5, -8.0, -1.0])) == pytest.approx(0.995 / 4.0)
    assert _length(at, np.array([0.5, 1.0, -1.0])) == 1.0
    assert _length(at, np.array([3.0, 1.0, 1.0])) == 1.0


def test_a_face_is_known_once_and_numbers_beyond_doubles_have_no_prices():
    master = PriceMaster(2, 1e-9)
    w = np.array([1.0, 2.0])
    master.add(w, 1.0, np.array([0.5]))
    master.add(w + 1e-12, 9.0, np.array([9.0]))
    master.add(w + 1e-6, 1.0, np.array([0.25]))
    assert len(master.W) == 2
    assert (master.solve().prices >= 0.0).all()
    master.add(-w, np.inf, np.array([1.0]))
    assert master.solve() is None
