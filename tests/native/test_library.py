"""Calls of compiled kernels: what does not fit a signature is refused in a sentence, before C sees it."""

import pickle
import re

import numpy as np
import pytest
from helpers.draws import placed

from polyopt.native.library import LIBRARIES, Struct, kernel, level

SQUARE_NORMS = kernel("square_norms", "X: T (n, m); centre: f8 (m); squares!: f8 (n)", T="f8 f4")
X = np.arange(12.0).reshape(4, 3)
CENTRE, SQUARES = np.ones(3), np.zeros(4)
ODD = placed(X.view(np.uint8).ravel(), 1).view(np.float64).reshape(4, 3)  # where no number may begin

UNFIT = {
    "type": ((X.astype(np.int32), CENTRE, SQUARES), "X is of int32, not float64 or float32"),
    "other type": ((X, CENTRE.astype(np.float32), SQUARES), "centre is of float32, not float64"),
    "dimensions": ((X[0], CENTRE, SQUARES), "X has 1 dimensions, not 2"),
    "length": ((X, CENTRE[:2], SQUARES), r"centre has shape (2,), not (m) with m = 3"),
    "list": ((X.tolist(), CENTRE, SQUARES), "X is a list, not an array"),
    "byte order": ((X.astype(">f8"), CENTRE, SQUARES), "X is of >f8, not float64 or float32"),
    "output apart": ((X, CENTRE, np.zeros(8)[::2]), "squares, of shape (4,), is not C-contiguous"),
    "output that is not aligned": (
        (X, CENTRE, np.zeros(33, np.uint8)[1:].view(np.float64)),
        "squares is not aligned in memory",
    ),
    "read-only output": (
        (X, CENTRE, np.broadcast_to(SQUARES, 4)),
        "squares is read-only, and would be written",
    ),
    "output": ((X, CENTRE, SQUARES[:3]), r"squares has shape (3,), not (n) with n = 4"),
}


@pytest.mark.parametrize(("given", "said"), UNFIT.values(), ids=UNFIT)
def test_unfit_arrays_are_refused(given, said):
    """By shape, type or order, in a sentence."""
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        SQUARE_NORMS(*given)


READ = {
    "double": X,
    "single": X.astype(np.float32),
    "read-only": np.broadcast_to(X, X.shape),
    "Fortran order": np.asfortranarray(X),
    "columns apart": np.repeat(X, 2, axis=1)[:, ::2],
    "not aligned": ODD,
}


@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_any_array_is_read(read):
    """Each type has its kernel, and an array that is not contiguous is copied."""
    squares = np.zeros(4)
    SQUARE_NORMS(read, CENTRE, squares)
    assert squares.tolist() == ((X - 1) ** 2).sum(axis=1).tolist()


def test_level_was_built():
    """The processor's level is one of the builds."""
    assert (LIBRARIES / f"kernels.{level()}.so").is_file()


class Pair(Struct):
    """Two arrays of one length, of a type that varies."""

    signature = "a: T (n); b!: f8 (n)"
    types = {"T": "f4 f8"}  # noqa: RUF012


TAKES_PAIR = kernel("takes_pair", "pair: Pair; c: f8 (n)")


def test_structs_are_checked():
    """Their class, lengths and types."""
    pair = Pair(np.zeros(3, np.float32), np.zeros(3))
    assert (pair.kinds, pair.lengths) == ([np.dtype("f4")], {"n": 3})
    with pytest.raises(TypeError, match="pair is a NoneType, not a Pair"):
        TAKES_PAIR(None, np.zeros(3))
    with pytest.raises(ValueError, match=r"c has shape \(2,\), not \(n\) with n = 3"):
        TAKES_PAIR(pair, np.zeros(2))
    with pytest.raises(ValueError, match=r"b has shape \(2,\)"):
        Pair(np.zeros(3), np.zeros(2))
    with pytest.raises(AttributeError, match="a is fixed"):
        pair.a = np.zeros(3)
    with pytest.raises(TypeError, match="holds addresses"):
        pickle.dumps(pair)


@pytest.mark.parametrize("signature", ["_x: f8", "x f8", "x: f8 (n"])
def test_bad_signatures_are_refused(signature):
    """When they are declared."""
    with pytest.raises(ValueError, match="nothing: "):
        kernel("nothing", signature)
