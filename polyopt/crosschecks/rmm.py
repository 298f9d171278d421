"""The Relative Margin Machine: its programs are one, and what the paper prints of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from formulations import rmm
from formulations.families import hinge_families
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, bounded, rbf
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.decomposition.state import Dual
from polyopt.margin.interior_point import solve_interior_point

if TYPE_CHECKING:
    from formulations.language.program import Program
    from polyopt.crosschecks.registry import Pair, Vector
    from polyopt.crosschecks.samples import Bounded

__all__ = ["CHECKS"]

CHECKS = Registry("rmm")


def _at_the_optimum(seed: int) -> tuple[Bounded, Program, dict[str, Vector]]:
    """The dual (6), and the point of it that the multipliers of (5) are."""
    s = bounded(seed, 1.0)
    qcqp = rmm.qcqp(*s.data).solve()
    alpha, lam = np.clip(qcqp.duals["margin"], 0.0, s.C), np.maximum(qcqp.duals["spread"], 0.0)
    lifted = np.column_stack([s.X, np.ones(len(s.y))])
    M = np.diag(np.append(np.ones(s.X.shape[1]), 0.0)) + (lifted * lam[:, None]).T @ lifted
    q = lifted.T @ (alpha * s.y)
    t = np.array(q @ np.linalg.solve(M, q))
    return s, rmm.qcqp_dual(*s.data), {"alpha": alpha, "lam": lam, "t": t}


@CHECKS.add("T12a", 1e-6)
def qcqp_and_qp(seed: int) -> Pair:
    """RMM: value of the QCQP (5) = value of the QP (7).

    Source: Shivaswamy & Jebara (2008), eq. (5), (7).
    """
    data = bounded(seed).data
    return rmm.qcqp(*data).solve().objective, rmm.qp(*data).solve().objective


@CHECKS.add("T12b", 1e-6)
def qp_and_dual(seed: int) -> Pair:
    """RMM: value of the QP (7) = value of its dual (8).

    Source: Shivaswamy & Jebara (2008), eq. (7), (8).
    """
    data = bounded(seed).data
    return rmm.qp_dual(*data).solve().objective, rmm.qp(*data).solve().objective


@CHECKS.add("T12c", 1e-6)
def qcqp_and_semidefinite_dual(seed: int) -> Pair:
    """RMM: value of the corrected dual (6), a semidefinite program, = value of the QCQP (5).

    Source: Shivaswamy & Jebara (2008), eq. (5), (6) with its missing term.
    """
    data = bounded(seed).data
    return rmm.qcqp_dual(*data).solve().objective, rmm.qcqp(*data).solve().objective


@CHECKS.add("T14", 1e-4)
def multipliers_of_the_spread(seed: int) -> Pair:
    """RMM: λ of the QCQP (5) = (λ + λ*)/B of the QP (7).

    Source: Shivaswamy & Jebara (2008), eq. (5), (7); derived.
    """
    s = bounded(seed)
    qcqp, qp = rmm.qcqp(*s.data).solve(), rmm.qp(*s.data).solve()
    return qcqp.duals["spread"], (qp.duals["bound_above"] + qp.duals["bound_below"]) / s.B


@CHECKS.add("T15", 1e-5)
def corrected_dual_at_the_multipliers(seed: int) -> Pair:
    """RMM: the corrected (6) at the multipliers (α, λ) of (5) = value of the primal.

    Source: Shivaswamy & Jebara (2008), eq. (6) with its missing term.
    """
    s, dual, point = _at_the_optimum(seed)
    return dual.value(point), rmm.qp(*s.data).solve().objective


@CHECKS.add("T16a", 1e-6, "≤")
def outputs_within_the_bound(seed: int) -> Pair:
    """RMM: |f_i| ≤ B for all samples.

    Source: Shivaswamy & Jebara (2008), eq. (7).
    """
    s = bounded(seed)
    point = rmm.qp(*s.data).solve()
    return np.abs(s.X @ point["w"] + point["b"]), s.B


@CHECKS.add("T16b", 1e-5)
def one_bound_at_a_time(seed: int) -> Pair:
    """RMM: λ_i λ*_i = 0, as no output is at B and at −B.

    Source: Shivaswamy & Jebara (2008), eq. (8).
    """
    point = rmm.qp_dual(*bounded(seed).data).solve()
    return np.minimum(point["lam"], point["lam_star"]), 0.0


@CHECKS.add("T20", 1e-6)
def decomposition(seed: int) -> Pair:
    """RMM with a Gaussian kernel: the decomposition solver = dual (8).

    Source: Shivaswamy & Jebara (2008), eq. (8), (9).
    """
    X, y, C = blobs(seed)
    K = rbf(X)
    fast = solve_decomposition(K, hinge_families(y, C, 1.2), tol=1e-7)
    return fast.objective, rmm.kernel_dual(K, y, C, 1.2).solve().objective


@CHECKS.add("T21", 1e-5)
def intercept_bracket(seed: int) -> Pair:
    """RMM: the interval of b from the three families of multipliers = (m, M) of the working-set method.

    Source: the optimality conditions of Shivaswamy & Jebara (2008), eq. (8), solved for b.
    """
    X, y, C = blobs(seed)
    K, rows = rbf(X), hinge_families(y, C, 1.2)
    found = solve_decomposition(K, rows, tol=1e-8)
    beta = rows.beta(rows.stacked(found.duals))
    g = K @ beta
    bracket = rows.intercept_interval(g, found.duals)
    return sorted(bracket), sorted(Dual(rows).violation(beta, g))


@CHECKS.add("X04", 1e-5)
def stationarity_of_the_qcqp(seed: int) -> Pair:
    """RMM (5): (I + Σ λ_i x_i x_i') w + b Σ λ_i x_i = Σ α_i y_i x_i.

    Source: the Lagrangian of Shivaswamy & Jebara (2008), eq. (5), the sign of its b corrected.
    """
    s = bounded(seed)
    found = rmm.qcqp(*s.data).solve()
    lam, w = found.duals["spread"], found["w"]
    pulled = s.X.T @ (lam * (s.X @ w + found["b"]))
    return w + pulled, s.X.T @ (found.duals["margin"] * s.y)


@CHECKS.add("X06", 1e-6)
def interior_point(seed: int) -> Pair:
    """RMM: the interior-point objective and bound = value of the QP (7) = that of the dual (8) by OSQP.

    Source: Shivaswamy & Jebara (2008), eq. (7), (8).
    """
    s = bounded(seed)
    fast = solve_interior_point(s.X, hinge_families(s.y, s.C, s.B), tol=1e-9)
    dual = rmm.kernel_dual(s.X @ s.X.T, s.y, s.C, s.B).solve("OSQP")
    values = [fast.objective, float(fast.bound or np.nan), dual.objective]
    return values, rmm.qp(*s.data).solve().objective


@CHECKS.add("N03", 1e-6, ">")
def printed_dual(seed: int) -> Pair:
    """RMM: the printed (6), without −(Σ α_i y_i)²/(2 Σ λ_i), exceeds the primal optimum at the multipliers.

    So it is no dual.

    Source: Shivaswamy & Jebara (2008), eq. (6) as printed.
    """
    s, dual, point = _at_the_optimum(seed)
    missing = (point["alpha"] @ s.y) ** 2 / (2.0 * point["lam"].sum())
    return dual.value(point) + missing, rmm.qp(*s.data).solve().objective


@CHECKS.add("N04", 1e-3, ">")
def printed_stationarity(seed: int) -> Pair:
    """RMM (5): with the printed sign, − b Σ λ_i x_i, the stationarity does not hold.

    What is compared with 0 is its residual, relative to Σ α_i y_i x_i.

    Source: the Lagrangian of Shivaswamy & Jebara (2008), eq. (5) as printed.
    """
    s = bounded(seed)
    found = rmm.qcqp(*s.data).solve()
    lam, w, right = found.duals["spread"], found["w"], s.X.T @ (found.duals["margin"] * s.y)
    left = w + s.X.T @ (lam * (s.X @ w - found["b"]))
    return np.linalg.norm(left - right) / np.linalg.norm(right), 0.0


def _step(seed: int, *, half: bool) -> Pair:
    """Dual (8) after a step of (9) from its optimum, and before it."""
    X, y, _ = blobs(seed)
    K, C, B = rbf(X), 5.0, 1.2  # dear slack, so that multipliers are off their caps
    dual = rmm.kernel_dual(K, y, C, B)
    start = dual.solve()
    at = {name: np.maximum(values, 0.0) for name, values in start.primal.items()}
    free = np.arange(0, len(y), 3)
    program = rmm.subproblem(K, y, C, B, at["alpha"], at["lam"], at["lam_star"], free)
    if half:
        held = np.setdiff1d(np.arange(len(y)), free)
        beta_held = (at["alpha"] * y - at["lam"] + at["lam_star"])[held]
        alpha, lam, lam_star = program.variables.values()
        beta = cp.multiply(y[free], alpha) - lam + lam_star
        whole = program.objective.args[0] + 0.5 * (K[np.ix_(free, held)] @ beta_held) @ beta
        program = replace(program, objective=cp.Maximize(whole))
    moved = program.solve()
    for name, values in moved.primal.items():
        at[name][free] = values
    return dual.value(at), start.objective


@CHECKS.add("X07", 1e-6)
def step_of_the_decomposition(seed: int) -> Pair:
    """RMM: a step of the sub-problem (9), its cross term whole, stays at the optimum of (8).

    Source: Shivaswamy & Jebara (2008), eq. (9), corrected.
    """
    return _step(seed, half=False)


@CHECKS.add("N05", 1e-3, "<")
def printed_step(seed: int) -> Pair:
    """RMM: a step of (9) with the printed ½ on its cross term leaves the optimum of (8) and lowers it.

    Source: Shivaswamy & Jebara (2008), eq. (9) as printed.
    """
    return _step(seed, half=True)
