"""Removal of weights that the training samples do not determine.

A face is a linear score w·x + b, a row (w, b) of W (K, m+1). The component of w that is orthogonal to all
differences x_i - x_j adds the same constant to the scores of all samples, as the bias b does, so no objective
of the scores determines it. Moving that constant to b leaves the shortest w with these scores: a feature that
is constant in all samples has the weight 0, and equal features have equal weights.

:class:`SampleSpan` does so by projection. :func:`shortest_face` also shortens a face if only its margins have
to be preserved, and :func:`without_idle_faces` replaces faces that are never the minimum.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from formulations.language.types import Array, Matrix, dense
from formulations.polyhedral import scores

_MAX_SPAN_PRODUCTS = 1e10  # multiplications of a singular value decomposition: some seconds
_MIN_EIGENVALUE_REL_TRACE = 1e-10  # smallest, for independent columns; rounding of their Gram matrix is less
_MARGIN_TOL_REL = 1e-9  # relative to max(1, |margin|): rounding of a margin, and surplus of an idle face


class SampleSpan:
    """The span of the differences between the samples X (n, m).

    If an orthonormal basis would take longer than some seconds, only the weights of constant features are
    removed.
    """

    def __init__(self, X: Matrix):
        self._first_sample = dense(X[:1])[0].astype(float)
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
        rows = dense(X[:, self._varies]) - self._first_sample[self._varies]
        unit = np.abs(rows).max(axis=0)  # so that the rank does not depend on the features' units
        rows /= unit
        if _are_surely_independent(rows):
            return None
        _, singular_values, right = np.linalg.svd(rows, full_matrices=False)
        rank = int((singular_values > singular_values[0] * max(n, p) * np.finfo(float).eps).sum())
        return None if rank == p else np.linalg.qr((right[:rank] * unit).T)[0]

    def project(self, W: Array, radius: float = np.inf) -> Array:
        """Return faces with the shortest w and, up to rounding, the scores of the faces W (K, m+1).

        If the features are independent and none is constant, W itself is returned. If a face would have an
        entry above `radius`, only its weights of features that are 0 in all samples are removed.
        """
        if self._basis is None and self._varies.all():
            return W
        projected, weights = np.zeros_like(W), W[:, :-1][:, self._varies]
        if self._basis is not None:
            weights = (weights @ self._basis) @ self._basis.T
        projected[:, :-1][:, self._varies] = weights
        projected[:, -1] = W[:, -1] + (W[:, :-1] - projected[:, :-1]) @ self._first_sample
        fallback = W.copy()
        fallback[:, :-1][:, ~self._varies & (self._first_sample == 0)] = 0.0
        return np.where(np.abs(projected).max(axis=1, keepdims=True) <= radius, projected, fallback)


def _are_surely_independent(A: Array) -> bool:
    """Return True if a Cholesky factorisation, which is cheap, shows that the columns are independent."""
    if len(A) < A.shape[1]:
        return False
    gram = A.T @ A
    gram[np.diag_indices_from(gram)] -= _MIN_EIGENVALUE_REL_TRACE * np.trace(gram)
    try:
        np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return False
    return True


def shortest_face(X: Matrix, y: Array, w: Array) -> Array:
    """Return the shortest face v that preserves the margins of w up to 1, or w if none shorter is found.

    It minimises ‖v‖ subject to y_i v·x̃_i ≥ min(1, y_i w·x̃_i), with x̃ = (x, 1). This least distance problem
    is solved by non-negative least squares (Lawson & Hanson, Solving Least Squares Problems, 1974, ch. 23).

    X (n, m), y (n,): the samples of the face and their labels, -1 or 1.
    w (m+1,): the face, bias last.
    """
    rows = np.column_stack([dense(X), np.ones(len(y))]) * y[:, None]
    margins, size = np.minimum(1.0, rows @ w), float(np.linalg.norm(w))
    system = np.column_stack([rows, margins / size]).T  # w / size is feasible, so the distance is at most 1
    target = np.append(np.zeros(len(w)), 1.0)
    residual = system @ nnls(system, target)[0] - target
    v = -residual[:-1] * (size / residual[-1])
    is_feasible = (rows @ v >= margins - _MARGIN_TOL_REL * np.maximum(1.0, np.abs(margins))).all()
    return v if is_feasible and np.linalg.norm(v) < size else w


def without_idle_faces(X: Matrix, W: Array) -> Array:
    """Return W (K, m+1) with a constant score in place of each face that attains no sample's minimum score.

    The constant is at least 1 and above all minimum scores, so it changes no minimum.
    """
    outputs = scores(X, W)
    is_idle = ~np.isin(np.arange(len(W)), outputs.argmin(axis=1))
    if not is_idle.any():
        return W
    max_score = float(outputs.min(axis=1).max())
    result = W.copy()
    result[is_idle] = 0.0
    result[is_idle, -1] = max(1.0, max_score) * (1.0 + _MARGIN_TOL_REL)
    return result
