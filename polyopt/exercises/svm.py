"""Optimisation for classifiers: margins, multipliers as prices, duality, certificates."""

from typing import Any

import numpy as np

from formulations import svm
from formulations.language.toy_data import two_blobs
from polyopt.exercises.exercise import exercises_of, finite
from polyopt.margin.certify import certify_svm

_X = np.array([[-2.0], [-1.0], [0.5], [0.0], [1.0], [3.0]])
_Y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
_DATA = {"X": _X, "y": _Y}
_INSEPARABLE = np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 1.0, -1.0])


def _dual() -> Any:
    return svm.dual(*two_blobs(6, 3, 0))


def _bound(alpha: Any) -> str | None:
    alpha = finite(alpha, _Y.shape, f"there are {len(_Y)} multipliers")
    found = certify_svm(_X, _Y, w=np.zeros(1), b=0.0, C=1.0, alpha=alpha)
    if min(alpha.min(), 1.0 - alpha.max()) < 0.0:
        return "A multiplier is below 0 or above C = 1."
    if abs(alpha @ _Y) > 1e-9:
        return f"The multipliers are not in balance: Σᵢ αᵢ yᵢ is {alpha @ _Y:.3g}."
    if not found.dual_value >= 2.0:
        return f"They prove that no machine costs less than {found.dual_value:.4g}: less than 2."
    return None


def _far(answer: Any) -> str | None:
    w, b = answer
    w, b = finite(np.reshape(w, 1), (1,), "w is a number"), float(finite(b, (), "b is a number"))
    X, y = _X[[0, 1, 4, 5]], _Y[[0, 1, 4, 5]]
    if not (y * (X[:, 0] * w + b) > 0).all():
        return "It does not answer right for all four samples."
    if abs(w[0]) > 1e6:  # its square would no longer be a number that a person reads
        raise ValueError("w is larger than need be")
    found = certify_svm(X, y, w=w, b=b, C=1.0)
    if not found.primal_value - found.dual_value > 1.0:
        return f"It is within {max(found.gap, 0.0):.3g} of the optimum."
    return None


def _ray(alpha: Any) -> str | None:
    X, y = _INSEPARABLE
    alpha = finite(alpha, y.shape, "there are three multipliers")
    if alpha.min() < 0:
        return "A multiplier is negative."
    if abs(alpha @ y) > 1e-9 or abs(alpha @ (y * X[:, 0])) > 1e-9:
        return "What is left of w or b does not cancel: Σᵢ αᵢ yᵢ and Σᵢ αᵢ yᵢ xᵢ must be 0."
    return None if alpha.sum() > 0 else "With α = 0 the rows add up to 0 ≥ 0, which is no contradiction."


EXERCISES = exercises_of(
    "svm",
    svm_1={"program": _dual},
    svm_2={"program": _dual, "of": "b"},
    svm_5={"judge": _bound, "data": _DATA},
    svm_6={"judge": _far, "data": {"X": _X[[0, 1, 4, 5]], "y": _Y[[0, 1, 4, 5]]}},
    svm_7={"judge": _ray, "data": {"X": _INSEPARABLE[0], "y": _INSEPARABLE[1]}},
)
