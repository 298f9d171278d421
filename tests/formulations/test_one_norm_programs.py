"""The one-norm machine: duality for any kernel, and what its objective does not bound."""

from __future__ import annotations

import numpy as np
import pytest

from formulations import one_norm


def test_the_one_norm_machine_needs_no_mercer_kernel(rng):
    K = rng.normal(size=(25, 25))
    y = np.where(rng.random(25) < 0.5, 1.0, -1.0)
    p, d = one_norm.primal(K, y, 0.7).solve(), one_norm.dual(K, y, 0.7).solve()
    assert p.objective == pytest.approx(d.objective, rel=1e-8)
    assert d.duals["alpha"] == pytest.approx(p["alpha"], abs=1e-6)
    clarabel = one_norm.primal(K, y, 0.7).solve("CLARABEL")
    assert clarabel.objective == pytest.approx(p.objective, rel=1e-7)


def test_the_one_norm_is_no_bound_on_the_zero_norm():
    """The slides say it is; 2 duplicated points of each class with small alpha are a counterexample."""
    K = np.array([[4.0, -4.0], [-4.0, 4.0]])
    solution = one_norm.primal(K, [1, -1], 1.0).solve()
    alpha = solution["alpha"]
    assert alpha.sum() < np.count_nonzero(alpha > 1e-9)
