"""Products of rows with the weights of all faces: equal to numpy's, for every form of samples."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from polyopt.lanes import padded, row_kernels
from polyopt.rows import as_rows


def walk(rows, i):
    begin, end = int(rows.starts[i]), int(rows.starts[i + 1])
    return rows.values, rows.columns, begin, end, begin if rows.shared else 0


def matrix(rng, n, m, dtype, share):
    X = np.where(rng.random((n, m)) < share, rng.integers(1, 200, (n, m)), 0)
    return X.astype(dtype)


@pytest.mark.parametrize("n_faces", [1, 10, 20, 50, 150])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("weights", [np.float32, np.float64])
def test_scores_and_updates_are_those_of_numpy(n_faces, dtype, weights):
    rng = np.random.default_rng(0)
    L = padded(n_faces)
    kernels = row_kernels(L)
    for share in (0.1, 0.9):
        X = matrix(rng, 6, 23, dtype, share)
        for form in (X, sp.csr_array(X.astype(float)) if dtype == np.float64 else X):
            rows = as_rows(form)
            W, out = rng.normal(size=(24, L)).astype(weights), np.empty(L, dtype=weights)
            for i in range(len(X)):
                kernels.scores(*walk(rows, i), weights(0.5), W, out)
                expected = 0.5 * X[i].astype(float) @ W[:-1].astype(float) + W[-1]
                np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-3)
                change = rng.normal(size=L).astype(weights)
                expected = W + np.outer(np.append(0.5 * X[i], 1.0), change)
                kernels.add(*walk(rows, i), weights(0.5), change, W)
                np.testing.assert_allclose(W, expected, rtol=1e-5, atol=1e-4)
                face = n_faces - 1
                expected[:, face] += 2.0 * np.append(0.5 * X[i], 1.0)
                kernels.add_to_face(*walk(rows, i), weights(0.5), weights(2.0), face, W)
                np.testing.assert_allclose(W, expected, rtol=1e-5, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 9), share=st.floats(0.0, 1.0))
def test_rows_of_every_form_hold_the_same_matrix(seed, m, share):
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
    X = np.random.default_rng(0).normal(size=(7, 5))
    assert np.shares_memory(as_rows(X).values, X)


def test_other_numbers_of_lanes_are_refused():
    for lanes in (0, 4, 12):
        with pytest.raises(ValueError, match="multiple of 8"):
            row_kernels(lanes)
