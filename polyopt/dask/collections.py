"""Dask arrays and frames: their partitions as blocks of samples, and lazy predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.arguments import refuse_masked
from polyopt.dask.executor import DaskExecutor
from polyopt.estimators.frames import column_names, in_order, matrix_of_frame, refuse_dates
from polyopt.large.blocks import row_matrix
from polyopt.large.sources import Arrays, CollectionLike, Source, heading_of

if TYPE_CHECKING:
    from distributed import Client


def executor_of_collection(
    client: Client | None, X: CollectionLike, y: CollectionLike, weights: CollectionLike | None = None
) -> DaskExecutor:
    """Compute the partitions, which stay with the workers; return the executor on them."""
    from dask import delayed

    client, names = client or _default_client(), list(getattr(X, "columns", ()))
    columns = [_partitions(X, "X"), _partitions(y, "y")]
    columns += [] if weights is None else [_partitions(weights, "sample_weight")]
    for name, other in zip(("y", "sample_weight"), columns[1:], strict=False):
        if len(other) != len(columns[0]):
            raise ValueError(
                f"{name} has {len(other)} partitions of rows and X has {len(columns[0])}: cut them alike, "
                f"as with {name}.rechunk or repartition"
            )
    arrays = delayed(_partition_arrays, pure=False)
    parts = [
        arrays(names, f"partition {k}", *partition) for k, partition in enumerate(zip(*columns, strict=True))
    ]
    return DaskExecutor(client, list(client.compute(parts)), column_names(heading_of(X)))


def executor_of_source(client: Client | None, source: Source) -> DaskExecutor:
    """Return the executor on the workers, which read the source; arrays of this process are sent to them."""
    client = client or _default_client()
    if not isinstance(source, Arrays):
        return DaskExecutor(client, [source] * source.count)
    blocks = (source.read(number) for number in range(source.count))  # the scheduler keeps a copy
    parts = [client.submit(_partition_arrays, (), "", *block, pure=False) for block in blocks]
    return DaskExecutor(client, parts, source.names)


def map_rows(X: CollectionLike, function: Callable[[Any], Any]) -> Any:
    """Map a function, whose result has an entry or a row for each row of a matrix, over X, lazily."""
    names = list(getattr(X, "columns", ()))
    empty = function(np.zeros((1, X.shape[1])))[:0]

    def apply(rows: Any) -> Any:
        return function(_matrix(rows, names, "a partition")) if rows.shape[0] else empty

    if not hasattr(X, "chunks"):
        return X.map_partitions(apply, meta=empty)
    X, width = X.rechunk({1: -1}), empty.shape[1:]
    axes = {"chunks": (X.chunks[0], *width)} if width else {"drop_axis": 1}
    return X.map_blocks(apply, **axes, dtype=empty.dtype, meta=empty)


def _default_client() -> Client:
    from distributed import default_client

    return default_client()


def _partitions(X: Any, name: str) -> list[Any]:
    """Return the partitions of rows, as delayed objects."""
    if not hasattr(X, "to_delayed"):
        raise ValueError(f"{name} must be a Dask array or frame too, not {type(X).__name__}")
    if not hasattr(X, "chunks"):
        return list(X.to_delayed())
    return list((X.rechunk({1: -1}) if X.ndim == 2 else X).to_delayed().ravel())


def _partition_arrays(
    names: Sequence[Any], where: str, X: Any, y: Any, weights: Any = None
) -> tuple[Any, Any, Any]:
    """Return the arrays of a partition on a worker; ValueError for masked entries and dates."""
    for name, values in (("X", X), ("y", y), ("sample_weight", weights)):
        refuse_masked(name, values)
    refuse_dates(X)
    y = np.asarray(_as_array(y))
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    weights = None if weights is None else np.asarray(_as_array(weights)).reshape(len(weights))
    return row_matrix(_matrix(X, names, where)), y, weights


def _matrix(X: Any, names: Sequence[Any], where: str) -> Any:
    """Return the samples of a partition as a matrix, the columns of a frame in the order of `names`."""
    if not hasattr(X, "columns"):
        return X
    X = in_order(X, names, where)
    try:
        return matrix_of_frame(X)
    except ValueError as error:
        raise ValueError(f"X in {where}: {error}") from None


def _as_array(values: Any) -> Any:
    return values.to_numpy() if hasattr(values, "to_numpy") else values
