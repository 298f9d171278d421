"""The support vector machine: the case B = infinity, D = 0 of its neighbours, and their yardstick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polyopt.estimators.hinge import HingeClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.families import Families
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
    solver : {"auto", "exact", "decomposition", "interior-point"}, default="auto"
        "decomposition" solves the dual by working sets, for any kernel; "interior-point" the primal
        of a linear machine, best where there are many more samples than features; "exact" the explicit
        program of ``formulations.svm`` by a general solver. "auto" takes the interior point for a
        linear machine of up to 2,000 features and at least as many samples, else decomposition;
        ``solver_`` says which.
    tol : float, default=1e-3
        Largest violation of the optimality conditions that decomposition leaves, in units of the
        outputs; the relative duality gap is then within ten times `tol` (at most 0.1). "auto" asks for
        1e-8 at most for up to 2,000 samples; the other solvers always do. A run that ends short warns.
    max_iter : int, optional
        Iterations of the solver at most; the point reached is kept.
    time_limit : float, optional
        Seconds that the solver may take, for each pair of classes; the point reached is kept. Compiling
        on the first call counts. "exact" looks at the clock between its iterations alone, and not while it
        builds the program: with a kernel of thousands of samples either takes minutes.
    cache_size : float, default=500.0
        Megabytes that decomposition may use for kernel rows and for Newton's method.
    warm_start : bool, default=False
        Whether decomposition starts from the last fit's multipliers, if it was of the same samples:
        with another C or B it then ends sooner, at the same solution within `tol`.
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply the samples' weights.
    n_jobs : int, optional
        Pairs of classes trained at once.
    verbose : bool, default=False
        Whether to print the progress of long runs, a line a second, on standard error.

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

    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        from formulations import svm

        return svm.primal(X, rows["margin"].side, rows["margin"].cap)

    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        from formulations import svm

        return svm.kernel_dual(K, rows["margin"].side, rows["margin"].cap)
