"""Pictures of multipliers and of the metric they imply show what the vectors say."""

import cvxpy as cp
import numpy as np
import pytest
from matplotlib.colors import to_hex

from formulations import rmm
from formulations.rmm import bounding_spread
from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySVM,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    SigmaSVM,
)
from polyopt.plots import multipliers, whitening

MARKERS = ("o", "^", "v", "s", "D", "P", "X", "*")


def blobs(n=60, m=2, seed=0):
    """Two classes spread along a slope, so that a margin that is large is not large relative to it."""
    rng = np.random.default_rng(seed)
    y = np.repeat([-1.0, 1.0], n // 2)
    X = rng.normal(size=(n, m))
    X[:, :2] = X[:, :2] @ [[1.9, 1.2], [1.2, 1.1]]
    X[:, 1] += 0.9 * y
    return X, y


MACHINES = {
    "svm": (SVM(kernel="linear"), ["α"]),
    "rmm": (RelativeMarginMachine(B=1.3, kernel="linear"), ["α", "λ", "λ*"]),
    "one-norm": (OneNormSVM(), ["u", "s at the cap"]),
    "ce-svm": (CrossEntropySVM(solver="one-norm"), ["u", "s at the cap", "s of a centre not used"]),
    "cpm": (ConvexPolytopeMachine(2, solver="exact", n_init=1, random_state=0), ["face 0", "face 1"]),
    "cpm-1": (ConvexPolytopeMachine(1, solver="exact", random_state=0), ["α"]),
    "cpm-9": (ConvexPolytopeMachine(9, solver="exact", n_init=1, random_state=0), ["α"]),
    "cpm-2": (
        ConvexPolytopeMachine(2, solver="exact", n_init=1, inside_label="both", random_state=0),
        [f"{label} outside, face {k}" for label in ("1.0", "-1.0") for k in (0, 1)],
    ),
    "polyceptron": (Polyceptron(2, solver="exact", radius=0.3, random_state=0), ["face 0", "face 1"]),
    "pc-slp": (PCSLP(2, radius=0.3, random_state=0), ["face 0", "face 1"]),
    "spla1": (SPLA1(2, positives="all", n_init=1, random_state=0), ["face 0", "face 1"]),
    "plume": (PLUME(2, n_init=1, random_state=0), ["face 0", "face 1"]),
}


def points(axes):
    return [line for line in axes.lines if line.get_marker() in MARKERS]


@pytest.mark.parametrize("name", MACHINES)
def test_multipliers_are_drawn(name):
    """Every multiplier that holds is drawn by size and at its output, its family by colour and mark."""
    machine, wanted = MACHINES[name]
    X, y = blobs()
    duals = machine.fit(X, y).duals_
    figure = multipliers(duals, B=getattr(machine, "B", np.inf))
    small = 1e-6 * duals["multiplier"].abs().max()
    held = duals[duals["letter"].isin(["alpha", "u", "lam", "lam_star", "s"])]
    held = held[held["multiplier"].abs() > small]
    by_size, by_output = figure.axes
    drawn = np.concatenate([line.get_ydata() for line in points(by_size)])
    np.testing.assert_allclose(np.sort(drawn), np.sort(held["multiplier"]))
    assert all((np.diff(line.get_ydata()) <= 0).all() for line in points(by_size))
    labels = {text.get_text().rpartition(":")[0]: text.get_text() for text in figure.legends[0].get_texts()}
    assert sorted(labels) == sorted(wanted)
    looks = [(to_hex(line.get_color()), line.get_marker()) for line in points(by_size)]
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == len(wanted)
    counts = [int(label.rpartition(":")[2].split(" of ")[0]) for label in labels.values()]
    assert sum(counts) == len(held)
    # A cap says nothing about an output; everything else is drawn where it is, whatever its sign.
    at_outputs = held[held["letter"] != "s"]
    pairs = [np.column_stack(line.get_data()) for line in points(by_output)]
    found = sorted(map(tuple, np.concatenate(pairs).round(9)))
    assert found == sorted(map(tuple, at_outputs[["output", "multiplier"]].to_numpy().round(9)))
    low, high = by_output.get_xlim()
    assert low < at_outputs["output"].min() <= at_outputs["output"].max() < high
    for axes, values in ((by_size, held), (by_output, at_outputs)):
        bottom, top = axes.get_ylim()
        assert bottom <= min(values["multiplier"].min(), 0.0)
        assert values["multiplier"].max() <= top
    marks = {text.get_text() for text in by_output.texts}
    assert marks == (
        {"0"} if name in ("spla1", "plume") else {"−1", "1"} | ({"−B", "B"} if name == "rmm" else set())
    )


def test_no_multiplier_is_said():
    """A picture of multipliers that are all 0 says so."""
    X, y = blobs()
    X = X + 20.0 * y[:, None]
    figure = multipliers(PCSLP(1, random_state=0).fit(X, y).duals_)
    assert [text.get_text() for axes in figure.axes for text in axes.texts] == ["every multiplier is 0"]


def test_unknown_multipliers_are_refused():
    """Multipliers that a solver has not, and those of several pairs at once, are refused."""
    X, y = blobs()
    with pytest.raises(ValueError, match=r"no multipliers \(nan\).*solver='exact'"):
        multipliers(Polyceptron(2, n_init=1, random_state=0).fit(X, y).duals_)
    duals = SVM(kernel="linear").fit(X, np.where(X[:, 0] > 1, 2.0, y)).duals_
    with pytest.raises(ValueError, match="one pair of classes"):
        multipliers(duals)
    one = duals[duals["pair"] == duals["pair"].iloc[0]]
    assert sum(len(line.get_ydata()) for line in points(multipliers(one).axes[0])) > 0


def test_bounded_samples_give_metric():
    """In their metric the RMM is a support vector machine whose mean output at the bounds is pressed to 0."""
    X, y = blobs(m=4)
    C, B = 0.8, 1.4
    at = rmm.qp(X, y, C, B).solve()
    lam, lam_star = at.duals["bound_above"], at.duals["bound_below"]
    mu, Sigma = bounding_spread(X, lam, lam_star, B)
    own = (lam + lam_star) / B
    np.testing.assert_allclose(mu, own @ X / own.sum())
    np.testing.assert_allclose(Sigma, (X - mu).T @ (own[:, None] * (X - mu)), atol=1e-10)
    of_qcqp = rmm.qcqp(X, y, C, B).solve().duals["spread"]
    np.testing.assert_allclose(own, of_qcqp, atol=1e-6 * of_qcqp.max())
    w, b = cp.Variable(4), cp.Variable()
    hinges = C * cp.sum(cp.pos(1 - cp.multiply(y, X @ w + b)))
    spread = cp.sum_squares(np.linalg.cholesky(np.eye(4) + Sigma).T @ w) + own.sum() * cp.square(mu @ w + b)
    cp.Problem(cp.Minimize(0.5 * spread + hinges)).solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    np.testing.assert_allclose(w.value, at["w"], atol=1e-6)
    assert b.value == pytest.approx(float(at["b"]), abs=1e-6)


def ball(axes):
    return next(line.get_xydata() for line in axes.lines if "metric" in str(line.get_label()))


@pytest.mark.parametrize(
    "machine", [RelativeMarginMachine(1.0, 1.5, kernel="linear"), SigmaSVM(1.0, 0.8, kernel="linear")]
)
def test_balls_touch_margins(machine):
    """Circle and ellipse, the balls of both metrics, touch the margins of their machines."""
    X, y = blobs()
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    machine.fit(X, y, sample_weight=weights)
    left, right = whitening(machine).axes
    if isinstance(machine, SigmaSVM):
        metric = 0.2 * np.eye(2) + 0.8 * np.cov(X.T, aweights=weights, bias=True)
    else:
        metric = (
            np.eye(2)
            + bounding_spread(
                X, machine.multipliers_["bound_above"], machine.multipliers_["bound_below"], 1.5
            )[1]
        )
    svm = SVM(1.0, kernel="linear").fit(X, y, sample_weight=weights)
    for axes, own, shape in ((left, svm, np.eye(2)), (right, machine, metric)):
        around = ball(axes)
        f = own.decision_function(around)
        np.testing.assert_allclose([f.min(), f.max()], [-1.0, 1.0], atol=1e-3)  # 200 points around
        d = around - around[:-1].mean(axis=0)
        distances = np.einsum("ij,jk,ik->i", d, np.linalg.inv(shape), d)
        np.testing.assert_allclose(distances, 1.0 / (own.coef_[0] @ shape @ own.coef_[0]), rtol=1e-6)
        assert axes.get_aspect() == 1.0


@pytest.mark.parametrize(
    ("machine", "m", "error", "message"),
    [
        (SVM(kernel="linear"), 2, TypeError, "not of SVM"),
        (RelativeMarginMachine(), 2, ValueError, "kernel='linear', not 'rbf'"),
        (RelativeMarginMachine(kernel="linear"), 3, ValueError, "two features and two classes, not 3 and 2"),
    ],
)
def test_metric_needs_plane(machine, m, error, message):
    """The metric is drawn of a linear machine with bounds and two features."""
    X, y = blobs(m=m)
    with pytest.raises(error, match=message):
        whitening(machine.fit(X, y))
