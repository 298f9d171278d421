"""The number of faces, the side, the ridge and the sparsity of logistic polytopes, searched together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import KW_ONLY
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from formulations.arguments import whole, whole_or_none
from formulations.class_faces import BIAS
from formulations.clock import run_is_over
from polyopt.estimators.declaration import estimator
from polyopt.estimators.hinges import Hinges
from polyopt.estimators.logistic_polytopes import LogisticPolytopes
from polyopt.estimators.logistic_splits import SplitSamples
from polyopt.estimators.search import Chosen, ClassifierSearch, machine_of, told_of
from polyopt.estimators.trials import fit_whole
from polyopt.outer.logistic_paths import Candidate, Paths
from polyopt.solvers.logistic_polytopes import sizes_down_to
from polyopt.solvers.progress import printer

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from polyopt.estimators.given import SamplesLike, Splits

    Array = NDArray[np.float64]

__all__ = ["LogisticSearch"]

_RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # times the weight of the samples
_KEPT, _THINNED = 3, 2  # structures that come to the second round and to the third
_LEAST = 4  # numbers for each face down to which weights go, where no number is given
_WORSE = 2.0  # standard errors by which the loss may be above the best before no more weights go

Structure = tuple[int, tuple[int, int]]  # knots, faces of each class


@estimator
class LogisticSearch(ClassifierSearch):
    """Choose the faces, the ridge, the knots and the number of weights by the log loss of samples held out.

    Three rounds. The first tries every structure along a path of ridges on the first split: one face (which
    is logistic regression), two faces for either class and for both, four, and so on up to `max_faces`,
    beyond four only while the loss falls by more than its standard error; with every number of knots in
    `n_knots`. The second tries the best three, and one face, on all splits. The third takes weights away from
    the best of them, those first that cost the least to lose. Points of a path begin where the last one
    ended. The best candidate with at most `max_numbers` numbers is fitted to all data and made stationary.

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
        feature, and ``best_estimator_`` is a pipeline of ``Hinges`` and the machine.
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
        check_classification_targets(y)
        whole("max_faces", self.max_faces)
        whole_or_none("max_numbers", self.max_numbers)
        whole("n_init", self.n_init)
        whole_or_none("budget", self.budget)
        machine = LogisticPolytopes() if self.estimator is None else clone(self.estimator)
        seed = int(check_random_state(machine.random_state).randint(2**31 - 1))
        bent = {count: _Bent(count) for count in _counts(self.n_knots)}
        cv = None if self.cv is None else check_cv(self.cv, y, classifier=True)
        problems = {
            count: SplitSamples(each.of(X), y, weights, machine, cv, seed) for count, each in bent.items()
        }
        problem = next(iter(problems.values()))
        paths = Paths(
            {count: each.splits for count, each in problems.items()},
            {count: each.numbers for count, each in bent.items()},
            seed, self.n_init, BIAS, machine.l1 / problem.unit, self.budget,
        )  # fmt: skip
        rounds = _Rounds(
            paths, problem.unit, problem.count, problem.first, self.max_faces, self.max_numbers, list(bent),
            printer(type(self).__name__) if self.verbose else None,
        )  # fmt: skip
        rounds.run()
        chosen = rounds.best()
        self.results_ = rounds.table()
        if chosen is None:
            chosen = Candidate((0, 1), _RIDGES[-1] * problem.unit, min(bent))
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
    """What a search that did not come to its end has, as a sentence."""
    if not tried:
        return told_of(0, 0, settings)
    whose = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{tried} candidates were tried; the machine is the best one's, {whose}, as far as it came."


class _Bent:
    """The samples with the hinges of so many knots of each feature."""

    def __init__(self, count: int):
        self.hinges = Hinges(count) if count else None
        self.numbers: Array | None = None

    def of(self, X: SamplesLike) -> Any:
        """Samples for the machine."""
        if self.hinges is None:
            return X
        made = self.hinges.fit_transform(X)
        self.numbers = self.hinges.numbers_
        return made

    def before(self, machine: LogisticPolytopes, weights: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """What is fitted to all samples, and what the weights are called in its fit."""
        if self.hinges is None:
            return machine, weights
        machine.count_knots(self.hinges.numbers_)
        named = {f"machine__{name}": values for name, values in weights.items()}
        return Pipeline([("hinges", self.hinges), ("machine", machine)]), named


def _counts(n_knots: int | Sequence[int]) -> list[int]:
    """The numbers of knots that are tried, each once."""
    given = [n_knots] if isinstance(n_knots, Integral) else n_knots
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or not len(given):
        raise ValueError(f"n_knots must be an integer of at least 0, or several, not {n_knots!r}")
    return sorted({whole("n_knots", count, 0) for count in given})


class _Rounds:
    """The three rounds."""

    def __init__(
        self, paths: Paths, unit: float, n_splits: int, first: int, max_faces: int, max_numbers: int | None,
        n_knots: Sequence[int], tell: Any,
    ):  # fmt: skip
        self.paths, self.unit, self.all, self.first = paths, unit, range(n_splits), [first]
        self.max_faces, self.max_numbers, self.tell = max_faces, max_numbers, tell
        self.n_knots = n_knots
        self.tried: list[Candidate] = []
        self.begun = time.perf_counter()

    def run(self) -> None:
        """All rounds, as far as the run and the budget go."""
        for structure in self._first():
            self._second(structure)
        for structure in self._best_structures(self.all, _THINNED):
            self._third(structure)

    def best(self) -> Candidate | None:
        """The best candidate that is small enough, of those tried on all splits, or else on the first one."""
        for splits in (self.all, self.first):
            small = [c for c in self.tried if self.paths.tried(c, splits) and self._is_small(c, splits)]
            if small:
                return min(small, key=lambda c: self.paths.loss(c, splits))
        return None

    def table(self) -> pd.DataFrame:
        """What was tried."""
        import pandas as pd

        rows = []
        for c in self.tried:
            # The part of a split that the first round has is told of where nothing else was tried.
            splits = [s for s in self.all if self.paths.tried(c, [s])] or self.first
            losses, weights = self.paths.losses(c, splits)
            rows.append(
                {
                    "faces_of_first": c.n_faces[0], "faces_of_second": c.n_faces[1], "ridge": c.ridge,
                    "knots": c.n_knots, "splits": len(splits), "numbers": self.paths.numbers(c, splits),
                    "log_loss": self.paths.loss(c, splits), "error": _standard_error(losses, weights),
                }
            )  # fmt: skip
        names = [
            "faces_of_first",
            "faces_of_second",
            "ridge",
            "knots",
            "splits",
            "numbers",
            "log_loss",
            "error",
        ]
        return pd.DataFrame(rows, columns=names)

    def _first(self) -> list[Structure]:
        """Every structure on the first split; beyond four faces only while the loss falls."""
        for n_knots in self.n_knots:
            faces, before = 1, None
            while faces <= self.max_faces:
                for n_faces in [(0, 1)] if faces == 1 else [(0, faces), (faces, 0), (faces, faces)]:
                    points = [Candidate(n_faces, ridge * self.unit, n_knots) for ridge in _RIDGES]
                    self._follow(points, self.first)
                best = self._best_of([c for c in self.tried if c.n_knots == n_knots], self.first)
                if faces > 4 and (best is None or before is None or not self._is_better(best, before)):
                    break
                faces, before = 2 * faces, best
        return self._best_structures(self.first, _KEPT)

    def _second(self, structure: Structure) -> None:
        """Ridges around the best on all splits."""
        own = self._best_of(self._of(structure), self.first)
        if own is not None:
            at = self._place(own)
            near = _RIDGES[max(at - 1, 0) : at + 2]
            self._follow([own._replace(ridge=ridge * self.unit) for ridge in near], self.all)

    def _third(self, structure: Structure) -> None:
        """Fewer and fewer weights, at the best ridge and at the one below it."""
        own = self._best_of(self._of(structure), self.all)
        if own is None:
            return
        for ridge in _RIDGES[max(self._place(own) - 1, 0) : self._place(own) + 1]:
            dense = own._replace(ridge=ridge * self.unit)
            if not self._follow([dense], self.all):
                return
            least = _LEAST * sum(own.n_faces) if self.max_numbers is None else self.max_numbers
            sizes = sizes_down_to(max(least // 2, 1), self.paths.numbers(dense, self.all))
            points, best = [dense], dense
            for size in sorted({*sizes[1:], least}, reverse=True):
                points.append(dense._replace(max_numbers=size))
                if not self._follow(points, self.all):
                    return
                best = min(best, points[-1], key=lambda c: self.paths.loss(c, self.all))
                if size < least and self._is_better(best, points[-1], _WORSE):
                    break

    def _of(self, structure: Structure) -> list[Candidate]:
        return [c for c in self.tried if (c.n_knots, c.n_faces) == structure and c.max_numbers is None]

    def _place(self, candidate: Candidate) -> int:
        return int(np.argmin([abs(candidate.ridge - ridge * self.unit) for ridge in _RIDGES]))

    def _follow(self, points: Sequence[Candidate], splits: Sequence[int]) -> bool:
        whole = self.paths.follow(points, splits)
        self.tried += [c for c in points if c not in self.tried and self.paths.tried(c, splits[:1])]
        if self.tell is not None:
            self.tell({"fit": self.paths.made, "seconds": time.perf_counter() - self.begun})
        return whole and not run_is_over()

    def _best_of(self, candidates: Sequence[Candidate], splits: Sequence[int]) -> Candidate | None:
        known = [c for c in candidates if self.paths.tried(c, splits)]
        return min(known, key=lambda c: self.paths.loss(c, splits), default=None)

    def _best_structures(self, splits: Sequence[int], count: int) -> list[Structure]:
        """The best ones, and the best of one face."""
        losses: dict[Structure, float] = {}
        for c in self.tried:
            if c.max_numbers is None and self.paths.tried(c, splits):
                key, loss = (c.n_knots, c.n_faces), self.paths.loss(c, splits)
                losses[key] = min(loss, losses.get(key, loss))
        ranked = sorted(losses, key=lambda each: losses[each])
        single = [each for each in ranked if each[1] == (0, 1)]
        return ranked[:count] + [each for each in single[:1] if each not in ranked[:count]]

    def _is_better(self, one: Candidate, other: Candidate, errors: float = 1.0) -> bool:
        """Whether the loss is lower by more than so many standard errors of the difference."""
        splits = (
            self.all if self.paths.tried(one, self.all) and self.paths.tried(other, self.all) else self.first
        )
        (mine, weights), (theirs, _) = (self.paths.losses(c, splits) for c in (one, other))
        gain = float((theirs - mine) @ weights / weights.sum())
        return gain > errors * _standard_error(theirs - mine, weights)

    def _is_small(self, candidate: Candidate, splits: Sequence[int]) -> bool:
        return self.max_numbers is None or self.paths.numbers(candidate, splits) <= self.max_numbers


def _standard_error(values: Array, weights: Array) -> float:
    """Of the weighted mean."""
    share = weights / weights.sum()
    mean = float(share @ values)
    return float(np.sqrt(share**2 @ (values - mean) ** 2))
