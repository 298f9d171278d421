"""Certificates of the Relative Margin Machine with bounds at further samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import numpy as np

from formulations.arguments import real_array
from formulations.further import families, spread, stacked
from formulations.recovery import as_data, as_labels
from polyopt.certificates.machine import Given, certify_families

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix, MatrixLike
    from polyopt.certificates.certificate import Certificate

__all__ = ["certify_rmm_bounded"]


def certify_rmm_bounded(
    X: MatrixLike,
    y: ArrayLike,
    U: MatrixLike | None,
    C: ArrayLike = 1.0,
    B: float = 2.0,
    *,
    training: bool = True,
    D: ArrayLike | None = None,
    multipliers: Mapping[str, ArrayLike] | None = None,
    tol: float = 1e-6,
    **given: Unpack[Given],
) -> Certificate:
    """Certify a point of the program of :func:`formulations.rmm_bounded.qp`.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m), or Gram matrix of shape (n + k, n + k)
        The training data; or, with ``precomputed=True`` and no U, the Gram matrix of these and, after them,
        the further samples.
    y : array_like of shape (n,)
        Labels -1 and +1.
    U : array_like or CSR of shape (k, m), or None
        The further samples.
    C : float or array_like of shape (n,)
        Cost per unit of slack on the margins.
    B : float
        Bound on the outputs, at least 0.
    training : bool
        Whether the bounds hold at the training data, too.
    D : float or array_like of shape (n + k,) or (k,), optional
        Cost per unit beyond B, for the samples at which the bounds hold; by default they must hold.
    multipliers : mapping of str to array_like, optional
        Of the row ``margin``, shape (n,), and of ``bound_above`` and ``bound_below``, shape (n + k,), or (k,)
        where the bounds hold at the further samples alone.
    tol : float
        Relative tolerance.
    **given
        ``w``, ``b``, ``kernel``, ``precomputed`` and ``max_iter`` as in
        :func:`polyopt.certificates.machine.certify_families`; coefficients of a kernel machine are (n + k,).

    Raises
    ------
    ValueError
        Wrong shapes or values; U beside a Gram matrix, or neither.
    """
    Z, y = _samples(X, y, U, bool(given.get("precomputed", False)))
    n, count = len(y), Z.shape[0]
    held = count if training else count - n
    price: NDArray[np.float64] | float = np.inf
    if D is not None:
        price = np.full(count, np.inf)
        price[count - held :] = D if np.ndim(D) == 0 else real_array("D", D, (held,))
    rows = families(y, count - n, C, B, training=training, D=price)
    if multipliers is not None:
        shapes = {"margin": (n,), "bound_above": (held,), "bound_below": (held,)}
        named = {name: real_array(name, mu, shapes.get(name)) for name, mu in multipliers.items()}
        multipliers = spread(named, n, count)
    name = "the Relative Margin Machine with bounds at further samples"
    return certify_families(Z, rows, name=name, multipliers=multipliers, tol=tol, **given)


def _samples(
    X: MatrixLike, y: ArrayLike, U: MatrixLike | None, precomputed: bool
) -> tuple[Matrix, NDArray[np.float64]]:
    """All samples, or their Gram matrix, and the labels of the first of them."""
    if U is not None and not precomputed:
        return stacked(X, y, U)
    if U is not None or not precomputed:
        raise ValueError("U must be the further samples, and None where X is a Gram matrix that has them")
    y = as_labels(y)
    K, _ = as_data(X, np.ones(np.shape(X)[0] if np.ndim(X) else 0))
    if K.shape[0] <= len(y):
        raise ValueError(f"X must have more rows than there are labels, {len(y)}, not {K.shape[0]}")
    return K, y
