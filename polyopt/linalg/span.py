"""Weights in directions in which the training samples do not differ.

A normal w of a face has a part that is orthogonal to all differences x_i - x_j. It adds the same to the
scores of all samples, as the bias does, so that an objective of scores alone does not determine it. Without
that part, which goes to the bias, w is the shortest normal with these scores: a feature that is constant in
all samples has the weight 0, and equal features have equal weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from formulations.language.types import dense
from formulations.polyhedral import scores

if TYPE_CHECKING:
    from formulations.language.types import Array, Matrix

__all__ = ["SampleSpan", "shortest_face", "without_idle_faces"]

_MAX_SPAN_PRODUCTS = 1e10  # multiplications of a singular value decomposition, some seconds
_CLEAR_EIGENVALUE_REL = 1e-10  # of a Gram matrix, relative to its trace; rounding of n products is far less
_MARGIN_REL = 1e-9  # shortfall of a margin, relative to its size or to 1, that counts as rounding
_ABOVE_REL = 1e-9  # relative distance of an idle face's bias from 1 and from the scores that it stays above


class SampleSpan:
    """Directions in which the samples differ, beyond which weights only shift all scores alike.

    Where the samples are so many or so wide that an orthonormal basis would take longer than some seconds,
    only the weights of constant features are removed.

    X (n, m): samples.
    """

    def __init__(self, X: Matrix):
        self._one = dense(X[:1])[0].astype(float)
        low, high = X.min(axis=0), X.max(axis=0)
        if sp.issparse(X):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        self._varies = np.asarray(low != high)
        self._basis = self._basis_of(X)

    def _basis_of(self, X: Matrix) -> Array | None:
        """An orthonormal basis (p, r) of the p features that vary; None if they are independent."""
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
        """Faces (K, m+1) with the same scores of the samples, up to rounding, and the shortest normals.

        If the features are independent, none is constant, W is returned as it is. A face that would leave the
        box keeps its weights, but for those of features that are 0 in all samples.

        W (K, m+1): faces, the bias last.
        radius: largest absolute value of an entry.
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
    """True if the columns of A are clearly independent, by a Cholesky factor, which is cheap."""
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
    """The shortest face (m+1,) that has as much of a margin of 1 as w on each sample, or w itself.

    Minimises ‖v‖ subject to y_i v·x̃_i ≥ min(1, y_i w·x̃_i), a least distance problem, by non-negative least
    squares (Lawson & Hanson, Solving Least Squares Problems, 1974, chapter 23).

    X (n, m): the samples of the face.
    y (n,): labels, -1 or +1.
    w (m+1,): the face, the bias last.
    """
    rows = np.column_stack([dense(X), np.ones(len(y))]) * y[:, None]
    margins, size = np.minimum(1.0, rows @ w), float(np.linalg.norm(w))
    system = np.column_stack([rows, margins / size]).T  # w / size is feasible, so the distance is at most 1
    goal = np.append(np.zeros(len(w)), 1.0)
    residual = system @ nnls(system, goal)[0] - goal
    found = -residual[:-1] * (size / residual[-1])
    is_feasible = (rows @ found >= margins - _MARGIN_REL * np.maximum(1.0, np.abs(margins))).all()
    return found if is_feasible and np.linalg.norm(found) < size else w


def without_idle_faces(X: Matrix, W: Array) -> Array:
    """The faces W (K, m+1), in which one that has the least score of no sample becomes a constant.

    The constant is at least 1 and above the least score of every sample, so that these stay as they are.

    X (n, m): samples.
    W (K, m+1): faces, the bias last.
    """
    outputs = scores(X, W)
    idle = ~np.isin(np.arange(len(W)), outputs.argmin(axis=1))
    if not idle.any():
        return W
    highest = float(outputs.min(axis=1).max())
    found = W.copy()
    found[idle] = 0.0
    found[idle, -1] = max(1.0, highest) * (1.0 + _ABOVE_REL)
    return found
