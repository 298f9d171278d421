"""The machines of :mod:`polyopt.large` on Dask.

The partitions of Dask's arrays and frames are the blocks of samples, and stay on the workers. Predictions for
Dask collections are lazy.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from formulations.language.arguments import refuse_masked
from polyopt.base.types import SamplesLike
from polyopt.dask.executor import DaskExecutor
from polyopt.estimators.frames import column_names, in_order, matrix_of_frame, refuse_dates
from polyopt.estimators.validation import validated
from polyopt.large import linear, polytopes
from polyopt.large.base import BlockClassifier
from polyopt.large.blocks import row_matrix
from polyopt.large.executor import Executor
from polyopt.large.sources import Arrays, heading_of

if TYPE_CHECKING:
    from distributed import Client

CollectionLike: TypeAlias = Any
"""A Dask array or frame."""


def is_collection(X: object) -> bool:
    """Return True for a Dask array or frame."""
    return hasattr(X, "__dask_graph__") and (hasattr(X, "blocks") or hasattr(X, "partitions"))


def _partitions(X: Any, name: str) -> list[Any]:
    """Return the partitions of rows, as delayed objects."""
    if hasattr(X, "chunks"):
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return list(X.to_delayed().ravel())
    if not hasattr(X, "to_delayed"):
        raise ValueError(f"{name} must be a Dask array or frame too, not {type(X).__name__}")
    return list(X.to_delayed())


def _as_array(values: Any) -> Any:
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def _in_column_order(X: Any, names: list[Any], where: str) -> Any:
    """Put the columns of a partition in order and return its numbers, on a worker."""
    if not hasattr(X, "columns"):
        return X
    X = in_order(X, names, where)
    try:
        return type(X)(matrix_of_frame(X), columns=X.columns, index=X.index)
    except ValueError as error:
        raise ValueError(f"X in {where}: {error}") from None


def _partition_arrays(X: Any, y: Any, weights: Any = None) -> tuple[Any, Any, Any]:
    """Return the arrays of a partition on a worker; ValueError for masked entries and dates."""
    for name, values in (("X", X), ("y", y), ("sample_weight", weights)):
        refuse_masked(name, values)
    refuse_dates(X)
    y = np.asarray(_as_array(y))
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    return (
        row_matrix(_as_array(X)),
        y,
        None if weights is None else np.asarray(_as_array(weights)).reshape(len(weights)),
    )


def parts_of(
    client: Client, X: CollectionLike, y: CollectionLike, weights: CollectionLike | None = None
) -> list[Any]:
    """Compute the arrays of every partition, which stay with the workers; return their futures."""
    from dask import delayed

    partitions = [_partitions(X, "X"), _partitions(y, "y")]
    if hasattr(X, "columns"):
        ordered, names = delayed(_in_column_order, pure=False), list(X.columns)
        partitions[0] = [ordered(part, names, f"partition {k}") for k, part in enumerate(partitions[0])]
    if weights is not None:
        partitions.append(_partitions(weights, "sample_weight"))
    for name, other in zip(("y", "sample_weight"), partitions[1:], strict=False):
        if len(other) != len(partitions[0]):
            raise ValueError(
                f"{name} has {len(other)} partitions of rows and X has {len(partitions[0])}: cut them alike, "
                f"as with {name}.rechunk or repartition"
            )
    arrays = delayed(_partition_arrays, pure=False)
    return list(client.compute([arrays(*values) for values in zip(*partitions, strict=True)]))


def map_rows(
    X: CollectionLike, function: Callable[[Any], Any], width: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """Map a function over the rows of each partition, lazily; `width` and `dtype` are of a row's result."""
    if not hasattr(X, "chunks"):
        names = list(X.columns)
        X = X.map_partitions(_in_column_order, names, "a partition", meta=X._meta).to_dask_array()
    elif X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    empty = np.zeros((0, *width), dtype)

    def apply(rows: Any) -> Any:
        return function(rows) if rows.shape[0] else empty

    if width:
        return X.map_blocks(apply, chunks=(X.chunks[0], width), dtype=dtype, meta=empty)
    return X.map_blocks(apply, drop_axis=1, dtype=dtype, meta=empty)


class _OnDask(BlockClassifier):
    """Base of the machines on Dask."""

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

    def _executor_of(self, X: Any, y: Any, sample_weight: Any) -> Executor:
        client = self.client
        if is_collection(X) and y is not None:
            parts = parts_of(client, X, y, sample_weight)
            return DaskExecutor(client, parts, column_names(heading_of(X)))
        source = self._source(X, y, sample_weight)
        if isinstance(source, Arrays):  # a copy is kept by the scheduler
            blocks = (source.read(k) for k in range(source.count))
            parts = [client.submit(_partition_arrays, *block, pure=False) for block in blocks]
            return DaskExecutor(client, parts, source.names)
        return DaskExecutor(client, [source] * source.count)

    def _checked(self, X: CollectionLike) -> Self:
        """Return the machine without feature names, for partitions of a collection whose names are right."""
        check_is_fitted(self)
        heading = heading_of(X)
        validated(self, X if heading is None else heading, reset=False, skip_check_array=True)
        nameless = copy(self)
        nameless.__dict__.pop("feature_names_in_", None)
        return nameless

    def decision_function(self, X: Any) -> Any:
        """Return scores of samples; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.
        """
        if not is_collection(X):
            return super().decision_function(X)
        nameless = self._checked(X)
        width = () if len(self.pairs_) == 1 else (len(self.classes_),)
        return map_rows(X, super(_OnDask, nameless).decision_function, width, np.dtype(float))

    def predict(self, X: Any) -> Any:
        """Return labels of samples; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.
        """
        if not is_collection(X):
            return super().predict(X)
        return map_rows(X, super(_OnDask, self._checked(X)).predict, (), self.classes_.dtype)

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
        return float(super().score(X, y, sample_weight))


class SVM(_OnDask, linear.SVM):
    """Support vector machine with linear features on Dask; see :class:`polyopt.large.SVM`."""


class SigmaSVM(_OnDask, linear.SigmaSVM):
    """Sigma-SVM with linear features on Dask; see :class:`polyopt.large.SigmaSVM`."""


class RelativeMarginMachine(_OnDask, linear.RelativeMarginMachine):
    """Relative Margin Machine on Dask; see :class:`polyopt.large.RelativeMarginMachine`."""


class ConvexPolytopeMachine(_OnDask, polytopes.ConvexPolytopeMachine):
    """Convex Polytope Machine on Dask; see :class:`polyopt.large.ConvexPolytopeMachine`.

    The pilot is drawn where the samples are, and solved by the client.
    """

    def face_scores(self, X: CollectionLike | SamplesLike) -> Any:
        """Return scores of samples at every face, for two classes; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.
        """
        if not is_collection(X):
            return super().face_scores(X)
        nameless = self._checked(X)
        scores = super(ConvexPolytopeMachine, nameless).face_scores
        return map_rows(X, scores, (len(self.b_),), np.dtype(float))
