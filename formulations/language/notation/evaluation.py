"""The value of a formula's tree, from the values of its letters.

An index such as the i of ``yᵢ xᵢ`` is free if no sum runs over it. A :class:`Value` has a number, a vector or
a matrix for each value of the free indices; functions such as :func:`add` are the operations on values.
:class:`Scope` has the letters' values, and evaluates trees by these operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.notation import tree as t
from formulations.language.notation.parser import INDICES, UnreadableError
from formulations.language.types import Array

_KINDS = ("a number", "a vector", "a matrix")


@dataclass(frozen=True)
class Value:
    """An array whose first axes belong to free indices."""

    # an axis for each free index, followed by none, one or two for a number, a vector or a matrix
    array: Array
    axes: tuple[str, ...] = ()  # the free indices, in alphabetical order
    is_row: bool = False  # True for a row vector, ``a'``
    is_unit: bool = False  # True for a number times the unit matrix, of any size

    @property
    def rank(self) -> int:
        """0 for a number, 1 for a vector, 2 for a matrix."""
        return 2 if self.is_unit else self.array.ndim - len(self.axes)

    @property
    def kind(self) -> str:
        """The kind in words."""
        return "a row" if self.is_row else _KINDS[self.rank] if self.rank < 3 else "an array"

    def expanded_unit(self, size: int) -> Value:
        """Return the value, with a unit matrix as an array (size, size)."""
        if not self.is_unit:
            return self
        return Value(self.array[..., None, None] * np.eye(size), self.axes)

    def transposed(self) -> Value:
        """Return ``a'``."""
        if self.is_unit or self.rank == 0:
            return self
        if self.rank == 1:
            return replace(self, is_row=not self.is_row)
        return replace(self, array=np.swapaxes(self.array, -1, -2))

    def map_number(self, function: Callable[[Array], Array], name: str) -> Value:
        """Apply the function `name` to a number, for each value of the free indices."""
        if self.rank:
            raise UnreadableError(f"{name} is of a number, not of {self.kind}")
        return replace(self, array=function(self.array))

    def norm(self) -> Value:
        """Return ``‖a‖``."""
        if self.is_unit or not self.rank:
            raise UnreadableError(f"a norm is of a vector or a matrix, not of {self.kind}")
        inner_axes = tuple(range(len(self.axes), self.array.ndim))
        return Value(np.sqrt((self.array**2).sum(axis=inner_axes)), self.axes)

    def summed(self, index: str) -> Value:
        """Return the sum over one free index."""
        if index not in self.axes:
            raise UnreadableError(f"a sum over {index} has no {index} in its terms")
        axes = tuple(axis for axis in self.axes if axis != index)
        return replace(self, array=self.array.sum(axis=self.axes.index(index)), axes=axes)


UNIT = Value(np.array(1.0), is_unit=True)


def number(value: float) -> Value:
    """Return a number."""
    return Value(np.array(float(value)))


def aligned(values: Sequence[Value]) -> tuple[list[Array], tuple[str, ...]]:
    """Return arrays whose first axes are the free indices of all values, and these indices.

    An axis has length 1 if its value does not depend on the index.
    """
    axes = tuple(sorted({axis for value in values for axis in value.axes}))
    arrays = []
    for value in values:
        shape = iter(value.array.shape)
        sizes = [next(shape) if axis in value.axes else 1 for axis in axes]
        arrays.append(value.array.reshape((*sizes, *shape)))
    return arrays, axes


def add(left: Value, right: Value, sign: int = 1, *, broadcast: bool = False) -> Value:
    """Return ``a + b`` or ``a − b``; with `broadcast` a number may be added to a vector or a matrix."""
    if left.is_unit != right.is_unit:
        matrix = right if left.is_unit else left
        if matrix.rank == 2:
            size = matrix.array.shape[-1]
            left, right = left.expanded_unit(size), right.expanded_unit(size)
    if broadcast and 0 in (left.rank, right.rank):
        left, right = _as_constant(left, right), _as_constant(right, left)
    if (left.rank, left.is_row) != (right.rank, right.is_row):
        raise UnreadableError(f"{left.kind} and {right.kind} are added")
    (a, b), axes = aligned([left, right])
    if a.shape[len(axes) :] != b.shape[len(axes) :] and not broadcast:
        raise UnreadableError(f"{left.kind} and {right.kind} of different sizes are added")
    return Value(a + sign * b, axes, left.is_row, left.is_unit)


def _as_constant(value: Value, other: Value) -> Value:
    """Return a number with axes of length 1 for those of another value's vectors or matrices."""
    if value.rank:
        return value
    shape = value.array.shape + (1,) * other.rank
    return Value(value.array.reshape(shape), value.axes, other.is_row)


def times(left: Value, right: Value) -> Value:
    """Return ``a b``: number times anything, row times column, matrix times vector."""
    if left.is_unit or right.is_unit:
        return _times_unit(left, right)
    (a, b), axes = aligned([left, right])
    if not left.rank:
        return Value(a.reshape(a.shape + (1,) * right.rank) * b, axes, right.is_row)
    if not right.rank:
        return Value(a * b.reshape(b.shape + (1,) * left.rank), axes, left.is_row)
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
    """Return the key of a vector or matrix in the table of products."""
    return "matrix" if value.rank == 2 else "row" if value.is_row else "column"


def _times_unit(left: Value, right: Value) -> Value:
    """Return a product of which one factor at least is a multiple of the unit matrix."""
    unit, other = (left, right) if left.is_unit else (right, left)
    product = times(replace(unit, is_unit=False), replace(other, is_unit=False))
    return replace(product, is_unit=True) if other.is_unit or not other.rank else product


def hadamard(left: Value, right: Value) -> Value:
    """Return ``a∘b``."""
    if (left.rank, left.is_row) != (right.rank, right.is_row) or not left.rank:
        raise UnreadableError(f"∘ joins vectors or matrices of one size, not {left.kind} and {right.kind}")
    (a, b), axes = aligned([left, right])
    if a.shape[len(axes) :] != b.shape[len(axes) :]:
        raise UnreadableError("∘ joins vectors or matrices of one size")
    return Value(a * b, axes, left.is_row)


def power(base: Value, exponent: Value) -> Value:
    """Return a power of a number, the inverse of a matrix, or its root."""
    if exponent.rank:
        raise UnreadableError(f"an exponent is a number, not {exponent.kind}")
    if base.rank == 0:
        (a, b), axes = aligned([base, exponent])
        return Value(a**b, axes)
    if base.rank == 1 or base.is_unit or exponent.axes:
        raise UnreadableError(f"{base.kind} has no power")
    if base.array.shape[-1] != base.array.shape[-2]:
        raise UnreadableError("a matrix that is not square has no power")
    if exponent.array == -1.0:
        return Value(np.asarray(np.linalg.inv(base.array), dtype=np.float64), base.axes)
    if exponent.array == 0.5:
        values, vectors = np.linalg.eigh(base.array)
        scaled = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        return Value(np.asarray(scaled @ np.swapaxes(vectors, -1, -2), dtype=np.float64), base.axes)
    raise UnreadableError("of a matrix, only the inverse and the root are read")


def where(condition: Value, value: Value) -> Value:
    """Return the value where the condition is not 0, and 0 elsewhere."""
    (mask, array), axes = aligned([condition, value])
    mask = mask.reshape(mask.shape + (1,) * (array.ndim - len(axes)))
    return Value(np.where(mask != 0.0, array, 0.0), axes, value.is_row)


def stack(parts: Sequence[Value]) -> Value:
    """Return ``(a, b)``: numbers and columns, stacked into one column."""
    arrays, axes = aligned([_as_column(part) for part in parts])
    sizes = np.broadcast_shapes(*(array.shape[: len(axes)] for array in arrays))
    return Value(np.concatenate([np.broadcast_to(a, (*sizes, a.shape[-1])) for a in arrays], axis=-1), axes)


def _as_column(part: Value) -> Value:
    """Return a number as a column of one entry, and a column itself."""
    if part.rank > 1 or part.is_row:
        raise UnreadableError(f"only numbers and columns are stacked, not {part.kind}")
    return part if part.rank else Value(part.array[..., None], part.axes)


def blocks(rows: Sequence[Sequence[Value]]) -> Value:
    """Return ``[a, b; c, d]``."""
    if any(cell.axes for row in rows for cell in row):
        raise UnreadableError("an entry of a matrix has a free index")
    shapes = [[None if cell.is_unit else _block_shape(cell) for cell in row] for row in rows]
    heights = [_common_size((shape[0] for shape in row if shape), "height") for row in shapes]
    columns = zip(*shapes, strict=True)
    widths = [_common_size((shape[1] for shape in column if shape), "width") for column in columns]
    cells = []
    for row, height in zip(rows, heights, strict=True):
        if any(cell.is_unit and height != width for cell, width in zip(row, widths, strict=True)):
            raise UnreadableError("a unit matrix stands where a block is not square")
        cells.append([cell.expanded_unit(height).array.reshape(height, width)
                      for cell, width in zip(row, widths, strict=True)])  # fmt: skip
    return Value(np.block(cells))


def _block_shape(cell: Value) -> tuple[int, int]:
    """Return the height and width of a number, vector or matrix as a block."""
    if cell.rank == 2:
        return cell.array.shape[-2], cell.array.shape[-1]
    size = cell.array.shape[-1] if cell.rank else 1
    return (1, size) if cell.is_row else (size, 1)


def _common_size(sizes: Iterable[int], name: str) -> int:
    """Return the one size of the blocks in a row or column; `name` is the size's in the error."""
    distinct = set(sizes)
    if len(distinct) != 1:
        raise UnreadableError(f"the blocks of a matrix do not agree in {name}")
    return int(distinct.pop())


_SUBSCRIPTS = dict(zip("ijkl₍₎", "ᵢⱼₖₗ₍₎", strict=True))
_COMPARE: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "=": np.equal, "≤": np.less_equal, "≥": np.greater_equal, "<": np.less, ">": np.greater,
}  # fmt: skip


def printed_letter(letter: t.Letter) -> str:
    """Return a letter as plain text prints it, ``ξᵢₖ`` or ``ξ₍ᵢₖ₎``."""
    subscript = "".join(_SUBSCRIPTS[index.letter] for index in letter.indices)
    if letter.name.endswith("₍₎"):
        return f"{letter.name[:-2]}₍{subscript}₎"
    return letter.name + subscript


class Scope:
    """The values of the letters at one point, and letters and functions defined by a formula.

    `letters` has numbers by letter, ``{"y": y, "x": X, "α": alpha}``. The indices of a letter belong to the
    first axes of its array, in their order. A letter with another meaning for another index is named with its
    indices: ``{"xᵢ": positives, "xⱼ": negatives}``.

    The attribute `ranges` has the number of values of each index; it is recorded when a letter with the index
    is evaluated, and must be the same in all formulas.
    """

    def __init__(self, letters: Mapping[str, ArrayLike], definitions: Sequence[t.Definition] = ()):
        self.letters = {name: np.asarray(value, dtype=float) for name, value in letters.items()}
        self.definitions = {definition.head.name: definition for definition in definitions}
        self.ranges: dict[str, int] = {}
        self._defined_values: dict[str, Value] = {}
        self._parameters: dict[str, Value] = {}
        self._evaluating: list[str] = []

    def value(self, tree: t.Expression) -> Value:
        """Return the value of an expression; this adds its indices to `ranges`."""
        return self._RULES[type(tree)](self, tree)

    def residual(self, relation: t.Relation) -> Value:
        """Return the violation of a relation: left less right, or for ≥ right less left.

        Both are numbers, or vectors or matrices of one size; in ``= 0`` and ``⪰ 0`` alone, 0 may be a vector
        or a matrix.
        """
        left, right = self.value(relation.left), self.value(relation.right)
        if relation.sign == "≥":
            left, right = right, left
        if relation.sign == "⪰" and 2 not in (left.rank, right.rank):
            raise UnreadableError(f"⪰ is between matrices, not {left.kind} and {right.kind}")
        if relation.sign != "⪰" and (left.is_unit or right.is_unit):
            raise UnreadableError("a unit matrix is compared")
        is_zero = relation.right == t.Number("0")
        return add(left, right, -1, broadcast=relation.sign == "⪰" or (relation.sign == "=" and is_zero))

    def holds(self, relation: t.Relation) -> Value:
        """Return 1 if a relation between numbers is true, else 0, for each value of the free indices."""
        left, right = self.value(relation.left), self.value(relation.right)
        if left.rank or right.rank or relation.sign not in _COMPARE:
            raise UnreadableError("a condition is a relation between numbers")
        (a, b), axes = aligned([left, right])
        return Value(_COMPARE[relation.sign](a, b).astype(float), axes)

    def stated(self, claim: t.Claim) -> Value:
        """Return 1 if all conditions of a claim are true, else 0, for each value of the free indices."""
        return reduce(times, map(self.holds, claim.conditions), number(1.0))

    # -- letters ----------------------------------------------------------------------------------

    def _letter(self, letter: t.Letter) -> Value:
        base = self._without_indices(letter)
        for index in letter.indices:
            base = self._indexed(base, index, letter)
        return base

    def _without_indices(self, letter: t.Letter) -> Value:
        """Return the value of a letter whose indices are still axes of its array."""
        name, printed = letter.name, printed_letter(letter)
        if name in self._parameters:
            return self._parameters[name]
        for key in (printed, name):
            if key in self.letters:
                return Value(self.letters[key])
        if name in self.definitions and not self.definitions[name].parameter:
            return self._defined(self.definitions[name])
        if name == "I" and not letter.indices:
            return UNIT
        if name in INDICES and name in self.ranges and not letter.indices:
            return Value(np.arange(self.ranges[name], dtype=float), (name,))
        raise UnreadableError(f"{printed} has no value")

    def _indexed(self, base: Value, index: t.Index, letter: t.Letter) -> Value:
        """Give the first axis without an index the free index `index`; entries out of range are NaN."""
        if base.rank < 1 or base.is_unit:
            raise UnreadableError(f"{printed_letter(letter)} has an index too many")
        axis = len(base.axes)
        size = base.array.shape[axis]
        if self.ranges.setdefault(index.letter, size) != size:
            raise UnreadableError(
                f"{printed_letter(letter)} has {size} entries along {index.letter}; "
                f"{index.letter} goes up to {self.ranges[index.letter]} elsewhere"
            )
        array = base.array
        if index.offset:
            array = np.roll(array, -index.offset, axis=axis)
            source = np.arange(size) + index.offset
            array[(slice(None),) * axis + ((source < 0) | (source >= size),)] = np.nan
        if index.letter in base.axes:
            first = base.axes.index(index.letter)
            array = np.moveaxis(np.diagonal(array, axis1=first, axis2=axis), -1, first)
            return Value(array, base.axes)
        axes = tuple(sorted((*base.axes, index.letter)))
        return Value(np.moveaxis(array, axis, axes.index(index.letter)), axes)

    def _defined(self, definition: t.Definition) -> Value:
        """Return the value of a letter's definition; the indices of its head are axes of the array."""
        name = definition.head.name
        if name not in self._defined_values:
            if name in self._evaluating:
                raise UnreadableError(f"{name} is defined by itself")
            self._evaluating.append(name)
            try:
                value = self.value(definition.body)
            finally:
                self._evaluating.pop()
            heads = tuple(index.letter for index in definition.head.indices)
            if sorted(heads) != list(value.axes):
                free = ", ".join(value.axes) or "no index"
                raise UnreadableError(f"{printed_letter(definition.head)} is defined by a formula of {free}")
            order = [value.axes.index(head) for head in heads]
            inner = range(len(heads), value.array.ndim)
            array = value.array.transpose(*order, *inner)
            self._defined_values[name] = Value(array, (), value.is_row, value.is_unit)
        return self._defined_values[name]

    # -- expressions ------------------------------------------------------------------------------

    def _sum(self, tree: t.Sum) -> Value:
        sign, first = tree.terms[0]
        total = self.value(first)
        if sign < 0:
            total = times(number(-1.0), total)
        for sign, term in tree.terms[1:]:
            total = add(total, self.value(term), sign)
        return total

    def _quotient(self, tree: t.Quotient) -> Value:
        below = self.value(tree.below).map_number(np.reciprocal, "a denominator")
        return times(self.value(tree.above), below)

    def _call(self, tree: t.Call) -> Value:
        arguments = [self.value(argument) for argument in tree.arguments]
        if tree.name in self.definitions and self.definitions[tree.name].parameter:
            return self._applied(self.definitions[tree.name], arguments)
        if tree.name in ("max", "min"):
            if any(argument.rank for argument in arguments):
                raise UnreadableError(f"{tree.name} is of numbers")
            arrays, axes = aligned(arguments)
            return Value(reduce(np.maximum if tree.name == "max" else np.minimum, arrays), axes)
        if len(arguments) != 1:
            raise UnreadableError(f"{tree.name} is of one argument")
        if tree.name == "tr":
            if arguments[0].rank != 2 or arguments[0].is_unit:
                raise UnreadableError(f"tr is of a matrix, not of {arguments[0].kind}")
            return Value(np.trace(arguments[0].array, axis1=-2, axis2=-1), arguments[0].axes)
        functions = {"ln": np.log, "exp": np.exp, "sqrt": np.sqrt}
        if tree.name not in functions:
            raise UnreadableError(f"{tree.name} is not defined")
        return arguments[0].map_number(functions[tree.name], tree.name)

    def _applied(self, definition: t.Definition, arguments: list[Value]) -> Value:
        """Return the value of a defined function at its argument."""
        if len(arguments) != 1:
            raise UnreadableError(f"{definition.head.name} is of one argument")
        outer_parameters = self._parameters
        self._parameters = {**outer_parameters, definition.parameter: arguments[0]}
        try:
            return self.value(definition.body)
        finally:
            self._parameters = outer_parameters

    def _summation(self, tree: t.Summation) -> Value:
        total = self.value(tree.body)
        if tree.condition is not None:
            total = where(self.holds(tree.condition), total)
        return reduce(Value.summed, tree.indices, total)

    _RULES: ClassVar[dict[type, Callable[..., Value]]] = {
        t.Number: lambda self, tree: number(float(tree.digits)),
        t.Letter: _letter,
        t.Sum: _sum,
        t.Product: lambda self, tree: reduce(times, map(self.value, tree.factors)),
        t.Hadamard: lambda self, tree: hadamard(self.value(tree.left), self.value(tree.right)),
        t.Quotient: _quotient,
        t.Power: lambda self, tree: power(self.value(tree.base), self.value(tree.exponent)),
        t.Transpose: lambda self, tree: self.value(tree.inner).transposed(),
        t.Norm: lambda self, tree: self.value(tree.inner).norm(),
        t.Call: _call,
        t.Summation: _summation,
        t.Stack: lambda self, tree: stack([self.value(part) for part in tree.parts]),
        t.Matrix: lambda self, tree: blocks([[self.value(cell) for cell in row] for row in tree.rows]),
    }
