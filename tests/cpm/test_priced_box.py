"""The parts of the bound on a face in a box at prices, by their formulas."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.cpm_parts import bound_box, pull, set_up, shrink, sweep_open, value_of

from polyopt.cpm.global_search.face import UNIT, Samples
from polyopt.cpm.global_search.prices import examine_face_box, face_box_for, priced_cost

N, D, INSIDE = 12, 3, 4


def drawn(seed, size=0.6):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(N, D))
    C = rng.uniform(0.3, 3.0, N)
    C[INSIDE + 1] = 0.0
    data = Samples(A, (A**2).sum(axis=1), C, INSIDE)
    box = face_box_for(data)
    box.low[:] = rng.normal(size=D) - size * rng.random(D)
    box.high[:] = box.low + size * rng.uniform(0.2, 1.0, D)
    box.a[:] = rng.uniform(0.0, 1.0, N) * C
    return rng, data, box, rng.uniform(0.1, 2.0, N - INSIDE)


def term(data, prices, i, r):
    paid = data.C[i] * np.maximum(1.0 - r, 0.0)
    return paid if i < data.inside else np.minimum(paid, prices[i - data.inside])


@pytest.mark.parametrize("size", [0.1, 0.6, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_lines_are_below_their_terms(seed, size):
    """The line of a sample is below its term in the box, and meets it at the ends that it can."""
    _, data, box, prices = drawn(seed, size)
    before = box.a.copy()
    count = set_up(data, prices, box)
    ends = np.stack([data.A * box.low, data.A * box.high])
    assert box.lower == pytest.approx(ends.min(axis=0).sum(axis=1), rel=1e-12, abs=1e-13)
    assert box.upper == pytest.approx(ends.max(axis=0).sum(axis=1), rel=1e-12, abs=1e-13)
    assert (box.lower <= ends.min(axis=0).sum(axis=1)).all()
    assert (box.upper >= ends.max(axis=0).sum(axis=1)).all()
    moving = set(box.movable[:count].tolist())
    for i in range(N):
        r = np.linspace(box.lower[i], box.upper[i], 41)
        own, far = term(data, prices, i, r), 1e-11 * (1.0 + data.C[i])
        line = box.a[i] * (1.0 - r) + box.c[i]
        assert (line <= own + 1e-15 * data.C[i]).all()
        if i in moving:  # up to its largest value the multiplier may be anything, and the margin is inside
            assert box.c[i] == 0.0
            assert box.a[i] == min(before[i], box.cap[i])
            assert box.lower[i] < 1.0 <= box.upper[i]
            assert (box.cap[i] * (1.0 - r) <= own + 1e-15 * data.C[i]).all()
            assert box.cap[i] * (1.0 - r[0]) == pytest.approx(own[0], rel=1e-12)
        else:  # the line is known: it meets the term at both ends
            assert line[[0, -1]] == pytest.approx(own[[0, -1]], abs=far)


@pytest.mark.parametrize("seed", range(6))
def test_sweeps_reach_the_envelopes_optimum(seed):
    """The bound comes to the optimum of the envelopes, less the rounding of its terms."""
    _, data, box, prices = drawn(seed)
    goal = priced_cost(data, prices, (box.low + box.high) / 2)
    for _ in range(3):  # a cycle must gain a share of what is missing: the nearer the goal, the less
        bound = bound_box(data, prices, box, goal, 0.0)
        r = data.A @ box.w
        moving = (box.lower < 1.0) & (box.upper >= 1.0) & (data.C > 0.0)
        lines = np.where(moving, box.cap * np.maximum(1.0 - r, 0.0), box.a * (1.0 - r) + box.c)
        value = box.w @ box.w + lines.sum()  # of the envelopes at w: the bound is their least
        goal = value + 1e-9
    assert bound <= value
    assert bound == pytest.approx(value, rel=1e-6)
    assert box.v == pytest.approx(data.A.T @ box.a)
    assert box.w == pytest.approx(np.clip(0.5 * box.v, box.low, box.high))
    computed, off = value_of(data, box)
    exact = (box.a + box.c).sum() + box.w @ (box.w - box.v)
    assert computed == pytest.approx(exact, rel=1e-14)
    assert computed - off == pytest.approx(bound, rel=1e-15)
    reach = np.maximum(np.abs(box.low), np.abs(box.high))
    terms = (box.a + np.abs(box.c)).sum() + np.abs(box.w) @ (np.abs(box.w) + np.abs(box.v))
    size = 2 * (N + 6) * (box.a @ np.abs(data.A) @ reach) + (2 * N + 2 * D + 8) * terms
    assert off == pytest.approx(1.02 * UNIT * size, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_never_lowers_the_bound(seed):
    """A sweep keeps the multipliers within their caps and never lowers the bound."""
    _, data, box, prices = drawn(seed, 2.0)
    count = set_up(data, prices, box)
    pull(data, box)
    last = value_of(data, box)[0]
    for _ in range(5):
        sweep_open(data, box, count)
        assert ((box.a >= 0.0) & (box.a <= box.cap + 1e-15)).all()
        value = value_of(data, box)[0]
        assert value >= last - 1e-12 * abs(last)
        last = value


@pytest.mark.parametrize("seed", range(4))
def test_box_is_shrunk_to_its_radius(seed):
    """Faces farther from half the pull than the missing bound allows are cut off, and no other."""
    _, data, box, prices = drawn(seed, 4.0)
    proven = bound_box(data, prices, box, np.inf, 0.03)
    low, high, half = box.low.copy(), box.high.copy(), 0.5 * box.v
    goal = proven + 0.05
    radius = np.sqrt(0.05 + (box.w - half) ** 2)
    least = shrink(data, box, goal, proven)
    wanted = np.maximum(low, half - radius), np.minimum(high, half + radius)
    assert box.low == pytest.approx(wanted[0], abs=1e-9)
    assert box.high == pytest.approx(wanted[1], abs=1e-9)
    assert (box.low <= wanted[0]).all()
    assert (box.high >= wanted[1]).all()
    assert least == pytest.approx(((wanted[1] - wanted[0]) / (high - low)).min(), abs=1e-9)
    assert least < 1.0


@pytest.mark.parametrize("seed", range(4))
def test_box_is_cut_in_middle_half(seed):
    """A box is cut within its middle half, and a box of one point is not cut."""
    _, data, box, prices = drawn(seed, 1.5)
    codes = np.full(N, 128, dtype=np.uint8)
    bound, cost, j, at = examine_face_box(data, prices, box, codes, 1e6)
    width = box.high[j] - box.low[j]
    assert at == np.clip(box.w[j], box.low[j] + 0.25 * width, box.high[j] - 0.25 * width)
    assert bound <= cost
    assert cost <= priced_cost(data, prices, box.w) * (1.0 + 1e-12)
    assert codes[INSIDE + 1] == 0  # it costs nothing
    assert (np.abs(codes - 255 * np.minimum(box.a / np.where(data.C > 0, data.C, 1.0), 1.0)) <= 1.0).all()
    box.high[:] = box.low
    assert examine_face_box(data, prices, box, codes, 1e6)[2] == -1
    exact = priced_cost(data, prices, box.low)
    r = data.A @ box.low
    paid = [float(term(data, prices, i, r[i])) for i in range(N)]
    assert exact == pytest.approx(box.low @ box.low + sum(paid))
    assert examine_face_box(data, prices, box, codes, 1e6)[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("goal", [100.0, 1e8])
def test_rounding_of_goal_stays_in_box(goal):
    """At a goal that is proven, the box keeps the faces that its rounding may hide."""
    _, data, box, _ = drawn(2)
    box.a[:] = 0.0
    box.v[:] = 2.0 * box.w
    box.low[:], box.high[:] = box.w - 1.0, box.w + 1.0
    shrink(data, box, goal, goal)
    assert box.high - box.w == pytest.approx(np.sqrt(8.0 * UNIT * goal), rel=1e-6)
    assert box.w - box.low == pytest.approx(np.sqrt(8.0 * UNIT * goal), rel=1e-6)


def test_ends_are_moved_outward():
    """Ends of the scores are outside rational sums by a unit of rounding per operation."""
    rng, d = np.random.default_rng(4), 60
    data = Samples(rng.normal(size=(3, d)), np.ones(3), np.ones(3), 3)
    box = face_box_for(data)
    box.low[:] = rng.normal(size=d)
    box.high[:] = box.low + rng.uniform(0.5, 1.0, d)
    set_up(data, np.zeros(0), box)
    for i in range(3):
        ends = [[Fraction(x) * Fraction(end) for end in pair]
                for x, *pair in zip(data.A[i], box.low, box.high, strict=True)]  # fmt: skip
        unit = UNIT * (d + 2) * float(sum(max(abs(one), abs(other)) for one, other in ends))
        assert float(sum(map(min, ends)) - Fraction(box.lower[i])) / unit == pytest.approx(1.0, abs=0.15)
        assert float(Fraction(box.upper[i]) - sum(map(max, ends))) / unit == pytest.approx(1.0, abs=0.15)
