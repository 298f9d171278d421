"""Input that would lead compiled code outside of its arrays is refused by the public functions."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.draws import placed
from sklearn.base import clone

from formulations.language.types import canonical
from polyopt import SVM, ConvexPolytopeMachine, certify_svm, load_model, save_model

N, M = 12, 4
Y = np.where(np.arange(N) % 2, 1, -1)


def samples(form="csr"):
    return sp.random(N, M, 0.6, format=form, rng=np.random.default_rng(0), dtype=float)


def with_index(form, name, value):
    """A matrix whose last index, or last beginning of a row, is another."""
    X = samples(form)
    if form == "coo":
        X.coords[1][-1] = value
    else:
        getattr(X, name)[-1] = value
    return X


HOSTILE = {
    "large": lambda: with_index("csr", "indices", 10**8),
    "one too large": lambda: with_index("csr", "indices", M),
    "beyond 16 bits": lambda: with_index("csr", "indices", 1 << 16),
    "negative": lambda: with_index("csr", "indices", -1),
    "end": lambda: with_index("csr", "indptr", 10**7),
    "columns": lambda: with_index("csc", "indices", N),
    "coordinates": lambda: with_index("coo", "", 10**8),
    "blocks": lambda: with_index("bsr", "indices", 10**8),
}
DATA = samples()


def descending():
    X = samples()
    X.indptr[3], X.indptr[4] = X.indptr[4], X.indptr[3]
    return X


def of_lists():
    X = sp.lil_array(DATA)
    X.rows[2], X.data[2] = [10**6], [1.0]
    return X


HOSTILE |= {"descending": descending, "lists": of_lists}
MACHINES = {
    "kernel": SVM(),
    "linear": SVM(kernel="linear"),
    "faces": ConvexPolytopeMachine(2, n_init=1, random_state=0),
}
FITTED = {name: clone(machine).fit(DATA, Y) for name, machine in MACHINES.items()}
TAKERS = {f"fit, {name}": lambda X, one=one: clone(one).fit(X, Y) for name, one in MACHINES.items()}
TAKERS |= {f"predict, {name}": one.predict for name, one in FITTED.items()}
TAKERS |= {
    "blocks": lambda X: SVM(kernel="linear").fit(X, Y, executor="threads"),
    "certificate": lambda X: certify_svm(X, Y, w=np.zeros(M), b=0.0, alpha=np.zeros(N)),
}


@pytest.mark.parametrize("X", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_indices_out_of_range_are_refused(take, X):
    """By every function that takes sparse samples, before compiled code sees them."""
    with pytest.raises((ValueError, IndexError)):
        take(X())


def test_model_with_bad_indices_is_refused(tmp_path):
    """Samples of a model file are checked when it is read."""
    save_model(FITTED["kernel"], tmp_path / "model")
    assert load_model(tmp_path / "model").estimator.predict(DATA).shape == (N,)
    with zipfile.ZipFile(tmp_path / "model") as model, zipfile.ZipFile(tmp_path / "other", "w") as other:
        for name in model.namelist():
            content = model.read(name)
            if name.endswith(".npz"):
                parts, changed = dict(np.load(io.BytesIO(content))), io.BytesIO()
                parts["indptr"][1] = 10**7
                np.savez(changed, **parts)
                content = changed.getvalue()
            other.writestr(name, content)
    with pytest.raises(ValueError, match="negative or too large"):
        load_model(tmp_path / "other")


@pytest.mark.parametrize("name", MACHINES)
def test_unaligned_arrays_are_copied(name):
    """Compiled code takes numbers at multiples of their size in memory alone."""
    X = DATA.toarray()
    shifted = placed(X.view(np.uint8).ravel(), 1).view(float).reshape(X.shape)
    expected = clone(MACHINES[name]).fit(X, Y).decision_function(X)
    found = clone(MACHINES[name]).fit(shifted, Y).decision_function(shifted)
    assert np.array_equal(found, expected)


def test_unaligned_sparse_values_are_copied():
    """Canonical sparse samples have aligned values."""
    sparse = DATA.copy()
    sparse.data = placed(DATA.data.view(np.uint8), 1).view(float)
    assert canonical(sparse).data.flags.aligned
