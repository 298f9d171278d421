"""Certificates of hinge-type machines, linear or kernel: SVM, Sigma-SVM, Relative Margin Machine.

All are one program, with outputs f_i = w'phi(x_i) + b and families q of rows, each with one constraint per
sample (:mod:`formulations.families`):

    min  ½‖w‖² + Σ_q Σ_i cap_qi ξ_qi
    s.t. side_qi f_i ≥ kink_q − ξ_qi [mu_qi],  ξ ≥ 0,  and ξ_qi = 0 if cap_qi is infinite

with side_qi = ±1, the scalar kink_q at which the row's hinge loss becomes 0, the cost cap_qi of the slack
ξ_qi, and the multipliers mu in brackets. A row with an infinite cap is hard, any other one soft. The SVM has
one family, the Relative Margin Machine three, and the Sigma-SVM another metric in place of ‖w‖². In a program
without free intercept (a face of the convex polytope machine) b is 0. The dual is

    max  Σ_q kink_q Σ_i mu_qi − ½‖Σ β_i phi(x_i)‖²,   β_i = Σ_q side_qi mu_qi
    s.t. Σ β_i = 0,  0 ≤ mu ≤ cap.

The constraint Σ β_i = 0 is called the balance; without a free intercept the dual does not have it. Rows with
side +1 are lower bounds on the outputs, rows with side −1 upper bounds.

The values in a certificate are these two objectives, each at a point that has first been made exactly
feasible, in interval arithmetic: a Ball is an interval of middle and radius, and the factor ABOVE covers the
rounding of a radius itself. The residuals are those of the Karush-Kuhn-Tucker conditions; a Tally has the
largest violation of each condition over some samples, and sums over them. From the values and the residuals
``conclude`` derives the certificate's claim, such as optimality within a tolerance.

Any feasible multipliers give a valid bound: for a point without multipliers they are guessed from the point,
and then improved by accelerated projected gradient ascent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import brentq, lsq_linear

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
from polyopt.certificates.points import balancing
from polyopt.certificates.tally import Tally
from polyopt.linalg.rounding import ABOVE, Ball
from polyopt.margin.geometry import Geometry, KernelGeometry

BROKEN = "The point breaks its bounds; the value is that of the point scaled back to them."
NO_RAY = "No multiple of the point certainly satisfies every hard row."


@dataclass(frozen=True)
class Options:
    """Limits and tolerances of a certificate."""

    max_exact_terms: int = 1_000_000  # largest number of terms of rational sums in a proof of infeasibility
    max_fit_multipliers: int = 600  # largest number of multipliers fitted by least squares
    max_fit_work: float = 2e9  # largest rows times squared columns of a least-squares fit
    max_kernel_values: float = 4e9  # largest number of kernel values computed in an ascent
    min_radius: float = 1e-9  # radius of an output above which it is added to the violation of a hard row
    min_ray_share: float = 1e-9  # fraction of a ray's largest multiplier below which others count as 0
    value_every: int = 20  # steps of ascent between two evaluations of the bound
    terms_floor: float = 1e-8  # least scale of stationarity, relative to the largest sum of absolute terms
    gradient_floor: float = 1e-4  # least scale of stationarity, relative to the gradient at the same energy


OPTIONS = Options()

_MARGIN_BANDS = (1e-6, 1e-4, 1e-2)  # distances within which an output counts as at its kink, each tried
_OUTWARD = 1e-15  # relative margin for the roundings of a scale factor


# -- the program and its two objectives ----------------------------------------------------------


@dataclass(frozen=True)
class HingeProgram:
    """A hinge program.

    name: the machine's name in certificates.
    geometry: the feature space and its metric.
    rows: the families q of rows, in order; n samples.
    intercept: True if b is free, False if it is 0.
    """

    name: str
    geometry: Geometry
    rows: Families
    intercept: bool = True

    def value(self, v: Vector, f: Ball, scales: tuple[float, float] = (1.0, 1.0)) -> Ball:
        """Enclose the objective at the feasible multiple of v next to v, with the smallest slacks.

        f: the outputs of v.
        scales: two factors between which the multiple is, as returned by :func:`to_feasible`; the hard rows
            must be satisfied at the first.
        """
        if np.isinf(scales[0]):  # no multiple is feasible
            return Ball(np.inf)
        norm = float(np.linalg.norm(v))
        costs = {scale: self.slack_cost(f, scale, norm) for scale in set(scales)}
        return value_between(self.geometry.energy(v), costs)

    def slack_cost(self, f: Ball, scale: float, norm: float = 0.0) -> Ball:
        """Return the cost of the slacks that outputs ``scale * f`` need.

        norm: ‖v‖. If the Gram matrix is not semidefinite, the cost holds for the nearest matrix that is, too:
            its outputs differ by at most ``psd_defect * scale * norm`` in the 2-norm.
        """
        defect = self.geometry.psd_defect
        cost, active_caps = Ball(0.0), np.zeros(self.rows.n)  # sums of the caps of positive slacks
        for family in self.rows:
            soft = np.isfinite(family.cap)
            if soft.any():
                slack = (family.kink - f * (scale * family.side)).positive()[soft]
                cost = cost + slack.dot(family.cap[soft])
                if defect:
                    active_caps[soft] += np.where(slack.mid + slack.rad > 0.0, family.cap[soft], 0.0)
        error = defect * scale * norm * float(np.linalg.norm(active_caps)) * ABOVE
        return Ball(cost.mid, cost.rad + error)

    def bound(self, Z: Ball) -> Ball:
        """Return the dual objective at :meth:`feasible` multipliers (q, n); its lower end is a bound."""
        gain, beta, norm_error = self.dual_terms(Z, self.geometry.norm_bounds())
        return self.bound_from(gain, self.geometry.dual_norm_sq(beta.mid), norm_error)

    def dual_terms(self, Z: Ball, norms: Vector) -> tuple[Ball, Ball, float]:
        """Return the linear part of the dual objective at Z (q, n), β (n,), and an error of ‖Σ β_i phi_i‖.

        norms (n,): upper bounds on the norms of the samples; the error is due to the radii of β.
        """
        beta = Z.signed(self.rows.sides).sum(axis=0)
        return (Z.sum(axis=1) * self.rows.kinks).sum(), beta, float(beta.rad @ norms)

    def bound_from(self, gain: Ball, norm_sq: Ball, norm_error: float) -> Ball:
        """Return the dual objective from :meth:`dual_terms` and ‖Σ β_i phi_i‖²; at least 0, as mu = 0 is."""
        norm, norm_error = float(np.sqrt(max(float(norm_sq.upper), 0.0))), norm_error * ABOVE
        if not norm + norm_error < 1e150:  # its square may overflow
            return Ball(0.0)
        norm_sq_error = (2.0 * norm * norm_error + norm_error**2) * ABOVE
        bound = gain - 0.5 * Ball(norm_sq.mid, norm_sq.rad + norm_sq_error)
        return bound if bound.lower >= 0.0 else Ball(0.0)

    def best_intercept(self, v: Vector) -> float:
        """Return the optimal intercept for v; 0 if the program has none."""
        return self.rows.best_intercept(self.geometry.scores(v)) if self.intercept else 0.0

    def multipliers(self, by_name: Mapping[str, ArrayLike]) -> Vector:
        """Check multipliers by name and stack them (q, n), with zeros for the other families."""
        letters = {family.name: family.letter for family in self.rows}
        shape = (self.rows.n,)
        return self.rows.stacked(
            {name: real_array(letters.get(name, name), mu, shape) for name, mu in by_name.items()}
        )

    def feasible(self, Z: Vector) -> Ball:
        """Make multipliers feasible: clip them to [0, cap], then scale down the side with the larger sum."""
        clipped, plus, minus = self.clipped(Z)
        return self.shrunk(clipped, *balancing(plus, minus)) if self.intercept else Ball(clipped)

    def clipped(self, Z: Vector) -> tuple[Vector, Ball, Ball]:
        """Return multipliers clipped to [0, cap], and their sums over lower-bound and upper-bound rows."""
        up, clipped = self.rows.sides > 0, np.clip(Z, 0.0, self.rows.caps)
        return clipped, Ball(clipped[up]).sum(), Ball(clipped[~up]).sum()

    def shrunk(self, Z: Vector, plus: Ball, minus: Ball) -> Ball:
        """Return multipliers times `plus` for lower-bound rows, and `minus` for upper-bound rows."""
        up = self.rows.sides > 0
        return Ball(Z) * Ball(np.where(up, plus.mid, minus.mid), np.where(up, plus.rad, minus.rad))


# -- scaling to a feasible point -----------------------------------------------------------------


def to_feasible(program: HingeProgram, f: Ball) -> tuple[float, float]:
    """Return two scale factors that make a point with outputs f satisfy the hard constraints.

    scale_surely: satisfies them for every f in the intervals.
    scale_possibly: satisfies them for at least one f in the intervals; it is closer to 1.

    Both are 1 if the point is feasible, above 1 if a hard margin is violated, below 1 if an output exceeds
    its bound. Both are infinite if no multiple of the point is certainly feasible.
    """
    # A hard row is side f ≥ kink, or −side f ≤ limit = −kink, which is negative for margins, else for bounds.
    limits = []  # by family: the limit, and lower and upper end of the largest −side f
    for family in program.rows:
        hard = np.isinf(family.cap)
        if hard.any():
            outward = f[hard].signed(-family.side[hard])
            limits.append((-family.kink, float(outward.lower.max()), float(outward.upper.max())))
    margins, bounds = [each for each in limits if each[0] < 0.0], [each for each in limits if each[0] >= 0.0]
    if not margins:
        surely = [limit / upper * (1 - _OUTWARD) for limit, _, upper in bounds if upper > limit]
        possibly = [limit / lower * (1 + _OUTWARD) for limit, lower, _ in bounds if lower > limit]
        return min([1.0, *surely]), min([1.0, *possibly])
    if any(upper >= 0.0 for _, _, upper in margins):  # some output may be on the wrong side
        return np.inf, np.inf
    surely = [limit / upper * (1 + _OUTWARD) for limit, _, upper in margins if upper > limit]
    possibly = [limit / lower * (1 - _OUTWARD) for limit, lower, _ in margins if lower > limit]
    scale = max([1.0, *surely])
    is_satisfied = all(scale * upper * (1 + _OUTWARD) <= limit for limit, _, upper in bounds)
    return (scale, max([1.0, *possibly])) if is_satisfied else (np.inf, np.inf)


def value_between(energy: Ball, costs: Mapping[float, Ball]) -> Ball:
    """Bound the objective at any multiple of v between two factors, by the larger of its values at both.

    This is a bound because the objective is convex along the ray of v.

    energy: the energy of v.
    costs: the cost of slack by factor.
    """
    values = [energy * Ball(scale) * scale * 0.5 + cost for scale, cost in costs.items()]
    return max(values, key=lambda value: float(value.upper))


# -- the conditions of optimality ----------------------------------------------------------------


def check_conditions(program: HingeProgram, f: Ball, Z: Vector | None = None) -> Tally:
    """Return the worst violation of each condition at outputs f (n,) and multipliers Z (q, n).

    Slacks are recomputed from f, so primal violations occur in hard constraints only. The multiplier of
    ``slack >= 0`` is cap − mu, so its sign condition is mu <= cap. With feasible multipliers the
    complementarity products sum to the duality gap.
    """
    tally = Tally(program.rows.n)
    for family in program.rows:
        hard = np.isinf(family.cap)
        if hard.any():
            violation = -family.surplus(f.mid)
            violation = np.where(f.rad > OPTIONS.min_radius, violation + f.rad, violation)
            tally.note("primal", family.name, np.where(hard, violation, 0.0))
    if Z is None:
        return tally
    for family, mu in zip(program.rows, Z, strict=True):
        surplus, soft = family.surplus(f.mid), np.isfinite(family.cap)
        slack = np.maximum(0.0, -surplus) if family.slack else np.zeros(len(surplus))
        tally.note("sign", family.name, -mu)
        tally.note("complementarity", family.name, np.abs(mu * (surplus + slack)))
        if family.slack:
            unused = np.where(soft, (np.where(soft, family.cap, 0.0) - mu) * slack, 0.0)
            tally.note("sign", family.slack[0], mu - family.cap)
            tally.note("complementarity", family.slack[0], np.abs(unused))
    beta = program.rows.beta(Z)
    tally.sums = {"beta": float(beta.sum()), "size": float(np.abs(beta).sum())}
    tally.largest = {"multiplier": float(np.abs(Z).max()), "cap": float(program.rows.caps.max())}
    return tally


def residuals(program: HingeProgram, tally: Tally, stationary: list[Residual]) -> list[Residual]:
    """Return the residuals of all conditions in the order of a certificate; `stationary` are those of w.

    Primal violations are relative to the unit of their family, multipliers to the largest multiplier, and
    complementarity products to both; thus no scale grows with the number of samples.
    """
    largest, cap = tally.largest.get("multiplier", 0.0), tally.largest.get("cap", 0.0)
    units = {family.name: family.unit for family in program.rows}
    units |= {family.slack[0]: family.unit for family in program.rows if family.slack}

    def condition_residuals(condition: str, scale: float) -> list[Residual]:
        names = [name for each, name in tally.worst if each == condition]  # of rows
        unit = {name: 1.0 if condition == "sign" else units[name] for name in names}
        return [tally.residual(condition, name, scale * unit[name]) for name in names]

    balance = []
    if "beta" in tally.sums and program.intercept:
        total, size = abs(tally.sums["beta"]), tally.sums["size"]
        balance = [Residual("stationarity", "b", total, total / size if size > 0 else total)]
    return [
        *condition_residuals("primal", 1.0), *condition_residuals("sign", largest or cap),
        *balance, *stationary,
        *condition_residuals("complementarity", largest or 1.0),
    ]  # fmt: skip


def stationarity(
    gradient: Vector, adjoint: Vector, adjoint_scale: float, gradient_scale: float, primal_value: float
) -> list[Residual]:
    """Return the residual of the stationarity condition ``gradient = adjoint`` in w.

    It is relative to the larger of the two vectors, but the scale has two floors. If the terms of the sum
    `adjoint` cancel, rounding is relative to their magnitude, `adjoint_scale`. If w is nearly zero, the
    scale is a fraction of the gradient's magnitude where half the energy is `primal_value`;
    `gradient_scale` is that magnitude at an energy of 1.
    """
    scale = max(
        float(np.abs(gradient).max(initial=0.0)),
        float(np.abs(adjoint).max(initial=0.0)),
        OPTIONS.terms_floor * adjoint_scale,
        OPTIONS.gradient_floor * gradient_scale * float(np.sqrt(2.0 * primal_value)),
    )
    return [residual("stationarity", "w", np.abs(gradient - adjoint), scale)] if len(gradient) else []


# -- the certificate -----------------------------------------------------------------------------


def certify_hinge(
    program: HingeProgram, *, v: Vector | None = None, b: Ball | float | None = None,
    multipliers: Mapping[str, ArrayLike] | None = None, tol: float = 1e-6, max_iter: int = 2000,
) -> Certificate:  # fmt: skip
    """Certify a point of a hinge program: primal, dual, or both.

    v: w (m,), or expansion coefficients (n,) for a kernel; by default the w that the multipliers imply.
    b: the intercept, for the samples as the geometry scores them; by default the best one for v.
    multipliers: (n,) by the names of the families, zeros for families without an entry. By default a dual
        bound for the primal point is computed, in at most `max_iter` steps of ascent.
    tol: relative tolerance of the gap and of every residual.
    """
    tol, max_iter = tolerance(tol), whole("max_iter", max_iter, 0)
    geometry, rows = program.geometry, program.rows
    if v is None and multipliers is None:
        raise ValueError("a certificate needs a primal point (w and b), multipliers (alpha), or both")
    Z = None if multipliers is None else program.multipliers(multipliers)
    feasible_Z = None if Z is None else program.feasible(Z)
    is_implied = v is None  # stationarity then holds by definition
    if v is None:
        assert Z is not None
        v = geometry.primal_from_dual(rows.beta(Z))
    v = real_array("w", v)
    if Z is not None and feasible_Z is not None:
        geometry.prepare(v, rows.beta(Z), rows.beta(feasible_Z.mid))
    b = program.best_intercept(v) if b is None else b
    b = b if isinstance(b, Ball) else Ball(real_number("b", b))
    f = geometry.outputs(v) + b

    # The primal value, at a multiple that is feasible for every semidefinite matrix near the Gram matrix.
    output_error = geometry.psd_defect * float(np.linalg.norm(v)) * ABOVE
    scales = to_feasible(program, Ball(f.mid, f.rad + output_error))
    primal = program.value(v, f, scales)
    stationary: list[Residual] = []
    if Z is not None and not is_implied:
        beta = rows.beta(Z)
        stationary = stationarity(
            geometry.gradient(v), geometry.adjoint(beta), geometry.adjoint_scale(beta),
            geometry.gradient_scale, float(primal.mid),
        )  # fmt: skip
    all_residuals = residuals(program, check_conditions(program, f, Z), stationary)
    from polyopt.margin.claim import state_hinge, state_ray  # only claim files need them

    if Z is not None and (ray := find_ray(program, Z)) is not None:
        proven = conclude_infeasible(program.name, float(primal.upper), all_residuals, tol)
        hard = np.isinf(rows.caps).all()  # the file format has no ray for a program with soft rows
        return replace(proven, evidence=(Evidence(partial(state_ray, program, ray)),) if hard else ())
    if Z is None or feasible_Z is None:  # no multipliers were given
        Z = ascend(program, v, f.mid, float(primal.upper), tol, max_iter)
        feasible_Z = program.feasible(Z)
    notes = [NO_RAY if np.isinf(scales[0]) else ""]
    evidence = [Evidence(partial(state_hinge, program, v, float(b.mid), Z))]  # for a claim file
    return conclude_hinge(program, primal, program.bound(feasible_Z), all_residuals, tol, notes, evidence)


def conclude_hinge(
    program: HingeProgram, primal: Ball, dual: Ball, measured: list[Residual], tol: float,
    notes: Sequence[str] = (), evidence: Sequence[Evidence] = (),
) -> Certificate:  # fmt: skip
    """Return the certificate; it claims nothing if a hard row is violated by more than `tol`."""
    feasible = all(residual.relative <= tol for residual in measured if residual.condition == "primal")
    notes = ["" if feasible else BROKEN, *notes, program.geometry.note]
    return conclude(
        program.name, primal, dual, measured, tol, feasible=feasible, notes=notes, evidence=evidence
    )


# -- infeasibility -------------------------------------------------------------------------------


def find_ray(program: HingeProgram, Z: Vector) -> list[list[Fraction]] | None:
    """Return exact multipliers next to Z (q, n) that prove infeasibility, or None if none are found.

    They are a ray of the dual: non-negative, in balance, zero in rows with a finite cap, with
    Σ β_i phi(x_i) = 0 and a positive linear part of the dual objective. That is checked in rational
    arithmetic, for linear features only. The last digits of a solver's multipliers are wrong; so their
    ratios to the smallest one, rounded to small fractions, are tried as well.
    """
    X, rows = getattr(program.geometry, "X", None), program.rows
    sample_total = Z.sum(axis=0)
    support = np.flatnonzero(sample_total > OPTIONS.min_ray_share * sample_total.max(initial=0.0))
    if X is None or not len(support) or np.isfinite(rows.caps[Z > 0]).any():
        return None
    if len(support) * X.shape[1] > OPTIONS.max_exact_terms or (sample_total < 0).any():
        return None
    ratios = Z[:, support] / sample_total[support].min()
    for multipliers in (_fractions(Z[:, support]), _small_fractions(ratios)):
        beta = (rows.sides[:, support].astype(int) * multipliers).sum(axis=0)
        gain = _fractions(rows.kinks) @ multipliers.sum(axis=1)
        if gain <= 0 or (program.intercept and beta.sum() != 0):
            continue
        columns = (X[support].toarray() if sp.issparse(X) else X[support]).T
        if all(beta @ _fractions(column) == 0 for column in columns):
            ray = np.full(Z.shape, Fraction(0))
            ray[:, support] = multipliers
            return list(map(list, ray))
    return None


_fractions = np.vectorize(Fraction, otypes=[object])
_small_fractions = np.vectorize(lambda x: Fraction(x).limit_denominator(10**6), otypes=[object])


# -- a dual bound for a primal point --------------------------------------------------------------


def ascend(
    program: HingeProgram, v: Vector, f: Vector, primal_value: float, tol: float, max_iter: int
) -> Vector:
    """Find feasible multipliers (q, n) with a high dual value, from a primal point v with outputs f (n,).

    The method is accelerated projected gradient ascent with restarts (FISTA). It stops if the relative gap to
    `primal_value` is within `tol`, or after `max_iter` steps, fewer with a kernel of more than about a
    thousand samples.
    """
    rows, geometry = program.rows, program.geometry
    best, best_value = np.zeros(rows.caps.shape), -np.inf

    def keep(Z: Vector) -> bool:
        """Keep multipliers with the best bound so far; return True if the gap is within the tolerance."""
        nonlocal best, best_value
        feasible = program.feasible(Z)
        value = float(program.bound(feasible).lower)
        if value > best_value:
            best, best_value = feasible.mid, value
        return relative_gap(primal_value, best_value) <= tol

    if isinstance(geometry, KernelGeometry):  # a step costs n² products
        max_iter = min(max_iter, int(OPTIONS.max_kernel_values / geometry.n**2))
    if any(keep(Z) for Z in _guesses(program, v, f)) or not max_iter:
        return best
    Z = previous = project(program, best)
    step, momentum = 1.0 / (len(rows) * 1.1 * geometry.curvature() or 1.0), 1.0  # 1.1: the estimate is low
    for iteration in range(1, max_iter + 1):
        next_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        extrapolated = Z + (momentum - 1.0) / next_momentum * (Z - previous)
        scores = geometry.scores(geometry.primal_from_dual(rows.beta(extrapolated)))
        gradient = rows.kinks[:, None] - rows.sides * scores
        previous, momentum = Z, next_momentum
        Z = project(program, extrapolated + step * gradient)
        if np.vdot(extrapolated - Z, Z - previous) > 0:  # momentum points downhill: restart it
            momentum = 1.0
        if (iteration % OPTIONS.value_every == 0 or iteration == max_iter) and keep(Z):
            break
    return best


def _guesses(program: HingeProgram, v: Vector, f: Vector) -> Iterator[Vector]:
    """Yield guesses of the multipliers, the cheapest first; for an optimal point one of them is optimal.

    For a kernel the first guess is the expansion coefficients, positive ones as multipliers of lower-bound
    rows and negative ones of upper-bound rows. The others follow complementary slackness: the cap if a row
    needs slack, 0 if its output is beyond the kink, and at the kink a least squares fit to w.
    """
    rows = program.rows
    surplus = rows.sides * f - rows.kinks[:, None]
    # Costs of slack; in rows without slack 1 for margins and 0 for bounds.
    costs = np.where(np.isfinite(rows.caps), rows.caps, rows.kinks[:, None] > 0.0)
    if isinstance(program.geometry, KernelGeometry):
        yield rows.split(v)
    widest = _MARGIN_BANDS[-1]
    yield project(program, costs * np.clip((widest - surplus) / (2.0 * widest), 0.0, 1.0))
    for band in _MARGIN_BANDS:
        yield _fitted(program, v, surplus, costs, band)


def _fitted(program: HingeProgram, v: Vector, surplus: Vector, costs: Vector, band: float) -> Vector:
    """Return the guess whose multipliers within `band` of the kink are fitted to w by least squares."""
    geometry, rows = program.geometry, program.rows
    # A row without a cost, a hard bound, is free as well if it is violated.
    free = np.where(costs > 0.0, np.abs(surplus) <= band, surplus <= band)
    Z = np.where(free, 0.0, costs * (surplus < 0.0))
    samples, signs = np.nonzero(free)[1], rows.sides[free]
    if (
        not 0 < len(samples) <= OPTIONS.max_fit_multipliers
        or rows.n * len(samples) ** 2 > OPTIONS.max_fit_work
    ):
        return Z
    beta = rows.beta(Z)
    columns = geometry.columns(samples) * signs
    target = geometry.gradient(v) - geometry.adjoint(beta)
    if program.intercept:
        # The balance is one more equation, in the units of the others.
        unit = float(np.abs(columns).max()) or 1.0
        columns = np.vstack([columns, unit * signs])
        target = np.append(target, -unit * beta.sum())
    Z[free] = lsq_linear(columns, target, (0.0, rows.caps[free] + 1e-300), method="bvls").x
    return Z


def project(program: HingeProgram, Z: Vector) -> Vector:
    """Project multipliers (q, n) on 0 <= Z <= cap and, with a free intercept, Σ β_i = 0.

    The projection is Z − t·sides clipped to the box, for the t at which its balance Σ β_i is 0. The balance
    is decreasing in t, and has both signs on the interval from the least to the largest of sides·Z: at its
    ends all multipliers of one side are 0.
    """
    sides, caps = program.rows.sides, program.rows.caps

    def clipped_at(t: float) -> Vector:
        return np.minimum(np.maximum(Z - t * sides, 0.0), caps)

    if not program.intercept or not np.isfinite(Z).all():  # not after an overflow
        return clipped_at(0.0)
    ends = sides * Z
    balance = lambda t: np.vdot(sides, clipped_at(t))  # noqa: E731
    return clipped_at(brentq(balance, ends.min(), ends.max(), xtol=1e-300, disp=False))
