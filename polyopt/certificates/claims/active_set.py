"""The optimum of a program from its active set: in fractions, or to as many digits as are wanted.

If it is known which constraints are active, the remaining unknowns solve linear equations. A close point
shows the active set. Then the signs of the solution are checked, and what is on the wrong side changes its
state; if nothing is, the conditions of optimality hold exactly.

:func:`optimum` is for faces that pay h|w|² and the sum of hinge losses, each a program of its own. A row is
idle (s f ≥ c, multiplier 0), full (s f ≤ c, multiplier C) or on its kink (s f = c, multiplier between). The
multipliers on the kink and b solve

    Σ_j K_ij β_j / 2h + b = s_i c  on the kink,    Σ β_i = 0 with an intercept,    β_i = Σ s m.

:func:`optimal_vertex` is for linear and quadratic programs of weights, some of which are at a corner of their
price (at 0 or at an end). A unit is a set of rows that share one slack ξ: a row, or all rows of a sample that
pays for the worst.

    2h w + l sign(w) + D·(slope of the variance) = v      a weight at no corner
    Σ β = 0                                               a face with an intercept
    c − s f = ξ                                           an active row; ξ = 0 unless the unit pays
    Σ m = C                                               a unit that pays
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

import numpy as np

from polyopt.check.check import Program, Rows, number

Vector = list[Fraction]
Key = tuple[
    Any, ...
]  # an unknown: ("w", face, weight), ("b", face), ("m", family, sample, face), ("xi", unit)
Solve = Callable[[list[Vector], Vector, Vector], Vector]

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
    """One face: its rows, and the state of each: 0 idle, 1 on the kink, 2 full."""

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
        """Intercept and multipliers, once all rows are on the side of their state."""
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
        """The right state of a row, or None if it has it."""
        (row, i), state = self.places[at], self.state[at]
        cap, room = row.cap[i], row.side[i] * f[i] - row.kink
        if state == 1:
            return 0 if m < -self.slack else 2 if cap is not None and m > cap + self.slack else None
        return 1 if (room < -self.slack if state == 0 else room > self.slack) else None

    def _solved(self, solve: Solve) -> tuple[Vector, Vector, Vector]:
        """Multipliers of all rows, b, and the outputs, for the states as they are."""
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
        """The middle of the optimal intercepts, if no multiplier is between its ends."""
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


_ZERO, _ONE = Fraction(0), Fraction(1)


def check_vertex_form(program: Program) -> None:
    """Raise ValueError for a program whose optimum is not rational, or is not found here."""
    hinges = all(row.loss == "hinge" and row.pays != "soft" for row in program.rows)
    counted = program.kind != "kernel" and any(price[2] for face in program.prices for price in face)
    if program.shape != "square" or program.grouped or not hinges or counted:
        raise ValueError(
            "exact solutions are of programs whose optimum is rational: hinge losses and, of single weights, "
            "squares, absolute values and ends; this one has logarithms, lengths, or numbers of weights"
        )


def optimal_vertex(
    program: Program, W: list[Vector], b: Vector, near: dict[str, list[Vector]], close: float
) -> tuple[list[Vector], Vector, dict[str, list[Vector]]]:
    """Return faces, intercepts and multipliers of the optimum next to a point.

    W (K lists) and b (empty if the program has none) are the point, `near` its multipliers: by the names of
    the rows, for each face n of them. A number that is within `close`, relative to the largest of its kind,
    of an end is taken to be at the end. Raise ValueError if the states do not settle: the point is too far,
    or the optimum is degenerate.
    """
    found = _Corners(program, W, b, near, close)
    for turn in range(60):
        found.solve()
        wrong = found.wrong()
        if not wrong:
            return found.W, found.b if program.intercept else [], found.multipliers()
        for change in wrong if turn < 12 else wrong[:1]:  # all changes at once may go round in a circle
            change()
    raise ValueError(
        "the rows and weights that hold the optimum do not settle: solve more closely first (a smaller tol), "
        "or the optimum is degenerate"
    )


class _Corners:
    """Weights at corners, active rows, and the point that follows from them."""

    def __init__(
        self, program: Program, W: list[Vector], b: Vector, near: dict[str, list[Vector]], close: float
    ):
        self.program, self.near, n = program, near, program.samples.n
        self.W, self.b = [list(w) for w in W], list(b) or [_ZERO] * program.faces
        one = [[Fraction(int(j == at)) for j in range(program.width)] for at in range(program.width)]
        self.phi = [list(row) for row in zip(*(program.through(e, True)[0] for e in one), strict=True)]
        kernel = program.kind == "kernel"
        free = (program.factor, _ZERO, _ZERO, -inf, inf) if kernel else None
        self.prices: list[list[Any]] = [[free] * n] if free else program.prices
        self.pull = [[Fraction(int(i == j)) for i in range(n)] for j in range(n)] if kernel else None
        self.at: list[list[Fraction | None]] = []  # the corner of each weight, or None
        self.touch: dict[tuple[int, int], Fraction] = {}  # and what holds one there that is pulled as hard
        for w, prices in zip(self.W, self.prices, strict=True):
            ends = Fraction(close) * (max(map(abs, w), default=_ZERO) or 1)
            self.at.append([_corner(v, price, ends) for v, price in zip(w, prices, strict=True)])
        f = self.scores()
        self.units = [
            Unit(row, i, own, near[row.name], f, close)
            for row in program.rows
            for i, at in enumerate(row.at)
            if row.cap[i] != 0
            for own in ([[k] for k in at] if row.pays == "sum" else [at])
            if own
        ]

    def scores(self) -> list[Vector]:
        """f_k, for all samples."""
        parts = zip(self.W, self.b, strict=True)
        return [
            [sum((p * v for p, v in zip(phi, w, strict=True) if v), b) for phi in self.phi] for w, b in parts
        ]

    def pulled(self, beta: Vector) -> Vector:
        """The pull on each weight."""
        return (
            beta
            if self.pull
            else [
                sum((b * phi[j] for b, phi in zip(beta, self.phi, strict=True) if b), _ZERO)
                for j in range(self.program.width)
            ]
        )

    def solve(self) -> None:
        """Weights, intercepts, multipliers and slacks, for the states as they are."""
        program = self.program
        keys: dict[Key, Fraction] = {}
        for k, corners in enumerate(self.at):
            for j, corner in enumerate(corners):
                if corner is None:
                    keys["w", k, j] = self.W[k][j]
            if program.intercept:
                keys["b", k] = self.b[k]
        for u, unit in enumerate(self.units):
            if not unit.is_full:
                keys |= {("m", u, k): unit.m[k] for k in unit.holds}
                if unit.pays:
                    keys["xi", u] = unit.xi
        if len(keys) > MAX_EQUATIONS:
            raise ValueError(f"{len(keys)} numbers are at no end; at most {MAX_EQUATIONS} are solved for")
        place = {key: p for p, key in enumerate(keys)}
        lines = [self._line(parts, right, place) for parts, right in self._equations()]
        x = (
            exactly([line for line, _ in lines], [right for _, right in lines], list(keys.values()))
            if lines
            else []
        )
        values = dict(zip(keys, x, strict=True))
        for k, corners in enumerate(self.at):
            self.W[k] = [values.get(("w", k, j), corner or _ZERO) for j, corner in enumerate(corners)]
            self.b[k] = values.get(("b", k), _ZERO)
        f = self.scores()
        for u, unit in enumerate(self.units):
            full = unit.cap if unit.is_full else None
            unit.m = {k: (full or values["m", u, k]) if k in unit.holds else _ZERO for k in unit.faces}
            unit.xi = (
                max(unit.above(f, k) for k in unit.holds) if unit.is_full else values.get(("xi", u), _ZERO)
            )

    def _line(
        self, parts: dict[Key, Fraction], right: Fraction, place: dict[Key, int]
    ) -> tuple[Vector, Fraction]:
        """An equation by places, with known terms on the right."""
        line = [_ZERO] * len(place)
        for key, value in parts.items():
            if key in place:
                line[place[key]] += value
            elif key[0] == "w":
                right -= value * (self.at[key[1]][key[2]] or 0)
        return line, right

    def _equations(self) -> list[tuple[dict[Key, Fraction], Fraction]]:
        """The equations: a coefficient for each unknown, and a right-hand side."""
        found: list[tuple[dict[Key, Fraction], Fraction]] = []
        for k in range(self.program.faces):
            beta, known = self._betas(k)
            found += self._of_weights(k, beta, known)
            if self.program.intercept:
                found.append((combined((_ONE, own) for own in beta), -sum(known, _ZERO)))
        for u, unit in enumerate(self.units):
            if unit.is_full:
                continue
            for k in unit.holds:
                parts = [(_ONE, {("xi", u): _ONE}), (Fraction(unit.side), self._score(unit.i, k))]
                parts += [(Fraction(-unit.side), self._score(unit.i, less)) for less in unit.row.less[unit.i]]
                found.append((combined(parts), unit.row.kink))
            if unit.pays:
                found.append(({("m", u, k): _ONE for k in unit.holds}, unit.cap or _ZERO))
        return found

    def _of_weights(
        self, k: int, beta: list[dict[Key, Fraction]], known: Vector
    ) -> list[tuple[dict[Key, Fraction], Fraction]]:
        """The equations of the weights of a face at no corner, or pulled as hard as a corner holds."""
        found, spread = [], self._spread(k)
        for j, corner in enumerate(self.at[k]):
            if corner is not None and (k, j) not in self.touch:
                continue
            h, price, *_ = self.prices[k][j]
            weights = self.pull[j] if self.pull else [phi[j] for phi in self.phi]
            parts: list[tuple[Fraction, dict[Key, Fraction]]] = [(_ONE, {("w", k, j): 2 * h})]
            parts += [(-p, own) for p, own in zip(weights, beta, strict=True) if p and own]
            parts += [(p, own) for p, own in zip(weights, spread, strict=False) if p]
            right = sum((p * v for p, v in zip(weights, known, strict=True)), _ZERO)
            slope = price * (1 if self.W[k][j] > 0 else -1) if corner is None else self.touch[k, j]
            found.append((combined(parts), right - slope))
        return found

    def _score(self, i: int, k: int) -> dict[Key, Fraction]:
        """f_ik by its unknowns."""
        found: dict[Key, Fraction] = {("w", k, j): p for j, p in enumerate(self.phi[i]) if p}
        return {**found, ("b", k): _ONE}

    def _betas(self, k: int) -> tuple[list[dict[Key, Fraction]], Vector]:
        """β of each sample at a face: its unknown and its known terms."""
        n = self.program.samples.n
        found: list[dict[Key, Fraction]] = [{} for _ in range(n)]
        known = [_ZERO] * n
        for u, unit in enumerate(self.units):
            less = unit.row.less[unit.i]
            for face in unit.holds:
                sign = Fraction(unit.side * ((face == k) - (k in less)))
                if unit.is_full:
                    known[unit.i] += sign * (unit.cap or 0)
                elif sign:
                    found[unit.i]["m", u, face] = sign
        return found, known

    def _spread(self, k: int) -> list[dict[Key, Fraction]]:
        """D z of each sample by the weights, z the slope of the variance; empty without one."""
        program = self.program
        if not program.share:
            return []
        total = sum(program.weights)
        mean = [
            sum((p * phi[j] for p, phi in zip(program.weights, self.phi, strict=True)), _ZERO) / total
            for j in range(program.width)
        ]
        return [
            {("w", k, j): program.share * p * (v - mean[j]) / total for j, v in enumerate(phi)}
            for p, phi in zip(program.weights, self.phi, strict=True)
        ]

    def multipliers(self) -> dict[str, list[Vector]]:
        """By the names of the rows, for each face those of all samples."""
        n, faces = self.program.samples.n, self.program.faces
        found = {row.name: [[_ZERO] * n for _ in range(faces)] for row in self.program.rows}
        for unit in self.units:
            for k, value in unit.m.items():
                found[unit.row.name][k][unit.i] = value
        return found

    def wrong(self) -> list[Any]:
        """Changes of state, one for each weight or unit on the wrong side."""
        found: list[Any] = []
        f, made = self.scores(), self.multipliers()
        betas = [[_ZERO] * self.program.samples.n for _ in self.W]
        for row in self.program.rows:
            row.pull(made[row.name], betas)
        for k, (w, beta) in enumerate(zip(self.W, betas, strict=True)):
            if self.program.share:
                slopes = self.program.spread(self.program.through(w, True)[0], _ZERO)[0]
                beta = [v - self.program.share * z for v, z in zip(beta, slopes, strict=True)]
            for j, pull in enumerate(self.pulled(beta)):
                found += self._wrong_weight(k, j, pull)
        for unit in self.units:
            found += unit.wrong(f)
        return found

    def _wrong_weight(self, k: int, j: int, pull: Fraction) -> list[Any]:
        h, price, _, low, high = self.prices[k][j]
        w, corner = self.W[k][j], self.at[k][j]

        def move(to: Fraction | None, value: Fraction) -> Any:
            def change() -> None:
                self.at[k][j], self.W[k][j] = to, value

            return change

        if corner is None:
            if not low <= w <= high:
                end = low if w < low else high
                return [move(end, end)]
            crossed = price and w * (pull - 2 * h * w) < 0
            return [move(_ZERO, _ZERO)] if crossed else []
        left, near = pull - 2 * h * w, Fraction(price + 1) / 10**9
        up, down = (price if w >= 0 else -price), (price if w > 0 else -price)
        if w < high and left > up:
            return [
                partial(self.touch.__setitem__, (k, j), up) if left <= up + near else move(None, w or _ONE)
            ]
        if w > low and left < down:
            return [
                partial(self.touch.__setitem__, (k, j), down)
                if left >= down - near
                else move(None, w or -_ONE)
            ]
        return []


def _corner(v: Fraction, price: Any, ends: Fraction) -> Fraction | None:
    """The corner of a weight, or None."""
    _, l1, _, low, high = price
    corners = [
        corner for corner in ([_ZERO] if l1 and low <= 0 <= high else []) + [low, high] if abs(corner) < inf
    ]
    return next((corner for corner in corners if abs(v - corner) <= ends), None)


class Unit:
    """One slack: the rows of a sample i at some faces that share it, the active ones, and if it is positive.

    `near` and `f` (K lists) are multipliers and scores of a point close to the optimum.
    """

    def __init__(
        self, row: Rows, i: int, faces: list[int], near: list[Vector], f: list[Vector], close: float
    ):
        self.row, self.i, self.faces, self.cap, self.side = row, i, faces, row.cap[i], row.side[i]
        self.m = {k: near[k][i] for k in faces}
        t = {k: self.above(f, k) for k in faces}
        top, ends = max(t.values()), Fraction(close) * (self.cap or max(map(max, near)) or 1)
        self.holds = {k for k in faces if self.m[k] > ends}
        self.pays = self.cap is not None and self.cap - sum(self.m.values()) <= ends and top > Fraction(close)
        if self.pays and not self.holds:
            self.holds = {max(faces, key=t.__getitem__)}
        self.xi = top if self.pays else _ZERO

    def above(self, f: list[Vector], k: int) -> Fraction:
        """The violation of the row at a face, with no slack."""
        less = sum((f[other][self.i] for other in self.row.less[self.i]), _ZERO)
        return self.row.kink - self.side * (f[k][self.i] - less)

    @property
    def is_full(self) -> bool:
        """True if the unit's one multiplier is at its cap."""
        return self.pays and len(self.holds) == 1

    def wrong(self, f: list[Vector]) -> list[Callable[[], None]]:
        """Changes of state for what is on the wrong side at some scores."""
        found: list[Callable[[], None]] = []
        least = min(self.holds, key=self.m.__getitem__, default=None)
        if least is not None and self.m[least] < 0 and (len(self.holds) > 1 or not self.pays):
            found.append(lambda: self.holds.discard(least))
        top = max(self.faces, key=lambda k: self.above(f, k))
        if top not in self.holds and self.above(f, top) > self.xi:
            found.append(lambda: self.holds.add(top))
        if self.pays and self.xi < 0:
            found.append(lambda: setattr(self, "pays", False))
        if not self.pays and self.cap is not None and sum(self.m.values()) > self.cap:
            found.append(lambda: setattr(self, "pays", True))
        return found


def combined(parts: Iterable[tuple[Fraction, dict[Key, Fraction]]]) -> dict[Key, Fraction]:
    """Add up multiples of linear expressions: factors, and coefficients by unknown."""
    found: dict[Key, Fraction] = {}
    for factor, own in parts:
        for key, value in own.items():
            found[key] = found.get(key, _ZERO) + factor * value
    return found
