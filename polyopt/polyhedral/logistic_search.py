"""The estimator LogisticSearch: model selection for logistic polytopes by validation samples.

It chooses the numbers of faces of the classes, the ridge, the knots of the features and the number of
weights. :class:`_Splits` prepares the data; the rounds are in :mod:`polyopt.polyhedral.logistic_rounds`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from itertools import combinations
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from formulations.face_penalty import FacePenalty as FacePenaltyOfFeatures
from formulations.language.arguments import whole, whole_or_none
from formulations.language.clock import Clock, is_out_of_time, running
from formulations.language.solution import Status
from formulations.language.types import Array
from polyopt.base.progress import printer, records_to
from polyopt.base.types import SamplesLike, Splits
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.estimators.hinges import Hinges
from polyopt.estimators.parameters import estimator
from polyopt.estimators.status import FINE, status_of
from polyopt.estimators.validation import check_targets, checked_weights, class_weights, validated_pair
from polyopt.polyhedral.logistic_estimator import LogisticPolytopes
from polyopt.polyhedral.logistic_rounds import (
    OPTIONS,
    BinarySplit,
    Candidate,
    CandidateFits,
    SearchRounds,
    SplitFeatures,
)


@estimator
class LogisticSearch(ClassifierMixin, BaseEstimator):
    """Choose the faces, the ridge, the knots and the number of weights by the log loss of validation samples.

    The search has three rounds. The first fits every structure, numbers of faces and of knots, with rising
    ridges on the first split: one face (logistic regression), two faces for either class and for both, four,
    and so on up to `max_faces`, with every number of knots in `n_knots`; beyond four faces only while the
    loss falls by more than its standard error. The second fits the best three structures, the best with one
    face and the best for every number of knots on all splits. The third removes weights from the best of
    these, those first whose removal raises the loss the least. Each fit is the warm start of the next.

    Of the candidates with at most `max_numbers` numbers the one with the lowest loss is chosen, unless one
    with fewer knots, or one with otherwise equal settings and more weights, is worse by less than a standard
    error. It is then fitted to all data until it is stationary.

    Parameters
    ----------
    estimator : LogisticPolytopes, optional
        The classifier with all other settings; by default ``LogisticPolytopes()``.
    max_faces : int, default=4
        Largest number of faces of a class.
    max_numbers : int, optional
        Largest number of nonzero weights and biases, and knots in use, over all pairs of classes; by default
        there is no limit.
    n_knots : int or sequence of int, default=0
        Numbers of knots per feature to try (:class:`Hinges`). With more than 0 the faces are piecewise linear
        in every feature, and ``best_estimator_`` is a pipeline of ``Hinges`` and the machine. The slope of
        a feature with a sign (`penalty__signs` of the machine) changes in one direction only.
    n_init : int, default=1
        Random starts of each structure and split; the last fit has those of `estimator` as well.
    budget : int, optional
        Largest number of fits, counted on each split; by default there is no limit.
    cv : int, splitter or iterable, optional
        As in :class:`sklearn.model_selection.GridSearchCV`; by default five stratified folds, three from
        1,000 samples on, and one split with a quarter for validation from 3,000 on.
    time_limit : float, optional
        Seconds at most for all fits together. When they are over, the best candidate so far is fitted up to
        its first point, and :attr:`status_` says so.
    verbose : bool or int, default=False
        Whether to print the progress of long runs, a line a second, on standard error.

    Attributes
    ----------
    best_estimator_ : estimator
        The classifier with the chosen settings, fitted to all data.
    best_params_ : dict
        Its n_faces, ridge, max_numbers and n_knots.
    results_ : pandas.DataFrame
        One row per candidate: the faces of each class, ridge, knots per feature, the number of splits it was
        fitted on, its nonzero numbers, and the mean log loss of the validation samples with its standard
        error.
    n_numbers_ : int
        Number of nonzero weights and biases of the chosen classifier, and of knots in use.
    status_ : Status
        TIME_LIMIT or INTERRUPTED if the search was cut short, else the status of the last fit.

    Examples
    --------
    >>> from polyopt import LogisticPolytopes, LogisticSearch, datasets
    >>> data = datasets.load("ionosphere")
    >>> search = LogisticSearch(LogisticPolytopes(random_state=0), max_faces=1, cv=2).fit(data.X, data.y)
    >>> search.predict_proba(data.X).shape
    (351, 2)
    >>> search.best_params_["n_faces"] in ((0, 1), (1, 0), (1, 1))
    True
    """

    estimator: LogisticPolytopes | None = None
    best_estimator_: Any = field(init=False)
    status_: Status = field(init=False)
    _: KW_ONLY
    max_faces: int = 4
    max_numbers: int | None = None
    n_knots: int | Sequence[int] = 0
    n_init: int = 1
    budget: int | None = None
    cv: Splits | None = None
    time_limit: float | None = None
    verbose: bool | int = False
    _moved: ClassVar[dict[str, str]] = {"n_jobs": "give it to the estimator, LogisticPolytopes(n_jobs=...)"}

    def fit(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the settings, then fit the classifier to all data.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (n, m)
            Training samples.
        y : array_like of shape (n,)
            Labels.
        sample_weight : array_like of shape (n,), optional
            Weights of the samples in training.

        Returns
        -------
        self
            The fitted search. If the time ends before the fit does, the last point is kept, with a warning.

        Raises
        ------
        ValueError
            A setting that is not allowed, or data that cannot be split.
        KeyboardInterrupt
            After Ctrl-C before the last fit.
        """
        name = type(self).__name__
        whole("max_faces", self.max_faces)
        whole_or_none("max_numbers", self.max_numbers)
        whole("n_init", self.n_init)
        whole_or_none("budget", self.budget)
        with running(Clock(self.time_limit)) as clock, records_to(printer(name) if self.verbose else None):
            model, weight_name = self._choose(X, y, sample_weight)
            was_over = is_out_of_time()
            if clock.is_stopped:
                raise KeyboardInterrupt
            model.fit(X, y, **({} if sample_weight is None else {weight_name: sample_weight}))
            status = status_of(machine_of(model))
            if was_over or (clock.is_over and status not in FINE):
                status = Status.INTERRUPTED if clock.is_stopped else Status.TIME_LIMIT
                tried = f"{len(self.results_)} candidates were" if len(self.results_) else "No candidate was"
                settings = ", ".join(f"{key}={value!r}" for key, value in self.best_params_.items())
                text = f"{name}: {status} {tried} tried; the machine has {settings}, as far as its fit came."
                warnings.warn(text, ConvergenceWarning, stacklevel=2)
        self.best_estimator_, self.status_ = model, status
        self.classes_ = model.classes_
        return self

    def _choose(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, str]:
        """Run the rounds; return the chosen classifier, unfitted, and the keyword of its sample weights."""
        machine = LogisticPolytopes() if self.estimator is None else clone(self.estimator)
        seed = int(check_random_state(machine.random_state).randint(2**31 - 1))
        samples, labels = validated_pair(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_targets(type(self).__name__, labels)
        splits = _Splits(samples, labels, checked_weights(sample_weight, samples), machine, self.cv, seed)
        names = list(getattr(self, "feature_names_in_", ()))
        penalty = (machine.penalty or FacePenalty()).of_features(samples.shape[1], names)
        knot_numbers = _knot_numbers(self.n_knots)
        hinges = {n: Hinges(n).set_output(transform="default") if n else None for n in knot_numbers}
        features = {n: splits.with_hinges(samples, hinges[n], penalty) for n in knot_numbers}
        fits = CandidateFits(features, seed, self.n_init, self.budget)
        rounds = SearchRounds(
            fits, splits.mean_weight, splits.count, splits.first, self.max_faces, self.max_numbers,
            knot_numbers,
        )  # fmt: skip
        rounds.run()
        self.results_ = rounds.table()
        best = rounds.best()
        if best is None:
            best = Candidate((0, 1), OPTIONS.rel_ridges[-1] * splits.mean_weight, knot_numbers[0])
        max_numbers = self.max_numbers if best.max_numbers is None else best.max_numbers
        settings = {"n_faces": best.n_faces, "ridge": best.ridge, "max_numbers": max_numbers}
        self.best_params_ = {**settings, "n_knots": best.n_knots}
        machine.set_params(**settings)
        dense = best._replace(max_numbers=None)
        start = next((s for s in (0, splits.first) if fits.are_done(dense, [s])), None)
        if start is not None and len(splits.pairs) == 1:
            machine.begin_at(fits.faces(dense, start)[0])
        chosen = features[best.n_knots]
        if chosen.knots is None:
            return machine, "sample_weight"
        machine.count_knots(chosen.knots)
        if penalty.signs.any():
            machine.set_params(penalty__signs=chosen.penalty.signs)
        if penalty.group:
            machine.set_params(penalty__feature_groups=chosen.penalty.groups)
        return Pipeline([("hinges", hinges[best.n_knots]), ("machine", machine)]), "machine__sample_weight"

    @property
    def n_numbers_(self) -> int:
        """Number of nonzero weights and biases of the chosen classifier, and of knots in use."""
        return int(machine_of(self.best_estimator_).n_numbers_)

    def predict(self, X: SamplesLike) -> NDArray[Any]:
        """Return labels from the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: SamplesLike) -> NDArray[Any]:
        """Return scores from the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def predict_proba(self, X: SamplesLike) -> NDArray[Any]:
        """Return probabilities of the classes from the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return plain values, for file formats without frames and enumerations."""
        state = dict(super().__getstate__())
        if "status_" in state:
            state |= {"status_": self.status_.name, "results_": self.results_.to_dict("list")}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "status_" in state:
            from pandas import DataFrame

            status, results = Status.of_name(state["status_"]), DataFrame(state["results_"])
            state = state | {"status_": status, "results_": results}
        super().__setstate__(state)


def machine_of(model: object) -> Any:
    """Return the last step of a pipeline, or the estimator as it is."""
    return model[-1] if isinstance(model, Pipeline) else model


def _knot_numbers(n_knots: int | Sequence[int]) -> list[int]:
    """Return the distinct numbers of knots, ascending."""
    numbers = [n_knots] if isinstance(n_knots, Integral) else n_knots
    if isinstance(numbers, str) or not isinstance(numbers, Sequence | np.ndarray) or not len(numbers):
        raise ValueError(f"n_knots must be an integer of at least 0, or several, not {n_knots!r}")
    return sorted({whole("n_knots", number, 0) for number in numbers})


# -- the splits ------------------------------------------------------------------------------------------


class _Splits:
    """Splits of weighted samples into a training and a validation part.

    pairs: the pairs of classes, each a binary problem.
    mean_weight: total weight of the samples of a pair of classes, averaged over the pairs.
    count: number of splits of the search.
    first: index of the split of the first round: 0, or `count`, a subset of split 0, if that is large.
    """

    def __init__(
        self, X: Any, y: NDArray[Any], weights: Array, machine: LogisticPolytopes, cv: Splits | None,
        seed: int,
    ):  # fmt: skip
        used = np.flatnonzero(weights > 0)  # classes without positive weight are left out
        classes, codes = np.unique(y[used], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"LogisticSearch needs samples of two classes; the data has one class: {classes.tolist()}"
            )
        self._weights, self._codes = weights.copy(), np.full(len(weights), -1)
        self._weights[used] *= class_weights(machine.class_weight, classes, codes, weights[used])[codes]
        self._codes[used] = codes
        self.pairs = list(combinations(range(len(classes)), 2))
        self.mean_weight = float(2.0 * self._weights.sum() / len(classes))
        if cv is None:
            parts = _default_cv(codes, seed).split(used, codes)
            self._parts = [(used[train], used[validation]) for train, validation in parts]
        else:
            self._parts = list(check_cv(cv, y, classifier=True).split(X, y))
        self.count, self.first = len(self._parts), 0
        train, validation = self._parts[0]
        if len(train) > OPTIONS.first_round_samples:
            self.first = self.count
            subset = np.random.default_rng(seed).permutation(train)[: OPTIONS.first_round_samples]
            self._parts.append((subset, validation))

    def with_hinges(self, X: Any, hinges: Hinges | None, penalty: FacePenaltyOfFeatures) -> SplitFeatures:
        """Return the binary problems of all splits; a hinge has the sign and the group of its feature."""
        knots = None
        if hinges is not None:
            features = np.arange(X.shape[1])
            X, knots = hinges.fit_transform(X), hinges.n_knots_
            counts = [len(knots_of_feature) for knots_of_feature in hinges.knots_]
            penalty = penalty.of_features(np.append(features, np.repeat(features, counts)))
        problems = [[self._binary_split(X, pair, *parts) for pair in self.pairs] for parts in self._parts]
        return SplitFeatures(problems, knots, penalty)

    def _binary_split(self, X: Any, pair: tuple[int, int], *parts: Array) -> BinarySplit:
        train, validation = (rows[np.isin(self._codes[rows], pair)] for rows in parts)
        y = np.where(self._codes == pair[1], 1.0, -1.0)
        if len(np.unique(y[train])) < 2:
            raise ValueError("cv must leave samples of every class to train on")
        c = self._weights
        return BinarySplit(
            X[train], y[train], c[train], X[validation], y[validation], c[validation],
            float(c[train].sum() / c[np.isin(self._codes, pair)].sum()),
        )  # fmt: skip


def _default_cv(codes: NDArray[np.intp], seed: int) -> Any:
    """Return the default splitter: one split or stratified folds, by the number of samples."""
    n, smallest_class = len(codes), int(np.bincount(codes).min())
    if smallest_class < 2:
        raise ValueError(
            "LogisticSearch chooses by validation samples, and needs at least two of every class; a "
            "class has one: fit LogisticPolytopes, or give cv"
        )
    if n >= OPTIONS.one_split_min_samples:
        return StratifiedShuffleSplit(1, test_size=0.25, random_state=seed)
    folds = 3 if n >= OPTIONS.three_folds_min_samples else 5
    return StratifiedKFold(max(2, min(folds, smallest_class)), shuffle=True, random_state=seed)
