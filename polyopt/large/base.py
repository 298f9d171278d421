"""Base of the classifiers of samples in blocks: fit of each pair of classes, certificates, and prediction."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import KW_ONLY, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from formulations.language.clock import Clock, running
from formulations.language.solution import Solution
from polyopt.base.onnx_graph import Graph
from polyopt.base.progress import counted
from polyopt.base.types import ClassWeight, SamplesLike
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.frames import check_names
from polyopt.estimators.parameters import estimator, shared
from polyopt.estimators.status import FINE, warn
from polyopt.estimators.validation import check_total, validated
from polyopt.large.blocks import Report
from polyopt.large.executor import Executor, LocalExecutor
from polyopt.large.sources import Arrays, CollectionLike, Source, heading_of, is_collection

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

MIN_CERTIFICATE_TOL = 1e-6
"""Smallest tolerance of a certificate, as in memory."""


@estimator
class BlockClassifier(PairwiseClassifier):
    """Base of the classifiers whose samples are read by blocks.

    The blocks are those of a source, on all threads of this process, or the partitions of a Dask collection,
    on the workers of `client`.

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
    client : distributed.Client or None
        The client for all samples; None for this process, and for the current client if the samples are a
        Dask collection.
    certificates_, solutions_ : list
        The certificate and the solution of each pair of classes.
    duals_ : refused
        The multipliers stay with the blocks.
    estimators_ : absent
        The pairs of classes are entries of this classifier's attributes.
    """

    _: KW_ONLY
    tol: float = 1e-8
    max_iter: int | None = None
    time_limit: float | None = None
    class_weight: ClassWeight = None
    verbose: bool | int = False

    client: Client | None = field(init=False, default=None)
    _is_on_dask: ClassVar[bool] = False  # True if sources and arrays go to the workers too
    _fit_inputs: ClassVar[tuple[str, ...]] = ("client",)
    _scored_dtypes: ClassVar[Any] = (np.float64, np.float32)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = shared(
        "tol", "time_limit", "class_weight", "verbose", optional=["max_iter"]
    )

    def fit(
        self,
        X: CollectionLike | SamplesLike | Source,
        y: CollectionLike | ArrayLike | None = None,
        sample_weight: CollectionLike | ArrayLike | None = None,
        *,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
    ) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : Source, Dask array or frame, or array_like or sparse matrix of shape (n, m)
            Training samples: a source of :mod:`polyopt.large.sources` with labels and weights, or arrays.
        y : Dask array or frame, or array_like of shape (n,), optional
            Labels of two or more classes; none for a source.
        sample_weight : Dask array or frame, or array_like of shape (n,), optional
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
        self._validate_params()
        with self._refitting():
            self._asked = self.get_params(deep=False)
            heading = heading_of(X)
            if heading is not None:  # sets feature_names_in_
                validated(self, heading, skip_check_array=True)
            executor = self._executor_of(X, y, sample_weight)
            try:
                with running(Clock(self.time_limit)) as clock, self._printing_progress():
                    self._fit(executor, clock, checkpoint, resume)
            finally:
                executor.close()
        self._warn_if_not_converged()
        return self

    def _executor_of(self, X: Any, y: Any, sample_weight: Any) -> Executor:
        if isinstance(X, Source):
            if y is not None or sample_weight is not None:
                raise ValueError("a source has labels and weights itself: leave y and sample_weight out")
        elif y is None:
            raise ValueError(f"{type(self).__name__} needs labels y, or a source that has them")
        elif is_collection(X):
            from polyopt.dask.collections import executor_of_collection

            return executor_of_collection(self.client, X, y, sample_weight)
        source = X if isinstance(X, Source) else Arrays(X, y, sample_weight)
        if not self._is_on_dask and self.client is None:
            return LocalExecutor(source)
        from polyopt.dask.collections import executor_of_source

        return executor_of_source(self.client, source)

    def _fit(
        self, executor: Executor, clock: Clock, checkpoint: str | Path | None, resume: str | Path | None
    ) -> None:
        reports = executor.inspect()
        weights = self._read(reports)
        factors = self._class_weights(np.arange(len(weights)), weights)
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
        self.solution_ = self.solutions_[0] if self._is_binary else self.solutions_
        self.solver_ = self.solutions_[0].solver
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
            weights[self.classes_.searchsorted(report.labels)] += report.weights[:, 0]
        check_total(weights)
        return weights

    def _warn_if_not_converged(self) -> None:
        """Warn about the first pair whose fit did not reach its tolerance."""
        for solution, proof in zip(self.solutions_, self.certificates_, strict=True):
            is_fine = solution.status in FINE
            if not (is_fine and self._is_proven(proof)):
                warn(self, f"Short of the tolerance. {proof.sentence}" if is_fine else str(solution.status))
                return

    def _is_proven(self, proof: Certificate) -> bool:
        """Return True if a certificate is that of a run which reached its tolerance."""
        return proof.is_optimal

    # -- what a fit leaves -----------------------------------------------------------------------

    def certificate(self) -> Certificate | list[Certificate]:  # type: ignore[override]
        """Return the certificate, made during the fit; a list of them for more than two classes."""
        check_is_fitted(self)
        return self.certificates_[0] if self._is_binary else list(self.certificates_)

    @property
    def holds_data(self) -> bool:
        """False: the samples stay in their blocks."""
        return False

    @property
    def history_(self) -> pd.DataFrame:
        """Records of the solver: one row per iteration, with more than two classes of each pair."""
        import pandas as pd

        check_is_fitted(self)
        if self._is_binary:
            return self._binary_history()
        frames = [
            pd.DataFrame(list(solution.history)).assign(pair=f"{first} vs {second}")
            for solution, (first, second) in zip(self.solutions_, self.pairs_, strict=True)
        ]
        return pd.concat(frames, ignore_index=True)

    def without_data(self) -> Self:
        """Return this classifier, which holds no data."""
        check_is_fitted(self)
        return self

    def draw(self, graph: Graph, x: str) -> Any:
        """Raise ValueError: there is no ONNX graph."""
        raise ValueError(f"{type(self).__name__} of samples in blocks has no ONNX graph")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "client"}

    # -- prediction ------------------------------------------------------------------------------

    def decision_function(self, X: CollectionLike | SamplesLike) -> Any:
        """Return scores of samples, as the classifiers in memory do; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.
        """
        return self._lazy("decision_function", X) if is_collection(X) else super().decision_function(X)

    def predict(self, X: CollectionLike | SamplesLike) -> Any:
        """Return labels (t,) of samples; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.
        """
        return self._lazy("predict", X) if is_collection(X) else super().predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on samples in memory.

        Parameters
        ----------
        X, y, sample_weight
            Samples, their labels and, optionally, their weights.
        """
        if is_collection(X):
            raise TypeError(
                "score takes samples in memory; of a Dask collection X with labels y in an array cut alike, "
                "the accuracy is (machine.predict(X) == y).mean().compute()"
            )
        return super().score(X, y, sample_weight)

    def _lazy(self, method: str, X: CollectionLike) -> Any:
        """Return the results of a method for all rows of a Dask collection, lazily."""
        from polyopt.dask.collections import map_rows

        check_is_fitted(self)
        heading = heading_of(X)
        validated(self, X if heading is None else heading, reset=False, skip_check_array=True)
        nameless = copy(self)  # its partitions are matrices, in the order of the names that were checked
        nameless.__dict__.pop("feature_names_in_", None)
        return map_rows(X, getattr(nameless, method))

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        return np.asarray(self._pair_scores(X)[:, 0])

    @abstractmethod
    def _pair_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores (t, pairs) of validated samples, positive for the second class of a pair."""
