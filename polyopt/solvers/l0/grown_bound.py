"""What multipliers prove of a node of the L0 tree, compiled; the formula is :mod:`polyopt.solvers.l0.node`'s.

Every number is evaluated from the data and moved by more than its rounding may be, as running error analysis
has it (:mod:`polyopt.certificates.rounding`): a rate has a least and a most, and a bound is one from below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.certificates.rounding import ABOVE, UNIT
from polyopt.solvers.l0.basis import add, within
from polyopt.solvers.l0.node import FREE, OFF, ON

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.l0.node import NodeBound

    Marks = NDArray[np.int8]

__all__ = ["FREE", "OFF", "ON", "Problem", "problem_of", "prove"]

_TINY = 2.0**-1000  # more than all the underflows of an inner product lose


class Problem(NamedTuple):
    """The data of a problem: ``signed`` (n, p), ``y, caps`` (n,), ``sizes, errors`` (p,) of the columns."""

    signed: Vector
    y: Vector
    caps: Vector
    sizes: Vector
    errors: Vector


def problem_of(bound: NodeBound) -> Problem:
    """The same data as compiled code takes them.

    Parameters
    ----------
    bound : NodeBound
        Of the problem.
    """
    sizes, errors = (np.ascontiguousarray(of, dtype=float) for of in bound.columns)
    return Problem(bound.signed, bound.data.y.astype(float), bound.caps, sizes, errors)


@within
def _balance(of: Problem, u: Vector, near: Vector) -> tuple[float, float]:
    """Multipliers near u whose classes are in balance but for their rounding; their sum, and the rounding's.

    As :func:`polyopt.certificates.expansion.balanced` has it: those of the heavier class shrink.
    """
    plus, minus, n = 0.0, 0.0, len(u)
    for i in range(n):
        near[i] = min(u[i], of.caps[i]) if u[i] > 0.0 else 0.0  # so is nan
        if of.y[i] > 0.0:
            plus += near[i]
        else:
            minus += near[i]
    light, heavy = min(plus, minus), max(plus, minus)
    off = 4.0 * (n + 3) * UNIT
    total, loose = 0.0, 0.0
    for i in range(n):
        own = plus if of.y[i] > 0.0 else minus
        share = light / own if own > 0.0 else 0.0
        unsure = 0.0 if own <= (1.0 - off) * heavy else off
        near[i] *= share
        total += near[i]
        loose += near[i] * (unsure + 4.0 * UNIT) + _TINY
    return total, loose * ABOVE


@within
def prove(of: Problem, fixed: Marks, u: Vector, rates: Vector) -> float:
    """A bound on the scores of a node, from the feasible multipliers nearest to u.

    Parameters
    ----------
    of : Problem
        The data.
    fixed : ndarray of int8 of shape (p,)
        ON, OFF or FREE, each centre.
    u : ndarray of shape (n,)
        Any numbers.
    rates : ndarray of shape (2, p)
        Takes the least and the most that the rate of each centre may be.
    """
    n, p = of.signed.shape
    near, middle = np.empty(n), np.zeros(p)
    total, loose = _balance(of, u, near)
    for i in range(n):
        if near[i] != 0.0:
            add(middle, near[i], of.signed[i])
    own = (2.0 * (n + 8) * UNIT * total + loose) * ABOVE
    saved, paid = 0.0, 0.0
    for j in range(p):
        size = abs(middle[j])
        unsure = (of.sizes[j] * own + of.errors[j] * (total + loose)) * ABOVE + 4.0 * UNIT * (size + 1.0)
        unsure += (n + 1) * _TINY
        rates[0, j], rates[1, j] = middle[j] - unsure, middle[j] + unsure
        if fixed[j] == ON:
            paid += 1.0
            saved += max(rates[1, j], 0.0)
        elif fixed[j] == FREE:
            saved += max(rates[1, j] - 1.0, 0.0)
    rounding = 4.0 * (n + p + 8) * UNIT * (paid + total + saved)
    return paid + total - saved - loose - rounding
