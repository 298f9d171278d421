"""The dual coordinate solver of the polytope machine, and alternating minimisation by it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cpm import clusters
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

import polyopt.optim.coordinate_ascent as coordinate
from formulations import cpm
from formulations.language.solution import Status
from polyopt.certificates import Claim
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.dual import DualProblem, Options, create_ascent, solve_cpm_dual
from polyopt.datasets import DatasetUnavailable, load
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds


def problem_of(seed, n=60, K=3, widen=1.5):
    """Overlapping data, an assignment that leaves the last two of K + 2 faces empty, costs per sample."""
    X, y, directions = clusters(n, K, seed, widen=widen)
    C = np.random.default_rng(seed).uniform(0.3, 2.0, n)
    return X, y, C, K + 2, np.where(y > 0, (X @ directions.T).argmax(axis=1), -1)


@pytest.fixture(params=[0, 1])
def fixed(request):
    return problem_of(request.param)


@pytest.fixture
def pixels(rng):
    """Bytes, most of them zero: X (400, 30), y, C, K, assignment, and X in doubles times 1/255."""
    centres = rng.integers(0, 200, (5, 30)) * (rng.random((5, 30)) < 0.4)
    kind = rng.integers(0, 5, 400)
    X = np.where(centres[kind] > 0, np.clip(centres[kind] + rng.normal(0, 60, (400, 30)), 0, 255), 0)
    X = X.astype(np.uint8)
    y = np.where(kind < 2, 1.0, -1.0)
    return X, y, np.full(400, 0.5), 4, np.where(y > 0, kind, -1), X / 255.0


# -- the fixed-assignment program ----------------------------------------------------------


def test_it_is_the_optimum_of_the_program(fixed):
    X, y, C, K, z = fixed
    exact = cpm.fixed_assignment(X, y, K, z, C).solve()
    found = solve_cpm_dual(X, y, C, K, z, tol=1e-9)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(exact.objective, rel=1e-7)
    assert found["W"] == pytest.approx(exact["W"], abs=1e-3)
    for k, costs in enumerate((C[:, None] * cpm.assignment_matrix(y, K, z)).T):
        face = cpm.face(X, y, costs).solve()
        assert found["W"][k] == pytest.approx(face["w"], abs=1e-3)


def test_the_point_is_what_the_multipliers_say_and_strong_duality_holds(fixed):
    X, y, C, K, z = fixed
    found = solve_cpm_dual(X, y, C, K, z, tol=1e-10)
    assert found["W"] == pytest.approx(cpm.recover(X, y, found["margin"])["W"], abs=1e-12)
    dual = cpm.fixed_assignment_dual(X, y, K, z, C)
    assert max(dual.violations({"alpha": found["margin"]}).values()) <= 1e-15
    assert found.bound == pytest.approx(dual.value({"alpha": found["margin"]}), rel=1e-12)
    hinges = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ found["W"].T)) * cpm.assignment_matrix(y, K, z)
    assert found.objective == pytest.approx((found["W"] ** 2).sum() + C @ hinges.sum(axis=1), rel=1e-12)
    assert 0.0 <= found.objective - found.bound <= 1e-10 * found.objective


def test_one_face_is_a_linear_svm_of_half_the_cost(fixed):
    X, y, C, _, _ = fixed
    found = solve_cpm_dual(X, y, C, 1, np.zeros(len(y), dtype=int), tol=1e-9)
    svm = LinearSVC(loss="hinge", C=1.0, fit_intercept=False, tol=1e-10, max_iter=10**6)
    svm.fit(cpm.lift(X), y, sample_weight=C / 2)
    assert found["W"][0] == pytest.approx(svm.coef_[0], abs=1e-4)


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
def test_the_gap_is_certified(tol, fixed):
    X, y, C, K, z = fixed
    found = solve_cpm_dual(X, y, C, K, z, tol=tol)
    certificate = certify_cpm(X, y, C, W=found["W"], alpha=found["margin"], assignment=z, tol=tol)
    assert certificate.relative_gap <= tol
    assert certificate.primal_value == pytest.approx(found.objective, rel=1e-10)
    assert certificate.dual_value == pytest.approx(found.bound, rel=1e-10)
    assert all(
        residual.relative <= 1e-9 for residual in certificate.residuals if residual.row.startswith("w")
    )


def test_multipliers_that_were_touched_fail_the_certificate(fixed):
    X, y, C, K, z = fixed
    found = solve_cpm_dual(X, y, C, K, z, tol=1e-9)
    alpha = found["margin"].copy()
    alpha[np.argmax((y < 0) & (C - alpha[:, 0] > 0.2)), 0] += 0.2
    good, bad = (
        certify_cpm(X, y, C, W=found["W"], alpha=a, assignment=z, tol=1e-5) for a in (found["margin"], alpha)
    )
    assert good.relative_gap <= 1e-8 < 1e-5 < bad.relative_gap
    assert bad.claim is Claim.SUBOPTIMAL_BY


def test_every_form_of_the_samples_gives_the_same(pixels):
    X, y, C, K, z, doubles = pixels
    exact = cpm.fixed_assignment(doubles, y, K, z, C).solve().objective
    forms = {
        "bytes": (X, 1 / 255),
        "doubles": (doubles, 1.0),
        "singles": (doubles.astype(np.float32), 1.0),
        "sparse": (sp.csr_array(doubles), 1.0),
        "by columns": (np.asfortranarray(doubles), 1.0),
    }
    for name in forms:  # each type of number has loops of its own
        form, scale = forms[name]
        found = solve_cpm_dual(form, y, C, K, z, scale=scale, tol=1e-7)
        assert found.bound <= exact * (1 + 1e-6), name
        assert found.objective == pytest.approx(exact, rel=1e-6), name


def test_a_state_follows_its_assignment(fixed):
    X, y, C, K, z = fixed
    machine = create_ascent(X, y, C, K, z)
    machine.sweep(times=5)
    moved = np.where(y > 0, (z + 1) % K, -1)
    machine.reassign(moved)
    assert machine.W == pytest.approx(cpm.recover(X, y, machine.alpha)["W"], abs=1e-12)
    assert (machine.alpha[cpm.assignment_matrix(y, K, moved) == 0] == 0).all()
    for _ in range(200):
        machine.climb(1e-8)
        machine.scan()
    assert machine.primal.sum() == pytest.approx(cpm.fixed_assignment(X, y, K, moved, C).solve().objective)


def test_single_precision_is_checked_in_double(pixels):
    X, y, C, K, z, doubles = pixels
    exact = cpm.fixed_assignment(doubles, y, K, z, C).solve().objective
    small = Options(single_min_entries=0)
    found = solve_cpm_dual(X, y, C, K, z, scale=1 / 255, tol=2e-5, options=small)
    assert found.status is Status.SOLVED
    assert found.objective - found.bound <= 2e-5 * found.objective
    assert found.bound <= exact * (1 + 1e-9)
    assert found["W"] == pytest.approx(cpm.recover(doubles, y, found["margin"])["W"], abs=1e-12)
    # Scores of 1e7 and more cancel in single precision: it is not used.
    assert not create_ascent(doubles * 1e7, y, C, K, z, options=small).single
    assert create_ascent(doubles, y, C, K, z, options=small).single


def test_limits_and_interruptions_keep_a_proven_bound(monkeypatch, fixed):
    X, y, C, K, z = fixed
    exact = cpm.fixed_assignment(X, y, K, z, C).solve().objective
    by_time = solve_cpm_dual(X, y, C, K, z, tol=1e-12, time_limit=0.0)
    by_count = solve_cpm_dual(X, y, C, K, z, tol=1e-12, max_iter=2)
    assert by_time.status is Status.TIME_LIMIT
    assert by_count.status is Status.ITERATION_LIMIT

    def interrupted(self, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr(coordinate.FaceAscent, "climb", interrupted)
    by_hand = solve_cpm_dual(X, y, C, K, z, tol=1e-12)
    assert by_hand.status is Status.INTERRUPTED
    for solution in (by_time, by_count, by_hand):
        assert 0.0 < solution.bound <= exact <= solution.objective
        dual = (cpm.recover(X, y, solution["margin"])["W"] ** 2).sum()
        assert solution.bound == pytest.approx(solution["margin"].sum() - dual, rel=1e-12)


def test_the_bound_rises_and_the_same_seed_is_the_same_run(fixed):
    X, y, C, K, z = fixed
    one, two, other = (solve_cpm_dual(X, y, C, K, z, tol=1e-9, seed=seed) for seed in (3, 3, 4))
    bounds = [record["bound"] for record in one.history]
    assert (np.diff(bounds) >= -1e-12 * bounds[-1]).all()
    assert (one["margin"] == two["margin"]).all()
    assert (one["margin"] != other["margin"]).any()
    assert {"objective", "bound", "active", "passes", "seconds"} <= set(one.history[0])


numbers = st.sampled_from([-1e12, -2.0, -1e-12, 0.0, 0.0, 1e-12, 1.0, 1.0, 3.0, 1e12])


@settings(max_examples=15)
@given(st.data())
def test_degenerate_data_keep_the_bound_below_the_value(data):
    n, m, K = (data.draw(st.integers(1, high)) for high in (8, 3, 4))
    X = np.array(data.draw(st.lists(numbers, min_size=n * m, max_size=n * m))).reshape(n, m)
    y = np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)))
    C = np.array(data.draw(st.lists(st.sampled_from([1e-12, 0.3, 1.0, 1e12]), min_size=n, max_size=n)))
    z = np.array(data.draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n)))
    form = data.draw(st.sampled_from([np.asarray, sp.csr_array]))
    found = solve_cpm_dual(form(X), y, C, K, z, tol=1e-6, max_iter=50)
    assert np.isfinite(found["W"]).all()
    assert (found["margin"] >= 0).all()
    assert (found["margin"] <= C[:, None] * cpm.assignment_matrix(y, K, z)).all()
    assert found.bound <= found.objective * (1 + 1e-9) + 1e-12
    # W = 0 pays everybody's cost, and weak duality holds against it.
    assert found.bound <= (C[:, None] * cpm.assignment_matrix(y, K, z)).sum() * (1 + 1e-9)
    if found.status is Status.SOLVED:
        assert found.objective - found.bound <= 1.0001e-6 * max(found.objective, found.bound)


@pytest.mark.parametrize(("scale", "cost"), [(1e-12, 1.0), (30.0, 1.0), (1.0, 1e-12), (1.0, 100.0)])
def test_scales_and_costs_far_from_one(scale, cost):
    X, y, C, K, z = problem_of(0, widen=0.5)
    found = solve_cpm_dual(scale * X, y, cost * C, K, z, tol=1e-4, max_iter=20000)
    assert found.status is Status.SOLVED
    value = cpm.fixed_assignment(scale * X, y, K, z, cost * C).value(
        {"W": found["W"], "xi": np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(scale * X) @ found["W"].T))}
    )
    assert found.objective == pytest.approx(value, rel=1e-9)


def test_wrong_input_is_named():
    X, y, C, K, z = problem_of(0)
    with pytest.raises(ValueError, match="assignment must be from 0 to 4 at every positive, not 0 to 7"):
        solve_cpm_dual(X, y, C, K, np.where(z == 0, 7, z))
    with pytest.raises(ValueError, match="C must be positive and finite"):
        solve_cpm_dual(X, y, -C, K, z)
    with pytest.raises(ValueError, match="scale must be positive"):
        DualProblem(X, y, C, K, scale=0.0)


# -- alternating minimisation --------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("loosened", [False, True])
def test_the_objective_never_rises_and_ends_at_a_certified_fixed_point(tol, loosened, fixed):
    X, y, C, K, _ = fixed
    problem, longest, rng = DualProblem(X, y, C, K, tol=tol), 0, np.random.default_rng(0)
    for _ in range(6):
        begin = np.where(y > 0, rng.integers(0, K, len(y)), -1)
        if loosened:
            begin = problem.loosen(begin)
        solution = run_rounds(problem, begin)
        values = [record["objective"] for record in solution.history]
        assert (np.diff(values) <= 1e-9 * values[0]).all()
        assert solution.status is Status.CONVERGED
        z = solution["assignment"]
        exact = cpm.fixed_assignment(X, y, K, z, C).solve().objective
        assert solution.bound <= exact * (1 + 1e-8)
        assert exact * (1 - 1e-8) <= solution.objective <= exact * (1 + 1.01 * tol)
        certificate = certify_cpm(
            X, y, C, W=solution["W"], alpha=solution["margin"], assignment=z, tol=2 * tol
        )
        assert certificate.relative_gap <= tol
        by_assignment = [r for r in certificate.residuals if r.row == "assignment"]
        assert by_assignment[0].relative <= tol
        longest = max(longest, len(values))
    assert longest >= (1 if loosened else 3)


def test_the_engines_agree_on_a_fixed_assignment(fixed):
    X, y, C, K, z = fixed
    dual = DualProblem(X, y, C, K, tol=1e-9).solve(z)
    program = PolytopeProblem(X, y, C, K).solve(z)
    assert dual.objective == pytest.approx(program.objective, rel=1e-8)
    assert dual["W"] == pytest.approx(program["W"], abs=1e-3)


def test_loosened_starts_end_lower(fixed):
    ends = {True: [], False: []}
    for seed in range(4):
        X, y, C, K, _ = problem_of(seed, n=150, K=4)
        problem = DualProblem(X, y, C, K)
        for number in range(5):
            start = PolytopeProblem.start(problem, np.random.default_rng(number))
            for loosened, found in ends.items():
                found.append(run_rounds(problem, problem.loosen(start) if loosened else start).objective)
    assert np.mean(ends[True]) < np.mean(ends[False])


def test_a_run_does_not_depend_on_the_one_before(fixed):
    X, y, C, K, _ = fixed
    shared = DualProblem(X, y, C, K)
    for seed in (0, 1, 0):
        begin = PolytopeProblem.start(shared, np.random.default_rng(seed))
        again = run_rounds(shared, begin)
        fresh = run_rounds(DualProblem(X, y, C, K), begin)
        assert (again["W"] == fresh["W"]).all()
        assert [r["objective"] for r in again.history] == [r["objective"] for r in fresh.history]


def test_every_run_is_kept_and_jobs_make_no_difference(fixed):
    X, y, C, K, _ = fixed
    one, two = (
        run_from_many_starts([Stage(DualProblem(X, y, C, K))], n_init=4, seed=1, n_jobs=n_jobs)
        for n_jobs in (None, 2)
    )
    assert [run.objective for run in one.runs] == [run.objective for run in two.runs]
    assert (one["W"] == two["W"]).all()
    assert one.objective == min(run.objective for run in one.runs)
    for run in one.runs:
        assert run.status is Status.CONVERGED
        assert run.duals == {}
        value = cpm.objective(X, y, run["W"], C)
        assert value * (1 - 1e-12) <= run.objective <= value * (1 + 1e-2)
        assert run["assignment"].shape == y.shape


def test_a_time_limit_within_the_alternation_keeps_a_valid_point(fixed):
    X, y, C, K, _ = fixed
    problem = DualProblem(X, y, C, K, tol=1e-12)
    solution = run_rounds(problem, PolytopeProblem.start(problem, np.random.default_rng(0)), time_limit=0.0)
    assert solution.status is Status.TIME_LIMIT
    exact = cpm.fixed_assignment(X, y, K, solution["assignment"], C).solve().objective
    assert solution.bound <= exact <= solution.objective


@pytest.mark.parametrize("n_faces", [9, 70])
def test_of_many_faces_each_is_solved(n_faces):
    """More faces than are scanned at once: each by itself is the machine of one face."""
    X, y, _ = clusters(80, 3, 0, widen=1.5)
    positives = np.cumsum(y > 0) - 1
    z = np.where(y > 0, positives % n_faces, -1)
    found = solve_cpm_dual(X, y, 1.0, n_faces, z, tol=1e-6)
    assert found.status is Status.SOLVED
    margins = y[:, None] * (cpm.lift(X) @ found["W"].T)
    held = (y < 0)[:, None] | (
        z[:, None] == np.arange(n_faces)
    )  # of this assignment, which may not be the best
    value = (found["W"] ** 2).sum() + np.maximum(0.0, 1.0 - margins)[held].sum()
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.bound <= value * (1 + 1e-9)
    chosen = np.flatnonzero(np.isin(np.arange(n_faces), z))[[0, len(set(z)) // 2, -2]]
    for k in chosen:
        own = (y < 0) | (z == k)
        single = cpm.face(X[own], y[own], 1.0).solve()
        w = found["W"][k]
        hinges = np.maximum(0.0, 1.0 - y[own] * (cpm.lift(X[own]) @ w)).sum()
        assert w @ w + hinges == pytest.approx(single.objective, rel=1e-5)


@pytest.mark.slow
def test_handwritten_digits_in_seconds():
    try:
        data = load("mnist")
    except DatasetUnavailable:
        pytest.skip("mnist is not here")
    X, y = data.X[:6000], np.where(data.y[:6000] == 2, 1.0, -1.0)
    problem = DualProblem(X, y, np.full(len(y), 0.3), 20, scale=1 / 255)
    solution = run_rounds(problem, problem.start(np.random.default_rng(0)))
    values = [record["objective"] for record in solution.history]
    assert (np.diff(values) <= 0).all()
    certificate = certify_cpm(
        X / 255.0, y, 0.3, W=solution["W"], alpha=solution["margin"], assignment=solution["assignment"]
    )
    assert certificate.relative_gap <= 1e-3
    assert certificate.primal_value == pytest.approx(solution.objective, rel=1e-9)
