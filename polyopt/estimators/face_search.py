"""How many faces: by cross-validation, or by leaving out those that do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from polyopt.estimators.declaration import estimator
from polyopt.estimators.search import ClassifierSearch

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray
    from sklearn.base import BaseEstimator

    from polyopt.estimators.faces import FaceClassifier
    from polyopt.estimators.given import SamplesLike, Splits

__all__ = ["FaceSearch"]

_HOW = ("cv", "prune")


@estimator
class FaceSearch(ClassifierSearch):
    """Choose the number of faces of a polyhedral classifier, and fit it with that many.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``n_faces``: :class:`Polyceptron`, :class:`SPLA1`, :class:`PCSLP`, :class:`PLUME` or
        :class:`ConvexPolytopeMachine`, with all other settings. A floor ``perplexity`` is the same share of
        the faces for every candidate as it is for the estimator's own ``n_faces``, and at least 1.
    n_faces : sequence of int, default=(1, 2, 3, 4, 6, 8)
        Candidates.
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
    best_estimator_ : estimator
        The classifier with the chosen number of faces, fitted to all data.
    n_faces_ : int
        That number.
    results_ : pandas.DataFrame
        "cv": one row per candidate, with the mean score, its standard error, and seconds of a fit.
        "prune": one row per fit, with the faces it had and those it needed.
    """

    estimator: BaseEstimator
    n_faces: Sequence[int] = (1, 2, 3, 4, 6, 8)
    _: KW_ONLY
    how: str = "cv"
    cv: Splits = 5
    n_jobs: int | None = None

    def _search(self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]) -> None:
        candidates = sorted({int(number) for number in self.n_faces})
        if not candidates or candidates[0] < 1:
            raise ValueError(f"n_faces must name numbers of at least 1, not {self.n_faces!r}")
        if self.how not in _HOW:
            raise ValueError(f"how must be 'cv' or 'prune', not {self.how!r}")
        if "n_faces" not in self.estimator.get_params():
            raise ValueError(f"estimator must have a parameter n_faces, which {self.estimator!r} has not")
        if y is None:
            raise ValueError("FaceSearch requires y to be passed, but the target y is None")
        search = self._by_scores if self.how == "cv" else self._by_pruning
        self.best_estimator_, self.results_ = search(candidates, X, y, weights)
        self.n_faces_ = int(self.best_estimator_.n_faces)

    def _settings(self, n_faces: int) -> dict[str, Any]:
        """The number of faces, and what must follow from it."""
        known = self.estimator.get_params()
        floor = known.get("perplexity", 1.0)
        if floor <= 1.0:
            return {"n_faces": n_faces}
        return {"n_faces": n_faces, "perplexity": max(1.0, floor * n_faces / known["n_faces"])}

    def _by_scores(
        self, candidates: list[int], X: SamplesLike, y: ArrayLike, weights: dict[str, Any]
    ) -> tuple[Any, pd.DataFrame]:
        import pandas as pd

        machine = clone(self.estimator)
        grid = [{name: [value] for name, value in self._settings(number).items()} for number in candidates]
        search = GridSearchCV(machine, grid, cv=self.cv, n_jobs=self.n_jobs, refit=False, error_score="raise")
        found = search.fit(X, y, **weights).cv_results_
        mean, error = found["mean_test_score"], found["std_test_score"] / np.sqrt(search.n_splits_)
        best = int(mean.argmax())
        chosen = candidates[int(np.argmax(mean >= mean[best] - error[best]))]
        table = pd.DataFrame(
            {"n_faces": candidates, "score": mean, "error": error, "seconds": found["mean_fit_time"]}
        )
        return machine.set_params(**self._settings(chosen)).fit(X, y, **weights), table

    def _by_pruning(
        self, candidates: list[int], X: SamplesLike, y: ArrayLike, weights: dict[str, Any]
    ) -> tuple[Any, pd.DataFrame]:
        import pandas as pd

        rows: list[dict[str, int]] = []
        needed = candidates[-1]
        while True:
            machine = clone(self.estimator).set_params(**self._settings(needed)).fit(X, y, **weights)
            rows.append({"n_faces": needed, "needed": len(needed_faces(machine))})
            fewer = max(rows[-1]["needed"], 1)  # a single face may do nothing, and is the least there is
            if fewer == needed:
                return machine, pd.DataFrame(rows)
            needed = fewer


def needed_faces(machine: FaceClassifier) -> NDArray[np.int64]:
    """The faces that bound the polytope and answer for a training sample outside.

    Parameters
    ----------
    machine : FaceClassifier
        Fitted, with one polytope and its training data.
    """
    return np.setdiff1d(machine.faces_outside(), np.flatnonzero(machine.polytope_.redundant))
