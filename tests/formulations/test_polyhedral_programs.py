"""Polyceptron and PC-SLP: the programs of fixed assignments, descent by linear programs, certificates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer

from formulations import pc_slp, polyceptron
from formulations.language.solution import Status
from formulations.polyhedral import class_shares, criterion, margin_error, scores, separation_error
from polyopt.certificates import Claim
from polyopt.datasets import make_polyceptron1, make_polytope
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.polyhedral.lp_certificate import certify_pc_slp, certify_polyceptron
from polyopt.polyhedral.pc_slp import SuccessiveLP
from polyopt.polyhedral.polyceptron_exact import ExactPolyceptron


def ring(n=60, seed=0):
    """Positives within a square, negatives around it, some on the wrong side: X (n, 2), y, costs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * 1.2
    y = np.where(np.abs(X).max(axis=1) < 1, 1.0, -1.0)
    return X + 0.25 * rng.normal(size=X.shape), y, rng.uniform(0.5, 2.0, n)


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


@dataclass(frozen=True)
class Method:
    """The program of a fixed assignment and its dual, the error they bound, its descent, its certificate."""

    name: str
    program: Any
    dual: Any
    error: Any
    descent: Any
    certify: Any

    def point(self, X, y, W, z):
        """The variables of the program at the faces W, with the least slack for the assignment z."""
        s = scores(X, W)
        if self.name == "polyceptron":
            return {"W": W, "xi": np.maximum(0.0, 1.0 - y[:, None] * s)}
        own = np.take_along_axis(s, z[:, None], axis=1)[:, 0]
        xi = np.maximum(0.0, 1.0 - s[y > 0].min(axis=1))
        return {"W": W, "xi": xi, "zeta": np.maximum(0.0, 1.0 + own[y < 0])}

    def multipliers(self, y, found):
        """Multipliers at the samples, as the certificate takes them, of a solution of program or dual."""
        known = {**found.duals, **found.primal}
        u = known.get("u", known.get("inside", known.get("margin")))
        if self.name == "polyceptron":
            return {"u": u}
        q = known.get("q", known.get("outside"))
        if len(u) == len(y):
            return {"u": u, "q": q}
        at_samples = {"u": np.zeros((len(y), u.shape[1])), "q": np.zeros(len(y))}
        at_samples["u"][y > 0], at_samples["q"][y < 0] = u, q
        return at_samples

    def __str__(self):
        return self.name


POLYCEPTRON = Method(
    "polyceptron", polyceptron.fixed_assignment, polyceptron.fixed_assignment_dual, margin_error,
    ExactPolyceptron, certify_polyceptron,
)  # fmt: skip
PC_SLP = Method("pc_slp", pc_slp.step, pc_slp.step_dual, separation_error, SuccessiveLP, certify_pc_slp)
by_method = pytest.mark.parametrize("method", [POLYCEPTRON, PC_SLP], ids=str)
by_solver = pytest.mark.parametrize("solver", ["HIGHS", "CLARABEL"])


# -- programs ---------------------------------------------------------------------------------------


@by_method
@by_solver
@pytest.mark.parametrize("radius", [1e4, 0.4, np.inf])
def test_primal_equals_dual_within_any_box(method, solver, radius):
    """The multipliers of the dual's balance are faces within the box that attain the optimum."""
    X, y, C = ring()
    z = np.arange(len(y)) % 3
    primal, dual = (make(X, y, 3, z, C, radius=radius) for make in (method.program, method.dual))
    p, d = primal.solve(solver), dual.solve(solver)
    assert p.objective > 0.5
    assert p.objective == pytest.approx(d.objective, rel=1e-8)
    point = method.point(X, y, d.duals["balance"], z)
    assert primal.value(point) == pytest.approx(p.objective, rel=1e-7)
    assert max(primal.violations(point).values()) < 1e-7


@by_method
def test_program_bounds_the_error(method, rng):
    """The program of an assignment is above the error at any faces, and touches it at its own."""
    X, y, C = ring(seed=1)
    for _ in range(10):
        W, other = rng.normal(size=(2, 3, 3))
        z = scores(X, W).argmin(axis=1)
        program = method.program(X, y, 3, z, C)
        assert program.value(method.point(X, y, W, z)) == pytest.approx(method.error(X, y, W, C), rel=1e-12)
        assert program.value(method.point(X, y, other, z)) >= method.error(X, y, other, C) - 1e-12


def test_whole_is_the_sum_of_its_cells():
    """A positive is in the program of every face, a negative in that of its own."""
    X, y, C = ring(seed=2)
    z = np.arange(len(y)) % 3
    Z = polyceptron.assignment_matrix(y, 3, z)
    assert Z.sum(axis=1).tolist() == np.where(y > 0, 3, 1).tolist()
    program = polyceptron.cell(X, y, C)
    cells = [program.set(C=C * Z[:, k]).solve().objective for k in range(3)]
    assert polyceptron.fixed_assignment(X, y, 3, z, C).solve().objective == pytest.approx(sum(cells))


@by_solver
def test_program_without_margin_is_vacuous(solver):
    """With the margin 0, w = 0 costs nothing; so does W = 0 by the criterion."""
    X, y, C = ring()
    empty, dual = (make(X, y, C, margin=0.0) for make in (polyceptron.cell, polyceptron.cell_dual))
    assert empty.solve(solver).objective == pytest.approx(0.0, abs=1e-8)
    assert dual.solve(solver).objective == pytest.approx(0.0, abs=1e-8)
    assert max(empty.violations({"w": np.zeros(3), "xi": np.zeros(len(y))}).values()) == 0.0
    assert criterion(X, y, np.zeros((3, 3)), C) == 0.0


def test_multipliers_of_box_are_its_price():
    """A wider box lowers the optimum at the rate of its multipliers."""
    X, y, C = ring()
    R, h = 0.4, 1e-5
    values = [polyceptron.cell(X, y, C, radius=r).solve().objective for r in (R - h, R + h)]
    found = polyceptron.cell(X, y, C, radius=R).solve()
    saved = (found.duals["upper"] + found.duals["lower"]).sum()
    assert saved > 0.1
    assert (values[0] - values[1]) / (2 * h) == pytest.approx(saved, rel=1e-4)


def test_error_is_zero_if_faces_separate():
    """True faces scaled to the margin have no error; before, they have."""
    X, labels, W, b = make_polytope(200, 3, 4, margin=0.1, random_state=0)
    true = np.column_stack([W, b])
    assert separation_error(X, labels, true) > 0.1
    assert separation_error(X, labels, (1 + 1e-9) * true / 0.1) == 0.0
    X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])
    assert pc_slp.step(X, y, 2, [0, -1, 1]).solve().objective == 0.0
    assert pc_slp.step(X, y, 2, [0, -1, 0]).solve().objective == pytest.approx(2.0)


# -- descent ----------------------------------------------------------------------------------------


def proven(method, problem, end):
    """The certificate of where a descent ended, by its own multipliers."""
    given = method.multipliers(problem.y, end)
    return method.certify(problem.X, problem.y, end["W"], C=problem.c, radius=problem.radius, **given)


@by_method
def test_no_step_raises_the_error(method):
    """Steps on ties, duplicates and zeros change the faces for a strict gain only, within the box."""
    falls = 0
    for seed in range(12):
        X, y, c = hard_data(seed)
        problem = method.descent(X, y, c, 1 + seed % 4, radius=(1e4, np.inf, 2.0)[seed % 3])
        W = problem.start(np.random.default_rng(seed))
        for _ in range(6):
            before, found = problem.value(W), problem.step(W, None)
            assert found.status is Status.SOLVED
            assert found.objective == problem.value(found["W"]) <= before
            assert np.abs(found["W"]).max() <= problem.radius
            assert (found["W"] is W) == (found.objective == before)
            falls += found.objective < before
            W = found["W"]
    assert falls > 12


@by_method
@pytest.mark.parametrize("engine", ["highs", "exact"])
def test_descent_ends_stationary_or_optimal(method, engine):
    """Of one face, or without error, the end is optimal; else it is stationary, by its own multipliers."""
    claims = []
    for seed in range(12 if engine == "highs" else 6):
        X, y, c = hard_data(seed)
        problem = method.descent(X, y, c, 1 + seed % 4, engine=engine)
        found = run_rounds(problem, problem.start(np.random.default_rng(seed)))
        proof = proven(method, problem, found)
        assert proof.primal_value == pytest.approx(found.objective, rel=1e-12)
        one = problem.n_faces == 1 or found.objective == 0.0
        assert proof.claim is (Claim.OPTIMAL if one else Claim.STATIONARY), (seed, proof.worst)
        claims.append(proof.claim)
    assert len(set(claims)) == 2


@by_method
def test_features_of_thousands_are_proven(method):
    """Unscaled features leave the proof tight."""
    found = load_breast_cancer()
    flipped = np.random.default_rng(0).random(len(found.target)) < 0.1
    y = np.where((found.target == 1) != flipped, 1.0, -1.0)
    for K in (1, 3):
        problem = method.descent(found.data, y, np.ones(len(y)), K)
        proof = proven(method, problem, run_rounds(problem, problem.start(np.random.default_rng(0))))
        assert proof.claim is (Claim.OPTIMAL if K == 1 else Claim.STATIONARY)
        assert proof.relative_gap < 3e-7


@by_method
def test_units_make_no_difference_without_box(method):
    """Features times 1e5 and 1e-5 have the same step in their units."""
    X, y, c = ring(seed=5)
    units = np.array([1e5, 1e-5])
    ends = []
    for data in (X, X * units):
        problem = method.descent(data, y, c, 2, radius=np.inf)
        ends.append(problem.step(problem.start(np.random.default_rng(1)), None))
    assert ends[1].objective == pytest.approx(ends[0].objective, rel=1e-7)
    assert ends[1]["W"][:, :-1] * units == pytest.approx(ends[0]["W"][:, :-1], rel=1e-5, abs=1e-7)


@by_method
def test_unused_face_is_taken_up(method):
    """Of two equal faces one moves to the side that has none."""
    X, y = np.array([[-2.0], [-1.9], [0.0], [0.1], [2.0], [2.1]]), np.array([-1.0, -1, 1, 1, -1, -1])
    W = np.array([[1.0, 1.0], [1.0, 1.0]])
    problem = method.descent(X, y, np.ones(6), 2)
    assert problem.record(W) == {"occupied": 1.0}
    end = run_rounds(problem, W)
    assert end.objective == 0.0
    assert [h["occupied"] for h in end.history][-1] == 2.0


@by_method
@pytest.mark.parametrize("engine", ["highs", "exact"])
def test_separable_data_end_at_zero_exactly(method, engine):
    """Without error the objective is 0, not nearly 0."""
    X, y = np.array([[-2.0, 0.3], [0.0, 0.1], [0.1, 0.7], [2.0, 0.9]]), np.array([-1.0, 1, 1, -1])
    problem = method.descent(X, y, np.ones(4), 2, engine=engine)
    end = run_rounds(problem, np.array([[1.0, 0.0, 0.3], [-1.0, 0.0, 0.3]]))
    assert end.objective == 0.0
    assert end.status is Status.CONVERGED


@by_method
def test_time_limit_keeps_point_and_multipliers(method):
    """A run without time returns the faces it began with, which their multipliers still prove."""
    X, y, c = ring(n=100, seed=2)
    problem = method.descent(X, y, c, 3)
    end = run_rounds(problem, problem.start(np.random.default_rng(0)))
    stopped = run_rounds(problem, end["W"], time_limit=1e-9)
    assert stopped.status is Status.TIME_LIMIT
    assert stopped.objective == end.objective
    assert proven(method, problem, stopped).claim is Claim.STATIONARY


def test_first_data_set_of_polyceptron_is_separated():
    """PC-SLP finds a polytope without error, which is proven optimal."""
    X, y = make_polyceptron1(400, random_state=0)
    problem = SuccessiveLP(X, y.astype(float), np.ones(len(y)), 3)
    end = run_from_many_starts([Stage(problem)], n_init=8)
    assert end.objective == 0.0
    assert ((scores(X, end["W"]).min(axis=1) >= 0) == (y > 0)).all()
    assert certify_pc_slp(X, y, end["W"]).claim is Claim.OPTIMAL


def test_multipliers_lie_at_their_samples():
    """Multipliers of PC-SLP are within the shares, 0 beyond a margin, and whole where it is broken."""
    X, y, c, W, given = settled(PC_SLP)
    u, q, a, s = given["u"], given["q"], class_shares(y, c), scores(X, W)
    assert not u[y < 0].any()
    assert not q[y > 0].any()
    assert (u.sum(axis=1) <= a + 1e-9).all()
    assert u[s > 1.0 + 1e-6].max() < 1e-9
    broken = (y < 0) & (s.min(axis=1) > -1.0 + 1e-6)
    assert q[broken] == pytest.approx(a[broken])


# -- certificates -----------------------------------------------------------------------------------


@cache
def settled(method):
    """Data with costs, and faces that are stationary with their multipliers."""
    X, y, c = ring(n=80, seed=4)
    problem = method.descent(X, y, c, 3)
    end = run_rounds(problem, problem.start(np.random.default_rng(0)))
    return X, y, c, end["W"], method.multipliers(y, end)


@by_method
@by_solver
def test_multipliers_of_any_solver_prove_the_same(method, solver):
    """Bounds by the program's multipliers, by the dual's variables and by the descent are equal."""
    X, y, c, W, given = settled(method)
    z = scores(X, W).argmin(axis=1)
    bound = method.certify(X, y, W, C=c, **given).dual_value
    for make in (method.program, method.dual):
        found = make(X, y, 3, z, c).solve(solver)
        proof = method.certify(X, y, W, C=c, **method.multipliers(y, found))
        assert proof.claim is Claim.STATIONARY, proof.worst
        assert proof.dual_value == pytest.approx(bound, rel=1e-7)
    unaided = method.certify(X, y, W, C=c)
    assert unaided.claim is Claim.STATIONARY
    assert "Another assignment may have a lower optimum." in unaided.sentence
    assert "The box holds a face" not in unaided.note


@by_method
@pytest.mark.parametrize("radius", [0.5, 1e4])
def test_bound_holds_for_any_multipliers(method, radius, rng):
    """Multipliers that are off by little or much prove no more than the optimum of the assignment."""
    X, y, c, W, given = settled(method)
    z = scores(X, W).argmin(axis=1)
    least = method.program(X, y, 3, z, c, radius=radius).solve().objective
    faces = np.clip(W, -radius, radius)
    for size in (1e-9, 1e-5, 1e-2, 1.0):
        wrong = {name: values + size * rng.normal(size=values.shape) for name, values in given.items()}
        proof = method.certify(X, y, faces, C=c, assignment=z, radius=radius, **wrong)
        assert 0.0 <= proof.dual_value <= least * (1 + 1e-9)


@by_method
@pytest.mark.parametrize("k", range(3))
def test_moved_face_fails(method, k):
    """A face that is off by 1e-3 is suboptimal."""
    X, y, c, W, given = settled(method)
    moved = W.copy()
    moved[k, 0] += 1e-3
    proof = method.certify(X, y, moved, C=c, **given)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.eps > 1e-8


@by_method
@pytest.mark.parametrize(
    ("change", "condition"), [(-2.0, "sign"), (2.0, "sign"), (-0.1, "stationarity")], ids=str
)
def test_moved_multiplier_fails(method, change, condition):
    """A multiplier below 0 or above its cap breaks a sign, one within them the stationarity."""
    X, y, c, W, given = settled(method)
    name, caps = ("u", c) if method is POLYCEPTRON else ("q", class_shares(y, c))
    values = given[name].copy()
    own = values[:, 0] if values.ndim == 2 else values
    i = int(np.flatnonzero((own > 1e-3 * caps) & ((own < 0.999 * caps) | (method is PC_SLP)))[0])
    own[i] += change * caps[i] * (0.5 if condition == "stationarity" else 1.0)
    proof = method.certify(X, y, W, C=c, **{**given, name: values})
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert condition in {r.condition for r in proof.residuals if r.relative > 1e-6}


@by_method
def test_negative_at_the_wrong_face_fails(method):
    """The residual of the assignment names the sample and what its best face would save."""
    X, y, c, W, given = settled(method)
    s = scores(X, W)
    z = s.argmin(axis=1)
    i = int(np.argmax(np.where((y < 0) & (s.min(axis=1) < -1.0), s.max(axis=1), -np.inf)))
    z[i] = s[i].argmax()
    proof = method.certify(X, y, W, C=c, assignment=z, **given)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    gain = next(r for r in proof.residuals if r.row == "assignment")
    assert gain.worst == i
    assert gain.value == pytest.approx(1.0 + s[i].max())


@by_method
def test_error_of_zero_is_optimal(method):
    """Faces without error are optimal over all assignments."""
    X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1.0, 1.0, -1.0])
    zero = method.certify(X, y, [[2.0, 2.0], [-2.0, 2.0]])
    assert zero.claim is Claim.OPTIMAL
    assert "bounds every assignment" in zero.note


@by_method
def test_large_data_are_not_solved_for_bound(method):
    """Without multipliers the bound of more than two million entries is 0, and the note says so."""
    rows = np.arange(1100)
    X = sp.csr_array((np.ones(1100), (rows, rows % 1000)), shape=(1100, 1000))
    y, W = np.where(rows % 2, 1.0, -1.0), np.zeros((2, 1001))
    W[:, -1] = 0.5
    large, small = method.certify(X, y, W), method.certify(X[:20], y[:20], W)
    assert "too large" in large.note
    assert (large.claim, large.dual_value) == (Claim.SUBOPTIMAL_BY, 0.0)
    assert large.primal_value > 0.0
    assert "too large" not in small.note


@by_method
def test_box_is_a_constraint_like_others(method):
    """One face held by a box is optimal in it, not in a wider one, and infeasible in a narrower one."""
    X, y, c = ring(seed=6)
    X[:, 0] += y
    found = method.program(X, y, 1, 0 * y, c, radius=0.3).solve()
    given = {"C": c, **method.multipliers(y, found)}
    held, wider, narrow = (method.certify(X, y, found["W"], radius=r, **given) for r in (0.3, 1.0, 0.2))
    assert held.claim is Claim.OPTIMAL
    assert held.gap < 1e-8 * held.primal_value
    assert "The box holds a face: raise radius or scale the features." in held.note
    assert wider.claim is Claim.SUBOPTIMAL_BY
    assert wider.worst.row in ("balance", "box")
    assert narrow.claim is Claim.NONE
    assert next(r for r in narrow.residuals if r.condition == "primal").value == pytest.approx(0.1)
    free = method.program(X, y, 1, 0 * y, c, radius=np.inf).solve()
    proof = method.certify(X, y, free["W"], C=c, radius=np.inf, **method.multipliers(y, free))
    assert proof.claim is Claim.OPTIMAL
    assert "entries of up to" in proof.note


@by_method
def test_wrong_arguments_are_named(method):
    """Descent and certificate refuse what does not fit by its name."""
    X, y, c, W, given = settled(method)
    refused = {
        "engine must be 'highs' or 'exact', not 'cbc'": lambda: method.descent(X, y, c, 3, engine="cbc"),
        "radius must be positive, not 0": lambda: method.descent(X, y, c, 3, radius=0),
        "W must be finite, of shape K x 3": lambda: method.certify(X, y, W[:, :2], C=c),
        "from 0 to 2 at every negative": lambda: method.certify(X, y, W, assignment=np.full(len(y), 3)),
        "radius must be positive": lambda: method.certify(X, y, W, C=c, radius=0.0),
        r"u must have shape \(80, 3\)": lambda: method.certify(X, y, W, C=c, **{**given, "u": W}),
    }
    if method is PC_SLP:
        ones = np.ones(len(y))
        refused |= {
            "u and q must be given together": lambda: certify_pc_slp(X, y, W, C=c, u=given["u"]),
            r"q must have shape \(80,\)": lambda: certify_pc_slp(X, y, W, **{**given, "q": ones[1:]}),
            "y must hold both classes, each with": lambda: pc_slp.step(X, ones, 1, 0 * y),
            "y must hold both classes, -1": lambda: SuccessiveLP(X, ones, ones, 1),
            "y must hold both classes": lambda: certify_pc_slp(X, ones, W),
        }
    for sentence, call in refused.items():
        with pytest.raises(ValueError, match=sentence):
            call()
