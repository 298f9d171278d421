"""The sub-problem (9): the dual over one working set, or all samples, everything else fixed, pair by pair.

Two of its variables move at a time: the one that gains most by rising, and the one whose fall with
it gains most by second order information (Fan, Chen & Lin 2005). A pair moves to the optimum of its
line or to the next kink of either, whichever comes first, so one β_i walks through all its families alike.

Kernel rows are asked for when they are first wanted, and many never are. They are gathered from rows at hand
(:class:`Held`), or computed from a few features one at a time (:class:`Computed`).

A pair step makes two passes over the working set (:func:`move`, :func:`partner`), each of which keeps the
best entry and its place. Compilers do not turn such a loop into vector instructions; here eight samples are
looked at together, each lane of the vector unit keeps its own best, and the best of the lanes is the answer.
Written as loops the two passes take three to four times as long. Their vectors are of shape (q,), q a
multiple of :data:`LANES`, float64 but for kernel rows and bends, which may be float32. NaN is never the best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from formulations.families import Pieces
from polyopt.compiled import njit
from polyopt.operands import exponentials, put
from polyopt.solvers.decomposition.dual import next_above, next_below, slopes, slopes_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Samples = NDArray[np.intp]
    Row = NDArray[np.floating[Any]]
    Places = NDArray[np.int64]

__all__ = ["LANES", "Computed", "Held", "gathered", "move", "partner", "solve_pairs"]

_MIN_REL_CURVATURE = 1e-12  # least curvature of a pair, over the diagonal: that of like samples is rounding
_MIN_CURVATURE = 1e-300  # least curvature of a pair, at all
_FIRST_ROWS = 64  # rows for which there is room at first
LANES = 8  # samples of a vector instruction
_FUSE = ("contract",)  # a product and a sum may be one instruction
_WORD = ir.IntType(64)
_REAL = ir.DoubleType()
_VECTOR, _PLACES = ir.VectorType(_REAL, LANES), ir.VectorType(_WORD, LANES)


class Held(NamedTuple):
    """Kernel rows at hand: that of sample r of the set is ``table[slots[r], places]``."""

    table: NDArray[Any]
    slots: Samples
    places: Samples


class Computed(NamedTuple):
    """Kernel rows to compute: that of sample r is a function of ``right @ left[r]``.

    The function is the power of this degree, or for degree 0 the exponential of the product.
    """

    left: Vector
    right: Vector
    degree: int


def _put_row(source: Held | Computed, r: int, out: NDArray[Any]) -> None:
    """Put the kernel row of sample r of the set to the front of `out`; for compiled code."""
    raise NotImplementedError


@overload(_put_row)
def _put_row_of(source: Any, r: Any, out: Any) -> Any:
    def gather(source: Any, r: Any, out: Any) -> None:
        _pick(source.table[source.slots[r]], source.places, out)

    def compute(source: Any, r: Any, out: Any) -> None:
        product = np.dot(source.right, source.left[r])
        q = len(product)
        put(product, out)
        if source.degree == 0:
            exponentials(out.reshape((1, len(out))), np.int64(0), q)  # as it is compiled for others
        for _ in range(source.degree - 1):
            for c in range(q):
                out[c] *= product[c]

    return gather if source.instance_class is Held else compute


@njit(cache=True, nogil=True)
def solve_pairs(
    source: Held | Computed, diagonal: Vector, g: Vector, beta: Vector, phi: Pieces, tol: float, rows: int,
    steps: int,
) -> tuple[int, int]:  # fmt: skip
    """Take up to `steps` pair steps, changing beta and g in place; how many were taken, with how many rows.

    The vectors are of shape (q,); it ends once m - M <= tol, and before it wants more than `rows` rows.
    """
    q = len(g)
    width = -(-q // LANES) * LANES  # samples that are none fill the last vector, and never move
    # Kernel rows in the order in which they are wanted, so that no more memory is touched than they need.
    K, ease = (
        np.empty((min(q, rows, _FIRST_ROWS), width), source[0].dtype),
        np.empty((min(q, rows, _FIRST_ROWS), width), np.float32),
    )
    place, count, unit = np.full(q, -1), 0, diagonal.max()
    up, down, out = np.full(width, -np.inf), np.full(width, np.inf), np.zeros(width)
    rising, falling = slopes(beta, phi)
    put(rising, up)
    put(falling, down)
    kinks, bends = phi
    put(g, out)
    best, where = np.empty(2 * LANES), np.empty(LANES, dtype=np.int64)
    taken = steps
    m, i, M = move(out, up, down, out, out, 0.0, best, where)
    for step in range(steps):
        if not m - M > tol:
            taken = step
            break
        if count + 2 > len(K) and len(K) < q:
            if len(K) >= rows:
                taken = step
                break
            K, ease = _longer(K, min(q, rows)), _longer(ease, min(q, rows))
        if place[i] < 0:
            place[i], count = count, count + 1
            _gather(source, i, diagonal, unit, K[place[i]], ease[place[i]])
        j = partner(out, down, ease[place[i]], m, best, where)
        if j < 0:  # m - M is all rounding
            taken = step
            break
        if place[j] < 0:
            place[j], count = count, count + 1
            _gather(source, j, diagonal, unit, K[place[j]], ease[place[j]])
        first, second = K[place[i]], K[place[j]]
        ends = diagonal[i] + diagonal[j]
        bend = max(ends - 2.0 * first[j], _MIN_REL_CURVATURE * ends, _MIN_CURVATURE)
        length = (m - (down[j] - out[j])) / bend
        # The next kink of each, on which it is put exactly: rounding would leave it beside.
        kink_i, kink_j = next_above(beta[i], i, kinks), next_below(beta[j], j, kinks)
        room_i, room_j = kink_i - beta[i], beta[j] - kink_j
        length = min(length, room_i, room_j)
        beta[i] = kink_i if length == room_i else beta[i] + length
        beta[j] = kink_j if length == room_j else beta[j] - length
        up[i], down[i] = slopes_at(beta[i], i, kinks, bends)
        up[j], down[j] = slopes_at(beta[j], j, kinks, bends)
        m, i, M = move(out, up, down, first, second, length, best, where)
    put(out[:q], g)
    return taken, count


@njit(cache=True, nogil=True)
def _longer(K: NDArray[Any], most: int) -> NDArray[Any]:
    """The same rows, and room for as many more, up to that many in all."""
    longer = np.empty((min(2 * len(K), most), K.shape[1]), K.dtype)
    for r in range(len(K)):
        put(K[r], longer[r])
    return longer


@njit(cache=True, nogil=True)
def _gather(
    source: Held | Computed, r: int, diagonal: Vector, unit: float, pairs: NDArray[Any], eases: NDArray[Any]
) -> None:
    """The row of sample r, and its pairs' inverse curvatures, in units of the largest diagonal entry."""
    q, own = len(diagonal), diagonal[r]
    _put_row(source, r, pairs)
    for c in range(q):
        ends = own + diagonal[c]
        eases[c] = unit / max(ends - 2.0 * pairs[c], _MIN_REL_CURVATURE * ends, _MIN_CURVATURE)
    pairs[q:], eases[q:] = 0.0, 0.0


@njit(cache=True, nogil=True)
def _pick(row: NDArray[Any], places: Samples, out: NDArray[Any]) -> None:
    """``out[c] = row[places[c]]``; half of the time goes if no place can be negative."""
    for c in range(len(places)):
        out[c] = row[np.uint64(places[c])]


@njit(cache=True, nogil=True)
def gathered(table: NDArray[Any], slots: Samples, places: Samples) -> Vector:
    """``table[slots, places]`` in double precision, and symmetric."""
    q = len(places)
    K = np.empty((q, q))
    for r in range(q):
        _pick(table[slots[r]], places, K[r])
    for r in range(q):
        for c in range(r):
            K[r, c] = K[c, r]
    return K


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
