"""Certificates of hinge-type machines, linear or kernel: SVM, Sigma-SVM, Relative Margin Machine.

All are one program, with f_i = w'phi(x_i) + b and families q of rows (:mod:`formulations.families`):

    min  ½‖w‖² + Σ_q Σ_i cap_qi ξ_qi
    s.t. side_qi f_i ≥ kink_q − ξ_qi [mu_qi],  ξ ≥ 0,  and ξ_qi = 0 where cap_qi is infinite

with one family for the SVM, three for the Relative Margin Machine, another metric for the Sigma-SVM, and b
fixed at 0 where the program has no free intercept (a face of the convex polytope machine). Its dual is

    max  Σ_q kink_q Σ_i mu_qi − ½‖Σ β_i phi(x_i)‖²,   β_i = Σ_q side_qi mu_qi
    s.t. Σ β_i = 0,  0 ≤ mu ≤ cap.

Every number in a certificate is one of these two objectives, at a point that has first been made
exactly feasible, or a residual of the optimality conditions between them.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from formulations.language.arguments import real_array, real_number, tolerance, whole
from polyopt.certificates.certificate import Certificate, Residual, conclude, conclude_infeasible, residual
from polyopt.certificates.claims.statement import Evidence
from polyopt.linalg.rounding import ABOVE, Ball
from polyopt.margin.claim import state_hinge, state_ray
from polyopt.margin.dual_ascent import ascend
from polyopt.margin.infeasibility_ray import to_feasible, value_between
from polyopt.margin.residuals import (
    balance_residual,
    complementarity_violations,
    primal_violations,
    sign_violations,
    stationarity,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from formulations.language.types import Vector
    from polyopt.margin.hinge_program import HingeProgram

__all__ = ["BROKEN", "NO_RAY", "certify_hinge", "find_ray"]

BROKEN = "The point breaks its bounds; the value is of the point scaled back to them."
NO_RAY = "No multiple of the point keeps every hard row for certain."
_MAX_EXACT_TERMS = 1_000_000  # of rational sums


def certify_hinge(
    program: HingeProgram,
    *,
    v: Vector | None = None,
    b: Ball | float | None = None,
    multipliers: Mapping[str, ArrayLike] | None = None,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> Certificate:
    """Certify a point of a hinge program: primal, dual, or both.

    Parameters
    ----------
    program : HingeProgram
        The program and its data.
    v : ndarray, optional
        w (m,), or expansion coefficients (n,) for a kernel. By default what the multipliers imply.
    b : Ball or float, optional
        Intercept, for the samples as the geometry scores them. By default the best one for v.
    multipliers : mapping of str to ndarray of shape (n,), optional
        By the names of the program's families; zeros for families that are not given. Without them the point
        is merely primal, and a dual bound is built for it.
    tol : float
        Relative tolerance for the gap and for every residual.
    max_iter : int
        Ascent steps spent on the bound for a merely primal point.

    Returns
    -------
    Certificate
        ``optimal`` only if the gap and every residual that can be checked are within `tol`.

    Raises
    ------
    ValueError
        Neither v nor multipliers, numbers that are not finite, or an argument out of its range.
    """
    tol, max_iter = tolerance(tol), whole("max_iter", max_iter, 0)
    geometry, rows = program.geometry, program.rows
    if v is None and multipliers is None:
        raise ValueError("a certificate needs a primal point (w and b), multipliers (alpha), or both")
    given = None if multipliers is None else program.multipliers(multipliers)
    implied = v is None
    if v is None:
        assert given is not None
        v = geometry.represent(rows.beta(given))
    v = real_array("w", v)
    asked = [] if given is None else [rows.beta(given), rows.beta(program.repair(given))]
    geometry.prepare(v, *asked)
    b = program.best_intercept(v) if b is None else b
    b = b if isinstance(b, Ball) else Ball(real_number("b", b))
    f = geometry.outputs(v) + b

    residuals = _primal_residuals(program, f)
    near = geometry.short * float(np.linalg.norm(v)) * ABOVE
    scale, least = to_feasible(program, Ball(f.mid, f.rad + near))
    primal = value_between(program, v, f, scale, least)
    feasible = all(r.relative <= tol for r in residuals)

    if given is None:
        found = ascend(program, v, f.mid, float(primal.upper), tol, max_iter)
        dual = program.bound(found)
    else:
        found = given
        repaired = program.repair(given)
        dual = program.bound(repaired)
        residuals += _dual_residuals(program, given)
        if not implied:
            residuals += _stationarity(program, v, given, float(primal.mid))
        residuals += _complementarity(program, f.mid, given)
        if (ray := find_ray(program, given)) is not None:
            proven = conclude_infeasible(program.name, float(primal.upper), residuals, tol)
            hard = np.isinf(program.rows.caps).all()
            return replace(proven, evidence=(Evidence(partial(state_ray, program, ray)),) if hard else ())
    certificate = conclude(
        program.name,
        primal,
        dual,
        residuals,
        tol,
        feasible=feasible,
        notes=["" if feasible else BROKEN, NO_RAY if np.isinf(scale) else "", geometry.note],
    )
    return replace(certificate, evidence=(Evidence(partial(state_hinge, program, v, float(b.mid), found)),))


def _primal_residuals(program: HingeProgram, f: Ball) -> list[Residual]:
    return [residual("primal", row, missed, unit) for row, missed, unit in primal_violations(program, f)]


def _dual_residuals(program: HingeProgram, Z: Vector) -> list[Residual]:
    """Signs and caps against the largest multiplier; the balance against the sum of their sizes."""
    scale = float(np.abs(Z).max()) or float(program.rows.caps.max())
    found = [residual("sign", row, missed, scale) for row, missed in sign_violations(program, Z)]
    if program.intercept:
        beta = program.rows.beta(Z)
        found.append(balance_residual(float(beta.sum()), float(np.abs(beta).sum())))
    return found


def _stationarity(program: HingeProgram, v: Vector, Z: Vector, primal_value: float) -> list[Residual]:
    geometry = program.geometry
    beta = program.rows.beta(Z)
    gradient, pulled = geometry.gradient(v), geometry.pull(beta)
    return stationarity(gradient, pulled, geometry.pull_scale(beta), geometry.unit, primal_value)


def _complementarity(program: HingeProgram, f: Vector, Z: Vector) -> list[Residual]:
    """Relative to the largest multiplier times the size of an output at the row.

    So the number of samples does not matter.
    """
    largest = float(np.abs(Z).max()) or 1.0
    return [
        residual("complementarity", row, product, largest * unit)
        for row, product, unit in complementarity_violations(program, f, Z)
    ]


def find_ray(program: HingeProgram, Z: Vector) -> list[list[Fraction]] | None:
    """The ray of the dual that multipliers are: w = 0, a positive gain, and no cap that ends it; or None.

    Proven in rational arithmetic, for linear features: a vector that is only nearly zero proves
    that a feasible w is long, and no more. The multipliers are taken as multiples of the least of them, as a
    solver's are off in their last digits.

    Parameters
    ----------
    program : HingeProgram
        The program.
    Z : ndarray of shape (q, n)
        The multipliers, by family.

    Returns
    -------
    list of lists of Fraction, or None
        Multipliers (q, n) next to these that are one exactly.
    """
    X, rows = getattr(program.geometry, "X", None), program.rows
    weight = Z.sum(axis=0)
    used = np.flatnonzero(weight > 1e-9 * weight.max(initial=0.0))
    if X is None or not len(used) or np.isfinite(rows.caps[Z > 0]).any():
        return None
    if len(used) * X.shape[1] > _MAX_EXACT_TERMS or (weight < 0).any():
        return None
    exact = [[Fraction(float(x)) for x in mu[used]] for mu in Z]
    least = float(weight[used].min())
    rounded = [[Fraction(float(x / least)).limit_denominator(10**6) for x in mu[used]] for mu in Z]
    for multipliers in (exact, rounded):
        beta = [Fraction(0)] * len(used)
        for family, row in zip(rows, multipliers, strict=True):
            beta = [s + int(side) * mu for s, side, mu in zip(beta, family.side[used], row, strict=True)]
        gain = sum(Fraction(family.kink) * sum(row) for family, row in zip(rows, multipliers, strict=True))
        if gain <= 0 or (program.intercept and sum(beta) != 0):
            continue
        columns = (X[used].toarray() if sp.issparse(X) else X[used]).T
        sums = (sum(b * Fraction(float(x)) for b, x in zip(beta, column, strict=True)) for column in columns)
        if all(total == 0 for total in sums):
            found = [[Fraction(0)] * rows.n for _ in rows]
            for row, multiplier in zip(found, multipliers, strict=True):
                for i, value in zip(used.tolist(), multiplier, strict=True):
                    row[i] = value
            return found
    return None
