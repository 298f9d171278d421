"""Scores of kernel expansions that come with bounds on their errors, by products of one precision.

With an RBF kernel, u the unit of the precision and v that of double precision, every exponent is taken as
``2γ x'z - γ‖x‖² - γ‖z‖²``. Where a term of the product goes through r roundings, its error is at most
``ε = ((r + 12) u + (t + 8) v) γ (‖x‖² + ‖z‖²)``: the operands, the product, the norms and the differences.
A squared norm has t terms: the features, or the entries that a sparse sample stores.
The kernel's value is then off by at most expm1(ε) of what is found, and by its own rounding.

Samples are taken in the order of their norms, by tiles in which the squares differ by no more than a factor
of 4 where they are large: the bound of a tile goes by its own largest norm, and is weighed with the values
found in it. A few samples far out, whose values are next to nothing elsewhere, thus cost other points little.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.base.threads import run_blocks
from polyopt.linalg.expansion_tiles import SAMPLES, Part, join, point_blocks, room_for, totals
from polyopt.linalg.sparse_products import SparseRight, roundings
from polyopt.native.library import kernel

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from formulations.language.types import Array, Matrix
    from polyopt.linalg.kernels import SampleGram

__all__ = ["Bounded"]

_DOUBLE_UNIT = 2.0**-53  # rounding of double precision
_MAX_TERMS = 128  # that are summed at once in single precision, so that fewer roundings add up
# More than what is lost of a value, and of a term, below the range of single precision.
_VALUE_UNDERFLOW, _TERM_UNDERFLOW = 1e-30, 1e-37
_COMPOUNDING = 1.02  # what products of roundings add to their sum

# exp(min(p_ij - others_j - own_i, 0)) in place, to 2 units in the last place, of products p.
gaussians = kernel("gaussians", "products!: T (t, w); own: T (t); others: T (w)", T="f8 f4")

# Add sum_j t_ij c_j to the sums and sum_j |t_ij c_j| to the sizes, in double precision.
weigh = kernel("weigh", "t: T (t, w); coef: f8 (w); sums!: f8 (t); sizes!: f8 (t)", T="f8 f4")


class Bounded:
    """Kernel expansions, prepared for scores in one precision.

    gram: the samples x_j of all expansions, with their kernel: a named one.
    parts: their coefficients; those that no part gives are 0.
    count: number of expansions.
    dtype: the precision; float64 is for RBF kernels.
    """

    def __init__(self, gram: SampleGram, parts: list[Part], count: int, dtype: DTypeLike):
        self._gram, self._count, self._dtype = gram, count, np.dtype(dtype)
        self._is_rbf, self._unit = gram.kernel.name == "rbf", float(np.finfo(dtype).eps) / 2
        self._summed = _MAX_TERMS if self._dtype == np.float32 else SAMPLES
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
        """The scores of points and bounds on their errors, inf where there is none, (t, expansions) each."""
        found = run_blocks(lambda points: self._block(Z[points]), point_blocks(Z.shape[0]), cost)
        scores, errors = (join([block[k] for block in found], self._count) for k in (0, 1))
        is_known = np.isfinite(scores) & np.isfinite(errors)  # neither is where numbers overflow
        return scores, np.where(is_known, errors, np.inf)

    def _block(self, Z: Matrix) -> tuple[Array, Array]:
        """The scores of a block of points and their errors, (expansions, points) each."""
        gram, every = self._gram, np.arange(Z.shape[0])
        Z = gram.alike(Z)
        squares, terms = gram.square_norms(Z), gram.terms(Z)
        scores, errors = np.zeros((2, self._count, len(every)))
        space, spare = np.empty((2, len(every) * SAMPLES), dtype=self._dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            left = gram.operand(every, self._dtype, left=True, of=(Z, squares), bare=True)
            sparse_room = self._right.room() if gram.is_sparse else None
            own = gram.kernel.gamma * squares
            for tile, coef in zip(self._tiles, self._coefs, strict=True):
                values = room_for(space, len(every), tile)
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
        """``left right'`` of dense samples, as a sum of products of a few columns each."""
        width, spare = self._width, spare[: out.size].reshape(out.shape)
        np.matmul(left[:, :width], right[:, :width].T, out=out)
        for start in range(width, left.shape[1], width):
            part = slice(start, start + width)
            np.matmul(left[:, part], right[:, part].T, out=spare)
            np.add(out, spare, out=out)

    def _finish(self, values: Any, own: Array, others: Array) -> None:
        """The kernel from the product, in place."""
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
        """Relative error of a tile's values, for every point; a squared norm has so many terms at most."""
        per_norm = (self._roundings + 12) * self._unit + (terms + 8) * _DOUBLE_UNIT
        exponent = _COMPOUNDING * per_norm * (own + self._norms[tile.stop - 1]) + _VALUE_UNDERFLOW
        grown = 1.01 * exponent if exponent.max(initial=0.0) < 0.01 else np.expm1(exponent)
        return _COMPOUNDING * (grown + self._rounding(tile))

    def _rounding(self, tile: Part) -> float:
        """The relative error of a term: of its exponential, its coefficient and the sums."""
        summed = self._summed if len(tile.columns) > 1 else 0
        return (summed + 6) * self._unit + (self._gram.n + 16) * _DOUBLE_UNIT

    def _errors(self, found: Array, squares: Array) -> Array:
        """The bounds, from what the tiles gave to them."""
        reach = self._reach[:, None]
        if self._roundings * self._unit > _COMPOUNDING - 1.01:  # too many: they compound
            return np.full(found.shape, np.inf)
        if self._is_rbf:
            return found + _VALUE_UNDERFLOW * reach + _TERM_UNDERFLOW * self._gram.n
        entry = self._gram.product_error(self._roundings, 2 * self._unit)
        rounding = max(self._rounding(tile) for tile in self._tiles)
        size = (reach + _VALUE_UNDERFLOW) * self._gram.sizes(squares)
        return _COMPOUNDING * (entry + rounding) * size + _TERM_UNDERFLOW * self._gram.n

    @property
    def _width(self) -> int:
        """Terms of a dense product that are summed at once."""
        width = max(self._right.shape[1], 1)
        return -(-width // -(-width // _MAX_TERMS)) if self._dtype == np.float32 else width

    @property
    def _roundings(self) -> int:
        """Number of roundings that a term of a product goes through."""
        if self._gram.is_sparse:
            return roundings(self._right.longest)
        return self._width + self._right.shape[1] // self._width + 1

    @cached_property
    def _reach(self) -> Array:
        """``Σ_j |c_jp| s_j`` of every expansion."""
        sizes = np.ones(self._gram.n)
        if not self._is_rbf:
            sizes = self._gram.sizes(self._gram.square_norms(self._gram.X))[self._order]
        return totals(self._tiles, sizes, self._count)

    @cached_property
    def _coefs(self) -> list[Any]:
        """The coefficients of every tile, and their absolute values below them."""
        return [np.vstack([tile.coef.T, np.abs(tile.coef.T)]).astype(self._dtype) for tile in self._tiles]


def _ends(norms: Array) -> list[int]:
    """Ends of the tiles of samples in the order of these norms."""
    # Below 1, γ‖x‖² does not matter to a bound.
    ordinary, ends, start = max(float(np.median(norms)), 1.0) if len(norms) else 1.0, [], 0
    while start < len(norms):
        alike = np.searchsorted(norms, 4.0 * max(float(norms[start]), ordinary), side="right")
        start = min(start + SAMPLES, int(alike))
        ends.append(start)
    return ends
