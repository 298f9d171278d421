"""The Convex Polytope Machine of small whole numbers: its parameters, and what is proven.

The rounding is in :mod:`polyopt.outer.cpm.integer`, the certificate in
:mod:`polyopt.certificates.cpm_integer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from polyopt.certificates.cpm_integer import certify_cpm_integer
from polyopt.estimators.cpm_independent import FittedFaces, IndependentFaces, check_independent, trees_of

if TYPE_CHECKING:
    from polyopt.certificates.certificate import Certificate

__all__ = ["check_integers", "integers_certificate"]


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
