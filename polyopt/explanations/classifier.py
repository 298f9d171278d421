"""A fitted classifier with faces as the input of explanations: its polytopes, and its training samples."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from formulations.language.types import Array
from polyopt.explanations.decision_model import Column, DecisionModel


def decision_model_of(machine: Any) -> DecisionModel:
    """Return the decision model of a fitted classifier of two classes."""
    check_is_fitted(machine)
    if not machine._is_binary:
        raise ValueError(
            f"explanations are of two classes, and there are {len(machine.classes_)}: "
            "ask the machine of a pair, of_pair(first, second)"
        )
    fitted = machine._as_fitted()
    sides, union = fitted._sides or (fitted,), getattr(fitted, "polytopes_", None)
    if union is None:
        polytopes = tuple(side.polytope_ for side in sides)
        kind: Any = "difference" if len(sides) > 1 else "polytope"
    else:
        polytopes, kind = tuple(union), "union"
    outside = sides[0].outer_label_
    [inside] = [label for label in fitted.classes_ if label != outside]
    columns = tuple(Column(name, (j,)) for j, name in enumerate(polytopes[0].names))
    return DecisionModel(
        polytopes, kind, (inside, outside), lambda X: fitted.classes_[fitted._labels(X)], columns
    )


def single_sample(machine: Any, x: Any) -> Array:
    """Return a sample as an array (m,); raise ValueError unless it is one row of the right size."""
    table: Any = x.to_frame().T if hasattr(x, "to_frame") else x
    if not hasattr(table, "iloc") and not sp.issparse(table) and np.ndim(table) == 1:
        table = np.reshape(table, (1, -1))
    checked = machine._scorable(table)
    rows = checked.toarray() if sp.issparse(checked) else checked
    if len(rows) != 1:
        raise ValueError(f"one sample at a time is explained; x has {len(rows)}")
    return np.asarray(rows[0], dtype=float)


def training_samples(machine: Any) -> Array | None:
    """Return the training samples if they are stored and dense, else None."""
    X = (machine._sides or (machine,))[0]._X
    return None if X is None or sp.issparse(X) else np.asarray(X, dtype=float)
