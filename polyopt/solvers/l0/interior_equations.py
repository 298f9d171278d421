"""Newton's equations of :mod:`polyopt.solvers.l0.interior`, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = ["Equations", "Program", "direction", "equations_at", "factorise"]

_NEARLY = 1e-11  # of what the columns add to a row's equation, that is added to it before it is reduced
_EXACT = 1e-13  # of the largest number in the equations: what is left after a correction that was enough
_SINGULAR = 1e-10  # added to the diagonal, in relation, where the equations have no factor


class Program(NamedTuple):
    """The columns and y, B (n, p + 1), with their squares; costs (n,); and the pieces.

    Each of the m pieces has its column, prices l and d, and cap (m,), first ones before second ones.
    """

    B: Vector
    squares: Vector
    costs: Vector
    column: NDArray[np.int64]
    linear: Vector
    square: Vector
    cap: Vector


class Equations(NamedTuple):
    """Newton's equations at a point, reduced to the columns and b: what is left of each, and their factor."""

    gradient: Vector
    caps: Vector
    costs: Vector
    margins: Vector
    inverse: Vector
    by_column: Vector
    by_row: Vector
    factored: Vector
    factor: Vector


@njit(cache=True, error_model="numpy")
def equations_at(program: Program, x: Vector, z: Vector, b: float) -> Equations:
    """The equations at a point; what is left of each row is rounding, but for the margins at the start."""
    (n, width), m = program.B.shape, len(program.cap)
    gradient, caps, inverse = np.zeros(m), np.zeros(m), np.zeros(m)
    costs, margins, by_row, factored, u = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    a, by_column = np.zeros(width), np.zeros(width)
    for i in range(n):
        u[i] = z[2 * m + n + i]
    rates = np.dot(u, program.B)
    for q in range(m):
        j, v, room, low, high = program.column[q], x[q], x[m + q], z[q], z[m + q]
        gradient[q] = program.linear[q] + 2.0 * program.square[q] * v - rates[j] - low + high
        caps[q] = program.cap[q] - v - room
        inverse[q] = 1.0 / (2.0 * program.square[q] + low / v + high / room)
        by_column[j] += inverse[q]
        a[j] += v
    a[width - 1] = b
    outputs, added = np.dot(program.B, a), np.dot(program.squares, by_column)
    half = program.B.copy()
    for i in range(n):
        xi, s, w = x[2 * m + i], x[2 * m + n + i], z[2 * m + i]
        costs[i] = program.costs[i] - u[i] - w
        margins[i] = outputs[i] + xi - s - 1.0
        by_row[i] = xi / w + s / u[i]
        factored[i] = by_row[i] + _NEARLY * added[i]
        scale = 1.0 / np.sqrt(factored[i])
        for j in range(width):
            half[i, j] *= scale
    matrix = np.dot(half.T, half)
    for j in range(width - 1):
        matrix[j, j] += 1.0 / by_column[j]
    return Equations(gradient, caps, costs, margins, inverse, by_column, by_row, factored, matrix)


@njit(cache=True, error_model="numpy")
def factorise(equations: Equations) -> bool:
    """Cholesky's factor R'R in the matrix's place, moved a little where it has none; whether there is one."""
    matrix = equations.factor.copy()
    for moved in (0.0, _SINGULAR):
        R = equations.factor
        for r in range(len(R)):
            for s in range(r, len(R)):
                R[r, s] = matrix[r, s]
            R[r, r] += moved * matrix[r, r]
        if _factored(R):
            return True
    return False


@njit(cache=True, error_model="numpy")
def _factored(R: Vector) -> bool:
    """R of R'R in the upper half of a matrix, row by row: sums along a row are of many numbers at once."""
    for r in range(len(R)):
        if not (R[r, r] > 0.0 and np.isfinite(R[r, r])):
            return False
        scale = 1.0 / np.sqrt(R[r, r])
        for s in range(r, len(R)):
            R[r, s] *= scale
        for t in range(r + 1, len(R)):
            taken = R[r, t]
            for s in range(t, len(R)):
                R[t, s] -= taken * R[r, s]
    return True


@njit(cache=True, error_model="numpy")
def direction(
    program: Program, x: Vector, z: Vector, equations: Equations, products: Vector, corrections: int,
    dx: Vector, dz: Vector,
) -> float:  # fmt: skip
    """The change of x, z and b, which is returned, that changes the products x z by so much, to first order.

    The solution is corrected at most so many times.
    """
    (n, width), m = program.B.shape, len(program.cap)
    g, h, G, balance, largest = np.zeros(m), np.zeros(n), np.zeros(width), 0.0, 0.0
    for q in range(m):
        upper = (products[m + q] - z[m + q] * equations.caps[q]) / x[m + q]
        g[q] = products[q] / x[q] - upper - equations.gradient[q]
        G[program.column[q]] += equations.inverse[q] * g[q]
    for i in range(n):
        at, by = 2 * m + i, 2 * m + n + i
        h[i] = products[by] / z[by] - (products[at] - x[at] * equations.costs[i]) / z[at]
        h[i] -= equations.margins[i]
        balance += program.B[i, width - 1] * z[by]
        largest = max(largest, abs(h[i]))
    d, du, rows, columns = np.zeros(width), np.zeros(n), h.copy(), G.copy()
    rest, off = balance, np.inf
    for made in range(corrections + 1):
        _solve(program, equations, rows, columns, rest, d, du)
        outputs, rates = np.dot(program.B, d), np.dot(du, program.B)
        was, off = off, 0.0
        for i in range(n):
            rows[i] = h[i] - outputs[i] - equations.by_row[i] * du[i]
            off = max(off, abs(rows[i]))
        if made == corrections or off <= _EXACT * largest or not off < 0.5 * was:
            break
        for j in range(width - 1):
            columns[j] = G[j] - d[j] + equations.by_column[j] * rates[j]
        rest = rates[width - 1] + balance
    for q in range(m):
        dx[q] = equations.inverse[q] * (g[q] + rates[program.column[q]])
        dx[m + q] = equations.caps[q] - dx[q]
        dz[q] = (products[q] - z[q] * dx[q]) / x[q]
        dz[m + q] = (products[m + q] - z[m + q] * dx[m + q]) / x[m + q]
    for i in range(n):
        at, by = 2 * m + i, 2 * m + n + i
        dz[at], dz[by] = equations.costs[i] - du[i], du[i]
        dx[at] = (products[at] - x[at] * dz[at]) / z[at]
        dx[by] = (products[by] - x[by] * du[i]) / z[by]
    return d[width - 1]


@njit(cache=True, error_model="numpy")
def _solve(
    program: Program, equations: Equations, rows: Vector, columns: Vector, balance: float, d: Vector,
    du: Vector,
) -> None:  # fmt: skip
    """Add to d, b last, and du the changes with A d + E du = rows, d − S A'du = columns, y'du = −balance."""
    R, width = equations.factor, len(d)
    part = np.zeros(len(du))
    for i in range(len(du)):
        part[i] = rows[i] / equations.factored[i]
    rhs = np.dot(part, program.B)
    for j in range(width - 1):
        rhs[j] += columns[j] / equations.by_column[j]
    rhs[width - 1] += balance
    for r in range(width):
        rhs[r] /= R[r, r]
        for s in range(r + 1, width):
            rhs[s] -= R[r, s] * rhs[r]
    for r in range(width - 1, -1, -1):
        total = rhs[r]
        for s in range(r + 1, width):
            total -= R[r, s] * rhs[s]
        rhs[r] = total / R[r, r]
    outputs = np.dot(program.B, rhs)
    for j in range(width):
        d[j] += rhs[j]
    for i in range(len(du)):
        du[i] += (rows[i] - outputs[i]) / equations.factored[i]
