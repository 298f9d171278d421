"""The Convex Polytope Machine from an assignment that a person has: alternation from there, or held there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from polyopt.estimators.restricted_faces import RestrictedFaces

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from polyopt.estimators.given import SamplesLike

__all__ = ["AssignedFaces", "Beginning"]


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


class AssignedFaces(RestrictedFaces):
    """Base of a classifier of faces that can begin at an assignment, or hold it."""

    double_sided: bool
    _fit_inputs: ClassVar[tuple[str, ...]] = ("_beginning", "_known")
    _beginning: Beginning | None = None  # of a fit_from, while it is at work
    _is_held = False  # whether the assignment was given, and stays

    def fit_from(
        self, X: SamplesLike, y: ArrayLike, assignment: ArrayLike, *, hold: bool = False,
        sample_weight: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Fit from one assignment, by the explicit programs: alternating from there, or with it held.

        Parameters
        ----------
        X, y, sample_weight
            As of :meth:`fit`, of two classes.
        assignment : array_like of int, shape (n,)
            Face of each sample outside, from 0 to K - 1; the entries of samples inside are ignored.
        hold : bool
            Whether the assignment stays: one convex program, and a certificate of it alone.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            An assignment of other faces, or settings that are not of the plain machine.
        """
        if not isinstance(hold, bool | np.bool_):
            raise ValueError(f"hold must be True or False, not {hold!r}")
        if self.solver not in ("auto", "exact"):
            raise ValueError(f"fit_from needs solver='auto' or 'exact', not {self.solver!r}")
        special = {
            "double_sided": self.double_sided, "max_features": self.max_features is not None,
            "integers": self.integers is not None, "l1, group or signs": self._is_priced,
            "perplexity": self.perplexity > 1, "calibration": getattr(self, "calibration", None) is not None,
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
        self._beginning = Beginning(faces.astype(np.int64), bool(hold))
        try:
            return self.fit(X, y, sample_weight)
        finally:
            del self._beginning
