"""Calibrated probabilities: a curve from scores to probabilities, fitted to scores of validation folds.

:func:`calibrate` fits one classifier for each fold, collects the scores of the samples that it was not
fitted to, and fits scikit-learn's ``CalibratedClassifierCV`` to all of these.
"""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.types import Array
from polyopt.estimators.base import Part
from polyopt.estimators.status import solutions_of, warn

MAX_FOLDS = 5
"""Largest number of folds; fewer if a class has fewer samples."""


class ScoreClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose only feature is a score, for ``CalibratedClassifierCV`` to wrap."""

    def __init__(self, unit: float = 1.0):
        self.unit = unit  # divides the scores: the fit of a sigmoid depends on their scale

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Store the labels; there is nothing to fit."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Array) -> Array:
        """Return the scores (t,), divided by the unit."""
        return np.asarray(X)[:, 0] / self.unit

    def predict(self, X: Array) -> NDArray[Any]:
        """Return labels (t,) by the signs of the scores."""
        labels: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return labels


def calibrate(machine: Any, X: Any, y: Array, weights: Array, clock: Clock) -> None:
    """Set ``calibration_`` of a binary classifier from the scores of validation folds.

    If a class has one sample, or the time is over before the last fold, set ``_uncalibrated`` to the reason
    instead. The methods of the machine are those of :class:`polyopt.estimators.base.PairwiseClassifier`.
    """
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import StratifiedKFold

    count = min(MAX_FOLDS, int((y > 0).sum()), int((y < 0).sum()))
    if count < 2:
        machine._uncalibrated = "a class has one sample"
        return
    scores = np.empty(len(y))
    for number, (train, validation) in enumerate(StratifiedKFold(count).split(scores, y)):
        fold = machine._part_like(calibration=None, class_weight=None)  # the samples are weighted already
        part = Part("fold", number, count, clock, None)
        if not _is_fitted_in_time(fold, X[train], y[train], weights[train], part):
            cause = "Ctrl-C" if clock.is_stopped else "the time limit"
            machine._uncalibrated = f"{cause} came before the end of its folds"
            return
        scores[validation] = fold._binary_scores(X[validation])
    # cv is required, but all folds score alike, as ScoreClassifier fits nothing: one curve for all scores.
    curve = CalibratedClassifierCV(
        ScoreClassifier(float(scores.std()) or 1.0), method=machine.calibration, cv=2, ensemble=False
    )
    machine.calibration_ = curve.fit(scores[:, None], y, sample_weight=weights)


def _is_fitted_in_time(machine: Any, X: Any, y: Array, weights: Array, part: Part) -> bool:
    """Fit the classifier of a fold; return False if the time limit or Ctrl-C ended the fit."""
    if part.clock.is_over:
        return False
    try:
        with warnings.catch_warnings(), part.of_fit(machine):  # the main fit has issued the same warnings
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            machine._fit_binary(X, y, weights, np.arange(len(y)))
    except RuntimeError:
        if not part.clock.is_over:
            raise
        return False
    return all(s.status not in (Status.TIME_LIMIT, Status.INTERRUPTED) for s in solutions_of(machine))


def drop_incomplete(machine: Any) -> None:
    """Remove the curves of all pairs of classes, with a warning, if one pair has no curve."""
    parts = [machine] if machine._is_binary else machine.estimators_
    reasons = [part._uncalibrated for part in parts if part._uncalibrated]
    if not reasons:
        return
    for part in parts:
        part.calibration_ = None
    machine._uncalibrated = reasons[0]
    model_remains = f"those of {type(machine).__name__}'s model are left"
    consequence = model_remains if machine._models_probabilities else "it has none"
    warn(machine, f"the probabilities are not calibrated, as {reasons[0]}; {consequence}")


def is_calibrated(machine: Any) -> bool:
    """Return True if the fitted classifier has a calibration curve for each pair of classes."""
    parts = [machine] if machine._is_binary else machine.estimators_
    return all(part.calibration_ is not None for part in parts)


def has_probabilities(machine: Any) -> bool:
    """Return True if the classifier has, or will have, probabilities; else raise AttributeError."""
    name, is_fitted = type(machine).__name__, hasattr(machine, "classes_")
    if machine._models_probabilities or (is_calibrated(machine) if is_fitted else machine.calibration):
        return True
    if is_fitted and machine._uncalibrated:
        raise AttributeError(f"{name} has no probabilities, as it is not calibrated: {machine._uncalibrated}")
    raise AttributeError(f"{name} has probabilities with calibration='sigmoid' or 'isotonic'")
