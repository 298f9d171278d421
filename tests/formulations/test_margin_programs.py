"""SVM, Sigma-SVM, Relative Margin Machine and one-norm machine: other packages, derivations, known answers.

What all programs have in common is tested in test_every_program.py; identities of the papers are crosschecks.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from formulations import one_norm, rmm, rmm_bounded, sigma_svm, svm
from formulations.centred_kernel import CentredKernel
from formulations.families import bounded_families, extend_multipliers, hinge_families
from formulations.language.recovery import gram_factor, moments

# -- SVM --------------------------------------------------------------------------------------------


def test_svm_agrees_with_libsvm(blobs, rng):
    """Weights and intercept are libsvm's, for costs per sample."""
    X, y = blobs
    costs = rng.uniform(0.2, 3.0, len(y))
    machine = SVC(C=1.0, kernel="linear", tol=1e-9).fit(X, y, sample_weight=costs)
    solution = svm.primal(X, y, costs).solve()
    assert solution["w"] == pytest.approx(machine.coef_[0], abs=1e-5)
    assert float(solution["b"]) == pytest.approx(machine.intercept_[0], abs=1e-5)


def test_kernel_svm_agrees_with_libsvm(blobs):
    """Multipliers of a Gaussian kernel are libsvm's."""
    X, y = blobs
    K = rbf_kernel(X, gamma=0.5)
    machine = SVC(C=2.0, kernel="precomputed", tol=1e-9).fit(K, y)
    signed = np.zeros(len(y))
    signed[machine.support_] = machine.dual_coef_[0]
    assert svm.kernel_dual(K, y, 2.0).solve()["alpha"] * y == pytest.approx(signed, abs=1e-5)


@pytest.mark.parametrize("label", [1.0, -1.0])
def test_one_class_costs_nothing(label):
    """With one class w = 0, and b is its label."""
    X, y = np.arange(6.0).reshape(3, 2), np.full(3, label)
    assert svm.primal(X, y, 1.0).solve().objective == pytest.approx(0.0, abs=1e-8)
    assert svm.recover(X, y, 1.0, np.zeros(3))["b"] == pytest.approx(label)


def test_one_norm_needs_no_mercer_kernel(rng):
    """For a kernel without symmetry primal and dual meet, and the dual's multiplier is alpha."""
    K = rng.normal(size=(25, 25))
    y = np.where(rng.random(25) < 0.5, 1.0, -1.0)
    p, d = one_norm.primal(K, y, 0.7).solve(), one_norm.dual(K, y, 0.7).solve()
    assert p.objective == pytest.approx(d.objective, rel=1e-8)
    assert d.duals["alpha"] == pytest.approx(p["alpha"], abs=1e-6)


# -- Sigma-SVM --------------------------------------------------------------------------------------

SHARES = [0.0, 0.3, 0.9, 0.999, 1.0]


@pytest.mark.parametrize("D", SHARES)
@pytest.mark.parametrize("kernel", [polynomial_kernel, rbf_kernel])
def test_centred_kernel_is_an_inner_product(rng, D, kernel):
    """Explicit features have the centred kernel as inner product, for training and for other points."""
    X, T = rng.normal(size=(15, 2)), rng.normal(size=(6, 2))
    features = gram_factor(kernel(np.vstack([X, T])))
    phi, phi_t = features[:15] - features[:15].mean(0), features[15:] - features[:15].mean(0)
    metric = (1 - D) * np.eye(phi.shape[1]) + D * phi.T @ phi / 15
    inverse = np.linalg.pinv(metric, rcond=1e-9, hermitian=True)
    centred = CentredKernel(kernel(X))
    scale = np.abs(phi @ inverse @ phi.T).max()
    assert centred.gram(D) == pytest.approx(phi @ inverse @ phi.T, abs=1e-6 * scale)
    assert centred.cross(kernel(T, X), D) == pytest.approx(phi_t @ inverse @ phi.T, abs=1e-6 * scale)


def test_weights_of_centred_kernel_are_repetition(rng):
    """Weights 1, 2 and 3 give the kernel of as many copies, at training and at other points."""
    X, T, repeats = rng.normal(size=(10, 3)), rng.normal(size=(4, 3)), rng.integers(1, 4, 10)
    rows = np.repeat(np.arange(10), repeats)
    weighted = CentredKernel(polynomial_kernel(X), repeats)
    repeated = CentredKernel(polynomial_kernel(X[rows]))
    first = np.array([np.flatnonzero(rows == i)[0] for i in range(10)])
    assert repeated.gram(0.7)[np.ix_(first, first)] == pytest.approx(weighted.gram(0.7), rel=1e-8, abs=1e-8)
    cross = repeated.cross(polynomial_kernel(T, X[rows]), 0.7)[:, first]
    assert cross == pytest.approx(weighted.cross(polynomial_kernel(T, X), 0.7), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("D", [0.3, 0.9])
def test_sigma_svm_is_svm_of_whitened_data(blobs, D):
    """With X whitened by (1 − D) I + D Σ, objective and outputs are the SVM's."""
    X, y = blobs
    mu, Sigma = moments(X)
    values, vectors = np.linalg.eigh((1 - D) * np.eye(3) + D * Sigma)
    Z = (X - mu) @ (vectors / np.sqrt(values)) @ vectors.T
    whitened, sigma = svm.primal(Z, y, 1.0).solve(), sigma_svm.primal(X, y, 1.0, D).solve()
    assert whitened.objective == pytest.approx(sigma.objective, rel=1e-8)
    assert Z @ whitened["w"] == pytest.approx((X - mu) @ sigma["w"], abs=1e-6)


def test_affine_maps_matter_below_full_share(blobs, rng):
    """At D = 0.5 a linear map of the features changes outputs, a rotation does not."""
    X, y = blobs
    A = rng.normal(size=(3, 3))

    def outputs(data):
        solution = sigma_svm.primal(data, y, 2.0, 0.5).solve()
        return (data - data.mean(0)) @ solution["w"] + float(solution["b"])

    assert np.abs(outputs(X @ A.T) - outputs(X)).max() > 1e-2
    assert outputs(X @ np.linalg.qr(A)[0].T + 5.0) == pytest.approx(outputs(X), abs=1e-5)


def test_singular_covariance_takes_the_least_norm(rng):
    """With more features than samples, the recovered w attains the optimum and has no part in Σ's kernel."""
    X, y = rng.normal(size=(12, 30)), np.where(np.arange(12) < 6, 1.0, -1.0)
    dual, primal = sigma_svm.dual(X, y, 1.0, 1.0).solve(), sigma_svm.primal(X, y, 1.0, 1.0)
    recovered = sigma_svm.recover(X, y, 1.0, 1.0, dual["alpha"])
    assert primal.value(recovered) == pytest.approx(primal.solve().objective, rel=1e-6)
    _, Sigma = moments(X)
    null = np.eye(30) - np.linalg.pinv(Sigma, rcond=1e-10, hermitian=True) @ Sigma
    assert np.abs(null @ recovered["w"]).max() < 1e-8


@pytest.mark.parametrize("D", SHARES)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_samples_pay_for_the_smaller_class(D, value):
    """Samples that are all the same cost 2 for each of the smaller class."""
    X, y = np.full((4, 3), value), np.array([1.0, -1.0, 1.0, 1.0])
    for program in (
        sigma_svm.primal(X, y, 1.0, D),
        sigma_svm.dual(X, y, 1.0, D),
        sigma_svm.kernel_dual(X @ X.T, y, 1.0, D),
    ):
        assert program.solve().objective == pytest.approx(2.0, rel=1e-7)


@pytest.mark.parametrize("power", [-900, -300, -1, 1, 300, 900])
def test_unit_of_kernel_changes_no_digit(rng, power):
    """A power of two multiplies the eigenvalues and leaves the directions, bit by bit."""
    A, weights = rng.normal(size=(7, 4)), rng.uniform(0.5, 2.0, 7)
    unit = 2.0**power
    one, other = CentredKernel(A @ A.T, weights), CentredKernel(unit * (A @ A.T), weights)
    assert len(one.eigenvalues) == 4
    assert (other.eigenvalues == unit * one.eigenvalues).all()
    assert (other.root == 2.0 ** (power / 2) * one.root).all() or power % 2
    assert other.gram(0.0) == pytest.approx(unit * one.gram(0.0), rel=1e-12)


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_kernel_without_spread_has_no_directions(constant):
    """A constant kernel is 0 once centred."""
    kernel = CentredKernel(np.full((4, 4), constant))
    assert kernel.eigenvalues.shape == (0,)
    assert not kernel.is_degenerate()
    assert (kernel.gram(0.5) == 0).all()


def test_kernel_of_points_in_general_position():
    """From their mean n points have n − 1 directions, which is all that D = 1 sees."""
    assert CentredKernel(np.eye(3)).is_degenerate()
    assert not CentredKernel(np.diag([1.0, 1.0, 0.0, 0.0])).is_degenerate()
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="not finite"):
        CentredKernel(np.full((2, 2), np.inf))


# -- Relative Margin Machine ------------------------------------------------------------------------


def reach(X, y):
    """The largest output of the SVM with C = 1, at the intercept that makes it least, and the SVM."""
    solution, dual = svm.primal(X, y, 1.0).solve(), svm.dual(X, y, 1.0).solve()
    g = X @ solution["w"]
    lo, hi = hinge_families(y, 1.0).intercept_interval(g, {"margin": dual["alpha"]})
    b = np.clip(-(g.max() + g.min()) / 2, lo, hi)
    return float(np.abs(g + b).max()), solution


def test_rmm_is_svm_above_the_threshold_only(blobs):
    """With B above the SVM's largest output no bound has a multiplier; below, the optimum is higher."""
    X, y = blobs
    theta, plain = reach(X, y)
    above = rmm.qp(X, y, 1.0, 1.001 * theta).solve()
    assert above["w"] == pytest.approx(plain["w"], abs=1e-5)
    assert max(above.duals["bound_above"].max(), above.duals["bound_below"].max()) < 1e-6
    assert rmm.qp(X, y, 1.0, 0.98 * theta).solve().objective > plain.objective + 1e-7


def test_matrix_multiplier_is_the_primal_point(blobs):
    """The dual (6) has ½ v v' with v = (w, b, −1) as multiplier of its matrix constraint."""
    X, y = blobs
    B = (1.0 + reach(X, y)[0]) / 2
    p, d = rmm.qcqp(X, y, 1.0, B).solve(), rmm.qcqp_dual(X, y, 1.0, B).solve()
    v = np.concatenate([p["w"], [float(p["b"])], [-1.0]])
    assert d.duals["w_b"] == pytest.approx(0.5 * np.outer(v, v), abs=1e-4)
    assert d.duals["spread"] == pytest.approx(0.5 * (B**2 - (X @ p["w"] + p["b"]) ** 2), abs=1e-4)


def test_cross_term_of_9_is_whole(blobs):
    """A rise of the subproblem is the same rise of (8); the printed factor ½ would break this."""
    X, y = blobs
    K, zeros, free = X @ X.T, np.zeros(len(y)), np.arange(0, len(y), 2)
    start = np.full(len(y), 0.01)

    def value_of_8(alpha, lam, lam_star):
        beta = alpha * y - lam + lam_star
        return -0.5 * beta @ K @ beta + alpha.sum() - 1.5 * (lam.sum() + lam_star.sum())

    program = rmm.subproblem(K, y, 1.0, 1.5, start, zeros, zeros, free)
    before = program.value({"alpha": start[free], "lam": zeros[free], "lam_star": zeros[free]})
    solution = program.solve()
    point = [start.copy(), zeros.copy(), zeros.copy()]
    for whole, name in zip(point, ("alpha", "lam", "lam_star"), strict=True):
        whole[free] = solution[name]
    rise = value_of_8(*point) - value_of_8(start, zeros, zeros)
    assert solution.objective - before == pytest.approx(rise, rel=1e-6)
    assert rise > 0


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_bounding_spread_is_that_of_multipliers(kind):
    """Mean and spread weight each sample by its bounds' multipliers over B; without any, the spread is 0."""
    rng = np.random.default_rng(0)
    X, B = rng.normal(size=(9, 2)), 1.5
    lam, lam_star = rng.uniform(0.0, 2.0, (2, 9)) * (rng.random((2, 9)) < 0.4)
    own = (lam + lam_star) / B
    mean, spread = rmm.bounding_spread(kind(X), lam, lam_star, B)
    assert mean == pytest.approx(own @ X / own.sum())
    assert spread == pytest.approx((X - mean).T @ (own[:, None] * (X - mean)))
    mean, spread = rmm.bounding_spread(kind(X), np.zeros(9), np.zeros(9), B)
    assert mean == pytest.approx(X.mean(axis=0))
    assert not spread.any()


def test_rmm_is_stationary_in_its_metric(blobs):
    """With the spread Σ of the bounds, (I + Σ) w is the pull of the margins on centred samples."""
    X, y = blobs
    at = rmm.qp(X, y, C=1.0, B=1.3).solve()
    mean, spread = rmm.bounding_spread(X, at.duals["bound_above"], at.duals["bound_below"], 1.3)
    assert spread.any()
    pull = (X - mean).T @ (at.duals["margin"] * y)
    assert (np.eye(len(mean)) + spread) @ at["w"] == pytest.approx(pull, abs=1e-6)


# -- bounds at further samples ----------------------------------------------------------------------


def test_samples_already_bounded_change_nothing(blobs):
    """Training samples as further samples leave the machine as it is."""
    X, y = blobs
    plain = rmm.qp(X, y, 1.0, 1.2).solve()
    for U, training in ((X, True), (X, False), (X[:3], True), (np.repeat(X[:1], 4, axis=0), True)):
        same = rmm_bounded.qp(X, y, U, 1.0, 1.2, training=training).solve()
        assert same.objective == pytest.approx(plain.objective, rel=1e-7)
        assert same["w"] == pytest.approx(plain["w"], abs=1e-5)


def test_each_bound_more_raises_the_optimum(blobs, rng):
    """Bounds at five samples, at ten, and at the training samples as well cost more and more."""
    X, y = blobs
    centre, C, B = X.mean(axis=0), rng.uniform(0.2, 2.0, len(y)), 1.2
    U = centre + 1.3 * (X[::4] - centre) + 0.3 * rng.normal(size=(10, X.shape[1]))
    few, more = (rmm_bounded.qp(X, y, U[:k], C, B).solve().objective for k in (5, 10))
    alone = rmm_bounded.qp(X, y, U[:5], C, B, training=False).solve().objective
    assert svm.primal(X, y, C).solve().objective * (1 + 1e-3) < alone <= few * (1 + 1e-8)
    assert rmm.qp(X, y, C, B).solve().objective * (1 + 1e-3) < few <= more * (1 + 1e-8)


def test_gram_matrix_without_further_samples_is_refused(blobs):
    """The kernel dual needs rows beyond the labels."""
    X, y = blobs
    with pytest.raises(ValueError, match="more rows than there are labels, 40, not 40"):
        rmm_bounded.kernel_dual(X @ X.T, y)


def test_further_samples_place_no_intercept(blobs, rng):
    """Samples without margins leave the best intercept as it is, wherever they lie."""
    _, y = blobs
    for _ in range(20):
        g, far = rng.normal(size=len(y)), 5.0 * rng.normal(size=9)
        plain = hinge_families(y, 0.5).best_intercept(g)
        for B in (np.inf, 1e3):
            found = bounded_families(y, 0.5, B, 9).best_intercept(np.append(g, far))
            assert found == pytest.approx(plain, abs=1e-12)


def test_multipliers_are_extended_to_all_samples():
    """A vector of a constraint that some samples have is 0 at the others."""
    given = {"margin": np.ones(2), "lam": np.ones(3), "bound_above": np.ones(5), "w": np.ones(2)}
    found = {name: values.tolist() for name, values in extend_multipliers(given, 2, 5).items()}
    assert found == {"margin": [1, 1, 0, 0, 0], "lam": [0, 0, 1, 1, 1], "bound_above": [1] * 5, "w": [1, 1]}
