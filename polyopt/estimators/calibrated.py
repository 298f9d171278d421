"""Probabilities for classifiers that score: calibrated on held-out samples, and never against ``predict``."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from formulations.clock import current_run
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.calibration import (
    METHODS,
    Calibration,
    agreeing,
    calibrate,
    draw_agreeing,
)
from polyopt.estimators.calibration_folds import folds_of, held_out_scores
from polyopt.estimators.calibration_told import has_probabilities, told_of_curves
from polyopt.estimators.declaration import estimator
from polyopt.estimators.parameters import check_parameters
from polyopt.estimators.votes import couple_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.clock import Run
    from formulations.matrices import Array
    from polyopt.estimators.given import SamplesLike
    from polyopt.graphs import Graph

__all__ = ["CalibratedClassifier"]


@estimator
class CalibratedClassifier(PairwiseClassifier):
    """Base of the classifiers that can be calibrated.

    A subclass moves its zero in :meth:`_take_from_scores`.

    Parameters
    ----------
    calibration : {"sigmoid", "isotonic"}, optional
        Probabilities for ``predict_proba``, by Platt's sigmoid of the score or by an isotonic curve, which
        wants a thousand samples. The curve is fitted to the scores of samples by machines that were not
        fitted to them: the training data are cut into five folds, fewer where a class has fewer samples,
        which costs as many further fits; the machine itself is fitted to all. Then zero is moved to the score
        at which both classes are as probable, ``shift_``, and so ``predict`` gives the more probable class:
        all biases of a polytope move by as much, rules and exports with them. ``solution_``, ``duals_`` and
        ``certificate()`` stay those of the program's own point. More than two classes are decided by the
        probabilities that agree best with those of all pairs. Probabilities are those of the samples as they
        are weighted, `class_weight` included. `time_limit` is for the folds too, which have what the machine
        left: without time for all of them, and after Ctrl-C, the machine is kept as it is, without calibrated
        probabilities, and a warning says so.

    Attributes
    ----------
    calibration_ : Calibration or None
        The curve, where there is one (binary problems).
    shift_ : float
        What calibration took from the scores of the program's own point; 0 without (binary problems).
    """

    calibration_: Calibration | None = field(init=False, default=None)
    _: KW_ONLY
    calibration: Literal["sigmoid", "isotonic"] | None = None

    _uncalibrated = ""  # why a fit that was to be calibrated is not
    _models_probabilities = False  # whether the model itself has probabilities
    _curves = METHODS

    def _validate_params(self) -> None:
        super()._validate_params()
        check_parameters(
            {"calibration": [StrOptions(set(METHODS)), None]},
            {"calibration": self.calibration},
            type(self).__name__,
        )

    # -- fitting -----------------------------------------------------------------------------

    def _take_from_scores(self, shift: float) -> None:
        """Move the zero of the binary scores to where they are `shift`."""
        raise NotImplementedError(f"{type(self).__name__} cannot be calibrated")

    def _calibrate(self, X: Any, y: Array, weights: Array, whole: Run) -> None:
        if self.calibration is None:
            return
        found = self._curve(X, y, weights, whole)
        if isinstance(found, str):
            self._uncalibrated = found
        else:
            self.calibration_ = found

    def _curve(self, X: Any, y: Array, weights: Array, whole: Run) -> Calibration | str:
        """The curve for a machine of two classes, or why there is none."""
        assert self.calibration is not None
        splits = folds_of(X, y)
        if not splits:  # a class of one sample: no scores to go by
            return calibrate(np.zeros(len(y)), y > 0, weights, self.calibration, 0)
        machines = [self._for_fold() for _ in splits]
        scores = held_out_scores(machines, X, y, weights, splits, whole, self.n_jobs)
        if scores is None:
            run = current_run()
            is_stopped = run is not None and run.is_stopped
            return f"{'Ctrl-C' if is_stopped else 'the time limit'} came before the end of its folds"
        return calibrate(scores, y > 0, weights, self.calibration, len(splits))

    def _for_fold(self) -> Self:
        """A machine for a part of the samples, which are weighted, with what this one knows of the labels."""
        machine = clone(self)
        known = machine.get_params(deep=False)
        machine.set_params(**{n: None for n in ("calibration", "class_weight", "n_jobs") if n in known})
        machine.classes_, machine.n_features_in_ = self.classes_, self.n_features_in_
        machine._asked = machine.get_params(deep=False)
        names = getattr(self, "feature_names_in_", None)  # by which parameters may name features
        if names is not None:
            machine.feature_names_in_ = names
        return machine

    def _settle(self) -> None:
        """Move the zero where all parts have their curves; else no part is calibrated."""
        if self.calibration is None:
            return
        parts = [self] if self._is_binary else self.estimators_
        reasons = [part._uncalibrated for part in parts if part.calibration_ is None]
        for part in parts:
            if reasons:
                part.calibration_ = None
            else:
                part._take_from_scores(part.shift_)
        self._uncalibrated = reasons[0] if reasons else ""
        name = type(self).__name__
        left = f"those of {name}'s model are left" if self._models_probabilities else "it has none"
        text = told_of_curves(self._uncalibrated, [part.calibration_ for part in parts], left)
        if text:
            warnings.warn(f"{name}: {text}", ConvergenceWarning, stacklevel=3 + self._frames)

    @property
    def shift_(self) -> float:
        """What calibration took from the scores of the program's own point; 0 without."""
        check_is_fitted(self)
        if not self._is_binary:
            raise AttributeError("shift_ is of two classes: ask the machines in estimators_")
        return 0.0 if self.calibration_ is None else self.calibration_.shift

    def _need_own_zero(self, what: str) -> None:
        """Refuse what is true of the program's own point alone."""
        if self.shift_:
            raise ValueError(
                f"{what} is of the program's own point, from which calibration moved the boundary by "
                f"{self.shift_:.3g}: fit with calibration=None"
            )

    # -- answering ---------------------------------------------------------------------------

    @property
    def _is_calibrated(self) -> bool:
        if self._is_binary:
            return self.calibration_ is not None
        return all(part.calibration_ is not None for part in self.estimators_)

    @property
    def _couples(self) -> bool:
        """Whether more than two classes are decided by probabilities, and not by votes."""
        return not self._is_binary and self._is_calibrated

    @available_if(has_probabilities)
    def predict_proba(self, X: SamplesLike) -> Array:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t, n_classes)
            In the order of ``classes_``; ``predict`` gives the class with the largest. With more than two
            classes, those that agree best with the probabilities of all pairs (the second method of Wu, Lin &
            Weng, 2004).
        """
        model, samples = self._prepared(X)
        return model._probabilities(samples)

    def _probabilities(self, X: Any) -> Array:
        """Probabilities of the classes of samples that were checked."""
        if not self._is_binary:
            return self._coupled(X)
        second = self._second(X)
        found = np.empty((len(second), 2))
        found[:, 1] = second
        np.subtract(1.0, second, out=found[:, 0])
        return found

    def _second(self, X: Any) -> Array:
        """Probabilities of ``classes_[1]``, of two classes."""
        odds = self._odds(X)
        if odds is not None:
            scores, slope = odds
            return agreeing(expit(slope * scores), scores > 0)
        assert self.calibration_ is not None
        scores = self._binary_scores(X)
        return agreeing(self.calibration_.probability(scores), scores > 0)

    def _odds(self, X: Any) -> tuple[Array, float] | None:
        """Scores (t,) and the log-odds of ``classes_[1]`` for a unit; None where the curve is no sigmoid."""
        assert self.calibration_ is not None
        return (self._binary_scores(X), self.calibration_.slope) if self.calibration_.slope else None

    def _coupled(self, X: Any) -> Array:
        """Probabilities of more than two classes."""
        pairs = np.column_stack([part._as_fitted()._second(X) for part in self.estimators_])
        return couple_pairs(pairs, len(self.classes_))

    def _scores(self, X: Any) -> Array:
        return np.log(self._coupled(X)) if self._couples else super()._scores(X)

    def _labels(self, X: Any) -> NDArray[np.intp]:
        return self._coupled(X).argmax(axis=1) if self._couples else super()._labels(X)

    # -- for other programs ------------------------------------------------------------------

    def _draw_two(self, graph: Graph, x: str) -> tuple[str, str, str | None]:
        scores, second, _ = super()._draw_two(graph, x)
        if self.calibration_ is None:
            return scores, second, None
        return scores, second, draw_agreeing(graph, self.calibration_.draw(graph, scores), second)

    def _draw_many(self, graph: Graph, x: str) -> tuple[str, str, str | None]:
        if not self._couples:
            return super()._draw_many(graph, x)
        from polyopt.estimators.coupling_graph import draw_coupling

        parts = [part._as_fitted()._draw_two(graph, x)[2] for part in self.estimators_]
        p = draw_coupling(graph, graph.op("Concat", *parts, axis=1), len(self.classes_))
        return graph.op("Log", p), graph.op("ArgMax", p, axis=1, keepdims=0), p
