"""CrossEntropySVM with a price of squares: what it finds, what it certifies, and what it refuses."""

from __future__ import annotations

import itertools
from functools import cache, partial

import numpy as np
import pytest

from formulations import l0_ridge
from formulations.l0_data import as_l0_data
from formulations.samples import two_blobs
from polyopt import CrossEntropySettings, CrossEntropySVM, certify_l0
from polyopt.certificates import Claim
from polyopt.sensitivity import centre_prices, sensitivities
from polyopt.solvers.l0.ridge import PatternQP

C, L2 = 1.5, 0.2
QUICK = CrossEntropySettings(n_samples=20)
machine = partial(CrossEntropySVM, C, l2=L2, kernel="precomputed", search=QUICK, random_state=0)


@cache
def sample():
    """A kernel matrix that is neither symmetric nor semidefinite, and labels; not separable."""
    X, y = two_blobs(n=8, m=2, seed=3)
    K = np.tanh(0.5 * X @ X.T - 0.3) + 0.3 * np.random.default_rng(0).normal(size=(8, 8))
    return K, y


@cache
def best():
    """The least score of all patterns."""
    K, y = sample()
    model = PatternQP(as_l0_data(K, y, C, l2=L2))
    patterns = (
        np.array(bits, dtype=float) for bits in itertools.product((0, 1), repeat=len(y)) if sum(bits) < 6
    )
    return min(model.data.pattern_score(sigma, model.solve(sigma).value) for sigma in patterns)


@cache
def fitted(solver):
    return machine(solver=solver).fit(*sample())


@pytest.mark.parametrize("solver", ["ce", "one-norm", "global", "exact"])
def test_each_solver_ends_above_the_best_pattern_with_a_bound_below(solver):
    if solver == "exact":
        pytest.importorskip("pyscipopt")
    found = fitted(solver)
    proof = found.certificate()
    assert proof.primal_value == pytest.approx(found.score_, rel=1e-12)
    assert found.score_ >= best() * (1 - 1e-9)
    assert 0.5 * best() < proof.dual_value <= best()
    if solver in ("global", "exact"):
        assert found.score_ == pytest.approx(best(), rel=1e-6)
        assert proof.claim is Claim.OPTIMAL
    expansion = np.zeros(8)
    expansion[found.support_] = np.abs(found.dual_coef_[0])
    K, y = sample()
    slacks = np.maximum(1 - y * (K @ (y * expansion) + found.intercept_[0]), 0)
    score = len(found.support_) + L2 * (expansion**2).sum() + C * slacks.sum()
    assert found.score_ == pytest.approx(score, rel=1e-12)


def test_the_multipliers_balance_the_price_of_each_coefficient():
    X, y = two_blobs(n=30, m=2, seed=1)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    found = machine(solver="one-norm").fit(K, y)
    duals = found.duals_.set_index("letter")
    alpha, s, r = duals.loc["r", "slack"], duals.loc["s", "multiplier"], duals.loc["r", "multiplier"]
    inside = (duals.loc["s", "slack"].to_numpy() > 1e-6) & (alpha.to_numpy() > 1e-6)
    assert inside.sum() >= 2
    assert s.to_numpy()[inside] == pytest.approx(0.0, abs=1e-6)
    assert r.to_numpy()[inside] == pytest.approx(0.0, abs=1e-6)
    u = found.solution_["margin"]
    rates = y * (K.T @ (y * u))
    assert rates[inside] == pytest.approx(2 * L2 / C * alpha.to_numpy()[inside], abs=1e-6)


def test_a_perturbed_point_is_never_optimal():
    K, y = sample()
    found = fitted("global")
    u, v = found.solution_["margin"], found.solution_["relaxation"]
    alpha, b = np.array(found.solution_["alpha"]), float(found.intercept_[0])
    here = partial(certify_l0, K, y, C, u=u, l2=L2)
    assert here(alpha=alpha, b=b).claim is Claim.STATIONARY
    assert (
        certify_l0(K, y, C, alpha=alpha, b=b, l2=L2).claim is Claim.STATIONARY
    )  # its multipliers solved for
    assert here(alpha=alpha, b=b, v=v).dual_value == pytest.approx(
        l0_ridge.relaxation(K, y, C, l2=L2).solve().objective, rel=1e-6
    )
    used = alpha > 0
    changes = [
        (np.where(used, 1.02 * alpha, 0.0), b),
        (np.where(np.cumsum(~used) == 1, 1e-3, alpha), b),
        (np.where(np.cumsum(used) == 1, 0.0, alpha), b),
        (alpha, b + 0.05),
    ]
    for moved, shift in changes:
        proof = here(alpha=np.minimum(moved, C), b=shift)
        assert proof.claim is Claim.SUBOPTIMAL_BY
        assert (
            here(alpha=np.minimum(moved, C), b=shift, v=v, bound=best() * (1 - 1e-8)).claim
            is Claim.SUBOPTIMAL_BY
        )
    # The same point at another price, or without one, is not what its multipliers prove.
    for other in (0.0, 0.5 * L2, 2 * L2):
        assert certify_l0(K, y, C, alpha=alpha, b=b, u=u, l2=other).claim is Claim.SUBOPTIMAL_BY


@pytest.mark.parametrize("parameter", ["C", "l2"])
def test_the_slopes_of_the_score_are_those_of_its_program(parameter):
    found = fitted("global")
    K, y = sample()
    sigma = np.asarray(found.solution_["sigma"])

    def score(**changed):
        given = {"C": C, "l2": L2, **changed}
        return sigma.sum() + given["C"] * PatternQP(as_l0_data(K, y, **given)).solve(sigma).value

    frame = sensitivities(found)
    row = frame[frame["parameter"] == parameter].iloc[0]
    at, step = {"C": C, "l2": L2}[parameter], 1e-4
    slope = (score(**{parameter: at + step}) - score(**{parameter: at - step})) / (2 * step)
    assert row["derivative"] == pytest.approx(slope, rel=1e-4)
    assert row["objective"] == pytest.approx(found.score_, rel=1e-9)


def test_no_centre_switched_on_gains_more_than_is_said():
    found = fitted("ce")
    K, y = sample()
    sigma = np.asarray(found.solution_["sigma"])
    model = PatternQP(as_l0_data(K, y, C, l2=L2))
    for row in centre_prices(found).itertuples():
        more = sigma.copy()
        more[int(row.sample)] = 1.0
        change = model.data.pattern_score(more, model.solve(more).value) - found.score_
        assert change >= row.least_change - 1e-6


def test_prices_of_all_scales_have_an_answer_and_others_a_sentence():
    K, y = sample()
    small = machine(l2=1e-12).fit(K, y)
    assert small.score_ == pytest.approx(machine(l2=0.0).fit(K, y).score_, rel=1e-6)
    large = machine(l2=1e12).fit(K, y)
    assert large.support_.size == 0
    assert large.certificate().claim is Claim.OPTIMAL
    for wrong in (-1.0, np.nan, np.inf, "much"):
        with pytest.raises(ValueError, match="l2 must be at least 0 and finite"):
            machine(l2=wrong).fit(K, y)
    with pytest.raises(ValueError, match=r"l2=1e\+308 is too large for C=1\.5: the prices overflow"):
        machine(l2=1e308).fit(K, y)
    with pytest.raises(ValueError, match=r"its integer program needs l2=0, not 0\.2"):
        machine(solver="highs").fit(K, y)
    with pytest.raises(ValueError, match="no statement that can be saved"):
        fitted("ce").certificate().save("claims.json")


def test_a_fit_keeps_its_price_when_the_parameter_is_set_again():
    K, y = sample()
    found = machine().fit(K, y)
    before = found.certificate().primal_value
    assert found.set_params(l2=7.0).certificate().primal_value == before


def test_without_time_the_answer_is_a_point_with_a_bound():
    K, y = sample()
    found = machine(solver="global", time_limit=0.0)
    with pytest.warns(UserWarning, match="time"):
        found.fit(K, y)
    assert np.isfinite(found.score_)
    assert found.certificate().dual_value <= best()
