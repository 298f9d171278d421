"""The dual coordinate solver of the polytope machine, and alternating minimisation by it."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cpm import clusters
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from formulations import cpm
from formulations.language.solution import Status
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.dual import DualProblem, Options, create_ascent, solve_cpm_dual
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds


def problem_of(seed, n=60, K=3, widen=1.5):
    """Overlapping data, an assignment that leaves the last two of K + 2 faces empty, costs per sample."""
    X, y, directions = clusters(n, K, seed, widen=widen)
    C = np.random.default_rng(seed).uniform(0.3, 2.0, n)
    return X, y, C, K + 2, np.where(y > 0, (X @ directions.T).argmax(axis=1), -1)


@pytest.fixture(params=[0, 1])
def fixed(request):
    return problem_of(request.param)


@pytest.fixture(scope="module")
def pixels():
    """Bytes, most of them zero: X (200, 30), y, C, K, assignment, X in doubles times 1/255, the optimum."""
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 200, (5, 30)) * (rng.random((5, 30)) < 0.4)
    kind = rng.integers(0, 5, 200)
    X = np.where(centres[kind] > 0, np.clip(centres[kind] + rng.normal(0, 60, (200, 30)), 0, 255), 0)
    X, y, C = X.astype(np.uint8), np.where(kind < 2, 1.0, -1.0), np.full(200, 0.5)
    z = np.where(y > 0, kind, -1)
    return X, y, C, 4, z, X / 255.0, cpm.fixed_assignment(X / 255.0, y, 4, z, C).solve().objective


# -- the fixed-assignment program ----------------------------------------------------------


def test_ascent_solves_the_fixed_assignment(fixed):
    """Faces and value are those of the explicit program, and of each face's program by itself."""
    X, y, C, K, z = fixed
    exact = cpm.fixed_assignment(X, y, K, z, C).solve()
    found = solve_cpm_dual(X, y, C, K, z, tol=1e-9)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(exact.objective, rel=1e-7)
    assert found["W"] == pytest.approx(exact["W"], abs=1e-3)
    for k, costs in enumerate((C[:, None] * cpm.assignment_matrix(y, K, z)).T):
        assert found["W"][k] == pytest.approx(cpm.face(X, y, costs).solve()["w"], abs=1e-3)


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-10])
def test_strong_duality_holds(tol, fixed):
    """The multipliers are feasible, the faces are theirs, and the gap is within the tolerance."""
    X, y, C, K, z = fixed
    found = solve_cpm_dual(X, y, C, K, z, tol=tol)
    assert found["W"] == pytest.approx(cpm.recover(X, y, found["margin"])["W"], abs=1e-12)
    dual = cpm.fixed_assignment_dual(X, y, K, z, C)
    assert max(dual.violations({"alpha": found["margin"]}).values()) <= 1e-15
    assert found.bound == pytest.approx(dual.value({"alpha": found["margin"]}), rel=1e-12)
    hinges = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ found["W"].T)) * cpm.assignment_matrix(y, K, z)
    assert found.objective == pytest.approx((found["W"] ** 2).sum() + C @ hinges.sum(axis=1), rel=1e-12)
    assert 0.0 <= found.objective - found.bound <= tol * found.objective


def test_one_face_is_linear_svm(fixed):
    """One face is libsvm's linear SVM on lifted samples, at half the cost."""
    X, y, C, _, _ = fixed
    found = solve_cpm_dual(X, y, C, 1, np.zeros(len(y), dtype=int), tol=1e-9)
    svm = LinearSVC(loss="hinge", C=1.0, fit_intercept=False, tol=1e-10, max_iter=10**6)
    svm.fit(cpm.lift(X), y, sample_weight=C / 2)
    assert found["W"][0] == pytest.approx(svm.coef_[0], abs=1e-4)


FORMS = {
    "bytes": lambda doubles: (np.uint8(np.round(255.0 * doubles)), 1 / 255),
    "doubles": lambda doubles: (doubles, 1.0),
    "singles": lambda doubles: (doubles.astype(np.float32), 1.0),
    "sparse": lambda doubles: (sp.csr_array(doubles), 1.0),
    "by columns": lambda doubles: (np.asfortranarray(doubles), 1.0),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_form_of_samples_does_not_matter(form, pixels):
    """Each type of numbers has its own loops, and all have the optimum."""
    _, y, C, K, z, doubles, exact = pixels
    X, scale = form(doubles)
    found = solve_cpm_dual(X, y, C, K, z, scale=scale, tol=1e-7)
    assert found.bound <= exact * (1 + 1e-6)
    assert found.objective == pytest.approx(exact, rel=1e-6)


def test_single_precision_is_verified_in_double(pixels):
    """Steps in single precision end with faces, bound and gap in double, and are left out for huge scores."""
    X, y, C, K, z, doubles, exact = pixels
    small = Options(single_min_entries=0)
    found = solve_cpm_dual(X, y, C, K, z, scale=1 / 255, tol=2e-5, options=small)
    assert found.status is Status.SOLVED
    assert found.objective - found.bound <= 2e-5 * found.objective
    assert found.bound <= exact * (1 + 1e-9)
    assert found["W"] == pytest.approx(cpm.recover(doubles, y, found["margin"])["W"], abs=1e-12)
    # Scores of 1e7 and more cancel in single precision: it is not used.
    assert not create_ascent(doubles * 1e7, y, C, K, z, options=small).single
    assert create_ascent(doubles, y, C, K, z, options=small).single


def test_bound_rises_and_seed_determines_run(fixed):
    """The bound rises from record to record, and the seed determines the multipliers."""
    X, y, C, K, z = fixed
    one, two, other = (solve_cpm_dual(X, y, C, K, z, tol=1e-9, seed=seed) for seed in (3, 3, 4))
    bounds = [record["bound"] for record in one.history]
    assert (np.diff(bounds) >= -1e-12 * bounds[-1]).all()
    assert (one["margin"] == two["margin"]).all()
    assert (one["margin"] != other["margin"]).any()
    assert {"objective", "bound", "active", "passes", "seconds"} <= set(one.history[0])


numbers = st.sampled_from([-1e12, -2.0, -1e-12, 0.0, 0.0, 1e-12, 1.0, 1.0, 3.0, 1e12])


@given(st.data())
def test_degenerate_data_keep_a_bound(data):
    """Equal samples and numbers from 1e-12 to 1e12 leave feasible multipliers and a bound below the value."""
    n, m, K = (data.draw(st.integers(1, high)) for high in (8, 3, 4))
    X = np.array(data.draw(st.lists(numbers, min_size=n * m, max_size=n * m))).reshape(n, m)
    y = np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)))
    C = np.array(data.draw(st.lists(st.sampled_from([1e-12, 0.3, 1.0, 1e12]), min_size=n, max_size=n)))
    z = np.array(data.draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n)))
    form = data.draw(st.sampled_from([np.asarray, sp.csr_array]))
    found = solve_cpm_dual(form(X), y, C, K, z, tol=1e-6, max_iter=50)
    caps = C[:, None] * cpm.assignment_matrix(y, K, z)
    assert np.isfinite(found["W"]).all()
    assert (found["margin"] >= 0).all()
    assert (found["margin"] <= caps).all()
    assert found.bound <= min(found.objective, caps.sum()) * (1 + 1e-9) + 1e-12  # caps.sum(): W = 0
    if found.status is Status.SOLVED:
        assert found.objective - found.bound <= 1.0001e-6 * max(found.objective, found.bound)


@pytest.mark.parametrize(("scale", "cost"), [(1e-12, 1.0), (30.0, 1.0), (1.0, 1e-12), (1.0, 100.0)])
def test_scales_far_from_one_are_solved(scale, cost):
    """Samples and costs far from 1 are solved to their tolerance."""
    X, y, C, K, z = problem_of(0, widen=0.5)
    found = solve_cpm_dual(scale * X, y, cost * C, K, z, tol=1e-4, max_iter=20000)
    assert found.status is Status.SOLVED
    xi = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(scale * X) @ found["W"].T))
    program = cpm.fixed_assignment(scale * X, y, K, z, cost * C)
    assert found.objective == pytest.approx(program.value({"W": found["W"], "xi": xi}), rel=1e-9)


@pytest.mark.parametrize("n_faces", [9, 70])
def test_each_of_many_faces_is_solved(n_faces):
    """Of more faces than are scanned at once, each is the machine of one face."""
    X, y, _ = clusters(80, 3, 0, widen=1.5)
    z = np.where(y > 0, (np.cumsum(y > 0) - 1) % n_faces, -1)
    found = solve_cpm_dual(X, y, 1.0, n_faces, z, tol=1e-6)
    assert found.status is Status.SOLVED
    hinges = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ found["W"].T))
    own = (y < 0)[:, None] | (z[:, None] == np.arange(n_faces))
    value = (found["W"] ** 2).sum() + hinges[own].sum()
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.bound <= value * (1 + 1e-9)
    used = np.unique(z[z >= 0])
    for k in (used[0], used[len(used) // 2], used[-1]):
        single = cpm.face(X[own[:, k]], y[own[:, k]], 1.0).solve()
        w = found["W"][k]
        assert w @ w + hinges[own[:, k], k].sum() == pytest.approx(single.objective, rel=1e-5)


def test_unusable_input_is_named():
    """Faces out of range, negative costs and a zero scale are refused."""
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
def test_alternation_falls_to_certified_fixed_point(tol, loosened, fixed):
    """The objective never rises, and ends at the certified optimum of its own assignment."""
    X, y, C, K, _ = fixed
    problem, longest, rng = DualProblem(X, y, C, K, tol=tol), 0, np.random.default_rng(0)
    for _ in range(3):
        begin = np.where(y > 0, rng.integers(0, K, len(y)), -1)
        solution = run_rounds(problem, problem.loosen(begin) if loosened else begin)
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


def test_loosened_starts_end_lower():
    """On average, starts with a loosened assignment end at a lower objective."""
    ends = {True: [], False: []}
    for seed in range(3):
        X, y, C, K, _ = problem_of(seed, n=150, K=4)
        problem = DualProblem(X, y, C, K)
        for number in range(4):
            start = PolytopeProblem.start(problem, np.random.default_rng(number))
            for loosened, found in ends.items():
                found.append(run_rounds(problem, problem.loosen(start) if loosened else start).objective)
    assert np.mean(ends[True]) < np.mean(ends[False])


def test_run_does_not_depend_on_the_last(fixed):
    """A problem that has been run before gives the bits of a fresh one."""
    X, y, C, K, _ = fixed
    shared = DualProblem(X, y, C, K)
    for seed in (0, 1, 0):
        begin = PolytopeProblem.start(shared, np.random.default_rng(seed))
        again, fresh = run_rounds(shared, begin), run_rounds(DualProblem(X, y, C, K), begin)
        assert (again["W"] == fresh["W"]).all()
        assert [r["objective"] for r in again.history] == [r["objective"] for r in fresh.history]


def test_every_run_is_kept():
    """The runs of all starts are kept with their own objectives, and the best is the solution."""
    X, y, C, K, _ = problem_of(0)
    one = run_from_many_starts([Stage(DualProblem(X, y, C, K))], n_init=4, seed=1)
    assert len(one.runs) == 4
    assert one.objective == min(run.objective for run in one.runs)
    for run in one.runs:
        assert run.status is Status.CONVERGED
        assert run.duals == {}
        value = cpm.objective(X, y, run["W"], C)
        assert value * (1 - 1e-12) <= run.objective <= value * (1 + 1e-2)
        assert run["assignment"].shape == y.shape
