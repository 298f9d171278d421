"""The rational optimum from points that are not close to it: what is on the wrong side changes its state."""

from __future__ import annotations

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

from polyopt.certificates.claims.active_set import (
    solve_active_set,
    solve_refined,
)
from polyopt.certificates.claims.statement import numeral, numerals
from polyopt.check.check import Program

C = Fraction(1, 2)


def drawn(seed, n=8, m=3, faces=1, worst=False, h=0.5, l1=0.0, box=np.inf, share=0.0):
    """A program as the checker has it, its numbers, and the optimum of a solver."""
    rng = np.random.default_rng(seed)
    X = np.round(4 * rng.normal(size=(n, m))) / 4
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    X[:, 0] += y
    rows = {
        "name": "margin",
        "side": "label",
        "kink": 1,
        "cap": numeral(C),
        "pays": "worst" if worst else "sum",
    }
    size = {"kind": "square", "factor": numeral(h), "l1": numeral(l1)}
    if np.isfinite(box):
        size |= {"low": numeral(-box), "high": numeral(box)}
    p = np.arange(1.0, n + 1) / np.arange(1.0, n + 1).sum()
    families = [rows]
    if share:
        weights = [numeral(share * Fraction(i + 1, n * (n + 1) // 2)) for i in range(n)]
        families.append({"name": "variance", "side": -1, "kink": 0, "cap": weights, "loss": "square"})
    told = {"features": {"kind": "plain"}, "size": size, "faces": faces, "intercept": True, "rows": families}
    cells = [dict(enumerate(row)) for row in X.tolist()]
    program = Program(told, cells, m, y.tolist())
    W, b = cp.Variable((faces, m)), cp.Variable(faces)
    t = 1 - cp.multiply(y[:, None], X @ W.T + cp.reshape(b, (1, faces), order="C"))
    loss = cp.max(t, axis=1) if worst else t
    xi = cp.Variable(n if worst else (n, faces), nonneg=True)
    held = [xi >= t[:, k] for k in range(faces)] if worst else [xi >= loss]
    bounds = [cp.abs(W) <= box] if np.isfinite(box) else []
    f = X @ W.T
    spread = sum(cp.sum(cp.multiply(p, cp.square(f[:, k] - p @ f[:, k]))) for k in range(faces))
    cost = h * cp.sum_squares(W) + l1 * cp.sum(cp.abs(W)) + share / 2 * spread + float(C) * cp.sum(xi)
    problem = cp.Problem(cp.Minimize(cost), held + bounds)
    problem.solve(solver="CLARABEL")
    u = [each.dual_value for each in held] if worst else held[0].dual_value.T
    return program, W.value, b.value, np.array(u), problem.value


def exact(values):
    return [[Fraction(float(v)) for v in row] for row in np.atleast_2d(values)]


def solved(program, W, b, u, close=1e-5):
    """The exact optimum from this start, whose value and bound are equal."""
    found = solve_active_set(program, exact(W), exact(b)[0], {"margin": exact(u)}, active_tol=close)
    W, b, multipliers = found
    value = program.value({"w": [[str(v) for v in w] for w in W], "b": [str(v) for v in b]})
    told = {"rows": {name: [[str(v) for v in m] for m in by_face] for name, by_face in multipliers.items()}}
    gain, price = program.bound(told)
    assert value == gain - price
    return value, found


KINDS = {
    "squares": {},
    "corners": {"l1": 0.3},
    "linear": {"h": 0.0, "l1": 0.3},
    "box": {"box": 0.25, "l1": 0.1},
    "worst": {"worst": True, "faces": 2, "n": 4},
    "worst-corners": {"worst": True, "faces": 2, "n": 6, "l1": 0.2, "box": 0.5},
    "variance": {"share": 0.5},
}


LEAST = {
    "squares": 14, "corners": 16, "linear": 5, "box": 4, "worst": 5, "worst-corners": 4, "variance": 18
}  # fmt: skip


def neighbours(W, u):
    """Points at which one weight or one sample is in another state than at the optimum's."""
    for at in np.ndindex(W.shape):
        V = W.copy()
        V[at] = 0.0 if abs(W[at]) > 1e-4 else 0.01
        yield V, u
    for i in range(u.shape[1]):
        whole = u[:, i].sum()
        for share in (0.0, 0.5, 1.0) if len(u) == 1 else (0.0, 1.0):
            if abs(whole - share * float(C)) > 1e-4:
                pulled = u.copy()
                pulled[:, i] = share * float(C) * (u[:, i] / whole if whole > 1e-4 else np.eye(len(u))[0])
                yield W, pulled


@pytest.mark.parametrize(("kind", "least"), LEAST.items())
def test_from_a_wrong_state_it_comes_to_the_same_optimum(kind, least):
    """Of all neighbours so many; from the others the rows that are taken to hold contradict each other."""
    program, W, b, u, value = drawn(0, **KINDS[kind])
    best, (V, *_) = solved(program, W, b, u)
    assert float(best) == pytest.approx(value, rel=1e-6)
    settled = 0
    for far, pulled in neighbours(W, u):
        try:
            other, (there, *_) = solved(program, far, b, pulled)
        except ValueError:
            continue
        settled += 1
        assert other == best
        assert there == V or kind == "linear"  # which may have several
    assert settled >= least


def rows_of_program(seed, intercept, bound=None):
    """The same draw with |w|² alone, as the checker has it; with a bound, |f| is to be within it."""
    program = drawn(seed)[0]
    rows = [{"name": "margin", "side": "label", "kink": 1, "cap": numeral(C)}]
    if bound is not None:
        for name, side in (("above", -1), ("below", 1)):
            rows.append({"name": name, "side": side, "kink": numeral(-bound), "cap": "inf"})
    told = {
        "features": {"kind": "plain"}, "size": {"kind": "square", "factor": "1/2"}, "faces": 1,
        "intercept": intercept, "rows": rows,
    }  # fmt: skip
    cells = [
        {j: float(Fraction(v, program.features.den)) for j, v in zip(*row, strict=True)}
        for row in program.features.rows
    ]
    made = Program(told, cells, 3, program.rows[0].side)
    X = np.array([[cell.get(j, 0.0) for j in range(3)] for cell in cells])
    y = np.array(program.rows[0].side, dtype=float)
    return made, X, y


@pytest.mark.parametrize(
    ("intercept", "bound", "least"), [(True, None, 14), (False, None, 22), (True, 1.25, 8)]
)
def test_the_states_of_rows_settle_from_wrong_ones(intercept, bound, least):
    """From so many neighbours of the optimum's states; all conditions hold exactly."""
    program, X, y = rows_of_program(0, intercept, bound)
    w, b, xi = cp.Variable(3), cp.Variable(), cp.Variable(len(y), nonneg=True)
    f = X @ w + (b if intercept else 0.0)
    held = [cp.multiply(y, f) >= 1 - xi] + ([] if bound is None else [f <= bound, f >= -bound])
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + float(C) * cp.sum(xi)), held).solve(solver="CLARABEL")
    names = [row.name for row in program.rows]
    u = [np.array(each.dual_value) for each in held]
    W, b = exact(w.value), exact(b.value)[0] if intercept else []
    first, settled = None, 0
    starts = [u] + [
        [np.where(np.arange(len(y)) == i, end, v) if k == at else v for k, v in enumerate(u)]
        for i in range(len(y))
        for at in range(len(u))
        for end in ((0.0, 0.25, 0.5) if bound is None else (0.25,))
    ]
    for start in starts:
        near = {name: exact(part) for name, part in zip(names, start, strict=True)}
        try:
            _, intercepts, found = solve_active_set(program, W, b, near, active_tol=1e-5)
        except ValueError:
            continue
        settled += 1
        first = first or found
        assert found == first
        beta = [Fraction(0)] * len(y)
        for row in program.rows:
            beta = [v + s * m for v, s, m in zip(beta, row.side, found[row.name][0], strict=True)]
        V = program.features.pull(beta)[0]
        assert len(intercepts) == intercept
        point = {"w": [[str(v) for v in V]], "b": [str(v) for v in intercepts]}
        value = program.value(point)
        told = {"rows": {name: [[str(v) for v in part[0]]] for name, part in found.items()}}
        gain, price = program.bound(told)
        assert value == gain - price
    assert settled >= least


def test_numbers_of_a_file_are_one_where_several_are_the_same():
    half = Fraction(1, 2)
    assert numerals([half]) == [numeral(half)]
    assert numerals([half, half]) == numeral(half)
    assert numerals([half, 0, 0]) == {"at": [0], "is": [numeral(half)]}
    assert numerals(np.zeros(1)) == {"at": [], "is": []}


@pytest.mark.parametrize("size", [Fraction(1), Fraction(2) ** 40, Fraction(1, 2**40)])
def test_digits_of_a_solution_are_relative_to_its_largest_number(size):
    right = [size, size / 1024]
    found = solve_refined(
        [[Fraction(3), Fraction(0)], [Fraction(0), Fraction(3)]], right, [Fraction(0)] * 2, bits=20
    )
    unit = Fraction(2) ** int(np.frexp(float(size) / 3)[1] - 20)
    for x, value in zip(found, right, strict=True):
        assert (x / unit).denominator == 1
        assert abs(x - value / 3) <= unit / 2
