"""A grid of settings on samples that are read by blocks, which all fits share where they are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from formulations.arguments import whole
from formulations.clock import Run
from formulations.runs import exception_of, one_run, stop_after
from formulations.solution import Status
from polyopt.estimators.parameters import Ruled, check_parameters, shared
from polyopt.estimators.search import Answering, told_of
from polyopt.estimators.status import FINE
from polyopt.large.base import BlockClassifier
from polyopt.large.calibrated import is_cut
from polyopt.large.folds import Fold, folds_of
from polyopt.large.held import Walk
from polyopt.large.slices import slices_of
from polyopt.solvers.progress import printer
from polyopt.watch import counted, heard_by

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from polyopt.certificates.certificate import Certificate
    from polyopt.estimators.given import SamplesLike
    from polyopt.large.held import Hands
    from polyopt.large.sources import Samples, Source

    Settings = Mapping[str, Any]

__all__ = ["GridSearchCV"]


class GridSearchCV(Answering):
    """Choose the settings of a classifier of blocks from a grid, by cross-validation in place.

    All fits read the same blocks, where they are: the rows of a fold are left out in place, and none is
    copied or moved. Row i of block k is in fold (i + k) mod `cv`: shuffle rows before, where they repeat in
    steps of `cv`. Settings do not begin from each other's answers, so a score depends on its own setting
    alone, and has the same bits for any number of workers.

    Parameters
    ----------
    estimator : estimator
        A classifier of :mod:`polyopt.large` or :mod:`polyopt.dask`, with all other settings.
    param_grid : dict or list of dict
        Values by parameter, as of :class:`sklearn.model_selection.GridSearchCV`.
    cv : int, default=5
        Folds, at least 2.
    time_limit : float, optional
        Seconds at most for all fits together. Then, and after Ctrl-C, the best of the settings that were
        tried whole is kept, as it was fitted to all folds but the first, and a warning says so. The
        estimator's own limit is for each fit.
    verbose : bool or int, default=False
        Whether to print the progress, a line a second, on standard error.

    Attributes
    ----------
    cv_results_ : dict of arrays
        A row for each setting: ``params`` and ``param_...``; ``split0_test_score`` and so on, the share of
        weight in a fold whose label is right; ``mean_test_score``, ``std_test_score``, ``rank_test_score``;
        ``status``, how its fits ended (the first of those that ended short, else ``"SOLVED"`` or
        ``"CONVERGED"``), and ``certified_gap``, the largest relative gap of their certificates. Where a
        search did not come to its end there are scores of NaN.
    best_params_, best_score_, best_index_
        The setting with the largest mean score, the first of equals.
    best_estimator_ : estimator
        The classifier with these, fitted to all samples.
    status_ : Status
        How the search ended: TIME_LIMIT or INTERRUPTED before its end, else as the last fit did.
    classes_, n_splits_, n_features_in_
        The labels, folds, features.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "cv": [Ruled(lambda value: whole("cv", value, 2))],
        **shared("time_limit", "verbose"),
    }

    best_estimator_: Any

    def __init__(
        self, estimator: BlockClassifier, param_grid: Mapping[str, Sequence[Any]] | Sequence[Any], *,
        cv: int = 5, time_limit: float | None = None, verbose: bool | int = False,
    ):  # fmt: skip
        self.estimator, self.param_grid, self.cv = estimator, param_grid, cv
        self.time_limit, self.verbose = time_limit, verbose

    def fit(
        self, X: SamplesLike | Source, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit every setting on every fold, and the best to all samples.

        Parameters
        ----------
        X, y, sample_weight
            As of the estimator's ``fit``: a source, arrays, or Dask collections.

        Returns
        -------
        self
            The fitted search.

        Raises
        ------
        ValueError
            A setting that is not allowed, samples that the estimator refuses, a fold without samples, or a
            class all of whose samples are in one fold.
        KeyboardInterrupt
            After Ctrl-C before any setting was tried whole.
        """
        parameters = {name: getattr(self, name) for name in self._parameter_constraints}
        check_parameters(self._parameter_constraints, parameters, type(self).__name__)
        settings = list(ParameterGrid(self.param_grid))
        machines = self._machines(settings)
        hands = self.estimator._hands(X, y, sample_weight)
        try:
            with (
                one_run(self.time_limit) as run,
                heard_by(printer(type(self).__name__) if self.verbose else None),
            ):
                tried = self._tried(machines, hands, run)
                self._note(settings, tried, run)
                self._choose(machines, tried, hands, X, run)
        finally:
            hands.close()
        self.classes_, self.n_features_in_ = (
            self.best_estimator_.classes_,
            self.best_estimator_.n_features_in_,
        )
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        for text in self._texts(settings, tried):
            warnings.warn(f"{type(self).__name__}: {text}", ConvergenceWarning, stacklevel=2)
        return self

    def _machines(self, settings: Sequence[Settings]) -> list[BlockClassifier]:
        """A machine for each setting, whose parameters were checked."""
        if not isinstance(self.estimator, BlockClassifier):
            raise ValueError(
                f"GridSearchCV of blocks needs a classifier of polyopt.large or polyopt.dask, and not "
                f"{self.estimator!r}: scikit-learn's is for samples in memory"
            )
        machines = []
        for setting in settings:
            machine = self.estimator._like(**setting)
            try:
                machine._check()
            except ValueError as error:
                raise ValueError(f"param_grid has {dict(setting)}: {error}") from None
            machines.append(machine)
        return machines

    # -- fitting ---------------------------------------------------------------------------------

    def _tried(self, machines: list[BlockClassifier], hands: Hands, run: Run) -> list[_Tried]:
        """What is known of each setting; of those that time was over for, the folds before."""
        first = machines[0]
        first._read(hands.look())
        folds = folds_of(hands, self.cv, first.classes_)
        self.n_splits_ = len(folds)
        for fold in folds:
            if not fold.has_samples:
                raise ValueError(
                    f"fold {fold.number + 1} of {len(folds)} has no samples with positive weight: "
                    "take fewer folds, by cv"
                )
        tried = [_Tried(np.full(len(folds), np.nan)) for _ in machines]
        for machine, own in counted(zip(machines, tried, strict=True), len(machines), "setting"):
            for fold in folds:
                try:
                    if run.is_over or not own.take(machine._like(), fold, run):
                        return tried
                except KeyboardInterrupt as interrupt:
                    stop_after(run, interrupt)
                    return tried
        return tried

    def _note(self, settings: Sequence[Settings], tried: list[_Tried], run: Run) -> None:
        """Set the table."""
        scores = np.array([each.scores for each in tried])
        mean, over = scores.mean(axis=1), _ending(run).name
        table: dict[str, Any] = {"params": [dict(each) for each in settings]}
        for name in sorted({name for each in settings for name in each}):
            column: Any = np.ma.masked_all(len(settings), dtype=object)
            for row, each in enumerate(settings):
                if name in each:
                    column[row] = each[name]
            table[f"param_{name}"] = column
        table |= {f"split{fold}_test_score": scores[:, fold] for fold in range(self.n_splits_)}
        table["mean_test_score"], table["std_test_score"] = mean, scores.std(axis=1)
        rank = rankdata(-np.where(np.isnan(mean), -np.inf, mean), method="min")
        table["rank_test_score"] = rank.astype(np.int32)
        table["status"] = np.array([each.status.name if each.is_whole else over for each in tried], object)
        table["certified_gap"] = np.array([each.gap for each in tried])
        self.cv_results_ = table
        self.best_index_ = int(rank.argmin())
        self.best_params_ = table["params"][self.best_index_]
        self.best_score_ = float(mean[self.best_index_])

    def _choose(
        self, machines: list[BlockClassifier], tried: list[_Tried], hands: Hands, X: Any, run: Run
    ) -> None:
        """Fit the best setting to all samples, or keep what there is where time is over."""
        best = tried[self.best_index_]
        kept = best.first if best.is_whole else None
        if kept is None and run.is_stopped:
            raise exception_of(run.signal)
        found = None if kept is not None and run.is_over else machines[self.best_index_]
        if found is not None:
            try:
                found._fit(hands, Run(found.time_limit, run), None, None)
                found = None if is_cut(found, run) and run.is_over and kept is not None else found
            except KeyboardInterrupt as interrupt:
                stop_after(run, interrupt)
                if kept is None:
                    raise
                found = None
        self.status_ = _ending(run) if found is None or kept is None else _status(found)
        self.best_estimator_ = kept if found is None else found
        self.best_estimator_._take_names(X)

    def _texts(self, settings: Sequence[Settings], tried: list[_Tried]) -> list[str]:
        """What is to be warned of."""
        texts = []
        short = [each for each in tried if each.is_whole and each.is_short]
        if short:
            texts.append(
                f"fits of {len(short)} of {len(tried)} settings ended short of their tolerance, and their "
                'scores are of what they reached: see cv_results_["status"] and ["certified_gap"]'
            )
        done = sum(each.is_whole for each in tried)
        if self.best_estimator_ is tried[self.best_index_].first or not done:
            texts.append(f"{self.status_} {told_of(done, len(settings), self.best_params_)}")
        else:
            texts += [f"of the machine of all samples: {t}" for t in self.best_estimator_._shortfalls()]
        return texts

    # -- answering -------------------------------------------------------------------------------

    def score(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of samples whose label is right, by the chosen classifier.

        Parameters
        ----------
        X, y, sample_weight
            Samples, labels and weights, as of its ``score``; Dask collections where it takes these.
        """
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y, sample_weight))

    def certificate(self) -> Certificate | list[Certificate]:
        """The proof of the chosen classifier; one for each pair of classes."""
        check_is_fitted(self)
        found: Certificate | list[Certificate] = self.best_estimator_.certificate()
        return found


@dataclass(eq=False)
class _Tried:
    """What is known of a setting.

    Attributes
    ----------
    scores : ndarray of shape (folds,)
        Those of the folds; NaN where there is none yet.
    first : estimator or None
        The machine that was fitted to all folds but the first.
    """

    scores: Any
    first: BlockClassifier | None = None
    status: Status = Status.SOLVED
    gap: float = math.nan
    is_short: bool = field(default=False)

    @property
    def is_whole(self) -> bool:
        """Whether all folds were tried."""
        return not np.isnan(self.scores).any()

    def take(self, machine: BlockClassifier, fold: Fold, run: Run) -> bool:
        """Fit and score a machine; False where the run was over before."""
        machine._fit(fold.others, Run(machine.time_limit, run), None, None)
        if is_cut(machine, run) and run.is_over:
            return False
        walks = [Walk(None, [(number, (machine._scoring(),))]) for number in range(machine._n_blocks)]
        found = fold.own.walk(_hits, walks, lambda: run.is_over)
        if found is None:
            return False
        hits, weight = np.sum(found, axis=0)
        self.scores[fold.number] = hits / weight
        gaps = [proof.relative_gap for proof in machine.certificates_]
        self.gap = float(np.fmax(self.gap, max(gaps)))
        if not self.is_short:
            self.status, self.is_short = _status(machine), any(True for _ in machine._shortfalls())
        if fold.number == 0:
            self.first = machine
        return True


def _hits(_: None, samples: Samples, number: int, machine: BlockClassifier) -> tuple[float, float]:
    """The weight of a block's samples whose label is right, and of all."""
    hits = total = 0.0
    for _part, some in slices_of(samples):
        weights = np.asarray(some.weights)
        is_in = weights > 0
        if is_in.any():
            right = machine._labels(some.X[is_in]) == np.asarray(some.y)[is_in]
            hits, total = hits + float(weights[is_in] @ right), total + float(weights[is_in].sum())
    return hits, total


def _status(machine: BlockClassifier) -> Status:
    """How a fit ended: the first of the pairs of classes that fell short, else as the first did."""
    ends = [found.status for found in machine.solutions_]
    return next((each for each in ends if each not in FINE), ends[0])


def _ending(run: Run) -> Status:
    return Status.INTERRUPTED if run.is_stopped else Status.TIME_LIMIT
