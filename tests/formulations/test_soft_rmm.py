"""The programs of the Relative Margin Machine with slack on its bounds."""

from __future__ import annotations

import numpy as np
import pytest

from formulations import rmm


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


def test_each_side_s_multipliers_are_the_other_s_variables(data):
    p, d = rmm.qp(*data).solve(), rmm.qp_dual(*data).solve()
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
    assert rmm.kernel_dual(K, y, *data[2:]).solve().objective == pytest.approx(
        rmm.qp(*data).solve().objective, rel=1e-7
    )


def test_slack_never_costs_more_than_none(data):
    assert rmm.qp(*data).solve().objective <= rmm.qp(*data[:4]).solve().objective * (1 + 1e-8)


@pytest.mark.parametrize(("changes", "message"), [
    ({"D": -1.0}, "positive and finite"), ({"D": np.inf}, "positive and finite"), ({"B": -1.0}, "B must be"),
    ({"D": np.ones(3)}, "shape"),
])  # fmt: skip
def test_wrong_input_is_named(changes, message, blobs):
    with pytest.raises(ValueError, match=message):
        rmm.qp(*blobs, **changes)
