"""Parts of the programs of the Convex Polytope Machine, in numpy alone.

Notation as in :mod:`formulations.cpm`, which offers these functions as well. They are apart from it
so that what solves and checks the machine without a modelling language need not import one.
"""

from __future__ import annotations

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
    """The samples with a column of ones appended, x̃ = (x, 1); CSR stays CSR."""
    ones = np.ones((X.shape[0], 1))
    if sp.issparse(X):
        return sp.csr_array(sp.hstack([sp.csr_array(X), sp.csr_array(ones)]))
    return np.hstack([np.asarray(X, dtype=float), ones])


def answers(y: ArrayLike, n_faces: int, assignment: ArrayLike) -> NDArray[np.float64]:
    """Z (n, K): which faces answer for which sample, the parameter ``Z`` of the programs here."""
    positive = np.asarray(y) > 0
    z = check_assignment(y, n_faces, assignment)
    Z = np.ones((len(positive), n_faces))
    Z[positive] = np.eye(n_faces)[z[positive]]
    return Z


def check_assignment(
    y: ArrayLike, n_faces: int, assignment: ArrayLike, who: str = "positive"
) -> NDArray[np.int64]:
    """The assignment as integers, -1 at negatives; one that leaves a positive without a face is refused."""
    positive = np.asarray(y) > 0
    z = np.asarray(assignment)
    if z.shape != positive.shape:
        raise ValueError(f"assignment must have shape {positive.shape} to match y, not {z.shape}")
    own = z[positive]
    if not (np.issubdtype(z.dtype, np.number) and np.isrealobj(z) and (own == np.floor(own)).all()):
        raise ValueError("assignment must hold whole numbers, those of the faces")
    chosen = np.full(len(positive), -1, dtype=np.int64)
    chosen[positive] = np.clip(own, -(2**31), 2**31)
    least, largest = chosen[positive].min(initial=0), chosen[positive].max(initial=0)
    if not (least >= 0 and largest < n_faces):
        raise ValueError(
            f"assignment must be from 0 to {n_faces - 1} at every {who}, not {least} to {largest}"
        )
    return chosen


def slack_places(y: ArrayLike, n_faces: int) -> NDArray[np.int64]:
    """Place (n, K) of ξ_ik among the slacks of loss="max": one per negative, K per positive."""
    own = np.where(np.asarray(y)[:, None] > 0, np.arange(n_faces), 0)
    width = np.where(np.asarray(y) > 0, n_faces, 1)
    return (np.cumsum(width) - width)[:, None] + own


def natural_assignment(X: MatrixLike, y: ArrayLike, W: NDArray[Any]) -> NDArray[np.int64]:
    """The face with the highest score for each positive, which is the best for W; -1 at negatives."""
    return np.where(np.asarray(y) > 0, np.argmax(lift(X) @ W.T, axis=1), -1)


def objective(X: MatrixLike, y: ArrayLike, W: NDArray[Any], C: ArrayLike = 1.0, loss: Loss = "sum") -> float:
    """J(W): the objective of (6) at W, with the assignment that is best for it."""
    X, y = as_data(X, y)
    check_loss(loss)
    hinge = slacks(lift(X) @ W.T, y[:, None])
    for_negatives = hinge.sum(axis=1) if loss == "sum" else hinge.max(axis=1)
    return float((W**2).sum() + as_costs(C, len(y)) @ np.where(y > 0, hinge.min(axis=1), for_negatives))


def face_margins(
    X: MatrixLike, y: ArrayLike, W: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The margin of each face of a polytope, and the samples that are assigned to it.

    Kantchelian et al. (2014), section 3.2: the rows of W are scaled to norm 1, a sample is assigned to the
    face with the highest score, and the margin of face k is the least y_i W_k·x̃_i of its samples. The
    worst-case margin is the least of them, the total margin their sum. A row of zeros stays as it is.
    """
    X, y = as_data(X, y)
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    scores = np.asarray(lift(X) @ (W / np.where(lengths > 0.0, lengths, 1.0)).T)
    face = scores.argmax(axis=1)
    margins = np.full(len(W), np.inf)
    np.minimum.at(margins, face, y * scores[np.arange(len(y)), face])
    return margins, np.bincount(face, minlength=len(W))


def check_loss(loss: str) -> None:
    """Refuse a loss other than "sum" and "max"."""
    one_of("loss", loss, ("sum", "max"))


def perplexity(faces: NDArray[np.int64], weights: NDArray[Any] | None = None) -> float:
    """The effective number of faces in use: the exponential of the entropy of an assignment, in nats."""
    counts = np.bincount(faces, weights)
    used = counts[counts > 0] / counts.sum()
    return float(np.exp(-used @ np.log(used)))


def shares(pulls: NDArray[Any]) -> NDArray[np.float64]:
    """The shares θ (K,) of the worst-case margin's budget, ‖v_k‖/Σ‖v_l‖, for the pulls v (K, m+1).

    All are 0 where v is; the programs are in :mod:`formulations.cpm`.
    """
    lengths = np.linalg.norm(pulls, axis=1)
    return np.asarray(lengths / (lengths.sum() or 1.0))
