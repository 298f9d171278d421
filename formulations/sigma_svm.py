"""The Sigma-SVM: a support vector machine with a penalty on the variance of its outputs.

Problem
-------
The regulariser is (1−D)‖w‖² + D w'Σw, where w'Σw is the variance of the outputs, and μ and Σ are the mean and
the (biased) covariance of the samples. D = 0 is the SVM; D = 1 is invariant under affine maps of the data.

Variables and shapes
--------------------
w (m,), b scalar, xi (n,); alpha (n,) in the dual. X is (n, m), y is (n,) of -1 and +1, C is a
scalar or (n,), 0 <= D <= 1. Optional weights (n,) are multiplicities of the samples in μ and Σ.

Programs
--------
primal (3); dual (4), with c = Σ α_i y_i (x_i − μ); and kernel_dual, where c'(…)^{-1}c is the SVM's quadratic
form with the kernel of :class:`formulations.centred_kernel.CentredKernel`.

Recovery
--------
w = ((1−D) I + D Σ)^{-1} c (the pseudo-inverse at D = 1, for the least norm);
f(t) = w·(t − μ) + b: b is the intercept for centred inputs.

Multipliers
-----------
As in the SVM: alpha_i is the rate at which the cost rises with the margin required of sample i, beta_i = C_i
− alpha_i. μ cancels in c because Σ α_i y_i = 0.

Infeasible when
---------------
Never for finite C. At D = 1 with a singular Σ, w is not unique. At D = 1 with a kernel of full
rank (RBF) the machine interpolates the labels of any data: use D < 1.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (3), (4) and the kernelised form after
them, read so that both of its terms carry the factor 1/(1−D) once.

Example
-------
>>> from formulations import sigma_svm
>>> from formulations.language.toy_data import two_blobs
>>> X, y = two_blobs()
>>> program = sigma_svm.primal(X, y, C=1.0, D=0.5)
>>> half = program.solve().objective
>>> again = program.set(D=0.9).solve().objective  # re-uses what was built
>>> abs(again - sigma_svm.primal(X, y, C=1.0, D=0.9).solve().objective) < 1e-8
True
"""

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.centred_kernel import CentredKernel
from formulations.families import best_intercept
from formulations.language.arguments import within
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data, gram_factor, moments, slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.svm import IN_FEATURES, alpha_rows, cost_parameter, in_features, margin_rows
from formulations.svm import LETTERS as _SVM_LETTERS

_PAPER = "Shivaswamy & Jebara (2008)"

LETTERS = {
    "c": "= Σᵢ αᵢ yᵢ (xᵢ − μ)",
    "D": "the weight of the variance of the outputs in the regulariser, between 0 and 1",
    "μ": "= (1/n) Σᵢ xᵢ",
    "Σ": "= (1/n) Σᵢ (xᵢ − μ)(xᵢ − μ)'",
    "n": "the number of samples",
    **{letter: _SVM_LETTERS[letter] for letter in ("xᵢ", "yᵢ", "Cᵢ")},
}
_WEIGHTED = {
    **LETTERS,
    "μ": "= (1/n) Σᵢ ωᵢ xᵢ",
    "Σ": "= (1/n) Σᵢ ωᵢ (xᵢ − μ)(xᵢ − μ)'",
    "n": "= Σᵢ ωᵢ",
    "ωᵢ": "the multiplicity of sample $i$ in the mean and the covariance",
}


def _letters_and_data(x: Any, y: NDArray[Any], weights: ArrayLike | None) -> dict[str, Any]:
    """Return the letters of a program and their numbers."""
    if weights is None:
        return {"letters": LETTERS, "data": {"x": x, "y": y, "n": len(y)}}
    return {"letters": _WEIGHTED, "data": {"x": x, "y": y, "ω": weights}}


def _variance_weight(D: float) -> cp.Parameter:
    """Return the parameter D, within [0, 1]."""
    return cp.Parameter(nonneg=True, name="D", value=within("D", D, 0.0, 1.0))


def primal(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, D: float = 0.5, weights: ArrayLike | None = None
) -> Program:
    """State the Sigma-SVM primal, eq. (3).

    Parameters
    ----------
    X, y, C
        Samples (n, m), labels and costs of slack, as in :func:`formulations.svm.primal`.
    D : float
        Share of the output variance in the regulariser, within [0, 1].
    weights : array_like of shape (n,), optional
        How often each sample counts in the mean and the covariance.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    mu, Sigma = moments(X, weights)
    root = gram_factor(Sigma).T
    w, b, xi = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="xi")
    costs, weight = cost_parameter(C, n), _variance_weight(D)
    # 1 - D as a parameter of its own: its sign is then known, and the program stays parametrised.
    rest = cp.CallbackParam(lambda: np.array(1.0 - weight.value), nonneg=True)
    return Program(
        name="sigma_svm.primal",
        title="Sigma-SVM, primal",
        source=f"{_PAPER}, eq. (3)",
        objective=cp.Minimize(
            0.5 * rest * cp.sum_squares(w) + 0.5 * weight * cp.sum_squares(root @ w) + costs @ xi
        ),
        objective_text="(1−D)/2 ‖w‖² + D/2 ‖Σ^½ w‖² + Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "b": b, "xi": xi},
        rows=margin_rows(y, X @ w - mu @ w + b, xi, "w·(xᵢ − μ) + b"),
        parameters={"C": costs, "D": weight},
        **_letters_and_data(X, y, weights),
    )


def _dual_in_basis(
    points: NDArray[Any], variances: NDArray[Any], y: NDArray[Any], C: ArrayLike, D: float, name: str, title:
    str, fields: dict[str, Any],
) -> Program:  # fmt: skip
    """State the dual (4) with the centred `points` (n, r) given in a basis where Sigma = diag(variances)."""
    n = len(y)
    alpha, costs, weight = cp.Variable(n, name="alpha"), cost_parameter(C, n), _variance_weight(D)
    if not points.size:  # samples that are all the same; cvxpy has no empty sum of squares
        points, variances = np.zeros((n, 1)), np.zeros(1)

    def shrink() -> NDArray[Any]:
        strength = (1.0 - weight.value) + weight.value * variances
        return np.where(strength > 0, 1.0 / np.sqrt(np.where(strength > 0, strength, 1.0)), 0.0)

    root = cp.CallbackParam(shrink, shape=(len(variances),), nonneg=True)
    c = points.T @ cp.multiply(y, alpha)
    balance = Row("b", y @ alpha == 0, "Σᵢ αᵢ yᵢ = 0", "b", "the intercept $b$, for centred inputs")
    return Program(
        name=name,
        title=title,
        source=f"{_PAPER}, eq. (4)",
        objective=cp.Maximize(cp.sum(alpha) - 0.5 * cp.sum_squares(cp.multiply(root, c))),
        objective_text="Σᵢ αᵢ − ½ c'((1−D)I + DΣ)⁻¹c",
        variables={"alpha": alpha},
        rows=(balance, *alpha_rows(alpha, costs)),
        parameters={"C": costs, "D": weight},
        **fields,
    )


def dual(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, D: float = 0.5, weights: ArrayLike | None = None
) -> Program:
    """State the Sigma-SVM dual, eq. (4); arguments as in :func:`primal`.

    It is written in the eigenbasis of Sigma, where the inverse is a division, so that D stays a
    parameter. Directions of variance 0 have no part of c, and are omitted.
    """
    X, y = as_data(X, y)
    mu, Sigma = moments(X, weights)
    variances, axes = np.linalg.eigh(Sigma)
    keep = variances > 1e-12 * max(variances[-1], np.finfo(float).tiny)
    points = X @ axes[:, keep] - mu @ axes[:, keep]
    fields = _letters_and_data(X, y, weights)
    return _dual_in_basis(points, variances[keep], y, C, D, "sigma_svm.dual", "Sigma-SVM, dual", fields)


def kernel_dual(
    K: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, D: float = 0.5, weights: ArrayLike | None = None
) -> Program:
    """State the Sigma-SVM dual for a Gram matrix, in the corrected kernelised form.

    Parameters
    ----------
    K : array_like of shape (n, n)
        Symmetric positive semidefinite Gram matrix, not centred.
    y, C, D, weights
        As in :func:`primal`.
    """
    K, y = as_data(K, y)
    kernel = CentredKernel(K, weights)
    variances = kernel.eigenvalues / kernel.total
    program = _dual_in_basis(
        kernel.root, variances, y, C, D, "sigma_svm.kernel_dual", "Sigma-SVM, kernel dual",
        _letters_and_data(lambda: gram_factor(K), y, weights),
    )  # fmt: skip
    return replace(program, letters={**program.letters, **IN_FEATURES})


def recover(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, D: float, alpha: NDArray[Any], weights: ArrayLike | None = None
) -> dict[str, NDArray[Any]]:
    """Return primal variables w, b, xi of (3) from the dual's alpha."""
    X, y = as_data(X, y)
    mu, Sigma = moments(X, weights)
    c = X.T @ (alpha * y) - mu * (alpha @ y)
    w = np.linalg.pinv((1.0 - D) * np.eye(len(mu)) + D * Sigma, rcond=1e-12, hermitian=True) @ c
    g = X @ w - mu @ w
    b = best_intercept(g, y, C)
    return {"w": w, "b": np.array(b), "xi": slacks(g + b, y)}


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(seed=seed)
    C, D = 1.0, 0.7
    K = (X @ X.T + 1.0) ** 2
    F = gram_factor(K)
    return [
        Duality(primal(X, y, C, D), dual(X, y, C, D), lambda v: recover(X, y, C, D, v["alpha"])),
        Duality(
            in_features(primal(F, y, C, D)),
            kernel_dual(K, y, C, D),
            lambda v: recover(F, y, C, D, v["alpha"]),
        ),
    ]
