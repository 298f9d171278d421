"""Collections of Dask and sources of blocks as samples: recognised, and collections scored lazily.

A collection is a Dask array or frame, in partitions of rows. A source has samples in blocks, which it reads
one at a time (:mod:`polyopt.scale.sources`).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from polyopt.estimators.frames import in_order, matrix_of_frame

CollectionLike: TypeAlias = Any
"""A Dask array or frame."""


def is_collection(X: object) -> bool:
    """Return True for a Dask array or frame."""
    return hasattr(X, "__dask_graph__") and (hasattr(X, "blocks") or hasattr(X, "partitions"))


def is_source(X: object) -> bool:
    """Return True for a source of samples: it has a number of blocks, and reads each."""
    return isinstance(getattr(X, "count", None), int) and callable(getattr(X, "read", None))


def is_in_blocks(X: object, *settings: object) -> bool:
    """Return True if samples are to be fitted in blocks: by their type, or by a setting that is not None."""
    return is_source(X) or is_collection(X) or any(setting is not None for setting in settings)


def heading_of(X: object) -> Any:
    """Return a frame with the columns of samples, perhaps without rows; None if they have no names."""
    return getattr(X, "_meta", X) if hasattr(X, "columns") else None


def matrix_of_partition(X: Any, names: Sequence[Any], where: str) -> Any:
    """Return the samples of a partition as a matrix, the columns of a frame in the order of `names`."""
    if not hasattr(X, "columns"):
        return X
    X = in_order(X, names, where)
    try:
        return matrix_of_frame(X)
    except ValueError as error:
        raise ValueError(f"X in {where}: {error}") from None


def map_rows(X: CollectionLike, function: Callable[[Any], Any]) -> Any:
    """Map a function, whose result has an entry or a row for each row of a matrix, over X, lazily."""
    names = list(getattr(X, "columns", ()))
    empty = function(np.zeros((1, X.shape[1])))[:0]

    def apply(rows: Any) -> Any:
        return function(matrix_of_partition(rows, names, "a partition")) if rows.shape[0] else empty

    if not hasattr(X, "chunks"):
        return X.map_partitions(apply, meta=empty)
    X, width = X.rechunk({1: -1}), empty.shape[1:]
    axes = {"chunks": (X.chunks[0], *width)} if width else {"drop_axis": 1}
    return X.map_blocks(apply, **axes, dtype=empty.dtype, meta=empty)
