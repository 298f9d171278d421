"""Mixed-integer programs with convex curves by HiGHS, which takes linear ones: outer approximation.

A square price·v² is at least its tangent price·(2 t v − t²) at any t, and equal to it at v = t; so is every
convex function of one number, such as ln(1 + exp(−v)). So the program with a number η ≥ its tangents in the
place of each curve is a linear one whose optimum is a bound, and the point at which that is attained is
feasible for the program itself: what it costs there is a value. A tangent more at that point, and again,
until bound and value meet (Duran & Grossmann, An outer-approximation algorithm for a class of mixed-integer
nonlinear programs, 1986). It has nothing in common with SCIP, nor with branch
and bound over features or samples, which cross-checks hold against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from scipy.special import expit

from formulations.backends import attempt
from formulations.clock import Clock
from formulations.solution import Solution, Status
from formulations.statement import Row, Statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from formulations.program import Program

__all__ = ["Curve", "Logistic", "Square", "least_by_curves", "least_by_tangents", "solve_by_curves"]

_FIRST = 17  # tangents of each curve before the first program
_ROUNDS = 100
_OPTIONS = {
    "mip_rel_gap": 1e-10,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "parallel": "off",
}


@dataclass(frozen=True)
class Curve:
    """A convex function of one number, of each entry of a vector, at a price.

    Attributes
    ----------
    at : cvxpy.Expression
        The vector.
    price : ndarray
        The price of each entry's curve, at least 0.
    reach : ndarray
        How far from 0 the first tangents go, for each entry.
    """

    at: cp.Expression
    price: Vector
    reach: Vector

    def value(self, v: Vector) -> Vector:
        """The curve at each entry."""
        raise NotImplementedError

    def slope(self, v: Vector) -> Vector:
        """Its slope there."""
        raise NotImplementedError

    def tangents(self, eta: cp.Variable, v: Vector) -> cp.Constraint:
        """The rows that hold a variable above the tangents at v."""
        along = cp.multiply(self.price * self.slope(v), self.at)
        return eta >= along + self.price * (self.value(v) - self.slope(v) * v)


class Square(Curve):
    """v²."""

    def value(self, v: Vector) -> Vector:
        """The square."""
        return v**2

    def slope(self, v: Vector) -> Vector:
        """Its slope."""
        return 2.0 * v


class Logistic(Curve):
    """ln(1 + exp(−v))."""

    def value(self, v: Vector) -> Vector:
        """The loss."""
        return np.asarray(np.logaddexp(0.0, -v))

    def slope(self, v: Vector) -> Vector:
        """Its slope."""
        return np.asarray(-expit(-v))


def least_by_tangents(
    program: Program, prices: Mapping[str, float], tol: float = 1e-7
) -> tuple[float, float]:
    """The least of a program whose objective is squares of some variables and Σ C_i ξ_i.

    Parameters
    ----------
    program : Program
        With the variable xi and the parameter C, and linear rows.
    prices : mapping of str to float
        The price of the squares of each variable that has them, positive.
    tol : float
        Relative gap between bound and value at which to end.

    Returns
    -------
    bound, value : float
        What HiGHS proves, and what its best point costs in the program itself.
    """
    squared = cp.hstack([cp.vec(program.variables[name], order="C") for name in prices])
    sizes = [program.variables[name].size for name in prices]
    price = np.repeat(list(prices.values()), sizes)
    C = program.parameters["C"]
    most = np.sqrt(float(np.sum(C.value)) / price)  # a longer one costs more than 0 does
    return least_by_curves(program, [Square(squared, price, most)], C @ program.variables["xi"], tol)


def least_by_curves(
    program: Program, curves: Sequence[Curve], paid: cp.Expression | None = None, tol: float = 1e-7
) -> tuple[float, float]:
    """The least of a program whose objective is curves and what is linear.

    Parameters
    ----------
    program, curves, paid, tol
        As of :func:`solve_by_curves`.

    Returns
    -------
    bound, value : float
        As of :func:`least_by_tangents`.
    """
    found = solve_by_curves(program, curves, paid, tol)
    return -np.inf if found.bound is None else found.bound, found.objective


def solve_by_curves(
    program: Program,
    curves: Sequence[Curve],
    paid: cp.Expression | None = None,
    tol: float = 1e-7,
    *,
    time_limit: float | None = None,
) -> Solution:
    """Solve a program whose objective is curves and what is linear.

    Parameters
    ----------
    program : Program
        To minimise, with linear rows.
    curves : sequence of Curve
        The curves of its objective.
    paid : cvxpy.Expression, optional
        The linear part.
    tol : float
        Relative gap between bound and value at which to end.
    time_limit : float, optional
        Seconds; the best point is kept.

    Returns
    -------
    Solution
        The best point, what it costs in the program itself, and the bound that HiGHS states; no multipliers.
        With status ``FAILED`` and no point where there is none yet.
    """
    clock = Clock(time_limit)
    etas = [cp.Variable(len(curve.price), nonneg=True) for curve in curves]
    linear = cp.Constant(0.0) if paid is None else paid
    cuts = [
        curve.tangents(eta, share * curve.reach)
        for curve, eta in zip(curves, etas, strict=True)
        for share in np.linspace(-1.0, 1.0, _FIRST)
    ]
    objective = cp.Minimize(sum(cp.sum(eta) for eta in etas) + linear)
    best: dict[str, NDArray[Any]] = {}
    value, bound, status, rounds, seconds = np.inf, -np.inf, Status.ITERATION_LIMIT, 0, np.zeros(2)
    while rounds < _ROUNDS:
        rounds += 1
        found = attempt(_with(program, objective, cuts), "HIGHS", _OPTIONS, seconds=clock.left)
        seconds += found.build_time, found.solve_time
        bound = bound if found.bound is None else max(bound, found.bound)
        # At a limit HiGHS may leave numbers that meet no row, and then no bound either.
        if found.primal and (found.status is Status.SOLVED or found.bound is not None):
            points = [np.asarray(curve.at.value) for curve in curves]
            costs = [float(curve.price @ curve.value(v)) for curve, v in zip(curves, points, strict=True)]
            here = sum(costs) + float(linear.value)
            value, best = (here, found.primal) if here < value else (value, best)
            cuts += [curve.tangents(eta, v) for curve, eta, v in zip(curves, etas, points, strict=True)]
        if found.status is not Status.SOLVED or value - bound <= tol * abs(value):
            status = found.status
            break
    return Solution(
        status, best, {}, value if best else np.nan, bound if np.isfinite(bound) else None,
        "highs, by tangents", rounds, float(seconds[0]), float(seconds[1]),
    )  # fmt: skip


def _with(program: Program, objective: cp.Minimize, cuts: Sequence[cp.Constraint]) -> Statement:
    """The program with another objective, and with rows that hold it above tangents."""
    rows = (Row(f"tangent {i}", cut, "", "–", "") for i, cut in enumerate(cuts))
    return Statement(
        program.name, program.title, program.source, objective, "", program.variables, (*program.rows, *rows)
    )
