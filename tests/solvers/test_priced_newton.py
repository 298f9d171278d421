"""Proximal Newton steps on faces with a price: agreement with programs, zeros, gaps, degenerate data."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.cases import few
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from formulations import spla1_sparse
from formulations.face_penalty import FacePenalty
from formulations.polyhedral import belonging
from formulations.solution import Status
from polyopt.certificates import Claim, certify_plume, certify_spla1
from polyopt.outer.spla1 import LogisticCells
from polyopt.solvers import priced_newton
from polyopt.solvers.logistic import Regressions
from polyopt.solvers.priced_model import gap_of
from polyopt.solvers.priced_newton import MOST, minimise_priced

K, M, RIDGE = 2, 5, 0.2
PENALTY = FacePenalty.of(M, l1=0.7, group=0.5, signs={1: +1, 4: -1}, groups=[[2, 3]])


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, M)), np.where(np.arange(60) % 2, 1.0, -1.0)
    X[:, 0] += np.where(y > 0, 0.0, np.where(np.arange(60) % 4 == 0, 2.0, -2.0))
    X[:, 1] += 0.6 * y
    return X, y, np.arange(60) % 4 // 2, rng.uniform(0.5, 2.0, 60)


def solved(samples, penalty, positives="all", **given):
    X, y, z, C = samples
    smooth = Regressions(X, y, C[:, None] * belonging(y, z, K, positives), RIDGE)
    start = np.random.default_rng(0).normal(size=(K, M + 1))
    return minimise_priced(smooth, penalty, start, ridge=RIDGE, **given)


PENALTIES = {
    "all": PENALTY,
    "l1": FacePenalty.of(M, l1=2.0),
    "group": FacePenalty.of(M, group=3.0),
    "signs": FacePenalty.of(M, signs=[-1, 0, 1, 0, 1]),
    "too dear": FacePenalty.of(M, l1=1e4),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_it_agrees_with_the_program_and_its_zeros_are_optimal(samples, name):
    X, y, z, C = samples
    penalty = PENALTIES[name]
    found = solved(samples, penalty, tol=1e-10)
    assert found.status is Status.SOLVED
    program = spla1_sparse.fixed_cells(X, y, K, z, C, RIDGE, "all", penalty=penalty).solve()
    assert found.objective == pytest.approx(program.objective, rel=1e-7)
    W = found["W"]
    assert found.bound <= program.objective * (1 + 1e-9)
    assert (penalty.signs * W[:, :-1] >= 0).all()
    exact = np.abs(program["W"][:, :-1]) > 1e-4
    assert ((W[:, :-1] != 0) == exact).all()
    certificate = certify_spla1(
        X, y, W, ridge=RIDGE, C=C, positives="all", assignment=z, penalty=penalty, tol=1e-6
    )
    assert certificate.relative_gap < 1e-8
    assert all(r.relative < 1e-6 for r in certificate.residuals if r.row != "cells")


def test_the_certificate_fails_perturbed_points_and_bounds_them_all(samples):
    X, y, z, C = samples
    best = solved(samples, PENALTY, tol=1e-11)
    rng = np.random.default_rng(1)
    for size in (1e-2, 0.3, 3.0):
        W = best["W"] + size * rng.normal(size=best["W"].shape)
        found = certify_spla1(X, y, W, ridge=RIDGE, C=C, positives="all", assignment=z, penalty=PENALTY)
        assert found.claim is Claim.SUBOPTIMAL_BY
        assert found.dual_value <= best.objective * (1 + 1e-12)
        assert found.primal_value >= best.objective * (1 - 1e-12)
        assert any(r.row == "sign" and r.relative > 1e-4 for r in found.residuals)
    other = FacePenalty.of(M, l1=0.6, group=0.5, signs={1: +1, 4: -1}, groups=[[2, 3]])
    cheaper = certify_spla1(X, y, best["W"], ridge=RIDGE, C=C, positives="all", assignment=z, penalty=other)
    assert cheaper.relative_gap > 1e-4


@pytest.mark.parametrize("certify", [certify_spla1, certify_plume])
def test_a_price_of_another_width_is_refused_and_of_nothing_is_none(samples, certify):
    X, y, _, C = samples
    W, given = np.ones((K, M + 1)), {"ridge": RIDGE, "C": C}
    given |= {"gamma": 1.0} if certify is certify_plume else {}
    with pytest.raises(ValueError, match="penalty must be for 5 features, not 3"):
        certify(X, y, W, penalty=FacePenalty.of(3, l1=1.0), **given)
    assert certify(X, y, W, penalty=FacePenalty.of(M), **given) == certify(X, y, W, **given)


def test_too_many_weights_are_refused_in_a_sentence(samples):
    with pytest.raises(ValueError, match=f"l1, group and signs take {MOST} weights"):
        minimise_priced(None, FacePenalty.of(MOST, l1=1.0), np.ones((1, MOST + 1)), ridge=1.0)


def test_a_limit_keeps_a_point_that_is_no_worse(samples):
    begun = solved(samples, PENALTY, max_iter=1)
    assert begun.status is Status.ITERATION_LIMIT
    late = solved(samples, PENALTY, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT
    assert begun.objective <= late.objective
    assert begun.bound <= solved(samples, PENALTY).objective


@given(
    n=st.integers(2, 9), seed=st.integers(0, 10**6), l1=st.sampled_from([0.0, 0.3, 3.0]),
    group=st.sampled_from([0.0, 0.5]), scale=st.sampled_from([1.0, 1e3]), size=st.sampled_from([1.0, 1e3]),
)  # fmt: skip
@tried(max_examples=few(8, 25))
def test_degenerate_data_are_solved(n, seed, l1, group, scale, size):
    """Repeated and constant columns, repeated samples, few samples, dear ones."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, (n, M)).astype(float)
    X[:, 3], X[:, 4] = X[:, 0], size
    y = np.where(rng.random(n) < 0.6, 1.0, -1.0)
    y[0] = 1.0
    penalty = FacePenalty.of(M, l1=l1, group=group, signs=rng.integers(-1, 2, M), groups=[[0, 1]])
    cells = LogisticCells(X, y, scale * np.ones(n), K, ridge=RIDGE, positives="all", penalty=penalty)
    W = cells.start(rng)
    z = (X @ W[:, :-1].T + W[:, -1]).argmin(axis=1)
    ended = cells.step(W, None)["W"]
    found = certify_spla1(X, y, ended, ridge=RIDGE, C=scale, positives="all", penalty=penalty, assignment=z)
    assert found.gap <= 1e-6 * found.primal_value + 2.0 * found.rounding
    assert cells.value(ended) <= cells.value(W) * (1 + 1e-12)


def test_the_gap_is_what_separates_a_point_from_its_bound():
    """One weight with the ridge for all its curvature: −3 w + ½ w² + |w| is −2 at its least, w = 2."""
    penalty = FacePenalty.of(1, l1=1.0)
    for w in (0.0, 1.0, 2.0, 5.0):
        W = np.array([[w, 0.0]])
        slope = np.array([[w - 3.0, 0.0]])
        above = (-3.0 * w + 0.5 * w * w + abs(w)) - (-2.0)
        assert gap_of(penalty, W, slope, 1.0) == pytest.approx(above, abs=1e-12)


@pytest.mark.parametrize(("losses", "size"), [
    ([2.0], 1.0), ([5.0, 4.0], 0.5), ([9.0, 9.0, 4.5], 0.25), ([4.9995, 4.0], 0.5), ([4.999], 1.0),
    ([9.0] * 60, None),
    ([np.nan, 4.0], 0.5), ([np.inf, 4.0], 0.5),
])  # fmt: skip
def test_of_halved_steps_the_first_is_taken_that_lowers_by_a_share_of_what_the_slope_promises(losses, size):
    """6 to begin with, a price of 1 of it; the end of the whole step is taken as it is, with its zeros."""
    penalty, asked = FacePenalty.of(1, l1=0.5), []
    W, ended, slope = np.array([[2.0, 1.0]]), np.array([[-2.0, 4.0]]), np.array([[1.0, -1.0]])

    def smooth(trial):
        asked.append(trial)
        return losses[len(asked) - 1], trial

    found = priced_newton._search(smooth, penalty, (W, 6.0, slope), ended)
    at = [ended] + [W + 0.5**k * (ended - W) for k in range(1, len(asked))]
    assert np.array_equal(asked, at)
    if size is None:
        assert found is None
        assert 2.0 ** -len(asked) < priced_newton._LEAST_STEP <= 2.0 ** (1 - len(asked))
    else:
        trial, total, slope = found
        assert np.array_equal(trial, W + size * (ended - W))
        assert total == losses[len(asked) - 1] + 0.5 * abs(trial[0, 0])
        assert slope is asked[-1]


@pytest.mark.parametrize("promised", [0.5, 0.0, -0.9, -1.1])
def test_what_is_promised_within_rounding_is_nothing(promised):
    """In units of the rounding of the value."""
    penalty, value = FacePenalty.of(1, l1=0.0), 8.0
    W, asked = np.array([[0.0, 0.0]]), []
    ended = np.array([[0.0, promised * priced_newton._ROUNDING * value]])
    smooth = lambda trial: asked.append(trial) or (7.0, trial)  # noqa: E731
    found = priced_newton._search(smooth, penalty, (W, value, np.array([[0.0, 1.0]])), ended)
    assert (found is None) == (promised > -1.0)
    assert len(asked) == (promised < -1.0)
