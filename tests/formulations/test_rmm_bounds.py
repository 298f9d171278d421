"""The complexities of the three classes: by hand, by the suprema they bound, and what each refuses."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from formulations.error_bounds import rmm_bounds
from formulations.error_bounds.rmm_bounds import (
    f_complexity,
    g_complexity,
    h_complexity,
    h_complexity_at,
    h_complexity_dual,
)
from polyopt.certificates import Claim
from polyopt.certificates.kkt import certify_program

E, D = 2.0, 3.0


def sample(seed=0, n=12, n_u=6, m=3):
    rng = np.random.default_rng(seed)
    scales = [3.0, 1.0, 0.5]
    return rng.normal(size=(n, m)) * scales, rng.normal(size=(n_u, m)) * scales


def test_one_sample_by_hand():
    """x = u = 2: F is |w| ≤ 2, G and H are w² (1 + 4 D)/2 ≤ E; each bound is twice the largest output."""
    x = np.array([[2.0]])
    assert f_complexity(x, E) == pytest.approx(2 * 2 * 2)
    largest = 2.0 * np.sqrt(2 * E / (1 + 4 * D))
    assert g_complexity(x, x, E, D) == pytest.approx(2 * largest)
    assert h_complexity(x, x, E, D).solve().objective == pytest.approx(2 * largest, rel=1e-6)


def supremum(X, U, signs, class_):
    """sup |(2/n) Σ σ_i w·x_i| over a class, by an explicit program (H) or in closed form."""
    s = 2.0 * signs @ X / len(X)
    if class_ == "f":
        return np.sqrt(2 * E) * np.linalg.norm(s)
    if class_ == "g":
        return np.sqrt(2 * E * s @ np.linalg.solve(np.eye(len(s)) + D / len(U) * U.T @ U, s))
    w = cp.Variable(len(s))
    held = [cp.norm(cp.hstack([w, np.sqrt(D) * (u @ w)])) <= np.sqrt(2 * E) for u in U]
    return cp.Problem(cp.Maximize(s @ w), held).solve(solver="CLARABEL")


def test_complexity_bounds_its_class():
    """The mean supremum over drawn signs is below each bound, and not by far; H < G < F."""
    X, U = sample()
    bounds = {"f": f_complexity(X, E), "g": g_complexity(X, U, E, D)}
    bounds["h"] = h_complexity(X, U, E, D).solve().objective
    rng, means = np.random.default_rng(1), {}
    for name, bound in bounds.items():
        draws = [supremum(X, U, rng.choice([-1.0, 1.0], len(X)), name) for _ in range(25)]
        means[name] = np.mean(draws)
        error = np.std(draws) / np.sqrt(len(draws))
        assert means[name] - 4 * error <= bound
        assert means[name] > 0.6 * bound  # and not by far
    assert means["h"] < means["g"] < means["f"]


@pytest.mark.parametrize("seed", range(3))
def test_any_point_bounds_from_both_sides(seed):
    """Multipliers at random are above the optimum, scaled weights of the dual below."""
    X, U = sample(seed)
    optimum = h_complexity(X, U, E, D).solve()
    rng = np.random.default_rng(seed)
    for scale in (1e-3, 0.1, 1.0):
        lam = np.maximum(optimum["lam"] + scale * rng.random(len(U)), 0.0)
        assert h_complexity_at(X, U, lam, E, D) >= optimum.objective * (1 - 1e-9)
    best = h_complexity_at(X, U, np.maximum(optimum["lam"], 0.0), E, D)
    assert best == pytest.approx(optimum.objective, rel=1e-6)
    dual = h_complexity_dual(X, U, E, D)
    V = 0.9 * dual.solve()["V"]
    weights = {"V": V, "A": V @ V.T}
    assert dual.value(weights) == pytest.approx(0.9 * optimum.objective, rel=1e-6)
    assert max(dual.violations(weights).values()) < 1e-12


def test_multipliers_are_at_binding_samples():
    """Samples with room in their energy have no multiplier."""
    X, U = sample()
    solution = h_complexity_dual(X, U, E, D).solve()
    V, lam = solution["V"], solution.duals["lam"]
    energy = (V**2).sum() + D * ((U @ V) ** 2).sum(axis=1)
    room = 2 * E - energy
    assert room.min() > -1e-6
    assert np.abs(lam * room).max() < 1e-5
    assert 0 < (lam > 1e-4).sum() < len(U)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, U: f_complexity(X, 0.0), "E must be positive"),
        (lambda X, U: g_complexity(X, U, 1.0, -1.0), "D must be at least 0"),
        (lambda X, U: h_complexity(0.0 * X, U), "must not be zero throughout"),
        (lambda X, U: g_complexity(X, np.full_like(U, np.nan)), "U must have two dimensions"),
        (lambda X, U: h_complexity_at(X, U, np.zeros(len(U))), "not all zero"),
        (lambda X, U: h_complexity_at(X, U, -np.ones(len(U))), "not negative"),
        (lambda X, U: h_complexity_at(X, U, np.full(len(U), np.inf)), "lam must"),
        (lambda X, U: h_complexity_at(X, U, np.ones(len(U) + 1)), "lam must"),
        (lambda X, U: f_complexity(X, np.inf), "E must be positive"),
        (lambda X, U: g_complexity(X, U, 1.0, np.inf), "D must be at least 0"),
        (lambda X, U: g_complexity(X[0], U), "X must have two dimensions"),
        (lambda X, U: g_complexity(X[:0], U), "X must have two dimensions"),
        (lambda X, U: h_complexity_at(X, U, np.eye(len(U))[0] - 1e-9), "not negative"),
    ],
)
def test_wrong_input_is_refused(call, message):
    """Scales, shapes, signs and infinities are named."""
    with pytest.raises(ValueError, match=message):
        call(*sample())


def test_dual_is_a_cone_program_over_weights():
    """The elimination of A: ½‖V‖² + D/2 ‖V'u‖² ≤ E at every u, by another kind of cone."""
    X, U = sample()
    V = cp.Variable((3, 3))
    L = np.linalg.cholesky(X.T @ X)
    held = [cp.norm(cp.hstack([cp.vec(V, order="C"), np.sqrt(D) * (u @ V)])) <= np.sqrt(2 * E) for u in U]
    cone = cp.Problem(cp.Maximize(2 / len(X) * cp.trace(L.T @ V)), held).solve(solver="CLARABEL")
    assert h_complexity_dual(X, U, E, D).solve().objective == pytest.approx(cone, rel=1e-6)
    found = h_complexity_dual(X, U, E, D).solve()
    np.testing.assert_allclose(found["A"], found["V"] @ found["V"].T, atol=1e-5 * np.abs(found["A"]).max())


@pytest.mark.parametrize("seed", [5, 11])
def test_programs_are_proven_at_hard_seeds(seed):
    """As a cone of second order, the dual at seed 5 left its multipliers short of the tolerance."""
    for program in (rmm_bounds.pairs(seed)[0].primal, rmm_bounds.pairs(seed)[0].dual):
        found = program.solve("CLARABEL")
        assert certify_program(program, found.primal, found.duals, tol=1e-8).claim is Claim.CONDITIONS


def test_recovered_point_is_feasible():
    """Negative multipliers are rounding and count as zero; Z is L'Σ⁻¹L, the least that the block allows."""
    X, U = sample()
    lam = np.array([0.5, -1e-9, 0.0, 2.0, -0.3, 1.0])
    found = rmm_bounds.recover(X, U, D, lam)
    kept = np.array([0.5, 0.0, 0.0, 2.0, 0.0, 1.0])
    assert (found["lam"] == kept).all()
    spread = kept.sum() * np.eye(3) + D * sum(t * np.outer(u, u) for t, u in zip(kept, U, strict=True))
    assert np.trace(found["Z"]) == pytest.approx(np.trace(np.linalg.solve(spread, X.T @ X)), rel=1e-12)
    assert (found["Z"] == found["Z"].T).all()
    program = h_complexity(X, U, E, D)
    assert program.value(found) == pytest.approx(h_complexity_at(X, U, kept, E, D), rel=1e-12)
    assert max(program.violations(found).values()) < 1e-9
    assert program.violations({**found, "Z": 0.9 * found["Z"]})["block"] > 1e-3
    V, A = np.full((3, 3), 0.01), np.diag([1.0, 2.0, 3.0])
    dual = h_complexity_dual(X, U, E, D)
    row = (np.trace(A) + D * np.array([u @ A @ u for u in U])) / 12 - 2 * E / 12
    assert dual.violations({"V": V, "A": A})["lam"] == pytest.approx(row.max())
    assert (
        dual.violations({"V": V, "A": V @ V.T})["block"]
        < 1e-9
        < dual.violations({"V": 3 * V, "A": V @ V.T})["block"]
    )


def test_scales_are_refused_beyond_their_ends():
    """X by its largest entry, of either sign, from 1e-6 to 1e6; D max ‖u‖² up to 1e8, by the longest u."""
    X, U = np.array([[-1.0, 0.5], [0.25, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])
    for program in (h_complexity, h_complexity_dual):
        for good in (1e-6, 1e6):
            program(good * X, U)
        for bad in (0.9e-6, 1.1e6):
            with pytest.raises(ValueError, match=r"largest value lies between 1e-6 and 1e6, not"):
                program(bad * X, U)
        program(X, U, 1.0, 4e6)  # 4e6 * 25
        with pytest.raises(ValueError, match=r"must be at most 1e8"):
            program(X, U, 1.0, 4.1e6)
