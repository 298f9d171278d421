"""Dense passes in C are those of numpy, whatever the lengths, the types and the starts of their arrays."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls, length, pick

from polyopt.linalg.kernels import distances, feature_major_blocks, square_norms

LENGTHS = [0, 1, 2, 7, 8, 31, 32, 33, 70]
TYPES = [np.float32, np.float64]


def drawn(shape, dtype=np.float64, seed=0, start=0):
    """Normal numbers in an array that begins at any multiple of its type's size."""
    numbers = np.random.default_rng(seed).normal(size=start + int(np.prod(shape))).astype(dtype)
    return numbers[start:].reshape(shape)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m", LENGTHS)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_square_norms_are_those_of_numpy(n, m, dtype):
    """Of any length, type and start."""
    X, centre, squares = drawn((n, m), dtype), drawn(m, seed=1), np.empty(n)
    square_norms(X, centre, squares)
    np.testing.assert_allclose(squares, ((X - centre) ** 2).sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m", LENGTHS)
def test_distances_are_those_of_numpy(m, dtype):
    """Of any width and type."""
    for count in LENGTHS:
        Z, X = drawn((5, m), dtype), drawn((count, m), seed=1)
        points, out = np.array([4, 1, 1]), np.empty((3, count))
        distances(Z, points, feature_major_blocks(X), -0.7, out)
        expected = -0.7 * ((Z[points][:, None].astype(float) - X) ** 2).sum(axis=2)
        np.testing.assert_allclose(out, expected, rtol=1e-13)


def test_distances_are_symmetric():
    """And 0 between equal rows."""
    X, every, out = drawn((70, 9)), np.arange(70), np.empty((70, 70))
    distances(X, every, feature_major_blocks(X), 2.0, out)
    assert np.array_equal(out, out.T)
    assert (out.diagonal() == 0.0).all()


@pytest.mark.parametrize("m", LENGTHS)
def test_bits_depend_on_neither_type_nor_start(m):
    """Float32 samples give the bits of the same numbers in float64, and arrays may begin anywhere."""
    X = drawn((40, m), np.float32)
    centre, every = drawn(m, seed=1), np.arange(40)
    found = []
    for start in range(4):
        for dtype in TYPES:
            moved = np.empty(start + X.size, dtype=dtype)[start:].reshape(X.shape)
            moved[:] = X
            squares, out = np.empty(start + 40)[start:], np.empty((40, 40))
            square_norms(moved, centre, squares)
            distances(moved, every, feature_major_blocks(moved), 1.0, out)
            found.append((squares, out))
    assert all(np.array_equal(a, b) for other in found for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_odd_numbers_stay_in_their_rows(odd):
    """A NaN or infinity spoils no other row."""
    X, squares, out = drawn((4, 37)), np.empty(4), np.empty((4, 4))
    X[2, 20] = odd
    square_norms(X, np.zeros(37), squares)
    distances(X, np.arange(4), feature_major_blocks(X), 1.0, out)
    assert np.isfinite(squares).tolist() == [True, True, False, True]
    assert (
        np.isfinite(out).tolist() == np.logical_and.outer(np.isfinite(squares), np.isfinite(squares)).tolist()
    )


@drawn_calls("square_norms", "distances")
def test_drawn_norms_and_distances(rng):
    """Drawn lengths, types and values."""
    m = length(rng, 70)
    X = anywhere(rng, rng.normal(size=(length(rng, 70), m)).astype(pick(rng, TYPES)))
    centre, squares = anywhere(rng, rng.normal(size=m)), anywhere(rng, np.empty(len(X)))
    square_norms(X, centre, squares)
    np.testing.assert_allclose(squares, ((X - centre) ** 2).sum(axis=1), rtol=1e-12)
    Z = anywhere(rng, rng.normal(size=(length(rng, 9, least=1), m)).astype(pick(rng, TYPES)))
    points = anywhere(rng, rng.integers(0, len(Z), length(rng)))
    out = anywhere(rng, np.empty((len(points), len(X))))
    distances(Z, points, anywhere(rng, feature_major_blocks(X)), -0.7, out)
    expected = -0.7 * ((Z[points][:, None].astype(float) - X) ** 2).sum(axis=2)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
