"""The interior point of a face solves the program that is printed."""

import numpy as np
import pytest
import scipy.sparse as sp

from formulations import cpm
from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock, running
from formulations.language.toy_data import two_blobs
from polyopt import certify_cpm
from polyopt.cpm.fixed_assignment import FixedAssignmentSolver


@pytest.mark.parametrize("kind", ["blobs", "equal points", "on a line", "far away", "csr"])
def test_interior_point_solves_a_face(kind):
    """The face is that of the explicit program, and its multipliers prove it."""
    X, y = two_blobs(n=30, separation=1.0)
    X = {
        "equal points": np.ones_like(X),
        "on a line": X[:, :1] @ np.ones((1, X.shape[1])),
        "far away": 100 + X,
    }.get(kind, X)
    costs = np.where((y > 0) & (np.arange(30) % 3 > 0), 0.0, 0.5 + np.arange(30) / 30)
    told = sp.csr_array(X) if kind == "csr" else X
    found = FixedAssignmentSolver(told, y, costs[:, None], FacePenalty.of(X.shape[1]))
    assert found.solve(1e-10)
    program = cpm.face(told, y, costs).solve("CLARABEL")
    assert found.primal == pytest.approx(program.objective, rel=1e-8)
    np.testing.assert_allclose(found.W[0], program["w"], atol=1e-5 * np.abs(program["w"]).max())
    assert (found.alpha[costs == 0.0] == 0.0).all()
    proof = certify_cpm(told, y, costs, W=found.W, alpha=found.alpha)
    assert proof.relative_gap < 1e-8
    wrong = certify_cpm(told, y, costs, W=1.01 * found.W, alpha=found.alpha)
    assert wrong.relative_gap > 1e-8


def test_overflow_and_stop_leave_finite_faces():
    """Samples whose squares overflow leave finite faces, and a stopped clock leaves the faces 0."""
    X, y = two_blobs(n=12)
    found = FixedAssignmentSolver(1e200 * X, y, np.ones((12, 1)), FacePenalty.of(X.shape[1]))
    found.solve(1e-10)
    assert np.isfinite(found.W).all()
    assert np.isfinite(found.alpha).all()
    with running(Clock()) as clock:
        clock.stop()
        found = FixedAssignmentSolver(X, y, np.ones((12, 1)), FacePenalty.of(X.shape[1]))
        assert not found.solve(1e-10)
        assert not found.W.any()
