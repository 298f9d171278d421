"""What the searches share: how they are fitted and end, and that they answer as the classifier they chose."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from formulations.language.clock import Clock, running
from formulations.language.solution import Status
from polyopt.estimators.declaration import estimator
from polyopt.estimators.status import status_of
from polyopt.estimators.trials import marked
from polyopt.estimators.validation import check_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from polyopt.base.types import SamplesLike

__all__ = ["Answering", "Chosen", "ClassifierSearch", "machine_of", "told_of"]


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
