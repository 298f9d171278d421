"""Pictures of machines, solutions, certificates, and frames with named columns."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from formulations.language.toy_data import two_blobs
from polyopt import SVM, ConvexPolytopeMachine, OneNormSVM, RelativeMarginMachine
from polyopt.plots import conditions, convergence, decision_boundary, face_weights, multipliers

X, Y = two_blobs(20, 2, 0)
NAMES = ["length", "width"]
FRAME = pd.DataFrame(X, columns=NAMES)
MACHINES = {
    "RBF": SVM(),
    "polytope": ConvexPolytopeMachine(2, random_state=0, solver="exact"),
    "bounded": RelativeMarginMachine(B=1.5, kernel="linear"),
}


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def labels_of(figure):
    return [figure.axes[-1].get_xlabel(), figure.axes[0].get_ylabel()]


@pytest.mark.parametrize("name", MACHINES)
def test_boundary_has_names_of_frame(name):
    """A machine fitted to a frame is drawn with the frame's names, without a warning."""
    machine = MACHINES[name].fit(FRAME, Y)
    assert labels_of(decision_boundary(machine, FRAME, Y)) == NAMES
    assert labels_of(decision_boundary(machine, X, Y)) == NAMES
    assert labels_of(decision_boundary({"one": machine, "two": machine}, FRAME, Y)) == NAMES
    assert labels_of(decision_boundary(machine, FRAME, Y, axis_names=["a", "b"])) == ["a", "b"]
    assert labels_of(decision_boundary(SVM().fit(X, Y), X, Y)) == ["x₁", "x₂"]


@pytest.mark.parametrize("name", MACHINES)
def test_columns_are_found_by_name(name):
    """A frame whose columns are in another order gives the same picture."""
    machine = MACHINES[name].fit(FRAME, Y)
    drawn = [decision_boundary(machine, frame, Y) for frame in (FRAME, FRAME[NAMES[::-1]])]
    first, second = (np.vstack([c.get_offsets() for c in f.axes[0].collections]) for f in drawn)
    np.testing.assert_array_equal(first, second)
    assert labels_of(drawn[0]) == labels_of(drawn[1])


@pytest.mark.parametrize("as_step", [False, True], ids=["machine", "pipeline"])
@pytest.mark.parametrize("draw", [convergence, conditions, multipliers], ids=lambda draw: draw.__name__)
def test_picture_is_made_of_machine(draw, as_step):
    """A fitted machine, or a pipeline that ends with it, is as good as what the picture is made of."""
    machine = SVM().fit(FRAME, Y)
    subject = make_pipeline(StandardScaler(), SVM()).fit(FRAME, Y) if as_step else machine
    assert draw(subject).axes


def test_machine_is_drawn_as_its_parts():
    """The pictures of a machine are those of its history, its certificate and its multipliers."""
    machine = MACHINES["bounded"].fit(X, Y)
    for draw, part in (
        (convergence, machine.history_),
        (conditions, machine.certificate()),
        (lambda one: multipliers(one, B=1.5), machine.duals_),
    ):
        of_machine, of_part = draw(machine), draw(part)
        for one, other in zip(of_machine.axes, of_part.axes, strict=True):
            for line, same in zip(one.lines, other.lines, strict=True):
                np.testing.assert_array_equal(line.get_xydata(), same.get_xydata())
    assert "B" in [text.get_text() for text in multipliers(machine).axes[-1].texts]


def test_faces_are_drawn_of_machine():
    """A machine with faces is explained by the data of its fit."""
    machine = MACHINES["polytope"].fit(FRAME, Y)
    names = {text.get_text() for text in face_weights(machine).axes[0].get_yticklabels()}
    assert names == set(NAMES)


@pytest.mark.parametrize(
    "draw", [convergence, conditions, multipliers, face_weights], ids=lambda d: d.__name__
)
def test_other_subjects_are_refused(draw):
    """What is no machine and no part of one is a TypeError that says what is wanted."""
    with pytest.raises(TypeError, match="machine"):
        draw(3.0)


def test_run_without_records_is_refused():
    """A solver that keeps no objective, and several pairs of classes, are refused in a sentence."""
    with pytest.raises(ValueError, match="no objective by iteration"):
        convergence(OneNormSVM().fit(X, Y))
    three = SVM().fit(X, np.arange(len(Y)) % 3)
    with pytest.raises(ValueError, match="one pair of classes"):
        convergence(three)
    assert three.duals_.columns[-2:].tolist() == ["pair", "state"]


@pytest.mark.parametrize("name", MACHINES)
def test_multiplier_is_seen_at_80_columns(name):
    """A narrow terminal shows the name, the sample, the multiplier and the state of each constraint."""
    machine = MACHINES[name].fit(X, Y)
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        shown = repr(machine.duals_.head()).splitlines()[0].split()
    assert {"row", "sample", "multiplier", "state"} <= set(shown)
