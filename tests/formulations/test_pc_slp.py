"""PC-SLP: the program of its step, known answers of the error, its descent and its certificates."""

from __future__ import annotations

import numpy as np
import pytest

from formulations import pc_slp
from formulations.polyhedral import class_shares, scores, separation_error
from polyopt.certificates import Claim
from polyopt.datasets import make_polyceptron1, make_polytope
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.polyhedral.lp_certificate import certify_pc_slp
from polyopt.polyhedral.pc_slp import SuccessiveLP


def ring(n=60, seed=0):
    """Positives within a square, negatives around it, some on the wrong side: X (n, 2), y, costs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * 1.2
    y = np.where(np.abs(X).max(axis=1) < 1, 1.0, -1.0)
    return X + 0.25 * rng.normal(size=X.shape), y, rng.uniform(0.5, 2.0, n)


@pytest.fixture(params=[0, 1, 2])
def fixed(request):
    """Overlapping data with a choice of faces: X, y, K, assignment, costs."""
    X, y, c = ring(seed=request.param)
    return X, y, 3, np.arange(len(y)) % 3, c


@pytest.fixture
def settled():
    """Data with costs, and faces that are stationary with their multipliers."""
    X, y, c = ring(n=80, seed=4)
    problem = SuccessiveLP(X, y, c, 3)
    end = run_rounds(problem, problem.start(np.random.default_rng(0)))
    return X, y, c, end["W"], end.duals["inside"], end.duals["outside"]


def placed(y, K, found):
    """The multipliers of a program's solution at the samples of the data: u (n, K) and q (n,)."""
    u, q = np.zeros((len(y), K)), np.zeros(len(y))
    u[y > 0], q[y < 0] = found
    return u, q


def hinges(X, y, W, z):
    """xi and zeta of the faces W for a choice z."""
    s = scores(X, W)
    own = np.take_along_axis(s, z[:, None], axis=1)[:, 0]
    return {"xi": np.maximum(0.0, 1.0 - s[y > 0].min(axis=1)), "zeta": np.maximum(0.0, 1.0 + own[y < 0])}


# -- program -------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [1e4, 0.4, np.inf])
@pytest.mark.parametrize("solver", ["HIGHS", "CLARABEL"])
def test_primal_equals_dual_within_any_box(solver, radius, fixed):
    X, y, K, z, C = fixed
    primal, dual = pc_slp.step(X, y, K, z, C, radius), pc_slp.step_dual(X, y, K, z, C, radius)
    p, d = primal.solve(solver), dual.solve(solver)
    assert 0.5 < p.objective <= 2.0
    assert p.objective == pytest.approx(d.objective, rel=1e-8)
    W = d.duals["balance"]
    point = {"W": W, **hinges(X, y, W, z)}
    assert primal.value(point) == pytest.approx(p.objective, rel=1e-7)
    assert max(primal.violations(point).values()) < 1e-7


def test_it_bounds_the_error_and_touches_it(fixed, rng):
    X, y, K, _, C = fixed
    for _ in range(10):
        W, other = rng.normal(size=(2, K, 3))
        z = scores(X, W).argmin(axis=1)
        program = pc_slp.step(X, y, K, z, C)
        here, there = (program.value({"W": faces, **hinges(X, y, faces, z)}) for faces in (W, other))
        assert here == pytest.approx(separation_error(X, y, W, C), rel=1e-12)
        assert there >= separation_error(X, y, other, C) - 1e-12
        solved = program.solve()
        assert separation_error(X, y, solved["W"], C) <= solved.objective + 1e-9 <= here + 1e-8


def test_known_values_of_the_error():
    X, y, c = ring()
    for bias in (0.0, 1.0, -1.0):  # nothing, all inside, all outside
        W = np.tile([0.0, 0.0, bias], (4, 1))
        assert separation_error(X, y, W, c) == pytest.approx(2.0, rel=1e-12)
    X, labels, W, b = make_polytope(200, 3, 4, margin=0.1, random_state=0)
    true = np.column_stack([W, b])
    assert separation_error(X, labels, true) > 0.1
    assert separation_error(X, labels, (1 + 1e-9) * true / 0.1) == 0.0


def test_the_program_is_zero_exactly_where_the_choice_separates():
    X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])
    assert pc_slp.step(X, y, 2, [0, -1, 1]).solve().objective == 0.0
    assert pc_slp.step(X, y, 2, [0, -1, 0]).solve().objective == pytest.approx(2.0)


def test_a_weight_is_a_repetition(fixed):
    X, y, K, z, _ = fixed
    times = np.arange(len(y)) % 3 + 1
    more = [np.repeat(part, times, axis=0) for part in (X, y, z)]
    weighted = pc_slp.step(X, y, K, z, times).solve().objective
    assert weighted == pytest.approx(pc_slp.step(more[0], more[1], K, more[2]).solve().objective)
    # Only the shares within a class count.
    assert pc_slp.step(X, y, K, z, np.where(y > 0, 7.0, 1.0) * times).solve().objective == pytest.approx(
        weighted
    )


def test_one_class_has_no_error_to_speak_of():
    X, y = np.array([[0.0], [1.0]]), np.ones(2)
    with pytest.raises(ValueError, match="y must hold both classes, each with a positive cost; -1 has none"):
        pc_slp.step(X, y, 1, [0, 0])
    with pytest.raises(ValueError, match="y must hold both classes"):
        SuccessiveLP(X, y, np.ones(2), 1)
    with pytest.raises(ValueError, match="y must hold both classes"):
        certify_pc_slp(X, y, [[1.0, 0.0]])


# -- descent (what it shares with the exact Polyceptron is tested with that) -------------------


def test_the_polyceptron_s_first_data_set_is_separated():
    X, y = make_polyceptron1(1000, random_state=0)
    problem = SuccessiveLP(X, y.astype(float), np.ones(len(y)), 3)
    end = run_from_many_starts([Stage(problem)], n_init=8)
    assert end.objective == 0.0
    assert ((scores(X, end["W"]).min(axis=1) >= 0) == (y > 0)).all()
    assert certify_pc_slp(X, y, end["W"]).claim is Claim.OPTIMAL


def test_multipliers_lie_at_their_samples(settled):
    X, y, c, W, u, q = settled
    a = class_shares(y, c)
    assert not u[y < 0].any()
    assert not q[y > 0].any()
    assert (u.sum(axis=1) <= a + 1e-9).all()
    assert (q <= a + 1e-9).all()
    s = scores(X, W)
    assert u[s > 1.0 + 1e-6].max() < 1e-9  # beyond the margin nothing is held
    assert q[(y < 0) & (s.min(axis=1) > -1.0 + 1e-6)] == pytest.approx(
        a[(y < 0) & (s.min(axis=1) > -1.0 + 1e-6)]
    )


# -- certificates ----------------------------------------------------------------------------


def test_multipliers_of_either_solver_prove_the_same(settled):
    X, y, c, W, u, q = settled
    bound = certify_pc_slp(X, y, W, C=c, u=u, q=q).dual_value
    z = scores(X, W).argmin(axis=1)
    for solver in ("HIGHS", "CLARABEL"):
        primal = pc_slp.step(X, y, 3, z, c).solve(solver)
        dual = pc_slp.step_dual(X, y, 3, z, c).solve(solver)
        for found in ((primal.duals["inside"], primal.duals["outside"]), (dual["u"], dual["q"])):
            inside, outside = placed(y, 3, found)
            proof = certify_pc_slp(X, y, W, C=c, u=inside, q=outside)
            assert proof.claim is Claim.STATIONARY, proof.worst
            assert proof.dual_value == pytest.approx(bound, rel=1e-7)
    assert certify_pc_slp(X, y, W, C=c).claim is Claim.STATIONARY


def test_a_bound_is_a_bound_whatever_the_multipliers(settled, rng):
    X, y, c, W, u, q = settled
    z = scores(X, W).argmin(axis=1)
    for radius in (0.5, 1e4):
        least = pc_slp.step(X, y, 3, z, c, radius).solve().objective
        for size in (1e-9, 1e-5, 1e-2):
            wrong = u + size * rng.normal(size=u.shape), q + size * rng.normal(size=q.shape)
            faces = np.clip(W, -radius, radius)
            proof = certify_pc_slp(X, y, faces, C=c, u=wrong[0], q=wrong[1], assignment=z, radius=radius)
            assert 0.0 <= proof.dual_value <= least * (1 + 1e-9)


def test_moved_faces_and_moved_multipliers_fail(settled):
    X, y, c, W, u, q = settled
    a = class_shares(y, c)
    for k in range(3):
        moved = W.copy()
        moved[k, 0] += 1e-3
        proof = certify_pc_slp(X, y, moved, C=c, u=u, q=q)
        assert proof.claim is Claim.SUBOPTIMAL_BY
        assert proof.eps > 1e-8
    inner, outer = int(np.flatnonzero(u.max(axis=1) > 0)[0]), int(np.flatnonzero(q > 0)[0])
    for wrong_u, wrong_q, condition in [
        (-a[inner], 0.0, "sign"),
        (0.0, 2.0 * a[outer], "sign"),
        (0.1 * a[inner], 0.0, "stationarity"),
        (0.0, -0.1 * a[outer], "stationarity"),
    ]:
        v, p = u.copy(), q.copy()
        v[inner, v[inner].argmin()] += wrong_u
        p[outer] += wrong_q
        proof = certify_pc_slp(X, y, W, C=c, u=v, q=p)
        assert proof.claim is Claim.SUBOPTIMAL_BY
        assert condition in {r.condition for r in proof.residuals if r.relative > 1e-6}


def test_a_negative_at_the_wrong_face_fails(settled):
    X, y, c, W, u, q = settled
    s = scores(X, W)
    z = s.argmin(axis=1)
    i = int(np.argmax(np.where(y < 0, s.max(axis=1), -np.inf)))
    z[i] = s[i].argmax()
    proof = certify_pc_slp(X, y, W, C=c, u=u, q=q, assignment=z)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    gain = next(r for r in proof.residuals if r.row == "assignment")
    assert gain.worst == i
    assert gain.value == pytest.approx(1.0 + s[i].max() - max(0.0, 1.0 + s[i].min()))


def test_zero_is_optimal_and_one_face_may_be():
    X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1.0, 1.0, -1.0])
    zero = certify_pc_slp(X, y, [[2.0, 2.0], [-2.0, 2.0]])
    assert zero.claim is Claim.OPTIMAL
    assert "bounds every assignment" in zero.note
    X, y, c = ring(seed=6)
    X[:, 0] += y
    found = pc_slp.step(X, y, 1, 0 * y, c).solve()
    u, q = placed(y, 1, (found.duals["inside"], found.duals["outside"]))
    proof = certify_pc_slp(X, y, found["W"], C=c, u=u, q=q)
    assert proof.claim is Claim.OPTIMAL
    assert proof.gap < 1e-8 * proof.primal_value
    assert certify_pc_slp(X, y, 1.01 * found["W"], C=c).claim is Claim.SUBOPTIMAL_BY


def test_the_box_is_a_row_like_any_other():
    X, y, c = ring(seed=6)
    X[:, 0] += y
    found = pc_slp.step(X, y, 1, 0 * y, c, 0.3).solve()
    u, q = placed(y, 1, (found.duals["inside"], found.duals["outside"]))
    held = certify_pc_slp(X, y, found["W"], C=c, u=u, q=q, radius=0.3)
    assert held.claim is Claim.OPTIMAL
    assert "The box holds a face: raise radius or scale the features." in held.note
    assert certify_pc_slp(X, y, found["W"], C=c, u=u, q=q, radius=1.0).claim is Claim.SUBOPTIMAL_BY
    assert certify_pc_slp(X, y, found["W"], C=c, u=u, q=q, radius=0.2).claim is Claim.NONE


def test_a_certificate_names_what_does_not_fit(settled):
    X, y, c, W, u, q = settled
    with pytest.raises(ValueError, match="u and q must be given together"):
        certify_pc_slp(X, y, W, C=c, u=u)
    with pytest.raises(ValueError, match=r"q must have shape \(80,\)"):
        certify_pc_slp(X, y, W, C=c, u=u, q=q[1:])
