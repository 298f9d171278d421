"""A node's or a pattern's program with a price of squares, by an interior-point method.

    min  Σ_j φ_j(a_j) + Σ_i c_i [1 − (A a)_i − y_i b]_+

where φ_j is convex, and made of two pieces at most: a_j = v_1 + v_2, each of which costs l v + d v², d ≥ 0,
and is from 0 to its cap. A coefficient that is on has one piece, with l = 0; one that is free has the reverse
Huber function of :mod:`formulations.l0_ridge`, whose second piece is what is beyond its knee.

The method is primal and dual, with Mehrotra's predictor and corrector. Its equations are those of the columns
and of b: as many as there are columns, however many samples there are. Two columns that are nearly the same
make them nearly singular, so each solution is corrected once by what it leaves of the equations before they
were reduced: without that, cubic kernels end at gaps of 1e-6, with it at 1e-10 in 15 to 30 steps.

The steps are compiled (:mod:`polyopt.solvers.l0.interior_steps`). Nothing here is believed: what the
multipliers prove is evaluated by :mod:`polyopt.certificates.l0`.

Reference: Mehrotra, On the implementation of a primal-dual interior point method (1992).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.solvers.l0.interior_steps import STEPS, Program, State, advance, begin, settle

if TYPE_CHECKING:
    from formulations.matrices import Vector
    from polyopt.solvers.clock import Clock

__all__ = ["Pieces", "Point", "minimise"]

_MOST = 60  # steps; some dozen are usual
_PIECE = 2**26  # products between two looks at the clock: some hundredths of a second


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
    program = program_of(A, y, costs, pieces)
    (n, p), m = A.shape, len(program.cap)
    size = 2 * (m + n)
    state = State(
        np.empty(size), np.empty(size), np.zeros(size), np.zeros(size), np.zeros(p), np.zeros(n), np.zeros(5),
        np.full(most + 2, np.inf),
    )  # fmt: skip
    begin(program, state)
    count = max(int(_PIECE / (program.B.size * program.B.shape[1])), 1)
    while state.told[STEPS] < most and not clock.is_over:
        if not advance(program, state, min(count, most - int(state.told[STEPS])), tol, enough):
            break
    settle(program, state)
    _, value, bound, steps, b = state.told.tolist()
    return Point(state.a, b, state.u, value, bound, int(steps))


def program_of(A: Vector, y: Vector, costs: Vector, pieces: Pieces) -> Program:
    """The program as its steps take it; arguments as of :func:`minimise`."""
    linear, square, cap = (part.ravel() for part in pieces)
    column = np.arange(len(cap)) % A.shape[1]
    if not cap.all():
        there = np.flatnonzero(cap)
        linear, square, cap, column = linear[there], square[there], cap[there], column[there]
    B = np.empty((A.shape[0], A.shape[1] + 1))
    B[:, :-1], B[:, -1] = A, y
    return Program(B, B * B, costs, column, linear, square, cap)
