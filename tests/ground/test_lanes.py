"""Products of rows with the weights of all faces: equal to numpy's, for every form of samples."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core.errors import TypingError

from polyopt.lanes import add_bias, add_to_face, padded, row_product, row_update
from polyopt.rows import as_rows


def kernels(n_lanes):
    """As kernels use them: closing over the number of lanes."""

    @njit
    def product(values, columns, begin, end, offset, W, out):
        row_product(values, columns, begin, end, offset, W, out, n_lanes)

    @njit
    def update(values, columns, begin, end, offset, W, change):
        row_update(values, columns, begin, end, offset, W, change, n_lanes)

    return product, update


def walk(rows, i):
    begin, end = int(rows.starts[i]), int(rows.starts[i + 1])
    return rows.values, rows.columns, begin, end, begin if rows.shared else 0


def matrix(rng, n, m, dtype, share):
    X = np.where(rng.random((n, m)) < share, rng.integers(1, 200, (n, m)), 0)
    return X.astype(dtype)


# Each number of faces, and each pair of types, is compiled anew: all of them, but not every combination.
@pytest.mark.parametrize(
    ("n_faces", "dtype", "weights"),
    [
        (1, np.uint8, np.float32),
        (10, np.float32, np.float32),
        (20, np.float64, np.float32),
        (50, np.uint8, np.float64),
        (150, np.float32, np.float64),
        (10, np.float64, np.float64),
    ],
)
def test_scores_and_updates_are_those_of_numpy(n_faces, dtype, weights):
    rng = np.random.default_rng(0)
    L = padded(n_faces)
    product, update = kernels(L)
    for share in (0.1, 0.9):
        X = matrix(rng, 6, 23, dtype, share)
        rows = as_rows(X)
        W, out = rng.normal(size=(24, L)).astype(weights), np.empty(L, dtype=weights)
        for i in range(len(X)):
            product(*walk(rows, i), W, out)
            assert out == pytest.approx(X[i].astype(float) @ W[:-1].astype(float), rel=2e-5, abs=2e-3)
            add_bias(out, weights(0.5), W)
            assert out == pytest.approx(
                0.5 * X[i].astype(float) @ W[:-1].astype(float) + W[-1], rel=2e-5, abs=2e-3
            )
            change = rng.normal(size=L).astype(weights)
            expected = W.astype(float)
            expected[:-1] += np.outer(X[i], change)
            update(*walk(rows, i), W, change)
            assert pytest.approx(expected, rel=1e-5, abs=1e-4) == W
            face = n_faces - 1
            expected[:, face] += 2.0 * np.append(0.5 * X[i], 1.0)
            add_to_face(*walk(rows, i), weights(0.5), weights(2.0), face, W)
            assert pytest.approx(expected, rel=1e-5, abs=1e-4) == W


@settings(max_examples=15, deadline=None)
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


@pytest.mark.parametrize("lanes", [0, 4, 12])
def test_other_numbers_of_lanes_are_refused(lanes):
    product, _ = kernels(lanes)
    rows = as_rows(np.ones((2, 3)))
    with pytest.raises(TypingError, match="multiple of 8"):
        product(*walk(rows, 0), np.ones((4, 8)), np.ones(8))


def test_arrays_that_vectors_cannot_walk_are_refused():
    product, _ = kernels(8)
    rows = as_rows(np.ones((2, 3)))
    for W, out in ((np.ones((4, 8)), np.ones(8, np.float32)), (np.ones((4, 16))[:, ::2], np.ones(8))):
        with pytest.raises(TypingError, match="contiguous"):
            product(*walk(rows, 0), W, out)


TRAIN = """
import numpy as np
from polyopt.solvers.cpm import sgd as cpm_sgd
X, y = np.random.default_rng(0).normal(size=(40, 3)), np.repeat([-1.0, 1.0], 20)
cpm_sgd.solve_cpm_sgd(X, y, np.ones(40), 2, perplexity=1.5, max_iter=2)
stats = [k(8).stats for k in (cpm_sgd.run_kernel, cpm_sgd.measure_kernel)]
"""


def test_kernels_are_found_again_by_the_next_process():
    """A kernel that closes over another compiled function would be compiled by every process."""
    exec(TRAIN, {})

    def compiled():
        script = TRAIN + "print([sum(s.cache_misses.values()) for s in stats])"
        return subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout

    # Of two processes that write to the same cache at once, one may win: then the next one keeps its own.
    assert any(compiled() == "[0, 0]\n" for _ in range(2))
