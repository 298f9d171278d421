"""The residuals of the optimality (KKT) conditions of a program at a point.

With the Lagrangian of :mod:`formulations.language.program`, every row has its violation ("primal"), the wrong
sign of its multiplier ("sign") and the product of multiplier and slack ("complementarity"); every variable
has the gradient of the Lagrangian ("stationarity"). The sign of a matrix row is its multiplier's least
eigenvalue, that of a cone row the distance of its multiplier outside the cone.

Residuals are relative: a violation to the largest variable or side of the row, a multiplier to the largest
multiplier, a product to the objective, and the gradient to its largest single term.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.statement import Row, Statement


@dataclass(frozen=True)
class Condition:
    """One condition: its violation, and the scale of it."""

    # kind, row: ``"primal"``, ``"sign"``, ``"stationarity"`` or ``"complementarity"``; its row or variable
    kind: str
    row: str
    violation: NDArray[Any]  # entry by entry; negative with slack
    scale: float  # of the quantities compared

    @property
    def relative(self) -> float:
        """The largest violation over the scale; infinite if it cannot be evaluated."""
        worst = float(np.max(self.violation, initial=0.0))
        return (worst / self.scale if self.scale > 0 else worst) if np.isfinite(worst) else np.inf


@dataclass(frozen=True)
class Conditions:
    """The conditions of a program at a point."""

    # value, lagrangian: the objective, and the Lagrangian, which bounds it if the point is stationary
    value: float
    lagrangian: float
    parts: tuple[Condition, ...]

    @property
    def shortfall(self) -> float:
        """The worst of the conditions and of the relative gap: 0 at an optimum."""
        scale = max(abs(self.value), abs(self.lagrangian))
        gap = abs(self.value - self.lagrangian)
        gap = (gap / scale if scale > 0 else gap) if np.isfinite(gap) else np.inf
        return max([gap, *(part.relative for part in self.parts)])


def conditions(
    program: Statement, primal: Mapping[str, ArrayLike], duals: Mapping[str, ArrayLike]
) -> Conditions:
    """Evaluate the Karush-Kuhn-Tucker conditions of a program at a point."""
    program.assign(primal)
    multipliers = {row.name: np.asarray(duals[row.name], dtype=float) for row in program.rows}
    size = max(float(np.max(np.abs(v.value), initial=0.0)) for v in program.variables.values()) or 1.0
    largest = max((float(np.max(np.abs(mu), initial=0.0)) for mu in multipliers.values()), default=0.0) or 1.0
    sign = 1.0 if program.sense == "minimise" else -1.0
    value = sign * float(program.objective.expr.value)
    scale = abs(value) or 1.0

    parts: list[Condition] = []
    lagrangian = value
    gradient = _Gradient(program)
    for term in _summands(program.objective.expr):  # term by term: the scale is that before cancellation
        gradient.add(term, np.array([sign]))
    for row in program.rows:
        mu = multipliers[row.name]
        term, row_parts = _row_conditions(row, mu, size, largest, scale)
        parts += row_parts
        lagrangian += term
        for expression, factor in _lagrangian_terms(row, mu):
            gradient.add(expression, factor)
    parts += gradient.conditions()
    return Conditions(sign * value, sign * lagrangian, tuple(parts))


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
    row: Row, mu: NDArray[Any], size: float, largest: float, scale: float
) -> tuple[float, list[Condition]]:
    """Return the row's term in the Lagrangian, and its conditions. Rows are g(x) <= 0, h(x) = 0 or a cone."""
    if row.is_cone:
        bound, vector = (np.asarray(side.value, dtype=float) for side in row.constraint.args)
        product = mu[0] * bound + (mu[1:] * vector).sum(axis=0)
        extent = max(size, float(np.max(np.abs(bound), initial=0.0)))
        return -float(np.sum(product)), [
            Condition("primal", row.name, np.linalg.norm(vector, axis=0) - bound, extent),
            Condition("sign", row.name, np.linalg.norm(mu[1:], axis=0) - mu[0], largest),
            Condition("complementarity", row.name, np.abs(product), scale),
        ]
    g = np.asarray(row.constraint.expr.value, dtype=float)
    if row.is_matrix:
        g, mu = (g + g.T) / 2, (mu + mu.T) / 2
        product = float(np.sum(mu * g))
        return -product, [
            Condition("primal", row.name, -np.linalg.eigvalsh(g)[:1], size),
            Condition("sign", row.name, -np.linalg.eigvalsh(mu)[:1], largest),
            Condition("complementarity", row.name, np.array(abs(product)), scale),
        ]
    extent = max(size, *(float(np.max(np.abs(side.value), initial=0.0)) for side in row.constraint.args))
    if row.is_equality:
        return float(np.sum(mu * g)), [Condition("primal", row.name, np.abs(g), extent)]
    return float(np.sum(mu * g)), [
        Condition("primal", row.name, g, extent),
        Condition("sign", row.name, -mu, largest),
        Condition("complementarity", row.name, np.abs(mu * g), scale),
    ]


class _Entries(NamedTuple):
    """The nonzero entries of a derivative."""

    at: NDArray[np.intp]  # entry of the variable
    of: NDArray[np.intp]  # entry of the expression
    values: NDArray[Any]


def _jacobians(program: Statement, expression: cp.Expression) -> Mapping[cp.Variable, _Entries | None]:
    """Return the derivatives of an expression, cached for the same parameters and the same point."""
    values = [parameter.value for parameter in expression.parameters()]
    if not expression.is_affine():
        values += [variable.value for variable in expression.variables()]
    cached = program.jacobians.get(id(expression))
    if cached is None or not all(map(_is_same, cached[0], values)):
        cached = program.jacobians[id(expression)] = copy.deepcopy(values), _derivatives(expression)
    return cached[1]


def _derivatives(expression: cp.Expression) -> dict[cp.Variable, _Entries | None]:
    """Return the derivative in each variable, None if the point is outside the expression's domain."""
    derivatives: dict[cp.Variable, _Entries | None] = {}
    for variable, jacobian in expression.grad.items():
        if jacobian is None:
            derivatives[variable] = None
            continue
        entries = sp.coo_array(np.atleast_2d(jacobian) if np.isscalar(jacobian) else jacobian)
        derivatives[variable] = _Entries(entries.row, entries.col, entries.data)
    return derivatives


def _is_same(one: Any, other: Any) -> bool:
    dense = not (sp.issparse(one) or sp.issparse(other))
    return bool(np.array_equal(one, other)) if dense else one.shape == other.shape and not (one != other).nnz


class _Gradient:
    """The gradient of the Lagrangian in each variable, and its largest single term."""

    def __init__(self, program: Statement):
        self.program = program
        self.names = {variable.id: name for name, variable in program.variables.items()}
        self.total = {name: np.zeros(v.size) for name, v in program.variables.items()}
        self.extent = dict.fromkeys(program.variables, 0.0)

    def add(self, expression: cp.Expression, multiplier: NDArray[Any]) -> None:
        """Add the gradient of ``sum(multiplier * expression)``."""
        flat = multiplier.ravel(order="F")
        for variable, entries in _jacobians(self.program, expression).items():
            name = self.names[variable.id]
            if entries is None:
                self.total[name][:] = np.inf
                continue
            terms = entries.values * flat[entries.of]
            self.total[name] += np.bincount(entries.at, terms, minlength=variable.size)
            self.extent[name] = max(self.extent[name], float(np.max(np.abs(terms), initial=0.0)))

    def conditions(self) -> list[Condition]:
        return [
            Condition("stationarity", name, np.abs(total), self.extent[name] or 1.0)
            for name, total in self.total.items()
        ]
