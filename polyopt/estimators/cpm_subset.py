"""The Convex Polytope Machine with few features a face: what it asks of other parameters, what is proven.

The search is in :mod:`polyopt.outer.cpm.subset`, the certificate in :mod:`polyopt.certificates.cpm_subset`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from polyopt.certificates.cpm_subset import certify_cpm_subset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.polytope import Loss
    from formulations.solution import Solution
    from polyopt.certificates.certificate import Certificate
    from polyopt.certificates.cpm_point import Margin

__all__ = ["FEW_CELLS", "FEW_STARTS", "check_few_features", "few_features_certificate"]

FEW_CELLS = 100_000
"""Entries of the samples times faces up to which ``solver="auto"`` is exact: some seconds."""
FEW_STARTS = 10
"""Random starts by default."""


class _Asked(Protocol):
    """The parameters that few features have to do with."""

    max_features: int | None
    solver: str
    loss: Loss
    margin: Margin
    perplexity: float


class _Fitted(Protocol):
    """A machine that is fitted to data which it holds."""

    solution_: Solution
    _X: Any
    _y: Any
    _costs: Any
    _asked: dict[str, Any]

    @property
    def assignment_(self) -> NDArray[Any]:
        """The face of each sample."""

    def _scaled(self, X: Any) -> Any: ...


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
    asked = f"max_features={machine.max_features!r}"
    if machine.solver not in ("auto", "exact", "dual"):
        raise ValueError(f"{asked} needs solver='exact' or 'dual', not {machine.solver!r}")
    if machine.loss != "sum" or machine.margin != "total":
        raise ValueError(
            f"{asked} needs loss='sum' and margin='total', with which the faces are independent; not "
            f"loss={machine.loss!r} with margin={machine.margin!r}"
        )
    if machine.perplexity > 1:
        raise ValueError(
            f"{asked} has no floor of the perplexity: set perplexity=1, not {machine.perplexity!r}"
        )


def few_features_certificate(machine: _Fitted, tol: float) -> Certificate:
    """The certificate of a fitted machine, for its assignment.

    Parameters
    ----------
    machine : PolytopeLearner
        Fitted, with its data.
    tol : float
        Relative tolerance.
    """
    found, s = machine.solution_, machine._asked["max_features"]
    trees = [found.duals[name] for k in range(len(found["W"])) if (name := f"tree_{k}") in found.duals]
    return certify_cpm_subset(
        machine._scaled(machine._X), machine._y, machine._costs, W=found["W"], max_features=s,
        alpha=found.duals["margin"], assignment=machine.assignment_, trees=trees or None, tol=tol,
    )  # fmt: skip
