"""PiecewisePower: what it is near to, where it leaves columns alone, and machines behind it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.conventions import broken_conventions
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from polyopt import Columns, Hinges, LogisticPolytopes, PiecewisePower, fold

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


@pytest.mark.parametrize(
    "steps",
    [[], [StandardScaler()], [Hinges(3)], [Hinges(2), StandardScaler()], [PiecewisePower()]],
    ids=lambda steps: "-".join(type(step).__name__ for step in steps),
)
def test_it_folds(steps):
    y = (TAILS[:, 0] > 0.5) & (TAILS[:, 0] < 3.0) | (TAILS[:, 2] > 1e8 + 1)
    gaps = TAILS.copy()
    gaps[::9, 1] = np.nan
    pipeline = make_pipeline(
        Columns(), PiecewisePower(), *steps, LogisticPolytopes((0, 2), random_state=0, n_init=1, tol=1e-3)
    )
    folded = fold(pipeline.fit(gaps, y))
    # The numbers between, at and far beyond the knots.
    wide = np.column_stack([np.geomspace(1e-9, 1e300, 400), np.linspace(-9, 9, 400), 1e8 + np.arange(400.0)])
    wide = np.vstack([wide, -wide])
    for X in (gaps, TAILS, wide):
        assert folded.decision_function(X) == pytest.approx(pipeline.decision_function(X), abs=1e-6)
    wide[7, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        folded.predict(wide)


def test_hinges_before_it_do_not_fold():
    machine = LogisticPolytopes((0, 1), random_state=0, n_init=1, tol=1e-3)
    pipeline = make_pipeline(Hinges(2), PiecewisePower(), machine).fit(TAILS[:, :1], TAILS[:, 0] > 1)
    with pytest.raises(ValueError, match="Hinges before PiecewisePower"):
        fold(pipeline)
