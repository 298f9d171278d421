"""The parts of Table 1 of the RMM paper: kernels from shared products, shared solutions, ties by lot."""

import numpy as np
import pytest

from benchmarks.helpers.digit_machines import GRIDS, TOL, fitted, margin_machines
from benchmarks.helpers.digit_pairs import SCALINGS, Digits, PairData, images
from formulations.families import hinge_families
from polyopt import Kernel
from polyopt.margin.decomposition.state import Dual

DIGITS = Digits("digits", 0.0, (("digits", True),), classes=3)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("kernel", ["1", "4", "RBF"])
def test_kernels_of_shared_products(scaling, kernel):
    """Gram matrices and outputs from shared products are those of the kernel."""
    X, y, T, _ = images(DIGITS, scaling)
    A = X[np.isin(y, (1, 2))]
    data, sizes = PairData(DIGITS, scaling, (1, 2)), (A**2).sum(axis=1)
    if kernel == "RBF":
        named, scale = Kernel("rbf", 0.5 / sizes.mean()), 1.0
    else:
        named, scale = Kernel("poly", 1.0, int(kernel), 1.0), ((sizes + 1.0) ** int(kernel)).mean()
    some = np.arange(0, len(A), 3)
    np.testing.assert_allclose(data.gram(kernel, some), named(A[some]) / scale, rtol=1e-9)
    coefs = np.random.default_rng(0).normal(size=(len(some), 2)) * (np.arange(len(some)) % 2)[:, None]
    for at, points in ((None, T), (some[:7], A[some[:7]])):
        expected = named(points, A[some]) @ coefs / scale
        np.testing.assert_allclose(data.outputs(kernel, at, some, coefs), expected, rtol=1e-7, atol=1e-9)


def test_shared_solution_is_optimal_for_each():
    """A solution shared by several C is optimal for each of them, with its own B."""
    data = PairData(DIGITS, SCALINGS[0], (1, 2))
    K, y = data.gram("3", np.arange(len(data.y))), data.y
    fits = margin_machines(K, y, {method: GRIDS[method] for method in ("SVM", "RMM")})
    assert fits["SVM"].shared > 0
    assert fits["RMM"].shared > 0
    theta = {C: np.abs(K @ v + b).max() for (C,), v, b in zip(*_parts(fits["SVM"]), strict=True)}
    for (C,), v, _ in zip(*_parts(fits["SVM"]), strict=True):
        m, M = Dual(hinge_families(y, np.full(len(y), C))).extremes(v, K @ v)
        assert m - M <= 1.01 * TOL
    for (C, share), v, b in zip(*_parts(fits["RMM"]), strict=True):
        B, f = 1.0 + (theta[C] - 1.0) * share, K @ v + b
        assert np.abs(f).max() <= B * (1.0 + 1e-9)
        rows = hinge_families(y, np.full(len(y), C), B)
        values = Dual(rows).values(v, K @ v, b)
        assert values["objective"] - values["bound"] <= 0.02 * values["objective"]


def _parts(fit):
    return fit.settings, fit.coefs, fit.intercepts


def test_every_method_tells_digits_apart():
    """A machine of each method has more than 90 % of held-out digits right."""
    data = PairData(DIGITS, SCALINGS[0], (0, 1))
    train, rest = data.splits[0]
    settings = {method: grid[:1] for method, grid in GRIDS.items()}
    for method, fit in fitted(data.gram("2", train), data.y[train], settings).items():
        coefs, b = fit.of(settings[method])
        outputs = data.outputs("2", rest, train, coefs) + b
        assert ((outputs[:, 0] > 0.0) == (data.y[rest] > 0.0)).mean() > 0.9, method
