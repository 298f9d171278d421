"""Drawn calls of compiled kernels: some of each in every run, more if POLYOPT_DRAWS says how many.

``POLYOPT_DRAWS=10000 pytest tests/native`` calls every kernel 10,000 times. Lengths are often 0, 1 or 2 and
else mostly odd; arrays begin at odd multiples of the size of an entry, or where memory begins.
"""

import os
from functools import update_wrapper
from itertools import product

import numpy as np
import pytest

from polyopt.linalg.rows import as_rows

DRAWS = int(os.environ.get("POLYOPT_DRAWS", "20"))
TYPES = [np.float32, np.float64]
FORMS = {  # type of the values, and the share of them that is not zero: rows are packed below one half
    "dense": (np.float64, 1.0),
    "single": (np.float32, 1.0),
    "bytes": (np.uint8, 1.0),
    "packed": (np.float64, 0.4),
    "packed single": (np.float32, 0.4),
    "packed bytes": (np.uint8, 0.4),
}


def drawn_calls(*kernels, **arguments):
    """Make a test of a check that calls each of these kernels at least once.

    The check takes a generator, and arguments by name. A list has values, and each combination of them is
    called; each value of the first list is a test. A range has lengths: in the first call of a combination
    they are the largest, in the others they are drawn.
    """
    assert kernels
    lengths = {name: each for name, each in arguments.items() if isinstance(each, range)}
    values = {name: list(each) for name, each in arguments.items() if name not in lengths}
    cases = list(product(*values.values()))

    def test_of(check):
        def run(first=None):
            for number, case in enumerate(cases):
                if case and case[0] != first:
                    continue
                for call in range(1 + -(-DRAWS // len(cases))):
                    rng = np.random.default_rng([call, number])
                    given = dict(zip(values, case, strict=True))
                    for name, each in lengths.items():
                        given[name] = length(rng, each[-1], each[0]) if call else each[-1]
                    try:
                        check(rng, **given)
                    except BaseException as error:
                        error.add_note(f"drawn with np.random.default_rng({[call, number]}), {given}")
                        raise

        test = update_wrapper((lambda first: run(first)) if values else (lambda: run()), check)
        del test.__wrapped__  # whose arguments pytest would take for fixtures
        if not values:
            return test
        name, each = next(iter(values.items()))
        names = [f"{name} {getattr(value, '__name__', value)}" for value in each]
        return pytest.mark.parametrize("first", each, ids=names)(test)

    return test_of


def length(rng, most=35, least=0):
    """A length up to `most`: 0, 1 and 2 often, and odd ones."""
    small = [size for size in (0, 1, 2) if size >= least]
    if rng.random() < 0.4:
        return int(rng.choice(small or [least]))
    return int(rng.integers(least, most)) | 1


def placed(values, start):
    """The same numbers, some entries after the start of memory."""
    values = np.asarray(values)
    copy = np.empty(start + values.size, values.dtype)[start:].reshape(values.shape)
    copy[...] = values
    return copy


def anywhere(rng, *arrays):
    """The same numbers from an odd multiple of the size of an entry on, or from the start of memory."""
    found = [placed(each, int(rng.choice([0, 1, 3, 5, 7]))) for each in arrays]
    return found[0] if len(found) == 1 else found


def rows_anywhere(rng, X):
    """Samples as kernels walk them, their arrays anywhere."""
    rows = as_rows(X)
    return rows._replace(
        values=anywhere(rng, rows.values),
        columns=anywhere(rng, rows.columns),
        starts=anywhere(rng, rows.starts),
    )


def whole_samples(rng, form, n, m):
    """Samples of small integers, whose products are exact in single precision, as rows and in float64."""
    dtype, share = FORMS[form]
    X = (rng.integers(1, 9, (n, m)) * (rng.random((n, m)) < share)).astype(dtype)
    return rows_anywhere(rng, X), X.astype(float)
