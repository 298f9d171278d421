"""Faces of few features: printed as computed, bounds on every choice."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from formulations import (
    mixture,
    plume,
    plume_subset,
    polyceptron,
    polyceptron_subset,
    spla1,
    spla1_subset,
)
from formulations.printed import misprints
from formulations.samples import two_blobs

S, RIDGE, GAMMA = 2, 0.7, 1.3


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=18, m=4, seed=3)
    C = np.where(y > 0, 1.0, 0.6)
    R = mixture.responsibilities(X, y, np.random.default_rng(0).normal(size=(2, 5)), GAMMA)
    return X, y, C, R


def test_what_is_printed_is_what_is_computed(data):
    X, y, C, R = data
    for program in (
        spla1_subset.mixed_integer(X, y, S, C, RIDGE),
        spla1_subset.relaxation(X, y, S, C, RIDGE, np.eye(4)[1]),
        spla1_subset.relaxation_dual(X, y, S, C, RIDGE, np.eye(4)[1]),
        polyceptron_subset.mixed_integer(X, y, S, C, 0.5),
        polyceptron_subset.relaxation(X, y, S, C, 0.5, np.eye(4)[1]),
        polyceptron_subset.relaxation_dual(X, y, S, C, 0.5, np.eye(4)[1]),
        plume_subset.mixed_integer(X, y, R, GAMMA, S, C, RIDGE),
        plume_subset.relaxation(X, y, R, GAMMA, S, C, RIDGE, np.eye(4)[:2]),
        plume_subset.relaxation_dual(X, y, R, GAMMA, S, C, RIDGE, np.eye(4)[:2]),
    ):
        assert misprints(program) == []


def test_the_relaxed_cell_is_a_bound_on_every_choice_and_attains_a_given_one(data):
    X, y, C, _ = data
    costs = {
        chosen: spla1.cell(X[:, list(chosen)], y, C, RIDGE).solve().objective
        for chosen in combinations(range(4), S)
    }
    for inside in (None, 0, 3):
        given = None if inside is None else np.eye(4)[inside]
        relaxed = spla1_subset.relaxation(X, y, S, C, RIDGE, given).solve().objective
        least = min(cost for chosen, cost in costs.items() if inside is None or inside in chosen)
        assert relaxed <= least * (1 + 1e-9)
    for chosen in ((0, 1), (2, 3)):
        given = np.isin(np.arange(4), chosen).astype(float)
        alone = spla1_subset.relaxation(X, y, S, C, RIDGE, given).solve().objective
        assert alone == pytest.approx(costs[chosen], rel=1e-8)


@pytest.mark.parametrize("radius", [0.2, 100.0])
def test_a_polyceptron_of_few_features_is_the_best_of_all_choices(data, radius):
    X, y, C, _ = data
    y = np.where(np.arange(len(y)) % 4 == 0, -y, y)
    costs = {
        chosen: polyceptron.cell(X[:, list(chosen)], y, C, radius=radius).solve().objective
        for chosen in combinations(range(4), S)
    }
    found = polyceptron_subset.mixed_integer(X, y, S, C, radius).solve(mip_rel_gap=1e-9).objective
    assert found == pytest.approx(min(costs.values()), rel=1e-6)
    values = []
    for given in (None, np.eye(4)[3]):
        relaxed = polyceptron_subset.relaxation(X, y, S, C, radius, given).solve().objective
        dual = polyceptron_subset.relaxation_dual(X, y, S, C, radius, given).solve().objective
        least = min(cost for chosen, cost in costs.items() if given is None or 3 in chosen)
        assert relaxed <= least * (1 + 1e-9)
        assert dual == pytest.approx(relaxed, rel=1e-8)
        values.append(relaxed)
    whole = polyceptron.cell(X, y, C, radius=radius).solve().objective
    # A wide box leaves the relaxation that of all features; a narrow one does not.
    assert (values[0] > whole * 1.01) == (radius < 1.0)


def test_the_relaxed_mixture_is_a_bound_on_every_choice(data):
    X, y, C, R = data
    X, y, C, R = X[:9, :2], y[:9], C[:9], R[:9]
    relaxed = plume_subset.relaxation(X, y, R, GAMMA, 1, C, RIDGE).solve().objective
    costs = []
    for chosen in product(range(2), repeat=2):
        given = np.eye(2)[list(chosen)]
        costs.append(plume_subset.relaxation(X, y, R, GAMMA, 1, C, RIDGE, given).solve().objective)
    assert relaxed <= min(costs) * (1 + 1e-9)
    free = plume.m_step(X, y, R, GAMMA, C, RIDGE).solve().objective
    assert free < relaxed
    both = plume_subset.relaxation(X, y, R, GAMMA, 2, C, RIDGE).solve().objective
    assert both == pytest.approx(free, rel=1e-8)


def test_features_that_cannot_be_given_are_refused(data):
    X, y, C, R = data
    for given in (np.ones(3), np.full(4, 0.5), np.ones(4)):
        with pytest.raises(ValueError, match="given must be numbers of 0 and 1"):
            spla1_subset.relaxation(X, y, S, C, RIDGE, given)
    with pytest.raises(ValueError, match="at most 2 of a face"):
        plume_subset.relaxation(X, y, R, GAMMA, S, C, RIDGE, np.ones((2, 4)))
