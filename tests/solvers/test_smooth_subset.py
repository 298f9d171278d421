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
        assert status is Status.SOLVED
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
    assert status is Status.SOLVED
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
    assert status in (Status.ITERATION_LIMIT, Status.SOLVED)
    assert 0 < search.bound <= whole.best.objective
    over, status = search_subset(face, time_limit=0.0)
    assert over.bound <= whole.best.objective <= over.best.objective * (1 + 1e-9)
    loss, W = CellLoss(X, y, c[:, None]), face.faces(over.best.w)
    root = bound_of_few_faces(loss, W, 2, 1e-3, None)
    assert 0 <= root <= whole.best.objective


# -- a loss whose every minimum is a system of equations --------------------------------------


class Quadratic:
    """c + ½ (W − T)'G(W − T) + ρ/2 ‖W‖² of some columns; its slope and its second derivatives are exact."""

    def __init__(self, columns, G, T, ridge, constant):
        K, m = T.shape
        kept = [k * m + j for k in range(K) for j in (*columns, m - 1)]
        # What is left out is 0.
        self.G, self.pull = G[np.ix_(kept, kept)], (G @ T.ravel())[kept]
        self.least, self.ridge = constant + 0.5 * T.ravel() @ G @ T.ravel(), ridge

    def __call__(self, W):
        w = W.ravel()
        value = self.least - self.pull @ w + 0.5 * w @ self.G @ w + 0.5 * self.ridge * w @ w
        return value, (self.G @ w - self.pull + self.ridge * w).reshape(W.shape)

    def hessian(self, W):
        return self.G + self.ridge * np.eye(W.size)


class Squares:
    """Two faces of four features with such a loss, and its numbers."""

    ridge, taken = 0.5, 1.25

    def __init__(self, seed=0, s=2):
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(10, 10))
        self.G, self.T = root @ root.T / 10, 2.0 * rng.normal(size=(2, 5))
        self.made = []
        self.face = SmoothSubset(self.loss, 4, 2, s, ridge=self.ridge, constant=self.taken)

    def loss(self, columns):
        self.made.append(list(columns))
        return Quadratic(columns, self.G, self.T, self.ridge, 3.0 + self.taken)

    def least(self, W, entries, more=0.0):
        """The best faces of these entries where the others keep their values, and the cost."""
        w, free = W.ravel().copy(), np.flatnonzero(entries.ravel())
        H = self.G + self.ridge * np.eye(10) + np.diag(np.broadcast_to(more, (2, 5)).ravel())
        q = self.G @ self.T.ravel()
        w[free] = 0.0
        w[free] = np.linalg.solve(H[np.ix_(free, free)], (q - H @ w)[free])
        return w.reshape(2, 5), 3.0 + 0.5 * self.T.ravel() @ q - q @ w + 0.5 * w @ H @ w

    def best(self, inside, out):
        """The least cost of all choices of a node."""
        values = []
        for sides in product(product((False, True), repeat=4), repeat=2):
            bits = np.array(sides)
            if (
                (bits.sum(axis=1) <= self.face.s).all()
                and not (inside & ~bits).any()
                and not (out & bits).any()
            ):
                values.append(self.least(np.zeros((2, 5)), np.column_stack([bits, [True, True]]))[1])
        return min(values)


def test_given_features_are_solved_as_equations_are():
    one = Squares()
    for features in ([0, 5], [0, 1, 4, 7], [2], []):
        bits = np.zeros(8, dtype=bool)
        bits[features] = True
        W, value = one.least(np.zeros((2, 5)), np.column_stack([bits.reshape(2, 4), [True, True]]))
        for w in (None, one.face.vector(np.ones((2, 5)))):
            found = one.face.fit(features[::-1], w=w)
            assert one.made[-1] == sorted({j % 4 for j in features})
            assert found.features.tolist() == features
            assert one.face.faces(found.w) == pytest.approx(W, rel=1e-9, abs=1e-9)
            assert found.objective == pytest.approx(value, rel=1e-12)
            assert value * (1 - 2e-9) <= found.bound <= value
            assert found.alpha.tolist() == found.w.tolist()
            assert (found.proof.eps, found.proof.bound) == (1.0, found.bound)
            # At once where it begins at the best; and no further than to a bound that is enough.
            again = one.face.fit(features, w=found.w)
            assert again.w.tolist() == found.w.tolist()
        first = one.face.fit(features, cutoff=-1e9)
        assert not first.w.any()
        slope = Quadratic(range(4), one.G, one.T, one.ridge, 0.0)(np.zeros((2, 5)))[1]
        off = slope[:, -1] @ slope[:, -1] + (slope[:, :-1].ravel()[features] ** 2).sum()
        assert first.bound == pytest.approx(first.objective - off / (2 * one.ridge), rel=1e-9)
        assert first.bound < first.objective - off / (2 * one.ridge)  # less its rounding


def test_pulls_costs_and_refits_are_those_of_the_loss():
    one, rng = Squares(), np.random.default_rng(1)
    W = rng.normal(size=(2, 5))
    W[:, 2] = 0.0
    w = one.face.vector(W)
    assert w.tolist() == [*W[0, :4], *W[1, :4], W[0, 4], W[1, 4]]
    assert one.face.faces(w) == pytest.approx(W)
    value, slope = Quadratic(range(4), one.G, one.T, one.ridge, 3.0)(W)
    assert one.face.cost(w) == pytest.approx(value)
    assert one.made[-1] == [0, 1, 3]
    assert one.face.pull(w) == pytest.approx(one.face.vector(one.ridge * W - slope))
    calls = len(one.made)
    one.face.pull(w)
    assert len(one.made) == calls  # made once
    for free in (rng.random((2, 5)) < 0.5, np.ones((2, 5), bool), np.zeros((2, 5), bool)):
        assert one.face.refitted(W, free) == pytest.approx(one.least(W, free)[0], abs=1e-6)
        assert (one.face.refitted(W, free)[~free] == W[~free]).all()


def test_the_bound_of_a_point_is_the_tangent_less_the_largest_pulls_of_a_node():
    one, rng = Squares(), np.random.default_rng(2)
    W = rng.normal(size=(2, 5))
    value, slope = Quadratic(range(4), one.G, one.T, one.ridge, 3.0)(W)
    point = one.face._at(one.loss(range(4)), W)
    assert (point.value, point.slope.tolist()) == (pytest.approx(value), slope.tolist())
    held = np.array([[True, False, False, False], [False, False, False, False]])
    free = np.array([[False, True, True, True], [True, True, False, True]])
    P = one.ridge * W - slope
    for left in ([1, 2], [0, 1], [-1, 9]):
        taken = P[:, -1] @ P[:, -1] + P[0, 0] ** 2
        for k, most in enumerate(left):
            taken += np.sort(P[k, :4][free[k]] ** 2)[::-1][: max(most, 0)].sum()
        expected = value + (P * W).sum() - one.ridge / 2 * (W**2).sum() - taken / (2 * one.ridge)
        found = one.face._bound(point, P, held, free, np.array(left))
        assert found == pytest.approx(expected, rel=1e-9)
        assert found < expected
    rounding = 1e-11 * (2.0 + 3.0 + one.taken)
    assert one.face._less(-2.0, 3.0) == pytest.approx(-5.0 - rounding, abs=1e-14, rel=0.0)
    assert one.face._less(np.inf, 3.0) == one.face._less(1.0, np.nan) == -np.inf


def test_weights_of_features_are_those_that_add_up_and_none_comes_to_nothing():
    face = Squares().face
    free = np.array([[True, True, True, False], [True, True, False, False]])
    sizes = np.array([[1.0, 2.0, 1.0, 9.0], [1e-9, 1.0, 5.0, 5.0]])
    z = face._weights(sizes, free, np.array([2, 1]))
    assert z == pytest.approx(np.array([[0.5, 1.0, 0.5, 1.0], [1e-3, 1.0, 1.0, 1.0]]), rel=1e-8)
    assert (face._weights(sizes, free, np.array([3, 2])) == 1.0).all()
    none = face._weights(np.zeros((2, 4)), free, np.array([2, 0]))
    assert none == pytest.approx(np.array([[2 / 3, 2 / 3, 2 / 3, 1.0], [1e-3, 1e-3, 1.0, 1.0]]))
    assert face._weights(sizes, free, np.array([-1, 0]))[0, :3].tolist() == [1e-3] * 3


def test_a_node_is_bounded_by_the_relaxation_and_never_above_its_choices():
    for seed in range(3):
        one, rng = Squares(seed, s=1 + seed % 2), np.random.default_rng(seed)
        for share_in, share_out in ((0.0, 0.0), (0.2, 0.0), (0.0, 0.3)):
            inside, out = rng.random(8) < share_in, rng.random(8) < share_out
            inside = inside & (inside.reshape(2, 4).cumsum(axis=1) <= one.face.s).ravel()
            best = one.best(inside.reshape(2, 4), out.reshape(2, 4))
            w = rng.normal(size=10) * np.append(~out, [True, True])
            found = one.face.relax(inside, out, w, np.inf)
            assert found.proof.bound <= best
            assert found.value - found.proof.bound <= 0.2 * found.value
            assert not found.w[:8][out].any()
            assert one.face.relax(inside, out, w, -1e9).proof.bound <= best  # one look is enough
            # To a share of the way to a cutoff that cannot be reached, while there is something to gain.
            high = one.face.relax(inside, out, w, 2.0 * best, 0.02)
            assert 0.9 * best <= high.proof.bound <= best
            assert high.value <= 1.1 * best
            assert high.proof.w[:8][out].tolist() == [0.0] * int(out.sum())


def test_a_newton_step_of_a_quadratic_ends_at_its_least():
    one, rng = Squares(), np.random.default_rng(4)
    smooth = one.loss(range(4))
    more = np.column_stack([rng.uniform(0.0, 2.0, (2, 4)), np.zeros(2)])
    active = rng.random((2, 5)) < 0.7
    W = rng.normal(size=(2, 5)) * active
    point = one.face._at(smooth, W)
    following = one.face._newton(smooth, more, active, point)
    expected, value = one.least(W, active, more)
    assert following.W == pytest.approx(expected, abs=1e-9)
    assert following.value + 0.5 * (more * following.W**2).sum() == pytest.approx(value)
    assert one.face._settled(smooth, more, active, point).W == pytest.approx(expected, abs=1e-9)
    assert one.face._newton(smooth, more, active, following) is None  # nothing lower is there
