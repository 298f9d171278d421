"""Certificates of hinge-type machines, linear or kernel: SVM, Sigma-SVM, Relative Margin Machine.

All are one program, with f_i = w'phi(x_i) + b and families q of rows (:mod:`formulations.families`):

    min  ½‖w‖² + Σ_q Σ_i cap_qi ξ_qi
    s.t. side_qi f_i ≥ kink_q − ξ_qi [mu_qi],  ξ ≥ 0,  and ξ_qi = 0 where cap_qi is infinite

with one family for the SVM, three for the Relative Margin Machine, another metric for the Sigma-SVM, and b
fixed at 0 where the program has no free intercept (a face of the convex polytope machine). Its dual is

    max  Σ_q kink_q Σ_i mu_qi − ½‖Σ β_i phi(x_i)‖²,   β_i = Σ_q side_qi mu_qi
    s.t. Σ β_i = 0,  0 ≤ mu ≤ cap.

Every number in a certificate is one of these two objectives, at a point that has first been made exactly
feasible, or a residual of the optimality conditions between them.

Without multipliers a dual bound is built: any feasible multipliers give a valid bound. They are guessed from
the point, and then improved by accelerated projected ascent, which needs only products with the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import lsq_linear

from formulations.language.arguments import real_array, real_number, tolerance, whole
from formulations.language.types import Vector
from polyopt.certificates.certificate import (
    Certificate,
    Residual,
    conclude,
    conclude_infeasible,
    relative_gap,
)
from polyopt.certificates.claims.statement import Evidence
from polyopt.linalg.rounding import ABOVE, Ball
from polyopt.margin.claim import state_hinge, state_ray
from polyopt.margin.geometry import KernelGeometry
from polyopt.margin.hinge_program import (
    HingeProgram,
    check_conditions,
    residuals,
    stationarity,
    to_feasible,
    value_between,
)

__all__ = ["certify_hinge"]

BROKEN = "The point breaks its bounds; the value is of the point scaled back to them."
NO_RAY = "No multiple of the point keeps every hard row for certain."
_MAX_EXACT_TERMS = 1_000_000  # terms of rational sums in a proof of infeasibility
_BANDS = (1e-6, 1e-4, 1e-2)  # distances from the margin or a bound within which an output counts as on it
_MAX_FREE = 600  # multipliers fitted by least squares
_MAX_FIT_WORK = 2e9  # rows times squared columns of that fit
_MAX_KERNEL_VALUES = 4e9  # kernel values that an ascent may compute


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
    is_implied = v is None
    if v is None:
        assert given is not None
        v = geometry.primal_from_dual(rows.beta(given))
    v = real_array("w", v)
    geometry.prepare(v, *([] if given is None else [rows.beta(given), rows.beta(program.repair(given))]))
    b = program.best_intercept(v) if b is None else b
    b = b if isinstance(b, Ball) else Ball(real_number("b", b))
    f = geometry.outputs(v) + b

    found = check_conditions(program, f, given)
    near = geometry.psd_defect * float(np.linalg.norm(v)) * ABOVE
    scale, least = to_feasible(program, Ball(f.mid, f.rad + near))
    primal = value_between(program, v, f, scale, least)
    stationary: list[Residual] = []
    if given is not None and not is_implied:
        beta = rows.beta(given)
        stationary = stationarity(
            geometry.gradient(v), geometry.adjoint(beta), geometry.adjoint_scale(beta),
            geometry.gradient_scale, float(primal.mid),
        )  # fmt: skip
    measured = residuals(program, found, stationary)
    if given is not None and (ray := find_ray(program, given)) is not None:
        proven = conclude_infeasible(program.name, float(primal.upper), measured, tol)
        hard = np.isinf(rows.caps).all()
        return replace(proven, evidence=(Evidence(partial(state_ray, program, ray)),) if hard else ())
    if given is None:
        Z = ascend(program, v, f.mid, float(primal.upper), tol, max_iter)
        dual = program.bound(Z)
    else:
        Z, dual = given, program.bound(program.repair(given))
    feasible = all(r.relative <= tol for r in measured if r.condition == "primal")
    notes = ["" if feasible else BROKEN, NO_RAY if np.isinf(scale) else "", geometry.note]
    certificate = conclude(program.name, primal, dual, measured, tol, feasible=feasible, notes=notes)
    return replace(certificate, evidence=(Evidence(partial(state_hinge, program, v, float(b.mid), Z)),))


# -- infeasibility -------------------------------------------------------------------------------


def find_ray(program: HingeProgram, Z: Vector) -> list[list[Fraction]] | None:
    """Return an exact ray of the dual next to multipliers Z (q, n): w = 0, a positive gain, no finite cap.

    Return None if there is none. It is proven in rational arithmetic, for linear features: a vector that is
    only nearly zero merely proves that a feasible w is long. The last digits of a solver's multipliers are
    wrong, so multiples of the least of them are tried, too.
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


# -- a dual bound for a primal point --------------------------------------------------------------


def ascend(
    program: HingeProgram, v: Vector, f: Vector, primal_value: float, tol: float, max_iter: int
) -> Vector:
    """Find feasible multipliers (q, n) with a high dual value for the primal point v of outputs f (n,).

    The search ends once the relative gap to the point's value is within `tol`, or after `max_iter` steps;
    with a kernel of more than about a thousand samples there are fewer.
    """
    dual = _Dual(program)
    best, best_value = np.zeros(len(dual.signs)), -np.inf
    for z in dual.guesses(v, f):
        value = dual.value(z)
        if value > best_value:
            best, best_value = z, value
        if relative_gap(primal_value, best_value) <= tol:
            return dual.repaired(best)
    if isinstance(program.geometry, KernelGeometry):  # a step costs n² products
        max_iter = min(max_iter, int(_MAX_KERNEL_VALUES / program.geometry.n**2))
    if not max_iter:
        return dual.repaired(best)
    z = previous = dual.project(best)
    step, momentum = 1.0 / dual.curvature(), 1.0
    for iteration in range(1, max_iter + 1):
        faster = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = z + (momentum - 1.0) / faster * (z - previous)
        previous, momentum = z, faster
        z = dual.project(ahead + step * dual.gradient(ahead))
        if (ahead - z) @ (z - previous) > 0:  # momentum points downhill: restart it
            momentum = 1.0
        if iteration % 20 == 0 or iteration == max_iter:
            value = dual.value(z)
            if value > best_value:
                best, best_value = z, value
            if relative_gap(primal_value, best_value) <= tol:
                break
    return dual.repaired(best)


class _Dual:
    """The dual in stacked variables z: the multipliers of all families, one family after the other."""

    def __init__(self, program: HingeProgram):
        self.program, self.rows, n = program, program.rows, program.rows.n
        self.signs, self.upper = self.rows.sides.ravel(), self.rows.caps.ravel()
        self.linear = np.repeat(self.rows.kinks, n)
        # Costs of slack; 1 for margins and 0 for bounds without slack.
        hard = [1.0 if family.kink > 0.0 else 0.0 for family in self.rows]
        self.costs = np.where(np.isfinite(self.upper), self.upper, np.repeat(hard, n))

    def beta(self, z: Vector) -> Vector:
        return self.rows.beta(z.reshape(len(self.rows), -1))

    def gradient(self, z: Vector) -> Vector:
        geometry = self.program.geometry
        g = geometry.scores(geometry.primal_from_dual(self.beta(z)))
        return self.linear - self.signs * np.tile(g, len(self.rows))

    def repaired(self, z: Vector) -> Vector:
        """Feasible multipliers (q, n)."""
        return self.program.repair(z.reshape(len(self.rows), -1))

    def value(self, z: Vector) -> float:
        return float(self.program.bound(self.repaired(z)).lower)

    def guesses(self, v: Vector, f: Vector) -> Iterator[Vector]:
        """Yield guesses of the multipliers, the cheapest first; if the point is optimal, one of them is.

        The first are expansion coefficients up to their signs. The others follow complementary slackness: the
        cap if a row needs slack, 0 beyond its kink, and at the kink the least squares fit of w.
        """
        room = np.concatenate([family.room(f) for family in self.rows])
        if isinstance(self.program.geometry, KernelGeometry):
            yield self.rows.split(v).ravel()
        yield self.project(self.costs * np.clip((_BANDS[-1] - room) / (2.0 * _BANDS[-1]), 0.0, 1.0))
        for band in _BANDS:
            yield self.fitted(v, room, band)

    def fitted(self, v: Vector, room: Vector, band: float) -> Vector:
        """Multipliers that fit w best by least squares in those that are free at the point."""
        geometry = self.program.geometry
        soft = self.costs > 0.0
        free = np.where(soft, np.abs(room) <= band, room <= band)
        z = self.costs * (room < 0.0)
        z[free] = 0.0
        places = np.flatnonzero(free)
        if not 0 < len(places) <= _MAX_FREE or self.rows.n * len(places) ** 2 > _MAX_FIT_WORK:
            return z
        beta = self.beta(z)
        columns = geometry.columns(places % geometry.n) * self.signs[places]
        target = geometry.gradient(v) - geometry.adjoint(beta)
        if self.program.intercept:
            # The balance is one more row, in the units of the others.
            unit = float(np.abs(columns).max()) or 1.0
            columns = np.vstack([columns, unit * self.signs[places]])
            target = np.append(target, -unit * beta.sum())
        z[places] = lsq_linear(columns, target, (0.0, self.upper[places] + 1e-300), method="bvls").x
        return z

    def curvature(self) -> float:
        """Estimate of the largest curvature of the dual, with a safety margin."""
        return len(self.rows) * 1.1 * self.program.geometry.curvature() or 1.0

    def project(self, z: Vector) -> Vector:
        """Project on 0 <= z <= upper and, with a free intercept, signs'z = 0.

        The projection is z less a multiple of the signs, clipped to the box. Its balance signs'z decreases
        with the multiple and is piecewise linear, with breakpoints where an entry reaches an end of its
        interval: bisection finds the piece that crosses 0, and its slope is the number of entries inside.
        """

        def moved(shift: float) -> Vector:
            return np.minimum(np.maximum(z - shift * self.signs, 0.0), self.upper)

        if not self.program.intercept or not len(z):
            return moved(0.0)
        begin, end = np.sort([self.signs * z, self.signs * (z - self.upper)], axis=0)
        places = np.unique([begin, end])
        places = np.concatenate([[-np.inf], places[np.isfinite(places)], [np.inf]])
        low, high, above = 0, len(places) - 1, 0.0  # the balance is positive at low, and not at high
        while high - low > 1:
            middle = (low + high) // 2
            balance = float(self.signs @ moved(places[middle]))
            if balance > 0.0:
                low, above = middle, balance
            else:
                high = middle
        if low == 0:  # the balance is positive nowhere: the caps of positive signs are 0
            return moved(places[high])
        moving = max(int(((begin <= places[low]) & (end >= places[high])).sum()), 1)
        return moved(places[low] + above / moving)
