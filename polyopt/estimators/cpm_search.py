"""The CPM paper's way to choose C and the entropy floor."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit

from polyopt.estimators.cpm import ConvexPolytopeMachine
from polyopt.estimators.declaration import estimator
from polyopt.estimators.search import ClassifierSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import ArrayLike

    from polyopt.estimators.given import SamplesLike, Splits

__all__ = ["PolytopeSearch"]

_COSTS = (0.001, 0.01, 0.1, 1.0, 10.0)  # C, as tried by default
_SHARES = np.arange(1, 10) / 10  # of K: the paper's floors h = ln(jK/10)


@estimator
class PolytopeSearch(ClassifierSearch):
    """Choose the cost first, without an entropy floor, then the floor at that cost; refit on everything.

    As in section 5.1 of [1]_: a grid of λ (here of C = 2/(nλ)) with Algorithm 2 switched off, then the
    floors h = ln(jK/10) at the best of them. Nine costs and nine floors take 18 fits, not 81. Of equal
    scores the smaller cost, and the lower floor, wins.

    Parameters
    ----------
    estimator : ConvexPolytopeMachine, optional
        The machine, with all other settings; by default ``ConvexPolytopeMachine(solver="sgd")``.
    costs : sequence of float
        Candidates for C.
    perplexities : sequence of float, optional
        Candidates for the floor; by default those of the paper: jK/10 where that is above 1. No floor
        is always among them.
    cv : int, splitter or iterable, optional
        As in :class:`sklearn.model_selection.GridSearchCV`; by default one stratified split that holds
        out a fifth, by the machine's ``random_state`` where that is an int.
    n_jobs : int, optional
        Fits made at once, as joblib counts.

    Attributes
    ----------
    best_estimator_ : ConvexPolytopeMachine
        The machine with the chosen settings, fitted to all data.
    best_params_ : dict
        Its C and perplexity.
    results_ : pandas.DataFrame
        One row per candidate: stage ("cost" or "floor"), C, perplexity, mean and deviation of the error
        on the samples held out, and seconds of a fit.

    References
    ----------
    .. [1] Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope
       Machine, 2014.
    """

    estimator: ConvexPolytopeMachine | None = None
    _: KW_ONLY
    costs: Sequence[float] = _COSTS
    perplexities: Sequence[float] | None = None
    cv: Splits | None = None
    n_jobs: int | None = None

    def _search(self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]) -> None:
        import pandas as pd

        machine = ConvexPolytopeMachine(solver="sgd") if self.estimator is None else self.estimator
        machine = clone(machine).set_params(perplexity=1.0)
        K = machine.n_faces
        floors = K * _SHARES if self.perplexities is None else np.asarray(self.perplexities, dtype=float)
        if not len(self.costs):
            raise ValueError("costs must name at least one candidate for C")
        cost, first = self._stage(machine, {"C": sorted(self.costs)}, X, y, weights)
        machine.set_params(**cost)
        floor, second = self._stage(
            machine, {"perplexity": [1.0, *sorted(floors[floors > 1.0])]}, X, y, weights
        )
        stages = [first.assign(stage="cost", perplexity=1.0), second.assign(stage="floor", C=cost["C"])]
        columns = ["stage", "C", "perplexity", "error", "deviation", "seconds"]
        self.results_ = pd.concat(stages, ignore_index=True)[columns]
        self.best_params_ = {**cost, **floor}
        self.best_estimator_ = machine.set_params(**floor).fit(X, y, **weights)

    def _stage(
        self,
        machine: ConvexPolytopeMachine,
        grid: dict[str, list[float]],
        X: SamplesLike,
        y: ArrayLike,
        weights: dict[str, Any],
    ) -> tuple[dict[str, float], pd.DataFrame]:
        """The best of one grid, and the errors of all of it."""
        import pandas as pd

        seed = machine.random_state if isinstance(machine.random_state, int | np.integer) else 0
        split = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed) if self.cv is None else self.cv
        search = GridSearchCV(machine, grid, cv=split, n_jobs=self.n_jobs, refit=False, error_score="raise")
        search.fit(X, y, **weights)
        found = search.cv_results_
        (name,) = grid
        table = pd.DataFrame(
            {
                name: np.asarray(found[f"param_{name}"], dtype=float),
                "error": 1.0 - found["mean_test_score"],
                "deviation": found["std_test_score"],
                "seconds": found["mean_fit_time"],
            }
        )
        return search.best_params_, table
