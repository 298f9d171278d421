"""Base class of the kernel classifiers: gamma by scikit-learn's rules, scores, ONNX export, support vectors.

A binary machine's scores are an expansion in kernel values, Σ_i coef_i k(x_i, x) + b. More than two classes
are fitted one against one: a binary machine for each pair of classes. A classifier can drop its training data
(:meth:`~polyopt.estimators.base.PairwiseClassifier.without_data`); it then keeps only the samples of its
expansions, those with a nonzero coefficient.

In this file `codes` (n,) are the classes of samples as numbers, -1 for a sample without label, and `weights`
(n,) the samples' weights. Samples of weight 0 are dropped before a fit. Samples have three numberings:

* row (`_rows`): index in the data passed to the fit; for the machine of a pair, in the samples of its pair;
* position (`_support_places`, `_used`): index in the stored samples `_X` (with data, all those of the fit);
* fit index (`_pair_places`, an array for each pair): index among the samples of the fit of all classes.
"""

from abc import abstractmethod
from dataclasses import KW_ONLY, field
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from formulations.language.types import Matrix, Vector, is_sparse
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import KernelLike
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.parameters import estimator
from polyopt.linalg.kernels import Kernel, chunks
from polyopt.margin.kernel_scorer import add_kernel_scores, scorer_of, stack

KERNEL_PARAMETERS: dict[str, list[Any]] = {
    "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
    "degree": [Interval(Integral, 1, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}
"""Constraints of the parameters of every kernel classifier."""


@estimator
class KernelClassifier(PairwiseClassifier):
    """Base of the classifiers with a kernel; a fit sets ``gamma_`` before it uses the kernel.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel, as in scikit-learn.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the polynomial, RBF and sigmoid kernels.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.

    Attributes
    ----------
    support_ : ndarray of int, shape (n_SV,)
        Indices of the support vectors among the samples of the fit: those of the first class, then those of
        the second, and so on, each in input order.
    n_support_ : ndarray of int, shape (n_classes,)
        The number of support vectors of each class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Coefficients of the support vectors in ``Σ_i coef_i k(x_i, x)``. For two classes, they are positive in
        favour of ``classes_[1]``. For more classes, they have the layout of scikit-learn's SVC: a column for
        each support vector, and a row for each other class. A coefficient is positive in favour of the
        earlier class of its pair.
    coef_ : ndarray of shape (1, m), or (n_pairs, m)
        Normal vector of the hyperplane, or one for each pair of classes in the order of ``pairs_``; for the
        linear kernel only. As in SVC, scores are positive for ``classes_[1]`` if there are two classes, and
        for the first class of each pair if there are more.
    intercept_ : ndarray of shape (1,), or (n_pairs,)
        The intercepts, in the signs of ``coef_``.
    """

    _: KW_ONLY
    kernel: KernelLike = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    gamma_: float = field(init=False)
    dual_coef_: NDArray[Any] = field(init=False)
    support_: NDArray[np.intp] = field(init=False)
    n_support_: NDArray[np.int32] = field(init=False)

    _scored_dtypes: ClassVar[Any] = [np.float64, np.float32]
    # The attributes that predictions need, besides the support vectors and their coefficients.
    _prediction_attributes: ClassVar[tuple[str, ...]] = (
        "classes_", "n_features_in_", "feature_names_in_", "solver_", "n_iter_",
        "gamma_", "intercept_", "pairs_", "_asked",
    )  # fmt: skip
    # `_X` has the samples of the fit; without data (`_drop_data`) only those of the expansion, or for a pair
    # of classes those of the expansions of all pairs. Model files have these names, so they do not change.
    _X: Any = field(init=False, default=None)  # samples, or a precomputed Gram matrix (None without data)
    _y: Any = field(init=False, default=None)  # signs of their labels; None without data
    _rows: Any = field(init=False, default=None)  # row of each position
    _support_places: Any = field(init=False, default=None)  # position of each vector of `support_`
    _used: Any = field(init=False, default=None)  # without data: positions of the samples of the expansion
    _second: Any = field(init=False, default=None)  # without data: True for those of `_used` of classes_[1]

    @abstractmethod
    def _support(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the positions in ``_X`` of the samples in the expansion, and their coefficients."""

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        # All pairs have the gamma of all samples.
        return super()._for_pairs(X, weights).set_params(gamma=self._gamma_of(X, weights))

    def _gamma_of(self, X: Any, weights: NDArray[Any]) -> float:
        """Return gamma as a number, by scikit-learn's rules for "scale" (here with weights) and "auto"."""
        if self.gamma not in ("scale", "auto"):
            return float(self.gamma)
        if self.kernel in ("linear", "precomputed") or callable(self.kernel):
            return 1.0
        m = X.shape[1]
        if self.gamma == "auto":
            return 1.0 / m
        entry_variance = variance(X, weights)
        gamma = 1.0 if entry_variance == 0.0 else 1.0 / (m * entry_variance)
        if not 0.0 < gamma < np.inf:
            raise ValueError(
                f"gamma={self.gamma!r} cannot be taken from these samples: the variance of their entries "
                f"is {entry_variance:g}; scale the features, or give gamma as a number"
            )
        return gamma

    @property
    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma_, self.degree, self.coef0)

    # -- predicting --------------------------------------------------------------------------

    def _kernel_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of a binary machine with a kernel other than the linear one."""
        positions, coef = self._support()
        if self.kernel == "precomputed" and len(positions):
            columns, scores = self._rows[positions], np.empty(X.shape[0])
            for part in chunks(np.arange(X.shape[0])):
                scores[part] = X[np.ix_(part, columns)] @ coef + self.intercept_[0]
            return scores
        scorer = scorer_of(self)
        if scorer is None:
            return np.full(X.shape[0], self.intercept_[0])
        return scorer.scores(X)[:, 0]

    def _pair_scores(self, X: Any) -> NDArray[np.float64]:
        scorer = scorer_of(self)
        return super()._pair_scores(X) if scorer is None else scorer.scores(X)

    def _labels(self, X: Any) -> NDArray[np.intp]:
        # The scorer uses `exact_labels` for samples whose label is uncertain in single precision.
        scorer, exact_labels = scorer_of(self), super()._labels
        return exact_labels(X) if scorer is None else scorer.labels(X, exact_labels)

    # -- export to ONNX ----------------------------------------------------------------------

    def _draw_scores(self, graph: Graph, x: str) -> str:
        """Append the nodes of a binary machine's scores of tensor x to the ONNX graph; return their name."""
        if self.kernel == "precomputed":
            raise ValueError("kernel='precomputed' has no ONNX graph: fit with the kernel's name")
        # Only machines without data are exported: _X has the samples of the expansion.
        coef = self._support()[1][:, None]
        return add_kernel_scores(graph, x, self._kernel, self._X, coef, self.intercept_)

    def _draw_pairs(self, graph: Graph, x: str) -> str:
        """Append the nodes of the scores of all pairs, as :meth:`_draw_scores`."""
        machines = [machine._as_fitted() for machine in self.estimators_]
        if self.kernel in ("linear", "precomputed"):
            return super()._draw_pairs(graph, x)
        kernels = [machine._kernel for machine in machines]
        if any(kernel != kernels[0] for kernel in kernels):
            return super()._draw_pairs(graph, x)
        # One kernel for all pairs, which share _X.
        coef = np.zeros((machines[0]._X.shape[0], len(machines)))
        for column, machine in enumerate(machines):
            positions, pair_coef = machine._support()
            coef[positions, column] = pair_coef
        intercepts = np.concatenate([machine.intercept_ for machine in machines])
        return add_kernel_scores(graph, x, kernels[0], machines[0]._X, coef, intercepts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    # -- support vectors, and copies without the training data -------------------------------

    def _set_support(self, positions: NDArray[np.intp], coef: NDArray[np.float64], labelled: Any) -> None:
        """Set the support vectors of a binary machine.

        `positions` are ascending positions in ``_X``, `coef` their coefficients, and `labelled` (n,) is a
        mask of the samples of the fit that have a label.
        """
        classes = np.where(labelled[positions], self._y[positions] > 0, -1)
        order = _by_class(classes)
        self._support_places, self.dual_coef_ = positions[order], coef[None, order]
        self.support_, self.n_support_ = self._rows[self._support_places], _counts(classes, 2)

    def _fit_pairs(self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        super()._fit_pairs(X, codes, weights, rows)
        self._set_support_of_pairs(codes)
        self.intercept_ = -np.concatenate([pair.intercept_ for pair in self.estimators_])

    def _pair_supports(self) -> list[NDArray[np.intp]]:
        """Return the fit indices of each pair's support vectors."""
        # A position in a pair's `_X` is also an index in its `_pair_places`: both have the same samples.
        pairs = zip(self._pair_places, self.estimators_, strict=True)
        return [fit_indices[machine._support_places] for fit_indices, machine in pairs]

    def _set_support_of_pairs(self, codes: NDArray[np.intp]) -> None:
        """Set the support vectors of more than two classes: the union of those of all pairs."""
        pair_supports = self._pair_supports()
        union = np.unique(np.concatenate(pair_supports))
        union = union[_by_class(codes[union])]
        n_classes = len(self.classes_)
        self.support_, self.n_support_ = self._rows[union], _counts(codes[union], n_classes)
        if (codes[union] < 0).any():
            return  # a sample without label is in every pair, which SVC's layout cannot represent
        column = np.empty(len(codes), dtype=np.intp)  # columns of the support vectors in `dual_coef_`
        column[union] = np.arange(len(union))
        self.dual_coef_ = np.zeros((n_classes - 1, len(union)))
        pairs = combinations(range(n_classes), 2)
        for machine, support, (first, second) in zip(self.estimators_, pair_supports, pairs, strict=True):
            other_class = np.where(codes[support] == first, second, first)
            row = other_class - (other_class > codes[support])  # the vector's own class has no row
            # A pair's coefficients are positive for its second class, SVC's for the first.
            self.dual_coef_[row, column[support]] = -machine.dual_coef_[0]

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, an array or a CSR matrix of shape (n_SV, m), in the order of ``support_``.

        A precomputed kernel has none: the shape is (0, 0).

        Raises
        ------
        AttributeError
            A linear machine without its training data.
        """
        check_is_fitted(self)
        if self._as_fitted().kernel == "precomputed":
            return np.empty((0, 0))
        if self._is_binary:
            if self._support_places is None:
                raise AttributeError("support_vectors_ are training data, which this machine does not hold")
            return self._X[self._support_places]
        rows = self._rows[np.concatenate(self._pair_supports())]
        vectors = stack([machine.support_vectors_ for machine in self.estimators_])
        # A sample may support several pairs: take its first copy, in the order of `support_`.
        distinct, first = np.unique(rows, return_index=True)
        return vectors[first[np.searchsorted(distinct, self.support_)]]

    def _copy_prediction_attributes(self, original: Self) -> None:
        """Set the parameters and the attributes that predictions need to those of `original`; drop others."""
        names = {*self.get_params(deep=False), *self._prediction_attributes}
        self.__dict__ = {name: value for name, value in vars(original).items() if name in names}

    def _drop_data(self, original: Self) -> None:
        """Become a copy of the binary machine `original` with the samples of its expansion only."""
        self._copy_prediction_attributes(original)
        self._drop_solution_arrays(original)
        original = original._as_fitted()
        if original.kernel == "linear":
            return
        positions, _ = original._support()
        self._used = np.arange(len(positions))
        self._rows = original._rows[positions]
        if original._support_places is not None:
            self.dual_coef_ = original.dual_coef_
            self.support_, self.n_support_ = original.support_, original.n_support_
            # The position of each support vector among the kept samples.
            order = np.argsort(positions)
            self._support_places = order[np.searchsorted(positions[order], original._support_places)]
        self._second = original._second if original._y is None else original._y[positions] > 0
        self._X = None if original.kernel == "precomputed" else original._X[positions]

    def _drop_data_of_pairs(self, original: Self) -> None:
        """Become a copy of `original` without data; the pairs, which have none already, share one `_X`.

        `_X` is the union of their expansions. `_used` and `_support_places` of a pair are positions there,
        and the `_pair_places` of each pair are all positions.
        """
        machines = self.estimators_
        self._copy_prediction_attributes(original)
        self.estimators_ = machines
        if machines[0]._support_places is not None:
            names = ("support_", "n_support_", "dual_coef_")
            self.__dict__.update({name: vars(original)[name] for name in names if name in vars(original)})
        if original._as_fitted().kernel == "linear":  # w is enough
            no_samples = np.empty(0, dtype=int)
            self._rows, self._pair_places = no_samples, [no_samples] * len(machines)
            return
        # Fit indices of the samples of each pair's expansion; a pair's rows index the samples of the pair.
        pairs = zip(original._pair_places, machines, strict=True)
        kept_by_pair = [fit_indices[machine._rows] for fit_indices, machine in pairs]
        kept, first = np.unique(np.concatenate(kept_by_pair), return_index=True)  # each sample once
        X = None if machines[0]._X is None else stack([machine._X for machine in machines])[first]
        positions = np.arange(len(kept))
        for machine, pair_kept in zip(machines, kept_by_pair, strict=True):
            machine._X, machine._used, machine._rows = X, np.searchsorted(kept, pair_kept), positions
            if machine._support_places is not None:  # so far positions among the pair's kept samples
                machine._support_places = machine._used[machine._support_places]
        self._rows, self._pair_places = original._rows[kept], [positions] * len(machines)


def variance(X: Matrix, weights: Vector) -> float:
    """Return the weighted variance of all entries of samples X (n, m) with weights (n,).

    Two passes: the mean; then the mean square difference from it, corrected by the squared mean difference
    (rounding of the mean). The one-pass formula loses all digits far from the origin.
    """
    weights = weights / weights.max()  # so that sums do not overflow
    total = X.shape[1] * float(weights.sum())  # weight of all entries
    with np.errstate(over="ignore", invalid="ignore"):  # _gamma_of rejects an overflow
        if is_sparse(X):
            entries, per_entry = X.data.astype(float), np.repeat(weights, np.diff(X.indptr))
            zeros = max(total - float(per_entry.sum()), 0.0)  # weight of the entries that are not stored
            mean = float(per_entry @ entries) / total
            entries -= mean
            mean_difference = (float(per_entry @ entries) - zeros * mean) / total
            mean_square = (float(per_entry @ entries**2) + zeros * (mean * mean)) / total
        else:
            mean_difference = mean_square = 0.0
            parts = list(chunks(np.arange(X.shape[0])))
            mean = sum(float((weights[part] @ X[part]).sum()) for part in parts) / total
            for part in parts:
                block = X[part].astype(float) - mean
                mean_difference += float((weights[part] @ block).sum()) / total
                mean_square += float((weights[part] @ block**2).sum()) / total
    result = mean_square - mean_difference * mean_difference
    return 0.0 if abs(result) <= 1e-12 * mean_square < np.inf else result


def _by_class(classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the order by class, in input order within a class; samples without label (-1) come last."""
    return np.argsort(np.where(classes < 0, np.iinfo(np.intp).max, classes), kind="stable")


def _counts(classes: NDArray[Any], n_classes: int) -> NDArray[np.int32]:
    """Return the number of samples of each class; -1 stands for no class."""
    return np.bincount(classes[classes >= 0], minlength=n_classes).astype(np.int32)
