"""A Gram matrix that is no Gram matrix is refused; so is a kernel that is no kernel."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.linalg import hadamard

from polyopt.linalg.kernels import (
    Kernel,
    MatrixGram,
    SampleGram,
    as_gram,
    bound_by_low_rank,
    require_psd,
    spread_samples,
)


def with_eigenvalues(values, rng):
    Q = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    K = (Q * np.asarray(values)) @ Q.T
    return (K + K.T) / 2


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("rank", [0, 1, 30])
def test_semidefinite_matrices_pass(scale, rank, rng):
    """A product with its transpose passes at any rank and scale."""
    F = rng.normal(size=(50, rank))
    require_psd(scale * (F @ F.T))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_negative_eigenvalue_is_named(scale, rng):
    """An eigenvalue that is more negative than rounding is refused with its size."""
    values = np.linspace(1.0, 2.0, 40)
    require_psd(scale * with_eigenvalues(np.append(values, -1e-8), rng))  # rounding, for all one knows
    K = scale * with_eigenvalues(np.append(values, -1e-3), rng)
    with pytest.raises(ValueError, match=re.escape(f"smallest eigenvalue is {-1e-3 * scale:.3g}")):
        require_psd(K)


def test_some_of_many_samples_are_tested():
    """2,000 of more samples are tested, spread over all."""
    assert len(np.unique(spread_samples(2500))) == 2000
    n = 250
    some = spread_samples(n, 200)
    assert len(np.unique(some)) == 200
    assert (some[0], some[-1], np.diff(some).max()) == (0, n - 1, 2)
    K = np.eye(n)
    K[some[:2, None], some[:2]] = [[1.0, 2.0], [2.0, 1.0]]
    with pytest.raises(ValueError, match="smallest eigenvalue of 200 of its samples is -1"):
        require_psd(K, 200)
    require_psd(np.eye(n), 200)


def test_kernels_of_samples_are_tested(rng):
    """A kernel that is indefinite on the samples is refused; Mercer kernels pass."""
    X = rng.normal(size=(60, 4))
    for indefinite in (
        Kernel("sigmoid", coef0=-1.0),
        Kernel("poly", coef0=-5.0),
        Kernel(lambda A, Z: -A @ Z.T),
    ):
        assert np.linalg.eigvalsh(indefinite(X))[0] < -0.1
        with pytest.raises(ValueError, match="choose a Mercer kernel"):
            require_psd(SampleGram(X, indefinite))
    require_psd(SampleGram(X, Kernel(lambda A, Z: A @ Z.T)))
    for semidefinite in (Kernel("linear"), Kernel("poly", coef0=1.0), Kernel("rbf")):
        assert semidefinite.is_mercer
        assert np.linalg.eigvalsh(semidefinite(X))[0] > -1e-9
        require_psd(SampleGram(X, semidefinite))


@pytest.mark.parametrize("n", [20, 210])
def test_asymmetry_is_refused(n):
    """One entry that differs from its mirror is found, in the corner or the middle."""
    for i, j in ((0, n - 1), (n // 2, n // 2 + 1)):
        K = np.eye(n)
        K[i, j] = 1e-3
        with pytest.raises(ValueError, match="must be symmetric"):
            require_psd(K, 200)
    K[j, i] = K[i, j]
    require_psd(K, 200)


def test_infinite_entries_are_refused():
    """Entries are finite."""
    for value in (np.nan, np.inf, -np.inf):
        K = np.eye(4)
        K[1, 2] = K[2, 1] = value
        with pytest.raises(ValueError, match="must be finite"):
            require_psd(K)


def test_arrays_become_gram_matrices():
    """A square array becomes a Gram matrix, and a Gram matrix stays."""
    K = np.eye(3)
    gram = as_gram(K)
    assert isinstance(gram, MatrixGram)
    assert gram.K is K
    assert as_gram(gram) is gram
    with pytest.raises(ValueError, match=r"must be square, not of shape \(3, 2\)"):
        as_gram(K[:, :2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "gauss"}, "must be one of linear, poly, rbf, sigmoid or callable, not 'gauss'"),
        ({"name": "rbf", "gamma": 0.0}, "gamma must be positive"),
        ({"name": "rbf", "gamma": np.inf}, "gamma must be positive"),
        ({"name": "poly", "degree": 0}, "degree must be"),
        ({"name": "poly", "degree": 2.5}, "degree must be"),
        ({"name": "poly", "coef0": np.nan}, "coef0 must be finite"),
    ],
)
def test_kernel_settings_are_checked(settings, message):
    """An unknown kernel, or a width, degree or offset out of range, is refused."""
    with pytest.raises(ValueError, match=message):
        Kernel(**settings)


@pytest.mark.parametrize("rank", [3, 8, 32])
@pytest.mark.parametrize("least", [0.0, 2.0**-45, 2.0**-38, 2.0**-33])
def test_psd_defect_is_never_understated(rank, least):
    """Matrices whose entries are exact: vectors of plus and minus one, eigenvalues of few binary places."""
    n = 32
    H = hadamard(n).astype(float)
    values = np.zeros(n)
    values[:rank] = 2.0 ** -np.arange(rank).clip(max=3)
    values[-1] = -least
    K = H @ np.diag(values) @ H.T / n  # sums of few binary places: no rounding
    assert (K @ H[:, -1] == values[-1] * H[:, -1]).all()
    short = require_psd(K)
    assert short >= least
    assert short <= least + 1e-11


@pytest.mark.parametrize("rank", [1, 2, 7])
def test_psd_defect_counts_rounding(rank, rng):
    """Nothing is left of a matrix of small whole numbers but that: no less than a unit for every product."""
    F = rng.integers(1, 4, (12, rank)).astype(float)
    K = F @ F.T
    unit = np.finfo(float).eps / 2
    assert rank * unit * np.trace(K) <= bound_by_low_rank(K) <= 30 * (rank + 4) * unit * np.trace(K)
