"""The rational optimum of linear and quadratic programs of weights, from its active set.

Where it is known which weights are at a corner of their price (at 0 or at an end) and which rows hold, the
others and the multipliers solve linear equations. A unit is what shares one slack ξ: a row, or all rows of a
sample that pays for the worst.

    2h w + l sign(w) + D·(slope of the variance) = v      a weight at no corner
    Σ β = 0                                               a face with an intercept
    c − s f = ξ                                           a row that holds; ξ = 0 unless the unit pays
    Σ m = C                                               a unit that pays

A close point shows who is where. Then the signs are looked at: a weight beyond its corner, a multiplier or a
slack below 0, a row above its unit's slack, multipliers above their cap. What is on the wrong side changes
its state; where nothing is, these are the conditions of optimality, and they hold exactly.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from polyopt.certificates.claims.exact import MAX_EQUATIONS, exactly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polyopt.check.check import Program, Rows

    Vector = list[Fraction]
    Key = tuple[
        Any, ...
    ]  # an unknown: ("w", face, weight), ("b", face), ("m", family, sample, face), ("xi", unit)

__all__ = ["Unit", "check_vertex_form", "optimal_vertex"]

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
    """Who is at a corner, who holds, and the point that follows."""

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
        """An equation by places; what is known goes to the right."""
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
        """The equations of the weights of a face that are at no corner, or pulled as hard as one holds."""
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
        """β of each sample at a face, by its unknowns, and what is known of it."""
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
    """The corner that a weight is at, if at one."""
    _, l1, _, low, high = price
    corners = [
        corner for corner in ([_ZERO] if l1 and low <= 0 <= high else []) + [low, high] if abs(corner) < inf
    ]
    return next((corner for corner in corners if abs(v - corner) <= ends), None)


class Unit:
    """One slack: the rows of a sample i that share it, at some faces, who is active, and whether it is paid.

    `near` and `f` (K lists) are multipliers and scores of a point close to the optimum; `close` is that of
    :func:`optimal_vertex`.
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
