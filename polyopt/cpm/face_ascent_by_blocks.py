"""Dual coordinate ascent on the faces of a Convex Polytope Machine, for samples in blocks and many features.

An iteration of the interior point costs n m² for every face; here nothing costs more than n m, and the
duality gap falls to some 1e-4 in a few scans. The programs are those of one assignment of the positives to
the faces, and the method is that in memory (:class:`polyopt.optim.coordinate_ascent.FaceAscent`), on a block
at a time. A step needs one sample, its multiplier, and the faces W:

1. Two *sweeps* step on all pairs of a sample and a face, from multipliers of 0. The faces go from block to
   block, so a sweep is one sequence of steps.
2. A *scan* reads all blocks side by side. It measures the gap at W, and finds the active pairs.
3. A *climb* steps on the active pairs of each face with a gap; then comes a scan again. The rows of active
   pairs are gathered in the driving process, once for all passes of the climb. If they are too many, sweeps
   over these rows, by blocks, take its place.

The orders of blocks and pairs, and so all bits of the result, follow from the blocks and the seed. The
driving process keeps the multipliers of active pairs, 16 bytes for each, and sends them to the blocks and
back. All other multipliers are 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.language.clock import Clock, OutOfTimeError, interrupted
from formulations.language.solution import Status
from formulations.language.types import Vector
from polyopt.base.progress import tell
from polyopt.certificates.certificate import Certificate, relative_gap
from polyopt.certificates.tally import SAMPLES_PER_SLICE, Tally, merge
from polyopt.cpm.certificate_by_blocks import (
    AssignedBlock,
    Multipliers,
    certify_multipliers,
    implied_faces,
    reduce_dual,
    reduce_primal,
)
from polyopt.linalg.rows import as_rows
from polyopt.optim.coordinate_ascent import FaceAscent, StallDetector, climb_face, square_lengths
from polyopt.scale.blocks import Pair, TwoClasses, concatenate, two_classes
from polyopt.scale.crew import total
from polyopt.scale.executor import Executor
from polyopt.scale.sources import Samples

Assignment = NDArray[np.integer[Any]]  # (n,): the face of each sample outside, -1 for samples inside


@dataclass(frozen=True)
class Options:
    """Numbers of the ascent.

    min_hinge_decrease: decrease of a hinge above which a positive changes its face.
    start_sweeps: sweeps from multipliers of 0.
    max_scans, max_passes: scans, and passes of a climb between two scans, at most.
    max_gathered_entries: entries of the rows that are gathered at most.
    sweeps_by_blocks: sweeps between two scans if the rows are too many.
    first_slope, slope_ratio, min_slope: tolerance of the projected gradient at which the climbs between two
        scans end: the first one, its factor from scan to scan, and its lower limit.
    max_entry_single, min_tol_single: largest entry and smallest tolerance for scans in single precision.
    """

    min_hinge_decrease: float = 1e-7
    start_sweeps: int = 2
    max_scans: int = 1000
    max_passes: int = 1000
    max_gathered_entries: int = 1 << 24
    sweeps_by_blocks: int = 5
    first_slope: float = 1e-2
    slope_ratio: float = 0.3
    min_slope: float = 1e-13
    max_entry_single: float = 1e4
    min_tol_single: float = 1e-5


OPTIONS = Options()
_SAVED = ("_W", "_multipliers", "_passes", "scans", "_slope", "_stalls")  # attributes in a checkpoint


def scaled(faces: Vector, scale: float) -> Vector:
    """Return faces (K, m+1) for samples whose entries are to be multiplied by `scale`."""
    return faces if scale == 1.0 else np.column_stack([scale * faces[:, :-1], faces[:, -1]])


class FaceAscents:
    """The ascents of all faces, whose multipliers stay from round to round.

    scale: factor of every entry of the samples.
    largest: largest absolute entry of the samples, not scaled.
    seed: seed of the order of the steps.
    scans: number of scans in this round.
    """

    def __init__(
        self, executor: Executor, pair: Pair, n_faces: int, n_features: int, *, scale: float = 1.0,
        largest: float = np.inf, seed: int = 0, options: Options = OPTIONS,
    ):  # fmt: skip
        self._executor, self._pair, self._scale, self._options = executor, pair, scale, options
        self._seed = seed
        self._is_small = largest * scale < options.max_entry_single
        self._assigned: list[Assignment] = []
        self._multipliers = [Multipliers.none()] * executor.count
        self._width = float(n_features)  # mean number of entries of a row
        self._W = np.zeros((n_faces, n_features + 1))
        self._passes = 0  # sweeps and climbs
        self._begin_round()

    def _begin_round(self) -> None:
        self.scans, self._slope, self._stalls = 0, self._options.first_slope, StallDetector()

    def assign(self, assigning: Vector, resumed: dict[str, Any] | None = None) -> None:
        """Assign each sample outside to the face of `assigning` (K, m+1) with its highest score.

        Multipliers of samples that change their face become 0, and W follows.
        resumed: the state of a checkpoint, which was written after these faces had assigned.
        """
        arguments = self._pair, scaled(assigning, self._scale)
        self._assigned = self._executor.each(assign_block, [arguments] * self._executor.count)
        if resumed is not None:
            vars(self).update(resumed)
        elif self._passes:
            for number, (rows, faces, alpha) in enumerate(self._multipliers):
                assigned = self._assigned[number][rows]
                is_kept = (assigned < 0) | (assigned == faces)
                self._multipliers[number] = Multipliers(rows[is_kept], faces[is_kept], alpha[is_kept])
            self._W = implied_faces(self._reduce_dual())
            self._begin_round()

    def run(self, tol: float, clock: Clock, save: Callable[[dict[str, Any]], None]) -> Status:
        """Climb until the relative gap, as scans measure it, is `tol`, or for `max_scans` scans."""
        try:
            while self._passes < self._options.start_sweeps:
                self._sweep(clock)
            while True:
                save({name: getattr(self, name) for name in _SAVED})
                objective, bound, has_gap = self._scan(tol, clock)
                record = {"iteration": float(self.scans), "seconds": clock.seconds}
                tell(record | {"objective": objective, "bound": bound})
                gap = relative_gap(objective, bound)
                if gap <= 0.9 * tol:  # below `tol`: a scan may be in single precision
                    return Status.SOLVED
                if self.scans >= self._options.max_scans:
                    return Status.ITERATION_LIMIT
                stop = self._stalls.stop_status(bound, gap, clock)
                if stop is not None:
                    return stop
                self._climb(has_gap, clock)
        except OutOfTimeError:
            return Status.TIME_LIMIT
        except KeyboardInterrupt:
            return interrupted()

    def prove(self, tol: float, assigning: Vector | None = None) -> tuple[Vector, Certificate, Tally]:
        """Certify the faces of the multipliers to `tol`, or `assigning` if its objective is lower.

        Returns: the faces (K, m+1), their certificate, and the tally of :func:`reduce_primal`.
        """
        dual = self._reduce_dual()
        W = implied_faces(dual)
        self._W, proofs = W.copy(), []
        for faces in [W] if assigning is None else [W, assigning]:
            primal = merge(self._each(weigh_block, faces))
            proofs.append((faces, certify_multipliers(dual, primal, faces, tol), primal))
        return min(proofs, key=lambda proof: proof[1].primal_value)

    def _reduce_dual(self) -> Tally:
        return merge(self._each(pull_block, len(self._W)))

    def _each(self, step: Callable[..., Any], *arguments: Any, clock: Clock | None = None) -> list[Any]:
        """Return the results of a step on all blocks, with their assignments and multipliers."""
        blocks = zip(self._assigned, self._multipliers, strict=True)
        return list(
            self._executor.each(
                step, [(self._pair, self._scale, *block, *arguments) for block in blocks], clock
            )
        )

    # -- sweeps, scans and climbs ----------------------------------------------------------------

    def _sweep(self, clock: Clock, is_restricted: bool = False) -> None:
        """Take W through all blocks, a step on each pair; with `is_restricted` of samples of active pairs."""
        full = [number for number, assigned in enumerate(self._assigned) if len(assigned)]
        seed = self._seed, self._passes
        order = np.random.default_rng(seed).permutation(full).tolist()
        stops = [
            (number, (self._pair, self._scale, self._assigned[number], self._multipliers[number],
                      is_restricted, (*seed, number)))
            for number in order
        ]  # fmt: skip
        self._W, changed = self._executor.chain(sweep_block, self._W, stops, clock)
        for number, multipliers in zip(order, changed, strict=True):
            self._multipliers[number] = multipliers
        self._passes += 1

    def _scan(self, tol: float, clock: Clock) -> tuple[float, float, NDArray[np.bool_]]:
        """Scan all samples and find the active pairs; return objective, bound, and the mask of open faces."""
        is_single = self._is_small and tol >= self._options.min_tol_single
        results = self._each(scan_block, self._W, is_single, clock=clock)
        losses, self._multipliers, entries = map(list, zip(*results, strict=True))
        self.scans += 1
        self._width = sum(entries) / max(sum(map(len, self._assigned)), 1)
        squares = np.einsum("kj,kj->k", self._W, self._W)
        values = squares + total(losses)
        K = len(self._W)
        bounds = total([np.bincount(each.faces, each.alpha, K) for each in self._multipliers]) - squares
        has_gap = values - bounds > 0.5 * tol * (values + values.mean())
        return float(values.sum()), float(bounds.sum()), has_gap

    def _climb(self, has_gap: NDArray[np.bool_], clock: Clock) -> None:
        """Climb the faces with a gap over their active pairs."""
        rows = [np.unique(pairs.rows[has_gap[pairs.faces]]) for pairs in self._multipliers]
        if self._width * sum(map(len, rows)) <= self._options.max_gathered_entries:
            self._climb_gathered(has_gap, rows, clock)
        else:
            for _ in range(self._options.sweeps_by_blocks):
                self._sweep(clock, is_restricted=True)
        self._slope = max(self._options.slope_ratio * self._slope, self._options.min_slope)

    def _climb_gathered(
        self, has_gap: NDArray[np.bool_], rows: list[NDArray[np.int32]], clock: Clock
    ) -> None:
        """Gather the rows, ascending in each block, and climb over them."""
        parts = self._executor.each(gather_rows, [(self._pair, each) if len(each) else None for each in rows],
                                    clock)  # fmt: skip
        X, outside, weights = concatenate(parts)
        samples, y, caps = as_rows(X), np.where(outside, 1.0, -1.0), self._pair.C * weights
        squares, W = square_lengths(samples, self._scale), self._W.copy()
        offsets = np.cumsum([0, *map(len, rows)])[:-1]
        pairs_of_block = zip(offsets, rows, self._multipliers, strict=True)
        places = [offset + np.searchsorted(each, pairs.rows) for offset, each, pairs in pairs_of_block]
        place, face, alpha = map(np.concatenate, (places, *list(zip(*self._multipliers, strict=True))[1:]))
        rng = np.random.default_rng([self._seed, self._passes])
        for k in np.flatnonzero(has_gap).tolist():
            clock.check()
            of_face = np.flatnonzero(face == k)
            chosen, alpha_of_face = place[of_face], alpha[of_face]
            climb_face(
                samples, self._scale, y[chosen], caps[chosen], squares[chosen], chosen, alpha_of_face, W[k],
                self._slope, self._options.max_passes, int(rng.integers(1 << 31)),
            )  # fmt: skip
            alpha[of_face] = alpha_of_face
        ends = np.cumsum([len(pairs.rows) for pairs in self._multipliers])[:-1]
        self._W, self._passes = W, self._passes + 1
        self._multipliers = [
            pairs._replace(alpha=each)
            for pairs, each in zip(self._multipliers, np.split(alpha, ends), strict=True)
        ]


# -- steps on a block ---------------------------------------------------------------------------------


def assign_block(samples: Samples, number: int, pair: Pair, assigning: Vector) -> NDArray[np.integer]:
    """Return the face of `assigning` (K, m+1) with the highest score of each sample outside; -1 inside."""
    X, outside = two_classes(samples, pair)[:2]
    return assign_faces(X, outside, assigning).astype(np.min_scalar_type(-len(assigning)))


def assign_faces(X: Any, outside: NDArray[np.bool_], faces: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the face of `faces` (K, m+1) with the highest score of each sample outside; -1 inside."""
    assigned = np.full(len(outside), -1)
    for first in range(0, len(outside), SAMPLES_PER_SLICE):
        part = slice(first, first + SAMPLES_PER_SLICE)
        rows = X[part] if sp.issparse(X) else np.asarray(X[part], dtype=float)
        assigned[part] = (np.asarray(rows @ faces[:, :-1].T) + faces[:, -1]).argmax(axis=1)
    assigned[~outside] = -1
    return assigned


def sweep_block(
    W: Vector, samples: Samples, number: int, pair: Pair, scale: float, assigned: Assignment,
    multipliers: Multipliers, is_restricted: bool, seed: tuple[int, ...],
) -> tuple[Vector, Multipliers]:  # fmt: skip
    """Sweep a block; return the faces and the multipliers."""
    ascent = _ascent(_block(samples, pair, scale, assigned), multipliers, W, seed=seed)
    ascent.sweep(np.unique(multipliers.rows).astype(np.int64) if is_restricted else None)
    is_active = ascent.alpha > 0.0
    is_active[multipliers.rows, multipliers.faces] = True  # until the next scan
    return ascent.W, Multipliers.of(ascent.alpha, *np.nonzero(is_active))


def scan_block(
    samples: Samples, number: int, pair: Pair, scale: float, assigned: Assignment, multipliers: Multipliers,
    W: Vector, is_single: bool,
) -> tuple[Vector, Multipliers, int]:  # fmt: skip
    """Return the loss of a block on every face (K,), the active pairs, and the entries of X."""
    if not len(assigned):
        return np.zeros(len(W)), multipliers, 0
    block = _block(samples, pair, scale, assigned)
    ascent = _ascent(block, multipliers, W, is_single=is_single)
    ascent.scan()
    losses = ascent.values_at(ascent.loss_on_negatives, ascent.scores)
    return losses, Multipliers.of(ascent.alpha, *ascent.active_pairs()), block.X.size


def _ascent(
    block: AssignedBlock, multipliers: Multipliers, W: Vector, *, is_single: bool = False,
    seed: tuple[int, ...] = (0,),
) -> FaceAscent:  # fmt: skip
    """Return the ascent of a block at the faces W of the multipliers of all blocks."""
    y, caps = np.where(block.outside, 1.0, -1.0), np.repeat(block.costs[:, None], len(W), axis=1)
    ascent = FaceAscent(
        as_rows(block.X), y, caps, block.assigned.astype(np.int64), scale=block.scale, single=is_single,
        seed=seed,
    )  # fmt: skip
    ascent.begin_at(W, *multipliers)
    return ascent


def gather_rows(samples: Samples, number: int, pair: Pair, rows: NDArray[np.int32]) -> TwoClasses:
    """Return some rows of a block."""
    return TwoClasses(*(values[rows] for values in two_classes(samples, pair)))


def pull_block(
    samples: Samples, number: int, pair: Pair, scale: float, assigned: Assignment, multipliers: Multipliers,
    n_faces: int,
) -> Tally:  # fmt: skip
    """Return the sums of the dual value at a block's multipliers (:func:`reduce_dual`)."""
    return reduce_dual(_block(samples, pair, scale, assigned), multipliers, n_faces)


def weigh_block(
    samples: Samples, number: int, pair: Pair, scale: float, assigned: Assignment, multipliers: Multipliers,
    W: Vector,
) -> Tally:  # fmt: skip
    """Return the losses and violations of a block at the faces W (K, m+1) (:func:`reduce_primal`)."""
    block = _block(samples, pair, scale, assigned)
    return reduce_primal(block, multipliers, W, OPTIONS.min_hinge_decrease)


def _block(samples: Samples, pair: Pair, scale: float, assigned: Assignment) -> AssignedBlock:
    X, outside, weights = two_classes(samples, pair)
    return AssignedBlock(X, outside, pair.C * weights, assigned, scale)
