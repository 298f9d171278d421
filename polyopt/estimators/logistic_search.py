"""The number of faces, the side, the ridge and the sparsity of logistic polytopes, searched together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from formulations.arguments import whole, whole_or_none
from formulations.class_faces import BIAS
from formulations.clock import run_is_over
from polyopt.estimators.declaration import estimator
from polyopt.estimators.logistic_polytopes import LogisticPolytopes
from polyopt.estimators.logistic_splits import SplitSamples
from polyopt.estimators.search import Chosen, ClassifierSearch, told_of
from polyopt.estimators.trials import fit_whole
from polyopt.outer.logistic_paths import Candidate, Paths
from polyopt.solvers.progress import printer

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from polyopt.estimators.given import SamplesLike, Splits

    Array = NDArray[np.float64]

__all__ = ["LogisticSearch"]

_RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # times the weight of the samples
_PRICES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # the same; they go on, tripled, until few enough numbers are left
_LAST_PRICE, _HALVINGS = (
    1.0,
    2,
)  # the highest, and how often prices are halved where numbers become few enough
_KEPT, _PRICED = 3, 2  # structures that come to the second round and to the third
_DEARER, _MOST_DEARER = (
    1.15,
    60,
)  # by how much, and how often, the price is raised where the last fit is too large


@estimator
class LogisticSearch(ClassifierSearch):
    """Choose the faces, the ridge and the price of logistic polytopes by the log loss of samples held out.

    Three rounds. The first tries every structure along a path of ridges on the first split: one face (which
    is logistic regression), two faces for either class and for both, four, and so on up to `max_faces`,
    beyond four only while the loss falls by more than its standard error. The second tries the best three,
    and one face, on all splits. The third raises the price of the weights from the best of them, so that
    weights become 0. Points of a path begin where the last one ended. The best candidate with at most
    `max_numbers` weights and biases that are not 0 is fitted to all data and made stationary.

    Parameters
    ----------
    estimator : LogisticPolytopes, optional
        The machine, with all other settings; by default ``LogisticPolytopes()``.
    max_faces : int, default=4
        Faces of either class at most.
    max_numbers : int, optional
        Weights and biases other than 0 at most, over all pairs of classes; by default any number.
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
        Its n_faces, ridge and l1.
    results_ : pandas.DataFrame
        One row per candidate that was tried: the faces of each class, ridge, l1, the splits it was tried on,
        its numbers other than 0, the mean log loss of the samples held out and its standard error.
    n_numbers_ : int
        Weights and biases of the chosen machine that are not 0.
    """

    estimator: LogisticPolytopes | None = None
    _: KW_ONLY
    max_faces: int = 4
    max_numbers: int | None = None
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
        problem = SplitSamples(X, y, weights, machine, self.cv, seed)
        rounds = _Rounds(
            Paths(problem.splits, seed, self.n_init, BIAS, self.budget), problem.unit, problem.count,
            problem.first, self.max_faces, self.max_numbers,
            printer(type(self).__name__) if self.verbose else None,
        )  # fmt: skip
        rounds.run()
        chosen = rounds.best()
        self.results_ = rounds.table()
        if chosen is None:
            chosen = Candidate((0, 1), _RIDGES[-1] * problem.unit)
        settings = {"n_faces": chosen.n_faces, "ridge": chosen.ridge, "l1": chosen.l1}
        machine.set_params(**settings)
        for split in (0, problem.first):
            if len(problem.splits[0]) == 1 and rounds.paths.tried(chosen, [split]):
                machine.begin_at(rounds.paths.faces(chosen, split)[0])
                break
        found = fit_whole(machine, X, y, weights, type(self).__name__, self.verbose)
        found = None if found is None else self._small_enough(found, X, y, weights)
        kept = machine if found is None and hasattr(machine, "solution_") else None
        self.best_params_ = {name: getattr(found or machine, name) for name in settings}
        return Chosen(found, kept, machine, _told(len(self.results_), settings))

    def _small_enough(
        self, machine: LogisticPolytopes, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]
    ) -> LogisticPolytopes | None:
        """The machine at a price at which it has no more numbers than it may; None where the run was over."""
        for _ in range(_MOST_DEARER):
            if self.max_numbers is None or machine.n_numbers_ <= self.max_numbers:
                return machine
            price = max(machine.l1, _PRICES[0] * machine.ridge) * _DEARER
            dearer = clone(machine).set_params(l1=price, n_init=1)
            if machine.holds_one_problem:
                dearer.begin_at(machine.solution_["W"])
            found = fit_whole(dearer, X, y, weights, type(self).__name__, self.verbose)
            if found is None:
                return None
            machine = found
        return machine

    @property
    def n_numbers_(self) -> int:
        """Weights and biases of the chosen machine that are not 0."""
        return int(self.best_estimator_.n_numbers_)

    @property
    def _answering(self) -> object:
        return getattr(self, "best_estimator_", self.estimator or LogisticPolytopes())


def _told(tried: int, settings: dict[str, Any]) -> str:
    """What a search that did not come to its end has, as a sentence."""
    if not tried:
        return told_of(0, 0, settings)
    whose = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{tried} candidates were tried; the machine is the best one's, {whose}, as far as it came."


class _Rounds:
    """The three rounds."""

    def __init__(
        self, paths: Paths, unit: float, n_splits: int, first: int, max_faces: int, max_numbers: int | None,
        tell: Any,
    ):  # fmt: skip
        self.paths, self.unit, self.all, self.first = paths, unit, range(n_splits), [first]
        self.max_faces, self.max_numbers, self.tell = max_faces, max_numbers, tell
        self.tried: list[Candidate] = []
        self.begun = time.perf_counter()

    def run(self) -> None:
        """All rounds, as far as the run and the budget go."""
        structures = self._first()
        for n_faces in structures:
            self._second(n_faces)
        for n_faces in self._best_structures(self.all, _PRICED):
            self._third(n_faces)

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
                    "l1": c.l1, "splits": len(splits), "numbers": self.paths.numbers(c, splits),
                    "log_loss": self.paths.loss(c, splits), "error": _standard_error(losses, weights),
                }
            )  # fmt: skip
        names = ["faces_of_first", "faces_of_second", "ridge", "l1", "splits", "numbers", "log_loss", "error"]
        return pd.DataFrame(rows, columns=names)

    def _first(self) -> list[tuple[int, int]]:
        """Every structure on the first split; beyond four faces only while the loss falls."""
        faces, before = 1, None
        while faces <= self.max_faces:
            for n_faces in [(0, 1)] if faces == 1 else [(0, faces), (faces, 0), (faces, faces)]:
                self._follow([Candidate(n_faces, ridge * self.unit) for ridge in _RIDGES], self.first)
            best = self._best_of(self.tried, self.first)
            if faces > 4 and (best is None or before is None or not self._is_better(best, before)):
                break
            faces, before = 2 * faces, best
        return self._best_structures(self.first, _KEPT)

    def _second(self, n_faces: tuple[int, int]) -> None:
        """Ridges around the best on all splits."""
        own = self._best_of([c for c in self.tried if c.n_faces == n_faces], self.first)
        if own is not None:
            at = int(np.argmin([abs(own.ridge - ridge * self.unit) for ridge in _RIDGES]))
            near = _RIDGES[max(at - 1, 0) : at + 2]
            self._follow([Candidate(n_faces, ridge * self.unit) for ridge in near], self.all)

    def _third(self, n_faces: tuple[int, int]) -> None:
        """Prices from the best ridge, and from the one below it."""
        own = self._best_of([c for c in self.tried if c.n_faces == n_faces], self.all)
        if own is None:
            return
        at = int(np.argmin([abs(own.ridge - ridge * self.unit) for ridge in _RIDGES]))
        for ridge in _RIDGES[max(at - 1, 0) : at + 1]:
            points, price, is_small = [Candidate(n_faces, ridge * self.unit)], 0.0, False
            while not is_small or len(points) <= len(_PRICES):
                more = [p for p in _PRICES if p > price * 1.01]
                price = more[0] if more else 3.0 * price
                points.append(Candidate(n_faces, ridge * self.unit, price * self.unit))
                if price > _LAST_PRICE or not self._follow(points, self.all):
                    return
                is_small = self._is_small(points[-1], self.all)
            self._between(points)

    def _between(self, points: list[Candidate]) -> None:
        """Prices between the first that leaves few enough numbers, and the one before it."""
        at = next(number for number, point in enumerate(points) if self._is_small(point, self.all))
        if at == 0:
            return
        before, small = points[:at], points[at]
        for _ in range(_HALVINGS):
            least = before[-1].l1 or small.l1 / 10.0
            middle = small._replace(l1=float(np.sqrt(least * small.l1)))
            if not self._follow([*before, middle], self.all):
                return
            if self._is_small(middle, self.all):
                small = middle
            else:
                before = [*before, middle]

    def _follow(self, points: Sequence[Candidate], splits: Sequence[int]) -> bool:
        whole = self.paths.follow(points, splits)
        self.tried += [c for c in points if c not in self.tried and self.paths.tried(c, splits[:1])]
        if self.tell is not None:
            self.tell({"fit": self.paths.made, "seconds": time.perf_counter() - self.begun})
        return whole and not run_is_over()

    def _best_of(self, candidates: Sequence[Candidate], splits: Sequence[int]) -> Candidate | None:
        known = [c for c in candidates if self.paths.tried(c, splits)]
        return min(known, key=lambda c: self.paths.loss(c, splits), default=None)

    def _best_structures(self, splits: Sequence[int], count: int) -> list[tuple[int, int]]:
        """The best ones, and one face."""
        known = {c.n_faces for c in self.tried if self.paths.tried(c, splits)}
        losses = {
            n: min(
                self.paths.loss(c, splits)
                for c in self.tried
                if c.n_faces == n and self.paths.tried(c, splits)
            )
            for n in known
        }
        best = sorted(losses, key=lambda n: losses[n])[:count]
        return best + [(0, 1)] * ((0, 1) in known and (0, 1) not in best)

    def _is_better(self, one: Candidate, other: Candidate) -> bool:
        """Whether the loss is lower by more than the standard error of the difference."""
        (mine, weights), (theirs, _) = (self.paths.losses(c, self.first) for c in (one, other))
        gain = float((theirs - mine) @ weights / weights.sum())
        return gain > _standard_error(theirs - mine, weights)

    def _is_small(self, candidate: Candidate, splits: Sequence[int]) -> bool:
        return self.max_numbers is None or self.paths.numbers(candidate, splits) <= self.max_numbers


def _standard_error(values: Array, weights: Array) -> float:
    """Of the weighted mean."""
    share = weights / weights.sum()
    mean = float(share @ values)
    return float(np.sqrt(share**2 @ (values - mean) ** 2))
