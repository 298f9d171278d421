"""Sparse samples in C: packed rows and products are those of numpy, and no work space stays dirty."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.draws import TYPES, anywhere, drawn_calls

from polyopt.linalg.rows import as_rows, count_filled, pack
from polyopt.linalg.sparse_products import SparseRight, multiply_transposed


def whole_numbers(rng, rows, m, share):
    """Small whole numbers, whose products are exact, some of them other than zero."""
    return np.where(rng.random((rows, m)) < share, rng.integers(1, 10, size=(rows, m)), 0)


def packed(X, narrow):
    """The starts, the values and the columns of the entries other than zero."""
    starts = np.empty(len(X) + 1, dtype=np.int64)
    count_filled(X, starts)
    values, columns = np.empty(starts[-1] + 1, dtype=X.dtype), np.empty(starts[-1] + 1, dtype=narrow)
    pack(X, starts, values, columns)
    return starts, values[:-1], columns[:-1]


@drawn_calls(
    "count_filled", "pack_rows", dtype=[*TYPES, np.uint8], narrow=[np.uint16, np.int32], m=[0, 1, 2, 33, 300],
    share=[0.0, 0.3, 0.9, 1.0], n=range(36),
)  # fmt: skip
def test_packed_rows_are_in_order(rng, dtype, narrow, m, share, n):
    """Columns ascend, and zeros are left out."""
    X = whole_numbers(rng, n, m, share).astype(dtype)
    starts, values, columns = packed(anywhere(rng, X), narrow)
    at = np.nonzero(X)
    assert starts.tolist() == [0, *np.cumsum(np.count_nonzero(X, axis=1))]
    assert np.array_equal(values, X[at])
    assert np.array_equal(columns, at[1])


def test_zeros_are_no_entries():
    """NaN and infinities are."""
    values = packed(np.array([[0.0, np.nan, -0.0, np.inf, 5e-324]]), np.uint16)[1]
    assert np.array_equal(values, [np.nan, np.inf, 5e-324], equal_nan=True)


@drawn_calls(
    "multiply_sparse", right=[0, 1, 2, 16, 17, 33, 64, 65, 130], dtype=TYPES, index=[np.int32, np.int64],
    share=[0.1, 0.9], left=range(41), m=[0, 1, 50, 600],
)  # fmt: skip
def test_products_are_those_of_dense_samples(rng, right, dtype, index, share, left, m):
    """For all forms and parts of the result; columns may be out of order, and entries given twice."""
    dense, sparse = [], []
    for count in (left, right):
        columns = np.tile(rng.permutation(m), 2)
        given = sp.csr_array(np.hstack([whole_numbers(rng, count, m, share) for _ in range(2)]).astype(dtype))
        one = sp.csr_array((count, m), dtype=dtype)
        parts = given.data, columns[given.indices].astype(index), given.indptr.astype(index)
        one.data, one.indices, one.indptr = anywhere(rng, *parts)
        sparse.append(one)
        dense.append(one.toarray())
    samples = SparseRight(sparse[1])
    room = samples.work_arrays()
    first, last = np.sort(rng.integers(0, right + 1, 2)).tolist()
    for begin, end in ((0, right), (first, last)):
        for transposed in (False, True):
            expected = dense[0] @ dense[1][begin:end].T
            expected = expected.T if transposed else expected
            out = anywhere(rng, np.full(expected.shape, np.nan, dtype))
            samples.multiply(sparse[0], begin, end, out, room, transposed=transposed)
            assert np.array_equal(out, expected)
            assert not any(each.any() for each in room)  # the work space is zero again


def test_repeated_entries_are_summed():
    """In any order of columns."""
    given = (np.array([1.0, 2.0, 3.0, 4.0]), np.array([3, 0, 3, 2]), np.array([0, 3, 4]))
    twice = sp.csr_array(given, shape=(2, 5))
    out = np.empty((2, 2))
    multiply_transposed(twice, twice, out)
    assert np.array_equal(out, twice.toarray() @ twice.toarray().T)


@pytest.mark.parametrize("right", [0, 1, 64, 65, 200])
def test_long_products_are_cut_into_calls(right, rng):
    """The parts are the whole."""
    A, B = whole_numbers(rng, 3, 50, 0.5), whole_numbers(rng, right, 50, 0.5)
    out = np.full((right, 3), np.nan)
    multiply_transposed(sp.csr_array(A.astype(float)), sp.csr_array(B.astype(float)), out, max_call_work=1.0)
    assert np.array_equal(out, B @ A.T)


@pytest.mark.parametrize(
    ("m", "shape"), [(5, (2, 4)), (5, (3, 2)), (6, (2, 3))], ids=["wide", "turned", "features"]
)
def test_unfit_products_are_refused(m, shape):
    """By their shapes."""
    samples = SparseRight(sp.csr_array(np.ones((3, 5))))
    with pytest.raises(ValueError, match="products of"):
        samples.multiply(sp.csr_array(np.ones((2, m))), 0, 3, np.empty(shape), samples.work_arrays())


def test_samples_are_packed_in_parts(rng):
    """Calls of a row each give what one call gives."""
    X = whole_numbers(rng, 7, 30, 0.2).astype(float)
    parts = as_rows(X, entries_per_call=1)
    assert all(np.array_equal(a, b) for a, b in zip(parts, as_rows(X), strict=True))
    assert np.array_equal(parts.matrix().toarray(), X)
