"""The steps of :mod:`polyopt.solvers.l0.interior`, compiled: its programs are small, and there are many.

The variables are x ≥ 0, and z ≥ 0 whose products with them are to vanish. x is pieces, their room under their
caps, slacks and surpluses, one after the other; z what a piece lacks to be worth using, what its room would
save, the room of the multipliers u under the costs, and u. What is left of a cap is a variable of its own: as
a difference it would lose its digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.compiled import njit
from polyopt.solvers.l0.interior_equations import Program, direction, equations_at, factorise

if TYPE_CHECKING:
    from formulations.matrices import Vector

__all__ = ["STEPS", "Program", "State", "advance", "begin", "settle"]

_START = 0.01  # of its cap, at which each piece begins
_SHORT = 0.995  # of the way to the nearest bound
_CENTRED = 0.01  # of the mean product, that each keeps
_SHORTER, _TIMES = 0.7, 12  # by how much a step is shortened that does not, and how many times
_LOSES = 0.5  # of what it has of that, the least one, at a step
_SHORTEST, _MIDDLE = 0.1, 0.5  # a step under which the products are made alike, of this much of their mean
_PATIENCE = 8  # steps that do not halve the gap, after which it will not get smaller
# Corrections of a solution, by what it leaves of the equations, at most; functions are compiled anew for
# every plain number.
_NONE, _SOME = np.int64(0), np.int64(3)
_SPARE = 1e-10  # of the value, that it may rise by as pieces are put to their bounds

_AT, _VALUE, _BOUND, STEPS, _BEST = 0, 1, 2, 3, 4
"""Where ``told`` has b, the least value, the largest bound, the number of steps, and the b of the value."""


class State(NamedTuple):
    """x and z (2 m + 2 n,), what a step left of each, the best a (p,) and u (n,), and some numbers.

    `gaps` are those after each step.
    """

    x: Vector
    z: Vector
    x_left: Vector
    z_left: Vector
    a: Vector
    u: Vector
    told: Vector
    gaps: Vector


@njit(cache=True, error_model="numpy")
def begin(program: Program, state: State) -> None:
    """A first point."""
    (n, width), m, x, z, told = program.B.shape, len(program.cap), state.x, state.z, state.told
    of_slacks, of_surpluses, positive, negative = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        if program.B[i, width - 1] > 0.0:
            positive += program.costs[i]
        else:
            negative += program.costs[i]
    least, mean = min(positive, negative), (positive + negative) / n
    a, u = np.zeros(width), np.zeros(n)
    for q in range(m):  # nor is a start to cost more than the slacks do
        dear = np.sqrt(mean / max(program.square[q], 1e-300))
        x[q] = _START * min(program.cap[q], dear)
        x[m + q] = program.cap[q] - x[q]
        a[program.column[q]] += x[q]
    outputs = np.dot(program.B, a)
    for i in range(n):
        at, by = 2 * m + i, 2 * m + n + i
        of_class = positive if program.B[i, width - 1] > 0.0 else negative
        z[by] = u[i] = 0.5 * program.costs[i] * (least / of_class)
        z[at] = program.costs[i] - z[by]
        x[at], x[by] = max(1.0 - outputs[i], 0.0) + 1.0, max(outputs[i] - 1.0, 0.0) + 1.0
        of_slacks += x[at] * z[at]
        of_surpluses += x[by] * z[by]
    near, rates = max(of_slacks, of_surpluses) / n, np.dot(u, program.B)
    for q in range(m):
        gradient = program.linear[q] + 2.0 * program.square[q] * x[q] - rates[program.column[q]]
        z[q] = max(gradient, 0.0) + near / program.cap[q]
        z[m + q] = max(-gradient, 0.0) + near / program.cap[q]
    told[_VALUE], told[_BOUND] = np.inf, -np.inf
    _look(program, state)
    state.gaps[0] = told[_VALUE] - told[_BOUND]


@njit(cache=True, error_model="numpy")
def settle(program: Program, state: State) -> None:
    """Put each piece of the best point to the bound that it tends to, where that costs nothing.

    It tends to it where in the last step it lost more of itself than the price of the bound did
    (El-Bakry, Tapia & Zhang, A study of indicators for identifying zero variables, 1994).
    """
    m, told, a, some = len(program.cap), state.told, np.zeros(program.B.shape[1]), False
    for q in range(m):
        v = state.x[q]
        if state.x_left[q] < state.z_left[q]:
            v, some = 0.0, True
        elif state.x_left[m + q] < state.z_left[m + q]:
            v, some = program.cap[q], True
        a[program.column[q]] += v
    a[len(a) - 1] = told[_AT]
    value = _value(program, a)
    if some and value <= told[_VALUE] + _SPARE * abs(told[_VALUE]):
        told[_VALUE], told[_BEST] = value, told[_AT]
        for j in range(len(a) - 1):
            state.a[j] = a[j]


@njit(cache=True, error_model="numpy")
def advance(program: Program, state: State, steps: int, tol: float, enough: float) -> bool:
    """So many steps, unless it ends before: at a gap, at a bound that is enough, or where no step helps.

    Whether there may be more is returned.
    """
    told, gaps = state.told, state.gaps
    for _ in range(steps):
        made = int(told[STEPS])
        gap = told[_VALUE] - told[_BOUND]
        if not (gap > tol * told[_VALUE] and told[_BOUND] < enough):
            return False
        if made >= _PATIENCE and gaps[made] > 0.5 * gaps[made - _PATIENCE]:
            return False
        if not _step(program, state) or not _look(program, state):
            return False
        gaps[made + 1] = told[_VALUE] - told[_BOUND]
    return True


@njit(cache=True, error_model="numpy")
def _look(program: Program, state: State) -> bool:
    """Keep the coefficients and the multipliers of a point, whichever are better; whether it has numbers."""
    (n, width), m = program.B.shape, len(program.cap)
    told, y = state.told, program.B[:, width - 1]
    u, positive, negative = np.zeros(n), 0.0, 0.0
    for i in range(n):
        u[i] = min(max(state.z[2 * m + n + i], 0.0), program.costs[i])
        if y[i] > 0.0:
            positive += u[i]
        else:
            negative += u[i]
    least, bound = min(positive, negative), 0.0
    for i in range(n):
        u[i] = u[i] * (least / (positive if y[i] > 0.0 else negative)) if least > 0.0 else 0.0
        bound += u[i]
    rates = np.dot(u, program.B)
    for q in range(m):
        over, twice = max(rates[program.column[q]] - program.linear[q], 0.0), 2.0 * program.square[q]
        v = over / twice if over < twice * program.cap[q] else program.cap[q]
        bound -= v * (over - program.square[q] * v)
    a = np.zeros(width)
    for q in range(m):
        a[program.column[q]] += state.x[q]
    a[width - 1] = told[_AT]
    value = _value(program, a)
    if not np.isfinite(value - bound):
        return False
    if value < told[_VALUE]:
        told[_VALUE], told[_BEST] = value, told[_AT]
        for j in range(width - 1):
            state.a[j] = a[j]
    if bound > told[_BOUND]:
        told[_BOUND] = bound
        for i in range(n):
            state.u[i] = u[i]
    return True


@njit(cache=True, error_model="numpy")
def _value(program: Program, a: Vector) -> float:
    """What coefficients cost, b last; a second piece is used when the first one is full."""
    value, rest = 0.0, a.copy()
    for q in range(len(program.cap)):
        v = min(rest[program.column[q]], program.cap[q])
        rest[program.column[q]] -= v
        value += program.linear[q] * v + program.square[q] * v * v
    outputs = np.dot(program.B, a)
    for i in range(len(outputs)):
        value += program.costs[i] * max(1.0 - outputs[i], 0.0)
    return value


@njit(cache=True, error_model="numpy")
def _step(program: Program, state: State) -> bool:
    """One step; whether there was one."""
    x, z, told = state.x, state.z, state.told
    told[STEPS] += 1.0
    size = len(x)
    equations = equations_at(program, x, z, told[_AT])
    if not factorise(equations):
        return False
    products, dx, dz = np.zeros(size), np.zeros(size), np.zeros(size)
    now = 0.0
    for i in range(size):
        products[i] = -x[i] * z[i]
        now -= products[i]
    direction(program, x, z, equations, products, _NONE, dx, dz)
    straight, then = min(1.0, _length(x, z, dx, dz)), 0.0
    for i in range(size):
        then += (x[i] + straight * dx[i]) * (z[i] + straight * dz[i])
    goal = (then / now) ** 3 * now / size
    for i in range(size):
        products[i] = goal - x[i] * z[i] - dx[i] * dz[i]
    db = direction(program, x, z, equations, products, _SOME, dx, dz)
    far = _far(x, z, dx, dz)
    if far < _SHORTEST:  # to the middle first
        for i in range(size):
            products[i] = _MIDDLE * now / size - x[i] * z[i]
        db = direction(program, x, z, equations, products, _SOME, dx, dz)
        far = _far(x, z, dx, dz)
    if not far > 1e-13:
        return False
    for i in range(size):
        state.x_left[i], state.z_left[i] = 1.0 + far * dx[i] / x[i], 1.0 + far * dz[i] / z[i]
        x[i] += far * dx[i]
        z[i] += far * dz[i]
    told[_AT] += far * db
    return True


@njit(cache=True, error_model="numpy")
def _far(x: Vector, z: Vector, dx: Vector, dz: Vector) -> float:
    """How far to go: the products are to be less in all, and each no small part of the others.

    Without that the method may go round in circles.
    """
    now, first, second, least = 0.0, 0.0, 0.0, np.inf
    for i in range(len(x)):
        now += x[i] * z[i]
        first += x[i] * dz[i] + z[i] * dx[i]
        second += dx[i] * dz[i]
        least = min(least, x[i] * z[i])
    far = min(1.0, _SHORT * _length(x, z, dx, dz))
    if 2.0 * far * second > -first > 0.0:
        far = -first / (2.0 * second)
    share = min(_CENTRED / len(x), _LOSES * least / now)
    for _ in range(_TIMES):
        total, least = 0.0, np.inf
        for i in range(len(x)):
            product = (x[i] + far * dx[i]) * (z[i] + far * dz[i])
            total += product
            least = min(least, product)
        if least >= share * total:
            break
        far *= _SHORTER
    return far


@njit(cache=True, error_model="numpy")
def _length(x: Vector, z: Vector, dx: Vector, dz: Vector) -> float:
    """The longest step that keeps everything above 0."""
    steepest = 1e-3
    for i in range(len(x)):
        steepest = max(steepest, -dx[i] / x[i], -dz[i] / z[i])
    return 1.0 / steepest
