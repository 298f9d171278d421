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

    Arguments are as in :func:`polyopt.certificates.certify_svm`, but for `name`, the name of the machine in
    the certificate, and the multipliers: by the names of the families, (n,) in input order, zeros for a
    family that is not given. At least one of `w` and `multipliers` is needed; without the latter a dual bound
    is built.
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
    """Return the Gram matrix of a kernel machine, and `short`: no eigenvalue is below -short.

    Raise ValueError for a kernel beside a Gram matrix, or a matrix that :func:`polyopt.kernels.require_psd`
    refuses.
    """
    if kernel is not None and precomputed:
        raise ValueError("kernel must be None where X is a Gram matrix (precomputed=True)")
    gram: Gram = MatrixGram(X) if kernel is None else SampleGram(X, kernel)
    return gram, require_psd(gram)
