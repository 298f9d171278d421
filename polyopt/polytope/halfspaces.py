"""Emptiness, width, redundant faces, corners and volume of a set of half-spaces {x : W x + b ≤ 0}.

Linear programs answer the first three, and Qhull the others, but for a single feature.

Features may be measured in 1e-12 or 1e12 of a unit, and a small set may lie far from the origin. Hence no
linear program here sees W and b as they come: rows and columns are brought to size one by powers of two
(which round nothing), the origin is moved into the set, and lengths are divided by the size of the set.
Whether a number counts as zero is decided relative to the rounding of W x + b, not to a fixed tolerance.

Everywhere W (K, m) are the normals and b (K,) the offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb, prod

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, HalfspaceIntersection, cKDTree

from formulations.language.highs import quiet_highs
from formulations.language.types import Array

_EPS = float(np.finfo(float).eps)
_MIN_CUT = 1e-8  # relative to its distance from the centre, below which a face cuts nothing off
_MAX_FEATURES = 8  # beyond, corners are too many to be of use
_MAX_VERTICES = 200_000  # by the upper bound theorem, at most
_MIN_DISTANCE = 1e-9  # of two corners, relative to the polytope's width
# The tightest that HiGHS takes.
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_OPTIMAL, _UNBOUNDED, _NEITHER = 0, 3, 4  # statuses of scipy's linprog


@dataclass(frozen=True)
class Ball:
    """The largest ball within some half-spaces.

    Attributes
    ----------
    centre : ndarray of shape (m,)
        Its centre, the Chebyshev centre; some point inside if the radius is inf.
    radius : float
        Its radius in the units of x: 0 for a flat set, and inf if balls of any size fit. For an empty set,
        minus the distance by which every face has to move outwards until a point is inside.
    """

    centre: Array
    radius: float

    def __str__(self) -> str:
        if np.isinf(self.radius):
            return "balls of any size fit inside; the centre is only some point inside"
        if not self.radius:
            return "the polytope is flat: no ball fits inside; the centre is a point of it"
        return f"the largest ball inside has radius {self.radius:.6g}"


def inner_ball(W: Array, b: Array) -> Ball:
    """The Chebyshev centre and radius: max r subject to W_k x + b_k + r ‖W_k‖ ≤ 0."""
    m = W.shape[1]
    norms = np.linalg.norm(W, axis=1)
    if np.any(b[norms == 0] > 0):
        return Ball(np.zeros(m), -np.inf)
    W, b, norms = W[norms > 0], b[norms > 0], norms[norms > 0]
    if not len(W):
        return Ball(np.zeros(m), np.inf)
    A, rows, columns = _equilibrated(np.column_stack([W, norms]))
    centre, cost = np.zeros(m), np.append(np.zeros(m), 1.0)
    length = _typical(rows * b)
    for _ in range(6):  # each time around a better centre
        room = -rows * (W @ centre + b)
        if not length:  # every face passes through the origin: any length will do
            length = 1.0
        found = _maximise(cost, A, room / length)
        if found.status == _UNBOUNDED:
            capped = _maximise(cost, np.vstack([A, cost]), np.append(room / length, 1.0))
            return Ball(centre + columns[:-1] * length * capped.point[:-1], np.inf)
        centre = centre + columns[:-1] * length * found.point[:-1]
        radius = columns[-1] * length * found.point[-1]
        active = found.multipliers > 0
        slack = -rows * (W @ centre + b)
        noise = 16 * _EPS * rows * (np.abs(W) @ np.abs(centre) + np.abs(b))
        tight = np.max(np.abs(slack[active]), initial=0.0)
        if tight <= np.max(noise[active], initial=0.0):
            return Ball(centre, 0.0)
        if tight > 1e-3 * length:
            break
        length = tight  # the set is small beside the frame it was seen in: look again from nearby
    return Ball(centre, float(radius))


def redundant_faces(W: Array, b: Array) -> NDArray[np.bool_]:
    """Mask of the faces without all of which the set is the same.

    The first of faces that differ only in length is kept, and so is a face that no solver can decide on. In
    an empty set the faces kept contradict each other, and no proper subset of them does.
    """
    holds = W.any(axis=1) | (b > 0)  # the others, 0·x + b ≤ 0, are the whole space
    if not holds.all():
        found = np.ones(len(W), dtype=bool)
        if holds.any():
            found[holds] = redundant_faces(W[holds], b[holds])
        return found
    ball = inner_ball(W, b)
    redundant = np.zeros(len(W), dtype=bool)
    if ball.radius < 0:
        for k in reversed(range(len(W))):
            redundant[k] = True
            redundant[k] = inner_ball(W[~redundant], b[~redundant]).radius < 0
        return redundant
    room, noise = _room(W, b, ball.centre)
    A, rows, _ = _equilibrated(W)
    length = _common_length(rows * room)
    for k in reversed(range(len(W))):
        others = ~redundant
        others[k] = False
        here = rows[k] * room[k] / length
        cap = 2.0 * here + 1.0
        limits = np.append(rows[others] * room[others] / length, cap)
        try:
            reach = _maximise(A[k], np.vstack([A[others], A[k]]), limits).value
        except _UnsolvedError:
            continue
        redundant[k] = reach <= here * (1.0 + _MIN_CUT) + rows[k] * noise[k] / length
    return redundant


def is_bounded(W: Array) -> bool:
    """True if d = 0 is the only solution of W d ≤ 0: then the set contains no half-line."""
    m = W.shape[1]
    A = _equilibrated(W)[0][W.any(axis=1)]
    if len(A) <= m or np.linalg.matrix_rank(A) < m:
        return False
    box = np.vstack([np.eye(m), -np.eye(m)])
    limits = np.append(np.zeros(len(A)), np.ones(2 * m))
    return bool(_maximise(-A.sum(axis=0), np.vstack([A, box]), limits).value <= _MIN_CUT)


def bounding_box(W: Array, b: Array) -> tuple[Array, Array]:
    """Lowest and highest value of each feature within the half-spaces, which must not be empty."""
    m = W.shape[1]
    centre = inner_ball(W, b).centre
    room, _ = _room(W, b, centre)
    A, rows, columns = _equilibrated(W)
    length = _common_length(rows * room)
    limits = rows * room / length
    reach = np.array([[_maximise(sign * e, A, limits).value for e in np.eye(m)] for sign in (-1.0, 1.0)])
    low, high = reach * columns * length
    return centre - low, centre + high


# -- corners and volume ------------------------------------------------------------------------


def check_size(n_faces: int, n_features: int) -> None:
    """Raise ValueError for too many features, or possibly too many corners by the upper bound theorem."""
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


# -- one linear program ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Optimum:
    status: int
    value: float
    point: Array
    multipliers: Array


class _UnsolvedError(RuntimeError):
    """No solver left a point that its multipliers prove."""


def _maximise(cost: Array, A: Array, limits: Array) -> _Optimum:
    """Maximum of cost·u subject to A u ≤ limits, which some u must satisfy; inf if it is unbounded."""
    size = np.abs(cost).max(initial=0.0)
    if not len(A) or not size:
        value = np.inf if size else 0.0
        return _Optimum(_UNBOUNDED if size else _OPTIMAL, value, np.zeros(len(cost)), np.zeros(len(A)))
    unit = cost / size
    # The dual simplex gives up on some easy programs of free variables (status Unknown): then another.
    for solve in (_by_simplex, _by_interior_points):
        answer = solve(unit, A, limits)
        if answer.status == _UNBOUNDED:
            return _Optimum(_UNBOUNDED, np.inf, np.zeros(len(cost)), np.zeros(len(A)))
        if answer.status == _OPTIMAL and _is_optimum(unit, A, limits, answer):
            return replace(answer, value=float(cost @ answer.point))
    raise _UnsolvedError(
        f"HiGHS could not solve a linear program of {A.shape[0]} faces and {A.shape[1]} variables. "
        "Are the faces of wildly different sizes?"
    )


def _by_simplex(cost: Array, A: Array, limits: Array) -> _Optimum:
    """By HiGHS itself: a small program takes a third of the time that it takes through scipy."""
    highspy = quiet_highs()
    solver, lp, there = highspy.Highs(), highspy.HighsLp(), A != 0
    for name, value in {"output_flag": False, "parallel": "off", **_OPTIONS}.items():
        solver.setOptionValue(name, value)
    lp.num_row_, lp.num_col_ = A.shape
    lp.col_cost_, lp.row_lower_, lp.row_upper_ = -cost, np.full(len(A), -np.inf), limits
    lp.col_lower_, lp.col_upper_ = np.full(len(cost), -np.inf), np.full(len(cost), np.inf)
    lp.a_matrix_.format_, lp.a_matrix_.value_ = highspy.MatrixFormat.kRowwise, A[there]
    lp.a_matrix_.start_ = np.append(0, there.sum(axis=1).cumsum()).astype(np.int32)
    lp.a_matrix_.index_ = np.nonzero(there)[1].astype(np.int32)
    if solver.passModel(lp) != highspy.HighsStatus.kError:
        solver.run()
    status = {"kOptimal": _OPTIMAL, "kUnbounded": _UNBOUNDED}.get(solver.getModelStatus().name, _NEITHER)
    found = solver.getSolution()
    return _Optimum(status, np.nan, np.array(found.col_value), -np.array(found.row_dual))


def _by_interior_points(cost: Array, A: Array, limits: Array) -> _Optimum:
    found = linprog(-cost, A_ub=A, b_ub=limits, bounds=(None, None), method="highs-ipm", options=_OPTIONS)
    point, multipliers = (np.zeros(0) if one is None else one for one in (found.x, found.ineqlin.marginals))
    return _Optimum(found.status, np.nan, point, -multipliers)


def _is_optimum(cost: Array, A: Array, limits: Array, answer: _Optimum) -> bool:
    """True if the point and its multipliers prove each other, whatever the solver's status."""
    x, y = answer.point, answer.multipliers
    beyond = (A @ x - limits) / (1.0 + np.abs(limits) + np.abs(A) @ np.abs(x))
    off = np.abs(A.T @ y - cost) / (1.0 + np.abs(A).T @ np.abs(y))
    gap = abs(cost @ x - limits @ y) / (1.0 + np.abs(cost) @ np.abs(x))
    return bool(max(beyond.max(), off.max(), gap, -y.min()) <= 1e-8)


def _equilibrated(W: Array) -> tuple[Array, Array, Array]:
    """W with rows and columns of size one, and the powers of two they were multiplied by."""
    size = np.abs(W)
    rows, columns = np.ones(W.shape[0]), np.ones(W.shape[1])
    for _ in range(12):  # enough for a spread of 1e24
        here = size * rows[:, None] * columns
        rows /= np.sqrt(_or_one(here.max(axis=1, initial=0.0)))
        columns /= np.sqrt(_or_one(here.max(axis=0, initial=0.0)))
    columns = np.exp2(np.round(np.log2(columns)))
    rows = np.exp2(-np.round(np.log2(_or_one((size * columns).max(axis=1, initial=0.0)))))
    return W * rows[:, None] * columns, rows, columns


def _or_one(sizes: Array) -> Array:
    return np.where(sizes > 0, sizes, 1.0)


def _room(W: Array, b: Array, centre: Array) -> tuple[Array, Array]:
    """The slack of each face at the centre (times ‖W_k‖), and its rounding."""
    noise = 16 * _EPS * (np.abs(W) @ np.abs(centre) + np.abs(b))
    return np.maximum(-(W @ centre + b), 0.0), noise


def _typical(sizes: Array) -> float:
    sizes = np.abs(sizes[sizes != 0])
    return float(np.median(sizes)) if len(sizes) else 0.0


def _common_length(room: Array) -> float:
    """A length that suits the nearest face and the others."""
    positive = room[room > 0]
    return float(np.sqrt(positive.min()) * np.sqrt(np.median(positive))) if len(positive) else 1.0
