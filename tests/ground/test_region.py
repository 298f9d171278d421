"""Insides, outsides, unions and differences of polytopes: the nearest point, against all choices tried."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from formulations.language.solution import Status
from polyopt.certificates import Claim
from polyopt.certificates.projection import certify_nearest
from polyopt.polytope.nearest import nearest
from polyopt.polytope.projection import Question, project
from polyopt.polytope.region import Region


def distance(x, W, b, **given):
    found = project(Question.of(x, **given), W, b)
    return np.inf if found.status is Status.INFEASIBLE else np.sqrt(2.0 * found.objective)


def draw(rng):
    m, pieces = int(rng.integers(1, 5)), []
    for _ in range(int(rng.integers(1, 4))):
        W = rng.normal(size=(int(rng.integers(1, 5)), m))
        pieces.append((W, -rng.uniform(0.3, 2.0, len(W)) - W @ rng.normal(size=m) * 0.5))
    x, spread = rng.normal(size=m) * rng.choice([0.3, 2.0]), np.exp(0.5 * rng.normal(size=m))
    given = {"spread": spread, "held": rng.random(m) < 0.2}
    if rng.random() < 0.5:
        given |= {"low": x - 2.0 * spread, "high": x + 2.0 * spread}
    return x, pieces, given


def test_nearest_over_all_parts():
    """No choice of parts and faces gives a nearer point of the region."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        x, pieces, given = draw(rng)
        (W1, b1), (W2, b2) = ends = pieces[0], pieces[-1]
        choices = product(*(range(len(b)) for _, b in pieces))
        chosen = [
            (np.array([W[k] for (W, _), k in zip(pieces, ks, strict=True)]),
             np.array([b[k] for (_, b), k in zip(pieces, ks, strict=True)])) for ks in choices
        ]  # fmt: skip
        ways = [
            (Region.inside(pieces), [(W, b) for W, b in pieces]),
            (Region.outside(pieces), [(-W, -b) for W, b in chosen]),
            (Region.above(*ends), [(W2 - W1[k], b2 - b1[k]) for k in range(len(b1))]),
        ]
        for region, polytopes in ways:
            least = min(distance(x, W, b, **given) for W, b in polytopes)
            found = nearest(Question.of(x, **given), region)
            assert found.distance == pytest.approx(least, abs=1e-9)
            assert (found.status is Status.INFEASIBLE) == np.isinf(least)
            assert found.bound <= found.distance
            certificate = certify_nearest(found)
            if np.isinf(least):
                assert certificate.claim is Claim.INFEASIBLE or certificate.dual_value > 1e16
            else:
                assert certificate.claim is Claim.OPTIMAL or certificate.eps < 1e-18


def test_way_out_is_through_nearest_face():
    """The nearest point outside of a polytope is on the face nearest to the sample."""
    rng = np.random.default_rng(1)
    W, x = rng.normal(size=(6, 4)), 0.1 * rng.normal(size=4)
    b, spread = -1.0 - rng.random(6), np.exp(rng.normal(size=4))
    far = -(W @ x + b) / np.linalg.norm(W * spread, axis=1)
    found = nearest(Question.of(x, spread=spread), Region.outside([(W, b)]))
    assert found.distance == pytest.approx(far.min(), rel=1e-12)
    assert found.deciding() == [((0, int(far.argmin())), pytest.approx(far.min()))]
    deeper = found.deeper(0.25)
    assert np.linalg.norm((deeper - x) / spread) == pytest.approx(far.min() + 0.25, rel=1e-12)


def test_region_certificate_needs_every_part():
    """A bound for some parts alone proves nothing."""
    rng = np.random.default_rng(5)
    pieces = [(rng.normal(size=(5, 3)), -np.ones(5)) for _ in range(3)]
    found = nearest(Question.of(np.zeros(3)), Region.outside(pieces))
    assert certify_nearest(found).claim is Claim.OPTIMAL
    assert len(found.parts) > 3
    away = replace(found, point=1.2 * found.point)
    assert certify_nearest(away).claim is Claim.SUBOPTIMAL_BY
    for number, part in enumerate(found.parts):
        weaker = list(found.parts)
        weaker[number] = replace(part, multipliers=0.0 * part.multipliers)
        assert certify_nearest(replace(found, parts=tuple(weaker))).claim is not Claim.OPTIMAL


def test_texts_change_as_a_whole():
    """A number and a column of three texts: the number moves, or one text takes the place of another."""
    W, b = np.array([[-1.0, 0.0, -3.0, -3.1]]), np.array([3.0])
    x, groups, region = np.array([0.0, 1.0, 0.0, 0.0]), [np.array([1, 2, 3])], Region.inside([(W, b)])
    cheap = nearest(
        Question.of(x, spread=np.array([1.0, 1.0, 1.0, 1.0]), groups=groups), Region.inside([(W, b)])
    )
    assert cheap.point == pytest.approx([0.0, 0.0, 1.0, 0.0])
    assert cheap.distance == pytest.approx(np.sqrt(2.0))
    dear = nearest(
        Question.of(x, spread=np.array([1.0, 0.4, 0.4, 0.4]), groups=groups), Region.inside([(W, b)])
    )
    assert dear.point == pytest.approx([3.0, 1.0, 0.0, 0.0])
    assert {certify_nearest(each).claim for each in (cheap, dear)} == {Claim.OPTIMAL}
    kept = {"held": np.array([False, False, True, False]), "groups": groups}
    assert nearest(Question.of(x, **kept), region).point == pytest.approx([3.0, 1.0, 0.0, 0.0])
    none = np.array([0.0, 0.0, 0.0, 0.0])  # a text that the fit did not see
    stays = nearest(Question.of(none, groups=groups), Region.inside([(W, b - 2.0)]))
    assert stays.point == pytest.approx([0.0, 0.0, 1.0, 0.0]) or stays.point == pytest.approx([1.0, 0, 0, 0])
    assert stays.distance == pytest.approx(1.0)


def test_bounded_text_is_not_proposed():
    """As the nearest of all rows that have one of the other texts, each by itself; its own text may stay."""
    rng, groups = np.random.default_rng(0), [np.array([1, 2, 3])]
    spread, asked = np.array([1.0, 0.7, 0.5, 0.6]), 0
    for _ in range(20):
        W, b = rng.normal(size=(2, 4)) - [0.0, 0.0, 0.0, 3.0], 1.0 + rng.random(2)
        x, region = np.array([0.0, 1.0, 0.0, 0.0]), Region.inside([(W, b)])
        low, high = np.array([-2.0, 0.0, 0.0, 0.0]), np.array([2.0, 0.0, 1.0, 0.0])
        found = nearest(Question.of(x, spread=spread, low=low, high=high, groups=groups), region)
        rows = []
        for text in (1, 2):
            fixed = (np.arange(4) == text) * 1.0
            fixed[0] = np.nan
            ends = [np.where(np.isnan(fixed), end, fixed) for end in (low, high)]
            rows.append(nearest(Question.of(x, spread=spread, low=ends[0], high=ends[1]), region).distance)
        assert found.distance == pytest.approx(min(rows))
        if found.point is not None:
            assert certify_nearest(found).claim is Claim.OPTIMAL
            assert found.point[3] == 0.0
            free = nearest(Question.of(x, spread=spread, low=low, high=[2.0, 1, 1, 1], groups=groups), region)
            asked += free.point[3] == 1.0
    assert asked  # the third text would have been nearer


def test_limit_keeps_bound():
    """A search that is cut off says so, and its bound holds."""
    rng = np.random.default_rng(2)
    pieces = [(rng.normal(size=(6, 3)), -np.ones(6)) for _ in range(4)]
    question = Question.of(np.zeros(3))
    best = nearest(question, Region.outside(pieces))
    short = nearest(question, Region.outside(pieces), max_nodes=1)
    assert best.status is Status.SOLVED
    assert short.status is Status.ITERATION_LIMIT
    assert short.bound <= best.distance <= short.distance < np.inf
    told = certify_nearest(short)
    assert told.dual_value <= 0.5 * best.distance**2 <= told.primal_value


def test_empty_region_is_told():
    """A region without points is infeasible."""
    W, b = np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])
    found = nearest(Question.of([0.0]), Region.inside([(W, b), (W, b)]))
    assert found.status is Status.INFEASIBLE
    assert found.point is None
    everything = (np.zeros((1, 1)), np.array([-1.0]))  # no row can be broken
    assert nearest(Question.of([0.0]), Region.outside([everything])).status is Status.INFEASIBLE


def test_known_numbers_stay_known():
    """Against both choices by themselves: the number at what fills its gap, or its mark taken away."""
    rng, stayed = np.random.default_rng(12), 0
    for _ in range(30):
        W, b = rng.normal(size=(3, 5)), rng.normal(size=3) - 1.0
        W[:, 1] -= 1.0  # the mark is worth much
        region, gaps = Region.outside([(W, b)]), [(0, 1), (2, 3)]
        x = np.array([0.3, 1.0, -0.2, 0.0, rng.normal()])
        held = rng.random(5) < 0.2
        found = nearest(Question.of(x, held=held, gaps=gaps), region)
        fixed = held | np.array([False, True, False, True, False])  # the mark of what is known
        choices = [fixed | np.array([True, True, False, False, False])]
        if not held[:2].any():
            choices.append(fixed)
        distances = []
        for place, own in enumerate(choices):
            start = x - place * np.eye(5)[1]
            z = nearest(Question.of(start, held=own), region).point
            if z is not None:
                distances.append(float(np.linalg.norm(z - x)))
        if not distances:
            assert found.status is Status.INFEASIBLE
            continue
        assert found.distance == pytest.approx(min(distances), abs=1e-9)
        assert found.point[3] == 0.0
        assert found.point[1] in (0.0, 1.0)
        if found.point[1] == 1.0:
            assert found.point[0] == x[0]
            stayed += 1
        assert certify_nearest(found).claim is Claim.OPTIMAL
    assert 5 < stayed < 28
