"""Dense passes in C are those of numpy, whatever the lengths, the types and the starts of their arrays."""

import numpy as np
import pytest
from helpers.draws import TYPES, anywhere, drawn_calls, placed

from polyopt.linalg.kernels import distances, feature_major_blocks, square_norms

LENGTHS = [0, 1, 2, 7, 8, 31, 32, 33, 70]


def drawn(*shape, dtype=np.float64):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


@drawn_calls("square_norms", dtype=TYPES, n=[0, 1, 3, 70], m=LENGTHS)
def test_square_norms_are_those_of_numpy(rng, dtype, n, m):
    """Of any length, type and start."""
    X, centre = anywhere(rng, rng.normal(size=(n, m)).astype(dtype), rng.normal(size=m))
    squares = anywhere(rng, np.empty(n))
    square_norms(X, centre, squares)
    np.testing.assert_allclose(squares, ((X - centre) ** 2).sum(axis=1), rtol=1e-13)


@drawn_calls("distances", dtype=TYPES, other=TYPES, m=LENGTHS, count=LENGTHS, chosen=range(36))
def test_distances_are_those_of_numpy(rng, dtype, other, m, count, chosen):
    """Of any width and types, to any rows."""
    Z, X = anywhere(rng, rng.normal(size=(5, m)).astype(dtype), rng.normal(size=(count, m)).astype(other))
    points, out = anywhere(rng, rng.integers(0, 5, chosen), np.empty((chosen, count)))
    distances(Z, points, anywhere(rng, feature_major_blocks(X)), -0.7, out)
    expected = -0.7 * ((Z[points][:, None].astype(float) - X) ** 2).sum(axis=2)
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_distances_are_symmetric():
    """And 0 between equal rows."""
    X, every, out = drawn(70, 9), np.arange(70), np.empty((70, 70))
    distances(X, every, feature_major_blocks(X), 2.0, out)
    assert np.array_equal(out, out.T)
    assert (out.diagonal() == 0.0).all()


@pytest.mark.parametrize("m", LENGTHS)
def test_bits_depend_on_neither_type_nor_start(m):
    """Float32 samples give the bits of the same numbers in float64, and arrays may begin anywhere."""
    X, centre, every, found = drawn(40, m, dtype=np.float32), drawn(m), np.arange(40), set()
    for start in range(4):
        for dtype in TYPES:
            moved, squares, out = placed(X.astype(dtype), start), np.empty(40), np.empty((40, 40))
            square_norms(moved, centre, squares)
            distances(moved, every, feature_major_blocks(moved), 1.0, out)
            found.add((squares.tobytes(), out.tobytes()))
    assert len(found) == 1


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_odd_numbers_stay_in_their_rows(odd):
    """A NaN or infinity spoils no other row."""
    X, squares, out = drawn(4, 37), np.empty(4), np.empty((4, 4))
    X[2, 20] = odd
    square_norms(X, np.zeros(37), squares)
    distances(X, np.arange(4), feature_major_blocks(X), 1.0, out)
    assert np.isfinite(squares).tolist() == [True, True, False, True]
    assert (
        np.isfinite(out).tolist() == np.logical_and.outer(np.isfinite(squares), np.isfinite(squares)).tolist()
    )
