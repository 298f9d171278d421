"""How many cases of a test are run, and how."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path

import pytest

_Case = type(pytest.param())

EVERY = False  # whether --every-case is given; set before any test is read


def few(n, every):
    """``n`` seeds, draws or examples of those that lead the same way, and ``every`` one with --every-case."""
    return every if EVERY else n


def in_turn(names, cases):
    """As ``pytest.mark.parametrize``, with all cases in one test, which names the one that fails.

    For cases that take less than the milliseconds that pytest spends on a test, skip nothing and may share
    their fixtures.
    """
    several = not isinstance(names, str) or "," in names
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = []
    for case in cases:
        values = case.values if isinstance(case, _Case) else case if several else (case,)
        rows.append(dict(zip(names, values, strict=True)))
    assert rows, f"no case of {', '.join(names)}"

    def decorate(function):
        @functools.wraps(function)
        def each(**fixtures):
            for row in rows:
                try:
                    function(**fixtures, **row)
                except BaseException as error:
                    error.add_note(f"with {', '.join(f'{name}={value!r}' for name, value in row.items())}")
                    raise

        signature = inspect.signature(function)
        left = [one for name, one in signature.parameters.items() if name not in names]
        each.__signature__ = signature.replace(parameters=left)
        return each

    return decorate


def values_of(item):
    """What a case is tried on: a value for each time that its test is parametrised, or a fixture of it."""
    left = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    found = set()
    for marker in item.iter_markers("parametrize"):
        names = marker.args[0] if isinstance(marker.args[0], str) else ",".join(marker.args[0])
        names = [name.strip() for name in names.split(",") if name.strip()]
        found.add(tuple((name, plain(left.pop(name, None))) for name in names))
    return found | {((name, plain(value)),) for name, value in left.items()}


def plain(value):
    """A value that can be told from others: itself with its type, or the place of its object."""
    return (type(value), value) if isinstance(value, str | bytes | int | float | None) else id(value)


def spread(values, n):
    """The places of ``n`` cases, each as new in its values, and then as far from the others, as can be.

    Without ``n``, as many as leave no value out.
    """
    if n is None and all(len(own) < 2 for own in values):
        return range(len(values))
    chosen, seen, far = [], set(), [0] * len(values)
    left = list(range(len(values)))
    while left and (n is None or len(chosen) < n):
        best = max(left, key=lambda place: (len(values[place] - seen), far[place], -place))
        if n is None and values[best] <= seen:
            break
        chosen.append(best)
        left.remove(best)
        seen |= values[best]
        far = [
            min(before if chosen[1:] else abs(place - best), abs(place - best))
            for place, before in enumerate(far)
        ]
    return chosen


def left_out(items):
    """Cases that need not run each time.

    Where a test is parametrised twice or more, it is run on each value, and not on each with each; a marker
    ``cases`` gives their number, or "all". Those of ``dear_cases.txt`` are left out as well, and whatever
    looks at a page in a browser.
    """
    yield from named_in(dear(), items)
    yield from (item for item in items if "browser" in getattr(item, "fixturenames", ()))
    tests = {}
    for item in items:
        if hasattr(item, "callspec") or item.get_closest_marker("cases"):
            tests.setdefault((item.parent.nodeid, item.originalname), []).append(item)
    for group in tests.values():
        marker = group[0].get_closest_marker("cases")
        n, *named = marker.args if marker else (None,)
        if n == "all":
            continue
        chosen = set(spread([values_of(item) for item in group], n))
        for place, item in enumerate(group):
            if place not in chosen and not any(name in item.name for name in named):
                yield item


def dear():
    """The tests and cases that are listed as dear, without the folder ``tests/``."""
    lines = (Path(__file__).parent / "dear_cases.txt").read_text(encoding="ascii").splitlines()
    return {line for line in lines if not line.startswith("#")}


def named_in(names, items):
    """Those items whose place in the tree of tests is among the names."""
    return [item for item in items if item.nodeid.removeprefix("tests/") in names]
