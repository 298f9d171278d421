"""Every estimator, from every container, by every verb: the answers of C-ordered float64, or one sentence.

The entries are the integers 0 to 3, which every type holds exactly, so that containers differ in form alone.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from polyopt.methods import METHODS
from polyopt.models import Model
from polyopt.models.rules import Rules

pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = list(METHODS)
FACES = [name for name in NAMES if METHODS[name].has_faces]

RNG = np.random.default_rng(0)
X = RNG.integers(0, 4, (40, 4)).astype(float)
SCORE = X @ [1.0, -1.0, 2.0, -1.0]
Y = np.where(SCORE > 2 + RNG.normal(size=40), "yes", "no")
Y3 = np.array(["low", "middle", "high"])[(SCORE // 3).clip(0, 2).astype(int)]
COLUMNS = ["a", "b", "c", "d"]


# -- containers --------------------------------------------------------------------------------


def csr(values, columns, per_row):
    """A CSR array from its stored entries, as many in every row."""
    starts = np.arange(0, len(values) + 1, per_row)
    return sp.csr_array((np.asarray(values, dtype=float), columns, starts), shape=(len(starts) - 1, 4))


def unsorted(D):
    return csr(D[:, ::-1].ravel(), np.tile([3, 2, 1, 0], len(D)), 4)


def repeated(D):
    """Every number as a sum of two entries, the one far from the other."""
    return csr(np.hstack([D + 5.0, np.full(D.shape, -5.0)]).ravel(), np.tile([0, 1, 2, 3] * 2, len(D)), 8)


def zeros_stored(D):
    return csr(D.ravel(), np.tile([0, 1, 2, 3], len(D)), 4)


def long_indices(D):
    found = sp.csr_array(D)
    found.indices, found.indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
    return found


def read_only(D):
    found = np.array(D)
    found.setflags(write=False)
    return found


def read_only_csr(D):
    found = sp.csr_array(D)
    for part in (found.data, found.indices, found.indptr):
        part.setflags(write=False)
    return found


def pandas(D):
    return pytest.importorskip("pandas").DataFrame(D, columns=COLUMNS)


def polars(D):
    return pytest.importorskip("polars").DataFrame(D, schema=COLUMNS)


DENSE = {
    "F-order": np.asfortranarray,
    "strided": lambda D: np.repeat(D, 2, axis=1)[:, ::2],
    "float32": lambda D: D.astype(np.float32),
    "uint8": lambda D: D.astype(np.uint8),
    "int64": lambda D: D.astype(np.int64),
    "lists": lambda D: D.tolist(),
    "read-only": read_only,
    "pandas": pandas,
    "polars": polars,
}
SPARSE = {
    **{
        kind.__name__: kind
        for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix)
    },
    "csr-float32": lambda D: sp.csr_array(D.astype(np.float32)),
    "csr-uint8": lambda D: sp.csr_array(D.astype(np.uint8)),
    "unsorted": unsorted,
    "repeated": repeated,
    "zeros-stored": zeros_stored,
    "long-indices": long_indices,
    "read-only-csr": read_only_csr,
}
CONTAINERS = {**DENSE, **SPARSE}
KEPT = ("F-order", "float32", "uint8", "pandas", "csr_array", "csc_array", "coo_array", "csr_matrix")


# -- machines ----------------------------------------------------------------------------------


def machine(name, **settings):
    """The unfitted estimator of a method, with few starts and steps, as many as L-BFGS needs to converge."""
    method = METHODS[name]
    made = method.make("auto", {**method.settings, **settings})
    cheap = {"n_init": 1, "max_iter": 1000 if name == "logistic" else 30, "random_state": 0}
    known = made.get_params()
    return made.set_params(
        **{key: value for key, value in cheap.items() if known.get(key, 0) or key in known}
    )


@cache
def fitted(name, container="C-order", classes=2):
    """The estimator of a method, fitted from a container; C-ordered float64 by default."""
    put = CONTAINERS.get(container, np.array)
    return machine(name).fit(put(X), Y if classes == 2 else Y3)


def same(found, expected):
    """Assert that scores are equal, but for the rounding of other sums."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


by_name = pytest.mark.parametrize("name", NAMES)
by_face_name = pytest.mark.parametrize("name", FACES)
by_container = pytest.mark.parametrize("container", CONTAINERS)
by_kept = pytest.mark.parametrize("container", KEPT)


# -- fit and predict ---------------------------------------------------------------------------


@by_name
@by_container
def test_fit(name, container):
    """A fit from a container is the fit from C-ordered float64."""
    same(
        fitted(name, container).decision_function(CONTAINERS[container](X)), fitted(name).decision_function(X)
    )


@by_name
@by_container
def test_predict(name, container):
    """A machine fitted to C-ordered float64 answers samples in any container alike."""
    here, given = fitted(name), CONTAINERS[container](X)
    assert here.predict(given).tolist() == here.predict(X).tolist()
    same(here.decision_function(given), here.decision_function(X))


@by_name
@by_container
def test_given_samples_stay(name, container):
    """Neither fit nor predict changes the caller's samples."""
    given, as_before = CONTAINERS[container](X), CONTAINERS[container](X)
    clone(machine(name)).fit(given, Y).predict(given)
    if sp.issparse(given):
        assert given.nnz == as_before.nnz
        given, as_before = given.data, as_before.data
    assert np.array_equal(np.asarray(given), np.asarray(as_before))


@by_name
@pytest.mark.parametrize("container", ["repeated", "zeros-stored", "unsorted"])
def test_multipliers(name, container):
    """Multipliers are those of the samples, whichever way their entries are stored."""
    found, expected = fitted(name, container).duals_, fitted(name, "csr_array").duals_
    same(found["multiplier"], expected["multiplier"])


@pytest.mark.parametrize("name", ["cpm", "polyceptron"])
@by_container
def test_partial_fit(name, container):
    """A chunk of a stream is learnt alike from any container."""
    put, expected = CONTAINERS[container], machine(name)
    if name == "polyceptron":
        expected.set_params(solver="online")
    found = clone(expected).partial_fit(put(X), Y)
    same(found.decision_function(put(X)), expected.partial_fit(X, Y).decision_function(X))


# -- saved and exported ------------------------------------------------------------------------


@by_face_name
@by_kept
def test_rules(name, container):
    """Rules are those of the fit from C-ordered float64."""
    found, known = (
        Rules.of(Model.of(each, method=name, feature_names=COLUMNS)).polytopes
        for each in (fitted(name, container), fitted(name))
    )
    for mine, theirs in zip(found, known, strict=True):
        same(mine.W, theirs.W)
        same(mine.b, theirs.b)


@by_name
def test_no_rules(name):
    """A machine without one polytope has no rules, and a sentence says so."""
    with pytest.raises(ValueError, match="polytope"):
        Rules.of(Model.of(fitted(name, classes=3), method=name))


# -- names -------------------------------------------------------------------------------------


@by_name
@pytest.mark.parametrize("frame", [pandas, polars], ids=["pandas", "polars"])
def test_permuted_columns_of_a_machine(name, frame):
    """A machine refuses a frame with its columns in another order, as scikit-learn's own do."""
    here = fitted(name, frame.__name__)
    assert here.feature_names_in_.tolist() == COLUMNS
    with pytest.raises(ValueError, match=r"(?s)feature names|order"):
        here.predict(frame(X)[COLUMNS[::-1]])


@by_name
def test_permuted_columns_of_a_model(name):
    """A model takes the columns of a frame by their names."""
    here = Model.of(fitted(name, "pandas"), method=name, feature_names=COLUMNS)
    assert here.predict(pandas(X)[COLUMNS[::-1]]).tolist() == here.predict(pandas(X)).tolist()


@by_name
@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_frames_give_no_warning(name, container):
    """A fit and a prediction from the same frame warn of no names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*feature names")
        machine(name).fit(CONTAINERS[container](X), Y).predict(CONTAINERS[container](X))


# -- refused -----------------------------------------------------------------------------------
