"""Certificates of hinge programs whose samples are in blocks, in this process or elsewhere.

The program, its dual and the claims are those of :mod:`polyopt.margin.certificate`, by the same functions;
every sum over the samples is one over blocks, in their order. Two rounds suffice: the conditions with the
factors that make both vectors feasible, then both objectives. The Sigma-SVM needs more, because its metric
and the norm of its multipliers are sums over the samples too (:mod:`polyopt.margin.geometry`).

A block answers by slices (:class:`Slices`), short enough that the rounding of their sums is small and little
data is copied; :func:`certify_blocks` adds up the answers of all blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.families import Families
from formulations.language.arguments import real_array, tolerance
from formulations.language.types import Matrix, Vector
from formulations.polytope import lift
from polyopt.certificates.certificate import Certificate, conclude
from polyopt.certificates.tally import SLICE_ROWS, Tally, merge
from polyopt.linalg.rounding import ABOVE, Ball, transposed_product
from polyopt.margin.certificate import (
    BROKEN,
    NO_RAY,
    Balance,
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
    left_by_spread,
    metric_of,
    norms_in_metric,
    one_minus,
    second_moments,
)


@dataclass(frozen=True)
class Metric:
    """The metric of the Sigma-SVM as a slice needs it.

    D: share of the variance in the regulariser.
    total: sum of the weights of all samples.
    apart: distance of the mean from the point that samples are centred at.
    """

    D: float
    total: Ball
    apart: float


class _SigmaSlice(LinearGeometry):
    """Some samples, with norms in the metric of the Sigma-SVM."""

    def __init__(self, X: Matrix, centre: Vector | None, weights: Vector, metric: Metric):
        super().__init__(X, centre=centre)
        self._weights, self._metric = weights, metric

    def sizes(self) -> Vector:
        total = float(self._metric.total.mid)
        return norms_in_metric(super().sizes() + self._metric.apart, self._metric.D, self._weights, total)


@dataclass(frozen=True)
class _Slice:
    program: HingeProgram
    geometry: LinearGeometry
    weights: Vector
    Z: Vector

    def feasible(self, shrink: tuple[float, float]) -> tuple[Ball, Ball, Balance]:
        """The dual terms of the multipliers made feasible by these factors."""
        return self.program.dual_terms(self.program.shrunk(self.program.clipped(self.Z)[0], *shrink))


class Slices:
    """Samples X (k, m) of a hinge program with their families of rows and multipliers Z (q, k).

    Dense samples are centred at `centre` (m,); `weights` (k,) are those of mean and covariance. Without a
    free intercept samples are not centred, and have a last feature of 1. The methods are the steps of
    :func:`certify_blocks`.
    """

    def __init__(
        self, X: Matrix, rows: Families, Z: Vector, centre: Vector, weights: Vector | None = None, *,
        intercept: bool = True,
    ):  # fmt: skip
        self._X, self._rows, self._Z, self._intercept = X, rows, Z, intercept
        self._centre = centre if intercept else None
        self._weights = np.ones(rows.n) if weights is None else weights

    def _sum(self, terms: Callable[[_Slice], Tally], metric: Metric | None = None) -> Tally:
        return merge(terms(each) for each in self._slices(metric))

    def _slices(self, metric: Metric | None) -> Iterator[_Slice]:
        for start in range(0, self._rows.n, SLICE_ROWS):
            part = slice(start, start + SLICE_ROWS)
            rows = Families(*(replace(each, side=each.side[part], cap=each.cap[part]) for each in self._rows))
            X, weights = self._X[part] if self._intercept else lift(self._X[part]), self._weights[part]
            geometry = LinearGeometry(X, centre=self._centre)
            if metric is not None:
                geometry = _SigmaSlice(X, self._centre, weights, metric)
            yield _Slice(
                HingeProgram("", geometry, rows, self._intercept), geometry, weights, self._Z[:, part]
            )

    def mean(self) -> Tally:
        """Sum of the weights, and weighted sum of the samples."""
        return self._sum(lambda part: Tally(part.geometry.n, {
            "total": Ball(part.weights).sum(), "mean": part.geometry.adjoint(part.weights),
        }))  # fmt: skip

    def moments(self, mean: Vector, v: Vector) -> Tally:
        """Second moments of the samples, and weighted sum of the outputs of v."""
        return self._sum(lambda part: Tally(part.geometry.n, {
            "moments": second_moments(part.geometry.X, part.weights, mean),
            "outputs": part.geometry.outputs(v).dot(part.weights),
        }))  # fmt: skip

    def outputs(self, v: Vector) -> Tally:
        """Weighted sum of the outputs of v."""
        return self._sum(
            lambda part: Tally(part.geometry.n, {"outputs": part.geometry.outputs(v).dot(part.weights)})
        )

    def conditions(self, v: Vector, b: Ball, metric: Metric | None) -> Tally:
        """Violations of every condition at outputs of centred samples plus `b`."""

        def terms(part: _Slice) -> Tally:
            program, geometry, Z = part.program, part.geometry, part.Z
            f = geometry.outputs(v) + b
            found = check_conditions(program, f, Z)
            scale, enough = to_feasible(program, f)
            _, plus, minus = program.clipped(Z)
            beta = program.rows.beta(Z)
            found.least |= {"scale": scale, "enough": enough}
            found.sums |= {
                "plus": plus, "minus": minus, "pulled": geometry.adjoint(beta),
                "terms": geometry.adjoint_sizes(beta),
            }  # fmt: skip
            return found

        return self._sum(terms, metric)

    def values(
        self, v: Vector, b: Ball, scales: tuple[float, float], shrink: tuple[float, float],
        metric: Metric | None, mean: Ball,
    ) -> Tally:  # fmt: skip
        """Terms of both objectives: of the point times either scale, and of the multipliers made feasible."""

        def terms(part: _Slice) -> Tally:
            g = part.geometry.outputs(v)
            cost, other = (part.program.slack_cost(g + b, scale)[0] for scale in scales)
            gain, beta, balance = part.feasible(shrink)
            sums = {"cost": cost, "other cost": other, "gain": gain, **balance._asdict()}
            sums["adjoint"] = transposed_product(part.geometry.X, beta.mid, part.geometry._shift)
            if metric is not None:
                sums["squares"] = ((g - mean) * (g - mean)).dot(part.weights)
            return Tally(part.geometry.n, sums)

        return self._sum(terms, metric)

    def dual_norm(self, v: Vector, mean: Ball, shrink: tuple[float, float], metric: Metric) -> Tally:
        """Terms of ``SigmaMetric.dual_norm_sq`` at v for the multipliers made feasible."""

        def terms(part: _Slice) -> Tally:
            beta, f = part.feasible(shrink)[1], part.geometry.outputs(v) - mean
            r = Ball(beta.mid) - metric.D * (f * part.weights) * inverse(metric.total)
            rest = transposed_product(part.geometry.X, r, part.geometry._shift)
            sums = {
                "rest": rest, "spread": (r * r).dot(1.0 / part.weights), "squares": (f * f).dot(part.weights),
            }  # fmt: skip
            return Tally(part.geometry.n, sums)

        return self._sum(terms, metric)


def certify_blocks(
    name: str,
    ask: Callable[..., Sequence[Tally]],
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

    ask: calls a method of :class:`Slices` on all blocks, and returns their answers in order.
    rows: the families of rows of some samples, with the names, kinks and kinds of all.
    v, b: the normal vector w (m,), and the intercept for samples as given.
    centre (m,): the point that dense samples are centred at; None for sparse ones.
    D: share of the variance in the Sigma-SVM's regulariser, within [0, 1].
    intercept: False if v (m+1,) has the intercept as its last weight; then b is 0 and `centre` None.
    """
    v = real_array("w", v)
    return _Blocks(name, ask, rows, v, centre, D, intercept).certificate(b, tolerance(tol))


class _Blocks:
    def __init__(
        self, name: str, ask: Callable[..., Sequence[Tally]], rows: Families, v: Vector,
        centre: Vector | None, D: float | None, intercept: bool,
    ):  # fmt: skip
        self._ask, self._v = ask, v
        self._program = HingeProgram(name, LinearGeometry(np.zeros((1, len(v)))), rows, intercept)
        self._shift = np.zeros(len(v)) if centre is None else centre
        self._metric: Metric | None = None
        self._mean = Ball(0.0)
        if D is not None:
            first = self._all("mean")
            total: Ball = first.sums["total"]
            mean = self._shift + first.sums["mean"] / float(total.mid)
            second = self._all("moments", mean, v)
            moments = second.sums["moments"] / float(total.mid)
            self._space: SigmaMetric = metric_of(moments, mean, D, second.n, is_sparse=centre is None)
            self._moved = mean - self._shift
            self._metric = Metric(D, total, float(np.linalg.norm(self._moved)) * ABOVE)
            self._mean = second.sums["outputs"] * inverse(total)

    def _all(self, step: str, *arguments: object) -> Tally:
        return merge(self._ask(step, *arguments))

    def certificate(self, b: float, tol: float) -> Certificate:
        v, metric, program = self._v, self._metric, self._program
        offset = Ball(v).dot(self._shift) + b
        met = self._all("conditions", v, offset, metric)
        shrink = balancing(met.sums["plus"], met.sums["minus"]) if program.intercept else (1.0, 1.0)
        scales = met.least["scale"], met.least["enough"]
        found = self._all("values", v, offset, scales, shrink, metric, self._mean)
        energy, costs = self._energy(v, found), (found.sums["cost"], found.sums["other cost"])
        values = [
            energy * Ball(scale) * scale * 0.5 + cost for scale, cost in zip(scales, costs, strict=True)
        ]
        primal = max(values, key=lambda value: float(value.upper))
        balance = Balance(*(found.sums[each] for each in Balance._fields))
        dual = program.bound_from(found.sums["gain"], self._dual_norm_sq(found, shrink), balance)
        pulled, gradient, unit = met.sums["pulled"], v, 1.0
        if metric is not None:
            pulled = pulled - self._moved * met.sums["beta"]
            gradient, unit = self._space.A @ v, self._space.gradient_scale
        terms = float(np.max(met.sums["terms"], initial=0.0))
        measured = residuals(program, met, stationarity(gradient, pulled, terms, unit, float(primal.mid)))
        feasible = all(each.relative <= tol for each in measured if each.condition == "primal")
        notes = ["" if feasible else BROKEN, NO_RAY if np.isinf(scales[0]) else ""]
        return conclude(program.name, primal, dual, measured, tol, feasible=feasible, notes=notes)

    def _energy(self, v: Vector, found: Tally) -> Ball:
        square = Ball(v).square_sum()
        if self._metric is None:
            return square
        squares: Ball = found.sums["squares"]
        return one_minus(self._metric.D) * square + self._metric.D * (squares * inverse(self._metric.total))

    def _dual_norm_sq(self, found: Tally, shrink: tuple[float, float]) -> Ball:
        """Twice the quadratic term of the dual objective, for the multipliers made feasible."""
        adjoint: Ball = found.sums["adjoint"]
        if self._metric is None:
            return adjoint.square_sum()
        v = self._space.solve(adjoint.mid - self._moved * float(found.sums["left"].mid))
        mean = self._all("outputs", v).sums["outputs"] * inverse(self._metric.total)
        terms = self._all("dual_norm", v, mean, shrink, self._metric)
        by_spread = np.inf
        if self._metric.D == 1.0:
            by_spread = left_by_spread(terms.sums["spread"], self._metric.total)
        return self._space.dual_norm_sq(v, self._energy(v, terms), terms.sums["rest"], by_spread)
