"""Faces of few features, and of small whole numbers: what they need, how they are scored, what is proven.

Both leave the faces of the Convex Polytope Machine independent of each other, given which face answers for
which sample. The searches are in :mod:`polyopt.cpm.few_features` and :mod:`polyopt.cpm.integer`, the
certificates in :mod:`polyopt.cpm.certificate_restricted` and :mod:`polyopt.cpm.certificate_restricted`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.cpm.certificate_restricted import certify_cpm_integer, certify_cpm_subset
from polyopt.cpm.penalised_faces import PricedFaces
from polyopt.polytope import Polytope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.solution import Solution
    from formulations.polytope import Loss
    from polyopt.certificates.certificate import Certificate
    from polyopt.cpm.certificate import Margin

__all__ = ["RestrictedFaces"]

_NUMBERS = ("integers", "scales", "thresholds")  # of a solution, and of a fitted machine


class WholePolytope(Polytope):
    """A polytope of whole numbers, whose rules state every digit: they are the machine itself."""

    def rules(
        self, digits: int = 15, threshold: float = 0.0, max_terms: int | None = None, *,
        inside: str | None = None, outside: str | None = None,
    ) -> str:  # fmt: skip
        """The faces as text; arguments as in :meth:`polyopt.polytope.Polytope.rules`."""
        return super().rules(digits, threshold, max_terms, inside=inside, outside=outside)


class RestrictedFaces(PricedFaces):
    """Base of a classifier whose faces may be priced, of few features, or of whole numbers."""

    solver: str
    loss: Loss
    margin: Margin
    perplexity: float
    feature_scale: float
    max_features: int | None
    integers: int | None
    integers_: NDArray[np.int64]
    scales_: NDArray[np.float64]
    thresholds_: NDArray[np.float64]
    integer_loss_: float

    def _check_restrictions(self) -> None:
        """Refuse parameters that faces of few features, or of whole numbers, cannot have."""
        if self._is_priced and self.max_features is not None:
            raise ValueError(
                "l1, group and signs need max_features=None: a face of few features has no price"
            )
        if self.max_features is not None:
            self._check_independent(f"max_features={self.max_features!r}")
        if self.integers is None:
            return
        asked = f"integers={self.integers!r}"
        self._check_independent(asked)
        if self._is_priced:
            raise ValueError(f"{asked} has no prices or signs of weights: leave out l1, group and signs")
        if self.feature_scale != 1.0:
            raise ValueError(
                f"{asked} counts in the units of X: set feature_scale=1, not {self.feature_scale!r}, and "
                "scale X beforehand"
            )

    def _check_independent(self, asked: str) -> None:
        """Refuse parameters with which the faces are not independent, or another solver."""
        if self.solver not in ("auto", "exact", "dual"):
            raise ValueError(f"{asked} needs solver='exact' or 'dual', not {self.solver!r}")
        if self.loss != "sum" or self.margin != "total":
            raise ValueError(
                f"{asked} needs loss='sum' and margin='total', with which the faces are independent; not "
                f"loss={self.loss!r} with margin={self.margin!r}"
            )
        if self.perplexity > 1:
            raise ValueError(
                f"{asked} has no floor of the perplexity: set perplexity=1, not {self.perplexity!r}"
            )

    def _restricted_certificate(self, X: Any, tol: float) -> Certificate:
        """The certificate with either restriction, for the assignment reached on the samples X."""
        found, asked = self.solution_, self._asked
        names = [f"tree_{k}" for k in range(len(found["W"]))]
        trees = [found.duals[name] for name in names if name in found.duals] or None
        alpha, s = found.duals["margin"], asked["max_features"]
        if asked["integers"] is None:
            return certify_cpm_subset(
                X, self._y, self._costs, W=found["W"], max_features=s, alpha=alpha,
                assignment=self.assignment_, trees=trees, tol=tol,
            )  # fmt: skip
        return certify_cpm_integer(
            X, self._y, self._costs, **{name: found[name] for name in _NUMBERS}, largest=asked["integers"],
            alpha=alpha, assignment=self.assignment_, max_features=s, trees=trees, tol=tol,
        )  # fmt: skip

    def _take_numbers(self, solution: Solution) -> None:
        """The whole numbers of a solution that has them."""
        for name in (*_NUMBERS, "integer_loss"):
            self.__dict__.pop(f"{name}_", None)
        if "integers" in solution.primal:
            self.integers_, self.scales_, self.thresholds_ = (solution[name] for name in _NUMBERS)
            self.integer_loss_ = solution.objective - float(solution.bound or 0.0)

    @property
    def _is_whole(self) -> bool:
        return hasattr(self, "integers_") or super()._is_whole

    def _scores_of_faces(self, X: Any) -> NDArray[np.float64]:
        """δ_k (p_k·x − θ_k), above 0 where the rule p_k·x > θ_k holds, to the last digit."""
        if not hasattr(self, "integers_"):
            return super()._scores_of_faces(X)
        sums = np.asarray(X.astype(np.float64, copy=False) @ self.integers_.T.astype(float))
        return np.asarray(self.scales_ * (sums + -self.thresholds_))

    @property
    def polytope_(self) -> Polytope:
        """The inside as a set, in the units of X; of whole numbers, with these for its coefficients."""
        found = super().polytope_
        if not hasattr(self, "integers_"):
            return found
        numbers, thresholds = self._outward * self.integers_.astype(float), -self._outward * self.thresholds_
        return WholePolytope(numbers, thresholds, found.names, found.spread, found.centre, found.is_closed)
