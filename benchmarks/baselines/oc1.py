"""OC1, a baseline: for the papers' tables; not advertised as more."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from benchmarks.baselines.labels import coded_labels
from polyopt.estimators.weights import checked_weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["ObliqueTree"]


class ObliqueTree(ClassifierMixin, BaseEstimator):
    """OC1, a decision tree of hyperplanes: for the papers' tables; not advertised as more.

    Every node takes the best axis-parallel split, or a better oblique one if hill climbing finds it:
    from that split and from random hyperplanes, the coefficients are moved to their best values one
    after the other, and a few random directions are tried where no coefficient improves [1]_. A node
    with fewer than 2m samples gets an axis-parallel split. Part of the samples is held out to prune
    the tree by its cost and complexity.

    Samples of the same features and label are one sample with their weights added, so that a weight of
    2 is the same as giving the sample twice, and neither the order of the samples nor the unit of the
    weights matters.

    Parameters
    ----------
    criterion : {"gini", "twoing", "entropy"}, default="gini"
        Impurity of a split. (For two classes gini and twoing rank splits alike.)
    n_restarts : int, default=20
        Random hyperplanes to start from at each node, beside the axis-parallel one.
    n_jumps : int, default=5
        Random directions tried at a local minimum.
    prune : float, default=0.1
        Share of the samples held out for pruning; 0 grows the full tree from all of them.
    min_samples_split : int, default=2
        Distinct samples that a node needs to be split.
    max_depth : int, optional
        Splits on a path at most.
    random_state : int, RandomState instance or None, default=None
        Seed of the held-out samples, the starts and the jumps.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    tree_ : Tree
        Hyperplanes, children and class weights of the nodes, as arrays.
    n_leaves_, n_nodes_ : int
        Leaves, and nodes with the leaves.
    depth_ : int
        Splits on the longest path.

    References
    ----------
    .. [1] Murthy, Kasif & Salzberg, A System for Induction of Oblique Decision Trees, 1994. The
       coefficients are taken in sequence; 20 starts, 5 jumps and 10 % held out are its defaults.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "criterion": [StrOptions({"gini", "twoing", "entropy"})],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "n_jumps": [Interval(Integral, 0, None, closed="left")],
        "prune": [Interval(Real, 0, 1, closed="left")],
        "min_samples_split": [Interval(Integral, 2, None, closed="left")],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        criterion: str = "gini",
        *,
        n_restarts: int = 20,
        n_jumps: int = 5,
        prune: float = 0.1,
        min_samples_split: int = 2,
        max_depth: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.criterion = criterion
        self.n_restarts = n_restarts
        self.n_jumps = n_jumps
        self.prune = prune
        self.min_samples_split = min_samples_split
        self.max_depth = max_depth
        self.random_state = random_state

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier to samples (n, m) and labels (n,) of two or more classes.

        A weight of 2 is the same as giving the sample twice, a weight of 0 as leaving it out. ValueError
        where a parameter is out of its range, or data are not finite or of one class only.
        """
        from benchmarks.baselines.oc1_tree import Growth, grow, pruned

        self._validate_params()
        X, labels = validate_data(self, X, y, dtype=np.float64, order="C")
        weights = checked_weights(sample_weight, X)
        used = weights > 0.0
        self.classes_, codes = coded_labels(labels[used], type(self).__name__)
        n_classes = len(self.classes_)
        samples, which = np.unique(np.column_stack([X[used], codes]), axis=0, return_inverse=True)
        weights = np.bincount(which.ravel(), weights=weights[used]).astype(np.float64)
        X, codes = np.ascontiguousarray(samples[:, :-1]), samples[:, -1].astype(np.int64)

        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        random = np.random.default_rng(seed)
        order = random.permutation(len(X))
        held = np.cumsum(weights[order]) <= self.prune * weights.sum()
        grown = order[~held]
        how = Growth(self.criterion, self.n_restarts, self.n_jumps, self.min_samples_split, self.max_depth)
        tree = grow(X[grown], codes[grown], weights[grown], n_classes, how, random)
        if held.any():
            tree = pruned(tree, X[order[held]], codes[order[held]], weights[order[held]])
        self.tree_ = tree
        self.n_nodes_, self.n_leaves_ = len(tree.W), int(tree.is_leaf.sum())
        self.depth_ = int(tree.depths().max())
        return self

    def predict_proba(self, X: MatrixLike) -> NDArray[np.float64]:
        """Shares of the classes (t, n_classes) in the leaves of samples (t, m), by the weights of the fit."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        counts = self.tree_.counts[self.tree_.leaves(X)]
        return counts / counts.sum(axis=1, keepdims=True)

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Predicted labels (t,) of samples (t, m): the heaviest class of each leaf."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
