"""The Convex Polytope Machine with few features a face: what it asks of other parameters, what is proven.

The search is in :mod:`polyopt.outer.cpm.subset`, the certificate in :mod:`polyopt.certificates.cpm_subset`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from polyopt.certificates.cpm_subset import certify_cpm_subset
from polyopt.estimators.cpm_independent import FittedFaces, IndependentFaces, check_independent, trees_of

if TYPE_CHECKING:
    from polyopt.certificates.certificate import Certificate

__all__ = ["FEW_CELLS", "FEW_STARTS", "check_few_features", "few_features_certificate"]

FEW_CELLS = 100_000
"""Entries of the samples times faces up to which ``solver="auto"`` is exact: some seconds."""
FEW_STARTS = 10
"""Random starts by default."""


class _Asked(IndependentFaces, Protocol):
    """The parameters that few features have to do with."""

    max_features: int | None


def check_few_features(machine: _Asked) -> None:
    """Refuse parameters that faces with few features cannot have.

    Parameters
    ----------
    machine : PolytopeLearner
        The machine.

    Raises
    ------
    ValueError
        A sentence that says which.
    """
    if machine.max_features is None:
        return
    check_independent(machine, f"max_features={machine.max_features!r}")


def few_features_certificate(machine: FittedFaces, tol: float) -> Certificate:
    """The certificate of a fitted machine, for its assignment.

    Parameters
    ----------
    machine : PolytopeLearner
        Fitted, with its data.
    tol : float
        Relative tolerance.
    """
    found, s = machine.solution_, machine._asked["max_features"]
    return certify_cpm_subset(
        machine._scaled(machine._X), machine._y, machine._costs, W=found["W"], max_features=s,
        alpha=found.duals["margin"], assignment=machine.assignment_, trees=trees_of(found), tol=tol,
    )  # fmt: skip
