"""The number of faces, chosen by cross-validation or by leaving out faces that do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from polyopt.base.progress import steps
from polyopt.base.types import SamplesLike, Splits
from polyopt.estimators.parameters import estimator
from polyopt.estimators.search import Chosen, ClassifierSearch, Table, Trials, fit_whole, told_of

if TYPE_CHECKING:
    from polyopt.estimators.faces import FaceClassifier

_HOW = ("cv", "prune")
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # faces that "auto" tries in turn


@estimator
class FaceSearch(ClassifierSearch):
    """Choose the number of faces of a polyhedral classifier, and fit it with that many.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``n_faces``: :class:`Polyceptron`, :class:`SPLA1`, :class:`PCSLP`, :class:`PLUME` or
        :class:`ConvexPolytopeMachine`, with all other settings. A floor ``perplexity`` is the same share of
        the faces for every candidate as it is for the estimator's own ``n_faces``, and at least 1.
    n_faces : sequence of int or "auto", default=(1, 2, 3, 4, 6, 8)
        Candidates. "auto" ("cv" alone) grows the number by half as long as it pays: until two numbers in a
        row are no better than the best before them by its standard error.
    how : {"cv", "prune"}, default="cv"
        "cv" takes the smallest number whose mean score in cross-validation is within one standard error of
        the best. "prune" fits the largest number, counts the faces that bound the polytope and answer for
        a training sample outside, fits as many, and again until all are needed (two classes, one polytope).
    cv : int, splitter or iterable, default=5
        As in :class:`sklearn.model_selection.GridSearchCV` ("cv").
    n_jobs : int, optional
        Fits made at once, as joblib counts ("cv").

    Attributes
    ----------
    n_faces_ : int
        The number of faces that was chosen.
    results_ : pandas.DataFrame
        "cv": one row per candidate that was tried whole, with the mean score, its standard error, and
        seconds of a fit.
        "prune": one row per fit, with the faces it had and those it needed.

    Examples
    --------
    >>> from polyopt import ConvexPolytopeMachine, FaceSearch, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = ConvexPolytopeMachine(inside_label=1, random_state=0)
    >>> search = FaceSearch(machine, n_faces=(1, 2), cv=2).fit(data.X, data.y)
    >>> search.n_faces_ in (1, 2)
    True
    """

    estimator: BaseEstimator
    n_faces: Sequence[int] | str = (1, 2, 3, 4, 6, 8)
    _: KW_ONLY
    how: str = "cv"
    cv: Splits = 5

    def _search(self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]) -> Chosen:
        if self.how not in _HOW:
            raise ValueError(f"how must be 'cv' or 'prune', not {self.how!r}")
        grows = isinstance(self.n_faces, str) and self.n_faces == "auto"
        if grows and self.how == "prune":
            raise ValueError("how='prune' begins with the largest of n_faces: give numbers, not 'auto'")
        if isinstance(self.n_faces, str) and not grows:
            raise ValueError(f"n_faces must be 'auto' or name numbers of at least 1, not {self.n_faces!r}")
        candidates = list(_SIZES) if grows else sorted({int(number) for number in self.n_faces})
        if not candidates or candidates[0] < 1:
            raise ValueError(f"n_faces must name numbers of at least 1, not {self.n_faces!r}")
        if "n_faces" not in self.estimator.get_params():
            raise ValueError(f"estimator must have a parameter n_faces, which {self.estimator!r} has not")
        return (self._by_scores if self.how == "cv" else self._by_pruning)(candidates, X, y, weights)

    def _settings(self, n_faces: int) -> dict[str, Any]:
        """Return the parameters for so many faces: a floor of the perplexity follows their number."""
        known = self.estimator.get_params()
        floor = known.get("sgd__perplexity", 1.0)
        if floor <= 1.0:
            return {"n_faces": n_faces}
        return {"n_faces": n_faces, "sgd__perplexity": max(1.0, floor * n_faces / known["n_faces"])}

    def _by_scores(
        self, candidates: list[int], X: SamplesLike, y: ArrayLike, weights: dict[str, Any]
    ) -> Chosen:
        import pandas as pd

        machine = clone(self.estimator)
        name, settings = type(self).__name__, [self._settings(number) for number in candidates]
        trials = Trials(name, X, y, weights, cv=self.cv, n_jobs=self.n_jobs, verbose=self.verbose)
        with trials.counting(len(candidates)):
            grow = self._grown if isinstance(self.n_faces, str) else Trials.table
            found = grow(trials, machine, settings)
            mean, error = found.mean, found.deviation / np.sqrt(trials.n_splits)
            least = mean.max(initial=0.0) - (error[mean.argmax()] if len(mean) else 0.0)
            place = int(np.argmax(mean >= least)) if len(mean) else 0
            chosen = int(found.numbers[place]) if len(mean) else 0
            machine.set_params(**settings[chosen])
            whole = trials.last(machine) if len(mean) else None
        self.results_ = pd.DataFrame(
            {
                "n_faces": [candidates[k] for k in found.numbers],
                "score": mean, "error": error, "seconds": found.seconds,
            }
        )  # fmt: skip
        self.n_faces_ = candidates[chosen]
        told = told_of(len(mean), len(candidates), settings[chosen])
        return Chosen(whole, found.machines.get(chosen), machine, told)

    @staticmethod
    def _grown(trials: Trials, machine: BaseEstimator, settings: list[dict[str, Any]]) -> Table:
        """Try one candidate after the other, until two in a row do not pay."""
        tables: list[Table] = []
        best, error, idle = -np.inf, 0.0, 0
        for one in settings:
            found = trials.table(machine, [one])
            if not len(found.numbers):  # the run is over
                break
            tables.append(found)
            score = float(found.mean[0])
            idle = 0 if score > best + error else idle + 1
            if idle == 2:
                break
            if score > best:
                best, error = score, float(found.deviation[0]) / np.sqrt(trials.n_splits)
        return Table(
            np.arange(len(tables)),
            np.concatenate([np.empty((0, trials.n_splits)), *(table.scores for table in tables)]),
            np.array([float(table.seconds[0]) for table in tables]),
            {k: table.machines[0] for k, table in enumerate(tables)},
        )

    def _by_pruning(
        self, candidates: list[int], X: SamplesLike, y: ArrayLike, weights: dict[str, Any]
    ) -> Chosen:
        import pandas as pd

        rows: list[dict[str, int]] = []
        kept = None
        needed = candidates[-1]
        with steps(needed, "fit") as loop:
            while True:
                title = f"{type(self).__name__}, {needed} face{'s' if needed > 1 else ''}"
                machine = clone(self.estimator).set_params(**self._settings(needed))
                whole = fit_whole(machine, X, y, weights, title, self.verbose)
                loop.done()
                if whole is None:
                    break
                kept, self.n_faces_ = whole, needed
                rows.append({"n_faces": needed, "needed": len(needed_faces(machine))})
                fewer = max(rows[-1]["needed"], 1)  # a single face may do nothing, and is the least there is
                if fewer == needed:
                    break
                needed = fewer
        self.results_ = pd.DataFrame(rows, columns=["n_faces", "needed"])
        if kept is None:
            self.n_faces_, kept = needed, machine if hasattr(machine, "classes_") else None
        last = f"the last of {len(rows)} whole fits" if rows else "no fit was whole, and this one"
        told = f"The machine has {self.n_faces_} faces: {last}; those that it does not need are not known."
        return Chosen(whole, kept, machine, told)


def needed_faces(machine: FaceClassifier) -> NDArray[np.int64]:
    """Return the faces that bound the polytope and answer for a training sample outside."""
    return np.setdiff1d(machine.faces_outside(), np.flatnonzero(machine.polytope_.redundant))
