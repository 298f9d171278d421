"""The Sigma-SVM: a support vector machine with a penalty on the variance of its outputs.

Problem
-------
With the mean μ and the (biased) covariance Σ of the samples, w'Σw is the variance of the outputs, and

    min  (1−D)/2 ‖w‖² + D/2 w'Σw + Σ_i C_i ξ_i    s.t.  y_i (w·(x_i − μ) + b) ≥ 1 − ξ_i,  ξ_i ≥ 0.      (3)

D = 0 is the SVM; D = 1 is invariant under affine maps of the data.

Variables and shapes
--------------------
w (m,), b scalar, xi (n,); alpha (n,) in the dual. X is (n, m), y is (n,) of -1 and +1, C is a
scalar or (n,), 0 <= D <= 1. Optional weights (n,) are multiplicities of the samples in μ and Σ.

Programs
--------
primal is (3), and dual, with c = Σ α_i y_i (x_i − μ),

    max  Σ_i α_i − ½ c'((1−D)I + DΣ)^{-1}c    s.t.  Σ_i α_i y_i = 0,  0 ≤ α_i ≤ C_i.                    (4)

kernel_dual is (4) in the feature space of a kernel: the quadratic form in α is that of the SVM with the
kernel of :class:`formulations.centred_kernel.CentredKernel`.

Recovery
--------
w = ((1−D) I + D Σ)^{-1} c (the pseudo-inverse at D = 1, for the least norm). The output at a point x is
f(x) = w·(x − μ) + b: b is the intercept for centred inputs.

Multipliers
-----------
As in the SVM: alpha_i is the rate at which the cost rises with the margin required of sample i, and beta_i =
C_i − alpha_i belongs to ξ_i ≥ 0. μ cancels in c because Σ α_i y_i = 0.

Infeasible when
---------------
Never for finite C. At D = 1 with a singular Σ, w is not unique. At D = 1 with a kernel of full
rank (RBF) the machine interpolates the labels of any data: use D < 1.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (3), (4) and the kernelised form after
them, corrected: both of its terms carry the factor 1/(1−D) once.

Example
-------
>>> from formulations import sigma_svm
>>> from formulations.language.toy_data import two_blobs
>>> X, y = two_blobs()
>>> program = sigma_svm.primal(X, y, C=1.0, D=0.5)
>>> first = program.solve().objective
>>> second = program.set(D=0.9).solve().objective  # the compiled program is used again
>>> abs(second - sigma_svm.primal(X, y, C=1.0, D=0.9).solve().objective) < 1e-8
True
"""

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations import svm
from formulations.centred_kernel import CentredKernel
from formulations.families import best_intercept
from formulations.language.arguments import within
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import RANK_TOLERANCE, as_data, gram_factor, moments, slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike

_PAPER = "Shivaswamy & Jebara (2008)"

LETTERS = {  # meaning of the letters in printed formulas
    "c": "= Σᵢ αᵢ yᵢ (xᵢ − μ)",
    "D": "the weight of the variance of the outputs in the regulariser, between 0 and 1",
    "μ": "= (1/n) Σᵢ xᵢ",
    "Σ": "= (1/n) Σᵢ (xᵢ − μ)(xᵢ − μ)'",
    "n": "the number of samples",
    **{letter: svm.LETTERS[letter] for letter in ("xᵢ", "yᵢ", "Cᵢ")},
}
_WEIGHTED = {
    **LETTERS,
    "μ": "= (1/n) Σᵢ ωᵢ xᵢ",
    "Σ": "= (1/n) Σᵢ ωᵢ (xᵢ − μ)(xᵢ − μ)'",
    "n": "= Σᵢ ωᵢ",
    "ωᵢ": "the multiplicity of sample $i$ in the mean and the covariance",
}


def _letters_and_data(x: Any, y: NDArray[Any], weights: ArrayLike | None) -> dict[str, Any]:
    """Return the fields `letters` and `data` of a program."""
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
    root = gram_factor(Sigma).T  # root' root = Sigma
    w, b, xi = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="xi")
    costs, variance_weight = svm.cost_parameter(C, n), _variance_weight(D)
    # 1 - D is a parameter with a known sign: cvxpy then compiles the program once for all D.
    norm_weight = cp.CallbackParam(lambda: np.array(1.0 - variance_weight.value), nonneg=True)
    norm, variance = cp.sum_squares(w), cp.sum_squares(root @ w)
    return Program(
        name="sigma_svm.primal",
        title="Sigma-SVM, primal",
        source=f"{_PAPER}, eq. (3)",
        objective=cp.Minimize(0.5 * norm_weight * norm + 0.5 * variance_weight * variance + costs @ xi),
        objective_text="(1−D)/2 ‖w‖² + D/2 ‖Σ^½ w‖² + Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "b": b, "xi": xi},
        rows=svm.margin_rows(y, X @ w - mu @ w + b, xi, "w·(xᵢ − μ) + b"),
        parameters={"C": costs, "D": variance_weight},
        **_letters_and_data(X, y, weights),
    )


def _dual_in_basis(
    centred: NDArray[Any], variances: NDArray[Any], y: NDArray[Any], C: ArrayLike, D: float, name: str,
    title: str, fields: dict[str, Any],
) -> Program:  # fmt: skip
    """State the dual (4) with the centred samples (n, r) in a basis where Sigma = diag(variances)."""
    n = len(y)
    alpha, variance_weight = cp.Variable(n, name="alpha"), _variance_weight(D)
    if not centred.size:  # all samples are equal; cvxpy has no empty sum of squares
        centred, variances = np.zeros((n, 1)), np.zeros(1)

    def inverse_roots() -> NDArray[Any]:
        metric = (1.0 - variance_weight.value) + variance_weight.value * variances  # of (1−D)I + DΣ
        return np.where(metric > 0, 1.0 / np.sqrt(np.where(metric > 0, metric, 1.0)), 0.0)

    scaling = cp.CallbackParam(inverse_roots, shape=(len(variances),), nonneg=True)
    c = centred.T @ cp.multiply(y, alpha)
    # Fields of a Row: name, constraint, text as printed, letter and meaning of its multiplier.
    balance = Row("b", y @ alpha == 0, "Σᵢ αᵢ yᵢ = 0", "b", "the intercept $b$, for centred inputs")
    bounds = svm.Bounds(parameters={"D": variance_weight})
    return svm.soft_margin_dual(
        C, alpha, cp.multiply(scaling, c), balance, bounds, name=name, title=title,
        source=f"{_PAPER}, eq. (4)", objective_text="Σᵢ αᵢ − ½ c'((1−D)I + DΣ)⁻¹c", **fields,
    )  # fmt: skip


def dual(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, D: float = 0.5, weights: ArrayLike | None = None
) -> Program:
    """State the Sigma-SVM dual, eq. (4); arguments as in :func:`primal`.

    The dual is stated in the eigenbasis of Sigma, where the inverse is a division, so that D stays a
    parameter. Directions of variance 0, along which c has no component, are omitted.
    """
    X, y = as_data(X, y)
    mu, Sigma = moments(X, weights)
    variances, axes = np.linalg.eigh(Sigma)
    is_positive = variances > RANK_TOLERANCE * max(variances[-1], np.finfo(float).tiny)
    axes = axes[:, is_positive]
    return _dual_in_basis(
        X @ axes - mu @ axes, variances[is_positive], y, C, D, "sigma_svm.dual", "Sigma-SVM, dual",
        _letters_and_data(X, y, weights),
    )  # fmt: skip


def kernel_dual(
    K: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, D: float = 0.5, weights: ArrayLike | None = None
) -> Program:
    """State the Sigma-SVM dual for a Gram matrix K (n, n), not centred, in the corrected kernelised form.

    Arguments as in :func:`primal`.
    """
    K, y = as_data(K, y)
    kernel = CentredKernel(K, weights)
    variances = kernel.eigenvalues / kernel.total
    program = _dual_in_basis(
        kernel.root, variances, y, C, D, "sigma_svm.kernel_dual", "Sigma-SVM, kernel dual",
        _letters_and_data(lambda: gram_factor(K), y, weights),
    )  # fmt: skip
    return replace(program, letters={**program.letters, **svm.IN_FEATURES})


def recover(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, D: float, alpha: NDArray[Any], weights: ArrayLike | None = None
) -> dict[str, NDArray[Any]]:
    """Return primal variables w, b, xi of (3) from the dual's alpha."""
    X, y = as_data(X, y)
    mu, Sigma = moments(X, weights)
    c = X.T @ (alpha * y) - mu * (alpha @ y)
    metric = (1.0 - D) * np.eye(len(mu)) + D * Sigma
    w = np.linalg.pinv(metric, rcond=RANK_TOLERANCE, hermitian=True) @ c
    outputs = X @ w - mu @ w  # without b
    b = best_intercept(outputs, y, C)
    return {"w": w, "b": np.array(b), "xi": slacks(outputs + b, y)}


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(seed=seed)
    C, D = 1.0, 0.7
    K = (X @ X.T + 1.0) ** 2
    F = gram_factor(K)
    return [
        Duality(primal(X, y, C, D), dual(X, y, C, D), lambda v: recover(X, y, C, D, v["alpha"])),
        Duality(
            svm.in_features(primal(F, y, C, D)),
            kernel_dual(K, y, C, D),
            lambda v: recover(F, y, C, D, v["alpha"]),
        ),
    ]
