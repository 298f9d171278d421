"""Hard margins, programs (1) to (5): duality, certificates, rays, and what follows from what."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from formulations import cpm_margins
from formulations.language.solution import Status
from formulations.language.toy_data import separated_clusters
from formulations.polytope import assignment_matrix, face_margins, lift
from polyopt.certificates import Claim, certify_program
from polyopt.cpm.certificate_hard import certify_cpm_hard

K = 3
MARGINS = ["total", "worst"]
MEASURES = ["norms", "margins"]


@pytest.fixture(params=[0, 1])
def data(request):
    return separated_clusters(n=18, seed=request.param)


def solved(X, y, z, margin):
    """The point of (4)-(5), and its multipliers as (n, K)."""
    found = getattr(cpm_margins, f"hard_{margin}")(X, y, K, z).solve()
    return found["W"], cpm_margins.MarginRows.of(X, y, K, z).as_matrix(found.duals["margin"])


def by_hand(W, Z, X, y, margin, measure):
    """What is stated of faces, from the definition: each scaled to its own margin."""
    margins = np.where(Z > 0, y[:, None] * (lift(X) @ W.T), np.inf).min(axis=0) / np.linalg.norm(W, axis=1)
    if measure == "margins":
        return margins.sum() if margin == "total" else margins.min()
    return (margins**-2.0).sum() if margin == "total" else (margins**-2.0).max()


def on_own_faces(X, y, z):
    """An assignment of all samples: each negative on the face whose cluster lies in its direction."""
    nearest = (X @ np.array([X[z == k].mean(axis=0) for k in range(K)]).T).argmax(axis=1)
    return np.where(y > 0, z, nearest)


# -- programs ------------------------------------------------------------------------------


def test_one_sample_a_side_by_hand():
    """A positive at 2 and a negative at 0: w·(2,1) = 1 and w·(0,1) = −1, so w = (1, −1)."""
    X, y = np.array([[2.0], [0.0]]), np.array([1, -1])
    assert cpm_margins.hard_total(X, y, 1, [0, 0]).solve()["W"] == pytest.approx(np.array([[1.0, -1.0]]))
    assert cpm_margins.hard_face(X, y).solve().objective == pytest.approx(np.sqrt(2))
    for margin in MARGINS:
        assert getattr(cpm_margins, margin)(X, y, 1, [0, 0]).solve().objective == pytest.approx(np.sqrt(0.5))
    # As printed with one face there is no choice: the same machine again.
    assert cpm_margins.printed(X, y, 1, [0, 0]).solve().objective == pytest.approx(np.sqrt(0.5))


def test_a_face_that_wiggles_has_no_share_and_may_turn(data):
    """The worst case is decided by the face that is nearest; another may be turned and stays optimal."""
    X, y, z = data
    found = cpm_margins.hard_worst(X, y, K, z).solve()
    theta = found.duals["norm"]
    assert theta.sum() == pytest.approx(1.0, abs=1e-6)
    k = int(theta.argmin())
    assert theta[k] == pytest.approx(0.0, abs=1e-5)
    value = found.objective
    turned = found["W"].copy()
    turned[k] = cpm_margins.hard_total(X, y, K, z).solve()["W"][k]  # its own shortest
    assert np.linalg.norm(turned[k] - found["W"][k]) > 1e-3
    alpha = cpm_margins.MarginRows.of(X, y, K, z).as_matrix(found.duals["margin"])
    for W in (found["W"], turned):
        certificate = certify_cpm_hard(X, y, W=W, alpha=alpha, assignment=z, margin="worst")
        assert certificate.claim is Claim.STATIONARY
        assert certificate.primal_value == pytest.approx(value, rel=1e-6)
    assert certify_cpm_hard(X, y, W=turned, assignment=z).claim is Claim.SUBOPTIMAL_BY  # by the total


def test_the_printed_bound_is_the_total_margin_at_norms_of_one():
    """Where all norms are one at the optimum; else it is a bound."""
    attained = 0
    for seed in range(4):
        X, y, z = separated_clusters(n=12, seed=seed)
        found = cpm_margins.printed(X, y, K, on_own_faces(X, y, z)).solve()
        lengths = np.linalg.norm(found["W"], axis=1)
        units = found["W"] / lengths[:, None]
        natural = (lift(X) @ units.T).argmax(axis=1)
        margins, samples = face_margins(X, y, found["W"])
        assert samples.tolist() == np.bincount(natural, minlength=K).tolist()
        if lengths.min() > 1 - 1e-7:
            attained += 1
            assert margins.sum() == pytest.approx(found.objective, rel=1e-6)
        # Scaled up, the faces have samples of others; the bound is for the assignment that they make.
        if (np.bincount(natural, minlength=K) > 0).all():
            assert margins.sum() <= cpm_margins.printed(X, y, K, natural).solve().objective + 1e-7
    assert 0 < attained < 4


def test_as_printed_a_face_without_samples_is_refused():
    X, y, _ = separated_clusters(n=12)
    with pytest.raises(ValueError, match="face 1 has none: its margin, a minimum over no samples, is unb"):
        cpm_margins.printed(X, y, 2, np.zeros(12))
    with pytest.raises(ValueError, match="from 0 to 1 at every sample"):
        cpm_margins.printed(X, y, 2, np.full(12, -1))


def test_sparse_samples_make_the_same_programs(data):
    X, y, z = data
    for make in (
        cpm_margins.hard_total,
        cpm_margins.hard_worst_dual,
        cpm_margins.worst,
        cpm_margins.total_dual,
    ):
        dense, sparse = (make(A, y, K, z).solve().objective for A in (X, sp.csr_array(X)))
        assert dense == pytest.approx(sparse, rel=1e-8)


# -- certificates --------------------------------------------------------------------------


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("margin", MARGINS)
def test_the_certificate_of_an_optimum_and_of_points_beside_it(margin, measure, data):
    X, y, z = data
    W, alpha = solved(X, y, z, margin)
    asked = {"assignment": z, "margin": margin, "measure": measure}
    optimum = by_hand(W, assignment_matrix(y, K, z), X, y, margin, measure)
    for point in ({"W": W, "alpha": alpha}, {"W": W}, {"W": 3.0 * W, "alpha": 0.5 * alpha}):
        certificate = certify_cpm_hard(X, y, **point, **asked)
        assert certificate.claim is Claim.STATIONARY, certificate
        assert (certificate.sense, certificate.gap >= 0.0) == (
            "maximise" if measure == "margins" else "minimise", True,
        )  # fmt: skip
        assert certificate.primal_value == pytest.approx(optimum, rel=1e-6)
        assert certificate.dual_value == pytest.approx(optimum, rel=1e-6)
    k = int(np.linalg.norm(W, axis=1).argmax())
    turned = W.copy()
    turned[k, 0] *= 1.01
    beside = certify_cpm_hard(X, y, W=turned, alpha=alpha, **asked)
    assert beside.claim is Claim.SUBOPTIMAL_BY
    assert beside.gap > 1e-3 * abs(optimum)
    assert {r.row for r in beside.residuals if r.relative > 1e-3} >= {f"w(face {k})", f"margin(face {k})"}
    wrong = alpha.copy()
    i = int(np.flatnonzero(y < 0)[0])
    wrong[i, k] = -0.25 * alpha.max()
    signs = {r.label: r.relative for r in certify_cpm_hard(X, y, W=W, alpha=wrong, **asked).residuals}
    assert signs[f"sign of margin(face {k})[{i}]"] == pytest.approx(0.25)
    # A multiplier of a face that does not answer for the sample.
    stray = alpha.copy()
    j = int(np.flatnonzero(z == (k + 1) % K)[0])
    stray[j, k] = 0.5 * alpha.max()
    assert certify_cpm_hard(X, y, W=W, alpha=stray, **asked).claim is Claim.SUBOPTIMAL_BY


def test_one_face_is_optimal_and_the_multipliers_alone_imply_it():
    X, y, z = separated_clusters(n=18)
    own = (y < 0) | (z == 0)
    X, y = X[own], y[own]
    dual = cpm_margins.hard_face_dual(X, y).solve()
    certificate = certify_cpm_hard(X, y, alpha=dual["alpha"][:, None], assignment=0 * y)
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.primal_value == pytest.approx(dual.objective**2, rel=1e-6)
    assert "Another assignment" not in certificate.sentence


@given(st.integers(0, 10**6))
def test_the_bounds_hold_for_any_vectors(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(7, 2)).astype(float)
    y = np.r_[np.ones(4), -np.ones(3)]
    z, margin, measure = rng.integers(0, 2, 7), str(rng.choice(MARGINS)), str(rng.choice(MEASURES))
    best = getattr(cpm_margins, margin)(X, y, 2, z).solve()
    zeta = np.maximum(best["zeta"], 0.0)
    sense = 1.0 if measure == "norms" else -1.0
    with np.errstate(divide="ignore"):
        optimum = sense * (zeta.sum() if measure == "margins" else (zeta**-2.0).sum())
    separable = bool((zeta > 1e-7).all())
    for point in (
        {"W": rng.normal(size=(2, 3)), "alpha": rng.normal(size=(7, 2))},
        {"alpha": rng.integers(0, 3, size=(7, 2)) * 1.0},
        {"W": best["W"] + 1e-3 * rng.normal(size=(2, 3))},
    ):
        found = certify_cpm_hard(X, y, assignment=z, margin=margin, measure=measure, **point)
        if found.claim is Claim.INFEASIBLE:
            assert not separable
        elif separable:
            assert sense * found.dual_value <= optimum + 1e-6 * abs(optimum)
            assert sense * found.primal_value >= optimum - 1e-6 * abs(optimum)
        else:
            assert found.claim in (Claim.NONE, Claim.SUBOPTIMAL_BY)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("margin", MARGINS)
def test_lengths_count_at_no_scale(margin, measure, data):
    X, y, z = data
    W, alpha = solved(X, y, z, margin)
    asked = {"assignment": z, "margin": margin, "measure": measure}
    plain = certify_cpm_hard(X, y, W=W, alpha=alpha, **asked)
    for one, other in ((1e200, 1e-200), (1e-200, 1e200), (1e-300, 1e-290)):
        found = certify_cpm_hard(X, y, W=one * W, alpha=other * alpha, **asked)
        assert found.claim is Claim.STATIONARY
        assert found.primal_value == pytest.approx(plain.primal_value, rel=1e-12)
        assert found.dual_value == pytest.approx(plain.dual_value, rel=1e-12)
    # No multipliers prove nothing; a face of zeros separates nothing.
    for point in ({"W": W, "alpha": 0.0 * alpha}, {"W": W * [[0.0], [1.0], [1.0]], "alpha": alpha}):
        found = certify_cpm_hard(X, y, **point, **asked)
        assert found.claim in (Claim.NONE, Claim.SUBOPTIMAL_BY)
        assert found.gap > 0.0


def test_a_certificate_needs_something_and_knows_its_words():
    with pytest.raises(ValueError, match=r"a primal point \(W\), multipliers \(alpha\), or both"):
        certify_cpm_hard([[1.0], [2.0]], [1, -1])
    with pytest.raises(ValueError, match="measure must be 'norms' or 'margins', not 'inches'"):
        certify_cpm_hard([[1.0], [2.0]], [1, -1], W=np.ones((1, 2)), measure="inches")


# -- what cannot be separated --------------------------------------------------------------


@pytest.mark.parametrize("margin", MARGINS)
def test_what_cannot_be_separated_is_infeasible_by_a_ray(margin):
    """The positive lies in the middle of two negatives: 2 x̃ of it less theirs is 0."""
    X, y, z = np.array([[0.0], [1.0], [-1.0], [3.0]]), np.array([1, -1, -1, 1]), [0, -1, -1, 1]
    assert getattr(cpm_margins, f"hard_{margin}")(X, y, 2, z).solve().status is Status.INFEASIBLE
    W = np.array([[0.0, 1.0], [1.0, -2.0]])
    for alpha in (None, np.array([[2.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])):
        found = certify_cpm_hard(X, y, W=W, alpha=alpha, assignment=z, margin=margin)
        assert found.claim is Claim.INFEASIBLE
    # Multipliers that are off prove nothing, and neither does a face that separates.
    off = np.array([[2.0, 0.0], [1.0, 1.0], [1.1, 0.0], [0.0, 1.0]])
    found = certify_cpm_hard(X, y, W=W, alpha=off, assignment=z, margin=margin)
    assert found.claim is Claim.NONE
    assert "does not separate" in found.sentence
    # The margins have an optimum all the same: 0 for the face that cannot.
    assert np.min(getattr(cpm_margins, margin)(X, y, 2, z).solve()["zeta"]) == pytest.approx(0.0, abs=1e-7)


def test_drawn_data_that_cannot_be_separated_get_a_sentence():
    """Without a rational ray at hand nothing is proven, and nothing is claimed."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), np.r_[np.ones(6), -np.ones(6)]
    found = certify_cpm_hard(X, y, W=rng.normal(size=(2, 3)), assignment=np.arange(12) % 2)
    assert found.claim in (Claim.NONE, Claim.INFEASIBLE)
    assert "separate" in found.sentence or found.claim is Claim.INFEASIBLE
    assert not found.primal_value < np.inf


# -- degenerate data -----------------------------------------------------------------------


def test_repeated_samples_and_constant_features_change_nothing():
    X, y, z = separated_clusters(n=12)
    twice = np.r_[np.c_[X, np.zeros(12)], np.c_[X, np.zeros(12)]]
    for margin in MARGINS:
        W, _ = solved(X, y, z, margin)
        again, alpha = solved(twice, np.r_[y, y], np.r_[z, z], margin)
        certificate = certify_cpm_hard(twice, np.r_[y, y], W=again, alpha=alpha, margin=margin)
        assert certificate.claim is Claim.STATIONARY
        assert np.linalg.norm(again, axis=1).max() == pytest.approx(np.linalg.norm(W, axis=1).max(), rel=1e-6)


def test_moved_multipliers_of_the_printed_program_fail():
    X, y, z = separated_clusters(n=12)
    program = cpm_margins.printed(X, y, K, on_own_faces(X, y, z))
    found = program.solve()
    assert certify_program(program, found.primal, found.duals).claim is Claim.CONDITIONS
    for row in ("margin", "norm", "choice"):
        moved = {**found.duals, row: found.duals[row] + 1e-2}
        assert certify_program(program, found.primal, moved).claim is Claim.NONE


# -- the margins of faces ------------------------------------------------------------------


def test_face_margins_are_those_of_section_3_2():
    X, y = np.array([[-2.0], [0.0], [1.0]]), np.array([1, -1, 1])
    W = np.array([[-3.0, -3.0], [8.0, -4.0], [0.0, -1.0]])
    margins, samples = face_margins(X, y, W)
    units = W / np.linalg.norm(W, axis=1, keepdims=True)
    assert samples.tolist() == [1, 2, 0]
    # The negative is nearest to the second face, which has it and the right positive.
    expected = [units[0] @ [-2, 1], min(-units[1] @ [0, 1], units[1] @ [1, 1]), np.inf]
    assert margins == pytest.approx(np.array(expected))
    assert face_margins(X, y, W * [[5.0], [0.1], [2.0]])[0] == pytest.approx(margins)  # lengths do not count
    assert face_margins(X, -y, W)[0][:2] == pytest.approx(
        np.array([-expected[0], min(units[1] @ [0, 1], -units[1] @ [1, 1])])
    )


def test_optimal_faces_have_the_margins_that_programs_state(data):
    """The margins of section 3.2 are of a sample's own face; holding negatives by all faces asks more."""
    X, y, z = data
    found = cpm_margins.worst(X, y, K, z).solve()
    assert face_margins(X, y, found["W"])[0].min() >= found.objective - 1e-9
    total = cpm_margins.total(X, y, K, z).solve()
    margins, _ = face_margins(X, y, total["W"])
    kept = (lift(X) @ total["W"].T).argmax(axis=1)
    if (kept[y > 0] == z[y > 0]).all():
        assert (margins >= total["zeta"] - 1e-9).all()


def test_no_other_polytope_has_a_larger_worst_case_margin():
    """The best of all assignments, one by one, is the best of all faces: (1) is (4)-(5) in the worst case."""
    X, y, z = separated_clusters(n=10, seed=3)
    positives, best = np.flatnonzero(y > 0), []
    for faces in product(range(2), repeat=len(positives) - 1):
        assignment = z.copy()
        assignment[positives] = (0, *faces)
        best.append(cpm_margins.worst(X, y, 2, assignment).solve())
    first = max(best, key=lambda found: found.objective)
    margins, _ = face_margins(X, y, first["W"])
    assert margins.min() == pytest.approx(first.objective, rel=1e-6)
    rng = np.random.default_rng(0)
    steps = np.geomspace(1e-4, 1.0, 300)[:, None, None] * rng.normal(size=(300, 2, 3))
    assert max(face_margins(X, y, first["W"] + step)[0].min() for step in steps) <= first.objective + 1e-9
