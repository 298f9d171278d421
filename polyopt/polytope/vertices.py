"""Corners and volume of a bounded polytope with an interior, by Qhull; the line by hand."""

from __future__ import annotations

from math import comb, prod
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, HalfspaceIntersection, cKDTree

from polyopt.polytope.halfspaces import bounding_box, inner_ball

if TYPE_CHECKING:
    from formulations.language.types import Array

__all__ = ["check_size", "vertices_of", "volume_of"]

_MAX_FEATURES = 8  # beyond, corners are too many to be of use
_MAX_VERTICES = 200_000  # by the upper bound theorem, at most
_MIN_DISTANCE = 1e-9  # corners nearer to each other than this share of the polytope's width are one


def check_size(n_faces: int, n_features: int) -> None:
    """Refuse a polytope that could have too many corners to compute.

    n_faces, n_features: of the polytope.
    ValueError: too many features, or too many corners by the upper bound theorem.
    """
    if n_features > _MAX_FEATURES:
        raise ValueError(
            f"corners and volume are worked out for at most {_MAX_FEATURES} features, and this polytope "
            f"has {n_features}: the number of corners grows too fast; section() fixes all features but a few"
        )
    low, high = n_features // 2, n_features - n_features // 2
    most = comb(n_faces - high, low) + comb(n_faces - low - 1, high - 1)
    if most > _MAX_VERTICES:
        raise ValueError(
            f"{n_faces} faces in {n_features} dimensions may have {most:,} corners; at most "
            f"{_MAX_VERTICES:,} are worked out"
        )


def vertices_of(W: Array, b: Array) -> Array:
    """Corners (v, m): in the plane counter-clockwise, else in lexicographic order.

    The polytope is bounded, with an interior, and none of its faces W (K, m), b (K,) is redundant.
    """
    low, high = bounding_box(W, b)
    if len(low) == 1:
        return np.array([low, high])
    return _corners(W, b, low, high) * (0.5 * (high - low)) + 0.5 * (low + high)


def volume_of(W: Array, b: Array) -> float:
    """Volume of a polytope as in :func:`vertices_of`, in the product of its features' units."""
    low, high = bounding_box(W, b)
    if len(low) == 1:
        return float(high[0] - low[0])
    return float(ConvexHull(_corners(W, b, low, high)).volume * prod((0.5 * (high - low)).tolist()))


def _corners(W: Array, b: Array, low: Array, high: Array) -> Array:
    """Corners with the bounding box brought to [-1, 1] in every direction, where Qhull is accurate."""
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    A, room = W * half, -(W @ middle + b)
    centre = inner_ball(A, -room).centre
    room = room - A @ centre
    found = HalfspaceIntersection(np.column_stack([A, -room]), np.zeros(len(centre))).intersections
    points = _merged(found[np.isfinite(found).all(axis=1)])
    size = np.linalg.norm(A, axis=1)
    A = A / size[:, None]
    left = (room / size)[:, None] - A @ points.T
    # Where faces all but meet Qhull gives points along an edge as well, whose faces leave them a direction.
    fixed = [np.linalg.matrix_rank(A[faces], tol=1e-8) == len(centre) for faces in (left <= _MIN_DISTANCE).T]
    return _ordered(points[fixed] + centre)


def _merged(points: Array) -> Array:
    """One point for each heap of points: Qhull gives a corner of many faces several times."""
    pairs = cKDTree(points).query_pairs(_MIN_DISTANCE, output_type="ndarray")
    near = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(points), len(points)))
    count, heap = connected_components(near, directed=False)
    total = np.zeros((count, points.shape[1]))
    np.add.at(total, heap, points)
    return total / np.bincount(heap)[:, None]


def _ordered(points: Array) -> Array:
    if points.shape[1] == 2:
        around = points - points.mean(axis=0)
        return points[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]
    return points[np.lexsort(np.round(points, 9).T[::-1])]
