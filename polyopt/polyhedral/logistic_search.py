"""Model selection for logistic polytopes: faces, ridge, knots and number of weights, by validation samples.

A candidate is a setting of the hyperparameters (:class:`Candidate`). Its structure is its number of knots and
the numbers of faces of the two classes. The size of a fit, called its *numbers*, is the count of its nonzero
weights and biases and of the knots in use. A split divides the samples into a training and a validation part,
and candidates are compared by the log loss of the validation samples. A path is a sequence of candidates of
one structure, each of which is the warm start of the next: first the ridge rises, and then weights are
removed, those first whose removal raises the loss the least.

:class:`Search` fits candidates on the splits, in three rounds; :class:`LogisticSearch` is the estimator.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import combinations
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from formulations.class_faces import BIAS_RIDGE, Owners, shortfall
from formulations.face_penalty import FacePenalty as FacePenaltyOfFeatures
from formulations.language.arguments import whole, whole_or_none
from formulations.language.clock import Clock, interrupted, is_out_of_time, running
from formulations.language.solution import Status
from formulations.language.types import Array, Matrix
from formulations.polyhedral import scores
from polyopt.base.progress import printer, records_to, tell
from polyopt.base.types import SamplesLike, Splits
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.estimators.hinges import Hinges
from polyopt.estimators.parameters import estimator
from polyopt.estimators.status import FINE, status_of
from polyopt.estimators.validation import check_targets, checked_weights, class_weights, validated_pair
from polyopt.polyhedral.logistic_descent import OPTIONS as DESCENT
from polyopt.polyhedral.logistic_descent import count_numbers, descend, eliminate, refit, sizes_down_to
from polyopt.polyhedral.logistic_estimator import LogisticPolytopes
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.polyhedral.logistic_polytopes import random_start


@dataclass(frozen=True)
class Options:
    """Numbers of the search."""

    rel_ridges: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # relative to Search.weight
    first_round_samples: int = 3000  # largest training part of the first round, which only ranks structures
    one_split_min_samples: int = 3000  # number of samples from which the default cv is a single split
    validation_fraction: float = 0.25  # fraction of validation samples in that single split
    three_folds_min_samples: int = 1000  # number of samples from which the default cv has 3 folds, not 5
    max_faces_always_tried: int = 4  # number of faces up to which the first round does not stop early
    second_round_structures: int = 3  # fitted on all splits, besides the best one for each number of knots
    third_round_structures: int = 2  # whose weights are removed, besides the best for each number of knots
    numbers_per_face: int = 4  # target of the third round per face, if the user sets no limit of numbers
    stop_errors: float = 2.0  # standard errors by which a loss must be higher to end a path


OPTIONS = Options()


class Candidate(NamedTuple):
    """Settings of a fit."""

    n_faces: tuple[int, int]  # numbers of faces of the classes -1 and +1
    ridge: float  # ρ of a fit to all samples; on a split it is multiplied by the weight in training
    n_knots: int = 0  # number of knots of every feature (:class:`~polyopt.estimators.hinges.Hinges`)
    numbers: int | None = None  # limit of the numbers of a fit; None: no weights are removed


class Part(NamedTuple):
    """The samples of two classes in a split."""

    training: FaceLoss  # with the split's penalties; each fit replaces its owners (faces) and ridges
    X: Matrix  # validation samples, their labels -1 and +1, and weights
    y: Array
    c: Array
    share: float  # weight of the training part over that of all samples


class Fit(NamedTuple):
    """Faces of each part of a split, and log losses and weights (t,) of its validation samples."""

    faces: list[Array]
    losses: Array
    weights: Array
    numbers: int  # nonzero weights and biases, and knots in use


@dataclass
class Search:
    """Fits of candidates on splits, and the three rounds that choose the candidates.

    The methods that take `splits` (indices) use the candidates' fits on these splits.
    """

    parts: dict[int, list[list[Part]]]  # by number of knots: for each split, a part for each pair of classes
    knots: dict[int, Array | None]  # by number of knots: knots in each feature
    splits: Sequence[int]  # indices of the splits
    first: int  # split of the first round: split 0, or an extra one with fewer training samples
    weight: float  # mean total weight of a pair of classes, the unit of the ridges
    max_faces: int
    max_numbers: int | None
    seed: int  # of the random starts of paths
    fits: dict[tuple[Candidate, int], Fit] = field(default_factory=dict)  # by candidate and split
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Run the rounds; after Ctrl-C, or when the time is over, the fits so far remain."""
        try:
            self._try_structures()
            for dense in self._best_dense([self.first], OPTIONS.second_round_structures):
                index = self.ridges.index(dense.ridge)
                ridges = self.ridges[max(index - 1, 0) : index + 2]
                self._follow([dense._replace(ridge=ridge) for ridge in ridges], self.splits)
            for dense in self._best_dense(self.splits, OPTIONS.third_round_structures):
                self._remove_weights(dense)
        except TimeoutError:
            pass
        except KeyboardInterrupt:
            interrupted()

    @property
    def ridges(self) -> list[float]:
        """The ridges to try, ascending."""
        return [self.weight * ridge for ridge in OPTIONS.rel_ridges]

    def fitted_on(self, splits: Sequence[int]) -> list[Candidate]:
        """Return the candidates that were fitted on all of these splits, in order."""
        tried = dict.fromkeys(candidate for candidate, _ in self.fits)
        return [c for c in tried if all((c, split) in self.fits for split in splits)]

    def losses(self, candidate: Candidate, splits: Sequence[int]) -> tuple[Array, Array]:
        """Return the log losses and the weights of all validation samples of these splits."""
        fits = [self.fits[candidate, split] for split in splits]
        return np.concatenate([fit.losses for fit in fits]), np.concatenate([fit.weights for fit in fits])

    def loss(self, candidate: Candidate, splits: Sequence[int]) -> float:
        """Return the mean log loss of the validation samples."""
        losses, weights = self.losses(candidate, splits)
        return float(losses @ weights / weights.sum())

    def numbers(self, candidate: Candidate, splits: Sequence[int]) -> int:
        """Return the largest number of weights, biases and knots in use over the splits."""
        return max(self.fits[candidate, split].numbers for split in splits)

    def best(self) -> Candidate | None:
        """Return the best candidate within the limit of numbers, by all splits or else by the first.

        Take the lowest loss; among the candidates that differ only in the removed weights, and whose loss is
        not higher by more than a standard error, return the one with the most numbers. The lowest of many
        losses is low partly by chance, so it does not justify removing weights.
        """
        for splits in (self.splits, [self.first]):
            small = [
                c
                for c in self.fitted_on(splits)
                if self.max_numbers is None or self.numbers(c, splits) <= self.max_numbers
            ]
            if small:
                best = min(small, key=lambda c: self.loss(c, splits))
                path = [c for c in small if c._replace(numbers=None) == best._replace(numbers=None)]
                similar = [c for c in path if not self._is_better(best, c, splits)]
                return max(similar, key=lambda c: self.numbers(c, splits))
        return None

    def results(self) -> dict[str, Any]:
        """Return a table of the candidates as scikit-learn's ``cv_results_``; scores are −log loss.

        A candidate that was fitted on a subset of the first split alone has the score of that subset.
        """
        columns: dict[str, list[Any]] = {"params": []} | {f"param_{name}": [] for name in Candidate._fields}
        columns |= {name: [] for name in ("mean_test_score", "std_test_score", "n_splits", "n_numbers")}
        for c in self.fitted_on([]):
            splits = [s for s in self.splits if (c, s) in self.fits] or [self.first]
            scores_of_splits = [-self.loss(c, [s]) for s in splits]
            row = (c._asdict(), *c, np.mean(scores_of_splits), np.std(scores_of_splits), len(splits),
                   self.numbers(c, splits))  # fmt: skip
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
        ranks = rankdata(-np.array(columns["mean_test_score"]), method="min")
        return columns | {"rank_test_score": ranks.astype(int).tolist()}

    # -- rounds ------------------------------------------------------------------------------

    def _try_structures(self) -> None:
        """Fit every structure on the split of the first round, with 1, 2, 4, ... faces.

        Beyond ``max_faces_always_tried`` faces this stops once the loss no longer falls by a standard error.
        """
        splits = [self.first]
        for n_knots in self.parts:
            faces, previous = 1, None
            while faces <= self.max_faces:
                for n_faces in [(0, 1)] if faces == 1 else [(0, faces), (faces, 0), (faces, faces)]:
                    self._follow([Candidate(n_faces, ridge, n_knots) for ridge in self.ridges], splits)
                tried = [c for c in self.fitted_on(splits) if c.n_knots == n_knots]
                best = min(tried, key=lambda c: self.loss(c, splits))
                is_many = faces > OPTIONS.max_faces_always_tried
                if is_many and previous is not None and not self._is_better(best, previous, splits):
                    break
                faces, previous = 2 * faces, best

    def _best_dense(self, splits: Sequence[int], count: int) -> list[Candidate]:
        """Return the best candidate of each of the `count` best structures, and of each number of knots.

        Only dense candidates, without removed weights, are compared.
        """
        dense = [c for c in self.fitted_on(splits) if c.numbers is None]
        ranked = sorted(dense, key=lambda c: self.loss(c, splits))
        # The last candidate of a key stays in a dict: in reversed order, that is the best one.
        of_structure = {(c.n_knots, c.n_faces): c for c in reversed(ranked)}
        of_knots = {c.n_knots: c for c in reversed(ranked)}
        best = [c for c in ranked if c in of_structure.values()]
        return list(dict.fromkeys([*best[:count], *of_knots.values()]))

    def _remove_weights(self, dense: Candidate) -> None:
        """Fit a candidate with fewer and fewer weights: to the target, then on to half of the target.

        Below the target, stop once the loss is higher than the lowest one by ``stop_errors`` errors.
        """
        target = self.max_numbers or OPTIONS.numbers_per_face * sum(dense.n_faces)
        sizes = sizes_down_to(max(target // 2, 1), self.numbers(dense, self.splits))
        path = [dense]
        best = dense
        for size in sorted({*sizes[1:], target}, reverse=True):
            path.append(dense._replace(numbers=size))
            self._follow(path, self.splits)
            best = min(best, path[-1], key=lambda c: self.loss(c, self.splits))
            if size < target and self._is_better(best, path[-1], self.splits, OPTIONS.stop_errors):
                break

    def _is_better(
        self, candidate: Candidate, other: Candidate, splits: Sequence[int], errors: float = 1.0
    ) -> bool:
        """Return True if the loss is lower by more than `errors` standard errors of the difference."""
        (losses, weights), (other_losses, _) = (self.losses(c, splits) for c in (candidate, other))
        difference, shares = other_losses - losses, weights / weights.sum()
        mean = float(shares @ difference)
        return mean > errors * float(np.sqrt(shares**2 @ (difference - mean) ** 2))

    # -- fits --------------------------------------------------------------------------------

    def _follow(self, path: Sequence[Candidate], splits: Sequence[int]) -> None:
        """Fit the candidates of a path on each split, each from the faces of the one before.

        Raise TimeoutError when the time is over; a fit that was not complete is left out.
        """
        for split in splits:
            start: list[Array] | None = None
            for candidate in path:
                fit = self.fits.get((candidate, split))
                if fit is None:
                    fit = self._fit(candidate, split, start)
                    if is_out_of_time():
                        raise TimeoutError
                    self.fits[candidate, split] = fit
                start = fit.faces
        tell({"fit": len(self.fits), "seconds": time.perf_counter() - self.started})

    def _fit(self, candidate: Candidate, split: int, start: list[Array] | None) -> Fit:
        """Fit a candidate to each part of a split: from `start`, or from a random start if None."""
        clock = Clock(None)  # with the deadline of the running clock
        owners = Owners(*candidate.n_faces)
        knots = self.knots[candidate.n_knots]
        parts = self.parts[candidate.n_knots][split]
        faces, losses = [], []
        for number, part in enumerate(parts):
            ridge = candidate.ridge * part.share
            problem = replace(
                part.training, owners=owners, ridge=ridge, bias_ridge=BIAS_RIDGE * ridge,
                known_units=part.training.units,  # computed once for all fits of the part
            )  # fmt: skip
            if start is None:
                W = self._first_faces(problem, np.random.default_rng([self.seed, split, number, 0]), clock)
            elif candidate.numbers is None:
                W = refit(problem, start[number], clock)
            else:
                W, _ = eliminate(problem, start[number], candidate.numbers // len(parts), clock, knots)
            faces.append(W)
            losses.append(np.logaddexp(0.0, shortfall(part.y, scores(part.X, W), owners)))
        numbers = sum(count_numbers(W, knots) for W in faces)
        return Fit(faces, np.concatenate(losses), np.concatenate([part.c for part in parts]), numbers)

    @staticmethod
    def _first_faces(problem: FaceLoss, rng: np.random.Generator, clock: Clock) -> Array:
        """Descend from a random start without penalties, and then with them."""
        penalty = problem.penalty
        smooth = replace(problem, penalty=replace(penalty, l1=0.0, group=0.0))
        W, _ = descend(smooth, random_start(smooth, rng), clock, max_iter=DESCENT.first_max_iter)
        return refit(problem, W, clock) if penalty.l1 > 0.0 or penalty.group > 0.0 else W


# -- the estimator -----------------------------------------------------------------------------------------


@estimator
class LogisticSearch(ClassifierMixin, BaseEstimator):
    """Choose the faces, the ridge, the knots and the number of weights by the log loss of validation samples.

    The search has three rounds. The first fits every structure, numbers of faces and of knots, with rising
    ridges on the first split: one face (logistic regression), two faces for either class and for both, four,
    and so on up to `max_faces`, with every number of knots in `n_knots`; beyond four faces only while the
    loss falls by more than its standard error. The second fits the best structures on all splits. The third
    removes weights from the best of these, those first whose removal raises the loss the least. Each fit is
    the warm start of the next.

    The candidate with the lowest loss among those with at most `numbers` numbers is chosen, unless one with
    otherwise equal settings and more weights is worse by less than a standard error. The chosen candidate is
    then fitted to all data until it is stationary.

    Parameters
    ----------
    estimator : LogisticPolytopes, optional
        The classifier with all other settings; by default ``LogisticPolytopes()``.
    numbers : int, optional
        Largest number of nonzero weights and biases, and knots in use, over all pairs of classes; by default
        there is no limit.
    max_faces : int, default=4
        Largest number of faces of a class.
    n_knots : int or sequence of int, default=0
        Numbers of knots per feature to try (:class:`Hinges`). With more than 0 the faces are piecewise linear
        in every feature, and ``best_estimator_`` is a pipeline of ``Hinges`` and the machine. The slope of
        a feature with a sign (`penalty__signs` of the machine) changes in one direction only.
    cv : int, splitter or iterable, optional
        As in :class:`sklearn.model_selection.GridSearchCV`; by default five stratified folds, three from
        1,000 samples on, and one split with a quarter for validation from 3,000 on.
    refit : bool, default=True
        Whether to fit the chosen classifier to all data; without that there are no predictions.
    time_limit : float, optional
        Seconds at most for all fits together. When the time is over, the best candidate so far is fitted up
        to its first point, and :attr:`status_` says so.
    verbose : bool or int, default=False
        Whether to print the progress of long runs, a line a second, on standard error.

    Attributes
    ----------
    best_estimator_ : estimator
        The classifier with the chosen settings, fitted to all data.
    best_params_ : dict
        The chosen n_faces, ridge, n_knots and numbers (None: no weights were removed in the search).
    best_index_, best_score_ : int, float
        Row of the chosen candidate in ``cv_results_``, and its score: −mean log loss of validation samples.
    cv_results_ : dict
        A row for each candidate: its settings, score and rank as in
        :class:`sklearn.model_selection.GridSearchCV`, the number of splits that it was fitted on, and its
        nonzero numbers.
    n_splits_ : int
        Number of splits.
    n_numbers_ : int
        Number of nonzero weights and biases of the chosen classifier, and of knots in use.
    status_ : Status
        TIME_LIMIT if the time ended before or during the last fit, INTERRUPTED if Ctrl-C ended that fit, else
        the status of that fit.

    Examples
    --------
    >>> from polyopt import LogisticPolytopes, LogisticSearch, datasets
    >>> data = datasets.load("ionosphere")
    >>> search = LogisticSearch(LogisticPolytopes(random_state=0), max_faces=1, cv=2).fit(data.X, data.y)
    >>> search.predict_proba(data.X).shape
    (351, 2)
    >>> search.best_params_["n_faces"]
    (0, 1)
    """

    estimator: LogisticPolytopes | None = None
    numbers: int | None = None
    best_estimator_: Any = field(init=False)
    _: KW_ONLY
    max_faces: int = 4
    n_knots: int | Sequence[int] = 0
    cv: Splits | None = None
    refit: bool = True
    time_limit: float | None = None
    verbose: bool | int = False

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
        whole_or_none("numbers", self.numbers)
        with running(Clock(self.time_limit)) as clock, records_to(printer(name) if self.verbose else None):
            model = self._choose(X, y, sample_weight)
            was_over = (
                is_out_of_time()
            )  # the search used all the time: the last fit gets only its first point
            if clock.is_stopped:  # Ctrl-C in the search; in the last fit it keeps the last point instead
                raise KeyboardInterrupt
            status = Status.TIME_LIMIT if was_over else Status.CONVERGED
            if self.refit:
                weight_name = "machine__sample_weight" if isinstance(model, Pipeline) else "sample_weight"
                model.fit(X, y, **({} if sample_weight is None else {weight_name: sample_weight}))
                status = status_of(hinges_and_machine(model)[1])
                self.best_estimator_, self.classes_ = model, model.classes_
            if was_over or (clock.is_over and status not in FINE):
                status = Status.INTERRUPTED if clock.is_stopped else Status.TIME_LIMIT
                count = len(self.cv_results_["params"])
                tried = f"{count} candidates were" if count else "No candidate was"
                settings = ", ".join(f"{key}={value!r}" for key, value in self.best_params_.items())
                text = f"{name}: {status} {tried} tried; the machine has {settings}, as far as its fit came."
                warnings.warn(text, ConvergenceWarning, stacklevel=2)
        self._status = status.name
        return self

    def _choose(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Any:
        """Run the rounds; return the chosen classifier, unfitted."""
        machine = LogisticPolytopes() if self.estimator is None else clone(self.estimator)
        seed = int(check_random_state(machine.random_state).randint(2**31 - 1))
        samples, labels = validated_pair(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_targets(type(self).__name__, labels)
        weights, codes = _weighted_classes(labels, checked_weights(sample_weight, samples), machine)
        splits = _splits(self.cv, samples, labels, codes, seed)
        self.n_splits_ = len(splits)
        first = 0  # index of the split of the first round: split 0, or one with fewer of its training samples
        train, validation = splits[0]
        if len(train) > OPTIONS.first_round_samples:
            first = len(splits)
            order = np.random.default_rng(seed).permutation(train)
            splits.append((order[: OPTIONS.first_round_samples], validation))
        penalty = (machine.penalty or FacePenalty()).of_features(
            samples.shape[1], list(getattr(self, "feature_names_in_", ()))
        )
        # The keys of each dictionary are numbers of knots per feature.
        hinges, penalties, parts = {}, {}, {}
        knots: dict[int, Array | None] = {}
        for n in _knot_numbers(self.n_knots):
            hinges[n] = Hinges(n).set_output(transform="default")
            features, penalties[n], knots[n] = samples, penalty, None
            if n:
                features = hinges[n].fit_transform(samples)
                knots[n] = hinges[n].n_knots_
                # A hinge has the sign and the group of its feature.
                columns = np.arange(samples.shape[1])
                hinge_counts = [len(each) for each in hinges[n].knots_]
                penalties[n] = penalty.of_features(np.append(columns, np.repeat(columns, hinge_counts)))
            parts[n] = [_parts(features, codes, weights, penalties[n], *rows) for rows in splits]
        pair_weight = float(2.0 * weights.sum() / (codes.max() + 1))  # mean weight of two of the classes
        search = Search(
            parts, knots, range(self.n_splits_), first, pair_weight, self.max_faces, self.numbers, seed
        )
        search.run()
        self.cv_results_ = search.results()
        best = search.best()
        if best is None:
            best = Candidate((0, 1), search.ridges[-1], min(parts))
        else:
            self.best_index_ = self.cv_results_["params"].index(best._asdict())
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.best_params_ = best._asdict()
        numbers = self.numbers if best.numbers is None else best.numbers
        machine.set_params(n_faces=best.n_faces, ridge=best.ridge, max_numbers=numbers)
        counts_of_features = knots[best.n_knots]
        if counts_of_features is None:
            return machine
        machine.count_knots(counts_of_features)
        if penalty.signs.any():
            machine.set_params(penalty__signs=penalties[best.n_knots].signs)
        if penalty.group:
            machine.set_params(penalty__feature_groups=penalties[best.n_knots].groups)
        return Pipeline([("hinges", hinges[best.n_knots]), ("machine", machine)])

    @property
    def status_(self) -> Status:
        """Status of the last fit, or TIME_LIMIT or INTERRUPTED if it was cut short."""
        check_is_fitted(self)
        return Status[self._status]

    @property
    def n_numbers_(self) -> int:
        """Number of nonzero weights and biases of the chosen classifier, and of knots in use."""
        return int(hinges_and_machine(self._best())[1].n_numbers_)

    def predict(self, X: SamplesLike) -> NDArray[Any]:
        """Return labels from the chosen classifier."""
        return self._best().predict(X)

    def decision_function(self, X: SamplesLike) -> NDArray[Any]:
        """Return scores from the chosen classifier."""
        return self._best().decision_function(X)

    def predict_proba(self, X: SamplesLike) -> NDArray[Any]:
        """Return probabilities of the classes from the chosen classifier."""
        return self._best().predict_proba(X)

    def _best(self) -> Any:
        check_is_fitted(self)
        if not self.refit:
            raise AttributeError("refit=False leaves no classifier: fit LogisticPolytopes with best_params_")
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def hinges_and_machine(model: Any) -> tuple[Hinges | None, Any]:
    """Return the steps of a ``best_estimator_``: the hinges, or None without knots, and the machine."""
    return (model[0], model[-1]) if isinstance(model, Pipeline) else (None, model)


def _knot_numbers(n_knots: int | Sequence[int]) -> list[int]:
    """Return the distinct numbers of knots, ascending."""
    numbers = [n_knots] if isinstance(n_knots, Integral) else n_knots
    if isinstance(numbers, str) or not isinstance(numbers, Sequence | np.ndarray) or not len(numbers):
        raise ValueError(f"n_knots must be an integer of at least 0, or several, not {n_knots!r}")
    return sorted({whole("n_knots", number, 0) for number in numbers})


def _weighted_classes(
    y: NDArray[Any], weights: Array, machine: LogisticPolytopes
) -> tuple[Array, NDArray[np.int64]]:
    """Return the weights by class, and the index of each sample's class; -1 for a sample without weight."""
    used = np.flatnonzero(weights > 0)
    classes, codes_of_used = np.unique(y[used], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"LogisticSearch needs samples of two classes; the data has one class: {classes.tolist()}"
        )
    weights, codes = weights.copy(), np.full(len(weights), -1)
    weights[used] *= class_weights(machine.class_weight, classes, codes_of_used, weights[used])[codes_of_used]
    codes[used] = codes_of_used
    return weights, codes


def _splits(
    cv: Splits | None, X: Any, y: NDArray[Any], codes: NDArray[np.int64], seed: int
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the rows of the training and the validation part of each split."""
    if cv is not None:
        return list(check_cv(cv, y, classifier=True).split(X, y))
    used = np.flatnonzero(codes >= 0)
    n, smallest_class = len(used), int(np.bincount(codes[used]).min())
    if smallest_class < 2:
        raise ValueError(
            "LogisticSearch chooses by validation samples, and needs at least two of every class; a "
            "class has one: fit LogisticPolytopes, or give cv"
        )
    folds = max(2, min(3 if n >= OPTIONS.three_folds_min_samples else 5, smallest_class))
    splitter: Any = StratifiedKFold(folds, shuffle=True, random_state=seed)
    if n >= OPTIONS.one_split_min_samples:
        splitter = StratifiedShuffleSplit(1, test_size=OPTIONS.validation_fraction, random_state=seed)
    return [(used[train], used[validation]) for train, validation in splitter.split(used, codes[used])]


def _parts(
    X: Any, codes: NDArray[np.int64], c: Array, penalty: FacePenaltyOfFeatures, *split: NDArray[Any]
) -> list[Part]:
    """Return the parts of a split, one for each pair of classes."""
    parts = []
    for pair in combinations(range(codes.max() + 1), 2):
        train, validation = (rows[np.isin(codes[rows], pair)] for rows in split)
        y = np.where(codes == pair[1], 1.0, -1.0)
        if len(np.unique(y[train])) < 2:
            raise ValueError("cv must leave samples of every class to train on")
        share = float(c[train].sum() / c[np.isin(codes, pair)].sum())
        training = FaceLoss(
            X[train], y[train], c[train], Owners(0, 1), 1.0, BIAS_RIDGE,
            replace(penalty, l1=share * penalty.l1, group=share * penalty.group),
        )  # fmt: skip
        parts.append(Part(training, X[validation], y[validation], c[validation], share))
    return parts
