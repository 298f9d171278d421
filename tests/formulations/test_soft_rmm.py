"""The programs of the Relative Margin Machine with slack on its bounds."""

from __future__ import annotations

import numpy as np
import pytest

from formulations import further, rmm, soft_rmm


@pytest.fixture(params=["one price", "a price per sample"])
def data(request, blobs, rng):
    X, y = blobs
    return (
        X,
        y,
        rng.uniform(0.2, 2.0, len(y)),
        1.2,
        0.05 if request.param == "one price" else rng.uniform(0, 0.2, len(y)),
    )


def test_the_qp_equals_its_dual_and_the_recovered_point_attains_it(data):
    X, y = data[:2]
    primal, dual = soft_rmm.qp(*data), soft_rmm.qp_dual(*data)
    p, d = primal.solve(), dual.solve()
    assert p.objective == pytest.approx(d.objective, rel=1e-8)
    recovered = soft_rmm.recover(X, y, *data[2:], d.primal)
    assert primal.value(recovered) == pytest.approx(p.objective, rel=1e-7)
    assert max(primal.violations(recovered).values()) < 1e-6
    assert recovered["w"] == pytest.approx(p["w"], abs=1e-5)


def test_each_side_s_multipliers_are_the_other_s_variables(data):
    p, d = soft_rmm.qp(*data).solve(), soft_rmm.qp_dual(*data).solve()
    for row, letter in (("margin", "alpha"), ("bound_above", "lam"), ("bound_below", "lam_star")):
        assert p.duals[row] == pytest.approx(d[letter], abs=1e-5)
    for name in ("xi", "tau", "tau_star"):
        assert d.duals[name] == pytest.approx(p[name], abs=1e-5)
    assert d.duals["b"] == pytest.approx(p["b"], abs=1e-5)
    prices = np.broadcast_to(data[4], p["tau"].shape)
    assert p.duals["slack_above"] == pytest.approx(prices - d["lam"], abs=1e-5)


def test_the_kernel_dual_is_that_of_its_features(data):
    X, y = data[:2]
    K = X @ X.T
    assert soft_rmm.kernel_dual(K, y, *data[2:]).solve().objective == pytest.approx(
        soft_rmm.qp(*data).solve().objective, rel=1e-7
    )


def test_slack_never_costs_more_than_none(data):
    assert soft_rmm.qp(*data).solve().objective <= rmm.qp(*data[:4]).solve().objective * (1 + 1e-8)


@pytest.mark.parametrize(("changes", "message"), [
    ({"D": -1.0}, "positive and finite"), ({"D": np.inf}, "positive and finite"), ({"B": -1.0}, "B must be"),
    ({"D": np.ones(3)}, "shape"),
])  # fmt: skip
def test_wrong_input_is_named(changes, message, blobs):
    with pytest.raises(ValueError, match=message):
        soft_rmm.qp(*blobs, **changes)


def test_both_sides_have_the_same_defaults(blobs):
    X, y = blobs
    value = soft_rmm.qp(X, y).solve().objective
    assert value == pytest.approx(soft_rmm.qp(X, y, 1.0, 2.0, 1.0).solve().objective, rel=1e-9)
    for dual in (soft_rmm.qp_dual(X, y), soft_rmm.kernel_dual(X @ X.T, y)):
        assert dual.solve().objective == pytest.approx(value, rel=1e-6)
        assert (dual.parameters["B"].value, dual.parameters["D"].value.max()) == (2.0, 1.0)


@pytest.mark.parametrize("B", [0.0, 0.5, 3.0])
def test_bounds_of_any_size_are_families_and_one_below_0_is_none(B):
    names = [row.name for row in further.families([1, -1], 1, 1.0, B, D=2.0)]
    assert names == ["margin", "bound_above", "bound_below"]
    with pytest.raises(ValueError, match="B must be"):
        further.families([1, -1], 1, 1.0, -0.1)
