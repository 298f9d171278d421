"""Emptiness, width, redundant faces, corners and volume of a set of half-spaces {x : W x + b ≤ 0}.

The first three are linear programs; Qhull computes corners and volume, unless there is a single feature.

Features may be in units of 1e-12 or 1e12, and a small set may be far from the origin. Hence the linear
programs are equilibrated: rows and columns are scaled to size one by powers of two (without rounding), the
origin is moved into the set, and lengths are divided by the size of the set. A number counts as zero
relative to the rounding of W x + b, not to a fixed tolerance.

Everywhere W (K, m) are the normals and b (K,) the offsets. The *slack* of face k at x is −(W_k x + b_k). With
A, rows, columns = :func:`_equilibrated` (W), A_kj = rows_k W_kj columns_j, the point
x = centre + columns · length · u satisfies face k if A_k u ≤ rows_k · slack_k(centre) / length.
"""

from dataclasses import dataclass
from math import comb, prod

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, HalfspaceIntersection, cKDTree

from formulations.language.types import Array

_EPS = float(np.finfo(float).eps)
_MIN_CUT = 1e-8  # smallest cut of a face that is not redundant, relative to its distance from the centre
_MAX_FEATURES = 8  # largest number for corners and volume; the number of corners grows exponentially
_MAX_VERTICES = 200_000  # largest number of corners, by the upper bound theorem
_MIN_DISTANCE = 1e-9  # smallest distance of two corners, relative to the polytope's width
# The tightest tolerances that HiGHS accepts.
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_PROOF_TOL = 1e-8  # largest relative residual and gap of an optimum
_UNBOUNDED = 3  # scipy's status of a linear program


@dataclass(frozen=True)
class Ball:
    """The largest ball within some half-spaces."""

    centre: Array  #: the Chebyshev centre (m,); some point inside if the radius is inf
    #: Radius in the units of x: 0 for a flat set, inf if balls of any size fit. For an empty set, minus the
    #: distance by which every face has to move outwards until a point is inside.
    radius: float

    def __str__(self) -> str:
        if np.isinf(self.radius):
            return "balls of any size fit inside; the centre is only some point inside"
        if not self.radius:
            return "the polytope is flat: no ball fits inside; the centre is a point of it"
        return f"the largest ball inside has radius {self.radius:.6g}"


def inner_ball(W: Array, b: Array) -> Ball:
    """Return the Chebyshev centre and radius: max r subject to W_k x + b_k + r ‖W_k‖ ≤ 0."""
    m = W.shape[1]
    norms = np.linalg.norm(W, axis=1)
    if np.any(b[norms == 0] > 0):
        return Ball(np.zeros(m), -np.inf)
    W, b, norms = W[norms > 0], b[norms > 0], norms[norms > 0]
    if not len(W):
        return Ball(np.zeros(m), np.inf)
    A, rows, columns = _equilibrated(np.column_stack([W, norms]))  # the last column is that of the radius
    cost = np.append(np.zeros(m), 1.0)
    centre, offsets = np.zeros(m), np.abs(rows * b)
    length = float(np.median(offsets[offsets > 0])) if offsets.any() else 1.0
    for _ in range(6):  # each time around a better centre, in a smaller unit of length
        limits = -rows * (W @ centre + b)
        optimum = _maximise(cost, A, limits / length)
        if np.isinf(optimum.value):
            capped = _maximise(cost, np.vstack([A, cost]), np.append(limits / length, 1.0))
            return Ball(centre + columns[:-1] * length * capped.point[:-1], np.inf)
        centre = centre + columns[:-1] * length * optimum.point[:-1]
        radius = columns[-1] * length * optimum.point[-1]
        active = optimum.multipliers > 0  # the faces that the ball touches
        distance = np.max(np.abs(rows * (W @ centre + b))[active], initial=0.0)
        if distance <= np.max((rows * _rounding(W, b, centre))[active], initial=0.0):
            return Ball(centre, 0.0)
        if distance > 1e-3 * length:  # HiGHS's tolerance, 1e-10 of the length, is small beside the distance
            break
        length = distance
    return Ball(centre, float(radius))


def redundant_faces(W: Array, b: Array) -> NDArray[np.bool_]:
    """Return a mask of the faces that can be removed together without changing the set.

    Face k is redundant if max W_k x + b_k subject to the other faces is at most 0. The first of faces that
    differ only in length stays, as does a face whose linear program is not solved. In an empty set the other
    faces contradict each other, and no proper subset of them does.
    """
    is_proper = W.any(axis=1) | (b > 0)  # other faces, 0·x + b ≤ 0, hold everywhere
    if not is_proper.all():
        redundant = np.ones(len(W), dtype=bool)
        if is_proper.any():
            redundant[is_proper] = redundant_faces(W[is_proper], b[is_proper])
        return redundant
    ball = inner_ball(W, b)
    redundant = np.zeros(len(W), dtype=bool)
    if ball.radius < 0:
        for k in reversed(range(len(W))):
            redundant[k] = True
            redundant[k] = inner_ball(W[~redundant], b[~redundant]).radius < 0
        return redundant
    A, rows, _ = _equilibrated(W)
    distances, length = _scaled_slack(W, b, ball.centre, rows)
    noise = rows * _rounding(W, b, ball.centre) / length
    for k in reversed(range(len(W))):
        others = ~redundant
        others[k] = False
        cap = 2.0 * distances[k] + 1.0  # a limit beyond the face's own, which keeps the program bounded
        try:
            reach = _maximise(A[k], np.vstack([A[others], A[k]]), np.append(distances[others], cap)).value
        except RuntimeError:
            continue
        redundant[k] = reach <= distances[k] * (1.0 + _MIN_CUT) + noise[k]
    return redundant


def is_bounded(W: Array) -> bool:
    """True if d = 0 is the only solution of W d ≤ 0, so that the set contains no half-line."""
    m = W.shape[1]
    A = _equilibrated(W)[0][W.any(axis=1)]
    if len(A) <= m or np.linalg.matrix_rank(A) < m:
        return False
    # A has full rank: if A d ≤ 0 and d ≠ 0, some A_k d is negative.
    box = np.vstack([np.eye(m), -np.eye(m)])
    limits = np.append(np.zeros(len(A)), np.ones(2 * m))
    return bool(_maximise(-A.sum(axis=0), np.vstack([A, box]), limits).value <= _MIN_CUT)


def bounding_box(W: Array, b: Array) -> tuple[Array, Array]:
    """Return the lowest and highest value of each feature in a set that is not empty."""
    m = W.shape[1]
    centre = inner_ball(W, b).centre
    A, rows, columns = _equilibrated(W)
    limits, length = _scaled_slack(W, b, centre, rows)
    reach = np.array([[_maximise(sign * e, A, limits).value for e in np.eye(m)] for sign in (-1.0, 1.0)])
    below, above = reach * columns * length
    return centre - below, centre + above


# -- corners and volume ------------------------------------------------------------------------


def _check_size(n_faces: int, n_features: int) -> None:
    """Raise ValueError for too many features, or possibly too many corners by the upper bound theorem."""
    if n_features > _MAX_FEATURES:
        raise ValueError(
            f"corners and volume are worked out for at most {_MAX_FEATURES} features, and this polytope "
            f"has {n_features}: the number of corners grows too fast; section() fixes all features but a few"
        )
    # McMullen: the largest number of corners of n_faces faces, with halves of n_features rounded down and up.
    low, high = n_features // 2, n_features - n_features // 2
    most = comb(n_faces - high, low) + comb(n_faces - low - 1, high - 1)
    if most > _MAX_VERTICES:
        raise ValueError(
            f"{n_faces} faces in {n_features} dimensions may have {most:,} corners; at most "
            f"{_MAX_VERTICES:,} are worked out"
        )


def vertices_of(W: Array, b: Array) -> Array:
    """Return the corners (v, m): in the plane counter-clockwise, else in lexicographic order.

    The polytope is bounded, with an interior, and none of its faces W (K, m), b (K,) is redundant. ValueError
    for more than 8 features, or possibly too many corners.
    """
    _check_size(*W.shape)
    low, high = bounding_box(W, b)
    if len(low) == 1:
        return np.array([low, high])
    return _corners(W, b, low, high) * (0.5 * (high - low)) + 0.5 * (low + high)


def volume_of(W: Array, b: Array) -> float:
    """Return the volume, in the product of the features' units, of a polytope as in :func:`vertices_of`."""
    _check_size(*W.shape)
    low, high = bounding_box(W, b)
    if len(low) == 1:
        return float(high[0] - low[0])
    return float(ConvexHull(_corners(W, b, low, high)).volume * prod((0.5 * (high - low)).tolist()))


def _corners(W: Array, b: Array, low: Array, high: Array) -> Array:
    """Return the corners with the bounding box scaled to [-1, 1] in all directions, for Qhull's accuracy."""
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    A, slack = W * half, -(W @ middle + b)
    centre = inner_ball(A, -slack).centre
    slack = slack - A @ centre
    points = HalfspaceIntersection(np.column_stack([A, -slack]), np.zeros(len(centre))).intersections
    points = _merged(points[np.isfinite(points).all(axis=1)])
    size = np.linalg.norm(A, axis=1)
    A = A / size[:, None]
    distance = (slack / size)[:, None] - A @ points.T
    # If faces nearly meet, Qhull returns points on an edge as well, whose active faces have a lower rank.
    active = (distance <= _MIN_DISTANCE).T
    is_corner = [np.linalg.matrix_rank(A[faces], tol=1e-8) == len(centre) for faces in active]
    corners = points[is_corner] + centre
    if corners.shape[1] == 2:  # counter-clockwise
        around = corners - corners.mean(axis=0)
        return corners[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]
    return corners[np.lexsort(np.round(corners, 9).T[::-1])]


def _merged(points: Array) -> Array:
    """Return the mean of each cluster of points, as Qhull returns a corner of many faces several times."""
    pairs = cKDTree(points).query_pairs(_MIN_DISTANCE, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(points), len(points)))
    count, cluster = connected_components(graph, directed=False)
    total = np.zeros((count, points.shape[1]))
    np.add.at(total, cluster, points)
    return total / np.bincount(cluster)[:, None]


# -- one linear program ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Optimum:
    value: float  # infinite if the program is unbounded
    point: Array
    multipliers: Array


def _maximise(cost: Array, A: Array, limits: Array) -> _Optimum:
    """Return the maximum of cost·u subject to A u ≤ limits, which must be feasible; inf if unbounded.

    RuntimeError: no solver returns a point that its multipliers prove optimal.
    """
    size = np.abs(cost).max(initial=0.0)
    if not len(A) or not size:  # no constraint, or the objective 0
        return _Optimum(np.inf if size else 0.0, np.zeros(len(cost)), np.zeros(len(A)))
    unit = cost / size
    # The dual simplex fails on some easy programs of free variables (status Unknown).
    for method in ("highs-ds", "highs-ipm"):
        found = linprog(-unit, A, limits, bounds=(None, None), method=method, options=_OPTIONS)
        if found.status == _UNBOUNDED:
            return _Optimum(np.inf, np.zeros(len(cost)), np.zeros(len(A)))
        if found.x is not None:
            multipliers = -found.ineqlin.marginals
            if is_optimum(unit, A, limits, found.x, multipliers):
                return _Optimum(float(cost @ found.x), found.x, multipliers)
    raise RuntimeError(
        f"HiGHS could not solve a linear program of {A.shape[0]} faces and {A.shape[1]} variables. "
        "Are the faces of wildly different sizes?"
    )


def is_optimum(cost: Array, A: Array, limits: Array, x: Array, y: Array) -> bool:
    """True if the point x and the multipliers y are feasible and have no gap."""
    primal_residual = (A @ x - limits) / (1.0 + np.abs(limits) + np.abs(A) @ np.abs(x))
    dual_residual = np.abs(A.T @ y - cost) / (1.0 + np.abs(A).T @ np.abs(y))
    gap = abs(cost @ x - limits @ y) / (1.0 + np.abs(cost) @ np.abs(x))
    return bool(max(primal_residual.max(), dual_residual.max(), gap, -y.min()) <= _PROOF_TOL)


def _equilibrated(W: Array) -> tuple[Array, Array, Array]:
    """Return W with rows and columns of size one, and the powers of two that multiply them."""
    size = np.abs(W)
    rows, columns = np.ones(W.shape[0]), np.ones(W.shape[1])
    for _ in range(12):  # sufficient for sizes that differ by a factor of 1e24
        scaled = size * rows[:, None] * columns
        rows /= np.sqrt(_or_one(scaled.max(axis=1, initial=0.0)))
        columns /= np.sqrt(_or_one(scaled.max(axis=0, initial=0.0)))
    columns = np.exp2(np.round(np.log2(columns)))
    rows = np.exp2(-np.round(np.log2(_or_one((size * columns).max(axis=1, initial=0.0)))))
    return W * rows[:, None] * columns, rows, columns


def _or_one(sizes: Array) -> Array:
    return np.where(sizes > 0, sizes, 1.0)


def _rounding(W: Array, b: Array, x: Array) -> Array:
    """Return a bound (K,) on the rounding error of W x + b."""
    return np.asarray(16 * _EPS * (np.abs(W) @ np.abs(x) + np.abs(b)))


def _scaled_slack(W: Array, b: Array, centre: Array, rows: Array) -> tuple[Array, float]:
    """Return the slack (K,) of the faces at a point of the set, in equilibrated rows, and its unit of length.

    The unit is the geometric mean of the least and the median positive slack.
    """
    slack = rows * np.maximum(-(W @ centre + b), 0.0)
    positive = slack[slack > 0]
    length = float(np.sqrt(positive.min()) * np.sqrt(np.median(positive))) if len(positive) else 1.0
    return slack / length, length
