"""The global optimum with a shared slack or a shared margin budget: every assignment, SCIP, the bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.cases import few
from helpers.cpm import clusters

from formulations import cpm, cpm_worst
from formulations.cpm_global import big_m, mixed_integer
from formulations.solution import Status
from polyopt import ConvexPolytopeMachine
from polyopt.certificates import Claim
from polyopt.certificates.cpm import certify_cpm, certify_cpm_search
from polyopt.outer.cpm import assignments
from polyopt.outer.cpm.optimum import solve_cpm_global

COUPLED = [("max", "total"), ("sum", "worst"), ("max", "worst")]
ALL = [("sum", "total"), *COUPLED]


def draw(n, seed, widen=1.8):
    X, y, _ = clusters(n, 2, seed, widen=widen)
    return X, y, np.random.default_rng(seed).uniform(0.3, 3.0, len(y))


def program_of(X, y, C, K, loss, margin):
    module = cpm_worst if margin == "worst" else cpm
    return module.fixed_assignment(X, y, K, np.zeros(len(y), dtype=int), C, loss)


def completions(y, K, fixed):
    """All assignments that agree with `fixed` where it is not negative, at the positives."""
    open_ = [i for i in np.flatnonzero(y > 0) if fixed[i] < 0]
    for faces in itertools.product(range(K), repeat=len(open_)):
        z = np.maximum(fixed, 0)
        z[open_] = faces
        yield z


def least_of_all(X, y, C, K, loss, margin, fixed=None):
    program = program_of(X, y, C, K, loss, margin)
    fixed = np.full(len(y), -1) if fixed is None else fixed
    tried = {np.where(y > 0, z, -1).tobytes(): z for z in completions(y, K, fixed)}
    return min(program.set(Z=cpm.answers(y, K, z)).solve().objective for z in tried.values())


def value(X, y, C, W, loss, margin):
    """The objective, by hand."""
    hinge = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ W.T))
    paid = np.where(y > 0, hinge.min(axis=1), hinge.sum(axis=1) if loss == "sum" else hinge.max(axis=1))
    squares = (W**2).sum(axis=1)
    return (squares.sum() if margin == "total" else squares.max()) + np.broadcast_to(C, y.shape) @ paid


@pytest.mark.parametrize(("loss", "margin"), COUPLED)
@pytest.mark.parametrize(("seed", "K", "n", "bounds"), [(0, 2, 9, "additive"), (1, 3, 6, "plain")])
def test_the_search_finds_what_every_assignment_tried_does(loss, margin, seed, K, n, bounds):
    X, y, C = draw(n, seed)
    best = least_of_all(X, y, C, K, loss, margin)
    found = solve_cpm_global(X, y, C, K, loss=loss, margin=margin, bounds=bounds)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(best, rel=1e-6)
    assert found.bound <= best * (1 + 1e-7)
    assert found.objective == pytest.approx(value(X, y, C, found["W"], loss, margin), rel=1e-12)
    assert set(found["assignment"][y < 0]) == {-1}
    certificate = certify_cpm_search(X, y, C, found, loss=loss, margin=margin)
    assert certificate.claim is Claim.OPTIMAL
    fixed = certify_cpm(
        X, y, C, W=found["W"], alpha=found.duals["margin"], assignment=found["assignment"], loss=loss,
        margin=margin,
    )  # fmt: skip
    assert fixed.claim is Claim.STATIONARY


@pytest.mark.parametrize(("loss", "margin"), COUPLED)
def test_a_worse_point_is_not_called_optimal_by_the_same_bound(loss, margin):
    X, y, C = draw(8, 0)
    found = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin)
    found.primal["W"][:] *= 1.01
    certificate = certify_cpm_search(X, y, C, found, loss=loss, margin=margin)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.primal_value == pytest.approx(value(X, y, C, found["W"], loss, margin))


@pytest.mark.parametrize(("loss", "margin"), COUPLED)
def test_degenerate_data(loss, margin):
    rng = np.random.default_rng(7)
    for positives, negatives, K in few(
        ((1, 2, 3), (2, 0, 2)), ((1, 2, 3), (3, 1, 2), (2, 0, 2), (0, 2, 2), (2, 2, 1))
    ):
        X = rng.integers(-1, 2, size=(positives + negatives, 2)).astype(float)
        y = np.r_[np.ones(positives), -np.ones(negatives)]
        C = rng.choice([0.0, 0.5, 4.0], size=len(y))
        C[0] = 1.0
        found = solve_cpm_global(X, y, C, K, loss=loss, margin=margin)
        best = least_of_all(X, y, C, K, loss, margin)
        assert found.status is Status.SOLVED
        assert found.objective == pytest.approx(best, rel=2e-6, abs=1e-9)
        assert found.bound <= best * (1 + 1e-7) + 1e-12


@pytest.mark.cases(1)
@pytest.mark.parametrize(("loss", "margin"), COUPLED)
def test_limits_keep_a_point_and_a_valid_bound(loss, margin):
    X, y, C = draw(16, 5, widen=3.0)
    whole = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin)
    short = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin, max_nodes=2)
    assert whole.iterations > 2
    assert short.status is Status.ITERATION_LIMIT
    assert short.bound <= whole.objective * (1 + 1e-9) <= short.objective * (1 + 1e-6)
    at_once = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin, time_limit=0.0)
    assert at_once.status is Status.TIME_LIMIT
    assert at_once.bound <= whole.objective
    assert at_once.objective == pytest.approx(value(X, y, C, at_once["W"], loss, margin))
    again = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin, start=whole["W"])
    assert again.objective == pytest.approx(whole.objective, rel=2e-6)


@pytest.mark.parametrize(("loss", "margin"), ALL)
def test_an_order_sought_on_the_way_changes_no_answer(loss, margin, monkeypatch):
    """Open nodes go on with their multipliers, whose samples have other places."""
    X, y, C = draw(16, 4, widen=3.0)
    known = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin, bounds="additive")
    orders, order = [], assignments.AssignmentSearch._order

    def pulled(search):
        return np.array([one.alpha @ search.data.A for one in search.heap])

    def watched(self):
        before = pulled(self)
        order(self)
        orders.append(before)
        assert pulled(self) == pytest.approx(before, abs=1e-12)

    monkeypatch.setattr(assignments, "_SOON", 1)
    monkeypatch.setattr(assignments.AssignmentSearch, "_order", watched)
    found = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin, bounds="additive")
    assert len(orders) == 1
    assert len(orders[0])
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(known.objective, rel=2e-6)
    assert found.objective == pytest.approx(value(X, y, C, found["W"], loss, margin), rel=1e-12)


# -- the mixed-integer program ---------------------------------------------------------------


@pytest.mark.parametrize(("loss", "margin"), COUPLED)
def test_the_optimum_is_a_point_of_the_mixed_integer_program_of_the_same_value(loss, margin):
    X, y, C = draw(10, 2)
    best = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin)
    tight, loose = (big_m(X, y, 2, C, upper, loss, margin) for upper in (best.objective, None))
    assert (1.0 - cpm.lift(X[y > 0]) @ best["W"].T <= tight[:, None] + 1e-6).all()
    assert (tight < loose).all()
    program = mixed_integer(X, y, 2, C, loss=loss, margin=margin)
    assert (program.kind, program.solvers) == ("MIQP", ("SCIP",))
    z = best["assignment"][y > 0]
    W, z = (best["W"][::-1], 1 - z) if z[0] == 1 else (best["W"], z)  # faces are opened in order
    hinge = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ W.T))
    Z = np.eye(2)[z]
    xi = hinge[y < 0] if loss == "sum" else hinge[y < 0].max(axis=1)
    point = {"W": W, "xi": xi, "eta": (hinge[y > 0] * Z).sum(axis=1), "z": Z}
    if margin == "worst":
        point["t"] = (W**2).sum(axis=1).max()
    assert max(program.violations(point).values()) < 1e-6
    assert program.value(point) == pytest.approx(best.objective, rel=1e-9)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("loss", "margin"), COUPLED)
def test_scip_agrees_with_the_search(loss, margin):
    pytest.importorskip("pyscipopt")
    X, y, C = draw(10, 4, widen=1.5)
    solution = mixed_integer(X, y, 2, C, loss=loss, margin=margin).solve()
    best = solve_cpm_global(X, y, C, 2, loss=loss, margin=margin)
    assert solution.status is Status.SOLVED
    assert solution.objective == pytest.approx(best.objective, rel=1e-5)


# -- the estimator -----------------------------------------------------------------------------


def test_the_estimator_proves_its_optimum_and_is_no_better_from_other_solvers():
    X, y, _ = draw(10, 5)
    for loss, margin in COUPLED:
        settings = {"n_faces": 2, "loss": loss, "margin": margin, "random_state": 0}
        proven = ConvexPolytopeMachine(solver="global", **settings).fit(X, y)
        assert proven.certificate().claim is Claim.OPTIMAL
        exact = ConvexPolytopeMachine(solver="exact", n_init=2, **settings).fit(X, y)
        assert proven.solution_.objective <= exact.solution_.objective * (1 + 1e-6)
        assert len(proven.duals_)
