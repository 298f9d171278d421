"""Mixed-integer programs with convex curves by HiGHS, which takes linear ones: outer approximation.

A square price·v² is at least its tangent price·(2 t v − t²) at any t, and equal to it at v = t; so is every
convex function of one number, such as ln(1 + exp(−v)). So the program with a number η ≥ its tangents in the
place of each curve is a linear one whose optimum is a bound, and the point at which that is attained is
feasible for the program itself: what it costs there is a value. A tangent more at that point, and again,
until bound and value meet (Duran & Grossmann, An outer-approximation algorithm for a class of mixed-integer
nonlinear programs, 1986). It has nothing in common with the branch and bound of
:mod:`polyopt.outer.cpm.subset`, nor with SCIP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy.special import expit

from formulations.highs import quiet_highs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from formulations.program import Program

    Vector = NDArray[np.float64]

__all__ = ["Curve", "Logistic", "Square", "least_by_curves", "least_by_tangents"]

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
    program : Program
        With linear rows.
    curves : sequence of Curve
        The curves of its objective.
    paid : cvxpy.Expression, optional
        The linear part.
    tol : float
        Relative gap between bound and value at which to end.

    Returns
    -------
    bound, value : float
        As of :func:`least_by_tangents`.
    """
    quiet_highs()
    etas = [cp.Variable(len(curve.price), nonneg=True) for curve in curves]
    linear = cp.Constant(0.0) if paid is None else paid
    cuts = [
        curve.tangents(eta, share * curve.reach)
        for curve, eta in zip(curves, etas, strict=True)
        for share in np.linspace(-1.0, 1.0, _FIRST)
    ]
    rows, total = [row.constraint for row in program.rows], sum(cp.sum(eta) for eta in etas)
    value, bound = np.inf, -np.inf
    for _ in range(_ROUNDS):
        problem = cp.Problem(cp.Minimize(total + linear), [*rows, *cuts])
        problem.solve(solver="HIGHS", **_OPTIONS)
        bound = max(bound, float(problem.solver_stats.extra_stats.mip_dual_bound))
        points = [np.asarray(curve.at.value) for curve in curves]
        costs = [float(curve.price @ curve.value(v)) for curve, v in zip(curves, points, strict=True)]
        value = min(value, sum(costs) + float(linear.value))
        if value - bound <= tol * value:
            break
        cuts += [curve.tangents(eta, v) for curve, eta, v in zip(curves, etas, points, strict=True)]
    return bound, value
