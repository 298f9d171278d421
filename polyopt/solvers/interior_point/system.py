"""The regulariser ½ w'Rw, and the reduced Newton system ``(R + X'DX) dw = r`` that it makes solvable.

The intercept b is free; or it is one of the weights, as the Convex Polytope Machine's are: ½ (w'w + b²).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs  # a small system costs less than what scipy does around them

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["Regulariser", "System"]

_RANK = 1e-12  # eigenvalues under this share of the largest are zero
# What of the identity is added to the scaled matrix at first; how many times more where that is too little.
_FLOOR, _HIGHER = 1e-14, 10.0
_REFINEMENTS = 3


class Regulariser:
    """½ w'Rw for the identity, or for a positive semidefinite R.

    Where R is singular, w is kept within its range: no output depends on the rest.

    m: features.
    R (m, m): by default the identity.
    is_free: whether b is free; else it counts as a weight, and R is the identity.
    """

    def __init__(self, m: int, R: Vector | None = None, *, is_free: bool = True):
        self.is_free = is_free
        self.R, self.basis, self._half, self._root, self._null = R, None, None, None, np.zeros((m, 0))
        self.unit = 1.0 if R is None else float(np.sqrt(R.diagonal().max(initial=0.0)))
        if R is None:
            return
        # Whether a direction has any variance must not depend on the units of the features.
        unit = np.sqrt(R.diagonal())
        unit = np.where(unit > 0, unit, 1.0)[:, None]
        values, vectors = np.linalg.eigh(R / unit / unit.T)
        keep = values > _RANK * max(values.max(initial=0.0), np.finfo(float).tiny)
        self._root = unit * vectors[:, keep] * np.sqrt(values[keep])
        self._half = vectors[:, keep] / np.sqrt(values[keep]) / unit
        if not keep.all():
            self._null = np.linalg.qr(vectors[:, ~keep] / unit)[0]
            self.basis = np.zeros((m + 1, self._half.shape[1] + 1))
            self.basis[:-1, :-1], self.basis[-1, -1] = self._half, 1.0

    def weights(self, v: Vector) -> Vector:
        """What of (w, b) is regularised: w, or all of it."""
        return v[:-1] if self.is_free else v

    def widened(self, w: Vector) -> Vector:
        """The same in the size of (w, b): 0 for an intercept that is free."""
        return np.append(w, 0.0) if self.is_free else w

    def gradient(self, w: Vector) -> Vector:
        """Rw."""
        return w if self._root is None else self._root @ (w @ self._root)

    def energy(self, w: Vector) -> float:
        """½ w'Rw."""
        root = w if self._root is None else w @ self._root
        return 0.5 * float(root @ root)

    def conjugate(self, c: Vector) -> float:
        """½ c'R⁺c: what the dual objective pays for c = Σ β_i x_i."""
        root = c if self._half is None else c @ self._half
        return 0.5 * float(root @ root)

    def least(self, w: Vector) -> Vector:
        """The w of least norm with the same Rw."""
        return w - self._null @ (w @ self._null)


class System:
    """The reduced Newton system in (w, b), factorised: Cholesky, with b the last pivot.

    regulariser: R.
    M (m+1, m+1): the normal matrix.
    LinAlgError: no multiple of the diagonal makes the matrix positive definite: it is not finite.
    """

    def __init__(self, regulariser: Regulariser, M: Vector):
        self._basis = regulariser.basis
        if self._basis is not None:
            H = self._basis.T @ M @ self._basis
            H[:-1, :-1] += np.eye(len(H) - 1)
        else:
            H = M.copy()
            held = H[:-1, :-1] if regulariser.is_free else H
            held += np.eye(len(held)) if regulariser.R is None else regulariser.R
        self._scale = 1.0 / np.sqrt(H.diagonal())
        self._H = self._scale[:, None] * H * self._scale
        lift = _FLOOR
        while True:
            self._factor, short = dpotrf(self._H + lift * np.eye(len(H)), lower=1, clean=0)
            if not short:
                return
            lift *= _HIGHER
            if not lift < 1.0:
                raise LinAlgError(f"the {len(H)} x {len(H)} normal matrix is not positive definite")

    def solve(self, r: Vector) -> Vector:
        """The change of (w, b) for the right-hand side r (m+1,), refined while that helps."""
        r = self._scale * (r if self._basis is None else r @ self._basis)
        x, left = np.zeros_like(r), r
        for _ in range(1 + _REFINEMENTS):
            better = x + dpotrs(self._factor, left, lower=1)[0]
            remains = r - self._H @ better
            if not np.abs(remains).max() < np.abs(left).max():
                break
            x, left = better, remains
        x = self._scale * x
        return x if self._basis is None else self._basis @ x
