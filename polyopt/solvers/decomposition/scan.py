"""The two passes over a working set that a pair step makes, with the processor's vector units.

A pass keeps the best of what it meets and where it was. Compilers do not turn such a loop into vector
instructions; here eight samples are looked at together, each lane keeps its own best, and the best of the
lanes is the answer. Written as loops the two passes take three to four times as long.

For compiled code. The vectors are of shape (q,), q a multiple of :data:`LANES`, float64 but for kernel rows
and bends, which may be float32. What is not a number is never the best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Row = NDArray[np.floating[Any]]
    Places = NDArray[np.int64]

__all__ = ["LANES", "move", "partner"]

LANES = 8
_FUSE = ("contract",)  # a product and a sum may be one instruction
_WORD = ir.IntType(64)
_REAL = ir.DoubleType()
_VECTOR, _PLACES = ir.VectorType(_REAL, LANES), ir.VectorType(_WORD, LANES)


@njit(cache=True, nogil=True)
def move(
    g: Vector, up: Vector, down: Vector, first: Row, second: Row, length: float, best: Vector, where: Places
) -> tuple[float, int, float]:
    """Add ``length * (first - second)`` to g; the largest ``up - g``, its place, the least ``down - g``.

    `first` and `second` are kernel rows; `best`, of shape (2 LANES,), and `where`, (LANES,) of integers, are
    room to work in.
    """
    _move(g, up, down, first, second, length, best, where)
    lane, least = 0, best[LANES]
    for k in range(1, LANES):
        lane = k if best[k] > best[lane] else lane
        least = min(least, best[LANES + k])
    return best[lane], where[lane], least


@njit(cache=True, nogil=True)
def partner(g: Vector, down: Vector, ease: Row, most: float, best: Vector, where: Places) -> int:
    """The place of the largest ``drop² ease`` among those with ``drop = most - (down - g) > 0``; -1 for none.

    `ease` is inverse to the curvature of the pair; `best` and `where` are room to work in.
    """
    _partner(g, down, ease, most, best, where)
    lane = 0
    for k in range(1, LANES):
        lane = k if best[k] > best[lane] else lane
    return where[lane] if best[lane] >= 0.0 else -1


@intrinsic
def _move(
    _typing: Any, g: Any, up: Any, down: Any, first: Any, second: Any, length: Any, best: Any, where: Any
) -> Any:
    """The pass of :func:`move`; leaves every lane's largest, least and place in `best` and `where`."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scan = _Scan(context, builder, signature, arguments)
        step = scan.spread(arguments[5])
        most, place, least = scan.kept(-np.inf), scan.kept_places(), scan.kept(np.inf)
        with scan.each() as r:
            change = builder.fmul(builder.fsub(scan.load(3, r), scan.load(4, r)), step, flags=_FUSE)
            now = builder.fadd(scan.load(0, r), change, flags=_FUSE)
            scan.store(now, 0, r)
            rise, fall = builder.fsub(scan.load(1, r), now), builder.fsub(scan.load(2, r), now)
            scan.keep(builder.fcmp_ordered(">", rise, builder.load(most)), (rise, most), (scan.at(r), place))
            scan.keep(builder.fcmp_ordered("<", fall, builder.load(least)), (fall, least))
        scan.store(builder.load(most), 6, _WORD(0))
        scan.store(builder.load(least), 6, _WORD(LANES))
        scan.store(builder.load(place), 7, _WORD(0))
        return context.get_dummy_value()

    return types.void(g, up, down, first, second, types.float64, best, where), build


@intrinsic
def _partner(_typing: Any, g: Any, down: Any, ease: Any, most: Any, best: Any, where: Any) -> Any:
    """The pass of :func:`partner`; leaves every lane's largest and its place in `best` and `where`."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scan = _Scan(context, builder, signature, arguments)
        top, none = scan.spread(arguments[3]), ir.Constant(_VECTOR, [0.0] * LANES)
        largest, place = scan.kept(-1.0), scan.kept_places()
        with scan.each() as r:
            drop = builder.fadd(builder.fsub(top, scan.load(1, r)), scan.load(0, r))
            gain = builder.fmul(builder.fmul(drop, drop), scan.load(2, r))
            is_better = builder.and_(
                builder.fcmp_ordered(">", drop, none), builder.fcmp_ordered(">", gain, builder.load(largest))
            )
            scan.keep(is_better, (gain, largest), (scan.at(r), place))
        scan.store(builder.load(largest), 4, _WORD(0))
        scan.store(builder.load(place), 5, _WORD(0))
        return context.get_dummy_value()

    return types.void(g, down, ease, types.float64, best, where), build


class _Scan:
    """The instructions of a pass, eight samples at a time."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any):
        self._builder = builder
        self._arrays = {}
        for place, (kind, argument) in enumerate(zip(signature.args, arguments, strict=True)):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, argument)
                self._arrays[place] = array.data, context.get_data_type(kind.dtype), kind.dtype.bitwidth // 8
        shape = context.make_array(signature.args[0])(context, builder, arguments[0]).shape
        self._count = cgutils.unpack_tuple(builder, shape, 1)[0]

    def each(self) -> Any:
        """A loop over the places 0, LANES, 2 LANES, and so on."""
        return _Loop(self._builder, self._count)

    def spread(self, value: Any) -> Any:
        """A number in every lane."""
        vector = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
        for lane in range(LANES):
            vector = self._builder.insert_element(vector, value, ir.IntType(32)(lane))
        return vector

    def at(self, r: Any) -> Any:
        """The places of the lanes at r."""
        return self._builder.add(self.spread(r), ir.Constant(_PLACES, list(range(LANES))))

    def kept(self, value: float) -> Any:
        """A variable with this number in every lane."""
        return cgutils.alloca_once_value(self._builder, ir.Constant(_VECTOR, [value] * LANES))

    def kept_places(self) -> Any:
        """A variable for places."""
        return cgutils.alloca_once_value(self._builder, ir.Constant(_PLACES, [0] * LANES))

    def keep(self, is_better: Any, *kept: tuple[Any, Any]) -> None:
        """Put new values into variables, in the lanes where they are better."""
        for new, variable in kept:
            old = self._builder.load(variable)
            self._builder.store(self._builder.select(is_better, new, old), variable)

    def load(self, place: int, r: Any) -> Any:
        """Entries r to r + LANES - 1 of an argument, as float64."""
        pointer, size = self._pointer(place, r)
        value = self._builder.load(pointer, align=size)
        return value if value.type == _VECTOR else self._builder.fpext(value, _VECTOR)

    def store(self, value: Any, place: int, r: Any) -> None:
        """Entries r to r + LANES - 1 of an argument."""
        pointer, size = self._pointer(place, r)
        self._builder.store(value, pointer, align=size)

    def _pointer(self, place: int, r: Any) -> tuple[Any, int]:
        data, kind, size = self._arrays[place]
        entry = self._builder.gep(data, [r])
        return self._builder.bitcast(entry, ir.VectorType(kind, LANES).as_pointer()), size


class _Loop:
    """``for r in range(0, count, LANES)`` as a context."""

    def __init__(self, builder: Any, count: Any):
        self._range = cgutils.for_range_slice(builder, _WORD(0), count, _WORD(LANES), inc=True)

    def __enter__(self) -> Any:
        return self._range.__enter__()[0]

    def __exit__(self, *error: Any) -> Any:
        return self._range.__exit__(*error)
