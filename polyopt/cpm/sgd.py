"""Algorithms 1 and 2 of Kantchelian et al. (2014): stochastic subgradient steps for loss="sum".

Minimise (λ/2)‖W‖² + the mean loss, which is λ/2 times J(W) of formulations.cpm for C = 2/(nλ). With costs
C_i per sample λ is 2/ΣC, and the gradient of sample i is multiplied by its weight n C_i/ΣC; n is the number
of all samples. Divided by λ, this weight is the *gain* n C_i/2 of the sample. The positives (y = +1) are the
samples outside the polytope.

Algorithm 1, for t = 1, 2, ... and a sample (x, y):

    k ← argmax_l W_l·x̃
    if y = +1 and W_k·x̃ < 1:   k ← ASSIGN(k);   W_k ← W_k + η_t x̃
    if y = −1:                  W_l ← W_l − η_t x̃   for every face l with W_l·x̃ > −1
    W ← (1 − η_t λ) W

Algorithm 2, ASSIGN: the *natural* face of a positive is the argmax k. UNADJ has an entry for each positive
that has been inside its margin (W_k·x̃ < 1): its natural face at the last such visit. If the entropy of UNADJ
is at least the floor h, return k; else the face with the highest score among those that would raise it.

Departures from the paper as printed:

- The step is η_t = 1/(λ(t+1)), because 1/(λt) sets W to zero in the first step.
- The first weights are small random numbers instead of zeros: with equal scores every positive would be
  assigned to the first face.
- The result is the last iterate or the average of the iterates with weights t⁴, whichever has the smaller J.
  (After faces have exchanged their roles, the average is useless.) ``average=False`` allows only the last.
- Samples are visited in shuffled epochs. J is measured after some epochs, and the best measured iterate is
  returned. There are two exceptions: with ``average=False`` the last iterate is returned; with an entropy
  floor the result of the last measurement is returned, because the iterate with the smallest J tends to
  violate the floor. Of the last iterate and the average, one that satisfies the floor is preferred.
- ASSIGN keeps the natural face if no face would raise the entropy; the paper does not cover this case.

Implementation: W_t = s_t U_t with s_t = (1 − η_1 λ)···(1 − η_t λ), and step t adds η_t/s_(t−1) times its
gradient to U. So no face is ever rescaled, and the margin test W·x̃ ≥ 1 becomes U·x̃ ≥ 1/s_(t−1). For the step
above, s_t = 1/(t+1) (:func:`inverse_scale`, :func:`relative_step_sizes`). The steps are compiled
(``native/cpm_sgd.inc``). The faces are the columns of U (m+1, L), L being K padded to a multiple of the SIMD
width ("lanes", :mod:`polyopt.linalg.rows`); U is float32 if the sizes of data and costs allow it.

:class:`CpmSgd` is the state, :class:`Epochs` the loop over epochs with its stopping test,
:func:`solve_cpm_sgd` the solver.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from formulations.language.arguments import as_costs, tolerance, whole
from formulations.language.clock import Clock, OutOfTimeError, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import perplexity
from polyopt.base.progress import show, tell
from polyopt.linalg.rows import ROW_TYPES, ROWS, WEIGHT_TYPES, Rows, as_rows, in_lanes, padded, stretches
from polyopt.linalg.used_features import present_features
from polyopt.native.library import Struct, kernel

Bits = NDArray[np.bool_]
Integers = NDArray[np.int64]

# Signatures of compiled functions list, by argument, name: type (dimensions). "!" marks an array that is
# changed in place. The type W is that of the weights, float32 or float64; b1, i8 and f8 are bool, int64 and
# float64. Equal dimensions must have equal lengths: r is m+1; p is the length of `phi`.

# Indices of the statistics `tally` (five,) of the steps, as in native/cpm_sgd.c.
LOSS = 0  # sum over the steps of the sample's hinge times its gain
MOVED = 1  # number of positives whose natural face differs from that of their last visit
COUNTED = 2  # N, the number of entries of UNADJ
COUNT_LOG_SUM = 3  # Σ c ln c over the face counts c of UNADJ (in C ENTROPY); the entropy is ln N − this / N
AVERAGE = 4  # sum of the weights t⁴ of the iterates in the average, relative to the weight of the last one


@dataclass(frozen=True)
class Options:
    """Parameters of the solver."""

    first_measured_epoch: int = 5  # first epoch after which the objective is measured
    measured_epoch_ratio: float = 1.5  # ratio of successive measured epochs; measuring costs about an epoch
    n_agreeing: int = 3  # number of last measurements that must agree to `tol`
    steps_per_call: int = 4096  # largest number of steps between two checks of the time limit
    scored_rows: int = 4096  # samples scored at once; bounds the memory for scores
    start_size: float = 1e-3  # standard deviation of the first weights: small, but faces must differ
    averaged_entries: int = 64  # the average is updated every ⌈size of U / this⌉ steps
    perplexity_rounding_rel: float = 1e-9  # relative tolerance within which a perplexity satisfies the floor


OPTIONS = Options()

# -- Algorithm 2 ------------------------------------------------------------------------------

# Return the natural face if UNADJ with it has at least the entropy `floor`; else the best of the faces that
# would raise the entropy strictly, or the natural face if there is none.
#   scores (K,): scores of sample i; natural: the face with the highest; floor: h, in nats.
#   unadjusted (n,): UNADJ, -1 for a sample that has no entry. Updated.
#   counts (K,): number of entries of UNADJ at each face. Updated.
#   phi (p,): table of c ln c for c = 0, 1, ..., at least up to the largest count plus 1.
#   tally: COUNTED and COUNT_LOG_SUM are updated.
assign = kernel(
    "cpm_assign",
    "scores: f8 (K); natural: i8; i: i8; floor: f8; unadjusted!: i8 (n); counts!: i8 (K); phi: f8 (p); "
    "tally!: f8 (five)",
    returns="i8",
)

# -- Algorithm 1 ------------------------------------------------------------------------------


def inverse_scale(t: Any) -> Any:
    """Return 1/s_t after t ≥ 0 steps."""
    return t + 1.0


def relative_step_sizes(t: Vector, inverse_scales: Vector) -> Vector:
    """Return λη_t/s_(t−1) for steps t ≥ 1, given 1/s_t.

    Step t adds this number, times the sample's gain, times ±x̃ to U.
    """
    return t / inverse_scales


class StepArguments(Struct):
    """Arguments of the steps of Algorithm 1 for some samples (n,), as in ``native/cpm_sgd.inc``.

    values, columns, starts, shared: the samples, as :class:`polyopt.linalg.rows.Rows`.
    outside, gains (n,): mask of the positives; gains n C_i / 2.
    scale: factor of every entry of the samples.
    floor: h of Algorithm 2, in nats; 0 switches it off.
    spacing: number of steps between two iterates that enter the average; 0 for no average.
    U, A (m+1, L): running sum and average; updated.
    steps (1,): t, the number of steps made; updated.
    step_sizes (v,), inverse_scales (w,): tables of :func:`relative_step_sizes` of the steps after
        `first_step`, and of 1/s_t from t = `first_step` on; w = v + 1.
    first_step (1,): t at which the tables begin.
    unadjusted (n,), counts (K,), phi (p,), tally (5,): as in :func:`assign`; updated, except phi.
    last_faces (n,): natural face of each positive at its last visit, -1 for none; updated.
    work (2, L), scores (K,): work space.
    """

    signature: ClassVar[str] = (
        ROWS + "outside: b1 (n); gains: f8 (n); scale: f8; floor: f8; spacing: i8; U!: W (r, L); "
        "A!: W (r, L); steps!: i8 (one); step_sizes: f8 (v); inverse_scales: f8 (w); first_step: i8 (one); "
        "unadjusted!: i8 (n); counts!: i8 (K); phi: f8 (p); last_faces!: i8 (n); tally!: f8 (five); "
        "work!: W (two, L); scores!: f8 (K)"
    )
    types: ClassVar[dict[str, str]] = {**ROW_TYPES, **WEIGHT_TYPES}
    steps: Integers
    first_step: Integers
    step_sizes: Vector
    inverse_scales: Vector

    def apply_step_rule(self) -> None:
        """Set `step_sizes` and `inverse_scales` of the next steps."""
        self.first_step[:] = self.steps
        t = np.arange(self.steps[0], self.steps[0] + len(self.inverse_scales), dtype=np.float64)
        self.inverse_scales[:] = inverse_scale(t)
        self.step_sizes[:] = relative_step_sizes(t[1:], self.inverse_scales[1:])


# Make a step of Algorithm 1 for each sample in `order`, in place.
_take_steps = kernel("cpm_sgd", "arguments: StepArguments; order: i8 (o)")


class CpmSgd:
    """The state of Algorithm 1: U, the average A, the number of steps and UNADJ's counts.

    perplexity: exp(h) of Algorithm 2; 1 switches it off.
    average: True to keep the average A.
    scale: factor of every entry of the samples.
    seed: seed of the first weights and of the order of samples.
    dtype: type of the weights, float32 or float64.
    """

    def __init__(
        self, n_features: int, n_faces: int, *, perplexity: float = 1.0, average: bool = True,
        scale: float = 1.0, seed: int = 0, dtype: type[np.floating[Any]] = np.float32,
    ):  # fmt: skip
        self.n_faces, self.average, self.scale = n_faces, average, scale
        self.floor = math.log(max(perplexity, 1.0))  # h of Algorithm 2, an entropy in nats
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
        self._work, self._scores = np.zeros((2, shape[1]), dtype=dtype), np.zeros(n_faces)

    def begin_at(self, W: Vector, steps: int) -> None:
        """Continue from the faces W (K, m+1) as the iterate after so many steps, with no average yet."""
        self.U[:] = in_lanes(inverse_scale(steps) * W, self.U.dtype)
        self.steps[0] = steps

    @property
    def state(self) -> tuple[NDArray[Any], ...]:
        """Running sum, average, number of steps, and statistics."""
        return self.U, self.A, self.steps, self.tally

    def set_state(self, state: tuple[NDArray[Any], ...]) -> None:
        """Continue from copies of another machine's :attr:`state`; with a floor UNADJ's counts begin anew."""
        self.U, self.A, self.steps, self.tally = (array.copy() for array in state)

    def step_arguments(
        self, rows: Rows, outside: Bits, gains: Vector, last_faces: Integers, unadjusted: Integers
    ) -> StepArguments:
        """Return the arguments of :meth:`take_steps` for some samples.

        outside (n,): mask of the positives.
        gains (n,): n C_i / 2, where n is the size of all the data.
        last_faces (n,): natural face of each positive at its last visit, -1 if there was none.
        unadjusted (n,): its entry of UNADJ, from its last visit inside the margin; -1 if it has none.
        The steps update both; `unadjusted` only with a floor.
        """
        # Length of phi: a count is at most its present maximum plus n, and phi is read at one more.
        size = int(self.counts.max()) + len(outside) + 2 if self.floor > 0.0 else 0
        if len(self._phi) < size:
            counts = np.arange(2.0 * size)
            self._phi = counts * np.log(np.maximum(counts, 1.0))
        n_sizes = OPTIONS.steps_per_call
        arguments = StepArguments(
            rows.values, rows.columns, rows.starts, rows.shared, outside, gains, self.scale, self.floor,
            self.spacing, self.U, self.A, self.steps, np.empty(n_sizes), np.empty(n_sizes + 1),
            np.zeros(1, dtype=np.int64), unadjusted, self.counts, self._phi, last_faces, self.tally,
            self._work, self._scores,
        )  # fmt: skip
        arguments.apply_step_rule()
        return arguments

    def take_steps(
        self, arguments: StepArguments, rows: Rows, order: Integers, clock: Clock | None = None
    ) -> int:
        """Make one step for each sample in `order` until the clock is over; return the number of steps."""
        done = 0
        for first, end in stretches(len(order), rows, self.U.shape[1], OPTIONS.steps_per_call):
            last_step = self.steps[0] + end - first
            if last_step > arguments.first_step[0] + OPTIONS.steps_per_call:
                arguments.apply_step_rule()  # the tables of step sizes did not reach the last step
            _take_steps(arguments, order[first:end])
            done = end
            if clock is not None and clock.is_over:
                break
        return done

    @property
    def last(self) -> NDArray[Any]:
        """The last iterate W_t as lanes (m+1, L)."""
        return iterate(self.U, self.steps[0])

    @property
    def iterates(self) -> list[Vector]:
        """The candidates for the result, each (K, m+1): the last iterate, and the average if it has begun."""
        has_average = self.tally[AVERAGE] > 0.0
        candidates = [self.last, self.A] if has_average else [self.last]
        return [faces_of(lanes, self.n_faces) for lanes in candidates]

    def best_iterate(self, rows: Rows, outside: Bits, C: Vector) -> tuple[Vector, float]:
        """Return the better of :attr:`iterates` for samples with costs C (n,), and its objective.

        With a floor, an iterate that satisfies it is preferred; if none does, the one with the higher
        perplexity.
        """
        candidates = [(W, self._objective(W, rows, outside, C)) for W in self.iterates]
        if self.floor == 0.0 or len(candidates) == 1:
            return min(candidates, key=itemgetter(1))
        min_perplexity = (1.0 - OPTIONS.perplexity_rounding_rel) * math.exp(self.floor)

        def rank(candidate: tuple[Vector, float]) -> tuple[float, float]:  # the smallest is the best
            W, objective = candidate
            return -min(self._perplexity(W, rows, outside, C), min_perplexity), objective

        return min(candidates, key=rank)

    def _perplexity(self, W: Vector, rows: Rows, outside: Bits, C: Vector) -> float:
        """Return the perplexity of the positives' best faces at W (K, m+1), each weighted by its cost."""
        positives = np.flatnonzero(outside)
        if not positives.size:
            return 1.0
        X, faces = rows.matrix(), np.empty(len(positives), dtype=np.int64)
        for first in range(0, len(positives), OPTIONS.scored_rows):
            batch = slice(first, first + OPTIONS.scored_rows)
            scores = X[positives[batch]].astype(np.float64) @ (self.scale * W[:, :-1].T) + W[:, -1]
            faces[batch] = np.asarray(scores).argmax(axis=1)
        return perplexity(faces, C[positives])

    def _objective(self, W: Vector, rows: Rows, outside: Bits, C: Vector) -> float:
        """Return J(W) for faces W (K, m+1)."""
        return float((W**2).sum() + losses(W, rows, outside, C, self.scale))


def iterate(U: NDArray[Any], steps: int) -> NDArray[Any]:
    """Return the iterate W_t of the running sum U_t, both as lanes (m+1, L)."""
    return np.asarray(U / inverse_scale(steps))


def faces_of(lanes: NDArray[Any], n_faces: int) -> Vector:
    """Return the first K columns of `lanes` (m+1, L) as faces (K, m+1)."""
    return np.ascontiguousarray(lanes[:, :n_faces].T, dtype=np.float64)


# Sum the losses of samples `first` to `last` - 1 at the first K columns of W, lanes (m+1, L).
#   out (L,): work space.
_losses = kernel(
    "cpm_losses",
    ROWS + "outside: b1 (n); C: f8 (n); scale: f8; W: W (r, L); K: i8; first: i8; last: i8; out!: W (L)",
    returns="f8",
    **ROW_TYPES,
    **WEIGHT_TYPES,
)


def losses(W: Vector, rows: Rows, outside: Bits, C: Vector, scale: float = 1.0) -> float:
    """Sum C_i times the hinge of the best face (positives) or those of all faces (negatives); W (K, m+1)."""
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
    tol: stop if the last three measured objectives are within `tol` (relative) of the smallest one. They span
        more than half of the epochs, and the error falls like 1/epochs, so it is then of the size of `tol`.
    Returns: ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``history`` has one record
        per epoch: the estimate of the objective from the steps, the objective (nan if not measured), the
        perplexity of the natural faces at the last visits (unweighted), the number of positives whose natural
        face has changed, and the number of faces in use.
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
    epochs = _SgdEpochs(machine, rows, y, C)
    status = epochs.run(clock, max_iter, tol)
    if status is Status.INTERRUPTED:
        epochs.measure()
    return epochs.solution(status, clock)


class Epochs(ABC):
    """Epochs of Algorithm 1 until the measured objectives agree, over samples in memory or in blocks.

    machine: the state of the algorithm.
    first_measured: first epoch after which the objective is measured; 0 for the start.
    result, result_objective: faces to be returned (K, m+1), and their objective, inf if it was not measured.
    history: a record of each epoch, and with the number 0 that of a measured start.
    measured: those with a measured objective.
    """

    solver: ClassVar[str]

    def __init__(self, machine: CpmSgd, result: Vector, first_measured: int):
        self.machine, self.first_measured = machine, first_measured
        self.result, self.result_objective = result, np.inf
        self.history: list[dict[str, float]] = []
        self.measured: list[dict[str, float]] = []

    @abstractmethod
    def epoch(self, clock: Clock) -> None:
        """Visit the samples in random order, and append a record to the history."""

    @abstractmethod
    def measure(self, clock: Clock | None = None) -> None:
        """Measure the objective, add it to the last record, and keep the better faces."""

    @property
    def made(self) -> int:
        """The number of epochs made."""
        return int(self.history[-1]["epoch"]) if self.history else 0

    def run(self, clock: Clock, max_iter: int, tol: float) -> Status:
        """Make epochs until the last measurements agree to `tol`, a limit is reached, or Ctrl-C."""
        try:
            while True:
                if self.history:
                    status = self._end_epoch(clock, max_iter, tol)
                    if status is not None:
                        return status
                self.epoch(clock)
        except OutOfTimeError:
            return Status.TIME_LIMIT
        except KeyboardInterrupt:
            return interrupted()

    def _end_epoch(self, clock: Clock, max_iter: int, tol: float) -> Status | None:
        """Measure the last epoch if it is time to; return the status if it was the last, else None."""
        next_measured = self.first_measured
        if self.measured:
            last = int(self.measured[-1]["epoch"])
            next_measured = max(last + 1, int(OPTIONS.measured_epoch_ratio * last))
        time_is_up = clock.is_over
        if self.made >= min(next_measured, max_iter) or time_is_up:
            self.measure(clock)
            self.measured.append(self.history[-1])
        tell(self.history[-1])
        if time_is_up:
            return Status.TIME_LIMIT
        objectives = [record["objective"] for record in self.measured if record["epoch"] > 0]
        recent = objectives[-OPTIONS.n_agreeing :]
        if len(recent) == OPTIONS.n_agreeing and max(recent) <= (1.0 + tol) * min(objectives):
            return Status.CONVERGED
        return Status.ITERATION_LIMIT if self.made >= max_iter else None

    def solution(self, status: Status, clock: Clock) -> Solution:
        """Return the result with its objective."""
        return Solution(
            status, {"W": self.result}, {}, self.result_objective, None, self.solver, iterations=self.made,
            solve_time=clock.seconds, history=tuple(self.history),
        )  # fmt: skip


class _SgdEpochs(Epochs):
    """Epochs over samples in memory."""

    solver = "sgd"

    def __init__(self, machine: CpmSgd, rows: Rows, y: Vector, C: Vector):
        super().__init__(machine, machine.iterates[0], OPTIONS.first_measured_epoch)
        self.rows, self.C = rows, C
        self.outside, self.gains = y > 0, 0.5 * len(y) * C
        self.last_faces, self.unadjusted = np.full(len(y), -1), np.full(len(y), -1)
        self.step_arguments = machine.step_arguments(
            rows, self.outside, self.gains, self.last_faces, self.unadjusted
        )
        self.returns_last_measured = not machine.average or machine.floor > 0.0

    def epoch(self, clock: Clock) -> None:
        """Visit the samples in random order, until the clock is over, and append a record to the history."""
        machine = self.machine
        order = machine.rng.permutation(len(self.C))
        machine.tally[LOSS] = machine.tally[MOVED] = 0.0
        done = machine.take_steps(self.step_arguments, self.rows, order, clock)
        squares = machine.last**2
        # Negatives, and positives that were not visited, have the face -1.
        counts = np.bincount(self.last_faces + 1, minlength=machine.n_faces + 1)[1:].tolist()
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
        return {"W": W, "objective": value, "assignment": np.where(self.outside, self.last_faces, -1)}

    def measure(self, clock: Clock | None = None) -> None:
        """Measure the objective, and keep the better iterate, or the last one if the result must be that."""
        W, objective = self.machine.best_iterate(self.rows, self.outside, self.C)
        if objective < self.result_objective or self.returns_last_measured:
            self.result, self.result_objective = W, objective
        if self.history:
            self.history[-1]["objective"] = objective


def _choose_precision(rows: Rows, scale: float, gains: Vector) -> type[np.floating[Any]]:
    """Return the :func:`precision` for samples `rows`, their factor, and their gains."""
    if not len(rows.values):
        return np.float32
    size = max(float(rows.values.max()), -float(rows.values.min()))
    return precision(size * abs(scale), float(gains.min()), float(gains.max()))


def precision(size: float, min_gain: float, max_gain: float) -> type[np.floating[Any]]:
    """Return float32 for the weights if no product can overflow or underflow, else float64.

    size: the largest absolute entry of the samples. Products of three numbers from 1e-12 to 1e12 are within
    the range of single precision.
    """
    numbers = (size, min_gain, max_gain)
    return np.float32 if all(1e-12 <= number <= 1e12 for number in numbers) else np.float64
