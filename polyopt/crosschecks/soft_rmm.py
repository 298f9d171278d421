"""The Relative Margin Machine with slack on its bounds: what its price D does, and all its solvers agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations import rmm, svm
from formulations.families import hinge_families
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, bounded, rbf
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.interior_point import solve_interior_point

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair

__all__ = ["CHECKS"]

CHECKS = Registry("soft_rmm")
_B, _D = 1.3, 0.05


@CHECKS.add("X40", 1e-6)
def nearly_free_slack(seed: int) -> Pair:
    """At a price D of next to nothing it is the SVM, but for D Σ [|f| − B]₊ at the SVM's outputs.

    Source: formulations.rmm, the primal at the SVM's point.
    """
    X, y, C = blobs(seed)
    return rmm.qp(X, y, C, _B, 1e-9).solve().objective, svm.primal(X, y, C).solve().objective


@CHECKS.add("X41", 1e-6)
def dear_slack(seed: int) -> Pair:
    """At a price above every multiplier of the bounds it is the Relative Margin Machine.

    Source: Shivaswamy & Jebara (2008), eq. (7); exact penalty.
    """
    s = bounded(seed)
    hard = rmm.qp(*s.data).solve()
    price = 1.01 * max(float(hard.duals[name].max()) for name in ("bound_above", "bound_below"))
    return rmm.qp(*s.data, price).solve().objective, hard.objective


@CHECKS.add("X42", 1e-6)
def solvers_of_the_linear_machine(seed: int) -> Pair:
    """Decomposition and interior point find the value of the explicit program.

    Source: formulations.rmm, primal and dual.
    """
    X, y, C = blobs(seed)
    rows = hinge_families(y, C, _B, _D)
    fast = [
        solve_decomposition(X @ X.T, rows, tol=1e-8).objective,
        solve_interior_point(X, rows, tol=1e-9).objective,
    ]
    return fast, rmm.qp(X, y, C, _B, _D).solve().objective


@CHECKS.add("X43", 1e-6)
def solver_of_the_kernel_machine(seed: int) -> Pair:
    """With a Gaussian kernel the decomposition finds the value of the explicit dual.

    Source: formulations.rmm.
    """
    X, y, C = blobs(seed)
    K = rbf(X)
    fast = solve_decomposition(K, hinge_families(y, C, _B, _D), tol=1e-8)
    return fast.objective, rmm.kernel_dual(K, y, C, _B, _D).solve().objective


@CHECKS.add("X44", 1e-3)
def price_of_the_price(seed: int) -> Pair:
    """dp*/dD = Σ (τ_i + τ*_i), the left side by central differences.

    Source: formulations.sensitivity, the envelope theorem.
    """
    X, y, C = blobs(seed)
    at = rmm.qp(X, y, C, _B, _D).solve()
    step = 1e-4
    low, high = (rmm.qp(X, y, C, _B, _D + change).solve().objective for change in (-step, step))
    return np.array((high - low) / (2.0 * step)), float(at["tau"].sum() + at["tau_star"].sum())
