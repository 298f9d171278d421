"""What is done with a block for the multipliers of a polytope's faces: steps of walks, which change nothing.

See :mod:`polyopt.large.face_ascent` for what is made of them. Each takes what is carried, the samples and
the number of a block, and then what its walk says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.matrices import is_sparse
from polyopt.certificates.cpm_blocks import Multipliers, Weighed, pull, weigh
from polyopt.large.parts import Recipe, sides_of
from polyopt.rows import as_rows
from polyopt.solvers.cpm.block_ascent import BlockAscent, Pairs, climb, release

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.certificates.tally import Tally
    from polyopt.large.parts import Sides
    from polyopt.large.sources import Samples
    from polyopt.rows import Rows

    Vector = NDArray[np.float64]
    Owners = NDArray[np.integer[Any]]  # the face of each sample outside, of a block; as `assigned` has it

__all__ = [
    "Carried", "How", "assigned", "climbed", "pulled", "released", "scanned", "swept", "weighed",
]  # fmt: skip

_ROWS = 1 << 14  # samples that are assigned at once


class How(NamedTuple):
    """What a step is told whatever the block."""

    recipe: Recipe
    scale: float
    single: bool


class Carried(NamedTuple):
    """What a group carries: its faces, and the largest slopes met. It leaves the pairs of each block."""

    W: Vector
    worst: Vector


def assigned(
    _: None, samples: Samples, number: int, recipe: Recipe, held: Vector, kind: np.dtype[Any]
) -> NDArray[np.integer]:
    """The face of each sample outside, -1 inside: that of `held`, scaled, with its highest score."""
    X, outside = sides_of(samples, recipe)[:2]
    found = np.full(len(outside), -1, kind)
    up = np.flatnonzero(outside)
    for first in range(0, len(up), _ROWS):
        rows = up[first : first + _ROWS]
        some = X[rows] if is_sparse(X) else np.asarray(X[rows], dtype=float)
        found[rows] = (np.asarray(some @ held[:, :-1].T) + held[:, -1]).argmax(axis=1)
    return found


def released(
    _: None, samples: Samples, number: int, how: How, owners: Owners, n_faces: int, pairs: Pairs
) -> tuple[Vector, Pairs]:
    """What goes from the faces with multipliers of samples that went elsewhere, and the pairs that stay."""
    X, outside = sides_of(samples, how.recipe)[:2]
    return release(X, outside, owners, n_faces, pairs, how.scale)


def _ascent(
    sides: Sides, rows: Rows, how: How, owners: Owners, first: int, W: Vector, pairs: Pairs, seed: int
) -> BlockAscent:
    own = np.asarray(owners, dtype=np.int64) - first
    costs = how.recipe.C * sides.weights
    return BlockAscent(
        rows, sides.outside, costs, own, W, pairs, scale=how.scale, single=how.single, seed=seed
    )


def swept(
    carried: Carried, samples: Samples, number: int, how: How, owners: Owners, first: int, pairs: Pairs,
    seed: tuple[int, int],
) -> tuple[Carried, Pairs]:  # fmt: skip
    """A step of a group on every pair of a block."""
    sides = sides_of(samples, how.recipe)
    rows, turn = as_rows(sides.X), _turn(seed, number, first)
    W, found = _ascent(sides, rows, how, owners, first, carried.W, pairs, turn).swept()
    return Carried(W, carried.worst), found


def scanned(
    _: None, samples: Samples, number: int, how: How, owners: Owners, firsts: list[int], parts: list[Vector],
    held: list[Pairs],
) -> tuple[Vector, list[Pairs], int]:  # fmt: skip
    """What a block pays on every face (K,), the pairs that may move, by groups, and its entries."""
    if not len(owners):
        return np.zeros(sum(map(len, parts))), held, 0
    sides = sides_of(samples, how.recipe)
    rows = as_rows(sides.X)
    found = [
        _ascent(sides, rows, how, owners, first, W, pairs, 0).found()
        for first, W, pairs in zip(firsts, parts, held, strict=True)
    ]
    paid, pairs = zip(*found, strict=True)
    return np.concatenate(paid), list(pairs), len(rows.values)


def climbed(
    carried: Carried, samples: Samples, number: int, how: How, owners: Owners, first: int, pairs: Pairs,
    seed: tuple[int, int], rests: Vector,
) -> tuple[Carried, Pairs]:  # fmt: skip
    """A pass of a group over the pairs of a block that are awake."""
    X, outside, weights = sides_of(samples, how.recipe)
    W, pairs, worst = climb(
        X, outside, how.recipe.C * weights, carried.W, pairs, rests, scale=how.scale,
        seed=_turn(seed, number, first),
    )  # fmt: skip
    return Carried(W, np.maximum(carried.worst, worst)), pairs


def _turn(seed: tuple[int, int], number: int, first: int) -> int:
    return int(np.random.default_rng([*seed, number, first]).integers(1 << 31))


def _block(samples: Samples, recipe: Recipe, owners: Owners) -> Weighed:
    X, outside, weights = sides_of(samples, recipe)
    return Weighed(X, outside, recipe.C * weights, owners)


def pulled(
    _: None, samples: Samples, number: int, recipe: Recipe, owners: Owners, given: Multipliers, n_faces: int
) -> Tally:
    """What a block's multipliers gain and pull."""
    return pull(_block(samples, recipe, owners), given, n_faces)


def weighed(
    _: None, samples: Samples, number: int, recipe: Recipe, owners: Owners, given: Multipliers, W: Vector,
    scale: float, least: float,
) -> Tally:  # fmt: skip
    """What a block pays, with every condition."""
    return weigh(_block(samples, recipe, owners), given, W, scale, least)
