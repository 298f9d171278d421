"""The Convex Polytope Machine's Algorithm 1 on blocks: rounds of local steps on a fixed number of shards.

1. **Pilot.** Faces have no order, and runs from different random starts cannot be averaged. So Algorithm 1
   is run on a sample in memory first. This gives each face what it is for, and its steps count as steps.
   That matters: at small t the first steps make faces that are far too long, which only 1/t mends, and no
   average over shards does, as all of them do so alike.
2. **Rounds.** In each, every shard begins at the same point, takes steps 1/(λ(t+1)) through its rows, in an
   order that follows from the seed, the pass and the shard, and the shards' points are averaged in their
   order, weighted by their rows. t is counted by each shard for itself. A round takes no more steps than
   were taken before, and no more than a pass: so the shards never go far apart, first of all not from the
   pilot's faces.
3. **Answer.** The better of the average of all iterates and the last one, at the best measured round. The
   start is measured too, so the answer is never worse than it.

For smooth and strongly convex objectives S shards of T steps each, averaged after every H of them, have the
error of S T steps of one run as long as H is of the order of sqrt(T / S) (Stich 2019), and rounds that grow
are as good (Qin, Etesami and Uribe 2022). Hinges are not smooth, and with K > 1 the objective is not convex:
the method follows these theorems, and what is known of its answer is the objective that is measured.

Shards and rounds define the method, and workers do not: the answer is the same to the bit for any number of
them, as long as blocks, shards and seed are.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
Stich, Local SGD Converges Fast and Communicates Little (2019).
Qin, Etesami and Uribe, The Role of Local Steps in Local SGD (2022).

Shards: a fixed number of lists of blocks, what is in them, and the order in which their rows are visited.

Nothing here depends on who reads the blocks. An order follows from the seed, the pass, and the number of the
block or shard.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from formulations.language.arguments import positive, tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.progress import tell
from polyopt.certificates.points import checked_faces
from polyopt.cpm.local_steps import Point, Run, begin, mean, visit
from polyopt.cpm.sgd import losses, precision
from polyopt.cpm.solve import Settings, solve_cpm
from polyopt.large import checkpoint as files
from polyopt.large.held import Walk
from polyopt.large.parts import Recipe, Sides, sides_of
from polyopt.linalg.rows import as_rows
from polyopt.margin.interior_point.crew import total

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from polyopt.large.held import Hands
    from polyopt.large.sources import Samples

    Vector = NDArray[np.float64]

__all__ = ["MACHINE", "Shards", "draw", "each_block", "joined", "row_order", "solve_cpm_rounds", "survey"]

# What a random order is for.
_BLOCKS, _ROWS, _SHARES, _DRAWN = range(4)


class Part(NamedTuple):
    """What is known of a block: features, samples inside and outside, their costs, its largest entry."""

    m: int
    inside: int
    outside: int
    costs: float
    least: float
    most: float
    size: float

    @property
    def n(self) -> int:
        """Its samples."""
        return self.inside + self.outside


class Facts(NamedTuple):
    """What is known of every block, and of all: samples, features, extremes of costs, the largest entry."""

    parts: list[Part]
    n: int
    m: int
    least: float
    most: float
    size: float


def each_block(
    hands: Hands,
    step: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...] | None],
    is_over: Callable[[], bool] | None = None,
) -> list[Any] | None:
    """What a step gives for each block that has arguments; None where time was over before.

    arguments: for each block what else it takes; None leaves the block out.
    """
    walks = [Walk(None, [(number, given)]) for number, given in enumerate(arguments) if given is not None]
    return hands.walk(step, walks, is_over)


def survey(hands: Hands, recipe: Recipe, count: int) -> Facts:
    """What is in the blocks.

    ValueError: no sample of one of the classes, different numbers of features, or entries that are not
        finite.
    """
    parts: list[Part] = each_block(hands, _survey, [(recipe,)] * count) or []
    full = [part for part in parts if part.n]
    for number, part in enumerate(parts):
        if not np.isfinite(part.size):
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
        min(part.least for part in full),
        max(part.most for part in full),
        max(part.size for part in full),
    )


def _survey(_: None, samples: Samples, number: int, recipe: Recipe) -> Part:
    X, outside, weights = sides_of(samples, recipe)
    n, m = X.shape
    if not n:
        return Part(m, 0, 0, 0.0, np.inf, 0.0, 0.0)
    costs, values = recipe.C * weights, X.data if sp.issparse(X) else X
    size = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    up = int(outside.sum())
    return Part(m, n - up, up, float(costs.sum()), float(costs.min()), float(costs.max()), size)


def draw(
    hands: Hands, recipe: Recipe, facts: Facts, size: int, seed: int,
    is_over: Callable[[], bool] | None = None,
) -> Sides | None:  # fmt: skip
    """Some samples, drawn without replacement from each class; weights say how many of all each stands for.

    size: how many samples, roughly; of a class at least a tenth of it, or all that there are.
    is_over: whether time is over; None is the answer then.
    """
    rng, shares, factors = np.random.default_rng([seed, _SHARES]), [], []
    for name in ("inside", "outside"):
        counts = np.array([getattr(part, name) for part in facts.parts])
        all_ = int(counts.sum())
        some = min(all_, max(round(size * all_ / facts.n), size // 10, 1))
        shares.append(_share(rng, counts, some))
        factors.append(all_ / int(shares[-1].sum()))
    takes = list(zip(*(share.tolist() for share in shares), strict=True))
    found = each_block(hands, _draw, [(recipe, seed, take) if sum(take) else None for take in takes], is_over)
    if found is None:
        return None
    X, outside, weights = joined(found)
    return Sides(X, outside, weights * np.where(outside, factors[1], factors[0]))


def joined(parts: Sequence[Sides]) -> Sides:
    """Samples of at least one block, in their order."""
    rows, outside, weights = zip(*parts, strict=True)
    X = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.concatenate(rows)
    return Sides(X, np.concatenate(outside), np.concatenate(weights))


def _share(rng: np.random.Generator, counts: NDArray[np.int64], some: int) -> NDArray[np.int64]:
    """How many of `some` samples, drawn without replacement, are of each block."""
    if counts.sum() < 10**9:  # numpy draws from no more
        return rng.multivariate_hypergeometric(counts, some, method="marginals")
    # Of so many, drawing with replacement differs by next to nothing; it may be a few less in small blocks.
    return np.minimum(rng.multinomial(some, counts / counts.sum()), counts)


def _draw(_: None, samples: Samples, number: int, recipe: Recipe, seed: int, take: tuple[int, int]) -> Sides:
    X, outside, weights = sides_of(samples, recipe)
    rng = np.random.default_rng([seed, _DRAWN, number])
    chosen = [
        rng.choice(np.flatnonzero(outside == side), some, replace=False, shuffle=False)
        for side, some in zip((False, True), take, strict=True)
    ]
    rows = np.sort(np.concatenate(chosen))
    return Sides(X[rows], outside[rows], weights[rows])


def row_order(seed: int, passes: int, number: int, n: int) -> NDArray[np.int64]:
    """The order of the n rows of block `number` after so many passes."""
    return np.random.default_rng([seed, _ROWS, passes, number]).permutation(n)


class Shards:
    """Blocks dealt out to shards in turn.

    counts: the samples of each block; blocks without are left out.
    n_shards: how many shards, at most one for each block.
    seed: of the orders.
    """

    def __init__(self, counts: Sequence[int], n_shards: int, seed: int):
        full = [number for number, count in enumerate(counts) if count]
        self._counts, self._seed = counts, seed
        self.blocks = [full[first::n_shards] for first in range(min(n_shards, len(full)))]
        self.sizes = [sum(counts[number] for number in some) for some in self.blocks]
        self.longest = max(self.sizes)

    def stops(self, shard: int, passes: int, first: int, last: int) -> list[tuple[int, tuple[int, int]]]:
        """The blocks on the way through a part of a pass, with the first and the last place of each.

        passes: the passes before.
        first, last: the part, in rows of the longest shard; of others as large a share.
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


MACHINE = "local steps of the Convex Polytope Machine"
"""What a checkpoint of them is of."""

_N_AGREEING = 3  # measurements that must agree for a run to have settled
_PILOT_EPOCHS = 100  # of each start of the pilot, at most


def solve_cpm_rounds(
    hands: Hands, count: int, recipe: Recipe, n_faces: int, *, start: ArrayLike | None = None,
    steps: int | None = None, n_shards: int = 8, n_pilot: int = 20_000, scale: float = 1.0,
    max_iter: int = 30, tol: float = 1e-3, time_limit: float | None = None, seed: int = 0,
    checkpoint: str | Path | None = None, resume: str | Path | None = None,
) -> Solution:  # fmt: skip
    """Minimise J(W) of :mod:`formulations.cpm` with loss="sum" by rounds of local steps.

    hands: who reads the blocks.
    count: how many blocks there are.
    recipe: the class inside and the class outside, their weights, and C.
    n_faces: K, at least 1.
    start (K, m+1): faces to begin from, bias last; by default the pilot's.
    steps: how many steps of Algorithm 1 a given start counts for: the fewer, the longer the first steps. By
        default 100 times `n_pilot`.
    n_shards: S, at least 1; no more than there are blocks with samples.
    n_pilot: samples of the pilot, roughly.
    scale: what every entry of X counts times.
    max_iter: passes through all samples at most.
    tol: the run ends when its last three measurements, over more than half of its passes, lie within this
        share of the least.
    time_limit: seconds. A round that it cuts off is dropped.
    seed: of all that is random.
    checkpoint: A file to be written after every round.
    resume: A checkpoint to go on from, of the same problem; it ends with the same bits.
    Returns: ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``iterations`` are rounds.
        ``history`` has one record per round, the start's first: the passes so far, the estimate of the
        objective that the steps gave on their way, and the objective of the better of average and last
        iterate where it was measured (at the start, after 1, 2, 3, 5, 8, ... passes, and at the end; else
        nan). The objective is inf where the time was over before anything was measured.
    ValueError: an argument out of its range, one class alone, or a checkpoint of something else.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    scale = positive("scale", scale)
    for name, value in (
        ("n_faces", n_faces), ("n_shards", n_shards), ("n_pilot", n_pilot), ("max_iter", max_iter),
    ):  # fmt: skip
        whole(name, value, 1)
    steps = whole("steps", _PILOT_EPOCHS * n_pilot if steps is None else steps, 1)
    facts = survey(hands, recipe, count)
    W = None if start is None else checked_faces("start", start, n_faces, facts.m + 1)
    rounds = _Rounds(
        hands, recipe, facts, n_faces, Shards([p.n for p in facts.parts], n_shards, seed), scale, seed, clock
    )
    about = {} if checkpoint is None and resume is None else rounds.about(n_pilot, W, steps)
    save = None if checkpoint is None else files.Saver(checkpoint, [], about)
    status = Status.TIME_LIMIT
    try:
        if resume is not None:
            rounds.state = State.of(files.load(resume, about)[1])
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
    """All that a checkpoint has.

    point: where the next round begins.
    best, reached: the best faces that were measured, and their objective.
    rounds, passes, done: rounds; whole passes; and rows of the next one that the longest shard has visited.
    due: passes at which the next measurement is due.
    measured: objectives that were measured when they were due, without the start's.
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
        """Numbers, arrays and lists by name, as :func:`polyopt.large.checkpoint.save` takes them."""
        return {
            **{name: value for name, value in vars(self).items() if name != "point"},
            **self.point._asdict(),
        }

    @classmethod
    def of(cls, known: dict[str, Any]) -> State:
        """The state of what a checkpoint has."""
        return cls(Point(*(known.pop(name) for name in Point._fields)), **known)


class _Rounds:
    """The loop, and what it needs in every round."""

    state: State

    def __init__(
        self, hands: Hands, recipe: Recipe, facts: Facts, n_faces: int, shards: Shards, scale: float,
        seed: int, clock: Clock,
    ):  # fmt: skip
        self.hands, self.recipe, self.facts, self.n_faces = hands, recipe, facts, n_faces
        self.shards, self.scale, self.seed, self.clock = shards, scale, seed, clock
        half = 0.5 * facts.n
        self.dtype = precision(facts.size * scale, half * facts.least, half * facts.most)
        zero = np.zeros((n_faces, facts.m + 1))
        self.state = State(Point(zero, zero, 1), zero)

    def about(self, n_pilot: int, start: Vector | None, steps: int) -> dict[str, Any]:
        """What a checkpoint must be of, to be gone on from."""
        paid = self._paid([files.probe(self.n_faces, self.facts.m + 1)])
        assert paid is not None
        known = repr(self.facts.parts).encode() + paid.tobytes()
        begun = None if start is None else sha256(start.tobytes() + str(steps).encode()).hexdigest()[:16]
        return {
            "machine": MACHINE,
            "samples": self.facts.n, "features": self.facts.m, "blocks": len(self.facts.parts),
            "C": self.recipe.C, "factors": repr(self.recipe.factors), "faces": self.n_faces,
            "shards": len(self.shards.blocks), "pilot": n_pilot, "scale": self.scale, "seed": self.seed,
            "start": begun,
            "digest": sha256(known).hexdigest()[:16],
        }  # fmt: skip

    def begin(self, n_pilot: int, start: Vector | None, steps: int) -> bool:
        """Take the start, or make it by a pilot; False where time is over before there is one."""
        if start is None:
            found = self._pilot(n_pilot)
            if found is None:
                return False
            start, steps = found
        self.state = State(Point(start, start, steps), start)
        return True

    def _pilot(self, n_pilot: int) -> tuple[Vector, int] | None:
        """Faces, and the steps that they have taken."""
        drawn = draw(self.hands, self.recipe, self.facts, n_pilot, self.seed, self._is_over)
        if drawn is None:
            return None
        X, outside, weights = drawn
        left = self.clock.left
        settings = Settings(
            self.n_faces, "sgd", feature_scale=self.scale, n_init=3 if self.n_faces > 1 else 1,
            max_iter=_PILOT_EPOCHS, time_limit=None if left is None else 0.3 * left,
        )  # fmt: skip
        found = solve_cpm(X, np.where(outside, 1.0, -1.0), self.recipe.C * weights, settings, self.seed)
        epochs = max(each.iterations for each in found.runs or (found,))
        return np.asarray(found["W"]), max(epochs, 1) * X.shape[0]

    def run(self, max_iter: int, tol: float, save: files.Saver | None) -> Status:
        """Rounds until it has settled or a limit is reached."""
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
            last = state.measured[-_N_AGREEING:]
            if len(last) == _N_AGREEING and max(last) <= (1.0 + tol) * min(state.measured):
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
        """One round; False, and nothing has changed, where time is over before."""
        state, shards = self.state, self.shards
        left = shards.longest - state.done
        # No round takes more steps than were taken before, save for the short rest of a pass.
        steps = left if left <= 1.5 * state.point.steps else min(state.point.steps, left)
        place = state.done, state.done + steps
        first = begin(state.point, self.dtype)
        how = (self.recipe, self.facts.n, self.n_faces, self.scale, self.seed, state.passes)
        walks = [
            Walk(
                first, [(number, (*how, *part)) for number, part in shards.stops(shard, state.passes, *place)]
            )
            for shard in range(len(shards.blocks))
        ]
        runs: list[Run] | None = self.hands.walk(_visit, walks, self._is_over)
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
        """Measure the objectives and keep the best; False where time is over before."""
        state = self.state
        if not state.history:
            self._record(math.nan)
        found = [state.point.W, *([state.point.A] if state.point.weight else [])]
        paid = self._paid(found, self._is_over)
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

    def _paid(self, found: list[Vector], is_over: Callable[[], bool] | None = None) -> Vector | None:
        """The losses of all samples at some faces; None where time is over before."""
        given = [(self.recipe, self.scale, found) if part.n else None for part in self.facts.parts]
        paid = each_block(self.hands, _losses, given, is_over)
        return None if paid is None else np.asarray(total(paid))


def _visit(
    run: Run, samples: Samples, number: int, recipe: Recipe, n: int, n_faces: int, scale: float,
    seed: int, passes: int, first: int, last: int,
) -> Run:  # fmt: skip
    """A run's steps through places `first` to `last` of a block's order."""
    X, outside, weights = sides_of(samples, recipe)
    order = row_order(seed, passes, number, len(weights))[first:last]
    return visit(run, as_rows(X), outside, 0.5 * n * recipe.C * weights, order, n_faces, scale)


def _losses(
    _: None, samples: Samples, number: int, recipe: Recipe, scale: float, found: list[Vector]
) -> Vector:
    """The loss of a block at some faces."""
    X, outside, weights = sides_of(samples, recipe)
    rows, costs = as_rows(X), recipe.C * weights
    return np.array([losses(W, rows, outside, costs, scale) for W in found])
