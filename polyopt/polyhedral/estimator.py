"""Base of the estimators Polyceptron, SPLA1, PC-SLP and PLUME.

Their decision function is h(x) = min_k (W_k'x + b_k), positive inside a polytope of K faces. The face at
which a sample's minimum is attained is its cell.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from formulations.language.solution import Solution
from formulations.language.types import Array
from formulations.polyhedral import scores
from polyopt.base.types import Seed
from polyopt.estimators.faces import MAX_SPREAD_RATIO, FaceClassifier
from polyopt.estimators.parameters import estimator, shared
from polyopt.estimators.status import FINE, warn
from polyopt.linalg.used_features import UsedFeatures

if TYPE_CHECKING:
    import pandas as pd

    from polyopt.optim.rounds import Stage

SHARED: dict[str, list[Any]] = {
    **shared(
        "n_faces", "n_init", "max_iter", "time_limit", "class_weight", "random_state", "n_jobs", "verbose"
    ),
    "inside_label": "no_validation",  # type: ignore[dict-item]
}
"""Constraints of the parameters of all polyhedral classifiers."""


@estimator
class PolyhedralClassifier(FaceClassifier):
    """Base of the Polyceptron, SPLA1, PC-SLP and PLUME.

    A subclass solves the binary problem in :meth:`_solve`, certifies it in :meth:`_binary_certificate` and
    lists its multipliers in :meth:`_multipliers`. Labels are +1 inside and -1 outside there.

    Parameters
    ----------
    n_faces : int, default=3
        K, the number of faces.
    inside_label : label, optional
        The class inside (two classes); by default ``classes_[1]``.
    n_init : int, default=10
        Random starts; the best result is kept.

    Attributes
    ----------
    assignment_ : ndarray of int, shape (n,)
        The cell of each sample (binary problems; samples of zero weight left out).
    """

    n_faces: int = 3
    _: KW_ONLY
    solver: str = "auto"
    inside_label: object = None
    n_init: int = 10
    max_iter: int = 100
    time_limit: float | None = None
    random_state: "Seed" = None
    n_jobs: int | None = None
    verbose: bool | int = False

    _outward: ClassVar[float] = -1.0
    _max_spread_ratio: ClassVar[float] = MAX_SPREAD_RATIO
    _auto: ClassVar[str] = "auto"  # name of the solver that "auto" selects

    @abstractmethod
    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        """Return the solution for samples X, labels y and weights c, with the faces ``W`` (K, m+1)."""

    @abstractmethod
    def _multipliers(self) -> dict[str, Any]:
        """Return the columns of ``duals_``: row, letter, place, face, multiplier, ..., state.

        "row" is the name of the constraint, "letter" that of the multiplier, and "place" the index of the
        sample in the stored training data.
        """

    def _pick_solver(self, X: Any) -> str:
        return self._auto if self.solver == "auto" else self.solver

    def _run(
        self, stage: "Stage[Any]", seed: int, first: Callable[[float | None], Array] | None = None
    ) -> Solution:
        """Return the best solution of several starts, preceded by one from the faces that `first` returns."""
        from polyopt.optim.rounds import run_from_many_starts

        return run_from_many_starts(
            [stage],
            n_init=self.n_init if self.n_faces > 1 else 1,  # a convex problem
            time_limit=self.time_limit,
            seed=seed,
            n_jobs=self.n_jobs,
            first=first,
        )

    def _fit_binary(self, X: Any, y: Array, weights: Array, rows: NDArray[np.int64]) -> None:
        self._check_sizes(X, weights)
        used = UsedFeatures.of(X)
        samples = used.samples(X)
        self._side, self.solver_ = self._chosen_side(), self._pick_solver(samples)
        self._X, self._y, self._rows, self._costs = X, self._side * y, rows, weights
        self._advise_scaling(X)
        self._set_solution(used.solution(self._solve(samples, self._y, weights, self._seed())))
        self._assignment = self._scores_of_faces(X).argmin(axis=1)
        status = self.solution_.status
        if status not in FINE:
            warn(self, str(status))

    def _set_solution(self, solution: Solution) -> None:
        self.solution_ = solution
        self.n_iter_ = max(solution.iterations, 1)
        self.W_, self.b_ = solution["W"][:, :-1], solution["W"][:, -1]

    def _binary_duals(self) -> "pd.DataFrame":
        import pandas as pd

        columns = self._multipliers()
        place, face = columns.pop("place"), columns.pop("face")
        labels = np.array([self.outer_label_, self.inside_label_])
        frame = pd.DataFrame(columns)
        frame.insert(2, "sample", self._rows[place])
        frame.insert(3, "face", face)
        frame.insert(4, "label", labels[(self._y[place] > 0).astype(int)])
        output = scores(self._X, self.solution_["W"])[place, face]
        frame.insert(len(frame.columns) - 1, "output", output)  # before "state"
        return frame
