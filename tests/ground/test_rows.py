"""Rows of samples for compiled loops: the matrix they were made of, in every form."""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.language.types import dense
from polyopt.linalg.rows import as_rows, stretches


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 9), share=st.floats(0.0, 1.0))
def test_rows_of_every_form_agree(seed, m, share):
    """Dense, sparse and narrow rows hold one matrix, whose entries are listed row by row."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((5, m)) < share, rng.integers(1, 200, (5, m)), 0).astype(float)
    wide, narrow = (X, np.asfortranarray(X), sp.csr_array(X), sp.csc_array(X)), (np.float32, np.uint8)
    for form in (*wide, *map(X.astype, narrow)):
        rows, back = as_rows(form), np.zeros_like(X)
        for i, (begin, end) in enumerate(pairwise(rows.starts)):
            columns = rows.columns if rows.shared else rows.columns[begin:end]
            np.add.at(back[i], columns, rows.values[begin:end])
        np.testing.assert_array_equal(back, X)
        np.testing.assert_array_equal(dense(rows.matrix()), X)
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
