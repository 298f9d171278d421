"""The Convex Polytope Machine: its programs, what the paper takes for one and is two, its certificates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cpm import LOSSES, clusters
from sklearn.svm import LinearSVC

from formulations import cpm
from formulations.face_penalty import FacePenalty
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.cpm.certificate import CpmPoint, ascend_faces, certify_cpm
from polyopt.margin.geometry import LinearGeometry


@pytest.fixture(params=[0, 1, 2])
def fixed(request):
    """Overlapping data with an assignment: X, y, K, assignment, costs."""
    X, y, directions = clusters(40, 3, request.param, widen=1.5)
    costs = np.random.default_rng(request.param).uniform(0.5, 2.0, len(y))
    return X, y, 3, np.where(y > 0, (X @ directions.T).argmax(axis=1), -1), costs


# -- programs ------------------------------------------------------------------------------


def test_the_two_readings_of_6_are_two_programs():
    # The example of FORMULATIONS: three clusters, negatives pushed out by 1.3, C = 1.
    X, y, directions = clusters(40, 3, 0, widen=1.3)
    z = np.where(y > 0, (X @ directions.T).argmax(axis=1), -1)
    for _ in range(20):  # to the fixed point the figures belong to
        total = cpm.fixed_assignment(X, y, 3, z).solve()
        z = cpm.natural_assignment(X, y, total["W"])
    literal = cpm.fixed_assignment(X, y, 3, z, loss="max").solve()
    assert literal.objective == pytest.approx(26.19, abs=5e-3)
    assert total.objective == pytest.approx(27.18, abs=5e-3)
    assert np.linalg.norm(literal["W"] - total["W"], axis=1).min() > 0.1


def test_the_sum_is_independent_faces_and_the_max_is_not(fixed):
    X, y, K, z, C = fixed
    faces = [cpm.face(X, y, costs).solve() for costs in (C[:, None] * cpm.assignment_matrix(y, K, z)).T]
    together = np.array([face["w"] for face in faces])
    total = cpm.fixed_assignment(X, y, K, z, C, "sum").solve()
    assert total.objective == pytest.approx(sum(face.objective for face in faces), rel=1e-9)
    assert total["W"] == pytest.approx(together, abs=1e-7)
    assert total.duals["margin"] == pytest.approx(np.stack([f.duals["margin"] for f in faces], 1), abs=1e-5)
    literal = cpm.fixed_assignment(X, y, K, z, C, "max").solve()
    assert literal.objective < total.objective - 1e-3
    assert np.abs(literal["W"] - together).max() > 1e-2


def test_one_face_is_liblinear_s_machine_of_half_the_cost(fixed):
    X, y, _, _, _ = fixed
    ours = cpm.face(X, y, 1.6).solve()
    theirs = LinearSVC(loss="hinge", C=0.8, fit_intercept=False, tol=1e-9, max_iter=1_000_000, random_state=0)
    assert ours["w"] == pytest.approx(theirs.fit(cpm.lift(X), y).coef_[0], abs=1e-6)


@pytest.mark.parametrize("K", [1, 2, 5])
def test_the_max_is_at_most_the_sum_and_equal_for_one_face(K, fixed, rng):
    X, y, _, _, C = fixed
    for _ in range(20):
        W = rng.normal(size=(K, 3))
        largest, total = cpm.objective(X, y, W, C, "max"), cpm.objective(X, y, W, C, "sum")
        assert largest <= total + 1e-12
        assert (largest == pytest.approx(total)) == (K == 1)


@pytest.mark.parametrize("loss", LOSSES)
def test_J_is_the_program_at_the_best_assignment(loss, fixed, rng):
    X, y, K, _, C = fixed
    W = rng.normal(size=(K, 3))
    values = []
    for z in [cpm.natural_assignment(X, y, W)] + [rng.integers(0, K, len(y)) for _ in range(10)]:
        program = cpm.fixed_assignment(X, y, K, z, C, loss)
        hinge = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ W.T))
        xi = hinge
        if loss == "max":
            places = cpm.slack_index(y, K)
            xi = np.array([hinge[places == place].max() for place in range(places.max() + 1)])
        point = {"W": W, "xi": xi}
        assert max(program.violations(point).values()) < 1e-12
        values.append(program.value(point))
    assert cpm.objective(X, y, W, C, loss) == pytest.approx(values[0])
    assert min(values) == values[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_new_assignment_needs_no_new_program(loss, fixed, rng):
    X, y, K, z, C = fixed
    program = cpm.fixed_assignment(X, y, K, z, C, loss)
    program.solve()
    assert program.problem.is_dpp()
    other = rng.integers(0, K, len(y))
    again = program.set(Z=cpm.assignment_matrix(y, K, other), C=2 * C).solve()
    fresh = cpm.fixed_assignment(X, y, K, other, 2 * C, loss).solve()
    assert again.objective == pytest.approx(fresh.objective, rel=1e-9)
    assert again["W"] == pytest.approx(fresh["W"], abs=1e-7)


def test_sparse_data_make_the_same_program(fixed):
    X, y, K, z, C = fixed
    for loss in LOSSES:
        dense, sparse = (cpm.fixed_assignment(A, y, K, z, C, loss).solve() for A in (X, sp.csr_matrix(X)))
        assert sparse["W"] == pytest.approx(dense["W"], abs=1e-7)


def test_places_of_the_shared_slacks():
    assert cpm.slack_index([1, -1, 1, -1], 2).tolist() == [[0, 1], [2, 2], [3, 4], [5, 5]]


def test_a_wrong_assignment_is_refused():
    with pytest.raises(ValueError, match=r"from 0 to 1 at every positive, not 0 to 2"):
        cpm.assignment_matrix([1, -1, 1], 2, [0, -1, 2])
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        cpm.assignment_matrix([1, -1, 1], 2, [0, 1])
    with pytest.raises(ValueError, match="n_faces"):
        cpm.fixed_assignment([[1.0], [2.0]], [1, -1], 0, [0, 0])
    with pytest.raises(ValueError, match="'sum' or 'max', not 'hinge'"):
        cpm.objective([[1.0], [2.0]], [1, -1], np.ones((1, 2)), 1.0, "hinge")


# -- certificates --------------------------------------------------------------------------


def fixed_point(X, y, K, z, C, loss):
    for _ in range(50):
        solution = cpm.fixed_assignment(X, y, K, z, C, loss).solve()
        following = cpm.natural_assignment(X, y, solution["W"])
        if (following == z).all():
            return solution, z
        z = following
    raise AssertionError("no fixed point")


@pytest.fixture(params=LOSSES)
def stationary(request, fixed):
    """Data, costs and loss as arguments of the certificate, and a fixed point with its multipliers."""
    X, y, K, z, C = fixed
    solution, z = fixed_point(X, y, K, z, C, request.param)
    point = {"W": solution["W"], "alpha": solution.duals["margin"], "assignment": z}
    return (X, y, C), request.param, point


def test_a_fixed_point_is_stationary_and_no_more(stationary):
    data, loss, point = stationary
    certificate = certify_cpm(*data, loss=loss, **point)
    assert certificate.claim is Claim.STATIONARY
    assert certificate.relative_gap < 1e-9
    assert certificate.worst.relative < 1e-6
    assert certificate.primal_value == pytest.approx(
        cpm.objective(data[0], data[1], point["W"], data[2], loss)
    )
    assert "Another assignment may have a lower optimum" in certificate.sentence
    # The multipliers alone say the same: they hold W and, where they are not zero, the assignment.
    assert certify_cpm(*data, loss=loss, alpha=point["alpha"]).claim is Claim.STATIONARY


@pytest.mark.parametrize("loss", LOSSES)
def test_one_face_may_be_optimal(loss, fixed):
    X, y, _, _, C = fixed
    solution = cpm.fixed_assignment(X, y, 1, 0 * y, C, loss).solve()
    certificate = certify_cpm(X, y, C, W=solution["W"], alpha=solution.duals["margin"], loss=loss)
    assert certificate.claim is Claim.OPTIMAL
    assert certify_cpm(X, y, C, W=solution["W"], loss=loss).claim is Claim.OPTIMAL
    assert certify_cpm(X, y, C, W=1.01 * solution["W"], loss=loss).claim is Claim.SUBOPTIMAL_BY


def test_a_moved_point_fails(stationary):
    data, loss, point = stationary
    W = point["W"].copy()
    W[1, 0] += 1e-3
    certificate = certify_cpm(*data, loss=loss, **{**point, "W": W})
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    moved = next(r for r in certificate.residuals if r.row == "w(face 1)")
    assert moved.worst == 0
    assert moved.value == pytest.approx(2e-3, rel=1e-3)  # of 2W = Σ alpha y x
    assert certificate.gap > 1e-8


def test_a_wrong_sign_fails(stationary):
    data, loss, point = stationary
    alpha = point["alpha"].copy()
    i = int(np.flatnonzero(data[1] < 0)[3])
    alpha[i, 2] = -0.25
    certificate = certify_cpm(*data, loss=loss, **{**point, "alpha": alpha})
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    labels = {r.label: r for r in certificate.residuals}
    assert labels[f"sign of margin(face 2)[{i}]"].value == pytest.approx(0.25)
    assert labels[f"sign of margin(face 2)[{i}]"].relative > 0.1


def test_the_faces_share_a_negative_s_cost_under_the_max_only(stationary):
    (X, y, C), loss, point = stationary
    alpha = point["alpha"].copy()
    i = int(np.flatnonzero(y < 0)[0])
    alpha[i] = 0.9 * C[i]  # within each cap, beyond the sum of them
    rows = {
        (r.condition, r.row): r
        for r in certify_cpm(X, y, C, loss=loss, **{**point, "alpha": alpha}).residuals
    }
    if loss == "max":
        assert rows["sign", "slack"].value == pytest.approx(1.7 * C[i])
        assert rows["sign", "slack"].worst == i
    else:
        assert rows["sign", "slack"].value < 1e-9


def test_a_multiplier_of_a_face_that_does_not_answer_fails(stationary):
    (X, y, C), loss, point = stationary
    i = int(np.flatnonzero(y > 0)[0])
    alpha = point["alpha"].copy()
    alpha[i, (point["assignment"][i] + 1) % 3] = 0.5 * C[i]
    certificate = certify_cpm(X, y, C, loss=loss, **{**point, "alpha": alpha})
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert any(r.condition == "sign" and r.row.startswith("slack") and r.worst == i and r.relative > 0.1
               for r in certificate.residuals)  # fmt: skip


def test_an_optimum_for_a_poor_assignment_is_not_stationary(fixed):
    X, y, K, z, C = fixed
    z = np.where(y > 0, (z + 1) % K, -1)
    z[np.flatnonzero(y > 0)[::2]] = 0
    solution = cpm.fixed_assignment(X, y, K, z, C).solve()
    certificate = certify_cpm(X, y, C, W=solution["W"], alpha=solution.duals["margin"], assignment=z)
    assert certificate.relative_gap < 1e-9
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.worst.row == "assignment"
    assert "the fixed-assignment program" in certificate.sentence


@pytest.mark.parametrize("loss", LOSSES)
def test_the_bound_holds_for_any_vectors(loss, fixed, rng):
    X, y, K, z, C = fixed
    optimum = cpm.fixed_assignment(X, y, K, z, C, loss).solve().objective
    for scale in (0.1, 1.0, 10.0):
        W, alpha = rng.normal(size=(K, 3)), scale * rng.normal(size=(len(y), K))
        for given in ({"W": W}, {"alpha": alpha}, {"W": W, "alpha": alpha}):
            certificate = certify_cpm(X, y, C, loss=loss, assignment=z, max_iter=50, **given)
            assert certificate.dual_value <= optimum * (1 + 1e-9) <= certificate.primal_value * (1 + 2e-9)
            assert certificate.claim is Claim.SUBOPTIMAL_BY


def test_a_bound_is_found_without_multipliers(stationary):
    data, loss, point = stationary
    del point["alpha"]
    certificate = certify_cpm(*data, loss=loss, **point)
    if loss == "sum":
        assert certificate.claim is Claim.STATIONARY
    else:  # a split of the shared costs is only guessed
        assert certificate.claim is Claim.SUBOPTIMAL_BY
        assert certificate.relative_gap < 0.2


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


def test_a_certificate_refuses_what_it_cannot_read():
    X, y = two_blobs()
    with pytest.raises(ValueError, match=r"primal point \(W\)"):
        certify_cpm(X, y)
    with pytest.raises(ValueError, match="W must be finite, of shape K x 4; its shape is "):
        certify_cpm(X, y, W=np.ones((2, 3)))
    with pytest.raises(ValueError, match="alpha must be finite"):
        certify_cpm(X, y, alpha=np.full((40, 2), np.nan))
    with pytest.raises(ValueError, match="'sum' or 'max'"):
        certify_cpm(X, y, W=np.ones((2, 4)), loss="mean")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_coordinate_ascent_reaches_the_optimum_from_below(form, fixed):
    X, y, K, z, C = fixed
    shares = np.random.default_rng(0).uniform(0.2, 1.0, (len(y), K))
    for costs in (C, C[:, None] * shares):
        caps = np.broadcast_to(costs[:, None] if costs.ndim == 1 else costs, (len(y), K))
        caps = caps * cpm.assignment_matrix(y, K, z)
        optimum = sum(cpm.face(X, y, column).solve().objective for column in caps.T)
        Z = cpm.assignment_matrix(y, K, z)
        point = CpmPoint(
            LinearGeometry(cpm.lift(form(X))), y, C, Z, np.zeros((K, X.shape[1] + 1)), None, False
        )
        alpha = ascend_faces(point, np.broadcast_to(caps, Z.shape), 1e-9, 30, optimum)
        assert (alpha >= 0).all()
        assert (alpha <= caps).all()
        value = alpha.sum() - (cpm.recover(X, y, alpha)["W"] ** 2).sum()
        assert optimum * (1 - 1e-8) <= value <= optimum * (1 + 1e-9)


def test_faces_alone_are_bounded_by_coordinate_ascent(fixed):
    X, y, K, z, C = fixed
    solution, z = fixed_point(X, y, K, z, C, "sum")
    certificate = certify_cpm(X, y, C, W=solution["W"], tol=1e-5)
    assert certificate.dual_value <= solution.objective * (1 + 1e-9)
    assert certificate.relative_gap < 0.01
