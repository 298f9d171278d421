"""Algorithms 1 and 2 of Kantchelian et al. (2014): stochastic subgradient steps for loss="sum".

Minimise (λ/2)‖W‖² + the mean loss, which is J(W) of formulations.cpm with C = 2/(nλ); costs C_i per sample
give λ = 2/ΣC_i and gradients weighted by n C_i/ΣC.

Algorithm 1, for t = 1, 2, ... and a sample (x, y):

    k ← argmax_l W_l·x̃
    if y = +1 and W_k·x̃ < 1:   k ← ASSIGN(k);   W_k ← W_k + η_t x̃
    if y = −1:                  W_l ← W_l − η_t x̃   for every face l with W_l·x̃ > −1
    W ← (1 − η_t λ) W

Algorithm 2, ASSIGN: UNADJ has the natural face k of every positive at its last visit. If the entropy of UNADJ
is at least h, return k; else the best face that would raise the entropy.

Departures from the paper as printed:

- The step is η_t = 1/(λ(t+1)), because 1/(λt) sets W to zero in the first step.
- The first weights are small random numbers instead of zeros: with equal scores every positive would be
  assigned to the first face.
- The result is the last iterate or the average of the iterates with weights t⁴, whichever has the smaller J.
  (After faces have exchanged their roles, the average is useless.) ``average=False`` allows only the last.
- Samples are visited in shuffled epochs; J is measured after some of them, and the best result is returned.
  With ``average=False``, or an entropy floor, which the smallest J tends to violate, it is the last result;
  with a floor an iterate that satisfies it is preferred.
- ASSIGN keeps the natural face if no face would raise the entropy; the paper does not cover this case.

Implementation: W_t = s_t U_t with s_t = (1 − η_1 λ)···(1 − η_t λ), and step t adds η_t/s_(t−1) times its
gradient to U. So no face is ever rescaled, and the margin test W·x̃ ≥ 1 becomes U·x̃ ≥ 1/s_(t−1). For the step
above, s_t = 1/(t+1) (:func:`inverse_scales`, :func:`step_sizes`). The steps are compiled
(``native/cpm_sgd.inc``). The faces are the columns of U (m+1, L), L being K padded to a multiple of the SIMD
width ("lanes", :mod:`polyopt.linalg.rows`); U is float32 if the sizes of data and costs allow it.

:class:`CpmSgd` is the state, :class:`Epochs` the loop with its stopping test, :func:`solve_cpm_sgd` the
solver.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithms 1 and 2.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from formulations.language.arguments import as_costs, tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import perplexity
from polyopt.base.progress import show, tell
from polyopt.linalg.rows import ROW_TYPES, ROWS, WEIGHT_TYPES, Rows, as_rows, in_lanes, padded, stretches
from polyopt.linalg.used_features import present_features
from polyopt.native.library import Struct, kernel

Bits = NDArray[np.bool_]
Integers = NDArray[np.int64]

# Entries of a run's tally, as in native/cpm_sgd.c.
LOSS = 0  # sum of the hinges at the steps, times the samples' gains n C_i / 2
MOVED = 1  # positives whose natural face differs from that of their last visit
COUNTED, ENTROPY = 2, 3  # entries of UNADJ, and Σ c ln c over its counts
AVERAGE = 4  # sum of the weights of the averaged iterates, relative to the last one's

SCORED_ROWS = 1 << 12
"""Samples scored at once."""


@dataclass(frozen=True)
class Options:
    """Parameters of the solver."""

    first_measured_epoch: int = 5  # the first epoch after which the objective is measured
    measured_epoch_ratio: float = 1.5  # to the next measured epoch, as measuring costs about an epoch
    n_agreeing: int = 3  # measurements that must agree to `tol`: they span more than half of the epochs
    steps_per_call: int = 4096  # steps between two checks of the time limit
    start_size: float = 1e-3  # of the first weights, which only have to differ between the faces
    averaged_entries: int = 64  # limit of the average's entries that are updated per step, in the mean
    perplexity_rounding_rel: float = 1e-9  # tolerance of the floor


OPTIONS = Options()

# -- Algorithm 2 ------------------------------------------------------------------------------

# Return the natural face if UNADJ with it has at least the entropy `floor`; else the best of the faces that
# would raise the entropy strictly, or the natural face if there is none.
#   scores (K): scores of sample i; natural: the face with the highest; floor: h, in nats.
#   unadjusted (n,): UNADJ, -1 for a positive that was not visited; counts (K,): its counts. Updated.
#   phi: c ln c for every count c, and for one more than the largest.
#   tally: COUNTED and ENTROPY are updated.
assign = kernel(
    "cpm_assign",
    "scores: f8 (K); natural: i8; i: i8; floor: f8; unadjusted!: i8 (n); counts!: i8 (K); phi: f8 (p); "
    "tally!: f8 (five)",
    returns="i8",
)

# -- Algorithm 1 ------------------------------------------------------------------------------


def inverse_scales(t: Any) -> Any:
    """Return 1/s_t after t ≥ 0 steps."""
    return t + 1.0


def step_sizes(t: Vector, inverse_scales: Vector) -> Vector:
    """Return λη_t/s_(t−1) at steps t ≥ 1: step t adds this number times its gradient over λ to U.

    inverse_scales: 1/s_t.
    """
    return t / inverse_scales


class CpmRun(Struct):
    """Arguments of Algorithm 1 over some samples (n,), as in ``native/cpm_sgd.inc``.

    The samples are :class:`polyopt.linalg.rows.Rows`, every entry times ``scale``. ``outside`` is the mask of
    the positives; ``gains`` are the samples' weights divided by λ. ``steps`` is t; ``step_sizes`` and
    ``inverse_scales`` are those of the steps from ``first_step`` on. ``floor``, ``unadjusted``, ``counts``,
    ``phi`` and ``tally`` are those of :func:`assign`; a floor of 0 switches Algorithm 2 off. Every
    ``spacing`` steps the iterate enters the average A with the weight t⁴; 0 means no average. ``faces`` has
    each positive's natural face at its last visit, -1 for none; ``work`` and ``answers`` are work space.
    """

    signature: ClassVar[str] = (
        ROWS + "outside: b1 (n); gains: f8 (n); scale: f8; floor: f8; spacing: i8; U!: W (r, L); "
        "A!: W (r, L); steps!: i8 (one); step_sizes: f8 (v); inverse_scales: f8 (w); first_step: i8 (one); "
        "unadjusted!: i8 (n); counts!: i8 (K); phi: f8 (p); faces!: i8 (n); tally!: f8 (five); "
        "work!: W (two, L); answers!: f8 (K)"
    )
    types: ClassVar[dict[str, str]] = {**ROW_TYPES, **WEIGHT_TYPES}
    steps: Integers
    first_step: Integers
    step_sizes: Vector
    inverse_scales: Vector

    def apply_step_rule(self) -> None:
        """Compute the step sizes and scales of the next steps."""
        self.first_step[:] = self.steps
        t = np.arange(self.steps[0], self.steps[0] + len(self.inverse_scales), dtype=np.float64)
        self.inverse_scales[:] = inverse_scales(t)
        self.step_sizes[:] = step_sizes(t[1:], self.inverse_scales[1:])


# Make a step of Algorithm 1 for each sample in `order`, in place.
_take_steps = kernel("cpm_sgd", "run: CpmRun; order: i8 (o)")


class CpmSgd:
    """The state of Algorithm 1: U, the average A, the number of steps and UNADJ's counts.

    perplexity: exp(h) of Algorithm 2; 1 switches it off.
    seed: of the first weights and of the order of samples.
    dtype: of the weights, float32 or float64.
    """

    def __init__(
        self, n_features: int, n_faces: int, *, perplexity: float = 1.0, average: bool = True,
        scale: float = 1.0, seed: int = 0, dtype: type[np.floating[Any]] = np.float32,
    ):  # fmt: skip
        self.n_faces, self.floor, self.average = n_faces, math.log(max(perplexity, 1.0)), average
        self.dtype, self.scale = np.dtype(dtype), scale
        self.rng = np.random.default_rng(seed)
        shape = (n_features + 1, padded(n_faces))
        self.U = np.zeros(shape, dtype=dtype)
        self.U[:, :n_faces] = OPTIONS.start_size * self.rng.normal(size=(n_features + 1, n_faces))
        self.A = np.zeros_like(self.U)
        self.spacing = -(-self.U.size // OPTIONS.averaged_entries) if average else 0
        self.steps = np.zeros(1, dtype=np.int64)
        self.counts = np.zeros(n_faces, dtype=np.int64)
        self.tally = np.zeros(5)
        self._phi = np.zeros(2)
        self._work, self._answers = np.zeros((2, shape[1]), dtype=dtype), np.zeros(n_faces)

    def learn(
        self, rows: Rows, outside: Bits, gains: Vector, order: Integers, faces: Integers, unadjusted: Integers
    ) -> None:
        """Make one step for each sample in `order`; the other arguments are as in :meth:`prepare_run`."""
        self.take_steps(self.prepare_run(rows, outside, gains, faces, unadjusted), rows, order)

    def prepare_run(
        self, rows: Rows, outside: Bits, gains: Vector, faces: Integers, unadjusted: Integers
    ) -> CpmRun:
        """Return the arguments of steps over some samples.

        outside (n,): the positives.
        gains (n,): n C_i / 2, where n is the size of all the data.
        faces, unadjusted (n,): each positive's natural face at its last visit, and its entry of UNADJ; -1 if
            it was not visited. Updated by the steps.
        """
        size = int(self.counts.max()) + len(outside) + 2 if self.floor > 0.0 else 0
        if len(self._phi) < size:
            counts = np.arange(2.0 * size)
            self._phi = counts * np.log(np.maximum(counts, 1.0))
        n_sizes = OPTIONS.steps_per_call
        run = CpmRun(
            rows.values, rows.columns, rows.starts, rows.shared, outside, gains, self.scale, self.floor,
            self.spacing, self.U, self.A, self.steps, np.empty(n_sizes), np.empty(n_sizes + 1),
            np.zeros(1, dtype=np.int64), unadjusted, self.counts, self._phi, faces, self.tally, self._work,
            self._answers,
        )  # fmt: skip
        run.apply_step_rule()
        return run

    def take_steps(self, run: CpmRun, rows: Rows, order: Integers, clock: Clock | None = None) -> int:
        """Make one step for each sample in `order` until the clock is over; return the number of steps."""
        done = 0
        for first, done in stretches(len(order), rows, self.U.shape[1], OPTIONS.steps_per_call):
            if self.steps[0] + done - first > run.first_step[0] + OPTIONS.steps_per_call:
                run.apply_step_rule()
            _take_steps(run, order[first:done])
            if clock is not None and clock.is_over:
                break
        return done

    @property
    def last(self) -> NDArray[Any]:
        """The last iterate W_t as columns (m+1, L)."""
        return iterate(self.U, self.steps[0])

    @property
    def iterates(self) -> list[Vector]:
        """The last iterate (K, m+1) and, if one is kept, the average."""
        averaged = self.average and self.steps[0] >= self.spacing
        return [faces_of(lanes, self.n_faces) for lanes in ([self.last, self.A] if averaged else [self.last])]

    def best_iterate(self, rows: Rows, outside: Bits, C: Vector) -> tuple[Vector, float]:
        """Return the better of :attr:`iterates` for samples with costs C (n,), and its objective.

        With a floor, an iterate that satisfies it is preferred; if none does, the one with the higher
        perplexity.
        """
        candidates = [(W, self._objective(W, rows, outside, C)) for W in self.iterates]
        if self.floor == 0.0 or len(candidates) == 1:
            return min(candidates, key=itemgetter(1))
        floor = (1.0 - OPTIONS.perplexity_rounding_rel) * math.exp(self.floor)

        def rank(candidate: tuple[Vector, float]) -> tuple[float, float]:
            W, objective = candidate
            return -min(self._perplexity(W, rows, outside, C), floor), objective

        return min(candidates, key=rank)

    def _perplexity(self, W: Vector, rows: Rows, outside: Bits, C: Vector) -> float:
        """Return the perplexity of the positives' best faces, each weighted by its cost."""
        positives = np.flatnonzero(outside)
        if not positives.size:
            return 1.0
        X, faces = rows.matrix(), np.empty(len(positives), dtype=np.int64)
        for first in range(0, len(positives), SCORED_ROWS):
            batch = slice(first, first + SCORED_ROWS)
            scores = X[positives[batch]].astype(np.float64) @ (self.scale * W[:, :-1].T) + W[:, -1]
            faces[batch] = np.asarray(scores).argmax(axis=1)
        return perplexity(faces, C[positives])

    def _objective(self, W: Vector, rows: Rows, outside: Bits, C: Vector) -> float:
        return float((W**2).sum() + losses(W, rows, outside, C, self.scale))


def iterate(U: NDArray[Any], steps: int) -> NDArray[Any]:
    """Return the iterate W_t of the running sum U_t."""
    return np.asarray(U / inverse_scales(steps))


def running_sum(W: Vector, steps: int) -> Vector:
    """Return U_t, the inverse of :func:`iterate`."""
    return inverse_scales(steps) * W


def faces_of(lanes: NDArray[Any], n_faces: int) -> Vector:
    """Return the first K columns of `lanes` (m+1, L) as faces (K, m+1)."""
    return np.ascontiguousarray(lanes[:, :n_faces].T, dtype=np.float64)


# Sum the losses of samples `first` to `last` - 1 at the first K columns of W (m+1, L); out (L,): work space.
_losses = kernel(
    "cpm_losses",
    ROWS + "outside: b1 (n); C: f8 (n); scale: f8; W: W (r, L); K: i8; first: i8; last: i8; out!: W (L)",
    returns="f8",
    **ROW_TYPES,
    **WEIGHT_TYPES,
)


def losses(W: Vector, rows: Rows, outside: Bits, C: Vector, scale: float = 1.0) -> float:
    """Sum C_i times the hinge of the best face (positives) or the hinges of all faces (negatives)."""
    lanes = in_lanes(W)
    out = np.empty(lanes.shape[1])
    return sum(
        _losses(
            rows.values, rows.columns, rows.starts, rows.shared, outside, C, scale, lanes, len(W), first,
            last, out,
        )
        for first, last in stretches(len(C), rows, lanes.shape[1])
    )  # fmt: skip


# -- the solver -------------------------------------------------------------------------------


def solve_cpm_sgd(
    X: Matrix, y: Vector, C: Vector, n_faces: int, *, perplexity: float = 1.0, average: bool = True,
    scale: float = 1.0, max_iter: int = 100, tol: float = 1e-4, time_limit: float | None = None,
    seed: int = 0,
) -> Solution:  # fmt: skip
    """Minimise J(W) by Algorithm 1; the parameters are those of the estimator.

    X (n, m): samples: float32, float64, or uint8, which is not copied into floats.
    average: if False, the result is the last iterate of the last epoch.
    tol: relative tolerance: the run stops if its last three measurements, which span more than half of its
        epochs, exceed the best by no more. The error falls like one over the epochs, so it is of this size.
    Returns: ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``history`` has one record
        per epoch: the estimate of the objective from the steps, the measured objective (else nan),
        perplexity, positives whose face has changed, and faces in use.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    whole("n_faces", n_faces)
    whole("max_iter", max_iter)
    C = as_costs(C, len(y))
    rows = as_rows(X)
    machine = CpmSgd(
        rows.width, n_faces, perplexity=perplexity, average=average, scale=scale, seed=seed,
        dtype=_choose_precision(rows, scale, 0.5 * len(y) * C),
    )  # fmt: skip
    machine.U[:-1][~present_features(X)] = 0.0
    run = _Run(machine, rows, y, C)
    status = run.run(clock, max_iter, tol)
    return run.solution(status, run.objective, "sgd", clock)


class Epochs(ABC):
    """Epochs over one set of samples, until the measured objectives agree."""

    def __init__(self, first: Vector):
        self.best = first  # the result (K, m+1)
        self.min_objective = np.inf  # the smallest measured objective
        self.measured: list[float] = []  # all measured objectives
        self.history: list[dict[str, float]] = []  # a record of each epoch

    @abstractmethod
    def epoch(self, clock: Clock) -> None:
        """Visit the samples in random order, until the clock is over, and append a record to the history."""

    @abstractmethod
    def measure(self) -> None:
        """Measure the objective, and update `best`, `min_objective` and `measured`."""

    def run(self, clock: Clock, max_iter: int, tol: float, options: Options = OPTIONS) -> Status:
        """Make epochs until the last measurements agree to `tol`, a limit is reached, or Ctrl-C."""
        next_measured = options.first_measured_epoch
        try:
            for epoch in range(1, max_iter + 1):
                self.epoch(clock)
                time_is_up = clock.is_over
                if epoch >= next_measured or epoch == max_iter or time_is_up:
                    self.measure()
                    next_measured = max(epoch + 1, int(options.measured_epoch_ratio * epoch))
                tell(self.history[-1])
                if time_is_up:
                    return Status.TIME_LIMIT
                recent = self.measured[-options.n_agreeing :]
                if len(recent) == options.n_agreeing and max(recent) <= (1.0 + tol) * self.min_objective:
                    return Status.CONVERGED
        except KeyboardInterrupt:
            self.measure()
            return interrupted()
        return Status.ITERATION_LIMIT

    def solution(self, status: Status, objective: float, solver: str, clock: Clock) -> Solution:
        """Return the best faces with their objective."""
        return Solution(
            status, {"W": self.best}, {}, objective, None, solver,
            iterations=len(self.history), solve_time=clock.seconds, history=tuple(self.history),
        )  # fmt: skip


class _Run(Epochs):
    """Epochs of Algorithm 1."""

    def __init__(self, machine: CpmSgd, rows: Rows, y: Vector, C: Vector):
        super().__init__(machine.iterates[0])
        self.machine, self.rows, self.C = machine, rows, C
        self.outside, self.gains = y > 0, 0.5 * len(y) * C
        self.faces, self.unadjusted = np.full(len(y), -1), np.full(len(y), -1)
        self.steps = machine.prepare_run(rows, self.outside, self.gains, self.faces, self.unadjusted)
        self.keeps_last = not machine.average or machine.floor > 0.0
        self.objective = np.inf  # of the result

    def epoch(self, clock: Clock) -> None:
        machine = self.machine
        order = machine.rng.permutation(len(self.C))
        machine.tally[LOSS] = machine.tally[MOVED] = 0.0
        done = machine.take_steps(self.steps, self.rows, order, clock)
        squares = machine.last
        squares *= squares
        # Negatives, and positives that were not visited, have the face -1.
        counts = np.bincount(self.faces + 1, minlength=machine.n_faces + 1)[1:].tolist()
        total = sum(counts)
        self.history.append(
            {
                "epoch": len(self.history) + 1.0,
                "seconds": clock.seconds,
                "estimate": float(squares.sum() + 2.0 * machine.tally[LOSS] / done),
                "objective": math.nan,
                "perplexity": math.exp(-sum(c / total * math.log(c / total) for c in counts if c)),
                "reassigned": float(machine.tally[MOVED]),
                "occupied": float(len(counts) - counts.count(0)),
            }
        )
        show(self.history[-1], self._state)

    def _state(self) -> dict[str, object]:
        """Return the last iterate, its objective, and the face of each positive at its last visit."""
        W = self.machine.iterates[0]
        value = self.machine._objective(W, self.rows, self.outside, self.C)
        return {"W": W, "objective": value, "assignment": np.where(self.outside, self.faces, -1)}

    def measure(self) -> None:
        W, objective = self.machine.best_iterate(self.rows, self.outside, self.C)
        if objective < self.objective or self.keeps_last:
            self.best, self.objective = W, objective
        self.min_objective = min(self.min_objective, objective)
        self.measured.append(objective)
        if self.history:
            self.history[-1]["objective"] = objective


def _choose_precision(rows: Rows, scale: float, gains: Vector) -> type[np.floating[Any]]:
    if not len(rows.values):
        return np.float32
    size = max(float(rows.values.max()), -float(rows.values.min()))
    return precision(size * abs(scale), float(gains.min()), float(gains.max()))


def precision(size: float, min_gain: float, max_gain: float) -> type[np.floating[Any]]:
    """Return float32 for the weights if no product can overflow or underflow, else float64.

    size: the largest absolute entry of the samples. Products of three numbers up to 1e12 are within the range
    of single precision.
    """
    limits = (size, min_gain, max_gain)
    return np.float32 if all(1e-12 <= limit <= 1e12 for limit in limits) else np.float64
