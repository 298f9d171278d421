"""The Sigma-SVM: a large margin and a small variance of the outputs."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.utils._param_validation import Interval

from polyopt.estimators.hinge import HingeClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.program import Program

__all__ = ["SigmaSVM"]


class SigmaSVM(HingeClassifier):
    """Sigma-SVM: a support vector machine that also keeps the variance of its outputs small.

    Minimises ``(1-D)/2 ||w||² + D/2 w'Σw + C Σ ξ_i`` subject to ``y_i (w'(x_i - μ) + b) >= 1 - ξ_i``
    with μ and Σ the mean and covariance of the training samples: eq. (3) of [1]_, kernelised in the
    corrected form. The intercept is not penalised.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; positive.
    D : float, default=0.5
        Share of the output variance in the regulariser, within [0, 1]. At 0 the machine is the SVM;
        at 1 a linear one is blind to affine changes of the data, and one with a kernel of full rank
        (RBF) is blind to the data altogether: keep D below 1 there.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel, as in scikit-learn; it must be positive semidefinite on the training data.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the polynomial, RBF and sigmoid kernels.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.
    solver : {"auto", "exact", "smo"}, default="auto"
        "exact" solves the explicit program of ``formulations.sigma_svm`` to about 1e-10; "smo" the same
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

    _title = "the Sigma-SVM"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HingeClassifier._parameter_constraints,
        "D": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        C: float = 1.0,
        D: float = 0.5,
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
        self.D = D

    @property
    def _share(self) -> float:  # type: ignore[override]
        return float(self.D)

    def _primal_program(self, X: Any, y: NDArray[Any], costs: NDArray[Any], weights: NDArray[Any]) -> Program:
        from formulations import sigma_svm

        return sigma_svm.primal(X, y, costs, self.D, weights)

    def _dual_program(self, K: NDArray[Any], y: NDArray[Any], costs: NDArray[Any]) -> Program:
        # In its own kernel the Sigma-SVM is a support vector machine.
        from formulations import svm

        return svm.kernel_dual(K, y, costs)

    def _gram(self, K: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        from formulations.centred_kernel import CentredKernel

        self._centred = CentredKernel(K, weights)
        if self._share == 1.0 and self._centred.is_degenerate():
            warnings.warn(
                "At D=1 with a kernel of full rank the Sigma-SVM interpolates the labels whatever the data; "
                "choose D < 1",
                UserWarning,
                stacklevel=5,
            )
        return self._centred.gram(self._share)

    def _cross(self, K_test: NDArray[Any]) -> NDArray[Any]:
        return self._centred.cross(K_test, self._share)
