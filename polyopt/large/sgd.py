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

:func:`summarize` and :func:`draw_sample` look at the samples, :func:`compute_losses` sums their losses, and
:func:`checkpoint_identity` names a fit; the solver is :func:`solve_cpm_sgd_by_blocks`.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
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
from polyopt.cpm.sgd import AVERAGE, LOSS, CpmSgd, faces_of, iterate, losses, precision, running_sum
from polyopt.cpm.solve import Settings, solve_cpm
from polyopt.large.blocks import Recipe, TwoClasses, concatenate, two_classes
from polyopt.large.checkpoint import CheckpointWriter, load, probe
from polyopt.large.executor import Executor, Fold
from polyopt.large.sources import Samples
from polyopt.linalg.rows import as_rows, in_lanes
from polyopt.margin.interior_point.crew import total

Vector = NDArray[np.float64]

MACHINE = "Algorithm 1 of the Convex Polytope Machine"
"""The machine that a checkpoint of a pass names."""

# First entries of the seeds of random orders and draws.
_BLOCK_ORDER, _ROW_ORDER, _SAMPLE_COUNTS, _SAMPLE_ROWS = range(4)


@dataclass(frozen=True)
class Options:
    """Numbers of the method.

    n_agreeing: measurements that must lie within `tol` of the least for a run to have converged.
    measured_pass_ratio: growth of the passes up to the next measurement, which costs about as much as a pass.
    pilot_epochs: epochs of each start of the pilot at most.
    pilot_starts: random starts of the pilot, for more than one face.
    pilot_time_fraction: fraction of the remaining time that the pilot may take.
    """

    n_agreeing: int = 3
    measured_pass_ratio: float = 1.5
    pilot_epochs: int = 100
    pilot_starts: int = 3
    pilot_time_fraction: float = 0.3


# -- the samples of the blocks -----------------------------------------------------------------------


class BlockSummary(NamedTuple):
    """Figures of one block: features, samples of each class, their costs of slack, largest absolute entry."""

    m: int
    n_inside: int
    n_outside: int
    total_cost: float
    min_cost: float
    max_cost: float
    max_entry: float

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.n_inside + self.n_outside


class Summary(NamedTuple):
    """Figures of each block, and of all blocks: samples, features, extreme costs, largest absolute entry."""

    blocks: list[BlockSummary]
    n: int
    m: int
    min_cost: float
    max_cost: float
    max_entry: float


def summarize(executor: Executor, recipe: Recipe) -> Summary:
    """Measure all blocks.

    ValueError: a class without samples, different numbers of features, or entries that are not finite.
    """
    blocks: list[BlockSummary] = executor.each(_summarize_block, [(recipe,)] * executor.count)
    nonempty = [block for block in blocks if block.n]
    for number, block in enumerate(blocks):
        if not np.isfinite(block.max_entry):
            raise ValueError(f"X has NaN or an infinite value in partition {number}")
    for name, label in zip(("n_inside", "n_outside"), recipe.classes, strict=True):
        if not any(getattr(block, name) for block in nonempty):
            raise ValueError(f"there is no sample of class {label!r} with positive weight")
    widths = sorted({block.m for block in nonempty})
    if len(widths) > 1:
        raise ValueError(f"all blocks need as many features; {widths} were found")
    return Summary(
        blocks,
        sum(block.n for block in nonempty),
        widths[0],
        min(block.min_cost for block in nonempty),
        max(block.max_cost for block in nonempty),
        max(block.max_entry for block in nonempty),
    )


def _summarize_block(_: None, samples: Samples, number: int, recipe: Recipe) -> BlockSummary:
    X, outside, weights = two_classes(samples, recipe)
    n, m = X.shape
    if not n:
        return BlockSummary(m, 0, 0, 0.0, np.inf, 0.0, 0.0)
    costs, values = recipe.C * weights, X.data if sp.issparse(X) else X
    max_entry = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    n_outside = int(outside.sum())
    extremes = float(costs.min()), float(costs.max())
    return BlockSummary(m, n - n_outside, n_outside, float(costs.sum()), *extremes, max_entry)


def draw_sample(
    executor: Executor, recipe: Recipe, summary: Summary, size: int, seed: int,
    is_over: Callable[[], bool] | None = None,
) -> TwoClasses | None:  # fmt: skip
    """Draw about `size` samples without replacement, in each class at least size/10, or all if it has fewer.

    Weights are multiplied by the number of samples that each stands for. Return None if time is over.
    """
    rng, per_class, factors = np.random.default_rng([seed, _SAMPLE_COUNTS]), [], []
    for name in ("n_inside", "n_outside"):
        counts = np.array([getattr(block, name) for block in summary.blocks])
        class_size = int(counts.sum())
        sample_size = min(class_size, max(round(size * class_size / summary.n), size // 10, 1))
        per_class.append(_draw_counts(rng, counts, sample_size))
        factors.append(class_size / int(per_class[-1].sum()))
    per_block = zip(*(counts.tolist() for counts in per_class), strict=True)
    arguments = [(recipe, seed, counts) if sum(counts) else None for counts in per_block]
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


def _draw_rows(
    _: None, samples: Samples, number: int, recipe: Recipe, seed: int, counts: tuple[int, int]
) -> TwoClasses:
    X, outside, weights = two_classes(samples, recipe)
    rng = np.random.default_rng([seed, _SAMPLE_ROWS, number])
    chosen = [
        rng.choice(np.flatnonzero(outside == is_outside), count, replace=False, shuffle=False)
        for is_outside, count in zip((False, True), counts, strict=True)
    ]
    rows = np.sort(np.concatenate(chosen))
    return TwoClasses(X[rows], outside[rows], weights[rows])


# -- losses and checkpoints --------------------------------------------------------------------------


def compute_losses(
    executor: Executor, recipe: Recipe, summary: Summary, scale: float, candidates: list[Vector],
    is_over: Callable[[], bool] | None = None,
) -> Vector | None:  # fmt: skip
    """Return the loss of all samples for each of several W (K, m+1); None if time is over."""
    arguments = [(recipe, scale, candidates) if block.n else None for block in summary.blocks]
    per_block = executor.each(_compute_block_losses, arguments, is_over)
    return None if per_block is None else np.asarray(total(per_block))


def _compute_block_losses(
    _: None, samples: Samples, number: int, recipe: Recipe, scale: float, candidates: list[Vector]
) -> Vector:
    X, outside, weights = two_classes(samples, recipe)
    rows, costs = as_rows(X), recipe.C * weights
    return np.array([losses(W, rows, outside, costs, scale) for W in candidates])


def checkpoint_identity(
    executor: Executor, recipe: Recipe, summary: Summary, n_faces: int, scale: float, machine: str,
    **settings: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return the identity of a checkpoint of faces; its digest is a loss of the samples and labels."""
    losses = compute_losses(executor, recipe, summary, scale, [probe(n_faces, summary.m + 1)])
    assert losses is not None
    return {
        "machine": machine, "samples": summary.n, "features": summary.m, "blocks": len(summary.blocks),
        "C": recipe.C, "factors": repr(recipe.factors), "faces": n_faces, **settings, "scale": float(scale),
        "digest": sha256(repr(summary.blocks).encode() + losses.tobytes()).hexdigest()[:16],
    }  # fmt: skip


# -- the solver --------------------------------------------------------------------------------------


def solve_cpm_sgd_by_blocks(
    executor: Executor, recipe: Recipe, n_faces: int, *, summary: Summary | None = None,
    start: ArrayLike | None = None, steps: int | None = None, n_pilot: int = 20_000, scale: float = 1.0,
    max_iter: int = 30, tol: float = 1e-3, time_limit: float | None = None, seed: int = 0,
    checkpoint: str | Path | None = None, resume: str | Path | None = None, options: Options | None = None,
) -> Solution:  # fmt: skip
    """Minimise J(W) of :mod:`formulations.cpm` with loss="sum" by Algorithm 1 over the blocks.

    recipe: the class inside and the class outside, their weights, and C.
    summary: of :func:`summarize`, if it was called before.
    start (K, m+1): initial faces, bias last; by default the pilot's.
    steps: number of steps of Algorithm 1 that a given start counts for: the fewer, the longer the first
        steps. By default 100 times `n_pilot`.
    n_pilot: samples of the pilot, roughly.
    scale: factor of every entry of X.
    max_iter: passes through all samples at most.
    tol: the run ends when its last three measurements, over more than half of its passes, are within this
        relative distance of the least.
    time_limit: seconds. A pass that it cuts off is dropped.
    checkpoint, resume: a file to write after every pass, and one to resume, to the same bits.
    Returns: ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``iterations`` are passes.
        ``history`` has one record for the start and for each pass: the estimate of the objective from the
        steps, and the measured objective of the better of average and last iterate (at the start, after
        1, 2, 3, 5, 8, 12, ... passes, and at the end; else nan). The objective is inf if the time was over
        before the start was measured.
    ValueError: an argument out of its range, one class alone, or a checkpoint of something else.
    """
    clock, tol, options = Clock(time_limit), tolerance(tol), options or Options()
    scale = positive("scale", scale)
    for name, value in (("n_faces", n_faces), ("n_pilot", n_pilot), ("max_iter", max_iter)):
        whole(name, value, 1)
    steps = whole("steps", options.pilot_epochs * n_pilot if steps is None else steps, 1)
    summary = summary or summarize(executor, recipe)
    W = None if start is None else checked_faces("start", start, n_faces, summary.m + 1)
    identity = {}
    if checkpoint is not None or resume is not None:
        digest = None if W is None else sha256(W.tobytes() + str(steps).encode()).hexdigest()[:16]
        identity = checkpoint_identity(
            executor, recipe, summary, n_faces, scale, MACHINE, pilot=n_pilot, seed=seed, start=digest
        )
    save = None if checkpoint is None else CheckpointWriter(checkpoint, [], identity)
    run = _Run(executor, recipe, n_faces, summary, scale, seed, clock, options)
    status = Status.TIME_LIMIT
    try:
        if resume is not None:
            run.restore(load(resume, identity)[1])
        elif run.begin(n_pilot, W, steps) and save is not None:
            save(run.state())
        status = run.run(max_iter, tol, save)
    except KeyboardInterrupt:
        status = interrupted()
    return Solution(
        status, {"W": run.best}, {}, run.best_objective, None, "sgd, by blocks",
        iterations=run.passes, solve_time=clock.seconds, history=tuple(run.history),
    )  # fmt: skip


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


class _Run:
    """Passes through the blocks.

    sgd: state of Algorithm 1 after the last pass.
    passes, next_measured: number of passes, and the one after which the objective is measured next.
    measured: measured objectives, without the start's.
    best, best_objective: the best measured faces (K, m+1), and their objective.
    history: one record for the start and for each pass.
    """

    def __init__(
        self, executor: Executor, recipe: Recipe, n_faces: int, summary: Summary, scale: float, seed: int,
        clock: Clock, options: Options,
    ):  # fmt: skip
        self.executor, self.recipe, self.n_faces, self.summary = executor, recipe, n_faces, summary
        self.scale, self.seed, self.clock, self.options = scale, seed, clock, options
        self.sgd = self._sgd_at(np.zeros((n_faces, summary.m + 1)), 1)
        self.passes, self.next_measured = 0, 0
        self.measured: list[float] = []
        self.best, self.best_objective = np.zeros((n_faces, summary.m + 1)), math.inf
        self.history: list[dict[str, float]] = []

    def _sgd_at(self, W: Vector, steps: int) -> SgdState:
        """Return the state of Algorithm 1 at the faces W after so many steps."""
        half, summary = 0.5 * self.summary.n, self.summary
        dtype = precision(summary.max_entry * self.scale, half * summary.min_cost, half * summary.max_cost)
        return SgdState(in_lanes(running_sum(W, steps), dtype), in_lanes(W, dtype), steps, 0.0, 0.0)

    def state(self) -> dict[str, Any]:
        """Return numbers, arrays and lists by name, for a checkpoint."""
        names = ("passes", "next_measured", "measured", "best", "best_objective", "history")
        return {name: getattr(self, name) for name in names} | self.sgd._asdict()

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from the state of a checkpoint."""
        self.sgd = SgdState(*(state.pop(name) for name in SgdState._fields))
        vars(self).update(state)

    def begin(self, n_pilot: int, start: Vector | None, steps: int) -> bool:
        """Begin at `start` after so many steps, or at the pilot's faces; return False if time is over."""
        if start is None:
            pilot = self._solve_pilot(n_pilot)
            if pilot is None:
                return False
            start, steps = pilot
        self.best, self.sgd = start, self._sgd_at(start, steps)
        return True

    def _solve_pilot(self, size: int) -> tuple[Vector, int] | None:
        """Return the faces of a pilot, and their number of steps; None if time is over."""
        sample = draw_sample(self.executor, self.recipe, self.summary, size, self.seed, self._is_over)
        if sample is None:
            return None
        X, outside, weights = sample
        left, options = self.clock.left, self.options
        settings = Settings(
            self.n_faces, "sgd", feature_scale=self.scale,
            n_init=options.pilot_starts if self.n_faces > 1 else 1, max_iter=options.pilot_epochs,
            time_limit=None if left is None else options.pilot_time_fraction * left,
        )  # fmt: skip
        solution = solve_cpm(X, np.where(outside, 1.0, -1.0), self.recipe.C * weights, settings, self.seed)
        epochs = max(run.iterations for run in solution.runs or (solution,))
        return np.asarray(solution["W"]), max(epochs, 1) * X.shape[0]

    def run(self, max_iter: int, tol: float, save: CheckpointWriter | None) -> Status:
        """Take passes until the last measurements agree to `tol`, or a limit."""
        options = self.options
        if not self.history:
            self._record(math.nan)
        while True:
            if (self.passes >= min(self.next_measured, max_iter)) and not self._measure():
                return Status.TIME_LIMIT
            tell(self.history[-1])
            last = self.measured[-options.n_agreeing :]
            if len(last) == options.n_agreeing and max(last) <= (1.0 + tol) * min(self.measured):
                return Status.CONVERGED
            if self.passes >= max_iter:
                return Status.ITERATION_LIMIT
            if not self._pass():
                return Status.TIME_LIMIT
            if save is not None:
                save(self.state())

    def _is_over(self) -> bool:
        return self.clock.is_over

    def _pass(self) -> bool:
        """Take a step for every sample; return False, with nothing changed, if time is over."""
        n = self.summary.n
        blocks = [number for number, block in enumerate(self.summary.blocks) if block.n]
        order = np.random.default_rng([self.seed, _BLOCK_ORDER, self.passes]).permutation(blocks)
        arguments = (self.recipe, n, self.n_faces, self.scale, self.seed, self.passes)
        chain = Fold(self.sgd._replace(loss=0.0), [(number, arguments) for number in order.tolist()])
        states = self.executor.fold(_take_steps, [chain], self._is_over)
        if states is None:
            return False
        self.sgd = states[0]
        self.passes += 1
        W = iterate(self.sgd.U, self.sgd.steps)
        self._record(float((W**2).sum()) + 2.0 * self.sgd.loss / n)
        return True

    def _record(self, estimate: float) -> None:
        record = {"pass": float(self.passes), "seconds": self.clock.seconds}
        self.history.append(record | {"estimate": estimate, "objective": math.nan})

    def _measure(self) -> bool:
        """Measure the objectives of average and last iterate, and keep the best; False if time is over."""
        candidates = [self.best]
        if self.passes:
            lanes = [iterate(self.sgd.U, self.sgd.steps)]
            lanes += [self.sgd.A] if self.sgd.average_weight else []
            candidates = [faces_of(each, self.n_faces) for each in lanes]
        losses = compute_losses(
            self.executor, self.recipe, self.summary, self.scale, candidates, self._is_over
        )
        if losses is None:
            return False
        objectives = [float((W**2).sum() + loss) for W, loss in zip(candidates, losses, strict=True)]
        objective = min(objectives)
        self.history[-1]["objective"] = objective
        if self.passes:
            self.measured.append(objective)
        if objective < self.best_objective:
            self.best, self.best_objective = candidates[objectives.index(objective)], objective
        self.next_measured = max(self.passes + 1, math.ceil(self.options.measured_pass_ratio * self.passes))
        return True


def row_order(seed: int, passes: int, number: int, n: int) -> NDArray[np.int64]:
    """Return the order of the n samples of block `number` after so many passes."""
    return np.random.default_rng([seed, _ROW_ORDER, passes, number]).permutation(n)


def _take_steps(
    state: SgdState, samples: Samples, number: int, recipe: Recipe, n: int, n_faces: int, scale: float,
    seed: int, passes: int,
) -> SgdState:  # fmt: skip
    """Take a step of Algorithm 1 for each sample of a block; n is the size of all blocks."""
    X, outside, weights = two_classes(samples, recipe)
    rows = as_rows(X)
    sgd = CpmSgd(rows.width, n_faces, scale=scale, dtype=state.U.dtype.type)
    # Copies, so that the step can be repeated if its result is lost.
    sgd.U, sgd.A, sgd.steps[0] = state.U.copy(), state.A.copy(), state.steps
    sgd.tally[AVERAGE], sgd.tally[LOSS] = state.average_weight, state.loss
    unassigned = np.full(len(weights), -1)
    order = row_order(seed, passes, number, len(weights))
    gains = 0.5 * n * recipe.C * weights
    sgd.take_steps(sgd.step_arguments(rows, outside, gains, unassigned, unassigned.copy()), rows, order)
    tally = float(sgd.tally[AVERAGE]), float(sgd.tally[LOSS])
    return SgdState(sgd.U, sgd.A, int(sgd.steps[0]), *tally)
