"""The optimality conditions of any :class:`~formulations.program.Program`, row by row.

Where a family has its own certificate (hinge, one-norm, polytope), that one is stronger: it repairs
the multipliers and so proves a bound. This one checks the Karush-Kuhn-Tucker conditions of the
program as it is written, whatever it is, which for a convex program is proof of optimality.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from polyopt.certificates.certificate import Certificate, Claim, Residual, relative_gap, residual

if TYPE_CHECKING:
    import cvxpy as cp
    from numpy.typing import ArrayLike, NDArray

    from formulations.program import Program, Row

__all__ = ["certify_program"]


def certify_program(
    program: Program, primal: Mapping[str, ArrayLike], duals: Mapping[str, ArrayLike], *, tol: float = 1e-6
) -> Certificate:
    """Check the Karush-Kuhn-Tucker conditions of a program at a point.

    With the Lagrangian of ``formulations.program``, every row gives a primal residual (its
    violation), a sign residual (of its multiplier; for a matrix row, the least eigenvalue) and a
    complementarity residual (multiplier times slack); every variable a stationarity residual.

    Parameters
    ----------
    program : Program
        A convex program with differentiable expressions.
    primal : mapping of str to array_like
        A value for every variable.
    duals : mapping of str to array_like
        Multipliers for every row, by row name, in the house's sign convention.
    tol : float
        Relative tolerance.

    Returns
    -------
    Certificate
        ``optimal`` or ``none``. The dual value is the Lagrangian at the point, which bounds the
        optimum once the point is stationary.
    """
    program.assign(primal)
    multipliers = {row.name: np.asarray(duals[row.name], dtype=float) for row in program.rows}
    size = max(float(np.max(np.abs(v.value), initial=0.0)) for v in program.variables.values()) or 1.0
    largest = max((float(np.max(np.abs(mu), initial=0.0)) for mu in multipliers.values()), default=0.0) or 1.0
    sign = 1.0 if program.sense == "minimise" else -1.0
    value = sign * float(program.objective.expr.value)
    scale = abs(value) or 1.0

    residuals: list[Residual] = []
    lagrangian = value
    gradient = _Gradient(program)
    for term in _summands(program.objective.expr):  # one by one: what they cancel is not their scale
        gradient.add(term, np.array([sign]))
    for row in program.rows:
        mu = multipliers[row.name]
        term, found = _row_residuals(row, mu, size, largest, scale)
        residuals += found
        lagrangian += term
        gradient.add(row.constraint.expr, -mu if _is_matrix(row) else mu)
    residuals += gradient.residuals()

    values = (sign * value, sign * lagrangian)
    proven = all(r.relative <= tol for r in residuals) and relative_gap(*values) <= tol
    return Certificate(
        program=program.name,
        claim=Claim.OPTIMAL if proven else Claim.NONE,
        primal_value=values[0],
        dual_value=values[1],
        residuals=tuple(residuals),
        tol=tol,
        scope=program.name,
        sense=program.sense,
    )


def _summands(expression: cp.Expression) -> list[cp.Expression]:
    """The terms that a scalar expression adds up."""
    if type(expression).__name__ != "AddExpression":
        return [expression]
    return [term for argument in expression.args for term in _summands(argument)]


def _is_matrix(row: Row) -> bool:
    return type(row.constraint).__name__ == "PSD"


def _row_residuals(
    row: Row, mu: NDArray[Any], size: float, largest: float, scale: float
) -> tuple[float, list[Residual]]:
    """The row's term in the Lagrangian, and its residuals. Rows are g(x) <= 0, h(x) = 0 or G(x) >= 0."""
    g = np.asarray(row.constraint.expr.value, dtype=float)
    if _is_matrix(row):
        g, mu = (g + g.T) / 2, (mu + mu.T) / 2
        product = abs(float(np.sum(mu * g)))
        return -float(np.sum(mu * g)), [
            residual("primal", row.name, -np.linalg.eigvalsh(g)[:1], size),
            residual("sign", row.name, -np.linalg.eigvalsh(mu)[:1], largest),
            residual("complementarity", row.name, np.array(product), scale),
        ]
    extent = max(size, *(float(np.max(np.abs(side.value), initial=0.0)) for side in row.constraint.args))
    if type(row.constraint).__name__ == "Equality":
        return float(np.sum(mu * g)), [residual("primal", row.name, np.abs(g), extent)]
    return float(np.sum(mu * g)), [
        residual("primal", row.name, g, extent),
        residual("sign", row.name, -mu, largest),
        residual("complementarity", row.name, np.abs(mu * g), scale),
    ]


class _Gradient:
    """The gradient of the Lagrangian in each variable, and the largest single term it adds up.

    The largest term is the scale of the stationarity residual: it does not cancel.
    """

    def __init__(self, program: Program):
        self.variables = program.variables
        self.total = {name: np.zeros(v.size) for name, v in program.variables.items()}
        self.extent = dict.fromkeys(program.variables, 0.0)

    def add(self, expression: cp.Expression, multiplier: NDArray[Any]) -> None:
        """Add the gradient of ``sum(multiplier * expression)``."""
        flat = multiplier.ravel(order="F")
        for variable, jacobian in expression.grad.items():
            name = next(key for key, known in self.variables.items() if known.id == variable.id)
            terms = sp.csr_array(np.atleast_2d(jacobian)) if np.isscalar(jacobian) else sp.csr_array(jacobian)
            terms = terms.multiply(flat[None, :])
            self.total[name] += np.asarray(terms.sum(axis=1)).ravel()
            self.extent[name] = max(self.extent[name], float(abs(terms).max()))

    def residuals(self) -> list[Residual]:
        return [
            residual("stationarity", name, np.abs(total), self.extent[name] or 1.0)
            for name, total in self.total.items()
        ]
