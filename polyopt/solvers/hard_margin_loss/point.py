"""Where a search for the SVM with the hard-margin loss ends: its point, with the multipliers it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.solution import Solution, Status
from polyopt.certificates.hard_margin_loss import proven_point
from polyopt.solvers.hard_margin_loss.meeting import Samples

if TYPE_CHECKING:
    from formulations.hard_margin_loss_data import HardMarginLossData
    from formulations.matrices import Vector

__all__ = ["finished"]


def finished(
    data: HardMarginLossData,
    point: tuple[Vector, float],
    bound: float,
    status: Status,
    *,
    tol: float,
    solver: str,
    iterations: int = 0,
    build_time: float = 0.0,
    solve_time: float = 0.0,
    history: tuple[dict[str, float], ...] = (),
) -> Solution:
    """The solution of a search: the best point that meets what `point` meets.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    point : (ndarray of shape (m,), float)
        The search's best (w, b).
    bound : float
        What is proven, or stated, of every point.
    status : Status
        How the search ended; SOLVED becomes INACCURATE where the gap is above `tol`.
    tol : float
        Relative gap.
    solver, iterations, build_time, solve_time, history
        As they go into the solution.
    """
    w, b = proven_point(data, *point)
    samples, value = Samples(data), data.value(w, b)
    found = samples.meet(data.met(w, b))
    alpha = np.zeros(len(data.y))
    if found.is_met:
        alpha[found.active] = found.alpha
        its_w, its_b = proven_point(data, *samples.hyperplane(found))
        its_value = data.value(its_w, its_b)
        if its_value <= value * (1.0 + 1e-9):
            w, b, value = its_w, its_b, its_value
    if status is Status.SOLVED and value - bound > tol * max(value, abs(bound)):
        status = Status.INACCURATE
    return Solution(
        status=status,
        primal={"w": w, "b": np.array(b), "z": (~data.met(w, b)).astype(float)},
        duals={"margin": alpha},
        objective=value,
        bound=min(bound, value),
        solver=solver,
        iterations=iterations,
        build_time=build_time,
        solve_time=solve_time,
        history=history,
    )
