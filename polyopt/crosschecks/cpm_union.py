"""The union of polytopes for fixed assignments: what it is made of, and that alternation descends."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from formulations import cpm, cpm_union
from formulations.polytope import lift
from formulations.union import best_faces, best_pieces
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, clusters, generator
from polyopt.outer.cpm.union import UnionEngine
from polyopt.outer.cpm.union_exact import solve_exactly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("cpm_union")

_PIECES = np.array([0, 0, 1, 1, 1])


def _drawn(seed: int, X: Vector, pieces: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The assignments that are best for random faces."""
    outputs = lift(X) @ generator(seed).normal(size=(X.shape[1] + 1, len(pieces)))
    return best_pieces(outputs, pieces), best_faces(outputs, pieces)


@CHECKS.add("X91", 1e-6)
def one_piece_is_a_polytope(seed: int) -> Pair:
    """Union of polytopes, D = 1: its value = that of the Convex Polytope Machine with the same faces.

    Source: Kantchelian et al. (2014), the unconstrained form after eq. (6).
    """
    X, y, C = blobs(seed)
    inside, outside = _drawn(seed, X, np.zeros(3, dtype=np.int64))
    union = cpm_union.fixed_assignment(X, y, [0, 0, 0], inside, outside, C)
    return union.solve().objective, cpm.fixed_assignment(X, y, 3, outside[:, 0], C).solve().objective


@CHECKS.add("X92", 1e-6)
def pieces_are_independent(seed: int) -> Pair:
    """Union of polytopes: its value = Σ_d of the values of Convex Polytope Machines on their own samples.

    Source: formulations.cpm_union, derived; of the positives, and the negatives of a piece.
    """
    X, y, C = blobs(seed)
    inside, outside = _drawn(seed, X, _PIECES)
    parts = []
    for d in range(2):
        own, first, faces = (y > 0) | (inside == d), 2 * d, 2 + d
        parts.append(
            cpm.fixed_assignment(X[own], y[own], faces, outside[own, d] - first, C).solve().objective
        )
    return cpm_union.fixed_assignment(X, y, _PIECES, inside, outside, C).solve().objective, sum(parts)


@CHECKS.add("X93", 1e-7, "≤")
def alternation_of_pieces_descends(seed: int) -> Pair:
    """Union of polytopes: no round of alternating minimisation raises its objective.

    Source: formulations.cpm_union, derived; both assignments are made where a sample pays less.
    """
    X, y = clusters(seed, spread=0.8)
    engine = UnionEngine(X, -y, np.ones(len(y)))  # inside are three clusters
    inside, outside = _drawn(seed, X, _PIECES)
    _, _, history = solve_exactly(engine, engine.cold(_PIECES, inside, outside), 50, None)
    values = [record["objective"] for record in history]
    return values[1:] or values, values[:-1] or values


@CHECKS.add("X94", 1e-6, "≥")
def least_of_all_assignments(seed: int) -> Pair:
    """Union of polytopes, one face a piece: alternation's value ≥ the least over all assignments.

    Source: formulations.cpm_union, derived; with one face a piece, the positives have one assignment.
    """
    drawn = generator(seed)
    y = np.r_[-np.ones(6), np.ones(5)]
    X = np.r_[np.linspace(-3.0, 3.0, 6), np.linspace(-1.0, 1.0, 5)][:, None] + 0.3 * drawn.normal(
        size=(11, 1)
    )
    outside = np.tile([0, 1], (11, 1))
    program, values = cpm_union.fixed_assignment(X, y, [0, 1], np.zeros(11, dtype=int), outside), []
    for rest in product(range(2), repeat=5):  # the pieces are alike: the first negative may stay
        inside = np.r_[0, rest, np.zeros(5, dtype=int)]
        values.append(program.set(Z=cpm_union.union_answers(y, [0, 1], inside, outside)).solve().objective)
    engine = UnionEngine(X, y, np.ones(11))
    start = engine.cold(np.array([0, 1]), np.r_[drawn.integers(2, size=6), -np.ones(5)].astype(int), outside)
    point, _, _ = solve_exactly(engine, start, 50, None)
    return point.objective, min(values)
