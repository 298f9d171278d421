"""What the programs of the hinge family share: data, kernel factors, and the way back to b and xi.

The hinge family is the SVM, the Sigma-SVM and the Relative Margin Machine. Each minimises a
quadratic in ``w`` plus ``sum_i C_i xi_i``, so each finds its slacks and its intercept alike from
the scores without intercept, ``g_i = w'x_i`` (or ``(K beta)_i`` for a kernel).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.arguments import real_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = [
    "as_costs",
    "as_data",
    "best_intercept",
    "gram_factor",
    "intercept_interval",
    "moments",
    "slacks",
    "square_sum",
]


def as_data(X: Any, y: ArrayLike) -> tuple[Any, Vector]:
    """Data as a float matrix (CSR stays CSR) and labels as -1.0 and +1.0.

    Parameters
    ----------
    X : array_like or CSR matrix of shape (n, m)
        Samples, or a Gram matrix.
    y : array_like of shape (n,)
        Labels, each -1 or +1.

    Raises
    ------
    ValueError
        Wrong shapes, no rows, values that are not finite, or labels other than -1 and +1.
    """
    if sp.issparse(X):
        if np.issubdtype(X.dtype, np.complexfloating):
            raise ValueError("X must be real; it has complex values")
        X = sp.csr_array(X, dtype=float)
    else:
        X = real_array("X", X)
    y = real_array("y", y)
    if X.ndim != 2 or X.shape[0] == 0:
        raise ValueError(f"X must have two dimensions and at least one row, not shape {X.shape}")
    if y.shape != (X.shape[0],):
        raise ValueError(f"y must have shape ({X.shape[0]},) to match X, not {y.shape}")
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError("X must be finite; it has NaN or infinite values")
    if not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(f"y must hold only -1 and +1, not {np.setdiff1d(y, (-1.0, 1.0))[:3]}")
    return X, y


def as_costs(C: ArrayLike, n: int, *, hard: bool = False) -> Vector:
    """Cost per sample from a scalar or a vector.

    Parameters
    ----------
    C : float or array_like of shape (n,)
        Costs; non-negative and not all zero.
    n : int
        Samples.
    hard : bool
        Whether costs may be infinite, for rows without slack.

    Raises
    ------
    ValueError
        Another shape, a cost that is negative, NaN or (unless `hard`) infinite, or no positive cost at all.
    """

    def refused() -> ValueError:
        kind = "positive" if hard else "finite and positive"
        return ValueError(f"C must be {kind} (per sample: not all zero), not {C!r}")

    try:
        costs = real_array("C", C, finite=not hard)
    except ValueError:
        raise refused() from None
    if costs.shape not in ((), (1,), (n,)):
        raise ValueError(f"C must be one number or have shape ({n},), not {costs.shape}")
    if (costs < 0).any() or not costs.any():
        raise refused()
    return np.broadcast_to(costs, (n,)).copy()


def square_sum(X: Any) -> float:
    """Σ_i ‖x_i‖².

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, m)
        Samples.
    """
    return float((X.multiply(X) if sp.issparse(X) else X * X).sum())


def gram_factor(K: ArrayLike) -> Vector:
    """A factor F with F F' = K, rank-revealing, so that beta'K beta = ||F'beta||^2.

    A quadratic form on a numerically singular K is not recognised as convex; this is. Shape (n, r)
    with r the numerical rank: eigenvalues under 1e-12 of the largest are dropped.

    Raises
    ------
    ValueError
        K is not square and symmetric, or has a clearly negative eigenvalue.
    """
    K = np.asarray(K, dtype=float)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"the Gram matrix must be square, not of shape {K.shape}")
    size = np.abs(K).max(initial=0.0)
    if np.abs(K - K.T).max(initial=0.0) > 1e-8 * size:
        raise ValueError("the Gram matrix must be symmetric")
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    if values[0] < -1e-8 * len(K) * size:
        raise ValueError(
            f"the Gram matrix must be positive semidefinite; its smallest eigenvalue is {values[0]:.3g}. "
            "The dual is not concave for this kernel; choose a Mercer kernel"
        )
    keep = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
    return vectors[:, keep] * np.sqrt(values[keep])


def slacks(f: Vector, y: Vector) -> Vector:
    """The smallest feasible slacks, xi_i = [1 - y_i f_i]_+.

    Parameters
    ----------
    f, y : ndarray of shape (n,)
        Outputs, and labels -1 and +1.
    """
    return np.maximum(0.0, 1.0 - y * f)


def best_intercept(g: Vector, y: Vector, C: ArrayLike, B: float = np.inf) -> float:
    """The intercept that is optimal for given scores: exact, and free of tolerances on multipliers.

    Minimises ``sum_i C_i [1 - y_i (g_i + b)]_+`` over the b with ``|g_i + b| <= B``. The slope of
    this piecewise linear function starts at ``-sum_{y=+1} C_i`` and rises by C_i at each
    breakpoint ``y_i - g_i``; where it is zero on a whole interval (no free support vector), the
    midpoint is taken, as LIBSVM does; an interval without end is left at its finite end.

    Parameters
    ----------
    g : ndarray of shape (n,)
        Scores without intercept.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    C : float or ndarray of shape (n,)
        Costs; infinite for hard margins.
    B : float
        Bound on the outputs; where no b respects it, the middle of the scores is centred.
    """
    costs = np.asarray(C, dtype=float)
    if costs.ndim == 0:
        costs = np.full(len(g), float(costs))
    if np.isinf(costs.max(initial=0.0)):  # a hard margin outweighs all soft ones together
        hard = np.isinf(costs)
        costs = np.where(hard, 1.0 + len(g) * np.where(hard, 0.0, costs).sum(), costs)
    breaks = y - g
    order = breaks.argsort()
    positive = float(costs[y > 0].sum())
    slope = costs[order].cumsum() - positive
    rounding = 1e-12 * float(costs.sum())
    first = int((slope >= -rounding).argmax())
    low = float(breaks[order[first]])
    flat = slope[first] <= rounding
    high = float(breaks[order[first + 1]]) if flat and first + 1 < len(g) else low
    if flat and not (y > 0).any():  # the minimum is flat from -infinity up to the first breakpoint
        low = high = float(breaks[order[0]])
    b_low, b_high = float(-B - g.min()), float(B - g.max())
    if b_low > b_high:
        return (b_low + b_high) / 2
    return (min(max(low, b_low), b_high) + min(max(high, b_low), b_high)) / 2


def intercept_interval(
    g: Vector,
    y: Vector,
    alpha: Vector,
    C: ArrayLike,
    lam: Vector | None = None,
    lam_star: Vector | None = None,
    B: float = np.inf,
    tol: float = 1e-6,
) -> tuple[float, float]:
    """The interval [lo, hi] of every optimal b, read off the multipliers by KKT.

    ``lo`` is the largest of ``y_i - g_i`` over (y_i=+1, alpha_i<C_i) or (y_i=-1, alpha_i>0), of
    ``B - g_i`` over lam_i>0, and of ``-B - g_i`` over all i; ``hi`` is its mirror image.

    Parameters
    ----------
    g : ndarray of shape (n,)
        Scores without intercept.
    y, alpha : ndarray of shape (n,)
        Labels and margin multipliers.
    C : float or ndarray of shape (n,)
        Costs.
    lam, lam_star : ndarray of shape (n,), optional
        Multipliers of ``f <= B`` and ``-f <= B``; absent for the SVM.
    B : float
        Bound on the outputs.
    tol : float
        A multiplier within ``tol`` times the largest cost of a bound counts as at it.
    """
    costs = np.broadcast_to(np.asarray(C, dtype=float), y.shape)
    slack = tol * costs.max()
    above_zero, below_cap = alpha > slack, alpha < costs - slack
    raises = ((y > 0) & below_cap) | ((y < 0) & above_zero)
    lowers = ((y > 0) & above_zero) | ((y < 0) & below_cap)
    lo = float(np.max((y - g)[raises], initial=-np.inf))
    hi = float(np.min((y - g)[lowers], initial=np.inf))
    if np.isfinite(B):
        lo, hi = max(lo, float(-B - g.min())), min(hi, float(B - g.max()))
        if lam is not None:
            lo = max(lo, float(np.max((B - g)[lam > slack], initial=-np.inf)))
        if lam_star is not None:
            hi = min(hi, float(np.min((-B - g)[lam_star > slack], initial=np.inf)))
    return lo, hi


def moments(X: Any, weights: ArrayLike | None = None) -> tuple[Vector, Vector]:
    """Mean (m,) and biased covariance (m, m) of the samples.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    weights : array_like of shape (n,), optional
        How often each sample counts.
    """
    n = X.shape[0]
    s = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    total = s.sum()
    mu = np.asarray(X.T @ s) / total
    if isinstance(X, np.ndarray):
        Xc = X - mu
        return mu, (Xc * s[:, None]).T @ Xc / total
    second = X.T @ (X.multiply(s[:, None])).tocsr()
    return mu, second.toarray() / total - np.outer(mu, mu)
