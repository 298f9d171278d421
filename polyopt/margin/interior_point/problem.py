"""The program of the interior-point method, its regulariser, and the reduced Newton system.

The program is min ½ w'Rw + the cost of slack in families of constraints on the outputs f_i = w'x_i + b: the
margins y_i f_i ≥ 1 − ξ_i and, for the Relative Margin Machine, bounds |f_i| ≤ B. :class:`Problem` has the
samples and constraints in blocks, and the regulariser: R = I for the SVM, R = (1−D) I + D Σ for the Sigma-SVM
with the covariance Σ of the samples. The intercept b is free, or it is one of the weights, as in the Convex
Polytope Machine: ½ (w'w + b²). :class:`System` factorises M + R, the matrix of a Newton step in (w, b), with
M = Σ d_i (x_i, 1)(x_i, 1)' for numbers d_i ≥ 0 that depend on the iterate (written X' diag(d) X).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs  # scipy's checks would cost more than a small system

from formulations.families import Families
from formulations.language.arguments import as_weights, within
from formulations.language.types import Matrix, Vector, as_csr, canonical
from polyopt.margin.interior_point.block import Block, BlockFacts
from polyopt.margin.interior_point.rows import Rows, is_entrywise_faster
from polyopt.scale.crew import Crew, Local, total

_MIN_DEVIATION_REL_MEAN = 1e-12  # ratio of standard deviation and mean of a feature that counts as constant
_MIN_EIGENVALUE_REL = 1e-12  # eigenvalue, relative to the largest one, below which it counts as zero
_ONE_CLASS = "C must be positive for samples of both classes; y and C leave only one"


@dataclass(frozen=True)
class Problem:
    """A linear hinge machine as a program over blocks of samples."""

    # Executor of the blocks, which have the samples and their families of constraints: ``ask(name)`` returns
    # the results of a method of :class:`Block` for all of them, ``tell(name)`` calls one that changes them.
    crew: Crew
    facts: BlockFacts  # counts and sums of all samples
    soft: int  # number of families with slack, which come before those without
    shift: Vector  # (m,), the point at which the samples are centred
    regulariser: "Regulariser"
    is_centred: bool  # True if b is the intercept for centred samples


def read_problem(X: Matrix, rows: Families, D: float | None, weights: ArrayLike | None) -> Problem:
    """Return the program of the arguments of ``solve_interior_point``, in one block, after checking them."""
    X = _matrix(X)
    if rows.n != X.shape[0]:
        raise ValueError(f"the rows must be of the {X.shape[0]} samples of X, not of {rows.n}")
    rows, soft = order_families(rows)
    if not rows.has_opposite_margins:
        raise ValueError(_ONE_CLASS)
    D = None if D is None else within("D", D, 0.0, 1.0)
    counts = None if weights is None else as_weights(weights, rows.n)
    if D is not None and counts is not None and not (counts > 0).all():
        raise ValueError("weights must be positive; drop the samples whose weight is zero")
    return state_problem(Local([Block(Rows(X), rows, soft, counts)]), soft, D)


def order_families(rows: Families) -> tuple[Families, int]:
    """Return the families, those with slack first, and the number of families with slack.

    ValueError: hard margins, or B = 0.
    """
    soft = [family for family in rows if family.is_soft]
    hard = [family for family in rows if not family.is_soft]
    # A kink is the lower bound on y f or ∓f: 1 for margins, −B for bounds.
    if not soft or any(family.has_slack or family.kink > 0.0 for family in hard):
        raise ValueError("this solver needs finite costs of slack; an explicit program takes hard margins")
    if any(family.kink == 0.0 for family in hard):
        raise ValueError("B must be positive; at B = 0 every output is 0")
    if not all(family.is_soft for family in list(rows)[: len(soft)]):
        rows = Families(*soft, *hard)
    return rows, len(soft)


def state_problem(crew: Crew, soft: int, D: float | None, *, intercept: bool = True) -> Problem:
    """Return the program of samples in blocks; compute R and the point at which the samples are centred.

    soft: number of families with slack.
    D: weight of the variance in the Sigma-SVM's regulariser; None for R = I.
    intercept: False if b is regularised like a weight; then there are no bounds ±B, and D is None.
    ValueError: samples that are not finite; or a free intercept, and margins of one class only.
    """
    parts = crew.ask("facts")
    sums = total([[part.n, part.products, part.costs, part.bounds] for part in parts])
    facts = BlockFacts(
        int(sums[0]), parts[0].m, float(sums[1]), float(sums[2]), float(sums[3]),
        any(part.has_lower for part in parts), any(part.has_upper for part in parts),
    )  # fmt: skip
    if intercept and not (facts.has_lower and facts.has_upper):  # margins of both signs
        raise ValueError(_ONE_CLASS)
    sums = total(crew.ask("total"))  # the weighted sum of the samples, then the sum of the weights
    mean, count = sums[:-1] / sums[-1], float(sums[-1])
    if not np.isfinite(mean).all():
        raise ValueError("X must be finite; it has NaN or infinite values")
    # True for very sparse samples: X' diag(d) X is a sum over pairs of entries, else a product by BLAS.
    is_entrywise = is_entrywise_faster(facts.products, facts.n, facts.m)
    if not intercept:  # not centred: b² depends on the origin
        crew.tell("place", np.zeros(facts.m), is_entrywise)
        return Problem(crew, facts, soft, np.zeros(facts.m), Regulariser(facts.m, is_free=False), False)
    # Entrywise products are centred after the sum, which loses digits. Only Σ makes centring necessary.
    shift = np.zeros(facts.m) if D is None and is_entrywise else mean
    crew.tell("place", shift, is_entrywise)
    if D is None:
        return Problem(crew, facts, soft, shift, Regulariser(facts.m), False)
    Sigma = total(crew.ask("second_moments"))[:-1, :-1] / count  # without the intercept's
    # The rounding of a constant feature must not count as a small variance. The variance from entrywise
    # products has a rounding error relative to mean².
    min_variance = (_MIN_DEVIATION_REL_MEAN if is_entrywise else _MIN_DEVIATION_REL_MEAN**2) * mean**2
    is_constant = Sigma.diagonal() <= min_variance
    Sigma[is_constant] = Sigma[:, is_constant] = 0.0
    R = (1.0 - D) * np.eye(facts.m) + D * Sigma
    return Problem(crew, facts, soft, shift, Regulariser(facts.m, R), True)


def _matrix(X: Matrix) -> Any:
    """Return X unchanged if it is float32 or float64 in canonical format, else a copy."""
    X = canonical(as_csr(X)) if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {X.shape}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


class Regulariser:
    """The regulariser ½ w'Rw, where R is positive semidefinite (m, m), or the identity if None.

    If R is singular (the Sigma-SVM at D = 1), w is restricted to a complement of its null space, because no
    output depends on the null space.

    is_free: True if the intercept b is free; else b is regularised as a further weight, and R = I.
    unit: √(max R_jj), the scale of a weight's gradient.
    basis (m+1, r+1): (w, b) = basis (z, b) for R of rank r, with ½ w'Rw = ½ ‖z‖²; None if R is nonsingular.
    """

    def __init__(self, m: int, R: Vector | None = None, *, is_free: bool = True):
        self.is_free = is_free
        self.R, self.unit = R, 1.0
        # R = root root', and R⁺ = inverse_root inverse_root' on its range; null is a basis of the null space.
        self._root, self._inverse_root, self._null, self.basis = None, None, np.zeros((m, 0)), None
        if R is None:
            return
        self.unit = float(np.sqrt(R.diagonal().max(initial=0.0)))
        # R is scaled to a unit diagonal: its rank must not depend on the units of the features.
        size = np.sqrt(R.diagonal())
        size = np.where(size > 0, size, 1.0)[:, None]
        values, vectors = np.linalg.eigh(R / size / size.T)
        positive = values > _MIN_EIGENVALUE_REL * max(values.max(initial=0.0), np.finfo(float).tiny)
        self._root = size * vectors[:, positive] * np.sqrt(values[positive])
        self._inverse_root = vectors[:, positive] / np.sqrt(values[positive]) / size
        if not positive.all():
            self._null = np.linalg.qr(vectors[:, ~positive] / size)[0]
            self.basis = np.zeros((m + 1, self._inverse_root.shape[1] + 1))
            self.basis[:-1, :-1], self.basis[-1, -1] = self._inverse_root, 1.0

    def weights(self, v: Vector) -> Vector:
        """Return the regularised part of v = (w, b): w, or v itself if b is a weight."""
        return v[:-1] if self.is_free else v

    def widened(self, w: Vector) -> Vector:
        """Return the regularised part extended to (w, b), with 0 for a free intercept."""
        return np.append(w, 0.0) if self.is_free else w

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient Rw."""
        return w if self._root is None else self._root @ (w @ self._root)

    def energy(self, w: Vector) -> float:
        """Return ½ w'Rw."""
        root = w if self._root is None else w @ self._root
        return 0.5 * float(root @ root)

    def conjugate(self, c: Vector) -> float:
        """Return ½ c'R⁺c, the quadratic term of the dual objective at c = Σ β_i x_i."""
        root = c if self._inverse_root is None else c @ self._inverse_root
        return 0.5 * float(root @ root)

    def min_norm(self, w: Vector) -> Vector:
        """Return the vector of least norm with the same Rw."""
        return w - self._null @ (w @ self._null)


class System:
    """The reduced Newton system (M + R) dv = r in (w, b), by Cholesky, with b as the last pivot.

    M (m+1, m+1) is X' diag(d) X; R has a zero for a free b. The matrix is scaled to a unit diagonal, and a
    ridge (a multiple of the identity) is added and increased until it is positive definite. If R is singular,
    the unknowns are (z, b) of :class:`Regulariser`. LinAlgError: the matrix is not finite.
    """

    def __init__(self, regulariser: Regulariser, M: Vector):
        self._basis = regulariser.basis
        if self._basis is not None:
            H = self._basis.T @ M @ self._basis
            H[:-1, :-1] += np.eye(len(H) - 1)  # R is the identity in z
        else:
            H = M.copy()
            weights = H[:-1, :-1] if regulariser.is_free else H  # a view of the regularised part
            weights += np.eye(len(weights)) if regulariser.R is None else regulariser.R
        self._scale = 1.0 / np.sqrt(H.diagonal())
        self._H = self._scale[:, None] * H * self._scale
        ridge = 1e-14
        while True:
            self._factor, failed = dpotrf(self._H + ridge * np.eye(len(H)), lower=1, clean=0)
            if not failed:
                return
            ridge *= 10.0
            if not ridge < 1.0:
                raise LinAlgError(f"the {len(H)} x {len(H)} normal matrix is not positive definite")

    def solve(self, r: Vector) -> Vector:
        """Return the change of (w, b) for the right-hand side r (m+1,), refined while the residual falls."""
        r = self._scale * (r if self._basis is None else r @ self._basis)
        x, residual = np.zeros_like(r), r
        for _ in range(4):  # one solution and three refinements
            refined = x + dpotrs(self._factor, residual, lower=1)[0]
            new_residual = r - self._H @ refined
            if not np.abs(new_residual).max() < np.abs(residual).max():
                break
            x, residual = refined, new_residual
        x = self._scale * x
        return x if self._basis is None else self._basis @ x
