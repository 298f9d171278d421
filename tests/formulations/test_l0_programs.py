"""The L0 support vector machine: programs against scipy and brute force, and the certificate of a point."""

from __future__ import annotations

from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from helpers import l0 as helper
from helpers.l0 import patterns
from scipy.optimize import linprog

from formulations import l0, one_norm
from formulations.l0_data import as_l0_data, as_patterns
from formulations.language.solution import Status
from polyopt.certificates import Claim
from polyopt.sparse.certificate import certify_l0, cut_of, score_bound

KERNELS = ["linear", "rbf", "indefinite", "rectangular"]
EXACT = {"mip_rel_gap": 1e-9, "mip_feasibility_tolerance": 1e-9}
by_kernel = pytest.mark.parametrize("kernel", KERNELS)

problem = partial(helper.problem, n=14, p=7)


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


@cache
def solved(kernel):
    """The arguments, an optimum (alpha, b), its multipliers u, the relaxation's v, and the optimal score."""
    K, y, C, w, t = problem(kernel)
    exact = l0.mixed_integer(K, y, C, w, t).solve(**EXACT)
    assert exact.status is Status.SOLVED
    found = l0.pattern(K, y, exact["sigma"].round(), C, w, t).solve()
    v = l0.relaxation_dual(K, y, C, w, t).solve()["u"]
    point = {"alpha": found["alpha"], "b": float(found["b"]), "weights": w, "centres": t}
    return (K, y, C), point, found.duals["margin"], v, exact.objective


# -- programs ---------------------------------------------------------------------------------------


@by_kernel
def test_primal_equals_dual_equals_scipy(kernel):
    """At any pattern both programs have scipy's optimum, for kernels of no symmetry too."""
    K, y, C, w, t = problem(kernel)
    p = K.shape[1]
    programs = [make(K, y, np.zeros(p), C, w, t) for make in (l0.pattern, l0.pattern_dual)]
    for sigma in [*patterns(p, 4), np.zeros(p), np.ones(p)]:
        expected = hinge_lp(K, y, C, w, t, sigma)
        for program in programs:
            found = program.set(sigma=sigma).solve()
            assert found.objective == pytest.approx(expected, rel=1e-8, abs=1e-8)


@by_kernel
def test_multipliers_are_rates_of_centres(kernel):
    """A cap's multiplier is the rate of its centre; a centre switched on saves its rate at first."""
    K, y, C, w, t = problem(kernel)
    sigma = patterns(K.shape[1], 1, seed=3)[0]
    data = as_l0_data(K, y, C, w, t)
    found = l0.pattern(K, y, sigma, C, w, t).solve()
    u, s, on = found.duals["margin"], found.duals["cap"], sigma > 0
    assert np.maximum(data.rates(u), 0.0)[on] == pytest.approx(s[on], abs=1e-8)
    assert found.duals["slack"] == pytest.approx(w - u, abs=1e-9)
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


@by_kernel
def test_relaxation_bounds_the_optimum(kernel):
    """Relaxation, its dual and the bound by its multipliers are scipy's linear program."""
    K, y, C, w, t = problem(kernel)
    relaxed = l0.relaxation(K, y, C, w, t).solve().objective
    assert relaxed == pytest.approx(hinge_lp(K, y, C, w, t, np.ones(K.shape[1]), 1 / C, C), rel=1e-8)
    *_, v, score = solved(kernel)
    assert score_bound(as_l0_data(K, y, C, w, t), v / C) == pytest.approx(relaxed, rel=1e-7)
    assert relaxed <= score + 1e-6


@by_kernel
def test_exact_program_is_best_of_all_patterns(kernel):
    """The integer program has the least score of brute force."""
    K, y, C, w, t = helper.problem(kernel, seed=3, n=6, p=6)
    data = as_l0_data(K, y, C, w, t)
    every = np.array(list(product([0.0, 1.0], repeat=K.shape[1])))
    scores = [data.pattern_score(sigma, hinge_lp(K, y, C, w, t, sigma)) for sigma in every]
    exact = l0.mixed_integer(K, y, C, w, t).solve(**EXACT)
    assert exact.objective == pytest.approx(min(scores), rel=1e-6)
    assert 0 < exact["sigma"].sum() < len(data.centres)


def test_relaxation_at_price_one_is_one_norm():
    """With C = 1 the relaxation is the one-norm machine."""
    K, y, _, _, _ = problem("indefinite")
    assert l0.relaxation(K, y, 1.0).solve().objective == pytest.approx(
        one_norm.primal(K, y, 1.0).solve().objective, rel=1e-9
    )


def test_weight_of_two_is_repetition():
    """A sample twice, with one kernel centre, is a sample of weight two."""
    K, y, C, _, _ = problem("rbf")
    w = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    twice = np.concatenate([np.arange(len(y)), np.flatnonzero(w == 2.0)])
    sigma = patterns(len(y), 1)[0]
    weighted = l0.pattern(K, y, sigma, C, w).solve().objective
    repeated = l0.pattern(K[twice], y[twice], sigma, C, centres=y).solve().objective
    assert weighted == pytest.approx(repeated, rel=1e-9)


# -- the data ---------------------------------------------------------------------------------------


def test_score_prunes_rounding_and_pays_for_it():
    """Coefficients under 1e-9 of their cap are no centres, and the loss is without them."""
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
    """Centres, patterns, coefficients and multipliers of another shape or kind are refused."""
    K, y = np.eye(3), [1, -1, 1]
    refused = {
        r"K of shape \(3, 2\) is not square: give centres": lambda: as_l0_data(K[:, :2], y),
        r"centres must have shape \(2,\)": lambda: as_l0_data(K[:, :2], y, centres=y),
        r"centres must hold only -1 and \+1": lambda: as_l0_data(K[:, :2], y, centres=[0, 1]),
        "C must be positive and finite": lambda: as_l0_data(K, y, [1.0, 2.0, 3.0]),
        r"weights must have shape \(3,\)": lambda: as_l0_data(K, y, weights=2.0),
        r"sigma must have shape \(3,\), or \(m, 3\)": lambda: as_patterns([1, 0], 3),
        "alpha must be finite": lambda: certify_l0(K, y, alpha=[1.0, np.nan, 0.0]),
        r"v must have shape \(3,\), not": lambda: certify_l0(K, y, alpha=[1.0, 0.0, 0.0], v=[1.0, 0.0]),
        "bound must be": lambda: certify_l0(K, y, alpha=[1.0, 0.0, 0.0], bound=np.nan),
    }
    for sentence, call in refused.items():
        with pytest.raises(ValueError, match=sentence):
            call()


# -- bounds and certificate -------------------------------------------------------------------------


@by_kernel
def test_any_multipliers_bound_every_pattern(kernel, rng):
    """Cuts of random multipliers hold at all patterns, those of optimal ones are tight at their own."""
    K, y, C, w, t = problem(kernel)
    data, every = as_l0_data(K, y, C, w, t), patterns(K.shape[1], 8, seed=2)
    values = np.array([hinge_lp(K, y, C, w, t, sigma) for sigma in every]) * (1 + 1e-8)  # scipy's tolerance
    duals = l0.pattern_dual(K, y, every[0], C, w, t)
    optimal = [duals.set(sigma=sigma).solve()["u"] for sigma in every]
    for u in [*rng.normal(size=(30, len(y))) * 10 ** rng.uniform(-2, 2, size=(30, 1)), *optimal]:
        constant, slopes = cut_of(data, u)
        assert (slopes.mid >= 0).all()
        assert (constant.lower - every @ slopes.upper <= values + 1e-9).all()
        assert score_bound(data, u) <= solved(kernel)[-1] + 1e-6
    for sigma, u, value in zip(every, optimal, values, strict=True):
        constant, slopes = cut_of(data, u)
        assert constant.lower - sigma @ slopes.upper == pytest.approx(value, rel=1e-7)


@by_kernel
def test_certificate_claims_what_is_proven(kernel):
    """A pattern's optimum is stationary; with the relaxation's multipliers it has an eps of the program."""
    data, point, u, v, score = solved(kernel)
    alone = certify_l0(*data, **point, u=u)
    assert alone.claim is Claim.STATIONARY
    assert alone.primal_value == pytest.approx(score, rel=1e-6)
    assert alone.scope == "its pattern"
    assert "Another pattern may have a lower score." in alone.note
    assert certify_l0(*data, **point).claim is Claim.STATIONARY  # its multipliers solved for
    relaxed = certify_l0(*data, **point, u=u, v=v)
    assert (relaxed.claim, relaxed.scope) == (Claim.SUBOPTIMAL_BY, "the program")
    assert 0 < relaxed.eps < score
    expected = l0.relaxation(*data, point["weights"], point["centres"]).solve().objective
    assert relaxed.dual_value == pytest.approx(expected, rel=1e-7)


@by_kernel
def test_bound_of_a_search_is_its_word(kernel):
    """A stated bound near the score makes a solver's word, a lower one an eps; the proof stays without it."""
    data, point, u, v, score = solved(kernel)
    exact = certify_l0(*data, **point, u=u, v=v, bound=score * (1 - 1e-8))
    assert exact.claim is Claim.SOLVERS_WORD
    assert exact.stated == score * (1 - 1e-8)
    assert exact.dual_value == certify_l0(*data, **point, u=u, v=v).dual_value
    short = certify_l0(*data, **point, u=u, bound=0.99 * score)
    assert (short.claim, short.dual_value) == (Claim.SUBOPTIMAL_BY, 0.0)


@by_kernel
def test_perturbed_point_is_never_optimal(kernel, rng):
    """Coefficients scaled, a centre more or less, another b: the score is higher or the claim is none."""
    data, point, u, v, score = solved(kernel)
    used = point["alpha"] > 0
    changes = [
        {"alpha": point["alpha"] * np.where(used, 1 + 0.02 * rng.choice([-1, 1], len(used)), 1.0)},
        {"alpha": np.where(np.cumsum(~used) == 1, 1e-3, point["alpha"])},  # one centre more
        {"alpha": np.where(np.cumsum(used) == 1, 0.0, point["alpha"])},  # one less
        {"b": point["b"] + 0.05},
    ]
    for change in changes:
        moved = certify_l0(*data, **{**point, **change}, u=u, v=v, bound=score * (1 - 1e-8))
        assert moved.claim in (Claim.SUBOPTIMAL_BY, Claim.NONE), change
        assert moved.primal_value > score * (1 + 1e-6) or moved.claim is Claim.NONE


@by_kernel
def test_wrong_multipliers_prove_no_pattern(kernel, rng):
    """At the right point multipliers that are off leave an eps, with a bound of the search as without."""
    data, point, u, _, score = solved(kernel)
    value = certify_l0(*data, **point).primal_value
    for wrong in (u + 0.05 * rng.normal(size=len(u)), -u, np.zeros_like(u)):
        proof = certify_l0(*data, **point, u=wrong)
        assert proof.claim is Claim.SUBOPTIMAL_BY
        assert proof.dual_value <= value + 1e-9
        bounded = certify_l0(*data, **point, u=wrong, bound=score * (1 - 1e-8))
        assert bounded.claim is Claim.SUBOPTIMAL_BY


@pytest.mark.parametrize("shift", [-0.1, 3.1])
def test_nothing_is_claimed_out_of_the_box(shift):
    """Coefficients below 0 or above C break the box."""
    data, point, u, v, score = solved("rbf")
    proof = certify_l0(*data, **{**point, "alpha": point["alpha"] + shift}, u=u, v=v, bound=score)
    assert proof.claim is Claim.NONE
    assert "breaks its box" in proof.note


def test_bound_above_a_feasible_point_is_refuted():
    """A stated bound above the score is ignored, and the note says so."""
    data, point, u, v, score = solved("linear")
    proof = certify_l0(*data, **point, u=u, bound=1.1 * score)
    assert (proof.claim, proof.stated) == (Claim.SUBOPTIMAL_BY, None)
    assert "ignored" in proof.note
    with_v = certify_l0(*data, **point, u=u, v=v, bound=1.1 * score)
    assert with_v.claim is Claim.SUBOPTIMAL_BY
    assert with_v.dual_value < score


def test_one_class_needs_no_centre():
    """Without a centre the score is 0, which is optimal."""
    proof = certify_l0(np.ones((3, 3)), [1, 1, 1], alpha=np.zeros(3), v=np.zeros(3))
    assert proof.claim is Claim.OPTIMAL
    assert proof.primal_value == proof.dual_value == 0.0
