"""Support vectors of the machines with a kernel, as users of scikit-learn's SVC find them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from polyopt.margin.kernel_classifier import KernelClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SupportClassifier"]


class SupportClassifier(KernelClassifier):
    """Base of the machines with support vectors.

    Attributes
    ----------
    support_ : ndarray of int, shape (n_SV,)
        Numbers of the support vectors among the samples of the fit: those of the first class, then those of
        the second, and so on, each in input order.
    n_support_ : ndarray of int, shape (n_classes,)
        The number of support vectors of each class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Coefficients of the support vectors. Two classes: of the dual's ``Σ_i coef_i k(x_i, x)``, positive
        for ``classes_[1]``. More: in the layout of scikit-learn's SVC, a column for each support vector and a
        row for each other class, positive where it counts for the earlier class of the pair.
    coef_ : ndarray of shape (1, m), or (n_pairs, m)
        The hyperplane, or those of the pairs of classes in the order of ``pairs_``, for the linear kernel. As
        SVC's it is positive for ``classes_[1]`` of two classes, and for the first class of a pair of more.
    intercept_ : ndarray of shape (1,), or (n_pairs,)
        The intercepts, in the signs of ``coef_``.
    """

    dual_coef_: NDArray[np.float64]
    support_: NDArray[np.intp]
    n_support_: NDArray[np.int32]

    def _set_support(self, places: NDArray[np.intp], coef: NDArray[np.float64], labelled: Any) -> None:
        """Set the support vectors of a binary machine.

        `places` are ascending places in ``_X``, `coef` their coefficients, and `labelled` (n,) a mask of the
        samples of the fit that have a label.
        """
        classes = np.where(labelled[places], self._y[places] > 0, -1)
        order = _by_class(classes)
        self._support_places, self.dual_coef_ = places[order], coef[None, order]
        self.support_, self.n_support_ = self._rows[self._support_places], _counts(classes, 2)

    def _fit_pairs(self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        super()._fit_pairs(X, codes, weights, rows)
        self._set_support_of_pairs(codes)
        self.intercept_ = -np.concatenate([pair.intercept_ for pair in self.estimators_])

    def _set_support_of_pairs(self, codes: NDArray[np.intp]) -> None:
        """Set the support vectors of more than two classes, numbered by `codes` (n,), -1 for no label."""
        parts = self.estimators_
        places = [own[part._support_places] for own, part in zip(self._pair_places, parts, strict=True)]
        union = np.unique(np.concatenate(places))
        union = union[_by_class(codes[union])]
        n_classes = len(self.classes_)
        self.support_, self.n_support_ = self._rows[union], _counts(codes[union], n_classes)
        if (codes[union] < 0).any():
            return  # a sample without label is in every pair, for which the layout has no room
        column = np.empty(len(codes), dtype=np.intp)
        column[union] = np.arange(len(union))
        self.dual_coef_ = np.zeros((n_classes - 1, len(union)))
        for part, own, pair in zip(parts, places, combinations(range(n_classes), 2), strict=True):
            other = np.where(codes[own] == pair[0], pair[1], pair[0])
            row = other - (other > codes[own])  # its own class has no row
            self.dual_coef_[row, column[own]] = -part.dual_coef_[0]

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
        parts = self.estimators_
        rows = np.concatenate(
            [
                self._rows[places[part._support_places]]
                for places, part in zip(self._pair_places, parts, strict=True)
            ]
        )
        vectors = [part.support_vectors_ for part in parts]
        stacked: Any = sp.vstack(vectors, format="csr") if sp.issparse(vectors[0]) else np.vstack(vectors)
        each, first = np.unique(rows, return_index=True)
        return stacked[first[np.searchsorted(each, self.support_)]]


def _by_class(classes: NDArray[Any]) -> NDArray[np.intp]:
    """The order by class, in input order within a class; samples without label (-1) come last."""
    return np.argsort(np.where(classes < 0, np.iinfo(np.intp).max, classes), kind="stable")


def _counts(classes: NDArray[Any], n_classes: int) -> NDArray[np.int32]:
    """The number of samples of each class; -1 is of none."""
    return np.bincount(classes[classes >= 0], minlength=n_classes).astype(np.int32)
