"""Kernels that are functions: dense and sparse values, and one sentence for any other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from polyopt import CrossEntropySVM, OneNormSVM, RelativeMarginMachine, SigmaSVM

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=30) > 0, 1, -1)

by_machine = pytest.mark.parametrize(
    "machine", [SigmaSVM(), RelativeMarginMachine(), CrossEntropySVM(random_state=0)]
)
by_samples = pytest.mark.parametrize("put", [np.array, sp.csr_array], ids=["dense", "sparse"])


def dense(A, B):
    product = A @ B.T
    return product.toarray() if sp.issparse(product) else product


def sparse(A, B):
    return sp.csr_array(dense(A, B))


def coordinates(A, B):
    return sp.coo_matrix(dense(A, B))


def whole_numbers(A, B):
    return np.rint(dense(A, B)).astype(int)


@by_machine
@by_samples
@pytest.mark.parametrize("kernel", [sparse, coordinates])
def test_sparse_values(machine, put, kernel):
    """A kernel whose values are a sparse matrix is the one with dense values."""
    found = machine.set_params(kernel=kernel).fit(put(X), Y)
    scores, certificate = found.decision_function(put(X)), found.certificate()
    expected = machine.set_params(kernel=dense).fit(put(X), Y)
    assert np.array_equal(scores, expected.decision_function(put(X)))
    assert certificate.claim is expected.certificate().claim


def one_number(A, B):
    return 3.0


def diagonal(A, B):
    return dense(A, B).diagonal()


def transposed(A, B):
    return dense(A, B)[:, :-1]


def texts(A, B):
    return dense(A, B).astype(str)


def none(A, B):
    return None


def complex_numbers(A, B):
    return dense(A, B) + 1j


def not_finite(A, B):
    return dense(A, B) + np.nan


@by_samples
@pytest.mark.parametrize("machine", [RelativeMarginMachine(), OneNormSVM()])
@pytest.mark.parametrize(
    "kernel", [one_number, diagonal, transposed, texts, none, complex_numbers, not_finite]
)
def test_other_values(machine, put, kernel):
    """Any other value is refused in one sentence with the kernel's name and the shape it should have."""
    with pytest.raises(ValueError, match=rf"kernel {kernel.__name__} must .* shape \(\d+, \d+\)"):
        machine.set_params(kernel=kernel).fit(put(X), Y)


@pytest.mark.parametrize("machine", [OneNormSVM(), CrossEntropySVM(random_state=0)])
def test_whole_numbers(machine):
    """Values of an integer type are taken as numbers, where a kernel need not be semidefinite."""
    wide = 3.0 * X
    assert machine.set_params(kernel=whole_numbers).fit(wide, Y).score(wide, Y) > 0.5


@by_machine
def test_masked_values_of_a_kernel_are_refused(machine):
    """A kernel whose matrix has masked entries is refused in fit, as masked samples are."""
    masked = clone(machine).set_params(kernel=lambda A, B: np.ma.masked_greater(dense(A, B), 1.0))
    with pytest.raises(ValueError, match=r"the kernel's matrix has .*masked entries.*missing values"):
        masked.fit(X, Y)
