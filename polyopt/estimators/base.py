"""Base of all classifiers: validation, one-vs-one, predictions, certificate, multipliers and history.

A classifier, also called a machine here, solves a binary problem, by an optimisation program. A subclass
solves it in :meth:`PairwiseClassifier._fit_binary`, and defines its scores, certificate (proof of a gap from
the optimum), multipliers and history. The base converts labels to -1 and +1, leaves out samples of weight 0,
and fits one classifier per pair of classes if there are more than two (one-vs-one).

The decision rule is scikit-learn's: ``classes_[1]`` is predicted if the score is above 0, and ``classes_[0]``
if it is 0 or below. Votes of pairs, probabilities, rules as text, SQL and Python, and ONNX graphs use the
same rule. So the polytope of a classifier with faces is closed if ``classes_[0]`` is inside, and open if
``classes_[1]`` is.

In this order: :class:`PairwiseClassifier`; the fits of pairs of classes, each in its part of the time; and
the treatment of Ctrl-C, which ends a fit with the best point so far, the status INTERRUPTED and a warning.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted

from formulations.language.arguments import refuse_masked
from formulations.language.clock import Clock, current_clock, running
from formulations.language.solution import Status
from polyopt.base.onnx_graph import Graph
from polyopt.base.parallel import run_tasks, time_share
from polyopt.base.progress import printer, records_to
from polyopt.base.text import visible
from polyopt.base.types import SamplesLike
from polyopt.certificates.certificate import Certificate, Claim, combine
from polyopt.estimators.collections import CollectionLike, heading_of, is_collection, map_rows
from polyopt.estimators.parameters import Settings, check_parameters
from polyopt.estimators.status import FINE, solutions_of, warn
from polyopt.estimators.validation import (
    check_targets,
    check_total,
    checked_weights,
    class_weights,
    validated,
    validated_pair,
)
from polyopt.estimators.votes import draw_scores_and_labels

if TYPE_CHECKING:
    import pandas as pd
    from onnx import ModelProto


class PairwiseClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers of binary problems, one-vs-one for more than two classes.

    A subclass has those of the parameters below that it declares. It may define :meth:`_drop_data`, which
    removes attributes that predictions do not need, and :meth:`_draw_scores` for ONNX graphs.

    Parameters
    ----------
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply the samples' weights.
    time_limit : float, optional
        Seconds at most for the whole fit, divided between the pairs of classes; the best point so far is
        returned. "exact" checks the clock only between its programs and their iterations.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts, the order of the samples and all other random numbers. The model depends on it,
        but not on `n_jobs`.
    n_jobs : int, optional
        Number of workers, as joblib counts, for pairs of classes or, with two classes, for starts, the
        polytopes of both classes, nodes of a global search or linear programs.
    verbose : bool or int, default=False
        Whether to print the progress of long runs on standard error, a line a second; all lines if above 1.

    Attributes
    ----------
    solution_ : Solution or list of Solution
        The solver's solution; one per pair of classes if there are more than two.
    solver_ : str
        The solver of the fit (binary problems).
    duals_ : pandas.DataFrame
        One row per constraint, in input order. The first columns are its name, its sample and its
        multiplier, the last one is its state.
    history_ : pandas.DataFrame
        One row for each of the ``n_iter_`` iterations, and one numbered 0 for a start that is a feasible
        point; empty if the solver has no records.
    classes_ : ndarray of shape (n_classes,)
        The labels. In a binary problem the second one is +1.
    estimators_ : list
        The binary classifiers, one per pair of classes, if there are more than two.
    pairs_ : list of tuple
        The two classes of each binary classifier.
    """

    solution_: Any
    solver_: str
    n_iter_: int
    n_features_in_: int
    classes_: NDArray[Any]
    estimators_: list[Any]
    _asked: dict[str, Any]  # parameters of the last fit: set_params changes those of the next fit only
    _y: Any  # labels as signs; None without the training data
    _rows: Any  # row numbers of the samples of the fit in the data passed to it
    _pair_places: list[NDArray[np.intp]]  # for each pair of classes, indices of its samples in `_rows`
    _dtypes: ClassVar[list[Any]] = [np.float64]  # types of X that the fit does not convert
    _scored_dtypes: ClassVar[Any] = np.float64  # types of X that the scoring does not convert
    _proof: Certificate | None = None  # made by a fit to samples in blocks, which stay where they are
    _fit_inputs: ClassVar[tuple[str, ...]] = ()  # attributes that a fit reads besides the parameters
    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _settings: ClassVar[dict[str, type[Settings]]] = {}  # class of each parameter that is a group of them

    # -- methods of a subclass ---------------------------------------------------------------

    @abstractmethod
    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        """Solve the binary problem and set the fitted attributes, ``solution_`` and ``n_iter_`` among them.

        X (n, m) is dense or CSR. y (n,) has the labels -1 and +1, weights (n,) are positive, and rows (n,)
        are the row numbers of these samples in the data passed to ``fit``.
        """

    @abstractmethod
    def _binary_scores(self, X: Any) -> NDArray[Any]:
        """Return scores of samples, positive for ``classes_[1]``."""

    @abstractmethod
    def _binary_certificate(self, tol: float) -> Certificate:
        """Return the certificate of the binary solution."""

    @abstractmethod
    def _binary_duals(self) -> pd.DataFrame:
        """Return one row per constraint, in input order, with a column ``sample``."""

    def _binary_history(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(list(self.solution_.history))

    def _draw_scores(self, graph: Graph, x: str) -> str:
        """Add the scores (n, 1) of a binary machine for tensor x to a graph; return their tensor's name."""
        raise ValueError(f"{type(self).__name__} has no ONNX graph")

    def _draw_pairs(self, graph: Graph, x: str) -> str:
        """Add the scores (n, pairs) of the pairs of classes, as :meth:`_draw_scores`."""
        parts = [part._as_fitted()._draw_scores(graph, x) for part in self.estimators_]
        return graph.op("Concat", *parts, axis=1)

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        """Return a clone to be fitted to pairs of classes.

        A subclass sets parameters here that depend on the samples of all classes.
        """
        machine = clone(self)
        known = machine.get_params(deep=False)
        return machine.set_params(**{name: None for name in ("class_weight", "n_jobs") if name in known})

    def _fallback_solver(self) -> str:
        """Return the solver with the earliest first result, for pairs of classes after the time limit."""
        return "auto"

    def _append_unlabelled(
        self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any], n: int
    ) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the data with unlabelled samples appended: code -1, weight 0, row numbers n, n + 1, ...

        n: number of samples passed to ``fit``. By default nothing is appended.
        """
        return X, codes, weights, rows

    # -- parameters --------------------------------------------------------------------------

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        names: list[str] = super()._get_param_names()  # without the cache a tenth of a small fit
        return names

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``penalty__l1`` sets one parameter in a copy of its group."""
        grouped: dict[str, dict[str, Any]] = {}
        for name in list(params):
            group, _, part = name.partition("__")
            if part and group in self._settings:
                grouped.setdefault(group, {})[part] = params.pop(name)
        super().set_params(**params)
        for group, changes in grouped.items():
            settings: Any = getattr(self, group) or self._settings[group]()
            known = {parameter.name for parameter in fields(settings)}
            if unknown := sorted(set(changes) - known):
                raise ValueError(
                    f"Invalid parameter {unknown[0]!r} of {group}. Valid parameters are: {sorted(known)!r}"
                )
            setattr(self, group, replace(settings, **changes))
        return self

    def _validate_params(self) -> None:
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)

    def _as_fitted(self) -> Self:
        """Return the model with the parameters of its fit, without later changes by ``set_params``."""
        parameters = getattr(self, "_asked", {})
        if all(_is_same(getattr(self, name), value) for name, value in parameters.items()):
            return self
        return copy(self).set_params(**parameters)

    def _part_like(self, **changes: Any) -> Self:
        """Return an unfitted machine for some samples of this binary fit, with changed parameters."""
        machine = clone(self)
        known = machine.get_params(deep=False)
        machine.set_params(**{name: value for name, value in changes.items() if name in known})
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(machine, name, getattr(self, name))
        machine._asked = machine.get_params(deep=False)
        return machine

    # -- fitting -----------------------------------------------------------------------------

    def fit(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier.

        Attributes of a previous fit are removed. A fit that fails leaves the classifier unchanged.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, m)
            Training samples (a Gram matrix for a precomputed kernel).
        y : array_like of shape (n,)
            Labels of two or more classes, of any type.
        sample_weight : array_like of shape (n,), optional
            Non-negative weights; a weight of 2 is the same as repeating the sample, a weight of 0 the same
            as leaving it out.

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
        with self._refitting():
            self._asked = self.get_params(deep=False)
            # A copy: later changes of X by the caller must not reach the model and its certificate.
            samples, labels = validated_pair(
                self, X, y, accept_sparse=self._accept_sparse, dtype=self._dtypes, copy=True
            )
            check_targets(type(self).__name__, labels)
            weights = checked_weights(sample_weight, samples)
            # Leave out samples of weight 0, and classes of which no sample remains.
            rows = np.flatnonzero(weights > 0)
            self.classes_, codes = np.unique(labels[rows], return_inverse=True)
            if 2 * len(self.classes_) > len(labels):
                check_classification_targets(labels)  # warns: these may be regression targets
            if len(self.classes_) < 2:
                raise ValueError(
                    f"{type(self).__name__} needs samples of at least two classes with positive weight; "
                    f"the data has one class: {self.classes_.tolist()}"
                )
            weights = weights[rows] * self._class_weights(codes, weights[rows])[codes]
            check_total(weights)
            samples, codes, weights, rows = self._append_unlabelled(
                self._select(samples, rows), codes, weights, rows, len(labels)
            )
            with running(Clock()) as clock, self._printing_progress(), _no_point_is_interruption():
                if len(self.classes_) == 2:
                    self._fit_signs(samples, np.where(codes == 1, 1.0, -1.0), weights, rows)
                else:
                    self._fit_pairs(samples, codes, weights, rows)
                if clock.is_stopped:
                    warn_of_interruption(self)
        return self

    def _fit_signs(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        """Fit the binary machine to labels of -1 and +1; arguments as of :meth:`_fit_binary`."""
        self._fit_binary(X, y, weights, rows)
        _note_interruption(self)

    def _fit_pairs(self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        """Fit one machine for each pair of classes; codes (n,) are indices of classes, -1 without a label."""
        pairs = list(combinations(range(len(self.classes_)), 2))
        template = self._for_pairs(X, weights)
        clock = Clock(getattr(self, "time_limit", None))
        # All workers have the complete arrays (memory-mapped if they are large) and select their rows.
        parts = [Part("pair", number, len(pairs), clock, self.n_jobs) for number in range(len(pairs))]
        tasks = [
            _PairTask(copy(template), X, codes, weights, pair, part)
            for pair, part in zip(pairs, parts, strict=True)
        ]
        self.estimators_ = run_tasks(_fit_pair, tasks, self.n_jobs, "pair")
        self.pairs_ = [(self.classes_[i], self.classes_[j]) for i, j in pairs]
        self._rows = rows
        self._pair_places = [_indices_of(pair, codes) for pair in pairs]
        self.n_iter_ = max(estimator.n_iter_ for estimator in self.estimators_)
        self.solution_ = [estimator.solution_ for estimator in self.estimators_]

    def _class_weights(self, codes: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        return class_weights(self.class_weight, self.classes_, codes, weights)

    def _select(self, X: Any, rows: NDArray[Any]) -> Any:
        """Return the samples with these row numbers; of a Gram matrix the rows and the columns."""
        if len(rows) == X.shape[0]:
            return X
        return X[np.ix_(rows, rows)] if self.__sklearn_tags__().input_tags.pairwise else X[rows]

    def _printing_progress(self, part: str = "") -> AbstractContextManager[None]:
        """Return a context that prints the progress of a fit, a line a second, if ``verbose``."""
        verbose, title = getattr(self, "verbose", False), type(self).__name__ + part
        return records_to(printer(title, 0.0 if verbose > 1 else 1.0) if verbose else None)

    def _clear_fit(self) -> dict[str, Any]:
        """Remove all attributes of a previous fit, and return a dict of all attributes before that.

        Removed are attributes whose names end with an underscore, and private ones that a class declares.
        Parameters, ``_fit_inputs`` and attributes of other packages remain.
        """
        before = self.__dict__
        inputs, declared = {*self._get_param_names(), *self._fit_inputs}, self._declared()
        self.__dict__ = {
            name: value
            for name, value in before.items()
            if name in inputs or not (name.endswith("_") or name in declared)
        }
        return before

    @classmethod
    @cache
    def _declared(cls) -> frozenset[str]:
        """Return the names of the attributes that this class and its bases declare."""
        bases = [base for base in cls.__mro__ if issubclass(base, PairwiseClassifier)]
        return frozenset(name for base in bases for name in (*vars(base), *inspect.get_annotations(base)))

    @contextmanager
    def _refitting(self) -> Iterator[None]:
        """Return a context that removes the attributes of a previous fit, and restores them on an error."""
        before = self._clear_fit()
        try:
            yield
        except BaseException:  # Ctrl-C as well
            self.__dict__ = before
            raise

    def _warn_if_incomplete(self, certify: Callable[[], Certificate] | None) -> None:
        """Warn if a limit ended the fit, or the solution of an exact solver is not certified.

        `certify` computes the certificate of the binary solution; None if that would take too long. There is
        no warning if it proves the solution optimal to its tolerance. It is called for exact solvers, and
        for the status INACCURATE: rounding ended the run, but its point may be within the tolerance.
        """
        if _note_interruption(self):
            return  # there is one warning for the complete fit
        status = self.solution_.status
        text = "" if status in FINE else str(status)
        is_unverified = self.solver_ == "exact" and status in (*FINE, Status.STALLED)
        if certify is not None and (status is Status.INACCURATE or is_unverified):
            certificate = certify()
            if certificate.claim is not Claim.NONE and certificate.relative_gap <= certificate.tol:
                text = ""
            elif self.solver_ == "exact":
                text = f"Short of exact. {certificate.sentence} Scaling the features to unit variance helps."
        if text:
            warn(self, text)

    # -- predictions -------------------------------------------------------------------------

    @property
    def _is_binary(self) -> bool:
        return len(self.classes_) == 2

    @property
    def _accept_sparse(self) -> str | bool:
        return "csr" if self.__sklearn_tags__().input_tags.sparse else False

    def _prepared(self, X: SamplesLike) -> tuple[Self, Any]:
        """Return the model with the parameters of its fit, and the validated samples."""
        check_is_fitted(self)
        model = self._as_fitted()
        return model, model._scorable(X)

    def _lazily(self, method: str, X: CollectionLike) -> Any:
        """Return the results of a method for all rows of a Dask collection, lazily."""
        check_is_fitted(self)
        heading = heading_of(X)
        validated(self, X if heading is None else heading, reset=False, skip_check_array=True)
        nameless = self.without_data()  # its partitions are matrices, in the order of the checked names
        nameless.__dict__.pop("feature_names_in_", None)
        return map_rows(X, getattr(nameless, method))

    def _scorable(self, X: SamplesLike) -> Any:
        """Return validated samples; raise ValueError for missing values or features not those of the fit."""
        return validated(self, X, accept_sparse=self._accept_sparse, dtype=self._scored_dtypes, reset=False)

    def decision_function(self, X: SamplesLike) -> NDArray[Any]:
        """Return scores of samples; of a Dask array or frame a lazy Dask array.

        Parameters
        ----------
        X : array_like, sparse matrix, or Dask array or frame, of shape (t, m)
            Samples to be scored.

        Returns
        -------
        ndarray of shape (t,) or (t, n_classes)
            Two classes: positive for ``classes_[1]``. More: votes of the pairs, ties broken by the
            sum of their scores, as scikit-learn's one-vs-one wrapper does.
        """
        if is_collection(X):
            return self._lazily("decision_function", X)
        model, samples = self._prepared(X)
        return model._scores(samples)

    def _scores(self, X: Any) -> NDArray[Any]:
        """Return the scores of validated samples."""
        if self._is_binary:
            return self._binary_scores(X)
        scores = self._pair_scores(X)
        return _ovr_decision_function(scores > 0, scores, len(self.classes_))

    def _pair_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores (t, pairs) of the pairs of classes, positive for the second class of a pair."""
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        return np.column_stack(
            [
                estimator._as_fitted()._scores(X[:, self._rows[indices]] if pairwise else X)
                for estimator, indices in zip(self.estimators_, self._pair_places, strict=True)
            ]
        )

    def _labels(self, X: Any) -> NDArray[np.intp]:
        """Return the class indices (t,) of validated samples."""
        scores = self._scores(X)
        return (scores > 0).astype(np.intp) if self._is_binary else scores.argmax(axis=1)

    def predict(self, X: SamplesLike) -> NDArray[Any]:
        """Predict labels; of a Dask array or frame a lazy Dask array.

        Parameters
        ----------
        X : array_like, sparse matrix, or Dask array or frame, of shape (t, m)
            Samples to be classified.

        Returns
        -------
        ndarray of shape (t,)
            Labels from ``classes_``. Two classes: ``classes_[1]`` if the score is positive, ``classes_[0]``
            if it is 0 or negative; so a point on a face is inside if ``classes_[0]`` is the class inside.
            More: each pair votes by the same rule, and the class with the most votes is predicted.
        """
        if is_collection(X):
            return self._lazily("predict", X)
        model, samples = self._prepared(X)
        return self.classes_[model._labels(samples)]

    @property
    def predict_proba(self) -> Any:
        """Raise AttributeError: a classifier with scores only has no probabilities.

        Raises
        ------
        AttributeError
            Always; the message recommends ``CalibratedClassifierCV``.
        """
        raise without_probabilities(self)

    def score(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on samples.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.
        y : array_like of shape (t,)
            Their labels.
        sample_weight : array_like of shape (t,), optional
            Weights of the samples.
        """
        if is_collection(X):
            raise TypeError(
                "score takes samples in memory; of a Dask collection X with labels y in an array cut alike, "
                "the accuracy is (machine.predict(X) == y).mean().compute()"
            )
        refuse_masked("y", y)
        refuse_masked("sample_weight", sample_weight)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- certificate, multipliers, history ---------------------------------------------------

    @property
    def holds_data(self) -> bool:
        """True if the training data are stored, which certificates and multipliers need."""
        if not self._is_binary:
            return all(machine.holds_data for machine in self.estimators_)
        return self._y is not None

    def _need_data(self, what: str) -> None:
        check_is_fitted(self)
        if not self.holds_data:
            raise ValueError(
                f"{what} needs the training data, which this machine does not hold: it was fitted by "
                "partial_fit or to samples in blocks, is a copy without_data(), or was saved by 'polyopt "
                "fit' without --keep-data. The certify_ functions of polyopt take data and faces."
            )

    def certificate(self, tol: float = 1e-6) -> Certificate:
        """Prove from the training data how far the fitted model is from optimal.

        Parameters
        ----------
        tol : float
            Relative tolerance for the gap and for every residual. Of samples in blocks the certificate is
            made during the fit, to 1e-6 or the gap to which their program was solved.

        Returns
        -------
        Certificate
            With more than two classes, one for all pairs together: the values are summed, and the claim is
            the weakest of all.
        """
        check_is_fitted(self)
        if self._is_binary and self._proof is not None:
            return self._proof
        if self._is_binary or any(part._proof is None for part in self.estimators_):
            self._need_data("certificate()")
        if self._is_binary:
            return self._with_names(self._as_fitted()._binary_certificate(tol))
        names = [visible(f"{first} vs {second}") for first, second in self.pairs_]
        certificates = [
            self._pair_certificate(part.certificate(tol), indices)
            for part, indices in zip(self.estimators_, self._pair_places, strict=True)
        ]
        return combine(certificates, names)

    def _with_names(self, certificate: Certificate) -> Certificate:
        """Return the certificate with the labels and row numbers of the data of ``fit`` in its evidence.

        The evidence is the content of a file by which the proof can be checked, a part for each program.
        """
        # Labels of the signs -1 and +1: if `_side` is -1, classes_[0] has the sign +1.
        side, rows = getattr(self, "_side", 1.0), getattr(self, "_rows", None)
        negative, positive = (str(label) for label in (self.classes_ if side > 0 else self.classes_[::-1]))
        parts = certificate.evidence
        if rows is None:  # a machine with a polytope for each class: theirs have set the row numbers
            are_known = all(part.rows is not None for part in parts)
            return replace(certificate, evidence=parts if are_known else ())
        factor = self._feature_scale()
        named = [
            part if part.rows is not None else part.of((negative, positive), rows, factor) for part in parts
        ]
        return replace(certificate, evidence=tuple(named))

    def _feature_scale(self) -> float:
        """Return the factor by which the fit multiplied its samples."""
        return 1.0

    def _pair_certificate(self, certificate: Certificate, indices: NDArray[Any]) -> Certificate:
        """Return the certificate of a pair with labels and row numbers of the data of ``fit``.

        The pair's machine has class indices for labels, and `rows` that count the samples of the pair.
        """
        named = []
        for part in certificate.evidence:
            assert part.rows is not None
            low, high = (str(self.classes_[int(name)]) for name in part.names)
            named.append(part.of((low, high), self._rows[indices[part.rows]], part.factor))
        return replace(certificate, evidence=tuple(named))

    @property
    def duals_(self) -> pd.DataFrame:
        """Multipliers: one row per constraint, samples in the order of the data passed to ``fit``."""
        import pandas as pd

        self._need_data("duals_")
        if self._is_binary:
            return _with_columns_in_order(self._as_fitted()._binary_duals())
        frames = []
        for estimator, pair, indices in zip(self.estimators_, self.pairs_, self._pair_places, strict=True):
            frame = estimator.duals_
            samples, codes = frame["sample"].to_numpy(), frame["label"].to_numpy()
            # -1: a row without a sample
            frame["sample"] = np.where(samples >= 0, self._rows[indices[samples]], -1)
            if codes.dtype == object:
                labels = [None if code is None else self.classes_[code] for code in codes]
                frame["label"] = np.array(labels, dtype=object)
            else:
                frame["label"] = self.classes_[codes]
            frames.append(frame.assign(pair=f"{pair[0]} vs {pair[1]}"))
        return _with_columns_in_order(pd.concat(frames, ignore_index=True))

    @property
    def history_(self) -> pd.DataFrame:
        """Records of the solver: one row per iteration; empty if it has none."""
        import pandas as pd

        check_is_fitted(self)
        if self._is_binary:
            return self._binary_history()
        frames = [
            e.history_.assign(pair=f"{p[0]} vs {p[1]}")
            for e, p in zip(self.estimators_, self.pairs_, strict=True)
        ]
        return pd.concat(frames, ignore_index=True)

    # -- without the data, and for other programs --------------------------------------------

    def without_data(self) -> Self:
        """Return a copy for predictions, without training data other than support vectors.

        The copy cannot be certified and has no ``duals_``.
        """
        check_is_fitted(self)
        light = copy(self)
        if self._is_binary:
            light._drop_data(self)
            return light
        light.estimators_ = [part.without_data() for part in self.estimators_]
        light._drop_data_of_pairs(self)
        light.solution_ = [part.solution_ for part in light.estimators_]
        return light

    def _drop_data(self, original: Self) -> None:
        """Remove, from this copy of a binary machine, the attributes that predictions do not need."""

    def _drop_data_of_pairs(self, original: Self) -> None:
        """Remove such attributes from this copy for several classes, whose pairs have none already."""

    def _drop_solution_arrays(self, original: Self) -> None:
        """Replace the solution by its status and values, without its vectors and its history."""
        self.solution_ = replace(original.solution_, primal={}, duals={}, history=(), runs=())

    def to_onnx(self, dtype: str = "float64") -> ModelProto:
        """Return the fitted machine as an ONNX model (opset 19), with skl2onnx's names.

        Its input is ``X`` (n, m). Its outputs are ``label`` (n,), ``probabilities`` (n, n_classes) if the
        model has them, and ``scores``, (n,) for two classes and (n, n_classes) for more: those of
        ``predict``, ``predict_proba`` and ``decision_function``. :class:`polyopt.models.Model` exports
        pipelines.

        Parameters
        ----------
        dtype : {"float64", "float32"}
            Type of input, scores and probabilities. In float32 they agree to its rounding, and a sample whose
            scores are tied but for this rounding may have the other label.

        Raises
        ------
        ValueError
            The package onnx is not installed, or the machine has no such graph: its kernel is a function or
            a Gram matrix, or a number of it is too large for float32.
        """
        check_is_fitted(self)
        graph = Graph(dtype)
        outputs = self.draw(graph, graph.input("X", int(self.n_features_in_)))
        return graph.model(outputs, {"machine": type(self).__name__})

    def draw(self, graph: Graph, x: str) -> dict[str, tuple[str, str, int | None]]:
        """Add the machine to a graph, for a tensor x of features; return the outputs for `Graph.model`."""
        return draw_scores_and_labels(self._as_fitted().without_data(), graph, x)


def without_probabilities(machine: Any) -> AttributeError:
    """Return the error of a classifier that has scores only, which names the remedy."""
    name = type(machine).__name__
    return AttributeError(
        f"{name} gives scores and no probabilities. For predict_proba fit "
        f"sklearn.calibration.CalibratedClassifierCV({name}(...), ensemble=False)"
    )


def _with_columns_in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Move the important columns to both ends: pandas omits the middle ones in a narrow terminal."""
    first = ("row", "sample", "multiplier")
    last = [name for name in ("feature", "piece", "face", "outside", "pair", "state") if name in frame]
    return frame[[*first, *(name for name in frame if name not in (*first, *last)), *last]]


def _is_same(value: Any, other: Any) -> bool:
    """Return True for the same object, or equal numbers or strings (a loaded model has copies of them)."""
    is_comparable = type(value) is type(other) and isinstance(value, (int, float, str))
    return value is other or (is_comparable and value == other)


# -- parts of a fit: pairs of classes, sides, folds ------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One of several machines that are fitted as parts of another one, and its part of the time limit."""

    kind: str  # name of a part in progress messages: "pair", "side" or "fold"
    number: int  # number of this part, from 0
    count: int  # number of parts
    clock: Clock  # with the time limit for all parts together
    n_jobs: int | None  # number of parts fitted in parallel

    @contextmanager
    def of_fit(self, machine: Any) -> Iterator[None]:
        """Return a context for the fit of a machine that sets its time limit and records an interruption."""
        time_limit = getattr(machine, "time_limit", None)
        limit = time_share(self.clock, self.number, self.count, self.n_jobs)
        if limit is not None:
            machine.time_limit = limit
        title = f", {self.kind} {self.number + 1} of {self.count}"
        try:
            with running(self.clock), machine._printing_progress(title):
                yield
        finally:
            if limit is not None:
                machine.time_limit = time_limit
        _note_interruption(machine)


class _PairTask(NamedTuple):
    """A machine to be fitted to two of the classes of validated data."""

    machine: Any
    X: Any  # all samples
    codes: NDArray[Any]  # (n,) class indices of the samples, -1 without a label
    weights: NDArray[Any]  # (n,)
    pair: tuple[int, int]  # indices of the two classes; the second one has the label +1
    part: Part


def _fit_pair(task: _PairTask) -> Any:
    """Fit a pair of classes; after the time limit, by the solver of :meth:`_fallback_solver`."""
    machine, X, codes, weights, pair, part = task
    places = _indices_of(pair, codes)
    samples, y = machine._select(X, places), np.where(codes[places] == pair[1], 1.0, -1.0)

    def fit() -> Any:
        machine._clear_fit()
        machine._asked, machine.classes_ = machine.get_params(deep=False), np.array(pair)
        machine.n_features_in_ = samples.shape[1]
        with part.of_fit(machine):
            machine._fit_signs(samples, y, weights[places], np.arange(len(places)))
        return machine

    if not part.clock.is_over:
        try:
            return fit()
        except RuntimeError:  # at the end of the time it means that the solver has no point yet
            if not part.clock.is_over:
                raise
    if "solver" in machine.get_params(deep=False):
        machine.set_params(solver=machine._fallback_solver())
    return fit()


def _indices_of(pair: tuple[int, int], codes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices of the samples of a pair of classes, and of those without a label (-1)."""
    return np.flatnonzero(np.isin(codes, pair) | (codes < 0))


def _note_interruption(machine: Any) -> bool:
    """Stop the clock if Ctrl-C ended the fit; return True if it is incomplete for that reason.

    A fit that began after Ctrl-C has the status of a time limit, which is changed to INTERRUPTED.
    """
    clock, solutions = current_clock(), solutions_of(machine)
    if clock is None:
        return False
    if any(solution.status is Status.INTERRUPTED for solution in solutions):
        clock.stop()
    if not clock.is_stopped or all(solution.status in FINE for solution in solutions):
        return False
    changed = [replace(s, status=Status.INTERRUPTED) if s.status not in FINE else s for s in solutions]
    machine.solution_ = changed if isinstance(machine.solution_, list) else changed[0]
    return True


@contextmanager
def _no_point_is_interruption() -> Iterator[None]:
    """Return a context that raises Ctrl-C anew if it ended a fit, by RuntimeError, before the first point."""
    try:
        yield
    except RuntimeError:
        clock = current_clock()
        if clock is None or not clock.is_stopped:
            raise
        raise KeyboardInterrupt from None


def warn_of_interruption(machine: Any) -> None:
    """Warn once that the complete fit was interrupted, with the number of solved pairs of classes."""
    if len(machine.classes_) == 2:
        if any(solution.status is Status.INTERRUPTED for solution in solutions_of(machine)):
            warn(machine, str(Status.INTERRUPTED))
        return
    pairs = machine.estimators_
    solved = sum(all(solution.status in FINE for solution in solutions_of(pair)) for pair in pairs)
    if solved < len(pairs):
        progress = (
            f"{solved} of {len(pairs)} pairs of classes were solved, the others are as far as they came"
        )
        warn(machine, f"{Status.INTERRUPTED} {progress}.")
