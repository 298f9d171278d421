"""The Adaptive Multi-hyperplane Machine, a baseline: for the papers' tables; not advertised as more.

With the step 1/(λ(t+1)) and the decay t/(t+1), a weight after step t is its running sum of samples
over λ(t+1): ``w = u / (λ(t+1))``. Only the sums are kept. The margin test ``w_y'x − w_o'x < 1`` of step
t, whose weights are those after step t−1, becomes ``u_y'x − u_o'x < λt``, and the pruning rule
``Σ‖w‖² <= (c/(λt))²`` becomes ``Σ‖u‖² <= (c (t+1)/t)²``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import MatrixLike, Vector

    Integers = NDArray[np.int64]

__all__ = ["AdaptiveMultiHyperplaneMachine", "prune"]


class AdaptiveMultiHyperplaneMachine(ClassifierMixin, BaseEstimator):
    """AMM online: for the papers' tables; not advertised as more.

    Each class has weights of its own, as many as it comes to need, and scores a sample by the best of
    them, ``g(c, x) = max_j w_cj'x̃`` with ``x̃ = (x, 1)``. Stochastic gradients with the step
    ``1/(λ(t+1))`` descend ``½λ Σ‖w‖² + mean_i [1 + max_{c ≠ y_i} g(c, x_i) − w_{y_i z_i}'x̃_i]_+``,
    where z_i is the best weight of the true class when i is shown, or a new one, zero until then,
    where all score zero or less [1]_. Every `prune_every` steps the smallest weights go, as many as
    have ``Σ‖w‖² <= (c/(λt))²`` together. The biases are penalised. Samples should have norms of
    about one: they are not scaled here.

    A class has at most `limit` weights. One that has them all moves its best one where it would have
    made a new one, so that 1 is the linear multi-class machine. (The authors' program then leaves the
    true class alone, and learns nothing with a limit of 1.) A class keeps its last weight always;
    `c` = 0 prunes only weights of zero.

    References
    ----------
    .. [1] Wang, Djuric, Crammer & Vucetic, Trading Representability for Scalability: Adaptive
       Multi-Hyperplane Machine for Nonlinear Classification, 2011; Algorithm 1, and details as in the
       authors' BudgetedSVM (Djuric, Lan, Vucetic & Wang, 2013), whose defaults these are.
    """

    def __init__(
        self,
        lam: float = 1e-4,
        *,
        epochs: int = 5,
        limit: int = 50,
        prune_every: int = 10_000,
        c: float = 10.0,
        random_state: int | None = None,
    ):
        self.lam = lam
        self.epochs = epochs
        self.limit = limit
        self.prune_every = prune_every
        self.c = c
        self.random_state = random_state

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Fit the classifier to samples (n, m) and labels (n,) of two or more classes."""
        X = np.asarray(X, dtype=float)
        self.classes_, codes = np.unique(y, return_inverse=True)
        random = check_random_state(self.random_state)
        n, m = X.shape
        samples = np.ascontiguousarray(np.column_stack([X, np.ones(n)]))
        sums = np.zeros((len(self.classes_), self.limit, m + 1))
        counts = np.ones(len(self.classes_), dtype=np.int64)  # one weight of zero each
        self.n_pruned_ = 0
        for epoch in range(self.epochs):
            order = random.permutation(n)
            self.n_pruned_ += show(
                samples, codes, order, sums, counts, epoch * n, self.lam, self.prune_every, self.c
            )
        scale = 1.0 / (self.lam * (self.epochs * n + 1))
        self.weights_ = [scale * mine[:count] for mine, count in zip(sums, counts, strict=True)]
        self.n_weights_ = counts
        return self

    def decision_function(self, X: MatrixLike) -> NDArray[Any]:
        """Scores of samples (t, m): of two classes the second's best less the first's (t,), else the best."""
        best = [(X @ weights[:, :-1].T + weights[:, -1]).max(axis=1) for weights in self.weights_]
        return best[1] - best[0] if len(best) == 2 else np.column_stack(best)

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Predicted labels (t,) of samples (t, m)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def show(
    X: Vector, codes: Integers, order: Integers, sums: Vector, counts: Integers, steps: int, lam: float,
    prune_every: int, c: float,
) -> int:  # fmt: skip
    """Show the samples in that order; return how many weights were pruned.

    `X` (n, m+1) has a last column of ones; `sums` (n_classes, limit, m+1) and `counts` (n_classes,) are
    changed; `steps` were taken before.
    """
    limit, pruned = sums.shape[1], 0
    for t, i in enumerate(order, start=steps + 1):
        x, true, most = X[i], codes[i], counts.max()
        scores = np.where(np.arange(most) < counts[:, None], sums[:, :most] @ x, -np.inf)
        best, of_class = scores.argmax(axis=1), scores.max(axis=1)
        mine, own = best[true], of_class[true]
        of_class[true] = -np.inf
        rival = of_class.argmax()
        if own - of_class[rival] < lam * t:
            sums[rival, best[rival]] -= x
            if own <= 0.0 and counts[true] < limit:
                mine = counts[true]
                sums[true, mine] = 0.0
                counts[true] += 1
            sums[true, mine] += x
        if t % prune_every == 0:
            pruned += prune(sums, counts, c * (t + 1.0) / t)
    return pruned


def prune(sums: NDArray[Any], counts: Integers, size: float) -> int:
    """Drop the smallest weights, as many as have ``Σ‖u‖² <= size²`` together; return how many.

    Of `sums` (n_classes, limit, m+1) those that stay are moved together. A class keeps its last weight,
    however small.
    """
    given = np.arange(sums.shape[1]) < counts[:, None]
    norms = np.where(given, (sums**2).sum(axis=2), np.inf)
    left, stays = counts.copy(), given.copy()
    weight = 0.0
    for k, j in zip(*np.unravel_index(norms.ravel().argsort(kind="stable"), norms.shape), strict=True):
        weight += norms[k, j]
        if not weight <= size * size or not given[k, j]:
            break
        if left[k] > 1:
            left[k] -= 1
            stays[k, j] = False
    pruned = int((counts - left).sum())
    for k, count in enumerate(left):
        sums[k, :count] = sums[k, stays[k]]
    counts[:] = left
    return pruned
