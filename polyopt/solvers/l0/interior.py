"""A node's or a pattern's program with a price of squares, by an interior-point method.

    min  Σ_j φ_j(a_j) + Σ_i c_i [1 − (A a)_i − y_i b]_+

where φ_j is convex, and made of two pieces at most: a_j = v_1 + v_2, each of which costs l v + d v², d ≥ 0,
and is from 0 to its cap. A coefficient that is on has one piece, with l = 0; one that is free has the reverse
Huber function of :mod:`formulations.l0_ridge`, whose second piece is what is beyond its knee.

The method is primal and dual, with Mehrotra's predictor and corrector. Its equations are those of the columns
and of b: as many as there are columns, however many samples there are. Two columns that are nearly the same
make them nearly singular, so each solution is corrected once by what it leaves of the equations before they
were reduced: without that, cubic kernels end at gaps of 1e-6, with it at 1e-10 in 15 to 30 steps.

Nothing here is believed: what the multipliers prove is evaluated by :mod:`polyopt.certificates.l0`.

Reference: Mehrotra, On the implementation of a primal-dual interior point method (1992).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs  # scipy's own functions take longer than these to begin

if TYPE_CHECKING:
    from formulations.matrices import Vector
    from polyopt.solvers.clock import Clock

__all__ = ["Pieces", "Point", "minimise"]

_MOST = 60  # steps; some dozen are usual
_SHORT = 0.995  # of the way to the nearest bound
_CENTRED = 0.01  # of the mean product, that each keeps
_SHORTER, _TIMES = 0.7, 12  # by how much a step is shortened that does not, and how many times
_LOSES = 0.5  # of what it has of that, the least one, at a step
_SHORTEST, _MIDDLE = 0.1, 0.5  # a step under which the products are made alike, of this much of their mean
_START = 0.01  # of its cap, at which each piece begins
_PATIENCE = 8  # steps that do not halve the gap, after which it will not get smaller
_NEARLY = 1e-11  # of what the columns add to a row's equation, that is added to it before it is reduced
_CORRECTIONS = 3  # of a solution, by what it leaves of the equations, as long as that halves
_EXACT = 1e-13  # of the largest number in the equations: what is left after a correction that was enough
_SINGULAR = 1e-10  # added to the diagonal, in relation, where the equations have no factor
_SPARE = 1e-10  # of the value, that it may rise by as pieces are put to their bounds


class Pieces(NamedTuple):
    """The functions φ: prices l and d and caps of both pieces, each of shape (2, p); a cap of 0 is none."""

    linear: Vector
    square: Vector
    cap: Vector

    def value(self, a: Vector) -> float:
        """Σ φ_j(a_j); the second piece is used when the first one is full."""
        first = np.minimum(a, self.cap[0])
        v = np.stack([first, a - first])
        return float((self.linear * v + self.square * v * v).sum())

    def saved(self, rates: Vector) -> float:
        """Σ_j max_a r_j a − φ_j(a)."""
        over, twice = np.maximum(rates - self.linear, 0.0), 2.0 * self.square
        inside = over < twice * self.cap
        v = np.where(inside, over / np.where(inside, twice, 1.0), self.cap)
        return float((v * (over - self.square * v)).sum())


@dataclass(frozen=True)
class Point:
    """Where the method ended.

    Attributes
    ----------
    a : ndarray of shape (p,)
        Coefficients; what tends to a bound is put there.
    b : float
        Intercept.
    u : ndarray of shape (n,)
        Multipliers, from 0 to the costs, in balance but for rounding.
    value, bound : float
        What a and b come to, and what u proves; computed, without their rounding.
    steps : int
        Steps taken.
    """

    a: Vector = field(repr=False)
    b: float
    u: Vector = field(repr=False)
    value: float
    bound: float
    steps: int

    @property
    def gap(self) -> float:
        """Value less bound."""
        return self.value - self.bound


def minimise(
    A: Vector, y: Vector, costs: Vector, pieces: Pieces, *, clock: Clock, tol: float = 1e-10,
    enough: float = np.inf, most: int = _MOST,
) -> Point:  # fmt: skip
    """Solve a program.

    Parameters
    ----------
    A : ndarray of shape (n, p)
        Columns, each times the labels of the samples.
    y : ndarray of shape (n,)
        Labels -1 and +1, of both classes.
    costs : ndarray of shape (n,)
        What a unit of slack costs, positive.
    pieces : Pieces
        What the coefficients cost; every first cap is positive.
    clock : Clock
        No step begins after its limit.
    tol : float
        Gap at which to stop, in relation to the value.
    enough : float
        A bound of this much is enough too.
    most : int
        Steps at most.
    """
    run = _Run(A, y, costs, pieces)
    best = run.point()
    gaps = [best.gap]
    while run.steps < most and best.gap > tol * best.value and best.bound < enough and not clock.is_over:
        if len(gaps) > _PATIENCE and gaps[-1] > 0.5 * gaps[-1 - _PATIENCE]:
            break
        with np.errstate(all="ignore"):  # of numbers that are none the run ends, and what it had counts
            if not run.step():
                break
            now = run.point()
        if not np.isfinite(now.gap):
            break
        best = _better(best, now)
        gaps.append(best.gap)
    return run.settled(best)


def _better(old: Point, new: Point) -> Point:
    """The point of the one with the multipliers of the other, whichever are better."""
    value = old if old.value < new.value else new
    bound = old if old.bound > new.bound else new
    return Point(value.a, value.b, bound.u, value.value, bound.bound, new.steps)


class _Run:
    """The variables x ≥ 0, and z ≥ 0 whose products with them are to vanish.

    x is pieces, their room under their caps, slacks and surpluses, one after the other; z what a piece lacks
    to be worth using, what its room would save, the room of the multipliers u under the costs, and u. What is
    left of a cap is a variable of its own: as a difference it would lose its digits.
    """

    def __init__(self, A: Vector, y: Vector, costs: Vector, pieces: Pieces):
        self.A, self.y, self.costs, self.pieces = A, y, costs, pieces
        self.with_b, self.squares = np.column_stack([A, y]), A * A
        there = pieces.cap.ravel() > 0.0
        self.linear, self.square, self.cap = (part.ravel()[there] for part in pieces)
        self.column = np.tile(np.arange(A.shape[1]), 2)[there]
        n, m = len(y), len(self.cap)
        self.ends = m, 2 * m, 2 * m + n
        positive = y > 0
        sums = float(costs[positive].sum()), float(costs[~positive].sum())
        u = 0.5 * costs * min(sums) / np.where(positive, *sums)
        # Nor is a start to cost more than the slacks do.
        dear = np.sqrt(float(costs.mean()) / np.maximum(self.square, 1e-300))
        v, self.b, self.steps = _START * np.minimum(self.cap, dear), 0.0, 0
        over = A @ self._summed(v) - 1.0
        xi, s = np.maximum(-over, 0.0) + 1.0, np.maximum(over, 0.0) + 1.0
        near = max(float((xi * (costs - u)).mean()), float((s * u).mean())) / self.cap
        gradient = self.linear + 2.0 * self.square * v - (A.T @ u)[self.column]
        self.last: tuple[Vector, Vector] = (np.zeros(0), np.zeros(0))  # what a step left of x and of z
        self.x = np.concatenate([v, self.cap - v, xi, s])
        self.z = np.concatenate(
            [np.maximum(gradient, 0.0) + near, np.maximum(-gradient, 0.0) + near, costs - u, u]
        )

    def _summed(self, pieces: Vector) -> Vector:
        """What pieces come to in each column."""
        return np.asarray(np.bincount(self.column, pieces, self.A.shape[1]), dtype=float)

    def _parts(self, vector: Vector) -> list[Vector]:
        first, second, third = self.ends
        return [vector[:first], vector[first:second], vector[second:third], vector[third:]]

    def point(self) -> Point:
        """Coefficients and multipliers, the latter in balance, with their values."""
        v, u = self.x[: self.ends[0]], np.clip(self.z[self.ends[2] :], 0.0, self.costs)
        positive = self.y > 0
        sums = float(u[positive].sum()), float(u[~positive].sum())
        u = u * (min(sums) / np.where(positive, *sums)) if min(sums) > 0.0 else np.zeros_like(u)
        bound = float(u.sum()) - self.pieces.saved(self.A.T @ u)
        a = self._summed(v)
        return Point(a, self.b, u, self._value(a, self.b), bound, self.steps)

    def _value(self, a: Vector, b: float) -> float:
        slacks = np.maximum(1.0 - self.with_b @ np.append(a, b), 0.0)
        return self.pieces.value(a) + float(self.costs @ slacks)

    def settled(self, best: Point) -> Point:
        """The point with each piece at the bound that it tends to, where that costs nothing.

        It tends to it where in the last step it lost more of itself than the price of the bound did
        (El-Bakry, Tapia & Zhang, A study of indicators for identifying zero variables, 1994).
        """
        if not self.last[0].size:
            return best
        tends = self.last[0] < self.last[1]
        v, room = tends[: self.ends[0]], tends[self.ends[0] : self.ends[1]]
        a = self._summed(np.where(v, 0.0, np.where(room, self.cap, self.x[: self.ends[0]])))
        value = self._value(a, self.b)
        if not value <= best.value + _SPARE * abs(best.value):
            return best
        return Point(a, self.b, best.u, value, best.bound, best.steps)

    def step(self) -> bool:
        """One step; whether there was one."""
        self.steps += 1
        equations = _Equations(self)
        if equations.factor is None:
            return False
        dx, db, dz = equations.direction(-self.x * self.z, 0)
        straight = min(1.0, self._length(dx, dz))
        now = float(self.x @ self.z)
        then = float((self.x + straight * dx) @ (self.z + straight * dz))
        goal = (then / now) ** 3 * now / len(self.x)
        dx, db, dz = equations.direction(goal - self.x * self.z - dx * dz, _CORRECTIONS)
        far = self._far(dx, dz)
        if far < _SHORTEST:  # to the middle first
            dx, db, dz = equations.direction(_MIDDLE * now / len(self.x) - self.x * self.z, _CORRECTIONS)
            far = self._far(dx, dz)
        if not far > 1e-13:
            return False
        self.last = 1.0 + far * dx / self.x, 1.0 + far * dz / self.z
        self.x, self.b, self.z = self.x + far * dx, self.b + far * db, self.z + far * dz
        return True

    def _far(self, dx: Vector, dz: Vector) -> float:
        """How far to go: the products are to be less in all, and each no small part of the others.

        Without that the method may go round in circles.
        """
        now, first, second = float(self.x @ self.z), float(self.x @ dz + self.z @ dx), float(dx @ dz)
        far = min(1.0, _SHORT * self._length(dx, dz))
        if 2.0 * far * second > -first > 0.0:
            far = -first / (2.0 * second)
        least = _LOSES * float((self.x * self.z).min()) / now
        for _ in range(_TIMES):
            products = (self.x + far * dx) * (self.z + far * dz)
            if float(products.min()) >= min(_CENTRED / len(products), least) * float(products.sum()):
                break
            far *= _SHORTER
        return far

    def _length(self, dx: Vector, dz: Vector) -> float:
        """The longest step that keeps everything above 0."""
        return 1.0 / max(float((-dx / self.x).max()), float((-dz / self.z).max()), 1e-3)


class _Equations:
    """Newton's equations at a point, reduced to the columns and b."""

    def __init__(self, run: _Run):
        self.run = run
        (self.v, self.room, xi, s), (self.low, self.high, w, u) = run._parts(run.x), run._parts(run.z)
        self.xi, self.s, self.w, self.u = xi, s, w, u
        # What is left of each row: rounding, but for the margins at the start.
        self.of_gradient = run.linear + 2.0 * run.square * self.v - (run.A.T @ u)[run.column] - self.low
        self.of_gradient += self.high
        self.of_caps, self.of_costs = run.cap - self.v - self.room, run.costs - u - w
        a = run._summed(self.v)
        self.of_margins = run.with_b @ np.append(a, run.b) + xi - s - 1.0
        self.inverse = 1.0 / (2.0 * run.square + self.low / self.v + self.high / self.room)
        self.by_column, self.by_row = run._summed(self.inverse), xi / w + s / u
        self.factored = self.by_row + _NEARLY * (run.squares @ self.by_column)
        half = run.with_b / np.sqrt(self.factored)[:, None]
        matrix = half.T @ half
        diagonal = np.arange(len(self.by_column))
        matrix[diagonal, diagonal] += 1.0 / self.by_column
        self.factor = _factor(matrix)

    def direction(self, products: Vector, corrections: int) -> tuple[Vector, float, Vector]:
        """The change of x, b and z that changes the products x z by so much, to first order.

        Parameters
        ----------
        products : ndarray
            By how much.
        corrections : int
            Of the solution, at most.
        """
        run = self.run
        of_low, of_high, of_slacks, of_surpluses = run._parts(products)
        g = of_low / self.v - (of_high - self.high * self.of_caps) / self.room - self.of_gradient
        h = of_surpluses / self.u - (of_slacks - self.xi * self.of_costs) / self.w - self.of_margins
        G, balance = run._summed(self.inverse * g), float(run.y @ self.u)
        d, du = self._solved(h, G, balance)
        off, small = np.inf, _EXACT * float(np.abs(h).max())
        for _ in range(corrections):
            rows = h - run.with_b @ d - self.by_row * du
            columns = G - d[:-1] + self.by_column * (run.A.T @ du)
            was, off = off, float(np.abs(rows).max())
            if off <= small or not off < 0.5 * was:
                break
            more, correction = self._solved(rows, columns, float(run.y @ du) + balance)
            d, du = d + more, du + correction
        dv = self.inverse * (g + (run.A.T @ du)[run.column])
        room, dw = self.of_caps - dv, self.of_costs - du
        dx = [dv, room, (of_slacks - self.xi * dw) / self.w, (of_surpluses - self.s * du) / self.u]
        dz = [(of_low - self.low * dv) / self.v, (of_high - self.high * room) / self.room, dw, du]
        return np.concatenate(dx), float(d[-1]), np.concatenate(dz)

    def _solved(self, h: Vector, G: Vector, balance: float) -> tuple[Vector, Vector]:
        """The changes of the coefficients, with b, and of u.

        A d + E du = h, d less that of b − S A'du = G, y'du = −balance.
        """
        with_b = self.run.with_b
        rhs = with_b.T @ (h / self.factored)
        rhs[:-1] += G / self.by_column
        rhs[-1] += balance
        d = dpotrs(self.factor, rhs, lower=1)[0]
        return d, (h - with_b @ d) / self.factored


def _factor(matrix: Vector) -> Vector | None:
    """Cholesky's factor, of a matrix moved a little where it has none; None where that does not help."""
    for moved in (0.0, _SINGULAR):
        if moved:
            matrix = matrix + np.diag(moved * matrix.diagonal())
        factor, failed = dpotrf(matrix, lower=1)
        if not failed:
            return np.asarray(factor)
    return None
