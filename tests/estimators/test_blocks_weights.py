"""Weights whose sums and products leave double precision: a sentence that names them."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt import SVM, ConvexPolytopeMachine, scale
from polyopt.methods import METHODS

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.where(X[:, 0] > 0, "a", "b")
Y3 = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]

by_name = pytest.mark.parametrize("name", METHODS)


@by_name
@pytest.mark.parametrize(
    ("largest", "count", "labels"), [(1e305, 30, Y), (1.7e308, 1, Y3)], ids=["all, two classes", "one, three"]
)
def test_weights_too_large(name, largest, count, labels):
    """Weights beyond the range are refused by their name, be it one of them or all."""
    weights = np.where(np.arange(30) < count, largest, 1.0)
    with pytest.raises(ValueError, match=r"sample_weight, times .* must add up to at most"):
        METHODS[name].make("auto", METHODS[name].settings).fit(X, labels, sample_weight=weights)


@by_name
@pytest.mark.parametrize("largest", [5e-324, 1e-305])
def test_weights_too_small(name, largest):
    """Weights whose quotients leave double precision are refused by their name."""
    with pytest.raises(ValueError, match=r"sample_weight, times .* must add up to at least"):
        METHODS[name].make("auto", METHODS[name].settings).fit(X, Y, sample_weight=np.full(30, largest))


@pytest.mark.parametrize("machine", [SVM(kernel="linear"), ConvexPolytopeMachine()], ids=str)
@pytest.mark.parametrize("largest", [1e-320, 1e307])
def test_weights_of_blocks_out_of_range(machine, largest):
    """Samples in blocks have the same range of weights."""
    with pytest.raises(ValueError, match=r"sample_weight, times .* must add up to at (most|least)"):
        machine.fit(scale.Arrays(X, Y, np.full(30, largest)))


@by_name
def test_class_weights_too_large(name):
    """So are weights that are large by the classes' weights."""
    made = METHODS[name].make("auto", METHODS[name].settings)
    if "class_weight" not in made.get_params():
        pytest.skip("has no weights of classes")
    with pytest.raises(ValueError, match=r"class_weight|sample_weight, times .* must add up to at most"):
        made.set_params(class_weight={"a": 1e306, "b": 1.0}).fit(X, Y)
