"""The length of a Newton step on the smooth hinge loss."""

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls

from polyopt.cpm.smooth_hinge import step_length


def slope(u, moved, c, eps, linear, square, t):
    return linear + t * square - float(c * np.clip((u - t * moved) / eps, 0.0, 1.0) @ moved)


@drawn_calls("step_length", n=[0, 1, 2, 7, 255, 256, 300], eps=[1e-3, 0.1, 2.0])
def test_length_leaves_little_slope(rng, n, eps):
    """A tenth of the slope at the start at most, on convex objectives that fall at first."""
    u, moved, c = anywhere(rng, *rng.normal(size=(2, n)), rng.uniform(size=n))
    square = rng.uniform(0.1, 3.0)
    linear = -rng.uniform(0.1, 3.0) - abs(slope(u, moved, c, eps, 0.0, 0.0, 0.0))
    fall = slope(u, moved, c, eps, linear, square, 0.0)
    t = step_length(u, moved, c, eps, linear, square, fall)
    assert t > 0.0
    assert abs(slope(u, moved, c, eps, linear, square, t)) <= 0.1 * abs(fall) * (1.0 + 1e-9)


def test_without_samples_the_parabola_is_left():
    """Its slope −1 + 4 t is small enough by regula falsi at t = 1/4, and at once at t = 1 if 4 is 1."""
    none = np.zeros(0)
    assert step_length(none, none, none, 1.0, -1.0, 4.0, -1.0) == pytest.approx(0.25)
    assert step_length(none, none, none, 1.0, -1.0, 1.0, -1.0) == 1.0


def test_steps_grow_until_the_objective_rises():
    """A slope of −1 + t/100 needs t near 100."""
    none = np.zeros(0)
    assert step_length(none, none, none, 1.0, -1.0, 0.01, -1.0) == pytest.approx(100.0, rel=0.11)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_end(value):
    """A search from NaN or infinity comes to an end, with some length."""
    assert isinstance(
        step_length(np.array([value, 1.0]), np.ones(2), np.ones(2), 0.1, -1.0, 1.0, -1.0), float
    )
