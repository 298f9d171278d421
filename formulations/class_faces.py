"""Faces of two classes: their numbers, scores, assignment and objective.

A face k is an affine function, with the score s_ik = w_k·x_i + b_k at sample i. Each class has faces, or one
zero face, whose score is always 0. The log-odds of class +1 at x are the largest score of its faces less the
largest of the other class's faces. The objective, which :mod:`formulations.logistic_polytopes` minimises for
a fixed assignment of each sample to a face of its class, is

    Σ_i C_i ln(1 + exp ξ_i) + ρ/2 Σ_k ‖w_k‖² + η/2 Σ_k b_k² + penalties on w,

where ξ_i is the largest score of the other class less the score of sample i's assigned face.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.arguments import whole
from formulations.language.recovery import as_costs, as_data
from formulations.language.types import Array, Matrix, MatrixLike
from formulations.polyhedral import pull
from formulations.polytope import check_assignment

Assignment = NDArray[np.int64]  # (n,): the face of each sample

BIAS_RIDGE = 0.01  # default of η/ρ, the ridge on the biases relative to that on the weights


@dataclass(frozen=True)
class Owners:
    """The classes that own the faces: first come the faces of class −1, then those of class +1."""

    minus: int  # faces of class −1; if 0, the class has one zero face
    plus: int  # faces of class +1, likewise

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
    def count_minus(self) -> int:
        """The number of faces of class −1, its zero face included."""
        return max(self.minus, 1)

    @property
    def classes(self) -> Array:
        """The class (K,) of every face, -1 or +1."""
        return np.repeat([-1.0, 1.0], [self.count_minus, max(self.plus, 1)])

    @property
    def free(self) -> NDArray[np.bool_]:
        """Mask (K,) of the faces that are not zero faces."""
        return np.asarray(np.where(self.classes < 0, self.minus > 0, self.plus > 0))

    def support(self, m: int, chosen: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Return S (K, m): True for weights that may differ from 0: of nonzero faces, and in `chosen`."""
        free = np.broadcast_to(self.free[:, None], (self.count, m))
        if chosen is None:
            return free
        mask = np.asarray(chosen)
        if mask.shape != free.shape or mask.dtype != bool:
            raise ValueError(
                f"support must be of bool and of shape {free.shape}, an entry for every weight, "
                f"not {mask.dtype} of shape {mask.shape}"
            )
        return np.asarray(free & mask)

    def required_signs(self, signs: NDArray[np.int64]) -> Array:
        """Return the sign (K, m) required of each weight, or 0, for signs σ (m,).

        σ_j = +1 requires that the log-odds do not decrease with feature j, −1 that they do not increase. The
        weights of class +1 then need the sign σ_j, those of class −1 the sign −σ_j.
        """
        return np.asarray(np.where(self.free[:, None], self.classes[:, None] * signs, 0.0))

    def other_class(self, y: Array) -> NDArray[np.bool_]:
        """Return O (n, K): True if the face is not of the sample's class."""
        return np.asarray(y[:, None] * self.classes < 0)

    def assignment_matrix(self, y: Array, assignment: ArrayLike) -> Array:
        """Return Z (n, K): 1 if the sample is assigned to the face."""
        z = check_assignment(np.ones_like(y), self.count, assignment, "sample")
        Z: Array = np.eye(self.count)[z]
        is_invalid = (Z * self.other_class(y)).any(axis=1)
        if is_invalid.any():
            i = int(np.argmax(is_invalid))
            raise ValueError(f"assignment gives sample {i} face {z[i]}, which is of the other class")
        return Z


def scores(X: Matrix, w: Array, b: Array) -> Array:
    """Return s (n, K), s_ik = w_k·x_i + b_k, for weights w (K, m) and biases b (K,)."""
    return np.asarray(X @ w.T) + b


def natural_assignment(y: Array, s: Array, owners: Owners) -> Assignment:
    """Return the face (n,) with the largest score s (n, K), among those of each sample's class."""
    return np.asarray(np.where(owners.other_class(y), -np.inf, s).argmax(axis=1))


def shortfall(y: Array, s: Array, owners: Owners, assignment: Assignment | None = None) -> Array:
    """Return ξ (n,) of the objective; by default for the natural assignment."""
    is_other = owners.other_class(y)
    score = np.where(is_other, -np.inf, s).max(axis=1)
    if assignment is not None:
        score = np.take_along_axis(s, assignment[:, None], axis=1)[:, 0]
    return np.asarray(np.where(is_other, s, -np.inf).max(axis=1) - score)


def value(
    X: MatrixLike, y: ArrayLike, w: Array, b: Array, owners: Owners, C: ArrayLike = 1.0, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, penalty: FacePenalty | None = None,
    assignment: Assignment | None = None,
) -> float:  # fmt: skip
    """Return the objective at faces w (K, m), b (K,) for ρ = `ridge`, η = `bias_ridge` and a penalty.

    By default the natural assignment is used.
    """
    X, y = as_data(X, y)
    xi = shortfall(y, scores(X, w, b), owners, assignment)
    regulariser = 0.5 * ridge * (w**2).sum() + 0.5 * bias_ridge * (b**2).sum()
    if penalty is not None:
        regulariser += penalty.value(np.column_stack([w, b]))
    return float(as_costs(C, len(y)) @ np.logaddexp(0.0, xi) + regulariser)


def loss_gradients(
    X: Matrix, y: Array, owners: Owners, assignment: ArrayLike, alpha: Array
) -> tuple[Array, Array]:
    """Return q (K, m) and r (K,), the gradients of the loss in w and b with their signs changed.

    `alpha` (n, K) has the multipliers: α_ik is the derivative of sample i's loss with respect to the score of
    face k of the other class, and 0 for a face of its own class. With Z of :meth:`Owners.assignment_matrix`,
    q_k = Σ_i (Z_ik Σ_l α_il − α_ik) x_i, and r_k is the sum of the same brackets.
    """
    brackets = owners.assignment_matrix(y, assignment) * alpha.sum(axis=1, keepdims=True) - alpha
    gradients = pull(X, brackets * owners.free)  # Σ_i of the brackets times (x_i, 1)
    return gradients[:, :-1], gradients[:, -1]
