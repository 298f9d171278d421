"""The Relative Margin Machine: what its bound B does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations import rmm, svm
from formulations.language.program import Program, Row
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, bounded

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector
    from polyopt.crosschecks.samples import Bounded

__all__ = ["CHECKS"]

CHECKS = Registry("rmm")


def _values(seed: int) -> tuple[Vector, Bounded]:
    """p* at seven evenly spaced B from 0 on."""
    s = bounded(seed)
    program = rmm.qp(*s.data)
    bounds = np.linspace(0.0, 1.1 * s.reach, 7)
    return np.array([program.set(B=B).solve().objective for B in bounds]), s


@CHECKS.add("T13", 1e-5)
def wide_bound(seed: int) -> Pair:
    """RMM with B ≥ max|f_svm| = SVM: the same value, w and b.

    Source: Shivaswamy & Jebara (2008), eq. (1), (7).
    """
    s = bounded(seed)
    here = rmm.qp(s.X, s.y, s.C, 1.001 * s.reach).solve()
    return (
        np.concatenate([[here.objective, here["b"]], here["w"]]),
        np.concatenate([[s.plain.objective, s.plain["b"]], s.plain["w"]]),
    )


@CHECKS.add("T17", 1e-3)
def price_of_the_bound(seed: int) -> Pair:
    """RMM: dp*/dB = −(1'λ + 1'λ*), the left side by central differences.

    Source: Shivaswamy & Jebara (2008), eq. (7), by sensitivity.
    """
    s, h = bounded(seed), 1e-4
    program = rmm.qp(*s.data)
    duals = program.solve().duals
    up, down = (program.set(B=s.B + d).solve().objective for d in (h, -h))
    return (up - down) / (2.0 * h), -(duals["bound_above"].sum() + duals["bound_below"].sum())


@CHECKS.add("T18a", 1e-6, "≥")
def value_convex_in_the_bound(seed: int) -> Pair:
    """RMM: p*(B) is convex: half the sum over two neighbours is no less than the value between them.

    Source: Shivaswamy & Jebara (2008), eq. (7), a program whose right-hand side is linear in B.
    """
    p, _ = _values(seed)
    return (p[:-2] + p[2:]) / 2.0, p[1:-1]


@CHECKS.add("T18b", 1e-6, "≤")
def value_falls_with_the_bound(seed: int) -> Pair:
    """RMM: p*(B) never rises with B.

    Source: Shivaswamy & Jebara (2008), eq. (7).
    """
    p, _ = _values(seed)
    return p[1:], p[:-1]


@CHECKS.add("T18c", 1e-6)
def value_without_room(seed: int) -> Pair:
    """RMM: p*(0) = nC, all outputs being 0.

    Source: Shivaswamy & Jebara (2008), eq. (7); the paper's B ≥ 1 is no condition of feasibility.
    """
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, 0.0).solve().objective, len(y) * C


@CHECKS.add("T19", 1e-5)
def bound_below_one(seed: int) -> Pair:
    """RMM with B < 1: every α_i = C, as no sample can reach its margin.

    Source: Shivaswamy & Jebara (2008), eq. (7), complementarity.
    """
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, 0.5).solve().duals["margin"], np.full(len(y), C)


def _with_cap(program: Program, cap: float) -> Program:
    """Dual (8) with λ, λ* ≤ C_τ: what a slack τ on the bound, at the price C_τ, makes of it."""
    rows = tuple(
        Row(f"tau_{name}", program.variables[name] <= cap, f"{letter} ≤ {cap!r}", "tau", "slack of the bound")
        for name, letter in (("lam", "λᵢ"), ("lam_star", "λ*ᵢ"))
    )
    return replace(program, rows=(*program.rows, *rows))


@CHECKS.add("T22a", 1e-6)
def free_slack_on_the_bound(seed: int) -> Pair:
    """RMM with slack on the bound at the price 0 (dual (8) with λ, λ* ≤ 0) = SVM.

    Source: Shivaswamy & Jebara (2008), eq. (8); the paper names the slack without pursuing it.
    """
    s = bounded(seed)
    return _with_cap(rmm.qp_dual(*s.data), 0.0).solve().objective, s.plain.objective


@CHECKS.add("T22b", 1e-6)
def dear_slack_on_the_bound(seed: int) -> Pair:
    """RMM with slack on the bound at a price above every multiplier = RMM without slack.

    Source: Shivaswamy & Jebara (2008), eq. (8); exact penalty.
    """
    s = bounded(seed)
    hard = rmm.qp_dual(*s.data).solve()
    price = 1.01 * max(hard["lam"].max(), hard["lam_star"].max())
    return _with_cap(rmm.qp_dual(*s.data), price).solve().objective, hard.objective


@CHECKS.add("X05", 1e-9, "≤")
def warm_start(seed: int) -> Pair:
    """RMM: (α_svm, 0, 0) violates no row of dual (8), whatever B is.

    Source: Shivaswamy & Jebara (2008), eq. (2), (8).
    """
    X, y, C = blobs(seed)
    alpha, zeros = svm.dual(X, y, C).solve()["alpha"], np.zeros(len(y))
    point = {"alpha": np.clip(alpha, 0.0, C), "lam": zeros, "lam_star": zeros}
    programs = [rmm.qp_dual(X, y, C, B) for B in (0.0, 0.5, 1.0, 1.5, 10.0)]
    return [max(program.violations(point).values()) for program in programs], 0.0
