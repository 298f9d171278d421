"""What machines of independent faces share: few features a face, whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.polytope import Loss
    from formulations.solution import Solution
    from polyopt.certificates.cpm_point import Margin

__all__ = ["FittedFaces", "IndependentFaces", "check_independent", "trees_of"]


class IndependentFaces(Protocol):
    """The parameters by which a machine's faces are independent of each other."""

    solver: str
    loss: Loss
    margin: Margin
    perplexity: float


class FittedFaces(Protocol):
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


def check_independent(machine: IndependentFaces, asked: str) -> None:
    """Refuse parameters with which the faces are not independent, or a solver that minimises something else.

    Parameters
    ----------
    machine : ConvexPolytopeMachine
        The machine.
    asked : str
        What needs independent faces, such as ``"integers=3"``.

    Raises
    ------
    ValueError
        A sentence that says which.
    """
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


def trees_of(found: Solution) -> list[NDArray[Any]] | None:
    """The search trees of the faces, in order; None where there are none.

    Parameters
    ----------
    found : Solution
        What the solver found.
    """
    names = (f"tree_{k}" for k in range(len(found["W"])))
    return [found.duals[name] for name in names if name in found.duals] or None
