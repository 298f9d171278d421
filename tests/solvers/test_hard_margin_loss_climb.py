"""Climbs of the hard-margin loss: what proves how they ended, from the samples."""

import numpy as np
import pytest

from formulations.hard_margin_loss_data import as_hard_margin_loss_data
from polyopt.solvers.hard_margin_loss import climb as climb_module
from polyopt.solvers.hard_margin_loss.climb import ABOVE, MET, RAY, _direction, _solve, climb
from polyopt.solvers.hard_margin_loss.meeting import Samples


def drawn(seed, n=24, m=3, apart=2.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    X = rng.normal(size=(n, m)) + apart * y[:, None] * np.eye(m)[0]
    return X, y, Samples(as_hard_margin_loss_data(X, y, np.ones(n)))


@pytest.mark.parametrize("scale", [1.0, 1e-6, 3e7])
@pytest.mark.parametrize("seed", range(8))
def test_a_climb_ends_with_the_shortest_w_or_with_what_proves_that_none_is_short_enough(seed, scale):
    X, y, _ = drawn(seed, apart=(0.7, 1.5)[seed % 2])
    data = as_hard_margin_loss_data(scale * X, y, np.ones(24))
    samples, ends = Samples(data), set()
    for turn in range(6):
        kept = np.random.default_rng(turn).random(24) < (0.3, 0.6, 1.0)[turn % 3]
        for limit in (np.inf, 0.3 / scale**2):
            found = samples.meet(kept, limit)
            ends.add(found.status)
            at, alpha = found.active, found.alpha
            assert kept[at].all()
            assert (np.diff(at) > 0).all()
            assert (alpha > 0.0).all()
            w = (alpha * y[at]) @ data.X[at]
            size = np.abs(alpha).sum() * scale
            assert alpha @ y[at] == pytest.approx(0.0, abs=1e-9 * max(np.abs(alpha).sum(), 1e-300))
            if found.status == MET:
                assert found.is_met
                w, b = samples.hyperplane(found)
                margins = y * (data.X @ w + b)
                assert margins[kept].min() >= 1.0 - 1e-7
                assert margins[at] == pytest.approx(1.0, abs=1e-7)
                assert found.value == pytest.approx(0.5 * w @ w, rel=1e-7, abs=0.0)
                assert found.value == pytest.approx(0.5 * alpha.sum(), rel=1e-7, abs=0.0)  # no duality gap
            elif found.status == RAY:
                assert found.value == np.inf
                assert w == pytest.approx(0.0, abs=1e-7 * size)
                assert len(at) <= 5
            elif found.status == ABOVE:
                assert found.value >= limit
                assert alpha.sum() - 0.5 * w @ w == pytest.approx(found.value, rel=1e-7, abs=0.0)
    assert ABOVE in ends or RAY in ends or seed == 7  # whose samples are all far apart


def test_a_class_alone_is_met_by_a_bias():
    _, y, samples = drawn(0)
    for sign in (1.0, -1.0):
        found = samples.meet(y == sign)
        assert (found.status, found.value, len(found.active)) == (MET, 0.0, 0)
        w, b = samples.hyperplane(found)
        assert not w.any()
        assert b == sign


def test_two_samples_at_one_place_of_different_classes_are_a_ray():
    X = np.array([[1.0, 2.0], [1.0, 2.0], [5.0, 0.0]])
    samples = Samples(as_hard_margin_loss_data(X, np.array([1.0, -1.0, 1.0]), np.ones(3)))
    found = samples.meet(np.ones(3, dtype=bool))
    assert (found.status, found.active.tolist()) == (RAY, [0, 1])
    assert found.alpha[0] == found.alpha[1]


@pytest.mark.parametrize(("apart", "end"), [(0.0, RAY), (0.8e-14, RAY), (1.2e-14, MET), (1.0, MET)])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_two_samples_that_only_rounding_tells_apart_are_at_one_place(apart, end, size):
    """The square of what is between them, relative to their own."""
    Q, y = size * np.array([[1.0, apart - 1.0], [apart - 1.0, 1.0]]), np.array([1.0, -1.0])
    active, alpha, margins = np.zeros(5, dtype=np.int64), np.zeros(5), np.zeros(2)
    both = np.ones(2, dtype=bool)
    k, value, status = climb.py_func(Q, y, both, np.inf, active, alpha, margins, 9)
    assert (k, status) == (2, end)
    assert active[:2].tolist() == [0, 1]
    if end == MET:
        assert value == pytest.approx(1.0 / (size * apart), rel=0.1)
        assert alpha[:2] == pytest.approx(value, rel=1e-15)
        assert margins == pytest.approx([1.0, 1.0], abs=1e-9)


def test_a_direction_keeps_what_is_active_on_its_margins():
    rng = np.random.default_rng(2)
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    rows = y[:, None] * rng.normal(size=(5, 4))
    Q, active = rows @ rows.T, np.array([3, 0, 2, 0])
    system, move = np.empty((5, 5)), np.empty(5)
    assert _direction.py_func(Q, y, active, 3, 4, system, move)
    at = active[:3]
    rise = Q[:, 4] + Q[:, at] @ move[:3] + y * move[3]
    assert rise[at] == pytest.approx(0.0, abs=1e-10)
    assert y[4] + y[at] @ move[:3] == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_elimination_is_that_of_a_library_and_a_pivot_of_0_is_told(seed):
    rng = np.random.default_rng(seed)
    A, right = rng.normal(size=(6, 6)), rng.normal(size=6)
    A[0, 0] = 0.0
    whole, move = A.copy(), right.copy()
    assert _solve.py_func(whole, move, 6)
    assert move == pytest.approx(np.linalg.solve(A, right))
    system, move = A.copy(), right.copy()
    assert _solve.py_func(system, move, 4)
    assert move[:4] == pytest.approx(np.linalg.solve(A[:4, :4], right[:4]))
    assert move[4:].tolist() == right[4:].tolist()
    A[:, 1] = 0.0
    assert not _solve.py_func(A, right, 6)


def test_the_pair_to_begin_with_is_the_nearest_to_the_first_and_then_the_nearest_to_that():
    x, y = np.array([9.0, 0.0, 5.0, 6.0, 1.0]), np.array([-1.0, 1.0, -1.0, 1.0, -1.0])
    Q = np.outer(x * y, x * y)
    for kept, pair in (
        ([1, 1, 1, 1, 1], (1, 4)),
        ([1, 1, 1, 1, 0], (3, 2)),  # 5 is the nearest to 0, and 6 to 5
        ([1, 1, 0, 1, 0], (3, 0)),
        ([0, 1, 0, 1, 0], (1, -1)),
        ([1, 0, 1, 0, 1], (-1, 0)),
        ([0, 0, 1, 1, 0], (3, 2)),
        ([0, 0, 0, 0, 0], (-1, -1)),
    ):
        assert climb_module._nearest_pair.py_func(Q, y, np.array(kept, dtype=bool)) == pair


def test_the_sample_that_falls_short_most_is_taken_up_and_none_that_does_so_by_rounding():
    short, kept = climb_module._SHORT, np.array([True, False, True, True])
    take = climb_module._shortest.py_func
    assert take(np.array([0.5, -9.0, 0.4, 0.4]), kept) == 2
    assert take(np.array([1.0 - 0.9 * short, -9.0, 1.0, 2.0]), kept) == -1
    assert take(np.array([1.0 - 1.1 * short, -9.0, 1.0, 2.0]), kept) == 0
    assert 1e-12 <= short <= 1e-7
