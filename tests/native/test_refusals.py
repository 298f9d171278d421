"""Input that would lead compiled code outside of its arrays is refused by the public functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

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
    "kernel": SVM(), "linear": SVM(kernel="linear"), "faces": ConvexPolytopeMachine(n_faces=2),
}  # fmt: skip


@pytest.mark.parametrize("X", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_indices_out_of_range_are_refused(machine, X):
    """By every machine, before compiled code sees them."""
    with pytest.raises((ValueError, IndexError)):
        machine.fit(X(), Y)
    fitted = machine.fit(DATA, Y)
    with pytest.raises((ValueError, IndexError)):
        fitted.predict(X())


@pytest.mark.parametrize("X", HOSTILE.values(), ids=HOSTILE)
def test_blocks_refuse_indices_out_of_range(X):
    """Also of a single block."""
    with pytest.raises((ValueError, IndexError)):
        SVM(kernel="linear").fit(X(), Y, executor="threads")


@pytest.mark.parametrize("X", HOSTILE.values(), ids=HOSTILE)
def test_certificates_refuse_indices_out_of_range(X):
    """By every certificate that takes sparse samples."""
    with pytest.raises((ValueError, IndexError)):
        certify_svm(X(), Y, w=np.zeros(M), b=0.0, alpha=np.zeros(N))


def test_model_with_bad_indices_is_refused(tmp_path):
    """A file cannot have been made by save_model, which would refuse it too."""
    machine = SVM().fit(DATA, Y)
    save_model(machine, tmp_path / "model")
    assert load_model(tmp_path / "model").estimator.predict(DATA).shape == (N,)
    machine._X.indptr[1] = 10**7
    with pytest.raises(ValueError, match="negative or too large"):
        save_model(machine, tmp_path / "other")


def test_arrays_that_are_not_aligned_are_copied():
    """Compiled code takes numbers at multiples of their size in memory alone."""
    X = DATA.toarray()
    shifted = np.zeros(X.nbytes + 1, np.uint8)[1:].view(float).reshape(X.shape)
    shifted[:] = X
    for machine in MACHINES.values():
        expected = machine.fit(X, Y).decision_function(X)
        assert np.array_equal(machine.fit(shifted, Y).decision_function(shifted), expected)
    sparse = DATA.copy()
    sparse.data = np.zeros(DATA.data.nbytes + 1, np.uint8)[1:].view(float)
    sparse.data[:] = DATA.data
    assert canonical(sparse).data.flags.aligned
