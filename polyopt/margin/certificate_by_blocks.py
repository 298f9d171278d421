"""Certificates of hinge programs whose samples are in blocks, in this process or elsewhere.

The program has families q of rows, with one constraint per sample i; rows with an infinite cap are hard. It
and its dual are those of :mod:`polyopt.margin.certificate`, whose functions are used here:

    min  ½‖w‖² + Σ cap_qi ξ_qi            s.t. side_qi (w'x_i + b) ≥ kink_q − ξ_qi,  ξ ≥ 0
    max  Σ kink_q mu_qi − ½‖Σ β_i x_i‖²   s.t. Σ β_i = 0,  0 ≤ mu ≤ cap,  with β_i = Σ_q side_qi mu_qi.

A Ball has numbers with bounds on their rounding errors. A Tally has sums, minima and the worst violations
over samples, by name.

Each step is a method of :class:`Slice` for few samples, so that rounding is small and little data is copied.
:func:`reduce_block` merges the tallies of the slices of a block, and :func:`certify_blocks` those of the
blocks. For an SVM or a Relative Margin Machine there are two steps:

1. ``conditions``: residuals of the optimality conditions, and the factors that make w and the multipliers
   feasible;
2. ``values``: both objectives at the feasible vectors.

The Sigma-SVM, with w'Aw in place of ‖w‖², first needs the ``moments`` of the samples, which define A. After
`values` it needs ``dual_norm``: sums for an upper bound on u'A⁻¹u, the quadratic term of its dual
(:mod:`polyopt.margin.geometry`), with u = Σ β_i (x_i − mean).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from formulations.families import Families
from formulations.language.arguments import real_array, tolerance
from formulations.language.types import Matrix, Vector
from formulations.polytope import lift
from polyopt.certificates.certificate import Certificate
from polyopt.certificates.points import balancing
from polyopt.certificates.tally import SAMPLES_PER_SLICE, Tally, merge
from polyopt.linalg.rounding import ABOVE, Ball, transposed_product
from polyopt.margin.certificate import (
    HingeProgram,
    check_conditions,
    conclude_hinge,
    residuals,
    stationarity,
    to_feasible,
    value_between,
)
from polyopt.margin.geometry import (
    LinearGeometry,
    inverse,
    norms_in_metric,
    one_minus,
    residual_bound_by_samples,
    second_moments,
    sigma_metric,
)


class MetricFacts(NamedTuple):
    """The numbers of the Sigma-SVM's metric A = (1−D) I + D Σ that a slice needs."""

    D: float  # share of the variance in the regulariser
    total: Ball  # sum of the weights of all samples
    shift_norm: float  # distance of the samples' mean from the centre


class Slice:
    """The hinge program of some samples X (k, m), with their constraints `rows` and multipliers Z (q, k).

    Dense samples are centred at `centre` (m,); `weights` (k,) weigh the samples in mean and covariance.
    Without a free intercept samples are not centred, and have a last feature of 1.
    """

    def __init__(
        self, X: Matrix, rows: Families, Z: Vector, centre: Vector, weights: Vector, *, intercept: bool
    ):
        self._geometry = LinearGeometry(X, centre=centre) if intercept else LinearGeometry(lift(X))
        self._program = HingeProgram("", self._geometry, rows, intercept)
        self._Z, self._weights = Z, weights

    def moments(self) -> Tally:
        """Sum the weights (``total``), the weighted samples (``mean``) and their second ``moments``."""
        geometry, weights = self._geometry, self._weights
        return Tally(geometry.n, {
            "total": Ball(weights).sum(), "mean": self._adjoint(weights),
            "moments": second_moments(geometry.X, weights, geometry.centre),
        })  # fmt: skip

    def conditions(self, v: Vector, b: Ball) -> Tally:
        """Note the worst violation of each condition, with `b` the intercept for centred samples.

        Also return ``scale_surely`` and ``scale_possibly``, factors that certainly, and possibly, make w
        satisfy the hard rows; ``plus`` and ``minus``, the sums of the multipliers clipped to [0, cap] over
        rows with side +1 and −1; ``adjoint``, Σ β_i x_i; and ``terms``, Σ |β_i x_i| by feature.
        """
        program, geometry, Z = self._program, self._geometry, self._Z
        f = geometry.outputs(v) + b
        tally = check_conditions(program, f, Z)
        tally.least["scale_surely"], tally.least["scale_possibly"] = to_feasible(program, f)
        _, plus, minus = program.clipped(Z)
        beta = program.rows.beta(Z)
        tally.sums |= {
            "plus": plus, "minus": minus, "adjoint": geometry.adjoint(beta),
            "terms": geometry.adjoint_sizes(beta),
        }  # fmt: skip
        return tally

    def values(
        self, v: Vector, b: Ball, scales: tuple[float, float], shrink: tuple[Ball, Ball],
        metric: MetricFacts | None, mean: Ball,
    ) -> Tally:  # fmt: skip
        """Sum the terms of both objectives.

        ``cost_surely`` and ``cost_possibly`` are costs of slack at the point times each of the `scales`. The
        dual terms are at the clipped multipliers, times the two factors `shrink` for sides +1 and −1, which
        make Σ β_i = 0: ``gain`` is Σ kink mu, ``norm_error`` bounds the error of ‖adjoint‖ due to that of β.
        For a metric also return the weighted ``squares`` of the scores less their `mean`.
        """
        scores, norms = self._geometry.outputs(v), self._geometry.norm_bounds()
        if metric is not None:
            norms = norms_in_metric(
                norms + metric.shift_norm, metric.D, self._weights, float(metric.total.mid)
            )
        gain, beta, norm_error = self._program.dual_terms(self._feasible(shrink), norms)
        cost_surely, cost_possibly = (self._program.slack_cost(scores + b, scale) for scale in scales)
        sums = {
            "cost_surely": cost_surely, "cost_possibly": cost_possibly, "gain": gain, "beta": beta.mid.sum(),
            "norm_error": norm_error, "adjoint": self._adjoint(beta.mid),
        }  # fmt: skip
        if metric is not None:
            sums["squares"] = ((scores - mean) * (scores - mean)).dot(self._weights)
        return Tally(self._geometry.n, sums)

    def dual_norm(self, v: Vector, mean: Ball, shrink: tuple[Ball, Ball], metric: MetricFacts) -> Tally:
        """Sum the terms of a bound on u'A⁻¹u (``SigmaMetric.dual_norm_sq``) that is valid for any v (m,)."""
        beta = self._program.rows.beta(self._feasible(shrink).mid)
        f = self._geometry.outputs(v) - mean
        r = Ball(beta) - metric.D * (f * self._weights) * inverse(metric.total)
        return Tally(self._geometry.n, {
            "partial_residual": self._adjoint(r), "residual_squares": (r * r).dot(1.0 / self._weights),
            "squares": (f * f).dot(self._weights),
        })  # fmt: skip

    def _feasible(self, shrink: tuple[Ball, Ball]) -> Ball:
        """Return the multipliers, clipped to [0, cap] and times the factors `shrink` for sides +1 and −1."""
        return self._program.shrunk(self._program.clipped(self._Z)[0], *shrink)

    def _adjoint(self, beta: Vector | Ball) -> Ball:
        """Return Σ β_i x_i of the centred samples, with its rounding."""
        return transposed_product(self._geometry.X, beta, self._geometry._shift)


def reduce_block(
    step: str, X: Matrix, rows: Families, Z: Vector, centre: Vector, weights: Vector | None,
    *arguments: object, intercept: bool = True,
) -> Tally:  # fmt: skip
    """Merge the tallies of the method `step` of :class:`Slice`, over the slices of a block of samples.

    weights: those of the samples, by default 1. arguments: those of the method.
    """
    weights = np.ones(rows.n) if weights is None else weights
    merged = Tally()
    for start in range(0, rows.n, SAMPLES_PER_SLICE):
        part = slice(start, start + SAMPLES_PER_SLICE)
        some = Slice(X[part], rows.part(part), Z[:, part], centre, weights[part], intercept=intercept)
        merged.append(getattr(some, step)(*arguments))
    return merged


def certify_blocks(
    name: str, call_blocks: Callable[..., Sequence[Tally]], rows: Families, *, v: Vector, b: float,
    centre: Vector | None, D: float | None = None, intercept: bool = True, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify a point and multipliers of an SVM, a Sigma-SVM or a Relative Margin Machine.

    Half of the program of a face of the Convex Polytope Machine is an SVM, too, whose intercept is a weight.
    The certificate is that of :func:`polyopt.margin.certificate.certify_hinge`, but cannot be saved.

    call_blocks: function that calls :func:`reduce_block` with a step and its arguments on all blocks, and
        returns their results in order.
    rows: families of rows of any samples; only their names, kinks and kinds of slack are used. Margins must
        have slack.
    v, b: the normal vector w (m,), and the intercept for uncentred samples.
    centre (m,): the point that dense samples are centred at; None for sparse samples.
    D: share of the variance in the Sigma-SVM's regulariser, within [0, 1].
    intercept: False if v (m+1,) has the intercept as its last weight, for a face; b is 0 and `centre` None.
    """
    v, tol = real_array("w", v), tolerance(tol)
    sums = lambda step, *arguments: merge(call_blocks(step, *arguments))  # noqa: E731
    # A program of one sample, for the functions that need only names, kinks and the intercept.
    program = HingeProgram(name, LinearGeometry(np.zeros((1, len(v)))), rows, intercept)
    offset = b if centre is None else Ball(v).dot(centre) + b  # the intercept for centred samples
    sigma = None if D is None else _SigmaSums(sums, D)
    conditions = sums("conditions", v, offset)
    plus, minus = conditions.sums["plus"], conditions.sums["minus"]
    shrink = balancing(plus, minus) if intercept else (Ball(1.0), Ball(1.0))  # Σ β_i = 0 if b is free
    scales = conditions.least["scale_surely"], conditions.least["scale_possibly"]
    facts, mean = (None, Ball(0.0)) if sigma is None else (sigma.facts, sigma.mean_output(v))
    values = sums("values", v, offset, scales, shrink, facts, mean).sums
    # ‖w‖² and ‖Σ β_i x_i‖², and both sides of the stationarity condition w = Σ β_i x_i; or those of A.
    energy, norm_sq = Ball(v).square_sum(), values["adjoint"].square_sum()
    gradient, adjoint, gradient_scale = v, conditions.sums["adjoint"], 1.0
    if sigma is not None:
        energy, norm_sq = sigma.energy(v, values["squares"]), sigma.dual_norm_sq(values, shrink)
        gradient, gradient_scale = sigma.metric.A @ v, sigma.metric.gradient_scale
        adjoint = adjoint - sigma.mean.mid * conditions.sums["beta"]
    # The factor that makes w exactly feasible is between the two scales.
    costs = dict(zip(scales, (values["cost_surely"], values["cost_possibly"]), strict=True))
    primal = value_between(energy, costs)
    dual = program.bound_from(values["gain"], norm_sq, values["norm_error"])
    adjoint_scale = float(np.max(conditions.sums["terms"], initial=0.0))
    stationary = stationarity(gradient, adjoint, adjoint_scale, gradient_scale, float(primal.mid))
    return conclude_hinge(program, primal, dual, residuals(program, conditions, stationary), tol)


class _SigmaSums:
    """The metric of the Sigma-SVM from sums over all samples.

    sums: function that returns the tally of a step over all samples, for the step and its arguments.
    D: share of the variance in the regulariser.
    """

    def __init__(self, sums: Callable[..., Tally], D: float):
        tally = sums("moments")
        total: Ball = tally.sums["total"]
        self._sums = sums
        self.mean: Ball = tally.sums["mean"] * inverse(total)  # of the centred samples
        moments = tally.sums["moments"] / float(total.mid)
        # The moments are about the centre. As for sparse samples, those about the mean follow from them.
        self.metric = sigma_metric(moments, self.mean.mid, D, tally.n, is_sparse=True)
        self.facts = MetricFacts(D, total, float(np.linalg.norm(self.mean.size)) * ABOVE)

    def mean_output(self, v: Vector) -> Ball:
        """Return the weighted mean of the scores of v."""
        return Ball(v).dot(self.mean)

    def energy(self, v: Vector, squares: Ball) -> Ball:
        """Return v'Av; `squares` is the sum of the weighted squares of scores less their mean."""
        D, total, _ = self.facts
        return one_minus(D) * Ball(v).square_sum() + D * (squares * inverse(total))

    def dual_norm_sq(self, values: dict[str, Any], shrink: tuple[Ball, Ball]) -> Ball:
        """Bound twice the quadratic term of the dual objective, at the multipliers made feasible."""
        # Any v gives a bound, which is tight if A v = u.
        v = self.metric.solve(values["adjoint"].mid - self.mean.mid * values["beta"])
        terms = self._sums("dual_norm", v, self.mean_output(v), shrink, self.facts).sums
        bound_by_samples = np.inf
        if self.facts.D == 1.0:
            bound_by_samples = residual_bound_by_samples(terms["residual_squares"], self.facts.total)
        energy = self.energy(v, terms["squares"])
        return self.metric.dual_norm_sq(v, energy, terms["partial_residual"], bound_by_samples)
