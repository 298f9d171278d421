"""The Relative Margin Machine: its programs, misprints, and bounds: hard, with slack, at further samples."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np

from formulations import rmm, rmm_bounded, svm
from formulations import unlabelled_bounds as further
from formulations.families import hinge_families
from formulations.language.program import Program, Row
from polyopt.crosschecks.registry import RMM, Pair, Registry, Vector
from polyopt.crosschecks.samples import Bounded, blobs, bounded, central_slope, generator, linear_optima, rbf
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.decomposition.state import Dual
from polyopt.margin.interior_point import solve_interior_point

CHECKS = Registry("rmm")


def _at_the_optimum(seed: int) -> tuple[Bounded, Program, dict[str, Vector]]:
    """Return the dual (6), and the point of it that the multipliers of (5) are."""
    s = bounded(seed, 1.0)
    qcqp = rmm.qcqp(*s.data).solve()
    alpha, lam = np.clip(qcqp.duals["margin"], 0.0, s.C), np.maximum(qcqp.duals["spread"], 0.0)
    lifted = np.column_stack([s.X, np.ones(len(s.y))])
    M = np.diag(np.append(np.ones(s.X.shape[1]), 0.0)) + (lifted * lam[:, None]).T @ lifted
    q = lifted.T @ (alpha * s.y)
    t = np.array(q @ np.linalg.solve(M, q))
    return s, rmm.qcqp_dual(*s.data), {"alpha": alpha, "lam": lam, "t": t}


@CHECKS.add("T12a", f"{RMM}, eq. (5), (7)", 1e-6)
def qcqp_and_qp(seed: int) -> Pair:
    """RMM: value of the QCQP (5) = value of the QP (7)."""
    data = bounded(seed).data
    return rmm.qcqp(*data).solve().objective, rmm.qp(*data).solve().objective


@CHECKS.add("T12b", f"{RMM}, eq. (7), (8)", 1e-6)
def qp_and_dual(seed: int) -> Pair:
    """RMM: value of the QP (7) = value of its dual (8)."""
    data = bounded(seed).data
    return rmm.qp_dual(*data).solve().objective, rmm.qp(*data).solve().objective


@CHECKS.add("T12c", f"{RMM}, eq. (5), (6) with its missing term", 1e-6)
def qcqp_and_semidefinite_dual(seed: int) -> Pair:
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
    s, dual, point = _at_the_optimum(seed)
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
    found = solve_decomposition(K, rows, tol=1e-8)
    beta = rows.beta(rows.stacked(found.duals))
    g = K @ beta
    bracket = rows.intercept_interval(g, found.duals)
    return sorted(bracket), sorted(Dual(rows).violation(beta, g))


@CHECKS.add("X04", f"the Lagrangian of {RMM}, eq. (5), the sign of its b corrected", 1e-5)
def stationarity_of_the_qcqp(seed: int) -> Pair:
    """RMM (5): (I + Σ λ_i x_i x_i') w + b Σ λ_i x_i = Σ α_i y_i x_i."""
    s = bounded(seed)
    found = rmm.qcqp(*s.data).solve()
    lam, w = found.duals["spread"], found["w"]
    pulled = s.X.T @ (lam * (s.X @ w + found["b"]))
    return w + pulled, s.X.T @ (found.duals["margin"] * s.y)


@CHECKS.add("X06", f"{RMM}, eq. (7), (8)", 1e-6)
def interior_point(seed: int) -> Pair:
    """RMM: the interior-point objective and bound = value of the QP (7) = that of the dual (8) by OSQP."""
    s = bounded(seed)
    fast = solve_interior_point(s.X, hinge_families(s.y, s.C, s.B), tol=1e-9)
    dual = rmm.kernel_dual(s.X @ s.X.T, s.y, s.C, s.B).solve("OSQP")
    values = [fast.objective, float(fast.bound or np.nan), dual.objective]
    return values, rmm.qp(*s.data).solve().objective


@CHECKS.add("N03", f"{RMM}, eq. (6) as printed", 1e-6, ">")
def printed_dual(seed: int) -> Pair:
    """RMM: the printed (6), without −(Σ α_i y_i)²/(2 Σ λ_i), exceeds the primal optimum at the multipliers.

    So it is no dual.
    """
    s, dual, point = _at_the_optimum(seed)
    missing = (point["alpha"] @ s.y) ** 2 / (2.0 * point["lam"].sum())
    return dual.value(point) + missing, rmm.qp(*s.data).solve().objective


@CHECKS.add("N04", f"the Lagrangian of {RMM}, eq. (5) as printed", 1e-3, ">")
def printed_stationarity(seed: int) -> Pair:
    """RMM (5): with the printed sign, − b Σ λ_i x_i, the stationarity does not hold.

    What is compared with 0 is its residual, relative to Σ α_i y_i x_i.
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


@CHECKS.add("X07", f"{RMM}, eq. (9), corrected", 1e-6)
def step_of_the_decomposition(seed: int) -> Pair:
    """RMM: a step of the sub-problem (9), its cross term whole, stays at the optimum of (8)."""
    return _step(seed, half=False)


@CHECKS.add("N05", f"{RMM}, eq. (9) as printed", 1e-3, "<")
def printed_step(seed: int) -> Pair:
    """RMM: a step of (9) with the printed ½ on its cross term leaves the optimum of (8) and lowers it."""
    return _step(seed, half=True)


def _values(seed: int) -> tuple[Vector, Bounded]:
    """p* at seven evenly spaced B from 0 on."""
    s = bounded(seed)
    program = rmm.qp(*s.data)
    bounds = np.linspace(0.0, 1.1 * s.reach, 7)
    return np.array([program.set(B=B).solve().objective for B in bounds]), s


@CHECKS.add("T13", f"{RMM}, eq. (1), (7)", 1e-5)
def wide_bound(seed: int) -> Pair:
    """RMM with B ≥ max|f_svm| = SVM: the same value, w and b."""
    s = bounded(seed)
    here = rmm.qp(s.X, s.y, s.C, 1.001 * s.reach).solve()
    first, second = (np.append([one.objective, one["b"]], one["w"]) for one in (here, s.plain))
    return first, second


@CHECKS.add("T17", f"{RMM}, eq. (7), by sensitivity", 1e-3)
def price_of_the_bound(seed: int) -> Pair:
    """RMM: dp*/dB = −(1'λ + 1'λ*), the left side by central differences."""
    s = bounded(seed)
    program = rmm.qp(*s.data)
    duals = program.solve().duals
    slope = central_slope(lambda B: program.set(B=B), s.B)
    return slope, -(duals["bound_above"].sum() + duals["bound_below"].sum())


@CHECKS.add("T18a", f"{RMM}, eq. (7), a program whose right-hand side is linear in B", 1e-6, "≥")
def value_convex_in_the_bound(seed: int) -> Pair:
    """RMM: p*(B) is convex: half the sum over two neighbours is no less than the value between them."""
    p, _ = _values(seed)
    return (p[:-2] + p[2:]) / 2.0, p[1:-1]


@CHECKS.add("T18b", f"{RMM}, eq. (7)", 1e-6, "≤")
def value_falls_with_the_bound(seed: int) -> Pair:
    """RMM: p*(B) never rises with B."""
    p, _ = _values(seed)
    return p[1:], p[:-1]


@CHECKS.add("T18c", f"{RMM}, eq. (7); the paper's B ≥ 1 is no condition of feasibility", 1e-6)
def value_without_room(seed: int) -> Pair:
    """RMM: p*(0) = nC, all outputs being 0."""
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, 0.0).solve().objective, len(y) * C


@CHECKS.add("T19", f"{RMM}, eq. (7), complementarity", 1e-5)
def bound_below_one(seed: int) -> Pair:
    """RMM with B < 1: every α_i = C, as no sample can reach its margin."""
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, 0.5).solve().duals["margin"], np.full(len(y), C)


def _with_cap(program: Program, cap: float) -> Program:
    """Dual (8) with λ, λ* ≤ C_τ: what a slack τ on the bound, at the price C_τ, makes of it."""
    rows = tuple(
        Row(f"tau_{name}", program.variables[name] <= cap, f"{letter} ≤ {cap!r}", "tau", "slack of the bound")
        for name, letter in (("lam", "λᵢ"), ("lam_star", "λ*ᵢ"))
    )
    return replace(program, rows=(*program.rows, *rows))


@CHECKS.add("T22a", f"{RMM}, eq. (8); the paper names the slack without pursuing it", 1e-6)
def free_slack_on_the_bound(seed: int) -> Pair:
    """RMM with slack on the bound at the price 0 (dual (8) with λ, λ* ≤ 0) = SVM."""
    s = bounded(seed)
    return _with_cap(rmm.qp_dual(*s.data), 0.0).solve().objective, s.plain.objective


@CHECKS.add("T22b", f"{RMM}, eq. (8); exact penalty", 1e-6)
def dear_slack_on_the_bound(seed: int) -> Pair:
    """RMM with slack on the bound at a price above every multiplier = RMM without slack."""
    s = bounded(seed)
    hard = rmm.qp_dual(*s.data).solve()
    price = 1.01 * max(hard["lam"].max(), hard["lam_star"].max())
    return _with_cap(rmm.qp_dual(*s.data), price).solve().objective, hard.objective


@CHECKS.add("X05", f"{RMM}, eq. (2), (8)", 1e-9, "≤")
def warm_start(seed: int) -> Pair:
    """RMM: (α_svm, 0, 0) violates no row of dual (8), whatever B is."""
    X, y, C = blobs(seed)
    alpha, zeros = svm.dual(X, y, C).solve()["alpha"], np.zeros(len(y))
    point = {"alpha": np.clip(alpha, 0.0, C), "lam": zeros, "lam_star": zeros}
    programs = [rmm.qp_dual(X, y, C, B) for B in (0.0, 0.5, 1.0, 1.5, 10.0)]
    return [max(program.violations(point).values()) for program in programs], 0.0


_B, _D = 1.3, 0.05


def _spread(X: Vector, seed: int) -> Vector:
    """Further samples, of which some lie farther out than those with labels."""
    rng, centre = generator(seed), X.mean(axis=0)
    U = centre + 1.2 * (X[rng.permutation(len(X))[:8]] - centre)
    return np.asarray(U + 0.3 * rng.normal(size=U.shape))


@CHECKS.add("X45", f"{RMM}, eq. (7); outputs are affine", 1e-6)
def nothing_new(seed: int) -> Pair:
    """With bounds at samples that lie between those with labels, it is the Relative Margin Machine."""
    s = bounded(seed)
    between = 0.5 * (s.X + s.X[generator(seed).permutation(len(s.X))])
    return rmm_bounded.qp(s.X, s.y, between, s.C, s.B).solve().objective, rmm.qp(*s.data).solve().objective


@CHECKS.add("X46", f"{RMM}, eq. (7) and appendix", 1e-6)
def further_samples_in_the_place_of_all(seed: int) -> Pair:
    """With the labelled samples as the further ones, bounds there alone are those of the machine."""
    s = bounded(seed)
    alone = rmm_bounded.qp(s.X, s.y, s.X, s.C, s.B, training=False)
    return alone.solve().objective, rmm.qp(*s.data).solve().objective


@CHECKS.add("X47", "formulations.rmm_bounded, whose programs differ by these rows", 1e-7, "≤")
def more_bounds_cost_more(seed: int) -> Pair:
    """SVM ≤ bounds at the further samples alone ≤ bounds at these and those with labels."""
    X, y, C = blobs(seed)
    U = _spread(X, seed)
    alone, both = (rmm_bounded.qp(X, y, U, C, _B, training=t).solve().objective for t in (False, True))
    return np.array([svm.primal(X, y, C).solve().objective, alone]), np.array([alone, both])


@CHECKS.add("X48", "formulations.rmm_bounded, primal and dual", 1e-6)
def solvers_of_the_linear_machine(seed: int) -> Pair:
    """Decomposition and interior point find the values of the explicit programs, of both kinds."""
    X, y, C = blobs(seed)
    U = _spread(X, seed)
    Z, _ = further.stacked(X, y, U)
    fast, exact = [], []
    for training in (True, False):
        fast += linear_optima(Z, further.families(y, len(U), C, _B, training=training))
        exact += 2 * [rmm_bounded.qp(X, y, U, C, _B, training=training).solve().objective]
    return fast, exact


@CHECKS.add("X49", "formulations.rmm_bounded", 1e-6)
def solver_of_the_kernel_machine(seed: int) -> Pair:
    """With a Gaussian kernel the decomposition finds the value of the explicit dual."""
    X, y, C = blobs(seed)
    K = rbf(np.vstack([X, _spread(X, seed)]))
    fast = solve_decomposition(K, further.families(y, len(K) - len(y), C, _B), tol=1e-8)
    return fast.objective, rmm_bounded.kernel_dual(K, y, C, _B).solve().objective


@CHECKS.add("X50", "formulations.sensitivity, the envelope theorem", 1e-3)
def price_of_further_bounds(seed: int) -> Pair:
    """dp*/dB = −Σ (λ_j + λ*_j) over all samples that are held, the left side by central differences."""
    X, y, C = blobs(seed)
    U = _spread(X, seed)
    duals = rmm_bounded.qp(X, y, U, C, _B).solve().duals
    slope = central_slope(lambda B: rmm_bounded.qp(X, y, U, C, B), _B)
    return slope, -(duals["bound_above"].sum() + duals["bound_below"].sum())


@CHECKS.add("X40", "formulations.rmm, the primal at the SVM's point", 1e-6)
def nearly_free_slack(seed: int) -> Pair:
    """At a price D of next to nothing it is the SVM, but for D Σ [|f| − B]₊ at the SVM's outputs."""
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, _B, 1e-9).solve().objective, svm.primal(X, y, C).solve().objective


@CHECKS.add("X41", f"{RMM}, eq. (7); exact penalty", 1e-6)
def dear_slack(seed: int) -> Pair:
    """At a price above every multiplier of the bounds it is the Relative Margin Machine."""
    s = bounded(seed)
    hard = rmm.qp(*s.data).solve()
    price = 1.01 * max(float(hard.duals[name].max()) for name in ("bound_above", "bound_below"))
    return rmm.qp(*s.data, price).solve().objective, hard.objective


@CHECKS.add("X42", "formulations.rmm, primal and dual", 1e-6)
def solvers_of_the_soft_linear_machine(seed: int) -> Pair:
    """Decomposition and interior point find the value of the explicit program."""
    X, y, C = blobs(seed)
    fast = linear_optima(X, hinge_families(y, C, _B, _D))
    return fast, rmm.qp(X, y, C, _B, _D).solve().objective


@CHECKS.add("X43", "formulations.rmm", 1e-6)
def solver_of_the_soft_kernel_machine(seed: int) -> Pair:
    """With a Gaussian kernel the decomposition finds the value of the explicit dual."""
    X, y, C = blobs(seed)
    K = rbf(X)
    fast = solve_decomposition(K, hinge_families(y, C, _B, _D), tol=1e-8)
    return fast.objective, rmm.kernel_dual(K, y, C, _B, _D).solve().objective


@CHECKS.add("X44", "formulations.sensitivity, the envelope theorem", 1e-3)
def price_of_the_price(seed: int) -> Pair:
    """dp*/dD = Σ (τ_i + τ*_i), the left side by central differences."""
    X, y, C = blobs(seed)
    at = rmm.qp(X, y, C, _B, _D).solve()
    return central_slope(lambda D: rmm.qp(X, y, C, _B, D), _D), at["tau"].sum() + at["tau_star"].sum()
