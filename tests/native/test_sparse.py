"""Sparse samples in C: packed rows and products are those of numpy, and no work space stays dirty."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.draws import anywhere, drawn_calls, length, pick

from polyopt.linalg.rows import as_rows, count_filled, pack
from polyopt.linalg.sparse_products import SparseRight, multiply_transposed

TYPES = [np.float32, np.float64]


def whole_numbers(rows, m, share, seed=0):
    """Small whole numbers, whose products are exact, some of them other than zero; seed: or a generator."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((rows, m)) < share, rng.integers(1, 10, size=(rows, m)), 0)


def packed(X, narrow):
    """The starts, the values and the columns of the entries other than zero."""
    starts = np.empty(len(X) + 1, dtype=np.int64)
    count_filled(X, starts)
    values, columns = np.empty(starts[-1] + 1, dtype=X.dtype), np.empty(starts[-1] + 1, dtype=narrow)
    pack(X, starts, values, columns)
    return starts, values[:-1], columns[:-1]


@pytest.mark.parametrize("narrow", [np.uint16, np.int32])
@pytest.mark.parametrize("dtype", [*TYPES, np.uint8])
@pytest.mark.parametrize("m", [0, 1, 2, 33, 300])
def test_packed_rows_are_in_order(m, dtype, narrow):
    """Columns ascend, and zeros are left out."""
    for rows, share in ((0, 0.5), (1, 0.0), (1, 1.0), (6, 0.3), (7, 0.9)):
        X = whole_numbers(rows, m, share).astype(dtype)
        starts, values, columns = packed(X, narrow)
        at = np.nonzero(X)
        assert starts.tolist() == [0, *np.cumsum(np.count_nonzero(X, axis=1))]
        assert np.array_equal(values, X[at])
        assert np.array_equal(columns, at[1])


def test_zeros_are_no_entries():
    """NaN and infinities are."""
    values = packed(np.array([[0.0, np.nan, -0.0, np.inf, 5e-324]]), np.uint16)[1]
    assert np.array_equal(values, [np.nan, np.inf, 5e-324], equal_nan=True)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("right", [0, 1, 2, 16, 17, 33, 64, 65, 130])
def test_products_are_those_of_dense_samples(right, dtype, index):
    """For all forms and parts of the result; the work space is zero again."""
    for left, m, share in ((0, 5, 0.5), (1, 0, 0.0), (1, 1, 1.0), (33, 40, 0.2), (5, 1300, 0.9)):
        A, B = whole_numbers(left, m, share), whole_numbers(right, m, share, 1)
        some, samples = sp.csr_array(A.astype(dtype)), SparseRight(sp.csr_array(B.astype(dtype)))
        some.indptr, some.indices = some.indptr.astype(index), some.indices.astype(index)
        places, group = room = samples.work_arrays()
        for first, last in ((0, right), (right // 3, right), (right // 2, right // 2)):
            expected = A @ B[first:last].T
            out = np.full(expected.shape, np.nan, dtype=dtype)
            assert np.array_equal(samples.multiply(some, first, last, out, room), expected)
            turned = np.full(expected.T.shape, np.nan, dtype=dtype)
            assert np.array_equal(
                samples.multiply(some, first, last, turned, room, transposed=True), expected.T
            )
            assert not places.any()
            assert not group.any()


def test_repeated_entries_are_summed():
    """In any order of columns."""
    given = (np.array([1.0, 2.0, 3.0, 4.0]), np.array([3, 0, 3, 2]), np.array([0, 3, 4]))
    twice = sp.csr_array(given, shape=(2, 5))
    out = np.empty((2, 2))
    multiply_transposed(twice, twice, out)
    assert np.array_equal(out, twice.toarray() @ twice.toarray().T)


def test_long_products_are_cut_into_calls(monkeypatch):
    """The parts are the whole."""
    monkeypatch.setattr("polyopt.linalg.sparse_products._MAX_CALL_WORK", 1.0)
    A, B = whole_numbers(3, 50, 0.5), whole_numbers(200, 50, 0.5, 1)
    out = np.empty((200, 3))
    multiply_transposed(sp.csr_array(A.astype(float)), sp.csr_array(B.astype(float)), out)
    assert np.array_equal(out, B @ A.T)


@pytest.mark.parametrize(
    ("m", "shape"), [(5, (2, 4)), (5, (3, 2)), (6, (2, 3))], ids=["wide", "turned", "features"]
)
def test_unfit_products_are_refused(m, shape):
    """By their shapes."""
    samples = SparseRight(sp.csr_array(np.ones((3, 5))))
    with pytest.raises(ValueError, match="products of"):
        samples.multiply(sp.csr_array(np.ones((2, m))), 0, 3, np.empty(shape), samples.work_arrays())


@drawn_calls("count_filled", "pack_rows")
def test_drawn_rows_are_packed(rng):
    """Drawn lengths, types and values."""
    X = whole_numbers(length(rng), length(rng, 300), rng.random(), rng).astype(pick(rng, [*TYPES, np.uint8]))
    starts, values, columns = packed(anywhere(rng, X), pick(rng, [np.uint16, np.int32]))
    assert starts.tolist() == [0, *np.cumsum(np.count_nonzero(X, axis=1))]
    assert np.array_equal(values, X[np.nonzero(X)])
    assert np.array_equal(columns, np.nonzero(X)[1])


@drawn_calls("multiply_sparse")
def test_drawn_products(rng):
    """Columns may be out of order, and entries given twice."""
    left, right, m = length(rng, 40), length(rng, 140), length(rng, pick(rng, [9, 50, 600]))
    share, dtype, index = rng.random() ** 2, pick(rng, TYPES), pick(rng, [np.int32, np.int64])
    dense, sparse = [], []
    for count in (left, right):
        twice = np.column_stack([whole_numbers(count, m, share, rng) for _ in range(2)])
        columns = np.tile(rng.permutation(m), 2)
        given = sp.csr_array(twice.astype(dtype))
        one = sp.csr_array((count, m), dtype=dtype)
        one.data = anywhere(rng, given.data)
        one.indices = anywhere(rng, columns[given.indices].astype(index))
        one.indptr = anywhere(rng, given.indptr.astype(index))
        sparse.append(one)
        dense.append(one.toarray())
    samples, is_turned = SparseRight(sparse[1]), rng.random() < 0.5
    first, last = np.sort(rng.integers(0, right + 1, 2)).tolist()
    expected = dense[0] @ dense[1][first:last].T
    expected = expected.T if is_turned else expected
    out, room = anywhere(rng, np.full(expected.shape, np.nan, dtype=dtype)), samples.work_arrays()
    samples.multiply(sparse[0], first, last, out, room, transposed=bool(is_turned))
    assert np.array_equal(out, expected)
    assert not any(each.any() for each in room)


def test_samples_are_packed_in_parts(monkeypatch):
    """Calls of a row each give what one call gives."""
    X = whole_numbers(7, 30, 0.2).astype(float)
    whole = as_rows(X)
    monkeypatch.setattr("polyopt.linalg.rows._ENTRIES_PER_CALL", 1)
    assert all(np.array_equal(a, b) for a, b in zip(as_rows(X), whole, strict=True))
    assert np.array_equal(as_rows(X).matrix().toarray(), X)
