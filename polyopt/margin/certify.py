"""Certificates of the SVM, the Sigma-SVM and the Relative Margin Machine from data and solution vectors.

The vectors may come from any solver. Each function states the families of rows of its machine, which are
constraints on the outputs f_i = w'x_i + b with one row per sample (:mod:`formulations.families`), and
:func:`certify_families` certifies the point. It compares the objective at w with the dual objective at the
multipliers, both made feasible and with bounds on rounding errors (:mod:`polyopt.margin.certificate`). A
geometry is the feature space of a machine, in which a vector v represents w, with centred samples.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.centred_kernel import CentredKernel
from formulations.families import Families, bounded_families, extend_multipliers, hinge_families, stacked
from formulations.language.arguments import as_weights, at_least, real_array, real_number, within
from formulations.language.recovery import as_data, as_labels
from formulations.language.types import Matrix, MatrixLike
from polyopt.certificates.certificate import Certificate
from polyopt.certificates.points import checked_vector
from polyopt.linalg.kernels import MAX_SQUARE_ROWS, Gram, Kernel, MatrixGram, SampleGram, require_psd
from polyopt.linalg.rounding import Ball
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.geometry import (
    Geometry,
    KernelGeometry,
    LinearGeometry,
    SigmaKernelGeometry,
    SigmaLinearGeometry,
)


def certify_svm(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, *,
    w: ArrayLike | None = None, b: float | None = None, alpha: ArrayLike | None = None,
    kernel: Kernel | None = None, precomputed: bool = False, tol: float = 1e-6, max_iter: int = 2000,
) -> Certificate:  # fmt: skip
    """Certify a point of the SVM, eq. (1) and (2) of Shivaswamy & Jebara (2008).

    Parameters
    ----------
    X : array_like or CSR of shape (n, m), or Gram matrix of shape (n, n)
        The training data; a Gram matrix if `precomputed`.
    y : array_like of shape (n,)
        Labels -1 and +1.
    C : float or array_like of shape (n,)
        Cost per sample; infinite for a hard margin. The multipliers may then prove that no hyperplane
        separates the classes.
    w : array_like of shape (m,), optional
        Normal vector; with `kernel` or `precomputed`, coefficients c (n,), ``w = sum_i c_i phi(x_i)``.
    b : float, optional
        Intercept. By default the optimal one for w.
    alpha : array_like of shape (n,), optional
        Multipliers of the margin rows ``y_i f_i >= 1 - xi_i``, non-negative. At least one of `w` and `alpha`
        is needed; without `alpha` a dual bound is computed from w.
    kernel : Kernel, optional
        The kernel of a kernel machine whose samples are X. Only the Gram matrix's columns of the support
        vectors are computed, by blocks.
    precomputed : bool
        Whether X is a Gram matrix.
    tol : float
        Relative tolerance.
    max_iter : int
        Maximal number of ascent steps for the bound if `alpha` is not given. With a kernel there are fewer
        above about a thousand samples, and none above 63,000: the bound is then that of the multipliers
        guessed from w.

    Raises
    ------
    ValueError
        Wrong shapes or values, or a Gram matrix that :func:`polyopt.linalg.kernels.require_psd` refuses.
    """
    X, y = as_data(X, y)
    return certify_families(
        X, hinge_families(y, C, hard=True), name="the SVM", w=w, b=b, multipliers=_multipliers_by_name(alpha),
        kernel=kernel, precomputed=precomputed, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def certify_sigma_svm(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, D: float = 0.5, *,
    weights: ArrayLike | None = None, w: ArrayLike | None = None, b: float | None = None,
    alpha: ArrayLike | None = None, kernel: Kernel | None = None, precomputed: bool = False,
    tol: float = 1e-6, max_iter: int = 2000,
) -> Certificate:  # fmt: skip
    """Certify a point of the Sigma-SVM, eq. (3) and (4) of Shivaswamy & Jebara (2008).

    Parameters
    ----------
    X, y, C, alpha, kernel, precomputed, tol, max_iter
        As in :func:`certify_svm`; with a kernel the complete Gram matrix is computed.
    D : float
        Share of the output variance in the regulariser, within [0, 1].
    w : array_like, optional
        Normal vector (m,); with `kernel` or `precomputed`, coefficients (n,) of the samples in feature
        space, ``sum_i w_i phi(x_i)``.
    b : float, optional
        Intercept for centred inputs.
    weights : array_like of shape (n,), optional
        Weights of the samples in mean and covariance, positive.

    Raises
    ------
    ValueError
        As in :func:`certify_svm`, or more than 20,000 samples with a kernel.
    """
    X, y = as_data(X, y)
    D = within("D", D, 0.0, 1.0)
    s = np.ones(len(y)) if weights is None else as_weights(weights, len(y))
    if (s == 0).any():
        raise ValueError("weights must be positive; drop the samples whose weight is zero")
    geometry: Geometry  # and size, the length of the vector that represents w in it
    if kernel is None and not precomputed:
        geometry, size = SigmaLinearGeometry(X, D, s), X.shape[1]
    else:
        gram, psd_defect = _checked_gram(X, kernel, precomputed)
        if gram.n > MAX_SQUARE_ROWS:
            raise ValueError(
                f"X has {gram.n} samples, and the Sigma-SVM's kernel needs the whole Gram matrix: "
                f"at most {MAX_SQUARE_ROWS} samples can be certified with a kernel"
            )
        samples = np.arange(gram.n)
        K = gram.K if isinstance(gram, MatrixGram) else gram.panel(samples, np.float64).rows(samples)
        factors = CentredKernel(K, s).factors
        geometry, size = SigmaKernelGeometry(gram, D, s, factors, psd_defect), len(y)
    program = HingeProgram("the Sigma-SVM", geometry, hinge_families(y, C, hard=True))
    v = checked_vector("w", w, (size,))
    multipliers = _multipliers_by_name(alpha)
    return certify_hinge(program, v=v, b=b, multipliers=multipliers, tol=tol, max_iter=max_iter)


def certify_rmm(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0, *, D: ArrayLike = np.inf,
    alpha: ArrayLike | None = None, lam: ArrayLike | None = None, lam_star: ArrayLike | None = None,
    tol: float = 1e-6, **common: Any,
) -> Certificate:  # fmt: skip
    """Certify a point of the Relative Margin Machine, eq. (7) and (8) of Shivaswamy & Jebara (2008).

    Parameters
    ----------
    X, y, C, alpha, tol
        As in :func:`certify_svm`.
    B : float
        Bound on the absolute outputs, at least 0.
    D : float or array_like of shape (n,)
        Cost per unit of slack on the bounds; infinite for bounds that must hold.
    lam, lam_star : array_like of shape (n,), optional
        Multipliers of the bounds ``f_i <= B`` and ``-f_i <= B``; zero by default.
    **common
        ``w``, ``b``, ``kernel``, ``precomputed`` and ``max_iter`` as in :func:`certify_svm`.
    """
    X, y = as_data(X, y)
    rows = hinge_families(y, C, at_least("B", B, 0.0, infinite=True), D, hard=True)
    multipliers = _multipliers_by_name(alpha, bound_above=lam, bound_below=lam_star)
    slack = " with slack on its bounds" if np.isfinite(D).any() else ""
    name = f"the Relative Margin Machine{slack}"
    return certify_families(X, rows, name=name, multipliers=multipliers, tol=tol, **common)


def certify_rmm_bounded(
    X: MatrixLike, y: ArrayLike, U: MatrixLike | None, C: ArrayLike = 1.0, B: float = 2.0, *,
    training: bool = True, D: ArrayLike | None = None, multipliers: Mapping[str, ArrayLike] | None = None,
    tol: float = 1e-6, **common: Any,
) -> Certificate:  # fmt: skip
    """Certify a point of the Relative Margin Machine with bounds at further samples, which have no labels.

    Its program is :func:`formulations.rmm_bounded.qp`.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m), or Gram matrix of shape (n + k, n + k)
        The training data; or, with ``precomputed=True`` and no U, the Gram matrix of the training samples
        followed by the further samples.
    y, C, B, tol
        As in :func:`certify_rmm`.
    U : array_like or CSR of shape (k, m), or None
        The further samples, at which only the bounds hold.
    training : bool
        Whether the bounds hold at the training data, too.
    D : float or array_like of shape (n + k,) or (k,), optional
        Cost per unit of output beyond B, for the bounded samples; by default the bounds are hard.
    multipliers : mapping of str to array_like, optional
        Multipliers of the rows ``margin``, shape (n,), and ``bound_above`` and ``bound_below``, shape
        (n + k,), or (k,) if the bounds hold at the further samples only.
    **common
        ``w``, ``b``, ``kernel``, ``precomputed`` and ``max_iter`` as in :func:`certify_svm`; coefficients of
        a kernel machine are (n + k,).

    Raises
    ------
    ValueError
        Wrong shapes or values; U together with a Gram matrix, or neither of them.
    """
    samples, y = _all_samples(X, y, U, bool(common.get("precomputed", False)))
    n, n_samples = len(y), samples.shape[0]
    n_bounded = n_samples if training else n_samples - n
    cost: NDArray[np.float64] | float = np.inf
    if D is not None:
        cost = np.full(n_samples, np.inf)  # the bounded samples are the last ones
        cost[n_samples - n_bounded :] = D if np.ndim(D) == 0 else real_array("D", D, (n_bounded,))
    rows = bounded_families(y, C, B, n_samples - n, training=training, D=cost)
    if multipliers is not None:
        shapes = {"margin": (n,), "bound_above": (n_bounded,), "bound_below": (n_bounded,)}
        named = {name: real_array(name, mu, shapes.get(name)) for name, mu in multipliers.items()}
        multipliers = extend_multipliers(named, n, n_samples)
    name = "the Relative Margin Machine with bounds at further samples"
    return certify_families(samples, rows, name=name, multipliers=multipliers, tol=tol, **common)


def certify_families(
    X: Matrix, rows: Families, *, name: str = "the machine", w: ArrayLike | None = None,
    b: float | None = None, multipliers: Mapping[str, ArrayLike] | None = None, kernel: Kernel | None = None,
    precomputed: bool = False, tol: float = 1e-6, max_iter: int = 2000,
) -> Certificate:  # fmt: skip
    """Certify a point of the program ``min ½‖w‖² +`` the cost of the slacks of the families `rows`.

    Arguments as in :func:`certify_svm`, except for `name`, the machine's name in the certificate, and
    `multipliers`, arrays (n,) by the names of the families, zeros for families without an entry. At least one
    of `w` and `multipliers` is needed; without multipliers a dual bound is computed from w.
    """
    geometry, size = feature_space(X, kernel, precomputed)
    v = checked_vector("w", w, (size,))
    centred_b = None if b is None else Ball(real_number("b", b))  # the intercept for centred samples
    if b is not None and v is not None:
        centred_b = geometry.centred_intercept(v, real_number("b", b))
    program = HingeProgram(name, geometry, rows)
    return certify_hinge(program, v=v, b=centred_b, multipliers=multipliers, tol=tol, max_iter=max_iter)


def feature_space(
    X: Matrix, kernel: Kernel | None, precomputed: bool
) -> tuple[LinearGeometry | KernelGeometry, int]:
    """Return the feature space of a machine, and the length of the vector that represents w in it."""
    if kernel is None and not precomputed:
        return LinearGeometry(X, centred=True), X.shape[1]
    gram, psd_defect = _checked_gram(X, kernel, precomputed)
    return KernelGeometry(gram, psd_defect), gram.n


def _checked_gram(X: MatrixLike, kernel: Kernel | None, precomputed: bool) -> tuple[Gram, float]:
    """Return the Gram matrix and the magnitude of its most negative eigenvalue; refuse an indefinite one."""
    if kernel is not None and precomputed:
        raise ValueError("kernel must be None if X is a Gram matrix (precomputed=True)")
    gram: Gram = MatrixGram(X) if kernel is None else SampleGram(X, kernel)
    return gram, require_psd(gram)


def _all_samples(
    X: MatrixLike, y: ArrayLike, U: MatrixLike | None, precomputed: bool
) -> tuple[Matrix, NDArray[np.float64]]:
    """Return all samples, or their Gram matrix, and the labels of the first ones."""
    if U is not None and not precomputed:
        return stacked(X, y, U)
    if U is not None or not precomputed:
        raise ValueError("U must be the further samples, or None if X is a Gram matrix that includes them")
    y = as_labels(y)
    K, _ = as_data(X, np.ones(np.shape(X)[0] if np.ndim(X) else 0))
    if K.shape[0] <= len(y):
        raise ValueError(f"X must have more rows than there are labels, {len(y)}, not {K.shape[0]}")
    return K, y


def _multipliers_by_name(alpha: ArrayLike | None, **bounds: ArrayLike | None) -> dict[str, Any] | None:
    """Return multipliers by the names of their families, or None if `alpha` (of the margins) is None."""
    by_name = {name: values for name, values in bounds.items() if values is not None}
    if alpha is None and by_name:
        raise ValueError("lam and lam_star are multipliers beside alpha, which is not given")
    return None if alpha is None else {"margin": alpha, **by_name}
