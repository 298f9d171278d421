"""What the searches share: how they are fitted and end, and that they answer as the classifier they chose.

The fits of a search over candidates: each on each split, dealt out, counted, and whole or not.

A search is one run. When that is over, by Ctrl-C or by a limit, the candidates all of whose fits were whole
by then can be compared; of the best of them the machine of the first split is kept.
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
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from formulations.language.clock import Clock, current_clock, interrupted, is_out_of_time, running
from formulations.language.solution import Status
from polyopt.base.parallel import dealt
from polyopt.base.progress import Step, heard_by, printer, steps
from polyopt.estimators.parameters import estimator
from polyopt.estimators.status import FINE, status_of
from polyopt.estimators.validation import check_labels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from polyopt.base.types import SamplesLike, Splits
    from polyopt.estimators.status import Fitted, Nested

    Settings = Mapping[str, Any]

__all__ = ["Answering", "Chosen", "ClassifierSearch", "Table", "Trials", "fit_whole", "machine_of", "told_of"]


def marked(machine: Fitted, status: Status) -> Fitted:
    """The machine of a search that did not come to its end, which says so of itself.

    machine: fitted; changed in place.
    status: how the search ended.
    """
    if hasattr(machine, "solution_"):
        machine.solution_ = _noted(machine.solution_, status)
    for part in (*getattr(machine, "estimators_", ()), *(getattr(machine, "_sides", None) or ())):
        marked(part, status)
    return machine


def _noted(found: Nested, status: Status) -> Nested:
    return (
        [_noted(one, status) for one in found] if isinstance(found, list) else replace(found, status=status)
    )


@dataclass(frozen=True)
class Table:
    """What is known of some candidates: of those that were tried whole.

    Attributes
    ----------
    numbers : ndarray of int
        Their numbers among all candidates, in order.
    scores : ndarray of shape (candidates, splits)
        Accuracies on the samples held out.
    seconds : ndarray
        Mean seconds of a fit of each.
    machines : dict
        By the number of a candidate, its machine for the first split: fitted to the samples that the split
        trains on, and without them.
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
        """The number of the best candidate, the first of equals; 0 where none was tried."""
        return int(self.numbers[self.mean.argmax()]) if len(self.numbers) else 0

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of the scores of each, over the splits."""
        return np.asarray(self.scores.std(axis=1))


class Trials:
    """The fits of a search.

    Parameters
    ----------
    title : str
        The search's name, for those who hear of its progress.
    X, y, weights
        Samples, labels, and a ``sample_weight`` or nothing.
    cv : int, splitter or iterable
        The splits.
    n_jobs : int, optional
        Fits made at once, as joblib counts.
    verbose : bool or int
        Whether progress is printed.
    """

    def __init__(
        self, title: str, X: SamplesLike, y: ArrayLike, weights: Settings, *, cv: Splits,
        n_jobs: int | None, verbose: bool | int,
    ):  # fmt: skip
        self._title, self._n_jobs, self._verbose = title, n_jobs, verbose
        self._X, self._y, *others = indexable(X, y, *map(np.asarray, weights.values()))
        self._weights = dict(zip(weights, others, strict=True))
        self._splits = list(check_cv(cv, y, classifier=True).split(self._X, self._y))
        self._loop, self._begun, self._tell = Step(1, "fit"), 0.0, printer(title)

    @contextmanager
    def counting(self, n_candidates: int) -> Iterator[None]:
        """Count the fits of so many candidates, and the last one of all.

        Parameters
        ----------
        n_candidates : int
            How many.
        """
        with steps(n_candidates * len(self._splits) + 1, "fit") as self._loop:
            self._begun, self._tell = time.perf_counter(), printer(self._title)
            yield

    def table(self, machine: BaseEstimator, candidates: Sequence[Settings]) -> Table:
        """Fit the machine with the settings of each candidate, and score it.

        Parameters
        ----------
        machine : estimator
            With all other settings.
        candidates : sequence of mapping
            The settings of each.
        """
        count = len(self._splits)
        tasks = [
            _Trial(machine, settings, self._X, self._y, self._weights, split, k == 0, *self._hearing(number))
            for number, (settings, (k, split)) in enumerate(product(candidates, enumerate(self._splits)))
        ]
        done: dict[int, _Found] = {}
        for number, found in dealt(_tried, tasks, self._n_jobs):
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

    def _hearing(self, number: int) -> tuple[str, bool | int]:
        """What a fit is called by those who hear of it, and whether anybody does."""
        step = self._loop
        return f"{self._title}, fit {step.finished + number + 1} of {step.total}", self._verbose

    def _tell_of_one(self) -> None:
        """Count a fit."""
        step = self._loop
        step.done()
        if self._verbose:
            seconds = time.perf_counter() - self._begun
            left = seconds * (step.total - step.finished) / step.finished
            self._tell({"seconds": seconds, "fit": step.finished, "of": step.total, "left": left})

    def last(self, machine: BaseEstimator) -> Any | None:
        """The machine fitted to all samples; None where the run was over before that was done.

        Parameters
        ----------
        machine : estimator
            With the settings that were chosen.
        """
        return fit_whole(machine, self._X, self._y, self._weights, *self._hearing(0))

    @property
    def n_splits(self) -> int:
        """How many splits there are."""
        return len(self._splits)


def _is_whole(machine: Any) -> bool:
    """Whether a fit that has just ended came to its own end, and not to that of the run."""
    return not is_out_of_time() or (hasattr(machine, "solution_") and status_of(machine) in FINE)


def fit_whole(
    machine: BaseEstimator, X: SamplesLike, y: ArrayLike, weights: Settings, title: str, verbose: bool | int
) -> Any | None:
    """The machine fitted to all samples; None where the run was over before that was done.

    machine: it has a point where the run was over on the way.
    X, y, weights: samples, labels, and a ``sample_weight`` or nothing.
    title: what those who hear of it call it.
    verbose: whether anybody does.
    """
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


class _Trial(NamedTuple):
    """A candidate on a split."""

    machine: BaseEstimator
    settings: Settings
    X: Any
    y: Any
    weights: Settings
    split: tuple[NDArray[np.intp], NDArray[np.intp]]
    is_kept: bool
    title: str
    verbose: bool | int


@dataclass(frozen=True)
class _Found:
    """Its accuracy, the seconds of its fit and, where that is kept, the machine without its data."""

    score: float
    seconds: float
    machine: Any


def _heard(title: str, verbose: bool | int) -> AbstractContextManager[None]:
    return heard_by(printer(title) if verbose else None)


def _tried(trial: _Trial) -> _Found | None:
    """Fit and score; None where the run was over before that was done."""
    if is_out_of_time():
        return None
    train, held = trial.split
    machine = clone(trial.machine).set_params(**trial.settings)
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


@dataclass(frozen=True)
class Chosen:
    """What a search has found by the time it ends.

    Attributes
    ----------
    whole : estimator or None
        The machine chosen, fitted to all data; None where the run was over before that was done.
    kept : estimator or None
        What is kept in its place; None where there is nothing to keep.
    start : estimator
        The machine with the settings of the first candidate, not fitted.
    told : str
        How many candidates were tried, and what is kept, for those who hear that the search was broken off.
    """

    whole: Any
    kept: Any
    start: Any
    told: str


def machine_of(found: object) -> Any:
    """The machine itself: the last step of a pipeline, or the estimator as it is."""
    return found[-1] if isinstance(found, Pipeline) else found


def told_of(tried: int, candidates: int, settings: Mapping[str, object]) -> str:
    """What a search that did not come to its end has, as a sentence.

    tried, candidates: candidates that were tried whole, and all.
    settings: those of the machine that is kept.
    """
    whose = ", ".join(
        f"{name}={value:g}" if type(value) in (int, float) else f"{name}={value!r}"
        for name, value in settings.items()
    )
    if not tried:
        return f"No candidate was tried to its end; the machine is that of {whose}, as far as it came."
    return (
        f"{tried} of {candidates} candidates were tried; the machine is the best one's, {whose}, fitted to "
        "the training part of the first split."
    )


class Answering(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """What answers as the classifier that it has chosen, ``best_estimator_``."""

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
        """Probabilities of the classes, by the chosen classifier, where it has any."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @property
    def _answering(self) -> object:
        """The classifier that answers or, before a fit, that is to be fitted."""
        return getattr(self, "best_estimator_", getattr(self, "estimator", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@estimator
class ClassifierSearch(Answering):
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
        """Choose, and set what tells of the candidates; `weights` has a ``sample_weight`` or nothing."""

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
                self.best_estimator_ = _kept(clock, chosen, X, y, weights)
                marked(machine_of(self.best_estimator_), self.status_)
                text = f"{type(self).__name__}: {self.status_} {chosen.told}"
                warnings.warn(text, ConvergenceWarning, stacklevel=2)
            else:
                self.best_estimator_ = found = chosen.whole
                machine = machine_of(found)
                self.status_ = status_of(machine) if hasattr(machine, "solution_") else Status.CONVERGED
        self.classes_ = self.best_estimator_.classes_
        self.n_features_in_ = self.best_estimator_.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

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


def _kept(clock: Clock, chosen: Chosen, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]) -> Any:
    """What a search has that did not come to its end."""
    if chosen.kept is not None:
        return chosen.kept
    if clock.is_stopped:
        raise KeyboardInterrupt
    return chosen.start.fit(X, y, **weights)  # which ends at once
