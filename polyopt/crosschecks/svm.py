"""The support vector machine: its dual, its invariances, its intercepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations import svm
from formulations.families import hinge_families
from formulations.language.recovery import slacks
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, generator
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.interior_point import solve_interior_point

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair

__all__ = ["CHECKS"]

CHECKS = Registry("svm")


@CHECKS.add("T01", 1e-7)
def strong_duality(seed: int) -> Pair:
    """SVM: value of the primal (1) = value of the dual (2).

    Source: Shivaswamy & Jebara (2008), eq. (1), (2).
    """
    X, y, C = blobs(seed)
    return svm.primal(X, y, C).solve().objective, svm.dual(X, y, C).solve().objective


@CHECKS.add("T02", 1e-6)
def norm_from_multipliers(seed: int) -> Pair:
    """SVM: ‖w‖² = 1'α − C 1'ξ at the optimum.

    Source: stationarity and complementarity of Shivaswamy & Jebara (2008), eq. (1).
    """
    X, y, C = blobs(seed)
    point, alpha = svm.primal(X, y, C).solve(), svm.dual(X, y, C).solve()["alpha"]
    return point["w"] @ point["w"], alpha.sum() - C * point["xi"].sum()


@CHECKS.add("T03", 1e-5)
def translation(seed: int) -> Pair:
    """Linear SVM, x → x + t: w is the same, b' = b − w't.

    The paper says after eq. (2) that the SVM is sensitive to translations; with the linear kernel it is
    not, as Σ α_i y_i = 0.

    Source: Shivaswamy & Jebara (2008), eq. (2), corrected.
    """
    X, y, C = blobs(seed)
    t = 5.0 * generator(seed).normal(size=X.shape[1])
    here, there = svm.primal(X, y, C).solve(), svm.primal(X + t, y, C).solve()
    return np.append(there["w"], there["b"]), np.append(here["w"], here["b"] - here["w"] @ t)


@CHECKS.add("T04a", 1e-5)
def scaling(seed: int) -> Pair:
    """SVM, (sX, C/s²): w' = w/s, b' = b.

    Source: Shivaswamy & Jebara (2008), eq. (1), by substitution.
    """
    X, y, C = blobs(seed)
    here, there = svm.primal(X, y, C).solve(), svm.primal(3.0 * X, y, C / 9.0).solve()
    return np.append(there["w"], there["b"]), np.append(here["w"] / 3.0, here["b"])


@CHECKS.add("T04b", 1e-7)
def scaling_of_the_value(seed: int) -> Pair:
    """SVM, (sX, C/s²): the value is divided by s².

    Source: Shivaswamy & Jebara (2008), eq. (1), by substitution.
    """
    X, y, C = blobs(seed)
    return svm.primal(3.0 * X, y, C / 9.0).solve().objective, svm.primal(X, y, C).solve().objective / 9.0


@CHECKS.add("T05a", 1e-6)
def intercepts(seed: int) -> Pair:
    """SVM: every b in [lo, hi] has the optimal objective.

    Source: the optimality conditions of Shivaswamy & Jebara (2008), eq. (1), solved for b.
    """
    X, y, C = blobs(seed)
    program = svm.primal(X, y, C)
    point, alpha = program.solve(), svm.dual(X, y, C).solve()["alpha"]
    g = X @ point["w"]
    values = [
        program.value({"w": point["w"], "b": b, "xi": slacks(g + b, y)})
        for b in np.linspace(*hinge_families(y, C).intercept_interval(g, {"margin": alpha}), 3)
    ]
    return values, point.objective


@CHECKS.add("T05b", 1e-6)
def intercepts_without_a_free_vector(seed: int) -> Pair:
    """SVM of x = −1, +1 at C = 0.1, where no support vector is free: b may be all of [−0.8, 0.8].

    Both multipliers are at C, so w = 0.2.

    Source: worked by hand from Shivaswamy & Jebara (2008), eq. (2).
    """
    X, y, C = np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0]), 0.1
    alpha = svm.dual(X, y, C).solve()["alpha"]
    bracket = hinge_families(y, C).intercept_interval(X @ (X.T @ (alpha * y)), {"margin": alpha})
    return bracket, (-0.8, 0.8)


@CHECKS.add("X02", 1e-6)
def fast_solvers(seed: int) -> Pair:
    """SVM: the decomposition and the interior-point solver find the value of the explicit program.

    Source: Shivaswamy & Jebara (2008), eq. (1), (2).
    """
    X, y, C = blobs(seed)
    rows = hinge_families(y, C)
    fast = [
        solve_decomposition(X @ X.T, rows, tol=1e-7).objective,
        solve_interior_point(X, rows, tol=1e-9).objective,
    ]
    return fast, svm.primal(X, y, C).solve().objective


@CHECKS.add("N01", 1e-3, ">")
def translation_of_a_polynomial_kernel(seed: int) -> Pair:
    """SVM with the kernel (x'z + 1)²: a translation does change the value.

    So the paper's sentence on translations is right for kernels that do not see differences alone.

    Source: Shivaswamy & Jebara (2008), after eq. (2).
    """
    X, y, C = blobs(seed)
    t = generator(seed).normal(size=X.shape[1])
    here, there = (svm.kernel_dual((Z @ Z.T + 1.0) ** 2, y, C).solve().objective for Z in (X, X + t))
    return abs(here - there) / here, 0.0
