"""Identities and inequalities beyond those that `polyopt verify` prints, on small random data."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import expit

from formulations import class_faces, cpm, cpm_margins, mixture, rmm, svm
from formulations.class_faces import Owners
from formulations.error_bounds import rmm_bounds
from formulations.error_bounds.margin_bounds import Landmarks, linear_bound, margin_bound
from formulations.error_bounds.rademacher import contraction_complexity, faces_complexity
from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.toy_data import separated_clusters
from formulations.polyhedral import scores
from formulations.polytope import face_margins, lift, perplexity
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.cpm.sgd import solve_cpm_sgd
from polyopt.crosschecks.samples import blobs, clusters
from polyopt.polyhedral.logistic_descent import descend
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.polyhedral.logistic_polytopes import random_start


@pytest.fixture(params=[0, 1])
def seed(request):
    return request.param


def all_signs(n):
    return np.array(list(product((-1.0, 1.0), repeat=n)))


# -- the Relative Margin Machine and its bounds ---------------------------------------------------


@pytest.mark.parametrize("B", [0.0, 0.5, 1.0, 1.5, 10.0])
def test_multipliers_of_the_svm_are_feasible_for_dual_8(seed, B):
    X, y, C = blobs(seed)
    alpha, zeros = svm.dual(X, y, C).solve()["alpha"], np.zeros(len(y))
    point = {"alpha": np.clip(alpha, 0.0, C), "lam": zeros, "lam_star": zeros}
    assert max(rmm.qp_dual(X, y, C, B).violations(point).values()) <= 1e-9


@pytest.fixture
def complexity_data(seed):
    """Samples (40, 3), ten more of other values, the energy E, and the weight D."""
    X, _, _ = blobs(seed)
    return X, np.random.default_rng(seed).normal(size=(10, 3)) * [1.0, 3.0, 0.5], 2.0, 3.0


def test_complexities_of_equal_classes_are_equal(complexity_data):
    """U_H = U_G for a single u, and U_H = U_F for D = 0."""
    X, U, E, D = complexity_data
    one = rmm_bounds.h_complexity(X, U[:1], E, D).solve().objective
    assert one == pytest.approx(rmm_bounds.g_complexity(X, U[:1], E, D), rel=1e-6)
    none = rmm_bounds.h_complexity(X, U, E, 0.0).solve().objective
    assert none == pytest.approx(rmm_bounds.f_complexity(X, E), rel=1e-6)


def test_both_terms_of_the_optimal_complexity_are_equal(complexity_data):
    X, U, E, D = complexity_data
    optimum = rmm_bounds.h_complexity(X, U, E, D).solve()
    terms = np.trace(optimum["Z"]) / len(X), 2.0 * E / len(X) * optimum["lam"].sum()
    assert terms == pytest.approx([optimum.objective / 2.0] * 2, rel=1e-5)


def test_complexity_of_class_g_is_within_khintchine_s_constant(complexity_data):
    """The Rademacher complexity over all signs is at most U_G, which is at most √2 times it."""
    X, U, E, D = complexity_data
    X = X[:10]
    root = np.linalg.cholesky(np.linalg.inv(np.eye(3) + D / len(U) * U.T @ U))
    lengths = np.linalg.norm(all_signs(len(X)) @ X @ root, axis=1)
    exact = 2.0 / len(X) * np.sqrt(2.0 * E) * lengths.mean()
    bound = rmm_bounds.g_complexity(X, U, E, D)
    assert exact <= bound * (1.0 + 1e-12)
    assert bound <= np.sqrt(2.0) * exact


@pytest.mark.parametrize("form", ["F", "G", "H"])
def test_error_bound_by_the_kernel_is_that_by_the_features(complexity_data, form):
    X, U, _, _ = complexity_data
    w, b, y = np.array([0.5, -0.2, 0.3]), 0.1, np.where(X[:, 0] > 0, 1.0, -1.0)
    by_kernel = margin_bound(
        X @ w + b, y, norm=np.sqrt(w @ w), b=b, trace=np.sum(X**2), outputs=U @ w + b, form=form,
        landmarks=Landmarks.from_blocks(U @ U.T, np.array_split(X @ U.T, 3), np.sum(X**2)),
    )  # fmt: skip
    assert by_kernel.total == pytest.approx(linear_bound(X, y, w, b, U, form=form).total, rel=1e-9)


def test_complexity_of_a_face_is_within_khintchine_s_constant(seed):
    """‖w‖ ≤ 1: complexity over all signs ≤ T = √(Σ‖x̃_i‖²)/n ≤ √2 times it; three copies have ‖W‖_F ≤ √3."""
    X = np.random.default_rng(seed).normal(size=(10, 2))
    exact = np.linalg.norm(all_signs(len(X)) @ lift(X), axis=1).mean() / len(X)
    bound = faces_complexity(X, [1.0])
    assert exact <= bound * (1.0 + 1e-12)
    assert bound <= np.sqrt(2.0) * exact
    assert exact <= contraction_complexity(X, np.sqrt(3.0), 3)


# -- the Convex Polytope Machine ------------------------------------------------------------------


def test_entropy_rises_if_the_new_face_has_two_samples_less(rng):
    """Moving a sample from face a to face k raises the entropy exactly when c_k ≤ c_a − 2."""
    for _ in range(200):
        faces = rng.integers(4, size=int(rng.integers(5, 25)))
        counts, k = np.bincount(faces, minlength=4), int(rng.integers(4))
        rises = perplexity(np.append(k, faces[1:])) > perplexity(faces) * (1.0 + 1e-12)
        assert rises == (k != faces[0] and counts[k] <= counts[faces[0]] - 2)


def test_big_m_exceeds_the_slacks_of_the_global_optimum(seed):
    X, y = clusters(seed, n=14, spread=0.8)
    optimum = solve_cpm_global(X, y, 1.0, 2, tol=1e-9)
    M = cpm.big_m(X, y, 2, 1.0, optimum.objective)
    assert (1.0 - lift(X)[y > 0] @ optimum["W"].T <= M[:, None] + 1e-9).all()


def test_objective_with_all_samples_inside(seed):
    """Every face at (0, …, 0, −1): J = K + 2 C n₊."""
    X, y = clusters(seed)
    W = np.tile([0.0, 0.0, -1.0], (3, 1))
    assert cpm.objective(X, y, W, 0.7) == pytest.approx(3.0 + 2.0 * 0.7 * (y > 0).sum())


def test_algorithm_1_ends_at_the_optimum_for_its_cost(seed):
    """K = 1: λ of Algorithm 1 is C = 2/(nλ), not the 1/C of the unconstrained form."""
    X, y = clusters(seed)
    C = np.full(len(y), 0.5)
    sgd = solve_cpm_sgd(X, y, C, 1, max_iter=2000, tol=1e-6, seed=seed)
    assert sgd.objective == pytest.approx(cpm.face(X, y, C).solve().objective, rel=1e-2)


def test_printed_program_bounds_the_total_margin(seed):
    """δᵀ of unit faces near the optimum is at most (2) for the assignment that they make."""
    X, y, z = separated_clusters(seed=seed)
    best, rng = cpm_margins.hard_total(X, y, 3, z).solve()["W"], np.random.default_rng(seed)
    checked = 0
    while checked < 5:
        W = best * rng.uniform(0.5, 1.0, (3, 1)) + 0.1 * rng.normal(size=best.shape)
        W /= np.linalg.norm(W, axis=1)[:, None]
        margins, _ = face_margins(X, y, W)
        if margins.min() > 0.0 and margins.max() < np.inf:
            natural = (lift(X) @ W.T).argmax(axis=1)
            assert margins.sum() <= cpm_margins.printed(X, y, 3, natural).solve().objective * (1.0 + 1e-7)
            checked += 1


# -- PLUME and logistic polytopes -----------------------------------------------------------------


def test_distance_of_plume_from_the_sharp_gate(seed):
    """|P(+1|x) − σ(h)| ≤ (K−1) e^(−γ·gap), where gap = second smallest score − smallest score."""
    X, _ = clusters(seed, spread=0.8)
    W = np.random.default_rng(seed).normal(size=(3, 3))
    s, gamma = np.sort(scores(X, W), axis=1), 3.0
    distance = np.abs(mixture.posterior(X, W, gamma) - expit(s[:, 0]))
    assert (distance <= 2.0 * np.exp(-gamma * (s[:, 1] - s[:, 0]))).all()


@pytest.fixture(params=[(0, Owners(2, 2)), (1, Owners(0, 3)), (2, Owners(3, 1))], ids=["2+2", "0+3", "3+1"])
def logistic(request):
    """A problem of logistic polytopes and random faces, with 0 for the faces at rest."""
    seed, owners = request.param
    X, y = clusters(seed, spread=0.8)
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(owners.count, X.shape[1])) * owners.free[:, None]
    return (
        FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1, FacePenalty.of(X.shape[1], l1=0.3)),
        X,
        y,
        w,
        rng.normal(size=len(w)) * owners.free,
    )


def test_the_best_assignment_has_the_least_objective(logistic, rng):
    problem, X, y, w, b = logistic
    owners = problem.owners
    scores_of_own = np.where(owners.other_class(y), -1.0, rng.random((len(y), owners.count)))
    some = class_faces.value(X, y, w, b, owners, assignment=scores_of_own.argmax(axis=1))
    assert some >= class_faces.value(X, y, w, b, owners)


def test_a_plane_added_to_all_faces_changes_no_log_odds(seed, rng):
    X, y = clusters(seed, spread=0.8)
    owners = Owners(2, 3)
    w, b, plane = rng.normal(size=(5, 2)), rng.normal(size=5), rng.normal(size=2)
    moved = class_faces.shortfall(y, class_faces.scores(X, w + plane, b + 0.7), owners)
    assert moved == pytest.approx(class_faces.shortfall(y, class_faces.scores(X, w, b), owners), abs=1e-12)


def test_a_soft_maximum_never_lowers_the_loss(logistic):
    problem, _, _, w, b = logistic
    sharp, soft = (problem.smooth(np.column_stack([w, b]), 0.0, softness)[0] for softness in (0.0, 0.3))
    assert sharp <= soft * (1.0 + 1e-12)


def test_a_descent_does_not_end_above_its_start(logistic, rng):
    problem, *_ = logistic
    start = random_start(problem, rng)
    end, _ = descend(problem, start, Clock(None), softness=(0.05,))
    assert problem.value(end) <= problem.value(start)
