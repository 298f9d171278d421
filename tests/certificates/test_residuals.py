"""Residuals at points of no merit: value, scale and worst row are those of the conditions written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from formulations import cpm, spla1
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.certificates.certificate import combine
from polyopt.certificates.points import checked_faces
from polyopt.cpm.certificate import certify_cpm
from polyopt.margin.certify import certify_svm
from polyopt.polyhedral.logistic_certificate import certify_plume, certify_spla1
from polyopt.polyhedral.lp_certificate import certify_pc_slp, certify_polyceptron
from polyopt.sparse.certificate import certify_l0, certify_one_norm

N, K = 30, 3


def point(seed):
    """Data, costs, faces and multipliers, all of them random; every other multiplier is zero."""
    rng = np.random.default_rng(seed)
    X, y = two_blobs(n=N, m=2, seed=seed)
    C, W = rng.uniform(0.5, 2.0, N), rng.normal(size=(K, 3))
    u = np.where(rng.random((N, K)) < 0.5, rng.normal(size=(N, K)) * 0.5, 0.0)
    return X, y, C, W, u, rng


def worst(violation, scale):
    """What a residual has to say: value, relative value and place."""
    at = int(np.argmax(violation))
    value = max(float(np.ravel(violation)[at]), 0.0)
    return value, value / scale, at if value > 0 else None


def require(certificate, expected):
    found = {(r.condition, r.row): r for r in certificate.residuals}
    assert set(found) == set(expected)
    for key, (value, relative, at) in expected.items():
        assert found[key].value == pytest.approx(value, rel=1e-9, abs=1e-14), key
        assert found[key].relative == pytest.approx(relative, rel=1e-9, abs=1e-14), key
        assert found[key].worst == at, key


def of_linear_programs(X, y, W, M, unused, xi, chosen, R, scale):
    """The conditions of a program whose faces are held by a box, for multipliers M (n, K)."""
    lifted = np.column_stack([X, np.ones(N)])
    inner, side = np.clip(W, -R, R), np.where(np.abs(W) >= R, np.sign(W), 0.0)
    s = lifted @ inner.T
    hinge = np.maximum(1.0 - y[:, None] * s, 0.0)
    off = (y[:, None] * M).T @ lifted
    loose = np.where(side == 0, np.abs(off), np.maximum(-side * off, 0.0))
    own = hinge[np.arange(N), np.maximum(chosen, 0)]
    gain = np.where(y < 0, own - hinge.min(axis=1), 0.0)
    surplus = y[:, None] * s - 1.0 + xi
    lost = np.where(side == 0, 0.0, np.abs(off) * (R - np.abs(inner)))
    return {
        ("primal", "box"): worst((np.abs(W) - R).max(axis=1), R),
        ("stationarity", "assignment"): worst(gain, 1.0),
        ("sign", "margin"): worst((-M).max(axis=1), np.abs(M).max()),
        ("sign", "slack"): worst((-unused).max(axis=1), np.abs(M).max()),
        ("stationarity", "balance"): worst(loose.max(axis=1), (np.abs(M).T @ np.abs(lifted)).max()),
        ("complementarity", "margin"): worst(np.abs(M * surplus).max(axis=1), scale),
        ("complementarity", "slack"): worst(np.abs(unused * xi).max(axis=1), scale),
        ("complementarity", "box"): worst(lost.max(axis=1), scale),
    }


@pytest.mark.parametrize("R", [0.8, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_of_the_exact_polyceptron(seed, R):
    X, y, C, W, u, rng = point(seed)
    chosen = np.where(y < 0, rng.integers(0, K, N), -1)
    lifted = np.column_stack([X, np.ones(N)])
    hinge = np.maximum(1.0 - y[:, None] * (lifted @ np.clip(W, -R, R).T), 0.0)
    caps = C[:, None] * ((y > 0)[:, None] | (chosen[:, None] == np.arange(K)))
    certificate = certify_polyceptron(X, y, W, C=C, u=u, assignment=chosen, radius=R)
    scale = max((caps * hinge).sum(), certificate.dual_value)
    require(certificate, of_linear_programs(X, y, W, u, caps - u, hinge, chosen, R, scale))
    assert (certificate.claim is Claim.NONE) == (np.abs(W).max() > R)


@pytest.mark.parametrize("R", [0.8, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_of_pc_slp(seed, R):
    X, y, C, W, u, rng = point(seed)
    chosen = np.where(y < 0, rng.integers(0, K, N), -1)
    lifted = np.column_stack([X, np.ones(N)])
    hinge = np.maximum(1.0 - y[:, None] * (lifted @ np.clip(W, -R, R).T), 0.0)
    q = rng.normal(size=N) * 0.05
    u = 0.05 * u
    shares = C / np.where(y > 0, C[y > 0].sum(), C[y < 0].sum())
    own = (chosen[:, None] == np.arange(K)) & (y < 0)[:, None]
    M = np.where((y > 0)[:, None], u, own * q[:, None])
    xi = np.where(y > 0, hinge.max(axis=1), hinge[np.arange(N), np.maximum(chosen, 0)])[:, None]
    certificate = certify_pc_slp(X, y, W, C=C, u=u, q=q, assignment=chosen, radius=R)
    assert certificate.primal_value == pytest.approx(float(shares @ xi[:, 0]), rel=1e-9)
    scale = max(float(shares @ xi[:, 0]), certificate.dual_value)
    unused = shares[:, None] - M.sum(axis=1)[:, None]
    expected = of_linear_programs(X, y, W, M, unused, xi, chosen, R, scale)
    # A slack is one for all faces of a sample: complementary where the least surplus is, for each multiplier.
    require(certificate, expected)


@pytest.mark.parametrize("size", [1.0, 0.05, 0.0])  # of multipliers, next to the faces
@pytest.mark.parametrize(("loss", "margin"), [("max", "total"), ("sum", "worst"), ("max", "worst")])
def test_of_the_polytope_machine_with_coupled_faces(loss, margin, size):
    """A negative pays once for all faces, or the longest face is paid for: value, bound and conditions."""
    X, y, C, W, u, rng = point(5)
    z, alpha = np.where(y > 0, rng.integers(0, K, N), -1), size * u
    lifted = np.column_stack([X, np.ones(N)])
    Z = (y < 0)[:, None] | (z[:, None] == np.arange(K))
    hinge = np.maximum(1.0 - y[:, None] * (lifted @ W.T), 0.0)
    shared = (y < 0) & (loss == "max")
    paid = np.where(shared, hinge.max(axis=1), (hinge * Z).sum(axis=1))
    squares, v = (W**2).sum(axis=1), (alpha * y[:, None]).T @ lifted
    lengths = np.linalg.norm(v, axis=1)
    theta = np.ones(K) if margin == "total" else lengths / (lengths.sum() or 1.0)
    certificate = certify_cpm(X, y, C, W=W, alpha=alpha, assignment=z, loss=loss, margin=margin)
    total = squares.sum() if margin == "total" else squares.max()
    assert certificate.primal_value == pytest.approx(total + C @ paid, rel=1e-9)
    held = np.clip(alpha, 0.0, C[:, None] * Z)
    over = held.sum(axis=1)
    held *= np.where(shared & (over > C), C / np.where(over > 0, over, 1.0), 1.0)[:, None]
    parts = np.linalg.norm((held * y[:, None]).T @ lifted, axis=1)
    square = (parts**2).sum() if margin == "total" else parts.sum() ** 2
    assert certificate.dual_value == pytest.approx(max(held.sum() - square / 4, 0.0), rel=1e-9, abs=1e-12)
    xi = np.where(shared[:, None], hinge.max(axis=1, keepdims=True), hinge)
    surplus = y[:, None] * (lifted @ W.T) - 1.0 + xi
    largest = np.abs(alpha).max() or C.max()
    weight = max(np.abs(2 * theta[:, None] * W).max(), np.abs(v).max())
    own = (hinge * Z).sum(axis=1) - hinge.min(axis=1)
    beta = np.where(shared[:, None], (C - alpha.sum(axis=1))[:, None], C[:, None] * Z - alpha)
    expected = {
        ("stationarity", "assignment"): worst(np.where(y > 0, own, 0.0), 1.0),
        ("sign", "slack"): worst(-beta.min(axis=1), largest),
        ("complementarity", "slack"): worst(np.abs(beta * xi).max(axis=1), largest),
    }
    for k in range(K):
        expected["sign", f"margin(face {k})"] = worst(-alpha[:, k], largest)
        expected["complementarity", f"margin(face {k})"] = worst(np.abs(alpha[:, k] * surplus[:, k]), largest)
        expected["stationarity", f"w(face {k})"] = worst(np.abs(2 * theta[k] * W[k] - v[k]), weight or 1.0)
    if margin == "worst":
        expected["complementarity", "norm"] = worst(theta * (squares.max() - squares), squares.max())
    require(certificate, expected)


@pytest.mark.parametrize("margin", ["total", "worst"])
def test_a_face_of_cancelling_multipliers(margin):
    """A hundred millionth of the terms that pull on a weight, 2 (½ + ½) here."""
    W = [[1e-12, 0.0]]
    found = certify_cpm([[2.0], [2.0]], [1, -1], W=W, alpha=[[0.5], [0.5]], loss="max", margin=margin)
    off = next(r for r in found.residuals if r.row == "w(face 0)")
    assert off.relative == pytest.approx(off.value / (1e-8 * 2.0))
    assert off.value == pytest.approx(2e-12 if margin == "total" else 0.0)


@pytest.mark.parametrize(("seed", "size"), [(0, 1.0), (1, 1.0), (2, 1.0), (2, 1e-3), (2, 0.0)])
def test_of_the_one_norm_machine(seed, size):
    X, y, C, _, _, rng = point(seed)
    A = np.tanh(X @ X.T)
    alpha, u, b = rng.normal(size=N) * 0.5 + 0.2, size * rng.normal(size=N), 0.3
    inside = np.clip(alpha, 0.0, C)
    f = A @ (y * inside) + b
    xi, reduced = np.maximum(1.0 - y * f, 0.0), y * (A.T @ (y * u)) - 1.0
    certificate = certify_one_norm(A, y, C, alpha=alpha, b=b, u=u)
    assert certificate.primal_value == pytest.approx(inside.sum() + C @ xi, rel=1e-9)
    scale = max(certificate.primal_value, certificate.dual_value)
    total, largest = abs(float(y @ u)), np.abs(u).max() or C.max()
    require(
        certificate,
        {
            ("primal", "sign"): worst(-alpha, np.abs(alpha).max()),
            ("primal", "cap"): worst(alpha - C, np.abs(alpha).max()),
            ("sign", "margin"): worst(-u, largest),
            ("sign", "slack"): worst(u - C, largest),
            ("stationarity", "b"): (total, total / (np.abs(u).sum() or 1.0), None),
            ("complementarity", "margin"): worst(np.abs(u * (y * f - 1.0 + xi)), scale),
            ("complementarity", "slack"): worst(np.abs((C - u) * xi), scale),
            ("complementarity", "sign"): worst(inside * np.maximum(-reduced, 0.0), scale),
            ("complementarity", "cap"): worst((C - inside) * np.maximum(reduced, 0.0), scale),
        },
    )


@pytest.mark.parametrize(("seed", "size"), [(0, 1.0), (1, 1.0), (2, 1e-3), (2, 0.0)])
def test_of_the_l0_machine(seed, size):
    """Of multipliers within a pattern: beside the largest weight, and products beside the value over C."""
    X, y, weights, _, _, rng = point(seed)
    A, C, b, centres = np.tanh(X @ X.T), 1.7, 0.3, rng.choice([-1.0, 1.0], N)
    alpha = np.where(rng.random(N) < 0.5, rng.normal(size=N) + 0.5, 0.0)
    u = size * rng.normal(size=N)
    inside = np.clip(alpha, 0.0, C)
    f, used = A @ (centres * inside) + b, inside > 0
    xi, r = np.maximum(1.0 - y * f, 0.0), np.where(used, centres * (A.T @ (y * u)), 0.0)
    certificate = certify_l0(A, y, C, alpha=alpha, b=b, weights=weights, centres=centres, u=u)
    value = used.sum() + C * (weights @ xi)
    assert certificate.primal_value == pytest.approx(value, rel=1e-9)
    total, scale = abs(float(y @ u)), value / C
    found = replace(certificate, residuals=tuple(x for x in certificate.residuals if x.row != "pattern"))
    require(
        found,
        {
            ("primal", "sign"): worst(-alpha, C),
            ("primal", "cap"): worst(alpha - C, C),
            ("sign", "margin"): worst(-u, weights.max()),
            ("sign", "slack"): worst(u - weights, weights.max()),
            ("stationarity", "b"): (total, total / (np.abs(u).sum() or 1.0), None),
            ("complementarity", "margin"): worst(np.abs(u * (y * f - 1.0 + xi)), scale),
            ("complementarity", "slack"): worst(np.abs((weights - u) * xi), scale),
            ("complementarity", "sign"): worst(inside * np.maximum(-r, 0.0), scale),
            ("complementarity", "cap"): worst((C - inside) * np.maximum(r, 0.0), scale),
        },
    )
    (gap,) = {*certificate.residuals} - {*found.residuals}
    assert (gap.condition, gap.relative) == ("stationarity", pytest.approx(gap.value / value))


@pytest.mark.parametrize("positives", ["cell", "all"])
@pytest.mark.parametrize("seed", range(3))
def test_of_spla1(seed, positives):
    X, y, C, W, _, rng = point(seed)
    ridge, chosen = 0.3, rng.integers(0, K, N)
    lifted = np.column_stack([X, np.ones(N)])
    s = lifted @ W.T
    members = (chosen[:, None] == np.arange(K)) | ((y > 0)[:, None] & (positives == "all"))
    pulls = C[:, None] * members * expit(-y[:, None] * s)
    gradient = ridge * W - (y[:, None] * pulls).T @ lifted
    single = (y < 0) | (positives == "cell")
    moves = np.where(single, s[np.arange(N), chosen] - s.min(axis=1), 0.0)
    certificate = certify_spla1(X, y, W, ridge=ridge, C=C, positives=positives, assignment=chosen)
    loss = (C[:, None] * members * np.logaddexp(0.0, -y[:, None] * s)).sum() + ridge / 2 * (W**2).sum()
    assert certificate.primal_value == pytest.approx(loss, rel=1e-9)
    # For strong convexity, the optimum is lower by the square of the slope over twice the ridge at most.
    below = (gradient**2).sum() / (2 * ridge)
    assert certificate.dual_value == pytest.approx(max(loss - below, 0.0), rel=1e-9, abs=1e-9)
    require(
        certificate,
        {
            ("stationarity", "W"): worst(np.abs(gradient).max(axis=1), (pulls.T @ np.abs(lifted)).max()),
            ("stationarity", "cells"): worst(moves, np.abs(s).max()),
        },
    )


@pytest.mark.parametrize("seed", range(3))
def test_of_plume(seed):
    """At responsibilities of one's own; the slope is that of the expected loss, by differences."""
    X, y, C, W, _, rng = point(seed)
    gamma, ridge, R = 0.7, 0.2, rng.dirichlet(np.ones(K), N)
    lifted = np.column_stack([X, np.ones(N)])

    def parts(W):
        s = lifted @ W.T
        gate = np.exp(-gamma * (s - s.min(axis=1, keepdims=True)))
        return s, gate / gate.sum(axis=1, keepdims=True)

    def value(W):
        s, gate = parts(W)
        terms = R * (np.logaddexp(0.0, -y[:, None] * s) - np.log(gate) + np.log(R))
        return C @ terms.sum(axis=1) + ridge / 2 * (W**2).sum()

    certificate = certify_plume(X, y, W, gamma=gamma, ridge=ridge, C=C, responsibilities=R)
    assert certificate.primal_value == pytest.approx(value(W), rel=1e-9)
    s, gate = parts(W)
    own = gate * expit(y[:, None] * s)
    own /= own.sum(axis=1, keepdims=True)
    found = {r.row: r for r in certificate.residuals}
    apart = np.abs(R - own).max(axis=1)
    expected = worst(apart, 1.0)
    last = found["responsibilities"]
    assert (last.value, last.relative, last.worst) == (
        pytest.approx(expected[0]),
        pytest.approx(expected[0]),
        expected[2],
    )
    for k in range(K):
        slope = np.empty(3)
        for j in range(3):
            step = np.zeros((K, 3))
            step[k, j] = 1e-5
            slope[j] = (value(W + step) - value(W - step)) / 2e-5
        assert found[f"w(face {k})"].value == pytest.approx(np.abs(slope).max(), rel=1e-6)
        assert found[f"w(face {k})"].worst == np.abs(slope).argmax()


def test_plume_without_a_ridge_has_no_bound_but_0():
    X, y, C, W, _, _ = point(2)
    found = certify_plume(X, y, W, gamma=0.7, ridge=0.0, C=C)
    assert (found.dual_value, found.primal_value > 1.0) == (0.0, True)


def test_multipliers_say_which_assignment_is_meant():
    """Optimal for an assignment that is not the natural one: proven for it, and by how much a point gains."""
    X, y, C, _, _, _ = point(0)
    z = np.where(y > 0, (np.arange(N) // 2) % 2, -1)
    solution = cpm.fixed_assignment(X, y, 2, z, C).solve()
    W, alpha = solution["W"], solution.duals["margin"]
    certificate = certify_cpm(X, y, C, W=W, alpha=np.maximum(alpha, 0.0))
    assert certificate.primal_value == pytest.approx(solution.objective, rel=1e-6)
    assert certificate.dual_value == pytest.approx(solution.objective, rel=1e-6)
    held = (y > 0) & (alpha.max(axis=1) > 1e-5)
    assert (cpm.natural_assignment(X, y, W)[held] != z[held]).any()
    found = next(r for r in certificate.residuals if r.row == "assignment")
    hinge = np.maximum(1.0 - np.column_stack([X, np.ones(N)]) @ W.T, 0.0)
    gain = np.where(held, hinge[np.arange(N), np.maximum(z, 0)] - hinge.min(axis=1), 0.0)
    assert (found.value, found.relative) == (pytest.approx(gain.max(), rel=1e-6),) * 2
    assert found.worst == gain.argmax()


def test_combine_tells_the_first_of_the_worst():
    """Of several parts the worst is told and of equals the first."""
    X, y, _, _, _, _ = point(0)
    one = certify_svm(X, y, 1.0, w=[1.0, 0.0], b=0.0, alpha=np.full(N, 0.5))
    lesser = replace(one, residuals=tuple(replace(r, relative=r.relative / 2) for r in one.residuals))
    for parts, named in (([lesser, one], "second"), ([one, lesser], "first"), ([one, one], "first")):
        found = combine(parts, ["first", "second"], "parts")
        broken = [r for r in found.residuals if r.relative > 0]
        assert broken
        assert all(r.row.endswith(f"({named})") for r in broken)
        assert [r.relative for r in found.residuals] == [r.relative for r in one.residuals]
        assert found.primal_value == pytest.approx(sum(part.primal_value for part in parts))
        assert found.tol == one.tol
    alone = combine([one], ["only"], "parts")
    assert (alone.primal_value, alone.dual_value, alone.tol) == (one.primal_value, one.dual_value, one.tol)


@pytest.mark.parametrize(
    ("shape", "rows", "columns", "fits"),
    [
        ((2, 3), 2, 3, True), ((2, 3), None, 3, True), ((2, 3), 2, None, True), ((1, 1), None, None, True),
        ((2, 3), 3, 3, False), ((2, 3), 2, 2, False), ((0, 3), None, 3, False), ((3,), 3, None, False),
        ((3, 0), 3, None, False), ((2, 3, 1), 2, 3, False),
    ],
)  # fmt: skip
def test_faces_have_the_rows_and_columns_that_are_asked_for(shape, rows, columns, fits):
    if fits:
        assert checked_faces("W", np.ones(shape), rows, columns).shape == shape
        return
    with pytest.raises(ValueError, match="W must be finite, of shape"):
        checked_faces("W", np.ones(shape), rows, columns)


def test_the_objective_of_spla1_is_its_program_s():
    X, y, C, _, _, _ = point(1)
    solution = spla1.cell(X, y, C, 0.3).solve()
    certificate = certify_spla1(X, y, solution["w"][None], ridge=0.3, C=C)
    assert certificate.primal_value == pytest.approx(solution.objective, rel=1e-7)
    assert certificate.dual_value == pytest.approx(solution.objective, rel=1e-6)


@pytest.mark.parametrize("certify", [certify_polyceptron, certify_pc_slp])
def test_without_a_box_faces_may_be_ten_times_as_large(certify):
    """What an infinite R says is what R = 10 max |W| says; faces of zeros count as of size 1 / 10."""
    X, y, C, W, _, _ = point(2)
    unbounded = certify(X, y, W, C=C, radius=np.inf)
    largest = 10.0 * np.abs(W).max()
    assert f"entries of up to {largest:.4g}." in unbounded.note
    assert unbounded.dual_value == pytest.approx(certify(X, y, W, C=C, radius=largest).dual_value, rel=1e-6)
    assert "entries of up to 1." in certify(X, y, 0.0 * W, C=C, radius=np.inf).note
    assert certify(X, y, W, C=C, radius=np.inf).primal_value == unbounded.primal_value
