"""Cases in turn are all of them called, and the one that fails is named."""

from __future__ import annotations

import inspect

import pytest
from helpers.cases import in_turn


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
