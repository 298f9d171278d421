"""Faces of two classes: their numbers, scores, assignment and objective.

Each class has faces, or one zero face, whose score is 0. The log-odds of class +1 at x are the best score of
its faces less the best of the other class; :mod:`formulations.logistic_polytopes` has the programs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.arguments import whole
from formulations.language.recovery import as_costs, as_data
from formulations.language.types import Array, Matrix, MatrixLike
from formulations.polyhedral import pull

Assignment = NDArray[np.int64]


BIAS = 0.01
"""Default of η/ρ, the ridge on the biases relative to that on the weights."""


@dataclass(frozen=True)
class Owners:
    """Numbers of faces of the two classes: first those of class −1, then those of class +1.

    A class without faces has one zero face.
    """

    minus: int
    plus: int

    def __post_init__(self) -> None:
        whole("minus", self.minus, 0)
        whole("plus", self.plus, 0)
        if not self.minus + self.plus:
            raise ValueError("n_faces must give at least one class a face, not 0 to both")

    @property
    def count(self) -> int:
        """K, the number of all faces, zero faces included."""
        return len(self.classes)

    @property
    def first(self) -> int:
        """The number of faces of class −1, its zero face included."""
        return max(self.minus, 1)

    @property
    def classes(self) -> Array:
        """The class (K,) of every face, -1 or +1."""
        return np.repeat([-1.0, 1.0], [max(self.minus, 1), max(self.plus, 1)])

    @property
    def free(self) -> NDArray[np.bool_]:
        """Mask (K,) of the faces that are not zero faces."""
        return np.asarray(np.where(self.classes < 0, self.minus > 0, self.plus > 0))

    def support(self, m: int, chosen: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Return S (K, m): True for the weights that may differ from 0, by default all but zero faces'."""
        free = np.broadcast_to(self.free[:, None], (self.count, m))
        if chosen is None:
            return free
        given = np.asarray(chosen)
        if given.shape != free.shape or given.dtype != bool:
            raise ValueError(
                f"support must be of bool and of shape {free.shape}, a number for every weight, "
                f"not {given.dtype} of shape {given.shape}"
            )
        return np.asarray(free & given)

    def ways(self, m: int, signs: ArrayLike | None = None) -> Array:
        """Return the sign (K, m) required of each weight, or 0, for signs σ of the log-odds.

        It is σ_j for a face of class +1, −σ_j for one of class −1.
        """
        if signs is None:
            return np.zeros((self.count, m))
        sigma = FacePenalty.of(m, signs=signs).signs
        return np.asarray(np.where(self.free[:, None], self.classes[:, None] * sigma, 0.0))

    def others(self, y: Array) -> NDArray[np.bool_]:
        """Return O (n, K): True for the faces of the other class than the sample."""
        return np.asarray(y[:, None] * self.classes < 0)

    def assignment_matrix(self, y: Array, assignment: ArrayLike) -> Array:
        """Return Z (n, K): 1 if the sample is assigned to the face."""
        given = np.asarray(assignment)
        is_whole = np.issubdtype(given.dtype, np.number) and np.isrealobj(given) and (given % 1 == 0).all()
        if given.shape != y.shape or not is_whole:
            raise ValueError(f"assignment must be integers of shape {y.shape}, the indices of faces")
        z = given.astype(np.int64)
        if not (len(z) == 0 or (z.min() >= 0 and z.max() < self.count)):
            raise ValueError(f"assignment must be from 0 to {self.count - 1}, not {z.min()} to {z.max()}")
        Z: Array = np.eye(self.count)[z]
        if (Z * self.others(y)).any():
            at = int(np.argmax((Z * self.others(y)).any(axis=1)))
            raise ValueError(f"assignment gives sample {at} face {z[at]}, which is of the other class")
        return Z


def scores(X: Matrix, w: Array, b: Array) -> Array:
    """Return w_k·x_i + b_k (n, K)."""
    return np.asarray(X @ w.T) + b


def natural_assignment(y: Array, s: Array, owners: Owners) -> Assignment:
    """Return each sample's best face of its class (n,), for the scores s (n, K)."""
    return np.asarray(np.where(owners.others(y), -np.inf, s).argmax(axis=1))


def shortfall(y: Array, s: Array, owners: Owners, assignment: Assignment | None = None) -> Array:
    """Return ξ (n,): the best score of the other class less that of the sample's face (or best face)."""
    others = owners.others(y)
    score = np.where(others, -np.inf, s).max(axis=1)
    if assignment is not None:
        score = np.take_along_axis(s, assignment[:, None], axis=1)[:, 0]
    return np.asarray(np.where(others, s, -np.inf).max(axis=1) - score)


def value(
    X: MatrixLike, y: ArrayLike, w: Array, b: Array, owners: Owners, C: ArrayLike = 1.0, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, l1: float = 0.0, group: float = 0.0,
    groups: ArrayLike | None = None, assignment: Assignment | None = None,
) -> float:  # fmt: skip
    """Return the objective at faces w (K, m), b (K,), for the best assignment unless one is given."""
    X, y = as_data(X, y)
    xi = shortfall(y, scores(X, w, b), owners, assignment)
    penalty = FacePenalty.of(X.shape[1], l1=l1, group=group, groups=groups)
    regulariser = 0.5 * ridge * (w**2).sum() + 0.5 * bias_ridge * (b**2).sum()
    regulariser += penalty.value(np.column_stack([w, b]))
    return float(as_costs(C, len(y)) @ np.logaddexp(0.0, xi) + regulariser)


def pulls(X: Matrix, y: Array, owners: Owners, assignment: ArrayLike, alpha: Array) -> tuple[Array, Array]:
    """Return q (K, m) and r (K,) of the dual from the multipliers alpha (n, K)."""
    net = owners.assignment_matrix(y, assignment) * alpha.sum(axis=1, keepdims=True) - alpha
    lifted = pull(X, net * owners.free)
    return lifted[:, :-1], lifted[:, -1]
