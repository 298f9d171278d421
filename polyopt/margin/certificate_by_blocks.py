"""Certificates of hinge programs whose samples are in blocks, in this process or elsewhere.

The program, its dual and the claims are those of :mod:`polyopt.margin.certificate`, computed by the same
functions; sums over the samples are added up over the blocks, in their order. Two rounds suffice for an SVM
or a Relative Margin Machine:

1. ``conditions``: residuals of the optimality conditions, and the factors that make w and the multipliers
   feasible;
2. ``values``: both objectives at the feasible vectors.

The Sigma-SVM first needs the ``mean`` and the second ``moments`` of the samples, which define its metric A,
and after `values` the ``outputs`` and the ``dual_norm``: sums for an upper bound on u'A⁻¹u, the quadratic
term of its dual (:mod:`polyopt.margin.geometry`).

:class:`Slices` computes these sums for one block, in slices short enough that the rounding of sums is small
and little data is copied; :func:`certify_blocks` merges the results of all blocks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.families import Families
from formulations.language.arguments import real_array, tolerance
from formulations.language.types import Matrix, Vector
from formulations.polytope import lift
from polyopt.certificates.certificate import Certificate, conclude
from polyopt.certificates.tally import SAMPLES_PER_SLICE, Tally, merge
from polyopt.linalg.rounding import ABOVE, Ball, transposed_product
from polyopt.margin.certificate import (
    BROKEN,
    NO_RAY,
    BalanceSums,
    HingeProgram,
    balancing,
    check_conditions,
    residuals,
    stationarity,
    to_feasible,
)
from polyopt.margin.geometry import (
    LinearGeometry,
    SigmaMetric,
    inverse,
    norms_in_metric,
    one_minus,
    residual_bound_by_samples,
    second_moments,
    sigma_metric,
)


@dataclass(frozen=True)
class Metric:
    """The parameters of the Sigma-SVM's metric that a slice needs.

    D: share of the variance in the regulariser.
    total: sum of the weights of all samples.
    shift_norm: distance of the mean from the point that samples are centred at.
    """

    D: float
    total: Ball
    shift_norm: float


class _SigmaSlice(LinearGeometry):
    """Some samples, with norms in the metric of the Sigma-SVM."""

    def __init__(self, X: Matrix, centre: Vector | None, weights: Vector, metric: Metric):
        super().__init__(X, centre=centre)
        self._weights, self._metric = weights, metric

    def norm_bounds(self) -> Vector:
        total = float(self._metric.total.mid)
        norms = super().norm_bounds() + self._metric.shift_norm
        return norms_in_metric(norms, self._metric.D, self._weights, total)


@dataclass(frozen=True)
class _Slice:
    """The hinge program of one slice of samples, the samples' weights, and their multipliers Z (q, k)."""

    program: HingeProgram
    geometry: LinearGeometry
    weights: Vector
    Z: Vector

    def feasible(self, shrink: tuple[float, float]) -> tuple[Ball, Ball, BalanceSums]:
        """Return the dual terms of the multipliers, made feasible by the factors of `balancing`."""
        return self.program.dual_terms(self.program.shrunk(self.program.clipped(self.Z)[0], *shrink))


class Slices:
    """Samples X (k, m) of a hinge program with their families of rows and multipliers Z (q, k).

    Dense samples are centred at `centre` (m,); `weights` (k,) weigh the samples in mean and covariance.
    Without a free intercept samples are not centred, and have a last feature of 1. Each public method is one
    step of :func:`certify_blocks` and returns sums over the block's samples.
    """

    def __init__(
        self, X: Matrix, rows: Families, Z: Vector, centre: Vector, weights: Vector | None = None, *,
        intercept: bool = True,
    ):  # fmt: skip
        self._X, self._rows, self._Z, self._intercept = X, rows, Z, intercept
        self._centre = centre if intercept else None
        self._weights = np.ones(rows.n) if weights is None else weights

    def _sum(self, terms: Callable[[_Slice], Tally], metric: Metric | None = None) -> Tally:
        """Merge the tallies that `terms` computes for each slice."""
        return merge(terms(part) for part in self._slices(metric))

    def _slices(self, metric: Metric | None) -> Iterator[_Slice]:
        for start in range(0, self._rows.n, SAMPLES_PER_SLICE):
            part = slice(start, start + SAMPLES_PER_SLICE)
            families = (replace(row, side=row.side[part], cap=row.cap[part]) for row in self._rows)
            rows = Families(*families)
            X, weights = self._X[part] if self._intercept else lift(self._X[part]), self._weights[part]
            geometry = LinearGeometry(X, centre=self._centre)
            if metric is not None:
                geometry = _SigmaSlice(X, self._centre, weights, metric)
            yield _Slice(
                HingeProgram("", geometry, rows, self._intercept), geometry, weights, self._Z[:, part]
            )

    def mean(self) -> Tally:
        """Sum the weights (``total``) and the weighted samples (``mean``)."""
        return self._sum(lambda part: Tally(part.geometry.n, {
            "total": Ball(part.weights).sum(), "mean": part.geometry.adjoint(part.weights),
        }))  # fmt: skip

    def moments(self, mean: Vector, v: Vector) -> Tally:
        """Sum the second ``moments`` of the samples, and the weighted ``outputs`` of v."""
        return self._sum(lambda part: Tally(part.geometry.n, {
            "moments": second_moments(part.geometry.X, part.weights, mean),
            "outputs": part.geometry.outputs(v).dot(part.weights),
        }))  # fmt: skip

    def outputs(self, v: Vector) -> Tally:
        """Sum the weighted ``outputs`` of v."""
        return self._sum(
            lambda part: Tally(part.geometry.n, {"outputs": part.geometry.outputs(v).dot(part.weights)})
        )

    def conditions(self, v: Vector, b: Ball, metric: Metric | None) -> Tally:
        """Note the worst violation of each condition, with `b` the intercept for centred samples.

        Also return the feasibility factors: ``scale_surely`` and ``scale_possibly`` of :func:`to_feasible`,
        and ``plus`` and ``minus``, the sums of the clipped multipliers over lower-bound and upper-bound rows.
        """

        def terms(part: _Slice) -> Tally:
            program, geometry, Z = part.program, part.geometry, part.Z
            f = geometry.outputs(v) + b
            tally = check_conditions(program, f, Z)
            scale_surely, scale_possibly = to_feasible(program, f)
            _, plus, minus = program.clipped(Z)
            beta = program.rows.beta(Z)
            tally.least |= {"scale_surely": scale_surely, "scale_possibly": scale_possibly}
            tally.sums |= {
                "plus": plus, "minus": minus, "adjoint": geometry.adjoint(beta),
                "terms": geometry.adjoint_sizes(beta),
            }  # fmt: skip
            return tally

        return self._sum(terms, metric)

    def values(
        self, v: Vector, b: Ball, scales: tuple[float, float], shrink: tuple[float, float],
        metric: Metric | None, mean: Ball,
    ) -> Tally:  # fmt: skip
        """Sum the terms of both objectives.

        The primal ones are at the point times each of the two `scales`, the dual ones at the multipliers
        times the factors `shrink`, as in :func:`balancing`.
        """

        def terms(part: _Slice) -> Tally:
            scores = part.geometry.outputs(v)
            cost_surely, cost_possibly = (part.program.slack_cost(scores + b, scale)[0] for scale in scales)
            gain, beta, balance = part.feasible(shrink)
            sums = {
                **balance._asdict(), "cost_surely": cost_surely, "cost_possibly": cost_possibly, "gain": gain,
                "adjoint": transposed_product(part.geometry.X, beta.mid, part.geometry._shift),
            }  # fmt: skip
            if metric is not None:
                sums["squares"] = ((scores - mean) * (scores - mean)).dot(part.weights)
            return Tally(part.geometry.n, sums)

        return self._sum(terms, metric)

    def dual_norm(self, v: Vector, mean: Ball, shrink: tuple[float, float], metric: Metric) -> Tally:
        """Sum the terms of ``SigmaMetric.dual_norm_sq`` at v and the multipliers times `shrink`."""

        def terms(part: _Slice) -> Tally:
            beta, f = part.feasible(shrink)[1], part.geometry.outputs(v) - mean
            r = Ball(beta.mid) - metric.D * (f * part.weights) * inverse(metric.total)
            partial_residual = transposed_product(part.geometry.X, r, part.geometry._shift)
            sums = {
                "partial_residual": partial_residual, "residual_squares": (r * r).dot(1.0 / part.weights),
                "squares": (f * f).dot(part.weights),
            }  # fmt: skip
            return Tally(part.geometry.n, sums)

        return self._sum(terms, metric)


def certify_blocks(
    name: str,
    call_blocks: Callable[..., Sequence[Tally]],
    rows: Families,
    *,
    v: Vector,
    b: float,
    centre: Vector | None,
    D: float | None = None,
    intercept: bool = True,
    tol: float = 1e-6,
) -> Certificate:
    """Certify a point and multipliers of an SVM, Sigma-SVM or Relative Margin Machine, or of half a face.

    The certificate is that of :func:`polyopt.margin.certificate.certify_hinge`, but cannot be saved.

    call_blocks: function that calls a method of :class:`Slices`, by name and with its arguments, on all
        blocks, and returns their results in order.
    rows: families of rows of any samples; only their names, kinks and kinds of slack are used.
    v, b: the normal vector w (m,), and the intercept for uncentred samples.
    centre (m,): the point that dense samples are centred at; None for sparse samples.
    D: share of the variance in the Sigma-SVM's regulariser, within [0, 1].
    intercept: False if v (m+1,) has the intercept as its last weight; then b is 0 and `centre` None.
    """
    v = real_array("w", v)
    return _Blocks(name, call_blocks, rows, v, centre, D, intercept).certificate(b, tolerance(tol))


class _Blocks:
    """The program, merged over the blocks; for the Sigma-SVM with its metric and mean output."""

    def __init__(
        self, name: str, call_blocks: Callable[..., Sequence[Tally]], rows: Families, v: Vector,
        centre: Vector | None, D: float | None, intercept: bool,
    ):  # fmt: skip
        self._call_blocks, self._v = call_blocks, v
        self._program = HingeProgram(name, LinearGeometry(np.zeros((1, len(v)))), rows, intercept)
        self._shift = np.zeros(len(v)) if centre is None else centre
        self._metric: Metric | None = None
        self._mean = Ball(0.0)
        if D is not None:
            mean_sums = self._merged("mean")
            total: Ball = mean_sums.sums["total"]
            mean = self._shift + mean_sums.sums["mean"] / float(total.mid)
            moment_sums = self._merged("moments", mean, v)
            n, moments = moment_sums.n, moment_sums.sums["moments"] / float(total.mid)
            self._sigma_metric: SigmaMetric = sigma_metric(moments, mean, D, n, is_sparse=centre is None)
            self._mean_shift = mean - self._shift
            self._metric = Metric(D, total, float(np.linalg.norm(self._mean_shift)) * ABOVE)
            self._mean = moment_sums.sums["outputs"] * inverse(total)

    def _merged(self, step: str, *arguments: object) -> Tally:
        return merge(self._call_blocks(step, *arguments))

    def certificate(self, b: float, tol: float) -> Certificate:
        v, metric, program = self._v, self._metric, self._program
        offset = Ball(v).dot(self._shift) + b
        conditions = self._merged("conditions", v, offset, metric)
        plus, minus = conditions.sums["plus"], conditions.sums["minus"]
        shrink = balancing(plus, minus) if program.intercept else (1.0, 1.0)
        scales = conditions.least["scale_surely"], conditions.least["scale_possibly"]
        values = self._merged("values", v, offset, scales, shrink, metric, self._mean)
        energy, costs = self._energy(v, values), (values.sums["cost_surely"], values.sums["cost_possibly"])
        objectives = [
            energy * Ball(scale) * scale * 0.5 + cost for scale, cost in zip(scales, costs, strict=True)
        ]
        primal = max(objectives, key=lambda value: float(value.upper))
        balance = BalanceSums(*(values.sums[name] for name in BalanceSums._fields))
        dual = program.bound_from(values.sums["gain"], self._dual_norm_sq(values, shrink), balance)
        adjoint, gradient, unit = conditions.sums["adjoint"], v, 1.0
        if metric is not None:
            adjoint = adjoint - self._mean_shift * conditions.sums["beta"]
            gradient, unit = self._sigma_metric.A @ v, self._sigma_metric.gradient_scale
        terms = float(np.max(conditions.sums["terms"], initial=0.0))
        stationary = stationarity(gradient, adjoint, terms, unit, float(primal.mid))
        measured = residuals(program, conditions, stationary)
        feasible = all(residual.relative <= tol for residual in measured if residual.condition == "primal")
        notes = ["" if feasible else BROKEN, NO_RAY if np.isinf(scales[0]) else ""]
        return conclude(program.name, primal, dual, measured, tol, feasible=feasible, notes=notes)

    def _energy(self, v: Vector, tally: Tally) -> Ball:
        square = Ball(v).square_sum()
        if self._metric is None:
            return square
        squares: Ball = tally.sums["squares"]
        return one_minus(self._metric.D) * square + self._metric.D * (squares * inverse(self._metric.total))

    def _dual_norm_sq(self, tally: Tally, shrink: tuple[float, float]) -> Ball:
        """Bound twice the quadratic term of the dual objective, at the multipliers made feasible."""
        adjoint: Ball = tally.sums["adjoint"]
        if self._metric is None:
            return adjoint.square_sum()
        v = self._sigma_metric.solve(adjoint.mid - self._mean_shift * float(tally.sums["beta_sum"].mid))
        mean = self._merged("outputs", v).sums["outputs"] * inverse(self._metric.total)
        terms = self._merged("dual_norm", v, mean, shrink, self._metric)
        bound_by_samples = np.inf
        if self._metric.D == 1.0:
            bound_by_samples = residual_bound_by_samples(terms.sums["residual_squares"], self._metric.total)
        return self._sigma_metric.dual_norm_sq(
            v, self._energy(v, terms), terms.sums["partial_residual"], bound_by_samples
        )
