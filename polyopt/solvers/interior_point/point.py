"""The point of the interior-point method: where it stands, and how it takes a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.families.intercept import shrink_of
from polyopt.certificates.certificate import relative_gap
from polyopt.solvers.interior_point.crew import total
from polyopt.solvers.interior_point.system import System

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from formulations.families.intercept import Reaches
    from polyopt.solvers.interior_point.problem import Problem

    Vector = NDArray[np.float64]

__all__ = ["Point", "Survey", "largest_reaches"]

_FIRST_SHARE = 0.9  # of the way to its end that a sample goes in the first step
_SHARE = 0.99  # of the way to the first end that all go in later ones
_CORRECTIONS = 2  # centrality corrections at most, ...
_FULL = 0.95  # ... for steps shorter than this
_REACH = 0.3  # by how much a correction is to lengthen the step, ...
_GAIN = 0.03  # ... and by how much it has to
_ENOUGH = 0.05  # share of the gap asked for under which mu is not brought
_NEAR = 0.1  # of the objective of a point that is begun at: the gap that its products make at least
_EASE = 1e-9  # dual proximal term, over the mean cost: no weight in D is above its inverse, ...
_MORE = 3.0  # ... which falls by this where rounding, times such weights, is all that is left


@dataclass(frozen=True)
class Survey:
    """What is known about a point before the next step.

    objective: primal objective, scaled back within the bounds.
    bound: dual objective of the multipliers once repaired; -inf where that is not possible.
    violation: the largest residual of the optimality conditions, relative as in a certificate.
    mu: mean product of multiplier and slack, per unit of cost.
    share: what the repair of Σ β_i = 0 takes of each multiplier's room.
    M (m+1, m+1): the normal matrix.
    left (m+1,): X'β − Rw, and Σ β_i.
    push (m+1,): what products of zero, aimed at, would pull besides.
    """

    objective: float
    bound: float
    violation: float
    mu: float
    share: float
    M: Vector
    left: Vector
    push: Vector

    @property
    def gap(self) -> float:
        """Relative duality gap; infinite where there is no bound."""
        return relative_gap(self.objective, self.bound) if np.isfinite(self.bound) else np.inf


class Point:
    """A primal-dual point with all products positive.

    problem: what is to be solved.
    tol: the relative gap that is asked for.
    begins: whether the blocks are to begin; else they go on from a log.
    start (m+1,): (w, b) to begin at, where no row is without slack and b is no free intercept.

    v (m+1,): (w, b).
    """

    def __init__(self, problem: Problem, tol: float, *, begins: bool = True, start: Vector | None = None):
        self._problem, self._tol, self._crew = problem, tol, problem.crew
        facts = problem.facts
        mean = facts.costs / (problem.soft * facts.n)
        self._measure = 2.0 * facts.costs + facts.bounds * mean
        self._ease, self._residual, self._is_first, self._size = _EASE / mean, np.inf, True, 0.0
        self.v = np.zeros(facts.m + 1)
        if begins and start is not None:
            self.v, self._is_first = start.copy(), False
            self._crew.tell("begin_at", mean, self._ease, start, self._closeness(start))
        elif begins:
            self._crew.tell("begin", mean, self._ease)

    def _closeness(self, start: Vector) -> float:
        """The products to begin with at a point, by the gap to the best multiple of its central multipliers.

        These are of a gap of `_NEAR`, were the point central itself; the more is missing, the larger the
        products are to be.
        """
        regulariser = self._problem.regulariser
        cost = float(total(self._crew.ask("costs_at", start, 1.0)))
        value = regulariser.energy(regulariser.weights(start)) + cost
        unit = value / self._measure
        found = self._crew.ask("pull_at", start, _NEAR * unit)
        gain, pulled = float(total([each[0] for each in found])), total([each[1] for each in found])
        paid = regulariser.conjugate(regulariser.weights(pulled))
        share = min(1.0, 0.5 * gain / max(paid, np.finfo(float).tiny))  # of the multipliers that is best
        return max(_NEAR, 1.0 - share * (gain - share * paid) / value) * unit

    def known(self) -> dict[str, Any]:
        """What the point would go on from, beside the crew's log."""
        return {
            "v": self.v, "ease": self._ease, "residual": self._residual, "is_first": self._is_first,
            "size": self._size,
        }  # fmt: skip

    def recall(self, known: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.v, self._ease, self._residual = known["v"], known["ease"], known["residual"]
        self._is_first, self._size = known["is_first"], known["size"]

    def keep(self, survey: Survey) -> None:
        """Have the multipliers kept, repaired to Σ β_i = 0."""
        self._crew.tell("keep", survey.share)

    # -- where it stands -----------------------------------------------------------------------

    def survey(self) -> Survey:
        """Both objectives, the residuals, and the normal matrix for the next step."""
        regulariser = self._problem.regulariser
        self._crew.tell("aim", 0.0, 0.0)
        found = self._crew.ask("survey")
        sums = total([[f.gain, f.fall, f.products, f.size, f.cost] for f in found])
        gain, fall, products, size, cost = (float(each) for each in sums)
        most = np.max([[f.largest, f.multiplier, f.violation] for f in found], axis=0)
        largest, multiplier, violation = (float(each) for each in most)
        M, pulled = total([f.M for f in found]), total([f.pulled for f in found])
        w = regulariser.weights(self.v)
        gradient = regulariser.gradient(w)
        shrink = shrink_of(largest_reaches(f.reaches for f in found))
        if shrink < 1.0:
            cost = float(total(self._crew.ask("costs", shrink)))
        objective = shrink**2 * regulariser.energy(w) + cost
        share, can_repair = 0.0, True
        if regulariser.is_free:
            imbalance, room = float(pulled[-1, 0]), float(pulled[-1, 1])
            share = imbalance / max(room, abs(imbalance), np.finfo(float).tiny)
            can_repair = abs(imbalance) <= room
        c = regulariser.weights(pulled[:, 0] - share * pulled[:, 1])
        bound = gain - share * fall - regulariser.conjugate(c) if can_repair else -np.inf
        residual = float(np.abs(c - gradient).max(initial=0.0))
        residual /= self._scale(M, gradient, c, objective, size)
        survey = Survey(
            objective=objective,
            bound=bound,
            violation=max(violation, residual, largest / max(multiplier, np.finfo(float).tiny)),
            mu=products / self._measure,
            share=share,
            M=M,
            left=pulled[:, 0] - regulariser.widened(gradient),
            push=pulled[:, 2],
        )
        if survey.gap <= self._tol < residual and residual > 0.5 * self._residual:
            self._ease *= _MORE
        self._residual = residual
        return survey

    def _scale(self, M: Vector, gradient: Vector, c: Vector, objective: float, size: float) -> float:
        """What the residual of stationarity is relative to: as in a certificate, or a little less."""
        if not self._size:  # D is in proportion to the costs, or to what is near the margin
            spread = np.sqrt(M.diagonal()[:-1] / M[-1, -1])
            self._size = float((spread + np.abs(self._problem.shift)).max(initial=0.0))
        return max(
            float(np.abs(gradient).max(initial=0.0)),
            float(np.abs(c).max(initial=0.0)),
            3e-9 * self._size * size,
            1e-4 * self._problem.regulariser.unit * float(np.sqrt(2.0 * objective)),
            float(np.finfo(float).tiny),  # samples that are all alike pull nowhere
        )

    # -- how it moves --------------------------------------------------------------------------

    def advance(self, survey: Survey) -> None:
        """A step: Mehrotra's predictor and corrector, then Gondzio's corrections while they lengthen it.

        LinAlgError: the reduced system cannot be factorised.
        """
        system = System(self._problem.regulariser, survey.M)
        if self._is_first:
            self._take_first(system, survey)
            return
        _, length, linear, square = self._turn(system, survey, survey.push)
        length = min(length, 1.0)
        left = survey.mu + (length * linear + length**2 * square) / self._measure
        least = _ENOUGH * self._tol * survey.objective / self._measure
        mu = max(left**3 / max(survey.mu**2, np.finfo(float).tiny), least)
        dv, length = self._aimed(system, survey, mu, 1.0)
        for _ in range(_CORRECTIONS):
            if length >= _FULL:
                break
            self._crew.tell("correct", mu, min(length + _REACH, 1.0))
            better, longer, _, _ = self._turn(system, survey, self._push())
            if longer < length + _GAIN:
                self._crew.tell("back")
                break
            dv, length = better, longer
        length = min(_SHARE * length, 1.0)
        self._crew.tell("move", length)
        self._go(length * dv)

    def _take_first(self, system: System, survey: Survey) -> None:
        """The whole step in w, with each sample going as far as its own ends let it.

        It leaves rows unmet, but it brings w and the multipliers near to where they will be; a common
        step would be the shortest of all.
        """
        dv, _ = self._aimed(system, survey, survey.mu, 0.0)
        self._crew.tell("move_apart", _FIRST_SHARE)
        self._go(dv)
        self._is_first = False

    def _go(self, dv: Vector) -> None:
        self.v = self.v + dv
        self._crew.tell("soften", self._ease)

    def _aimed(self, system: System, survey: Survey, mu: float, second: float) -> tuple[Vector, float]:
        self._crew.tell("aim", mu, second)
        dv, length, _, _ = self._turn(system, survey, self._push())
        return dv, length

    def _push(self) -> Vector:
        return total(self._crew.ask("balance"))

    def _turn(self, system: System, survey: Survey, push: Vector) -> tuple[Vector, float, float, float]:
        """The change of (w, b) for what is aimed at, with what ``passes.direct`` tells of the rest."""
        dv = system.solve(survey.left + push)
        found = self._crew.change("turn", dv)
        linear, square = total([each[1:] for each in found])
        return dv, min(each[0] for each in found), float(linear), float(square)


def largest_reaches(found: Iterable[Reaches]) -> Reaches:
    """How far the outputs of all blocks go.

    found: of each block.
    """
    most: Reaches = {}
    for reaches in found:
        for key, reach in reaches.items():
            most[key] = max(reach, most.get(key, -np.inf))
    return most
