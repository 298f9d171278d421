"""The support vector machine with the hard-margin loss: cross-entropy method, branch and bound, program."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from formulations.hard_margin_loss_data import HardMarginLossData, as_hard_margin_loss_data
from polyopt.certificates.hard_margin_loss import certify_hard_margin_loss_data
from polyopt.estimators.declaration import estimator
from polyopt.estimators.kernel_light import LightClassifier
from polyopt.estimators.multiplier_frame import multiplier_frame
from polyopt.estimators.parameters import shared
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.matrices import Array
    from polyopt.certificates.certificate import Certificate
    from polyopt.estimators.given import ClassWeight, Seed
    from polyopt.graphs import Graph

__all__ = ["HardMarginLossSVM"]

_LARGEST = 5_000  # samples, whose inner products are held


@estimator
class HardMarginLossSVM(LightClassifier):
    """Linear support vector machine that counts the samples it gives up, however far off they are.

    Minimises ``½‖w‖² + C Σ z_i`` over w, b and z_i of 0 and 1, subject to ``y_i (w·x_i + b) >= 1`` for every
    sample with z_i = 0 [1]_ [2]_. A far outlier costs no more than a near one, so that a few of them cannot
    turn the hyperplane as they turn the SVM's. The intercept is not penalised.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a sample that is misclassified or inside the margin; positive.
    solver : {"auto", "ce", "global", "exact"}, default="auto"
        "ce" (and "auto") is the cross-entropy method over which samples to keep, with what the root of a
        branch and bound proves. "global" goes on from there until the optimum is proven, with combinatorial
        Benders' cuts; on more than a hundred samples of several features that overlap it may never end
        without a `time_limit`. "exact" is the explicit program of ``formulations.hard_margin_loss``, in SCIP
        or, where that is not installed, in HiGHS with tangents of the squares; for comparison.
    time_limit : float, optional
        Seconds at most, for all pairs of classes together; the best point is kept.
    random_state : int, RandomState instance or None, default=None
        Seed of the patterns drawn.
    n_jobs : int, optional
        Pairs of classes trained at once.
    verbose : bool or int, default=False
        Whether to print the progress of long runs, a line a second, on standard error.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (1, m), (1,)
        The hyperplane (binary problems).
    given_up_ : ndarray of int
        Numbers of the samples that are misclassified or inside the margin (binary problems).
    support_ : ndarray of int
        Numbers of the samples on the margin that hold the hyperplane, in input order (binary problems).
    score_ : float
        The objective (binary problems).
    duals_ : pandas.DataFrame
        One row per sample, with the multiplier of its margin in the hard-margin SVM of the samples kept.
    history_ : pandas.DataFrame
        One row per iteration of the cross-entropy method, or record of the branch and bound.

    Notes
    -----
    The loss does not change with the features' scales, but ‖w‖ does: scale the features.

    ``certificate()`` bounds the distance to the best of all points, by the leaves of the branch and bound,
    each evaluated from the data. The bound of "exact" is the solver's word; a tree of 200 nodes looks for the
    proof.

    References
    ----------
    .. [1] Brooks, Support vector machines with the ramp loss and the hard margin loss, Operations Research
       59, 2011.
    .. [2] Santana, Serrano, Schiffer & Vidal, Support vector machines with the hard-margin loss: optimal
       training via combinatorial Benders' cuts, Journal of Global Optimization, 2025.

    Examples
    --------
    >>> from polyopt import HardMarginLossSVM
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0], [99.0]], [0, 0, 1, 1, 0]
    >>> machine = HardMarginLossSVM(C=5.0, random_state=0).fit(X, y)
    >>> machine.given_up_, round(machine.score_, 6), machine.certificate().is_optimal
    (array([4]), 5.5, True)
    """

    C: float = 1.0
    _: KW_ONLY
    solver: str = "auto"
    time_limit: float | None = None
    random_state: Seed = None
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    verbose: bool | int = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **shared("C", "time_limit", "random_state", "class_weight", "n_jobs", "verbose"),
        "solver": [StrOptions({"auto", "ce", "global", "exact"})],
    }

    # What a machine answers by.
    _answers_by: ClassVar[tuple[str, ...]] = (
        "classes_", "n_features_in_", "feature_names_in_", "solver_", "n_iter_", "coef_", "intercept_",
        "support_", "given_up_", "score_", "pairs_", "estimators_", "_pair_places", "_rows", "_asked",
    )  # fmt: skip
    _X: Array = field(init=False)
    _y: Array | None = field(init=False, default=None)  # signs of the labels; None without the data
    _rows: NDArray[np.intp] = field(init=False)
    _costs: Array = field(init=False)
    _searched: float | None = field(init=False)

    # -- fitting -----------------------------------------------------------------------------

    def _fit_binary(self, X: Any, y: Array, weights: Array, rows: NDArray[np.intp]) -> None:
        if len(y) > _LARGEST:
            raise ValueError(
                f"{type(self).__name__} holds the inner products of all samples and takes at most {_LARGEST} "
                f"of them, not {len(y)}: choose fewer, or the SVM"
            )
        from polyopt.outer.hard_margin_loss import solve_hard_margin_loss
        from polyopt.watch import listener

        clock = Clock(self.time_limit)
        self._X, self._y, self._costs, self._rows = X, y, self.C * weights, rows
        self.solver_ = "ce" if self.solver == "auto" else self.solver
        self.solution_, self._searched = solve_hard_margin_loss(
            self._data,
            self.solver_,
            time_limit=clock.left,
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
            progress=listener(),
        )
        self.n_iter_ = max(self.solution_.iterations, 1)
        self.coef_ = self.solution_["w"][None, :]
        self.intercept_ = np.array([float(self.solution_["b"])])
        self.given_up_ = rows[self.solution_["z"] > 0.5]
        self.support_ = rows[self.solution_["margin"] > 0.0]
        self.score_ = self.solution_.objective
        self._warn_if_short(lambda: self._binary_certificate(1e-6))

    @property
    def _data(self) -> HardMarginLossData:
        assert self._y is not None
        return as_hard_margin_loss_data(self._X, self._y, self._costs)

    # -- answering ---------------------------------------------------------------------------

    def _binary_scores(self, X: Any) -> Array:
        return np.asarray(X @ self.coef_[0] + self.intercept_[0])

    def _draw_scores(self, graph: Graph, x: str) -> str:
        return graph.affine(x, self.coef_, self.intercept_)

    def _binary_certificate(self, tol: float) -> Certificate:
        found = self.solution_
        return certify_hard_margin_loss_data(
            self._data,
            self.coef_[0],
            float(self.intercept_[0]),
            alpha=found["margin"],
            searched=self._searched,
            stated=found.bound if self.solver_ == "exact" else None,
            tol=tol,
        )

    def _binary_duals(self) -> pd.DataFrame:
        assert self._y is not None
        f = self._binary_scores(self._X)
        given_up, alpha = self.solution_["z"] > 0.5, self.solution_["margin"]
        states = np.select([given_up, alpha > 0.0], ["given up", "on the margin"], "beyond the margin")
        label = np.where(self._y > 0, self.classes_[1], self.classes_[0])
        family = ("margin", "alpha", alpha, self._y * f - 1.0, states)
        return multiplier_frame([family], self._rows, label, f)

    # -- without the data --------------------------------------------------------------------

    def _drop_data_of_pairs(self, whole: Self) -> None:
        parts = self.estimators_
        self._keep_answers(whole)
        self.estimators_ = parts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
