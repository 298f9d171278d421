"""The path along decreasing bounds, and warm starts: the same solutions as cold ones, for less work."""

from inspect import signature

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from formulations import rmm, svm
from formulations.families import hinge_families
from formulations.language.toy_data import two_blobs
from polyopt import Claim, Kernel, datasets, rmm_path
from polyopt.linalg.kernels import SampleGram
from polyopt.margin.certify import certify_rmm
from polyopt.margin.decomposition import Decomposition, solve_decomposition

RBF = Kernel("rbf", gamma=0.3)


def test_default_tolerance_is_of_certificates():
    """By default the tolerance of a path's certificates is that of all certificates."""
    own = signature(rmm_path).parameters["certificate_tol"].default
    assert own == signature(certify_rmm).parameters["tol"].default


@pytest.mark.parametrize("kernel", [None, RBF], ids=["linear", "rbf"])
def test_path_has_explicit_optima(kernel):
    """Every machine of the path has the optimum of its explicit dual, from the largest bound down."""
    X, y = two_blobs(n=60, separation=0.6)
    path = rmm_path(X, y, 2.0, bounds=[1.3, 3.0, 1.0], kernel=kernel, tol=1e-8)
    assert [point.B for point in path] == [np.inf, 3.0, 1.3, 1.0]
    K = X @ X.T if kernel is None else kernel(X)
    for point in path:
        assert point.certificate.claim is Claim.OPTIMAL
        dual = rmm.kernel_dual(K, y, 2.0, point.B) if np.isfinite(point.B) else svm.kernel_dual(K, y, 2.0)
        assert point.certificate.dual_value == pytest.approx(dual.solve().objective, rel=1e-6)


def test_optimum_is_convex_in_the_bound():
    """The optimal value falls with the bound, and is convex in it."""
    X, y = two_blobs(n=80, separation=0.3)
    path = rmm_path(X, y, bounds=[1.0, 1.5, 2.0, 2.5, 3.0], kernel=RBF, tol=1e-8)
    values = np.array([point.certificate.dual_value for point in path])  # B = inf, 3, 2.5, ..., 1
    assert (np.diff(values) >= -1e-9).all()
    steps = np.diff(values[1:])
    assert (np.diff(steps) >= -1e-7).all()


def test_default_bounds_are_the_papers():
    """The default bounds are 1/2, 1/4 and 1/10 of the way from 1 to the SVM's largest output."""
    X, y = two_blobs(n=50, separation=0.2)
    path = rmm_path(X, y, kernel=RBF)
    theta = np.abs(path[0].solution["f"]).max()
    assert [p.B for p in path[1:]] == pytest.approx([1 + (theta - 1) * s for s in (0.5, 0.25, 0.1)])
    for point in path[1:]:
        assert np.abs(point.solution["f"]).max() <= point.B * (1 + 1e-12)


def test_warm_path_needs_fewer_rows():
    """Warm starts along the bounds need fewer kernel rows than cold starts, for the same optima."""
    data = datasets.load("pima")
    X, y = StandardScaler().fit_transform(data.X), np.where(data.y == data.y[0], 1.0, -1.0)
    gram, C, bounds = SampleGram(X, Kernel("rbf", 0.5)), np.full(len(y), 10.0), (3.0, 2.0, 1.5, 1.2)
    machine = Decomposition(gram)
    warm = [machine.solve(hinge_families(y, C, B), tol=1e-4) for B in bounds]
    cold = [solve_decomposition(gram, hinge_families(y, C, B), tol=1e-4) for B in bounds]
    for one, other in zip(warm, cold, strict=True):
        assert one.bound == pytest.approx(other.bound, rel=1e-5)
    assert warm[-1].history[-1]["rows"] < sum(solution.history[-1]["rows"] for solution in cold)


def test_sparse_and_dense_paths_agree(blobs):
    """Sparse and dense samples have the same bounds and values."""
    X, y = blobs
    for kernel in (None, RBF):
        dense, sparse = (rmm_path(form(X), y, kernel=kernel, tol=1e-8) for form in (np.array, sp.csr_array))
        for one, other in zip(dense, sparse, strict=True):
            assert one.B == pytest.approx(other.B, rel=1e-6)
            assert one.certificate.primal_value == pytest.approx(other.certificate.primal_value, rel=1e-7)


def test_time_limit_is_of_whole_path(ticking):
    """The time limit ends the path as a whole, after one machine at least."""
    X, y = two_blobs(n=1500, separation=0.1)
    path = rmm_path(X, y, 1e4, bounds=[1.5, 1.2, 1.1, 1.05], kernel=Kernel("rbf", 5.0), time_limit=0.05)
    assert 1 <= len(path) < 5


def test_bad_input_is_refused(blobs):
    """Bounds below 1, one class, samples with gaps and an indefinite kernel matrix are refused."""
    X, y = blobs
    with pytest.raises(ValueError, match="at least 1"):
        rmm_path(X, y, bounds=[0.5])
    with pytest.raises(ValueError, match="both classes"):
        rmm_path(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="finite"):
        rmm_path(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="positive semidefinite"):
        rmm_path(-(X @ X.T), y, precomputed=True)


@pytest.mark.parametrize("tol", [1e-3, 1e-8, 1e-10])
def test_few_features_are_solved_closely(tol, blobs):
    """With few features, an interior point costs no more for 1e-8 than for a coarse tolerance."""
    X, y = blobs
    path = rmm_path(X, y, bounds=[1.5], tol=tol)
    assert max(point.certificate.relative_gap for point in path) <= 2.0 * min(tol, 1e-8)
