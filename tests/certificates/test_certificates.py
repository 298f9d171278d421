"""Certificates prove what is so and nothing else, in features, from a Gram matrix, and from samples."""

from __future__ import annotations

import json
import tracemalloc
from functools import cache, partial

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

from formulations import FAMILIES, cpm, family, one_norm, rmm, sigma_svm, svm
from formulations.families import hinge_families
from formulations.language.program import Program, Row
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Certificate, Claim
from polyopt.certificates.certificate import Residual, combine, conclude
from polyopt.certificates.kkt import certify_program
from polyopt.cpm.certificate import certify_cpm
from polyopt.linalg.kernels import MAX_SQUARE_ROWS, Kernel, SampleGram
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.certify import certify_rmm, certify_sigma_svm, certify_svm
from polyopt.margin.geometry import KernelGeometry
from polyopt.methods.programs import pairs_of
from polyopt.sparse.certificate import certify_one_norm

C, B, D = 1.0, 1.2, 0.7
X, Y = two_blobs(seed=2)
RBF = Kernel("rbf", gamma=0.3)
K = RBF(X)


def of_rmm(duals):
    return {"alpha": duals["margin"], "lam": duals["bound_above"], "lam_star": duals["bound_below"]}


def linear_optimum(machine):
    program = {"svm": svm.primal, "sigma": partial(sigma_svm.primal, D=D), "rmm": partial(rmm.qp, B=B)}
    s = program[machine](X, Y, C).solve()
    duals = of_rmm(s.duals) if machine == "rmm" else {"alpha": s.duals["margin"]}
    return {"w": s["w"], "b": float(s["b"]), **duals}


def kernel_optimum(machine, K=K, C=C, B=B):
    if machine == "rmm":
        s = rmm.kernel_dual(K, Y, C, B).solve()
        duals = {name: s[name] for name in ("alpha", "lam", "lam_star")}
        return {"w": s["alpha"] * Y - s["lam"] + s["lam_star"], "b": float(s.duals["b"]), **duals}
    if machine == "svm":
        s = svm.kernel_dual(K, Y, C).solve()
        w = s["alpha"] * Y
    else:  # coefficients of the centred samples: ((1-D) I + D/n Kc) w = alpha y
        s = sigma_svm.kernel_dual(K, Y, C, D).solve()
        centring = np.eye(len(Y)) - 1.0 / len(Y)
        shrunk = (1.0 - D) * np.eye(len(Y)) + D / len(Y) * centring @ K @ centring
        w = np.linalg.solve(shrunk, s["alpha"] * Y)
    return {"w": w, "b": float(s.duals["b"]), "alpha": s["alpha"]}


@cache
def optimum(kind):
    """The certifying function of a kind of program, and the vectors of its optimum."""
    machine, _, form = kind.partition(" ")
    if kind == "one-norm":
        s = one_norm.primal(np.tanh(X @ X.T), Y, C).solve()
        vectors = {"alpha": s["alpha"], "b": float(s["b"]), "u": s.duals["margin"]}
        return partial(certify_one_norm, np.tanh(X @ X.T), Y, C), vectors
    if kind == "cpm":
        s = cpm.fixed_assignment(X, Y, 1, np.where(Y > 0, 0, -1), C).solve()
        return partial(certify_cpm, X, Y, C), {"W": s["W"], "alpha": np.maximum(s.duals["margin"], 0.0)}
    certify = {"svm": certify_svm, "sigma": partial(certify_sigma_svm, D=D), "rmm": partial(certify_rmm, B=B)}
    samples = {
        "": {"X": X}, "matrix": {"X": K, "precomputed": True}, "samples": {"X": X, "kernel": RBF},
    }[form]  # fmt: skip
    vectors = kernel_optimum(machine) if form else linear_optimum(machine)
    return partial(certify[machine], y=Y, C=C, **samples), vectors


FORMS = ["", " matrix", " samples"]
HINGE = [machine + form for machine in ("svm", "sigma", "rmm") for form in FORMS]
KINDS = [*HINGE, "one-norm", "cpm"]
by_kind = pytest.mark.parametrize("kind", KINDS)
DUAL = {"one-norm": "u"}  # the multipliers of the margins; alpha else


@by_kind
def test_optimum_is_certified(kind):
    """An optimum of cvxpy is optimal, with its multipliers and with the point or the multipliers alone."""
    certify, vectors = optimum(kind)
    certificate = certify(**vectors)
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.gap >= -1e-9
    assert certificate.relative_gap < 1e-7
    assert certificate.worst.relative < 1e-6
    point = ("W",) if kind == "cpm" else ("alpha", "b") if kind == "one-norm" else ("w", "b")
    alone = certify(**{name: vectors[name] for name in point})
    assert alone.dual_value <= certificate.primal_value + 1e-9
    if kind != "cpm":
        assert alone.relative_gap < 1e-6
        duals = {name: v for name, v in vectors.items() if name not in ("w", "b")}
        assert certify(**duals).claim is Claim.OPTIMAL


VECTORS = [
    (kind, name)
    for kind in KINDS
    for name in (("W", "alpha") if kind == "cpm" else ("alpha", "b", "u") if kind == "one-norm" else
                 ("w", "b", "alpha", "lam", "lam_star")[: 5 if "rmm" in kind else 3])
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), VECTORS)
@pytest.mark.parametrize("size", [1e-2, 1e-4])
def test_perturbed_optimum_is_not_optimal(kind, name, size, rng):
    """An optimum with one of its vectors off is told so by a residual above the tolerance."""
    certify, vectors = optimum(kind)
    value = np.asarray(vectors[name], dtype=float)
    # Multipliers relative to the largest, b to the unit of the outputs.
    floor = {"w": 0.0, "W": 0.0, "b": 1.0}.get(name, float(np.abs(vectors["alpha"]).max()))
    scale = max(float(np.abs(value).max()), floor)
    moved = value + size * scale * rng.choice([-1.0, 1.0], value.shape)
    certificate = certify(**{**vectors, name: float(moved) if name == "b" else moved})
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.worst.relative > certificate.tol
    assert certificate.dual_value <= certify(**vectors).primal_value


@by_kind
def test_multiplier_of_wrong_sign_is_named(kind):
    """A point with all conditions but the sign of its largest multiplier is not optimal."""
    certify, vectors = optimum(kind)
    name = DUAL.get(kind, "alpha")
    wrong = vectors[name].copy()
    i = np.unravel_index(np.argmax(wrong), wrong.shape)
    wrong[i] *= -1.0
    keep = {k: v for k, v in vectors.items() if kind in ("one-norm", "cpm") or k not in ("w", "b")}
    certificate = certify(**{**keep, name: wrong})
    assert certificate.claim is not Claim.OPTIMAL
    signs = [r for r in certificate.residuals if r.condition == "sign" and r.row.startswith("margin")]
    assert max(signs, key=lambda r: r.relative).worst == i[0]


@pytest.mark.parametrize("machine", ["svm", "sigma", "rmm"])
def test_samples_certify_as_their_matrix(machine):
    """The certificate from the samples is that from the Gram matrix, up to the stated roundings."""
    vectors = optimum(f"{machine} samples")[1]
    assert_equal(*(optimum(machine + form)[0](**vectors) for form in (" samples", " matrix")))


@pytest.mark.parametrize("machine", ["svm", "sigma", "rmm"])
def test_sparse_samples_certify_as_dense(machine):
    """A CSR matrix has the values of the dense one."""
    certify, vectors = optimum(machine)
    dense, sparse = certify(**vectors), certify(X=sp.csr_matrix(X), **vectors)
    assert sparse.claim is Claim.OPTIMAL
    assert sparse.primal_value == pytest.approx(dense.primal_value, rel=1e-9)
    assert sparse.dual_value == pytest.approx(dense.dual_value, rel=1e-9)


def assert_equal(one, other):
    """Two certificates are one, up to the roundings that they state."""
    assert one.claim is other.claim
    moved = one.rounding + other.rounding
    assert one.primal_value == pytest.approx(other.primal_value, rel=1e-12, abs=moved)
    assert one.dual_value == pytest.approx(other.dual_value, rel=1e-12, abs=moved)
    labels = [[r.label for r in each.residuals if r.relative > 1e-9] for each in (one, other)]
    assert labels[0] == labels[1]


# -- any program -----------------------------------------------------------------------------------


def test_false_optimum_by_hand():
    """min x s.t. x <= 1 passes many solvers' checks at x = 1 with the multiplier -1."""
    x = cp.Variable(1, name="x")
    row = Row("cap", x <= 1, "x ≤ 1", "z", "price of the cap")
    program = Program("toy", "Toy", "a test", cp.Minimize(cp.sum(x)), "Σᵢ xᵢ", {"x": x}, (row,))
    certificate = certify_program(program, {"x": [1.0]}, {"cap": [-1.0]})
    found = {r.condition: r.relative for r in certificate.residuals}
    assert found == {"primal": 0, "stationarity": 0, "complementarity": 0, "sign": 1}
    assert certificate.claim is Claim.NONE


@pytest.mark.parametrize("name", FAMILIES)
def test_perturbed_program_fails_its_conditions(name, rng):
    """An optimum of any program meets the conditions, and with a vector that is off it does not."""
    for number, pair in enumerate(pairs_of(name, family(name))):
        for program in (pair.primal, pair.dual):
            solution = program.solve()
            assert certify_program(program, solution.primal, solution.duals).claim is Claim.CONDITIONS
            moved = [(0, key) for key in solution.primal] + [(1, key) for key in solution.duals]
            if number or program is pair.dual:
                moved = moved[-1:]  # variants of the first program, and its dual
            for kind, key in moved:
                if key in ("t", "w_b", "s", "cap", "sign"):
                    continue  # held by other rows alone, or zero throughout
                point = [dict(solution.primal), dict(solution.duals)]
                value = point[kind][key]
                scale = max(float(np.abs(value).max()), 1e-2)
                point[kind][key] = value + 1e-2 * scale * rng.choice([-1.0, 1.0], value.shape)
                assert certify_program(program, *point).claim is Claim.NONE, (program.name, key)


def test_certificate_is_of_present_parameters():
    """The conditions have the value of a parameter at the call: another value's optimum fails them."""
    x, a = cp.Variable(2, name="x"), cp.Parameter((1, 2), name="a")
    row = Row("cap", a @ x <= -1, "a·x ≤ −1", "z", "price of the cap")
    objective = cp.Minimize(cp.sum_squares(x))
    program = Program("toy", "Toy", "a test", objective, "‖x‖²", {"x": x}, (row,), {"a": a})

    def claim(slopes, of):
        program.set(a=[slopes])
        size = of[0] ** 2 + of[1] ** 2
        return certify_program(program, {"x": -np.array(of) / size}, {"cap": [2.0 / size]}).claim

    for slopes in ([3.0, 4.0], [3.0, 4.0], [4.0, 3.0], [3.0, 4.0], [1.0, 0.0]):
        assert claim(slopes, slopes) is Claim.CONDITIONS
        assert claim(slopes, [0.0, 5.0]) is Claim.NONE


# -- bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "steps"), [("svm", 2000), ("svm samples", 500)])
def test_ascent_climbs_from_poor_point(kind, steps):
    """The bound of a poor point is close to the optimum, and closer than without the ascent."""
    certify, vectors = optimum(kind)
    best = certify(**vectors).primal_value
    few, many = (certify(w=0.4 * vectors["w"], b=vectors["b"], max_iter=k) for k in (1, steps))
    assert few.dual_value < 0.98 * best
    assert best * (1 - 1e-3) < many.dual_value <= best * (1 + 1e-9)
    assert many.claim is Claim.SUBOPTIMAL_BY
    assert many.eps == pytest.approx(many.primal_value - best, rel=1e-2)
    assert f"{many.eps:.3g}" in many.sentence


@pytest.mark.parametrize("bound", [0.5, 1.0, 1e3])
def test_coefficients_imply_their_multipliers(bound):
    """Expansion coefficients are multipliers but for signs; the bound that they imply is tight."""
    costs = np.linspace(0.5, 2.0, len(Y))
    vectors = kernel_optimum("rmm", C=costs, B=bound)
    given = {"w": vectors["w"], "b": vectors["b"], "max_iter": 1}
    assert certify_rmm(X, Y, costs, bound, kernel=RBF, **given).claim is Claim.OPTIMAL
    rows = hinge_families(Y, costs, bound)
    Z = rows.split(vectors["w"])
    assert rows.beta(Z) == pytest.approx(vectors["w"], abs=1e-12)
    if bound != 1.0:  # else alpha and lam cost the same, and any mixture is optimal
        assert Z == pytest.approx(rows.stacked(rows.of_letters(vectors)), abs=1e-6)


@pytest.mark.parametrize("steps", [0, 2000])
def test_other_packages_coefficients_have_a_bound(steps):
    """A coarse solution of LIBSVM is within 5 % of the optimum, proven with and without the ascent."""
    samples, y = two_blobs(n=100, seed=3, separation=1.0)
    theirs = SVC(C=5.0, gamma=0.3, tol=0.1).fit(samples, y)
    coef = np.zeros(100)
    coef[theirs.support_] = theirs.dual_coef_[0]
    given = {"w": coef, "b": float(theirs.intercept_[0]), "kernel": RBF, "max_iter": steps}
    found = certify_svm(samples, y, 5.0, **given)
    best = svm.kernel_dual(RBF(samples), y, 5.0).solve().objective
    assert found.claim is Claim.SUBOPTIMAL_BY
    assert found.dual_value <= best * (1 + 1e-7)
    assert found.primal_value >= best * (1 - 1e-7)
    assert found.relative_gap < 0.05
    assert "of the optimum of the SVM, proven" in found.sentence


def test_point_beyond_its_bounds_is_infeasible():
    """An SVM's point breaks the bounds of a relative margin machine, and no claim is made of it."""
    vectors = optimum("svm")[1]
    certificate = certify_rmm(X, Y, C, 1.01, w=vectors["w"], b=vectors["b"])
    assert certificate.claim is Claim.NONE
    assert "breaks its bounds" in certificate.sentence
    assert certificate.worst.label.startswith("primal of bound_")
    assert certificate.primal_value >= rmm.qp(X, Y, C, 1.01).solve().objective - 1e-9


LINE, SIGNS = np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, -1.0, 1.0])


@pytest.mark.parametrize(("rows", "C", "given", "claim"), [
    (slice(3), np.inf, {"alpha": [1.0, 2.0, 1.0]}, Claim.INFEASIBLE),
    (slice(3), np.inf, {"alpha": [1.0, 1.0, 0.0]}, Claim.NONE),
    (slice(3), 10.0, {"alpha": [1.0, 2.0, 1.0]}, Claim.SUBOPTIMAL_BY),
    (slice(1, 3), np.inf, {"w": [2.0], "b": -1.0, "alpha": [2.0, 2.0]}, Claim.OPTIMAL),
    (slice(1, 3), np.inf, {"w": [1.0], "b": -1.0, "alpha": [2.0, 2.0]}, Claim.NONE),
], ids=["ray", "no ray", "soft", "separable", "broken"])  # fmt: skip
def test_hard_margin_on_a_line(rows, C, given, claim):
    """x = -1, 0, 1 with labels +, -, + has the ray (1, 2, 1); two of them are separable."""
    assert certify_svm(LINE[rows], SIGNS[rows], C, **given).claim is claim


@given(
    seed=st.integers(0, 10_000),
    log_scale=st.sampled_from([-6.0, -3.0, 0.0, 3.0, 6.0]),
    duplicates=st.booleans(),
    zero_feature=st.booleans(),
)
def test_degenerate_scaled_optima_are_certified(seed, log_scale, duplicates, zero_feature):
    """Scaling X by s and C by 1/s^2 is the same problem; the certificate must not depend on s."""
    samples, y = two_blobs(n=20, seed=seed)
    if duplicates:  # contradictory ones
        samples, y = np.vstack([samples, samples[:5]]), np.concatenate([y, -y[:5]])
    if zero_feature:
        samples[:, 1] = 0.0
    s = 10.0**log_scale
    base = rmm.qp(samples, y, C, 1.5).solve()
    vectors = {"w": base["w"] / s, "b": float(base["b"])}
    vectors |= {name: part / s**2 for name, part in of_rmm(base.duals).items()}
    assert certify_rmm(s * samples, y, C / s**2, 1.5, **vectors).claim is Claim.OPTIMAL
    vectors["alpha"] = vectors["alpha"] + 1e-2 / s**2
    assert certify_rmm(s * samples, y, C / s**2, 1.5, **vectors).claim is not Claim.OPTIMAL


# -- kernels by blocks -----------------------------------------------------------------------------


def cubic(A, Z):
    product = A @ Z.T
    return (product.toarray() if sp.issparse(product) else product) ** 3


KERNELS = {
    "linear": Kernel("linear"),
    "poly": Kernel("poly", gamma=0.4, degree=3, coef0=1.0),
    "rbf": Kernel("rbf", gamma=0.3),
    # Its argument is so small that tanh is nearly linear: semidefinite to 1e-10 of its size.
    "sigmoid": Kernel("sigmoid", gamma=1e-5),
    "callable": Kernel(cubic),
}
by_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
by_storage = pytest.mark.parametrize(
    ("cache_bytes", "store"), [(2**29, np.asarray), (0, sp.csr_array)], ids=["cached", "computed anew"]
)


@by_kernel
@by_storage
def test_blocks_certify_as_the_matrix(kernel, cache_bytes, store):
    """The certificate by blocks of columns, cached or computed anew, is that of the whole matrix."""
    matrix = kernel(X)
    cost = 10.0 / np.abs(matrix).max()
    vectors = kernel_optimum("rmm", matrix, cost, 1.5)
    whole = certify_rmm(matrix, Y, cost, 1.5, precomputed=True, **vectors)
    if kernel.name == "sigmoid":
        assert "has an eigenvalue near -" in whole.note
        assert 1e-6 < whole.rounding / whole.primal_value < 0.2
        return
    assert whole.claim is Claim.OPTIMAL
    assert whole.rounding <= 1e-9 * whole.primal_value
    geometry = KernelGeometry(SampleGram(store(X), kernel), cache_bytes=cache_bytes)
    machine = HingeProgram("the RMM", geometry, hinge_families(Y, cost, 1.5))
    duals = {row: vectors[name] for row, name in zip(
        ("margin", "bound_above", "bound_below"), ("alpha", "lam", "lam_star"), strict=True)}  # fmt: skip
    found = certify_hinge(machine, v=vectors["w"], b=vectors["b"], multipliers=duals)
    assert_equal(found, whole)


@by_kernel
@by_storage
def test_kernel_geometry_multiplies_by_the_matrix(kernel, cache_bytes, store, rng):
    """Every operation on 600 samples, which are more than one block, is that of the whole matrix."""
    samples = rng.normal(size=(600, 4))
    matrix = kernel(samples)
    geometry = KernelGeometry(SampleGram(store(samples), kernel), cache_bytes=cache_bytes)
    v, other = (np.where(rng.random(600) < 0.1, rng.normal(size=600), 0.0) for _ in range(2))
    scale = 1e-12 * float((np.abs(matrix) @ np.abs(v)).max())
    geometry.prepare(v, 2.0 * v)
    for asked in (v, other, v + other, v):
        for product in (geometry.scores, geometry.gradient, geometry.adjoint):
            assert product(asked) == pytest.approx(matrix @ asked, abs=3 * scale)
        assert geometry.energy(asked).mid == pytest.approx(asked @ matrix @ asked, rel=1e-11)
        largest = (np.abs(matrix) @ np.abs(asked)).max()
        assert geometry.adjoint_scale(asked) == pytest.approx(largest, rel=1e-12)
    some = np.array([7, 3, 3, 599])
    assert geometry.columns(some) == pytest.approx(matrix[:, some], rel=1e-12, abs=scale)
    assert geometry.gradient_scale == pytest.approx(np.sqrt(matrix.diagonal().max()), rel=1e-12)
    if kernel.name != "sigmoid":
        assert geometry.curvature() == pytest.approx(np.linalg.eigvalsh(matrix)[-1], rel=0.1)


def peak_of(call):
    tracemalloc.start()
    found = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, peak


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", [RBF, Kernel("poly", coef0=1.0)], ids=["rbf", "poly"])
def test_no_square_array_is_made(store, kernel, rng):
    """The columns of 100 support vectors of 6,000 samples are 5 MB; the matrix would be 288 MB."""
    n = 6000
    samples, y = store(rng.normal(size=(n, 5))), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    alpha = np.where(np.arange(n) < 100, 1.0, 0.0)
    given = {"w": alpha * y, "b": 0.0, "alpha": alpha, "kernel": kernel}
    found, peak = peak_of(lambda: certify_rmm(samples, y, 1.0, 2.0, **given))
    assert found.claim is not Claim.OPTIMAL
    assert peak < 24e6


def test_few_rows_are_held_beyond_cache(rng):
    """If all 4,000 samples are support vectors, a block of 512 rows is in memory and not the matrix."""
    n = 4000
    samples, y = rng.normal(size=(n, 5)), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    geometry = KernelGeometry(SampleGram(samples, Kernel("rbf")), cache_bytes=2**20)
    program = HingeProgram("it", geometry, hinge_families(y, 1.0))
    _, peak = peak_of(lambda: certify_hinge(program, multipliers={"margin": np.ones(n)}))
    assert peak < 0.5 * 8 * n * n


# -- bad input -------------------------------------------------------------------------------------

W3 = np.ones(3)
BAD = {
    "needs a primal point": lambda: certify_svm(X, Y, C),
    "C must be positive": lambda: certify_svm(X, Y, -1.0, w=W3),
    "^C must be positive": lambda: certify_svm(X, Y, np.nan, w=W3),
    "B must be at least 0": lambda: certify_rmm(X, Y, C, -1.0, w=W3),
    "^B must be at least 0": lambda: certify_rmm(X, Y, C, np.nan, w=W3),
    r"D must lie in \[0, 1\]": lambda: certify_sigma_svm(X, Y, C, 1.5, w=W3),
    "y must have shape": lambda: certify_svm(X, Y[:-1], C, w=W3),
    "w must have shape": lambda: certify_svm(X, Y, C, w=np.ones(4)),
    "alpha must have shape": lambda: certify_svm(X, Y, C, alpha=np.ones(4)),
    "w must be finite": lambda: certify_svm(X, Y, C, w=[np.nan, 0, 0]),
    "kernel must be None": lambda: certify_svm(K, Y, kernel=RBF, precomputed=True, w=Y),
    r"w must have shape \(40,\)": lambda: certify_svm(X, Y, kernel=RBF, w=W3),
    "must be square": lambda: certify_svm(X, Y, precomputed=True, w=Y),
    "must be positive semidefinite": lambda: certify_svm(-X @ X.T, Y, precomputed=True, w=Y),
    "be positive semidefinite": lambda: certify_rmm(X, Y, kernel=Kernel("sigmoid", coef0=-1.0), w=Y),
    "^K must be square": lambda: certify_one_norm(X, Y, C, alpha=Y, b=0.0),
    "must be symmetric": lambda: certify_svm(X, Y, kernel=Kernel(lambda A, Z: A @ Z.T + A[:, :1]), w=Y),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused_by_name(message):
    """Each refusal names the argument that is wrong."""
    with pytest.raises(ValueError, match=message):
        BAD[message]()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("b", np.nan), ("b", np.inf), ("b", Y), ("b", 1j), ("w", W3 + 1j), ("w", np.full(3, np.nan)),
        ("alpha", np.full(40, np.nan)), ("tol", np.inf), ("tol", 0.0), ("tol", -1.0), ("max_iter", -1),
    ],
)  # fmt: skip
def test_non_numbers_are_refused_by_name(name, value):
    """Complex numbers, infinities and tolerances that prove nothing are refused."""
    with pytest.raises(ValueError, match=f"^{name} must"):
        certify_svm(X, Y, 1.0, **{"w": W3, name: value})


def test_sigma_svm_of_many_samples_is_refused():
    """A Sigma-SVM with a kernel needs the whole Gram matrix, and that of so many samples is too large."""
    n = MAX_SQUARE_ROWS + 1
    samples, y = np.arange(n, dtype=float)[:, None], np.where(np.arange(n) % 2, 1.0, -1.0)
    with pytest.raises(ValueError, match=rf"X has {n} samples, and .* at most {n - 1} samples"):
        certify_sigma_svm(samples, y, kernel=Kernel("linear"), w=y)


# -- what a certificate looks like -----------------------------------------------------------------


def test_table_dict_and_frame_agree():
    """The printed table, the plain dict and the frame of a certificate have the same numbers."""
    certify, vectors = optimum("rmm")
    certificate = certify(**vectors)
    text, plain = str(certificate), json.loads(json.dumps(certificate.to_dict()))
    assert "violated" not in text
    assert all(r.row in text for r in certificate.residuals)
    assert certificate.sentence in text
    assert (plain["claim"], plain["gap"]) == ("optimal", certificate.gap)
    assert plain["worst"] == certificate.worst.label
    assert list(certificate.to_frame()["relative"]) == [r.relative for r in certificate.residuals]
    assert "violated" in str(certify(**vectors | {"alpha": vectors["alpha"] + 0.1}))


@pytest.mark.parametrize(
    ("primal", "dual", "words"),
    [(1.0, 1.0, "closed"), (1.0, 0.9996, "within 0.04 %"), (1.0, -np.inf, "open")],
    ids=["closed", "open", "no bound"],
)
def test_gap_is_no_violation(primal, dual, words):
    """A proven gap is stated as a percentage; only a condition that does not hold is a violation."""
    made = conclude("a program", primal, dual, [], 1e-6)
    (line,) = (line for line in str(made).splitlines() if line.lstrip(" │").startswith("gap"))
    assert line.rstrip(" │").endswith(words)
    assert "violat" not in str(made)


def test_parts_combine_to_weakest_claim():
    """Parts add up their values, have the weakest of their claims, and name the worst residual's part."""

    def part(claim, value, relative):
        return Certificate("p", claim, value, value - 1, (Residual("sign", "margin", relative, relative, 3),))

    optimal, lesser = part(Claim.OPTIMAL, 5.0, 0.1), part(Claim.SUBOPTIMAL_BY, 7.0, 0.2)
    whole = combine([optimal, lesser], ["a", "b"])
    assert whole.claim is Claim.SUBOPTIMAL_BY
    assert (whole.primal_value, whole.dual_value) == (12.0, 10.0)
    assert whole.worst.label == "sign of margin (b)[3]"
    assert combine([lesser, optimal], ["a", "b"]).worst.label == "sign of margin (a)[3]"
    assert (
        combine([optimal, optimal], ["a", "b"]).worst.label == "sign of margin (a)[3]"
    )  # the first of equals
    alone = combine([optimal], ["only"])
    assert (alone.primal_value, alone.dual_value, alone.tol) == (5.0, 4.0, optimal.tol)
