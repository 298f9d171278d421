"""Sparse faces: certificates, conditions of zeros, known answers, and the ascent against the program."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from formulations import cpm, cpm_sparse
from formulations.face_penalty import FacePenalty
from formulations.polytope import assignment_matrix, lift
from polyopt.certificates import Claim
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.fixed_assignment import FixedAssignmentSolver

K, M = 2, 4


@pytest.fixture(scope="module")
def samples():
    """Two groups of positives on both sides of the negatives along the first feature; labels overlap."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, M)), np.where(np.arange(40) % 2, 1.0, -1.0)
    side = np.where(np.arange(40) % 4 == 1, 1.0, -1.0)
    X[:, 0] += np.where(y > 0, 2.0 * side, 0.0)
    X[:, 1] += 0.4 * y
    return X, y, (side > 0).astype(int), rng.uniform(0.5, 2.0, 40)


PENALTY = FacePenalty.of(M, l1=0.7, group=0.5, signs={1: +1}, groups=[[2, 3]])


def ascent_of(X, y, z, C, penalty, n_faces=K):
    return FixedAssignmentSolver(X, y, C[:, None] * assignment_matrix(y, n_faces, z), penalty)


@pytest.fixture(scope="module")
def solved(samples):
    X, y, z, C = samples
    return cpm_sparse.fixed_assignment(X, y, K, z, C, penalty=PENALTY).solve()


def certified(samples, solved, **changed):
    X, y, z, C = samples
    given = {"W": PENALTY.enforce_signs(solved["W"]), "alpha": solved.duals["margin"], "penalty": PENALTY}
    return certify_cpm(X, y, C, assignment=z, tol=1e-6, **{**given, **changed})


def broken(certificate):
    """True if a condition other than the assignment's, or the gap, is off."""
    own = [r.relative for r in certificate.residuals if r.row != "assignment"]
    return max([certificate.relative_gap, *own]) > certificate.tol


# -- programs and certificates ---------------------------------------------------------------


def test_perturbed_points_are_refused(samples, solved):
    """A weight scaled or set to 0, halved multipliers, a wrong sign and another price are seen."""
    W, alpha = PENALTY.enforce_signs(solved["W"]), solved.duals["margin"]
    assert not broken(certified(samples, solved))
    assert certified(samples, solved, alpha=None).relative_gap < 1e-6  # by a bound of its own
    biggest = np.unravel_index(np.abs(W[:, :-1]).argmax(), W[:, :-1].shape)
    for change in (0.9, 1.1, 0.0):
        other = W.copy()
        other[biggest] *= change
        assert broken(certified(samples, solved, W=other))
    more = alpha.copy()
    more[alpha.argmax() // K] *= 0.5
    assert broken(certified(samples, solved, alpha=more))
    wrong = W.copy()
    wrong[0, 1] = -0.3
    found = certified(samples, solved, W=wrong)
    assert found.claim is Claim.SUBOPTIMAL_BY
    assert [r.row for r in found.residuals if r.condition == "primal" and r.relative > 0.1] == ["sign"]
    other_price = FacePenalty.of(M, l1=0.6, group=0.5, signs={1: +1}, groups=[[2, 3]])
    assert broken(certified(samples, solved, penalty=other_price))


@given(seed=st.integers(0, 10**6))
@tried(max_examples=8)
def test_any_multipliers_bound_the_optimum(samples, solved, seed):
    """Faces and multipliers at random leave value and bound on both sides of the optimum."""
    rng = np.random.default_rng(seed)
    _, y, z, C = samples
    drawn = rng.uniform(-0.5, 1.5, (len(y), K)) * C[:, None] * rng.choice([0.05, 0.3, 1.0])
    W = rng.normal(size=(K, M + 1))
    certificate = certified(samples, solved, W=W, alpha=drawn * assignment_matrix(y, K, z))
    assert certificate.dual_value <= solved.objective * (1 + 1e-9)
    assert certificate.primal_value >= solved.objective * (1 - 1e-9)


def test_zero_price_is_the_plain_machine(samples):
    """Program and certificate without prices are those of the plain machine."""
    X, y, z, C = samples
    none = FacePenalty.of(M)
    plain = cpm.fixed_assignment(X, y, K, z, C).solve()
    assert cpm_sparse.fixed_assignment(X, y, K, z, C, penalty=none).solve()["W"] == pytest.approx(plain["W"])
    given = {"W": plain["W"], "alpha": plain.duals["margin"], "assignment": z}
    assert certify_cpm(X, y, C, penalty=none, **given) == certify_cpm(X, y, C, **given)


# -- Newton steps against the program ----------------------------------------------------------


@pytest.mark.parametrize(
    "penalty",
    [
        PENALTY,
        FacePenalty.of(M, l1=2.0),
        FacePenalty.of(M, group=3.0),
        FacePenalty.of(M, signs=[-1, 0, 1, 0]),
        FacePenalty.of(M, l1=1e4),
    ],
    ids=["all", "l1", "group", "signs", "too dear"],
)
def test_ascent_agrees_with_program_on_zeros(samples, penalty):
    """The value is the program's, and zero weights keep their condition."""
    X, y, z, C = samples
    ascent = ascent_of(X, y, z, C, penalty)
    assert ascent.solve(1e-10)
    program = cpm_sparse.fixed_assignment(X, y, K, z, C, penalty=penalty)
    assert ascent.primal == pytest.approx(program.solve().objective, rel=1e-8)
    assert (ascent.alpha >= 0).all()
    assert (ascent.alpha <= ascent.caps).all()
    # Where a weight is 0 its pull is no larger than its price, and never of a group that is worth its own.
    W, V = ascent.W[:, :-1], (lift(X).T @ (y[:, None] * ascent.alpha)).T[:, :-1]
    used = penalty.group_norms(W)[penalty.groups] > 0
    up, down = penalty.thresholds
    idle = used & (W == 0)
    assert ((V <= up + 1e-9) & (V >= -down - 1e-9))[idle].all()
    cut = penalty.group_norms(penalty.soft_thresholded(np.column_stack([V, V[:, 0]]))[:, :-1])
    assert (cut[penalty.group_norms(W) == 0] <= penalty.group + 1e-9).all()


def test_dear_price_is_the_one_norm_machine(samples):
    """J/λ is its objective plus ‖w̃‖²/λ, so it is above the optimum by no more than that of the optimum."""
    X, y, _, C = samples
    w, b, xi = cp.Variable(M), cp.Variable(), cp.Variable(len(y), nonneg=True)
    rows = [cp.multiply(y, X @ w + b) >= 1 - xi]
    best = cp.Problem(cp.Minimize(cp.norm1(w) + C @ xi), rows)
    best.solve(solver="CLARABEL")
    price = 1e4
    ascent = ascent_of(X, y, np.zeros(len(y), dtype=int), price * C, FacePenalty.of(M, l1=price), 1)
    assert ascent.solve(1e-10)
    mine = np.abs(ascent.W[0, :-1]).sum() + C @ np.maximum(0.0, 1.0 - y * ascent.scores[:, 0])
    allowed = (float(w.value @ w.value) + float(b.value) ** 2) / price + 1e-8 * best.value
    assert best.value * (1 - 1e-8) <= mine <= best.value + allowed
