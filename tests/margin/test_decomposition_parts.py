"""The parts of the decomposition solver, each against what it stands for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import rmm
from formulations.families import hinge_families
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.base import threads
from polyopt.base.progress import records_to
from polyopt.certificates import Claim
from polyopt.linalg.kernels import Kernel, MatrixGram, SampleGram, gram_matvec, submatrix
from polyopt.margin import decomposition
from polyopt.margin.certify import certify_rmm
from polyopt.margin.decomposition import Options, driver
from polyopt.margin.decomposition import state as cache_module
from polyopt.margin.decomposition.driver import CachedRows, StallDetector, solve_pairs
from polyopt.margin.decomposition.newton import ActiveSet
from polyopt.margin.decomposition.state import Dual, RowCache

SETS = Options()
Decomposition = partial(decomposition.Decomposition, options=SETS)
solve_decomposition = partial(decomposition.solve_decomposition, options=SETS)


def a_kernel_without_a_name(A, Z):
    product = A @ Z.T
    return (1.0 + (product.toarray() if sp.issparse(product) else product)) ** 2


RBF = Kernel("rbf", gamma=0.4)
KERNELS = [Kernel("linear"), RBF, Kernel("poly", 0.2, 3, 1.0), Kernel("poly", 0.2, 2, -0.5),
           Kernel("sigmoid", 0.1, coef0=0.3), Kernel(a_kernel_without_a_name)]  # fmt: skip


# -- kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.name)[:8])
@pytest.mark.parametrize("form", [np.array, sp.csr_array, np.float32, lambda X: sp.csr_array(np.float32(X))],
                         ids=["dense", "CSR", "float32", "CSR float32"])  # fmt: skip
def test_blocks_are_those_of_the_whole_matrix(kernel, form, rng):
    X = rng.normal(size=(70, 6)) + 3.0
    X[:, 2], X[:, 4] = 0.0, 1.5
    X[X < 2.0] = 0.0
    X = np.float32(X).astype(float)  # so that a copy in single precision is the same data
    K, gram = kernel(X), SampleGram(form(X), kernel)
    rows, columns, scale = np.array([3, 60, 7]), np.array([0, 3, 8, 60]), np.abs(K).max()
    assert gram.diagonal() == pytest.approx(K.diagonal(), rel=1e-12)
    assert submatrix(gram, columns) == pytest.approx(K[np.ix_(columns, columns)], abs=1e-13 * scale)
    for dtype, close in ((np.float64, 1e-13), (np.float32, 1e-5)):
        some = gram.panel(columns, dtype).rows(rows)
        assert some.dtype == dtype
        assert some == pytest.approx(K[np.ix_(rows, columns)], abs=close * scale)
        assert gram.panel(None, dtype).rows(rows) == pytest.approx(K[rows], abs=close * scale)
    v = np.where(rng.random(70) < 0.5, rng.normal(size=70), 0.0)
    assert gram_matvec(gram, v) == pytest.approx(K @ v, abs=1e-12 * scale)


def test_rows_of_samples_far_out_are_right_in_single_precision(rng):
    """A rare feature of one-hot data, standardised: a few samples lie so far out that products lose all."""
    X = rng.normal(size=(300, 4))
    X[:3, 0] += 100.0  # near one another, and far from all others
    gram = SampleGram(X, RBF)
    assert gram.is_single()
    every = np.arange(300)
    products = (
        np.float32(gram.operand(every, np.dtype(np.float32), left=True))
        @ gram.operand(every, np.dtype(np.float32), left=False).T
    )
    exact = RBF(X)
    assert np.abs(np.exp(np.minimum(products, 0.0)) - exact)[:3, :3].max() > 1e-5  # what would be lost
    assert np.abs(gram.panel(None, np.float32).rows(every) - exact).max() < 1e-5
    X[:150, 0] += 100.0
    assert not SampleGram(X, RBF).is_single()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_the_same_on_many_threads(dtype, rng, monkeypatch):
    monkeypatch.setattr(threads, "_MIN_THREAD_WORK", 0.0)
    X, weights = rng.normal(size=(3000, 5)), rng.normal(size=3000)
    answers = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        rows = RowCache(SampleGram(X, RBF), 64 * 2.0**20, dtype)
        monkeypatch.setattr(cache_module, "_STRIP", 512)
        rows.fetch(np.arange(0, 900, 3))
        answers.append((rows.table[:300].copy(), rows.combine(np.arange(0, 900, 3), weights[:300])))
    for one, many in zip(*answers, strict=True):
        assert np.array_equal(one, many)


# -- the dual ----------------------------------------------------------------------------------


@given(st.floats(-9, 9), st.sampled_from([-1.0, 1.0]), st.floats(0.1, 5), st.floats(1, 4))
def test_the_split_into_three_families_is_the_best_there_is(beta, y, C, B):
    """No vertex of the set of alpha, lam and lam_star with the same β gives more."""
    dual = Dual(hinge_families(np.array([y]), np.array([C]), B))
    alpha, lam, lam_star = (part[0] for part in dual.families.split(np.array([beta])))
    vertices = [a for a in (0.0, C, y * beta) if 0.0 <= a <= C]
    best = max(a - B * abs(beta - y * a) for a in vertices)
    assert alpha * y - lam + lam_star == pytest.approx(beta, abs=1e-12)
    assert min(alpha, lam, lam_star) >= 0.0
    assert alpha <= C
    assert alpha - B * (lam + lam_star) == pytest.approx(best, abs=1e-12)


def test_joined_multipliers_are_feasible(rng):
    y, C = np.where(rng.random(30) < 0.5, 1.0, -1.0), rng.uniform(0.5, 2.0, 30)
    for B in (np.inf, 1.3):
        dual = Dual(hinge_families(y, C, B))
        beta = dual.join(
            dict(zip(("margin", "bound_above", "bound_below"), 3.0 * rng.random((3, 30)), strict=True))
        )
        assert abs(beta.sum()) < 1e-12
        if np.isinf(B):
            assert (beta >= dual.phi.ends[0]).all()
            assert (beta <= dual.phi.ends[1]).all()


# -- kernel rows -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_rows_are_right_whatever_came_before(seed):
    """Rows fetched, driven out, cut and widened at random are always those of the matrix."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 60))
    K = rng.normal(size=(n, n))
    K += K.T
    rows = RowCache(MatrixGram(K), budget=8 * n * rng.integers(2, 2 * n), dtype=np.float64)
    for _ in range(12):
        if rng.random() < 0.4:
            rows.set_active(np.flatnonzero(rng.random(n) < rng.uniform(0.2, 1.0)) if rng.random() < 0.8
                            else np.arange(n))  # fmt: skip
            if not len(rows.active):
                rows.set_active(np.arange(n))
        samples = rng.permutation(n)[: rng.integers(1, min(rows.capacity, n) + 1)]
        slots = rows.fetch(samples)
        assert (rows.table[slots] == K[np.ix_(samples, rows.active)]).all()
        weights = rng.normal(size=len(samples))
        assert rows.combine(samples, weights) == pytest.approx(weights @ K[np.ix_(samples, rows.active)])
        assert rows.bytes <= max(rows.table.nbytes, 8 * n)
    assert rows.computed + rows.hits > 0


# -- working sets and sub-problems -------------------------------------------------------------


def whole(K):
    """The rows of a matrix, all of its samples being in the set."""
    return CachedRows(K, np.arange(len(K)), np.arange(len(K)))


@pytest.mark.parametrize("B", [np.inf, 1.0, 1.3])
def test_pair_steps_solve_a_working_set(B, blobs):
    X, y = blobs
    K, n = RBF(X), len(y)
    dual, beta, g = Dual(hinge_families(y, np.ones(n), B)), np.zeros(n), np.zeros(n)
    solve_pairs(whole(K), K.diagonal().copy(), g, beta, dual.phi, 1e-9, n, 10**7)
    assert g == pytest.approx(K @ beta, abs=1e-10)
    m, M = dual.extremes(beta, K @ beta)
    assert m - M <= 2e-9
    program = rmm.kernel_dual(K, y, 1.0, B if np.isfinite(B) else 1e3)
    assert dual.values(beta, g)["bound"] == pytest.approx(program.solve().objective, rel=1e-7)


def test_a_violation_that_only_rounding_makes_moves_no_pair():
    # 1 - g[0] is one digit of rounding above -1 - g[1], but the sum of all four loses it: no pair gains.
    y, g, beta = np.array([1.0, -1.0]), np.array([0.75 - 2.0**-53, -1.25]), np.zeros(2)
    dual = Dual(hinge_families(y, np.ones(2)))
    m, M = dual.extremes(beta, g)
    assert m > M
    assert (m + 1.0) + g[1] == 0.0
    taken, _ = solve_pairs(whole(np.eye(2)), np.ones(2), g, beta, dual.phi, 0.0, 2, 100)
    assert taken == 0
    assert not beta.any()
    assert np.isfinite(g).all()


def test_outputs_at_a_few_samples_are_those_of_the_whole_matrix(rng):
    X, some = rng.normal(size=(900, 5)), np.array([3, 500, 7])
    coefficients = np.where(rng.random(900) < 0.7, rng.normal(size=900), 0.0)
    for kernel in KERNELS:
        exact = kernel(X)[some] @ coefficients
        found = gram_matvec(SampleGram(X, kernel), coefficients, some)
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert (gram_matvec(SampleGram(X, RBF), np.zeros(900), some) == 0.0).all()


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-8])
def test_small_machines_are_exact_whatever_the_tolerance(tol, blobs):
    X, y = blobs
    rows = hinge_families(y, np.ones(len(y)), 1.3)
    found = solve_decomposition(SampleGram(X, RBF), rows, tol=tol, options=Options())
    assert found.status is Status.SOLVED
    assert found.objective - found.bound <= 1e-10 * found.objective


# -- the active set ----------------------------------------------------------------------------


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([np.inf, 1.0, 1.0001, 1.4]), st.sampled_from([1, 3, 40]))
def test_an_active_set_raises_the_dual_and_stays_feasible(seed, B, rank):
    """From any feasible point, on kernels of any rank with like samples among them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 50))
    X = rng.normal(size=(n, rank))[rng.integers(0, n, n)]
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    K, C = X @ X.T, 10.0 ** rng.uniform(-1, 1, n)
    dual = Dual(hinge_families(y, C, B))
    beta = dual.join({"margin": rng.random(n) * C * rng.integers(0, 2, n)})
    g = K @ beta
    before = dual.values(beta, g)["bound"]
    ActiveSet(K, g, beta, dual.phi).run(1e-9, 2000, Clock())
    assert g == pytest.approx(K @ beta, abs=1e-8 * (1 + np.abs(K).max() * np.abs(beta).sum()))
    assert abs(beta.sum()) <= 1e-9 * (1 + np.abs(beta).sum())
    assert dual.values(beta, K @ beta)["bound"] >= before - 1e-9 * (1 + abs(before))
    if np.isinf(B):
        assert (beta >= dual.phi.ends[0] - 1e-12).all()
        assert (beta <= dual.phi.ends[1] + 1e-12).all()


@given(st.integers(0, 10**6), st.sampled_from([np.inf, 1.0, 1.2]), st.sampled_from(["linear", "rbf", "like"]))
def test_an_active_set_ends_at_the_optimum(seed, B, kind):
    """From any feasible point, also where K is singular: as the pair steps, and as an independent solver."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 40))
    X = rng.normal(size=(n, 2 if kind == "linear" else 6))
    if kind == "like":
        X = X[rng.integers(0, n, n)]
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    K, C = Kernel("linear" if kind == "linear" else "rbf", 0.3)(X), 10.0 ** rng.uniform(-1, 1, n)
    dual = Dual(hinge_families(y, C, B))
    beta = dual.join({"margin": rng.random(n) * C * rng.integers(0, 2, n)})
    g = K @ beta
    machine = ActiveSet(K, g, beta, dual.phi)
    assert machine.run(1e-9, 5000, Clock())
    m, M = dual.extremes(beta, K @ beta)
    assert m - M <= 2e-9
    program = rmm.kernel_dual(K, y, C, B if np.isfinite(B) else 1e3)
    assert dual.values(beta, g)["bound"] == pytest.approx(program.solve().objective, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("ridge", [1e-11, 1e-3])
def test_an_active_set_is_blind_to_the_scale_of_its_matrix(ridge, rng):
    """K times 2^40 and costs over it: the same steps to the last digit, however large the proximal term."""
    X, y = rng.normal(size=(30, 3)), np.where(np.arange(30) % 2, 1.0, -1.0)
    ends = []
    for scale in (1.0, 2.0**40):
        dual, K = Dual(hinge_families(y, 1.0 / scale, 1.5)), scale * (X @ X.T)
        beta, g = np.zeros(30), np.zeros(30)
        machine = ActiveSet(K, g, beta, dual.phi)
        machine._ridge = ridge
        machine.run(1e-9, 200, Clock())
        ends.append((machine.pivots, (scale * beta).tolist()))
    assert ends[0] == ends[1]


def test_an_active_set_goes_on_where_it_was_left(overlapping):
    """A factor too small for what joins, and pivots one at a time, lead where all of them at once do."""
    gram, y, C = overlapping
    K, dual = gram.panel(None, np.float64).rows(np.arange(600)), Dual(hinge_families(y, C))
    found = []
    for pivots in (10**6, 1):
        beta = np.zeros(600)
        g = K @ beta
        machine = ActiveSet(K, g, beta, dual.phi)
        for total in range(pivots, 10**6 + 1, pivots):
            if machine.run(1e-9, total, Clock()):
                break
        assert g == pytest.approx(K @ beta, abs=1e-9)
        found.append(dual.values(beta, g)["bound"])
    assert found[1] == pytest.approx(found[0], rel=1e-9)


# -- the loop ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-25, 1e20, 1e33])
def test_pairs_of_like_samples_stay_in_the_range_of_numbers(scale, rng):
    """Their curvature is all rounding in the scale of the kernel, and past the bound no kink ends a step."""
    n = 30
    X = np.sqrt(scale) * (1.0 + 1e-15 * rng.normal(size=(n, 1)))
    K, y = X @ X.T, np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    solution = solve_decomposition(K, hinge_families(y, np.full(n, 1e-5), 2.0), tol=1e-8, max_iter=200)
    assert np.isfinite(solution["coef"]).all()
    assert np.abs(solution["coef"]).max() <= 1.0


def test_an_active_set_that_leaves_the_range_of_numbers_is_put_back(overlapping, monkeypatch):
    gram, y, C = overlapping

    def lost(self, tol, pivots, clock):
        self._g[:], self._beta[:] = np.nan, np.inf
        return False

    monkeypatch.setattr(ActiveSet, "run", lost)
    options = replace(SETS, max_pair_steps_per_sample=1)
    solution = solve_decomposition(gram, hinge_families(y, C), tol=1e-2, max_iter=30, options=options)
    assert np.isfinite([solution.objective, solution.bound, *solution["coef"]]).all()


@pytest.mark.parametrize("times", [1, 1000])
def test_outputs_that_leave_the_range_of_numbers_are_given_up(times, overlapping, monkeypatch):
    """Once, and the run begins anew; again, and it ends, at a point of finite values that is not optimal."""
    gram, y, C = overlapping
    plain = solve_decomposition(gram, hinge_families(y, C, 1.2), tol=1e-6)
    solve, left = driver.solve_pairs, [times]

    def wild(rows, diagonal, g, beta, *rest):
        taken = solve(rows, diagonal, g, beta, *rest)
        if isinstance(rows, CachedRows) and left[0]:
            left[0] -= 1
            beta[:] = 1e308  # which is finite, and sums of them are not
        return taken

    monkeypatch.setattr(driver, "solve_pairs", wild)
    with np.errstate(over="ignore", invalid="ignore"):
        solution = solve_decomposition(gram, hinge_families(y, C, 1.2), tol=1e-6)
    assert left[0] < times
    assert np.isfinite([solution.objective, solution.bound, *solution["coef"]]).all()
    if times == 1:
        assert solution.status is Status.SOLVED
        assert solution.bound == pytest.approx(plain.bound, rel=1e-6)
    else:
        assert solution.status is Status.STALLED


def test_a_run_whose_dual_value_no_longer_rises_is_seen():
    flat, rising, unknown = (StallDetector(Options(max_flat_records=20)) for _ in range(3))
    assert [flat.is_flat(7.0) for _ in range(21)] == [False] * 20 + [True]
    assert not any(rising.is_flat(7.0 + 1e-12 * k) for k in range(60))
    assert not any(unknown.is_flat(np.nan) for _ in range(60))


@pytest.fixture
def overlapping():
    X, y = two_blobs(n=600, separation=0.3)
    return SampleGram(X, RBF), y, np.full(600, 5.0)


@pytest.mark.parametrize("B", [np.inf, 1.2])
def test_a_cache_of_a_few_rows_gives_the_same_answer(B, overlapping):
    gram, y, C = overlapping
    large = solve_decomposition(gram, hinge_families(y, C, B), tol=1e-6)
    small = solve_decomposition(gram, hinge_families(y, C, B), tol=1e-6, cache_size=0.2)  # 43 rows of 600
    assert small.status is Status.SOLVED
    assert small.bound == pytest.approx(large.bound, rel=1e-8)
    assert small.history[-1]["rows"] > large.history[-1]["rows"]


def test_samples_are_set_aside_and_taken_back(overlapping):
    gram, y, C = overlapping
    options = replace(SETS, max_newton_cost_ratio=0.0, max_active_share=0.99, max_working_set=20)
    machine = Decomposition(gram, cache_size=0.3, options=options)
    solution = machine.solve(hinge_families(y, C, 1.3), tol=1e-5)
    assert min(record["active"] for record in solution.history) < 600
    K = gram.kernel(gram.X)
    m, M = Dual(hinge_families(y, C, 1.3)).extremes(machine._state.beta, K @ machine._state.beta)
    assert m - M <= 1.01e-5
    assert machine._state.g == pytest.approx(K @ machine._state.beta, abs=1e-9)


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-8])
@pytest.mark.parametrize("kernel", [RBF, Kernel("poly", 0.05, 3, 1.0)], ids=["rbf", "poly"])
def test_single_precision_keeps_what_it_promises(tol, kernel):
    """Rows in single precision, and yet the violation in double precision is within the tolerance."""
    X, y = two_blobs(n=300, separation=0.3)
    for C, B in ((1.0, np.inf), (1e3, np.inf), (10.0, 1.1)):
        machine = Decomposition(SampleGram(X, kernel), options=Options(max_small_samples=0))
        assert not machine._state.is_double
        solution = machine.solve(hinge_families(y, np.full(300, C), B), tol=tol)
        beta = machine._state.beta
        m, M = Dual(hinge_families(y, np.full(300, C), B)).extremes(beta, kernel(X) @ beta)
        assert solution.status in (Status.SOLVED, Status.INACCURATE)
        assert m - M <= 1.2 * tol + machine._state.rounding()


def test_ctrl_c_leaves_a_consistent_point_to_go_on_from(overlapping, monkeypatch):
    gram, y, C = overlapping
    calls, original = [], driver.solve_pairs

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments[:-1], 50)

    monkeypatch.setattr(driver, "solve_pairs", interrupted)
    machine = Decomposition(gram)
    stopped = machine.solve(hinge_families(y, C, 1.3))
    assert stopped.status is Status.INTERRUPTED
    K = gram.kernel(gram.X)
    certificate = certify_rmm(K, y, 5.0, 1.3, w=stopped["coef"], b=float(stopped["b"]), precomputed=True,
                              alpha=stopped.duals["margin"], lam=stopped.duals["bound_above"],
                              lam_star=stopped.duals["bound_below"])  # fmt: skip
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.dual_value == pytest.approx(stopped.bound)
    monkeypatch.undo()
    assert machine.solve(hinge_families(y, C, 1.3), tol=1e-8).status is Status.SOLVED


def test_the_record_of_a_run(overlapping):
    gram, y, C = overlapping
    seen = []
    with records_to(seen.append):
        solution = solve_decomposition(gram, hinge_families(y, C, 1.2), tol=1e-8)
    assert list(solution.history) == seen
    last = seen[-1]
    assert last["violation"] <= 1e-8
    assert last["objective"] - last["bound"] <= 1e-6 * last["bound"]
    assert 0 < last["rows"] <= 600 + len(y)
    assert last["active"] == 600
    seconds = [record["seconds"] for record in seen]
    assert seconds == sorted(seconds)


def test_costs_out_of_all_proportion_end_and_say_how(blobs):
    X, y = blobs
    for scale in (1e-8, 1e8, 1e12):
        solution = solve_decomposition(
            SampleGram(X, RBF), hinge_families(y, np.full(len(y), scale)), tol=1e-8, time_limit=20
        )
        assert solution.status in (Status.SOLVED, Status.INACCURATE)
        assert solution.bound <= solution.objective + 1e-9 * abs(solution.objective)
