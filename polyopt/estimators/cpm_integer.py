"""The Convex Polytope Machine of small whole numbers: scores, polytope, parameters, and what is proven.

The rounding is in :mod:`polyopt.outer.cpm.integer`, the certificate in
:mod:`polyopt.certificates.cpm_integer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from polyopt.certificates.cpm_integer import certify_cpm_integer
from polyopt.estimators.cpm_independent import FittedFaces, IndependentFaces, check_independent, trees_of
from polyopt.polytope import Polytope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix
    from polyopt.certificates.certificate import Certificate

__all__ = ["WholePolytope", "check_integers", "integers_certificate", "whole_scores"]


class WholePolytope(Polytope):
    """A polytope of whole numbers, whose rules state every digit: they are the machine itself."""

    def rules(
        self, digits: int = 15, threshold: float = 0.0, max_terms: int | None = None, *,
        inside: str | None = None, outside: str | None = None,
    ) -> str:  # fmt: skip
        """The faces as text; arguments as in :meth:`polyopt.polytope.Polytope.rules`."""
        return super().rules(digits, threshold, max_terms, inside=inside, outside=outside)


class _Asked(IndependentFaces, Protocol):
    """The parameters that whole numbers have to do with."""

    integers: int | None
    feature_scale: float

    @property
    def _is_priced(self) -> bool:
        """Whether weights have a price or a sign."""


def check_integers(machine: _Asked) -> None:
    """Refuse parameters that faces of whole numbers cannot have.

    Parameters
    ----------
    machine : ConvexPolytopeMachine
        The machine.

    Raises
    ------
    ValueError
        A sentence that says which.
    """
    if machine.integers is None:
        return
    asked = f"integers={machine.integers!r}"
    check_independent(machine, asked)
    if machine._is_priced:
        raise ValueError(f"{asked} has no prices or signs of weights: leave out l1, group and signs")
    if machine.feature_scale != 1.0:
        raise ValueError(
            f"{asked} counts in the units of X: set feature_scale=1, not {machine.feature_scale!r}, and "
            "scale X beforehand"
        )


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


def integers_certificate(machine: FittedFaces, tol: float) -> Certificate:
    """The certificate of a fitted machine: what whole numbers have cost at most, for its assignment.

    Parameters
    ----------
    machine : ConvexPolytopeMachine
        Fitted, with its data.
    tol : float
        Relative tolerance.
    """
    found, asked = machine.solution_, machine._asked
    return certify_cpm_integer(
        machine._scaled(machine._X), machine._y, machine._costs, integers=found["integers"],
        scales=found["scales"], thresholds=found["thresholds"], largest=asked["integers"],
        alpha=found.duals["margin"], assignment=machine.assignment_, max_features=asked["max_features"],
        trees=trees_of(found), tol=tol,
    )  # fmt: skip
