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
(:func:`polyopt.lanes.padded`), so that one walk over a sample serves all faces at once.

Algorithm 2 is :func:`assign`, Algorithm 1 the loop of :func:`run_kernel`; :class:`CpmSgd` is their state, and
:class:`Epochs` the loop around them, which says when to measure and when to end. Measuring an objective costs
about as much as an epoch. It happens after the fifth epoch, then each time that the epochs have grown by a
half, and at the end.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithms 1 and 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.arguments import as_costs, tolerance, whole
from formulations.clock import Clock, interrupted
from formulations.polytope import perplexity
from formulations.solution import Solution, Status
from polyopt.compiled import njit
from polyopt.lanes import add_bias, add_to_face, padded, prefetch_row, row_product, row_update
from polyopt.rows import Rows, as_rows
from polyopt.used_features import present_features
from polyopt.watch import show, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.matrices import Matrix, Vector

    Integers = NDArray[np.int64]

__all__ = [
    "AVERAGE", "LOSS", "MOVED", "SCORED_ROWS", "CpmSgd", "Epochs", "assign", "in_lanes", "losses",
    "measure_kernel", "precision", "run_kernel", "solve_cpm_sgd",
]  # fmt: skip

# Places in the tally that a run keeps.
LOSS = 0  # Σ of the hinges as they were met, times the samples' gains
MOVED = 1  # positives found at another face than at their last visit
COUNTED, ENTROPY = 2, 3  # entries of UNADJ, and Σ c ln c over its counts
AVERAGE = 4  # Σ of the weights of the iterates averaged, over the last one's

_ROUNDING = 1e-12  # entropies closer than this are equal
_FIRST_MEASURED = 5  # epochs before the objective is measured
_EPOCH_RATIO = 1.5  # epochs grow by this factor between two measurements
_AGREEMENTS = 3  # measurements that must agree for a run to have settled
_STEPS_PER_LOOK = 1 << 16  # steps between two looks at the clock
_START_SIZE = 1e-3  # size of the first weights: they only have to differ between the faces
_AVERAGED_ENTRIES = 64  # entries of the weights averaged per step, at most
SCORED_ROWS = 1 << 12  # samples scored at once
_PERPLEXITY_ROUNDING = 1e-9  # relative, by which a perplexity may be under its floor
_MAX_SINGLE_VALUE = 1e12  # largest entries, and gains, for which single precision cannot overflow


@njit(cache=True, nogil=True)
def assign(
    scores: NDArray[Any],
    natural: int,
    i: int,
    floor: float,
    unadjusted: Integers,
    counts: Integers,
    phi: Vector,
    tally: Vector,
) -> int:
    """Algorithm 2: the face that answers for positive i, so that entropy stays above `floor`.

    scores (K,): scores of sample i; those beyond K are not looked at.
    natural: the face with the highest.
    i: the sample.
    floor: least entropy h, in nats.
    unadjusted (n,): UNADJ: the natural face of each positive at its last call, -1 for none. Updated.
    counts (K,): how often each face occurs in UNADJ. Updated.
    phi: c ln c for every count c, and for one more than the largest.
    tally: number of entries of UNADJ and Σ c ln c, at :data:`COUNTED` and :data:`ENTROPY`. Updated.
    Returns: the natural face if UNADJ with it keeps the floor; otherwise the best among the faces that would
        raise the entropy strictly, or the natural one where none would.
    """
    before = unadjusted[i]
    total, sum_phi = tally[COUNTED], tally[ENTROPY]
    new_total, new_sum = total, sum_phi
    if before != natural:
        if before >= 0:
            new_sum += phi[counts[before] - 1] - phi[counts[before]]
            counts[before] -= 1
        else:
            new_total += 1.0
        new_sum += phi[counts[natural] + 1] - phi[counts[natural]]
        counts[natural] += 1
        unadjusted[i] = natural
        tally[COUNTED], tally[ENTROPY] = new_total, new_sum
    if np.log(new_total) - new_sum / new_total >= floor - _ROUNDING:
        return natural
    # A new entry at face k raises the entropy if and only if it adds less than this to Σ c ln c.
    most = 0.0
    if total > 0.0:
        entropy = np.log(total) - sum_phi / total
        most = (np.log(total + 1.0) - entropy - _ROUNDING) * (total + 1.0) - sum_phi
    best = natural
    found = False
    for k in range(len(counts)):
        count = counts[k] - (k == natural) + (k == before)  # as it was before the call
        if before >= 0:
            # Moving one sample raises the entropy if and only if it goes from c to at most c - 2.
            raises = count <= counts[before] + (before != natural) - 2
        else:
            raises = total > 0.0 and phi[count + 1] - phi[count] < most
        if raises and (not found or scores[k] > scores[best]):
            best, found = k, True
    return best


@njit(cache=True, nogil=True)
def _best_face(scores: NDArray[Any], n_faces: int) -> int:
    """The first of the faces with the highest score."""
    face = 0
    for k in range(1, n_faces):
        if scores[k] > scores[face]:
            face = k
    return face


@njit(cache=True, nogil=True)
def _take_in(U: NDArray[Any], A: NDArray[Any], share: float, shrink: float) -> None:
    """Move the average A by its share towards the iterate, U shrunk."""
    for j in range(len(U)):
        for k in range(U.shape[1]):
            A[j, k] += share * (shrink * U[j, k] - A[j, k])


@lru_cache
def run_kernel(n_lanes: int) -> Any:
    """Algorithm 1 for weights of `n_lanes` columns.

    The kernel takes one step for each sample in `order`, in place:
    ``run(values, columns, starts, shared, outside, gains, order, scale, U, A, spacing, steps, floor,
    unadjusted, counts, phi, faces, tally)``, where

    - values, columns, starts, shared are :class:`polyopt.rows.Rows`, its entries counting `scale` times;
    - outside (n,) says which samples are positives, gains (n,) is 1/λ times a sample's weight;
    - every `spacing` steps the iterate enters the average A, shaped like U, with the weight t⁴, so that
      the start is soon forgotten; a spacing of 0 leaves A alone;
    - steps (1,) counts all steps ever taken; counts (K,) tells the number of faces;
    - floor, unadjusted, counts, phi as in :func:`assign`; a floor of 0 leaves Algorithm 2 out;
    - faces (n,) holds each positive's natural face at its last visit, -1 for none; tally (5,) what the
      names in this module say.
    """
    few = max(1, n_lanes // 16)  # faces up to which a walk for each is cheaper than one for all

    @njit(cache=True, nogil=True)
    def run(  # type: ignore[no-untyped-def]
        values, columns, starts, shared, outside, gains, order, scale, U, A, spacing, steps, floor,
        unadjusted, counts, phi, faces, tally,
    ):  # fmt: skip
        K = len(counts)
        scores, change = np.zeros(n_lanes, dtype=U.dtype), np.zeros(n_lanes, dtype=U.dtype)
        for place in range(len(order)):
            i, soon = order[place], order[min(place + 2, len(order) - 1)]
            prefetch_row(values, columns, starts[soon], starts[soon + 1], shared)
            begin, end = starts[i], starts[i + 1]
            offset = begin * shared
            row_product(values, columns, begin, end, offset, U, scores, n_lanes)
            add_bias(scores, scale, U)
            steps[0] += 1
            t = float(steps[0])
            margin, size = U.dtype.type(t), U.dtype.type(gains[i] * (t / (t + 1.0)))
            if outside[i]:
                face = _best_face(scores, K)
                tally[MOVED] += face != faces[i]
                faces[i] = face
                if scores[face] < margin:
                    tally[LOSS] += gains[i] * (t - scores[face]) / t
                    if floor > 0.0:
                        face = assign(scores, face, i, floor, unadjusted, counts, phi, tally)
                    add_to_face(values, columns, begin, end, offset, scale, size, face, U)
            else:
                violated = 0
                for k in range(K):
                    violated += scores[k] > -margin
                if violated > 0:
                    for k in range(K):
                        if scores[k] > -margin:
                            tally[LOSS] += gains[i] * (t + scores[k]) / t
                            change[k] = -size
                            if violated <= few:
                                add_to_face(values, columns, begin, end, offset, scale, -size, k, U)
                        else:
                            change[k] = 0.0
                    if violated > few:
                        for k in range(n_lanes):
                            U[len(U) - 1, k] += change[k]
                            change[k] *= scale
                        row_update(values, columns, begin, end, offset, U, change, n_lanes)
            if spacing > 0 and steps[0] % spacing == 0:
                tally[AVERAGE] = tally[AVERAGE] * ((t - spacing) / t) ** 4 + 1.0
                _take_in(U, A, U.dtype.type(1.0 / tally[AVERAGE]), U.dtype.type(1.0 / (t + 1.0)))

    return run


@lru_cache
def measure_kernel(n_lanes: int) -> Any:
    """The losses at W of shape (m+1, L), of which the first K columns are faces.

    ``measure(values, columns, starts, shared, outside, C, scale, W, K)`` returns Σ C_i times the hinge
    of the best face (positives) or the hinges of all K faces (negatives).
    """

    @njit(cache=True, nogil=True)
    def measure(values, columns, starts, shared, outside, C, scale, W, K):  # type: ignore[no-untyped-def]
        scores, total = np.zeros(n_lanes, dtype=W.dtype), 0.0
        for i in range(len(starts) - 1):
            begin, end = starts[i], starts[i + 1]
            row_product(values, columns, begin, end, begin * shared, W, scores, n_lanes)
            add_bias(scores, scale, W)
            if outside[i]:
                total += C[i] * max(0.0, 1.0 - scores[:K].max())
            else:
                for k in range(K):
                    total += C[i] * max(0.0, 1.0 + scores[k])
        return total

    return measure


def in_lanes(W: Vector, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
    """Faces (K, m+1) as the kernels take them: (m+1, L), with columns of zeros behind the last."""
    lanes = np.zeros((W.shape[1], padded(len(W))), dtype=dtype)
    lanes[:, : len(W)] = W.T
    return lanes


def losses(W: Vector, rows: Rows, outside: NDArray[np.bool_], C: Vector, scale: float = 1.0) -> float:
    """The sum of C_i times the hinge of the best face (positives), or the hinges of all faces (negatives).

    W (K, m+1): the faces, bias last.
    rows: samples.
    outside (n,): the positives.
    C (n,): cost of slack per sample.
    scale: what every entry of the rows counts times.
    """
    lanes = in_lanes(W)
    return float(
        measure_kernel(lanes.shape[1])(
            rows.values, rows.columns, rows.starts, rows.shared, outside, C, scale, lanes, len(W)
        )
    )


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
        size = int(self.counts.max()) + len(order) + 2
        if len(self._phi) < size:
            counts = np.arange(2.0 * size)
            self._phi = counts * np.log(np.maximum(counts, 1.0))
        run_kernel(self.U.shape[1])(
            rows.values, rows.columns, rows.starts, rows.shared, outside, gains, order,
            self.dtype.type(self.scale), self.U, self.A, self.spacing, self.steps, self.floor,
            known, self.counts, self._phi, faces, self.tally,
        )  # fmt: skip
        used = self.counts[self.counts > 0]
        self.tally[COUNTED], self.tally[ENTROPY] = used.sum(), used @ np.log(used)  # without the drift

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
        self.last_counts = not machine.average or machine.floor > 0.0
        self.best, self.reached, self.least = machine.iterates[0], np.inf, np.inf
        self.measured: list[float] = []
        self.history: list[dict[str, float]] = []

    def epoch(self, clock: Clock) -> None:
        """One pass through the samples in random order, or as much of it as time allows."""
        machine = self.machine
        order = machine.rng.permutation(len(self.C))
        machine.tally[LOSS] = machine.tally[MOVED] = 0.0
        done = 0
        for block in _blocks(order):
            machine.show(self.rows, self.outside, self.gains, block, self.faces, self.known)
            done += len(block)
            if clock.is_over:
                break
        W = machine.U / (machine.steps[0] + 1.0)
        seen = self.faces[self.outside & (self.faces >= 0)]
        self.history.append(
            {
                "epoch": len(self.history) + 1.0,
                "seconds": clock.seconds,
                "estimate": float((W**2).sum() + 2.0 * machine.tally[LOSS] / done),
                "objective": math.nan,
                "perplexity": perplexity(seen),
                "reassigned": float(machine.tally[MOVED]),
                "occupied": float(len(np.unique(seen))),
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


def _blocks(order: Integers) -> Iterator[Integers]:
    return (order[first : first + _STEPS_PER_LOOK] for first in range(0, len(order), _STEPS_PER_LOOK))


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
