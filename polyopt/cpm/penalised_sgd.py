"""Dual averaging for the Convex Polytope Machine with a penalty on its weights, for large data.

Minimise J(W) + penalty(W), where J(W) = ‖W‖² + Σ C_i hinge_i for faces W (K, m+1), with the ℓ1 and group
penalty and signs of :mod:`formulations.face_penalty`. In Xiao's method (2010), V is a mean of the negative
gradients of the loss so far. The iterate W minimises ‖W‖² + penalty(W) − V·W, so W = ½ shrunk(V), where
shrunk is a soft-thresholding. The iterates have exact zeros from the first step on, satisfy the sign
constraints exactly, and need no step length.

Departures from Xiao: each gradient is that of a small batch, and gradient t has the weight t in V. The result
is the best measured one of two candidates: the iterate, and ½ shrunk of the mean of V_t with the weights t²,
which has exact zeros as well. During the first epochs a positive keeps its face of the machine without a
penalty, because faces of zero weights are all equal.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
Xiao, Dual Averaging Methods for Regularized Stochastic Learning and Online Optimization (2010).
"""

import math

import numpy as np
from numpy.typing import NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.arguments import as_costs, tolerance, whole
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import perplexity
from polyopt.cpm.sgd import OPTIONS, Epochs, solve_cpm_sgd

Integers = NDArray[np.int64]


def solve_penalised_sgd(
    X: Matrix, y: Vector, C: Vector, n_faces: int, penalty: FacePenalty, *, max_iter: int = 100,
    tol: float = 1e-4, time_limit: float | None = None, seed: int = 0, start_epochs: int = 10,
) -> Solution:  # fmt: skip
    """Minimise J(W) + penalty(W) over the faces and the assignment.

    X (n, m): samples, float32 or float64.
    start_epochs: epochs of the SGD without a penalty, whose faces assign the positives at first.
    Returns: ``primal`` has ``W`` (K, m+1), bias last, with exact zeros; there are no multipliers. ``history``
        has one record per epoch: the objective (nan if not measured), and the number of nonzero weights.
        After a limit or Ctrl-C it is the best point so far.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    whole("n_faces", n_faces)
    whole("max_iter", max_iter)
    C, initial_faces = as_costs(C, len(y)), np.where(y > 0, 0, -1)
    if n_faces > 1:
        start = solve_cpm_sgd(
            X, y, C, n_faces, max_iter=min(start_epochs, max_iter), tol=tol, time_limit=clock.left, seed=seed
        )
        if start.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        initial_faces = np.where(y > 0, _scores(X, start["W"]).argmax(axis=1), -1)
    epochs = _DualAveragingEpochs(X, y, C, n_faces, penalty, initial_faces, seed)
    status = epochs.run(clock, max_iter, tol)
    return epochs.solution(status, epochs.min_objective, "sgd, dual averaging", clock)


class _DualAveragingEpochs(Epochs):
    """Epochs of dual averaging; in the first `fixed_epochs` the positives have `initial_faces` (n,)."""

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, penalty: FacePenalty, initial_faces: Integers,
        seed: int, fixed_epochs: int = 3,
    ):  # fmt: skip
        super().__init__(np.zeros((n_faces, X.shape[1] + 1)))
        self.X, self.y, self.C, self.penalty, self.initial_faces = X, y, C, penalty, initial_faces
        self.rng, self.fixed_epochs = np.random.default_rng(seed), fixed_epochs
        self.batch_size = int(np.clip(len(y) // 500, 8, 256))  # 500 steps per epoch, if the limits allow it
        self.V, self.mean_V = self.result.copy(), self.result.copy()
        self.steps = 0  # t
        self.weight_sum = 0.0  # Σ t², the weights of V_t in mean_V

    def epoch(self, clock: Clock) -> None:
        order, is_fixed = self.rng.permutation(len(self.y)), len(self.history) < self.fixed_epochs
        for first in range(0, len(order), self.batch_size):
            self._step(np.sort(order[first : first + self.batch_size]), is_fixed)
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

    def _step(self, rows: Integers, is_fixed: bool) -> None:
        """Make step t: add the negative gradient of a batch to V with weight t, and V to mean_V with t².

        is_fixed: True if positives have their initial faces, False if they have their best ones.
        """
        block, y, W = self.X[rows], self.y[rows], 0.5 * self.penalty.shrunk(self.V)
        scores = _scores(block, W)
        faces = self.initial_faces[rows] if is_fixed else scores.argmax(axis=1)
        has_loss = (y < 0)[:, None] | (faces[:, None] == np.arange(len(W)))
        has_loss &= y[:, None] * scores < 1.0
        # The factor n / batch size makes the gradient an unbiased estimate of that of all samples.
        signed_costs = has_loss * (y * self.C[rows])[:, None] * (len(self.y) / len(rows))
        negative_gradient = np.column_stack([np.asarray(block.T @ signed_costs).T, signed_costs.sum(axis=0)])
        self.steps += 1
        self.V += (2.0 / (self.steps + 1.0)) * (negative_gradient - self.V)
        weight = float(self.steps) ** 2
        self.weight_sum += weight
        self.mean_V += (weight / self.weight_sum) * (self.V - self.mean_V)

    def measure(self) -> None:
        candidates = [0.5 * self.penalty.shrunk(V) for V in (self.V, self.mean_V)]
        values, perplexities = zip(*map(self._objective, candidates), strict=True)
        k = int(np.argmin(values))
        if values[k] < self.min_objective:
            self.result, self.min_objective = candidates[k], values[k]
        self.measured.append(values[k])
        if self.history:
            self.history[-1] |= {"objective": values[k], "perplexity": perplexities[k]}

    def _objective(self, W: Vector) -> tuple[float, float]:
        """Return the objective at W, and the perplexity of the assignment of the positives."""
        scores, is_positive = _scores(self.X, W), self.y > 0
        hinge_sums = np.maximum(0.0, 1.0 + scores).sum(axis=1)
        losses = np.where(is_positive, np.maximum(0.0, 1.0 - scores.max(axis=1)), hinge_sums)
        value = float((W**2).sum() + self.penalty.value(W) + self.C @ losses)
        return value, perplexity(scores[is_positive].argmax(axis=1))


def _scores(X: Matrix, W: Vector) -> Vector:
    """Return the scores (n, K), computed in batches."""
    n_rows = OPTIONS.scored_rows
    starts = range(0, X.shape[0], n_rows)
    parts = [np.asarray(X[first : first + n_rows] @ W[:, :-1].T, dtype=float) for first in starts]
    return np.concatenate(parts) + W[:, -1]
