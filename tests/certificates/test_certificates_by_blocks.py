"""Certificates of kernel machines from the samples: the same numbers, without the whole Gram matrix."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

from formulations import rmm, sigma_svm, svm
from formulations.families import hinge_families
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.margin import certificate as ascent
from polyopt.margin import certify as classifiers
from polyopt.margin import geometry
from polyopt.margin.certify import certify_rmm, certify_sigma_svm, certify_svm
from polyopt.margin.geometry import KernelGeometry


def cubic(A, Z):
    product = A @ Z.T
    return (product.toarray() if sp.issparse(product) else product) ** 3


KERNELS = {
    "linear": Kernel("linear"),
    "poly": Kernel("poly", gamma=0.4, degree=3, coef0=1.0),
    "rbf": Kernel("rbf", gamma=0.3),
    # Its argument is so small that tanh is all but linear: semidefinite to 1e-10 of its size, and no nearer.
    "sigmoid": Kernel("sigmoid", gamma=1e-5),
    "callable": Kernel(cubic),
}
STORED = {"dense": np.asarray, "csr": sp.csr_array}


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def kernel(request):
    return request.param


kept_or_streamed = pytest.mark.parametrize(
    ("budget", "store"),
    [(2**29, np.asarray), (0, sp.csr_array)],
    indirect=["budget"],
    ids=["kept", "streamed"],
)


@pytest.fixture
def budget(request, monkeypatch):
    """Bytes of kernel columns that are kept; 0 has all of them computed anew."""
    monkeypatch.setattr(geometry, "_CACHE_BYTES", request.param)


def optimum(K, y, C, B):
    s = rmm.kernel_dual(K, y, C, B).solve()
    beta = s["alpha"] * y - s["lam"] + s["lam_star"]
    vectors = {name: s[name] for name in ("alpha", "lam", "lam_star")}
    return {"w": beta, "b": float(s.duals["b"]), **vectors}


def same(one, other):
    assert one.claim is other.claim
    # Each is moved by a rounding that it states.
    moved = one.rounding + other.rounding
    assert one.primal_value == pytest.approx(other.primal_value, rel=1e-12, abs=moved)
    assert one.dual_value == pytest.approx(other.dual_value, rel=1e-12, abs=moved)
    assert [r.label for r in one.residuals if r.relative > 1e-9] == [
        r.label for r in other.residuals if r.relative > 1e-9
    ]


@kept_or_streamed
def test_by_blocks_as_by_the_whole_matrix(kernel, budget, store):
    X, y = two_blobs(n=60, seed=1)
    K = kernel(X)
    C, B = 10.0 / np.abs(K).max(), 1.5
    vectors = optimum(K, y, C, B)
    whole = certify_rmm(K, y, C, B, precomputed=True, **vectors)
    if kernel.name == "sigmoid":
        assert "has an eigenvalue near -" in whole.note
        assert 1e-6 < whole.rounding / whole.primal_value < 0.2
    else:
        assert whole.claim is Claim.OPTIMAL
        assert whole.rounding <= 1e-9 * whole.primal_value
    same(certify_rmm(store(X), y, C, B, kernel=kernel, **vectors), whole)
    short = {name: vectors[name] for name in ("w", "b", "alpha")}
    same(certify_svm(store(X), y, C, kernel=kernel, **short), certify_svm(K, y, C, precomputed=True, **short))
    implied = {name: vectors[name] for name in ("alpha", "lam", "lam_star")}
    same(
        certify_rmm(store(X), y, C, B, kernel=kernel, **implied),
        certify_rmm(K, y, C, B, precomputed=True, **implied),
    )


@kept_or_streamed
def test_every_operation_of_the_geometry(kernel, budget, store, rng):
    X = rng.normal(size=(600, 4))  # more than one block of rows
    K = kernel(X)
    geometry = KernelGeometry(SampleGram(store(X), kernel))
    v = np.where(rng.random(600) < 0.1, rng.normal(size=600), 0.0)
    other = np.where(rng.random(600) < 0.1, rng.normal(size=600), 0.0)
    scale = 1e-12 * float((np.abs(K) @ np.abs(v)).max())
    geometry.prepare(v, 2.0 * v)
    for asked in (v, other, v + other, v):
        for product in (geometry.scores, geometry.gradient, geometry.adjoint):
            assert product(asked) == pytest.approx(K @ asked, abs=3 * scale)
        assert geometry.energy(asked).mid == pytest.approx(asked @ K @ asked, rel=1e-11)
        assert geometry.adjoint_scale(asked) == pytest.approx((np.abs(K) @ np.abs(asked)).max(), rel=1e-12)
    samples = np.array([7, 3, 3, 599])
    assert geometry.columns(samples) == pytest.approx(K[:, samples], rel=1e-12, abs=scale)
    assert geometry.gradient_scale == pytest.approx(np.sqrt(K.diagonal().max()), rel=1e-12)
    if kernel.name != "sigmoid":
        assert geometry.curvature() == pytest.approx(np.linalg.eigvalsh(K)[-1], rel=0.1)


@pytest.mark.parametrize("name", ["w", "b", "alpha", "lam", "lam_star"])
@pytest.mark.parametrize("size", [1e-2, 1e-4])
def test_a_perturbed_optimum_is_never_optimal(name, size, blobs, rng):
    X, y = blobs
    kernel = KERNELS["rbf"]
    vectors = optimum(kernel(X), y, 1.0, 1.2)
    value = np.asarray(vectors[name])
    moved = value + size * rng.choice([-1.0, 1.0], value.shape)
    certificate = certify_rmm(X, y, 1.0, 1.2, kernel=kernel, **{**vectors, name: moved})
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.worst.relative > certificate.tol


@pytest.mark.parametrize("B", [0.5, 1.0, 1e3])
def test_coefficients_alone_are_proven_optimal(B, blobs):
    """Expansion coefficients are multipliers but for signs; the bound they imply is tight."""
    X, y = blobs
    kernel, costs = KERNELS["rbf"], np.linspace(0.5, 2.0, len(y))
    vectors = optimum(kernel(X), y, costs, B)
    certificate = certify_rmm(X, y, costs, B, kernel=kernel, w=vectors["w"], b=vectors["b"], max_iter=1)
    assert certificate.claim is Claim.OPTIMAL
    rows = hinge_families(y, costs, B)
    Z = rows.split(vectors["w"])
    assert rows.beta(Z) == pytest.approx(vectors["w"], abs=1e-12)
    if B != 1.0:  # where alpha and lam cost the same, any mixture is optimal
        assert Z == pytest.approx(rows.stacked(rows.of_letters(vectors)), abs=1e-6)


def test_the_ascent_climbs_from_a_poor_point(blobs):
    X, y = blobs
    kernel = KERNELS["rbf"]
    solution = svm.kernel_dual(kernel(X), y, 1.0).solve()
    w, b = 0.3 * solution["alpha"] * y, float(solution.duals["b"])
    few, many = (certify_svm(X, y, 1.0, w=w, b=b, kernel=kernel, max_iter=k) for k in (1, 500))
    optimal = solution.objective
    assert few.dual_value < 0.98 * optimal < many.dual_value
    assert optimal * (1 - 1e-6) < many.dual_value <= optimal * (1 + 1e-9)
    assert many.claim is Claim.SUBOPTIMAL_BY
    assert many.eps == pytest.approx(many.primal_value - optimal, rel=1e-4)


@pytest.mark.parametrize("D", [0.0, 0.7])
def test_a_sigma_svm_from_its_samples(D, blobs):
    X, y = blobs
    kernel = KERNELS["rbf"]
    s = sigma_svm.kernel_dual(kernel(X), y, 1.0, D).solve()
    # Coefficients of the centred samples: ((1-D) I + D/n Kc) w = alpha y.
    centring = np.eye(len(y)) - 1.0 / len(y)
    shrunk = (1.0 - D) * np.eye(len(y)) + D / len(y) * centring @ kernel(X) @ centring
    w = np.linalg.solve(shrunk, s["alpha"] * y)
    vectors = {"w": w, "b": float(s.duals["b"]), "alpha": s["alpha"]}
    certificate = certify_sigma_svm(X, y, 1.0, D, kernel=kernel, **vectors)
    assert certificate.claim is Claim.OPTIMAL
    same(certificate, certify_sigma_svm(kernel(X), y, 1.0, D, precomputed=True, **vectors))
    vectors["alpha"] = vectors["alpha"] + 1e-3
    assert certify_sigma_svm(X, y, 1.0, D, kernel=kernel, **vectors).claim is not Claim.OPTIMAL


@pytest.mark.parametrize("store", STORED.values(), ids=STORED)
def test_no_square_array_is_made(store, rng):
    """100 support vectors of 6,000: their columns are 5 MB, the matrix would be 288 MB."""
    n = 6000
    X, y = rng.normal(size=(n, 5)), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    alpha = np.where(np.arange(n) < 100, 1.0, 0.0)
    samples = store(X)
    for kernel in (Kernel("rbf"), Kernel("poly", coef0=1.0)):
        tracemalloc.start()
        certificate = certify_rmm(samples, y, 1.0, 2.0, w=alpha * y, b=0.0, alpha=alpha, kernel=kernel)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert certificate.claim is not Claim.OPTIMAL
        assert peak < 24e6


def test_beyond_the_budget_no_more_is_held_than_a_few_rows(monkeypatch, rng):
    monkeypatch.setattr(geometry, "_CACHE_BYTES", 2**20)
    n = 4000
    X, y = rng.normal(size=(n, 5)), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    tracemalloc.start()
    certify_svm(X, y, 1.0, alpha=np.ones(n), kernel=Kernel("rbf"))  # all n samples are support vectors
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * n * n  # a block of 512 rows of 4,000, its absolute values, and a little more


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda X, y: certify_svm(X @ X.T, y, kernel=Kernel("rbf"), precomputed=True, w=y),
            "kernel must be None",
        ),
        (lambda X, y: certify_svm(X, y, kernel=Kernel("rbf"), w=np.ones(3)), r"w must have shape \(40,\)"),
        (lambda X, y: certify_svm(X, y, precomputed=True, w=y), "must be square"),
        (lambda X, y: certify_svm(-X @ X.T, y, precomputed=True, w=y), "must be positive semidefinite"),
        (
            lambda X, y: certify_rmm(X, y, kernel=Kernel("sigmoid", coef0=-1.0), w=y),
            "must be positive semidefinite",
        ),
        (
            lambda X, y: certify_svm(X, y, kernel=Kernel(lambda A, Z: A @ Z.T + A[:, :1]), w=y),
            "must be symmetric",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call(*two_blobs())


def test_a_sigma_svm_of_too_many_samples_is_refused(monkeypatch):
    monkeypatch.setattr(classifiers, "MAX_SQUARE_ROWS", 39)
    X, y = two_blobs()
    with pytest.raises(ValueError, match=r"X has 40 samples, and .* at most 39 samples"):
        certify_sigma_svm(X, y, kernel=Kernel("rbf"), w=y)


@pytest.mark.parametrize("values", [0, 4e9], ids=["no ascent", "ascent"])
def test_coefficients_of_another_package_have_a_bound(values, monkeypatch):
    monkeypatch.setattr(ascent, "OPTIONS", replace(ascent.OPTIONS, max_kernel_values=values))
    X, y = two_blobs(n=100, seed=3, separation=1.0)
    theirs = SVC(C=5.0, gamma=0.3, tol=0.1).fit(X, y)
    coef = np.zeros(100)
    coef[theirs.support_] = theirs.dual_coef_[0]
    kernel = Kernel("rbf", gamma=0.3)
    found = certify_svm(X, y, 5.0, w=coef, b=float(theirs.intercept_[0]), kernel=kernel)
    optimum = svm.kernel_dual(kernel(X), y, 5.0).solve().objective
    assert found.claim is Claim.SUBOPTIMAL_BY
    assert found.dual_value <= optimum * (1 + 1e-7)
    assert found.primal_value >= optimum * (1 - 1e-7)
    assert found.relative_gap < 0.05
    assert "of the optimum of the SVM, proven" in found.sentence
