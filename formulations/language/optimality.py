"""The residuals of the optimality (KKT) conditions of a program at a point.

A program minimises an objective (or −f, for a maximum of f) subject to rows: g(x) ≤ 0 or g(x) = 0 entry by
entry, a matrix G(x) ⪰ 0, or second-order cones ‖v(x)‖ ≤ t(x). Its Lagrangian is the objective plus μ·g,
− ⟨μ, G⟩ or − μ·(t, v) for each row and its multiplier μ. The kinds of residuals are

primal            the violation of a row
sign              the violation of a multiplier's cone: μ ≥ 0, μ ⪰ 0 or ‖μ_v‖ ≤ μ_t
complementarity   the absolute product of a multiplier and its row
stationarity      the absolute derivative of the Lagrangian with respect to a variable

Residuals are relative: a violation to the largest variable or side of the row, a multiplier to the largest
multiplier, a product to the objective, and the gradient to its largest single term.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.statement import Row, Statement


@dataclass(frozen=True)
class Condition:
    """The residuals of one kind, for one row or variable."""

    kind: str  # ``"primal"``, ``"sign"``, ``"complementarity"`` or ``"stationarity"``
    row: str  # name of the row, or of the variable for stationarity
    violation: NDArray[Any]  # violation of each entry; negative if the condition holds with slack
    scale: float  # the size relative to which a violation counts

    @property
    def relative(self) -> float:
        """The largest violation divided by the scale; infinite if it cannot be evaluated."""
        return _relative(float(np.max(self.violation, initial=0.0)), self.scale)


@dataclass(frozen=True)
class Conditions:
    """The conditions of a program at a point."""

    value: float  # objective
    lagrangian: float  # for a convex program a bound on the optimal value if sign and stationarity hold
    parts: tuple[Condition, ...]

    @property
    def shortfall(self) -> float:
        """The largest relative residual, or the relative gap of value and Lagrangian if that is larger."""
        gap = _relative(abs(self.value - self.lagrangian), max(abs(self.value), abs(self.lagrangian)))
        return max([gap, *(part.relative for part in self.parts)])


def _relative(size: float, scale: float) -> float:
    """Return a size divided by its scale, or undivided if the scale is 0; infinite for nan."""
    if not np.isfinite(size):
        return np.inf
    return size / scale if scale > 0 else size


def conditions(
    program: Statement, primal: Mapping[str, ArrayLike], duals: Mapping[str, ArrayLike]
) -> Conditions:
    """Evaluate the Karush-Kuhn-Tucker conditions at values of the variables and multipliers of the rows."""
    program.assign(primal)
    multipliers = {row.name: np.asarray(duals[row.name], dtype=float) for row in program.rows}
    largest_variable = max(_largest(v.value) for v in program.variables.values()) or 1.0
    largest_multiplier = max(map(_largest, multipliers.values()), default=0.0) or 1.0
    sign = 1.0 if program.sense == "minimise" else -1.0
    value = sign * float(program.objective.expr.value)
    objective_scale = abs(value) or 1.0

    parts: list[Condition] = []
    lagrangian = value
    gradient = _Gradient(program)
    for term in _summands(program.objective.expr):  # term by term: the scale is that before cancellation
        gradient.add(term, np.array([sign]))
    for row in program.rows:
        mu = multipliers[row.name]
        row_term, row_parts = _row_conditions(row, mu, largest_variable, largest_multiplier, objective_scale)
        parts += row_parts
        lagrangian += row_term
        for expression, factor in _lagrangian_terms(row, mu):
            gradient.add(expression, factor)
    parts += gradient.conditions()
    return Conditions(sign * value, sign * lagrangian, tuple(parts))


def _largest(values: Any) -> float:
    """Return the largest absolute value; 0 for an empty array."""
    return float(np.max(np.abs(values), initial=0.0))


def _summands(expression: cp.Expression) -> list[cp.Expression]:
    """Return the terms of a scalar sum."""
    if type(expression).__name__ != "AddExpression":
        return [expression]
    return [term for argument in expression.args for term in _summands(argument)]


def _lagrangian_terms(row: Row, mu: NDArray[Any]) -> list[tuple[cp.Expression, NDArray[Any]]]:
    """Return the expressions of a row with their factors in the Lagrangian."""
    if row.is_cone:
        bound, vector = row.constraint.args
        return [(bound, -mu[0]), (vector, -mu[1:])]
    return [(row.constraint.expr, -mu if row.is_matrix else mu)]


def _row_conditions(
    row: Row, mu: NDArray[Any], largest_variable: float, largest_multiplier: float, objective_scale: float
) -> tuple[float, list[Condition]]:
    """Return the row's term in the Lagrangian, and its conditions."""
    if row.is_cone:
        bound, vector = (np.asarray(side.value, dtype=float) for side in row.constraint.args)
        product = -(mu[0] * bound + (mu[1:] * vector).sum(axis=0))
        primal, sign = np.linalg.norm(vector, axis=0) - bound, np.linalg.norm(mu[1:], axis=0) - mu[0]
        row_scale = max(largest_variable, _largest(bound))
    elif row.is_matrix:
        g = np.asarray(row.constraint.expr.value, dtype=float)
        g, mu = (g + g.T) / 2, (mu + mu.T) / 2
        product = np.array(-np.sum(mu * g))
        primal, sign, row_scale = -np.linalg.eigvalsh(g)[:1], -np.linalg.eigvalsh(mu)[:1], largest_variable
    else:
        g = np.asarray(row.constraint.expr.value, dtype=float)
        product, primal, sign = mu * g, np.abs(g) if row.is_equality else g, -mu
        row_scale = max(largest_variable, *(_largest(side.value) for side in row.constraint.args))
    parts = [Condition("primal", row.name, primal, row_scale)]
    if not row.is_equality:
        parts += [
            Condition("sign", row.name, sign, largest_multiplier),
            Condition("complementarity", row.name, np.abs(product), objective_scale),
        ]
    return float(np.sum(product)), parts


class _Gradient:
    """The gradient of the Lagrangian in each variable, and its largest single term."""

    def __init__(self, program: Statement):
        self.names = {variable.id: name for name, variable in program.variables.items()}
        self.total = {name: np.zeros(v.size) for name, v in program.variables.items()}
        self.largest_term = dict.fromkeys(program.variables, 0.0)

    def add(self, expression: cp.Expression, multiplier: NDArray[Any]) -> None:
        """Add the gradient of ``sum(multiplier * expression)``."""
        flat = multiplier.ravel(order="F")
        for variable, jacobian in expression.grad.items():
            name = self.names[variable.id]
            if jacobian is None:  # the point is outside the expression's domain
                self.total[name][:] = np.inf
                continue
            # Rows are the entries of the variable, columns those of the expression.
            entries = sp.coo_array(np.atleast_2d(jacobian) if np.isscalar(jacobian) else jacobian)
            terms = entries.data * flat[entries.col]
            self.total[name] += np.bincount(entries.row, terms, minlength=variable.size)
            self.largest_term[name] = max(self.largest_term[name], _largest(terms))

    def conditions(self) -> list[Condition]:
        """Return the conditions of stationarity."""
        return [
            Condition("stationarity", name, np.abs(total), self.largest_term[name] or 1.0)
            for name, total in self.total.items()
        ]
