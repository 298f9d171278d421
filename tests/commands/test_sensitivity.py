"""The slopes that one solution gives are those that solving again gives, and nothing else passes."""

import doctest
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from formulations import (
    cpm,
    cpm_sparse,
    l0,
    logistic_polytopes,
    mixture,
    one_norm,
    pc_slp,
    plume,
    polyceptron,
    rmm,
    sigma_svm,
    spla1,
    svm,
)
from formulations import sensitivity as slopes
from formulations.class_faces import BIAS_RIDGE, Owners
from formulations.face_penalty import FacePenalty as FaceTerm
from formulations.polyhedral import belonging
from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySVM,
    FacePenalty,
    LogisticPolytopes,
    LogisticSearch,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    SigmaSVM,
    binding,
    sensitivities,
)
from polyopt.datasets import load

STEP = 1e-4  # of the parameter
AGREES = 1e-4  # relative


@dataclass
class Data:
    """Samples, labels -1 and +1, and weights."""

    X: np.ndarray
    y: np.ndarray
    w: np.ndarray


def drawn(name, n=75):
    """A part of a built-in data set, scaled; every sample counts once."""
    found = load(name)
    rows = np.random.default_rng(0).permutation(len(found.y))[:n]
    X = found.X[rows]
    y = np.where(found.y[rows] == np.unique(found.y)[1], 1.0, -1.0)
    return Data((X - X.mean(axis=0)) / X.std(axis=0), y, np.ones(len(y)))


def invented(n=60, m=4, seed=1):
    """Overlapping classes, and weights."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return Data(rng.normal(size=(n, m)) + 0.6 * y[:, None], y, rng.uniform(0.5, 2.0, n))


def outward(machine, data):
    """The labels, +1 outside of the polytope."""
    return np.where(data.y == machine.outer_label_, 1.0, -1.0)


def value(program, offset=0.0, unit=1.0):
    """The optimum by a general solver, of which nothing that is tested here is part."""
    solution = program.solve()
    assert solution.status.name in ("SOLVED", "INACCURATE")  # of logarithms, to ten digits or so
    return offset + unit * solution.objective


# Each machine with the optimal value of its program as a function of a parameter, solved from nothing. For a
# machine with an outer loop the program is that of the assignment, cells, responsibilities or pattern it has.


def of_svm(data):
    machine = SVM(0.07, kernel="linear")
    return machine, {"C": lambda m, C: value(svm.primal(data.X, data.y, C * data.w))}


def of_svm_rbf(data):
    def at(m, C):
        return value(svm.kernel_dual(rbf_kernel(data.X, gamma=m.gamma_), data.y, C * data.w))

    return SVM(2.0), {"C": at}


def of_rmm(data):
    return RelativeMarginMachine(0.7, 1.4, kernel="linear"), {
        "C": lambda m, C: value(rmm.qp(data.X, data.y, C * data.w, m.B)),
        "B": lambda m, B: value(rmm.qp(data.X, data.y, m.C * data.w, B)),
    }


def of_rmm_rbf(data):
    def at(m, C, B):
        return value(rmm.kernel_dual(rbf_kernel(data.X, gamma=m.gamma_), data.y, C * data.w, B))

    machine = RelativeMarginMachine(2.0, 1.1, solver="decomposition", tol=1e-9)
    return machine, {"C": lambda m, C: at(m, C, m.B), "B": lambda m, B: at(m, m.C, B)}


def of_sigma_svm(data):
    return SigmaSVM(0.7, 0.6, kernel="linear"), {
        "C": lambda m, C: value(sigma_svm.primal(data.X, data.y, C * data.w, m.D, data.w)),
        "D": lambda m, D: value(sigma_svm.primal(data.X, data.y, m.C * data.w, D, data.w)),
    }


def of_sigma_svm_rbf(data):
    def at(m, C, D):
        return value(sigma_svm.kernel_dual(rbf_kernel(data.X, gamma=m.gamma_), data.y, C * data.w, D, data.w))

    return SigmaSVM(0.7, 0.3), {"C": lambda m, C: at(m, C, m.D), "D": lambda m, D: at(m, m.C, D)}


def of_one_norm(data):
    def at(m, C):
        return value(one_norm.primal(rbf_kernel(data.X, gamma=m.gamma_), data.y, C * data.w))

    return OneNormSVM(0.8), {"C": at}


def of_l0(data):
    def at(m, C):
        sigma = m.solution_["sigma"]
        K = rbf_kernel(data.X, gamma=m.gamma_)
        return value(l0.pattern(K, data.y, sigma, C, data.w), sigma.sum(), C)

    return CrossEntropySVM(1.5, solver="one-norm"), {"C": at}


def of_cpm(data, margin="total", loss="sum"):
    def at(m, C):
        y = outward(m, data)
        return value(cpm.fixed_assignment(data.X, y, 2, m.assignment_, C * data.w, loss, margin))

    return ConvexPolytopeMachine(
        2,
        0.3,
        penalty=FacePenalty(margin=margin),
        loss=loss,
        solver="exact",
        n_init=1,
        tol=1e-8,
        random_state=0,
    ), {"C": at}


def of_cpm_max(data):
    return of_cpm(data, loss="max")


def of_cpm_worst(data):
    return of_cpm(data, margin="worst")


def of_cpm_priced(data):
    def at(m, C, l1, group):
        penalty = FaceTerm.of(data.X.shape[1], l1=l1, group=group)
        y = outward(m, data)
        return value(cpm_sparse.fixed_assignment(data.X, y, 2, m.assignment_, C * data.w, penalty=penalty))

    machine = ConvexPolytopeMachine(
        2, penalty=FacePenalty(l1=0.5, group=0.3), solver="exact", n_init=1, tol=1e-8, random_state=0
    )
    return machine, {
        "C": lambda m, C: at(m, C, 0.5, 0.3),
        "l1": lambda m, l1: at(m, m.C, l1, 0.3),
        "group": lambda m, group: at(m, m.C, 0.5, group),
    }


def of_polyceptron(data):
    def at(m, radius):
        return value(polyceptron.fixed_assignment(data.X, data.y, 2, m.assignment_, data.w, radius=radius))

    return Polyceptron(2, solver="exact", radius=0.15, n_init=2, random_state=0), {"radius": at}


def of_pc_slp(data):
    def at(m, radius):
        return value(pc_slp.step(data.X, data.y, 2, m.assignment_, data.w, radius))

    return PCSLP(2, radius=0.5, n_init=3, random_state=1), {"radius": at}


def of_spla1(data):
    def at(m, rho):
        members = belonging(data.y, m.assignment_, 2, "all")
        return sum(value(spla1.cell(data.X, data.y, data.w * members[:, k], rho)) for k in range(2))

    return SPLA1(2, ridge=0.5, positives="all", n_init=1, random_state=0), {"ridge": at}


def of_plume(data):
    """The M-step with the responsibilities held, less their entropy; see also the likelihood's own slopes."""

    def at(m, gamma, rho):
        R = mixture.responsibilities(data.X, data.y, m.solution_["W"], m.gamma)
        entropy = -data.w @ np.sum(np.where(R > 0, R * np.log(np.maximum(R, 1e-300)), 0.0), axis=1)
        return value(plume.m_step(data.X, data.y, R, gamma, data.w, rho), -entropy)

    return PLUME(2, gamma=0.8, ridge=0.5, n_init=1, tol=1e-10, random_state=0), {
        "ridge": lambda m, rho: at(m, m.gamma, rho),
        "gamma": lambda m, gamma: at(m, gamma, m.ridge),
    }


def of_logistic(data):
    def at(m, rho, price):
        program = logistic_polytopes.fixed_assignment(
            data.X, data.y, Owners(2, 2), m.solution_["assignment"], data.w,
            ridge=rho, bias_ridge=BIAS_RIDGE * rho, penalty=FaceTerm.of(data.X.shape[1], l1=price),
        )  # fmt: skip
        return value(program)

    machine = LogisticPolytopes(2, ridge=0.5, penalty=FacePenalty(l1=0.3), n_init=1, tol=1e-9, random_state=0)
    return machine, {
        "ridge": lambda m, rho: at(m, rho, m.penalty.l1),
        "l1": lambda m, price: at(m, m.ridge, price),
    }


MACHINES = {
    name.removeprefix("of_").replace("_", "-"): make for name, make in globals().items() if name[:3] == "of_"
}


def fitted(name, data):
    machine, values = MACHINES[name](data)
    return machine.fit(data.X, data.y, sample_weight=data.w), values


def value_of_parameter(machine, name):
    return getattr(machine, name) if hasattr(machine, name) else getattr(machine.penalty, name)


def by_differences(machine, at, parameter, step=STEP):
    theta = value_of_parameter(machine, parameter)
    return (at(machine, theta * (1 + step)) - at(machine, theta * (1 - step))) / (2 * step * theta)


def row(machine, parameter):
    frame = sensitivities(machine).set_index("parameter")
    return frame.loc[parameter]


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MACHINES)
def test_finite_differences_agree(name):
    """Values, slopes and elasticities are those of programs solved again at parameters nearby."""
    data = invented()
    machine, values = fitted(name, data)
    frame = sensitivities(machine).set_index("parameter")
    assert list(frame.index) == list(values)
    for parameter, at in values.items():
        found = frame.loc[parameter]
        theta = value_of_parameter(machine, parameter)
        here = at(machine, theta)
        assert found["value"] == theta
        assert found["objective"] == pytest.approx(here, rel=1e-6)
        assert found["elasticity"] == pytest.approx(theta * found["derivative"] / here, rel=1e-6)
        assert found["two_sided"]
        assert abs(found["elasticity"]) > 1e-3  # there is something to agree on
        assert found["derivative"] == pytest.approx(by_differences(machine, at, parameter), rel=AGREES)


def test_slopes_of_likelihood_are_m_steps():
    """PLUME's stationary point moves with gamma, its responsibilities with it: the slopes stay the same."""
    data = invented()
    machine, _ = fitted("plume", data)
    y, start = -outward(machine, data), machine.solution_["W"]

    def at(gamma, rho):
        def loss(flat):
            W = flat.reshape(start.shape)
            total, slope = mixture.value_and_gradient(data.X, y, W, None, gamma, data.w, rho)
            return total, slope.ravel()

        return minimize(loss, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-9}).fun

    differences = {
        "ridge": by_differences(machine, lambda m, rho: at(m.gamma, rho), "ridge", 1e-3),
        "gamma": by_differences(machine, lambda m, gamma: at(gamma, m.ridge), "gamma", 1e-3),
    }
    for parameter, expected in differences.items():
        assert row(machine, parameter)["derivative"] == pytest.approx(expected, rel=AGREES)


def test_slope_at_kink_is_between_sides():
    """At B = 1 a margin and a bound are the same row, and what each has of the multiplier is arbitrary."""
    data = drawn("wdbc")
    machine = RelativeMarginMachine(0.7, 1.0, kernel="linear").fit(data.X, data.y)

    def at(B):
        return value(rmm.qp(data.X, data.y, 0.7, B))

    here, step = at(1.0), 1e-5
    left, right = (here - at(1.0 - step)) / step, (at(1.0 + step) - here) / step
    assert left < 1.05 * right < 0  # a true kink: it falls faster before than after
    found = row(machine, "B")
    assert not found["two_sided"]
    assert left * (1 + 1e-4) <= found["derivative"] <= right * (1 - 1e-4)


def test_cap_just_wide_enough_is_kink():
    """Two centres at their caps reach every margin just so: the loss rises as C falls, and cannot fall."""
    X, y = np.repeat([[-1.0], [1.0]], 5, axis=0), np.repeat([-1.0, 1.0], 5)
    machine = CrossEntropySVM(0.5, kernel="linear", solver="highs", random_state=0).fit(X, y)
    assert machine.score_ == 2.0
    found = row(machine, "C")
    sigma = machine.solution_["sigma"]

    def at(C):
        return value(l0.pattern(X @ X.T, y, sigma, C), 2.0, C)

    assert not found["two_sided"]
    left, right = (at(0.5) - at(0.4999)) / 1e-4, (at(0.5001) - at(0.5)) / 1e-4
    assert left == pytest.approx(-10.0, rel=1e-3)
    assert right == pytest.approx(0.0, abs=1e-6)
    assert left <= found["derivative"] <= right


def test_share_at_ends_has_one_side():
    """The slope in D at 0 and at 1 is that of the side within its range."""
    data = invented()
    for D, two_sided in ((0.0, False), (0.5, True), (1.0, False)):
        machine = SigmaSVM(0.7, D, kernel="linear").fit(data.X, data.y)
        found = row(machine, "D")
        assert found["two_sided"] == two_sided
        inward = 1e-5 if D == 0 else -1e-5
        near = value(sigma_svm.primal(data.X, data.y, 0.7, D + inward))
        assert found["derivative"] == pytest.approx((near - found["objective"]) / inward, rel=1e-3)


def test_slack_bound_has_no_slope():
    """The slope in a bound that no output reaches is 0."""
    data = invented()
    for B in (50.0, np.inf):
        found = row(RelativeMarginMachine(0.7, B, kernel="linear").fit(data.X, data.y), "B")
        assert (found["derivative"], found["elasticity"]) == (0.0, 0.0)
        assert found["two_sided"]


def test_binding_counts_what_holds():
    """Each letter has its rows, those that bind, their total and the largest of them."""
    data = drawn("wdbc")
    machine, _ = fitted("rmm", data)
    frame, duals = binding(machine).set_index("letter"), machine.duals_
    assert frame.index.tolist() == ["alpha", "beta", "lam", "lam_star"]
    for letter, found in frame.iterrows():
        mine = duals[duals["letter"] == letter].set_index("sample")["multiplier"]
        held = mine[mine > 1e-6 * duals["multiplier"].max()]
        assert (found["rows"], found["binding"]) == (len(mine), len(held))
        assert found["total"] == pytest.approx(held.sum())
        assert mine[list(found["samples"])].tolist() == sorted(mine)[: -len(found["samples"]) - 1 : -1]
    # What holds the machine back, above and below, is the slope in B.
    both = frame.loc[["lam", "lam_star"], "total"].sum()
    assert both == pytest.approx(-row(machine, "B")["derivative"])


def test_machine_without_slopes_is_refused():
    """Other classifiers, unfitted machines, and those without multipliers or data are refused."""
    data = invented()
    with pytest.raises(TypeError, match="LogisticRegression is not a classifier of polyopt"):
        sensitivities(LogisticRegression().fit(data.X, data.y))
    with pytest.raises(TypeError, match="give best_estimator_"):
        sensitivities(LogisticSearch())
    with pytest.raises(NotFittedError):
        sensitivities(SVM())
    batch = Polyceptron(2, random_state=0, n_init=1).fit(data.X, data.y)
    for ask in (sensitivities, binding):
        with pytest.raises(ValueError, match=r"solver='batch' of Polyceptron has no multipliers.*'exact'"):
            ask(batch)
    for name in ("cpm", "spla1", "plume", "pc-slp", "polyceptron"):
        machine, _ = fitted(name, data)
        with pytest.raises(ValueError, match="needs the training data"):
            sensitivities(machine.without_data())


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_optimum_of_zero_has_slope_zero():
    """Separable classes: a value of 0, or of rounding, from which no percents can be taken."""
    data = invented()
    X = data.X + 8.0 * data.y[:, None]
    for machine in (PCSLP(1, radius=2.0, random_state=0), Polyceptron(1, solver="highs", random_state=0)):
        found = row(machine.fit(X, data.y), "radius")
        assert (found["derivative"], found["two_sided"]) == (0.0, True)
        assert found["objective"] == pytest.approx(0.0, abs=1e-12)


def test_point_short_of_optimum_is_told():
    """Slopes at a point that is not optimal come with a warning."""
    data = invented()
    with pytest.warns(ConvergenceWarning):
        machine = RelativeMarginMachine(0.7, 1.2, solver="decomposition", max_iter=1).fit(data.X, data.y)
    with pytest.warns(ConvergenceWarning, match="slopes of the Lagrangian at the point reached") as found:
        sensitivities(machine)
    assert found[0].filename == __file__
    rough = CrossEntropySVM(3.0, solver="one-norm").fit(data.X, data.y)
    rough.solution_ = replace(rough.solution_, duals={"margin": 0.5 * rough.solution_["margin"]})
    with pytest.warns(ConvergenceWarning, match="The loss of its pattern"):
        sensitivities(rough)


def test_refit_forgets_earlier_classes():
    """A machine of two classes that has had three tells of its own program alone."""
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    again = RelativeMarginMachine().fit(X, y).fit(X[y < 2], y[y < 2])
    fresh = RelativeMarginMachine().fit(X[y < 2], y[y < 2])
    pd.testing.assert_frame_equal(sensitivities(again), sensitivities(fresh))
    pd.testing.assert_frame_equal(again.duals_, fresh.duals_)


def test_example_of_slopes_holds():
    """The example in the module of the formulas prints what it shows."""
    found = doctest.testmod(slopes)
    assert found.failed == 0 < found.attempted
