"""Single steps of the search for the SVM with the hard-margin loss, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from formulations.hard_margin_loss_data import as_hard_margin_loss_data
from polyopt.certificates.hard_margin_loss import least_square
from polyopt.solvers.clock import Clock
from polyopt.solvers.hard_margin_loss import tree
from polyopt.solvers.hard_margin_loss.climb import ABOVE, MET, STALLED
from polyopt.solvers.hard_margin_loss.master import MasterSolution
from polyopt.solvers.hard_margin_loss.meeting import Meeting
from polyopt.solvers.hard_margin_loss.tree import Search

X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
NOTHING = np.zeros(0, dtype=np.int64)


def point_at(z, theta=0.0):
    return MasterSolution(np.array(z), theta, 0.0, 0.0)


def search(costs=1.0, tol=1e-6, most=None):
    return Search(as_hard_margin_loss_data(X, Y, costs), tol, Clock(), most, None)


def meeting(active, alpha, value=0.5, status=MET):
    return Meeting(status, value, np.array(active, dtype=np.int64), np.array(alpha))


def bits(*values):
    return np.array(values, dtype=bool)


@pytest.mark.parametrize(("given_up", "least"), [
    (-0.1, 0.0), (0.0, 0.0), (1e-10, 0.0), (0.1, 0.5), (0.5, 0.5), (0.5 + 1e-10, 0.5), (0.51, 1.0),
])  # fmt: skip
def test_what_is_given_up_at_one_cost_is_a_multiple_of_it(given_up, least):
    found = search(0.5)._rounded_up(given_up)
    assert least * (1.0 - 2.0**-49) <= found <= least * (1.0 - 2.0**-52)
    assert search([0.5, 0.5, 0.5, 0.25])._rounded_up(given_up) == max(given_up, 0.0)


@pytest.mark.parametrize(("z", "low", "high", "last", "sample"), [
    ([0.9, 0.3, 0.5, 0.2], 0, 1, None, 2),
    ([0.9, 0.3, 0.5, 0.2], bits(0, 0, 1, 0), 1, None, 1),
    ([0.9, 0.3, 0.5, 0.2], 0, bits(1, 0, 0, 1), None, 3),
    ([0.9, 0.3, 0.5, 0.2], bits(1, 0, 1, 0), bits(1, 0, 1, 0), None, -1),
    ([1.0, 0.0, 1.0, 1e-10], 0, bits(0, 1, 1, 1), None, 1),  # all decided: the first that is free
    ([1.0, 0.0, 1.0, 1e-10], 0, 1, meeting([1, 2, 3], [0.1, 0.3, 0.2]), 2),  # or what holds most
    ([1.0, 0.0, 1.0, 1e-10], bits(0, 0, 1, 0), 1, meeting([1, 2, 3], [0.1, 0.3, 0.2]), 3),
    ([1.0, 0.0, 1.0, 1e-10], bits(0, 1, 1, 0), 1, meeting([1, 2], [0.1, 0.3]), -1),
    ([1.0, 0.0, 1.0, 1e-10], bits(1, 0, 0, 0), 1, meeting([], []), 1),
    (None, bits(1, 1, 0, 0), 1, None, 2),
])  # fmt: skip
def test_the_sample_to_decide_is_free_and_the_least_decided(z, low, high, last, sample):
    low, high = np.broadcast_to(bits(0) | low, 4) == 1, np.broadcast_to(bits(0) | high, 4) == 1
    point = None if z is None else point_at(z)
    assert search()._choose(point, last, low, high) == sample
    for share in (1e-8, 1e8):  # in whatever units the costs are
        assert search(share)._choose(point, last, low, high) == sample


def test_what_is_undecided_counts_by_its_cost():
    costs, free = [1.0, 8.0, 1.0, 1.0], (np.zeros(4, dtype=bool), np.ones(4, dtype=bool))
    assert search(costs)._choose(point_at([0.5, 0.1, 0.0, 0.0]), None, *free) == 1
    assert search(costs)._choose(point_at([0.5, 0.06, 0.0, 0.0]), None, *free) == 0


@pytest.mark.parametrize(("found", "broken"), [
    (meeting([1, 2], [0.1, 0.1], 2.0), True),  # 0.3 + 0.5 / 2 is below 1
    (meeting([1, 2, 3], [0.1, 0.1, 0.1], 2.0), False),  # 0.8 + 0.25 is not
    (meeting([1, 2, 3], [0.1, 0.1, 0.1], 4.0), True),  # 0.8 + 0 is: the value is the limit's or more
    (meeting([1, 2, 3], [0.1, 0.1, 0.1], 3.0), True),
    (meeting([1, 2, 3], [0.1, 0.1, 0.1], 2.5), False),  # equal to 1
    (meeting([1, 2, 3], [0.1, 0.1, 0.1], 2.501), False),  # less than 1 by less than counts
    (meeting([], [], 2.0), False),
    (meeting([1, 2], [0.1, 0.1], 0.0), False),
])  # fmt: skip
def test_a_cut_that_the_point_breaks(found, broken):
    """Σ z of what holds the hyperplane, and θ over its value where that is below the limit, are to be 1."""
    point = point_at([0.9, 0.1, 0.2, 0.5], 0.5)
    assert search()._broken_by(found, point, 3.0) == broken


def test_a_cut_is_worth_what_its_multipliers_prove_and_hard_from_the_limit_on():
    one, put = search(), []
    one.master = SimpleNamespace(add=lambda cut, hard: put.append((cut, hard)) or True)
    cut = one._noted(meeting([1, 2], [0.5, 0.5], 99.0))
    value = least_square(one.data, np.array([1, 2]), np.array([0.5, 0.5]))
    assert one.cuts.values[cut] == value == pytest.approx(0.5)
    assert one._noted(meeting([0], [1.0], 99.0)) == cut + 1
    assert one.cuts.values[cut + 1] == 1e-300  # nothing, and positive
    for limit in (2.0 * value, value, 0.5 * value):
        assert one._put(cut, limit)
    assert put == [(cut, False), (cut, True), (cut, True)]


def test_the_bound_is_the_least_of_what_is_open_closed_and_known_and_never_falls():
    one = search()
    below = tree._BELOW
    assert 1.0 - 2.0**-40 <= below < 1.0 - 2.0**-51  # a few units of rounding
    start = one.best
    assert one._update() == start * below  # nothing is open
    one.bound = 0.0
    nodes = [tree._Open(v, k, bits(0), bits(1), 0.0, 0) for k, v in enumerate((0.2, 0.3))]
    one.heap = nodes[:]
    assert one._update() == 0.2 * below
    one.at = tree._Open(0.1, 9, bits(0), bits(1), 0.0, 0)
    assert one._update() == 0.2 * below  # not lower than it was
    one.heap, one.at = nodes[1:], None
    one.closed = 0.25
    assert one._update() == 0.25 * below


def test_a_node_is_closed_where_its_bound_is_enough_and_says_what_it_gave_up():
    one = search()
    every, none = np.ones(4, dtype=bool), np.zeros(4, dtype=bool)
    assert one._looked_into(none, every, one.enough, 0.0, 3) is None
    assert one.closed == one.enough
    assert one._looked_into(none, every, 0.0, one.best, 3) is None  # gives up as much as the best costs
    found = one._looked_into(none, every, 0.25, 0.125, 0)  # no round: what its parent knew
    assert (found.bound, found.given_up, found.sample, found.number) == (0.25, 0.125, 0, 1)
    assert one._looked_into(none, every, 0.125, 0.25, 0).bound == 0.25
    assert one.made == 2
    assert one._looked_into(every, every, 0.125, 0.0, 0) is None  # nothing is left to decide
    assert one.closed == 0.125
    assert one._children(tree._Open(one.enough, 1, none, every, 0.0, 0)) == []
    assert one.nodes == 0


def test_a_node_whose_hyperplane_is_held_by_samples_that_are_met_is_worth_its_length(monkeypatch):
    one = search(10.0)
    last = meeting([1, 2], [0.5, 0.5])
    point = point_at(np.zeros(4))
    monkeypatch.setattr(one.master, "solve", lambda *_: point)
    monkeypatch.setattr(one, "_cut", lambda *_: (False, last))
    met, every = bits(1, 0, 0, 1), np.ones(4, dtype=bool)
    low = np.zeros(4, dtype=bool)
    found = one._looked_into(low, met, 0.0, 0.25, 3)
    # What is given up is a multiple of the cost: 10, and ½‖w‖² is 0.5.
    assert found is None or found.bound == pytest.approx(10.5)
    one.unit = 0.0
    assert one._looked_into(low, every, 0.0, 0.25, 3).bound == 0.25  # one that holds it may be given up
    assert one._looked_into(low, met, 0.0, 0.25, 3) is None  # what holds it is decided
    assert one.closed == pytest.approx(0.75, rel=1e-12)
    assert one.closed < 0.75


@pytest.mark.parametrize(("bounds", "met"), [
    ([0.5, 1.0, 1.5, 2.0, 2.5, 3.0], 6),  # all rise by enough
    ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], 4),  # three that do not, in a row
    ([0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0], 7),  # one between them does
    ([0.0, 0.0, 0.0, 0.0, 0.5, 1.0], 4),
    ([0.5, 0.5, 0.5, 0.512, 0.524, 0.527], 4),  # 0.035 is what a round is to bring
    ([0.5, 0.5, 0.5, 0.537, 0.575, 0.625], 6),
    ([0.5, 1.0, 4.0], 3),  # enough
    ([0.5, None], 2),  # nothing is left of the node
])  # fmt: skip
def test_a_node_has_its_cuts_where_three_rounds_in_a_row_bring_little(bounds, met, monkeypatch):
    """Less than a hundredth of what is missing to the best point."""
    one, asked = search(), []
    one.best, low, high = 4.0, np.zeros(4, dtype=bool), np.ones(4, dtype=bool)

    def solve(*_):
        asked.append(bounds[len(asked)])
        return asked[-1] if asked[-1] is None else MasterSolution(np.full(4, 0.5), 0.0, asked[-1], 0.0)

    monkeypatch.setattr(one.master, "solve", solve)
    monkeypatch.setattr(one, "_cut", lambda *_: (True, None))
    found = one._looked_into(low, high, 0.0, 0.0, len(bounds))
    assert asked == bounds[:met]
    assert found is None if bounds[-1] == 4.0 else found.bound == max(each or 0.0 for each in asked)


def test_cuts_are_looked_for_over_samples_that_are_given_up_a_little(monkeypatch):
    """What holds a cut just made is left out of the next climb, until no cut is broken."""
    one, asked = search(), []
    point, low = point_at([0.0, 0.05, 0.25, 1.0]), bits(0, 0, 0, 0)
    broken, stalled = meeting([0], [1.0], 2.0, ABOVE), meeting([], [], 0.0, STALLED)
    weak = meeting([3], [1.0], 2.0, ABOVE)
    ends = iter([broken, stalled, broken, weak, broken, broken, stalled, stalled])

    def meet(kept, limit):
        asked.append(np.flatnonzero(kept).tolist())
        return next(ends)

    monkeypatch.setattr(one, "samples", SimpleNamespace(meet=meet))
    monkeypatch.setattr(one.master, "add", lambda cut, hard: True)
    added, first = one._cut(point, low, ~low, 5.0)
    assert added
    assert first is broken  # over what is given up by nothing
    assert asked == [[0], [], [0, 1], [1], [0, 1], [1], [1], [0, 1, 2]]
    ends = iter([weak, stalled, stalled, stalled])
    assert one._cut(point_at([1.0, 0.05, 0.25, 1.0]), bits(0, 1, 0, 0), ~low, 0.0)[0] is False
    assert asked[8:] == [[], [], [], [2]]
