"""What every polyopt classifier shares: classes, weights, one-vs-one, duals and certificate.

A subclass solves one binary problem in :meth:`PairwiseClassifier._fit_binary` and answers for it in
four small methods; this class turns labels into -1 and +1, makes a sample's weight equal to its
repetition, and trains one classifier per pair of classes where there are more than two.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from formulations.solution import Status
from polyopt.certificates.certificate import Certificate, Claim
from polyopt.certificates.combine import combine
from polyopt.estimators.parameters import check_parameters
from polyopt.estimators.weights import checked_weights, class_weights

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

__all__ = ["PairwiseClassifier"]


class PairwiseClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers: a binary problem at heart, one-vs-one around it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels. In a binary problem the second one is +1.
    solution_ : Solution or list of Solution
        The solver's answer; one per pair of classes where there are more than two.
    estimators_ : list
        The binary classifiers, one per pair of classes; only where there are more than two.
    pairs_ : list of tuple
        The classes of each of them.
    """

    solution_: Any
    estimators_: list[Any]
    solver_: str
    classes_: NDArray[Any]
    n_iter_: int
    _asked: dict[str, Any]  # the parameters of the fit: what is set later is for the next one
    _dtypes: ClassVar[list[Any]] = [np.float64]  # of X, as the solver takes it without a conversion
    _scored_dtypes: ClassVar[Any] = np.float64  # of X, as it is scored without one

    # -- what a subclass supplies ------------------------------------------------------------

    @abstractmethod
    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        """Solve the binary problem and set the fitted attributes, ``solution_`` and ``n_iter_`` among them.

        `X` (n, m) dense or CSR, `y` of -1 and +1, `weights` (n,) positive; `rows` (n,) are
        the numbers of these samples in the data given to ``fit``.
        """

    @abstractmethod
    def _binary_scores(self, X: Any) -> NDArray[Any]:
        """Scores of samples, positive for ``classes_[1]``."""

    @abstractmethod
    def _binary_certificate(self, tol: float) -> Certificate:
        """Certificate of the binary solution."""

    @abstractmethod
    def _binary_duals(self) -> pd.DataFrame:
        """One row per constraint, in input order, with a column ``sample``."""

    def _warn_if_short(self, certify: Callable[[], Certificate] | None) -> None:
        """Tell of every end short of the tolerance asked, and of an exact solver that was less than exact.

        `certify` is asked for the binary solution's certificate where its word is needed: of exact solvers,
        which only say that they were exact, and where rounding ended a run, which may have been near
        enough. None where a certificate would cost too much.
        """
        status = self.solution_.status
        text = "" if status in (Status.OPTIMAL, Status.CONVERGED) else str(status)
        exact = self.solver_ == "exact" and (not text or status in (Status.INACCURATE, Status.STALLED))
        if certify is not None and (status is Status.INACCURATE or exact):
            certificate = certify()
            if certificate.claim is not Claim.NONE and certificate.relative_gap <= certificate.tol:
                text = ""
            elif self.solver_ == "exact":
                text = f"Short of exact. {certificate.sentence} Scaling the features to unit variance helps."
        if text:
            warnings.warn(f"{type(self).__name__}: {text}", ConvergenceWarning, stacklevel=4)

    def _validate_params(self) -> None:
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        """A clone for the pairs of a multi-class problem; what depends on all of X is resolved first."""
        machine = clone(self)
        return machine.set_params(
            **{name: None for name in ("class_weight", "n_jobs") if name in machine.get_params()}
        )

    # -- scikit-learn's methods --------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, m)
            Training samples (a Gram matrix for a precomputed kernel).
        y : array_like of shape (n,)
            Labels of two or more classes, of any type.
        sample_weight : array_like of shape (n,), optional
            Non-negative weights; a weight of 2 is the same as giving the sample twice, a weight of 0
            the same as leaving it out.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            A parameter out of its range, data that are not finite, or fewer than two classes.
        """
        self._validate_params()
        self._asked = self.get_params(deep=False)
        # A copy: the model and its certificate must outlive what the caller does to X.
        X, y = validate_data(self, X, y, accept_sparse=self._accept_sparse, dtype=self._dtypes, copy=True)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, X)
        # A sample without weight is left out, and so is a class that has no other.
        rows = np.flatnonzero(weights > 0)
        self.classes_, codes = np.unique(y[rows], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least two classes with positive weight; "
                f"the data has one class: {self.classes_.tolist()}"
            )
        weights = weights[rows] * self._class_weights(codes, weights[rows])[codes]
        X = self._select(X, rows)
        if len(self.classes_) == 2:
            self._fit_binary(X, np.where(codes == 1, 1.0, -1.0), weights, rows)
        else:
            self._fit_pairs(X, codes, weights, rows)
        return self

    def _class_weights(self, codes: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        return class_weights(self.class_weight, self.classes_, codes, weights)

    def _select(self, X: Any, rows: NDArray[Any]) -> Any:
        """The samples `rows`; for a Gram matrix, their rows and columns."""
        if len(rows) == X.shape[0]:
            return X
        return X[np.ix_(rows, rows)] if self.__sklearn_tags__().input_tags.pairwise else X[rows]

    def _fit_pairs(self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        pairs = list(combinations(range(len(self.classes_)), 2))
        machine = self._for_pairs(X, weights)
        asked, machines = machine.get_params(deep=False), [machine] * len(pairs)
        if getattr(self, "warm_start", False) and len(getattr(self, "estimators_", ())) == len(pairs):
            machines = self.estimators_  # each begins with what it found
        machines = [copy(each).set_params(**asked) for each in machines]
        for each in machines:
            each._asked = asked
        # The arrays go to the workers as they are (memory-mapped, if they are large); each takes its rows.
        self.estimators_ = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_pair)(machine, X, codes, weights, pair)
            for machine, pair in zip(machines, pairs, strict=True)
        )
        self.pairs_ = [(self.classes_[i], self.classes_[j]) for i, j in pairs]
        self._rows = rows
        self._pair_places = [np.flatnonzero((codes == i) | (codes == j)) for i, j in pairs]
        self.n_iter_ = max(estimator.n_iter_ for estimator in self.estimators_)
        self.solution_ = [estimator.solution_ for estimator in self.estimators_]

    def _as_fitted(self) -> Self:
        """The model with the parameters that it was fitted with, whatever ``set_params`` did since."""
        then = getattr(self, "_asked", {})
        if all(_is_same(getattr(self, name), value) for name, value in then.items()):
            return self
        return copy(self).set_params(**then)

    @property
    def _accept_sparse(self) -> str | bool:
        return "csr" if self.__sklearn_tags__().input_tags.sparse else False

    @property
    def _is_binary(self) -> bool:
        return len(self.classes_) == 2

    def _scorable(self, X: Any) -> Any:
        """Samples as they are scored: of the training data's features, finite."""
        return validate_data(
            self, X, accept_sparse=self._accept_sparse, dtype=self._scored_dtypes, reset=False
        )

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores of samples.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t,) or (t, n_classes)
            Two classes: positive for ``classes_[1]``. More: votes of the pairs, ties broken by the
            sum of their scores, as scikit-learn's one-vs-one wrapper does.
        """
        check_is_fitted(self)
        model = self._as_fitted()
        return model._scores(model._scorable(X))

    def _scores(self, X: Any) -> NDArray[Any]:
        """Scores of samples that were checked."""
        return self._binary_scores(X) if self._is_binary else self._votes(self._pair_scores(X))

    def _pair_scores(self, X: Any) -> NDArray[Any]:
        """Scores of the pairs of classes, a column each, positive for a pair's second class."""
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        return np.column_stack(
            [
                estimator._as_fitted()._scores(X[:, self._rows[places]] if pairwise else X)
                for estimator, places in zip(self.estimators_, self._pair_places, strict=True)
            ]
        )

    def _labels(self, X: Any) -> NDArray[np.intp]:
        """Numbers of the classes of samples that were checked."""
        scores = self._scores(X)
        return (scores > 0).astype(np.intp) if self._is_binary else scores.argmax(axis=1)

    def _votes(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Scores of the classes from those of the pairs, positive for the second class of a pair."""
        return _ovr_decision_function(scores > 0, scores, len(self.classes_))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predicted labels.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t,)
            Labels from ``classes_``.
        """
        check_is_fitted(self)
        model = self._as_fitted()
        return self.classes_[model._labels(model._scorable(X))]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- what polyopt adds -------------------------------------------------------------------

    def certificate(self, tol: float = 1e-6) -> Certificate:
        """How far the fitted model is from optimal, proven from the training data.

        Parameters
        ----------
        tol : float
            Relative tolerance for the gap and for every residual.

        Returns
        -------
        Certificate
            With more than two classes, of all pairs together: their values are summed and the
            weakest claim stands.
        """
        check_is_fitted(self)
        if self._is_binary:
            return self._as_fitted()._binary_certificate(tol)
        names = [f"{first} vs {second}" for first, second in self.pairs_]
        return combine([e.certificate(tol) for e in self.estimators_], names)

    @property
    def duals_(self) -> pd.DataFrame:
        """The multipliers: one row per constraint, samples in the order they were given to ``fit``."""
        import pandas as pd

        check_is_fitted(self)
        if self._is_binary:
            return self._as_fitted()._binary_duals()
        frames = []
        for estimator, pair, places in zip(self.estimators_, self.pairs_, self._pair_places, strict=True):
            frame = estimator.duals_
            frame["sample"] = self._rows[places[frame["sample"].to_numpy()]]
            frame["label"] = self.classes_[frame["label"].to_numpy()]  # the pairs were told apart by number
            frame.insert(0, "pair", f"{pair[0]} vs {pair[1]}")
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    @property
    def history_(self) -> pd.DataFrame:
        """What the solver recorded as it went: one row per round; empty where it records nothing."""
        import pandas as pd

        check_is_fitted(self)
        if self._is_binary:
            return self._binary_history()
        frames = [
            e.history_.assign(pair=f"{p[0]} vs {p[1]}")
            for e, p in zip(self.estimators_, self.pairs_, strict=True)
        ]
        return pd.concat(frames, ignore_index=True)

    def _binary_history(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(list(self.solution_.history))


def _is_same(value: Any, other: Any) -> bool:
    """Whether two parameters are one object, or equal numbers or strings, which a saved model holds twice."""
    plain = type(value) is type(other) and isinstance(value, (int, float, str))
    return value is other or (plain and value == other)


def _fit_pair(machine: Any, X: Any, codes: NDArray[Any], weights: NDArray[Any], pair: tuple[int, int]) -> Any:
    """Fit one machine to two of the classes, the second of which is +1, in data that were checked."""
    places = np.flatnonzero((codes == pair[0]) | (codes == pair[1]))
    machine.classes_ = np.array(pair)
    samples, y = machine._select(X, places), np.where(codes[places] == pair[1], 1.0, -1.0)
    machine.n_features_in_ = samples.shape[1]
    machine._fit_binary(samples, y, weights[places], np.arange(len(places)))
    return machine
