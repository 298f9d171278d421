"""Base of the classifiers of samples in blocks: fit of each pair of classes, certificates, and prediction."""

import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from formulations.language.clock import Clock, running
from formulations.language.solution import Solution
from polyopt.base.progress import counted, printer, records_to
from polyopt.base.types import ClassWeight, SamplesLike
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.frames import check_names
from polyopt.estimators.parameters import check_parameters, estimator, shared
from polyopt.estimators.status import FINE
from polyopt.estimators.validation import check_total, class_weights, validated
from polyopt.large.blocks import Report
from polyopt.large.executor import Executor, LocalExecutor
from polyopt.large.sources import Arrays, Source, heading_of

MIN_CERTIFICATE_TOL = 1e-6
"""Smallest tolerance of a certificate, as in memory."""

_FLOATS = (np.float64, np.float32)  # types that samples to be scored may keep


@estimator
class BlockClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers whose samples are read by blocks.

    Parameters
    ----------
    tol : float, default=1e-8
        Relative duality gap at which a fit ends.
    max_iter : int, optional
        Iterations at most; the point reached is kept.
    time_limit : float, optional
        Seconds for the whole fit; the point reached is kept.
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply the samples' weights.
    verbose : bool or int, default=False
        If True, print the progress, a line a second, on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    """

    _: KW_ONLY
    tol: float = 1e-8
    max_iter: int | None = None
    time_limit: float | None = None
    class_weight: ClassWeight = None
    verbose: bool | int = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = shared(
        "tol", "time_limit", "class_weight", "verbose", optional=["max_iter"]
    )
    _frames: ClassVar[int] = 1  # calls between the user's and that of BlockClassifier.fit

    def fit(
        self,
        X: "SamplesLike | Source",
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
    ) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : Source, or array_like or sparse matrix of shape (n, m)
            Training samples: a source of :mod:`polyopt.large.sources` with labels and weights, or arrays.
        y : array_like of shape (n,), optional
            Labels of two or more classes; none for a source.
        sample_weight : array_like of shape (n,), optional
            Non-negative weights; none for a source.
        checkpoint : str or Path, optional
            A file to write after every iteration, for two classes. A disk that is full is a warning.
        resume : str or Path, optional
            A checkpoint to resume, of the same machine, blocks, labels and weights; the result has the same
            bits.

        Returns
        -------
        self
            The fitted classifier.
        """
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)
        self.__dict__.pop("feature_names_in_", None)
        heading = heading_of(X)
        if heading is not None:  # sets feature_names_in_
            validated(self, heading, skip_check_array=True)
        executor = self._executor_of(X, y, sample_weight)
        try:
            heard = records_to(printer(type(self).__name__) if self.verbose else None)
            with running(Clock(self.time_limit)) as whole, heard:
                self._fit(executor, whole, checkpoint, resume)
        finally:
            executor.close()
        self._warn_if_not_converged()
        return self

    def _executor_of(self, X: Any, y: Any, sample_weight: Any) -> Executor:
        return LocalExecutor(self._source(X, y, sample_weight))

    def _source(self, X: Any, y: Any, sample_weight: Any) -> Source:
        if isinstance(X, Source):
            if y is not None or sample_weight is not None:
                raise ValueError("a source has labels and weights itself: leave y and sample_weight out")
            return X
        if y is None:
            raise ValueError(f"{type(self).__name__} needs labels y, or a source that has them")
        return Arrays(X, y, sample_weight)

    def _fit(
        self, executor: Executor, clock: Clock, checkpoint: str | Path | None, resume: str | Path | None
    ) -> None:
        reports = executor.inspect()
        weights = self._read(reports)
        factors = class_weights(self.class_weight, self.classes_, np.arange(len(weights)), weights)
        pairs = list(combinations(range(len(self.classes_)), 2))
        if len(pairs) > 1 and (checkpoint is not None or resume is not None):
            raise ValueError(f"a checkpoint is of one pair of classes, and there are {len(pairs)}")
        self._is_sparse = reports[0].is_sparse
        self.pairs_ = [(self.classes_[i], self.classes_[j]) for i, j in pairs]
        self.solutions_: list[Solution] = []
        self.certificates_: list[Certificate] = []
        self._begin(len(pairs))
        for number, (i, j) in enumerate(counted(pairs, len(pairs), "pair")):
            left = clock.left
            pair_clock = Clock(None if left is None else left / (len(pairs) - number))
            pair_factors = float(factors[i]), float(factors[j])
            self._fit_pair(number, executor, pair_factors, pair_clock, checkpoint, resume)
        self.n_iter_ = max(max(solution.iterations for solution in self.solutions_), 1)

    def _begin(self, pairs: int) -> None:
        """Allocate the attributes of the pairs of classes."""

    @abstractmethod
    def _fit_pair(
        self, number: int, executor: Executor, factors: tuple[float, float], clock: Clock, checkpoint: Any,
        resume: Any,
    ) -> None:  # fmt: skip
        """Fit a pair of classes, whose weights are `factors`; append to `solutions_` and `certificates_`."""

    def _read(self, reports: list[Report]) -> NDArray[Any]:
        """Set the classes and the number of features; return the weight of each class."""
        for report in reports:
            if report.problem:
                raise ValueError(report.problem)
        widths = {report.m for report in reports}
        names = next((report.names for report in reports if report.names is not None), None)
        for number, report in enumerate(reports):
            if names is not None and report.names not in (None, names):
                check_names(f"partition {number}", report.names, names)
                raise ValueError(
                    f"partition {number} has its columns in another order, {list(report.names)}, than others"
                )
        if len(widths) > 1:
            raise ValueError(f"all partitions need as many features; there are some with {sorted(widths)}")
        if len({report.is_sparse for report in reports}) > 1:
            raise ValueError("partitions must be all dense or all sparse")
        self.n_features_in_ = reports[0].m
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        self.classes_ = np.unique(
            np.concatenate([report.labels for report in reports if len(report.labels)] or [np.zeros(0)])
        )
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least two classes with positive weight; "
                f"the data has {self.classes_.tolist()}"
            )
        weights = np.zeros(len(self.classes_))
        for report in reports:
            weights[self.classes_.searchsorted(report.labels)] += report.weights
        check_total(weights)
        return weights

    def _warn_if_not_converged(self) -> None:
        """Warn about the first pair whose fit did not reach its tolerance."""
        for solution, proof in zip(self.solutions_, self.certificates_, strict=True):
            is_fine = solution.status in FINE
            if is_fine and self._is_proven(proof):
                continue
            text = f"Short of the tolerance. {proof.sentence}" if is_fine else str(solution.status)
            warnings.warn(f"{type(self).__name__}: {text}", ConvergenceWarning, stacklevel=2 + self._frames)
            return

    def _is_proven(self, proof: Certificate) -> bool:
        """Return True if a certificate is that of a run which reached its tolerance."""
        return proof.is_optimal

    def certificate(self) -> Certificate | list[Certificate]:
        """Return the certificate, made during the fit; a list of them for more than two classes."""
        check_is_fitted(self)
        return self.certificates_[0] if len(self.certificates_) == 1 else list(self.certificates_)

    # -- prediction ------------------------------------------------------------------------------

    def decision_function(self, X: "SamplesLike") -> Any:
        """Return scores of samples.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t,) or (t, n_classes)
            Two classes: positive for ``classes_[1]``. More: votes of the pairs, ties broken by the sum of
            their scores.
        """
        check_is_fitted(self)
        scores = self._pair_scores(validated(self, X, accept_sparse="csr", dtype=_FLOATS, reset=False))
        if len(self.pairs_) == 1:
            return scores[:, 0]
        return np.asarray(_ovr_decision_function(scores > 0, scores, len(self.classes_)))

    @abstractmethod
    def _pair_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores (t, pairs) of validated samples, positive for the second class of a pair."""

    def predict(self, X: "SamplesLike") -> Any:
        """Return labels of samples.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t,)
            Labels from ``classes_``.
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if len(self.pairs_) == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
