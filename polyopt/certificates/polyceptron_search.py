"""The certificate of the exact Polyceptron's optimum over all faces and all assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import Certificate, Claim, conclude
from polyopt.certificates.polyhedral_lp import certify_polyceptron

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.matrices import MatrixLike
    from formulations.solution import Solution

__all__ = ["certify_polyceptron_search"]

_NAME = "the exact Polyceptron"
_SEARCHED = (
    "The bound is that of this package's own branch and bound over all assignments, each of its bounds from "
    "multipliers and lowered by the rounding of its evaluation; it is not computed anew here."
)
_PARTS = (
    "The bound is the sum of the bounds on {count} parts, which share the costs of the samples, each by this "
    "package's own branch and bound over all assignments, from multipliers, and lowered by its rounding; "
    "they are not computed anew here."
)


def certify_polyceptron_search(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, found: Solution, radius: float = 1e4, tol: float = 1e-6
) -> Certificate:
    """Certify what this package's own branch and bound found, among all assignments.

    Parameters
    ----------
    X, y, C, radius, tol
        As in :func:`polyopt.certificates.certify_polyceptron`, and as the search had them.
    found : Solution
        What :func:`~polyopt.outer.polyceptron_global.solve_polyceptron_global` returned for these data: its
        point, its multipliers and its bound, which is safe from rounding.

    Returns
    -------
    Certificate
        ``optimal`` among all faces in the box if the point attains the bound, else ``suboptimal_by``.
    """
    own = certify_polyceptron(
        X, y, found["W"], C=C, u=found.duals.get("margin"), radius=radius, tol=tol
    )  # fmt: skip
    if own.scope == own.program and own.claim is Claim.OPTIMAL:
        return own
    bounds = found.duals["part_bound"]
    note = _SEARCHED if len(bounds) < 2 else _PARTS.format(count=len(bounds))
    bound = min(float(found.bound or 0.0), float(np.sum(bounds)))
    residuals = [each for each in own.residuals if each.condition == "primal"]
    feasible = own.claim is not Claim.NONE
    return conclude(_NAME, own.primal_value, bound, residuals, own.tol, feasible=feasible, notes=[note])
