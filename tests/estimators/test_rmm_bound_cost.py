"""Slack on the bounds of the Relative Margin Machine: exact, fast and proven, and what its price does."""

import numpy as np
import pytest
from sklearn.base import clone

from formulations import rmm
from formulations.language.toy_data import two_blobs
from polyopt import SVM, Claim, RelativeMarginMachine, binding, sensitivities
from polyopt.margin.certify import certify_rmm
from polyopt.plots import multipliers, whitening


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("D", [0.02, 0.3, 1e3])
def test_every_solver_reaches_the_exact_solution(kernel, D, blobs):
    X, y = blobs
    machine = RelativeMarginMachine(1.0, 1.2, bound_cost=D, kernel=kernel, coef0=1.0, degree=2)
    exact = clone(machine).set_params(solver="exact").fit(X, y)
    value = exact.certificate().primal_value
    solvers = ["decomposition", "interior-point"] if kernel == "linear" else ["decomposition"]
    for solver in solvers:
        fast = clone(machine).set_params(solver=solver, tol=1e-7).fit(X, y)
        assert fast.certificate(tol=1e-5).claim is Claim.OPTIMAL
        assert fast.certificate().primal_value == pytest.approx(value, rel=1e-6)
        assert fast.decision_function(X) == pytest.approx(exact.decision_function(X), abs=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_between_the_svm_and_the_hard_bounds(kernel, blobs):
    """At both ends of the price it is one of them; in between the excess can but fall as the price rises."""
    X, y = blobs
    plain = SVM(), RelativeMarginMachine(B=1.1)
    svm, hard = (machine.set_params(kernel=kernel, tol=1e-8).fit(X, y) for machine in plain)
    prices = [1e-9, 0.01, 0.03, 0.1, 0.3, np.inf]
    f = [
        RelativeMarginMachine(1.0, 1.1, bound_cost=D, kernel=kernel, tol=1e-8).fit(X, y).outputs_
        for D in prices
    ]
    assert f[0] == pytest.approx(svm.outputs_, abs=1e-4)
    assert f[-1] == pytest.approx(hard.outputs_, abs=1e-6)
    excess = np.array([np.maximum(np.abs(outputs) - 1.1, 0.0).sum() for outputs in f])
    assert (np.diff(excess) <= 1e-5).all()
    unbounded = RelativeMarginMachine(B=np.inf, bound_cost=1.0, kernel=kernel, tol=1e-8).fit(X, y)
    assert unbounded.outputs_ == pytest.approx(svm.outputs_, abs=1e-6)


def test_one_sample_far_out_no_longer_holds_the_machine():
    """What the slack is for: with hard bounds one outlier flattens the margins of all others."""
    X, y = two_blobs(n=60, separation=4.0)
    X[0] = 30.0 * X[0]
    hard = RelativeMarginMachine(1.0, 1.5, kernel="linear").fit(X, y)
    soft = RelativeMarginMachine(1.0, 1.5, bound_cost=0.01, kernel="linear").fit(X, y)
    rest = slice(1, None)
    assert np.abs(soft.outputs_[0]) > 1.5
    assert (y * soft.outputs_)[rest].mean() > 1.5 * (y * hard.outputs_)[rest].mean()


def test_the_duals_name_every_family_of_rows(blobs):
    X, y = blobs
    machine = RelativeMarginMachine(1.0, 1.2, bound_cost=0.05, kernel="linear").fit(X, y)
    frame = machine.duals_
    assert list(dict.fromkeys(zip(frame["row"], frame["letter"], strict=True))) == [
        ("margin", "alpha"), ("slack", "beta"), ("bound_above", "lam"), ("slack_above", "rho"),
        ("bound_below", "lam_star"), ("slack_below", "rho_star"),
    ]  # fmt: skip
    above = frame[frame["row"] == "bound_above"].set_index("sample")
    beyond = above["state"] == "beyond +B"
    assert beyond.any()
    assert above.loc[beyond, "multiplier"].to_numpy() == pytest.approx(0.05)
    assert (above.loc[beyond, "output"] >= 1.2 - 1e-6).all()
    assert (above.loc[above["state"] == "idle", "output"] <= 1.2 + 1e-6).all()
    assert {"bound_above", "slack_above"} <= set(binding(machine)["row"])
    multipliers(frame, B=1.2)
    whitening(RelativeMarginMachine(1.0, 1.2, bound_cost=0.05, kernel="linear").fit(X[:, :2], y))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_derivatives_are_those_of_differences(kernel, blobs):
    X, y = blobs
    values = {"C": 1.0, "B": 1.2, "bound_cost": 0.05}
    machine = RelativeMarginMachine(**values, kernel=kernel, tol=1e-9)
    frame = sensitivities(clone(machine).fit(X, y)).set_index("parameter")
    assert dict(frame["formula"]) == {"C": "Σ wᵢ ξᵢ", "bound_cost": "Σ wᵢ (τᵢ + τ*ᵢ)", "B": "−Σ (λᵢ + λ*ᵢ)"}
    found = frame["derivative"]
    assert set(found.index) == set(values)
    for name, value in values.items():
        step = 1e-4 * value
        low, high = (
            clone(machine).set_params(**{name: value + change}).fit(X, y).certificate().primal_value
            for change in (-step, step)
        )
        assert found[name] == pytest.approx((high - low) / (2 * step), rel=1e-3, abs=1e-6)


# -- the certificate ---------------------------------------------------------------------------


def optimum(X, y, B=1.2, D=0.05):
    found = rmm.qp(X, y, 1.0, B, D).solve()
    return {"w": found["w"], "b": float(found["b"]), "multipliers": dict(found.duals)}


def certified(X, y, vectors, D=0.05):
    alpha, lam, lam_star = (vectors["multipliers"][name] for name in ("margin", "bound_above", "bound_below"))
    point = {"w": vectors["w"], "b": vectors["b"]}
    return certify_rmm(X, y, 1.0, 1.2, D=D, alpha=alpha, lam=lam, lam_star=lam_star, **point)


def test_the_explicit_optimum_is_proven(blobs):
    X, y = blobs
    vectors = optimum(X, y)
    certificate = certified(X, y, vectors)
    assert certificate.claim is Claim.OPTIMAL
    assert {"slack_above", "slack_below"} <= {residual.row for residual in certificate.residuals}
    alone = certify_rmm(X, y, 1.0, 1.2, D=0.05, w=vectors["w"], b=vectors["b"])
    assert alone.claim is Claim.OPTIMAL


@pytest.mark.parametrize("name", ["w", "b", "margin", "bound_above", "bound_below"])
def test_a_perturbed_optimum_is_not(name, blobs, rng):
    X, y = blobs
    vectors = optimum(X, y)
    home = vectors if name in vectors else vectors["multipliers"]
    value = np.asarray(home[name], dtype=float)
    home[name] = value + 1e-2 * rng.choice([-1.0, 1.0], value.shape)
    certificate = certified(X, y, vectors)
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.worst.relative > certificate.tol


def test_a_multiplier_above_its_price_is_told_and_bounds_nothing(blobs):
    """Those of the machine with hard bounds pass the price: their bound would be above the optimum."""
    X, y = blobs
    vectors, hard = optimum(X, y), optimum(X, y, D=1e3)
    certificate = certified(X, y, {**vectors, "multipliers": hard["multipliers"]})
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.dual_value <= certified(X, y, vectors).primal_value * (1 + 1e-9)
    assert max(r.value for r in certificate.residuals if r.row in ("slack_above", "slack_below")) > 0.0


@pytest.mark.parametrize(("changes", "message"), [
    ({"bound_cost": 0.0}, "bound_cost must be positive"),
    ({"bound_cost": -1.0}, "bound_cost must be positive"),
    ({"bound_cost": np.nan}, "bound_cost must be positive"),
    ({"B": 0.5}, "B must be at least 1, not"),
])  # fmt: skip
def test_wrong_parameters_are_named(changes, message, blobs):
    with pytest.raises(ValueError, match=message):
        RelativeMarginMachine(**changes).fit(*blobs)
