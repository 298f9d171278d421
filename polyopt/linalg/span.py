"""Weights in directions in which the training samples do not differ.

A normal w of a face has a part that is orthogonal to all differences x_i - x_j. It adds the same to the
scores of all samples, as the bias does, so that an objective of scores alone does not determine it. Without
that part, which goes to the bias, w is the shortest normal with these scores: a feature that is constant in
all samples has the weight 0, and equal features have equal weights.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from formulations.language.types import Array, Matrix, dense
from formulations.polyhedral import scores

_MAX_SPAN_PRODUCTS = 1e10  # multiplications of a singular value decomposition: some seconds
_CLEAR_EIGENVALUE_REL = 1e-10  # of a Gram matrix, relative to its trace; rounding of n products is far less
_MARGIN_TOL_REL = 1e-9  # relative to a margin or to 1: rounding of a margin, and distance above a score


class SampleSpan:
    """Directions in which the samples X (n, m) differ.

    If an orthonormal basis would take longer than some seconds, only the weights of constant features are
    removed.
    """

    def __init__(self, X: Matrix):
        self._one = dense(X[:1])[0].astype(float)
        low, high = X.min(axis=0), X.max(axis=0)
        if sp.issparse(X):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        self._varies = np.asarray(low != high)
        self._basis = self._basis_of(X)

    def _basis_of(self, X: Matrix) -> Array | None:
        """Return an orthonormal basis (p, r) in the p features that vary; None if they are independent."""
        n, p = X.shape[0], int(self._varies.sum())
        if not p or n * p * min(n, p) > _MAX_SPAN_PRODUCTS:
            return None
        own = X[:, self._varies]
        rows = dense(own) - self._one[self._varies]
        unit = np.abs(rows).max(axis=0)  # so that the rank does not depend on the features' units
        rows /= unit
        if _are_surely_independent(rows):
            return None
        _, sizes, right = np.linalg.svd(rows, full_matrices=False)
        rank = int((sizes > sizes[0] * max(n, p) * np.finfo(float).eps).sum())
        return None if rank == p else np.linalg.qr((right[:rank] * unit).T)[0]

    def project(self, W: Array, radius: float = np.inf) -> Array:
        """Return the faces W (K, m+1) with the shortest normals and, up to rounding, the same scores.

        If the features are independent and none is constant, W itself is returned. A face with an entry above
        `radius` afterwards keeps its weights, except those of features that are 0 in all samples.
        """
        if self._basis is None and self._varies.all():
            return W
        found = np.zeros_like(W)
        own = W[:, :-1][:, self._varies]
        found[:, :-1][:, self._varies] = own if self._basis is None else (own @ self._basis) @ self._basis.T
        found[:, -1] = W[:, -1] + (W[:, :-1] - found[:, :-1]) @ self._one
        kept = W.copy()
        kept[:, :-1][:, ~self._varies & (self._one == 0)] = 0.0
        return np.where(np.abs(found).max(axis=1, keepdims=True) <= radius, found, kept)


def _are_surely_independent(A: Array) -> bool:
    """Test by a Cholesky factor, which is cheap, for clearly independent columns."""
    if len(A) < A.shape[1]:
        return False
    gram = A.T @ A
    gram[np.diag_indices_from(gram)] -= _CLEAR_EIGENVALUE_REL * np.trace(gram)
    try:
        np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return False
    return True


def shortest_face(X: Matrix, y: Array, w: Array) -> Array:
    """Return the shortest face with at least the margins of w, up to 1, on each sample, or w itself.

    Minimises ‖v‖ subject to y_i v·x̃_i ≥ min(1, y_i w·x̃_i), a least distance problem, by non-negative least
    squares (Lawson & Hanson, Solving Least Squares Problems, 1974, chapter 23).

    X (n, m), y (n,): the samples of the face and their labels; w (m+1,): the face, bias last.
    """
    rows = np.column_stack([dense(X), np.ones(len(y))]) * y[:, None]
    margins, size = np.minimum(1.0, rows @ w), float(np.linalg.norm(w))
    system = np.column_stack([rows, margins / size]).T  # w / size is feasible, so the distance is at most 1
    goal = np.append(np.zeros(len(w)), 1.0)
    residual = system @ nnls(system, goal)[0] - goal
    found = -residual[:-1] * (size / residual[-1])
    is_feasible = (rows @ found >= margins - _MARGIN_TOL_REL * np.maximum(1.0, np.abs(margins))).all()
    return found if is_feasible and np.linalg.norm(found) < size else w


def without_idle_faces(X: Matrix, W: Array) -> Array:
    """Return W (K, m+1) with a constant in place of each face that attains no sample's minimum score.

    The constant is at least 1 and above all minimum scores, so that these stay as they are.
    """
    outputs = scores(X, W)
    idle = ~np.isin(np.arange(len(W)), outputs.argmin(axis=1))
    if not idle.any():
        return W
    highest = float(outputs.min(axis=1).max())
    found = W.copy()
    found[idle] = 0.0
    found[idle, -1] = max(1.0, highest) * (1.0 + _MARGIN_TOL_REL)
    return found
