"""Smooth faces of few features: the search against every choice, its bounds on degenerate data, its tree."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import mixture
from formulations.samples import two_blobs
from formulations.solution import Status
from polyopt.certificates.smooth_tree import bound_of_few_faces
from polyopt.certificates.spla1_subset import CellLoss
from polyopt.outer.cpm.subset import search_subset
from polyopt.outer.plume import PlumeProblem
from polyopt.outer.plume_few import FewPlume
from polyopt.solvers.logistic import Regressions
from polyopt.solvers.smooth_subset import SmoothSubset


def cell(X, y, c, s, ridge):
    return SmoothSubset(
        lambda columns: Regressions(X[:, columns], y, c[:, None], ridge), X.shape[1], 1, s, ridge=ridge
    )


def best_of_all(face):
    """What the best of every choice of features costs."""
    rows = [
        [tuple(k * face.width + j for j in some) for some in combinations(range(face.width), face.s)]
        for k in range(face.n_faces)
    ]
    return min(face.fit(np.concatenate(chosen).astype(int)).objective for chosen in product(*rows))


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=50, m=6, seed=2)
    return X, y, np.where(y > 0, 1.0, 0.6)


@pytest.mark.parametrize(("s", "ridge"), [(1, 0.1), (2, 3.0), (3, 0.02), (6, 0.1)])
def test_the_search_finds_the_best_choice_and_its_tree_proves_it(data, s, ridge):
    X, y, c = data
    for samples in (X, sp.csr_array(X)):
        face = cell(samples, y, c, s, ridge)
        search, status = search_subset(face)
        assert status is Status.OPTIMAL
        assert len(search.best.features) <= s
        assert search.best.objective == pytest.approx(best_of_all(face), rel=1e-8)
        assert search.best.objective * (1 - 1e-6) <= search.bound <= search.best.objective
        table = search.tree.table()
        proven = bound_of_few_faces(
            CellLoss(samples, y, c[:, None]), face.faces(search.best.w), s, ridge, table
        )
        assert search.best.objective * (1 - 1.1e-6) <= proven <= search.best.objective


def test_faces_that_depend_on_each_other_are_chosen_together(data):
    X, y, c = data
    W = np.random.default_rng(0).normal(size=(2, 5))
    problem = PlumeProblem(X[:, :4], y, c, 2, gamma=2.0, ridge=0.3)
    (part,) = FewPlume(problem).parts(W, 2)
    search, status = search_subset(part.program)
    assert status is Status.OPTIMAL
    assert search.best.objective == pytest.approx(best_of_all(part.program), rel=1e-8)
    assert (np.count_nonzero(part.program.faces(search.best.w)[:, :-1], axis=1) <= 2).all()
    # The slope at its faces, as differences have it.
    w, step = search.best.w, 1e-6
    pulled = 0.3 * w - part.program.pull(w)
    for j in (0, 5, 9):
        ends = [part.program.cost(w + side * step * np.eye(10)[j]) for side in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(pulled[j], abs=1e-6)
    # It touches the likelihood where its responsibilities are of the faces.
    assert part.program.cost(part.program.vector(W)) == pytest.approx(
        mixture.loss(X[:, :4], y, W, 2.0, c, 0.3), rel=1e-9
    )


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.sampled_from([1e-3, 1.0, 1e3]))
def test_on_degenerate_data_the_bound_is_one(seed, s, ridge):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(9, 4)).astype(float)
    X[:, 3], X[:, 2] = X[:, 0], 0.0  # two choices of one cost, and a feature that says nothing
    y = np.where(np.arange(9) < 4, 1.0, -1.0)
    face = cell(X, y, np.ones(9), s, ridge)
    search, _ = search_subset(face, max_nodes=60)
    least = best_of_all(face)
    assert search.bound <= least * (1 + 1e-12)
    assert search.best.objective == pytest.approx(least, rel=1e-6)
    table = search.tree.table()
    W = face.faces(search.best.w)
    assert bound_of_few_faces(CellLoss(X, y, np.ones((9, 1))), W, s, ridge, table) <= least * (1 + 1e-12)


def test_a_search_that_is_cut_short_has_a_bound_and_a_tree_for_it(data):
    X, y, c = data
    face = cell(X, y, c, 2, 1e-3)
    whole, _ = search_subset(face)
    search, status = search_subset(face, max_nodes=1)
    assert status in (Status.ITERATION_LIMIT, Status.OPTIMAL)
    assert 0 < search.bound <= whole.best.objective
    over, status = search_subset(face, time_limit=0.0)
    assert over.bound <= whole.best.objective <= over.best.objective * (1 + 1e-9)
    loss, W = CellLoss(X, y, c[:, None]), face.faces(over.best.w)
    root = bound_of_few_faces(loss, W, 2, 1e-3, None)
    assert 0 <= root <= whole.best.objective
