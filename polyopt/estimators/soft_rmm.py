"""The Relative Margin Machine with slack on its bounds: outputs beyond ±B cost, and are not forbidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formulations.arguments import positive
from formulations.families import Families, bound_families, margin_family
from polyopt.estimators.parameters import Ruled
from polyopt.estimators.rmm import RelativeMarginMachine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.program import Program

__all__ = ["SoftRelativeMarginMachine"]


class SoftRelativeMarginMachine(RelativeMarginMachine):
    """Relative Margin Machine with slack on its bounds: a unit of output beyond ±B costs D.

    Minimises ``½||w||² + C Σ ξ_i + D Σ (τ_i + τ*_i)`` subject to ``y_i f_i >= 1 - ξ_i``,
    ``f_i <= B + τ_i`` and ``-f_i <= B + τ*_i``, ``f_i = w'x_i + b``, no slack below 0. Where one sample far
    out would hold the whole machine of [1]_, here it pays. The intercept is not penalised.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack on a margin; positive.
    B : float, default=2.0
        Where outputs begin to cost, at least 1; infinite for nowhere (the support vector machine).
    D : float, default=1.0
        Cost of a unit of output beyond B; positive. It is the largest multiplier of a bound: above all
        multipliers of the machine without such slack, and at infinity, it is that machine.
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
        program of ``formulations.soft_rmm`` by a general solver. "auto" takes the interior point for a
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
        with another C, B or D it then ends sooner, at the same solution within `tol`.
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
    .. [1] Shivaswamy & Jebara, Relative Margin Machines, 2008; such slack is not investigated there.
    """

    _title = "the Relative Margin Machine with slack on its bounds"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RelativeMarginMachine._parameter_constraints,
        "D": [Ruled(lambda value: positive("D", value, infinite=True))],
    }

    def __init__(
        self, C: float = 1.0, B: float = 2.0, D: float = 1.0, *, kernel: Any = "rbf",
        gamma: float | str = "scale", degree: int = 3, coef0: float = 0.0, solver: str = "auto",
        tol: float = 1e-3, max_iter: int | None = None, time_limit: float | None = None,
        cache_size: float = 500.0, warm_start: bool = False, class_weight: Any = None,
        n_jobs: int | None = None, verbose: bool | int = False,
    ):  # fmt: skip
        super().__init__(
            C, B, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, solver=solver, tol=tol,
            max_iter=max_iter, time_limit=time_limit, cache_size=cache_size, warm_start=warm_start,
            class_weight=class_weight, n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip
        self.D = D

    def _families(self, y: NDArray[Any], weights: NDArray[Any]) -> Families:
        bounds = bound_families(len(y), float(self.B), self.D * weights)
        return Families(margin_family(y, self.C * weights), *bounds)

    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        from formulations import soft_rmm

        if not self._has_slack(rows):
            return super()._primal_program(X, rows, weights)
        return soft_rmm.qp(X, rows["margin"].side, rows["margin"].cap, self.B, rows["bound_above"].cap)

    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        from formulations import soft_rmm

        if not self._has_slack(rows):
            return super()._dual_program(K, rows)
        return soft_rmm.kernel_dual(
            K, rows["margin"].side, rows["margin"].cap, self.B, rows["bound_above"].cap
        )

    def _has_slack(self, rows: Families) -> bool:
        """Whether there are bounds, and a price on them: else it is a machine that has a program already."""
        return bool(np.isfinite(self.B) and rows["bound_above"].has_slack)
