"""The Sigma-SVM: its programs, its kernel, and what it is blind to."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from formulations import sigma_svm, svm
from formulations.centred_kernel import CentredKernel
from formulations.language.recovery import gram_factor, moments

SHARES = [0.0, 0.3, 0.9, 0.999, 1.0]


def test_clarabel_agrees_with_osqp_and_highs(blobs):
    program = sigma_svm.primal(*blobs, 1.0, 0.9)
    values = [program.solve(name).objective for name in ("CLARABEL", "OSQP", "HIGHS")]
    assert values == pytest.approx([values[0]] * 3, rel=1e-7)


def test_sigma_is_the_covariance_as_printed(blobs):
    X, _ = blobs
    mu, Sigma = moments(X)
    n = len(X)
    printed = X.T @ X / n - np.outer(X.sum(0), X.sum(0)) / n**2
    assert pytest.approx(printed, abs=1e-12) == Sigma
    assert mu == pytest.approx(X.mean(0))


@pytest.mark.parametrize("D", SHARES)
@pytest.mark.parametrize("kernel", [polynomial_kernel, rbf_kernel])
def test_the_centred_kernel_is_the_inner_product_it_claims(rng, D, kernel):
    """Against explicit features, for training and for test points."""
    X, T = rng.normal(size=(15, 2)), rng.normal(size=(6, 2))
    both = np.vstack([X, T])
    features = gram_factor(kernel(both))
    phi, phi_t = features[:15] - features[:15].mean(0), features[15:] - features[:15].mean(0)
    metric = (1 - D) * np.eye(phi.shape[1]) + D * phi.T @ phi / 15
    inverse = np.linalg.pinv(metric, rcond=1e-9, hermitian=True)
    centred = CentredKernel(kernel(X))
    scale = np.abs(phi @ inverse @ phi.T).max()
    assert centred.gram(D) == pytest.approx(phi @ inverse @ phi.T, abs=1e-6 * scale)
    assert centred.cross(kernel(T, X), D) == pytest.approx(phi_t @ inverse @ phi.T, abs=1e-6 * scale)


@pytest.mark.parametrize("D", [0.3, 0.9, 0.999])
def test_the_printed_kernel_with_both_terms_scaled_once(blobs, D):
    """The paper's form, with 1/(1-D) on both terms; nesting the second inside the first is wrong."""
    X, _ = blobs
    K = X @ X.T
    n = len(K)
    one, G = np.ones(n), np.eye(n) / n - np.ones((n, n)) / n**2
    C = K - (K @ one / n)[:, None]
    first = K - K.mean(0)[:, None] - K.mean(0)[None] + K.mean()
    second = C.T @ G @ np.linalg.solve((1 - D) / D * np.eye(n) + K @ G, C)
    ours = CentredKernel(K).gram(D)
    size = np.abs(ours).max()
    assert (first - second) / (1 - D) == pytest.approx(ours, abs=1e-8 * size)
    assert np.abs((first - second / (1 - D)) / (1 - D) - ours).max() > 0.1 * size


def test_weights_count_as_repetition(rng):
    X = rng.normal(size=(10, 3))
    T = rng.normal(size=(4, 3))
    repeats = rng.integers(1, 4, 10)
    weighted = CentredKernel(polynomial_kernel(X), repeats)
    rows = np.repeat(np.arange(10), repeats)
    repeated = CentredKernel(polynomial_kernel(X[rows]))
    first = np.array([np.flatnonzero(rows == i)[0] for i in range(10)])
    assert repeated.gram(0.7)[np.ix_(first, first)] == pytest.approx(weighted.gram(0.7), rel=1e-8, abs=1e-8)
    cross = repeated.cross(polynomial_kernel(T, X[rows]), 0.7)[:, first]
    assert cross == pytest.approx(weighted.cross(polynomial_kernel(T, X), 0.7), rel=1e-8, abs=1e-8)
    with pytest.raises(ValueError, match="weights must be positive"):
        CentredKernel(np.eye(2), [1.0, 0.0])


def test_at_zero_it_is_the_svm_of_centred_data(blobs):
    X, y = blobs
    mu = X.mean(0)
    sigma, plain = sigma_svm.primal(X, y, 2.0, 0.0).solve(), svm.primal(X, y, 2.0).solve()
    assert sigma["w"] == pytest.approx(plain["w"], abs=1e-6)
    assert float(sigma["b"]) == pytest.approx(float(plain["b"]) + plain["w"] @ mu, abs=1e-5)


@pytest.mark.parametrize("D", [0.3, 0.9])
def test_it_is_the_svm_of_whitened_data(blobs, D):
    X, y = blobs
    mu, Sigma = moments(X)
    values, vectors = np.linalg.eigh((1 - D) * np.eye(3) + D * Sigma)
    Z = (X - mu) @ (vectors / np.sqrt(values)) @ vectors.T
    whitened, sigma = svm.primal(Z, y, 1.0).solve(), sigma_svm.primal(X, y, 1.0, D).solve()
    assert whitened.objective == pytest.approx(sigma.objective, rel=1e-8)
    assert Z @ whitened["w"] == pytest.approx((X - mu) @ sigma["w"], abs=1e-6)


def test_at_one_it_is_blind_to_affine_maps_and_only_there(blobs, rng):
    X, y = blobs
    A, shift = rng.normal(size=(3, 3)), 5 * rng.normal(size=3)

    def outputs(data, D):
        solution = sigma_svm.primal(data, y, 2.0, D).solve()
        return (data - data.mean(0)) @ solution["w"] + float(solution["b"])

    assert outputs(X @ A.T + shift, 1.0) == pytest.approx(outputs(X, 1.0), abs=1e-5)
    assert np.abs(outputs(X @ A.T + shift, 0.5) - outputs(X, 0.5)).max() > 1e-2
    rotation = np.linalg.qr(A)[0]
    assert outputs(X @ rotation.T + shift, 0.5) == pytest.approx(outputs(X, 0.5), abs=1e-5)


def test_singular_covariance_takes_the_least_norm(rng):
    X = rng.normal(size=(12, 30))
    y = np.where(np.arange(12) < 6, 1.0, -1.0)
    dual = sigma_svm.dual(X, y, 1.0, 1.0).solve()
    primal = sigma_svm.primal(X, y, 1.0, 1.0)
    recovered = sigma_svm.recover(X, y, 1.0, 1.0, dual["alpha"])
    assert primal.value(recovered) == pytest.approx(primal.solve().objective, rel=1e-6)
    _, Sigma = moments(X)
    null = np.eye(30) - np.linalg.pinv(Sigma, rcond=1e-10, hermitian=True) @ Sigma
    assert np.abs(null @ recovered["w"]).max() < 1e-8


@pytest.mark.parametrize("D", SHARES)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_samples_that_are_all_the_same_pay_for_the_smaller_class(D, value):
    X, y = np.full((4, 3), value), np.array([1.0, -1.0, 1.0, 1.0])
    for program in (
        sigma_svm.primal(X, y, 1.0, D),
        sigma_svm.dual(X, y, 1.0, D),
        sigma_svm.kernel_dual(X @ X.T, y, 1.0, D),
    ):
        assert program.solve().objective == pytest.approx(2.0, rel=1e-7)


def test_at_one_a_full_rank_kernel_interpolates_the_labels(rng):
    """alpha_i = 2 n_other/n^2 and f(x_i) = y_i, whatever the data."""
    X = rng.normal(size=(30, 2))
    y = np.where(np.arange(30) < 10, 1.0, -1.0)
    K = rbf_kernel(X, gamma=50.0)
    assert CentredKernel(K).is_degenerate()
    alpha = sigma_svm.kernel_dual(K, y, 1.0, 1.0).solve()["alpha"]
    assert alpha == pytest.approx(np.where(y > 0, 2 * 20 / 900, 2 * 10 / 900), abs=1e-6)


@pytest.mark.parametrize("D", [-0.1, 1.1, np.nan])
def test_a_share_outside_its_range_is_refused(D):
    with pytest.raises(ValueError, match=r"D must lie in \[0, 1\]"):
        sigma_svm.primal([[0.0], [1.0]], [-1, 1], 1.0, D)


@pytest.mark.parametrize("power", [-900, -300, -1, 1, 300, 900])
def test_the_unit_of_a_kernel_does_not_touch_a_digit(rng, power):
    """Times a power of two, the eigenvalues are multiplied by it and the directions stay, bit by bit."""
    A, weights = rng.normal(size=(7, 4)), rng.uniform(0.5, 2.0, 7)
    unit = 2.0**power
    one, other = CentredKernel(A @ A.T, weights), CentredKernel(unit * (A @ A.T), weights)
    assert len(one.eigenvalues) == 4
    assert (other.eigenvalues == unit * one.eigenvalues).all()
    assert (other.root == 2.0 ** (power / 2) * one.root).all() or power % 2
    assert other.gram(0.0) == pytest.approx(unit * one.gram(0.0), rel=1e-12)


def test_a_kernel_without_spread_has_no_directions():
    for constant in (0.0, 3.0):
        kernel = CentredKernel(np.full((4, 4), constant))
        assert kernel.eigenvalues.shape == (0,)
        assert not kernel.is_degenerate()
        assert (kernel.gram(0.5) == 0).all()
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="not finite"):
        CentredKernel(np.full((2, 2), np.inf))
    with pytest.raises(ValueError, match="weights must be positive"):
        CentredKernel(np.eye(3), [1.0, 0.0, 1.0])
    # n points in general position are n - 1 directions from their mean, and D = 1 sees no more than that.
    assert CentredKernel(np.eye(3)).is_degenerate()
    assert not CentredKernel(np.diag([1.0, 1.0, 0.0, 0.0])).is_degenerate()
