"""The Sigma-SVM's metric A = (1-D) I + D Sigma, linear or in the feature space of a kernel.

The energy w'Aw needs outputs alone: (1-D)‖w‖² + (D/N) Σ s_i f_i², with f_i = w'(φ_i − mean), s the weights of
the samples and N their sum. The dual pays u'A⁻¹u for u = Σ β_i (φ_i − mean), and for that a linear system is
solved, which is never solved exactly. For *any* w̃, with ρ = u − A w̃,

    u'A⁻¹u = w̃'Aw̃ + 2 w̃'ρ + ρ'A⁻¹ρ,

so that only the last term, small where w̃ is good, needs a bound. Three hold, and the least is taken:

    ‖ρ‖² / (1−D),      N Σ r_i² / s_i  at D = 1, where ρ = Σ r_i (φ_i − mean),      ‖Tρ‖² / λ_min(TAT).

The second is the Cauchy-Schwarz inequality in the span of the samples; the third is for linear features,
where T is diagonal and makes the diagonal of A one. Nothing is cut off: what the solution of the system
leaves out is in the bound.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from polyopt.linalg.kernels.panels import MAX_WHOLE
from polyopt.linalg.rounding import ABOVE, Ball, transposed_product
from polyopt.margin.geometry import BLOCK, KernelGeometry, LinearGeometry, largest_eigenvalue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector
    from polyopt.linalg.kernels import Gram


__all__ = [
    "SigmaKernelGeometry",
    "SigmaLinearGeometry",
    "SigmaMetric",
    "inverse",
    "kept",
    "left_by_spread",
    "sizes_in_metric",
]


_HIDDEN = (
    "At D=1 with a kernel the optimum rests on the least eigenvalues, which rounding hides: the bound is "
    "good only where they are all large."
)


class SigmaLinearGeometry:
    """Linear features in the metric (1-D) I + D Sigma; scores are of centred samples, as in eq. (3).

    `weights` (n,) of the samples in mean and covariance are 1 by default.
    """

    note, short = "", 0.0

    def __init__(self, X: Matrix, D: float, weights: Vector | None = None):
        self._plain = LinearGeometry(X, centred=True)
        self.X, self.n, self.D = self._plain.X, self._plain.n, D
        self.weights = np.ones(self.n) if weights is None else weights
        self.total = float(self.weights.sum())
        # The mean, as the point amid the samples and what is left from there.
        self.centre = self._plain.centre + self._plain.pull(self.weights) / self.total
        self.unit = self._metric.unit

    def prepare(self, *vectors: Vector) -> None:
        pass

    @cached_property
    def _metric(self) -> SigmaMetric:
        X, m = self.X, self.X.shape[1]
        if m > MAX_WHOLE:
            raise ValueError(
                f"{m} features have a covariance of {8e-9 * m * m:.0f} GB, and the Sigma-SVM takes at most "
                f"{MAX_WHOLE}: choose fewer features, or D=0"
            )
        Sigma, shift = np.zeros((m, m)), self.centre
        for start in range(0, self.n, BLOCK):
            rows: Any = X[start : start + BLOCK]
            s = self.weights[start : start + BLOCK]
            if sp.issparse(rows):
                Sigma += (rows.T @ rows.multiply(s[:, None]).tocsr()).toarray()
            else:
                rows = rows - shift
                Sigma += (rows * s[:, None]).T @ rows
        Sigma /= self.total
        if sp.issparse(X):
            Sigma -= np.outer(shift, shift)
        A = (1.0 - self.D) * np.eye(m) + self.D * Sigma
        return SigmaMetric(A, self.D, self.n, shift if sp.issparse(X) else None)

    def scores(self, v: Vector) -> Vector:
        g = self._plain.scores(v)
        return g - self.weights @ g / self.total

    def outputs(self, v: Vector) -> Ball:
        g = self._plain.outputs(v)
        return g - g.dot(self.weights) * inverse(self._total)

    def moved(self, v: Vector, intercept: float) -> Ball:
        """The intercept for centred samples, from the one for samples as they are."""
        mean = self._plain.outputs(v).dot(self.weights) * inverse(self._total)
        return self._plain.moved(v, intercept) + mean

    @cached_property
    def _total(self) -> Ball:
        return Ball(self.weights).sum()

    def gradient(self, v: Vector) -> Vector:
        return self._metric.A @ v

    def pull(self, beta: Vector) -> Vector:
        return np.asarray(self._plain.pull(beta) - (self.centre - self._plain.centre) * beta.sum())

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        return self._plain.columns(samples) - (self.centre - self._plain.centre)[:, None]

    def pull_scale(self, beta: Vector) -> float:
        return self._plain.pull_scale(beta)

    def represent(self, beta: Vector) -> Vector:
        return self._metric.solve(self.pull(beta))

    def energy(self, v: Vector) -> Ball:
        f, v = self.outputs(v), np.asarray(v)
        spread = (f * f).dot(self.weights) * inverse(self._total)
        return kept(self.D) * Ball(v).square_sum() + self.D * spread

    def price(self, beta: Vector) -> Ball:
        v = self.represent(beta)
        r = Ball(beta) - self.D * (self.outputs(v) * self.weights) * inverse(self._total)
        pulled, by_spread = transposed_product(self.X, r, self._plain._shift), np.inf
        if self.D == 1.0:
            by_spread = left_by_spread((r * r).dot(1.0 / self.weights), self._total)
        return self._metric.price(v, self.energy(v), pulled, by_spread)

    def sizes(self) -> Vector:
        spread = float(np.linalg.norm(self.centre - self._plain.centre)) * ABOVE
        return sizes_in_metric(self._plain.sizes() + spread, self.D, self.weights, self.total)

    def curvature(self) -> float:
        return largest_eigenvalue(lambda beta: self.scores(self.represent(beta)), self.n)


class SigmaKernelGeometry:
    """The same in the feature space of a kernel; v are coefficients, ``w = sum_i v_i phi(x_i)``.

    The Gram matrix is that of the kernel, not centred; `weights` (n,) are positive; `short` is as in
    :class:`~polyopt.margin.geometry.KernelGeometry`. `factors` are eigenvalues and vectors of S^(1/2)
    Kc S^(1/2), as :class:`formulations.centred_kernel.CentredKernel` has them; the bounds are valid for any
    factors.
    """

    def __init__(
        self, gram: Gram, D: float, weights: Vector, factors: tuple[Vector, Vector], short: float = 0.0
    ):
        self.gram, self._kernel = gram, KernelGeometry(gram, short)
        self.n, self.D, self.weights = gram.n, D, weights
        self.note = f"{self._kernel.note} {_HIDDEN if D == 1.0 else ''}".strip()
        # Outputs are less their mean: I − 1s'/N is of a norm of at most 1 + √n ‖s‖ / N.
        centring = 1.0 + np.sqrt(self.n) * float(np.linalg.norm(weights) / weights.sum())
        self.short = short * centring * ABOVE
        self._total = Ball(weights).sum()
        self._values, self._vectors = factors
        self.unit = self._kernel.unit

    def prepare(self, *vectors: Vector) -> None:
        self._kernel.prepare(*vectors)

    def _mean(self, g: Ball) -> Ball:
        return g.dot(self.weights) * inverse(self._total)

    def scores(self, v: Vector) -> Vector:
        g = self._kernel.scores(v)
        return g - self.weights @ g / float(self._total.mid)

    def outputs(self, v: Vector) -> Ball:
        g = self._kernel.outputs(v)
        return g - self._mean(g)

    def moved(self, v: Vector, intercept: float) -> Ball:
        """The intercept for centred samples, from the one for samples as they are."""
        return self._mean(self._kernel.outputs(v)) + intercept

    def _spread(self, f: Ball) -> Ball:
        return f * self.weights * inverse(self._total)

    def gradient(self, v: Vector) -> Vector:
        return self.pull((1.0 - self.D) * v + self.D * self._spread(self.outputs(v)).mid)

    def pull(self, beta: Vector) -> Vector:
        even = self._balanced(beta)
        return self.scores(even)

    def _balanced(self, c: Vector) -> Vector:
        """Coefficients of the samples from those of the centred ones."""
        return np.asarray(c - self.weights * (c.sum() / float(self._total.mid)))

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        total = float(self._total.mid)
        columns = self._kernel.columns(samples)
        columns = columns - self._kernel.scores(self.weights / total)[:, None]
        return columns - (self.weights @ columns) / total

    def pull_scale(self, beta: Vector) -> float:
        return self._kernel.pull_scale(self._balanced(beta))

    def represent(self, beta: Vector) -> Vector:
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
            if self.D < 1.0:  # what the factors leave out has no spread
                step = step + (left / half - self._vectors @ inside) / (1.0 - self.D)
            v = self._balanced(v + half * step)
        return v

    def energy(self, v: Vector) -> Ball:
        g = self._kernel.outputs(v)
        f = g - self._mean(g)
        found = kept(self.D) * g.dot(v) + self.D * self._spread(f).dot(f)
        found = Ball(found.mid, found.rad + self._near(f, v))
        return found if found.mid >= 0.0 else Ball(0.0, float(found.size))

    def _near(self, f: Ball, *vectors: Vector) -> float:
        """A generous bound on the change of products of vectors for a matrix within `short`."""
        if not self.short:
            return 0.0
        length = sum(float(np.linalg.norm(v)) for v in vectors)
        spread = self.D * (float(np.linalg.norm(self._spread(f).size)) + self.short * length)
        return float(4.0 * self.short * length * (length + spread))

    def price(self, beta: Vector) -> Ball:
        v = self.represent(beta)
        f = self.outputs(v)
        r = Ball(beta) - kept(self.D) * Ball(v) - self.D * self._spread(f)
        Kr = self._kernel.outputs(r.mid)
        sizes = self._kernel.sizes()
        Kr = Ball(Kr.mid, Kr.rad + sizes * float(r.rad @ sizes) * ABOVE)
        if self.D < 1.0:
            left = float((Kr.dot(r) * inverse(kept(self.D))).upper)
        else:  # Σ r = 0, as Σ β and Σ s f are: ρ is of centred samples
            left = float((r * r * Ball(1.0 / self.weights, 4e-16 / self.weights)).sum().upper)
            left *= float(self._total.upper) * (1 + 1e-12)
        near = self._near(f, v, r.size)
        return self.energy(v) + 2.0 * Kr.dot(v) + Ball(0.0, max(left, 0.0) + near)

    def sizes(self) -> Vector:
        """As for linear features."""
        own = self._kernel.sizes()
        centred = own + float(own.max(initial=0.0))
        return sizes_in_metric(centred, self.D, self.weights, float(self._total.upper))

    def curvature(self) -> float:
        return largest_eigenvalue(lambda beta: self.scores(self.represent(beta)), self.n)


class SigmaMetric:
    """The metric A (m, m) of linear features, each of whose entries was added up from n products.

    `centre` (m,) is the mean, if the moments were taken around 0 and its square was taken off.
    """

    def __init__(self, A: Vector, D: float, n: int, centre: Vector | None):
        self.A, self._D, self._n, self._centre = A, D, n, centre
        self.unit = float(np.sqrt(max(A.diagonal().max(initial=0.0), 0.0)))

    @cached_property
    def _scaling(self) -> Vector:
        """T: what makes the diagonal of the metric one; 0 for a feature without size."""
        size = np.sqrt(np.maximum(self.A.diagonal(), 0.0))
        return np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)

    @cached_property
    def _scaled(self) -> tuple[Vector, Vector]:
        """Eigenvalues and vectors of TAT."""
        T = self._scaling
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = T[:, None] * self.A * T
        values, vectors = np.linalg.eigh(np.nan_to_num((scaled + scaled.T) / 2))
        return values, vectors

    def solve(self, u: Vector) -> Vector:
        """The v of ``A v = u``, as nearly as it can be had."""
        T, (values, vectors) = self._scaling, self._scaled
        floor = 8 * len(values) * np.finfo(float).eps * values.max(initial=0.0)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > floor)
        w = np.zeros_like(u)
        for _ in range(2):  # once more for what the first solution leaves
            w = w + T * (vectors @ (inverse * (vectors.T @ (T * (u - self.A @ w)))))
        return w

    def price(self, v: Vector, energy: Ball, pulled: Ball, by_spread: float) -> Ball:
        """``u'A⁻¹u``, or more, for any v (m,) that nearly solves ``A v = u``.

        `energy` is ``v'Av``, `pulled` is ``u − D Σ v`` (m,) with nothing cut off, and `by_spread` another
        bound on the rest, infinite for none.
        """
        rho, left = pulled - kept(self._D) * Ball(v), [np.inf, by_spread]
        if self._D < 1.0:
            left.append(float((rho.square_sum() * inverse(kept(self._D))).upper))
        if len(v) and min(left) > 1e-12 * float(energy.size):
            left.append(self._by_least_eigenvalue(rho))
        return energy + 2.0 * rho.dot(v) + Ball(0.0, min(left))

    def _by_least_eigenvalue(self, rho: Ball) -> float:
        """‖Tρ‖² over a number that the least eigenvalue of TAT is at least."""
        T, values = self._scaling, self._scaled[0]
        if (rho.size[T == 0.0] > 1e-290).any():  # a feature of zeros adds 0, up to underflow
            return np.inf
        # Errors of the metric's entries, in units of its diagonal, and of the eigenvalue itself.
        error = len(T) * (self._n + 8 * len(T) + 40) * np.finfo(float).eps
        if self._centre is not None:
            error *= 1.0 + float(np.abs(self._centre * T).max(initial=0.0) ** 2)
        least = float(values[int((T == 0.0).sum()) :].min(initial=np.inf)) - error
        return float((rho * T).square_sum().upper) / least * (1 + 1e-12) if least > 0.0 else np.inf


def left_by_spread(squares: Ball, total: Ball) -> float:
    """An upper bound of ``N Σ r_i² / s_i``, the rest at D = 1, from the sum of squares and N = Σ s_i."""
    return float((squares * total).upper) * (1 + 1e-12)


def sizes_in_metric(own: Vector, D: float, weights: Vector, total: float) -> Vector:
    """Norms of samples in the metric, from their norms `own` (n,) less the mean.

    From A ⪰ (1-D) I, or from (φ_i − mean)'Σ⁺(φ_i − mean) ≤ N / s_i, with N = `total` the sum of all weights.
    """
    by_norm = own / np.sqrt(max(1.0 - D, 1e-300))
    by_spread = np.sqrt(total / weights) / np.sqrt(max(D, 1e-300))  # D times a weight may be too small
    return np.asarray(np.minimum(by_norm, by_spread) * ABOVE)


def kept(D: float) -> Ball:
    """1 − D."""
    return 1.0 - Ball(D)


def inverse(x: Ball) -> Ball:
    """1 / x of a positive ball."""
    mid = 1.0 / x.mid
    low = np.maximum(x.mid - x.rad, np.finfo(float).tiny)
    return Ball(mid, (1.0 / low - mid) * ABOVE + 4e-16 * mid)
