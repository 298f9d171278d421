"""The Adaptive Multi-hyperplane Machine, a baseline: for the papers' tables; not advertised as more."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from benchmarks.baselines.labels import LargestScore, coded_labels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["AdaptiveMultiHyperplaneMachine"]


class AdaptiveMultiHyperplaneMachine(LargestScore, ClassifierMixin, BaseEstimator):
    """AMM online: for the papers' tables; not advertised as more.

    Each class has weights of its own, as many as it comes to need, and scores a sample by the best of
    them, ``g(c, x) = max_j w_cj'x̃`` with ``x̃ = (x, 1)``. Stochastic gradients with the step
    ``1/(λ(t+1))`` descend ``½λ Σ‖w‖² + mean_i [1 + max_{c ≠ y_i} g(c, x_i) − w_{y_i z_i}'x̃_i]_+``,
    where z_i is the best weight of the true class when i is shown, or a new one, zero until then,
    where all score zero or less [1]_. Every `prune_every` steps the smallest weights go, as many as
    have ``Σ‖w‖² <= (c/(λt))²`` together. The biases are penalised. Samples should have norms of
    about one: they are not scaled here.

    Parameters
    ----------
    lam : float, default=1e-4
        λ, positive.
    epochs : int, default=5
        Passes through the samples, each in a new random order.
    limit : int, default=50
        Weights that a class may have. A class that has them all moves its best one where it would
        have made a new one, so that 1 is the linear multi-class machine. (The authors' program then
        leaves the true class alone, and learns nothing with a limit of 1.)
    prune_every : int, default=10000
        Steps between prunings.
    c : float, default=10.0
        Pruning threshold; 0 prunes only weights of zero. A class keeps its last weight always.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    weights_ : list of ndarray of shape (k_c, m+1)
        The weights of each class, bias last.
    n_weights_ : ndarray of int, shape (n_classes,)
        How many they are.
    n_pruned_ : int
        Weights that were pruned on the way.

    References
    ----------
    .. [1] Wang, Djuric, Crammer & Vucetic, Trading Representability for Scalability: Adaptive
       Multi-Hyperplane Machine for Nonlinear Classification, 2011; Algorithm 1, and details as in the
       authors' BudgetedSVM (Djuric, Lan, Vucetic & Wang, 2013), whose defaults these are.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lam": [Interval(Real, 0, None, closed="neither")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "limit": [Interval(Integral, 1, None, closed="left")],
        "prune_every": [Interval(Integral, 1, None, closed="left")],
        "c": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        lam: float = 1e-4,
        *,
        epochs: int = 5,
        limit: int = 50,
        prune_every: int = 10_000,
        c: float = 10.0,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.lam = lam
        self.epochs = epochs
        self.limit = limit
        self.prune_every = prune_every
        self.c = c
        self.random_state = random_state

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Fit the classifier to samples (n, m) and labels (n,) of two or more classes.

        ValueError where a parameter is out of its range, or data are not finite or of one class only.
        """
        from benchmarks.baselines.amm_kernel import show

        self._validate_params()
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, codes = coded_labels(y, type(self).__name__)
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
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        best = [(X @ weights[:, :-1].T + weights[:, -1]).max(axis=1) for weights in self.weights_]
        return best[1] - best[0] if len(best) == 2 else np.column_stack(best)
