"""The Relative Margin Machine: a large margin relative to the spread of the outputs."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from polyopt.estimators.hinge import HingeClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.program import Program

__all__ = ["RelativeMarginMachine"]


class RelativeMarginMachine(HingeClassifier):
    """Relative Margin Machine: a support vector machine whose outputs stay within ±B.

    Minimises ``½||w||² + C Σ ξ_i`` subject to ``y_i f_i >= 1 - ξ_i`` and ``|f_i| <= B`` at every
    training sample, ``f_i = w'x_i + b``: eq. (7) of [1]_. The intercept is not penalised.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; positive.
    B : float, default=2.0
        Bound on the absolute output at every training sample, at least 1. At infinity, or above the
        SVM's largest output, the machine is the SVM; near 1 it is pressed hardest.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel, as in scikit-learn; it must be positive semidefinite on the training data.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the polynomial, RBF and sigmoid kernels.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.
    solver : {"auto", "exact", "smo"}, default="auto"
        "exact" solves the explicit program of ``formulations.rmm`` to about 1e-10; "smo" the same
        program's dual by sequential minimal optimisation to `tol`; "auto" is exact on small data
        and SMO beyond; ``solver_`` says which.
    tol : float, default=1e-3
        Largest violation of the optimality conditions that "smo" leaves, in units of the outputs.
    max_iter : int, optional
        Iterations of the solver at most; the point reached is kept.
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
    solution_ : Solution or list of Solution
        The solver's answer (one per pair of classes where there are more than two).
    solver_ : str
        The solver that was used (binary problems).
    coef_, intercept_ : ndarray of shape (1, m), (1,)
        The hyperplane, for the linear kernel (binary problems).
    dual_coef_ : ndarray of shape (1, n)
        Expansion coefficients, for the other kernels (binary problems).
    support_ : ndarray of int
        Numbers of the samples that carry the solution (binary problems).
    duals_ : pandas.DataFrame
        One row per constraint, with its multiplier, in input order.

    References
    ----------
    .. [1] Shivaswamy & Jebara, Relative Margin Machines, 2008.
    """

    _title = "the Relative Margin Machine"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HingeClassifier._parameter_constraints,
        "B": [Interval(Real, 1, None, closed="both")],
    }

    def __init__(
        self,
        C: float = 1.0,
        B: float = 2.0,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        time_limit: float | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
    ):
        super().__init__(
            C,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            class_weight=class_weight,
            n_jobs=n_jobs,
        )
        self.B = B

    @property
    def _bound(self) -> float:  # type: ignore[override]
        return float(self.B)

    def _primal_program(self, X: Any, y: NDArray[Any], costs: NDArray[Any], weights: NDArray[Any]) -> Program:
        from formulations import rmm, svm

        return rmm.qp(X, y, costs, self.B) if np.isfinite(self.B) else svm.primal(X, y, costs)

    def _dual_program(self, K: NDArray[Any], y: NDArray[Any], costs: NDArray[Any]) -> Program:
        from formulations import rmm, svm

        return rmm.kernel_dual(K, y, costs, self.B) if np.isfinite(self.B) else svm.kernel_dual(K, y, costs)
