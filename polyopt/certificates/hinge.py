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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.recovery import best_intercept, slacks
from polyopt.certificates.certificate import (
    Certificate,
    Claim,
    Residual,
    convex_claim,
    relative_gap,
    residual,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.certificates.geometry import Geometry

    Vector = NDArray[np.float64]

__all__ = ["HingeProgram", "Multipliers", "certify_hinge"]


@dataclass(frozen=True)
class Multipliers:
    """The multipliers of a hinge program, in input order.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
        Of the margin rows.
    lam, lam_star : ndarray of shape (n,)
        Of the upper and the lower bounds; zero where the program has none.
    """

    alpha: Vector
    lam: Vector
    lam_star: Vector

    def beta(self, y: Vector) -> Vector:
        """``alpha * y - lam + lam_star``: the expansion coefficients of w."""
        return self.alpha * y - self.lam + self.lam_star


@dataclass(frozen=True)
class HingeProgram:
    """The data of one hinge program.

    Attributes
    ----------
    name : str
        What the certificate calls it.
    geometry : Geometry
        The feature space.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    C : ndarray of shape (n,)
        Cost per sample; infinite for a hard margin.
    B : float
        Bound on the outputs; infinite for none.
    intercept : bool
        Whether b is free.
    """

    name: str
    geometry: Geometry
    y: Vector
    C: Vector
    B: float = np.inf
    intercept: bool = True

    def primal_value(self, v: Vector, f: Vector, shrink: float = 1.0) -> float:
        """Objective with the least slacks at ``shrink * v``, where the outputs are ``shrink * f``."""
        xi = slacks(shrink * f, self.y)
        paid = xi > 0
        return 0.5 * shrink**2 * self.geometry.energy(v) + float(self.C[paid] @ xi[paid])

    def dual_value(self, dual: Multipliers) -> float:
        """Dual objective; a bound on the optimum wherever the multipliers are feasible."""
        v = self.geometry.represent(dual.beta(self.y))
        bounds = float(dual.lam.sum() + dual.lam_star.sum())
        return float(dual.alpha.sum()) - (self.B * bounds if bounds else 0.0) - 0.5 * self.geometry.energy(v)

    def best_intercept(self, v: Vector) -> float:
        """The intercept that is optimal for v; 0 where the program has none."""
        if not self.intercept:
            return 0.0
        return best_intercept(self.geometry.scores(v), self.y, self.C, self.B)

    def multipliers(self, alpha: Vector, lam: Vector | None, lam_star: Vector | None) -> Multipliers:
        """Multipliers with zeros for those that are not given."""
        zeros = np.zeros(self.geometry.n)
        lam, lam_star = (zeros if part is None else np.asarray(part, dtype=float) for part in (lam, lam_star))
        return Multipliers(np.asarray(alpha, dtype=float), lam, lam_star)

    def split(self, beta: Vector) -> Multipliers:
        """The multipliers that give the most for this beta: alpha takes what its cap lets it."""
        # For B < 1 a bound's multiplier costs less than alpha earns, and alpha is at its cap.
        least = np.where(np.isfinite(self.C) & (self.B < 1.0), self.C, 0.0)
        ends = self.y * least, self.y * self.C
        low, high = np.minimum(*ends), np.maximum(*ends)
        lam, lam_star = np.maximum(low - beta, 0.0), np.maximum(beta - high, 0.0)
        return Multipliers(self.y * np.clip(beta, low, high), lam, lam_star)

    def repair(self, dual: Multipliers) -> Multipliers:
        """The multipliers made feasible: clipped to their signs and caps, then balanced.

        The balance Σ β_i = 0 is restored by shrinking the side that is too heavy, which keeps every
        sign and every cap.
        """
        alpha = np.clip(dual.alpha, 0.0, self.C)
        bounded = np.isfinite(self.B)
        lam, lam_star = (
            np.maximum(part, 0.0) if bounded else 0.0 * part for part in (dual.lam, dual.lam_star)
        )
        if not self.intercept:
            return Multipliers(alpha, lam, lam_star)
        up = self.y > 0
        s_plus, s_minus = balancing(alpha[up].sum() + lam_star.sum(), alpha[~up].sum() + lam.sum())
        return Multipliers(alpha * np.where(up, s_plus, s_minus), lam * s_minus, lam_star * s_plus)


def balancing(plus: float, minus: float) -> tuple[float, float]:
    """Factors of at most 1 that make two non-negative sums equal by shrinking the larger one."""
    light = min(plus, minus)
    return (light / plus if plus > 0 else 0.0, light / minus if minus > 0 else 0.0)


def certify_hinge(
    program: HingeProgram,
    *,
    v: Vector | None = None,
    b: float | None = None,
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
    b : float, optional
        Intercept. By default the best one for v.
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
    """
    if v is None and alpha is None:
        raise ValueError("a certificate needs a primal point (w and b), multipliers (alpha), or both")
    geometry, y = program.geometry, program.y
    given = None if alpha is None else program.multipliers(alpha, lam, lam_star)
    implied = v is None
    if v is None:
        assert given is not None
        v = geometry.represent(given.beta(y))
    asked = [] if given is None else [given.beta(y), program.repair(given).beta(y)]
    geometry.prepare(v, *asked)
    f = geometry.scores(v) + (program.best_intercept(v) if b is None else b)

    residuals = _primal_residuals(program, f)
    reach = float(np.abs(f).max())
    shrink = program.B / reach if reach > program.B else 1.0
    primal_value = program.primal_value(v, f, shrink)
    feasible = all(r.relative <= tol for r in residuals)

    if given is None:
        from polyopt.certificates.ascent import ascend

        dual_value = program.dual_value(ascend(program, v, f, primal_value, tol, max_iter))
    else:
        dual_value = program.dual_value(program.repair(given))
        residuals += _dual_residuals(program, given)
        if not implied:
            residuals += _stationarity(program, v, given, primal_value)
        residuals += _complementarity(program, f, given)
        if _is_ray(program, given):
            return Certificate(program.name, Claim.INFEASIBLE, primal_value, np.inf, tuple(residuals), tol)

    return Certificate(
        program=program.name,
        claim=convex_claim(feasible, residuals, relative_gap(primal_value, dual_value), tol),
        primal_value=primal_value,
        dual_value=dual_value,
        residuals=tuple(residuals),
        tol=tol,
        scope=program.name,
        note=""
        if feasible
        else "The point breaks its bounds; the value is of the point scaled back to them.",
    )


def _primal_residuals(program: HingeProgram, f: Vector) -> list[Residual]:
    """Hard rows only: slacks are recomputed, so the margin rows hold by construction."""
    found = []
    if np.isfinite(program.B):
        scale = max(program.B, 1.0)
        found += [
            residual("primal", "bound_above", f - program.B, scale),
            residual("primal", "bound_below", -f - program.B, scale),
        ]
    hard = np.isinf(program.C)
    if hard.any():
        found.append(residual("primal", "margin", np.where(hard, slacks(f, program.y), 0.0), 1.0))
    return found


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


def _is_ray(program: HingeProgram, dual: Multipliers) -> bool:
    """Whether the multipliers are a ray of the dual: w = 0, a positive gain, and no cap that ends it."""
    if np.isfinite(program.C[dual.alpha > 0]).any():
        return False
    repaired = program.repair(dual)
    beta = repaired.beta(program.y)
    gain = program.dual_value(repaired)
    pulled = float(np.abs(program.geometry.pull(beta)).max(initial=0.0))
    return gain > 0 and pulled <= 1e-9 * program.geometry.pull_scale(beta)
