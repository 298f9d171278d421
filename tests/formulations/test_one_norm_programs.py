"""The one-norm machine: duality for any kernel, and what its objective does not bound."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from formulations import one_norm
from formulations.language.recovery import slacks


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


@pytest.mark.parametrize("kind", ["rbf", "indefinite"])
def test_coefficients_at_their_cap_pay_for_the_dual_s_excess(kind, blobs):
    """alpha_j <= C_j: where the cap holds a coefficient, its rate exceeds 1, by the multiplier of the cap."""
    X, y = blobs
    K = rbf_kernel(X, gamma=0.3) if kind == "rbf" else np.tanh(X @ X.T)
    C = np.linspace(0.2, 0.8, len(y))
    p, d = one_norm.primal(K, y, C).solve(), one_norm.dual(K, y, C).solve()
    assert p.objective == pytest.approx(d.objective, rel=1e-8)
    excess = y * (K.T @ (y * d["u"])) - 1.0
    held = excess > 1e-6
    assert held.any()
    assert p["alpha"][held] == pytest.approx(C[held])
    assert (p["alpha"][excess < -1e-6] <= 1e-9).all()
    assert d["s"] == pytest.approx(np.maximum(excess, 0.0), abs=1e-7)
    f = K @ (y * p["alpha"]) + p["b"]
    assert p["xi"] == pytest.approx(slacks(f, y), abs=1e-8)
    assert (d["u"][y * f > 1 + 1e-6] <= 1e-9).all()
    assert d["u"][y * f < 1 - 1e-6] == pytest.approx(C[y * f < 1 - 1e-6])
