"""The CPM paper's way to choose C and the entropy floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import StratifiedShuffleSplit

from polyopt.base.types import SamplesLike, Splits
from polyopt.cpm.estimator import ConvexPolytopeMachine
from polyopt.cpm.two_sides import BOTH
from polyopt.estimators.parameters import estimator
from polyopt.estimators.search import Chosen, ClassifierSearch, Table, Trials, told_of

if TYPE_CHECKING:
    import pandas as pd

_COSTS = (0.001, 0.01, 0.1, 1.0, 10.0)  # C, as tried by default
_COLUMNS = ["stage", "C", "perplexity", "error", "deviation", "seconds"]
_OUTSIDE = ("given", "search")


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
    outside : {"given", "search"}, default="given"
        "search" tries every cost with each class outside, and with both (``inside_label="both"``), and takes
        the best of all; "given" leaves it as the estimator has it. With more than two classes, one side for
        every pair, its later class outside, is tried against both.
    costs : sequence of float
        Candidates for C.
    perplexities : sequence of float, optional
        Candidates for the floor; by default those of the paper: jK/10 where that is above 1. No floor
        is always among them.
    cv : int, splitter or iterable, optional
        As in :class:`sklearn.model_selection.GridSearchCV`; by default one stratified split that holds
        out a fifth, by the machine's ``random_state`` where that is an int.

    Attributes
    ----------
    best_params_ : dict
        Its C and sgd__perplexity; with ``outside="search"`` also its inside_label.
    results_ : pandas.DataFrame
        One row per candidate that was tried whole: stage ("cost" or "floor"), inside_label
        where that is searched, C, perplexity, mean and deviation of the error on the samples held out, and
        seconds of a fit.

    References
    ----------
    .. [1] Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope
       Machine, 2014.

    Examples
    --------
    >>> from polyopt import ConvexPolytopeMachine, PolytopeSearch, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = ConvexPolytopeMachine(2, inside_label=1, random_state=0)
    >>> search = PolytopeSearch(machine, costs=(0.001, 0.1), perplexities=(1.0,), cv=2)
    >>> search = search.fit(data.X[:100], data.y[:100])
    >>> search.best_params_
    {'C': 0.1, 'sgd__perplexity': 1.0}
    """

    estimator: ConvexPolytopeMachine | None = None
    _: KW_ONLY
    outside: str = "given"
    costs: Sequence[float] = _COSTS
    perplexities: Sequence[float] | None = None
    cv: Splits | None = None

    def _search(self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]) -> Chosen:
        import pandas as pd

        machine = ConvexPolytopeMachine(solver="sgd") if self.estimator is None else self.estimator
        machine = clone(machine).set_params(sgd__perplexity=1.0)
        # By default the paper's floors h = ln(jK/10).
        tenths = machine.n_faces * np.arange(1, 10) / 10
        shares = tenths if self.perplexities is None else self.perplexities
        if not len(self.costs):
            raise ValueError("costs must name at least one candidate for C")
        sides = self._sides(y)
        costs = [{**side, "C": float(cost)} for side in sides for cost in sorted(self.costs)]
        floors = [
            {"sgd__perplexity": floor} for floor in (1.0, *sorted(s for s in map(float, shares) if s > 1.0))
        ]
        seed = machine.random_state if isinstance(machine.random_state, int | np.integer) else 0
        split = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed) if self.cv is None else self.cv
        trials = Trials(
            type(self).__name__, X, y, weights, cv=split, n_jobs=self.n_jobs, verbose=self.verbose
        )
        with trials.counting(len(costs) + len(floors)):
            found = trials.table(machine, costs)
            tables = [_frame(found, costs).assign(stage="cost", sgd__perplexity=1.0)]
            chosen, kept = {**costs[found.best], "sgd__perplexity": 1.0}, found.machines.get(found.best)
            best = found.mean.max(initial=0.0)
            machine.set_params(**chosen)
            if kept is not None:
                found = trials.table(machine, floors)
                at = {name: chosen[name] for name in costs[0]}
                tables.append(_frame(found, [at | floor for floor in floors]).assign(stage="floor"))
                # Before its end the floors tried may all be worse than none.
                if len(found.numbers) == len(floors) or found.mean.max(initial=0.0) > best:
                    chosen, kept = {**chosen, **floors[found.best]}, found.machines[found.best]
            machine.set_params(**chosen)
            whole = None if kept is None else trials.last(machine)
        columns = [_COLUMNS[0], *sides[0], *_COLUMNS[1:]]
        tables = [table.rename(columns={"sgd__perplexity": "perplexity"}) for table in tables]
        self.results_, self.best_params_ = pd.concat(tables, ignore_index=True)[columns], chosen
        told = told_of(len(self.results_), len(costs) + len(floors), chosen)
        return Chosen(whole, kept, machine, told)

    def _sides(self, y: ArrayLike) -> list[dict[str, object]]:
        """Return the settings by which the classes' places differ; empty ones if those are given."""
        if self.outside not in _OUTSIDE:
            raise ValueError(f"outside must be 'given' or 'search', not {self.outside!r}")
        if self.outside == "given":
            return [{}]
        labels = np.unique(np.asarray(y)).tolist()
        inside = labels if len(labels) == 2 else [None]
        return [{"inside_label": label} for label in [*inside, BOTH]]


def _frame(found: Table, candidates: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """Return the settings of those candidates that were tried, and how they did."""
    import pandas as pd

    columns = {name: [candidates[k][name] for k in found.numbers] for name in candidates[0]}
    errors = {"error": 1.0 - found.mean, "deviation": found.deviation, "seconds": found.seconds}
    return pd.DataFrame({**columns, **errors})
