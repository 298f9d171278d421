"""Algorithm 1 of the Convex Polytope Machine on samples in blocks: a pilot, then passes of stochastic steps.

1. **Pilot.** Algorithm 1 (:mod:`polyopt.cpm.sgd`) first runs in memory, on a sample that is drawn from all
   blocks. Its faces W (K, m+1) and its number of steps t are the start: steps of size 1/(λ(t+1)) with a small
   t make faces far too long, and only later steps mend that.
2. **Passes.** A pass takes one step for each sample, block by block, in a random order of the blocks and of
   the samples of each block. The state of Algorithm 1 goes from block to block, so all passes are one
   sequence of steps, and a step is taken where the samples are.
3. **Answer.** The average of all iterates or the last iterate, whichever has the smaller objective over all
   samples, at the best measured pass. The start is measured as well, so the answer is never worse.

The orders follow from the seed, the pass and the block. The answer therefore depends on the blocks and the
seed, but not on the threads or workers.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock, OutOfTimeError, interrupted
from formulations.language.solution import Solution
from formulations.language.types import Vector
from polyopt.cpm.sgd import LOSS, CpmSgd, Epochs, losses, precision
from polyopt.cpm.solve import Settings, solve_cpm
from polyopt.linalg.rows import as_rows
from polyopt.scale.blocks import Pair, Report, TwoClasses, concatenate, two_classes
from polyopt.scale.checkpoint import Checkpoint
from polyopt.scale.crew import total
from polyopt.scale.executor import Executor
from polyopt.scale.sources import Samples

# Second entries of the seeds, which keep the order of blocks, of rows, and the pilot's draws independent.
_BLOCK_ORDER, _ROW_ORDER, _SAMPLE_ROWS = range(3)


@dataclass(frozen=True)
class Options:
    """Numbers of the method.

    tol: relative distance of the last measured objectives from the least at which the passes have converged.
    max_passes: passes through all samples at most.
    pilot_samples: samples of the pilot, roughly.
    pilot_epochs: epochs of each start of the pilot at most.
    pilot_starts: random starts of the pilot, for more than one face.
    pilot_time_fraction: fraction of the remaining time that the pilot may take.
    """

    tol: float = 1e-3
    max_passes: int = 30
    pilot_samples: int = 20_000
    pilot_epochs: int = 100
    pilot_starts: int = 3
    pilot_time_fraction: float = 0.3


OPTIONS = Options()


# -- figures of all samples --------------------------------------------------------------------------


class Summary(NamedTuple):
    """Figures of the samples of two classes.

    m: number of features.
    counts (blocks, 2): samples of the first and of the second class in each block.
    min_cost, max_cost, total_cost: least, largest and total cost of slack of a sample.
    max_entry: largest absolute entry of X.
    """

    m: int
    counts: NDArray[np.int64]
    min_cost: float
    max_cost: float
    total_cost: float
    max_entry: float

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())


def summarize(reports: Sequence[Report], pair: Pair) -> Summary:
    """Return the figures of all blocks from their inspection."""
    counts, costs = np.zeros((len(reports), 2), dtype=np.int64), []
    for number, report in enumerate(reports):
        for side, (label, factor) in enumerate(zip(pair.classes, pair.factors, strict=True)):
            if (of_label := np.asarray(report.labels == label)).any():
                counts[number, side] = report.counts[of_label][0]
                costs.append(pair.C * (factor * report.weights[of_label][0]))
    total_cost, least, most = np.array(costs).T
    max_entry = max(report.max_entry for report in reports)
    return Summary(
        reports[0].m, counts, float(least.min()), float(most.max()), float(total_cost.sum()), max_entry
    )


def draw_sample(
    executor: Executor, pair: Pair, summary: Summary, size: int, seed: int, clock: Clock | None = None
) -> TwoClasses:
    """Draw about `size` samples without replacement, in each class at least size/10, or all if it has fewer.

    A block has its share of each class, rounded up. Weights are multiplied by the number of samples of the
    class and block that each stands for.
    """
    class_sizes = np.maximum(summary.counts.sum(axis=0), 1)
    wanted = np.maximum(np.round(size * class_sizes / summary.n), max(size // 10, 1)).astype(np.int64)
    counts = -(-summary.counts * np.minimum(wanted, class_sizes) // class_sizes)  # (blocks, 2)
    arguments = [(pair, seed, of_block) if sum(of_block) else None for of_block in counts.tolist()]
    return concatenate(executor.each(_draw_rows, arguments, clock))


def _draw_rows(samples: Samples, number: int, pair: Pair, seed: int, counts: Sequence[int]) -> TwoClasses:
    """Draw samples of a block: `counts` inside and outside."""
    X, outside, weights = two_classes(samples, pair)
    weights = weights.copy()
    rng = np.random.default_rng([seed, _SAMPLE_ROWS, number])
    chosen = []
    for is_outside, count in zip((False, True), counts, strict=True):
        rows = np.flatnonzero(outside == is_outside)
        chosen.append(rng.choice(rows, count, replace=False, shuffle=False))
        weights[rows] *= len(rows) / max(count, 1)
    drawn = np.sort(np.concatenate(chosen))
    return TwoClasses(X[drawn], outside[drawn], weights[drawn])


# -- the solver --------------------------------------------------------------------------------------


class Passes(Epochs):
    """Algorithm 1 over the blocks, which minimises J(W) of :mod:`formulations.cpm` with loss="sum".

    An epoch is a pass through all blocks; a pass that the time limit or Ctrl-C cuts off is dropped.

    pair: the class inside and the class outside, their weights, and C.
    save: the checkpoint, which is written after every pass; if it is resumed, its seed replaces `seed`.
    scale: factor of every entry of X.
    """

    solver = "sgd, by blocks"

    def __init__(
        self, executor: Executor, pair: Pair, summary: Summary, n_faces: int, save: Checkpoint,
        scale: float = 1.0, seed: int = 0, options: Options = OPTIONS,
    ):  # fmt: skip
        half_n = 0.5 * summary.n  # gain of a sample per unit of its cost
        dtype = precision(summary.max_entry * scale, half_n * summary.min_cost, half_n * summary.max_cost)
        machine = CpmSgd(summary.m, n_faces, scale=scale, dtype=dtype)
        super().__init__(machine, np.zeros((n_faces, summary.m + 1)), first_measured=0)
        self.executor, self.pair, self.summary, self.save, self.seed = executor, pair, summary, save, seed
        self.options = options

    def solve(self, clock: Clock, start: tuple[Vector, int] | None = None) -> Solution:
        """Take passes from the pilot's faces until the last measurements agree, or a limit.

        start: faces (K, m+1) in place of the pilot's, and the number of steps that they count for.
        Returns: ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``history`` has for each
            pass the estimate of the objective from its steps, and now and then the measured objective of the
            better of average and last iterate (else nan); at first a record of the start. The objective is
            inf if the time was over before the start was measured.
        """
        try:
            self._begin(clock, start)
        except OutOfTimeError:  # before the pilot had its samples: the faces are 0
            self._record(0, math.nan, clock)
        except KeyboardInterrupt:
            return self.solution(interrupted(), clock)
        return self.solution(self.run(clock, self.options.max_passes, self.options.tol), clock)

    def _begin(self, clock: Clock, start: tuple[Vector, int] | None) -> None:
        """Begin at a checkpoint, or at the start or the faces of the pilot."""
        if self.save.state is not None:
            state = dict(self.save.state)
            self.machine.set_state(state.pop("machine"))
            vars(self).update(state)
            return
        self.result, steps = start or self._solve_pilot(clock)
        self.machine.begin_at(self.result, steps)
        self._record(0, math.nan, clock)
        self._save()

    def _save(self) -> None:
        """Write the checkpoint, whose entries :meth:`_begin` restores."""
        names = ("history", "measured", "result", "result_objective", "seed")
        self.save({name: getattr(self, name) for name in names} | {"machine": self.machine.state})

    def _solve_pilot(self, clock: Clock) -> tuple[Vector, int]:
        """Return the faces of a pilot, and their number of steps."""
        options, K = self.options, self.machine.n_faces
        X, outside, weights = draw_sample(
            self.executor, self.pair, self.summary, options.pilot_samples, self.seed, clock
        )
        settings = Settings(
            K, "sgd", feature_scale=self.machine.scale, n_init=options.pilot_starts if K > 1 else 1,
            max_iter=options.pilot_epochs, time_limit=clock.part(options.pilot_time_fraction).left,
        )  # fmt: skip
        solution = solve_cpm(X, np.where(outside, 1.0, -1.0), self.pair.C * weights, settings, self.seed)
        epochs = max(run.iterations for run in solution.runs or (solution,))
        return np.asarray(solution["W"]), max(epochs, 1) * X.shape[0]

    def epoch(self, clock: Clock) -> None:
        """Take a step for every sample; if time is over before the end, the state stays the same."""
        machine, n, passes = self.machine, self.summary.n, self.made
        blocks = np.flatnonzero(self.summary.counts.any(axis=1)).tolist()
        order = np.random.default_rng([self.seed, _BLOCK_ORDER, passes]).permutation(blocks)
        arguments = (self.pair, n, machine.n_faces, machine.scale, self.seed, passes)
        stops = [(number, arguments) for number in order.tolist()]
        machine.tally[LOSS] = 0.0
        state, _ = self.executor.chain(_take_steps, machine.state, stops, clock)
        machine.set_state(state)
        estimate = float((machine.last**2).sum()) + 2.0 * float(machine.tally[LOSS]) / n
        self._record(passes + 1, estimate, clock)
        self._save()

    def _record(self, passes: int, estimate: float, clock: Clock) -> None:
        record = {"epoch": float(passes), "seconds": clock.seconds}
        self.history.append(record | {"estimate": estimate, "objective": math.nan})

    def measure(self, clock: Clock | None = None) -> None:
        """Measure the objectives of average and last iterate, or of the start, and keep the best."""
        candidates = self.machine.iterates if self.made else [self.result]
        arguments = [
            (self.pair, self.machine.scale, candidates) if any(counts) else None
            for counts in self.summary.counts
        ]
        losses = total(self.executor.each(_block_losses, arguments, clock))
        objectives = [float((W**2).sum() + loss) for W, loss in zip(candidates, losses, strict=True)]
        objective = self.history[-1]["objective"] = min(objectives)
        if objective < self.result_objective:
            self.result, self.result_objective = candidates[objectives.index(objective)], objective


def _block_losses(
    samples: Samples, number: int, pair: Pair, scale: float, candidates: Sequence[Vector]
) -> Vector:
    """Return the sum of the losses of a block at each of the candidates, faces (K, m+1)."""
    X, outside, weights = two_classes(samples, pair)
    rows, costs = as_rows(X), pair.C * weights
    return np.array([losses(W, rows, outside, costs, scale) for W in candidates])


def row_order(seed: int, passes: int, number: int, n: int) -> NDArray[np.int64]:
    """Return the random order of the n samples of block `number` in the pass after so many `passes`."""
    return np.random.default_rng([seed, _ROW_ORDER, passes, number]).permutation(n)


def _take_steps(
    state: tuple[NDArray[Any], ...], samples: Samples, number: int, pair: Pair, n: int, n_faces: int,
    scale: float, seed: int, passes: int,
) -> tuple[tuple[NDArray[Any], ...], None]:  # fmt: skip
    """Take a step of Algorithm 1 for each sample of a block; return the next :attr:`CpmSgd.state`.

    The state is copied, so that the steps can be repeated if their result is lost.

    n: number of samples of all blocks.
    """
    X, outside, weights = two_classes(samples, pair)
    rows = as_rows(X)
    machine = CpmSgd(rows.width, n_faces, scale=scale, dtype=state[0].dtype.type)
    machine.set_state(state)
    gains = 0.5 * n * pair.C * weights
    last_faces, unadjusted = np.full(len(weights), -1), np.full(len(weights), -1)  # of no use without a floor
    arguments = machine.step_arguments(rows, outside, gains, last_faces, unadjusted)
    machine.take_steps(arguments, rows, row_order(seed, passes, number, len(weights)))
    return machine.state, None
