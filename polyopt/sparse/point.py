"""The point of the L0 machine that a search begins from, and the solution that it ends with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from formulations.families import best_intercept
from formulations.l0_data import L0Data
from formulations.language.clock import Clock
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.sparse.pattern_lp import PatternLP

RECORD_SECONDS = 0.2
"""Least time between two records of a history."""
_SUM_ROUNDING = 1e-9  # relative, more than the rounding of a sum
_GRACE_SECONDS = 0.5  # after a limit, for the program that gives the answer its multipliers


def as_start(data: L0Data, start: tuple[ArrayLike, float]) -> tuple[Vector, float]:
    """Return a start, pruned and clipped to its box; ValueError for another shape or infinite numbers."""
    alpha, b = np.asarray(start[0], dtype=float), float(start[1])
    if alpha.shape != data.centres.shape or not (np.isfinite(alpha).all() and np.isfinite(b)):
        raise ValueError(
            f"start must be (alpha, b), finite, alpha of shape {data.centres.shape}, not of {alpha.shape}"
        )
    alpha = np.clip(alpha, 0.0, data.C)
    return np.where(data.support(alpha), alpha, 0.0), b


def finished(
    data: L0Data, point: tuple[Vector, float], bound: float, status: Status, *, tol: float,
    left: float | None = None, **run: Any,
) -> Solution:  # fmt: skip
    """Solve the program of the pattern of a search's best point (alpha, b) again; return the solution.

    SOLVED becomes INACCURATE if the relative gap between score and bound is above `tol`. `left` are the
    seconds left, which may be passed by half a second; `run` are further fields of the solution.
    """
    clock = Clock(None if left is None else left + _GRACE_SECONDS)
    (alpha, b), lp = point, PatternLP(data)
    while True:
        pattern = data.support(alpha)
        solution = lp.prepare(pattern, time_limit=clock.left)
        has_point = solution.status is not Status.FAILED
        if has_point and data.score(solution.alpha, solution.b) <= data.score(alpha, b):
            alpha, b = solution.alpha, solution.b
        # If the support has shrunk, its own program counts.
        if (data.support(alpha) == pattern).all() or clock.is_over:
            break
    alpha = np.where(pattern, alpha, 0.0)
    score, nothing = data.score(alpha, b), np.zeros(len(pattern))
    lighter = min(float(data.weights[data.y == side].sum()) for side in (-1.0, 1.0))
    # Without a centre the score is twice the lighter class, but for rounding.
    if score > 2.0 * data.C * lighter * (1.0 - _SUM_ROUNDING) and data.score(nothing, idle(data)) < score:
        alpha, b, pattern = nothing, idle(data), nothing > 0.0  # HiGHS failed
        score = data.score(alpha, b)
    bound = min(float(bound), score) if bound > 0.0 else 0.0  # nan counts as 0
    if status is Status.SOLVED and score - bound > tol * score:
        status = Status.INACCURATE
    primal = {
        "alpha": alpha,
        "b": np.array(b),
        "xi": slacks(data.outputs(alpha, b), data.y),
        "sigma": pattern.astype(float),
    }
    run["solve_time"] += clock.seconds
    return Solution(status, primal, {"margin": solution.u}, score, bound, **run)


def idle(data: L0Data) -> float:
    """Return the best intercept without any centre."""
    plus, minus = (float(data.weights[data.y == side].sum()) for side in (1.0, -1.0))
    if min(plus, minus) > 0.0 and abs(plus - minus) > _SUM_ROUNDING * max(plus, minus):
        return 1.0 if plus > minus else -1.0
    return best_intercept(np.zeros(len(data.y)), data.y, data.weights)
