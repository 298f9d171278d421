"""The programs of the Relative Margin Machine with bounds at further samples."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from formulations import rmm, rmm_bounded, svm
from formulations.families import bounded_families, extend_multipliers, hinge_families

KINDS = [(True, None), (False, None), (True, 0.05), (False, "each")]


def drawn(blobs, rng):
    """Samples, labels, further samples of which some lie beyond those, costs and a bound."""
    X, y = blobs
    centre = X.mean(axis=0)
    U = centre + 1.3 * (X[::4] - centre) + 0.3 * rng.normal(size=(10, X.shape[1]))
    return X, y, U, rng.uniform(0.2, 2.0, len(y)), 1.2


@pytest.fixture(params=KINDS, ids=str)
def data(request, blobs, rng):
    training, D = request.param
    arguments = drawn(blobs, rng)
    count = len(arguments[2]) + (len(arguments[1]) if training else 0)
    return arguments, {"training": training, "D": rng.uniform(0.0, 0.2, count) if D == "each" else D}


def test_each_side_s_multipliers_are_the_other_s_variables(data):
    arguments, kind = data
    p, d = rmm_bounded.qp(*arguments, **kind).solve(), rmm_bounded.qp_dual(*arguments, **kind).solve()
    for row, letter in (("margin", "alpha"), ("bound_above", "lam"), ("bound_below", "lam_star")):
        assert p.duals[row] == pytest.approx(d[letter], abs=2e-5)
    assert d.duals["b"] == pytest.approx(p["b"], abs=1e-5)
    for name in ("xi", "tau", "tau_star"):
        assert name not in p.primal or d.duals[name] == pytest.approx(p[name], abs=1e-5)


def test_the_kernel_dual_is_that_of_its_features(data):
    (X, y, U, C, B), kind = data
    Z = np.vstack([X, U])
    value = rmm_bounded.kernel_dual(Z @ Z.T, y, C, B, **kind).solve().objective
    assert value == pytest.approx(rmm_bounded.qp(X, y, U, C, B, **kind).solve().objective, rel=1e-7)


def test_samples_that_are_there_already_change_nothing(blobs):
    X, y = blobs
    plain = rmm.qp(X, y, 1.0, 1.2).solve()
    for U, training in ((X, True), (X, False), (X[:3], True), (np.repeat(X[:1], 4, axis=0), True)):
        same = rmm_bounded.qp(X, y, U, 1.0, 1.2, training=training).solve()
        assert same.objective == pytest.approx(plain.objective, rel=1e-7)
        assert same["w"] == pytest.approx(plain["w"], abs=1e-5)


def test_each_bound_more_raises_the_optimum(blobs, rng):
    X, y, U, C, B = drawn(blobs, rng)
    few, more = (rmm_bounded.qp(X, y, U[:k], C, B).solve().objective for k in (5, 10))
    alone = rmm_bounded.qp(X, y, U[:5], C, B, training=False).solve().objective
    assert svm.primal(X, y, C).solve().objective * (1 + 1e-3) < alone <= few * (1 + 1e-8)
    assert rmm.qp(X, y, C, B).solve().objective * (1 + 1e-3) < few <= more * (1 + 1e-8)


def test_sparse_samples_are_the_same(blobs, rng):
    X, y, U, C, B = drawn(blobs, rng)
    value = rmm_bounded.qp(X, y, U, C, B).solve().objective
    for given in ((sp.csr_array(X), y, U), (X, y, sp.csr_array(U)), (sp.csr_array(X), y, sp.csr_matrix(U))):
        assert rmm_bounded.qp(*given, C, B).solve().objective == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("changes", "message"), [
    ({"U": np.zeros((0, 3))}, "further samples: .*at least one row"),
    ({"U": np.zeros((2, 4))}, "the 3 features"),
    ({"U": np.array([[0.0, np.nan, 1.0]])}, "further samples: .*finite"),
    ({"U": np.zeros(3)}, "further samples: .*two dimensions"), ({"U": 3.0}, "further samples: "),
    ({"B": -1.0}, "B must be"), ({"D": np.ones(3)}, "shape"), ({"D": -1.0}, "D must be"),
])  # fmt: skip
def test_wrong_input_is_named(changes, message, blobs):
    X, y = blobs
    for program in (rmm_bounded.qp, rmm_bounded.qp_dual):
        with pytest.raises(ValueError, match=message):
            program(X, y, **{"U": X[:2], **changes})


def test_a_gram_matrix_without_further_samples_is_refused(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="more rows than there are labels, 40, not 40"):
        rmm_bounded.kernel_dual(X @ X.T, y)


# -- the families ------------------------------------------------------------------------------


def test_a_row_of_no_cost_places_no_intercept(blobs, rng):
    """Wherever the further samples lie, the margins that they have not leave the best intercept as it is."""
    _, y = blobs
    for _ in range(20):
        g, far = rng.normal(size=len(y)), 5.0 * rng.normal(size=9)
        plain = hinge_families(y, 0.5).best_intercept(g)
        for B in (np.inf, 1e3):
            found = bounded_families(y, 0.5, B, 9).best_intercept(np.append(g, far))
            assert found == pytest.approx(plain, abs=1e-12)


def test_vectors_are_spread_over_the_samples_that_have_the_row():
    found = extend_multipliers(
        {"margin": np.ones(2), "lam": np.ones(3), "bound_above": np.ones(5), "w": np.ones(2)}, 2, 5
    )
    assert found["margin"].tolist() == [1, 1, 0, 0, 0]
    assert found["lam"].tolist() == [0, 0, 1, 1, 1]
    assert found["bound_above"].tolist() == [1] * 5
    assert found["w"].tolist() == [1, 1]
