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

A step needs the face that the step before it has left, so a face visits the blocks one after another. The
programs of the faces are independent: groups of eight faces visit the blocks side by side, and a scan reads
all blocks side by side. More workers than groups speed up scans only. The groups, the orders of blocks and
pairs, and so all bits of the result, follow from K, the blocks and the seed. The driving process keeps the
multipliers of active pairs, 17 bytes for each, and sends them to the blocks and back.

The functions below :class:`FaceAscents` are steps of folds (:class:`polyopt.scale.executor.Fold`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from polyopt.scale.checkpoint import saved
from polyopt.scale.crew import total
from polyopt.scale.executor import Executor, Fold
from polyopt.scale.sources import Samples

Vector = NDArray[np.float64]
Assignment = NDArray[np.integer[Any]]  # (n,): the face of each sample outside, -1 for samples inside
Groups = Sequence[NDArray[np.int64]]  # the faces of each group, successive numbers

MIN_HINGE_DECREASE = 1e-7
"""Decrease of a hinge above which a positive changes its face."""


@dataclass(frozen=True)
class Options:
    """Numbers of the ascent.

    faces_together: faces of a group.
    max_scans: scans, and passes over gathered rows between two scans, at most.
    max_passes_by_blocks: passes by blocks between two scans at most.
    max_gathered_entries: entries of the rows that are gathered at most.
    first_slope, slope_ratio, min_slope: tolerance of the projected gradient at which the passes between two
        scans end: the first one, its factor from scan to scan, and its lower limit.
    stall_scans, min_bound_gain: a run has stalled if the lower bound rises by less, relatively, in so many
        scans.
    max_entry_single, min_tol_single: largest entry and smallest tolerance for scans in single precision.
    """

    faces_together: int = 8
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


saved(Pairs)
_SAVED = ("_W", "_pairs", "_passes", "scans", "_slope", "_bounds", "_seed")  # attributes in a checkpoint


class Setting(NamedTuple):
    """The arguments that all steps have in common.

    scale: factor of every entry of the samples.
    single: True for scans and sweeps in single precision.
    """

    pair: Pair
    scale: float
    single: bool


class GroupState(NamedTuple):
    """A group between two blocks: its faces W (K, m+1), and their largest projected gradients (K,) so far."""

    W: Vector
    slopes: Vector


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
        self._groups = np.array_split(np.arange(n_faces), -(-n_faces // self._options.faces_together))
        self._assigned: list[Assignment] = []
        self._full: list[int] = []  # blocks with samples
        self._width = float(n_features)  # mean number of entries of a row
        self._setting = Setting(pair, scale, False)
        self._W = np.zeros((n_faces, n_features + 1))
        self._pairs = [no_pairs() for _ in self._blocks]
        self._passes, self.scans, self._slope = 0, 0, self._options.first_slope
        self._bounds: list[float] = []  # one for each scan

    # -- rounds ----------------------------------------------------------------------------------

    def assign(self, assigning: Vector, resumed: dict[str, Any] | None = None) -> None:
        """Assign each sample outside to the face of `assigning` (K, m+1) with its highest score.

        resumed: the state of a checkpoint, which was written after these faces had assigned.
        """
        self._assigned = self._each(assign_block, lambda number: (self._pair, scaled(assigning, self._scale)))
        self._full = [number for number in self._blocks if len(self._assigned[number])]
        if resumed is not None:
            vars(self).update(resumed)
            return
        if not self._passes:
            return
        results = self._each(
            release_block,
            lambda number: (self._setting, self._assigned[number], self._K, self._pairs[number]),
        )
        self._W = self._W - total([change for change, _ in results])
        self._pairs = [pairs for _, pairs in results]
        self.scans, self._slope, self._bounds = 0, self._options.first_slope, []

    def run(self, tol: float, clock: Clock, save: Callable[[dict[str, Any]], None]) -> Status:
        """Climb until the relative gap, as scans measure it, is `tol`, or for `max_scans` scans."""
        options, is_over = self._options, lambda: clock.is_over
        self._setting = self._setting._replace(single=self._is_small and tol >= options.min_tol_single)
        while self._passes < 2:  # from multipliers of 0
            if self._fold(sweep_block, [()] * len(self._groups), is_over) is None:
                return Status.TIME_LIMIT
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

    # -- passes ----------------------------------------------------------------------------------

    def _scan(self, tol: float, is_over: Callable[[], bool]) -> tuple[float, float] | None:
        """Scan all samples: return objective and bound, and find active pairs of faces with a large gap."""
        results = self._each(
            scan_block,
            lambda number: (
                self._setting,
                self._assigned[number],
                self._groups,
                self._W,
                self._pairs[number],
            ),
            is_over,
        )
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
        if self._width * sum(map(len, rows)) <= self._options.max_gathered_entries:
            seed = int(np.random.default_rng([self._seed, self._passes]).integers(1 << 31))
            result = climb_gathered(
                self._executor, self._pair, self._W, self._pairs, rows, self._slope, scale=self._scale,
                seed=seed, max_passes=self._options.max_scans, is_over=is_over,
            )  # fmt: skip
            if result is None:
                return False
            self._W, self._pairs = result
            self._passes += 1
        elif not self._pass_by_blocks(is_over):
            return False
        self._slope = max(self._options.slope_ratio * self._slope, self._options.min_slope)
        return True

    def _pass_by_blocks(self, is_over: Callable[[], bool]) -> bool:
        """Take passes of all faces through the blocks; return False if time is over before they end."""
        slopes = np.full(self._K, np.inf)
        for _ in range(self._options.max_passes_by_blocks):
            slopes_of_groups = self._fold(climb_block, [(slopes[group],) for group in self._groups], is_over)
            if slopes_of_groups is None:
                return False
            slopes = np.concatenate(slopes_of_groups)
            if slopes.max() <= self._slope:
                break
        return True

    def _fold(
        self, step: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], is_over: Callable[[], bool]
    ) -> list[Vector] | None:
        """Take every group through all blocks.

        arguments: further arguments of the step, for each group.
        Returns: the largest projected gradient of each face, by groups; None if time is over.
        """
        order = np.random.default_rng([self._seed, self._passes]).permutation(self._full).tolist()
        seed = self._seed, self._passes
        pairs = {number: split_by_groups(self._groups, self._pairs[number]) for number in order}
        folds = [
            Fold(
                GroupState(self._W[group], np.zeros(len(group))),
                [
                    (number, (self._setting, self._assigned[number], int(group[0]), pairs[number][g], seed,
                              *arguments[g]))
                    for number in order
                ],
                leaves=True,
            )
            for g, group in enumerate(self._groups)
        ]  # fmt: skip
        ends: list[tuple[GroupState, list[Pairs]]] | None = self._executor.fold(step, folds, is_over)
        if ends is None:
            return None
        for group, (state, _) in zip(self._groups, ends, strict=True):
            self._W[group] = state.W
        for position, number in enumerate(order):
            self._pairs[number] = merge_groups(self._groups, [results[position] for _, results in ends])
        self._passes += 1
        return [state.slopes for state, _ in ends]


# -- steps of folds ----------------------------------------------------------------------------------


def assign_block(
    _: None, samples: Samples, number: int, pair: Pair, assigning: Vector
) -> NDArray[np.integer]:
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
    _: None, samples: Samples, number: int, setting: Setting, assigned: Assignment, n_faces: int, pairs: Pairs
) -> tuple[Vector, Pairs]:
    """Remove multipliers of reassigned samples: return the change of the faces, and the other pairs."""
    X, outside = two_classes(samples, setting.pair)[:2]
    return release(X, outside, assigned, n_faces, pairs, setting.scale)


def sweep_block(
    state: GroupState, samples: Samples, number: int, setting: Setting, assigned: Assignment, first: int,
    pairs: Pairs, seed: tuple[int, int],
) -> tuple[GroupState, Pairs]:  # fmt: skip
    """Take a step of a group on every pair of a block."""
    block = two_classes(samples, setting.pair)
    ascent = _ascent(
        block, as_rows(block.X), setting, assigned, first, state.W, pairs, _block_seed(seed, number, first)
    )
    W, pairs = ascent.sweep_all()
    return GroupState(W, state.slopes), pairs


def scan_block(
    _: None, samples: Samples, number: int, setting: Setting, assigned: Assignment, groups: Groups, W: Vector,
    pairs: Pairs,
) -> tuple[Vector, Pairs, int]:  # fmt: skip
    """Return the loss of a block on every face (K,), the active pairs, and the entries of X."""
    if not len(assigned):
        return np.zeros(len(W)), pairs, 0
    block = two_classes(samples, setting.pair)
    rows = as_rows(block.X)
    results = [
        _ascent(block, rows, setting, assigned, int(group[0]), W[group], part, 0).find_active()
        for group, part in zip(groups, split_by_groups(groups, pairs), strict=True)
    ]
    losses, active = zip(*results, strict=True)
    return np.concatenate(losses), merge_groups(groups, active), len(rows.values)


def climb_block(
    state: GroupState, samples: Samples, number: int, setting: Setting, assigned: Assignment, first: int,
    pairs: Pairs, seed: tuple[int, int], slopes: Vector,
) -> tuple[GroupState, Pairs]:  # fmt: skip
    """Take a pass of a group over the active pairs of a block."""
    X, outside, weights = two_classes(samples, setting.pair)
    W, pairs, largest = climb_pairs(
        X, outside, setting.pair.C * weights, state.W, pairs, slopes, scale=setting.scale,
        seed=_block_seed(seed, number, first),
    )  # fmt: skip
    return GroupState(W, np.maximum(state.slopes, largest)), pairs


def _ascent(
    block: TwoClasses, rows: Any, setting: Setting, assigned: Assignment, first: int, W: Vector, pairs: Pairs,
    seed: int,
) -> BlockAscent:  # fmt: skip
    """Make the ascent of a group, whose first face is `first`, on a block."""
    faces = np.asarray(assigned, dtype=np.int64) - first
    costs = setting.pair.C * block.weights
    return BlockAscent(
        rows, block.outside, costs, faces, W, pairs, scale=setting.scale, single=setting.single, seed=seed
    )


def _block_seed(seed: tuple[int, int], number: int, first: int) -> int:
    """Return the seed of a visit, for the seed of the pass, the block and the first face of the group."""
    return int(np.random.default_rng([*seed, number, first]).integers(1 << 31))


def climb_gathered(
    executor: Executor, pair: Pair, W: Vector, pairs: Sequence[Pairs],
    gathered: Sequence[NDArray[np.int32]], slope: float, *, scale: float, seed: int, max_passes: int,
    is_over: Callable[[], bool],
) -> tuple[Vector, list[Pairs]] | None:  # fmt: skip
    """Gather rows of all blocks, and take passes over the active pairs.

    W (K, m+1): the faces.
    pairs: the pairs of each block; the rows of its active ones are in `gathered`, in ascending order.
    slope: the passes end if no projected gradient is larger.
    Returns: the new faces and pairs; None, with nothing changed, if time is over.
    """
    parts = executor.each(gather_rows, [(pair, rows) if len(rows) else None for rows in gathered], is_over)
    if parts is None:
        return None
    if not parts:
        return W, list(pairs)
    X, outside, weights = concatenate(parts)
    offsets = np.cumsum([0, *map(len, gathered)])[:-1]
    active = [_select(block, block.active) for block in pairs]
    positions = [
        offset + np.searchsorted(rows, block.rows)
        for offset, rows, block in zip(offsets, gathered, active, strict=True)
    ]
    gathered_pairs = Pairs(
        np.concatenate(positions).astype(np.int32),
        *(np.concatenate([getattr(block, name) for block in active]) for name in Pairs._fields[1:]),
    )
    W, climbed, _ = climb_pairs(
        X, outside, pair.C * weights, W, gathered_pairs, np.full(len(W), np.inf), scale=scale, seed=seed,
        passes=max_passes, accuracy=slope, is_over=is_over,
    )  # fmt: skip
    ends = np.cumsum([len(block.rows) for block in active])[:-1]
    new_pairs = []
    for block, new_alpha, is_active in zip(
        pairs, np.split(climbed.alpha, ends), np.split(climbed.active, ends), strict=True
    ):
        alpha, mask = block.alpha.copy(), block.active.copy()
        alpha[block.active], mask[block.active] = new_alpha, is_active
        new_pairs.append(block._replace(alpha=alpha, active=mask))
    return W, new_pairs


def gather_rows(_: None, samples: Samples, number: int, pair: Pair, rows: NDArray[np.int32]) -> TwoClasses:
    """Return some rows of a block."""
    X, outside, weights = two_classes(samples, pair)
    return TwoClasses(X[rows], outside[rows], weights[rows])


def pull_block(
    _: None, samples: Samples, number: int, pair: Pair, assigned: Assignment, multipliers: Multipliers,
    n_faces: int,
) -> Tally:  # fmt: skip
    """Return Σ α_ik and ½ Σ α_ik y_i x̃_i of a block's multipliers."""
    return reduce_dual(_block(samples, pair, assigned), multipliers, n_faces)


def weigh_block(
    _: None, samples: Samples, number: int, pair: Pair, assigned: Assignment, multipliers: Multipliers,
    W: Vector, scale: float, min_decrease: float,
) -> Tally:  # fmt: skip
    """Return the loss of a block at the faces W (K, m+1), with the violation of every optimality condition.

    min_decrease: decrease of its hinge above which a sample outside changes its face.
    """
    return reduce_primal(_block(samples, pair, assigned), multipliers, W, scale, min_decrease)


def _block(samples: Samples, pair: Pair, assigned: Assignment) -> AssignedBlock:
    X, outside, weights = two_classes(samples, pair)
    return AssignedBlock(X, outside, pair.C * weights, assigned)


# -- pairs by groups of faces ------------------------------------------------------------------------


def split_by_groups(groups: Groups, pairs: Pairs) -> list[Pairs]:
    """Return the pairs of each group, their faces counted from the group's first."""
    pairs_of_groups = []
    for group in groups:
        is_of_group = (pairs.faces >= group[0]) & (pairs.faces <= group[-1])
        part = _select(pairs, is_of_group)
        pairs_of_groups.append(part._replace(faces=part.faces - np.int32(group[0])))
    return pairs_of_groups


def merge_groups(groups: Groups, pairs_of_groups: Sequence[Pairs]) -> Pairs:
    """Undo :func:`split_by_groups`; the pairs are ordered by groups."""
    renumbered = [
        pairs._replace(faces=pairs.faces + np.int32(group[0]))
        for group, pairs in zip(groups, pairs_of_groups, strict=True)
    ]
    return Pairs(*(np.concatenate(columns) for columns in zip(*renumbered, strict=True)))


def _select(pairs: Pairs, mask: Any) -> Pairs:
    return Pairs(*(column[mask] for column in pairs))
