"""Products of sparse samples with sparse samples, ``left right'``, dense.

A group of the samples at the right is laid out densely, side by side for every column that they use; then
every sample at the left adds up its share of a whole group at once, from registers and cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

__all__ = ["SparseRight", "multiply_turned", "roundings"]

_GROUP = 64  # samples at the right that are multiplied at once
_ROWS = 16  # samples at the left whose products are written at once


class SparseRight:
    """The samples at the right, ready for products.

    samples (n, m): the samples.
    """

    def __init__(self, samples: csr_array):
        self.shape, self._samples = samples.shape, samples
        ends = samples.indptr[np.append(np.arange(0, self.shape[0], _GROUP), self.shape[0])]
        # A group need not begin at a multiple of its size, so that it may have parts of two of these.
        filled = int(np.diff(ends).max(initial=0))
        self._used = min(self.shape[1], 2 * filled)
        self.longest = int(np.diff(samples.indptr).max(initial=0))

    def room(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Room for :meth:`multiply`, for one thread at a time."""
        places = np.zeros(self.shape[1], dtype=np.int32)
        return places, np.zeros((self._used + 1, _GROUP), dtype=self._samples.dtype)

    def multiply(
        self,
        left: csr_array,
        first: int,
        last: int,
        out: NDArray[Any],
        room: tuple[NDArray[Any], NDArray[Any]],
        *,
        turned: bool = False,
    ) -> NDArray[Any]:
        """Products of the samples `left` (CSR, same type) with those from `first` to `last`, into `out`.

        `out` has a row for each sample at the left, or for each one at the right where it is turned.
        """
        right, (places, group) = self._samples, room
        indices = (left.indptr, left.indices, right.indptr, right.indices)
        if any(index.dtype != indices[0].dtype for index in indices):
            indices = tuple(index.astype(np.int64) for index in indices)
        _multiply(*indices[:2], left.data, *indices[2:], right.data, first, last, places, group, out, turned)
        return out


def multiply_turned(left: csr_array, right: csr_array, out: NDArray[Any]) -> None:
    """``right left'`` into `out`, for few samples at the right and many at the left (CSR, same type)."""
    some = SparseRight(right)
    some.multiply(left, 0, right.shape[0], out, some.room(), turned=True)


def roundings(longest: int) -> int:
    """Roundings that a term of a product goes through; no row of one side has more entries than `longest`."""
    return longest + 1


@intrinsic(prefer_literal=True)
def _add_rows(context: Any, factors: Any, places: Any, count: Any, rows: Any, sums: Any, width: Any) -> Any:
    """``sums = Σ_e factors_e rows[places_e]`` over the first `count`, the sums in the processor's registers.

    There are `width` columns, a number that is known when it is compiled. A compiler that is given loops
    keeps these sums in memory, which takes half as long again.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = [
            context.make_array(kind)(context, builder, value=value).data
            for kind, value in zip(signature.args, args, strict=True)
            if isinstance(kind, types.Array)
        ]
        factor_data, place_data, row_data, sum_data = made
        number, size = context.get_value_type(rows.dtype), rows.dtype.bitwidth // 8
        lanes = 64 // size
        vector, long, short = ir.VectorType(number, lanes), ir.IntType(64), ir.IntType(32)
        nothing, first = ir.Constant(vector, ir.Undefined), ir.Constant(short, 0)
        everywhere = ir.Constant(ir.VectorType(short, lanes), [0] * lanes)
        held = [cgutils.alloca_once(builder, vector) for _ in range(width.literal_value // lanes)]

        def at(data: Any, place: Any) -> Any:
            return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())

        for part in held:
            builder.store(ir.Constant(vector, [0.0] * lanes), part)
        with cgutils.for_range(builder, args[2]) as loop:
            factor = builder.load(builder.gep(factor_data, [loop.index]))
            factor = builder.insert_element(nothing, factor, first)
            factor = builder.shuffle_vector(factor, nothing, everywhere)
            place = builder.sext(builder.load(builder.gep(place_data, [loop.index])), long)
            row = builder.gep(row_data, [builder.mul(place, ir.Constant(long, _GROUP))])
            for k, part in enumerate(held):
                value = builder.load(at(row, ir.Constant(long, k * lanes)), align=size)
                term = builder.fmul(factor, value, flags=("contract",))
                builder.store(builder.fadd(builder.load(part), term, flags=("contract",)), part)
        for k, part in enumerate(held):
            builder.store(builder.load(part), at(sum_data, ir.Constant(long, k * lanes)), align=size)
        return context.get_dummy_value()

    return types.void(factors, places, types.int64, rows, sums, width), generate


@njit(cache=True, nogil=True)
def _lay_out(
    starts: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    start: int,
    width: int,
    places: NDArray[np.int32],
    group: NDArray[Any],
) -> int:
    """Put `width` samples side by side into the group, a row for each column they use; the number of rows."""
    used = 0
    for j in range(width):
        for e in range(starts[start + j], starts[start + j + 1]):
            k = columns[e]
            if places[k] == 0:
                used += 1
                places[k] = used
            group[places[k], j] += values[e]
    return used


@njit(cache=True, nogil=True, fastmath={"contract"})
def _multiply(
    starts: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    right_starts: NDArray[Any],
    right_columns: NDArray[Any],
    right_values: NDArray[Any],
    first: int,
    last: int,
    places: NDArray[np.int32],
    group: NDArray[Any],
    out: NDArray[Any],
    turned: bool,
) -> None:
    """``out[i, j] = Σ_k left_ik right_(first + j)k`` or its transpose; `places` and `group` are as they were.

    These are zero. Row ``places[k]`` of the group holds column k of its samples, and row 0 columns that they
    do not use.
    """
    count, longest = len(starts) - 1, 0
    for i in range(count):
        longest = max(longest, starts[i + 1] - starts[i])
    shared, factors = np.empty(longest, dtype=np.int32), np.empty(longest, dtype=values.dtype)
    sums = np.empty((_ROWS, _GROUP), dtype=group.dtype)
    for start in range(first, last, _GROUP):
        width = min(_GROUP, last - start)
        used = _lay_out(right_starts, right_columns, right_values, start, width, places, group)
        for top in range(0, count, _ROWS):
            rows = min(_ROWS, count - top)
            for r in range(rows):
                filled = 0
                for e in range(starts[top + r], starts[top + r + 1]):
                    shared[filled], factors[filled] = places[columns[e]], values[e]
                    filled += shared[filled] != 0
                if width <= 16:
                    _add_rows(factors, shared, filled, group, sums[r], 16)
                elif width <= 32:
                    _add_rows(factors, shared, filled, group, sums[r], 32)
                else:
                    _add_rows(factors, shared, filled, group, sums[r], 64)
            if turned:
                for j in range(width):
                    column = out[start - first + j, top : top + rows]
                    for r in range(rows):
                        column[r] = sums[r, j]
            else:
                for r in range(rows):
                    row = out[top + r, start - first : start - first + width]
                    for j in range(width):
                        row[j] = sums[r, j]
        for e in range(right_starts[start], right_starts[start + width]):
            places[right_columns[e]] = 0
        group[: used + 1] = 0
