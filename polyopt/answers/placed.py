"""Samples that stay where they are until faces are given: a matrix as a machine takes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from polyopt.answers.cells import cells_of_matrix, is_readable
from polyopt.answers.plan import NotANumberError, plan_of_faces

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.matrices import Array
    from polyopt.answers.cells import Cells
    from polyopt.answers.form import Form
    from polyopt.answers.plan import Plan

__all__ = ["Placed", "PlacedMatrix"]

_FEW_CELLS = 1 << 15  # samples times faces below which a product is quicker than the loops' start
_MANY_WEIGHTS = 1 << 9  # of all faces, from which on a product by BLAS is as quick for a row


class Decides(Protocol):
    """A machine with faces."""

    def _decision(self) -> tuple[Array, Array, Form]:
        """All faces that decide, (K, m) and (K,), and how their outputs become a score."""


class Placed(ABC):
    """Samples for which machines can be asked that have not looked at them."""

    @abstractmethod
    def scores(self, machine: Decides) -> Array:
        """Scores (n,) by the machine's faces."""

    @abstractmethod
    def outputs(self, machine: Decides) -> Array:
        """Outputs (n, K) of its faces."""


class PlacedMatrix(Placed):
    """A matrix whose entries have not been looked at.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        The matrix, readable as it is.
    refuse : callable
        Raises the error for a matrix that has NaN or infinity.
    """

    def __init__(self, X: NDArray[Any], refuse: Callable[[], object]):
        self._X, self._refuse = X, refuse

    @staticmethod
    def is_worth(X: NDArray[Any], n_faces: int, n_weights: int) -> bool:
        """Whether a pass over a matrix is quicker than a product with faces that have so many weights."""
        return len(X) * n_faces >= _FEW_CELLS and n_weights <= _MANY_WEIGHTS and is_readable(X)

    def scores(self, machine: Decides) -> Array:
        """Scores (n,) by the machine's faces."""
        return self._told(lambda plan, cells: plan.scores(cells), machine)

    def outputs(self, machine: Decides) -> Array:
        """Outputs (n, K) of its faces."""
        return self._told(lambda plan, cells: plan.outputs(cells), machine)

    def _told(self, call: Callable[[Plan, Cells], Array], machine: Decides) -> Array:
        plan = plan_of_faces(*machine._decision())
        try:
            return call(plan, cells_of_matrix(self._X, plan.places))
        except NotANumberError:
            self._refuse()
            raise
