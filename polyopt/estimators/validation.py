"""Validation of samples, labels and weights, with error messages that name the input and a remedy.

It adds checks to scikit-learn's ``validate_data``, and replaces its usual errors by more precise ones.
"""

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_array, validate_data

from formulations.language.arguments import as_weights, refuse_masked
from formulations.language.types import Matrix, canonical, check_indices
from polyopt.base.text import first_of
from polyopt.base.types import ClassWeight
from polyopt.estimators.frames import check_unique, is_frame, is_missing, matrix_of_frame, refuse_dates

MAX_TOTAL = 1e304
"""Largest sum of weights for which products with outputs do not overflow."""

MIN_TOTAL = 1e-300
"""Smallest positive sum of weights whose reciprocal does not overflow."""


def checked_weights(sample_weight: ArrayLike | None, X: Matrix) -> NDArray[np.float64]:
    """Return the weights (n,) of the samples, by default ones; raise ValueError for negative weights."""
    n = X.shape[0]
    if sample_weight is None:
        return np.ones(n)
    weights = as_weights(sample_weight, n, "sample_weight")
    check_total(weights)
    return weights


def check_total(weights: NDArray[np.float64]) -> None:
    """Raise ValueError for weights whose sums, products or quotients may overflow."""
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total > MAX_TOTAL or 0 < total < MIN_TOTAL:
        limit = f"at most {MAX_TOTAL:g}" if total > 1 else f"at least {MIN_TOTAL:g}"
        raise ValueError(
            f"sample_weight, times the class's weight, must add up to {limit}, not {total:.3g}: products "
            "leave double precision. Divide the weights by their mean"
        )


def class_weights(
    class_weight: ClassWeight, classes: NDArray[Any], codes: NDArray[Any], weights: NDArray[Any]
) -> NDArray[Any]:
    """Return the weight of each class; "balanced" gives every class the same total.

    codes, weights (n,): index of the class, and weight, of each sample.
    Raise ValueError for class weights that are not positive numbers, and for unknown labels.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):  # "balanced"
        totals = np.bincount(codes, weights)
        return weights.sum() / (len(totals) * totals)
    labels = classes.tolist()
    # Not by scikit-learn's function, which takes the label "1" for the number 1, and 1.5 for 1. Labels
    # without a weight have weight 1, but are refused if class_weight has unknown labels too.
    missing = [label for label in labels if label not in class_weight]
    if missing and len(labels) - len(missing) != len(class_weight):
        raise ValueError(
            f"class_weight has the labels {list(class_weight)}, and none for {missing} of {labels}"
        )
    try:
        per_class = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    except (TypeError, ValueError):
        raise ValueError(f"class_weight must be numbers, not {class_weight!r}") from None
    if not (np.isfinite(per_class) & (per_class > 0)).all():
        raise ValueError(f"class_weight must be positive and finite, not {class_weight!r}")
    return per_class


_LABEL_KINDS = "biuU"  # numpy kinds of labels that need no check, which would take a tenth of a small fit
_CELL_ERRORS = ("setting an array element with a sequence", "Cannot cast")  # messages of numpy and pandas


def validated(estimator: Any, X: Any, **options: Any) -> Any:
    """Return ``validate_data(estimator, X, **options)``, with errors that name columns and a remedy.

    Raise ValueError also for masked entries, dates, and two columns of the same name. Repeated entries of
    sparse samples are summed.
    """
    return canonical(_validated(estimator, X, "no_validation", options))


def validated_pair(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
    """Return ``validate_data(estimator, X, y, **options)``, samples and labels, as :func:`validated`."""
    samples, labels = _validated(estimator, X, y, options)
    return canonical(samples), labels


def _validated(estimator: Any, X: Any, y: Any, options: dict[str, Any]) -> Any:
    refuse_masked("X", X)
    check_indices(X)
    check_unique("X", getattr(X, "columns", ()))
    refuse_dates(X)
    refuse_masked("y", y)
    if y is not None and not isinstance(y, str):  # "no_validation"
        check_label_kinds(y)
    try:
        return validate_data(estimator, X, y, **options)
    except (TypeError, ValueError) as error:
        raise _explained(error, type(estimator).__name__, X, y) from None


def check_targets(name: str, labels: NDArray[Any]) -> None:
    """Raise ValueError for labels that are not classes: real numbers, or objects that are not texts."""
    if labels.dtype.kind in _LABEL_KINDS:
        return
    try:
        check_classification_targets(labels)
    except ValueError:
        if labels.dtype.kind == "f":
            raise ValueError(
                f"Unknown label type: continuous. y has {len(np.unique(labels))} different real numbers, and "
                f"{name} is a classifier: give classes, such as y > {np.median(labels):.3g}"
            ) from None
        if labels.dtype != object:
            raise
        [kind] = _kinds(labels)
        conversion = "y.astype(int)" if kind == "number" else "y.astype(str)"
        raise ValueError(
            f"Unknown label type: y is an array of objects of kind {kind}. Give {name} an array of numbers "
            f"or texts: {conversion}"
        ) from None


def check_label_kinds(y: ArrayLike) -> None:
    """Raise ValueError for missing labels, and for texts among numbers, which numpy would turn into texts."""
    labels = y if isinstance(y, (list, tuple)) else np.asarray(y)
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "mM" and np.isnat(labels).any():
        raise _missing_label_error(list(labels))
    if isinstance(labels, np.ndarray) and (labels.dtype != object or labels.ndim != 1):
        return
    if any(map(is_missing, labels)):
        raise _missing_label_error(labels)
    kinds = sorted(_kinds(labels))
    if len(kinds) > 1:
        raise ValueError(
            f"y has labels of several kinds, {' and '.join(kinds)}: make all of them texts, "
            "[str(label) for label in y], or all of them numbers"
        )


def _kinds(labels: Iterable[object]) -> set[str]:
    """Return the names of the types of labels; all numbers and booleans are "number"."""
    return {
        "number" if issubclass(kind, (Real, np.number, np.bool_)) else "str" if issubclass(kind, str)
        else kind.__name__
        for kind in set(map(type, labels))
    }  # fmt: skip


def _missing_label_error(y: Any) -> ValueError:
    labels = np.asarray(y, dtype=object).ravel().tolist()
    missing = [row for row, label in enumerate(labels) if is_missing(label)]
    return ValueError(
        f"Input y contains NaN: {len(missing)} of {len(labels)} labels are missing, the first one in row "
        f"{missing[0]}. Leave these samples out, or give them labels"
    )


def _explained(error: Exception, name: str, X: Any, y: Any) -> Exception:
    """Return a more precise error for one of scikit-learn, or the same error."""
    text = str(error)
    if is_frame(X) and (isinstance(error, TypeError) or text.startswith(_CELL_ERRORS)):
        return _cell_error(error, name, X)
    if "could not convert string to float" in text:
        return ValueError(f"{text}: put a OneHotEncoder before, which makes features of texts")
    if text.startswith(("Input X contains NaN", "Input X contains infinity")):
        return _missing_value_error(X, name, "NaN" if "X contains NaN" in text else "infinity")
    if text.startswith("Input y contains NaN"):
        return _missing_label_error(y)
    if "Expected 2D array" in text:
        return ValueError(
            f"Expected 2D array of shape (samples, features) for X, got shape {np.shape(X)}. "
            "Reshape your data: np.reshape(X, (-1, 1)) if it is a single feature, "
            "np.reshape(X, (1, -1)) if it is a single sample"
        )
    if "inconsistent numbers of samples" in text:
        return ValueError(
            f"X and y have inconsistent numbers of samples: {_num_samples(X)} rows and {_num_samples(y)} "
            "labels. Give one label for each row"
        )
    if "Complex data not supported" in text:
        return ValueError("Complex data not supported: give X.real and X.imag as separate features")
    return error


def _cell_error(error: Exception, name: str, frame: Any) -> Exception:
    """Return an error that names the first column of a frame that is not numeric, or the same error."""
    try:
        values = matrix_of_frame(frame)
    except ValueError as column_error:
        return column_error
    return _missing_value_error(frame, name, "NaN") if np.isnan(values).any() else error


def _missing_value_error(X: Any, name: str, value: str) -> ValueError:
    """Return an error that names the columns with NaN, or with infinite values, and a remedy."""
    values: Any
    if is_frame(X) and value == "NaN":
        values = matrix_of_frame(X)
    else:
        values = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False)
    is_bad = np.isnan if value == "NaN" else np.isinf
    if sp.issparse(values):
        bad = np.unique(values.indices[is_bad(values.data)])
    else:
        bad = np.flatnonzero(is_bad(values).any(axis=0))
    columns = list(X.columns) if hasattr(X, "columns") else range(values.shape[1])
    named = first_of([repr(columns[number]) for number in bad], 5)
    remedy = (
        f"Fill the gaps before the machine, make_pipeline(SimpleImputer(), {name}()), or on the command line "
        "with polyopt fit --impute median"
        if value == "NaN"
        else "Replace these values by numbers, or leave their rows out"
    )
    return ValueError(f"Input X contains {value} in column{'s' if len(bad) > 1 else ''} {named}. {remedy}")
