"""Parts of the programs of the Convex Polytope Machine, in numpy alone.

The machine has K faces, the rows of W (K, m+1), the bias last. With x̃ = (x, 1) its score is f(x) = max_k
W_k·x̃: the inside of the polytope is f < 0. A positive (y = 1, outside) is assigned to one face, a negative
(y = −1) has all faces. :mod:`formulations.cpm` has the programs and exports these functions as well; solvers
and certificates import them from here, without cvxpy.
"""

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import one_of
from formulations.language.recovery import as_costs, as_data, slacks
from formulations.language.types import Matrix, MatrixLike

Loss = Literal["sum", "max"]
Margin = Literal["total", "worst"]


def lift(X: Matrix) -> Matrix:
    """Return the samples with a column of ones appended, x̃ = (x, 1); CSR stays CSR."""
    ones = np.ones((X.shape[0], 1))
    if sp.issparse(X):
        return sp.csr_array(sp.hstack([sp.csr_array(X), sp.csr_array(ones)]))
    return np.hstack([np.asarray(X, dtype=float), ones])


def assignment_matrix(
    y: ArrayLike, n_faces: int, assignment: ArrayLike, assigned_class: str = "positive"
) -> NDArray[np.float64]:
    """Return Z (n, K): 1 if sample i's slack on face k has a cost, else 0.

    A positive has a 1 only at its assigned face, a negative at all faces; `assigned_class` as in
    :func:`check_assignment`.
    """
    positive = np.asarray(y) > 0
    z = check_assignment(y, n_faces, assignment, assigned_class)
    Z = np.ones((len(positive), n_faces))
    Z[positive] = np.eye(n_faces)[z[positive]]
    return Z


def check_assignment(
    y: ArrayLike, n_faces: int, assignment: ArrayLike, assigned_class: str = "positive"
) -> NDArray[np.int64]:
    """Return the assignment as integers, -1 at negatives.

    Raise ValueError if a positive has no face in 0, ..., K - 1. The message calls the positives
    `assigned_class`, for callers with other labels.
    """
    positive = np.asarray(y) > 0
    z = np.asarray(assignment)
    if z.shape != positive.shape:
        raise ValueError(f"assignment must have shape {positive.shape} to match y, not {z.shape}")
    faces = z[positive]
    if not (np.issubdtype(z.dtype, np.number) and np.isrealobj(z) and (faces == np.floor(faces)).all()):
        raise ValueError("assignment must hold integers, the indices of the faces")
    checked = np.full(len(positive), -1, dtype=np.int64)
    checked[positive] = np.clip(faces, -(2**31), 2**31)  # larger values would overflow the cast
    least, largest = checked[positive].min(initial=0), checked[positive].max(initial=0)
    if not (least >= 0 and largest < n_faces):
        raise ValueError(
            f"assignment must be from 0 to {n_faces - 1} at every {assigned_class}, not {least} to {largest}"
        )
    return checked


def slack_index(y: ArrayLike, n_faces: int) -> NDArray[np.int64]:
    """Return the index (n, K) of each constraint's slack in the vector of all slacks, for loss="max".

    The slacks are ordered by sample: K of a positive, one for each face; one of a negative, for all faces.
    """
    offset = np.where(np.asarray(y)[:, None] > 0, np.arange(n_faces), 0)
    n_slacks = np.where(np.asarray(y) > 0, n_faces, 1)
    return (np.cumsum(n_slacks) - n_slacks)[:, None] + offset


def natural_assignment(X: MatrixLike, y: ArrayLike, W: NDArray[Any]) -> NDArray[np.int64]:
    """Return the face of highest score for each positive, the optimal assignment for W; -1 at negatives."""
    return np.where(np.asarray(y) > 0, np.argmax(lift(X) @ W.T, axis=1), -1)


def objective(X: MatrixLike, y: ArrayLike, W: NDArray[Any], C: ArrayLike = 1.0, loss: Loss = "sum") -> float:
    """Return ‖W‖² + Σ_i C_i loss_i, the machine's objective at W and its optimal assignment.

    loss_i is the least of the hinges [1 − y_i W_k·x̃_i]_+ for a positive; for a negative their sum or maximum.
    """
    X, y = as_data(X, y)
    check_loss(loss)
    hinge = slacks(lift(X) @ W.T, y[:, None])
    negative_loss = hinge.sum(axis=1) if loss == "sum" else hinge.max(axis=1)
    return float((W**2).sum() + as_costs(C, len(y)) @ np.where(y > 0, hinge.min(axis=1), negative_loss))


def face_margins(
    X: MatrixLike, y: ArrayLike, W: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the margin of each face of a polytope, and the number of samples assigned to it.

    Kantchelian et al. (2014), section 3.2: the rows of W are scaled to norm 1, a sample is assigned to the
    face with the highest score, and the margin of face k is the least y_i W_k·x̃_i of its samples. The
    worst-case margin is the least of them, the total margin their sum. A row of zeros is not scaled; the
    margin of a face without samples is inf.
    """
    X, y = as_data(X, y)
    norms = np.linalg.norm(W, axis=1, keepdims=True)
    scores = np.asarray(lift(X) @ (W / np.where(norms > 0.0, norms, 1.0)).T)
    face = scores.argmax(axis=1)
    margins = np.full(len(W), np.inf)
    np.minimum.at(margins, face, y * scores[np.arange(len(y)), face])
    return margins, np.bincount(face, minlength=len(W))


def check_loss(loss: str) -> None:
    """Raise ValueError for a loss other than "sum" and "max"."""
    one_of("loss", loss, ("sum", "max"))


def perplexity(faces: NDArray[np.int64], weights: NDArray[Any] | None = None) -> float:
    """Return the effective number of faces in use: exp of the entropy of an assignment, in nats."""
    counts = np.bincount(faces, weights)
    probabilities = counts[counts > 0] / counts.sum()
    return float(np.exp(-probabilities @ np.log(probabilities)))


def margin_weights(gradients: NDArray[Any]) -> NDArray[np.float64]:
    """Return θ_k = ‖v_k‖ / Σ_l ‖v_l‖, or 0 if all v_k are 0, for the rows v_k of `gradients` (K, m+1).

    The worst-case-margin program minimises t, the largest squared norm of a face, plus the cost of slacks.
    If α are its margins' multipliers and v_k = Σ_i α_ik y_i x̃_i, θ are those of its rows ‖W_k‖² ≤ t.
    """
    norms = np.linalg.norm(gradients, axis=1)
    return np.asarray(norms / (norms.sum() or 1.0))
