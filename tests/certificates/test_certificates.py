"""Certificates prove what is so and nothing else."""

from __future__ import annotations

import json
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from formulations import FAMILIES, family, one_norm, rmm, sigma_svm, svm
from formulations.language.program import Program, Row
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Certificate, Claim
from polyopt.certificates.certificate import Residual, combine, conclude
from polyopt.certificates.kkt import certify_program
from polyopt.margin.certify import certify_rmm, certify_sigma_svm, certify_svm
from polyopt.methods.programs import pairs_of
from polyopt.sparse.certificate import certify_one_norm

C, B, D = 1.0, 1.5, 0.7


def solved(kind, X, y):
    """Vectors of an optimal point, and the certifying function that takes them."""
    certify, vectors = _solved(kind, X.tobytes(), y.tobytes(), X.shape)
    return certify, dict(vectors)


@cache
def _solved(kind, X, y, shape):
    X, y = np.frombuffer(X).reshape(shape), np.frombuffer(y)
    K = rbf_kernel(X, gamma=0.3)
    if kind == "svm":
        s = svm.primal(X, y, C).solve()
        return lambda **kw: certify_svm(X, y, C, **kw), {
            "w": s["w"],
            "b": float(s["b"]),
            "alpha": s.duals["margin"],
        }
    if kind == "svm kernel":
        s = svm.kernel_dual(K, y, C).solve()
        vectors = {"w": s["alpha"] * y, "b": float(s.duals["b"]), "alpha": s["alpha"]}
        return lambda **kw: certify_svm(K, y, C, precomputed=True, **kw), vectors
    if kind == "sigma":
        s = sigma_svm.primal(X, y, C, D).solve()
        vectors = {"w": s["w"], "b": float(s["b"]), "alpha": s.duals["margin"]}
        return lambda **kw: certify_sigma_svm(X, y, C, D, **kw), vectors
    if kind == "sigma kernel":
        s = sigma_svm.kernel_dual(K, y, C, D).solve()
        # Coefficients of the centred samples: ((1-D) I + D/n Kc) w = alpha y.
        centring = np.eye(len(y)) - 1.0 / len(y)
        shrunk = (1.0 - D) * np.eye(len(y)) + D / len(y) * centring @ K @ centring
        w = np.linalg.solve(shrunk, s["alpha"] * y)  # adds up to 0, so that centring makes no difference
        vectors = {"w": w, "b": float(s.duals["b"]), "alpha": s["alpha"]}
        return lambda **kw: certify_sigma_svm(K, y, C, D, precomputed=True, **kw), vectors
    if kind == "rmm":
        s = rmm.qp(X, y, C, B).solve()
        vectors = {"w": s["w"], "b": float(s["b"]), "alpha": s.duals["margin"]}
        vectors |= {"lam": s.duals["bound_above"], "lam_star": s.duals["bound_below"]}
        return lambda **kw: certify_rmm(X, y, C, B, **kw), vectors
    s = rmm.kernel_dual(K, y, C, 1.2).solve()
    vectors = {name: s[name] for name in ("alpha", "lam", "lam_star")}
    vectors |= {"w": s["alpha"] * y - s["lam"] + s["lam_star"], "b": float(s.duals["b"])}
    return lambda **kw: certify_rmm(K, y, C, 1.2, precomputed=True, **kw), vectors


KINDS = ["svm", "svm kernel", "sigma", "sigma kernel", "rmm", "rmm kernel"]


@pytest.fixture(params=KINDS)
def optimum(request, blobs):
    return solved(request.param, *blobs)


def test_an_optimum_is_certified(optimum):
    certify, vectors = optimum
    certificate = certify(**vectors)
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.gap >= -1e-9
    assert certificate.relative_gap < 1e-8
    assert certificate.worst.relative < 1e-6


def test_multipliers_alone_are_enough(optimum):
    certify, vectors = optimum
    certificate = certify(**{name: v for name, v in vectors.items() if name not in ("w", "b")})
    assert certificate.claim is Claim.OPTIMAL


VECTORS = [
    (kind, name)
    for kind in KINDS
    for name in ("w", "b", "alpha", *(("lam", "lam_star") if "rmm" in kind else ()))
]


@pytest.mark.parametrize(("kind", "name"), VECTORS)
@pytest.mark.parametrize("size", [1e-2, 1e-4])
def test_a_perturbed_optimum_is_never_optimal(kind, name, size, blobs, rng):
    certify, vectors = solved(kind, *blobs)
    value = np.asarray(vectors[name], dtype=float)
    # Multipliers against the largest of them, b against the unit in which outputs are measured.
    floor = {"w": 0.0, "b": 1.0}.get(name, float(np.abs(vectors["alpha"]).max()))
    scale = max(float(np.abs(value).max()), floor)
    moved = value + size * scale * rng.choice([-1.0, 1.0], value.shape)
    certificate = certify(**{**vectors, name: float(moved) if name == "b" else moved})
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.worst.relative > certificate.tol


def test_the_false_optimum_with_a_wrong_signed_multiplier(optimum):
    """Stationary, complementary, primal feasible - and one multiplier has the wrong sign."""
    certify, vectors = optimum
    vectors = dict(vectors)
    i = int(np.argmax(vectors["alpha"]))
    vectors["alpha"] = vectors["alpha"].copy()
    vectors["alpha"][i] *= -1.0
    implied = {k: v for k, v in vectors.items() if k not in ("w", "b")}  # so that w is stationary
    certificate = certify(**implied)
    assert certificate.claim is not Claim.OPTIMAL
    signs = [r for r in certificate.residuals if r.condition == "sign"]
    assert max(signs, key=lambda r: r.relative).label == f"sign of margin[{i}]"


def test_the_false_optimum_of_the_design():
    """min x s.t. x <= 1 passes many solvers' checks at x = 1 with the multiplier -1."""
    x = cp.Variable(1, name="x")
    row = Row("cap", x <= 1, "x ≤ 1", "z", "price of the cap")
    program = Program("toy", "Toy", "a test", cp.Minimize(cp.sum(x)), "Σᵢ xᵢ", {"x": x}, (row,))
    certificate = certify_program(program, {"x": [1.0]}, {"cap": [-1.0]})
    by_condition = {r.condition: r.relative for r in certificate.residuals}
    assert by_condition["primal"] == by_condition["stationarity"] == by_condition["complementarity"] == 0
    assert by_condition["sign"] == 1
    assert certificate.claim is Claim.NONE


@pytest.mark.parametrize("name", FAMILIES)
def test_the_certificate_of_any_program_fails_perturbed_points(name, rng):
    for _turn, pair in enumerate(pairs_of(name, family(name))):
        both = (pair.primal, pair.dual)
        for program in both:
            solution = program.solve()
            assert certify_program(program, solution.primal, solution.duals).claim is Claim.CONDITIONS
            for vectors in (solution.primal, solution.duals):
                for key, value in vectors.items():
                    if key in ("t", "w_b", "s", "cap", "sign"):
                        continue  # held by other rows alone, or zero throughout
                    scale = max(float(np.abs(value).max()), 1e-2)
                    moved = {**vectors, key: value + 1e-2 * scale * rng.choice([-1.0, 1.0], value.shape)}
                    point = (
                        (moved, solution.duals) if vectors is solution.primal else (solution.primal, moved)
                    )
                    assert certify_program(program, *point).claim is Claim.NONE, (program.name, key)


def test_a_certificate_is_of_the_parameters_as_they_are_now():
    """The slopes of a row that a parameter multiplies: a point of one parameter is none of another."""
    x, a = cp.Variable(2, name="x"), cp.Parameter((1, 2), name="a")
    row = Row("cap", a @ x <= -1, "a·x ≤ −1", "z", "price of the cap")
    objective = cp.Minimize(cp.sum_squares(x))
    program = Program("toy", "Toy", "a test", objective, "‖x‖²", {"x": x}, (row,), {"a": a})

    def claim(slopes, of):
        program.set(a=[slopes])
        size = of[0] ** 2 + of[1] ** 2
        point = -np.array(of) / size
        return certify_program(program, {"x": point}, {"cap": [2.0 / size]}).claim

    for slopes in ([3.0, 4.0], [3.0, 4.0], [4.0, 3.0], [3.0, 4.0], [1.0, 0.0]):
        assert claim(slopes, slopes) is Claim.CONDITIONS
        assert claim(slopes, [0.0, 5.0]) is Claim.NONE


def test_weak_duality_at_random_points(blobs, rng):
    """Any primal point and any multipliers, however bad: the bound never exceeds the optimum."""
    X, y = blobs
    n = len(y)
    optimum = rmm.qp(X, y, C, B).solve().objective
    for _ in range(30):
        parts = [rng.normal(size=n) * 10 ** rng.uniform(-3, 2) for _ in range(3)]
        certificate = certify_rmm(X, y, C, B, alpha=parts[0], lam=parts[1], lam_star=parts[2])
        assert certificate.dual_value <= optimum + 1e-9
        w, b = rng.normal(size=3), float(rng.normal())
        certificate = certify_rmm(X, y, C, B, w=w, b=b, max_iter=20)
        assert certificate.dual_value <= optimum + 1e-9 <= certificate.primal_value + 2e-9


@pytest.mark.parametrize("kind", KINDS)
def test_a_merely_primal_optimum_gets_a_close_bound(kind, blobs):
    certify, vectors = solved(kind, *blobs)
    certificate = certify(w=vectors["w"], b=vectors["b"])
    assert certificate.claim in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
    assert certificate.relative_gap < 1e-6
    assert certificate.dual_value <= certify(**vectors).primal_value + 1e-9


def test_the_bound_of_a_poor_primal_point_is_proven_and_useful(blobs):
    X, y = blobs
    optimum = svm.primal(X, y, C).solve()
    poor = certify_svm(X, y, C, w=0.5 * optimum["w"], b=float(optimum["b"]))
    assert poor.claim is Claim.SUBOPTIMAL_BY
    true_loss = poor.primal_value - optimum.objective
    assert true_loss - 1e-9 <= poor.eps <= true_loss + 1e-3 * optimum.objective
    assert f"{poor.eps:.3g}" in poor.sentence


def test_a_point_beyond_its_bounds_is_not_called_feasible(blobs):
    X, y = blobs
    plain = svm.primal(X, y, C).solve()
    certificate = certify_rmm(X, y, C, 1.1, w=plain["w"], b=float(plain["b"]))
    assert certificate.claim is Claim.NONE
    assert "breaks its bounds" in certificate.sentence
    assert certificate.worst.label.startswith("primal of bound_")
    assert certificate.primal_value >= rmm.qp(X, y, C, 1.1).solve().objective - 1e-9


def test_hard_margin_inseparable_classes_are_proven_so():
    """x = -1, 0, 1 with labels +, -, +: alpha = (1, 2, 1) is a ray."""
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, -1.0, 1.0])
    assert certify_svm(X, y, np.inf, alpha=[1.0, 2.0, 1.0]).claim is Claim.INFEASIBLE
    assert certify_svm(X, y, np.inf, alpha=[1.0, 1.0, 0.0]).claim is not Claim.INFEASIBLE
    assert certify_svm(X, y, 10.0, alpha=[1.0, 2.0, 1.0]).claim is not Claim.INFEASIBLE
    separable = certify_svm(X[1:], y[1:], np.inf, w=[2.0], b=-1.0, alpha=[2.0, 2.0])
    assert separable.claim is Claim.OPTIMAL
    broken = certify_svm(X[1:], y[1:], np.inf, w=[1.0], b=-1.0, alpha=[2.0, 2.0])
    assert broken.claim is Claim.NONE


def test_sparse_data_give_the_same_certificate(blobs):
    X, y = blobs
    _, vectors = solved("rmm", X, y)
    dense, sparse = certify_rmm(X, y, C, B, **vectors), certify_rmm(sp.csr_matrix(X), y, C, B, **vectors)
    assert sparse.primal_value == pytest.approx(dense.primal_value, rel=1e-12)
    assert sparse.dual_value == pytest.approx(dense.dual_value, rel=1e-12)
    sigma = solved("sigma", X, y)[1]
    sparse = certify_sigma_svm(sp.csr_matrix(X), y, C, D, **sigma)
    assert sparse.claim is Claim.OPTIMAL


def test_one_norm(blobs, rng):
    K = rng.normal(size=(40, 40))
    y = blobs[1]
    s = one_norm.primal(K, y, C).solve()
    vectors = {"alpha": s["alpha"], "b": float(s["b"]), "u": s.duals["margin"]}
    assert certify_one_norm(K, y, C, **vectors).claim is Claim.OPTIMAL
    assert certify_one_norm(K, y, C, alpha=s["alpha"], b=float(s["b"])).claim is Claim.OPTIMAL
    assert certify_one_norm(K, y, C, alpha=s["alpha"]).claim is Claim.OPTIMAL
    for name in ("alpha", "b", "u"):
        moved = np.asarray(vectors[name]) + 1e-3 * rng.choice([-1.0, 1.0], np.shape(vectors[name]))
        certificate = certify_one_norm(K, y, C, **{**vectors, name: moved})
        assert certificate.claim is not Claim.OPTIMAL
        assert certificate.dual_value <= s.objective + 1e-9
    flipped = vectors["u"].copy()
    flipped[np.argmax(flipped)] *= -1
    assert certify_one_norm(K, y, C, **{**vectors, "u": flipped}).claim is not Claim.OPTIMAL


@given(
    seed=st.integers(0, 10_000),
    log_scale=st.sampled_from([-6.0, -3.0, 0.0, 3.0, 6.0]),
    duplicates=st.booleans(),
    zero_feature=st.booleans(),
)
def test_degenerate_and_badly_scaled_optima_are_certified(seed, log_scale, duplicates, zero_feature):
    """Scaling X by s and C by 1/s^2 is the same problem; the certificate must not depend on s."""
    X, y = two_blobs(n=20, seed=seed)
    if duplicates:  # contradictory ones
        X, y = np.vstack([X, X[:5]]), np.concatenate([y, -y[:5]])
    if zero_feature:
        X[:, 1] = 0.0
    s = 10.0**log_scale
    base = rmm.qp(X, y, C, B).solve()
    duals = [base.duals[name] / s**2 for name in ("margin", "bound_above", "bound_below")]
    vectors = {"w": base["w"] / s, "b": float(base["b"])}
    vectors |= dict(zip(("alpha", "lam", "lam_star"), duals, strict=True))
    certificate = certify_rmm(s * X, y, C / s**2, B, **vectors)
    assert certificate.claim is Claim.OPTIMAL
    vectors["alpha"] = vectors["alpha"] + 1e-2 / s**2
    assert certify_rmm(s * X, y, C / s**2, B, **vectors).claim is not Claim.OPTIMAL


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: certify_svm(X, y, C), "needs a primal point"),
        (lambda X, y: certify_svm(X, y, -1.0, w=np.ones(3)), "C must be positive"),
        (lambda X, y: certify_svm(X, y, np.nan, w=np.ones(3)), "C must be positive"),
        (lambda X, y: certify_rmm(X, y, C, -1.0, w=np.ones(3)), "B must be at least 0"),
        (lambda X, y: certify_rmm(X, y, C, np.nan, w=np.ones(3)), "B must be at least 0"),
        (lambda X, y: certify_sigma_svm(X, y, C, 1.5, w=np.ones(3)), r"D must lie in \[0, 1\]"),
        (lambda X, y: certify_svm(X, y[:-1], C, w=np.ones(3)), "y must have shape"),
        (lambda X, y: certify_svm(X, y, C, w=np.ones(4)), "w must have shape"),
        (lambda X, y: certify_svm(X, y, C, alpha=np.ones(4)), "alpha must have shape"),
        (lambda X, y: certify_svm(X, y, C, w=[np.nan, 0, 0]), "w must be finite"),
    ],
)
def test_bad_input_is_refused_by_name(blobs, call, message):
    with pytest.raises(ValueError, match=message):
        call(*blobs)


# -- what a certificate looks like ---------------------------------------------------------


def test_table_dict_and_frame_say_the_same(blobs):
    certify, vectors = solved("rmm", *blobs)
    certificate = certify(**vectors)
    text = str(certificate)
    assert "violated" not in text
    for r in certificate.residuals:
        assert r.row in text
    assert certificate.sentence in text
    plain = json.loads(json.dumps(certificate.to_dict()))
    assert plain["claim"] == "optimal"
    assert plain["gap"] == certificate.gap
    frame = certificate.to_frame()
    assert list(frame["relative"]) == [r.relative for r in certificate.residuals]
    assert plain["worst"] == certificate.worst.label
    vectors["alpha"] = vectors["alpha"] + 0.1
    assert "violated" in str(certify(**vectors))


@pytest.mark.parametrize(
    ("primal", "dual", "words"),
    [
        pytest.param(1.0, 1.0, "closed", id="closed"),
        pytest.param(1.0, 0.9996, "within 0.04 %", id="open"),
        pytest.param(1.0, -np.inf, "open", id="no bound"),
    ],
)
def test_a_gap_is_open_or_closed_and_no_violation(primal, dual, words):
    """A proven gap is stated as a percentage; only a condition that does not hold is a violation."""
    made = conclude("a program", primal, dual, [], 1e-6)
    (line,) = (line for line in str(made).splitlines() if line.lstrip(" │").startswith("gap"))
    assert line.rstrip(" │").endswith(words)
    assert "violat" not in str(made)


def test_parts_combine_to_their_sums_and_the_weakest_claim():
    def part(claim, value, relative):
        return Certificate("p", claim, value, value - 1, (Residual("sign", "margin", relative, relative, 3),))

    whole = combine([part(Claim.OPTIMAL, 5.0, 0.1), part(Claim.SUBOPTIMAL_BY, 7.0, 0.2)], ["a", "b"])
    assert whole.claim is Claim.SUBOPTIMAL_BY
    assert (whole.primal_value, whole.dual_value) == (12.0, 10.0)
    assert whole.worst.label == "sign of margin (b)[3]"
