"""Weighted and sparse rows against numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.draws import anywhere, drawn_calls, length, pick

from polyopt.margin.interior_point.rows import (
    Rows,
    _csr_normal_matrix,
    _weight_rows,
)

types = pytest.mark.parametrize("T", [np.float64, np.float32], ids=["f8", "f4"])
sizes = pytest.mark.parametrize(("n", "m", "k"), [(0, 3, 2), (1, 1, 0), (2, 5, 3), (9, 17, 1), (4, 0, 1)])


@types
@sizes
def test_weighted_rows(T, n, m, k):
    """Rows, 1 and V by the root of d; where d is 0 all is 0. They may be written over X."""
    check_weighted(np.random.default_rng(0), T, n, m, k)


@drawn_calls("weighted_rows")
def test_drawn_weights(rng):
    """Drawn lengths, types and values."""
    check_weighted(rng, pick(rng, [np.float64, np.float32]), length(rng), length(rng), length(rng, 5))


def check_weighted(rng, T, n, m, k):
    X, shift = anywhere(rng, rng.normal(size=(n, m + 2)).astype(T)), anywhere(rng, rng.normal(size=m))
    d = anywhere(rng, rng.uniform(size=n))
    d[::3] = 0.0
    V, root = anywhere(rng, rng.normal(size=(n, k)) * (d > 0)[:, None]), np.sqrt(d)[:, None]
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    expected = np.hstack([(X[:, :m] - shift) * root, root, V * inverse])
    out = anywhere(rng, np.full((n, m + 1 + k), np.nan))
    _weight_rows(X, shift, d, V, out)
    assert out == pytest.approx(expected, rel=1e-14, abs=1e-14)
    buffer = np.zeros((n, m + 1 + k))
    buffer[:, :m] = X[:, :m]
    _weight_rows(buffer, shift, d, V, buffer)
    assert buffer.tobytes() == out.tobytes()


@types
@pytest.mark.parametrize("J", [np.int32, np.int64], ids=["i4", "i8"])
@sizes
def test_csr_products(T, J, n, m, k):
    """X'DX of sparse rows, some of them empty."""
    check_csr(np.random.default_rng(1), T, J, n, m)


@drawn_calls("csr_normal")
def test_drawn_csr_products(rng):
    """Drawn lengths, types and values."""
    types = pick(rng, [np.float64, np.float32]), pick(rng, [np.int32, np.int64])
    check_csr(rng, *types, length(rng), length(rng))


def check_csr(rng, T, J, n, m):
    dense = (rng.normal(size=(n, m)) * (rng.random((n, m)) < 0.4)).astype(T)
    X = sp.csr_array(dense)
    parts = [anywhere(rng, each) for each in (X.data, X.indices.astype(J), X.indptr.astype(J))]
    dense = dense.astype(float)
    d, M = anywhere(rng, rng.normal(size=n)), np.zeros((m + 1, m + 1))
    _csr_normal_matrix(*parts, d, M)
    assert M[:m, :m] == pytest.approx(np.tril((dense.T * d) @ dense))
    assert not M[m].any()
    assert not M[:, m].any()


@pytest.mark.parametrize("n", [0, 1, 9])
def test_products_are_cut_into_calls(n, monkeypatch):
    """Calls of few rows give the bits of one call."""
    rng = np.random.default_rng(n)
    X = sp.csr_array(rng.normal(size=(n, 7)) * (rng.random((n, 7)) < 0.4))
    v, V, d, found = rng.normal(size=8), rng.normal(size=(n, 2)), rng.uniform(0.1, 1.0, n), []
    for work in (1 << 24, 5, 1):
        monkeypatch.setattr("polyopt.margin.interior_point.rows._MAX_CALL_WORK", work)
        rows = Rows(X)
        rows.is_entrywise = True
        found.append(
            [each.tobytes() for each in (rows.scores(v), rows.weighted_sums(V), *rows.normal_matrix(d, V))]
        )
    assert found[0] == found[1] == found[2]
