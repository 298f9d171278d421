"""One-norm machines as linear programs in HiGHS: the one-norm SVM, and the relaxation of the L0 machine.

min  π Σ_j α_j + Σ_i c_i ξ_i   s.t.  y_i (Σ_j K_ij t_j α_j + b) + ξ_i ≥ 1 [u],  ξ ≥ 0,  0 ≤ α_j ≤ d_j

α_j is the coefficient of a centre with label t_j, cost π and upper bound d_j. With π = 1 and d = c this is
:func:`formulations.one_norm.primal`; with π = 1/C, d = C and c = C w it is
:func:`formulations.l0.relaxation`, whose value bounds the score of every pattern; with π = 0 and d = C σ it
is the program of a pattern σ (:mod:`polyopt.sparse.pattern_lp`).
"""

from dataclasses import replace

import numpy as np

from formulations.families import best_intercept
from formulations.l0_data import L0Data
from formulations.language.clock import Clock
from formulations.language.recovery import slacks
from formulations.language.solution import Solution
from formulations.language.types import Vector
from polyopt.optim.warm_lp import PersistentLP, margin_rows
from polyopt.sparse.certificate import score_bound


def expansion_lp(
    K: Vector, y: Vector, centres: Vector, caps: Vector, column_costs: Vector, costs: Vector
) -> PersistentLP:
    """Pass the program to HiGHS, with the columns α/d between 0 and 1, then b, then ξ.

    centres: t (p,). caps: d (p,). column_costs: π d (p,). costs: c (n,).
    """
    n, p = K.shape
    rows = margin_rows(y[:, None] * K * (centres * caps), y)
    lower = np.concatenate([np.zeros(p), [-np.inf], np.zeros(n)])
    upper = np.append(np.ones(p), np.full(n + 1, np.inf))
    return PersistentLP(np.concatenate([column_costs, [0.0], costs]), rows, 1.0, np.inf, lower, upper)


def solve_one_norm(
    K: Vector, y: Vector, costs: Vector, caps: Vector, *, price: float = 1.0, centres: Vector | None = None,
    time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Solve a one-norm machine with π = `price`.

    K (n, p) may be any matrix; by default the centres (p,) are the samples, with their labels y (n,).
    Return ``alpha`` (p,), ``b``, ``xi`` (n,) and the multipliers ``margin`` (n,) and ``cap`` (p,); α = 0 if
    HiGHS leaves no point.
    """
    clock, p = Clock(time_limit), K.shape[1]
    labels = y if centres is None else centres
    # Scaling by the caps and the smaller cost makes HiGHS's absolute tolerances relative.
    unit = min(float(costs.max()), price * float(caps.max()))
    program = expansion_lp(K, y, labels, caps, price * caps / unit, costs / unit)
    build_time = clock.seconds
    solution = program.solve(time_limit=clock.left)
    has_point = not np.isnan(solution.x).any()
    alpha = caps * np.clip(solution.x[:p], 0.0, 1.0) if has_point else np.zeros(p)
    u = np.clip(-unit * solution.duals, 0.0, costs) if has_point else np.zeros(len(y))
    g = K @ (labels * alpha)
    b = best_intercept(g, y, costs)
    xi = slacks(g + b, y)
    primal = {"alpha": alpha, "b": np.array(b), "xi": xi}
    duals = {"margin": u, "cap": np.maximum(labels * (K.T @ (y * u)) - price, 0.0)}
    return Solution(
        solution.status, primal, duals, float(price * alpha.sum() + costs @ xi), None, "HiGHS, dual simplex",
        solution.iterations, build_time=build_time, solve_time=clock.seconds - build_time,
    )  # fmt: skip


def solve_relaxation(data: L0Data, *, time_limit: float | None = None) -> Solution:
    """Solve the relaxation of the L0 machine, eq. (4) of :mod:`formulations.l0`.

    The solution is that of :func:`solve_one_norm`, with the ``bound`` on every score that its multipliers
    prove, and the optimal ``sigma`` (p,) = α/C.
    """
    caps = np.full(len(data.centres), data.C)
    solution = solve_one_norm(
        data.K, data.y, data.C * data.weights, caps,
        price=1.0 / data.C, centres=data.centres, time_limit=time_limit,
    )  # fmt: skip
    return replace(
        solution,
        primal={**solution.primal, "sigma": solution["alpha"] / data.C},
        bound=max(score_bound(data, solution["margin"] / data.C), 0.0),
    )
