"""How solvers end: what "optimal" is worth, what limits and budgets keep, and who is told."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from formulations.families import hinge_families
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import SPLA1, SVM, RelativeMarginMachine
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.margin import decomposition
from polyopt.margin.decomposition import Options, driver
from polyopt.margin.decomposition.newton import ActiveSet
from polyopt.margin.decomposition.state import Dual

SETS = Options()
solve_decomposition = partial(decomposition.solve_decomposition, options=SETS)

HEAVY = [  # kernel, C, B: a small violation is dear here
    (Kernel("rbf", 0.4), 1.8e4, np.inf),
    (Kernel("rbf", 2.0), 1e6, 1.05),
    (Kernel("poly", 0.2, 3, 1.0), 3170.0, np.inf),
    (Kernel("rbf", 1.0), 1e4, 1.5),
    (Kernel("rbf", 0.05), 1e5, 3.0),
]


class Ticking(Clock):
    """A clock whose limit passes at so many looks at it."""

    def __init__(self, looks: float):
        super().__init__(None)
        self.looks = looks

    @property
    def is_over(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def of(K, y, C, B, solution):
    """Violation and relative gap of a solution, from the whole matrix."""
    dual = Dual(hinge_families(y, np.full(len(y), C), B))
    beta = dual.families.beta(dual.families.stacked(solution.duals))
    m, M = dual.extremes(beta, K @ beta)
    values = dual.values(beta, K @ beta)
    return m - M, (values["objective"] - values["bound"]) / max(map(abs, values.values()))


@pytest.mark.parametrize(("kernel", "C", "B"), HEAVY)
def test_optimal_is_a_closed_gap_too_at_any_tolerance(kernel, C, B):
    X, y = two_blobs(n=150, separation=1.0)
    K = kernel(X)
    for tol in (1e-1, 1e-2, 1e-3, 1e-5):
        solution = solve_decomposition(SampleGram(X, kernel), hinge_families(y, np.full(150, C), B), tol=tol)
        violation, gap = of(K, y, C, B, solution)
        assert solution.status is Status.SOLVED
        assert violation <= tol * (1 + 1e-6)
        assert gap <= min(10 * tol, 0.1) * (1 + 1e-6)


@pytest.mark.parametrize("looks", [0, 1, 5, 40])
def test_an_active_set_ends_at_any_look_at_the_clock_with_a_sound_point(looks):
    X, y = two_blobs(n=80, separation=0.4)
    K, dual = Kernel("rbf", 0.4)(X), Dual(hinge_families(y, np.full(80, 3.0), 1.3))
    beta = dual.join({"margin": np.full(80, 1.0)})
    g = K @ beta
    before = dual.values(beta, g)["bound"]
    often = Options(work_per_check=0.0)  # a look for every pivot
    ActiveSet(K, g, beta, dual.phi, often).run(1e-10, 200, Ticking(looks))
    assert g == pytest.approx(K @ beta, abs=1e-9)
    assert abs(beta.sum()) <= 1e-9
    assert dual.values(beta, g)["bound"] >= before


def test_the_clock_is_asked_for_every_working_set(monkeypatch):
    X, y = two_blobs(n=300, separation=0.3)
    for looks in (1, 2, 4):
        monkeypatch.setattr(driver, "Clock", lambda limit, looks=looks: Ticking(looks))
        solution = solve_decomposition(
            SampleGram(X, Kernel("rbf", 0.4)),
            hinge_families(y, np.full(300, 5.0)),
            tol=1e-8,
            options=replace(SETS, max_working_set=10),
        )
        assert solution.status is Status.TIME_LIMIT
        assert solution.iterations <= looks
        assert 0 <= solution.bound <= solution.objective


def test_the_faces_of_a_polytope_keep_to_one_time_limit():
    """Once the time is over no step is made, and the faces are those that do nothing."""
    X, y = two_blobs(n=30, separation=1.0)
    found = PolytopeProblem(X, y, np.ones(30), 3).solve(np.arange(30) % 3, 0.0)
    assert found.status is Status.TIME_LIMIT
    assert not found["W"].any()
    assert not found.duals["margin"].any()
    assert found.objective == pytest.approx(np.where(y > 0, 1.0, 3.0).sum())
    assert found.bound == 0.0


@pytest.mark.parametrize("machine", [SVM(), RelativeMarginMachine(B=1.5), SVM(kernel="linear")])
@pytest.mark.parametrize("status", [s for s in Status if s not in (Status.SOLVED, Status.CONVERGED)])
def test_every_end_short_of_optimal_warns(machine, status):
    X, y = two_blobs(n=40, separation=0.5)
    machine.fit(X, y)
    machine.solution_ = replace(machine.solution_, status=status)
    with pytest.warns(ConvergenceWarning, match=str(status).split(";")[0]):
        machine._warn_if_incomplete(None)


def test_where_the_certificate_proves_the_point_rounding_is_no_matter():
    X, y = two_blobs(n=40, separation=0.5)
    machine = SVM(solver="exact").fit(X, y)
    machine.solution_ = replace(machine.solution_, status=Status.INACCURATE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine._warn_if_incomplete(lambda: machine.certificate(1e-6))
    machine.intercept_ = machine.intercept_ + 0.5
    with pytest.warns(ConvergenceWarning, match="Short of exact"):
        machine._warn_if_incomplete(lambda: machine.certificate(1e-6))
    machine.solver_ = "decomposition"
    with pytest.warns(ConvergenceWarning, match="short of the tolerance"):
        machine._warn_if_incomplete(lambda: machine.certificate(1e-6))


@pytest.mark.parametrize("status", [Status.INACCURATE, Status.STALLED, Status.TIME_LIMIT])
def test_polyhedral_classifiers_warn_of_them_as_well(status, monkeypatch):
    X, y = two_blobs(n=40, separation=0.5)
    solve = SPLA1._solve
    monkeypatch.setattr(SPLA1, "_solve", lambda self, *a: replace(solve(self, *a), status=status))
    with pytest.warns(ConvergenceWarning, match=str(status).split(";")[0]):
        SPLA1(2, random_state=0).fit(X, y)
