"""Directions that the training samples do not have: no weights in them, and no predictions by them."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.methods import CASES
from sklearn.base import clone

from polyopt import PCSLP, PLUME, Claim, ConvexPolytopeMachine, Polyceptron
from polyopt.linalg.span import SampleSpan, shortest_face, without_idle_faces

pytestmark = pytest.mark.filterwarnings("ignore")  # machines that end early are tried as well

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (np.abs(X[:, 0]) + 0.5 * np.abs(X[:, 1]) + 0.15 * RNG.normal(size=40) < 1.0).astype(int)
# Slow ones, and those whose optima have another last digit for each start.
LEFT_OUT = ["spla1-exact", "spla1-bfgs", "plume-exact", "plume-bfgs", "plume-gradient", "logistic-exact"]
LEFT_OUT += ["ce-svm-exact", "ce-svm-highs", "ce-svm-global"]
MACHINES = {
    str(case): case.make(n_faces=2 if case.solver == "global" else 3, time_limit=2.0)
    for case in CASES
    if "rbf" not in case.name and str(case) not in LEFT_OUT
}
MACHINES["cpm-dual"].set_params(n_init=10)  # a start rises by less than its gap
MACHINES["plume-without-ridge"] = PLUME(3, ridge=0.0, n_init=1, random_state=0)
# Machines whose objective has no norm of the weights, and those whose program has one optimum for one face.
FREE = [name for name in MACHINES if name.split("-")[0] in ("polyceptron", "pc") or "ridge" in name]
CONVEX = ["polyceptron-highs", "polyceptron-exact", "pc-slp-highs", "pc-slp-exact"]
FREE_BIAS = [*FREE, *(name for name in MACHINES if name.startswith(("svm", "sigma-svm", "rmm")))]


def with_column(samples, column):
    return np.column_stack([samples, np.broadcast_to(column, len(samples))])


def fitted(name, samples, y=Y, **settings):
    return clone(MACHINES[name]).set_params(**settings).fit(samples, y)


def weights(machine):
    return machine.W_ if hasattr(machine, "W_") else machine.coef_


@pytest.mark.parametrize("name", MACHINES)
def test_absent_feature_has_no_weight(name):
    """A column of zeros has the weight 0, and predictions do not move with it."""
    machine = fitted(name, with_column(X, 0.0))
    assert (weights(machine)[:, 3] == 0).all()
    scores = machine.decision_function(with_column(X, 0.0))
    assert np.allclose(machine.decision_function(with_column(X, 1e3)), scores, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FREE_BIAS)
def test_constant_feature_has_no_weight(name):
    """If the bias is free, a constant feature goes to it, and predictions do not move with the feature."""
    machine = fitted(name, with_column(X, 3.0))
    scores = machine.decision_function(with_column(X, 3.0))
    assert np.allclose(machine.decision_function(with_column(X, 4.0)), scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MACHINES)
def test_equal_features_have_equal_weights(name):
    """The weight of a feature given twice is split in halves, by which the norm is least."""
    W = weights(fitted(name, with_column(X, X[:, 0])))
    accuracy = 1e-5 if name == "cpm-sgd" else 1e-9  # its random start fades with the steps
    assert np.allclose(W[:, 0], W[:, 3], rtol=accuracy, atol=accuracy * np.abs(W).max())


@pytest.mark.parametrize("name", FREE)
def test_normals_are_combinations_of_differences(name):
    """If features depend on one another, normals have no part orthogonal to all differences of samples."""
    W = weights(fitted(name, with_column(X, X[:, 0] - X[:, 1])))
    orthogonal = np.array([1.0, -1.0, 0.0, -1.0])
    assert np.abs(W @ orthogonal).max() <= 1e-9 * np.abs(W).max()


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("column", [0.0, 3.0], ids=["absent", "constant"])
def test_objective_and_claim_stay(name, column):
    """A column without information changes neither the value of one face nor what is proven of it."""
    value = fitted(name, X, n_faces=1).solution_.objective
    machine = fitted(name, with_column(X, column), n_faces=1)
    assert machine.solution_.objective == pytest.approx(value, rel=1e-9)
    certificate = machine.certificate()
    assert certificate.primal_value == pytest.approx(value, rel=1e-9)
    assert certificate.claim is Claim.OPTIMAL


@pytest.mark.parametrize("name", CONVEX)
def test_idle_face_is_constant(name):
    """One face separates the classes, so that the others have no samples outside, and no normal."""
    samples = np.array([[-2.0, 0.5], [-1.0, -0.5], [1.0, 0.5], [2.0, -0.5]])
    machine = fitted(name, samples, np.array([0, 0, 1, 1]))
    needed = np.isin(np.arange(len(machine.W_)), machine.face_scores(samples[:2]).argmin(axis=1))
    assert not machine.W_[~needed].any()
    assert (machine.predict(samples) == [0, 0, 1, 1]).all()


@pytest.mark.parametrize("machine", [Polyceptron(2), ConvexPolytopeMachine(2)], ids=["polyceptron", "cpm"])
def test_stream_has_no_weight_for_unseen_feature(machine):
    """A feature has the weight 0 until a chunk has it."""
    machine.set_params(random_state=0).partial_fit(with_column(X, 0.0), Y, classes=[0, 1])
    assert (machine.W_[:, 3] == 0).all()
    machine.partial_fit(with_column(X, X[:, 0]), Y)
    assert (machine.W_[:, 3] != 0).any()


SEPARATING = {
    "batch": Polyceptron(4, inside_label=1, n_init=2, random_state=0),
    "highs": Polyceptron(4, inside_label=1, n_init=2, random_state=0, solver="highs"),
    "pc-slp": PCSLP(4, inside_label=1, n_init=2, random_state=0),
}


@pytest.mark.parametrize("seed", [0, 6, 7])
@pytest.mark.parametrize("machine", SEPARATING.values(), ids=SEPARATING)
def test_separated_classes_cost_nothing(machine, seed):
    """Faces that separate the classes are certified to cost 0: no margin is short by rounding."""
    samples = np.random.default_rng(seed).normal(size=(40, 2))
    labels = (np.abs(samples).max(axis=1) < 1.0).astype(int)
    found = clone(machine).fit(samples, labels).certificate()
    assert found.primal_value == 0.0
    assert found.claim is Claim.OPTIMAL


# -- the projection ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(30, 6), (5, 9)], ids=["tall", "wide"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_projected_faces_have_equal_scores(seed, shape, container):
    """A projection keeps the scores of the samples, shortens the normals, and is not repeated."""
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 3, shape[1])
    samples[:, 1], samples[:, 2], samples[:, 3] = 0.0, 7.0, samples[:, 0]
    largest = np.abs(samples).max(axis=0) + (samples == 0).all(axis=0)
    W = rng.normal(size=(2, shape[1] + 1)) / np.append(largest, 1.0)
    span = SampleSpan(container(samples))
    found = span.project(W)
    lifted = np.column_stack([samples, np.ones(len(samples))])
    assert np.allclose(lifted @ found.T, lifted @ W.T, rtol=1e-9, atol=1e-9)
    assert (found[:, 1:3] == 0).all()
    assert (np.linalg.norm(found[:, :-1], axis=1) <= np.linalg.norm(W[:, :-1], axis=1)).all()
    assert np.allclose(span.project(found), found, rtol=1e-9, atol=0.0)


def test_independent_features_keep_their_weights(rng):
    """Faces of samples in general position are returned to the last digit."""
    W = rng.normal(size=(3, 5))
    assert SampleSpan(rng.normal(size=(20, 4))).project(W) is W


def test_projection_does_not_leave_the_box():
    """A bias that would have to exceed the radius leaves a face as it is, but for absent features."""
    samples = np.array([[1.0, 2.0, 0.0], [3.0, 2.0, 0.0]])
    W = np.array([[0.5, 1.0, 1.0, 1.0], [0.5, 0.1, 1.0, 0.1]])
    found = SampleSpan(samples).project(W, radius=1.0)
    assert found.tolist() == [[0.5, 1.0, 0.0, 1.0], pytest.approx([0.5, 0.0, 0.0, 0.3])]


@pytest.mark.parametrize("seed", range(3))
def test_shortest_face_is_that_of_a_quadratic_program(seed):
    """Least distance programming finds what a quadratic program does, from a face of any length."""
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    samples, w = rng.normal(size=(25, 3)), rng.normal(size=4)
    y = np.where(samples @ w[:3] + w[3] + 0.5 * rng.normal(size=25) > 0, 1.0, -1.0)
    rows, long = np.column_stack([samples, np.ones(25)]) * y[:, None], 1e4 * w
    v = cp.Variable(4)
    cp.Problem(cp.Minimize(cp.sum_squares(v)), [rows @ v >= np.minimum(1.0, rows @ long)]).solve("CLARABEL")
    found = shortest_face(samples, y, long)
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(v.value), rel=1e-5)
    assert (rows @ found >= np.minimum(1.0, rows @ long) - 1e-6).all()


def test_idle_face_becomes_constant_above_all_scores():
    """The least scores of the samples do not change, whichever face has none of them."""
    samples = np.array([[0.0], [1.0]])
    W = np.array([[1.0, 2.0], [4.0, 9.0], [-1.0, 3.5]])
    found = without_idle_faces(samples, W)
    assert found[[0, 2]].tolist() == W[[0, 2]].tolist()
    assert found[1, 0] == 0
    scores = samples @ found[:, :1].T + found[:, 1]
    assert scores.argmin(axis=1).tolist() == (samples @ W[:, :1].T + W[:, 1]).argmin(axis=1).tolist()
