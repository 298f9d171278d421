"""The Convex Polytope Machine's Algorithm 1 on blocks: rounds of local steps on a fixed number of shards.

1. **Pilot.** Faces have no order, and runs from different random starts cannot be averaged. So Algorithm 1
   first runs on a sample in memory, which gives each face its part of the samples. Its steps count: at
   small t, steps make faces far too long, which later steps mend, but no average over shards.
2. **Rounds.** In each, every shard begins at the same point and takes steps 1/(λ(t+1)) through its rows, in
   an order fixed by the seed, the pass and the shard; the shards' points are averaged in their order,
   weighted by their rows. Each shard counts its own t. A round takes at most as many steps as were taken
   before, and at most a pass, so that the shards stay near each other and near the pilot's faces.
3. **Answer.** The better of the average of all iterates and the last iterate, at the best measured round. The
   start is measured too, so the answer is never worse than the start.

For smooth and strongly convex objectives S shards of T steps each, averaged after every H of them, have the
error of S T steps of one run as long as H is of the order of sqrt(T / S) (Stich 2019), and rounds that grow
are as good (Qin, Etesami and Uribe 2022). Hinges are not smooth, and with K > 1 the objective is not convex:
the theorems motivate the method, and only the measured objective is known of its answer.

Shards and rounds define the method: the answer depends on blocks, shards and seed, but not on the workers.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
Stich, Local SGD Converges Fast and Communicates Little (2019).
Qin, Etesami and Uribe, The Role of Local Steps in Local SGD (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import positive, tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.progress import tell
from polyopt.certificates.points import checked_faces
from polyopt.cpm.local_steps import Point, Run, begin, mean, visit
from polyopt.cpm.sgd import losses, precision
from polyopt.cpm.solve import Settings, solve_cpm
from polyopt.large.blocks import Recipe, TwoClasses, concatenate, two_classes
from polyopt.large.checkpoint import CheckpointWriter, load, probe
from polyopt.large.executor import Executor, Fold
from polyopt.large.sources import Samples
from polyopt.linalg.rows import as_rows
from polyopt.margin.interior_point.crew import total

Vector = NDArray[np.float64]

MACHINE = "local steps of the Convex Polytope Machine"
"""The machine of a checkpoint of local steps."""

# Purposes of random orders.
_BLOCKS, _ROWS, _COUNTS, _DRAWN = range(4)


@dataclass(frozen=True)
class Options:
    """Numbers of the method.

    n_agreeing: measurements that must lie within `tol` of the best for a run to have converged.
    pilot_epochs: epochs of each start of the pilot at most.
    pilot_starts: random starts of the pilot, for more than one face.
    pilot_time_share: share of the time left that the pilot may take.
    """

    n_agreeing: int = 3
    pilot_epochs: int = 100
    pilot_starts: int = 3
    pilot_time_share: float = 0.3


# -- the samples of the blocks -----------------------------------------------------------------------


class Part(NamedTuple):
    """Figures of a block: features, samples inside and outside, sum and extremes of costs, largest entry."""

    m: int
    inside: int
    outside: int
    costs: float
    min_cost: float
    max_cost: float
    max_entry: float

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.inside + self.outside


class Facts(NamedTuple):
    """Figures of every block, and of all: samples, features, extremes of costs, largest entry."""

    parts: list[Part]
    n: int
    m: int
    min_cost: float
    max_cost: float
    max_entry: float


def survey(executor: Executor, recipe: Recipe) -> Facts:
    """Measure all blocks.

    ValueError: no sample of a class, different numbers of features, or entries that are not finite.
    """
    parts: list[Part] = executor.each(_survey, [(recipe,)] * executor.count)
    full = [part for part in parts if part.n]
    for number, part in enumerate(parts):
        if not np.isfinite(part.max_entry):
            raise ValueError(f"X has NaN or an infinite value in partition {number}")
    for name, label in (("inside", recipe.classes[0]), ("outside", recipe.classes[1])):
        if not any(getattr(part, name) for part in full):
            raise ValueError(f"there is no sample of class {label!r} with positive weight")
    if len({part.m for part in full}) > 1:
        raise ValueError(f"all blocks need as many features; {sorted({part.m for part in full})} were found")
    return Facts(
        parts,
        sum(part.n for part in full),
        full[0].m,
        min(part.min_cost for part in full),
        max(part.max_cost for part in full),
        max(part.max_entry for part in full),
    )


def _survey(_: None, samples: Samples, number: int, recipe: Recipe) -> Part:
    X, outside, weights = two_classes(samples, recipe)
    n, m = X.shape
    if not n:
        return Part(m, 0, 0, 0.0, np.inf, 0.0, 0.0)
    costs, values = recipe.C * weights, X.data if sp.issparse(X) else X
    size = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    n_outside = int(outside.sum())
    return Part(m, n - n_outside, n_outside, float(costs.sum()), float(costs.min()), float(costs.max()), size)


def draw(
    executor: Executor, recipe: Recipe, facts: Facts, size: int, seed: int,
    is_over: Callable[[], bool] | None = None,
) -> TwoClasses | None:  # fmt: skip
    """Draw about `size` samples without replacement from each class, of a class at least a tenth or all.

    Weights are multiplied by the number of samples that each stands for. None if time is over.
    """
    rng, per_class, factors = np.random.default_rng([seed, _COUNTS]), [], []
    for name in ("inside", "outside"):
        counts = np.array([getattr(part, name) for part in facts.parts])
        total_count = int(counts.sum())
        drawn_count = min(total_count, max(round(size * total_count / facts.n), size // 10, 1))
        per_class.append(_counts_per_block(rng, counts, drawn_count))
        factors.append(total_count / int(per_class[-1].sum()))
    per_block = zip(*(counts.tolist() for counts in per_class), strict=True)
    arguments = [(recipe, seed, counts) if sum(counts) else None for counts in per_block]
    drawn = executor.each(_draw, arguments, is_over)
    if drawn is None:
        return None
    X, outside, weights = concatenate(drawn)
    return TwoClasses(X, outside, weights * np.where(outside, factors[1], factors[0]))


def _counts_per_block(rng: np.random.Generator, counts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Draw `size` samples without replacement from blocks of so many; return their number in each block."""
    if counts.sum() < 10**9:  # numpy's limit; beyond, a draw with replacement hardly differs
        return rng.multivariate_hypergeometric(counts, size, method="marginals")
    # Small blocks may give a few samples less.
    return np.minimum(rng.multinomial(size, counts / counts.sum()), counts)


def _draw(
    _: None, samples: Samples, number: int, recipe: Recipe, seed: int, counts: tuple[int, int]
) -> TwoClasses:
    X, outside, weights = two_classes(samples, recipe)
    rng = np.random.default_rng([seed, _DRAWN, number])
    chosen = [
        rng.choice(np.flatnonzero(outside == is_outside), count, replace=False, shuffle=False)
        for is_outside, count in zip((False, True), counts, strict=True)
    ]
    rows = np.sort(np.concatenate(chosen))
    return TwoClasses(X[rows], outside[rows], weights[rows])


def row_order(seed: int, passes: int, number: int, n: int) -> NDArray[np.int64]:
    """Return the order of the n rows of block `number` after so many passes."""
    return np.random.default_rng([seed, _ROWS, passes, number]).permutation(n)


class Shards:
    """Blocks with samples (`counts` of each block) dealt out in turn to at most `n_shards` shards."""

    def __init__(self, counts: Sequence[int], n_shards: int, seed: int):
        blocks = [number for number, count in enumerate(counts) if count]
        self._counts, self._seed = counts, seed
        self.blocks = [blocks[first::n_shards] for first in range(min(n_shards, len(blocks)))]
        self.sizes = [sum(counts[number] for number in shard) for shard in self.blocks]
        self.longest = max(self.sizes)

    def stops(self, shard: int, passes: int, first: int, last: int) -> list[tuple[int, tuple[int, int]]]:
        """Return the blocks of a part of a pass, each with its first and last place.

        The part is given in rows of the longest shard, and is an equal share of the others; `passes` is the
        number of passes before.
        """
        size = self.sizes[shard]
        begin, end = first * size // self.longest, last * size // self.longest
        order = np.random.default_rng([self._seed, _BLOCKS, passes, shard]).permutation(self.blocks[shard])
        found, place = [], 0
        for number in order.tolist():
            count = self._counts[number]
            low, high = max(begin - place, 0), min(end - place, count)
            if low < high:
                found.append((number, (low, high)))
            place += count
        return found


# -- losses and checkpoints --------------------------------------------------------------------------


def losses_at(
    executor: Executor, recipe: Recipe, facts: Facts, scale: float, faces: list[Vector],
    is_over: Callable[[], bool] | None = None,
) -> Vector | None:  # fmt: skip
    """Return the loss of all samples at each of some faces (K, m+1); None if time is over."""
    given = [(recipe, scale, faces) if part.n else None for part in facts.parts]
    paid = executor.each(_losses, given, is_over)
    return None if paid is None else np.asarray(total(paid))


def _losses(
    _: None, samples: Samples, number: int, recipe: Recipe, scale: float, faces: list[Vector]
) -> Vector:
    X, outside, weights = two_classes(samples, recipe)
    rows, costs = as_rows(X), recipe.C * weights
    return np.array([losses(W, rows, outside, costs, scale) for W in faces])


def about_faces(
    executor: Executor, recipe: Recipe, facts: Facts, n_faces: int, scale: float, machine: str, **more: Any
) -> dict[str, Any]:
    """Return the identity of a checkpoint of faces; its digest is a loss of the samples and labels."""
    paid = losses_at(executor, recipe, facts, scale, [probe(n_faces, facts.m + 1)])
    assert paid is not None
    return {
        "machine": machine, "samples": facts.n, "features": facts.m, "blocks": len(facts.parts),
        "C": recipe.C, "factors": repr(recipe.factors), "faces": n_faces, **more, "scale": float(scale),
        "digest": sha256(repr(facts.parts).encode() + paid.tobytes()).hexdigest()[:16],
    }  # fmt: skip


# -- the rounds --------------------------------------------------------------------------------------


def solve_cpm_rounds(
    executor: Executor, recipe: Recipe, n_faces: int, *, facts: Facts | None = None,
    start: ArrayLike | None = None, steps: int | None = None, n_shards: int = 8, n_pilot: int = 20_000,
    scale: float = 1.0, max_iter: int = 30, tol: float = 1e-3, time_limit: float | None = None,
    seed: int = 0, checkpoint: str | Path | None = None, resume: str | Path | None = None,
    options: Options | None = None,
) -> Solution:  # fmt: skip
    """Minimise J(W) of :mod:`formulations.cpm` with loss="sum" by rounds of local steps.

    recipe: the class inside and the class outside, their weights, and C.
    facts: of :func:`survey`, if it was called before.
    start (K, m+1): initial faces, bias last; by default the pilot's.
    steps: number of steps of Algorithm 1 that a given start counts for: the fewer, the longer the first
        steps. By default 100 times `n_pilot`.
    n_shards: S, at least 1, at most the number of blocks with samples.
    n_pilot: samples of the pilot, roughly.
    scale: factor of every entry of X.
    max_iter: passes through all samples at most.
    tol: the run ends when its last three measurements, over more than half of its passes, are within this
        relative distance of the least.
    time_limit: seconds. A round that it cuts off is dropped.
    checkpoint, resume: a file to write after every round, and one to resume, to the same bits.
    Returns: ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``iterations`` are rounds.
        ``history`` has one record per round, the start's first: the passes so far, the estimate of the
        objective from the steps, and the measured objective of the better of average and last iterate (at
        the start, after 1, 2, 3, 5, 8, ... passes, and at the end; else nan). The objective is inf if the
        time was over before anything was measured.
    ValueError: an argument out of its range, one class alone, or a checkpoint of something else.
    """
    clock, tol, options = Clock(time_limit), tolerance(tol), options or Options()
    scale = positive("scale", scale)
    for name, value in (
        ("n_faces", n_faces), ("n_shards", n_shards), ("n_pilot", n_pilot), ("max_iter", max_iter),
    ):  # fmt: skip
        whole(name, value, 1)
    steps = whole("steps", options.pilot_epochs * n_pilot if steps is None else steps, 1)
    facts = facts or survey(executor, recipe)
    W = None if start is None else checked_faces("start", start, n_faces, facts.m + 1)
    shards = Shards([part.n for part in facts.parts], n_shards, seed)
    rounds = _Rounds(executor, recipe, facts, n_faces, shards, scale, seed, clock, options)
    about = {}
    if checkpoint is not None or resume is not None:
        begun = None if W is None else sha256(W.tobytes() + str(steps).encode()).hexdigest()[:16]
        about = about_faces(
            executor, recipe, facts, n_faces, scale, MACHINE, shards=len(shards.blocks), pilot=n_pilot,
            seed=seed, start=begun,
        )  # fmt: skip
    save = None if checkpoint is None else CheckpointWriter(checkpoint, [], about)
    status = Status.TIME_LIMIT
    try:
        if resume is not None:
            rounds.state = State.of(load(resume, about)[1])
        elif rounds.begin(n_pilot, W, steps) and save is not None:
            save(rounds.state.known())
        status = rounds.run(max_iter, tol, save)
    except KeyboardInterrupt:
        status = interrupted()
    state = rounds.state
    return Solution(
        status, {"W": state.best}, {}, state.reached, None, "sgd, local steps",
        iterations=state.rounds, solve_time=clock.seconds, history=tuple(state.history),
    )  # fmt: skip


@dataclass
class State:
    """The state of a run, which a checkpoint has.

    point: start of the next round.
    best, reached: the best measured faces, and their objective.
    rounds, passes, done: rounds; whole passes; rows of the longest shard in the pass under way.
    due: passes at which the next measurement is due.
    measured: objectives of due measurements, without the start's.
    history: one record for each round.
    """

    point: Point
    best: Vector
    reached: float = math.inf
    rounds: int = 0
    passes: int = 0
    done: int = 0
    due: float = 0.0
    measured: list[float] = field(default_factory=list)
    history: list[dict[str, float]] = field(default_factory=list)

    def known(self) -> dict[str, Any]:
        """Numbers, arrays and lists by name, for a checkpoint."""
        return {
            **{name: value for name, value in vars(self).items() if name != "point"},
            **self.point._asdict(),
        }

    @classmethod
    def of(cls, known: dict[str, Any]) -> State:
        """The state of a checkpoint."""
        return cls(Point(*(known.pop(name) for name in Point._fields)), **known)


class _Rounds:
    """The loop of the rounds."""

    state: State

    def __init__(
        self, executor: Executor, recipe: Recipe, facts: Facts, n_faces: int, shards: Shards, scale: float,
        seed: int, clock: Clock, options: Options,
    ):  # fmt: skip
        self.executor, self.recipe, self.facts, self.n_faces = executor, recipe, facts, n_faces
        self.shards, self.scale, self.seed, self.clock, self.options = shards, scale, seed, clock, options
        half = 0.5 * facts.n
        self.dtype = precision(facts.max_entry * scale, half * facts.min_cost, half * facts.max_cost)
        zero = np.zeros((n_faces, facts.m + 1))
        self.state = State(Point(zero, zero, 1), zero)

    def begin(self, n_pilot: int, start: Vector | None, steps: int) -> bool:
        """Take the start, or make one by a pilot; False if time is over before."""
        if start is None:
            found = self._pilot(n_pilot)
            if found is None:
                return False
            start, steps = found
        self.state = State(Point(start, start, steps), start)
        return True

    def _pilot(self, n_pilot: int) -> tuple[Vector, int] | None:
        """Return faces of a pilot, and their number of steps; None if time is over."""
        drawn = draw(self.executor, self.recipe, self.facts, n_pilot, self.seed, self._is_over)
        if drawn is None:
            return None
        X, outside, weights = drawn
        left, options = self.clock.left, self.options
        settings = Settings(
            self.n_faces, "sgd", feature_scale=self.scale,
            n_init=options.pilot_starts if self.n_faces > 1 else 1, max_iter=options.pilot_epochs,
            time_limit=None if left is None else options.pilot_time_share * left,
        )  # fmt: skip
        found = solve_cpm(X, np.where(outside, 1.0, -1.0), self.recipe.C * weights, settings, self.seed)
        epochs = max(each.iterations for each in found.runs or (found,))
        return np.asarray(found["W"]), max(epochs, 1) * X.shape[0]

    def run(self, max_iter: int, tol: float, save: CheckpointWriter | None) -> Status:
        """Take rounds until convergence or a limit."""
        while True:
            state = self.state
            passes = state.passes + state.done / self.shards.longest
            is_due, is_last = passes >= state.due, state.passes >= max_iter
            if (is_due or is_last) and not self._measure(is_due):
                return Status.TIME_LIMIT
            if is_due:
                # A measurement costs about as much as a pass, and so they become rarer.
                state.due = max(passes + 1.0, 1.5 * passes) if passes else 1.0
            tell(state.history[-1])
            last = state.measured[-self.options.n_agreeing :]
            if len(last) == self.options.n_agreeing and max(last) <= (1.0 + tol) * min(state.measured):
                return Status.CONVERGED
            if is_last:
                return Status.ITERATION_LIMIT
            if not self._round():
                return Status.TIME_LIMIT
            if save is not None:
                save(state.known())

    def _is_over(self) -> bool:
        return self.clock.is_over

    def _round(self) -> bool:
        """Take one round; False, and nothing has changed, if time is over."""
        state, shards = self.state, self.shards
        left = shards.longest - state.done
        # No round takes more steps than were taken before, save for the short rest of a pass.
        steps = left if left <= 1.5 * state.point.steps else min(state.point.steps, left)
        place = state.done, state.done + steps
        first = begin(state.point, self.dtype)
        how = (self.recipe, self.facts.n, self.n_faces, self.scale, self.seed, state.passes)
        folds = [
            Fold(
                first, [(number, (*how, *part)) for number, part in shards.stops(shard, state.passes, *place)]
            )
            for shard in range(len(shards.blocks))
        ]
        runs: list[Run] | None = self.executor.fold(_visit, folds, self._is_over)
        if runs is None:
            return False
        taken = sum(run.steps - first.steps for run in runs)
        met = sum(run.loss for run in runs)
        state.point = mean(runs, shards.sizes, self.n_faces)
        state.rounds, state.done = state.rounds + 1, place[1] % shards.longest
        state.passes += state.done == 0
        self._record(float((state.point.W**2).sum()) + 2.0 * met / taken)
        return True

    def _record(self, estimate: float) -> None:
        state = self.state
        state.history.append(
            {
                "round": float(state.rounds),
                "passes": state.passes + state.done / self.shards.longest,
                "seconds": self.clock.seconds,
                "estimate": estimate,
                "objective": math.nan,
            }
        )

    def _measure(self, counts: bool) -> bool:
        """Measure the objectives and keep the best; False if time is over."""
        state = self.state
        if not state.history:
            self._record(math.nan)
        found = [state.point.W, *([state.point.A] if state.point.weight else [])]
        paid = losses_at(self.executor, self.recipe, self.facts, self.scale, found, self._is_over)
        if paid is None:
            return False
        values = [float((W**2).sum() + loss) for W, loss in zip(found, paid, strict=True)]
        value = min(values)
        state.history[-1]["objective"] = value
        if counts and state.rounds:
            state.measured.append(value)
        if value < state.reached:
            state.best, state.reached = found[values.index(value)], value
        return True


def _visit(
    run: Run, samples: Samples, number: int, recipe: Recipe, n: int, n_faces: int, scale: float,
    seed: int, passes: int, first: int, last: int,
) -> Run:  # fmt: skip
    """Take a run's steps through places `first` to `last` of a block's order."""
    X, outside, weights = two_classes(samples, recipe)
    order = row_order(seed, passes, number, len(weights))[first:last]
    return visit(run, as_rows(X), outside, 0.5 * n * recipe.C * weights, order, n_faces, scale)
