"""A face of whole numbers at a fixed scale: its programs against each other and against every choice."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from formulations import cpm, cpm_faces
from formulations.language.toy_data import two_blobs

SCALE, M = 0.3, 1


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=20, m=2, seed=1)
    return X, y, np.where(y > 0, 1.0, 0.7)


def test_the_exact_program_is_the_best_choice(data):
    X, y, C = data
    pytest.importorskip("pyscipopt")

    def cost(p):
        """The best bias by trying all its kinks, and where its own slope meets that of the losses."""
        outputs = SCALE * (X @ np.array(p))
        ends = y - outputs
        inner = [0.5 * (C * y)[y * (outputs + b) < 1].sum() for b in np.r_[ends - 1e-9, ends + 1e-9]]
        b = np.r_[ends, inner]
        losses = C @ np.maximum(0, 1 - y[:, None] * (outputs[:, None] + b))
        return SCALE**2 * np.square(p).sum() + (b**2 + losses).min()

    least = min(cost(p) for p in product(range(-M, M + 1), repeat=2))
    found = cpm_faces.integer_face(X, y, SCALE, M, C).solve()
    assert found.objective == pytest.approx(least, rel=1e-6)
    relaxed = cpm_faces.integer_relaxation(X, y, SCALE, M, C).solve().objective
    assert cpm_faces.integer_relaxation_dual(X, y, SCALE, M, C).solve().objective == pytest.approx(relaxed)
    face = cpm.face(X, y, C).solve().objective
    assert face <= relaxed + 1e-9 <= found.objective + 2e-9
    loose = cpm_faces.integer_relaxation(X, y, SCALE, 1000, C).solve().objective
    assert loose == pytest.approx(face, rel=1e-7)
