"""The Relative Margin Machine: its programs, the misprints, and the bound B."""

from dataclasses import replace

import cvxpy as cp
import numpy as np

from formulations import rmm
from formulations.families import hinge_families
from polyopt.crosschecks.registry import RMM, Pairs, Registry
from polyopt.crosschecks.samples import blobs, bounded, rbf
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.decomposition.state import Dual

CHECKS = Registry("rmm")


@CHECKS.add(RMM)
def _programs(seed: int) -> Pairs:
    """Compare the values and multipliers of the programs at a bound that binds.

    T12a | = 1e-6 | eq. (5), (7) | RMM: value of the QCQP (5) = value of the QP (7)
    T12b | = 1e-6 | eq. (7), (8) | RMM: value of the QP (7) = value of its dual (8)
    T14 | = 1e-4 | eq. (5), (7); derived | RMM: λ of the QCQP (5) = (λ + λ*)/B of the QP (7)
    T16a | ≤ 1e-6 | eq. (7) | RMM: |f_i| ≤ B for all samples
    T16b | = 1e-5 | eq. (8) | RMM: λ_i λ*_i = 0, as no output is at B and at −B
    T17 | = 1e-3 | eq. (7), by sensitivity | RMM: dp*/dB = −(1'λ + 1'λ*), the left side by central differences
    T22a | = 1e-6 | eq. (8); the paper names the slack without pursuing it | RMM with slack on the bound at a
        cost of 1e-9 (dual (8) with λ, λ* ≤ 1e-9) = SVM
    T22b | = 1e-6 | eq. (8); exact penalty | RMM with slack on the bound at a cost above every multiplier =
        RMM without slack
    """
    (X, y, C, B), svm, _ = bounded(seed)
    data = X, y, C, B
    program = rmm.qp(*data)
    qcqp, qp, dual = rmm.qcqp(*data).solve(), program.solve(), rmm.qp_dual(*data).solve()
    both = qp.duals["bound_above"] + qp.duals["bound_below"]
    yield qcqp.objective, qp.objective
    yield dual.objective, qp.objective
    yield qcqp.duals["spread"], both / B
    yield np.abs(X @ qp["w"] + qp["b"]), B
    yield np.minimum(dual["lam"], dual["lam_star"]), 0.0
    low, high = (program.set(B=B + change).solve().objective for change in (-1e-4, 1e-4))
    yield (high - low) / 2e-4, -both.sum()
    yield rmm.qp_dual(*data, 1e-9).solve().objective, svm.objective
    cost = 1.01 * max(dual["lam"].max(), dual["lam_star"].max())
    yield rmm.qp_dual(*data, cost).solve().objective, dual.objective


@CHECKS.add(RMM)
def _dual_of_the_qcqp(seed: int) -> Pairs:
    """Compare the dual (6) with its primal: at its optimum, at the multipliers of (5), and as printed.

    T12c | = 1e-6 | eq. (5), (6) with its missing term | RMM: value of the corrected dual (6), a semidefinite
        program, = value of the QCQP (5)
    T15 | = 1e-5 | eq. (6) with its missing term | RMM: the corrected (6) at the multipliers (α, λ) of (5) =
        value of the primal
    N03 | > 1e-6 | eq. (6) as printed | RMM: the printed (6), without −(Σ α_i y_i)²/(2 Σ λ_i), exceeds the
        primal optimum at the multipliers
    """
    (X, y, C, B), *_ = bounded(seed, 1.0)
    data = X, y, C, B
    qcqp, dual, value = rmm.qcqp(*data).solve(), rmm.qcqp_dual(*data), rmm.qp(*data).solve().objective
    alpha, lam = np.clip(qcqp.duals["margin"], 0.0, C), np.maximum(qcqp.duals["spread"], 0.0)
    lifted = np.column_stack([X, np.ones(len(y))])
    M = np.diag(np.append(np.ones(X.shape[1]), 0.0)) + (lifted * lam[:, None]).T @ lifted
    q = lifted.T @ (alpha * y)
    point = {"alpha": alpha, "lam": lam, "t": np.array(q @ np.linalg.solve(M, q))}
    yield dual.solve().objective, qcqp.objective
    yield dual.value(point), value
    yield dual.value(point) + (alpha @ y) ** 2 / (2.0 * lam.sum()), value


@CHECKS.add(RMM)
def _decomposition(seed: int) -> Pairs:
    """Compare the decomposition solver with the dual, with a Gaussian kernel.

    T20 | = 1e-6 | eq. (8), (9) | RMM with a Gaussian kernel: the decomposition solver = dual (8)
    T21 | = 1e-5 | the optimality conditions of eq. (8), solved for b | RMM: the interval of b from the three
        families of multipliers = (m, M) of the working-set method
    """
    X, y, C = blobs(seed)
    K, rows = rbf(X), hinge_families(y, C, 1.2)
    fast = solve_decomposition(K, rows, tol=1e-8)
    yield fast.objective, rmm.kernel_dual(K, y, C, 1.2).solve().objective
    beta = rows.beta(rows.stacked(fast.duals))
    g = K @ beta
    yield sorted(rows.intercept_interval(g, fast.duals)), sorted(Dual(rows).extremes(beta, g))


@CHECKS.add(RMM)
def _printed_stationarity(seed: int) -> Pairs:
    """Evaluate the stationarity of (5) as printed; the residual is relative to Σ α_i y_i x_i.

    N04 | > 1e-3 | the Lagrangian of eq. (5) as printed | RMM (5): with the printed sign, − b Σ λ_i x_i, the
        stationarity does not hold
    """
    data, *_ = bounded(seed)
    optimum, (X, y, *_) = rmm.qcqp(*data).solve(), data
    lam, w, right = optimum.duals["spread"], optimum["w"], X.T @ (optimum.duals["margin"] * y)
    left = w + X.T @ (lam * (X @ w - optimum["b"]))
    yield np.linalg.norm(left - right) / np.linalg.norm(right), 0.0


@CHECKS.add(RMM)
def _printed_step(seed: int) -> Pairs:
    """Evaluate (8) after a step of (9) as printed, at a high cost, so that multipliers are below C.

    N05 | < 1e-3 | eq. (9) as printed | RMM: a step of (9) with the printed ½ on its cross term leaves the
        optimum of (8) and lowers it
    """
    X, y, _ = blobs(seed)
    K, C, B = rbf(X), 5.0, 1.2
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
    yield dual.value(point), start.objective


@CHECKS.add(RMM)
def _bounds(seed: int) -> Pairs:
    """Compare the machines of bounds from 0 to beyond the SVM's largest output, where the RMM is the SVM.

    T13 | = 1e-5 | eq. (1), (7) | RMM with B ≥ max|f_svm| = SVM: the same value, w and b
    T18a | ≥ 1e-6 | eq. (7), a program whose right-hand side is linear in B | RMM: p*(B) is convex: half the
        sum over two neighbours is no less than the value between them
    T18b | ≤ 1e-6 | eq. (7) | RMM: p*(B) never rises with B
    T18c | = 1e-6 | eq. (7); the paper's B ≥ 1 is no condition of feasibility | RMM: p*(0) = nC, all outputs
        being 0
    T19 | = 1e-5 | eq. (7), complementarity | RMM with B < 1: every α_i = C, as no sample can reach its margin
    """
    (X, y, C, B), svm, reach = bounded(seed)
    program, n = rmm.qp(X, y, C, B), len(y)
    wide = rmm.qp(X, y, C, 1.001 * reach).solve()
    computed, expected = (np.append([p.objective, p["b"]], p["w"]) for p in (wide, svm))
    yield computed, expected
    p = np.array([program.set(B=B).solve().objective for B in np.linspace(0.0, 1.1 * reach, 7)])
    yield (p[:-2] + p[2:]) / 2.0, p[1:-1]
    yield p[1:], p[:-1]
    yield p[0], n * C
    yield rmm.qp(X, y, C, 0.5).solve().duals["margin"], np.full(n, C)
