"""Settings that depend on the data: each is chosen from the training data, the labels and other settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.language.solution import Status
from polyopt.estimators.status import status_of
from polyopt.margin.svm import SVM


def relative_bound(X: NDArray[Any] | sp.csr_matrix, y: NDArray[Any], settings: Mapping[str, Any]) -> float:
    """Return the bound B half-way between 1 and the SVM's largest output θ: ``B = 1 + (θ − 1)/2``.

    θ is taken over the training samples of the SVM with the same C and kernel. At θ the machine
    would be the SVM; Shivaswamy & Jebara (2008) search below it in steps, this one first.
    """
    shared = {name: value for name, value in settings.items() if name in ("C", "kernel", "gamma")}
    svm = SVM(**shared).fit(X, y)
    if status_of(svm) is Status.INTERRUPTED:
        raise KeyboardInterrupt  # its own solver keeps the point instead, which is of no use here
    theta = float(np.abs(svm.duals_["output"]).max())
    return max(1.0, 1.0 + 0.5 * (theta - 1.0))


def narrower_class(X: NDArray[Any] | sp.csr_matrix, y: NDArray[Any], settings: Mapping[str, Any]) -> Any:
    """Return the class of two whose samples spread less widely, which is better kept inside of a polytope.

    None for more than two classes: of each pair, the estimator then takes its own choice.
    """
    classes = np.unique(y)
    if len(classes) != 2:
        return None
    wider = max(classes, key=lambda label: _total_variance(X[y == label]))
    return next(label for label in classes if label != wider)


def _total_variance(X: NDArray[Any] | sp.csr_matrix) -> float:
    """Sum of the variances of the columns, without a dense copy of a sparse X."""
    squares = sp.csr_array(X).power(2) if sp.issparse(X) else X * X
    return float(np.sum(np.asarray(squares.mean(axis=0)) - np.asarray(X.mean(axis=0)) ** 2))
