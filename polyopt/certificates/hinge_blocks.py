"""Certificates of hinge programs whose samples are in blocks, wherever those are.

The program, its dual and the claims are those of :mod:`polyopt.certificates.hinge`, by the same functions;
here every sum over the samples is one over blocks, taken in their order. Two rounds do: conditions and what
makes both vectors feasible, then both objectives. The Sigma-SVM takes more, as its metric and the price of
its multipliers are sums over the samples too (:mod:`polyopt.certificates.sigma_geometry`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import real_array, tolerance
from polyopt.certificates.certificate import Certificate, Residual, conclude
from polyopt.certificates.geometry import LinearGeometry
from polyopt.certificates.hinge import BROKEN, NO_RAY
from polyopt.certificates.hinge_program import Balance, HingeProgram, balancing
from polyopt.certificates.hinge_residuals import balance_residual, stationarity
from polyopt.certificates.hinge_slices import Metric
from polyopt.certificates.rounding import ABOVE, Ball
from polyopt.certificates.sigma_metric import SigmaMetric, inverse, kept, left_by_spread
from polyopt.certificates.tally import Tally, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.families import Families

    Vector = NDArray[np.float64]
    Ask = Callable[..., Sequence[Tally]]

__all__ = ["certify_blocks"]


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

    The certificate is that of :func:`polyopt.certificates.hinge.certify_hinge`, but cannot be saved.

    name: name of the program in the certificate.
    ask: takes the name of a method of :class:`~polyopt.certificates.hinge_slices.Slices` with its arguments,
        multipliers left out, and returns the answers of all blocks, in order.
    rows: the families of rows of some samples: their names, kinks and kinds are those of all.
    v, b: the normal vector w (m,), and the intercept for samples as they are.
    centre (m,): the point that dense samples are taken from; None for sparse ones.
    D: the Sigma-SVM's share, within [0, 1].
    intercept: whether the intercept is free; else v (m+1,) has it as its last weight, b is 0, and `centre`
        None.
    tol: relative tolerance of the gap and of every residual.
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
        """What the dual objective pays, twice, for the multipliers made feasible."""
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
