"""Exact and global solvers that begin from known points are not above them, whatever limit ends them."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from formulations.polytope import objective
from polyopt import ConvexPolytopeMachine, CrossEntropySVM, Polyceptron
from polyopt.compare.run import compare
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.datasets import Dataset

ROUNDING = 1e-9  # relative
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FAMILIES = {  # class, fast solver, slow solvers, settings
    "cpm": (ConvexPolytopeMachine, "sgd", ["global"], {"n_faces": 2}),
    "polyceptron": (Polyceptron, "batch", ["highs", "exact", "global"], {"n_faces": 2}),
    "l0": (CrossEntropySVM, "ce", ["exact", "highs", "global"], {}),
}


def ball(seed, n=20, m=3):
    """Noisy labels, +1 outside of a ball."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.where((X**2).sum(axis=1) + rng.normal(size=n) > m, 1.0, -1.0)


@pytest.mark.parametrize(("kind", "fast", "slow", "settings"), FAMILIES.values(), ids=FAMILIES)
def test_slow_solvers_beat_the_fast(kind, fast, slow, settings):
    """With the same seed, exact and global solvers end at most at the fast solver's objective."""
    X, y = ball(0)
    value = kind(solver=fast, random_state=0, **settings).fit(X, y).solution_.objective
    for solver in slow:
        found = kind(solver=solver, random_state=0, **settings).fit(X, y).solution_
        assert found.objective <= value * (1 + ROUNDING)


def test_search_of_one_node_keeps_faces():
    """A search that one node ends is not above any of the known faces."""
    X, y = ball(1, n=40)
    known = [
        ConvexPolytopeMachine(3, solver="exact", random_state=k).fit(X, y).solution_["W"] for k in range(2)
    ]
    found = solve_cpm_global(X, y, 1.0, 3, max_nodes=1, known=known)
    assert found.objective <= min(objective(X, y, W) for W in known) * (1 + ROUNDING)
    assert objective(X, y, found["W"]) == pytest.approx(found.objective, rel=ROUNDING)
    assert found.bound <= found.objective


@pytest.mark.parametrize("time_limit", [0.0, 0.05])
def test_polytope_search_begins_from_machine(time_limit):
    """However short the time, a global fit is not above the machine that it begins from."""
    X, y = ball(0, n=60)
    exact = ConvexPolytopeMachine(3, solver="exact", random_state=0).fit(X, y)
    machine = ConvexPolytopeMachine(3, solver="global", time_limit=time_limit, random_state=0)
    found = machine.begin_from(exact).fit(X, y)
    assert found.solution_.objective <= exact.solution_.objective * (1 + ROUNDING)
    assert found.certificate().dual_value <= found.certificate().primal_value


@pytest.mark.parametrize("solver", ["exact", "highs", "global"])
def test_pattern_search_begins_from_machine(solver):
    """A fit of the L0 machine is not above the machine that it begins from."""
    X, y = ball(0)
    known = CrossEntropySVM(kernel="rbf", random_state=0).fit(X, y)
    found = CrossEntropySVM(kernel="rbf", solver=solver, random_state=1).begin_from(known).fit(X, y)
    assert found.score_ <= known.score_ * (1 + ROUNDING)


@pytest.mark.parametrize("kind", [ConvexPolytopeMachine, CrossEntropySVM])
def test_unfitted_machine_is_no_beginning(kind):
    """A machine that was not fitted is refused by scikit-learn's own error."""
    with pytest.raises(NotFittedError):
        kind().begin_from(kind())


def test_comparison_hands_over_the_best_point():
    """In a comparison the search over all assignments is not above the rows before it."""
    X, y = ball(1, n=40)
    table = compare(
        Dataset("ball", X, y.astype(int), ["inside", "outside"]), ["cpm"], time_limit=0.3, prove=True
    )
    values = {row.solver: row.objective for row in table.rows}
    assert values["global"] <= min(values["exact"], values["sgd"]) * (1 + ROUNDING)
