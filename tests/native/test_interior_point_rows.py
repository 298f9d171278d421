"""Weighted and sparse rows against numpy and scipy."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.draws import TYPES, anywhere, drawn_calls

from polyopt.margin.interior_point.rows import Rows, csr_normal_matrix, weight_rows


@drawn_calls("weighted_rows", dtype=TYPES, k=[0, 1, 3, 5], n=range(36), m=range(36))
def test_rows_are_weighted(rng, dtype, k, n, m):
    """Rows, 1 and V by the root of d; where d is 0 all is 0. They may be written over X."""
    X, shift, d = anywhere(
        rng, rng.normal(size=(n, m + 2)).astype(dtype), rng.normal(size=m), rng.uniform(size=n)
    )
    d[::3] = 0.0
    V, root = anywhere(rng, rng.normal(size=(n, k)) * (d > 0)[:, None]), np.sqrt(d)[:, None]
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    expected = np.hstack([(X[:, :m] - shift) * root, root, V * inverse])
    out = anywhere(rng, np.full((n, m + 1 + k), np.nan))
    weight_rows(X, shift, d, V, out)
    assert out == pytest.approx(expected, rel=1e-14, abs=1e-14)
    buffer = np.zeros((n, m + 1 + k))
    buffer[:, :m] = X[:, :m]
    weight_rows(buffer, shift, d, V, buffer)
    assert buffer.tobytes() == out.tobytes()


@drawn_calls("csr_normal", dtype=TYPES, index=[np.int32, np.int64], n=[0, 1, 2, 9, 34], m=range(36))
def test_csr_products_are_those_of_numpy(rng, dtype, index, n, m):
    """X'DX of sparse rows, some of them empty."""
    dense = (rng.normal(size=(n, m)) * (rng.random((n, m)) < 0.4)).astype(dtype)
    X = sp.csr_array(dense)
    d, *parts = anywhere(rng, rng.normal(size=n), X.data, X.indices.astype(index), X.indptr.astype(index))
    dense, M = dense.astype(float), np.zeros((m + 1, m + 1))
    csr_normal_matrix(*parts, d, M)
    assert M[:m, :m] == pytest.approx(np.tril((dense.T * d) @ dense))
    assert not M[m].any()
    assert not M[:, m].any()


@pytest.mark.parametrize("n", [0, 1, 9])
def test_products_are_cut_into_calls(n):
    """Calls of few rows give the bits of one call."""
    rng, found = np.random.default_rng(n), set()
    X = sp.csr_array(rng.normal(size=(n, 7)) * (rng.random((n, 7)) < 0.4))
    v, V, d = rng.normal(size=8), rng.normal(size=(n, 2)), rng.uniform(0.1, 1.0, n)
    for work in (1 << 24, 5, 1):
        rows = Rows(X, max_call_work=work)
        rows.is_entrywise = True
        results = rows.scores(v), rows.weighted_sums(V), *rows.normal_matrix(d, V)
        found.add(tuple(each.tobytes() for each in results))
    assert len(found) == 1
