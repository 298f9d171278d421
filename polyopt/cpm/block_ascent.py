"""Dual coordinate ascent on the samples of one block.

With a fixed assignment and loss="sum" the dual of every face is

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ C_ik.

A coordinate step needs one sample, its multiplier, and W. So a block with W can increase the dual by steps
on its own samples, and passes W on with its changes. Visiting the blocks in turn is equivalent to passes over
all samples in memory (:mod:`polyopt.cpm.dual`):

1. :meth:`BlockAscent.sweep_all` steps on every pair of a sample and a face.
2. :meth:`BlockAscent.find_active` scores all samples at the present W, and finds the active pairs, those that
   may move: with a multiplier, or near or inside the margin.
3. :func:`climb_pairs` steps on these pairs alone. A pair at its bound whose gradient points outwards by more
   than the largest projected gradient of the previous pass is dropped until the next scan (shrinking); in the
   end some hundred pairs per face move, whatever the number of samples.

The projected gradient of a pair is the derivative of the dual by its multiplier, 1 − y_i W_k·x̃_i, or 0 if the
multiplier is at the bound to which the derivative points.

Only the multipliers of active pairs are stored.
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
#   W (K, m+1): the faces; alpha, active: multipliers and mask of all pairs. Updated.
#   shrink_thresholds (K,): outward gradients above which a pair at its bound becomes inactive.
#   worst (K,): raised to the largest projected gradient of a pair.
_climb_pairs = kernel(
    "climb_pairs",
    ROWS + "scale: f8; y: f8 (n); caps: f8 (n); squares: f8 (n); "
    "chosen: i8 (r); faces: i8 (r); at: i8 (r); alpha!: f8 (a); active!: b1 (a); W!: f8 (K, m); "
    "shrink_thresholds: f8 (K); worst!: f8 (K)",
    **ROW_TYPES,
)


class Pairs(NamedTuple):
    """Pairs of a block's sample and a face.

    rows, faces: sample and face of each pair.
    alpha: their multipliers.
    active: mask of the pairs that may move.
    """

    rows: NDArray[np.int32]
    faces: NDArray[np.int32]
    alpha: Vector
    active: NDArray[np.bool_]


def no_pairs() -> Pairs:
    """Return the pairs of a block before its first visit."""
    return Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, bool))


class BlockAscent(FaceAscent):
    """The dual ascent of a block.

    outside, costs (n,): mask of the positives, and costs of slack.
    assigned (n,): the face of each positive; a number outside 0 to K - 1 means that the sample's face is not
        among these K.
    W (K, m+1): the faces; the contribution of this block's multipliers is included.
    pairs: the block's multipliers, within their caps.
    scale: factor of every entry of the samples.
    single: True for scans and sweeps in single precision.
    seed: seed of the order of the steps.
    """

    def __init__(
        self, rows: Rows, outside: NDArray[np.bool_], costs: Vector, assigned: Integers, W: Vector,
        pairs: Pairs, *, scale: float = 1.0, single: bool = False, seed: int = 0,
    ):  # fmt: skip
        K = len(W)
        elsewhere = outside & ((assigned < 0) | (assigned >= K))
        caps = np.repeat(np.where(elsewhere, 0.0, costs)[:, None], K, axis=1)
        face_of_positive = np.where(outside & ~elsewhere, assigned, 0).astype(np.int64)
        y = np.where(outside, 1.0, -1.0)
        super().__init__(rows, y, caps, face_of_positive, scale=scale, single=single, seed=seed)
        at, faces = pairs.rows.astype(np.int64), pairs.faces.astype(np.int64)
        self.alpha[at, faces] = pairs.alpha
        self._initial_pairs, self._initial_W = (at, faces, pairs.alpha), np.array(W)
        self.W[:] = W
        self._reset_active()

    def sweep_all(self) -> tuple[Vector, Pairs]:
        """Step on every pair; return W (K, m+1), in double precision, and the pairs with a multiplier."""
        self.sweep()
        W, changes = self._initial_W, self.alpha.copy()
        rows, faces, before = self._initial_pairs
        changes[rows, faces] -= before
        at, owners = np.nonzero(changes)
        _add(self._rows, self._scale, self._y[at], at, owners, changes[at, owners], W)
        return W, self._pairs(*np.nonzero(self.alpha))

    def find_active(self) -> tuple[Vector, Pairs]:
        """Scan; return the loss of the samples on every face (K,), and the active pairs."""
        self.scan()
        active_rows = [self._active_with_positives(k) for k in range(len(self.W))]
        rows = np.concatenate(active_rows)
        faces = np.repeat(np.arange(len(active_rows)), [len(each) for each in active_rows])
        has_cost = self._caps[rows, faces] > 0.0
        return self.values_at(self.loss_on_negatives, self.scores), self._pairs(
            rows[has_cost], faces[has_cost]
        )

    def _pairs(self, rows: Integers, faces: Integers) -> Pairs:
        narrow = rows.astype(np.int32), faces.astype(np.int32)
        return Pairs(*narrow, self.alpha[rows, faces], np.ones(len(rows), bool))


def _add(
    samples: Rows, scale: float, y: Vector, rows: Integers, faces: Integers, changes: Vector,
    W: Vector,
) -> None:  # fmt: skip
    """Add changes of multipliers to W, in double precision."""
    for k in range(len(W)):
        at = np.flatnonzero((faces == k) & (changes != 0.0))
        loops.add_rows(samples, scale, rows[at], 0.5 * y[at] * changes[at], W[k])


def release(
    X: Matrix, outside: NDArray[np.bool_], assigned: NDArray[np.integer[Any]], n_faces: int, pairs: Pairs,
    scale: float = 1.0,
) -> tuple[Vector, Pairs]:  # fmt: skip
    """Drop the multipliers of positives that have moved to another face.

    Returns: the contribution of the dropped multipliers to W (K, m+1), which the caller must subtract, and
        the pairs that stay.
    """
    W = np.zeros((n_faces, X.shape[1] + 1))
    is_dropped = outside[pairs.rows] & (assigned[pairs.rows] != pairs.faces)
    used, place = np.unique(pairs.rows[is_dropped], return_inverse=True)
    if len(used):
        rows, faces = as_rows(X[used]), pairs.faces[is_dropped].astype(np.int64)
        _add(rows, scale, np.ones(len(place)), place, faces, pairs.alpha[is_dropped], W)
    return W, Pairs(*(each[~is_dropped] for each in pairs))


def climb_pairs(
    X: Matrix, outside: NDArray[np.bool_], costs: Vector, W: Vector, pairs: Pairs,
    shrink_thresholds: Vector, *, scale: float = 1.0, seed: int = 0, passes: int = 1, accuracy: float = 0.0,
    is_over: Callable[[], bool] | None = None,
) -> tuple[Vector, Pairs, Vector]:  # fmt: skip
    """Make passes over the active pairs of a block.

    X (n, m): the block's samples.
    shrink_thresholds (K,): for each face the outward gradient above which a pair at its bound is dropped from
        the first pass.
    passes: passes at most.
    accuracy: largest projected gradient after which no further pass is made.
    is_over: True if the time limit is reached, which ends the passes after the first.
    Returns: W (K, m+1), the pairs, and for each face the largest projected gradient (K,) in the last pass.
    """
    W, alpha, active = W.copy(), pairs.alpha.copy(), pairs.active.copy()
    at = np.flatnonzero(active)
    used, place = np.unique(pairs.rows[at], return_inverse=True)
    worst = np.zeros(len(W))
    if not len(used):
        return W, pairs, worst
    rows = as_rows(X[used])
    squares = loops.square_lengths(rows, scale)
    signs, caps = np.where(outside[used], 1.0, -1.0), np.asarray(costs[used], dtype=float)
    faces, shrink_thresholds = pairs.faces[at].astype(np.int64), np.asarray(shrink_thresholds, dtype=float)
    rng = np.random.default_rng(seed)
    for number in range(passes):
        order = rng.permutation(len(at))
        if number:
            order = order[active[at[order]]]
            shrink_thresholds, worst = worst, np.zeros(len(W))
        _climb_pairs(
            rows.values, rows.columns, rows.starts, rows.shared, scale, signs, caps, squares, place[order],
            faces[order], at[order], alpha, active, W, shrink_thresholds, worst,
        )  # fmt: skip
        if worst.max() <= accuracy or (is_over is not None and is_over()):
            break
    return W, Pairs(pairs.rows, pairs.faces, alpha, active), worst
