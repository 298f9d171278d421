"""The one best-first search, on knapsacks that scipy's integer solver knows the answers of."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt.optim.best_first import BestFirst, Options


class Knapsack(BestFirst):
    """Cover a weight at the least cost: items are decided in the order of their cost per weight."""

    def __init__(self, cost, weight, least, *, interrupt_at=None, **how):
        super().__init__(1e-9, 100, **how)
        order = np.argsort(cost / weight, kind="stable")
        self.cost, self.weight, self.least = cost[order], weight[order], least
        self.best, self.interrupt_at, self.deepest = np.inf, interrupt_at, 0
        self.push([self.relaxed(())])

    @property
    def objective(self):
        return self.best

    def relaxed(self, chosen):
        """The bound of some first decisions: the rest of the weight by fractions of the next items."""
        k = len(chosen)
        value = float(self.cost[:k] @ chosen) if k else 0.0
        missing = self.least - (float(self.weight[:k] @ chosen) if k else 0.0)
        for c, w in zip(self.cost[k:], self.weight[k:], strict=True):
            if missing <= 0:
                break
            value += c * min(1.0, missing / w)
            missing -= w
        return (np.inf if missing > 1e-9 else value), chosen

    def expand(self, node):
        if self.nodes == self.interrupt_at:
            raise KeyboardInterrupt
        self.deepest = max(self.deepest, len(self.stack))
        chosen = node.state
        if len(chosen) == len(self.cost):
            self.best = min(self.best, node.bound)
            self.close(node.bound)
            return []
        return [child for bit in (0.0, 1.0) if (child := self.relaxed((*chosen, bit)))[0] < np.inf]


def drawn(seed, n=14):
    rng = np.random.default_rng(seed)
    cost, weight = rng.uniform(1, 9, n), rng.uniform(1, 9, n)
    least = 0.45 * weight.sum()
    found = milp(
        cost, integrality=np.ones(n), bounds=Bounds(0, 1), constraints=LinearConstraint(weight, lb=least)
    )
    return (cost, weight, least), found.fun


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("room", [1 << 28, 0, 400])
def test_search_solves_knapsacks(seed, room):
    """Whatever the memory for open nodes, the least value is scipy's, and the bound proves it."""
    problem, known = drawn(seed)
    search = Knapsack(*problem, options=Options(max_open_bytes=room))
    assert search.run(Clock()) is Status.SOLVED
    assert search.objective == pytest.approx(known, rel=1e-9)
    assert search.bound == pytest.approx(known, rel=2e-9)
    assert search.bound <= known * (1 + 1e-12)
    assert (search.deepest > 0) == (room < 1000)
    assert len(search.heap) == len(search.stack) == 0


def test_records_of_the_search_narrow():
    """From record to record bounds rise and objectives fall."""
    problem, known = drawn(7)
    search = Knapsack(*problem, options=Options(seconds_between_records=-1.0))
    search.run(Clock())
    bounds, values = ([r[name] for r in search.history] for name in ("bound", "objective"))
    assert (np.diff(bounds) >= 0).all()
    assert all(a >= b for a, b in pairwise(values))
    assert all(bound <= known * (1 + 1e-12) for bound in bounds)


@pytest.mark.parametrize("room", [1 << 28, 0])
def test_stopped_search_goes_on(room):
    """Limits and Ctrl-C keep a bound, and a search goes on after a limit."""
    problem, known = drawn(3)
    options = Options(max_open_bytes=room)
    search = Knapsack(*problem, options=options)
    assert search.run(Clock(), max_nodes=10) is Status.ITERATION_LIMIT
    assert (search.nodes, search.is_done) == (10, False)
    assert 0 < search.bound <= known
    assert search.run(Clock(0.0)) is Status.TIME_LIMIT
    assert search.run(Clock()) is Status.SOLVED
    assert search.objective == pytest.approx(known, rel=1e-9)

    stopped = Knapsack(*problem, interrupt_at=5, options=options)
    with pytest.raises(KeyboardInterrupt):  # there is no point to keep
        stopped.run(Clock())
    for node in (1, 20):  # the first is the only open node, whose bound is that of the search
        stopped = Knapsack(*problem, interrupt_at=node, options=options)
        stopped.best = 2.0 * known
        assert stopped.run(Clock()) is Status.INTERRUPTED
        assert 0 < stopped.bound <= known * (1 + 1e-12)
        assert stopped.history[-1]["bound"] == stopped.bound
