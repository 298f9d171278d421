"""The Convex Polytope Machine: programs of both losses and margins, certificates of faces and searches."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from helpers.cpm import LOSSES, clusters

from formulations import cpm
from formulations.face_penalty import FacePenalty
from formulations.language.solution import Status
from formulations.polytope import margin_weights
from polyopt.certificates import Claim
from polyopt.certificates.kkt import certify_program
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.certificate import certify_cpm, certify_cpm_search
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.optim.rounds import run_rounds

K = 3
KINDS = list(product(LOSSES, ["total", "worst"]))
by_loss = pytest.mark.parametrize("loss", LOSSES)
by_kind = pytest.mark.parametrize(("loss", "margin"), KINDS)


@cache
def drawn(seed=0):
    """Overlapping samples, labels, costs, and an assignment of the positives."""
    X, y, directions = clusters(40, K, seed, widen=1.5)
    C = np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
    return X, y, C, np.where(y > 0, (X @ directions.T).argmax(axis=1), -1)


@cache
def optimum(loss, margin, seed=0):
    """The optimum for the assignment drawn."""
    X, y, C, z = drawn(seed)
    return cpm.fixed_assignment(X, y, K, z, C, loss, margin).solve()


def value(X, y, W, C, z, loss, margin="total"):
    """The objective at W for an assignment, from its definition."""
    hinge = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ W.T)) * cpm.assignment_matrix(y, len(W), z)
    paid = np.where((y < 0) & (loss == "max"), hinge.max(axis=1), hinge.sum(axis=1))
    squares = (W**2).sum(axis=1)
    return (squares.max() if margin == "worst" else squares.sum()) + C @ paid


def certified(loss, margin, seed=0, **changes):
    """The certificate of the optimum for the assignment drawn, with some arguments changed."""
    X, y, C, z = drawn(seed)
    found = optimum(loss, margin, seed)
    point = {"W": found["W"], "alpha": found.duals["margin"], "assignment": z, **changes}
    return certify_cpm(X, y, C, loss=loss, margin=margin, **point)


def conditions(certificate):
    """The residuals by condition and constraint, but for that of the assignment."""
    return {(r.condition, r.row): r for r in certificate.residuals if r.row != "assignment"}


# -- programs ---------------------------------------------------------------------------------------


def test_two_readings_of_6_are_two_programs():
    """The example of the documentation: the literal (6) has another optimum than its unconstrained form."""
    X, y, directions = clusters(40, K, 0, widen=1.3)
    z, before = np.where(y > 0, (X @ directions.T).argmax(axis=1), -1), None
    while before is None or (before != z).any():  # to the fixed point the figures belong to
        total = cpm.fixed_assignment(X, y, K, z).solve()
        before, z = z, cpm.natural_assignment(X, y, total["W"])
    literal = cpm.fixed_assignment(X, y, K, z, loss="max").solve()
    assert literal.objective == pytest.approx(26.19, abs=5e-3)
    assert total.objective == pytest.approx(27.18, abs=5e-3)
    assert np.linalg.norm(literal["W"] - total["W"], axis=1).min() > 0.1


@by_loss
def test_objective_is_that_of_the_best_assignment(loss, rng):
    """The natural assignment costs least, and its cost is the objective."""
    X, y, C, _ = drawn()
    W = rng.normal(size=(K, 3))
    natural = cpm.natural_assignment(X, y, W)
    best = value(X, y, W, C, natural, loss)
    assert cpm.objective(X, y, W, C, loss) == pytest.approx(best)
    assert min(value(X, y, W, C, rng.integers(0, K, len(y)), loss) for _ in range(10)) >= best


@pytest.mark.parametrize("seed", [0, 1])
@by_loss
def test_primal_dual_shares_and_recovery(loss, seed):
    """The shares θ of the worst-case margin weight the faces; the dual's radius is the longest norm."""
    X, y, C, z = drawn(seed)
    primal, dual = (
        f(X, y, K, z, C, loss, "worst") for f in (cpm.fixed_assignment, cpm.fixed_assignment_dual)
    )
    p, d = optimum(loss, "worst", seed), dual.solve()
    assert p.objective == pytest.approx(value(X, y, p["W"], C, z, loss, "worst"), rel=1e-7)
    v = (cpm.lift(X).T @ (p.duals["margin"] * y[:, None])).T
    theta, radius = p.duals["norm"], d.duals["norm"]
    assert theta == pytest.approx(margin_weights(v), abs=1e-5)
    assert theta.sum() == pytest.approx(1.0, abs=1e-7)
    assert 2 * theta[:, None] * p["W"] == pytest.approx(v, abs=1e-4)
    assert (theta * ((p["W"] ** 2).sum(axis=1) - p["t"])) == pytest.approx(0.0, abs=1e-5)
    assert radius[0] == pytest.approx(np.sqrt(p["t"]), rel=1e-4)
    assert primal.value(cpm.recover(X, y, d["alpha"], loss, "worst", radius)) == pytest.approx(p.objective)
    if theta.min() > 1e-3:
        assert cpm.recover(X, y, d["alpha"], loss, "worst")["W"] == pytest.approx(p["W"], abs=1e-3)
        assert -radius[1:].T == pytest.approx(p["W"], abs=1e-3)


@by_loss
def test_face_without_alpha_is_recovered(loss):
    """Its two samples lie far beyond the others: v is 0, the face stands in the dual's multipliers."""
    X = np.array([[-3.0], [-3.1], [0.0], [0.4], [1.0], [1.2]])
    y, z = np.array([1, 1, -1, -1, 1, 1]), np.array([0, 0, -1, -1, 1, 1])
    primal, dual = (
        f(X, y, 2, z, 10.0, loss, "worst") for f in (cpm.fixed_assignment, cpm.fixed_assignment_dual)
    )
    p, d = primal.solve(), dual.solve()
    assert (p.status, d.status) == (Status.SOLVED, Status.SOLVED)
    theta = margin_weights((cpm.lift(X).T @ (d["alpha"] * y[:, None])).T)
    assert theta == pytest.approx([0.0, 1.0], abs=1e-6)
    assert certify_program(dual, d.primal, d.duals).worst.relative < 1e-8
    right = cpm.recover(X, y, d["alpha"], loss, "worst", d.duals["norm"])
    assert primal.value(right) == pytest.approx(p.objective, rel=1e-7)
    assert max(primal.violations(right).values()) < 1e-7
    without = cpm.recover(X, y, np.where(d["alpha"] < 1e-6, 0.0, d["alpha"]), loss, "worst")
    assert primal.value(without) > 2 * p.objective


@by_loss
def test_worst_is_within_a_kth_of_total(loss):
    """max‖W_k‖² ≥ ‖W‖²/K: costs times K make the worst case a bound on the total; one face has one margin."""
    X, y, C, z = drawn(1)
    total = optimum(loss, "total", 1).objective
    assert optimum(loss, "worst", 1).objective < total
    lifted = cpm.fixed_assignment(X, y, K, z, C / K, loss, "worst").solve()
    assert K * lifted.objective >= total * (1 - 1e-8)
    one = cpm.fixed_assignment(X, y, 1, 0 * y, C, loss, "worst").solve()
    assert one.objective == pytest.approx(cpm.face(X, y, C).solve().objective, rel=1e-8)


def test_negatives_share_a_slack():
    """Under the maximum a negative has one slack for all faces, a positive one for each."""
    assert cpm.slack_index([1, -1, 1, -1], 2).tolist() == [[0, 1], [2, 2], [3, 4], [5, 5]]


# -- certificates -----------------------------------------------------------------------------------


@by_kind
def test_optimum_of_assignment_is_proven(loss, margin):
    """Value, bound and conditions are those of the program, with its multipliers."""
    certificate = certified(loss, margin)
    assert certificate.relative_gap < 1e-7
    assert max(r.relative for r in conditions(certificate).values()) < 1e-5
    assert (("complementarity", "norm") in conditions(certificate)) == (margin == "worst")
    assert certificate.primal_value == pytest.approx(optimum(loss, margin).objective, rel=1e-7)


@by_kind
def test_bound_is_found_without_multipliers(loss, margin):
    """Only the total margin with shared slack leaves a gap: the split of the costs is guessed."""
    certificate = certified(loss, margin, alpha=None)
    best = optimum(loss, margin).objective
    assert certificate.dual_value <= best * (1 + 1e-9)
    assert certificate.relative_gap < (0.2 if (loss, margin) == ("max", "total") else 1e-5)


@by_kind
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_bound_holds_for_any_vectors(loss, margin, scale, rng):
    """Faces and multipliers at random prove no more than the optimum of the assignment."""
    X, y, C, z = drawn()
    best = optimum(loss, margin).objective
    W, alpha = rng.normal(size=(K, 3)), scale * rng.normal(size=(len(y), K))
    for point in ({"W": W}, {"alpha": alpha}, {"W": W, "alpha": alpha}):
        certificate = certify_cpm(X, y, C, loss=loss, margin=margin, assignment=z, max_iter=50, **point)
        assert certificate.dual_value <= best * (1 + 1e-9) <= certificate.primal_value * (1 + 2e-9)
        assert certificate.claim is Claim.SUBOPTIMAL_BY


@by_kind
def test_moved_face_fails(loss, margin):
    """The stationarity of the face that moved is off by twice its share of the step."""
    found = optimum(loss, margin)
    k = int(found.duals["norm"].argmax()) if margin == "worst" else 1
    share = found.duals["norm"][k] if margin == "worst" else 1.0
    W = found["W"].copy()
    W[k, 0] += 1e-2
    certificate = certified(loss, margin, W=W)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.gap > 1e-8
    moved = conditions(certificate)["stationarity", f"w(face {k})"]
    assert (moved.worst, moved.value) == (0, pytest.approx(2e-2 * share, rel=1e-2))


@by_kind
def test_wrong_sign_fails(loss, margin):
    """A multiplier below 0 is told by its face and sample."""
    alpha, i = optimum(loss, margin).duals["margin"].copy(), 3 + int(np.argmax(drawn()[1] < 0))
    alpha[i, 2] = -0.25
    certificate = certified(loss, margin, alpha=alpha)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    labels = {r.label: r for r in certificate.residuals}
    assert labels[f"sign of margin(face 2)[{i}]"].value == pytest.approx(0.25)
    assert labels[f"sign of margin(face 2)[{i}]"].relative > 0.1


@by_loss
def test_faces_share_costs_under_the_maximum_only(loss):
    """Multipliers of a negative within each cap break the sum of the faces only where slack is shared."""
    _, y, C, _ = drawn()
    alpha, i = optimum(loss, "total").duals["margin"].copy(), int(np.flatnonzero(y < 0)[0])
    alpha[i] = 0.9 * C[i]
    found = conditions(certified(loss, "total", alpha=alpha))["sign", "slack"]
    if loss == "max":
        assert (found.worst, found.value) == (i, pytest.approx(1.7 * C[i]))
    else:
        assert found.value < 1e-9


@by_loss
def test_multiplier_at_another_face_fails(loss):
    """A positive has multipliers at its own face alone."""
    _, y, C, z = drawn()
    alpha, i = optimum(loss, "total").duals["margin"].copy(), int(np.flatnonzero(y > 0)[0])
    alpha[i, (z[i] + 1) % K] = 0.5 * C[i]
    signs = [r for (kind, row), r in conditions(certified(loss, "total", alpha=alpha)).items()
             if kind == "sign" and row.startswith("slack")]  # fmt: skip
    assert any(r.worst == i and r.relative > 0.1 for r in signs)


@by_loss
def test_fixed_point_is_stationary_and_no_more(loss):
    """Its own assignment is natural: stationary, by the multipliers alone too; another may be better."""
    X, y, C, z = drawn()
    for _ in range(50):
        found = cpm.fixed_assignment(X, y, K, z, C, loss).solve()
        before, z = z, cpm.natural_assignment(X, y, found["W"])
        if (before == z).all():
            break
    given_ = {"alpha": found.duals["margin"], "loss": loss}
    certificate = certify_cpm(X, y, C, W=found["W"], assignment=z, **given_)
    assert certificate.claim is Claim.STATIONARY
    assert "Another assignment may have a lower optimum" in certificate.sentence
    assert certify_cpm(X, y, C, **given_).claim is Claim.STATIONARY


@by_loss
def test_one_face_may_be_optimal(loss):
    """One face has one assignment: with multipliers or without it is optimal, moved by a percent not."""
    X, y, C, _ = drawn()
    found = cpm.fixed_assignment(X, y, 1, 0 * y, C, loss).solve()
    for alpha in (found.duals["margin"], None):
        assert certify_cpm(X, y, C, W=found["W"], alpha=alpha, loss=loss).claim is Claim.OPTIMAL
    assert certify_cpm(X, y, C, W=1.01 * found["W"], loss=loss).claim is Claim.SUBOPTIMAL_BY


def test_poor_assignment_is_not_stationary():
    """The optimum for an assignment that its own faces would change is optimal for that program alone."""
    X, y, C, z = drawn()
    z = np.where(y > 0, (z + 1) % K, -1)
    z[np.flatnonzero(y > 0)[::2]] = 0
    found = cpm.fixed_assignment(X, y, K, z, C).solve()
    certificate = certify_cpm(X, y, C, W=found["W"], alpha=found.duals["margin"], assignment=z)
    assert certificate.relative_gap < 1e-9
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.worst.row == "assignment"
    assert "the fixed-assignment program" in certificate.sentence


@pytest.mark.parametrize(
    ("penalty", "effort"),
    [(None, "in at most 30 rounds"), (FacePenalty.of(63, l1=0.1), "to a relative gap of 0.0001")],
    ids=["no penalty", "l1"],
)
def test_less_effort_for_large_data_is_told(penalty, effort):
    """Half a million entries have less effort, which the note says; fewer, or as few rounds asked, do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 63))
    y, W = np.sign(X[:, 0] + rng.normal(size=8000)), 0.1 * rng.normal(size=(2, 64))
    assert effort in certify_cpm(X, y, W=W, penalty=penalty).note
    assert "X is large" not in certify_cpm(X[:500], y[:500], W=W, penalty=penalty).note
    if penalty is None:
        assert "X is large" not in certify_cpm(X, y, W=W, max_iter=30).note


REFUSED = {
    "no point": ({}, r"primal point \(W\)"),
    "shape of W": ({"W": np.ones((2, 2))}, "W must be finite, of shape K x 3; its shape is "),
    "alpha": ({"alpha": np.full((40, 2), np.nan)}, "alpha must be finite"),
    "loss": ({"W": np.ones((2, 3)), "loss": "mean"}, "'sum' or 'max', not 'mean'"),
    "margin": ({"W": np.ones((2, 3)), "margin": "mean"}, "margin must be 'total' or 'worst', not 'mean'"),
    "penalty": (
        {"W": np.ones((2, 3)), "penalty": FacePenalty.of(3, l1=1.0)},
        "penalty must be for 2 features, not 3",
    ),
    "coupled penalty": (
        {"W": np.ones((2, 3)), "penalty": FacePenalty.of(2, l1=1.0), "loss": "max"},
        "needs loss='sum' and margin='total'",
    ),
}


@pytest.mark.parametrize(("point", "sentence"), REFUSED.values(), ids=REFUSED)
def test_certificate_refuses_wrong_input(point, sentence):
    """What is not a point, a loss or a margin is named."""
    X, y, *_ = drawn()
    with pytest.raises(ValueError, match=sentence):
        certify_cpm(X, y, **point)


# -- alternation and search -------------------------------------------------------------------------


@by_loss
def test_worst_case_alternation_ends_stationary(loss):
    """The objective never rises, and its end is a fixed point."""
    X, y, C, _ = drawn()
    longest = 0
    for seed in range(3):
        directions = np.random.default_rng(seed).normal(size=(2, K))  # poor starts, with something to move
        problem = PolytopeProblem(X, y, C, K, loss, "worst")
        end = run_rounds(problem, np.where(y > 0, (X @ directions).argmax(axis=1), -1))
        values = [record["objective"] for record in end.history]
        assert (np.diff(values) <= 1e-7 * values[0]).all()
        longest = max(longest, len(values))
        z, given_ = end["assignment"], {"loss": loss, "margin": "worst", "tol": 1e-4}
        certificate = certify_cpm(X, y, C, W=end["W"], alpha=end.duals["margin"], assignment=z, **given_)
        assert certificate.claim is Claim.STATIONARY
        assert end.objective == pytest.approx(value(X, y, end["W"], C, z, loss, "worst"), rel=1e-9)
    assert longest >= 3


@cache
def searched():
    X, y, _ = clusters(24, 3, 4, widen=1.8)
    C = np.random.default_rng(4).uniform(0.5, 2.0, len(y))
    return X, y, C, solve_cpm_global(X, y, C, 3)


def test_bound_of_search_makes_optimal():
    """The global optimum is stationary alone, and optimal with the bound of its own search."""
    X, y, C, best = searched()
    point = {"W": best["W"], "alpha": best.duals["margin"], "assignment": best["assignment"]}
    assert certify_cpm(X, y, C, **point).claim is Claim.STATIONARY
    certificate = certify_cpm_search(X, y, C, best)
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.scope == "the Convex Polytope Machine"
    assert "this package's own branch and bound over all assignments" in certificate.sentence
    assert certificate.dual_value == best.bound


def test_worse_fixed_point_is_suboptimal():
    """A fixed point far from the optimum is suboptimal by its distance; so are points moved by little."""
    X, y, C, best = searched()
    z = np.where(y > 0, 0, -1)  # all on one face
    found = cpm.fixed_assignment(X, y, 3, z, C).solve()

    def searched_at(W, alpha, z=best["assignment"]):
        point = replace(best, primal={"W": W, "assignment": z}, duals={"margin": alpha})
        return certify_cpm_search(X, y, C, point)

    certificate = searched_at(found["W"], found.duals["margin"], z)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.eps == pytest.approx(cpm.objective(X, y, found["W"], C) - best.bound)
    assert certificate.eps > 0.01 * best.objective
    assert "of the optimum of the Convex Polytope Machine" in certificate.sentence
    W, alpha = best["W"].copy(), best.duals["margin"]
    W[0, 0] += 1e-2
    assert searched_at(W, alpha).claim is Claim.SUBOPTIMAL_BY
    assert searched_at(best["W"], alpha + 0.1).claim is Claim.SUBOPTIMAL_BY
