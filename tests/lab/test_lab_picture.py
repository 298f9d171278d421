"""A picture shows what the estimator and its certificate say, and nothing else."""

import numpy as np
import pytest
from helpers.lab import Client, some_points, values_of

from polyopt.lab.state import machines, read_state

POINTS = some_points()
CONVEX = [
    (name, kernel)
    for name, machine in machines().items() if machine.is_convex for kernel in ("linear", "rbf")
]  # fmt: skip
POLYTOPES = [name for name, machine in machines().items() if machine.method.has_faces]


def state(machine, points=POINTS, method="auto", **settings):
    return {"points": points, "machine": machine, "method": method, "settings": settings}


@pytest.fixture(scope="module")
def client():
    return Client()


@pytest.fixture(scope="module")
def pictures(client):
    states = {pair: state(pair[0], kernel=pair[1]) for pair in CONVEX}
    states |= {name: state(name, n_faces=2) for name in POLYTOPES}
    told = {key: client.ask("solve", state=own) for key, own in states.items()}
    for key, own in states.items():
        client.ask("solve", state=own)  # what is explained is the last picture
        each = [client.ask("explain", sample=i) for i in range(len(POINTS))]
        told[key] |= {"rows": [one["rows"] for one in each], "why": [one["why"] for one in each]}
    return told


def fitted_again(picture):
    """The estimator of a picture's state, fitted by itself."""
    own = read_state(picture["state"])
    settings = {name: value for name, value in own.settings.items() if value is not None}
    return own, own.machine.entry(settings).make(
        own.solver, {**own.machine.entry(settings).settings, **settings}, seed=own.seed
    ).fit(own.X, own.y)


@pytest.mark.parametrize("key", [*CONVEX, *POLYTOPES], ids=str)
def test_numbers_are_estimators_own(pictures, key):
    """Every number of a picture is the estimator's or its certificate's."""
    picture = pictures[key]
    own, estimator = fitted_again(picture)
    told = estimator.certificate().to_dict()
    for name in ("claim", "program", "sentence", "primal_value", "dual_value", "gap"):
        assert picture["certificate"][name] == told[name]
    np.testing.assert_array_equal(picture["samples"]["f"], estimator.decision_function(own.X))
    np.testing.assert_array_equal(picture["samples"]["label"], estimator.predict(own.X))
    frame = estimator.duals_
    assert bool(picture["families"]) == bool(frame["multiplier"].notna().all())
    for family in picture["families"]:
        mine = frame[(frame["letter"] == family["letter"]) & (frame["sample"] >= 0)]
        np.testing.assert_array_equal(family["multiplier"], mine["multiplier"])
        np.testing.assert_array_equal(family["sample"], mine["sample"])
    x0, x1, y0, y1 = picture["view"]
    values, cells = values_of(picture["grid"])
    U, V = np.meshgrid(np.linspace(x0, x1, 72), np.linspace(y0, y1, 72))
    nodes = np.column_stack([U.ravel(), V.ravel()])
    np.testing.assert_allclose(values.ravel(), estimator.decision_function(nodes), rtol=1e-6, atol=1e-6)
    if cells is not None:
        outputs = nodes @ np.array([f["w"] for f in picture["faces"]]).T + [f["b"] for f in picture["faces"]]
        np.testing.assert_array_equal(cells.ravel(), outputs.argmax(axis=1))


def test_optimum_is_proven_by_picture(pictures):
    """Weak duality, worked out anew from the points, the line and the multipliers that are shown."""
    picture = pictures["svm", "linear"]
    X, y = np.array(POINTS)[:, :2], np.array(POINTS)[:, 2]
    C = picture["state"]["settings"]["C"]
    w, b = np.array(picture["line"]["w"]), picture["line"]["b"]
    alpha = np.array(next(f["multiplier"] for f in picture["families"] if f["letter"] == "alpha"))

    def primal(w, b):
        return w @ w / 2 + C * np.maximum(0, 1 - y * (X @ w + b)).sum()

    def dual(alpha):
        return alpha.sum() - ((alpha * y) @ X) @ ((alpha * y) @ X) / 2

    shown = picture["certificate"]
    assert primal(w, b) == pytest.approx(shown["primal_value"], rel=1e-9)
    assert dual(alpha) == pytest.approx(shown["dual_value"], rel=1e-6)
    assert primal(w, b) - dual(alpha) <= 1e-6 * primal(w, b)
    assert primal(1.1 * w, b) - dual(alpha) > 1e-4  # another point is not optimal
    assert abs((1.1 * alpha * np.where(y > 0, 1, 0.9)) @ y) > 1e-3  # and other multipliers are infeasible


@pytest.mark.parametrize("key", [*CONVEX, *POLYTOPES])
def test_words_agree_with_numbers(pictures, key):
    """What a row says in words is what its numbers say."""
    picture = pictures[key]
    if not picture["families"]:
        assert all("no multipliers" in why for why in picture["why"])
        words = [row["words"] for rows in picture["rows"] for row in rows]
        assert all("is not known" in each for each in words), "what is not known is no 0"
        return
    largest = max(abs(m) for family in picture["families"] for m in family["multiplier"])
    for sample, rows in enumerate(picture["rows"]):
        for row in rows:
            assert row["binding"] == (abs(row["multiplier"]) > 1e-6 * largest)
            assert (" = 0" in row["words"]) or row["binding"] or abs(row["slack"] or 0) > 0
            if row["words"].startswith("y f(x) = "):
                said = row["words"].removeprefix("y f(x) = ")
                assert float(said.split()[0].rstrip(";,").replace("−", "-")) == pytest.approx(
                    row["left"], rel=1e-3, abs=1e-3
                )
                relation = next((sign for sign in "<>" if f" {sign} 1" in said), "")
                assert relation == ("" if abs(row["left"] - 1) <= 1e-5 else "<" if row["left"] < 1 else ">")
        is_support = picture["samples"]["support"][sample]
        assert picture["why"][sample].startswith(
            ("It is a support", "It is a centre") if is_support else ("It is no support", "It is no centre")
        )


def test_output_is_on_own_side(pictures):
    """y f of the words is the label times the output that is shown."""
    picture = pictures["rmm", "rbf"]
    for (_, _, label), f, rows in zip(POINTS, picture["samples"]["f"], picture["rows"], strict=True):
        margin = next(row for row in rows if row["row"] == "margin")
        above = next(row for row in rows if row["row"] == "bound_above")
        assert margin["left"] == pytest.approx(label * f, rel=1e-6, abs=1e-6)
        assert above["left"] == pytest.approx(f, rel=1e-6, abs=1e-6)
        assert above["left"] <= picture["state"]["settings"]["B"] + 1e-6


@pytest.mark.parametrize("name", [n for n in POLYTOPES if n not in ("logistic", "plume")])
def test_faces_are_positive_outside(pictures, name):
    """Faces are positive outside, and their labels are those of the samples."""
    picture = pictures[name]
    W, b = (np.array([face[key] for face in picture["faces"]]) for key in ("w", "b"))
    X = np.array(POINTS)[:, :2]
    outside = (X @ W.T + b).max(axis=1) > 0
    inside = picture["inside"]
    np.testing.assert_array_equal(np.where(outside, -inside, inside), picture["samples"]["label"])
    assert sum(face["answers"] for face in picture["faces"]) <= len(POINTS)


def test_point_of_picture_is_explained(client):
    """A sample of the last picture is explained; one that is not there is an error."""
    picture = client.ask("solve", state=state("svm", kernel="linear"), grid=None)
    assert picture["grid"] is None
    assert client.ask("explain", sample=7)["of"] == picture["id"]
    assert client.ask("explain", sample=len(POINTS))["kind"] == "error"
