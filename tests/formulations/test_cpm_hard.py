"""Hard margins, programs (1) to (5): duality, optimality conditions, and the margins of faces."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from formulations import cpm_margins
from formulations.language.solution import Status
from formulations.language.toy_data import separated_clusters
from formulations.polytope import face_margins, lift
from polyopt.certificates import Claim
from polyopt.certificates.kkt import certify_program

K = 3
MARGINS = ["total", "worst"]


@pytest.fixture(params=[0, 1])
def data(request):
    return separated_clusters(n=18, seed=request.param)


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


def test_face_without_share_may_turn(data):
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
    program = cpm_margins.hard_worst(X, y, K, z)
    for W in (found["W"], turned):
        certificate = certify_program(program, {"W": W, "t": value}, found.duals)
        assert certificate.claim is Claim.CONDITIONS
        assert certificate.primal_value == pytest.approx(value, rel=1e-6)
    total = cpm_margins.hard_total(X, y, K, z)
    assert certify_program(total, {"W": turned}, total.solve().duals).claim is Claim.NONE


def test_printed_bound_is_attained_at_unit_norms():
    """Where all norms are one at the optimum it is the total margin; else it is a bound."""
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


def test_face_without_samples_is_refused():
    """As printed its margin is a minimum over no samples."""
    X, y, _ = separated_clusters(n=12)
    with pytest.raises(ValueError, match="face 1 has none: its margin, a minimum over no samples, is unb"):
        cpm_margins.printed(X, y, 2, np.zeros(12))
    with pytest.raises(ValueError, match="from 0 to 1 at every sample"):
        cpm_margins.printed(X, y, 2, np.full(12, -1))


# -- what cannot be separated --------------------------------------------------------------


@pytest.mark.parametrize("margin", MARGINS)
def test_inseparable_data_have_no_margin(margin):
    """The positive lies in the middle of two negatives: 2 x̃ of it less theirs is 0."""
    X, y, z = np.array([[0.0], [1.0], [-1.0], [3.0]]), np.array([1, -1, -1, 1]), [0, -1, -1, 1]
    assert getattr(cpm_margins, f"hard_{margin}")(X, y, 2, z).solve().status is Status.INFEASIBLE
    assert np.min(getattr(cpm_margins, margin)(X, y, 2, z).solve()["zeta"]) == pytest.approx(0.0, abs=1e-7)


# -- the margins of faces ------------------------------------------------------------------


def test_face_margins_of_section_3_2():
    """Each sample is at its nearest face; lengths of faces do not count."""
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


def test_no_polytope_has_larger_worst_margin():
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
