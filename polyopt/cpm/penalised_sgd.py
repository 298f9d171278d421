"""Dual averaging for the Convex Polytope Machine with a penalty on its weights, for large data.

Xiao's method (2010) for a strongly convex regulariser: with V a mean of the negative gradients of the loss so
far, in the units of :mod:`formulations.cpm_sparse`, the iterate is the minimiser W = ½ shrunk V. The iterates
have exact zeros from the first step on, satisfy the sign constraints exactly, and need no step length.

Departures from Xiao: gradients are those of small batches, and later ones have larger weights. The answer is
the best, where they are measured, of the iterate and of ½ shrunk of a mean of V, which has exact zeros as
well. During the first epochs a positive keeps the face of the machine without a penalty, because with zero
weights all faces are alike.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
Xiao, Dual Averaging Methods for Regularized Stochastic Learning and Online Optimization (2010).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.arguments import as_costs, tolerance, whole
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import perplexity
from polyopt.cpm.sgd import SCORED_ROWS, Epochs, solve_cpm_sgd

Integers = NDArray[np.int64]

_START_EPOCHS = 10  # of the machine without a penalty
_HELD_EPOCHS = 3  # during which a positive keeps the face of that machine


def solve_penalised_sgd(
    X: Matrix, y: Vector, C: Vector, n_faces: int, penalty: FacePenalty, *, max_iter: int = 100,
    tol: float = 1e-4, time_limit: float | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """Minimise J(W) + penalty(W) over the faces and the assignment.

    X (n, m): samples, float32 or float64.
    Returns: ``primal`` has ``W`` (K, m+1), bias last, with exact zeros; there are no multipliers. ``history``
        has one record per epoch: the objective where it was measured, else nan, and the number of nonzero
        weights. A limit, or Ctrl-C, keeps the best point.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    whole("n_faces", n_faces)
    whole("max_iter", max_iter)
    C, held = as_costs(C, len(y)), np.where(y > 0, 0, -1)
    if n_faces > 1:
        start = solve_cpm_sgd(
            X, y, C, n_faces, max_iter=min(_START_EPOCHS, max_iter), tol=tol, time_limit=clock.left, seed=seed
        )
        if start.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        held = np.where(y > 0, _scores(X, start["W"]).argmax(axis=1), -1)
    run = _Run(X, y, C, n_faces, penalty, held, seed)
    status = run.run(clock, max_iter, tol)
    return run.solution(status, run.least, "sgd, dual averaging", clock)


class _Run(Epochs):
    """Epochs of dual averaging."""

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, penalty: FacePenalty, held: Integers, seed: int
    ):
        super().__init__(np.zeros((n_faces, X.shape[1] + 1)))
        self.X, self.y, self.C, self.penalty, self.held = X, y, C, penalty, held
        self.rng = np.random.default_rng(seed)
        self.batch = int(np.clip(len(y) // 500, 8, 256))
        self.V, self.mean = self.best.copy(), self.best.copy()
        self.weight, self.steps = 0.0, 0

    def epoch(self, clock: Clock) -> None:
        order, is_held = self.rng.permutation(len(self.y)), len(self.history) < _HELD_EPOCHS
        for first in range(0, len(order), self.batch):
            self._step(np.sort(order[first : first + self.batch]), is_held)
            if clock.is_over:
                break
        self.history.append(
            {
                "epoch": len(self.history) + 1.0,
                "seconds": clock.seconds,
                "objective": math.nan,
                "nonzero": float(np.count_nonzero(self.penalty.shrunk(self.V)[:, :-1])),
            }
        )

    def _step(self, rows: Integers, is_held: bool) -> None:
        """Add the gradient of a batch to V, with the weight t, and V to its mean, with the weight t²."""
        block, y, W = self.X[rows], self.y[rows], 0.5 * self.penalty.shrunk(self.V)
        scores = _scores(block, W)
        faces = self.held[rows] if is_held else scores.argmax(axis=1)
        pays = (y < 0)[:, None] | (faces[:, None] == np.arange(len(W)))
        pays &= y[:, None] * scores < 1.0
        amounts = pays * (y * self.C[rows])[:, None] * (len(self.y) / len(rows))
        gradient = np.column_stack([np.asarray(block.T @ amounts).T, amounts.sum(axis=0)])
        self.steps += 1
        self.V += (2.0 / (self.steps + 1.0)) * (gradient - self.V)
        share = float(self.steps) ** 2
        self.weight += share
        self.mean += (share / self.weight) * (self.V - self.mean)

    def measure(self) -> None:
        found = [0.5 * self.penalty.shrunk(V) for V in (self.V, self.mean)]
        values, perplexities = zip(*map(self._objective, found), strict=True)
        k = int(np.argmin(values))
        if values[k] < self.least:
            self.best, self.least = found[k], values[k]
        self.measured.append(values[k])
        if self.history:
            self.history[-1] |= {"objective": values[k], "perplexity": perplexities[k]}

    def _objective(self, W: Vector) -> tuple[float, float]:
        """Return the objective and the perplexity of the assignment at W."""
        scores, outside = _scores(self.X, W), self.y > 0
        inside = np.maximum(0.0, 1.0 + scores).sum(axis=1)
        paid = np.where(outside, np.maximum(0.0, 1.0 - scores.max(axis=1)), inside)
        value = float((W**2).sum() + self.penalty.value(W) + self.C @ paid)
        return value, perplexity(scores[outside].argmax(axis=1))


def _scores(X: Matrix, W: Vector) -> Vector:
    starts = range(0, X.shape[0], SCORED_ROWS)
    parts = [np.asarray(X[first : first + SCORED_ROWS] @ W[:, :-1].T, dtype=float) for first in starts]
    return np.concatenate(parts) + W[:, -1]
