"""The Relative Margin Machine along decreasing bounds, starting from the SVM.

The machine is the SVM with bounds |f_i| ≤ B on the outputs f_i at the training samples. Shivaswamy & Jebara
(2008) search B below θ, the largest absolute output of the SVM with the same C, because for B ≥ θ the machine
is the SVM. The feasible set of the dual does not depend on B. So the multipliers of one machine are a
feasible warm start for the next, and cached kernel rows are reused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from formulations.families import Families, hinge_families
from formulations.language.arguments import at_least, tolerance
from formulations.language.clock import Clock
from formulations.language.display import Shown, Summary
from formulations.language.recovery import as_costs, as_data
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, MatrixLike
from polyopt.base.progress import steps
from polyopt.certificates.certificate import Certificate
from polyopt.certificates.path_point import Path, point_summary
from polyopt.linalg.kernels import Kernel, MatrixGram, SampleGram
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.certify import feature_space
from polyopt.margin.geometry import Geometry

_NAME = "Relative Margin Machines"
_FRACTIONS = (1 / 2, 1 / 4, 1 / 10)  # fractions in the default bounds B = 1 + fraction (θ − 1)


@dataclass(frozen=True, repr=False)
class PathPoint(Shown):
    """One machine of a path.

    Attributes
    ----------
    B : float
        The machine's bound; infinite for the SVM that the path starts from.
    solution : Solution
        ``primal`` has ``w``, or ``coef`` with w = Σ coef_i φ(x_i) if rows of the kernel were used, and ``b``;
        ``duals`` has the multipliers of ``margin``, ``bound_above`` and ``bound_below``, the constraints of
        ``formulations.rmm.qp``; ``iterations`` and ``history`` are the solver's.
    certificate : Certificate
        The certificate of the solution.
    """

    B: float
    solution: Solution
    certificate: Certificate

    def _summary(self) -> Summary:
        return point_summary(_NAME, "B", self)


def rmm_path(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, bounds: Sequence[float] | None = None, *,
    kernel: Kernel | None = None, precomputed: bool = False, tol: float = 1e-3,
    certificate_tol: float = 1e-6, time_limit: float | None = None,
) -> Path[PathPoint]:  # fmt: skip
    """Solve the SVM, and then the Relative Margin Machine for a decreasing sequence of bounds.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m), or Gram matrix of shape (n, n)
        Training samples; a Gram matrix if `precomputed`.
    y : array_like of shape (n,)
        Labels -1 and +1, both present.
    C : float or array_like of shape (n,)
        Cost per sample.
    bounds : sequence of float, optional
        Bounds B, each at least 1; they are solved in decreasing order. By default those of the paper,
        ``1 + (θ − 1)/2``, ``1 + (θ − 1)/4`` and ``1 + (θ − 1)/10``, with θ the largest absolute output
        of the SVM.
    kernel : Kernel, optional
        A kernel; linear by default.
    precomputed : bool
        Whether X is a Gram matrix.
    tol : float
        Largest violation of the optimality conditions, in units of the outputs. Linear machines with at
        least as many samples as features, up to 2,000 features, are solved by the interior-point method, to
        a relative gap of at most 1e-8.
    certificate_tol : float
        Tolerance of the certificates.
    time_limit : float, optional
        Seconds for the complete path. After the limit, or after Ctrl-C, no further machine is solved.

    Returns
    -------
    Path, a list of PathPoint
        The support vector machine first, then one machine per bound, in decreasing order of B.

    Raises
    ------
    ValueError
        Data that are not finite, one class only, a bound below 1, or an indefinite kernel.

    References
    ----------
    Shivaswamy & Jebara, Relative Margin Machines (2008), sections 3.2 and 5.
    """
    X, labels = as_data(X, y)
    if len(np.unique(labels)) < 2:
        raise ValueError("rmm_path needs samples of both classes; y has one")
    costs = as_costs(C, len(labels))
    for index, bound in enumerate([] if bounds is None else bounds):
        at_least(f"bounds[{index}]", bound, 1.0, infinite=True)
    tol, certificate_tol = tolerance(tol), tolerance(certificate_tol, "certificate_tol")
    clock = Clock(time_limit)
    kernel = Kernel("linear") if kernel is None else kernel
    solve = _solver(X, kernel, precomputed)
    is_linear = precomputed or kernel.name == "linear"
    geometry, _ = feature_space(X, None if is_linear else kernel, precomputed)
    path: Path[PathPoint] = Path(_NAME, "B")

    def add(B: float) -> PathPoint:
        """Solve and certify the machine with bound B, and append it to the path."""
        rows = hinge_families(labels, costs, B)  # the constraints: margins and, for a finite B, bounds
        solution = solve(rows, tol=tol, time_limit=clock.left)
        title = "the Relative Margin Machine" if np.isfinite(B) else "the SVM"
        v = solution.primal.get("w")  # v represents w in the feature space: w, or expansion coefficients
        if v is None:
            v = geometry.primal_from_dual(solution["coef"])
        certificate = certify_hinge(
            HingeProgram(title, geometry, rows), v=v,
            b=geometry.centred_intercept(v, float(solution["b"])),
            multipliers=solution.duals, tol=certificate_tol,
        )  # fmt: skip
        path.append(PathPoint(B, solution, certificate))
        return path[-1]

    with steps(1 + len(_FRACTIONS if bounds is None else bounds), "machine") as step:
        svm = add(np.inf)
        for B in sorted(_default_bounds(svm.solution, geometry) if bounds is None else bounds, reverse=True):
            step.done()
            if clock.is_over or path[-1].solution.status is Status.INTERRUPTED:
                break
            add(float(B))
    return path


def _solver(X: Matrix, kernel: Kernel, precomputed: bool) -> Callable[..., Solution]:
    """Return a solver for families of constraints.

    It is interior-point for linear machines of few features, else decomposition with warm starts.
    """
    if not precomputed and kernel.name == "linear" and X.shape[1] <= min(2_000, X.shape[0]):
        from polyopt.margin.interior_point import solve_interior_point

        def solve(rows: Families, *, tol: float, time_limit: float | None) -> Solution:
            return solve_interior_point(X, rows, tol=min(tol, 1e-8), time_limit=time_limit)

        return solve
    from polyopt.margin.decomposition import Decomposition

    gram = MatrixGram(X) if precomputed else SampleGram(X, kernel)
    return Decomposition(gram).solve


def _default_bounds(svm: Solution, geometry: Geometry) -> list[float]:
    """Return the paper's bounds, which depend on the SVM's largest absolute output."""
    if "f" in svm.primal:  # the outputs, which only decomposition returns
        theta = float(np.abs(svm["f"]).max())
    else:
        w = svm["w"]
        outputs = geometry.outputs(w) + geometry.centred_intercept(w, float(svm["b"]))
        theta = float(outputs.size.max())  # `size` bounds the absolute values, rounding included
    return [1.0 + max(theta - 1.0, 0.0) * fraction for fraction in _FRACTIONS]
