"""SPLA1 and what the polyhedral family shares: criteria, cells, logistic regressions, certificates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from formulations import polyhedral, polytope, spla1
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.optim.rounds import Stage, random_faces, run_from_many_starts, run_rounds, run_stages
from polyopt.polyhedral.logistic_certificate import certify_spla1
from polyopt.polyhedral.spla1 import LogisticCells, solve_logistic

RIDGE = 0.05


def square(n=80, seed=0):
    """Points of the plane, those in a square inside."""
    rng = np.random.default_rng(seed)
    X = 1.2 * rng.normal(size=(n, 2))
    return X, np.where(np.abs(X).max(axis=1) < 1, 1.0, -1.0), rng


def slope(function, W, h=1e-6):
    """Gradient by central differences."""
    found = np.zeros_like(W)
    for place in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[place] = h
        found[place] = (function(W + step) - function(W - step)) / (2 * h)
    return found


# -- criteria --------------------------------------------------------------------------------


def test_pull_is_adjoint_of_scores(rng):
    """⟨s(W), R⟩ = ⟨W, pull(R)⟩, for CSR samples too."""
    X, W, R = rng.normal(size=(7, 3)), rng.normal(size=(2, 4)), rng.normal(size=(7, 2))
    assert np.sum(polyhedral.scores(X, W) * R) == pytest.approx(np.sum(W * polyhedral.pull(X, R)))
    assert polyhedral.scores(sp.csr_array(X), W) == pytest.approx(polyhedral.scores(X, W))
    assert polyhedral.pull(sp.csr_array(X), R) == pytest.approx(polyhedral.pull(X, R))


def test_criterion_gradient_is_of_the_misclassified():
    """It is that of differences; the paper's sum over all of each cell is another."""
    X, y, rng = square()
    W, c = rng.normal(size=(4, 3)), rng.uniform(0.5, 2.0, len(y))
    gradient = polyhedral.criterion_gradient(X, y, W, c)
    assert gradient == pytest.approx(slope(lambda V: polyhedral.criterion(X, y, V, c), W), abs=1e-6)
    own = np.eye(4)[polyhedral.cells(X, W)]
    printed = -polyhedral.pull(X, (c * y)[:, None] * own)  # the paper's sum, over all of each cell
    assert np.abs(printed - gradient).max() > 1.0
    assert polyhedral.criterion(X, y, 0 * W) == 0.0
    assert np.abs(polyhedral.criterion_gradient(X, y, 0 * W)).max() > 0  # so it is no place to stay at


def test_scale_by_convention():
    """The margin error rises from t = 0 on, steeply or by little: the scale is a matter of convention."""
    X, y = np.array([[1.0], [-1.0], [0.5]]), np.array([1.0, -1.0, 1.0])
    W = np.array([[-2.0, 0.0]])
    size = np.abs(polyhedral.scores(X, W)).mean()
    for c in (1.0, 1e-3, np.array([1.0, 2.0, 3.0])):
        assert polyhedral.best_scale(X, y, W, c) == pytest.approx(1.0 / size)
    # Two right and one wrong, worth just as much: flat at first, then rising; and nothing but zeros.
    X, W = np.array([[1.0], [-1.0], [-2.0]]), np.array([[1.0, 0.0]])
    assert polyhedral.best_scale(X, y, W) == pytest.approx(3.0 / 4.0)
    assert polyhedral.best_scale(X, y, 0.0 * W) == 1.0


@pytest.mark.parametrize(
    "assignment",
    [
        [0.5, 0.0, 1.0],
        [0.0, 0.0, 1.0 + 1j],
        ["0", "0", "1"],
        [0.0, 0.0, np.nan],
        [0, 0, 2],
        [-1, 0, 1],
        [0, 1],
    ],
)
def test_assignment_names_faces(assignment):
    """A face that is none is refused; entries of samples that need no face are ignored."""
    with pytest.raises(ValueError, match="assignment must"):
        polytope.check_assignment([1.0, -1.0, 1.0], 2, assignment)
    # What stands at those that need no face is ignored.
    assert polytope.check_assignment([1.0, -1.0, 1.0], 2, [0, 7, 1]).tolist() == [0, -1, 1]
    assert polytope.check_assignment([1.0, -1.0, 1.0], 2, [0.0, 0.5, 1.0]).tolist() == [0, -1, 1]


def test_best_scale_is_the_best():
    """No scale of a grid has a lower margin error, unless none is as good."""
    for seed in range(30):
        X, y, rng = square(30, seed)
        W, c = rng.normal(size=(3, 3)), rng.uniform(0.5, 2.0, 30)
        best = polyhedral.margin_error(X, y, polyhedral.best_scale(X, y, W, c) * W, c)
        tried = [polyhedral.margin_error(X, y, t * W, c) for t in np.geomspace(1e-3, 1e3, 300)]
        nothing = polyhedral.margin_error(X, y, 0 * W, c)
        assert best <= min(tried) + 1e-9 or min(tried) >= 0.99 * nothing


def test_separated_classes_scale_to_zero_error(rng):
    """The error of separating planes at their best scale is 0, despite rounding."""
    for _ in range(20):
        X, W = rng.normal(size=(20, 3)), rng.normal(size=(1, 4))
        y = np.sign(polyhedral.scores(X, W)[:, 0])
        assert polyhedral.margin_error(X, y, polyhedral.best_scale(X, y, W) * W) == 0.0


# -- one cell --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["newton", "bfgs"])
def test_cell_is_logistic_regression(method):
    """A cell has scikit-learn's weights and the program's optimum, above its bound."""
    X, y = two_blobs(100, seed=2)
    c = np.where(y > 0, 1.0, 0.4)
    found = solve_logistic(X, y, c, np.zeros(4), ridge=RIDGE, method=method, tol=1e-13)
    lifted = np.column_stack([X, np.ones(100)])
    theirs = LogisticRegression(C=1 / RIDGE, fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(lifted, y, sample_weight=c)
    assert found["w"] == pytest.approx(theirs.coef_[0], abs=1e-5)
    program = spla1.cell(X, y, c, RIDGE).solve()
    assert found.objective == pytest.approx(program.objective, rel=1e-9)
    assert found["w"] == pytest.approx(program["w"], abs=1e-5)
    assert found.bound <= program.objective * (1 + 1e-12)
    assert found.status is Status.SOLVED
    sparse = solve_logistic(sp.csr_array(X), y, c, np.zeros(4), ridge=RIDGE, method=method, tol=1e-13)
    assert sparse["w"] == pytest.approx(found["w"], abs=1e-8)


# -- the alternation -------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from(["random", "ties", "copies", "one point", "flat"]))
@settings(max_examples=10, deadline=None)
def test_no_step_raises_the_loss(seed, kind):
    """With all positives in the program of every face, on awkward data too."""
    X, y, rng = square(40, seed)
    if kind == "ties":
        X = np.round(X)
    elif kind == "copies":
        X[20:] = X[:20]  # with labels that may contradict
    elif kind == "one point":
        y = np.where(np.arange(40) == 7, 1.0, -1.0)
    elif kind == "flat":
        X[:, 1] = 0.0
    y[:2] = 1.0, -1.0
    c = rng.uniform(0.5, 2.0, 40)
    problem = LogisticCells(X, y, c, 3, ridge=RIDGE, positives="all")
    found = run_rounds(problem, problem.start(rng), max_iter=30)
    values = [record["objective"] for record in found.history]
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert found.objective == pytest.approx(
        polyhedral.hard_loss(X, y, found["W"], c, RIDGE, "all"), rel=1e-12
    )


@pytest.mark.parametrize("positives", ["cell", "all"])
def test_faces_are_the_best_for_their_cells(positives):
    """Noise in many features: random faces have a lower loss than any that are fitted to cells."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 12)), np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
    problem = LogisticCells(X, y, np.ones(40), 3, ridge=1e-2, positives=positives)
    W = problem.start(rng)
    found = run_stages([Stage(problem, 5, patience=5)], W)
    assert (problem.value(W) < found.objective) == (positives == "cell")
    given = {"ridge": 1e-2, "positives": positives}
    proof = certify_spla1(X, y, found["W"], assignment=found["assignment"], **given)
    assert proof.relative_gap < 1e-9
    if positives == "cell":
        assert certify_spla1(X, y, found["W"], **given).relative_gap > 0.1
    assert certify_spla1(X, y, 1.01 * found["W"], assignment=found["assignment"], **given).relative_gap > 1e-6


@pytest.mark.parametrize("unused", [0, 2])
def test_unused_face_waits(unused):
    """A face without a cell is kept for the next round, and is not in the point."""
    X, y, _ = square(60, 0)
    W = np.insert(np.array([[1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]]), unused, [0.0, 0.0, 1e6], axis=0)
    made = LogisticCells(X, y, np.ones(60), 3, ridge=RIDGE).round(W, None)
    used = np.delete(np.arange(3), unused)
    assert (made.following[unused] == W[unused]).all()
    assert made.record == {"occupied": 2.0}
    assert made.point["W"] == pytest.approx(made.following[used], abs=0)
    assert used[made.point["assignment"]].tolist() == polyhedral.cells(X, W).tolist()
    assert made.point.objective == pytest.approx(polyhedral.hard_loss(X, y, made.point["W"], ridge=RIDGE))


def test_random_faces_ignore_units_and_order(rng):
    """Moved, rescaled and permuted samples have the same starts."""
    X, y, _ = square(50, 2)
    c = rng.uniform(0.5, 2.0, 50)
    W = random_faces(X, y, c, 3, np.random.default_rng(1))
    order, units = rng.permutation(50), np.array([1e-3, 50.0])
    moved = random_faces((X * units + 5.0)[order], y[order], c[order], 3, np.random.default_rng(1))
    assert polyhedral.scores(X * units + 5.0, moved) == pytest.approx(polyhedral.scores(X, W), abs=1e-9)


# -- certificates ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fixed_point():
    X, y, rng = square(80, 0)
    c = rng.uniform(0.5, 2.0, 80)
    problem = LogisticCells(X, y, c, 3, ridge=RIDGE, positives="all")
    return X, y, c, run_from_many_starts([Stage(problem)], n_init=3)["W"]


def test_fixed_point_is_stationary(fixed_point):
    """Value and bound are those of the programs of its cells."""
    X, y, c, W = fixed_point
    certificate = certify_spla1(X, y, W, ridge=RIDGE, C=c, positives="all")
    assert certificate.claim is Claim.STATIONARY
    members = polyhedral.belonging(y, polyhedral.cells(X, W), 3, "all")
    optimum = sum(spla1.cell(X, y, c * members[:, k], RIDGE).solve().objective for k in range(3))
    assert certificate.dual_value == pytest.approx(optimum, rel=1e-7)
    assert certificate.primal_value == pytest.approx(polyhedral.hard_loss(X, y, W, c, RIDGE, "all"))


def test_perturbed_point_fails(fixed_point):
    """A moved face and a sample in another cell are suboptimal."""
    X, y, c, W = fixed_point
    off = W.copy()
    off[1, 0] += 1e-2
    certificate = certify_spla1(X, y, off, ridge=RIDGE, C=c, positives="all")
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.dual_value < certificate.primal_value
    assert certificate.worst.row == "W"
    natural = polyhedral.cells(X, W)
    other = np.where(np.arange(80) == np.flatnonzero(y < 0)[0], (natural + 1) % 3, natural)
    moved = certify_spla1(X, y, W, ridge=RIDGE, C=c, positives="all", assignment=other)
    assert moved.claim is Claim.SUBOPTIMAL_BY


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": 0.0}, "ridge must be positive"),
        ({"W": np.zeros((2, 2))}, "W must be finite, of shape K x 4"),
        ({"W": np.full((2, 4), np.nan)}, "W must be finite"),
        ({"positives": "some"}, "positives must be"),
        ({"assignment": np.full(60, 2)}, "assignment must be from 0 to 1 at every sample"),
    ],
)
def test_wrong_input_is_refused(change, message):
    """Ridge, faces, positives and assignment are named."""
    X, y = two_blobs(60)
    given_ = {"W": np.ones((2, 4)), "ridge": 1.0, **change}
    with pytest.raises(ValueError, match=message):
        certify_spla1(X, y, given_.pop("W"), **given_)
