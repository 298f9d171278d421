"""Probabilities for classifiers that score: scikit-learn's calibration of the scores of held-out samples."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if

from formulations.language.clock import current_clock
from formulations.language.solution import Status
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.declaration import estimator
from polyopt.estimators.interruption import Part
from polyopt.estimators.parameters import check_parameters
from polyopt.estimators.status import solutions_of
from polyopt.estimators.votes import couple_pairs, draw_coupling

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.calibration import CalibratedClassifierCV

    from formulations.language.clock import Clock
    from formulations.language.types import Array
    from polyopt.base.onnx_graph import Graph
    from polyopt.base.types import SamplesLike

__all__ = ["CalibratedClassifier", "ScoreClassifier"]


class ScoreClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of one feature, which is a score: what ``CalibratedClassifierCV`` is wrapped around.

    Parameters
    ----------
    unit : float
        The scores are divided by it, so that the fit of a sigmoid does not depend on their size.
    """

    def __init__(self, unit: float = 1.0):
        self.unit = unit

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Learn the labels; nothing else is fitted."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Array) -> Array:
        """Scores (t,) in their unit."""
        return np.asarray(X)[:, 0] / self.unit

    def predict(self, X: Array) -> NDArray[Any]:
        """Labels (t,) by the signs of the scores."""
        found: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return found


@estimator
class CalibratedClassifier(PairwiseClassifier):
    """Base of the classifiers that can be calibrated.

    Parameters
    ----------
    calibration : {"sigmoid", "isotonic"}, optional
        Probabilities for ``predict_proba`` by scikit-learn's ``CalibratedClassifierCV``: Platt's sigmoid of
        the score, or an isotonic curve, which wants a thousand samples. The curve is fitted to the scores of
        samples by machines that were not fitted to them: the training data are cut into five stratified
        folds, fewer if a class has fewer samples, which costs as many further fits; the machine itself is
        fitted to all. ``predict``, the polytope and its rules are those of the machine without calibration:
        near its boundary the class predicted may be the less probable one, as with ``SVC(probability=True)``.
        The probabilities of more than two classes are those that agree best with the calibrated ones of all
        pairs. Probabilities are those of the samples as they are weighted, `class_weight` included.
        `time_limit` is for the folds too, which have what the machine left: without time for all of them, and
        after Ctrl-C, there are no calibrated probabilities, and a warning says so.

    Attributes
    ----------
    calibration_ : CalibratedClassifierCV or None
        The curve, if there is one: its only feature is the score (binary problems).
    """

    calibration_: CalibratedClassifierCV | None = field(init=False, default=None)
    _: KW_ONLY
    calibration: Literal["sigmoid", "isotonic"] | None = None

    _uncalibrated = ""  # why a fit that was to be calibrated is not
    _models_probabilities = False  # whether the model itself has probabilities

    def _validate_params(self) -> None:
        super()._validate_params()
        check_parameters(
            {"calibration": [StrOptions({"sigmoid", "isotonic"}), None]},
            {"calibration": self.calibration},
            type(self).__name__,
        )

    # -- fitting -----------------------------------------------------------------------------

    def _calibrate(self, X: Any, y: Array, weights: Array, whole: Clock) -> None:
        if self.calibration is None:
            return
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.model_selection import StratifiedKFold

        count = min(5, int((y > 0).sum()), int((y < 0).sum()))
        if count < 2:
            self._uncalibrated = "a class has one sample"
            return
        scores = np.empty(len(y))
        for number, (train, held) in enumerate(StratifiedKFold(count).split(scores, y)):
            machine = self._for_fold()
            part = Part("fold", number, count, whole, None)
            if not _is_fitted_in_time(machine, X[train], y[train], weights[train], part):
                clock = current_clock()
                ended = "Ctrl-C" if clock is not None and clock.is_stopped else "the time limit"
                self._uncalibrated = f"{ended} came before the end of its folds"
                return
            scores[held] = machine._binary_scores(X[held])
        curve = CalibratedClassifierCV(
            ScoreClassifier(float(scores.std()) or 1.0), method=self.calibration, cv=2, ensemble=False
        )
        self.calibration_ = curve.fit(scores[:, None], y, sample_weight=weights)

    def _for_fold(self) -> Self:
        """A machine for a part of the samples, which are weighted, with what this one knows of the labels."""
        machine = clone(self)
        known = machine.get_params(deep=False)
        machine.set_params(**{n: None for n in ("calibration", "class_weight") if n in known})
        machine.classes_, machine.n_features_in_ = self.classes_, self.n_features_in_
        machine._asked = machine.get_params(deep=False)
        names = getattr(self, "feature_names_in_", None)  # by which parameters may name features
        if names is not None:
            machine.feature_names_in_ = names
        return machine

    def _settle(self) -> None:
        """Warn if a pair of classes has no curve; then the others lose theirs."""
        parts = [self] if self._is_binary else self.estimators_
        reasons = [part._uncalibrated for part in parts if part._uncalibrated]
        if not reasons:
            return
        for part in parts:
            part.calibration_ = None
        self._uncalibrated = reasons[0]
        name = type(self).__name__
        left = f"those of {name}'s model are left" if self._models_probabilities else "it has none"
        warnings.warn(
            f"{name}: the probabilities are not calibrated, as {self._uncalibrated}; {left}",
            ConvergenceWarning, stacklevel=3 + self._frames,
        )  # fmt: skip

    # -- answering ---------------------------------------------------------------------------

    @property
    def _is_calibrated(self) -> bool:
        parts = [self] if self._is_binary else self.estimators_
        return all(part.calibration_ is not None for part in parts)

    def _has_probabilities(self) -> bool:
        """True if there are any, for ``hasattr``; else AttributeError says why there are none."""
        name = type(self).__name__
        is_fitted = hasattr(self, "classes_")
        if self._models_probabilities or (self._is_calibrated if is_fitted else self.calibration):
            return True
        if is_fitted and self._uncalibrated:
            raise AttributeError(
                f"{name} has no probabilities, as it is not calibrated: {self._uncalibrated}"
            )
        raise AttributeError(f"{name} has probabilities with calibration='sigmoid' or 'isotonic'")

    @available_if(_has_probabilities)
    def predict_proba(self, X: SamplesLike) -> Array:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t, n_classes)
            In the order of ``classes_``. With more than two classes, those that agree best with the
            probabilities of all pairs (the second method of Wu, Lin & Weng, 2004).
        """
        model, samples = self._prepared(X)
        return model._probabilities(samples)

    def _probabilities(self, X: Any) -> Array:
        """Probabilities of the classes of samples that were checked."""
        if self._is_binary:
            second = self._second(X)
            return np.column_stack([1.0 - second, second])
        pairs = np.column_stack([part._as_fitted()._second(X) for part in self.estimators_])
        return couple_pairs(pairs, len(self.classes_))

    def _second(self, X: Any) -> Array:
        """Probabilities of ``classes_[1]``, of two classes."""
        assert self.calibration_ is not None
        found: Array = self.calibration_.predict_proba(self._binary_scores(X)[:, None])[:, 1]
        return found

    # -- for other programs ------------------------------------------------------------------

    def _draw_two(self, graph: Graph, x: str) -> tuple[str, str, str | None]:
        scores, is_second, second = super()._draw_two(graph, x)
        if self.calibration_ is not None:
            second = _draw_curve(graph, scores, self.calibration_)
        return scores, is_second, second

    def _draw_many(self, graph: Graph, x: str) -> tuple[str, str, str | None]:
        scores, number, probabilities = super()._draw_many(graph, x)
        if self._is_calibrated:
            parts = [part._as_fitted()._draw_two(graph, x)[2] for part in self.estimators_]
            probabilities = draw_coupling(graph, graph.op("Concat", *parts, axis=1), len(self.classes_))
        return scores, number, probabilities


def _is_fitted_in_time(machine: Any, X: Any, y: Array, weights: Array, part: Part) -> bool:
    """Fit the machine of a fold; False if the limit or Ctrl-C came before its own end."""
    if part.whole.is_over:
        return False
    try:
        # What a fold has to say, the whole machine has said.
        with warnings.catch_warnings(), part.of_fit(machine):
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            machine._fit_binary(X, y, weights, np.arange(len(y)))
    except RuntimeError:
        if not part.whole.is_over:
            raise
        return False
    cut = (Status.TIME_LIMIT, Status.INTERRUPTED)
    return all(found.status not in cut for found in solutions_of(machine))


def _draw_curve(graph: Graph, scores: str, calibrated: CalibratedClassifierCV) -> str:
    """The probability (n, 1) of the second class at scores (n, 1), as an ONNX graph."""
    from sklearn.isotonic import IsotonicRegression

    (fitted,) = calibrated.calibrated_classifiers_
    (curve,) = fitted.calibrators
    z = graph.op("Div", scores, graph.constant(fitted.estimator.unit))
    if not isinstance(curve, IsotonicRegression):
        odds = graph.op("Mul", z, graph.constant(-float(curve.a_)))
        return graph.op("Sigmoid", graph.op("Sub", odds, graph.constant(float(curve.b_))))
    # Straight pieces: how much of each the score is past, times what the piece rises. The last one is flat.
    x = np.append(curve.X_thresholds_, np.nextafter(curve.X_thresholds_[-1], np.inf))
    p = np.append(curve.y_thresholds_, curve.y_thresholds_[-1])
    low, high = graph.constant(x[:-1]), graph.constant(x[1:])
    within = graph.op("Min", graph.op("Max", z, low), high)
    past = graph.op("Div", graph.op("Sub", within, low), graph.constant(np.diff(x)))
    risen = graph.op("MatMul", past, graph.constant(np.diff(p)[:, None]))
    return graph.op("Add", risen, graph.constant(float(p[0])))
