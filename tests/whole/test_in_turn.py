"""Cases in turn are all of them called, and the one that fails is named; few cases leave no value out."""

from __future__ import annotations

import inspect
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.cases import dear, in_turn, left_out, named_in, spread


def test_every_case_is_called_and_the_one_that_fails_is_named():
    seen = []

    @in_turn("b", [pytest.param("x", id="one"), [5]])
    @in_turn("a, c", [(1, 2), (3, 4)])
    def each(a, b, c, fixture):
        seen.append((b, a, c, fixture))
        assert (b, a) != ([5], 3)

    assert list(inspect.signature(each).parameters) == ["fixture"]
    with pytest.raises(AssertionError) as raised:
        each(fixture=0)
    assert seen == [("x", 1, 2, 0), ("x", 3, 4, 0), ([5], 1, 2, 0), ([5], 3, 4, 0)]
    assert raised.value.__notes__ == ["with a=3, c=4", "with b=[5]"]


def test_no_case_at_all_is_an_error():
    with pytest.raises(AssertionError, match="no case of a, b"):
        in_turn(("a", "b"), [])
    with pytest.raises(ValueError, match="zip"):
        in_turn(("a", "b"), [(1,)])


class Item:
    """A case as pytest has it."""

    parent = SimpleNamespace(nodeid="file.py")

    def __init__(self, name, axes, values, *cases):
        self.originalname, self.name = name, f"{name}[{'-'.join(map(str, values))}]"
        self.nodeid = f"tests/file.py::{self.name}"
        self.callspec = SimpleNamespace(params=dict(zip(axes, values, strict=True)))
        self.marks = {"parametrize": [pytest.mark.parametrize(axis, []).mark for axis in axes]}
        self.marks["cases"] = [pytest.mark.cases(*cases).mark] if cases else []

    def iter_markers(self, name):
        return iter(self.marks[name])

    def get_closest_marker(self, name):
        return next(self.iter_markers(name), None)


def kept(name, axes, every, *cases):
    items = [Item(name, axes, values, *cases) for values in every]
    out = list(left_out(items))
    return [item.name for item in items if item not in out]


def test_crossings_leave_no_value_out_and_one_list_no_case():
    every = list(product("abc", [1, 2.0], [None, False]))
    some = kept("t", ["x", "y", "z"], every)
    assert len(some) == 3
    assert all(any(str(value) in name for name in some) for value in ["a", "b", "c", 1, 2.0, None, False])
    assert len(kept("t", ["x"], [(0,), (False,), (0.0,), ("0",)])) == 4
    assert len(kept("t", ["x", "y"], product("ab", "ab"), "all")) == 4


def test_a_number_of_cases_is_spread_over_all_and_those_named_are_among_them():
    assert spread([{i} for i in range(9)], 3) == [0, 8, 4]
    assert spread([{i} for i in range(2)], 3) == [0, 1]
    assert kept("t", ["x"], [(i,) for i in range(9)], 2, "[5]") == ["t[0]", "t[5]", "t[8]"]
    assert kept("t", ["x", "y"], product("ab", "cd"), None, "b-c") == ["t[a-c]", "t[b-c]", "t[b-d]"]
    assert kept("t", ["x"], [(0,), (1,)], 0) == []


def test_the_dear_are_left_out_by_name_and_each_of_them_is_a_test():
    items = [Item("t", ["x"], [(value)]) for value in "abc"]
    assert named_in({"file.py::t[b]", "file.py::t"}, items) == [items[1]]
    tests = Path(__file__).parents[1]
    for line in dear():
        file, name = line.split("::")
        assert re.search(rf"^def {name.partition('[')[0]}\(", (tests / file).read_text("utf-8"), re.M), line
