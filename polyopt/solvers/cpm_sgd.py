"""Stochastic subgradient solver of the Convex Polytope Machine with loss="sum".

Algorithm 1 with Algorithm 2 (ASSIGN). It minimises (λ/2)‖W‖² + the mean loss, which is J(W) of
formulations.cpm with C = 2/(nλ); per-sample costs C_i give λ = 2/ΣC_i and gradients weighted by
n C_i/ΣC. Departures from the paper as printed:

- the step is 1/(λ(t+1)), since with 1/(λt) the first step sets W to zero;
- the answer is an average of the iterates, as single iterates keep jumping about the optimum: the
  mean over each epoch with weights t, and over the epochs with weights growing like their fourth
  power, so that the start is soon forgotten;
- samples are visited in shuffled epochs, and of the averages at their ends that with the least J is kept;
- ASSIGN keeps the natural face when no face would raise the entropy, where the paper is silent.

The weights are float64, for float32 data too: they are sums over all steps, and averaging takes
differences of such sums.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithms 1 and 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.solution import Solution, Status
from polyopt.solvers.clock import Clock
from polyopt.solvers.cpm_kernels import run_csr, run_dense

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["solve_cpm_sgd"]

_LEAST = 10  # epochs before a run may end because it has settled
_BLOCK = 1 << 16  # steps between two looks at the clock
_ROWS = 1 << 12  # rows scored at once
_START = 1e-3  # size of the first weights: they only have to differ between the faces


def solve_cpm_sgd(
    X: Any,
    y: Vector,
    C: Vector,
    n_faces: int,
    *,
    entropy: float = 0.0,
    max_iter: int = 100,
    tol: float = 1e-4,
    time_limit: float | None = None,
    seed: int = 0,
) -> Solution:
    """Minimise J(W) by Algorithm 1.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples, float32 or float64.
    y : ndarray of shape (n,)
        Labels: -1 inside, +1 outside; both present.
    C : ndarray of shape (n,)
        Cost of slack per sample, positive.
    n_faces : int
        K, at least 1.
    entropy : float
        Floor of the entropy of the faces in use, in nats, from 0 (off) to ln K; its exponential is
        an effective number of faces. It steers by the samples inside their margin, as Algorithm 2
        does; the entropy over all positives, which ``history`` records, can end up lower.
    max_iter : int
        Epochs at most.
    tol : float
        The run ends when the objectives of all epochs in its second half lie within this share of the
        least. The error of such methods falls like one over the epochs, so about as much is left.
    time_limit : float, optional
        Seconds.
    seed : int
        Of the order of the samples and of the first weights.

    Returns
    -------
    Solution
        ``primal`` has ``W`` (K, m+1), bias last; there are no multipliers. ``history`` has one
        record per epoch: objective and entropy of the average, positives whose face has changed,
        and faces in use. A limit, or Ctrl-C, keeps the best point.
    """
    clock = Clock(time_limit)
    run = _Run(X, y, C, n_faces, entropy, seed)
    status = Status.ITERATION_LIMIT
    try:
        for _ in range(max_iter):
            run.epoch(clock)
            run.measure(clock)
            if clock.is_over:
                status = Status.TIME_LIMIT
                break
            if run.has_settled(tol):
                status = Status.CONVERGED
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
        run.measure(clock)
    return Solution(
        status=status,
        primal={"W": run.best},
        duals={},
        objective=run.least,
        bound=None,
        solver="sgd",
        iterations=len(run.history),
        solve_time=clock.seconds,
        history=tuple(run.history),
    )


class _Run:
    """The state of a run: running sums, average, and the best average so far."""

    def __init__(self, X: Any, y: Vector, C: Vector, n_faces: int, entropy: float, seed: int):
        n, m = X.shape
        self.X: Any = X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X)
        self.y, self.C, self.floor = y, C, float(entropy)
        self.rng = np.random.default_rng(seed)
        self.gains = 0.5 * n * C
        self.steps = np.zeros(1, dtype=np.int64)
        self.U = _START * self.rng.normal(size=(m + 1, n_faces))
        self.V = np.zeros_like(self.U)
        counts = np.arange(n + 2)
        phi = counts * np.log(np.maximum(counts, 1))
        self.memory = (np.full(n, -1, dtype=np.int64), np.zeros(n_faces, dtype=np.int64), phi)
        self.sum, self.weight = np.zeros_like(self.U), 0.0
        self.share, self.done_before = 0.0, 0
        self.faces = np.full(n, -1)
        self.best, self.least = self.U.T.copy(), np.inf
        self.history: list[dict[str, float]] = []

    def epoch(self, clock: Clock) -> None:
        """One pass through the samples in random order, or as much of it as time allows."""
        total, weight = self._present()
        self.sum += total
        self.weight += weight
        self.share, self.done_before = (len(self.history) + 1.0) ** 4, int(self.steps[0])
        self.V[:] = 0.0
        order = self.rng.permutation(len(self.y))
        for first in range(0, len(order), _BLOCK):
            tail = (self.y, self.gains, order[first : first + _BLOCK], first, self.steps, self.U, self.V)
            if sp.issparse(self.X):
                run_csr(self.X.data, self.X.indices, self.X.indptr, *tail, self.floor, *self.memory)
            else:
                run_dense(self.X, *tail, self.floor, *self.memory)
            if clock.is_over:
                break

    def has_settled(self, tol: float) -> bool:
        """Whether the second half of the run has made no difference of more than `tol`, relative."""
        epochs = len(self.history)
        second_half = [record["objective"] for record in self.history[epochs // 2 :]]
        return epochs >= _LEAST and max(second_half) <= (1.0 + tol) * self.least

    def _present(self) -> tuple[Vector, float]:
        """Weighted sum of the iterates of this epoch, and the sum of the weights."""
        done, t = int(self.steps[0]) - self.done_before, self.done_before
        return self.share * (done * self.U - self.V), self.share * (
            done * (t + 1.0) + 0.5 * done * (done + 1.0)
        )

    def measure(self, clock: Clock) -> None:
        """Record the average as it stands, and keep it if it is the best."""
        total, weight = self._present()
        weight += self.weight
        W = ((self.sum + total) / weight if weight > 0 else self.U).T
        objective, faces = _evaluate(self.X, self.y, self.C, W)
        positive = self.y > 0
        shares = np.bincount(faces[positive], self.C[positive], minlength=len(W)) / self.C[positive].sum()
        used = shares[shares > 0]
        if objective < self.least:
            self.best, self.least = W.copy(), objective
        self.history.append(
            {
                "epoch": len(self.history) + 1.0,
                "seconds": clock.seconds,
                "objective": objective,
                "entropy": max(0.0, -float(used @ np.log(used))),
                "reassigned": float((faces != self.faces)[positive].sum()),
                "occupied": float(len(used)),
            }
        )
        self.faces = faces


def _evaluate(X: Any, y: Vector, C: Vector, W: Vector) -> tuple[float, NDArray[np.int64]]:
    """J(W) and the natural faces, in blocks of rows so that the scores need little memory."""
    total, faces = float((W**2).sum()), np.empty(len(y), dtype=np.int64)
    for first in range(0, len(y), _ROWS):
        rows = slice(first, first + _ROWS)
        scores = np.asarray(X[rows] @ W[:, :-1].T) + W[:, -1]
        inside = np.maximum(0.0, 1.0 + scores).sum(axis=1)
        outside = np.maximum(0.0, 1.0 - scores.max(axis=1))
        total += float(C[rows] @ np.where(y[rows] > 0, outside, inside))
        faces[rows] = scores.argmax(axis=1)
    return total, faces
