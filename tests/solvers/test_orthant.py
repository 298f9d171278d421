"""A Newton step that keeps signs: where it stops, what it holds there, and where it ends, by hand."""

import numpy as np
import pytest

from polyopt.polyhedral.logistic_newton import OPTIONS, orthant_step


def test_an_entry_stops_at_0_and_the_others_go_on():
    # The whole step is (-2, 3). Halfway the first entry is 0; what is left of the slope takes the other to 3.
    step = orthant_step(np.eye(2), np.array([-2.0, 3.0]), np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert step.tolist() == [-1.0, 3.0]
    # Both reach 0 at once, and then nothing is free.
    both = orthant_step(np.eye(2), np.array([-4.0, 4.0]), np.array([1.0, -1.0]), np.array([1.0, -1.0]))
    assert both.tolist() == [-1.0, 1.0]
    # A sign that is kept, or is none's, stops nothing; from 0 a wrong way is not begun.
    free = orthant_step(np.eye(2), np.array([-0.5, -3.0]), np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    assert free.tolist() == [-0.5, -3.0]
    begun = orthant_step(np.eye(2), np.array([-1.0, 2.0]), np.zeros(2), np.ones(2))
    assert begun.tolist() == [0.0, 2.0]


def test_it_ends_in_the_orthant_where_free_entries_have_no_slope():
    rng, stopped = np.random.default_rng(0), 0
    for _ in range(40):
        root = rng.normal(size=(5, 5))
        H, down, at = root @ root.T + 0.5 * np.eye(5), 3.0 * rng.normal(size=5), rng.normal(size=5)
        signs = np.where(rng.random(5) < 0.7, np.sign(at), 0.0)
        end = at + (step := orthant_step(H, down, at, signs))
        assert (signs * end >= 0.0).all()
        free = end != 0.0
        if (signs != 0).sum() <= OPTIONS.max_legs - 1:
            assert (down - H @ step)[free] == pytest.approx(np.zeros(free.sum()), abs=1e-8)
        # No way back: along the polygon the model falls.
        assert down @ step - 0.5 * step @ H @ step >= 0.0
        stopped += (~free).sum()
    assert stopped > 20
