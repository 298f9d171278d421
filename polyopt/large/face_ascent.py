"""The programs of a polytope's faces for a fixed assignment, by coordinate steps on multipliers in blocks.

This is for samples with many features. An iteration of the interior point costs n m² for every face; here
nothing costs more than n m, and the gap falls to some 1e-4 in a few scans. The method is that of the solver
in memory (:mod:`polyopt.cpm.dual`), a block at a time:

1. two sweeps over all samples, from multipliers of 0;
2. a scan of all samples at the current faces, which measures the gap and finds the pairs of a sample and a
   face that may move;
3. passes over these pairs, in which a block's rows are read where they are; then a scan again. In such a pass
   all faces go from block to block, which costs much more than the steps if some hundred pairs are left. If
   the rows are few, they are therefore gathered in the driving process, once for all passes until the scan.

A step needs the face that the step before it has made, so blocks come one after another. Faces are
independent: groups of them go through the blocks side by side, and scans have all blocks side by side. The
groups, the order of the blocks and that of the pairs follow from K, the blocks and the seed alone: so do all
bits. More workers than groups (one for eight faces) speed up scans only. The driving process keeps the
multipliers of pairs that may move, 17 bytes for each, and sends them to the blocks and back.

The functions below :class:`FaceAscents` are steps of folds (:class:`polyopt.large.executor.Fold`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.types import is_sparse
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
from polyopt.large.blocks import ROWS_AT_ONCE, Recipe, TwoClasses, concatenate, two_classes
from polyopt.large.executor import Executor, Fold
from polyopt.large.sources import Samples
from polyopt.linalg.rows import as_rows
from polyopt.margin.interior_point.crew import total

Vector = NDArray[np.float64]
Owners = NDArray[np.integer[Any]]  # the face of each sample outside, of a block; -1 inside
Groups = Sequence[NDArray[np.int64]]

MIN_HINGE_DECREASE = 1e-7
"""Decrease of a hinge above which a positive changes its face."""


@dataclass(frozen=True)
class Options:
    """Numbers of the ascent.

    faces_together: faces of a group, which go through the blocks together.
    max_scans: scans, and passes over gathered rows between two scans.
    max_passes_by_blocks: passes through the blocks between two scans.
    max_gathered_entries: entries of the rows that are gathered.
    first_slope, slope_ratio, min_slope: largest slope after the passes between two scans: at first, its
        factor from scan to scan, and its lower limit.
    stall_scans, min_bound_gain: a run stalls if the bound gains less, relatively, in so many scans.
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


def scaled(faces: Vector, scale: float) -> Vector:
    """Return faces (K, m+1) for samples whose entries are to be multiplied by `scale`."""
    return faces if scale == 1.0 else np.column_stack([scale * faces[:, :-1], faces[:, -1]])


class Proof(NamedTuple):
    """Faces (K, m+1), halves of their certificates, and the tally of the samples' losses."""

    W: Vector
    halves: list[Certificate]
    losses: Tally


class Setting(NamedTuple):
    """The arguments of a pass.

    scale: factor of every entry of the samples.
    single: True for scans in single precision.
    """

    recipe: Recipe
    scale: float
    single: bool


class GroupState(NamedTuple):
    """The state of a group's fold: its faces W (K, m+1) and their largest slopes (K,) in the pass."""

    W: Vector
    slopes: Vector


class FaceAscents:
    """The multipliers of all faces, from round to round.

    scale: factor of every entry of the samples; `largest` is the largest entry, unscaled.
    seed: of the order of the steps.
    """

    def __init__(
        self, executor: Executor, recipe: Recipe, n_faces: int, n_features: int, *, scale: float = 1.0,
        largest: float = np.inf, seed: int = 0, options: Options | None = None,
    ):  # fmt: skip
        self._executor, self._recipe, self._K, self._options = executor, recipe, n_faces, options or Options()
        self._scale, self._seed, self._blocks = scale, seed, range(executor.count)
        self._is_small = largest * scale < self._options.max_entry_single
        self._groups = np.array_split(np.arange(n_faces), -(-n_faces // self._options.faces_together))
        self._assigned: list[Owners] = []
        self._full: list[int] = []  # blocks with samples
        self._width = float(n_features)  # mean number of entries of a row
        self._setting = Setting(recipe, scale, False)
        self._W = np.zeros((n_faces, n_features + 1))
        self._pairs = [no_pairs() for _ in self._blocks]
        self._passes, self.scans, self._slope = 0, 0, self._options.first_slope
        self._bounds: list[float] = []  # one for each scan

    # -- rounds ----------------------------------------------------------------------------------

    def assign(self, assigning: Vector, *, is_resumed: bool = False) -> None:
        """Assign each sample outside to the face of `assigning` (K, m+1) with its highest score.

        is_resumed: True if these faces assigned already before a checkpoint.
        """
        dtype = np.min_scalar_type(-self._K)
        self._assigned = self._each(
            assign_block, lambda number: (self._recipe, scaled(assigning, self._scale), dtype)
        )
        self._full = [number for number in self._blocks if len(self._assigned[number])]
        if is_resumed or not self._passes:
            return
        found = self._each(
            release_block,
            lambda number: (self._setting, self._assigned[number], self._K, self._pairs[number]),
        )
        self._W = self._W - total([removed for removed, _ in found])
        self._pairs = [pairs for _, pairs in found]
        self.scans, self._slope, self._bounds = 0, self._options.first_slope, []

    def run(
        self, tol: float, max_iter: int | None, clock: Clock,
        save: Callable[[dict[str, Any]], None] | None = None,
    ) -> Status:  # fmt: skip
        """Climb until the relative gap, as scans measure it, is `tol`, or for `max_iter` scans."""
        options, is_over = self._options, lambda: clock.is_over
        self._setting = self._setting._replace(single=self._is_small and tol >= options.min_tol_single)
        while self._passes < 2:  # from multipliers of 0
            if self._fold(sweep_block, [()] * len(self._groups), is_over) is None:
                return Status.TIME_LIMIT
        while True:
            if save is not None:
                save(self.state())
            found = self._scan(tol, is_over)
            if found is None:
                return Status.TIME_LIMIT
            value, bound = found
            record = {"iteration": float(self.scans), "seconds": clock.seconds}
            tell(record | {"objective": value, "bound": bound})
            if relative_gap(value, bound) <= 0.9 * tol:  # single precision sees less of it than a proof does
                return Status.SOLVED
            self._bounds.append(bound)
            if self.scans >= (max_iter or options.max_scans):
                return Status.ITERATION_LIMIT
            last = self._bounds[-options.stall_scans :]
            if len(last) == options.stall_scans and last[-1] - last[0] <= options.min_bound_gain * abs(bound):
                return Status.STALLED
            if not self._climb(is_over):
                return Status.TIME_LIMIT

    def prove(self, tol: float, assigning: Vector | None = None) -> Proof:
        """Certify the faces of the multipliers to `tol`, or `assigning` if its objective is lower."""
        gains = merge(
            self._each(pull_block, lambda number: (self._recipe, *self._multipliers(number), self._K))
        )
        W = implied_faces(gains, self._scale)[1]
        self._W, proofs = W.copy(), []
        for faces in [W] if assigning is None else [W, assigning]:
            at = (faces, self._scale, MIN_HINGE_DECREASE)
            given = [(self._recipe, *self._multipliers(number), *at) for number in self._blocks]
            losses = merge(self._executor.each(weigh_block, given))
            proofs.append(Proof(faces, certify_halves(gains, losses, faces, self._scale, tol), losses))
        return min(proofs, key=lambda each: sum(half.primal_value for half in each.halves))

    def _each(
        self, step: Callable[..., Any], given: Callable[[int], tuple[Any, ...]],
        is_over: Callable[[], bool] | None = None,
    ) -> Any:  # fmt: skip
        return self._executor.each(step, [given(number) for number in self._blocks], is_over)

    def _multipliers(self, number: int) -> tuple[Any, Multipliers]:
        return self._assigned[number], Multipliers(*self._pairs[number][:3])

    # -- passes ----------------------------------------------------------------------------------

    def _scan(self, tol: float, is_over: Callable[[], bool]) -> tuple[float, float] | None:
        """Scan all rows: return objective and bound, and mark the active pairs of faces with a large gap."""
        firsts = [int(group[0]) for group in self._groups]
        parts = [self._W[group] for group in self._groups]
        found = self._each(
            scan_block,
            lambda number: (self._setting, self._assigned[number], firsts, parts,
                            split(self._groups, self._pairs[number])),
            is_over,
        )  # fmt: skip
        if found is None:
            return None
        self._pairs, self.scans = [merged(self._groups, pairs) for _, pairs, _ in found], self.scans + 1
        self._width = sum(entries for *_, entries in found) / max(sum(map(len, self._assigned)), 1)
        squares = np.einsum("kj,kj->k", self._W, self._W)
        values = squares + total([losses for losses, *_ in found])
        gains = total([np.bincount(pairs.faces, pairs.alpha, self._K) for pairs in self._pairs])
        bounds = gains - squares
        is_open = values - bounds > 0.5 * tol * (values + values.mean())
        for pairs in self._pairs:
            pairs.active[:] = is_open[pairs.faces]
        return float(values.sum()), float(bounds.sum())

    def _climb(self, is_over: Callable[[], bool]) -> bool:
        """Take passes over the active pairs; return False if time is over before they end."""
        used = [np.unique(each.rows[each.active]) for each in self._pairs]
        if self._width * sum(map(len, used)) <= self._options.max_gathered_entries:
            seed = int(np.random.default_rng([self._seed, self._passes]).integers(1 << 31))
            found = climb_gathered(
                self._executor, self._recipe, self._W, self._pairs, used, self._slope, scale=self._scale,
                seed=seed, passes=self._options.max_scans, is_over=is_over,
            )  # fmt: skip
            if found is None:
                return False
            self._W, self._pairs = found
            self._passes += 1
        elif not self._pass_by_blocks(is_over):
            return False
        self._slope = max(self._options.slope_ratio * self._slope, self._options.min_slope)
        return True

    def _pass_by_blocks(self, is_over: Callable[[], bool]) -> bool:
        """Take passes of all faces through the blocks; return False if time is over before they end."""
        slopes = np.full(self._K, np.inf)
        for _ in range(self._options.max_passes_by_blocks):
            found = self._fold(climb_block, [(slopes[group],) for group in self._groups], is_over)
            if found is None:
                return False
            slopes = np.concatenate(found)
            if slopes.max() <= self._slope:
                break
        return True

    def _fold(
        self, step: Callable[..., Any], given: Sequence[tuple[Any, ...]], is_over: Callable[[], bool]
    ) -> list[Vector] | None:
        """Pass every group through all blocks; return the largest slopes, or None if time is over."""
        order = np.random.default_rng([self._seed, self._passes]).permutation(self._full).tolist()
        seed = self._seed, self._passes
        parts = {number: split(self._groups, self._pairs[number]) for number in order}
        folds = [
            Fold(
                GroupState(self._W[group], np.zeros(len(group))),
                [
                    (number, (self._setting, self._assigned[number], int(group[0]), parts[number][place],
                              seed, *given[place]))
                    for number in order
                ],
                leaves=True,
            )
            for place, group in enumerate(self._groups)
        ]  # fmt: skip
        found: list[tuple[GroupState, list[Pairs]]] | None = self._executor.fold(step, folds, is_over)
        if found is None:
            return None
        for group, (state, _) in zip(self._groups, found, strict=True):
            self._W[group] = state.W
        for place, number in enumerate(order):
            self._pairs[number] = merged(self._groups, [results[place] for _, results in found])
        self._passes += 1
        return [state.slopes for state, _ in found]

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the state at a scan, for a checkpoint."""
        return {
            "faces now": self._W, "counts": np.array([len(each.rows) for each in self._pairs]),
            **{name: np.concatenate(each)
               for name, each in zip(Pairs._fields[:3], zip(*self._pairs, strict=True), strict=False)},
            "passes": self._passes, "scans": self.scans, "accuracy": self._slope,
            "gained": np.array(self._bounds),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a state; the assignment is to follow."""
        cuts = np.cumsum(state["counts"])[:-1]
        rows, faces, alpha = (np.split(state[name], cuts) for name in Pairs._fields[:3])
        self._pairs = [
            Pairs(*each, np.ones(len(each[0]), bool)) for each in zip(rows, faces, alpha, strict=True)
        ]
        self._W, self._passes, self.scans = state["faces now"], state["passes"], state["scans"]
        self._slope, self._bounds = state["accuracy"], state["gained"].tolist()


# -- steps of folds ----------------------------------------------------------------------------------


def assign_block(
    _: None, samples: Samples, number: int, recipe: Recipe, assigning: Vector, dtype: np.dtype[Any]
) -> NDArray[np.integer]:
    """Return the face of `assigning`, scaled, with the highest score of each sample outside; -1 inside."""
    X, outside = two_classes(samples, recipe)[:2]
    found = np.full(len(outside), -1, dtype)
    outside_rows = np.flatnonzero(outside)
    for first in range(0, len(outside_rows), ROWS_AT_ONCE):
        rows = outside_rows[first : first + ROWS_AT_ONCE]
        X_part = X[rows] if is_sparse(X) else np.asarray(X[rows], dtype=float)
        found[rows] = (np.asarray(X_part @ assigning[:, :-1].T) + assigning[:, -1]).argmax(axis=1)
    return found


def release_block(
    _: None, samples: Samples, number: int, setting: Setting, owners: Owners, n_faces: int, pairs: Pairs
) -> tuple[Vector, Pairs]:
    """Remove multipliers of reassigned samples: return the change of the faces, and the other pairs."""
    X, outside = two_classes(samples, setting.recipe)[:2]
    return release(X, outside, owners, n_faces, pairs, setting.scale)


def sweep_block(
    state: GroupState, samples: Samples, number: int, setting: Setting, owners: Owners, first: int,
    pairs: Pairs, seed: tuple[int, int],
) -> tuple[GroupState, Pairs]:  # fmt: skip
    """Take a step of a group on every pair of a block."""
    block = two_classes(samples, setting.recipe)
    rows, turn = as_rows(block.X), _turn(seed, number, first)
    W, found = _ascent(block, rows, setting, owners, first, state.W, pairs, turn).sweep_all()
    return GroupState(W, state.slopes), found


def scan_block(
    _: None, samples: Samples, number: int, setting: Setting, owners: Owners, firsts: list[int],
    parts: list[Vector], pairs_of_groups: list[Pairs],
) -> tuple[Vector, list[Pairs], int]:  # fmt: skip
    """Return the loss of a block on every face (K,), the pairs that may move, by groups, and its entries."""
    if not len(owners):
        return np.zeros(sum(map(len, parts))), pairs_of_groups, 0
    block = two_classes(samples, setting.recipe)
    rows = as_rows(block.X)
    found = [
        _ascent(block, rows, setting, owners, first, W, pairs, 0).find_active()
        for first, W, pairs in zip(firsts, parts, pairs_of_groups, strict=True)
    ]
    losses, pairs = zip(*found, strict=True)
    return np.concatenate(losses), list(pairs), len(rows.values)


def climb_block(
    state: GroupState, samples: Samples, number: int, setting: Setting, owners: Owners, first: int,
    pairs: Pairs, seed: tuple[int, int], slopes: Vector,
) -> tuple[GroupState, Pairs]:  # fmt: skip
    """Take a pass of a group over the active pairs of a block."""
    X, outside, weights = two_classes(samples, setting.recipe)
    W, pairs, largest = climb_pairs(
        X, outside, setting.recipe.C * weights, state.W, pairs, slopes, scale=setting.scale,
        seed=_turn(seed, number, first),
    )  # fmt: skip
    return GroupState(W, np.maximum(state.slopes, largest)), pairs


def _ascent(
    block: TwoClasses, rows: Any, setting: Setting, owners: Owners, first: int, W: Vector, pairs: Pairs,
    seed: int,
) -> BlockAscent:  # fmt: skip
    """Make the ascent of a group, whose first face is `first`, on a block."""
    faces = np.asarray(owners, dtype=np.int64) - first
    costs = setting.recipe.C * block.weights
    return BlockAscent(
        rows, block.outside, costs, faces, W, pairs, scale=setting.scale, single=setting.single, seed=seed
    )


def _turn(seed: tuple[int, int], number: int, first: int) -> int:
    return int(np.random.default_rng([*seed, number, first]).integers(1 << 31))


def climb_gathered(
    executor: Executor, recipe: Recipe, W: Vector, pairs: Sequence[Pairs], used: Sequence[NDArray[np.int32]],
    accuracy: float, *, scale: float, seed: int, passes: int, is_over: Callable[[], bool],
) -> tuple[Vector, list[Pairs]] | None:  # fmt: skip
    """Gather the rows `used` of the active pairs of every block, and take passes over these pairs.

    They end when the largest slope is `accuracy`. Return the faces (K, m+1) and the pairs of every block, or
    None, and nothing has changed, if time is over.
    """
    found = executor.each(gather_rows, [(recipe, rows) if len(rows) else None for rows in used], is_over)
    if found is None:
        return None
    if not found:
        return W, list(pairs)
    X, outside, weights = concatenate(found)
    firsts = np.cumsum([0, *map(len, used)])
    rows = [
        first + np.searchsorted(gathered, each.rows[each.active])
        for first, gathered, each in zip(firsts[:-1], used, pairs, strict=True)
    ]
    faces = np.concatenate([each.faces[each.active] for each in pairs])
    alpha = np.concatenate([each.alpha[each.active] for each in pairs])
    given = Pairs(np.concatenate(rows).astype(np.int32), faces, alpha, np.ones(len(alpha), bool))
    W, moved, _ = climb_pairs(
        X, outside, recipe.C * weights, W, given, np.full(len(W), np.inf), scale=scale, seed=seed,
        passes=passes, accuracy=accuracy, is_over=is_over,
    )  # fmt: skip
    ends = np.cumsum([int(each.active.sum()) for each in pairs])[:-1]
    after = []
    for each, alpha, active in zip(
        pairs, np.split(moved.alpha, ends), np.split(moved.active, ends), strict=True
    ):
        alphas, states = each.alpha.copy(), each.active.copy()
        alphas[each.active], states[each.active] = alpha, active
        after.append(each._replace(alpha=alphas, active=states))
    return W, after


def gather_rows(
    _: None, samples: Samples, number: int, recipe: Recipe, used: NDArray[np.int32]
) -> TwoClasses:
    """Return the rows `used` of a block."""
    X, outside, weights = two_classes(samples, recipe)
    return TwoClasses(X[used], outside[used], weights[used])


def pull_block(
    _: None, samples: Samples, number: int, recipe: Recipe, owners: Owners, given: Multipliers, n_faces: int
) -> Tally:
    """Return the gain and the pull of a block's multipliers."""
    return reduce_dual(_block(samples, recipe, owners), given, n_faces)


def weigh_block(
    _: None, samples: Samples, number: int, recipe: Recipe, owners: Owners, given: Multipliers, W: Vector,
    scale: float, least: float,
) -> Tally:  # fmt: skip
    """Return the loss of a block, with every optimality condition."""
    return reduce_primal(_block(samples, recipe, owners), given, W, scale, least)


def _block(samples: Samples, recipe: Recipe, owners: Owners) -> AssignedBlock:
    X, outside, weights = two_classes(samples, recipe)
    return AssignedBlock(X, outside, recipe.C * weights, owners)


# -- pairs by groups of faces ------------------------------------------------------------------------


def split(groups: Groups, pairs: Pairs) -> list[Pairs]:
    """Return the pairs of each group, their faces counted from the group's first."""
    found = []
    for group in groups:
        is_of_group = (pairs.faces >= group[0]) & (pairs.faces <= group[-1])
        part = Pairs(*(each[is_of_group] for each in pairs))
        found.append(part._replace(faces=part.faces - np.int32(group[0])))
    return found


def merged(groups: Groups, parts: Sequence[Pairs]) -> Pairs:
    """Undo :func:`split`; the pairs are ordered by groups."""
    renumbered = [
        pairs._replace(faces=pairs.faces + np.int32(group[0]))
        for group, pairs in zip(groups, parts, strict=True)
    ]
    return Pairs(*(np.concatenate(each) for each in zip(*renumbered, strict=True)))
