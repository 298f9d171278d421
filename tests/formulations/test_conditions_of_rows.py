"""The conditions of optimality of each kind of row, by hand, at points and multipliers of any size."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from formulations.language.optimality import Condition, Conditions, conditions
from formulations.language.program import Program, Row

ROOM, EVEN, CONE, MATRIX = "room", "even", "cone", "matrix"


def stated():
    x, t = cp.Variable(2, name="x"), cp.Variable(1, name="t")
    X = cp.Variable((2, 2), name="X")
    rows = (
        Row(ROOM, x <= np.array([1e-7, 0.0]), "x ≤ r", "a", "a price"),
        Row(EVEN, cp.sum(x) == 0, "Σ x = 0", "b", "a price"),
        Row(CONE, cp.SOC(t, cp.reshape(x, (2, 1), order="F"), axis=0), "‖x‖ ≤ t", "c", "a price"),
        Row(MATRIX, X >> 0, "X ⪰ 0", "d", "a price"),
    )
    objective = cp.Minimize(2 * x[0] - x[1] + 3 * cp.sum(t) + cp.trace(X))
    letters = {"x": x, "t": t, "X": X}
    return Program("toy", "Toy", "a test (2026), eq. (0)", objective, "f", letters, rows)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("price", [1e-5, 1.0, 1e3])
def test_conditions_are_relative(size, price):
    """Each violation and its scale are those by hand, for points and multipliers of any size."""
    program = stated()
    x, t, X = (
        size * np.array([3.0, -1.0]),
        size * np.array([2.0]),
        size * np.array([[-1.0, 0.5], [0.5, 0.25]]),
    )
    a, b, c = price * np.array([-1.0, 0.5]), price * 0.75, price * np.array([[2.0], [-3.0], [1.0]])
    d = price * np.array([[0.5, 1.0], [1.0, -0.25]])
    found = conditions(program, {"x": x, "t": t, "X": X}, {ROOM: a, EVEN: np.array(b), CONE: c, MATRIX: d})
    parts = {(part.kind, part.row): part for part in found.parts}
    value = 2 * x[0] - x[1] + 3 * t[0] + np.trace(X)
    scale, largest, least = abs(value), price * 3.0, size * 3.0

    def check(kind, row, violation, scale):
        assert np.ravel(parts[kind, row].violation) == pytest.approx(
            np.ravel(violation), rel=1e-12, abs=1e-300
        )
        assert parts[kind, row].scale == pytest.approx(scale, rel=1e-12)
        assert parts[kind, row].relative == pytest.approx(max(np.max(violation), 0.0) / scale)

    room = x - np.array([1e-7, 0.0])
    check("primal", ROOM, room, least)
    check("sign", ROOM, -a, largest)
    check("complementarity", ROOM, np.abs(a * room), scale)
    check("primal", EVEN, [abs(x.sum())], least)
    assert ("sign", EVEN) not in parts
    check("primal", CONE, [np.hypot(*x) - t[0]], least)
    check("sign", CONE, [np.hypot(*c[1:, 0]) - c[0, 0]], largest)
    inner = float(c[0, 0] * t[0] + c[1:, 0] @ x)
    check("complementarity", CONE, [abs(inner)], scale)
    check("primal", MATRIX, [-np.linalg.eigvalsh(X)[0]], least)
    check("sign", MATRIX, [-np.linalg.eigvalsh(d)[0]], largest)
    check("complementarity", MATRIX, [abs((d * X).sum())], scale)
    lagrangian = value + a @ room + b * x.sum() - inner - (d * X).sum()
    assert found.lagrangian == pytest.approx(lagrangian, rel=1e-12)
    slope = np.array([2.0, -1.0]) + a + b - c[1:, 0]
    check("stationarity", "x", np.abs(slope), max(2.0, *np.abs(a), b, *np.abs(c[1:, 0])))
    check("stationarity", "t", [abs(3.0 - c[0, 0])], max(3.0, c[0, 0]))
    check("stationarity", "X", np.abs(np.eye(2) - d), max(1.0, np.abs(d).max()))


def test_scale_of_zeros_is_one():
    """Where all is 0 conditions are absolute; stationarity is relative to the costs."""
    program = stated()
    nothing = {"x": np.zeros(2), "t": np.zeros(1), "X": np.zeros((2, 2))}
    duals = {ROOM: np.zeros(2), EVEN: np.zeros(()), CONE: np.zeros((3, 1)), MATRIX: np.zeros((2, 2))}
    found = conditions(program, nothing, duals)
    assert {part.scale for part in found.parts if part.kind != "stationarity"} == {1.0}
    assert {part.row: part.scale for part in found.parts if part.kind == "stationarity"} == {
        "x": 2.0, "t": 3.0, "X": 1.0,
    }  # fmt: skip
    assert found.shortfall == 1.0


def test_shortfall_is_the_worst():
    """The shortfall is the largest of the gap and the relative violations."""
    part = Condition("sign", "a", np.array([-1.0, 0.5]), 2.0)
    assert Conditions(4.0, 3.0, (part,)).shortfall == 0.25
    assert Conditions(4.0, 3.5, (part, Condition("sign", "b", np.array([0.9]), 2.0))).shortfall == 0.45
    assert Conditions(0.0, 0.0, ()).shortfall == 0.0
    assert Conditions(-3.0, -4.0, ()).shortfall == 0.25
    assert Conditions(np.inf, 1.0, ()).shortfall == np.inf
    assert Condition("sign", "a", np.array([0.3]), 0.0).relative == 0.3
    assert Condition("sign", "a", np.array([np.inf]), 1.0).relative == np.inf
    assert Condition("sign", "a", np.zeros(0), 1.0).relative == 0.0
