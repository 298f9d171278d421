"""The decomposition and the explicit program have one optimum, on data that are easy and not.

Equal optimal values and a certificate leave one point: the primal objective is strongly convex in w, so that
a point with gap e has ½‖w − w*‖² ≤ e.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations import rmm, svm
from formulations.families import hinge_families
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import datasets
from polyopt.certificates import Claim
from polyopt.linalg.kernels import Kernel
from polyopt.margin.certify import certify_rmm, certify_svm
from polyopt.margin.decomposition import solve_decomposition

TOL = 1e-8  # the violation asked of the decomposition, in outputs
BOUNDS = [np.inf, 1e6, 3.0, 1.5, 1.0001, 1.0, 0.5]
RBF, NARROW, LINEAR = Kernel("rbf", gamma=0.3), Kernel("rbf", gamma=30.0), Kernel("linear")
POLY = Kernel("poly", gamma=0.1, degree=2, coef0=1.0)


@dataclass(frozen=True)
class Machine:
    """A program of the SVM, or of the RMM if the bound B on outputs is finite."""

    X: np.ndarray
    kernel: Kernel
    y: np.ndarray
    C: np.ndarray
    B: float = np.inf

    @property
    def K(self):
        return self.kernel(self.X)

    def decompose(self, **settings):
        return solve_decomposition(self.K, hinge_families(self.y, self.C, self.B), tol=TOL, **settings)

    def explicit(self):
        """The optimal value by cvxpy, in units that suit its tolerances."""
        unit = min(1.0, float(self.C.max()))
        bound = () if np.isinf(self.B) else (self.B,)
        if self.kernel.name == "linear" and self.X.shape[1] < len(self.y):
            primal = rmm.qp if bound else svm.primal
            program = primal(np.sqrt(unit) * self.X, self.y, self.C / unit, *bound)
        else:
            dual = rmm.kernel_dual if bound else svm.kernel_dual
            program = dual(unit * self.K, self.y, self.C / unit, *bound)
        solution = program.solve()
        assert solution.status in (Status.SOLVED, Status.INACCURATE)
        return unit * solution.objective

    def certify(self, solution):
        vectors = {"w": solution["coef"], "b": float(solution["b"]), "alpha": solution.duals["margin"]}
        if np.isinf(self.B):
            return certify_svm(self.K, self.y, self.C, precomputed=True, **vectors)
        vectors |= {"lam": solution.duals["bound_above"], "lam_star": solution.duals["bound_below"]}
        return certify_rmm(self.K, self.y, self.C, self.B, precomputed=True, **vectors)

    def allowed(self, solution):
        """The gap that violations within the tolerance can leave: each at the price of its row."""
        prices = (multipliers.sum() for multipliers in solution.duals.values())
        return TOL * float(self.C.sum() + sum(prices))


def require_optimal(machine, value, **settings):
    """The solver's status, its values and those of its certificate are of the optimum."""
    fast = machine.decompose(**settings)
    room = max(1e-6 * abs(value), machine.allowed(fast))
    assert fast.status is Status.SOLVED
    assert fast.bound == pytest.approx(value, rel=1e-6)
    assert value * (1 - 1e-6) <= fast.objective <= value + room
    assert all((multipliers >= 0).all() for multipliers in fast.duals.values())
    assert (fast.duals["margin"] <= machine.C).all()
    assert np.abs(machine.K @ fast["coef"] + fast["b"]).max() <= machine.B * (1 + 1e-9)
    certificate = machine.certify(fast)
    moved = certificate.rounding  # by which the certificate moves its values apart
    assert certificate.dual_value == pytest.approx(fast.bound, rel=1e-7, abs=moved)
    assert certificate.primal_value == pytest.approx(fast.objective, abs=room + moved)
    assert moved <= 2e-6 * abs(value) + 1e-13 * float(machine.C.sum())  # outputs are known to 1e-13
    if room + moved <= 1e-6 * abs(value):
        assert certificate.claim is Claim.OPTIMAL


def machines():
    """Programs on data that are easy and not."""
    X, y = two_blobs(n=40, seed=0)
    far, apart = two_blobs(n=40, separation=8.0, seed=1)
    twice, equal, opposite = np.vstack([X, X[:15]]), np.append(y, y[:15]), np.append(y, -y[:15])
    some = np.where(np.arange(40)[:, None] < 12, 0.0, X)
    noise = np.random.default_rng(3).normal(size=(60, 4))
    spread = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 40)
    lone = np.where(np.arange(40) == 7, 1.0, -1.0)
    ones = np.ones(40)
    return {
        "rbf": Machine(X, RBF, y, ones),
        "narrow rbf": Machine(X, NARROW, y, ones),
        "linear": Machine(X, LINEAR, y, ones),
        "poly": Machine(X, POLY, y, ones),
        "equal duplicates": Machine(twice, RBF, equal, np.ones(55)),
        "contradictions": Machine(twice, RBF, opposite, np.ones(55)),
        "contradictions, linear": Machine(twice, LINEAR, opposite, np.ones(55)),
        "all contradicted": Machine(np.vstack([X, X]), RBF, np.append(y, -y), np.ones(80)),
        "equal kernel rows": Machine(some, LINEAR, y, ones),
        "no features": Machine(np.zeros((40, 2)), LINEAR, y, ones),
        "separable": Machine(far, LINEAR, apart, ones),
        "tiny C": Machine(X, RBF, y, 1e-8 * ones),
        "C over six orders": Machine(X, RBF, y, spread),
        "C over six orders, linear": Machine(X, LINEAR, y, spread),
        "some C zero": Machine(X, RBF, y, np.where(np.arange(40) % 3 == 0, 0.0, 1.0)),
        "one against many": Machine(X, RBF, lone, ones),
        "one against many, linear": Machine(X, LINEAR, lone, ones),
        "two samples": Machine(X[:2], RBF, np.array([1.0, -1.0]), ones[:2]),
        "two equal samples": Machine(X[[0, 0]], RBF, np.array([1.0, -1.0]), ones[:2]),
        "low rank": Machine(noise, LINEAR, np.tile([1.0, -1.0], 30), np.full(60, 10.0)),
        "one feature": Machine(X[:, :1], LINEAR, y, np.full(40, 10.0)),
    }


MACHINES = machines()


@pytest.mark.parametrize(
    ("name", "B"),
    [
        *product(["rbf", "linear"], BOUNDS),
        *product(sorted({*MACHINES} - {"rbf", "linear"}), [np.inf, 1.5, 0.5]),
    ],
)
def test_solvers_have_one_optimum(name, B):
    """The decomposition has the explicit program's optimum, and it is certified."""
    machine = replace(MACHINES[name], B=B)
    require_optimal(machine, machine.explicit())


@pytest.mark.parametrize("B", [np.inf, 2.0])
def test_low_rank_takes_few_steps(B):
    """60 samples in 4 dimensions, C = 10: pairwise steps needed 4 million for a violation of 1e-6."""
    machine = replace(MACHINES["low rank"], B=B)
    require_optimal(machine, machine.explicit(), max_iter=2000)


@pytest.mark.parametrize("B", [np.inf, 1e6, 3.0])
@pytest.mark.parametrize("name", ["rbf", "separable"])
def test_huge_cost_is_hard_margin(name, B):
    """Any cost above the largest multiplier is the same program; the explicit one takes a modest one."""
    huge = replace(MACHINES[name], C=np.full(40, 1e8), B=B)
    largest = float(huge.decompose().duals["margin"].max())
    assert largest < 1e7
    require_optimal(huge, replace(huge, C=np.full(40, 10.0 * largest)).explicit())


@pytest.mark.parametrize("B", [np.inf, 1.5])
def test_unreached_optimum_is_not_claimed(B):
    """Inseparable classes in few dimensions at a huge cost: whatever ends the run, its values are bounds."""
    X, y = two_blobs(n=60, separation=0.3, seed=0)
    machine = Machine(X, LINEAR, y, np.full(60, 1e8), B)
    value, fast = machine.explicit(), machine.decompose(time_limit=1.0)
    certificate = machine.certify(fast)
    assert certificate.dual_value <= value * (1 + 1e-6)
    assert certificate.primal_value >= value * (1 - 1e-6)
    assert fast.objective == pytest.approx(certificate.primal_value, rel=1e-5, abs=certificate.rounding)
    assert fast.bound == pytest.approx(certificate.dual_value, rel=1e-5, abs=certificate.rounding)
    assert fast.status is not Status.SOLVED or certificate.eps <= machine.allowed(fast)


@st.composite
def drawn(draw):
    """Small machines on which much is degenerate: integer points, repeated, few dimensions, any labels."""
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    shape = draw(st.integers(2, 24)), draw(st.integers(1, 4))
    X = generator.normal(size=shape)
    if draw(st.booleans()):
        X = np.round(X)
    y = np.where(generator.random(len(X)) < draw(st.sampled_from([0.1, 0.5])), 1.0, -1.0)
    y[0], y[-1] = 1.0, -1.0
    low, high = draw(st.sampled_from([(0, 0), (-2, -2), (1, 1), (-3, 3), (-8, -8)]))
    C = 10.0 ** generator.uniform(low, high, len(X))
    kernel = draw(st.sampled_from([RBF, NARROW, LINEAR, POLY]))
    return Machine(X, kernel, y, C, draw(st.sampled_from([*BOUNDS, 1.2, 10.0])))


@given(drawn())
def test_drawn_machines_have_one_optimum(machine):
    """As above, of integer points, repeated samples and any labels."""
    require_optimal(machine, machine.explicit())


@pytest.mark.parametrize("B", [np.inf, 1.1])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_real_data_have_one_optimum(C, kernel, B):
    """As above, of every second sample of a standardised set."""
    data = datasets.load("sonar")
    X, y = data.X[::2], np.where(data.y[::2] == data.y.max(), 1.0, -1.0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    machine = Machine(X, Kernel(kernel, gamma=1 / X.shape[1]), y, np.full(len(y), C), B)
    require_optimal(machine, machine.explicit())
