"""Dual coordinate ascent on the faces of a Convex Polytope Machine, for a fixed assignment and many features.

An iteration of the interior point costs n m² for every face; here nothing costs more than n m, and the
duality gap falls to some 1e-4 in a few scans. The method is that of the solver in memory
(:mod:`polyopt.cpm.dual`), a block at a time (:mod:`polyopt.cpm.block_ascent`). Each pair of a sample and a
face has a multiplier:

1. Two sweeps step on all pairs, from multipliers of 0.
2. A scan of all samples at the current faces measures the gap, and finds the active pairs, those that may
   move.
3. Passes step on the active pairs; then comes a scan again. In a pass by blocks the faces go from block to
   block, which costs much more than the steps if some hundred pairs are left. If the rows of the active pairs
   are few, they are therefore gathered in the driving process, once for all passes until the next scan.

A step needs the faces that the step before it has left, so the faces visit the blocks one after another; a
scan reads all blocks side by side. The orders of blocks and pairs, and so all bits of the result, follow from
the blocks and the seed. The driving process keeps the multipliers of active pairs, 17 bytes for each, and
sends them to the blocks and back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt.base.progress import tell
from polyopt.certificates.certificate import Certificate, relative_gap
from polyopt.certificates.tally import Tally, merge
from polyopt.cpm.block_ascent import BlockAscent, Pairs, climb_pairs, no_pairs, release
from polyopt.cpm.certificate_by_blocks import (
    AssignedBlock,
    Multipliers,
    certify_halves,
    implied_faces,
    reduce_dual,
    reduce_primal,
)
from polyopt.linalg.rows import as_rows
from polyopt.scale.blocks import Pair, TwoClasses, concatenate, two_classes
from polyopt.scale.crew import total
from polyopt.scale.executor import Executor
from polyopt.scale.sources import Samples

Vector = NDArray[np.float64]
Assignment = NDArray[np.integer[Any]]  # (n,): the face of each sample outside, -1 for samples inside

MIN_HINGE_DECREASE = 1e-7
"""Decrease of a hinge above which a positive changes its face."""


@dataclass(frozen=True)
class Options:
    """Numbers of the ascent.

    max_scans: scans, and passes over gathered rows between two scans, at most.
    max_passes_by_blocks: passes by blocks between two scans at most.
    max_gathered_entries: entries of the rows that are gathered at most.
    first_slope, slope_ratio, min_slope: tolerance of the projected gradient at which the passes between two
        scans end: the first one, its factor from scan to scan, and its lower limit.
    stall_scans, min_bound_gain: a run has stalled if the lower bound rises by less, relatively, in so many
        scans.
    max_entry_single, min_tol_single: largest entry and smallest tolerance for scans in single precision.
    """

    max_scans: int = 1000
    max_passes_by_blocks: int = 20
    max_gathered_entries: int = 1 << 24
    first_slope: float = 1e-2
    slope_ratio: float = 0.3
    min_slope: float = 1e-13
    stall_scans: int = 30
    min_bound_gain: float = 1e-13
    max_entry_single: float = 1e4
    min_tol_single: float = 1e-5


_ROWS_AT_ONCE = 1 << 14  # rows of a block that are assigned together


def scaled(faces: Vector, scale: float) -> Vector:
    """Return faces (K, m+1) for samples whose entries are to be multiplied by `scale`."""
    return faces if scale == 1.0 else np.column_stack([scale * faces[:, :-1], faces[:, -1]])


_SAVED = ("_W", "_pairs", "_passes", "scans", "_slope", "_bounds", "_seed")  # attributes in a checkpoint


class FaceAscents:
    """The ascents of all faces, whose multipliers stay from round to round.

    scale: factor of every entry of the samples.
    largest: largest absolute entry of the samples, not scaled.
    seed: seed of the order of the steps.
    """

    def __init__(
        self, executor: Executor, pair: Pair, n_faces: int, n_features: int, *, scale: float = 1.0,
        largest: float = np.inf, seed: int = 0, options: Options | None = None,
    ):  # fmt: skip
        self._executor, self._pair, self._K, self._options = executor, pair, n_faces, options or Options()
        self._scale, self._seed, self._blocks = scale, seed, range(executor.count)
        self._is_small = largest * scale < self._options.max_entry_single
        self._is_single = False  # True for scans and sweeps in single precision
        self._assigned: list[Assignment] = []
        self._width = float(n_features)  # mean number of entries of a row
        self._W = np.zeros((n_faces, n_features + 1))
        self._pairs = [no_pairs() for _ in self._blocks]
        self._passes, self.scans, self._slope = 0, 0, self._options.first_slope
        self._bounds: list[float] = []  # one for each scan

    # -- rounds ----------------------------------------------------------------------------------

    def assign(self, assigning: Vector, resumed: dict[str, Any] | None = None) -> None:
        """Assign each sample outside to the face of `assigning` (K, m+1) with its highest score.

        resumed: the state of a checkpoint, which was written after these faces had assigned.
        """
        faces = scaled(assigning, self._scale)
        self._assigned = self._each(assign_block, lambda number: (self._pair, faces))
        if resumed is not None:
            vars(self).update(resumed)
            return
        if not self._passes:
            return
        results = self._each(
            release_block,
            lambda number: (self._pair, self._scale, self._assigned[number], self._K, self._pairs[number]),
        )
        self._W = self._W - total([change for change, _ in results])
        self._pairs = [pairs for _, pairs in results]
        self.scans, self._slope, self._bounds = 0, self._options.first_slope, []

    def run(self, tol: float, clock: Clock, save: Callable[[dict[str, Any]], None]) -> Status:
        """Climb until the relative gap, as scans measure it, is `tol`, or for `max_scans` scans."""
        options, is_over = self._options, lambda: clock.is_over
        self._is_single = self._is_small and tol >= options.min_tol_single
        while self._passes < 2:  # from multipliers of 0
            W = self._visit(sweep_block, self._W, self._arguments, is_over)
            if W is None:
                return Status.TIME_LIMIT
            self._W = W
        while True:
            save({name: getattr(self, name) for name in _SAVED})
            values = self._scan(tol, is_over)
            if values is None:
                return Status.TIME_LIMIT
            objective, bound = values
            record = {"iteration": float(self.scans), "seconds": clock.seconds}
            tell(record | {"objective": objective, "bound": bound})
            if relative_gap(objective, bound) <= 0.9 * tol:  # below `tol`: a scan may be in single precision
                return Status.SOLVED
            self._bounds.append(bound)
            if self.scans >= options.max_scans:
                return Status.ITERATION_LIMIT
            last = self._bounds[-options.stall_scans :]
            if len(last) == options.stall_scans and last[-1] - last[0] <= options.min_bound_gain * abs(bound):
                return Status.STALLED
            if not self._climb(is_over):
                return Status.TIME_LIMIT

    def prove(
        self, tol: float, assigning: Vector | None = None
    ) -> tuple[Vector, list[Certificate], Tally]:  # fmt: skip
        """Certify the faces of the multipliers to `tol`, or `assigning` if its objective is lower.

        Returns: the faces (K, m+1), halves of their certificates, and the tally of the samples' losses.
        """
        gains = merge(
            self._each(pull_block, lambda number: (self._pair, *self._multipliers(number), self._K))
        )
        W = implied_faces(gains, self._scale)[1]
        self._W, proofs = W.copy(), []
        for faces in [W] if assigning is None else [W, assigning]:
            point = (faces, self._scale, MIN_HINGE_DECREASE)
            arguments = [(self._pair, *self._multipliers(number), *point) for number in self._blocks]
            losses = merge(self._executor.each(weigh_block, arguments))
            proofs.append((faces, certify_halves(gains, losses, faces, self._scale, tol), losses))
        return min(proofs, key=lambda proof: sum(half.primal_value for half in proof[1]))

    def _each(
        self, step: Callable[..., Any], arguments_of: Callable[[int], tuple[Any, ...]],
        is_over: Callable[[], bool] | None = None,
    ) -> Any:  # fmt: skip
        """Return the results of a step on all blocks, side by side; None if time is over."""
        return self._executor.each(step, [arguments_of(number) for number in self._blocks], is_over)

    def _multipliers(self, number: int) -> tuple[Any, Multipliers]:
        return self._assigned[number], Multipliers(*self._pairs[number][:3])

    def _arguments(self, number: int) -> tuple[Any, ...]:
        """Return the arguments of a sweep or a scan of a block."""
        settings = self._pair, self._scale, self._is_single
        return *settings, self._assigned[number], self._pairs[number]

    # -- passes ----------------------------------------------------------------------------------

    def _scan(self, tol: float, is_over: Callable[[], bool]) -> tuple[float, float] | None:
        """Scan all samples: return objective and bound, and find active pairs of faces with a large gap."""
        results = self._each(scan_block, lambda number: (self._W, *self._arguments(number)), is_over)
        if results is None:
            return None
        self._pairs = [pairs for _, pairs, _ in results]
        self.scans += 1
        self._width = sum(entries for *_, entries in results) / max(sum(map(len, self._assigned)), 1)
        squares = np.einsum("kj,kj->k", self._W, self._W)
        values = squares + total([losses for losses, *_ in results])
        multipliers = total([np.bincount(pairs.faces, pairs.alpha, self._K) for pairs in self._pairs])
        bounds = multipliers - squares
        has_gap = values - bounds > 0.5 * tol * (values + values.mean())
        for pairs in self._pairs:
            pairs.active[:] = has_gap[pairs.faces]
        return float(values.sum()), float(bounds.sum())

    def _climb(self, is_over: Callable[[], bool]) -> bool:
        """Take passes over the active pairs; return False if time is over before they end."""
        rows = [np.unique(pairs.rows[pairs.active]) for pairs in self._pairs]
        is_gathered = self._width * sum(map(len, rows)) <= self._options.max_gathered_entries
        if not (self._climb_gathered(rows, is_over) if is_gathered else self._climb_by_blocks(is_over)):
            return False
        self._slope = max(self._options.slope_ratio * self._slope, self._options.min_slope)
        return True

    def _climb_by_blocks(self, is_over: Callable[[], bool]) -> bool:
        """Take passes through the blocks; return False if time is over before they end."""
        slopes = np.full(self._K, np.inf)
        for _ in range(self._options.max_passes_by_blocks):

            def arguments(number: int, slopes: Vector = slopes) -> tuple[Any, ...]:
                return self._pair, self._scale, slopes, self._pairs[number]

            end = self._visit(climb_block, (self._W, np.zeros(self._K)), arguments, is_over)
            if end is None:
                return False
            self._W, slopes = end
            if slopes.max() <= self._slope:
                break
        return True

    def _visit(
        self, step: Callable[..., Any], state: Any, arguments_of: Callable[[int], tuple[Any, ...]],
        is_over: Callable[[], bool],
    ) -> Any:  # fmt: skip
        """Take a state through all blocks, whose pairs the step changes; return it, None if time is over."""
        full = [number for number in self._blocks if len(self._assigned[number])]
        order = np.random.default_rng([self._seed, self._passes]).permutation(full).tolist()
        seed = self._seed, self._passes
        stops = [(number, (*arguments_of(number), (*seed, number))) for number in order]
        end = self._executor.chain(step, state, stops, is_over)
        if end is None:
            return None
        for number, pairs in zip(order, end[1], strict=True):
            self._pairs[number] = pairs
        self._passes += 1
        return end[0]

    def _climb_gathered(self, rows: list[NDArray[np.int32]], is_over: Callable[[], bool]) -> bool:
        """Gather the rows of active pairs, ascending in each block, and take passes over these pairs.

        Return False, with nothing changed, if time is over.
        """
        arguments = [(self._pair, each) if len(each) else None for each in rows]
        parts = self._executor.each(gather_rows, arguments, is_over)
        if parts is None:
            return False
        if parts:
            X, outside, weights = concatenate(parts)
            active = [_select(pairs, pairs.active) for pairs in self._pairs]
            offsets = np.cumsum([0, *map(len, rows)])[:-1]
            places = [
                offset + np.searchsorted(each, pairs.rows)
                for offset, each, pairs in zip(offsets, rows, active, strict=True)
            ]
            columns = [np.concatenate(each) for each in list(zip(*active, strict=True))[1:]]
            self._W, climbed, _ = climb_pairs(
                X, outside, self._pair.C * weights, self._W,
                Pairs(np.concatenate(places).astype(np.int32), *columns), np.full(self._K, np.inf),
                scale=self._scale, seed=(self._seed, self._passes), passes=self._options.max_scans,
                accuracy=self._slope, is_over=is_over,
            )  # fmt: skip
            ends = np.cumsum([len(pairs.rows) for pairs in active])[:-1]
            changes = zip(np.split(climbed.alpha, ends), np.split(climbed.active, ends), strict=True)
            for pairs, (alpha, is_active) in zip(self._pairs, changes, strict=True):
                pairs.alpha[pairs.active] = alpha
                pairs.active[pairs.active] = is_active
        self._passes += 1
        return True


def _select(pairs: Pairs, mask: Any) -> Pairs:
    return Pairs(*(column[mask] for column in pairs))


# -- steps on a block ---------------------------------------------------------------------------------


def assign_block(samples: Samples, number: int, pair: Pair, assigning: Vector) -> NDArray[np.integer]:
    """Return the face of `assigning` (K, m+1) with the highest score of each sample outside; -1 inside."""
    X, outside = two_classes(samples, pair)[:2]
    return assign_faces(X, outside, assigning).astype(np.min_scalar_type(-len(assigning)))


def assign_faces(X: Any, outside: NDArray[np.bool_], faces: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the face of `faces` (K, m+1) with the highest score of each sample outside; -1 inside."""
    assigned = np.full(len(outside), -1)
    for first in range(0, len(outside), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        rows = X[part] if sp.issparse(X) else np.asarray(X[part], dtype=float)
        assigned[part] = (np.asarray(rows @ faces[:, :-1].T) + faces[:, -1]).argmax(axis=1)
    assigned[~outside] = -1
    return assigned


def release_block(
    samples: Samples, number: int, pair: Pair, scale: float, assigned: Assignment, n_faces: int, pairs: Pairs
) -> tuple[Vector, Pairs]:
    """Remove multipliers of reassigned samples: return the change of the faces, and the other pairs."""
    X, outside = two_classes(samples, pair)[:2]
    return release(X, outside, assigned, n_faces, pairs, scale)


def sweep_block(
    W: Vector, samples: Samples, number: int, pair: Pair, scale: float, single: bool, assigned: Assignment,
    pairs: Pairs, seed: tuple[int, ...],
) -> tuple[Vector, Pairs]:  # fmt: skip
    """Take a step on every pair of a block; return the faces and the pairs."""
    X, outside, weights = two_classes(samples, pair)
    data = as_rows(X), outside, pair.C * weights, assigned
    return BlockAscent(*data, W, pairs, scale=scale, single=single, seed=seed).sweep_all()


def scan_block(
    samples: Samples, number: int, W: Vector, pair: Pair, scale: float, single: bool, assigned: Assignment,
    pairs: Pairs,
) -> tuple[Vector, Pairs, int]:  # fmt: skip
    """Return the loss of a block on every face (K,), the active pairs, and the entries of X."""
    if not len(assigned):
        return np.zeros(len(W)), pairs, 0
    X, outside, weights = two_classes(samples, pair)
    rows = as_rows(X)
    data = rows, outside, pair.C * weights, assigned
    losses, active = BlockAscent(*data, W, pairs, scale=scale, single=single).find_active()
    return losses, active, len(rows.values)


def climb_block(
    state: tuple[Vector, Vector], samples: Samples, number: int, pair: Pair, scale: float, slopes: Vector,
    pairs: Pairs, seed: tuple[int, ...],
) -> tuple[tuple[Vector, Vector], Pairs]:  # fmt: skip
    """Take a pass over the active pairs of a block.

    state: the faces W (K, m+1), and their largest projected gradients (K,) in this pass so far.
    slopes (K,): those of the pass before.
    """
    (W, worst), (X, outside, weights) = state, two_classes(samples, pair)
    W, pairs, largest = climb_pairs(X, outside, pair.C * weights, W, pairs, slopes, scale=scale, seed=seed)
    return (W, np.maximum(worst, largest)), pairs


def gather_rows(samples: Samples, number: int, pair: Pair, rows: NDArray[np.int32]) -> TwoClasses:
    """Return some rows of a block."""
    return TwoClasses(*(values[rows] for values in two_classes(samples, pair)))


def pull_block(
    samples: Samples, number: int, pair: Pair, assigned: Assignment, multipliers: Multipliers, n_faces: int
) -> Tally:
    """Return Σ α_ik and ½ Σ α_ik y_i x̃_i of a block's multipliers."""
    return reduce_dual(_block(samples, pair, assigned), multipliers, n_faces)


def weigh_block(
    samples: Samples, number: int, pair: Pair, assigned: Assignment, multipliers: Multipliers, W: Vector,
    scale: float, min_decrease: float,
) -> Tally:  # fmt: skip
    """Return the loss of a block at the faces W (K, m+1), with the violation of every optimality condition.

    min_decrease: decrease of its hinge above which a sample outside changes its face.
    """
    return reduce_primal(_block(samples, pair, assigned), multipliers, W, scale, min_decrease)


def _block(samples: Samples, pair: Pair, assigned: Assignment) -> AssignedBlock:
    X, outside, weights = two_classes(samples, pair)
    return AssignedBlock(X, outside, pair.C * weights, assigned)
