"""The support vector machine: the case B = infinity, D = 0 of its neighbours, and their yardstick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polyopt.estimators.hinge import HingeClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.program import Program

__all__ = ["SVM"]


class SVM(HingeClassifier):
    """Support vector machine that can be certified and whose multipliers can be read.

    Minimises ``½||w||² + C Σ ξ_i`` subject to ``y_i (w'x_i + b) >= 1 - ξ_i``: eq. (1) of [1]_. The
    intercept is not penalised.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; positive.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel, as in scikit-learn; it must be positive semidefinite on the training data.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the polynomial, RBF and sigmoid kernels.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.
    solver : {"auto", "exact", "smo"}, default="auto"
        "exact" solves the explicit program of ``formulations.svm`` to about 1e-10; "smo" the same
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

    _title = "the SVM"

    def _primal_program(self, X: Any, y: NDArray[Any], costs: NDArray[Any], weights: NDArray[Any]) -> Program:
        from formulations import svm

        return svm.primal(X, y, costs)

    def _dual_program(self, K: NDArray[Any], y: NDArray[Any], costs: NDArray[Any]) -> Program:
        from formulations import svm

        return svm.kernel_dual(K, y, costs)
