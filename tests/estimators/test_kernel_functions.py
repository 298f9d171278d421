"""Kernels that are functions: dense and sparse values, and one sentence for any other."""

import numpy as np
import pytest
import scipy.sparse as sp

from polyopt import CrossEntropySVM, OneNormSVM, RelativeMarginMachine, SigmaSVM

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=24) > 0, 1, -1)
MACHINES = {
    "sigma-svm": SigmaSVM(),
    "rmm": RelativeMarginMachine(),
    "cross-entropy": CrossEntropySVM(random_state=0),
}
by_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
by_samples = pytest.mark.parametrize("put", [np.array, sp.csr_array], ids=["dense", "sparse"])


def dense(A, B):
    product = A @ B.T
    return product.toarray() if sp.issparse(product) else product


@by_machine
@by_samples
@pytest.mark.parametrize("form", [sp.csr_array, sp.coo_matrix])
def test_kernel_may_have_sparse_values(machine, put, form):
    """A kernel whose values are a sparse matrix is the one with dense values."""
    found = machine.set_params(kernel=lambda A, B: form(dense(A, B))).fit(put(X), Y)
    scores, certificate = found.decision_function(put(X)), found.certificate()
    expected = machine.set_params(kernel=dense).fit(put(X), Y)
    assert np.array_equal(scores, expected.decision_function(put(X)))
    assert certificate.claim is expected.certificate().claim


VALUES = {
    "one number": lambda K: 3.0,
    "diagonal": lambda K: K.diagonal(),
    "another shape": lambda K: K[:, :-1],
    "texts": lambda K: K.astype(str),
    "None": lambda K: None,
    "complex numbers": lambda K: K + 1j,
    "NaN": lambda K: K + np.nan,
}


@by_samples
@pytest.mark.parametrize("machine", [RelativeMarginMachine(), OneNormSVM()], ids=["rmm", "one-norm"])
@pytest.mark.parametrize("change", VALUES.values(), ids=VALUES)
def test_other_values_are_refused(machine, put, change):
    """Any other value is refused in one sentence with the kernel's name and the shape it should have."""

    def own_kernel(A, B):
        return change(dense(A, B))

    with pytest.raises(ValueError, match=r"kernel own_kernel must .* shape \(\d+, \d+\)"):
        machine.set_params(kernel=own_kernel).fit(put(X), Y)


@pytest.mark.parametrize("machine", [OneNormSVM(), CrossEntropySVM(random_state=0)], ids=["one-norm", "l0"])
def test_values_may_be_whole_numbers(machine):
    """Values of an integer type are taken as numbers, where a kernel need not be semidefinite."""
    machine.set_params(kernel=lambda A, B: np.rint(dense(A, B)).astype(int))
    assert machine.fit(3.0 * X, Y).score(3.0 * X, Y) > 0.5


@by_machine
def test_masked_values_are_refused(machine):
    """A kernel whose matrix has masked entries is refused in fit, as masked samples are."""
    machine.set_params(kernel=lambda A, B: np.ma.masked_greater(dense(A, B), 1.0))
    with pytest.raises(ValueError, match=r"the kernel's matrix has .*masked entries.*missing values"):
        machine.fit(X, Y)
