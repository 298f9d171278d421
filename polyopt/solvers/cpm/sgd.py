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

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithms 1 and 2.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.arguments import as_costs, tolerance, whole
from formulations.clock import Clock
from formulations.polytope import perplexity
from polyopt.lanes import padded
from polyopt.rows import Rows, as_rows
from polyopt.solvers.cpm.epochs import Epochs
from polyopt.solvers.cpm.kernels import COUNTED, ENTROPY, LOSS, MOVED, losses, run_kernel
from polyopt.used_features import present_features
from polyopt.watch import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.matrices import Matrix
    from formulations.solution import Solution

    Vector = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = ["CpmSgd", "precision", "solve_cpm_sgd"]

_BLOCK = 1 << 16  # steps between two looks at the clock
_START = 1e-3  # size of the first weights: they only have to differ between the faces
_CHEAP = 64  # entries of the weights averaged per step, at most
_ROWS = 1 << 12  # samples scored at once
_ROUNDING = 1e-9  # relative, by which a perplexity may be under its floor
_SAFE = 1e12  # largest entries, and gains, for which single precision cannot overflow


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
        self.U[:, :n_faces] = _START * self.rng.normal(size=(n_features + 1, n_faces))
        self.A = np.zeros_like(self.U)
        self.spacing = -(-self.U.size // _CHEAP) if average else 0
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
        floor = (1.0 - _ROUNDING) * math.exp(self.floor)
        kept = [min(self._perplexity(W, rows, outside, C), floor) for W, _ in found]
        return min(zip(kept, found, strict=True), key=lambda one: (-one[0], one[1][1]))[1]

    def _perplexity(self, W: Vector, rows: Rows, outside: NDArray[np.bool_], C: Vector) -> float:
        """That of the positives' best faces, each counting its cost."""
        positives = np.flatnonzero(outside)
        if not positives.size:
            return 1.0
        X, faces = rows.matrix(), np.empty(len(positives), dtype=np.int64)
        for first in range(0, len(positives), _ROWS):
            some = slice(first, first + _ROWS)
            scores = X[positives[some]].astype(np.float64) @ (self.scale * W[:, :-1].T) + W[:, -1]
            faces[some] = np.asarray(scores).argmax(axis=1)
        return perplexity(faces, C[positives])

    def _objective(self, W: Vector, rows: Rows, outside: NDArray[np.bool_], C: Vector) -> float:
        return float((W**2).sum() + losses(W, rows, outside, C, self.scale))


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
    return (order[first : first + _BLOCK] for first in range(0, len(order), _BLOCK))


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
    return np.float32 if all(1.0 / _SAFE <= s <= _SAFE for s in sizes) else np.float64
