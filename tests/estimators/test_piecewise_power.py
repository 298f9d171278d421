"""PiecewisePower: what it is near to, where it leaves columns alone, and machines behind it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.conventions import broken_conventions
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import PowerTransformer

from polyopt import PiecewisePower

rng = np.random.default_rng(0)
TAILS = np.column_stack(
    [np.exp(1.5 * rng.normal(size=400)), -np.exp(rng.normal(size=400)), 1e8 + rng.normal(size=400)]
)


def test_check_estimator_has_no_failure():
    assert broken_conventions(PiecewisePower()) == {}


def test_it_is_the_power_transform_at_whole_deviations_and_straight_between():
    made = PiecewisePower().fit(TAILS)
    standard = (TAILS - TAILS.mean(axis=0)) / TAILS.std(axis=0)
    exact = PowerTransformer().fit(standard)
    assert made.powers_ == pytest.approx(exact.lambdas_)
    for j, (knots, levels) in enumerate(zip(made.knots_, made.levels_, strict=True)):
        assert np.isin(levels, np.arange(-3, 4)).all()
        row = (knots - TAILS[:, j].mean()) / TAILS[:, j].std()
        at = np.zeros((len(knots), 3))
        at[:, j] = row
        assert exact.transform(at)[:, j] == pytest.approx(levels, abs=1e-6)
        at = np.tile(TAILS[:1], (len(knots) - 1, 1))
        at[:, j] = (knots[1:] + knots[:-1]) / 2
        assert made.transform(at)[:, j] == pytest.approx((levels[1:] + levels[:-1]) / 2, abs=1e-6)


def test_few_numbers_and_piles_stay_as_they_are():
    pile = np.where(np.arange(400) % 2, 0.0, TAILS[:, 0])
    X = np.column_stack([np.arange(400) % 10, pile, np.full(400, 3.0), TAILS[:, 0]])
    made = PiecewisePower().fit(X)
    assert np.isnan(made.powers_).tolist() == [True, True, True, False]
    assert np.array_equal(made.transform(X)[:, :3], X[:, :3])


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(float, st.integers(1, 60), elements=st.floats(-1e300, 1e300)))
def test_any_column_becomes_a_rising_function_of_itself(column):
    made = PiecewisePower().fit(column[:, None])
    values = made.transform(column[:, None])[:, 0]
    assert np.isfinite(values).all()
    order = np.argsort(column)
    assert (np.diff(values[order]) >= 0).all()
    if not np.isnan(made.powers_[0]):
        assert np.abs(values).max() <= 3.0
