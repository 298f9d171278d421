"""Values with free indices: what is done to them is done at each place of the indices, as numpy does it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from formulations.language.notation.evaluation import UNIT, add, as_value, hadamard, power, times, where
from formulations.language.notation.parser import UnreadableError

SIZES = {"i": 2, "j": 4}
FORMS = {"number": (), "row": (3,), "column": (3,), "matrix": (3, 3)}
AXES = [(), ("i",), ("j",), ("i", "j")]
PAIRS = list(itertools.product(AXES, AXES))


def drawn(kind, axes, seed):
    array = np.random.default_rng(seed).uniform(0.5, 2.0, (*(SIZES[axis] for axis in axes), *FORMS[kind]))
    value = as_value(array, axes)
    return value.transposed() if kind == "row" else value


def at(value, place):
    """What a value is at one place of the indices: rows and columns as matrices."""
    array = value.array[tuple(place[axis] for axis in value.axes)]
    return array[None, :] if value.kind == "row" else array[:, None] if array.ndim == 1 else array


def same(found, expected, *given):
    """At every place of the indices of what is given."""
    axes = sorted({axis for value in given for axis in value.axes})
    assert found.axes == "".join(axes)
    for places in itertools.product(*(range(SIZES[axis]) for axis in axes)):
        place = dict(zip(axes, places, strict=True))
        one = np.asarray(expected(*(at(value, place) for value in given)))
        mine = at(found, place)
        assert mine.shape == one.shape or (mine.ndim == 0 and one.size == 1)
        assert np.ravel(mine) == pytest.approx(np.ravel(one))


@pytest.mark.parametrize("axes", PAIRS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("number", "number"), ("number", "row"), ("number", "column"), ("number", "matrix"),
        ("row", "number"), ("column", "number"), ("matrix", "number"), ("row", "column"), ("column", "row"),
        ("row", "matrix"), ("matrix", "column"), ("matrix", "matrix"),
    ],
)  # fmt: skip
def test_products_are_those_of_matrices(left, right, axes):
    """At every place of the indices a product is numpy's."""
    a, b = drawn(left, axes[0], 0), drawn(right, axes[1], 1)
    plain = "number" in (left, right)
    same(times(a, b), lambda p, q: p * q if plain else p @ q, a, b)


@pytest.mark.parametrize("axes", PAIRS)
@pytest.mark.parametrize("kind", FORMS)
def test_sums_and_entries_are_those_of_numpy(kind, axes):
    """At every place of the indices sums, differences, entries and masks are numpy's."""
    a, b = drawn(kind, axes[0], 0), drawn(kind, axes[1], 1)
    same(add(a, b), lambda p, q: p + q, a, b)
    same(add(a, b, -1), lambda p, q: p - q, a, b)
    if kind != "number":
        same(hadamard(a, b), lambda p, q: p * q, a, b)
    c = drawn("number", axes[0], 2)
    same(add(c, b, -1, broadcast=True), lambda p, q: p - q, c, b)
    same(add(b, c, -1, broadcast=True), lambda p, q: p - q, b, c)
    mask = as_value(c.array > 1.2, c.axes)
    same(where(mask, b), lambda p, q: q * (p != 0), mask, b)


@pytest.mark.parametrize(
    ("left", "right"),
    [("row", "row"), ("column", "column"), ("column", "matrix"), ("matrix", "row")],
)
def test_impossible_operation_is_refused(left, right):
    """Values of other kinds or sizes are not multiplied, added, joined or raised."""
    with pytest.raises(UnreadableError, match="is multiplied by"):
        times(drawn(left, (), 0), drawn(right, ("i",), 1))
    for one, other in itertools.permutations(("number", "row", "column", "matrix"), 2):
        with pytest.raises(UnreadableError, match="are added"):
            add(drawn(one, (), 0), drawn(other, (), 1))
        with pytest.raises(UnreadableError, match="joins vectors"):
            hadamard(drawn(one, (), 0), drawn(other, (), 1))
    short = as_value(np.ones(2))
    for function in (add, hadamard):
        with pytest.raises(UnreadableError):
            function(drawn("column", (), 0), short)
    with pytest.raises(UnreadableError, match="of another size"):
        times(drawn("matrix", (), 0), short)
    with pytest.raises(UnreadableError, match="not square"):
        power(as_value(np.ones((2, 3))), as_value(-1.0))
    for base, exponent in (
        (drawn("column", (), 0), as_value(2.0)),
        (UNIT, as_value(-1.0)),
        (as_value(1.0), short),
    ):
        with pytest.raises(UnreadableError):
            power(base, exponent)
    with pytest.raises(UnreadableError, match="only the inverse and the root"):
        power(drawn("matrix", (), 0), as_value(2.0))
