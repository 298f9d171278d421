"""Coordinate ascent on the duals of all faces of a polytope at once, for large data.

A face is an affine score W_k·x̃, x̃ = (x, 1). Each positive should have a score of at least 1 on the face to
which it is assigned, each negative at most −1 on all faces. With a fixed assignment and the sum of the hinge
losses with costs c_ik, the faces are independent programs min ‖W_k‖² + Σ_i c_ik [1 − y_i W_k·x̃_i]_+, with the
duals

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ c_ik     for every face k

and α_ik = 0 for positives assigned to another face. The bounds c_ik are the *caps* of the multipliers. If
products with all the data are expensive, changing one multiplier at a time converges much faster than
gradient steps (Hsieh et al., 2008). The ascent has three operations:

- A *sweep* maximises the dual in each multiplier of each sample, in turn. One pass over a sample gives its
  scores on all faces; the faces do not depend on each other, so the steps on all of them at once are exact.
- A *scan* of all samples computes the primal values, and finds the *active* pairs of a sample and a face.
  Most pairs are inactive: far beyond the margin, with the multiplier 0.
- Between two scans each face *climbs*: it makes coordinate steps over copies of its own active samples, which
  fit the cache. A face whose duality gap is closed does not climb.

The kernels are in ``native/coordinate_scans.c`` and ``coordinate_climbs.c``. Samples are
:class:`polyopt.linalg.rows.Rows`, whose entries are multiplied by `scale`. Kernels for many faces have these
as columns of U (m+1, L), with L = K padded to a multiple of the SIMD width (:mod:`polyopt.linalg.rows`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.types import Vector
from polyopt.certificates.certificate import relative_gap
from polyopt.linalg.rows import ROW_TYPES, ROWS, WEIGHT_TYPES, Rows, in_lanes, stretches
from polyopt.native.library import kernel

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Parameters of the ascent."""

    scan_rows: int = 1 << 12  # samples of one call of the scan; bounds the memory for its pairs
    scan_faces: int = 64  # faces of one call of the scan; bounds that memory as well
    margin_band: float = 0.1  # distance beyond the margin, in margins, up to which samples are active
    first_accuracy: float = 1e-2  # largest projected gradient at the end of a face's first climb
    accuracy_factor: float = 0.3  # factor of that largest gradient from one climb of the face to the next
    min_accuracy: float = 1e-14  # least value of that largest gradient
    faces_to_sweep: int = 8  # active pairs per active sample above which sweeps are cheaper than climbs
    climb_sweeps: int = 5  # number of sweeps over the active samples that then replace the climbs
    entries_per_call: int = 1 << 26  # matrix entries per call of the climb: 0.1 s until the clock is checked
    min_bound_rise_rel: float = 1e-13  # relative rise of the bound that counts as progress
    max_gap_ratio: float = 0.99  # ratio to the smallest gap before, below which a gap counts as progress
    max_idle_scans: int = 30  # scans without progress after which a run has stalled


OPTIONS = Options()

# Compute the scores of samples `first` to `last` - 1 on faces[k], which is column k of U; return the number
# of active pairs.
#   scores (positives, K): the score of positive i on face k is written to scores[score_rows[i], faces[k]].
#   inside (K,): the loss of the negatives, Σ_i c_ik [1 + score]_+, is added to inside[faces[k]].
#   pairs (2, r): the active pairs are written here: negatives (pairs[0]), and faces on which their scores are
#       above `threshold` (pairs[1]).
#   out (L,): work space.
scan = kernel(
    "ascent_scan",
    ROWS + "scale: f8; U: W (w, L); faces: i8 (F); first: i8; last: i8; y: f8 (n); caps: f8 (n, K); "
    "score_rows: i8 (n); threshold: f8; scores!: f8 (positives, K); inside!: f8 (K); pairs!: i4 (two, r); "
    "out!: W (L)",
    returns="i8",
    **ROW_TYPES,
    **WEIGHT_TYPES,
)

# Maximise the dual in each multiplier of the samples in `order`, one sample after another. A positive has one
# multiplier, on the face to which it is assigned. U and alpha are updated. work (2, L): zeros at first.
sweep = kernel(
    "ascent_sweep",
    ROWS + "scale: f8; y: f8 (n); caps: f8 (n, K); squares: f8 (n); order: i8 (o); assignment: i8 (n); "
    "U!: W (w, L); alpha!: f8 (n, K); work!: W (two, L)",
    **ROW_TYPES,
    **WEIGHT_TYPES,
)

_square_lengths = kernel(
    "square_lengths", "values: V (e); starts: i8 (s); scale: f8; squares!: f8 (n)", V=ROW_TYPES["V"]
)
_add_rows = kernel("add_rows", ROWS + "scale: f8; chosen: i8 (r); amounts: f8 (r); w!: f8 (m)", **ROW_TYPES)
_copy_rows = kernel(
    "copy_rows",
    ROWS + "chosen: i8 (r); starts_out: i8 (q); entries!: V (f); columns_out!: N (g)",
    **ROW_TYPES,
)
# Make passes over all samples, as climb_face; return 1 if the climb has converged. A call continues from the
# state that the last one has left:
#   order (n,): the samples in their current order;
#   counts (3,): number of active samples, state of the random numbers, number of passes;
#   slope (1,): largest projected gradient of the previous pass.
_climb_face = kernel(
    "climb_face",
    ROWS + "scale: f8; y: f8 (n); caps: f8 (n); squares: f8 (n); alpha!: f8 (n); w!: f8 (m); accuracy: f8; "
    "passes: i8; order!: i8 (n); counts!: i8 (three); slope!: f8 (one)",
    returns="i8",
    **ROW_TYPES,
)


def square_lengths(rows: Rows, scale: float) -> Vector:
    """Return ‖x̃‖² of every sample, at least 1."""
    squares = np.empty(len(rows.starts) - 1)
    _square_lengths(rows.values, rows.starts, scale, squares)
    return squares


def add_rows(rows: Rows, scale: float, chosen: Integers, amounts: Vector, w: Vector) -> None:
    """Add ``amounts[j]`` times x̃ of sample ``chosen[j]`` to w (m+1,), for every j."""
    _add_rows(rows.values, rows.columns, rows.starts, rows.shared, scale, chosen, amounts, w)


def climb_face(
    rows: Rows, scale: float, y: Vector, caps: Vector, squares: Vector, chosen: Integers, alpha: Vector,
    w: Vector, accuracy: float, passes: int, seed: int, entries_per_call: int = OPTIONS.entries_per_call,
) -> int:  # fmt: skip
    """Climb one face over its `chosen` samples; update alpha and w, return the number of passes.

    y, caps, squares, alpha: labels, caps, ‖x̃‖² and multipliers of the chosen samples.
    accuracy: the climb ends once no projected gradient exceeds `accuracy`, or after `passes` passes.
    seed: fixes the order of the samples.

    A multiplier at a bound is dropped (shrinking) if its gradient points outwards by more than the largest
    projected gradient of the previous pass; it is checked again before the climb ends.
    """
    copies, slope = copied_rows(rows, chosen), np.array([np.inf])
    order, counts = np.arange(len(chosen)), np.array([len(chosen), seed, 0])
    n_passes, per_call = 0, max(1, entries_per_call // (len(copies.values) + 1))  # passes of a call
    while n_passes < passes:
        has_converged = _climb_face(
            copies.values, copies.columns, copies.starts, copies.shared, scale, y, caps, squares, alpha, w,
            accuracy, min(per_call, passes - n_passes), order, counts, slope,
        )  # fmt: skip
        n_passes = int(counts[2])
        if has_converged:
            break
    return n_passes


def copied_rows(rows: Rows, chosen: Integers) -> Rows:
    """Return copies of the chosen rows."""
    if rows.shared:  # dense rows, with one list of columns
        entries = rows.values.reshape(len(rows.starts) - 1, rows.width)[chosen].ravel()
        starts = np.arange(len(chosen) + 1, dtype=np.int64) * rows.width
        return Rows(entries, rows.columns, starts, 1, rows.width)
    starts = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(rows.starts[chosen + 1] - rows.starts[chosen], out=starts[1:])
    entries = np.empty(starts[-1], dtype=rows.values.dtype)
    columns = np.empty(starts[-1], dtype=rows.columns.dtype)
    _copy_rows(rows.values, rows.columns, rows.starts, 0, chosen, starts, entries, columns)
    return Rows(entries, columns, starts, 0, rows.width)


class FaceAscent:
    """The duals of K faces: their multipliers, always feasible, and their primal and dual values.

    caps (n, K): c_ik.
    assignment (n,): the face of each positive; entries of negatives are ignored.
    single: True for scans and sweeps in single precision; climbs, multipliers and W are always double.
    seed: fixes the order of the steps.

    W (K, m+1): the faces, ½ Σ α_ik y_i x̃_i, bias last.
    alpha (n, K): the multipliers.
    scores (positives, K): scores of the positives at the last scan.
    passes: work so far, relative to a pass over all samples on all faces.
    active: number of active pairs at the last call of :meth:`climb`, on the faces that climbed.
    loss_on_negatives (K,): loss of every face on the negatives at the last scan.
    """

    def __init__(
        self, rows: Rows, y: Vector, caps: Vector, assignment: Integers, *, scale: float = 1.0,
        single: bool = False, seed: int | tuple[int, ...] = 0,
    ):  # fmt: skip
        n, K = caps.shape
        self._rows, self._arrays = rows, (rows.values, rows.columns, rows.starts, rows.shared)
        self._scale, self.single = scale, single
        self._y, self._caps = np.asarray(y, dtype=float), np.ascontiguousarray(caps)
        self._squares = square_lengths(rows, scale)
        self._mask = np.zeros(n, dtype=bool)  # work space of `_union`
        self._rng = np.random.default_rng(seed)
        self._positives = np.flatnonzero(y > 0)
        self._score_row = np.zeros(n, dtype=np.int64)  # row of each positive in `scores`
        self._score_row[self._positives] = np.arange(len(self._positives))
        self.W, self.alpha = np.zeros((K, rows.width + 1)), np.zeros((n, K))
        self.assignment = np.where(y > 0, assignment, 0).astype(np.int64)
        self.passes, self.active = 0.0, 0
        self.scores = np.zeros((len(self._positives), K))
        self.loss_on_negatives, self._alpha_sums = np.zeros(K), np.zeros(K)
        # _scanned: the face has not changed since the last scan. _is_climbed: its last change was a climb.
        self._scanned, self._is_climbed = np.zeros(K, dtype=bool), np.zeros(K, dtype=bool)
        self._accuracy = np.full(K, OPTIONS.first_accuracy)
        # Active samples of each face, ascending; they include all samples with a positive multiplier.
        self._active_samples: list[Integers] = [np.empty(0, dtype=np.int64)] * K
        self._group_positives()

    def begin_at(
        self, W: Vector, samples: NDArray[np.integer], faces: NDArray[np.integer], alpha: Vector
    ) -> None:
        """Continue from the faces W (K, m+1), and multipliers `alpha` of some pairs; all others are 0.

        For a block of the samples: W are the faces of the multipliers of all samples.
        """
        self.W[:], self.alpha[samples, faces] = W, alpha
        self._reset_active()

    def active_pairs(self) -> tuple[Integers, NDArray[np.int32]]:
        """Return the samples and the faces of the active pairs at the last scan, face by face."""
        samples = [self._active_with_positives(k) for k in range(len(self.W))]
        faces = np.repeat(np.arange(len(samples), dtype=np.int32), [len(each) for each in samples])
        return np.concatenate(samples), faces

    @property
    def primal(self) -> Vector:
        """Primal value (K,) of every face at the last scan."""
        return self.values_at(np.einsum("kj,kj->k", self.W, self.W) + self.loss_on_negatives, self.scores)

    @property
    def dual(self) -> Vector:
        """Dual value (K,) of every face."""
        return np.asarray(self._alpha_sums - np.einsum("kj,kj->k", self.W, self.W))

    def values_at(self, other_terms: Vector, scores: Vector) -> Vector:
        """Return `other_terms` (K,) plus each face's loss on its positives, for scores (positives, K)."""
        positives = self._positives
        faces = self.assignment[positives]
        hinges = np.maximum(0.0, 1.0 - scores[np.arange(len(positives)), faces])
        return other_terms + np.bincount(faces, self._caps[positives, faces] * hinges, minlength=len(self.W))

    def score_of_own_multiplier(self) -> Vector:
        """Return ½ α_i ‖x̃_i‖² of every positive: the contribution of its multiplier to its own score."""
        positives = self._positives
        alpha = self.alpha[positives, self.assignment[positives]]
        return np.asarray(0.5 * alpha * self._squares[positives])

    def sweep(self, samples: Integers | None = None, times: int = 1) -> None:
        """Make sweeps over `samples`, all by default, each in a random order."""
        samples = np.arange(len(self._y)) if samples is None else samples
        U = self._lanes(np.arange(len(self.W)))
        work = np.zeros((2, U.shape[1]), dtype=U.dtype)
        for _ in range(times):
            order = self._rng.permutation(samples)
            for first, last in stretches(len(order), self._rows, U.shape[1]):
                sweep(
                    *self._arrays, self._scale, self._y, self._caps, self._squares,
                    order[first:last], self.assignment, U, self.alpha, work,
                )  # fmt: skip
        self.passes += times * len(samples) / len(self._y)
        self.W = U[:, : len(self.W)].T.astype(float, order="C")
        self._alpha_sums = self.alpha.sum(axis=0)
        self._reset_active()
        self._scanned[:] = self._is_climbed[:] = False

    def scan(self) -> None:
        """Scan the faces that have changed since their last scan: scores, losses and active pairs."""
        faces = np.flatnonzero(~self._scanned)
        pairs: list[NDArray[Any]] = []
        for first in range(0, len(faces), OPTIONS.scan_faces):
            pairs += self._scan_faces(faces[first : first + OPTIONS.scan_faces])
        self.passes += len(faces) / max(len(self.W), 1)
        if pairs:
            samples_of_face = self._by_face(*np.concatenate(pairs, axis=1))
            for k in faces.tolist():
                self._set_active(k, samples_of_face[k])
        self._scanned[:] = True

    def climb(self, tol: float, accuracy: float | None = None, passes: int = 20) -> None:
        """Climb the faces with a duality gap above tol · ½(P_k + mean P), where P_k is the primal value.

        A face that has changed since its last climb, as by a sweep, climbs in any case.
        accuracy: the largest projected gradient that a climb may leave. By default each face has its own,
            which falls from climb to climb as long as its gap is too large.
        """
        values = self.primal  # of the last scan
        gaps = values - self.dual
        needs_climb = ~self._is_climbed | (gaps > 0.5 * tol * (values + values.mean()))
        faces = np.flatnonzero(needs_climb).tolist()
        active = [self._active_with_positives(k) for k in faces]
        self.active = sum(map(len, active))
        # Form the union only if there are enough pairs for a quarter of all samples to be worth a sweep.
        if self.active > OPTIONS.faces_to_sweep * len(self._y) // 4 and len(self.W) > 1:
            samples = np.unique(np.concatenate(active))
            if self.active > OPTIONS.faces_to_sweep * len(samples):
                self.sweep(samples, OPTIONS.climb_sweeps)
                return
        for k, samples in zip(faces, active, strict=True):
            self._climb_samples(k, samples, self._accuracy[k] if accuracy is None else accuracy, passes)
            if accuracy is None:
                self._accuracy[k] = max(OPTIONS.accuracy_factor * self._accuracy[k], OPTIONS.min_accuracy)

    def reassign(self, assignment: Integers) -> None:
        """Change the assignment (n,); multipliers of positives that move become 0, and W follows."""
        positives = self._positives
        moved = positives[assignment[positives] != self.assignment[positives]]
        old = self.assignment[moved]
        for k in np.unique(old):
            samples = moved[old == k]
            samples = samples[self.alpha[samples, k] > 0.0]
            if len(samples):
                add_rows(self._rows, self._scale, samples, -0.5 * self.alpha[samples, k], self.W[k])
                self._alpha_sums[k] -= self.alpha[samples, k].sum()
                self.alpha[samples, k] = 0.0
                self._scanned[k] = False
        changed = np.union1d(old, assignment[moved])
        self._is_climbed[changed] = False
        self._accuracy[changed] = np.maximum(self._accuracy[changed], OPTIONS.first_accuracy)
        self.assignment = np.where(self._y > 0, assignment, 0).astype(np.int64)
        self._group_positives()

    def check(self) -> float:
        """Recompute W, scores and values from the multipliers in double precision; return the gap."""
        self.single, single = False, self.single
        self.W[:] = 0.0
        for k, samples in enumerate(self._active_samples):
            alpha = self.alpha[samples, k]
            add_rows(self._rows, self._scale, samples, 0.5 * self._y[samples] * alpha, self.W[k])
            self._alpha_sums[k] = alpha.sum()
        self._scanned[:] = False
        self.scan()
        self.single = single
        return self.gap

    @property
    def gap(self) -> float:
        """Relative duality gap at the last scan."""
        return relative_gap(float(self.primal.sum()), float(self.dual.sum()))

    def _group_positives(self) -> None:
        """List the positives of every face."""
        self._positives_of_face = self._by_face(self._positives, self.assignment[self._positives])

    def _reset_active(self) -> None:
        """Reset the active samples of each face to those with a positive multiplier."""
        self._active_samples = self._by_face(*np.nonzero(self.alpha))

    def _by_face(self, samples: NDArray[Any], faces: NDArray[Any]) -> list[NDArray[Any]]:
        """Split a list of samples into one list for each face; `faces` has the face of each."""
        ends = np.bincount(faces, minlength=len(self.W)).cumsum()
        return np.split(samples[np.argsort(faces, kind="stable")], ends[:-1])

    def _lanes(self, faces: Integers) -> NDArray[Any]:
        """Return these faces as columns of U (m+1, L), in the precision of scans and sweeps."""
        return in_lanes(self.W[faces], np.float32 if self.single else np.float64)

    def _scan_faces(self, faces: Integers) -> list[NDArray[Any]]:
        """Scan all samples on some faces; return blocks (2, any number) of active pairs of negatives."""
        U, n, blocks = self._lanes(faces), len(self._y), []
        pairs = np.empty((2, min(OPTIONS.scan_rows, n) * len(faces)), dtype=np.int32)
        out, threshold = np.empty_like(U[0]), -1.0 - OPTIONS.margin_band
        self.loss_on_negatives[faces] = 0.0
        for first, last in stretches(n, self._rows, U.shape[1], OPTIONS.scan_rows):
            n_pairs = scan(
                *self._arrays, self._scale, U, faces, first, last, self._y, self._caps,
                self._score_row, threshold, self.scores, self.loss_on_negatives, pairs, out,
            )  # fmt: skip
            blocks.append(pairs[:, :n_pairs].copy())
        return blocks

    def _set_active(self, k: int, samples: NDArray[Any]) -> None:
        """Set the active samples of a face: positive multipliers, and `samples` from a scan."""
        previous = self._active_samples[k]
        self._active_samples[k] = self._union(previous[self.alpha[previous, k] > 0.0], samples)

    def _active_with_positives(self, k: int) -> Integers:
        """Return the active negatives of a face, and its positives that were active at the last scan."""
        samples, positives = self._active_samples[k], self._positives_of_face[k]
        is_active = (self.alpha[positives, k] > 0.0) | (
            self.scores[self._score_row[positives], k] < 1.0 + OPTIONS.margin_band
        )
        return self._union(samples[self._y[samples] < 0.0], positives[is_active])

    def _union(self, a: NDArray[Any], b: NDArray[Any]) -> Integers:
        """Return the ascending union of two lists of samples."""
        self._mask[a] = self._mask[b] = True
        union = np.flatnonzero(self._mask)
        self._mask[union] = False
        return union

    def _climb_samples(self, k: int, samples: Integers, accuracy: float, passes: int) -> None:
        """Climb face k over these samples, which become its active ones."""
        alpha = self.alpha[samples, k]
        n_passes = climb_face(
            self._rows, self._scale, self._y[samples], self._caps[samples, k], self._squares[samples],
            samples, alpha, self.W[k], accuracy, passes, int(self._rng.integers(1 << 31)),
        )  # fmt: skip
        self.passes += n_passes * len(samples) / (len(self._y) * len(self.W))
        self.alpha[samples, k] = alpha
        self._active_samples[k], self._alpha_sums[k] = samples, alpha.sum()
        self._scanned[k], self._is_climbed[k] = False, True


@dataclass
class StallDetector:
    """A stopping test for runs whose bound no longer rises and whose gap no longer falls, scan by scan."""

    bound: float = -np.inf  # the largest
    gap: float = np.inf  # the smallest
    idle_scans: int = 0

    def stop_status(self, bound: float, gap: float, clock: Clock) -> Status | None:
        """Return STALLED or TIME_LIMIT if the run must stop after this scan, else None."""
        bound_rises = bound > self.bound + OPTIONS.min_bound_rise_rel * abs(bound)
        if bound_rises or gap < OPTIONS.max_gap_ratio * self.gap:
            self.bound, self.gap, self.idle_scans = max(bound, self.bound), min(gap, self.gap), 0
        else:
            self.idle_scans += 1
        if self.idle_scans >= OPTIONS.max_idle_scans:
            return Status.STALLED
        return Status.TIME_LIMIT if clock.is_over else None
