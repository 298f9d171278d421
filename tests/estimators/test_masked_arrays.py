"""Masked entries are missing values, and refused in a sentence; arrays without any are data."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySVM,
    LogisticPolytopes,
    LogisticSearch,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    SigmaSVM,
    certify_svm,
    scale,
)

MAKERS = [
    SVM, SigmaSVM, RelativeMarginMachine, OneNormSVM, CrossEntropySVM, ConvexPolytopeMachine, Polyceptron,
    PCSLP, SPLA1, PLUME, LogisticPolytopes, LogisticSearch,
]  # fmt: skip
MASKED = pytest.raises(ValueError, match=r"(X|y|sample_weight|weights) has .*masked entr.*missing value")


@pytest.fixture(scope="module")
def samples():
    X = np.array([[-2.0, 1.0], [-1.0, 0.0], [-3.0, -1.0], [1.0, 0.0], [2.0, 1.0], [3.0, -1.0]])
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def fitted(samples):
    return ConvexPolytopeMachine(2, random_state=0).fit(*samples)


def masked(values):
    """The array with its last entry masked, of which the data are as good as any."""
    mask = np.zeros(np.shape(values), dtype=bool)
    mask.flat[-1] = True
    return np.ma.array(values, mask=mask)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("what", ["X", "y", "sample_weight"])
def test_a_fit_refuses_masked_entries(make, what, samples):
    """Every estimator refuses samples, labels and weights with masked entries, before it fits anything."""
    data = {"X": samples[0], "y": samples[1], "sample_weight": np.ones(6)}
    with MASKED:
        make().fit(**{**data, what: masked(data[what])})


@pytest.mark.parametrize("make", [SVM, SPLA1, Polyceptron], ids=lambda make: make.__name__)
def test_masked_arrays_without_masked_entries_are_data(make, samples):
    """A masked array without masked entries gives the same machine as its data."""
    X, y = samples
    machine = make().set_params(**({"random_state": 0} if make is not SVM else {}))
    plain = machine.fit(X, y, np.ones(6)).decision_function(X)
    machine.fit(np.ma.array(X), np.ma.array(y), np.ma.array(np.ones(6)))
    assert np.array_equal(machine.decision_function(np.ma.array(X)), plain)


@pytest.mark.parametrize(
    "verb", ["predict", "decision_function", "face_scores", "active_face", "explain_model", "score"]
)
def test_a_fitted_machine_refuses_masked_samples(verb, samples, fitted):
    """Predictions and explanations of masked samples are refused."""
    further = [samples[1]] if verb == "score" else []
    with MASKED:
        getattr(fitted, verb)(masked(samples[0]), *further)


@pytest.mark.parametrize("verb", ["score", "explain_model"])
def test_masked_labels_are_refused_beside_samples(verb, samples, fitted):
    """Labels by which a machine is judged have no masked entries."""
    with MASKED:
        getattr(fitted, verb)(samples[0], masked(samples[1]))


@pytest.mark.parametrize("what", [0, 1], ids=["X", "y"])
def test_streams_and_blocks_refuse_masked_entries(what, samples):
    """partial_fit and the machines of large data follow the rule of fit."""
    data = [masked(each) if place == what else each for place, each in enumerate(samples)]
    with MASKED:
        Polyceptron().partial_fit(*data, classes=[0, 1])
    with MASKED:
        scale.Arrays(*data)
    with MASKED:
        SVM(kernel="linear").fit(*data, executor="threads")
    blocks = scale.Generated(lambda number: scale.Samples(*data), 1)
    with pytest.raises(ValueError, match="masked entries, which are missing values, in partition 0"):
        SVM(kernel="linear").fit(blocks)


def test_certificates_refuse_masked_entries(samples):
    """A certificate is of data without gaps."""
    X, y = samples
    with MASKED:
        certify_svm(masked(X), 2.0 * y - 1, w=np.zeros(2), b=0.0)
