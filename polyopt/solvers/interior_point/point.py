"""The point of the interior-point method: where it stands, and how it takes a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import relative_gap
from polyopt.solvers.interior_point.passes import (
    State,
    centre,
    condense,
    cost,
    direct,
    step,
    step_apart,
    target,
    weigh,
)
from polyopt.solvers.interior_point.system import System

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.solvers.interior_point.problem import Problem

    Vector = NDArray[np.float64]

__all__ = ["Point", "Survey"]

_FIRST_SHARE = 0.9  # of the way to its end that a sample goes in the first step
_SHARE = 0.99  # of the way to the first end that all go in later ones
_CORRECTIONS = 2  # centrality corrections at most, ...
_FULL = 0.95  # ... for steps shorter than this
_REACH = 0.3  # by how much a correction is to lengthen the step, ...
_GAIN = 0.03  # ... and by how much it has to
_NEAR, _FAR = 0.1, 10.0  # products in this range of the mean are well centred
_ENOUGH = 0.05  # share of the gap asked for under which mu is not brought
_CENTRAL = 0.375  # products at the start, per unit of cost
_EASE = 1e-9  # dual proximal term, over the mean cost: no weight in D is above its inverse, ...
_MORE = 3.0  # ... which falls by this where rounding, times such weights, is all that is left


@dataclass(frozen=True)
class Survey:
    """What is known about a point before the next step.

    Attributes
    ----------
    objective : float
        Primal objective, scaled back within the bounds.
    bound : float
        Dual objective of the multipliers once repaired; -inf where that is not possible.
    violation : float
        The largest residual of the optimality conditions, relative as in a certificate.
    mu : float
        Mean product of multiplier and slack, per unit of cost.
    share : float
        What the repair of Σ β_i = 0 takes of each multiplier's room.
    M : ndarray of shape (m+1, m+1)
        The normal matrix.
    left : ndarray of shape (m+1,)
        X'β − Rw, and Σ β_i.
    """

    objective: float
    bound: float
    violation: float
    mu: float
    share: float
    M: Vector
    left: Vector

    @property
    def gap(self) -> float:
        """Relative duality gap; infinite where there is no bound."""
        return relative_gap(self.objective, self.bound) if np.isfinite(self.bound) else np.inf


class Point:
    """A primal-dual point with all products positive.

    Parameters
    ----------
    problem : Problem
        What is to be solved.
    tol : float
        The relative gap that is asked for.

    Attributes
    ----------
    v : ndarray of shape (m+1,)
        (w, b).
    """

    def __init__(self, problem: Problem, tol: float):
        self._problem, self._tol = problem, tol
        rows, soft, n = problem.rows, problem.soft, problem.samples.n
        hard, caps = len(rows) - soft, np.stack([family.cap for family in rows][:soft])
        sides = np.stack([family.side.astype(np.int8) for family in rows])
        self._mean = float(caps.mean())
        self._measure = 2.0 * float(caps.sum()) + hard * n * self._mean
        self._ease, self._residual, self._is_first = _EASE / self._mean, np.inf, True
        self.v, f = np.zeros(problem.samples.m + 1), np.zeros(n)
        Z, T = np.zeros((2 * soft + hard, n)), np.ones((2 * soft + hard, n))
        # At f = 0 this is central and meets every row.
        for q, family in enumerate(rows):
            if q < soft:
                xi = _central_slack(family.kink)
                share = _CENTRAL / (xi - family.kink)
                Z[2 * q], Z[2 * q + 1] = share * family.cap, (1.0 - share) * family.cap
                T[2 * q], T[2 * q + 1] = xi - family.kink, xi
            else:
                Z[soft + q], T[soft + q] = _CENTRAL * self._mean / -family.kink, -family.kink
                if (there := family.is_there) is not None:
                    Z[soft + q, ~there] = 0.0
                    self._measure -= float((~there).sum()) * self._mean
        self._state = State(sides, rows.kinks, caps, f, self._ease, Z, T)
        self._dZ, self._dT, self._aim = (np.zeros_like(Z) for _ in range(3))
        self._d, self._V, self._h = np.empty(n), np.empty((n, 2)), np.empty((n, 1))
        self._room = np.empty(n), np.empty(n)  # fresh memory at every step would cost more than its passes

    def multipliers(self, survey: Survey) -> Vector:
        """β, repaired to Σ β_i = 0."""
        return self._V[:, 0] - survey.share * self._V[:, 1]

    # -- where it stands -----------------------------------------------------------------------

    def survey(self) -> Survey:
        """Both objectives, the residuals, and the normal matrix for the next step."""
        rows, regulariser = self._problem.rows, self._problem.regulariser
        gain, fall, products, largest, multiplier, violation = weigh(self._state, self._d, self._V)
        M, pulled = self._problem.samples.normal(self._d, self._V)
        w, gradient = self.v[:-1], regulariser.gradient(self.v[:-1])
        shrink = rows.shrink(self._state.f)
        objective = shrink**2 * regulariser.energy(w) + cost(self._state, shrink)
        imbalance, room = pulled[-1]
        share = imbalance / max(room, abs(imbalance), np.finfo(float).tiny)
        c = pulled[:-1, 0] - share * pulled[:-1, 1]
        can_repair = abs(imbalance) <= room
        bound = gain - share * fall - regulariser.conjugate(c) if can_repair else -np.inf
        residual = float(np.abs(c - gradient).max(initial=0.0))
        residual /= self._scale(M, gradient, c, objective)
        found = Survey(
            objective=objective,
            bound=bound,
            violation=max(violation, residual, largest / max(multiplier, np.finfo(float).tiny)),
            mu=products / self._measure,
            share=share,
            M=M,
            left=pulled[:, 0] - np.append(gradient, 0.0),
        )
        if found.gap <= self._tol < residual and residual > 0.5 * self._residual:
            self._ease *= _MORE
            self._state = self._state._replace(ease=self._ease)
        self._residual = residual
        return found

    def _scale(self, M: Vector, gradient: Vector, c: Vector, objective: float) -> float:
        """What the residual of stationarity is relative to: as in a certificate, or a little less."""
        if self._is_first:  # D is in proportion to the costs
            spread = np.sqrt(M.diagonal()[:-1] / M[-1, -1])
            self._size = float((spread + np.abs(self._problem.samples.shift)).max(initial=0.0))
        return max(
            float(np.abs(gradient).max(initial=0.0)),
            float(np.abs(c).max(initial=0.0)),
            3e-9 * self._size * float(np.abs(self._V[:, 0]).sum()),
            1e-4 * self._problem.regulariser.unit * float(np.sqrt(2.0 * objective)),
            float(np.finfo(float).tiny),  # samples that are all alike pull nowhere
        )

    # -- how it moves --------------------------------------------------------------------------

    def advance(self, survey: Survey) -> None:
        """A step: Mehrotra's predictor and corrector, then Gondzio's corrections while they lengthen it.

        Raises
        ------
        LinAlgError
            The reduced system cannot be factorised.
        """
        system = System(self._problem.regulariser, survey.M)
        if self._is_first:
            self._take_first(system, survey)
            return
        self._target(0.0, 0.0)
        _, _, length, linear, square = self._direction(system, survey)
        length = min(length, 1.0)
        left = survey.mu + (length * linear + length**2 * square) / self._measure
        least = _ENOUGH * self._tol * survey.objective / self._measure
        mu = max(left**3 / max(survey.mu**2, np.finfo(float).tiny), least)
        self._target(mu, 1.0)
        dv, df, length, _, _ = self._direction(system, survey)
        for _ in range(_CORRECTIONS):
            if length >= _FULL:
                break
            before, reach = self._aim.copy(), min(length + _REACH, 1.0)
            centre(self._state, self._mean, mu, self._dZ, self._dT, reach, _NEAR, _FAR, self._aim)
            dv2, df2, longer, _, _ = self._direction(system, survey)
            if longer < length + _GAIN:
                self._aim = before
                direct(self._state, self._aim, df, self._dZ, self._dT, self._room[1])
                break
            dv, df, length = dv2, df2, longer
        length = min(_SHARE * length, 1.0)
        step(length, self._state.Z, self._state.T, self._dZ, self._dT)
        self._go(length * dv, length * df)

    def _take_first(self, system: System, survey: Survey) -> None:
        """The whole step in w, with each sample going as far as its own ends let it.

        It leaves rows unmet, but it brings w and the multipliers near to where they will be; a common
        step would be the shortest of all.
        """
        self._target(survey.mu, 0.0)
        dv, df, _, _, _ = self._direction(system, survey)
        step_apart(self._problem.soft, _FIRST_SHARE, self._state.Z, self._state.T, self._dZ, self._dT)
        self._go(dv, df)
        self._is_first = False

    def _go(self, dv: Vector, df: Vector) -> None:
        self.v, self._state = self.v + dv, self._state._replace(f=self._state.f + df)

    def _target(self, mu: float, second: float) -> None:
        target(self._state, self._mean, mu, self._dZ, self._dT, second, self._aim)

    def _direction(self, system: System, survey: Survey) -> tuple[Vector, Vector, float, float, float]:
        """The changes of (w, b) and of f for what is aimed at, with what `direct` tells of the rest."""
        samples = self._problem.samples
        condense(self._state, self._aim, self._h, *self._room)
        dv = system.solve(survey.left + samples.pull(self._h)[:, 0])
        df = samples.scores(dv)
        return dv, df, *direct(self._state, self._aim, df, self._dZ, self._dT, self._room[1])


def _central_slack(kink: float) -> float:
    """The slack xi at f = 0 for which (xi − kink) mu = xi eta = ``_CENTRAL`` cap, where mu + eta = cap."""
    half = 8.0 * kink + 6.0
    root = float(np.sqrt(half**2 - 96.0 * kink))
    return (half + root) / 16.0 if half > 0.0 else 6.0 * kink / (half - root)
