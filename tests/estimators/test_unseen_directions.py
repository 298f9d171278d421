"""Directions that the training samples do not have: no weights in them, and no predictions by them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    Claim,
    ConvexPolytopeMachine,
    CrossEntropySVM,
    EMSettings,
    LogisticPolytopes,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    SigmaSVM,
)
from polyopt.linalg.span import SampleSpan, shortest_face, without_idle_faces

N_FACES = 3
FREE = {
    "polyceptron-batch": lambda: Polyceptron(N_FACES, solver="batch", n_init=2, random_state=0),
    "polyceptron-online": lambda: Polyceptron(N_FACES, solver="online", n_init=2, random_state=0),
    "polyceptron-highs": lambda: Polyceptron(N_FACES, solver="highs", n_init=2, random_state=0),
    "polyceptron-exact": lambda: Polyceptron(N_FACES, solver="exact", n_init=1, random_state=0),
    "polyceptron-global": lambda: Polyceptron(2, solver="global", n_init=1, time_limit=2, random_state=0),
    "pcslp-highs": lambda: PCSLP(N_FACES, solver="highs", n_init=2, random_state=0),
    "pcslp-exact": lambda: PCSLP(N_FACES, solver="exact", n_init=1, random_state=0),
    "plume-without-ridge": lambda: PLUME(N_FACES, ridge=0.0, n_init=1, random_state=0),
}
"""Machines whose objective has no norm of the weights."""

NORMED = {
    **{
        f"{make.__name__}-{solver}": lambda make=make, solver=solver: make(kernel="linear", solver=solver)
        for make in (SVM, SigmaSVM, RelativeMarginMachine)
        for solver in ("decomposition", "interior-point", "exact")
    },
    "one-norm": lambda: OneNormSVM(kernel="linear"),
    "cross-entropy": lambda: CrossEntropySVM(kernel="linear", random_state=0),
    "cpm-sgd": lambda: ConvexPolytopeMachine(N_FACES, solver="sgd", random_state=0),
    "cpm-dual": lambda: ConvexPolytopeMachine(N_FACES, solver="dual", random_state=0),
    "cpm-exact": lambda: ConvexPolytopeMachine(N_FACES, solver="exact", n_init=2, random_state=0),
    "cpm-global": lambda: ConvexPolytopeMachine(2, solver="global", time_limit=2, random_state=0),
    "spla1": lambda: SPLA1(N_FACES, n_init=2, random_state=0),
    "plume": lambda: PLUME(N_FACES, n_init=2, random_state=0),
    "plume-paper": lambda: PLUME(
        N_FACES, n_init=1, em=EMSettings(anneal=False, polish=False), random_state=0
    ),
    "logistic": lambda: LogisticPolytopes(2, n_init=1, random_state=0),
}
MACHINES = {**FREE, **NORMED}
WITHOUT_PENALISED_BIAS = [*FREE, *(name for name in NORMED if "-" in name and name[0].isupper())]

pytestmark = pytest.mark.filterwarnings("ignore")  # machines that end early are tried as well


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, (np.abs(X[:, 0]) + 0.5 * np.abs(X[:, 1]) + 0.15 * rng.normal(size=40) < 1.0).astype(int)


def with_column(X, column):
    return np.column_stack([X, np.broadcast_to(column, len(X))])


def weights(machine):
    return machine.W_ if hasattr(machine, "W_") else machine.coef_


@pytest.mark.parametrize("name", MACHINES)
def test_a_feature_absent_in_training_has_no_weight(name, samples):
    """A column of zeros has the weight 0, and predictions do not move with it."""
    X, y = samples
    machine = MACHINES[name]().fit(with_column(X, 0.0), y)
    assert (weights(machine)[:, 3] == 0).all()
    scores = machine.decision_function(with_column(X, 0.0))
    assert np.allclose(machine.decision_function(with_column(X, 1e3)), scores, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", WITHOUT_PENALISED_BIAS)
def test_a_feature_constant_in_training_has_no_weight(name, samples):
    """If the bias is free, a constant feature goes to it, and predictions do not move with the feature."""
    X, y = samples
    machine = MACHINES[name]().fit(with_column(X, 3.0), y)
    scores = machine.decision_function(with_column(X, 3.0))
    assert np.allclose(machine.decision_function(with_column(X, 4.0)), scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MACHINES)
def test_equal_features_have_equal_weights(name, samples):
    """The weight of a feature given twice is split in halves, by which the norm is least."""
    X, y = samples
    W = weights(MACHINES[name]().fit(with_column(X, X[:, 0]), y))
    accuracy = 1e-5 if name == "cpm-sgd" else 1e-9  # its random start fades with the steps
    assert np.allclose(W[:, 0], W[:, 3], rtol=accuracy, atol=accuracy * np.abs(W).max())


@pytest.mark.parametrize("name", FREE)
def test_normals_are_combinations_of_differences(name, samples):
    """If features depend on one another, normals have no part orthogonal to all differences of samples."""
    X, y = samples
    X = with_column(X, X[:, 0] - X[:, 1])
    W = weights(FREE[name]().fit(X, y))
    orthogonal = np.array([1.0, -1.0, 0.0, -1.0])
    assert np.abs(W @ orthogonal).max() <= 1e-9 * np.abs(W).max()


@pytest.mark.parametrize("name", [name for name in FREE if "highs" in name or "exact" in name])
@pytest.mark.parametrize("kind", ["absent", "constant"])
def test_the_objective_and_the_claim_stay(name, kind, samples):
    """A column without information changes neither the value that is reached nor what is proven of it."""
    X, y = samples
    machine = FREE[name]().set_params(n_faces=1)  # one face has one optimal value
    value = machine.fit(X, y).solution_.objective
    machine.fit(with_column(X, 0.0 if kind == "absent" else 3.0), y)
    assert machine.solution_.objective == pytest.approx(value, rel=1e-9)
    certificate = machine.certificate()
    assert certificate.primal_value == pytest.approx(value, rel=1e-9)
    assert certificate.claim is Claim.OPTIMAL


@pytest.mark.parametrize("name", [name for name in FREE if "highs" in name or "exact" in name])
def test_a_face_without_samples_outside_is_a_constant(name):
    """One face separates the classes, so that the others have no samples outside, and no normal."""
    X = np.array([[-2.0, 0.5], [-1.0, -0.5], [1.0, 0.5], [2.0, -0.5]])
    machine = FREE[name]().fit(X, np.array([0, 0, 1, 1]))
    needed = np.isin(np.arange(len(machine.W_)), machine.face_scores(X[:2]).argmin(axis=1))
    assert not machine.W_[~needed].any()
    assert (machine.predict(X) == [0, 0, 1, 1]).all()


@pytest.mark.parametrize("machine", [Polyceptron(2), ConvexPolytopeMachine(2)], ids=["polyceptron", "cpm"])
def test_a_stream_has_no_weights_for_what_it_has_not_seen(machine, samples):
    """A feature has the weight 0 until a chunk has it."""
    X, y = samples
    machine.set_params(random_state=0).partial_fit(with_column(X, 0.0), y, classes=[0, 1])
    assert (machine.W_[:, 3] == 0).all()
    machine.partial_fit(with_column(X, X[:, 0]), y)
    assert (machine.W_[:, 3] != 0).any()


# -- the parts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(30, 6), (5, 9)], ids=["tall", "wide"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_projected_faces_have_the_same_scores(seed, shape, container):
    """A projection keeps the scores of the samples, shortens the normals, and is not repeated."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 3, shape[1])
    X[:, 1], X[:, 2], X[:, 3] = 0.0, 7.0, X[:, 0]
    W = rng.normal(size=(2, shape[1] + 1)) / np.append(np.abs(X).max(axis=0) + (X == 0).all(axis=0), 1.0)
    span = SampleSpan(container(X))
    found = span.project(W)
    lifted = np.column_stack([X, np.ones(len(X))])
    assert np.allclose(lifted @ found.T, lifted @ W.T, rtol=1e-9, atol=1e-9)
    assert (found[:, 1:3] == 0).all()
    assert (np.linalg.norm(found[:, :-1], axis=1) <= np.linalg.norm(W[:, :-1], axis=1)).all()
    assert np.allclose(span.project(found), found, rtol=1e-9, atol=0.0)


def test_independent_features_keep_their_weights():
    """Faces of samples in general position are returned to the last digit."""
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(20, 4)), rng.normal(size=(3, 5))
    assert SampleSpan(X).project(W) is W


def test_a_projection_does_not_leave_the_box():
    """A bias that would have to exceed the radius leaves a face as it is, but for absent features."""
    X = np.array([[1.0, 2.0, 0.0], [3.0, 2.0, 0.0]])
    W = np.array([[0.5, 1.0, 1.0, 1.0], [0.5, 0.1, 1.0, 0.1]])
    found = SampleSpan(X).project(W, radius=1.0)
    assert found.tolist() == [[0.5, 1.0, 0.0, 1.0], pytest.approx([0.5, 0.0, 0.0, 0.3])]


@pytest.mark.parametrize("seed", range(4))
def test_the_shortest_face_is_that_of_a_quadratic_program(seed):
    """Least distance programming finds what a quadratic program does, from a face of any length."""
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 3))
    w = rng.normal(size=4)
    y = np.where(X @ w[:3] + w[3] + 0.5 * rng.normal(size=25) > 0, 1.0, -1.0)
    rows = np.column_stack([X, np.ones(25)]) * y[:, None]
    long = 1e4 * w
    v = cp.Variable(4)
    cp.Problem(cp.Minimize(cp.sum_squares(v)), [rows @ v >= np.minimum(1.0, rows @ long)]).solve("CLARABEL")
    found = shortest_face(X, y, long)
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(v.value), rel=1e-5)
    assert (rows @ found >= np.minimum(1.0, rows @ long) - 1e-6).all()


def test_an_idle_face_becomes_a_constant_above_all_scores():
    """The least scores of the samples do not change, whichever face has none of them."""
    X = np.array([[0.0], [1.0]])
    W = np.array([[1.0, 2.0], [4.0, 9.0], [-1.0, 3.5]])
    found = without_idle_faces(X, W)
    assert found[[0, 2]].tolist() == W[[0, 2]].tolist()
    assert found[1, 0] == 0
    scores = X @ found[:, :1].T + found[:, 1]
    assert scores.argmin(axis=1).tolist() == (X @ W[:, :1].T + W[:, 1]).argmin(axis=1).tolist()


@pytest.mark.parametrize("seed", [0, 6, 7, 10])
@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(Polyceptron(4, inside_label=1, n_init=2, random_state=0), id="batch"),
        pytest.param(Polyceptron(4, inside_label=1, n_init=2, random_state=0, solver="highs"), id="highs"),
        pytest.param(PCSLP(4, inside_label=1, n_init=2, random_state=0), id="pc-slp"),
    ],
)
def test_separated_classes_cost_exactly_nothing(machine, seed):
    """Faces that separate the classes are certified to cost 0: no margin is short by rounding."""
    X = np.random.default_rng(seed).normal(size=(40, 2))
    found = clone(machine).fit(X, (np.abs(X).max(axis=1) < 1.0).astype(int)).certificate()
    assert found.primal_value == 0.0
    assert found.claim is Claim.OPTIMAL
