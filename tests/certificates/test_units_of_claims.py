"""The state of one sample's row in a rational solution, and what is wrong with it, by hand."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from polyopt.certificates.claims.vertex import Unit

F = Fraction


def row(cap=3, side=1, less=()):
    caps = [None, None if cap is None else F(cap)]
    return SimpleNamespace(cap=caps, side=[1, side], kink=F(1), less=[[], list(less)])


def unit(multipliers, scores, **given):
    """Sample 1 with multipliers (K,) and scores (K,); as near as a tenth counts as there."""
    near = [[F(0), F(m)] for m in multipliers]
    f = [[F(0), F(s)] for s in scores]
    return Unit(row(**given), 1, list(range(len(near))), near, f, 0.125), f


def states(found):
    """What the changes make of the unit, each by itself."""
    one, f = found
    kept, seen = (set(one.holds), one.pays), []
    for change in one.wrong(f):
        change()
        seen.append((sorted(one.holds), one.pays))
        one.holds, one.pays = set(kept[0]), kept[1]
    return seen


@pytest.mark.parametrize(("multipliers", "scores", "holds", "pays"), [
    ([0, 0], [2, 3], [], False),  # beyond its margin on both faces
    ([1, 0], [1, 3], [0], False),  # held by the first
    ([F(3, 8), 0], [1, 3], [], False),  # an eighth of the cap is nothing
    ([F(7, 16), 0], [1, 3], [0], False),
    ([2, 1], [0, 0], [0, 1], True),  # all of the cap is used, and slack is paid for
    ([2, F(5, 8)], [0, 0], [0, 1], True),
    ([2, F(1, 2)], [0, 0], [0, 1], False),  # more than an eighth of it is left
    ([3, 0], [F(7, 8), 3], [0], False),  # short by no more than an eighth
    ([3, 0], [F(3, 4), 3], [0], True),
])  # fmt: skip
def test_who_holds_and_whether_slack_is_paid_for(multipliers, scores, holds, pays):
    one, _ = unit(multipliers, scores)
    assert (sorted(one.holds), one.pays) == (holds, pays)
    assert one.xi == (1 - min(map(F, scores)) if pays else 0)
    assert one.is_full == (pays and len(holds) == 1)


def test_whoever_pays_is_held_where_it_is_short_most():
    one, _ = unit([F(1, 4), F(1, 4)], [F(-1), F(-2)], cap=F(0))
    assert (sorted(one.holds), one.pays, one.xi) == ([0, 1], True, 3)
    none, _ = unit([0, 0], [F(-1), F(-2)], cap=F(0))
    assert (sorted(none.holds), none.pays, none.is_full) == ([1], True, True)


def test_how_far_a_row_is_from_holding():
    one, f = unit([0, 0, 0], [2, 5, 7], side=-1, less=(2,))
    assert [one.above(f, k) for k in range(3)] == [1 + (2 - 7), 1 + (5 - 7), 1]
    free, _ = unit([0, 0], [2, 5], cap=None)
    assert not free.pays


def test_what_is_on_the_wrong_side_changes_its_state():
    assert states(unit([1, 0], [1, 3])) == []
    held = unit([1, 1], [1, 1])
    held[0].m[1] = F(-1)
    assert states(held) == [([0], False)]  # a multiplier below 0 lets go
    assert states(unit([0, 0], [F(1, 2), 3], cap=None)) == [([0], False)]  # a row that breaks holds
    alone = unit([1, 0], [1, 3])
    alone[0].m[0] = F(-1)
    assert states(alone) == [([], False)]
    full = unit([3, 0], [0, 3])
    full[0].m[0] = F(-1)
    assert states(full) == []  # who pays alone is known, whatever its multiplier
    full[0].xi = F(-1, 8)
    assert ([0], False) in states(full)  # slack is not below 0
    over = unit([1, 1], [1, 1])
    over[0].m.update({0: F(2), 1: F(1)})
    assert states(over) == []  # as much as the cap
    over[0].m[1] = F(9, 8)
    assert states(over) == [([0, 1], True)]  # and more
