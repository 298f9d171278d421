"""Models in read-only memory, as joblib maps them from a file."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from polyopt import SVM, ConvexPolytopeMachine, LogisticPolytopes, OneNormSVM, Polyceptron

STREAMS = [
    ConvexPolytopeMachine(random_state=0),
    ConvexPolytopeMachine(random_state=0, inside_label="both"),
    Polyceptron(random_state=0),
]
MACHINES = [SVM(), SVM(kernel="linear"), OneNormSVM(), ConvexPolytopeMachine(n_init=1, random_state=0),
            LogisticPolytopes(n_init=1, random_state=0)]  # fmt: skip


def samples(n_classes):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(40, 3))
    return X, np.digitize(X[:, 0] + 0.3 * rng.normal(size=40), [0.0] if n_classes == 2 else [-0.4, 0.4])


@pytest.fixture
def mapped(tmp_path):
    """A machine whose arrays are read-only, on the disk."""

    def load(machine):
        joblib.dump(machine, tmp_path / "m.joblib")
        return joblib.load(tmp_path / "m.joblib", mmap_mode="r")

    return load


@pytest.mark.parametrize("machine", STREAMS, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_stream_goes_on_from_read_only_memory(machine, n_classes, mapped):
    """With the same faces as in memory that can be written, and the file stays as it was."""
    X, y = samples(n_classes)
    here = clone(machine).partial_fit(X, y)
    there, before = mapped(here), mapped(here).decision_function(X)
    assert (there.partial_fit(X, y).decision_function(X) == here.partial_fit(X, y).decision_function(X)).all()
    assert (before != here.decision_function(X)).any()


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_in_read_only_memory_answers_and_fits(machine, n_classes, mapped):
    """Labels, proof, multipliers, a copy without data, and a further fit."""
    X, y = samples(n_classes)
    here = clone(machine).fit(X, y)
    there = mapped(here)
    assert (there.predict(X) == here.predict(X)).all()
    assert there.certificate().sentence == here.certificate().sentence
    assert there.duals_.equals(here.duals_)
    assert (there.without_data().predict(X) == here.predict(X)).all()
    assert (there.fit(X, y).predict(X) == here.predict(X)).all()
