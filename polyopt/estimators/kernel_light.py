"""What a classifier keeps without its training data; one with a kernel keeps its support vectors."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from polyopt.estimators.base import PairwiseClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.estimators.given import KernelLike

__all__ = ["LightClassifier", "LightKernelClassifier"]


class LightClassifier(PairwiseClassifier):
    """Base of the classifiers that answer without their training data by some of their attributes."""

    _answers_by: ClassVar[tuple[str, ...]]
    _y: Any = None  # signs of the labels; None without the data

    @property
    def holds_data(self) -> bool:
        """Whether it holds its training data, of which certificates and multipliers are made."""
        if not self._is_binary:
            return all(part.holds_data for part in self.estimators_)
        return self._y is not None

    def _keep_answers(self, whole: Self) -> None:
        kept = {*self.get_params(deep=False), *self._answers_by}
        self.__dict__ = {name: value for name, value in vars(whole).items() if name in kept}

    def _drop_data(self, whole: Self) -> None:
        self._keep_answers(whole)
        self._keep_no_solution(whole)


class LightKernelClassifier(LightClassifier):
    """Base of the classifiers with a kernel: with their training data, and without."""

    kernel: KernelLike
    dual_coef_: NDArray[Any]
    support_: NDArray[np.intp]
    n_support_: NDArray[np.int32]

    # What a machine answers by, besides its support vectors and their coefficients.
    _answers_by: ClassVar[tuple[str, ...]] = (
        "classes_", "n_features_in_", "feature_names_in_", "solver_", "n_iter_",
        "gamma_", "intercept_", "pairs_", "_asked",
    )  # fmt: skip
    _X: Any = None
    _rows: Any = None
    _support_places: Any = None  # places of the support vectors in _X, in the order of ``support_``
    # Of a copy without data: places in _X of the samples that scores are made of, and whether they are of the
    # second class.
    _used: Any = None
    _second: Any = None

    @abstractmethod
    def _support(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Places in ``_X`` of the samples that scores are made of, and their coefficients in the scores."""

    def _drop_data(self, whole: Self) -> None:
        super()._drop_data(whole)
        whole = whole._as_fitted()
        if whole.kernel == "linear":
            return
        places, _ = whole._support()
        self._used = np.arange(len(places))
        self._rows = whole._rows[places]
        if whole._support_places is not None:
            self.dual_coef_, self.support_, self.n_support_ = (
                whole.dual_coef_,
                whole.support_,
                whole.n_support_,
            )
            order = np.argsort(places)
            self._support_places = order[np.searchsorted(places[order], whole._support_places)]
        self._second = whole._second if whole._y is None else whole._y[places] > 0
        self._X = None if whole.kernel == "precomputed" else whole._X[places]

    def _drop_data_of_pairs(self, whole: Self) -> None:
        """The support vectors of all pairs are kept once."""
        parts = self.estimators_
        self._keep_answers(whole)
        self.estimators_ = parts
        if parts[0]._support_places is not None:
            kept = ("support_", "n_support_", "dual_coef_")
            self.__dict__.update({name: vars(whole)[name] for name in kept if name in vars(whole)})
        if whole._as_fitted().kernel == "linear":
            nothing = np.empty(0, dtype=int)
            self._rows, self._pair_places = nothing, [nothing] * len(parts)
            return
        each = [places[part._rows] for places, part in zip(whole._pair_places, parts, strict=True)]
        union, first = np.unique(np.concatenate(each), return_index=True)
        X = None
        if parts[0]._X is not None:
            vectors = [part._X for part in parts]
            X = (sp.vstack(vectors, format="csr") if sp.issparse(vectors[0]) else np.vstack(vectors))[first]
        every = np.arange(len(union))
        for part, own in zip(parts, each, strict=True):
            part._X, part._used, part._rows = X, np.searchsorted(union, own), every
            if part._support_places is not None:
                part._support_places = part._used[part._support_places]
        self._rows, self._pair_places = whole._rows[union], [every] * len(parts)
