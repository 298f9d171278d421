"""The number of faces, the side, the ridge and the sparsity of logistic polytopes, searched together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from itertools import combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_X_y

from formulations.class_faces import BIAS
from formulations.language.arguments import refuse_masked, whole, whole_or_none
from formulations.language.types import canonical, check_indices
from polyopt.base.progress import printer
from polyopt.base.types import SamplesLike, Splits
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.estimators.hinges import Hinges
from polyopt.estimators.parameters import estimator
from polyopt.estimators.search import Chosen, ClassifierSearch, fit_whole, machine_of, told_of
from polyopt.estimators.validation import checked_weights, class_weights, explained, validated
from polyopt.polyhedral.logistic_estimator import LogisticPolytopes
from polyopt.polyhedral.logistic_paths import Candidate, Paths, Split
from polyopt.polyhedral.logistic_rounds import RIDGES, SearchRounds

if TYPE_CHECKING:
    Array = NDArray[np.float64]
    Numbers = NDArray[np.int64]

_MAX_FIRST_ROUND = 3000  # samples that the first round trains on
_ONE_SPLIT_SAMPLES, _THREE_FOLD_SAMPLES = 3000, 1000  # from which one split, or three folds, suffice


@estimator
class LogisticSearch(ClassifierSearch):
    """Choose the faces, the ridge, the knots and the number of weights by the log loss of samples held out.

    Three rounds. The first tries every structure along a path of ridges on the first split: one face (which
    is logistic regression), two faces for either class and for both, four, and so on up to `max_faces`,
    beyond four only while the loss falls by more than its standard error; with every number of knots in
    `n_knots`. The second tries the best three, and the best of one face and of every number of knots, on all
    splits. The third takes weights away from the best of them, those first that cost the least to lose.
    Points of a path begin where the last one ended. Of the candidates with at most `max_numbers` numbers the
    best one is fitted to all data and made stationary: the best without knots where it is not worse by more
    than a standard error, and of its path the one with the most weights of which that is true.

    Parameters
    ----------
    estimator : LogisticPolytopes, optional
        The machine, with all other settings; by default ``LogisticPolytopes()``.
    max_faces : int, default=4
        Faces of either class at most.
    max_numbers : int, optional
        Weights and biases other than 0, and knots in use, at most, over all pairs of classes; by default any
        number.
    n_knots : int or sequence of int, default=0
        Knots of each feature that are tried (:class:`Hinges`). With more than 0 the faces may bend with every
        feature, and ``best_estimator_`` is a pipeline of ``Hinges`` and the machine. With a feature that has
        a sign to keep (`penalty__signs` of the machine) they bend one way only.
    n_init : int, default=1
        Starts of each path; the last fit has those of the machine as well.
    budget : int, optional
        Fits at most, the points of the paths on each split; by default what the rounds take.
    cv : int, splitter or iterable, optional
        As in :class:`sklearn.model_selection.GridSearchCV`; by default five stratified folds, three from
        1,000 samples on, and one split that holds out a quarter from 3,000 on.

    Attributes
    ----------
    best_params_ : dict
        Its n_faces, ridge, max_numbers and n_knots.
    results_ : pandas.DataFrame
        One row per candidate that was tried: the faces of each class, ridge, knots of a feature, the splits
        it was tried on, its numbers other than 0, the mean log loss of the samples held out and its standard
        error.
    n_numbers_ : int
        Weights and biases of the chosen machine that are not 0, and knots in use.

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
    _: KW_ONLY
    max_faces: int = 4
    max_numbers: int | None = None
    n_knots: int | Sequence[int] = 0
    n_init: int = 1
    budget: int | None = None
    cv: Splits | None = None

    def _search(self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]) -> Chosen:
        whole("max_faces", self.max_faces)
        whole_or_none("max_numbers", self.max_numbers)
        whole("n_init", self.n_init)
        whole_or_none("budget", self.budget)
        machine = LogisticPolytopes() if self.estimator is None else clone(self.estimator)
        seed = int(check_random_state(machine.random_state).randint(2**31 - 1))
        penalty = machine.penalty or FacePenalty()
        own = _kept_of(machine, X)
        bent = {count: _Bent(count, *own) for count in _counts(self.n_knots)}
        cv = None if self.cv is None else check_cv(self.cv, y, classifier=True)
        problems = {
            count: SplitSamples(each.of(X), y, weights, machine, cv, seed) for count, each in bent.items()
        }
        problem = next(iter(problems.values()))
        paths = Paths(
            {count: each.splits for count, each in problems.items()},
            {count: each.numbers for count, each in bent.items()},
            {count: each.signs for count, each in bent.items()},
            {count: each.groups for count, each in bent.items()},
            seed, self.n_init, BIAS, (penalty.l1, penalty.group), self.budget,
        )  # fmt: skip
        rounds = SearchRounds(
            paths, problem.unit, problem.count, problem.first, self.max_faces, self.max_numbers, list(bent),
            printer(type(self).__name__) if self.verbose else None,
        )  # fmt: skip
        rounds.run()
        chosen = rounds.best()
        self.results_ = rounds.table()
        if chosen is None:
            chosen = Candidate((0, 1), RIDGES[-1] * problem.unit, min(bent))
        most = self.max_numbers if chosen.max_numbers is None else chosen.max_numbers
        settings = {"n_faces": chosen.n_faces, "ridge": chosen.ridge, "max_numbers": most}
        self.best_params_ = {**settings, "n_knots": chosen.n_knots}
        machine.set_params(**settings)
        begin = chosen._replace(max_numbers=None)
        for split in (0, problem.first):
            if len(problem.splits[0]) == 1 and paths.tried(begin, [split]):
                machine.begin_at(paths.faces(begin, split)[0])
                break
        whole_machine, named = bent[chosen.n_knots].before(machine, weights)
        found = fit_whole(whole_machine, X, y, named, type(self).__name__, self.verbose)
        kept = whole_machine if found is None and hasattr(machine, "solution_") else None
        return Chosen(found, kept, whole_machine, _told(len(self.results_), self.best_params_))

    @property
    def n_numbers_(self) -> int:
        """Weights and biases of the chosen machine that are not 0, and knots in use."""
        return int(machine_of(self.best_estimator_).n_numbers_)

    @property
    def _answering(self) -> object:
        return getattr(self, "best_estimator_", self.estimator or LogisticPolytopes())


def _told(tried: int, settings: dict[str, Any]) -> str:
    """Say how many candidates were tried, and the parameters of the machine that is kept."""
    if not tried:
        return told_of(0, 0, settings)
    whose = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{tried} candidates were tried; the machine is the best one's, {whose}, as far as it came."


def _kept_of(machine: LogisticPolytopes, X: SamplesLike) -> tuple[Numbers | None, Numbers | None]:
    """Return the sign that the log-odds keep with each feature, and its group, by name if X has names."""
    penalty = machine.penalty or FacePenalty()
    if (
        not (penalty.signs is not None or penalty.group > 0.0) or np.ndim(X) != 2
    ):  # what is no table is refused with the samples
        return None, None
    validated(machine, X, skip_check_array=True)
    found = machine._penalty_terms(machine.n_features_in_)
    return found["signs"], found["groups"]


class _Bent:
    """The samples with the hinges of `count` knots of each feature."""

    def __init__(self, count: int, signs: Numbers | None, groups: Numbers | None):
        self.hinges = Hinges(count).set_output(transform="default") if count else None
        self.signs, self.groups = signs, groups
        self.numbers: Array | None = None

    def of(self, X: SamplesLike) -> Any:
        """Return samples for the machine."""
        if self.hinges is None:
            return X
        made = self.hinges.fit_transform(X)
        self.numbers = self.hinges.numbers_
        counts = [len(knots) for knots in self.hinges.knots_]
        self.signs, self.groups = (
            None if each is None else np.concatenate([each, np.repeat(each, counts)])
            for each in (self.signs, self.groups)
        )
        return made

    def before(self, machine: LogisticPolytopes, weights: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the estimator that is fitted to all samples, and the weights by their names in its fit."""
        if self.hinges is None:
            return machine, weights
        machine.count_knots(self.hinges.numbers_)
        if self.signs is not None:
            machine.set_params(penalty__signs=self.signs)
        if self.groups is not None:
            machine.set_params(penalty__feature_groups=self.groups)
        named = {f"machine__{name}": values for name, values in weights.items()}
        return Pipeline([("hinges", self.hinges), ("machine", machine)]), named


def _counts(n_knots: int | Sequence[int]) -> list[int]:
    """Return the numbers of knots that are tried, each once."""
    given = [n_knots] if isinstance(n_knots, Integral) else n_knots
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or not len(given):
        raise ValueError(f"n_knots must be an integer of at least 0, or several, not {n_knots!r}")
    return sorted({whole("n_knots", count, 0) for count in given})


# -- the splits ------------------------------------------------------------------------------------------


class SplitSamples:
    """The samples of each split, a binary problem for each pair of classes.

    ``splits`` has `count` splits and, if the first of them has many samples, one more with a part of them;
    ``first`` is the number of the split of the first round, and ``unit`` the weight of the samples.
    """

    def __init__(
        self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any], machine: LogisticPolytopes,
        cv: BaseCrossValidator | None, seed: int,
    ):  # fmt: skip
        refuse_masked("X", X)
        check_indices(X)
        refuse_masked("y", y)
        name = "LogisticSearch"
        with explained(name, X, y):
            samples, labels = check_X_y(X, y, accept_sparse="csr", dtype=np.float64, estimator=name)
        samples = canonical(samples)
        mass = np.array(checked_weights(weights.get("sample_weight"), samples))
        used = mass > 0  # a sample without weight is left out, and so is a class that has no other
        classes, codes = np.unique(labels[used], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"LogisticSearch needs samples of two classes; the data has one class: {classes.tolist()}"
            )
        mass[used] *= class_weights(machine.class_weight, classes, codes, mass[used])[codes]
        numbers = np.full(len(mass), -1)
        numbers[used] = codes
        codes = numbers
        pairs = list(combinations(range(len(classes)), 2))
        masses = [mass[np.isin(codes, pair)].sum() for pair in pairs]
        self.unit = float(np.mean(masses))
        places = np.flatnonzero(used)
        if cv is None:
            own = _splitter(codes[used], seed).split(places, codes[used])
            pieces = [(places[train], places[held]) for train, held in own]
        else:
            pieces = list(cv.split(samples, labels))
        self.count = len(pieces)
        # The first round needs no more samples than tell structures apart.
        train, held = pieces[0]
        if len(train) > _MAX_FIRST_ROUND:
            pieces.append((np.random.default_rng(seed).permutation(train)[:_MAX_FIRST_ROUND], held))
        self.first = len(pieces) - 1 if len(pieces) > self.count else 0
        self.splits = [
            [
                _split(samples, codes, mass, pair, train, held, total)
                for pair, total in zip(pairs, masses, strict=True)
            ]
            for train, held in pieces
        ]


def _splitter(codes: NDArray[np.intp], seed: int) -> Any:
    n, fewest = len(codes), int(np.bincount(codes).min())
    if fewest < 2:
        raise ValueError(
            "LogisticSearch chooses by samples held out, and needs at least two of every class; a class "
            "has one: fit LogisticPolytopes, or give cv"
        )
    if n >= _ONE_SPLIT_SAMPLES:
        return StratifiedShuffleSplit(1, test_size=0.25, random_state=seed)
    return StratifiedKFold(
        max(2, min(3 if n >= _THREE_FOLD_SAMPLES else 5, fewest)), shuffle=True, random_state=seed
    )


def _split(
    X: Any, codes: NDArray[np.intp], mass: Array, pair: tuple[int, int], train: Array, held: Array,
    total: float,
) -> Split:  # fmt: skip
    """Return the binary problem of a pair of classes on one split."""
    parts = []
    for rows in (train, held):
        mine = rows[np.isin(codes[rows], pair)]
        parts.append((X[mine], np.where(codes[mine] == pair[1], 1.0, -1.0), mass[mine]))
    (A, y, c), out = parts
    if len(np.unique(y)) < 2:
        raise ValueError("cv must leave samples of every class to train on")
    return Split(A, y, c, out, float(c.sum() / total))
