"""The optimum of a program of rows from its active set: in fractions, or to as many digits as are wanted.

Of faces that pay h|w|² and the sum of hinge losses, each face is a program of its own. A row is idle (s f ≥
c, multiplier 0), full (s f ≤ c, multiplier C) or on its kink (s f = c, multiplier between). Where it is known
which is which, the multipliers on the kink and b solve linear equations,

    Σ_j K_ij β_j / 2h + b = s_i c  on the kink,    Σ β_i = 0 with an intercept,    β_i = Σ s m.

A close point shows the states; the signs of what the equations give are then looked at, and a row that is
on the wrong side changes its state. Where no sign is wrong, these are the conditions of optimality, and they
hold exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from polyopt.check.check import number

if TYPE_CHECKING:
    from collections.abc import Callable

    from polyopt.check.check import Program, Rows

    Vector = list[Fraction]
    Solve = Callable[[list[Vector], Vector, Vector], Vector]

__all__ = ["MAX_EQUATIONS", "exactly", "has_form", "optimum", "to_digits"]

MAX_EQUATIONS = 400
"""Largest system that is solved in fractions: beyond, numbers of thousands of digits take minutes."""


def has_form(program: Program) -> bool:
    """True if this module finds the program's optimum: |w|² and the sum of hinge losses."""
    alone = all(row.pays == "sum" or max(map(len, row.at)) <= 1 for row in program.rows)
    hinges = all(row.loss == "hinge" and not any(row.less) for row in program.rows)
    return program.is_square and alone and hinges and not isinstance(program.size["factor"], dict | list)


def optimum(
    program: Program, near: dict[str, list[Vector]], scores: list[Vector], solve: Solve, *,
    close: float, slack: Fraction = Fraction(0),
) -> tuple[list[Vector], dict[str, list[Vector]]]:  # fmt: skip
    """Return intercepts and multipliers of the optimum next to a point.

    `near` has multipliers of that point, by the names of the rows, for each face n of them; `scores` are its
    K lists of scores, b included. `solve` solves linear equations: :func:`exactly`, or one of
    :func:`to_digits`. A multiplier that is within `close`, relative to the largest, of an end is taken to be
    at the end. A sign may be wrong by `slack`: 0, unless `solve` rounds. Raise ValueError if the states of
    the rows do not settle: the point is too far, or the optimum is degenerate.
    """
    found: dict[str, list[Vector]] = {row.name: [] for row in program.rows}
    intercepts = []
    for k in range(program.faces):
        face = _Face(program, k, {name: parts[k] for name, parts in near.items()}, scores[k], close, slack)
        b, parts = face.settle(solve)
        intercepts.append(b)
        for name, part in parts.items():
            found[name].append(part)
    return intercepts, found


class _Face:
    """One face: its rows by place, and the state of each: 0 idle, 1 on the kink, 2 full."""

    def __init__(
        self, program: Program, k: int, near: dict[str, Vector], scores: Vector, close: float, slack: Fraction
    ):
        self.program, self.near, self.slack = program, near, slack
        self.half = 2 * number(program.size["factor"])
        self.places = [(row, i) for row in program.rows for i, at in enumerate(row.at) if k in at]
        self.places = [(row, i) for row, i in self.places if row.cap[i] != 0]
        self.columns: dict[int, Vector] = {}
        largest = max((abs(v) for part in near.values() for v in part), default=Fraction(0))
        ends = (largest or 1) * Fraction(close)
        self.state = [self._first(row, i, scores[i], ends, Fraction(close)) for row, i in self.places]

    def _first(self, row: Rows, i: int, f: Fraction, ends: Fraction, close: Fraction) -> int:
        m, cap, room = self.near[row.name][i], row.cap[i], row.side[i] * f - row.kink
        if m <= ends:
            return 0
        full = cap is not None and ((cap - m <= ends and room < close) or abs(room) > 1000 * close)
        return 2 if full else 1

    def column(self, j: int) -> Vector:
        """K_ij / 2h for all samples i."""
        if j not in self.columns:
            one = [Fraction(int(i == j)) for i in range(self.program.samples.n)]
            if self.program.kind != "kernel":
                one = self.program.through(one, False)[0]
            self.columns[j] = [v / self.half for v in self.program.through(one, True)[0]]
        return self.columns[j]

    def settle(self, solve: Solve) -> tuple[Vector, dict[str, Vector]]:
        """Intercept and multipliers, once all rows are on the side that their state says."""
        for _ in range(50):
            m, b, f = self._solved(solve)
            wrong = [at for at in range(len(m)) if self._misfit(at, m[at], f) is not None]
            if not wrong:
                parts = {row.name: [Fraction(0)] * self.program.samples.n for row in self.program.rows}
                for (row, i), value in zip(self.places, m, strict=True):
                    parts[row.name][i] = value
                return b, parts
            for at in wrong:
                self.state[at] = self._misfit(at, m[at], f) or 0
        raise ValueError(
            "the rows that hold the optimum do not settle: solve more closely first (a smaller tol), or the "
            "optimum is degenerate"
        )

    def _misfit(self, at: int, m: Fraction, f: Vector) -> int | None:
        """The state that a row should have, or None where it is right."""
        (row, i), state = self.places[at], self.state[at]
        cap, room = row.cap[i], row.side[i] * f[i] - row.kink
        if state == 1:
            return 0 if m < -self.slack else 2 if cap is not None and m > cap + self.slack else None
        return 1 if (room < -self.slack if state == 0 else room > self.slack) else None

    def _solved(self, solve: Solve) -> tuple[Vector, Vector, Vector]:
        """Multipliers of all places, b, and the outputs, where the rows are as their states say."""
        n, free = self.program.samples.n, [at for at, state in enumerate(self.state) if state == 1]
        if len(free) > MAX_EQUATIONS:
            raise ValueError(
                f"{len(free)} multipliers are between their ends; at most {MAX_EQUATIONS} are solved for"
            )
        beta = [Fraction(0)] * n
        for (row, i), state in zip(self.places, self.state, strict=True):
            if state == 2:
                beta[i] += row.side[i] * (row.cap[i] or 0)
        g = self._outputs(beta)
        kinks = [self.places[at] for at in free]
        A = [[self.column(j)[i] * other.side[j] for other, j in kinks] for _, i in kinks]
        right = [row.side[i] * row.kink - g[i] for row, i in kinks]
        if self.program.intercept:
            A = [[*line, Fraction(1)] for line in A]
            A.append([*(Fraction(other.side[j]) for other, j in kinks), Fraction(0)])
            right.append(-sum(beta, Fraction(0)))
        guess = [self.near[row.name][i] for row, i in kinks] + [Fraction(0)] * self.program.intercept
        x = solve(A, right, guess) if A else []
        b = x[len(free) :]
        if self.program.intercept and not free:
            b = [self._middle(beta, g)]
        m = [Fraction(0)] * len(self.places)
        for at, (row, i) in enumerate(self.places):
            m[at] = (row.cap[i] or m[at]) if self.state[at] == 2 else m[at]
        for at, value in zip(free, x, strict=False):
            row, i = self.places[at]
            m[at] = value
            beta[i] += row.side[i] * value
        shift = b[0] if b else Fraction(0)
        return m, b, [v + shift for v in self._outputs(beta)]

    def _middle(self, beta: Vector, g: Vector) -> Fraction:
        """The middle of the intercepts that are optimal where no multiplier is between its ends."""
        if sum(beta):
            raise ValueError("the states of the rows are not in balance: solve more closely first")
        ends: dict[bool, Vector] = {True: [], False: []}
        for (row, i), state in zip(self.places, self.state, strict=True):
            ends[(row.side[i] > 0) == (state == 0)].append(row.side[i] * row.kink - g[i])
        if not (ends[True] and ends[False]):
            raise ValueError("every intercept beyond some number is optimal: none is named")
        return (max(ends[True]) + min(ends[False])) / 2

    def _outputs(self, beta: Vector) -> Vector:
        c = beta if self.program.kind == "kernel" else self.program.through(beta, False)[0]
        return [v / self.half for v in self.program.through(c, True)[0]]


def exactly(A: list[Vector], right: Vector, guess: Vector) -> Vector:
    """Solve A x = right in fractions; free components are as in the guess, which is nearly a solution.

    Raise ValueError if the equations contradict each other.
    """
    rows = [[*line, value] for line, value in zip(A, right, strict=True)]
    pivots: list[int] = []
    for column in range(len(A[0])):
        top = len(pivots)
        lead = next((r for r in range(top, len(rows)) if rows[r][column]), None)
        if lead is None:
            continue
        rows[top], rows[lead] = rows[lead], rows[top]
        pivot = rows[top][column]
        rows[top] = [v / pivot for v in rows[top]]
        for r, line in enumerate(rows):
            if r != top and line[column]:
                factor = line[column]
                rows[r] = [v - factor * p for v, p in zip(line, rows[top], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        raise ValueError("the rows that hold the optimum contradict each other: solve more closely first")
    found = list(guess)
    free = [column for column in range(len(found)) if column not in set(pivots)]
    for column, row in zip(pivots, rows, strict=False):
        found[column] = row[-1] - sum((row[other] * guess[other] for other in free), Fraction(0))
    return found


def to_digits(bits: int) -> Solve:
    """Return a solver of linear equations by iterative refinement, to about this many bits after the point.

    The bits are relative to the largest number of the solution. Each turn solves for the residual in double
    precision, and takes the new residual exactly.
    """

    def solve(A: list[Vector], right: Vector, guess: Vector) -> Vector:
        inverse = np.linalg.pinv(np.array([[float(v) for v in line] for line in A]), rcond=1e-13)
        x, left, grid = [Fraction(0)] * len(A[0]), right, Fraction(0)
        for _ in range(40):
            size = max(map(abs, left))
            if not size:
                break
            unit = Fraction(2) ** (size.numerator.bit_length() - size.denominator.bit_length())
            step = inverse @ np.array([float(v / unit) for v in left])
            moved = [v + Fraction(float(s)) * unit for v, s in zip(x, step, strict=True)]
            if not grid:
                grid = Fraction(2) ** (bits - int(np.frexp(float(max(map(abs, moved))) or 1.0)[1]))
            moved = [round(v * grid) / grid for v in moved]
            rest = [_less(line, moved, value) for line, value in zip(A, right, strict=True)]
            if max(map(abs, rest)) >= size:
                break
            x, left = moved, rest
        return x

    return solve


def _less(line: Vector, x: Vector, value: Fraction) -> Fraction:
    """The residual of an equation, without rounding."""
    return value - sum((a * v for a, v in zip(line, x, strict=True)), Fraction(0))
