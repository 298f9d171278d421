"""Faces of the Convex Polytope Machine on small dense data, solved as exactly as double precision allows.

Badly scaled samples, as of features that lie far from 0, take coordinate ascent millions of sweeps: an
interior point solves their faces once more, those of a final answer and those of a node of branch and bound
at which nothing is left to branch on though its bound is below the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.cpm.alternating import solve_explicit_face
from polyopt.cpm.global_search.face import (
    UNIT,
    Samples,
    caps_of,
    climb_in_time,
    dual_error,
    dual_value,
    hyperplane,
    price,
)
from polyopt.cpm.global_search.tree import largest, paying

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.clock import Clock
    from polyopt.cpm.global_search.tree import Best, Node

    Vector = NDArray[np.float64]

__all__ = ["polished_face", "refine"]

_MIN_SECONDS = 0.2  # that an interior point may take for a face, even past a limit


def polished_face(
    data: Samples, face: NDArray[np.int64], k: int, little: float, clock: Clock
) -> tuple[Vector, Vector]:
    """Multipliers (n,) and hyperplane (d,) of a face for an assignment.

    data: the samples.
    face (npos,): the face of each positive.
    k: the face.
    little: A gap that is small enough for coordinates to have been as good as an interior point.
    clock: its limit may be passed by a little.
    """
    a, w, caps = np.zeros(len(data.C)), np.zeros(data.A.shape[1]), np.zeros(len(data.C))
    caps_of(data, face, k, caps)
    climb_in_time(data, caps, a, w, 100_000, 1e-15 * data.C.sum(), clock)
    hyperplane(data, a, w)
    value = _face_cost(data, caps, w)
    if caps.any() and value - dual_value(a, w) > little:
        # Badly scaled data, on which coordinates are slow and an interior point is not. Its multipliers
        # come with its hyperplane, as each must fit the other, unless they prove less.
        signs = np.where(np.arange(len(a)) < data.inside, -1.0, 1.0)
        left = clock.left
        limit = None if left is None else max(left, _MIN_SECONDS)
        found = solve_explicit_face(data.A * signs[:, None], signs, caps, limit)
        if found is not None and _face_cost(data, caps, found["w"]) < value:
            w = found["w"]
            exact, implied = np.clip(found.duals["margin"], 0.0, caps), np.empty_like(w)
            hyperplane(data, exact, implied)
            if dual_value(exact, implied) > dual_value(a, 0.5 * a @ data.A) - 1e-9 * value:
                a = exact
    return a, w


def _face_cost(data: Samples, costs: Vector, w: Vector) -> float:
    """Return the cost of one face, for the `costs` (n,) of those it answers for."""
    return float(w @ w + costs @ np.maximum(0.0, 1.0 - data.A @ w))


def refine(
    data: Samples, best: Best, node: Node, bound: float, used: int, clock: Clock
) -> tuple[float, float, int]:
    """Solve the faces of a node exactly, try them as an incumbent, and say where to branch.

    data, best, node, used: as of :func:`polyopt.cpm.global_search.tree.examine`, after it; multipliers and
        faces are bettered in place.
    bound: what is known of the node.
    clock: its limit may be passed by a little.
    Returns bound, base: as of :func:`~polyopt.cpm.global_search.tree.examine`.
    Returns branch: the positive to branch on; -1 if those left cost little, or what is missing is for
        rounding.
    """
    base, error = 0.0, 0.0
    for k in range(used):
        _refine_face(data, node, k, clock)
    for k in range(used, len(node.W)):
        node.alpha[k], node.W[k] = node.alpha[used - 1], node.W[used - 1]
    v = np.empty_like(node.W[0])
    for alpha in node.alpha:
        hyperplane(data, alpha, v)
        value = dual_value(alpha, v)
        base += value
        error += dual_error(data, alpha, v) + (len(node.W) + 4) * UNIT * abs(value)
    best.limits[2] = max(best.limits[2], error)
    cost = price(data, node.W, np.zeros(len(node.face), np.int64))
    if cost < best.limits[0]:
        best.limits[0], best.W[:] = cost, node.W
    order = paying(data, node, used)
    # Positives that pay less than half of what the bound misses are not what it lacks.
    missing = node.cost[order].sum() > 0.5 * (cost - base)
    branch = largest(node.cost, np.zeros_like(node.cost), order) if len(order) and missing else -1
    return max(bound, base), base, branch


def _refine_face(data: Samples, node: Node, k: int, clock: Clock) -> None:
    """Face k by an interior point: its hyperplane, and its multipliers where these prove more."""
    costs, a, w = node.caps[k], node.alpha[k], node.W[k]
    if not costs.any():
        return
    signs = np.where(np.arange(len(a)) < data.inside, -1.0, 1.0)
    limit = None if clock.left is None else max(clock.left, _MIN_SECONDS)
    found = solve_explicit_face(data.A * signs[:, None], signs, costs, limit)
    if found is None:
        return
    exact, implied = np.clip(found.duals["margin"], 0.0, costs), np.empty_like(w)
    hyperplane(data, exact, implied)
    if dual_value(exact, implied) > dual_value(a, w):
        a[:] = exact
    w[:] = min((w.copy(), implied, found["w"]), key=lambda v: _face_cost(data, costs, v))
