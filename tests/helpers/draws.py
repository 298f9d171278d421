"""Drawn calls of compiled kernels: some in every run, and more if POLYOPT_DRAWS says how many.

``POLYOPT_DRAWS=10000 pytest tests/native -k drawn`` calls every kernel 10,000 times. Lengths are often 0, 1
or 2 and else mostly odd; arrays begin at odd multiples of the size of an entry, or where memory begins.
"""

from __future__ import annotations

import os
from functools import wraps

import numpy as np

from polyopt.linalg.rows import as_rows

DRAWS = int(os.environ.get("POLYOPT_DRAWS", "20"))


def drawn_calls(*kernels):
    """Make a test of a check that calls each of these kernels at least once; every generator is a call."""
    assert kernels

    def test_of(check):
        @wraps(check)
        def test():
            for seed in range(DRAWS):
                try:
                    check(np.random.default_rng(seed))
                except BaseException as error:
                    error.add_note(f"drawn with np.random.default_rng({seed})")
                    raise

        del test.__wrapped__  # whose argument pytest would take for a fixture
        return test

    return test_of


def length(rng, most=35, least=0):
    """A length up to `most`: 0, 1 and 2 often, and odd ones."""
    small = [size for size in (0, 1, 2) if size >= least]
    if rng.random() < 0.4:
        return int(rng.choice(small or [least]))
    return int(rng.integers(least, most)) | 1


def pick(rng, values):
    """One of the values as it is."""
    values = list(values)
    return values[rng.integers(len(values))]


def anywhere(rng, values):
    """The same numbers from an odd multiple of the size of an entry on, or from the start of memory."""
    values = np.asarray(values)
    start = int(rng.choice([0, 1, 3, 5, 7]))
    copy = np.empty(start + values.size, values.dtype)[start:].reshape(values.shape)
    copy[...] = values
    return copy


def rows_anywhere(rng, X):
    """Samples as kernels walk them, their arrays anywhere."""
    rows = as_rows(X)
    return rows._replace(
        values=anywhere(rng, rows.values),
        columns=anywhere(rng, rows.columns),
        starts=anywhere(rng, rows.starts),
    )
