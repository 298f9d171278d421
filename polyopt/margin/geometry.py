"""Feature spaces of a hinge program: linear features or a kernel, in the Euclidean or the Sigma-SVM's metric.

A hinge program minimises ½ energy(w) plus hinge losses of the outputs w'φ_i + b, where φ_i are the features
of sample i. The energy is ‖w‖², or w'Aw in the metric A of the Sigma-SVM. `v` represents w: w itself for
linear features, expansion coefficients (n,) for a kernel. `beta` (n,) are signed multipliers, one per sample;
by stationarity the gradient of half the energy is Σ β_i φ_i.

Numbers that a value or a bound depends on are intervals, a :class:`~polyopt.linalg.rounding.Ball` of middle
and radius (``outputs``, ``energy``, ``dual_norm_sq``); the factor ABOVE = 1 + 1e-9 covers the rounding of a
radius itself. Plain floats guide ascents and measure residuals.

Read in this order: :class:`LinearGeometry`, which describes the methods; :class:`KernelGeometry`, with cached
products; the two geometries of the Sigma-SVM; and :class:`SigmaMetric`, which solves with A and bounds the
dual's quadratic term.

The metric of the Sigma-SVM
---------------------------
A = (1-D) I + D Sigma, with Sigma the covariance of the samples under weights s, and N the sum of s. In terms
of the centred outputs f_i = w'(φ_i − mean) the energy is w'Aw = (1-D)‖w‖² + (D/N) Σ s_i f_i². The quadratic
term of the dual is u'A⁻¹u for u = Σ β_i (φ_i − mean). Its linear system A w̃ = u is solved only approximately,
and the residual enters the bound: for *any* w̃, with ρ = u − A w̃,

    u'A⁻¹u = w̃'Aw̃ + 2 w̃'ρ + ρ'A⁻¹ρ,

so only the last term needs an upper bound, which is small if w̃ is accurate: the smallest of

    ‖ρ‖² / (1−D),      N Σ r_i² / s_i  at D = 1, where ρ = Σ r_i (φ_i − mean),      ‖Tρ‖² / λ_min(TAT).

The second is the Cauchy-Schwarz inequality in the span of the samples; the third is for linear features, with
T diagonal such that the diagonal of TAT is one.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

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
from polyopt.linalg.rounding import ABOVE, Ball, gamma, product, row_blocks, transposed_product

CACHE_BYTES = 2**29  # memory for cached columns of a Gram matrix
_MAX_RESULTS = 8  # number of vectors whose products with a Gram matrix are cached
_ROWS = 512  # rows of a Gram matrix that one task multiplies
_SUM_LENGTH = 64  # terms of a partial sum; a sum of partial sums has smaller rounding errors
_SMALL_EIGENVALUES_NOTE = (
    "At D=1 with a kernel the optimum depends on the least eigenvalues, which rounding hides: the bound is "
    "tight only if all of them are large."
)


def middle(X: Matrix) -> Vector | None:
    """Return the mean of dense samples (n, m), or None for sparse samples, which are not centred."""
    return None if sp.issparse(X) else middle_of(X)


class LinearGeometry:
    """Linear features in the Euclidean norm.

    If `centred`, dense samples are shifted by their mean; if `centre` (m,) is given, by `centre`. With a free
    intercept the program is equivalent, and for samples far from the origin it loses fewer digits.
    """

    note = ""  # a sentence about the bounds for the reader of a certificate
    gradient_scale = 1.0  # largest entry that the gradient of half the energy can have at an energy of 1
    # Magnitude of the most negative eigenvalue of the Gram matrix. The nearest semidefinite matrix changes
    # the outputs of v by at most psd_defect ‖v‖, in the 2-norm.
    psd_defect = 0.0

    def __init__(self, X: Matrix, *, centred: bool = False, centre: Vector | None = None):
        self.X: Matrix = canonical(as_csr(X, float)) if sp.issparse(X) else np.asarray(X, dtype=float)
        self.n, m = self.X.shape
        self._shift = middle(self.X) if centred else None
        if centre is not None and not sp.issparse(self.X):
            self._shift = centre
        self.centre = np.zeros(m) if self._shift is None else self._shift

    def prepare(self, *vectors: Vector) -> None:
        """Cache the products for these v and beta in one pass over the data, if that is faster."""

    def scores(self, v: Vector) -> Vector:
        """Return w'φ_i for every sample, shape (n,)."""
        if self._shift is None:
            return np.asarray(self.X @ v)
        return np.concatenate([rows @ v for _, rows in row_blocks(self.X, self._shift)])

    def outputs(self, v: Vector) -> Ball:
        """Return :meth:`scores` as intervals that include their rounding."""
        return product(self.X, v, self._shift)

    def centred_intercept(self, v: Vector, intercept: float) -> Ball:
        """Return the intercept for the samples as `scores` centres them, from that for samples as given."""
        return Ball(intercept) if self._shift is None else Ball(v).dot(self._shift) + intercept

    def gradient(self, v: Vector) -> Vector:
        """Return the gradient of half the energy; for a kernel, its inner products with all φ_i."""
        return v

    def adjoint(self, beta: Vector) -> Vector:
        """Return the gradient of Σ β_i w'φ_i, in the units of :meth:`gradient`."""
        if self._shift is None:
            return np.asarray(self.X.T @ beta)
        parts = [rows.T @ beta[part] for part, rows in row_blocks(self.X, self._shift)]
        return np.asarray(np.add.reduce(parts))

    def columns(self, samples: Samples) -> Vector:
        """Return a matrix with a column for each sample: :meth:`adjoint` of the sample's unit vector."""
        rows: Any = self.X[samples]
        return np.asarray((rows.toarray() if sp.issparse(rows) else rows - self.centre).T)

    def adjoint_scale(self, beta: Vector) -> float:
        """Return the size of the terms of :meth:`adjoint`, to which its rounding errors are proportional."""
        return float(np.max(self.adjoint_sizes(beta), initial=0.0))

    def adjoint_sizes(self, beta: Vector) -> Vector:
        """Return the sums of the absolute terms of :meth:`adjoint`, shape (m,)."""
        magnitude, sums = np.abs(beta), np.zeros(self.X.shape[1])
        for part, rows in row_blocks(self.X, self._shift):
            sums += abs(rows).T @ magnitude[part]
        return sums

    def primal_from_dual(self, beta: Vector) -> Vector:
        """Return the v whose gradient is ``adjoint(beta)``: the minimiser of the Lagrangian."""
        return self.adjoint(beta)

    def energy(self, v: Vector) -> Ball:
        """Return twice the regulariser: ``‖w‖²``, or ``w'Aw`` in another metric."""
        return Ball(v).square_sum()

    def dual_norm_sq(self, beta: Vector) -> Ball:
        """Bound twice the dual's quadratic term, the energy of ``primal_from_dual(beta)``, from above."""
        return transposed_product(self.X, beta, self._shift).square_sum()

    def norm_bounds(self) -> Vector:
        """Return upper bounds on the norms of the samples in the metric of :meth:`dual_norm_sq`, (n,)."""
        norms = np.empty(self.n)
        for part, rows in row_blocks(self.X, self._shift):
            squares = rows.multiply(rows) if sp.issparse(rows) else rows**2
            norms[part] = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        return norms * (1.0 + 1e-12)

    def curvature(self) -> float:
        """Estimate the largest eigenvalue of ``beta -> scores(primal_from_dual(beta))``."""
        return largest_eigenvalue(lambda beta: self.scores(self.primal_from_dual(beta)), self.n)


class KernelGeometry:
    """The feature space of a Gram matrix K (n, n); v are expansion coefficients, w = Σ v_i φ_i.

    A certificate multiplies K by a few similar vectors: the coefficients, those implied by the multipliers,
    and both after a repair. The products of the last few vectors are cached, and columns of K up to a memory
    limit; other columns are computed again in each pass over the matrix, so :meth:`prepare` takes several
    vectors in one pass.

    The smallest eigenvalue of K is at least -`psd_defect` (:func:`polyopt.linalg.kernels.require_psd`):
    values and bounds are valid for every semidefinite matrix within that distance.
    """

    def __init__(self, gram: Gram | Any, psd_defect: float = 0.0, cache_bytes: int = CACHE_BYTES):
        gram = as_gram(gram)
        # `careful` computes RBF distances by differences, which is more accurate, unless it costs much more.
        self.gram = gram.careful() if isinstance(gram, SampleGram) else gram
        self.n = self.gram.n
        diagonal = self.gram.diagonal()
        self.gradient_scale = float(np.sqrt(max(diagonal.max(), 0.0)))
        self.psd_defect, self.note = psd_defect, ""
        self._all_samples = np.arange(self.n)
        self._cached_columns: list[tuple[Samples, Vector]] = []  # groups of samples, with K[:, samples]
        self._is_cached = np.zeros(self.n, dtype=bool)
        self._free_columns = cache_bytes // (8 * self.n)  # number of columns that still fit in the cache
        self._results: dict[bytes, tuple[Vector, Vector | None]] = {}  # K v, and |K| |v| if computed
        if isinstance(self.gram, MatrixGram):  # K is in memory
            self._cached_columns.append((self._all_samples, self.gram.K))
            self._is_cached[:] = True
        # K_ij has an error of at most _error sizes_i sizes_j; sizes_i is at least ‖φ_i‖, or infinite.
        self._error, self._sizes = self.gram.entry_error()
        if psd_defect > 1e-12 * self.n * float(np.abs(diagonal).max(initial=0.0)):
            self.note = (
                f"The Gram matrix has an eigenvalue near {-psd_defect:.2g}: the certificate holds for every "
                "semidefinite matrix within that distance of it."
            )

    def scores(self, v: Vector) -> Vector:
        """Return ``K v``, shape (n,), read-only."""
        if _key(v) not in self._results:
            self._compute({_key(v): v}, absolute=False)
        return self._results[_key(v)][0]

    gradient = adjoint = scores

    def terms(self, v: Vector) -> Vector:
        """Return ``|K| |v|``, shape (n,), the sums of the absolute terms of ``K v``."""
        self.prepare(v)
        terms = self._results[_key(v)][1]
        assert terms is not None
        return terms

    def prepare(self, *vectors: Vector) -> None:
        """Compute both products of these vectors in one pass over the matrix, unless they are cached."""
        new = {_key(v): v for v in vectors if self._results.get(_key(v), (v, None))[1] is None}
        if new:
            self._compute(new, absolute=True)

    def columns(self, samples: Samples) -> Vector:
        """Return ``K[:, samples]``."""
        columns = np.empty((self.gram.n, len(samples)))
        panel = self.gram.panel(samples, np.float64)
        for rows in chunks(self._all_samples):
            panel.rows(rows, out=columns[rows[0] : rows[-1] + 1])
        return columns

    def _compute(self, vectors: dict[bytes, Vector], *, absolute: bool) -> None:
        """Cache ``K v`` of each vector and, if `absolute`, ``|K| |v|``; drop the oldest results."""
        V = np.array(list(vectors.values())).T
        k = V.shape[1]
        V_and_sizes = np.hstack([V, np.abs(V)]) if absolute else V
        result = np.zeros((self.gram.n, V_and_sizes.shape[1]))  # K V, and |K| |V|
        tiles = list(self._tiles(np.flatnonzero(V.any(axis=1))))

        def multiply_rows(start: int) -> None:
            part = slice(start, start + _ROWS)
            for samples, rows_of in tiles:
                block, tile = rows_of(part), V_and_sizes[samples]
                result[part, :k] += _product(block, tile[:, :k])
                if absolute:
                    result[part, k:] += np.abs(block) @ tile[:, k:]

        count = sum(len(samples) for samples, _ in tiles)
        run_blocks(multiply_rows, range(0, self.gram.n, _ROWS), self._cost(count))
        result.setflags(write=False)
        for column, key in enumerate(vectors):
            self._results.pop(key, None)  # so that the key becomes the last one of the dict
            self._results[key] = result[:, column], result[:, k + column] if absolute else None
        while len(self._results) > _MAX_RESULTS:
            del self._results[next(iter(self._results))]

    def _cost(self, columns: int) -> float:
        """Return the multiplications for this number of columns; 0 to use one thread, for K in Python."""
        if not isinstance(self.gram, SampleGram) or callable(self.gram.kernel.name):
            return 0.0
        return float(self.gram.n) * columns * (self.gram.entry_cost + 8)

    def _tiles(self, support: Samples) -> Iterator[tuple[Samples, Callable[[slice], Vector]]]:
        """Yield groups of samples in the support, with a function of a slice that returns K[slice, samples].

        The missing columns are cached if there is memory for all of them.
        """
        missing = support[~self._is_cached[support]]
        if 0 < len(missing) <= self._free_columns:
            self._cached_columns.append((missing, self.columns(missing)))
            self._is_cached[missing] = True
            self._free_columns -= len(missing)
            missing = missing[:0]
        for samples, columns in self._cached_columns:
            for positions in chunks(np.arange(len(samples))):
                chunk = slice(positions[0], positions[-1] + 1)
                yield samples[chunk], columns[:, chunk].__getitem__  # slice -> rows of these columns
        for samples in chunks(missing):
            panel = self.gram.panel(samples, np.float64)
            yield samples, partial(self._rows, panel)

    def _rows(self, panel: Panel, part: slice) -> Vector:
        return panel.rows(self._all_samples[part])

    def outputs(self, v: Vector) -> Ball:
        """Return ``K v`` with the rounding of its sums, and with the errors of the computed entries of K."""
        terms = self.terms(v)
        # Roundings of a term: in its partial sum, in the sum over its chunk, and over all chunks and groups.
        k = _SUM_LENGTH + CHUNK_ROWS // _SUM_LENGTH + len(v) // CHUNK_ROWS + len(self._cached_columns) + 6
        outputs = Ball(self.scores(v), gamma(k) * terms * ABOVE)
        if not self._error:
            return outputs
        entry_errors = self._error * (self._sizes * float(self._sizes @ np.abs(v)))
        return Ball(outputs.mid, outputs.rad + entry_errors * ABOVE)

    def centred_intercept(self, v: Vector, intercept: float) -> Ball:
        return Ball(intercept)

    def adjoint_scale(self, beta: Vector) -> float:
        return float(self.terms(beta).max(initial=0.0))

    def primal_from_dual(self, beta: Vector) -> Vector:
        return beta

    def energy(self, v: Vector) -> Ball:
        energy = Ball(v).dot(self.outputs(v))
        energy = Ball(energy.mid, energy.rad + self.psd_defect * float(v @ v) * ABOVE)
        # A square is not negative, though rounding may be.
        return energy if energy.mid >= 0.0 else Ball(0.0, float(energy.size))

    dual_norm_sq = energy

    def norm_bounds(self) -> Vector:
        norms = self._sizes  # infinite for a kernel that is a function
        if not np.isfinite(norms).all():
            norms = np.full(self.n, np.sqrt(np.abs(self.gram.diagonal()).max()))
        return np.sqrt(norms**2 + self.psd_defect) * ABOVE

    def curvature(self) -> float:
        # Evenly spaced samples have about the same mean outer product as all samples.
        subset = spread_samples(self.n)
        K = self.gram.panel(subset, np.float64).rows(subset)
        return self.n / len(subset) * largest_eigenvalue(lambda beta: K @ beta, len(subset))


def _product(block: Vector, V: Vector) -> Vector:
    """Return ``block @ V``, in partial sums."""
    result = np.zeros((len(block), V.shape[1]))
    for start in range(0, len(V), _SUM_LENGTH):
        chunk = slice(start, start + _SUM_LENGTH)
        result += block[:, chunk] @ V[chunk]
    return result


def _key(v: Vector) -> bytes:
    return (v + 0.0).tobytes()  # 0.0 and -0.0 are the same


def largest_eigenvalue(apply_map: Callable[[Vector], Vector], n: int) -> float:
    """Estimate the largest eigenvalue of a semidefinite map on n numbers, from below, by power iteration."""
    direction = np.cos(np.arange(n) + 1.0)  # hardly orthogonal to any eigenvector of real data
    largest, norm = 0.0, float(np.linalg.norm(direction))
    for _ in range(30):  # reaches a few percent, which is enough for a step length
        direction = apply_map(direction / norm)
        norm = float(np.linalg.norm(direction))
        if norm == 0.0 or not np.isfinite(norm):
            break
        largest = max(largest, norm)
    return largest


class _SigmaGeometry:
    """The metric (1-D) I + D Sigma on the Euclidean feature space `plain`; scores are of centred samples.

    `weights` (n,), all positive, are the s_i of the mean and of the covariance Sigma.
    """

    psd_defect = 0.0

    def __init__(self, plain: Any, D: float, weights: Vector):
        self._plain, self.n, self.D, self.weights = plain, plain.n, D, weights
        self._total = Ball(weights).sum()  # N

    def prepare(self, *vectors: Vector) -> None:
        self._plain.prepare(*vectors)

    def _mean(self, g: Ball) -> Ball:
        """Return the weighted mean of g (n,)."""
        return g.dot(self.weights) * inverse(self._total)

    def scores(self, v: Vector) -> Vector:
        g = self._plain.scores(v)
        return np.asarray(g - self.weights @ g / float(self._total.mid))

    def outputs(self, v: Vector) -> Ball:
        g: Ball = self._plain.outputs(v)
        return g - self._mean(g)

    def centred_intercept(self, v: Vector, intercept: float) -> Ball:
        plain: Ball = self._plain.centred_intercept(v, intercept)
        return plain + self._mean(self._plain.outputs(v))

    def primal_from_dual(self, beta: Vector) -> Vector:
        raise NotImplementedError

    def curvature(self) -> float:
        return largest_eigenvalue(lambda beta: self.scores(self.primal_from_dual(beta)), self.n)


class SigmaLinearGeometry(_SigmaGeometry):
    """Linear features in the metric of the Sigma-SVM."""

    note = ""

    def __init__(self, X: Matrix, D: float, weights: Vector):
        plain = LinearGeometry(X, centred=True)
        super().__init__(plain, D, weights)
        self.X = plain.X
        # The mean: the point that the plain geometry subtracts, plus the mean of the shifted samples.
        self.centre = plain.centre + plain.adjoint(self.weights) / float(self._total.mid)
        self.gradient_scale = self._metric.gradient_scale

    @cached_property
    def _metric(self) -> "SigmaMetric":
        X, m = self.X, self.X.shape[1]
        if m > MAX_SQUARE_ROWS:
            raise ValueError(
                f"{m} features have a covariance of {8e-9 * m * m:.0f} GB, and the Sigma-SVM takes at most "
                f"{MAX_SQUARE_ROWS}: choose fewer features, or D=0"
            )
        Sigma = np.zeros((m, m))
        for part in chunks(np.arange(self.n)):
            Sigma += second_moments(X[part], self.weights[part], self.centre)
        return sigma_metric(
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
        # u − D Sigma v = Σ r_i (φ_i − mean); at D = 1 it is the residual ρ.
        r = Ball(beta) - self.D * (self.outputs(v) * self.weights) * inverse(self._total)
        partial_residual, bound_by_samples = transposed_product(self.X, r, self._plain._shift), np.inf
        if self.D == 1.0:
            bound_by_samples = residual_bound_by_samples((r * r).dot(1.0 / self.weights), self._total)
        return self._metric.dual_norm_sq(v, self.energy(v), partial_residual, bound_by_samples)

    def norm_bounds(self) -> Vector:
        shift_norm = float(np.linalg.norm(self.centre - self._plain.centre)) * ABOVE
        norms = self._plain.norm_bounds() + shift_norm
        return norms_in_metric(norms, self.D, self.weights, float(self._total.mid))


class SigmaKernelGeometry(_SigmaGeometry):
    """The feature space of a kernel in the metric of the Sigma-SVM; w = Σ v_i φ_i.

    The Gram matrix is not centred; `psd_defect` is as in :class:`KernelGeometry`. `factors` are the
    eigenvalues and eigenvectors of S^(1/2) Kc S^(1/2), with S = diag(weights) and Kc the centred Gram matrix
    (:class:`formulations.centred_kernel.CentredKernel`); the bounds are valid for any factors.
    """

    def __init__(
        self, gram: Gram, D: float, weights: Vector, factors: tuple[Vector, Vector], psd_defect: float = 0.0
    ):
        super().__init__(KernelGeometry(gram, psd_defect), D, weights)
        self.gram, self.gradient_scale = gram, self._plain.gradient_scale
        self._values, self._vectors = factors
        self.note = f"{self._plain.note} {_SMALL_EIGENVALUES_NOTE if D == 1.0 else ''}".strip()
        # The outputs are centred by I − 1s'/N, whose norm is at most 1 + √n ‖s‖ / N.
        centring = 1.0 + np.sqrt(self.n) * float(np.linalg.norm(weights) / weights.sum())
        self.psd_defect = psd_defect * centring * ABOVE

    def _weigh(self, f: Ball) -> Ball:
        """Return ``s_i f_i / N``, the terms of the weighted mean of f."""
        return f * self.weights * inverse(self._total)

    def gradient(self, v: Vector) -> Vector:
        return self.adjoint((1.0 - self.D) * v + self.D * self._weigh(self.outputs(v)).mid)

    def adjoint(self, beta: Vector) -> Vector:
        return self.scores(self._uncentred(beta))

    def _uncentred(self, c: Vector) -> Vector:
        """Return the v with Σ v_i φ_i = Σ c_i (φ_i − mean)."""
        return np.asarray(c - self.weights * (c.sum() / float(self._total.mid)))

    def columns(self, samples: Samples) -> Vector:
        total = float(self._total.mid)
        columns = self._plain.columns(samples)
        columns = columns - self._plain.scores(self.weights / total)[:, None]  # φ_j less the mean
        return np.asarray(columns - (self.weights @ columns) / total)  # φ_i less the mean

    def adjoint_scale(self, beta: Vector) -> float:
        return float(self._plain.adjoint_scale(self._uncentred(beta)))

    def primal_from_dual(self, beta: Vector) -> Vector:
        """Solve (1−D) v + (D/N) S f = β, with f the centred outputs of v, and one refinement.

        For v = S^(1/2) z and eigenvectors Q this is S^(1/2) ((1−D) I + (D/N) Q diag(eigenvalues) Q') z = β.
        """
        if self.D == 0.0:
            return beta
        root_weights = np.sqrt(self.weights)
        metric = (1.0 - self.D) + self.D * np.maximum(self._values, 0.0) / float(self._total.mid)
        floor = 8 * self.n * np.finfo(float).eps * float(np.max(metric, initial=0.0))
        # Pseudo-inverse: eigenvalues below the rounding count as 0.
        reciprocals = np.divide(1.0, metric, out=np.zeros_like(metric), where=metric > floor)
        v = np.zeros_like(beta)
        for _ in range(2):
            residual = beta
            if v.any():
                residual = beta - (1.0 - self.D) * v - self.D * self._weigh(self.outputs(v)).mid
            in_span = self._vectors.T @ (residual / root_weights)
            step = self._vectors @ (reciprocals * in_span)  # change of z = S^(-1/2) v
            if self.D < 1.0:  # orthogonal to the eigenvectors the covariance is 0
                step = step + (residual / root_weights - self._vectors @ in_span) / (1.0 - self.D)
            v = self._uncentred(v + root_weights * step)
        return v

    def energy(self, v: Vector) -> Ball:
        g = self._plain.outputs(v)
        f = g - self._mean(g)
        energy = one_minus(self.D) * g.dot(v) + self.D * self._weigh(f).dot(f)
        energy = Ball(energy.mid, energy.rad + self._defect_error(f, v))
        return energy if energy.mid >= 0.0 else Ball(0.0, float(energy.size))

    def _defect_error(self, f: Ball, *vectors: Vector) -> float:
        """Bound the change of the energy of v, or of v and a residual, if K changes by up to `psd_defect`.

        f: the centred outputs of v, which change by up to `psd_defect` ‖v‖; the factor 4 is generous.
        """
        if not self.psd_defect:
            return 0.0
        norms = sum(float(np.linalg.norm(v)) for v in vectors)
        weighted = self.D * (float(np.linalg.norm(self._weigh(f).size)) + self.psd_defect * norms)
        return float(4.0 * self.psd_defect * norms * (norms + weighted))

    def dual_norm_sq(self, beta: Vector) -> Ball:
        v = self.primal_from_dual(beta)
        f = self.outputs(v)
        # The residual is ρ = Σ r_i φ_i; Kr are its scores, and v'Kr is w̃'ρ.
        r = Ball(beta) - one_minus(self.D) * Ball(v) - self.D * self._weigh(f)
        Kr = self._plain.outputs(r.mid)
        norms = self._plain.norm_bounds()
        Kr = Ball(Kr.mid, Kr.rad + norms * float(r.rad @ norms) * ABOVE)
        if self.D < 1.0:
            residual_term = float((Kr.dot(r) * inverse(one_minus(self.D))).upper)
        else:  # Σ r_i = 0, because Σ β_i = 0 and Σ s_i f_i = 0; hence ρ = Σ r_i (φ_i − mean)
            residual_term = float((r * r * Ball(1.0 / self.weights, 4e-16 / self.weights)).sum().upper)
            residual_term *= float(self._total.upper) * (1 + 1e-12)
        defect_term = self._defect_error(f, v, r.size)
        return self.energy(v) + 2.0 * Kr.dot(v) + Ball(0.0, max(residual_term, 0.0) + defect_term)

    def norm_bounds(self) -> Vector:
        plain = self._plain.norm_bounds()
        centred = plain + float(plain.max(initial=0.0))
        return norms_in_metric(centred, self.D, self.weights, float(self._total.upper))


Geometry = LinearGeometry | KernelGeometry | SigmaLinearGeometry | SigmaKernelGeometry
"""A feature space with the methods of :class:`LinearGeometry`."""


class SigmaMetric:
    """The metric A = (1-D) I + D Sigma (m, m) of linear features; its entries are sums over n samples.

    `centre` (m,) is the mean if Sigma was computed as the mean of x x' minus mean mean', which loses digits;
    else None.
    """

    def __init__(self, A: Vector, D: float, n: int, centre: Vector | None):
        self.A, self._D, self._n, self._centre = A, D, n, centre
        self.gradient_scale = float(np.sqrt(max(A.diagonal().max(initial=0.0), 0.0)))

    @cached_property
    def _scaling(self) -> Vector:
        """The diagonal of T (m,), with which the diagonal of TAT is one; 0 for a feature of zeros."""
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
        reciprocals = np.divide(1.0, values, out=np.zeros_like(values), where=values > floor)
        v = np.zeros_like(u)
        for _ in range(2):  # A⁻¹ = T (TAT)⁻¹ T
            v = v + T * (vectors @ (reciprocals * (vectors.T @ (T * (u - self.A @ v)))))
        return v

    def dual_norm_sq(self, v: Vector, energy: Ball, partial_residual: Ball, bound_by_samples: float) -> Ball:
        """Bound ``u'A⁻¹u`` from above; v (m,) is arbitrary, and the bound is tight if ``A v = u``.

        `energy` is ``v'Av``, `partial_residual` is ``u − D Sigma v`` (m,), and `bound_by_samples` is another
        bound on the last term ρ'A⁻¹ρ, or infinite.
        """
        rho = partial_residual - one_minus(self._D) * Ball(v)
        bounds = [np.inf, bound_by_samples]
        if self._D < 1.0:
            bounds.append(float((rho.square_sum() * inverse(one_minus(self._D))).upper))
        if len(v) and min(bounds) > 1e-12 * float(energy.size):  # else the last term is negligible
            bounds.append(self._by_least_eigenvalue(rho))
        return energy + 2.0 * rho.dot(v) + Ball(0.0, min(bounds))

    def _by_least_eigenvalue(self, rho: Ball) -> float:
        """Return ‖Tρ‖² over a lower bound on λ_min(TAT); infinite if that is not positive."""
        T, values = self._scaling, self._scaled[0]
        if (rho.size[T == 0.0] > 1e-290).any():  # a feature of zeros adds 0, up to underflow
            return np.inf
        # Bound on the error of the least eigenvalue of TAT, from the entries and from its computation.
        error = len(T) * (self._n + 8 * len(T) + 40) * np.finfo(float).eps
        if self._centre is not None:
            error *= 1.0 + float(np.abs(self._centre * T).max(initial=0.0) ** 2)
        n_zeros = int((T == 0.0).sum())  # eigenvalues of features of zeros, which come first
        least = float(values[n_zeros:].min(initial=np.inf)) - error
        return float((rho * T).square_sum().upper) / least * (1 + 1e-12) if least > 0.0 else np.inf


def second_moments(X: Matrix, s: Vector, mean: Vector) -> Vector:
    """Return Σ s_i (x_i − mean)(x_i − mean)' (m, m); for sparse samples Σ s_i x_i x_i'."""
    rows: Any = X
    if sp.issparse(rows):
        return np.asarray((rows.T @ rows.multiply(s[:, None]).tocsr()).toarray())
    rows = rows - mean
    return np.asarray((rows * s[:, None]).T @ rows)


def sigma_metric(moments: Vector, mean: Vector, D: float, n: int, *, is_sparse: bool) -> SigmaMetric:
    """Return the metric for n samples, from :func:`second_moments` divided by the sum of the weights."""
    Sigma = moments - np.outer(mean, mean) if is_sparse else moments
    A = (1.0 - D) * np.eye(len(mean)) + D * Sigma
    return SigmaMetric(A, D, n, mean if is_sparse else None)


def residual_bound_by_samples(squares: Ball, total: Ball) -> float:
    """Bound ρ'A⁻¹ρ at D = 1 by ``N Σ r_i² / s_i``, from the sum `squares` of r_i² / s_i and `total` N."""
    return float((squares * total).upper) * (1 + 1e-12)


def norms_in_metric(plain_norms: Vector, D: float, weights: Vector, total: float) -> Vector:
    """Bound the norms of centred samples in the metric A⁻¹, from their Euclidean norms (n,).

    Return the smaller of two bounds: one from A ⪰ (1-D) I, and one from (φ_i − mean)' Sigma⁺ (φ_i − mean)
    ≤ N / s_i, where N is `total`, the sum of all weights.
    """
    by_norm = plain_norms / np.sqrt(max(1.0 - D, 1e-300))
    by_weight = np.sqrt(total / weights) / np.sqrt(max(D, 1e-300))  # D times a weight may be too small
    return np.asarray(np.minimum(by_norm, by_weight) * ABOVE)


def one_minus(D: float) -> Ball:
    """Return 1 − D with its rounding."""
    return 1.0 - Ball(D)


def inverse(x: Ball) -> Ball:
    """Return 1 / x for a positive ball."""
    mid = 1.0 / x.mid
    low = np.maximum(x.mid - x.rad, np.finfo(float).tiny)
    return Ball(mid, (1.0 / low - mid) * ABOVE + 4e-16 * mid)
