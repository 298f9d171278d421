"""Shards: a fixed number of lists of blocks, what is in them, and the order in which their rows are visited.

Nothing here depends on who reads the blocks. An order follows from the seed, the pass, and the number of the
block or shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyopt.large.held import Walk
from polyopt.large.parts import Recipe, Sides, sides_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from polyopt.large.held import Hands
    from polyopt.large.sources import Samples

__all__ = ["Facts", "Part", "Shards", "draw", "each_block", "joined", "row_order", "survey"]

# What a random order is for.
_BLOCKS, _ROWS, _SHARES, _DRAWN = range(4)


class Part(NamedTuple):
    """What is known of a block: features, samples inside and outside, their costs, its largest entry."""

    m: int
    inside: int
    outside: int
    costs: float
    least: float
    most: float
    size: float

    @property
    def n(self) -> int:
        """Its samples."""
        return self.inside + self.outside


class Facts(NamedTuple):
    """What is known of every block, and of all: samples, features, extremes of costs, the largest entry."""

    parts: list[Part]
    n: int
    m: int
    least: float
    most: float
    size: float


def each_block(
    hands: Hands,
    step: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...] | None],
    is_over: Callable[[], bool] | None = None,
) -> list[Any] | None:
    """What a step gives for each block that has arguments; None where time was over before.

    arguments: for each block what else it takes; None leaves the block out.
    """
    walks = [Walk(None, [(number, given)]) for number, given in enumerate(arguments) if given is not None]
    return hands.walk(step, walks, is_over)


def survey(hands: Hands, recipe: Recipe, count: int) -> Facts:
    """What is in the blocks.

    ValueError: no sample of one of the classes, different numbers of features, or entries that are not
        finite.
    """
    parts: list[Part] = each_block(hands, _survey, [(recipe,)] * count) or []
    full = [part for part in parts if part.n]
    for number, part in enumerate(parts):
        if not np.isfinite(part.size):
            raise ValueError(f"X has NaN or an infinite value in partition {number}")
    for name, label in (("inside", recipe.classes[0]), ("outside", recipe.classes[1])):
        if not any(getattr(part, name) for part in full):
            raise ValueError(f"there is no sample of class {label!r} with positive weight")
    if len({part.m for part in full}) > 1:
        raise ValueError(f"all blocks need as many features; {sorted({part.m for part in full})} were found")
    return Facts(
        parts,
        sum(part.n for part in full),
        full[0].m,
        min(part.least for part in full),
        max(part.most for part in full),
        max(part.size for part in full),
    )


def _survey(_: None, samples: Samples, number: int, recipe: Recipe) -> Part:
    X, outside, weights = sides_of(samples, recipe)
    n, m = X.shape
    if not n:
        return Part(m, 0, 0, 0.0, np.inf, 0.0, 0.0)
    costs, values = recipe.C * weights, X.data if sp.issparse(X) else X
    size = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    up = int(outside.sum())
    return Part(m, n - up, up, float(costs.sum()), float(costs.min()), float(costs.max()), size)


def draw(
    hands: Hands, recipe: Recipe, facts: Facts, size: int, seed: int,
    is_over: Callable[[], bool] | None = None,
) -> Sides | None:  # fmt: skip
    """Some samples, drawn without replacement from each class; weights say how many of all each stands for.

    size: how many samples, roughly; of a class at least a tenth of it, or all that there are.
    is_over: whether time is over; None is the answer then.
    """
    rng, shares, factors = np.random.default_rng([seed, _SHARES]), [], []
    for name in ("inside", "outside"):
        counts = np.array([getattr(part, name) for part in facts.parts])
        all_ = int(counts.sum())
        some = min(all_, max(round(size * all_ / facts.n), size // 10, 1))
        shares.append(_share(rng, counts, some))
        factors.append(all_ / int(shares[-1].sum()))
    takes = list(zip(*(share.tolist() for share in shares), strict=True))
    found = each_block(hands, _draw, [(recipe, seed, take) if sum(take) else None for take in takes], is_over)
    if found is None:
        return None
    X, outside, weights = joined(found)
    return Sides(X, outside, weights * np.where(outside, factors[1], factors[0]))


def joined(parts: Sequence[Sides]) -> Sides:
    """Samples of at least one block, in their order."""
    rows, outside, weights = zip(*parts, strict=True)
    X = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.concatenate(rows)
    return Sides(X, np.concatenate(outside), np.concatenate(weights))


def _share(rng: np.random.Generator, counts: NDArray[np.int64], some: int) -> NDArray[np.int64]:
    """How many of `some` samples, drawn without replacement, are of each block."""
    if counts.sum() < 10**9:  # numpy draws from no more
        return rng.multivariate_hypergeometric(counts, some, method="marginals")
    # Of so many, drawing with replacement differs by next to nothing; it may be a few less in small blocks.
    return np.minimum(rng.multinomial(some, counts / counts.sum()), counts)


def _draw(_: None, samples: Samples, number: int, recipe: Recipe, seed: int, take: tuple[int, int]) -> Sides:
    X, outside, weights = sides_of(samples, recipe)
    rng = np.random.default_rng([seed, _DRAWN, number])
    chosen = [
        rng.choice(np.flatnonzero(outside == side), some, replace=False, shuffle=False)
        for side, some in zip((False, True), take, strict=True)
    ]
    rows = np.sort(np.concatenate(chosen))
    return Sides(X[rows], outside[rows], weights[rows])


def row_order(seed: int, passes: int, number: int, n: int) -> NDArray[np.int64]:
    """The order of the n rows of block `number` after so many passes."""
    return np.random.default_rng([seed, _ROWS, passes, number]).permutation(n)


class Shards:
    """Blocks dealt out to shards in turn.

    counts: the samples of each block; blocks without are left out.
    n_shards: how many shards, at most one for each block.
    seed: of the orders.
    """

    def __init__(self, counts: Sequence[int], n_shards: int, seed: int):
        full = [number for number, count in enumerate(counts) if count]
        self._counts, self._seed = counts, seed
        self.blocks = [full[first::n_shards] for first in range(min(n_shards, len(full)))]
        self.sizes = [sum(counts[number] for number in some) for some in self.blocks]
        self.longest = max(self.sizes)

    def stops(self, shard: int, passes: int, first: int, last: int) -> list[tuple[int, tuple[int, int]]]:
        """The blocks on the way through a part of a pass, with the first and the last place of each.

        passes: the passes before.
        first, last: the part, in rows of the longest shard; of others as large a share.
        """
        size = self.sizes[shard]
        begin, end = first * size // self.longest, last * size // self.longest
        order = np.random.default_rng([self._seed, _BLOCKS, passes, shard]).permutation(self.blocks[shard])
        found, place = [], 0
        for number in order.tolist():
            count = self._counts[number]
            low, high = max(begin - place, 0), min(end - place, count)
            if low < high:
                found.append((number, (low, high)))
            place += count
        return found
