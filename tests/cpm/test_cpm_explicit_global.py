"""The optimum over all assignments with a shared slack or a shared margin budget, by the explicit program."""

import itertools

import cvxpy
import numpy as np
import pytest
from helpers.cpm import clusters

from formulations import cpm
from formulations.cpm import big_m, mixed_integer
from formulations.language.program import Program
from formulations.language.solution import Status
from polyopt import ConvexPolytopeMachine, FacePenalty
from polyopt.certificates import Claim
from polyopt.cpm.certificate import certify_cpm, certify_cpm_search
from polyopt.cpm.global_search.explicit import solve_cpm_explicitly

COUPLED = [("max", "total"), ("sum", "worst"), ("max", "worst")]


def draw(n, seed, widen=1.8):
    X, y, _ = clusters(n, 2, seed, widen=widen)
    return X, y, np.random.default_rng(seed).uniform(0.3, 3.0, len(y))


def least_of_all(X, y, C, K, loss, margin):
    """The least optimum of the fixed-assignment program over all assignments."""
    positives = np.flatnonzero(y > 0)
    program, values = cpm.fixed_assignment(X, y, K, np.zeros(len(y), dtype=int), C, loss, margin), []
    for faces in itertools.product(range(K), repeat=len(positives) - 1):
        z = np.zeros(len(y), dtype=int)
        z[positives[1:]] = faces
        values.append(program.set(Z=cpm.assignment_matrix(y, K, z)).solve().objective)
    return min(values)


def value(X, y, C, W, loss, margin):
    """The objective, by hand."""
    hinge = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ W.T))
    paid = np.where(y > 0, hinge.min(axis=1), hinge.sum(axis=1) if loss == "sum" else hinge.max(axis=1))
    squares = (W**2).sum(axis=1)
    return (squares.sum() if margin == "total" else squares.max()) + np.broadcast_to(C, y.shape) @ paid


@pytest.mark.parametrize(("loss", "margin"), COUPLED)
@pytest.mark.parametrize(("seed", "K", "n"), [(0, 2, 8), (1, 3, 7)])
def test_scip_finds_the_best_assignment(loss, margin, seed, K, n):
    """SCIP's point is the least optimum of all assignments; its bound is certified as SCIP's word."""
    pytest.importorskip("pyscipopt")
    X, y, C = draw(n, seed)
    best = least_of_all(X, y, C, K, loss, margin)
    found = solve_cpm_explicitly(X, y, C, K, loss, margin)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(best, rel=1e-6)
    assert found.bound <= best * (1 + 1e-6)
    assert found.objective == pytest.approx(value(X, y, C, found["W"], loss, margin), rel=1e-9)
    assert set(found["assignment"][y < 0]) == {-1}
    certificate = certify_cpm_search(X, y, C, found, loss=loss, margin=margin)
    assert certificate.claim is Claim.SOLVERS_WORD
    assert (certificate.stated, certificate.dual_value) == (found.bound, 0.0)
    assert "the word of SCIP" in certificate.note
    fixed = certify_cpm(
        X, y, C, W=found["W"], alpha=found.duals["margin"], assignment=found["assignment"], loss=loss,
        margin=margin,
    )  # fmt: skip
    assert fixed.claim is Claim.STATIONARY
    found.primal["W"][:] *= 1.01  # a worse point is not called optimal by the same bound
    worse = certify_cpm_search(X, y, C, found, loss=loss, margin=margin)
    assert worse.claim is Claim.SUBOPTIMAL_BY


def test_time_limit_keeps_a_point():
    """A time limit keeps a point with its objective, and a bound that proves no optimum."""
    pytest.importorskip("pyscipopt")
    X, y, C = draw(60, 5, widen=3.0)
    found = solve_cpm_explicitly(X, y, C, 2, "max", "worst", time_limit=0.5)
    assert found.status is Status.TIME_LIMIT
    assert found.bound is None or found.bound < found.objective
    assert found.objective == pytest.approx(value(X, y, C, found["W"], "max", "worst"), rel=1e-9)
    certificate = certify_cpm_search(X, y, C, found, loss="max", margin="worst")
    assert certificate.claim is Claim.SUBOPTIMAL_BY


def test_interrupted_scip_keeps_a_start(monkeypatch):
    """Ctrl-C before SCIP has a point returns the best of the alternating starts, without a bound."""
    pytest.importorskip("pyscipopt")

    solve = Program.solve

    def broken_off(program, solver=None, **settings):
        if solver == "SCIP":
            raise KeyboardInterrupt
        return solve(program, solver, **settings)

    X, y, C = draw(20, 1)
    monkeypatch.setattr(Program, "solve", broken_off)
    found = solve_cpm_explicitly(X, y, C, 2, "max", "total")
    assert (found.status, found.bound) == (Status.INTERRUPTED, None)
    assert found.objective == pytest.approx(value(X, y, C, found["W"], "max", "total"), rel=1e-9)


@pytest.mark.parametrize(("loss", "margin"), COUPLED)
def test_optimum_of_assignment_is_a_point(loss, margin):
    """The optimum of a fixed assignment is a point of the mixed-integer program with its value."""
    X, y, C = draw(10, 2)
    z = (X[:, 0] > np.median(X[:, 0])).astype(int)
    z = np.where(z == z[y > 0][0], 0, 1)  # faces are opened in order
    best = cpm.fixed_assignment(X, y, 2, z, C, loss, margin).solve()
    hinge, Z = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ best["W"].T)), np.eye(2)[z[y > 0]]
    xi = hinge[y < 0] if loss == "sum" else hinge[y < 0].max(axis=1)
    point = {"W": best["W"], "xi": xi, "eta": (hinge[y > 0] * Z).sum(axis=1), "z": Z}
    if margin == "worst":
        point["t"] = (best["W"] ** 2).sum(axis=1).max()
    program = mixed_integer(X, y, 2, C, loss=loss, margin=margin)
    assert (program.kind, program.solvers) == ("MIQP", ("SCIP",))
    assert max(program.violations(point).values()) < 1e-6
    assert program.value(point) == pytest.approx(best.objective, rel=1e-6)
    tight, loose = (big_m(X, y, 2, C, upper, loss, margin) for upper in (0.9 * best.objective, None))
    assert (tight < loose).all()


def test_estimator_with_scips_word(tmp_path):
    """The estimator is no worse than alternation, has SCIP's word, and saves no claim of it."""
    pytest.importorskip("pyscipopt")
    X, y, _ = draw(10, 5)
    settings = {"n_faces": 2, "loss": "max", "penalty": FacePenalty(margin="worst"), "random_state": 0}
    found = ConvexPolytopeMachine(solver="global", **settings).fit(X, y)
    assert found.certificate().claim is Claim.SOLVERS_WORD
    exact = ConvexPolytopeMachine(solver="exact", n_init=2, **settings).fit(X, y)
    assert found.solution_.objective <= exact.solution_.objective * (1 + 1e-6)
    assert len(found.duals_)
    with pytest.raises(ValueError, match="no statement"):
        found.certificate().save(tmp_path / "c.json")


@pytest.mark.parametrize(("loss", "margin"), COUPLED)
def test_one_face_is_proven(loss, margin):
    """One face is a convex program, whose optimum is proven."""
    X, y, _ = draw(10, 5)
    machine = ConvexPolytopeMachine(
        n_faces=1, loss=loss, penalty=FacePenalty(margin=margin), solver="global", random_state=0
    )
    assert machine.fit(X, y).certificate().claim is Claim.OPTIMAL


def test_large_data_and_missing_scip_are_refused(monkeypatch):
    """More than 200 samples, and a missing SCIP, are refused with a remedy."""
    X, y, C = draw(201, 0)
    with pytest.raises(ValueError, match=r"for up to 200 samples, not 201: use alternating minimisation"):
        solve_cpm_explicitly(X, y, C, 2, "max", "total")
    monkeypatch.setattr(cvxpy, "installed_solvers", lambda: ["HIGHS"])
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'polyopt\[mip\]'"):
        solve_cpm_explicitly(X[:20], y[:20], C[:20], 2, "max", "total")
