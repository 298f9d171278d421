"""Every method from every container of samples: the answers of C-ordered float64, and the samples untouched.

The entries are the integers 0 to 3, which every type holds exactly, so that containers differ in form alone.
"""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers import methods
from helpers.methods import NAMES, Case, Samples, fit
from sklearn.base import clone

from polyopt.models import Model
from polyopt.models.rules import Rules

pytestmark = pytest.mark.filterwarnings("ignore:X has feature names")

RNG = np.random.default_rng(0)
X = RNG.integers(0, 4, (24, 4)).astype(float)
Y = np.where(X @ [1.0, -1.0, 2.0, -1.0] > 2 + RNG.normal(size=24), "yes", "no")
COLUMNS = ["a", "b", "c", "d"]


def csr(values, columns, per_row):
    """A CSR array from its stored entries, as many in every row."""
    starts = np.arange(0, len(values) + 1, per_row)
    return sp.csr_array((np.asarray(values, dtype=float), columns, starts), shape=(len(starts) - 1, 4))


def unsorted(X):
    return csr(X[:, ::-1].ravel(), np.tile([3, 2, 1, 0], len(X)), 4)


def repeated(X):
    """Every number as a sum of two entries, the one far from the other."""
    return csr(np.hstack([X + 5.0, np.full(X.shape, -5.0)]).ravel(), np.tile([0, 1, 2, 3] * 2, len(X)), 8)


def zeros_stored(X):
    return csr(X.ravel(), np.tile([0, 1, 2, 3], len(X)), 4)


def long_indices(X):
    found = sp.csr_array(X)
    found.indices, found.indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
    return found


def read_only(X):
    found = np.array(X)
    found.setflags(write=False)
    return found


def read_only_csr(X):
    found = sp.csr_array(X)
    for part in (found.data, found.indices, found.indptr):
        part.setflags(write=False)
    return found


def pandas(X):
    return pd.DataFrame(X, columns=COLUMNS)


def polars(X):
    return pytest.importorskip("polars").DataFrame(X, schema=COLUMNS)


FRAMES = {"pandas": pandas, "polars": polars}
# For every method: whatever a kernel in C may read otherwise, and what is converted.
OF_EVERY_METHOD = {
    "F-order": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "uint8": lambda X: X.astype(np.uint8),
    "read-only": read_only,
    "CSR": sp.csr_array,
    "CSR of uint8": lambda X: sp.csr_array(X.astype(np.uint8)),
    "unsorted": unsorted,
    "repeated": repeated,
    "long indices": long_indices,
    "read-only CSR": read_only_csr,
    **FRAMES,
}
# For one method: forms that are converted before a method has them.
OF_ONE_METHOD = {
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "int64": lambda X: X.astype(np.int64),
    "lists": lambda X: X.tolist(),
    "zeros stored": zeros_stored,
    "CSR of float32": lambda X: sp.csr_array(X.astype(np.float32)),
    **{
        kind.__name__: kind
        for kind in (sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix)
    },
}
CONTAINERS = OF_EVERY_METHOD | OF_ONE_METHOD
by_name = pytest.mark.parametrize("name", NAMES)


@cache
def fitted(name, container="C-order"):
    """The machine of a method, and the samples that it was fitted to; C-ordered float64 by default."""
    made = Case(name, "auto").make(max_iter=1000 if name == "logistic" else 30, random_state=0)
    given = CONTAINERS.get(container, np.array)(X)
    return fit(made, Samples(given, Y)), given


def assert_equal(found, expected):
    """Numbers are equal, but for the rounding of other sums."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def numbers(samples):
    """The stored numbers of samples, and the places of sparse ones."""
    if sp.issparse(samples):
        return [samples.data, getattr(samples, "indices", None)]
    return [np.asarray(samples)]


# -- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "container"),
    [(name, container) for name in NAMES for container in OF_EVERY_METHOD]
    + [("svm", container) for container in OF_ONE_METHOD],
)
def test_containers_are_alike(name, container):
    """Fits and answers are those of C-ordered float64, and leave the caller's samples as they are."""
    (expected, _), (found, given) = fitted(name), fitted(name, container)
    wanted = expected.decision_function(X)
    assert_equal(found.decision_function(given), wanted)
    assert_equal(expected.decision_function(given), wanted)
    assert expected.predict(given).tolist() == expected.predict(X).tolist()
    for after, before in zip(numbers(given), numbers(CONTAINERS[container](X)), strict=True):
        assert np.array_equal(after, before)


@by_name
@pytest.mark.parametrize("container", ["repeated", "unsorted", "long indices"])
def test_multipliers_are_of_samples(name, container):
    """Multipliers do not depend on how the entries of a CSR array are stored."""
    found, expected = (fitted(name, each)[0].duals_["multiplier"] for each in (container, "CSR"))
    assert_equal(found, expected)


@pytest.mark.parametrize("name", ["cpm", "polyceptron"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_streams_are_alike(name, container):
    """A chunk of a stream is learnt alike from any container."""
    solver = "sgd" if name == "cpm" else "online"
    put, machine = CONTAINERS[container], Case(name, solver).make(random_state=0)
    found = clone(machine).partial_fit(put(X), Y)
    assert_equal(found.decision_function(put(X)), machine.partial_fit(X, Y).decision_function(X))


# -- names -------------------------------------------------------------------------------------


@by_name
@pytest.mark.parametrize("frame", FRAMES)
def test_names_of_columns(name, frame):
    """A machine keeps a frame's names, warns of none, and refuses another order; a model reorders."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*feature names")
        machine, given = fitted(name, frame)
        machine.predict(given)
    assert machine.feature_names_in_.tolist() == COLUMNS
    turned = given[COLUMNS[::-1]]
    with pytest.raises(ValueError, match=r"(?s)feature names|order"):
        machine.predict(turned)
    model = Model.of(machine, method=name, feature_names=COLUMNS)
    assert model.predict(turned).tolist() == model.predict(given).tolist()


@by_name
def test_machine_without_one_polytope_has_no_rules(name):
    """Rules are of a polytope: a machine of three classes, or of none, is refused."""
    machine = methods.fitted(Case(name, "auto"), "three classes")
    with pytest.raises(ValueError, match="polytope"):
        Rules.of(Model.of(machine, method=name))
