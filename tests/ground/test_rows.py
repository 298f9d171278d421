"""Rows of samples for compiled loops: the matrix they were made of, in every form."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from polyopt.linalg.rows import as_rows, stretches


def walk(rows, i):
    begin, end = int(rows.starts[i]), int(rows.starts[i + 1])
    return rows.values, rows.columns, begin, end, begin if rows.shared else 0


def matrix(rng, n, m, dtype, share):
    X = np.where(rng.random((n, m)) < share, rng.integers(1, 200, (n, m)), 0)
    return X.astype(dtype)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 9), share=st.floats(0.0, 1.0))
def test_rows_of_every_form_agree(seed, m, share):
    """Dense, sparse and narrow rows hold one matrix."""
    rng = np.random.default_rng(seed)
    X = matrix(rng, 5, m, np.float64, share)
    for form in (
        X,
        np.asfortranarray(X),
        sp.csr_array(X),
        sp.csc_array(X),
        X.astype(np.float32),
        X.astype(np.uint8),
    ):
        rows = as_rows(form)
        back = np.zeros_like(X)
        for i in range(len(X)):
            values, columns, begin, end, offset = walk(rows, i)
            for p in range(begin, end):
                back[i, columns[p - offset]] += values[p]
        np.testing.assert_array_equal(back, X)
        assert rows.values.dtype == form.dtype


def test_full_dense_samples_are_not_copied():
    """Rows of a C-ordered matrix of doubles are the matrix itself."""
    X = np.random.default_rng(0).normal(size=(7, 5))
    assert np.shares_memory(as_rows(X).values, X)


def test_stretches_cover_all_samples_once():
    """Whatever the work for a sample is, each stretch has at least one, and at most as many as allowed."""
    wide = as_rows(np.ones((3, 2_000)))
    assert list(stretches(7, wide, 8)) == [(0, 7)]
    assert list(stretches(7, wide, 8, max_length=3)) == [(0, 3), (3, 6), (6, 7)]
    assert list(stretches(3, wide, 1 << 30)) == [(0, 1), (1, 2), (2, 3)]
    assert list(stretches(0, wide, 8)) == []
