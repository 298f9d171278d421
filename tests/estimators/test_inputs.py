"""Samples and labels that no classifier takes: one sentence each, that names the input and the remedy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.utils.multiclass import unique_labels

import polyopt
from polyopt import SVM, Hinges

NAMES = [
    name
    for name in polyopt.__all__
    if hasattr(getattr(polyopt, name), "fit") and hasattr(getattr(polyopt, name), "predict")
]
FRAME = pd.DataFrame(np.arange(36.0).reshape(12, 3) % 7, columns=["length", "width", "height"])
X, Y = FRAME.to_numpy(), np.arange(12) % 2
GAPS = FRAME.mask(FRAME == 6.0).assign(length=FRAME["length"])
OBJECTS = Y.astype(object)


def made(name):
    return getattr(polyopt, name)()


def changed(label):
    labels = OBJECTS.copy()
    labels[0] = label
    return labels


REFUSED = {
    "gaps in a frame": (GAPS, Y, r"X contains NaN in column.*'(width|height)'.*SimpleImputer\(\).*--impute"),
    "gaps in an array": (GAPS.to_numpy(), Y, r"X contains NaN in column.*[12].*SimpleImputer\(\).*--impute"),
    "infinity": (np.where(X == 6.0, np.inf, X), Y, r"X contains infinity in column.*Replace"),
    "one dimension": (X[:, 0], Y, r"Expected 2D array.*X.*\(\d+,\).*Reshape"),
    "complex": (X + 1j, Y, "Complex data not supported: give X.real and X.imag"),
    "texts": (FRAME.astype(object).assign(width="wide"), Y, r"could not convert.*put a OneHotEncoder before"),
    "texts and numbers": (X, changed("a"), "y has labels of several kinds, number and str: make all of them"),
    "texts and numbers, a list": (X, changed("a").tolist(), "y has labels of several kinds, number and str"),
    "two columns of one name": (FRAME.set_axis(["a", "b", "a"], axis=1), Y, "X has two columns named 'a'"),
    "real numbers": (X, np.linspace(0, 1, 12), "Unknown label type: continuous. y has 12.*give classes"),
    "numbers as objects": (X, OBJECTS, r"Unknown label type: y is an array of objects.*y\.astype\(int\)"),
    "one class": (X, np.ones(12), "two classes.*the data has one class"),
    "too few": (X, Y[:7], "X and y have inconsistent numbers of samples: 12 rows and 7 labels. Give one"),
}


@pytest.mark.parametrize(("samples", "labels", "sentence"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("name", NAMES)
def test_what_no_classifier_takes_is_refused_in_a_line(name, samples, labels, sentence):
    """Every estimator refuses unusable samples and labels with one line: the input, its place, the remedy."""
    with pytest.raises(ValueError, match=sentence) as told:
        made(name).fit(samples, labels)
    assert "\n" not in str(told.value)
    assert "HistGradientBoosting" not in str(told.value)


MISSING = {"None": None, "NaN": np.nan, "NA": pd.NA, "NaT": pd.NaT}
CONTAINERS = {
    "array": np.asarray,
    "list": list,
    "series": pd.Series,
    "texts": lambda labels: pd.Series(labels).astype("string"),
    "category": lambda labels: pd.Series(labels).astype("category"),
}


@pytest.mark.parametrize(
    ("name", "missing", "container"),
    [(name, "NaN", "array") for name in NAMES]
    + [(name, *pair) for name in ("SVM", "blocks") for pair in product(MISSING, CONTAINERS)],
)
def test_missing_labels_are_refused(name, missing, container):
    """A missing label of any kind, in any container, is refused by the number of its row."""
    labels = np.where(Y, "yes", "no").astype(object)
    labels[7] = MISSING[missing]
    estimator, given = (
        (SVM(kernel="linear"), {"executor": "threads"}) if name == "blocks" else (made(name), {})
    )
    with pytest.raises(ValueError, match=r"the first one in row 7|no label in partition 0, row 7"):
        estimator.fit(X, CONTAINERS[container](labels), **given)


@pytest.mark.parametrize("name", ["SVM", "ConvexPolytopeMachine", "LogisticSearch", "blocks"])
def test_missing_dates_are_missing_labels(name):
    """NaT among dates or times that are labels is no class of its own, in any type that holds it."""
    dates = np.where(Y, "2020-01-01", "2021-01-01").astype("datetime64[ns]")
    dates[7] = "NaT"
    estimator, given = (
        (SVM(kernel="linear"), {"executor": "threads"}) if name == "blocks" else (made(name), {})
    )
    for labels in (dates, dates - dates[0], pd.Series(dates), np.array(list(dates), dtype=object)):
        with pytest.raises(ValueError, match=r"the first one in row 7|no label in partition 0, row 7"):
            estimator.fit(X, labels, **given)


@pytest.mark.parametrize("transformer", [Hinges(), SVM(kernel="linear")], ids=str)
def test_two_columns_of_one_name_are_refused(transformer):
    """Transformers and out-of-core machines refuse two columns of one name as well."""
    with pytest.raises(ValueError, match="X has two columns named 'a'"):
        transformer.fit(FRAME.set_axis(["a", "b", "a"], axis=1), Y)
    with pytest.raises(ValueError, match="X has two columns named 'a'"):
        SVM(kernel="linear").fit(FRAME.set_axis(["a", "b", "a"], axis=1), Y, executor="threads")


@pytest.mark.parametrize("name", ["SVM", "ConvexPolytopeMachine", "LogisticPolytopes", "LogisticSearch"])
def test_gaps_of_a_sparse_matrix_are_refused_alike(name):
    """Stored entries that are NaN are refused by the numbers of their columns."""
    with pytest.raises(ValueError, match=r"X contains NaN in columns 1, 2\. Fill the gaps"):
        made(name).fit(sp.csr_array(GAPS.to_numpy()), Y)


@pytest.mark.parametrize("samples", [GAPS, GAPS.to_numpy()], ids=["frame", "array"])
def test_gaps_at_prediction_are_refused_alike(samples):
    """A fitted machine names the columns with gaps as fit does."""
    machine = SVM().fit(samples.fillna(0) if samples is GAPS else X, Y)
    with pytest.raises(
        ValueError, match=r"X contains NaN in columns ('width', 'height'|1, 2)\. Fill the gaps"
    ):
        machine.predict(samples)


def test_many_columns_with_gaps_are_counted():
    """At most five columns are named; the others are counted."""
    with pytest.raises(ValueError, match=r"in columns 0, 1, 2, 3, 4 and 15 more\."):
        SVM().fit(np.full((12, 20), np.nan), Y)


@pytest.mark.parametrize(
    "labels",
    [Y, Y.astype(bool), Y.astype(float), np.where(Y, "yes", "no"), np.where(Y, "yes", "no").astype(object)],
    ids=["int", "bool", "float", "str", "object of str"],
)
@pytest.mark.parametrize("as_list", [False, True], ids=["array", "list"])
def test_labels_of_one_kind_are_taken(labels, as_list):
    """Labels of one kind are classes, as an array and as a list."""
    machine = SVM().fit(X, labels.tolist() if as_list else labels)
    assert machine.classes_.tolist() == unique_labels(labels).tolist()
