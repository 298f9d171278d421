"""Sequential minimal optimisation of dual (8), over alpha, lam and lam_star at once.

The dual of the Relative Margin Machine has 3n variables a = (alpha, lam, lam_star) with signs
s = (y, -1, +1), one equality s'a = 0 and boxes; the SVM's has the first n of them. Two variables move
at a time, chosen by second order information (Fan, Chen & Lin 2005), and one kernel row serves the
three variables of its sample: with g = K beta, the quantity that chooses and stops is

    -s_t G_t  =  y_i - g_i  |  B - g_i  |  -B - g_i        (G the gradient of the minimisation)

and the point is optimal when its largest value over the variables that may go up, m, is at most its
least value over those that may go down, M. Any b between them is then optimal.

References
----------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (8) and section 3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from formulations.recovery import best_intercept, slacks
from formulations.solution import Solution, Status
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["solve_smo"]

_FIRST_ROUND = 1  # pair steps in the first round; each has twice as many, up to ...
_LONGEST_ROUND = 40_000_000  # ... so many elementary steps, some 50 ms, for Ctrl-C and the clock


def solve_smo(
    K: Vector,
    y: Vector,
    C: Vector,
    B: float = np.inf,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    time_limit: float | None = None,
) -> Solution:
    """Solve the dual of the SVM (B infinite) or of the Relative Margin Machine.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semidefinite Gram matrix.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    C : ndarray of shape (n,)
        Cost per sample.
    B : float
        Bound on the outputs.
    tol : float
        Largest violation m - M of the optimality conditions, in units of the outputs.
    max_iter : int, optional
        Pair steps at most.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Solution
        ``primal`` has ``coef`` (expansion coefficients, shape (n,)) and ``b``: what the multipliers
        imply, scaled back within the bounds where the tolerance left it outside. ``duals`` has
        ``margin`` (alpha) and, for finite B, ``bound_above`` (lam) and ``bound_below`` (lam_star).
        ``objective`` is the primal objective and ``bound`` the dual one. ``history`` has one record
        per round. A limit, or Ctrl-C, keeps the point reached, which is dual feasible.
    """
    clock = Clock(time_limit)
    K = np.ascontiguousarray(K, dtype=np.float64)
    n = len(y)
    families = 3 if np.isfinite(B) else 1
    signs = np.concatenate([y, -np.ones(n), np.ones(n)])[: families * n]
    target = np.concatenate([y, np.full(n, B), np.full(n, -B)])[: families * n]
    upper = np.concatenate([C, np.full(2 * n, np.inf)])[: families * n]
    a, g = np.zeros(families * n), np.zeros(n)
    per_round, longest = _FIRST_ROUND, max(_LONGEST_ROUND // (8 * families * n), 1)
    status, done, violation = Status.OPTIMAL, 0, np.inf
    history: list[dict[str, float]] = []
    try:
        while violation > tol:
            steps = per_round if max_iter is None else min(per_round, max_iter - done)
            if steps == 0:
                status = Status.ITERATION_LIMIT
                break
            taken, violation = _pair_steps(K, signs, target, upper, a, g, tol, steps)
            done += taken
            per_round = min(2 * per_round, longest)
            history.append(_record(done, violation, clock, a, g, y, C, B))
            if violation > tol and clock.is_over:
                status = Status.TIME_LIMIT
                break
            if taken < steps:
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    beta = (signs * a).reshape(families, n).sum(axis=0)
    g = K @ beta
    if not history:
        history.append(_record(done, violation, clock, a, g, y, C, B))
    b = best_intercept(g, y, C, B)
    shrink = _shrink(g + b, B)
    duals = dict(zip(("margin", "bound_above", "bound_below"), a.reshape(families, n), strict=False))
    return Solution(
        status=status,
        primal={"coef": shrink * beta, "b": np.array(shrink * b)},
        duals=duals,
        objective=history[-1]["objective"],
        bound=history[-1]["bound"],
        solver="smo",
        iterations=done,
        solve_time=clock.seconds,
        history=tuple(history),
    )


def _shrink(f: Vector, B: float) -> float:
    """The factor, at most 1, that brings every output within ±B."""
    reach = float(np.abs(f).max())
    return B / reach if reach > B else 1.0


def _record(
    done: int, violation: float, clock: Clock, a: Vector, g: Vector, y: Vector, C: Vector, B: float
) -> dict[str, float]:
    """Both objectives at the present point; the primal one after scaling it back within ±B."""
    n = len(y)
    alpha, bounds = a[:n], a[n:]
    beta = alpha * y if len(a) == n else alpha * y - a[n : 2 * n] + a[2 * n :]
    energy = float(beta @ g)
    f = g + best_intercept(g, y, C, B)
    shrink = _shrink(f, B)
    return {
        "iteration": float(done),
        "seconds": clock.seconds,
        "violation": float(violation),
        "objective": 0.5 * shrink**2 * energy + float(C @ slacks(shrink * f, y)),
        "bound": float(alpha.sum()) - (B * float(bounds.sum()) if len(bounds) else 0.0) - 0.5 * energy,
    }


@njit(cache=True)
def _pair_steps(
    K: Vector, signs: Vector, target: Vector, upper: Vector, a: Vector, g: Vector, tol: float, steps: int
) -> tuple[int, float]:
    """Take up to `steps` pair steps in place; return how many were taken and the last violation."""
    n, size = g.shape[0], a.shape[0]
    for step in range(steps):
        highest, up = -np.inf, -1
        lowest = np.inf
        for t in range(size):
            value = target[t] - g[t % n]
            if value > highest and ((signs[t] > 0 and a[t] < upper[t]) or (signs[t] < 0 and a[t] > 0.0)):
                highest, up = value, t
            if value < lowest and ((signs[t] < 0 and a[t] < upper[t]) or (signs[t] > 0 and a[t] > 0.0)):
                lowest = value
        violation = highest - lowest
        if violation <= tol or up < 0 or lowest == np.inf:
            return step, violation
        i = up % n
        best, down, best_curvature = -1.0, -1, 1.0
        for t in range(size):
            drop = highest - (target[t] - g[t % n])
            if drop <= 0.0 or not ((signs[t] < 0 and a[t] < upper[t]) or (signs[t] > 0 and a[t] > 0.0)):
                continue
            j = t % n
            curvature = max(K[i, i] + K[j, j] - 2.0 * K[i, j], 1e-12)
            gain = drop * drop / curvature
            if gain > best:
                best, down, best_curvature = gain, t, curvature
        j = down % n
        length = (highest - (target[down] - g[j])) / best_curvature
        room_up = upper[up] - a[up] if signs[up] > 0 else a[up]
        room_down = a[down] if signs[down] > 0 else upper[down] - a[down]
        length = min(length, room_up, room_down)
        # A variable that reaches its bound is put on it exactly: rounding would leave it free.
        _move(a, upper, up, signs[up] * length, length == room_up)
        _move(a, upper, down, -signs[down] * length, length == room_down)
        for r in range(n):
            g[r] += length * (K[i, r] - K[j, r])
    return steps, violation


@njit(cache=True)
def _move(a: Vector, upper: Vector, t: int, change: float, to_bound: bool) -> None:
    if not to_bound:
        a[t] += change
    elif change > 0.0:
        a[t] = upper[t]
    else:
        a[t] = 0.0
