"""Identities and inequalities beyond those that `polyopt verify` prints, on small random data."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from formulations import class_faces, cpm
from formulations.class_faces import Owners
from formulations.error_bounds import rmm_bounds
from formulations.face_penalty import FacePenalty
from formulations.polytope import lift, perplexity
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.crosschecks.samples import blobs, clusters
from polyopt.polyhedral.logistic_loss import FaceLoss


@pytest.fixture(params=[0, 1])
def seed(request):
    return request.param


def all_signs(n):
    return np.array(list(product((-1.0, 1.0), repeat=n)))


# -- the Relative Margin Machine and its bounds ---------------------------------------------------


@pytest.fixture
def complexity_data(seed):
    """Samples (40, 3), ten more of other values, the energy E, and the weight D."""
    X, _, _ = blobs(seed)
    return X, np.random.default_rng(seed).normal(size=(10, 3)) * [1.0, 3.0, 0.5], 2.0, 3.0


def test_terms_of_optimal_complexity_are_equal(complexity_data):
    """At the optimum of U_H trace and price each have half of the value."""
    X, U, E, D = complexity_data
    optimum = rmm_bounds.h_complexity(X, U, E, D).solve()
    terms = np.trace(optimum["Z"]) / len(X), 2.0 * E / len(X) * optimum["lam"].sum()
    assert terms == pytest.approx([optimum.objective / 2.0] * 2, rel=1e-5)


def test_complexity_of_g_is_nearly_exact(complexity_data):
    """The Rademacher complexity over all signs is at most U_G, which is at most √2 times it."""
    X, U, E, D = complexity_data
    X = X[:10]
    root = np.linalg.cholesky(np.linalg.inv(np.eye(3) + D / len(U) * U.T @ U))
    lengths = np.linalg.norm(all_signs(len(X)) @ X @ root, axis=1)
    exact = 2.0 / len(X) * np.sqrt(2.0 * E) * lengths.mean()
    bound = rmm_bounds.g_complexity(X, U, E, D)
    assert exact <= bound * (1.0 + 1e-12)
    assert bound <= np.sqrt(2.0) * exact


# -- the Convex Polytope Machine ------------------------------------------------------------------


def test_entropy_rises_by_moves_to_smaller_faces(rng):
    """Moving a sample from face a to face k raises the entropy exactly when c_k ≤ c_a − 2."""
    for _ in range(200):
        faces = rng.integers(4, size=int(rng.integers(5, 25)))
        counts, k = np.bincount(faces, minlength=4), int(rng.integers(4))
        rises = perplexity(np.append(k, faces[1:])) > perplexity(faces) * (1.0 + 1e-12)
        assert rises == (k != faces[0] and counts[k] <= counts[faces[0]] - 2)


def test_big_m_exceeds_optimal_slacks(seed):
    """No positive violates the margin of a face by more than M at the global optimum."""
    X, y = clusters(seed, n=14, spread=0.8)
    optimum = solve_cpm_global(X, y, 1.0, 2, tol=1e-9)
    M = cpm.big_m(X, y, 2, 1.0, optimum.objective)
    assert (1.0 - lift(X)[y > 0] @ optimum["W"].T <= M[:, None] + 1e-9).all()


def test_objective_with_all_samples_inside(seed):
    """Every face at (0, …, 0, −1): J = K + 2 C n₊."""
    X, y = clusters(seed)
    W = np.tile([0.0, 0.0, -1.0], (3, 1))
    assert cpm.objective(X, y, W, 0.7) == pytest.approx(3.0 + 2.0 * 0.7 * (y > 0).sum())


# -- PLUME and logistic polytopes -----------------------------------------------------------------


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


def test_best_assignment_has_the_least_objective(logistic, rng):
    """Without an assignment the objective is that of the best one."""
    problem, X, y, w, b = logistic
    owners = problem.owners
    scores_of_own = np.where(owners.other_class(y), -1.0, rng.random((len(y), owners.count)))
    some = class_faces.value(X, y, w, b, owners, assignment=scores_of_own.argmax(axis=1))
    assert some >= class_faces.value(X, y, w, b, owners)


def test_common_plane_changes_no_log_odds(seed, rng):
    """A plane added to all faces leaves the shortfall."""
    X, y = clusters(seed, spread=0.8)
    owners = Owners(2, 3)
    w, b, plane = rng.normal(size=(5, 2)), rng.normal(size=5), rng.normal(size=2)
    moved = class_faces.shortfall(y, class_faces.scores(X, w + plane, b + 0.7), owners)
    assert moved == pytest.approx(class_faces.shortfall(y, class_faces.scores(X, w, b), owners), abs=1e-12)


def test_soft_maximum_never_lowers_the_loss(logistic):
    """The softened loss is above the sharp one."""
    problem, _, _, w, b = logistic
    sharp, soft = (problem.smooth(np.column_stack([w, b]), 0.0, softness)[0] for softness in (0.0, 0.3))
    assert sharp <= soft * (1.0 + 1e-12)
