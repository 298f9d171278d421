"""Passes over pairs that may move, where their rows are few: all of them in one place.

A pass by blocks has all faces go from block to block, which costs much more than the steps where some hundred
pairs are left. So their rows come to whoever drives the ascent, once for all passes until the next scan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.large.parts import Recipe, Sides, sides_of
from polyopt.large.shards import each_block, joined
from polyopt.solvers.cpm.block_ascent import Pairs, climb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from polyopt.large.held import Hands
    from polyopt.large.sources import Samples

    Vector = NDArray[np.float64]

__all__ = ["are_few", "awake_rows", "climbed_here", "gathered"]

# Both are chosen, and not measured.
_ROOM = 1 << 24  # entries of the rows that are gathered
_PASSES = 1000  # over them, between two scans


def awake_rows(pairs: Sequence[Pairs]) -> list[NDArray[np.int32]]:
    """The rows of the pairs that are awake, in order, for each block.

    pairs: those of each block.
    """
    return [np.unique(each.rows[each.awake]) for each in pairs]


def are_few(used: Sequence[NDArray[np.int32]], width: float) -> bool:
    """Whether rows may be gathered.

    used: those of each block.
    width: entries of a row, in the mean.
    """
    return width * sum(map(len, used)) <= _ROOM


def climbed_here(
    hands: Hands, recipe: Recipe, W: Vector, pairs: Sequence[Pairs], used: Sequence[NDArray[np.int32]],
    accuracy: float, *, scale: float, seed: int, is_over: Callable[[], bool],
) -> tuple[Vector, list[Pairs]] | None:  # fmt: skip
    """Passes over all pairs that are awake; None, and nothing has changed, where time is over before.

    hands: who reads the blocks.
    recipe: what is made of them.
    W (K, m+1): the faces.
    pairs: those of each block, with the numbers of all faces.
    used: the rows of those that are awake, as of :func:`awake_rows`.
    accuracy: largest slope that the last pass may meet.
    scale: what every entry of the samples counts times.
    seed: of the order of the steps.
    is_over: whether time is over.
    """
    found = each_block(hands, gathered, [(recipe, rows) if len(rows) else None for rows in used], is_over)
    if found is None:
        return None
    if not found:
        return W, list(pairs)
    X, outside, weights = joined(found)
    firsts = np.cumsum([0, *map(len, used)])
    rows = [
        first + np.searchsorted(own, each.rows[each.awake])
        for first, own, each in zip(firsts[:-1], used, pairs, strict=True)
    ]
    faces = np.concatenate([each.faces[each.awake] for each in pairs])
    alpha = np.concatenate([each.alpha[each.awake] for each in pairs])
    given = Pairs(np.concatenate(rows).astype(np.int32), faces, alpha, np.ones(len(alpha), bool))
    W, moved, _ = climb(
        X, outside, recipe.C * weights, W, given, np.full(len(W), np.inf), scale=scale, seed=seed,
        passes=_PASSES, accuracy=accuracy, is_over=is_over,
    )  # fmt: skip
    return W, _given_back(pairs, moved)


def gathered(_: None, samples: Samples, number: int, recipe: Recipe, used: NDArray[np.int32]) -> Sides:
    """On whoever has a block: some of its samples, as a step of a walk."""
    X, outside, weights = sides_of(samples, recipe)
    return Sides(X[used], outside[used], weights[used])


def _given_back(pairs: Sequence[Pairs], moved: Pairs) -> list[Pairs]:
    """The pairs of every block, with what has become of those that were awake."""
    ends = np.cumsum([int(each.awake.sum()) for each in pairs])[:-1]
    parts = zip(pairs, np.split(moved.alpha, ends), np.split(moved.awake, ends), strict=True)
    found = []
    for each, alpha, awake in parts:
        alphas, states = each.alpha.copy(), each.awake.copy()
        alphas[each.awake], states[each.awake] = alpha, awake
        found.append(each._replace(alpha=alphas, awake=states))
    return found
