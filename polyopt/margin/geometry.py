"""The feature space of a hinge program: linear, of a kernel, and each in the metric of the Sigma-SVM.

`v` represents ``w``: ``w`` itself for linear features, expansion coefficients for a kernel. `beta` is a
vector over the samples. Numbers that a value or a bound depends on are a
:class:`~polyopt.linalg.rounding.Ball` (``outputs``, ``energy``, ``dual_norm_sq``); the others guide ascents
and measure residuals.

The metric of the Sigma-SVM
---------------------------
A = (1-D) I + D Sigma. The energy w'Aw needs outputs only: (1-D)‖w‖² + (D/N) Σ s_i f_i², with f_i =
w'(φ_i − mean), weights s of the samples and their sum N. The dual has u'A⁻¹u for u = Σ β_i (φ_i − mean), and
a linear system is never solved exactly. For *any* w̃, with ρ = u − A w̃,

    u'A⁻¹u = w̃'Aw̃ + 2 w̃'ρ + ρ'A⁻¹ρ,

so only the last term, small if w̃ is good, needs a bound: the least of

    ‖ρ‖² / (1−D),      N Σ r_i² / s_i  at D = 1, where ρ = Σ r_i (φ_i − mean),      ‖Tρ‖² / λ_min(TAT).

The second is the Cauchy-Schwarz inequality in the span of the samples; the third is for linear features, with
T diagonal such that the diagonal of TAT is one. Nothing is truncated: the residual of the system is in the
bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from formulations.language.types import Matrix, Vector, as_csr, canonical
from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels import (
    CHUNK_ROWS,
    MAX_SQUARE_ROWS,
    Gram,
    MatrixGram,
    Panel,
    SampleGram,
    Samples,
    as_gram,
    chunks,
    middle_of,
    spread_samples,
)
from polyopt.linalg.rounding import ABOVE, Ball, gamma, product, transposed_product

_CACHE_BYTES = 2**29  # memory for kept columns of a Gram matrix
_ROWS = 512  # rows of a Gram matrix multiplied at once
_COLUMNS = 64  # terms summed before the sums are, which limits rounding
BLOCK = 4096  # samples centred at a time: the memory of a pass over the data
_HIDDEN = (
    "At D=1 with a kernel the optimum rests on the least eigenvalues, which rounding hides: the bound is "
    "good only where they are all large."
)


class Geometry(Protocol):
    """The operations of a feature space that a hinge program needs.

    n: samples.
    gradient_scale: size of the gradient of half the energy where the energy is 1.
    psd_defect: magnitude of the most negative eigenvalue of the Gram matrix, 0 if it is semidefinite; the
        outputs of v then have an extra error of ``psd_defect * ‖v‖``, in the 2-norm.
    note: a sentence about the bounds for the reader of a certificate, or "".
    """

    n: int
    gradient_scale: float
    psd_defect: float
    note: str

    def prepare(self, *vectors: Vector) -> None:
        """Compute what these v and beta need in one pass over the data, if that is faster."""

    def scores(self, v: Vector) -> Vector:
        """``w'phi(x_i)`` for every sample, shape (n,)."""

    def outputs(self, v: Vector) -> Ball:
        """:meth:`scores` with their rounding, for the matrix as given."""

    def moved(self, v: Vector, intercept: float) -> Ball:
        """Intercept for the (centred) samples of :meth:`scores`, from that for the samples as given."""

    def gradient(self, v: Vector) -> Vector:
        """Gradient of half the energy."""

    def adjoint(self, beta: Vector) -> Vector:
        """Gradient of ``sum_i beta_i w'phi(x_i)``, in the units of :meth:`gradient`."""

    def columns(self, samples: Samples) -> Vector:
        """:meth:`adjoint` of each of these samples alone, as the columns of a matrix."""

    def adjoint_scale(self, beta: Vector) -> float:
        """Size of the terms of :meth:`adjoint`, which its rounding errors are relative to."""

    def primal_from_dual(self, beta: Vector) -> Vector:
        """The v whose gradient is ``adjoint(beta)``: the minimiser of the Lagrangian."""

    def energy(self, v: Vector) -> Ball:
        """Twice the regulariser: ``‖w‖²``, or the square in another metric."""

    def dual_norm_sq(self, beta: Vector) -> Ball:
        """Upper bound on the energy of ``primal_from_dual(beta)``: twice the quadratic term of the dual."""

    def sizes(self) -> Vector:
        """Upper bounds on the norms of the samples in the metric of :meth:`dual_norm_sq`, shape (n,)."""

    def curvature(self) -> float:
        """Estimate of the largest eigenvalue of ``beta -> scores(primal_from_dual(beta))``."""


def middle(X: Matrix) -> Vector | None:
    """Mean of dense samples (n, m); None for sparse samples, which are not centred."""
    return None if sp.issparse(X) else middle_of(X)


class LinearGeometry:
    """Linear features in the Euclidean norm.

    If `centred`, scores are of dense samples less their mean, or less `centre` (m,). A program with a free
    intercept is the same, and far from the origin only the centred one keeps its digits.
    """

    note, psd_defect, gradient_scale = "", 0.0, 1.0

    def __init__(self, X: Matrix, *, centred: bool = False, centre: Vector | None = None):
        self.X: Matrix = canonical(as_csr(X, float)) if sp.issparse(X) else np.asarray(X, dtype=float)
        self.n, m = self.X.shape
        self._shift = middle(self.X) if centred else None
        if centre is not None and not sp.issparse(self.X):
            self._shift = centre
        self.centre = np.zeros(m) if self._shift is None else self._shift

    def prepare(self, *vectors: Vector) -> None:
        pass  # products are cheap

    def scores(self, v: Vector) -> Vector:
        if self._shift is None:
            return np.asarray(self.X @ v)
        return np.concatenate([rows @ v for _, rows in self._blocks()])

    def _blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield blocks of samples, centred if they are dense."""
        for start in range(0, self.n, BLOCK):
            rows = self.X[start : start + BLOCK]
            yield slice(start, start + BLOCK), rows if sp.issparse(rows) else rows - self.centre

    def outputs(self, v: Vector) -> Ball:
        return product(self.X, v, self._shift)

    def moved(self, v: Vector, intercept: float) -> Ball:
        return Ball(intercept) if self._shift is None else Ball(v).dot(self._shift) + intercept

    def gradient(self, v: Vector) -> Vector:
        return v

    def adjoint(self, beta: Vector) -> Vector:
        if self._shift is None:
            return np.asarray(self.X.T @ beta)
        return np.asarray(np.add.reduce([rows.T @ beta[part] for part, rows in self._blocks()]))

    def columns(self, samples: Samples) -> Vector:
        rows: Any = self.X[samples]
        return np.asarray((rows.toarray() if sp.issparse(rows) else rows - self.centre).T)

    def adjoint_scale(self, beta: Vector) -> float:
        return float(np.max(self.adjoint_sizes(beta), initial=0.0))

    def adjoint_sizes(self, beta: Vector) -> Vector:
        """Sums of the sizes of the terms of :meth:`adjoint`, shape (m,)."""
        size, found = np.abs(beta), np.zeros(self.X.shape[1])
        for part, rows in self._blocks():
            found += abs(rows).T @ size[part]
        return found

    def primal_from_dual(self, beta: Vector) -> Vector:
        return self.adjoint(beta)

    def energy(self, v: Vector) -> Ball:
        return Ball(v).square_sum()

    def dual_norm_sq(self, beta: Vector) -> Ball:
        return transposed_product(self.X, beta, self._shift).square_sum()

    def sizes(self) -> Vector:
        return self._norms

    @cached_property
    def _norms(self) -> Vector:
        found = np.empty(self.n)
        for part, rows in self._blocks():
            squares = rows.multiply(rows) if sp.issparse(rows) else rows**2
            found[part] = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        return found * (1.0 + 1e-12)

    def curvature(self) -> float:
        return largest_eigenvalue(lambda beta: self.scores(self.primal_from_dual(beta)), self.n)


class Products:
    """Products ``K v`` with the size of their terms, from the columns in the support of v.

    A certificate needs the products of a few similar vectors: the coefficients, those that the multipliers
    imply, and the same after a repair. Columns are kept in memory up to a limit; others are computed again in
    each pass over the matrix, so several vectors are best announced together (:meth:`prepare`). The last few
    products are remembered.
    """

    def __init__(self, gram: Gram):
        self._gram = gram
        self._every = np.arange(gram.n)
        self._kept: list[tuple[Samples, Vector]] = []
        self._is_kept = np.zeros(gram.n, dtype=bool)
        self._room = _CACHE_BYTES // (8 * gram.n)  # columns that fit beside the kept ones
        self._known: dict[bytes, tuple[Vector, Vector | None]] = {}
        if isinstance(gram, MatrixGram):
            self._kept.append((self._every, gram.K))
            self._is_kept[:] = True

    def of(self, v: Vector) -> Vector:
        """``K v``, shape (n,), read-only."""
        if _key(v) not in self._known:
            self._compute({_key(v): v}, sizes=False)
        return self._known[_key(v)][0]

    def terms(self, v: Vector) -> Vector:
        """``|K| |v|``, shape (n,): the size of the terms of :meth:`of`."""
        self.prepare([v])
        terms = self._known[_key(v)][1]
        assert terms is not None
        return terms

    def ball(self, v: Vector) -> Ball:
        """``K v`` with the rounding of its sums, for the computed entries of K."""
        terms = self.terms(v)
        k = _COLUMNS + CHUNK_ROWS // _COLUMNS + len(v) // CHUNK_ROWS + len(self._kept) + 6
        return Ball(self.of(v), gamma(k) * terms * ABOVE)

    def prepare(self, vectors: list[Vector]) -> None:
        """Compute the products of these vectors in one pass over the matrix."""
        new = {_key(v): v for v in vectors if self._known.get(_key(v), (v, None))[1] is None}
        if new:
            self._compute(new, sizes=True)

    def columns(self, samples: Samples) -> Vector:
        """``K[:, samples]``."""
        columns = np.empty((self._gram.n, len(samples)))
        panel = self._gram.panel(samples, np.float64)
        for rows in chunks(self._every):
            panel.rows(rows, out=columns[rows[0] : rows[-1] + 1])
        return columns

    def _compute(self, vectors: dict[bytes, Vector], *, sizes: bool) -> None:
        V = np.array(list(vectors.values())).T
        width = V.shape[1]
        factors = np.hstack([V, np.abs(V)]) if sizes else V
        found = np.zeros((self._gram.n, factors.shape[1]))
        tiles = list(self._tiles(np.flatnonzero(V.any(axis=1))))

        def some_rows(start: int) -> None:
            part = slice(start, start + _ROWS)
            for samples, blocks in tiles:
                block, own = blocks(part), factors[samples]
                found[part, :width] += _product(block, own[:, :width])
                if sizes:
                    found[part, width:] += np.abs(block) @ own[:, width:]

        count = sum(len(samples) for samples, _ in tiles)
        run_blocks(some_rows, range(0, self._gram.n, _ROWS), self._cost(count))
        found.setflags(write=False)
        for place, key in enumerate(vectors):
            self._known.pop(key, None)
            self._known[key] = found[:, place], found[:, width + place] if sizes else None
        while len(self._known) > 8:
            del self._known[next(iter(self._known))]

    def _cost(self, columns: int) -> float:
        """Multiplications for so many columns; 0 if threads must not read the matrix."""
        if not isinstance(self._gram, SampleGram) or callable(self._gram.kernel.name):
            return 0.0
        return float(self._gram.n) * columns * (self._gram.entry_cost + 8)

    def _tiles(self, support: Samples) -> Iterator[tuple[Samples, Callable[[slice], Vector]]]:
        """Yield the columns of the support, some at a time, with a function of rows that returns them."""
        missing = support[~self._is_kept[support]]
        if len(missing) <= self._room:
            self._keep(missing)
            missing = missing[:0]
        for samples, columns in self._kept:
            for at in chunks(np.arange(len(samples))):
                some = slice(at[0], at[-1] + 1)
                yield samples[some], columns[:, some].__getitem__
        for samples in chunks(missing):
            panel = self._gram.panel(samples, np.float64)
            yield samples, partial(self._computed, panel)

    def _computed(self, panel: Panel, part: slice) -> Vector:
        return panel.rows(self._every[part])

    def _keep(self, samples: Samples) -> None:
        if len(samples):
            self._kept.append((samples, self.columns(samples)))
            self._is_kept[samples] = True
            self._room -= len(samples)


def _product(block: Vector, factors: Vector) -> Vector:
    """``block @ factors``, few terms summed at a time."""
    found = np.zeros((len(block), factors.shape[1]))
    for start in range(0, len(factors), _COLUMNS):
        some = slice(start, start + _COLUMNS)
        found += block[:, some] @ factors[some]
    return found


def _key(v: Vector) -> bytes:
    return (v + 0.0).tobytes()  # 0.0 and -0.0 are the same


class KernelGeometry:
    """The feature space of a Gram matrix; v are expansion coefficients, ``w = sum_i v_i phi(x_i)``.

    Only the columns of the Gram matrix (n, n) in use are computed. Its least eigenvalue is at least
    -`psd_defect` (:func:`polyopt.linalg.kernels.require_psd`): values and bounds hold for every semidefinite
    matrix within that distance.
    """

    def __init__(self, gram: Gram | Any, psd_defect: float = 0.0):
        gram = as_gram(gram)
        self.gram = gram.careful() if isinstance(gram, SampleGram) else gram
        self.n = self.gram.n
        self.gradient_scale = float(np.sqrt(max(self.gram.diagonal().max(), 0.0)))
        self.note = ""
        self.psd_defect = psd_defect
        self._products = Products(self.gram)
        self._error, self._sizes = self.gram.entry_error()
        diagonal = self.gram.diagonal()
        if psd_defect > 1e-12 * self.n * float(np.abs(diagonal).max(initial=0.0)):
            self.note = (
                f"The Gram matrix has an eigenvalue near {-psd_defect:.2g}: what is said holds for every "
                "semidefinite matrix within that distance of it."
            )

    def prepare(self, *vectors: Vector) -> None:
        self._products.prepare(list(vectors))

    def scores(self, v: Vector) -> Vector:
        return self._products.of(v)

    def outputs(self, v: Vector) -> Ball:
        found = self._products.ball(v)
        if not self._error:
            return found
        off = self._error * (self._sizes * float(self._sizes @ np.abs(v)))
        return Ball(found.mid, found.rad + off * ABOVE)

    def moved(self, v: Vector, intercept: float) -> Ball:
        return Ball(intercept)

    def gradient(self, v: Vector) -> Vector:
        return self._products.of(v)

    def adjoint(self, beta: Vector) -> Vector:
        return self._products.of(beta)

    def columns(self, samples: Samples) -> Vector:
        return self._products.columns(samples)

    def adjoint_scale(self, beta: Vector) -> float:
        return float(self._products.terms(beta).max(initial=0.0))

    def primal_from_dual(self, beta: Vector) -> Vector:
        return beta

    def energy(self, v: Vector) -> Ball:
        found = Ball(v).dot(self.outputs(v))
        found = Ball(found.mid, found.rad + self.psd_defect * float(v @ v) * ABOVE)
        # A square is not negative, though rounding may be.
        return found if found.mid >= 0.0 else Ball(0.0, float(found.size))

    def dual_norm_sq(self, beta: Vector) -> Ball:
        return self.energy(beta)

    def sizes(self) -> Vector:
        finite = np.isfinite(self._sizes).all()
        found = self._sizes if finite else np.full(self.n, np.sqrt(np.abs(self.gram.diagonal()).max()))
        return np.sqrt(found**2 + self.psd_defect) * ABOVE

    def curvature(self) -> float:
        # Of many samples, evenly spaced ones have about the same mean outer product.
        some = spread_samples(self.n)
        K = self.gram.panel(some, np.float64).rows(some)
        return self.n / len(some) * largest_eigenvalue(lambda beta: K @ beta, len(some))


def largest_eigenvalue(product: Callable[[Vector], Vector], n: int) -> float:
    """Largest eigenvalue of a semidefinite map on n numbers, from below, by power iteration."""
    direction = np.cos(np.arange(n) + 1.0)  # hardly orthogonal to any eigenvector of real data
    largest, norm = 0.0, float(np.linalg.norm(direction))
    for _ in range(30):  # within a few percent, enough for a step length
        direction = product(direction / norm)
        norm = float(np.linalg.norm(direction))
        if norm == 0.0 or not np.isfinite(norm):
            break
        largest = max(largest, norm)
    return largest


class _SigmaGeometry:
    """The metric (1-D) I + D Sigma in a plain feature space; scores are of centred samples, as in eq. (3).

    `weights` (n,) of the samples in mean and covariance are positive.
    """

    psd_defect = 0.0

    def __init__(self, plain: Any, D: float, weights: Vector):
        self._plain, self.n, self.D, self.weights = plain, plain.n, D, weights
        self._total = Ball(weights).sum()

    def prepare(self, *vectors: Vector) -> None:
        self._plain.prepare(*vectors)

    def _mean(self, g: Ball) -> Ball:
        return g.dot(self.weights) * inverse(self._total)

    def scores(self, v: Vector) -> Vector:
        g = self._plain.scores(v)
        return np.asarray(g - self.weights @ g / float(self._total.mid))

    def outputs(self, v: Vector) -> Ball:
        g: Ball = self._plain.outputs(v)
        return g - self._mean(g)

    def moved(self, v: Vector, intercept: float) -> Ball:
        plain: Ball = self._plain.moved(v, intercept)
        return plain + self._mean(self._plain.outputs(v))

    def primal_from_dual(self, beta: Vector) -> Vector:
        raise NotImplementedError

    def curvature(self) -> float:
        return largest_eigenvalue(lambda beta: self.scores(self.primal_from_dual(beta)), self.n)


class SigmaLinearGeometry(_SigmaGeometry):
    """Linear features in the metric of the Sigma-SVM; weights are 1 by default."""

    note = ""

    def __init__(self, X: Matrix, D: float, weights: Vector | None = None):
        plain = LinearGeometry(X, centred=True)
        super().__init__(plain, D, np.ones(plain.n) if weights is None else weights)
        self.X = plain.X
        # The mean, as the point subtracted by the plain geometry and the mean left from there.
        self.centre = plain.centre + plain.adjoint(self.weights) / float(self._total.mid)
        self.gradient_scale = self._metric.gradient_scale

    @cached_property
    def _metric(self) -> SigmaMetric:
        X, m = self.X, self.X.shape[1]
        if m > MAX_SQUARE_ROWS:
            raise ValueError(
                f"{m} features have a covariance of {8e-9 * m * m:.0f} GB, and the Sigma-SVM takes at most "
                f"{MAX_SQUARE_ROWS}: choose fewer features, or D=0"
            )
        Sigma = np.zeros((m, m))
        for start in range(0, self.n, BLOCK):
            part = slice(start, start + BLOCK)
            Sigma += second_moments(X[part], self.weights[part], self.centre)
        return metric_of(
            Sigma / float(self._total.mid), self.centre, self.D, self.n, is_sparse=sp.issparse(X)
        )

    def gradient(self, v: Vector) -> Vector:
        return self._metric.A @ v

    def adjoint(self, beta: Vector) -> Vector:
        return np.asarray(self._plain.adjoint(beta) - (self.centre - self._plain.centre) * beta.sum())

    def columns(self, samples: Samples) -> Vector:
        return np.asarray(self._plain.columns(samples) - (self.centre - self._plain.centre)[:, None])

    def adjoint_scale(self, beta: Vector) -> float:
        return float(self._plain.adjoint_scale(beta))

    def primal_from_dual(self, beta: Vector) -> Vector:
        return self._metric.solve(self.adjoint(beta))

    def energy(self, v: Vector) -> Ball:
        f, v = self.outputs(v), np.asarray(v)
        return one_minus(self.D) * Ball(v).square_sum() + self.D * self._mean(f * f)

    def dual_norm_sq(self, beta: Vector) -> Ball:
        v = self.primal_from_dual(beta)
        r = Ball(beta) - self.D * (self.outputs(v) * self.weights) * inverse(self._total)
        rest, by_spread = transposed_product(self.X, r, self._plain._shift), np.inf
        if self.D == 1.0:
            by_spread = left_by_spread((r * r).dot(1.0 / self.weights), self._total)
        return self._metric.dual_norm_sq(v, self.energy(v), rest, by_spread)

    def sizes(self) -> Vector:
        apart = float(np.linalg.norm(self.centre - self._plain.centre)) * ABOVE
        return norms_in_metric(self._plain.sizes() + apart, self.D, self.weights, float(self._total.mid))


class SigmaKernelGeometry(_SigmaGeometry):
    """The feature space of a kernel in the metric of the Sigma-SVM; ``w = sum_i v_i phi(x_i)``.

    The Gram matrix is not centred; `psd_defect` is as in :class:`KernelGeometry`. `factors` are the
    eigenvalues and eigenvectors of S^(1/2) Kc S^(1/2) (:class:`formulations.centred_kernel.CentredKernel`);
    the bounds are valid for any factors.
    """

    def __init__(
        self, gram: Gram, D: float, weights: Vector, factors: tuple[Vector, Vector], psd_defect: float = 0.0
    ):
        super().__init__(KernelGeometry(gram, psd_defect), D, weights)
        self.gram, self.gradient_scale = gram, self._plain.gradient_scale
        self._values, self._vectors = factors
        self.note = f"{self._plain.note} {_HIDDEN if D == 1.0 else ''}".strip()
        # Outputs are less their mean: the norm of I − 1s'/N is at most 1 + √n ‖s‖ / N.
        centring = 1.0 + np.sqrt(self.n) * float(np.linalg.norm(weights) / weights.sum())
        self.psd_defect = psd_defect * centring * ABOVE

    def _spread(self, f: Ball) -> Ball:
        return f * self.weights * inverse(self._total)

    def gradient(self, v: Vector) -> Vector:
        return self.adjoint((1.0 - self.D) * v + self.D * self._spread(self.outputs(v)).mid)

    def adjoint(self, beta: Vector) -> Vector:
        return self.scores(self._uncentred(beta))

    def _uncentred(self, c: Vector) -> Vector:
        """Coefficients of the samples from those of the centred samples."""
        return np.asarray(c - self.weights * (c.sum() / float(self._total.mid)))

    def columns(self, samples: Samples) -> Vector:
        total = float(self._total.mid)
        columns = self._plain.columns(samples)
        columns = columns - self._plain.scores(self.weights / total)[:, None]
        return np.asarray(columns - (self.weights @ columns) / total)

    def adjoint_scale(self, beta: Vector) -> float:
        return float(self._plain.adjoint_scale(self._uncentred(beta)))

    def primal_from_dual(self, beta: Vector) -> Vector:
        if self.D == 0.0:
            return beta
        half, values = np.sqrt(self.weights), self._values
        metric = (1.0 - self.D) + self.D * np.maximum(values, 0.0) / float(self._total.mid)
        floor = 8 * self.n * np.finfo(float).eps * float(np.max(metric, initial=0.0))
        inverse = np.divide(1.0, metric, out=np.zeros_like(metric), where=metric > floor)
        v = np.zeros_like(beta)
        for _ in range(2):
            left = beta - (1.0 - self.D) * v - self.D * self._spread(self.outputs(v)).mid if v.any() else beta
            inside = self._vectors.T @ (left / half)
            step = self._vectors @ (inverse * inside)
            if self.D < 1.0:  # the complement of the factors' span has no spread
                step = step + (left / half - self._vectors @ inside) / (1.0 - self.D)
            v = self._uncentred(v + half * step)
        return v

    def energy(self, v: Vector) -> Ball:
        g = self._plain.outputs(v)
        f = g - self._mean(g)
        found = one_minus(self.D) * g.dot(v) + self.D * self._spread(f).dot(f)
        found = Ball(found.mid, found.rad + self._near(f, v))
        return found if found.mid >= 0.0 else Ball(0.0, float(found.size))

    def _near(self, f: Ball, *vectors: Vector) -> float:
        """A generous bound on the change of products of vectors for a matrix within `psd_defect`."""
        if not self.psd_defect:
            return 0.0
        length = sum(float(np.linalg.norm(v)) for v in vectors)
        spread = self.D * (float(np.linalg.norm(self._spread(f).size)) + self.psd_defect * length)
        return float(4.0 * self.psd_defect * length * (length + spread))

    def dual_norm_sq(self, beta: Vector) -> Ball:
        v = self.primal_from_dual(beta)
        f = self.outputs(v)
        r = Ball(beta) - one_minus(self.D) * Ball(v) - self.D * self._spread(f)
        Kr = self._plain.outputs(r.mid)
        sizes = self._plain.sizes()
        Kr = Ball(Kr.mid, Kr.rad + sizes * float(r.rad @ sizes) * ABOVE)
        if self.D < 1.0:
            left = float((Kr.dot(r) * inverse(one_minus(self.D))).upper)
        else:  # Σ r = 0, as Σ β and Σ s f are: ρ is of centred samples
            left = float((r * r * Ball(1.0 / self.weights, 4e-16 / self.weights)).sum().upper)
            left *= float(self._total.upper) * (1 + 1e-12)
        near = self._near(f, v, r.size)
        return self.energy(v) + 2.0 * Kr.dot(v) + Ball(0.0, max(left, 0.0) + near)

    def sizes(self) -> Vector:
        own = self._plain.sizes()
        centred = own + float(own.max(initial=0.0))
        return norms_in_metric(centred, self.D, self.weights, float(self._total.upper))


class SigmaMetric:
    """The metric A (m, m) of linear features, with entries summed from n products each.

    `centre` (m,) is the mean, if the moments were taken around 0 and its square was subtracted.
    """

    def __init__(self, A: Vector, D: float, n: int, centre: Vector | None):
        self.A, self._D, self._n, self._centre = A, D, n, centre
        self.gradient_scale = float(np.sqrt(max(A.diagonal().max(initial=0.0), 0.0)))

    @cached_property
    def _scaling(self) -> Vector:
        """T: factors that make the diagonal of the metric one; 0 for a feature of zeros."""
        size = np.sqrt(np.maximum(self.A.diagonal(), 0.0))
        return np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)

    @cached_property
    def _scaled(self) -> tuple[Vector, Vector]:
        """Eigenvalues and eigenvectors of TAT."""
        T = self._scaling
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = T[:, None] * self.A * T
        values, vectors = np.linalg.eigh(np.nan_to_num((scaled + scaled.T) / 2))
        return values, vectors

    def solve(self, u: Vector) -> Vector:
        """Solve ``A v = u`` approximately, with one refinement."""
        T, (values, vectors) = self._scaling, self._scaled
        floor = 8 * len(values) * np.finfo(float).eps * values.max(initial=0.0)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > floor)
        w = np.zeros_like(u)
        for _ in range(2):
            w = w + T * (vectors @ (inverse * (vectors.T @ (T * (u - self.A @ w)))))
        return w

    def dual_norm_sq(self, v: Vector, energy: Ball, pulled: Ball, by_spread: float) -> Ball:
        """Upper bound on ``u'A⁻¹u`` for any v (m,) that nearly solves ``A v = u``.

        `energy` is ``v'Av``, `pulled` is ``u − D Σ v`` (m,), and `by_spread` another bound on the last term,
        or infinite.
        """
        rho, left = pulled - one_minus(self._D) * Ball(v), [np.inf, by_spread]
        if self._D < 1.0:
            left.append(float((rho.square_sum() * inverse(one_minus(self._D))).upper))
        if len(v) and min(left) > 1e-12 * float(energy.size):
            left.append(self._by_least_eigenvalue(rho))
        return energy + 2.0 * rho.dot(v) + Ball(0.0, min(left))

    def _by_least_eigenvalue(self, rho: Ball) -> float:
        """‖Tρ‖² over a lower bound on the least eigenvalue of TAT."""
        T, values = self._scaling, self._scaled[0]
        if (rho.size[T == 0.0] > 1e-290).any():  # a feature of zeros adds 0, up to underflow
            return np.inf
        # Errors of the entries of A, relative to its diagonal, and of the eigenvalue.
        error = len(T) * (self._n + 8 * len(T) + 40) * np.finfo(float).eps
        if self._centre is not None:
            error *= 1.0 + float(np.abs(self._centre * T).max(initial=0.0) ** 2)
        least = float(values[int((T == 0.0).sum()) :].min(initial=np.inf)) - error
        return float((rho * T).square_sum().upper) / least * (1 + 1e-12) if least > 0.0 else np.inf


def second_moments(X: Matrix, s: Vector, mean: Vector) -> Vector:
    """Σ s_i (x_i − mean)(x_i − mean)'; of sparse samples Σ s_i x_i x_i'."""
    rows: Any = X
    if sp.issparse(rows):
        return np.asarray((rows.T @ rows.multiply(s[:, None]).tocsr()).toarray())
    rows = rows - mean
    return np.asarray((rows * s[:, None]).T @ rows)


def metric_of(moments: Vector, mean: Vector, D: float, n: int, *, is_sparse: bool) -> SigmaMetric:
    """The metric of n samples from the mean of :func:`second_moments`."""
    Sigma = moments - np.outer(mean, mean) if is_sparse else moments
    A = (1.0 - D) * np.eye(len(mean)) + D * Sigma
    return SigmaMetric(A, D, n, mean if is_sparse else None)


def left_by_spread(squares: Ball, total: Ball) -> float:
    """Upper bound on ``N Σ r_i² / s_i``, the last term at D = 1, from the sum of squares and N = Σ s_i."""
    return float((squares * total).upper) * (1 + 1e-12)


def norms_in_metric(own: Vector, D: float, weights: Vector, total: float) -> Vector:
    """Bounds on the norms of centred samples in the metric, from their plain norms `own` (n,).

    By A ⪰ (1-D) I, or by (φ_i − mean)'Σ⁺(φ_i − mean) ≤ N / s_i, with N = `total` the sum of all weights.
    """
    by_norm = own / np.sqrt(max(1.0 - D, 1e-300))
    by_spread = np.sqrt(total / weights) / np.sqrt(max(D, 1e-300))  # D times a weight may be too small
    return np.asarray(np.minimum(by_norm, by_spread) * ABOVE)


def one_minus(D: float) -> Ball:
    """Return 1 − D with its rounding."""
    return 1.0 - Ball(D)


def inverse(x: Ball) -> Ball:
    """Return 1 / x for a positive ball."""
    mid = 1.0 / x.mid
    low = np.maximum(x.mid - x.rad, np.finfo(float).tiny)
    return Ball(mid, (1.0 / low - mid) * ABOVE + 4e-16 * mid)
