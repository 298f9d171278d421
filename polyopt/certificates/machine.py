"""Certificates of any machine of families of rows, from its samples and its vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from formulations.arguments import real_number
from polyopt.certificates.geometry import KernelGeometry, LinearGeometry
from polyopt.certificates.given import checked_vector
from polyopt.certificates.hinge import certify_hinge
from polyopt.certificates.hinge_program import HingeProgram
from polyopt.certificates.rounding import Ball
from polyopt.kernels import Kernel, MatrixGram, SampleGram, require_psd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from formulations.families import Families
    from formulations.matrices import Matrix, MatrixLike
    from polyopt.certificates.certificate import Certificate
    from polyopt.kernels import Gram

__all__ = ["Given", "certify_families", "checked_gram"]


class Given(TypedDict, total=False):
    """The keywords of :func:`certify_families` that every machine's certificate takes as they are."""

    w: ArrayLike | None
    b: float | None
    kernel: Kernel | None
    precomputed: bool
    max_iter: int


def certify_families(
    X: Matrix,
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
    w, b, kernel, precomputed, tol, max_iter
        As in :func:`polyopt.certificates.certify_svm`.
    multipliers : mapping of str to array_like of shape (n,), optional
        By the names of the families, in input order; zeros where a family has none. At least one of `w` and
        `multipliers` is needed; without the latter a dual bound is built.

    Raises
    ------
    ValueError
        Wrong shapes or values, or a Gram matrix that :func:`polyopt.kernels.require_psd` refuses.
    """
    geometry: LinearGeometry | KernelGeometry
    if kernel is None and not precomputed:
        geometry, size = LinearGeometry(X, centred=True), X.shape[1]
    else:
        gram, short = checked_gram(X, kernel, precomputed)
        geometry, size = KernelGeometry(gram, short), gram.n
    v = checked_vector("w", w, (size,))
    given = None if b is None else Ball(real_number("b", b))
    if b is not None and v is not None:
        given = geometry.moved(v, real_number("b", b))
    program = HingeProgram(name, geometry, rows)
    return certify_hinge(program, v=v, b=given, multipliers=multipliers, tol=tol, max_iter=max_iter)


def checked_gram(X: MatrixLike, kernel: Kernel | None, precomputed: bool) -> tuple[Gram, float]:
    """The Gram matrix of a kernel machine, and how far it may be from semidefinite.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m), or Gram matrix of shape (n, n)
        The samples; a Gram matrix if `precomputed`.
    kernel : Kernel or None
        The kernel of the samples; None for a Gram matrix.
    precomputed : bool
        Whether X is a Gram matrix.

    Returns
    -------
    gram : Gram
        The matrix, column by column.
    short : float
        No eigenvalue is below minus this number.

    Raises
    ------
    ValueError
        A kernel beside a Gram matrix, or a matrix that :func:`polyopt.kernels.require_psd` refuses.
    """
    if kernel is not None and precomputed:
        raise ValueError("kernel must be None where X is a Gram matrix (precomputed=True)")
    gram: Gram = MatrixGram(X) if kernel is None else SampleGram(X, kernel)
    return gram, require_psd(gram)
