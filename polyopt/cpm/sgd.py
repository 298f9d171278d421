"""Stochastic subgradient solver of the Convex Polytope Machine with loss="sum".

Algorithm 1 with Algorithm 2 (ASSIGN). It minimises (λ/2)‖W‖² + the mean loss, which is J(W) of
formulations.cpm with C = 2/(nλ); per-sample costs C_i give λ = 2/ΣC_i and gradients weighted by
n C_i/ΣC. Departures from the paper as printed:

- the first weights are small random numbers, where the paper's are zero: of equal scores the first face would
  answer for every positive, and the others for none;
- the step is 1/(λ(t+1)), since with 1/(λt) the first step sets W to zero;
- the answer is an average of the iterates, with weights t⁴, as single iterates keep jumping about the
  optimum; or the last one where that is better, as it is when faces have exchanged their roles on the way,
  which no average survives; ``average=False`` always gives the last one of the run;
- samples are visited in shuffled epochs, and of the answers that were measured that with the least J
  is kept; but not with ``average=False``, nor with an entropy floor, which the least J is the first to break:
  then the end of the run is the answer, and of average and last iterate the one that keeps the floor;
- ASSIGN keeps the natural face when no face would raise the entropy, where the paper is silent.

The weights are float32 where the sizes of data and costs allow it, as no step moves them by less than
their rounding could matter.

With the step 1/(λ(t+1)), Algorithm 1 is a running sum: W_t = U_t / (t+1), where step t adds
(t/(t+1)) (1/λ) times its gradient to U and nothing else. No face is ever rescaled, and the margin
test W·x̃ ≥ 1 becomes U·x̃ ≥ t.

U has the shape (m+1, L), bias last, with the K faces side by side in the first of L columns
(:func:`polyopt.linalg.rows.padded`), so that one walk over a sample serves all faces at once.

Both algorithms are compiled (``native/cpm_sgd.c``); :class:`CpmSgd` is their state, and :class:`Epochs` the
loop around them, which says when to measure and when to end. Measuring an objective costs
about as much as an epoch. It happens after the fifth epoch, then each time that the epochs have grown by a
half, and at the end.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithms 1 and 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formulations.language.arguments import as_costs, tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.polytope import perplexity
from polyopt.base.progress import show, tell
from polyopt.linalg.rows import ROW_TYPES, ROWS, WEIGHT_TYPES, Rows, as_rows, in_lanes, padded, stretches
from polyopt.linalg.used_features import present_features
from polyopt.native.library import Struct, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector

    Integers = NDArray[np.int64]

__all__ = [
    "AVERAGE", "LOSS", "MOVED", "SCORED_ROWS", "CpmSgd", "Epochs", "assign", "losses", "precision",
    "solve_cpm_sgd",
]  # fmt: skip

# Places in the tally that a run keeps, as in native/cpm_sgd.c.
LOSS = 0  # Σ of the hinges as they were met, times the samples' gains
MOVED = 1  # positives found at another face than at their last visit
COUNTED, ENTROPY = 2, 3  # entries of UNADJ, and Σ c ln c over its counts
AVERAGE = 4  # Σ of the weights of the iterates averaged, over the last one's

_FIRST_MEASURED = 5  # epochs before the objective is measured
_EPOCH_RATIO = 1.5  # epochs grow by this factor between two measurements
_AGREEMENTS = 3  # measurements that must agree for a run to have settled
_STEPS_PER_LOOK = 1 << 16  # steps between two looks at the clock
_START_SIZE = 1e-3  # size of the first weights: they only have to differ between the faces
_AVERAGED_ENTRIES = 64  # entries of the weights averaged per step, at most
SCORED_ROWS = 1 << 12  # samples scored at once
_PERPLEXITY_ROUNDING = 1e-9  # relative, by which a perplexity may be under its floor
_MAX_SINGLE_VALUE = 1e12  # largest entries, and gains, for which single precision cannot overflow


# Algorithm 2: the face that answers for positive i, so that the entropy of UNADJ stays above `floor`.
#   scores (K): scores of sample i; natural: the face with the highest.
#   floor: least entropy h, in nats.
#   unadjusted (n,): UNADJ: the natural face of each positive at its last call, -1 for none. Updated.
#   counts (K,): how often each face occurs in UNADJ. Updated.
#   phi: c ln c for every count c, and for one more than the largest.
#   tally: number of entries of UNADJ and Σ c ln c, at COUNTED and ENTROPY. Updated.
# Returns the natural face if UNADJ with it keeps the floor; otherwise the best among the faces that would
# raise the entropy strictly, or the natural one if none would.
assign = kernel(
    "cpm_assign",
    "scores: f8 (K); natural: i8; i: i8; floor: f8; unadjusted!: i8 (n); counts!: i8 (K); phi: f8 (p); "
    "tally!: f8 (five)",
    returns="i8",
)


class CpmRun(Struct):
    """A run of Algorithm 1 over some samples, as ``native/cpm_sgd.inc`` has it.

    Attributes
    ----------
    values, columns, starts, shared
        The samples: :class:`polyopt.linalg.rows.Rows`, whose entries count ``scale`` times.
    outside : ndarray of bool, shape (n,)
        The positives.
    gains : ndarray of shape (n,)
        1/λ times a sample's weight.
    floor, unadjusted, counts, phi
        As in :func:`assign`; a floor of 0 leaves Algorithm 2 out.
    spacing : int
        Steps between two iterates that enter the average A, with the weight t⁴, so that the start is soon
        forgotten; 0 leaves A alone.
    U, A : ndarray of shape (m+1, L)
        Lanes.
    steps : ndarray of shape (1,)
        All that were ever taken.
    faces : ndarray of int, shape (n,)
        Each positive's natural face at its last visit, -1 for none.
    tally : ndarray of shape (5,)
        See the places named above.
    work : ndarray of shape (2, L)
        Work space, zeros at first.
    answers : ndarray of shape (K,)
        Work space.
    """

    signature: ClassVar[str] = (
        ROWS + "outside: b1 (n); gains: f8 (n); scale: f8; floor: f8; spacing: i8; U!: W (r, L); "
        "A!: W (r, L); steps!: i8 (one); unadjusted!: i8 (n); counts!: i8 (K); phi: f8 (p); faces!: i8 (n); "
        "tally!: f8 (five); work!: W (two, L); answers!: f8 (K)"
    )
    types: ClassVar[dict[str, str]] = {**ROW_TYPES, **WEIGHT_TYPES}


# Algorithm 1: a step for each sample in `order`, in place.
_take_steps = kernel("cpm_sgd", "run: CpmRun; order: i8 (o)")

# Losses of samples `first` to `last` - 1 at the first K lanes of W (m+1, L); out (L,) is work space.
_losses = kernel(
    "cpm_losses",
    ROWS + "outside: b1 (n); C: f8 (n); scale: f8; W: W (r, L); K: i8; first: i8; last: i8; out!: W (L)",
    returns="f8",
    **ROW_TYPES,
    **WEIGHT_TYPES,
)


def losses(W: Vector, rows: Rows, outside: NDArray[np.bool_], C: Vector, scale: float = 1.0) -> float:
    """The sum of C_i times the hinge of the best face (positives), or the hinges of all faces (negatives).

    W (K, m+1): the faces, bias last.
    rows: samples.
    outside (n,): the positives.
    C (n,): cost of slack per sample.
    scale: what every entry of the rows counts times.
    """
    lanes = in_lanes(W)
    out = np.empty(lanes.shape[1])
    return sum(
        _losses(
            rows.values, rows.columns, rows.starts, rows.shared, outside, C, scale, lanes, len(W), first,
            last, out,
        )
        for first, last in stretches(len(C), rows, lanes.shape[1])
    )  # fmt: skip


def solve_cpm_sgd(
    X: Matrix, y: Vector, C: Vector, n_faces: int, *, perplexity: float = 1.0, average: bool = True,
    scale: float = 1.0, max_iter: int = 100, tol: float = 1e-4, time_limit: float | None = None,
    seed: int = 0,
) -> Solution:  # fmt: skip
    """Minimise J(W) by Algorithm 1.

    X (n, m): samples: float32, float64, or uint8, which is not copied into floats.
    y (n,): labels: -1 inside, +1 outside; both present.
    C (n,): cost of slack per sample, positive.
    n_faces: K, at least 1.
    perplexity: floor of the effective number of faces in use, from 1 (off) to K: the exponential of Algorithm
        2's entropy h. It steers by the samples inside their margin, as the paper does; the perplexity over
        all positives, which ``history`` records, can end up lower.
    average: answer with the better of the average of the iterates and the last, at the epoch where it was
        best; or always with the last iterate of the last epoch. With a floor, the better at the last epoch:
        that which keeps the floor or, where both or neither do, that with the lower objective or the higher
        perplexity.
    scale: what every entry of X counts times, such as 1/255 for pixels held as bytes.
    max_iter: epochs at most.
    tol: the run ends when its last three measurements, over more than half of its epochs, lie within this
        share of the least. The error of such methods falls like one over the epochs, so about as much is
        left.
    time_limit: seconds.
    seed: of the order of the samples and of the first weights.
    Returns: ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``history`` has one record
        per epoch: the estimate of the objective that the steps gave on their way, the objective of the answer
        where it was measured (at epochs 5, 7, 10, 15, ... and the last; else nan), perplexity, positives
        whose face has changed, and faces in use. A limit, or Ctrl-C, keeps the best point.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    whole("n_faces", n_faces)
    whole("max_iter", max_iter)
    C = as_costs(C, len(y))
    rows = as_rows(X)
    machine = CpmSgd(
        rows.width, n_faces, perplexity=perplexity, average=average, scale=scale, seed=seed,
        dtype=_precision(rows, scale, 0.5 * len(y) * C),
    )  # fmt: skip
    machine.U[:-1][~present_features(X)] = 0.0
    run = _Run(machine, rows, y, C)
    status = run.run(clock, max_iter, tol)
    return run.solution(status, run.reached, "sgd", clock)


class CpmSgd:
    """Algorithm 1 as a state that samples are shown to: what a stream of data needs.

    n_features: m.
    n_faces: K, at least 1.
    seed: of the first weights.
    dtype: of the weights: float32 or float64.
    """

    def __init__(
        self,
        n_features: int,
        n_faces: int,
        *,
        perplexity: float = 1.0,
        average: bool = True,
        scale: float = 1.0,
        seed: int = 0,
        dtype: type[np.floating[Any]] = np.float32,
    ):
        self.n_faces, self.floor, self.average = n_faces, math.log(max(perplexity, 1.0)), average
        self.dtype, self.scale = np.dtype(dtype), scale
        self.rng = np.random.default_rng(seed)
        shape = (n_features + 1, padded(n_faces))
        self.U = np.zeros(shape, dtype=dtype)
        self.U[:, :n_faces] = _START_SIZE * self.rng.normal(size=(n_features + 1, n_faces))
        self.A = np.zeros_like(self.U)
        self.spacing = -(-self.U.size // _AVERAGED_ENTRIES) if average else 0
        self.steps = np.zeros(1, dtype=np.int64)
        self.counts = np.zeros(n_faces, dtype=np.int64)
        self.tally = np.zeros(5)
        self._phi = np.zeros(2)
        self._work, self._answers = np.zeros((2, shape[1]), dtype=dtype), np.zeros(n_faces)

    def show(
        self,
        rows: Rows,
        outside: NDArray[np.bool_],
        gains: Vector,
        order: Integers,
        faces: Integers,
        known: Integers,
    ) -> None:
        """One step of Algorithm 1 for each sample in `order`.

        rows: samples.
        outside (n,): the positives.
        gains (n,): 1/λ times a sample's weight: n C_i / 2 with n the size of all the data.
        order: the samples to visit.
        faces, known (n,): each positive's natural face at its last visit, and in UNADJ; -1 for a new one.
            Updated.
        """
        self.take_steps(self.run_over(rows, outside, gains, faces, known), rows, order)

    def run_over(
        self, rows: Rows, outside: NDArray[np.bool_], gains: Vector, faces: Integers, known: Integers
    ) -> CpmRun:
        """A run over some samples; arguments are as in :meth:`show`."""
        size = int(self.counts.max()) + len(outside) + 2 if self.floor > 0.0 else 0
        if len(self._phi) < size:
            counts = np.arange(2.0 * size)
            self._phi = counts * np.log(np.maximum(counts, 1.0))
        return CpmRun(
            rows.values, rows.columns, rows.starts, rows.shared, outside, gains, self.scale, self.floor,
            self.spacing, self.U, self.A, self.steps, known, self.counts, self._phi, faces, self.tally,
            self._work, self._answers,
        )  # fmt: skip

    def take_steps(self, run: CpmRun, rows: Rows, order: Integers, clock: Clock | None = None) -> int:
        """A step for each sample in `order`, of the `rows` of a run; returns the number of steps taken.

        clock: its limit is looked at after some steps.
        """
        done = 0
        for first, done in stretches(len(order), rows, self.U.shape[1], _STEPS_PER_LOOK):
            _take_steps(run, order[first:done])
            if clock is not None and clock.is_over:
                break
        return done

    @property
    def iterates(self) -> list[Vector]:
        """The last iterate (K, m+1), and the average of all where one is kept."""
        averaged = self.average and self.steps[0] >= self.spacing
        found = [self.U / (self.steps[0] + 1.0), *([self.A] if averaged else [])]
        return [np.ascontiguousarray(W[:, : self.n_faces].T, dtype=np.float64) for W in found]

    def answer(self, rows: Rows, outside: NDArray[np.bool_], C: Vector) -> tuple[Vector, float]:
        """The better of :attr:`iterates` for some samples and their costs (n,), and its objective.

        With a floor, one that keeps it is better than one that does not; where neither does, it is the one
        that comes nearer.
        """
        found = [(W, self._objective(W, rows, outside, C)) for W in self.iterates]
        if self.floor == 0.0 or len(found) == 1:
            return min(found, key=itemgetter(1))
        floor = (1.0 - _PERPLEXITY_ROUNDING) * math.exp(self.floor)
        kept = [min(self._perplexity(W, rows, outside, C), floor) for W, _ in found]
        return min(zip(kept, found, strict=True), key=lambda one: (-one[0], one[1][1]))[1]

    def _perplexity(self, W: Vector, rows: Rows, outside: NDArray[np.bool_], C: Vector) -> float:
        """That of the positives' best faces, each counting its cost."""
        positives = np.flatnonzero(outside)
        if not positives.size:
            return 1.0
        X, faces = rows.matrix(), np.empty(len(positives), dtype=np.int64)
        for first in range(0, len(positives), SCORED_ROWS):
            some = slice(first, first + SCORED_ROWS)
            scores = X[positives[some]].astype(np.float64) @ (self.scale * W[:, :-1].T) + W[:, -1]
            faces[some] = np.asarray(scores).argmax(axis=1)
        return perplexity(faces, C[positives])

    def _objective(self, W: Vector, rows: Rows, outside: NDArray[np.bool_], C: Vector) -> float:
        return float((W**2).sum() + losses(W, rows, outside, C, self.scale))


class Epochs(ABC):
    """Epochs over one set of samples, and the best answer among those measured.

    best (K, m+1): the answer.
    least: the least objective that was measured.
    measured: all of them.
    history: A record of each epoch.
    """

    best: Vector
    least: float
    measured: list[float]
    history: list[dict[str, float]]

    @abstractmethod
    def epoch(self, clock: Clock) -> None:
        """One pass through the samples in random order, or as much of it as time allows."""

    @abstractmethod
    def measure(self) -> None:
        """Measure, and keep the answer if it is the best."""

    def has_settled(self, tol: float) -> bool:
        """Whether the last measurements, half of the run apart, differ by no more than `tol`, relative."""
        last = self.measured[-_AGREEMENTS:]
        return len(last) == _AGREEMENTS and max(last) <= (1.0 + tol) * self.least

    def run(self, clock: Clock, max_iter: int, tol: float) -> Status:
        """Epochs until the measurements have settled, or a limit or Ctrl-C.

        clock: the limit.
        max_iter: epochs at most.
        """
        due = _FIRST_MEASURED
        try:
            for epoch in range(1, max_iter + 1):
                self.epoch(clock)
                over = clock.is_over
                if epoch >= due or epoch == max_iter or over:
                    self.measure()
                    due = max(epoch + 1, int(_EPOCH_RATIO * epoch))
                tell(self.history[-1])
                if over or self.has_settled(tol):
                    return Status.TIME_LIMIT if over else Status.CONVERGED
        except KeyboardInterrupt:
            self.measure()
            return interrupted()
        return Status.ITERATION_LIMIT

    def solution(self, status: Status, objective: float, solver: str, clock: Clock) -> Solution:
        """The best answer.

        status: how the run ended.
        objective: of the answer.
        solver: the method.
        clock: of the run.
        """
        return Solution(
            status=status,
            primal={"W": self.best},
            duals={},
            objective=objective,
            bound=None,
            solver=solver,
            iterations=len(self.history),
            solve_time=clock.seconds,
            history=tuple(self.history),
        )


class _Run(Epochs):
    """Epochs over one set of samples, and the best answer among those measured."""

    def __init__(self, machine: CpmSgd, rows: Rows, y: Vector, C: Vector):
        self.machine, self.rows, self.C = machine, rows, C
        self.outside, self.gains = y > 0, 0.5 * len(y) * C
        self.faces, self.known = np.full(len(y), -1), np.full(len(y), -1)
        self.steps = machine.run_over(rows, self.outside, self.gains, self.faces, self.known)
        self.last_counts = not machine.average or machine.floor > 0.0
        self.best, self.reached, self.least = machine.iterates[0], np.inf, np.inf
        self.measured: list[float] = []
        self.history: list[dict[str, float]] = []

    def epoch(self, clock: Clock) -> None:
        """One pass through the samples in random order, or as much of it as time allows."""
        machine = self.machine
        order = machine.rng.permutation(len(self.C))
        machine.tally[LOSS] = machine.tally[MOVED] = 0.0
        done = machine.take_steps(self.steps, self.rows, order, clock)
        W = machine.U / (machine.steps[0] + 1.0)
        W *= W
        # A negative has no face, -1, nor has a positive that was not visited.
        counts = np.bincount(self.faces + 1, minlength=machine.n_faces + 1)[1:].tolist()
        self.history.append(
            {
                "epoch": len(self.history) + 1.0,
                "seconds": clock.seconds,
                "estimate": float(W.sum() + 2.0 * machine.tally[LOSS] / done),
                "objective": math.nan,
                "perplexity": _perplexity_of(counts),
                "reassigned": float(machine.tally[MOVED]),
                "occupied": float(len(counts) - counts.count(0)),
            }
        )
        show(self.history[-1], self._shown)

    def _shown(self) -> dict[str, object]:
        """The last iterate, its objective, and the face at which each positive was met."""
        W = self.machine.iterates[0]
        value = self.machine._objective(W, self.rows, self.outside, self.C)
        return {"W": W, "objective": value, "assignment": np.where(self.outside, self.faces, -1)}

    def measure(self) -> None:
        """Measure the objective of the answer, and keep it if it is the best, or the last one counts."""
        W, objective = self.machine.answer(self.rows, self.outside, self.C)
        if objective < self.reached or self.last_counts:
            self.best, self.reached = W, objective
        self.least = min(self.least, objective)
        self.measured.append(objective)
        if self.history:
            self.history[-1]["objective"] = objective


def _perplexity_of(counts: list[int]) -> float:
    """:func:`formulations.polytope.perplexity` of an assignment that has so many samples at each face."""
    total = sum(counts)
    return math.exp(-sum(count / total * math.log(count / total) for count in counts if count))


def _precision(rows: Rows, scale: float, gains: Vector) -> type[np.floating[Any]]:
    if not len(rows.values):
        return np.float32
    size = max(float(rows.values.max()), -float(rows.values.min()))
    return precision(size * abs(scale), float(gains.min()), float(gains.max()))


def precision(size: float, least: float, most: float) -> type[np.floating[Any]]:
    """Single precision for the weights, unless sizes are such that it could overflow or vanish.

    size: the largest absolute entry of the samples.
    least, most: the smallest and the largest gain.
    """
    sizes = (size, most, least)
    return np.float32 if all(1.0 / _MAX_SINGLE_VALUE <= s <= _MAX_SINGLE_VALUE for s in sizes) else np.float64
