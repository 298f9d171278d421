"""The Relative Margin Machine: its programs, the misprints, and the bound B."""

from dataclasses import replace

import cvxpy as cp
import numpy as np

from formulations import rmm
from formulations.families import hinge_families
from formulations.language.program import Program
from polyopt.crosschecks.registry import RMM, Pair, Registry, Vector
from polyopt.crosschecks.samples import Bounded, blobs, bounded, central_slope, rbf
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.decomposition.state import Dual

CHECKS = Registry("rmm")


def _dual_6_at_the_multipliers(seed: int) -> tuple[Bounded, Program, dict[str, Vector]]:
    """Return data, the dual (6), and its point from the multipliers of (5)."""
    s = bounded(seed, 1.0)
    qcqp = rmm.qcqp(*s.data).solve()
    alpha, lam = np.clip(qcqp.duals["margin"], 0.0, s.C), np.maximum(qcqp.duals["spread"], 0.0)
    lifted = np.column_stack([s.X, np.ones(len(s.y))])
    M = np.diag(np.append(np.ones(s.X.shape[1]), 0.0)) + (lifted * lam[:, None]).T @ lifted
    q = lifted.T @ (alpha * s.y)
    t = np.array(q @ np.linalg.solve(M, q))
    return s, rmm.qcqp_dual(*s.data), {"alpha": alpha, "lam": lam, "t": t}


@CHECKS.add("T12a", f"{RMM}, eq. (5), (7)", 1e-6)
def qcqp_equals_qp(seed: int) -> Pair:
    """RMM: value of the QCQP (5) = value of the QP (7)."""
    data = bounded(seed).data
    return rmm.qcqp(*data).solve().objective, rmm.qp(*data).solve().objective


@CHECKS.add("T12b", f"{RMM}, eq. (7), (8)", 1e-6)
def qp_equals_dual(seed: int) -> Pair:
    """RMM: value of the QP (7) = value of its dual (8)."""
    data = bounded(seed).data
    return rmm.qp_dual(*data).solve().objective, rmm.qp(*data).solve().objective


@CHECKS.add("T12c", f"{RMM}, eq. (5), (6) with its missing term", 1e-6)
def qcqp_equals_semidefinite_dual(seed: int) -> Pair:
    """RMM: value of the corrected dual (6), a semidefinite program, = value of the QCQP (5)."""
    data = bounded(seed).data
    return rmm.qcqp_dual(*data).solve().objective, rmm.qcqp(*data).solve().objective


@CHECKS.add("T14", f"{RMM}, eq. (5), (7); derived", 1e-4)
def multipliers_of_the_spread(seed: int) -> Pair:
    """RMM: λ of the QCQP (5) = (λ + λ*)/B of the QP (7)."""
    s = bounded(seed)
    qcqp, qp = rmm.qcqp(*s.data).solve(), rmm.qp(*s.data).solve()
    return qcqp.duals["spread"], (qp.duals["bound_above"] + qp.duals["bound_below"]) / s.B


@CHECKS.add("T15", f"{RMM}, eq. (6) with its missing term", 1e-5)
def corrected_dual_at_the_multipliers(seed: int) -> Pair:
    """RMM: the corrected (6) at the multipliers (α, λ) of (5) = value of the primal."""
    s, dual, point = _dual_6_at_the_multipliers(seed)
    return dual.value(point), rmm.qp(*s.data).solve().objective


@CHECKS.add("T16a", f"{RMM}, eq. (7)", 1e-6, "≤")
def outputs_within_the_bound(seed: int) -> Pair:
    """RMM: |f_i| ≤ B for all samples."""
    s = bounded(seed)
    point = rmm.qp(*s.data).solve()
    return np.abs(s.X @ point["w"] + point["b"]), s.B


@CHECKS.add("T16b", f"{RMM}, eq. (8)", 1e-5)
def one_bound_at_a_time(seed: int) -> Pair:
    """RMM: λ_i λ*_i = 0, as no output is at B and at −B."""
    point = rmm.qp_dual(*bounded(seed).data).solve()
    return np.minimum(point["lam"], point["lam_star"]), 0.0


@CHECKS.add("T20", f"{RMM}, eq. (8), (9)", 1e-6)
def decomposition(seed: int) -> Pair:
    """RMM with a Gaussian kernel: the decomposition solver = dual (8)."""
    X, y, C = blobs(seed)
    K = rbf(X)
    fast = solve_decomposition(K, hinge_families(y, C, 1.2), tol=1e-7)
    return fast.objective, rmm.kernel_dual(K, y, C, 1.2).solve().objective


@CHECKS.add("T21", f"the optimality conditions of {RMM}, eq. (8), solved for b", 1e-5)
def intercept_bracket(seed: int) -> Pair:
    """RMM: the interval of b from the three families of multipliers = (m, M) of the working-set method."""
    X, y, C = blobs(seed)
    K, rows = rbf(X), hinge_families(y, C, 1.2)
    duals = solve_decomposition(K, rows, tol=1e-8).duals
    beta = rows.beta(rows.stacked(duals))
    g = K @ beta
    bracket = rows.intercept_interval(g, duals)
    return sorted(bracket), sorted(Dual(rows).extremes(beta, g))


@CHECKS.add("N03", f"{RMM}, eq. (6) as printed", 1e-6, ">")
def printed_dual(seed: int) -> Pair:
    """RMM: the printed (6), without −(Σ α_i y_i)²/(2 Σ λ_i), exceeds the primal optimum at the multipliers.

    So it is no dual.
    """
    s, dual, point = _dual_6_at_the_multipliers(seed)
    missing = (point["alpha"] @ s.y) ** 2 / (2.0 * point["lam"].sum())
    return dual.value(point) + missing, rmm.qp(*s.data).solve().objective


@CHECKS.add("N04", f"the Lagrangian of {RMM}, eq. (5) as printed", 1e-3, ">")
def printed_stationarity(seed: int) -> Pair:
    """RMM (5): with the printed sign, − b Σ λ_i x_i, the stationarity does not hold.

    The residual, relative to Σ α_i y_i x_i, is compared with 0.
    """
    s = bounded(seed)
    optimum = rmm.qcqp(*s.data).solve()
    lam, w, right = optimum.duals["spread"], optimum["w"], s.X.T @ (optimum.duals["margin"] * s.y)
    left = w + s.X.T @ (lam * (s.X @ w - optimum["b"]))
    return np.linalg.norm(left - right) / np.linalg.norm(right), 0.0


@CHECKS.add("N05", f"{RMM}, eq. (9) as printed", 1e-3, "<")
def printed_step(seed: int) -> Pair:
    """RMM: a step of (9) with the printed ½ on its cross term leaves the optimum of (8) and lowers it."""
    X, y, _ = blobs(seed)
    K, C, B = rbf(X), 5.0, 1.2  # at a high cost, so that multipliers are below C
    dual = rmm.kernel_dual(K, y, C, B)
    start = dual.solve()
    point = {name: np.maximum(values, 0.0) for name, values in start.primal.items()}
    free = np.arange(0, len(y), 3)
    fixed = np.setdiff1d(np.arange(len(y)), free)
    program = rmm.subproblem(K, y, C, B, point["alpha"], point["lam"], point["lam_star"], free)
    fixed_beta = (point["alpha"] * y - point["lam"] + point["lam_star"])[fixed]
    alpha, lam, lam_star = program.variables.values()
    beta = cp.multiply(y[free], alpha) - lam + lam_star
    printed = program.objective.args[0] + 0.5 * (K[np.ix_(free, fixed)] @ fixed_beta) @ beta
    for name, values in replace(program, objective=cp.Maximize(printed)).solve().primal.items():
        point[name][free] = values
    return dual.value(point), start.objective


def _values(seed: int) -> Vector:
    """Return p* at seven evenly spaced B from 0 to 1.1 times the SVM's largest output."""
    s = bounded(seed)
    program = rmm.qp(*s.data)
    bounds = np.linspace(0.0, 1.1 * s.reach, 7)
    return np.array([program.set(B=B).solve().objective for B in bounds])


@CHECKS.add("T13", f"{RMM}, eq. (1), (7)", 1e-5)
def wide_bound(seed: int) -> Pair:
    """RMM with B ≥ max|f_svm| = SVM: the same value, w and b."""
    s = bounded(seed)
    wide = rmm.qp(s.X, s.y, s.C, 1.001 * s.reach).solve()
    computed, expected = (np.append([p.objective, p["b"]], p["w"]) for p in (wide, s.svm))
    return computed, expected


@CHECKS.add("T17", f"{RMM}, eq. (7), by sensitivity", 1e-3)
def slope_in_the_bound(seed: int) -> Pair:
    """RMM: dp*/dB = −(1'λ + 1'λ*), the left side by central differences."""
    s = bounded(seed)
    program = rmm.qp(*s.data)
    duals = program.solve().duals
    slope = central_slope(lambda B: program.set(B=B), s.B)
    return slope, -(duals["bound_above"].sum() + duals["bound_below"].sum())


@CHECKS.add("T18a", f"{RMM}, eq. (7), a program whose right-hand side is linear in B", 1e-6, "≥")
def value_convex_in_the_bound(seed: int) -> Pair:
    """RMM: p*(B) is convex: half the sum over two neighbours is no less than the value between them."""
    p = _values(seed)
    return (p[:-2] + p[2:]) / 2.0, p[1:-1]


@CHECKS.add("T18b", f"{RMM}, eq. (7)", 1e-6, "≤")
def value_falls_with_the_bound(seed: int) -> Pair:
    """RMM: p*(B) never rises with B."""
    p = _values(seed)
    return p[1:], p[:-1]


@CHECKS.add("T18c", f"{RMM}, eq. (7); the paper's B ≥ 1 is no condition of feasibility", 1e-6)
def value_at_zero_bound(seed: int) -> Pair:
    """RMM: p*(0) = nC, all outputs being 0."""
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, 0.0).solve().objective, len(y) * C


@CHECKS.add("T19", f"{RMM}, eq. (7), complementarity", 1e-5)
def bound_below_one(seed: int) -> Pair:
    """RMM with B < 1: every α_i = C, as no sample can reach its margin."""
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, 0.5).solve().duals["margin"], np.full(len(y), C)


@CHECKS.add("T22a", f"{RMM}, eq. (8); the paper names the slack without pursuing it", 1e-6)
def free_slack_on_the_bound(seed: int) -> Pair:
    """RMM with slack on the bound at a cost of 1e-9 (dual (8) with λ, λ* ≤ 1e-9) = SVM."""
    s = bounded(seed)
    return rmm.qp_dual(*s.data, 1e-9).solve().objective, s.svm.objective


@CHECKS.add("T22b", f"{RMM}, eq. (8); exact penalty", 1e-6)
def costly_slack_on_the_bound(seed: int) -> Pair:
    """RMM with slack on the bound at a cost above every multiplier = RMM without slack."""
    s = bounded(seed)
    hard = rmm.qp_dual(*s.data).solve()
    cost = 1.01 * max(hard["lam"].max(), hard["lam_star"].max())
    return rmm.qp_dual(*s.data, cost).solve().objective, hard.objective
