"""The search for the whole numbers of a face, on a loss whose best scale and bias are known: squares."""

from itertools import combinations, product

import numpy as np
import pytest

from polyopt.solvers import whole
from polyopt.solvers.whole import WholeFace


class Squares(WholeFace):
    """Σ (δ o + b − t)² + a (b² + δ² times a length)."""

    def __init__(self, X, t, M, s=None, square=0.5):
        super().__init__(X, M, s, square)
        self.t = t

    def fitted(self, outputs, length):
        A = np.column_stack([outputs, np.ones(len(self.t))])
        H = A.T @ A + self.square * np.diag([length, 1.0])
        scale, bias = np.linalg.lstsq(H, A.T @ self.t, rcond=None)[0]
        left = scale * outputs + bias - self.t
        paid = left @ left + self.square * (bias**2 + scale**2 * length)
        return float(scale), float(bias), -2.0 * left, float(paid)

    def scaled(self, outputs, length):
        return float(outputs @ self.t / (outputs @ outputs + self.square * length))

    def cost(self, outputs, length):
        return float(((outputs - self.t) ** 2).sum() + self.square * length)


def drawn(seed, M=4, s=None, m=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, m)) * rng.uniform(0.3, 3.0, m)
    w = rng.normal(size=m)
    return Squares(X, X @ w + 0.7 + 0.3 * rng.normal(size=25), M, s), np.append(w, 0.7)


@pytest.mark.parametrize("s", [None, 2, 1])
@pytest.mark.parametrize("seed", range(6))
def test_no_step_of_one_or_two_numbers_is_better_at_the_end(seed, s):
    face, w = drawn(seed, s=s)
    found = face.round(w)
    p, most = found.numbers, 5 if s is None else s
    assert p.any()
    assert np.abs(p).max() <= 4
    assert np.count_nonzero(p) <= most
    least, steps = face._line(p).objective, (-1, 0, 1)
    for j, k in combinations(range(5), 2):
        for a, b in product(steps, steps):
            near = p.copy()
            near[j], near[k] = p[j] + a, p[k] + b
            if np.abs(near).max() <= 4 and np.count_nonzero(near) <= most:
                assert face._line(near).objective >= least * (1.0 - 2e-9)
    for j in np.flatnonzero(p):
        near = np.where(np.arange(5) == j, 0, p)
        assert face._line(near).objective >= least * (1.0 - 2e-9)


def test_a_full_face_gives_up_its_smallest_number_for_a_better_feature():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    face = Squares(X, X @ [4.0, 0.0, 3.0], 4, 2)
    start = face._line(np.array([4, 1, 0]))
    tried = face._better(start).numbers
    assert tried.tolist() == [4, 0, 1]
    assert face.round(np.zeros(4), np.array([4, 1, 0])).numbers.tolist() == [4, 0, 3]


def test_numbers_double_where_there_is_room_for_finer_ones():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 1))
    face = Squares(X, X[:, 0], 4)
    assert face.round(np.zeros(2), np.array([4])).numbers.tolist() == [1]  # a common divisor is taken out
    X = rng.normal(size=(60, 2))
    face = Squares(X, X @ [1.0, 0.5], 2)
    assert face.round(np.zeros(3), np.array([1, 1])).numbers.tolist() == [2, 1]


def test_a_real_face_is_rounded_at_scales_up_to_the_largest_number():
    face = Squares(np.eye(4), np.ones(4), 3, 2)
    w = np.array([0.5, -1.0, 0.2, 0.05])
    found = [p.tolist() for p in face._rounded(w)]
    # The two largest, times 1, 2, 3 and then 1.4, 2.4; halves are rounded to even ones.
    assert found == [[0, -1, 0, 0], [1, -2, 0, 0], [2, -3, 0, 0], [1, -1, 0, 0], [1, -2, 0, 0]]
    assert list(face._rounded(np.zeros(4))) == []
    assert len(list(Squares(np.eye(4), np.ones(4), 1)._rounded(w))) == 1


def test_a_scale_that_would_be_negative_is_that_of_the_opposite_numbers():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 2))
    face = Squares(X, -(X @ [1.0, 1.0]), 3)
    line = face._line(np.array([1, 1]))
    assert line.numbers.tolist() == [-1, -1]
    assert line.scale > 0.0
    assert face._line(np.array([1, 1])) is line


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_has_as_few_digits_as_a_thousandth_of_the_cost_allows(seed):
    face, w = drawn(seed)
    found = face.round(w)
    line = face._line(found.numbers)
    outputs = face.X @ found.numbers.astype(float)
    exact = -line.bias / line.scale
    digits = next(d for d in range(1, 13) if float(f"{exact:.{d}g}") == found.threshold)

    def length(t):
        return float(found.numbers @ found.numbers) + t**2

    assert found.objective == pytest.approx(
        face.cost(found.scale * (outputs - found.threshold), found.scale**2 * length(found.threshold))
    )
    assert found.objective <= line.objective * (1.0 + whole._DEAR)
    for fewer in range(1, digits):
        short = float(f"{exact:.{fewer}g}")
        own = face.scaled(outputs - short, length(short))
        assert face.cost(own * (outputs - short), own**2 * length(short)) > line.objective * (1.0 + 0.99e-3)


@pytest.mark.parametrize("scale", [1.0, np.pi, 1e-9 / 3.0, 7e12 / 11.0])
def test_a_scale_has_twenty_binary_digits(scale):
    found = whole._few_bits(scale)
    assert abs(found / scale - 1.0) <= 2.0**-20
    mantissa, _ = np.frexp(found)
    assert (mantissa * 2.0**20).is_integer()


def test_a_face_without_numbers_is_its_bias():
    found = whole.Whole(np.zeros(2, dtype=int), 1.0, -0.25, 3.0)
    assert found.w.tolist() == [0.0, 0.0, 0.25]
    assert whole.Whole(np.array([2, -1]), 0.5, 3.0, 1.0).w.tolist() == [1.0, -0.5, -1.5]


def test_the_steepest_numbers_are_tried_first_and_only_so_many(monkeypatch):
    """One feature of six matters; with a single try, and no pairs, it is found at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    face = Squares(X, X @ [0.3, 0.0, 5.0, 0.0, 0.0, 0.2], 4)
    monkeypatch.setattr(whole, "_TRIES", 1)
    monkeypatch.setattr(whole, "_PAIRED", 0)
    start = face._line(np.array([1, 0, 0, 0, 0, 0]))
    assert face._better(start).numbers.tolist() == [1, 0, 1, 0, 0, 0]
    looked = []
    monkeypatch.setattr(face, "_line", lambda p: looked.append(p.tolist()) or start)
    assert face._better(start) is None
    assert looked == [
        [1, 0, 1, 0, 0, 0],
        [2, 0, 0, 0, 0, 0],
    ]  # against the steepest, and finer for the same cost
