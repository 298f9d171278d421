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


@dataclass(frozen=True)
class Value:
    """A number, row, vector or matrix for each value of the free indices."""

    # axes: i, j, k, l, rows and columns; of length 1 for an index that is not free, and for a number or a
    # vector. A multiple of the unit matrix, of any size, has the factor.
    entries: Array
    kind: str  # "number", "unit matrix", "row", "vector" or "matrix"
    axes: str = ""  # the free indices, in alphabetical order

    @property
    def array(self) -> Array:
        """The entries with an axis for each free index, then none, one or two for those of the kind."""
        absent = [axis for axis, index in enumerate(INDICES) if index not in self.axes]
        absent += {"row": [4], "vector": [5], "matrix": []}.get(self.kind, [4, 5])
        return self.entries.squeeze(tuple(absent))

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.entries.shape[4], self.entries.shape[5]

    def expanded_unit(self, size: int) -> Value:
        """Return the value, with a unit matrix as one of (size, size)."""
        if self.kind != "unit matrix":
            return self
        return replace(self, entries=self.entries * np.eye(size), kind="matrix")

    def transposed(self) -> Value:
        """Return ``a'``."""
        kind = {"row": "vector", "vector": "row"}.get(self.kind, self.kind)
        return replace(self, entries=np.swapaxes(self.entries, 4, 5), kind=kind)

    def map_number(self, function: Callable[[Array], Array], name: str) -> Value:
        """Apply the function `name` to a number, for each value of the free indices."""
        if self.kind != "number":
            raise UnreadableError(f"{name} is of a number, not of a {self.kind}")
        return replace(self, entries=function(self.entries))

    def norm(self) -> Value:
        """Return ``‖a‖``."""
        if self.kind in _SCALARS:
            raise UnreadableError(f"a norm is of a vector or a matrix, not of a {self.kind}")
        return replace(self, entries=np.linalg.norm(self.entries, axis=(4, 5), keepdims=True), kind="number")

    def summed(self, index: str) -> Value:
        """Return the sum over one free index."""
        if index not in self.axes:
            raise UnreadableError(f"a sum over {index} has no {index} in its terms")
        total = self.entries.sum(axis=INDICES.index(index), keepdims=True)
        return replace(self, entries=total, axes=self.axes.replace(index, ""))


_SCALARS = ("number", "unit matrix")  # kinds of one entry
UNIT = Value(np.ones((1,) * 6), "unit matrix")


def as_value(array: ArrayLike, axes: Sequence[str] = ()) -> Value:
    """Return an array whose first axes are those of the indices `axes`; an index twice takes the diagonal."""
    array = np.asarray(array, dtype=float)
    labels = [INDICES.index(index) for index in axes]
    inner = list(range(4, 4 + array.ndim - len(labels)))
    if len(inner) > 2:
        raise UnreadableError(f"an array of {len(inner)} axes is not a matrix: an index is missing")
    free = sorted(set(labels))
    entries = np.einsum(array, [*labels, *inner], [*free, *inner])
    absent = [axis for axis in range(6) if axis not in free and axis not in inner]
    kind = ("number", "vector", "matrix")[len(inner)]
    return Value(np.expand_dims(entries, absent), kind, "".join(INDICES[axis] for axis in free))


def _common_axes(*values: Value) -> str:
    """Return the free indices of all values, in alphabetical order."""
    return "".join(index for index in INDICES if any(index in value.axes for value in values))


def add(left: Value, right: Value, sign: int = 1, *, broadcast: bool = False) -> Value:
    """Return ``a + b`` or ``a − b``; with `broadcast` a number may be added to a vector or a matrix."""
    if {left.kind, right.kind} == {"unit matrix", "matrix"}:
        left, right = left.expanded_unit(right.size[0]), right.expanded_unit(left.size[0])
    kinds = {left.kind, right.kind}
    may_broadcast = broadcast and "number" in kinds
    if len(kinds) > 1 and not may_broadcast:
        raise UnreadableError(f"a {left.kind} and a {right.kind} are added")
    if left.size != right.size and not may_broadcast:
        raise UnreadableError(f"a {left.kind} and a {right.kind} of different sizes are added")
    kind = left.kind if right.kind == "number" else right.kind
    return Value(left.entries + sign * right.entries, kind, _common_axes(left, right))


def times(left: Value, right: Value) -> Value:
    """Return ``a b``: number times anything, row times column, matrix times vector."""
    axes = _common_axes(left, right)
    for scalar in _SCALARS:
        if scalar in (left.kind, right.kind):
            kind = right.kind if left.kind == scalar else left.kind
            return Value(left.entries * right.entries, kind, axes)
    if (left.kind, right.kind) not in _PRODUCTS:
        raise UnreadableError(f"a {left.kind} is multiplied by a {right.kind}")
    if left.size[1] != right.size[0]:
        raise UnreadableError(f"a {left.kind} is multiplied by a {right.kind} of another size")
    return Value(left.entries @ right.entries, _PRODUCTS[left.kind, right.kind], axes)


_PRODUCTS = {
    ("row", "vector"): "number",
    ("vector", "row"): "matrix",
    ("row", "matrix"): "row",
    ("matrix", "vector"): "vector",
    ("matrix", "matrix"): "matrix",
}


def hadamard(left: Value, right: Value) -> Value:
    """Return ``a∘b``."""
    if (left.kind, left.size) != (right.kind, right.size) or left.kind in _SCALARS:
        raise UnreadableError(
            f"∘ joins vectors or matrices of one size, not a {left.kind} and a {right.kind} of sizes "
            f"{left.size} and {right.size}"
        )
    return Value(left.entries * right.entries, left.kind, _common_axes(left, right))


def power(base: Value, exponent: Value) -> Value:
    """Return a power of a number, the inverse of a matrix, or its root."""
    if exponent.kind != "number":
        raise UnreadableError(f"an exponent is a number, not a {exponent.kind}")
    if base.kind == "number":
        return Value(base.entries**exponent.entries, "number", _common_axes(base, exponent))
    if base.kind != "matrix" or exponent.axes:
        raise UnreadableError(f"a {base.kind} has no power")
    if base.size[0] != base.size[1]:
        raise UnreadableError("a matrix that is not square has no power")
    if exponent.array == -1.0:
        return replace(base, entries=np.asarray(np.linalg.inv(base.entries), dtype=np.float64))
    if exponent.array == 0.5:
        values, vectors = np.linalg.eigh(base.entries)
        scaled = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        return replace(base, entries=np.asarray(scaled @ np.swapaxes(vectors, 4, 5), dtype=np.float64))
    raise UnreadableError("of a matrix, only the inverse and the root are read")


def where(condition: Value, value: Value) -> Value:
    """Return the value where the condition is not 0, and 0 elsewhere."""
    entries = np.where(condition.entries != 0.0, value.entries, 0.0)
    return replace(value, entries=entries, axes=_common_axes(condition, value))


def stack(parts: Sequence[Value]) -> Value:
    """Return ``(a, b)``: numbers and columns, stacked into one column."""
    for part in parts:
        if part.kind not in ("number", "vector"):
            raise UnreadableError(f"only numbers and columns are stacked, not a {part.kind}")
    outer = np.broadcast_shapes(*(part.entries.shape[:4] for part in parts))
    entries = [np.broadcast_to(part.entries, (*outer, *part.size)) for part in parts]
    return Value(np.concatenate(entries, axis=4), "vector", _common_axes(*parts))


def blocks(rows: Sequence[Sequence[Value]]) -> Value:
    """Return ``[a, b; c, d]``."""
    if any(cell.axes for row in rows for cell in row):
        raise UnreadableError("an entry of a matrix has a free index")
    heights = [_common_size(row, 0) for row in rows]
    widths = [_common_size(column, 1) for column in zip(*rows, strict=True)]
    for row, height in zip(rows, heights, strict=True):
        for cell, width in zip(row, widths, strict=True):
            if cell.kind == "unit matrix" and height != width:
                raise UnreadableError("a unit matrix stands where a block is not square")
    cells = [
        [cell.expanded_unit(height).entries for cell in row]
        for row, height in zip(rows, heights, strict=True)
    ]
    return Value(np.block(cells), "matrix")


def _common_size(cells: Iterable[Value], axis: int) -> int:
    """Return the one height (axis 0) or width (axis 1) of the blocks in a row or column."""
    sizes = {cell.size[axis] for cell in cells if cell.kind != "unit matrix"}
    if len(sizes) != 1:
        raise UnreadableError(f"the blocks of a matrix do not agree in {('height', 'width')[axis]}")
    return sizes.pop()


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
        if relation.sign == "⪰" and "matrix" not in (left.kind, right.kind):
            raise UnreadableError(f"⪰ is between matrices, not a {left.kind} and a {right.kind}")
        if relation.sign != "⪰" and "unit matrix" in (left.kind, right.kind):
            raise UnreadableError("a unit matrix is compared")
        is_zero = relation.right == t.Number("0")
        return add(left, right, -1, broadcast=relation.sign == "⪰" or (relation.sign == "=" and is_zero))

    def holds(self, relation: t.Relation) -> Value:
        """Return 1 if a relation between numbers is true, else 0, for each value of the free indices."""
        left, right = self.value(relation.left), self.value(relation.right)
        if {left.kind, right.kind} != {"number"} or relation.sign not in _COMPARE:
            raise UnreadableError("a condition is a relation between numbers")
        is_true = _COMPARE[relation.sign](left.entries, right.entries)
        return Value(is_true.astype(float), "number", _common_axes(left, right))

    def stated(self, claim: t.Claim) -> Value:
        """Return 1 if all conditions of a claim are true, else 0, for each value of the free indices."""
        return reduce(times, map(self.holds, claim.conditions), as_value(1.0))

    # -- letters ----------------------------------------------------------------------------------

    def _letter(self, letter: t.Letter) -> Value:
        name, printed = letter.name, printed_letter(letter)
        if name in self._parameters:
            argument = self._parameters[name]
            return self._indexed(argument.array, argument.axes, letter) if letter.indices else argument
        for key in (printed, name):
            if key in self.letters:
                return self._indexed(self.letters[key], "", letter)
        if name in self.definitions and not self.definitions[name].parameter:
            head, value = self.definitions[name].head, self._defined(self.definitions[name])
            if not head.indices and not letter.indices:
                return value
            order = [value.axes.index(index.letter) for index in head.indices]
            return self._indexed(np.moveaxis(value.array, order, range(len(order))), "", letter)
        if name == "I" and not letter.indices:
            return UNIT
        if name in INDICES and name in self.ranges and not letter.indices:
            return as_value(np.arange(self.ranges[name]), name)
        raise UnreadableError(f"{printed} has no value")

    def _indexed(self, array: Array, axes: str, letter: t.Letter) -> Value:
        """Give the letter's indices the axes after `axes`, in their order; entries out of range are NaN."""
        printed = printed_letter(letter)
        if array.ndim < len(axes) + len(letter.indices):
            raise UnreadableError(f"{printed} has an index too many")
        for axis, index in enumerate(letter.indices, len(axes)):
            size = array.shape[axis]
            if self.ranges.setdefault(index.letter, size) != size:
                raise UnreadableError(
                    f"{printed} has {size} entries along {index.letter}; "
                    f"{index.letter} goes up to {self.ranges[index.letter]} elsewhere"
                )
            if index.offset:
                source = np.arange(size) + index.offset
                array = np.take(array, source, axis, mode="wrap")
                array[(slice(None),) * axis + ((source < 0) | (source >= size),)] = np.nan
        return as_value(array, [*axes, *(index.letter for index in letter.indices)])

    def _defined(self, definition: t.Definition) -> Value:
        """Return the value of a letter's definition, whose free indices must be those of its head."""
        name = definition.head.name
        if name not in self._defined_values:
            if name in self._evaluating:
                raise UnreadableError(f"{name} is defined by itself")
            self._evaluating.append(name)
            try:
                value = self.value(definition.body)
            finally:
                self._evaluating.pop()
            if sorted(index.letter for index in definition.head.indices) != list(value.axes):
                free = ", ".join(value.axes) or "no index"
                raise UnreadableError(f"{printed_letter(definition.head)} is defined by a formula of {free}")
            self._defined_values[name] = value
        return self._defined_values[name]

    # -- expressions ------------------------------------------------------------------------------

    def _sum(self, tree: t.Sum) -> Value:
        sign, first = tree.terms[0]
        total = self.value(first)
        if sign < 0:
            total = replace(total, entries=-total.entries)
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
        if len(arguments) != 1:
            raise UnreadableError(f"{tree.name} is of one argument")
        if tree.name == "tr":
            if arguments[0].kind != "matrix":
                raise UnreadableError(f"tr is of a matrix, not of a {arguments[0].kind}")
            trace = np.trace(arguments[0].entries, axis1=4, axis2=5)[..., None, None]
            return Value(trace, "number", arguments[0].axes)
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
        t.Number: lambda self, tree: as_value(float(tree.digits)),
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
