"""A row of samples times the weights of all faces, at the speed of the processor's vector units.

The weights of K faces lie side by side, one row of W per feature, padded with zeros to a multiple of
eight. A product of a sample with all of them then walks the sample once and multiplies whole vectors of
eight. Written as loops over arrays this is three to five times slower, as the compiler must assume that
the arrays overlap, so the one loop that matters is built from vector instructions here; on processors
with shorter or longer vectors the compiler cuts or joins them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import llvmlite.ir as ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["LANES", "RowKernels", "padded", "row_kernels"]

LANES = 8  # weights in a vector
_MOST = 8  # vectors summed up at once: as many as fit the registers next to the operands
_FUSE = ("contract",)  # a product and a sum may be one instruction
_WORD, _SHORT = ir.IntType(64), ir.IntType(32)


def padded(n_faces: int) -> int:
    """Weights kept per feature for `n_faces` faces: the next multiple of :data:`LANES`."""
    return -(-n_faces // LANES) * LANES


class RowKernels(NamedTuple):
    """Compiled functions on one row of :class:`polyopt.rows.Rows`, for weights W (m+1, L), bias last.

    ``begin`` and ``end`` are where the row's entries lie; ``offset`` is what to take from a place to
    get the place of its column: ``begin`` where the rows share their columns, else 0. Entries count
    ``scale`` times. The lists of ones that the bias stands for is never stored.

    Attributes
    ----------
    scores : callable
        ``scores(values, columns, begin, end, offset, scale, W, out)`` puts W'x̃ into `out` (L,).
    add : callable
        ``add(values, columns, begin, end, offset, scale, change, W)`` adds x̃_j change_k to W_jk.
    add_to_face : callable
        ``add_to_face(values, columns, begin, end, offset, scale, change, face, W)``: to one column.
    ahead : callable
        ``ahead(values, columns, begin, end, shared)`` asks the memory for a row that comes soon.
    """

    scores: Any
    add: Any
    add_to_face: Any
    ahead: Any


@lru_cache
def row_kernels(n_lanes: int) -> RowKernels:
    """The kernels for weights of `n_lanes` columns, a multiple of :data:`LANES`."""
    if n_lanes % LANES or n_lanes < LANES:
        raise ValueError(f"n_lanes must be a positive multiple of {LANES}, not {n_lanes}")

    @njit(cache=True, nogil=True)
    def scores(values, columns, begin, end, offset, scale, W, out):  # type: ignore[no-untyped-def]
        _row_product(values, columns, begin, end, offset, W, out, n_lanes)
        bias = W[len(W) - 1]
        for k in range(n_lanes):
            out[k] = scale * out[k] + bias[k]

    @njit(cache=True, nogil=True)
    def add(values, columns, begin, end, offset, scale, change, W):  # type: ignore[no-untyped-def]
        for p in range(begin, end):
            x, w = scale * values[p], W[columns[p - offset]]
            for k in range(n_lanes):
                w[k] += x * change[k]
        bias = W[len(W) - 1]
        for k in range(n_lanes):
            bias[k] += change[k]

    return RowKernels(scores, add, _add_to_face, _ahead)


@njit(cache=True, nogil=True)
def _add_to_face(values, columns, begin, end, offset, scale, change, face, W):  # type: ignore[no-untyped-def]
    for p in range(begin, end):
        W[columns[p - offset], face] += (scale * values[p]) * change
    W[len(W) - 1, face] += change


@njit(cache=True, nogil=True)
def _ahead(values, columns, begin, end, shared):  # type: ignore[no-untyped-def]
    for p in range(begin, end, 64 // values.itemsize):
        _prefetch(values, p)
    if not shared:
        for p in range(begin, end, 64 // columns.itemsize):
            _prefetch(columns, p)


@intrinsic
def _prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        line = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [line.type, _SHORT, _SHORT, _SHORT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [line, _SHORT(0), _SHORT(3), _SHORT(1)])  # to read, kept, data
        return context.get_dummy_value()

    return types.void(array, index), build


@intrinsic
def _row_product(
    _typing: Any,
    values: Any,
    columns: Any,
    begin: Any,
    end: Any,
    offset: Any,
    W: Any,
    out: Any,
    n_lanes: Any,
) -> Any:
    """``out[:] = sum over p in [begin, end) of values[p] * W[columns[p - offset]]``, by vectors."""
    if not isinstance(n_lanes, types.IntegerLiteral) or {values.layout, columns.layout, W.layout} != {"C"}:
        return None
    total = n_lanes.literal_value // LANES

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = {
            name: context.make_array(signature.args[place])(context, builder, arguments[place]).data
            for name, place in (("values", 0), ("columns", 1), ("W", 5), ("out", 6))
        }
        product = _Product(context, builder, values.dtype, W.dtype, total, arrays, arguments[4])
        for first in range(0, total, _MOST):
            product.block(first, min(_MOST, total - first), arguments[2], arguments[3])
        return context.get_dummy_value()

    place = types.int64
    return types.void(values, columns, place, place, place, W, out, n_lanes), build


class _Product:
    """The instructions of :func:`_row_product`; its state is what they have in common."""

    def __init__(
        self,
        context: Any,
        builder: Any,
        entry: Any,
        weight: Any,
        total: int,
        arrays: dict[str, Any],
        offset: Any,
    ):
        self.builder, self.entry, self.weight, self.total = builder, entry, weight, total
        self.arrays, self.offset = arrays, offset
        self.real = context.get_data_type(weight)
        self.vector = ir.VectorType(self.real, LANES)
        self.aligned = weight.bitwidth // 8

    def block(self, first: int, count: int, begin: Any, end: Any) -> None:
        """Sum vectors `first` to ``first + count - 1``; few at once are summed in several strands."""
        strands = {1: 4, 2: 2, 3: 2}.get(count, 1)
        zero = ir.Constant(self.vector, [0.0] * LANES)
        place, sums = self._loop(begin, end, [[zero] * count for _ in range(strands)], first)
        while len(sums) > 1:
            last = sums.pop()
            sums[0] = [self.builder.fadd(a, b) for a, b in zip(sums[0], last, strict=True)]
        if strands > 1:
            _, sums = self._loop(place, end, sums, first)
        target = self.builder.bitcast(self.arrays["out"], self.vector.as_pointer())
        for v, value in enumerate(sums[0]):
            self.builder.store(value, self.builder.gep(target, [_WORD(first + v)]), align=self.aligned)

    def _loop(self, start: Any, end: Any, sums: list[list[Any]], first: int) -> tuple[Any, list[list[Any]]]:
        """Walk the row, as many entries at a time as there are strands, while so many are left."""
        builder, before = self.builder, self.builder.block
        head, body, after = (builder.append_basic_block(f"row_{part}") for part in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        place = builder.phi(_WORD)
        place.add_incoming(start, before)
        running = [[builder.phi(self.vector) for _ in strand] for strand in sums]
        for phis, strand in zip(running, sums, strict=True):
            for phi, value in zip(phis, strand, strict=True):
                phi.add_incoming(value, before)
        following = builder.add(place, _WORD(len(sums)))
        builder.cbranch(builder.icmp_signed("<=", following, end), body, after)
        builder.position_at_end(body)
        for number, phis in enumerate(running):
            x, weights = self._operands(builder.add(place, _WORD(number)))
            for v, phi in enumerate(phis):
                w = builder.load(builder.gep(weights, [_WORD(first + v)]), align=self.aligned)
                moved = builder.fadd(phi, builder.fmul(x, w, flags=_FUSE), flags=_FUSE)
                phi.add_incoming(moved, body)
        place.add_incoming(following, body)
        builder.branch(head)
        builder.position_at_end(after)
        return place, running

    def _operands(self, place: Any) -> tuple[Any, Any]:
        """Entry `place` in every lane of a vector, and where the weights of its column begin."""
        builder = self.builder
        x = builder.load(builder.gep(self.arrays["values"], [place]))
        if isinstance(self.entry, types.Integer):
            x = builder.uitofp(x, self.real)
        elif self.entry.bitwidth < self.weight.bitwidth:
            x = builder.fpext(x, self.real)
        elif self.entry.bitwidth > self.weight.bitwidth:
            x = builder.fptrunc(x, self.real)
        nothing = ir.Constant(self.vector, ir.Undefined)
        lanes = ir.Constant(ir.VectorType(_SHORT, LANES), [0] * LANES)
        x = builder.shuffle_vector(builder.insert_element(nothing, x, _SHORT(0)), nothing, lanes)
        column = builder.load(builder.gep(self.arrays["columns"], [builder.sub(place, self.offset)]))
        column = builder.mul(builder.zext(column, _WORD), _WORD(self.total))
        weights = builder.bitcast(self.arrays["W"], self.vector.as_pointer())
        return x, builder.gep(weights, [column])
