"""The fits of a search over candidates: each on each split, dealt out, counted, and whole or not.

A search is one run. When that is over, by Ctrl-C or by a limit, the candidates all of whose fits were whole
by then can be compared; of the best of them the machine of the first split is kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable

from formulations.language.clock import current_clock, interrupted, is_out_of_time
from polyopt.base.parallel import dealt
from polyopt.base.progress import Step, heard_by, steps
from polyopt.base.progress_lines import printer
from polyopt.estimators.status import FINE, status_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from sklearn.base import BaseEstimator

    from formulations.language.solution import Status
    from polyopt.base.types import SamplesLike, Splits
    from polyopt.estimators.status import Fitted, Nested

    Settings = Mapping[str, Any]

__all__ = ["Table", "Trials", "fit_whole", "marked"]


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
