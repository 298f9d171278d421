"""Dual coordinate ascent on the samples of one block.

With a fixed assignment and loss="sum" the dual of every face is

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ C_ik.

A coordinate step needs one sample, its multiplier, and W. So a block with W can increase the dual by its own
samples, and passes W on with its changes. Visits of the blocks one after another do what passes over all
samples in memory do (:mod:`polyopt.cpm.dual`):

1. :meth:`BlockAscent.swept` steps on every pair of a sample and a face.
2. :meth:`BlockAscent.found` scores all samples at the present W, and finds the pairs that may move: those
   with a multiplier, and those near or inside the margin.
3. :func:`climb` steps on these pairs alone. A pair that rests at its bound, farther from it than the largest
   slope of the pass before, is left out until the next scan; in the end some hundred pairs per face move,
   whatever the number of samples.

Only the multipliers of pairs that may move are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Matrix, Vector
from polyopt.linalg.rows import ROW_TYPES, ROWS, Rows, as_rows
from polyopt.native.library import kernel
from polyopt.optim import coordinate_ascent as loops
from polyopt.optim.coordinate_ascent import FaceAscent

Integers = NDArray[np.int64]

# A pass over pairs of a sample and a face in their order: pair j has the sample chosen[j], the face faces[j],
# and the multiplier alpha[at[j]].
#   y, caps, squares (n,): labels, largest multipliers and squared lengths of the samples.
#   W (K, m+1): the faces; alpha, awake: of all pairs. Updated.
#   rests (K,): slopes beyond which a pair at its bound is put to rest.
#   worst (K,): rises to the largest slope of a pair that can follow it.
_climb_pairs = kernel(
    "climb_pairs",
    ROWS + "scale: f8; y: f8 (n); caps: f8 (n); squares: f8 (n); "
    "chosen: i8 (r); faces: i8 (r); at: i8 (r); alpha!: f8 (a); awake!: b1 (a); W!: f8 (K, m); "
    "rests: f8 (K); worst!: f8 (K)",
    **ROW_TYPES,
)


class Pairs(NamedTuple):
    """Pairs of a block's sample and a face, their multipliers, and a mask of those that may move."""

    rows: NDArray[np.int32]
    faces: NDArray[np.int32]
    alpha: Vector
    awake: NDArray[np.bool_]


def no_pairs() -> Pairs:
    """Return the pairs of a block before its first visit."""
    return Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, bool))


class BlockAscent(FaceAscent):
    """The dual ascent of a block.

    outside, costs (n,): mask of the positives, and costs of slack.
    assigned (n,): the face of each positive; a number outside 0 to K - 1 is a face of another group.
    W (K, m+1): the faces, including the block's multipliers.
    pairs: the block's multipliers, within their caps.
    scale: factor of every entry of the samples.
    single: True for scans and sweeps in single precision.
    seed: of the order of the steps.
    """

    def __init__(
        self, rows: Rows, outside: NDArray[np.bool_], costs: Vector, assigned: Integers, W: Vector,
        pairs: Pairs, *, scale: float = 1.0, single: bool = False, seed: int = 0,
    ):  # fmt: skip
        K = len(W)
        others = outside & ((assigned < 0) | (assigned >= K))
        caps = np.repeat(np.where(others, 0.0, costs)[:, None], K, axis=1)
        mine = np.where(outside & ~others, assigned, 0).astype(np.int64)
        y = np.where(outside, 1.0, -1.0)
        super().__init__(rows, y, caps, mine, scale=scale, single=single, seed=seed)
        at, faces = pairs.rows.astype(np.int64), pairs.faces.astype(np.int64)
        self.alpha[at, faces] = pairs.alpha
        self._given, self._first = (at, faces, pairs.alpha), np.array(W)
        self.W[:] = W
        self._refill()

    def swept(self) -> tuple[Vector, Pairs]:
        """Step on every pair; return W (K, m+1), in double precision, and the pairs with a multiplier."""
        self.sweep()
        W, changes = self._first, self.alpha.copy()
        rows, faces, before = self._given
        changes[rows, faces] -= before
        at, owners = np.nonzero(changes)
        _add(self._rows, self._scale, self._y[at], at, owners, changes[at, owners], W)
        return W, self._pairs(*np.nonzero(self.alpha))

    def found(self) -> tuple[Vector, Pairs]:
        """Scan; return the loss of the samples on every face (K,), and the pairs that may move."""
        self.scan()
        pools = [self._with_own(k) for k in range(len(self.W))]
        rows = np.concatenate(pools)
        faces = np.repeat(np.arange(len(pools)), [len(pool) for pool in pools])
        may = self._caps[rows, faces] > 0.0
        return self.values_at(self.inside, self.scores), self._pairs(rows[may], faces[may])

    def _pairs(self, rows: Integers, faces: Integers) -> Pairs:
        narrow = rows.astype(np.int32), faces.astype(np.int32)
        return Pairs(*narrow, self.alpha[rows, faces], np.ones(len(rows), bool))


def _add(
    samples: Rows, scale: float, y: Vector, rows: Integers, faces: Integers, changes: Vector,
    W: Vector,
) -> None:  # fmt: skip
    """Add changes of multipliers to W, in double precision."""
    for k in range(len(W)):
        mine = np.flatnonzero((faces == k) & (changes != 0.0))
        loops.add_rows(samples, scale, rows[mine], 0.5 * y[mine] * changes[mine], W[k])


def release(
    X: Matrix, outside: NDArray[np.bool_], assigned: NDArray[np.integer[Any]], n_faces: int, pairs: Pairs,
    scale: float = 1.0,
) -> tuple[Vector, Pairs]:  # fmt: skip
    """Drop the multipliers of positives that have moved to another face.

    Returns: their part of W (K, m+1), to be subtracted, and the pairs that stay.
    """
    W = np.zeros((n_faces, X.shape[1] + 1))
    gone = outside[pairs.rows] & (assigned[pairs.rows] != pairs.faces)
    used, place = np.unique(pairs.rows[gone], return_inverse=True)
    if len(used):
        rows, faces = as_rows(X[used]), pairs.faces[gone].astype(np.int64)
        _add(rows, scale, np.ones(len(place)), place, faces, pairs.alpha[gone], W)
    return W, Pairs(*(each[~gone] for each in pairs))


def climb(
    X: Matrix, outside: NDArray[np.bool_], costs: Vector, W: Vector, pairs: Pairs, rests: Vector, *,
    scale: float = 1.0, seed: int = 0, passes: int = 1, accuracy: float = 0.0,
    is_over: Callable[[], bool] | None = None,
) -> tuple[Vector, Pairs, Vector]:  # fmt: skip
    """Make passes over the pairs of a block that may move.

    X (n, m): the block's samples.
    rests (K,): for each face the slope beyond which a pair at its bound is left out of the first pass.
    passes: passes at most.
    accuracy: largest slope after which no further pass is made.
    is_over: True if the time is over, which ends the passes after the first.
    Returns: W (K, m+1), the pairs, and the largest slope (K,) in the last pass of a pair that can follow it.
    """
    W, alpha, awake = W.copy(), pairs.alpha.copy(), pairs.awake.copy()
    at = np.flatnonzero(awake)
    used, place = np.unique(pairs.rows[at], return_inverse=True)
    worst = np.zeros(len(W))
    if not len(used):
        return W, pairs, worst
    rows = as_rows(X[used])
    squares = loops.square_lengths(rows, scale)
    signs, caps = np.where(outside[used], 1.0, -1.0), np.asarray(costs[used], dtype=float)
    faces, rests = pairs.faces[at].astype(np.int64), np.asarray(rests, dtype=float)
    rng = np.random.default_rng(seed)
    for number in range(passes):
        order = rng.permutation(len(at))
        if number:
            order = order[awake[at[order]]]
            rests, worst = worst, np.zeros(len(W))
        _climb_pairs(
            rows.values, rows.columns, rows.starts, rows.shared, scale, signs, caps, squares, place[order],
            faces[order], at[order], alpha, awake, W, rests, worst,
        )  # fmt: skip
        if worst.max() <= accuracy or (is_over is not None and is_over()):
            break
    return W, Pairs(pairs.rows, pairs.faces, alpha, awake), worst
