"""Dask's arrays and frames as blocks of samples, and lazy answers for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from formulations.arguments import refuse_masked
from polyopt.estimators.column_table import refuse_dates
from polyopt.estimators.frames import in_order, matrix_of_frame
from polyopt.large.parts import held_matrix

if TYPE_CHECKING:
    from distributed import Client

    from polyopt.large.sources import Arrays


CollectionLike: TypeAlias = Any
"""A Dask array or frame."""

__all__ = ["CollectionLike", "is_collection", "mapped", "parts_of", "parts_of_arrays"]


def is_collection(X: object) -> bool:
    """Whether something is a Dask array or frame."""
    return hasattr(X, "__dask_graph__") and (hasattr(X, "blocks") or hasattr(X, "partitions"))


def _pieces(X: Any, name: str) -> list[Any]:
    """The partitions of rows, as delayed objects."""
    if hasattr(X, "chunks"):
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return list(X.to_delayed().ravel())
    if not hasattr(X, "to_delayed"):
        raise ValueError(f"{name} must be a Dask array or frame too, not {type(X).__name__}")
    return list(X.to_delayed())


def _values(each: Any) -> Any:
    return each.to_numpy() if hasattr(each, "to_numpy") else each


def _ordered(X: Any, names: list[Any], where: str) -> Any:
    """On a worker: a partition with its columns in order, and its numbers as such."""
    if not hasattr(X, "columns"):
        return X
    X = in_order(X, names, where)
    try:
        return type(X)(matrix_of_frame(X), columns=X.columns, index=X.index)
    except ValueError as error:
        raise ValueError(f"X in {where}: {error}") from None


def _part(X: Any, y: Any, weights: Any = None) -> tuple[Any, Any, Any]:
    """On a worker: the arrays of a partition, which must not be masked, nor hold dates."""
    for name, each in (("X", X), ("y", y), ("sample_weight", weights)):
        refuse_masked(name, each)
    refuse_dates(X)
    y = np.asarray(_values(y))
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    return (
        held_matrix(_values(X)),
        y,
        None if weights is None else np.asarray(_values(weights)).reshape(len(weights)),
    )


def parts_of(
    client: Client, X: CollectionLike, y: CollectionLike, weights: CollectionLike | None = None
) -> list[Any]:
    """Futures of the arrays of every partition, which stay with the workers.

    Parameters
    ----------
    client : distributed.Client
        The client.
    X, y, weights : Dask array or frame
        Samples, labels and weights, cut alike.

    Raises
    ------
    ValueError
        Different numbers of partitions.
    """
    from dask import delayed

    pieces = [_pieces(X, "X"), _pieces(y, "y")]
    if hasattr(X, "columns"):
        put, names = delayed(_ordered, pure=False), list(X.columns)
        pieces[0] = [put(each, names, f"partition {number}") for number, each in enumerate(pieces[0])]
    if weights is not None:
        pieces.append(_pieces(weights, "sample_weight"))
    for name, other in zip(("y", "sample_weight"), pieces[1:], strict=False):
        if len(other) != len(pieces[0]):
            raise ValueError(
                f"{name} has {len(other)} partitions of rows and X has {len(pieces[0])}: cut them alike, as "
                f"with {name}.rechunk or repartition"
            )
    part = delayed(_part, pure=False)
    return list(client.compute([part(*each) for each in zip(*pieces, strict=True)]))


def parts_of_arrays(client: Client, arrays: Arrays) -> list[Any]:
    """The same of arrays in the client's memory, of which the scheduler keeps a copy, too.

    client: the client.
    arrays: the arrays, in blocks.
    """
    return [client.submit(_part, *arrays.read(k), pure=False) for k in range(arrays.count)]


def mapped(
    X: CollectionLike, function: Callable[[Any], Any], width: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """A lazy Dask array of what a function gives for each partition.

    X: samples.
    function: takes the rows of a partition.
    width: the shape of what a row gives.
    dtype: its type.
    """
    if not hasattr(X, "chunks"):
        names = list(X.columns)
        X = X.map_partitions(_ordered, names, "a partition", meta=X._meta).to_dask_array()
    elif X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    empty = np.zeros((0, *width), dtype)

    def answered(rows: Any) -> Any:
        return function(rows) if rows.shape[0] else empty

    if width:
        return X.map_blocks(answered, chunks=(X.chunks[0], width), dtype=dtype, meta=empty)
    return X.map_blocks(answered, drop_axis=1, dtype=dtype, meta=empty)
