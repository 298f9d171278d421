"""Samples, labels and parameters that no classifier takes: a sentence each, that names input and remedy.

Every public class with ``fit`` and ``predict`` is asked, and the fit in blocks ("blocks").
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.methods import NAMES as METHOD_NAMES
from helpers.methods import fitted, usual
from sklearn.utils.multiclass import unique_labels

import polyopt
from polyopt import SVM, Hinges, Polyceptron, certify_svm, scale

NAMES = [
    name
    for name in polyopt.__all__
    if hasattr(getattr(polyopt, name), "fit") and hasattr(getattr(polyopt, name), "predict")
]
FRAME = pd.DataFrame(np.arange(36.0).reshape(12, 3) % 7, columns=["length", "width", "height"])
X, Y = FRAME.to_numpy(), np.arange(12) % 2
GAPS = FRAME.mask(FRAME == 6.0).assign(length=FRAME["length"])
OBJECTS = Y.astype(object)
DAYS = pd.Series(np.arange("2020-01-01", "2020-01-13", dtype="datetime64[D]").astype("datetime64[us]"))


def fit(name, samples, labels, **further):
    """Fit a public class, or a linear SVM in blocks, with its default parameters."""
    if name == "blocks":
        return SVM(kernel="linear").fit(samples, labels, executor="threads", **further)
    return getattr(polyopt, name)().fit(samples, labels, **further)


def changed(label):
    """The labels as objects, the first of them another."""
    labels = OBJECTS.copy()
    labels[0] = label
    return labels


def masked(values):
    """The values with their last entry masked."""
    mask = np.zeros(np.shape(values), dtype=bool)
    mask.flat[-1] = True
    return np.ma.array(values, mask=mask)


def objects(value):
    return pd.Series([value] * 12, dtype=object)


SAMPLES = {
    "gaps in a frame": (GAPS, r"X contains NaN in column.*'(width|height)'.*SimpleImputer\(\).*--impute"),
    "gaps in an array": (GAPS.to_numpy(), r"X contains NaN in column.*[12].*SimpleImputer\(\).*--impute"),
    "gaps in a CSR array": (sp.csr_array(GAPS.to_numpy()), r"X contains NaN in columns 1, 2\. Fill the gaps"),
    "infinity": (np.where(X == 6.0, np.inf, X), r"X contains infinity in column.*Replace"),
    "masked": (masked(X), r"X has .*masked entr.*missing value"),
    "one dimension": (X[:, 0], r"Expected 2D array.*X.*\(\d+,\).*Reshape"),
    "no sample": (X[:0], "0 sample|inconsistent numbers of samples"),
    "no feature": (X[:, :0], "0 feature"),
    "complex": (X + 1j, "Complex data not supported: give X.real and X.imag"),
    "texts": (FRAME.astype(object).assign(width="wide"), "could not convert.*put a OneHotEncoder before"),
    "two columns of one name": (FRAME.set_axis(["a", "b", "a"], axis=1), "X has two columns named 'a'"),
}
CELLS = {  # that are no numbers
    "dates": FRAME.assign(width=DAYS),
    "zones": FRAME.assign(width=DAYS.dt.tz_localize("UTC")),
    "spans": FRAME.assign(width=DAYS - DAYS[0]),
    "periods": FRAME.assign(width=pd.period_range("2020", periods=12)),
    "intervals": FRAME.assign(width=pd.interval_range(0, periods=12)),
    "dates alone": FRAME.assign(length=DAYS, width=DAYS, height=DAYS),
    "objects of dates": FRAME.assign(width=objects(DAYS[0])),
    "objects of lists": FRAME.assign(width=objects([1])),
    "objects with NA": FRAME.assign(width=objects(pd.NA)),
    "polars dates": lambda pl: pl.from_pandas(FRAME).with_columns(width=pl.Series(DAYS.to_numpy())),
    "polars lists": lambda pl: pl.from_pandas(FRAME).with_columns(width=pl.Series([[1]] * 12)),
}
LABELS = {
    "texts and numbers": (changed("a"), "y has labels of several kinds, number and str: make all of them"),
    "texts and numbers, a list": (changed("a").tolist(), "y has labels of several kinds, number and str"),
    "real numbers": (np.linspace(0, 1, 12), "Unknown label type: continuous. y has 12.*give classes"),
    "numbers as objects": (OBJECTS, r"Unknown label type: y is an array of objects.*y\.astype\(int\)"),
    "one class": (np.ones(12), "two classes.*the data has one class"),
    "too few": (Y[:7], "X and y have inconsistent numbers of samples: 12 rows and 7 labels. Give one"),
    "masked": (masked(Y), r"y has .*masked entr.*missing value"),
}
WEIGHTS = {
    "NaN": (np.full(12, np.nan), "[sS]ample.weight"),
    "negative": (-np.ones(12), "sample_weight must be positive and finite"),
    "zero": (np.zeros(12), "at least two classes|zero|positive"),
    "of one class": (Y, "one class"),
    "masked": (masked(np.ones(12)), r"weights? has .*masked entr.*missing value"),
}
by_name = pytest.mark.parametrize("name", NAMES)


REFUSED_DATA = {
    **{f"X, {name}": (samples, Y, None, told) for name, (samples, told) in SAMPLES.items()},
    **{f"y, {name}": (X, labels, None, told) for name, (labels, told) in LABELS.items()},
    **{f"weights, {name}": (X, Y, weights, told) for name, (weights, told) in WEIGHTS.items()},
}


@by_name
@pytest.mark.parametrize(
    ("samples", "labels", "weights", "sentence"), REFUSED_DATA.values(), ids=REFUSED_DATA
)
def test_data_are_refused(name, samples, labels, weights, sentence):
    """Every estimator refuses unusable data in one line: the input, its place, the remedy."""
    with pytest.raises(ValueError, match=sentence) as told:
        fit(name, samples, labels, sample_weight=weights)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", [*NAMES, "blocks"])
@pytest.mark.parametrize("samples", CELLS.values(), ids=CELLS)
def test_cells_without_number_are_refused(name, samples):
    """A column of a frame that holds no numbers is named."""
    if callable(samples):
        samples = samples(pytest.importorskip("polars"))
    with pytest.raises(ValueError, match=r"column '(length|width)'"):
        fit(name, samples, Y)


@pytest.mark.parametrize("name", [*NAMES, "blocks"])
@pytest.mark.parametrize("dates", [DAYS, DAYS - DAYS[0]], ids=["dates", "spans"])
def test_arrays_of_dates_are_refused(name, dates):
    """An array of dates or times is not a matrix of nanoseconds."""
    with pytest.raises(ValueError, match="which is no number"):
        fit(name, dates.to_numpy()[:, None], Y)


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
def test_missing_label_is_refused(name, missing, container):
    """A missing label of any kind, in any container, is refused by the number of its row."""
    labels = np.where(Y, "yes", "no").astype(object)
    labels[7] = MISSING[missing]
    with pytest.raises(ValueError, match=r"the first one in row 7|no label in partition 0, row 7"):
        fit(name, X, CONTAINERS[container](labels))


@pytest.mark.parametrize("name", ["SVM", "ConvexPolytopeMachine", "LogisticSearch", "blocks"])
def test_missing_date_is_missing_label(name):
    """NaT among dates or times that are labels is no class of its own, in any type that holds it."""
    dates = np.where(Y, "2020-01-01", "2021-01-01").astype("datetime64[ns]")
    dates[7] = "NaT"
    for labels in (dates, dates - dates[0], pd.Series(dates), np.array(list(dates), dtype=object)):
        with pytest.raises(ValueError, match=r"the first one in row 7|no label in partition 0, row 7"):
            fit(name, X, labels)


def test_transformer_refuses_samples():
    """Hinges refuse what estimators refuse; they take no CSR array at all."""
    for samples, sentence in SAMPLES.values():
        with pytest.raises((ValueError, TypeError), match=f"{sentence}|Sparse data"):
            Hinges().fit(samples, Y)


@pytest.mark.parametrize("part", [0, 1], ids=["X", "y"])
def test_streams_and_blocks_refuse_masked_entries(part):
    """partial_fit, sources of blocks and certificates follow the rule of fit."""
    data = [masked(each) if place == part else each for place, each in enumerate((X, Y))]
    refused = pytest.raises(ValueError, match=r"(X|y) has .*masked entr.*missing value")
    with refused:
        Polyceptron().partial_fit(*data, classes=[0, 1])
    with refused:
        scale.Arrays(*data)
    with refused:
        fit("blocks", *data)
    with refused:
        certify_svm(masked(X), 2.0 * Y - 1, w=np.zeros(3), b=0.0)
    with pytest.raises(ValueError, match="masked entries, which are missing values, in partition 0"):
        SVM(kernel="linear").fit(scale.Generated(lambda number: scale.Samples(*data), 1))


# -- prediction --------------------------------------------------------------------------------

OTHER = np.random.default_rng(0).normal(size=(5, 3))
REFUSED = {
    "fewer columns": (OTHER[:, :2], "2 features"),
    "fewer columns, CSR": (sp.csr_array(OTHER[:, :2]), "2 features"),
    "one dimension": (OTHER[0], "Expected 2D array"),
    "complex": (OTHER * 1j, "Complex data not supported"),
    "texts": (np.full((5, 3), "x"), "could not convert string"),
    "infinite": (np.where(OTHER > 1, np.inf, OTHER), "X contains infinity"),
    "infinite, CSR": (sp.csr_array(np.where(OTHER > 1, np.inf, OTHER)), "X contains infinity"),
    "gaps": (np.where(OTHER > 1, np.nan, OTHER), r"X contains NaN in columns? .*Fill the gap"),
    "masked": (masked(OTHER), r"X has .*masked entr.*missing value"),
    "dates": (DAYS.to_numpy().reshape(4, 3), "which is no number"),
}


@pytest.mark.parametrize("name", METHOD_NAMES)
@pytest.mark.parametrize(("samples", "sentence"), REFUSED.values(), ids=REFUSED)
def test_prediction_is_refused(name, samples, sentence):
    """A fitted machine refuses samples that it cannot score, with a sentence that says why."""
    machine = fitted(usual(name))
    for answer in (machine.predict, machine.decision_function):
        with pytest.raises(ValueError, match=sentence):
            answer(samples)


@by_name
def test_unfitted_machine_says_so(name):
    """A machine does not answer before its fit."""
    with pytest.raises(ValueError, match="not fitted"):
        getattr(polyopt, name)().predict(X)


def test_many_columns_with_gaps_are_counted():
    """At most five columns are named; the others are counted."""
    with pytest.raises(ValueError, match=r"in columns 0, 1, 2, 3, 4 and 15 more\."):
        SVM().fit(np.full((12, 20), np.nan), Y)


# -- parameters --------------------------------------------------------------------------------

PARAMETERS = {
    "C": [0, -1.0, np.nan, np.inf, "1"],
    "kernel": ["wave"],
    "gamma": [-1.0, "big"],
    "degree": [0, 1.5],
    "coef0": [np.nan],
    "B": [0.999, 0, -1.0, np.nan, "2", None],
    "D": [-0.01, 1.01, np.nan, "half", None],
    "n_faces": [0],
    "n_init": [0],
    "inside_label": ["nowhere"],
    "solver": ["magic"],
    "tol": [0.0, -1.0],
    "max_iter": [0, -1],
    "time_limit": [-1.0, np.inf],
    "class_weight": ["even", {0: 0.0, 1: 1.0}],
    "n_jobs": ["all"],
}


@by_name
@pytest.mark.parametrize("parameter", PARAMETERS)
def test_parameter_is_refused(name, parameter):
    """A parameter out of its range is refused by its name."""
    if parameter not in getattr(polyopt, name)().get_params():
        pytest.skip("it has no such parameter")
    for value in PARAMETERS[parameter]:
        with pytest.raises(ValueError, match=rf"\b{parameter}\b"):
            getattr(polyopt, name)(**{parameter: value}).fit(X, Y)


# -- what is taken -----------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_masked_array_without_gaps_is_taken(name):
    """A masked array without masked entries gives the same machine as its data."""
    machine = usual(name).make()
    expected = machine.fit(X, Y, sample_weight=np.ones(12)).decision_function(X)
    machine.fit(np.ma.array(X), np.ma.array(Y), sample_weight=np.ma.array(np.ones(12)))
    assert np.array_equal(machine.decision_function(np.ma.array(X)), expected)
