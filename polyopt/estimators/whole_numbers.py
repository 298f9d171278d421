"""Faces of small whole numbers, as every machine with faces answers by them: scores and polytope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.estimators.faces import FaceClassifier
from polyopt.polytope import Polytope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix
    from formulations.solution import Solution

__all__ = ["NUMBERS", "NumberedFaces", "WholePolytope", "whole_scores"]

NUMBERS = ("integers", "scales", "thresholds")  # of a solution, and of a fitted machine


class WholePolytope(Polytope):
    """A polytope of whole numbers, whose rules state every digit: they are the machine itself."""

    def rules(
        self, digits: int = 15, threshold: float = 0.0, max_terms: int | None = None, *,
        inside: str | None = None, outside: str | None = None,
    ) -> str:  # fmt: skip
        """The faces as text; arguments as in :meth:`polyopt.polytope.Polytope.rules`."""
        return super().rules(digits, threshold, max_terms, inside=inside, outside=outside)


def whole_scores(
    X: Matrix, integers: NDArray[np.int64], scales: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """δ_k (p_k·x − θ_k), shape (t, K): above 0 where the rule p_k·x > θ_k holds, to the last digit.

    Parameters
    ----------
    X : ndarray or CSR of shape (t, m)
        Samples.
    integers : ndarray of int, shape (K, m)
        p.
    scales, thresholds : ndarray of shape (K,)
        δ and θ.
    """
    sums = np.asarray(X.astype(np.float64, copy=False) @ integers.T.astype(float))
    return np.asarray(scales * (sums + -thresholds))


class NumberedFaces(FaceClassifier):
    """Base of the classifiers whose faces may be whole numbers; without these it changes nothing."""

    integers_: NDArray[np.int64]
    scales_: NDArray[np.float64]
    thresholds_: NDArray[np.float64]
    integer_loss_: float

    def _take_numbers(self, solution: Solution) -> None:
        """The whole numbers of a solution that has them."""
        for name in (*NUMBERS, "integer_loss"):
            self.__dict__.pop(f"{name}_", None)
        if "integers" in solution.primal:
            self.integers_, self.scales_, self.thresholds_ = (solution[name] for name in NUMBERS)
            self.integer_loss_ = solution.objective - float(solution.bound or 0.0)

    def _scores_of_faces(self, X: Any) -> NDArray[np.float64]:
        if hasattr(self, "integers_"):
            return whole_scores(X, self.integers_, self.scales_, self.thresholds_)
        return super()._scores_of_faces(X)

    @property
    def polytope_(self) -> Polytope:
        """The inside as a set, in the units of X; of whole numbers, with these for its coefficients."""
        found = super().polytope_
        if not hasattr(self, "integers_"):
            return found
        numbers, thresholds = self._outward * self.integers_.astype(float), -self._outward * self.thresholds_
        return WholePolytope(numbers, thresholds, found.names, found.spread, found.centre, found.is_closed)
