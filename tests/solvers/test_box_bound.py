"""The parts of the bound on faces in a box, by their formulas; the kernels as Python runs them."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from polyopt.solvers.cpm import box_bound, boxes
from polyopt.solvers.cpm.box_bound import bound_box, box_for
from polyopt.solvers.cpm.face import UNIT, Samples

N, D, K, INSIDE = 11, 2, 3, 5


def drawn(seed, size=0.7):
    rng = np.random.default_rng(seed)
    A, C = rng.normal(size=(N, D)), rng.uniform(0.3, 2.0, N)
    data = Samples(A, (A**2).sum(axis=1), C, INSIDE)
    box = box_for(data, K)
    box.low[:] = rng.normal(size=(K, D)) * 0.7 - size / 2
    box.high[:] = box.low + size * rng.uniform(0.3, 1.0, (K, D))
    box.up[:INSIDE] = rng.uniform(0.0, 1.0, (INSIDE, K)) * C[:INSIDE, None]
    box.up[INSIDE:, 0] = rng.uniform(0.0, 1.0, N - INSIDE) * C[INSIDE:]
    box.W[:] = box.low + rng.uniform(0.0, 1.0, (K, D)) * (box.high - box.low)
    return rng, data, box


def prepared(seed, size=0.7):
    rng, data, box = drawn(seed, size)
    box_bound._ranges.py_func(data, box)
    box_bound._fix_negatives.py_func(data, box)
    box_bound._envelopes.py_func(data, box)
    box_bound._pulls.py_func(data, box)
    return rng, data, box


def weights(box):
    """The multiplier of each sample at each face: α, or β λ."""
    return np.vstack([box.up[:INSIDE], box.up[INSIDE:, :1] * box.share])


def cost(data, W):
    s = data.A @ W.T  # of negatives the rows have their sign
    inside = np.maximum(0.0, 1.0 - s[:INSIDE]).sum(axis=1)
    outside = np.maximum(0.0, 1.0 - s[INSIDE:].max(axis=1))
    return (W**2).sum() + data.C[:INSIDE] @ inside + data.C[INSIDE:] @ outside


@pytest.mark.parametrize("size", [0.1, 0.7, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_ends_of_scores_and_negatives_that_are_at_no_kink(seed, size):
    _, data, box = drawn(seed, size)
    box_bound._ranges.py_func(data, box)
    before = box.up.copy()
    box_bound._fix_negatives.py_func(data, box)
    corners = [data.A @ np.where(at, box.high, box.low).T for at in product((False, True), repeat=D)]
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    assert (box.least <= low[INSIDE:]).all()
    assert (box.most >= high[INSIDE:]).all()
    assert box.least == pytest.approx(low[INSIDE:], abs=1e-14)
    assert box.most == pytest.approx(high[INSIDE:], abs=1e-14)
    pays, never = high[:INSIDE] <= 1.0, low[:INSIDE] >= 1.0
    assert box.open[:INSIDE].tolist() == (~pays & ~never).tolist()
    caps = np.repeat(data.C[:INSIDE, None], K, axis=1)
    wanted = np.where(pays, caps, np.where(never, 0.0, before[:INSIDE]))
    assert box.up[:INSIDE].tolist() == wanted.tolist()


@pytest.mark.parametrize("seed", range(8))
def test_the_envelope_is_above_the_largest_score_and_the_lowest_there_is_at_the_faces(seed):
    _, data, box = drawn(seed, 1.5)
    box_bound._ranges.py_func(data, box)
    W = box.W.copy()
    box_bound._envelopes.py_func(data, box)
    for p in range(N - INSIDE):
        s, low, high = data.A[INSIDE + p] @ W.T, box.least[p], box.most[p]
        if low.max() >= 1.0:
            assert (box.up[INSIDE + p, 0], box.offset[p], box.share[p].any()) == (0.0, 1.0, False)
            continue
        lam, c = box.share[p], box.offset[p]
        assert ((lam >= 0.0) & (lam <= 1.0)).all()
        for at in product((0.0, 1.0), repeat=K):
            corner = low + np.array(at) * (high - low)
            assert corner.max() <= c + lam @ corner + 1e-300
        # min over λ of max_k [high − λ (high − low)] + Σ λ (s − low), as a linear program
        best = linprog(
            np.append(s - low, 1.0), A_ub=np.column_stack([-np.diag(high - low), -np.ones(K)]), b_ub=-high,
            bounds=[(0.0, 1.0)] * K + [(None, None)],
        ).fun  # fmt: skip
        assert c + lam @ s == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_pulls_faces_value_and_error_are_those_of_the_theorem(seed):
    _, data, box = prepared(seed)
    own = weights(box)
    assert box.V == pytest.approx(own.T @ data.A)
    assert box.W == pytest.approx(np.clip(0.5 * box.V, box.low, box.high))
    paid = box.up[:INSIDE].sum() + box.up[INSIDE:, 0] @ (1.0 - box.offset)
    value = paid + (box.W * (box.W - box.V)).sum()
    assert box_bound._value.py_func(box, INSIDE) == pytest.approx(value)
    reach = np.maximum(np.abs(box.low), np.abs(box.high))
    off = (own @ reach * np.abs(data.A)).sum()
    terms = box.up[:INSIDE].sum() + box.up[INSIDE:, 0] @ (1.0 + np.abs(box.offset))
    terms += (np.abs(box.W) * (np.abs(box.W) + np.abs(box.V))).sum()
    size = 2.0 * (N + 6) * off + (N * K + 2 * K * D + 8) * terms
    assert box_bound._error.py_func(data, box) == pytest.approx(1.02 * UNIT * size, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_raises_the_bound_to_where_no_multiplier_alone_can_by_much(seed):
    _, data, box = prepared(seed)
    last = box_bound._value.py_func(box, INSIDE)
    for _ in range(80):
        box_bound._sweep.py_func(data, box)
        value = box_bound._value.py_func(box, INSIDE)
        assert value >= last - 1e-12
        last = value
    assert ((box.up >= 0.0) & (box.up <= data.C[:, None])).all()
    assert box.V == pytest.approx(weights(box).T @ data.A)
    slopes = 1.0 - data.A[:INSIDE] @ box.W.T
    own, cap = box.up[:INSIDE], data.C[:INSIDE, None]
    free = box.open[:INSIDE] & (own > 1e-6) & (own < cap - 1e-6)
    assert slopes[free] == pytest.approx(0.0, abs=1e-2)
    assert (slopes[box.open[:INSIDE] & (own == 0.0)] <= 1e-2).all()
    of_positives = 1.0 - box.offset - (box.share * (data.A[INSIDE:] @ box.W.T)).sum(axis=1)
    beta = box.up[INSIDE:, 0]
    free = (beta > 1e-6) & (beta < data.C[INSIDE:] - 1e-6)
    assert of_positives[free] == pytest.approx(0.0, abs=1e-2)
    assert (of_positives[beta == 0.0] <= 1e-2).all()
    assert (of_positives[beta == data.C[INSIDE:]] >= -1e-2).all()


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_faces_in_the_box_cost_less_and_in_a_point_the_bound_is_the_cost(seed, fine):
    rng, data, box = drawn(seed)
    bound = bound_box(data, box, 1e3, fine)
    for _ in range(60):
        W = box.low + rng.choice([0.0, 0.5, 1.0, rng.random()], (K, D)) * (box.high - box.low)
        assert cost(data, W) >= bound
    box.high[:] = box.low
    exact = cost(data, box.low)
    assert bound_box(data, box, exact * (1.0 + 1e-9), True) == pytest.approx(exact, rel=1e-6)
    assert bound_box(data, box, exact, True) <= exact


@pytest.mark.parametrize("seed", range(3))
def test_a_multiplier_goes_to_where_the_bound_without_the_box_is_largest(seed):
    """In each the bound is a square, with the slope 1 − offset − Σ λ a·w and the curvature ½ Σ λ² q."""
    _, data, box = prepared(seed)
    box.share[0] = 0.0  # a positive that pulls nothing pays its price, or nothing
    box_bound._pulls.py_func(data, box)
    up, before = box.up.copy(), box.up.copy()

    def faces():
        own = np.vstack([up[:INSIDE], up[INSIDE:, :1] * box.share])
        return np.clip(0.5 * own.T @ data.A, box.low, box.high)

    for i in range(INSIDE):
        for k in range(K):
            if box.open[i, k]:
                step = 2.0 * (1.0 - faces()[k] @ data.A[i]) / (data.A[i] @ data.A[i])
                up[i, k] = np.clip(up[i, k] + step, 0.0, data.C[i])
    for i in range(INSIDE, N):
        lam = box.share[i - INSIDE]
        slope = 1.0 - box.offset[i - INSIDE] - lam @ faces() @ data.A[i]
        if not lam.any():
            up[i, 0] = data.C[i] * (slope > 0.0)
            continue
        step = 2.0 * slope / (lam @ lam * (data.A[i] @ data.A[i]))
        up[i, 0] = np.clip(up[i, 0] + step, 0.0, data.C[i])
    box_bound._sweep.py_func(data, box)
    assert box.up[:INSIDE] == pytest.approx(up[:INSIDE], abs=1e-12)
    assert box.up[INSIDE:, 0] == pytest.approx(up[INSIDE:, 0], abs=1e-12)
    assert (np.abs(box.up - before) > 1e-3).sum() > 3
    assert box.W == pytest.approx(faces())


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_to_cut_has_the_largest_part_in_what_envelopes_lose(seed):
    _, data, box = prepared(seed, 3.0)
    box.share[0], box.offset[0] = 0.0, box.most[0].max()  # a constant: every face has a part in it
    parts = np.zeros((K, D))
    for p in range(N - INSIDE):
        i = INSIDE + p
        s = box.W @ data.A[i]
        above = box.offset[p] + box.share[p] @ s
        lost = data.C[i] * (max(0.0, 1.0 - s.max()) - max(0.0, 1.0 - above))
        widths = np.abs(data.A[i]) * (box.high - box.low)
        own = box.share[p] if box.share[p].any() else np.ones(K)
        if lost > 0.0:
            parts += lost * own[:, None] * widths / (own @ (box.most[p] - box.least[p]))
    face, coefficient, part = boxes._branch.py_func(data, box)
    assert (face, coefficient) == np.unravel_index(parts.argmax(), parts.shape)
    assert part == pytest.approx(parts.max(), rel=1e-9)
    assert part > 0.0


def examined(monkeypatch, bounds, losses, best=10.0, low=None, high=None):
    """What is said of a box whose parts answer as told: bounds, what envelopes lose, and the incumbent."""
    _, data, box = drawn(0)
    asked, told = [], {"bounds": iter(bounds), "losses": iter(losses)}
    low = np.full((K, D), -1.0) if low is None else low
    high = np.full((K, D), 3.0) if high is None else high
    limits = np.array([best, np.inf, 0.0])

    def bound_box(data, box, goal, fine):
        asked.append((goal, fine))
        box.W[:] = [[-0.9, 0.0], [2.9, 1.0], [0.5, 0.5]]
        box.up[:] = data.C[:, None] * 0.5
        return next(told["bounds"])

    def branch(data, box):
        return next(told["losses"])

    monkeypatch.setattr(boxes, "bound_box", bound_box)
    monkeypatch.setattr(boxes, "_try_faces", lambda data, best, box, tol: None)
    monkeypatch.setattr(boxes, "_branch", branch)
    codes = np.full((N, K), 51, dtype=np.uint8)
    incumbent = boxes.Best(np.zeros((K, D)), limits)
    found = boxes.examine_box.py_func(data, incumbent, box, low, high, codes, 0.1)
    assert box.low.tolist() == low.tolist()
    assert box.high.tolist() == high.tolist()
    return found, asked


def test_a_box_is_bound_coarsely_and_finely_only_where_envelopes_lose_nothing(monkeypatch):
    goal = 10.0 * (1.0 - 0.1)
    (bound, k, j, at, codes), asked = examined(monkeypatch, [5.0], [(1, 0, 0.5)])
    assert (bound, k, j) == (5.0, 1, 0)
    assert asked == [(goal, False)]
    assert at == 3.0 - 0.3 * 4.0  # within the middle
    assert (codes == 127).all()  # half of 255
    (bound, k, j, at, _), asked = examined(monkeypatch, [5.0, 4.0], [(1, 0, 4e-6), (2, 1, 0.5)])
    assert (bound, k, j, at) == (5.0, 2, 1, 0.5)
    assert asked == [(goal, False), (goal, True)]
    assert len(examined(monkeypatch, [5.0, 4.0], [(1, 0, 4.1e-6)])[1]) == 1
    (bound, k, j, at, _), asked = examined(monkeypatch, [9.0], [(0, 0, 0.0)])  # enough
    assert (bound, k, j, at, len(asked)) == (9.0, 0, 0, -1.0 + 0.3 * 4.0, 1)


def test_a_box_in_which_nothing_is_lost_is_cut_where_it_is_widest_and_a_point_is_not(monkeypatch):
    nothing = [(0, 0, 0.0), (0, 0, 2.9e-6)]
    high = np.full((K, D), 3.0)
    high[2, 0] = 3.5
    (_, k, j, at, _), _ = examined(monkeypatch, [5.0, 6.0], nothing, high=high)
    assert (k, j, at) == (2, 0, 0.5)
    low = np.full((K, D), 1.0)
    point = low.copy()
    point[1, 1] += 1.9e-12
    assert examined(monkeypatch, [5.0, 6.0], nothing, low=low, high=point)[0][1] == -1
    point[1, 1] += 0.3e-12
    assert examined(monkeypatch, [5.0, 6.0], nothing, low=low, high=point)[0][1:3] == (1, 1)


@pytest.mark.parametrize("better", [True, False])
def test_the_faces_of_a_box_are_kept_where_they_are_the_best_so_far_and_what_alternating_makes_of_them(
    monkeypatch, better
):
    _, data, box = drawn(1)
    known = cost(data, box.W)
    best = boxes.Best(np.zeros((K, D)), np.array([known + (1.0 if better else -1.0), np.inf, 0.0]))

    def settle(data, found, W, slow):
        asked.append(slow)
        W[:] = 7.0
        return known - share

    for share, kept in ((0.5, better), (2.0, True)):
        asked = []
        monkeypatch.setattr(boxes, "settle", settle)
        boxes._try_faces.py_func(data, best, box, 0.01)
        if not better:
            assert asked == []
            assert best.limits[0] == known - 1.0
            continue
        assert asked == ([pytest.approx(1e-5 * known)] if share == 0.5 else [])
        assert best.limits[0] == pytest.approx(known - 0.5)
        assert (best.W == 7.0).all() == kept


def test_faces_of_a_box_stay_where_alternating_makes_them_worse(monkeypatch):
    _, data, box = drawn(1)
    known = cost(data, box.W)
    best = boxes.Best(np.zeros((K, D)), np.array([known + 1.0, np.inf, 0.0]))
    monkeypatch.setattr(boxes, "settle", lambda data, found, W, slow: known + 0.5)
    boxes._try_faces.py_func(data, best, box, 0.01)
    assert best.limits[0] == pytest.approx(known)
    assert best.W == pytest.approx(box.W)


def test_what_is_moved_outward_for_rounding_is_so_much_for_each_operation_and_hardly_more():
    """Beside the sums as fractions, in units of rounding times the sizes that were added up."""
    rng, d, faces = np.random.default_rng(4), 60, 30
    data = Samples(rng.normal(size=(4, d)), np.ones(4), np.ones(4), 2)
    box = box_for(data, faces)
    box.low[:] = 0.02 * rng.normal(size=(faces, d))
    box.high[:] = box.low + 0.01 * rng.uniform(0.5, 1.0, (faces, d))
    box.W[:] = 0.5 * (box.low + box.high)
    box.up[2:, 0] = 1.0
    box_bound._ranges.py_func(data, box)
    for p, k in product(range(2), range(0, faces, 7)):
        ends = [[Fraction(x) * Fraction(end) for end in pair]
                for x, *pair in zip(data.A[2 + p], box.low[k], box.high[k], strict=True)]  # fmt: skip
        unit = UNIT * (d + 2) * float(sum(max(abs(one), abs(other)) for one, other in ends))
        below = sum(map(min, ends)) - Fraction(box.least[p, k])
        above = Fraction(box.most[p, k]) - sum(map(max, ends))
        assert float(below) / unit == pytest.approx(1.0, abs=0.15)
        assert float(above) / unit == pytest.approx(1.0, abs=0.15)
    box_bound._envelopes.py_func(data, box)
    for p in range(2):
        lows, highs = ([Fraction(end) for end in ends[p]] for ends in (box.least, box.most))
        shares = [Fraction(share) for share in box.share[p]]
        kept = [h - s * (h - low) for low, h, s in zip(lows, highs, shares, strict=True)]
        exact = max(kept) - sum(s * low for s, low in zip(shares, lows, strict=True))
        unit = UNIT * (8 + 2 * faces) * float(sum(map(abs, lows + highs)))
        assert float(Fraction(box.offset[p]) - exact) / unit == pytest.approx(1.0, abs=0.15)
