"""The value of a formula's tree, from the values of its letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from formulations.language.notation import tree as t
from formulations.language.notation import values as v
from formulations.language.notation.tokens import INDICES, UnreadableError
from formulations.language.notation.values import Value

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Scope", "printed_letter"]

_SUBSCRIPTS = dict(zip("ijkl₍₎", "ᵢⱼₖₗ₍₎", strict=True))
_COMPARE: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "=": np.equal, "≤": np.less_equal, "≥": np.greater_equal, "<": np.less, ">": np.greater,
}  # fmt: skip


def printed_letter(letter: t.Letter) -> str:
    """A letter as plain text prints it, ``ξᵢₖ`` or ``ξ₍ᵢₖ₎``."""
    subscript = "".join(_SUBSCRIPTS[index.letter] for index in letter.indices)
    if letter.name.endswith("₍₎"):
        return f"{letter.name[:-2]}₍{subscript}₎"
    return letter.name + subscript


class Scope:
    """What the letters stand for, at one point.

    Parameters
    ----------
    letters : mapping of str to array_like
        The numbers by letter: ``{"y": y, "x": X, "α": alpha}``; an index takes the first axis that is left. A
        letter that stands for different things under different indices is given with them: ``{"xᵢ": inside,
        "xⱼ": outside}``.
    definitions : sequence of Definition
        Letters and functions by formula.

    Attributes
    ----------
    ranges : dict of str to int
        How far each index goes. An index that would go differently far in two places is refused.
    """

    def __init__(self, letters: Mapping[str, ArrayLike], definitions: Sequence[t.Definition] = ()):
        self.letters = {name: np.asarray(value, dtype=float) for name, value in letters.items()}
        self.definitions = {definition.head.name: definition for definition in definitions}
        self.ranges: dict[str, int] = {}
        self._known: dict[str, Value] = {}
        self._parameters: dict[str, Value] = {}
        self._open: list[str] = []

    def value(self, tree: t.Expression) -> Value:
        """The value of an expression.

        Raises
        ------
        UnreadableError
            A letter without a value, or vectors and numbers where they do not belong.
        """
        return self._RULES[type(tree)](self, tree)

    def residual(self, relation: t.Relation) -> Value:
        """By how much a relation is violated: left less right, or for ≥ right less left.

        Both are numbers, or vectors or matrices of one size; only ``= 0`` and ``⪰ 0`` are short for a
        vector or a matrix of zeros.
        """
        left, right = self.value(relation.left), self.value(relation.right)
        if relation.sign == "≥":
            left, right = right, left
        if relation.sign == "⪰" and 2 not in (left.rank, right.rank):
            raise UnreadableError(f"⪰ is between matrices, not {left.kind} and {right.kind}")
        if relation.sign != "⪰" and (left.unit or right.unit):
            raise UnreadableError("a unit matrix is compared")
        nothing = relation.right == t.Number("0")
        return v.add(left, right, -1, spread=relation.sign == "⪰" or (relation.sign == "=" and nothing))

    def holds(self, relation: t.Relation) -> Value:
        """1 where a relation between numbers holds, and 0 where it does not."""
        left, right = self.value(relation.left), self.value(relation.right)
        if left.rank or right.rank or relation.sign not in _COMPARE:
            raise UnreadableError("a condition is a relation between numbers")
        (a, b), axes = v.aligned([left, right])
        return Value(_COMPARE[relation.sign](a, b).astype(float), axes)

    def stated(self, claim: t.Claim) -> Value:
        """1 where a claim is made, 0 where its conditions leave it out."""
        found = v.number(1.0)
        for condition in claim.conditions:
            found = v.times(found, self.holds(condition))
        return found

    # -- letters ----------------------------------------------------------------------------------

    def _letter(self, letter: t.Letter) -> Value:
        base = self._base(letter)
        for index in letter.indices:
            base = self._at(base, index, letter)
        return base

    def _base(self, letter: t.Letter) -> Value:
        name, whole = letter.name, printed_letter(letter)
        if name in self._parameters:
            return self._parameters[name]
        for key in (whole, name):
            if key in self.letters:
                return Value(self.letters[key])
        if name in self.definitions and not self.definitions[name].parameter:
            return self._defined(self.definitions[name])
        if name == "I" and not letter.indices:
            return v.UNIT
        if name in INDICES and name in self.ranges and not letter.indices:
            return Value(np.arange(self.ranges[name], dtype=float), (name,))
        raise UnreadableError(f"{whole} has no value")

    def _at(self, base: Value, index: t.Index, letter: t.Letter) -> Value:
        if base.rank < 1 or base.unit:
            raise UnreadableError(f"{printed_letter(letter)} has an index too many")
        axis = len(base.axes)
        size = base.array.shape[axis]
        if self.ranges.setdefault(index.letter, size) != size:
            goes = f"{index.letter} goes up to {self.ranges[index.letter]} elsewhere"
            raise UnreadableError(f"{printed_letter(letter)} has {size} entries along {index.letter}; {goes}")
        array = base.array
        if index.offset:
            array = np.roll(array, -index.offset, axis=axis)
            beyond = np.arange(size) + index.offset
            array[(slice(None),) * axis + ((beyond < 0) | (beyond >= size),)] = np.nan
        if index.letter in base.axes:
            place = base.axes.index(index.letter)
            array = np.moveaxis(np.diagonal(array, axis1=place, axis2=axis), -1, place)
            return Value(array, base.axes)
        axes = tuple(sorted((*base.axes, index.letter)))
        return Value(np.moveaxis(array, axis, axes.index(index.letter)), axes)

    def _defined(self, definition: t.Definition) -> Value:
        name = definition.head.name
        if name not in self._known:
            if name in self._open:
                raise UnreadableError(f"{name} is defined by itself")
            self._open.append(name)
            try:
                value = self.value(definition.body)
            finally:
                self._open.pop()
            heads = tuple(index.letter for index in definition.head.indices)
            if sorted(heads) != list(value.axes):
                free = ", ".join(value.axes) or "no index"
                raise UnreadableError(f"{printed_letter(definition.head)} is defined by a formula of {free}")
            order = [value.axes.index(head) for head in heads]
            rest = range(len(heads), value.array.ndim)
            self._known[name] = Value(value.array.transpose(*order, *rest), (), value.lying, value.unit)
        return self._known[name]

    # -- expressions ------------------------------------------------------------------------------

    def _number(self, tree: t.Number) -> Value:
        return v.number(float(tree.digits))

    def _sum(self, tree: t.Sum) -> Value:
        sign, first = tree.terms[0]
        found = self.value(first)
        if sign < 0:
            found = v.times(v.number(-1.0), found)
        for sign, term in tree.terms[1:]:
            found = v.add(found, self.value(term), sign)
        return found

    def _product(self, tree: t.Product) -> Value:
        found = self.value(tree.factors[0])
        for factor in tree.factors[1:]:
            found = v.times(found, self.value(factor))
        return found

    def _quotient(self, tree: t.Quotient) -> Value:
        below = self.value(tree.below).number_by_number(np.reciprocal, "a denominator")
        return v.times(self.value(tree.above), below)

    def _call(self, tree: t.Call) -> Value:
        given = [self.value(argument) for argument in tree.arguments]
        if tree.name in self.definitions and self.definitions[tree.name].parameter:
            return self._applied(self.definitions[tree.name], given)
        if tree.name in ("max", "min"):
            if any(one.rank for one in given):
                raise UnreadableError(f"{tree.name} is of numbers")
            arrays, axes = v.aligned(given)
            return Value(reduce(np.maximum if tree.name == "max" else np.minimum, arrays), axes)
        if len(given) != 1:
            raise UnreadableError(f"{tree.name} is of one argument")
        if tree.name == "tr":
            if given[0].rank != 2 or given[0].unit:
                raise UnreadableError(f"tr is of a matrix, not of {given[0].kind}")
            return Value(np.trace(given[0].array, axis1=-2, axis2=-1), given[0].axes)
        functions = {"ln": np.log, "exp": np.exp, "sqrt": np.sqrt}
        if tree.name not in functions:
            raise UnreadableError(f"{tree.name} is not defined")
        return given[0].number_by_number(functions[tree.name], tree.name)

    def _applied(self, definition: t.Definition, given: list[Value]) -> Value:
        if len(given) != 1:
            raise UnreadableError(f"{definition.head.name} is of one argument")
        outside = self._parameters
        self._parameters = {**outside, definition.parameter: given[0]}
        try:
            return self.value(definition.body)
        finally:
            self._parameters = outside

    def _total(self, tree: t.Total) -> Value:
        found = self.value(tree.body)
        if tree.condition is not None:
            found = v.where(self.holds(tree.condition), found)
        for index in tree.indices:
            found = found.summed(index)
        return found

    def _matrix(self, tree: t.Matrix) -> Value:
        return v.blocks([[self.value(cell) for cell in row] for row in tree.rows])

    _RULES: ClassVar[dict[type, Callable[..., Value]]] = {
        t.Number: _number,
        t.Letter: _letter,
        t.Sum: _sum,
        t.Product: _product,
        t.Hadamard: lambda self, tree: v.hadamard(self.value(tree.left), self.value(tree.right)),
        t.Quotient: _quotient,
        t.Power: lambda self, tree: v.power(self.value(tree.base), self.value(tree.exponent)),
        t.Transpose: lambda self, tree: self.value(tree.inner).transposed(),
        t.Norm: lambda self, tree: self.value(tree.inner).norm(),
        t.Call: _call,
        t.Total: _total,
        t.Stack: lambda self, tree: v.stack([self.value(part) for part in tree.parts]),
        t.Matrix: _matrix,
    }
