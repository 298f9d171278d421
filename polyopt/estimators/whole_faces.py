"""What SPLA1, PLUME and the Polyceptron share whose faces may be whole numbers: their parameters.

The rounding is in :mod:`polyopt.outer.whole_faces`, the certificates in
:mod:`polyopt.certificates.whole_faces`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from formulations.arguments import whole_or_none
from polyopt.estimators.declaration import estimator
from polyopt.estimators.few_features import FewFeatures
from polyopt.estimators.parameters import Ruled
from polyopt.estimators.whole_numbers import NUMBERS, NumberedFaces

if TYPE_CHECKING:
    from formulations.solution import Solution
    from polyopt.outer.few_faces import SmoothParts

__all__ = ["WHOLE", "WholeFaces", "WholeNumbers"]

WHOLE: dict[str, list[Any]] = {
    "integers": [Ruled(lambda value: whole_or_none("integers", value))],
}
"""Constraints of this parameter."""


@estimator
class WholeNumbers(NumberedFaces):
    """Base of the classifiers, positive inside, whose faces may be small whole numbers.

    Parameters
    ----------
    integers : int, optional
        M: the coefficients of each face are whole numbers from -M to M times a scale of the face, and its
        threshold a number of few digits, so that its rule reads ``2 age + 3 bmi - 1 chol > 41.5``. Real faces
        are rounded one after the other, the others refitted to what that leaves. What whole numbers have cost
        at most, for what the faces fix, is ``integer_loss_``, and in the certificate. They count in the units
        of X. Without prices or signs; together with `max_features` where there is one; of a machine with
        several solvers with "newton" or "highs".

    Attributes
    ----------
    integers_, scales_, thresholds_ : ndarray of shape (K, m), (K,), (K,)
        With `integers`: the whole numbers, their scales, and the thresholds: a face's score is
        ``scales_ (integers_ x - thresholds_)`` (binary problems).
    integer_loss_ : float
        What whole numbers have cost at most (binary problems).
    """

    _: KW_ONLY
    integers: int | None = None

    def _show(self, solution: Solution) -> None:
        super()._show(solution)
        self._take_numbers(solution)


@estimator
class WholeFaces(WholeNumbers, FewFeatures):
    """Base of those with smooth losses."""

    def _check_few(self) -> None:
        super()._check_few()
        if self.integers is not None:
            self._check_choice(f"integers={self.integers!r}")

    def _round(self, machine: SmoothParts, real: Solution, seed: int) -> Solution:
        """The faces of a solution as whole numbers, where these are asked."""
        if self.integers is None:
            return real
        from polyopt.outer.whole_faces import round_smooth_faces

        settings = self._few_settings(machine)
        left = None if self.time_limit is None else max(self.time_limit - real.solve_time, 0.0)
        return round_smooth_faces(
            machine, real, self.integers, max_features=self.max_features, max_nodes=settings["max_nodes"],
            time_limit=left, seed=seed,
        )  # fmt: skip

    def _numbers(self) -> dict[str, Any]:
        """What the certificates of whole numbers take of a fitted machine."""
        found = self.solution_
        return {
            **{name: found[name] for name in NUMBERS},
            "largest": self._asked["integers"],
            "real": found.duals["real"],
            "max_features": self._asked["max_features"],
        }
