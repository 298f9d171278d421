"""What the programs of a union of polytopes are made of, in numpy alone.

Notation as in :mod:`formulations.cpm_union`. It is apart from it so that what solves and checks the machine
without a modelling language need not import one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.polytope import lift
from formulations.recovery import as_costs, as_data, slacks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike, Vector

    Integers = NDArray[np.int64]

__all__ = [
    "best_faces",
    "best_pieces",
    "check_pieces",
    "first_faces",
    "per_piece",
    "union_answers",
    "union_objective",
    "union_scores",
]


def check_pieces(pieces: ArrayLike) -> Integers:
    """The piece of each face (K,), 0 to D - 1: faces of a piece stand side by side, and none is without.

    Raises
    ------
    ValueError
        Anything else.
    """
    given = np.asarray(pieces)
    steps = np.diff(given, prepend=0) if given.ndim == 1 and np.issubdtype(given.dtype, np.integer) else None
    if steps is None or not len(given) or given[0] != 0 or not np.isin(steps, (0, 1)).all():
        raise ValueError(
            "pieces must say the piece of each face, whole numbers that begin at 0 and rise by 1 from one "
            f"piece to the next, such as [0, 0, 1, 1, 1], not {pieces!r}"
        )
    return given.astype(np.int64)


def first_faces(pieces: Integers) -> Integers:
    """The number of each piece's first face, (D,)."""
    return np.flatnonzero(np.diff(pieces, prepend=-1))


def per_piece(values: Vector, pieces: Integers, how: np.ufunc) -> Vector:
    """The values (n, K) of the faces, put together for each piece by a ufunc: shape (n, D).

    Parameters
    ----------
    values : ndarray of shape (n, K)
        A column for each face.
    pieces : ndarray of int, shape (K,)
        As :func:`check_pieces` gives them.
    how : ufunc
        ``numpy.add``, ``numpy.maximum`` or ``numpy.minimum``.
    """
    return np.asarray(how.reduceat(values, first_faces(pieces), axis=1))


def union_scores(outputs: Vector, pieces: Integers) -> Vector:
    """f(x) = min_d max_{k in d} W_k·x̃ for the outputs (n, K) of the faces: positive outside of all pieces."""
    return np.asarray(per_piece(outputs, pieces, np.maximum).min(axis=1))


def best_pieces(outputs: Vector, pieces: Integers) -> Integers:
    """The piece in which each sample, were it inside, pays least: shape (n,)."""
    return np.asarray(per_piece(np.maximum(0.0, 1.0 + outputs), pieces, np.add).argmin(axis=1))


def best_faces(outputs: Vector, pieces: Integers) -> Integers:
    """The face of every piece with the highest output for each sample: shape (n, D)."""
    first = first_faces(pieces)
    ends = np.append(first[1:], len(pieces))
    return np.stack(
        [begin + outputs[:, begin:end].argmax(axis=1) for begin, end in zip(first, ends, strict=True)], axis=1
    )


def union_answers(y: ArrayLike, pieces: ArrayLike, inside: ArrayLike, outside: ArrayLike) -> Vector:
    """Z (n, K): which faces answer for which sample, the parameter ``Z`` of the programs.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
    pieces : array_like of int, shape (K,)
        The piece of each face.
    inside : array_like of int, shape (n,)
        The piece of each sample inside; the entries of others are ignored.
    outside : array_like of int, shape (n, D)
        For each sample outside a face of every piece; the entries of others are ignored.

    Raises
    ------
    ValueError
        A sample inside has no piece, one outside no face of a piece, or the shapes differ.
    """
    y, pieces = np.asarray(y), check_pieces(pieces)
    n, D = len(y), int(pieces[-1]) + 1
    d, z = np.asarray(inside), np.asarray(outside)
    if d.shape != (n,) or z.shape != (n, D):
        raise ValueError(
            f"inside must have shape {(n,)} and outside {(n, D)} to match y and pieces, not {d.shape} and "
            f"{z.shape}"
        )
    within = y < 0
    if not np.isin(d[within], np.arange(D)).all():
        raise ValueError(f"inside must be from 0 to {D - 1} at every sample inside")
    own = z[~within]
    if not np.isin(own, np.arange(len(pieces))).all() or (pieces[own.astype(int)] != np.arange(D)).any():
        raise ValueError("outside must name, at every sample outside, a face of each piece in its column")
    Z: Vector = (within[:, None] & (d[:, None] == pieces)).astype(float)
    at = np.flatnonzero(~within)
    Z[at[:, None], own.astype(int)] = 1.0
    return Z


def union_objective(
    X: MatrixLike, y: ArrayLike, W: NDArray[Any], pieces: ArrayLike, C: ArrayLike = 1.0
) -> float:
    """J(W): the objective at W, with the assignments that are best for it.

    Parameters
    ----------
    X, y
        Samples and labels.
    W : ndarray of shape (K, m+1)
        Faces, the bias last.
    pieces : array_like of int, shape (K,)
        The piece of each face.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    """
    X, y = as_data(X, y)
    hinge, pieces = slacks(lift(X) @ W.T, y[:, None]), check_pieces(pieces)
    within = per_piece(hinge, pieces, np.add).min(axis=1)
    beyond = per_piece(hinge, pieces, np.minimum).sum(axis=1)
    return float((W**2).sum() + as_costs(C, len(y)) @ np.where(y > 0, beyond, within))
