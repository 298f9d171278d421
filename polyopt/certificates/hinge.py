"""Certificates of the hinge family: SVM, Sigma-SVM and Relative Margin Machine, linear or kernel.

All are one program, with f_i = w'phi(x_i) + b:

    min  ½‖w‖² + Σ C_i ξ_i
    s.t. y_i f_i ≥ 1 − ξ_i [alpha],  ξ_i ≥ 0,  f_i ≤ B [lam],  −f_i ≤ B [lam_star]

with B infinite for the SVM and the Sigma-SVM, another metric for the latter, and b fixed at 0 where
the program has no free intercept (a face of the convex polytope machine). Its dual is

    max  Σ α_i − B Σ (λ_i + λ*_i) − ½‖Σ β_i phi(x_i)‖²,   β = α∘y − λ + λ*
    s.t. Σ β_i = 0,  0 ≤ α ≤ C,  λ, λ* ≥ 0.

Every number in a certificate is one of these two objectives, at a point that has first been made
exactly feasible, or a residual of the optimality conditions between them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from formulations.arguments import real_array, real_number
from formulations.recovery import slacks
from polyopt.certificates.ascent import ascend
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.given import checked_iterations, checked_tol
from polyopt.certificates.ray import to_feasible, value_between
from polyopt.certificates.rounding import Ball

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.certificates.hinge_program import HingeProgram, Multipliers

    Vector = NDArray[np.float64]

__all__ = ["certify_hinge", "is_ray"]

_BROKEN = "The point breaks its bounds; the value is of the point scaled back to them."
_NO_RAY = "No multiple of the point keeps every hard row for certain."
_HIDES = 1e-9  # rounding of an output from which on it may hide that a row is broken
_EXACT_TERMS = 1_000_000  # of rational sums, at most
_DENOMINATOR = 10**6  # of a multiplier in units of the least one


def certify_hinge(
    program: HingeProgram,
    *,
    v: Vector | None = None,
    b: Ball | float | None = None,
    alpha: Vector | None = None,
    lam: Vector | None = None,
    lam_star: Vector | None = None,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> Certificate:
    """Certify a point of a hinge program: primal, dual, or both.

    Parameters
    ----------
    program : HingeProgram
        The program and its data.
    v : ndarray, optional
        w (m,), or expansion coefficients (n,) for a kernel. By default what `alpha` implies.
    b : Ball or float, optional
        Intercept, for the samples as the geometry scores them. By default the best one for v.
    alpha, lam, lam_star : ndarray of shape (n,), optional
        Multipliers. Without `alpha` the point is merely primal, and a dual bound is built for it.
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
        Neither v nor alpha, numbers that are not finite, or an argument out of its range.
    """
    tol, max_iter = checked_tol(tol), checked_iterations(max_iter)
    geometry, y = program.geometry, program.y
    if v is None and alpha is None:
        raise ValueError("a certificate needs a primal point (w and b), multipliers (alpha), or both")
    if alpha is None and (lam is not None or lam_star is not None):
        raise ValueError("lam and lam_star are multipliers beside alpha, which is not given")
    given = None if alpha is None else program.multipliers(alpha, lam, lam_star)
    implied = v is None
    if v is None:
        assert given is not None
        v = geometry.represent(given.beta(y))
    v = real_array("w", v)
    asked = [] if given is None else [given.beta(y), program.repair(given).beta(y)]
    geometry.prepare(v, *asked)
    b = program.best_intercept(v) if b is None else b
    b = b if isinstance(b, Ball) else Ball(real_number("b", b))
    f = geometry.outputs(v) + b

    residuals = _primal_residuals(program, f)
    near = geometry.short * float(np.linalg.norm(v)) * (1 + 1e-9)
    scale, least = to_feasible(program, Ball(f.mid, f.rad + near))
    primal = value_between(program, v, f, scale, least)
    feasible = all(r.relative <= tol for r in residuals)

    if given is None:
        dual = program.bound(ascend(program, v, f.mid, float(primal.upper), tol, max_iter))
    else:
        repaired = program.repair(given)
        dual = program.bound(repaired)
        residuals += _dual_residuals(program, given)
        if not implied:
            residuals += _stationarity(program, v, given, float(primal.mid))
        residuals += _complementarity(program, f.mid, given)
        if is_ray(program, given):
            return Certificate(
                program.name, Claim.INFEASIBLE, float(primal.upper), np.inf, tuple(residuals), tol
            )
    return conclude(
        program.name,
        primal,
        dual,
        residuals,
        tol,
        feasible=feasible,
        notes=["" if feasible else _BROKEN, _NO_RAY if np.isinf(scale) else "", geometry.note],
    )


def _primal_residuals(program: HingeProgram, f: Ball) -> list[Residual]:
    """Hard rows only, at what the outputs may be: slacks are recomputed, so the margin rows hold."""
    found = []
    if np.isfinite(program.B):
        scale = max(program.B, 1.0)
        found += [
            residual("primal", "bound_above", _certain(f.mid - program.B, f.rad), scale),
            residual("primal", "bound_below", _certain(-f.mid - program.B, f.rad), scale),
        ]
    hard = np.isinf(program.C)
    if hard.any():
        short = _certain(1.0 - program.y * f.mid, f.rad)
        found.append(residual("primal", "margin", np.where(hard, short, 0.0), 1.0))
    return found


def _certain(violation: Vector, rad: Vector) -> Vector:
    """Violations, at their worst where rounding hides them; what rounding alone makes of a row is none."""
    return np.where(rad > _HIDES, violation + rad, violation)


def _dual_residuals(program: HingeProgram, dual: Multipliers) -> list[Residual]:
    """Signs and caps against the largest multiplier; the balance against the sum of their sizes.

    The multiplier of the row ``slack`` is C - alpha, so its sign is the cap on alpha.
    """
    families = [("margin", dual.alpha)]
    if np.isfinite(program.B):
        families += [("bound_above", dual.lam), ("bound_below", dual.lam_star)]
    largest = max(float(np.abs(part).max()) for _, part in families)
    scale = largest or float(program.C.max())
    found = [residual("sign", name, -part, scale) for name, part in families]
    found.append(residual("sign", "slack", dual.alpha - program.C, scale))
    if program.intercept:
        beta = dual.beta(program.y)
        total, size = abs(float(beta.sum())), float(np.abs(beta).sum())
        found.append(Residual("stationarity", "b", total, total / size if size > 0 else total))
    return found


def _stationarity(program: HingeProgram, v: Vector, dual: Multipliers, primal_value: float) -> list[Residual]:
    """The gradient in w, relative to its own size.

    Where the pulls of the samples cancel, rounding is relative to what cancels and not to what is
    left; and where w is all but zero, it is so next to what would matter to the objective.
    """
    geometry = program.geometry
    beta = dual.beta(program.y)
    gradient, pulled = geometry.gradient(v), geometry.pull(beta)
    scale = max(
        float(np.abs(gradient).max(initial=0.0)),
        float(np.abs(pulled).max(initial=0.0)),
        1e-8 * geometry.pull_scale(beta),
        1e-4 * geometry.unit * float(np.sqrt(2.0 * primal_value)),
    )
    return [residual("stationarity", "w", np.abs(gradient - pulled), scale)] if len(gradient) else []


def _complementarity(program: HingeProgram, f: Vector, dual: Multipliers) -> list[Residual]:
    """Products of multiplier and slack of each row; together they add up to the gap.

    Relative to the largest multiplier times a unit of output (B units, for a bound), and so as
    strict for many samples as for few.
    """
    y, C = program.y, program.C
    xi = slacks(f, y)
    soft = np.isfinite(C)
    unused = np.where(soft, (np.where(soft, C, 0.0) - dual.alpha) * xi, 0.0)
    scale = max(float(np.abs(part).max()) for part in (dual.alpha, dual.lam, dual.lam_star)) or 1.0
    found = [
        residual("complementarity", "margin", np.abs(dual.alpha * (y * f - 1.0 + xi)), scale),
        residual("complementarity", "slack", np.abs(unused), scale),
    ]
    if np.isfinite(program.B):
        scale *= max(program.B, 1.0)
        found += [
            residual("complementarity", "bound_above", np.abs(dual.lam * (program.B - f)), scale),
            residual("complementarity", "bound_below", np.abs(dual.lam_star * (program.B + f)), scale),
        ]
    return found


def is_ray(program: HingeProgram, dual: Multipliers) -> bool:
    """Whether the multipliers are a ray of the dual: w = 0, a positive gain, and no cap that ends it.

    Proven in rational arithmetic, for linear features: a vector that is merely next to zero proves no more
    than that a feasible w is long. The multipliers are taken as multiples of the least of them, as a
    solver's are off in their last digits.

    Parameters
    ----------
    program : HingeProgram
        The program.
    dual : Multipliers
        The multipliers.
    """
    X = getattr(program.geometry, "X", None)
    weight = dual.alpha + dual.lam + dual.lam_star
    used = np.flatnonzero(weight > 1e-9 * weight.max(initial=0.0))
    if X is None or not len(used) or np.isfinite(program.C[dual.alpha > 0]).any():
        return False
    if len(used) * X.shape[1] > _EXACT_TERMS or (weight < 0).any():
        return False
    parts = [part[used] for part in (dual.alpha, dual.lam, dual.lam_star)]
    exact = [[Fraction(float(x)) for x in part] for part in parts]
    least = float(weight[used].min())
    rounded = [[Fraction(float(x / least)).limit_denominator(_DENOMINATOR) for x in part] for part in parts]
    for alpha, lam, lam_star in (exact, rounded):
        beta = [a * int(y) - u + v for a, y, u, v in zip(alpha, program.y[used], lam, lam_star, strict=True)]
        gain = sum(alpha)
        if np.isfinite(program.B):
            gain -= Fraction(program.B) * (sum(lam) + sum(lam_star))
        if gain <= 0 or (program.intercept and sum(beta) != 0):
            continue
        rows = X[used].toarray() if sp.issparse(X) else X[used]
        if all(
            sum(b * Fraction(float(x)) for b, x in zip(beta, column, strict=True)) == 0 for column in rows.T
        ):
            return True
    return False
