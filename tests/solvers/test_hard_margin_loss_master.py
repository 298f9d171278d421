"""The master program of the hard-margin loss's search: its optimum by another solver, and its proof."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

from polyopt.solvers.clock import Clock
from polyopt.solvers.hard_margin_loss import master as master_module
from polyopt.solvers.hard_margin_loss.cuts import Cuts
from polyopt.solvers.hard_margin_loss.master import Master


def drawn(seed, n=7, cuts=6):
    rng = np.random.default_rng(seed)
    costs, known = rng.uniform(0.5, 3.0, n), Cuts(n)
    for _ in range(cuts):
        known.add(np.sort(rng.permutation(n)[: rng.integers(1, 4)]), float(rng.uniform(0.5, 6.0)))
    return costs, known


def least(costs, cuts, rows, low, high, limit, *, theta=1.0):
    """The program by scipy: cuts count with θ, or sharp where no θ under the limit is enough for them."""
    lines = []
    for cut, sharp in rows:
        if sharp and cuts.values[cut] < limit:
            continue
        lines.append(np.append(cuts.matrix[[cut]].toarray()[0], 0.0 if sharp else 1.0 / cuts.values[cut]))
    bounds = [*zip(low.astype(float), high.astype(float), strict=True), (0.0, limit)]
    A, b = (-np.array(lines), -np.ones(len(lines))) if lines else (None, None)
    found = linprog(np.append(costs, theta), A_ub=A, b_ub=b, bounds=bounds)
    return found.fun if found.status == 0 else np.inf


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_the_optimum_of_each_node_and_never_above_it(seed):
    costs, cuts = drawn(seed)
    rng, master = np.random.default_rng(seed + 100), Master(costs, cuts)
    for turn in range(len(cuts)):
        sharp = bool(cuts.values[turn] >= 3.0)
        assert master.add(turn, sharp)
        low = rng.random(7) < 0.2
        high = low | (rng.random(7) < 0.9)
        limit = float(rng.uniform(1.0, 5.0))
        found, true = (
            master.solve(low, high, limit, Clock()),
            least(costs, cuts, master.rows, low, high, limit),
        )
        if not np.isfinite(true):  # a price for what is missing keeps the program feasible
            assert found.bound > limit
            continue
        assert found.bound <= true * (1.0 + 1e-15)
        assert found.bound == pytest.approx(true, rel=1e-9)
        assert costs @ found.z + found.theta == pytest.approx(true, rel=1e-7)
        assert ((found.z >= low) & (found.z <= high)).all()
        alone = [row for row in master.rows if row[1]]
        assert found.given_up <= least(costs, cuts, alone, low, high, limit, theta=0.0) * (1.0 + 1e-15)
        assert found.given_up >= costs @ low * (1.0 - 1e-9) - 1e-9 or found.given_up == 0.0


def test_with_sharp_rows_alone_what_is_given_up_is_the_bound():
    costs, cuts = np.full(3, 2.0), Cuts(3)
    master = Master(costs, cuts)
    for members in ([0, 1], [1, 2], [0, 2]):
        assert master.add(cuts.add(np.array(members), 50.0), sharp=True)
    found = master.solve(np.zeros(3, dtype=bool), np.ones(3, dtype=bool), 9.0, Clock())
    assert found.bound == found.given_up == pytest.approx(3.0)
    assert found.z == pytest.approx([0.5, 0.5, 0.5])
    assert found.theta == 0.0
    low = np.array([False, True, False])
    assert master.solve(low, np.ones(3, dtype=bool), 9.0, Clock()).bound == pytest.approx(4.0)
    unmet = master.solve(low, np.array([True, True, False]), 9.0, Clock())
    assert unmet.bound == pytest.approx(4.0)
    assert unmet.z == pytest.approx([1.0, 1.0, 0.0])
    loose = master.solve(np.zeros(3, dtype=bool), np.ones(3, dtype=bool), 60.0, Clock())
    assert loose.bound == loose.given_up == 0.0  # values below the limit say nothing in the sharp form


def test_without_a_row_what_is_fixed_costs_what_it_costs():
    costs, cuts = drawn(0, cuts=0)
    low = np.arange(7) < 2
    found = Master(costs, cuts).solve(low, np.ones(7, dtype=bool), 4.0, Clock())
    assert found.bound == found.given_up == pytest.approx(costs[:2].sum(), rel=1e-10)
    assert found.bound <= costs[:2].sum()


def test_a_cut_is_put_in_once_in_each_form_and_none_that_says_nothing():
    cuts = Cuts(3)
    tiny, plain = cuts.add(np.array([0]), 1e-10), cuts.add(np.array([1, 2]), 2.0)
    master = Master(np.ones(3), cuts)
    assert [master.add(plain, False), master.add(plain, False), master.add(plain, True)] == [
        True,
        False,
        True,
    ]
    assert not master.add(tiny, False)
    assert master.add(tiny, True)
    assert master.rows == [(plain, False), (plain, True), (tiny, True)]


def test_rows_that_are_not_tight_leave_where_there_are_many(monkeypatch):
    monkeypatch.setattr("polyopt.solvers.hard_margin_loss.master._SPARE", -3)
    costs, cuts = np.ones(3), Cuts(3)
    master, every = Master(costs, cuts), (np.zeros(3, dtype=bool), np.ones(3, dtype=bool), 9.0)
    master.add(cuts.add(np.array([0]), 50.0), True)
    master.add(cuts.add(np.array([1]), 4.0), False)
    master.tidy()
    assert len(master.rows) == 2  # fewer than 2 n - 3
    master.add(cuts.add(np.array([0, 1, 2]), 50.0), True)  # the first says more
    before = master.solve(*every, Clock())
    master.tidy()
    assert master.rows == [(0, True), (1, False)]
    after = master.solve(*every, Clock())
    assert after.bound == before.bound == pytest.approx(2.0)
    assert master.add(2, True)  # it may come back
    assert master.solves == 2


@pytest.mark.parametrize(("point", "multipliers"), [(True, False), (False, True), (False, False)])
def test_without_a_point_and_multipliers_nothing_is_said_and_the_basis_is_thrown_away(point, multipliers):
    costs, cuts = drawn(0)
    master, told = Master(costs, cuts), []
    nothing = {
        name: lambda *_: None for name in ("changeColCost", "changeColsBounds", "setOptionValue", "run")
    }
    master._highs = SimpleNamespace(
        **nothing,
        getSolution=lambda: SimpleNamespace(value_valid=point, dual_valid=multipliers),
        clearSolver=lambda: told.append("cleared"),
    )
    master._ear = SimpleNamespace(hears=lambda clock: nullcontext())
    assert master.solve(np.zeros(7, dtype=bool), np.ones(7, dtype=bool), 2.0, Clock()) is None
    assert told == ["cleared"]
    assert master.solves == 1


def test_what_multipliers_prove_is_the_lagrangian_s_least_less_its_rounding(monkeypatch):
    """With a rounding of a thousandth for each operation, so that what is taken off for it can be seen."""
    costs, cuts = drawn(3)
    unit, n, limit, price = costs.max(), len(costs), 2.0, 30.0
    low = np.arange(n) == 1
    high = np.arange(n) != 4
    for share in (0.0, 1e-3):
        monkeypatch.setattr(master_module, "gamma", lambda k, share=share: share * k)
        master = Master(costs, cuts)
        for cut in range(4):
            master.add(cut, cut % 2 == 0)
        for lam in ([0.3, 0.0, 0.2, 0.5], [4.0, 20.0, 9.0, 0.0], [0.1, 0.0, 0.0, 0.0]):
            lam, sharp = np.array(lam), np.array([True, False, True, False])
            found = master._proven(lam, low, high, limit, price)
            for result, weight in zip(found, (lam, np.where(sharp, lam, 0.0)), strict=True):
                own = size = weight.sum()
                theta = 1.0
                pulled = np.zeros(n)
                for cut, amount in enumerate(weight):
                    pulled[cuts.sets[cut]] += amount
                    theta -= 0.0 if sharp[cut] else amount * unit / cuts.values[cut]
                for j in range(n):
                    reduced = costs[j] / unit - pulled[j]
                    own += min(reduced * low[j], reduced * high[j])
                    size += costs[j] / unit + pulled[j]
                own += min(theta * limit, 0.0) + min(price - weight.sum(), 0.0)
                size += (1.0 + abs(theta)) * limit + price
                taken = 4.0 * share * (n + np.count_nonzero(lam) + 8) * size
                assert result == pytest.approx(own - taken, rel=1e-12, abs=1e-12)
        nothing = master._proven(np.zeros(4), low, high, limit, price)
        assert nothing == pytest.approx((costs[1] / unit,) * 2, rel=2e-12)
        assert nothing[0] < costs[1] / unit
