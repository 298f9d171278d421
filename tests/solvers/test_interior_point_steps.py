"""What a point of the interior point surveys, and its steps, by their formulas; blocks are played."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from polyopt.solvers.interior_point import driver
from polyopt.solvers.interior_point.driver import Point
from polyopt.solvers.interior_point.problem import Regulariser

M_PLUS_1 = 3  # of (w, b)
ALONG = [(-3.0, 0.5), (-2.0, 0.25)]  # changes of two blocks' products, of first and second order


class Played:
    """A crew that notes what it is told and answers as it is given."""

    def __init__(self, **answers):
        self.answers, self.log = {name: list(given) for name, given in answers.items()}, []

    def tell(self, name, *given):
        self.log.append((name, *given))

    def ask(self, name, *given):
        self.log.append((name, *given))
        return self.answers[name].pop(0)

    change = ask


def a_point(crew, *, is_free=True, R=None, tol=1e-3):
    point = Point.__new__(Point)
    regulariser = Regulariser(2, R, is_free=is_free)
    point._problem = SimpleNamespace(regulariser=regulariser, shift=np.array([2.0, -3.0]), crew=crew)
    point._crew, point._tol, point._measure = crew, tol, 40.0
    point._ease, point._residual, point._is_first, point._size = 0.5, np.inf, False, 0.0
    point.v = np.array([0.5, -1.0, 0.25])
    return point


def found(rng, imbalance=0.5, room=2.0, violation=0.0, reach=1.0):
    A = rng.normal(size=(4, M_PLUS_1))
    pulled = rng.normal(size=(M_PLUS_1, 3))
    pulled[-1, :2] = imbalance, room
    numbers = dict(zip(("gain", "fall", "products", "size", "cost"), rng.uniform(1.0, 4.0, 5), strict=True))
    at = {"largest": 0.125, "multiplier": rng.uniform(1.0, 2.0), "violation": violation}
    return SimpleNamespace(**numbers, **at, M=A.T @ A, pulled=pulled, reaches={("bound", 1.0): reach})


@pytest.mark.parametrize(
    ("is_free", "imbalance", "room", "reach", "violation"),
    [
        (True, 0.25, 1.0, 0.5, 0.0), (True, -0.25, 1.0, 0.5, 0.0), (True, 1.0, 0.875, 0.5, 0.0),
        (True, -1.0, 1.0, 0.5, 0.0), (False, 0.25, 1.0, 2.0, 0.0), (True, 0.25, 1.0, 2.0, 1e3),
    ],
)  # fmt: skip
def test_both_objectives_and_the_worst_residual_are_of_all_blocks(
    is_free, imbalance, room, reach, violation, monkeypatch
):
    rng, R = np.random.default_rng(3), np.array([[2.0, 0.5], [0.5, 1.0]])
    parts = [found(rng, imbalance, room, violation, reach), found(rng, imbalance, room, 0.0, 0.25)]
    crew = Played(survey=[parts], costs=[[1.5, 2.0]])
    point = a_point(crew, is_free=is_free, R=R if is_free else None)
    monkeypatch.setattr(driver, "shrink_of", lambda reaches: min(1.0, 1.0 / max(reaches.values())))
    survey = point.survey()
    shrink = min(1.0, 1.0 / reach)
    assert crew.log == [("aim", 0.0, 0.0), ("survey",)] + [("costs", shrink)] * (shrink < 1.0)
    pulled = parts[0].pulled + parts[1].pulled
    off, most = 2.0 * imbalance, 2.0 * room
    share = off / max(most, abs(off)) if is_free else 0.0
    w, H = (point.v[:2], R) if is_free else (point.v, np.eye(3))
    kept = slice(None, 2) if is_free else slice(None)
    cost = 3.5 if shrink < 1.0 else parts[0].cost + parts[1].cost
    assert survey.objective == pytest.approx(shrink**2 * w @ H @ w / 2 + cost)
    c = (pulled[:, 0] - share * pulled[:, 1])[kept]
    gain, fall = parts[0].gain + parts[1].gain, parts[0].fall + parts[1].fall
    bound = gain - share * fall - c @ np.linalg.solve(H, c) / 2
    assert survey.bound == (pytest.approx(bound) if abs(off) <= most or not is_free else -np.inf)
    assert (survey.gap == np.inf) == (survey.bound == -np.inf)
    assert survey.share == pytest.approx(share)
    assert survey.mu == pytest.approx((parts[0].products + parts[1].products) / 40.0)
    normal, gradient = parts[0].M + parts[1].M, H @ w
    assert survey.M == pytest.approx(normal)
    assert survey.left == pytest.approx(pulled[:, 0] - np.append(gradient, [0.0] * is_free))
    assert survey.push == pytest.approx(pulled[:, 2])
    scale = point._scale(normal, gradient, c, survey.objective, parts[0].size + parts[1].size)
    unmet = 0.125 / max(part.multiplier for part in parts)
    assert survey.violation == pytest.approx(max(violation, np.abs(c - gradient).max() / scale, unmet))
    assert point._residual == pytest.approx(np.abs(c - gradient).max() / scale)


@pytest.mark.parametrize(
    ("gap", "before", "softer"),
    [
        (0.5, 1.0, False),
        (1e-4, 1.0, True),
        (1e-4, 10.0, False),
    ],  # of the residual now, which is above the tolerance
)
def test_the_dual_term_falls_where_the_gap_is_there_and_the_residual_no_longer_falls(
    gap, before, softer, monkeypatch
):
    parts = [found(np.random.default_rng(1))]
    monkeypatch.setattr(driver, "shrink_of", lambda _: 1.0)
    monkeypatch.setattr(driver, "relative_gap", lambda *_: gap)
    point = a_point(Played(survey=[parts] * 2))
    point.survey()
    now, point._residual = point._residual, before * point._residual
    assert now > point._tol
    ease = point._ease = 0.5
    point.survey()
    assert point._ease == (ease * driver._MORE_EASE if softer else ease)
    assert point._residual == now


@pytest.mark.parametrize(
    "lengths",
    [
        (0.7, 0.96), (0.7, 0.5, 0.52), (0.7, 0.5, 0.54, 0.55), (0.7, 0.5, 0.9, 0.94), (1.5, 0.5, 0.97),
        (0.7, 1.4),
    ],
)  # fmt: skip
def test_a_step_predicts_aims_and_corrects_while_that_lengthens_it(lengths):
    """The numbers are of the predictor, of what is aimed at, and of each correction."""
    rng = np.random.default_rng(0)
    turns = [[(length, *each) for each in ALONG] for length in lengths]
    pushes = rng.normal(size=(len(lengths), 2, M_PLUS_1))
    crew = Played(turn=turns, balance=[list(push) for push in pushes])
    point, A = a_point(crew), rng.normal(size=(5, M_PLUS_1))
    left, push, v = rng.normal(size=M_PLUS_1), rng.normal(size=M_PLUS_1), point.v.copy()
    survey = SimpleNamespace(M=A.T @ A, left=left, push=push, mu=0.3, objective=2.0)
    point.advance(survey)
    H = A.T @ A + np.diag([1.0, 1.0, 0.0])
    moves = [np.linalg.solve(H, left + each) for each in [push, *pushes.sum(axis=1)]]
    first, linear, square = min(lengths[0], 1.0), -5.0, 0.75
    after = 0.3 + (first * linear + first**2 * square) / 40.0
    mu = max(after**3 / 0.3**2, driver._LEAST_MU * 1e-3 * 2.0 / 40.0)
    wanted, at = [("turn", moves[0]), ("aim", mu, 1.0), ("balance",), ("turn", moves[1])], 1
    while at < 1 + driver._CORRECTIONS and lengths[at] < driver._FULL:
        wanted += [
            ("correct", mu, min(lengths[at] + driver._REACH, 1.0)),
            ("balance",),
            ("turn", moves[at + 1]),
        ]
        if lengths[at + 1] < lengths[at] + driver._MIN_GAIN:
            wanted.append(("back",))
            break
        at += 1
    step = min(driver._SHARE * lengths[at], 1.0)
    wanted += [("move", step), ("soften", 0.5)]
    assert [each[0] for each in crew.log] == [each[0] for each in wanted]
    for told, each in zip(crew.log, wanted, strict=True):
        for number, right in zip(told[1:], each[1:], strict=True):
            assert number == pytest.approx(right, rel=1e-8), each[0]
    assert point.v == pytest.approx(v + step * moves[at])


def test_the_first_step_is_whole_and_samples_go_apart():
    rng = np.random.default_rng(0)
    push = rng.normal(size=(2, M_PLUS_1))
    crew = Played(turn=[[(0.2, 0.0, 0.0)]], balance=[list(push)])
    point, A, left = a_point(crew), rng.normal(size=(5, M_PLUS_1)), rng.normal(size=M_PLUS_1)
    point._is_first, v = True, point.v.copy()
    point.advance(SimpleNamespace(M=A.T @ A, left=left, push=None, mu=0.3, objective=2.0))
    dv = np.linalg.solve(A.T @ A + np.diag([1.0, 1.0, 0.0]), left + push.sum(axis=0))
    assert point.v == pytest.approx(v + dv)
    assert [each[0] for each in crew.log] == ["aim", "balance", "turn", "move_apart", "soften"]
    assert crew.log[0] == ("aim", 0.3, 0.0)
    assert crew.log[3:] == [("move_apart", driver._FIRST_SHARE), ("soften", 0.5)]
    assert not point._is_first


def test_what_a_point_knows_is_what_another_goes_on_from():
    one, other = a_point(None), a_point(None)
    one.v, one._ease, one._residual, one._is_first, one._size = np.ones(3), 0.1, 0.2, True, 0.3
    other.recall(one.known())
    assert other.v.tolist() == [1.0, 1.0, 1.0]
    assert (other._ease, other._residual, other._is_first, other._size) == (0.1, 0.2, True, 0.3)


def test_reaches_of_blocks_are_the_furthest_of_each():
    parts = [{"a": -3.0, "b": 2.0}, {"b": 1.0, "c": 0.0}, {"a": -2.0}]
    assert driver.largest_reaches(parts) == {"a": -2.0, "b": 2.0, "c": 0.0}


def test_a_point_whose_intercept_has_a_price_is_worth_what_it_is():
    """Nothing is scaled back: there are no bounds then."""
    v, crew = np.array([0.5, -1.0, 0.25]), Played(costs_at=[[1.5, 2.0]])
    problem = SimpleNamespace(crew=crew, regulariser=Regulariser(2, is_free=False))
    value, w, b = driver._Kept._primal(SimpleNamespace(_problem=problem, _v=v))
    assert (value, w.tolist(), b) == (v @ v / 2 + 3.5, [0.5, -1.0], 0.25)
    assert crew.log == [("costs_at", v, 1.0)]
