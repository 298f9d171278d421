"""Calls of compiled kernels: what does not fit a signature is refused in a sentence, before C sees it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from polyopt.native.library import LIBRARIES, kernel, level

SQUARE_NORMS = kernel("square_norms", "X: T (n, m); centre: f8 (m); squares: f8 (n)", T="f8 f4")
X = np.arange(12.0).reshape(4, 3)
CENTRE, SQUARES = np.ones(3), np.zeros(4)

UNFIT = {
    "type": ((X.astype(np.int32), CENTRE, SQUARES), "X is of int32, not float64 or float32"),
    "other type": ((X, CENTRE.astype(np.float32), SQUARES), "centre is of float32, not float64"),
    "dimensions": ((X[0], CENTRE, SQUARES), "X has 1 dimensions, not 2"),
    "length": ((X, CENTRE[:2], SQUARES), r"centre has shape (2,), not (m) with m = 3"),
    "columns apart": ((X[:, ::2], CENTRE[:2], SQUARES), "shape (4, 2)"),
    "output": ((X, CENTRE, SQUARES[:3]), r"squares has shape (3,), not (n) with n = 4"),
}


@pytest.mark.parametrize(("given", "said"), UNFIT.values(), ids=UNFIT)
def test_arrays_that_do_not_fit_are_refused(given, said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        SQUARE_NORMS(*given)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_type_has_its_function(dtype):
    squares = np.zeros(4)
    SQUARE_NORMS(X.astype(dtype), CENTRE, squares)
    assert squares.tolist() == ((X - 1) ** 2).sum(axis=1).tolist()


def test_arrays_that_cannot_be_written_are_read():
    X_kept, squares = X.copy(), np.zeros(4)
    X_kept.flags.writeable = False
    SQUARE_NORMS(X_kept, CENTRE, squares)
    assert squares.tolist() == ((X - 1) ** 2).sum(axis=1).tolist()


def test_the_level_is_one_that_was_built():
    assert (LIBRARIES / f"kernels.{level()}.so").is_file()
