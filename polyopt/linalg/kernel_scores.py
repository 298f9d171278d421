"""Scores of many points under kernel expansions: f_p(z) = Σ_j c_jp k(x_j, z).

Points and samples are taken by tiles that stay in cache: a matrix product gives the kernel's arguments, the
kernel is finished in place, and its values are weighted with the coefficients before they leave the cache.
Blocks of points run on as many threads as BLAS may use; the sums are the same on one thread and on many.

:meth:`Scorer.scores` is in double precision. :meth:`Scorer.bounded_scores` is several times faster and bounds
the error of each score, so that a classifier knows which signs are certain.

Error bounds
------------
With an RBF kernel, u the unit roundoff of the precision and v that of double precision, every exponent is
``2γ x'z - γ‖x‖² - γ‖z‖²``. If a term of the product goes through r roundings, the error of the exponent is at
most ``ε = ((r + 12) u + (t + 8) v) γ (‖x‖² + ‖z‖²)``: operands, product, norms and differences, with t terms
in a squared norm (the features, or the stored entries of a sparse sample). The kernel value then has a
relative error of at most expm1(ε), and its own rounding.

Samples are sorted by their norms, and cut into tiles in which large squared norms differ by at most a factor
of 4: a tile's bound depends on its own largest norm and on the values found in it. A few outliers, whose
kernel values are negligible elsewhere, hardly loosen the bounds of other points.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from formulations.language.types import Array, Matrix
from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels import SampleGram
from polyopt.linalg.sparse_products import SparseRight
from polyopt.native.library import kernel

_TILE_SAMPLES = _BLOCK_POINTS = 512  # samples of a tile, points of a block: 1 MB in single precision
_MIN_BOUND_WORK = 1e7  # multiplications below which bounds save no time
_DOUBLE_UNIT = 2.0**-53  # unit roundoff of double precision
_MAX_TERMS = 128  # terms summed at once in single precision, which limits the roundings of a sum
# Upper bounds on the underflow of a kernel value, and of a term, in single precision.
_VALUE_UNDERFLOW, _TERM_UNDERFLOW = 1e-30, 1e-37
_COMPOUNDING = 1.02  # (1 + u)^r - 1 is at most this times r u

# exp(min(p_ij - others_j - own_i, 0)) in place, to 2 units in the last place, of products p.
gaussians = kernel("gaussians", "products!: T (t, w); own: T (t); others: T (w)", T="f8 f4")

# Add sum_j t_ij c_j to the sums and sum_j |t_ij c_j| to the sizes, in double precision.
weigh = kernel("weigh", "t: T (t, w); coef: f8 (w); sums!: f8 (t); sizes!: f8 (t)", T="f8 f4")


class Part(NamedTuple):
    """Coefficients (stop - start, q) of the samples from `start` to `stop` in q of the expansions."""

    start: int
    stop: int
    columns: NDArray[np.intp]
    coef: Array

    @classmethod
    def whole(cls, coef: Array) -> Part:
        """One expansion over all samples."""
        return cls(0, len(coef), np.zeros(1, dtype=np.intp), coef[:, None])


class Scorer:
    """`count` kernel expansions over the samples of a Gram matrix; coefficients outside `parts` are 0."""

    def __init__(self, gram: SampleGram, parts: list[Part], count: int = 1):
        self._gram, self._parts, self._count = gram, parts, count
        self._tiles = [
            Part(start, stop, part.columns, part.coef[start - part.start : stop - part.start])
            for part in parts
            for start in range(part.start, part.stop, _TILE_SAMPLES)
            for stop in [min(start + _TILE_SAMPLES, part.stop)]
        ]
        self._by_differences = bool(gram.needs_differences(np.zeros(1), gram.X[:1])[0])
        self._bounded: dict[Any, Bounded] = {}

    def scores(self, Z: Matrix) -> Array:
        """Scores (t, expansions) of points (t, m) in double precision."""
        is_safe = not callable(self._gram.kernel.name)  # on threads
        if is_safe and not self._by_differences:
            _ = self._right  # computed before threads use it
        cost = self._cost(Z) if is_safe else 0.0
        found = run_blocks(lambda points: self._exact(Z[points]), _point_blocks(Z.shape[0]), cost)
        return _join(found, self._count)

    def precisions(self, Z: Matrix) -> list[Any]:
        """Precisions in which bounded scores may find the signs of these points faster, fastest first."""
        gram = self._gram
        if callable(gram.kernel.name) or self._cost(Z) <= _MIN_BOUND_WORK:
            return []
        if gram.kernel.name == "rbf":
            return [np.float32, np.float64]
        return [np.float32] if gram.is_single() else []

    def bounded_scores(self, Z: Matrix, dtype: DTypeLike = np.float32) -> tuple[Array, Array]:
        """Scores (t, expansions) by products of one precision, and bounds on their errors (inf if none)."""
        if dtype not in self._bounded:
            self._bounded[dtype] = Bounded(self._gram, self._parts, self._count, dtype)
        return self._bounded[dtype].scores(Z, self._cost(Z))

    def _exact(self, Z: Matrix) -> Array:
        """Scores (expansions, points) of a block of points."""
        gram = self._gram
        if callable(gram.kernel.name):
            return self._weighed(gram.cross(Z.astype(float)))
        Z = gram.alike(Z)
        squares = gram.square_norms(Z) if gram.kernel.name == "rbf" else np.zeros(0)
        far = gram.needs_differences(squares, Z)
        if far.all():
            return self._weighed(gram.cross(Z))
        near = np.flatnonzero(~far)
        found = self._by_tiles(gram.operand(near, np.dtype(float), left=True, of=(Z, squares)))
        if not far.any():
            return found
        scores = np.empty((self._count, Z.shape[0]))
        scores[:, near], scores[:, far] = found, self._weighed(gram.cross(Z[far]))
        return scores

    def _by_tiles(self, left: Matrix) -> Array:
        """Scores (expansions, points) from the points' operand."""
        right, points = self._right, left.shape[0]
        found, space = np.zeros((self._count, points)), np.empty(points * _TILE_SAMPLES)
        room = right.room() if self._gram.is_sparse else None
        for tile in self._tiles:
            values = _room_for(space, points, tile)
            if room is None:
                np.matmul(left, right[tile.start : tile.stop].T, out=values)
            else:
                right.multiply(left, tile.start, tile.stop, values, room)
            found[tile.columns] += tile.coef.T @ self._gram.kernel.finish(values).T
        return found

    def _weighed(self, K: Array) -> Array:
        """Scores (expansions, points) from the kernel between the points and all samples."""
        scores = np.zeros((self._count, len(K)))
        for tile in self._tiles:
            scores[tile.columns] += tile.coef.T @ K[:, tile.start : tile.stop].T
        return scores

    @cached_property
    def _right(self) -> Any:
        """The samples' operand."""
        right = self._gram.operand(np.arange(self._gram.n), np.dtype(float), left=False)
        return SparseRight(right) if self._gram.is_sparse else right

    def _cost(self, Z: Matrix) -> float:
        return float(Z.shape[0]) * self._gram.n * (self._gram.entry_cost + self._count)


class Bounded:
    """Expansions as in :class:`Scorer`, for bounded scores in one precision; float64 for RBF kernels only."""

    def __init__(self, gram: SampleGram, parts: list[Part], count: int, dtype: DTypeLike):
        self._gram, self._count, self._dtype = gram, count, np.dtype(dtype)
        self._is_rbf, self._unit = gram.kernel.name == "rbf", float(np.finfo(dtype).eps) / 2
        self._summed = _MAX_TERMS if self._dtype == np.float32 else _TILE_SAMPLES
        norms = gram.kernel.gamma * gram.square_norms(gram.X) if self._is_rbf else np.zeros(gram.n)
        order, self._tiles, start = [], [], 0
        for part in parts:
            by_norm = np.argsort(norms[part.start : part.stop], kind="stable")
            order.append(part.start + by_norm)
            ends = _ends(norms[order[-1]])
            for first, last in zip([0, *ends[:-1]], ends, strict=True):
                self._tiles.append(
                    Part(start + first, start + last, part.columns, part.coef[by_norm[first:last]])
                )
            start += len(by_norm)
        self._order = np.concatenate(order)
        self._norms = norms[self._order]
        right = gram.operand(self._order, self._dtype, left=False, bare=True)
        self._right: Any = SparseRight(right) if gram.is_sparse else right

    def scores(self, Z: Matrix, cost: float) -> tuple[Array, Array]:
        """Scores of points and bounds on their errors, inf if there is none: (t, expansions) each."""
        found = run_blocks(lambda points: self._block(Z[points]), _point_blocks(Z.shape[0]), cost)
        scores, errors = (_join([block[k] for block in found], self._count) for k in (0, 1))
        is_known = np.isfinite(scores) & np.isfinite(errors)  # no number has overflowed
        return scores, np.where(is_known, errors, np.inf)

    def _block(self, Z: Matrix) -> tuple[Array, Array]:
        """Scores of a block of points and their errors: (expansions, points) each."""
        gram, every = self._gram, np.arange(Z.shape[0])
        Z = gram.alike(Z)
        squares, terms = gram.square_norms(Z), gram.terms(Z)
        scores, errors = np.zeros((2, self._count, len(every)))
        space, spare = np.empty((2, len(every) * _TILE_SAMPLES), dtype=self._dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            left = gram.operand(every, self._dtype, left=True, of=(Z, squares), bare=True)
            sparse_room = self._right.room() if gram.is_sparse else None
            own = gram.kernel.gamma * squares
            for tile, coef in zip(self._tiles, self._coefs, strict=True):
                values = _room_for(space, len(every), tile)
                if gram.is_sparse:
                    self._right.multiply(left, tile.start, tile.stop, values, sparse_room)
                else:
                    self._multiply(left, self._right[tile.start : tile.stop], values, spare)
                self._finish(values, own, self._norms[tile.start : tile.stop])
                in_tile = np.zeros((len(tile.columns), len(every)))
                if len(tile.columns) == 1:
                    weigh(values, tile.coef[:, 0], scores[tile.columns[0]], in_tile[0])
                else:
                    self._weigh(values, coef, tile.columns, scores, in_tile)
                if self._is_rbf:
                    in_tile *= self._share(own, tile, terms)
                errors[tile.columns] += in_tile
            return scores, self._errors(errors, squares)

    def _multiply(self, left: Any, right: Any, out: Any, spare: Any) -> None:
        """``left right'`` of dense samples, as a sum of products of few columns each."""
        width, spare = self._width, spare[: out.size].reshape(out.shape)
        np.matmul(left[:, :width], right[:, :width].T, out=out)
        for start in range(width, left.shape[1], width):
            part = slice(start, start + width)
            np.matmul(left[:, part], right[:, part].T, out=spare)
            np.add(out, spare, out=out)

    def _finish(self, values: Any, own: Array, others: Array) -> None:
        """Apply the kernel to the product in place."""
        if self._is_rbf:
            gaussians(values, own.astype(self._dtype), others.astype(self._dtype))
        else:
            self._gram.kernel.finish(values)

    def _weigh(self, values: Any, coef: Any, columns: Any, scores: Array, sizes: Array) -> None:
        """Add a tile's terms to the scores of several expansions, and their absolute values to the sizes."""
        for start in range(0, values.shape[1], self._summed):
            part = slice(start, start + self._summed)
            found = coef[:, part] @ values[:, part].T
            scores[columns] += found[: len(columns)]
            sizes += found[len(columns) :]

    def _share(self, own: Array, tile: Part, terms: int) -> Array:
        """Relative error of a tile's values for every point, if a squared norm has so many terms."""
        per_norm = (self._roundings + 12) * self._unit + (terms + 8) * _DOUBLE_UNIT
        exponent = _COMPOUNDING * per_norm * (own + self._norms[tile.stop - 1]) + _VALUE_UNDERFLOW
        grown = 1.01 * exponent if exponent.max(initial=0.0) < 0.01 else np.expm1(exponent)
        return _COMPOUNDING * (grown + self._rounding(tile))

    def _rounding(self, tile: Part) -> float:
        """Relative error of a term: its exponential, its coefficient and the sums."""
        summed = self._summed if len(tile.columns) > 1 else 0
        return (summed + 6) * self._unit + (self._gram.n + 16) * _DOUBLE_UNIT

    def _errors(self, found: Array, squares: Array) -> Array:
        """Error bounds of the scores, from the sums over the tiles."""
        reach = self._reach[:, None]
        if self._roundings * self._unit > _COMPOUNDING - 1.01:  # roundings compound too much
            return np.full(found.shape, np.inf)
        if self._is_rbf:
            return found + _VALUE_UNDERFLOW * reach + _TERM_UNDERFLOW * self._gram.n
        entry = self._gram.product_error(self._roundings, 2 * self._unit)
        rounding = max(self._rounding(tile) for tile in self._tiles)
        size = (reach + _VALUE_UNDERFLOW) * self._gram.sizes(squares)
        return _COMPOUNDING * (entry + rounding) * size + _TERM_UNDERFLOW * self._gram.n

    @property
    def _width(self) -> int:
        """Terms of a dense product summed at once."""
        width = max(self._right.shape[1], 1)
        return -(-width // -(-width // _MAX_TERMS)) if self._dtype == np.float32 else width

    @property
    def _roundings(self) -> int:
        """Roundings of a term of a product."""
        if self._gram.is_sparse:
            return self._right.longest + 1
        return self._width + self._right.shape[1] // self._width + 1

    @cached_property
    def _reach(self) -> Array:
        """``Σ_j |c_jp| s_j`` of every expansion."""
        sizes = np.ones(self._gram.n)
        if not self._is_rbf:
            sizes = self._gram.sizes(self._gram.square_norms(self._gram.X))[self._order]
        found = np.zeros(self._count)
        for tile in self._tiles:
            found[tile.columns] += sizes[tile.start : tile.stop] @ np.abs(tile.coef)
        return found

    @cached_property
    def _coefs(self) -> list[Any]:
        """Coefficients of every tile, stacked on their absolute values."""
        return [np.vstack([tile.coef.T, np.abs(tile.coef.T)]).astype(self._dtype) for tile in self._tiles]


def _ends(norms: Array) -> list[int]:
    """Ends of the tiles of samples sorted by these norms γ‖x‖², which do not matter to a bound below 1."""
    ordinary, ends, start = max(float(np.median(norms)), 1.0) if len(norms) else 1.0, [], 0
    while start < len(norms):
        alike = np.searchsorted(norms, 4.0 * max(float(norms[start]), ordinary), side="right")
        start = min(start + _TILE_SAMPLES, int(alike))
        ends.append(start)
    return ends


def _join(blocks: list[Array], count: int) -> Array:
    """Scores (t, expansions) of all points from those of blocks, (expansions, points) each."""
    return np.concatenate([np.zeros((count, 0)), *blocks], axis=1).T


def _room_for(space: NDArray[Any], count: int, tile: Part) -> NDArray[Any]:
    """A contiguous part of `space` for the kernel between `count` points and a tile's samples."""
    width = tile.stop - tile.start
    return space[: count * width].reshape(count, width)


def _point_blocks(count: int) -> list[slice]:
    """Slices of points by blocks."""
    return [slice(start, min(start + _BLOCK_POINTS, count)) for start in range(0, count, _BLOCK_POINTS)]
