"""The programs of a polytope's faces for a frozen assignment, by coordinate steps on multipliers in blocks.

This is for samples with many features. An iteration of the interior point costs n m² for every face; here
nothing costs more than n m, and the gap falls to some 1e-4 in a few scans. It goes round like the solver in
memory (:mod:`polyopt.cpm.dual`), a block at a time:

1. two sweeps over all samples, from multipliers of 0;
2. a scan of all samples at the faces as they stand, which measures the gap and finds the pairs of a sample
   and a face that may move;
3. passes over these, in each of which a block's rows are read where they are; then a scan again. Such a pass
   has all faces go from block to block, which costs much more than the steps if some hundred pairs are left.
   If the rows are few, they therefore come to whoever drives the ascent, once for all passes until the scan.

A step needs what the one before it has made of its face, so blocks come one after another. The faces do not
depend on each other: groups of them go through the blocks side by side, and scans have all blocks side by
side. The groups, the order of the blocks and that of the pairs follow from K, the blocks and the seed alone:
so do all bits. More workers than groups (one for eight faces) help scans only. Of the multipliers whoever
drives this keeps those of pairs that may move, 17 bytes for each, and they go to the blocks and back.

The functions below :class:`FaceAscents` are steps of walks, which change nothing: each takes what is carried,
the samples and the number of a block, and then what its walk says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.language.solution import Status
from formulations.language.types import is_sparse
from polyopt.base.progress import tell
from polyopt.certificates.certificate import relative_gap
from polyopt.certificates.tally import together
from polyopt.cpm.block_ascent import BlockAscent, Pairs, climb, no_pairs, release
from polyopt.cpm.certificate_by_blocks import Multipliers, Weighed, faces_of, halves_of, pull, weigh
from polyopt.large.held import Walk
from polyopt.large.local_sgd import each_block, joined
from polyopt.large.parts import ROWS_AT_ONCE, Recipe, Sides, sides_of
from polyopt.large.rounds import GAIN, scaled
from polyopt.linalg.rows import as_rows
from polyopt.margin.interior_point.crew import total

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from formulations.language.clock import Clock
    from polyopt.certificates.certificate import Certificate
    from polyopt.certificates.tally import Tally
    from polyopt.large.held import Hands
    from polyopt.large.sources import Samples
    from polyopt.linalg.rows import Rows

    Vector = NDArray[np.float64]
    Save = Callable[[dict[str, Any]], None]
    Groups = Sequence[NDArray[np.int64]]
    Owners = NDArray[np.integer[Any]]  # the face of each sample outside, of a block; as `assigned` has it

__all__ = ["FaceAscents", "Proof"]

_FACES_TOGETHER = 8  # faces that go through the blocks together
_MAX_ROUNDS = 1000  # scans, and passes over gathered rows between two scans
_MAX_GATHERED = 1 << 24  # entries of the rows that are gathered
# Largest slope after the passes between two scans: at first, its factor from scan to scan, and at last.
_FIRST_SLOPE, _SLOPE_FACTOR, _MIN_SLOPE = 1e-2, 0.3, 1e-13
_PATIENCE, _MIN_GAIN = 30, 1e-13  # scans, and relative gain of the bound in them below which a run stalls
_MAX_ENTRY_SINGLE, _MIN_TOL_SINGLE = 1e4, 1e-5  # largest entry and tolerance for scans in single precision


class Proof(NamedTuple):
    """Faces (K, m+1), halves of their proofs, and what the samples pay there."""

    W: Vector
    halves: list[Certificate]
    met: Tally


class How(NamedTuple):
    """What a step is told whatever the block."""

    recipe: Recipe
    scale: float
    single: bool


class Carried(NamedTuple):
    """What a group carries: its faces, and the largest slopes met. It leaves the pairs of each block."""

    W: Vector
    worst: Vector


@dataclass
class _State:
    """The faces, the pairs of every block by groups, and how far the run is."""

    W: Vector
    pairs: list[list[Pairs]]
    passes: int = 0
    scans: int = 0
    accuracy: float = _FIRST_SLOPE
    gained: list[float] = field(default_factory=list)


class FaceAscents:
    """The multipliers of all faces, from round to round.

    count: how many blocks there are.
    scale: what every entry of the samples counts times.
    largest: the largest of these entries, unscaled.
    seed: of the order of the steps.
    """

    def __init__(
        self, hands: Hands, recipe: Recipe, count: int, n_faces: int, n_features: int, *, scale: float = 1.0,
        largest: float = np.inf, seed: int = 0,
    ):  # fmt: skip
        self._hands, self._recipe, self._count, self._K = hands, recipe, count, n_faces
        self._scale, self._seed, self._tame = scale, seed, largest * scale < _MAX_ENTRY_SINGLE
        self._groups = np.array_split(np.arange(n_faces), -(-n_faces // _FACES_TOGETHER))
        self._assigned: list[NDArray[np.integer]] = []
        self._full: list[int] = []
        self._width = float(n_features)  # entries of a row, in the mean
        self._how = How(recipe, scale, False)
        self._state = _State(
            np.zeros((n_faces, n_features + 1)), [[no_pairs() for _ in self._groups] for _ in range(count)]
        )

    @property
    def scans(self) -> int:
        """Scans since the last assignment."""
        return self._state.scans

    # -- rounds ----------------------------------------------------------------------------------

    def assign(self, held: Vector, *, again: bool = False) -> None:
        """Give each sample outside to the face of `held` (K, m+1) with its highest score.

        again: True if these faces assigned already before a checkpoint.
        """
        state = self._state
        kind = np.min_scalar_type(-self._K)
        self._assigned = self._each(assigned, lambda number: (self._recipe, scaled(held, self._scale), kind))
        self._full = [number for number in range(self._count) if len(self._assigned[number])]
        if again or not state.passes:
            return
        found = self._each(released, lambda number: (self._how, self._assigned[number], self._K,
                                                      self._all_pairs(number)))  # fmt: skip
        state.W = state.W - total([gone for gone, _ in found])
        state.pairs = [by_groups(self._groups, pairs) for _, pairs in found]
        state.scans, state.accuracy, state.gained = 0, _FIRST_SLOPE, []

    def run(self, tol: float, max_iter: int | None, clock: Clock, save: Save | None = None) -> Status:
        """Climb until the relative gap is `tol`, as far as scans tell.

        max_iter: scans at most.
        save: takes what is known, at every scan.
        """
        state, is_over = self._state, lambda: clock.is_over
        self._how = self._how._replace(single=self._tame and tol >= _MIN_TOL_SINGLE)
        while state.passes < 2:  # from multipliers of 0
            if not self._sweep(is_over):
                return Status.TIME_LIMIT
        while True:
            if save is not None:
                save(self.known())
            found = self._scan(tol, is_over)
            if found is None:
                return Status.TIME_LIMIT
            value, bound = found
            now = clock.seconds
            tell({"iteration": float(state.scans), "seconds": now, "objective": value, "bound": bound})
            if relative_gap(value, bound) <= 0.9 * tol:  # single precision sees less of it than a proof does
                return Status.SOLVED
            state.gained.append(bound)
            if state.scans >= (max_iter or _MAX_ROUNDS):
                return Status.ITERATION_LIMIT
            last = state.gained[-_PATIENCE:]
            if len(last) == _PATIENCE and last[-1] - last[0] <= _MIN_GAIN * abs(bound):
                return Status.STALLED
            if not self._climb(is_over):
                return Status.TIME_LIMIT

    def prove(self, tol: float, held: Vector | None = None) -> Proof:
        """The certificates, by two reductions: at the faces of the multipliers, or at `held` if that is less.

        tol: relative tolerance of the gap and of every residual.
        """
        gained = together(self._each(pulled, lambda number: (self._recipe, *self._given(number), self._K)))
        W = faces_of(gained, self._scale)[1]
        self._state.W = W.copy()
        proofs = []
        for faces in [W] if held is None else [W, held]:
            at = (faces, self._scale, GAIN)
            given = [(self._recipe, *self._given(number), *at) for number in range(self._count)]
            met = together(each_block(self._hands, weighed, given) or [])
            proofs.append(Proof(faces, halves_of(gained, met, faces, self._scale, tol), met))
        return min(proofs, key=lambda each: sum(half.primal_value for half in each.halves))

    def _each(
        self, step: Callable[..., Any], given: Callable[[int], tuple[Any, ...]],
        is_over: Callable[[], bool] | None = None,
    ) -> Any:  # fmt: skip
        return each_block(self._hands, step, [given(number) for number in range(self._count)], is_over)

    # -- passes ----------------------------------------------------------------------------------

    def _sweep(self, is_over: Callable[[], bool]) -> bool:
        """A sweep; False, and nothing has changed, where time is over before."""
        return self._walk(swept, [()] * len(self._groups), is_over) is not None

    def _scan(self, tol: float, is_over: Callable[[], bool]) -> tuple[float, float] | None:
        """Objective and bound; what may move of faces whose gap is too large is awake then."""
        state, firsts = self._state, [int(group[0]) for group in self._groups]
        parts = [state.W[group] for group in self._groups]
        found = self._each(
            scanned,
            lambda number: (self._how, self._assigned[number], firsts, parts, state.pairs[number]),
            is_over,
        )
        if found is None:
            return None
        state.pairs, state.scans = [pairs for _, pairs, _ in found], state.scans + 1
        self._width = sum(entries for *_, entries in found) / max(sum(map(len, self._assigned)), 1)
        squares = np.einsum("kj,kj->k", state.W, state.W)
        values = squares + total([paid for paid, *_ in found])
        bounds = gains(self._groups, state.pairs) - squares
        is_open = values - bounds > 0.5 * tol * (values + values.mean())
        for block in state.pairs:
            for group, pairs in zip(self._groups, block, strict=True):
                pairs.awake[:] = is_open[group][pairs.faces]
        return float(values.sum()), float(bounds.sum())

    def _climb(self, is_over: Callable[[], bool]) -> bool:
        """Passes over what may move; False where time is over before they end."""
        state = self._state
        pairs = [self._all_pairs(number) for number in range(self._count)]
        used = [np.unique(each.rows[each.awake]) for each in pairs]
        if self._width * sum(map(len, used)) <= _MAX_GATHERED:
            seed = int(np.random.default_rng([self._seed, state.passes]).integers(1 << 31))
            found = climbed_here(
                self._hands, self._recipe, state.W, pairs, used, state.accuracy, scale=self._scale,
                seed=seed, is_over=is_over,
            )  # fmt: skip
            if found is None:
                return False
            state.W, state.pairs = found[0], [by_groups(self._groups, each) for each in found[1]]
            state.passes += 1
        elif not self._pass_by_blocks(is_over):
            return False
        state.accuracy = max(_SLOPE_FACTOR * state.accuracy, _MIN_SLOPE)
        return True

    def _pass_by_blocks(self, is_over: Callable[[], bool]) -> bool:
        """Passes of all faces through the blocks; False where time is over before they end."""
        state = self._state
        rests = np.full(self._K, np.inf)
        for _ in range(20):
            met = self._walk(climbed, [(rests[group],) for group in self._groups], is_over)
            if met is None:
                return False
            rests = np.concatenate(met)
            if rests.max() <= state.accuracy:
                break
        return True

    def _walk(
        self, step: Callable[..., Any], given: Sequence[tuple[Any, ...]], is_over: Callable[[], bool]
    ) -> list[Any] | None:
        """Every group through all blocks: what else their last steps gave, or None where time was over."""
        state = self._state
        order = np.random.default_rng([self._seed, state.passes]).permutation(self._full).tolist()
        seed = self._seed, state.passes
        walks = [
            Walk(
                Carried(state.W[group], np.zeros(len(group))),
                [
                    (number, (self._how, self._assigned[number], int(group[0]), state.pairs[number][place],
                              seed, *given[place]))
                    for number in order
                ],
                leaves=True,
            )
            for place, group in enumerate(self._groups)
        ]  # fmt: skip
        found: list[tuple[Carried, list[Pairs]]] | None = self._hands.walk(step, walks, is_over)
        if found is None:
            return None
        for place, (group, (carried, left)) in enumerate(zip(self._groups, found, strict=True)):
            state.W[group] = carried.W
            for number, pairs in zip(order, left, strict=True):
                state.pairs[number][place] = pairs
        state.passes += 1
        return [carried.worst for carried, _ in found]

    def _all_pairs(self, number: int) -> Pairs:
        return of_all_faces(self._groups, self._state.pairs[number])

    def _given(self, number: int) -> tuple[Any, Multipliers]:
        return self._assigned[number], Multipliers(*self._all_pairs(number)[:3])

    # -- checkpoints -----------------------------------------------------------------------------

    def known(self) -> dict[str, Any]:
        """What a checkpoint has of a run, at a scan."""
        state = self._state
        pairs = [self._all_pairs(number) for number in range(self._count)]
        return {
            "faces now": state.W, "counts": np.array([len(each.rows) for each in pairs]),
            **{name: np.concatenate(each)
               for name, each in zip(Pairs._fields[:3], zip(*pairs, strict=True), strict=False)},
            "passes": state.passes, "scans": state.scans, "accuracy": state.accuracy,
            "gained": np.array(state.gained),
        }  # fmt: skip

    def recall(self, known: dict[str, Any]) -> None:
        """Go on from there, with the faces that assign in place."""
        cuts = np.cumsum(known["counts"])[:-1]
        parts = zip(*(np.split(known[name], cuts) for name in Pairs._fields[:3]), strict=True)
        pairs = [
            by_groups(self._groups, Pairs(rows, faces, alpha, np.ones(len(rows), bool)))
            for rows, faces, alpha in parts
        ]
        self._state = _State(
            known["faces now"], pairs, known["passes"], known["scans"], known["accuracy"],
            known["gained"].tolist(),
        )  # fmt: skip


def assigned(
    _: None, samples: Samples, number: int, recipe: Recipe, held: Vector, kind: np.dtype[Any]
) -> NDArray[np.integer]:
    """The face of each sample outside, -1 inside: that of `held`, scaled, with its highest score."""
    X, outside = sides_of(samples, recipe)[:2]
    found = np.full(len(outside), -1, kind)
    up = np.flatnonzero(outside)
    for first in range(0, len(up), ROWS_AT_ONCE):
        rows = up[first : first + ROWS_AT_ONCE]
        some = X[rows] if is_sparse(X) else np.asarray(X[rows], dtype=float)
        found[rows] = (np.asarray(some @ held[:, :-1].T) + held[:, -1]).argmax(axis=1)
    return found


def released(
    _: None, samples: Samples, number: int, how: How, owners: Owners, n_faces: int, pairs: Pairs
) -> tuple[Vector, Pairs]:
    """What goes from the faces with multipliers of samples that went elsewhere, and the pairs that stay."""
    X, outside = sides_of(samples, how.recipe)[:2]
    return release(X, outside, owners, n_faces, pairs, how.scale)


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


def _ascent(
    sides: Sides, rows: Rows, how: How, owners: Owners, first: int, W: Vector, pairs: Pairs, seed: int
) -> BlockAscent:
    own = np.asarray(owners, dtype=np.int64) - first
    costs = how.recipe.C * sides.weights
    return BlockAscent(
        rows, sides.outside, costs, own, W, pairs, scale=how.scale, single=how.single, seed=seed
    )


def _turn(seed: tuple[int, int], number: int, first: int) -> int:
    return int(np.random.default_rng([*seed, number, first]).integers(1 << 31))


def climbed_here(
    hands: Hands, recipe: Recipe, W: Vector, pairs: Sequence[Pairs], used: Sequence[NDArray[np.int32]],
    accuracy: float, *, scale: float, seed: int, is_over: Callable[[], bool],
) -> tuple[Vector, list[Pairs]] | None:  # fmt: skip
    """Passes over all pairs that are awake; None, and nothing has changed, if time is over before.

    W (K, m+1): the faces.
    pairs: those of each block, with the numbers of all faces.
    used: for each block the rows of its pairs that are awake, in order.
    accuracy: largest slope that the last pass may meet.
    scale: what every entry of the samples counts times.
    """
    found = each_block(hands, gathered, [(recipe, rows) if len(rows) else None for rows in used], is_over)
    if found is None:
        return None
    if not found:
        return W, list(pairs)
    X, outside, weights = joined(found)
    firsts = np.cumsum([0, *map(len, used)])
    rows = [
        first + np.searchsorted(own, each.rows[each.awake])
        for first, own, each in zip(firsts[:-1], used, pairs, strict=True)
    ]
    faces = np.concatenate([each.faces[each.awake] for each in pairs])
    alpha = np.concatenate([each.alpha[each.awake] for each in pairs])
    given = Pairs(np.concatenate(rows).astype(np.int32), faces, alpha, np.ones(len(alpha), bool))
    W, moved, _ = climb(
        X, outside, recipe.C * weights, W, given, np.full(len(W), np.inf), scale=scale, seed=seed,
        passes=_MAX_ROUNDS, accuracy=accuracy, is_over=is_over,
    )  # fmt: skip
    return W, _given_back(pairs, moved)


def gathered(_: None, samples: Samples, number: int, recipe: Recipe, used: NDArray[np.int32]) -> Sides:
    """On whoever has a block: some of its samples, as a step of a walk."""
    X, outside, weights = sides_of(samples, recipe)
    return Sides(X[used], outside[used], weights[used])


def _given_back(pairs: Sequence[Pairs], moved: Pairs) -> list[Pairs]:
    """The pairs of every block, with what has become of those that were awake."""
    ends = np.cumsum([int(each.awake.sum()) for each in pairs])[:-1]
    parts = zip(pairs, np.split(moved.alpha, ends), np.split(moved.awake, ends), strict=True)
    found = []
    for each, alpha, awake in parts:
        alphas, states = each.alpha.copy(), each.awake.copy()
        alphas[each.awake], states[each.awake] = alpha, awake
        found.append(each._replace(alpha=alphas, awake=states))
    return found


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


def _block(samples: Samples, recipe: Recipe, owners: Owners) -> Weighed:
    X, outside, weights = sides_of(samples, recipe)
    return Weighed(X, outside, recipe.C * weights, owners)


def of_all_faces(groups: Groups, parts: Sequence[Pairs]) -> Pairs:
    """The pairs of a block with the numbers of all faces, from each group's, which count from its first."""
    named = [
        pairs._replace(faces=pairs.faces + np.int32(group[0]))
        for group, pairs in zip(groups, parts, strict=True)
    ]
    return Pairs(*(np.concatenate(each) for each in zip(*named, strict=True)))


def by_groups(groups: Groups, pairs: Pairs) -> list[Pairs]:
    """The inverse of :func:`of_all_faces`: the pairs of each group."""
    found = []
    for group in groups:
        mine = (pairs.faces >= group[0]) & (pairs.faces <= group[-1])
        some = Pairs(*(each[mine] for each in pairs))
        found.append(some._replace(faces=some.faces - np.int32(group[0])))
    return found


def gains(groups: Groups, blocks: Sequence[Sequence[Pairs]]) -> NDArray[np.float64]:
    """The sum of the multipliers of every face (K,), of blocks that have the pairs of each group."""
    sums = [
        np.concatenate([
            np.bincount(pairs.faces, pairs.alpha, len(group))
            for group, pairs in zip(groups, parts, strict=True)
        ])
        for parts in blocks
    ]  # fmt: skip
    return np.asarray(total(sums))
