"""The start from cells, and the products with the kernel matrix that it needs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.families import hinge_families
from formulations.language.clock import Clock, OutOfTimeError
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.base import threads
from polyopt.linalg.kernels import Kernel, SampleGram, gram_matvec
from polyopt.margin import decomposition
from polyopt.margin.decomposition import Options, driver
from polyopt.margin.decomposition.cluster_start import beta_of_clusters, find_clusters
from polyopt.margin.decomposition.state import Dual, RowCache, State

# Clusters of 50 samples, in machines that would have none, with rows in single precision.
SMALL = Options(
    min_cluster_start_samples=101, cluster_samples=50, max_small_samples=0,
    min_bounded_share=0.0, min_bounded_per_free=0.0,
)  # fmt: skip
Decomposition = partial(decomposition.Decomposition, options=SMALL)

N = 500


@pytest.fixture
def spread():
    """Samples of overlapping classes, far enough apart that a narrow kernel sees cells."""
    rng = np.random.default_rng(5)
    X = 6.0 * rng.random((N, 3))
    y = np.where(np.sin(X).sum(axis=1) + 0.7 * rng.normal(size=N) > 0.5, 1.0, -1.0)
    return X, y


def solve_exactly(gram, dual):
    machine = Decomposition(gram)
    machine.solve(dual.families, tol=1e-9)
    return machine._state.beta


@pytest.mark.parametrize("B", [np.inf, 1.5])
@pytest.mark.parametrize("form", [np.array, sp.csr_array], ids=["dense", "CSR"])
def test_the_start_is_feasible_and_of_the_cells(form, B, spread):
    X, y = spread
    C = np.where(np.arange(N) % 5 == 0, 0.0, 3.0)
    gram, dual = SampleGram(form(X), Kernel("rbf", 4.0)), Dual(hinge_families(y, C, B))
    asked = []

    def solve(part, own):
        beta = solve_exactly(part, own)
        asked.append((part.n, beta))
        return beta

    beta = beta_of_clusters(gram, dual, solve, Clock(), SMALL)
    assert sum(n for n, _ in asked) > N / 2  # the others are in cells of one class
    assert len(asked) > 5
    assert np.sort(beta[beta != 0]) == pytest.approx(np.sort(np.concatenate([b[b != 0] for _, b in asked])))
    assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
    Z = dual.families.split(beta)
    assert (Z <= dual.families.caps).all()
    assert dual.families.beta(Z) == pytest.approx(beta, abs=1e-12)
    # A cell's multipliers solve the cell.
    assert dual.values(beta, gram_matvec(gram, beta))["bound"] > 0.0


@pytest.mark.parametrize(("gamma", "B"), [(0.02, 1.5), (0.5, np.inf), (0.5, 1.0), (20.0, 1.5)])
def test_cells_or_not_the_answer_is_the_same(gamma, B, spread, monkeypatch):
    X, y = spread
    gram, C = SampleGram(X, Kernel("rbf", gamma)), np.random.default_rng(1).uniform(0.1, 5.0, size=N)
    with_cells = Decomposition(gram).solve(hinge_families(y, C, B), tol=1e-7)
    options = replace(SMALL, min_cluster_start_samples=10**9)
    without = Decomposition(gram, options=options).solve(hinge_families(y, C, B), tol=1e-7)
    assert with_cells.status is without.status is Status.SOLVED
    assert with_cells.objective == pytest.approx(without.objective, rel=2e-6)
    assert with_cells.bound <= without.objective * (1 + 1e-12)


def test_free_multipliers_take_no_start_from_cells(spread, monkeypatch):
    """With large costs hardly any multiplier is at its bound: one cell says so, and no other is solved."""
    X, y = spread
    gram, asked = SampleGram(X, Kernel("rbf", 20.0)), []

    def solve(part, own):
        asked.append(part.n)
        return solve_exactly(part, own)

    dual, options = Dual(hinge_families(y, np.full(N, 1e6))), replace(SMALL, min_bounded_share=0.15)
    assert beta_of_clusters(gram, dual, solve, Clock(), options) is None
    assert len(asked) == 1


def test_a_wide_kernel_takes_no_start_from_cells(spread):
    X, _ = spread
    dual = Dual(hinge_families(np.where(X[:, 0] > 3.0, 1.0, -1.0), np.full(N, 100.0)))
    narrow, wide = (SampleGram(X, Kernel("rbf", gamma)) for gamma in (10.0, 0.01))
    assert beta_of_clusters(narrow, dual, solve_exactly, Clock(), SMALL) is not None
    assert beta_of_clusters(wide, dual, solve_exactly, Clock(), SMALL) is None


@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("poly", 1.0), Kernel("sigmoid", 0.1)])
def test_only_a_kernel_of_distances_has_cells(kernel, spread):
    X, y = spread
    gram, dual = SampleGram(X, kernel), Dual(hinge_families(y, np.ones(N)))
    assert beta_of_clusters(gram, dual, solve_exactly, Clock(), SMALL) is None


def test_cells_of_equal_samples_are_cut():
    X = np.repeat([[0.0], [1.0]], N // 2, axis=0)
    sizes = [len(cell) for cell in find_clusters(X, SMALL)]
    assert sum(sizes) == N
    assert max(sizes) <= 2 * SMALL.cluster_samples


def test_the_same_answer_on_one_thread_and_on_several(spread, monkeypatch):
    X, y = spread
    found = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        found.append(
            Decomposition(SampleGram(X, Kernel("rbf", 2.0))).solve(hinge_families(y, np.full(N, 10.0), 1.4))[
                "coef"
            ]
        )
    assert np.array_equal(*found)


def test_a_limit_among_the_cells_keeps_a_feasible_point(spread):
    X, y = spread
    solution = Decomposition(SampleGram(X, Kernel("rbf", 2.0))).solve(
        hinge_families(y, np.ones(N)), time_limit=1e-9
    )
    assert solution.status is Status.TIME_LIMIT
    assert (solution["coef"] == 0).all()
    assert solution.bound == 0.0
    assert solution.objective == pytest.approx(2.0 * min((y > 0).sum(), (y < 0).sum()))


def test_ctrl_c_among_the_cells_keeps_a_feasible_point(spread, monkeypatch):
    X, y = spread

    calls, original = [], driver.solve_pairs

    def interrupted(*arguments):
        calls.append(len(arguments[2]))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(driver, "solve_pairs", interrupted)
    solution = Decomposition(SampleGram(X, Kernel("rbf", 2.0))).solve(hinge_families(y, np.ones(N)))
    assert len(calls) >= 5  # cells that other threads have begun come to their end
    assert solution.status is Status.INTERRUPTED
    assert solution.bound == 0.0
    assert solution.objective >= 0.0


@pytest.mark.parametrize("moment", [0.0, np.inf], ids=["taken up again", "computed anew"])
def test_ctrl_c_between_beta_and_g_leaves_a_point_that_agrees(moment, spread, monkeypatch):
    X, y = spread
    calls, original = [], State.change

    def interrupted(self, samples, beta):
        calls.append(None)
        if len(calls) == 6:
            self.beta[samples] = beta  # and g has not followed
            raise KeyboardInterrupt
        original(self, samples, beta)

    monkeypatch.setattr(State, "change", interrupted)
    options = replace(SMALL, max_recovery_work=moment)
    machine = Decomposition(SampleGram(X, Kernel("rbf", 2.0)), cache_size=0.2, options=options)
    solution = machine.solve(hinge_families(y, np.full(N, 50.0)), tol=1e-9)
    assert solution.status is Status.INTERRUPTED
    beta = machine._state.beta
    assert machine._state.g == pytest.approx(SampleGram(X, Kernel("rbf", 2.0)).kernel(X) @ beta, abs=1e-9)
    dual = Dual(hinge_families(y, np.full(N, 50.0)))
    assert solution.bound == pytest.approx(dual.values(beta, machine._state.g)["bound"], rel=1e-12)


# -- products with the matrix ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kernel", [Kernel("linear"), Kernel("poly", 0.2, 3, 1.0), Kernel("rbf", 0.4), Kernel("sigmoid", 0.1)],
    ids=lambda kernel: kernel.name,
)  # fmt: skip
@pytest.mark.parametrize("form", [np.array, sp.csr_array], ids=["dense", "CSR"])
def test_weighted_rows_are_those_of_the_matrix(kernel, form, dtype, rng):
    X = rng.normal(size=(600, 4))
    X[7] *= 40.0  # so far out that single precision takes its row by differences
    gram = SampleGram(form(X), kernel)
    rows, columns, weights = (
        rng.permutation(600)[:530],
        np.sort(rng.permutation(600)[:560]),
        rng.normal(size=560),
    )
    exact = kernel(X)[np.ix_(rows, columns)] @ weights
    close = 1e-13 if dtype == np.float64 else 2e-5
    scale = np.abs(kernel(X)[np.ix_(rows, columns)]) @ np.abs(weights)
    coefficients = np.zeros(600)
    coefficients[columns] = weights
    found = gram_matvec(gram, coefficients, rows, dtype=dtype)
    assert (np.abs(found - exact) <= close * scale + 1e-12).all()


@pytest.mark.parametrize("form", [np.array, sp.csr_array], ids=["dense", "CSR"])
def test_a_product_ends_when_the_time_is_over(form, rng):
    gram = SampleGram(form(rng.normal(size=(50, 2))), Kernel("rbf", 1.0))
    clock = Clock(0.0)
    with pytest.raises(OutOfTimeError):
        gram_matvec(gram, np.ones(50), tick=clock.check)


def test_a_point_out_of_time_stays_where_it_was(rng):
    X, y = two_blobs(n=60)
    here = State(SampleGram(X, Kernel("rbf", 1.0)), 1e6)
    here.dual = Dual(hinge_families(y, np.ones(60)))
    here.move_to(0.1 * y)
    beta, g = here.beta.copy(), here.g.copy()
    for step in (
        lambda tick: here.recompute(tick, 0.2 * y),
        here.recompute,
        lambda tick: here.refresh(1e-3, tick),
    ):
        with pytest.raises(OutOfTimeError):
            step(Clock(0.0).check)
        assert np.array_equal(here.beta, beta)
        assert np.array_equal(here.g, g)


def test_rounding_is_measured_where_g_is_of_this_point(rng):
    """Samples set aside keep the g of another time, which is no rounding."""
    X, y = two_blobs(n=300, separation=0.3)
    here = State(SampleGram(X, Kernel("rbf", 1.0)), 1e7)
    here.cache = RowCache(here.gram, 1e7, np.float32)
    here.dual = Dual(hinge_families(y, np.ones(300)))
    here.cache.set_active(np.arange(0, 300, 2))
    here.change(np.arange(0, 300, 10), 0.5 * y[::10])
    assert not here.is_up_to_date
    assert here.is_accurate(1e-3)
    here.refresh(1e-3)
    here.update_aside()
    K = here.gram.kernel(X)
    assert here.g == pytest.approx(K @ here.beta, abs=1e-5)
    here.g[::2] += 0.01
    assert not here.is_accurate(1e-3)
