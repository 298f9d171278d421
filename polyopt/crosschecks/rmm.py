"""The Relative Margin Machine: its five programs are one, and what B does to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from formulations import rmm, svm
from formulations.program import Program, Row
from formulations.recovery import intercept_interval
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, rbf
from polyopt.solvers.decomposition import solve_decomposition
from polyopt.solvers.decomposition.dual import Dual
from polyopt.solvers.interior_point import solve_interior_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.solution import Solution
    from polyopt.crosschecks.registry import Pair

    Vector = NDArray[np.float64]

__all__ = ["CHECKS"]

_REGISTRY = Registry("rmm")
CHECKS = _REGISTRY.checks


@dataclass(frozen=True)
class _Sample:
    """Data with a bound B that binds: three tenths of the way from 1 to the SVM's largest output."""

    X: Vector
    y: Vector
    C: float
    B: float
    plain: Solution
    reach: float

    @property
    def data(self) -> tuple[Vector, Vector, float, float]:
        return self.X, self.y, self.C, self.B


def _sample(seed: int, cost: float | None = None) -> _Sample:
    X, y, C = blobs(seed)
    C = C if cost is None else cost
    plain = svm.primal(X, y, C).solve()
    reach = float(np.abs(X @ plain["w"] + plain["b"]).max())
    return _Sample(X, y, C, 1.0 + 0.3 * (reach - 1.0), plain, reach)


@_REGISTRY.add("T12a", 1e-6)
def qcqp_and_qp(seed: int) -> Pair:
    """RMM: value of the QCQP (5) = value of the QP (7).

    Source: Shivaswamy & Jebara (2008), eq. (5), (7).
    """
    data = _sample(seed).data
    return rmm.qcqp(*data).solve().objective, rmm.qp(*data).solve().objective


@_REGISTRY.add("T12b", 1e-6)
def qp_and_dual(seed: int) -> Pair:
    """RMM: value of the QP (7) = value of its dual (8).

    Source: Shivaswamy & Jebara (2008), eq. (7), (8).
    """
    data = _sample(seed).data
    return rmm.qp_dual(*data).solve().objective, rmm.qp(*data).solve().objective


@_REGISTRY.add("T12c", 1e-6)
def qcqp_and_semidefinite_dual(seed: int) -> Pair:
    """RMM: value of the corrected dual (6), a semidefinite program, = value of the QCQP (5).

    Source: Shivaswamy & Jebara (2008), eq. (5), (6) with its missing term.
    """
    data = _sample(seed).data
    return rmm.qcqp_dual(*data).solve().objective, rmm.qcqp(*data).solve().objective


@_REGISTRY.add("T13", 1e-5)
def wide_bound(seed: int) -> Pair:
    """RMM with B ≥ max|f_svm| = SVM: the same value, w and b.

    Source: Shivaswamy & Jebara (2008), eq. (1), (7).
    """
    s = _sample(seed)
    here = rmm.qp(s.X, s.y, s.C, 1.001 * s.reach).solve()
    return (
        np.concatenate([[here.objective, here["b"]], here["w"]]),
        np.concatenate([[s.plain.objective, s.plain["b"]], s.plain["w"]]),
    )


@_REGISTRY.add("T14", 1e-4)
def multipliers_of_the_spread(seed: int) -> Pair:
    """RMM: λ of the QCQP (5) = (λ + λ*)/B of the QP (7).

    Source: Shivaswamy & Jebara (2008), eq. (5), (7); derived.
    """
    s = _sample(seed)
    qcqp, qp = rmm.qcqp(*s.data).solve(), rmm.qp(*s.data).solve()
    return qcqp.duals["spread"], (qp.duals["bound_above"] + qp.duals["bound_below"]) / s.B


def _at_the_optimum(seed: int) -> tuple[_Sample, Program, dict[str, Vector]]:
    """The dual (6), and the point of it that the multipliers of (5) are."""
    s = _sample(seed, 1.0)
    qcqp = rmm.qcqp(*s.data).solve()
    alpha, lam = np.clip(qcqp.duals["margin"], 0.0, s.C), np.maximum(qcqp.duals["spread"], 0.0)
    lifted = np.column_stack([s.X, np.ones(len(s.y))])
    M = np.diag(np.append(np.ones(s.X.shape[1]), 0.0)) + (lifted * lam[:, None]).T @ lifted
    q = lifted.T @ (alpha * s.y)
    t = np.array(q @ np.linalg.solve(M, q))
    return s, rmm.qcqp_dual(*s.data), {"alpha": alpha, "lam": lam, "t": t}


@_REGISTRY.add("T15", 1e-5)
def corrected_dual_at_the_multipliers(seed: int) -> Pair:
    """RMM: the corrected (6) at the multipliers (α, λ) of (5) = value of the primal.

    Source: Shivaswamy & Jebara (2008), eq. (6) with its missing term.
    """
    s, dual, point = _at_the_optimum(seed)
    return dual.value(point), rmm.qp(*s.data).solve().objective


@_REGISTRY.add("T16a", 1e-6, "≤")
def outputs_within_the_bound(seed: int) -> Pair:
    """RMM: |f_i| ≤ B for all samples.

    Source: Shivaswamy & Jebara (2008), eq. (7).
    """
    s = _sample(seed)
    point = rmm.qp(*s.data).solve()
    return np.abs(s.X @ point["w"] + point["b"]), s.B


@_REGISTRY.add("T16b", 1e-5)
def one_bound_at_a_time(seed: int) -> Pair:
    """RMM: λ_i λ*_i = 0, as no output is at B and at −B.

    Source: Shivaswamy & Jebara (2008), eq. (8).
    """
    point = rmm.qp_dual(*_sample(seed).data).solve()
    return np.minimum(point["lam"], point["lam_star"]), 0.0


@_REGISTRY.add("T17", 1e-3)
def price_of_the_bound(seed: int) -> Pair:
    """RMM: dp*/dB = −(1'λ + 1'λ*), the left side by central differences.

    Source: Shivaswamy & Jebara (2008), eq. (7), by sensitivity.
    """
    s, h = _sample(seed), 1e-4
    program = rmm.qp(*s.data)
    duals = program.solve().duals
    up, down = (program.set(B=s.B + d).solve().objective for d in (h, -h))
    return (up - down) / (2.0 * h), -(duals["bound_above"].sum() + duals["bound_below"].sum())


def _values(seed: int) -> tuple[Vector, _Sample]:
    """p* at seven evenly spaced B from 0 on."""
    s = _sample(seed)
    program = rmm.qp(*s.data)
    bounds = np.linspace(0.0, 1.1 * s.reach, 7)
    return np.array([program.set(B=B).solve().objective for B in bounds]), s


@_REGISTRY.add("T18a", 1e-6, "≥")
def value_convex_in_the_bound(seed: int) -> Pair:
    """RMM: p*(B) is convex: half the sum over two neighbours is no less than the value between them.

    Source: Shivaswamy & Jebara (2008), eq. (7), a program whose right-hand side is linear in B.
    """
    p, _ = _values(seed)
    return (p[:-2] + p[2:]) / 2.0, p[1:-1]


@_REGISTRY.add("T18b", 1e-6, "≤")
def value_falls_with_the_bound(seed: int) -> Pair:
    """RMM: p*(B) never rises with B.

    Source: Shivaswamy & Jebara (2008), eq. (7).
    """
    p, _ = _values(seed)
    return p[1:], p[:-1]


@_REGISTRY.add("T18c", 1e-6)
def value_without_room(seed: int) -> Pair:
    """RMM: p*(0) = nC, all outputs being 0.

    Source: Shivaswamy & Jebara (2008), eq. (7); the paper's B ≥ 1 is no condition of feasibility.
    """
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, 0.0).solve().objective, len(y) * C


@_REGISTRY.add("T19", 1e-5)
def bound_below_one(seed: int) -> Pair:
    """RMM with B < 1: every α_i = C, as no sample can reach its margin.

    Source: Shivaswamy & Jebara (2008), eq. (7), complementarity.
    """
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, 0.5).solve().duals["margin"], np.full(len(y), C)


@_REGISTRY.add("T20", 1e-6)
def decomposition(seed: int) -> Pair:
    """RMM with a Gaussian kernel: the decomposition solver = dual (8).

    Source: Shivaswamy & Jebara (2008), eq. (8), (9).
    """
    X, y, C = blobs(seed)
    K = rbf(X)
    fast = solve_decomposition(K, y, np.full(len(y), C), 1.2, tol=1e-7)
    return fast.objective, rmm.kernel_dual(K, y, C, 1.2).solve().objective


@_REGISTRY.add("T21", 1e-5)
def intercept_bracket(seed: int) -> Pair:
    """RMM: the interval of b from the three families of multipliers = (m, M) of the working-set method.

    Source: the optimality conditions of Shivaswamy & Jebara (2008), eq. (8), solved for b.
    """
    X, y, C = blobs(seed)
    K, costs, B = rbf(X), np.full(len(y), C), 1.2
    found = solve_decomposition(K, y, costs, B, tol=1e-8)
    alpha, lam, lam_star = (found.duals[name] for name in ("margin", "bound_above", "bound_below"))
    beta = alpha * y - lam + lam_star
    g = K @ beta
    bracket = intercept_interval(g, y, alpha, costs, lam, lam_star, B)
    return sorted(bracket), sorted(Dual(y, costs, B).violation(beta, g))


def _with_cap(program: Program, cap: float) -> Program:
    """Dual (8) with λ, λ* ≤ C_τ: what a slack τ on the bound, at the price C_τ, makes of it."""
    rows = tuple(
        Row(f"tau_{name}", program.variables[name] <= cap, "", "", "tau", "slack of the bound")
        for name in ("lam", "lam_star")
    )
    return replace(program, rows=(*program.rows, *rows))


@_REGISTRY.add("T22a", 1e-6)
def free_slack_on_the_bound(seed: int) -> Pair:
    """RMM with slack on the bound at the price 0 (dual (8) with λ, λ* ≤ 0) = SVM.

    Source: Shivaswamy & Jebara (2008), eq. (8); the paper names the slack without pursuing it.
    """
    s = _sample(seed)
    return _with_cap(rmm.qp_dual(*s.data), 0.0).solve().objective, s.plain.objective


@_REGISTRY.add("T22b", 1e-6)
def dear_slack_on_the_bound(seed: int) -> Pair:
    """RMM with slack on the bound at a price above every multiplier = RMM without slack.

    Source: Shivaswamy & Jebara (2008), eq. (8); exact penalty.
    """
    s = _sample(seed)
    hard = rmm.qp_dual(*s.data).solve()
    price = 1.01 * max(hard["lam"].max(), hard["lam_star"].max())
    return _with_cap(rmm.qp_dual(*s.data), price).solve().objective, hard.objective


@_REGISTRY.add("X04", 1e-5)
def stationarity_of_the_qcqp(seed: int) -> Pair:
    """RMM (5): (I + Σ λ_i x_i x_i') w + b Σ λ_i x_i = Σ α_i y_i x_i.

    Source: the Lagrangian of Shivaswamy & Jebara (2008), eq. (5), the sign of its b corrected.
    """
    s = _sample(seed)
    found = rmm.qcqp(*s.data).solve()
    lam, w = found.duals["spread"], found["w"]
    pulled = s.X.T @ (lam * (s.X @ w + found["b"]))
    return w + pulled, s.X.T @ (found.duals["margin"] * s.y)


@_REGISTRY.add("X05", 1e-9, "≤")
def warm_start(seed: int) -> Pair:
    """RMM: (α_svm, 0, 0) violates no row of dual (8), whatever B is.

    Source: Shivaswamy & Jebara (2008), eq. (2), (8).
    """
    X, y, C = blobs(seed)
    alpha, zeros = svm.dual(X, y, C).solve()["alpha"], np.zeros(len(y))
    point = {"alpha": np.clip(alpha, 0.0, C), "lam": zeros, "lam_star": zeros}
    programs = [rmm.qp_dual(X, y, C, B) for B in (0.0, 0.5, 1.0, 1.5, 10.0)]
    return [max(program.violations(point).values()) for program in programs], 0.0


@_REGISTRY.add("X06", 1e-6)
def interior_point(seed: int) -> Pair:
    """RMM: the interior-point solver's objective and bound = value of the QP (7).

    Source: Shivaswamy & Jebara (2008), eq. (7), (8).
    """
    s = _sample(seed)
    fast = solve_interior_point(s.X, s.y, np.full(len(s.y), s.C), s.B, tol=1e-9)
    return [fast.objective, float(fast.bound or np.nan)], rmm.qp(*s.data).solve().objective


@_REGISTRY.add("N03", 1e-6, ">")
def printed_dual(seed: int) -> Pair:
    """RMM: the printed (6), without −(Σ α_i y_i)²/(2 Σ λ_i), exceeds the primal optimum at the multipliers.

    So it is no dual.

    Source: Shivaswamy & Jebara (2008), eq. (6) as printed.
    """
    s, dual, point = _at_the_optimum(seed)
    missing = (point["alpha"] @ s.y) ** 2 / (2.0 * point["lam"].sum())
    return dual.value(point) + missing, rmm.qp(*s.data).solve().objective


@_REGISTRY.add("N04", 1e-3, ">")
def printed_stationarity(seed: int) -> Pair:
    """RMM (5): with the printed sign, − b Σ λ_i x_i, the stationarity does not hold.

    What is compared with 0 is its residual, relative to Σ α_i y_i x_i.

    Source: the Lagrangian of Shivaswamy & Jebara (2008), eq. (5) as printed.
    """
    s = _sample(seed)
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


@_REGISTRY.add("X07", 1e-6)
def step_of_the_decomposition(seed: int) -> Pair:
    """RMM: a step of the sub-problem (9), its cross term whole, stays at the optimum of (8).

    Source: Shivaswamy & Jebara (2008), eq. (9), corrected.
    """
    return _step(seed, half=False)


@_REGISTRY.add("N05", 1e-3, "<")
def printed_step(seed: int) -> Pair:
    """RMM: a step of (9) with the printed ½ on its cross term leaves the optimum of (8) and lowers it.

    Source: Shivaswamy & Jebara (2008), eq. (9) as printed.
    """
    return _step(seed, half=True)
