"""Dual coordinate ascent on the samples of one block, for data that do not fit into memory.

With a fixed assignment of the positives (outside) to the faces W (K, m+1), and loss="sum", the dual of face k
is, with x̃_i = (x_i, 1) and the cost of slack C_ik = C_i, or 0 if positive i is assigned to another face,

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ C_ik.

A coordinate step needs one sample, its multiplier, and W. So a block can increase the dual by steps on its
own samples, given W, and return the changed W for the next block. Visiting the blocks in turn is equivalent
to passes over all samples in memory (:mod:`polyopt.cpm.dual`):

1. :meth:`BlockAscent.sweep_all` makes a step for every pair of a sample and a face.
2. :meth:`BlockAscent.find_active` computes all scores at W, and finds the active pairs: those with a
   positive multiplier, or near or inside the margin.
3. :func:`climb_pairs` makes passes of steps for the active pairs alone. A pair at its bound is dropped if its
   gradient points outwards by more than the largest projected gradient of the previous pass (shrinking). In
   the end some hundred pairs per face are active, whatever the number of samples.
4. :func:`release` drops the multipliers of positives that have been assigned to another face.

The gradient of a pair is the derivative of the dual by its multiplier, 1 − y_i W_k·x̃_i; the projected
gradient is 0 if the multiplier is at the bound to which the gradient points. Only the multipliers of active
pairs are stored.
"""

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
Seed = int | tuple[int, ...]

# Make a pass of steps for some pairs, in their order: pair j has the sample chosen[j], the face faces[j] and
# the multiplier alpha[at[j]].
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
    """Pairs of a block's sample and a face, with their multipliers; arrays of equal length."""

    rows: NDArray[np.int32]  # numbers of the samples in the block
    faces: NDArray[np.int32]
    alpha: Vector
    active: NDArray[np.bool_]  # False for the pairs dropped by shrinking


def no_pairs() -> Pairs:
    """Return the pairs of a block before its first visit."""
    return Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, bool))


class BlockAscent(FaceAscent):
    """The dual ascent of a block; FaceAscent has `alpha`, `W`, `scores`, and the active samples of each face.

    outside, costs (n,): mask of the positives, and costs of slack.
    assigned (n,): the face of each positive.
    W (K, m+1): the faces for the multipliers of all blocks, including this one.
    pairs: the block's multipliers, within their caps; all others are 0.
    scale: factor of every entry of the samples.
    single: True for scans and sweeps in single precision.
    seed: seed of the order of the steps.
    """

    def __init__(
        self, rows: Rows, outside: NDArray[np.bool_], costs: Vector, assigned: NDArray[Any], W: Vector,
        pairs: Pairs, *, scale: float = 1.0, single: bool = False, seed: Seed = 0,
    ):  # fmt: skip
        K = len(W)
        y, caps = np.where(outside, 1.0, -1.0), np.repeat(costs[:, None], K, axis=1)
        super().__init__(rows, y, caps, assigned.astype(np.int64), scale=scale, single=single, seed=seed)
        samples, faces = pairs.rows.astype(np.int64), pairs.faces.astype(np.int64)
        self.alpha[samples, faces] = pairs.alpha
        self._initial_pairs, self._initial_W = (samples, faces, pairs.alpha), np.array(W)
        self.W[:] = W
        self._reset_active()

    def sweep_all(self) -> tuple[Vector, Pairs]:
        """Make a step for every pair.

        Returns: W (K, m+1), and the pairs with a positive multiplier.
        """
        self.sweep()
        # A sweep may be in single precision: W follows in double precision from the changes of multipliers.
        W, changes = self._initial_W, self.alpha.copy()
        initial_rows, initial_faces, initial_alpha = self._initial_pairs
        changes[initial_rows, initial_faces] -= initial_alpha
        rows, faces = np.nonzero(changes)
        _add(self._rows, self._scale, self._y[rows], rows, faces, changes[rows, faces], W)
        return W, self._pairs(*np.nonzero(self.alpha))

    def find_active(self) -> tuple[Vector, Pairs]:
        """Scan the samples; return their loss on each face (K,), and the active pairs."""
        self.scan()
        active_rows = [self._active_with_positives(k) for k in range(len(self.W))]
        rows = np.concatenate(active_rows)
        faces = np.repeat(np.arange(len(active_rows)), [len(samples) for samples in active_rows])
        losses = self.values_at(self.loss_on_negatives, self.scores)  # on negatives plus on positives
        return losses, self._pairs(rows, faces)

    def _pairs(self, rows: Integers, faces: Integers) -> Pairs:
        """Return the multipliers of some samples and faces, all active."""
        narrow = rows.astype(np.int32), faces.astype(np.int32)
        return Pairs(*narrow, self.alpha[rows, faces], np.ones(len(rows), bool))


def _add(
    samples: Rows, scale: float, y: Vector, rows: Integers, faces: Integers, changes: Vector,
    W: Vector,
) -> None:  # fmt: skip
    """Add to W the contributions of changes of multipliers of pairs (rows, faces) with labels y."""
    for k in range(len(W)):
        of_face = np.flatnonzero((faces == k) & (changes != 0.0))
        loops.add_rows(samples, scale, rows[of_face], 0.5 * y[of_face] * changes[of_face], W[k])


def release(
    X: Matrix, outside: NDArray[np.bool_], assigned: NDArray[np.integer[Any]], n_faces: int, pairs: Pairs,
    scale: float = 1.0,
) -> tuple[Vector, Pairs]:  # fmt: skip
    """Drop the multipliers of positives that have moved to another face.

    assigned (n,): the present face of each positive.
    Returns: the contribution of the dropped multipliers to W (K, m+1), which the caller must subtract, and
        the remaining pairs.
    """
    W = np.zeros((n_faces, X.shape[1] + 1))
    is_dropped = outside[pairs.rows] & (assigned[pairs.rows] != pairs.faces)
    samples, sample_index = np.unique(pairs.rows[is_dropped], return_inverse=True)
    if len(samples):
        rows, faces = as_rows(X[samples]), pairs.faces[is_dropped].astype(np.int64)
        labels = np.ones(len(sample_index))  # only positives are dropped
        _add(rows, scale, labels, sample_index, faces, pairs.alpha[is_dropped], W)
    return W, Pairs(*(values[~is_dropped] for values in pairs))


def climb_pairs(
    X: Matrix, outside: NDArray[np.bool_], costs: Vector, W: Vector, pairs: Pairs,
    shrink_thresholds: Vector, *, scale: float = 1.0, seed: Seed = 0, passes: int = 1, accuracy: float = 0.0,
    is_over: Callable[[], bool] | None = None,
) -> tuple[Vector, Pairs, Vector]:  # fmt: skip
    """Make passes of steps for the active pairs of a block.

    X (n, m): the block's samples.
    outside, costs (n,): mask of the positives, and costs of slack.
    shrink_thresholds (K,): for each face the outward gradient above which the first pass drops a pair at its
        bound.
    passes: largest number of passes.
    accuracy: largest projected gradient after which no further pass is made.
    is_over: returns True if the time limit is reached; then no further pass is made.
    Returns: W (K, m+1), the pairs, and for each face the largest projected gradient (K,) in the last pass.
    """
    W, alpha, active = W.copy(), pairs.alpha.copy(), pairs.active.copy()
    pair_index = np.flatnonzero(active)
    # The samples of active pairs, and each pair's index among them.
    samples, sample_index = np.unique(pairs.rows[pair_index], return_inverse=True)
    worst = np.zeros(len(W))
    if not len(samples):
        return W, pairs, worst
    rows = as_rows(X[samples])
    squares = loops.square_lengths(rows, scale)
    signs, caps = np.where(outside[samples], 1.0, -1.0), np.asarray(costs[samples], dtype=float)
    faces = pairs.faces[pair_index].astype(np.int64)
    shrink_thresholds = np.asarray(shrink_thresholds, dtype=float)
    rng = np.random.default_rng(seed)
    for number in range(passes):
        order = rng.permutation(len(pair_index))
        if number:  # the active pairs, with the largest gradients of the last pass as thresholds
            order = order[active[pair_index[order]]]
            shrink_thresholds, worst = worst, np.zeros(len(W))
        _climb_pairs(
            rows.values, rows.columns, rows.starts, rows.shared, scale, signs, caps, squares,
            sample_index[order], faces[order], pair_index[order], alpha, active, W, shrink_thresholds, worst,
        )  # fmt: skip
        if worst.max() <= accuracy or (is_over is not None and is_over()):
            break
    return W, Pairs(pairs.rows, pairs.faces, alpha, active), worst
