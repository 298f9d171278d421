"""Front doors: a certificate for each classifier of the hinge family, from its data and its vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.centred_kernel import CentredKernel
from formulations.recovery import as_data
from polyopt.certificates.geometry import KernelGeometry, LinearGeometry
from polyopt.certificates.hinge import HingeProgram, certify_hinge
from polyopt.kernels import Kernel, MatrixGram, SampleGram, require_psd

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from polyopt.certificates.certificate import Certificate
    from polyopt.certificates.geometry import Geometry
    from polyopt.kernels import Gram

__all__ = ["certify_rmm", "certify_sigma_svm", "certify_svm"]

_GRAM_SAMPLES = 20_000  # the Sigma-SVM's kernel needs the whole matrix, which is 3.2 GB for so many


def certify_svm(
    X: Any,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    *,
    w: ArrayLike | None = None,
    b: float | None = None,
    alpha: ArrayLike | None = None,
    kernel: Kernel | None = None,
    precomputed: bool = False,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> Certificate:
    """Certify a point of the SVM, eq. (1) and (2) of Shivaswamy & Jebara (2008).

    Parameters
    ----------
    X : array_like or CSR of shape (n, m), or Gram matrix of shape (n, n)
        The training data; a Gram matrix if `precomputed`.
    y : array_like of shape (n,)
        Labels -1 and +1.
    C : float or array_like of shape (n,)
        Cost per sample; infinite for a hard margin, where the multipliers may prove that no
        hyperplane separates the classes.
    w : array_like of shape (m,), optional
        Normal vector; with `kernel` or `precomputed`, signed expansion coefficients of shape (n,).
    b : float, optional
        Intercept. By default the best one for w.
    alpha : array_like of shape (n,), optional
        Multipliers of the margin rows, in input order, non-negative. At least one of `w` and
        `alpha` is needed; without `alpha` a dual bound is built.
    kernel : Kernel, optional
        The kernel of a kernel machine whose samples are X. No more of the Gram matrix is computed than
        the columns of the support, by blocks.
    precomputed : bool
        Whether X is a Gram matrix.
    tol : float
        Relative tolerance.
    max_iter : int
        Effort spent on the bound when `alpha` is absent.

    Raises
    ------
    ValueError
        Wrong shapes or values, or a Gram matrix that :func:`polyopt.kernels.require_psd` refuses.
    """
    X, y = as_data(X, y)
    gram = _gram(X, kernel, precomputed)
    geometry: Geometry = LinearGeometry(X) if gram is None else KernelGeometry(gram)
    program = HingeProgram("the SVM", geometry, y, _costs(C, len(y)))
    n, m = len(y), X.shape[1] if gram is None else len(y)
    return certify_hinge(
        program, v=_vector("w", w, m), b=b, alpha=_vector("alpha", alpha, n), tol=tol, max_iter=max_iter
    )


def certify_sigma_svm(
    X: Any,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    D: float = 0.5,
    *,
    w: ArrayLike | None = None,
    b: float | None = None,
    alpha: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    kernel: Kernel | None = None,
    precomputed: bool = False,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> Certificate:
    """Certify a point of the Sigma-SVM, eq. (3) and (4) of Shivaswamy & Jebara (2008).

    Parameters
    ----------
    X, y, C, alpha, kernel, precomputed, tol, max_iter
        As in :func:`certify_svm`; this machine's kernel needs the whole Gram matrix.
    D : float
        Share of the output variance in the regulariser, within [0, 1].
    w : array_like, optional
        Normal vector (m,); with `kernel` or `precomputed`, expansion coefficients (n,) in the Sigma
        kernel.
    b : float, optional
        Intercept for centred inputs.
    weights : array_like of shape (n,), optional
        Weights of the samples in mean and covariance.

    Raises
    ------
    ValueError
        As in :func:`certify_svm`, or more than 20,000 samples with a kernel.
    """
    X, y = as_data(X, y)
    if not 0.0 <= D <= 1.0:
        raise ValueError(f"D must lie in [0, 1], not {D!r}")
    gram = _gram(X, kernel, precomputed)
    geometry: Geometry
    if gram is None:
        geometry = LinearGeometry(X, D, _vector("weights", weights, X.shape[0]))
    else:
        geometry = KernelGeometry(CentredKernel(_whole(gram), weights).gram(D))
    program = HingeProgram("the Sigma-SVM", geometry, y, _costs(C, len(y)))
    n, m = len(y), X.shape[1] if gram is None else len(y)
    return certify_hinge(
        program, v=_vector("w", w, m), b=b, alpha=_vector("alpha", alpha, n), tol=tol, max_iter=max_iter
    )


def certify_rmm(
    X: Any,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    B: float = 2.0,
    *,
    w: ArrayLike | None = None,
    b: float | None = None,
    alpha: ArrayLike | None = None,
    lam: ArrayLike | None = None,
    lam_star: ArrayLike | None = None,
    kernel: Kernel | None = None,
    precomputed: bool = False,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> Certificate:
    """Certify a point of the Relative Margin Machine, eq. (7) and (8) of Shivaswamy & Jebara (2008).

    Parameters
    ----------
    X, y, C, w, b, alpha, kernel, precomputed, tol, max_iter
        As in :func:`certify_svm`.
    B : float
        Bound on the outputs, at least 0.
    lam, lam_star : array_like of shape (n,), optional
        Multipliers of the upper and the lower bound; zero where not given.
    """
    X, y = as_data(X, y)
    if not B >= 0:
        raise ValueError(f"B must be at least 0, not {B!r}")
    gram = _gram(X, kernel, precomputed)
    geometry: Geometry = LinearGeometry(X) if gram is None else KernelGeometry(gram)
    program = HingeProgram("the Relative Margin Machine", geometry, y, _costs(C, len(y)), float(B))
    n, m = len(y), X.shape[1] if gram is None else len(y)
    return certify_hinge(
        program,
        v=_vector("w", w, m),
        b=b,
        alpha=_vector("alpha", alpha, n),
        lam=_vector("lam", lam, n),
        lam_star=_vector("lam_star", lam_star, n),
        tol=tol,
        max_iter=max_iter,
    )


def _gram(X: Any, kernel: Kernel | None, precomputed: bool) -> Gram | None:
    """The Gram matrix of a kernel machine, checked; None for linear features."""
    if kernel is not None and precomputed:
        raise ValueError("kernel must be None where X is a Gram matrix (precomputed=True)")
    if kernel is None and not precomputed:
        return None
    gram: Gram = MatrixGram(X) if kernel is None else SampleGram(X, kernel)
    require_psd(gram)
    return gram


def _whole(gram: Gram) -> NDArray[Any]:
    """The whole Gram matrix, where there is room for it."""
    if gram.n > _GRAM_SAMPLES:
        raise ValueError(
            f"X has {gram.n} samples, and the Sigma-SVM's kernel needs the whole Gram matrix: "
            f"at most {_GRAM_SAMPLES} samples can be certified with a kernel"
        )
    if isinstance(gram, MatrixGram):
        return gram.K
    every = np.arange(gram.n)
    return gram.panel(every, np.float64).rows(every)


def _vector(name: str, values: ArrayLike | None, size: int) -> NDArray[Any] | None:
    """A vector the caller gave, checked; None where it was not given."""
    if values is None:
        return None
    vector = np.asarray(values, dtype=float)
    if vector.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), not {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite; it has NaN or infinite values")
    return vector


def _costs(C: ArrayLike, n: int) -> NDArray[Any]:
    """Costs per sample; unlike a program's, they may be infinite."""
    costs = np.broadcast_to(np.asarray(C, dtype=float), (n,)).copy()
    if np.isnan(costs).any() or (costs < 0).any() or not costs.any():
        raise ValueError(f"C must be positive (per sample: not all zero), not {C!r}")
    return costs
