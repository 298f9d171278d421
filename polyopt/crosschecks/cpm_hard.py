"""The Convex Polytope Machine's margins, programs (1) to (5): what follows from what, and what does not."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from formulations import cpm, cpm_margins
from formulations.language.toy_data import separated_clusters
from formulations.polytope import face_margins, lift
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import generator

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("cpm")


def _norms(W: Vector) -> Vector:
    return np.asarray(np.linalg.norm(W, axis=1))


@CHECKS.add("X61", 1e-7)
def total_margin_of_every_program(seed: int) -> Pair:
    """CPM, hard, negatives on all faces: max Σ ζ_k of (2) = Σ 1/‖W_k‖ of (4)-(5) = (3), face by face.

    Source: Kantchelian et al. (2014), eq. (2) to (5).
    """
    X, y, z = separated_clusters(seed=seed)
    own = [(y < 0) | (z == k) for k in range(3)]
    by_faces = sum(1.0 / cpm_margins.hard_face(X[one], y[one]).solve().objective for one in own)
    shortest = cpm_margins.hard_total(X, y, 3, z).solve()["W"]
    return [by_faces, (1.0 / _norms(shortest)).sum()], cpm_margins.total(X, y, 3, z).solve().objective


@CHECKS.add("X62", 1e-6)
def worst_margin_over_all_assignments(seed: int) -> Pair:
    """CPM, hard: the largest worst-case margin = 1/√(min max ‖W_k‖²), both over all assignments, one by one.

    Source: Kantchelian et al. (2014), the worst-case margin in eq. (1) to (5).
    """
    X, y, z = separated_clusters(n=6, seed=seed)
    positives, margins, norms = np.flatnonzero(y > 0), [], []
    for rest in product(range(2), repeat=len(positives) - 1):
        z[positives] = (0, *rest)  # the faces are alike: the first positive may stay at the first
        margins.append(cpm_margins.worst(X, y, 2, z).solve().objective)
        if margins[-1] > 1e-6:
            norms.append(cpm_margins.hard_worst(X, y, 2, z).solve().objective)
    return max(margins), 1.0 / np.sqrt(min(norms))


@CHECKS.add("X63", 1e-6)
def hard_margins_at_a_high_cost(seed: int) -> Pair:
    """CPM: (6) with a cost above every multiplier of (4)-(5) = (4)-(5).

    Source: Kantchelian et al. (2014), eq. (4) to (6).
    """
    X, y, z = separated_clusters(seed=seed)
    hard = cpm_margins.hard_total(X, y, 3, z).solve()
    C = 1.1 * hard.duals["margin"].max()
    return cpm.fixed_assignment(X, y, 3, z, C).solve().objective, hard.objective


@CHECKS.add("X64", 1e-7, "≤")
def printed_program_bounds_the_total_margin(seed: int) -> Pair:
    """CPM: δᵀ of any unit faces near the optimum ≤ (2) for the assignment that they make.

    Source: Kantchelian et al. (2014), eq. (1) and (2), the norms relaxed to at most 1.
    """
    X, y, z = separated_clusters(seed=seed)
    best, drawn = cpm_margins.hard_total(X, y, 3, z).solve()["W"], generator(seed)
    found: list[float] = []
    bounds: list[float] = []
    while len(found) < 5:
        W = best * drawn.uniform(0.5, 1.0, (3, 1)) + 0.1 * drawn.normal(size=best.shape)
        W /= _norms(W)[:, None]
        margins, _ = face_margins(X, y, W)
        if margins.min() > 0.0 and margins.max() < np.inf:
            natural = (lift(X) @ W.T).argmax(axis=1)
            found.append(margins.sum())
            bounds.append(cpm_margins.printed(X, y, 3, natural).solve().objective)
    return found, bounds


@CHECKS.add("N21", 1e-3, "<")
def dividing_by_the_margins_changes_the_best_face(seed: int) -> Pair:
    """CPM: faces of (2) over their ζ_k break (3): a negative whose own face keeps it is beyond another.

    The paper says that the programs are equivalent.

    Source: Kantchelian et al. (2014), eq. (2) and (3).
    """
    del seed
    W, zeta, x = np.eye(2), np.array([0.2, 1.0]), np.array([-0.3, -0.6])  # (2): −W₁·x = 0.3 ≥ 0.2
    assert (W @ x).argmax() == 0
    assert -W[0] @ x >= zeta[0]
    scaled = (W / zeta[:, None]) @ x
    return -scaled[scaled.argmax()], 1.0


@CHECKS.add("N22", 1e-2, ">")
def another_assignment_after_smoothing(seed: int) -> Pair:
    """CPM, hard: of two assignments, the one with the larger Σ 1/‖W_k‖ also has the larger Σ ‖W_k‖².

    Source: Kantchelian et al. (2014), eq. (3) and (4)-(5).
    """
    del seed
    positives = [[3.0, -2.0], [-4.0, -2.0], [-1.0, 3.0], [0.0, -4.0], [-1.0, 1.0]]
    X, y = np.array([*positives, [1.0, 1.0], [1.0, -1.0]]), np.array([1] * 5 + [-1] * 2)
    # Of all assignments the one with the largest total margin, and the one with the least norms.
    largest, least = (
        cpm_margins.hard_total(X, y, 2, [*z, 0, 0]).solve()["W"] for z in ([0, 1, 1, 0, 1], [0, 1, 1, 1, 1])
    )
    assert (1.0 / _norms(largest)).sum() > (1.0 / _norms(least)).sum()
    return (largest**2).sum(), (least**2).sum()
