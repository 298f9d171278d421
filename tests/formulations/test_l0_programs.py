"""The L0 support vector machine: its programs against brute force and each other, and its certificate."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from helpers import l0 as helper
from scipy.optimize import linprog

from formulations import l0, one_norm
from formulations.l0_data import as_l0_data, as_patterns
from formulations.language.solution import Status
from polyopt.certificates import Claim
from polyopt.sparse.certificate import certify_l0, cut_of, score_bound

KERNELS = ["linear", "rbf", "indefinite", "rectangular"]
EXACT = {"mip_rel_gap": 1e-9, "mip_feasibility_tolerance": 1e-9}


problem = partial(helper.problem, n=24, p=9)


def hinge_lp(K, y, C, weights, centres, sigma, price=0.0, loss=1.0):
    """scipy's optimum of price·1'α + loss·w'ξ over the pattern, from nothing but the definition."""
    t = y if centres is None else centres
    on = np.flatnonzero(sigma)
    rows = np.c_[-(y[:, None] * K[:, on] * t[on]), -y, -np.eye(len(y))]
    bounds = [(0, C)] * len(on) + [(None, None)] + [(0, None)] * len(y)
    cost = np.r_[np.full(len(on), price), 0.0, loss * weights]
    found = linprog(cost, rows, -np.ones(len(y)), bounds=bounds)
    assert found.status == 0
    return found.fun


def patterns(p, count, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((count, p)) < rng.random((count, 1))).astype(float)


# -- programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["HIGHS", "CLARABEL"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_primal_equals_dual_equals_scipy_at_any_pattern(kernel, solver):
    K, y, C, w, t = problem(kernel)
    p = K.shape[1]
    primal = l0.pattern(K, y, np.zeros(p), C, w, t)
    dual = l0.pattern_dual(K, y, np.zeros(p), C, w, t)
    for sigma in [*patterns(p, 6), np.zeros(p), np.ones(p)]:
        expected = hinge_lp(K, y, C, w, t, sigma)
        for program in (primal, dual):
            found = program.set(sigma=sigma).solve(solver)
            assert found.objective == pytest.approx(expected, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_multipliers_are_what_the_docstring_says(kernel):
    K, y, C, w, t = problem(kernel)
    sigma = patterns(K.shape[1], 1, seed=3)[0]
    data = as_l0_data(K, y, C, w, t)
    found = l0.pattern(K, y, sigma, C, w, t).solve()
    u, s = found.duals["margin"], found.duals["cap"]
    on = sigma > 0
    assert np.maximum(data.rates(u), 0.0)[on] == pytest.approx(s[on], abs=1e-8)
    assert found.duals["slack"] == pytest.approx(w - u, abs=1e-9)
    # Switching a centre on saves, at first, its rate per unit of its cap.
    step, j = 1e-6, int(np.argmax(np.where(on, -np.inf, data.rates(u))))
    caps = C * sigma
    caps[j] = step
    widened = linprog(
        np.r_[np.zeros(len(caps) + 1), w],
        np.c_[-(y[:, None] * K * data.centres), -y, -np.eye(len(y))],
        -np.ones(len(y)),
        bounds=[*((0, cap) for cap in caps), (None, None), *[(0, None)] * len(y)],
    ).fun
    assert (found.objective - widened) / step == pytest.approx(max(data.rates(u)[j], 0.0), abs=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_relaxation_is_its_dual_and_bounds_every_score(kernel):
    K, y, C, w, t = problem(kernel)
    p = K.shape[1]
    relaxed = l0.relaxation(K, y, C, w, t).solve()
    assert relaxed.objective == pytest.approx(hinge_lp(K, y, C, w, t, np.ones(p), 1 / C, C), rel=1e-8)
    dual = l0.relaxation_dual(K, y, C, w, t).solve()
    assert dual.objective == pytest.approx(relaxed.objective, rel=1e-8)
    data = as_l0_data(K, y, C, w, t)
    assert score_bound(data, dual["u"] / C) == pytest.approx(relaxed.objective, rel=1e-7)

    exact = l0.mixed_integer(K, y, C, w, t).solve(**EXACT)
    assert exact.status is Status.SOLVED
    assert relaxed.objective <= exact.objective + 1e-6
    sigma = exact["sigma"].round()
    at_pattern = data.pattern_score(sigma, hinge_lp(K, y, C, w, t, sigma))
    assert at_pattern == pytest.approx(exact.objective, rel=1e-6)
    for other in patterns(p, 20, seed=5):
        score = data.pattern_score(other, hinge_lp(K, y, C, w, t, other))
        assert exact.objective <= score + 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_exact_program_finds_the_best_of_all_patterns(kernel):
    K, y, C, w, t = problem(kernel, seed=1, n=7)
    data = as_l0_data(K, y, C, w, t)
    every = np.array(list(product([0.0, 1.0], repeat=K.shape[1])))
    scores = [data.pattern_score(sigma, hinge_lp(K, y, C, w, t, sigma)) for sigma in every]
    exact = l0.mixed_integer(K, y, C, w, t).solve(**EXACT)
    assert exact.objective == pytest.approx(min(scores), rel=1e-6)
    assert 0 < exact["sigma"].sum() < len(data.centres)


def test_the_relaxation_at_price_one_is_the_one_norm_machine():
    K, y, _, _, _ = problem("indefinite")
    assert l0.relaxation(K, y, 1.0).solve().objective == pytest.approx(
        one_norm.primal(K, y, 1.0).solve().objective, rel=1e-9
    )


def test_a_weight_of_two_is_repetition_in_the_loss():
    K, y, C, _, _ = problem("rbf")
    w = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    twice = np.concatenate([np.arange(len(y)), np.flatnonzero(w == 2.0)])
    sigma = patterns(len(y), 1)[0]
    weighted = l0.pattern(K, y, sigma, C, w).solve().objective
    repeated = l0.pattern(K[twice], y[twice], sigma, C, centres=y).solve().objective
    assert weighted == pytest.approx(repeated, rel=1e-9)


# -- the data ------------------------------------------------------------------------------


def test_the_score_prunes_what_is_rounding_and_pays_for_it():
    K, y = np.array([[2.0, 1.0], [1.0, -3.0]]), np.array([1.0, -1.0])
    data = as_l0_data(K, y, 2.0, weights=[1.0, 4.0])
    alpha = np.array([0.25, 1e-9])  # under 1e-9 of the cap, which is 2
    f = np.array([0.5, 0.25])  # of the first centre alone, b = 0
    assert data.support(alpha).tolist() == [True, False]
    assert data.outputs([0.25, 0.0], 0.0).tolist() == f.tolist()
    loss = (1 - f[0]) + 4 * (1 + f[1])
    assert data.loss(np.array([0.25, 0.0]), 0.0) == pytest.approx(loss, rel=1e-15)
    assert data.score(alpha, 0.0) == pytest.approx(1 + 2 * loss, rel=1e-15)
    assert data.pattern_score([1, 1], loss) == pytest.approx(2 + 2 * loss, rel=1e-15)


def test_wrong_numbers_are_named():
    K, y = np.eye(3), [1, -1, 1]
    for wrong in (0.0, -1.0, np.inf, [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="C must be positive and finite"):
            as_l0_data(K, y, wrong)
    with pytest.raises(ValueError, match=r"K of shape \(3, 2\) is not square: give centres"):
        as_l0_data(K[:, :2], y)
    with pytest.raises(ValueError, match=r"centres must have shape \(2,\)"):
        as_l0_data(K[:, :2], y, centres=y)
    with pytest.raises(ValueError, match=r"centres must hold only -1 and \+1"):
        as_l0_data(K[:, :2], y, centres=[0, 1])
    with pytest.raises(ValueError, match=r"weights must have shape \(3,\)"):
        as_l0_data(K, y, weights=2.0)
    for weights in ([0, 0, 0], [1, -1, 1], [1, np.nan, 1]):
        with pytest.raises(ValueError, match="weights must be positive and finite"):
            as_l0_data(K, y, weights=weights)
    with pytest.raises(ValueError, match=r"sigma must have shape \(3,\), or \(m, 3\)"):
        as_patterns([1, 0], 3)
    with pytest.raises(ValueError, match="sigma must hold only 0 and 1"):
        l0.pattern(K, y, [1, 0.5, 0])
    with pytest.raises(ValueError, match="alpha must be finite"):
        certify_l0(K, y, alpha=[1.0, np.nan, 0.0])
    with pytest.raises(ValueError, match=r"v must have shape \(3,\), not \(2,\)"):
        certify_l0(K, y, alpha=[1.0, 0.0, 0.0], v=[1.0, 0.0])


# -- bounds and certificate ----------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_any_multipliers_bound_every_pattern_and_every_score(kernel, rng):
    K, y, C, w, t = problem(kernel)
    data, every = as_l0_data(K, y, C, w, t), patterns(K.shape[1], 12, seed=2)
    values = np.array([hinge_lp(K, y, C, w, t, sigma) for sigma in every]) * (1 + 1e-8)  # scipy's tolerance
    best = l0.mixed_integer(K, y, C, w, t).solve(**EXACT).objective
    duals = l0.pattern_dual(K, y, every[0], C, w, t)
    optimal = [duals.set(sigma=sigma).solve()["u"] for sigma in every]
    for u in [*rng.normal(size=(30, len(y))) * 10 ** rng.uniform(-2, 2, size=(30, 1)), *optimal]:
        constant, slopes = cut_of(data, u)
        assert (slopes.mid >= 0).all()
        assert (constant.lower - every @ slopes.upper <= values + 1e-9).all()
        assert score_bound(data, u) <= best + 1e-6
    for sigma, u, value in zip(every, optimal, values, strict=True):
        constant, slopes = cut_of(data, u)
        assert constant.lower - sigma @ slopes.upper == pytest.approx(value, rel=1e-7)


def solved(kernel):
    """The arguments, an optimum (alpha, b), its multipliers u, the relaxation's v, and the optimal score."""
    K, y, C, w, t = problem(kernel)
    exact = l0.mixed_integer(K, y, C, w, t).solve(**EXACT)
    found = l0.pattern(K, y, exact["sigma"].round(), C, w, t).solve()
    v = l0.relaxation_dual(K, y, C, w, t).solve()["u"]
    point = {"alpha": found["alpha"], "b": float(found["b"]), "weights": w, "centres": t}
    return (K, y, C), point, found.duals["margin"], v, exact.objective


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_certificate_claims_what_is_proven_and_no_more(kernel):
    data, point, u, v, score = solved(kernel)
    alone = certify_l0(*data, **point, u=u)
    assert alone.claim is Claim.STATIONARY
    assert alone.primal_value == pytest.approx(score, rel=1e-6)
    assert alone.scope == "its pattern"
    assert "Another pattern may have a lower score." in alone.note
    assert certify_l0(*data, **point).claim is Claim.STATIONARY  # its multipliers solved for

    relaxed = certify_l0(*data, **point, u=u, v=v)
    assert relaxed.claim is Claim.SUBOPTIMAL_BY
    assert relaxed.scope == "the program"
    assert 0 < relaxed.eps < 0.5 * score
    assert relaxed.dual_value == pytest.approx(
        l0.relaxation(*data, point["weights"], point["centres"]).solve().objective, rel=1e-7
    )

    exact = certify_l0(*data, **point, u=u, v=v, bound=score * (1 - 1e-8))
    assert exact.claim is Claim.SOLVERS_WORD
    assert exact.stated == score * (1 - 1e-8)
    assert exact.dual_value == relaxed.dual_value
    short = certify_l0(*data, **point, u=u, bound=0.99 * score)
    assert short.claim is Claim.SUBOPTIMAL_BY
    assert short.dual_value == 0.0


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_perturbed_point_is_never_optimal(kernel, rng):
    data, point, u, v, score = solved(kernel)
    bound = score * (1 - 1e-8)
    used = point["alpha"] > 0
    changes = [
        {"alpha": point["alpha"] * np.where(used, 1 + 0.02 * rng.choice([-1, 1], len(used)), 1.0)},
        {"alpha": np.where(np.cumsum(~used) == 1, 1e-3, point["alpha"])},  # one centre more
        {"alpha": np.where(np.cumsum(used) == 1, 0.0, point["alpha"])},  # one less
        {"b": point["b"] + 0.05},
    ]
    for change in changes:
        moved = certify_l0(*data, **{**point, **change}, u=u, v=v, bound=bound)
        assert moved.claim in (Claim.SUBOPTIMAL_BY, Claim.NONE), change
        assert moved.primal_value > score * (1 + 1e-6) or moved.claim is Claim.NONE
    # At the right point with wrong multipliers nothing is proven of its pattern.
    for wrong in (u + 0.05 * rng.normal(size=len(u)), -u, np.zeros_like(u)):
        proof = certify_l0(*data, **point, u=wrong)
        assert proof.claim is Claim.SUBOPTIMAL_BY
        assert proof.dual_value <= alone_value(data, point) + 1e-9
        assert certify_l0(*data, **point, u=wrong, bound=bound).claim is Claim.SUBOPTIMAL_BY


def alone_value(data, point):
    return certify_l0(*data, **point).primal_value


def test_out_of_its_box_nothing_is_claimed():
    data, point, u, v, score = solved("rbf")
    for alpha in (point["alpha"] - 0.1, point["alpha"] + data[2] + 0.1):
        proof = certify_l0(*data, **{**point, "alpha": alpha}, u=u, v=v, bound=score)
        assert proof.claim is Claim.NONE
        assert "breaks its box" in proof.note


def test_a_bound_above_a_feasible_point_is_refuted():
    data, point, u, v, score = solved("linear")
    proof = certify_l0(*data, **point, u=u, bound=1.1 * score)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.stated is None
    assert "ignored" in proof.note
    with_v = certify_l0(*data, **point, u=u, v=v, bound=1.1 * score)
    assert with_v.claim is Claim.SUBOPTIMAL_BY
    assert with_v.dual_value < score
    with pytest.raises(ValueError, match="bound must be"):
        certify_l0(*data, **point, u=u, bound=np.nan)


def test_one_class_needs_no_centre():
    proof = certify_l0(np.ones((3, 3)), [1, 1, 1], alpha=np.zeros(3), v=np.zeros(3))
    assert proof.claim is Claim.OPTIMAL
    assert proof.primal_value == proof.dual_value == 0.0
