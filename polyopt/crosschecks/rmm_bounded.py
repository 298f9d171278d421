"""The Relative Margin Machine with bounds at further samples: what they change, and all its solvers agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations import rmm, rmm_bounded, svm
from formulations import unlabelled_bounds as further
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, bounded, generator, rbf
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.interior_point import solve_interior_point

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("rmm_bounded")
_B = 1.3


def _spread(X: Vector, seed: int) -> Vector:
    """Further samples, of which some lie farther out than those with labels."""
    rng, centre = generator(seed), X.mean(axis=0)
    U = centre + 1.2 * (X[rng.permutation(len(X))[:8]] - centre)
    return np.asarray(U + 0.3 * rng.normal(size=U.shape))


@CHECKS.add("X45", 1e-6)
def nothing_new(seed: int) -> Pair:
    """With bounds at samples that lie between those with labels, it is the Relative Margin Machine.

    Source: Shivaswamy & Jebara (2008), eq. (7); outputs are affine.
    """
    s = bounded(seed)
    between = 0.5 * (s.X + s.X[generator(seed).permutation(len(s.X))])
    return rmm_bounded.qp(s.X, s.y, between, s.C, s.B).solve().objective, rmm.qp(*s.data).solve().objective


@CHECKS.add("X46", 1e-6)
def further_samples_in_the_place_of_all(seed: int) -> Pair:
    """With the labelled samples as the further ones, bounds there alone are those of the machine.

    Source: Shivaswamy & Jebara (2008), eq. (7) and appendix.
    """
    s = bounded(seed)
    alone = rmm_bounded.qp(s.X, s.y, s.X, s.C, s.B, training=False)
    return alone.solve().objective, rmm.qp(*s.data).solve().objective


@CHECKS.add("X47", 1e-7, "≤")
def more_bounds_cost_more(seed: int) -> Pair:
    """SVM ≤ bounds at the further samples alone ≤ bounds at these and those with labels.

    Source: formulations.rmm_bounded, whose programs differ by these rows.
    """
    X, y, C = blobs(seed)
    U = _spread(X, seed)
    alone, both = (rmm_bounded.qp(X, y, U, C, _B, training=t).solve().objective for t in (False, True))
    return np.array([svm.primal(X, y, C).solve().objective, alone]), np.array([alone, both])


@CHECKS.add("X48", 1e-6)
def solvers_of_the_linear_machine(seed: int) -> Pair:
    """Decomposition and interior point find the values of the explicit programs, of both kinds.

    Source: formulations.rmm_bounded, primal and dual.
    """
    X, y, C = blobs(seed)
    U = _spread(X, seed)
    Z, _ = further.stacked(X, y, U)
    fast, exact = [], []
    for training in (True, False):
        rows = further.families(y, len(U), C, _B, training=training)
        fast.append(solve_decomposition(Z @ Z.T, rows, tol=1e-8).objective)
        fast.append(solve_interior_point(Z, rows, tol=1e-9).objective)
        exact += 2 * [rmm_bounded.qp(X, y, U, C, _B, training=training).solve().objective]
    return fast, exact


@CHECKS.add("X49", 1e-6)
def solver_of_the_kernel_machine(seed: int) -> Pair:
    """With a Gaussian kernel the decomposition finds the value of the explicit dual.

    Source: formulations.rmm_bounded.
    """
    X, y, C = blobs(seed)
    K = rbf(np.vstack([X, _spread(X, seed)]))
    fast = solve_decomposition(K, further.families(y, len(K) - len(y), C, _B), tol=1e-8)
    return fast.objective, rmm_bounded.kernel_dual(K, y, C, _B).solve().objective


@CHECKS.add("X50", 1e-3)
def price_of_the_bound(seed: int) -> Pair:
    """dp*/dB = −Σ (λ_j + λ*_j) over all samples that are held, the left side by central differences.

    Source: formulations.sensitivity, the envelope theorem.
    """
    X, y, C = blobs(seed)
    U, step = _spread(X, seed), 1e-4
    at = rmm_bounded.qp(X, y, U, C, _B).solve()
    low, high = (rmm_bounded.qp(X, y, U, C, _B + change).solve().objective for change in (-step, step))
    slope = -(at.duals["bound_above"].sum() + at.duals["bound_below"].sum())
    return np.array((high - low) / (2.0 * step)), float(slope)
