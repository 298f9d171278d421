"""The exact Polyceptron over all faces and assignments: the integer program, its rows, limits, the claim."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from formulations.language.solution import Status
from formulations.polyceptron import big_m, mixed_integer, point_of
from formulations.polyhedral import margin_error
from formulations.polytope import lift
from polyopt import Polyceptron, certify_polyceptron
from polyopt.certificates import Claim
from polyopt.polyhedral.polyceptron_exact import MAX_SAMPLES, solve_polyceptron_global


def brute_force(X, y, c, K, R):
    """The least sum of face optima over all assignments, by linear programs."""
    rows, positive = lift(X), np.flatnonzero(y > 0)
    negative, d, values = np.flatnonzero(y < 0), X.shape[1] + 1, {}

    def value(own):
        at = np.concatenate([positive, negative[list(own)]])
        if own not in values:
            A = np.hstack([-y[at, None] * rows[at], -np.eye(len(at))])
            bounds = [(-R, R)] * d + [(0, None)] * len(at)
            costs = np.concatenate([np.zeros(d), c[at]])
            values[own] = linprog(costs, A, -np.ones(len(at)), bounds=bounds).fun if len(at) else 0.0
        return values[own]

    return min(
        sum(value(tuple(j for j, at in enumerate(z) if at == k)) for k in range(K))
        for z in itertools.product(range(K), repeat=len(negative))
    )


def tiny(seed):
    """Few samples, often of equal or flat features, with costs, faces and a box."""
    rng = np.random.default_rng(seed)
    n, m, K = rng.integers(4, 10), rng.integers(1, 4), int(rng.integers(1, 4))
    X = rng.normal(size=(n, m)) if seed % 2 else rng.integers(-2, 3, size=(n, m)).astype(float)
    if seed % 4 == 2:
        X[:, 0] = 0.0
    y = np.where(np.arange(n) % n < min(max(n // 2, 1), 5), -1.0, 1.0)
    c = rng.uniform(0.1, 5.0, n) if seed % 3 == 0 else np.ones(n)
    return X * 10.0 ** rng.integers(-2, 3), y, c, K, float(rng.choice([1e4, 1e4, 30.0, 1.0, 0.3]))


@pytest.mark.parametrize("seed", range(6))
def test_optimum_is_of_all_assignments(seed):
    """Objective and bound are the least of linear programs over all assignments."""
    X, y, c, K, R = tiny(seed)
    least = brute_force(X, y, c, K, R)
    found = solve_polyceptron_global(X, y, c, K, radius=R, n_init=1, seed=seed)
    assert found.objective == pytest.approx(margin_error(X, y, found["W"], c))
    assert np.abs(found["W"]).max() <= R
    assert found.objective == pytest.approx(least, rel=1e-5, abs=1e-7)
    assert found.bound <= least + 1e-6 * max(least, 1.0)
    assert found.status is Status.SOLVED


@pytest.mark.parametrize("seed", range(4))
def test_constraints_keep_faces_in_the_box(seed):
    """M, the bound between positives and the order of faces cut off no faces of the box."""
    X, y, c, K, R = tiny(seed)
    rng = np.random.default_rng(seed)
    program = mixed_integer(X, y, K, c, R)
    for size in (R, 1.0 / (np.abs(X).max() or 1.0)):
        W = np.clip(rng.normal(size=(K, X.shape[1] + 1)) * size, -R, R)
        point = point_of(X, y, W)
        assert program.value(point) == pytest.approx(margin_error(X, y, W, c))
        scale = 1e-12 * big_m(X, y, R).max()
        assert all(np.max(off) <= scale for off in program.violations(point).values())


def test_a_corner_of_the_box_attains_M():
    """M is the largest score of a corner of the box."""
    X, y = np.array([[2.0, -3.0], [0.0, 0.0]]), np.array([-1.0, 1.0])
    assert big_m(X, y, 7.0).tolist() == [1.0 + 7.0 * np.array([1.0, -1.0, 1.0]) @ [2.0, -3.0, 1.0]]


def test_negative_between_positives_costs_two():
    """A negative between positives costs two with any number of faces, which the relaxation knows."""
    X, y = np.array([[-1.0], [1.0], [0.25]]), np.array([1.0, 1.0, -1.0])
    for K in (1, 2, 5):
        found = solve_polyceptron_global(X, y, 1.0, K)
        assert found.status is Status.SOLVED
        assert (found.bound, found.objective) == (pytest.approx(2.0), pytest.approx(2.0))
        program = mixed_integer(X, y, K)
        between = next(row for row in program.rows if row.name == "between")
        program.assign(point_of(X, y, np.zeros((K, 2))))
        assert between.constraint.args[0].value == pytest.approx(2.0)  # the right-hand side


def overlapping(n=60, m=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.where(np.linalg.norm(X, axis=1) + rng.normal(0.0, 0.3, n) < 1.1, 1.0, -1.0)


def test_sixty_samples_are_solved():
    """Sixty samples in the plane are solved, and a worse point is not called optimal by the same bound."""
    X, y = overlapping()
    found = solve_polyceptron_global(sp.csr_array(X), y, 1.0, 3)
    assert found.status is Status.SOLVED
    assert found.objective > 1.0
    given = {"u": found.duals["margin"], "global_bound": found.bound}
    proof = certify_polyceptron(X, y, found["W"], **given)
    assert (proof.claim, proof.dual_value, proof.stated) == (Claim.SOLVERS_WORD, 0.0, found.bound)
    worse = found["W"] * 1.01
    assert margin_error(X, y, worse) > found.objective
    assert certify_polyceptron(X, y, worse, **given).claim is Claim.SUBOPTIMAL_BY


def test_start_is_a_bound_of_the_program():
    """HiGHS begins from a given point, and is no worse than it at its limit of nodes."""
    X, y = overlapping()
    W = Polyceptron(3, solver="highs", inside_label=1.0, n_init=1, random_state=0).fit(X, y).solution_["W"]
    found = mixed_integer(X, y, 3).solve(start=point_of(X, y, W), max_iter=1)
    assert found.objective <= margin_error(X, y, W) * (1.0 + 1e-9)
    assert 0.0 <= found.bound <= found.objective


def test_time_limit_keeps_the_alternations_point():
    """A time limit keeps the point of the alternation with its objective, and a bound below it."""
    X, y = overlapping(120, 3, seed=1)
    found = solve_polyceptron_global(X, y, 1.0, 2, n_init=1, time_limit=0.2)
    assert found.status is Status.TIME_LIMIT
    assert 0.0 <= found.bound < found.objective
    assert found.objective == pytest.approx(margin_error(X, y, found["W"]))
    certificate = certify_polyceptron(X, y, found["W"], global_bound=found.bound)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert (certificate.dual_value, certificate.stated) == (0.0, found.bound)
    assert found.history[-1]["bound"] == found.bound


def test_estimator_has_highs_word():
    """The estimator's bound is HiGHS's word, and its point no worse than that of the alternation."""
    X, y = overlapping(30)
    machine = Polyceptron(3, solver="global", inside_label=1.0, n_init=1, random_state=0).fit(X, y)
    proof = machine.certificate()
    assert proof.claim in (Claim.SOLVERS_WORD, Claim.OPTIMAL)
    assert proof.scope == proof.program
    descent = Polyceptron(3, solver="highs", inside_label=1.0, n_init=1, random_state=0).fit(X, y)
    assert proof.primal_value <= descent.certificate().primal_value * (1.0 + 1e-9)


def test_infinite_box_is_refused():
    """Without a finite radius there is no integer program."""
    X, y = overlapping(20)
    with pytest.raises(ValueError, match="finite radius"):
        Polyceptron(2, solver="global", radius=np.inf).fit(X, y)


def test_unusable_arguments_are_named():
    """Tolerance, classes, radius and the number of samples are refused by name."""
    X, y = overlapping(20)
    with pytest.raises(ValueError, match="tol"):
        solve_polyceptron_global(X, y, 1.0, 2, tol=-1)
    with pytest.raises(ValueError, match="both classes"):
        solve_polyceptron_global(X, np.ones(20), 1.0, 2)
    with pytest.raises(ValueError, match="radius"):
        solve_polyceptron_global(X, y, 1.0, 2, radius=np.inf)
    with pytest.raises(ValueError, match="at most 1,000 samples"):
        solve_polyceptron_global(*overlapping(MAX_SAMPLES + 1), 1.0, 2)
    with pytest.raises(ValueError, match="both classes"):
        mixed_integer(X, np.ones(20), 2)
