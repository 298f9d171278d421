"""PLUME with at most s features a face, as a machine of :mod:`polyopt.outer.few_faces`.

A step takes the responsibilities, and the M-step at them is one convex program of all faces
(:mod:`formulations.plume_subset`): the gate makes them depend on each other, so that their features are
chosen together. It is never less than the likelihood, and touches it at the faces that the responsibilities
are of. Then the likelihood itself is minimised in the features that were chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import entr

from formulations import mixture
from polyopt.outer.few_faces import Part, SmoothParts
from polyopt.solvers.plume import MixtureLoss
from polyopt.solvers.smooth_subset import SmoothSubset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Array
    from formulations.solution import Solution
    from polyopt.outer.plume import PlumeProblem

__all__ = ["FewPlume"]

_CLOSE = 1e-15  # relative, to which the likelihood is minimised in given features


class FewPlume(SmoothParts):
    """Steps of PLUME with few features a face.

    Parameters
    ----------
    problem : PlumeProblem
        PLUME without a price, with a positive ridge.
    polish : bool
        Whether each step ends with the likelihood itself.
    """

    def __init__(self, problem: PlumeProblem, polish: bool = True):
        self.problem, self.polish = problem, polish
        self.X, self.n_faces, self.ridge = problem.X, problem.n_faces, problem.ridge

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Array:
        """Faces to begin from."""
        return self.problem.start(rng, time_limit)

    def value(self, W: Array) -> float:
        """The penalised negative log-likelihood L(W)."""
        return self.problem.value(W)

    def record(self, W: Array) -> dict[str, float]:
        """What PLUME records."""
        return self.problem.record(W)

    def step(self, W: Array, time_limit: float | None) -> Solution:
        """A step of PLUME without a limit."""
        return self.problem.step(W, time_limit)

    def parts(self, W: Array, s: int) -> list[Part]:
        """The M-step of all faces at the responsibilities of W."""
        own = self.problem
        R = mixture.responsibilities(own.X, own.y, W, own.gamma)
        return [Part(np.arange(len(W)), self._program(R, s, float(own.c @ entr(R).sum(axis=1))))]

    def polished(self, W: Array) -> Array:
        """A stationary point of L in the features of W, and no worse."""
        if not self.polish:
            return W
        program = self._program(None, W.shape[1] - 1)
        found = program.fit(np.flatnonzero(W[:, :-1]), tol=_CLOSE, w=program.vector(W))
        following = program.faces(found.w)
        return following if self.value(following) <= self.value(W) else W

    def _program(self, R: Array | None, s: int, constant: float = 0.0) -> SmoothSubset:
        own = self.problem

        def loss(columns: NDArray[np.int64]) -> MixtureLoss:
            return MixtureLoss(own.X[:, columns], own.y, own.c, R, own.gamma, own.ridge)

        return SmoothSubset(loss, own.X.shape[1], self.n_faces, s, ridge=own.ridge, constant=constant)
