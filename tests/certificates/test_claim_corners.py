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


def drawn(faces=1, worst=False, h=0.5, l1=0.0, box=np.inf, share=0.0, n=8, intercept=True, bound=None):
    """A program as the checker has it, its numbers, and the optimum of a solver."""
    m = 3
    rng = np.random.default_rng(0)
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
    for name, side in (("above", -1), ("below", 1)) if bound else ():
        families.append({"name": name, "side": side, "kink": numeral(-bound), "cap": "inf"})
    told = {
        "features": {"kind": "plain"},
        "size": size,
        "faces": faces,
        "intercept": intercept,
        "rows": families,
    }
    cells = [dict(enumerate(row)) for row in X.tolist()]
    program = Program(told, cells, m, y.tolist())
    W, b = cp.Variable((faces, m)), cp.Variable(faces)
    t = 1 - cp.multiply(y[:, None], X @ W.T + cp.reshape(b, (1, faces), order="C"))
    loss = cp.max(t, axis=1) if worst else t
    xi = cp.Variable(n if worst else (n, faces), nonneg=True)
    held = [xi >= t[:, k] for k in range(faces)] if worst else [xi >= loss]
    bounds = [cp.abs(W) <= box] if np.isfinite(box) else []
    f = X @ W.T + cp.reshape(b, (1, faces), order="C")
    held += [f[:, 0] <= bound, f[:, 0] >= -bound] if bound else []
    bounds += [] if intercept else [b == 0]
    spread = sum(cp.sum(cp.multiply(p, cp.square(f[:, k] - p @ f[:, k]))) for k in range(faces))
    cost = h * cp.sum_squares(W) + l1 * cp.sum(cp.abs(W)) + share / 2 * spread + float(C) * cp.sum(xi)
    problem = cp.Problem(cp.Minimize(cost), held + bounds)
    problem.solve(solver="CLARABEL")
    u = np.array([each.dual_value for each in held] if worst else held[0].dual_value.T)
    parts = zip(("above", "below"), held[1:], strict=True) if bound else ()
    rest = {name: exact(each.dual_value) for name, each in parts}
    return program, W.value, b.value if intercept else None, u, rest, problem.value


def exact(values):
    return [[Fraction(float(v)) for v in row] for row in np.atleast_2d(values)]


def solved(program, W, b, u, rest):
    """The exact optimum from this start, whose value and bound are equal."""
    b, near = [] if b is None else exact(b)[0], {"margin": exact(u), **rest}
    found = solve_active_set(program, exact(W), b, near, active_tol=1e-5)
    W, b, multipliers = found
    point = {"w": [[str(v) for v in w] for w in W]} | ({"b": [str(v) for v in b]} if b else {})
    value = program.value(point)
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
    "bounded": {"bound": 1.25},
    "without intercept": {"intercept": False},
}


LEAST = {
    "squares": 14, "corners": 16, "linear": 5, "box": 4, "worst": 5, "worst-corners": 4, "variance": 18,
    "bounded": 16, "without intercept": 18,
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
def test_wrong_state_settles_at_optimum(kind, least):
    """So many neighbours settle at the same optimum; from others the active rows contradict each other."""
    program, W, b, u, rest, value = drawn(**KINDS[kind])
    best, (V, *_) = solved(program, W, b, u, rest)
    assert float(best) == pytest.approx(value, rel=1e-6)
    settled = 0
    for far, pulled in neighbours(W, u):
        try:
            other, (there, *_) = solved(program, far, b, pulled, rest)
        except ValueError:
            continue
        settled += 1
        assert other == best
        assert there == V or kind == "linear"  # which may have several
    assert settled >= least


def test_equal_numbers_are_written_once():
    """Equal numbers of a vector are one numeral, and mostly zeros are places and numerals."""
    half = Fraction(1, 2)
    assert numerals([half]) == [numeral(half)]
    assert numerals([half, half]) == numeral(half)
    assert numerals([half, 0, 0]) == {"at": [0], "is": [numeral(half)]}
    assert numerals(np.zeros(1)) == {"at": [], "is": []}


@pytest.mark.parametrize("size", [Fraction(1), Fraction(2) ** 40, Fraction(1, 2**40)])
def test_digits_are_relative_to_largest_number(size):
    """A solution to so many bits is on the grid of its largest number, and within half a unit."""
    right = [size, size / 1024]
    found = solve_refined(
        [[Fraction(3), Fraction(0)], [Fraction(0), Fraction(3)]], right, [Fraction(0)] * 2, bits=20
    )
    unit = Fraction(2) ** int(np.frexp(float(size) / 3)[1] - 20)
    for x, value in zip(found, right, strict=True):
        assert (x / unit).denominator == 1
        assert abs(x - value / 3) <= unit / 2
