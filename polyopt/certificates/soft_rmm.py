"""Certificates of the Relative Margin Machine with slack on its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from formulations.arguments import at_least
from formulations.recovery import as_data
from polyopt.certificates.machine import Given, certify_families

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from formulations.matrices import MatrixLike
    from polyopt.certificates.certificate import Certificate

__all__ = ["certify_soft_rmm"]


def certify_soft_rmm(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    B: float = 2.0,
    D: ArrayLike = 1.0,
    *,
    multipliers: Mapping[str, ArrayLike] | None = None,
    tol: float = 1e-6,
    **given: Unpack[Given],
) -> Certificate:
    """Certify a point of the program of :func:`formulations.soft_rmm.qp`.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m), or Gram matrix of shape (n, n)
        The training data; a Gram matrix with ``precomputed=True``.
    y : array_like of shape (n,)
        Labels -1 and +1.
    C, D : float or array_like of shape (n,)
        Cost per unit of slack on the margins and on the bounds; D may be infinite.
    B : float
        Bound on the outputs, at least 0.
    multipliers : mapping of str to array_like of shape (n,), optional
        Of the rows ``margin``, ``bound_above`` and ``bound_below``.
    tol : float
        Relative tolerance.
    **given
        ``w``, ``b``, ``kernel``, ``precomputed`` and ``max_iter`` as in
        :func:`polyopt.certificates.machine.certify_families`.
    """
    from formulations import soft_rmm  # with cvxpy

    X, y = as_data(X, y)
    rows = soft_rmm.families(y, C, at_least("B", B, 0.0), D)
    name = "the Relative Margin Machine with slack on its bounds"
    return certify_families(X, rows, name=name, multipliers=multipliers, tol=tol, **given)
