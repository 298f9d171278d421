"""Settings chosen from the training data, the labels and the other settings."""

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

    θ is over the training samples, for the SVM with the same C and kernel. At B = θ the machine is the SVM;
    Shivaswamy & Jebara (2008) search below θ in steps, with this value first.
    """
    shared = {name: value for name, value in settings.items() if name in ("C", "kernel", "gamma")}
    svm = SVM(**shared).fit(X, y)
    if status_of(svm) is Status.INTERRUPTED:
        raise KeyboardInterrupt  # the point that the SVM kept is of no use here
    theta = float(np.abs(svm.duals_["output"]).max())
    return max(1.0, 1.0 + 0.5 * (theta - 1.0))


def narrower_class(X: NDArray[Any] | sp.csr_matrix, y: NDArray[Any], settings: Mapping[str, Any]) -> Any:
    """Return the class with the smaller variance, of two, which is better kept inside of a polytope.

    None for more than two classes: the estimator then chooses for each pair.
    """
    first, *others = np.unique(y)
    if len(others) != 1:
        return None
    return others[0] if _total_variance(X[y == first]) >= _total_variance(X[y == others[0]]) else first


def _total_variance(X: NDArray[Any] | sp.csr_matrix) -> float:
    """Return the sum of the variances of the columns, without a dense copy of a sparse X."""
    squares = sp.csr_array(X).power(2) if sp.issparse(X) else X * X
    return float(np.sum(np.asarray(squares.mean(axis=0)) - np.asarray(X.mean(axis=0)) ** 2))
