"""What makes points and multipliers feasible, by hand: grids, caps, balance, scales, groups and shares."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from polyopt.certificates.claims import file

F, inf = Fraction, np.inf


def rows(name="r", side=(1, 1, -1, -1), cap=(4, 4, 4, 4), at=((0,),) * 4, pays="sum", loss="hinge", kink=1):
    return SimpleNamespace(
        name=name, side=list(side), cap=[c if c == inf else F(c) for c in cap], at=[list(a) for a in at],
        pays=pays, loss=loss, kink=F(kink),
    )  # fmt: skip


def program(*families, faces=1, intercept=True):
    return SimpleNamespace(faces=faces, rows=families, intercept=intercept)


def test_multipliers_are_rounded_down():
    """Multipliers are on a grid of 62 bits of the largest of all rows."""
    given = [0.3, 1e-3, 3.0, 2.0**-70]
    made = file.feasible_multipliers(program(rows(), intercept=False), {"r": np.array([given])})
    unit = F(1, 2**60)  # of 3 = 0.75 * 2²
    assert made["r"] == [[F(v) // unit * unit for v in given]]
    assert made["r"][0][3] == 0
    assert 0 < file.feasible_multipliers(program(rows()), {"r": np.zeros((1, 4))}, 53)["r"][0][0] + 1
    third = [F(1, 3)] * 4
    few = file.feasible_multipliers(program(rows()), {"r": [third]}, 10)["r"][0]
    unit = F(1, 2**20)  # of 1/3 = 0.67 * 2⁻¹: 10 + 9 bits and one
    assert few == [F(1, 3) // unit * unit] * 4
    # The largest of all rows says how fine they are, those of others too.
    beside = {"r": np.full((1, 4), 3.0), "other": np.full((1, 4), 2.0**-59 / 3)}
    made = file.feasible_multipliers(program(rows(), rows("other"), intercept=False), beside)
    assert made["other"][0] == [0] * 4
    # Only rows that are given have multipliers.
    assert set(file.feasible_multipliers(program(rows(), rows("other")), {"r": [third]})) == {"r"}


# -- points --------------------------------------------------------------------------------


def point(faces, W, b, hard=(), prices=None, bits=10):
    told = SimpleNamespace(
        rows=hard, prices=prices or [[(0, 0, 0, F(-2), F(3))] * len(w) for w in W],
        features=SimpleNamespace(scores=lambda w: ([sum(w), w[0] - w[1]], F(0))),
    )  # fmt: skip
    return file.feasible_point(told, SimpleNamespace(W=W, b=b, bits=bits))


def test_point_is_clipped_to_box():
    """Weights outside their box are at its ends."""
    W = [np.array([-5.0, 0.25]), [F(1, 3), F(7)]]
    assert point(2, W, [0.5, 1]) == ([[-2, F(1, 4)], [F(1, 3), 3]], [F(1, 2), 1])
    assert point(2, W, [0.5, 1], hard=[rows(side=(1, 1), cap=(2, 2))])[0][0] == [-2, F(1, 4)]


MARGIN = rows(side=(1, -1), cap=(inf, inf))  # s f >= 1
BOUND = rows("bound", side=(-1, -1), cap=(inf, inf), kink=-3)  # f <= 3
FIRST = rows(side=(1, 1), cap=(inf, 5))  # the second has slack
SIGN = rows(side=(1, 1), cap=(inf, inf), kink=0)


@pytest.mark.parametrize(
    ("f", "hard", "factor"),
    [
        ((2, -2), [MARGIN], 1),
        ((F(1, 2), -1), [MARGIN], 2),
        ((3, F(-3, 4)), [MARGIN], F(171, 128)),  # 4/3, up to the grid
        ((1, 1), [MARGIN], None),
        ((3, -9), [BOUND], 1),
        ((4, 6), [BOUND], F(1, 2)),
        ((7, 0), [BOUND], F(54, 128)),  # 3/7, down to the grid
        ((F(1, 2), -1), [MARGIN, BOUND], 2),
        ((F(1, 2), F(-7, 2)), [FIRST, BOUND], 2),
        ((F(1, 2), 2), [FIRST, BOUND], None),
        ((1, 1), [FIRST], 1),
        ((1, 2), [SIGN], 1),
        ((-1, 2), [SIGN], None),
    ],
)
def test_point_is_scaled_to_hard_rows(f, hard, factor):
    """By a factor on a grid of three bits fewer than the claim; None: by no factor."""
    W, prices = [[F(f[0] + f[1]) / 2, F(f[0] - f[1]) / 2]], [[(0, 0, 0, F(-99), F(99))] * 2]
    if factor is None:
        with pytest.raises(ValueError, match="no multiple"):
            point(1, W, [0], hard, prices)
    else:
        assert point(1, W, [0], hard, prices) == ([[factor * w for w in W[0]]], [0])


# -- groups and shares ---------------------------------------------------------------------


def group_program(shape="square", price=2.0, l1=(0.5,) * 4, low=-np.inf, high=np.inf):
    prices = [[(1, F(v), 0, low, high) for v in l1]] * 2
    return SimpleNamespace(groups=[1, 1, 2, 0], group=F(price), shape=shape, prices=prices, width=4)


def held(told, V, W):
    made = file.group_multipliers(
        told, [[F(v) for v in part] for part in V], [[F(v) for v in part] for part in W]
    )
    assert all(isinstance(v, Fraction) for part in made for v in part)
    return np.array([[float(v) for v in part] for part in made])


def test_group_holds_at_most_its_price():
    """A group holds what is beyond the price of single weights up to its own."""
    W = [[0, 0, 0, 0], [0, 0, 0, 0]]
    V = [[3.5, -4.5, 0.25, 9.0], [0.25, 0.5, -1.5, 9.0]]
    made = held(group_program(), V, W)
    within = 1.0 - 1e-13
    # 3 and -4 are of length 5, the price is 2; of the other -1 is held whole.
    expected = [[1.2 * within, -1.6 * within, 0, 0], [0, 0, -1.0, 0]]
    assert made == pytest.approx(np.array(expected), abs=1e-15)
    assert np.linalg.norm(made[0, :2]) < 2.0
    # A weight at its end is not pulled further: low or high of 0.
    one_sided = held(group_program(low=0, high=np.inf), V, W)
    assert one_sided == pytest.approx(np.array([[2.0, 0, 0, 0], [0, 0, 0, 0]]), abs=1e-12)
    other = held(group_program(low=-np.inf, high=0), V, W)
    assert other == pytest.approx(np.array([[0, -2.0, 0, 0], [0, 0, -1.0, 0]]), abs=1e-12)


def test_group_holds_along_used_faces():
    """If the longest face is paid for, a group holds along the faces that use it."""
    V = [[3.5, -4.5, 1.5, 0.0], [1.0, 0.5, -1.5, 9.0]]
    made = held(group_program("worst"), V, [[3, 0, 0, 1], [0, 4, 0, 1]])
    assert made[:, :2] == pytest.approx(np.array([[1.2, 0], [0, 1.6]]), abs=1e-12)
    # The second group is used by no face: along the pulls, at most its length.
    assert made[:, 2:] == pytest.approx(np.array([[1.0, 0], [-1.0, 0]]), abs=1e-12)
    assert held(group_program("square"), V, [[3, 0, 0, 1], [0, 4, 0, 1]])[0, 1] < 0
    short = held(group_program("worst"), V, [[0.03, 0, 0, 1], [0, 0.04, 0, 1]])
    assert short[:, :2] == pytest.approx(np.array([[1.2, 0], [0, 1.6]]), abs=1e-12)


def test_shares_add_up():
    """Shares of faces are fractions that add up to 1, and none is rounded to 0."""
    assert file.face_weights([0.0, 0.0, 0.0]) == [1, 0, 0]
    assert file.face_weights([1.0, 3.0]) == [F(1, 4), F(3, 4)]
    tiny = file.face_weights([1e-30, 2.0, 1.0])
    assert tiny[0] == F(1, 1 << 50)
    assert sum(tiny) == 1
    assert tiny[2] == F(round((1 << 50) / 3), 1 << 50)
    assert float(tiny[1]) == pytest.approx(2 / 3, rel=1e-12)  # the largest gives what is missing
    assert file.face_weights([0.0, 2.0, 0.0]) == [0, 1, 0]
