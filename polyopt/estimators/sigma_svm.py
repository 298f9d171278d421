"""The Sigma-SVM: a large margin and a small variance of the outputs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from polyopt.certificates.sigma_geometry import SigmaKernelGeometry, SigmaLinearGeometry
from polyopt.estimators.hinge import HingeClassifier
from polyopt.estimators.parameters import shared
from polyopt.kernels import MatrixGram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.families import Families
    from formulations.program import Program
    from polyopt.kernels import Gram

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
    solver : {"auto", "exact", "decomposition", "interior-point"}, default="auto"
        "decomposition" solves the dual by working sets, for any kernel; "interior-point" the primal
        of a linear machine, best where there are many more samples than features; "exact" the explicit
        program of ``formulations.sigma_svm`` by a general solver. "auto" takes the interior point for a
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

    _title = "the Sigma-SVM"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HingeClassifier._parameter_constraints,
        **shared("D"),
    }

    def __init__(
        self, C: float = 1.0, D: float = 0.5, *, kernel: Any = "rbf", gamma: float | str = "scale",
        degree: int = 3, coef0: float = 0.0, solver: str = "auto", tol: float = 1e-3,
        max_iter: int | None = None, time_limit: float | None = None, cache_size: float = 500.0,
        warm_start: bool = False, class_weight: Any = None, n_jobs: int | None = None,
        verbose: bool | int = False,
    ):  # fmt: skip
        super().__init__(
            C, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, solver=solver, tol=tol,
            max_iter=max_iter, time_limit=time_limit, cache_size=cache_size, warm_start=warm_start,
            class_weight=class_weight, n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip
        self.D = D

    @property
    def _share(self) -> float:  # type: ignore[override]
        return float(self.D)

    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        from formulations import sigma_svm

        return sigma_svm.primal(X, rows["margin"].side, rows["margin"].cap, self.D, weights)

    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        # In its own kernel the Sigma-SVM is a support vector machine.
        from formulations import svm

        return svm.kernel_dual(K, rows["margin"].side, rows["margin"].cap)

    _is_pairwise = False  # its kernel is centred on all the samples

    def _machine_gram(self, X: Any, weights: NDArray[Any]) -> Gram:
        from formulations.centred_kernel import CentredKernel

        given = super()._machine_gram(X, weights)
        self._centred = CentredKernel(given.panel(None, np.float64).rows(np.arange(given.n)), weights)
        if (
            self.kernel != "linear"
            and self._share == 1.0
            and (self.kernel == "rbf" or self._centred.is_degenerate())
        ):
            warnings.warn(
                "At D=1 with a kernel of full rank the Sigma-SVM interpolates the labels whatever the data; "
                "choose D < 1",
                UserWarning,
                stacklevel=5,
            )
        return MatrixGram(self._centred.gram(self._share))

    def _feature_space(self) -> Any:
        if self.kernel == "linear":
            return SigmaLinearGeometry(self._X, self._share, self._sample_weights)
        return SigmaKernelGeometry(
            self._given_gram(), self._share, self._sample_weights, self._centred.factors, self._short
        )
