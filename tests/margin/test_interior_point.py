"""The interior-point solver: against the explicit programs, on data of every kind, and at its limits."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import rmm, sigma_svm, svm
from formulations.families import hinge_families
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import Claim, certify_rmm, certify_sigma_svm, certify_svm
from polyopt.base.progress import records_to
from polyopt.margin.interior_point import solve_interior_point
from polyopt.margin.interior_point.driver import Iterate
from polyopt.margin.interior_point.problem import Regulariser, System, read_problem
from polyopt.margin.interior_point.rows import Rows


def certificate(X, y, costs, B, solution, D=None, weights=None, tol=1e-7):
    vectors = {"w": solution["w"], "b": float(solution["b"]), "alpha": solution.duals["margin"], "tol": tol}
    if D is not None:
        return certify_sigma_svm(X, y, costs, D, weights=weights, **vectors)
    if np.isinf(B):
        return certify_svm(X, y, costs, **vectors)
    bounds = {"lam": solution.duals["bound_above"], "lam_star": solution.duals["bound_below"]}
    return certify_rmm(X, y, costs, B, **vectors, **bounds)


@pytest.mark.parametrize("B", [np.inf, 3.0, 1.3, 1.0001, 1.0])
def test_solution_is_of_explicit_program(B, blobs):
    """Objective, bound and w are those of the explicit program, and the certificate proves them."""
    X, y = blobs
    program = svm.primal(X, y, 1.0) if np.isinf(B) else rmm.qp(X, y, 1.0, B)
    exact = program.solve()
    fast = solve_interior_point(X, hinge_families(y, np.ones(len(y)), B), tol=1e-11)
    assert fast.objective == pytest.approx(exact.objective, rel=1e-8)
    assert fast.bound == pytest.approx(exact.objective, rel=1e-8)
    assert fast["w"] == pytest.approx(exact["w"], abs=1e-5)
    assert set(fast.duals) == {"margin"} | ({"bound_above", "bound_below"} if np.isfinite(B) else set())
    assert certificate(X, y, 1.0, B, fast).claim is Claim.OPTIMAL


@pytest.mark.parametrize("D", [0.0, 0.4, 0.99, 1.0])
@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_solution_is_of_sigma_svm(D, form, blobs, rng):
    """Of any share D, dense or sparse, the solution is that of the explicit σ-SVM."""
    X, y = blobs
    weights = rng.uniform(0.5, 2.0, len(y))
    exact = sigma_svm.primal(X, y, weights, D, weights).solve()
    fast = solve_interior_point(form(X), hinge_families(y, weights), D=D, weights=weights)
    assert fast.objective == pytest.approx(exact.objective, rel=1e-7)
    assert certificate(X, y, weights, np.inf, fast, D, weights, tol=1e-6).claim is Claim.OPTIMAL


@pytest.mark.parametrize("B", [np.inf, 1.3])
def test_multipliers_are_of_explicit_program(B, blobs, rng):
    """Costs of no special size leave one set of multipliers, feasible and that of the explicit program."""
    X, y = blobs
    costs = rng.uniform(0.5, 2.0, len(y))
    exact = (svm.primal(X, y, costs) if np.isinf(B) else rmm.qp(X, y, costs, B)).solve()
    fast = solve_interior_point(X, hinge_families(y, costs, B), tol=1e-10)
    for row, multipliers in fast.duals.items():
        assert multipliers == pytest.approx(exact.duals[row], abs=1e-4)
    alpha, *bounds = fast.duals.values()
    assert ((alpha >= 0) & (alpha <= costs)).all()
    assert all((each >= 0).all() for each in bounds)
    beta = alpha * y - sum(side * each for side, each in zip((1.0, -1.0), bounds, strict=False))
    assert abs(beta.sum()) <= 1e-10 * np.abs(beta).sum()
    assert np.abs(X @ fast["w"] + float(fast["b"])).max() <= B * (1 + 1e-12)


def test_full_share_leaves_least_norm(rng):
    """At D = 1 with six features of rank three, w has the least norm among those with its outputs."""
    basis, mix = rng.normal(size=(50, 3)), rng.normal(size=(3, 5))
    X = np.column_stack([basis @ mix, np.full(50, 1e3)])
    y = np.where(basis[:, 0] + rng.normal(size=50) > 0, 1.0, -1.0)
    for form in (X, sp.csr_array(X)):
        w = solve_interior_point(form, hinge_families(y, np.ones(50)), D=1.0)["w"]
        centred = X - X.mean(axis=0)
        assert w == pytest.approx(np.linalg.pinv(centred, rcond=1e-10) @ (centred @ w), abs=1e-8)
        assert w[-1] == pytest.approx(0.0, abs=1e-12)


def test_sample_without_cost_keeps_its_bounds(blobs):
    """A sample of cost 0 has no margin multiplier, but its output stays within the bounds."""
    X, y = blobs
    costs = np.where(np.arange(len(y)) < 8, 0.0, 1.0)
    for B in (np.inf, 1.2):
        exact = (svm.primal(X, y, costs) if np.isinf(B) else rmm.qp(X, y, costs, B)).solve()
        fast = solve_interior_point(X, hinge_families(y, costs, B))
        assert (fast.duals["margin"][:8] == 0).all()
        assert fast.objective == pytest.approx(exact.objective, rel=1e-7)


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    m=st.integers(1, 8),
    B=st.sampled_from([np.inf, 1.0, 1.0001, 1.5, 50.0]),
    C=st.sampled_from([1e-6, 1e-2, 1.0, 1e4]),
    kind=st.sampled_from(["plain", "duplicates", "separable", "collinear", "zero feature", "imbalanced"]),
)
def test_degenerate_data_end_certified(seed, n, m, B, C, kind):
    """Duplicates, separable, collinear or imbalanced classes end with a proven optimum at any cost."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, m)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    if kind == "duplicates":
        X = np.round(X)
    elif kind == "collinear":
        X[:, -1] = 2.0 * X[:, 0]
    elif kind == "zero feature":
        X[:, 0] = 0.0
    elif kind == "imbalanced":
        y[:] = -1.0
    elif kind == "separable":
        X[:, 0] += 5.0 * y
    y[0], y[-1] = 1.0, -1.0
    solution = solve_interior_point(X, hinge_families(y, np.full(n, C), B))
    found = certificate(X, y, C, B, solution, tol=1e-6)
    assert found.claim is Claim.OPTIMAL, found.sentence
    if solution.status is Status.SOLVED:
        assert found.relative_gap <= 1.1e-8


def test_samples_are_not_copied(rng):
    """Memory beyond the samples is a block and some vectors, less than a copy."""
    X = rng.normal(size=(20_000, 60)).astype(np.float32)
    y = np.where(X[:, 0] + rng.normal(size=len(X)) > 0, 1.0, -1.0)
    solve_interior_point(X[:50], hinge_families(y[:50], np.ones(50)), max_iter=3)  # loads what is imported
    tracemalloc.start()
    solve_interior_point(X, hinge_families(y, np.ones(len(y))), max_iter=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    block, vectors = 2 * 8 * 2**16, 34 * 8 * len(y)
    assert peak < block + vectors < 8 * X.size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("density", [0.02, 0.5, 1.0])
def test_products_are_of_shifted_rows(dtype, density, rng):
    """Dense rows, and sparse ones by entries or by blocks, have the products of the shifted matrix."""
    X = (rng.normal(size=(5000, 40)) * (rng.random((5000, 40)) < density)).astype(dtype)
    d, V, v = rng.uniform(0, 3, 5000), rng.normal(size=(5000, 2)), rng.normal(size=41)
    shift = rng.normal(size=40)
    lifted = np.column_stack([X - shift, np.ones(5000)])
    forms = [Rows(X), Rows(sp.csr_array(X))]
    assert forms[1].is_entrywise == (density < 0.1)
    for rows in forms:
        rows.shift = shift
        M, pulled = rows.normal_matrix(d, V)
        assert M == pytest.approx((lifted * d[:, None]).T @ lifted, rel=1e-9, abs=1e-9)
        assert pulled == pytest.approx(lifted.T @ V, rel=1e-9, abs=1e-9)
        assert rows.weighted_sums(V) == pytest.approx(lifted.T @ V, rel=1e-9, abs=1e-9)
        assert rows.scores(v) == pytest.approx(lifted @ v, rel=1e-9, abs=1e-9)


def test_singular_system_is_solved(rng):
    """If R = 1 drowns in collinear features of weight 1e20, the system is still solved."""
    X = rng.normal(size=(30, 4))
    lifted = np.column_stack([X, X[:, 0], np.ones(30)])
    M = 1e20 * lifted.T @ lifted
    wanted = np.array([1.0, 2.0, -1.0, 0.5, 1.0, 3.0])
    found = System(Regulariser(5), M).solve(M @ wanted)
    assert lifted @ found == pytest.approx(lifted @ wanted, rel=1e-6)


def test_heavy_multipliers_keep_stationarity(rng):
    """Standardised rare features, whose samples are outliers at the bound, end with a proof."""
    n = 4000
    rare = (rng.random((n, 6)) < np.array([0.5, 0.2, 0.01, 0.005, 0.002, 0.001])).astype(float)
    rare[:6] = np.eye(6)
    X = np.column_stack([rng.normal(size=(n, 4)), rare, 1.0 - rare[:, 0]])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(X[:, 0] + rare @ rng.normal(size=6) + rng.normal(size=n) > 0, 1.0, -1.0)
    for C in (1.0, 1e4):
        solution = solve_interior_point(X, hinge_families(y, np.full(n, C), 1.3))
        found = certificate(X, y, C, 1.3, solution, tol=1e-7)
        assert found.claim is Claim.OPTIMAL, found.sentence


@pytest.mark.parametrize(("D", "B"), [(None, np.inf), (None, 1.4), (0.6, np.inf)])
def test_any_iterate_has_true_values(B, D):
    """After any number of iterations objective and bound are those of w, b and the multipliers."""
    rng = np.random.default_rng(0)
    X, y = two_blobs(n=50, separation=1.5, seed=3)
    y[:8] = 1.0
    X = X * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0]
    costs, weights = rng.uniform(0.3, 2.0, 50), rng.uniform(0.5, 2.0, 50)
    A = np.eye(3)
    if D is not None:  # its intercept is that of centred samples
        X = X - weights @ X / weights.sum()
        A = (1 - D) * A + D * (X * weights[:, None]).T @ X / weights.sum()
        optimum = sigma_svm.primal(X, y, costs, D, weights).solve().objective
    else:
        optimum = (svm.primal(X, y, costs) if np.isinf(B) else rmm.qp(X, y, costs, B)).solve().objective
    gaps = []
    for rounds in range(1, 13):
        shares = {} if D is None else {"D": D, "weights": weights}
        found = solve_interior_point(X, hinge_families(y, costs, B), **shares, max_iter=rounds)
        w, b, alpha = found["w"], float(found["b"]), found.duals["margin"]
        f = X @ w + b
        assert np.abs(f).max() <= B * (1 + 1e-9)
        value = 0.5 * w @ A @ w + costs @ np.maximum(0.0, 1.0 - y * f)
        assert found.objective == pytest.approx(value, rel=1e-7)
        assert ((alpha >= 0) & (alpha <= costs)).all()
        beta, price = alpha * y, 0.0
        if np.isfinite(B):
            lam, lam_star = found.duals["bound_above"], found.duals["bound_below"]
            beta, price = beta - lam + lam_star, B * (lam + lam_star).sum()
        assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
        c = X.T @ beta
        dual = alpha.sum() - price - 0.5 * c @ np.linalg.solve(A, c)
        assert found.bound == pytest.approx(dual, rel=1e-6, abs=1e-9) or found.bound == 0.0 >= dual
        assert found.bound <= optimum * (1 + 1e-7)
        gaps.append(found.objective - found.bound)
    assert (np.diff(gaps) <= 1e-9).all()
    assert gaps[-1] < 0.01 * optimum


@pytest.mark.parametrize("D", [0.6, 1.0])
def test_regulariser_is_its_matrix(D, rng):
    """Gradient, energy, conjugate and system are those of R, for features of sizes from 1e-8 to 1e3."""
    X = rng.normal(size=(60, 4)) * [1e-8, 1.0, 1e3, 0.0]
    X[:, 1] += 0.5e8 * X[:, 0]
    R = (1.0 - D) * np.eye(4) + D * np.cov(X.T, bias=True)
    regulariser = Regulariser(4, R)
    w, z = rng.normal(size=4), rng.normal(size=4) * [1e8, 1.0, 1e-3, 1.0]
    c = R @ z
    assert regulariser.gradient(w) == pytest.approx(R @ w, rel=1e-9, abs=1e-12)
    assert regulariser.energy(w) == pytest.approx(0.5 * w @ R @ w, rel=1e-9)
    assert regulariser.conjugate(c) == pytest.approx(0.5 * z @ c, rel=1e-6)
    assert regulariser.unit == pytest.approx(np.sqrt(R.diagonal().max()))
    least = regulariser.min_norm(w)
    assert R @ least == pytest.approx(R @ w, rel=1e-6)
    assert least[3] == (pytest.approx(w[3]) if D < 1 else pytest.approx(0.0, abs=1e-12))
    assert np.linalg.norm(least) <= np.linalg.norm(w) * (1 + 1e-12)
    # The system in (w, b), with any weights of the samples: R + X'dX, bordered by the sums.
    lifted, d = np.column_stack([X, np.ones(60)]), rng.uniform(0.1, 2.0, 60)
    M = lifted.T @ (lifted * d[:, None])
    wanted = np.append(regulariser.min_norm(z), 0.7)
    r = M @ wanted + np.append(R @ wanted[:-1], 0.0)
    assert System(regulariser, M).solve(r) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("apart", "kept"), [(0.5e-11, 1), (2e-11, 10)])
def test_least_eigenvalue_that_counts(apart, kept):
    """Of nearly equal features, eigenvalues count from 1e-12 of the largest on."""
    regulariser = Regulariser(10, np.ones((10, 10)) - apart * (1.0 - np.eye(10)))
    dimensions = 10 if regulariser.basis is None else regulariser.basis.shape[1] - 1
    assert dimensions == kept


@pytest.mark.parametrize("level", [1e-5, 1.0, 1e5])
def test_constant_feature_gets_no_weight(level, rng):
    """At D = 1 a constant feature has no weight, and one that varies by 1e-4 of its mean has."""
    y = np.repeat([-1.0, 1.0], 20)
    varied = level * (1.0 + 1e-4 * (y + rng.normal(size=40)))
    X = np.column_stack([varied, np.full(40, level * 1.1), rng.normal(size=40)])
    for form in (np.array, sp.csr_array):
        found = solve_interior_point(form(X), hinge_families(y, np.ones(40)), D=1.0)
        assert abs(found["w"][1]) <= 1e-6 * np.abs(found["w"]).max()  # rounding of a weight beside it
        assert found["w"][0] * level * 1e-4 > 0.1
        outputs = (X - X.mean(axis=0)) @ found["w"] + found["b"]
        assert (outputs * y > 0).mean() > 0.7


@pytest.mark.parametrize(("spread", "is_kept"), [(1.25, True), (0.8, False)])
def test_least_spread_that_counts(spread, is_kept):
    """A standard deviation counts from 1e-12 of the mean on, and from 1e-6 for sparse rows."""
    y = np.repeat([-1.0, 1.0], 20)
    for form, line in ((np.array, 1e-12), (sp.csr_array, 1e-6)):
        X = np.column_stack([8.0 * (1.0 + spread * line * y), np.tile([1.0, -1.0], 20), np.zeros((40, 200))])
        found = solve_interior_point(form(X), hinge_families(y, np.ones(40)), D=1.0)
        assert (found["w"][0] != 0.0) == is_kept


@pytest.mark.parametrize("B", [np.inf, 1.3])
def test_repaired_multipliers_prove_the_bound(B):
    """The multipliers of an iterate, once balanced, prove the bound of its survey."""
    X, y = two_blobs(n=50, separation=1.5, seed=3)
    y[:8] = 1.0
    costs, unbalanced = np.random.default_rng(0).uniform(0.3, 2.0, 50), 0
    rows = hinge_families(y, costs, B)
    problem = read_problem(X, rows, None, None)
    machine = Iterate(problem, 1e-8)
    for _ in range(6):
        survey = machine.survey()
        problem.crew.tell("store_best", survey.repair_fraction)
        left = problem.crew.ask("balance_sums")[0][1]
        beta = rows.beta(problem.crew.ask("multipliers")[0])
        unbalanced += abs(survey.residual[-1]) > 1e-3
        if np.isfinite(survey.bound):
            assert beta.sum() == pytest.approx(0.0, abs=1e-9 * np.abs(beta).sum())
            w = X.T @ beta
            assert left == pytest.approx(beta.sum(), abs=1e-9)
            dual = rows.gain(rows.split(beta)) - 0.5 * w @ w
            assert dual >= survey.bound - 1e-9 * abs(survey.bound)  # whose split of beta is not the best
        machine.advance(survey)
    assert unbalanced > 0


def test_rounding_does_not_end_optimal(blobs):
    """A run that rounding ends is inaccurate or stalled, though its point may be proven."""
    X, y = blobs
    solution = solve_interior_point(X, hinge_families(y, np.ones(len(y)), 1.3), tol=1e-17)
    assert solution.status in (Status.INACCURATE, Status.STALLED)
    assert certificate(X, y, 1.0, 1.3, solution, tol=1e-8).claim is Claim.OPTIMAL
    # Costs of 1e6 and rows that contradict each other: the gap closes, w can be told no closer.
    X, y = np.repeat(np.round(X), 2, axis=0), np.tile([1.0, -1.0], len(X))
    solution = solve_interior_point(X, hinge_families(y, np.full(len(y), 1e6)))
    assert certificate(X, y, 1e6, np.inf, solution).relative_gap < 1e-7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.ones(40)}, "X must have two dimensions"),
        ({"X": np.full((40, 3), np.nan)}, "X must be finite"),
        ({"X": sp.csr_array(np.full((40, 3), np.inf))}, "X must be finite"),
        ({"y": np.ones(39)}, "rows must be of the 40 samples"),
        ({"y": np.arange(40)}, "y must hold only"),
        ({"y": np.ones(40)}, "C must be positive for samples of both classes"),
        ({"C": -1.0}, "C must be positive and finite"),
        ({"C": np.inf}, "C must be positive and finite"),
        ({"B": 0.0}, "B must be positive"),
        ({"B": np.nan}, "B must be at least 0"),
        ({"D": 1.5}, "D must lie in"),
        ({"D": 0.5, "weights": np.zeros(40)}, "weights must be positive"),
        ({"D": 0.5, "weights": np.ones(39)}, r"weights must have shape \(40,\), not \(39,\)"),
    ],
)
def test_wrong_input_is_named(changes, message, blobs):
    """Unusable samples, labels, costs, bounds, shares and weights are named."""
    arguments = {"X": blobs[0], "y": blobs[1], "C": 1.0, "B": np.inf} | changes
    X, y, C, B = (arguments.pop(name) for name in ("X", "y", "C", "B"))
    with pytest.raises(ValueError, match=message):
        solve_interior_point(X, hinge_families(y, C, B), **arguments)


def test_history_ends_at_the_solution(blobs):
    """The records are told as they are kept, and objective and bound close the gap monotonically."""
    X, y = blobs
    seen = []
    with records_to(seen.append):
        solution = solve_interior_point(X, hinge_families(y, np.ones(len(y)), 1.3))
    assert list(solution.history) == seen
    assert [record["iteration"] for record in seen] == list(range(solution.iterations + 1))
    assert {"iteration", "seconds", "violation", "objective", "bound"} <= set(seen[-1])
    slack = 1e-8 * solution.objective  # once the gap is closed, the points are kept that fit best
    assert (np.diff([record["objective"] for record in seen]) <= slack).all()
    assert (np.diff([record["bound"] for record in seen]) >= -slack).all()
    gaps = [record["objective"] - record["bound"] for record in seen]
    assert min(gaps) <= 1e-7 * solution.objective
    assert solution.iterations <= 40
