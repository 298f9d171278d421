"""How many cases of a test are run, and how."""

from __future__ import annotations

import functools
import inspect

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
