"""The program: samples in blocks, families of rows and the regulariser ½ w'Rw; and its reduced Newton system.

The intercept b is free; or it is one of the weights, as the Convex Polytope Machine's are: ½ (w'w + b²).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs  # a small system costs less than what scipy does around them

from formulations.families import Families
from formulations.language.arguments import as_weights, within
from formulations.language.types import as_csr, canonical
from polyopt.margin.interior_point.block import Block, Facts
from polyopt.margin.interior_point.crew import Local, total
from polyopt.margin.interior_point.rows import Rows, is_scattered

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix
    from polyopt.margin.interior_point.crew import Crew

    Vector = NDArray[np.float64]

__all__ = ["Problem", "Regulariser", "System", "in_order", "read", "state"]

_MIN_SPREAD_REL_MEAN = 1e-12  # a feature whose spread is less is constant, up to rounding
_ONE_WAY = "C must be positive for samples of both classes; y and C leave only one"
_MIN_EIGENVALUE_REL = 1e-12  # eigenvalues under this share of the largest are zero
_MIN_RIDGE, _RIDGE_INCREASE = 1e-14, 10.0  # of the scaled Newton matrix, if it is not positive definite


@dataclass(frozen=True)
class Problem:
    """One program of the family.

    crew: the samples and their families of rows, in blocks.
    facts: what is known of all of them together.
    soft: how many families have slack; these are first.
    shift (m,): the point that samples are taken from.
    regulariser: ½ w'Rw.
    is_centred: whether b is the intercept for centred inputs.
    """

    crew: Crew
    facts: Facts
    soft: int
    shift: Vector
    regulariser: Regulariser
    is_centred: bool


def read(X: Matrix, rows: Families, D: float | None, weights: ArrayLike | None) -> Problem:
    """The program that the arguments of ``solve_interior_point`` state, or an error naming the wrong one."""
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
    """The families of rows, those with slack first, and how many these are.

    ValueError: A family that this method does not take.
    """
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
    """The program of samples in blocks: their facts, the point that they are taken from, and R.

    crew: the blocks, of samples with as many features, and of the same families.
    soft: how many families have slack.
    D: the Sigma-SVM's share.
    intercept: True if b is free; else it is regularised like a weight, and there are neither bounds nor D.
    ValueError: with a free intercept costs that are positive on one side only, or samples that are not
        finite.
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
    if not intercept:  # the regulariser does not bear a shift
        crew.tell("place", np.zeros(facts.m), scatters)
        return Problem(crew, facts, soft, np.zeros(facts.m), Regulariser(facts.m, is_free=False), False)
    # Where products scatter, centring would only be undone and done by subtraction.
    shift = np.zeros(facts.m) if D is None and scatters else mean
    crew.tell("place", shift, scatters)
    if D is None:
        return Problem(crew, facts, soft, shift, Regulariser(facts.m), False)
    Sigma = total(crew.ask("spread"))[:-1, :-1] / count
    # What rounding leaves of a constant feature must not pass for a small variance.
    share = _MIN_SPREAD_REL_MEAN if scatters else _MIN_SPREAD_REL_MEAN**2
    constant = Sigma.diagonal() <= share * mean**2
    Sigma[constant] = Sigma[:, constant] = 0.0
    R = (1.0 - D) * np.eye(facts.m) + D * Sigma
    return Problem(crew, facts, soft, shift, Regulariser(facts.m, R), True)


def _matrix(X: Matrix) -> Any:
    """X as it is where it is float32 or float64, with its CSR in order; else a copy that is."""
    X = canonical(as_csr(X)) if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {X.shape}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


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
        keep = values > _MIN_EIGENVALUE_REL * max(values.max(initial=0.0), np.finfo(float).tiny)
        self._root = unit * vectors[:, keep] * np.sqrt(values[keep])
        self._half = vectors[:, keep] / np.sqrt(values[keep]) / unit
        if not keep.all():
            self._null = np.linalg.qr(vectors[:, ~keep] / unit)[0]
            self.basis = np.zeros((m + 1, self._half.shape[1] + 1))
            self.basis[:-1, :-1], self.basis[-1, -1] = self._half, 1.0

    def weights(self, v: Vector) -> Vector:
        """The part of (w, b) that is regularised: w, or all of it."""
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
        lift = _MIN_RIDGE
        while True:
            self._factor, short = dpotrf(self._H + lift * np.eye(len(H)), lower=1, clean=0)
            if not short:
                return
            lift *= _RIDGE_INCREASE
            if not lift < 1.0:
                raise LinAlgError(f"the {len(H)} x {len(H)} normal matrix is not positive definite")

    def solve(self, r: Vector) -> Vector:
        """The change of (w, b) for the right-hand side r (m+1,), refined while that helps."""
        r = self._scale * (r if self._basis is None else r @ self._basis)
        x, left = np.zeros_like(r), r
        for _ in range(4):  # the solution, and three refinements at most
            better = x + dpotrs(self._factor, left, lower=1)[0]
            remains = r - self._H @ better
            if not np.abs(remains).max() < np.abs(left).max():
                break
            x, left = better, remains
        x = self._scale * x
        return x if self._basis is None else self._basis @ x
