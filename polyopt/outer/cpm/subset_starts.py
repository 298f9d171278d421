"""Faces of few features to begin a search with: swaps of single features, and the cross-entropy method."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from polyopt.outer.cross_entropy import cross_entropy_minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.outer.cpm.subset_tree import SubsetSearch
    from polyopt.solvers.cpm.subset import Fitted, SubsetFace

    Bits = NDArray[np.bool_]

__all__ = ["draw_patterns", "swap_features"]

_PAIRS = 3  # of each, the features that would join first and those that would leave first
_SWAPS = 30  # at most
_SAMPLES, _ROUNDS, _ELITE = 40, 10, 0.15  # of the cross-entropy method
_LEAST, _MOST = 0.02, 0.9  # probabilities that it begins with: no feature is left out, none always drawn
_CANDIDATES = 200  # features at most, the others of which are not drawn


def swap_features(search: SubsetSearch) -> None:
    """Exchange one feature of the best face for another as long as one of a few tries lowers its cost.

    The first to join are those with the largest |v_j|, the slope of the cost in their weights; the first to
    leave have the smallest weights.

    search: with a best face.
    """
    face = search.face
    for _ in range(_SWAPS):
        best = search.best
        if best is None or search.clock.is_over:
            return
        slope = np.abs(face.pull(best.alpha)[: face.m])
        slope[best.features] = -1.0
        for joining, leaving in _pairs(best, slope, face):
            if slope[joining] >= 0.0:
                search.offer(np.append(best.features[best.features != leaving], joining))
            if search.best is not best:
                break
        else:
            return


def _pairs(best: Fitted, slope: Vector, face: SubsetFace) -> list[tuple[int, int]]:
    """Who joins and who leaves (-1: nobody), in the order in which exchanges are tried."""
    joining = np.argsort(-slope, kind="stable")[:_PAIRS]
    own = best.features
    leaving = own[np.argsort(np.abs(best.w[own]), kind="stable")[:_PAIRS]]
    if len(own) < face.s:
        leaving = np.append(leaving, -1)  # there is room for one more
    ranks = sorted(product(range(len(joining)), range(len(leaving))), key=sum)
    return [(int(joining[a]), int(leaving[b])) for a, b in ranks]


def draw_patterns(search: SubsetSearch, seed: int) -> None:
    """Offer faces by the cross-entropy method over patterns of features, from the relaxation's weights.

    A pattern of more than s features stands for the s with the largest weights of its face.

    search: with a best face.
    seed: of the patterns drawn.
    """
    face, best = search.face, search.best
    if best is None:
        return
    order = np.argsort(-search.z, kind="stable")
    candidates = np.union1d(order[:_CANDIDATES], best.features)
    p = np.clip(search.z[candidates], _LEAST, _MOST)
    p = np.clip(p * min(1.0, 1.5 * face.s / p.sum()), _LEAST, _MOST)
    pruned: dict[bytes, Bits] = {}

    def score(pattern: Bits) -> float:
        chosen = candidates[pattern]
        if len(chosen) > face.s:
            sizes = np.zeros(face.m)
            sizes[chosen] = np.abs(face.fit(chosen, tol=1e-2).w[chosen])
            chosen = face.largest(sizes)
        pruned[pattern.tobytes()] = np.isin(candidates, chosen)
        return search.offer(chosen)

    def improve(pattern: Bits, value: float) -> tuple[Bits, float]:
        return pruned[pattern.tobytes()], value

    cross_entropy_minimize(
        score, len(candidates), p0=p, n_samples=_SAMPLES, rho=_ELITE, max_iter=_ROUNDS, patience=3,
        incumbents=np.isin(candidates, best.features)[None, :], improve=improve, random_state=seed,
        time_limit=search.clock.left,
    )  # fmt: skip
