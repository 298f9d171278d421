"""Certificates of hinge programs whose samples are in blocks, wherever those are.

The program, its dual and the claims are those of :mod:`polyopt.margin.certificate`, by the same functions;
here every sum over the samples is one over blocks, taken in their order. Two rounds do: conditions and what
makes both vectors feasible, then both objectives. The Sigma-SVM takes more, as its metric and the price of
its multipliers are sums over the samples too (:mod:`polyopt.margin.sigma_geometry`).

A block is read slice by slice in one pass (:class:`Slices`), and :func:`certify_blocks` makes of it what it
makes of all blocks. A slice is so short that the rounding of its sums is small, and little of the data is
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.families import Families
from formulations.language.arguments import real_array, tolerance
from formulations.polytope import lift
from polyopt.certificates.certificate import Certificate, Residual, conclude
from polyopt.certificates.tally import SLICE_ROWS, Tally, together
from polyopt.linalg.rounding import ABOVE, Ball, transposed_product
from polyopt.margin.certificate import BROKEN, NO_RAY
from polyopt.margin.geometry import LinearGeometry
from polyopt.margin.hinge_program import Balance, HingeProgram, balancing
from polyopt.margin.infeasibility_ray import to_feasible
from polyopt.margin.residuals import (
    balance_residual,
    complementarity_violations,
    primal_violations,
    sign_violations,
    stationarity,
)
from polyopt.margin.sigma_geometry import SigmaMetric, inverse, kept, left_by_spread, sizes_in_metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.language.types import Matrix

    Vector = NDArray[np.float64]
    Ask = Callable[..., Sequence[Tally]]

__all__ = ["Slices", "certify_blocks"]


@dataclass(frozen=True)
class Metric:
    """The Sigma-SVM's metric, for slices: its share D, and the sum `total` of the weights.

    The mean is within the distance `apart` of the point that samples are taken from.
    """

    D: float
    total: Ball
    apart: float


class _SigmaSlice(LinearGeometry):
    """Some samples, with their outputs less the mean of all, and norms in the metric."""

    def __init__(self, X: Matrix, centre: Vector, weights: Vector, metric: Metric):
        super().__init__(X, centre=centre)
        self._weights, self._in = weights, metric

    def sizes(self) -> Vector:
        total = float(self._in.total.mid)
        return sizes_in_metric(super().sizes() + self._in.apart, self._in.D, self._weights, total)


class Slices:
    """Some samples X (k, m) of a hinge program, with their families of rows.

    Dense samples are taken from `centre` (m,); `weights` (k,) are those of mean and covariance. Without a
    free intercept samples are taken as they are, with a last feature of 1.
    """

    def __init__(
        self, X: Matrix, rows: Families, centre: Vector, weights: Vector | None = None, *,
        intercept: bool = True,
    ):  # fmt: skip
        self._X, self._rows, self._intercept = X, rows, intercept
        self._centre = centre if intercept else None
        self._weights = np.ones(rows.n) if weights is None else weights

    def _slices(self, metric: Metric | None) -> Iterator[tuple[slice, HingeProgram, LinearGeometry, Vector]]:
        for start in range(0, self._rows.n, SLICE_ROWS):
            part = slice(start, start + SLICE_ROWS)
            rows = Families(*(replace(each, side=each.side[part], cap=each.cap[part]) for each in self._rows))
            weights = self._weights[part]
            X = self._X[part] if self._intercept else lift(self._X[part])
            geometry = LinearGeometry(X, centre=self._centre)
            if metric is not None:
                assert self._centre is not None
                geometry = _SigmaSlice(X, self._centre, weights, metric)
            yield part, HingeProgram("", geometry, rows, self._intercept), geometry, weights

    def middle(self) -> Tally:
        """The sum of the weights, and the samples added up by them."""
        return together(
            Tally(rows.rows.n, {"total": Ball(s).sum(), "mean": space.pull(s)})
            for _, rows, space, s in self._slices(None)
        )

    def moments(self, mean: Vector, v: Vector) -> Tally:
        """Moments of second order, dense samples around the mean, and the outputs of v added up."""

        def found(space: LinearGeometry, s: Vector) -> Tally:
            rows: Any = space.X
            if sp.issparse(rows):
                products = (rows.T @ rows.multiply(s[:, None]).tocsr()).toarray()
            else:
                rows = rows - mean
                products = (rows * s[:, None]).T @ rows
            return Tally(space.n, {"moments": products, "outputs": space.outputs(v).dot(s)})

        return together(found(space, s) for _, _, space, s in self._slices(None))

    def outputs(self, v: Vector) -> Tally:
        """The outputs of v, added up by the weights."""
        return together(
            Tally(space.n, {"outputs": space.outputs(v).dot(s)}) for _, _, space, s in self._slices(None)
        )

    def point(self, v: Vector, b: Ball, Z: Vector, metric: Metric | None) -> Tally:
        """Both vectors against every condition, at outputs of ``x_i - centre`` plus `b`."""
        return together(
            _met(program, space, space.outputs(v) + b, Z[:, part])
            for part, program, space, _ in self._slices(metric)
        )

    def values(
        self, v: Vector, b: Ball, scales: tuple[float, float], Z: Vector, shrink: tuple[float, float],
        metric: Metric | None, mean: Ball,
    ) -> Tally:  # fmt: skip
        """Both objectives: of the point times either scale, and of the multipliers made feasible."""

        def found(program: HingeProgram, space: LinearGeometry, Z: Vector, s: Vector) -> Tally:
            g = space.outputs(v)
            paid, other = (program.paid(g + b, scale)[0] for scale in scales)
            gain, beta, balance = program.earned(program.shrunk(program.clipped(Z)[0], *shrink))
            sums = {"paid": paid, "paid at": other, "gain": gain, **balance._asdict()}
            sums["pulled"] = transposed_product(space.X, beta.mid, space._shift)
            if metric is not None:
                sums["squares"] = ((g - mean) * (g - mean)).dot(s)
            return Tally(space.n, sums)

        return together(
            found(program, space, Z[:, part], s) for part, program, space, s in self._slices(metric)
        )

    def price(self, v: Vector, mean: Ball, Z: Vector, shrink: tuple[float, float], metric: Metric) -> Tally:
        """Pull of multipliers made feasible beyond D Σ v, with its rounding; see ``SigmaMetric.price``."""

        def found(program: HingeProgram, space: LinearGeometry, Z: Vector, s: Vector) -> Tally:
            beta = program.earned(program.shrunk(program.clipped(Z)[0], *shrink))[1]
            f = space.outputs(v) - mean
            r = Ball(beta.mid) - metric.D * (f * s) * inverse(metric.total)
            pulled = transposed_product(space.X, r, space._shift)
            sums = {"left": pulled, "spread": (r * r).dot(1.0 / s), "squares": (f * f).dot(s)}
            return Tally(space.n, sums)

        return together(
            found(program, space, Z[:, part], s) for part, program, space, s in self._slices(metric)
        )


def _met(program: HingeProgram, space: LinearGeometry, f: Ball, Z: Vector) -> Tally:
    scale, enough = to_feasible(program, f)
    _, plus, minus = program.clipped(Z)
    beta = program.rows.beta(Z)
    found = Tally(space.n)
    found.least = {
        "scale": scale, "enough": enough,
        "largest": -float(np.abs(Z).max()), "cap": -float(program.rows.caps.max()),
    }  # fmt: skip
    found.sums = {
        "plus": plus, "minus": minus, "beta": float(beta.sum()), "size": float(np.abs(beta).sum()),
        "pull": space.pull(beta), "terms": space.pull_sizes(beta),
    }  # fmt: skip
    for row, missed, _ in primal_violations(program, f):
        found.note("primal", row, missed)
    for row, missed in sign_violations(program, Z):
        found.note("sign", row, missed)
    for row, product, _ in complementarity_violations(program, f.mid, Z):
        found.note("complementarity", row, product)
    return found


def certify_blocks(
    name: str,
    ask: Ask,
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

    ask: takes the name of a method of :class:`Slices` with its arguments,
        multipliers left out, and returns the answers of all blocks, in order.
    rows: the families of rows of some samples: their names, kinks and kinds are those of all.
    v, b: the normal vector w (m,), and the intercept for samples as they are.
    centre (m,): the point that dense samples are taken from; None for sparse ones.
    D: the Sigma-SVM's share, within [0, 1].
    intercept: whether the intercept is free; else v (m+1,) has it as its last weight, b is 0, and `centre`
        None.
    """
    v = real_array("w", v)
    return _Blocks(name, ask, rows, v, centre, D, intercept).certificate(b, tolerance(tol))


class _Blocks:
    def __init__(
        self, name: str, ask: Ask, rows: Families, v: Vector, centre: Vector | None, D: float | None,
        intercept: bool,
    ):  # fmt: skip
        self._name, self._ask, self._rows, self._v, self._intercept = name, ask, rows, v, intercept
        self._shift = np.zeros(len(v)) if centre is None else centre
        self._metric, self._space, self._mean = None, None, Ball(0.0)
        if D is not None:
            self._metric, self._space, self._mean = self._sigma(D, centre is None)

    def _all(self, step: str, *arguments: object) -> Tally:
        return together(self._ask(step, *arguments))

    def _sigma(self, D: float, is_sparse: bool) -> tuple[Metric, SigmaMetric, Ball]:
        first = self._all("middle")
        total: Ball = first.sums["total"]
        mean = self._shift + first.sums["mean"] / float(total.mid)
        second = self._all("moments", mean, self._v)
        Sigma = second.sums["moments"] / float(total.mid)
        if is_sparse:
            Sigma -= np.outer(mean, mean)
        A = (1.0 - D) * np.eye(len(mean)) + D * Sigma
        self._moved = mean - self._shift
        apart = float(np.linalg.norm(self._moved)) * ABOVE
        space = SigmaMetric(A, D, second.n, mean if is_sparse else None)
        return Metric(D, total, apart), space, second.sums["outputs"] * inverse(total)

    def certificate(self, b: float, tol: float) -> Certificate:
        """The certificate of the intercept b and the blocks' multipliers."""
        v, metric = self._v, self._metric
        offset = Ball(v).dot(self._shift) + b
        met = self._all("point", v, offset, metric)
        factors = balancing(met.sums["plus"], met.sums["minus"]) if self._intercept else (1.0, 1.0)
        scales = met.least["scale"], met.least["enough"]
        found = self._all("values", v, offset, scales, factors, metric, self._mean)
        energy = self._energy(v, found)
        primal = max(
            (
                energy * Ball(scale) * scale * 0.5 + paid
                for scale, paid in zip(scales, (found.sums["paid"], found.sums["paid at"]), strict=True)
            ),
            key=lambda value: float(value.upper),
        )
        geometry = LinearGeometry(np.zeros((1, len(v))))
        program = HingeProgram(self._name, geometry, self._rows, self._intercept)
        balance = Balance(*(found.sums[each] for each in Balance._fields))
        dual = program.bound_by(found.sums["gain"], self._price(found, factors), balance)
        residuals, is_met = self._residuals(met, float(primal.mid), tol)
        notes = ["" if is_met else BROKEN, NO_RAY if np.isinf(scales[0]) else ""]
        return conclude(self._name, primal, dual, residuals, tol, feasible=is_met, notes=notes)

    def _residuals(self, met: Tally, value: float, tol: float) -> tuple[list[Residual], bool]:
        """All residuals, and whether the hard rows are kept."""
        largest, cap = -met.least["largest"], -met.least["cap"]
        units = {family.name: family.unit for family in self._rows}
        units |= {family.slack[0]: family.unit for family in self._rows if family.slack}
        scales = {"primal": 1.0, "sign": largest or cap, "complementarity": largest or 1.0}
        by_condition: dict[str, list[Residual]] = {name: [] for name in scales}
        for condition, row in met.worst:
            unit = 1.0 if condition == "sign" else units[row]
            by_condition[condition].append(met.residual(condition, row, scales[condition] * unit))
        pulled, gradient, unit = met.sums["pull"], self._v, 1.0
        if self._space is not None:
            pulled = pulled - self._moved * met.sums["beta"]
            gradient, unit = self._space.A @ self._v, self._space.unit
        terms = float(np.max(met.sums["terms"], initial=0.0))
        residuals = [
            *by_condition["primal"], *by_condition["sign"],
            *([balance_residual(met.sums["beta"], met.sums["size"])] if self._intercept else []),
            *stationarity(gradient, pulled, terms, unit, value), *by_condition["complementarity"],
        ]  # fmt: skip
        return residuals, all(each.relative <= tol for each in by_condition["primal"])

    def _energy(self, v: Vector, found: Tally) -> Ball:
        square = Ball(v).square_sum()
        if self._metric is None:
            return square
        D = self._metric.D
        squares: Ball = found.sums["squares"]
        return kept(D) * square + D * (squares * inverse(self._metric.total))

    def _price(self, found: Tally, factors: tuple[float, float]) -> Ball:
        """Twice the quadratic term of the dual objective, for the multipliers made feasible."""
        if self._metric is None or self._space is None:
            pulled: Ball = found.sums["pulled"]
            return pulled.square_sum()
        pull = found.sums["pulled"].mid - self._moved * float(found.sums["left"].mid)
        v = self._space.solve(pull)
        mean = self._all("outputs", v).sums["outputs"] * inverse(self._metric.total)
        priced = self._all("price", v, mean, factors, self._metric)
        by_spread = np.inf
        if self._metric.D == 1.0:
            by_spread = left_by_spread(priced.sums["spread"], self._metric.total)
        return self._space.price(v, self._energy(v, priced), priced.sums["left"], by_spread)
