"""Scores of many points under kernel expansions: f_p(z) = Σ_j c_jp k(x_j, z), for samples x_j.

For several classes there is an expansion p for each pair of classes; pairs share samples.
Points are divided into blocks, and samples into tiles, so that the kernel values between them stay in cache:
a matrix product gives the kernel's arguments, the kernel function is applied in place, and the values are
multiplied with the coefficients. If γ(‖x‖² + ‖z‖²) is so large that a product would lose the digits of
γ‖x − z‖², the distance is summed from the differences of x and z instead (:meth:`SampleGram.cross`). Blocks
of points run on as many threads as BLAS may use; the sums are the same on one thread and on many.

:meth:`Scorer.scores` is in double precision. :meth:`Scorer.bounded_scores` (class :class:`BoundedScorer`) is
several times faster and bounds the error of each score, so that a classifier knows which signs are certain.

Error bounds
------------
The exponent of an RBF kernel is ``2γ x'z - γ‖x‖² - γ‖z‖²``. Let u be the unit roundoff of the precision in
use, and v that of double precision. If a term of the product goes through r roundings, and a squared norm has
t terms (features, or stored entries of a sparse sample), the error of the exponent is at most

    ε = ((r + 12) u + (t + 8) v) γ (‖x‖² + ‖z‖²):

r u by the product, 12 u by operands (at most 6 u), rounded norms (u) and two subtractions (4 u), (t + 8) v by
the norms. The kernel value has a relative error of at most expm1(ε), and its own rounding. The bound of a
score sums this over the samples, weighted with |c_jp| and the kernel value.

Samples are sorted by their norms, and cut into tiles in which large squared norms differ by at most a factor
of 4, because the ε of a tile is that of its largest norm. So a few outliers, whose kernel values with other
points are negligible, hardly loosen the bounds of these points.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from formulations.language.types import Array, Matrix
from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels import BLOCK_ENTRIES, SampleGram
from polyopt.linalg.sparse_products import SparseRight
from polyopt.native.library import kernel as in_c

_TILE_SAMPLES = _BLOCK_POINTS = 512  # samples of a tile, points of a block: 2 MB in double precision
_MIN_BOUND_WORK = 1e7  # multiplications below which bounded scores are not faster
_DOUBLE_UNIT = 2.0**-53  # unit roundoff of double precision
_MAX_TERMS = 128  # terms summed at once in single precision, which limits the roundings of a sum
# Upper bounds on the underflow of a kernel value, and of a term, in single precision.
_VALUE_UNDERFLOW, _TERM_UNDERFLOW = 1e-30, 1e-37
_COMPOUNDING = 1.02  # (1 + u)^r - 1 is at most this times r u, if r u is at most 0.01

# Compiled functions; "!" marks the arguments that they write to.
# products_ij = exp(min(products_ij - sample_norms_j - point_norms_i, 0)), to 2 units in the last place.
gaussians = in_c("gaussians", "products!: T (t, w); point_norms: T (t); sample_norms: T (w)", T="f8 f4")

# Add sum_j values_ij coef_j to sums_i, and sum_j |values_ij coef_j| to sizes_i, in double precision.
add_weighted = in_c("weigh", "values: T (t, w); coef: f8 (w); sums!: f8 (t); sizes!: f8 (t)", T="f8 f4")


class CoefBlock(NamedTuple):
    """Coefficients of consecutive samples (a part, or a tile of one) in some of the expansions."""

    start: int  # first sample
    stop: int  # last sample + 1
    columns: NDArray[np.intp]  # (q,), numbers p of the expansions
    coef: Array  # (stop - start, q), coefficients c_jp

    @classmethod
    def whole(cls, coef: Array) -> "CoefBlock":
        """Return the coefficients (n,) of one expansion over all samples."""
        return cls(0, len(coef), np.zeros(1, dtype=np.intp), coef[:, None])


class Scorer:
    """`count` kernel expansions over the samples of a Gram matrix; coefficients outside `parts` are 0."""

    def __init__(self, gram: SampleGram, parts: list[CoefBlock], count: int = 1):
        self._gram, self._parts, self._count = gram, parts, count
        self._bounded: dict[Any, BoundedScorer] = {}

    def scores(self, Z: Matrix) -> Array:
        """Return the scores (t, count) of points (t, m) in double precision."""
        cost = 0.0 if callable(self._gram.kernel.name) else self._cost(Z)  # 0 starts no threads
        size = max(1, min(_BLOCK_POINTS, 4 * BLOCK_ENTRIES // self._gram.n))
        blocks = run_blocks(lambda rows: self._score_block(Z[rows]), _point_blocks(Z.shape[0], size), cost)
        return _join(blocks, self._count)

    def precisions(self, Z: Matrix) -> list[Any]:
        """Return the precisions worth trying in :meth:`bounded_scores` for these points, fastest first."""
        gram = self._gram
        if callable(gram.kernel.name) or self._cost(Z) <= _MIN_BOUND_WORK:
            return []
        if gram.kernel.name == "rbf":
            return [np.float32, np.float64]  # in float64 too, bounded scores are faster than `scores`
        return [np.float32] if gram.is_single() else []  # is_single: no entry risks overflow

    def bounded_scores(self, Z: Matrix, dtype: DTypeLike = np.float32) -> tuple[Array, Array]:
        """Return scores (t, count) in this precision, and bounds on their errors (inf if there is none)."""
        if dtype not in self._bounded:
            self._bounded[dtype] = BoundedScorer(self._gram, self._parts, self._count, dtype)
        return self._bounded[dtype].scores(Z, self._cost(Z))

    def _score_block(self, Z: Matrix) -> Array:
        """Return the scores (count, points) of a block of points."""
        K, scores = self._gram.cross(Z), np.zeros((self._count, Z.shape[0]))
        for part in self._parts:
            scores[part.columns] += part.coef.T @ K[:, part.start : part.stop].T
        return scores

    def _cost(self, Z: Matrix) -> float:
        """Return the multiplications that the scores of these points take."""
        return float(Z.shape[0]) * self._gram.n * (self._gram.entry_cost + self._count)


class BoundedScorer:
    """Scores and error bounds of the expansions of a :class:`Scorer`, in one precision.

    dtype: float32, or for RBF kernels also float64.
    _tiles, _order: tiles of the samples sorted by γ‖x‖² in each part; sample t of the tiles is sample
        ``_order[t]`` of the Gram matrix. _scaled: their γ‖x‖² (0 if the kernel is not RBF).
    """

    def __init__(self, gram: SampleGram, parts: list[CoefBlock], count: int, dtype: DTypeLike):
        self._gram, self._count, self._dtype = gram, count, np.dtype(dtype)
        self._is_rbf, self._unit = gram.kernel.name == "rbf", float(np.finfo(dtype).eps) / 2
        self._terms_per_sum = _MAX_TERMS if self._dtype == np.float32 else _TILE_SAMPLES
        scaled = gram.kernel.gamma * gram.square_norms(gram.X) if self._is_rbf else np.zeros(gram.n)
        order, self._tiles, start = [], [], 0
        for part in parts:
            by_norm = np.argsort(scaled[part.start : part.stop], kind="stable")
            order.append(part.start + by_norm)
            stops = _tile_stops(scaled[order[-1]])
            for first, last in zip([0, *stops[:-1]], stops, strict=True):
                self._tiles.append(
                    CoefBlock(start + first, start + last, part.columns, part.coef[by_norm[first:last]])
                )
            start += len(by_norm)
        self._order = np.concatenate(order)
        self._scaled = scaled[self._order]
        right = gram.operand(self._order, self._dtype, left=False, without_norms=True)
        self._right_operand: Any = SparseRight(right) if gram.is_sparse else right

    def scores(self, Z: Matrix, cost: float) -> tuple[Array, Array]:
        """Return the scores of points and bounds on their errors, inf if there is none: (t, count) each."""
        blocks = run_blocks(lambda rows: self._score_block(Z[rows]), _point_blocks(Z.shape[0]), cost)
        scores, errors = (_join([block[k] for block in blocks], self._count) for k in (0, 1))
        is_finite = np.isfinite(scores) & np.isfinite(errors)  # no number has overflowed
        return scores, np.where(is_finite, errors, np.inf)

    def _score_block(self, Z: Matrix) -> tuple[Array, Array]:
        """Return the scores of a block of points and bounds on their errors: (count, points) each."""
        gram, positions = self._gram, np.arange(Z.shape[0])
        Z = gram.in_same_format(Z)
        squares, terms = gram.square_norms(Z), gram.terms(Z)
        scores, errors = np.zeros((2, self._count, len(positions)))
        buffer, product_buffer = np.empty((2, len(positions) * _TILE_SAMPLES), dtype=self._dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            left = gram.operand(positions, self._dtype, left=True, points=(Z, squares), without_norms=True)
            sparse_work = self._right_operand.work_arrays() if gram.is_sparse else None
            scaled_points = gram.kernel.gamma * squares
            for tile, coef in zip(self._tiles, self._coefs, strict=True):
                values = _tile_values(buffer, len(positions), tile)
                if gram.is_sparse:
                    self._right_operand.multiply(left, tile.start, tile.stop, values, sparse_work)
                else:
                    right = self._right_operand[tile.start : tile.stop]
                    self._multiply(left, right, values, product_buffer)
                self._apply_kernel(values, scaled_points, self._scaled[tile.start : tile.stop])
                abs_sums = np.zeros((len(tile.columns), len(positions)))  # Σ_j |c_jp k(x_j, z)|
                if len(tile.columns) == 1:  # summed in double precision, else by products in self._dtype
                    add_weighted(values, tile.coef[:, 0], scores[tile.columns[0]], abs_sums[0])
                else:
                    self._add_weighted(values, coef, tile.columns, scores, abs_sums)
                relative = self._relative_errors(scaled_points, tile, terms) if self._is_rbf else 1.0
                errors[tile.columns] += abs_sums * relative
            return scores, self._error_bounds(errors, squares)

    def _multiply(self, left: Any, right: Any, out: Any, buffer: Any) -> None:
        """Compute ``left right'`` of dense samples, as a sum of products of few columns each."""
        width, buffer = self._product_width, buffer[: out.size].reshape(out.shape)
        np.matmul(left[:, :width], right[:, :width].T, out=out)
        for start in range(width, left.shape[1], width):
            part = slice(start, start + width)
            np.matmul(left[:, part], right[:, part].T, out=buffer)
            np.add(out, buffer, out=out)

    def _apply_kernel(self, values: Any, scaled_points: Array, scaled_samples: Array) -> None:
        """Apply the kernel function to the products in place; `scaled_…`: γ‖z‖² and γ‖x‖²."""
        if self._is_rbf:
            gaussians(values, scaled_points.astype(self._dtype), scaled_samples.astype(self._dtype))
        else:
            self._gram.kernel.finish(values)

    def _add_weighted(self, values: Any, coef: Any, columns: Any, scores: Array, abs_sums: Array) -> None:
        """Add a tile's terms to the scores of several expansions, and their absolute values to `abs_sums`."""
        for start in range(0, values.shape[1], self._terms_per_sum):
            part = slice(start, start + self._terms_per_sum)
            sums = coef[:, part] @ values[:, part].T
            scores[columns] += sums[: len(columns)]
            abs_sums += sums[len(columns) :]

    def _relative_errors(self, scaled_points: Array, tile: CoefBlock, terms: int) -> Array:
        """Return the relative error of a tile's RBF terms at each point; `terms` is t of the module."""
        per_norm = (self._roundings + 12) * self._unit + (terms + 8) * _DOUBLE_UNIT
        exponent = _COMPOUNDING * per_norm * (scaled_points + self._scaled[tile.stop - 1]) + _VALUE_UNDERFLOW
        # expm1(ε), which is at most 1.01 ε for ε < 0.01
        growth = 1.01 * exponent if exponent.max(initial=0.0) < 0.01 else np.expm1(exponent)
        return _COMPOUNDING * (growth + self._term_rounding(tile))

    def _term_rounding(self, tile: CoefBlock) -> float:
        """Return a bound on the relative error of a term c_jp k(x_j, z) by rounding."""
        # 6: kernel value 4 (2 units in the last place), coefficient 1, product 1. n + 16: sums in double.
        summed = self._terms_per_sum if len(tile.columns) > 1 else 0
        return (summed + 6) * self._unit + (self._gram.n + 16) * _DOUBLE_UNIT

    def _error_bounds(self, rbf_errors: Array, squares: Array) -> Array:
        """Return the error bounds (count, points) of the scores at points with these squared norms.

        rbf_errors: for the RBF kernel, the sums of the terms' errors over the tiles, without underflow.
        """
        coef_norms = self._coef_norms[:, None]
        if self._roundings * self._unit > 0.01:  # the factor _COMPOUNDING may be too small
            return np.full(rbf_errors.shape, np.inf)
        if self._is_rbf:
            return rbf_errors + _VALUE_UNDERFLOW * coef_norms + _TERM_UNDERFLOW * self._gram.n
        entry_error = self._gram.product_error(self._roundings, 2 * self._unit)
        rounding = max(self._term_rounding(tile) for tile in self._tiles)
        size = (coef_norms + _VALUE_UNDERFLOW) * self._gram.sizes(squares)
        return _COMPOUNDING * (entry_error + rounding) * size + _TERM_UNDERFLOW * self._gram.n

    @property
    def _product_width(self) -> int:
        """Number of columns in a product of :meth:`_multiply`: at most _MAX_TERMS, and about equal in all."""
        width = max(self._right_operand.shape[1], 1)
        return -(-width // -(-width // _MAX_TERMS)) if self._dtype == np.float32 else width

    @property
    def _roundings(self) -> int:
        """Number of roundings of a term of a product, r in the module's formula."""
        if self._gram.is_sparse:
            return self._right_operand.longest + 1
        return self._product_width + self._right_operand.shape[1] // self._product_width + 1

    @cached_property
    def _coef_norms(self) -> Array:
        """``Σ_j |c_jp| s_j`` of each expansion p, where |k(x_j, z)| ≤ s_j s(z) (:meth:`SampleGram.sizes`)."""
        s = np.ones(self._gram.n)
        if not self._is_rbf:
            s = self._gram.sizes(self._gram.square_norms(self._gram.X))[self._order]
        norms = np.zeros(self._count)
        for tile in self._tiles:
            norms[tile.columns] += s[tile.start : tile.stop] @ np.abs(tile.coef)
        return norms

    @cached_property
    def _coefs(self) -> list[Any]:
        """Coefficients of each tile, followed by their absolute values: (2q, samples) each."""
        return [np.vstack([tile.coef.T, np.abs(tile.coef.T)]).astype(self._dtype) for tile in self._tiles]


def _tile_stops(scaled: Array) -> list[int]:
    """Return the stops of tiles of samples sorted by γ‖x‖² (`scaled`).

    In a tile, values above both 1 and the median differ by at most a factor of 4.
    """
    typical, stops, start = max(float(np.median(scaled)), 1.0) if len(scaled) else 1.0, [], 0
    while start < len(scaled):
        similar = np.searchsorted(scaled, 4.0 * max(float(scaled[start]), typical), side="right")
        start = min(start + _TILE_SAMPLES, int(similar))
        stops.append(start)
    return stops


def _join(blocks: list[Array], count: int) -> Array:
    """Return the scores (t, count) of all points from those of blocks, (count, points) each."""
    return np.concatenate([np.zeros((count, 0)), *blocks], axis=1).T


def _tile_values(buffer: NDArray[Any], count: int, tile: CoefBlock) -> NDArray[Any]:
    """Return a contiguous part of the buffer for the kernel between `count` points and a tile's samples."""
    width = tile.stop - tile.start
    return buffer[: count * width].reshape(count, width)


def _point_blocks(count: int, size: int = _BLOCK_POINTS) -> list[slice]:
    """Return the slices of `count` points by blocks."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
