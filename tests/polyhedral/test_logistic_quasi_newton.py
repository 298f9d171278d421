"""The compiled descent of logistic polytopes, against the objective and against scipy's L-BFGS-B."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.class_faces import Owners
from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from polyopt.polyhedral.logistic_descent import descend, lbfgs
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.polyhedral.logistic_polytopes import random_start

OWNERS = [Owners(0, 1), Owners(2, 2), Owners(4, 1)]


def ring(owners, n=300, m=3, ridge=0.3, units=1.0, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, m))
    y = np.where((Z**2).sum(axis=1) + 0.3 * rng.normal(size=n) > m, 1.0, -1.0)
    X = Z * units * np.arange(1.0, m + 1) + 2.0 * units
    penalty = FacePenalty.of(m)
    return FaceLoss(X, y, rng.uniform(0.0, 2.0, n), owners, ridge * units**2, 0.01 * ridge, penalty)


@pytest.mark.parametrize("owners", OWNERS, ids=str)
def test_lbfgs_ends_where_scipy_does(owners):
    """The compiled descent ends at the value of scipy's L-BFGS-B, with a small slope."""
    problem = ring(owners)
    W = random_start(problem, np.random.default_rng(2))
    own, _ = lbfgs(problem, W, Clock(None), 1.0, 2000, 1e-14)
    value, slope, _, _ = problem.smooth(own, 1.0, 1.0)
    assert np.abs(slope).max() <= 1e-4 * problem.c.sum()
    other, _ = descend(replace(problem, X=sp.csr_array(problem.X)), own, Clock(None), softness=(1.0,))
    assert value == pytest.approx(problem.smooth(other, 1.0, 1.0)[0], rel=1e-9)


def test_every_iteration_goes_down():
    """Every iteration lowers the value, and exactly as many are made as asked for."""
    problem = ring(Owners(2, 2))
    W = random_start(problem, np.random.default_rng(3))
    values = [problem.smooth(W, 0.3, 0.3)[0]]
    for count in (1, 2, 5, 20):
        V, made = lbfgs(problem, W, Clock(None), 0.3, count, 0.0)
        assert made == count
        values.append(problem.smooth(V, 0.3, 0.3)[0])
    assert (np.diff(values) < 0.0).all()


def test_ended_descent_keeps_its_point():
    """A descent without time makes no more iterations than allowed, and no point is worse than the start."""
    problem = ring(Owners(2, 2))
    W = random_start(problem, np.random.default_rng(3))
    V, made = descend(problem, W, Clock(0.0), max_iter=50)
    assert made <= 50
    assert problem.smooth(V, 1.0, 1.0)[0] <= problem.smooth(W, 1.0, 1.0)[0]


@pytest.mark.parametrize("units", [1e-8, 1.0, 1e8])
def test_units_make_no_difference(units):
    """Samples in units from 1e-8 to 1e8 have the same values after the same iterations."""
    plain, other = ring(Owners(2, 1)), ring(Owners(2, 1), units=units)
    W = random_start(plain, np.random.default_rng(4))
    U = np.column_stack([W[:, :-1] / units, W[:, -1]])
    values = [
        each.smooth(descend(each, V, Clock(None), max_iter=15)[0], 0.3, 0.3)[0]
        for each, V in ((plain, W), (other, U))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-4)


def test_separable_and_constant_samples_are_finite():
    """Separable samples, constant features and one feature leave finite faces without a warning."""
    rng = np.random.default_rng(5)
    x = np.sort(rng.normal(size=50))
    y = np.where(x > 0.0, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (x[:, None], np.column_stack([x, np.ones(50)]), np.zeros((50, 2))):
            problem = FaceLoss(X, y, np.ones(50), Owners(0, 2), 1e-9, 1e-11, FacePenalty.of(X.shape[1]))
            W, _ = descend(problem, random_start(problem, rng), Clock(None))
            assert np.isfinite(W).all()
            assert problem.value(W) <= 50 * np.log(2.0) + 1e-9
