"""Descent over faces as a problem of rounds: one step of a method after the other.

The methods of the polyhedral family supply the steps: successive linear programs (PC-SLP), one convex program
for each cell (SPLA1, the exact Polyceptron), expectation and maximisation (PLUME). Where a step cannot raise
the objective, the loop descends; the step that SPLA1's paper takes can, so its runs are patient. All of them
begin from the same random faces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from sklearn.preprocessing import StandardScaler

from formulations.language.solution import Solution, Status
from polyopt.base.parallel import Shipped
from polyopt.linalg.used_features import present_features
from polyopt.optim.rounds import Round
from polyopt.optim.starts import generators_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector

    Faces = NDArray[np.float64]

__all__ = ["DescentProblem", "random_faces"]


class DescentProblem(Shipped, ABC):
    """A problem of :mod:`polyopt.optim.rounds` whose state are faces W (K, m+1), bias last.

    Its objective is never negative.
    """

    unit = "step"

    @abstractmethod
    def value(self, W: Faces) -> float:
        """The objective at W, to be minimised."""

    @abstractmethod
    def step(self, W: Faces, time_limit: float | None) -> Solution:
        """The next point: primal ``W``, multipliers where there are any, its objective by :meth:`value`.

        Its status is of the step: a limit in it ends the run.
        """

    @abstractmethod
    def record(self, W: Faces) -> dict[str, float]:
        """What the history records of W besides the objective, such as the number of faces in use."""

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness for `count` starts."""
        return generators_of(seed, count)

    def judge(self, state: Faces) -> Round[Faces] | None:
        """The faces as a point; None where only faces that a step has made are one."""
        point = Solution(Status.CONVERGED, {"W": state}, {}, self.value(state), None, "start")
        return Round(point, state, self.record(state))

    def round(self, state: Faces, time_limit: float | None) -> Round[Faces]:
        """A step; an objective of 0 is the least there is."""
        point = self.step(state, time_limit)
        W = point["W"]
        return Round(point, W, self.record(W), is_fixed=point.objective == 0.0)


def random_faces(X: Matrix, y: Vector, c: Vector, n_faces: int, rng: np.random.Generator) -> Vector:
    """Faces W (K, m+1) in random directions, one standard deviation from the mean of the positives.

    Their cells are cones around that mean, so that each face is offered the negatives on its side. They
    are drawn for scaled data with weights, so that neither the units of X, nor the order of the samples,
    nor their repetition in place of weight makes a difference. A feature that is 0 in all samples has no
    weight.

    X (n, m): samples.
    y (n,): labels: +1 inside, -1 outside.
    c (n,): weights of the samples, in the mean and the scale as well.
    n_faces: the number K of faces, at least 1.
    rng: source of the directions.
    """
    scale = StandardScaler(with_mean=False).fit(X, sample_weight=c).scale_
    directions = rng.normal(size=(X.shape[1], n_faces))
    directions /= np.linalg.norm(directions, axis=0) * scale[:, None]
    directions[~present_features(X)] = 0.0
    inside = np.where(y > 0, c, 0.0)
    middle = np.asarray(X.T @ inside).ravel() / inside.sum()
    return np.column_stack([directions.T, 1.0 - middle @ directions])
