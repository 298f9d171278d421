"""Slack on the bounds of the Relative Margin Machine: exact, fast and proven, and what its price does."""

import numpy as np
import pytest
from sklearn.base import clone

from formulations import rmm
from formulations.language.toy_data import two_blobs
from polyopt import SVM, Claim, RelativeMarginMachine, binding, sensitivities
from polyopt.margin.certify import certify_rmm
from polyopt.plots import multipliers, whitening

X, Y = two_blobs(n=40, seed=0)
by_kernel = pytest.mark.parametrize("kernel", ["linear", "rbf"])


@pytest.mark.parametrize(
    ("kernel", "solver"),
    [("linear", "interior-point"), *((kernel, "decomposition") for kernel in ("linear", "rbf", "poly"))],
)
@pytest.mark.parametrize("D", [0.02, 0.3, 1e3])
def test_every_solver_reaches_the_optimum(kernel, solver, D):
    """Fast solvers have the exact solver's value and scores at any price."""
    machine = RelativeMarginMachine(1.0, 1.2, bound_cost=D, kernel=kernel, coef0=1.0, degree=2)
    exact = clone(machine).set_params(solver="exact").fit(X, Y)
    fast = clone(machine).set_params(solver=solver, tol=1e-7).fit(X, Y)
    assert fast.certificate(tol=1e-5).claim is Claim.OPTIMAL
    assert fast.certificate().primal_value == pytest.approx(exact.certificate().primal_value, rel=1e-6)
    assert fast.decision_function(X) == pytest.approx(exact.decision_function(X), abs=1e-4)


@by_kernel
def test_price_is_between_svm_and_hard_bounds(kernel):
    """At both ends of the price it is one of them; in between the excess can but fall as the price rises."""
    plain = SVM(), RelativeMarginMachine(B=1.1)
    svm, hard = (machine.set_params(kernel=kernel, tol=1e-8).fit(X, Y) for machine in plain)
    prices = [1e-9, 0.01, 0.03, 0.1, 0.3, np.inf]
    soft = RelativeMarginMachine(1.0, 1.1, kernel=kernel, tol=1e-8)
    f = [clone(soft).set_params(bound_cost=D).fit(X, Y).outputs_ for D in prices]
    assert f[0] == pytest.approx(svm.outputs_, abs=1e-4)
    assert f[-1] == pytest.approx(hard.outputs_, abs=1e-6)
    excess = np.array([np.maximum(np.abs(outputs) - 1.1, 0.0).sum() for outputs in f])
    assert (np.diff(excess) <= 1e-5).all()
    unbounded = clone(soft).set_params(B=np.inf, bound_cost=1.0).fit(X, Y)
    assert unbounded.outputs_ == pytest.approx(svm.outputs_, abs=1e-6)


def test_outlier_no_longer_holds_the_machine():
    """With hard bounds one outlier flattens the margins of all others; with slack it does not."""
    samples, y = two_blobs(n=60, separation=4.0)
    samples[0] = 30.0 * samples[0]
    hard = RelativeMarginMachine(1.0, 1.5, kernel="linear").fit(samples, y)
    soft = RelativeMarginMachine(1.0, 1.5, bound_cost=0.01, kernel="linear").fit(samples, y)
    assert np.abs(soft.outputs_[0]) > 1.5
    assert (y * soft.outputs_)[1:].mean() > 1.5 * (y * hard.outputs_)[1:].mean()


def test_duals_name_every_family_of_rows():
    """Multipliers of bounds that are exceeded are the price; idle ones are of outputs within."""
    machine = RelativeMarginMachine(1.0, 1.2, bound_cost=0.05, kernel="linear").fit(X, Y)
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
    whitening(machine.fit(X[:, :2], Y))


@by_kernel
def test_derivatives_are_those_of_differences(kernel):
    """The derivative of the optimal value in C, B and the price is that of differences."""
    values = {"C": 1.0, "B": 1.2, "bound_cost": 0.05}
    machine = RelativeMarginMachine(**values, kernel=kernel, tol=1e-9)
    frame = sensitivities(clone(machine).fit(X, Y)).set_index("parameter")
    assert dict(frame["formula"]) == {"C": "Σ wᵢ ξᵢ", "bound_cost": "Σ wᵢ (τᵢ + τ*ᵢ)", "B": "−Σ (λᵢ + λ*ᵢ)"}
    for name, value in values.items():
        step = 1e-4 * value
        low, high = (
            clone(machine).set_params(**{name: value + change}).fit(X, Y).certificate().primal_value
            for change in (-step, step)
        )
        assert frame["derivative"][name] == pytest.approx((high - low) / (2 * step), rel=1e-3, abs=1e-6)


# -- the certificate ---------------------------------------------------------------------------

ROWS = ("margin", "bound_above", "bound_below")


def optimum(D=0.05):
    found = rmm.qp(X, Y, 1.0, 1.2, D).solve()
    return {"w": found["w"], "b": float(found["b"]), **{row: found.duals[row] for row in ROWS}}


def certified(vectors):
    alpha, lam, lam_star = (vectors[row] for row in ROWS)
    point = {"w": vectors["w"], "b": vectors["b"]}
    return certify_rmm(X, Y, 1.0, 1.2, D=0.05, alpha=alpha, lam=lam, lam_star=lam_star, **point)


def test_point_alone_is_proven():
    """The program's solution is proven optimal without its multipliers."""
    vectors = optimum()
    alone = certify_rmm(X, Y, 1.0, 1.2, D=0.05, w=vectors["w"], b=vectors["b"])
    assert alone.claim is Claim.OPTIMAL
    assert {"slack_above", "slack_below"} <= {residual.row for residual in certified(vectors).residuals}


@pytest.mark.parametrize("name", ["w", "b", *ROWS])
def test_perturbed_optimum_is_not_proven(name, rng):
    """A change of any part of the solution breaks a condition."""
    vectors = optimum()
    value = np.asarray(vectors[name], dtype=float)
    certificate = certified({**vectors, name: value + 1e-2 * rng.choice([-1.0, 1.0], value.shape)})
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.worst.relative > certificate.tol


def test_multiplier_above_its_price_bounds_nothing():
    """Those of the machine with hard bounds pass the price: their bound would be above the optimum."""
    vectors, hard = optimum(), optimum(D=1e3)
    certificate = certified({**vectors, **{row: hard[row] for row in ROWS}})
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.dual_value <= certified(vectors).primal_value * (1 + 1e-9)
    assert max(r.value for r in certificate.residuals if r.row in ("slack_above", "slack_below")) > 0.0


@pytest.mark.parametrize("price", [0.0, -1.0, np.nan])
def test_impossible_price_is_refused(price):
    """The price of slack is positive."""
    with pytest.raises(ValueError, match="bound_cost must be positive"):
        RelativeMarginMachine(bound_cost=price).fit(X, Y)
