"""Searches over candidates by cross-validation: their fits, their end, and the classifier that they chose.

A search is one run. If the run ends before the search, by Ctrl-C or by a limit, the candidates whose fits on
all splits had come to their own end are compared; the machine of the best of them on the first split is kept.
"""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from formulations.language.clock import Clock, current_clock, interrupted, is_out_of_time, running
from formulations.language.solution import Status
from polyopt.base.parallel import iter_task_results
from polyopt.base.progress import Step, heard_by, printer, steps
from polyopt.base.types import SamplesLike, Splits
from polyopt.estimators.parameters import estimator
from polyopt.estimators.status import FINE, status_of
from polyopt.estimators.validation import check_labels

if TYPE_CHECKING:
    Changes = Mapping[str, Any]


# -- fits ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Scores of the candidates whose fits on all splits came to their own end.

    Attributes
    ----------
    numbers : ndarray of int
        Their numbers among all candidates, in order.
    scores : ndarray of shape (candidates, splits)
        Accuracies on the samples held out.
    seconds : ndarray
        Mean seconds of a fit of each.
    machines : dict
        By the number of a candidate, its machine for the first split, without its data.
    """

    numbers: NDArray[np.intp]
    scores: NDArray[np.float64]
    seconds: NDArray[np.float64]
    machines: Mapping[int, Any]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean score of each."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def best(self) -> int:
        """Number of the best candidate, the first of equals; 0 if none was tried."""
        return int(self.numbers[self.mean.argmax()]) if len(self.numbers) else 0

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of the scores of each, over the splits."""
        return np.asarray(self.scores.std(axis=1))


class Trials:
    """The fits of a search called `title`, on the splits `cv` of samples X and labels y.

    `weights` has a ``sample_weight`` or nothing.
    """

    def __init__(
        self, title: str, X: SamplesLike, y: ArrayLike, weights: Changes, *, cv: Splits,
        n_jobs: int | None, verbose: bool | int,
    ):  # fmt: skip
        self._title, self._n_jobs, self._verbose = title, n_jobs, verbose
        self._X, self._y, *others = indexable(X, y, *map(np.asarray, weights.values()))
        self._weights = dict(zip(weights, others, strict=True))
        self._splits = list(check_cv(cv, y, classifier=True).split(self._X, self._y))
        self.n_splits = len(self._splits)
        self._loop, self._begun, self._tell = Step(1, "fit"), 0.0, printer(title)

    @contextmanager
    def counting(self, n_candidates: int) -> Iterator[None]:
        """Count the fits of so many candidates, and the last one of all."""
        with steps(n_candidates * self.n_splits + 1, "fit") as self._loop:
            self._begun, self._tell = time.perf_counter(), printer(self._title)
            yield

    def table(self, machine: BaseEstimator, candidates: Sequence[Changes]) -> Table:
        """Fit the machine with the parameters of each candidate on each split, and score it."""
        count = self.n_splits
        tasks = [
            _Trial(machine, changes, self._X, self._y, self._weights, split, k == 0, *self._hearing(number))
            for number, (changes, (k, split)) in enumerate(product(candidates, enumerate(self._splits)))
        ]
        done: dict[int, _Found] = {}
        for number, found in iter_task_results(_tried, tasks, self._n_jobs):
            if found is not None:
                done[number] = found
                self._tell_of_one()
        whole = [
            k for k in range(len(candidates)) if all(k * count + split in done for split in range(count))
        ]
        rows = [[done[k * count + split] for split in range(count)] for k in whole]
        return Table(
            np.array(whole, dtype=np.intp),
            np.array([[one.score for one in row] for row in rows]).reshape(len(rows), count),
            np.array([np.mean([one.seconds for one in row]) for row in rows]),
            {k: row[0].machine for k, row in zip(whole, rows, strict=True)},
        )

    def last(self, machine: BaseEstimator) -> Any | None:
        """Fit the chosen machine to all samples, as :func:`fit_whole`."""
        return fit_whole(machine, self._X, self._y, self._weights, *self._hearing(0))

    def _hearing(self, number: int) -> tuple[str, bool | int]:
        """Return a fit's name in progress messages, and whether they are printed."""
        step = self._loop
        return f"{self._title}, fit {step.finished + number + 1} of {step.total}", self._verbose

    def _tell_of_one(self) -> None:
        step = self._loop
        step.done()
        if self._verbose:
            seconds = time.perf_counter() - self._begun
            left = seconds * (step.total - step.finished) / step.finished
            self._tell({"seconds": seconds, "fit": step.finished, "of": step.total, "left": left})


class _Trial(NamedTuple):
    """A candidate on a split."""

    machine: BaseEstimator
    changes: Changes
    X: Any
    y: Any
    weights: Changes
    split: tuple[NDArray[np.intp], NDArray[np.intp]]
    is_kept: bool
    title: str
    verbose: bool | int


@dataclass(frozen=True)
class _Found:
    score: float
    seconds: float
    machine: Any  # without its data; None if it is not kept


def _tried(trial: _Trial) -> _Found | None:
    """Fit and score; None if the run was over before that was done."""
    if is_out_of_time():
        return None
    train, held = trial.split
    machine = clone(trial.machine).set_params(**trial.changes)
    weights = {name: _safe_indexing(values, train) for name, values in trial.weights.items()}
    begun = time.perf_counter()
    with _heard(trial.title, trial.verbose):
        machine.fit(_safe_indexing(trial.X, train), _safe_indexing(trial.y, train), **weights)
    seconds = time.perf_counter() - begun
    if not _is_whole(machine):
        return None
    score = float(machine.score(_safe_indexing(trial.X, held), _safe_indexing(trial.y, held)))
    light = getattr(machine, "without_data", lambda: machine)
    return _Found(score, seconds, light() if trial.is_kept else None)


def fit_whole(
    machine: BaseEstimator, X: SamplesLike, y: ArrayLike, weights: Changes, title: str, verbose: bool | int
) -> Any | None:
    """Fit the machine and return it; None if the run was over on the way, after which it has a point."""
    if is_out_of_time():
        return None
    try:
        with _heard(title, verbose):
            machine.fit(X, y, **weights)
    except KeyboardInterrupt:
        if current_clock() is None:
            raise
        interrupted()
        return None
    return machine if _is_whole(machine) else None


def _is_whole(machine: Any) -> bool:
    """Return True if a fit that has just ended came to its own end, and not to that of the run."""
    return not is_out_of_time() or (hasattr(machine, "solution_") and status_of(machine) in FINE)


def _heard(title: str, verbose: bool | int) -> AbstractContextManager[None]:
    return heard_by(printer(title) if verbose else None)


# -- the end of a search ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """The state of a search at its end.

    Attributes
    ----------
    whole : estimator or None
        The machine chosen, fitted to all data; None if the run was over before that was done.
    kept : estimator or None
        The machine in its place, if there is one.
    start : estimator
        The machine with the parameters of the first candidate, not fitted.
    told : str
        How many candidates were tried, and the machine that is kept, for the warning.
    """

    whole: Any
    kept: Any
    start: Any
    told: str


def machine_of(found: object) -> Any:
    """Return the last step of a pipeline, or the estimator as it is."""
    return found[-1] if isinstance(found, Pipeline) else found


def told_of(tried: int, candidates: int, changes: Mapping[str, object]) -> str:
    """Say how many candidates were tried whole, and the parameters of the machine that is kept."""
    words = ", ".join(
        f"{name}={value:g}" if type(value) in (int, float) else f"{name}={value!r}"
        for name, value in changes.items()
    )
    if not tried:
        return f"No candidate was tried to its end; the machine is that of {words}, as far as it came."
    return (
        f"{tried} of {candidates} candidates were tried; the machine is the best one's, {words}, fitted to "
        "the training part of the first split."
    )


def _mark(machine: Any, status: Status) -> None:
    """Set the status of a machine, and of its parts, to that of a search that was cut short."""
    if hasattr(machine, "solution_"):
        machine.solution_ = _with_status(machine.solution_, status)
    for part in (*getattr(machine, "estimators_", ()), *(getattr(machine, "_sides", None) or ())):
        _mark(part, status)


def _with_status(found: Any, status: Status) -> Any:
    if isinstance(found, list):
        return [_with_status(one, status) for one in found]
    return replace(found, status=status)


@estimator
class ClassifierSearch(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of the searches. A subclass chooses in :meth:`_search`.

    Parameters
    ----------
    n_jobs : int, optional
        Fits made at once, as joblib counts.
    time_limit : float, optional
        Seconds at most for all fits together. Then, and after Ctrl-C, the best of the candidates that were
        tried whole is kept, as :attr:`status_` says.
    verbose : bool or int, default=False
        Whether to print the progress of long runs, a line a second, on standard error.

    Attributes
    ----------
    best_estimator_ : estimator
        The classifier with the chosen settings, fitted to all data. Of a search that did not come to its end,
        the one of the first split: fitted to the samples that the split trains on, and without its data.
    status_ : Status
        How the search ended: TIME_LIMIT or INTERRUPTED before its end, as the solutions of
        ``best_estimator_`` say then too; else as the last fit ended.
    """

    best_estimator_: BaseEstimator = field(init=False)
    status_: Status = field(init=False)
    _: KW_ONLY
    n_jobs: int | None = None
    time_limit: float | None = None
    verbose: bool | int = False

    @abstractmethod
    def _search(self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]) -> Chosen:
        """Choose, and set the table of candidates; `weights` has a ``sample_weight`` or nothing."""

    def fit(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Search, then fit the classifier that was chosen to all data.

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
            The fitted search. After Ctrl-C, and at its time limit, it has the best of the candidates that
            were tried whole, and warns.

        Raises
        ------
        ValueError
            No candidates, or a setting that is not allowed.
        KeyboardInterrupt
            After Ctrl-C before any candidate was tried whole.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        check_labels(type(self).__name__, X, y)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        with running(Clock(self.time_limit)) as clock:
            chosen = self._search(X, y, weights)
            if chosen.whole is None:
                self.status_ = Status.INTERRUPTED if clock.is_stopped else Status.TIME_LIMIT
                if chosen.kept is None and clock.is_stopped:
                    raise KeyboardInterrupt
                kept = chosen.kept
                if kept is None:
                    kept = chosen.start.fit(X, y, **weights)  # which ends at once
                self.best_estimator_ = kept
                _mark(machine_of(kept), self.status_)
                text = f"{type(self).__name__}: {self.status_} {chosen.told}"
                warnings.warn(text, ConvergenceWarning, stacklevel=2)
            else:
                self.best_estimator_ = chosen.whole
                machine = machine_of(chosen.whole)
                self.status_ = status_of(machine) if hasattr(machine, "solution_") else Status.CONVERGED
        self.classes_ = self.best_estimator_.classes_
        self.n_features_in_ = self.best_estimator_.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def predict(self, X: SamplesLike) -> NDArray[Any]:
        """Labels, by the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: SamplesLike) -> NDArray[Any]:
        """Scores, of the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @available_if(lambda search: hasattr(search._answering, "predict_proba"))
    def predict_proba(self, X: SamplesLike) -> NDArray[Any]:
        """Return probabilities of the classes, by the chosen classifier, where it has any."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @property
    def _answering(self) -> object:
        """The chosen classifier or, before a fit, the one that is to be fitted."""
        return getattr(self, "best_estimator_", getattr(self, "estimator", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Plain values only, so that formats without frames and enumerations can save the search."""
        state = dict(super().__getstate__())
        if "status_" in state:
            state["status_"] = self.status_.name
        if "results_" in state:
            state["results_"] = state["results_"].to_dict("list")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "status_" in state:
            state["status_"] = Status.of_name(state["status_"])
        if "results_" in state:
            from pandas import DataFrame

            state["results_"] = DataFrame(state["results_"])
        super().__setstate__(state)
