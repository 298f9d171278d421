"""Where the columns of a table are in the memory, whatever their order and type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = ["Cells", "cells_of_columns", "cells_of_matrix", "is_readable"]

KINDS = (np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8)
"""Types that the loops read, by their numbers."""

_KIND = {np.dtype(kind).str: number for number, kind in enumerate(KINDS)} | {"|b1": 6}
_OF_TYPE = {np.dtype(name): number for name, number in _KIND.items()}


class Cells(NamedTuple):
    """Columns as addresses, which are good for as long as this object is.

    Attributes
    ----------
    addresses : ndarray of int64, shape (c,)
        Of each column's first cell.
    steps : ndarray of int64, shape (c,)
        From a cell to the next, in cells.
    kinds : ndarray of int64, shape (c,)
        The type, by its place in KINDS.
    rows : int
        Rows.
    held : object
        What holds the memory.
    """

    addresses: Integers
    steps: Integers
    kinds: Integers
    rows: int
    held: object


def is_readable(array: NDArray[Any]) -> bool:
    """Whether the loops can read an array as it is: its type, and cells that follow each other in steps."""
    return (
        array.dtype.str in _KIND
        and array.flags.aligned
        and all(step >= 0 and step % array.itemsize == 0 for step in array.strides)
    )


def cells_of_matrix(X: NDArray[Any], places: Integers) -> Cells:
    """Some columns of a matrix.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        A matrix; one that is not readable is copied.
    places : ndarray of int64, shape (c,)
        The columns.
    """
    if not is_readable(X):
        X = np.array(X, dtype=X.dtype if X.dtype.str in _KIND else np.float64)
    c, (row, column) = len(places), X.strides
    return Cells(
        places * column + X.__array_interface__["data"][0],
        np.full(c, row // X.itemsize),
        np.full(c, _KIND[X.dtype.str]),
        len(X),
        X,
    )


def cells_of_columns(columns: Sequence[NDArray[Any]], rows: int) -> Cells:
    """Columns that lie anywhere.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n,)
        The columns; those that are not readable are copied.
    rows : int
        Rows.
    """
    held, places = [], np.empty((3, len(columns)), dtype=np.int64)
    for p, own in enumerate(columns):
        kind = _OF_TYPE.get(own.dtype, -1)
        flags = own.flags
        if not (kind >= 0 and flags.c_contiguous and flags.aligned) and not is_readable(own):
            own = np.array(own, own.dtype if kind >= 0 else np.float64)
            kind = _OF_TYPE[own.dtype]
        held.append(own)
        places[:, p] = own.__array_interface__["data"][0], own.strides[0] // own.itemsize, kind
    return Cells(places[0], places[1], places[2], rows, held)
