"""The path along prices: every point is proven, the ends are what they must be, and features leave."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt import Claim, FacePenalty, certify_cpm, l1_path


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 6))
    y = np.where(np.maximum(X[:, 0], X[:, 1]) + 0.2 * rng.normal(size=90) > 0.4, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("grouped", [0.0, 0.6])
def test_every_point_is_proven_and_prices_take_what_is_worth_least(samples, grouped):
    X, y = samples
    own = FacePenalty.of(6, signs={0: 1}, groups=[[4, 5]])
    path = l1_path(X, y, 1.0, 2, penalty=own, grouped=grouped)
    assert all(point.certificate.claim is Claim.STATIONARY for point in path)
    prices = [point.price for point in path]
    assert prices == sorted(prices)
    # The dearest is one at which no feature is worth it for the first assignment; a later one may differ.
    assert path[0].n_nonzero > path[len(path) // 2].n_nonzero > path[-1].n_nonzero <= 1
    assert set(path[-3].features.tolist()) <= {0, 1}
    last = path[-1]
    again = certify_cpm(
        X, y, W=last.solution["W"], assignment=last.solution["assignment"], penalty=last.penalty
    )
    assert again.primal_value == pytest.approx(last.solution.objective, rel=1e-9)
    (none,) = l1_path(X, y, 1.0, 2, [1e4], penalty=own, grouped=grouped)
    assert none.features.tolist() == []


def test_one_face_has_one_optimum_whatever_the_path(samples):
    X, y = samples
    long = l1_path(X, y, 2.0, 1, [8.0, 0.0, 2.0, 0.5])
    assert [point.price for point in long] == [0.0, 0.5, 2.0, 8.0]
    for point in long:
        assert point.certificate.claim is Claim.OPTIMAL
        (alone,) = l1_path(X, y, 2.0, 1, [point.price])
        assert alone.solution.objective == pytest.approx(point.solution.objective, rel=1e-9)
        assert ((alone.solution["W"] != 0) == (point.solution["W"] != 0)).all()
    values = [point.solution.objective for point in long]
    assert values == sorted(values)


def test_a_path_from_an_assignment_and_with_no_time(samples):
    X, y = samples
    given = np.where(y > 0, (X[:, 1] > X[:, 0]).astype(int), -1)
    path = l1_path(X, y, 1.0, 2, [0.5, 5.0], assignment=given, time_limit=1e-9)
    assert len(path) == 1
    assert np.isfinite(path[0].certificate.primal_value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"prices": [1.0, -1.0]}, r"prices\[1\] must be"),
        ({"grouped": 1.5}, "grouped must lie in"),
        ({"penalty": FacePenalty.of(3)}, "penalty must be for 6 features, not 3"),
        ({"y": np.ones(90)}, "samples of both classes"),
        ({"assignment": np.zeros(90) - 5}, "assignment must be from 0 to 2"),
        ({"n_faces": 0}, "n_faces must be"),
    ],
)
def test_what_is_no_path_is_refused_in_a_sentence(samples, given, sentence):
    X, y = samples
    with pytest.raises(ValueError, match=sentence):
        l1_path(**{"X": X, "y": y, "n_faces": 3, **given})
