"""Values of formulas: numbers, vectors and matrices, one for each value of the free indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.language.notation.tokens import UnreadableError

if TYPE_CHECKING:
    from formulations.language.types import Array

__all__ = [
    "UNIT",
    "Value",
    "add",
    "aligned",
    "blocks",
    "hadamard",
    "number",
    "power",
    "stack",
    "times",
    "where",
]

_KINDS = ("a number", "a vector", "a matrix")


@dataclass(frozen=True)
class Value:
    """An array whose first axes belong to free indices.

    Attributes
    ----------
    array : ndarray
        The numbers: one axis for each free index, then none, one or two for a number, a vector or a matrix.
    axes : tuple of str
        The free indices, in alphabetical order.
    lying : bool
        Whether a vector is a row, ``a'``.
    unit : bool
        Whether it stands for a number times the unit matrix, of whatever size is needed.
    """

    array: Array
    axes: tuple[str, ...] = ()
    lying: bool = False
    unit: bool = False

    @property
    def rank(self) -> int:
        """0 for a number, 1 for a vector, 2 for a matrix."""
        return 2 if self.unit else self.array.ndim - len(self.axes)

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return "a row" if self.lying else _KINDS[self.rank] if self.rank < 3 else "an array"

    def of_size(self, size: int) -> Value:
        """Itself, the unit matrix written out."""
        if not self.unit:
            return self
        return Value(self.array[..., None, None] * np.eye(size), self.axes)

    def transposed(self) -> Value:
        """``a'``."""
        if self.unit or self.rank == 0:
            return self
        if self.rank == 1:
            return replace(self, lying=not self.lying)
        return replace(self, array=np.swapaxes(self.array, -1, -2))

    def number_by_number(self, function: Callable[[Array], Array], name: str) -> Value:
        """A function of numbers."""
        if self.rank:
            raise UnreadableError(f"{name} is of a number, not of {self.kind}")
        return replace(self, array=function(self.array))

    def norm(self) -> Value:
        """``‖a‖``."""
        if self.unit or not self.rank:
            raise UnreadableError(f"a norm is of a vector or a matrix, not of {self.kind}")
        over = tuple(range(len(self.axes), self.array.ndim))
        return Value(np.sqrt((self.array**2).sum(axis=over)), self.axes)

    def summed(self, index: str) -> Value:
        """The sum over one free index."""
        if index not in self.axes:
            raise UnreadableError(f"a sum over {index} has no {index} in its terms")
        axes = tuple(axis for axis in self.axes if axis != index)
        return replace(self, array=self.array.sum(axis=self.axes.index(index)), axes=axes)


UNIT = Value(np.array(1.0), unit=True)


def number(value: float) -> Value:
    """A number."""
    return Value(np.array(float(value)))


def aligned(values: Sequence[Value]) -> tuple[list[Array], tuple[str, ...]]:
    """Arrays whose first axes are the free indices of all the values, and these indices."""
    axes = tuple(sorted({axis for value in values for axis in value.axes}))
    arrays = []
    for value in values:
        shape = iter(value.array.shape)
        sizes = [next(shape) if axis in value.axes else 1 for axis in axes]
        arrays.append(value.array.reshape((*sizes, *shape)))
    return arrays, axes


def add(left: Value, right: Value, sign: int = 1, *, spread: bool = False) -> Value:
    """``a + b`` or ``a − b``.

    Parameters
    ----------
    left, right : Value
        The terms.
    sign : int
        That of the second.
    spread : bool
        Whether a number counts for every entry of the other, as the 0 of a relation.
    """
    if left.unit != right.unit:
        matrix = right if left.unit else left
        if matrix.rank == 2:
            left, right = left.of_size(matrix.array.shape[-1]), right.of_size(matrix.array.shape[-1])
    if spread and 0 in (left.rank, right.rank):
        left, right = _spread(left, right), _spread(right, left)
    if (left.rank, left.lying) != (right.rank, right.lying):
        raise UnreadableError(f"{left.kind} and {right.kind} are added")
    (a, b), axes = aligned([left, right])
    if a.shape[len(axes) :] != b.shape[len(axes) :] and not spread:
        raise UnreadableError(f"{left.kind} and {right.kind} of different sizes are added")
    return Value(a + sign * b, axes, left.lying, left.unit)


def _spread(value: Value, other: Value) -> Value:
    if value.rank:
        return value
    shape = value.array.shape + (1,) * other.rank
    return Value(value.array.reshape(shape), value.axes, other.lying)


def times(left: Value, right: Value) -> Value:
    """``a b``: number times anything, row times column, matrix times vector."""
    if left.unit or right.unit:
        return _times_unit(left, right)
    (a, b), axes = aligned([left, right])
    if not left.rank:
        return Value(a.reshape(a.shape + (1,) * right.rank) * b, axes, right.lying)
    if not right.rank:
        return Value(a * b.reshape(b.shape + (1,) * left.rank), axes, left.lying)
    form = (_shape_name(left), _shape_name(right))
    if form not in _PRODUCTS:
        raise UnreadableError(f"{left.kind} is multiplied by {right.kind}")
    try:
        return Value(np.einsum(_PRODUCTS[form], a, b), axes, form == ("row", "matrix"))
    except ValueError:
        raise UnreadableError(f"{left.kind} is multiplied by {right.kind} of another size") from None


_PRODUCTS = {
    ("row", "column"): "...a,...a->...",
    ("column", "row"): "...a,...b->...ab",
    ("row", "matrix"): "...a,...ab->...b",
    ("matrix", "column"): "...ab,...b->...a",
    ("matrix", "matrix"): "...ab,...bc->...ac",
}


def _shape_name(value: Value) -> str:
    return "matrix" if value.rank == 2 else "row" if value.lying else "column"


def _times_unit(left: Value, right: Value) -> Value:
    factor, other = (left, right) if left.unit else (right, left)
    product = times(replace(factor, unit=False), replace(other, unit=False))
    return replace(product, unit=True) if other.unit or not other.rank else product


def hadamard(left: Value, right: Value) -> Value:
    """``a∘b``."""
    if (left.rank, left.lying) != (right.rank, right.lying) or not left.rank:
        raise UnreadableError(f"∘ joins vectors or matrices of one size, not {left.kind} and {right.kind}")
    (a, b), axes = aligned([left, right])
    if a.shape[len(axes) :] != b.shape[len(axes) :]:
        raise UnreadableError("∘ joins vectors or matrices of one size")
    return Value(a * b, axes, left.lying)


def power(base: Value, exponent: Value) -> Value:
    """A power of a number, the inverse of a matrix, or its root."""
    if exponent.rank:
        raise UnreadableError(f"an exponent is a number, not {exponent.kind}")
    if base.rank == 0:
        (a, b), axes = aligned([base, exponent])
        return Value(a**b, axes)
    if base.rank == 1 or base.unit or exponent.axes:
        raise UnreadableError(f"{base.kind} has no power")
    if base.array.shape[-1] != base.array.shape[-2]:
        raise UnreadableError("a matrix that is not square has no power")
    if exponent.array == -1.0:
        return Value(np.asarray(np.linalg.inv(base.array), dtype=np.float64), base.axes)
    if exponent.array == 0.5:
        values, vectors = np.linalg.eigh(base.array)
        rooted = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        return Value(np.asarray(rooted @ np.swapaxes(vectors, -1, -2), dtype=np.float64), base.axes)
    raise UnreadableError("of a matrix, only the inverse and the root are read")


def where(condition: Value, value: Value) -> Value:
    """The value where the condition is not 0, and 0 elsewhere."""
    (mask, array), axes = aligned([condition, value])
    mask = mask.reshape(mask.shape + (1,) * (array.ndim - len(axes)))
    return Value(np.where(mask != 0.0, array, 0.0), axes, value.lying)


def stack(parts: Sequence[Value]) -> Value:
    """``(a, b)``: one column of numbers and columns."""
    arrays, axes = aligned([_as_column(part) for part in parts])
    sizes = np.broadcast_shapes(*(array.shape[: len(axes)] for array in arrays))
    return Value(np.concatenate([np.broadcast_to(a, (*sizes, a.shape[-1])) for a in arrays], axis=-1), axes)


def _as_column(part: Value) -> Value:
    if part.rank > 1 or part.lying:
        raise UnreadableError(f"numbers and columns are put one under the other, not {part.kind}")
    return part if part.rank else Value(part.array[..., None], part.axes)


def blocks(rows: Sequence[Sequence[Value]]) -> Value:
    """``[a, b; c, d]``."""
    if any(cell.axes for row in rows for cell in row):
        raise UnreadableError("an entry of a matrix has a free index")
    heights = [_size((_extent(cell)[0] for cell in row if not cell.unit), "height") for row in rows]
    columns = zip(*rows, strict=True)
    widths = [_size((_extent(cell)[1] for cell in column if not cell.unit), "width") for column in columns]
    cells = []
    for row, height in zip(rows, heights, strict=True):
        if any(cell.unit and height != width for cell, width in zip(row, widths, strict=True)):
            raise UnreadableError("a unit matrix stands where a block is not square")
        cells.append([cell.of_size(height).array.reshape(height, width)
                      for cell, width in zip(row, widths, strict=True)])  # fmt: skip
    return Value(np.block(cells))


def _extent(cell: Value) -> tuple[int, int]:
    if cell.rank == 2:
        return cell.array.shape[-2], cell.array.shape[-1]
    size = cell.array.shape[-1] if cell.rank else 1
    return (1, size) if cell.lying else (size, 1)


def _size(sizes: object, name: str) -> int:
    found = set(sizes)  # type: ignore[call-overload]
    if len(found) != 1:
        raise UnreadableError(f"the blocks of a matrix do not agree in {name}")
    return int(found.pop())
