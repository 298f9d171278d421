"""The program: samples in blocks, families of rows and the regulariser ½ w'Rw; and its reduced Newton system.

The intercept b is free, or it is one of the weights, as in the Convex Polytope Machine: ½ (w'w + b²).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs  # a small system costs less than what scipy does around them

from formulations.families import Families
from formulations.language.arguments import as_weights, within
from formulations.language.types import Matrix, as_csr, canonical
from polyopt.margin.interior_point.block import Block, Facts
from polyopt.margin.interior_point.crew import Crew, Local, total
from polyopt.margin.interior_point.rows import Rows, is_scattered

Vector = NDArray[np.float64]


_MIN_SPREAD_REL_MEAN = 1e-12  # a feature with less spread is constant, up to rounding
_ONE_WAY = "C must be positive for samples of both classes; y and C leave only one"
_MIN_EIGENVALUE_REL = 1e-12  # eigenvalues below this share of the largest are zero
_MIN_RIDGE, _RIDGE_FACTOR = 1e-14, 10.0  # of the scaled Newton matrix, and its growth until it is definite


@dataclass(frozen=True)
class Problem:
    """One program of the family."""

    crew: Crew  # the samples and their families of rows, in blocks
    facts: Facts  # counts and sums of all samples
    soft: int  # number of families with slack, which are first
    shift: Vector  # (m,), the point that samples are centred at
    regulariser: Regulariser
    is_centred: bool  # True if b is the intercept for centred inputs


def read(X: Matrix, rows: Families, D: float | None, weights: ArrayLike | None) -> Problem:
    """Return the program of the arguments of ``solve_interior_point``, or raise an error that names one."""
    X = _matrix(X)
    if rows.n != X.shape[0]:
        raise ValueError(f"the rows must be of the {X.shape[0]} samples of X, not of {rows.n}")
    rows, soft = in_order(rows)
    if not rows.pulls_both_ways:
        raise ValueError(_ONE_WAY)
    D = None if D is None else within("D", D, 0.0, 1.0)
    counts = None if weights is None else as_weights(weights, rows.n)
    if D is not None and counts is not None and not (counts > 0).all():
        raise ValueError("weights must be positive; drop the samples whose weight is zero")
    return state(Local([Block(Rows(X), rows, soft, counts)]), soft, D)


def in_order(rows: Families) -> tuple[Families, int]:
    """Return the families of rows, those with slack first, and the number of these; refuse hard margins."""
    soft = [family for family in rows if family.is_soft]
    hard = [family for family in rows if not family.is_soft]
    if not soft or any(family.has_slack or family.kink > 0.0 for family in hard):
        raise ValueError("this solver needs finite costs of slack; an explicit program takes hard margins")
    if any(family.kink == 0.0 for family in hard):
        raise ValueError("B must be positive; at B = 0 every output is 0")
    if not all(family.is_soft for family in list(rows)[: len(soft)]):
        rows = Families(*soft, *hard)
    return rows, len(soft)


def state(crew: Crew, soft: int, D: float | None, *, intercept: bool = True) -> Problem:
    """Return the program of samples in blocks, with R and the point that samples are centred at.

    soft: number of families with slack.
    D: share of the variance in the Sigma-SVM's regulariser.
    intercept: False if b is regularised like a weight, without bounds or D.
    ValueError: samples that are not finite; with a free intercept, costs on one side only.
    """
    found = crew.ask("facts")
    sums = total([[f.n, f.products, f.costs, f.bounds] for f in found])
    facts = Facts(
        int(sums[0]), found[0].m, float(sums[1]), float(sums[2]), float(sums[3]),
        any(f.pulls_up for f in found), any(f.pulls_down for f in found),
    )  # fmt: skip
    if intercept and not (facts.pulls_up and facts.pulls_down):
        raise ValueError(_ONE_WAY)
    sums = total(crew.ask("total"))
    mean, count = sums[:-1] / sums[-1], float(sums[-1])
    if not np.isfinite(mean).all():
        raise ValueError("X must be finite; it has NaN or infinite values")
    scatters = is_scattered(facts.products, facts.n, facts.m)
    if not intercept:  # the regulariser depends on the origin
        crew.tell("place", np.zeros(facts.m), scatters)
        return Problem(crew, facts, soft, np.zeros(facts.m), Regulariser(facts.m, is_free=False), False)
    # Sparse products are not centred.
    shift = np.zeros(facts.m) if D is None and scatters else mean
    crew.tell("place", shift, scatters)
    if D is None:
        return Problem(crew, facts, soft, shift, Regulariser(facts.m), False)
    Sigma = total(crew.ask("spread"))[:-1, :-1] / count
    # The rounding of a constant feature must not count as a small variance.
    share = _MIN_SPREAD_REL_MEAN if scatters else _MIN_SPREAD_REL_MEAN**2
    constant = Sigma.diagonal() <= share * mean**2
    Sigma[constant] = Sigma[:, constant] = 0.0
    R = (1.0 - D) * np.eye(facts.m) + D * Sigma
    return Problem(crew, facts, soft, shift, Regulariser(facts.m, R), True)


def _matrix(X: Matrix) -> Any:
    """Return X unchanged if it is float32 or float64 in canonical format, else a copy."""
    X = canonical(as_csr(X)) if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {X.shape}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


class Regulariser:
    """½ w'Rw for the identity (R None) or a positive semidefinite R (m, m).

    If R is singular, w is kept in its range: no output depends on the rest. If b is not free, it counts as a
    weight, and R is the identity.
    """

    def __init__(self, m: int, R: Vector | None = None, *, is_free: bool = True):
        self.is_free = is_free
        self.R, self.basis, self._half, self._root, self._null = R, None, None, None, np.zeros((m, 0))
        self.unit = 1.0 if R is None else float(np.sqrt(R.diagonal().max(initial=0.0)))
        if R is None:
            return
        # The rank must not depend on the units of the features.
        unit = np.sqrt(R.diagonal())
        unit = np.where(unit > 0, unit, 1.0)[:, None]
        values, vectors = np.linalg.eigh(R / unit / unit.T)
        keep = values > _MIN_EIGENVALUE_REL * max(values.max(initial=0.0), np.finfo(float).tiny)
        self._root = unit * vectors[:, keep] * np.sqrt(values[keep])
        self._half = vectors[:, keep] / np.sqrt(values[keep]) / unit
        if not keep.all():
            self._null = np.linalg.qr(vectors[:, ~keep] / unit)[0]
            self.basis = np.zeros((m + 1, self._half.shape[1] + 1))
            self.basis[:-1, :-1], self.basis[-1, -1] = self._half, 1.0

    def weights(self, v: Vector) -> Vector:
        """The regularised part of (w, b): w, or all of it."""
        return v[:-1] if self.is_free else v

    def widened(self, w: Vector) -> Vector:
        """Extend the regularised part to (w, b), with 0 for a free intercept."""
        return np.append(w, 0.0) if self.is_free else w

    def gradient(self, w: Vector) -> Vector:
        """Rw."""
        return w if self._root is None else self._root @ (w @ self._root)

    def energy(self, w: Vector) -> float:
        """½ w'Rw."""
        root = w if self._root is None else w @ self._root
        return 0.5 * float(root @ root)

    def conjugate(self, c: Vector) -> float:
        """½ c'R⁺c, the quadratic term of the dual objective at c = Σ β_i x_i."""
        root = c if self._half is None else c @ self._half
        return 0.5 * float(root @ root)

    def least(self, w: Vector) -> Vector:
        """Return the w of least norm with the same Rw."""
        return w - self._null @ (w @ self._null)


class System:
    """The reduced Newton system in (w, b) with the normal matrix M (m+1, m+1), by Cholesky, b the last pivot.

    LinAlgError: the matrix is not finite.
    """

    def __init__(self, regulariser: Regulariser, M: Vector):
        self._basis = regulariser.basis
        if self._basis is not None:
            H = self._basis.T @ M @ self._basis
            H[:-1, :-1] += np.eye(len(H) - 1)
        else:
            H = M.copy()
            weights = H[:-1, :-1] if regulariser.is_free else H
            weights += np.eye(len(weights)) if regulariser.R is None else regulariser.R
        self._scale = 1.0 / np.sqrt(H.diagonal())
        self._H = self._scale[:, None] * H * self._scale
        ridge = _MIN_RIDGE
        while True:
            self._factor, failed = dpotrf(self._H + ridge * np.eye(len(H)), lower=1, clean=0)
            if not failed:
                return
            ridge *= _RIDGE_FACTOR
            if not ridge < 1.0:
                raise LinAlgError(f"the {len(H)} x {len(H)} normal matrix is not positive definite")

    def solve(self, r: Vector) -> Vector:
        """Solve for the change of (w, b) with right-hand side r (m+1,), refined while the residual falls."""
        r = self._scale * (r if self._basis is None else r @ self._basis)
        x, left = np.zeros_like(r), r
        for _ in range(4):  # the solution, and at most three refinements
            better = x + dpotrs(self._factor, left, lower=1)[0]
            remains = r - self._H @ better
            if not np.abs(remains).max() < np.abs(left).max():
                break
            x, left = better, remains
        x = self._scale * x
        return x if self._basis is None else self._basis @ x
