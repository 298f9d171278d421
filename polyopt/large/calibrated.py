"""Probabilities for classifiers whose samples are read by blocks, calibrated on rows that were held out."""

from __future__ import annotations

from abc import abstractmethod
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from formulations.clock import Run
from formulations.matrices import canonical
from formulations.runs import stop_after
from formulations.solution import Status
from polyopt.estimators.calibration import agreeing
from polyopt.estimators.calibration_told import has_probabilities, told_of_curves
from polyopt.estimators.votes import couple_pairs
from polyopt.large.base import BlockClassifier
from polyopt.large.folds import Fold, folds_of
from polyopt.large.platt import Scorers, platt
from polyopt.watch import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from polyopt.estimators.calibration import Calibration
    from polyopt.estimators.given import SamplesLike
    from polyopt.large.held import Hands

__all__ = ["CALIBRATION", "CalibratedBlocks", "is_cut"]

_FOLDS = 5

CALIBRATION: dict[str, list[Any]] = {"calibration": [StrOptions({"sigmoid"}), None]}
"""The constraint of the parameter."""


def is_cut(machine: BlockClassifier, whole: Run) -> bool:
    """Whether a fit was broken off; after Ctrl-C the run that it is a part of is stopped.

    Parameters
    ----------
    machine : BlockClassifier
        Fitted.
    whole : Run
        The run.
    """
    ends = [found.status for found in machine.solutions_]
    if Status.INTERRUPTED in ends and not whole.is_stopped:
        whole.stop()
    return Status.INTERRUPTED in ends or Status.TIME_LIMIT in ends


class CalibratedBlocks(BlockClassifier):
    """Base of the classifiers of blocks that can be calibrated.

    Parameters
    ----------
    calibration : {"sigmoid"}, optional
        Probabilities for ``predict_proba``, by Platt's sigmoid of the score. It is fitted to the scores of
        samples by machines that were not fitted to them: five folds, of which row i of block k is in fold
        (i + k) mod 5, and as many further fits; the machine itself is fitted to all. Then zero is moved to
        where both classes are as probable, and so ``predict`` gives the more probable class: intercepts and
        the biases of polytopes move by as much. ``solutions_`` and ``certificate()`` stay those of the
        program's own point. More than two classes are decided by the probabilities that agree best with those
        of all pairs. Probabilities are those of the samples as they are weighted, `class_weight` included.
        `time_limit` is for the folds too, which have what the machine left: without time for all of them, and
        after Ctrl-C, the machine is kept as it is, without probabilities, and a warning says so.

    Attributes
    ----------
    calibrations_ : list of Calibration
        The curve of each pair of classes, whose ``shift`` was taken from the scores; none where the machine
        is not calibrated.
    """

    calibration: Literal["sigmoid"] | None

    _curves: ClassVar = ("sigmoid",)
    _models_probabilities = False
    _uncalibrated = ""  # why a fit that was to be calibrated is not

    # -- fitting ---------------------------------------------------------------------------------

    @abstractmethod
    def _take_from_scores(self, pair: int, shift: float) -> None:
        """Move the zero of a pair's scores to where they are `shift`."""

    def _fit(
        self, hands: Hands, whole: Run, checkpoint: str | Path | None, resume: str | Path | None
    ) -> None:
        self._uncalibrated = ""
        self.calibrations_: list[Calibration] = []
        folds: list[Fold] = []
        if self.calibration is not None:
            self._read(hands.look())
            folds = folds_of(hands, _FOLDS, self.classes_)
        super()._fit(hands, whole, checkpoint, resume)
        if folds:
            self._calibrate(hands, folds, whole)

    def _calibrate(self, hands: Hands, folds: list[Fold], whole: Run) -> None:
        found = None
        try:
            if not is_cut(self, whole):
                found = self._held_out_curves(hands, folds, whole)
        except KeyboardInterrupt as interrupt:
            stop_after(whole, interrupt)
        if found is None:
            why = "Ctrl-C" if whole.is_stopped else "the time limit"
            self._uncalibrated = f"{why} came before the end of its folds"
        else:
            self.calibrations_ = found
            for pair, curve in enumerate(found):
                self._take_from_scores(pair, curve.shift)

    def _held_out_curves(self, hands: Hands, folds: list[Fold], whole: Run) -> list[Calibration] | None:
        """The curves of all pairs; None where time was over before."""
        machines: list[Any] = []
        for fold in counted(folds, len(folds), "fold"):
            if not fold.has_samples:
                machines.append(None)
                continue
            if whole.is_over:
                return None
            left = whole.left
            machine = self._like(calibration=None, class_weight=self._factors, time_limit=None)
            limit = Run(None if left is None else left / (len(folds) - fold.number), whole)
            machine._fit(fold.others, limit, None, None)
            if is_cut(machine, whole):
                return None
            machines.append(machine._scoring())
        factors = list(combinations(self._factors.values(), 2))
        return platt(hands, self._n_blocks, Scorers(machines, self.pairs_, factors), lambda: whole.is_over)

    def _shortfalls(self) -> Iterator[str]:
        yield from super()._shortfalls()
        text = told_of_curves(self._uncalibrated, self.calibrations_, "it has none")
        if text:
            yield text

    # -- answering -------------------------------------------------------------------------------

    @property
    def _is_calibrated(self) -> bool:
        return bool(self.calibrations_)

    @available_if(has_probabilities)
    def predict_proba(self, X: SamplesLike) -> Any:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            The samples they are of.

        Returns
        -------
        ndarray of shape (t, n_classes)
            As of the classifiers in memory: with more than two classes, those that agree best with the
            probabilities of all pairs, and the class that ``predict`` gives has the largest.
        """
        check_is_fitted(self)
        X = canonical(validate_data(self, X, accept_sparse="csr", reset=False))
        if len(self.pairs_) > 1:
            return self._coupled(X)
        second = self._seconds(X)[:, 0]
        return np.column_stack([1.0 - second, second])

    def _seconds(self, X: Any) -> NDArray[Any]:
        """Probabilities (t, pairs) of the second class of each pair."""
        scores = self._pair_scores(X)
        return np.column_stack([
            agreeing(curve.probability(own), own > 0)
            for curve, own in zip(self.calibrations_, scores.T, strict=True)
        ])  # fmt: skip

    def _coupled(self, X: Any) -> NDArray[Any]:
        return couple_pairs(self._seconds(X), len(self.classes_))

    @property
    def _couples(self) -> bool:
        """Whether more than two classes are decided by probabilities, and not by votes."""
        return len(self.pairs_) > 1 and self._is_calibrated

    def _scores(self, X: Any) -> NDArray[Any]:
        return np.log(self._coupled(X)) if self._couples else super()._scores(X)

    def _labels(self, X: Any) -> NDArray[Any]:
        if not self._couples:
            return super()._labels(X)
        return np.asarray(self.classes_[self._coupled(X).argmax(axis=1)])
