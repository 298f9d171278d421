"""The machines of :mod:`polyopt.large` on Dask: its collections, its workers, lazy answers."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from formulations.arguments import refuse_masked
from polyopt.dask.collections import CollectionLike, is_collection, mapped, parts_of, parts_of_arrays
from polyopt.dask.crew import Team
from polyopt.estimators.frames import column_names
from polyopt.estimators.validation import validated
from polyopt.large import machines, polytopes
from polyopt.large.base import BlockClassifier
from polyopt.large.sources import Arrays, heading_of

if TYPE_CHECKING:
    from distributed import Client

    from polyopt.estimators.given import SamplesLike
    from polyopt.large.held import Hands

__all__ = ["SVM", "ConvexPolytopeMachine", "RelativeMarginMachine", "SigmaSVM"]


class _OnDask(BlockClassifier):
    """What machines on Dask share."""

    _client: Client | None = None

    @property
    def client(self) -> Client:
        """The client: the one that was set, or the current one."""
        if self._client is not None:
            return self._client
        from distributed import default_client

        return default_client()

    @client.setter
    def client(self, client: Client | None) -> None:
        self._client = client

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_client"}

    def _hands(self, X: Any, y: Any, sample_weight: Any) -> Hands:
        if is_collection(X) and y is not None:
            return Team(self.client, parts_of(self.client, X, y, sample_weight), column_names(heading_of(X)))
        source = self._source(X, y, sample_weight)
        if isinstance(source, Arrays):
            return Team(self.client, parts_of_arrays(self.client, source), source.names)
        return Team(self.client, [source] * source.count)

    def _checked(self, X: CollectionLike) -> Self:
        """The machine without names, for partitions of a collection that has the right ones."""
        check_is_fitted(self)
        head = heading_of(X)
        validated(self, X if head is None else head, reset=False, skip_check_array=True)
        nameless = copy(self)
        nameless.__dict__.pop("feature_names_in_", None)
        return nameless

    def decision_function(self, X: Any) -> Any:
        """Scores of samples; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.
        """
        if not is_collection(X):
            return super().decision_function(X)
        nameless = self._checked(X)
        width = () if len(self.pairs_) == 1 else (len(self.classes_),)
        return mapped(X, super(_OnDask, nameless).decision_function, width, np.dtype(float))

    def predict(self, X: Any) -> Any:
        """Labels of samples; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.
        """
        if not is_collection(X):
            return super().predict(X)
        return mapped(X, super(_OnDask, self._checked(X)).predict, (), self.classes_.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of samples whose label is right.

        Parameters
        ----------
        X, y, sample_weight
            As of ``fit``, or labels and weights in memory.
        """
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        y = _column(y, "y")
        found, right = _sized(self.predict(X), y), _sized(y, X)
        _check_lengths("y", right, found)
        hits = (found == right).astype(float)
        if sample_weight is None:
            return float(hits.mean().compute())
        weights = _sized(_column(sample_weight, "sample_weight"), hits)
        _check_lengths("sample_weight", weights, hits)
        hits = _sized(hits, weights)
        return float(((hits * weights).sum() / weights.sum()).compute())


def _column(values: Any, name: str) -> Any:
    """Labels or weights (n,), of a list, a series, an array, or one column of either."""
    refuse_masked(name, values)
    values = getattr(values, "values", values)
    values = values if hasattr(values, "dtype") else np.asarray(values)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _sized(values: Any, other: Any) -> Any:
    """Values (n,) with known lengths of partitions, if the other ones have them; frames have none."""
    return values.compute_chunk_sizes() if np.isnan(values.shape[0]) and _has_length(other) else values


def _check_lengths(name: str, values: Any, answers: Any) -> None:
    """Refuse values that are as many as the samples are not, where both are known."""
    given, needed = values.shape[0], answers.shape[0]
    if not (np.isnan(given) or np.isnan(needed) or given == needed):
        raise ValueError(f"{name} has {given} entries, and X has {needed} rows")


def _has_length(values: Any) -> bool:
    return not hasattr(values, "to_dask_array") and not np.isnan(values.shape[0])


class SVM(_OnDask, machines.SVM):
    """Support vector machine with linear features on Dask; see :class:`polyopt.large.SVM`."""


class SigmaSVM(_OnDask, machines.SigmaSVM):
    """Sigma-SVM with linear features on Dask; see :class:`polyopt.large.SigmaSVM`."""


class RelativeMarginMachine(_OnDask, machines.RelativeMarginMachine):
    """Relative Margin Machine on Dask; see :class:`polyopt.large.RelativeMarginMachine`."""


class ConvexPolytopeMachine(_OnDask, polytopes.ConvexPolytopeMachine):
    """Convex Polytope Machine on Dask; see :class:`polyopt.large.ConvexPolytopeMachine`.

    The pilot is drawn where the samples are, and solved by the client.
    """

    def face_scores(self, X: CollectionLike | SamplesLike) -> Any:
        """Scores of samples at every face, for two classes; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.
        """
        if not is_collection(X):
            return super().face_scores(X)
        nameless = self._checked(X)
        return mapped(X, super(ConvexPolytopeMachine, nameless).face_scores, (len(self.b_),), np.dtype(float))
