"""The exact Polyceptron: its programs, the descent by linear programs, and its certificates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer

from formulations import cpm, polyceptron
from formulations.language.solution import Status
from formulations.polyhedral import criterion, margin_error, scores
from polyopt.certificates import Claim
from polyopt.datasets import make_polytope
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.polyhedral.lp_certificate import certify_pc_slp, certify_polyceptron
from polyopt.polyhedral.pc_slp import SuccessiveLP
from polyopt.polyhedral.polyceptron_exact import ExactPolyceptron

METHODS = [ExactPolyceptron, SuccessiveLP]


def ring(n=60, seed=0, noise=0.25):
    """Positives within a square, negatives around it, some on the wrong side: X (n, 2), y, costs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * 1.2
    y = np.where(np.abs(X).max(axis=1) < 1, 1.0, -1.0)
    return X + noise * rng.normal(size=X.shape), y, rng.uniform(0.5, 2.0, n)


def hard_data(seed):
    """Ties, duplicates, a class of one sample, features of zeros, or all of them: X, y, costs."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(24, 3)).astype(float)
    y = np.where(np.abs(X).max(axis=1) < 2, 1.0, -1.0)
    if seed % 2:
        X = np.vstack([X, X[:8]])
        y = np.concatenate([y, -y[:8]])
    if seed % 3 == 1:
        y = np.where(np.arange(len(y)) == seed % len(y), 1.0, -1.0) * (1 if seed % 4 else -1)
    if seed % 5 == 2:
        X[:, seed % 3] = 0.0
    if seed % 7 == 3:
        X[:] = 0.0
    if len(np.unique(y)) == 1:
        y[0] = -y[0]
    return X, y, rng.uniform(0.5, 2.0, len(y)) if seed % 11 else np.ones(len(y))


@pytest.fixture(params=[0, 1, 2])
def fixed(request):
    """Overlapping data with an assignment: X, y, K, assignment, costs."""
    X, y, c = ring(seed=request.param)
    return X, y, 3, np.arange(len(y)) % 3, c


# -- programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [1e4, 0.4, np.inf])
@pytest.mark.parametrize("solver", ["HIGHS", "CLARABEL"])
def test_primal_equals_dual_within_any_box(solver, radius, fixed):
    X, y, K, z, C = fixed
    primal = polyceptron.fixed_assignment(X, y, K, z, C, radius=radius)
    dual = polyceptron.fixed_assignment_dual(X, y, K, z, C, radius=radius)
    p, d = primal.solve(solver), dual.solve(solver)
    assert p.objective > 1.0
    assert p.objective == pytest.approx(d.objective, rel=1e-8)
    W = d.duals["balance"]
    point = {"W": W, "xi": np.maximum(0.0, 1.0 - y[:, None] * scores(X, W))}
    assert primal.value(point) == pytest.approx(p.objective, rel=1e-7)
    assert max(primal.violations(point).values()) < 1e-7


def test_the_whole_is_the_sum_of_its_cells(fixed):
    X, y, K, z, C = fixed
    Z = polyceptron.assignment_matrix(y, K, z)
    assert Z.sum(axis=1).tolist() == np.where(y > 0, K, 1).tolist()
    program = polyceptron.cell(X, y, C)
    cells = [program.set(C=C * Z[:, k]).solve().objective for k in range(K)]
    assert polyceptron.fixed_assignment(X, y, K, z, C).solve().objective == pytest.approx(sum(cells))


@pytest.mark.parametrize("solver", ["HIGHS", "CLARABEL"])
def test_without_a_margin_the_program_is_vacuous(solver, fixed):
    X, y, _, _, C = fixed
    empty = polyceptron.cell(X, y, C, margin=0.0)
    assert empty.solve(solver).objective == pytest.approx(0.0, abs=1e-8)
    assert polyceptron.cell_dual(X, y, C, margin=0.0).solve(solver).objective == pytest.approx(0.0, abs=1e-8)
    assert max(empty.violations({"w": np.zeros(3), "xi": np.zeros(len(y))}).values()) == 0.0
    # So is the criterion that it is a part of: no face is as good as the best ones.
    assert criterion(X, y, np.zeros((3, 3)), C) == 0.0
    assert polyceptron.cell(X, y, C, margin=1.0).solve(solver).objective > 1.0


def test_it_is_the_polytope_machine_without_its_norm(fixed, rng):
    X, y, K, _, C = fixed
    for _ in range(5):
        W = rng.normal(size=(K, 3))
        machine = cpm.objective(X, -y, -W, C, "sum")
        assert margin_error(X, y, W, C) == pytest.approx(machine - np.sum(W**2), rel=1e-12)


def test_it_bounds_the_margin_error_and_touches_it(fixed, rng):
    X, y, K, _, C = fixed
    for _ in range(10):
        W, other = rng.normal(size=(2, K, 3))
        z = scores(X, W).argmin(axis=1)
        program = polyceptron.fixed_assignment(X, y, K, z, C)

        def value(faces, program=program):
            return program.value({"W": faces, "xi": np.maximum(0.0, 1.0 - y[:, None] * scores(X, faces))})

        assert value(W) == pytest.approx(margin_error(X, y, W, C), rel=1e-12)
        assert value(other) >= margin_error(X, y, other, C) - 1e-12


def test_the_box_s_multipliers_are_what_a_wider_box_saves(fixed):
    X, y, _, _, C = fixed
    R, h = 0.4, 1e-5
    values = [polyceptron.cell(X, y, C, radius=r).solve().objective for r in (R - h, R + h)]
    found = polyceptron.cell(X, y, C, radius=R).solve()
    saved = (found.duals["upper"] + found.duals["lower"]).sum()
    assert saved > 0.1
    assert (values[0] - values[1]) / (2 * h) == pytest.approx(saved, rel=1e-4)


def test_a_weight_is_a_repetition(fixed):
    X, y, K, z, _ = fixed
    times = np.arange(len(y)) % 3 + 1
    twice = [np.repeat(part, times, axis=0) for part in (X, y, z)]
    weighted = polyceptron.fixed_assignment(X, y, K, z, times).solve().objective
    assert weighted == pytest.approx(
        polyceptron.fixed_assignment(twice[0], twice[1], K, twice[2]).solve().objective
    )


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"from 0 to 1 at every negative, not 0 to 2"):
        polyceptron.assignment_matrix([-1, 1, -1], 2, [0, -1, 2])
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        polyceptron.assignment_matrix([-1, 1, -1], 2, [0, 1])
    with pytest.raises(ValueError, match="n_faces must be an integer of at least 1, not 0"):
        polyceptron.assignment_matrix([-1, 1], 0, [0, 0])
    for make in (polyceptron.cell, polyceptron.cell_dual):
        with pytest.raises(ValueError, match="radius must be positive, not -1"):
            make([[1.0], [2.0]], [1, -1], radius=-1)


# -- descent, of both methods ----------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_no_step_raises_the_objective(method):
    falls = 0
    for seed in range(12):
        X, y, c = hard_data(seed)
        problem = method(X, y, c, 1 + seed % 4, radius=(1e4, np.inf, 2.0)[seed % 3])
        W = problem.start(np.random.default_rng(seed))
        for _ in range(6):
            before, found = problem.value(W), problem.step(W, None)
            assert found.status is Status.SOLVED
            assert found.objective == problem.value(found["W"]) <= before
            assert np.abs(found["W"]).max() <= problem.radius
            assert (found["W"] is W) == (found.objective == before)  # faces change for a strict gain
            falls += found.objective < before
            W = found["W"]
    assert falls > 12


def proven(problem, end):
    """The certificate of where a descent ended, by its own multipliers."""
    data = problem.X, problem.y, end["W"]
    if isinstance(problem, ExactPolyceptron):
        return certify_polyceptron(*data, C=problem.c, u=end.duals["margin"], radius=problem.radius)
    u, q = end.duals["inside"], end.duals["outside"]
    return certify_pc_slp(*data, C=problem.c, u=u, q=q, radius=problem.radius)


@pytest.mark.parametrize("method", METHODS)
def test_where_it_settles_is_stationary_or_optimal(method):
    claims = []
    for seed in range(12):
        X, y, c = hard_data(seed)
        problem = method(X, y, c, 1 + seed % 4)
        found = run_rounds(problem, problem.start(np.random.default_rng(seed)))
        proof = proven(problem, found)
        assert proof.primal_value == pytest.approx(found.objective, rel=1e-12)
        one = problem.n_faces == 1 or found.objective == 0.0
        assert proof.claim is (Claim.OPTIMAL if one else Claim.STATIONARY), (seed, proof.worst)
        claims.append(proof.claim)
    assert len(set(claims)) == 2


@pytest.mark.parametrize("method", METHODS)
def test_features_of_thousands_are_proven_as_well(method):
    found = load_breast_cancer()
    flipped = np.random.default_rng(0).random(len(found.target)) < 0.1
    y = np.where((found.target == 1) != flipped, 1.0, -1.0)
    assert found.data.max() > 4000
    for K, seed in ((1, 0), (3, 0), (3, 1)):
        problem = method(found.data, y, np.ones(len(y)), K)
        proof = proven(problem, run_rounds(problem, problem.start(np.random.default_rng(seed))))
        assert proof.claim is (Claim.OPTIMAL if K == 1 else Claim.STATIONARY)
        assert proof.relative_gap < 3e-7


@pytest.mark.parametrize("method", METHODS)
def test_units_of_the_features_make_no_difference_without_a_box(method):
    X, y, c = ring(seed=5)
    units = np.array([1e5, 1e-5])
    ends = []
    for data in (X, X * units):
        problem = method(data, y, c, 2, radius=np.inf)
        ends.append(problem.step(problem.start(np.random.default_rng(1)), None))
    assert ends[1].objective == pytest.approx(ends[0].objective, rel=1e-7)
    assert ends[1]["W"][:, :-1] * units == pytest.approx(ends[0]["W"][:, :-1], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_both_engines_find_the_same_value(method):
    for seed in range(5):
        X, y, c = ring(seed=seed)
        values = []
        for engine in ("highs", "exact"):
            problem = method(X, y, c, 3, engine=engine)
            W = problem.start(np.random.default_rng(seed))
            assignment = problem._assign(W)
            status, faces, duals, _ = problem._solve(W, assignment, _Unhurried())
            assert status is Status.SOLVED
            members = np.where(y > 0, -1, assignment)
            hinge = np.maximum(0.0, 1.0 - y[:, None] * scores(X, faces))
            own = np.where((y > 0)[:, None], True, members[:, None] == np.arange(3)) * hinge
            if method is ExactPolyceptron:
                values.append(c @ own.sum(axis=1))
            else:
                values.append(problem._class_weights @ own.max(axis=1))
            assert sum(v.sum() for v in duals.values()) == pytest.approx(values[-1], rel=1e-7)
        assert values[0] == pytest.approx(values[1], rel=1e-7)


class _Unhurried:
    left = None


@pytest.mark.parametrize("method", METHODS)
def test_a_run_depends_on_its_start_alone(method):
    X, y, c = ring(n=80, seed=3)
    problem = method(X, y, c, 4)
    alone = run_from_many_starts([Stage(problem, 30)], n_init=4, seed=5)
    again = run_from_many_starts([Stage(problem, 30)], n_init=4, seed=5)
    together = run_from_many_starts([Stage(method(X, y, c, 4), 30)], n_init=4, seed=5, n_jobs=2)
    for one, two, three in zip(alone.runs, again.runs, together.runs, strict=True):
        assert one["W"].tolist() == two["W"].tolist() == three["W"].tolist()


@pytest.mark.parametrize("method", METHODS)
def test_sparse_data_and_pickled_problems_make_the_same_steps(method):
    X, y, c = ring(seed=1)
    X[np.abs(X) < 0.3] = 0.0
    dense, sparse = method(X, y, c, 3), pickle.loads(pickle.dumps(method(sp.csr_array(X), y, c, 3)))
    ends = [run_rounds(problem, problem.start(np.random.default_rng(0))) for problem in (dense, sparse)]
    assert ends[0].objective == pytest.approx(ends[1].objective, rel=1e-9)
    assert ends[0]["W"] == pytest.approx(ends[1]["W"], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_an_unused_face_is_taken_up(method):
    X, y = np.array([[-2.0], [-1.9], [0.0], [0.1], [2.0], [2.1]]), np.array([-1.0, -1, 1, 1, -1, -1])
    W = np.array([[1.0, 1.0], [1.0, 1.0]])  # two faces as one, beyond which no negative on the right is
    problem = method(X, y, np.ones(6), 2)
    assert problem.record(W) == {"occupied": 1.0}
    end = run_rounds(problem, W)
    assert end.objective == 0.0
    assert [h["occupied"] for h in end.history][-1] == 2.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("engine", ["highs", "exact"])
def test_separable_data_end_at_zero_exactly(method, engine):
    X, y = np.array([[-2.0, 0.3], [0.0, 0.1], [0.1, 0.7], [2.0, 0.9]]), np.array([-1.0, 1, 1, -1])
    problem = method(X, y, np.ones(4), 2, engine=engine)
    end = run_rounds(problem, np.array([[1.0, 0.0, 0.3], [-1.0, 0.0, 0.3]]))
    assert end.objective == 0.0
    assert end.status is Status.CONVERGED


@pytest.mark.parametrize("method", METHODS)
def test_a_time_limit_keeps_a_point_that_is_no_worse(method):
    X, y, c = ring(n=400, seed=2)
    problem = method(X, y, c, 4)
    W = problem.start(np.random.default_rng(0))
    end = run_rounds(problem, W, time_limit=1e-9)
    assert end.status is Status.TIME_LIMIT
    assert problem.value(end["W"]) == end.objective <= problem.value(W)


@pytest.mark.parametrize("method", METHODS)
def test_a_limit_does_not_cost_the_multipliers(method):
    X, y, c = ring(n=100, seed=2)
    problem = method(X, y, c, 3)
    end = run_rounds(problem, problem.start(np.random.default_rng(0)))
    W, solved, solve = end["W"], problem._last, problem._solve

    def cut(*arguments):
        _, faces, duals, iterations = solve(*arguments)
        return Status.TIME_LIMIT, 0 * faces, {k: 0 * v for k, v in duals.items()}, iterations

    problem._solve = cut
    stopped = problem.step(W, 1.0)
    assert stopped.status is Status.TIME_LIMIT
    assert stopped["W"] is W is solved["W"]
    assert stopped.duals is solved.duals
    assert proven(problem, stopped).claim is Claim.STATIONARY


@pytest.mark.parametrize("method", METHODS)
def test_wrong_settings_are_refused(method):
    X, y, c = ring()
    with pytest.raises(ValueError, match="engine must be 'highs' or 'exact', not 'cbc'"):
        method(X, y, c, 3, engine="cbc")
    with pytest.raises(ValueError, match="radius must be positive, not 0"):
        method(X, y, c, 3, radius=0)


# -- certificates ----------------------------------------------------------------------------


@pytest.fixture
def settled():
    """Data with costs, and faces that are stationary with their multipliers."""
    X, y, c = ring(n=80, seed=4)
    problem = ExactPolyceptron(X, y, c, 3)
    end = run_rounds(problem, problem.start(np.random.default_rng(0)))
    return X, y, c, end["W"], end.duals["margin"]


def test_multipliers_of_either_solver_prove_the_same(settled):
    X, y, c, W, u = settled
    z = scores(X, W).argmin(axis=1)
    bounds = []
    for solver in ("HIGHS", "CLARABEL"):
        primal = polyceptron.fixed_assignment(X, y, 3, z, c).solve(solver)
        dual = polyceptron.fixed_assignment_dual(X, y, 3, z, c).solve(solver)
        for multipliers in (primal.duals["margin"], dual["u"]):
            proof = certify_polyceptron(X, y, W, C=c, u=multipliers)
            assert proof.claim is Claim.STATIONARY, proof.worst
            bounds.append(proof.dual_value)
    assert bounds == pytest.approx([certify_polyceptron(X, y, W, C=c, u=u).dual_value] * 4, rel=1e-7)
    unaided = certify_polyceptron(X, y, W, C=c)
    assert unaided.claim is Claim.STATIONARY
    assert "Another assignment may have a lower optimum." in unaided.sentence


def test_a_bound_is_a_bound_whatever_the_multipliers(settled, rng):
    X, y, c, W, u = settled
    z = scores(X, W).argmin(axis=1)
    for radius in (0.5, 1e4):
        least = polyceptron.fixed_assignment(X, y, 3, z, c, radius=radius).solve().objective
        for size in (1e-9, 1e-4, 1.0):
            wrong = u + size * rng.normal(size=u.shape)
            faces = np.clip(W, -radius, radius)
            proof = certify_polyceptron(X, y, faces, C=c, u=wrong, assignment=z, radius=radius)
            assert 0.0 <= proof.dual_value <= least * (1 + 1e-9)


def test_moved_faces_and_moved_multipliers_fail(settled):
    X, y, c, W, u = settled
    for k in range(3):
        moved = W.copy()
        moved[k, 0] += 1e-3
        proof = certify_polyceptron(X, y, moved, C=c, u=u)
        assert proof.claim is Claim.SUBOPTIMAL_BY
        assert proof.eps > 1e-6
        i = int(np.flatnonzero((u[:, k] > 1e-3) & (u[:, k] < c - 1e-3))[0])
        for change, condition in ((-0.05, "stationarity"), (-2.0 * c[i], "sign"), (2.0 * c[i], "sign")):
            wrong = u.copy()
            wrong[i, k] += change * (c[i] if condition == "stationarity" else 1.0)
            proof = certify_polyceptron(X, y, W, C=c, u=wrong, assignment=scores(X, W).argmin(axis=1))
            assert proof.claim is Claim.SUBOPTIMAL_BY
            failed = {r.condition for r in proof.residuals if r.relative > 1e-6}
            assert condition in failed


def test_a_negative_at_the_wrong_face_fails(settled):
    X, y, c, W, u = settled
    s = scores(X, W)
    z = s.argmin(axis=1)
    paying = np.flatnonzero((y < 0) & (s.min(axis=1) < -1.0))
    i = paying[np.argmax(s[paying].max(axis=1))]
    z[i] = s[i].argmax()
    proof = certify_polyceptron(X, y, W, C=c, u=u, assignment=z)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    gain = next(r for r in proof.residuals if r.row == "assignment")
    assert gain.worst == i
    assert gain.value == pytest.approx(1.0 + s[i].max())


def test_zero_is_optimal_and_one_face_may_be():
    X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1.0, 1.0, -1.0])
    zero = certify_polyceptron(X, y, [[2.0, 2.0], [-2.0, 2.0]])
    assert zero.claim is Claim.OPTIMAL
    assert "bounds every assignment" in zero.note
    X, y, c = ring(seed=6)
    found = polyceptron.cell(X, y, c).solve()
    proof = certify_polyceptron(X, y, found["w"][None], C=c, u=found.duals["margin"][:, None])
    assert proof.claim is Claim.OPTIMAL
    assert proof.gap < 1e-8 * proof.primal_value
    assert certify_polyceptron(X, y, 1.01 * found["w"][None], C=c).claim is Claim.SUBOPTIMAL_BY


def test_the_box_is_a_row_like_any_other():
    X, y, c = ring(seed=6)
    found = polyceptron.cell(X, y, c, radius=0.3).solve()
    w, u = found["w"][None], found.duals["margin"][:, None]
    held = certify_polyceptron(X, y, w, C=c, u=u, radius=0.3)
    assert held.claim is Claim.OPTIMAL
    assert "The box holds a face: raise radius or scale the features." in held.note
    # In a wider box the same faces and multipliers are not optimal, beyond a narrower one not feasible.
    wider = certify_polyceptron(X, y, w, C=c, u=u, radius=1.0)
    assert wider.claim is Claim.SUBOPTIMAL_BY
    assert wider.worst.row in ("balance", "box")
    broken = certify_polyceptron(X, y, w, C=c, u=u, radius=0.2)
    assert broken.claim is Claim.NONE
    assert broken.worst is not None
    assert next(r for r in broken.residuals if r.condition == "primal").value == pytest.approx(0.1)
    free = polyceptron.cell(X, y, c, radius=np.inf).solve()
    proof = certify_polyceptron(X, y, free["w"][None], C=c, u=free.duals["margin"][:, None], radius=np.inf)
    assert proof.claim is Claim.OPTIMAL
    assert "entries of up to" in proof.note


def test_a_certificate_names_what_does_not_fit(settled):
    X, y, c, W, u = settled
    with pytest.raises(ValueError, match="W must be finite, of shape K x 3"):
        certify_polyceptron(X, y, W[:, :2], C=c)
    with pytest.raises(ValueError, match=r"u must have shape \(80, 3\), not \(80, 2\)"):
        certify_polyceptron(X, y, W, C=c, u=u[:, :2])
    with pytest.raises(ValueError, match="from 0 to 2 at every negative"):
        certify_polyceptron(X, y, W, C=c, assignment=np.full(len(y), 3))
    with pytest.raises(ValueError, match="radius must be positive"):
        certify_polyceptron(X, y, W, C=c, radius=0.0)


def test_large_data_are_not_solved_for_a_bound(monkeypatch):
    X, y, _, _ = make_polytope(60, 2, 3, margin=0.1, noise=0.1, random_state=0)
    W = np.random.default_rng(0).normal(size=(2, 3))
    small = certify_polyceptron(X, y, W)
    assert 0 < small.dual_value < small.primal_value
    monkeypatch.setattr("polyopt.polyhedral.lp_certificate.MAX_PROGRAM_ENTRIES", 100)
    large = certify_polyceptron(X, y, W)
    assert large.primal_value == small.primal_value
    assert (large.claim, large.dual_value) == (Claim.SUBOPTIMAL_BY, 0.0)
    assert "too large" in large.note
