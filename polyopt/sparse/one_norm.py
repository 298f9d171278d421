"""One-norm machines, each one linear program in HiGHS: the slides', and the relaxation of the L0 machine.

min  π Σ_j α_j + Σ_i c_i ξ_i   s.t.  y_i (Σ_j K_ij t_j α_j + b) + ξ_i ≥ 1 [u],  ξ ≥ 0,  0 ≤ α_j ≤ d_j

With price π = 1 and caps d = c it is :func:`formulations.one_norm.primal`; with π = 1/C, d = C and c = C w
it is :func:`formulations.l0.relaxation`, whose value bounds the score of every pattern.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.families import best_intercept
from formulations.language.clock import Clock
from formulations.language.recovery import slacks
from formulations.language.solution import Solution
from polyopt.optim.warm_lp import PersistentLP, margin_rows
from polyopt.sparse.certificate import score_bound

if TYPE_CHECKING:
    from formulations.l0_data import L0Data
    from formulations.language.types import Vector

__all__ = ["solve_one_norm", "solve_relaxation"]


def solve_one_norm(
    K: Vector, y: Vector, costs: Vector, caps: Vector, *, price: float = 1.0, centres: Vector | None = None,
    time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Solve a one-norm machine.

    K, y: any matrix (n, p) and labels (n,), as in :func:`formulations.l0.pattern`.
    costs (n,): c, what a unit of slack costs.
    caps (p,): d, the largest coefficients; positive.
    price: π, what a unit of a coefficient costs; positive.
    centres (p,): t, labels -1 and +1 of the centres; by default they are the samples.
    Returns: ``alpha`` (p,), ``b``, ``xi`` (n,) and the multipliers ``margin`` (n,) and ``cap`` (p,). Where
        HiGHS leaves no point it is α = 0, with a status that says so.
    """
    clock = Clock(time_limit)
    n, p = K.shape
    labels = y if centres is None else centres
    # In units of the caps and of the smaller of the two prices, HiGHS's absolute tolerances are relative.
    unit = min(float(costs.max()), price * float(caps.max()))
    program = PersistentLP(
        np.concatenate([price * caps, [0.0], costs]) / unit,
        margin_rows(y[:, None] * K * (labels * caps), y),
        1.0,
        np.inf,
        np.concatenate([np.zeros(p), [-np.inf], np.zeros(n)]),
        np.concatenate([np.ones(p), np.full(n + 1, np.inf)]),
    )
    built = clock.seconds
    found = program.solve(time_limit=clock.left)
    there = not np.isnan(found.x).any()
    alpha = caps * np.clip(found.x[:p], 0.0, 1.0) if there else np.zeros(p)
    u = np.clip(-unit * found.duals, 0.0, costs) if there else np.zeros(n)
    g = K @ (labels * alpha)
    b = best_intercept(g, y, costs)
    xi = slacks(g + b, y)
    return Solution(
        status=found.status,
        primal={"alpha": alpha, "b": np.array(b), "xi": xi},
        duals={"margin": u, "cap": np.maximum(labels * (K.T @ (y * u)) - price, 0.0)},
        objective=float(price * alpha.sum() + costs @ xi),
        bound=None,
        solver="HiGHS, dual simplex",
        iterations=found.iterations,
        build_time=built,
        solve_time=clock.seconds - built,
    )


def solve_relaxation(data: L0Data, *, time_limit: float | None = None) -> Solution:
    """Solve the relaxation of the L0 machine, eq. (4) of :mod:`formulations.l0`.

    Returns: as of :func:`solve_one_norm`, with the ``bound`` on every score that its multipliers prove, and
        the best ``sigma`` (p,) from 0 to 1, α/C.
    """
    caps = np.full(len(data.centres), data.C)
    found = solve_one_norm(
        data.K, data.y, data.C * data.weights, caps,
        price=1.0 / data.C, centres=data.centres, time_limit=time_limit,
    )  # fmt: skip
    return replace(
        found,
        primal={**found.primal, "sigma": found["alpha"] / data.C},
        bound=max(score_bound(data, found["margin"] / data.C), 0.0),
    )
