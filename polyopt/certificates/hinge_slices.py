"""What one block of samples has to say for a certificate of a hinge program: slice by slice, in one pass.

A slice is so short that the rounding of its sums is small, and little of the data is copied. See
:mod:`polyopt.certificates.hinge_blocks` for what is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.families import Families
from formulations.polytope import lift
from polyopt.certificates.geometry import LinearGeometry
from polyopt.certificates.hinge_program import HingeProgram
from polyopt.certificates.hinge_residuals import (
    complementarity_violations,
    primal_violations,
    sign_violations,
)
from polyopt.certificates.ray import to_feasible
from polyopt.certificates.rounding import Ball, transposed_product
from polyopt.certificates.sigma_metric import inverse, sizes_in_metric
from polyopt.certificates.tally import Tally, together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix

    Vector = NDArray[np.float64]

__all__ = ["Metric", "Slices"]

_ROWS = 1 << 15


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
        for start in range(0, self._rows.n, _ROWS):
            part = slice(start, start + _ROWS)
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
        """What multipliers made feasible pull beyond D Σ v, with its rounding; see ``SigmaMetric.price``."""

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
