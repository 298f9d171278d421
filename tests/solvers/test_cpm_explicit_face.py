"""The program of a face as it is written down for Clarabel is the one that is printed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from formulations import cpm
from formulations.language.clock import Clock, running
from formulations.language.toy_data import two_blobs
from polyopt import certify_cpm
from polyopt.cpm.alternating import solve_explicit_face


@pytest.mark.parametrize("kind", ["blobs", "equal points", "on a line", "far away", "csr"])
def test_it_is_the_program_of_a_face_and_its_multipliers_prove_it(kind):
    X, y = two_blobs(n=30, separation=1.0)
    X = {
        "equal points": np.ones_like(X),
        "on a line": X[:, :1] @ np.ones((1, X.shape[1])),
        "far away": 100 + X,
    }.get(kind, X)
    costs = np.where((y > 0) & (np.arange(30) % 3 > 0), 0.0, 0.5 + np.arange(30) / 30)
    told = sp.csr_array(X) if kind == "csr" else X
    found = solve_explicit_face(cpm.lift(told), y, costs)
    program = cpm.face(told, y, costs).solve("CLARABEL")
    assert found.objective == pytest.approx(program.objective, rel=1e-8)
    np.testing.assert_allclose(found["w"], program["w"], atol=1e-5 * np.abs(program["w"]).max())
    assert (found.duals["margin"][costs == 0.0] == 0.0).all()
    proof = certify_cpm(told, y, costs, W=found["w"][None], alpha=found.duals["margin"][:, None])
    assert proof.relative_gap < 1e-8
    wrong = certify_cpm(told, y, costs, W=1.01 * found["w"][None], alpha=found.duals["margin"][:, None])
    assert wrong.relative_gap > 1e-8


def test_there_is_no_point_where_squares_overflow_or_the_time_is_over():
    X, y = two_blobs(n=12)
    found = solve_explicit_face(cpm.lift(1e200 * X), y, np.ones(12))
    assert found is None or np.isfinite(found["w"]).all()
    with running(Clock()) as clock:
        clock.stop()
        assert solve_explicit_face(cpm.lift(X), y, np.ones(12)) is None
