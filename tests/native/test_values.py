"""Kernel values in C: exponentials to two units in the last place, and sums in double precision."""

import numpy as np
import pytest
from helpers.draws import TYPES, anywhere, drawn_calls

from polyopt.linalg.kernel_scores import add_weighted, gaussians
from polyopt.linalg.kernels import exponentials

LENGTHS = [0, 1, 2, 7, 8, 15, 16, 17, 33, 70]
LEAST = {np.float32: 87.0, np.float64: 700.0}


def whole(T):
    """The exponentials of all columns of T."""
    exponentials(T, 0, T.shape[1])


def exponential(value):
    """The exponential of a number that stands alone."""
    one = np.array([[value]])
    exponentials(one, 0, 1)
    return one[0, 0]


def as_differences(T):
    """The same as the values of products T between points and samples at 0."""
    gaussians(T, np.zeros(len(T), T.dtype), np.zeros(T.shape[1], T.dtype))


@pytest.mark.parametrize("function", [whole, as_differences])
@pytest.mark.parametrize("dtype", TYPES)
def test_exponentials_have_two_units_error(dtype, function):
    """Against longer floats."""
    least = LEAST[dtype]
    t = -np.concatenate([np.geomspace(1e-13, least, 200_003), np.linspace(0.0, least, 200_003)]).astype(dtype)
    found, true = t[None, :].copy(), np.exp(t.astype(np.longdouble))
    function(found)
    assert (np.abs(found[0] - true) <= 2 * np.spacing(true.astype(dtype))).all()


@pytest.mark.parametrize("function", [whole, as_differences])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [1, 8, 40])
def test_exponentials_at_the_edges(width, dtype, function):
    """1 from 0 on, next to 0 for all that is small, and NaN of NaN; in vectors and on their own."""
    edges = [1.0, 0.0, -0.0, np.inf, -2 * LEAST[dtype], -1e30, -np.inf, np.nan]
    found = np.repeat(np.array(edges, dtype=dtype)[:, None], width, axis=1)
    function(found)
    assert (found[:4] == 1.0).all()
    assert (found[4:7] >= 0.0).all()
    assert (found[4:7] <= 1e-37).all()
    assert np.isnan(found[7]).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", LENGTHS)
def test_exponentials_of_some_columns(width, dtype):
    """Other columns stay, and a number has the same bits wherever it stands."""
    T = -np.random.default_rng(0).uniform(0.0, 30.0, (3, width)).astype(dtype)
    alone = np.array([[exponential(value) for value in row] for row in T], dtype).reshape(T.shape)
    for first in range(0, width + 1, 3):
        found, last = T.copy(), max(first, width - 1)
        exponentials(found, first, last)
        assert np.array_equal(found, np.hstack([T[:, :first], alone[:, first:last], T[:, last:]]))


@drawn_calls("exponentials", "gaussians", dtype=TYPES, count=[0, 1, 3, 7], width=LENGTHS)
def test_values_are_those_of_numpy(rng, dtype, count, width):
    """To four units in the last place, as numpy's are not exact either; exponentials of some columns."""
    sizes = rng.choice([-80.0, -1.0, -1e-6], (count, width))
    T = (sizes * rng.uniform(-0.1, 1.0, sizes.shape)).astype(dtype)
    own, others = anywhere(rng, *(rng.uniform(0.0, 2.0, size).astype(dtype) for size in T.shape))
    products, T = anywhere(rng, T, T)
    expected, (first, last) = T.copy(), np.sort(rng.integers(0, width + 1, 2)).tolist()
    expected[:, first:last] = np.exp(np.minimum(T[:, first:last], 0.0))
    exponentials(T, first, last)
    np.testing.assert_allclose(T, expected, rtol=4 * np.finfo(dtype).eps)
    differences = (products - others) - own[:, None]
    gaussians(products, own, others)
    expected = np.exp(np.minimum(differences, dtype(0.0)))
    np.testing.assert_allclose(products, expected, rtol=4 * np.finfo(dtype).eps)
    whole(differences)
    assert np.array_equal(products, differences)


@drawn_calls("weigh", dtype=TYPES, count=[0, 1, 3, 7], width=LENGTHS)
def test_weigh_adds_terms_and_sizes(rng, dtype, count, width):
    """The sum of weighted values, and of their absolute values."""
    T, coef = anywhere(rng, rng.normal(size=(count, width)).astype(dtype), rng.normal(size=width))
    sums, sizes = anywhere(rng, np.ones(count), np.full(count, 2.0))
    add_weighted(T, coef, sums, sizes)
    terms = T.astype(float) * coef
    np.testing.assert_allclose(sums, 1.0 + terms.sum(axis=1), rtol=0, atol=1e-13)
    np.testing.assert_allclose(sizes, 2.0 + np.abs(terms).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_weigh_passes_odd_numbers_on(odd):
    """NaN and infinities show in the sum."""
    T, sums, sizes = np.ones((3, 37)), np.zeros(3), np.zeros(3)
    T[1, 20] = odd
    add_weighted(T, -np.ones(37), sums, sizes)
    assert np.array_equal(sums, [-37.0, -odd, -37.0], equal_nan=True)
    assert np.array_equal(sizes, [37.0, odd, 37.0], equal_nan=True)
