"""Exact and global solvers against the fast ones: whatever limit ends them, they are not above."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from formulations.polytope import objective
from polyopt import ConvexPolytopeMachine, CrossEntropySVM, Polyceptron
from polyopt.compare.run import compare
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.datasets import Dataset

ROUNDING = 1e-9  # relative
SEEDS = range(3)
ends_short = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def ball(seed, n=30, m=3):
    """Noisy labels, +1 outside of a ball."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.where((X**2).sum(axis=1) + rng.normal(size=n) > m, 1.0, -1.0)


@ends_short
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("kind", "fast", "slow"),
    [
        pytest.param(ConvexPolytopeMachine, "sgd", ["global"], id="cpm"),
        pytest.param(Polyceptron, "batch", ["highs", "exact", "global"], id="polyceptron"),
        pytest.param(CrossEntropySVM, "ce", ["exact", "highs", "global"], id="l0"),
    ],
)
def test_no_slow_solver_ends_above_the_fast_one(kind, fast, slow, seed):
    """With the same seed every exact or global solver is at most the fast one's objective."""
    X, y = ball(seed, n=20)
    faces = {} if kind is CrossEntropySVM else {"n_faces": 2}
    value = kind(solver=fast, random_state=seed, **faces).fit(X, y).solution_.objective
    for solver in slow:
        found = kind(solver=solver, random_state=seed, **faces).fit(X, y).solution_
        assert found.objective <= value * (1 + ROUNDING)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_search_of_one_node_keeps_known_faces(seed):
    """A search that one node ends is not above any of the known faces, and its bound not above its point."""
    X, y = ball(seed, n=40)
    known = [
        ConvexPolytopeMachine(3, solver="exact", random_state=k).fit(X, y).solution_["W"] for k in range(3)
    ]
    found = solve_cpm_global(X, y, 1.0, 3, max_nodes=1, seed=seed, known=known)
    assert found.objective <= min(objective(X, y, W) for W in known) * (1 + ROUNDING)
    assert objective(X, y, found["W"]) == pytest.approx(found.objective, rel=ROUNDING)
    assert found.bound <= found.objective


@ends_short
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("time_limit", [0.0, 0.05])
def test_a_polytope_search_begins_from_a_fitted_machine(time_limit, seed):
    """However short the time is, a global fit is not above the machine it begins from."""
    X, y = ball(seed, n=60)
    exact = ConvexPolytopeMachine(3, solver="exact", random_state=seed).fit(X, y)
    machine = ConvexPolytopeMachine(3, solver="global", time_limit=time_limit, random_state=seed)
    found = machine.begin_from(exact).fit(X, y)
    assert found.solution_.objective <= exact.solution_.objective * (1 + ROUNDING)
    assert found.certificate().dual_value <= found.certificate().primal_value


@ends_short
@pytest.mark.parametrize("solver", ["exact", "highs", "global"])
def test_a_pattern_search_begins_from_a_fitted_machine(solver):
    """A fit of the L0 machine is not above the machine it begins from."""
    X, y = ball(0, n=20)
    known = CrossEntropySVM(kernel="rbf", random_state=0).fit(X, y)
    found = CrossEntropySVM(kernel="rbf", solver=solver, random_state=1).begin_from(known).fit(X, y)
    assert found.score_ <= known.score_ * (1 + ROUNDING)


@pytest.mark.parametrize("kind", [ConvexPolytopeMachine, CrossEntropySVM])
def test_a_search_begins_from_fitted_machines_alone(kind):
    """A machine that was not fitted is refused by scikit-learn's own error."""
    with pytest.raises(NotFittedError):
        kind().begin_from(kind())


def test_compare_hands_the_best_point_to_the_search():
    """In a comparison the search over all assignments is not above the rows before it."""
    X, y = ball(1, n=60)
    table = compare(
        Dataset("ball", X, y.astype(int), ["inside", "outside"]), ["cpm"], time_limit=0.5, prove=True
    )
    values = {row.solver: row.objective for row in table.rows}
    assert values["global"] <= min(values["exact"], values["sgd"]) * (1 + ROUNDING)
