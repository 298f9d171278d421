"""The Convex Polytope Machine from an assignment that a person has: alternation from there, or held there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from polyopt.estimators.cpm import ConvexPolytopeMachine
    from polyopt.estimators.given import SamplesLike

Machine = TypeVar("Machine", bound="ConvexPolytopeMachine")

__all__ = ["Beginning", "fit_from"]


@dataclass(frozen=True)
class Beginning:
    """Where a fit begins.

    Attributes
    ----------
    assignment : ndarray of int, shape (n,)
        Face of each sample that was given.
    is_held : bool
        Whether it stays there.
    """

    assignment: NDArray[np.int64]
    is_held: bool

    def of(self, rows: NDArray[np.int64], y: NDArray[Any], n_faces: int) -> NDArray[np.int64]:
        """The faces of the samples `rows`, -1 at those inside (y = -1).

        Raises
        ------
        ValueError
            A sample outside has no face, or one that there is not.
        """
        own = np.where(y > 0, self.assignment[rows], -1)
        wrong = np.flatnonzero((y > 0) & ((own < 0) | (own >= n_faces)))
        if len(wrong):
            first = int(wrong[0])
            raise ValueError(
                f"assignment must have a face from 0 to {n_faces - 1} for every sample outside; sample "
                f"{int(rows[first])} has {int(own[first])}"
            )
        return own


def fit_from(
    machine: Machine, X: SamplesLike, y: ArrayLike, assignment: ArrayLike, hold: bool,
    sample_weight: ArrayLike | None,
) -> Machine:  # fmt: skip
    """What :meth:`polyopt.ConvexPolytopeMachine.fit_from` does.

    Parameters
    ----------
    machine : ConvexPolytopeMachine
        The machine.
    X, y, assignment, hold, sample_weight
        As of that method.

    Raises
    ------
    ValueError
        As of that method.
    """
    if not isinstance(hold, bool | np.bool_):
        raise ValueError(f"hold must be True or False, not {hold!r}")
    if machine.solver not in ("auto", "exact"):
        raise ValueError(f"fit_from needs solver='auto' or 'exact', not {machine.solver!r}")
    special = {
        "double_sided": machine.double_sided, "max_features": machine.max_features is not None,
        "integers": machine.integers is not None, "l1, group or signs": machine._is_priced,
        "perplexity": machine.perplexity > 1, "calibration": machine.calibration is not None,
    }  # fmt: skip
    if wrong := [name for name, is_set in special.items() if is_set]:
        raise ValueError(f"fit_from is of the plain machine: leave {wrong[0]} at its default")
    faces = np.asarray(assignment)
    if faces.dtype.kind not in "iu":
        raise ValueError(f"assignment must be of whole numbers, not of {faces.dtype}")
    if faces.shape != np.shape(y):
        raise ValueError(f"assignment must be of shape {np.shape(y)}, as y is, not {faces.shape}")
    if len(np.unique(np.asarray(y))) > 2:
        raise ValueError("fit_from needs two classes: of more, each pair has an assignment of its own")
    machine._beginning = Beginning(faces.astype(np.int64), bool(hold))
    try:
        return machine.fit(X, y, sample_weight)
    finally:
        machine._beginning = None
