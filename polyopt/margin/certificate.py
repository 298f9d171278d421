"""Certificates of hinge-type machines, linear or kernel: SVM, Sigma-SVM, Relative Margin Machine.

All are one program, with f_i = w'phi(x_i) + b and families q of rows (:mod:`formulations.families`):

    min  ½‖w‖² + Σ_q Σ_i cap_qi ξ_qi
    s.t. side_qi f_i ≥ kink_q − ξ_qi [mu_qi],  ξ ≥ 0,  and ξ_qi = 0 where cap_qi is infinite

with one family for the SVM, three for the Relative Margin Machine, another metric for the Sigma-SVM, and b
fixed at 0 where the program has no free intercept (a face of the convex polytope machine). Its dual is

    max  Σ_q kink_q Σ_i mu_qi − ½‖Σ β_i phi(x_i)‖²,   β_i = Σ_q side_qi mu_qi
    s.t. Σ β_i = 0,  0 ≤ mu ≤ cap.

The constraint Σ β_i = 0 is called the balance; it belongs to a free intercept. Rows with side +1 are lower
bounds on the outputs, rows with side −1 upper bounds. A row is hard if its cap is infinite, else soft.

Every number in a certificate is one of these two objectives, at a point that has first been made exactly
feasible, or a residual of the optimality conditions between them.

Read top to bottom: the program with both objectives in ball arithmetic; the feasible point on the ray of a
given one; the residuals of the conditions; the certificate; proofs of infeasibility; a bound for a primal
point. A certificate by blocks of samples sums what the first three return for each block.

Without multipliers a dual bound is built: any feasible multipliers give a valid bound. They are guessed from
the point, and then improved by accelerated projected ascent, which needs only products with the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import lsq_linear

from formulations.families import Families
from formulations.language.arguments import real_array, real_number, tolerance, whole
from formulations.language.types import Vector
from polyopt.certificates.certificate import (
    Certificate,
    Residual,
    conclude,
    conclude_infeasible,
    relative_gap,
    residual,
)
from polyopt.certificates.claims.statement import Evidence
from polyopt.certificates.tally import Tally
from polyopt.linalg.rounding import ABOVE, Ball
from polyopt.margin.claim import state_hinge, state_ray
from polyopt.margin.geometry import Geometry, KernelGeometry

BROKEN = "The point breaks its bounds; the value is of the point scaled back to them."
NO_RAY = "No multiple of the point keeps every hard row for certain."
_MAX_EXACT_TERMS = 1_000_000  # terms of rational sums in a proof of infeasibility
_MARGIN_BANDS = (1e-6, 1e-4, 1e-2)  # distances from a kink within which an output counts as on it
_MAX_FIT_MULTIPLIERS = 600  # multipliers fitted by least squares
_MAX_FIT_WORK = 2e9  # rows times squared columns of that fit
_MAX_KERNEL_VALUES = 4e9  # kernel values that an ascent may compute
_OUTWARD = 1e-15  # relative margin for the roundings of a scale factor
_TERMS_FLOOR = 1e-8  # least scale of stationarity, relative to the terms of the sum
_GRADIENT_FLOOR = 1e-4  # least scale of stationarity, relative to the gradient at the same energy


# -- the program and its two objectives ----------------------------------------------------------


class Balance(NamedTuple):
    """Sums over the samples for the balance Σ β_i = 0.

    left: Σ β_i.
    up, down: sums of the multipliers of lower-bound rows (side +1) and upper-bound rows (side −1).
    error: Σ of the rounding of β_i times the norm of sample i.
    length: Σ of the multipliers of sample i times its norm.
    """

    left: Ball
    up: float
    down: float
    error: float
    length: float


@dataclass(frozen=True)
class HingeProgram:
    """A hinge program: its name, feature space and families of rows, and whether b is free."""

    name: str
    geometry: Geometry
    rows: Families
    intercept: bool = True

    def value(self, v: Vector, f: Ball, scale: float = 1.0, *, soft_only: bool = False) -> Ball:
        """Return the objective at ``scale * v`` with the least slacks at outputs ``scale * f``.

        It is infinite if a hard margin is violated, unless `soft_only`.
        """
        cost, is_violated, costs = self.slack_cost(f, scale)
        defect = self.geometry.psd_defect
        if defect:  # error of the slack cost if K is replaced by the nearest positive semidefinite matrix
            error = defect * scale * float(np.linalg.norm(v)) * float(np.linalg.norm(costs))
            cost = Ball(cost.mid, cost.rad + error * ABOVE)
        energy = self.geometry.energy(v) * Ball(scale) * scale * 0.5
        return energy + (Ball(np.inf) if is_violated and not soft_only else cost)

    def slack_cost(self, f: Ball, scale: float) -> tuple[Ball, bool, Vector]:
        """Return three results at outputs ``scale * f``, for :meth:`value`.

        They are the cost of slack; True if a hard margin is violated; and for each sample the sum of the caps
        of its positive slacks, which are left at zero unless the geometry has a defect.
        """
        cost, is_violated, costs = Ball(0.0), False, np.zeros(self.rows.n)
        for family in self.rows:
            soft = np.isfinite(family.cap)
            if family.kink <= 0.0 and not soft.any():
                continue  # bounds without slack: the scale factor satisfies them
            slack = (family.kink - f * (scale * family.side)).positive()
            cost = cost + slack[soft].dot(family.cap[soft])
            is_violated |= family.kink > 0.0 and bool((slack.mid[~soft] > 0.0).any())
            if self.geometry.psd_defect:
                costs += np.where(soft & ((slack.mid + slack.rad) > 0.0), family.cap, 0.0)
        return cost, is_violated, costs

    def bound(self, Z: Vector) -> Ball:
        """Return the dual objective at feasible multipliers next to Z (q, n); its lower end is a bound.

        Z must satisfy 0 ≤ mu ≤ cap. If Σ β_i ≠ 0 by rounding, scaling down the side with the larger sum
        restores the balance; the change of the objective is added to the radius.
        """
        gain, beta, sums = self.dual_terms(Z)
        return self.bound_from(gain, self.geometry.dual_norm_sq(beta.mid), sums)

    def dual_terms(self, Z: Vector) -> tuple[Ball, Ball, Balance]:
        """Return the linear part of the dual objective, the β_i, and the sums for :meth:`bound_from`."""
        signed = [Ball(mu * family.side) for family, mu in zip(self.rows, Z, strict=True)]
        gains = [Ball(mu).sum() * family.kink for family, mu in zip(self.rows, Z, strict=True)]
        beta, gain = sum(signed[1:], start=signed[0]), sum(gains[1:], start=gains[0])
        up, sizes = self.rows.sides > 0, self.geometry.sizes()
        return gain, beta, Balance(
            beta.sum(), float(Z[up].sum()), float(Z[~up].sum()),
            float(beta.rad @ sizes), float(Z.sum(axis=0) @ sizes),
        )  # fmt: skip

    def bound_from(self, gain: Ball, norm_sq: Ball, sums: Balance) -> Ball:
        """Return :meth:`bound` from the linear part, ‖Σ β_i phi_i‖², and sums over the samples."""
        norm_error = sums.error
        if self.intercept:
            imbalance = float(sums.left.size)
            larger_sum = max(sums.up, sums.down)
            if imbalance >= larger_sum:
                return Ball(0.0)  # the dual objective at mu = 0
            norm_error = norm_error + imbalance / larger_sum * ABOVE * sums.length
            # Shrinking a multiplier loses its gain; a multiplier with a negative gain loses nothing.
            gain = Ball(gain.mid, gain.rad + imbalance * max(float(self.rows.kinks.max()), 0.0) * ABOVE)
        norm_error *= ABOVE  # the norm at the multipliers in balance is larger by at most this
        norm = float(np.sqrt(max(float(norm_sq.upper), 0.0)))
        if not norm + norm_error < 1e150:  # its square may overflow
            return Ball(0.0)
        norm_sq_error = (2.0 * norm * norm_error + norm_error**2) * ABOVE
        bound = gain - 0.5 * Ball(norm_sq.mid, norm_sq.rad + norm_sq_error)
        return bound if bound.lower >= 0.0 else Ball(0.0)

    def best_intercept(self, v: Vector) -> float:
        """Return the optimal intercept for v; 0 if the program has none."""
        return self.rows.best_intercept(self.geometry.scores(v)) if self.intercept else 0.0

    def multipliers(self, given: Mapping[str, ArrayLike]) -> Vector:
        """Check multipliers by name and stack them (q, n), with zeros for the other families."""
        letters = {family.name: family.letter for family in self.rows}
        shape = (self.rows.n,)
        return self.rows.stacked(
            {name: real_array(letters.get(name, name), mu, shape) for name, mu in given.items()}
        )

    def repair(self, Z: Vector) -> Vector:
        """Make multipliers feasible: clip them to [0, cap], then scale down the side of the larger sum."""
        clipped, plus, minus = self.clipped(Z)
        return self.shrunk(clipped, *balancing(plus, minus)) if self.intercept else clipped

    def clipped(self, Z: Vector) -> tuple[Vector, float, float]:
        """Return multipliers clipped to [0, cap], and their sums over lower-bound and upper-bound rows."""
        up, clipped = self.rows.sides > 0, np.clip(Z, 0.0, self.rows.caps)
        return clipped, float(clipped[up].sum()), float(clipped[~up].sum())

    def shrunk(self, Z: Vector, plus: float, minus: float) -> Vector:
        """Return multipliers times `plus` for lower-bound rows, and `minus` for upper-bound rows."""
        return Z * np.where(self.rows.sides > 0, plus, minus)


def balancing(plus: float, minus: float) -> tuple[float, float]:
    """Return factors of at most 1 that make two non-negative sums equal by shrinking the larger one."""
    smaller = min(plus, minus)
    return (smaller / plus if plus > 0 else 0.0, smaller / minus if minus > 0 else 0.0)


# -- the feasible point on the ray ---------------------------------------------------------------


def to_feasible(program: HingeProgram, f: Ball) -> tuple[float, float]:
    """Return scale factors that make a point with outputs f satisfy the hard constraints.

    The first does so for every f in the intervals, the second for at least some f; it is the nearer to 1.
    Both are 1 if the point is feasible, above 1 if a hard margin is not reached, and below 1 if an output is
    beyond its bound. Both are infinite if no multiple of the point is certainly feasible.
    """
    scale_surely, scale_possibly, has_margins = 1.0, 1.0, False
    for family in program.rows:
        hard = np.isinf(family.cap)
        if not hard.any() or family.kink <= 0.0:
            continue
        has_margins = True
        outputs = (family.side * f.mid)[hard]
        lower = float((outputs - f.rad[hard]).min())
        if lower <= 0.0:
            return np.inf, np.inf
        if lower < family.kink:
            scale_surely = max(scale_surely, float(family.kink / lower) * (1 + _OUTWARD))
            upper = float((outputs + f.rad[hard]).min())
            scale_possibly = max(scale_possibly, float(family.kink / upper) * (1 - _OUTWARD))
    bounds = list(_hard_bounds(program, f))
    if scale_surely > 1.0:
        satisfied = all(scale_surely * upper * (1 + _OUTWARD) <= end for end, upper, _ in bounds)
        return (scale_surely, scale_possibly) if satisfied else (np.inf, np.inf)
    if all(upper <= end for end, upper, _ in bounds):
        return 1.0, 1.0
    if has_margins:
        return np.inf, np.inf
    for end, upper, lower in bounds:
        if upper > end:
            scale_surely = min(scale_surely, float(end / upper) * (1 - _OUTWARD))
        if lower > end:
            scale_possibly = min(scale_possibly, float(end / lower) * (1 + _OUTWARD))
    return scale_surely, scale_possibly


def _hard_bounds(program: HingeProgram, f: Ball) -> Iterator[tuple[float, float, float]]:
    """Yield for each family of bounds without slack the bound, and both ends of its largest output."""
    for family in program.rows:
        hard = np.isinf(family.cap)
        if family.kink <= 0.0 and hard.any():
            outward = f[hard].signed(-family.side[hard])
            yield -family.kink, float(outward.upper.max()), float((outward.mid - outward.rad).max())


def value_between(
    program: HingeProgram, v: Vector, f: Ball, scale_surely: float, scale_possibly: float
) -> Ball:
    """Enclose the objective at the smallest feasible multiple of v, which is between the two factors.

    The factors are those of :func:`to_feasible`. The objective is convex along the ray, so the larger of its
    values at both ends is an upper bound; hard constraints are checked at the first factor only.
    """
    if np.isinf(scale_surely):
        return Ball(np.inf)
    value = program.value(v, f, scale_surely)
    if scale_possibly == scale_surely or not np.isfinite(value.upper):
        return value
    other = program.value(v, f, scale_possibly, soft_only=True)
    return max(value, other, key=lambda each: float(each.upper))


# -- the conditions of optimality ----------------------------------------------------------------


def check_conditions(program: HingeProgram, f: Ball, Z: Vector | None = None) -> Tally:
    """Note the worst violation of each condition at outputs f (n,) and multipliers Z (q, n).

    Slacks are recomputed from f, so primal violations occur in hard constraints only. The multiplier of
    ``slack >= 0`` is cap − mu, so its sign condition is mu <= cap. With feasible multipliers the
    complementarity products sum to the duality gap.
    """
    found = Tally(program.rows.n)
    for family in program.rows:
        hard = np.isinf(family.cap)
        if hard.any():
            violation = -family.room(f.mid)
            violation = np.where(f.rad > 1e-9, violation + f.rad, violation)  # rounding alone is not counted
            found.note("primal", family.name, np.where(hard, violation, 0.0))
    if Z is None:
        return found
    for family, mu in zip(program.rows, Z, strict=True):
        room, soft = family.room(f.mid), np.isfinite(family.cap)
        slack = np.maximum(0.0, -room) if family.slack else np.zeros(len(room))
        found.note("sign", family.name, -mu)
        found.note("complementarity", family.name, np.abs(mu * (room + slack)))
        if family.slack:
            unused = np.where(soft, (np.where(soft, family.cap, 0.0) - mu) * slack, 0.0)
            found.note("sign", family.slack[0], mu - family.cap)
            found.note("complementarity", family.slack[0], np.abs(unused))
    beta = program.rows.beta(Z)
    found.sums = {"beta": float(beta.sum()), "size": float(np.abs(beta).sum())}
    found.largest = {"multiplier": float(np.abs(Z).max()), "cap": float(program.rows.caps.max())}
    return found


def residuals(program: HingeProgram, found: Tally, stationary: list[Residual]) -> list[Residual]:
    """Return the residuals of all conditions in the order of a certificate; `stationary` are those of w.

    Outputs are relative to the size of an output at the row, multipliers to the largest one, and products to
    both: so the number of samples does not matter.
    """
    largest, cap = found.largest.get("multiplier", 0.0), found.largest.get("cap", 0.0)
    units = {family.name: family.unit for family in program.rows}
    units |= {family.slack[0]: family.unit for family in program.rows if family.slack}

    def of(condition: str, scale: float) -> list[Residual]:
        rows = [row for name, row in found.worst if name == condition]
        unit = {row: 1.0 if condition == "sign" else units[row] for row in rows}
        return [found.residual(condition, row, scale * unit[row]) for row in rows]

    balance = []
    if "beta" in found.sums and program.intercept:
        total, size = abs(found.sums["beta"]), found.sums["size"]
        balance = [Residual("stationarity", "b", total, total / size if size > 0 else total)]
    return [
        *of("primal", 1.0), *of("sign", largest or cap), *balance, *stationary,
        *of("complementarity", largest or 1.0),
    ]  # fmt: skip


def stationarity(
    gradient: Vector, pulled: Vector, terms: float, unit: float, primal_value: float
) -> list[Residual]:
    """Return the residual of ``gradient = pulled`` in w, relative to the larger of the two.

    The scale has two floors. `terms` is the size of the terms of the sum `pulled`: if they cancel, rounding
    is relative to them. `unit` is the size of the gradient of half the energy ‖w‖² at an energy of 1: if w is
    nearly zero, the scale is a share of the gradient at half the energy `primal_value`.
    """
    scale = max(
        float(np.abs(gradient).max(initial=0.0)),
        float(np.abs(pulled).max(initial=0.0)),
        _TERMS_FLOOR * terms,
        _GRADIENT_FLOOR * unit * float(np.sqrt(2.0 * primal_value)),
    )
    return [residual("stationarity", "w", np.abs(gradient - pulled), scale)] if len(gradient) else []


# -- the certificate -----------------------------------------------------------------------------


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

    v: w (m,), or expansion coefficients (n,) for a kernel; by default the w that the multipliers imply.
    b: the intercept, for the samples as the geometry scores them; by default the best one for v.
    multipliers: (n,) by the names of the families, zeros for families that are not given. Without them the
        point is merely primal, and a dual bound is built for it in `max_iter` steps of ascent at most.
    tol: relative tolerance of the gap and of every residual.
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
    output_error = geometry.psd_defect * float(np.linalg.norm(v)) * ABOVE
    scale_surely, scale_possibly = to_feasible(program, Ball(f.mid, f.rad + output_error))
    primal = value_between(program, v, f, scale_surely, scale_possibly)
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
    notes = ["" if feasible else BROKEN, NO_RAY if np.isinf(scale_surely) else "", geometry.note]
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
        """Return feasible multipliers (q, n) next to z."""
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
        widest = _MARGIN_BANDS[-1]
        yield self.project(self.costs * np.clip((widest - room) / (2.0 * widest), 0.0, 1.0))
        for band in _MARGIN_BANDS:
            yield self.fitted(v, room, band)

    def fitted(self, v: Vector, room: Vector, band: float) -> Vector:
        """Return multipliers fitted to w by least squares in those whose rows are at their kinks."""
        geometry = self.program.geometry
        soft = self.costs > 0.0
        free = np.where(soft, np.abs(room) <= band, room <= band)
        z = self.costs * (room < 0.0)
        z[free] = 0.0
        places = np.flatnonzero(free)
        if not 0 < len(places) <= _MAX_FIT_MULTIPLIERS or self.rows.n * len(places) ** 2 > _MAX_FIT_WORK:
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
        """Estimate the largest curvature of the dual, with a safety margin."""
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
