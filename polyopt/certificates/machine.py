"""Certificates of any machine of families of rows, from its samples and its vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formulations.arguments import real_number
from formulations.families import Families
from polyopt.certificates.geometry import KernelGeometry, LinearGeometry
from polyopt.certificates.given import checked_vector
from polyopt.certificates.hinge import certify_hinge
from polyopt.certificates.hinge_program import HingeProgram
from polyopt.certificates.rounding import Ball
from polyopt.kernels import MatrixGram, SampleGram, require_psd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from polyopt.certificates.certificate import Certificate
    from polyopt.kernels import Kernel

__all__ = ["certify_families"]


def certify_families(
    X: Any,
    rows: Families,
    *,
    name: str = "the machine",
    w: ArrayLike | None = None,
    b: float | None = None,
    multipliers: Mapping[str, ArrayLike] | None = None,
    kernel: Kernel | None = None,
    precomputed: bool = False,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> Certificate:
    """Certify a point of ``min ½‖w‖² +`` the cost of the slacks of some families of rows.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m), or Gram matrix of shape (n, n)
        The training data; a Gram matrix if `precomputed`.
    rows : Families
        The machine's families of rows.
    name : str
        What the certificate calls the machine.
    w : array_like of shape (m,), optional
        Normal vector; with `kernel` or `precomputed`, signed expansion coefficients of shape (n,).
    b : float, optional
        Intercept. By default the best one for w.
    multipliers : mapping of str to array_like of shape (n,), optional
        By the names of the families, in input order; zeros where a family has none. At least one of `w` and
        `multipliers` is needed; without the latter a dual bound is built.
    kernel : Kernel, optional
        The kernel of a kernel machine whose samples are X. No more of the Gram matrix is computed than
        the columns of the support, by blocks.
    precomputed : bool
        Whether X is a Gram matrix.
    tol : float
        Relative tolerance.
    max_iter : int
        Steps spent on the bound where there are no multipliers. With a kernel of more than about a thousand
        samples there are fewer, and of more than 63,000 none: the bound is then of the multipliers that w
        implies.

    Raises
    ------
    ValueError
        Wrong shapes or values, or a Gram matrix that :func:`polyopt.kernels.require_psd` refuses.
    """
    geometry: LinearGeometry | KernelGeometry
    if kernel is None and not precomputed:
        geometry, size = LinearGeometry(X, centred=True), X.shape[1]
    elif kernel is not None and precomputed:
        raise ValueError("kernel must be None where X is a Gram matrix (precomputed=True)")
    else:
        gram = MatrixGram(X) if kernel is None else SampleGram(X, kernel)
        geometry, size = KernelGeometry(gram, require_psd(gram)), gram.n
    v = checked_vector("w", w, (size,))
    given = None if b is None else Ball(real_number("b", b))
    if b is not None and v is not None:
        given = geometry.moved(v, real_number("b", b))
    program = HingeProgram(name, geometry, rows)
    return certify_hinge(program, v=v, b=given, multipliers=multipliers, tol=tol, max_iter=max_iter)
