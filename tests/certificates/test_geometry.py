"""What every geometry of a hinge program promises, against the inner products written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.centred_kernel import CentredKernel
from polyopt.linalg.kernels import MatrixGram
from polyopt.margin.geometry import (
    KernelGeometry,
    LinearGeometry,
    SigmaKernelGeometry,
    SigmaLinearGeometry,
    largest_eigenvalue,
)

N, M = 14, 3
FORMS = ["plain", "plain, sparse", "plain, centred", "kernel", "sigma", "sigma, sparse", "sigma, kernel"]


def samples(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, M)) * [3.0, 1.0, 0.2] + [2.0, -1.0, 0.0]
    return X, rng.uniform(0.5, 2.0, N)


def metric(X, D, weights):
    centred = X - weights @ X / weights.sum()
    return (1.0 - D) * np.eye(M) + D * (centred * weights[:, None]).T @ centred / weights.sum()


def made(form, D):
    """A geometry, its rows as it has them, and the metric of its energy."""
    X, weights = samples()
    if form.startswith("plain"):
        centred = "centred" in form
        geometry = LinearGeometry(sp.csr_array(X) if "sparse" in form else X, centred=centred)
        return geometry, X - geometry.centre, np.eye(M)
    if form == "kernel":
        return KernelGeometry(MatrixGram(X @ X.T)), X, np.eye(M)
    rows, A = X - weights @ X / weights.sum(), metric(X, D, weights)
    if form == "sigma, kernel":
        K = X @ X.T
        factors = CentredKernel(K, weights).factors
        return SigmaKernelGeometry(MatrixGram(K), D, weights, factors), rows, A
    return SigmaLinearGeometry(sp.csr_array(X) if "sparse" in form else X, D, weights), rows, A


def weights_of(form, v):
    """The w that a v stands for, where the samples are known: up to what no centred sample sees."""
    X, _ = samples()
    return X.T @ v if "kernel" in form else v


@pytest.mark.parametrize("D", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("form", FORMS)
def test_operations_are_written_out(form, D, rng):
    """Scores, energies, pulls, prices and curvature are those of the inner products."""
    geometry, rows, A = made(form, D)
    assert geometry.n == N
    v, beta = rng.normal(size=N if "kernel" in form else M), rng.normal(size=N)
    beta -= beta.mean()  # as multipliers of a free intercept are
    if form == "sigma, kernel":
        v -= v.mean()  # of centred samples
    w = weights_of(form, v)
    np.testing.assert_allclose(geometry.scores(v), rows @ w, atol=1e-10)
    np.testing.assert_allclose(geometry.outputs(v).mid, rows @ w, atol=1e-10)
    assert geometry.energy(v).mid == pytest.approx(w @ A @ w, rel=1e-9)
    # Σ β_i w'x_i is what the pull says of w.
    assert geometry.adjoint(beta) @ v == pytest.approx(beta @ rows @ w, rel=1e-9)
    # The w that belongs to β has the gradient that β pulls with, and the price is its energy.
    found = geometry.primal_from_dual(beta)
    np.testing.assert_allclose(geometry.gradient(found), geometry.adjoint(beta), atol=1e-8)
    pulled = rows.T @ beta
    assert geometry.energy(found).mid == pytest.approx(pulled @ np.linalg.solve(A, pulled), rel=1e-8)
    assert geometry.dual_norm_sq(beta).mid == pytest.approx(pulled @ np.linalg.solve(A, pulled), rel=1e-8)
    # Scores of represented multipliers have this largest eigenvalue.
    largest = np.linalg.eigvalsh(rows @ np.linalg.solve(A, rows.T))[-1]
    assert geometry.curvature() == pytest.approx(largest, rel=0.1)


@pytest.mark.parametrize("D", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("form", FORMS)
def test_pull_is_scaled_by_its_terms(form, D, rng):
    """Terms of one sign add up to the scale; of both signs they cancel, and the scale stays."""
    geometry, rows, _ = made(form, D)
    beta = np.where(np.arange(N) % 3 == 0, 0.0, rng.normal(size=N))
    beta[1] -= beta.sum()
    scale = geometry.adjoint_scale(beta)
    assert scale >= np.abs(geometry.adjoint(beta)).max() * (1 - 1e-12)
    assert geometry.adjoint_scale(-2.0 * beta) == pytest.approx(2.0 * scale)
    terms = np.abs(samples()[0] @ samples()[0].T) if form == "kernel" else np.abs(rows).T
    if form.startswith("plain") or form == "kernel":
        assert scale == pytest.approx((terms @ np.abs(beta)).max())


@pytest.mark.parametrize("D", [0.0, 0.05, 0.6, 1.0])
@pytest.mark.parametrize("form", FORMS)
def test_lengths_are_norms_or_little_more(form, D):
    """No sample is longer in the metric, and what bounds its length is no looser than it has to be."""
    geometry, rows, A = made(form, D)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, np.linalg.solve(A, rows.T).T))
    assert (geometry.norm_bounds() >= norms * (1 - 1e-12)).all()
    if form.startswith("plain"):
        assert geometry.norm_bounds() == pytest.approx(norms, rel=1e-6)
    elif form == "kernel":  # a matrix tells its largest entry only
        assert geometry.norm_bounds() == pytest.approx(norms.max(), rel=1e-6)
    else:  # the triangle inequality, and the greatest share of a variance that one sample can have
        X, weights = samples()
        most = np.sqrt(weights.sum() / (max(D, 1e-300) * weights))
        if D < 1:
            most = np.minimum(most, 2 * np.linalg.norm(X, axis=1).max() / np.sqrt(1 - D))
        assert (geometry.norm_bounds() <= most * (1 + 1e-6)).all()


@pytest.mark.parametrize("form", FORMS)
def test_intercept_moves_with_samples(form, rng):
    """An output is the same by the samples as they are and as the geometry has them."""
    X, _ = samples()
    geometry, rows, _ = made(form, 0.6)
    v = rng.normal(size=N if "kernel" in form else M)
    w = weights_of(form, v)
    moved = geometry.centred_intercept(v, 0.7)
    np.testing.assert_allclose(rows @ w + moved.mid, X @ w + 0.7, atol=1e-9)


@pytest.mark.parametrize("D", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("size", [1e-8, 1e-3, 0.3])
def test_wrong_factors_only_raise_a_price(D, size, rng):
    """The factors guide; the price stays an upper bound of what it is for whatever they are."""
    X, weights = samples()
    K, A = X @ X.T, metric(X, D, weights)
    values, vectors = CentredKernel(K, weights).factors
    off = (
        values * rng.uniform(1 - size, 1 + size, len(values)),
        vectors + size * rng.normal(size=vectors.shape),
    )
    rows = X - weights @ X / weights.sum()
    for _ in range(5):
        beta = rng.normal(size=N)
        beta -= beta.mean()
        exact = (rows.T @ beta) @ np.linalg.solve(A, rows.T @ beta)
        dear, good = (
            SigmaKernelGeometry(MatrixGram(K), D, weights, f).dual_norm_sq(beta).upper
            for f in (off, (values, vectors))
        )
        assert min(dear, good) >= exact * (1 - 1e-12)
        assert good <= exact * (1 + 1e-6) or D == 1.0  # then what is beyond the samples has no norm


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_samples_of_three_blocks_count(form):
    """Linear features go by blocks of 4096; 8200 samples are three of them, the last of eight."""
    rng = np.random.default_rng(0)
    X, beta = rng.normal(size=(8200, 2)) + 3.0, rng.normal(size=8200)
    for centred in (False, True):
        geometry = LinearGeometry(form(X), centred=centred)
        rows = X - geometry.centre
        assert centred == bool(geometry.centre.any()) or form is sp.csr_array
        np.testing.assert_allclose(geometry.scores(np.array([1.0, -2.0])), rows @ [1.0, -2.0], atol=1e-12)
        assert geometry.adjoint(beta) == pytest.approx(rows.T @ beta)
        assert geometry.adjoint_scale(beta) == pytest.approx((np.abs(rows).T @ np.abs(beta)).max())
        np.testing.assert_allclose(geometry.norm_bounds(), np.linalg.norm(rows, axis=1))
        assert (geometry.norm_bounds() >= np.linalg.norm(rows, axis=1)).all()


@pytest.mark.parametrize("D", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("form", ["kernel", "sigma, kernel"])
def test_indefinite_matrix_stands_for_near_ones(form, D, rng):
    """Energies are within their ball and prices above, for any matrix that is off by `short` in norm."""
    X, weights = samples()
    K, short = X @ X.T, 0.05
    given = MatrixGram(K)
    if form == "kernel":
        geometry = KernelGeometry(given, short)
        assert "an eigenvalue near -0.05" in geometry.note
        assert KernelGeometry(given, 1e-13 * np.trace(K) / N).note == ""
    else:
        geometry = SigmaKernelGeometry(given, D, weights, CentredKernel(K, weights).factors, short)
    share, P = weights / weights.sum(), np.eye(N) - np.outer(np.ones(N), weights / weights.sum())
    v = rng.normal(size=N)
    v -= v.mean()
    for _ in range(5):
        Q = np.linalg.qr(rng.normal(size=(N, N)))[0]
        near = K + (Q * rng.choice([0.0, short], N)) @ Q.T
        f = P @ near @ v
        true = v @ near @ v if form == "kernel" else (1 - D) * v @ near @ v + D * share @ (f * f)
        found = geometry.energy(v)
        assert found.lower <= true <= found.upper
        assert (geometry.norm_bounds() >= np.sqrt(np.diag(near))).all() or form != "kernel"
        beta = rng.normal(size=N)
        beta -= beta.mean()
        if form == "kernel":
            assert geometry.dual_norm_sq(beta).upper >= beta @ near @ beta
        elif D < 1.0:
            # The price is the largest of 2 β'f(u) − energy(u): no u gives more.
            price = geometry.dual_norm_sq(beta).upper
            best = np.linalg.solve((1 - D) * np.eye(N) + D * (P.T * share) @ P @ near, P.T @ beta)
            for u in (geometry.primal_from_dual(beta), v, best):
                out = P @ near @ u
                assert 2 * beta @ out - ((1 - D) * u @ near @ u + D * share @ (out * out)) <= price
    # And they are no wider by far.
    assert geometry.energy(v).rad <= 20.0 * short * (v @ v) * max(1.0, np.abs(K).sum(axis=1).max())


def test_largest_eigenvalue_is_from_below():
    """The eigenvalue of 5, 2 and 0, of the map to 0, and of a map that overflows."""
    assert 4.99 <= largest_eigenvalue(lambda v: v * [5.0, 2.0, 0.0], 3) <= 5.0
    assert largest_eigenvalue(lambda v: 0.0 * v, 3) == 0.0
    growing = iter([2.0, 3.0, np.inf])
    assert largest_eigenvalue(lambda v: next(growing) * v, 4) == pytest.approx(3.0)
