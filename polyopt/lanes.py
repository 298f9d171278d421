"""A row of samples times the weights of all faces, at the speed of the processor's vector units.

The weights of K faces lie side by side, one row of W per feature and one for the bias, padded with zeros
to a multiple of eight. A product of a sample with all of them then walks the sample once and multiplies
whole vectors of eight. Written as loops over arrays this is three to five times slower, as the compiler
must assume that the arrays overlap, so the two loops that matter, :func:`row_product` and
:func:`row_update`, are built from vector instructions here; on processors with shorter or longer vectors
the compiler cuts or joins them.

All functions here are for compiled code, and take one row of :class:`polyopt.rows.Rows`: ``values`` and
``columns``, ``begin`` and ``end`` where the row's entries lie, and ``offset``, what to take from a place to
get the place of its column: ``begin`` where the rows share their columns, else 0. Kernels that use them
must close over the number of lanes alone, as numba finds a compiled function again in the next process
only if it closes over nothing but numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import llvmlite.ir as ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from polyopt.compiled import njit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numba.core.typing import Context
    from numba.core.typing.templates import Signature
    from numba.types import Type

_Made: TypeAlias = "tuple[Signature, Callable[..., Any]]"

__all__ = ["LANES", "add_bias", "add_to_face", "padded", "prefetch_row", "row_product", "row_update"]

LANES = 8  # weights in a vector
_MAX_VECTORS = 8  # vectors at work at once: as many as fit the registers next to the operands
_FUSE = ("contract",)  # a product and a sum may be one instruction
_WORD, _SHORT = ir.IntType(64), ir.IntType(32)


def padded(n_faces: int) -> int:
    """Weights kept per feature for `n_faces` faces: the next multiple of :data:`LANES`."""
    return -(-n_faces // LANES) * LANES


@njit(cache=True, nogil=True)
def add_bias(out, scale, W):  # type: ignore[no-untyped-def]
    """Turn the product of a row's entries into that of `scale` times them, and add the bias row of W."""
    bias = W[len(W) - 1]
    for k in range(len(out)):
        out[k] = scale * out[k] + bias[k]


@njit(cache=True, nogil=True)
def add_to_face(values, columns, begin, end, offset, scale, change, face, W):  # type: ignore[no-untyped-def]
    """Add ``change * scale * values[p]`` to one column of W, and `change` to its bias."""
    for p in range(begin, end):
        W[columns[p - offset], face] += (scale * values[p]) * change
    W[len(W) - 1, face] += change


@njit(cache=True, nogil=True)
def prefetch_row(values, columns, begin, end, shared):  # type: ignore[no-untyped-def]
    """Ask the memory for a row that comes soon; `shared` as in Rows."""
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
def row_product(
    _typing: Context, values: Type, columns: Type, begin: Type, end: Type, offset: Type, W: Type, out: Type,
    n_lanes: Type,
) -> _Made | None:  # fmt: skip
    """``out[:] = sum over p in [begin, end) of values[p] * W[columns[p - offset]]``.

    W has `n_lanes` columns, as many as out has entries, and both one dtype; `n_lanes` is a constant.
    """
    return _by_vectors(values, columns, W, out, n_lanes, _Walk.sum_up)


@intrinsic
def row_update(
    _typing: Context, values: Type, columns: Type, begin: Type, end: Type, offset: Type, W: Type,
    change: Type, n_lanes: Type,
) -> _Made | None:  # fmt: skip
    """``W[columns[p - offset]] += values[p] * change`` for every p in [begin, end).

    W has `n_lanes` columns, as many as change has entries, and both one dtype; `n_lanes` is a constant.
    """
    return _by_vectors(values, columns, W, change, n_lanes, _Walk.add_up)


def _by_vectors(
    values: Type,
    columns: Type,
    W: Type,
    lanes: Type,
    n_lanes: Type,
    step: Callable[[_Walk, int, int, Any], None],
) -> _Made | None:
    """What numba asks of an intrinsic: its signature, and the maker of its instructions."""
    if not isinstance(n_lanes, types.IntegerLiteral):
        return None
    vectors = _vectors(n_lanes.literal_value, values, columns, W, lanes)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        walk = _Walk(context, builder, signature, arguments, vectors)
        operand = walk.vectors_of(6)
        for first in range(0, vectors, _MAX_VECTORS):
            step(walk, first, min(_MAX_VECTORS, vectors - first), operand)
        return context.get_dummy_value()

    place = types.int64
    return types.void(values, columns, place, place, place, W, lanes, n_lanes), build


def _vectors(n_lanes: int, values: Type, columns: Type, W: Type, lanes: Type) -> int:
    """Number of vectors in a row of W.

    TypingError: A number of lanes that is no multiple of eight, or arrays that vectors cannot walk.
    """
    if n_lanes < LANES or n_lanes % LANES:
        raise TypingError(f"n_lanes must be a positive multiple of {LANES}, not {n_lanes}")
    if {array.layout for array in (values, columns, W, lanes)} != {"C"} or W.dtype != lanes.dtype:
        raise TypingError("values, columns, W and the lanes must be contiguous, the last two of one dtype")
    return n_lanes // LANES


class _Walk:
    """The instructions of a walk over one row; its state is what they have in common."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any, total: int):
        self.builder, self.total = builder, total
        self.begin, self.end, self.offset = arguments[2:5]
        self.entry, self.weight = signature.args[0].dtype, signature.args[5].dtype
        self.real = context.get_data_type(self.weight)
        self.vector, self.aligned = ir.VectorType(self.real, LANES), self.weight.bitwidth // 8
        self._data = {
            place: context.make_array(signature.args[place])(context, builder, arguments[place]).data
            for place in (0, 1, 5, 6)
        }

    def vectors_of(self, place: int) -> Any:
        """The array at a place among the arguments, as vectors."""
        return self.builder.bitcast(self._data[place], self.vector.as_pointer())

    def sum_up(self, first: int, count: int, out: Any) -> None:
        """Sum vectors `first` to ``first + count - 1``; few at once are summed in several strands."""
        strands = {1: 4, 2: 2, 3: 2}.get(count, 1)
        zero = ir.Constant(self.vector, [0.0] * LANES)

        def entries(places: list[Any], sums: list[Any]) -> list[Any]:
            moved = []
            for number, place in enumerate(places):
                x, weights = self._operands(place)
                for v in range(count):
                    moved.append(self._fused(sums[number * count + v], x, self._load(weights, first + v)))
            return moved

        place, sums = self._loop(self.begin, strands, [zero] * (strands * count), entries)
        for number in range(count, strands * count):
            sums[number % count] = self.builder.fadd(sums[number % count], sums[number])
        if strands > 1:
            _, sums = self._loop(place, 1, sums[:count], entries)
        for v in range(count):
            self._store(sums[v], out, first + v)

    def add_up(self, first: int, count: int, change: Any) -> None:
        """Add multiples of vectors `first` to ``first + count - 1`` of change to the weights."""
        steps = [self._load(change, first + v) for v in range(count)]

        def entry(places: list[Any], _: list[Any]) -> list[Any]:
            x, weights = self._operands(places[0])
            for v, step in enumerate(steps):
                self._store(self._fused(self._load(weights, first + v), x, step), weights, first + v)
            return []

        self._loop(self.begin, 1, [], entry)

    def _loop(self, start: Any, stride: int, carried: list[Any], body: Any) -> tuple[Any, list[Any]]:
        """Walk the row, `stride` entries at a time, until fewer are left; `body` moves what is carried."""
        builder, before = self.builder, self.builder.block
        head, inside, after = (builder.append_basic_block(f"row_{part}") for part in ("head", "body", "end"))
        builder.branch(head)
        builder.position_at_end(head)
        place = builder.phi(_WORD)
        place.add_incoming(start, before)
        phis = [builder.phi(self.vector) for _ in carried]
        for phi, value in zip(phis, carried, strict=True):
            phi.add_incoming(value, before)
        following = builder.add(place, _WORD(stride))
        builder.cbranch(builder.icmp_signed("<=", following, self.end), inside, after)
        builder.position_at_end(inside)
        moved = body([builder.add(place, _WORD(number)) for number in range(stride)], phis)
        for phi, value in zip(phis, moved, strict=True):
            phi.add_incoming(value, inside)
        place.add_incoming(following, inside)
        builder.branch(head)
        builder.position_at_end(after)
        return place, phis

    def _fused(self, total: Any, x: Any, y: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(x, y, flags=_FUSE), flags=_FUSE)

    def _load(self, vectors: Any, number: int) -> Any:
        return self.builder.load(self.builder.gep(vectors, [_WORD(number)]), align=self.aligned)

    def _store(self, value: Any, vectors: Any, number: int) -> None:
        self.builder.store(value, self.builder.gep(vectors, [_WORD(number)]), align=self.aligned)

    def _operands(self, place: Any) -> tuple[Any, Any]:
        """Entry `place` in every lane of a vector, and the weights of its column as vectors."""
        builder = self.builder
        x = builder.load(builder.gep(self._data[0], [place]))
        if isinstance(self.entry, types.Integer):
            x = builder.uitofp(x, self.real)
        elif self.entry.bitwidth < self.weight.bitwidth:
            x = builder.fpext(x, self.real)
        elif self.entry.bitwidth > self.weight.bitwidth:
            x = builder.fptrunc(x, self.real)
        nothing = ir.Constant(self.vector, ir.Undefined)
        lanes = ir.Constant(ir.VectorType(_SHORT, LANES), [0] * LANES)
        x = builder.shuffle_vector(builder.insert_element(nothing, x, _SHORT(0)), nothing, lanes)
        column = builder.load(builder.gep(self._data[1], [builder.sub(place, self.offset)]))
        column = builder.mul(builder.zext(column, _WORD), _WORD(self.total))
        return x, builder.gep(self.vectors_of(5), [column])
