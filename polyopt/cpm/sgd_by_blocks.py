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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.progress import tell
from polyopt.cpm.sgd import AVERAGE, LOSS, CpmSgd, faces_of, iterate, losses, precision, running_sum
from polyopt.cpm.solve import Settings, solve_cpm
from polyopt.linalg.rows import as_rows, in_lanes
from polyopt.scale.blocks import Pair, Report, TwoClasses, concatenate, two_classes
from polyopt.scale.checkpoint import Checkpoint
from polyopt.scale.crew import total
from polyopt.scale.executor import Executor
from polyopt.scale.sources import Samples

Vector = NDArray[np.float64]

# First entries of the seeds of random orders and draws.
_BLOCK_ORDER, _ROW_ORDER, _SAMPLE_COUNTS, _SAMPLE_ROWS = range(4)


@dataclass(frozen=True)
class Options:
    """Numbers of the method.

    tol, n_agreeing: a run has converged if its last `n_agreeing` measurements, over more than half of its
        passes, are within this relative distance of the least.
    max_passes: passes through all samples at most.
    measured_pass_ratio: growth of the passes up to the next measurement, which costs about as much as a pass.
    pilot_samples: samples of the pilot, roughly.
    pilot_epochs: epochs of each start of the pilot at most.
    pilot_starts: random starts of the pilot, for more than one face.
    pilot_time_fraction: fraction of the remaining time that the pilot may take.
    """

    tol: float = 1e-3
    n_agreeing: int = 3
    max_passes: int = 30
    measured_pass_ratio: float = 1.5
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


def compute_losses(
    executor: Executor, pair: Pair, summary: Summary, scale: float, candidates: Sequence[Vector],
    is_over: Callable[[], bool] | None = None,
) -> Vector | None:  # fmt: skip
    """Return the loss of all samples for each of several W (K, m+1); None if time is over."""
    arguments = [(pair, scale, candidates) if any(counts) else None for counts in summary.counts]
    per_block = executor.each(_block_losses, arguments, is_over)
    return None if per_block is None else np.asarray(total(per_block))


def _block_losses(
    samples: Samples, number: int, pair: Pair, scale: float, candidates: Sequence[Vector]
) -> Vector:
    X, outside, weights = two_classes(samples, pair)
    rows, costs = as_rows(X), pair.C * weights
    return np.array([losses(W, rows, outside, costs, scale) for W in candidates])


# -- the sample of the pilot -------------------------------------------------------------------------


def draw_sample(
    executor: Executor, pair: Pair, summary: Summary, size: int, seed: int,
    is_over: Callable[[], bool] | None = None,
) -> TwoClasses | None:  # fmt: skip
    """Draw about `size` samples without replacement, in each class at least size/10, or all if it has fewer.

    Weights are multiplied by the number of samples that each stands for. Return None if time is over.
    """
    rng, per_class, factors = np.random.default_rng([seed, _SAMPLE_COUNTS]), [], []
    for counts in summary.counts.T:
        class_size = int(counts.sum())
        sample_size = min(class_size, max(round(size * class_size / summary.n), size // 10, 1))
        per_class.append(_draw_counts(rng, counts, sample_size))
        factors.append(class_size / int(per_class[-1].sum()))
    per_block = zip(*(counts.tolist() for counts in per_class), strict=True)
    arguments = [(pair, seed, counts) if sum(counts) else None for counts in per_block]
    parts = executor.each(_draw_rows, arguments, is_over)
    if parts is None:
        return None
    X, outside, weights = concatenate(parts)
    return TwoClasses(X, outside, weights * np.where(outside, factors[1], factors[0]))


def _draw_counts(rng: np.random.Generator, counts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Draw `size` of the samples of all blocks without replacement; return the number in each block."""
    if counts.sum() < 10**9:  # numpy's limit; beyond, a draw with replacement hardly differs
        return rng.multivariate_hypergeometric(counts, size, method="marginals")
    # Small blocks may give a few samples less.
    return np.minimum(rng.multinomial(size, counts / counts.sum()), counts)


def _draw_rows(samples: Samples, number: int, pair: Pair, seed: int, counts: tuple[int, int]) -> TwoClasses:
    X, outside, weights = two_classes(samples, pair)
    rng = np.random.default_rng([seed, _SAMPLE_ROWS, number])
    chosen = [
        rng.choice(np.flatnonzero(outside == is_outside), count, replace=False, shuffle=False)
        for is_outside, count in zip((False, True), counts, strict=True)
    ]
    rows = np.sort(np.concatenate(chosen))
    return TwoClasses(X[rows], outside[rows], weights[rows])


# -- the solver --------------------------------------------------------------------------------------


class SgdState(NamedTuple):
    """State of Algorithm 1 between two blocks.

    U, A: running sum and average of :class:`~polyopt.cpm.sgd.CpmSgd`, as lanes (m+1, L).
    steps: number of steps t.
    average_weight: sum of the weights of the iterates in A, relative to the last one's; 0 if there are none.
    loss: sum of the hinges at the steps of a pass, times the samples' gains.
    """

    U: NDArray[Any]
    A: NDArray[Any]
    steps: int
    average_weight: float
    loss: float


@dataclass
class Passes:
    """Algorithm 1 over the blocks, which minimises J(W) of :mod:`formulations.cpm` with loss="sum".

    pair: the class inside and the class outside, their weights, and C.
    scale: factor of every entry of X.
    save: the checkpoint, which is written after every pass; a resumed one has a seed of its own.
    history: one record for the start and for each pass.
    best, best_objective: the best measured faces (K, m+1), and their objective.
    """

    executor: Executor
    pair: Pair
    summary: Summary
    n_faces: int
    clock: Clock
    save: Checkpoint
    scale: float = 1.0
    seed: int = 0
    options: Options = field(default_factory=lambda: OPTIONS)
    history: list[dict[str, float]] = field(default_factory=list, init=False)
    best: Vector = field(init=False)
    best_objective: float = field(default=math.inf, init=False)
    _sgd: SgdState = field(init=False)  # after the last pass

    def run(self) -> Solution:
        """Take passes until the last measurements agree, or a limit, whose pass is dropped.

        Returns: ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``iterations`` are
            passes. ``history`` has the estimate of the objective from the steps of each pass, and the
            measured objective of the better of average and last iterate (at the start, after 1, 2, 3, 5, 8,
            12, ... passes, and at the end; else nan). The objective is inf if the time was over before the
            start was measured.
        """
        try:
            if self.save.state is None:
                self._begin()
            else:
                vars(self).update(self.save.state)
            status = self._take_passes()
        except KeyboardInterrupt:
            status = interrupted()
        return Solution(
            status, {"W": self.best}, {}, self.best_objective, None, "sgd, by blocks",
            iterations=self._passes, solve_time=self.clock.seconds, history=tuple(self.history),
        )  # fmt: skip

    @property
    def _passes(self) -> int:
        return max(len(self.history) - 1, 0)

    def _is_over(self) -> bool:
        return self.clock.is_over

    def _save(self) -> None:
        names = ("history", "best", "best_objective", "seed", "_sgd")
        self.save({name: getattr(self, name) for name in names})

    def _begin(self) -> None:
        """Begin at the faces of the pilot; at faces of 0 if time is over."""
        self.best, self._sgd = self._state_at(np.zeros((self.n_faces, self.summary.m + 1)), 1)
        pilot = self._solve_pilot()
        if pilot is not None:
            self.best, self._sgd = self._state_at(*pilot)
        self._record(0, math.nan)
        if pilot is not None:
            self._save()

    def _state_at(self, W: Vector, steps: int) -> tuple[Vector, SgdState]:
        """Return the faces W, and the state of Algorithm 1 at them after so many steps."""
        half, summary = 0.5 * self.summary.n, self.summary
        dtype = precision(summary.max_entry * self.scale, half * summary.min_cost, half * summary.max_cost)
        return W, SgdState(in_lanes(running_sum(W, steps), dtype), in_lanes(W, dtype), steps, 0.0, 0.0)

    def _solve_pilot(self) -> tuple[Vector, int] | None:
        """Return the faces of a pilot, and their number of steps; None if time is over."""
        sample = draw_sample(
            self.executor, self.pair, self.summary, self.options.pilot_samples, self.seed, self._is_over
        )
        if sample is None:
            return None
        X, outside, weights = sample
        left, options = self.clock.left, self.options
        settings = Settings(
            self.n_faces, "sgd", feature_scale=self.scale,
            n_init=options.pilot_starts if self.n_faces > 1 else 1, max_iter=options.pilot_epochs,
            time_limit=None if left is None else options.pilot_time_fraction * left,
        )  # fmt: skip
        solution = solve_cpm(X, np.where(outside, 1.0, -1.0), self.pair.C * weights, settings, self.seed)
        epochs = max(run.iterations for run in solution.runs or (solution,))
        return np.asarray(solution["W"]), max(epochs, 1) * X.shape[0]

    def _take_passes(self) -> Status:
        options = self.options
        while True:
            measured = [record for record in self.history if not math.isnan(record["objective"])]
            last_measured = measured[-1]["pass"] if measured else -1.0
            next_measured = max(last_measured + 1.0, math.ceil(options.measured_pass_ratio * last_measured))
            if self._passes >= min(next_measured, self.options.max_passes):
                if not self._measure():
                    return Status.TIME_LIMIT
                measured.append(self.history[-1])
            tell(self.history[-1])
            objectives = [record["objective"] for record in measured[1:]]  # without the start's
            last = objectives[-options.n_agreeing :]
            if len(last) == options.n_agreeing and max(last) <= (1.0 + options.tol) * min(objectives):
                return Status.CONVERGED
            if self._passes >= self.options.max_passes:
                return Status.ITERATION_LIMIT
            if not self._take_pass():
                return Status.TIME_LIMIT
            self._save()

    def _take_pass(self) -> bool:
        """Take a step for every sample; return False, with nothing changed, if time is over."""
        n, passes = self.summary.n, self._passes
        blocks = np.flatnonzero(self.summary.counts.any(axis=1)).tolist()
        order = np.random.default_rng([self.seed, _BLOCK_ORDER, passes]).permutation(blocks)
        arguments = (self.pair, n, self.n_faces, self.scale, self.seed, passes)
        stops = [(number, arguments) for number in order.tolist()]
        end = self.executor.chain(_take_steps, self._sgd._replace(loss=0.0), stops, self._is_over)
        if end is None:
            return False
        self._sgd = end[0]
        W = iterate(self._sgd.U, self._sgd.steps)
        self._record(passes + 1, float((W**2).sum()) + 2.0 * self._sgd.loss / n)
        return True

    def _record(self, passes: int, estimate: float) -> None:
        record = {"pass": float(passes), "seconds": self.clock.seconds}
        self.history.append(record | {"estimate": estimate, "objective": math.nan})

    def _measure(self) -> bool:
        """Measure the objectives of average and last iterate, and keep the best; False if time is over."""
        candidates = [self.best]
        if self._passes:
            lanes = [iterate(self._sgd.U, self._sgd.steps)]
            lanes += [self._sgd.A] if self._sgd.average_weight else []
            candidates = [faces_of(each, self.n_faces) for each in lanes]
        losses = compute_losses(self.executor, self.pair, self.summary, self.scale, candidates, self._is_over)
        if losses is None:
            return False
        objectives = [float((W**2).sum() + loss) for W, loss in zip(candidates, losses, strict=True)]
        objective = self.history[-1]["objective"] = min(objectives)
        if objective < self.best_objective:
            self.best, self.best_objective = candidates[objectives.index(objective)], objective
        return True


def row_order(seed: int, passes: int, number: int, n: int) -> NDArray[np.int64]:
    """Return the order of the n samples of block `number` after so many passes."""
    return np.random.default_rng([seed, _ROW_ORDER, passes, number]).permutation(n)


def _take_steps(
    state: SgdState, samples: Samples, number: int, pair: Pair, n: int, n_faces: int, scale: float,
    seed: int, passes: int,
) -> tuple[SgdState, None]:  # fmt: skip
    """Take a step of Algorithm 1 for each sample of a block; n is the size of all blocks."""
    X, outside, weights = two_classes(samples, pair)
    rows = as_rows(X)
    sgd = CpmSgd(rows.width, n_faces, scale=scale, dtype=state.U.dtype.type)
    # Copies, so that the step can be repeated if its result is lost.
    sgd.U, sgd.A, sgd.steps[0] = state.U.copy(), state.A.copy(), state.steps
    sgd.tally[AVERAGE], sgd.tally[LOSS] = state.average_weight, state.loss
    unassigned = np.full(len(weights), -1)
    order = row_order(seed, passes, number, len(weights))
    gains = 0.5 * n * pair.C * weights
    sgd.take_steps(sgd.step_arguments(rows, outside, gains, unassigned, unassigned.copy()), rows, order)
    tally = float(sgd.tally[AVERAGE]), float(sgd.tally[LOSS])
    return SgdState(sgd.U, sgd.A, int(sgd.steps[0]), *tally), None
