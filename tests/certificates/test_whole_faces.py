"""Certificates of faces of whole numbers: values, tangents and what is no such face, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from formulations import mixture
from polyopt import Claim, certify_polyceptron
from polyopt.certificates import whole_faces
from polyopt.certificates.rounding import UNIT
from polyopt.certificates.whole_faces import (
    certify_plume_integer,
    certify_polyceptron_integer,
    certify_spla1_integer,
)

N, M, RHO = 14, 2, 0.7
P, SCALES, THETA = np.array([[2.0, -1.0], [0.0, 3.0]]), np.array([0.5, 0.25]), np.array([-1.0, 2.0])
W = SCALES[:, None] * np.column_stack([P, -THETA])
GIVEN = {"integers": P, "scales": SCALES, "thresholds": THETA, "largest": 3}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, M)), np.where(np.arange(N) % 2, 1.0, -1.0)
    return X, y, rng.uniform(0.5, 2.0, N), W + 0.1 * rng.normal(size=W.shape)


def scores(X, faces):
    return X @ faces[:, :M].T + faces[:, M]


def face_of_spla1(X, y, weights, w):
    """A face's logistic loss with its ridge, and the slope."""
    s = y * scores(X, w[None])[:, 0]
    pulls = -(weights * y / (1.0 + np.exp(s)))
    value = weights @ np.log1p(np.exp(-s)) + 0.5 * RHO * w @ w
    return value, np.append(X.T @ pulls, pulls.sum()) + RHO * w


@pytest.mark.parametrize("positives", ["all", "cell"])
def test_spla1_s_value_is_that_of_its_cells_and_its_bound_that_of_the_tangents(data, positives):
    X, y, C, real = data
    found = certify_spla1_integer(X, y, C=C, real=real, ridge=RHO, positives=positives, **GIVEN)
    cell = scores(X, W).argmin(axis=1)
    value = bound = 0.0
    for k in range(2):
        own = (cell == k) | ((y > 0) & (positives == "all"))
        value += face_of_spla1(X, y, C * own, W[k])[0]
        at, slope = face_of_spla1(X, y, C * own, real[k])
        bound += max(at - slope @ slope / (2.0 * RHO), 0.0)
    assert found.primal_value == pytest.approx(value, rel=1e-12)
    assert found.dual_value == pytest.approx(bound, rel=1e-12)
    assert (found.claim, found.scope) == (Claim.SUBOPTIMAL_BY, "the real program for these cells")
    assert "Other cells may have a lower optimum." in found.note
    assert found.program == "SPLA1 with whole numbers from -3 to 3"
    few = certify_spla1_integer(X, y, C=C, real=real, ridge=RHO, positives=positives, max_features=2, **GIVEN)
    assert few.program == "SPLA1 with whole numbers from -3 to 3, at most 2 features a face"
    assert few.dual_value == pytest.approx(bound, rel=1e-9)  # there are no more
    assert few.claim is Claim.SUBOPTIMAL_BY


def test_one_face_is_the_whole_program_unless_there_were_to_be_more(data):
    X, y, C, real = data
    one = {"integers": P[:1], "scales": SCALES[:1], "thresholds": THETA[:1], "largest": 3}
    found = certify_spla1_integer(X, y, C=C, real=real[:1], ridge=RHO, **one)
    assert found.scope == "the real program"
    assert "Other" not in found.note
    more = certify_spla1_integer(X, y, C=C, real=real[:1], ridge=RHO, n_faces=2, **one)
    assert more.scope == "the real program for these cells"
    assert more.primal_value == found.primal_value


def test_plume_s_value_is_that_of_its_responsibilities_and_its_bound_that_of_the_tangent(data):
    X, y, C, real = data
    gamma = 1.3
    R = mixture.responsibilities(X, y, W, gamma)
    found = certify_plume_integer(X, y, C=C, real=real, ridge=RHO, gamma=gamma, **GIVEN)
    assert found.primal_value == pytest.approx(mixture.loss(X, y, W, gamma, C, RHO), rel=1e-12)
    at, slope = mixture.value_and_gradient(X, y, real, R, gamma, C, RHO)
    at -= C @ -(R * np.log(R)).sum(axis=1)
    assert found.dual_value == pytest.approx(max(at - (slope**2).sum() / (2.0 * RHO), 0.0), rel=1e-10)
    assert found.scope == "the real program for these responsibilities"
    assert found.program == "PLUME with whole numbers from -3 to 3"


def test_the_polyceptron_s_value_is_that_of_its_assignment_and_its_bound_the_real_one_s(data):
    X, y, C, _ = data
    u = np.full((N, 2), 0.1)
    s = scores(X, W)
    z = np.where(y > 0, -1, s.argmin(axis=1))
    found = certify_polyceptron_integer(X, y, C=C, u=u, assignment=z, **GIVEN)
    hinges = np.maximum(0.0, 1.0 - y[:, None] * s)
    value = C @ np.where(y > 0, hinges.sum(axis=1), hinges[np.arange(N), s.argmin(axis=1)])
    assert found.primal_value == pytest.approx(value, rel=1e-12)
    real = certify_polyceptron(X, y, W, C=C, u=u, assignment=z)
    assert found.dual_value == pytest.approx(real.dual_value, rel=1e-12, abs=1e-300)
    assert found.scope == "the real program for these assignments of the negatives"
    outside = certify_polyceptron_integer(X, y, C=C, u=u, radius=0.5, **GIVEN)
    assert outside.claim is Claim.NONE


@pytest.mark.parametrize(("changed", "off"), [
    ({}, 0.0),
    ({"integers": P + 0.25}, 0.25),
    ({"integers": P - 0.125}, 0.125),
    ({"largest": 2}, 1.0),
    ({"scales": np.array([0.5, -0.25])}, 0.25),
    ({"scales": np.array([0.5, 0.0])}, 0.0),
])  # fmt: skip
def test_numbers_that_are_not_whole_or_too_large_and_scales_that_are_not_positive_are_told(
    data, changed, off
):
    X, y, C, real = data
    found = certify_spla1_integer(X, y, C=C, real=real, ridge=RHO, **GIVEN | changed)
    (one,) = found.residuals
    assert (one.row, one.value, one.relative) == ("integers", off, off)
    assert (found.claim is Claim.NONE) == bool(changed)
    limited = certify_spla1_integer(X, y, C=C, real=real, ridge=RHO, max_features=1, **GIVEN)
    assert limited.claim is Claim.NONE  # the first face has two


def test_the_rounding_of_each_entry_of_the_faces_counts(data):
    X, _, C, _ = data
    found = whole_faces._moved(X, W, C, RHO)
    reach = sum(C[i] * (np.abs(X[i]) @ np.abs(w[:M]) + abs(w[M])) for i in range(N) for w in W)
    assert found.mid == 0.0
    assert found.rad == pytest.approx(2.0 * UNIT * (RHO * (W**2).sum() + reach), rel=1e-8)
    assert found.rad >= 2.0 * UNIT * (RHO * (W**2).sum() + reach)
