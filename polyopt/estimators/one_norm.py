"""The one-norm support vector machine: a linear program with few support vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from formulations.families import best_intercept
from polyopt.certificates.one_norm import certify_one_norm
from polyopt.estimators.expansion import EXPANSION_PARAMETERS, ExpansionClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.solution import Solution
    from polyopt.certificates.certificate import Certificate
    from polyopt.solvers.clock import Clock

    Array = NDArray[np.float64]

__all__ = ["OneNormSVM"]

_NOTHING = 1e-7  # share of the cap under which a coefficient is rounding
_ADVICE = "scale the features to unit variance, or choose solver='highs'"


class OneNormSVM(ExpansionClassifier):
    """One-norm support vector machine over the expansion coefficients.

    Minimises ``Σ α_j + C Σ ξ_i`` subject to ``y_i (Σ_j y_j α_j k(x_i, x_j) + b) >= 1 - ξ_i`` and
    ``0 <= α_j <= C``, a linear program [1]_. Its solutions are sparse, but the one-norm is no bound on the
    number of support vectors: that is what :class:`CrossEntropySVM` minimises. The kernel may be any
    function.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack, and cap of the coefficients; positive.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel, as in scikit-learn; it need be neither semidefinite nor symmetric.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the polynomial, RBF and sigmoid kernels.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.
    solver : {"auto", "highs", "exact"}, default="auto"
        "highs" (and "auto") is the linear program in HiGHS, "exact" the explicit program of
        ``formulations.one_norm.primal`` by a general solver.
    time_limit : float, optional
        Seconds at most, per pair of classes; the point reached is kept.
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply the samples' weights.
    n_jobs : int, optional
        Pairs of classes trained at once.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    support_ : ndarray of int
        Numbers of the samples with a coefficient, in input order (binary problems).
    dual_coef_, intercept_ : ndarray of shape (1, n_support), (1,)
        The expansion: y_j α_j of the support, and b (binary problems).
    coef_ : ndarray of shape (1, m)
        The hyperplane, for the linear kernel (binary problems).
    solution_ : Solution or list of Solution
        The solver's answer (one per pair of classes where there are more than two).
    solver_ : str
        The solver that was used (binary problems).
    duals_ : pandas.DataFrame
        One row per constraint, with its multiplier, in input order.

    Notes
    -----
    A sample's weight multiplies its cost of slack and the cap of its coefficient: it is a repetition.

    References
    ----------
    .. [1] Mannor, Peleg & Rubinstein, slides on the cross-entropy method for classification.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EXPANSION_PARAMETERS,
        "solver": [StrOptions({"auto", "highs", "exact"})],
    }

    _largest_entry = 1e12

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str = "auto",
        time_limit: float | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.time_limit = time_limit
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def _solve(self, K: Array, y: Array, weights: Array, error: float | Array, clock: Clock) -> Solution:
        self.solver_ = "highs" if self.solver == "auto" else self.solver
        costs = self.C * weights
        if self.solver_ == "highs":
            from polyopt.solvers.one_norm import solve_one_norm

            return solve_one_norm(K, y, costs, costs, time_limit=clock.left)
        from formulations.one_norm import primal

        found = primal(K, y, costs).solve(time_limit=clock.left)
        if not found.primal:
            raise RuntimeError(f"{type(self).__name__}: no solver found a point ({found.status}); {_ADVICE}")
        # An interior-point method leaves no coefficient at zero.
        alpha = np.where(found["alpha"] > _NOTHING * costs, np.minimum(found["alpha"], costs), 0.0)
        b = best_intercept(K @ (y * alpha), y, costs)
        return replace(found, primal={**found.primal, "alpha": alpha, "b": np.array(b)})

    def _caps(self) -> Array:
        return self._price_of_loss * self._weights

    def _price(self) -> float:
        return 1.0

    def _prices_of_slack(self) -> Array:
        return self._price_of_loss * self._weights

    def _binary_certificate(self, tol: float) -> Certificate:
        K, error = self._training_kernel()
        return certify_one_norm(
            K,
            self._y,
            self._prices_of_slack(),
            alpha=self._coefficients(),
            b=float(self.intercept_[0]),
            u=self.solution_["margin"],
            tol=tol,
            entry_error=error,
        )
