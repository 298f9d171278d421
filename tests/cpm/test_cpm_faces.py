"""The kernels of the polytope machine's faces, each against the formula that it stands for."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.cpm import clusters
from helpers.cpm_parts import hyperplane_error, least_share, most_added, settle, slope_blur

from formulations import cpm
from formulations.language.clock import Clock
from polyopt.cpm.global_search.face import Samples, alternate, dual_error, dual_value, hyperplane, total_cost


def small(seed, n=24, K=3):
    """Data as the search has them, negatives first, and as everybody else does."""
    X, y, _ = clusters(n, K, seed, widen=1.5)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    C = np.random.default_rng(seed).uniform(0.3, 2.0, n)
    A = cpm.lift(X) * y[:, None]
    return X, y, C, Samples(A, (A * A).sum(axis=1), C, int((y < 0).sum()))


@pytest.mark.parametrize("seed", range(3))
def test_cost_of_faces_is_the_objective(seed):
    """The cost of faces is the machine's objective, and each positive has its best face."""
    X, y, C, data = small(seed)
    W = np.random.default_rng(seed).normal(size=(3, 3))
    cost, best = total_cost(data, W)
    assert cost == pytest.approx(cpm.objective(X, y, W, C), rel=1e-12)
    hinges = np.maximum(1.0 - cpm.lift(X) @ W.T, 0.0)[y > 0]
    assert (best == hinges.argmin(axis=1)).all()


@pytest.mark.parametrize("seed", range(3))
def test_alternation_ends_at_fixed_point(seed):
    """Compiled alternation falls to a fixed point that is optimal for its assignment."""
    X, y, C, data = small(seed)
    begun = cpm.natural_assignment(X, y, np.random.default_rng(seed).normal(size=(3, 3)))
    first = cpm.fixed_assignment(X, y, 3, begun, C).solve().objective
    face, W = begun[y > 0].copy(), np.zeros((3, 3))
    J = settle(data, face, W, 1e-12)
    assert J == pytest.approx(cpm.objective(X, y, W, C), rel=1e-9)
    assert J < first
    hinges = np.maximum(1.0 - cpm.lift(X) @ W.T, 0.0)[y > 0]
    assert (face == hinges.argmin(axis=1)).all()
    z = np.full(len(y), -1)
    z[y > 0] = face
    assert J == pytest.approx(cpm.fixed_assignment(X, y, 3, z, C).solve().objective, rel=1e-5)


def test_stopped_alternation_costs_its_faces():
    """A clock that stops before the first call leaves the faces as they are, with their objective."""
    X, y, C, data = small(1)
    W = np.random.default_rng(1).normal(size=(3, 3))
    face = np.full(int((y > 0).sum()), -1)
    assert alternate(data, face, W.copy(), 1e-9, Clock(0.0)) == pytest.approx(cpm.objective(X, y, W, C))
    assert (face == np.maximum(1.0 - cpm.lift(X) @ W.T, 0.0)[y > 0].argmin(axis=1)).all()


def test_dual_value_of_a_face():
    """The dual value is the sum of the multipliers less the square of their face."""
    _, _, C, data = small(0)
    a, w = np.random.default_rng(0).uniform(0, 1, len(C)) * C, np.zeros(3)
    hyperplane(data, a, w)
    assert w == pytest.approx(0.5 * a @ data.A)
    assert dual_value(a, w) == pytest.approx(a.sum() - w @ w)


@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize("seed", range(4))
def test_errors_cover_exact_arithmetic(seed, size):
    """Errors of a face, its slopes and its dual value cover rational arithmetic, and hardly more."""
    rng = np.random.default_rng(seed)
    _, _, C, data = small(seed)
    data = Samples(size * data.A, size**2 * data.q, data.C, data.inside)
    a, w = rng.uniform(0, 1, len(C)) * C, np.zeros(3)
    hyperplane(data, a, w)
    exact = [[Fraction(x) for x in row] for row in data.A.tolist()]
    alpha = [Fraction(x) for x in a.tolist()]
    true = [sum(x * row[j] for x, row in zip(alpha, exact, strict=True)) / 2 for j in range(3)]
    off = sum((Fraction(w[j]) - true[j]) ** 2 for j in range(3))
    blur = hyperplane_error(data, a)
    assert off <= Fraction(blur) ** 2
    assert blur <= 1e-13 * (np.abs(a) @ np.sqrt(data.q))
    constant, each = slope_blur(data, a, w)
    for i, row in enumerate(exact):
        found = 1.0
        for j in range(3):
            found -= data.A[i, j] * w[j]
        slope = 1 - sum(x * y for x, y in zip(row, true, strict=True))
        assert abs(Fraction(found) - slope) <= Fraction(constant + each * np.sqrt(data.q[i]))
    assert constant <= 1e-14
    unit = 1.01 * 2.0**-53 * 6
    assert (constant, each) == (pytest.approx(unit), pytest.approx(1.01 * blur + unit * np.linalg.norm(w)))
    value = sum(alpha) - sum(t * t for t in true)
    assert abs(Fraction(dual_value(a, w)) - value) <= Fraction(dual_error(data, a, w))
    assert dual_error(data, a, w) <= 1e-12 * (
        a.sum() + w @ w + np.sqrt(w @ w) * (np.abs(a) @ np.sqrt(data.q))
    )


@pytest.mark.parametrize("square", [0.0, 0.1, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("worth", [-1.0, 0.0, 0.3, 1.0, 2.5])
def test_scaled_move_is_worth_the_most(worth, square):
    """Scaled by λ in [0, 1], a move adds most by λ·worth − ¼λ²·square, or just the share asked for."""
    grid = np.linspace(0.0, 1.0, 10_001)
    values = grid * worth - 0.25 * grid**2 * square
    most = most_added(worth, square)
    assert most == pytest.approx(values.max(), abs=1e-6)
    for part in (0.1, 0.5, 0.99) if most > 0 else ():
        share = least_share(worth, square, part * most)
        assert share * worth - 0.25 * share**2 * square == pytest.approx(part * most, rel=1e-9)
        assert share == pytest.approx(grid[values >= part * most].min(), abs=1e-3)
