"""The start of the decomposition from clusters of samples."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from formulations.families import hinge_families
from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt.base.progress import records_to
from polyopt.linalg.kernels import Kernel, SampleGram, gram_matvec
from polyopt.margin.decomposition import Options, solve_decomposition
from polyopt.margin.decomposition.cluster_start import beta_of_clusters, find_clusters
from polyopt.margin.decomposition.state import Dual

# Clusters of 50 samples, for machines that are too small for any, with rows in single precision.
SMALL = Options(
    min_cluster_start_samples=101, cluster_samples=50, max_small_samples=0,
    min_bounded_share=0.0, min_bounded_per_free=0.0,
)  # fmt: skip
N = 500


@pytest.fixture(scope="module")
def spread():
    """Samples of overlapping classes, far enough apart that a narrow kernel has clusters."""
    rng = np.random.default_rng(5)
    X = 6.0 * rng.random((N, 3))
    return X, np.where(np.sin(X).sum(axis=1) + 0.7 * rng.normal(size=N) > 0.5, 1.0, -1.0)


def gram_of(X, gamma=2.0):
    return SampleGram(X, Kernel("rbf", gamma))


class Solver:
    """Solves clusters exactly, and remembers their sizes and multipliers."""

    def __init__(self):
        self.sizes, self.betas = [], []

    def __call__(self, gram, dual):
        found = solve_decomposition(gram, dual.families, tol=1e-9, options=SMALL)
        self.sizes.append(gram.n)
        self.betas.append(dual.families.beta(dual.families.stacked(found.duals)))
        return self.betas[-1]


@pytest.mark.parametrize("B", [np.inf, 1.5])
@pytest.mark.parametrize("form", [np.array, sp.csr_array], ids=["dense", "CSR"])
def test_start_joins_solved_clusters(form, B, spread):
    """The start has the multipliers of the clusters, is feasible, and has a positive dual value."""
    X, y = spread
    C = np.where(np.arange(N) % 5 == 0, 0.0, 3.0)
    gram, dual, solver = gram_of(form(X), 4.0), Dual(hinge_families(y, C, B)), Solver()
    beta = beta_of_clusters(gram, dual, solver, Clock(), SMALL)
    assert sum(solver.sizes) > N / 2  # the others are in clusters of one class
    assert len(solver.sizes) > 5
    assert np.sort(beta[beta != 0]) == pytest.approx(
        np.sort(np.concatenate([b[b != 0] for b in solver.betas]))
    )
    assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
    Z = dual.families.split(beta)
    assert (Z <= dual.families.caps).all()
    assert dual.families.beta(Z) == pytest.approx(beta, abs=1e-12)
    assert dual.values(beta, gram_matvec(gram, beta))["bound"] > 0.0


@pytest.mark.parametrize(("gamma", "B"), [(0.02, 1.5), (0.5, np.inf), (0.5, 1.0), (20.0, 1.5)])
def test_clusters_do_not_change_the_optimum(gamma, B, spread):
    """With clusters and without, the optimum is the same."""
    X, y = spread
    rows = hinge_families(y, np.random.default_rng(1).uniform(0.1, 5.0, size=N), B)
    one, other = (
        solve_decomposition(gram_of(X, gamma), rows, tol=1e-7, options=options)
        for options in (SMALL, replace(SMALL, min_cluster_start_samples=10**9))
    )
    assert one.status is other.status is Status.SOLVED
    assert one.objective == pytest.approx(other.objective, rel=2e-6)
    assert one.bound <= other.objective * (1 + 1e-12)


def test_free_multipliers_need_no_clusters(spread):
    """If large costs leave hardly any multiplier at its bound, the first cluster is the last one solved."""
    X, y = spread
    solver, options = Solver(), replace(SMALL, min_bounded_share=0.15)
    dual = Dual(hinge_families(y, np.full(N, 1e6)))
    assert beta_of_clusters(gram_of(X, 20.0), dual, solver, Clock(), options) is None
    assert len(solver.sizes) == 1


@pytest.mark.parametrize(
    ("kernel", "has_clusters"),
    [
        (Kernel("rbf", 10.0), True), (Kernel("rbf", 0.01), False), (Kernel("linear"), False),
        (Kernel("poly", 1.0), False), (Kernel("sigmoid", 0.1), False),
    ],
    ids=["narrow", "wide", "linear", "poly", "sigmoid"],
)  # fmt: skip
def test_only_narrow_kernels_have_clusters(kernel, has_clusters, spread):
    """Only a kernel that decreases with the distance, and fast, has a start from clusters."""
    X, _ = spread
    dual = Dual(hinge_families(np.where(X[:, 0] > 3.0, 1.0, -1.0), np.full(N, 100.0)))
    start = beta_of_clusters(SampleGram(X, kernel), dual, Solver(), Clock(), SMALL)
    assert (start is not None) == has_clusters


def test_clusters_of_equal_samples_are_cut():
    """Equal samples are divided into clusters of at most twice the size."""
    sizes = [len(cluster) for cluster in find_clusters(np.repeat([[0.0], [1.0]], N // 2, axis=0), SMALL)]
    assert sum(sizes) == N
    assert max(sizes) <= 2 * SMALL.cluster_samples


def test_threads_change_no_bit(spread):
    """On one thread and on two the coefficients are the same bits."""
    X, y = spread
    found = []
    for count in (1, 2):
        with threadpool_limits(count):
            rows = hinge_families(y, np.full(N, 10.0), 1.4)
            found.append(solve_decomposition(gram_of(X), rows, options=SMALL)["coef"])
    assert np.array_equal(*found)


@pytest.mark.parametrize("end", [Status.TIME_LIMIT, Status.INTERRUPTED])
def test_stop_among_clusters_is_feasible(end, spread):
    """A limit or Ctrl-C among the clusters leaves the multipliers 0 and the best intercept."""
    X, y = spread

    def interrupt(record):
        raise KeyboardInterrupt

    with records_to(interrupt if end is Status.INTERRUPTED else None):
        limit = 1e-9 if end is Status.TIME_LIMIT else None
        found = solve_decomposition(
            gram_of(X), hinge_families(y, np.ones(N)), time_limit=limit, options=SMALL
        )
    assert found.status is end
    assert (found["coef"] == 0).all()
    assert found.bound == 0.0
    assert found.objective == pytest.approx(2.0 * min((y > 0).sum(), (y < 0).sum()))
