"""From a start to a good point: L-BFGS-B on the objective with soft maxima, softer ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from formulations.clock import run_is_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from polyopt.solvers.clock import Clock
    from polyopt.solvers.logistic_polytopes.smooth import FaceLoss

    Array = NDArray[np.float64]

__all__ = ["descend"]

_MEMORY = 10  # pairs of steps and slopes that are kept


def descend(
    problem: FaceLoss, W: Array, clock: Clock, *, softness: Sequence[float] = (1.0, 0.3), max_iter: int = 100,
    support: NDArray[np.bool_] | None = None, tol: float = 1e-9,
) -> tuple[Array, int]:  # fmt: skip
    """Lower the smoothed objective.

    Parameters
    ----------
    problem : FaceLoss
        The samples and prices.
    W : ndarray of shape (K, m+1)
        Faces to begin from, not all alike.
    clock : Clock
        When to stop; the best point so far is kept then.
    softness : sequence of float
        t of the maxima, one after the other.
    max_iter : int
        Iterations for each of them.
    support : ndarray of bool, shape (K, m+1), optional
        Entries that may differ from 0; all by default.
    tol : float
        Relative decrease of a step at which to stop.

    Returns
    -------
    W : ndarray
        Faces. With a price they have exact zeros.
    iterations : int
        In all.
    """
    allowed = np.broadcast_to(problem.free[:, None], problem.shape)
    allowed = allowed if support is None else allowed & support
    here, made = W[allowed], 0
    price = np.broadcast_to(problem.prices, problem.shape)[allowed]
    whole = np.zeros(problem.shape)
    split = problem.l1 > 0.0

    def evaluate(x: Array, t: float) -> tuple[float, Array]:
        whole[allowed] = x
        loss, slope, _, _ = problem.smooth(whole, t, t)
        return loss, slope[allowed]

    def evaluate_parts(x: Array, t: float) -> tuple[float, Array]:
        loss, slope = evaluate(x[: len(x) // 2] - x[len(x) // 2 :], t)
        return loss + float(price @ x[: len(x) // 2] + price @ x[len(x) // 2 :]), np.r_[
            slope + price, price - slope
        ]

    def stop(_: Array) -> None:
        if clock.is_over or run_is_over():
            raise StopIteration

    for t in softness:
        start = np.r_[np.maximum(here, 0.0), np.maximum(-here, 0.0)] if split else here
        found = minimize(
            evaluate_parts if split else evaluate, start, args=(t,), jac=True, method="L-BFGS-B",
            bounds=[(0.0, None)] * len(start) if split else None, callback=stop,
            options={"maxiter": max_iter, "maxcor": _MEMORY, "ftol": tol, "gtol": 0.0},
        )  # fmt: skip
        here = found.x[: len(here)] - found.x[len(here) :] if split else found.x
        made += int(found.nit)
        if clock.is_over or run_is_over():
            break
    W = np.zeros(problem.shape)
    W[allowed] = here
    return W, made
