"""Faces of two classes: whose they are, what they say of samples, and what they cost.

Each class has faces, or one face at rest, whose score is 0. The log-odds of class +1 at x are the best score
of its faces less the best of the others'; :mod:`formulations.logistic_polytopes` has the programs.
"""

from __future__ import annotations

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
"""η over ρ where nothing else is said: what the square of a bias costs, next to that of a weight."""


@dataclass(frozen=True)
class Owners:
    """Numbers of faces of the two classes: first those of class −1, then those of class +1.

    A class without faces of its own has one face of zeros.
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
        """K, the faces in all, those at rest among them."""
        return len(self.classes)

    @property
    def first(self) -> int:
        """The faces of class −1, or its face at rest."""
        return max(self.minus, 1)

    @property
    def classes(self) -> Array:
        """The class (K,) of every face, -1 or +1."""
        return np.repeat([-1.0, 1.0], [max(self.minus, 1), max(self.plus, 1)])

    @property
    def free(self) -> NDArray[np.bool_]:
        """Mask of the faces (K,) that are not at rest."""
        return np.asarray(np.where(self.classes < 0, self.minus > 0, self.plus > 0))

    def support(self, m: int, chosen: ArrayLike | None = None) -> NDArray[np.bool_]:
        """S (K, m): which weights may differ from 0, those chosen (K, m) of faces that are not at rest."""
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
        """Return the sign (K, m) that each weight keeps, 0 where it is free, for the signs of the log-odds.

        A face of class +1 keeps the sign σ_j of a feature, one of class −1 the other one.
        """
        if signs is None:
            return np.zeros((self.count, m))
        kept = FacePenalty.of(m, signs=signs).signs
        return np.asarray(np.where(self.free[:, None], self.classes[:, None] * kept, 0.0))

    def others(self, y: Array) -> NDArray[np.bool_]:
        """O (n, K): which faces are of the other class than a sample."""
        return np.asarray(y[:, None] * self.classes < 0)

    def assignment_matrix(self, y: Array, assignment: ArrayLike) -> Array:
        """Return Z (n, K): 1 if the sample is assigned to the face."""
        given = np.asarray(assignment)
        is_whole = np.issubdtype(given.dtype, np.number) and np.isrealobj(given) and (given % 1 == 0).all()
        if given.shape != y.shape or not is_whole:
            raise ValueError(f"assignment must be integers of shape {y.shape}, the numbers of faces")
        z = given.astype(np.int64)
        if not (len(z) == 0 or (z.min() >= 0 and z.max() < self.count)):
            raise ValueError(f"assignment must be from 0 to {self.count - 1}, not {z.min()} to {z.max()}")
        Z: Array = np.eye(self.count)[z]
        if (Z * self.others(y)).any():
            at = int(np.argmax((Z * self.others(y)).any(axis=1)))
            raise ValueError(f"assignment gives sample {at} face {z[at]}, which is of the other class")
        return Z


def scores(X: Matrix, w: Array, b: Array) -> Array:
    """w_k·x_i + b_k, an array of shape (n, K)."""
    return np.asarray(X @ w.T) + b


def natural_assignment(y: Array, s: Array, owners: Owners) -> Assignment:
    """Return each sample's best face of its class (n,), for the scores s (n, K)."""
    return np.asarray(np.where(owners.others(y), -np.inf, s).argmax(axis=1))


def shortfall(y: Array, s: Array, owners: Owners, assignment: Assignment | None = None) -> Array:
    """ξ (n,): the best score of the other class less that of the sample's own face, by default its best."""
    others = owners.others(y)
    own = np.where(others, -np.inf, s).max(axis=1)
    if assignment is not None:
        own = np.take_along_axis(s, assignment[:, None], axis=1)[:, 0]
    return np.asarray(np.where(others, s, -np.inf).max(axis=1) - own)


def value(
    X: MatrixLike, y: ArrayLike, w: Array, b: Array, owners: Owners, C: ArrayLike = 1.0, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, l1: float = 0.0, group: float = 0.0,
    groups: ArrayLike | None = None, assignment: Assignment | None = None,
) -> float:  # fmt: skip
    """Return the objective at faces w (K, m), b (K,), for the best assignment unless one is given."""
    X, y = as_data(X, y)
    xi = shortfall(y, scores(X, w, b), owners, assignment)
    penalty = FacePenalty.of(X.shape[1], l1=l1, group=group, groups=groups)
    paid = 0.5 * ridge * (w**2).sum() + 0.5 * bias_ridge * (b**2).sum()
    paid += penalty.value(np.column_stack([w, b]))
    return float(as_costs(C, len(y)) @ np.logaddexp(0.0, xi) + paid)


def shrunk(
    q: Array, l1: float, ways: ArrayLike = 0.0, group: float = 0.0, groups: ArrayLike | None = None
) -> Array:
    """Return every entry nearer to 0 by `l1`, and no further; 0 where `ways` has the other sign.

    Then every group of features over all faces is shorter by `group`, or 0.
    """
    up, down = np.maximum(q - l1, 0.0), np.maximum(-q - l1, 0.0)
    cut = np.where(np.asarray(ways) < 0, 0.0, up) - np.where(np.asarray(ways) > 0, 0.0, down)
    if group == 0.0:
        return cut
    shares = FacePenalty.of(q.shape[1], group=group, groups=groups).shares
    return np.asarray(cut * shares(np.column_stack([cut, np.zeros(len(cut))])))


def pulls(X: Matrix, y: Array, owners: Owners, assignment: ArrayLike, alpha: Array) -> tuple[Array, Array]:
    """Return the pulls q (K, m) at the weights and r (K,) at the biases, of multipliers alpha (n, K)."""
    net = owners.assignment_matrix(y, assignment) * alpha.sum(axis=1, keepdims=True) - alpha
    pulled = pull(X, net * owners.free)
    return pulled[:, :-1], pulled[:, -1]
